//! Tells the package which commit it was built from: rows of results say so.

use std::process::Command;

fn main() {
    // The log of HEAD grows with each commit, checkout and reset.
    println!("cargo::rerun-if-changed=../.git/logs/HEAD");
    println!("cargo::rerun-if-env-changed=QUICKSET_COMMIT");
    let commit =
        std::env::var("QUICKSET_COMMIT").ok().or_else(describe).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=QUICKSET_COMMIT={commit}");
}

/// The commit, with a `+` when files differ from it; as in crates/cli, so that rows of both may be joined.
fn describe() -> Option<String> {
    let output =
        Command::new("git").args(["describe", "--always", "--abbrev=12", "--dirty=+"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
