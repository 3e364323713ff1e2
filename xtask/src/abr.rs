//! `cargo xtask abr`: the rules of `quickset-abr` beside dash.js itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::dashjs::{self, DashJs};
use crate::needs::{Needed, Sign, ensure};
use crate::run::{StepOutcome, cargo, root, run};

/// Fetches dash.js, and runs the test of crates/abr/tests/dashjs. It prints tables, which docs/abr.md has.
pub(crate) fn command(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("abr takes no arguments");
    }
    ensure(&[NEEDS, dashjs::NEEDS].concat())?;
    compare(&dashjs::fetch()?)
}

/// The step of `cargo xtask test`.
pub(crate) fn step() -> Result<StepOutcome> {
    match dashjs::fetch() {
        Ok(dashjs) => compare(&dashjs).map(|()| StepOutcome::Done),
        Err(error) => Ok(StepOutcome::Skipped(format!("dash.js cannot be had: {error:#}"))),
    }
}

fn compare(dashjs: &DashJs) -> Result<()> {
    run(cargo()
        .args(["test", "--locked", "-p", "quickset-abr", "--test", "dashjs", "--"])
        .args(["--ignored", "--nocapture"])
        .env("QUICKSET_DASHJS", sources(&dashjs.map)?))
}

/// The folder of dash.js's sources, as the map of its bundle has them.
fn sources(map: &Path) -> Result<PathBuf> {
    let home = root().join("target/abr");
    let sources = home.join(format!("dashjs-{}", dashjs::VERSION));
    if sources.join("package.json").is_file() {
        return Ok(sources);
    }
    // Under its name only when all of it is there.
    let partial = home.join("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial)?;
    }
    std::fs::create_dir_all(&home)?;
    run(Command::new("node").arg("crates/abr/tests/dashjs/sources.mjs").arg(map).arg(&partial))?;
    std::fs::rename(&partial, &sources)?;
    Ok(sources)
}

pub(crate) const NEEDS: &[Needed] = &[Needed {
    sign: Sign::Program("node"),
    package: "nodejs",
    why: "abr: dash.js is written in JavaScript",
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_slips() {
        assert!(command(&["bola".into()]).is_err());
    }
}
