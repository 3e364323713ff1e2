//! What carries packets to the peer and back: keys, numbers, acknowledgements, loss detection, connection ids
//! and paths.

mod asks;
mod blockade;
mod moves;
mod open;
mod packets;
mod probe;
mod size;
mod urgent;

use std::ops::Range;

use quickset_base::{AddressPair as Address, Duration, Rng, Time};
use quickset_wire::{ConnectionId, Side, Space, Version};

pub(crate) use blockade::Blockade;

use crate::ack::{Acks, Asks, Merged};
use crate::cc::RateCap;
use crate::cids::Cids;
use crate::config::TransportConfig;
use crate::keys::KeyRing;
use crate::packet::{BySpace, FrameToken, Grease, MAX_OVERHEAD, Numbering, RoomView, Unsealed};
use crate::path::{Candidates, Marking, Path, Search};
use crate::protect::Losses;
use crate::received::{EarlyPackets, ShortHeaderForm};
use crate::recovery::{Recovery, assumed_rtt};

/// Owned by the connection.
#[derive(Debug)]
pub(crate) struct PacketLink {
    pub(crate) keys: KeyRing,
    pub(crate) acks: BySpace<Acks>,
    pub(crate) asks: Asks,
    pub(crate) merged: BySpace<Merged>,
    pub(crate) path: Path,
    pub(crate) candidates: Candidates,
    pub(crate) cids: Cids,
    pub(crate) blockade: Blockade,
    /// What a move means for others, until they hear of it.
    pub(crate) moved: Moved,
    /// Packets that came before their keys.
    pub(crate) early: EarlyPackets,
    /// The version that the connection began in, which is that of early data (RFC 9369 §4.1).
    pub(crate) began: Version,
    /// The peer's source id, once its first packet came; a server knows it from the start.
    pub(crate) peer_cid: Option<ConnectionId>,
    /// The token of our Initial packets.
    pub(crate) token: Vec<u8>,
    /// What the first bits of packets may be: of those that we get and of those that we send.
    pub(crate) form: ShortHeaderForm,
    pub(crate) grease: Grease,
    pub(crate) held: HeldData,
    /// Bytes that the frames of the last packet took.
    pub(crate) filled: usize,
    /// Probes owed by space (RFC 9002 §6.2.4).
    pub(crate) probes: [u8; 3],
    /// Used again and again, so that a packet allocates nothing.
    pub(crate) tokens: Vec<FrameToken>,
    /// Packets of the batch that is being built, and where they are in it.
    pub(crate) unsealed: Vec<(Range<usize>, Unsealed)>,
}

/// What keeps data from leaving though the window has room for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeldData {
    /// The pacer lets the next packet go then.
    pub(crate) paced_until: Option<Time>,
    /// It is the turn of other connections of the same owner.
    pub(crate) is_others_turn: bool,
    /// Something would have left but for that.
    pub(crate) awaits_turn: bool,
}

/// What a move to another path means for others.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// There was one.
    pub(crate) is_under_way: bool,
    /// Datagrams are smaller there.
    pub(crate) is_narrow: bool,
    /// What is known of losses there, where that is not what is known of those here, and the number of the
    /// path that was left.
    pub(crate) losses: Option<(Box<Losses>, u8)>,
}

/// What a link begins with.
pub(crate) struct Birth {
    pub(crate) side: Side,
    pub(crate) path: Address,
    /// How long a round trip takes, if that is known.
    pub(crate) trip: Option<Duration>,
    pub(crate) keys: KeyRing,
    pub(crate) cids: Cids,
    pub(crate) rng: Rng,
    pub(crate) version: Version,
    /// Of an address that was proven to a server before.
    pub(crate) token: Vec<u8>,
    pub(crate) now: Time,
}

impl PacketLink {
    pub(crate) fn new(birth: Birth, config: &TransportConfig) -> Self {
        let Birth { side, path, trip, keys, cids, rng, version, token, now } = birth;
        let is_ipv6 = path.remote.is_ipv6();
        let rtt = config.initial_rtt.unwrap_or_else(|| assumed_rtt(side, trip));
        let mut recovery = Recovery::new(side, rtt);
        recovery.set_handshake_timeout(config.handshake_timeout);
        let (mtu, numbering) = (usize::from(config.mtu.max(1200)), Numbering::new(rng));
        let mut path = Path::new(path, mtu, &config.congestion, recovery, numbering, now);
        path.search = config.mtu_discovery.map(|config| Box::new(Search::new(config, is_ipv6)));
        path.ecn = Marking::new(config.ecn);
        path.cap = config.max_rate_bps.map(|rate| RateCap::new(rate, now));
        Self {
            keys,
            acks: BySpace::new(|space| Acks::new(space, config.max_ack_delay)),
            asks: Asks::new(config.acks),
            merged: BySpace::new(|_| Merged::default()),
            path,
            candidates: Candidates::new(),
            blockade: Blockade::default(),
            moved: Moved::default(),
            early: EarlyPackets::default(),
            began: version,
            peer_cid: side.is_server().then(|| *cids.remote()),
            cids,
            token,
            form: ShortHeaderForm::new(config.grease_quic_bit),
            grease: Grease::default(),
            held: HeldData::default(),
            filled: 0,
            probes: [0; 3],
            tokens: Vec::new(),
            unsealed: Vec::new(),
        }
    }

    /// The handshake is confirmed, and nothing of it is under way: what there is of its packets goes. Returns
    /// how many were marked of those that left, and of those that came with a mark of congestion.
    pub(crate) fn end_handshake(&mut self) -> [u64; 2] {
        if [Space::Initial, Space::Handshake].into_iter().any(|space| self.keys.has(space)) {
            return [0; 2];
        }
        let marks = |link: &Self| [link.path.recovery.marked(), link.acks.iter().map(Acks::marked).sum()];
        let before = marks(self);
        self.keys.end_handshake();
        self.acks.end_handshake();
        self.merged.end_handshake();
        self.path.recovery.end_handshake();
        let [sent, received] = marks(self);
        [before[0] - sent, before[1] - received]
    }

    /// The largest number received in a space.
    #[inline]
    pub(crate) fn largest_received(&self, space: Space) -> Option<u64> {
        self.acks.get(space).and_then(Acks::largest)
    }

    /// What a room may know of the others.
    pub(crate) fn view(&self, now: Time, rate: u64) -> RoomView {
        let rtt = self.path.recovery.rtt();
        let idle = self.path.recovery.in_flight() == 0;
        let one_way = if idle { Duration::ZERO } else { rtt.min() / 2 };
        let room = self.path.mtu.saturating_sub(MAX_OVERHEAD);
        RoomView { now, room, srtt: rtt.smoothed(), one_way, rate }
    }
}
