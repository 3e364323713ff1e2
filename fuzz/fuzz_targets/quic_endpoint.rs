//! Any datagrams to an endpoint that takes connections and has begun one: headers, Initial packets (whose
//! keys everybody has), Retry and Version Negotiation, coalesced packets, tokens of its own and forged ones
//! with its key.
//!
//! It comes to rest, has no more connections than it may, holds little, and to an address that proved nothing
//! it sends at most three times what came from there (RFC 9000 §8.1).
//!
//! The first byte of the input is how it is configured; then come operations of two bytes and what they need.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use quickset_base::{AddressPair, Batch, Datagram, Duration, Ecn, Input, Machine, Poll, Rng, Time};
use quickset_fuzz::peer::{ALPN, Peer, seal};
use quickset_fuzz::{Bytes, held};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    ClientConfig, Crypto as _, Endpoint, EndpointConfig, EndpointCrypto as _, Node, RetryPolicy,
    ServerConfig, Side, TransportConfig, Version,
};
use quickset_sim::address;
use quickset_wire::header::{self, Header, LongHeader, Parsed};
use quickset_wire::{ConnectionId, PacketType, Writer};

fuzz_target!(|input: &[u8]| {
    let before = held();
    let mut bytes = Bytes(input);
    let mut arena = Arena::new(bytes.next());
    while !bytes.is_empty() {
        let (op, arg) = (bytes.next(), bytes.next());
        arena.act(op, arg, &mut bytes);
        let (count, held) = (arena.node.endpoint().connections(), held() - before);
        assert!(count <= MOST_CONNECTIONS + 1, "{count} connections");
        assert!(held < MOST, "{held} bytes");
        for (address, (sent, came)) in &arena.traffic {
            assert!(
                arena.proved.contains(address) || *sent <= 3 * came,
                "{sent} bytes to {address}, of {came}"
            );
        }
    }
    // Nothing is left of handshakes that go no further.
    arena.pass(Duration::from_secs(300));
    assert_eq!(arena.node.endpoint().connections(), 0);
});

struct Arena {
    node: Node,
    client: ClientConfig,
    now: Time,
    batch: Batch,
    /// Bytes sent to an address, and from there.
    traffic: BTreeMap<SocketAddr, (usize, usize)>,
    /// Those that had a token, or were spoken to first.
    proved: BTreeSet<SocketAddr>,
    /// Ids that the node gave itself, tokens of its Retry packets, and what its client calls its server.
    ids: Vec<ConnectionId>,
    tokens: Vec<(ConnectionId, Vec<u8>)>,
    first: ConnectionId,
}

impl Arena {
    fn new(flags: u8) -> Self {
        let transport = Arc::new(
            TransportConfig::fixed_mtu(1200)
                .with_handshake_timeout(Duration::from_secs(10))
                .with_idle_timeout(Duration::from_secs(20)),
        );
        let server = ServerConfig {
            crypto: Arc::new(NullServer::new(ALPN).with_certificate(if flags & 8 == 0 { 900 } else { 8000 })),
            transport: transport.clone(),
            max_connections: MOST_CONNECTIONS,
            retry: match flags & 3 {
                0 => RetryPolicy::Always,
                1 => RetryPolicy::WhenBusy(2),
                _ => RetryPolicy::Never,
            },
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(3600),
        };
        let endpoint = EndpointConfig {
            crypto: Arc::new(NullSecrets(1)),
            connection_id_len: if flags & 4 == 0 { 8 } else { 4 },
            resets_per_second: 10,
        };
        let mut arena = Self {
            node: Node::new(Endpoint::new(endpoint, Some(server), Rng::new(1))),
            client: ClientConfig { crypto: Arc::new(NullClient::new(ALPN)), transport },
            now: Time::ZERO,
            batch: Batch::new(),
            traffic: BTreeMap::new(),
            proved: BTreeSet::from([address(SERVER)]),
            ids: Vec::new(),
            tokens: Vec::new(),
            first: ConnectionId::EMPTY,
        };
        if flags & 16 != 0 {
            let path = AddressPair::to(address(SERVER));
            arena.node.connect(Time::ZERO, &arena.client.clone(), path, "server").expect("it begins");
        }
        arena.turn();
        arena
    }

