use super::paired::Paired;
use super::sheet::ReportSheet;
use super::words::{self, Better, ReportMeasure, metric, with_unit};
use crate::experiment::ReportFigure;
use crate::report::text::{escaped, number};

/// A sentence or two that were computed, as HTML.
pub(crate) struct ComputedFinding {
    pub(crate) tone: Tone,
    pub(crate) html: String,
}

/// How a finding ends for the alternative that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Better,
    Worse,
    /// No difference was shown.
    Even,
    /// Nothing is compared.
    Plain,
}

impl Tone {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Even => "even",
            Self::Plain => "plainly",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Better => "Better",
            Self::Worse => "Worse",
            Self::Even => "No difference shown",
            Self::Plain => "",
        }
    }
}

/// What the rows of a sheet say.
pub(crate) fn findings(sheet: &ReportSheet) -> Vec<ComputedFinding> {
    let metrics = main_metrics(sheet);
    let mut all = Vec::new();
    for path in &metrics {
        for (context, spots) in sheet.contexts() {
            let spot = spots.iter().copied().find(|spot| sheet.spots[*spot].is_baseline).unwrap_or(spots[0]);
            match sheet.reference() {
                Some(reference) => all.extend(against(sheet, context, &spots, spot, reference, path)),
                None => all.extend(listed(sheet, context, spot, path)),
            }
        }
    }
    all
}

/// The measures that figures are about; of distributions the mean, which every message has a part in.
fn main_metrics(sheet: &ReportSheet) -> Vec<String> {
    let mut metrics: Vec<String> = Vec::new();
    for figure in sheet.experiment.figures {
        let path = match figure {
            ReportFigure::Distribution { metric, .. } => format!("{metric}.mean"),
            ReportFigure::Runs { metric, .. }
            | ReportFigure::Boxes { metric, .. }
            | ReportFigure::Lines { metric, .. } => (*metric).to_owned(),
            ReportFigure::Scatter { y, .. } => (*y).to_owned(),
            ReportFigure::Heat { .. } | ReportFigure::Parts { .. } | ReportFigure::Series { .. } => continue,
        };
        // The mean time between messages is but the length of the run; what is felt of it are the pauses.
        let path = if path == "inter_delivery_ms.mean" { "over_rtt".to_owned() } else { path };
        // What stands beside that of another is a comparison already.
        if !metrics.contains(&path) && words::Beside::of(&path).is_none() {
            metrics.push(path);
        }
    }
    metrics.truncate(3);
    metrics
}

/// Every other alternative against the reference, at a spot and over all spots of the context.
fn against(
    sheet: &ReportSheet,
    context: &str,
    spots: &[usize],
    spot: usize,
    reference: usize,
    path: &str,
) -> Vec<ComputedFinding> {
    let mut all = Vec::new();
    for (world, world_name) in sheet.worlds.iter().enumerate() {
        for challenger in (0..sheet.alternatives.len()).filter(|n| *n != reference) {
            let mut place = vec![sheet.spots[spot].label.as_str()];
            place.extend(Some(context).filter(|context| !context.is_empty()));
            place.extend(Some(world_words(world_name)).filter(|_| sheet.worlds.len() > 1));
            let names = [challenger, reference].map(|n| named(sheet, n));
            let sides = [reference, challenger];
            let Some(paired) = sheet.paired(spot, sides, world, path) else {
                all.extend(not_compared(sheet, spot, world, sides, path, &place));
                continue;
            };
            let tone = tone(&paired, path);
            let mut html = format!(
                "<b class={tone}>{word}:</b> {challenger} against {reference}, {place}: {metric} {of_challenger} against \
                 {of_reference}{difference}.",
                tone = tone.class(),
                word = if paired.pairs > 1 { tone.word() } else { "A single pair of runs" },
                challenger = names[0],
                reference = names[1],
                place = escaped(&place.join(", ")),
                metric = escaped(&metric(path)),
                of_challenger = with_unit(path, paired.challenger),
                of_reference = with_unit(path, paired.reference),
                difference = difference(&paired),
            );
            if paired.left_out > 0 {
                html += &left_out(paired.left_out);
            } else if sides.into_iter().all(|side| sheet.is_all_of(spot, side, world, paired.pairs)) {
                html += &tail(sheet, spot, world, sides, path);
            }
            html += &elsewhere(sheet, spots, world, sides, path);
            all.push(ComputedFinding { tone, html });
        }
    }
    all
}

