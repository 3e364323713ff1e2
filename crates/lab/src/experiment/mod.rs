//! Experiments as data: what is varied, what is measured, what was published.
//!
//! An [`Experiment`] is one table. Its [`Params`] are a baseline, every point of a run differs from it in
//! some keys, and its [`ExperimentWay`] turns a point into a [`Setting`]: links, flows and their work, which
//! is played in virtual time or over real sockets; or it times this machine.

mod keys;
mod outline;
mod params;
mod points;

use crate::play::Setting;
use crate::results::{Detail, RunMetrics};
pub(crate) use keys::{CONFERENCE, FLEC, HTTP1, NONE, nearest, products};
pub use keys::{ExperimentKey, KEYS, ValueError, ValueKind};
pub use outline::{Outline, OutlineKey, Values};
pub use params::{Params, Value};
pub use points::{Overrides, PointsError};

/// One experiment.
#[derive(Debug)]
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// Where it comes from: paper and figures.
    pub source: &'static str,
    /// What is done and why, for somebody who has not read the paper; a paragraph.
    pub about: &'static str,
    /// Every key that it has, with the value of the baseline.
    pub baseline: &'static [(&'static str, &'static str)],
    /// Keys of which each value is combined with every point: `("mode", "total,partial")`.
    pub crossed: &'static [(&'static str, &'static str)],
    /// How the points differ from the baseline.
    pub varied: Varied,
    /// Runs of each point, with seeds 1, 2, …, unless told.
    pub seeds: u32,
    /// The figures of its report.
    pub figures: &'static [ReportFigure],
    /// What others have published, as numbers.
    pub published: &'static [Published],
    /// What others have published, in words: the figure, and what is to be seen in it.
    pub claims: &'static [(&'static str, &'static str)],
    /// What others have published of the same matter and is not measured here, as `claims`: it stands beside
    /// no number of ours.
    pub unmeasured: &'static [(&'static str, &'static str)],
    /// Where and why our numbers are not the published ones, or what longer runs have shown; a sentence or
    /// more each.
    pub notes: &'static [&'static str],
    /// What a point means.
    pub way: ExperimentWay,
}

/// How a run of an experiment takes place.
#[derive(Clone, Copy, Debug)]
pub enum ExperimentWay {
    /// A point means links, flows and their work, which are played: in virtual time equal seeds give equal
    /// rows.
    Play(fn(&Params) -> Result<Setting, ValueError>),
    /// This machine does some work for real and is timed. No two runs are the same, and they take turns.
    Time(fn(&Params, u64) -> Timed),
}

/// What was measured by timing, with the distributions of it.
pub type Timed = Result<(RunMetrics, Detail), TimingError>;

/// Why nothing was timed: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TimingError(pub(crate) String);

/// How the points of an experiment differ from its baseline.
#[derive(Clone, Copy, Debug)]
pub enum Varied {
    /// The baseline, and one point for each other value of each key, everything else as in the baseline.
    OneByOne(&'static [(&'static str, &'static str)]),
    /// Points that fill the space of these ranges evenly (see [`crate::design`]).
    Space {
        /// Points, unless told.
        points: u32,
        /// Key, least and greatest value.
        ranges: &'static [(&'static str, f64, f64)],
    },
}

