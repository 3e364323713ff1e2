use quickset_base::number::{Float as _, Unsigned as _};

use crate::report::text::{number, on_axis};

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scale {
    /// From zero on, with a line every `step`.
    Linear { to: f64, step: f64 },
    /// A stretch far from zero, with a line every `step`.
    Stretch { from: f64, to: f64, step: f64 },
    /// With a line at every power of ten.
    Logarithmic { from: f64, to: f64 },
    /// From 0 to 100 %.
    Share,
    /// From a small share to 100 %, with a line at every power of ten.
    SmallShare { from: f64 },
    /// Places with a name each, at 0.5, 1.5, and so on.
    Places(Vec<String>),
}

impl Scale {
    /// A linear scale that reaches `longest` at least, with four to eight lines.
    pub(crate) fn linear(longest: f64) -> Self {
        Self::with_lines(longest, 8.0)
    }

    /// A linear scale that reaches `longest` at least, with so many lines at most, four or more.
    pub(crate) fn with_lines(longest: f64, most: f64) -> Self {
        let longest = if longest.is_finite() { longest.clamp(1e-3, 1e15) } else { 1.0 };
        let magnitude = 10f64.powf(longest.log10().floor());
        let steps = [0.2, 0.25, 0.5, 1.0, 2.0, 2.5].map(|step| step * magnitude);
        let step = steps.into_iter().find(|step| longest / step <= most).unwrap_or(magnitude * 2.5);
        Self::Linear { to: (longest / step).ceil() * step, step }
    }

    /// A linear scale from zero, or, of values that are near each other, of just where they are.
    pub(crate) fn around(least: f64, most: f64) -> Self {
        if !(least > most * 0.5 && most.is_finite()) {
            return Self::with_lines(most, 5.0);
        }
        // What is all the same is not looked at through a microscope.
        let Self::Linear { step, .. } = Self::with_lines((most - least).max(most * 0.02), 5.0) else {
            return Self::with_lines(most, 5.0);
        };
        let (from, to) = ((least / step).floor() * step, (most / step).ceil() * step);
        Self::Stretch { from: if to - from < step / 2.0 { from - step } else { from }, to, step }
    }

    /// The powers of ten around these.
    pub(crate) fn logarithmic(least: f64, most: f64) -> Self {
        let [least, most] =
            [least, most].map(|value| if value > 0.0 { value.clamp(1e-12, 1e15) } else { 1e-3 });
        let (from, to) = (least.log10().floor(), most.log10().ceil());
        Self::Logarithmic { from: 10f64.powf(from), to: 10f64.powf(to.max(from + 1.0)) }
    }

    pub(super) fn end(&self) -> f64 {
        match self {
            Self::Linear { to, .. } | Self::Stretch { to, .. } | Self::Logarithmic { to, .. } => *to,
            Self::Share | Self::SmallShare { .. } => 1.0,
            Self::Places(names) => names.len().approx(),
        }
    }

    /// Where a value lies, from 0 to 1.
    pub(super) fn part(&self, value: f64) -> f64 {
        let part = match self {
            Self::Logarithmic { from, to } => (value.max(*from) / from).log10() / (to / from).log10(),
            Self::Stretch { from, to, .. } => (value - from) / (to - from),
            Self::SmallShare { from } => (value.max(*from) / from).log10() / from.recip().log10(),
            scale => value / scale.end().max(f64::MIN_POSITIVE),
        };
        if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) }
    }

    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let numbered = |value: f64| (value, number(value));
        match self {
            Self::Linear { to, step } => {
                let line = |n: u32| f64::from(n) * step;
                let short = |text: String| {
                    let digits = if text.contains('.') { text.trim_end_matches('0') } else { &text };
                    digits.trim_end_matches('.').to_owned()
                };
                (0..=(to / step).round().whole::<u32>())
                    .map(|n| (line(n), short(on_axis(line(n), *step))))
                    .collect()
            }
            Self::Stretch { from, to, step } => (0..=((to - from) / step).round().whole::<u32>())
                .map(|n| {
                    let value = from + f64::from(n) * step;
                    (value, on_axis(value, *step))
                })
                .collect(),
            Self::Logarithmic { from, to } => {
                let (first, last) = (decade(*from), decade(*to));
                (first..=last).map(|n| numbered(10f64.powi(n))).collect()
            }
            Self::Share => (0..=100)
                .step_by(20)
                .map(|percent| (f64::from(percent) / 100.0, format!("{percent} %")))
                .collect(),
            Self::SmallShare { from } => (decade(*from)..=0)
                .map(|n| (10f64.powi(n), format!("{} %", number(10f64.powi(n + 2)))))
                .collect(),
            Self::Places(names) => {
                names.iter().enumerate().map(|(n, name)| (n.approx() + 0.5, name.clone())).collect()
            }
        }
    }
}

/// The power of ten that is nearest on a logarithmic axis.
fn decade(value: f64) -> i32 {
    i32::try_from(value.log10().round().integer()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_reach_far_enough_with_few_lines() {
        for longest in [0.0, 0.4, 3.0, 99.9, 100.0, 120.0, 204.0, 430.0, 2600.0] {
            for (scale, most) in [(Scale::linear(longest), 9), (Scale::with_lines(longest, 5.0), 6)] {
                assert!(scale.end() >= longest, "{longest}: {scale:?}");
                assert!((2..=most).contains(&scale.ticks().len()), "{longest}: {:?}", scale.ticks());
            }
        }
        let decades = Scale::Logarithmic { from: 0.01, to: 100.0 }.ticks();
        assert_eq!(decades.len(), 5);
        assert_eq!(Scale::logarithmic(0.02, 55.0), Scale::Logarithmic { from: 0.01, to: 100.0 });
        assert_eq!(Scale::around(100.0, 100.0), Scale::Stretch { from: 99.5, to: 100.0, step: 0.5 });
        for (least, most) in [(5.1, 5.3), (100.0, 100.0), (0.0, 3.0)] {
            let scale = Scale::around(least, most);
            assert!((0.0..=1.0).contains(&scale.part(least)), "{scale:?}");
            assert!(scale.end() >= most && (2..=8).contains(&scale.ticks().len()), "{scale:?}");
        }
        // What stands at a line is where the line is.
        for scale in [
            Scale::around(5.13, 5.24),
            Scale::around(0.997, 1.0),
            Scale::with_lines(0.12, 5.0),
            Scale::with_lines(1e-3, 5.0),
            Scale::linear(204.0),
            Scale::logarithmic(2e-5, 3e-3),
        ] {
            for (at, label) in scale.ticks() {
                let told: f64 = label.parse().unwrap();
                assert!((told - at).abs() <= at.abs() * 1e-9, "{at} is labelled {label}: {scale:?}");
            }
        }
        for odd in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            let _ = (
                Scale::around(odd, odd).ticks(),
                Scale::linear(odd).ticks(),
                Scale::logarithmic(odd, odd).ticks(),
            );
        }
    }
}
