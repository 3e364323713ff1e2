//! `cargo xtask flood`: `http serve` and `desktop serve` under a flood of first packets, and who gets in
//! meanwhile.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::run::{StepOutcome, cargo, on_path, root, run};

/// Runs the test of crates/desktop/tests/flood with the command as it is shipped, or another one to compare
/// with.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let plan = FloodPlan::read(args)?;
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    let binary = if let Some(binary) = &plan.binary {
        binary.canonicalize().with_context(|| format!("{} is not there", binary.display()))?
    } else {
        run(cargo().args(["build", "--locked", "--release", "-p", "quickset-cli"]))?;
        root().join("target/release/quickset")
    };
    plan.run(&binary)
}

/// The step of `cargo xtask test`: a small flood, which nobody may be kept out by for long. How long it takes
/// exactly is for a machine that does nothing else.
pub(crate) fn step() -> Result<StepOutcome> {
    if let Some(missing) = missing() {
        return Ok(StepOutcome::Skipped(missing));
    }
    run(cargo().args(["build", "--locked", "-p", "quickset-cli"]))?;
    let plan = FloodPlan { rate: 2000, tries: 5, ms: 2900, binary: None };
    plan.run(&root().join("target/debug/quickset")).map(|()| StepOutcome::Done)
}

#[derive(Debug, PartialEq, Eq)]
struct FloodPlan {
    rate: u32,
    tries: u32,
    ms: u32,
    binary: Option<PathBuf>,
}

impl FloodPlan {
    fn read(args: &[String]) -> Result<Self> {
        let mut plan = Self { rate: 50_000, tries: 20, ms: 150, binary: None };
        for pair in args.chunks(2) {
            let [flag, value] = pair else { bail!("{} needs a value", pair[0]) };
            let number = |most: u32| match value.parse() {
                Ok(number) if (1..=most).contains(&number) => Ok(number),
                _ => bail!("{flag}: write a number, 1 to {most}"),
            };
            match flag.as_str() {
                "--rate" => plan.rate = number(200_000)?,
                "--tries" => plan.tries = number(100)?,
                "--ms" => plan.ms = number(2900)?,
                "--binary" => plan.binary = Some(value.into()),
                _ => bail!("write flood [--rate N] [--tries N] [--ms N] [--binary FILE]"),
            }
        }
        Ok(plan)
    }

    fn run(&self, binary: &std::path::Path) -> Result<()> {
        run(cargo()
            .args(["test", "--locked", "-p", "quickset-desktop", "--test", "flood", "--"])
            .args(["--ignored", "--nocapture"])
            .env("QUICKSET_FLOOD_BINARY", binary)
            .env("QUICKSET_FLOOD_RATE", self.rate.to_string())
            .env("QUICKSET_FLOOD_TRIES", self.tries.to_string())
            .env("QUICKSET_FLOOD_MS", self.ms.to_string()))
    }
}

/// What this machine has not.
fn missing() -> Option<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if !cfg!(target_os = "linux") || !on_path("taskset") {
        return Some("it needs Linux, and taskset to give the flood a core of its own".into());
    }
    (cores < 2).then(|| "it needs two cores, one of them for the flood".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_errors() {
        let read =
            |words: &[&str]| FloodPlan::read(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        for slip in
            [&["--rate"][..], &["--rate", "0"], &["--tries", "many"], &["--ms", "3000"], &["fast", "1"]]
        {
            assert!(read(slip).is_err(), "{slip:?}");
        }
        let plan = FloodPlan { rate: 100, tries: 3, ms: 150, binary: Some("a".into()) };
        assert_eq!(read(&["--binary", "a", "--tries", "3", "--rate", "100"]).unwrap(), plan);
    }
}
