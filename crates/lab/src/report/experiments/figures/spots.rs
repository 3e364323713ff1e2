//! Panels of single spots: distributions of what happened there, and its course.

use quickset_base::number::Unsigned as _;

use super::{FEW, Panels, REAL};
use crate::report::chart::{Chart, ChartCurve, ChartMark, ChartShape, SMALL, Scale, WIDE};
use crate::report::experiments::finding::{capital, world_words};
use crate::report::experiments::run::RunNumbers;
use crate::report::experiments::sheet::{ReportSheet, SheetSpot};
use crate::report::experiments::words;
use crate::report::text::number;
use crate::results::Histogram;

/// An alternative at a spot in a world.
struct SpotLane {
    alternative: usize,
    world: usize,
    class: String,
    name: String,
    /// With the world, where there are several.
    full_name: String,
}

impl SpotLane {
    fn curve(&self, hover: String, shape: ChartShape) -> ChartCurve {
        ChartCurve { class: self.class.clone(), name: self.name.clone(), hover, shape }
    }
}

fn lanes(sheet: &ReportSheet, spot: usize) -> Vec<SpotLane> {
    let mut lanes = Vec::new();
    for alternative in 0..sheet.alternatives.len() {
        for (world, world_name) in sheet.worlds.iter().enumerate() {
            if sheet.cell(spot, alternative, world).is_none() {
                continue;
            }
            let is_second = sheet.worlds.len() > 1 && world_name != "sim";
            let class = format!("{}{}", sheet.hue(alternative), if is_second { REAL } else { "" });
            let name = sheet.alternative(alternative);
            let full_name = if sheet.worlds.len() > 1 {
                format!("{name}, {}", world_words(world_name))
            } else {
                name.clone()
            };
            lanes.push(SpotLane { alternative, world, class, name, full_name });
        }
    }
    lanes
}

/// The distributions of a measure.
pub(super) fn distributions(sheet: &ReportSheet, metric: &str, logarithmic: bool) -> Vec<Panels> {
    let panels = |(context, mut spots): (&str, Vec<usize>)| {
        spots.sort_by_key(|spot| is_for_later(sheet, *spot));
        let charts = spots.iter().filter_map(|spot| distribution(sheet, *spot, metric, logarithmic));
        Panels { context: context.to_owned(), charts: charts.collect() }
    };
    sheet.contexts().into_iter().map(panels).collect()
}

/// Without loss there is not much to see: not among the first, unless that is what the experiment is about.
fn is_for_later(sheet: &ReportSheet, spot: usize) -> bool {
    !sheet.spots[spot].is_baseline && sheet.lossless(spot) == Some(spot)
}

fn distribution(sheet: &ReportSheet, spot: usize, path: &str, logarithmic: bool) -> Option<Chart> {
    let of = |lane: &SpotLane| -> Option<(&Histogram, usize)> {
        let cell = sheet.cell(spot, lane.alternative, lane.world)?;
        Some((cell.histograms.get(path)?, cell.runs.len()))
    };
    let (mut curves, mut shortest, mut longest, mut count) = (Vec::new(), f64::INFINITY, 0.0f64, 1);
    for lane in lanes(sheet, spot) {
        let Some((histogram, runs)) = of(&lane) else { continue };
        let [p50, p80, p99] = [0.5, 0.8, 0.99].map(|p| number(histogram.percentile(p)));
        let hover = format!(
            "{}: median {p50} ms, 80 % {p80} ms, 99 % {p99} ms; {} values of {runs} runs",
            lane.full_name,
            histogram.count()
        );
        longest = longest.max(histogram.percentile(if logarithmic { 1.0 } else { 0.999 }));
        count = count.max(histogram.count());
        shortest = shortest.min(histogram.percentile(0.001));
        let steps = histogram.steps();
        let shape = if logarithmic { ChartShape::Tail(steps) } else { ChartShape::Steps(steps) };
        curves.push(lane.curve(hover, shape));
    }
    if curves.is_empty() {
        return None;
    }
    let rtt = round_trip(sheet, spot);
    let reach = rtt.map_or(longest, |rtt| longest.max(rtt * 1.2));
    let (x, y) = if logarithmic {
        // Below one in a hundred thousand single pauses are left.
        let from = 10f64.powf((1.0 / count.approx()).log10().floor()).clamp(1e-5, 0.01);
        (Scale::logarithmic(shortest.max(0.01), reach.max(1.0)), Scale::SmallShare { from })
    } else {
        (Scale::with_lines(reach, 5.0), Scale::Share)
    };
    let name = words::axis(path);
    let (x_label, y_label) = if logarithmic {
        (format!("{name}, logarithmic"), "share that is longer, logarithmic")
    } else {
        (name, "share that is at most as long")
    };
    let marks = rtt.map(|rtt| ChartMark::Along(rtt, "round trip".to_owned()));
    Some(Chart {
        title: panel_title(sheet, spot),
        x_label,
        y_label: y_label.to_owned(),
        x,
        y,
        marks: marks.into_iter().collect(),
        frame: SMALL,
        curves,
    })
}

