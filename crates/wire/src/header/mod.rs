//! Packet headers as they stand unprotected on the wire (RFC 8999, RFC 9000 §17, RFC 9369 §3.2).
//!
//! In: [`Parsed::parse`] reads the first packet of a datagram as far as it is not protected and tells
//! where it ends; what follows is the next packet (RFC 9000 §12.2). [`unprotect`] then opens the rest of
//! the header. Out: [`long_header`] and [`short_header`] leave the packet number in clear, and [`protect`]
//! covers it once the payload is sealed. The mask comes from the keys, which live elsewhere.

mod protection;
mod write;

pub use protection::{Unprotected, apply_mask, protect, unprotect};
pub use write::{
    LongHeader, ShortHeader, long_header, patch_length, retry, short_header, version_negotiation,
};

use core::iter::FusedIterator;

use crate::{ConnectionId, PacketType, Reader, Truncated, Version};

/// The first packet of a datagram, as far as can be read without keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// The unprotected fields.
    pub header: Header<'a>,
    /// Where the packet number starts, as an offset into the datagram; [`end`](Self::end) when there is none.
    pub pn_offset: usize,
    /// Where the packet ends and the next one may start.
    pub end: usize,
    /// The second bit is 1, as it is in packets of the versions that this crate reads unless their receiver
    /// has said that it may be 0; then one in which it is not is to be dropped (RFC 9000 §17.2, §17.3.1,
    /// RFC 9287). Always true of Version Negotiation and of versions that are not known, in which the bit
    /// means nothing.
    pub is_fixed: bool,
}

/// The fields of a header that are not protected. Connection ids are those of version 1, up to 20 bytes,
/// but where the version is unknown or open (RFC 8999 §5.1): there they have up to 255.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields have the names that the RFC gives them")]
pub enum Header<'a> {
    /// RFC 9000 §17.2.1.
    VersionNegotiation { dcid: &'a [u8], scid: &'a [u8], versions: Versions<'a> },
    /// RFC 9000 §17.2.2.
    Initial { version: Version, dcid: ConnectionId, scid: ConnectionId, token: &'a [u8] },
    /// RFC 9000 §17.2.3.
    ZeroRtt { version: Version, dcid: ConnectionId, scid: ConnectionId },
    /// RFC 9000 §17.2.4.
    Handshake { version: Version, dcid: ConnectionId, scid: ConnectionId },
    /// RFC 9000 §17.2.5; `tag` is the Retry Integrity Tag, not yet checked.
    Retry { version: Version, dcid: ConnectionId, scid: ConnectionId, token: &'a [u8], tag: [u8; 16] },
    /// RFC 9000 §17.3.1.
    Short { dcid: ConnectionId },
    /// A long header of a version that this crate does not read.
    UnknownVersion { version: Version, dcid: &'a [u8], scid: &'a [u8] },
}

/// Why a packet is dropped; the datagram's remaining bytes cannot be attributed and go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The header, or what it announces, goes beyond the datagram.
    #[error("the packet is cut short")]
    Truncated,
    /// A connection id of more than 20 bytes in a version that allows no more (RFC 9000 §17.2).
    #[error("a connection id of more than 20 bytes")]
    ConnectionIdLength,
}

impl From<Truncated> for HeaderError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl<'a> Parsed<'a> {
    /// Reads the first packet of `datagram`. `local_cid_len` is the length of the connection ids that we
    /// hand out, 0 to 20: a short header does not tell.
    #[inline]
    pub fn parse(datagram: &'a [u8], local_cid_len: usize) -> Result<Self, HeaderError> {
        let mut r = Reader::new(datagram);
        let first = r.u8()?;
        if first & LONG != 0 {
            return long(first, r);
        }
        let dcid = cid(r.bytes(local_cid_len)?)?;
        // RFC 9000 §12.2: without a length, the packet goes to the end.
        let (pn_offset, end) = (r.position(), datagram.len());
        Ok(Self { header: Header::Short { dcid }, pn_offset, end, is_fixed: first & FIXED != 0 })
    }

    /// The 16 bytes from which the mask is made, given the datagram that was parsed. `None`: too short to be
    /// protected, to be dropped (RFC 9001 §5.4.2).
    #[inline]
    pub fn sample(&self, datagram: &[u8]) -> Option<[u8; 16]> {
        // As if the packet number had four bytes.
        datagram.get(..self.end)?.get(self.pn_offset + 4..)?.first_chunk().copied()
    }
}

impl Header<'_> {
    /// The kind of packet, when it is one that carries frames.
    #[inline]
    pub const fn packet_type(&self) -> Option<PacketType> {
        match self {
            Self::Initial { .. } => Some(PacketType::Initial),
            Self::ZeroRtt { .. } => Some(PacketType::ZeroRtt),
            Self::Handshake { .. } => Some(PacketType::Handshake),
            Self::Short { .. } => Some(PacketType::OneRtt),
            Self::VersionNegotiation { .. } | Self::Retry { .. } | Self::UnknownVersion { .. } => None,
        }
    }

    /// The version, when the header names one; [`Version::NEGOTIATION`] for Version Negotiation.
    #[inline]
    pub const fn version(&self) -> Option<Version> {
        match *self {
            Self::VersionNegotiation { .. } => Some(Version::NEGOTIATION),
            Self::Initial { version, .. }
            | Self::ZeroRtt { version, .. }
            | Self::Handshake { version, .. }
            | Self::Retry { version, .. }
            | Self::UnknownVersion { version, .. } => Some(version),
            Self::Short { .. } => None,
        }
    }

    /// The destination connection id, whatever the kind: what routes the packet.
    #[inline]
    pub fn dcid(&self) -> &[u8] {
        match self {
            Self::Initial { dcid, .. }
            | Self::ZeroRtt { dcid, .. }
            | Self::Handshake { dcid, .. }
            | Self::Retry { dcid, .. }
            | Self::Short { dcid } => dcid,
            Self::VersionNegotiation { dcid, .. } | Self::UnknownVersion { dcid, .. } => dcid,
        }
    }
}

