//! `cargo xtask dist sbom` and `dist sums`: what the program is made of, and the checksums of all that is handed
//! out.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::alone::MUSL;
use super::tree::files_below;
use super::{DistBuild, epoch, release, tell_size};
use crate::run::{StepOutcome, output, root, run};
use crate::tools::cargo_with;

/// A list of all crates in the program for Linux, with versions, licences and sums (CycloneDX 1.5).
pub(super) fn bill(_build: &DistBuild) -> Result<StepOutcome> {
    let file = format!("{BILL}.json");
    let made = run(cargo_with("cargo-cyclonedx", CYCLONEDX)?
        // Without it there would be the time of today and a number drawn by chance.
        .env("SOURCE_DATE_EPOCH", epoch()?)
        .args(["cyclonedx", "--quiet", "--manifest-path", "crates/cli/Cargo.toml", "--target", MUSL])
        .args(["--format", "json", "--spec-version", "1.5", "--override-filename", BILL]));
    let text = fs::read_to_string(root().join("crates/cli").join(&file));
    // It writes one beside the manifest of each crate of the workspace.
    for folder in folders_of_crates()? {
        let file = folder.join(&file);
        if file.is_file() {
            fs::remove_file(&file)?;
        }
    }
    made?;
    // The places of the crates on this machine are names there.
    let text = text?.replace(&format!("file://{}", root().display()), "file:///src");
    lists_the_lock(&text)?;
    let bill = release().join(format!("quickset-{}.cdx.json", env!("CARGO_PKG_VERSION")));
    fs::write(&bill, text)?;
    tell_size(&bill)?;
    Ok(StepOutcome::Done)
}

fn folders_of_crates() -> Result<Vec<PathBuf>> {
    let mut folders = vec![root().join("xtask")];
    for entry in fs::read_dir(root().join("crates"))? {
        folders.push(entry?.path());
    }
    Ok(folders)
}

/// Each crate that cargo says the program is made of is in the list, in that version.
fn lists_the_lock(text: &str) -> Result<()> {
    let bill: Value = serde_json::from_str(text).context("the bill of materials is JSON")?;
    ensure!(
        bill["bomFormat"] == "CycloneDX" && bill["specVersion"] == "1.5",
        "another format: {}",
        bill["specVersion"]
    );
    let listed = bill["components"].as_array().context("it lists components")?;
    let tree = ["tree", "--locked", "--package", "quickset-cli", "--edges", "normal", "--prefix", "none"];
    let tree =
        output(crate::run::cargo().args(tree).args(["--target", MUSL, "--no-dedupe", "--format", "{p}"]))?;
    for line in tree.lines().skip(1) {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let version = version.trim_start_matches('v');
        ensure!(
            listed.iter().any(|one| one["name"] == name && one["version"] == version),
            "the bill of materials has no {name} {version}"
        );
    }
    println!("{} crates are listed", listed.len());
    Ok(())
}

/// SHA-256 of all that lies in the folder of the release, checked as whoever downloads it does.
pub(super) fn sums(_build: &DistBuild) -> Result<StepOutcome> {
    let release = release();
    let mut lines = String::new();
    for file in files_below(&release)?.iter().filter(|file| *file != SUMS) {
        // As sha256sum writes them.
        writeln!(lines, "{}  {file}", sha256(&release.join(file))?)?;
    }
    ensure!(!lines.is_empty(), "there is nothing in {}; make the other parts first", release.display());
    fs::write(release.join(SUMS), lines)?;
    run(Command::new("sha256sum").args(["--check", "--strict", "--quiet", SUMS]).current_dir(&release))?;
    Ok(StepOutcome::Done)
}

/// The checksum of a file, in hexadecimal digits.
pub(super) fn sha256(file: &Path) -> Result<String> {
    let said = output(Command::new("sha256sum").arg("--binary").arg(file))?;
    let sum = said.split([' ', '*']).next().unwrap_or_default().trim_start_matches('\\').to_owned();
    ensure!(sum.len() == 64, "sha256sum says {said:?}");
    Ok(sum)
}

const BILL: &str = "quickset.cdx";
/// What it writes, and where, has changed between versions.
const CYCLONEDX: &str = "=0.5.9";
const SUMS: &str = "SHA256SUMS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_the_one_of_the_standard() {
        let file = std::env::temp_dir().join(format!("quickset-sum-{}", std::process::id()));
        fs::write(&file, "abc").unwrap();
        let sum = sha256(&file);
        fs::remove_file(&file).unwrap();
        // FIPS 180-2, appendix B.1.
        assert_eq!(sum.unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(sha256(Path::new("/no/such/file")).is_err());
    }
}
