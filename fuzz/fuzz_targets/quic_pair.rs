//! Operations on a client and a server in virtual time, over links that do what links may do.
//!
//! Beside them goes a model (`said`): whatever is heard was said, and no fence is crossed; neither finds
//! fault with the other, rests when there is nothing to do, and holds no more than its windows. In the end
//! the links are clean, and as long as nobody gave up the connection, everything written arrives; then it is
//! closed, and nothing is left.
//!
//! The first bytes of the input choose how the two are configured, and the links between them; operations of
//! three bytes follow. With TRACE in the environment each is printed, and what either side hears.
#![no_main]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use bytes::Bytes as Data;
use libfuzzer_sys::fuzz_target;
use quickset_base::{AddressPair, Batch, Duration, Input, Machine, Poll, Rng, Time};
use quickset_fuzz::said::Said;
use quickset_fuzz::{Bytes, held};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    Algorithm, ClientConfig, Closed, Connection, ConnectionKey, DatagramEvent, DatagramOptions,
    DatagramOutcome, DatagramTicket, Dir, EarlyData, EarlyGate, Endpoint, EndpointConfig, Event, Fec,
    MtuDiscovery, Node, Obstacle, Refused, RetryPolicy, ServerConfig, Side, StreamEvent, StreamId,
    SystemRefusal, TransportConfig, TransportErrorCode, Version, WhenFull,
};
use quickset_sim::{LinkId, LinkSpec, LinkWay, NodeId, Pause, World, address};

fuzz_target!(|input: &[u8]| {
    let before = held();
    let mut bytes = Bytes(input);
    let mut play = Play::new(&mut bytes);
    while !bytes.is_empty() {
        let (op, which, arg) = (bytes.next(), bytes.next(), bytes.next());
        play.act(op, which, arg);
        assert!(held() - before < MOST, "{} bytes", held() - before);
    }
    play.end();
});

/// What a pair may hold with windows like these, the buffers of batches and links included.
const MOST: isize = 8 << 20;

const ALPN: &[&[u8]] = &[b"fuzz"];

/// Why the system may refuse.
const OBSTACLES: [Obstacle; 5] =
    [Obstacle::Size, Obstacle::Route, Obstacle::Room, Obstacle::Source, Obstacle::Other];

fn trace(line: impl FnOnce() -> String) {
    static WANTED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("TRACE").is_some());
    if *WANTED {
        eprintln!("{}", line());
    }
}

/// A node whose polls are counted, on a system that may refuse to send.
struct Counted {
    node: Node,
    polls: u64,
    /// So many batches, for that reason, but for the datagrams whose bits are set.
    refuses: (u8, Obstacle, u64),
}

impl Counted {
    /// What leaves of a batch.
    fn leave(&mut self, now: Time, out: &mut Batch) {
        let (n, obstacle, left) = &mut self.refuses;
        if *n == 0 || out.is_empty() {
            return;
        }
        *n -= 1;
        let refusal = SystemRefusal { obstacle: *obstacle, words: String::new() };
        let left = *left & ((1u128 << out.count()) - 1) as u64;
        self.node.not_sent(now, out, left, refusal);
        let kept: Vec<Vec<u8>> = out.segments().map(<[u8]>::to_vec).collect();
        let (path, ecn) = (out.path, out.ecn);
        out.clear();
        (out.path, out.ecn) = (path, ecn);
        for (_, segment) in kept.iter().enumerate().filter(|(at, _)| left >> at & 1 == 1) {
            out.space(segment.len()).copy_from_slice(segment);
            out.commit(segment.len());
        }
    }
}

impl Machine for Counted {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        self.node.handle(now, input);
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        loop {
            self.polls += 1;
            let poll = self.node.poll(now, out);
            if poll == Poll::Send {
                self.leave(now, out);
            }
            if poll != Poll::Send || !out.is_empty() {
                return poll;
            }
        }
    }
}

/// A datagram of one side.
#[derive(Default)]
struct Posted {
    ticket: Option<DatagramTicket>,
    len: usize,
    heard: bool,
    outcome: Option<DatagramOutcome>,
}

