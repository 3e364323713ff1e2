use std::collections::VecDeque;

use quickset_base::{Duration, Time};

use crate::ack::RangeSet;

/// Packets declared lost not long ago, in case they are acknowledged after all.
#[derive(Debug, Default)]
pub(super) struct Late {
    // By number.
    lost: VecDeque<Lost>,
}

/// A packet that was declared lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) number: u64,
    pub(super) declared: Time,
    /// How much larger the largest acknowledged number was then.
    pub(super) behind: u64,
    /// Whether the time threshold condemned it rather than the packet threshold.
    pub(super) by_time: bool,
    /// Whether it was in flight, so that congestion control heard of the loss.
    pub(super) in_flight: bool,
}

impl Late {
    /// Gives back what it has no use for.
    pub(super) fn rest(&mut self) {
        self.lost.shrink_to_fit();
    }

    /// A packet was declared lost; numbers come in order.
    pub(super) fn push(&mut self, lost: Lost) {
        if self.lost.len() == KEPT {
            self.lost.pop_front();
        }
        self.lost.push_back(lost);
    }

    /// Forgets what was declared lost more than `age` ago.
    pub(super) fn expire(&mut self, now: Time, age: Duration) {
        while self.lost.front().is_some_and(|lost| now.since(lost.declared) > age) {
            self.lost.pop_front();
        }
    }

    /// The least number it may be worth to look for.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        self.lost.front().map(|lost| lost.number)
    }

    /// Takes out what is acknowledged by `ranges`.
    pub(super) fn take(&mut self, ranges: &RangeSet, mut found: impl FnMut(&Lost)) {
        self.lost.retain(|lost| {
            let acked = ranges.contains(lost.number);
            if acked {
                found(lost);
            }
            !acked
        });
    }

    /// Whether the time threshold condemned a packet; `None` when it is not remembered.
    #[cfg(feature = "qlog")]
    pub(super) fn by_time(&self, number: u64) -> Option<bool> {
        let at = self.lost.binary_search_by_key(&number, |lost| lost.number).ok()?;
        Some(self.lost[at].by_time)
    }

    pub(super) fn clear(&mut self) {
        self.lost.clear();
    }
}

/// Packets remembered at most: what comes later than so many losses is not worth knowing.
const KEPT: usize = 128;

impl super::Recovery {
    /// Packets declared lost, so far, that were acknowledged after all.
    pub(crate) fn spurious_losses(&self) -> u64 {
        self.spurious
    }

    /// A packet with so many behind it that are acknowledged is lost (RFC 9002 §6.1.1): more where some came
    /// late.
    pub(crate) fn packet_threshold(&self) -> u64 {
        self.packet_threshold
    }
}
