//! Published numbers that are of all points of a design together.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use quickset_base::number::Unsigned as _;

use super::run::RunNumbers;
use super::sheet::ReportSheet;
use super::table::NONE;
use super::words::{self, metric};
use crate::experiment::{ExperimentKey, Published, Value};
use crate::report::text::{escaped, number};

/// Whether a published number is of several points together.
pub(crate) fn is_pooled(published: &Published) -> bool {
    published.at.contains(['*', ','])
}

/// These numbers beside ours, for each alternative that is measured against plain QUIC.
pub(crate) fn table(page: &mut String, sheet: &ReportSheet) {
    let all: Vec<&Published> =
        sheet.experiment.published.iter().filter(|published| is_pooled(published)).collect();
    if all.is_empty() {
        return;
    }
    page.push_str(
        "<h3>Published of the whole design</h3><div class=scroll><table><thead><tr><th class=words>measure\
         <th class=words>points<th class=words>",
    );
    let _ = write!(page, "{}<th>ours<th>published</tr></thead><tbody>", escaped(sheet.curves));
    for published in all {
        for place in 0..sheet.alternatives.len() {
            let Some(ours) = ours(sheet, published, place) else { continue };
            let is_published = wanted(published, sheet.curves)
                .is_some_and(|value| value == sheet.alternatives[place].to_string());
            let printed = if is_published {
                let cited = escaped(&words::cited(published.figure));
                format!("{} <small>{cited}</small>", words::with_unit(published.metric, published.value))
            } else {
                NONE.to_owned()
            };
            let _ = write!(
                page,
                "<tr><td class=words>{}<td class=words>{}<th class='{}'><i></i>{}<td>{} <small>of {} points</small>\
                 <td>{printed}</tr>",
                escaped(&metric(published.metric)),
                escaped(&points(published, sheet.curves)),
                sheet.hue(place),
                escaped(&sheet.alternative(place)),
                number(ours.0),
                ours.1,
            );
        }
    }
    page.push_str("</tbody></table></div>");
}

/// What a published number says of a key.
fn wanted<'a>(published: &'a Published, key: &str) -> Option<&'a str> {
    let words = published.at.split_whitespace().filter_map(|word| word.split_once('='));
    words.filter(|(name, _)| *name == key).map(|(_, values)| values).next()
}

/// Which points, in words.
fn points(published: &Published, curves: &str) -> String {
    let words = published.at.split_whitespace().filter_map(|word| word.split_once('='));
    let told = words.filter(|(key, _)| *key != curves).map(|(key, values)| match values {
        "*" => format!("all values of {key}"),
        values => format!("{key} {}", values.replace(',', ", ")),
    });
    told.collect::<Vec<_>>().join(", ")
}

/// The number over all points that it is about, each the median of its seeds, and how many these are.
fn ours(sheet: &ReportSheet, published: &Published, place: usize) -> Option<(f64, usize)> {
    let (path, stat) = words::split(published.metric);
    let mut points: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for run in sheet.runs.iter().filter(|run| is_about(sheet, run, published, place)) {
        // What is shown is ordered by what is gained, which a run of plain QUIC has nothing of.
        if let (Some(ratio), Some(value)) = (run.number("dct_ratio"), run.number(path)) {
            points.entry(run.row.params.to_string()).or_default().push((ratio, value));
        }
    }
    let median = |mut seeds: Vec<(f64, f64)>| {
        seeds.sort_by(|a, b| a.0.total_cmp(&b.0));
        seeds[(seeds.len() - 1) / 2]
    };
    let medians: Vec<(f64, f64)> = points.into_values().map(median).collect();
    let chosen: Vec<f64> = medians
        .iter()
        .filter(|(ratio, _)| match stat {
            Some(words::GAINING) => *ratio < 1.0,
            Some(words::LOSING) => *ratio > 1.0,
            _ => true,
        })
        .map(|(ratio, value)| match stat {
            Some(words::BELOW_ONE) => f64::from(u8::from(*ratio < 1.0)),
            _ => *value,
        })
        .collect();
    (!chosen.is_empty()).then(|| (chosen.iter().sum::<f64>() / chosen.len().approx(), chosen.len()))
}

fn is_about(sheet: &ReportSheet, run: &RunNumbers, published: &Published, place: usize) -> bool {
    let is_here = |(key, values): (&str, &str)| {
        let Ok(known) = ExperimentKey::find(key) else { return false };
        let value: Option<&Value> = run.row.params.get(key);
        values == "*" || values.split(',').any(|text| known.read(text).ok().as_ref() == value)
    };
    let mut others = published
        .at
        .split_whitespace()
        .filter_map(|word| word.split_once('='))
        .filter(|(key, _)| !sheet.is_compared(key));
    !run.is_unfinished()
        && sheet.is_of_design(run)
        && sheet.is_alternative(&sheet.alternatives[place], &run.row.params)
        && others.all(is_here)
}
