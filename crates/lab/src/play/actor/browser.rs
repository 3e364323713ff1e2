use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use quickset_base::Time;
use quickset_h3::{BodyRead, Request, VerbRefusal};
use quickset_quic::{Closed, Event, Node, Protection, StreamEvent, StreamId};

use super::asking::{AskingConnection, AskingNews};
use super::{Application, FlowCredentials};
use crate::play::{FlowProgress, FlowSeen, PageVisit, PlayFlow, ResourceSeen};

/// The end that asks for resources by HTTP/3, and measures.
pub(crate) struct Browser {
    asking: AskingConnection,
    start: Time,
    protection: Protection,
    visit: PageVisit,
    /// How many resources each still waits for before it is asked for.
    waits: Vec<usize>,
    /// To be asked for as soon as there is a stream.
    ready: VecDeque<usize>,
    under_way: BTreeMap<StreamId, usize>,
    missing: usize,
    done: bool,
    seen: FlowSeen,
}

impl Browser {
    pub(crate) fn new(
        flow: &PlayFlow,
        visit: &PageVisit,
        credentials: &FlowCredentials,
        seed: u64,
        server: SocketAddr,
    ) -> Self {
        let waits: Vec<usize> = visit.resources.iter().map(|resource| resource.after.len()).collect();
        let ready = (0..waits.len()).filter(|n| waits[*n] == 0).collect();
        let resources = vec![ResourceSeen::default(); waits.len()];
        Self {
            asking: AskingConnection::new(flow, credentials, seed, server),
            start: Time::ZERO + flow.start,
            protection: flow.protection.clone(),
            missing: waits.len(),
            waits,
            ready,
            visit: visit.clone(),
            under_way: BTreeMap::new(),
            done: false,
            seen: FlowSeen { started: flow.start, resources, ..FlowSeen::default() },
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn tell(&mut self, seen: &mut FlowSeen) {
        if let Some(connection) = self.asking.connection() {
            self.seen.client = connection.stats();
        }
        let FlowSeen { resources, server, early, .. } = std::mem::take(seen);
        *seen = self.seen.clone();
        (seen.server, seen.early) = (server, early);
        for (mine, theirs) in seen.resources.iter_mut().zip(resources) {
            mine.begun = theirs.begun;
        }
    }

    fn on_connected(&mut self, now: Time) {
        self.seen.connected = Some(now.since(Time::ZERO));
        self.asking.begin(now);
        self.ask(now);
    }

    /// Asks for what is ready, as far as the server takes requests.
    fn ask(&mut self, now: Time) {
        while let Some(n) = self.ready.front().copied() {
            let mut request = Request::new("GET", "localhost", format!("/{n}"));
            let priority = &self.visit.resources[n].priority;
            if !priority.is_empty() {
                request = request.with("priority", priority.clone());
            }
            match self.asking.verb(now, |http, t| http.request(t, &request, true)) {
                Some(Ok(id)) => {
                    let protection = self.protection.clone();
                    if let Some(connection) = self.asking.connection() {
                        connection
                            .send_stream(id)
                            .set_protection(&protection)
                            .expect("the stream was opened just now");
                    }
                    self.ready.pop_front();
                    self.under_way.insert(id, n);
                    self.seen.resources[n].requested = Some(now.since(Time::ZERO));
                }
                Some(Err(VerbRefusal::Blocked)) | None => return,
                Some(Err(refusal)) => return self.fail(format!("a request could not be made: {refusal}")),
            }
        }
    }

    fn on_stream(&mut self, now: Time, event: StreamEvent) {
        self.asking.handle(now, event);
        while let Some(news) = self.asking.news() {
            match news {
                AskingNews::Readable(id) => self.read(now, id),
                AskingNews::MayAsk => self.ask(now),
                AskingNews::Failed(why) => self.fail(why),
            }
        }
    }

    fn read(&mut self, now: Time, id: StreamId) {
        let Some(n) = self.under_way.get(&id).copied() else { return };
        loop {
            match self.asking.verb(now, |http, t| http.read(t, id, usize::MAX)) {
                Some(Ok(BodyRead::Data(data))) => self.count(now, n, data.len() as u64),
                Some(Ok(BodyRead::Finished)) => {
                    self.under_way.remove(&id);
                    return self.complete(now, n);
                }
                Some(Ok(BodyRead::Trailers(_))) => {}
                Some(Ok(BodyRead::Blocked)) | None => return,
                Some(Err(refusal)) => return self.fail(refusal.to_string()),
            }
        }
    }

    fn count(&mut self, now: Time, n: usize, bytes: u64) {
        let at = now.since(Time::ZERO);
        self.seen.delivered += bytes;
        let resource = &mut self.seen.resources[n];
        let delivered = resource.progress.last().map_or(0, |last| last.delivered) + bytes;
        match resource.progress.last_mut() {
            Some(last) if last.at == at => last.delivered = delivered,
            _ => resource.progress.push(FlowProgress { at, delivered }),
        }
    }

    fn complete(&mut self, now: Time, n: usize) {
        let resource = &mut self.seen.resources[n];
        resource.complete = Some(now.since(Time::ZERO));
        let delivered = resource.progress.last().map_or(0, |last| last.delivered);
        if delivered != self.visit.resources[n].bytes {
            return self.fail(format!("{} has {delivered} bytes", self.visit.resources[n].name));
        }
        for (later, resource) in self.visit.resources.iter().enumerate().skip(n + 1) {
            if resource.after.contains(&n) {
                self.waits[later] -= 1;
                if self.waits[later] == 0 {
                    self.ready.push_back(later);
                }
            }
        }
        self.missing -= 1;
        if self.missing == 0 && self.seen.finished.is_none() {
            self.seen.finished = Some(now.since(Time::ZERO));
            self.done = true;
        }
        self.ask(now);
    }

    fn fail(&mut self, why: String) {
        self.seen.broken.get_or_insert(why);
        self.done = true;
    }
}

impl Application for Browser {
    fn node(&mut self) -> &mut Node {
        &mut self.asking.node
    }

    fn on_event(&mut self, now: Time) -> bool {
        let Some((_, event)) = self.asking.node.poll_event() else { return false };
        match event {
            Event::Connected => self.on_connected(now),
            Event::Stream(event) => self.on_stream(now, event),
            Event::Closed(why) if why != Closed::Locally && self.seen.finished.is_none() => {
                self.fail(why.to_string());
            }
            _ => {}
        }
        true
    }

    fn on_time(&mut self, now: Time) {
        if let Err(error) = self.asking.connect(now) {
            self.fail(error);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.asking.is_unconnected().then_some(self.start)
    }
}
