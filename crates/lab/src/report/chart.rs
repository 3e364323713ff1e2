//! Figures as SVG, without scripts: axes, curves of distributions, lines, dots and boxes.

use std::fmt::Write as _;

use super::text::{escaped, number, on_axis};

/// A figure: axes, and what lies between them.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
    /// An upright line at a value, and what it means.
    pub(crate) mark: Option<(f64, &'a str)>,
    pub(crate) frame: Frame,
}

/// Something drawn in one colour.
pub(crate) struct Curve<'a> {
    /// Its classes for styles.
    pub(crate) class: &'a str,
    /// What a pointer that rests on it is told.
    pub(crate) hover: String,
    pub(crate) shape: Shape,
}

/// What is drawn.
pub(crate) enum Shape {
    /// A cumulative distribution: values in rising order, each with the share of all that are at most as great.
    Steps(Vec<(f64, f64)>),
    /// Of the same the rest: the share that is greater.
    Tail(Vec<(f64, f64)>),
    /// A line from one to the next.
    Line(Vec<(f64, f64)>),
    /// A dot each.
    Dots(Vec<(f64, f64)>),
    /// At a place along: the 5th, 25th, 50th, 75th and 95th percentile; boxes have this width.
    Boxes(Vec<(f64, [f64; 5])>, f64),
}

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

/// How large a figure is, and what of it is inside its axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Smaller movements are not drawn.
    fine: f64,
}

/// Two stand beside each other.
pub(crate) const WIDE: Frame =
    Frame { width: 540.0, height: 360.0, left: 62.0, right: 518.0, top: 62.0, bottom: 302.0, fine: 0.1 };
/// Three stand beside each other.
pub(crate) const SMALL: Frame =
    Frame { width: 352.0, height: 268.0, left: 62.0, right: 336.0, top: 58.0, bottom: 214.0, fine: 0.4 };

