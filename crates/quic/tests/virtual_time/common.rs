//! A client and a server in virtual time, over the null session, each with a small application.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use quickset_base::{AddressPair, Batch, Duration, Input, Machine, Poll, Rng, Time};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    Chunk, ClientConfig, Closed, Connection, ConnectionKey, Dir, Endpoint, EndpointConfig, Event, Node,
    Obstacle, RetryPolicy, ServerConfig, StreamEvent, StreamId, SystemRefusal, TransportConfig, WriteError,
};
use quickset_sim::{LinkId, LinkSpec, NodeId, World, address};

pub(crate) const ALPN: &[&[u8]] = &[b"test"];

/// A node whose application sends what it is told to, collects what it receives and echoes on request.
pub(crate) struct Peer {
    pub(crate) node: Node,
    /// Bytes to be written, by stream; the stream is finished behind them.
    outgoing: BTreeMap<(ConnectionKey, StreamId), Bytes>,
    pub(crate) received: BTreeMap<(ConnectionKey, StreamId), Vec<u8>>,
    pub(crate) finished: Vec<(ConnectionKey, StreamId)>,
    pub(crate) delivered: Vec<(ConnectionKey, StreamId)>,
    pub(crate) connected: Vec<ConnectionKey>,
    pub(crate) closed: Vec<(ConnectionKey, Closed)>,
    pub(crate) events: Vec<Event>,
    /// Received streams are sent back.
    pub(crate) echo: bool,
    /// Received data is left unread.
    pub(crate) lazy: bool,
    /// How often it was polled.
    pub(crate) polls: u64,
    /// What its system refuses to send.
    pub(crate) system: System,
}

/// A system that does not send everything.
#[derive(Default)]
pub(crate) struct System {
    /// The largest UDP payload that its interface takes.
    pub(crate) most: Option<usize>,
    /// What it says to anything.
    pub(crate) says: Option<Obstacle>,
    /// Of so many batches it refuses one: there is no room.
    pub(crate) full_every: Option<u64>,
    /// Batches that it was asked to send, and that it refused or parts of it.
    pub(crate) asked: u64,
    pub(crate) refused: u64,
}

impl System {
    /// The datagrams that leave, a bit each, and what it says to the others.
    fn judge(&mut self, batch: &Batch) -> Option<(u64, SystemRefusal)> {
        self.asked += 1;
        let is_full = self.full_every.is_some_and(|n| self.asked % n == 0);
        let obstacle = self.says.or(is_full.then_some(Obstacle::Room));
        let fits = |segment: &[u8]| obstacle.is_none() && self.most.is_none_or(|most| segment.len() <= most);
        let left = batch.segments().enumerate().fold(0, |left, (at, s)| left | u64::from(fits(s)) << at);
        if left.count_ones() as usize == batch.count() {
            return None;
        }
        self.refused += 1;
        let obstacle = obstacle.unwrap_or(Obstacle::Size);
        Some((left, SystemRefusal { obstacle, words: "the system's words".to_owned() }))
    }
}

impl Peer {
    pub(crate) fn new(seed: u64, server: Option<ServerConfig>) -> Self {
        let config = EndpointConfig {
            crypto: Arc::new(NullSecrets(seed)),
            connection_id_len: 8,
            resets_per_second: 10,
        };
        Self {
            node: Node::new(Endpoint::new(config, server, Rng::new(seed))),
            outgoing: BTreeMap::new(),
            received: BTreeMap::new(),
            finished: Vec::new(),
            delivered: Vec::new(),
            connected: Vec::new(),
            closed: Vec::new(),
            events: Vec::new(),
            echo: false,
            lazy: false,
            polls: 0,
            system: System::default(),
        }
    }

    pub(crate) fn connection(&mut self, key: ConnectionKey) -> &mut Connection {
        let closed = &self.closed;
        self.node.connection(key).unwrap_or_else(|| panic!("the connection is over: {closed:?}"))
    }

    /// Opens a stream that carries `data` and its end.
    pub(crate) fn send(&mut self, key: ConnectionKey, dir: Dir, data: impl Into<Bytes>) -> StreamId {
        let id = self.connection(key).streams().open(dir).expect("a stream may be opened");
        self.send_on(key, id, data.into());
        id
    }

