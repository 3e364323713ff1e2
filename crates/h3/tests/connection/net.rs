//! Two ends of a connection in memory, which cut bytes where they like and hold few of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use quickset_base::Rng;
use quickset_h3::{Config, Connection, ErrorCode, Event, Transport};
use quickset_quic::{
    Chunk, Class, Dir, FinishError, Priority, Protection, ReadError, Side, StreamEvent, StreamId, Weight,
    WriteError,
};

/// What is between the ends.
pub(crate) struct Net {
    halves: BTreeMap<(StreamId, Side), Half>,
    opened: BTreeMap<(Side, Dir), u64>,
    accepted: BTreeMap<(Side, Dir), u64>,
    limits: BTreeMap<(Side, Dir), u64>,
    events: BTreeMap<Side, VecDeque<StreamEvent>>,
    datagrams: BTreeMap<Side, VecDeque<Bytes>>,
    /// Who closed, and with which code.
    pub(crate) closed: Option<(Side, u64)>,
    pub(crate) priorities: BTreeMap<(StreamId, Side), (u8, bool)>,
    pub(crate) weights: BTreeMap<(StreamId, Side), Weight>,
    /// What `set_class` was told, in order.
    pub(crate) classes: Vec<(StreamId, Side, Vec<Class>)>,
    /// What `set_protection` was told, in order.
    pub(crate) protections: Vec<(StreamId, Side, Protection)>,
    /// Bytes that were unread when `flush` was told.
    pub(crate) flushed: Vec<(StreamId, Side, usize)>,
    pub(crate) critical: Vec<(StreamId, Side)>,
    /// What `send_credit` says.
    pub(crate) credit: Option<u64>,
    /// Bytes that a half holds at most.
    pub(crate) window: usize,
    /// Bytes of a read at most, chosen at random below; 0 for all there are.
    pub(crate) chunk: u64,
    pub(crate) takes_datagrams: bool,
    pub(crate) limit_known: bool,
    /// Events come in any order, and not all at once.
    pub(crate) shuffled: bool,
    /// They are told as several that came together.
    pub(crate) together: bool,
    /// How often bytes were written.
    pub(crate) writes: BTreeMap<(StreamId, Side), u32>,
    rng: Rng,
}

/// One direction of a stream, by its writer.
#[derive(Default)]
struct Half {
    data: VecDeque<u8>,
    fin: bool,
    reset: Option<u64>,
    /// Bytes that arrive all the same.
    reliable: u64,
    stopped: Option<u64>,
    over: bool,
    refused: bool,
}

pub(crate) type Shared = Rc<RefCell<Net>>;

pub(crate) fn net(seed: u64) -> Shared {
    let limits =
        [Side::Client, Side::Server].into_iter().flat_map(|s| [((s, Dir::Bi), 100), ((s, Dir::Uni), 100)]);
    Rc::new(RefCell::new(Net {
        halves: BTreeMap::new(),
        opened: BTreeMap::new(),
        accepted: BTreeMap::new(),
        limits: limits.collect(),
        events: BTreeMap::new(),
        datagrams: BTreeMap::new(),
        closed: None,
        priorities: BTreeMap::new(),
        weights: BTreeMap::new(),
        classes: Vec::new(),
        protections: Vec::new(),
        flushed: Vec::new(),
        critical: Vec::new(),
        credit: None,
        window: 1 << 20,
        chunk: 0,
        takes_datagrams: true,
        limit_known: false,
        shuffled: false,
        together: seed % 2 == 1,
        writes: BTreeMap::new(),
        rng: Rng::new(seed),
    }))
}

/// One side's verbs.
pub(crate) struct End {
    pub(crate) net: Shared,
    pub(crate) side: Side,
}

impl Net {
    fn tell(&mut self, side: Side, event: StreamEvent) {
        self.events.entry(side).or_default().push_back(event);
    }

    pub(crate) fn limit(&mut self, side: Side, dir: Dir, limit: u64) {
        self.limits.insert((side, dir), limit);
        self.tell(side, StreamEvent::Available(dir));
    }

    pub(crate) fn reset_code(&self, id: StreamId, writer: Side) -> Option<u64> {
        self.halves.get(&(id, writer)).and_then(|h| h.reset)
    }

    /// Bytes of a stream that was reset that arrive all the same.
    pub(crate) fn reliable(&self, id: StreamId, writer: Side) -> Option<u64> {
        self.halves.get(&(id, writer)).filter(|h| h.reset.is_some()).map(|h| h.reliable)
    }

