use core::time::Duration;

use quickset_base::number::Unsigned as _;
use quickset_base::{Rng, Seed, Time};

use crate::exponential::exponential;
use crate::lane::hit;

/// A chain of two states in continuous time: it stays in each for exponentially distributed times, whatever
/// is sent. In the long run it is bad for `bad / (good + bad)` of the time. It begins good.
///
/// As text `get:1s,50ms,95%,0.5%`: the mean stays in the good and in the bad state, and the probabilities of
/// loss in the bad and in the good one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedGilbertElliott {
    /// Mean stay in the good state; above zero.
    pub good: Duration,
    /// Mean stay in the bad state; above zero.
    pub bad: Duration,
    /// Probability of loss in the bad state.
    pub bad_loss: f64,
    /// Probability of loss in the good state.
    pub good_loss: f64,
}

/// The state of the chain at a time.
///
/// It depends on the seed, the description and the time alone. So that this takes bounded work after any
/// pause, the chain is drawn anew (from its stationary distribution) each [`CYCLES`] mean cycles: one stay
/// out of so many is cut short.
#[derive(Clone, Debug)]
pub(crate) struct Stays {
    key: [u8; 32],
    now: Option<Stay>,
}

#[derive(Clone, Debug)]
struct Stay {
    of: TimedGilbertElliott,
    epoch: u64,
    rng: Rng,
    bad: bool,
    since: u64,
    until: u64,
}

impl Stays {
    pub(crate) fn new(mut rng: Rng) -> Self {
        let mut key = [0; 32];
        rng.fill(&mut key);
        Self { key, now: None }
    }

    /// Whether a packet at `time` is lost, given 64 random bits of its own.
    pub(crate) fn loses(&mut self, of: &TimedGilbertElliott, time: Time, bits: u64) -> bool {
        hit(bits, if self.is_bad(of, time.as_nanos()) { of.bad_loss } else { of.good_loss })
    }

    fn is_bad(&mut self, of: &TimedGilbertElliott, ns: u64) -> bool {
        let length = epoch(of);
        let fresh =
            self.now.take().filter(|stay| stay.of == *of && stay.epoch == ns / length && stay.since <= ns);
        let mut stay = fresh.unwrap_or_else(|| self.begin(of, ns / length, length));
        while stay.until <= ns {
            stay.bad = !stay.bad;
            stay.since = stay.until;
            stay.lengthen();
        }
        let bad = stay.bad;
        self.now = Some(stay);
        bad
    }

    fn begin(&self, of: &TimedGilbertElliott, epoch: u64, length: u64) -> Stay {
        let mut seed = self.key;
        for (byte, mix) in seed.iter_mut().zip(epoch.to_le_bytes()) {
            *byte ^= mix;
        }
        let (mut rng, since) = (Rng::new(Seed(seed)), epoch * length);
        let [good, bad] = [of.good, of.bad].map(|d| nanos(d).approx());
        let bad = rng.unit() < bad / (good + bad) && epoch > 0;
        let mut stay = Stay { of: *of, epoch, rng, bad, since, until: since };
        stay.lengthen();
        stay
    }
}

impl Stay {
    fn lengthen(&mut self) {
        let mean = nanos(if self.bad { self.of.bad } else { self.of.good });
        let length = exponential(mean, || self.rng.next()).max(1);
        self.until = self.until.saturating_add(length);
        // Nothing is asked behind the end of time.
        if self.until == u64::MAX {
            self.since = self.since.min(u64::MAX - 1);
        }
    }
}

/// How long a chain goes on without being drawn anew, in nanoseconds.
fn epoch(of: &TimedGilbertElliott) -> u64 {
    nanos(of.good).saturating_add(nanos(of.bad)).saturating_mul(CYCLES)
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX).max(1)
}

const CYCLES: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: TimedGilbertElliott = TimedGilbertElliott {
        good: Duration::from_micros(300),
        bad: Duration::from_micros(100),
        bad_loss: 1.0,
        good_loss: 0.0,
    };

    fn bad(stays: &mut Stays, ns: u64) -> bool {
        stays.loses(&CHAIN, Time::from_nanos(ns), 0)
    }

    #[test]
    fn stays_have_their_means_and_are_exponential() {
        let mut stays = Stays::new(Rng::new(3));
        assert!(!bad(&mut stays, 0));
        // Every 10 us, into the second epoch.
        let mut runs = [vec![0u32], vec![]];
        let mut last = false;
        for n in 0..4_000_000u64 {
            let state = bad(&mut stays, n * 10_000);
            if state != last {
                runs[usize::from(state)].push(0);
                last = state;
            }
            *runs[usize::from(state)].last_mut().unwrap() += 1;
        }
        for (runs, mean, other) in [(&runs[0], 30.0, 10.0), (&runs[1], 10.0, 30.0f64)] {
            let n = runs.len() as f64;
            let got = runs.iter().map(|run| f64::from(*run)).sum::<f64>() / n;
            // Looked at every 10 us, the chain is one in discrete time, with this probability to turn:
            let (a, b) = (1.0 / mean, 1.0 / other);
            let turn = a / (a + b) * (1.0 - (-(a + b)).exp());
            assert!((got - 1.0 / turn).abs() < 5.0 / turn / n.sqrt(), "{got} against {}", 1.0 / turn);
            let longer = runs.iter().filter(|run| f64::from(**run) > mean).count() as f64 / n;
            let expected = (1.0 - turn).powi(mean as i32);
            assert!((longer - expected).abs() < 5.0 / n.sqrt() * 0.5, "{longer} against {expected}");
        }
    }

    #[test]
    fn the_state_depends_on_the_time_alone() {
        let mut all = Stays::new(Rng::new(3));
        let states: Vec<bool> = (0..200_000u64).map(|n| bad(&mut all, n * 500_000)).collect();
        // Asked now and then, by another that was at work with another chain before.
        let mut some = Stays::new(Rng::new(3));
        some.loses(&TimedGilbertElliott { bad: Duration::from_secs(1), ..CHAIN }, Time::from_nanos(7), 0);
        for n in (0..200_000).step_by(977) {
            assert_eq!(bad(&mut some, n * 500_000), states[n as usize], "{n}");
        }
        assert_eq!(bad(&mut some, 500_000), states[1], "even backwards");
        // Bounded work at the end of time.
        bad(&mut some, u64::MAX - 1);
    }
}
