use std::num::NonZeroU64;
use std::time::Duration;

/// Ticks of a timeline in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timescale(NonZeroU64);

impl Timescale {
    /// None for 0.
    pub(crate) fn new(per_second: u64) -> Option<Self> {
        NonZeroU64::new(per_second).map(Self)
    }

    /// How long so many ticks take, to the nanosecond below.
    pub(crate) fn time(self, ticks: u64) -> Duration {
        let scale = self.0.get();
        let nanos = u128::from(ticks % scale) * 1_000_000_000 / u128::from(scale);
        Duration::new(ticks / scale, u32::try_from(nanos).expect("a part of a second"))
    }

    /// The first tick that is not before `time`; the last one there is for times beyond.
    pub(crate) fn ticks(self, time: Duration) -> u64 {
        let scale = u128::from(self.0.get());
        let ticks = u128::from(time.as_secs()) * scale
            + (u128::from(time.subsec_nanos()) * scale).div_ceil(1_000_000_000);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// Reads a duration of XML Schema, such as `PT1H2M3.5S`. Years are 365 days and months 30, as players take
/// them. None for what is no duration, is negative, or beyond 64 bits of seconds.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim().strip_prefix('P')?;
    let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
    let mut total = Duration::ZERO;
    let mut fields = 0;
    let parts = [(date, &DATE[..]), (time.unwrap_or(""), &TIME[..])];
    for (mut rest, mut units) in parts {
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (number, unit) = (&rest[..end], rest[end..].chars().next()?);
            let place = units.iter().position(|(name, _)| *name == unit)?;
            total = total.checked_add(field(number, units[place].1, unit == 'S')?)?;
            units = &units[place + 1..];
            rest = &rest[end + unit.len_utf8()..];
            fields += 1;
        }
    }
    // `P` and `PT` are none, and `P1DT` has nothing after its T.
    (fields > 0 && time != Some("")).then_some(total)
}

const DATE: [(char, u64); 3] = [('Y', 365 * 86_400), ('M', 30 * 86_400), ('D', 86_400)];
const TIME: [(char, u64); 3] = [('H', 3600), ('M', 60), ('S', 1)];

/// A number of units of so many seconds; only seconds have a fraction.
fn field(number: &str, seconds: u64, fraction: bool) -> Option<Duration> {
    let (whole, part) = number.split_once('.').map_or((number, ""), |(whole, part)| (whole, part));
    if (number.contains('.') && (!fraction || part.is_empty())) || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos =
        part.bytes().chain(std::iter::repeat(b'0')).take(9).fold(0, |n, b| n * 10 + u32::from(b - b'0'));
    Some(Duration::new(whole.parse::<u64>().ok()?.checked_mul(seconds)?, nanos))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_those_of_xml_schema() {
        let ms = |ms| Some(Duration::from_millis(ms));
        for (text, expected) in [
            ("PT0S", ms(0)),
            ("PT9M56.46S", ms(596_460)),
            ("PT1H2M3.5S", ms(3_723_500)),
            ("P1DT1S", ms(86_401_000)),
            ("P0Y0M0DT0H0M30.000S", ms(30_000)),
            (" PT2M ", ms(120_000)),
            ("P1Y", ms(365 * 86_400_000)),
            ("PT0.0000000019S", Some(Duration::from_nanos(1))),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
        for wrong in [
            "",
            "P",
            "PT",
            "P1DT",
            "-PT1S",
            "PT-1S",
            "PT1",
            "1S",
            "PT1S2M",
            "PT1.5M",
            "PT.S",
            "PT1.S",
            "PT1.2.3S",
            "PT99999999999999999999S",
            "P99999999999999999Y",
            "PT1é",
            "P1S",
            "PTS",
        ] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn ticks_are_found_again(scale in 1..1_000_000_000_u64, tick in 0..u64::MAX) {
            let scale = Timescale::new(scale).expect("it is not 0");
            // A nanosecond is the finest: with coarser ticks the same one, never a later one.
            prop_assert!(scale.ticks(scale.time(tick)) <= tick);
            prop_assert!(scale.ticks(scale.time(tick)) + 1 >= tick);
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = duration(&text);
            let _ = duration(&format!("PT{text}S"));
        }
    }
}
