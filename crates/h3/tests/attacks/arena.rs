//! The server, its honest client, and what is measured of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use quickset_base::{AddressPair, Batch, Datagram, Duration, Input, Machine, Poll, Reason, Rng, Time};
use quickset_h3::{self as h3, BodyRead, Config, OnQuic, Request, Response};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    Chunk, ClientConfig, Closed, ConnectionKey, Dir, Endpoint, EndpointConfig, Event, Node, ReadError,
    RetryPolicy, ServerConfig, Side, StreamEvent, StreamId, TransportConfig,
};
use quickset_sim::{LinkId, LinkSpec, NodeId, World, address};
use quickset_wire::TransportParams;

use crate::costs::Cost;
use crate::hostile::Hostile;
use crate::memory;

pub(crate) const ECHO: &[u8] = b"echo";

/// What a test varies.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) transport: TransportConfig,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_connections: usize,
    pub(crate) certificate: usize,
    /// HTTP/3 in place of echoes.
    pub(crate) http: Option<Config>,
    /// Requests get no answer.
    pub(crate) lazy: bool,
    /// Bytes of content in an answer.
    pub(crate) content: usize,
    /// Sessions of WebTransport are begun, and the application asks for nothing that there is to tell of
    /// them.
    pub(crate) deaf: bool,
    /// The application opens as many streams in a session as it may, and has always more to say on them.
    pub(crate) eager: bool,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self {
            seed: 1,
            transport: TransportConfig::fixed_mtu(1200),
            retry: RetryPolicy::Never,
            max_connections: 1000,
            certificate: 900,
            http: None,
            lazy: false,
            content: 0,
            deaf: false,
            eager: false,
        }
    }

    pub(crate) fn http() -> Self {
        Self { http: Some(Config::default()), ..Self::new() }
    }

    /// With WebTransport.
    pub(crate) fn sessions() -> Self {
        Self { http: Some(Config { webtransport: 1, ..Config::default() }), ..Self::new() }
    }

    fn alpn(&self) -> &'static [u8] {
        if self.http.is_some() { h3::ALPN } else { ECHO }
    }

    fn node(&self, seed: u64, server: Option<ServerConfig>) -> Node {
        let crypto = Arc::new(NullSecrets(seed));
        let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 };
        Node::new(Endpoint::new(config, server, Rng::new(seed ^ self.seed)))
    }

    fn server(&self) -> Server {
        let config = ServerConfig {
            crypto: Arc::new(NullServer::new(&[self.alpn()]).with_certificate(self.certificate)),
            transport: Arc::new(self.transport.clone()),
            max_connections: self.max_connections,
            retry: self.retry,
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(3600),
        };
        Server {
            node: self.node(2, Some(config)),
            http: self.http.clone(),
            lazy: self.lazy,
            content: Bytes::from(vec![7; self.content]),
            deaf: self.deaf.then(BTreeSet::new),
            eager: self.eager,
            spoken: BTreeMap::new(),
            h3: BTreeMap::new(),
            pending: BTreeMap::new(),
            held: 0,
            work: 0,
            time: 0,
            glance: memory::glance(),
            before: Cost::default(),
            sent: BTreeMap::new(),
            received: Sent::default(),
            pieces: 0,
            requests: BTreeMap::new(),
            closed: Vec::new(),
        }
    }

    /// The world with the server and its honest client, which has been served.
    pub(crate) fn arena(&self) -> Arena {
        let mut arena = self.empty();
        arena.pass(Duration::from_secs(1));
        arena.begin();
        arena
    }

    fn empty(&self) -> Arena {
        let mut world = World::new(self.seed);
        let server = world.add("server", address(1), Actor::Server(Box::new(self.server())));
        let honest = Honest::new(self, Time::ZERO, 3);
        let honest = world.add("honest", address(2), Actor::Honest(Box::new(honest)));
        world.join(address(2), address(1), link(), link());
        let hostile = Hostile::new(self.seed, address(1), self.alpn());
        let hostile = world.add("hostile", address(3), Actor::Hostile(Box::new(hostile)));
        let (up, down) = world.join(address(3), address(1), link(), link());
        let (begun, setup) = (Time::ZERO, self.clone());
        Arena {
            world,
            server,
            honest,
            hostile,
            up,
            down,
            begun,
            rounds: 0,
            base: 0,
            setup,
            newcomers: Vec::new(),
        }
    }

    /// The same without an honest client, from the beginning.
    pub(crate) fn quiet(&self) -> Arena {
        let mut arena = self.empty();
        arena.honest().deaf = true;
        arena
    }

    /// The same with the attacker's handshake through.
    pub(crate) fn attacked(&self) -> Arena {
        let mut arena = self.arena();
        arena.hostile().connect();
        arena.pass(Duration::from_millis(200));
        assert!(arena.hostile().is_connected(), "the attacker comes through the handshake");
        arena.begin();
        arena
    }
}

