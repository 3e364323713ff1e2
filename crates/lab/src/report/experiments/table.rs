use std::collections::BTreeMap;
use std::fmt::Write as _;

use quickset_base::number::Float as _;
use serde::Serialize;

use super::finding::world_words;
use super::pooled::is_pooled;
use super::sheet::{Measured, ReportSheet, SheetSpot, told_half};
use super::words::{self, metric, shown};
use crate::experiment::{ExperimentKey, Params, Published, ReportFigure, Value};
use crate::report::text::{escaped, number};

/// A line of the numbers: a measure of an alternative at a spot, beside what was published and what it is
/// without loss.
#[derive(Clone, Debug, Serialize)]
pub struct TableLine {
    /// The experiment.
    pub experiment: String,
    /// The values of crossed keys, and of those that differ from the baseline, in words.
    pub point: String,
    /// The path of the measure, like `blocking_ms.p99`.
    pub metric: String,
    /// The alternative, mostly a mode.
    pub alternative: String,
    /// Ours, by world.
    pub ours: BTreeMap<String, Number>,
    /// What was published, in the unit of the measure, and in which figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Printed>,
    /// Ours over the published; the simulated one where there are both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// How much the real world has more than the simulated one, in per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real_more_percent: Option<f64>,
    /// Of what is measured as a paper has it: the same by our own conventions, with the full rate of loss
    /// each way and at full pace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_full: Option<Number>,
    /// The same where nothing is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_loss: Option<Number>,
    /// Where nothing is lost: how much more than the reference, total order or plain QUIC, in per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_loss_more_percent: Option<f64>,
    /// Where nothing is lost: ours, and that of the reference.
    #[serde(skip)]
    compared: Option<(f64, f64)>,
    #[serde(skip)]
    spot: usize,
    #[serde(skip)]
    place: usize,
}

/// A measured number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Number {
    /// The mean over runs; of percentiles that of the pooled distribution.
    pub value: f64,
    /// So far to either side reaches the 95 % confidence interval; missing for a single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half: Option<f64>,
    /// The runs that it is of.
    pub runs: usize,
}

/// A published number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Printed {
    /// The value.
    pub value: f64,
    /// The figure.
    pub figure: &'static str,
}

/// All lines of a sheet, spot by spot.
pub(crate) fn lines(sheet: &ReportSheet) -> Vec<TableLine> {
    let published = targets(sheet);
    let mut lines = Vec::new();
    for spot in 0..sheet.spots.len() {
        for path in metrics(sheet, spot, &published) {
            for place in 0..sheet.alternatives.len() {
                lines.extend(line(sheet, spot, place, &path, &published));
            }
        }
    }
    lines
}

fn line(
    sheet: &ReportSheet,
    spot: usize,
    place: usize,
    path: &str,
    published: &[Target],
) -> Option<TableLine> {
    let measured = |spot: usize, place: usize, world: usize| -> Option<Measured> {
        sheet.measured(sheet.cell(spot, place, world)?, path)
    };
    let worlds = || sheet.worlds.iter().enumerate();
    let ours: BTreeMap<String, Number> =
        worlds().filter_map(|(n, world)| Some((world.clone(), measured(spot, place, n)?.into()))).collect();
    let first = worlds().find_map(|(n, _)| measured(spot, place, n))?;
    if first.value == 0.0 && REPAIR.contains(&path) && !sheet.is_protected(place) {
        return None;
    }
    let found =
        published.iter().find(|target| target.is(sheet, spot, place) && target.published.metric == path);
    let printed =
        found.map(|target| Printed { value: target.published.value, figure: target.published.figure });
    let percent = |ours: f64, reference: f64| (reference != 0.0).then(|| (ours / reference - 1.0) * 100.0);
    // What did not come to its end is shown, and compared with nothing.
    let whole = |spot: usize, place: usize, world: usize| -> Option<f64> {
        Some(sheet.measured_whole(sheet.cell(spot, place, world)?, path)?.value)
    };
    let of_world =
        |name: &str| worlds().find(|(_, world)| *world == name).and_then(|(n, _)| whole(spot, place, n));
    let real = of_world("real").zip(of_world("sim")).and_then(|(real, sim)| percent(real, sim));
    let lossless = sheet.lossless(spot);
    let zero = lossless.and_then(|spot| worlds().find_map(|(n, _)| measured(spot, place, n)));
    let at_zero = |place: usize| lossless.and_then(|spot| worlds().find_map(|(n, _)| whole(spot, place, n)));
    let reference = sheet.reference().filter(|reference| *reference != place).and_then(at_zero);
    let compared = at_zero(place).zip(reference);
    Some(TableLine {
        experiment: sheet.experiment.name.to_owned(),
        point: sheet.spots[spot].words(),
        metric: path.to_owned(),
        alternative: sheet.alternatives[place].to_string(),
        ours,
        published: printed,
        ratio: printed
            .filter(|printed| printed.value != 0.0)
            .and_then(|printed| Some(worlds().find_map(|(n, _)| whole(spot, place, n))? / printed.value)),
        real_more_percent: real,
        in_full: sheet
            .in_full(spot)
            .and_then(|spot| worlds().find_map(|(n, _)| measured(spot, place, n)))
            .map(Number::from),
        without_loss: zero.map(Number::from),
        without_loss_more_percent: compared.and_then(|(ours, other)| percent(ours, other)),
        compared,
        spot,
        place,
    })
}

