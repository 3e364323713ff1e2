use std::cmp::Ordering;

use super::Row;
use crate::experiment::{ExperimentKey, KEYS, Value, ValueKind};

/// Brings rows into the order of tables: by experiment and world, then by their parameters in the order of
/// [`KEYS`], then by seed. It depends on nothing but the rows, so that sweeps that were run in another order,
/// or in shards, end as the same file.
pub fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| {
        (&a.experiment, &a.world)
            .cmp(&(&b.experiment, &b.world))
            .then_with(|| points(a, b))
            .then_with(|| a.seed.cmp(&b.seed))
    });
}

fn points(a: &Row, b: &Row) -> Ordering {
    let order = |key: &ExperimentKey| compare(key.kind, a.params.get(key.name), b.params.get(key.name));
    KEYS.iter().map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Numbers by size and before words; words as the key lists them, else by the alphabet.
fn compare(kind: ValueKind, a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Number(a)), Some(Value::Number(b))) => a.total_cmp(b),
        (Some(Value::Text(a)), Some(Value::Text(b))) => {
            let place = |text: &str| match kind {
                ValueKind::Word(words) => words.iter().position(|word| *word == text),
                _ => None,
            };
            place(a).cmp(&place(b)).then_with(|| a.cmp(b))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: Option<&Value>) -> u8 {
    match value {
        None => 0,
        Some(Value::Number(_)) => 1,
        Some(Value::Text(_)) => 2,
    }
}
