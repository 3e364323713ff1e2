use core::fmt;
use core::str::FromStr;

use crate::ratetrace::RateTrace;
use crate::units::{self, UnitError};

/// How fast a link sends.
///
/// As text `unlimited`, a number with a unit like `100mbit`, or `trace:PATH`, which reads the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rate {
    /// Packets leave in no time, and so never queue.
    #[default]
    Unlimited,
    /// Bits per second. At 0 nothing ever leaves.
    Constant(u64),
    /// As it was recorded.
    Trace(RateTrace),
}

impl Rate {
    /// `n` million bits per second.
    pub const fn mbit(n: u64) -> Self {
        Self::Constant(n * 1_000_000)
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim() == UNLIMITED {
            return Ok(Self::Unlimited);
        }
        match text.trim().strip_prefix(TRACE) {
            Some(path) => RateTrace::read(path).map(Self::Trace),
            None => units::rate(text).map(Self::Constant),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str(UNLIMITED),
            Self::Constant(bps) => f.write_str(&units::rate_text(*bps)),
            Self::Trace(trace) => write!(f, "{TRACE}{}", trace.path()),
        }
    }
}

pub(crate) const UNLIMITED: &str = "unlimited";
const TRACE: &str = "trace:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["unlimited", "100mbit", "1.5gbit", "1bit"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
    }
}
