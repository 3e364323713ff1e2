use std::collections::BTreeMap;

use quickset_base::number::{Unsigned as _, index};

use super::block::parts;
use crate::protect::belief::{Belief, share_lost};

/// How many repair symbols are worth their price.
///
/// Of k symbols that are waited for together r repair symbols save all, unless more than r of k + r packets
/// are lost. That happens with P(r), the mean over what is [believed](Belief) of the path, and then what they
/// are waited for is late, by a resend. So r is that with the least
///
/// > miss · P(r) + price · r
///
/// where being late costs 1. Assumptions: repair symbols fare like packets of their own, right behind the k
/// (Gilbert's chain goes on from one to the next); any k of the k + r suffice, which holds for Reed-Solomon,
/// and for random combinations but for one in 255; what is late is late by the same, whatever was lost.
/// Blocks that are cut into interleaved parts see each so many'th step of the chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizing {
    /// By symbols and parts.
    tails: BTreeMap<(u64, u64), Tails>,
    /// Of which recovery they are.
    to_good: u64,
    answer: Option<(Question, u32)>,
}

/// What is at stake when symbols are lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stake {
    /// What it costs if they are not saved, of what it costs that one thing is late.
    pub(super) miss: f64,
    /// What a repair symbol costs.
    pub(super) price: f64,
    /// Repair symbols for so many symbols at most, but one.
    pub(super) per: u64,
    /// Whether they are a block of a code that cuts it into parts.
    pub(super) cut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Question {
    k: u64,
    stake: Stake,
    rate: u64,
    to_good: u64,
}

/// P(more than r losses among k + r) for each rate of the grid, as far as asked for.
type Tails = BTreeMap<usize, Vec<f64>>;

impl Sizing {
    /// Repair symbols for `k`.
    pub(super) fn repairs(&mut self, belief: &Belief, k: u64, stake: Stake) -> u32 {
        if k == 0 {
            return 0;
        }
        let (rate, to_good) = (belief.to_bad().to_bits(), below(belief.to_good()).to_bits());
        let question = Question { k, stake, rate, to_good };
        if let Some((asked, answer)) = self.answer {
            if asked == question {
                return answer;
            }
        }
        let parts = if stake.cut { parts(k, 1) } else { 1 };
        let part = k.div_ceil(parts);
        let most = (k / stake.per).max(1).div_ceil(parts).max(1);
        // Each part is a place where all may fail, and has so many repair symbols: that is the same for all.
        let repairs = parts * self.best(belief, (part, parts), most, stake);
        let repairs = u32::try_from(repairs).unwrap_or(u32::MAX);
        self.answer = Some((question, repairs));
        repairs
    }

    /// How likely it is that one of `k` symbols at least is lost.
    pub(super) fn risk(&mut self, belief: &Belief, k: u64) -> f64 {
        self.fails(belief, (k, 1), 0)
    }

    fn best(&mut self, belief: &Belief, block: (u64, u64), most: u64, stake: Stake) -> u64 {
        let (mut best, mut least) = (0, f64::INFINITY);
        for r in 0..=most {
            let failed = self.fails(belief, block, r);
            let cost = stake.miss * failed + stake.price * r.approx();
            if cost < least {
                (best, least) = (r, cost);
            }
            // Not even a symbol that saves all would be worth it.
            if stake.miss * failed <= stake.price {
                break;
            }
        }
        best
    }

    /// P(r), for a part of so many.
    fn fails(&mut self, belief: &Belief, block: (u64, u64), r: u64) -> f64 {
        let to_good = below(belief.to_good());
        if self.to_good != to_good.to_bits() || self.tails.len() >= MOST_TAILS {
            self.tails.clear();
            self.to_good = to_good.to_bits();
        }
        let tails = self.tails.entry(block).or_default();
        let mut sum = 0.0;
        for (place, to_bad, weight) in belief.rates() {
            let tail = tails.entry(place).or_default();
            if tail.len() as u64 <= r {
                // Few are asked for, mostly.
                *tail = failures(&SampledChain::new(to_bad, to_good, block.1), block.0, (2 * r).max(3));
            }
            sum += weight * tail[index(r)];
        }
        sum
    }
}

