//! A sender and a receiver over a bad network, against a naive model of what must be delivered when.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use quickset_base::{Duration, Rng, Time};
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::{Dir, Reader, Side, StreamId, varint};

use super::{KEY, view, write_packet};
use crate::packet::{FrameToken, Want};
use crate::streams::fenced::{Fenced, Message, Outcome, RecordMode, RecordReceiver, RecordSender, Ticket};

/// What a run is like, drawn from its seed.
#[derive(Debug)]
struct Case {
    mode: RecordMode,
    ordered: bool,
    latest: bool,
    messages: usize,
    largest: u64,
    tiny: bool,
    fence: f64,
    deadline: f64,
    supersede: f64,
    packet: usize,
    loss: f64,
    duplicate: f64,
    jitter_us: u64,
    window: u64,
    conn_window: u64,
    max_record: u64,
    reads: f64,
    even: bool,
    /// Some packets are source symbols, which hold less.
    symbols: f64,
    /// Of what arrives, what is told as recovered.
    recovery: f64,
}

impl Case {
    fn draw(rng: &mut Rng) -> Self {
        let plain = rng.chance(0.2);
        let drops = rng.chance(0.5);
        let largest = [40, 40, 300, 1500, 5000, 20_000][rng.below(6) as usize];
        let max_record = [1200, 5000, 20_000][rng.below(3) as usize].max(largest);
        let least = max_record + 8;
        Self {
            mode: if plain { RecordMode::Plain } else { RecordMode::Frames },
            ordered: rng.chance(0.3),
            latest: drops && rng.chance(0.3),
            messages: 1 + rng.below(if largest > 1500 { 12 } else { 60 }) as usize,
            largest,
            tiny: !drops,
            fence: [0.0, 0.1, 0.5, 0.9][rng.below(4) as usize],
            deadline: if drops { rng.unit() } else { 0.0 },
            supersede: if drops { rng.unit() * 0.3 } else { 0.0 },
            packet: [60, 150, 1173, 1173, 1425, 9000][rng.below(6) as usize],
            loss: [0.0, 0.05, 0.2, 0.5][rng.below(4) as usize],
            duplicate: rng.unit() * 0.1,
            jitter_us: [0, 3_000, 40_000][rng.below(3) as usize],
            window: [1000, 8000, 60_000][rng.below(3) as usize],
            conn_window: least.max([1000, 30_000, 100_000][rng.below(3) as usize]),
            max_record,
            reads: [1.0, 0.5, 0.1][rng.below(3) as usize],
            even: rng.chance(0.3),
            symbols: [0.0, 0.5, 0.9][rng.below(3) as usize],
            recovery: [0.0, 0.3][rng.below(2) as usize],
        }
    }
}

/// One message as the test knows it.
#[derive(Debug)]
struct Sent {
    payload: Bytes,
    segment: usize,
    deadline: Option<Time>,
    superseded: bool,
    /// Up to where it was sent.
    reached: u64,
    outcome: Option<Outcome>,
    /// Its bytes on the stream, once it was begun.
    at: Option<(u64, u64)>,
    lost: bool,
    abandoned: bool,
    delivered: bool,
}

impl Sent {
    fn size(&self) -> u64 {
        let len = self.payload.len() as u64;
        varint::size(len) as u64 + len
    }

    /// It is of use if it is sent now.
    fn is_timely(&self, now: Time) -> bool {
        self.deadline.is_none_or(|deadline| now + ONE_WAY <= deadline)
    }

    fn is_queued(&self) -> bool {
        self.at.is_none() && self.outcome.is_none()
    }

    fn is_open(&self) -> bool {
        self.at.is_some_and(|(_, end)| self.reached < end) && self.outcome.is_none()
    }
}

/// What the receiver has been given, byte by byte.
#[derive(Default)]
struct Model {
    messages: Vec<Sent>,
    /// Messages that were begun, by offset.
    records: BTreeMap<u64, usize>,
    arrived: Vec<bool>,
    /// Abandoned as far as the receiver knows.
    given_up: Vec<bool>,
    low: usize,
    /// Complete messages with the time of completion, in that order, until they are delivered.
    complete: Vec<(usize, Time)>,
    completed: BTreeSet<usize>,
    expected: VecDeque<Message>,
}

