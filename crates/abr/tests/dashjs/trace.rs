//! What the network gives over time: the shapes under which rules are compared.

use quickset_base::Rng;

/// A throughput in bit/s for each second; it begins again at its end.
pub(crate) struct Trace {
    pub(crate) name: &'static str,
    seconds: Vec<u64>,
}

impl Trace {
    /// All shapes, around a throughput of `mean` bit/s.
    pub(crate) fn all(mean: u64, rng: &mut Rng) -> Vec<Self> {
        let m = mean as f64;
        let mut shapes = vec![
            Self::of("constant", vec![m]),
            Self::of("up a step", steps(&[0.3 * m, 1.7 * m], 150)),
            Self::of("down a step", steps(&[1.7 * m, 0.3 * m], 150)),
            Self::of("square wave", steps(&[0.5 * m, 1.5 * m], 20)),
            Self::of("saw teeth", (0..60).map(|s| m * (0.2 + 1.6 * f64::from(s) / 60.0)).collect()),
            Self::of("outages", (0..90).map(|s| if s % 45 < 6 { 0.0 } else { m }).collect()),
        ];
        let mut level = 1.0;
        let walk = (0..900).map(|_| {
            level = (level * (0.85 + 0.3 * rng.unit())).clamp(0.05, 3.0);
            m * level
        });
        shapes.push(Self::of("random walk", walk.collect()));
        // Two states, as of a radio that is sometimes in a shadow: left with 1 in 10 and 1 in 4 seconds.
        let mut shadow = false;
        let radio = (0..900).map(|_| {
            shadow = rng.unit() < if shadow { 0.75 } else { 0.1 };
            m * (0.7 + 0.6 * rng.unit()) * if shadow { 0.15 } else { 1.0 }
        });
        shapes.push(Self::of("radio", radio.collect()));
        shapes
    }

    fn of(name: &'static str, seconds: Vec<f64>) -> Self {
        Self { name, seconds: seconds.into_iter().map(|bps| bps as u64).collect() }
    }

    /// When so many bytes that begin at `start` are there; both in ms. At least a millisecond later.
    pub(crate) fn finish(&self, start: u64, bytes: u64) -> u64 {
        // Bits times 1000, so that a millisecond of bit/s is whole.
        let mut left = bytes.saturating_mul(8000);
        let mut now = start;
        loop {
            let second = (now / 1000) as usize % self.seconds.len();
            let (rate, until) = (self.seconds[second], (now / 1000 + 1) * 1000);
            let carried = rate.saturating_mul(until - now);
            if carried >= left {
                return now + left.div_ceil(rate).max(1);
            }
            left -= carried;
            now = until;
        }
    }
}

fn steps(levels: &[f64], seconds: usize) -> Vec<f64> {
    levels.iter().flat_map(|level| std::iter::repeat_n(*level, seconds)).collect()
}