/// The measures of a spot: those of the figures, those published often, and those published just of it.
fn metrics(sheet: &ReportSheet, spot: usize, published: &[Target]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for figure in sheet.experiment.figures {
        match figure {
            ReportFigure::Distribution { metric, .. } => {
                paths.extend(["mean", "p80", "p99", "p999"].map(|stat| format!("{metric}.{stat}")));
            }
            ReportFigure::Runs { metric: "dct_ratio", .. } => {
                let stats = ["p50", "p95", words::BELOW_ONE];
                paths.extend(stats.map(|stat| format!("dct_ratio.{stat}")));
            }
            ReportFigure::Runs { metric, .. }
            | ReportFigure::Boxes { metric, .. }
            | ReportFigure::Lines { metric, .. }
            | ReportFigure::Heat { metric, .. } => paths.push((*metric).to_owned()),
            ReportFigure::Scatter { x, y, .. } => {
                paths.extend(
                    [x, y]
                        .into_iter()
                        .filter(|path| ExperimentKey::find(path).is_err())
                        .map(|path| (*path).to_owned()),
                );
            }
            ReportFigure::Parts { metrics, .. } => {
                paths.extend(metrics.iter().map(|path| (*path).to_owned()));
            }
            ReportFigure::Series { .. } => {}
        }
    }
    // Between messages the typical time is none; the pauses count.
    paths.retain(|path| path != "inter_delivery_ms.mean" && path != "inter_delivery_ms.p80");
    let is_completed = published.iter().any(|target| target.published.metric == "completion_s");
    if is_completed && sheet.experiment.has("pace") {
        paths.extend(["completion_s", "paced_s"].map(str::to_owned));
    }
    if sheet.experiment.has("fec") {
        paths.extend(REPAIR.map(str::to_owned));
    }
    for target in published {
        let path = target.published.metric;
        let often = published.iter().filter(|other| other.published.metric == path).count() > 2;
        let here = (0..sheet.alternatives.len()).any(|place| target.is(sheet, spot, place));
        if (often || here) && !paths.iter().any(|other| other == path) {
            paths.push(path.to_owned());
        }
    }
    let mut unique: Vec<String> = Vec::new();
    for path in paths {
        if !unique.contains(&path) {
            unique.push(path);
        }
    }
    // Percentiles of a measure stand together, in rising order.
    let bases: Vec<String> = unique.iter().map(|path| words::split(path).0.to_owned()).collect();
    let first = |path: &str| bases.iter().position(|base| base == words::split(path).0);
    unique.sort_by_key(|path| {
        let stat = words::split(path).1.and_then(words::fraction).unwrap_or(0.0);
        (first(path), (stat * 1e6).whole::<u64>())
    });
    unique
}

/// A published number, and the parameters that it is about.
struct Target {
    published: &'static Published,
    params: Params,
    /// The keys that it names.
    named: Vec<&'static str>,
}

