//! The figures of a sheet: which panels there are, and how they stand on the page.
//!
//! *In:* a [`ReportSheet`]. *Out:* HTML. Panels are made as data ([`Chart`]) and drawn in one place, so that
//! the table behind a figure, which it links to, is what was drawn.

mod runs;
mod spots;

use std::fmt::Write as _;

use super::finding::capital;
use super::sheet::ReportSheet;
use super::words::{self, Better, ReportMeasure, axis, metric};
use crate::experiment::ReportFigure;
use crate::report::chart::{Chart, ChartShape, WIDE, csv};
use crate::report::text::{escaped, in_link};

/// Panels that have crossed keys in common.
struct Panels {
    context: String,
    charts: Vec<Chart>,
}

/// The figures of a sheet, a dozen panels in sight and the others folded.
pub(crate) fn figures(page: &mut String, sheet: &ReportSheet) {
    let in_sight = IN_SIGHT / (sheet.experiment.figures.len() * sheet.contexts().len()).max(1);
    for (n, figure) in sheet.experiment.figures.iter().enumerate() {
        let mut drawn = match *figure {
            ReportFigure::Distribution { metric, logarithmic, .. } => {
                spots::distributions(sheet, metric, logarithmic)
            }
            ReportFigure::Series { series, curves } => spots::series(sheet, series, curves),
            ReportFigure::Runs { metric, curves } => runs::distributions(sheet, metric, curves),
            ReportFigure::Scatter { x, y, colours } => runs::scatter(sheet, x, y, colours),
            ReportFigure::Boxes { metric, over, colours } => runs::boxes(sheet, metric, over, colours),
            ReportFigure::Lines { metric, over, curves } => runs::lines(sheet, metric, over, curves),
            ReportFigure::Parts { metrics, over } => runs::parts(sheet, metrics, over),
            ReportFigure::Heat { metric, x, y, panels } => runs::heat(sheet, metric, x, y, panels),
        };
        drawn.retain(|panels| !panels.charts.is_empty());
        if drawn.is_empty() {
            continue;
        }
        let _ = write!(
            page,
            "<div class=figure><h3>{}</h3><p class=reading>{}</p><p class=legend>",
            escaped(&capital(&title(figure))),
            escaped(&reading(figure, &drawn))
        );
        legend(page, sheet, &drawn);
        let _ = write!(page, "{}</p>", table(sheet, n, &drawn));
        // Of courses two are side by side, and of pauses all alternatives.
        let least = match figure {
            ReportFigure::Series { series: "gaps", .. } => sheet.alternatives.len(),
            ReportFigure::Series { .. } => 2,
            _ => 3,
        };
        arrange(page, figure, drawn, in_sight.max(least));
        page.push_str("</div>");
    }
}

fn arrange(page: &mut String, figure: &ReportFigure, mut drawn: Vec<Panels>, in_sight: usize) {
    if drawn.iter().all(|panels| panels.charts.len() == 1) {
        // The panels say themselves what they are of.
        let is_one_of_many = drawn.len() > 1;
        let named = |panels: Panels| {
            let titles: Vec<String> =
                panels.charts.iter().map(|chart| full_title(&panels, chart, is_one_of_many)).collect();
            panels.charts.into_iter().zip(titles).map(|(chart, title)| Chart { title, ..chart })
        };
        let all: Vec<Chart> = drawn.into_iter().flat_map(named).collect();
        grid(page, &all, in_sight.max(6));
    } else if matches!(figure, ReportFigure::Boxes { .. }) {
        // Small multiples belong together.
        let folded = drawn.split_off(1);
        contexts(page, &drawn, usize::MAX);
        if !folded.is_empty() {
            let count: usize = folded.iter().map(|panels| panels.charts.len()).sum();
            let _ = write!(page, "<details><summary>{}</summary>", words::more(count, "panel"));
            contexts(page, &folded, FOLDED);
            page.push_str("</details>");
        }
    } else if drawn.len() > FEW {
        // The first of each context, and all others by context behind the fold.
        let first: Vec<Chart> = drawn.iter_mut().map(|panels| panels.charts.remove(0)).collect();
        grid(page, &first, IN_SIGHT);
        let count: usize = drawn.iter().map(|panels| panels.charts.len()).sum();
        let _ = write!(page, "<details><summary>{}</summary>", words::more(count, "panel"));
        contexts(page, &drawn, FOLDED);
        page.push_str("</details>");
    } else {
        contexts(page, &drawn, in_sight);
    }
}

