//! The module `quickset_lab._native`: what Python needs of the laboratory. The package's Python files make a
//! pleasant interface of it and have its documentation; values cross as text (jobs, rows and descriptions are
//! lines of JSON) or as typed columns.
//!
//! Nothing here holds the interpreter while something runs.

mod errors;
mod sweep;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use quickset_lab::catalogue;
use quickset_lab::experiment::{Experiment, KEYS, Overrides};
use quickset_lab::plan::{Shard, SweepPlan};
use quickset_lab::results::{self, Cells, Histogram, JoinError, Row};
use quickset_lab::run::{RunJob, RunWorld, jobs};
use serde_json::{Value as Json, json};

use errors::{OrRaise as _, Raise as _, bad};

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{
        Rows, cdf, experiment, experiments, keep, keys, merge, missing, plan, read, read_plan, write_plan,
    };
    #[pymodule_export]
    use crate::sweep::{run, run_job};

    #[pymodule_export]
    const COMMIT: &str = super::COMMIT;
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}

/// What rows and plans say of this build.
const COMMIT: &str = env!("QUICKSET_COMMIT");

/// Rows of results.
#[pyclass(frozen, module = "quickset_lab._native")]
struct Rows(Vec<Row>);

#[pymethods]
impl Rows {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Name, type (`text`, `whole`, `number`, `flag`) and cells of each column.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, &'static str, Bound<'py, PyAny>)>> {
        let table = py.detach(|| results::table(&self.0));
        table
            .into_iter()
            .map(|column| {
                let (kind, cells) = match column.cells {
                    Cells::Text(cells) => ("text", cells.into_pyobject(py)?),
                    Cells::Whole(cells) => ("whole", cells.into_pyobject(py)?),
                    Cells::Number(cells) => ("number", cells.into_pyobject(py)?),
                    Cells::Flag(cells) => ("flag", cells.into_pyobject(py)?),
                };
                Ok((column.name, kind, cells.into_any()))
            })
            .collect()
    }
}

/// All experiments as one JSON array: those of `quickset lab list --json`, and for each its `baseline`, and
/// the `published_numbers` that stand beside ours.
#[pyfunction]
fn experiments() -> PyResult<String> {
    let all: PyResult<Vec<Json>> = catalogue::ALL.iter().map(|experiment| described(experiment)).collect();
    Ok(Json::from(all?).to_string())
}

/// As an element of [`experiments`].
#[pyfunction]
fn experiment(name: &str) -> PyResult<String> {
    Ok(described(catalogue::find(name).or_raise()?)?.to_string())
}

fn described(experiment: &Experiment) -> PyResult<Json> {
    let mut json = serde_json::to_value(experiment.outline().or_raise()?).map_err(bad)?;
    json["baseline"] = serde_json::to_value(experiment.base()).map_err(bad)?;
    let numbers = experiment.published.iter();
    json["published_numbers"] = numbers
        .map(|p| json!({ "figure": p.figure, "at": p.at, "metric": p.metric, "value": p.value }))
        .collect();
    Ok(json)
}

/// The names of all parameters.
#[pyfunction]
fn keys() -> Vec<&'static str> {
    KEYS.iter().map(|key| key.name).collect()
}

/// The jobs of an experiment, a line of JSON each.
#[pyfunction]
fn plan(
    name: &str,
    set: Vec<(String, String)>,
    points: Option<u32>,
    seeds: Option<u32>,
) -> PyResult<Vec<String>> {
    let experiment = catalogue::find(name).or_raise()?;
    let points = experiment.points(&Overrides { set, points }).or_raise()?;
    let jobs = jobs(experiment, &points, seeds.unwrap_or(experiment.seeds));
    Ok(jobs.iter().map(RunJob::to_string).collect())
}

/// Writes jobs as a plan.
#[pyfunction]
fn write_plan(jobs: Vec<String>, path: PathBuf) -> PyResult<()> {
    SweepPlan { commit: COMMIT.to_owned(), jobs: read_jobs(&jobs)? }.write(&path).or_raise()
}

/// Reads the jobs of a plan, or of a shard of it.
#[pyfunction]
fn read_plan(path: PathBuf, shard: Option<&str>) -> PyResult<Vec<String>> {
    let plan = SweepPlan::read(&path, COMMIT).or_raise()?;
    let jobs = match shard {
        Some(shard) => plan.share(shard.parse::<Shard>().map_err(bad)?),
        None => plan.jobs,
    };
    Ok(jobs.iter().map(RunJob::to_string).collect())
}

