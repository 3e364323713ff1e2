//! Running experiments: jobs over all cores, each row on disk as soon as it is there.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::catalogue;
use crate::experiment::{Experiment, ExperimentKey, ExperimentWay, Params, Timed, TimingError, ValueError};
use crate::plan::Shard;
use crate::play::{RealError, Recording, VirtualTimeError, really, recorded, virtually};
use crate::results::{Detail, Journal, JournalError, Row, identity, journal_name, measure};

/// One run to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunJob {
    /// The name of the experiment.
    pub experiment: String,
    /// The point.
    pub params: Params,
    /// The seed.
    pub seed: u64,
}

impl RunJob {
    /// What tells the run from all others of its experiment; its row has the same.
    pub fn identity(&self, world: RunWorld) -> String {
        let is_timed = catalogue::find(&self.experiment).is_ok_and(Experiment::is_timed);
        identity(if is_timed { MACHINE } else { world.name() }, &self.params, self.seed)
    }
}

/// Where runs take place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunWorld {
    /// In virtual time, without cryptography: equal seeds give equal rows.
    #[default]
    Sim,
    /// Over real sockets with TLS, through the emulated link.
    Real,
}

/// How to run. The default is one run at a time in virtual time.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Where runs take place.
    pub world: RunWorld,
    /// What rows say of the build.
    pub commit: String,
    /// Threads, at least one; in the real world runs take turns whatever this says, or they would disturb
    /// each other.
    pub threads: usize,
    /// Forget the rows that are there.
    pub fresh: bool,
    /// Whose share of a plan the jobs are: each keeps its rows in a file of its own.
    pub shard: Option<Shard>,
    /// Write what analysers read of each run into a folder of its own in here; see [`Recording`].
    pub record: Option<PathBuf>,
}

/// How far a sweep has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SweepProgress {
    /// Runs to do, those that were there included.
    pub all: usize,
    /// Runs done, those that were there included.
    pub done: usize,
    /// Runs that were there.
    pub resumed: usize,
    /// Seconds of the runs' own time that were played, and of reality on one core.
    pub played_s: f64,
    /// See [`played_s`](Self::played_s).
    pub wall_s: f64,
    /// Seconds into a run in real time that is under way.
    pub under_way_s: f64,
    /// The greatest share of its own time that a run took in reality.
    pub slowest: f64,
}

/// Why a sweep came to no end. What it had done is on disk.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A key or value does not fit.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Nothing was timed.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The results cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A run failed in virtual time.
    #[error("{0}: {1}")]
    Play(String, VirtualTimeError),
    /// A run failed in real time.
    #[error("{0}: {1}")]
    Real(String, RealError),
    /// What analysers read cannot be written.
    #[error("the run cannot be recorded: {0}; choose another directory")]
    Recording(std::io::Error),
    /// The user wants no more.
    #[error("stopped; the rows so far are kept, and the same command goes on from there")]
    Stopped,
}

/// The jobs of an experiment: each point with each seed.
pub fn jobs(experiment: &Experiment, points: &[Params], seeds: u32) -> Vec<RunJob> {
    // Seeds change slowest: a sweep that is stopped early has something of every point.
    let of_seed = |seed: u64| {
        let job = move |params: &Params| RunJob {
            experiment: experiment.name.to_owned(),
            params: params.clone(),
            seed,
        };
        points.iter().map(job)
    };
    (1..=u64::from(seeds)).flat_map(of_seed).collect()
}