fn targets(sheet: &ReportSheet) -> Vec<Target> {
    let of = |published: &'static Published| -> Option<Target> {
        let mut params = sheet.experiment.base();
        let mut named = Vec::new();
        if sheet.experiment.has("profile") {
            params.set(ExperimentKey::find("profile").ok()?, "as-published").ok()?;
        }
        for word in published.at.split_whitespace() {
            let (name, text) = word.split_once('=')?;
            let key = ExperimentKey::find(name).ok()?;
            params.set(key, text).ok()?;
            named.push(key.name);
        }
        Some(Target { published, params, named })
    };
    let of_points = sheet.experiment.published.iter().filter(|published| !is_pooled(published));
    of_points.filter_map(of).collect()
}

impl Target {
    /// True when it is about this alternative at this spot. Keys that a design fills are its own matter.
    fn is(&self, sheet: &ReportSheet, spot: usize, place: usize) -> bool {
        let SheetSpot { context, point, .. } = &sheet.spots[spot];
        let here = |key: &str| {
            let mut parts = point.iter().chain(context);
            parts.find(|(name, _)| name == key).map(|(_, value)| value)
        };
        let of_point = |(key, value): (&str, &Value)| match here(key) {
            Some(other) => other == value,
            None => sheet.is_compared(key) || !self.named.contains(&key),
        };
        sheet.is_alternative(&sheet.alternatives[place], &self.params) && self.params.iter().all(of_point)
    }
}

/// The lines as tables, folded: who wants a number looks for it, and who does not sees the next thing.
pub(crate) fn tables(page: &mut String, sheet: &ReportSheet, lines: &[TableLine]) {
    for (context, spots) in sheet.contexts() {
        if !context.is_empty() {
            let _ = write!(page, "<h4>{}</h4>", escaped(context));
        }
        let first = spots.iter().copied().find(|spot| sheet.spots[*spot].is_baseline).unwrap_or(spots[0]);
        let told = with_published(&sheet.spots[first].label, lines, &[first]);
        let _ = write!(page, "<details><summary>{}</summary>", escaped(&told));
        table(page, sheet, lines, &[first]);
        page.push_str("</details>");
        let others: Vec<usize> = spots.into_iter().filter(|spot| *spot != first).collect();
        if !others.is_empty() {
            let told = with_published(&words::more(others.len(), "point"), lines, &others);
            let _ = write!(page, "<details><summary>{}</summary>", escaped(&told));
            table(page, sheet, lines, &others);
            page.push_str("</details>");
        }
    }
}

/// What stands on a fold, with how many published numbers are behind it.
fn with_published(what: &str, lines: &[TableLine], spots: &[usize]) -> String {
    let is_one = |line: &&TableLine| line.published.is_some() && spots.contains(&line.spot);
    match lines.iter().filter(is_one).count() {
        0 => what.to_owned(),
        1 => format!("{what}, and a published number beside ours"),
        count => format!("{what}, and {count} published numbers beside ours"),
    }
}

