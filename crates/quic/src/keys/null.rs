//! A handshake without cryptography, for simulations, fuzzing and unit tests.
//!
//! *In, out:* the traits of the session seam. The handshake has the round trips and about the bytes of
//! TLS 1.3 with a small certificate; packets carry a 16-byte checksum in the place of the tag and their
//! payload as it is. No entropy is drawn: equal inputs give equal bytes.
//!
//! Invariants: a packet that was altered, or sealed by another connection, level, direction or
//! generation, does not open (but for a chance of 2^-64). **It protects nothing against anybody**, and no default
//! build holds it.

use std::any::Any;
use std::sync::Arc;

use quickset_wire::{ConnectionId, ResetToken, Side, TransportErrorCode, Version};

use super::{
    ClientCrypto, Crypto, EndpointCrypto, HeaderKey, KeyChange, Keys, NextKeys, PacketKey, PacketKeys,
    Sealing, ServerCrypto, Session,
};
use crate::TransportError;

/// Starts null handshakes of clients.
#[derive(Clone, Debug)]
pub struct NullClient {
    alpn: Vec<Vec<u8>>,
}

impl NullClient {
    /// A client that offers the application protocols `alpn`, each of at most 255 bytes.
    pub fn new(alpn: &[&[u8]]) -> Self {
        Self { alpn: protocols(alpn) }
    }
}

/// Starts null handshakes of servers.
#[derive(Clone, Debug)]
pub struct NullServer {
    alpn: Vec<Vec<u8>>,
    certificate: usize,
}

impl NullServer {
    /// A server that speaks the application protocols `alpn`, the best first; without any it takes
    /// clients that offer none.
    pub fn new(alpn: &[&[u8]]) -> Self {
        Self { alpn: protocols(alpn), certificate: 900 }
    }

    /// The same with a certificate chain of `len` bytes, at most 60,000; long ones meet the
    /// anti-amplification limit (RFC 9000 §8.1).
    #[must_use]
    pub fn with_certificate(mut self, len: usize) -> Self {
        self.certificate = len.min(60_000);
        self
    }
}

/// An endpoint's secrets, from a number.
#[derive(Clone, Debug)]
pub struct NullSecrets(pub u64);

impl Crypto for NullClient {
    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Option<Keys> {
        initial_keys(version, dcid, side)
    }

    fn retry_tag(&self, version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> Option<[u8; TAG]> {
        retry_tag(version, original_dcid, packet)
    }
}

impl Crypto for NullServer {
    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Option<Keys> {
        initial_keys(version, dcid, side)
    }

    fn retry_tag(&self, version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> Option<[u8; TAG]> {
        retry_tag(version, original_dcid, packet)
    }
}

impl ClientCrypto for NullClient {
    fn start(
        self: Arc<Self>,
        version: Version,
        server_name: &str,
        params: Vec<u8>,
    ) -> Result<Box<dyn Session>, String> {
        if server_name.is_empty() || server_name.len() > 255 {
            return Err("a server name has 1 to 255 bytes".into());
        }
        let mut session = NullSession::new(Side::Client, version, self.alpn.clone(), params);
        let mut body = Vec::with_capacity(CLIENT_HELLO);
        put_list(&mut body, &session.offered);
        put(&mut body, server_name.as_bytes());
        put(&mut body, &session.params);
        session.say(CLIENT_HELLO_KIND, body, CLIENT_HELLO);
        Ok(Box::new(session))
    }
}

impl ServerCrypto for NullServer {
    fn start(self: Arc<Self>, version: Version, params: Vec<u8>) -> Box<dyn Session> {
        let mut session = NullSession::new(Side::Server, version, self.alpn.clone(), params);
        session.certificate = self.certificate;
        Box::new(session)
    }
}

impl EndpointCrypto for NullSecrets {
    fn reset_token(&self, id: &ConnectionId) -> ResetToken {
        ResetToken(digest(self.0 ^ RESET, id, &[]))
    }

