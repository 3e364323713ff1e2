use std::fmt::Write as _;

use super::finding::{named, world_words};
use super::sheet::{Run, Sheet};
use super::words::{self, axis, metric};
use crate::experiment::Figure;
use crate::report::chart::{Chart, Curve, SMALL, Scale, Shape, shares};
use crate::report::text::{escaped, number};
use crate::results::Histogram;

/// The figures of a sheet, a dozen panels in sight and the others folded.
pub(crate) fn figures(page: &mut String, sheet: &Sheet) {
    let contexts = sheet.contexts();
    let in_sight = (IN_SIGHT / (sheet.experiment.figures.len() * contexts.len()).max(1)).max(3);
    for figure in sheet.experiment.figures {
        let mut drawn: Vec<(&str, Vec<String>)> = Vec::new();
        for (context, spots) in &contexts {
            let panels = match figure {
                Figure::Distribution { metric, logarithmic, .. } => {
                    // Without loss there is not much to see: not among the first.
                    let mut spots = spots.clone();
                    spots.sort_by_key(|spot| sheet.lossless(*spot) == Some(*spot));
                    spots.iter().filter_map(|spot| distribution(sheet, *spot, metric, *logarithmic)).collect()
                }
                Figure::Series { series, curves } => {
                    spots.iter().flat_map(|spot| series_panels(sheet, *spot, series, curves)).collect()
                }
                Figure::Runs { metric, .. } => runs(sheet, spots, metric).into_iter().collect(),
                Figure::Scatter { x, y, .. } => scatter(sheet, spots, x, y).into_iter().collect(),
                Figure::Boxes { metric, over, .. } => boxes(sheet, spots, metric, over).into_iter().collect(),
            };
            drawn.push((context, panels));
        }
        drawn.retain(|(_, panels): &(&str, Vec<String>)| !panels.is_empty());
        if drawn.is_empty() {
            continue;
        }
        let _ = write!(page, "<div class=figure><h3>{}</h3><p class=legend>", escaped(&title(figure)));
        legend(page, sheet, figure);
        page.push_str("</p>");
        for (context, panels) in &drawn {
            if !context.is_empty() {
                let _ = write!(page, "<h4>{}</h4>", escaped(context));
            }
            grid(page, panels, in_sight);
        }
        page.push_str("</div>");
    }
}

fn grid(page: &mut String, panels: &[String], in_sight: usize) {
    // One that would be alone behind the fold is shown.
    let cut = if panels.len() <= in_sight + 1 { panels.len() } else { in_sight };
    let (shown, folded) = panels.split_at(cut);
    let _ = write!(page, "<div class=panels>{}</div>", shown.concat());
    if !folded.is_empty() {
        let (folded, left_out) = folded.split_at(folded.len().min(FOLDED));
        let _ = write!(
            page,
            "<details><summary>{} more</summary><div class=panels>{}</div>",
            folded.len(),
            folded.concat()
        );
        if !left_out.is_empty() {
            let _ = write!(
                page,
                "<p>{} more panels would make this page too large; their numbers are in the CSV file.</p>",
                left_out.len()
            );
        }
        page.push_str("</details>");
    }
}

fn title(figure: &Figure) -> String {
    match figure {
        Figure::Distribution { metric: path, .. } => format!("Distribution of the {}", metric(path)),
        Figure::Runs { metric: path, .. } => format!("Distribution over runs: {}", metric(path)),
        Figure::Scatter { x, y, .. } => format!("{} over {}", metric(y), metric(x)),
        Figure::Boxes { metric: path, over, .. } => format!("{} over {}", metric(path), axis(over)),
        Figure::Series { series, .. } => match *series {
            "blocking" => {
                "Blocking time, message by message (seed 1; the longest of each stretch)".to_owned()
            }
            "goodput" => "Goodput over time (seed 1)".to_owned(),
            other => format!("{other} (seed 1)"),
        },
    }
}

fn legend(page: &mut String, sheet: &Sheet, figure: &Figure) {
    if !matches!(figure, Figure::Series { curves: "flow", .. }) {
        for n in 0..sheet.alternatives.len() {
            let _ = write!(page, "<span class={}><i></i>{}</span> ", sheet.hue(n), named(sheet, n));
        }
    }
    if sheet.worlds.len() > 1 && !matches!(figure, Figure::Scatter { .. } | Figure::Boxes { .. }) {
        page.push_str("<span class=solid>simulated</span> <span class=dashed>over real sockets</span>");
    }
    if matches!(figure, Figure::Boxes { .. }) {
        page.push_str(
            "<span>box: half of all runs, and the median; lines: to the 5th and the 95th percentile</span>",
        );
    }
}

