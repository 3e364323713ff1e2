//! The experiments, a table each.

mod link;
mod screen;

use crate::experiment::{Experiment, ValueError};

/// All experiments, in the order of reports.
pub const ALL: &[&Experiment] = &[&screen::STREAMING, &screen::INTERACTIVE];

/// Who may share the link in the experiment `congestion`.
pub const FLOWS: &[&str] = &["bbr", "cubic", "bbr+bbr", "cubic+cubic", "bbr+cubic"];

/// The experiment of that name.
///
/// # Errors
/// Names the nearest one that there is.
pub fn find(name: &str) -> Result<&'static Experiment, ValueError> {
    ALL.iter().find(|experiment| experiment.name == name).copied().ok_or_else(|| {
        let near = crate::experiment::nearest(name, ALL.iter().map(|experiment| experiment.name));
        ValueError(format!("there is no experiment `{name}`; {near}"))
    })
}
