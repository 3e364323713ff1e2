use std::net::SocketAddr;

use bytes::Bytes;
use quickset_base::number::Unsigned as _;
use quickset_base::{AddressPair, Duration, Time};
use quickset_quic::{
    Chunk, ClientConfig, Closed, Connection, ConnectionKey, Dir, Event, Node, Protection, ReadError,
    StreamEvent, StreamId,
};

use super::{Application, FlowCredentials, HEADER, REQUEST};
use crate::play::{FlowProgress, FlowSeen, MessageArrival, MessageChannel, PlayFlow, Schedule, Work};

/// The end that asks, and measures.
pub(crate) struct ClientActor {
    node: Node,
    config: Option<ClientConfig>,
    server: SocketAddr,
    start: Time,
    protection: Protection,
    work: ClientWanted,
    key: Option<ConnectionKey>,
    requests: Option<StreamId>,
    /// When the next request goes out.
    next_request: Option<Time>,
    /// Streams of messages that have not ended yet.
    streams: usize,
    done: bool,
    seen: FlowSeen,
}

/// What is to come.
#[derive(Debug)]
enum ClientWanted {
    Bytes,
    /// Messages of each group that have not come yet, groups requested, and the pause between requests.
    Messages {
        missing: Vec<u32>,
        requested: usize,
        interactive: Option<Duration>,
    },
}