/// Alternatives and worlds of a spot: place, classes and name of the curve.
fn lanes(sheet: &Sheet, spot: usize) -> Vec<(usize, usize, String, String)> {
    let mut lanes = Vec::new();
    for n in 0..sheet.alternatives.len() {
        for (world, name) in sheet.worlds.iter().enumerate() {
            if sheet.cell(spot, n, world).is_none() {
                continue;
            }
            let is_second = sheet.worlds.len() > 1 && name != "sim";
            let class = format!("{}{}", sheet.hue(n), if is_second { " real" } else { "" });
            let words = if sheet.worlds.len() > 1 {
                format!("{}, {}", sheet.alternative(n), world_words(name))
            } else {
                sheet.alternative(n)
            };
            lanes.push((n, world, class, words));
        }
    }
    lanes
}

fn distribution(sheet: &Sheet, spot: usize, path: &str, logarithmic: bool) -> Option<String> {
    let lanes = lanes(sheet, spot);
    let of = |lane: &(usize, usize, String, String)| -> Option<(Histogram, usize)> {
        let cell = sheet.cell(spot, lane.0, lane.1)?;
        Some((cell.histograms.get(path)?.clone(), cell.runs.len()))
    };
    let (mut curves, mut longest, mut count) = (Vec::new(), 0.0f64, 1);
    for lane in &lanes {
        let Some((histogram, runs)) = of(lane) else { continue };
        let [p50, p80, p99] = [0.5, 0.8, 0.99].map(|p| number(histogram.percentile(p)));
        let hover = format!(
            "{}: median {p50} ms, 80 % {p80} ms, 99 % {p99} ms; {} values of {runs} runs",
            lane.3,
            histogram.count()
        );
        longest = longest.max(histogram.percentile(if logarithmic { 1.0 } else { 0.999 }));
        count = count.max(histogram.count());
        let steps = histogram.steps();
        let shape = if logarithmic { Shape::Tail(steps) } else { Shape::Steps(steps) };
        curves.push(Curve { class: &lane.2, hover, shape });
    }
    if curves.is_empty() {
        return None;
    }
    let rtt = round_trip(sheet, spot);
    let reach = rtt.map_or(longest, |rtt| longest.max(rtt * 1.2));
    let (x, y) = if logarithmic {
        // Below one in a hundred thousand single pauses are left.
        let from = 10f64.powf((1.0 / count as f64).log10().floor()).clamp(1e-5, 0.01);
        (Scale::logarithmic(0.01, reach.max(1.0)), Scale::SmallShare { from })
    } else {
        (Scale::with_lines(reach, 5.0), Scale::Share)
    };
    let chart = Chart {
        title: &sheet.spots[spot].label,
        x_label: if logarithmic { "ms, logarithmic" } else { "ms" },
        y_label: if logarithmic {
            "share that is longer, logarithmic"
        } else {
            "share that is at most as long"
        },
        x,
        y,
        mark: rtt.map(|rtt| (rtt, "round trip")),
        frame: SMALL,
    };
    Some(chart.svg(&curves, false))
}

/// The round-trip time of a spot, where it is a number.
fn round_trip(sheet: &Sheet, spot: usize) -> Option<f64> {
    let spot = &sheet.spots[spot];
    let number = |name: &str| {
        let value = spot.point.iter().chain(&spot.context).find(|(key, _)| key == name)?;
        value.1.to_string().parse::<f64>().ok()
    };
    number("rtt_ms").or_else(|| number("owd_ms").map(|owd| owd * 2.0)).filter(|rtt| *rtt > 0.0)
}