    pub(crate) fn stop_code(&self, id: StreamId, writer: Side) -> Option<u64> {
        self.halves.get(&(id, writer)).and_then(|h| h.stopped)
    }

    fn next_event(&mut self, side: Side) -> Option<StreamEvent> {
        let events = self.events.entry(side).or_default();
        if !self.shuffled || events.is_empty() {
            return events.pop_front();
        }
        let n = events.len() as u64;
        if self.rng.chance(0.3) { None } else { events.remove(self.rng.below(n) as usize) }
    }

    pub(crate) fn next_datagram(&mut self, to: Side) -> Option<Bytes> {
        self.datagrams.entry(to).or_default().pop_front()
    }

    /// Bytes that the other end has not read.
    pub(crate) fn unread(&self, id: StreamId, writer: Side) -> usize {
        self.halves[&(id, writer)].data.len()
    }

    fn half(&mut self, id: StreamId, writer: Side) -> Option<&mut Half> {
        self.halves.get_mut(&(id, writer))
    }
}

impl Transport for End {
    fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let mut net = self.net.borrow_mut();
        let limit = net.limits[&(self.side, dir)];
        let n = net.opened.entry((self.side, dir)).or_default();
        if *n >= limit {
            return None;
        }
        *n += 1;
        let id = StreamId::new(self.side, dir, *n - 1);
        net.halves.insert((id, self.side), Half::default());
        if dir == Dir::Bi {
            net.halves.insert((id, !self.side), Half::default());
        }
        net.tell(!self.side, StreamEvent::Opened(dir));
        Some(id)
    }

    fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let mut net = self.net.borrow_mut();
        let opened = net.opened.get(&(!self.side, dir)).copied().unwrap_or(0);
        let n = net.accepted.entry((self.side, dir)).or_default();
        if *n >= opened {
            return None;
        }
        *n += 1;
        Some(StreamId::new(!self.side, dir, *n - 1))
    }

    fn read(&mut self, id: StreamId, max: usize) -> Result<Chunk, ReadError> {
        let mut net = self.net.borrow_mut();
        let chunk = net.chunk;
        let cut = if chunk == 0 { usize::MAX } else { 1 + net.rng.below(chunk) as usize };
        let writer = !self.side;
        let half = net
            .half(id, writer)
            .filter(|h| !h.over && h.stopped.is_none())
            .ok_or(ReadError::UnknownStream)?;
        if let Some(code) = half.reset {
            half.over = true;
            return Err(ReadError::Reset(code));
        }
        let n = half.data.len().min(max).min(cut);
        if n > 0 {
            let data: Bytes = half.data.drain(..n).collect::<Vec<u8>>().into();
            if std::mem::take(&mut half.refused) {
                net.tell(writer, StreamEvent::Writable(id));
            }
            return Ok(Chunk::Data(data));
        }
        if half.fin && half.data.is_empty() {
            half.over = true;
            return Ok(Chunk::Finished);
        }
        Ok(Chunk::Blocked)
    }

    fn is_complete(&self, id: StreamId) -> bool {
        let net = self.net.borrow();
        net.halves.get(&(id, !self.side)).is_some_and(|half| half.fin && !half.over && half.stopped.is_none())
    }

    fn write(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        let mut net = self.net.borrow_mut();
        let window = net.window;
        let half = net.half(id, self.side).ok_or(WriteError::UnknownStream)?;
        if let Some(code) = half.stopped {
            return Err(WriteError::Stopped(code));
        }
        if half.fin || half.reset.is_some() {
            return Err(WriteError::Ended);
        }
        let n = data.len().min(window - half.data.len());
        if n == 0 && !data.is_empty() {
            half.refused = true;
            return Err(WriteError::Blocked);
        }
        half.data.extend(data.split_to(n));
        *net.writes.entry((id, self.side)).or_default() += 1;
        net.tell(!self.side, StreamEvent::Readable(id));
        Ok(n)
    }

    fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        let mut net = self.net.borrow_mut();
        let half = net.half(id, self.side).ok_or(FinishError::UnknownStream)?;
        if half.fin || half.reset.is_some() {
            return Err(FinishError::Ended);
        }
        half.fin = true;
        net.tell(!self.side, StreamEvent::Readable(id));
        Ok(())
    }

    fn reset(&mut self, id: StreamId, code: u64) {
        let mut net = self.net.borrow_mut();
        if let Some(half) = net.half(id, self.side) {
            half.reset.get_or_insert(code);
            half.data.clear();
            net.tell(!self.side, StreamEvent::Readable(id));
        }
    }

    fn reset_behind(&mut self, id: StreamId, code: u64, reliable: u64) {
        if let Some(half) = self.net.borrow_mut().half(id, self.side) {
            half.reliable = reliable;
        }
        self.reset(id, code);
    }

    fn stop(&mut self, id: StreamId, code: u64) {
        let mut net = self.net.borrow_mut();
        if let Some(half) = net.half(id, !self.side) {
            if half.over || half.stopped.is_some() {
                return;
            }
            half.stopped = Some(code);
            half.data.clear();
            if !half.fin && half.reset.is_none() {
                net.tell(!self.side, StreamEvent::Stopped { id, code });
            }
        }
    }

    fn set_priority(&mut self, id: StreamId, priority: Priority) {
        let mut net = self.net.borrow_mut();
        net.priorities.insert((id, self.side), (priority.urgency, priority.incremental));
        net.weights.insert((id, self.side), priority.weight);
    }

    fn set_class(&mut self, id: StreamId, path: &[Class]) {
        self.net.borrow_mut().classes.push((id, self.side, path.to_vec()));
    }

    fn set_critical(&mut self, id: StreamId) {
        self.net.borrow_mut().critical.push((id, self.side));
    }

    fn set_protection(&mut self, id: StreamId, protection: &Protection) {
        self.net.borrow_mut().protections.push((id, self.side, protection.clone()));
    }

    fn flush(&mut self, id: StreamId) {
        let mut net = self.net.borrow_mut();
        let unread = net.unread(id, self.side);
        net.flushed.push((id, self.side, unread));
    }

    fn send_credit(&self, _id: StreamId) -> Option<u64> {
        self.net.borrow().credit
    }

    fn close(&mut self, code: u64, _reason: &[u8]) {
        self.net.borrow_mut().closed.get_or_insert((self.side, code));
    }

    fn peer_bidi_limit(&self) -> Option<u64> {
        let net = self.net.borrow();
        net.limit_known.then(|| net.limits[&(!self.side, Dir::Bi)])
    }

    fn takes_datagrams(&self) -> bool {
        self.net.borrow().takes_datagrams
    }

    fn max_datagram(&self) -> Option<usize> {
        self.takes_datagrams().then_some(1200)
    }

    fn send_datagram(&mut self, data: Bytes) {
        self.net.borrow_mut().datagrams.entry(!self.side).or_default().push_back(data);
    }
}