fn link() -> LinkSpec {
    "rate=100mbit delay=10ms".parse().expect("a link")
}

pub(crate) struct Arena {
    pub(crate) world: World<Actor>,
    server: NodeId,
    honest: NodeId,
    hostile: NodeId,
    up: LinkId,
    down: LinkId,
    begun: Time,
    rounds: u64,
    base: isize,
    setup: Setup,
    /// Who came later, and when.
    newcomers: Vec<(NodeId, Time)>,
}

pub(crate) enum Actor {
    Server(Box<Server>),
    Honest(Box<Honest>),
    Hostile(Box<Hostile>),
    /// Clients that come through the handshake, and want nothing.
    Crowd(Box<Node>),
}

impl Arena {
    /// From here on is measured.
    pub(crate) fn begin(&mut self) {
        self.begun = self.world.now();
        self.rounds = self.honest().rounds;
        self.honest().slowest = Duration::ZERO;
        self.base = self.server().held;
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        let limit = self.world.now() + time;
        self.world.run(limit).unwrap_or_else(|e| panic!("seed {}: {e}", self.world.seed()));
    }

    /// So many times: the attacker does something, and a while passes. Returns the most bytes that the server
    /// held beyond those when it began.
    pub(crate) fn each(
        &mut self,
        times: u64,
        pause: Duration,
        mut act: impl FnMut(&mut Hostile, u64),
    ) -> isize {
        let mut most = 0;
        for n in 0..times {
            act(self.hostile(), n);
            self.pass(pause);
            most = most.max(self.grown());
        }
        most
    }

    /// Bytes that the server holds beyond those when it began.
    pub(crate) fn grown(&mut self) -> isize {
        self.server().held - self.base
    }

    /// The honest client was served as if nothing else happened: at least every tenth of a second since
    /// `begin`.
    pub(crate) fn assert_served(&mut self) {
        let time = self.world.now().since(self.begun);
        let rounds = self.honest().rounds - self.rounds;
        let slowest = self.honest().slowest;
        assert!(self.honest().closed.is_none(), "{:?}", self.honest().closed);
        assert!(u128::from(rounds) >= time.as_millis() / 100, "{rounds} rounds in {time:?}");
        assert!(slowest < Duration::from_millis(150), "an honest round took {slowest:?}");
    }

    pub(crate) fn server(&mut self) -> &mut Server {
        match self.world.node_mut(self.server) {
            Actor::Server(server) => server,
            _ => unreachable!("the server is the server"),
        }
    }

    pub(crate) fn honest(&mut self) -> &mut Honest {
        match self.world.node_mut(self.honest) {
            Actor::Honest(honest) => honest,
            _ => unreachable!("the honest one is honest"),
        }
    }

    pub(crate) fn hostile(&mut self) -> &mut Hostile {
        match self.world.node_mut(self.hostile) {
            Actor::Hostile(hostile) => hostile,
            _ => unreachable!("the hostile one is hostile"),
        }
    }

