//! A client of QUIC by hand: it comes through the handshake as anybody does, and then says what it is told
//! to.

use std::collections::btree_map::OccupiedEntry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use quickset_base::{AddressPair, Batch, Datagram, Input, Machine, Poll, Reason, Rng, Time};
use quickset_quic::null::NullClient;
use quickset_quic::{ClientCrypto as _, Crypto as _, CryptoSession, KeyChange, Keys, NextKeys};
use quickset_wire::frame::{self, Frame, Frames};
use quickset_wire::header::{self, Header, LongHeader, Parsed, ShortHeader};
use quickset_wire::{
    ConnectionId, Dir, PacketType, Side, Space, StreamId, TransportErrorCode as Code, TransportParams,
    Version, Writer, packet_number,
};

/// One attacker's connection, and all that it knows.
pub(crate) struct Hostile {
    crypto: Arc<NullClient>,
    session: Box<dyn CryptoSession>,
    server: SocketAddr,
    /// What its datagrams leave from; `None`: its first address.
    pub(crate) from: Option<IpAddr>,
    first: ConnectionId,
    /// Of the server's ids, the one that it uses.
    pub(crate) dcid: ConnectionId,
    scid: ConnectionId,
    /// Of a Retry.
    token: Vec<u8>,
    spaces: [Level; 3],
    /// Makes 1-RTT keys of the next generation.
    generator: Option<Box<dyn NextKeys>>,
    phase: bool,
    /// It acknowledges what it gets, at once.
    pub(crate) acks: bool,
    /// It goes no further in the handshake than its hello.
    pub(crate) half_open: bool,
    /// Streams that the server allows it, of both kinds.
    pub(crate) allowed: [u64; 2],
    out: VecDeque<(Option<IpAddr>, Vec<u8>)>,
    /// Streams for requests that it has taken.
    taken: u64,
    /// Where its streams are.
    offsets: BTreeMap<StreamId, u64>,
    /// Packets that it sends again where they are lost, as they are, by number; and the largest that was
    /// acknowledged.
    kept: BTreeMap<u64, Vec<u8>>,
    acknowledged: u64,
    /// Frames of the server, by type.
    pub(crate) heard: BTreeMap<u64, u64>,
    /// The server's last words: a code of the transport, or of the application.
    pub(crate) closed: Option<Result<Code, u64>>,
    /// The server's ids, as it told them.
    pub(crate) ids: Vec<(u64, ConnectionId)>,
    /// Data of the server's streams, the last that came.
    pub(crate) data: BTreeMap<StreamId, Vec<u8>>,
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
    /// What it sent itself.
    pub(crate) sent_datagrams: u64,
    pub(crate) sent_bytes: u64,
    /// More connections of the same attacker, by the ids that the server knows them by.
    swarm: BTreeMap<ConnectionId, Self>,
    /// How many of them have left.
    pub(crate) left: u64,
}

/// A packet number space.
#[derive(Default)]
struct Level {
    keys: Option<Keys>,
    next: u64,
    seen: BTreeSet<u64>,
    owed: bool,
    /// CRYPTO bytes sent and received.
    said: u64,
    read: u64,
}

impl Hostile {
    /// An attacker of the server there that has said nothing. No two of a seed are alike.
    pub(crate) fn new(seed: u64, server: SocketAddr, alpn: &[u8]) -> Self {
        Self::with(seed, server, alpn, |_| {})
    }