/// Where every pair has a run that broke, and there are numbers that somebody might compare.
fn not_compared(
    sheet: &ReportSheet,
    spot: usize,
    world: usize,
    sides: [usize; 2],
    path: &str,
    place: &[&str],
) -> Option<ComputedFinding> {
    let (_, count) = sheet.pairs(spot, sides, world, path);
    let has_numbers = |side: usize| {
        let cell = sheet.cell(spot, side, world);
        cell.is_some_and(|cell| sheet.runs_of(cell).any(|run| run.number(path).is_some()))
    };
    if count == 0 || !sides.into_iter().all(has_numbers) {
        return None;
    }
    let [reference, challenger] = sides.map(|n| named(sheet, n));
    let html = format!(
        "<b>Not compared:</b> {challenger} against {reference}, {}: {}.{}",
        escaped(&place.join(", ")),
        escaped(&metric(path)),
        left_out(count)
    );
    Some(ComputedFinding { tone: Tone::Plain, html })
}

fn left_out(pairs: usize) -> String {
    match pairs {
        1 => " 1 pair with a run that did not come to its end is left out.".to_owned(),
        pairs => format!(" {pairs} pairs with a run that did not come to its end are left out."),
    }
}

fn tone(paired: &Paired, path: &str) -> Tone {
    let better = ReportMeasure::of(path).map_or(Better::Neither, |measure| measure.better);
    match (paired.sign(), better) {
        (_, Better::Neither) => Tone::Plain,
        (0, _) => Tone::Even,
        (-1, Better::Less) | (1, Better::More) => Tone::Better,
        _ => Tone::Worse,
    }
}

/// `, 49 % less (95 % confidence: 45 to 53 %; 20 pairs of runs with the same losses)`.
fn difference(paired: &Paired) -> String {
    let Some(more) = paired.more else {
        return if paired.challenger > paired.reference {
            format!(", in {}", pairs_of_runs(paired.pairs))
        } else {
            format!(", no difference in {}", pairs_of_runs(paired.pairs))
        };
    };
    let sides = |share: f64| {
        let word = if share < 0.0 { "less" } else { "more" };
        (number(one_place(share.abs() * 100.0)), word)
    };
    let (size, word) = sides(more);
    match paired.between {
        // Every pair alike.
        Some((low, high)) if [more, low, high].into_iter().all(|share| sides(share).0 == "0") => {
            format!(", no difference in {} pairs of runs with the same seed", paired.pairs)
        }
        None => format!(", {size} % {word}; how sure that is a single pair cannot tell"),
        Some((low, high)) => {
            let ((low, low_word), (high, high_word)) = (sides(low), sides(high));
            let interval = if low_word == high_word {
                let [least, most] = if low_word == "less" { [high, low] } else { [low, high] };
                format!("{least} to {most} % {low_word}")
            } else {
                format!("{low} % {low_word} to {high} % {high_word}")
            };
            // It may point another way than the two means.
            let how = if paired.is_geometric { " in the geometric mean of their ratios" } else { "" };
            format!(
                ", <b>{size} % {word}</b>{how} (95 % confidence: {interval}; {} pairs of runs with the same seed)",
                paired.pairs
            )
        }
    }
}

fn pairs_of_runs(count: usize) -> String {
    if count == 1 { "a single pair of runs".to_owned() } else { format!("{count} pairs of runs") }
}

fn one_place(percent: f64) -> f64 {
    if percent >= 10.0 { percent.round() } else { (percent * 10.0).round() / 10.0 }
}

