mod list;
mod merge;
mod plan;
mod report;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use quickset_lab::catalogue;
use quickset_lab::experiment::Overrides;
use quickset_lab::plan::Shard;
use quickset_lab::results::{Row, sort};
use quickset_lab::run::{RunJob, RunOptions, RunWorld, SweepProgress, jobs, run as run_jobs};

use crate::interrupts::{INTERRUPTED, Interrupts};
use crate::say::{note, say};

/// Run experiments, simulated or over an emulated link, and hold them against published ones.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, arg_required_else_help = true)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    verb: LabVerb,
}

#[derive(Debug, Subcommand)]
enum LabVerb {
    List(list::ListArgs),
    Run(RunArgs),
    Plan(plan::PlanArgs),
    Merge(merge::MergeArgs),
    Report(report::ReportArgs),
}

/// Run experiments and keep what comes of them, a row a run.
///
/// Rows are kept in the directory of -o as they come; the same command goes on where a stopped one
/// was. Without --set an experiment runs all its points. A key that is set takes just the values
/// given; setting a key that the experiment varies one at a time leaves its other variations out.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLE, verbatim_doc_comment)]
struct RunArgs {
    /// The experiments
    #[arg(required_unless_present = "from", value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Do the runs of this plan (see `quickset lab plan`)
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["names", "set", "points", "seeds"])]
    from: Option<PathBuf>,
    /// Do only this share of the plan, like 2/8 for the second of eight
    #[arg(long, value_name = "I/N", requires = "from", conflicts_with = "names")]
    shard: Option<Shard>,
    /// Use real sockets, TLS and the emulated link instead of virtual time; experiments that time this
    /// machine do as ever
    #[arg(long)]
    real: bool,
    /// Keep results here
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    output: PathBuf,
    /// Forget the rows that are there
    #[arg(long)]
    fresh: bool,
    /// Runs at a time [default: one a core]; in real time they take turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Record each run in a folder of its own in here: traces for qvis (qlog), and packets (pcap), which
    /// there are in virtual time only
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Print the rows as one JSON array
    #[arg(long)]
    json: bool,
}

/// Which runs of an experiment.
#[derive(Debug, clap::Args)]
struct Which {
    /// Run with these values; several --set multiply, those of one key add up
    #[arg(long, value_name = "KEY=VALUE,…")]
    set: Vec<String>,
    /// Points of a space-filling design
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    points: Option<u32>,
    /// Runs of each point, with seeds 1 to N [default: the experiment's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    seeds: Option<u32>,
}

impl Which {
    fn jobs(&self, name: &str) -> anyhow::Result<Vec<RunJob>> {
        let experiment = catalogue::find(name)?;
        let overrides = Overrides { points: self.points, ..Overrides::parse(&self.set)? };
        let points = experiment.points(&overrides)?;
        Ok(jobs(experiment, &points, self.seeds.unwrap_or(experiment.seeds)))
    }
}

pub(crate) fn run(args: LabArgs) -> anyhow::Result<()> {
    match args.verb {
        LabVerb::List(args) => list::run(&args),
        LabVerb::Run(args) => run_experiments(&args),
        LabVerb::Plan(args) => plan::run(&args),
        LabVerb::Merge(args) => merge::run(&args),
        LabVerb::Report(args) => report::run(&args),
    }
}