    fn act(&mut self, op: u8, arg: u8, bytes: &mut Bytes<'_>) {
        let from = if op & 0x80 == 0 { address(10 + u16::from(op >> 4 & 3)) } else { address(SERVER) };
        match op & 15 {
            0 | 1 => {
                let len = usize::from(arg) << ((op & 1) * 2);
                self.receive(from, bytes.take(len).to_vec());
            }
            2..=4 => {
                let packet = self.initial(arg, bytes);
                self.receive(from, packet);
            }
            5 => {
                // Several in a datagram, and something behind them.
                let mut packet = self.initial(arg, bytes);
                packet.extend(self.initial(arg.rotate_left(4), bytes));
                packet.extend(bytes.take(40));
                self.receive(from, packet);
            }
            6 => {
                // A hello that is good, but for a byte.
                let mut packet = Peer::new(Side::Client, |_| {}).take().remove(0);
                let at = usize::from(bytes.next()) * 5 % packet.len();
                packet[at] ^= arg;
                self.receive(from, packet);
            }
            7 => {
                let tag = self.retry(arg, bytes);
                self.receive(from, tag);
            }
            8 => {
                // As long as a hello, with a version of somebody's.
                let mut packet = vec![0xc0 | arg & 0x3f];
                packet.extend(bytes.take(60));
                packet.resize(1200, arg);
                self.receive(from, packet);
            }
            9 => {
                // For one of its ids.
                let id = self.id(arg);
                let packet = [&[0x40 | arg & 0x3f], &id[..], bytes.take(arg.into())].concat();
                self.receive(from, packet);
            }
            10 => {
                let mut out = vec![0x80 | arg, 0, 0, 0, 0];
                for id in [self.id(bytes.next()), self.id(bytes.next())] {
                    out.push(id.len() as u8);
                    out.extend_from_slice(&id);
                }
                out.extend(bytes.take(usize::from(arg & 7) * 4));
                self.receive(from, out);
            }
            _ => self.pass(Duration::from_millis(u64::from(arg) * 10)),
        }
    }

    fn id(&self, n: u8) -> ConnectionId {
        match self.ids.len() {
            0 => self.first,
            len => self.ids[usize::from(n) % len],
        }
    }

    /// An Initial packet as anybody can make it: whose, with what token, and these frames.
    fn initial(&mut self, kind: u8, bytes: &mut Bytes<'_>) -> Vec<u8> {
        let own = ConnectionId::new(bytes.take(usize::from(kind & 7) * 3)).unwrap_or(ConnectionId::EMPTY);
        let mut dcid = ConnectionId::new(&[7; 8]).expect("eight bytes");
        let mut token = Vec::new();
        match kind >> 3 & 3 {
            0 => {}
            1 => {
                if let Some((id, good)) = self.tokens.get(usize::from(bytes.next())) {
                    (dcid, token) = (*id, good.clone());
                }
            }
            2 => {
                // Forged with its own key: what it reads then is still what anybody wrote.
                let plain = bytes.take(60);
                let sealed = NullSecrets(1).seal_token([kind; 12], plain);
                token = [plain.get(..1).unwrap_or_default(), &sealed].concat();
            }
            _ => dcid = self.id(bytes.next()),
        }
        if !token.is_empty() {
            self.proved.extend((0..4).map(|n| address(10 + n)));
        }
        let version = if kind & 0x20 == 0 { Version::V1 } else { Version::V2 };
        let side = if kind & 0x40 == 0 { Side::Client } else { Side::Server };
        let id = if side.is_client() { dcid } else { self.first };
        let keys = NullClient::new(ALPN).initial_keys(version, &id, side).expect("a version that it knows");
        let payload = bytes.take(bytes.0.first().map_or(0, |n| 1 + usize::from(*n)));
        let mut packet = vec![0; 1800];
        let mut w = Writer::new(&mut packet);
        let header = LongHeader { ty: PacketType::Initial, version, dcid, scid: own, token: &token };
        let length_at = header::long_header(&mut w, &header, kind.into(), 4);
        let payload_at = w.len();
        w.bytes(payload);
        let tag = keys.local.packet.tag_len();
        let least = if kind & 0x80 == 0 { 1200 - tag } else { payload_at + 4 };
        w.zeros(least.saturating_sub(w.len()));
        header::patch_length(&mut w, length_at, tag);
        let len = w.len() + tag;
        packet.truncate(len);
        seal(&keys, kind.into(), payload_at, &mut packet);
        packet
    }

