//! Fuzzing on a stable toolchain: the targets of the workspace `fuzz/`, each for some seconds.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::run::{Outcome, cargo, output, run};
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
    run(cargo().args(["fmt", "--check"]).args(manifest))?;
    run(cargo().args(["clippy", "--all-targets"]).args(manifest).args(["--", "-D", "warnings"]))
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

fn fuzz(targets: &[String], seconds: u64) -> Result<()> {
    for target in targets {
        // The sanitizer and coverage flags are unstable; the variable allows them on a stable compiler.
        // What is found goes into the first folder; the seeds that are kept stay as they are.
        let found = format!("fuzz/target/corpus/{target}");
        std::fs::create_dir_all(&found)?;
        run(cargo_fuzz()?.env("RUSTC_BOOTSTRAP", "1").args([
            "run",
            target,
            &found,
            &format!("fuzz/corpus/{target}"),
            "--",
            &format!("-max_total_time={seconds}"),
            // Unless told, an input may take twenty minutes, and two gigabytes at once.
            "-timeout=20",
            "-malloc_limit_mb=256",
        ]))?;
    }
    println!("{} targets, {seconds} s each, found nothing", targets.len());
    Ok(())
}