fn run_experiments(args: &RunArgs) -> anyhow::Result<()> {
    // Everything that can be wrong with the words is said before the first run.
    let sweeps = match &args.from {
        Some(path) => plan::sweeps(path, args.shard)?,
        None => args.names.iter().map(|name| args.which.jobs(name)).collect::<Result<_, _>>()?,
    };
    let options = RunOptions {
        world: if args.real { RunWorld::Real } else { RunWorld::Sim },
        commit: COMMIT.to_owned(),
        threads: args.jobs.map_or_else(cores, usize::from),
        fresh: args.fresh,
        shard: args.shard,
        record: args.record.clone(),
    };
    let runs: usize = sweeps.iter().map(Vec::len).sum();
    if args.record.is_some() && runs > MOST_RECORDED {
        anyhow::bail!(
            "--record takes {MOST_RECORDED} runs at most, since each may fill 100 MB, and these are {runs}; choose some with \
             --set and --seeds 1"
        );
    }
    if args.record.is_some() && args.real {
        note!(
            "quickset: --record keeps no packets of runs with --real, only traces (qlog); tcpdump on the loopback interface \
             has the packets, and a file named by SSLKEYLOGFILE their keys"
        );
    }
    let stop = stop_on_interrupt()?;
    let mut rows = Vec::new();
    for sweep in &sweeps {
        let bar = Bar::new(&sweep[0].experiment);
        let done = run_jobs(sweep, &args.output, &options, &stop, &mut |progress| bar.show(progress));
        bar.end();
        let mut done = done?;
        sort(&mut done);
        rows.extend(done);
    }
    if args.json {
        let bare: Vec<_> = rows.iter().map(Row::bare).collect();
        say!("{}", serde_json::to_string_pretty(&bare)?)?;
    }
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Progress on a terminal, a line at the end elsewhere.
struct Bar {
    bar: ProgressBar,
    last: std::cell::Cell<SweepProgress>,
}

impl Bar {
    fn new(name: &str) -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} runs{msg}, {eta} left")
            .expect("the template is ours");
        bar.set_style(style);
        bar.set_prefix(name.to_owned());
        Self { bar, last: std::cell::Cell::default() }
    }

    fn show(&self, progress: &SweepProgress) {
        self.bar.set_length(progress.all as u64);
        if self.bar.position() == 0 {
            self.bar.set_position(progress.resumed as u64);
            self.bar.reset_eta();
        }
        self.bar.set_position(progress.done as u64);
        if progress.under_way_s > 0.0 {
            self.bar.set_message(format!(" and {:.0} s of the next", progress.under_way_s));
        } else {
            self.bar.set_message("");
        }
        self.last.set(*progress);
    }

    fn end(&self) {
        let prefix = self.bar.prefix();
        self.bar.finish_and_clear();
        let SweepProgress { all, done, resumed, played_s, wall_s, slowest, .. } = self.last.get();
        if played_s > 0.0 {
            let (times, slowest) = (played_s / wall_s.max(1e-9), 1.0 / slowest.max(1e-9));
            note!(
                "{prefix}: {done} of {all} runs, {resumed} of them were there; {played_s:.0} s were played in {wall_s:.1} s \
                 of one core, {times:.0} times as fast as real time, the slowest run {slowest:.1} times"
            );
        } else if all > 0 {
            note!("{prefix}: {done} of {all} runs were there");
        }
    }
}

/// The first wish to stop lets runs end and keeps their rows, the second one does not wait for them.
fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let (runtime, told) = (tokio::runtime::Builder::new_current_thread().enable_all().build()?, stop.clone());
    let mut interrupts = {
        let _within = runtime.enter();
        Interrupts::new()?
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        runtime.block_on(async {
            interrupts.next().await;
            told.store(true, Ordering::Relaxed);
            note!("\nstopping behind the runs under way; once more to stop at once");
            interrupts.next().await;
            quickset_lab::scratch::clear();
            std::process::exit(INTERRUPTED);
        });
    })?;
    Ok(stop)
}

/// What rows and plans say of this build.
const COMMIT: &str = env!("QUICKSET_COMMIT");

/// Runs that may be recorded at once.
const MOST_RECORDED: usize = 20;

const EXAMPLE: &str = "\
Example: the streamed screen of the 2025 fence paper at its baseline loss, and a page of figures
  quickset lab run screen-streaming --set loss=0.5%
  quickset lab report results --open";

const RUN_EXAMPLE: &str = "\
Example: three loss rates, 20 seeds each, in virtual time
  quickset lab run screen-streaming --set loss=0.1%,0.5%,1% --seeds 20 -o out";
