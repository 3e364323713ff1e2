use core::fmt;

/// A packet number space (RFC 9000 §12.3). As a `usize` it indexes arrays of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Initial packets.
    Initial = 0,
    /// Handshake packets.
    Handshake = 1,
    /// 0-RTT and 1-RTT packets.
    Data = 2,
}

impl Space {
    /// All three, in the order in which a handshake goes through them.
    pub const ALL: [Self; 3] = [Self::Initial, Self::Handshake, Self::Data];

    /// 0, 1 or 2.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initial => "initial",
            Self::Handshake => "handshake",
            Self::Data => "data",
        })
    }
}

/// The packets that carry frames (RFC 9000 §12.4); Retry and Version Negotiation carry none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketType {
    /// RFC 9000 §17.2.2.
    Initial,
    /// RFC 9000 §17.2.3.
    ZeroRtt,
    /// RFC 9000 §17.2.4.
    Handshake,
    /// RFC 9000 §17.3.1, the only one with a short header.
    OneRtt,
}

impl PacketType {
    /// Where its packets are numbered.
    #[inline]
    pub const fn space(self) -> Space {
        match self {
            Self::Initial => Space::Initial,
            Self::Handshake => Space::Handshake,
            Self::ZeroRtt | Self::OneRtt => Space::Data,
        }
    }
}

/// A QUIC version (RFC 9000 §15).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

impl Version {
    /// What stands in the place of a version in Version Negotiation packets (RFC 8999 §6).
    pub const NEGOTIATION: Self = Self(0);
    /// Version 1 (RFC 9000).
    pub const V1: Self = Self(1);
    /// Version 2 (RFC 9369).
    pub const V2: Self = Self(0x6b33_43cf);

    /// True for the versions whose packets this crate reads.
    #[inline]
    pub const fn is_known(self) -> bool {
        matches!(self, Self::V1 | Self::V2)
    }

    /// True for versions of the pattern 0x?a?a?a?a, which exist to be refused (RFC 9000 §15).
    #[inline]
    pub const fn is_reserved(self) -> bool {
        self.0 & 0x0f0f_0f0f == 0x0a0a_0a0a
    }

    /// A reserved version with the free bits from `bits`.
    #[inline]
    pub const fn reserved(bits: u32) -> Self {
        Self(bits & 0xf0f0_f0f0 | 0x0a0a_0a0a)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V1 => f.write_str("v1"),
            Self::V2 => f.write_str("v2"),
            _ => fmt::Debug::fmt(self, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 §6.3, §15.
    #[test]
    fn reserved_versions_keep_their_pattern() {
        assert!(Version(0x1a2a_3a4a).is_reserved());
        assert!(!Version::V1.is_reserved() && !Version::V2.is_reserved());
        assert!(!Version(0x1a2a_3a4b).is_reserved());
        for bits in [0, 1, u32::MAX, 0x1234_5678] {
            assert!(Version::reserved(bits).is_reserved());
        }
        assert_eq!(Version::reserved(0x1234_5678), Version(0x1a3a_5a7a));
    }
}