    fn seal_token(&self, nonce: [u8; 12], plain: &[u8]) -> Vec<u8> {
        let mut token = [&nonce, plain].concat();
        let tag = digest(self.0, &nonce, plain);
        token.extend_from_slice(&tag);
        token
    }

    fn open_token(&self, token: &[u8]) -> Option<Vec<u8>> {
        let (sealed, tag) = token.split_last_chunk::<TAG>()?;
        let (nonce, plain) = sealed.split_first_chunk::<12>()?;
        (digest(self.0, nonce, plain) == *tag).then(|| plain.to_vec())
    }
}

/// One side of a null handshake.
struct NullSession {
    side: Side,
    stage: Stage,
    /// What we offer, or speak.
    offered: Vec<Vec<u8>>,
    params: Vec<u8>,
    certificate: usize,
    /// Handshake bytes that are not yet a whole message.
    incoming: Vec<u8>,
    /// To be written at the present level, before the keys that follow it.
    outgoing: Vec<u8>,
    /// Binds keys to everything that was said.
    transcript: u64,
    alpn: Option<Vec<u8>>,
    peer_params: Option<Vec<u8>>,
    /// The secret of the 1-RTT keys, once it is agreed.
    master: Option<u64>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A hello of the peer's.
    Hello,
    /// We send, in answer to a hello, what precedes Handshake keys.
    HandshakeKeys,
    /// Server: our flight, and the 1-RTT keys behind it.
    Flight,
    /// The peer's Finished; for a client with its flight.
    Finished,
    /// Client: our Finished, and the 1-RTT keys behind it.
    Complete,
    /// Nothing but tickets.
    Done,
}

impl NullSession {
    fn new(side: Side, version: Version, offered: Vec<Vec<u8>>, params: Vec<u8>) -> Self {
        Self {
            side,
            stage: Stage::Hello,
            offered,
            params,
            certificate: 0,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            transcript: mix(u64::from(version.0), TRANSCRIPT),
            alpn: None,
            peer_params: None,
            master: None,
        }
    }

    /// Queues a message of at least `size` bytes and adds it to the transcript.
    fn say(&mut self, kind: u8, mut body: Vec<u8>, size: usize) {
        body.resize(body.len().max(size.saturating_sub(MESSAGE_HEADER)), 0);
        let start = self.outgoing.len();
        self.outgoing.push(kind);
        let len = u16::try_from(body.len()).expect("messages are bounded by what they are made of");
        self.outgoing.extend_from_slice(&len.to_be_bytes());
        self.outgoing.append(&mut body);
        self.transcript = mix(self.transcript, word(&digest(0, &self.outgoing[start..], &[])));
    }

    /// Takes one whole message.
    fn hear(&mut self, message: &[u8]) -> Result<(), TransportError> {
        let (kind, body) = (message[0], &message[MESSAGE_HEADER..]);
        let before = self.transcript;
        self.transcript = mix(before, word(&digest(0, message, &[])));
        match (self.side, self.stage, kind) {
            (Side::Server, Stage::Hello, CLIENT_HELLO_KIND) => {
                let (offers, body) = take_list(body).ok_or_else(malformed)?;
                let (_name, body) = take(body).ok_or_else(malformed)?;
                let (params, _) = take(body).ok_or_else(malformed)?;
                self.agree(&offers)?;
                self.peer_params = Some(params.to_vec());
                self.stage = Stage::HandshakeKeys;
                // What TLS has random bytes for: no two connections have the same keys.
                self.say(SERVER_HELLO_KIND, digest(0, &self.params, &[]).to_vec(), SERVER_HELLO);
            }
            (Side::Client, Stage::Hello, SERVER_HELLO_KIND) => self.stage = Stage::HandshakeKeys,
            (Side::Client, Stage::Finished, FLIGHT_KIND) => {
                let (chosen, body) = take_list(body).ok_or_else(malformed)?;
                let (params, _) = take(body).ok_or_else(malformed)?;
                self.peer_params = Some(params.to_vec());
                self.alpn = chosen.first().map(|p| p.to_vec());
                // RFC 9001 §8.1: a server that agrees on none of what was offered is not talked to.
                if !self.offered.is_empty() && !self.offered.iter().any(|p| self.alpn.as_ref() == Some(p)) {
                    return Err(no_protocol());
                }
            }
            (_, Stage::Finished, FINISHED_KIND) => {
                // A client has heard the flight before: without it there are no parameters.
                if self.peer_params.is_none() {
                    return Err(unexpected());
                }
                if body.first_chunk::<8>() != Some(&before.to_be_bytes()) {
                    return Err(alert(DECRYPT_ERROR, "the handshake was altered on its way"));
                }
                self.finish();
            }
            // Tickets are of no use to a null client.
            (Side::Client, Stage::Done, TICKET_KIND) => {}
            _ => return Err(unexpected()),
        }
        Ok(())
    }