/// A figure of a report, as data. A metric with an alternative behind a slash, like `bytes_sent/plain`, is
/// over that of the run of this alternative with the same losses.
#[derive(Clone, Copy, Debug)]
pub enum ReportFigure {
    /// Cumulative distributions of a metric with a histogram (`blocking_ms`, …): a curve for each value of
    /// `curves`, a panel for each point.
    Distribution {
        /// The metric.
        metric: &'static str,
        /// The key whose values are the curves, mostly `mode`.
        curves: &'static str,
        /// A logarithmic axis instead of a linear one.
        logarithmic: bool,
    },
    /// The cumulative distribution of one number for each run over all points and seeds: a curve for each
    /// value of `curves`.
    Runs {
        /// The metric, like `dct_over_ideal`.
        metric: &'static str,
        /// The key whose values are the curves.
        curves: &'static str,
    },
    /// One dot for each run.
    Scatter {
        /// The metric or key along.
        x: &'static str,
        /// The metric up.
        y: &'static str,
        /// The key whose values have a colour each.
        colours: &'static str,
    },
    /// A box (quartiles, median, 5th and 95th percentile over runs) for each value of `over`, beside each
    /// other for each value of `colours`.
    Boxes {
        /// The metric.
        metric: &'static str,
        /// The key along.
        over: &'static str,
        /// The key whose values have a colour each.
        colours: &'static str,
    },
    /// The medians over runs along a key that is a number: a line for each value of `curves`.
    Lines {
        /// The metric.
        metric: &'static str,
        /// The key along.
        over: &'static str,
        /// The key whose values are the lines.
        curves: &'static str,
    },
    /// A square for each pair of values of two keys, by its colour the mean over runs.
    Heat {
        /// The metric; a ratio, of which one is neither good nor bad.
        metric: &'static str,
        /// The key along.
        x: &'static str,
        /// The key up.
        y: &'static str,
        /// The key whose values have a panel each.
        panels: &'static str,
    },
    /// A bar for each value of a key, stacked of the parts of a whole: the means over runs.
    Parts {
        /// The parts, shares that are one together.
        metrics: &'static [&'static str],
        /// The key along.
        over: &'static str,
    },
    /// A series over time or message index: a line for each value of `curves`, a panel for each point.
    Series {
        /// Its name, like `goodput` or `blocking`.
        series: &'static str,
        /// The key whose values are the lines; `flow` for one line a flow.
        curves: &'static str,
    },
}

impl ReportFigure {
    /// The measures and keys that it shows numbers of.
    pub fn metrics(&self) -> Vec<&'static str> {
        match *self {
            Self::Distribution { metric, .. }
            | Self::Runs { metric, .. }
            | Self::Boxes { metric, .. }
            | Self::Lines { metric, .. }
            | Self::Heat { metric, .. } => vec![metric],
            Self::Scatter { x, y, .. } => vec![x, y],
            Self::Parts { metrics, .. } => metrics.to_vec(),
            Self::Series { .. } => Vec::new(),
        }
    }

    /// The key whose values have a colour or a panel each; `flow` for the flows of a run.
    pub fn compared(&self) -> &'static str {
        match *self {
            Self::Distribution { curves, .. }
            | Self::Runs { curves, .. }
            | Self::Lines { curves, .. }
            | Self::Series { curves, .. } => curves,
            Self::Scatter { colours, .. } | Self::Boxes { colours, .. } => colours,
            Self::Heat { panels, .. } => panels,
            Self::Parts { over, .. } => over,
        }
    }
}

/// A number from a paper, to stand beside ours.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// The figure or table, like `9`.
    pub figure: &'static str,
    /// Which points it is about: `key=value`, separated by spaces; what is not named is as in the baseline.
    /// With several values of a key, or `*` for all, it is about all these points of a design together.
    pub at: &'static str,
    /// The metric as a path, like `blocking_ms.p99`.
    pub metric: &'static str,
    /// The published value, in the metric's unit.
    pub value: f64,
}

impl Experiment {
    /// The baseline.
    ///
    /// # Panics
    /// When the table has a slip; a test reads all tables.
    pub fn base(&self) -> Params {
        let mut params = Params::default();
        for (key, value) in self.baseline {
            params.set(ExperimentKey::find(key).expect("a known key"), value).expect("a fitting value");
        }
        params
    }

    /// The seed that a run is played with. Points of a design have losses of their own, or a design of one
    /// run a point would show one sequence of losses 95 times; what is crossed with a point (modes, sizes)
    /// meets the same ones.
    pub fn seed(&self, params: &Params, seed: u64) -> u64 {
        let Varied::Space { ranges, .. } = self.varied else { return seed };
        let mut mixed = seed;
        for (key, ..) in ranges {
            for byte in params.text(key).bytes() {
                // FNV-1a.
                mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        mixed
    }

    /// The links, flows and work of a point.
    ///
    /// # Errors
    /// When a value does not fit, and for an experiment that times this machine instead.
    pub fn setting(&self, params: &Params) -> Result<Setting, ValueError> {
        match self.way {
            ExperimentWay::Play(setting) => setting(params),
            ExperimentWay::Time(_) => {
                Err(ValueError(format!("{} times this machine; it has no links and no flows", self.name)))
            }
        }
    }

    /// True when runs are timings of this machine: their rows differ from run to run.
    pub fn is_timed(&self) -> bool {
        matches!(self.way, ExperimentWay::Time(_))
    }

    /// True when the experiment has this key.
    pub fn has(&self, key: &str) -> bool {
        self.baseline.iter().any(|(name, _)| *name == key)
    }
}
