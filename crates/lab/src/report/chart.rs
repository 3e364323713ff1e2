use std::fmt::Write as _;

use super::words::number;

/// A figure of cumulative distributions: which share of the values is at most x.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    pub(crate) scale: Scale,
    /// An upright line at a value, and what it means.
    pub(crate) mark: Option<(f64, &'a str)>,
}

/// A distribution: its name, which is also its class for styles, and the values in rising order.
pub(crate) struct Curve<'a> {
    pub(crate) class: &'a str,
    pub(crate) values: &'a [f64],
}

/// The horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// From zero on, with a line every `step`.
    Linear { to: f64, step: f64 },
    /// With a line at every power of ten.
    Logarithmic { from: f64, to: f64 },
}

impl Chart<'_> {
    pub(crate) fn svg(&self, curves: &[Curve<'_>]) -> String {
        let mut svg = format!(
            "<svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img aria-label='{title}: cumulative distribution'>\
             <text class=title x=20 y=28>{title}</text><text x=20 y=48>{y_label}</text>",
            title = self.title,
            y_label = self.y_label
        );
        self.axes(&mut svg);
        for curve in curves {
            let _ = write!(svg, "<path class='curve {}' d='{}'/>", curve.class, self.path(curve.values));
        }
        let mut x = f64::from(WIDTH) - 20.0;
        for curve in curves.iter().rev() {
            let _ = write!(svg, "<text class='key {0}' x={x} y=28 text-anchor=end>{0}</text>", curve.class);
            x -= curve.class.len() as f64 * 7.5 + 16.0;
        }
        svg.push_str("</svg>");
        svg
    }

    fn axes(&self, svg: &mut String) {
        for percent in (0..=100).step_by(20) {
            let y = y_of(f64::from(percent) / 100.0);
            let _ = write!(
                svg,
                "<line class=grid x1={LEFT} x2={RIGHT} y1={y} y2={y} /><text x={} y={} text-anchor=end>{percent} %</text>",
                LEFT - 8.0,
                y + 4.0
            );
        }
        for tick in self.scale.ticks() {
            let x = self.x_of(tick);
            let _ = write!(
                svg,
                "<line class=grid x1={x:.1} x2={x:.1} y1={TOP} y2={BOTTOM} />\
                 <text x={x:.1} y={} text-anchor=middle>{}</text>",
                BOTTOM + 20.0,
                number(tick)
            );
        }
        if let Some((value, meaning)) = self.mark.filter(|(value, _)| *value < self.scale.end()) {
            let x = self.x_of(value);
            let _ = write!(
                svg,
                "<line class=mark x1={x:.1} x2={x:.1} y1={TOP} y2={BOTTOM} />\
                 <text x={:.1} y={} text-anchor=end>{meaning}</text>",
                x - 6.0,
                BOTTOM - 10.0
            );
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        let _ =
            write!(svg, "<text x={middle} y={} text-anchor=middle>{}</text>", BOTTOM + 42.0, self.x_label);
    }

    /// Steps to the right and up, ending at the upper right.
    fn path(&self, values: &[f64]) -> String {
        let mut path = format!("M{LEFT:.1} {:.1}", y_of(0.0));
        let mut last = (LEFT, y_of(0.0));
        for (value, share) in steps(values) {
            let (x, y) = (self.x_of(value), y_of(share));
            // What is beyond the right edge is beyond the figure.
            if value > self.scale.end() {
                break;
            }
            // A tenth of a pixel is not seen.
            if x - last.0 >= 0.1 {
                let _ = write!(path, "H{x:.1}");
                last.0 = x;
            }
            if last.1 - y >= 0.1 {
                let _ = write!(path, "V{y:.1}");
                last.1 = y;
            }
        }
        let _ = write!(path, "H{RIGHT:.1}");
        path
    }

    fn x_of(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear { to, .. } => value / to,
            Scale::Logarithmic { from, to } => (value.max(from) / from).log10() / (to / from).log10(),
        };
        LEFT + part.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }
}

impl Scale {
    /// A linear scale that reaches `longest` at least, with four to eight lines.
    pub(crate) fn linear(longest: f64) -> Self {
        let longest = longest.max(1e-3);
        let magnitude = 10f64.powf(longest.log10().floor());
        let steps = [0.2, 0.25, 0.5, 1.0, 2.0].map(|step| step * magnitude);
        let step = steps.into_iter().find(|step| longest / step <= 8.0).unwrap_or(magnitude * 2.0);
        Self::Linear { to: (longest / step).ceil() * step, step }
    }

    fn end(self) -> f64 {
        match self {
            Self::Linear { to, .. } | Self::Logarithmic { to, .. } => to,
        }
    }

    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear { to, step } => {
                (0..=(to / step).round() as u32).map(|n| f64::from(n) * step).collect()
            }
            Self::Logarithmic { from, to } => {
                let (first, last) = (from.log10().round() as i32, to.log10().round() as i32);
                (first..=last).map(|n| 10f64.powi(n)).collect()
            }
        }
    }
}

/// The values, equal ones once, each with the share of all that are at most as great.
fn steps(values: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let n = values.len() as f64;
    (0..values.len())
        .filter(|i| values.get(i + 1).is_none_or(|next| *next > values[*i]))
        .map(move |i| (values[i], (i + 1) as f64 / n))
}

fn y_of(share: f64) -> f64 {
    BOTTOM - share * (BOTTOM - TOP)
}

const WIDTH: u32 = 540;
const HEIGHT: u32 = 360;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 518.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 302.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_reach_far_enough_with_few_lines() {
        for longest in [0.0, 0.4, 3.0, 99.9, 100.0, 120.0, 204.0, 430.0, 2600.0] {
            let scale = Scale::linear(longest);
            assert!(scale.end() >= longest, "{longest}: {scale:?}");
            assert!((2..=9).contains(&scale.ticks().len()), "{longest}: {:?}", scale.ticks());
        }
        let decades = Scale::Logarithmic { from: 0.01, to: 100.0 }.ticks();
        assert_eq!(decades.len(), 5);
    }

    #[test]
    fn curves_rise_to_the_share_of_each_value() {
        assert_eq!(steps(&[0.0, 0.0, 0.0, 5.0]).collect::<Vec<_>>(), [(0.0, 0.75), (5.0, 1.0)]);
        let scale = Scale::Linear { to: 10.0, step: 5.0 };
        let chart = Chart { title: "t", x_label: "x", y_label: "y", scale, mark: None };
        // Up to three quarters at the left edge, then to the middle and up, then out.
        let height = BOTTOM - TOP;
        let (quarter, middle) = (BOTTOM - height * 0.75, f64::midpoint(LEFT, RIGHT));
        let expected = format!("M{LEFT:.1} {BOTTOM:.1}V{quarter:.1}H{middle:.1}V{TOP:.1}H{RIGHT:.1}");
        assert_eq!(chart.path(&[0.0, 0.0, 0.0, 5.0]), expected);
    }
}
