//! The workspace beside ours, whose dependencies never touch a default build.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::needs::{Needed, Sign, ensure};
use crate::python;
use crate::run::{StepOutcome, cargo, cargo_beside, root, run};

/// Quickset beside other stacks, in figures. Optimized, as it is shipped. What the stacks need is installed;
/// one that cannot be had is told to the program, which says so.
pub(crate) fn bench_peers(args: &[String]) -> Result<()> {
    if let Some(("fec", args)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return bench_fec(args);
    }
    if let Some(("files", args)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return bench_files(args);
    }
    if args.first().is_some_and(|first| first == "shards") {
        return program("peers", &["--release"], args);
    }
    let mut given = [&["compare".to_owned()], args].concat();
    let features =
        heavy(&WantedPeers::new(args, "--only"), &mut given, &Build { folder: "peers", how: &["--release"] });
    program("peers", &["--release", "--features", &features], &given)
}

/// Our erasure codes beside others.
fn bench_fec(args: &[String]) -> Result<()> {
    if let Err(error) = ensure(ISAL) {
        println!("without ISA-L: {error:#}");
    }
    program("peers", &["--release", "--package", "quickset-peers-fec"], args)
}

/// `http serve` beside nginx, each with files on its disk.
fn bench_files(args: &[String]) -> Result<()> {
    run(cargo().args(["build", "--release", "--quiet", "--package", "quickset-cli"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let quickset = target.join("release/quickset").display().to_string();
    let mut given = ["files".to_owned(), "--quickset".to_owned(), quickset].to_vec();
    match ensure(NGINX) {
        Ok(()) => given.extend(["--nginx".to_owned(), NGINX_PROGRAM.to_owned()]),
        Err(error) => println!("without nginx: {error:#}"),
    }
    match ensure(CURL) {
        Ok(()) => given.extend(["--curl".to_owned(), "curl".to_owned()]),
        Err(error) => println!("without curl: {error:#}"),
    }
    given.extend_from_slice(args);
    program("peers", &["--release"], &given)
}

const NGINX: &[Needed] = &[Needed {
    sign: Sign::File(NGINX_PROGRAM),
    package: "nginx-light",
    why: "bench-peers files: another server",
}];

const CURL: &[Needed] = &[Needed {
    sign: Sign::Program("curl"),
    package: "curl",
    why: "bench-peers files: a client that people have",
}];

/// Where Debian has it, which is not on everybody's path.
const NGINX_PROGRAM: &str = "/usr/sbin/nginx";

/// The program stands for the library, which comes with none.
const ISAL: &[Needed] = &[Needed {
    sign: Sign::Program("igzip"),
    package: "isal libisal-dev",
    why: "bench-peers fec: Intel's library of erasure codes",
}];

/// Quickset with other stacks. Not optimized itself, so that the debug assertions of our crates take part.
/// What the peers need is installed; one that cannot be is told to the program, which reports it.
pub(crate) fn interop(args: &[String]) -> Result<()> {
    if let [case] = WantedPeers::new(args, "--case").named[..] {
        if let Some((_, play)) = BY_NAME.iter().find(|(name, _)| *name == case) {
            return play();
        }
    }
    let wanted = WantedPeers::new(args, "--peer");
    let mut given = args.to_vec();
    let features = heavy(&wanted, &mut given, &Build { folder: "peers/interop", how: &[] });
    if wanted.has("chromium") {
        ensure(CHROMIUM).unwrap_or_else(|error| missing(&mut given, "chromium", &error));
    }
    let home = root().join("target/interop/python");
    let pythons: Vec<&str> = ["aioquic", "curl"].into_iter().filter(|peer| wanted.has(peer)).collect();
    if !pythons.is_empty() {
        match python::environment(&home, "peers/interop/programs/requirements.txt") {
            Ok(()) => {
                given.extend(["--python".to_owned(), home.join("venv/bin/python").display().to_string()]);
            }
            Err(error) => pythons.iter().for_each(|peer| missing(&mut given, peer, &error)),
        }
    }
    program("peers/interop", &["--features", &features], &given)
}

/// Cases that are none of the matrix, but tests of ours that need what is not everywhere: played when they
/// alone are named.
const BY_NAME: &[ByName] = &[
    ("webtransport-go", webtransport_go),
    ("webtransport-py", webtransport_py),
    ("firefox", firefox),
    ("from", from),
];

type ByName = (&'static str, fn() -> Result<()>);

/// WebTransport with webtransport-go: its program is built here, and plays in tests of ours.
fn webtransport_go() -> Result<()> {
    ensure(GO)?;
    let program = root().join("target/interop/webtransport_go");
    let folder = root().join("peers/interop/programs/webtransport_go");
    run(Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(folder))?;
    webtransport(&program.display().to_string())
}

/// The same with pywebtransport.
fn webtransport_py() -> Result<()> {
    let home = root().join("target/interop/webtransport_py");
    let folder = root().join("peers/interop/programs/webtransport_py");
    python::environment_of((3, 12), &home, "peers/interop/programs/webtransport_py/requirements.txt")?;
    let (python, program) = (home.join("venv/bin/python"), folder.join("main.py"));
    webtransport(&format!("{}\n{}", python.display(), program.display()))
}

/// With a program of another stack, and its first arguments, one a line.
fn webtransport(peer: &str) -> Result<()> {
    let test = ["test", "--package", "quickset", "--test", "webtransport_peers", "--", "--ignored"];
    run(cargo_beside().args(test).env("QUICKSET_WEBTRANSPORT_PEER", peer))
}

/// The programs of docs/from with other libraries run, and end by themselves.
fn from() -> Result<()> {
    shout_quinn()?;
    ensure(QUICHE)?;
    let quiche = ["run", "--quiet", "--manifest-path", "peers/stacks/Cargo.toml", "--features", "quiche"];
    run(cargo_beside().args(quiche).args(["--example", "shout_quiche"]))?;
    let home = root().join("target/interop/python");
    python::environment(&home, "peers/interop/programs/requirements.txt")?;
    run(Command::new(home.join("venv/bin/python")).arg("peers/interop/programs/shout_aioquic.py"))
}

fn shout_quinn() -> Result<()> {
    let quinn = ["run", "--quiet", "--manifest-path", "peers/stacks/Cargo.toml", "--example", "shout_quinn"];
    run(cargo_beside().args(quinn))
}

/// Firefox, with the page of the example for WebTransport, and with `http serve`.
fn firefox() -> Result<()> {
    ensure(FIREFOX)?;
    let tests = [("quickset", "webtransport"), ("quickset-cli", "http")];
    for (package, test) in tests {
        run(cargo_beside().args([
            "test",
            "--package",
            package,
            "--test",
            test,
            "firefox",
            "--",
            "--ignored",
        ]))?;
    }
    Ok(())
}

const FIREFOX: &[Needed] = &[
    Needed {
        sign: Sign::Program("firefox-esr"),
        package: "firefox-esr",
        why: "interop --case firefox: a browser with HTTP/3",
    },
    Needed {
        sign: Sign::Program("openssl"),
        package: "openssl",
        why: "interop --case firefox: a certificate by a root of its own",
    },
    Needed {
        sign: Sign::Program("certutil"),
        package: "libnss3-tools",
        why: "interop --case firefox: certificates that it trusts",
    },
];

const GO: &[Needed] = &[Needed {
    sign: Sign::Program("go"),
    package: "golang",
    why: "interop --case webtransport-go: Go 1.26 or newer",
}];

/// Tells the program of a peer that cannot be had.
fn missing(given: &mut Vec<String>, peer: &str, error: &anyhow::Error) {
    println!("without {peer}: {error:#}");
    given.extend(["--missing".to_owned(), format!("{peer}={error:#}")]);
}

/// Which of the stacks that take minutes to build are wanted and can be had here, as features of the program.
fn heavy(wanted: &WantedPeers<'_>, given: &mut Vec<String>, build: &Build<'_>) -> String {
    let mut heavy = Vec::new();
    if wanted.has("quiche") {
        match ensure(QUICHE) {
            Ok(()) => heavy.push("quiche"),
            Err(error) => missing(given, "quiche", &error),
        }
    }
    if wanted.has("s2n-quic") || wanted.has("s2n-quic-tuned") {
        heavy.push("s2n-quic");
    }
    // Together where that can be; if not, each that can.
    if !heavy.is_empty() && build.with(&heavy.join(",")).is_err() {
        heavy.retain(|peer| build.with(peer).map_err(|error| missing(given, peer, &error)).is_ok());
    }
    heavy.join(",")
}

struct Build<'a> {
    folder: &'a str,
    how: &'a [&'a str],
}

impl Build<'_> {
    /// Whether the program can be built here with these stacks: they may want a newer compiler, or another
    /// one.
    fn with(&self, features: &str) -> Result<()> {
        let manifest = manifest(self.folder)?;
        let build = ["build", "--quiet", "--manifest-path", &manifest, "--features", features];
        run(cargo_beside().args(build).args(self.how))
    }
}

/// Which peers a run wants: those named by an option, or all unless it is to be quick.
struct WantedPeers<'a> {
    named: Vec<&'a str>,
    all: bool,
}

