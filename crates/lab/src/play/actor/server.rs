use bytes::{BufMut as _, Bytes, BytesMut};
use quickset_base::number::Unsigned as _;
use quickset_base::{Duration, Time};
use quickset_quic::{
    Chunk, Connection, ConnectionKey, Dir, Event, Node, Protection, SendError, Stats, StreamEvent, StreamId,
    Ticket, WriteError,
};

use super::outdated::OutdatedMessages;
use super::{Application, FlowCredentials, HEADER, REQUEST};
use crate::play::{
    FlowSeen, GroupSeen, MessageChannel, MessageOrder, MessagePiece, MessageStream, PlayFlow, Schedule,
    ServerLook, Work,
};

/// The end that answers.
pub(crate) struct ServerActor {
    node: Node,
    key: Option<ConnectionKey>,
    requests: Option<StreamId>,
    request_bytes: usize,
    protection: Protection,
    answer: ActorAnswer,
    closed: bool,
    seen: FlowSeen,
}

#[derive(Debug)]
enum ActorAnswer {
    /// Bytes that are left, and when it is looked at how they fare.
    Bytes {
        left: Option<u64>,
        look: Option<Time>,
    },
    Messages(MessageShow),
}

/// A stream of messages under way.
#[derive(Debug)]
struct MessageShow {
    plan: MessageStream,
    protection: Protection,
    /// By channel.
    streams: [Option<StreamId>; 2],
    /// When the first request came.
    began: Option<Time>,
    /// Requests that came.
    asked: usize,
    /// The next message: group, place within it, place over all.
    group: usize,
    place: usize,
    index: u32,
    /// The send buffer is full.
    blocked: bool,
    finished: bool,
    /// What is out and can be outdated.
    out: OutdatedMessages<Ticket>,
}

