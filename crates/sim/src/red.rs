use core::time::Duration;

use quickset_base::Rng;
use quickset_base::number::Unsigned as _;

use crate::lane::{RandomLane, hit};

/// Random early detection (Floyd and Jacobson 1993), by bytes, in its gentle form: between `min` and `max`
/// of the mean queue the probability to be dropped rises from zero to `share`, from there to twice `max` up
/// to one. The mean moves by 1/512 of the difference with each arrival; drops are spread evenly, as they
/// describe. As text `red:30kB,90kB,10%,9MB`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// The mean queue in bytes that may stand.
    pub min: u64,
    /// The mean queue in bytes at which the share is dropped; above `min`.
    pub max: u64,
    /// The share.
    pub share: f64,
    /// The most bytes that may wait; beyond, arriving packets are dropped.
    pub limit: u64,
    /// True when packets that can be marked (ECT) are marked CE in place of being dropped, as long as the
    /// mean is below twice `max`.
    pub ecn: bool,
}

/// What happens to an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedVerdict {
    Pass,
    /// To be marked if that is possible, else dropped.
    Notify,
    Drop,
}

/// The state of RED between two packets.
#[derive(Clone, Debug)]
pub(crate) struct RedState {
    lane: RandomLane<1>,
    mean: f64,
    // Packets since the last one that was notified.
    since: u64,
}

impl RedState {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { lane: RandomLane::new(rng), mean: 0.0, since: 0 }
    }

    /// Decides about packet `ordinal`, which finds `queued` bytes, or a link of `bps` that has been idle for
    /// so long.
    pub(crate) fn judge(
        &mut self,
        red: &Red,
        ordinal: u64,
        queued: u64,
        idle: Duration,
        bps: Option<u64>,
    ) -> RedVerdict {
        if queued > 0 {
            self.mean += WEIGHT * (queued.approx() - self.mean);
        } else {
            // As if typical packets had found it empty, one after the other.
            let packets = idle.as_nanos().saturating_mul(u128::from(bps.unwrap_or(u64::MAX))) / TYPICAL;
            self.mean *= power(1.0 - WEIGHT, packets);
        }
        let (min, max) = (red.min.approx(), red.max.approx());
        if self.mean < min {
            self.since = 0;
            return RedVerdict::Pass;
        }
        if self.mean >= 2.0 * max {
            self.since = 0;
            return RedVerdict::Drop;
        }
        let share = if self.mean < max {
            red.share * (self.mean - min) / (max - min)
        } else {
            red.share + (1.0 - red.share) * (self.mean - max) / max
        };
        let spread = share / (1.0 - self.since.approx() * share).max(share);
        self.since += 1;
        if !hit(self.lane.at(ordinal)[0], spread) {
            return RedVerdict::Pass;
        }
        self.since = 0;
        if red.ecn { RedVerdict::Notify } else { RedVerdict::Drop }
    }
}

/// `base` to the power of `n`, by products only: the same on every machine.
fn power(mut base: f64, mut n: u128) -> f64 {
    let mut power = 1.0;
    while n > 0 && power > 0.0 {
        if n % 2 == 1 {
            power *= base;
        }
        base *= base;
        n /= 2;
    }
    power
}

const WEIGHT: f64 = 1.0 / 512.0;
/// The work that a typical packet of 1500 bytes is, in bits times nanoseconds.
const TYPICAL: u128 = 12_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Red = Red { min: 10_000, max: 20_000, share: 0.1, limit: 1_000_000, ecn: false };

    /// The share of drops with a queue that stands at `queued`.
    fn drops(queued: u64) -> f64 {
        let mut mean = RedState::new(Rng::new(1));
        let mut judge = |n| mean.judge(&RED, n, queued, Duration::ZERO, None) == RedVerdict::Drop;
        // 10,000 arrivals bring the mean to within e^-19 of the queue.
        (0..10_000).for_each(|n| {
            judge(n);
        });
        (10_000..110_000).filter(|n| judge(*n)).count() as f64 / 1e5
    }

    #[test]
    fn more_is_dropped_where_the_queue_is_longer() {
        assert!(drops(9_999) < 1e-9);
        // Between drops there are from 1 to 1/p packets, each number as likely: 2p / (1 + p) of all.
        for (queued, p) in [(15_000, 0.05), (19_999, 0.1)] {
            let share: f64 = 2.0 * p / (1.0 + p);
            // The gaps' standard deviation is 0.29/p of their mean 0.5/p: 4 of the standard error.
            let sigma = share * 0.58 / (1e5f64 * share).sqrt();
            assert!((drops(queued) - share).abs() < 4.0 * sigma + 1e-4, "{queued}: {}", drops(queued));
        }
        assert!(drops(30_000) > 0.5);
        assert!(drops(40_001) > 0.99999);
    }

    #[test]
    fn a_pause_makes_it_forget() {
        let mut mean = RedState::new(Rng::new(1));
        for n in 0..10_000 {
            mean.judge(&RED, n, 15_000, Duration::ZERO, None);
        }
        // 512 packets of 1500 bytes at 12 Mbit/s last 512 ms: the mean falls to 1/e.
        mean.judge(&RED, 10_000, 0, Duration::from_millis(512), Some(12_000_000));
        assert!((mean.mean / 15_000.0 - 0.3675).abs() < 0.001, "{}", mean.mean);
        mean.judge(&RED, 10_001, 0, Duration::from_secs(1 << 40), None);
        assert!(mean.mean < 1e-9);
    }
}