    pub(crate) fn send_on(&mut self, key: ConnectionKey, id: StreamId, data: Bytes) {
        self.outgoing.insert((key, id), data);
        self.write(key, id);
    }

    fn write(&mut self, key: ConnectionKey, id: StreamId) {
        let Some(data) = self.outgoing.get_mut(&(key, id)) else { return };
        let Some(connection) = self.node.connection(key) else { return };
        while !data.is_empty() {
            match connection.send_stream(id).write(data) {
                Ok(_) => {}
                Err(WriteError::Blocked) => return,
                Err(_) => {
                    self.outgoing.remove(&(key, id));
                    return;
                }
            }
        }
        self.outgoing.remove(&(key, id));
        connection.send_stream(id).finish().expect("finished once");
    }

    pub(crate) fn read(&mut self, key: ConnectionKey, id: StreamId) {
        if self.lazy {
            return;
        }
        let Some(connection) = self.node.connection(key) else { return };
        loop {
            match connection.recv_stream(id).read(usize::MAX) {
                Ok(Chunk::Data(bytes)) => {
                    self.received.entry((key, id)).or_default().extend_from_slice(&bytes);
                }
                Ok(Chunk::Finished) => {
                    self.finished.push((key, id));
                    if self.echo && id.dir() == Dir::Bi {
                        let data = self.received.get(&(key, id)).cloned().unwrap_or_default();
                        self.send_on(key, id, data.into());
                    }
                    return;
                }
                Ok(Chunk::Blocked) | Err(_) => return,
            }
        }
    }

    fn on_event(&mut self, key: ConnectionKey, event: Event) {
        match &event {
            Event::Connected => self.connected.push(key),
            Event::Closed(why) => self.closed.push((key, why.clone())),
            Event::Stream(StreamEvent::Opened(dir)) => {
                while let Some(id) = self.connection(key).streams().accept(*dir) {
                    self.read(key, id);
                }
            }
            Event::Stream(StreamEvent::Readable(id)) => self.read(key, *id),
            Event::Stream(StreamEvent::Writable(id)) => self.write(key, *id),
            Event::Stream(StreamEvent::Finished(id)) => self.delivered.push((key, *id)),
            _ => {}
        }
        self.events.push(event);
    }
}

impl Machine for Peer {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        self.node.handle(now, input);
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        loop {
            self.polls += 1;
            let poll = self.node.poll(now, out);
            if poll == Poll::Send {
                if let Some((left, refusal)) = self.system.judge(out) {
                    self.node.not_sent(now, out, left, refusal);
                    only(out, left);
                    if out.is_empty() {
                        continue;
                    }
                }
            }
            if poll != Poll::Event {
                return poll;
            }
            while let Some((key, event)) = self.node.poll_event() {
                self.on_event(key, event);
            }
        }
    }
}

/// Leaves in a batch what leaves.
fn only(batch: &mut Batch, left: u64) {
    let (path, ecn) = (batch.path, batch.ecn);
    let kept: Vec<Vec<u8>> =
        batch.segments().enumerate().filter(|(at, _)| left >> at & 1 == 1).map(|(_, s)| s.to_vec()).collect();
    batch.clear();
    (batch.path, batch.ecn) = (path, ecn);
    for segment in kept {
        batch.space(segment.len()).copy_from_slice(&segment);
        batch.commit(segment.len());
    }
}

pub(crate) struct Pair {
    pub(crate) world: World<Peer>,
    pub(crate) client: NodeId,
    pub(crate) server: NodeId,
    /// The client's connection.
    pub(crate) key: ConnectionKey,
    /// The way to the server, and that to the client.
    pub(crate) up: LinkId,
    pub(crate) down: LinkId,
}

/// What a test varies.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) link: LinkSpec,
    /// The way to the client, when it differs.
    pub(crate) down: Option<LinkSpec>,
    pub(crate) client: TransportConfig,
    pub(crate) server: TransportConfig,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_connections: usize,
    pub(crate) certificate: usize,
    /// Bytes of the client's hello, at least.
    pub(crate) hello: usize,
}