    /// Another attacker, which announces something else.
    pub(crate) fn replace_hostile(&mut self, change: impl Fn(&mut TransportParams)) {
        let alpn = self.setup.alpn();
        *self.hostile() = Hostile::with(77, address(1), alpn, change);
    }

    /// Somebody honest comes, and asks; from an address of its own.
    pub(crate) fn welcome(&mut self) {
        let n = self.next();
        let now = self.world.now();
        let newcomer = Honest::new(&self.setup, now, u64::from(n));
        let node = self.world.add("newcomer", address(n), Actor::Honest(Box::new(newcomer)));
        self.world.join(address(n), address(1), link(), link());
        self.newcomers.push((node, now));
    }

    /// The address of who comes next: the attacker can use it, too, as one that says hello in the name of
    /// others would, or that is behind the same NAT.
    pub(crate) fn victim(&mut self) -> IpAddr {
        let shared = SocketAddr::new(address(self.next()).ip(), 9);
        self.world.add_address(self.hostile, shared);
        self.world.route(shared, address(1), self.up);
        self.world.route(address(1), shared, self.down);
        shared.ip()
    }

    fn next(&self) -> u16 {
        100 + self.newcomers.len() as u16
    }

    /// How long each who came took until it was answered; `None`: it was not.
    pub(crate) fn waits(&mut self) -> Vec<Option<Duration>> {
        let waited = |(node, came): &(NodeId, Time)| match self.world.node(*node) {
            Actor::Honest(honest) => honest.first.map(|first| first.since(*came)),
            _ => unreachable!("newcomers are honest"),
        };
        self.newcomers.iter().map(waited).collect()
    }

    /// Who came was answered, in the time of three round trips, one of them of a Retry, and a little for what
    /// is before it.
    pub(crate) fn assert_welcomed(&mut self) {
        let waits = self.waits();
        let soon = |wait: &Option<Duration>| wait.is_some_and(|wait| wait < Duration::from_millis(80));
        assert!(!waits.is_empty() && waits.iter().all(soon), "{waits:?}");
    }

    /// The server's connections.
    pub(crate) fn connections(&mut self) -> usize {
        self.server().node.endpoint().connections()
    }

    /// Addresses that the attacker can use, beside its own.
    pub(crate) fn addresses(&mut self, n: u16) -> Vec<IpAddr> {
        let all = (0..n).map(|n| SocketAddr::from(([10, 9, (n >> 8) as u8, n as u8], 4433)));
        all.map(|address| {
            self.world.add_address(self.hostile, address);
            self.world.route(address, quickset_sim::address(1), self.up);
            self.world.route(quickset_sim::address(1), address, self.down);
            address.ip()
        })
        .collect()
    }

    /// So many clients, which all say hello now.
    pub(crate) fn crowd(&mut self, setup: &Setup, clients: usize) -> (NodeId, Vec<ConnectionKey>) {
        let mut node = setup.node(9, None);
        let crypto = Arc::new(NullClient::new(&[self.setup.alpn()]));
        let config = ClientConfig { crypto, transport: Arc::default() };
        let (now, path) = (self.world.now(), AddressPair::to(address(1)));
        let keys =
            (0..clients).map(|_| node.connect(now, &config, path, "server").expect("it begins")).collect();
        let crowd = self.world.add("crowd", address(4), Actor::Crowd(Box::new(node)));
        let link = || -> LinkSpec { "rate=10gbit delay=10ms".parse().expect("a link") };
        self.world.join(address(4), address(1), link(), link());
        (crowd, keys)
    }

    /// They leave.
    pub(crate) fn disperse(&mut self, (crowd, keys): (NodeId, Vec<ConnectionKey>)) {
        let now = self.world.now();
        let Actor::Crowd(node) = self.world.node_mut(crowd) else { unreachable!("a crowd is a crowd") };
        for key in keys {
            if let Some(connection) = node.connection(key) {
                connection.close(now, 0, b"");
            }
        }
    }

