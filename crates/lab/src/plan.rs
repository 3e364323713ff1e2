//! Sweeps over several machines: a [`SweepPlan`] lists the runs, a [`Shard`] is one machine's share of them.
//!
//! *In:* points and seeds, or the file. *Out:* jobs for [`run`](crate::run::run), and a file: a line of JSON
//! as a header, then a line a job. Every shard keeps its rows in files of its own, so that processes may
//! share a directory; [`results::merge`](crate::results::merge) makes one of them. The plan says all of each
//! run, so it does not matter who does it, or in which order.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::catalogue;
use crate::experiment::{Experiment, ExperimentKey, Params, Value, ValueError};
use crate::run::RunJob;

/// The runs of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPlan {
    /// The build that wrote it, which is the one to run it.
    pub commit: String,
    /// The runs.
    pub jobs: Vec<RunJob>,
}

/// A share of a plan: `2/8` is the second of eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, counted from 1.
    number: u32,
    /// Of how many.
    of: u32,
}

/// The first line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct PlanHeader {
    /// The version of the format.
    #[serde(rename = "quickset-plan")]
    version: u32,
    commit: String,
    /// Lines that follow: a copy that was cut off is noticed.
    jobs: usize,
}

/// The others; nothing else may stand there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanLine {
    experiment: String,
    params: BTreeMap<String, Value>,
    seed: u64,
}

/// Why a plan cannot be used: one sentence with the next step.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file system says no.
    #[error("{path} cannot be {doing}: {error}")]
    Io {
        /// The file.
        path: String,
        /// What was tried.
        doing: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// It is something else.
    #[error("{0} is not a plan; write one with `quickset lab plan`")]
    Foreign(String),
    /// It is of another version.
    #[error(
        "{path} is a plan of format {found}, and this build reads format {VERSION}; write it anew with this build, or run \
         it with the one that wrote it"
    )]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: u64,
    },
    /// Another build wrote it: its rows would not fit those of the others.
    #[error(
        "{path} was written by the build {found}, and this is {ours}; use one build on all machines, or write the plan \
         anew"
    )]
    Commit {
        /// The file.
        path: String,
        /// The commit of the build that wrote it.
        found: String,
        /// This build's.
        ours: String,
    },
    /// A line is no job.
    #[error("line {line} of {path} is not a run: {why}")]
    Line {
        /// The file.
        path: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// It was cut off, or joined with another.
    #[error("{path} has {found} runs, and its header promises {promised}; copy it again")]
    Length {
        /// The file.
        path: String,
        /// What is there.
        found: usize,
        /// What should be.
        promised: usize,
    },
}

/// What a shard must look like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no shard: write I/N, like 2/8 for the second of eight")]
pub struct ShardError(String);

impl SweepPlan {
    /// Reads the plan in a file.
    ///
    /// # Errors
    /// See [`PlanError`]; a bad line is named.
    pub fn read(path: &Path, commit: &str) -> Result<Self, PlanError> {
        let bytes = std::fs::read(path).map_err(|error| io_error(path, "read", error))?;
        let text = String::from_utf8(bytes).map_err(|_| PlanError::Foreign(shown(path)))?;
        let mut lines = text.lines();
        let header = read_header(lines.next().unwrap_or_default(), path)?;
        if header.commit != commit {
            return Err(PlanError::Commit {
                path: shown(path),
                found: header.commit,
                ours: commit.to_owned(),
            });
        }
        let job = |(n, line): (usize, &str)| {
            let why = |error: ValueError| error.to_string();
            line.parse().map_err(why).map_err(|why| PlanError::Line { path: shown(path), line: n + 2, why })
        };
        let jobs = lines.enumerate().map(job).collect::<Result<Vec<RunJob>, _>>()?;
        if jobs.len() != header.jobs {
            return Err(PlanError::Length { path: shown(path), found: jobs.len(), promised: header.jobs });
        }
        Ok(Self { commit: header.commit, jobs })
    }