struct Play {
    world: World<Counted>,
    /// By side: client, server.
    nodes: [NodeId; 2],
    keys: [Option<ConnectionKey>; 2],
    links: [LinkId; 2],
    client: ClientConfig,
    said: BTreeMap<(StreamId, Side), Said>,
    posted: [Vec<Posted>; 2],
    closed: [Option<Closed>; 2],
    /// Whoever is told of something takes it at once.
    eager: bool,
    /// Where the others see the client, and how often that changed.
    at: Vec<SocketAddr>,
    moves: u16,
    rejected: Option<u64>,
}

impl Play {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let flags = bytes.next();
        let links = [link(bytes.next(), bytes.next()), link(bytes.next(), bytes.next())];
        let [mut near, mut far] = [transport(bytes), transport(bytes)];
        let more = bytes.next();
        let rejected = (more & 1 != 0).then_some(REJECTED);
        if flags & 1 != 0 {
            let refused = rejected.map_or(Refused::Resend, Refused::Reset);
            near.early_data = Some(EarlyData::default().with_refused(refused));
            let gate = (more & 2 != 0).then(|| EarlyGate::new(|_| false));
            far.early_data = Some(EarlyData::default().with_gate(gate).with_max_bytes(1 << (more >> 4)));
        }
        let mut crypto =
            NullServer::new(ALPN).with_certificate([100, 900, 3000, 9000][usize::from(flags >> 1 & 3)]);
        if flags & 1 != 0 {
            crypto = crypto.with_early_data();
        }
        let server = ServerConfig {
            crypto: Arc::new(crypto),
            transport: Arc::new(far),
            max_connections: 8,
            retry: if flags & 8 == 0 { RetryPolicy::Never } else { RetryPolicy::Always },
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(3600),
        };
        let client = ClientConfig {
            crypto: Arc::new(NullClient::new(ALPN).with_tickets()),
            transport: Arc::new(near),
        };
        let seed = u64::from(flags >> 4);
        let mut world = World::new(seed);
        world.patience(PATIENCE);
        let node = |seed, server| {
            let crypto = Arc::new(NullSecrets(seed));
            let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 };
            Counted {
                node: Node::new(Endpoint::new(config, server, Rng::new(seed))),
                polls: 0,
                refuses: (0, Obstacle::Other, 0),
            }
        };
        let nodes = [
            world.add("client", address(1), node(2 * seed + 1, None)),
            world.add("server", address(2), node(2 * seed + 2, Some(server))),
        ];
        let clean = LinkSpec::default;
        let (up, down) = world.join(address(1), address(2), clean(), clean());
        let mut play = Self {
            world,
            nodes,
            keys: [None; 2],
            links: [up, down],
            client,
            said: BTreeMap::new(),
            posted: [Vec::new(), Vec::new()],
            closed: [None, None],
            eager: more & 4 == 0,
            at: vec![address(1)],
            moves: 0,
            rejected,
        };
        if flags & 1 != 0 {
            // A ticket.
            play.connect();
            play.pass(Duration::from_secs(1));
            play.act(CLOSE, 0, u8::MAX);
            play.pass(Duration::from_secs(20));
        }
        play.change(links);
        play.connect();
        play
    }

    /// Begins a connection, if none is left.
    fn connect(&mut self) {
        let left = |node: NodeId| self.world.node(node).node.keys().count();
        if left(self.nodes[0]) + left(self.nodes[1]) > 0 {
            return;
        }
        let (now, config) = (self.world.now(), self.client.clone());
        let node = &mut self.world.node_mut(self.nodes[0]).node;
        let key = node.connect(now, &config, AddressPair::to(address(2)), "server");
        self.keys = [Some(key.expect("a connection begins")), None];
        self.said.clear();
        self.posted = [Vec::new(), Vec::new()];
        self.closed = [None, None];
    }

    fn change(&mut self, specs: [LinkSpec; 2]) {
        for (link, spec) in self.links.into_iter().zip(specs) {
            self.world.link_mut(link).change(spec);
        }
    }

    fn pass(&mut self, time: Duration) {
        let limit = self.world.now() + time;
        loop {
            match self.world.next(limit).unwrap_or_else(|livelock| panic!("{livelock}")) {
                Pause::Event(node) => self.told(node),
                Pause::Quiet => {}
                Pause::Limit | Pause::Idle => return,
            }
        }
    }

    fn told(&mut self, node: NodeId) {
        let side = if node == self.nodes[0] { Side::Client } else { Side::Server };
        while let Some((key, event)) = self.world.node_mut(node).node.poll_event() {
            // What comes twice and late may begin another connection of a server, of which nothing is ever
            // heard.
            if let (Side::Server, Event::Connected | Event::EarlyData { accepted: true }) = (side, &event) {
                self.keys[1] = Some(key);
            }
            if self.keys[index(side)] == Some(key) {
                self.hear(side, event);
            }
        }
    }

    fn hear(&mut self, side: Side, event: Event) {
        trace(|| format!("{:?} {side:?} hears {event:?}", self.world.now()));
        match event {
            Event::Stream(StreamEvent::Stopped { id, code }) => {
                self.said.get_mut(&(id, side)).expect("a stream of its own").give_up(code);
            }
            Event::Stream(StreamEvent::Finished(id)) => {
                let said = &self.said[&(id, side)];
                assert!(said.finished, "nobody ended {id:?}");
            }
            Event::Stream(StreamEvent::ResetArrived(id)) => {
                let said = &self.said[&(id, side)];
                assert!(said.broken || said.reliable.is_some(), "nobody gave {id:?} up");
            }
            Event::Stream(StreamEvent::Opened(dir)) if self.eager => self.accept(side, dir),
            Event::Stream(StreamEvent::Readable(id) | StreamEvent::Message(id)) if self.eager => {
                self.read(side, id, usize::MAX);
            }
            Event::Stream(StreamEvent::Outcome(id)) if self.eager => self.outcomes(side, id),
            Event::Datagram(DatagramEvent::Received | DatagramEvent::Outcome) if self.eager => {
                self.datagrams(side)
            }
            Event::EarlyData { accepted: false } => {
                if let Some(code) = self.rejected {
                    self.said.values_mut().for_each(|said| said.give_up(code));
                }
            }
            Event::Closed(why) => {
                let other = index(!side);
                let clean = match &why {
                    Closed::Failed(_) => false,
                    Closed::ByPeer(error) => match error.code {
                        // A Retry that is answered late.
                        TransportErrorCode::INVALID_TOKEN => true,
                        // The application closed it during the handshake, which says no more than that.
                        TransportErrorCode::APPLICATION_ERROR => self.closed[other] == Some(Closed::Locally),
                        _ => false,
                    },
                    // It was over, or never came about, and the word of it was lost.
                    Closed::Reset => self.keys[other].is_none() || self.closed[other].is_some(),
                    _ => true,
                };
                assert!(clean, "{side:?}: {why:?}");
                self.closed[index(side)] = Some(why);
            }
            _ => {}
        }
    }

    /// The connection of a side, if it is there.
    fn connection(&mut self, side: Side) -> Option<&mut Connection> {
        let key = self.keys[index(side)]?;
        self.world.node_mut(self.nodes[index(side)]).node.connection(key)
    }

    fn act(&mut self, op: u8, which: u8, arg: u8) {
        trace(|| format!("{:?} operation {} {which:#04x} {arg:#04x}", self.world.now(), op % 24));
        let side = if which & 0x80 == 0 { Side::Client } else { Side::Server };
        let n = usize::from(which & 0x7f);
        match op % 24 {
            0 => return self.pass(Duration::from_millis(u64::from(arg) / 4)),
            1 => return self.pass(Duration::from_millis(u64::from(arg) * 10)),
            2 => return self.change([link(which, arg), link(which.rotate_left(3), arg)]),
            3 => return self.wander(which, arg),
            CLOSE if arg < 240 => return self.world.suspend(self.nodes[index(side)], ms(arg)),
            5 => return self.connect(),
            7 if arg >= 128 => {
                let obstacle = OBSTACLES[n % OBSTACLES.len()];
                let left = if arg & 64 == 0 { 0 } else { 0b1011 << (arg & 7) };
                self.world.node_mut(self.nodes[index(side)]).refuses = (arg & 63, obstacle, left);
                return;
            }
            _ => {}
        }
        let id = self.said.keys().rev().nth(n).map_or(StreamId(n as u64), |(id, _)| *id);
        let now = self.world.now();
        let Some(connection) = self.connection(side) else { return };
        match op % 24 {
            CLOSE => connection.close(now, 7, b"enough"),
            6 => drop(connection.update_keys(now)),
            7 => connection.ping(),
            8 | 9 => self.open(side, arg),
            10 | 11 => self.write(side, id, usize::from(arg) * if op % 24 == 10 { 9 } else { 150 }),
            12 => self.finish(side, id),
            13 => self.give_up(side, id, arg),
            14 => self.read(side, id, 1 + usize::from(arg) * 8),
            15 | 16 => self.send(side, id, (n, arg)),
            17 => self.order(side, id, arg),
            18 => self.outcomes(side, id),
            19 => self.post(side, (n, arg)),
            20 => self.datagrams(side),
            21 => self.accept(side, if arg & 1 == 0 { Dir::Uni } else { Dir::Bi }),
            22 => prefer(connection, id, arg),
            _ => {
                let protection =
                    quickset_policies::read(PROTECTIONS[n % PROTECTIONS.len()]).expect("a protection");
                if arg & 1 == 0 {
                    let _ = connection.send_stream(id).set_protection(&protection);
                } else {
                    connection.datagrams().set_protection(&protection);
                }
            }
        }
    }

    /// The client gets another address.
    fn wander(&mut self, which: u8, arg: u8) {
        if self.moves == MOVES {
            return;
        }
        self.moves += 1;
        let (new, now, at) = (address(10 + self.moves), self.world.now(), usize::from(which) % self.at.len());
        let [up, down] = self.links;
        let ways = |new| {
            let to = LinkWay { from: new, to: address(2), links: vec![up] };
            [to, LinkWay { from: address(2), to: new, links: vec![down] }]
        };
        match arg & 3 {
            0 => {
                // A NAT takes another port, or another address.
                let port = SocketAddr::new(self.at[at].ip(), 5000 + self.moves);
                let new = if arg & 4 == 0 { port } else { new };
                self.world.rebind(self.at[at], new);
                self.at[at] = new;
            }
            1 => {
                self.world.change_interface(self.at[at], new, &ways(new));
                self.at[at] = new;
                if let Some(connection) = self.connection(Side::Client) {
                    connection.rebound(now);
                }
            }
            2 => {
                self.world.add_address(self.nodes[0], new);
                for way in ways(new) {
                    self.world.route_through(way.from, way.to, &way.links);
                }
                self.at.push(new);
                if let Some(connection) = self.connection(Side::Client) {
                    let _ = connection.migrate(now, Some(new.ip()));
                }
            }
            _ => {
                if let Some(connection) = self.connection(Side::Client) {
                    connection.rebound(now);
                }
            }
        }
    }

    fn open(&mut self, side: Side, arg: u8) {
        let dir = if arg & 1 == 0 { Dir::Uni } else { Dir::Bi };
        let messages = arg & 2 != 0;
        let Some(connection) = self.connection(side) else { return };
        let opened =
            if messages { connection.streams().open_messages(dir) } else { connection.streams().open(dir) };
        let Some(id) = opened else { return };
        if arg & 4 != 0 {
            let _ = connection.messages(id).announce();
        }
        self.begin(id, side, messages);
    }

    /// A stream has begun.
    fn begin(&mut self, id: StreamId, opener: Side, messages: bool) {
        assert!(self.said.insert((id, opener), Said::new(id, opener, messages)).is_none(), "{id:?} again");
        if id.dir() == Dir::Bi {
            self.said.insert((id, !opener), Said::new(id, !opener, messages));
        }
    }

    fn accept(&mut self, side: Side, dir: Dir) {
        while let Some(id) = self.connection(side).and_then(|connection| connection.streams().accept(dir)) {
            let said = self.said.get(&(id, !side)).expect("nobody opened it");
            if said.messages {
                // Who gave a half up before taking the stream has made use of it.
                let used = said.broken || self.said.get(&(id, side)).is_some_and(|own| own.broken);
                let taken = self.connection(side).expect("it was there").messages(id).begin();
                assert!(taken.is_ok() || used, "nothing was read of it");
            }
            if self.eager {
                self.read(side, id, usize::MAX);
            }
        }
    }

    fn write(&mut self, side: Side, id: StreamId, n: usize) {
        let Some(said) = self.said.get(&(id, side)) else { return };
        // Whoever has not accepted a stream yet has not said that it carries messages.
        if said.messages && id.initiator() != side {
            return;
        }
        let mut data = Data::from(said.bytes(n));
        let Ok(taken) = self.connection(side).expect("it was there").send_stream(id).write(&mut data) else {
            return;
        };
        let said = self.said.get_mut(&(id, side)).expect("it was there");
        assert!(!said.messages && !said.finished && data.len() + taken == n);
        said.written += taken as u64;
    }

    fn finish(&mut self, side: Side, id: StreamId) {
        if self.connection(side).is_some_and(|connection| connection.send_stream(id).finish().is_ok()) {
            let said = self.said.get_mut(&(id, side)).expect("nobody opened it");
            assert!(!std::mem::replace(&mut said.finished, true), "ended twice");
        }
    }

    fn give_up(&mut self, side: Side, id: StreamId, arg: u8) {
        let Some(connection) = self.connection(side) else { return };
        let code = u64::from(arg);
        if arg & 3 == 0 {
            if connection.recv_stream(id).stop(code).is_ok() {
                self.said.get_mut(&(id, !side)).expect("nobody opened it").give_up(code);
            }
            return;
        }
        if arg & 3 == 1 {
            if connection.send_stream(id).reset(code).is_ok() {
                self.said.get_mut(&(id, side)).expect("nobody opened it").give_up(code);
            }
            return;
        }
        let Some(said) = self.said.get_mut(&(id, side)) else { return };
        let node = &mut self.world.node_mut(self.nodes[index(side)]).node;
        let Some(connection) = self.keys[index(side)].and_then(|key| node.connection(key)) else { return };
        if said.messages {
            let Some(ticket) = said.ticket(usize::from(arg >> 4)) else { return };
            if connection.send_stream(id).reset_behind(code, ticket).is_ok() {
                said.codes.insert(code);
                said.may_drop_behind(ticket);
                said.reliable = Some(0);
            }
        } else {
            let reliable = u64::from(arg) * 16;
            if connection.send_stream(id).reset_at(code, reliable).is_ok() {
                said.codes.insert(code);
                said.reliable = Some(said.reliable.unwrap_or(u64::MAX).min(reliable));
            }
        }
    }

    fn read(&mut self, side: Side, id: StreamId, max: usize) {
        let now = self.world.now();
        let node = &mut self.world.node_mut(self.nodes[index(side)]).node;
        let Some(connection) = self.keys[index(side)].and_then(|key| node.connection(key)) else { return };
        let Some(said) = self.said.get_mut(&(id, !side)) else { return };
        let all = max == usize::MAX;
        if said.messages {
            while said.read_message(connection.messages(id).recv(now)) && all {}
            return;
        }
        // Some are read in any order, which is for whoever reads to say.
        if id.0 / 4 % 3 == 1 {
            let _ = connection.recv_stream(id).as_unordered();
            while said.read_piece(max, connection.recv_stream(id).read_unordered(max)) && all {}
        } else {
            while said.read(max, connection.recv_stream(id).read(max)) && all {}
        }
    }

    fn send(&mut self, side: Side, id: StreamId, (n, arg): (usize, u8)) {
        let now = self.world.now();
        let Some(said) = self.said.get(&(id, side)) else { return };
        let payload = said.letter(usize::from(arg) * if n & 1 == 0 { 3 } else { 30 });
        let len = payload.len();
        let deadline = (n & 6 == 6).then(|| now + ms(arg));
        let connection = self.connection(side).expect("it was there");
        let Ok(ticket) = connection.messages(id).send(now, payload.into(), deadline) else { return };
        let said = self.said.get_mut(&(id, side)).expect("it was there");
        assert!(said.messages && !said.finished);
        said.sent(len, ticket, deadline.is_some());
    }

    /// What a sender of messages says of their order.
    fn order(&mut self, side: Side, id: StreamId, arg: u8) {
        let now = self.world.now();
        let node = &mut self.world.node_mut(self.nodes[index(side)]).node;
        let Some(connection) = self.keys[index(side)].and_then(|key| node.connection(key)) else { return };
        let Some(said) = self.said.get_mut(&(id, side)) else { return };
        match arg % 8 {
            0..=2 => {
                if connection.messages(id).fence().is_ok() {
                    said.fence();
                }
            }
            3 => {
                if connection.messages(id).set_ordered(arg & 8 != 0).is_ok() {
                    said.ordered = arg & 8 != 0;
                }
            }
            4 => {
                if connection.messages(id).set_resend(arg & 8 != 0).is_ok() && arg & 8 == 0 {
                    said.may_drop_all();
                }
            }
            5 => drop(connection.messages(id).next_send_at(Some(now + ms(arg)))),
            6 => drop(connection.send_stream(id).flush()),
            _ => {
                let Some(ticket) = said.ticket(usize::from(arg >> 4)) else { return };
                if connection.messages(id).supersede(ticket) {
                    said.may_drop(ticket);
                }
            }
        }
    }

    fn outcomes(&mut self, side: Side, id: StreamId) {
        while let Some((ticket, outcome)) = self.connection(side).and_then(|c| c.messages(id).next_outcome())
        {
            self.said.get_mut(&(id, side)).expect("nobody opened it").outcome(ticket, outcome);
        }
    }

    fn post(&mut self, side: Side, (n, arg): (usize, u8)) {
        let now = self.world.now();
        let (number, len) = (self.posted[index(side)].len(), 4 + usize::from(arg) * 6);
        let how = DatagramOptions {
            deadline: (n & 1 != 0).then(|| now + ms(arg)),
            when_full: if n & 2 == 0 { WhenFull::Refuse } else { WhenFull::DropOldest },
            report: n & 4 != 0,
        };
        let Some(connection) = self.connection(side) else { return };
        if n & 8 != 0 {
            connection.datagrams().flush();
        }
        if let Ok(ticket) = connection.datagrams().send(now, datagram(number, len).into(), &how) {
            let ticket = how.report.then_some(ticket);
            self.posted[index(side)].push(Posted { ticket, len, ..Posted::default() });
        }
    }

    /// Takes datagrams, and what became of them.
    fn datagrams(&mut self, side: Side) {
        while let Some(bytes) = self.connection(side).and_then(|conn| conn.datagrams().recv()) {
            let number =
                bytes.first_chunk().map(|n| u32::from_be_bytes(*n)).expect("nobody sent one so short");
            let posted = self.posted[index(!side)].get_mut(number as usize).expect("nobody sent it");
            assert!(bytes == datagram(number as usize, posted.len), "datagram {number} is another");
            assert!(!std::mem::replace(&mut posted.heard, true), "datagram {number} again");
            assert!(posted.outcome.is_none_or(DatagramOutcome::was_sent), "{number}: {:?}", posted.outcome);
        }
        while let Some((ticket, outcome)) =
            self.connection(side).and_then(|conn| conn.datagrams().next_outcome())
        {
            let all = &mut self.posted[index(side)];
            let posted =
                all.iter_mut().find(|posted| posted.ticket == Some(ticket)).expect("it was asked for");
            assert!(posted.outcome.replace(outcome).is_none(), "two outcomes of {ticket:?}");
            assert!(outcome.was_sent() || !posted.heard, "heard, and {outcome:?}");
        }
    }

    /// The links are clean, and everything arrives that somebody promised.
    fn end(mut self) {
        for node in self.nodes {
            self.world.node_mut(node).refuses.0 = 0;
        }
        self.change(
            [LinkSpec::default(), LinkSpec::default()].map(|clean| LinkSpec { delay: ms(5u8), ..clean }),
        );
        self.eager = true;
        for side in [Side::Client, Side::Server] {
            for dir in [Dir::Uni, Dir::Bi] {
                self.accept(side, dir);
            }
            let ids: Vec<StreamId> = self.said.keys().map(|(id, _)| *id).collect();
            for id in ids {
                self.read(side, id, usize::MAX);
                self.outcomes(side, id);
            }
            self.datagrams(side);
        }
        // Timeouts double for as long as nothing came.
        let until = self.world.now() + 4 * self.world.now().since(Time::ZERO) + Duration::from_secs(60);
        let over = |play: &Self| play.closed.iter().any(Option::is_some) || play.is_forsaken();
        // What is on its way may still begin something.
        self.pass(Duration::from_secs(15));
        let settled = |play: &Self| play.keys[1].is_some() && play.said.values().all(Said::is_settled);
        while self.world.now() < until && !over(&self) && !settled(&self) {
            if let (true, Some(connection)) = (self.moves > 0, self.connection(Side::Client)) {
                // Nobody else knows where it is.
                connection.ping();
            }
            self.pass(Duration::from_secs(1));
        }
        if !over(&self) {
            let missing =
                |((id, side), said): (&(StreamId, Side), &Said)| Some((*id, *side, said.missing()?));
            let missing: Vec<_> = self.said.iter().filter_map(missing).collect();
            assert!(settled(&self), "{missing:?}");
            self.rest();
        }
        for side in [Side::Client, Side::Server] {
            let now = self.world.now();
            if let Some(connection) = self.connection(side) {
                connection.close(now, 0, b"");
            }
        }
        self.pass(Duration::from_secs(120));
        for node in self.nodes {
            assert_eq!(self.world.node(node).node.keys().count(), 0, "{} is left", self.world.name(node));
        }
    }

    /// The server gave up a handshake that is through for the client, which then knows nothing of it unless
    /// it has a timeout.
    fn is_forsaken(&self) -> bool {
        self.keys[1].is_none() && self.world.node(self.nodes[1]).node.keys().count() == 0
    }

    /// Those who have nothing to say are silent.
    fn rest(&mut self) {
        self.pass(Duration::from_secs(10));
        let polls = |play: &Self| play.nodes.map(|node| play.world.node(node).polls);
        let before = polls(self);
        self.pass(Duration::from_secs(10));
        let after = polls(self);
        for (before, after) in before.into_iter().zip(after) {
            assert!(after - before < 200, "{} polls in ten seconds of silence", after - before);
        }
    }
}

