//! Quickset with quinn: each case runs with quinn's client and our server, and with our client and quinn's
//! server, through a relay that delays, loses and corrupts as the case wants.
//!
//! Losses and contents come from `--seed`. What may be waited for is waited for; every case ends in time or fails.

mod cases;
mod pattern;
mod relay;
mod stack;
mod tls;
mod world;

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::Parser;

use crate::cases::{CASES, Case};
use crate::stack::Stack;
use crate::world::Pair;

/// Interoperation with quinn, both ways round.
#[derive(Debug, Parser)]
#[command(name = "interop", after_help = "Example: interop --quick --case keyupdate")]
struct Options {
    /// Move 5 MB instead of 100 MB where a case moves much: less than a minute in all.
    #[arg(long)]
    quick: bool,
    /// Run only this case; may be given several times.
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// List the cases.
    #[arg(long)]
    list: bool,
    /// What losses and contents are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let options = Options::parse();
    if options.list {
        for case in CASES {
            println!("{:<14} {}", case.name, case.about);
        }
        return;
    }
    std::process::exit(match run(&options) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            eprintln!("interop: {error:#}");
            2
        }
    });
}

/// True when all passed.
fn run(options: &Options) -> Result<bool> {
    if let Some(unknown) = options.cases.iter().find(|name| !CASES.iter().any(|case| case.name == **name)) {
        let known: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        bail!("there is no case {unknown:?}; the cases are {}", known.join(", "));
    }
    let chosen =
        CASES.iter().filter(|case| options.cases.is_empty() || options.cases.iter().any(|n| n == case.name));
    let ways = [(Stack::Quinn, Stack::Quickset), (Stack::Quickset, Stack::Quinn)];
    println!("{:<14} {:<22} quickset → quinn", "client → server", "quinn → quickset");
    let (mut passed, mut failures) = (0, Vec::new());
    for case in chosen {
        let mut cells = Vec::new();
        for (client, server) in ways {
            let pair = Pair { client, server, quick: options.quick, seed: options.seed };
            let start = Instant::now();
            let result = alone(case, pair);
            let seconds = start.elapsed().as_secs_f64();
            match result {
                Ok(()) => {
                    passed += 1;
                    cells.push(format!("pass {seconds:>7.2} s"));
                }
                Err(error) => {
                    cells.push(format!("FAIL {seconds:>7.2} s"));
                    let quick = if options.quick { " --quick" } else { "" };
                    failures.push(format!(
                        "{}, {client} → {server}: {error:#}\n    again: cargo xtask interop{quick} --case {} --seed {}",
                        case.name, case.name, options.seed,
                    ));
                }
            }
        }
        println!("{:<15} {:<22} {}", case.name, cells[0], cells[1]);
    }
    println!();
    for failure in &failures {
        println!("{failure}\n");
    }
    println!("{passed} passed, {} failed", failures.len());
    Ok(failures.is_empty())
}

/// Runs a case in a runtime of its own, so that nothing of it is left when it is over.
fn alone(case: &'static Case, pair: Pair) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
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
    result
}

/// How long a case may take.
const QUICK_LIMIT: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(300);