    /// The peer's Finished was good.
    fn finish(&mut self) {
        match self.side {
            Side::Client => {
                self.master = Some(mix(self.transcript, MASTER));
                self.say(FINISHED_KIND, self.transcript.to_be_bytes().to_vec(), FINISHED);
                self.stage = Stage::Complete;
            }
            Side::Server => {
                self.say(TICKET_KIND, Vec::new(), TICKET);
                self.stage = Stage::Done;
            }
        }
    }

    /// Server: picks the protocol that it likes best among those offered.
    fn agree(&mut self, offers: &[&[u8]]) -> Result<(), TransportError> {
        self.alpn = self.offered.iter().find(|p| offers.contains(&p.as_slice())).cloned();
        if self.alpn.is_none() && !(self.offered.is_empty() && offers.is_empty()) {
            return Err(no_protocol());
        }
        Ok(())
    }

    /// Server: everything from the encrypted extensions to Finished.
    fn flight(&mut self) {
        let mut body = Vec::with_capacity(self.certificate + 256);
        put_list(&mut body, self.alpn.as_slice());
        put(&mut body, &self.params);
        let size = body.len() + self.certificate + SIGNATURE;
        self.say(FLIGHT_KIND, body, size);
        self.say(FINISHED_KIND, self.transcript.to_be_bytes().to_vec(), FINISHED);
        self.master = Some(mix(self.transcript, MASTER));
    }

    fn one_rtt(&self) -> Option<KeyChange> {
        let master = self.master?;
        let [local, remote] = directions(master, self.side);
        Some(KeyChange::OneRtt {
            keys: keys(local, remote),
            next: Box::new(NullNext { local, remote, generation: 0 }),
        })
    }
}

impl Session for NullSession {
    fn read(&mut self, data: &[u8]) -> Result<(), TransportError> {
        self.incoming.extend_from_slice(data);
        let incoming = std::mem::take(&mut self.incoming);
        let mut rest = incoming.as_slice();
        while let Some((&[_, high, low], _)) = rest.split_first_chunk::<MESSAGE_HEADER>() {
            let len = MESSAGE_HEADER + usize::from(u16::from_be_bytes([high, low]));
            let Some((message, behind)) = rest.split_at_checked(len) else { break };
            self.hear(message)?;
            rest = behind;
        }
        self.incoming = rest.to_vec();
        Ok(())
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        match self.stage {
            Stage::HandshakeKeys => {
                out.append(&mut self.outgoing);
                let [local, remote] = directions(mix(self.transcript, HANDSHAKE), self.side);
                self.stage = if self.side.is_client() { Stage::Finished } else { Stage::Flight };
                Some(KeyChange::Handshake(keys(local, remote)))
            }
            Stage::Flight => {
                self.flight();
                out.append(&mut self.outgoing);
                self.stage = Stage::Finished;
                self.one_rtt()
            }
            Stage::Complete => {
                out.append(&mut self.outgoing);
                self.stage = Stage::Done;
                self.one_rtt()
            }
            Stage::Hello | Stage::Finished | Stage::Done => {
                out.append(&mut self.outgoing);
                None
            }
        }
    }

