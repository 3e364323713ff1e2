//! Numbers with units as people write them: `100mbit`, `50ms`, `9MB`, `0.5%`.
//!
//! Reading is exact (no floating point but for shares), and what the `*_text` functions write reads
//! back as the same value. Each error is one sentence: what was given, what is wrong with it, and
//! what would be accepted.

use core::fmt;
use core::time::Duration;

use quickset_base::number::Unsigned as _;

/// Reads a rate in bits per second: a number with `bit`, `kbit`, `mbit`, `gbit` or `tbit` (decimal,
/// upper or lower case, an optional `/s`). Above zero.
pub fn rate(text: &str) -> Result<u64, UnitError> {
    let kind =
        Quantity { name: "a rate", accepts: "a number with bit, kbit, mbit, gbit or tbit, like 100mbit" };
    let lower = text.trim().to_ascii_lowercase();
    let plain = lower.strip_suffix("/s").unwrap_or(&lower);
    match kind.quantity(text, plain, &RATES, None)? {
        0 => {
            Err(kind.error(text, "it is zero, and nothing would ever leave (a dead link is a loss of 100%)"))
        }
        bps => Ok(bps),
    }
}

/// Reads a duration: a number with `ns`, `us`, `ms` or `s`, or a bare `0`.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let kind = Quantity { name: "a duration", accepts: "a number with ns, us, ms or s, like 50ms" };
    let plain = text.trim();
    if plain == "0" {
        return Ok(Duration::ZERO);
    }
    let plain = plain.replace('µ', "u");
    kind.quantity(text, &plain, &TIMES, None).map(Duration::from_nanos)
}

/// Reads a bare decimal number of seconds as nanoseconds.
pub(crate) fn seconds(text: &str) -> Result<u64, UnitError> {
    let kind = Quantity { name: "a time", accepts: "a number of seconds, like 2.5" };
    kind.quantity(text, text.trim(), &TIMES, Some(1_000_000_000))
}

/// Reads a size in bytes: a number with `B`, `kB`, `MB`, `GB` (powers of 1000), `KiB`, `MiB`, `GiB`
/// (powers of 1024), or a bare number of bytes.
pub fn size(text: &str) -> Result<u64, UnitError> {
    let kind = Quantity { name: "a size", accepts: "a number with B, kB, MB, GB, KiB, MiB or GiB, like 9MB" };
    let plain = text.trim();
    // K for kilo is a common slip that means only one thing.
    let plain = plain.strip_suffix("KB").map_or_else(|| plain.to_owned(), |number| format!("{number}kB"));
    kind.quantity(text, &plain, &SIZES, Some(1))
}

/// The same with its unit, where a bare number could be one of something else.
pub(crate) fn size_with_unit(
    text: &str,
    what: &'static str,
    accepts: &'static str,
) -> Result<u64, UnitError> {
    let plain = text.trim();
    if plain != "0" && plain.bytes().all(|b| b.is_ascii_digit() || b == b'.') && !plain.is_empty() {
        return Err(UnitError::new(text, what, "the unit is missing", accepts));
    }
    size(text)
}

/// Reads a share, such as a probability of loss: a percentage (`0.5%`) or a fraction (`0.005`), from 0 to 1.
pub fn share(text: &str) -> Result<f64, UnitError> {
    let kind =
        Quantity { name: "a share", accepts: "0% to 100%, like 0.5%, or a fraction from 0 to 1, like 0.005" };
    let plain = text.trim();
    let (number, whole) = match plain.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (plain, 1.0),
    };
    // f64's own parser also takes "inf", "nan" and exponents.
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(kind.error(text, "it has no plain decimal number"));
    }
    let value = number.parse::<f64>().map_err(|_| kind.error(text, "its number cannot be read"))? / whole;
    if value > 1.0 {
        return Err(kind.error(text, "it is more than the whole"));
    }
    Ok(value)
}

/// The same where it stands alone. A bare 1 is refused: it is written for one in a hundred, and would be all.
pub(crate) fn lone_share(text: &str) -> Result<f64, UnitError> {
    let value = share(text)?;
    if value.to_bits() == 1.0_f64.to_bits() && !text.trim().ends_with('%') {
        return Err(UnitError::new(text, "a share", "it could be all or one in a hundred", "100% or 1%"));
    }
    Ok(value)
}

/// A rate in bits per second as [`rate`] reads it.
pub fn rate_text(bps: u64) -> String {
    quantity_text(bps, &RATES)
}