/// The point, with the context in front where there are many.
fn panel_title(sheet: &ReportSheet, spot: usize) -> String {
    let SheetSpot { context_label, label, .. } = &sheet.spots[spot];
    if sheet.contexts().len() > FEW && !context_label.is_empty() {
        format!("{context_label}: {label}")
    } else {
        label.clone()
    }
}

/// The round-trip time of a spot, where it is a number.
fn round_trip(sheet: &ReportSheet, spot: usize) -> Option<f64> {
    let spot = &sheet.spots[spot];
    let number = |name: &str| {
        let value = spot.point.iter().chain(&spot.context).find(|(key, _)| key == name)?;
        value.1.to_string().parse::<f64>().ok()
    };
    number("rtt_ms").or_else(|| number("owd_ms").map(|owd| owd * 2.0)).filter(|rtt| *rtt > 0.0)
}

/// The courses of a series.
pub(super) fn series(sheet: &ReportSheet, series: &str, by: &str) -> Vec<Panels> {
    let panels = |(context, mut spots): (&str, Vec<usize>)| {
        spots.sort_by_key(|spot| is_for_later(sheet, *spot));
        let charts = spots.iter().flat_map(|spot| match (series, by) {
            ("gaps", _) => gaps(sheet, *spot),
            (_, "flow") => of_flows(sheet, *spot, series),
            _ => course(sheet, *spot, series).into_iter().collect::<Vec<Chart>>(),
        });
        Panels { context: context.to_owned(), charts: charts.collect() }
    };
    sheet.contexts().into_iter().map(panels).collect()
}

/// The first run of a lane that has such a series, and all of them.
fn with_series<'a>(
    sheet: &'a ReportSheet,
    spot: usize,
    lane: &SpotLane,
    series: &str,
) -> Vec<&'a RunNumbers> {
    let cell = sheet.cell(spot, lane.alternative, lane.world);
    let runs = cell.into_iter().flat_map(|cell| sheet.runs_of(cell));
    let mut runs: Vec<&RunNumbers> = runs.filter(|run| run.row.detail.series.contains_key(series)).collect();
    runs.sort_by_key(|run| run.row.seed);
    runs
}

/// All messages of all seeds.
fn course(sheet: &ReportSheet, spot: usize, series: &str) -> Option<Chart> {
    let curves = lanes(sheet, spot).into_iter().filter_map(|lane| {
        let runs = with_series(sheet, spot, &lane, series);
        let courses: Vec<_> = runs.iter().map(|run| run.row.detail.series[series].clone()).collect();
        let hover = format!("{}: {} runs", lane.full_name, runs.len());
        (!runs.is_empty()).then(|| lane.curve(hover, ChartShape::Cloud(courses)))
    });
    chart_of_series(panel_title(sheet, spot), series, curves.collect())
}

