//! `cargo xtask e2e`: the desktop gateways between real programs, and a real player before `http serve`, over
//! paths that lose and delay.

use anyhow::{Context as _, Result, bail};

use crate::run::{StepOutcome, cargo, on_path, run};
use crate::{again, players};

/// Runs the tests of crates/desktop/tests/e2e with the command as cargo builds it, and the players' shorter
/// ones; or those of the former alone whose names have a word in them.
pub(crate) fn command(args: &[String]) -> Result<()> {
    if let StepOutcome::Skipped(why) = both(&E2eOptions::read(args)?)? {
        println!("SKIPPED, {why}");
    }
    Ok(())
}

/// The step of `cargo xtask test`.
pub(crate) fn step() -> Result<StepOutcome> {
    both(&E2eOptions::read(&[])?)
}

struct E2eOptions {
    /// How long there is work on each desktop.
    seconds: u32,
    /// A word in the names of tests.
    only: Option<String>,
}

impl E2eOptions {
    fn read(args: &[String]) -> Result<Self> {
        let mut options = Self { seconds: 10, only: None };
        let mut words = args.iter();
        while let Some(flag) = words.next() {
            let value = words.next().with_context(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--seconds" => {
                    options.seconds = value.parse().context("--seconds needs a number, like 30")?;
                    if !(1..=600).contains(&options.seconds) {
                        bail!("write 1 to 600 seconds");
                    }
                }
                "--only" => options.only = Some(value.clone()),
                _ => bail!("write e2e [--seconds N] [--only WORD], and not {flag}"),
            }
        }
        Ok(options)
    }
}

fn both(options: &E2eOptions) -> Result<StepOutcome> {
    let missing: Vec<&str> = PROGRAMS.iter().copied().filter(|program| !on_path(program)).collect();
    if !missing.is_empty() {
        bail!("these programs are missing: {}; `cargo xtask test needs` brings them", missing.join(", "));
    }
    run(cargo().args(["build", "--locked", "-p", "quickset-cli"]))?;
    // One at a time: each takes both cores for a good part of its time.
    let mut target = vec!["-p", "quickset-desktop", "--test", "e2e"];
    target.extend(options.only.as_deref());
    let seconds = options.seconds.to_string();
    let harness = ["--ignored", "--test-threads=1", "--nocapture"];
    let desktops = again::test(&target, &harness, &[("QUICKSET_E2E_SECONDS", seconds)])?;
    if options.only.is_some() {
        return Ok(desktops);
    }
    Ok(match players::short()? {
        StepOutcome::Skipped(why) => StepOutcome::Skipped(format!("its players alone: {why}")),
        StepOutcome::Done => desktops,
        again @ StepOutcome::Again(_) => again,
    })
}

/// What the scene is made of.
const PROGRAMS: &[&str] = &[
    "Xtigervnc",
    "xtigervncviewer",
    "xterm",
    "xwud",
    "xev",
    "xwininfo",
    "xdotool",
    "stdbuf",
    "chromium",
    "firefox-esr",
    "ffmpeg",
    "npm",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_errors() {
        for slip in [&["--seconds"][..], &["--seconds", "x"], &["--seconds", "0"], &["fast"], &["--only"]] {
            let words: Vec<String> = slip.iter().map(|&word| word.to_owned()).collect();
            assert!(command(&words).is_err(), "{slip:?}");
        }
    }
}