/// A duration as [`duration`] reads it; beyond 584 years cut to that.
pub fn duration_text(duration: Duration) -> String {
    quantity_text(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), &TIMES)
}

/// A size in bytes as [`size`] reads it, in powers of 1000.
pub fn size_text(bytes: u64) -> String {
    quantity_text(bytes, &SIZES[..4])
}

/// A share as [`share`] reads it: a percentage where that is exact, else a fraction.
pub fn share_text(share: f64) -> String {
    // Rounded to 12 places, since 0.07 * 100 is 7.000000000000001.
    let percent = (share * 100.0 * 1e12).round() / 1e12;
    if (percent / 100.0).to_bits() == share.to_bits() { format!("{percent}%") } else { format!("{share}") }
}

/// Why a text is not the quantity that was asked for: one sentence for the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError(String);

impl UnitError {
    /// `text` is not `what` because of `why`; `accepted` tells what to write instead.
    pub(crate) fn new(text: &str, what: &str, why: &str, accepted: &str) -> Self {
        Self(format!("`{text}` is not {what}: {why}; write {accepted}"))
    }

    /// The file `path` is not as it should be: which line, counted from 1, and what is wrong or expected.
    pub(crate) fn of_file(path: &str, line: Option<(usize, &str)>, why: &str) -> Self {
        Self(match line {
            // Of a line that is no text for people, as much as tells it apart.
            Some((n, line)) => {
                let line: String = line.chars().take(40).collect();
                format!("`{path}`, line {n}, `{line}`: {why}")
            }
            None => format!("`{path}`: {why}"),
        })
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for UnitError {}

/// A unit's name and its worth in the base unit.
type UnitWorth = (&'static str, u64);

/// What is read, for the error sentences.
struct Quantity {
    name: &'static str,
    accepts: &'static str,
}

impl Quantity {
    fn error(&self, text: &str, why: &str) -> UnitError {
        UnitError::new(text, self.name, why, self.accepts)
    }

    /// Reads `plain` (`text` made regular) as a decimal number with one of `units`; without a unit it
    /// counts in `bare`, if that is allowed. Below the base unit it rounds to the nearest.
    fn quantity(
        &self,
        text: &str,
        plain: &str,
        units: &[UnitWorth],
        bare: Option<u64>,
    ) -> Result<u64, UnitError> {
        let end = plain.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(plain.len());
        let (number, unit) = (&plain[..end], plain[end..].trim());
        if number.is_empty() {
            return Err(self.error(text, "it does not begin with a number"));
        }
        let worth = match units.iter().find(|(name, _)| *name == unit) {
            Some((_, worth)) => *worth,
            None if unit.is_empty() => bare.ok_or_else(|| self.error(text, "the unit is missing"))?,
            None => return Err(self.error(text, &format!("the unit `{unit}` is not known"))),
        };
        decimal(number, worth).map_err(|why| self.error(text, why))
    }
}

/// `number` times `worth`, rounded to the nearest whole.
fn decimal(number: &str, worth: u64) -> Result<u64, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') {
        return Err("its number has two points");
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err("its number has no digits");
    }
    // 18 digits reach below the smallest unit of every kind, and keep the products below 2^128.
    let fraction = &fraction[..fraction.len().min(18)];
    let read = |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<u64>() };
    let too_large = "its number is too large";
    let whole = u128::from(read(whole).map_err(|_| too_large)?) * u128::from(worth);
    let scale = 10u128.pow(fraction.len().saturated::<u32>());
    let part = u128::from(read(fraction).map_err(|_| too_large)?) * u128::from(worth);
    u64::try_from(whole + (part + scale / 2) / scale).map_err(|_| too_large)
}

/// `value` in the largest of `units` (powers of 1000, rising) that it reaches, exactly.
fn quantity_text(value: u64, units: &[UnitWorth]) -> String {
    let (name, worth) = units.iter().rev().find(|(_, worth)| value >= *worth).unwrap_or(&units[0]);
    let (whole, rest) = (value / worth, value % worth);
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let fraction = format!("{rest:0width$}", width = worth.ilog10() as usize);
    format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
}

