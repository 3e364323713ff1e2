//! `cargo xtask dist source` and `dist crates`: what others build from: the commit as an archive, and the crates
//! as a registry gets them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{DistBuild, emptied, release, tell_size, work};
use crate::run::{StepOutcome, cargo, output, root, run};

pub(super) fn part(_build: &DistBuild) -> Result<StepOutcome> {
    let archive = archive_of_commit()?;
    // It is whole: cargo finds all that belongs to the workspace in it, with the versions of the lock file.
    let place = work().join("source");
    emptied(&place)?;
    run(Command::new("tar").arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(&place))?;
    let manifest = place.join(name()).join("Cargo.toml");
    output(
        cargo()
            .args(["metadata", "--format-version=1", "--no-deps", "--locked", "--manifest-path"])
            .arg(manifest),
    )?;
    Ok(StepOutcome::Done)
}

/// The commit, without what is not committed.
pub(super) fn archive_of_commit() -> Result<PathBuf> {
    if !output(Command::new("git").args(["status", "--porcelain"]))?.is_empty() {
        println!("the archive is of the commit, without what has been changed since");
    }
    fs::create_dir_all(release())?;
    let (plain, packed) = (work().join("source.tar"), release().join(format!("{}.tar.xz", name())));
    run(Command::new("git")
        .args(["archive", "--format=tar", &format!("--prefix={}/", name()), "--output"])
        .args([plain.as_os_str(), "HEAD".as_ref()]))?;
    let bytes = fs::File::create(&packed)?;
    run(Command::new("xz").args(["-9", "--threads=1", "--stdout"]).arg(&plain).stdout(bytes))?;
    tell_size(&packed)?;
    Ok(packed)
}

fn name() -> String {
    format!("quickset-{}", env!("CARGO_PKG_VERSION"))
}

/// What a registry would get of each crate: the files, and what it asks of a manifest. They are built from
/// nothing but that by `cargo xtask package`.
pub(super) fn crates(_build: &DistBuild) -> Result<StepOutcome> {
    let metadata = output(cargo().args(["metadata", "--format-version=1", "--no-deps", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo writes JSON")?;
    let packages = metadata["packages"].as_array().context("cargo names packages")?;
    let published: Vec<&Value> = packages.iter().filter(|package| package["publish"].is_null()).collect();
    for package in &published {
        let missing: Vec<&str> = WANTED.iter().copied().filter(|field| is_empty(&package[*field])).collect();
        ensure!(missing.is_empty(), "the manifest of {} has no {}", package["name"], missing.join(", "));
    }
    run(cargo().args([
        "package",
        "--workspace",
        "--exclude",
        "xtask",
        "--locked",
        "--allow-dirty",
        "--no-verify",
        "--quiet",
    ]))?;
    let order = in_order(&published)?;
    for name in &order {
        let file = format!("{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        let made = root().join("target/package").join(&file);
        let list = output(Command::new("tar").arg("--list").arg("--file").arg(&made))?;
        for part in ["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            let path = format!("{name}-{}/{part}", env!("CARGO_PKG_VERSION"));
            ensure!(list.lines().any(|line| line == path), "{file} has no {part}");
        }
        tell_size(&made)?;
    }
    // Each behind all that it depends on.
    let text: Vec<String> = order.iter().map(|name| format!("cargo publish --package {name}\n")).collect();
    let list = release().join("crates.txt");
    fs::write(&list, text.concat())?;
    println!(
        "{} crates can be packed; {} has the order in which to publish them",
        order.len(),
        list.display()
    );
    Ok(StepOutcome::Done)
}

fn is_empty(field: &Value) -> bool {
    match field {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// The names of the crates, so that each is behind those that it needs to be built. What only tests need does
/// not count: where a path stands without a version, no registry hears of it.
fn in_order(packages: &[&Value]) -> Result<Vec<String>> {
    let name = |package: &Value| package["name"].as_str().map(str::to_owned).context("a package has a name");
    let names = packages.iter().map(|package| name(package)).collect::<Result<Vec<_>>>()?;
    let mut order: Vec<String> = Vec::new();
    while order.len() < names.len() {
        let mut next = None;
        for (package, name) in packages.iter().zip(&names).filter(|(_, name)| !order.contains(name)) {
            let needs = package["dependencies"].as_array().context("it names what it needs")?;
            let needs = needs.iter().filter(|need| need["kind"] != "dev" || need["req"] != "*");
            let mut ours =
                needs.filter_map(|need| need["name"].as_str()).filter(|need| names.iter().any(|n| n == need));
            if ours.all(|need| order.iter().any(|done| done == need)) {
                next = Some(name.clone());
                break;
            }
        }
        order.push(
            next.context("crates depend on each other in a circle; none of them can be published first")?,
        );
    }
    Ok(order)
}

/// What a reader of a registry sees, and searches by.
const WANTED: &[&str] =
    &["description", "readme", "keywords", "categories", "license", "repository", "documentation"];

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, needs: &[(&str, Option<&str>, &str)]) -> Value {
        let needs: Vec<Value> = needs
            .iter()
            .map(|(name, kind, req)| serde_json::json!({ "name": name, "kind": kind, "req": req }))
            .collect();
        serde_json::json!({ "name": name, "dependencies": needs })
    }

    #[test]
    fn a_crate_is_behind_what_it_needs() {
        let all = [
            package("face", &[("core", None, "^0.1"), ("serde", None, "^1")]),
            package("core", &[("base", None, "^0.1"), ("face", Some("dev"), "*")]),
            package("base", &[]),
        ];
        assert_eq!(in_order(&all.iter().collect::<Vec<_>>()).unwrap(), ["base", "core", "face"]);
    }

    #[test]
    fn a_circle_is_an_error() {
        let all = [package("a", &[("b", None, "^1")]), package("b", &[("a", Some("dev"), "^1")])];
        let error = in_order(&all.iter().collect::<Vec<_>>()).expect_err("neither is first").to_string();
        assert!(error.contains("circle"), "{error}");
    }
}
