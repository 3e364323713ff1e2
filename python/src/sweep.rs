//! Sweeps: they run on threads of their own while the calling one waits for news and for signals.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use quickset_lab::catalogue;
use quickset_lab::plan::SweepPlan;
use quickset_lab::results::{Row, sort};
use quickset_lab::run::{RunError, RunJob, RunOptions, RunWorld, SweepProgress, play, run as run_jobs};

use crate::errors::OrRaise as _;
use crate::{COMMIT, Rows, read_jobs};

/// Does jobs that `out` has no rows of yet, and keeps what comes of them there.
///
/// `how` is the number of threads, and whether in real time. `progress` is called with runs done, runs in
/// all, runs that were there, seconds played and seconds of reality on one core. Ctrl-C, and an exception of
/// `progress`, let the runs end that are under way; their rows are kept.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    jobs: Vec<String>,
    out: PathBuf,
    how: (Option<usize>, bool),
    progress: Option<Py<PyAny>>,
) -> PyResult<Rows> {
    let sweeps = SweepPlan::sweeps(read_jobs(&jobs)?);
    let options = options(how.0, how.1);
    let mut rows = Vec::new();
    let mut before = SweepProgress::default();
    let all = jobs.len();
    for sweep in sweeps {
        let tell = |now: &SweepProgress| match &progress {
            Some(progress) => {
                let whole = add(&before, now);
                let told = (whole.done, all, whole.resumed, whole.played_s, whole.wall_s);
                Python::attach(|py| progress.call1(py, told)).map(drop)
            }
            None => Ok(()),
        };
        let (mut done, last) = py.detach(|| one(&sweep, &out, &options, &tell))?;
        before = add(&before, &last);
        sort(&mut done);
        rows.append(&mut done);
    }
    Ok(Rows(rows))
}

/// Plays one job, a line of JSON, and returns its row as another: for whoever spreads jobs over machines.
#[pyfunction]
pub(crate) fn run_job(py: Python<'_>, job: &str, real: bool) -> PyResult<String> {
    let job: RunJob = job.parse().or_raise()?;
    let experiment = catalogue::find(&job.experiment).or_raise()?;
    let stop = AtomicBool::new(false);
    let row: Result<Row, RunError> =
        py.detach(|| play(experiment, &job, &options(Some(1), real), &stop, &mut |_| ()));
    serde_json::to_string(&row.or_raise()?).map_err(crate::errors::bad)
}

/// The sweep of one experiment, without the interpreter; and how it ended.
fn one(
    jobs: &[RunJob],
    out: &std::path::Path,
    options: &RunOptions,
    tell: &(dyn Fn(&SweepProgress) -> PyResult<()> + Sync),
) -> PyResult<(Vec<Row>, SweepProgress)> {
    let stop = AtomicBool::new(false);
    let (sender, news) = channel();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let sender = sender;
            run_jobs(jobs, out, options, &stop, &mut |progress| {
                // Nobody listens any more once the sweep is to stop.
                let _ = sender.send(*progress);
            })
        });
        let watched = watch(&news, &stop, tell);
        let rows = worker.join().map_err(|_| PyRuntimeError::new_err("a run has panicked; see above"))?;
        // Why it was stopped matters more than that it was.
        let last = watched?;
        Ok((rows.or_raise()?, last))
    })
}

/// Passes news on until there is no more; looks for signals between them.
fn watch(
    news: &Receiver<SweepProgress>,
    stop: &AtomicBool,
    tell: &(dyn Fn(&SweepProgress) -> PyResult<()> + Sync),
) -> PyResult<SweepProgress> {
    let mut last = SweepProgress::default();
    let mut result = Ok(());
    loop {
        let heard = match news.recv_timeout(LOOK_FOR_SIGNALS) {
            Ok(progress) => {
                last = progress;
                if result.is_ok() { tell(&progress) } else { Ok(()) }
            }
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => return result.map(|()| last),
        };
        let heard = heard.and_then(|()| signals());
        if heard.is_err() {
            stop.store(true, Ordering::Relaxed);
            // A second Ctrl-C changes nothing: runs under way cannot be cut short.
            result = result.and(heard);
        }
    }
}

/// Whether Ctrl-C was pressed, as an exception.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the method itself is not general enough")]
fn signals() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

fn options(threads: Option<usize>, real: bool) -> RunOptions {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    RunOptions {
        world: if real { RunWorld::Real } else { RunWorld::Sim },
        commit: COMMIT.to_owned(),
        threads: threads.unwrap_or_else(cores),
        ..RunOptions::default()
    }
}

fn add(before: &SweepProgress, now: &SweepProgress) -> SweepProgress {
    SweepProgress {
        done: before.done + now.done,
        resumed: before.resumed + now.resumed,
        played_s: before.played_s + now.played_s,
        wall_s: before.wall_s + now.wall_s,
        ..*now
    }
}

const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(100);
