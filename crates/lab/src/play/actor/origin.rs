use std::collections::BTreeMap;

use bytes::Bytes;
use quickset_base::Time;
use quickset_base::number::Unsigned as _;
use quickset_h3::{BodyRead, Config, Connection as Http, Event as HttpEvent, OnQuic, Request, Response};
use quickset_quic::{ConnectionKey, Event, Node, Side, Stats, StreamEvent, StreamId};

use super::{Application, FlowCredentials};
use crate::play::{FlowSeen, PlayFlow, VideoWatch, Work};

/// The end that has a video and answers all who watch it by HTTP/3, each on a connection of its own. The
/// segment of a number at a bitrate is `/BITRATE/NUMBER`.
pub(crate) struct Origin {
    node: Node,
    video: Option<VideoWatch>,
    guests: BTreeMap<ConnectionKey, OriginGuest>,
    /// In the order in which they came.
    came: Vec<ConnectionKey>,
}

/// A connection with somebody who watches.
struct OriginGuest {
    http: Http,
    /// Bytes that are left to be sent, by stream.
    answers: BTreeMap<StreamId, u64>,
    /// Of the connection, once it has ended.
    stats: Option<Stats>,
}

impl Origin {
    /// One that has what the first of `flows` watches, which is what all of them do.
    pub(crate) fn new(flows: &[PlayFlow], credentials: &FlowCredentials, seed: u64) -> Self {
        let video = flows.iter().find_map(|flow| match &flow.work {
            Work::Watch(watch) => Some(watch.clone()),
            _ => None,
        });
        let transport = flows.first().map(|flow| flow.transport.clone()).unwrap_or_default();
        Self {
            node: credentials.server_node(&transport, flows.len(), seed),
            video,
            guests: BTreeMap::new(),
            came: Vec::new(),
        }
    }

    /// The counters of the connection that came as the `n`-th.
    pub(crate) fn tell(&mut self, n: usize, seen: &mut FlowSeen) {
        let Some(key) = self.came.get(n).copied() else { return };
        let ended = self.guests.get(&key).and_then(|guest| guest.stats.clone());
        let live = self.node.connection(key).map(|connection| connection.stats());
        seen.server = ended.or(live).unwrap_or_default();
    }

    fn verb<T>(
        &mut self,
        now: Time,
        key: ConnectionKey,
        verb: impl FnOnce(&mut Http, &mut OnQuic<'_>) -> T,
    ) -> Option<T> {
        let connection = self.node.connection(key)?;
        Some(verb(&mut self.guests.get_mut(&key)?.http, &mut OnQuic { connection, now }))
    }

    /// Speaks HTTP from the first event of a connection on.
    fn welcome(&mut self, now: Time, key: ConnectionKey) {
        if self.guests.contains_key(&key) {
            return;
        }
        let Some(connection) = self.node.connection(key) else { return };
        let http = Http::new(Side::Server, Config::default(), &mut OnQuic { connection, now });
        self.guests.insert(key, OriginGuest { http, answers: BTreeMap::new(), stats: None });
        self.came.push(key);
    }

    fn on_stream(&mut self, now: Time, key: ConnectionKey, event: StreamEvent) {
        self.verb(now, key, |http, t| http.handle(t, event));
        while let Some(event) = self.guests.get_mut(&key).and_then(|guest| guest.http.poll_event()) {
            match event {
                HttpEvent::Request { id, request, .. } => self.on_request(now, key, id, &request),
                HttpEvent::Readable(id) => self.read(now, key, id),
                HttpEvent::Writable(id) => self.go_on(now, key, id),
                HttpEvent::Stopped { id, .. } | HttpEvent::Aborted { id, .. } => {
                    if let Some(guest) = self.guests.get_mut(&key) {
                        guest.answers.remove(&id);
                    }
                }
                _ => {}
            }
        }
    }

    /// Requests have no content; their end is to be taken all the same.
    fn read(&mut self, now: Time, key: ConnectionKey, id: StreamId) {
        while let Some(Ok(BodyRead::Data(_) | BodyRead::Trailers(_))) =
            self.verb(now, key, |http, t| http.read(t, id, 1000))
        {}
    }

    fn on_request(&mut self, now: Time, key: ConnectionKey, id: StreamId, request: &Request) {
        self.read(now, key, id);
        let path = request.path.as_deref().and_then(|path| std::str::from_utf8(path).ok());
        let Some(bytes) = path.and_then(|path| self.bytes(path)) else {
            self.verb(now, key, |http, t| http.respond(t, id, &Response::new(404), true));
            return;
        };
        let head = Response::new(200).with("content-length", bytes.to_string());
        self.verb(now, key, |http, t| http.respond(t, id, &head, false));
        if let Some(guest) = self.guests.get_mut(&key) {
            guest.answers.insert(id, bytes);
        }
        self.go_on(now, key, id);
    }

    fn bytes(&self, path: &str) -> Option<u64> {
        let (bitrate, number) = path.strip_prefix('/')?.split_once('/')?;
        let (bitrate, number) = (bitrate.parse().ok()?, number.parse().ok()?);
        self.video.as_ref().filter(|video| video.ladder.contains(&bitrate))?.bytes(bitrate, number)
    }

    /// Sends what fits.
    fn go_on(&mut self, now: Time, key: ConnectionKey, id: StreamId) {
        loop {
            let Some(left) = self.guests.get(&key).and_then(|guest| guest.answers.get(&id)).copied() else {
                return;
            };
            if left == 0 {
                if let Some(guest) = self.guests.get_mut(&key) {
                    guest.answers.remove(&id);
                }
                self.verb(now, key, |http, t| http.finish(t, id));
                return;
            }
            let mut part =
                Bytes::from_static(&CONTENT[..left.min(CONTENT.len() as u64).saturated::<usize>()]);
            let Some(Ok(n)) = self.verb(now, key, |http, t| http.send(t, id, &mut part)) else { return };
            if let Some(left) = self.guests.get_mut(&key).and_then(|guest| guest.answers.get_mut(&id)) {
                *left -= n as u64;
            }
        }
    }
}

impl Application for Origin {
    fn node(&mut self) -> &mut Node {
        &mut self.node
    }

    fn on_event(&mut self, now: Time) -> bool {
        let Some((key, event)) = self.node.poll_event() else { return false };
        match event {
            Event::Connected => self.welcome(now, key),
            Event::Stream(event) => {
                // Data can come with the handshake's last flight, and be told first.
                self.welcome(now, key);
                self.on_stream(now, key, event);
            }
            Event::Closed(_) => {
                let stats = self.node.connection(key).map(|connection| connection.stats());
                if let Some(guest) = self.guests.get_mut(&key) {
                    guest.stats = stats;
                    guest.answers.clear();
                }
            }
            _ => {}
        }
        true
    }

    fn on_time(&mut self, _: Time) {}

    fn deadline(&self) -> Option<Time> {
        None
    }
}

/// What segments are made of.
static CONTENT: [u8; 64 << 10] = [b'.'; 64 << 10];
