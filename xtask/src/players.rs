//! `cargo xtask players`: dash.js in Chromium plays from `http serve`, over a path that delays and loses.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::dashjs::{self, DashJs};
use crate::needs::{Needed, Sign, ensure};
use crate::run::{StepOutcome, cargo, root, run};

/// Runs the tests of crates/cli/tests/players, which print a table for each version of HTTP, and leave
/// pictures.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let seconds = match args {
        [] => 60,
        [flag, number] if flag == "--seconds" => {
            let seconds: u32 = number.parse().context("--seconds needs a number, like 30")?;
            if !(10..=600).contains(&seconds) {
                bail!("write 10 to 600 seconds");
            }
            seconds
        }
        _ => bail!("write players [--seconds N]"),
    };
    ensure(&[NEEDS, dashjs::NEEDS].concat())?;
    play(&dashjs::fetch()?, seconds, "")?;
    println!("pictures and logs are in {FOLDER}");
    Ok(())
}

/// What `cargo xtask e2e` has time for: HTTP/3 alone, and less of it.
pub(crate) fn short() -> Result<StepOutcome> {
    let dashjs = match dashjs::fetch() {
        Ok(dashjs) => dashjs,
        Err(error) => return Ok(StepOutcome::Skipped(format!("dash.js cannot be had: {error:#}"))),
    };
    if let Err(error) = can_link() {
        return Ok(StepOutcome::Skipped(format!("{error:#}")));
    }
    play(&dashjs, 20, "by_http_3_with_bbr").map(|()| StepOutcome::Done)
}

/// Whether this system lets us make the path, in networks of its own.
fn can_link() -> Result<()> {
    let server = "exec target/debug/quickset perf server --listen 0.0.0.0:4433";
    let link = ["link", "--quiet", "--far", server, "--", "true"];
    let tried =
        Command::new("target/debug/quickset").args(link).output().context("there is no `quickset`")?;
    if !tried.status.success() {
        bail!("{}", String::from_utf8_lossy(&tried.stderr).trim());
    }
    Ok(())
}

/// Plays a video of so many seconds with the tests of this name.
fn play(dashjs: &DashJs, seconds: u32, tests: &str) -> Result<()> {
    // One at a time: four players have enough to do for both cores.
    run(cargo()
        .args(["test", "--locked", "-p", "quickset-cli", "--test", "players", tests, "--"])
        .args(["--ignored", "--test-threads=1", "--nocapture"])
        .env("QUICKSET_DASHJS", &dashjs.player)
        .env("QUICKSET_PLAYERS", root().join(FOLDER))
        .env("QUICKSET_PLAYERS_SECONDS", seconds.to_string()))
}

const FOLDER: &str = "target/players";

pub(crate) const NEEDS: &[Needed] = &[
    Needed { sign: Sign::Program("chromium"), package: "chromium", why: "players: a browser with HTTP/3" },
    Needed { sign: Sign::Program("ffmpeg"), package: "ffmpeg", why: "players: the video" },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_errors() {
        for slip in [&["--seconds"][..], &["--seconds", "x"], &["--seconds", "9"], &["fast"]] {
            let words: Vec<String> = slip.iter().map(|&word| word.to_owned()).collect();
            assert!(command(&words).is_err(), "{slip:?}");
        }
    }
}
