use std::fmt::Write as _;

use super::finding::{capital, world_words};
use super::sheet::{Run, Sheet, Spot};
use super::words::{self, axis, metric};
use crate::experiment::{Figure, Value};
use crate::report::chart::{Chart, Curve, SMALL, Scale, Shape, WIDE, shares};
use crate::report::text::{escaped, number};
use crate::results::Histogram;

/// The figures of a sheet, a dozen panels in sight and the others folded.
pub(crate) fn figures(page: &mut String, sheet: &Sheet) {
    let contexts = sheet.contexts();
    let in_sight = IN_SIGHT / (sheet.experiment.figures.len() * contexts.len()).max(1);
    for figure in sheet.experiment.figures {
        let mut drawn: Vec<(String, Vec<String>)> = match figure {
            Figure::Distribution { metric, logarithmic, .. } => {
                let panels = |spots: &Vec<usize>| {
                    // Without loss there is not much to see: not among the first.
                    let mut spots = spots.clone();
                    spots.sort_by_key(|spot| sheet.lossless(*spot) == Some(*spot));
                    spots.iter().filter_map(|spot| distribution(sheet, *spot, metric, *logarithmic)).collect()
                };
                contexts.iter().map(|(context, spots)| ((*context).to_owned(), panels(spots))).collect()
            }
            Figure::Series { series, curves } => {
                let panels = |spots: &Vec<usize>| {
                    spots.iter().flat_map(|spot| series_panels(sheet, *spot, series, curves)).collect()
                };
                contexts.iter().map(|(context, spots)| ((*context).to_owned(), panels(spots))).collect()
            }
            Figure::Runs { metric, curves } => runs(sheet, metric, curves),
            Figure::Scatter { x, y, colours } => scatter(sheet, x, y, colours),
            Figure::Boxes { metric, over, colours } => boxes(sheet, metric, over, colours),
        };
        drawn.retain(|(_, panels)| !panels.is_empty());
        if drawn.is_empty() {
            continue;
        }
        let _ =
            write!(page, "<div class=figure><h3>{}</h3><p class=legend>", escaped(&capital(&title(figure))));
        legend(page, sheet, figure);
        page.push_str("</p>");
        if drawn.iter().all(|(_, panels)| panels.len() == 1) {
            // The panels say themselves what they are of.
            let panels: Vec<String> = drawn.into_iter().flat_map(|(_, panels)| panels).collect();
            grid(page, &panels, in_sight.max(6), matches!(figure, Figure::Boxes { .. }));
        } else if drawn.len() > FEW {
            // The first of each context, and all others by context behind the fold.
            let first: Vec<String> = drawn.iter_mut().map(|(_, panels)| panels.remove(0)).collect();
            grid(page, &first, IN_SIGHT, false);
            let _ = write!(
                page,
                "<details><summary>{} more</summary>",
                drawn.iter().map(|(_, panels)| panels.len()).sum::<usize>()
            );
            contexts_of(page, &drawn, FOLDED);
            page.push_str("</details>");
        } else {
            let least = if matches!(figure, Figure::Series { .. }) { 1 } else { 3 };
            contexts_of(page, &drawn, in_sight.max(least));
        }
        page.push_str("</div>");
    }
}

fn contexts_of(page: &mut String, drawn: &[(String, Vec<String>)], in_sight: usize) {
    for (context, panels) in drawn.iter().filter(|(_, panels)| !panels.is_empty()) {
        if !context.is_empty() {
            let _ = write!(page, "<h4>{}</h4>", escaped(context));
        }
        grid(page, panels, in_sight, false);
    }
}

fn grid(page: &mut String, panels: &[String], in_sight: usize, is_wide: bool) {
    let class = if is_wide { "'panels wide'" } else { "panels" };
    // One that would be alone behind the fold is shown.
    let cut = if panels.len() <= in_sight + 1 { panels.len() } else { in_sight };
    let (shown, folded) = panels.split_at(cut);
    let _ = write!(page, "<div class={class}>{}</div>", shown.concat());
    if !folded.is_empty() {
        let (folded, left_out) = folded.split_at(folded.len().min(FOLDED));
        let _ = write!(
            page,
            "<details><summary>{} more</summary><div class={class}>{}</div>",
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
                "Blocking time, message by message (the first seed; the longest of each stretch)".to_owned()
            }
            "goodput" => "Goodput over time (the first seed)".to_owned(),
            "queue" => "Queueing delay over time (the first seed)".to_owned(),
            "share" => "Shares of each ten seconds (the first seed)".to_owned(),
            other => format!("{other} (the first seed)"),
        },
    }
}

