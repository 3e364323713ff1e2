use std::fmt;
use std::str::FromStr;

use quickset_base::Time;

use super::Congestion;
use super::bbr::Bbr;
use super::classic::Classic;
use super::cubic::Cubic;
use super::custom::CustomController;
use super::fixed::Fixed;
use super::newreno::NewReno;

/// Which congestion controller a connection uses.
///
/// As text `bbr`, `cubic`, `newreno` (`reno` is read as well), or `fixed:` with a rate: a decimal number with
/// `bit`, `kbit`, `mbit`, `gbit` or `tbit` (powers of 1000, upper or lower case, an optional `/s`). What is
/// written of these reads back as the same value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// CUBIC (RFC 9438), with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// NewReno (RFC 9002 §7), with HyStart++ (RFC 9406).
    NewReno,
    /// BBR (draft-ietf-ccwg-bbr): keeps its rate under random loss.
    Bbr,
    /// A fixed sending rate in bits per second that heeds no congestion: for experiments on links of your
    /// own.
    Fixed(u64),
    /// A controller of your own. Its text is its name, which does not read back.
    Custom(CustomController),
}

impl Algorithm {
    /// What there is, as text: for messages and help.
    pub const FORMS: &str = "bbr, cubic, newreno or fixed:RATE";

    /// A controller at its start, for a path that takes UDP payloads of `mtu` bytes.
    pub fn build(&self, mtu: u64, now: Time) -> Box<dyn Congestion> {
        match self {
            Self::Cubic => Box::new(Classic::<Cubic>::new(mtu, now)),
            Self::NewReno => Box::new(Classic::<NewReno>::new(mtu, now)),
            Self::Bbr => Box::new(Bbr::new(mtu, now)),
            Self::Fixed(bits_per_second) => Box::new(Fixed::new(*bits_per_second, mtu)),
            Self::Custom(custom) => custom.build(mtu, now),
        }
    }

    /// The name of the same controller among those that Linux has for TCP (`TCP_CONGESTION` in tcp(7)), for
    /// programs that offer both and want them to share links alike; `None` where it has none.
    pub fn linux_name(&self) -> Option<&'static str> {
        match self {
            Self::Cubic => Some("cubic"),
            Self::NewReno => Some("reno"),
            Self::Bbr => Some("bbr"),
            Self::Fixed(_) | Self::Custom(_) => None,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = match self {
            Self::Bbr => return f.write_str("bbr"),
            Self::Cubic => return f.write_str("cubic"),
            Self::NewReno => return f.write_str("newreno"),
            Self::Custom(custom) => return f.write_str(custom.name()),
            Self::Fixed(bps) => *bps,
        };
        let (unit, digits) =
            UNITS.into_iter().rev().find(|(_, digits)| bps >= 10u64.pow(*digits)).unwrap_or(UNITS[0]);
        let (whole, rest) = (bps / 10u64.pow(digits), bps % 10u64.pow(digits));
        write!(f, "fixed:{whole}")?;
        if rest > 0 {
            let places = format!("{rest:0width$}", width = digits as usize);
            write!(f, ".{}", places.trim_end_matches('0'))?;
        }
        f.write_str(unit)
    }
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        match text {
            "bbr" => Ok(Self::Bbr),
            "cubic" => Ok(Self::Cubic),
            "newreno" | "reno" => Ok(Self::NewReno),
            _ => match text.strip_prefix("fixed:") {
                Some(rate) => bits_per_second(rate).map(Self::Fixed),
                None => Err(AlgorithmError("it is none of them")),
            },
        }
    }
}

