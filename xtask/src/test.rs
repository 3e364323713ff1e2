//! `cargo xtask test`: everything that must hold before a change is taken in, in order, cheap steps first.

use std::cmp::Reverse;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::run::{StepOutcome, cargo, output, run};
use crate::{
    abr, again, arrows, beside, c, deny, disk, e2e, features, flood, fuzz, languages, msrv, needs, python,
    sizes, sound, spec, traces, web,
};

struct TestStep {
    name: &'static str,
    run: fn() -> Result<StepOutcome>,
}

/// Steps in which programs of others wait for each other by the clock: see [`again`]. Tests of Rust have
/// their second try one by one.
const BY_THE_CLOCK: &[&str] = &["interop", "peers", "python", "languages", "sound", "flood"];

/// Runs a step, and one that goes by the clock once more when it has failed.
fn tried(step: &TestStep) -> Result<StepOutcome> {
    let first = (step.run)();
    match first {
        Err(error) if BY_THE_CLOCK.contains(&step.name) => {
            println!("\n{error:#}\nOnce more: {}", step.name);
            (step.run)().map(|outcome| match outcome {
                StepOutcome::Done => StepOutcome::Again(format!("{error:#}")),
                other => other,
            })
        }
        other => other,
    }
}

/// One line a step.
const STEPS: &[TestStep] = &[
    TestStep { name: "needs", run: needs::step },
    TestStep { name: "fmt", run: fmt },
    TestStep { name: "arrows", run: || arrows::command(&[]).map(|()| StepOutcome::Done) },
    TestStep { name: "sizes", run: || sizes::command(&[]).map(|()| StepOutcome::Done) },
    TestStep { name: "spec", run: || spec::command(&[]).map(|()| StepOutcome::Done) },
    TestStep { name: "deny", run: deny::step },
    TestStep { name: "clippy", run: clippy },
    TestStep { name: "traces", run: traces::step },
    TestStep { name: "tests", run: tests },
    TestStep { name: "parquet", run: parquet },
    TestStep { name: "http", run: http },
    TestStep { name: "c", run: c::step },
    TestStep { name: "features", run: features::step },
    TestStep { name: "examples", run: examples },
    TestStep { name: "no-std", run: no_std },
    TestStep { name: "seam", run: seam },
    TestStep { name: "docs", run: docs },
    TestStep { name: "package", run: package },
    TestStep { name: "msrv", run: msrv::step },
    TestStep { name: "fuzz", run: fuzz::short },
    TestStep { name: "interop", run: beside::interop_short },
    TestStep { name: "peers", run: beside::peers },
    TestStep { name: "abr", run: abr::step },
    TestStep { name: "python", run: python::step },
    TestStep { name: "languages", run: languages::step },
    TestStep { name: "page", run: web::step },
    TestStep { name: "e2e", run: e2e::step },
    TestStep { name: "sound", run: sound::step },
    TestStep { name: "flood", run: flood::step },
];

pub(crate) fn command(names: &[String]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|n| !STEPS.iter().any(|s| s.name == **n)) {
        let known: Vec<&str> = STEPS.iter().map(|s| s.name).collect();
        bail!("there is no step {unknown:?}; the steps are {}", known.join(", "));
    }
    let chosen: Vec<&TestStep> =
        STEPS.iter().filter(|s| names.is_empty() || names.iter().any(|n| n == s.name)).collect();
    if names.is_empty() {
        if let Some(advice) = disk::short_of(WHOLE) {
            println!("This may not end well: {advice}");
        }
    }
    let (start, mut passed, mut skipped) = (Instant::now(), Vec::new(), Vec::new());
    let (mut failed, mut again) = (Vec::new(), Vec::new());
    let mut full = None;
    for (i, step) in chosen.iter().enumerate() {
        println!("\n=== {} ({} of {})", step.name, i + 1, chosen.len());
        let since = Instant::now();
        match tried(step) {
            Ok(outcome @ (StepOutcome::Done | StepOutcome::Again(_))) => {
                let took = since.elapsed();
                println!("--- {}: passed in {}", step.name, spoken(took));
                passed.push((step.name, took));
                if let StepOutcome::Again(what) = outcome {
                    again.push(format!("{}: {what}", step.name));
                }
            }
            Ok(StepOutcome::Skipped(reason)) => {
                println!("--- {}: SKIPPED, {reason}", step.name);
                skipped.push(step.name);
            }
            Err(error) => {
                // The steps behind it may hold more faults, which are better seen in the same run.
                println!("--- {}: FAILED after {}\n{error:#}", step.name, spoken(since.elapsed()));
                failed.push((step.name, format!("{error:#}")));
                full = disk::short_of(FULL);
                if full.is_some() {
                    break;
                }
            }
        }
    }
    let skips = if skipped.is_empty() { String::new() } else { format!(", skipped {}", skipped.join(", ")) };
    let steps = if passed.len() == 1 { "step" } else { "steps" };
    println!("\n{} {steps} passed{skips}, in {}", passed.len(), spoken(start.elapsed()));
    // Where the time goes.
    passed.sort_by_key(|(_, took)| Reverse(*took));
    for (name, took) in passed.iter().filter(|(_, took)| took.as_secs() > 0) {
        println!("{name:>10}  {}", spoken(*took));
    }
    if !again.is_empty() {
        println!("\nPassed only when tried again, which is a fault of its own:");
        for what in &again {
            println!("  {what}");
        }
    }
    if !failed.is_empty() {
        for (name, error) in &failed {
            println!("\n--- {name}: FAILED\n{error}");
        }
        if let Some(advice) = full {
            println!("\nThe disk is full, and no later step was tried: {advice}");
        }
        let names = failed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
        bail!("failed: {names}\nRun just what failed with `cargo xtask test {names}`.");
    }
    Ok(())
}

