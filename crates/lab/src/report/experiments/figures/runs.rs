//! Panels of many runs, a number of each: distributions over runs, dots, boxes, lines and heat maps.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use quickset_base::number::{Float as _, Unsigned as _};

use super::{Panels, REAL};
use crate::experiment::Value;
use crate::report::chart::{
    Chart, ChartCurve, ChartFrame, ChartMark, ChartShape, HeatCell, SMALL, Scale, WIDE, shares,
};
use crate::report::experiments::finding::world_words;
use crate::report::experiments::run::RunNumbers;
use crate::report::experiments::sheet::ReportSheet;
use crate::report::experiments::words::{self, Better, ReportMeasure, axis};
use crate::report::text::number;

/// The distribution of a number of each run.
pub(super) fn distributions(sheet: &ReportSheet, path: &str, by: &str) -> Vec<Panels> {
    let factor = words::factor(path);
    each(&grouped(sheet, by, &[]), |group| {
        let (mut curves, mut least, mut most) = (Vec::new(), f64::INFINITY, 0.0f64);
        for lane in &group.lanes {
            let mut values: Vec<f64> =
                lane.runs.iter().filter_map(|run| run.number(path)).map(|value| value * factor).collect();
            values.sort_by(f64::total_cmp);
            let (Some(first), Some(last)) = (values.first(), values.last()) else { continue };
            (least, most) = (least.min(*first), most.max(*last));
            let middle = number(values[(values.len() - 1) / 2]);
            let hover = format!("median {middle}, {} runs", values.len());
            curves.push(lane.curve(&hover, ChartShape::Steps(shares(&values))));
        }
        let is_wide = least > 0.0 && most / least > 30.0;
        let mark = words::unity(path).map(|meaning| ChartMark::Along(1.0, meaning));
        if mark.is_some() {
            (least, most) = (least.min(1.0), most.max(1.0));
        }
        (!curves.is_empty()).then(|| Chart {
            title: group.title(),
            x_label: axis(path),
            y_label: "share of runs with at most as much".to_owned(),
            x: if is_wide { Scale::logarithmic(least, most) } else { Scale::around(least, most) },
            y: Scale::Share,
            marks: mark.into_iter().collect(),
            frame: SMALL,
            curves,
        })
    })
}

/// A dot for each run.
pub(super) fn scatter(sheet: &ReportSheet, x: &str, y: &str, by: &str) -> Vec<Panels> {
    let (x_factor, y_factor) = (words::factor(x), words::factor(y));
    each(&grouped(sheet, by, &[]), |group| {
        let (mut curves, mut most, mut least) = (Vec::new(), [0.0f64; 2], [f64::INFINITY; 2]);
        for lane in &group.lanes {
            let place = |run: &&RunNumbers| Some((run.number(x)? * x_factor, run.number(y)? * y_factor));
            let points: Vec<(f64, f64)> = lane.runs.iter().filter_map(place).collect();
            if points.is_empty() {
                continue;
            }
            for (x, y) in &points {
                most = [most[0].max(*x), most[1].max(*y)];
                least = [least[0].min(*x), least[1].min(*y)];
            }
            let mut hover = format!("{} runs", points.len());
            let points = dots(points);
            if points.len() == MOST_DOTS {
                let _ = write!(hover, ", {MOST_DOTS} of them drawn");
            }
            curves.push(lane.curve(&hover, ChartShape::Dots(points)));
        }
        let mark = words::unity(y).map(|meaning| ChartMark::Up(1.0, meaning));
        (!curves.is_empty()).then(|| Chart {
            title: group.title(),
            x_label: axis(x),
            y_label: axis(y),
            x: Scale::around(least[0], most[0]),
            y: Scale::around(least[1], most[1]),
            marks: mark.into_iter().collect(),
            frame: SMALL,
            curves,
        })
    })
}