    /// What the server sent to the attacker's first address.
    pub(crate) fn sent_to_hostile(&mut self) -> Sent {
        self.server().sent.get(&address(3)).copied().unwrap_or_default()
    }
}

impl Machine for Actor {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        match self {
            Self::Server(server) => server.handle(now, input),
            Self::Honest(honest) => honest.node.handle(now, input),
            Self::Hostile(hostile) => hostile.handle(now, input),
            Self::Crowd(node) => node.handle(now, input),
        }
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        match self {
            Self::Server(server) => server.poll(now, out),
            Self::Honest(honest) => honest.poll(now, out),
            Self::Hostile(hostile) => hostile.poll(now, out),
            Self::Crowd(node) => loop {
                let poll = node.poll(now, out);
                if poll != Poll::Event {
                    return poll;
                }
                while node.poll_event().is_some() {}
            },
        }
    }
}

/// Datagrams one way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
}

/// The endpoint under attack, and its application.
pub(crate) struct Server {
    pub(crate) node: Node,
    http: Option<Config>,
    lazy: bool,
    content: Bytes,
    /// Connections with a session of WebTransport, where the application began it and asks for nothing more
    /// that there is to tell.
    deaf: Option<BTreeSet<ConnectionKey>>,
    /// Sessions are spoken in as much as may be: the streams in which that is done, behind the session's.
    eager: bool,
    pub(crate) spoken: BTreeMap<ConnectionKey, Vec<StreamId>>,
    pub(crate) h3: BTreeMap<ConnectionKey, h3::Connection>,
    /// What is echoed and waits for room.
    pending: BTreeMap<(ConnectionKey, StreamId), Bytes>,
    /// Bytes of its heap.
    pub(crate) held: isize,
    /// Allocations it made.
    pub(crate) work: u64,
    /// Nanoseconds that it took, without those for looking at the clock.
    time: u64,
    glance: u64,
    /// What it had cost when it was looked at.
    before: Cost,
    pub(crate) sent: BTreeMap<SocketAddr, Sent>,
    pub(crate) received: Sent,
    /// Pieces of content that the application was given.
    pub(crate) pieces: u64,
    /// Requests that the application heard of, by connection.
    pub(crate) requests: BTreeMap<ConnectionKey, u64>,
    pub(crate) closed: Vec<Closed>,
}

impl Server {
    /// Whether requests are answered.
    pub(crate) fn set_lazy(&mut self, lazy: bool) {
        self.lazy = lazy;
    }

    /// Requests of the connection that came last.
    pub(crate) fn last_requests(&self) -> u64 {
        self.requests.last_key_value().map_or(0, |(_, n)| *n)
    }

    /// Packets of all its connections that were dropped since their senders had not paid for what they ask.
    pub(crate) fn unpaid_packets(&mut self) -> u64 {
        let keys: Vec<ConnectionKey> = self.node.keys().collect();
        let unpaid =
            |key| self.node.connection(key).map_or(0, |connection| connection.stats().unpaid_packets);
        keys.into_iter().map(unpaid).sum()
    }

    /// How often any of them was paced.
    pub(crate) fn paced(&mut self) -> u64 {
        let keys: Vec<ConnectionKey> = self.node.keys().collect();
        let paced = |key| self.node.connection(key).map_or(0, |connection| connection.stats().paced);
        keys.into_iter().map(paced).sum()
    }