impl Chart<'_> {
    /// The figure; with `keys`, each curve's class is named in its colour.
    pub(crate) fn svg(&self, curves: &[Curve<'_>], keys: bool) -> String {
        let Frame { width, height, .. } = self.frame;
        let title = escaped(self.title);
        let mut svg = format!(
            "<svg viewBox='0 0 {width} {height}' role=img aria-label='{title}: {y_label}'>\
             <text class=title x=20 y=28{squeezed}>{title}</text><text x=20 y=48>{y_label}</text>",
            y_label = escaped(self.y_label),
            squeezed = squeezed(self.title, width - 40.0)
        );
        self.axes(&mut svg);
        for curve in curves {
            self.draw(&mut svg, curve);
        }
        if keys {
            let mut x = width - 20.0;
            for curve in curves.iter().rev() {
                let _ =
                    write!(svg, "<text class='key {0}' x={x} y=28 text-anchor=end>{0}</text>", curve.class);
                x -= curve.class.len() as f64 * 7.5 + 16.0;
            }
        }
        svg.push_str("</svg>");
        svg
    }

    fn axes(&self, svg: &mut String) {
        let Frame { left, right, top, bottom, .. } = self.frame;
        for (tick, label) in self.y.ticks() {
            let y = self.y_of(tick);
            let _ = write!(
                svg,
                "<line class=grid x1={left} x2={right} y1={y:.1} y2={y:.1} />\
                 <text x={} y={:.1} text-anchor=end>{}</text>",
                left - 8.0,
                y + 4.0,
                escaped(&label)
            );
        }
        for (tick, label) in self.x.ticks() {
            let x = self.x_of(tick);
            if !matches!(self.x, Scale::Places(_)) {
                let _ = write!(svg, "<line class=grid x1={x:.1} x2={x:.1} y1={top} y2={bottom} />");
            }
            let _ = write!(
                svg,
                "<text x={x:.1} y={} text-anchor=middle>{}</text>",
                bottom + 20.0,
                escaped(&label)
            );
        }
        if let Some((value, meaning)) = self.mark.filter(|(value, _)| *value < self.x.end()) {
            let x = self.x_of(value);
            // To the left of the line where there is room.
            let (at, anchor) =
                if x - left > meaning.len() as f64 * 7.0 { (x - 6.0, "end") } else { (x + 6.0, "start") };
            let _ = write!(
                svg,
                "<line class=mark x1={x:.1} x2={x:.1} y1={top} y2={bottom} />\
                 <text x={at:.1} y={} text-anchor={anchor}>{}</text>",
                bottom - 10.0,
                escaped(meaning)
            );
        }
        let _ = write!(
            svg,
            "<text x={} y={} text-anchor=middle>{}</text>",
            f64::midpoint(left, right),
            bottom + 42.0,
            escaped(self.x_label)
        );
    }

    fn draw(&self, svg: &mut String, curve: &Curve<'_>) {
        let (kind, path) = match &curve.shape {
            Shape::Steps(steps) => ("curve", self.steps(0.0, steps.iter().copied())),
            Shape::Tail(steps) => {
                ("curve", self.steps(1.0, steps.iter().map(|(value, share)| (*value, 1.0 - share))))
            }
            Shape::Line(points) => ("line", self.line(points)),
            Shape::Dots(points) => ("dots", self.dots(points)),
            Shape::Boxes(boxes, width) => ("box", self.boxes(boxes, *width)),
        };
        let _ = write!(svg, "<path class='{kind} {}' d='{path}'>", curve.class);
        if !curve.hover.is_empty() {
            let _ = write!(svg, "<title>{}</title>", escaped(&curve.hover));
        }
        svg.push_str("</path>");
    }

    /// Steps to the right, and up or down, ending at the right edge. On an axis of powers of ten nothing lies below the
    /// lowest: a curve that gets there ends, and does not go on as if so much were left.
    fn steps(&self, begin: f64, steps: impl Iterator<Item = (f64, f64)>) -> String {
        let Frame { left, right, fine, .. } = self.frame;
        let mut last = (left, self.y_of(begin));
        let mut path = format!("M{left:.1} {:.1}", last.1);
        for (value, share) in steps {
            let (x, y) = (self.x_of(value), self.y_of(share));
            let is_end = matches!(self.y, Scale::SmallShare { from } if share <= from);
            // What is beyond the right edge is beyond the figure.
            if value > self.x.end() {
                break;
            }
            if x - last.0 >= fine {
                let _ = write!(path, "H{x:.1}");
                last.0 = x;
            }
            if (last.1 - y).abs() >= fine {
                let _ = write!(path, "V{y:.1}");
                last.1 = y;
            }
            if is_end {
                return path;
            }
        }
        let _ = write!(path, "H{right:.1}");
        path
    }

    fn line(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for (x, y) in points {
            let letter = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {:.1}", self.x_of(*x), self.y_of(*y));
        }
        path
    }

    /// Lines of no length, with round ends.
    fn dots(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "M{:.1} {:.1}h0", self.x_of(*x), self.y_of(*y));
        }
        path
    }

    fn boxes(&self, boxes: &[(f64, [f64; 5])], width: f64) -> String {
        let mut path = String::new();
        for (at, quantiles) in boxes {
            let x = self.x_of(*at);
            let [low, first, median, third, high] = quantiles.map(|value| self.y_of(value));
            let _ = write!(path, "M{x:.1} {low:.1}V{first:.1}M{x:.1} {third:.1}V{high:.1}");
            let from = x - width / 2.0;
            let _ = write!(path, "M{from:.1} {first:.1}h{width:.1}V{third:.1}h-{width:.1}z");
            let _ = write!(path, "M{from:.1} {median:.1}h{width:.1}");
        }
        path
    }

    /// How wide boxes may be so that `lanes` stand beside each other in each of `places`.
    pub(crate) fn box_width(frame: Frame, places: usize, lanes: usize) -> f64 {
        ((frame.right - frame.left) / (places.max(1) * lanes.max(1)) as f64 * 0.6).clamp(1.5, 14.0)
    }

    fn x_of(&self, value: f64) -> f64 {
        self.frame.left + self.x.part(value) * (self.frame.right - self.frame.left)
    }

    fn y_of(&self, value: f64) -> f64 {
        self.frame.bottom - self.y.part(value) * (self.frame.bottom - self.frame.top)
    }
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
        let Self::Linear { step, .. } = Self::with_lines((most - least).max(most * 1e-3), 5.0) else {
            return Self::with_lines(most, 5.0);
        };
        Self::Stretch { from: (least / step).floor() * step, to: (most / step).ceil() * step, step }
    }

    /// The powers of ten around these.
    pub(crate) fn logarithmic(least: f64, most: f64) -> Self {
        let [least, most] =
            [least, most].map(|value| if value > 0.0 { value.clamp(1e-12, 1e15) } else { 1e-3 });
        let (from, to) = (least.log10().floor(), most.log10().ceil());
        Self::Logarithmic { from: 10f64.powf(from), to: 10f64.powf(to.max(from + 1.0)) }
    }

    fn end(&self) -> f64 {
        match self {
            Self::Linear { to, .. } | Self::Stretch { to, .. } | Self::Logarithmic { to, .. } => *to,
            Self::Share | Self::SmallShare { .. } => 1.0,
            Self::Places(names) => names.len() as f64,
        }
    }

    /// Where a value lies, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let part = match self {
            Self::Logarithmic { from, to } => (value.max(*from) / from).log10() / (to / from).log10(),
            Self::Stretch { from, to, .. } => (value - from) / (to - from),
            Self::SmallShare { from } => (value.max(*from) / from).log10() / from.recip().log10(),
            scale => value / scale.end().max(f64::MIN_POSITIVE),
        };
        if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let numbered = |value: f64| (value, number(value));
        match self {
            Self::Linear { to, step } => {
                let line = |n: u32| f64::from(n) * step;
                let short = |text: String| {
                    let digits = if text.contains('.') { text.trim_end_matches('0') } else { &text };
                    digits.trim_end_matches('.').to_owned()
                };
                (0..=(to / step).round() as u32).map(|n| (line(n), short(on_axis(line(n), *step)))).collect()
            }
            Self::Stretch { from, to, step } => (0..=((to - from) / step).round() as u32)
                .map(|n| {
                    let value = from + f64::from(n) * step;
                    (value, on_axis(value, *step))
                })
                .collect(),
            Self::Logarithmic { from, to } => {
                let (first, last) = (from.log10().round() as i32, to.log10().round() as i32);
                (first..=last).map(|n| numbered(10f64.powi(n))).collect()
            }
            Self::Share => (0..=100)
                .step_by(20)
                .map(|percent| (f64::from(percent) / 100.0, format!("{percent} %")))
                .collect(),
            Self::SmallShare { from } => (from.log10().round() as i32..=0)
                .map(|n| (10f64.powi(n), format!("{} %", number(10f64.powi(n + 2)))))
                .collect(),
            Self::Places(names) => {
                names.iter().enumerate().map(|(n, name)| (n as f64 + 0.5, name.clone())).collect()
            }
        }
    }
}