    /// Writes the plan as a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PlanError> {
        let header = PlanHeader { version: VERSION, commit: self.commit.clone(), jobs: self.jobs.len() };
        let write = || {
            let mut file = io::BufWriter::new(std::fs::File::create(path)?);
            writeln!(file, "{}", serde_json::to_string(&header)?)?;
            for job in &self.jobs {
                writeln!(file, "{}", serde_json::to_string(job)?)?;
            }
            file.flush()
        };
        write().map_err(|error| io_error(path, "written", error))
    }

    /// The jobs of a shard. Neighbours in a plan take about equally long, so shards do.
    pub fn share(&self, shard: Shard) -> Vec<RunJob> {
        self.jobs.iter().skip(shard.number as usize - 1).step_by(shard.of as usize).cloned().collect()
    }

    /// The jobs by experiment, each in the order of the plan.
    pub fn sweeps(jobs: Vec<RunJob>) -> Vec<Vec<RunJob>> {
        let mut sweeps: Vec<Vec<RunJob>> = Vec::new();
        for job in jobs {
            match sweeps.iter_mut().find(|sweep| sweep[0].experiment == job.experiment) {
                Some(sweep) => sweep.push(job),
                None => sweeps.push(vec![job]),
            }
        }
        sweeps
    }
}

/// Reads a line of a plan. Every key of the experiment has to be there, with a value that fits.
impl FromStr for RunJob {
    type Err = ValueError;

    fn from_str(line: &str) -> Result<Self, ValueError> {
        let given: PlanLine = serde_json::from_str(line).map_err(|error| ValueError(error.to_string()))?;
        let experiment: &Experiment = catalogue::find(&given.experiment)?;
        let mut params = Params::default();
        for (name, value) in &given.params {
            if !experiment.has(name) {
                return Err(ValueError(format!("{} has no key `{name}`", experiment.name)));
            }
            // As `--set` reads it: 0.5% and 0.005 are one value.
            params.set(ExperimentKey::find(name)?, &value.to_string())?;
        }
        if let Some((missing, _)) = experiment.baseline.iter().find(|(key, _)| params.get(key).is_none()) {
            return Err(ValueError(format!("the key `{missing}` is missing")));
        }
        Ok(Self { experiment: given.experiment, params, seed: given.seed })
    }
}

/// A line of a plan.
impl fmt::Display for RunJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let parts =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err(ShardError(text.to_owned())),
        }
    }
}

/// As in names of files: `2of8`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}of{}", self.number, self.of)
    }
}

fn read_header(line: &str, path: &Path) -> Result<PlanHeader, PlanError> {
    let foreign = || PlanError::Foreign(shown(path));
    let json: Json = serde_json::from_str(line).map_err(|_| foreign())?;
    match json.get("quickset-plan").and_then(Json::as_u64) {
        None => Err(foreign()),
        Some(version) if version == u64::from(VERSION) => serde_json::from_value(json).map_err(|_| foreign()),
        Some(found) => Err(PlanError::Version { path: shown(path), found }),
    }
}