    /// What it does counts as its own.
    fn measured<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let (held, calls, at) = (memory::held(), memory::calls(), memory::clock());
        let result = act(self);
        self.held += memory::held() - held;
        self.work += memory::calls() - calls;
        self.time += (memory::clock() - at).saturating_sub(self.glance);
        result
    }

    /// What it did until now counts no more.
    pub(crate) fn begin(&mut self) {
        self.before = Cost::default();
        self.before = self.cost();
    }

    /// What it did since.
    pub(crate) fn cost(&self) -> Cost {
        let before = self.before;
        Cost {
            time: self.time - before.time,
            allocations: self.work - before.allocations,
            bytes: self.received.bytes - before.bytes,
            datagrams: self.received.datagrams - before.datagrams,
            heard: self.requests.values().sum::<u64>() - before.heard,
        }
    }

    fn on_event(&mut self, now: Time, key: ConnectionKey, event: Event) {
        match event {
            Event::Closed(why) => {
                self.closed.push(why);
                self.closed.truncate(1000);
                self.h3.remove(&key);
                self.pending.retain(|(of, _), _| *of != key);
            }
            Event::Connected if self.http.is_some() => {
                let config = self.http.clone().unwrap_or_default();
                let Some(connection) = self.node.connection(key) else { return };
                let mut t = OnQuic { connection, now };
                self.h3.insert(key, h3::Connection::new(Side::Server, config, &mut t));
            }
            Event::Stream(event) if self.http.is_some() => {
                let (Some(h3), Some(connection)) = (self.h3.get_mut(&key), self.node.connection(key)) else {
                    return;
                };
                h3.handle(&mut OnQuic { connection, now }, event);
                self.answer(now, key);
            }
            Event::Stream(event) => self.on_stream(key, &event),
            Event::Datagram(_) if self.http.is_some() => {
                let (Some(h3), Some(connection)) = (self.h3.get_mut(&key), self.node.connection(key)) else {
                    return;
                };
                while let Some(data) = connection.datagrams().recv() {
                    h3.handle_datagram(&mut OnQuic { connection, now }, data);
                }
                self.answer(now, key);
            }
            _ => {}
        }
    }

    fn on_stream(&mut self, key: ConnectionKey, event: &StreamEvent) {
        match event {
            StreamEvent::Opened(dir) => {
                while let Some(id) = self.node.connection(key).and_then(|c| c.streams().accept(*dir)) {
                    *self.requests.entry(key).or_default() += 1;
                    self.echo(key, id);
                }
            }
            StreamEvent::Readable(id) | StreamEvent::Writable(id) => self.echo(key, *id),
            StreamEvent::Stopped { id, .. } => drop(self.pending.remove(&(key, *id))),
            _ => {}
        }
    }

    /// Reads no more than it can send.
    fn echo(&mut self, key: ConnectionKey, id: StreamId) {
        let Some(connection) = self.node.connection(key) else { return };
        if self.lazy {
            return;
        }
        loop {
            if let Some(mut data) = self.pending.remove(&(key, id)) {
                let _ = connection.send_stream(id).write(&mut data);
                if !data.is_empty() && connection.stream(id).send_credit().is_some() {
                    self.pending.insert((key, id), data);
                    return;
                }
            }
            match connection.recv_stream(id).read(64 << 10) {
                Ok(Chunk::Data(data)) if id.dir() == Dir::Bi => drop(self.pending.insert((key, id), data)),
                Ok(Chunk::Data(_)) => {}
                Ok(Chunk::Finished) => {
                    let _ = connection.send_stream(id).finish();
                    return;
                }
                Err(ReadError::Reset(code)) => {
                    let _ = connection.send_stream(id).reset(code);
                    return;
                }
                Ok(Chunk::Blocked) | Err(_) => return,
            }
        }
    }

    fn answer(&mut self, now: Time, key: ConnectionKey) {
        if self.deaf.as_ref().is_some_and(|deaf| deaf.contains(&key)) {
            return;
        }
        let (Some(h3), Some(connection)) = (self.h3.get_mut(&key), self.node.connection(key)) else { return };
        let mut t = OnQuic { connection, now };
        while let Some(event) = h3.poll_event() {
            match event {
                h3::Event::Request { id, request, .. } if request.protocol.is_some() => {
                    let _ = h3.respond(&mut t, id, &Response::new(200), false);
                    if let Some(deaf) = &mut self.deaf {
                        deaf.insert(key);
                        return;
                    }
                    if self.eager {
                        self.spoken.insert(key, vec![id]);
                        speak(self.spoken.get_mut(&key), h3, &mut t);
                    }
                }
                h3::Event::Available(_) | h3::Event::Writable(_) => {
                    speak(self.spoken.get_mut(&key), h3, &mut t);
                }
                h3::Event::Request { id, .. } => {
                    *self.requests.entry(key).or_default() += 1;
                    if !self.lazy {
                        let mut content = self.content.clone();
                        let is_all = content.is_empty();
                        let response = Response::new(200).with("x-served", "yes");
                        let _ = h3.respond(&mut t, id, &response, is_all);
                        if !is_all && h3.send(&mut t, id, &mut content).is_ok() {
                            let _ = h3.finish(&mut t, id);
                        }
                        while let Ok(BodyRead::Data(_)) = h3.read(&mut t, id, 64 << 10) {
                            self.pieces += 1;
                        }
                    }
                }
                h3::Event::Readable(id) if !self.lazy => {
                    while let Ok(BodyRead::Data(_)) = h3.read(&mut t, id, 64 << 10) {
                        self.pieces += 1;
                    }
                    while let Ok(Chunk::Data(_)) = h3.session_read(&mut t, id, 64 << 10) {
                        self.pieces += 1;
                    }
                }
                h3::Event::SessionStream { id, .. } => {
                    *self.requests.entry(key).or_default() += 1;
                    while let Ok(Chunk::Data(_)) = h3.session_read(&mut t, id, 64 << 10) {
                        self.pieces += 1;
                    }
                    let _ = h3.session_finish(&mut t, id);
                }
                _ => {}
            }
        }
    }
}