/// A two-state chain, as it is seen by every m-th packet: Gilbert's, when m is 1.
#[derive(Clone, Copy, Debug)]
struct SampledChain {
    rate: f64,
    // Good to bad, and bad to good.
    to_bad: f64,
    to_good: f64,
}

impl SampledChain {
    fn new(to_bad: f64, to_good: f64, distance: u64) -> Self {
        let rate = share_lost(to_bad, to_good);
        let memory = (1.0 - to_bad - to_good).max(0.0);
        let mut left = 1.0;
        for _ in 0..distance {
            left *= memory;
        }
        Self { rate, to_bad: rate * (1.0 - left), to_good: (1.0 - rate) * (1.0 - left) }
    }
}

/// P(more than r losses among k + r) for each r up to `most`.
///
/// Sums the chain's distribution packet by packet, with nothing but additions and products: the same on each
/// machine.
fn failures(channel: &SampledChain, k: u64, most: u64) -> Vec<f64> {
    // Chances of j losses so far, of which the last packet was none, or one.
    let mut good = vec![0.0; index(most) + 1];
    let mut bad = good.clone();
    good[0] = 1.0 - channel.rate;
    if let Some(one) = bad.get_mut(1) {
        *one = channel.rate;
    }
    let mut failures = Vec::with_capacity(index(most) + 1);
    for n in 1..=k + most {
        if n > 1 {
            step(channel, &mut good, &mut bad);
        }
        if let Some(r) = n.checked_sub(k) {
            let within: f64 = good.iter().zip(&bad).take(index(r) + 1).map(|(g, b)| g + b).sum();
            failures.push((1.0 - within).max(0.0));
        }
    }
    failures
}

/// One packet more.
fn step(channel: &SampledChain, good: &mut [f64], bad: &mut [f64]) {
    let (stay_good, stay_bad) = (1.0 - channel.to_bad, 1.0 - channel.to_good);
    // Of one loss less; those beyond the end of the table are too many anyway.
    let (mut good_before, mut bad_before) = (0.0, 0.0);
    for (good, bad) in good.iter_mut().zip(bad) {
        let (g, b) = (*good, *bad);
        *good = g * stay_good + b * channel.to_good;
        *bad = good_before * channel.to_bad + bad_before * stay_bad;
        (good_before, bad_before) = (g, b);
    }
}

/// `x` rounded down to six significant bits: a recovery that hardly changed is the same.
fn below(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & !((1 << 47) - 1))
}