fn index(side: Side) -> usize {
    usize::from(side.is_server())
}

fn ms(n: impl Into<u64>) -> Duration {
    Duration::from_millis(n.into())
}

fn datagram(number: usize, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|at| (number * 31 + at) as u8).collect();
    bytes[..4].copy_from_slice(&(number as u32).to_be_bytes());
    bytes
}

/// What an application wants first.
fn prefer(connection: &mut Connection, id: StreamId, arg: u8) {
    match arg % 8 {
        0..=2 => drop(connection.send_stream(id).set_urgency(arg >> 5)),
        3 => drop(connection.send_stream(id).set_critical()),
        4 => drop(connection.send_stream(id).set_incremental(arg & 8 != 0)),
        5 => connection.datagrams().set_urgency(arg >> 5),
        6 => match arg >> 3 & 3 {
            0 | 1 => connection.set_fec_window(u64::from(arg >> 4) * 8),
            2 => {
                connection
                    .streams()
                    .set_max(Dir::ALL[usize::from(arg >> 5 & 1)], u64::from(arg >> 6) * 2 + 1);
            }
            _ => connection.streams().set_window((u64::from(arg >> 5) + 1) * 1000),
        },
        _ => drop(connection.send_stream(id).flush()),
    }
}

fn link(a: u8, b: u8) -> LinkSpec {
    let delays = ["0", "1ms", "20ms", "300ms"];
    let rates = ["unlimited", "100kbit", "1mbit", "50mbit"];
    let losses = ["none", "1%", "10%", "40%", "ge:5%,30%,100%,0%", "burst:30,3", "100%", "list:0-3,6,9"];
    let more = [
        "",
        "jitter=uniform:30ms reorder=yes",
        "reorder=20%,15ms",
        "duplicate=30%",
        "corrupt=10%",
        "queue=codel-ecn:5ms,100ms,60kB",
        "ecn=erase",
        "ecn=drop",
        "ecn=ect1",
        "mtu=1250",
        "queue=3packets",
        "duplicate=20% corrupt=20% reorder=20%,60ms",
        "blackout=200ms+400ms",
        "mtu=1250 duplicate=20%",
    ];
    let pick = |n: u8, bits: u8| usize::from(n >> bits);
    format!(
        "delay={} rate={} loss={} {}",
        delays[pick(a, 0) & 3],
        rates[pick(a, 2) & 3],
        losses[pick(a, 4) & 7],
        more[usize::from(b) % more.len()]
    )
    .parse()
    .expect("a link")
}