    pub(crate) fn with(
        seed: u64,
        server: SocketAddr,
        alpn: &[u8],
        change: impl Fn(&mut TransportParams),
    ) -> Self {
        let mut rng = Rng::new(seed ^ 0xbad);
        let mut id = || ConnectionId::new(&rng.next().to_be_bytes()).expect("eight bytes");
        let (first, scid) = (id(), id());
        let crypto = Arc::new(NullClient::new(&[alpn]));
        let mut params = TransportParams {
            initial_source_connection_id: Some(scid),
            initial_max_data: 1 << 40,
            initial_max_stream_data_bidi_local: 1 << 40,
            initial_max_stream_data_bidi_remote: 1 << 40,
            initial_max_stream_data_uni: 1 << 40,
            initial_max_streams_bidi: 1000,
            initial_max_streams_uni: 1000,
            active_connection_id_limit: 8,
            ..TransportParams::default()
        };
        change(&mut params);
        let mut bytes = vec![0; TransportParams::MAX_SIZE];
        let mut w = Writer::new(&mut bytes);
        params.encode(Side::Client, 0, &mut w);
        let params = w.written().to_vec();
        let session = crypto.clone().start(Version::V1, "server", params).expect("a handshake begins");
        let mut spaces: [Level; 3] = Default::default();
        spaces[0].keys = crypto.initial_keys(Version::V1, &first, Side::Client);
        Self {
            crypto,
            session,
            server,
            from: None,
            first,
            dcid: first,
            scid,
            token: Vec::new(),
            spaces,
            generator: None,
            phase: false,
            acks: true,
            half_open: false,
            allowed: [FIRST_STREAMS; 2],
            out: VecDeque::new(),
            taken: 0,
            offsets: BTreeMap::new(),
            kept: BTreeMap::new(),
            acknowledged: 0,
            heard: BTreeMap::new(),
            closed: None,
            ids: Vec::new(),
            data: BTreeMap::new(),
            datagrams: 0,
            bytes: 0,
            sent_datagrams: 0,
            sent_bytes: 0,
            swarm: BTreeMap::new(),
            left: 0,
        }
    }

    /// Begins one more connection from the same address, or that of `from`: `half_open` it proves its address
    /// if it has to, and says no more than that.
    pub(crate) fn spawn(&mut self, seed: u64, alpn: &[u8], half_open: bool) {
        let mut other = Self::new(seed, self.server, alpn);
        (other.from, other.half_open) = (self.from, half_open);
        other.connect();
        self.out.append(&mut other.out);
        self.swarm.insert(other.scid, other);
    }

    /// Those of the swarm whose handshake is through say farewell.
    pub(crate) fn leave(&mut self) {
        let through = |(id, other): (&ConnectionId, &Self)| other.is_connected().then_some(*id);
        let through: Vec<_> = self.swarm.iter().filter_map(through).collect();
        for mut other in through.iter().filter_map(|id| self.swarm.remove(id)) {
            other.say(&[Frame::ConnectionClose { code: Code::NO_ERROR, frame_type: 0, reason: b"" }]);
            self.out.append(&mut other.out);
            self.left += 1;
        }
    }

    /// Says hello.
    pub(crate) fn connect(&mut self) {
        self.drive(Space::Initial);
    }

    /// Whether the handshake is through.
    pub(crate) fn is_connected(&self) -> bool {
        self.spaces[2].keys.is_some()
    }

