use quickset_wire::frame::{Frame, RepairHeader, repair_header_size};
use quickset_wire::params::MAX_UNMARKED;

use super::Lane;
use crate::protect::policy::{RepairCode, parts};
use crate::protect::send::ProtectSending;

/// The first symbols of a session, which do not say that they are symbols (`spec/fec.md` 6.1).
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Unmarked {
    /// Their packets, each a bit: SIDs from 0 on.
    packets: u64,
    /// More of them may go into packets with numbers below this.
    below: u64,
}

impl Unmarked {
    /// None yet, of a peer that keeps what packets below this number hold.
    pub(super) fn new(below: u64) -> Self {
        Self { packets: 0, below }
    }

    /// The next one is in packet `number`, the largest so far (FEC-68).
    pub(super) fn push(&mut self, number: u64) {
        self.packets |= 1 << number;
    }

    fn count(&self) -> u64 {
        self.packets.count_ones().into()
    }

    /// The packets that go with a repair of SIDs from `first` on (FEC-67); 0 when it is of none that is
    /// unmarked.
    pub(in super::super) fn told_with(self, first: u64) -> u64 {
        if first < self.count() { self.packets } else { 0 }
    }
}

impl Lane {
    /// FEC-66: all before it are unmarked, and the peer keeps what packet `number` holds.
    #[inline]
    pub(in super::super) fn may_be_unmarked(&self, number: u64) -> bool {
        number < self.unmarked.below && self.next() == self.unmarked.count()
    }

    pub(in super::super) fn unmarked(&self) -> Unmarked {
        self.unmarked
    }

    /// The most bytes that the header of a repair symbol takes, those of the next thousand included, and what
    /// goes with it.
    pub(in super::super) fn repair_header(&self) -> usize {
        let session = self.session.into();
        // What the first few have in a batch is made up for by the index, which is short as long.
        let ahead = if self.next() < 64 { 0 } else { SOON };
        let header = RepairHeader {
            session,
            first: self.next() + ahead,
            count: self.window.max(64),
            parameter: match self.code() {
                RepairCode::Rlc => 0,
                RepairCode::Xor { depth } => depth.into(),
                RepairCode::Xor2d { columns, .. } => columns.into(),
                RepairCode::ReedSolomon { stride } => parts(self.window, stride),
                RepairCode::Ldpc => self.window,
            },
            index: (self.owed.seed() + SOON).max(1 << 13),
        };
        let names = self.may_be_unmarked(0) || self.unmarked.told_with(self.base) != 0;
        let unmarked = Frame::Unmarked { session, packets: (1 << MAX_UNMARKED) - 1 };
        repair_header_size(&header, 1 << 13) + if names { unmarked.size() } else { 0 }
    }
}

impl ProtectSending {
    /// Packets have come to number `next`. Once the peer keeps nothing any more, all symbols say that they
    /// are.
    pub(crate) fn reached(&mut self, next: u64) {
        if let Some(peer) = self.peer.as_mut().filter(|peer| (1..=next).contains(&peer.unmarked)) {
            peer.unmarked = 0;
            self.lanes.iter_mut().for_each(|lane| lane.unmarked.below = 0);
        }
    }

    /// Whether the next symbol of a lane may go into packet `number` without saying that it is one.
    #[inline]
    pub(crate) fn may_be_unmarked(&self, lane: usize, number: u64) -> bool {
        self.lanes[lane].may_be_unmarked(number)
    }
}

/// Symbols that are sent before it is found out anew how long they may be, and repairs: more than a batch
/// has.
const SOON: u64 = 1024;
