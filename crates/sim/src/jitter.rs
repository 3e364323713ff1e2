use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use quickset_base::number::{Float as _, Unsigned as _};

use crate::exponential::exponential;
use crate::lane::{below, stream};
use crate::units::{self, UnitError};

/// Delay that differs from packet to packet, on top of the link's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// Evenly spread from zero to this.
    Uniform(Duration),
    /// Normally distributed, cut off at zero and at six standard deviations.
    Normal {
        /// The mean.
        mean: Duration,
        /// The standard deviation.
        deviation: Duration,
    },
    /// Exponentially distributed, with this mean.
    Exponential(Duration),
    /// With a heavy tail: Pareto's distribution of the second kind (Lomax's), beyond x with probability
    /// (1 + x / ((shape - 1) mean))^-shape; cut off at a thousand means.
    Pareto {
        /// The mean.
        mean: Duration,
        /// How light the tail is, from 2 (the variance has no bound) to 100.
        shape: u32,
    },
}

impl Jitter {
    /// The delay that three random numbers give.
    pub(crate) fn extra(self, draws: [u64; 3]) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Uniform(most) => Duration::from_nanos(below(draws[0], nanos(most).saturating_add(1))),
            Self::Normal { mean, deviation } => {
                let ns = nanos(mean).approx() + nanos(deviation).approx() * normal(draws);
                Duration::from_nanos(ns.max(0.0).whole::<u64>())
            }
            Self::Exponential(mean) => Duration::from_nanos(exponential(nanos(mean), stream(draws[0]))),
            Self::Pareto { mean, shape } => {
                // An exponential number whose rate is a sum of `shape` others has this distribution.
                let mut draw = stream(draws[0]);
                let mut unit = || u128::from(exponential(1 << 40, &mut draw));
                let above = unit().saturating_mul(u128::from(nanos(mean)));
                let below: u128 = (0..shape).map(|_| unit()).sum();
                let ns = above.saturating_mul(u128::from(shape.saturating_sub(1))) / below.max(1);
                Duration::from_nanos(
                    u64::try_from(ns).unwrap_or(u64::MAX).min(nanos(mean).saturating_mul(1000)),
                )
            }
        }
    }
}

/// Reads `10ms` or `uniform:10ms` (from zero to that), `normal:5ms,2ms` (mean, standard deviation),
/// `exponential:5ms` (mean), `pareto:5ms,3` (mean, shape), or `none`.
impl FromStr for Jitter {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let plain = text.trim();
        if plain == "none" {
            return Ok(Self::None);
        }
        if let Some(parts) = plain.strip_prefix("normal:") {
            let (mean, deviation) = parts.split_once(',').ok_or_else(|| {
                let accepted = "normal:MEAN,DEVIATION, like normal:5ms,2ms";
                UnitError::new(text, "a jitter", "the standard deviation is missing", accepted)
            })?;
            return Ok(Self::Normal { mean: units::duration(mean)?, deviation: units::duration(deviation)? });
        }
        if let Some(mean) = plain.strip_prefix("exponential:") {
            return units::duration(mean).map(Self::Exponential);
        }
        if let Some(parts) = plain.strip_prefix("pareto:") {
            let parsed =
                parts.split_once(',').and_then(|(mean, shape)| Some((mean, shape.trim().parse().ok()?)));
            let (mean, shape) = parsed.filter(|(_, shape)| (2..=100).contains(shape)).ok_or_else(|| {
                let accepted = "pareto:MEAN,SHAPE with a shape from 2 to 100, like pareto:5ms,3";
                UnitError::new(text, "a jitter", "it has no such shape", accepted)
            })?;
            return Ok(Self::Pareto { mean: units::duration(mean)?, shape });
        }
        let most = units::duration(plain.strip_prefix("uniform:").unwrap_or(plain))?;
        Ok(if most.is_zero() { Self::None } else { Self::Uniform(most) })
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Uniform(most) => write!(f, "uniform:{}", units::duration_text(*most)),
            Self::Normal { mean, deviation } => {
                write!(f, "normal:{},{}", units::duration_text(*mean), units::duration_text(*deviation))
            }
            Self::Exponential(mean) => write!(f, "exponential:{}", units::duration_text(*mean)),
            Self::Pareto { mean, shape } => write!(f, "pareto:{},{shape}", units::duration_text(*mean)),
        }
    }
}