fn series_panels(sheet: &Sheet, spot: usize, series: &str, by: &str) -> Vec<String> {
    let lanes = lanes(sheet, spot);
    let first = |lane: &(usize, usize, String, String)| -> Option<&Run> {
        let cell = sheet.cell(spot, lane.0, lane.1)?;
        sheet.runs_of(cell).min_by_key(|run| run.row.seed)
    };
    let label = &sheet.spots[spot].label;
    if by != "flow" {
        let curves = lanes.iter().filter_map(|lane| {
            let points = first(lane)?.row.detail.series.get(series)?;
            Some(Curve { class: &lane.2, hover: lane.3.clone(), shape: Shape::Line(points.clone()) })
        });
        return series_chart(label, series, &curves.collect::<Vec<_>>()).into_iter().collect();
    }
    let mut panels = Vec::new();
    for lane in &lanes {
        let Some(run) = first(lane) else { continue };
        let flows: Vec<(&str, &Vec<(f64, f64)>)> = run
            .row
            .detail
            .series
            .iter()
            .filter_map(|(name, points)| Some((name.strip_prefix(series)?.strip_prefix('/')?, points)))
            .collect();
        let classes: Vec<String> = (0..flows.len()).map(|n| format!("h{n}")).collect();
        let curves = flows.iter().zip(&classes).map(|((name, points), class)| Curve {
            class,
            hover: (*name).to_owned(),
            shape: Shape::Line((*points).clone()),
        });
        panels.extend(series_chart(&format!("{}, {label}", lane.3), series, &curves.collect::<Vec<_>>()));
    }
    panels
}

fn series_chart(label: &str, series: &str, curves: &[Curve<'_>]) -> Option<String> {
    let points = || {
        curves.iter().flat_map(|curve| match &curve.shape {
            Shape::Line(points) => points.as_slice(),
            _ => &[],
        })
    };
    points().next()?;
    let x = points().map(|point| point.0).fold(0.0, f64::max);
    let y = points().map(|point| point.1).fold(0.0, f64::max);
    let (x_label, y_label) = match series {
        "blocking" => ("message", "ms"),
        "goodput" => ("seconds", "Mbit/s"),
        other => ("", other),
    };
    let chart = Chart {
        title: label,
        x_label,
        y_label,
        x: Scale::with_lines(x, 5.0),
        y: Scale::with_lines(y, 5.0),
        mark: None,
        frame: SMALL,
    };
    Some(chart.svg(curves, false))
}

fn runs(sheet: &Sheet, spots: &[usize], path: &str) -> Option<String> {
    let factor = words::Measure::of(path).map_or(1.0, |measure| measure.factor);
    let all = gathered(sheet, spots, |run| run.number(path).map(|value| (value * factor, 0.0)));
    let mut curves = Vec::new();
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for (class, name, values) in &all {
        let mut values: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
        values.sort_by(f64::total_cmp);
        least = least.min(values[0]);
        most = most.max(values[values.len() - 1]);
        let hover = format!("{name}: median {}, {} runs", number(values[values.len() / 2]), values.len());
        curves.push(Curve { class, hover, shape: Shape::Steps(shares(&values)) });
    }
    if curves.is_empty() {
        return None;
    }
    let is_wide = least > 0.0 && most / least > 30.0;
    let chart = Chart {
        title: &place(sheet, spots),
        x_label: &axis(path),
        y_label: "share of runs with at most as much",
        x: if is_wide { Scale::logarithmic(least, most) } else { Scale::with_lines(most, 5.0) },
        y: Scale::Share,
        mark: match path {
            "dct_ratio" => Some((1.0, "as plain QUIC")),
            "dct_over_ideal" => Some((1.0, "ideal")),
            _ => None,
        },
        frame: SMALL,
    };
    Some(chart.svg(&curves, false))
}

fn scatter(sheet: &Sheet, spots: &[usize], x: &str, y: &str) -> Option<String> {
    let factor = |path: &str| words::Measure::of(path).map_or(1.0, |measure| measure.factor);
    let (x_factor, y_factor) = (factor(x), factor(y));
    let all = gathered(sheet, spots, |run| Some((run.number(x)? * x_factor, run.number(y)? * y_factor)));
    let most =
        |of: fn(&(f64, f64)) -> f64| all.iter().flat_map(|(.., points)| points).map(of).fold(0.0, f64::max);
    let scales = [most(|point| point.0), most(|point| point.1)].map(|most| Scale::with_lines(most, 5.0));
    let curves: Vec<Curve<'_>> = all
        .iter()
        .map(|(class, name, points)| Curve {
            class,
            hover: format!("{name}: {} runs", points.len()),
            shape: Shape::Dots(points.iter().copied().take(MOST_DOTS).collect()),
        })
        .collect();
    if curves.is_empty() {
        return None;
    }
    let [x_scale, y_scale] = scales;
    let chart = Chart {
        title: &place(sheet, spots),
        x_label: &axis(x),
        y_label: &axis(y),
        x: x_scale,
        y: y_scale,
        mark: None,
        frame: SMALL,
    };
    Some(chart.svg(&curves, false))
}

fn boxes(sheet: &Sheet, spots: &[usize], path: &str, over: &str) -> Option<String> {
    let factor = words::Measure::of(path).map_or(1.0, |measure| measure.factor);
    let numbers =
        gathered(sheet, spots, |run| Some((run.row.params.number(over).ok()?, run.number(path)? * factor)));
    if numbers.is_empty() {
        return None;
    }
    let bins = Bins::of(numbers.iter().flat_map(|(.., points)| points).map(|point| point.0));
    let (mut curves, mut highest) = (Vec::new(), 0.0f64);
    let lanes = numbers.len() as f64;
    for (n, (class, name, points)) in numbers.iter().enumerate() {
        let mut boxes = Vec::new();
        for bin in 0..bins.names.len() {
            let mut values: Vec<f64> =
                points.iter().filter(|point| bins.place(point.0) == bin).map(|point| point.1).collect();
            values.sort_by(f64::total_cmp);
            let Some(last) = values.len().checked_sub(1) else { continue };
            let quantile =
                |p: f64| values[((p * values.len() as f64).ceil() as usize).saturating_sub(1).min(last)];
            let five = [0.05, 0.25, 0.5, 0.75, 0.95].map(quantile);
            highest = highest.max(five[4]);
            // Side by side within four fifths of the place.
            let along = bin as f64 + 0.1 + 0.8 * (n as f64 + 0.5) / lanes;
            boxes.push((along, five));
        }
        curves.push(Curve { class, hover: name.clone(), shape: Shape::Boxes(boxes) });
    }
    let chart = Chart {
        title: &place(sheet, spots),
        x_label: &axis(over),
        y_label: &axis(path),
        x: Scale::Places(bins.names),
        y: Scale::with_lines(highest, 5.0),
        mark: None,
        frame: SMALL,
    };
    Some(chart.svg(&curves, false))
}

/// The values along a figure of boxes: each for itself, or when there are many, in stretches of equal width.
struct Bins {
    names: Vec<String>,
    /// Where each but the first begins.
    begins: Vec<f64>,
}

impl Bins {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut all: Vec<f64> = values.collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        if all.len() <= MOST_BOXES {
            let begins = all.iter().skip(1).copied().collect();
            return Self { names: all.iter().map(|value| number(*value)).collect(), begins };
        }
        let (least, most) = (all[0], all[all.len() - 1]);
        let width = (most - least) / MOST_BOXES as f64;
        let edge = |n: usize| least + width * n as f64;
        Self {
            names: (0..MOST_BOXES).map(|n| number(edge(n) + width / 2.0)).collect(),
            begins: (1..MOST_BOXES).map(edge).collect(),
        }
    }

    fn place(&self, value: f64) -> usize {
        self.begins.partition_point(|begin| *begin <= value)
    }
}

