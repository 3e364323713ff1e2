use std::collections::BTreeMap;

use bytes::Bytes;
use quickset_base::number::Unsigned as _;
use quickset_base::{Duration, Time};
use quickset_h3::{BodyRead, Config, Connection as Http, Event as HttpEvent, OnQuic, Request, Response};
use quickset_quic::{ConnectionKey, Event, Node, Side, StreamEvent, StreamId};

use super::{Application, FlowCredentials, server};
use crate::play::{FlowSeen, PageVisit, PlayFlow, ResourceSeen};

/// The end that answers requests by HTTP/3. How it repairs answers is HTTP's own business, as in any server.
pub(crate) struct SiteActor {
    node: Node,
    key: Option<ConnectionKey>,
    http: Option<Http>,
    visit: PageVisit,
    answers: BTreeMap<StreamId, SiteAnswer>,
    closed: bool,
    seen: FlowSeen,
}

/// An answer under way.
#[derive(Clone, Copy, Debug)]
struct SiteAnswer {
    resource: usize,
    sent: u64,
    begun: Time,
    /// Bytes that the application has so far, if they come bit by bit; and when the next ones come.
    there: u64,
    next: Option<Time>,
}

impl SiteActor {
    pub(crate) fn new(flow: &PlayFlow, visit: &PageVisit, credentials: &FlowCredentials, seed: u64) -> Self {
        Self {
            node: credentials.server_node(&flow.transport, 1, seed),
            key: None,
            http: None,
            visit: visit.clone(),
            answers: BTreeMap::new(),
            closed: false,
            seen: FlowSeen {
                resources: vec![ResourceSeen::default(); visit.resources.len()],
                ..FlowSeen::default()
            },
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.closed
    }

    pub(crate) fn tell(&mut self, seen: &mut FlowSeen) {
        if let Some(connection) = self.key.and_then(|key| self.node.connection(key)) {
            self.seen.server = connection.stats();
        }
        *seen = self.seen.clone();
    }

    fn verb<T>(&mut self, now: Time, verb: impl FnOnce(&mut Http, &mut OnQuic<'_>) -> T) -> Option<T> {
        let connection = self.node.connection(self.key?)?;
        Some(verb(self.http.as_mut()?, &mut OnQuic { connection, now }))
    }

    /// Speaks HTTP from the first event of the connection on.
    fn begin(&mut self, now: Time, key: ConnectionKey) {
        if self.key.is_some() {
            return;
        }
        self.key = Some(key);
        let Some(connection) = self.node.connection(key) else { return };
        let mut t = OnQuic { connection, now };
        let mut http = Http::new(Side::Server, Config::default(), &mut t);
        let (below, protection) = &self.visit.repair;
        http.repair_urgent(&mut t, *below, protection);
        self.http = Some(http);
    }

    fn on_stream(&mut self, now: Time, event: StreamEvent) {
        self.verb(now, |http, t| http.handle(t, event));
        while let Some(event) = self.http.as_mut().and_then(Http::poll_event) {
            match event {
                HttpEvent::Request { id, request, .. } => self.on_request(now, id, &request),
                HttpEvent::Readable(id) => self.read(now, id),
                HttpEvent::Writable(id) => self.go_on(now, id),
                HttpEvent::Stopped { id, .. } | HttpEvent::Aborted { id, .. } => {
                    self.answers.remove(&id);
                }
                _ => {}
            }
        }
    }

    /// Requests have no content; their end is to be taken all the same.
    fn read(&mut self, now: Time, id: StreamId) {
        while let Some(Ok(BodyRead::Data(_) | BodyRead::Trailers(_))) =
            self.verb(now, |http, t| http.read(t, id, 1000))
        {}
    }

    fn on_request(&mut self, now: Time, id: StreamId, request: &Request) {
        self.read(now, id);
        let path = request.path.as_deref().and_then(|path| std::str::from_utf8(path).ok());
        let asked = path.and_then(|path| path.strip_prefix('/')?.parse().ok());
        let found = asked.and_then(|n: usize| Some((n, self.visit.resources.get(n)?)));
        let Some((resource, wanted)) = found else {
            self.verb(now, |http, t| http.respond(t, id, &Response::new(404), true));
            return;
        };
        let head = Response::new(200).with("content-length", wanted.bytes.to_string());
        let (there, next) = if wanted.drip.is_some() { (0, Some(now)) } else { (wanted.bytes, None) };
        self.seen.resources[resource].begun = Some(now.since(Time::ZERO));
        self.answers.insert(id, SiteAnswer { resource, sent: 0, begun: now, there, next });
        self.verb(now, |http, t| http.respond(t, id, &head, false));
        self.come(now, id);
        self.go_on(now, id);
    }

    /// What the application has by now.
    fn come(&mut self, now: Time, id: StreamId) {
        let Some(answer) = self.answers.get_mut(&id) else { return };
        let resource = &self.visit.resources[answer.resource];
        let Some(drip) = resource.drip else { return };
        while answer.next.is_some_and(|next| next <= now) {
            answer.there = (answer.there + drip.bytes).min(resource.bytes);
            let next = answer.begun + drip.due(answer.there);
            answer.next = (answer.there < resource.bytes).then_some(next);
        }
    }

    /// Sends what there is and fits.
    fn go_on(&mut self, now: Time, id: StreamId) {
        loop {
            let Some(answer) = self.answers.get(&id).copied() else { return };
            if answer.sent == self.visit.resources[answer.resource].bytes {
                self.answers.remove(&id);
                self.verb(now, |http, t| http.finish(t, id));
                return;
            }
            let part = (answer.there - answer.sent).min(CONTENT.len() as u64);
            let mut part = Bytes::from_static(&CONTENT[..part.saturated::<usize>()]);
            if part.is_empty() {
                // For now that is all: somebody waits for it.
                self.verb(now, |http, t| http.flush(t, id));
                return;
            }
            let Some(Ok(n)) = self.verb(now, |http, t| http.send(t, id, &mut part)) else { return };
            if let Some(answer) = self.answers.get_mut(&id) {
                answer.sent += n as u64;
            }
        }
    }
}

impl Application for SiteActor {
    fn node(&mut self) -> &mut Node {
        &mut self.node
    }

    fn on_sent(&mut self) {
        if self.seen.early.is_none() {
            if let Some(connection) = self.key.and_then(|key| self.node.connection(key)) {
                self.seen.early = server::early(connection);
            }
        }
    }

    fn on_event(&mut self, now: Time) -> bool {
        let Some((key, event)) = self.node.poll_event() else { return false };
        match event {
            Event::Connected => self.begin(now, key),
            Event::Stream(event) => {
                // Data can come with the handshake's last flight, and be told first.
                self.begin(now, key);
                self.on_stream(now, event);
            }
            Event::Closed(_) => {
                if let Some(connection) = self.node.connection(key) {
                    self.seen.server = connection.stats();
                }
                self.closed = true;
            }
            _ => {}
        }
        true
    }

    fn on_time(&mut self, now: Time) {
        let due: Vec<StreamId> = self.answers.keys().copied().collect();
        for id in due {
            if self.answers.get(&id).and_then(|answer| answer.next).is_some_and(|next| next <= now) {
                self.come(now, id);
                self.go_on(now, id);
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        if self.closed { None } else { self.answers.values().filter_map(|answer| answer.next).min() }
    }
}

impl crate::play::Drip {
    /// When the byte at this place comes, counted from the first one.
    pub(crate) fn due(self, place: u64) -> Duration {
        let nanos =
            u128::from(place / self.bytes.max(1)) * 1_000_000_000 / u128::from(self.per_second.max(1));
        Duration::from_nanos(nanos.saturated::<u64>())
    }
}

/// What resources are made of.
static CONTENT: [u8; 64 << 10] = [b'.'; 64 << 10];