/// As many of these as can be drawn, of all alike: those that came first may be of a few points alone.
fn dots(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut all: Vec<(u64, (f64, f64))> = points
        .into_iter()
        .enumerate()
        .map(|(n, point)| ((n as u64).wrapping_mul(SCATTERED), point))
        .collect();
    if all.len() > MOST_DOTS {
        all.sort_unstable_by_key(|(place, _)| *place);
        all.truncate(MOST_DOTS);
    }
    all.into_iter().map(|(_, point)| point).collect()
}

/// A box for each value of a key. Few stand beside each other; many have a panel for each alternative, with
/// the medians of what an ordinary transport does in each.
pub(super) fn boxes(sheet: &ReportSheet, path: &str, over: &str, by: &str) -> Vec<Panels> {
    grouped(sheet, by, &[over]).iter().map(|group| boxes_of(sheet, path, over, group)).collect()
}

fn boxes_of(sheet: &ReportSheet, path: &str, over: &str, group: &RunGroup<'_>) -> Panels {
    let there = group.lanes.iter().flat_map(|lane| &lane.runs).filter_map(|run| run.row.params.get(over));
    let bins = Bins::of(over, &sheet.values(over), &there.collect::<Vec<_>>());
    let lanes: Vec<(&RunLane<'_>, Fives)> = group
        .lanes
        .iter()
        .map(|lane| (lane, fives(lane, path, over, &bins)))
        .filter(|(_, fives)| !fives.is_empty())
        .collect();
    let all = || lanes.iter().flat_map(|(_, fives)| fives);
    let lowest = all().map(|(_, five)| five[0]).fold(f64::INFINITY, f64::min);
    let highest = all().map(|(_, five)| five[4]).fold(0.0, f64::max);
    let chart = |title: String, frame: ChartFrame, curves: Vec<ChartCurve>| Chart {
        title,
        x_label: axis(over),
        y_label: axis(path),
        x: Scale::Places(bins.names.clone()),
        y: Scale::around(lowest, highest),
        marks: Vec::new(),
        frame,
        curves,
    };
    let mut panels = Panels { context: group.context.clone(), charts: Vec::new() };
    if bins.names.len() * lanes.len() <= MOST_TOGETHER {
        let width = WIDE.box_width(bins.names.len(), lanes.len());
        let curves = lanes.iter().enumerate().map(|(n, (lane, fives))| {
            // Side by side within four fifths of the place.
            let side = 0.1 + 0.8 * (n.approx() + 0.5) / lanes.len().approx();
            let boxes = fives.iter().map(|(bin, five)| (bin.approx() + side, *five)).collect();
            lane.curve("", ChartShape::Boxes(boxes, width))
        });
        let curves: Vec<ChartCurve> = curves.collect();
        panels.charts.extend((!curves.is_empty()).then(|| chart(group.title(), WIDE, curves)));
        return panels;
    }
    let reference = sheet.reference().map(|n| sheet.alternative(n));
    let reference = lanes.iter().find(|(lane, _)| Some(&lane.name) == reference.as_ref());
    let width = SMALL.box_width(bins.names.len(), 1);
    for (lane, fives) in &lanes {
        let mut curves = Vec::new();
        if let Some((other, medians)) = reference.filter(|(other, _)| other.full_name != lane.full_name) {
            let points = medians.iter().map(|(bin, five)| (bin.approx() + 0.5, five[2])).collect();
            curves.push(other.curve("median", ChartShape::Line(points)));
        }
        let boxes = fives.iter().map(|(bin, five)| (bin.approx() + 0.5, *five)).collect();
        curves.push(lane.curve("", ChartShape::Boxes(boxes, width)));
        panels.charts.push(chart(lane.full_name.clone(), SMALL, curves));
    }
    panels
}

/// By bin, the percentiles that a box shows.
type Fives = Vec<(usize, [f64; 5])>;

fn fives(lane: &RunLane<'_>, path: &str, over: &str, bins: &Bins) -> Fives {
    let factor = words::factor(path);
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); bins.names.len()];
    for run in &lane.runs {
        let bin = run.row.params.get(over).and_then(|value| bins.place(value));
        if let (Some(bin), Some(value)) = (bin, run.number(path)) {
            values[bin].push(value * factor);
        }
    }
    let five = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let rank = |p: f64| (p * values.len().approx()).ceil().whole::<usize>().clamp(1, values.len()) - 1;
        [0.05, 0.25, 0.5, 0.75, 0.95].map(|p| values[rank(p)])
    };
    let there = values.into_iter().enumerate().filter(|(_, values)| !values.is_empty());
    there.map(|(bin, values)| (bin, five(values))).collect()
}

