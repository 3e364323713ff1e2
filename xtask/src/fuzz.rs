//! Fuzzing on a stable toolchain: the targets of the workspace `fuzz/`, each for some seconds.

use std::ffi::OsStr;
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};

use crate::mutate;
use crate::run::{StepOutcome, cargo_beside, output, root, run};
use crate::tools::cargo_with;

/// Inputs per target within `cargo xtask test` beside its corpus.
const BLIND: u64 = 3000;

/// Bytes of all corpora together.
const MAX_CORPUS: u64 = 3_000_000;

pub(crate) fn command(args: &[String]) -> Result<()> {
    let (mut only, mut seconds, mut minimise) = (None, 60, false);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--minimise" {
            minimise = true;
        } else if arg == "--seconds" {
            let n = rest.next().context("--seconds needs a number")?;
            seconds = n.parse().with_context(|| format!("{n:?} is not a number of seconds"))?;
        } else if arg.starts_with('-') || only.is_some() {
            bail!("{arg:?} is not understood; usage: cargo xtask fuzz [TARGET] [--seconds N | --minimise]");
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
    if minimise { minimise_all(&targets) } else { fuzz(&targets, seconds) }
}

/// The step of `cargo xtask test`: each target plays its corpus, and inputs that are made of it blindly, the
/// same each time.
///
/// It is built as tests are, with their dependencies. What the command has beside, the sanitizer and the
/// search by what code is reached, takes a compilation of everything with it.
pub(crate) fn short() -> Result<StepOutcome> {
    if !Path::new("fuzz/Cargo.toml").is_file() {
        return Ok(StepOutcome::Skipped("there is no folder fuzz/".into()));
    }
    lint()?;
    let targets = targets_of(&std::fs::read_to_string("fuzz/Cargo.toml")?);
    run(cargo_beside().args(["build", "--bins", "--manifest-path", "fuzz/Cargo.toml"]))?;
    for_each(&targets, |target| {
        // Where cargo-fuzz has them.
        let artifacts = format!("fuzz/artifacts/{target}/");
        std::fs::create_dir_all(&artifacts)?;
        let blind = format!("fuzz/target/blind/{target}");
        mutate::fill(Path::new(&blind), Path::new(&kept(target)), BLIND)?;
        let mut command = Command::new(root().join("target/debug").join(target));
        command.args([found(target), kept(target), blind, format!("-artifact_prefix={artifacts}")]);
        // What is in the folders, and no more.
        told(target, &libfuzzer(target, command.arg("-runs=0").args(LIMITS))?);
        Ok(())
    })?;
    println!("{} targets found nothing in their corpora, nor in {BLIND} inputs beside", targets.len());
    Ok(StepOutcome::Done)
}

