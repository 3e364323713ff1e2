//! `cargo xtask python` and `cargo xtask cluster`: the Python packages, built, installed into virtual
//! environments below `target/`, and tested; and the recipes of docs/cluster.md.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::needs::{self, Needed, Sign};
use crate::run::{StepOutcome, cargo, cargo_beside, root, run};

/// Builds the packages, or those that are named, and runs their tests; or `bench`: the comparison with
/// aioquic.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let known = [LAB, QUIC];
    let bench = args.split_first().filter(|(first, _)| *first == "bench").map(|(_, rest)| rest);
    let args = if bench.is_some() { &[] } else { args };
    if let Some(unknown) = args.iter().find(|name| known.iter().all(|package| package.name != **name)) {
        bail!("there is no Python package {unknown:?}; there are lab and quic, and there is bench");
    }
    if let Some(reason) = missing() {
        bail!("{reason}");
    }
    if let Some(args) = bench {
        return compare(args);
    }
    let wanted = |package: &&PythonPackage| args.is_empty() || args.iter().any(|name| name == package.name);
    known.iter().filter(wanted).try_for_each(PythonPackage::test)
}

/// Plays the loads of `python-quic/bench` with Quickset and with aioquic, in turns.
fn compare(args: &[String]) -> Result<()> {
    let place = VirtualEnv::new(&QUIC, "bench")?;
    place.install(&["--release"])?;
    run(place.program("python").arg("python-quic/bench/compare.py").args(args))
}

/// A package for Python, which is a workspace of its own.
struct PythonPackage {
    name: &'static str,
    folder: &'static str,
    /// What it is installed into for its tests, below `target/python`.
    environment: &'static str,
    /// Checked by mypy and ruff here. Where it is not, a test of the package calls mypy.
    is_linted: bool,
}

impl PythonPackage {
    fn test(&self) -> Result<()> {
        let place = VirtualEnv::new(self, self.environment)?;
        checks(self, &place)?;
        place.install(&[])?;
        if self.is_linted {
            self.lint(&place)?;
        }
        run(place
            .program("pytest")
            .args(["-q", "-p", "no:cacheprovider"])
            .arg(Path::new(self.folder).join("tests"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("MPLBACKEND", "Agg"))
    }

    fn lint(&self, place: &VirtualEnv) -> Result<()> {
        run(place.program("ruff").args(["check", "--quiet", "--no-cache", self.folder]))?;
        run(place.program("ruff").args(["format", "--quiet", "--check", "--no-cache", self.folder]))?;
        let nowhere = if cfg!(windows) { "nul" } else { "/dev/null" };
        run(place
            .program("mypy")
            .args(["--no-error-summary", "--cache-dir", nowhere])
            .current_dir(root().join(self.folder)))
    }

    fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// The step of `cargo xtask test`.
pub(crate) fn step() -> Result<StepOutcome> {
    match missing() {
        Some(reason) => Ok(StepOutcome::Skipped(reason)),
        None => command(&[]).map(|()| StepOutcome::Done),
    }
}

/// The recipes of docs/cluster.md give what one process alone gives. Not a step of the tests: Ray is large.
pub(crate) fn cluster(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("cluster takes no arguments");
    }
    if let Some(reason) = missing() {
        bail!("{reason}");
    }
    needs::ensure(CLUSTER_NEEDS)?;
    let place = VirtualEnv::new(&LAB, "cluster")?;
    // Both are of the same code, and say so by the same name: rows of two builds do not fit together.
    run(cargo().args(["build", "--locked", "-p", "quickset-cli"]))?;
    place.install(&[])?;
    let recipes = ["docs/recipes/parallel.sh", "docs/recipes/slurm.sh"];
    run(Command::new("shellcheck").args(recipes))?;
    let results = root().join("target/python/sweeps");
    if results.exists() {
        std::fs::remove_dir_all(&results)?;
    }
    std::fs::create_dir_all(&results)?;
    let quickset = root().join("target/debug/quickset");
    let sweep = || SWEEP.split(' ');
    run(Command::new(&quickset).args(["lab", "run"]).args(sweep()).arg("-o").arg(results.join("alone")))?;

    run(Command::new(recipes[0])
        .arg(results.join("parallel"))
        .args(sweep())
        .env("QUICKSET", &quickset)
        .env("SHARDS", "3"))?;
    slurm(&quickset, &results.join("slurm"), recipes[1])?;
    // Ray writes the token of a cluster that it starts into the home directory; this one is not for long.
    let home = root().join("target/python/cluster/home");
    std::fs::create_dir_all(&home)?;
    for name in ["ray", "dask"] {
        run(place
            .program("python")
            .arg(format!("python/examples/{name}_sweep.py"))
            .env("HOME", &home)
            .args(sweep())
            .args(["--workers", "2", "-o"])
            .arg(results.join(name)))?;
    }

    let expected = std::fs::read(results.join("alone").join(TABLE))?;
    for name in ["parallel", "slurm", "ray", "dask"] {
        let path = results.join(name).join(TABLE);
        let found = std::fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        if found != expected {
            bail!("{} is not what one process alone gives", path.display());
        }
        println!("{name}: the same {} bytes as one process alone", found.len());
    }
    Ok(())
}

/// What an array of Slurm does, one task after the other.
fn slurm(quickset: &Path, dir: &Path, recipe: &str) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let (plan, shards) = (dir.join("sweep.plan"), dir.join("shards"));
    run(Command::new(quickset).args(["lab", "plan"]).args(SWEEP.split(' ')).arg("-o").arg(&plan))?;
    for task in 1..=3 {
        run(Command::new(recipe)
            .env("QUICKSET", quickset)
            .env("PLAN", &plan)
            .env("OUT", &shards)
            .env("SLURM_ARRAY_TASK_ID", task.to_string())
            .env("SLURM_ARRAY_TASK_COUNT", "3")
            .env("SLURM_CPUS_PER_TASK", "2"))?;
    }
    run(Command::new(quickset).args(["lab", "merge"]).arg(shards).arg("-o").arg(dir))
}

/// A virtual environment, and a folder for the wheel of a package.
pub(crate) struct VirtualEnv {
    manifest: String,
    environment: PathBuf,
    wheels: PathBuf,
}

impl VirtualEnv {
    /// An environment for the package `quickset`.
    pub(crate) fn of_quic(name: &str) -> Result<Self> {
        Self::new(&QUIC, name)
    }