fn contexts(page: &mut String, drawn: &[Panels], in_sight: usize) {
    for Panels { context, charts } in drawn.iter().filter(|panels| !panels.charts.is_empty()) {
        if !context.is_empty() {
            let _ = write!(page, "<h4>{}</h4>", escaped(context));
        }
        grid(page, charts, in_sight);
    }
}

fn grid(page: &mut String, charts: &[Chart], in_sight: usize) {
    let is_wide = charts.first().is_some_and(|chart| chart.frame == WIDE);
    let class = if is_wide { "'panels wide'" } else { "panels" };
    // One that would be alone behind the fold is shown.
    let cut = if charts.len() <= in_sight.saturating_add(1) { charts.len() } else { in_sight };
    let svg = |charts: &[Chart]| charts.iter().map(|chart| chart.svg(false)).collect::<String>();
    let (shown, folded) = charts.split_at(cut);
    let _ = write!(page, "<div class={class}>{}</div>", svg(shown));
    if !folded.is_empty() {
        let (folded, left_out) = folded.split_at(folded.len().min(FOLDED));
        let _ = write!(
            page,
            "<details><summary>{}</summary><div class={class}>{}</div>",
            words::more(folded.len(), "panel"),
            svg(folded)
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

fn title(figure: &ReportFigure) -> String {
    match figure {
        ReportFigure::Distribution { metric: path, .. } => format!("Distribution of the {}", metric(path)),
        ReportFigure::Runs { metric: path, .. } => format!("Distribution over runs: {}", metric(path)),
        ReportFigure::Scatter { x, y, colours } => {
            format!("{} over {}, by {}", metric(y), words::name(x), colours.replace('_', " "))
        }
        ReportFigure::Boxes { metric: path, over, .. } | ReportFigure::Lines { metric: path, over, .. } => {
            format!("{} over {}", metric(path), axis(over))
        }
        ReportFigure::Parts { over, .. } => format!("{} over {}", words::WHOLE, words::name(over)),
        ReportFigure::Heat { metric: path, x, y, .. } => {
            format!("{} by {} and {}", metric(path), words::name(x), words::name(y))
        }
        ReportFigure::Series { series, .. } => match *series {
            "blocking" => "Blocking time, message by message".to_owned(),
            "gaps" => "Inter-delivery time over time (the first seed)".to_owned(),
            "goodput" => "Goodput over time (the first seed)".to_owned(),
            "queue" => "Queueing delay over time (the first seed)".to_owned(),
            "share" => "Shares of each ten seconds (the first seed)".to_owned(),
            other => format!("{other} (the first seed)"),
        },
    }
}

/// What one sees, and what would be good.
fn reading(figure: &ReportFigure, drawn: &[Panels]) -> String {
    let good = |path: &str, less: &'static str, more: &'static str| match ReportMeasure::of(path) {
        Some(measure) if measure.better == Better::Less => less,
        Some(measure) if measure.better == Better::More => more,
        _ => "",
    };
    match figure {
        ReportFigure::Distribution { metric, logarithmic: false, .. } => {
            let good =
                good(metric, " The sooner it is at the top, the better.", " The later it rises, the better.");
            format!("At each time a curve is as high as the share of values that are no longer.{good}")
        }
        ReportFigure::Distribution { metric, logarithmic: true, .. } => {
            let good = good(metric, " The further down and to the left it falls, the better.", "");
            format!(
                "At each time a curve is as high as the share of values that are longer: rare ones are far down, and each \
                 line is a tenth of the one above.{good}"
            )
        }
        ReportFigure::Runs { metric, .. } if words::is_ratio(metric) || *metric == "dct_ratio" => {
            let good = good(
                metric,
                " What lies left of the line at 1 is a gain.",
                " What lies right of the line at 1 is a gain.",
            );
            format!(
                "A step for each run: a curve is as high as the share of runs with at most so much.{good}"
            )
        }
        ReportFigure::Runs { metric, .. } => {
            let good = good(metric, " Further to the left is better.", " Further to the right is better.");
            format!(
                "A step for each run: a curve is as high as the share of runs with at most so much.{good}"
            )
        }
        ReportFigure::Scatter { y, .. } => {
            let good = good(y, " Further down is better.", " Further up is better.");
            format!("A dot for each run.{good}")
        }
        ReportFigure::Boxes { metric, .. } => {
            let good = good(metric, " Further down is better.", " Further up is better.");
            let mut curves = drawn.iter().flat_map(|panels| &panels.charts).flat_map(|chart| &chart.curves);
            // What an ordinary transport has no number of, like repair, has no line.
            let behind = if curves.any(|curve| matches!(curve.shape, ChartShape::Line(_))) {
                " The line across is the median of what an ordinary transport does, the same in all panels."
            } else {
                ""
            };
            format!(
                "A box holds half of all runs, the line in it is their median; lines reach to the 5th and the 95th \
                 percentile.{good}{behind}"
            )
        }
        ReportFigure::Lines { metric, .. } => {
            let good = good(metric, " Further down is better.", " Further up is better.");
            format!(
                "Each dot is the median of the runs there; where several agree, one lies over the others.{good}"
            )
        }
        ReportFigure::Parts { metrics, .. } => {
            let told = metrics.iter().filter_map(|path| ReportMeasure::of(path));
            let told =
                told.map(|part| format!("{}: {}", part.label, part.about)).collect::<Vec<_>>().join("; ");
            format!(
                "Each bar is the whole, the mean of the runs there, and its blocks are what it went to. {told}."
            )
        }
        ReportFigure::Heat { metric, .. } => {
            let good = good(metric, "less than 1", "more than 1");
            format!(
                "Each square is the mean of the runs there; the stronger the green, the better ({good}), and red is worse."
            )
        }
        ReportFigure::Series { series, .. } => of_series(series).to_owned(),
    }
}

fn of_series(series: &str) -> &'static str {
    match series {
        "blocking" => {
            "A dot for each message of all seeds: how long it waited for others after it had arrived, from the first \
             message to the last. At the bottom nobody waits, which is best."
        }
        "gaps" => {
            "A dot for each time between two messages (of many short ones after each other the longest), when the second \
             was let go, with a panel for each alternative; upright lines are when each of them had everything. Dots above the dashed line are pauses longer than a round \
             trip (at the bottom is what was let go together): the fewer, the better, and the further left the upright lines, the faster."
        }
        "goodput" => {
            "What each got, over time. Lines that follow what was asked for, and leave no gaps, are good."
        }
        "queue" => {
            "How long packets stand in the queue, over time. Less is better for all who share the link."
        }
        "share" => "Each flow’s part of what all got. Lines that come together are good.",
        _ => "",
    }
}

/// What is drawn of each colour, in the order of the page.
fn legend(page: &mut String, sheet: &ReportSheet, drawn: &[Panels]) {
    let curves = || drawn.iter().flat_map(|panels| &panels.charts).flat_map(|chart| &chart.curves);
    let mut named: Vec<(&str, &str)> = Vec::new();
    for curve in curves().filter(|curve| !matches!(curve.shape, ChartShape::Cells(_))) {
        let class = curve.class.strip_suffix(REAL).unwrap_or(&curve.class);
        if !named.contains(&(class, &curve.name)) {
            named.push((class, &curve.name));
        }
    }
    named.sort_by_key(|(class, _)| sheet.place_of_hue(class));
    for (class, name) in named {
        let _ = write!(
            page,
            "<span class='{class}'><i></i><span class='name {class}'>{}</span></span> ",
            escaped(name)
        );
    }
    if curves().any(|curve| curve.class.ends_with(REAL)) {
        page.push_str("<span class=solid>simulated</span> <span class=dashed>over real sockets</span> ");
    }
}

/// A link to the numbers behind a figure, which are in the link itself: the page is one file.
fn table(sheet: &ReportSheet, n: usize, drawn: &[Panels]) -> String {
    let most = if drawn.len() > 1 { FOLDED } else { IN_SIGHT + FOLDED };
    let panels = drawn.iter().flat_map(|panels| {
        let named = |chart| (full_title(panels, chart, drawn.len() > 1), chart);
        panels.charts.iter().take(most).map(named)
    });
    format!(
        "<a class=csv download='{}-{}.csv' href='data:text/csv;charset=utf-8,{}'>CSV of this figure</a>",
        escaped(sheet.experiment.name),
        n + 1,
        in_link(&csv(&panels.collect::<Vec<_>>()))
    )
}

/// The title of a panel, with what it has in common with others of its context where there are several and it
/// does not say so.
fn full_title(panels: &Panels, chart: &Chart, is_one_of_many: bool) -> String {
    if is_one_of_many && !chart.title.contains(&panels.context) {
        format!("{}: {}", panels.context, chart.title)
    } else {
        chart.title.clone()
    }
}

/// What the classes of curves over real sockets end in.
const REAL: &str = " real";
/// Panels of an experiment that are not folded away.
const IN_SIGHT: usize = 12;
/// Contexts that have a row of panels each.
const FEW: usize = 2;
/// Panels behind a fold.
const FOLDED: usize = 48;
