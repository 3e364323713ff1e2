//! What rows of results say of the build, for the build scripts of the command and of the Python package: the
//! commit, and where the code differs from it a `+` and a sum of the code. So rows of two states of one tree
//! are not mixed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of the state of the repository at `root`: `0123456789ab`, or `0123456789ab+fedcba9876543210`.
pub(crate) fn name(root: &Path) -> String {
    let inputs = inputs(root);
    match describe(root) {
        Some(commit) if is_clean(root, &inputs) => commit,
        commit => {
            let commit = commit.unwrap_or_else(|| UNKNOWN.to_owned());
            if inputs.is_empty() { commit } else { format!("{commit}+{:016x}", sum(root, &inputs)) }
        }
    }
}

/// What the name depends on: the code of all crates, and where git notes that the tree is of another commit.
pub(crate) fn watched(root: &Path) -> Vec<PathBuf> {
    let mut watched: Vec<PathBuf> = inputs(root).iter().map(|path| root.join(path)).collect();
    // The log of HEAD grows with each commit, checkout and reset. In a second work tree it lies elsewhere.
    watched.extend(git(root, &["rev-parse", "--git-path", "logs/HEAD"]).map(|path| root.join(path)));
    watched
}

/// The files and folders that a build is made of, as paths from the root, in order.
fn inputs(root: &Path) -> Vec<PathBuf> {
    let mut inputs: Vec<PathBuf> = ["Cargo.toml", "Cargo.lock"].map(PathBuf::from).into();
    for folder in entries(&root.join("crates")) {
        let Some(name) = folder.file_name() else { continue };
        let parts = ["Cargo.toml", "build.rs", "src", "data"];
        inputs.extend(parts.map(|part| Path::new("crates").join(name).join(part)));
    }
    inputs.retain(|path| root.join(path).exists());
    inputs
}

/// Whether git knows of no difference, files that it does not know included.
fn is_clean(root: &Path, inputs: &[PathBuf]) -> bool {
    // It would write what it finds into the index, which others may be using.
    let words =
        ["--no-optional-locks", "status", "--porcelain", "--untracked-files=all", "--"].map(OsStr::new);
    let words: Vec<&OsStr> = words.into_iter().chain(inputs.iter().map(|path| path.as_os_str())).collect();
    git(root, &words).is_some_and(|changes| changes.is_empty())
}

fn describe(root: &Path) -> Option<String> {
    git(root, &["describe", "--always", "--abbrev=12"])
}

fn git(root: &Path, words: &[impl AsRef<OsStr>]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// FNV-1a of names and contents: it keeps states apart that differ by chance, and that is all it has to.
fn sum(root: &Path, inputs: &[PathBuf]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325;
    for path in inputs {
        add(root, path, &mut sum);
    }
    sum
}

fn add(root: &Path, path: &Path, sum: &mut u64) {
    let whole = root.join(path);
    if whole.is_dir() {
        for name in entries(&whole).iter().filter_map(|entry| entry.file_name()) {
            add(root, &path.join(name), sum);
        }
        return;
    }
    let content = fs::read(&whole).unwrap_or_default();
    // A separator is the same everywhere.
    let name = path.to_string_lossy().replace('\\', "/");
    for part in [name.as_bytes(), &content] {
        let length = (part.len() as u64).to_le_bytes();
        for byte in length.iter().chain(part) {
            *sum = (*sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// What lies in a folder, in the order of names.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// Where there is no git.
const UNKNOWN: &str = "unknown";