    /// Makes the environment `name` with what the package's list for it says, unless there is one with the
    /// same list.
    fn new(package: &PythonPackage, name: &str) -> Result<Self> {
        let home = root().join("target/python").join(name);
        let list = if name == package.environment { "test" } else { name };
        environment(&home, &format!("{}/requirements-{list}.txt", package.folder))?;
        let manifest = package.manifest();
        Ok(Self { manifest, environment: home.join("venv"), wheels: home.join("wheels") })
    }

    /// Builds the wheel and installs it. What it is made of is shared with the workspace of the root.
    pub(crate) fn install(&self, how: &[&str]) -> Result<()> {
        if self.wheels.exists() {
            std::fs::remove_dir_all(&self.wheels)?;
        }
        run(self
            .program("maturin")
            .args(["build", "--quiet", "--manifest-path", &self.manifest, "--interpreter"])
            .arg(self.environment.join("bin/python"))
            .arg("--out")
            .arg(&self.wheels)
            .args(how)
            .env("CARGO_TARGET_DIR", root().join("target")))?;
        let wheels = std::fs::read_dir(&self.wheels)?.map(|entry| entry.map(|entry| entry.path()));
        let wheels = wheels.collect::<Result<Vec<_>, _>>()?;
        run(self.pip().args(["--force-reinstall", "--no-deps"]).args(wheels))
    }

    fn pip(&self) -> Command {
        pip(&self.environment)
    }

    /// A program that is installed in it.
    pub(crate) fn program(&self, name: &str) -> Command {
        Command::new(self.environment.join("bin").join(name))
    }
}

/// Makes a virtual environment `venv` in `home` with what a list says, unless there is one with the same
/// list.
pub(crate) fn environment(home: &Path, list: &str) -> Result<()> {
    environment_of(OLDEST, home, list)
}

/// The same with a Python of this version at least.
pub(crate) fn environment_of(oldest: PythonVersion, home: &Path, list: &str) -> Result<()> {
    let python = interpreter(oldest)?;
    let wanted = std::fs::read_to_string(list).with_context(|| format!("{list} cannot be read"))?;
    let stamp = home.join("requirements.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    std::fs::create_dir_all(home)?;
    let environment = home.join("venv");
    run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&environment))?;
    run(pip(&environment).arg("-r").arg(list))?;
    Ok(std::fs::write(stamp, wanted)?)
}

fn pip(environment: &Path) -> Command {
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    pip
}

/// What the steps fmt and clippy are for the workspace of the root.
fn checks(package: &PythonPackage, place: &VirtualEnv) -> Result<()> {
    let manifest = package.manifest();
    run(cargo_beside().args(["fmt", "--check", "--manifest-path", &manifest]))?;
    run(cargo_beside()
        .args(["clippy", "--manifest-path", &manifest, "--", "-D", "warnings"])
        .env("PYO3_PYTHON", place.environment.join("bin/python")))
}

/// Why there is no Python to work with.
pub(crate) fn missing() -> Option<String> {
    interpreter(OLDEST).err().map(|error| error.to_string())
}

/// The first Python on the PATH that has venv and is of this version at least.
pub(crate) fn interpreter(oldest: PythonVersion) -> Result<&'static str> {
    let fits = |python: &str| {
        let venv = format!("import ensurepip, sys, venv; sys.exit(sys.version_info < {oldest:?})");
        let fits = Command::new(python).args(["-c", &venv]).stderr(Stdio::null()).status();
        fits.is_ok_and(|status| status.success())
    };
    let (major, minor) = oldest;
    PYTHONS.iter().copied().find(|python| fits(python)).with_context(|| {
        format!(
            "there is no python3 with venv that is {major}.{minor} or newer; Debian has one in python3-venv, and with pyenv \
             PYENV_VERSION says which"
        )
    })
}

/// Major and minor.
pub(crate) type PythonVersion = (u32, u32);

/// Of what is ours.
pub(crate) const OLDEST: PythonVersion = (3, 11);
const PYTHONS: &[&str] = &["python3", "python3.14", "python3.13", "python3.12"];

/// The laboratory.
const LAB: PythonPackage =
    PythonPackage { name: "lab", folder: "python", environment: "test", is_linted: false };
/// QUIC for asyncio.
const QUIC: PythonPackage =
    PythonPackage { name: "quic", folder: "python-quic", environment: "quic", is_linted: true };
/// Twelve short runs.
const SWEEP: &str = "screen-streaming --set updates=3 --set messages=50 --set loss=5%,1%,0.2% --seeds 1";
const TABLE: &str = "screen-streaming.csv";

const CLUSTER_NEEDS: &[Needed] = &[
    Needed { sign: Sign::Program("parallel"), package: "parallel", why: "cluster: GNU parallel" },
    Needed {
        sign: Sign::Program("shellcheck"),
        package: "shellcheck",
        why: "cluster: the recipes are sound",
    },
];
