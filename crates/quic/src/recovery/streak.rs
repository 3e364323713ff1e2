use quickset_base::{Duration, Time};

use super::Recovery;
use super::rtt::GRANULARITY;

/// Packets lost one after the other with none acknowledged in between: long enough, they establish
/// persistent congestion (RFC 9002 §7.6.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streak {
    // When the first and the last of them left; both elicit.
    ends: Option<(Time, Time)>,
    last_number: u64,
    // The least number above the last one that was acknowledged.
    broken_at: Option<u64>,
    // When the newest acknowledged packet of another space left.
    elsewhere: Option<Time>,
}

impl Streak {
    /// A packet of the same space was acknowledged.
    #[inline]
    pub(super) fn on_acked(&mut self, number: u64) {
        if self.ends.is_none() {
            return;
        }
        if number < self.last_number {
            // It was not lost after all.
            self.reset();
        } else if self.broken_at.is_none_or(|at| number < at) {
            self.broken_at = Some(number);
        }
    }

    /// A packet of another space, sent then, was acknowledged: perhaps before it is known what was lost
    /// around it.
    #[inline]
    pub(super) fn on_acked_elsewhere(&mut self, sent: Time) {
        self.elsewhere = self.elsewhere.max(Some(sent));
    }

    /// A packet that elicits was lost, in the order of numbers. Returns how long the streak is now.
    pub(super) fn on_lost(&mut self, number: u64, sent: Time) -> Duration {
        let broken = self.broken_at.is_some_and(|at| at < number);
        let first = match self.ends {
            Some((first, _)) if !broken && self.elsewhere.is_none_or(|at| at < first) => first,
            _ => sent,
        };
        self.ends = Some((first, sent));
        self.last_number = number;
        if broken {
            self.broken_at = None;
        }
        sent.since(first)
    }

    /// The streak had its effect.
    pub(super) fn reset(&mut self) {
        *self = Self { elsewhere: self.elsewhere, ..Self::default() };
    }
}

impl Recovery {
    /// RFC 9002 §7.6.1.
    pub(super) fn persistent_period(&self) -> Duration {
        3 * (self.rtt.smoothed() + (4 * self.rtt.var()).max(GRANULARITY) + self.max_ack_delay)
    }
}
