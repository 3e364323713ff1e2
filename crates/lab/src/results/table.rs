use std::collections::BTreeMap;

use quickset_base::number::Float;
use serde_json::Value as Json;

use super::flat::flat;
use super::{Row, columns};
use crate::experiment::{ExperimentKey, ValueKind};

/// A column of a table, with a cell for each row; `None` where a row does not have it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableColumn {
    /// The name, as in CSV.
    pub name: String,
    /// The cells.
    pub cells: Cells,
}

/// The cells of a column, all of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Words.
    Text(Vec<Option<String>>),
    /// Counts, seeds and sizes.
    Whole(Vec<Option<i64>>),
    /// Other numbers.
    Number(Vec<Option<f64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
}

/// Rows as typed columns: those of [`columns`], then `histograms`, the distributions as an object of JSON.
///
/// The type of a parameter is that of its key, so that tables of several sweeps fit together. Only a key that
/// takes numbers and words (`loss`, `rwin`, `pace`) is a column of text where a row has a word.
pub fn table(rows: &[Row]) -> Vec<TableColumn> {
    let flat: Vec<BTreeMap<String, Json>> =
        rows.iter().map(|row| flat(&row.bare()).into_iter().collect()).collect();
    let column = |name: String| {
        let cells: Vec<Option<&Json>> =
            flat.iter().map(|row| row.get(&name).filter(|cell| !cell.is_null())).collect();
        let cells = typed(&name, &cells);
        TableColumn { name, cells }
    };
    let mut table: Vec<TableColumn> = columns(rows).into_iter().map(column).collect();
    let histograms = |row: &Row| serde_json::to_string(&row.detail.histograms).ok();
    table.push(TableColumn {
        name: HISTOGRAMS.to_owned(),
        cells: Cells::Text(rows.iter().map(histograms).collect()),
    });
    table
}

fn typed(name: &str, cells: &[Option<&Json>]) -> Cells {
    let numbers = || cells.iter().map(|cell| cell.and_then(Json::as_f64)).collect::<Vec<_>>();
    let whole = || {
        let whole = |cell: &Json| cell.as_i64().or_else(|| cell.as_f64().map(Float::integer));
        cells.iter().map(|cell| cell.and_then(whole)).collect()
    };
    let text = || cells.iter().map(|cell| cell.map(plain)).collect();
    let first = cells.iter().flatten().next();
    match ExperimentKey::find(name).map(|key| key.kind) {
        Ok(_) if cells.iter().flatten().any(|cell| !cell.is_number()) => Cells::Text(text()),
        Ok(ValueKind::Whole(..) | ValueKind::SizeOr(_)) => Cells::Whole(whole()),
        Ok(_) => Cells::Number(numbers()),
        Err(_) => match first {
            Some(Json::Bool(_)) => {
                Cells::Flag(cells.iter().map(|cell| cell.and_then(Json::as_bool)).collect())
            }
            // Measures that are not whole by nature are written with a point.
            Some(Json::Number(number)) if number.is_f64() => Cells::Number(numbers()),
            Some(Json::Number(_)) => Cells::Whole(whole()),
            _ => Cells::Text(text()),
        },
    }
}

fn plain(cell: &Json) -> String {
    match cell {
        Json::String(text) => text.clone(),
        cell => cell.to_string(),
    }
}

/// The name of the last column.
const HISTOGRAMS: &str = "histograms";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::experiment::Value;
    use crate::results::{Detail, Histogram, RunMetrics};

    fn row(seed: u64, loss: Value) -> Row {
        let mut params = catalogue::find("screen-streaming").unwrap().base();
        params.put(ExperimentKey::find("loss").unwrap(), loss);
        let detail = Detail {
            histograms: [("blocking_ms".to_owned(), Histogram::of_sorted(&[0.0, 1.0]))].into(),
            ..Detail::default()
        };
        Row {
            experiment: "screen-streaming".into(),
            seed,
            commit: "abc".into(),
            world: "sim".into(),
            params,
            metrics: RunMetrics { completion_s: (seed == 1).then_some(2.0), ..RunMetrics::default() },
            detail,
        }
    }

    fn cells(rows: &[Row], name: &str) -> Cells {
        table(rows).into_iter().find(|column| column.name == name).unwrap().cells
    }

    #[test]
    fn types_are_those_of_the_keys_and_measures() {
        let rows = [row(1, Value::Number(0.0)), row(2, Value::Number(0.01))];
        assert_eq!(cells(&rows, "loss"), Cells::Number(vec![Some(0.0), Some(0.01)]));
        assert_eq!(cells(&rows, "rtt_ms"), Cells::Number(vec![Some(100.0); 2]));
        assert_eq!(cells(&rows, "updates"), Cells::Whole(vec![Some(300); 2]));
        assert_eq!(cells(&rows, "seed"), Cells::Whole(vec![Some(1), Some(2)]));
        assert_eq!(cells(&rows, "mode"), Cells::Text(vec![Some("partial".into()); 2]));
        assert_eq!(cells(&rows, "completion_s"), Cells::Number(vec![Some(2.0), None]));
        assert_eq!(cells(&rows, "finished"), Cells::Flag(vec![Some(false); 2]));
        assert_eq!(cells(&rows, "lost"), Cells::Whole(vec![Some(0); 2]));
        // 1 ms is 10^6 ns: the highest bit is the 19th, 116 the seven behind it; 13 * 128 + 116.
        let Cells::Text(histograms) = cells(&rows, "histograms") else { panic!("histograms are text") };
        assert_eq!(histograms[0].as_deref(), Some(r#"{"blocking_ms":[[0,1],[1780,1]]}"#));
    }

    #[test]
    fn a_word_among_numbers_makes_text() {
        let rows = [row(1, Value::Number(0.01)), row(2, Value::Text("ge:1%,20%".into()))];
        assert_eq!(cells(&rows, "loss"), Cells::Text(vec![Some("0.01".into()), Some("ge:1%,20%".into())]));
    }
}