fn table(page: &mut String, sheet: &ReportSheet, lines: &[TableLine], spots: &[usize]) {
    let with_paper = !sheet.experiment.published.is_empty();
    let in_full = spots.iter().any(|spot| sheet.in_full(*spot).is_some());
    columns(page, sheet, in_full);
    let here: Vec<&TableLine> = lines.iter().filter(|line| spots.contains(&line.spot)).collect();
    for (n, line) in here.iter().enumerate() {
        let before = n.checked_sub(1).map(|n| here[n]);
        let is_point = before.is_none_or(|before| before.spot != line.spot);
        let is_metric = is_point || before.is_some_and(|before| before.metric != line.metric);
        let _ = write!(
            page,
            "<tr{}>",
            if is_point {
                " class=first"
            } else if is_metric {
                " class=next"
            } else {
                ""
            }
        );
        let point = if is_point { escaped(&sheet.spots[line.spot].label) } else { String::new() };
        let measure = if is_metric { escaped(&metric_with_unit(&line.metric)) } else { String::new() };
        let _ = write!(
            page,
            "<td class=words>{point}<td class=words>{measure}<th class='{hue}'><i></i>{name}",
            hue = sheet.hue(line.place),
            name = escaped(&sheet.alternative(line.place))
        );
        for world in &sheet.worlds {
            let text = line.ours.get(world).map(|ours| value(&line.metric, ours));
            let _ = write!(page, "<td>{}", text.as_deref().unwrap_or(NONE));
        }
        if sheet.worlds.len() > 1 {
            let _ = write!(page, "<td>{}", line.real_more_percent.map_or(NONE.to_owned(), signed));
        }
        if with_paper {
            let printed = line.published.map(|printed| {
                format!(
                    "{} <small>{}</small>",
                    shown(&line.metric, printed.value),
                    escaped(&words::cited(printed.figure))
                )
            });
            let ratio = line.ratio.map(|ratio| format!("{ratio:.2}"));
            let _ = write!(
                page,
                "<td>{}<td>{}",
                printed.as_deref().unwrap_or(NONE),
                ratio.as_deref().unwrap_or(NONE)
            );
        }
        if in_full {
            let full = line.in_full.map(|full| value(&line.metric, &full));
            let _ = write!(page, "<td>{}", full.as_deref().unwrap_or(NONE));
        }
        let zero = line.without_loss.map(|zero| value(&line.metric, &zero));
        let _ = write!(page, "<td>{}", zero.as_deref().unwrap_or(NONE));
        if sheet.reference().is_some() {
            let _ = write!(page, "<td>{}", harm(line));
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>");
}

/// The names of the columns.
fn columns(page: &mut String, sheet: &ReportSheet, in_full: bool) {
    page.push_str(
        "<div class=scroll><table><thead><tr><th class=words>point<th class=words>measure<th class=words>",
    );
    page.push_str(&escaped(&sheet.curves.replace('_', " ")));
    for world in &sheet.worlds {
        let _ = write!(page, "<th>ours, {}", escaped(world_words(world)));
    }
    if sheet.worlds.len() > 1 {
        page.push_str("<th>real against<br>simulated");
    }
    if !sheet.experiment.published.is_empty() {
        page.push_str("<th>published<th>ours over<br>published");
    }
    if in_full {
        page.push_str("<th>ours with full<br>loss and pace");
    }
    page.push_str("<th>ours with<br>no loss");
    if let Some(reference) = sheet.reference() {
        let _ = write!(page, "<th>there, against<br>{}", escaped(&sheet.alternative(reference)));
    }
    page.push_str("</tr></thead><tbody>");
}

/// What an alternative costs where nothing is lost.
fn harm(line: &TableLine) -> String {
    match (line.without_loss_more_percent, line.compared) {
        (Some(percent), _) => signed(percent),
        // Of nothing there is no share.
        (None, Some((ours, other))) => match shown(&line.metric, (ours - other).abs()).as_str() {
            "0" => "±0".to_owned(),
            size => format!("{}{size}", if ours < other { '−' } else { '+' }),
        },
        (None, None) => NONE.to_owned(),
    }
}

fn metric_with_unit(path: &str) -> String {
    match words::unit(path) {
        "" => metric(path),
        unit => format!("{}, {unit}", metric(path)),
    }
}

fn value(path: &str, number: &Number) -> String {
    // Where all runs agree there is nothing to add.
    let half = told_half(number.value, number.half);
    let half = half.map(|half| format!(" <small>± {}</small>", shown(path, half)));
    format!("{}{}", shown(path, number.value), half.unwrap_or_default())
}

fn signed(percent: f64) -> String {
    let size = if percent.abs() >= 10.0 {
        format!("{:.0}", percent.abs())
    } else {
        number((percent.abs() * 10.0).round() / 10.0)
    };
    match size.as_str() {
        "0" => "±0 %".to_owned(),
        size => format!("{}{size} %", if percent < 0.0 { '−' } else { '+' }),
    }
}

impl From<Measured> for Number {
    fn from(measured: Measured) -> Self {
        let Measured { value, half, runs } = measured;
        Self { value, half, runs }
    }
}

/// What is told wherever repair is compared: what it costs, what it achieves, and what chance alone would
/// leave.
const REPAIR: [&str; 8] = [
    "repair_share",
    "repair_share_late",
    "recovered",
    "unrecovered",
    "resent",
    "failed_blocks",
    "failed_blocks_expected",
    "failed_blocks_raptorq",
];
/// Where there is no number.
pub(crate) const NONE: &str = "–";