/// Why a text names no congestion controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; write {forms}, like fixed:80mbit", forms = Algorithm::FORMS)]
pub struct AlgorithmError(&'static str);

/// Reads a rate above zero exactly: without floating point, and nothing below one bit per second is dropped
/// unsaid.
fn bits_per_second(text: &str) -> Result<u64, AlgorithmError> {
    let lower = text.to_ascii_lowercase();
    let plain = lower.strip_suffix("/s").unwrap_or(&lower);
    let end = plain.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(plain.len());
    let (number, unit) = plain.split_at(end);
    let (_, digits) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or(NO_UNIT)?;
    let (whole, places) = number.split_once('.').unwrap_or((number, ""));
    let places = places.trim_end_matches('0');
    if places.len() > digits as usize {
        return Err(AlgorithmError("its rate is no whole number of bits per second"));
    }
    if whole.is_empty() && places.is_empty() {
        return Err(NO_NUMBER);
    }
    // The places filled up to the unit are the number in bits per second.
    let value: u64 =
        format!("{whole}{places:0<width$}", width = digits as usize).parse().map_err(|_| NO_NUMBER)?;
    if value == 0 { Err(AlgorithmError("at a rate of zero nothing would ever leave")) } else { Ok(value) }
}

/// The units of a rate and the power of ten that each stands for, rising.
const UNITS: [(&str, u32); 5] = [("bit", 0), ("kbit", 3), ("mbit", 6), ("gbit", 9), ("tbit", 12)];

const NO_UNIT: AlgorithmError = AlgorithmError("its rate needs a number with bit, kbit, mbit, gbit or tbit");
const NO_NUMBER: AlgorithmError = AlgorithmError("the number of its rate cannot be read");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_rates_read_back() {
        for (text, value) in [
            ("bbr", Algorithm::Bbr),
            ("cubic", Algorithm::Cubic),
            ("newreno", Algorithm::NewReno),
            ("fixed:80mbit", Algorithm::Fixed(80_000_000)),
            ("fixed:1.5gbit", Algorithm::Fixed(1_500_000_000)),
            ("fixed:1.048576mbit", Algorithm::Fixed(1 << 20)),
            ("fixed:64.001kbit", Algorithm::Fixed(64_001)),
            ("fixed:7bit", Algorithm::Fixed(7)),
            ("fixed:1tbit", Algorithm::Fixed(1_000_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(value.clone()));
            assert_eq!(value.to_string(), text);
        }
        assert_eq!("reno".parse(), Ok(Algorithm::NewReno));
        for (text, bps) in
            [("fixed:0.50Mbit/s", 500_000), ("fixed:.5kbit", 500), ("fixed:2000kbit", 2_000_000)]
        {
            assert_eq!(text.parse(), Ok(Algorithm::Fixed(bps)));
        }
    }

    #[test]
    fn slips_are_explained() {
        for (text, why) in [
            ("vegas", "none of them"),
            ("BBR", "none of them"),
            ("", "none of them"),
            ("fixed", "none of them"),
            ("fixed:", "needs a number"),
            ("fixed:80", "needs a number"),
            ("fixed:80mb", "needs a number"),
            ("fixed:80 mbit", "needs a number"),
            ("fixed:-1mbit", "needs a number"),
            ("fixed:mbit", "cannot be read"),
            ("fixed:.mbit", "cannot be read"),
            ("fixed:1.2.3mbit", "cannot be read"),
            ("fixed:18446744073710tbit", "cannot be read"),
            ("fixed:0.0gbit", "zero"),
            ("fixed:1.5bit", "no whole number"),
        ] {
            let error = text.parse::<Algorithm>().unwrap_err().to_string();
            assert!(
                error.contains(why) && error.contains("bbr, cubic, newreno or fixed:"),
                "{text}: {error}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_reads_back(bps in 1..=u64::MAX) {
            let text = Algorithm::Fixed(bps).to_string();
            proptest::prop_assert_eq!(text.parse(), Ok(Algorithm::Fixed(bps)), "{}", text);
        }

        #[test]
        fn no_text_panics(text in "(fixed:)?\\PC{0,12}") {
            let _ = text.parse::<Algorithm>();
        }
    }
}
