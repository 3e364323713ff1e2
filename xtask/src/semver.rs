//! What a program that was built against the baseline would no longer find: `cargo-semver-checks`, of the
//! crates that are for users, between the commit in `xtask/semver-baseline` and what lies here.
//!
//! Both are documented as JSON in one call of cargo each, and the tool compares the two, so that dependencies
//! are built once. (Given a commit and a crate it would build all of them anew for each.) Features it finds
//! in manifests only, which it does not see then: they are compared here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::run::{cargo, output, root, run};
use crate::tools::cargo_with;

/// What is useful alone, and so is used by whom we do not know. What is missing (`lab`, `desktop`, `cli`) is
/// made for the command. `quickset` hands out what others define, and the tool does not look through that:
/// each crate is checked by itself.
const CHECKED: [&str; 13] = [
    "quickset",
    "quickset-abr",
    "quickset-base",
    "quickset-fec",
    "quickset-h3",
    "quickset-net",
    "quickset-play",
    "quickset-quic",
    "quickset-rfb",
    "quickset-sched",
    "quickset-sim",
    "quickset-tls",
    "quickset-wire",
];

/// The tool reads the JSON of some compilers, the newest of its day among them.
const VERSION: &str = "^0.51";

/// How the tool begins what it found.
const FINDING: &str = "--- failure";

const BASELINE: &str = "xtask/semver-baseline";

pub(crate) fn command(args: &[String]) -> Result<()> {
    match args {
        [] => check(),
        [flag] if flag == "--renew" => renew(),
        _ => bail!("`cargo xtask semver` and `cargo xtask semver --renew` is all there is"),
    }
}

/// What is committed is the baseline from now on.
fn renew() -> Result<()> {
    let commit = output(Command::new("git").args(["rev-parse", "HEAD"]))?;
    fs::write(root().join(BASELINE), &commit)?;
    println!("the baseline is {}: commit {BASELINE}", commit.trim());
    Ok(())
}

fn check() -> Result<()> {
    let commit =
        fs::read_to_string(root().join(BASELINE)).with_context(|| format!("cannot read {BASELINE}"))?;
    let commit = commit.trim();
    let baseline = baseline(commit)?;
    let now = described(&root(), &folder().join("now"))?;
    let mut broken = Vec::new();
    for package in CHECKED {
        let (before, after) = (file(&baseline, package), file(&now, package));
        if !before.is_file() {
            println!("{package}: not there at the baseline");
            continue;
        }
        ensure!(after.is_file(), "{package} is documented nowhere; if it is gone, strike it from CHECKED");
        // A new minor version is what may break nothing; by the numbers there would be none yet.
        let mut tool = cargo_with("cargo-semver-checks", VERSION)?;
        tool.args(["semver-checks", "--release-type", "minor", "--baseline-rustdoc"]).arg(&before);
        tool.arg("--current-rustdoc").arg(&after);
        let out = tool.output().context("cannot start `cargo semver-checks`")?;
        let said = String::from_utf8_lossy(&out.stdout);
        if out.status.success() {
            println!("{package}: nothing breaks");
        } else {
            println!("{package}:\n{said}");
            // It ends so, too, where it cannot read what this compiler wrote.
            let error = String::from_utf8_lossy(&out.stderr);
            ensure!(said.contains(FINDING), "`cargo semver-checks` failed for {package}:\n{error}");
            broken.push(package.to_owned());
        }
    }
    let missing = missing_features(&features_in(&baseline)?, &features_in(&now)?);
    for feature in &missing {
        println!("feature missing: {feature}");
    }
    broken.extend(missing);
    if !broken.is_empty() {
        bail!(
            "since {:.10} these break programs: {}. What is meant goes into CHANGELOG.md under *Changed*, with what to \
             write instead; at the end of a step of work `cargo xtask semver --renew` makes that the baseline.",
            commit,
            broken.join(", ")
        );
    }
    println!("\nnothing breaks a program that was built against {commit:.10}");
    Ok(())
}

/// The baseline as JSON. It is made once for each compiler.
fn baseline(commit: &str) -> Result<PathBuf> {
    let version = output(Command::new("rustc").arg("--version"))?;
    let version: String = version.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
    let there = folder().join(format!("{commit}-{version}"));
    if !there.is_dir() {
        let tree = folder().join("tree");
        // One of a former attempt, or of another baseline.
        let _ = Command::new("git").args(["worktree", "remove", "--force"]).arg(&tree).output();
        let add = Command::new("git")
            .args(["worktree", "add", "--detach", "--force"])
            .arg(&tree)
            .arg(commit)
            .status()?;
        ensure!(
            add.success(),
            "the commit of {BASELINE} is not in this clone; `git fetch --unshallow` may bring it"
        );
        let made = described(&tree, &folder().join("made"));
        run(Command::new("git").args(["worktree", "remove", "--force"]).arg(&tree))?;
        // Last, so that it is there whole or not at all.
        fs::rename(made?, &there)?;
    }
    Ok(there)
}

