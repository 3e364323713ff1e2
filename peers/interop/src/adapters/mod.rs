//! The other stacks: how to run each, and what each lacks. One line each in [`PEERS`].

mod aioquic;
mod chromium;
mod curl;
mod quiche;
pub(crate) mod quickset;
mod quinn;
mod s2n;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::play::PlayRole;

/// Another stack.
pub(crate) struct OtherStack {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// It speaks HTTP/3 only: then all cases go over it.
    pub(crate) h3_only: bool,
    /// It loads pages.
    pub(crate) browser: bool,
    /// The program and the arguments that come first, or why there is none.
    pub(crate) program: fn(&Folders) -> Result<Vec<OsString>>,
    /// Why it cannot play a case in a role.
    pub(crate) lacks: fn(case: &str, role: PlayRole) -> Option<&'static str>,
    /// Which fault of its own, that somebody reported, has it stand still in a case and a role now and then.
    /// Such a cell is played again.
    pub(crate) stalls: fn(case: &str, role: PlayRole) -> Option<&'static str>,
}

pub(crate) const PEERS: &[OtherStack] =
    &[quinn::PEER, quiche::PEER, s2n::PEER, aioquic::PEER, curl::PEER, chromium::PEER];

/// Where things are.
pub(crate) struct Folders {
    /// Programs that are not built in.
    pub(crate) programs: PathBuf,
    /// A Python with what the programs import.
    pub(crate) python: Option<PathBuf>,
}

/// This program, playing a stack that is built in.
pub(crate) fn own(name: &str) -> Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe()?.into(), "play".into(), "--peer".into(), name.into()])
}

/// A program in Python.
fn script(place: &Folders, name: &str, module: &str) -> Result<Vec<OsString>> {
    let Some(python) = &place.python else { anyhow::bail!("no Python with {module}: --python says which") };
    let found = std::process::Command::new(python).args(["-c", &format!("import {module}")]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        anyhow::bail!("{} has no {module}", python.display());
    }
    Ok(vec![python.into(), place.programs.join(name).into()])
}

/// A program on the PATH.
fn on_path(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| is_file(&dir.join(name))))
}

fn is_file(path: &Path) -> bool {
    path.is_file()
}
