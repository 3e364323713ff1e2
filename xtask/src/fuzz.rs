//! Fuzzing on a stable toolchain: the targets of the workspace `fuzz/`, each for some seconds.

use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};

use crate::run::{Outcome, cargo_beside, output, run};
use crate::tools::cargo_with;

/// Seconds per target within `cargo xtask test`: all of them take about two minutes.
const SHORT: u64 = 6;

pub(crate) fn command(args: &[String]) -> Result<()> {
    let (mut only, mut seconds) = (None, 60);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--seconds" {
            let n = rest.next().context("--seconds needs a number")?;
            seconds = n.parse().with_context(|| format!("{n:?} is not a number of seconds"))?;
        } else if arg.starts_with('-') || only.is_some() {
            bail!("{arg:?} is not understood; usage: cargo xtask fuzz [TARGET] [--seconds N]");
        } else {
            only = Some(arg.clone());
        }
    }
    if !Path::new("fuzz/Cargo.toml").is_file() {
        bail!("there is no folder fuzz/ with targets");
    }
    let mut targets = targets()?;
    if let Some(only) = only {
        if !targets.contains(&only) {
            bail!("there is no target {only:?}; the targets are {}", targets.join(", "));
        }
        targets = vec![only];
    }
    fuzz(&targets, seconds)
}

/// The step of `cargo xtask test`: a short run of each target.
pub(crate) fn short() -> Result<Outcome> {
    if !Path::new("fuzz/Cargo.toml").is_file() {
        return Ok(Outcome::Skipped("there is no folder fuzz/".into()));
    }
    lint()?;
    fuzz(&targets()?, SHORT)?;
    Ok(Outcome::Done)
}

/// What the steps fmt and clippy are for the workspace of the root; what makes the seeds is only built here.
fn lint() -> Result<()> {
    let manifest = ["--manifest-path", "fuzz/Cargo.toml"];
    run(cargo_beside().args(["fmt", "--check"]).args(manifest))?;
    run(cargo_beside().args(["clippy", "--all-targets"]).args(manifest).args(["--", "-D", "warnings"]))
}

/// `cargo fuzz`.
fn cargo_fuzz() -> Result<Command> {
    let mut command = cargo_with("cargo-fuzz", "^0.13")?;
    command.arg("fuzz");
    Ok(command)
}

fn targets() -> Result<Vec<String>> {
    let list = output(cargo_fuzz()?.arg("list"))?;
    Ok(list.lines().map(str::to_owned).collect())
}

/// Builds them, and runs as many at a time as there are cores; what one prints comes in one piece.
fn fuzz(targets: &[String], seconds: u64) -> Result<()> {
    let one = if let [only] = targets { Some(only) } else { None };
    run(unstable()?.arg("build").args(one))?;
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let runs = || -> Result<()> {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            fuzz_one(target, seconds)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores.min(targets.len())).map(|_| scope.spawn(runs)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    println!("{} targets, {seconds} s each, found nothing", targets.len());
    Ok(())
}

fn fuzz_one(target: &str, seconds: u64) -> Result<()> {
    // What is found goes into the first folder; the seeds that are kept stay as they are.
    let found = format!("fuzz/target/corpus/{target}");
    std::fs::create_dir_all(&found)?;
    let out = unstable()?
        .args(["run", target, &found, &format!("fuzz/corpus/{target}"), "--"])
        .arg(format!("-max_total_time={seconds}"))
        // Unless told, an input may take twenty minutes, and two gigabytes at once.
        .args(["-timeout=20", "-malloc_limit_mb=256"])
        .output()
        .context("cargo-fuzz cannot be started")?;
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        bail!("{said}\nthe target {target} has found something ({})", out.status);
    }
    let done = said.lines().rev().find(|line| line.starts_with("Done ")).unwrap_or("ran");
    println!("{target}: {done}");
    Ok(())
}

/// The sanitizer and coverage flags are unstable; the variable allows them on a stable compiler.
fn unstable() -> Result<Command> {
    let mut command = cargo_fuzz()?;
    command.env("RUSTC_BOOTSTRAP", "1");
    Ok(command)
}
