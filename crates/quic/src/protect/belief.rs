//! What is believed of the losses of a path: how often runs of losses begin, and how long they are.
//!
//! The model: whether a packet is lost is Gilbert's chain. After one that arrived a run of losses begins with
//! probability p, after one that was lost it ends with probability r. The p of a path stays as it is for ten
//! minutes and a million packets on average, whichever comes first; then it is drawn anew, from [`PRIOR`]. So
//! p is hidden behind a chain of its own, of which the forward filter (Rabiner, Proc. IEEE 77, 1989, §III.A)
//! gives the exact distribution after each packet, over a grid of rates in which each is √2 of the one below.
//! Of r the mean of a few dozen runs is kept.
//!
//! Nothing else is needed for what one wants of it. Two losses close together are believed at once, since the
//! way there over a new p is short beside what they would be under the old one. A rate of one in a thousand
//! is remembered through a thousand packets without loss, at five packets a second or at 50,000, because
//! these do not contradict it. And without any loss the distribution moves down as fast as so many packets
//! allow: n packets leave little above 3/n.
//!
//! What the prior costs: of a path of which nothing is known 0.2 % of loss are assumed ([`PRIOR`] has that
//! mean), and updates of a hundred packets have a repair symbol or two each until a few thousand packets have
//! shown that nothing is lost.

use quickset_base::Duration;
use quickset_base::number::{Float as _, Unsigned as _};

/// What is believed of the losses of a path: a distribution, not a number. Repair for few packets has to bear
/// what may be, where a mean would say too little, and none is needed for what can no more be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// Of each rate of the grid; they sum to 1.
    weights: [f64; RATES],
    /// Runs of losses, and losses in them, of late.
    bursts: LossBursts,
}

/// How losses followed one another, of late: a few dozen runs, however long ago.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LossBursts {
    runs: u64,
    lost: u64,
}

impl Belief {
    /// Of a path of which nothing is known.
    pub(crate) fn new() -> Self {
        Self { weights: PRIOR, bursts: LossBursts::default() }
    }

    /// Of a path of which p and r are known, for those who test policies: `to_bad` between the rates of the
    /// grid is that mean.
    pub fn known(to_bad: f64, to_good: f64) -> Self {
        let mut weights = [0.0; RATES];
        let to_bad = to_bad.clamp(RATE[RATES - 1], RATE[0]);
        let above = RATE.iter().rposition(|rate| *rate >= to_bad).unwrap_or(0).min(RATES - 2);
        let (high, low) = (RATE[above], RATE[above + 1]);
        weights[above] = (to_bad - low) / (high - low);
        weights[above + 1] = 1.0 - weights[above];
        // Weighs more than the guess.
        let lost = 1_000_000u64;
        let runs = (to_good.clamp(0.0, 1.0) * (lost.approx() + PRIOR_LOSSES) - PRIOR_LOSSES).round().max(0.0);
        Self { weights, bursts: LossBursts { runs: runs.whole(), lost } }
    }

    /// `n` packets arrived that followed ones that had.
    pub(super) fn arrived(&mut self, n: u64) {
        for (weight, rate) in self.weights.iter_mut().zip(RATE) {
            *weight *= power(1.0 - rate, n);
        }
        self.normalise();
    }

    /// A run of losses has begun, of one packet so far.
    pub(super) fn lost(&mut self) {
        for (weight, rate) in self.weights.iter_mut().zip(RATE) {
            *weight *= rate;
        }
        self.normalise();
        self.bursts.begin();
    }

    /// The run is longer by so many.
    pub(super) fn lost_again(&mut self, n: u64) {
        self.bursts.lost += n;
    }

    /// One of the last run of several was none.
    pub(super) fn shorten(&mut self) {
        self.bursts.lost -= u64::from(self.bursts.lost > self.bursts.runs);
    }