/// Numbers of all runs at these spots: class, name and pairs for each alternative and world.
fn gathered(
    sheet: &Sheet,
    spots: &[usize],
    of: impl Fn(&Run) -> Option<(f64, f64)>,
) -> Vec<(String, String, Vec<(f64, f64)>)> {
    let mut all: Vec<(String, String, Vec<(f64, f64)>)> = Vec::new();
    for spot in spots {
        for (n, world, class, name) in lanes(sheet, *spot) {
            let Some(cell) = sheet.cell(*spot, n, world) else { continue };
            let numbers: Vec<(f64, f64)> = sheet.runs_of(cell).filter_map(&of).collect();
            if numbers.is_empty() {
                continue;
            }
            match all.iter_mut().find(|(_, other, _)| *other == name) {
                Some((.., points)) => points.extend(numbers),
                None => all.push((class, name, numbers)),
            }
        }
    }
    all
}

fn place(sheet: &Sheet, spots: &[usize]) -> String {
    match spots {
        [spot] => sheet.spots[*spot].label.clone(),
        spots => format!("{} points together", spots.len()),
    }
}

/// Panels of an experiment that are not folded away.
const IN_SIGHT: usize = 12;
/// Panels behind a fold.
const FOLDED: usize = 48;
const MOST_DOTS: usize = 4000;
const MOST_BOXES: usize = 8;