fn transport(bytes: &mut Bytes<'_>) -> TransportConfig {
    let (a, b, c, d) = (bytes.next(), bytes.next(), bytes.next(), bytes.next());
    let window = [1000, 3000, 20_000, 200_000][usize::from(a & 3)];
    let versions = [
        vec![Version::V1, Version::V2],
        vec![Version::V2, Version::V1],
        vec![Version::V1],
        vec![Version::V2],
    ];
    let protection =
        quickset_policies::read(PROTECTIONS[usize::from(d >> 2) % PROTECTIONS.len()]).expect("a protection");
    rare(bytes.next())
        .with_versions(versions[usize::from(a >> 2 & 3)].clone())
        .with_max_bidi_streams(u64::from(a >> 4 & 3) * 2 + 1)
        .with_max_uni_streams(u64::from(a >> 6) * 2 + 1)
        .with_stream_window(window)
        .with_max_stream_window(window << (b & 3))
        .with_max_connection_window(window << (b >> 2 & 3))
        .with_send_buffer([300, 3000, 30_000, 300_000][usize::from(b >> 4 & 3)])
        .with_connection_send_buffer(20_000 << (c >> 6))
        .with_idle_timeout((b & 0x40 != 0).then_some(Duration::from_secs(30)))
        .with_mtu_discovery((b & 0x80 != 0).then(MtuDiscovery::default))
        .with_acks(
            ["2", "1:fixed:single", "10:fixed:merged", "adaptive"][usize::from(c & 3)]
                .parse()
                .expect("a policy"),
        )
        .with_congestion(
            [Algorithm::Bbr, Algorithm::Cubic, Algorithm::NewReno, Algorithm::Fixed(2_000_000)]
                [usize::from(c >> 2 & 3)]
            .clone(),
        )
        .with_fenced_streams([Some(5000), Some(1200), None, Some(60_000)][usize::from(c >> 4 & 3)])
        .with_max_fenced_streams(u64::from(c >> 6) + 1)
        .with_fec(match d & 3 {
            0 => None,
            1 => Some(Fec::default()),
            2 => Some(
                Fec::default().with_window(8).with_sessions(2).with_unmarked(62).with_protection(protection),
            ),
            _ => Some(Fec::default().with_window(64).with_unmarked(4).with_protection(protection)),
        })
}

