//! Waiting awake for what comes soon, as KVM's halt polling does.
//!
//! To wake a thread that sleeps takes microseconds, of whoever wakes it, too, and tens of them in a virtual
//! machine: longer than a near peer takes to answer. So a driver that has nothing to do polls on where it has
//! just seen that it does not wait for long. All other tasks have their turns meanwhile.

use std::time::Duration;

use quickset_base::Time;

/// Whether to poll on, by how long the last waits took.
#[derive(Debug)]
pub(super) struct BusyPolling {
    /// A wait is short up to this, and at most so long is one awake. Zero: never.
    longest: Duration,
    /// Since when there is nothing to do.
    since: Option<Time>,
    /// The next wait is expected to be short.
    is_promising: bool,
    /// Short waits to sleep through until that is expected again.
    skips: u32,
    /// How many those will be after the next wait that is not as short as expected.
    penalty: u32,
    /// Waits in a row that were as short as expected.
    streak: u32,
}

impl BusyPolling {
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, since: None, is_promising: false, skips: 0, penalty: 1, streak: 0 }
    }

    /// There is nothing to do. Whether to poll again instead of sleeping.
    pub(super) fn goes_on(&mut self, now: Time) -> bool {
        if self.longest.is_zero() {
            return false;
        }
        let since = *self.since.get_or_insert(now);
        if self.is_promising && now.since(since) >= self.longest {
            self.is_promising = false;
            // It may be that nothing can come while this thread has the processor, but for now and then.
            (self.skips, self.streak) = (self.penalty, 0);
            self.penalty = (self.penalty * 2).min(MOST_SKIPS);
        }
        self.is_promising
    }

    /// There is something to do.
    #[inline]
    pub(super) fn ends(&mut self, now: impl FnOnce() -> Time) {
        let Some(since) = self.since.take() else { return };
        let is_short = now().since(since) < self.longest;
        if is_short && self.is_promising {
            self.streak += 1;
            if self.streak == FORGIVEN_BY {
                (self.streak, self.penalty) = (0, (self.penalty / 2).max(1));
            }
        } else if is_short && self.skips > 0 {
            self.skips -= 1;
        } else {
            self.is_promising = is_short;
        }
    }
}

/// Waits in a row for which half of the penalty is forgotten.
const FORGIVEN_BY: u32 = 32;

/// Where waiting awake is always in vain it takes less than 0.5 % of the time.
const MOST_SKIPS: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_micros(50);

    /// A driver that waits for so many microseconds, and looks every five while it is awake. Returns how long
    /// it was.
    fn wait(polling: &mut BusyPolling, now: &mut Time, micros: u64) -> u64 {
        let (begun, end) = (*now, *now + Duration::from_micros(micros));
        while *now < end && polling.goes_on(*now) {
            *now += Duration::from_micros(5);
        }
        let awake = now.since(begun);
        *now = end;
        polling.ends(|| end);
        u64::try_from(awake.as_micros()).unwrap()
    }

    fn waits(micros: &[u64]) -> Vec<u64> {
        let (mut polling, mut now) = (BusyPolling::new(LONGEST), Time::ZERO);
        micros.iter().map(|&micros| wait(&mut polling, &mut now, micros)).collect()
    }

    #[test]
    fn waits_are_awake_while_they_are_short() {
        assert_eq!(waits(&[20, 30, 45, 10]), [0, 30, 45, 10]);
        assert_eq!(waits(&[1000, 1000, 20, 20]), [0, 0, 0, 20]);
        // One that goes on for longer than it was expected to, and is as the one before it.
        assert_eq!(waits(&[20, 1000, 20, 20, 20]), [0, 50, 0, 0, 20]);
        assert_eq!(waits(&[49, 50, 50, 49]), [0, 50, 0, 0]);
    }

    #[test]
    fn where_it_is_always_in_vain_it_is_rare() {
        let (mut polling, mut now) = (BusyPolling::new(LONGEST), Time::ZERO);
        let mut awake = 0;
        for _ in 0..10_000 {
            // Short while the thread sleeps, and as long as it is awake otherwise.
            let was = if polling.is_promising { wait(&mut polling, &mut now, 70) } else { 0 };
            awake += was;
            wait(&mut polling, &mut now, 20);
        }
        let all = now.since(Time::ZERO).as_micros();
        assert!(u128::from(awake) * 200 < all, "{awake} of {all} microseconds");
        // And is found out when that changes.
        let mut woken = 0;
        while wait(&mut polling, &mut now, 20) == 0 {
            woken += 1;
        }
        assert!(woken <= MOST_SKIPS + 1, "{woken}");
        for _ in 0..FORGIVEN_BY * 11 {
            assert_eq!(wait(&mut polling, &mut now, 20), 20);
        }
        assert_eq!(polling.penalty, 1);
    }

    /// Two on one processor: the other one may have had its turn before this one waits.
    #[test]
    fn a_few_good_waits_between_bad_ones_change_nothing() {
        let (mut polling, mut now) = (BusyPolling::new(LONGEST), Time::ZERO);
        let mut vain = 0;
        for number in 0..100_000 {
            if polling.is_promising && number % 7 == 0 {
                wait(&mut polling, &mut now, 70);
                vain += 1;
            } else {
                wait(&mut polling, &mut now, 20);
            }
        }
        assert!(vain < 120, "{vain}");
    }

    #[test]
    fn whoever_is_told_to_sleep_sleeps() {
        let (mut polling, mut now) = (BusyPolling::new(Duration::ZERO), Time::ZERO);
        for _ in 0..100 {
            assert_eq!(wait(&mut polling, &mut now, 0), 0);
            assert_eq!(wait(&mut polling, &mut now, 1), 0);
        }
    }
}
