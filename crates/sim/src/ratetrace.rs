use core::fmt;
use std::sync::Arc;

use quickset_base::Time;
use quickset_base::number::Unsigned as _;

use crate::files;
use crate::units::{self, UnitError};

/// A recorded rate, read from a file of one of two kinds; `#` begins a comment in both.
///
/// *Opportunities*, as mahimahi's `mm-link` reads them: each line is a whole number of milliseconds, not
/// below the one before, at which 1504 bytes may leave. The last one is the period with which the
/// recording repeats. A packet costs its bytes (overhead included) and 4 more: mahimahi counts the header
/// of its TUN device, so that a packet of 1500 bytes uses up an opportunity. Several small packets share
/// one, a large one goes on in the next; what nobody uses at its time is gone. A packet that arrives at
/// the very time of an opportunity comes too late for it.
///
/// *Steps*: each line has a time in seconds, the first one 0 and then rising, and the rate from then on
/// (`2.5 10mbit`; 0 lets nothing leave). The last rate holds,
/// unless the last line is `SECONDS repeat`: then all of it begins again at that time, which is at least
/// a millisecond.
///
/// Time zero is that of the link. What would be on the wire for more than four million steps, gaps and
/// changes never leaves. A file has at most 64 MiB; an opportunity takes 4 bytes, a step 16.
#[derive(Clone, PartialEq, Eq)]
pub struct RateTrace(Arc<NamedRates>);

#[derive(Debug, PartialEq, Eq)]
struct NamedRates {
    path: String,
    shape: RateShape,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RateShape {
    Opportunities(Opportunities),
    Steps(Steps),
}

impl RateTrace {
    /// Reads a file; see [`recording`](crate::recording).
    ///
    /// # Errors
    /// When it cannot be read, or a line is not what it should be.
    pub fn read(path: &str) -> Result<Self, UnitError> {
        Self::parse(path, &files::recording(path)?)
    }

    /// Reads `text` as if it were the content of the file `path`, which only stands for its name.
    ///
    /// # Errors
    /// When a line is not what it should be.
    pub fn parse(path: &str, text: &str) -> Result<Self, UnitError> {
        let (first, line) = files::lines(text)
            .next()
            .ok_or_else(|| UnitError::of_file(path, None, "it has no line that says something"))?;
        let shape = match line.split_whitespace().count() {
            1 => Opportunities::parse(path, text).map(RateShape::Opportunities)?,
            2 => Steps::parse(path, text).map(RateShape::Steps)?,
            _ => return Err(UnitError::of_file(path, Some((first, line)), KINDS)),
        };
        Ok(Self(Arc::new(NamedRates { path: path.to_owned(), shape })))
    }

    /// Its name: where it was read, and perhaps the sum that it was to have.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The mean rate in bits per second: of a period, or the last one for steps that do not repeat.
    pub fn mean_bps(&self) -> u64 {
        match &self.0.shape {
            RateShape::Opportunities(opportunities) => opportunities.mean_bps(),
            RateShape::Steps(steps) => steps.mean_bps(),
        }
    }

    pub(crate) fn shape(&self) -> &RateShape {
        &self.0.shape
    }
}

impl fmt::Debug for RateTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, kind) = match &self.0.shape {
            RateShape::Opportunities(opportunities) => (opportunities.at_ms.len(), "opportunities"),
            RateShape::Steps(steps) => (steps.steps.len(), "steps"),
        };
        write!(f, "RateTrace({:?}, {count} {kind})", self.0.path)
    }
}

/// Times at which [`OPPORTUNITY`] bytes may leave, numbered through all repetitions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opportunities {
    at_ms: Vec<u32>,
    period_ns: u64,
}

impl Opportunities {
    fn parse(path: &str, text: &str) -> Result<Self, UnitError> {
        let mut at_ms: Vec<u32> = Vec::new();
        for (number, line) in files::lines(text) {
            let fails = |why| UnitError::of_file(path, Some((number, line)), why);
            let ms = line.parse().map_err(|_| {
                fails("a whole number of milliseconds of 32 bits is expected, as on the lines before")
            })?;
            if at_ms.last().is_some_and(|last| *last > ms) {
                return Err(fails("a time that is not below the one before is expected"));
            }
            at_ms.push(ms);
        }
        let period_ns = u64::from(at_ms.last().copied().unwrap_or(0)) * 1_000_000;
        if period_ns == 0 {
            let why = "its last time is zero, where a period above zero is expected";
            return Err(UnitError::of_file(path, None, why));
        }
        Ok(Self { at_ms, period_ns })
    }

