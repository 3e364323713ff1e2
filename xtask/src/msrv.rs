//! The oldest supported compiler, from Debian: its package `rustc-web` is unpacked under `target/msrv`,
//! so that nothing is installed on the system and no root is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::needs::{apt_update, is_root};
use crate::run::{StepOutcome, cargo, on_path, output, root, run};

/// The `rust-version` of the workspace; a test compares them.
const MSRV: &str = "1.85";

/// The compiler, its library, the C and std parts. Each is the version that Debian 12 carries in `main`.
const PACKAGES: &[&str] =
    &["rustc-web=1.85*", "libstd-rust-web-dev=1.85*", "libstd-rust-web-1.85", "libllvm19"];

/// All of the workspace.
pub(crate) fn command(_args: &[String]) -> Result<()> {
    if let StepOutcome::Skipped(reason) = check(&["--workspace"])? {
        println!("skipped: {reason}");
    }
    Ok(())
}

/// The step of `cargo xtask test`: what an application builds on. The rest, the laboratory and the command,
/// has as many dependencies again.
pub(crate) fn step() -> Result<StepOutcome> {
    check(&["--package", "quickset"])
}

fn check(what: &[&str]) -> Result<StepOutcome> {
    let folder = root().join("target/msrv");
    let toolchain = folder.join("toolchain");
    let rustc = toolchain.join("usr/bin/rustc");
    if !rustc.is_file() {
        if !on_path("apt-get") || !on_path("dpkg") {
            return Ok(StepOutcome::Skipped(format!(
                "Rust {MSRV} is taken from Debian's packages, which are not here"
            )));
        }
        if let Err(error) = unpack(&folder, &toolchain) {
            return Ok(StepOutcome::Skipped(format!(
                "Debian has no Rust {MSRV} for this machine: {error:#}"
            )));
        }
    }
    let libraries = libraries(&toolchain)?;
    let version = output(Command::new(&rustc).env("LD_LIBRARY_PATH", &libraries).arg("-V"))?;
    println!("{}", version.trim());
    run(cargo()
        .env("RUSTC", &rustc)
        .env("LD_LIBRARY_PATH", &libraries)
        .arg("check")
        .args(what)
        .args(["--locked", "--target-dir"])
        .arg(folder.join("build")))?;
    Ok(StepOutcome::Done)
}

fn unpack(folder: &Path, toolchain: &Path) -> Result<()> {
    let (packages, half) = (folder.join("packages"), folder.join("half"));
    for dir in [&packages, &half] {
        // A former attempt may have stopped in between.
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
        fs::create_dir_all(dir)?;
    }
    let download =
        || run(Command::new("apt-get").current_dir(&packages).args(["download", "-q"]).args(PACKAGES));
    if let Err(error) = download() {
        if !is_root() {
            return Err(error);
        }
        apt_update()?;
        download()?;
    }
    for package in fs::read_dir(&packages)? {
        run(Command::new("dpkg").arg("-x").arg(package?.path()).arg(&half))?;
    }
    // Last, so that the compiler is there whole or not at all.
    fs::rename(&half, toolchain)?;
    fs::remove_dir_all(&packages)?;
    Ok(())
}

/// Where the compiler's shared libraries lie: `usr/lib/<triplet>`.
fn libraries(toolchain: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(toolchain.join("usr/lib"))? {
        let path = entry?.path();
        let is_triplet = path.file_name().is_some_and(|n| n.to_string_lossy().ends_with("-linux-gnu"));
        if is_triplet {
            return Ok(path);
        }
    }
    None.context("the unpacked compiler has no folder of libraries")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_workspace() {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a manifest");
        assert!(manifest.contains(&format!("rust-version = \"{MSRV}\"")));
    }
}