/// The versions that a Version Negotiation packet lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions<'a>(&'a [u8]);

impl Iterator for Versions<'_> {
    type Item = Version;

    fn next(&mut self) -> Option<Version> {
        let (version, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(Version(u32::from_be_bytes(*version)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.0.len() / 4;
        (n, Some(n))
    }
}

impl ExactSizeIterator for Versions<'_> {}
impl FusedIterator for Versions<'_> {}

/// The two reserved bits of a first byte without protection, in place. Anything but 0 is a
/// PROTOCOL_VIOLATION, once the packet has been decrypted (RFC 9000 §17.2, §17.3.1).
#[inline]
pub const fn reserved_bits(first: u8) -> u8 {
    first & if first & LONG == 0 { 0x18 } else { 0x0c }
}

/// Clears the second bit of a first byte, for a peer that takes such packets (RFC 9287 §3.1). No mask covers
/// it and every tag does: it is cleared before the packet is sealed.
#[inline]
pub const fn clear_fixed_bit(first: &mut u8) {
    *first &= !FIXED;
}

/// The bytes of the packet number, 1 to 4, from a first byte without protection.
#[inline]
pub const fn pn_len(first: u8) -> usize {
    (first & 0x03) as usize + 1
}

/// The key phase, from the first byte of a short header without protection (RFC 9001 §6).
#[inline]
pub const fn key_phase(first: u8) -> bool {
    first & KEY_PHASE != 0
}

/// The spin bit, from the first byte of a short header (RFC 9000 §17.4).
#[inline]
pub const fn spin(first: u8) -> bool {
    first & SPIN != 0
}

fn long(first: u8, mut r: Reader<'_>) -> Result<Parsed<'_>, HeaderError> {
    let version = Version(r.u32()?);
    let dcid = short_bytes(&mut r)?;
    let scid = short_bytes(&mut r)?;
    let all = r.position() + r.remaining();
    let whole = |header, is_fixed| Ok(Parsed { header, pn_offset: all, end: all, is_fixed });

    if version == Version::NEGOTIATION {
        let versions = Versions(r.rest());
        // RFC 8999 §6: a list that is empty or ends inside a version is not processed.
        if versions.0.is_empty() || versions.0.len() % 4 != 0 {
            return Err(HeaderError::Truncated);
        }
        return whole(Header::VersionNegotiation { dcid, scid, versions }, true);
    }
    if !version.is_known() {
        return whole(Header::UnknownVersion { version, dcid, scid }, true);
    }
    let is_fixed = first & FIXED != 0;
    let (dcid, scid) = (cid(dcid)?, cid(scid)?);
    let header = match LongKind::of(first, version) {
        LongKind::Initial => Header::Initial { version, dcid, scid, token: r.varint_bytes()? },
        LongKind::ZeroRtt => Header::ZeroRtt { version, dcid, scid },
        LongKind::Handshake => Header::Handshake { version, dcid, scid },
        LongKind::Retry => {
            let rest = r.rest();
            let (token, tag) = rest.split_last_chunk().ok_or(HeaderError::Truncated)?;
            return whole(Header::Retry { version, dcid, scid, token, tag: *tag }, is_fixed);
        }
    };
    let length = usize::try_from(r.varint()?).map_err(|_| HeaderError::Truncated)?;
    let pn_offset = r.position();
    r.bytes(length)?;
    Ok(Parsed { header, pn_offset, end: r.position(), is_fixed })
}

/// A length in one byte, and as many bytes (RFC 8999 §5.1).
fn short_bytes<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Truncated> {
    let len = r.u8()?;
    r.bytes(len as usize)
}

#[inline]
fn cid(bytes: &[u8]) -> Result<ConnectionId, HeaderError> {
    ConnectionId::new(bytes).ok_or(HeaderError::ConnectionIdLength)
}

/// The kinds of packets with a long header, in the order of version 1.
#[derive(Clone, Copy)]
enum LongKind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}

impl LongKind {
    fn of(first: u8, version: Version) -> Self {
        match ((first >> 4) - v2_shift(version)) & 0x03 {
            0 => Self::Initial,
            1 => Self::ZeroRtt,
            2 => Self::Handshake,
            _ => Self::Retry,
        }
    }

    /// The first byte with all other bits 0.
    const fn first(self, version: Version) -> u8 {
        LONG | FIXED | ((self as u8 + v2_shift(version)) & 0x03) << 4
    }
}

/// RFC 9369 §3.2: version 2 counts the kinds on by one, so that middleboxes do not learn version 1 by heart.
const fn v2_shift(version: Version) -> u8 {
    if version.0 == Version::V2.0 { 1 } else { 0 }
}

const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const SPIN: u8 = 0x20;
const KEY_PHASE: u8 = 0x04;
