use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::BytesMut;

use crate::Time;

/// The ECN field of an IP packet (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not ECN-capable transport.
    #[default]
    NotEct,
    /// ECN-capable, the codepoint that QUIC uses.
    Ect0,
    /// ECN-capable, reserved for L4S (RFC 9331).
    Ect1,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// The two bits as they stand in the IP header.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }

    /// Reads the two low bits of the IP header's traffic class.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// Where a datagram comes from or goes to, as seen from this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressPair {
    /// The other end.
    pub remote: SocketAddr,
    /// Our own address where the system tells it; `None` leaves the choice to the system.
    pub local: Option<IpAddr>,
}

impl AddressPair {
    /// A path to `remote`, with the local address left to the system.
    pub const fn to(remote: SocketAddr) -> Self {
        Self { remote, local: None }
    }

    /// The path of a [`Batch`] that nobody filled yet.
    const NOWHERE: Self = Self::to(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
}

/// One received UDP datagram. The bytes are owned: they are decrypted in place and handed on as slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it came from, and to which of our addresses.
    pub path: AddressPair,
    /// The mark it arrived with.
    pub ecn: Ecn,
    /// The UDP payload.
    pub bytes: BytesMut,
}

/// What one send call carries: equal segments for one path, written straight into the driver's buffer.
///
/// All segments have [`segment`](Self::segment) bytes, the last may be shorter (the contract of UDP GSO).
pub struct Batch {
    /// Where to.
    pub path: AddressPair,
    /// The mark of every segment.
    pub ecn: Ecn,
    /// Not to leave before this time; `None`: at once.
    pub not_before: Option<Time>,
    segment: usize,
    limit: usize,
    len: usize,
    // Only ever grows, so that no byte is zeroed twice.
    buffer: Vec<u8>,
}

impl Batch {
    /// Segments of one batch at most, the kernel's limit for UDP GSO.
    pub const MAX_SEGMENTS: usize = 64;
    /// Bytes of one batch at most: the largest UDP payload that the kernel takes in one call.
    pub const MAX_BYTES: usize = 65_507;

    /// An empty batch of up to [`MAX_SEGMENTS`](Self::MAX_SEGMENTS) segments.
    pub fn new() -> Self {
        Self::with_limit(Self::MAX_SEGMENTS)
    }

    /// An empty batch of up to `segments` segments (at least one), for a driver without GSO.
    pub fn with_limit(segments: usize) -> Self {
        Self {
            path: AddressPair::NOWHERE,
            ecn: Ecn::NotEct,
            not_before: None,
            segment: 0,
            limit: segments.clamp(1, Self::MAX_SEGMENTS),
            len: 0,
            buffer: Vec::new(),
        }
    }

    /// Forgets the content and keeps the buffer.
    pub fn clear(&mut self) {
        self.path = AddressPair::NOWHERE;
        self.ecn = Ecn::NotEct;
        self.not_before = None;
        self.segment = 0;
        self.len = 0;
    }

    /// True when nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size of every segment but perhaps the last, in bytes; 0 when empty.
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// The number of segments.
    pub fn count(&self) -> usize {
        if self.segment == 0 { 0 } else { self.len.div_ceil(self.segment) }
    }

    /// All segments, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The same, for encryption in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }

    /// The segments one by one.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes().chunks(self.segment.max(1))
    }

    /// True when another segment of up to `size` bytes may follow those that are there.
    pub fn has_room(&self, size: usize) -> bool {
        self.len == 0
            || (size <= self.segment
                && self.len % self.segment == 0
                && self.count() < self.limit
                && self.len + size <= Self::MAX_BYTES)
    }

    /// Space for a segment of up to `size` bytes, holding whatever an earlier use left there.
    /// [`commit`](Self::commit) makes the first of them part of the batch; without it nothing changes.
    pub fn space(&mut self, size: usize) -> &mut [u8] {
        let end = self.len + size;
        if self.buffer.len() < end {
            self.buffer.resize(end.max(Self::MAX_BYTES), 0);
        }
        &mut self.buffer[self.len..end]
    }

    /// Ends the segment that was written into [`space`](Self::space) at `used` bytes.
    ///
    /// # Panics
    /// When the segment breaks the rule of equal segments, or was not asked for.
    pub fn commit(&mut self, used: usize) {
        assert!(self.len + used <= self.buffer.len(), "a segment of {used} bytes without space");
        if self.segment == 0 {
            self.segment = used;
        }
        assert!(used <= self.segment, "a segment of {used} bytes behind segments of {}", self.segment);
        self.len += used;
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("path", &self.path)
            .field("ecn", &self.ecn)
            .field("not_before", &self.not_before)
            .field("segment", &self.segment)
            .field("count", &self.count())
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(batch: &mut Batch, space: usize, used: usize) {
        batch.space(space)[..used].fill(7);
        batch.commit(used);
    }

    #[test]
    fn segments_are_equal_but_the_last() {
        let mut batch = Batch::new();
        push(&mut batch, 1472, 1200);
        push(&mut batch, 1200, 1200);
        assert!(batch.has_room(1200));
        assert!(!batch.has_room(1201));
        push(&mut batch, 1200, 10);
        assert!(!batch.has_room(1), "nothing may follow a short segment");
        assert_eq!(batch.count(), 3);
        assert_eq!(batch.segments().map(<[u8]>::len).collect::<Vec<_>>(), [1200, 1200, 10]);
    }

    #[test]
    fn the_limit_counts_segments_and_bytes() {
        let mut batch = Batch::with_limit(2);
        push(&mut batch, 100, 100);
        push(&mut batch, 100, 100);
        assert!(!batch.has_room(100));
        let mut batch = Batch::new();
        while batch.has_room(1472) {
            push(&mut batch, 1472, 1472);
        }
        assert_eq!(batch.count(), 44);
        assert!(batch.bytes().len() <= Batch::MAX_BYTES);
    }

    #[test]
    fn ecn_bits_round_trip() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits);
        }
        assert_eq!(Ecn::Ect0.bits(), 2, "RFC 3168 figure 1");
    }
}
