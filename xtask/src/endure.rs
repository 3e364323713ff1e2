//! Paths that go away and come back, and clients that take nothing, at length: what `cargo test` plays a
//! small part of.

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, run};

/// The sweep of outages in virtual time.
pub(crate) fn silence(args: &[String]) -> Result<()> {
    let runs = number(args, "--runs", 20_000)?;
    run(cargo()
        .env("QUICKSET_SILENCE_RUNS", runs.to_string())
        .args(["test", "--release", "--package", "quickset-quic", "--test", "virtual_time", "--locked"])
        .args(["silence::", "--", "--nocapture"]))
}

/// `http serve` with clients that ask for much and take nothing, and an honest one beside them: a row for
/// each kind.
pub(crate) fn siege(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("there are no arguments");
    }
    run(cargo()
        .env("QUICKSET_SIEGE", "1")
        .args(["test", "--release", "--package", "quickset-cli", "--test", "siege", "--locked"])
        .args(["--", "--nocapture", "--test-threads", "1"]))
}

/// A gigabyte each way over sockets, several at a time: each takes half an hour, in two thirds of which
/// nothing happens.
pub(crate) fn chaos(args: &[String]) -> Result<()> {
    let runs = number(args, "--runs", 5)?;
    run(cargo()
        .env("QUICKSET_CHAOS", "1GB")
        .env("QUICKSET_CHAOS_RUNS", runs.to_string())
        .args(["test", "--release", "--package", "quickset-lab", "--test", "chaos", "--locked"])
        .args(["--", "--nocapture"]))
}

/// The number behind the only option that there is.
fn number(args: &[String], option: &str, usual: u64) -> Result<u64> {
    match args {
        [] => Ok(usual),
        [name, value] if name == option => {
            value.parse().with_context(|| format!("{value:?} is no number: write {option} {usual}"))
        }
        _ => bail!("the only argument is {option} {usual}"),
    }
}
