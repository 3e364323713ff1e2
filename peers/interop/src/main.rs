//! Quickset with other QUIC stacks, both ways round, through a relay that delays, loses and corrupts as the
//! case wants.
//!
//! Two sets of cases: the QUIC interop runner's, each a matrix cell with both sides in processes of their own
//! (`matrix`, `adapters`, `play`), and finer ones with quinn in this process, where every byte and code is
//! seen (`cases`). Losses and contents come from `--seed`. What may be waited for is waited for; every case
//! ends in time or fails.

mod adapters;
mod cases;
mod matrix;
mod pattern;
mod play;
mod port;
mod relay;
mod stack;
mod world;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use clap::{Args, Parser, Subcommand};

use crate::adapters::{Folders, PEERS};
use crate::cases::{CASES, InteropCase};
use crate::matrix::cases::CASES as RUNNERS;
use crate::matrix::report::{Finer, MatrixReport};
use crate::matrix::{CellOutcome, MatrixWanted};
use crate::stack::InteropStack;
use crate::world::InteropPair;

/// Interoperation with other stacks, both ways round.
#[derive(Debug, Parser)]
#[command(name = "interop", args_conflicts_with_subcommands = true)]
#[command(after_help = "Example: interop --quick --peer aioquic --case keyupdate")]
struct InteropCommand {
    #[command(flatten)]
    options: InteropOptions,
    #[command(subcommand)]
    role: Option<InteropPart>,
}

#[derive(Debug, Subcommand)]
enum InteropPart {
    /// Play one side of one case.
    #[command(hide = true)]
    Play(play::PlayJob),
}

#[derive(Args, Debug)]
struct InteropOptions {
    /// quinn only, and of the cases those that take little time, with fewer bytes; with --peer or --case,
    /// those.
    #[arg(long)]
    quick: bool,
    /// Run only this case; may be given several times.
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Run only with this peer; may be given several times.
    #[arg(long = "peer", value_name = "NAME")]
    peers: Vec<String>,
    /// List the peers and the cases.
    #[arg(long)]
    list: bool,
    /// What losses and contents are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The Python that has aioquic and curl_cffi.
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Where the page, the JSON and the logs of failures go.
    #[arg(long, value_name = "FOLDER", default_value = "target/interop")]
    out: PathBuf,
    /// Put another stack in our place: a test of the cases, not of ours.
    #[arg(long, value_name = "PEER", hide = true)]
    instead: Option<String>,
    /// A peer that could not be installed, and why.
    #[arg(long = "missing", value_name = "NAME=REASON", hide = true)]
    missing: Vec<String>,
}

fn main() {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    count_panics();
    let command = InteropCommand::parse();
    let result = match command.role {
        Some(InteropPart::Play(job)) => play::play(job).map(|()| 0),
        None if command.options.list => {
            list();
            Ok(0)
        }
        None => run(&command.options).map(|passed| i32::from(!passed)),
    };
    std::process::exit(result.unwrap_or_else(|error| {
        eprintln!("interop: {error:#}");
        2
    }));
}

fn list() {
    println!("Peers");
    for peer in PEERS {
        println!("  {:<24} {}", peer.name, peer.about);
    }
    println!("Cases of the QUIC interop runner, with each peer");
    for case in RUNNERS {
        println!("  {:<24} {}", case.name, case.about);
    }
    println!("Finer cases, with quinn");
    for case in CASES {
        println!("  {:<24} {}", case.name, case.about);
    }
}