    fn is_handshaking(&self) -> bool {
        !matches!(self.stage, Stage::Complete | Stage::Done)
    }

    fn peer_params(&self) -> Option<&[u8]> {
        self.peer_params.as_deref()
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.alpn.as_deref()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        let Some(master) = self.master else { return false };
        let seed = word(&digest(master, label, context));
        for (i, chunk) in out.chunks_mut(8).enumerate() {
            let bytes = mix(seed, i as u64).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        true
    }
}

/// Later generations are numbered, and the number is part of the key.
struct NullNext {
    local: u64,
    remote: u64,
    generation: u64,
}

impl NextKeys for NullNext {
    fn next(&mut self) -> PacketKeys {
        self.generation += 1;
        PacketKeys {
            local: Box::new(NullPacket(mix(self.local, self.generation))),
            remote: Box::new(NullPacket(mix(self.remote, self.generation))),
        }
    }
}

/// Checks packets with a key.
struct NullPacket(u64);

impl PacketKey for NullPacket {
    fn seal(&self, pn: u64, header: &[u8], payload: &mut [u8]) {
        let Some((plain, tag)) = payload.split_last_chunk_mut::<TAG>() else { return };
        *tag = digest(mix(self.0, pn), header, plain);
    }

    fn open(&self, pn: u64, header: &[u8], payload: &mut [u8]) -> Option<usize> {
        let (plain, tag) = payload.split_last_chunk::<TAG>()?;
        (digest(mix(self.0, pn), header, plain) == *tag).then_some(plain.len())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    // Those of AES-128-GCM (RFC 9001 §6.6), so that simulations update keys when production does.
    fn confidentiality_limit(&self) -> u64 {
        1 << 23
    }

    fn integrity_limit(&self) -> u64 {
        1 << 52
    }
}

/// Masks with the sample, so that a mistake in its place is noticed.
struct NullHeader([u8; 8]);

impl NullHeader {
    #[inline]
    fn mask(&self, sample: &[u8]) -> [u8; 5] {
        std::array::from_fn(|i| self.0[i] ^ sample.get(i).copied().unwrap_or(0))
    }
}

impl HeaderKey for NullHeader {
    #[inline]
    fn protect(&self, sample: &[u8], first: &mut u8, pn: &mut [u8]) {
        let mask = self.mask(sample);
        let len = usize::from(*first & 3) + 1;
        *first ^= mask[0] & masked_bits(*first);
        for (byte, mask) in pn.iter_mut().zip(&mask[1..=len]) {
            *byte ^= mask;
        }
    }

    #[inline]
    fn unprotect(&self, sample: &[u8], first: &mut u8, pn: &mut [u8]) {
        let mask = self.mask(sample);
        *first ^= mask[0] & masked_bits(*first);
        let len = usize::from(*first & 3) + 1;
        for (byte, mask) in pn.iter_mut().zip(&mask[1..=len]) {
            *byte ^= mask;
        }
    }