/// Bytes that a first run writes below the target folder, as README.md says, and some to spare.
const WHOLE: u64 = 30 * disk::GB;

/// With less room than this nothing can be built.
const FULL: u64 = disk::GB;

pub(crate) fn lint(_args: &[String]) -> Result<()> {
    fmt()?;
    clippy()?;
    Ok(())
}

fn fmt() -> Result<StepOutcome> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    Ok(StepOutcome::Done)
}

fn clippy() -> Result<StepOutcome> {
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    Ok(StepOutcome::Done)
}

fn tests() -> Result<StepOutcome> {
    // The slow ones wait for sockets and deadlines, and take a fifth of a processor each.
    let threads = format!("--test-threads={}", 3 * available_parallelism()?.get());
    // Without a list of targets cargo runs unit tests, tests/, examples' builds and doctests.
    again::test(&["--workspace"], &[&threads], &[])
}

/// This feature and the next no default build has.
fn parquet() -> Result<StepOutcome> {
    let package = ["--package", "quickset-lab", "--features", "parquet", "--lib", "--locked"];
    run(cargo().arg("clippy").args(package).args(["--", "-D", "warnings"]))?;
    run(cargo().arg("test").args(package).args(["--", "results::"]))?;
    Ok(StepOutcome::Done)
}

fn http() -> Result<StepOutcome> {
    let features = ["--features", "http", "--locked"];
    run(cargo()
        .args(["clippy", "-p", "quickset", "-p", "quickset-h3"])
        .args(features)
        .args(["--", "-D", "warnings"]))?;
    run(cargo().args(["test", "-p", "quickset-h3", "--lib"]).args(features).args(["--", "http_types::"]))?;
    Ok(StepOutcome::Done)
}

/// Crates that need an allocator at most are checked for a processor without a system.
fn no_std() -> Result<StepOutcome> {
    let add = std::process::Command::new("rustup").args(["target", "add", BARE_METAL]).output();
    if !add.is_ok_and(|output| output.status.success()) {
        return Ok(StepOutcome::Skipped(format!("`rustup target add {BARE_METAL}` did not succeed")));
    }
    for package in NO_STD {
        let check =
            ["check", "--package", package, "--no-default-features", "--target", BARE_METAL, "--locked"];
        run(cargo().args(check))?;
    }
    Ok(StepOutcome::Done)
}

const NO_STD: &[&str] = &["quickset-base", "quickset-wire", "quickset-fec", "quickset-sched"];

/// A Cortex-M4: whatever uses the standard library does not compile for it.
const BARE_METAL: &str = "thumbv7em-none-eabi";

/// The driver is built, and drives endpoints in other runtimes, without tokio.
fn seam() -> Result<StepOutcome> {
    let alone = ["--package", "quickset-net", "--no-default-features", "--locked"];
    let tree = ["--edges", "normal", "--target", "all", "--invert", "tokio"];
    let who = output(cargo().arg("tree").args(alone).args(tree))?;
    if !who.is_empty() {
        bail!("without its feature `tokio`, quickset-net depends on it:\n{who}");
    }
    run(cargo().arg("clippy").args(alone).args(["--all-targets", "--no-deps", "--", "-D", "warnings"]))?;
    run(cargo().arg("test").args(alone).args(["--test", "seam"]))?;
    Ok(StepOutcome::Done)
}

/// What a newcomer copies has to run; each ends by itself.
fn examples() -> Result<StepOutcome> {
    for (package, example) in EXAMPLES {
        run(cargo().args(["run", "--quiet", "--locked", "--package", package, "--example", example]))?;
    }
    Ok(StepOutcome::Done)
}

