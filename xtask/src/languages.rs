//! `cargo xtask languages`: programs in C, Python and Rust with each other, over a path that loses packets; and
//! HTTP/3 and WebTransport from Python with aioquic, pywebtransport, the command `quickset`, and Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::c;
use crate::python::{self, VirtualEnv};
use crate::run::{StepOutcome, cargo, on_path, root, run};

/// Builds the programs and runs the tests of python-quic/languages, or those with a word in their names.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let word = match args {
        [] => "",
        [flag, word] if flag == "--only" => word,
        _ => bail!("write languages [--only WORD]"),
    };
    let packages = ["quickset", "quickset-ffi", "quickset-cli"];
    let packages = packages.into_iter().flat_map(|name| ["--package", name]);
    let what = ["--lib", "--bins", "--example", "languages"];
    match play(word, cargo().args(["build", "--locked"]).args(packages).args(what))? {
        StepOutcome::Done | StepOutcome::Again(_) => Ok(()),
        StepOutcome::Skipped(why) => bail!("{why}"),
    }
}

/// The step of `cargo xtask test`: over the path that loses, which tells most.
pub(crate) fn step() -> Result<StepOutcome> {
    // As the step of the tests builds all, so that nothing is built twice.
    play(SHORT, cargo().args(["test", "--workspace", "--locked", "--no-run"]))
}

fn play(word: &str, build: &mut Command) -> Result<StepOutcome> {
    if let Some(reason) = python::missing() {
        return Ok(StepOutcome::Skipped(reason));
    }
    let Some(compiler) = ["gcc", "clang"].into_iter().find(|name| on_path(name)) else {
        return Ok(StepOutcome::Skipped("there is no gcc and no clang".into()));
    };
    run(build)?;
    let (target, folder) = (c::target().join("debug"), root().join("target/languages"));
    fs::create_dir_all(&folder)?;
    for (from, name) in [("quickset", "quickset"), ("examples/languages", "languages-rust")] {
        link(&target.join(from), &folder.join(name))?;
    }
    run(Command::new(compiler)
        .args(c::STRICT)
        .arg("-I")
        .arg(root().join("crates/ffi/include"))
        .arg(root().join("crates/ffi/tests/c/languages.c"))
        .arg(target.join("deps/libquickset_ffi.a"))
        .args(c::PRIVATE.split(' '))
        .arg("-o")
        .arg(folder.join("languages-c")))?;

    let place = VirtualEnv::of_quic("languages")?;
    place.install(&[])?;
    let mut pytest = place.program("pytest");
    pytest.args(["-q", "-p", "no:cacheprovider", "--durations=3", "python-quic/languages"]);
    if !word.is_empty() {
        pytest.args(["-k", word]);
    }
    if word != SHORT {
        match other_sessions() {
            Ok(other) => drop(pytest.env("QUICKSET_PYWEBTRANSPORT", other)),
            Err(why) => println!("without pywebtransport: {why:#}"),
        }
    }
    run(pytest.env("PYTHONDONTWRITEBYTECODE", "1").env("QUICKSET_LANGUAGES", &folder))?;
    Ok(StepOutcome::Done)
}

/// A Python that has pywebtransport, which `cargo xtask interop` has, too.
fn other_sessions() -> Result<PathBuf> {
    let home = root().join("target/interop/webtransport_py");
    python::environment_of((3, 12), &home, "peers/interop/programs/webtransport_py/requirements.txt")?;
    Ok(home.join("venv/bin/python"))
}

/// The tests for which there is time with each change.
const SHORT: &str = "lossy or command";

/// Has a file under another name, too.
fn link(file: &Path, name: &Path) -> Result<()> {
    if name.exists() {
        fs::remove_file(name)?;
    }
    fs::hard_link(file, name).with_context(|| format!("{} cannot be had", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_errors() {
        for slip in [&["--only"][..], &["lossy"], &["--only", "a", "b"]] {
            let words: Vec<String> = slip.iter().map(|&word| word.to_owned()).collect();
            assert!(command(&words).is_err(), "{slip:?}");
        }
    }
}