/// A standard normal number: the sum of twelve even ones of 16 bits, which have variance 1/12 each.
/// Logarithms and cosines would differ in the last bit from machine to machine; sums do not.
fn normal(draws: [u64; 3]) -> f64 {
    let sum: u64 = draws.iter().flat_map(|draw| [0, 16, 32, 48].map(|shift| (draw >> shift) & 0xffff)).sum();
    (sum.approx() - 12.0 * 32_767.5) / 65_536.0
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use quickset_base::Rng;

    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["none", "uniform:10ms", "normal:5ms,2ms", "exponential:5ms", "pareto:5ms,3"] {
            assert_eq!(text.parse::<Jitter>().unwrap().to_string(), text);
        }
        assert_eq!("10ms".parse(), Ok(Jitter::Uniform(Duration::from_millis(10))));
        assert!("normal:5ms".parse::<Jitter>().unwrap_err().to_string().contains("deviation is missing"));
        assert!("pareto:5ms".parse::<Jitter>().unwrap_err().to_string().contains("from 2 to 100"));
        assert!("pareto:5ms,1".parse::<Jitter>().unwrap_err().to_string().contains("from 2 to 100"));
        assert!("5".parse::<Jitter>().unwrap_err().to_string().contains("unit is missing"));
    }

    #[test]
    fn normal_jitter_has_the_moments_of_a_normal_distribution() {
        let mut rng = Rng::new(5);
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|_| normal([rng.next(), rng.next(), rng.next()])).collect();
        let moment = |k: i32| draws.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(n);
        // Standard errors: 1/sqrt(n) = 0.0022, sqrt(2/n) = 0.0032; four of each.
        assert!(moment(1).abs() < 0.009, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.013, "{}", moment(2));
        // Irwin-Hall of twelve has kurtosis 3 - 6/(5*12) = 2.9.
        assert!((moment(4) - 2.9).abs() < 0.09, "{}", moment(4));
        let beyond_two = draws.iter().filter(|x| x.abs() > 2.0).count() as f64 / f64::from(n);
        assert!((beyond_two - 0.0455).abs() < 0.004, "{beyond_two}");
    }

    #[test]
    fn tails_are_as_heavy_as_they_should_be() {
        let mut rng = Rng::new(6);
        let n = 200_000;
        let mean = Duration::from_millis(1);
        for (jitter, beyond) in [
            (Jitter::Exponential(mean), (|x: f64| (-x).exp()) as fn(f64) -> f64),
            (Jitter::Pareto { mean, shape: 3 }, |x| (1.0 + x / 2.0).powi(-3)),
            (Jitter::Pareto { mean, shape: 2 }, |x| (1.0 + x).powi(-2)),
        ] {
            let draws: Vec<f64> =
                (0..n).map(|_| jitter.extra([rng.next(), 0, 0]).as_secs_f64() * 1000.0).collect();
            for x in [0.05, 0.3, 1.0, 3.0, 10.0, 40.0] {
                let (p, n) = (beyond(x), f64::from(n));
                let got = draws.iter().filter(|draw| **draw > x).count() as f64 / n;
                assert!(
                    (got - p).abs() <= 4.0 * (p * (1.0 - p) / n).sqrt() + 4.0 / n,
                    "{jitter:?} {x}: {got}, {p}"
                );
            }
        }
    }

    #[test]
    fn the_ends_hold() {
        let most = Duration::from_millis(10);
        assert_eq!(Jitter::Uniform(most).extra([u64::MAX; 3]), most);
        assert_eq!(Jitter::Uniform(most).extra([0; 3]), Duration::ZERO);
        let normal = Jitter::Normal { mean: Duration::from_millis(1), deviation: most };
        assert_eq!(normal.extra([0; 3]), Duration::ZERO);
        assert!(normal.extra([u64::MAX; 3]) <= Duration::from_millis(61));
    }
}
