//! One of ours with a peer by hand, on a link that loses nothing and takes no time.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use quickset_base::{AddressPair, Batch, Datagram, Duration, Ecn, Input, Machine, Poll, Rng, Time};
use quickset_quic::null::NullSecrets;
use quickset_quic::{
    Chunk, ClientConfig, Closed, Connection, ConnectionKey, DatagramOptions, Dir, Endpoint, EndpointConfig,
    Event, Fec, MtuDiscovery, Node, Piece, Protection, RetryPolicy, ServerConfig, Side, StreamEvent,
    StreamId, TransportConfig, Version,
};
use quickset_sim::address;
use quickset_wire::Space;

use crate::peer::{Cryptos, Peer};

/// Ours, and who is at the other end.
pub struct Victim {
    node: Node,
    key: Option<ConnectionKey>,
    pub now: Time,
    pub peer: Peer,
    /// Where the peer sends from, and the mark of what it sends.
    pub from: SocketAddr,
    pub ecn: Ecn,
    batch: Batch,
    pub closed: Option<Closed>,
    /// The handshake is through, for ours.
    pub connected: bool,
    /// Streams that there are or were.
    pub ids: BTreeSet<StreamId>,
    /// Datagrams sent since the connection was over.
    after: u32,
}

impl Victim {
    /// A connection of ours on this side; the handshake is through unless `young`.
    pub fn new(side: Side, young: bool, config: TransportConfig) -> Self {
        let mut victim = Self::begin(side, Cryptos::null(), None, config);
        // Hellos, flights, and what confirms them.
        for _ in 0..if young { 1 } else { 4 } {
            victim.deliver();
        }
        if !young {
            assert!(victim.peer.is_connected(), "the handshake comes through");
            if side.is_client() {
                victim.peer.say(Space::Data, &[HANDSHAKE_DONE]);
                victim.deliver();
            }
        }
        victim
    }

