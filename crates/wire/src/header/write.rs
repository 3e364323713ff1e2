use super::{FIXED, KEY_PHASE, LONG, LongKind, SPIN};
use crate::cursor::one;
use crate::{ConnectionId, PacketType, Version, Writer, packet_number, varint};

/// What a packet with a long header says in clear (RFC 9000 §17.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongHeader<'a> {
    /// Initial, 0-RTT or Handshake.
    pub ty: PacketType,
    /// The version, which decides how `ty` is coded.
    pub version: Version,
    /// Where it goes.
    pub dcid: ConnectionId,
    /// Where answers go.
    pub scid: ConnectionId,
    /// The token of an Initial; other packets have none, and then it is ignored.
    pub token: &'a [u8],
}

/// What a packet with a short header says, apart from its number (RFC 9000 §17.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortHeader {
    /// Where it goes.
    pub dcid: ConnectionId,
    /// The latency spin bit.
    pub spin: bool,
    /// The key phase bit.
    pub key_phase: bool,
}

impl LongHeader<'_> {
    /// The bytes that [`long_header`] writes with a packet number of `pn_len` bytes.
    pub const fn size(&self, pn_len: usize) -> usize {
        let token = match self.ty {
            PacketType::Initial => varint::size(self.token.len() as u64) + self.token.len(),
            _ => 0,
        };
        1 + 4 + 1 + self.dcid.len() + 1 + self.scid.len() + token + 2 + pn_len
    }
}

impl ShortHeader {
    /// The bytes that [`short_header`] writes with a packet number of `pn_len` bytes.
    pub const fn size(&self, pn_len: usize) -> usize {
        1 + self.dcid.len() + pn_len
    }
}

/// Writes a long header with the low `pn_len` (1 to 4) bytes of `pn`, and returns where its Length stands:
/// two bytes for [`patch_length`]. The packet number starts right behind them.
///
/// # Panics
/// When there is no room ([`LongHeader::size`]), or for a 1-RTT packet, which has no long header.
pub fn long_header(w: &mut Writer<'_>, header: &LongHeader<'_>, pn: u64, pn_len: usize) -> usize {
    let kind = match header.ty {
        PacketType::Initial => LongKind::Initial,
        PacketType::ZeroRtt => LongKind::ZeroRtt,
        PacketType::Handshake => LongKind::Handshake,
        PacketType::OneRtt => panic!("a 1-RTT packet has a short header"),
    };
    invariant(w, kind.first(header.version) | len_bits(pn_len), header.version, &header.dcid, &header.scid);
    if header.ty == PacketType::Initial {
        w.varint_bytes(header.token);
    }
    let length_at = w.len();
    w.varint2(0);
    number(w, pn, pn_len);
    length_at
}

/// Writes into the Length at `length_at` that the packet goes up to here and `tag` bytes further, those of
/// the AEAD's tag (RFC 9000 §17.2).
///
/// # Panics
/// When that is 2^14 bytes or more, which no datagram of ours has.
pub fn patch_length(w: &mut Writer<'_>, length_at: usize, tag: usize) {
    let length = w.len() - (length_at + 2) + tag;
    w.patch_varint2(length_at, length as u64);
}

/// Writes a short header with the low `pn_len` (1 to 4) bytes of `pn`, which are its last.
///
/// # Panics
/// When there is no room ([`ShortHeader::size`]).
#[inline]
pub fn short_header(w: &mut Writer<'_>, header: &ShortHeader, pn: u64, pn_len: usize) {
    let spin = if header.spin { SPIN } else { 0 };
    let phase = if header.key_phase { KEY_PHASE } else { 0 };
    w.u8(FIXED | spin | phase | len_bits(pn_len));
    w.bytes(&header.dcid);
    number(w, pn, pn_len);
}

/// Writes a Version Negotiation packet (RFC 9000 §17.2.1) with `versions` and a reserved one, whose free
/// bits and those of the first byte come from `grease`. The ids are those of the packet that is answered,
/// exchanged by the caller: `dcid` is its source.
///
/// # Panics
/// When there is no room, or an id has more than 255 bytes.
pub fn version_negotiation(w: &mut Writer<'_>, dcid: &[u8], scid: &[u8], versions: &[Version], grease: u32) {
    // RFC 9000 §17.2.1: the unused bits may be anything; the fixed bit tells QUIC from other protocols.
    invariant(w, LONG | FIXED | (grease & 0x3f) as u8, Version::NEGOTIATION, dcid, scid);
    // RFC 9000 §6.3: a reserved version among them keeps clients able to skip those they do not know.
    w.u32(Version::reserved(grease).0);
    for version in versions {
        w.u32(version.0);
    }
}

/// Writes a Retry packet up to its integrity tag, which is computed over it and comes last
/// (RFC 9000 §17.2.5, RFC 9001 §5.8).
///
/// # Panics
/// When there is no room.
pub fn retry(w: &mut Writer<'_>, version: Version, dcid: &ConnectionId, scid: &ConnectionId, token: &[u8]) {
    // The unused bits are set, as in the example of RFC 9001 §A.4.
    invariant(w, LongKind::Retry.first(version) | 0x0f, version, dcid, scid);
    w.bytes(token);
}

/// What all versions have in common (RFC 8999 §5.1).
fn invariant(w: &mut Writer<'_>, first: u8, version: Version, dcid: &[u8], scid: &[u8]) {
    w.u8(first);
    w.u32(version.0);
    for id in [dcid, scid] {
        w.u8(u8::try_from(id.len()).expect("an id of at most 255 bytes"));
        w.bytes(id);
    }
}

#[inline]
fn number(w: &mut Writer<'_>, pn: u64, pn_len: usize) {
    let bytes = packet_number::truncate(pn, pn_len).to_be_bytes();
    w.bytes(&bytes[4 - pn_len..]);
}

#[inline]
fn len_bits(pn_len: usize) -> u8 {
    debug_assert!((1..=4).contains(&pn_len), "a packet number of {pn_len} bytes");
    one(pn_len as u64 - 1)
}
