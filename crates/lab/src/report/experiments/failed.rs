//! Runs that broke, or did not come to their end.

use std::fmt::Write as _;

use serde::Serialize;

use super::sheet::ReportSheet;
use crate::report::text::escaped;

/// Runs of an alternative at a point that ended early, for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The experiment.
    pub experiment: String,
    /// As in lines: the values of crossed keys, and of those that differ from the baseline, in words.
    pub point: String,
    /// The alternative, mostly a mode.
    pub alternative: String,
    /// `sim`, `real` or `machine`.
    pub world: String,
    /// Why, in words.
    pub why: String,
    /// The seeds of the runs.
    pub seeds: Vec<u64>,
}

/// All of a sheet, in the order of spots.
pub(crate) fn failed(sheet: &ReportSheet) -> Vec<Failed> {
    let mut all: Vec<Failed> = Vec::new();
    for ((spot, alternative, world), cell) in sheet.cells() {
        for run in sheet.runs_of(cell).filter(|run| run.is_unfinished()) {
            let why = run.row.metrics.broken.as_deref();
            let one = Failed {
                experiment: sheet.experiment.name.to_owned(),
                point: sheet.spots[spot].words(),
                alternative: sheet.alternatives[alternative].to_string(),
                world: sheet.worlds[world].clone(),
                why: why.unwrap_or("not everything had arrived at the run’s limit").to_owned(),
                seeds: Vec::new(),
            };
            let like = |other: &&mut Failed| Failed { seeds: Vec::new(), ..(**other).clone() } == one;
            match all.iter_mut().find(like) {
                Some(other) => other.seeds.push(run.row.seed),
                None => all.push(Failed { seeds: vec![run.row.seed], ..one }),
            }
        }
    }
    all
}

/// How many there are of how many runs, as a sentence; `None` where all came to their end.
pub(crate) fn sentence(sheet: &ReportSheet) -> Option<String> {
    let count = sheet.runs.iter().filter(|run| run.is_unfinished()).count();
    (count > 0).then(|| format!("{count} of {} runs did not come to their end", sheet.runs.len()))
}

/// The box of the page.
pub(crate) fn warning(page: &mut String, sheet: &ReportSheet) {
    let Some(sentence) = sentence(sheet) else { return };
    let failed = failed(sheet);
    let _ = write!(
        page,
        "<div class=warning><p>{sentence}. What they had measured until then is in the distributions and counts; times of \
         completion are those of the other runs alone, and no comparison has them.</p><ul>"
    );
    for Failed { point, alternative, world, why, seeds, .. } in failed.iter().take(PLACES) {
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let _ = write!(
            page,
            "<li>{}, {} {}: {}.",
            escaped(&format!("{alternative}, {point}, {world}")),
            if seeds.len() == 1 { "seed" } else { "seeds" },
            seeds.join(", "),
            escaped(why)
        );
    }
    if failed.len() > PLACES {
        let _ =
            write!(page, "<li>and more at {} other places, which the CSV file has.", failed.len() - PLACES);
    }
    page.push_str("</ul></div>");
}

/// Places that are listed.
const PLACES: usize = 20;