/// The medians of runs along a key that is a number.
pub(super) fn lines(sheet: &ReportSheet, path: &str, over: &str, by: &str) -> Vec<Panels> {
    let along = words::factor(over);
    each(&grouped(sheet, by, &[over]), |group| {
        let (mut curves, mut highest, mut furthest, mut nearest) =
            (Vec::new(), 0.0f64, 0.0f64, f64::INFINITY);
        for lane in &group.lanes {
            let there = lane.runs.iter().filter_map(|run| run.row.params.get(over));
            let bins = Bins::each(over, &sheet.values(over), &there.collect::<Vec<_>>());
            let medians = fives(lane, path, over, &bins);
            let points: Vec<(f64, f64)> = medians
                .iter()
                .filter_map(|(bin, five)| Some((bins.number(*bin)? * along, five[2])))
                .collect();
            for (x, y) in &points {
                (furthest, highest, nearest) = (furthest.max(*x), highest.max(*y), nearest.min(*x));
            }
            if !points.is_empty() {
                curves.push(lane.curve("", ChartShape::Dots(points.clone())));
                curves.push(lane.curve("", ChartShape::Line(points)));
            }
        }
        let mark = words::unity(path).map(|meaning| ChartMark::Up(1.0, meaning));
        (!curves.is_empty()).then(|| Chart {
            title: group.title(),
            x_label: axis(over),
            y_label: axis(path),
            x: Scale::around(nearest, furthest),
            y: Scale::with_lines(highest, 5.0),
            marks: mark.into_iter().collect(),
            frame: WIDE,
            curves,
        })
    })
}

/// The means of runs at each pair of values of two keys; a panel for each value of a third.
pub(super) fn heat(sheet: &ReportSheet, path: &str, x: &str, y: &str, by: &str) -> Vec<Panels> {
    let better = ReportMeasure::of(path).map_or(Better::Neither, |measure| measure.better);
    let panels = |group: &RunGroup<'_>| {
        let charts = group.lanes.iter().filter_map(|lane| {
            let there = |key: &str| {
                let values = lane.runs.iter().filter_map(|run| run.row.params.get(key));
                Bins::each(key, &sheet.values(key), &values.collect::<Vec<_>>())
            };
            let (columns, rows) = (there(x), there(y));
            let mut cells = Vec::new();
            for column in 0..columns.names.len() {
                for row in 0..rows.names.len() {
                    let is_here = |run: &&&RunNumbers| {
                        let place = |key: &str, bins: &Bins| bins.place(run.row.params.get(key)?);
                        place(x, &columns) == Some(column) && place(y, &rows) == Some(row)
                    };
                    let values: Vec<f64> =
                        lane.runs.iter().filter(is_here).filter_map(|run| run.number(path)).collect();
                    if values.is_empty() {
                        continue;
                    }
                    let value = values.iter().sum::<f64>() / values.len().approx();
                    let gain = if better == Better::Less { 1.0 / value } else { value };
                    // Twice as good is as green as can be, and half as good as red.
                    let tint = gain.max(f64::MIN_POSITIVE).log2().clamp(-1.0, 1.0);
                    cells.push(HeatCell { x: column, y: row, value, tint });
                }
            }
            (!cells.is_empty()).then(|| Chart {
                title: lane.full_name.clone(),
                x_label: axis(x),
                y_label: axis(y),
                x: Scale::Places(columns.names),
                y: Scale::Places(rows.names),
                marks: Vec::new(),
                frame: SMALL,
                curves: vec![lane.curve("", ChartShape::Cells(cells))],
            })
        });
        Panels { context: group.context.clone(), charts: charts.collect() }
    };
    grouped(sheet, by, &[x, y]).iter().map(panels).collect()
}

