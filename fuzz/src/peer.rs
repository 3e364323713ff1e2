//! The other end of a connection by hand, client or server: it comes through the handshake as anybody does,
//! has the keys, and puts into packets whatever it is given.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use quickset_quic::null::{NullClient, NullServer};
use quickset_quic::{ClientCrypto, CryptoSession, KeyChange, Keys, ServerCrypto};
use quickset_wire::frame::{self, Frame, Frames};
use quickset_wire::header::{self, Header, LongHeader, Parsed, ShortHeader};
use quickset_wire::{
    ConnectionId, FecDecoder, PacketType, Schemes, Side, Space, TransportParams, Version, Writer,
    packet_number,
};

pub const ALPN: &[&[u8]] = &[b"fuzz"];

/// How handshakes are made, of which either side has its part.
#[derive(Clone)]
pub struct Cryptos {
    pub client: Arc<dyn ClientCrypto>,
    pub server: Arc<dyn ServerCrypto>,
    /// The name of the server.
    pub name: &'static str,
}

impl Cryptos {
    /// Without cryptography.
    pub fn null() -> Self {
        let (client, server) = (Arc::new(NullClient::new(ALPN)), Arc::new(NullServer::new(ALPN)));
        Self { client, server, name: "server" }
    }
}

/// What it knows of the connection.
pub struct Peer {
    side: Side,
    cryptos: Cryptos,
    session: Option<Box<dyn CryptoSession>>,
    params: fn(&mut TransportParams),
    pub dcid: ConnectionId,
    scid: ConnectionId,
    levels: [Level; 3],
    out: Vec<Vec<u8>>,
    /// Data of challenges that came.
    pub challenges: Vec<[u8; 8]>,
    /// Payloads of 1-RTT packets that came, for those who collect them.
    pub payloads: Option<Vec<Vec<u8>>>,
    /// What it would say of the handshake, by level, for those who say it themselves.
    pub held: Option<[Vec<u8>; 3]>,
    /// The other side said farewell.
    pub closed: bool,
}

/// A packet number space.
#[derive(Default)]
struct Level {
    keys: Option<Keys>,
    next: u64,
    seen: BTreeSet<u64>,
    /// CRYPTO bytes sent and received.
    said: u64,
    read: u64,
    /// It has said all that it has to say unasked.
    acked: u64,
}

impl Peer {
    /// One that has said nothing. `params` changes what it announces.
    pub fn new(side: Side, params: fn(&mut TransportParams)) -> Self {
        Self::with(side, params, Cryptos::null(), None)
    }

    /// The same with handshakes like these; the bytes of its own it does not say, but has them `held`, if
    /// there is room for them.
    pub fn with(
        side: Side,
        params: fn(&mut TransportParams),
        cryptos: Cryptos,
        held: Option<[Vec<u8>; 3]>,
    ) -> Self {
        let id = |bytes| ConnectionId::new(bytes).expect("eight bytes");
        let (dcid, scid) = (id(b"first id"), id(b"hostile!"));
        let mut peer = Self {
            side,
            cryptos,
            session: None,
            params,
            dcid,
            scid,
            levels: Default::default(),
            out: Vec::new(),
            challenges: Vec::new(),
            payloads: None,
            held,
            closed: false,
        };
        if side.is_client() {
            let crypto = peer.cryptos.client.clone();
            peer.levels[0].keys = crypto.initial_keys(Version::V1, &dcid, Side::Client);
            let session = crypto.start(Version::V1, peer.cryptos.name, peer.announced(None));
            peer.session = Some(session.expect("a handshake begins"));
            peer.drive(Space::Initial);
        }
        peer
    }

    /// The handshake is through.
    pub fn is_connected(&self) -> bool {
        self.levels[2].keys.is_some()
    }