/// The targets that a manifest has.
fn targets_of(manifest: &str) -> Vec<String> {
    let paths = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"));
    paths.filter_map(|path| path.strip_suffix(".rs\"")).map(str::to_owned).collect()
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

/// Runs each target, which begins with all of the corpus: what it has is tried each time.
fn fuzz(targets: &[String], seconds: u64) -> Result<()> {
    each(targets, |target| {
        // What is found goes into the first folder; the corpus that is kept stays as it is.
        let said =
            instrumented(target, &[&found(target), &kept(target)], &[format!("-max_total_time={seconds}")])?;
        told(target, &said);
        Ok(())
    })?;
    println!("{} targets, {seconds} s each, found nothing", targets.len());
    Ok(())
}

/// Makes the corpora anew: the seeds, and of all that was found here and before as few inputs as reach what
/// any of it reaches.
fn minimise_all(targets: &[String]) -> Result<()> {
    each(targets, minimise)?;
    let all = folder_bytes(Path::new("fuzz/corpus"))?;
    println!("{} kB in fuzz/corpus", all / 1000);
    if all > MAX_CORPUS {
        bail!("that is more than {} kB, which a clone should not have to carry", MAX_CORPUS / 1000);
    }
    Ok(())
}

fn minimise(target: &String) -> Result<()> {
    let (kept, found) = (kept(target), found(target));
    // What was found before is one thing more that was found.
    for entry in std::fs::read_dir(&kept).with_context(|| format!("{kept} cannot be read"))? {
        let path = entry?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if is_found(name) {
            std::fs::copy(&path, Path::new(&found).join(name))?;
            std::fs::remove_file(&path)?;
        }
    }
    // By what is reached, not by how often: that would be ten times as many.
    let how = ["-set_cover_merge=1", "-use_counters=0"].map(str::to_owned);
    instrumented(target, &[&kept, &found], &how)?;
    let count = std::fs::read_dir(&kept)?.count();
    println!("{target}: {count} inputs, {} bytes", folder_bytes(Path::new(&kept))?);
    Ok(())
}

/// What libFuzzer has found is named by the sum of its bytes; seeds have names that say what they are.
fn is_found(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Of all files below.
fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}

/// The corpus of a target, which is part of the repository.
fn kept(target: &str) -> String {
    format!("fuzz/corpus/{target}")
}

/// What was found on this machine.
fn found(target: &str) -> String {
    format!("fuzz/target/corpus/{target}")
}

/// Builds targets to be fuzzed, and does something with each.
fn each(targets: &[String], act: impl Fn(&String) -> Result<()> + Sync) -> Result<()> {
    let one = if let [only] = targets { Some(only) } else { None };
    run(unstable()?.arg("build").args(one))?;
    for_each(targets, act)
}

/// Does something with as many targets at a time as there are cores; what one prints comes in one piece.
fn for_each(targets: &[String], act: impl Fn(&String) -> Result<()> + Sync) -> Result<()> {
    for target in targets {
        std::fs::create_dir_all(found(target))?;
    }
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let acts = || -> Result<()> {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            act(target)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores.min(targets.len())).map(|_| scope.spawn(acts)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}

/// Runs a target, with the sanitizer, on these folders and with these options; what it says.
fn instrumented(target: &str, folders: &[&String], options: &[String]) -> Result<String> {
    let mut command = unstable()?;
    command.args(["run", target]).args(folders).arg("--").args(options).args(LIMITS);
    libfuzzer(target, &mut command)
}

/// Runs a target; what it says, which is an error if it has found something.
fn libfuzzer(target: &str, command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("the target {target} cannot be started"))?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        bail!("{said}\nthe target {target} has found something ({})", out.status);
    }
    Ok(said)
}

/// Tells in a line what a target has done.
fn told(target: &str, said: &str) {
    println!("{target}: {}", said.lines().rev().find(|line| line.starts_with("Done ")).unwrap_or("ran"));
}

/// Unless told, an input may take twenty minutes, and two gigabytes at once.
const LIMITS: [&str; 2] = ["-timeout=20", "-malloc_limit_mb=256"];

/// The sanitizer and coverage flags are unstable; the variable allows them on a stable compiler.
fn unstable() -> Result<Command> {
    let mut command = cargo_fuzz()?;
    command.env("RUSTC_BOOTSTRAP", "1");
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inputs that each target begins with are small enough for every clone, and each has some.
    #[test]
    fn corpora_are_there_and_small() {
        let root = root();
        let corpus = root.join("fuzz/corpus");
        assert!(folder_bytes(&corpus).unwrap() <= MAX_CORPUS);
        let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        let targets = targets_of(&manifest);
        assert_eq!(targets.len(), std::fs::read_dir(root.join("fuzz/fuzz_targets")).unwrap().count());
        for target in targets {
            let inputs =
                std::fs::read_dir(corpus.join(&target)).unwrap_or_else(|error| panic!("{target}: {error}"));
            assert!(inputs.count() > 3, "{target} begins with next to nothing");
        }
    }

    #[test]
    fn what_was_found_is_told_from_seeds() {
        assert!(is_found("da39a3ee5e6b4b0d3255bfef95601890afd80709"));
        for seed in [
            "hostile",
            "rs_5_3",
            "da39a3ee5e6b4b0d3255bfef95601890afd8070",
            "staircase_overlap_of_two_blocks_of_forty_x",
        ] {
            assert!(!is_found(seed), "{seed}");
        }
    }
}