    /// A Retry packet that its client takes for its server's.
    fn retry(&self, arg: u8, bytes: &mut Bytes<'_>) -> Vec<u8> {
        let version = if arg & 1 == 0 { Version::V1 } else { Version::V2 };
        let to = self.ids.first().copied().unwrap_or(ConnectionId::EMPTY);
        let mut packet = vec![if arg & 1 == 0 { 0xf0 } else { 0xc0 }];
        packet.extend(version.0.to_be_bytes());
        for id in [&to[..], bytes.take(usize::from(arg >> 1 & 15))] {
            packet.push(id.len() as u8);
            packet.extend_from_slice(id);
        }
        packet.extend(bytes.take(arg.into()));
        let tag = NullClient::new(ALPN).retry_tag(version, &self.first, &packet);
        packet.extend(tag.expect("a version that it knows"));
        packet
    }

    fn receive(&mut self, from: SocketAddr, bytes: Vec<u8>) {
        self.traffic.entry(from).or_default().1 += bytes.len();
        let path = AddressPair { remote: from, local: None };
        let datagram = Datagram { path, ecn: Ecn::NotEct, bytes: bytes.as_slice().into() };
        self.node.handle(self.now, Input::Received(&mut vec![datagram]));
        self.turn();
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        for _ in 0..20_000 {
            let next = self.turn();
            let Some(at) = next.filter(|at| *at <= until) else {
                self.now = until;
                self.node.handle(self.now, Input::Timer);
                self.turn();
                return;
            };
            self.now = self.now.max(at);
            self.node.handle(self.now, Input::Timer);
        }
        panic!("it is woken again and again");
    }

    fn turn(&mut self) -> Option<Time> {
        for _ in 0..2000 {
            match self.node.poll(self.now, &mut self.batch) {
                Poll::Send => {
                    let to = self.batch.path.remote;
                    let segments: Vec<Vec<u8>> = self.batch.segments().map(<[u8]>::to_vec).collect();
                    segments.iter().for_each(|segment| self.sent(to, segment));
                    self.batch.clear();
                }
                Poll::Event => while self.node.poll_event().is_some() {},
                Poll::Sleep(at, _) => return at,
            }
        }
        panic!("it does not come to rest");
    }

    fn sent(&mut self, to: SocketAddr, bytes: &[u8]) {
        self.traffic.entry(to).or_default().0 += bytes.len();
        let Ok(parsed) = Parsed::parse(bytes, 8) else { return };
        match parsed.header {
            Header::Initial { dcid, scid, .. } => {
                if to == address(SERVER) {
                    self.first = ConnectionId::new(&dcid[..]).expect("as long as they are");
                }
                self.know(scid);
            }
            Header::Retry { scid, token, .. } => self.tokens.push((scid, token.to_vec())),
            _ => {}
        }
    }

    fn know(&mut self, id: ConnectionId) {
        if !self.ids.contains(&id) {
            self.ids.push(id);
        }
    }
}

const MOST_CONNECTIONS: usize = 4;

/// Connections have their first windows, and tell no more before the handshake is through.
const MOST: isize = 2 << 20;

/// Where its client connects to.
const SERVER: u16 = 9;
