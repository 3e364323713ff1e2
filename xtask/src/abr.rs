//! `cargo xtask abr`: the rules of `quickset-abr` beside dash.js itself.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::needs::{Need, Sign, ensure};
use crate::run::{Outcome, cargo, root, run};

/// Fetches dash.js, and runs the test of crates/abr/tests/dashjs. It prints tables, which docs/abr.md has.
pub(crate) fn command(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("abr takes no arguments");
    }
    ensure(NEEDS)?;
    compare()
}

/// The step of `cargo xtask test`.
pub(crate) fn step() -> Result<Outcome> {
    compare().map(|()| Outcome::Done)
}

fn compare() -> Result<()> {
    run(cargo()
        .args(["test", "--locked", "-p", "quickset-abr", "--test", "dashjs", "--"])
        .args(["--ignored", "--nocapture"])
        .env("QUICKSET_DASHJS", sources()?))
}

/// The folder of dash.js's sources, as the map of its bundle has them. They are fetched once.
fn sources() -> Result<PathBuf> {
    let home = root().join("target/abr");
    let sources = home.join(format!("dashjs-{VERSION}"));
    if sources.join("package.json").is_file() {
        return Ok(sources);
    }
    std::fs::create_dir_all(&home)?;
    run(Command::new("npm")
        .args(["pack", "--silent", "--pack-destination"])
        .arg(&home)
        .arg(format!("dashjs@{VERSION}")))?;
    let package = home.join(format!("dashjs-{VERSION}.tgz"));
    run(Command::new("tar").arg("-xzf").arg(&package).arg("-C").arg(&home).arg(MAP))?;
    // Under its name only when all of it is there.
    let partial = home.join("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial)?;
    }
    run(Command::new("node").arg("crates/abr/tests/dashjs/sources.mjs").arg(home.join(MAP)).arg(&partial))?;
    std::fs::rename(&partial, &sources)?;
    std::fs::remove_dir_all(home.join("package"))?;
    std::fs::remove_file(package)?;
    Ok(sources)
}

/// Fixed: tables are of one version, and rules change.
const VERSION: &str = "5.2.1";

const MAP: &str = "package/dist/modern/esm/dash.all.debug.js.map";

pub(crate) const NEEDS: &[Need] = &[
    Need { sign: Sign::Program("node"), package: "nodejs", why: "abr: dash.js is written in JavaScript" },
    Need { sign: Sign::Program("npm"), package: "npm", why: "abr: npm has dash.js" },
    Need { sign: Sign::Program("tar"), package: "tar", why: "abr: npm's packages are archives" },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_slips() {
        assert!(command(&["bola".into()]).is_err());
    }
}
