use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use quickset_base::number::{Float as _, Unsigned};

use super::{Chart, ChartCurve, ChartFrame, ChartMark, ChartShape, HeatCell, Scale};
use crate::report::text::{escaped, number};

impl Chart {
    /// The figure; with `keys`, each curve's class is named in its colour.
    pub(crate) fn svg(&self, keys: bool) -> String {
        let ChartFrame { width, height, .. } = self.frame;
        let mut svg = format!(
            "<svg viewBox='0 0 {width} {height}' role=img aria-label='{}: {}'>",
            escaped(&self.title),
            escaped(&self.y_label)
        );
        self.heading(&mut svg);
        self.axes(&mut svg);
        for curve in &self.curves {
            self.draw(&mut svg, curve);
        }
        // Above what is drawn: a line of a figure is of no use where it hides the text that says what it is.
        for mark in &self.marks {
            self.mark(&mut svg, mark);
        }
        if keys {
            let mut x = width - 20.0;
            for curve in self.curves.iter().rev() {
                let _ =
                    write!(svg, "<text class='key {0}' x={x} y=28 text-anchor=end>{0}</text>", curve.class);
                x -= curve.class.len().approx() * 7.5 + 16.0;
            }
        }
        svg.push_str("</svg>");
        svg
    }

    /// Title and label of the axis up. A title that is too long for a line has two, and is squeezed if that
    /// is not enough: cut off, two may be the same.
    fn heading(&self, svg: &mut String) {
        let room = self.frame.width - 40.0;
        let (first, second) = in_lines(&self.title, room);
        let tops = if second.is_empty() { [28.0, 0.0, 48.0] } else { [17.0, 33.0, 48.0] };
        for (line, y) in [first, second].into_iter().zip(tops).filter(|(line, _)| !line.is_empty()) {
            let squeezed = squeezed(length(line), room);
            let _ = write!(svg, "<text class=title x=20 y={y}{squeezed}>{}</text>", escaped(line));
        }
        let _ = write!(svg, "<text x=20 y={}>{}</text>", tops[2], escaped(&self.y_label));
    }