/// A bar for each value of a key, in which the means of parts lie on one another.
pub(super) fn parts(sheet: &ReportSheet, paths: &[&str], over: &str) -> Vec<Panels> {
    each(&grouped(sheet, over, &[over]), |group| {
        let mean = |lane: &RunLane<'_>, path: &str| {
            let values: Vec<f64> = lane.runs.iter().filter_map(|run| run.number(path)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len().approx())
        };
        let is_told = |lane: &&RunLane<'_>| paths.iter().any(|path| mean(lane, path).is_some());
        let lanes: Vec<&RunLane<'_>> = group.lanes.iter().filter(is_told).collect();
        let mut reached = vec![0.0; lanes.len()];
        let width = WIDE.box_width(lanes.len(), 1) * BAR;
        let curves = paths.iter().map(|path| {
            let stacked = lanes.iter().zip(&mut reached).enumerate().filter_map(|(n, (lane, reached))| {
                let from = *reached;
                *reached += mean(lane, path)?;
                Some((n.approx() + 0.5, [from, *reached]))
            });
            ChartCurve {
                class: sheet.hue_of(path).to_owned(),
                name: words::metric(path),
                hover: words::metric(path),
                shape: ChartShape::Blocks(stacked.collect(), width),
            }
        });
        let names = lanes.iter().map(|lane| words::on_axis(over, &Value::Text(lane.name.clone())));
        let chart = Chart {
            title: group.title(),
            x_label: axis(over),
            y_label: words::WHOLE.to_owned(),
            x: Scale::Places(names.collect()),
            y: Scale::Share,
            marks: Vec::new(),
            frame: WIDE,
            curves: curves.collect(),
        };
        (!lanes.is_empty()).then_some(chart)
    })
}

/// A panel of each group.
fn each(groups: &[RunGroup<'_>], panel: impl Fn(&RunGroup<'_>) -> Option<Chart>) -> Vec<Panels> {
    let panels =
        |group| Panels { context: RunGroup::title(group), charts: panel(group).into_iter().collect() };
    groups.iter().map(panels).collect()
}

/// The places along a figure: each value for itself, or, of many numbers, stretches of equal width.
struct Bins {
    names: Vec<String>,
    values: Vec<Value>,
    /// Where each but the first stretch begins.
    begins: Vec<f64>,
}

impl Bins {
    /// A place for each value that there is, in their order.
    fn each(key: &str, order: &[Value], there: &[&Value]) -> Self {
        let values: Vec<Value> = order.iter().filter(|value| there.contains(value)).cloned().collect();
        let mut names: Vec<String> = values.iter().map(|value| words::on_axis(key, value)).collect();
        // Two places are never called the same.
        if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
            names = values.iter().map(|value| words::bare(key, value)).collect();
        }
        Self { names, values, begins: Vec::new() }
    }

    fn of(key: &str, order: &[Value], there: &[&Value]) -> Self {
        let bins = Self::each(key, order, there);
        let mut numbers: Vec<f64> = (0..bins.values.len()).filter_map(|n| bins.number(n)).collect();
        numbers.sort_by(f64::total_cmp);
        if bins.values.len() <= MOST_BOXES || numbers.len() < bins.values.len() {
            return bins;
        }
        let (least, most) = (numbers[0], numbers[numbers.len() - 1]);
        let width = (most - least) / STRETCHES.approx();
        let edge = |n: usize| least + width * n.approx();
        Self {
            names: (0..STRETCHES).map(|n| words::about(key, edge(n) + width / 2.0)).collect(),
            values: Vec::new(),
            begins: (1..STRETCHES).map(edge).collect(),
        }
    }

    /// The value of a place, if it is a number.
    fn number(&self, n: usize) -> Option<f64> {
        match self.values.get(n)? {
            Value::Number(n) => Some(*n),
            Value::Text(_) => None,
        }
    }

    fn place(&self, value: &Value) -> Option<usize> {
        match value {
            Value::Number(n) if self.values.is_empty() => {
                Some(self.begins.partition_point(|begin| begin <= n))
            }
            value => self.values.iter().position(|other| other == value),
        }
    }
}

