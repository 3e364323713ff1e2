//! `cargo xtask dist npm`: two packages for npm: the page of a desktop, and the library of fenced messages over
//! WebTransport. Nothing is published.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::tree::files_below;
use super::{DistBuild, emptied, epoch, release, tell_size, work};
use crate::run::{StepOutcome, output, root, run};
use crate::web;

pub(super) fn part(_build: &DistBuild) -> Result<StepOutcome> {
    if let Some(missing) = web::missing()? {
        return Ok(StepOutcome::Skipped(missing));
    }
    let work = work().join("npm");
    let (viewer, fences) = (work.join("quickset-viewer"), work.join("quickset-fences"));
    for folder in [&viewer, &fences] {
        emptied(folder)?;
    }
    web::fences(&fences)?;
    for name in page()? {
        // What is committed: the command serves the same.
        copy(&root().join(web::KEPT).join(&name), &viewer.join(&name))?;
    }
    for (folder, source) in [(&viewer, "page/package"), (&fences, "page/fences")] {
        for name in ["package.json", "README.md"] {
            copy(&root().join(source).join(name), &folder.join(name))?;
        }
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            copy(&root().join(licence), &folder.join(licence))?;
        }
        pack(folder)?;
    }
    import(&work.join("imported"))?;
    Ok(StepOutcome::Done)
}

/// The files of the page that the command serves.
fn page() -> Result<Vec<String>> {
    let files = files_below(&root().join(web::KEPT))?;
    Ok(files.into_iter().filter(|name| name != web::COMPILER).collect())
}

/// Packs a folder, of which each file that its manifest names has to be there, and no other.
fn pack(folder: &Path) -> Result<()> {
    let manifest = manifest(folder)?;
    let mut expected: Vec<&str> = manifest["files"]
        .as_array()
        .context("it names its files")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    expected.push("package.json");
    expected.sort_unstable();
    let npm = |words: &[&str]| {
        let mut npm = Command::new("npm");
        npm.args(["pack", "--json", "--ignore-scripts"]).args(words).current_dir(folder);
        npm.env("SOURCE_DATE_EPOCH", epoch()?);
        Ok::<_, anyhow::Error>(npm)
    };
    let dry: Value = serde_json::from_str(&output(&mut npm(&["--dry-run"])?)?)?;
    let mut packed: Vec<&str> = dry[0]["files"]
        .as_array()
        .context("npm names the files")?
        .iter()
        .filter_map(|file| file["path"].as_str())
        .collect();
    packed.sort_unstable();
    let there = files_below(folder)?;
    ensure!(there == expected, "there are {there:?}, and the manifest names {expected:?}");
    ensure!(packed == expected, "npm would pack {packed:?}, and {expected:?} are the package");
    let made: Value =
        serde_json::from_str(&output(&mut npm(&["--pack-destination", &release().to_string_lossy()])?)?)?;
    let name = made[0]["filename"].as_str().context("npm names the package")?;
    tell_size(&release().join(name))
}

/// The library as a program would have it that installed the package, loaded by node.
fn import(folder: &Path) -> Result<()> {
    emptied(folder)?;
    fs::write(folder.join("package.json"), "{ \"private\": true, \"type\": \"module\" }\n")?;
    let package = release().join(format!("quickset-fences-{}.tgz", env!("CARGO_PKG_VERSION")));
    run(Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--offline"])
        .arg(package)
        .current_dir(folder))?;
    fs::write(folder.join("trial.js"), TRIAL)?;
    run(Command::new("node").arg("trial.js").current_dir(folder))
}

/// A message goes from one end to the other.
const TRIAL: &str = r"import { readFile } from 'node:fs/promises';
import { FencedSession } from 'quickset-fences';

const module = await readFile(new URL(import.meta.resolve('quickset-fences/fences_bg.wasm')));
const ways = [new TransformStream(), new TransformStream()];
const ends = [0, 1].map((end) => ({
  datagrams: { readable: ways[end].readable, writable: ways[1 - end].writable, maxDatagramSize: 1200 },
  closed: new Promise(() => {}),
  close() {},
}));
const [one, other] = await Promise.all(ends.map((end) => FencedSession.open(end, { module })));
one.send(new TextEncoder().encode('there'));
for await (const message of other.messages) {
  if (new TextDecoder().decode(message) !== 'there') throw new Error('another message came');
  break;
}
console.log('a message came through the package');
process.exit(0);
";

fn manifest(folder: &Path) -> Result<Value> {
    let path = folder.join("package.json");
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_have_the_version_of_the_workspace() {
        for folder in ["page/package", "page/fences"] {
            let manifest = manifest(&root().join(folder)).unwrap();
            assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"), "{folder}");
            assert_eq!(manifest["license"], env!("CARGO_PKG_LICENSE"), "{folder}");
            let address = manifest["repository"]["url"].as_str().unwrap();
            assert_eq!(address, format!("git+{}.git", env!("CARGO_PKG_REPOSITORY")), "{folder}");
        }
    }

    #[test]
    fn the_package_of_the_page_has_all_that_the_command_serves() {
        let manifest = manifest(&root().join("page/package")).unwrap();
        let named: Vec<&str> =
            manifest["files"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let says = std::fs::read_to_string(root().join("page/package/README.md")).unwrap();
        let copied = says.lines().find(|line| line.trim_start().starts_with("cp ")).unwrap();
        for file in page().unwrap() {
            assert!(named.contains(&file.as_str()), "package.json does not name {file}");
            assert!(copied.contains(&file), "README.md does not copy {file}");
        }
    }
}
