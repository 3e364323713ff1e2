//! `cargo xtask dist twice`: whether what is handed out is the same, byte for byte, when it is built again from
//! a clone in another folder, with nothing of what was built here.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::sums::sha256;
use super::tree::files_below;
use super::{DistBuild, emptied, make, release, work};
use crate::run::{cargo, output, root, run};

/// Makes these parts, or those that depend on compilers and packers alone, here and elsewhere.
///
/// # Errors
/// When something differs, and which files.
pub(super) fn command(build: &DistBuild, names: &[&str]) -> Result<()> {
    ensure!(build.program.is_none(), "only what is built here can be built again");
    let names = if names.is_empty() { USUAL } else { names };
    ensure!(
        output(Command::new("git").args(["status", "--porcelain"]))?.is_empty(),
        "a clone has only what is committed: commit first"
    );
    make(build, names)?;
    // Another path, and of another length.
    let place = work().join("elsewhere/a-folder-of-another-name");
    emptied(&place)?;
    let clone = place.join("clone");
    run(Command::new("git").args(["clone", "--quiet", "--local", "--no-tags"]).arg(root()).arg(&clone))?;
    let tools = root().join("target/tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([tools]);
    run(cargo()
        .args(["xtask", "dist", "--profile", &build.profile])
        .args(names)
        .current_dir(&clone)
        .env_remove("CARGO_TARGET_DIR")
        // Programs that were built here only drive others.
        .env("PATH", std::env::join_paths(folders).context("a folder of PATH has a colon in its name")?))?;
    let other = clone.join("target/dist/release");
    let (mut same, mut differ) = (0, Vec::new());
    for file in files_below(&other)? {
        let sums = [release().join(&file), other.join(&file)].map(|path| sha256(&path));
        match sums {
            [Ok(here), Ok(there)] if here == there => {
                println!("same    {here}  {file}");
                same += 1;
            }
            _ => {
                println!("DIFFERS {file}");
                differ.push(file);
            }
        }
    }
    ensure!(same > 0 || !differ.is_empty(), "nothing was made in {}", other.display());
    if !differ.is_empty() {
        bail!("not the same in {}: {}", other.display(), differ.join(", "));
    }
    println!("{same} files are the same, built in two folders");
    fs::remove_dir_all(work().join("elsewhere"))?;
    Ok(())
}

/// Not wheels and packages for npm, which would fetch their tools again; name them to have them, too.
const USUAL: &[&str] = &["deb", "static", "rpm", "image", "source", "sbom"];