/// Does the jobs of one experiment that `dir` has no rows of yet; returns the rows of all jobs, in their
/// order. The tables in `dir` are then of all rows of the experiment there; those of shards are made by
/// [`merge`](crate::results::merge).
///
/// # Errors
/// See [`RunError`].
pub fn run(
    jobs: &[RunJob],
    dir: &Path,
    options: &RunOptions,
    stop: &AtomicBool,
    observer: &mut dyn FnMut(&SweepProgress),
) -> Result<Vec<Row>, RunError> {
    let Some(first) = jobs.first() else { return Ok(Vec::new()) };
    let experiment = catalogue::find(&first.experiment)?;
    let path = dir.join(journal_name(experiment.name, options.shard));
    let mut journal = Journal::open(&path, experiment.name, &options.commit, options.fresh)?;
    let wanted: Vec<String> = jobs.iter().map(|job| job.identity(options.world)).collect();
    // A row tells nothing of the packets: to be recorded a run is played once more.
    let is_missing = |identity: &str| options.record.is_some() || !journal.has(identity);
    let missing: Vec<&RunJob> =
        jobs.iter().zip(&wanted).filter(|(_, identity)| is_missing(identity)).map(|(job, _)| job).collect();
    let resumed = jobs.len() - missing.len();
    let mut progress = SweepProgress { all: jobs.len(), done: resumed, resumed, ..SweepProgress::default() };
    observer(&progress);
    let result = each(&missing, experiment, options, stop, &mut |news| {
        let row = match news {
            ThreadNews::Row(row) => *row,
            ThreadNews::UnderWay(seconds) => {
                progress.under_way_s = seconds;
                observer(&progress);
                return Ok(());
            }
        };
        progress.done += 1;
        progress.under_way_s = 0.0;
        progress.played_s += row.detail.length_s;
        progress.wall_s += row.detail.wall_s;
        progress.slowest = progress.slowest.max(row.detail.wall_s / row.detail.length_s.max(1e-9));
        journal.add(row)?;
        observer(&progress);
        Ok(())
    });
    // Also of what a stopped sweep has done, and while no other run can change it.
    let tables = if options.shard.is_none() { journal.write_tables(dir) } else { Ok(()) };
    result?;
    tables?;
    let by_identity: std::collections::BTreeMap<String, &Row> =
        journal.rows().iter().map(|row| (row.identity(), row)).collect();
    Ok(wanted.iter().filter_map(|identity| by_identity.get(identity).map(|row| (*row).clone())).collect())
}

/// What a thread tells.
enum ThreadNews {
    Row(Box<Row>),
    /// Seconds into a run.
    UnderWay(f64),
}

/// Plays each job on some thread and hands its row to `take`, in the order in which they end.
fn each(
    jobs: &[&RunJob],
    experiment: &Experiment,
    options: &RunOptions,
    stop: &AtomicBool,
    take: &mut dyn FnMut(ThreadNews) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let in_turn = options.world == RunWorld::Real || experiment.is_timed();
    let threads = if in_turn { 1 } else { options.threads.max(1) };
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (sender, rows) = mpsc::sync_channel(threads);
        for _ in 0..threads.min(jobs.len()) {
            let (sender, next, failed) = (sender.clone(), &next, &failed);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
                    let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let mut observer = |at: Duration| {
                        // Whoever has stopped listening has stopped the threads too.
                        let _ = sender.send(Ok(ThreadNews::UnderWay(at.as_secs_f64())));
                    };
                    let row = play(experiment, job, options, stop, &mut observer);
                    // A run that was stopped has seen half of it.
                    if stop.load(Ordering::Relaxed) && options.world == RunWorld::Real {
                        return;
                    }
                    if sender.send(row.map(|row| ThreadNews::Row(Box::new(row)))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut result = Ok(());
        for news in rows {
            let kept = news.and_then(&mut *take);
            if kept.is_err() && result.is_ok() {
                failed.store(true, Ordering::Relaxed);
                result = kept;
            }
        }
        if result.is_ok() && stop.load(Ordering::Relaxed) { Err(RunError::Stopped) } else { result }
    })
}

