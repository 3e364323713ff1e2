//! Rows of ways beside each other: of each figure the median of the runs.

use std::fmt::Write as _;

use quickset_sim::LossModel;

use super::lane::Way;
use super::parts::{Column, Part};

pub(crate) struct Table {
    part: Part,
    columns: Vec<Column>,
    rows: Vec<Measured>,
}

/// A way with a loss.
struct Measured {
    way: String,
    loss: String,
    /// The figures of each run, in the order of the columns.
    runs: Vec<Vec<f64>>,
}

impl Table {
    pub(crate) fn new(part: Part) -> Self {
        Self { part, columns: part.columns(), rows: Vec::new() }
    }

    /// What a run has found.
    pub(crate) fn add(&mut self, way: &Way, loss: &LossModel, figures: Vec<f64>) {
        let (way, loss) = (way.to_string(), loss.to_string());
        match self.rows.iter_mut().find(|row| row.way == way && row.loss == loss) {
            Some(row) => row.runs.push(figures),
            None => self.rows.push(Measured { way, loss, runs: vec![figures] }),
        }
    }

    /// A run as a line, with the heading of each figure.
    pub(crate) fn line(&self, way: &Way, loss: &LossModel, figures: &[f64]) -> String {
        let mut line = format!("{way}, loss {loss}:");
        for ((_, head, digits), figure) in self.columns.iter().zip(figures) {
            let _ = write!(line, " {head} {figure:.digits$},");
        }
        line.trim_end_matches(',').to_owned()
    }

    /// The table for people and for documents, below what it is about.
    pub(crate) fn text(&self, runs: usize, about: &str) -> String {
        let mut text = format!(
            "{about}; of each figure the median of {runs} {}; bytes for each {} are those of IP on the link, \
             seconds are of processors for all of them\n\n",
            if runs == 1 { "run" } else { "runs" },
            self.part.one()
        );
        let heads = self.columns.iter().map(|(_, head, _)| *head).collect::<Vec<_>>().join(" | ");
        let _ = writeln!(text, "| way | loss | {heads} |\n|---|---|{}", "--:|".repeat(self.columns.len()));
        for row in &self.rows {
            let _ = write!(text, "| {} | {} |", row.way, row.loss);
            for (n, (_, _, digits)) in self.columns.iter().enumerate() {
                let figure = row.median(n);
                let _ =
                    if figure.is_nan() { write!(text, " - |") } else { write!(text, " {figure:.digits$} |") };
            }
            text.push('\n');
        }
        text
    }

    /// Each run as an object of JSON.
    pub(crate) fn json(&self) -> Vec<String> {
        let mut objects = Vec::new();
        for row in &self.rows {
            for (run, figures) in row.runs.iter().enumerate() {
                let mut object = format!(
                    r#"{{"part":"{}","way":"{}","loss":"{}","run":{}"#,
                    self.part.name(),
                    row.way,
                    row.loss,
                    run + 1
                );
                for ((name, ..), figure) in
                    self.columns.iter().zip(figures).filter(|(_, figure)| figure.is_finite())
                {
                    let _ = write!(object, r#","{name}":{figure:.3}"#);
                }
                object.push('}');
                objects.push(object);
            }
        }
        objects
    }
}

impl Measured {
    /// Of a column: the one in the middle, or the mean of the two there.
    fn median(&self, column: usize) -> f64 {
        let mut figures: Vec<f64> = self.runs.iter().map(|run| run[column]).collect();
        figures.sort_by(f64::total_cmp);
        let half = figures.len() / 2;
        if figures.len() % 2 == 1 { figures[half] } else { f64::midpoint(figures[half - 1], figures[half]) }
    }
}

#[test]
fn a_table_has_the_median_of_each_column() {
    let mut table = Table::new(Part::Pages);
    let loss: LossModel = "1%".parse().unwrap();
    for run in [[5.0, 300.0], [1.0, 100.0], [3.0, 900.0]] {
        table.add(&Way::Gateways, &loss, run.to_vec());
    }
    table.columns = vec![("a", "first", 0), ("b", "second", 1)];
    let text = table.text(3, "what it is about");
    assert!(
        text.ends_with("| way | loss | first | second |\n|---|---|--:|--:|\n| gateways | 1% | 3 | 300.0 |\n"),
        "{text}"
    );
    let json = table.json();
    assert_eq!(json[0], r#"{"part":"pages","way":"gateways","loss":"1%","run":1,"a":5.000,"b":300.000}"#);
    table.add(&Way::Gateways, &loss, vec![f64::NAN, 500.0]);
    assert!((table.rows[0].median(1) - 400.0).abs() < 1e-9);
    assert!(!table.json()[3].contains("\"a\""));
}
