//! Which colour stands for what: on a page no two alternatives share one, and none changes it between
//! figures.

use std::collections::BTreeMap;

use crate::experiment::{Experiment, ReportFigure};

/// The classes for styles of all that is told apart by colour on a page, by name.
#[derive(Debug, Default)]
pub(crate) struct StyleClasses {
    classes: BTreeMap<String, String>,
    /// Classes in the order of legends.
    order: Vec<String>,
}

impl StyleClasses {
    /// Colours for these names, in the order of legends. Orders have the same colour on every page, and so
    /// has what an ordinary transport does, whether it is called `plain` or, where repair is compared,
    /// `none`.
    pub(crate) fn of(names: impl Iterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.collect();
        let mut known = std::collections::BTreeSet::new();
        names.retain(|name| known.insert(name.clone()));
        let mut others = 0;
        let mut palette = Self::default();
        for name in &names {
            let class = match name.as_str() {
                own if OWN.contains(&own) => own.to_owned(),
                "none" if !known.contains("plain") => "plain".to_owned(),
                _ => {
                    let class = format!("c{}", others % COLOURS);
                    others += 1;
                    // More than there are colours are told apart by their lines.
                    if others > COLOURS { format!("{class} again") } else { class }
                }
            };
            palette.order.push(class.clone());
            palette.classes.insert(name.clone(), class);
        }
        palette
    }

    /// The class of a name.
    pub(crate) fn class(&self, name: &str) -> &str {
        self.classes.get(name).map_or("", String::as_str)
    }

    /// The place of a class in legends.
    pub(crate) fn place(&self, class: &str) -> usize {
        self.order.iter().position(|other| other == class).unwrap_or(self.order.len())
    }
}

/// The keys that figures tell apart by colours, in the order of figures; `flow` for the flows of a run.
pub(crate) fn keys(experiment: &Experiment) -> impl Iterator<Item = &'static str> {
    experiment.figures.iter().map(ReportFigure::compared)
}

/// The parts of a whole that figures stack, which have colours as well.
pub(crate) fn parts(experiment: &Experiment) -> impl Iterator<Item = String> {
    let stacked = experiment.figures.iter().filter(|figure| matches!(figure, ReportFigure::Parts { .. }));
    stacked.flat_map(ReportFigure::metrics).map(str::to_owned)
}

/// What has a colour of its own, under its own name.
const OWN: [&str; 4] = ["total", "partial", "latest", "plain"];
/// `c0`, `c1`, … of the style sheet.
const COLOURS: usize = 16;

#[cfg(test)]
mod tests;
