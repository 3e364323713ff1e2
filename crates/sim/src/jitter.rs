use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::lane::below;
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
}

impl Jitter {
    /// The delay that three random numbers give.
    pub(crate) fn extra(self, draws: [u64; 3]) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Uniform(most) => Duration::from_nanos(below(draws[0], nanos(most).saturating_add(1))),
            Self::Normal { mean, deviation } => {
                let ns = nanos(mean) as f64 + nanos(deviation) as f64 * normal(draws);
                Duration::from_nanos(ns.max(0.0) as u64)
            }
        }
    }
}

/// Reads `10ms` or `uniform:10ms` (from zero to that), `normal:5ms,2ms` (mean, standard deviation), or `none`.
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
        }
    }
}

/// A standard normal number: the sum of twelve even ones of 16 bits, which have variance 1/12 each.
/// Logarithms and cosines would differ in the last bit from machine to machine; sums do not.
fn normal(draws: [u64; 3]) -> f64 {
    let sum: u64 = draws.iter().flat_map(|draw| [0, 16, 32, 48].map(|shift| (draw >> shift) & 0xffff)).sum();
    (sum as f64 - 12.0 * 32_767.5) / 65_536.0
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
        for text in ["none", "uniform:10ms", "normal:5ms,2ms"] {
            assert_eq!(text.parse::<Jitter>().unwrap().to_string(), text);
        }
        assert_eq!("10ms".parse(), Ok(Jitter::Uniform(Duration::from_millis(10))));
        assert!("normal:5ms".parse::<Jitter>().unwrap_err().to_string().contains("deviation is missing"));
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
    fn the_ends_hold() {
        let most = Duration::from_millis(10);
        assert_eq!(Jitter::Uniform(most).extra([u64::MAX; 3]), most);
        assert_eq!(Jitter::Uniform(most).extra([0; 3]), Duration::ZERO);
        let normal = Jitter::Normal { mean: Duration::from_millis(1), deviation: most };
        assert_eq!(normal.extra([0; 3]), Duration::ZERO);
        assert!(normal.extra([u64::MAX; 3]) <= Duration::from_millis(61));
    }
}