impl Model {
    /// FS-69, FS-70: nothing that is due sooner and that credit up to `limit` lets out waits while a message
    /// begins.
    fn see_begun(&self, index: usize, now: Time, limit: u64) {
        let begun = &self.messages[index];
        let at = begun.at.unwrap().0;
        let place = |m: usize| (self.messages[m].deadline.unwrap_or(Time::MAX), m);
        let fits = |message: &Sent| at + message.size() <= limit;
        let by_deadline = self.messages.iter().any(|message| message.deadline.is_some());
        for (m, other) in self.messages.iter().enumerate().filter(|(_, other)| other.is_timely(now)) {
            let sooner = place(m) < place(index);
            if other.segment < begun.segment {
                // FS-26, FS-71.
                assert!(!other.is_queued() && !other.is_open(), "{m} is of a segment before {index}");
            } else if m != index && other.segment == begun.segment && other.is_queued() {
                let passed = fits(other) && (sooner || (!fits(begun) && by_deadline));
                assert!(!passed, "{index} begins at {at} before {m}, with credit up to {limit}");
            } else if m != index
                && other.segment == begun.segment
                && other.is_open()
                && other.deadline.is_some()
                && !other.superseded
            {
                assert!(!sooner, "{index} begins before {m} was sent to its end");
            }
        }
    }

    /// Where frames of a record were sent, each of its bytes is sent for the first time once.
    fn see_sent_part(&mut self, offset: u64, end: u64) {
        for (&start, &index) in self.records.range(..end) {
            let message = &mut self.messages[index];
            let last = end.min(message.at.unwrap().1);
            if last > offset.max(start) && last > message.reached {
                assert!(
                    offset.max(start) <= message.reached.max(start),
                    "a gap in what was sent of a record"
                );
                message.reached = last;
            }
        }
    }

    fn see_sent_records(&mut self, mut offset: u64, data: &[u8], packet: usize, now: Time, limit: u64) {
        let mut rest = data;
        while !rest.is_empty() {
            let mut reader = Reader::new(rest);
            // FS-14, FS-16: whole records, of which the last may be cut, but not inside its prefix.
            let len = reader.varint().expect("no cut prefix");
            let prefix = (rest.len() - reader.peek().len()) as u64;
            let end = offset + prefix + len;
            let held = (rest.len() as u64).min(prefix + len);
            if !self.records.contains_key(&offset) {
                let body = &rest[prefix as usize..held as usize];
                let index = (0..self.messages.len())
                    .find(|&m| {
                        let message = &self.messages[m];
                        let same = message.payload.len() as u64 == len && message.payload.starts_with(body);
                        same && message.at.is_none()
                    })
                    .expect("a record is a message that was pushed");
                // FS-19: one behind the other, with nothing between them.
                let last = self.records.last_key_value().map(|(_, &m)| self.messages[m].at.unwrap().1);
                assert_eq!(offset, last.unwrap_or(0), "offsets follow one another as records are begun");
                self.records.insert(offset, index);
                self.messages[index].at = Some((offset, end));
                self.see_begun(index, now, limit);
                self.messages[index].reached = offset;
                let fence = self.fence_of(self.messages[index].segment);
                let numbers = [STREAM.0, offset, offset - fence, prefix + len];
                let header: usize = 2 + numbers.into_iter().map(varint::size).sum::<usize>();
                // FS-18.
                assert!(held == prefix + len || header as u64 + prefix + len > packet as u64);
            }
            let index = self.records[&offset];
            self.see_sent_part(offset, offset + held);
            // FS-20, FS-48: the same bytes at the same place, unless they were given up.
            assert_eq!(self.messages[index].at, Some((offset, end)));
            assert!(!self.messages[index].abandoned);
            rest = &rest[held as usize..];
            offset = end;
        }
    }

    /// Where the first message of a segment begins.
    fn fence_of(&self, segment: usize) -> u64 {
        let first = self.records.iter().find(|&(_, &m)| self.messages[m].segment == segment);
        *first.expect("something of it was sent").0
    }