/// One of ours on its end.
pub(crate) struct Peer {
    pub(crate) t: End,
    pub(crate) h3: Connection,
}

impl Peer {
    pub(crate) fn new(net: &Shared, side: Side, config: Config) -> Self {
        let mut t = End { net: net.clone(), side };
        let h3 = Connection::new(side, config, &mut t);
        Self { t, h3 }
    }

    /// Takes in what has come.
    pub(crate) fn turn(&mut self) -> Vec<Event> {
        let together = self.t.net.borrow().together;
        loop {
            let event = self.t.net.borrow_mut().next_event(self.t.side);
            let Some(event) = event else { break };
            if together {
                self.h3.handle_among(&mut self.t, event);
            } else {
                self.h3.handle(&mut self.t, event);
            }
        }
        if together {
            self.h3.handled(&mut self.t);
        }
        while let Some(data) = {
            let mut net = self.t.net.borrow_mut();
            net.next_datagram(self.t.side)
        } {
            self.h3.handle_datagram(&mut self.t, data);
        }
        std::iter::from_fn(|| self.h3.poll_event()).collect()
    }
}

/// A client and a server, both ours.
pub(crate) struct Pair {
    pub(crate) net: Shared,
    pub(crate) client: Peer,
    pub(crate) server: Peer,
}

impl Pair {
    pub(crate) fn new(config: &Config) -> Self {
        Self::on(net(1), config)
    }

    pub(crate) fn on(net: Shared, config: &Config) -> Self {
        let client = Peer::new(&net, Side::Client, config.clone());
        let server = Peer::new(&net, Side::Server, config.clone());
        let mut pair = Self { net, client, server };
        pair.run();
        pair
    }

    /// Lets both sides act until nothing happens; what the client and the server were told.
    pub(crate) fn run(&mut self) -> (Vec<Event>, Vec<Event>) {
        let mut told = (Vec::new(), Vec::new());
        loop {
            told.0.extend(self.client.turn());
            told.1.extend(self.server.turn());
            let net = self.net.borrow();
            if net.events.values().all(VecDeque::is_empty) && net.datagrams.values().all(VecDeque::is_empty) {
                return told;
            }
        }
    }
}

