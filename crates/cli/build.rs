//! Tells the command which commit it was built from: rows of results say so.

use std::path::Path;

mod commit;

fn main() {
    let root = Path::new("../..");
    for path in commit::watched(root) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    for path in ["build.rs", "commit.rs", PACKAGED] {
        if Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-env-changed=QUICKSET_COMMIT");
    let commit = std::env::var("QUICKSET_COMMIT").ok().or_else(packaged);
    let commit = commit.unwrap_or_else(|| commit::name(root));
    println!("cargo::rustc-env=QUICKSET_COMMIT={commit}");
}

/// The commit that a package from a registry was made of; whatever repository it lies in by chance is
/// another's.
fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(PACKAGED).ok()?;
    let (_, commit) = text.split_once("\"sha1\": \"")?;
    commit.get(..12).map(str::to_owned)
}

const PACKAGED: &str = ".cargo_vcs_info.json";
