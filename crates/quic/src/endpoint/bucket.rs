use quickset_base::{Duration, Time};

/// How often something may happen: so many times a second, and as many at once.
#[derive(Debug)]
pub(super) struct Bucket {
    per_second: u64,
    /// What was saved, in nanoseconds of a second times the rate; once costs a second's worth.
    credit: u128,
    updated: Time,
}

impl Bucket {
    pub(super) fn new(per_second: u32) -> Self {
        let per_second = u64::from(per_second);
        Self { per_second, credit: u128::from(per_second) * SECOND, updated: Time::ZERO }
    }

    /// Whether it may happen.
    pub(super) fn has(&self, now: Time) -> bool {
        self.saved(now) >= SECOND
    }

    /// Takes leave for once.
    pub(super) fn take(&mut self, now: Time) -> bool {
        let saved = self.saved(now);
        self.updated = self.updated.max(now);
        let rest = saved.checked_sub(SECOND);
        self.credit = rest.unwrap_or(saved);
        rest.is_some()
    }

    fn saved(&self, now: Time) -> u128 {
        let earned = now.since(self.updated).as_nanos() * u128::from(self.per_second);
        (self.credit + earned).min(u128::from(self.per_second) * SECOND)
    }
}

const SECOND: u128 = Duration::from_secs(1).as_nanos();
