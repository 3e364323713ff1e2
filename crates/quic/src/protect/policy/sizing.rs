use super::Loss;
use super::block::parts;

/// How many repair symbols a block needs: the least r with P(more than r losses among k + r) at most the target,
/// under the Gilbert model. Remembers what it computed, since it is asked for each packet.
#[derive(Clone, Debug)]
pub(super) struct Sizing {
    known: Vec<Known>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    // The block, and the bits of loss rate and recovery as they were rounded.
    k: u64,
    channel: (u64, u64),
    kind: Kind,
    repairs: u32,
}

impl Sizing {
    pub(super) fn new() -> Self {
        Self { known: Vec::new() }
    }

    /// Repair symbols for a block of `k`, interleaved into parts of at most 128: none without losses, and at most
    /// a quarter of the block, but one.
    pub(super) fn repairs(&mut self, loss: &Loss, k: u64) -> u32 {
        self.least(loss, k, Kind::Block)
    }

    /// The same for `k` symbols of a window that goes on: what it lacks comes with the next fence, a tenth of a round trip
    /// later perhaps. So bursts, against which that would take many times as much repair, get twice as much at most;
    /// and where next to nothing is lost, none gets more than twenty times what is.
    pub(super) fn again(&mut self, loss: &Loss, k: u64) -> u32 {
        self.least(loss, k, Kind::Window)
    }

    /// The same for `k` symbols of messages, for which nothing that comes later is in time: of few up to half as many, where
    /// a quarter would fail too often, or as many losses are to be expected as make it worth while. Of more a quarter is
    /// plenty.
    pub(super) fn once(&mut self, loss: &Loss, k: u64) -> u32 {
        self.least(loss, k, if k > FEW { Kind::Block } else { Kind::Messages })
    }

