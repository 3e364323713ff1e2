//! How much each call of the system carried, in datagrams: what offload and merging are for.

use std::sync::atomic::{AtomicU64, Ordering};

use quickset_base::Batch;

use crate::socket::WIDTH;

/// How many calls of the system carried how many datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSizes(Vec<u64>); // By the number of datagrams, less one.

impl CallSizes {
    /// Messages that a call which receives takes at most. Where there is receive offload (GRO), one holds
    /// many datagrams.
    pub const MESSAGES_RECEIVED: usize = WIDTH;

    /// Numbers of datagrams, each with how many calls carried as many, in rising order; none is zero.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().enumerate().filter(|(_, calls)| **calls > 0).map(|(n, calls)| (n as u64 + 1, *calls))
    }

    /// Adds calls of others.
    pub(crate) fn add(&mut self, others: &Self) {
        self.0.resize(self.0.len().max(others.0.len()), 0);
        self.0.iter_mut().zip(&others.0).for_each(|(own, other)| *own += other);
    }

    /// All calls.
    pub fn calls(&self) -> u64 {
        self.0.iter().sum()
    }

    /// All that they carried.
    pub fn datagrams(&self) -> u64 {
        self.iter().map(|(datagrams, calls)| datagrams * calls).sum()
    }
}

/// Counts of calls, of which the driver makes them and others ask.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) sent: CallCounts<{ Batch::MAX_SEGMENTS }>,
    pub(crate) received: CallCounts<{ WIDTH * Batch::MAX_SEGMENTS }>,
}

impl Default for Calls {
    fn default() -> Self {
        Self { sent: CallCounts::new(), received: CallCounts::new() }
    }
}

/// Counts by a number from 1 to `MOST`; what is more counts as that.
#[derive(Debug)]
pub(crate) struct CallCounts<const MOST: usize>(Box<[AtomicU64]>);

impl<const MOST: usize> CallCounts<MOST> {
    fn new() -> Self {
        Self((0..MOST).map(|_| AtomicU64::new(0)).collect())
    }

    /// A call carried so many datagrams; one that carried none is no call.
    #[inline]
    pub(crate) fn count(&self, datagrams: usize) {
        if let Some(slot) = datagrams.checked_sub(1) {
            // The driver alone adds.
            let slot = &self.0[slot.min(MOST - 1)];
            slot.store(slot.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn sizes(&self) -> CallSizes {
        let mut counts: Vec<u64> = self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        counts.truncate(counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1));
        CallSizes(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_what_they_carry() {
        let counts = CallCounts::<64>::new();
        assert_eq!(counts.sizes(), CallSizes::default());
        for datagrams in [0, 1, 1, 45, 64, 1000] {
            counts.count(datagrams);
        }
        let sizes = counts.sizes();
        assert_eq!(sizes.iter().collect::<Vec<_>>(), [(1, 2), (45, 1), (64, 2)]);
        assert_eq!((sizes.calls(), sizes.datagrams()), (5, 1 + 1 + 45 + 64 + 64));
    }
}