impl ServerActor {
    pub(crate) fn new(flow: &PlayFlow, credentials: &FlowCredentials, seed: u64) -> Self {
        let answer = match &flow.work {
            Work::Bytes(size) => ActorAnswer::Bytes { left: *size, look: None },
            Work::Visit(_) | Work::Watch(_) => unreachable!("a site answers"),
            Work::Messages(plan) => ActorAnswer::Messages(MessageShow {
                plan: plan.clone(),
                protection: flow.protection.clone(),
                streams: [None; 2],
                began: None,
                asked: 0,
                group: 0,
                place: 0,
                index: 0,
                blocked: false,
                finished: false,
                out: OutdatedMessages::default(),
            }),
        };
        let groups = match &flow.work {
            Work::Bytes(_) | Work::Visit(_) | Work::Watch(_) => 0,
            Work::Messages(messages) => messages.groups.len(),
        };
        Self {
            node: credentials.server_node(&flow.transport, 1, seed),
            key: None,
            requests: None,
            request_bytes: 0,
            protection: flow.protection.clone(),
            answer,
            closed: false,
            seen: FlowSeen { groups: vec![GroupSeen::default(); groups], ..FlowSeen::default() },
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.closed
    }

    pub(crate) fn tell(&mut self, seen: &mut FlowSeen) {
        if let Some(connection) = self.key.and_then(|key| self.node.connection(key)) {
            self.seen.server = connection.stats();
        }
        seen.server = self.seen.server.clone();
        seen.early.clone_from(&self.seen.early);
        seen.abandoned = self.seen.abandoned;
        seen.looks.clone_from(&self.seen.looks);
        if seen.groups.is_empty() {
            seen.groups.clone_from(&self.seen.groups);
        } else {
            for (theirs, mine) in seen.groups.iter_mut().zip(&self.seen.groups) {
                theirs.due = mine.due;
            }
        }
    }

    fn on_stream(&mut self, now: Time, event: StreamEvent) {
        let Some(key) = self.key else { return };
        let Some(connection) = self.node.connection(key) else { return };
        match event {
            StreamEvent::Opened(Dir::Bi) => {
                while let Some(id) = connection.streams().accept(Dir::Bi) {
                    connection
                        .send_stream(id)
                        .set_protection(&self.protection)
                        .expect("the stream was accepted just now");
                    self.requests = Some(id);
                    self.request_bytes += read(connection, id);
                }
            }
            StreamEvent::Readable(id) => self.request_bytes += read(connection, id),
            StreamEvent::Writable(_) | StreamEvent::Available(_) => {
                if let ActorAnswer::Messages(show) = &mut self.answer {
                    show.blocked = false;
                }
            }
            StreamEvent::Outcome(id) => {
                while let Some((ticket, outcome)) = connection.messages(id).next_outcome() {
                    self.seen.abandoned += u64::from(!outcome.is_delivered());
                    if let ActorAnswer::Messages(show) = &mut self.answer {
                        show.out.forget(ticket);
                    }
                }
            }
            _ => {}
        }
        self.answer(now);
    }

    /// Notes what the first packets were, once so many have gone.
    fn look_back(&mut self) {
        if self.seen.early.is_some() {
            return;
        }
        if let Some(connection) = self.key.and_then(|key| self.node.connection(key)) {
            self.seen.early = early(connection);
        }
    }

    /// Notes how the bytes fare.
    fn look(&mut self, now: Time) {
        if let ActorAnswer::Bytes { look, .. } = &mut self.answer {
            *look = Some(now + LOOK_EVERY);
        }
        if let Some(connection) = self.key.and_then(|key| self.node.connection(key)) {
            let stats = connection.stats();
            let (rtt, window, in_flight) = (stats.rtt, stats.window, stats.in_flight);
            self.seen.looks.push(ServerLook { at: now.since(Time::ZERO), rtt, window, in_flight });
        }
    }

    /// Sends what is asked for, due, and fits.
    fn answer(&mut self, now: Time) {
        let asked = self.request_bytes / REQUEST;
        let (Some(key), true) = (self.key, asked > 0) else { return };
        let Some(connection) = self.node.connection(key) else { return };
        match (&mut self.answer, self.requests) {
            (ActorAnswer::Bytes { left, look }, Some(id)) => {
                look.get_or_insert(now);
                write(connection, id, left);
            }
            (ActorAnswer::Messages(show), _) => show.go_on(now, connection, asked, &mut self.seen.groups),
            (ActorAnswer::Bytes { .. }, None) => {}
        }
    }
}

impl MessageShow {
    fn go_on(&mut self, now: Time, connection: &mut Connection, asked: usize, groups: &mut [GroupSeen]) {
        self.began.get_or_insert(now);
        if self.plan.interactive.is_some() {
            for group in groups.iter_mut().take(asked).skip(self.asked) {
                group.due = Some(now.since(Time::ZERO));
            }
        }
        self.asked = asked;
        while !self.blocked && self.due().is_some_and(|due| due <= now) {
            let due = self.due().unwrap_or(now);
            groups[self.group].due.get_or_insert(due.since(Time::ZERO));
            if !self.send_group(now, due, connection) {
                return;
            }
            let channel = self.plan.groups[self.group].channel;
            let Some(id) = self.streams[channel as usize] else {
                (self.group, self.place) = (self.group + 1, 0);
                continue;
            };
            if self.plan.order == MessageOrder::Partial && self.plan.groups[self.group].fence {
                connection.messages(id).fence().expect("the stream is not finished");
            } else if self.plan.groups[self.group].fence {
                // Where no fence says so, repair is told that a group is complete.
                connection.send_stream(id).flush().expect("the stream is not finished");
            }
            (self.group, self.place) = (self.group + 1, 0);
            if self.plan.tell_deadlines {
                connection
                    .messages(id)
                    .next_send_at(self.due_in(channel))
                    .expect("the stream is not finished");
            }
        }
        if self.group == self.plan.groups.len() && !self.finished {
            self.finished = true;
            for id in self.streams.into_iter().flatten() {
                // A stream that the client has stopped needs no end.
                let _ = connection.send_stream(id).finish();
            }
        }
    }

    /// The stream of the channel's next message; `None` when there may be no other for now.
    fn stream(&mut self, connection: &mut Connection, channel: MessageChannel) -> Option<StreamId> {
        let stream = &mut self.streams[channel as usize];
        if stream.is_none() {
            let id = connection.streams().open_messages(Dir::Uni)?;
            connection
                .send_stream(id)
                .set_protection(&self.protection)
                .expect("the stream was opened just now");
            let is_ordered = self.plan.order == MessageOrder::Total;
            connection.messages(id).set_ordered(is_ordered).expect("the stream was opened just now");
            let first_come = self.plan.schedule == Schedule::FirstCome;
            connection.messages(id).set_first_come(first_come).expect("the stream was opened just now");
            if channel == MessageChannel::Urgent {
                connection.send_stream(id).set_urgency(URGENT).expect("the stream was opened just now");
            }
            *stream = Some(id);
        }
        *stream
    }