/// Opens streams in the session that is the first of them, and says something on the last, until there is no
/// credit for more.
fn speak(spoken: Option<&mut Vec<StreamId>>, h3: &mut h3::Connection, t: &mut OnQuic<'_>) {
    let Some(spoken) = spoken else { return };
    while let Ok(id) = h3.open_session_stream(t, spoken[0], Dir::Uni) {
        spoken.push(id);
    }
    while let Some(&last) = spoken[1..].last() {
        if h3.session_write(t, last, &mut Bytes::from_static(&[7; 64])).is_err() {
            return;
        }
    }
}

impl Machine for Server {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        let Input::Received(datagrams) = input else {
            return self.measured(|this| this.node.handle(now, Input::Timer));
        };
        for datagram in datagrams.iter() {
            self.received.datagrams += 1;
            self.received.bytes += datagram.bytes.len() as u64;
        }
        // Copies, so that what it keeps of them counts.
        self.measured(|this| {
            let copy = |d: &Datagram| Datagram { bytes: BytesMut::from(&d.bytes[..]), ..*d };
            let mut own: Vec<Datagram> = datagrams.iter().map(copy).collect();
            this.node.handle(now, Input::Received(&mut own));
        });
        datagrams.clear();
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        let poll = self.measured(|this| {
            loop {
                let poll = this.node.poll(now, out);
                if poll != Poll::Event {
                    return poll;
                }
                while let Some((key, event)) = this.node.poll_event() {
                    this.on_event(now, key, event);
                }
            }
        });
        if poll == Poll::Send {
            let sent = self.sent.entry(out.path.remote).or_default();
            sent.datagrams += out.count() as u64;
            sent.bytes += out.bytes().len() as u64;
        }
        poll
    }
}