    fn least(&mut self, loss: &Loss, k: u64, kind: Kind) -> u32 {
        if k == 0 || loss.rate.is_nan() || loss.rate <= 0.0 {
            return 0;
        }
        let rate = match kind {
            Kind::Block | Kind::Messages => loss.rate,
            Kind::Window => cautious(loss),
        };
        let (rate, to_good) = (above(rate).min(1.0), below(loss.to_good));
        let asked = Known { k, kind, channel: (rate.to_bits(), to_good.to_bits()), repairs: 0 };
        let place = k as usize % PLACES;
        if let Some(known) = self.known.get(place) {
            if (Known { repairs: 0, ..*known }) == asked {
                return known.repairs;
            }
        }
        let most = (k / 4).max(1);
        let repairs = match kind {
            Kind::Messages => {
                let channel = Channel::new(rate, to_good, 1);
                let half = (k / 2).max(1);
                let worth = ((WORTH_OF_LOSS * rate * k as f64) as u64).clamp(1, half);
                [(TARGET, most), (SELDOM, worth), (TOO_OFTEN, half)]
                    .map(|(target, most)| least_repairs(&channel, k, target, most))
                    .into_iter()
                    .max()
                    .unwrap_or(0)
            }
            Kind::Block => {
                let parts = parts(k, 1);
                let channel = Channel::new(rate, to_good, parts);
                let part = k.div_ceil(parts);
                let each = least_repairs(&channel, part, TARGET / parts as f64, (part / 4).max(1));
                most.min(parts * each)
            }
            Kind::Window => {
                let chance = least_repairs(&Channel::new(rate, 1.0, 1), k, TARGET, most);
                let bursts = least_repairs(&Channel::new(rate, to_good, 1), k, SOFT_TARGET, most);
                chance
                    .max(bursts.min(2 * chance))
                    .min(most)
                    .min(((MOST_PER_LOSS * rate * k as f64) as u64).max(1))
            }
        };
        let repairs = u32::try_from(repairs).unwrap_or(u32::MAX);
        if self.known.is_empty() {
            self.known = vec![Known { k: 0, kind, channel: (0, 0), repairs: 0 }; PLACES];
        }
        self.known[place] = Known { repairs, ..asked };
        repairs
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Block,
    Window,
    Messages,
}

/// The loss rate if one run more had been lost than was seen: runs are what estimates are made of, and where they are
/// long there are few. Of a path that is hardly known, what is assumed of any path, at least.
fn cautious(loss: &Loss) -> f64 {
    let events = loss.events.max(1) as f64;
    let run = if loss.to_good > 0.0 { loss.to_good.recip() } else { 1.0 };
    let has_losses = loss.rate * events > 1.5;
    let rate = if has_losses { loss.rate + run / events.clamp(1000.0, 20_000.0) } else { loss.rate };
    if loss.events < KNOWN || (has_losses && loss.events < 4 * KNOWN) { rate.max(ASSUMED) } else { rate }
}

/// A two-state chain, as it is seen by every m-th packet: Gilbert's, when m is 1.
#[derive(Clone, Copy, Debug)]
struct Channel {
    rate: f64,
    // Good to bad, and bad to good.
    to_bad: f64,
    to_good: f64,
}

impl Channel {
    fn new(rate: f64, to_good: f64, distance: u64) -> Self {
        // Rate and recovery determine the third: l = p/(p + r). A recovery at least as likely as in independent
        // loss is taken for that: losses that shun each other are a matter of few samples.
        let to_bad = if rate < 1.0 { rate * to_good / (1.0 - rate) } else { 1.0 };
        let memory = (1.0 - to_bad - to_good).max(0.0);
        let mut left = 1.0;
        for _ in 0..distance {
            left *= memory;
        }
        Self { rate, to_bad: rate * (1.0 - left), to_good: (1.0 - rate) * (1.0 - left) }
    }
}

/// The least r up to `most` with P(more than r losses among k + r) <= `target`; `most` if there is none.
///
/// Sums the chain's distribution packet by packet, with nothing but additions and products: the same on each
/// machine.
fn least_repairs(channel: &Channel, k: u64, target: f64, most: u64) -> u64 {
    // Chances of j losses so far, of which the last packet was none, or one.
    let mut good = vec![0.0; most as usize + 1];
    let mut bad = good.clone();
    good[0] = 1.0 - channel.rate;
    if let Some(one) = bad.get_mut(1) {
        *one = channel.rate;
    }
    for n in 1..=k + most {
        if n > 1 {
            step(channel, &mut good, &mut bad);
        }
        if let Some(r) = n.checked_sub(k) {
            let within: f64 = good.iter().zip(&bad).take(r as usize + 1).map(|(g, b)| g + b).sum();
            if 1.0 - within <= target {
                return r;
            }
        }
    }
    most
}

/// One packet more.
fn step(channel: &Channel, good: &mut [f64], bad: &mut [f64]) {
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

/// `x` rounded up to six significant bits: at most 3 % more. Never fewer repair symbols than asked for.
fn above(x: f64) -> f64 {
    f64::from_bits((x.to_bits() + ROUNDED) & !ROUNDED)
}

/// `x` rounded down to six significant bits.
fn below(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & !ROUNDED)
}

const ROUNDED: u64 = (1 << 47) - 1;

/// Blocks of as many different sizes are remembered.
const PLACES: usize = 128;

/// How often a block may fail: a tail that one block in ten thousand sees.
pub(super) const TARGET: f64 = 1e-4;

/// How often the only repair of messages may fail before it is too little. At one loss in a hundred a quarter does not, and
/// the bytes of a video conference stay below 1.3 times those without repair (`quickset lab run messages`).
const TOO_OFTEN: f64 = 8e-3;

/// How often it may fail before that is worth some more, and how many repair symbols a loss that is to be expected is worth
/// at most: at one loss in a hundred less than a quarter, at two a third, at three half as many as there are symbols.
const SELDOM: f64 = 1e-3;
const WORTH_OF_LOSS: f64 = 18.0;

/// Symbols of messages that are few.
const FEW: u64 = 32;

/// The same in a window, for what bursts add to it.
const SOFT_TARGET: f64 = 1e-2;

/// Repair symbols for each loss that is to be expected, at most.
const MOST_PER_LOSS: f64 = 20.0;

/// Packets before the losses of a path are known.
pub(super) const KNOWN: u64 = 2000;

/// The loss rate of a path of which nothing is known, as in the monitor.
const ASSUMED: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(rate: f64, to_good: f64) -> Loss {
        Loss { rate, to_bad: 0.0, to_good, events: 5000, congested: 0.0 }
    }

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
    fn gilbert_tail(n: u32, r: u32, channel: &Channel) -> f64 {
        let mut tail = 0.0;
        for fates in 0..1u32 << n {
            let mut chance = if fates & 1 == 1 { channel.rate } else { 1.0 - channel.rate };
            for at in 1..n {
                chance *= match (fates >> (at - 1) & 1, fates >> at & 1) {
                    (0, 0) => 1.0 - channel.to_bad,
                    (0, _) => channel.to_bad,
                    (_, 0) => channel.to_good,
                    _ => 1.0 - channel.to_good,
                };
            }
            if fates.count_ones() > r {
                tail += chance;
            }
        }
        tail
    }

    #[test]
    fn the_example_of_the_design_comes_out() {
        // k = 100, l = 0.5 %: 4 repairs leave 1.9e-4, 5 leave 1.6e-5.
        assert!((binomial_tail(104, 4, 0.005) - 1.9e-4).abs() < 5e-6);
        assert!((binomial_tail(105, 5, 0.005) - 1.6e-5).abs() < 5e-7);
        assert_eq!(Sizing::new().repairs(&loss(0.005, 1.0), 100), 5);
    }