    /// So much time went by, and so many packets, within which p may have been drawn anew.
    pub(super) fn age(&mut self, time: Duration, packets: u64) {
        let lives = time.as_secs_f64() / LIFETIME.as_secs_f64() + packets.approx() / LIFETIME_PACKETS;
        // 1 - e^-x, nearly so below a fifth, by nothing that differs between machines.
        let fresh = lives / (lives + 1.0);
        for (weight, prior) in self.weights.iter_mut().zip(PRIOR) {
            *weight += fresh * (prior - *weight);
        }
    }

    /// p: how often a loss follows an arrival, on average.
    pub fn to_bad(&self) -> f64 {
        self.mean(|rate| rate)
    }

    /// r: how often an arrival follows a loss. 1 until a run of several losses was seen.
    pub fn to_good(&self) -> f64 {
        let LossBursts { runs, lost } = self.bursts;
        (runs.approx() + PRIOR_LOSSES) / (lost.approx() + PRIOR_LOSSES)
    }

    /// Share of packets that are lost, on average.
    pub fn rate(&self) -> f64 {
        let to_good = self.to_good();
        self.mean(|rate| share_lost(rate, to_good))
    }

    /// Each p that matters: its place in the grid, itself, and how likely it is.
    pub(super) fn rates(&self) -> impl Iterator<Item = (usize, f64, f64)> + '_ {
        let all = RATE.iter().zip(self.weights).enumerate().map(|(at, (rate, weight))| (at, *rate, weight));
        all.filter(|(_, rate, weight)| rate * weight > NEGLIGIBLE)
    }

    fn mean(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.weights.iter().zip(RATE).map(|(weight, rate)| weight * of(rate)).sum()
    }

    fn normalise(&mut self) {
        let sum: f64 = self.weights.iter().sum();
        if sum > 0.0 && sum.is_finite() {
            self.weights.iter_mut().for_each(|weight| *weight = (*weight / sum).max(LEAST));
        } else {
            self.weights = PRIOR;
        }
    }
}

impl LossBursts {
    fn begin(&mut self) {
        if self.runs == MAX_BURSTS {
            *self = Self { runs: self.runs / 2, lost: self.lost / 2 };
        }
        self.runs += 1;
        self.lost += 1;
    }
}

/// Share of packets that a chain loses. A recovery as likely as in independent loss, or more, is taken for
/// that: losses that shun each other are a matter of few samples.
pub(super) fn share_lost(to_bad: f64, to_good: f64) -> f64 {
    if to_good >= 1.0 - to_bad { to_bad } else { to_bad / (to_bad + to_good) }
}

/// `x` to the power of `n`, by products alone: the same on each machine.
fn power(mut x: f64, mut n: u64) -> f64 {
    let mut product = 1.0;
    while n > 0 {
        if n & 1 == 1 {
            product *= x;
        }
        (x, n) = (x * x, n >> 1);
    }
    product
}

/// The grid: one in two, each √2 of the one below down to one in 32,768, and one in 16 million, which is
/// none.
const RATE: [f64; RATES] = {
    let mut rates = [0.5; RATES];
    let mut at = 1;
    while at < RATES - 1 {
        rates[at] = if at == 1 { 0.5 / std::f64::consts::SQRT_2 } else { rates[at - 2] / 2.0 };
        at += 1;
    }
    rates[RATES - 1] = 1.0 / 16_777_216.0;
    rates
};
const RATES: usize = 30;

/// What is assumed of any path: that it loses nothing as likely as not; and if it does, each order of
/// magnitude is as likely up to half a percent, and above in inverse proportion. The mean is 0.2 %.
const PRIOR: [f64; RATES] = {
    let (mut prior, mut sum) = ([0.5; RATES], 0.0);
    let mut at = 0;
    while at < RATES - 1 {
        prior[at] = 1.0 / (1.0 + RATE[at] / 0.005);
        sum += prior[at];
        at += 1;
    }
    at = 0;
    while at < RATES - 1 {
        prior[at] *= 0.5 / sum;
        at += 1;
    }
    prior
};

/// For so long p stays as it is, on average: minutes in which a path that loses a packet in a thousand shows
/// it at five packets a second.
const LIFETIME: Duration = Duration::from_secs(600);
/// And for so many packets: the first losses of a path that was good for that many are not taken for chance.
const LIFETIME_PACKETS: f64 = 1_000_000.0;