    /// Sends these frames in a packet of its own.
    pub(crate) fn say(&mut self, frames: &[Frame<'_>]) {
        let payload = encoded(frames);
        self.packet(Space::Data, &payload);
    }

    /// The same at another level.
    pub(crate) fn say_at(&mut self, space: Space, frames: &[Frame<'_>]) {
        let payload = encoded(frames);
        self.packet(space, &payload);
    }

    /// Sends a packet of these bytes, whatever they say.
    pub(crate) fn say_bytes(&mut self, payload: &[u8]) {
        self.packet(Space::Data, payload);
    }

    /// Sends an ACK frame of these ranges, the newest first.
    pub(crate) fn acknowledge(&mut self, ranges: impl IntoIterator<Item = RangeInclusive<u64>>) {
        let payload = ack(ranges);
        self.packet(Space::Data, &payload);
    }

    /// The next bytes of a stream, and its end; as many packets as that takes.
    pub(crate) fn write(&mut self, id: StreamId, bytes: &[u8], fin: bool) {
        let mut pieces = bytes.chunks(PIECE).peekable();
        if bytes.is_empty() {
            let offset = self.offsets.get(&id).copied().unwrap_or(0);
            self.say(&[Frame::Stream { id, offset, fin, data: &[] }]);
        }
        while let Some(data) = pieces.next() {
            let offset = self.offsets.entry(id).or_default();
            let at = *offset;
            *offset += data.len() as u64;
            let fin = fin && pieces.peek().is_none();
            self.say(&[Frame::Stream { id, offset: at, fin, data }]);
        }
    }

    /// Streams for requests that it may use, and has not taken before.
    pub(crate) fn unopened(&mut self) -> Vec<StreamId> {
        let new = self.taken..self.allowed[0];
        self.taken = self.allowed[0];
        new.map(|index| StreamId::new(Side::Client, Dir::Bi, index)).collect()
    }

    /// The next bytes of a stream, in a packet that goes again where the server drops it, before anything
    /// new.
    pub(crate) fn insist(&mut self, id: StreamId, data: &[u8]) {
        let at = self.offsets.entry(id).or_default();
        let frame = Frame::Stream { id, offset: *at, fin: false, data };
        *at += data.len() as u64;
        let payload = encoded(&[frame]);
        self.keep(payload);
    }

    /// Sends one packet again that was lost. False when none was.
    pub(crate) fn repeat(&mut self) -> bool {
        let lost = self.kept.first_entry().filter(|kept| kept.key() + REORDERED < self.acknowledged);
        let payload = lost.map(OccupiedEntry::remove);
        payload.map(|payload| self.keep(payload)).is_some()
    }

    fn keep(&mut self, payload: Vec<u8>) {
        self.packet(Space::Data, &payload);
        self.kept.insert(self.spaces[2].next - 1, payload);
    }

    /// The server's packet numbers that came, as ranges, the newest first.
    pub(crate) fn seen(&self) -> Vec<RangeInclusive<u64>> {
        ranges(&self.spaces[2].seen)
    }

    /// Updates its keys, whatever the server knows of the last time.
    pub(crate) fn update_keys(&mut self) {
        let (Some(generator), Some(keys)) = (&mut self.generator, &mut self.spaces[2].keys) else { return };
        let next = generator.next();
        (keys.local.packet, keys.remote.packet) = (next.local, next.remote);
        self.phase = !self.phase;
    }

    /// Leaves out packet numbers.
    pub(crate) fn skip(&mut self, n: u64) {
        self.spaces[2].next += n;
    }

    /// Frames of a type that the server sent.
    pub(crate) fn heard(&self, kind: u64) -> u64 {
        self.heard.get(&kind).copied().unwrap_or(0)
    }

    /// Bytes as they are.
    pub(crate) fn raw(&mut self, bytes: Vec<u8>) {
        self.out.push_back((self.from, bytes));
    }

    /// Datagrams that are to leave.
    pub(crate) fn queued(&self) -> u64 {
        self.out.len() as u64
    }

    /// The datagrams that it would send now, in place of sending them.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.out.drain(..).map(|(_, bytes)| bytes).collect()
    }

    /// Brings the handshake on.
    fn drive(&mut self, mut space: Space) {
        loop {
            let mut bytes = Vec::new();
            let change = self.session.write(&mut bytes);
            for piece in bytes.chunks(PIECE) {
                let offset = self.spaces[space.index()].said;
                self.spaces[space.index()].said += piece.len() as u64;
                self.say_at(space, &[Frame::Crypto { offset, data: piece }]);
            }
            match change {
                None => return,
                Some(KeyChange::Handshake(keys)) => {
                    space = Space::Handshake;
                    self.spaces[1].keys = Some(keys);
                }
                Some(KeyChange::OneRtt { keys, next }) => {
                    space = Space::Data;
                    self.generator = Some(next);
                    self.spaces[2].keys = Some(keys);
                }
            }
        }
    }

    fn packet(&mut self, space: Space, payload: &[u8]) {
        let (dcid, scid) = (self.dcid, self.scid);
        let token = self.token.clone();
        let level = &mut self.spaces[space.index()];
        let Some(keys) = &level.keys else { return };
        let number = level.next;
        level.next += 1;
        let tag = keys.local.packet.tag_len();
        // Room for the sample, and a client's Initial fills a datagram (RFC 9000 §14.1).
        let least = if space == Space::Initial { 1200 - 60 - token.len() } else { 4 };
        let mut bytes = vec![0; 100 + token.len() + payload.len().max(least) + tag];
        let mut w = Writer::new(&mut bytes);
        let ty = match space {
            Space::Initial => PacketType::Initial,
            Space::Handshake => PacketType::Handshake,
            Space::Data => PacketType::OneRtt,
        };
        let length_at = (space != Space::Data).then(|| {
            let header = LongHeader { ty, version: Version::V1, dcid, scid, token: &token };
            header::long_header(&mut w, &header, number, 4)
        });
        if length_at.is_none() {
            header::short_header(
                &mut w,
                &ShortHeader { dcid, spin: false, key_phase: self.phase },
                number,
                4,
            );
        }
        let payload_at = w.len();
        w.bytes(payload);
        let missing = if space == Space::Initial {
            1200_usize.saturating_sub(w.len() + tag)
        } else {
            least.saturating_sub(payload.len())
        };
        w.zeros(missing);
        if let Some(at) = length_at {
            header::patch_length(&mut w, at, tag);
        }
        let len = w.len() + tag;
        bytes.truncate(len);
        let (head, body) = bytes.split_at_mut(payload_at);
        keys.local.packet.seal(number, head, body);
        let (head, sample) = bytes.split_at_mut(payload_at);
        let sample = &sample[..keys.local.header.sample_len()];
        let (first, rest) = head.split_first_mut().expect("a header");
        let pn_at = rest.len() - 4;
        keys.local.header.protect(sample, first, &mut rest[pn_at..]);
        self.raw(bytes);
    }

    fn receive(&mut self, datagrams: &mut Vec<Datagram>) {
        let mut queued = self.out.len();
        for datagram in datagrams.drain(..) {
            let of = Parsed::parse(&datagram.bytes, self.scid.len()).ok();
            let of = of.and_then(|parsed| ConnectionId::new(parsed.header.dcid()));
            if let Some(other) = of.and_then(|id| self.swarm.get_mut(&id)) {
                other.receive(&mut vec![datagram]);
                self.out.append(&mut other.out);
                queued = self.out.len();
                continue;
            }
            let asked = self.token.len();
            self.datagram(datagram.bytes.to_vec());
            if self.token.len() != asked {
                // It proves its address all the same.
                queued = self.out.len();
            }
        }
        for space in Space::ALL {
            let level = &mut self.spaces[space.index()];
            if std::mem::take(&mut level.owed) && self.acks {
                let payload = ack(ranges(&level.seen).into_iter().take(20));
                self.packet(space, &payload);
            }
        }
        if self.half_open {
            self.out.truncate(queued);
        }
    }

    fn datagram(&mut self, mut bytes: Vec<u8>) {
        self.datagrams += 1;
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let Ok(parsed) = Parsed::parse(&bytes, self.scid.len()) else { return };
            let (number_at, end) = (parsed.pn_offset, parsed.end);
            let is_short = matches!(parsed.header, Header::Short { .. });
            if !is_short && parsed.header.dcid() != &self.scid[..] {
                // For another client of a flood.
                return;
            }
            let space = match parsed.header {
                Header::Initial { scid, .. } => {
                    self.dcid = scid;
                    Space::Initial
                }
                Header::Handshake { .. } => Space::Handshake,
                Header::Short { .. } => Space::Data,
                Header::Retry { scid, token, .. } => {
                    let token = token.to_vec();
                    return self.retried(scid, token);
                }
                _ => return,
            };
            let rest = bytes.split_off(end);
            if let Some(payload) = self.open(space, std::mem::replace(&mut bytes, rest), number_at) {
                self.frames(space, &payload);
            }
        }
    }

