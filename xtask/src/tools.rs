//! Cargo's subcommands that are not there: built below `target/`, and nothing is installed on the system.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::run::{cargo, on_path, root, run};

/// `cargo SUBCOMMAND`, of the program and the versions of it that are named. To build it takes some minutes,
/// once.
pub(crate) fn cargo_with(program: &str, version: &str) -> Result<Command> {
    let tools = root().join("target/tools");
    let bin = tools.join("bin");
    let mut command = cargo();
    if !on_path(program) {
        if !bin.join(program).is_file() {
            // Not optimized: they drive other programs, and to optimize them would take longer than all that
            // they do.
            let install = ["install", program, "--debug", "--locked", "--version", version, "--root"];
            run(cargo().args(install).arg(&tools))?;
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain([bin]);
        command
            .env("PATH", std::env::join_paths(folders).context("a folder of PATH has a colon in its name")?);
    }
    Ok(command)
}