fn legend(page: &mut String, sheet: &Sheet, figure: &Figure) {
    let key = match figure {
        Figure::Series { curves: "flow", .. } => "",
        Figure::Distribution { .. } | Figure::Series { .. } => sheet.curves,
        Figure::Runs { curves, .. } => curves,
        Figure::Scatter { colours, .. } | Figure::Boxes { colours, .. } => colours,
    };
    let values = if key.is_empty() { Vec::new() } else { sheet.values(key) };
    for value in &values {
        let _ = write!(
            page,
            "<span class='{hue}'><i></i><span class='name {hue}'>{}</span></span> ",
            escaped(&words::plain(key, value)),
            hue = sheet.hue_of(&value.to_string())
        );
    }
    if let Figure::Series { series, curves: "flow" } = figure {
        let mut all = sheet.runs.iter().map(|run| flows(run, series));
        let first: Vec<&str> = all.next().unwrap_or_default().into_iter().map(|(name, _)| name).collect();
        // Where each run has flows of its own, only the lines themselves can tell.
        if all.all(|flows| flows.iter().map(|(name, _)| *name).eq(first.iter().copied())) {
            for name in first {
                let (hue, name) = (sheet.hue_of(name), escaped(name));
                let _ =
                    write!(page, "<span class='{hue}'><i></i><span class='name {hue}'>{name}</span></span> ");
            }
        } else {
            page.push_str("<span>a line for each flow; a pointer that rests on one is told its name</span>");
        }
    }
    if sheet.worlds.len() > 1 && !matches!(figure, Figure::Scatter { .. } | Figure::Boxes { .. }) {
        page.push_str("<span class=solid>simulated</span> <span class=dashed>over real sockets</span>");
    }
    if matches!(figure, Figure::Scatter { .. }) && sheet.runs.len() > MOST_DOTS {
        let _ = write!(page, "<span>of more than {MOST_DOTS} runs of a colour so many are drawn</span>");
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
    let (mut curves, mut shortest, mut longest, mut count) = (Vec::new(), f64::INFINITY, 0.0f64, 1);
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
        shortest = shortest.min(histogram.percentile(0.001));
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
        (Scale::logarithmic(shortest.max(0.01), reach.max(1.0)), Scale::SmallShare { from })
    } else {
        (Scale::with_lines(reach, 5.0), Scale::Share)
    };
    let chart = Chart {
        title: &panel_title(sheet, spot),
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

/// The point, with the context in front where there are many.
fn panel_title(sheet: &Sheet, spot: usize) -> String {
    let Spot { context_label, label, .. } = &sheet.spots[spot];
    if sheet.contexts().len() > FEW && !context_label.is_empty() {
        format!("{context_label}: {label}")
    } else {
        label.clone()
    }
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
    let label = &panel_title(sheet, spot);
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
        let flows = flows(run, series);
        let curves = flows.iter().map(|(name, points)| Curve {
            class: sheet.hue_of(name),
            hover: (*name).to_owned(),
            shape: Shape::Line((*points).clone()),
        });
        panels.extend(series_chart(&format!("{}, {label}", lane.3), series, &curves.collect::<Vec<_>>()));
    }
    panels
}

/// The flows of a run that have a series of this name, with its points.
fn flows<'a>(run: &'a Run, series: &str) -> Vec<(&'a str, &'a Vec<(f64, f64)>)> {
    let of = |(name, points): (&'a String, &'a Vec<(f64, f64)>)| {
        Some((name.strip_prefix(series)?.strip_prefix('/')?, points))
    };
    run.row.detail.series.iter().filter_map(of).collect()
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
        "queue" => ("seconds", "ms"),
        "share" => ("seconds", "% of what all flows got"),
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

fn runs(sheet: &Sheet, path: &str, by: &str) -> Vec<(String, Vec<String>)> {
    let factor = words::factor(path);
    let panel = |group: &Group<'_>| {
        let (mut curves, mut least, mut most) = (Vec::new(), f64::INFINITY, 0.0f64);
        for lane in &group.lanes {
            let mut values: Vec<f64> =
                lane.runs.iter().filter_map(|run| run.number(path)).map(|value| value * factor).collect();
            values.sort_by(f64::total_cmp);
            let (Some(first), Some(last)) = (values.first(), values.last()) else { continue };
            (least, most) = (least.min(*first), most.max(*last));
            let hover = format!(
                "{}: median {}, {} runs",
                lane.name,
                number(values[(values.len() - 1) / 2]),
                values.len()
            );
            curves.push(Curve { class: &lane.class, hover, shape: Shape::Steps(shares(&values)) });
        }
        let is_wide = least > 0.0 && most / least > 30.0;
        let chart = Chart {
            title: &group.title,
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
        (!curves.is_empty()).then(|| chart.svg(&curves, false))
    };
    grouped(sheet, by, None)
        .iter()
        .map(|group| (group.title.clone(), panel(group).into_iter().collect()))
        .collect()
}

fn scatter(sheet: &Sheet, x: &str, y: &str, by: &str) -> Vec<(String, Vec<String>)> {
    let (x_factor, y_factor) = (words::factor(x), words::factor(y));
    let panel = |group: &Group<'_>| {
        let (mut curves, mut most, mut least) = (Vec::new(), [0.0f64; 2], [f64::INFINITY; 2]);
        for lane in &group.lanes {
            let place = |run: &&Run| Some((run.number(x)? * x_factor, run.number(y)? * y_factor));
            let points: Vec<(f64, f64)> = lane.runs.iter().filter_map(place).collect();
            if points.is_empty() {
                continue;
            }
            for (x, y) in &points {
                most = [most[0].max(*x), most[1].max(*y)];
                least = [least[0].min(*x), least[1].min(*y)];
            }
            let mut hover = format!("{}: {} runs", lane.name, points.len());
            let points = dots(points);
            if points.len() == MOST_DOTS {
                let _ = write!(hover, ", {MOST_DOTS} of them drawn");
            }
            curves.push(Curve { class: &lane.class, hover, shape: Shape::Dots(points) });
        }
        let chart = Chart {
            title: &group.title,
            x_label: &axis(x),
            y_label: &axis(y),
            x: Scale::around(least[0], most[0]),
            y: Scale::around(least[1], most[1]),
            mark: None,
            frame: SMALL,
        };
        (!curves.is_empty()).then(|| chart.svg(&curves, false))
    };
    grouped(sheet, by, None)
        .iter()
        .map(|group| (group.title.clone(), panel(group).into_iter().collect()))
        .collect()
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

fn boxes(sheet: &Sheet, path: &str, over: &str, by: &str) -> Vec<(String, Vec<String>)> {
    let factor = words::factor(path);
    let panel = |group: &Group<'_>| {
        let there = group.lanes.iter().flat_map(|lane| &lane.runs).filter_map(|run| run.row.params.get(over));
        let bins = Bins::of(over, &sheet.values(over), &there.collect::<Vec<_>>());
        let width = Chart::box_width(WIDE, bins.names.len(), group.lanes.len());
        let (mut curves, mut highest) = (Vec::new(), 0.0f64);
        for (n, lane) in group.lanes.iter().enumerate() {
            let mut values: Vec<Vec<f64>> = vec![Vec::new(); bins.names.len()];
            for run in &lane.runs {
                let bin = run.row.params.get(over).and_then(|value| bins.place(value));
                if let (Some(bin), Some(value)) = (bin, run.number(path)) {
                    values[bin].push(value * factor);
                }
            }
            let mut boxes = Vec::new();
            for (bin, mut values) in values.into_iter().enumerate().filter(|(_, values)| !values.is_empty()) {
                values.sort_by(f64::total_cmp);
                let rank = |p: f64| ((p * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1;
                let five = [0.05, 0.25, 0.5, 0.75, 0.95].map(|p| values[rank(p)]);
                highest = highest.max(five[4]);
                // Side by side within four fifths of the place.
                let along = bin as f64 + 0.1 + 0.8 * (n as f64 + 0.5) / group.lanes.len() as f64;
                boxes.push((along, five));
            }
            if !boxes.is_empty() {
                let shape = Shape::Boxes(boxes, width);
                curves.push(Curve { class: &lane.class, hover: lane.name.clone(), shape });
            }
        }
        let chart = Chart {
            title: &group.title,
            x_label: &axis(over),
            y_label: &axis(path),
            x: Scale::Places(bins.names),
            y: Scale::with_lines(highest, 5.0),
            mark: None,
            frame: WIDE,
        };
        (!curves.is_empty()).then(|| chart.svg(&curves, false))
    };
    let groups = grouped(sheet, by, Some(over));
    groups.iter().map(|group| (group.title.clone(), panel(group).into_iter().collect())).collect()
}

/// The places along a figure of boxes: each value for itself, or, of many numbers, stretches of equal width.
struct Bins {
    names: Vec<String>,
    values: Vec<Value>,
    /// Where each but the first stretch begins.
    begins: Vec<f64>,
}

impl Bins {
    fn of(key: &str, order: &[Value], there: &[&Value]) -> Self {
        let values: Vec<Value> = order.iter().filter(|value| there.contains(value)).cloned().collect();
        let mut numbers: Vec<f64> = values
            .iter()
            .filter_map(|value| match value {
                Value::Number(n) => Some(*n),
                Value::Text(_) => None,
            })
            .collect();
        numbers.sort_by(f64::total_cmp);
        if values.len() <= MOST_BOXES || numbers.len() < values.len() {
            let names = values.iter().map(|value| words::bare(key, value)).collect();
            return Self { names, values, begins: Vec::new() };
        }
        let (least, most) = (numbers[0], numbers[numbers.len() - 1]);
        let width = (most - least) / STRETCHES as f64;
        let edge = |n: usize| least + width * n as f64;
        Self {
            names: (0..STRETCHES).map(|n| words::about(key, edge(n) + width / 2.0)).collect(),
            values: Vec::new(),
            begins: (1..STRETCHES).map(edge).collect(),
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
struct Group<'a> {
    title: String,
    lanes: Vec<Lane<'a>>,
}

/// Runs of one colour.
struct Lane<'a> {
    class: String,
    name: String,
    runs: Vec<&'a Run>,
}

/// All runs by crossed keys and colour. Along a key, where points differ in one thing alone, the others are as in the
/// baseline; so is a run without loss no part of a design.
fn grouped<'a>(sheet: &'a Sheet, by: &str, over: Option<&str>) -> Vec<Group<'a>> {
    let keys: Vec<&str> = std::iter::once(by).chain(over).collect();
    let is_design = sheet.runs.iter().any(|run| sheet.is_of_design(run));
    let fits = |run: &&Run| {
        if is_design {
            sheet.is_of_design(run)
        } else {
            over.is_none() || sheet.is_baseline_but_for(run, &keys)
        }
    };
    let mut chosen: Vec<&Run> = sheet.runs.iter().filter(fits).collect();
    if chosen.is_empty() {
        chosen = sheet.runs.iter().collect();
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    for value in &sheet.values(by) {
        for (world, name) in sheet.worlds.iter().enumerate() {
            let is_second = world > 0;
            let class =
                format!("{}{}", sheet.hue_of(&value.to_string()), if is_second { " real" } else { "" });
            let mut name_words = words::plain(by, value);
            if sheet.worlds.len() > 1 {
                let _ = write!(name_words, ", {}", world_words(name));
            }
            for run in &chosen {
                if run.row.world != *name || sheet.value(run, by).as_ref() != Some(value) {
                    continue;
                }
                let title = sheet.context_without(run, &keys);
                let at = groups.iter().position(|group| group.title == title).unwrap_or_else(|| {
                    groups.push(Group { title, lanes: Vec::new() });
                    groups.len() - 1
                });
                let group = &mut groups[at];
                match group.lanes.iter().position(|lane| lane.name == name_words) {
                    Some(at) => group.lanes[at].runs.push(run),
                    None => group.lanes.push(Lane {
                        class: class.clone(),
                        name: name_words.clone(),
                        runs: vec![run],
                    }),
                }
            }
        }
    }
    for group in &mut groups {
        if group.title.is_empty() {
            let all: usize = group.lanes.iter().map(|lane| lane.runs.len()).sum();
            group.title = format!("{all} runs");
        }
    }
    groups
}

/// Panels of an experiment that are not folded away.
const IN_SIGHT: usize = 12;
/// Contexts that have a row of panels each.
const FEW: usize = 2;
/// Panels behind a fold.
const FOLDED: usize = 48;
const MOST_DOTS: usize = 4000;
/// Multiples of it by the golden ratio of 2^64 lie everywhere alike, of whatever stretch of numbers (Knuth, volume 3, 6.4).
const SCATTERED: u64 = 0x9e37_79b9_7f4a_7c15;
const MOST_BOXES: usize = 16;
const STRETCHES: usize = 8;
