//! Tests that fail beside others get one more try by themselves.
//!
//! Some tests go by the real clock, between threads and sockets; on a machine that is busy for a moment one of
//! them may be late. Such a test is named at the end, and is to be mended: but it is no reason to refuse a
//! change that has nothing to do with it. What fails twice is broken.

use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail};

use crate::run::{StepOutcome, cargo, shown};

/// Runs `cargo test` with `args`, those for the tests being `harness`, and what failed once more.
pub(crate) fn test(args: &[&str], harness: &[&str], env: &[(&str, String)]) -> Result<StepOutcome> {
    let command = |args: &[&str]| {
        let mut command = cargo();
        command.args(["test", "--locked"]).args(args).arg("--").args(harness);
        command.envs(env.iter().map(|(name, value)| (name, value)));
        command
    };
    let first = Mutex::new(FailedTests::default());
    let run = heard(&mut command(&[args, &["--no-fail-fast"]].concat()), |line| {
        first.lock().expect("nobody panics here").hear(line);
    });
    let Err(error) = run else { return Ok(StepOutcome::Done) };
    let failed = first.into_inner().expect("nobody panics here");
    // It was not built, or has nothing to say of its tests.
    if failed.targets.is_empty() {
        return Err(error);
    }
    println!("\nOnce more, by themselves: {}", failed.spoken());
    let mut broken = Vec::new();
    for target in &failed.targets {
        let last = Mutex::new(VecDeque::new());
        let mut again = command(&target.split(' ').collect::<Vec<_>>());
        let run = heard(again.arg("--exact").args(&failed.names), |line| {
            let mut last = last.lock().expect("nobody panics here");
            last.push_back(line.to_owned());
            if last.len() > SHOWN_AGAIN {
                last.pop_front();
            }
        });
        if let Err(error) = run {
            let lines: Vec<String> = last.into_inner().expect("nobody panics here").into();
            broken.push(format!("{error}\n{}", lines.join("\n")));
        }
    }
    if broken.is_empty() {
        return Ok(StepOutcome::Again(failed.spoken()));
    }
    bail!("{}", broken.join("\n\n"));
}

/// What `cargo test` says of failures.
#[derive(Debug, Default)]
struct FailedTests {
    /// Each as arguments of `cargo test`.
    targets: BTreeSet<String>,
    names: BTreeSet<String>,
    /// Those of the list that has begun: the last one of a target has names and nothing else.
    listed: Vec<String>,
}

impl FailedTests {
    fn hear(&mut self, line: &str) {
        if line == "failures:" {
            self.listed.clear();
        } else if let Some(name) = line.strip_prefix("    ") {
            self.listed.push(name.to_owned());
        } else if line.starts_with("test result: FAILED") {
            self.names.extend(self.listed.drain(..));
        } else if let Some((_, rest)) = line.split_once("to rerun pass `") {
            self.targets.extend(rest.split('`').next().map(str::to_owned));
        }
    }

    fn spoken(&self) -> String {
        // A target whose process died names no test.
        let words = if self.names.is_empty() { &self.targets } else { &self.names };
        words.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// Runs `command` with its output on ours, and gives each line to `hear`.
fn heard(command: &mut Command, hear: impl Fn(&str) + Sync) -> Result<()> {
    let line = shown(command);
    println!("$ {line}");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot start `{line}`"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let errors = scope.spawn(|| lines(err, &hear, |line| eprintln!("{line}")));
        lines(out, &hear, |line| println!("{line}"));
        errors.join().expect("it only reads");
    });
    let status = child.wait()?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

fn lines(from: Option<impl Read>, hear: &impl Fn(&str), show: impl Fn(&str)) {
    let Some(from) = from else { return };
    let mut from = BufReader::new(from);
    let mut bytes = Vec::new();
    while from.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end_matches('\n');
        show(line);
        hear(line);
        bytes.clear();
    }
}

/// Lines of a second failure that are shown at the end again, where people look.
const SHOWN_AGAIN: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_found_in_what_cargo_says() {
        let said = "\
test udp::one ... ok
test udp::two ... words of its own
FAILED

failures:

---- udp::two stdout ----
thread 'udp::two' (20) panicked at crates/net/tests/udp.rs:3:5:
   0: core::panicking::panic_fmt
             at ./src/panicking.rs:80:14

failures:
    udp::two

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s
error: test failed, to rerun pass `-p quickset-net --test udp`
failures:
    crates/fec/src/lib.rs - (line 12)

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s
error: doctest failed, to rerun pass `-p quickset-fec --doc`
error: 2 targets failed:
    `-p quickset-net --test udp`";
        let mut failed = FailedTests::default();
        said.lines().for_each(|line| failed.hear(line));
        let set = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(failed.targets, set(&["-p quickset-net --test udp", "-p quickset-fec --doc"]));
        assert_eq!(failed.names, set(&["udp::two", "crates/fec/src/lib.rs - (line 12)"]));
        assert_eq!(failed.spoken(), "crates/fec/src/lib.rs - (line 12), udp::two");
    }

    #[test]
    fn what_is_not_built_is_no_failed_test() {
        let mut failed = FailedTests::default();
        failed.hear("error: could not compile `quickset-net` (lib test) due to 1 previous error");
        assert!(failed.targets.is_empty() && failed.names.is_empty());
    }
}