    fn sample_len(&self) -> usize {
        16
    }
}

/// RFC 9001 §5.4.1: four bits of a long header are masked, five of a short one.
#[inline]
fn masked_bits(first: u8) -> u8 {
    if first & 0x80 == 0 { 0x1f } else { 0x0f }
}

fn initial_keys(version: Version, dcid: &ConnectionId, side: Side) -> Option<Keys> {
    let [local, remote] = directions(word(&digest(u64::from(version.0), dcid, &[])), side);
    version.is_known().then(|| keys(local, remote))
}

fn retry_tag(version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> Option<[u8; TAG]> {
    version.is_known().then(|| digest(u64::from(version.0) ^ RETRY, original_dcid, packet))
}

/// The secrets of (ours, the peer's) direction.
fn directions(secret: u64, side: Side) -> [u64; 2] {
    let of = |side: Side| mix(secret, side as u64);
    [of(side), of(!side)]
}

fn keys(local: u64, remote: u64) -> Keys {
    Keys { local: sealing(local), remote: sealing(remote) }
}

fn sealing(secret: u64) -> Sealing {
    let mask = mix(secret, HEADER).to_le_bytes();
    // Generation 0 of the packet key.
    Sealing { header: Box::new(NullHeader(mask)), packet: Box::new(NullPacket(mix(secret, 0))) }
}

/// A checksum of two byte strings and their lengths under `key`: four lanes of folded multiplications, so
/// that those of a packet overlap.
fn digest(key: u64, head: &[u8], body: &[u8]) -> [u8; TAG] {
    let mut lanes = LANES.map(|lane| lane ^ key);
    absorb(&mut lanes, head);
    absorb(&mut lanes, body);
    let (a, b) = (mix(lanes[0], lanes[1]), mix(lanes[2], lanes[3]));
    let mut out = [0; TAG];
    out[..8].copy_from_slice(&mix(a, b).to_le_bytes());
    out[8..].copy_from_slice(&mix(b, a).to_le_bytes());
    out
}

#[inline]
fn absorb(lanes: &mut [u64; 4], bytes: &[u8]) {
    lanes[0] = mix(lanes[0], bytes.len() as u64);
    let mut blocks = bytes.chunks_exact(BLOCK);
    for block in &mut blocks {
        absorb_block(lanes, block);
    }
    let rest = blocks.remainder();
    if !rest.is_empty() {
        // Zeros behind it: the length is part of the checksum.
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        absorb_block(lanes, &last);
    }
}

#[inline]
fn absorb_block(lanes: &mut [u64; 4], block: &[u8]) {
    for ((lane, secret), words) in lanes.iter_mut().zip(LANES).zip(block.chunks_exact(16)) {
        *lane = fold(word(&words[..8]) ^ secret, word(&words[8..]) ^ *lane);
    }
}

/// Both halves of a product, in one word.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// The first eight bytes.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

/// Scrambles two words into one; a bijection of either while the other is fixed (the finisher of
/// SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
#[inline]
const fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.rotate_left(32) ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn protocols(alpn: &[&[u8]]) -> Vec<Vec<u8>> {
    alpn.iter().map(|p| p[..p.len().min(255)].to_vec()).collect()
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("names, protocols and parameters are short");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
}

fn put_list<T: AsRef<[u8]>>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>) {
    let start = out.len();
    out.push(0);
    // A list is counted by one byte; what is beyond is not offered.
    for item in items.into_iter().take(255) {
        out[start] += 1;
        put(out, item.as_ref());
    }
}

fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

fn take_list(bytes: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let (&n, mut rest) = bytes.split_first()?;
    let mut items = Vec::new();
    for _ in 0..n {
        let (item, behind) = take(rest)?;
        items.push(item);
        rest = behind;
    }
    Some((items, rest))
}

fn alert(code: u8, reason: &'static str) -> TransportError {
    TransportError::new(TransportErrorCode::crypto(code), reason)
}

fn unexpected() -> TransportError {
    alert(UNEXPECTED_MESSAGE, "a handshake message out of turn")
}

fn malformed() -> TransportError {
    alert(DECODE_ERROR, "a handshake message that cannot be read")
}

fn no_protocol() -> TransportError {
    alert(NO_APPLICATION_PROTOCOL, "no application protocol in common")
}

const TAG: usize = 16;
const MESSAGE_HEADER: usize = 3;

const CLIENT_HELLO_KIND: u8 = 1;
const SERVER_HELLO_KIND: u8 = 2;
const TICKET_KIND: u8 = 4;
const FLIGHT_KIND: u8 = 8;
const FINISHED_KIND: u8 = 20;

// Bytes of TLS 1.3 messages as rustls makes them with one X25519 share and one ECDSA certificate.
const CLIENT_HELLO: usize = 300;
const SERVER_HELLO: usize = 90;
const SIGNATURE: usize = 80;
const FINISHED: usize = 36;
const TICKET: usize = 180;

// RFC 8446 §6.
const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;
const DECRYPT_ERROR: u8 = 51;
const NO_APPLICATION_PROTOCOL: u8 = 120;

// Tell one use of a secret from another.
const HEADER: u64 = 0x6865_6164;
const HANDSHAKE: u64 = 0x6861_6e64;
const MASTER: u64 = 0x6d61_7374;
const RESET: u64 = 0x7265_7365;
const RETRY: u64 = 0x7265_7472;
const TRANSCRIPT: u64 = 0x7472_616e;

/// Four lanes of two words.
const BLOCK: usize = 64;

// No two alike and none 0: digits of the golden ratio, e and pi.
const LANES: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xadf8_5458_a2bb_4a9b, 0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345];

#[cfg(test)]
mod tests {
    use super::*;