impl<'a> WantedPeers<'a> {
    fn new(args: &'a [String], option: &str) -> Self {
        let named: Vec<&str> = args
            .iter()
            .enumerate()
            .filter_map(|(i, arg)| match arg.strip_prefix(option) {
                Some("") => args.get(i + 1).map(String::as_str),
                Some(rest) => rest.strip_prefix('='),
                None => None,
            })
            .flat_map(|names| names.split(','))
            .collect();
        let all = named.is_empty() && !args.iter().any(|arg| arg == "--quick" || arg == "--list");
        Self { named, all }
    }

    fn has(&self, peer: &str) -> bool {
        self.all || self.named.contains(&peer)
    }
}

const QUICHE: &[Needed] = &[
    Needed { sign: Sign::Program("cmake"), package: "cmake", why: "BoringSSL, of quiche" },
    Needed { sign: Sign::Program("g++"), package: "g++", why: "BoringSSL, of quiche" },
    Needed {
        sign: Sign::Program("clang"),
        package: "clang libclang-dev",
        why: "bindings of BoringSSL, of quiche",
    },
];

const CHROMIUM: &[Needed] =
    &[Needed { sign: Sign::Program("chromium"), package: "chromium", why: "interop: a browser with HTTP/3" }];

/// What of it takes less than a minute.
pub(crate) fn interop_short() -> Result<StepOutcome> {
    checks("peers/interop")?;
    interop(&["--quick".to_owned()])?;
    Ok(StepOutcome::Done)
}

