use quickset_base::Duration;
use quickset_wire::frame::{Ack, EcnCounts};

use super::RangeSet;

/// All ACK frames of one space in one received batch, so that recovery acts once, after everything else.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    ranges: RangeSet,
    // Of the frame that named the largest number.
    delay: Duration,
    ecn: Option<EcnCounts>,
}

impl Merged {
    /// Adds a frame; `delay` is its ACK Delay in time (RFC 9000 §19.3).
    pub(crate) fn add(&mut self, ack: &Ack<'_>, delay: Duration) {
        if self.largest().is_none_or(|largest| ack.largest > largest) {
            self.delay = delay;
        }
        for range in ack.ranges() {
            // Those that follow are older still: each would be looked for through all that there are, and
            // dropped.
            let is_full = self.ranges.len() >= MAX_RANGES;
            if is_full && self.ranges.oldest().is_some_and(|oldest| range.end() + 1 < *oldest.start()) {
                break;
            }
            self.ranges.insert_range(range);
            if self.ranges.len() > MAX_RANGES {
                self.ranges.pop_oldest();
            }
        }
        if let Some(new) = ack.ecn {
            let old = self.ecn.unwrap_or_default();
            // RFC 9000 §13.4.2.1: counts never fall; of frames that overtook each other the largest hold.
            self.ecn = Some(EcnCounts {
                ect0: old.ect0.max(new.ect0),
                ect1: old.ect1.max(new.ect1),
                ce: old.ce.max(new.ce),
            });
        }
    }

    /// What was collected, if anything; [`restore`](Self::restore) gives its memory back.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Self> {
        if self.ranges.is_empty() { None } else { Some(std::mem::take(self)) }
    }

    /// Starts the next batch with the memory of the last.
    pub(crate) fn restore(&mut self, mut used: Self) {
        used.ranges.clear();
        used.delay = Duration::ZERO;
        used.ecn = None;
        *self = used;
    }

    /// Gives back the memory of what is gone.
    pub(crate) fn rest(&mut self) {
        self.ranges.rest();
    }

    /// What was acknowledged, newest first.
    #[inline]
    pub(crate) fn ranges(&self) -> &RangeSet {
        &self.ranges
    }

    /// The largest number acknowledged.
    #[inline]
    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.newest().map(|newest| *newest.end())
    }

    /// How long the peer says it kept the largest number to itself.
    #[inline]
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// The marks counted by the peer, if it tells.
    #[inline]
    pub(crate) fn ecn(&self) -> Option<EcnCounts> {
        self.ecn
    }
}

/// Ranges at most, so that a peer with absurd frames costs bounded time. No honest peer has so many gaps
/// in flight, and what is dropped here the next frame tells again.
const MAX_RANGES: usize = 1024;
