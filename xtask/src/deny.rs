//! What we build on: advisories, licences, sources and crates that are there twice, by cargo-deny and
//! `deny.toml`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::run::{StepOutcome, output, root, run};
use crate::tools::cargo_with;

/// The step of `cargo xtask test`, for each of the three workspaces. Without a network the advisories are
/// those that were fetched last, of which the date is told, or none, which is told, too.
pub(crate) fn step() -> Result<StepOutcome> {
    let fetched = fetch()?;
    let database = database();
    let advisories = match (&fetched, &database) {
        (Ok(()), Some(database)) => {
            println!("advisories of {}", date(database)?);
            true
        }
        (Err(why), Some(database)) => {
            println!("advisories of {}, since newer ones are not to be had: {why}", date(database)?);
            true
        }
        (fetched, None) => {
            let why = fetched.as_ref().err().map_or("there is no database", |why| why);
            println!("advisories not checked: {why}");
            false
        }
    };
    // By its whole path: another would be looked for beside each manifest.
    let rules = root().join("deny.toml");
    for (workspace, is_ours) in WORKSPACES {
        let manifest = format!("{workspace}/Cargo.toml");
        let mut command = cargo_deny()?;
        command.args(["--manifest-path", &manifest, "--all-features", "--locked", "check"]);
        // One file is for all, and what one of them needs others need not.
        command.arg("--config").arg(&rules).arg("--hide-inclusion-graph");
        command.args(ELSEWHERE.iter().flat_map(|warning| ["--allow", warning]));
        if !is_ours {
            command.args(["--allow", "duplicate"]);
        }
        if advisories {
            command.args(["--disable-fetch", "advisories"]);
        }
        run(command.args(["bans", "licenses", "sources"]))?;
    }
    Ok(StepOutcome::Done)
}

fn cargo_deny() -> Result<Command> {
    let mut command = cargo_with("cargo-deny", "^0.18")?;
    command.arg("deny");
    Ok(command)
}

/// Fetches the database, or says why that cannot be done.
fn fetch() -> Result<Result<(), String>> {
    let mut command = cargo_deny()?;
    command.args(["fetch", "db"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start `cargo deny`")?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(Ok(())),
            Some(_) => return Ok(Err("it cannot be fetched".to_owned())),
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    child.kill()?;
    child.wait()?;
    Ok(Err(format!("it has not come within {} s", PATIENCE.as_secs())))
}

/// Where it was fetched to, last.
fn database() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home)?;
    let databases = home.join("advisory-dbs").read_dir().ok()?;
    let whole =
        databases.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.join("crates").is_dir());
    whole.max_by_key(|path| path.metadata().and_then(|metadata| metadata.modified()).ok())
}

/// When its last advisory was written.
fn date(database: &PathBuf) -> Result<String> {
    let log = output(Command::new("git").arg("-C").arg(database).args(["log", "-1", "--format=%cs"]))?;
    Ok(log.trim().to_owned())
}

/// What is told of lines for other workspaces.
const ELSEWHERE: [&str; 4] =
    ["unmatched-skip", "unnecessary-skip", "license-not-encountered", "license-exception-not-encountered"];

/// Each with whether all in it is for our own code: what others build on, beside whom we are measured, is
/// there as often as they like.
const WORKSPACES: [(&str, bool); 3] = [(".", true), ("fuzz", true), ("peers", false)];

/// A few megabytes.
const PATIENCE: Duration = Duration::from_secs(45);