/// The comparison is measured by nobody here, but it must build and keep its own tests.
pub(crate) fn peers() -> Result<StepOutcome> {
    ["peers", "peers/stacks"].into_iter().try_for_each(checks)?;
    shout_quinn()?;
    Ok(StepOutcome::Done)
}

fn program(folder: &str, how: &[&str], args: &[String]) -> Result<()> {
    let manifest = manifest(folder)?;
    run(cargo_beside().args(["run", "--quiet", "--manifest-path", &manifest]).args(how).arg("--").args(args))
}

/// What the steps fmt, clippy and tests are for the workspace of the root. Not `--locked`: what our crates
/// depend on is in these lock files too, and changes with them.
fn checks(folder: &str) -> Result<()> {
    let manifest = manifest(folder)?;
    run(cargo_beside().args(["fmt", "--check", "--manifest-path", &manifest]))?;
    let clippy = ["clippy", "--all-targets", "--manifest-path", &manifest, "--", "-D", "warnings"];
    run(cargo_beside().args(clippy))?;
    run(cargo_beside().args(["test", "--manifest-path", &manifest]))
}

fn manifest(folder: &str) -> Result<String> {
    let manifest = format!("{folder}/Cargo.toml");
    if !Path::new(&manifest).is_file() {
        bail!("there is no {manifest}");
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_that_nobody_asked_for_are_not_installed() {
        let wants_by = |option, args: &[&str], peer| {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            WantedPeers::new(&args, option).has(peer)
        };
        let wants = |args: &[&str], peer| wants_by("--peer", args, peer);
        assert!(wants(&[], "quiche"));
        assert!(wants(&["--case", "retry"], "chromium"));
        assert!(!wants(&["--quick"], "quiche"));
        assert!(wants(&["--quick", "--peer", "quiche"], "quiche"));
        assert!(wants(&["--peer=curl"], "curl"));
        assert!(!wants(&["--peer=curl"], "quiche"));
        assert!(wants_by("--only", &["--only", "quinn,quiche"], "quiche"));
        assert!(!wants_by("--only", &["--only=quinn,s2n-quic"], "quiche"));
    }
}
