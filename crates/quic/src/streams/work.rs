//! What frames take beyond what is usual, and that a peer which owes us some has few new streams.

use quickset_wire::{Dir, StreamId};

use super::Streams;

/// Of the peer.
#[derive(Debug, Default)]
pub(super) struct OwedWork {
    /// Steps that nobody has asked for yet.
    pub(super) steps: u64,
    /// It has but a few new streams, until it has paid.
    paced: bool,
}

impl Streams {
    /// What the peer's frames took since this was asked last, in steps of a tenth of a microsecond.
    #[inline]
    pub(crate) fn take_steps(&mut self) -> u64 {
        std::mem::take(&mut self.owed.steps)
    }

    /// Whether the peer may open but a few streams in place of those that are over. True when that is new.
    #[inline]
    pub(crate) fn set_paced(&mut self, paced: bool) -> bool {
        let is_new = self.owed.paced != paced;
        if is_new {
            self.pace(paced);
        }
        is_new
    }

    #[cold]
    fn pace(&mut self, paced: bool) {
        self.owed.paced = paced;
        self.limits.set_paced(paced);
    }
}

/// Steps for a frame of a stream of messages that has its place to be found among so many runs of bytes
/// behind the first that is missing: several trees are gone down.
pub(super) const fn steps_among(runs: usize) -> u64 {
    match runs.checked_ilog2() {
        Some(depth) => 6 + depth as u64,
        None => 0,
    }
}

/// Steps for a stream that its peer gives up, with all that was begun for it: of those with two directions
/// that is a request, and a part of its answer.
pub(super) const fn steps_to_give_up(id: StreamId) -> u64 {
    match id.dir() {
        Dir::Bi => 50,
        Dir::Uni => 4,
    }
}