    /// When opportunity `index` comes; [`Time::MAX`] beyond the end of time.
    pub(crate) fn time(&self, index: u64) -> Time {
        let len = self.at_ms.len() as u64;
        let within = u64::from(self.at_ms[(index % len).saturated::<usize>()]) * 1_000_000;
        Time::from_nanos((index / len).saturating_mul(self.period_ns).saturating_add(within))
    }

    /// The first opportunity that comes after `time`.
    pub(crate) fn first_after(&self, time: Time) -> u64 {
        let (cycle, within) = (time.as_nanos() / self.period_ns, time.as_nanos() % self.period_ns);
        let gone = self.at_ms.partition_point(|ms| u64::from(*ms) * 1_000_000 <= within);
        cycle * self.at_ms.len() as u64 + gone as u64
    }

    fn mean_bps(&self) -> u64 {
        let bits = self.at_ms.len() as u128 * u128::from(OPPORTUNITY) * 8;
        (bits * 1_000_000_000 / u128::from(self.period_ns)).saturated::<u64>()
    }
}

/// Rates, each from its time on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    // The first at 0, rising; nanoseconds and bits per second.
    steps: Vec<(u64, u64)>,
    period_ns: Option<u64>,
}

impl Steps {
    fn parse(path: &str, text: &str) -> Result<Self, UnitError> {
        let (mut steps, mut period_ns): (Vec<(u64, u64)>, _) = (Vec::new(), None);
        for (number, line) in files::lines(text) {
            let fails = |why| UnitError::of_file(path, Some((number, line)), why);
            if period_ns.is_some() {
                return Err(fails("nothing is expected behind the line with `repeat`"));
            }
            let (time, rate) = line.split_once(char::is_whitespace).ok_or_else(|| fails(STEP))?;
            let time = units::seconds(time).map_err(|_| fails(STEP))?;
            if rate.trim() == "repeat" {
                if time < 1_000_000 || steps.last().is_none_or(|last| last.0 >= time) {
                    return Err(fails("a time after the last step, of a millisecond at least, is expected"));
                }
                period_ns = Some(time);
                continue;
            }
            match steps.last() {
                None if time != 0 => return Err(fails("the first time is expected to be 0")),
                Some(last) if last.0 >= time => return Err(fails("a time after the one before is expected")),
                _ => steps.push((time, bits_per_second(rate.trim()).map_err(fails)?)),
            }
        }
        if steps.is_empty() || (period_ns.is_some() && steps.iter().all(|step| step.1 == 0)) {
            let why = "a rate above zero is expected somewhere";
            return Err(UnitError::of_file(path, None, why));
        }
        Ok(Self { steps, period_ns })
    }

    /// The rate at `time` and when the next step comes. `hint` is where the last call has found its
    /// answer: time mostly goes on by a step or none.
    pub(crate) fn at(&self, time: Time, hint: &mut usize) -> (u64, Time) {
        let ns = time.as_nanos();
        let (begin, within) = match self.period_ns {
            Some(period) => (ns / period * period, ns % period),
            None => (0, ns),
        };
        let end = |i: usize| self.steps.get(i + 1).map(|next| next.0).or(self.period_ns);
        let holds = |i: usize| {
            self.steps.get(i).is_some_and(|step| step.0 <= within) && end(i).is_none_or(|end| within < end)
        };
        if !holds(*hint) {
            *hint += 1;
            if !holds(*hint) {
                *hint = self.steps.partition_point(|step| step.0 <= within) - 1;
            }
        }
        let end = end(*hint).map_or(Time::MAX, |end| Time::from_nanos(begin.saturating_add(end)));
        (self.steps[*hint].1, end)
    }

