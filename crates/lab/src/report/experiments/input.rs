use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::sheet::ReportSheet;
use crate::catalogue;
use crate::results::{JournalError, Row, read_journal, same};

/// All rows of a results directory, by experiment.
pub struct ResultsFolder {
    pub(crate) sheets: Vec<ReportSheet>,
    /// Sentences about what could not be used.
    pub warnings: Vec<String>,
}

/// Why there is nothing to report: one sentence with the next step.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file system says no.
    #[error("{path} cannot be read: {error}")]
    Io {
        /// The directory.
        path: String,
        /// Why not.
        error: std::io::Error,
    },
    /// It has no results.
    #[error(
        "{0} has no results (files named EXPERIMENT.rows); `quickset lab run NAME -o {0}` puts some there"
    )]
    Empty(String),
    /// It has journals without a run.
    #[error("the results in {0} hold no finished run yet; run the experiment again, it goes on where it was")]
    NoRows(String),
    /// None of its journals can be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// None of its experiments is known.
    #[error("{0}")]
    Unknown(String),
}

impl std::fmt::Debug for ResultsFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<(&str, usize)> =
            self.sheets.iter().map(|sheet| (sheet.experiment.name, sheet.runs.len())).collect();
        f.debug_struct("Results").field("runs", &names).field("warnings", &self.warnings).finish()
    }
}

/// A sentence about runs of different builds: what is found of them may be what the builds differ in.
fn builds(sheet: &ReportSheet) -> Option<String> {
    let commits: BTreeSet<&str> = sheet.runs.iter().map(|run| run.row.commit.as_str()).collect();
    let all = commits.iter().copied().collect::<Vec<_>>().join(", ");
    let name = sheet.experiment.name;
    (commits.len() > 1).then(|| {
        format!("{name}: the rows are of several commits ({all}), so what is compared may be these as well.")
    })
}

/// A sentence about runs that are there again with other results: each counts once, and a reader has to know
/// which.
fn contradictions(name: &str, rows: &[Row]) -> Option<String> {
    let mut known: BTreeMap<String, &Row> = BTreeMap::new();
    let mut count = 0;
    for row in rows {
        match known.entry(row.identity()) {
            Entry::Vacant(place) => drop(place.insert(row)),
            Entry::Occupied(place) if same(place.get(), row) => {}
            Entry::Occupied(_) => count += 1,
        }
    }
    let what = match count {
        0 => return None,
        1 => "1 run is there again with other results, which are".to_owned(),
        _ => format!("{count} runs are there again with other results, which are"),
    };
    Some(format!("{name}: {what} left out: what counts is the first, in the order of the files’ names."))
}

impl ResultsFolder {
    /// Reads every journal (`*.rows`) of a directory. One that cannot be used gives a warning, as long as
    /// another can.
    ///
    /// # Errors
    /// When there is none that can be used.
    pub fn read(dir: &Path) -> Result<Self, ReportError> {
        let shown = dir.display().to_string();
        let io_error = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => ReportError::Empty(shown.clone()),
            _ => ReportError::Io { path: shown.clone(), error },
        };
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(io_error)? {
            let path = entry.map_err(io_error)?.path();
            if path.extension().is_some_and(|extension| extension == "rows") {
                paths.push(path);
            }
        }
        paths.sort();
        if paths.is_empty() {
            return Err(ReportError::Empty(shown));
        }
        let (mut rows, mut warnings, mut failed) = (Vec::new(), Vec::new(), None);
        for path in &paths {
            match read_journal(path) {
                Ok(more) => rows.extend(more),
                Err(error) => {
                    warnings.push(format!("{error}."));
                    failed.get_or_insert(error);
                }
            }
        }
        match failed {
            Some(error) if rows.is_empty() => return Err(error.into()),
            None if rows.is_empty() => return Err(ReportError::NoRows(shown)),
            _ => {}
        }
        Self::of_rows(rows, warnings)
    }

    /// Results of these rows.
    ///
    /// # Errors
    /// When no row is of an experiment that is known.
    pub fn of_rows(rows: Vec<Row>, mut warnings: Vec<String>) -> Result<Self, ReportError> {
        let mut by_name: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        for row in rows {
            by_name.entry(row.experiment.clone()).or_default().push(row);
        }
        let mut sheets = Vec::new();
        for experiment in catalogue::ALL {
            if let Some(rows) = by_name.remove(experiment.name) {
                warnings.extend(contradictions(experiment.name, &rows));
                let sheet = ReportSheet::new(experiment, rows);
                warnings.extend(builds(&sheet));
                sheets.push(sheet);
            }
        }
        for (name, rows) in &by_name {
            let why = catalogue::find(name).err().map(|error| error.to_string()).unwrap_or_default();
            warnings.push(format!("{} runs are left out: {why}.", rows.len()));
        }
        if sheets.is_empty() {
            return Err(ReportError::Unknown(warnings.join(" ").trim_end_matches('.').to_owned()));
        }
        Ok(Self { sheets, warnings })
    }
}
