//! Tells the command which commit it was built from: rows of results say so.

use std::process::Command;

fn main() {
    // The log of HEAD grows with each commit, checkout and reset.
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    println!("cargo::rerun-if-env-changed=QUICKSET_COMMIT");
    let commit = std::env::var("QUICKSET_COMMIT")
        .ok()
        .or_else(packaged)
        .or_else(describe)
        .unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=QUICKSET_COMMIT={commit}");
}

/// The commit that a package from a registry was made of; whatever repository it lies in by chance is another's.
fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, commit) = text.split_once("\"sha1\": \"")?;
    commit.get(..12).map(str::to_owned)
}

/// The commit, with a `+` when files differ from it.
fn describe() -> Option<String> {
    let output =
        Command::new("git").args(["describe", "--always", "--abbrev=12", "--dirty=+"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