impl Setup {
    pub(crate) fn new(seed: u64, link: &str) -> Self {
        Self {
            seed,
            link: link.parse().expect("a link"),
            down: None,
            client: TransportConfig::fixed_mtu(1200),
            server: TransportConfig::fixed_mtu(1200),
            retry: RetryPolicy::Never,
            max_connections: 100,
            certificate: 900,
            hello: 0,
        }
    }

    /// The same configuration on both sides.
    #[must_use]
    pub(crate) fn transport(mut self, change: impl Fn(&mut TransportConfig)) -> Self {
        change(&mut self.client);
        change(&mut self.server);
        self
    }

    pub(crate) fn server_config(&self) -> ServerConfig {
        ServerConfig {
            crypto: Arc::new(NullServer::new(ALPN).with_certificate(self.certificate)),
            transport: Arc::new(self.server.clone()),
            max_connections: self.max_connections,
            retry: self.retry,
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(3600),
        }
    }

    pub(crate) fn client_config(&self) -> ClientConfig {
        let crypto = Arc::new(NullClient::new(ALPN).with_hello(self.hello));
        ClientConfig { crypto, transport: Arc::new(self.client.clone()) }
    }

    /// Client and server on a link, the client's hello on its way.
    pub(crate) fn pair(&self) -> Pair {
        self.pair_of(&self.client_config(), self.server_config())
    }

    /// The same with these configurations, which other connections may share.
    pub(crate) fn pair_of(&self, config: &ClientConfig, server: ServerConfig) -> Pair {
        let mut world = World::new(self.seed);
        let mut client = Peer::new(2 * self.seed + 1, None);
        let server = Peer::new(2 * self.seed + 2, Some(server));
        let key = client
            .node
            .connect(Time::ZERO, config, AddressPair::to(address(2)), "server")
            .expect("a connection begins");
        let client = world.add("client", address(1), client);
        let server = world.add("server", address(2), server);
        let down = self.down.as_ref().unwrap_or(&self.link);
        let (up, down) = world.join(address(1), address(2), self.link.clone(), down.clone());
        Pair { world, client, server, key, up, down }
    }

    /// The same with the handshake through on both sides.
    pub(crate) fn connected(&self) -> Pair {
        let mut pair = self.pair();
        pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
        pair
    }
}

impl Pair {
    pub(crate) fn client(&self) -> &Peer {
        self.world.node(self.client)
    }

    pub(crate) fn server(&self) -> &Peer {
        self.world.node(self.server)
    }

    pub(crate) fn client_mut(&mut self) -> &mut Peer {
        self.world.node_mut(self.client)
    }

    pub(crate) fn server_mut(&mut self) -> &mut Peer {
        self.world.node_mut(self.server)
    }

    /// The server's connection.
    pub(crate) fn server_key(&self) -> ConnectionKey {
        self.server().connected[0]
    }

    /// Runs until `goal` holds; fails with the seed when it does not within ten minutes of virtual time.
    pub(crate) fn until(&mut self, what: &str, goal: impl Fn(&View<'_>) -> bool) {
        let limit = self.world.now() + Duration::from_secs(600);
        let (client, server) = (self.client, self.server);
        let ended = self
            .world
            .run_until(limit, |w| goal(&View { client: w.node(client), server: w.node(server) }))
            .unwrap_or_else(|e| panic!("seed {}: {e}", self.world.seed()));
        assert_eq!(
            ended,
            quickset_sim::RunEnded::Goal,
            "seed {}: not {what} at {}; {:?}; closed: {:?} {:?}",
            self.world.seed(),
            self.world.now(),
            [self.up, self.down].map(|link| self.world.counts(link)),
            self.client().closed,
            self.server().closed
        );
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        let limit = self.world.now() + time;
        self.world.run(limit).unwrap_or_else(|e| panic!("seed {}: {e}", self.world.seed()));
    }
}

/// Both ends, for goals.
pub(crate) struct View<'a> {
    client: &'a Peer,
    server: &'a Peer,
}

impl View<'_> {
    pub(crate) fn client(&self) -> &Peer {
        self.client
    }

    pub(crate) fn server(&self) -> &Peer {
        self.server
    }
}

/// Bytes that are different everywhere.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let mut rng = Rng::new(len as u64);
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}
