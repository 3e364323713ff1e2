//! Running other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// How a step ended, if not by failing.
pub(crate) enum StepOutcome {
    /// It ran.
    Done,
    /// It could not run here; the reason.
    Skipped(String),
    /// This failed at first, and not when it was tried again.
    Again(String),
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the root of the repository").to_path_buf()
}

/// The cargo that runs us. Property tests draw the same cases each time, unless the environment says
/// otherwise: what is red after a change is red for the change. `cargo test` draws others each time.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    if std::env::var_os(CASES).is_none() {
        cargo.env(CASES, "1");
    }
    cargo
}

/// The same for a workspace beside ours, in our target folder: what both depend on is built once.
pub(crate) fn cargo_beside() -> Command {
    let mut cargo = cargo();
    cargo.env("CARGO_TARGET_DIR", root().join("target"));
    cargo
}

/// proptest's name for its seed.
const CASES: &str = "PROPTEST_RNG_SEED";

/// Runs `command` with its output on ours; a failure names the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = shown(command);
    // Of what is printed, results alone are for others to read.
    eprintln!("$ {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs `command` and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let out = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !out.status.success() {
        bail!("`{line}` failed ({})", out.status);
    }
    String::from_utf8(out.stdout).with_context(|| format!("`{line}` printed something that is not UTF-8"))
}

/// True when a program of that name is on the PATH.
pub(crate) fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// How one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let mut line = program.into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}