    fn mean_bps(&self) -> u64 {
        let Some(period) = self.period_ns else { return self.steps.last().map_or(0, |last| last.1) };
        let ends = self.steps.iter().skip(1).map(|step| step.0).chain([period]);
        let sum: u128 = self
            .steps
            .iter()
            .zip(ends)
            .map(|(step, end)| u128::from(end - step.0) * u128::from(step.1))
            .sum();
        (sum / u128::from(period)).saturated::<u64>()
    }
}

/// A rate, or 0. Without a unit it could be bits per second as well as a million times that.
fn bits_per_second(text: &str) -> Result<u64, &'static str> {
    match units::rate(text) {
        Ok(rate) => Ok(rate),
        Err(_) if text == "0" => Ok(0),
        Err(_) if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => Err(UNIT),
        Err(_) => Err(STEP),
    }
}

/// Bytes that may leave at once, and those that each packet has on top of its own (mahimahi's
/// `PACKET_SIZE`, and the header of the TUN device that it reads packets from).
pub(crate) const OPPORTUNITY: u64 = 1504;
pub(crate) const TUN_HEADER: u64 = 4;

const KINDS: &str = "one whole number of milliseconds, or a time in seconds and a rate are expected";
const UNIT: &str = "the unit of the rate is missing; write it, as in `10mbit` or, if it is that, `10bit`";
const STEP: &str =
    "a time in seconds and a rate are expected, like `2.5 10mbit`, or `SECONDS repeat` at the end";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_explained_with_their_line() {
        let says = |text: &str| RateTrace::parse("x.trace", text).unwrap_err().to_string();
        assert_eq!(
            says("1\n# two\n\n2 # three\n1\n"),
            "`x.trace`, line 5, `1`: a time that is not below the one before is expected"
        );
        assert!(says("5\nfive").starts_with("`x.trace`, line 2, `five`: a whole number of milliseconds"));
        assert!(says("").contains("no line"));
        assert!(says("0\n0").contains("its last time is zero"));
        assert!(says("1 2 3").contains("one whole number"));
        assert!(says("1 10mbit").contains("expected to be 0"));
        assert!(says("0 10mbit\n0 2mbit").contains("after the one before"));
        assert!(says("0 fast").contains("like `2.5 10mbit`"));
        assert!(says("0 1mbit\n1").contains("line 2"));
        for bare in ["0 10", "0 10000000", "0 2.5"] {
            assert!(says(bare).contains("`10mbit` or, if it is that, `10bit`"), "{bare}");
        }
        assert!(says("0 0\n1 repeat").contains("above zero"));
        assert!(says("0 1mbit\n1 repeat\n2 1mbit").contains("behind the line"));
        assert!(says("0 1mbit\n0.0001 repeat").contains("a millisecond at least"));
        assert!(says("0 1mbit\n99999999999999999999 1mbit").contains("line 2"));
        let missing = RateTrace::read("/nowhere/at all").unwrap_err().to_string();
        assert!(missing.starts_with("`/nowhere/at all`: it cannot be opened"), "{missing}");
        assert!(RateTrace::read("/dev/zero").unwrap_err().to_string().contains("longer than 64 MiB"));
    }

    #[test]
    fn means() {
        let mean = |text: &str| RateTrace::parse("", text).unwrap().mean_bps();
        // 12 Mbit/s and a little: 1504 bytes a millisecond.
        assert_eq!(mean("1"), 12_032_000);
        assert_eq!(mean("1\n1\n4"), 9_024_000);
        assert_eq!(mean("0 1000bit\n1 4kbit\n3 repeat"), 3000);
        assert_eq!(mean("0 1000bit\n1 2kbit"), 2000);
    }

    #[test]
    fn steps_are_found_from_anywhere() {
        let trace = RateTrace::parse("", "0 1bit\n1 2bit\n2 3bit\n5 4bit\n6 repeat").unwrap();
        let RateShape::Steps(steps) = trace.shape() else { panic!("steps") };
        let second = |s: u64| Time::from_millis(s * 1000);
        for hint in 0..6 {
            let at = |s| steps.at(second(s), &mut hint.clone());
            assert_eq!(at(0), (1, second(1)));
            assert_eq!(at(4), (3, second(5)));
            assert_eq!(at(5), (4, second(6)));
            assert_eq!(at(6), (1, second(7)));
            assert_eq!(at(6_000_003), (3, second(6_000_005)));
        }
    }
}
