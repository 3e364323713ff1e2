use core::fmt;
use core::hash::Hasher;
use core::ops::{Deref, Not};

/// A connection id of version 1: 0 to 20 bytes, held inline (RFC 9000 §5.1, §17.2).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    // Zeros behind `len`, so that equality and hashing may look at all of it.
    bytes: [u8; Self::MAX],
    len: u8,
}

impl ConnectionId {
    /// The longest that version 1 allows, in bytes.
    pub const MAX: usize = 20;

    /// The id of no bytes.
    pub const EMPTY: Self = Self { bytes: [0; Self::MAX], len: 0 };

    /// Copies `bytes`; `None` when there are more than [`MAX`](Self::MAX).
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self::EMPTY;
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        id.len = u8::try_from(bytes.len()).ok()?;
        Some(id)
    }

    /// The number of bytes, 0 to 20.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Their number as packets have it before them.
    #[inline]
    pub const fn len_byte(&self) -> u8 {
        self.len
    }

    /// True for [`EMPTY`](Self::EMPTY).
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Deref for ConnectionId {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl AsRef<[u8]> for ConnectionId {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A stateless reset token (RFC 9000 §10.3). Who knows it can end the connection, so it is not printed,
/// and comparing takes the same time wherever the first difference lies.
#[derive(Clone, Copy)]
pub struct ResetToken(pub [u8; 16]);

impl ResetToken {
    /// Equality in constant time (RFC 9000 §10.3.1: the time must not tell how much of a guess was right).
    #[inline]
    pub fn ct_eq(&self, other: &Self) -> bool {
        let differ = u128::from_ne_bytes(self.0) ^ u128::from_ne_bytes(other.0);
        // The barrier keeps the optimiser from testing one half before it looks at the other.
        core::hint::black_box(differ) == 0
    }
}

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other)
    }
}

impl Eq for ResetToken {}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetToken(..)")
    }
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that opened the connection.
    Client = 0,
    /// The end that accepted it.
    Server = 1,
}

impl Side {
    /// True for [`Side::Client`].
    #[inline]
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client)
    }

    /// True for [`Side::Server`].
    #[inline]
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Server)
    }
}

impl Not for Side {
    type Output = Self;
    #[inline]
    fn not(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// Whether data flows both ways on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dir {
    /// Both ways.
    Bi = 0,
    /// From the initiator only.
    Uni = 1,
}

impl Dir {
    /// Both, in the order of their values.
    pub const ALL: [Self; 2] = [Self::Bi, Self::Uni];
}

impl fmt::Display for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bi => "bidirectional",
            Self::Uni => "unidirectional",
        })
    }
}

/// A stream id (RFC 9000 §2.1): the initiator in bit 0, the direction in bit 1, the index above; at most
/// 2^62 - 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The stream number `index` (from 0, below 2^60) of its kind.
    #[inline]
    pub const fn new(initiator: Side, dir: Dir, index: u64) -> Self {
        Self(index << 2 | (dir as u64) << 1 | initiator as u64)
    }

    /// Who opened it.
    #[inline]
    pub const fn initiator(self) -> Side {
        if self.0 & 1 == 0 { Side::Client } else { Side::Server }
    }

    /// Its direction.
    #[inline]
    pub const fn dir(self) -> Dir {
        if self.0 & 2 == 0 { Dir::Bi } else { Dir::Uni }
    }

    /// How many streams of its kind come before it.
    #[inline]
    pub const fn index(self) -> u64 {
        self.0 >> 2
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({}: {} {} {})", self.0, self.initiator(), self.dir(), self.index())
    }
}

/// Hashes a stream's id by one multiplication: for tables of streams, whose ids a peer cannot choose so that
/// they collide, since they come in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamIdHasher(u64);

impl Hasher for StreamIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        // 2^64 divided by the golden ratio; the high bits are good, the table wants good low ones too.
        let product = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 §2.1.
    #[test]
    fn stream_ids_follow_table_1() {
        // RFC 9000 table 1.
        let kinds = [
            (Side::Client, Dir::Bi),
            (Side::Server, Dir::Bi),
            (Side::Client, Dir::Uni),
            (Side::Server, Dir::Uni),
        ];
        for (low, (side, dir)) in kinds.into_iter().enumerate() {
            let id = StreamId::new(side, dir, 5);
            assert_eq!(id.0, 20 + low as u64);
            assert_eq!((id.initiator(), id.dir(), id.index()), (side, dir, 5));
        }
        assert_eq!(format!("{} {:?}", StreamId(7), StreamId(7)), "7 StreamId(7: server unidirectional 1)");
        assert_eq!(!Side::Client, Side::Server);
    }

    #[test]
    fn connection_ids_hold_at_most_20_bytes() {
        assert!(ConnectionId::new(&[1; 21]).is_none());
        let id = ConnectionId::new(&[0xab; 20]).unwrap();
        assert_eq!(&*id, &[0xab; 20]);
        assert_eq!(format!("{:?}", ConnectionId::new(&[0, 0x1f]).unwrap()), "001f");
        assert_eq!(ConnectionId::new(&[]), Some(ConnectionId::EMPTY));
        assert_ne!(ConnectionId::new(&[0]), Some(ConnectionId::EMPTY), "the length counts");
    }

    #[test]
    fn tokens_compare_whole_and_are_not_printed() {
        let a = ResetToken([7; 16]);
        for i in 0..16 {
            let mut b = a;
            b.0[i] ^= 0x80;
            assert!(!a.ct_eq(&b), "byte {i}");
        }
        assert!(a.ct_eq(&ResetToken([7; 16])));
        assert_eq!(format!("{a:?}"), "ResetToken(..)");
    }
}