/// Smaller ones would be nothing to a float.
const LEAST: f64 = 1e-200;
/// What so little of all packets is worth.
const NEGLIGIBLE: f64 = 1e-9;

/// Weight of the guess that losses do not follow one another: under independent loss it is right, and a
/// single burst of eight outweighs it.
const PRIOR_LOSSES: f64 = 2.0;
/// Runs of losses that are remembered at most.
const MAX_BURSTS: u64 = 64;

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "what was never touched")]
mod tests {
    use quickset_base::Rng;

    use super::*;

    #[test]
    fn the_prior_is_what_it_is_said_to_be() {
        let prior = Belief::new();
        assert!((prior.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((prior.rate() - 0.002).abs() < 0.0003, "{}", prior.rate());
        assert_eq!(prior.to_good(), 1.0);
        for pair in RATE.windows(2).take(RATES - 2) {
            assert!((pair[0] / pair[1] - std::f64::consts::SQRT_2).abs() < 1e-12);
        }
    }

    /// Over all the ways in which p may have been drawn anew: a sum over 2^n histories instead of n steps.
    #[test]
    fn the_filter_is_the_sum_over_all_histories() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            // Whether a run of losses began behind so many arrivals, and how much time went by before.
            let steps: Vec<(u64, bool, Duration)> = (0..7)
                .map(|_| (rng.below(300), rng.chance(0.5), Duration::from_secs(rng.below(400))))
                .collect();
            let mut belief = Belief::new();
            for (arrived, lost, time) in &steps {
                belief.age(*time, *arrived);
                belief.arrived(*arrived);
                if *lost {
                    belief.lost();
                }
            }
            let mut wanted = [0.0; RATES];
            for history in 0..1u32 << steps.len() {
                // The chances of each p since it was drawn last, times all that was before.
                let mut weights = PRIOR;
                for (at, (arrived, lost, time)) in steps.iter().enumerate() {
                    let lives = time.as_secs_f64() / 600.0 + *arrived as f64 / 1_000_000.0;
                    let fresh = lives / (lives + 1.0);
                    weights = match history >> at & 1 {
                        1 => PRIOR.map(|prior| weights.iter().sum::<f64>() * fresh * prior),
                        _ => weights.map(|weight| weight * (1.0 - fresh)),
                    };
                    let began = |rate: f64| if *lost { rate } else { 1.0 };
                    let seen = RATE.map(|rate| (1.0 - rate).powi(*arrived as i32) * began(rate));
                    weights.iter_mut().zip(seen).for_each(|(weight, seen)| *weight *= seen);
                }
                wanted.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
            }
            let all: f64 = wanted.iter().sum();
            for (weight, sum) in belief.weights.iter().zip(wanted) {
                assert!((weight - sum / all).abs() < 1e-9, "seed {seed}: {weight} {}", sum / all);
            }
        }
    }

    #[test]
    fn what_is_known_has_that_mean() {
        for (to_bad, to_good) in [(0.005, 1.0), (0.3, 0.25), (0.000_1, 0.5), (0.5, 1.0)] {
            let known = Belief::known(to_bad, to_good);
            assert!((known.to_bad() - to_bad).abs() < 1e-12 && (known.to_good() - to_good).abs() < 1e-5);
        }
        assert!(Belief::known(0.0, 1.0).rate() < 1e-7);
    }

    #[test]
    fn nothing_that_is_seen_leaves_no_numbers() {
        let mut belief = Belief::new();
        for _ in 0..2000 {
            belief.lost();
        }
        belief.arrived(u64::MAX);
        belief.age(Duration::MAX, u64::MAX);
        (0..2000).for_each(|_| belief.shorten());
        assert!(belief.weights.iter().all(|weight| (0.0..=1.0 + 1e-9).contains(weight)), "{belief:?}");
        assert!(belief.rate().is_finite() && belief.to_good() > 0.0);
    }
}
