//! The workspaces beside ours, whose dependencies never touch a default build.

use std::path::Path;

use anyhow::{Result, bail};

use crate::needs::{Need, ensure};
use crate::run::{Outcome, cargo, run};

/// Quickset beside other stacks, in figures. Optimized, as it is shipped.
pub(crate) fn bench_peers(args: &[String]) -> Result<()> {
    if let Some(("fec", args)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return bench_fec(args);
    }
    program("peers", &["--release"], &[&["compare".to_owned()], args].concat())
}

/// Our erasure codes beside others.
fn bench_fec(args: &[String]) -> Result<()> {
    if let Err(error) = ensure(ISAL) {
        println!("without ISA-L: {error:#}");
    }
    program("peers", &["--release", "--package", "quickset-peers-fec"], args)
}

/// The program stands for the library, which comes with none.
const ISAL: &[Need] = &[Need {
    program: "igzip",
    package: "isal libisal-dev",
    why: "bench-peers fec: Intel's library of erasure codes",
}];

/// Quickset with another stack. Not optimized itself, so that the debug assertions of our crates take part.
pub(crate) fn interop(args: &[String]) -> Result<()> {
    program("interop", &[], args)
}

/// What of it takes less than a minute.
pub(crate) fn interop_short() -> Result<Outcome> {
    checks("interop")?;
    interop(&["--quick".to_owned()])?;
    Ok(Outcome::Done)
}

/// The comparison is measured by nobody here, but it must build and keep its own tests.
pub(crate) fn peers() -> Result<Outcome> {
    checks("peers")?;
    Ok(Outcome::Done)
}

fn program(folder: &str, how: &[&str], args: &[String]) -> Result<()> {
    let manifest = manifest(folder)?;
    run(cargo().args(["run", "--quiet", "--manifest-path", &manifest]).args(how).arg("--").args(args))
}

/// What the steps fmt, clippy and tests are for the workspace of the root. Not `--locked`: what our crates depend
/// on is in these lock files too, and changes with them.
fn checks(folder: &str) -> Result<()> {
    let manifest = manifest(folder)?;
    run(cargo().args(["fmt", "--check", "--manifest-path", &manifest]))?;
    let clippy = ["clippy", "--all-targets", "--manifest-path", &manifest, "--", "-D", "warnings"];
    run(cargo().args(clippy))?;
    run(cargo().args(["test", "--manifest-path", &manifest]))
}

fn manifest(folder: &str) -> Result<String> {
    let manifest = format!("{folder}/Cargo.toml");
    if !Path::new(&manifest).is_file() {
        bail!("there is no {manifest}");
    }
    Ok(manifest)
}
