//! `cargo xtask dist wheels`: the packages for Python, each a wheel for every CPython from 3.9 on, looked at by
//! twine and auditwheel, and tried in a new environment that has nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::{DistBuild, emptied, epoch, release, tell_size, work};
use crate::places::PlaceNames;
use crate::python;
use crate::run::{StepOutcome, output, root, run};

/// A package for Python, and what is done with it where nothing else is installed.
struct DistWheel {
    /// As pip calls it.
    name: &'static str,
    folder: &'static str,
    /// What is installed along with it: an extra.
    extra: &'static str,
    trial: fn(&CleanEnv) -> Result<()>,
}

const WHEELS: &[DistWheel] = &[
    DistWheel { name: "quickset_lab", folder: "python", extra: "[plot]", trial: figure },
    DistWheel { name: "quickset", folder: "python-quic", extra: "", trial: echo },
];

/// The wheel `quickset`, made in the folder of what is put together.
///
/// # Errors
/// Also where there is no Python to make it with.
pub(super) fn of_quic(build: &DistBuild) -> Result<PathBuf> {
    if let Some(missing) = python::missing() {
        bail!("{missing}");
    }
    let (tools, made) = (tools()?, work().join("wheel"));
    emptied(&made)?;
    let wheel = WHEELS.iter().find(|wheel| wheel.folder == "python-quic").context("there is that one")?;
    wheel.build(&tools.join("venv/bin"), &made, build)
}

/// The folder of the programs that make and look at wheels.
fn tools() -> Result<PathBuf> {
    let tools = work().join("wheels");
    python::environment(&tools, "packaging/requirements-dist.txt")?;
    Ok(tools)
}

pub(super) fn part(build: &DistBuild) -> Result<StepOutcome> {
    if let Some(missing) = python::missing() {
        return Ok(StepOutcome::Skipped(missing));
    }
    let tools = tools()?;
    let bin = tools.join("venv/bin");
    let made = tools.join("made");
    emptied(&made)?;
    for wheel in WHEELS {
        let file = wheel.build(&bin, &made, build)?;
        run(Command::new(bin.join("twine")).args(["check", "--strict"]).arg(&file))?;
        look(&bin, &file)?;
        let place = CleanEnv::new(&tools.join(wheel.name), &format!("{}{}", file.display(), wheel.extra))?;
        (wheel.trial)(&place)?;
        let handed = release().join(file.file_name().context("a wheel has a name")?);
        std::fs::copy(&file, &handed)?;
        tell_size(&handed)?;
    }
    Ok(StepOutcome::Done)
}

impl DistWheel {
    fn build(&self, bin: &Path, to: &Path, how: &DistBuild) -> Result<PathBuf> {
        let target = root().join("target");
        let mut maturin = Command::new(bin.join("maturin"));
        maturin.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(self.manifest());
        // It looks for a tool that makes a foreign library a part of the wheel, which ours needs none of.
        maturin.args(["--auditwheel", "check", "--interpreter"]).arg(bin.join("python")).arg("--out").arg(to);
        maturin.env("CARGO_TARGET_DIR", &target);
        if how.is_for_others() {
            let places = PlaceNames::of_this_machine()?;
            maturin.arg("--release").env("RUSTFLAGS", places.of_rust()).env("SOURCE_DATE_EPOCH", epoch()?);
            maturin.env("CFLAGS", places.of_c()).env("CXXFLAGS", places.of_c());
        }
        run(&mut maturin)?;
        let begin = format!("{}-", self.name);
        let files = std::fs::read_dir(to)?.map(|entry| entry.map(|entry| entry.path()));
        for file in files.collect::<Result<Vec<_>, _>>()? {
            if file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&begin)) {
                return Ok(file);
            }
        }
        bail!("maturin made no wheel {begin}* in {}", to.display())
    }

    fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// What auditwheel says of it: on which systems it runs; and what is in it.
fn look(bin: &Path, file: &Path) -> Result<()> {
    let said = output(Command::new(bin.join("auditwheel")).arg("show").arg(file))?;
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    println!("{said}");
    let name = file.to_string_lossy();
    ensure!(name.contains("-cp39-abi3-"), "{name} is not for every CPython from 3.9 on");
    ensure!(
        name.contains("manylinux_")
            && said.contains("consistent with the following platform tag: \"manylinux_"),
        "{name} needs what other systems may lack: {said}"
    );
    let list = output(Command::new(bin.join("python")).args(["-m", "zipfile", "--list"]).arg(file))?;
    for part in ["_native.abi3.so", "py.typed", "_native.pyi", "licenses/LICENSE-MIT", "METADATA"] {
        ensure!(list.contains(part), "{name} has no {part}:\n{list}");
    }
    Ok(())
}

/// An environment that was made for one wheel.
struct CleanEnv {
    folder: PathBuf,
}

impl CleanEnv {
    fn new(folder: &Path, wheel: &str) -> Result<Self> {
        emptied(folder)?;
        let place = Self { folder: folder.to_owned() };
        run(Command::new(python::interpreter(python::OLDEST)?)
            .args(["-m", "venv"])
            .arg(folder.join("venv")))?;
        run(place
            .program("pip")
            .args(["install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"])
            .arg(wheel))?;
        Ok(place)
    }

    /// A program of it, run outside of the repository: what is there must not be taken for the package.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join("venv/bin").join(name));
        command.current_dir(&self.folder).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

/// Figure 9 is redrawn within two minutes of processor time, of which a machine with two cores needs half.
fn figure(place: &CleanEnv) -> Result<()> {
    let said = output(place.program("python").args(["-m", "quickset_lab.figure9"]))?;
    print!("{said}");
    let picture = std::fs::read(place.folder.join("figure9.png")).context("there is no figure9.png")?;
    ensure!(picture.starts_with(b"\x89PNG"), "figure9.png is no picture");
    let seconds = processor_seconds(&said).context("the command says how long it took")?;
    ensure!(seconds < 120.0, "the figure took {seconds} s of processor time, and two minutes are the limit");
    Ok(())
}

/// Of the last line of the command.
fn processor_seconds(said: &str) -> Option<f64> {
    let words: Vec<&str> = said.lines().last()?.split_whitespace().collect();
    let at = words.windows(4).position(|words| words[1..] == ["s", "of", "processor"])?;
    words[at].parse().ok()
}

/// A client and a server say something to each other.
fn echo(place: &CleanEnv) -> Result<()> {
    run(place.program("python").arg(root().join("python-quic/examples/echo.py")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_have_the_version_of_the_workspace() {
        for wheel in WHEELS {
            let manifest = std::fs::read_to_string(root().join(wheel.manifest())).unwrap();
            // The first one is that of the package; those of others stand within braces.
            let version = manifest.lines().find_map(|line| line.strip_prefix("version = "));
            assert_eq!(version, Some(concat!("\"", env!("CARGO_PKG_VERSION"), "\"")), "{}", wheel.folder);
        }
    }

    #[test]
    fn the_time_stands_in_the_last_line() {
        let said = "blocking_ms total none p80 1.0 ms\nfigure9.png: drawn with 31.4 s of processor time\n";
        assert_eq!(processor_seconds(said), Some(31.4));
        assert_eq!(processor_seconds("nothing\n"), None);
        assert_eq!(processor_seconds(""), None);
    }
}
