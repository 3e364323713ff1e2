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
    repairs: u32,
}

impl Sizing {
    pub(super) fn new() -> Self {
        Self { known: Vec::new() }
    }

    /// Repair symbols for a block of `k`, interleaved into parts of at most 128: none without losses, and at most
    /// a quarter of the block, but one.
    pub(super) fn repairs(&mut self, loss: &Loss, k: u64) -> u32 {
        if k == 0 || loss.rate.is_nan() || loss.rate <= 0.0 {
            return 0;
        }
        let (rate, to_good) = (above(loss.rate).min(1.0), below(loss.to_good));
        let asked = Known { k, channel: (rate.to_bits(), to_good.to_bits()), repairs: 0 };
        let place = k as usize % PLACES;
        if let Some(known) = self.known.get(place) {
            if (known.k, known.channel) == (asked.k, asked.channel) {
                return known.repairs;
            }
        }
        let parts = parts(k, 1);
        let channel = Channel::new(rate, to_good, parts);
        let part = k.div_ceil(parts);
        let each = least_repairs(&channel, part, TARGET / parts as f64, (part / 4).max(1));
        let repairs = u32::try_from((each * parts).min((k / 4).max(1))).unwrap_or(u32::MAX);
        if self.known.is_empty() {
            self.known = vec![Known { k: 0, channel: (0, 0), repairs: 0 }; PLACES];
        }
        self.known[place] = Known { repairs, ..asked };
        repairs
    }
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