/// Runs that have crossed keys in common, but for the one that colours tell.
struct RunGroup<'a> {
    /// These, in words; nothing where nothing is crossed.
    context: String,
    lanes: Vec<RunLane<'a>>,
}

impl RunGroup<'_> {
    /// What a panel of all of it is called.
    fn title(&self) -> String {
        if self.context.is_empty() {
            let all: usize = self.lanes.iter().map(|lane| lane.runs.len()).sum();
            return format!("{all} runs");
        }
        self.context.clone()
    }
}

/// Runs of one colour.
struct RunLane<'a> {
    class: String,
    name: String,
    /// With the world, where there are several.
    full_name: String,
    runs: Vec<&'a RunNumbers>,
}

impl RunLane<'_> {
    /// Something in its colour; what a pointer is told begins with its name.
    fn curve(&self, more: &str, shape: ChartShape) -> ChartCurve {
        let hover = [self.full_name.as_str(), more];
        let hover = hover.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
        ChartCurve { class: self.class.clone(), name: self.name.clone(), hover, shape }
    }
}

/// All runs by crossed keys and colour. Along keys, where points differ in these alone, the others are as in
/// the baseline; so is a run without loss no part of a design.
fn grouped<'a>(sheet: &'a ReportSheet, by: &str, over: &[&str]) -> Vec<RunGroup<'a>> {
    let keys: Vec<&str> = std::iter::once(by).chain(over.iter().copied()).collect();
    let mut chosen: Vec<&RunNumbers> = if sheet.runs.iter().any(|run| sheet.is_of_design(run)) {
        sheet.runs.iter().filter(|run| sheet.is_of_design(run)).collect()
    } else if over.is_empty() {
        sheet.runs.iter().collect()
    } else {
        sheet.baseline_but_for(&keys)
    };
    if chosen.is_empty() {
        chosen = sheet.runs.iter().collect();
    }
    let mut groups: Vec<RunGroup<'_>> = Vec::new();
    for value in &sheet.values(by) {
        for (world, world_name) in sheet.worlds.iter().enumerate() {
            let class = format!("{}{}", sheet.hue_of(&value.to_string()), if world > 0 { REAL } else { "" });
            let name = words::plain(by, value);
            let full_name = if sheet.worlds.len() > 1 {
                format!("{name}, {}", world_words(world_name))
            } else {
                name.clone()
            };
            for run in &chosen {
                if run.row.world != *world_name || sheet.value(run, by).as_ref() != Some(value) {
                    continue;
                }
                let context = sheet.context_without(run, &keys);
                let at = groups.iter().position(|group| group.context == context).unwrap_or_else(|| {
                    groups.push(RunGroup { context, lanes: Vec::new() });
                    groups.len() - 1
                });
                let lanes = &mut groups[at].lanes;
                match lanes.iter().position(|lane| lane.full_name == full_name) {
                    Some(at) => lanes[at].runs.push(run),
                    None => lanes.push(RunLane {
                        class: class.clone(),
                        name: name.clone(),
                        full_name: full_name.clone(),
                        runs: vec![run],
                    }),
                }
            }
        }
    }
    groups
}

/// Bars are so much wider than boxes.
const BAR: f64 = 2.0;
const MOST_DOTS: usize = 4000;
/// Multiples of it by the golden ratio of 2^64 lie everywhere alike, of whatever stretch of numbers (Knuth,
/// volume 3, 6.4).
const SCATTERED: u64 = 0x9e37_79b9_7f4a_7c15;
const MOST_BOXES: usize = 16;
const STRETCHES: usize = 8;
/// More boxes than this in one panel are hairlines.
const MOST_TOGETHER: usize = 24;