    /// What it sends.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.out)
    }

    /// Puts these bytes into a packet, if it has the keys.
    pub fn say(&mut self, space: Space, payload: &[u8]) {
        let (dcid, scid) = (self.dcid, self.scid);
        let level = &mut self.levels[space.index()];
        let Some(keys) = &level.keys else { return };
        let number = level.next;
        level.next += 1;
        let tag = keys.local.packet.tag_len();
        let mut bytes = vec![0; 1300 + payload.len() + tag];
        let mut w = Writer::new(&mut bytes);
        let ty = if space == Space::Initial { PacketType::Initial } else { PacketType::Handshake };
        let length_at = (space != Space::Data).then(|| {
            let header = LongHeader { ty, version: Version::V1, dcid, scid, token: &[] };
            header::long_header(&mut w, &header, number, 4)
        });
        if length_at.is_none() {
            header::short_header(&mut w, &ShortHeader { dcid, spin: false, key_phase: false }, number, 4);
        }
        let payload_at = w.len();
        w.bytes(payload);
        // RFC 9000 §14.1; and others have to be long enough for a sample.
        let least = if space == Space::Initial { 1200 - tag } else { payload_at + 4 };
        w.zeros(least.saturating_sub(w.len()));
        if let Some(at) = length_at {
            header::patch_length(&mut w, at, tag);
        }
        let len = w.len() + tag;
        bytes.truncate(len);
        seal(keys, number, payload_at, &mut bytes);
        self.out.push(bytes);
    }

    /// Acknowledges what came.
    pub fn acknowledge(&mut self, space: Space) {
        let seen = ranges(&self.levels[space.index()].seen);
        if seen.is_empty() {
            return;
        }
        let mut bytes = vec![0; 1000];
        let mut w = Writer::new(&mut bytes);
        frame::ack(&mut w, seen.into_iter().take(20), 0, None);
        let payload = w.written().to_vec();
        self.say(space, &payload);
    }

    /// Leaves out packet numbers.
    pub fn skip(&mut self, n: u64) {
        self.levels[2].next += n;
    }

    /// Takes a datagram of the other side.
    pub fn hear(&mut self, mut bytes: Vec<u8>) {
        while !bytes.is_empty() {
            let Ok(parsed) = Parsed::parse(&bytes, self.scid.len()) else { return };
            let (number_at, end) = (parsed.pn_offset, parsed.end);
            let space = match parsed.header {
                Header::Initial { scid, dcid, .. } => {
                    if self.levels[0].keys.is_none() {
                        self.begin(dcid);
                    }
                    self.dcid = scid;
                    Space::Initial
                }
                Header::Handshake { .. } => Space::Handshake,
                Header::Short { .. } => Space::Data,
                _ => return,
            };
            let rest = bytes.split_off(end);
            if let Some(payload) = self.open(space, std::mem::replace(&mut bytes, rest), number_at) {
                self.frames(space, &payload);
                if let (Space::Data, Some(payloads)) = (space, &mut self.payloads) {
                    payloads.push(payload);
                }
            }
        }
    }

    /// A client has begun.
    fn begin(&mut self, first: ConnectionId) {
        let crypto = self.cryptos.server.clone();
        self.levels[0].keys = crypto.initial_keys(Version::V1, &first, Side::Server);
        self.session = Some(crypto.start(Version::V1, self.announced(Some(first))));
    }

    fn announced(&self, first: Option<ConnectionId>) -> Vec<u8> {
        let mut params = TransportParams {
            original_destination_connection_id: first,
            initial_source_connection_id: Some(self.scid),
            initial_max_data: 1 << 30,
            initial_max_stream_data_bidi_local: 1 << 20,
            initial_max_stream_data_bidi_remote: 1 << 20,
            initial_max_stream_data_uni: 1 << 20,
            initial_max_streams_bidi: 20,
            initial_max_streams_uni: 20,
            active_connection_id_limit: 8,
            fenced_streams: Some(20_000),
            max_datagram_frame_size: 65_535,
            fec_decoder: Some(FecDecoder {
                window: 100,
                max_sessions: 4,
                max_symbol_size: 1472,
                schemes: Schemes::ALL,
            }),
            min_ack_delay: Some(std::time::Duration::from_millis(1)),
            reset_stream_at: true,
            ..TransportParams::default()
        };
        (self.params)(&mut params);
        let mut bytes = vec![0; TransportParams::MAX_SIZE];
        let mut w = Writer::new(&mut bytes);
        params.encode(self.side, 0, &mut w);
        w.written().to_vec()
    }

    /// Brings the handshake on.
    fn drive(&mut self, mut space: Space) {
        let Some(mut session) = self.session.take() else { return };
        loop {
            let mut bytes = Vec::new();
            let change = session.write(&mut bytes);
            if let Some(held) = &mut self.held {
                held[space.index()].append(&mut bytes);
            }
            for piece in bytes.chunks(1000) {
                let offset = self.levels[space.index()].said;
                self.levels[space.index()].said += piece.len() as u64;
                let mut payload = vec![0; 1100];
                let mut w = Writer::new(&mut payload);
                Frame::Crypto { offset, data: piece }.encode(&mut w);
                let payload = w.written().to_vec();
                self.say(space, &payload);
            }
            let (next, keys) = match change {
                None => break,
                Some(KeyChange::Handshake(keys)) => (Space::Handshake, keys),
                Some(KeyChange::OneRtt { keys, .. }) => (Space::Data, keys),
            };
            space = next;
            self.levels[space.index()].keys = Some(keys);
        }
        self.session = Some(session);
    }

    fn open(&mut self, space: Space, mut packet: Vec<u8>, number_at: usize) -> Option<Vec<u8>> {
        let level = &mut self.levels[space.index()];
        let keys = &level.keys.as_ref()?.remote;
        let (head, sample) = packet.split_at_mut_checked(number_at + 4)?;
        let sample = sample.get(..keys.header.sample_len())?;
        let (first, rest) = head.split_first_mut()?;
        let pn = &mut rest[number_at - 1..];
        keys.header.unprotect(sample, first, pn);
        let pn_len = header::pn_len(*first);
        let truncated = pn[..pn_len].iter().fold(0, |n, byte| n << 8 | u32::from(*byte));
        let number = packet_number::expand(truncated, pn_len, level.seen.last().copied());
        let (header, payload) = packet.split_at_mut(number_at + pn_len);
        let len = keys.packet.open(number, header, payload)?;
        level.seen.insert(number);
        while level.seen.len() > 1000 {
            level.seen.pop_first();
        }
        Some(payload[..len].to_vec())
    }

    fn frames(&mut self, space: Space, payload: &[u8]) {
        for frame in Frames::new(payload) {
            match frame.expect("frames of ours can be read") {
                Frame::Crypto { offset, data } => self.crypto(space, offset, data),
                Frame::ConnectionClose { .. } | Frame::ApplicationClose { .. } => self.closed = true,
                Frame::PathChallenge(data) => self.challenges.push(data),
                _ => {}
            }
        }
        let level = &mut self.levels[space.index()];
        // Enough for the handshake to come through; what comes later is for the input to say.
        if space != Space::Data && level.acked < 20 {
            level.acked += 1;
            self.acknowledge(space);
        }
    }

    /// Handshake bytes, which come in order as long as nobody interferes.
    fn crypto(&mut self, space: Space, offset: u64, data: &[u8]) {
        let level = &mut self.levels[space.index()];
        if space == Space::Data || offset != level.read {
            return;
        }
        level.read += data.len() as u64;
        if self.session.as_mut().is_some_and(|session| session.read(data).is_ok()) {
            self.drive(space);
        }
    }
}

/// Seals a packet whose number has four bytes.
pub fn seal(keys: &Keys, number: u64, payload_at: usize, packet: &mut [u8]) {
    let (head, body) = packet.split_at_mut(payload_at);
    keys.local.packet.seal(number, head, body);
    let (head, sample) = packet.split_at_mut(payload_at);
    let sample = &sample[..keys.local.header.sample_len()];
    let (first, rest) = head.split_first_mut().expect("a header");
    let pn_at = rest.len() - 4;
    keys.local.header.protect(sample, first, &mut rest[pn_at..]);
}

/// The newest first.
fn ranges(numbers: &BTreeSet<u64>) -> Vec<RangeInclusive<u64>> {
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    for n in numbers.iter().rev().copied() {
        match ranges.last_mut() {
            Some(range) if *range.start() == n + 1 => *range = n..=*range.end(),
            _ => ranges.push(n..=n),
        }
    }
    ranges
}
