use std::io::{self, Write};

use serde_json::Value;

use super::Row;

/// The columns of rows, in order: `experiment, world, seed, commit`, then the parameters, then the measures,
/// with a dot between a distribution and its percentile (`blocking_ms.p99`).
pub fn columns(rows: &[Row]) -> Vec<String> {
    let first = ["experiment", "world", "seed", "commit"];
    let mut params: Vec<String> = Vec::new();
    let mut metrics: Vec<String> = Vec::new();
    for row in rows {
        for (key, _) in row.params.iter() {
            remember(&mut params, key);
        }
        for (name, _) in flat(&row.bare()) {
            if !first.contains(&name.as_str()) && row.params.get(&name).is_none() {
                remember(&mut metrics, &name);
            }
        }
    }
    first.into_iter().map(str::to_owned).chain(params).chain(metrics).collect()
}

fn remember(columns: &mut Vec<String>, name: &str) {
    if !columns.iter().any(|column| column == name) {
        columns.push(name.to_owned());
    }
}

/// Writes rows as CSV (RFC 4180): a line of column names, then a line a row.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_csv(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let columns = columns(rows);
    let mut lines = csv::Writer::from_writer(out);
    lines.write_record(&columns)?;
    for row in rows {
        let cells = flat(&row.bare());
        let cell = |column| cells.iter().find(|(name, _)| name == column).map(|(_, value)| text(value));
        lines.write_record(columns.iter().map(|column| cell(column).unwrap_or_default()))?;
    }
    lines.flush()
}

/// The members of an object, those of objects within it by path.
pub(crate) fn flat(json: &Value) -> Vec<(String, Value)> {
    let mut cells = Vec::new();
    for (name, value) in json.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => {
                cells
                    .extend(flat(value).into_iter().map(|(inner, value)| (format!("{name}.{inner}"), value)));
            }
            value => cells.push((name.clone(), value.clone())),
        }
    }
    cells
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