    /// The same where nothing of the peer's has come, which says its part of the handshake by hand if it is
    /// `held`.
    pub fn begin(side: Side, cryptos: Cryptos, held: Option<[Vec<u8>; 3]>, config: TransportConfig) -> Self {
        let transport = Arc::new(config);
        let server = ServerConfig {
            crypto: cryptos.server.clone(),
            transport: transport.clone(),
            max_connections: 4,
            retry: RetryPolicy::Never,
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(3600),
        };
        let crypto = Arc::new(NullSecrets(1));
        let endpoint = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 };
        let mut node = Node::new(Endpoint::new(endpoint, side.is_server().then_some(server), Rng::new(1)));
        let client = ClientConfig { crypto: cryptos.client.clone(), transport };
        let path = AddressPair::to(address(2));
        let key = side
            .is_client()
            .then(|| node.connect(Time::ZERO, &client, path, cryptos.name).expect("it begins"));
        let mut victim = Self {
            node,
            key,
            now: Time::ZERO,
            peer: Peer::with(!side, |_| {}, cryptos, held),
            from: address(2),
            ecn: Ecn::NotEct,
            batch: Batch::new(),
            closed: None,
            connected: false,
            ids: BTreeSet::new(),
            after: 0,
        };
        victim.turn();
        victim
    }

    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.node.connection(self.key?)
    }

    /// Ours takes what the peer has sent, each datagram for itself, and answers.
    pub fn deliver(&mut self) {
        for bytes in self.peer.take() {
            let path = AddressPair { remote: self.from, local: None };
            let datagram = Datagram { path, ecn: self.ecn, bytes: bytes.as_slice().into() };
            self.node.handle(self.now, Input::Received(&mut vec![datagram]));
            self.turn();
        }
    }

    /// Time passes, with all that is due within it.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        let mut wakes = 0;
        loop {
            match self.turn() {
                Some(at) if at <= until => {
                    self.now = self.now.max(at);
                    wakes += 1;
                    assert!(wakes < 20_000, "it is woken again and again");
                    self.node.handle(self.now, Input::Timer);
                }
                _ => break,
            }
        }
        self.now = until;
        self.node.handle(self.now, Input::Timer);
        self.turn();
    }

    /// Ours does what it wants now. When it wants to be woken.
    fn turn(&mut self) -> Option<Time> {
        for _ in 0..MOST_POLLS {
            match self.node.poll(self.now, &mut self.batch) {
                Poll::Send => {
                    for segment in self.batch.segments().map(<[u8]>::to_vec).collect::<Vec<_>>() {
                        self.peer.hear(segment);
                        self.after += u32::from(self.closed.is_some());
                    }
                    self.batch.clear();
                }
                Poll::Event => {
                    while let Some((key, event)) = self.node.poll_event() {
                        self.told(key, event);
                    }
                }
                Poll::Sleep(at, _) => return at,
            }
            assert!(self.after < 200, "it does not end");
        }
        panic!("it does not come to rest");
    }

    fn told(&mut self, key: ConnectionKey, event: Event) {
        self.key.get_or_insert(key);
        if self.key != Some(key) {
            return;
        }
        match event {
            Event::Closed(why) => {
                assert!(self.closed.is_none(), "it ends twice");
                self.closed = Some(why);
            }
            Event::Connected => self.connected = true,
            Event::Stream(StreamEvent::Opened(dir)) => {
                // Streams in two of three are for messages.
                while let Some(id) = self.connection().and_then(|c| c.streams().accept(dir)) {
                    self.ids.insert(id);
                    if id.0 / 4 % 3 != 0 {
                        let _ = self.connection().expect("it was there").messages(id).begin();
                    }
                }
            }
            _ => {}
        }
    }

    /// What its application does.
    pub fn act(&mut self, op: u8, arg: u8) {
        let now = self.now;
        let id =
            self.ids.iter().rev().nth(usize::from(arg >> 4)).copied().unwrap_or(StreamId(u64::from(arg)));
        let Some(c) = self.connection() else { return };
        let dir = if arg & 1 == 0 { Dir::Uni } else { Dir::Bi };
        let data = vec![arg; usize::from(arg) * 20];
        match op % 22 {
            0 => {
                let opened = c.streams().open(dir);
                self.ids.extend(opened);
            }
            1 => {
                let opened = c.streams().open_messages(dir);
                self.ids.extend(opened);
            }
            2 | 3 => drop(c.send_stream(id).write(&mut data.into())),
            4 | 5 => {
                let _ = c.messages(id).send(
                    now,
                    data.into(),
                    (arg & 1 != 0).then(|| now + Duration::from_millis(30)),
                );
            }
            6 => drop(c.messages(id).fence()),
            7 => drop(c.send_stream(id).finish()),
            8 => drop(c.send_stream(id).reset(1)),
            9 => drop(c.send_stream(id).reset_at(1, u64::from(arg))),
            10 => drop(c.recv_stream(id).stop(1)),
            11 => drop(c.datagrams().send(
                now,
                data.into(),
                &DatagramOptions { report: true, ..Default::default() },
            )),
            12 => drop(c.update_keys(now)),
            13 => {
                let _ = c.send_stream(id).set_protection(&protection(arg));
            }
            14 => c.datagrams().set_protection(&protection(arg)),
            15 => drop(c.migrate(now, None)),
            16 => c.rebound(now),
            17 => c.set_fec_window(u64::from(arg)),
            18 => c.ping(),
            19 => c.streams().set_max(dir, u64::from(arg >> 1)),
            20 => c.streams().set_window(u64::from(arg) * 50),
            _ => self.read(),
        }
        self.turn();
    }

    /// Its application reads all that there is.
    pub fn read(&mut self) {
        let now = self.now;
        for id in self.ids.clone() {
            let Some(c) = self.connection() else { return };
            while matches!(c.recv_stream(id).read(1000), Ok(Chunk::Data(_))) {}
            if id.0 / 4 % 5 == 3 {
                let _ = c.recv_stream(id).as_unordered();
                while matches!(c.recv_stream(id).read_unordered(1000), Ok(Piece::Data { .. })) {}
            }
            while matches!(c.messages(id).recv(now), Ok(Some(_))) {}
            while c.messages(id).next_outcome().is_some() {}
            while c.datagrams().recv().is_some() {}
            while c.datagrams().next_outcome().is_some() {}
        }
    }
}

/// Small windows, so that it shows when they are not kept to.
pub fn config(flags: u8) -> TransportConfig {
    TransportConfig::fixed_mtu(1200)
        .with_versions(vec![Version::V1])
        .with_max_bidi_streams(8)
        .with_max_uni_streams(8)
        .with_stream_window(8000)
        .with_max_stream_window(16_000)
        .with_max_connection_window(32_000)
        .with_send_buffer(20_000)
        .with_fenced_streams(Some(4000))
        .with_max_fenced_streams(4)
        .with_idle_timeout(None)
        .with_mtu_discovery((flags & 1 != 0).then(MtuDiscovery::default))
        .with_fec(Fec::default().with_window(32).with_sessions(3).with_protection(protection(flags >> 1)))
}

/// Polls until it sleeps: far more than a congestion window of datagrams and events.
const MOST_POLLS: u32 = 5000;

/// RFC 9000 §19.20.
const HANDSHAKE_DONE: u8 = 0x1e;

fn protection(arg: u8) -> Protection {
    quickset_policies::read(PROTECTIONS[usize::from(arg) % 8]).expect("a protection")
}

const PROTECTIONS: [&str; 8] =
    ["none", "adaptive:screen", "fixed:4", "rs:6/4", "ldpc:6/4", "xor:3", "tum:2:10ms", "messages"];
