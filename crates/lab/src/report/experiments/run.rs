use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::words::Beside;
use crate::experiment::{Experiment, Params, ReportFigure, Value};
use crate::results::Row;

/// One run: its row, and its numbers by path.
pub(crate) struct RunNumbers {
    pub(crate) row: Row,
    numbers: BTreeMap<String, f64>,
}

impl RunNumbers {
    pub(crate) fn new(row: Row) -> Self {
        let mut numbers = BTreeMap::new();
        let metrics = serde_json::to_value(&row.metrics).unwrap_or_default();
        for (path, value) in crate::results::flat(&metrics) {
            if let Some(number) = value.as_f64() {
                numbers.insert(path, number);
            }
        }
        if row.metrics.counted.blocks == 0 {
            // Without blocks none can fail, which is no merit: a window that repairs has no blocks.
            numbers.remove("failed_blocks");
        }
        let of_key = |key: &str| row.params.number(key).ok();
        let one_way = of_key("owd_ms").or_else(|| of_key("rtt_ms").map(|rtt| rtt / 2.0));
        if let (Some(ms), Some(mbit), Some(window)) = (one_way, of_key("rate_mbit"), of_key("rwin")) {
            numbers.insert("bdp_over_window".to_owned(), mbit * 1e6 / 8.0 * ms * 2e-3 / window);
        }
        Self { row, numbers }
    }

    /// A measure or a key, as a number.
    pub(crate) fn number(&self, path: &str) -> Option<f64> {
        self.numbers.get(path).copied().or_else(|| self.row.params.number(path).ok())
    }

    pub(crate) fn is_unfinished(&self) -> bool {
        !self.row.metrics.finished || self.row.metrics.broken.is_some()
    }

    /// What it has in common with the same run of other alternatives.
    pub(crate) fn twin(&self, curves: &str) -> String {
        let mut name = format!("seed={}", self.row.seed);
        for (key, value) in self.row.params.iter().filter(|(key, _)| !counts_to(curves, key)) {
            let _ = write!(name, " {key}={value}");
        }
        name
    }
}

/// Gives runs the numbers that stand beside those of another alternative, of the run with the same losses.
pub(crate) fn relate(runs: &mut [RunNumbers], curves: &str, experiment: &Experiment) {
    let figures = experiment.figures.iter().flat_map(ReportFigure::metrics);
    let paths: BTreeSet<&str> = figures.chain(experiment.published.iter().map(|one| one.metric)).collect();
    for path in paths {
        let Some(beside) = Beside::of(path) else { continue };
        let is_other = |run: &RunNumbers| {
            alternative(curves, &run.row.params).is_some_and(|value| value.to_string() == beside.other)
        };
        let others: BTreeMap<String, f64> = runs
            .iter()
            .filter(|run| is_other(run) && !run.is_unfinished())
            .filter_map(|run| Some((run.twin(curves), run.number(beside.metric)?)))
            .collect();
        for run in runs.iter_mut().filter(|run| !is_other(run) && !run.is_unfinished()) {
            let other = others.get(&run.twin(curves)).copied();
            let Some((number, other)) = run.number(beside.metric).zip(other) else { continue };
            // Of nothing there is no share.
            let result = if beside.is_difference {
                Some(number - other)
            } else {
                (other > 0.0).then(|| number / other)
            };
            run.numbers.extend(result.map(|result| (path.to_owned(), result)));
        }
    }
}

/// What is compared of a run: the value of the key, of a mode with the protection behind a plus.
pub(crate) fn alternative(curves: &str, params: &Params) -> Option<Value> {
    let value = params.get(curves)?;
    match params.get("fec").filter(|_| curves == "mode").map(Value::to_string) {
        Some(protection) if protection != "none" => Some(Value::Text(format!("{value}+{protection}"))),
        _ => Some(value.clone()),
    }
}

/// The mode and the protection of an alternative that has one.
pub(crate) fn protected(alternative: &Value) -> Option<(&str, &str)> {
    match alternative {
        Value::Text(text) => text.split_once('+'),
        Value::Number(_) => None,
    }
}

/// Whether the key that is compared tells the value of `key`.
pub(crate) fn counts_to(curves: &str, key: &str) -> bool {
    key == curves || (curves == "mode" && key == "fec")
}