    /// Carries handshake bytes until nobody has more to say, and returns the keys of both sides as they came.
    fn shake(
        client: &mut dyn Session,
        server: &mut dyn Session,
    ) -> Result<[Vec<KeyChange>; 2], TransportError> {
        let mut keys = [Vec::new(), Vec::new()];
        for turn in 0..8 {
            let (from, to): (&mut dyn Session, &mut dyn Session) =
                if turn % 2 == 0 { (client, server) } else { (server, client) };
            // One level at a time: the receiver must have taken its keys before it reads on.
            let mut bytes = Vec::new();
            keys[turn % 2].extend(from.write(&mut bytes));
            // Chunks as CRYPTO frames would cut them.
            for chunk in bytes.chunks(77) {
                to.read(chunk)?;
            }
        }
        Ok(keys)
    }

    fn pair(client: &[&[u8]], server: &[&[u8]]) -> (Box<dyn Session>, Box<dyn Session>) {
        let client = Arc::new(NullClient::new(client)).start(Version::V1, "here", vec![1; 60]).unwrap();
        (client, Arc::new(NullServer::new(server)).start(Version::V1, vec![2; 90]))
    }

    fn opens(from: &dyn PacketKey, to: &dyn PacketKey) -> bool {
        let mut packet = *b"eleven bytes tag of sixteen";
        from.seal(7, b"head", &mut packet);
        to.open(7, b"head", &mut packet) == Some(11)
    }

    #[test]
    fn both_sides_agree_on_everything() {
        let (mut client, mut server) = pair(&[b"a", b"b"], &[b"b"]);
        let [c, s] = shake(&mut *client, &mut *server).unwrap();
        assert!(!client.is_handshaking() && !server.is_handshaking());
        assert_eq!((client.alpn(), server.alpn()), (Some(&b"b"[..]), Some(&b"b"[..])));
        assert_eq!((client.peer_params(), server.peer_params()), (Some(&[2; 90][..]), Some(&[1; 60][..])));
        let (mut x, mut y) = ([0; 20], [0; 20]);
        assert!(client.export(b"label", b"", &mut x) && server.export(b"label", b"", &mut y));
        assert_eq!(x, y);
        assert_eq!((c.len(), s.len()), (2, 2));
        for (c, s) in c.iter().zip(&s) {
            match (c, s) {
                (KeyChange::Handshake(c), KeyChange::Handshake(s))
                | (KeyChange::OneRtt { keys: c, .. }, KeyChange::OneRtt { keys: s, .. }) => {
                    assert!(opens(&*c.local.packet, &*s.remote.packet));
                    assert!(opens(&*s.local.packet, &*c.remote.packet));
                    assert!(!opens(&*s.local.packet, &*s.remote.packet), "directions differ");
                }
                _ => panic!("levels in another order"),
            }
        }
    }