const RATES: [UnitWorth; 5] =
    [("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000), ("tbit", 1_000_000_000_000)];
const TIMES: [UnitWorth; 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const SIZES: [UnitWorth; 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_understood() {
        assert_eq!(rate("100mbit"), Ok(100_000_000));
        assert_eq!(rate("1gbit"), Ok(1_000_000_000));
        assert_eq!(rate(" 500 kbit/s "), Ok(500_000));
        assert_eq!(rate("2.5Mbit"), Ok(2_500_000));
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("200us"), Ok(Duration::from_micros(200)));
        assert_eq!(duration("200µs"), Ok(Duration::from_micros(200)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(size("9MB"), Ok(9_000_000));
        assert_eq!(size("256kB"), Ok(256_000));
        assert_eq!(size("256KB"), Ok(256_000));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1472"), Ok(1472));
        assert_eq!(share("0.5%"), Ok(0.005));
        assert_eq!(share("0.005"), Ok(0.005));
        assert_eq!(share("100 %"), Ok(1.0));
    }

    #[test]
    fn slips_are_explained() {
        let says = |error: UnitError| error.to_string();
        assert_eq!(
            says(rate("100").unwrap_err()),
            "`100` is not a rate: the unit is missing; write a number with bit, kbit, mbit, gbit or tbit, like 100mbit"
        );
        assert!(says(rate("100mbps").unwrap_err()).contains("the unit `mbps` is not known"));
        assert!(says(rate("0mbit").unwrap_err()).contains("zero"));
        assert!(says(rate("mbit").unwrap_err()).contains("does not begin with a number"));
        assert!(says(rate("-1mbit").unwrap_err()).contains("does not begin with a number"));
        assert!(says(rate("1.2.3mbit").unwrap_err()).contains("two points"));
        assert!(says(rate(".mbit").unwrap_err()).contains("no digits"));
        assert!(says(duration("50").unwrap_err()).contains("the unit is missing"));
        assert!(says(duration("99999999999999999999s").unwrap_err()).contains("too large"));
        assert!(says(size("9Mb").unwrap_err()).contains("the unit `Mb` is not known"));
        assert!(says(share("101%").unwrap_err()).contains("more than the whole"));
        for odd in ["", "%", "nan", "inf", "1e-3", "-0.1", "1.2.3"] {
            assert!(share(odd).is_err(), "{odd}");
        }
    }

    /// What a number means without its unit: what everybody means, or nothing.
    #[test]
    fn bare_numbers_are_what_everybody_means_or_refused() {
        let queue = |text: &str| text.parse::<crate::LinkQueue>().map(|queue| queue.to_string());
        for bare in ["1", "10", "1500", "2.5"] {
            assert!(rate(bare).unwrap_err().to_string().contains("like 100mbit"), "{bare}");
            assert!(duration(bare).unwrap_err().to_string().contains("like 50ms"), "{bare}");
            // Packets for some, bytes for others.
            for text in [
                bare.to_owned(),
                format!("mark:1kB,{bare}"),
                format!("mark:{bare},1kB"),
                format!("red:1kB,2kB,1%,{bare}"),
                format!("codel:5ms,100ms,{bare}"),
            ] {
                let said = queue(&text).unwrap_err().to_string();
                assert!(
                    said.contains("the unit is missing") && said.contains("100packets"),
                    "{text}: {said}"
                );
            }
        }
        assert_eq!((duration("0"), size("1500")), (Ok(Duration::ZERO), Ok(1500)));
        assert_eq!(
            (share("0"), share("0.5"), share("1%"), share("100%")),
            (Ok(0.0), Ok(0.5), Ok(0.01), Ok(1.0))
        );
        for one in ["1", "1.0", "1."] {
            assert_eq!(share(one), Ok(1.0), "among others");
            assert!(lone_share(one).unwrap_err().to_string().contains("100% or 1%"), "{one}");
            for word in ["loss", "corrupt", "duplicate"] {
                let said = format!("{word}={one}").parse::<crate::LinkSpec>().unwrap_err().to_string();
                assert!(said.contains("100% or 1%"), "{said}");
            }
        }
    }

    #[test]
    fn shares_are_written_as_people_write_them() {
        assert_eq!(share_text(0.005), "0.5%");
        assert_eq!(share_text(0.07), "7%");
        assert_eq!(share_text(1.0), "100%");
        assert_eq!(share_text(0.0), "0%");
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_reads_back(n: u64, p in 0.0..=1.0) {
            proptest::prop_assert_eq!(rate(&rate_text(n.max(1))), Ok(n.max(1)));
            proptest::prop_assert_eq!(duration(&duration_text(Duration::from_nanos(n))), Ok(Duration::from_nanos(n)));
            proptest::prop_assert_eq!(size(&size_text(n)), Ok(n));
            proptest::prop_assert_eq!(share(&share_text(p)), Ok(p));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,12}") {
            let _ = (rate(&text), duration(&text), size(&text), share(&text));
        }
    }
}