    fn axes(&self, svg: &mut String) {
        let ChartFrame { left, right, top, bottom, .. } = self.frame;
        for (tick, label) in self.y.ticks() {
            let y = self.y_of(tick);
            if !matches!(self.y, Scale::Places(_)) {
                let _ = write!(svg, "<line class=grid x1={left} x2={right} y1={y:.1} y2={y:.1} />");
            }
            let _ = write!(
                svg,
                "<text x={} y={:.1} text-anchor=end>{}</text>",
                left - 8.0,
                y + 4.0,
                escaped(&label)
            );
        }
        let ticks = self.x.ticks();
        // Names that would run into each other stand in two rows, or are not all told.
        let widest = ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0).approx();
        let every =
            ((widest * DIGIT + 8.0) * ticks.len().approx() / (right - left)).ceil().max(1.0).whole::<usize>();
        for (n, (tick, label)) in ticks.into_iter().enumerate() {
            let x = self.x_of(tick);
            if !matches!(self.x, Scale::Places(_)) {
                let _ = write!(svg, "<line class=grid x1={x:.1} x2={x:.1} y1={top} y2={bottom} />");
            }
            let y = if every == 2 { bottom + 14.0 + 13.0 * (n % 2).approx() } else { bottom + 20.0 };
            if every <= 2 || n % every == 0 {
                let _ = write!(svg, "<text x={x:.1} y={y} text-anchor=middle>{}</text>", escaped(&label));
            }
        }
        // What is wider than the axis is in the middle of the figure.
        let wide = self.x_label.chars().count().approx() * DIGIT;
        let room = self.frame.width - 24.0;
        let middle = if wide > right - left { self.frame.width / 2.0 } else { f64::midpoint(left, right) };
        let _ = write!(
            svg,
            "<text x={middle} y={} text-anchor=middle{}>{}</text>",
            bottom + 44.0,
            squeezed(wide, room),
            escaped(&self.x_label)
        );
    }

    fn mark(&self, svg: &mut String, mark: &ChartMark) {
        let ChartFrame { left, right, top, bottom, .. } = self.frame;
        match mark {
            ChartMark::Along(value, meaning) if *value < self.x.end() => {
                let x = self.x_of(*value);
                // To the left of the line where there is room.
                let (at, anchor) = if x - left > meaning.len().approx() * 7.0 {
                    (x - 6.0, "end")
                } else {
                    (x + 6.0, "start")
                };
                let _ = write!(
                    svg,
                    "<line class=mark x1={x:.1} x2={x:.1} y1={top} y2={bottom} />\
                     <text class=told x={at:.1} y={} text-anchor={anchor}>{}</text>",
                    bottom - 10.0,
                    escaped(meaning)
                );
            }
            ChartMark::Up(value, meaning) if *value < self.y.end() => {
                let y = self.y_of(*value);
                let _ = write!(
                    svg,
                    "<line class=mark x1={left} x2={right} y1={y:.1} y2={y:.1} />\
                     <text class=told x={} y={:.1} text-anchor=end>{}</text>",
                    right - 6.0,
                    y - 5.0,
                    escaped(meaning)
                );
            }
            _ => {}
        }
    }

    fn draw(&self, svg: &mut String, curve: &ChartCurve) {
        let (kind, path) = match &curve.shape {
            ChartShape::Steps(steps) => ("curve", self.steps(0.0, steps.iter().copied())),
            ChartShape::Tail(steps) => {
                ("curve", self.steps(1.0, steps.iter().map(|(value, share)| (*value, 1.0 - share))))
            }
            ChartShape::Line(points) => ("line", self.line(points)),
            ChartShape::Dots(points) => ("dots", self.dots(points)),
            ChartShape::Cloud(points) => ("cloud", self.cloud(points)),
            ChartShape::Boxes(boxes, width) => ("box", self.boxes(boxes, *width)),
            ChartShape::Blocks(blocks, width) => ("block", self.blocks(blocks, *width)),
            ChartShape::Upright(value) => ("upright", self.upright(*value)),
            ChartShape::Cells(cells) => return self.cells(svg, cells),
        };
        let _ = write!(svg, "<path class='{kind} {}' d='{path}'>", curve.class);
        if !curve.hover.is_empty() {
            let _ = write!(svg, "<title>{}</title>", escaped(&curve.hover));
        }
        svg.push_str("</path>");
    }

    /// Steps to the right, and up or down, ending at the right edge. On an axis of powers of ten nothing lies
    /// below the lowest: a curve that gets there ends, and does not go on as if so much were left.
    pub(super) fn steps(&self, begin: f64, steps: impl Iterator<Item = (f64, f64)>) -> String {
        let ChartFrame { left, right, fine, .. } = self.frame;
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
    pub(super) fn dots(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "M{:.1} {:.1}h0", self.x_of(*x), self.y_of(*y));
        }
        path
    }

    /// Dots by the place that they have on a grid of a unit: of those above each other a line.
    pub(super) fn cloud(&self, courses: &[Vec<(f64, f64)>]) -> String {
        let mut columns: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for (x, y) in courses.iter().flat_map(|course| dotted(course)) {
            let [x, y] = [self.x_of(x), self.y_of(y)].map(|at| at.round().integer());
            columns.entry(x).or_default().insert(y);
        }
        let mut path = String::new();
        for (x, rows) in columns {
            let rows: Vec<i64> = rows.into_iter().collect();
            for run in rows.chunk_by(|a, b| a + 1 == *b) {
                let _ = write!(path, "M{x} {}v{}", run[0], run.len() - 1);
            }
        }
        path
    }

    pub(super) fn boxes(&self, boxes: &[(f64, [f64; 5])], width: f64) -> String {
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

    pub(super) fn blocks(&self, blocks: &[(f64, [f64; 2])], width: f64) -> String {
        let mut path = String::new();
        for (at, ends) in blocks {
            let [low, high] = ends.map(|end| self.y_of(end));
            let from = self.x_of(*at) - width / 2.0;
            let _ = write!(path, "M{from:.1} {low:.1}h{width:.1}V{high:.1}h-{width:.1}z");
        }
        path
    }

    fn upright(&self, value: f64) -> String {
        format!("M{:.1} {:.1}V{:.1}", self.x_of(value), self.frame.top, self.frame.bottom)
    }

    /// Squares that lie edge to edge, each with its value.
    fn cells(&self, svg: &mut String, cells: &[HeatCell]) {
        for cell in cells {
            let [x, y] = [cell.x, cell.y].map(Unsigned::approx);
            let (from, to) = (self.x_of(x), self.x_of(x + 1.0));
            let (low, high) = (self.y_of(y), self.y_of(y + 1.0));
            let side = if cell.tint < 0.0 { "bad" } else { "good" };
            let _ = write!(
                svg,
                "<path class='cell {side}' fill-opacity={:.2} d='M{:.1} {:.1}h{:.1}v{:.1}h-{:.1}z'></path>\
                 <text class=value x={:.1} y={:.1} text-anchor=middle>{}</text>",
                cell.tint.abs().min(1.0) * 0.85,
                from + 1.0,
                high + 1.0,
                to - from - 2.0,
                low - high - 2.0,
                to - from - 2.0,
                f64::midpoint(from, to),
                f64::midpoint(low, high) + 4.5,
                escaped(&number(cell.value))
            );
        }
    }

    fn x_of(&self, value: f64) -> f64 {
        self.frame.left + self.x.part(value) * (self.frame.right - self.frame.left)
    }

    fn y_of(&self, value: f64) -> f64 {
        self.frame.bottom - self.y.part(value) * (self.frame.bottom - self.frame.top)
    }
}

/// The points of a course at all whole numbers that it reaches.
fn dotted(course: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let between = course.windows(2).flat_map(|pair| {
        let [(from, low), (to, high)] = [pair[0], pair[1]];
        let steps = (to - from).clamp(1.0, MOST_DOTTED).whole::<u32>();
        (0..steps).map(move |n| {
            let part = f64::from(n) / f64::from(steps);
            (from + part * (to - from), low + part * (high - low))
        })
    });
    between.chain(course.last().copied())
}

/// A title in one line, or in two that are about as long as each other.
fn in_lines(title: &str, room: f64) -> (&str, &str) {
    if length(title) <= room {
        return (title, "");
    }
    let middle = title.chars().count() / 2;
    let spaces = title.char_indices().enumerate().filter(|(_, (_, c))| *c == ' ');
    let best = spaces.min_by_key(|(n, _)| n.abs_diff(middle)).map(|(_, (at, _))| at);
    best.map_or((title, ""), |at| (&title[..at], &title[at + 1..]))
}

/// What has text that is too long stand in its room nevertheless.
fn squeezed(length: f64, room: f64) -> String {
    if length > room { format!(" textLength={room} lengthAdjust=spacingAndGlyphs") } else { String::new() }
}

fn length(title: &str) -> f64 {
    title.chars().count().approx() * LETTER
}

/// How wide a letter of a title is, at the most and on average.
const LETTER: f64 = 8.6;
/// The same of what stands at an axis.
const DIGIT: f64 = 7.2;
/// More dots than that a line has no places for.
const MOST_DOTTED: f64 = 1e5;