    /// False when not all of it fits.
    fn send_group(&mut self, now: Time, due: Time, connection: &mut Connection) -> bool {
        let channel = self.plan.groups[self.group].channel;
        while let Some(piece) = self.plan.groups[self.group].messages.get(self.place).copied() {
            let deadline = piece.deadline.filter(|_| self.plan.tell_deadlines).map(|deadline| due + deadline);
            let message = payload(self.group.saturated::<u32>(), self.index, &piece);
            let Some(id) = self.stream(connection, channel) else {
                self.blocked = true;
                return false;
            };
            match connection.messages(id).send(now, message, deadline) {
                Ok(ticket) => {
                    if let (MessageOrder::Latest, Some(area)) = (self.plan.order, piece.area) {
                        for covered in self.out.draw(area, ticket) {
                            connection.messages(id).supersede(covered);
                        }
                    }
                    if self.plan.schedule == Schedule::RoundRobin {
                        let _ = connection.send_stream(id).finish();
                        self.streams[channel as usize] = None;
                    }
                }
                Err(SendError::Blocked) => {
                    self.blocked = true;
                    return false;
                }
                // The client has gone, or wants no more.
                Err(_) => {
                    self.group = self.plan.groups.len();
                    return false;
                }
            }
            (self.place, self.index) = (self.place + 1, self.index + 1);
        }
        true
    }

    /// When the next group of a channel is to be sent, if all is sent when it is due.
    fn due_in(&self, channel: MessageChannel) -> Option<Time> {
        if self.plan.interactive.is_some() {
            return self.due();
        }
        let next = self.plan.groups[self.group..].iter().find(|group| group.channel == channel)?;
        Some(self.began? + next.due)
    }

    /// When the next group is to be sent, if it was asked for.
    fn due(&self) -> Option<Time> {
        let group = self.plan.groups.get(self.group)?;
        match self.plan.interactive {
            None => Some(self.began? + group.due),
            Some(_) => (self.group < self.asked).then_some(self.began?),
        }
    }
}

/// Before what has the usual urgency, 3.
const URGENT: u8 = 2;

impl Application for ServerActor {
    fn node(&mut self) -> &mut Node {
        &mut self.node
    }

    fn on_sent(&mut self) {
        self.look_back();
    }

    fn on_event(&mut self, now: Time) -> bool {
        let Some((key, event)) = self.node.poll_event() else { return false };
        match event {
            Event::Connected => self.key = Some(key),
            Event::Stream(event) => {
                // Data can come with the handshake's last flight, and be told first.
                self.key.get_or_insert(key);
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
        if matches!(self.answer, ActorAnswer::Messages(_)) {
            self.answer(now);
        } else {
            self.look(now);
        }
    }

    fn deadline(&self) -> Option<Time> {
        match &self.answer {
            ActorAnswer::Messages(show) if !show.blocked && !self.closed => show.due(),
            ActorAnswer::Bytes { look, .. } if !self.closed => *look,
            _ => None,
        }
    }
}

/// The counters, once the first packets have gone.
pub(super) fn early(connection: &Connection) -> Option<Stats> {
    let stats = connection.stats();
    (stats.sent_packets >= EARLY).then_some(stats)
}

/// The bytes of requests that came.
fn read(connection: &mut Connection, id: StreamId) -> usize {
    let mut bytes = 0;
    while let Ok(Chunk::Data(data)) = connection.recv_stream(id).read(usize::MAX) {
        bytes += data.len();
    }
    bytes
}

fn write(connection: &mut Connection, id: StreamId, left: &mut Option<u64>) {
    while *left != Some(0) {
        let size =
            left.map_or(CHUNK.len(), |left| CHUNK.len().min(usize::try_from(left).unwrap_or(CHUNK.len())));
        let mut chunk = Bytes::from_static(&CHUNK[..size]);
        match connection.send_stream(id).write(&mut chunk) {
            Ok(taken) => {
                if let Some(left) = left {
                    *left -= taken as u64;
                }
            }
            Err(WriteError::Blocked) => return,
            Err(_) => {
                *left = Some(0);
                return;
            }
        }
    }
    // Ended already when this is told again.
    let _ = connection.send_stream(id).finish();
}

fn payload(group: u32, index: u32, piece: &MessagePiece) -> Bytes {
    let length = (piece.bytes as usize).max(HEADER);
    let mut bytes = BytesMut::with_capacity(length);
    bytes.put_u32(group);
    bytes.put_u32(index);
    bytes.resize(length, b'.');
    bytes.freeze()
}

/// Packets until estimates of the losses say something.
const EARLY: u64 = 2000;
const LOOK_EVERY: Duration = Duration::from_millis(50);
static CHUNK: [u8; 64 << 10] = [b'.'; 64 << 10];