/// Blocks of as many different sizes are remembered.
const MOST_TAILS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Stake = Stake { miss: 1.0, price: 0.003, per: 1, cut: false };

    /// P(more than r of n), term by term with exact binomial coefficients.
    fn binomial_tail(n: u64, r: u64, l: f64) -> f64 {
        let (mut tail, mut choose) = (0.0, 1.0);
        for j in 0..=n {
            if j > r {
                tail += choose * l.powi(j as i32) * (1.0 - l).powi((n - j) as i32);
            }
            choose = choose * (n - j) as f64 / (j + 1) as f64;
        }
        tail
    }

    /// The same under Gilbert's model: over all ways that n packets can fare.
    fn gilbert_tail(n: u32, r: u32, to_bad: f64, to_good: f64) -> f64 {
        let to_good = to_good.min(1.0 - to_bad);
        let rate = to_bad / (to_bad + to_good);
        let mut tail = 0.0;
        for fates in 0..1u32 << n {
            let mut chance = if fates & 1 == 1 { rate } else { 1.0 - rate };
            for at in 1..n {
                chance *= match (fates >> (at - 1) & 1, fates >> at & 1) {
                    (0, 0) => 1.0 - to_bad,
                    (0, _) => to_bad,
                    (_, 0) => to_good,
                    _ => 1.0 - to_good,
                };
            }
            if fates.count_ones() > r {
                tail += chance;
            }
        }
        tail
    }

    /// The cheapest number, by all ways that the packets can fare, at all rates that are believed in.
    #[test]
    fn the_cheapest_is_found() {
        let mut sizing = Sizing::default();
        let mut beliefs = vec![Belief::new()];
        for (to_bad, to_good) in [(0.02, 0.25), (0.01, 0.5), (0.1, 0.33), (0.003, 0.1), (0.3, 1.0)] {
            beliefs.push(Belief::known(to_bad, below(to_good)));
        }
        for belief in &beliefs {
            let to_good = below(belief.to_good());
            for k in 1..=7u32 {
                for price in [0.0005, 0.003, 0.02, 0.1] {
                    let most = (k / 2).max(1);
                    let cost = |r: u32| {
                        let failed: f64 = belief
                            .rates()
                            .map(|(_, to_bad, weight)| weight * gilbert_tail(k + r, r, to_bad, to_good))
                            .sum();
                        failed + price * f64::from(r)
                    };
                    let best = (0..=most).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap();
                    let stake = Stake { price, per: 2, ..ALONE };
                    let found = sizing.repairs(belief, k.into(), stake);
                    assert!(
                        cost(found) <= cost(best) + 1e-12,
                        "{k} at {price}: {found} for {best}, {belief:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn independent_losses_follow_the_binomial_law() {
        let mut sizing = Sizing::default();
        // Rates of the grid.
        for rate in [1.0 / 1024.0, 1.0 / 256.0, 1.0 / 128.0, 1.0 / 64.0, 1.0 / 32.0] {
            let belief = Belief::known(rate, 1.0);
            for k in [1, 4, 8, 12, 16, 20, 28, 60, 100, 128] {
                let cost = |r: u64| binomial_tail(k + r, r, rate) + 0.003 * r as f64;
                let best = (0..=k).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap();
                assert_eq!(u64::from(sizing.repairs(&belief, k, ALONE)), best, "{k} at {rate}");
                let risk = 1.0 - (1.0 - rate).powi(k as i32);
                assert!((sizing.risk(&belief, k) - risk).abs() < 1e-9);
            }
        }
    }

    /// Of half a percent, as the binomial law has it: one for up to sixteen symbols, two for twenty to fifty,
    /// three for sixty.
    #[test]
    fn small_updates_get_what_is_enough() {
        let (mut sizing, belief) = (Sizing::default(), Belief::known(0.005, 1.0));
        let stake = Stake { price: 0.0031, per: 2, ..ALONE };
        let found: Vec<u32> = [4, 8, 12, 20, 28, 60].map(|k| sizing.repairs(&belief, k, stake)).to_vec();
        assert_eq!(found, [1, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn interleaving_thins_bursts_as_the_chain_does() {
        // Two steps of the chain are one of that which every second packet sees.
        let one = SampledChain::new(0.02, 0.25, 1);
        let two = SampledChain::new(0.02, 0.25, 2);
        let to_bad = (1.0 - one.to_bad) * one.to_bad + one.to_bad * (1.0 - one.to_good);
        let to_good = (1.0 - one.to_good) * one.to_good + one.to_good * (1.0 - one.to_bad);
        assert!((two.to_bad - to_bad).abs() < 1e-12 && (two.to_good - to_good).abs() < 1e-12);
    }

    #[test]
    fn there_are_limits() {
        let mut sizing = Sizing::default();
        let quarter = Stake { per: 4, ..ALONE };
        assert_eq!(sizing.repairs(&Belief::known(0.5, 1.0), 0, quarter), 0);
        for k in 1..8 {
            assert_eq!(sizing.repairs(&Belief::known(0.3, 0.2), k, quarter), 1);
        }
        // A loss in a million packets is no matter for ten.
        assert_eq!(sizing.repairs(&Belief::known(1e-6, 1.0), 10, quarter), 0);
        assert!(sizing.repairs(&Belief::known(0.5, 0.01), 100, quarter) <= 25);
        // 1000 symbols in 8 parts of 125, each of which is as likely to fail.
        let stake = Stake { cut: true, ..quarter };
        let (belief, rate) = (Belief::known(1.0 / 128.0, 1.0), 1.0 / 128.0);
        let cost = |r: u64| binomial_tail(125 + r, r, rate) + 0.003 * r as f64;
        let each = (0..=31).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap();
        assert_eq!(u64::from(sizing.repairs(&belief, 1000, stake)), 8 * each);
    }
}
