//! Fuzzing on a stable toolchain: the targets of the workspace `fuzz/`, each for some seconds.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::run::{Outcome, cargo, output, run};
use crate::test::has_subcommand;

/// Seconds per target within `cargo xtask test`: all of them take about two minutes.
const SHORT: u64 = 7;

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
    if !has_subcommand("fuzz") {
        run(cargo().args(["install", "cargo-fuzz", "--locked"]))?;
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

/// A short run of each target, if cargo-fuzz is there: `test` does not install it, since that takes minutes.
pub(crate) fn short() -> Result<Outcome> {
    if !Path::new("fuzz/Cargo.toml").is_file() {
        return Ok(Outcome::Skipped("there is no folder fuzz/".into()));
    }
    if !has_subcommand("fuzz") {
        return Ok(Outcome::Skipped("cargo-fuzz is missing; `cargo xtask fuzz` installs it".into()));
    }
    fuzz(&targets()?, SHORT)?;
    Ok(Outcome::Done)
}

fn targets() -> Result<Vec<String>> {
    let list = output(cargo().args(["fuzz", "list"]))?;
    Ok(list.lines().map(str::to_owned).collect())
}

fn fuzz(targets: &[String], seconds: u64) -> Result<()> {
    for target in targets {
        // The sanitizer and coverage flags are unstable; the variable allows them on a stable compiler.
        // What is found goes into the first folder; the seeds that are kept stay as they are.
        let found = format!("fuzz/target/corpus/{target}");
        std::fs::create_dir_all(&found)?;
        run(cargo().env("RUSTC_BOOTSTRAP", "1").args([
            "fuzz",
            "run",
            target,
            &found,
            &format!("fuzz/corpus/{target}"),
            "--",
            &format!("-max_total_time={seconds}"),
        ]))?;
    }
    println!("{} targets, {seconds} s each, found nothing", targets.len());
    Ok(())
}
