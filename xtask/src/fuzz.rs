//! Fuzzing on a stable toolchain: the targets of the workspace `fuzz/`, each for some seconds.

use std::ffi::OsStr;
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};

use crate::run::{Outcome, cargo_beside, output, run};
use crate::tools::cargo_with;

/// Seconds per target within `cargo xtask test`: all of them take about two minutes.
const SHORT: u64 = 6;

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

/// Runs each target, which begins with all of the corpus: what it has is tried each time.
fn fuzz(targets: &[String], seconds: u64) -> Result<()> {
    each(targets, |target| {
        // What is found goes into the first folder; the corpus that is kept stays as it is.
        let said =
            libfuzzer(target, &[&found(target), &kept(target)], &[format!("-max_total_time={seconds}")])?;
        let done = said.lines().rev().find(|line| line.starts_with("Done ")).unwrap_or("ran");
        println!("{target}: {done}");
        Ok(())
    })?;
    println!("{} targets, {seconds} s each, found nothing", targets.len());
    Ok(())
}

/// Makes the corpora anew: the seeds, and of all that was found here and before as few inputs as reach what any of it reaches.
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
    libfuzzer(target, &[&kept, &found], &how)?;
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

/// Builds targets, and does something with as many at a time as there are cores; what one prints comes in one piece.
fn each(targets: &[String], act: impl Fn(&String) -> Result<()> + Sync) -> Result<()> {
    let one = if let [only] = targets { Some(only) } else { None };
    run(unstable()?.arg("build").args(one))?;
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let acts = || -> Result<()> {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            std::fs::create_dir_all(found(target))?;
            act(target)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores.min(targets.len())).map(|_| scope.spawn(acts)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}

/// Runs a target with these folders and options; what it says.
fn libfuzzer(target: &str, folders: &[&String], options: &[String]) -> Result<String> {
    let out = unstable()?
        .args(["run", target])
        .args(folders)
        .arg("--")
        .args(options)
        // Unless told, an input may take twenty minutes, and two gigabytes at once.
        .args(["-timeout=20", "-malloc_limit_mb=256"])
        .output()
        .context("cargo-fuzz cannot be started")?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        bail!("{said}\nthe target {target} has found something ({})", out.status);
    }
    Ok(said)
}

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
        let root = crate::run::root();
        let corpus = root.join("fuzz/corpus");
        assert!(folder_bytes(&corpus).unwrap() <= MAX_CORPUS);
        let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        let targets: Vec<&str> =
            manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")).collect();
        assert!(targets.len() > 20);
        for target in targets {
            let target = target.trim_end_matches(".rs\"");
            let inputs =
                std::fs::read_dir(corpus.join(target)).unwrap_or_else(|error| panic!("{target}: {error}"));
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
