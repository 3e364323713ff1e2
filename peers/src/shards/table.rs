//! Figures of ways that alternate.

use std::fmt::{self, Display, Formatter};

use anyhow::{Error, Result};
use serde::Serialize;

use crate::report::{cell, median, quartiles};

/// One of the ways that are compared.
pub(super) struct ShardWay<W> {
    pub(super) name: String,
    pub(super) setting: W,
}

impl<W> ShardWay<W> {
    pub(super) fn new(name: &str, setting: W) -> Self {
        Self { name: name.to_owned(), setting }
    }
}

/// One part: a row for each way, medians and quartiles of each figure, and how its first figure is to that of
/// the last way.
#[derive(Debug, Serialize)]
pub(super) struct ShardTable {
    title: String,
    columns: Vec<(&'static str, usize)>,
    rows: Vec<ShardRow>,
    notes: Vec<String>,
    failed: u32,
}

#[derive(Debug, Serialize)]
struct ShardRow {
    name: String,
    /// Of each run that did not fail, the number of its turn and its figures.
    runs: Vec<(u32, Vec<f64>)>,
}

impl ShardTable {
    pub(super) fn new(title: String, columns: &[(&'static str, usize)]) -> Self {
        Self { title, columns: columns.to_vec(), rows: Vec::new(), notes: Vec::new(), failed: 0 }
    }

    /// Runs each way in each turn.
    pub(super) fn alternate<W>(
        &mut self,
        runs: u32,
        ways: &[ShardWay<W>],
        mut run: impl FnMut(&W) -> Result<Vec<f64>>,
    ) {
        self.rows = ways.iter().map(|way| ShardRow { name: way.name.clone(), runs: Vec::new() }).collect();
        for turn in 0..runs {
            for (i, ShardWay { name, setting }) in ways.iter().enumerate() {
                match run(setting) {
                    Ok(figures) => {
                        let shown = self.columns.iter().zip(&figures);
                        let shown = shown
                            .map(|((name, digits), figure)| format!("{name} {}", cell(*figure, *digits)));
                        let shown = shown.collect::<Vec<_>>().join(", ");
                        eprintln!("run {} of {runs}: {:<22} {shown}", turn + 1, name);
                        self.rows[i].runs.push((turn, figures));
                    }
                    Err(error) => {
                        eprintln!("run {} of {runs}: {} failed: {error:#}", turn + 1, name);
                        self.fail(&error);
                    }
                }
            }
        }
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// A run came to nothing.
    pub(super) fn fail(&mut self, error: &Error) {
        self.failed += 1;
        let told = format!("failed: {error:#}");
        if !self.notes.contains(&told) {
            self.notes.push(told);
        }
    }

    pub(super) fn failed(&self) -> u32 {
        self.failed
    }

    /// The median over turns of a way's first figure over that of the last way.
    fn by_pairs(&self, row: &ShardRow) -> f64 {
        let Some(last) = self.rows.last() else { return f64::NAN };
        let of =
            |turn: u32| last.runs.iter().find(|(other, _)| *other == turn).map(|(_, figures)| figures[0]);
        median(row.runs.iter().filter_map(|(turn, figures)| Some(figures[0] / of(*turn)?)))
    }
}

impl Display for ShardTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: medians (quartiles)", self.title)?;
        write!(f, "{:<22} {:>4}", "", "runs")?;
        self.columns.iter().try_for_each(|(name, _)| write!(f, " {name:>28}"))?;
        writeln!(f, " {:>17}", "first, by pairs")?;
        for row in &self.rows {
            write!(f, "{:<22} {:>4}", row.name, row.runs.len())?;
            for (i, (_, digits)) in self.columns.iter().enumerate() {
                let of: Vec<f64> = row.runs.iter().map(|(_, figures)| figures[i]).collect();
                let [low, high] = quartiles(of.clone()).map(|quartile| cell(quartile, *digits));
                let shown = format!("{} ({low} to {high})", cell(median(of.into_iter()), *digits));
                write!(f, " {shown:>28}")?;
            }
            writeln!(f, " {:>17}", cell(self.by_pairs(row), 3))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_of_one_turn() {
        let mut table = ShardTable::new("a".into(), &[("per second", 0)]);
        let (mut left, mut right) = ([6.0, 8.0, 9.0].into_iter(), [3.0, 2.0, 9.0].into_iter());
        table.alternate(3, &[ShardWay::new("two", true), ShardWay::new("one", false)], |is_two| {
            let next = if *is_two { left.next() } else { right.next() };
            // The last turn of one of them fails.
            let next = next.filter(|figure| *is_two || *figure < 9.0);
            Ok(vec![next.ok_or_else(|| anyhow::anyhow!("it broke"))?])
        });
        // 6/3 and 8/2.
        assert!((table.by_pairs(&table.rows[0]) - 3.0).abs() < 1e-12);
        let text = table.to_string();
        assert!(text.contains("8 (7 to 8)") && text.contains("failed: it broke"), "{text}");
        assert_eq!(table.failed(), 1);
    }
}
