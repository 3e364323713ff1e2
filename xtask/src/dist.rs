//! `cargo xtask dist`: the command as it is handed out, without what only a debugger reads, and that beside
//! it; in a package for Debian; and as a program that needs no library of the system.

mod alone;
mod check;
mod deb;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::needs::{Needed, Sign};
use crate::run::{cargo, run};

pub(crate) fn command(args: &[String]) -> Result<()> {
    let (profile, rest) = match args {
        [option, name, rest @ ..] if option == "--profile" => (name.as_str(), rest),
        rest => ("dist", rest),
    };
    match rest.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["program"] => handed(profile, None).map(drop),
        [] | ["deb"] => deb::package(&handed(profile, None)?, 1).map(drop),
        ["static"] => alone::command(profile),
        ["all"] => {
            deb::package(&handed(profile, None)?, 1)?;
            alone::command(profile)
        }
        ["check"] => check::check(profile),
        _ => bail!(
            "{rest:?} is not understood; usage: cargo xtask dist [--profile NAME] [program | deb | static | all | check]"
        ),
    }
}

/// Builds the program and returns the folder of what is handed out.
fn handed(profile: &str, triple: Option<&str>) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--locked", "--package", "quickset-cli", "--profile", profile]);
    let mut folder = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    if let Some(triple) = triple {
        build.args(["--target", triple]);
        folder.push(triple);
    }
    run(&mut build)?;
    folder.push(if profile == "dev" { "debug" } else { profile });
    let (built, handed) = (folder.join("quickset"), folder.join("handed"));
    std::fs::create_dir_all(&handed)?;
    let [program, debug] = ["quickset", "quickset.debug"].map(|name| handed.join(name));
    // In this order: the last one notes the sum of the other file in the program, by which debuggers find it
    // beside it.
    let copy = |options: &[&str], from: &Path, to: &Path| {
        run(Command::new("objcopy").args(options).arg(from).arg(to))
            .context("objcopy is of the package binutils")
    };
    copy(&["--only-keep-debug", "--compress-debug-sections"], &built, &debug)?;
    copy(&["--strip-debug", "--strip-unneeded", "--remove-section=.comment"], &built, &program)?;
    run(Command::new("objcopy")
        .current_dir(&handed)
        .args(["--add-gnu-debuglink=quickset.debug", "quickset"]))?;
    for file in [&built, &program, &debug] {
        tell_size(file)?;
    }
    Ok(handed)
}

fn tell_size(file: &Path) -> Result<()> {
    let size = file.metadata().with_context(|| format!("{} is not there", file.display()))?.len();
    println!("{:>12} bytes  {}", size, file.display());
    Ok(())
}

/// What a package takes to be made.
const NEEDS: &[Needed] = &[
    Needed { sign: Sign::Program("dpkg-deb"), package: "dpkg", why: "dist: packages" },
    Needed { sign: Sign::Program("dpkg-shlibdeps"), package: "dpkg-dev", why: "dist: on what it depends" },
    Needed { sign: Sign::Program("objcopy"), package: "binutils", why: "dist: what debuggers read" },
];
