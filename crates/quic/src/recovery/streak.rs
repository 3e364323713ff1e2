use quickset_base::{Duration, Time};

/// Packets lost one after the other with none acknowledged in between: long enough, they establish
/// persistent congestion (RFC 9002 §7.6.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streak {
    // When the first and the last of them left; both elicit.
    ends: Option<(Time, Time)>,
    last_number: u64,
    // The least number above the last one that was acknowledged.
    broken_at: Option<u64>,
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
            *self = Self::default();
        } else if self.broken_at.is_none_or(|at| number < at) {
            self.broken_at = Some(number);
        }
    }

    /// A packet of another space, sent then, was acknowledged.
    #[inline]
    pub(super) fn on_acked_elsewhere(&mut self, sent: Time) {
        if self.ends.is_some_and(|(first, _)| sent >= first) {
            *self = Self::default();
        }
    }

    /// A packet that elicits was lost, in the order of numbers. Returns how long the streak is now.
    pub(super) fn on_lost(&mut self, number: u64, sent: Time) -> Duration {
        let broken = self.broken_at.is_some_and(|at| at < number);
        let first = match self.ends {
            Some((first, _)) if !broken => first,
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
        *self = Self::default();
    }
}