    #[test]
    fn independent_losses_follow_the_binomial_law() {
        let mut sizing = Sizing::new();
        // Rates of few bits are not rounded.
        for rate in [1.0 / 1024.0, 1.0 / 256.0, 1.0 / 128.0, 3.0 / 256.0, 1.0 / 32.0] {
            for k in 8..=128 {
                let most = (k / 4).max(1);
                let least = (0..most).find(|r| binomial_tail(k + r, *r, rate) <= TARGET).unwrap_or(most);
                for _ in 0..2 {
                    assert_eq!(u64::from(sizing.repairs(&loss(rate, 1.0), k)), least, "{k} at {rate}");
                }
            }
        }
    }

    #[test]
    fn few_symbols_of_messages_get_more_than_a_quarter_where_that_fails_too_often() {
        let mut sizing = Sizing::new();
        for rate in [1.0 / 128.0, 3.0 / 128.0, 1.0 / 32.0, 1.0 / 16.0] {
            for k in 1..=40 {
                let least = |target, most: u64| {
                    (0..most).find(|r| binomial_tail(k + r, *r, rate) <= target).unwrap_or(most)
                };
                // Of more than 32 a quarter is plenty.
                let worth = if k > 32 { k / 4 } else { ((18.0 * rate * k as f64) as u64).min(k / 2) };
                let expected = least(1e-4, (k / 4).max(1))
                    .max(least(1e-3, worth.max(1)))
                    .max(least(8e-3, (k / 2).max(1)));
                assert_eq!(u64::from(sizing.once(&loss(rate, 1.0), k)), expected, "{k} at {rate}");
            }
        }
        // C(6,2)·0.03125² = 1.5 %, C(7,3)·0.03125³ = 0.1 %.
        assert_eq!((sizing.once(&loss(0.03125, 1.0), 5), sizing.repairs(&loss(0.03125, 1.0), 5)), (2, 1));
        // C(12,3)·0.03125³ = 0.7 % would do, and 18·0.03125·10 = 5.6: C(13,4)·0.03125⁴ = 0.07 %.
        assert_eq!((sizing.once(&loss(0.03125, 1.0), 10), sizing.repairs(&loss(0.03125, 1.0), 10)), (3, 2));
    }

    #[test]
    fn bursts_follow_gilberts_law() {
        for (rate, to_good) in [(0.02, 0.25), (0.01, 0.5), (0.1, 0.33), (0.003, 0.1)] {
            for k in 1..=9 {
                let channel = Channel::new(rate, to_good, 1);
                let least = (0..5).find(|r| gilbert_tail(k + r, *r, &channel) <= 0.013).unwrap_or(5);
                assert_eq!(
                    least_repairs(&channel, k.into(), 0.013, 5),
                    u64::from(least),
                    "{k} {rate} {to_good}"
                );
            }
        }
    }

    #[test]
    fn interleaving_thins_bursts_as_the_chain_does() {
        // Two steps of the chain are one of that which every second packet sees.
        let one = Channel::new(0.02, 0.25, 1);
        let two = Channel::new(0.02, 0.25, 2);
        let to_bad = (1.0 - one.to_bad) * one.to_bad + one.to_bad * (1.0 - one.to_good);
        let to_good = (1.0 - one.to_good) * one.to_good + one.to_good * (1.0 - one.to_bad);
        assert!((two.to_bad - to_bad).abs() < 1e-12 && (two.to_good - to_good).abs() < 1e-12);
    }

    #[test]
    fn there_are_limits() {
        let mut sizing = Sizing::new();
        assert_eq!(sizing.repairs(&loss(0.0, 1.0), 100), 0);
        assert_eq!(sizing.repairs(&loss(0.5, 1.0), 0), 0);
        for k in 1..8 {
            assert_eq!(sizing.repairs(&loss(0.3, 0.2), k), 1);
        }
        // A loss in a million packets is no matter for ten.
        assert_eq!(sizing.repairs(&loss(1e-6, 1.0), 10), 0);
        assert_eq!(sizing.repairs(&loss(0.9, 0.01), 100), 25);
        assert_eq!(sizing.repairs(&loss(1.0, 0.0), 100), 25);
        assert_eq!(sizing.repairs(&loss(f64::NAN, 1.0), 100), 0);
        // 1000 symbols in 8 parts of 125, each of which may fail once in 80,000 times.
        let each = (0..31).find(|r| binomial_tail(125 + r, *r, 1.0 / 128.0) <= TARGET / 8.0).unwrap();
        assert_eq!(u64::from(sizing.repairs(&loss(1.0 / 128.0, 1.0), 1000)), 8 * each);
    }

    #[test]
    fn rounding_only_adds() {
        let mut x: f64 = 1.0;
        for _ in 0..2000 {
            x *= 0.993;
            assert!(above(x) >= x && above(x) <= x * (1.0 + 1.0 / 32.0));
            assert!(below(x) <= x && below(x) >= x * (1.0 - 1.0 / 32.0));
        }
    }
}