/// True when nothing failed.
fn run(options: &InteropOptions) -> Result<bool> {
    let known =
        |name: &&String| !CASES.iter().any(|c| c.name == **name) && !RUNNERS.iter().any(|c| c.name == **name);
    if let Some(unknown) = options.cases.iter().find(known) {
        bail!("there is no case {unknown:?}; --list shows the cases");
    }
    if let Some(unknown) = options.peers.iter().find(|name| !PEERS.iter().any(|peer| peer.name == **name)) {
        let known: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
        bail!("there is no peer {unknown:?}; the peers are {}", known.join(", "));
    }
    let chosen = |name: &str| options.cases.is_empty() || options.cases.iter().any(|n| n == name);
    let peer = |name: &str| {
        if options.peers.is_empty() {
            !options.quick || name == "quinn"
        } else {
            options.peers.iter().any(|n| n == name)
        }
    };
    let finer = if peer("quinn") && options.instead.is_none() { finer(options, &chosen) } else { Vec::new() };
    let named = !options.cases.is_empty();
    let cases: Vec<_> =
        RUNNERS.iter().filter(|case| chosen(case.name) && (named || case.short || !options.quick)).collect();
    let place = Folders {
        programs: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("programs"),
        python: options.python.clone(),
    };
    let ours = match PEERS.iter().find(|peer| Some(peer.name) == options.instead.as_deref()) {
        Some(peer) => (peer.program)(&place)?,
        None => adapters::quickset::program()?,
    };
    let wanted = MatrixWanted {
        ours,
        quick: options.quick,
        seed: options.seed,
        cases: cases.clone(),
        peers: PEERS.iter().filter(|p| peer(p.name)).collect(),
        missing: options
            .missing
            .iter()
            .filter_map(|missing| missing.split_once('='))
            .map(|(name, why)| (name.to_owned(), why.to_owned()))
            .collect(),
        place,
        logs: std::path::absolute(options.out.join("logs"))?,
    };
    let cells = if cases.is_empty() { Vec::new() } else { matrix::play(&wanted)? };
    let report = MatrixReport { seed: options.seed, quick: options.quick, cells, finer };
    report.write(&cases, &options.out)?;
    println!();
    if !report.cells.is_empty() {
        println!("{}", report.table(&cases));
    }
    tell_failures(options, &report);
    println!("the page: {}", options.out.join("interop.html").display());
    println!("{}", report.counts());
    // A peer that nobody named may be missing; of one that somebody did, nothing was shown.
    let absent = report.absent(&options.peers);
    if !absent.is_empty() {
        bail!("not here, though asked for: {}", absent.join(", "));
    }
    Ok(report.failures() == 0)
}

fn tell_failures(options: &InteropOptions, report: &MatrixReport) {
    let quick = if options.quick { " --quick" } else { "" };
    for finer in &report.finer {
        if let Some(why) = &finer.failure {
            let (case, seed) = (&finer.case, options.seed);
            println!("{case}, our {}: {why}", finer.ours);
            println!("    again: cargo xtask interop{quick} --peer quinn --case {case} --seed {seed}\n");
        }
    }
    for row in &report.cells {
        if let CellOutcome::Fail { .. } = row.outcome {
            println!("{}, {}, our {}: {}", row.peer, row.case, row.ours, matrix::report::words(&row.outcome));
            let (peer, case, seed) = (&row.peer, &row.case, options.seed);
            println!("    again: cargo xtask interop{quick} --peer {peer} --case {case} --seed {seed}\n");
        }
    }
}

/// The cases with quinn in this process.
fn finer(options: &InteropOptions, chosen: &dyn Fn(&str) -> bool) -> Vec<Finer> {
    let ways = [
        (InteropStack::Quinn, InteropStack::Quickset, "server"),
        (InteropStack::Quickset, InteropStack::Quinn, "client"),
    ];
    println!("Finer cases, with quinn in one process\n{:<14} {:<22} our client", "", "our server");
    let mut all = Vec::new();
    for case in CASES.iter().filter(|case| chosen(case.name)) {
        let mut cells = Vec::new();
        for (client, server, ours) in ways {
            let pair = InteropPair { client, server, quick: options.quick, seed: options.seed };
            let start = Instant::now();
            let failure = alone(case, pair).err().map(|error| format!("{error:#}"));
            let seconds = start.elapsed().as_secs_f64();
            cells.push(format!("{} {seconds:>7.2} s", if failure.is_none() { "pass" } else { "FAIL" }));
            all.push(Finer { case: case.name.into(), ours, seconds, failure });
        }
        println!("{:<14} {:<22} {}", case.name, cells[0], cells[1]);
    }
    all
}

/// Runs a case in a runtime of its own, so that nothing of it is left when it is over.
fn alone(case: &'static InteropCase, pair: InteropPair) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let panics = PANICS.load(Relaxed);
    let limit = if pair.quick { QUICK_LIMIT } else { LIMIT };
    let result = runtime.block_on(async {
        let task = tokio::spawn((case.run)(pair));
        match tokio::time::timeout(limit, task).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(anyhow!("it panicked: {panic}")),
            Err(_) => Err(anyhow!("not over after {} s", limit.as_secs())),
        }
    });
    runtime.shutdown_background();
    result?;
    // In a task of a stack, that is, of which the case heard nothing.
    ensure!(PANICS.load(Relaxed) == panics, "something panicked: what it said is above");
    Ok(())
}

/// Counts the panics of all threads.
fn count_panics() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Relaxed);
        hook(panic);
    }));
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// How long a case may take.
const QUICK_LIMIT: Duration = Duration::from_secs(90);
const LIMIT: Duration = Duration::from_secs(300);