    fn retried(&mut self, scid: ConnectionId, token: Vec<u8>) {
        if std::mem::take(&mut self.spaces[0].said) == 0 {
            // It answers one of a flood.
            return;
        }
        // The null session writes its hello once: begin again as the same client.
        (self.dcid, self.token) = (scid, token);
        self.spaces[0].keys = self.crypto.initial_keys(Version::V1, &scid, Side::Client);
        self.session = Self::hello_of(&self.crypto, self.scid);
        self.drive(Space::Initial);
    }

    fn hello_of(crypto: &Arc<NullClient>, scid: ConnectionId) -> Box<dyn CryptoSession> {
        let params =
            TransportParams { initial_source_connection_id: Some(scid), ..TransportParams::default() };
        let mut bytes = vec![0; TransportParams::MAX_SIZE];
        let mut w = Writer::new(&mut bytes);
        params.encode(Side::Client, 0, &mut w);
        let params = w.written().to_vec();
        crypto.clone().start(Version::V1, "server", params).expect("a handshake begins")
    }

    fn open(&mut self, space: Space, mut packet: Vec<u8>, number_at: usize) -> Option<Vec<u8>> {
        let level = &mut self.spaces[space.index()];
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
        while level.seen.len() > 4000 {
            level.seen.pop_first();
        }
        Some(payload[..len].to_vec())
    }