/// Documents the crates of `tree` and puts what the tool reads, and the manifests, into the folder `into`.
fn described(tree: &Path, into: &Path) -> Result<PathBuf> {
    let metadata = output(cargo().current_dir(tree).args(METADATA))?;
    let there = packages(&metadata)?;
    let chosen =
        CHECKED.iter().filter(|name| there.contains_key(**name)).flat_map(|name| ["--package", name]);
    let build = folder().join("build");
    let mut docs = cargo();
    docs.current_dir(tree)
        .args(["doc", "--quiet", "--no-deps", "--lib", "--all-features", "--locked"])
        .args(chosen);
    // JSON is for nightly compilers, and its version for the tool to know. The tool asks for the private
    // things, too.
    docs.env("RUSTC_BOOTSTRAP", "1").env("RUSTDOCFLAGS", JSON).env("CARGO_TARGET_DIR", &build);
    run(&mut docs)?;
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    fs::create_dir_all(into)?;
    for package in there.keys().filter(|name| CHECKED.contains(&name.as_str())) {
        fs::rename(file(&build.join("doc"), package), file(into, package))?;
    }
    fs::write(into.join(MANIFESTS), metadata)?;
    Ok(into.to_path_buf())
}

const METADATA: [&str; 5] = ["metadata", "--no-deps", "--locked", "--format-version", "1"];

const JSON: &str = "-Zunstable-options --document-private-items --document-hidden-items --output-format=json \
                    --cap-lints=allow";

const MANIFESTS: &str = "metadata.json";

fn folder() -> PathBuf {
    root().join("target/semver")
}

fn file(folder: &Path, package: &str) -> PathBuf {
    folder.join(format!("{}.json", package.replace('-', "_")))
}

type Features = BTreeMap<String, BTreeSet<String>>;

fn features_in(folder: &Path) -> Result<Features> {
    packages(&fs::read_to_string(folder.join(MANIFESTS))?)
}

/// The features of each package, from what `cargo metadata` prints.
fn packages(metadata: &str) -> Result<Features> {
    let metadata: Value = serde_json::from_str(metadata).context("cargo prints JSON")?;
    let all = metadata["packages"].as_array().context("a workspace has packages")?;
    let named = |package: &Value| {
        let features = package["features"].as_object().map(|f| f.keys().cloned().collect());
        Some((package["name"].as_str()?.to_owned(), features?))
    };
    all.iter().map(|package| named(package).context("a package has a name and features")).collect()
}

/// As `package/feature`: those of the baseline that a program could name and cannot now.
fn missing_features(before: &Features, now: &Features) -> Vec<String> {
    let of = |name: &str| (before.get(name), now.get(name));
    let both = CHECKED
        .iter()
        .filter_map(|name| if let (Some(a), Some(b)) = of(name) { Some((name, a, b)) } else { None });
    both.flat_map(|(name, a, b)| a.difference(b).map(move |feature| format!("{name}/{feature}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_is_a_commit() {
        let text = fs::read_to_string(root().join(BASELINE)).expect("it is there");
        let commit = text.trim();
        assert!(commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{commit:?}");
    }

    #[test]
    fn features_that_are_gone_are_named_and_new_ones_are_not() {
        let of = |features: &str| {
            let features =
                features.split(' ').map(|name| format!("{name:?}: []")).collect::<Vec<_>>().join(",");
            let package = |name: &str| format!("{{ \"name\": {name:?}, \"features\": {{ {features} }} }}");
            let all = [package("quickset"), package("quickset-lab")].join(",");
            packages(&format!("{{ \"packages\": [{all}] }}")).expect("it is as cargo writes it")
        };
        assert_eq!(missing_features(&of("default http qlog"), &of("default h3 qlog")), ["quickset/http"]);
        assert!(missing_features(&of("default"), &of("default ring")).is_empty());
        assert!(missing_features(&Features::new(), &of("default")).is_empty());
    }

    #[test]
    fn what_is_checked_is_there() {
        let metadata = output(cargo().current_dir(root()).args(METADATA)).expect("cargo reads the workspace");
        let there = packages(&metadata).expect("it is as cargo writes it");
        assert!(CHECKED.iter().all(|name| there.contains_key(*name)), "{there:?}");
    }
}