/// A panel for each alternative: times between its messages over time; and when all was there, of each.
fn gaps(sheet: &ReportSheet, spot: usize) -> Vec<Chart> {
    let lanes = lanes(sheet, spot);
    let with_run = |lane| Some((lane, *with_series(sheet, spot, lane, "gaps").first()?));
    let runs: Vec<(&SpotLane, &RunNumbers)> = lanes.iter().filter_map(with_run).collect();
    let end = |(lane, run): &(&SpotLane, &RunNumbers)| {
        let end = run.number("completion_s")?;
        let hover = format!("{}: all was there after {} s", lane.full_name, number(end));
        Some(lane.curve(hover, ChartShape::Upright(end)))
    };
    let ends: Vec<ChartCurve> = runs.iter().filter_map(end).collect();
    let all: Vec<ChartCurve> = runs
        .iter()
        .map(|(lane, run)| lane.curve(String::new(), ChartShape::Dots(run.row.detail.series["gaps"].clone())))
        .collect();
    // The axes of the whole are those of each.
    let Some(whole) = chart_of_series(String::new(), "gaps", [&all[..], &ends[..]].concat()) else {
        return Vec::new();
    };
    let mark = round_trip(sheet, spot).map(|rtt| ChartMark::Up(rtt, "round trip".to_owned()));
    let panel = |((lane, _), dots): (&(&SpotLane, &RunNumbers), ChartCurve)| Chart {
        title: format!("{}, {}", lane.full_name, panel_title(sheet, spot)),
        marks: mark.iter().cloned().collect(),
        curves: ends.iter().cloned().chain([dots]).collect(),
        ..whole.clone()
    };
    runs.iter().zip(all).map(panel).collect()
}

/// A panel for each alternative, with a line for each of its flows.
fn of_flows(sheet: &ReportSheet, spot: usize, series: &str) -> Vec<Chart> {
    let label = panel_title(sheet, spot);
    let lanes = lanes(sheet, spot);
    let mut panels = Vec::new();
    for lane in &lanes {
        let Some(cell) = sheet.cell(spot, lane.alternative, lane.world) else { continue };
        let Some(run) = sheet.runs_of(cell).min_by_key(|run| run.row.seed) else { continue };
        let of_flow = |(name, points): (&String, &Vec<(f64, f64)>)| {
            let flow = name.strip_prefix(series)?.strip_prefix('/')?;
            let class = sheet.hue_of(flow).to_owned();
            let (name, hover) = (flow.to_owned(), flow.to_owned());
            Some(ChartCurve { class, name, hover, shape: ChartShape::Line(points.clone()) })
        };
        let curves = run.row.detail.series.iter().filter_map(of_flow).collect();
        let title = format!("{}, {label}", capital(&lane.full_name));
        panels.extend(chart_of_series(title, series, curves));
    }
    // Two alternatives are side by side.
    if lanes.len() == 2 {
        for chart in &mut panels {
            chart.frame = WIDE;
        }
    }
    panels
}

fn chart_of_series(title: String, series: &str, curves: Vec<ChartCurve>) -> Option<Chart> {
    let points = || {
        curves.iter().flat_map(|curve| match &curve.shape {
            ChartShape::Line(points) | ChartShape::Dots(points) => points.clone(),
            ChartShape::Cloud(courses) => courses.concat(),
            ChartShape::Upright(x) => vec![(*x, 0.0)],
            _ => Vec::new(),
        })
    };
    points().next()?;
    let most = |of: fn((f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
    let (x, y) = (most(|point| point.0), most(|point| point.1));
    let (x_label, y_label) = match series {
        "blocking" => ("message, in the order of sending", "blocking time, ms"),
        "gaps" => ("time, s", "inter-delivery time, ms, logarithmic"),
        "goodput" => ("time, s", "goodput, Mbit/s"),
        "queue" => ("time, s", "queueing delay, ms"),
        "share" => ("time, s", "share, % of what all flows got"),
        other => ("", other),
    };
    Some(Chart {
        title,
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        x: Scale::with_lines(x, 5.0),
        y: if series == "gaps" { Scale::logarithmic(SHORTEST_GAP_MS, y) } else { Scale::with_lines(y, 5.0) },
        marks: Vec::new(),
        frame: SMALL,
        curves,
    })
}

/// Times between messages below this are drawn there: they are nothing that one sees.
const SHORTEST_GAP_MS: f64 = 0.01;
