//! Tells the package which commit it was built from: rows of results say so, as those of the command.

use std::path::Path;

#[path = "../crates/cli/commit.rs"]
mod commit;

fn main() {
    let root = Path::new("..");
    for path in commit::watched(root) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../crates/cli/commit.rs");
    println!("cargo::rerun-if-env-changed=QUICKSET_COMMIT");
    let commit = std::env::var("QUICKSET_COMMIT").unwrap_or_else(|_| commit::name(root));
    println!("cargo::rustc-env=QUICKSET_COMMIT={commit}");
}