/// Of a distribution also the far end, pooled over runs; only of runs that are all in pairs, and met the same
/// losses.
fn tail(
    sheet: &ReportSheet,
    spot: usize,
    world: usize,
    [reference, challenger]: [usize; 2],
    path: &str,
) -> String {
    let (base, stat) = words::split(path);
    if stat != Some("mean") {
        return String::new();
    }
    let far = |side: usize, stat: &str| {
        let cell = sheet.cell(spot, side, world)?;
        sheet.measured(cell, &format!("{base}.{stat}")).map(|measured| with_unit(base, measured.value))
    };
    match (far(challenger, "p80"), far(reference, "p80"), far(challenger, "p99"), far(reference, "p99")) {
        (Some(a), Some(b), Some(c), Some(d)) => {
            format!(
                " Four in five at most {a} against {b}, ninety-nine in a hundred at most {c} against {d}."
            )
        }
        _ => String::new(),
    }
}

/// At how many of all points it is so.
fn elsewhere(sheet: &ReportSheet, spots: &[usize], world: usize, sides: [usize; 2], path: &str) -> String {
    if spots.len() < 2 {
        return String::new();
    }
    let (mut better, mut worse, mut even) = (Vec::new(), Vec::new(), Vec::new());
    for spot in spots {
        let Some(paired) = sheet.paired(*spot, sides, world, path).filter(|paired| paired.pairs > 1) else {
            continue;
        };
        let label = sheet.spots[*spot].label.as_str();
        match tone(&paired, path) {
            Tone::Better => better.push(label),
            Tone::Worse => worse.push(label),
            Tone::Even => even.push(label),
            Tone::Plain => return String::new(),
        }
    }
    let all = better.len() + worse.len() + even.len();
    if all == 0 {
        return String::new();
    }
    let places = |labels: &[&str]| {
        if labels.is_empty() || labels.len() == all || labels.len() > 4 {
            return String::new();
        }
        format!(" ({})", escaped(&labels.join("; ")))
    };
    format!(
        " Of {all} points it is better at {}{}, worse at {}{}, and no difference is shown at {}{}.",
        better.len(),
        places(&better),
        worse.len(),
        places(&worse),
        even.len(),
        places(&even)
    )
}

/// Where nothing is the reference: what each alternative has.
fn listed(sheet: &ReportSheet, context: &str, spot: usize, path: &str) -> Vec<ComputedFinding> {
    let mut all = Vec::new();
    for (world, world_name) in sheet.worlds.iter().enumerate() {
        let mut values: Vec<String> = Vec::new();
        for n in 0..sheet.alternatives.len() {
            let measured = sheet.cell(spot, n, world).and_then(|cell| sheet.measured_whole(cell, path));
            let Some(measured) = measured else { continue };
            let half =
                measured.told_half().map_or(String::new(), |half| format!(" ± {}", words::shown(path, half)));
            values.push(format!(
                "{} {}{half} {}",
                named(sheet, n),
                words::shown(path, measured.value),
                words::unit(path)
            ));
        }
        if values.is_empty() {
            continue;
        }
        let mut place = vec![sheet.spots[spot].label.as_str()];
        place.extend(Some(context).filter(|context| !context.is_empty()));
        place.extend(Some(world_words(world_name)).filter(|_| sheet.worlds.len() > 1));
        let html = format!(
            "{}, {}: {}.",
            escaped(&capital(&metric(path))),
            escaped(&place.join(", ")),
            values.iter().map(|value| value.trim_end()).collect::<Vec<_>>().join("; ")
        );
        all.push(ComputedFinding { tone: Tone::Plain, html });
    }
    all
}

/// An alternative as a coloured word.
pub(crate) fn named(sheet: &ReportSheet, n: usize) -> String {
    format!("<span class='name {}'>{}</span>", sheet.hue(n), escaped(&sheet.alternative(n)))
}

/// Where runs took place, in words.
pub(crate) fn world_words(world: &str) -> &str {
    match world {
        "sim" => "simulated",
        "real" => "over real sockets",
        "machine" => "timed on one machine",
        other => other,
    }
}

pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