/// Plays one job.
///
/// # Errors
/// See [`RunError`].
pub fn play(
    experiment: &Experiment,
    job: &RunJob,
    options: &RunOptions,
    stop: &AtomicBool,
    observer: &mut dyn FnMut(Duration),
) -> Result<Row, RunError> {
    if let ExperimentWay::Time(time) = experiment.way {
        return timed(time, job, options);
    }
    let mut setting = experiment.setting(&job.params)?;
    let mut recording = None;
    if let Some(dir) = &options.record {
        let folder = Recording::new(&dir.join(folder(job)), job).map_err(RunError::Recording)?;
        setting = folder.traced(setting).map_err(RunError::Recording)?;
        recording = Some(folder);
    }
    let seed = experiment.seed(&job.params, job.seed);
    let begun = Instant::now();
    let named = || format!("{} with {} and seed {}", job.experiment, job.params, job.seed);
    let (seen, accuracy) = match options.world {
        RunWorld::Sim => {
            let played = recorded(&setting, seed, recording.as_ref());
            (played.map_err(|error| RunError::Play(named(), error))?, None)
        }
        RunWorld::Real => {
            let played = really(&setting, seed, stop, observer);
            let (seen, accuracy) = played.map_err(|error| RunError::Real(named(), error))?;
            (seen, Some(accuracy))
        }
    };
    let (mut metrics, mut detail) = measure(&setting, &seen);
    if let Some(accuracy) = accuracy {
        metrics.emulation.lateness_p99_ms = Some(accuracy.lateness.percentile(0.99).as_secs_f64() * 1e3);
        metrics.emulation.overruns = accuracy.overruns;
    }
    if options.world == RunWorld::Sim {
        metrics.dct_ratio = ratio(experiment, job, metrics.dct_s)?;
    }
    detail.wall_s = begun.elapsed().as_secs_f64();
    Ok(Row {
        experiment: job.experiment.clone(),
        seed: job.seed,
        commit: options.commit.clone(),
        world: options.world.name().to_owned(),
        params: job.params.clone(),
        metrics,
        detail,
    })
}

/// Times this machine.
fn timed(time: RunTime, job: &RunJob, options: &RunOptions) -> Result<Row, RunError> {
    if options.record.is_some() {
        return Err(
            ValueError(format!("{} sends no packets to record; leave --record out", job.experiment)).into()
        );
    }
    let begun = Instant::now();
    let (metrics, detail) = time(&job.params, job.seed)?;
    let took_s = begun.elapsed().as_secs_f64();
    Ok(Row {
        experiment: job.experiment.clone(),
        seed: job.seed,
        commit: options.commit.clone(),
        world: MACHINE.to_owned(),
        params: job.params.clone(),
        metrics,
        detail: Detail { wall_s: took_s, length_s: took_s, ..detail },
    })
}

type RunTime = fn(&Params, u64) -> Timed;

/// How long a download took over what it takes without repair, under the same losses: both are played, so
/// that a row stands for itself. `None` where there was none, or no repair.
fn ratio(experiment: &Experiment, job: &RunJob, dct_s: Option<f64>) -> Result<Option<f64>, RunError> {
    let protected = job.params.get("fec").is_some_and(|fec| fec.to_string() != "none");
    let Some(dct_s) = dct_s.filter(|_| protected) else { return Ok(None) };
    let mut params = job.params.clone();
    params.set(ExperimentKey::find("fec")?, "none")?;
    let setting = experiment.setting(&params)?;
    let named = || format!("{} with {params} and seed {}", job.experiment, job.seed);
    let seen = virtually(&setting, experiment.seed(&params, job.seed))
        .map_err(|error| RunError::Play(named(), error))?;
    let (plain, _) = measure(&setting, &seen);
    Ok(plain.dct_s.map(|plain_s| dct_s / plain_s))
}

/// The folder of a run within that of recordings; `run.json` in it says which run it is.
fn folder(job: &RunJob) -> String {
    // FNV-1a: the same in every build, which std does not promise of its own hasher.
    let text = job.params.to_string();
    let mark = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{}-seed{}-{:08x}", job.experiment, job.seed, mark >> 32)
}

impl RunWorld {
    /// What rows say.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Real => "real",
        }
    }
}

/// The world of rows that are timings.
const MACHINE: &str = "machine";