/// One of ours against a peer that writes what it likes.
pub(crate) struct Raw {
    pub(crate) net: Shared,
    pub(crate) ours: Peer,
    pub(crate) t: End,
    pub(crate) control: StreamId,
    /// The encoder stream, where a test opened it.
    pub(crate) encoder: StreamId,
}

impl Raw {
    /// Ours is on `side`; the other has opened its control stream and said `settings`.
    pub(crate) fn with(side: Side, config: Config, settings: &[u8]) -> Self {
        let mut raw = Self::silent(side, config);
        raw.control = raw.uni(&[0x00]);
        let frame = [&[4, settings.len() as u8][..], settings].concat();
        raw.write(raw.control, &frame);
        raw
    }

    pub(crate) fn new(side: Side) -> Self {
        Self::with(side, Config::default(), &[])
    }

    /// Without a control stream.
    pub(crate) fn silent(side: Side, config: Config) -> Self {
        let net = net(1);
        let ours = Peer::new(&net, side, config);
        let t = End { net: net.clone(), side: !side };
        Self { net, ours, t, control: StreamId(0), encoder: StreamId(0) }
    }

    pub(crate) fn write(&mut self, id: StreamId, bytes: &[u8]) -> Vec<Event> {
        self.t.write(id, &mut Bytes::copy_from_slice(bytes)).expect("there is room");
        self.ours.turn()
    }

    pub(crate) fn finish(&mut self, id: StreamId) -> Vec<Event> {
        self.t.finish(id).expect("it is open");
        self.ours.turn()
    }

    pub(crate) fn reset(&mut self, id: StreamId, code: u64) -> Vec<Event> {
        self.t.reset(id, code);
        self.ours.turn()
    }

    pub(crate) fn uni(&mut self, bytes: &[u8]) -> StreamId {
        let id = self.t.open(Dir::Uni).expect("allowed");
        self.write(id, bytes);
        id
    }

    pub(crate) fn bi(&mut self, bytes: &[u8]) -> (StreamId, Vec<Event>) {
        let id = self.t.open(Dir::Bi).expect("allowed");
        let events = self.write(id, bytes);
        (id, events)
    }

    /// How many streams of a kind the other has opened.
    pub(crate) fn opened(&self, dir: Dir) -> u64 {
        self.net.borrow().opened.get(&(self.t.side, dir)).copied().unwrap_or(0)
    }

    /// All that ours has sent on a stream.
    pub(crate) fn sent(&mut self, id: StreamId) -> Vec<u8> {
        let mut all = Vec::new();
        while let Ok(Chunk::Data(data)) = self.t.read(id, usize::MAX) {
            all.extend_from_slice(&data);
        }
        all
    }

    /// The code with which ours closed the connection.
    #[track_caller]
    pub(crate) fn closed(&self) -> ErrorCode {
        let (side, code) = self.net.borrow().closed.expect("the connection is closed");
        assert_eq!(side, self.ours.t.side);
        ErrorCode(code)
    }

    #[track_caller]
    pub(crate) fn lives(&self) {
        assert_eq!(self.net.borrow().closed, None);
    }

    /// The codes with which ours gave up both directions of a stream.
    pub(crate) fn given_up(&self, id: StreamId) -> (Option<ErrorCode>, Option<ErrorCode>) {
        let net = self.net.borrow();
        let side = self.ours.t.side;
        (net.reset_code(id, side).map(ErrorCode), net.stop_code(id, !side).map(ErrorCode))
    }
}

/// A HEADERS frame, its lines in literals (RFC 9204 §4.5.6).
pub(crate) fn headers(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in lines {
        // A three-bit prefix holds lengths below 7.
        if name.len() < 7 {
            section.push(0x20 | name.len() as u8);
        } else {
            section.extend_from_slice(&[0x27, name.len() as u8 - 7]);
        }
        section.extend_from_slice(name.as_bytes());
        assert!(value.len() < 127 && name.len() < 127);
        section.push(value.len() as u8);
        section.extend_from_slice(value.as_bytes());
    }
    frame(1, &section)
}

/// A frame with fewer than 2^14 bytes.
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, 0x40 | (payload.len() >> 8) as u8, payload.len() as u8], payload].concat()
}

pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "example.com"), (":path", "/")];
