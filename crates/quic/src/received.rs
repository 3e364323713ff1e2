//! Packets of the peer between their datagram and their frames: what a first byte may be, packets that wait
//! for keys, and those that are authentic.

use bytes::BytesMut;
use quickset_base::{Datagram, Ecn, Time};
use quickset_wire::PacketType;

use crate::keys::Opened;

/// Packets kept until their keys are there (RFC 9001 §4.1.4): a flight of the peer's that overtook its
/// handshake.
const MAX_EARLY: usize = 16;

/// Bytes of them: a handshake that is only begun must not hold sixteen of the largest datagrams.
const MAX_EARLY_BYTES: usize = MAX_EARLY * 1500;

/// The first bits of a first byte that have to be as in a short header. A long one has the first bit
/// (RFC 8999 §5.1), and without the second it is no packet of QUIC, though it were authentic
/// (RFC 9000 §17.3.1): unless we offered to take such packets (RFC 9287 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortHeaderForm(u8);

impl ShortHeaderForm {
    pub(crate) const fn new(takes_unfixed: bool) -> Self {
        Self(if takes_unfixed { LONG } else { LONG | FIXED })
    }

    /// Whether a packet with this first byte has a short header, and is not to be dropped.
    #[inline]
    pub(crate) const fn is_short(self, first: u8) -> bool {
        first & self.0 == FIXED & self.0
    }

    pub(crate) const fn takes_unfixed(self) -> bool {
        self.0 & FIXED == 0
    }
}

const LONG: u8 = 0b1000_0000;
const FIXED: u8 = 0b0100_0000;

/// Of early data: a client's first window (RFC 9002 §7.2).
const MAX_ZERO_RTT: usize = 10;

/// Packets that came before their keys.
#[derive(Debug, Default)]
pub(crate) struct EarlyPackets {
    pub(crate) packets: Vec<(Time, WaitingPacket)>,
    /// Those that the endpoint had before the connection began.
    pub(crate) datagrams: Vec<Datagram>,
    /// Bytes of early data that were read.
    pub(crate) taken: u64,
}

impl EarlyPackets {
    pub(crate) fn with(datagrams: Vec<Datagram>) -> Self {
        Self { datagrams, ..Self::default() }
    }

    /// Whether a packet of `size` bytes may wait.
    pub(crate) fn has_room(&self, kind: PacketType, size: usize) -> bool {
        let (count, bytes) = self.waiting(kind == PacketType::ZeroRtt);
        if kind == PacketType::ZeroRtt {
            return count < MAX_ZERO_RTT;
        }
        count < MAX_EARLY && bytes + size <= MAX_EARLY_BYTES
    }

    /// Whether a packet of one of these types waits.
    pub(crate) fn holds(&self, kinds: &[PacketType]) -> bool {
        self.packets.iter().any(|(_, waiting)| kinds.contains(&waiting.kind))
    }

    /// Packets of early data, or the others, and their bytes.
    pub(crate) fn waiting(&self, zero_rtt: bool) -> (usize, usize) {
        let those = self.packets.iter().filter(|(_, w)| (w.kind == PacketType::ZeroRtt) == zero_rtt);
        those.fold((0, 0), |(count, bytes), (_, w)| (count + 1, bytes + w.packet.len()))
    }
}

/// One of them.
#[derive(Debug)]
pub(crate) struct WaitingPacket {
    pub(crate) kind: PacketType,
    pub(crate) packet: BytesMut,
    pub(crate) number_at: usize,
    pub(crate) ecn: Ecn,
}

/// A packet that is authentic.
#[derive(Debug)]
pub(crate) struct Authentic {
    pub(crate) kind: PacketType,
    pub(crate) packet: BytesMut,
    pub(crate) opened: Opened,
    pub(crate) ecn: Ecn,
}