const EXAMPLES: &[(&str, &str)] = &[
    ("quickset", "conference"),
    ("quickset", "echo"),
    ("quickset", "messages"),
    ("quickset", "protected"),
    ("quickset", "shout"),
    ("quickset", "transfer"),
    ("quickset-sim", "cross"),
    ("quickset-sim", "ping"),
    ("quickset-quic", "controller"),
    ("quickset-quic", "simulated"),
    ("quickset-fec", "erasure"),
    ("quickset-sched", "shares"),
    ("quickset-abr", "session"),
];

/// Those that only the step of the tests builds, and why.
#[cfg(test)]
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("quickset-fec", "instructions", "is counted: cargo xtask platforms"),
    ("quickset-ffi", "c", "is in C; the tests of the crate compile and run it"),
    ("quickset", "languages", "is one of two sides: cargo xtask languages"),
    ("quickset", "webtransport", "serves until it is interrupted; tests/webtransport.rs has its parts"),
    ("quickset-h3", "qpack", "is asked by tests/data/qpack_check.py"),
    ("quickset-lab", "lateness", "measures the machine"),
    ("quickset-lab", "scoped_fences", "plays minutes of recordings; its tests run with the others"),
    ("quickset-lab", "screenshot", "makes a picture for the documentation"),
    ("quickset-quic", "shared", "measures, optimized, for minutes"),
];

fn docs() -> Result<StepOutcome> {
    crate::pages::command(&[])?;
    // Only libraries: the face and the command share the name `quickset`.
    run(cargo().env("RUSTDOCFLAGS", "-D warnings").args([
        "doc",
        "--workspace",
        "--lib",
        "--no-deps",
        "--locked",
    ]))?;
    Ok(StepOutcome::Done)
}

/// What a registry would get can be made: each crate says by which version it has the others.
fn package() -> Result<StepOutcome> {
    run(packages().args(["--quiet", "--no-verify"]))?;
    Ok(StepOutcome::Done)
}

/// `cargo xtask package`: the same, and each crate is built from just the files that it would have there.
pub(crate) fn packaged(_args: &[String]) -> Result<()> {
    run(&mut packages())
}

/// With what is not committed yet.
fn packages() -> std::process::Command {
    let mut command = cargo();
    command.args(["package", "--workspace", "--exclude", "xtask", "--locked", "--allow-dirty"]);
    command
}

fn spoken(d: Duration) -> String {
    let (min, s) = (d.as_secs() / 60, d.as_secs() % 60);
    if min > 0 { format!("{min} min {s} s") } else { format!("{:.1} s", d.as_secs_f64()) }
}

#[cfg(test)]
mod tests_of_steps {
    use super::*;
    use crate::run::root;

    #[test]
    fn elapsed_time_reads_well() {
        assert_eq!(spoken(Duration::from_millis(61_900)), "1 min 1 s");
        assert_eq!(spoken(Duration::from_millis(1_250)), "1.2 s");
    }

    #[test]
    fn an_unknown_step_is_named() {
        let error = command(&["clipy".into()]).expect_err("no such step").to_string();
        assert!(error.contains("clipy") && error.contains("clippy"), "{error}");
    }

    #[test]
    fn crates_without_a_system_say_so() {
        for package in NO_STD {
            let name = package.strip_prefix("quickset-").expect("it is one of ours");
            let lib = std::fs::read_to_string(root().join(format!("crates/{name}/src/lib.rs")))
                .expect("there is one");
            assert!(
                lib.lines().any(|l| l.starts_with("#![cfg_attr(") && l.ends_with(", no_std)]")),
                "{package}"
            );
        }
    }

    #[test]
    fn every_example_is_run_or_has_a_reason() {
        let mut there = Vec::new();
        for entry in std::fs::read_dir(root().join("crates")).expect("there are crates") {
            let folder = entry.expect("it can be read").path();
            let name = folder.file_name().expect("it has a name").to_string_lossy().into_owned();
            let package = if name == "quickset" { name } else { format!("quickset-{name}") };
            let Ok(examples) = std::fs::read_dir(folder.join("examples")) else { continue };
            for example in examples {
                let path = example.expect("it can be read").path();
                let stem = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
                there.push((package.clone(), stem));
            }
        }
        there.sort();
        let run = EXAMPLES.iter().copied();
        let named = run.chain(NOT_RUN.iter().map(|(package, example, _)| (*package, *example)));
        let mut named: Vec<_> = named.map(|(p, e)| (p.to_owned(), e.to_owned())).collect();
        named.sort();
        assert_eq!(there, named);
        assert!(NOT_RUN.iter().all(|(.., why)| !why.is_empty()));
    }
}