    #[test]
    fn generations_agree_and_differ() {
        let (mut client, mut server) = pair(&[], &[]);
        let [mut c, mut s] = shake(&mut *client, &mut *server).unwrap();
        let (Some(KeyChange::OneRtt { keys, next: mut c }), Some(KeyChange::OneRtt { next: mut s, .. })) =
            (c.pop(), s.pop())
        else {
            panic!("1-RTT keys come last")
        };
        let mut old = keys.local.packet;
        for _ in 0..3 {
            let (c, s) = (c.next(), s.next());
            assert!(opens(&*c.local, &*s.remote) && opens(&*s.local, &*c.remote));
            assert!(!opens(&*old, &*s.remote));
            old = c.local;
        }
    }

    #[test]
    fn every_altered_byte_is_seen() {
        let keys = initial_keys(Version::V1, &ConnectionId::EMPTY, Side::Client).unwrap();
        let key = &*keys.local.packet;
        let mut packet: Vec<u8> = (0..100).collect();
        key.seal(3, b"header", &mut packet);
        assert_eq!(key.open(3, b"header", &mut packet), Some(84));
        assert_eq!(key.open(4, b"header", &mut packet), None);
        assert_eq!(key.open(3, b"heade", &mut packet), None);
        for i in 0..packet.len() {
            packet[i] ^= 0x80;
            assert_eq!(key.open(3, b"header", &mut packet), None, "byte {i}");
            packet[i] ^= 0x80;
        }
        assert_eq!(key.open(3, b"header", &mut packet[..15]), None);
    }

    #[test]
    fn header_protection_is_undone() {
        let keys = initial_keys(Version::V1, &ConnectionId::EMPTY, Side::Client).unwrap();
        let sample: Vec<u8> = (50..66).collect();
        for first in [0xc0u8, 0xc3, 0x40, 0x41, 0x42] {
            let len = usize::from(first & 3) + 1;
            let (mut byte, mut pn) = (first, [1, 2, 3, 4]);
            keys.local.header.protect(&sample, &mut byte, &mut pn[..len]);
            assert_eq!(byte & 0xc0, first & 0xc0, "the form stays readable");
            keys.local.header.unprotect(&sample, &mut byte, &mut pn);
            assert_eq!((byte, pn), (first, [1, 2, 3, 4]));
        }
    }

    #[test]
    fn strangers_are_refused_with_the_codes_of_tls() {
        let (mut client, mut server) = pair(&[b"a"], &[b"b"]);
        let refused = shake(&mut *client, &mut *server).err().unwrap();
        assert_eq!(refused.code, TransportErrorCode(0x178), "RFC 9001 §8.1");
        let (_, mut server) = pair(&[], &[]);
        assert_eq!(server.read(&[20, 0, 0]).err().unwrap().code, TransportErrorCode(0x10a));
        let (_, mut server) = pair(&[], &[]);
        assert_eq!(server.read(&[1, 0, 1, 9]).err().unwrap().code, TransportErrorCode(0x132));
    }

    #[test]
    fn an_altered_handshake_fails() {
        let (mut client, mut server) = pair(&[], &[]);
        let mut hello = Vec::new();
        assert!(client.write(&mut hello).is_none());
        assert_eq!(hello.len(), CLIENT_HELLO);
        *hello.last_mut().unwrap() ^= 1;
        server.read(&hello).unwrap();
        let mut answer = Vec::new();
        while server.write(&mut answer).is_some() {}
        let (hello, flight) = answer.split_at(SERVER_HELLO);
        client.read(hello).unwrap();
        assert!(client.write(&mut Vec::new()).is_some());
        assert_eq!(client.read(flight).err().unwrap().code, TransportErrorCode(0x133));
    }

    #[test]
    fn tokens_open_only_unaltered() {
        let secrets = NullSecrets(5);
        let token = secrets.seal_token([3; 12], b"where and when");
        assert_eq!(secrets.open_token(&token).as_deref(), Some(&b"where and when"[..]));
        assert_eq!(NullSecrets(6).open_token(&token), None);
        for i in 0..token.len() {
            let mut token = token.clone();
            token[i] ^= 1;
            assert_eq!(secrets.open_token(&token), None, "byte {i}");
        }
        assert_eq!(secrets.open_token(&token[..27]), None);
    }
}
