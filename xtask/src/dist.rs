//! `cargo xtask dist`: the command as it is handed out, without what only a debugger reads, and that beside
//! it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, run};

pub(crate) fn command(args: &[String]) -> Result<()> {
    let profile = match args {
        [] => "dist",
        [option, name] if option == "--profile" => name,
        _ => bail!("{args:?} is not understood; usage: cargo xtask dist [--profile NAME]"),
    };
    run(cargo().args(["build", "--locked", "--package", "quickset-cli", "--profile", profile]))?;
    let folder = Path::new("target").join(if profile == "dev" { "debug" } else { profile });
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
    copy(&["--strip-debug", "--strip-unneeded"], &built, &program)?;
    run(Command::new("objcopy")
        .current_dir(&handed)
        .args(["--add-gnu-debuglink=quickset.debug", "quickset"]))?;
    for file in [&built, &program, &debug] {
        let size = file.metadata().with_context(|| format!("{} is not there", file.display()))?.len();
        println!("{:>12} bytes  {}", size, file.display());
    }
    Ok(())
}
