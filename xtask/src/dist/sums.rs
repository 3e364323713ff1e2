//! `cargo xtask dist sbom` and `dist sums`: what the program is made of, and the checksums of all that is handed
//! out.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::alone::MUSL;
use super::recipes::windows_archive;
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

/// Takes away what an earlier call has made, so that no file of another version or commit is handed out with
/// what is made now. The program for Windows stays, which a person has brought from another machine.
pub(super) fn cleared(release: &Path) -> Result<()> {
    if !release.is_dir() {
        return Ok(());
    }
    let kept = windows_archive(env!("CARGO_PKG_VERSION"));
    for file in files_below(release)?.iter().filter(|file| **file != kept) {
        println!("of before, removed: {file}");
        fs::remove_file(release.join(file)).with_context(|| format!("{file} cannot be removed"))?;
    }
    Ok(())
}

/// SHA-256 of all that lies in the folder of the release, checked as whoever downloads it does.
pub(super) fn sums(_build: &DistBuild) -> Result<StepOutcome> {
    let release = release();
    let commit = output(Command::new("git").args(["log", "-1", "--format=%ct"]))?;
    let commit = commit.trim().parse().context("git tells the time of a commit in seconds")?;
    let stale = made_before(&release, UNIX_EPOCH + Duration::from_secs(commit))?;
    ensure!(
        stale.is_empty(),
        "{} is older than the commit; make it again, or all by `cargo xtask dist all`",
        stale.join(", ")
    );
    // It was of other sums.
    let signature = release.join(format!("{SUMS}.asc"));
    if signature.is_file() {
        fs::remove_file(&signature)?;
    }
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

/// The files that were last written before a time. What a person has brought for this version has any time.
fn made_before(release: &Path, time: SystemTime) -> Result<Vec<String>> {
    let kept = windows_archive(env!("CARGO_PKG_VERSION"));
    let mut old = Vec::new();
    for file in files_below(release)? {
        let written = release.join(&file).metadata()?.modified()?;
        if written < time && file != kept && !file.starts_with(SUMS) {
            old.push(file);
        }
    }
    Ok(old)
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

    /// A folder with files of which each is as old as is said, in seconds since 1970.
    fn folder(name: &str, files: &[(&str, u64)]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("quickset-{name}-{}", std::process::id()));
        for (file, time) in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("it lies in the folder")).unwrap();
            let made = fs::File::create(path).unwrap();
            made.set_modified(UNIX_EPOCH + Duration::from_secs(*time)).unwrap();
        }
        folder
    }

    #[test]
    fn of_an_earlier_release_only_what_a_person_has_brought_stays() {
        let brought = windows_archive(env!("CARGO_PKG_VERSION"));
        let older = windows_archive("0.0.1");
        let files =
            [(brought.as_str(), 9), (older.as_str(), 9), ("a_0.0.1_amd64.deb", 9), ("winget/a.yaml", 9)];
        let folder = folder("cleared", &files);
        let cleared = cleared(&folder);
        let left = files_below(&folder);
        fs::remove_dir_all(&folder).unwrap();
        cleared.unwrap();
        assert_eq!(left.unwrap(), [brought]);
        assert!(super::cleared(&folder).is_ok(), "where there is no folder, nothing is of before");
    }

    #[test]
    fn what_is_older_than_the_commit_is_named() {
        let brought = windows_archive(env!("CARGO_PKG_VERSION"));
        let older = windows_archive("0.0.1");
        let files = [(brought.as_str(), 1), (older.as_str(), 1), ("b.deb", 99), ("c.deb", 100), (SUMS, 1)];
        let folder = folder("stale", &files);
        let stale = made_before(&folder, UNIX_EPOCH + Duration::from_secs(100));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(stale.unwrap(), ["b.deb".to_owned(), older]);
    }
}