/// A client that asks, waits for the answer, and asks again.
pub(crate) struct Honest {
    pub(crate) node: Node,
    pub(crate) key: ConnectionKey,
    http: Option<Config>,
    h3: Option<h3::Connection>,
    asked: Option<(StreamId, Time)>,
    /// How often it was answered, and how long that took at most.
    pub(crate) rounds: u64,
    pub(crate) slowest: Duration,
    /// When it was answered the first time.
    first: Option<Time>,
    pub(crate) closed: Option<Closed>,
    /// It says nothing.
    deaf: bool,
}

impl Honest {
    fn new(setup: &Setup, now: Time, seed: u64) -> Self {
        let mut node = setup.node(seed, None);
        let crypto = Arc::new(NullClient::new(&[setup.alpn()]));
        let config = ClientConfig { crypto, transport: Arc::default() };
        let key =
            node.connect(now, &config, AddressPair::to(address(1)), "server").expect("a connection begins");
        Self {
            node,
            key,
            http: setup.http.clone(),
            h3: None,
            asked: None,
            rounds: 0,
            slowest: Duration::ZERO,
            first: None,
            closed: None,
            deaf: false,
        }
    }

    fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Connected => {
                if let (Some(config), Some(connection)) = (&self.http, self.node.connection(self.key)) {
                    let mut t = OnQuic { connection, now };
                    self.h3 = Some(h3::Connection::new(Side::Client, config.clone(), &mut t));
                }
                self.ask(now);
            }
            Event::Closed(why) => self.closed = Some(why),
            Event::Stream(event) => {
                if let (Some(h3), Some(connection)) = (&mut self.h3, self.node.connection(self.key)) {
                    h3.handle(&mut OnQuic { connection, now }, event);
                    self.read_http(now);
                } else if let StreamEvent::Readable(id) = event {
                    self.read(now, id);
                }
            }
            _ => {}
        }
    }

    fn ask(&mut self, now: Time) {
        let Some(connection) = self.node.connection(self.key) else { return };
        let id = if let Some(h3) = &mut self.h3 {
            let request = Request::new("GET", "example.com", "/");
            h3.request(&mut OnQuic { connection, now }, &request, true).expect("a request is allowed")
        } else {
            let id = connection.streams().open(Dir::Bi).expect("a stream is allowed");
            connection.send_stream(id).write(&mut Bytes::from_static(&[7; 500])).expect("there is room");
            connection.send_stream(id).finish().expect("finished once");
            id
        };
        self.asked = Some((id, now));
    }

    fn read(&mut self, now: Time, id: StreamId) {
        let Some(connection) = self.node.connection(self.key) else { return };
        loop {
            match connection.recv_stream(id).read(usize::MAX) {
                Ok(Chunk::Data(_)) => {}
                Ok(Chunk::Finished) => return self.answered(now),
                _ => return,
            }
        }
    }

    fn read_http(&mut self, now: Time) {
        let (Some(h3), Some(connection)) = (&mut self.h3, self.node.connection(self.key)) else { return };
        let mut t = OnQuic { connection, now };
        let mut done = false;
        while let Some(event) = h3.poll_event() {
            if let h3::Event::Response { id, .. } | h3::Event::Readable(id) = event {
                while let Ok(body) = h3.read(&mut t, id, 64 << 10) {
                    match body {
                        BodyRead::Blocked => break,
                        BodyRead::Finished => {
                            done = true;
                            break;
                        }
                        _ => {}
                    }
                }
            }
        }
        if done {
            self.answered(now);
        }
    }

    fn answered(&mut self, now: Time) {
        if let Some((_, then)) = self.asked.take() {
            self.rounds += 1;
            self.first.get_or_insert(now);
            self.slowest = self.slowest.max(now.since(then));
            self.ask(now);
        }
    }
}

impl Machine for Honest {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        self.node.handle(now, input);
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        if self.deaf {
            return Poll::Sleep(None, Reason::Idle);
        }
        loop {
            let poll = self.node.poll(now, out);
            if poll != Poll::Event {
                return poll;
            }
            while let Some((_, event)) = self.node.poll_event() {
                self.on_event(now, event);
            }
        }
    }
}