fn rare(bits: u8) -> TransportConfig {
    let mut config = TransportConfig::fixed_mtu(1200)
        .with_reset_stream_at(bits & 1 == 0)
        .with_grease_quic_bit(bits & 2 == 0)
        .with_ecn(bits & 4 == 0)
        .with_gso(bits & 8 == 0)
        .with_max_ack_delay(ms(if bits & 16 == 0 { 25 } else { 200u64 }));
    config.migration.allowed = bits & 32 == 0;
    config.datagrams.send_count = if bits & 64 == 0 { 8 } else { 1000 };
    config.datagrams.receive_bytes = if bits & 128 == 0 { 3000 } else { 300_000 };
    config
}

const CLOSE: u8 = 4;

/// Of early data that is not taken.
const REJECTED: u64 = 0x0e;

/// Addresses of the client.
const MOVES: u16 = 60;

/// Polls of a node at one instant.
const PATIENCE: u32 = 20_000;

const PROTECTIONS: [&str; 18] = [
    "none",
    "adaptive",
    "adaptive:screen",
    "sr",
    "fixed:5",
    "ac-rlnc",
    "ac-rlnc:2",
    "bulk",
    "buffer",
    "messages",
    "messages:20ms",
    "rs:6/4",
    "rs:6/4:stride=2",
    "ldpc:6/4",
    "xor:3",
    "xor2d:3x3",
    "tum:2",
    "tum:2:10ms",
];