/// Those of the jobs that a directory has no rows of.
#[pyfunction]
fn missing(py: Python<'_>, jobs: Vec<String>, out: PathBuf, real: bool) -> PyResult<Vec<String>> {
    let world = if real { RunWorld::Real } else { RunWorld::Sim };
    let parsed = read_jobs(&jobs)?;
    let there: BTreeSet<(String, String)> = py.detach(|| {
        let rows = match results::read_results(&[&out]) {
            Ok(sheets) => sheets.into_iter().flat_map(|sheet| sheet.rows).collect(),
            Err(JoinError::Empty(_)) => Vec::new(),
            Err(_) if !out.exists() => Vec::new(),
            Err(error) => return Err(error.raise()),
        };
        Ok(rows.into_iter().map(|row| (row.identity(), row.experiment)).collect())
    })?;
    let is_missing = |job: &RunJob| !there.contains(&(job.identity(world), job.experiment.clone()));
    Ok(jobs.into_iter().zip(&parsed).filter(|(_, job)| is_missing(job)).map(|(line, _)| line).collect())
}

/// Joins rows, a line of JSON each, with those that a directory has.
#[pyfunction]
fn keep(py: Python<'_>, rows: Vec<String>, out: PathBuf) -> PyResult<Rows> {
    py.detach(|| {
        let rows = rows.iter().map(|row| serde_json::from_str(row)).collect::<Result<Vec<Row>, _>>();
        let sheets = results::keep_rows(rows.map_err(bad)?, &out).or_raise()?;
        Ok(Rows(sheets.into_iter().flat_map(|sheet| sheet.rows).collect()))
    })
}

/// Joins directories of results.
#[pyfunction]
fn merge(py: Python<'_>, dirs: Vec<PathBuf>, out: PathBuf) -> PyResult<Rows> {
    let sheets = py.detach(|| results::merge(&dirs, &out)).or_raise()?;
    Ok(Rows(sheets.into_iter().flat_map(|sheet| sheet.rows).collect()))
}

/// The rows of directories of results, of one experiment or of all.
#[pyfunction]
fn read(py: Python<'_>, dirs: Vec<PathBuf>, experiment: Option<&str>) -> PyResult<Rows> {
    let sheets = py.detach(|| results::read_results(&dirs)).or_raise()?;
    let names: Vec<String> = sheets.iter().map(|sheet| sheet.experiment.clone()).collect();
    let wanted = sheets.into_iter().filter(|sheet| experiment.is_none_or(|name| name == sheet.experiment));
    let rows: Vec<Row> = wanted.flat_map(|sheet| sheet.rows).collect();
    match experiment {
        Some(name) if !names.iter().any(|there| there == name) => Err(PyValueError::new_err(format!(
            "there is nothing of `{name}`; there are {}",
            names.join(", ")
        ))),
        _ => Ok(Rows(rows)),
    }
}

/// The distribution of a metric, pooled over cells of the column `histograms`: times in milliseconds, the
/// shares that are at most as long, and how many times there are.
#[pyfunction]
fn cdf(py: Python<'_>, histograms: Vec<String>, metric: &str) -> PyResult<(Vec<f64>, Vec<f64>, u64)> {
    py.detach(|| {
        let pooled = pool(&histograms, metric)?;
        let (x, y) = pooled.steps().into_iter().unzip();
        Ok((x, y, pooled.count()))
    })
}

fn pool(cells: &[String], metric: &str) -> PyResult<Histogram> {
    let mut pooled = Histogram::default();
    for cell in cells {
        let all: BTreeMap<String, Histogram> = serde_json::from_str(cell).map_err(bad)?;
        let Some(one) = all.get(metric) else {
            let there: Vec<&str> = all.keys().map(String::as_str).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            return Err(PyValueError::new_err(format!(
                "a row has no distribution of `{metric}`; it has {there}"
            )));
        };
        pooled.join(one);
    }
    Ok(pooled)
}

fn read_jobs(lines: &[String]) -> PyResult<Vec<RunJob>> {
    lines.iter().map(|line| line.parse().or_raise()).collect()
}