    /// The header of a frame whose records are known, against every record and fence.
    fn see_sent_header(&self, header: &Fenced, len: u64) {
        let Fenced { offset, distance, start, each, fin } = *header;
        let end = offset + len;
        let is_end = |at| self.records.values().any(|&m| self.messages[m].at.unwrap().1 == at);
        // FS-58.
        assert!(!fin || end == 0 || is_end(end), "FIN inside a record");
        // FS-17.
        assert!(!each || start, "EACH without START");
        assert!(!start || len > 0, "START without data");
        if len == 0 {
            return;
        }
        // FS-13.
        assert_eq!(start, self.records.contains_key(&offset), "START at the first byte of a record, only");
        let fences: BTreeSet<u64> =
            self.records.values().map(|&m| self.fence_of(self.messages[m].segment)).collect();
        // FS-22, FS-25: those of segments that hold a record, and no others.
        assert_eq!(Some(&(offset - distance)), fences.range(..=offset).next_back(), "Fence Distance");
        let inside = || self.records.range(offset + 1..end).map(|(at, _)| at);
        if each {
            // FS-24.
            assert!(inside().all(|at| fences.contains(at)), "EACH over a boundary that is no fence");
        } else {
            // FS-23.
            assert_eq!(fences.range(offset + 1..end).next(), None, "a fence inside a frame");
        }
        if !start {
            // FS-15.
            let (&at, &index) = self.records.range(..=offset).next_back().unwrap();
            let message = &self.messages[index];
            let body = at + varint::size(message.payload.len() as u64) as u64;
            assert!(offset >= body && end <= message.at.unwrap().1, "not inside one record");
            // FS-48.
            assert!(!message.abandoned);
        }
    }

    fn see_sent_abandon(&mut self, offset: u64, len: u64, now: Time) {
        // FS-44, FS-46: from the start of a record to the end of one.
        assert!(len > 0 && self.records.contains_key(&offset));
        let mut at = offset;
        for (&start, &index) in self.records.range(offset..offset + len) {
            assert_eq!(start, at);
            let message = &mut self.messages[index];
            // FS-45.
            let is_cut = message.at.is_some_and(|(_, end)| message.reached < end) && !message.is_timely(now);
            assert!(message.lost || is_cut, "given up before anything of it was lost");
            message.abandoned = true;
            at = message.at.unwrap().1;
        }
        assert_eq!(at, offset + len);
    }

    fn lose(&mut self, offset: u64, len: u64) {
        for message in &mut self.messages {
            if message.at.is_some_and(|(start, end)| start < offset + len && offset < end) {
                message.lost = true;
            }
        }
    }

    fn grow(&mut self, end: u64) {
        if self.arrived.len() < end as usize {
            self.arrived.resize(end as usize, false);
            self.given_up.resize(end as usize, false);
        }
    }

    fn arrive(&mut self, now: Time, offset: u64, len: u64) {
        self.grow(offset + len);
        for at in offset..offset + len {
            let at = at as usize;
            self.arrived[at] |= !self.given_up[at];
        }
        let touched: Vec<_> = self.records.range(..offset + len).map(|(_, &m)| m).collect();
        for index in touched {
            let (start, end) = self.messages[index].at.unwrap();
            let there = end > offset
                && end as usize <= self.arrived.len()
                && (start..end).all(|at| self.arrived[at as usize]);
            if there && self.completed.insert(index) {
                self.complete.push((index, now));
            }
        }
        self.release(now);
    }

    fn abandon(&mut self, now: Time, offset: u64, len: u64) {
        self.grow(offset + len);
        for at in offset..offset + len {
            self.given_up[at as usize] = true;
        }
        self.release(now);
    }

    /// The rule, segment by segment: everything before the fence is there or given up, and every record
    /// before it is delivered or given up.
    fn release(&mut self, now: Time) {
        while self.low < self.arrived.len() && (self.arrived[self.low] || self.given_up[self.low]) {
            self.low += 1;
        }
        let mut segments: Vec<usize> = self.complete.iter().map(|&(m, _)| self.messages[m].segment).collect();
        segments.sort_unstable();
        segments.dedup();
        for segment in segments {
            let fence = self.fence_of(segment);
            let before_is_done = self.records.range(..fence).all(|(&at, &m)| {
                self.messages[m].delivered || (self.given_up[at as usize] && !self.completed.contains(&m))
            });
            if self.low < fence as usize || !before_is_done {
                break;
            }
            let (free, held): (Vec<_>, Vec<_>) =
                self.complete.drain(..).partition(|&(m, _)| self.messages[m].segment == segment);
            self.complete = held;
            for (index, completed) in free {
                let message = &mut self.messages[index];
                message.delivered = true;
                let payload = message.payload.clone();
                self.expected.push_back(Message { payload, segment: fence, completed, released: now });
            }
        }
    }
}