    /// Handshake bytes of the server, which come in order: no link here loses anything.
    fn hear(&mut self, space: Space, offset: u64, data: &[u8]) {
        let level = &mut self.spaces[space.index()];
        if offset != level.read {
            return;
        }
        level.read += data.len() as u64;
        if self.session.read(data).is_ok() {
            self.drive(if space == Space::Initial { Space::Initial } else { Space::Handshake });
        }
    }

    fn frames(&mut self, space: Space, payload: &[u8]) {
        for frame in Frames::new(payload) {
            let frame = frame.expect("the server's frames can be read");
            *self.heard.entry(frame.kind()).or_default() += 1;
            self.spaces[space.index()].owed |= frame.is_ack_eliciting();
            match frame {
                Frame::Crypto { offset, data } => self.hear(space, offset, data),
                Frame::ConnectionClose { code, .. } => self.closed = Some(Ok(code)),
                Frame::ApplicationClose { code, .. } => self.closed = Some(Err(code)),
                Frame::Ack(ack) if space == Space::Data => {
                    self.acknowledged = self.acknowledged.max(ack.largest);
                    let came = |number: &u64| ack.ranges().any(|range| range.contains(number));
                    self.kept.retain(|number, _| !came(number));
                }
                Frame::MaxStreams { dir, max } => self.allowed[dir as usize] = max,
                Frame::NewConnectionId { sequence, id, .. } => self.ids.push((sequence, id)),
                Frame::Stream { id, data, .. } => drop(self.data.insert(id, data.to_vec())),
                _ => {}
            }
        }
    }
}

impl Machine for Hostile {
    fn handle(&mut self, _now: Time, input: Input<'_>) {
        let Input::Received(datagrams) = input else { return };
        self.receive(datagrams);
    }

    fn poll(&mut self, _now: Time, out: &mut Batch) -> Poll {
        let Some((from, bytes)) = self.out.pop_front() else { return Poll::Sleep(None, Reason::Idle) };
        out.path = AddressPair { remote: self.server, local: from };
        out.space(bytes.len()).copy_from_slice(&bytes);
        out.commit(bytes.len());
        self.sent_datagrams += 1;
        self.sent_bytes += bytes.len() as u64;
        Poll::Send
    }
}

/// A hello of a client of its own, in one datagram, and the id that it names.
pub(crate) fn hello(seed: u64, server: SocketAddr, alpn: &[u8]) -> (Vec<u8>, ConnectionId) {
    let mut client = Hostile::new(seed, server, alpn);
    client.connect();
    (client.take().remove(0), client.first)
}

pub(crate) fn encoded(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; 64 << 10];
    let mut w = Writer::new(&mut bytes);
    for frame in frames {
        frame.encode(&mut w);
    }
    w.written().to_vec()
}

pub(crate) fn ack(ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> Vec<u8> {
    let mut bytes = vec![0; 1300];
    let mut w = Writer::new(&mut bytes);
    assert!(frame::ack(&mut w, ranges, 0, None) > 0, "an ACK frame has a range");
    w.written().to_vec()
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

/// Packets behind one that was acknowledged, of which no acknowledgement has come, are lost
/// (RFC 9002 §6.1.1).
const REORDERED: u64 = 3;

/// What the server's defaults allow until it has heard of the streams that they carry bytes.
const FIRST_STREAMS: u64 = 64;

/// Bytes of a stream in a packet.
const PIECE: usize = 1100;