fn io_error(path: &Path, doing: &'static str, error: io::Error) -> PlanError {
    PlanError::Io { path: shown(path), doing, error }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Raised when plans of before would be misread.
pub const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::experiment::Overrides;
    use crate::run::jobs;

    fn plan_of(experiments: &[&'static Experiment]) -> SweepPlan {
        let jobs = experiments.iter().flat_map(|experiment| {
            let points = experiment.points(&Overrides::default()).unwrap();
            jobs(experiment, &points, 2)
        });
        SweepPlan { commit: "abc".into(), jobs: jobs.collect() }
    }

    fn plan() -> SweepPlan {
        plan_of(&[catalogue::find("screen-streaming").unwrap()])
    }

    fn file(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("quickset-plan-{name}-{}", std::process::id()))
    }

    /// Reads the plan with one line changed.
    fn read_changed(name: &str, change: impl Fn(usize, &str) -> String) -> String {
        let path = file(name);
        plan().write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<String> = text.lines().enumerate().map(|(n, line)| change(n + 1, line)).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        let error = SweepPlan::read(&path, "abc").unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        error
    }

    #[test]
    fn a_plan_of_everything_is_read_as_it_was_written() {
        let path = file("whole");
        let plan = plan_of(catalogue::ALL);
        plan.write(&path).unwrap();
        let read = SweepPlan::read(&path, "abc").unwrap();
        let other = SweepPlan::read(&path, "def").unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, plan);
        assert!(other.contains("the build abc, and this is def"), "{other}");
    }

    #[test]
    fn slips_are_named() {
        let at = |line: usize, from: &'static str, to: &'static str| {
            move |n: usize, text: &str| if n == line { text.replace(from, to) } else { text.to_owned() }
        };
        let version = read_changed("version", at(1, "\"quickset-plan\":1", "\"quickset-plan\":2"));
        assert!(version.contains("a plan of format 2, and this build reads format 1"), "{version}");
        assert!(read_changed("foreign", at(1, "quickset-plan", "plan")).contains("is not a plan"));
        let key = read_changed("key", at(3, "\"mode\"", "\"mod\""));
        assert!(key.contains("line 3") && key.contains("has no key `mod`"), "{key}");
        let value = read_changed("value", at(4, "\"profile\":\"", "\"profile\":\"x"));
        assert!(value.contains("line 4") && value.contains("did you mean"), "{value}");
        let name = read_changed("name", at(5, "\"experiment\":\"", "\"experiment\":\"x"));
        assert!(name.contains("line 5") && name.contains("there is no experiment"), "{name}");
        let seed = read_changed("seed", at(6, "\"seed\":", "\"seed\":-"));
        assert!(seed.contains("line 6"), "{seed}");
        let cut = read_changed("cut", |n, text| if n < 8 { text.to_owned() } else { String::new() });
        assert!(cut.contains("line 8"), "{cut}");
        let short = read_changed("short", at(1, "\"jobs\":", "\"jobs\":1"));
        assert!(short.contains("its header promises 1"), "{short}");
    }

    #[test]
    fn a_key_that_is_missing_is_named() {
        let line = plan().jobs[0].to_string().replace("\"rtt_ms\":100,", "");
        assert_eq!(line.parse::<RunJob>().unwrap_err().to_string(), "the key `rtt_ms` is missing");
        let line = plan().jobs[0].to_string().replace("\"seed\"", "\"sed\"");
        assert!(line.parse::<RunJob>().unwrap_err().to_string().contains("sed"));
    }

    proptest! {
        #[test]
        fn shards_are_a_partition_of_equal_parts(of in 1u32..40, count in 0usize..300) {
            let screen = catalogue::ALL[0];
            let template = RunJob { experiment: screen.name.to_owned(), params: screen.base(), seed: 1 };
            let jobs = (0..count as u64).map(|seed| RunJob { seed, ..template.clone() }).collect();
            let plan = SweepPlan { commit: String::new(), jobs };
            let mut seen = BTreeSet::new();
            let mut lengths = Vec::new();
            for number in 1..=of {
                let share = plan.share(format!("{number}/{of}").parse().unwrap());
                lengths.push(share.len());
                for job in share {
                    prop_assert!(seen.insert(job.seed), "seed {} twice", job.seed);
                }
            }
            prop_assert_eq!(seen.len(), count);
            prop_assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn shards_are_read() {
        assert_eq!("2/8".parse::<Shard>().unwrap().to_string(), "2of8");
        for slip in ["0/8", "9/8", "1/0", "2", "2/", "/8", "-1/8", "2/8/1", "a/b", ""] {
            assert!(slip.parse::<Shard>().is_err(), "{slip}");
        }
    }
}