impl ClientActor {
    pub(crate) fn new(flow: &PlayFlow, credentials: &FlowCredentials, seed: u64, server: SocketAddr) -> Self {
        let (node, config) = credentials.client_node(&flow.transport, seed);
        let work = match &flow.work {
            Work::Bytes(_) => ClientWanted::Bytes,
            Work::Visit(_) => unreachable!("a browser asks"),
            Work::Watch(_) => unreachable!("a player asks"),
            Work::Messages(messages) => ClientWanted::Messages {
                missing: messages
                    .groups
                    .iter()
                    .map(|group| group.messages.len().saturated::<u32>())
                    .collect(),
                requested: 0,
                interactive: messages.interactive,
            },
        };
        let streams = match &flow.work {
            Work::Messages(plan) if plan.schedule == Schedule::RoundRobin => {
                plan.groups.iter().map(|group| group.messages.len()).sum()
            }
            Work::Messages(plan)
                if plan.groups.iter().any(|group| group.channel != MessageChannel::First) =>
            {
                2
            }
            _ => 1,
        };
        let groups = match &work {
            ClientWanted::Bytes => 0,
            ClientWanted::Messages { missing, .. } => missing.len(),
        };
        Self {
            node,
            config: Some(config),
            server,
            start: Time::ZERO + flow.start,
            protection: flow.protection.clone(),
            work,
            key: None,
            requests: None,
            next_request: None,
            streams,
            done: false,
            seen: FlowSeen {
                started: flow.start,
                groups: vec![crate::play::GroupSeen::default(); groups],
                ..FlowSeen::default()
            },
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn tell(&mut self, seen: &mut FlowSeen) {
        if let Some(connection) = self.key.and_then(|key| self.node.connection(key)) {
            self.seen.client = connection.stats();
        }
        let FlowSeen { groups, server, early, abandoned, looks, .. } = std::mem::take(seen);
        *seen = self.seen.clone();
        (seen.server, seen.early, seen.abandoned, seen.looks) = (server, early, abandoned, looks);
        for (mine, theirs) in seen.groups.iter_mut().zip(groups) {
            mine.due = mine.due.or(theirs.due);
        }
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        self.node.connection(self.key?)
    }

    fn connect(&mut self, now: Time) {
        let Some(config) = self.config.take() else { return };
        match self.node.connect(now, &config, AddressPair::to(self.server), "localhost") {
            Ok(key) => self.key = Some(key),
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn on_connected(&mut self, now: Time) {
        self.seen.connected = Some(now.since(Time::ZERO));
        let Some(id) = self.connection().and_then(|connection| connection.streams().open(Dir::Bi)) else {
            return self.fail("the server allows no stream".into());
        };
        let protection = self.protection.clone();
        if let Some(connection) = self.connection() {
            connection.send_stream(id).set_protection(&protection).expect("the stream was opened just now");
        }
        self.requests = Some(id);
        self.request(now);
    }

    /// Asks for the next group, or for everything.
    fn request(&mut self, now: Time) {
        self.next_request = None;
        let mut last = true;
        if let ClientWanted::Messages { missing, requested, interactive } = &mut self.work {
            if interactive.is_some() {
                if let Some(group) = self.seen.groups.get_mut(*requested) {
                    group.requested = Some(now.since(Time::ZERO));
                }
                *requested += 1;
                last = *requested >= missing.len();
            }
        }
        let Some(id) = self.requests else { return };
        let Some(connection) = self.connection() else { return };
        let mut request = Bytes::from_static(&[b'?'; REQUEST]);
        let taken = connection.send_stream(id).write(&mut request);
        // A request is a message of its own: repair for it goes at once.
        let _ = connection.send_stream(id).flush();
        if last && taken.is_ok() {
            // The server may have answered the last one and gone; then nobody misses this end.
            let _ = connection.send_stream(id).finish();
        }
        if let Err(error) = taken {
            self.fail(format!("a request could not be sent: {error}"));
        }
    }

    fn on_stream(&mut self, now: Time, event: StreamEvent) {
        match event {
            StreamEvent::Opened(Dir::Uni) => {
                while let Some(id) =
                    self.connection().and_then(|connection| connection.streams().accept(Dir::Uni))
                {
                    let made = self.connection().map(|connection| connection.messages(id).begin());
                    if matches!(made, Some(Ok(()))) {
                        self.take_messages(now, id);
                    }
                }
            }
            StreamEvent::Readable(id) => self.read(now, id),
            StreamEvent::Message(id) => self.take_messages(now, id),
            _ => {}
        }
    }

    fn read(&mut self, now: Time, id: StreamId) {
        loop {
            let Some(connection) = self.connection() else { return };
            match connection.recv_stream(id).read(usize::MAX) {
                Ok(Chunk::Data(bytes)) => self.count(now, bytes.len() as u64),
                Ok(Chunk::Finished) => {
                    if matches!(self.work, ClientWanted::Bytes) {
                        self.finish(now);
                    }
                    return;
                }
                Ok(Chunk::Blocked) => return,
                Err(error) => return self.fail(error.to_string()),
            }
        }
    }

    fn take_messages(&mut self, now: Time, id: StreamId) {
        loop {
            let Some(connection) = self.connection() else { return };
            match connection.messages(id).recv(now) {
                Ok(Some(message)) => {
                    let Some((group, index)) = which(&message.payload) else {
                        return self.fail("a message came out damaged".into());
                    };
                    let bytes = message.payload.len().saturated::<u32>();
                    let [completed, released] =
                        [message.completed, message.released].map(|t| t.since(Time::ZERO));
                    self.seen.arrivals.push(MessageArrival { group, index, bytes, completed, released });
                    self.count(now, u64::from(bytes));
                    self.on_message(now, group);
                }
                Ok(None) => return,
                Err(ReadError::Finished) => {
                    self.streams = self.streams.saturating_sub(1);
                    if self.streams == 0 {
                        self.finish(now);
                    }
                    return;
                }
                Err(error) => return self.fail(error.to_string()),
            }
        }
    }

    fn on_message(&mut self, now: Time, group: u32) {
        let ClientWanted::Messages { missing, requested, interactive } = &mut self.work else { return };
        let Some(left) = missing.get_mut(group as usize) else { return };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return;
        }
        self.seen.groups[group as usize].complete = Some(now.since(Time::ZERO));
        if let Some(pause) = interactive.filter(|_| *requested < missing.len()) {
            self.next_request = Some(now + pause);
        }
    }

    fn count(&mut self, now: Time, bytes: u64) {
        self.seen.delivered += bytes;
        let at = now.since(Time::ZERO);
        let (delivered, new) = (self.seen.delivered, FlowProgress { at, delivered: self.seen.delivered });
        match self.seen.progress.last_mut() {
            Some(last) if at < last.at + LOOK_EVERY => last.delivered = delivered,
            _ => self.seen.progress.push(new),
        }
    }

    fn finish(&mut self, now: Time) {
        if self.seen.finished.is_none() {
            self.seen.finished = Some(now.since(Time::ZERO));
            if let Some(connection) = self.connection() {
                self.seen.client = connection.stats();
            }
            self.done = true;
        }
    }

    fn fail(&mut self, why: String) {
        self.seen.broken.get_or_insert(why);
        self.done = true;
    }
}

impl Application for ClientActor {
    fn node(&mut self) -> &mut Node {
        &mut self.node
    }

    fn on_event(&mut self, now: Time) -> bool {
        let Some((_, event)) = self.node.poll_event() else { return false };
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
        if self.config.is_some() {
            self.connect(now);
        }
        if self.next_request.is_some_and(|at| at <= now) {
            self.request(now);
        }
    }

    fn deadline(&self) -> Option<Time> {
        if self.config.is_some() { Some(self.start) } else { self.next_request }
    }
}

fn which(payload: &[u8]) -> Option<(u32, u32)> {
    let (group, rest) = payload.get(..HEADER)?.split_at(4);
    Some((u32::from_be_bytes(group.try_into().ok()?), u32::from_be_bytes(rest.try_into().ok()?)))
}

/// Progress is looked at this often at most.
const LOOK_EVERY: Duration = Duration::from_millis(10);