struct Flying {
    bytes: Bytes,
    tokens: Vec<FrameToken>,
    sent: Time,
    arrivals: Vec<Time>,
    /// When the sender learns that it arrived.
    told: Option<Time>,
}

struct World {
    case: Case,
    rng: Rng,
    now: Time,
    sender: RecordSender,
    receiver: RecordReceiver,
    model: Model,
    flying: Vec<Flying>,
    /// Credit on its way to the sender: when, of the stream, of the connection.
    credit: VecDeque<(Time, u64, u64)>,
    stream_max: u64,
    conn_max: u64,
    conn_used: u64,
    received: u64,
    consumed: u64,
    segment: usize,
    pushed: usize,
    plain_segment: usize,
}

const ONE_WAY: Duration = Duration::from_millis(10);
const STREAM: StreamId = StreamId::new(Side::Client, Dir::Uni, 0);

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let case = Case::draw(&mut rng);
        let mut sender = RecordSender::new(KEY, STREAM, case.mode, case.max_record);
        let receiver = RecordReceiver::new(case.max_record, case.window);
        sender.set_max(receiver.max_stream_data());
        sender.set_ordered(case.ordered);
        sender.set_give_up_lost(case.latest);
        sender.set_even(case.even);
        Self {
            stream_max: receiver.max_stream_data(),
            conn_max: case.conn_window,
            case,
            rng,
            now: Time::from_millis(1),
            sender,
            receiver,
            model: Model::default(),
            flying: Vec::new(),
            credit: VecDeque::new(),
            conn_used: 0,
            received: 0,
            consumed: 0,
            segment: 0,
            pushed: 0,
            plain_segment: 0,
        }
    }

    fn push(&mut self) {
        let least = if self.case.tiny { 0 } else { 4 };
        let most = if self.rng.chance(0.5) { 30.min(self.case.largest) } else { self.case.largest };
        let len = least + self.rng.below(most - least + 1);
        let mut payload: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(31) ^ self.pushed as u8).collect();
        if !self.case.tiny {
            payload[..4].copy_from_slice(&(self.pushed as u32).to_be_bytes());
        }
        let payload = Bytes::from(payload);
        let soon = Duration::from_millis(self.rng.below(100));
        let deadline = self.rng.chance(self.case.deadline).then_some(self.now + soon);
        let ticket = self.sender.push(payload.clone(), deadline).unwrap();
        assert_eq!(ticket, Ticket(self.pushed as u64));
        self.pushed += 1;
        self.model.messages.push(Sent {
            payload,
            segment: self.segment,
            deadline,
            superseded: false,
            reached: 0,
            outcome: None,
            at: None,
            lost: false,
            abandoned: false,
            delivered: false,
        });
        let fence = self.rng.chance(self.case.fence);
        if fence {
            self.sender.fence();
        }
        self.segment += usize::from(fence || self.case.ordered);
        if self.pushed == self.case.messages {
            self.sender.finish();
        }
    }

    fn send(&mut self) {
        let view = view(self.now, ONE_WAY * 2);
        for _ in 0..20 {
            let credit = self.conn_max - self.conn_used;
            let room = self.case.packet * if self.rng.chance(self.case.symbols) { 4 } else { 5 } / 5;
            if self.sender.want(credit) == Want::None {
                return;
            }
            let limit = self.stream_max.min(self.conn_used + credit);
            let (bytes, tokens, used) = write_packet(&mut self.sender, room, credit, &view);
            // FS-43.
            assert!(used <= credit, "more than the connection's credit");
            self.conn_used += used;
            assert_eq!(self.conn_used, self.sender.highest());
            if bytes.is_empty() {
                return;
            }
            self.see_sent(&bytes, room, limit);
            let mut arrivals = Vec::new();
            for _ in 0..=usize::from(self.rng.chance(self.case.duplicate)) {
                if !self.rng.chance(self.case.loss) {
                    let jitter = Duration::from_micros(self.rng.below(self.case.jitter_us + 1));
                    arrivals.push(self.now + ONE_WAY + jitter);
                }
            }
            self.flying.push(Flying { bytes, tokens, sent: self.now, arrivals, told: None });
        }
    }

    fn see_sent(&mut self, bytes: &[u8], room: usize, limit: u64) {
        for frame in Frames::new(bytes) {
            match frame.unwrap() {
                // FS-21: one kind of frames for all data of a direction.
                Frame::Fenced { offset, distance, start, each, fin, data, .. }
                    if self.case.mode == RecordMode::Frames =>
                {
                    if start {
                        self.model.see_sent_records(offset, data, room, self.now, limit);
                    } else {
                        self.model.see_sent_part(offset, offset + data.len() as u64);
                    }
                    let header = Fenced { offset, distance, start, each, fin };
                    self.model.see_sent_header(&header, data.len() as u64);
                }
                Frame::Abandon { offset, len, .. } if self.case.mode == RecordMode::Frames => {
                    self.model.see_sent_abandon(offset, len, self.now);
                }
                Frame::Stream { .. } if self.case.mode == RecordMode::Plain => {}
                other => panic!("{other:?} does not belong here"),
            }
        }
    }

    fn receive(&mut self, bytes: &Bytes) {
        let now = self.now;
        for frame in Frames::new(bytes) {
            let grown = match frame.unwrap() {
                Frame::Fenced { offset, distance, start, each, fin, data, .. } => {
                    let header = Fenced { offset, distance, start, each, fin };
                    self.model.arrive(now, offset, data.len() as u64);
                    self.receiver.on_fenced(now, &header, data, bytes)
                }
                Frame::Abandon { offset, len, .. } => {
                    self.model.abandon(now, offset, len);
                    self.receiver.on_abandon(now, offset, len)
                }
                Frame::Stream { offset, fin, data, .. } => {
                    self.receiver.on_stream(now, offset, fin, data, bytes)
                }
                other => panic!("{other:?} does not belong here"),
            };
            self.received += grown.expect("an honest sender breaks no rule");
            self.receiver.check();
        }
        assert!(self.received <= self.consumed + self.case.conn_window, "connection credit");
        if self.case.mode == RecordMode::Frames {
            // FS-27, FS-28, FS-29, FS-30: what is free can be read at once, and nothing else.
            assert_eq!(self.receiver.is_readable(), !self.model.expected.is_empty());
        }
    }

    fn read(&mut self) {
        while self.receiver.is_readable() && self.rng.chance(self.case.reads) {
            let message = self.receiver.next().unwrap();
            if self.case.mode == RecordMode::Frames {
                // FS-31, FS-32, FS-33, FS-34: in this order, each once, with its fence.
                let expected = self.model.expected.pop_front().expect("not that early");
                assert_eq!(message, expected);
            } else {
                // FS-66: each once, and no fence is crossed; without deadlines, in order.
                let mut rest = self.model.messages.iter_mut().filter(|sent| !sent.delivered);
                let sent = rest.find(|sent| sent.payload == message.payload).unwrap();
                sent.delivered = true;
                assert!(sent.segment >= self.plain_segment, "across a fence");
                self.plain_segment = sent.segment;
                let first = self.model.messages.iter().position(|sent| !sent.delivered);
                let in_order = first.is_none_or(|m| self.model.messages[m..].iter().all(|m| !m.delivered));
                let dropping = self.case.deadline + self.case.supersede > 0.0;
                assert!(in_order || dropping, "FS-66");
            }
        }
        self.consumed += self.receiver.take_consumed();
        self.receiver.check();
        let conn = self.consumed + self.case.conn_window;
        self.credit.push_back((self.now + ONE_WAY, self.receiver.max_stream_data(), conn));
    }

    /// What the sender learns at this time.
    fn learn(&mut self) {
        while let Some(&(at, stream, conn)) = self.credit.front().filter(|c| c.0 <= self.now) {
            debug_assert!(at <= self.now);
            self.credit.pop_front();
            self.sender.set_max(stream);
            self.stream_max = self.stream_max.max(stream);
            self.conn_max = self.conn_max.max(conn);
        }
        let now = self.now;
        let patience = Duration::from_millis(45);
        let (done, flying): (Vec<_>, Vec<_>) = self.flying.drain(..).partition(|p| {
            p.told.is_some_and(|at| at <= now)
                || (p.told.is_none_or(|at| at > now) && now.since(p.sent) > patience)
        });
        self.flying = flying;
        for packet in done {
            let acked = packet.told.is_some_and(|at| at <= now);
            let recovered = acked && self.rng.chance(self.case.recovery);
            for token in packet.tokens {
                match token {
                    FrameToken::Fenced { offset, len, fin, .. } if recovered => {
                        self.sender.recovered(offset, u64::from(len), fin);
                    }
                    FrameToken::Fenced { offset, len, fin, .. } if acked => {
                        self.sender.acked(offset, u64::from(len), fin);
                    }
                    FrameToken::Fenced { offset, len, fin, .. } => {
                        self.model.lose(offset, u64::from(len));
                        self.sender.lost(offset, u64::from(len), fin, now);
                    }
                    FrameToken::Abandon { offset, .. } if acked => self.sender.abandon_acked(offset),
                    FrameToken::Abandon { offset, .. } => self.sender.abandon_lost(offset),
                    other => panic!("{other:?} is not of this room"),
                }
            }
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        while self.pushed < self.case.messages && self.rng.chance(0.6) {
            self.push();
        }
        if self.pushed > 0 && self.rng.chance(self.case.supersede) {
            let ticket = Ticket(self.rng.below(self.pushed as u64));
            let changes = self.sender.supersede(ticket);
            self.model.messages[ticket.0 as usize].superseded |= changes;
        }
        if self.sender.deadline().is_some_and(|at| at <= self.now) {
            self.sender.on_time(self.now, ONE_WAY);
            assert!(self.sender.deadline().is_none_or(|at| at > self.now), "a timer that does not advance");
        }
        let mut due: Vec<(Time, usize)> = Vec::new();
        for (index, packet) in self.flying.iter_mut().enumerate() {
            let now = self.now;
            let count = packet.arrivals.iter().filter(|&&at| at <= now).count();
            due.extend(packet.arrivals.iter().filter(|&&at| at <= now).map(|&at| (at, index)));
            packet.arrivals.retain(|&at| at > now);
            if count > 0 && packet.told.is_none() {
                packet.told = Some(now + ONE_WAY);
            }
        }
        due.sort_unstable();
        let due: Vec<Bytes> = due.into_iter().map(|(_, index)| self.flying[index].bytes.clone()).collect();
        for bytes in due {
            self.receive(&bytes);
        }
        self.read();
        self.learn();
        self.collect();
        self.send();
        self.sender.check();
        self.collect();
    }

    fn collect(&mut self) {
        while let Some((ticket, outcome)) = self.sender.next_outcome() {
            let told = self.model.messages[ticket.0 as usize].outcome.replace(outcome);
            // FS-56.
            assert_eq!(told, None, "more than one outcome");
            let message = &self.model.messages[ticket.0 as usize];
            if self.case.mode == RecordMode::Frames {
                // FS-56.
                assert_eq!(outcome == Outcome::Dropped, message.at.is_none(), "{message:?}");
            }
        }
    }

    fn run(mut self) {
        let mut steps = 0;
        while !(self.pushed == self.case.messages && self.sender.is_done() && self.receiver.is_finished()) {
            self.step();
            steps += 1;
            assert!(steps < 40_000, "stuck: {self:?}");
        }
        for message in &self.model.messages {
            // FS-56.
            let outcome = message.outcome.expect("exactly one outcome");
            // FS-53: what was abandoned may have arrived all the same.
            assert!(message.delivered || !outcome.is_delivered(), "{message:?}");
            assert!(outcome != Outcome::Recovered || self.case.recovery > 0.0);
            assert!(self.case.deadline + self.case.supersede > 0.0 || self.case.latest || message.delivered);
        }
        assert_eq!(self.sender.queued(), 0);
        assert_eq!(self.receiver.held_bytes(), 0);
        assert_eq!(Some(self.consumed), self.receiver.final_size(), "all credit comes back");
        assert_eq!(self.sender.want(u64::MAX), Want::None);
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} at {:?}: {:?}\n{:?}", self.case, self.now, self.sender, self.receiver)
    }
}

/// Prints the seed of a run that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {0}; replay with QUICKSET_SEED={0}", self.0);
        }
    }
}

#[test]
fn what_is_delivered_when_is_what_the_rule_says() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let all = 0..number("QUICKSET_SEEDS").unwrap_or(2500);
    let seeds = number("QUICKSET_SEED").map_or(all, |seed| seed..seed + 1);
    for seed in seeds {
        let _on_failure = Seed(seed);
        World::new(seed).run();
    }
}