/// What has a title that is too long for its figure stand in it nevertheless: cut off, two may be the same.
fn squeezed(title: &str, width: f64) -> String {
    if title.chars().count() as f64 * LETTER <= width {
        return String::new();
    }
    format!(" textLength={width} lengthAdjust=spacingAndGlyphs")
}

/// How wide a letter of a title is, at the most and on average.
const LETTER: f64 = 9.0;

/// Sorted values, equal ones once, each with the share of all that are at most as great.
pub(crate) fn shares(values: &[f64]) -> Vec<(f64, f64)> {
    let n = values.len() as f64;
    (0..values.len())
        .filter(|i| values.get(i + 1).is_none_or(|next| *next > values[*i]))
        .map(|i| (values[i], (i + 1) as f64 / n))
        .collect()
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
        for (least, most) in [(5.1, 5.3), (100.0, 100.0), (0.0, 3.0)] {
            let scale = Scale::around(least, most);
            assert!(scale.part(least) >= 0.0 && scale.part(least) < 1.0, "{scale:?}");
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

    fn chart(x: Scale, y: Scale) -> Chart<'static> {
        Chart { title: "t", x_label: "x", y_label: "y", x, y, mark: None, frame: WIDE }
    }

    #[test]
    fn curves_rise_to_the_share_of_each_value() {
        let steps = shares(&[0.0, 0.0, 0.0, 5.0]);
        assert_eq!(steps, [(0.0, 0.75), (5.0, 1.0)]);
        let chart = chart(Scale::Linear { to: 10.0, step: 5.0 }, Scale::Share);
        // Up to three quarters at the left edge, then to the middle and up, then out.
        let Frame { left, right, top, bottom, .. } = WIDE;
        let height = bottom - top;
        let (quarter, middle) = (bottom - height * 0.75, f64::midpoint(left, right));
        let expected = format!("M{left:.1} {bottom:.1}V{quarter:.1}H{middle:.1}V{top:.1}H{right:.1}");
        assert_eq!(chart.steps(0.0, steps.iter().copied()), expected);
    }

    #[test]
    fn tails_fall_by_powers_of_ten() {
        let chart = chart(Scale::Linear { to: 10.0, step: 5.0 }, Scale::SmallShare { from: 0.001 });
        assert_eq!(
            chart.y.ticks().iter().map(|tick| tick.1.as_str()).collect::<Vec<_>>(),
            ["0.1 %", "1 %", "10 %", "100 %"]
        );
        // One in ten is longer than five: a third of the way down; none is longer than ten.
        let Frame { left, right, top, bottom, .. } = WIDE;
        let (third, middle) = (top + (bottom - top) / 3.0, f64::midpoint(left, right));
        let path = chart.steps(1.0, [(5.0, 0.1), (10.0, 0.0)].into_iter());
        assert_eq!(path, format!("M{left:.1} {top:.1}H{middle:.1}V{third:.1}H{right:.1}V{bottom:.1}"));
        // None is longer than five: nothing goes on to ten, at the height of one in a thousand.
        let path = chart.steps(1.0, [(5.0, 0.0)].into_iter());
        assert_eq!(path, format!("M{left:.1} {top:.1}H{middle:.1}V{bottom:.1}"));
        let path = chart.steps(1.0, [(5.0, 0.1)].into_iter());
        assert_eq!(path, format!("M{left:.1} {top:.1}H{middle:.1}V{third:.1}H{right:.1}"));
    }

    #[test]
    fn titles_stay_within_their_figures() {
        let svg = |title| Chart { title, frame: SMALL, ..chart(Scale::Share, Scale::Share) }.svg(&[], false);
        assert!(svg("window of 150 kB, repair by adaptive:bulk").contains("textLength=312 "));
        assert!(!svg("window of 150 kB, without repair").contains("textLength"));
    }

    #[test]
    fn dots_and_boxes_lie_where_their_values_are() {
        let chart =
            chart(Scale::Places(vec!["a".into(), "b".into()]), Scale::Linear { to: 100.0, step: 50.0 });
        let Frame { left, right, top, bottom, .. } = WIDE;
        let (x, middle) = (left + (right - left) * 0.25, f64::midpoint(top, bottom));
        assert_eq!(chart.dots(&[(0.5, 50.0)]), format!("M{x:.1} {middle:.1}h0"));
        let drawn = chart.boxes(&[(0.5, [0.0, 25.0, 50.0, 75.0, 100.0])], 9.0);
        assert!(drawn.starts_with(&format!("M{x:.1} {bottom:.1}V")), "{drawn}");
        assert!(drawn.contains(&format!("V{top:.1}")), "{drawn}");
        assert!(drawn.ends_with(&format!("M{:.1} {middle:.1}h9.0", x - 4.5)), "{drawn}");
    }
}
