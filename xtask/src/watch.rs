//! `cargo xtask watch`: the C interface under valgrind's memcheck, ThreadSanitizer and Miri, which are too slow
//! or too choosy for the tests of each change.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::c;
use crate::needs::{self, Needed, Sign};
use crate::run::{StepOutcome, cargo, on_path, root, run};

/// Runs the watchers, or those that are named. One that is not there is said to be skipped.
pub(crate) fn command(args: &[String]) -> Result<()> {
    if let Some(unknown) = args.iter().find(|name| WATCHERS.iter().all(|watcher| watcher.0 != **name)) {
        let known: Vec<&str> = WATCHERS.iter().map(|watcher| watcher.0).collect();
        bail!("there is no watcher {unknown:?}; there are {}", known.join(", "));
    }
    let chosen = WATCHERS.iter().filter(|(name, _)| args.is_empty() || args.iter().any(|arg| arg == name));
    for (name, watcher) in chosen {
        match watcher().with_context(|| (*name).to_owned())? {
            StepOutcome::Done | StepOutcome::Again(_) => println!("--- {name}: silent"),
            StepOutcome::Skipped(why) => println!("--- {name}: SKIPPED, {why}"),
        }
    }
    Ok(())
}

type Watcher = fn() -> Result<StepOutcome>;

const WATCHERS: &[(&str, Watcher)] = &[("valgrind", valgrind), ("threads", threads), ("miri", miri)];

/// Programs that play both sides, with their arguments: fewer rounds where each takes long.
const PROGRAMS: &[(&str, &[&str])] =
    &[("border", &[]), ("calls", &[]), ("extremes", &[]), ("threads", &["300"])];

/// Memcheck, with the library as the tests have it. It sees all memory, that of Rust and of aws-lc, too.
fn valgrind() -> Result<StepOutcome> {
    if cfg!(not(target_os = "linux")) {
        return Ok(StepOutcome::Skipped("it needs Linux".into()));
    }
    needs::ensure(NEEDS)?;
    run(cargo().args(["build", "--locked", "-p", "quickset-ffi"]))?;
    let build = WatchedBuild {
        compiler: "gcc",
        flags: &["-O1", "-g"],
        library: c::target().join("debug/libquickset_ffi.a"),
        system: c::PRIVATE.split(' ').map(Into::into).collect(),
        folder: root().join("target/valgrind"),
    };
    let suppressions = root().join("crates/ffi/tests/c/valgrind.supp");
    let watched = |program: &Path| {
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--num-callers=30"]);
        // A child has none of the threads that know of what it inherits.
        command.arg("--child-silent-after-fork=yes");
        command.arg(format!("--suppressions={}", suppressions.display())).arg(program);
        command
    };
    build.play(&watched)
}

/// ThreadSanitizer sees no race only if all code is made for it: the standard library, too, for which it takes
/// a nightly toolchain with its sources.
fn threads() -> Result<StepOutcome> {
    let sysroot = Command::new("rustc").args(["+nightly", "--print", "sysroot"]).output();
    let Some(sysroot) = sysroot.ok().filter(|out| out.status.success()) else {
        return Ok(StepOutcome::Skipped(
            "there is no nightly toolchain: rustup toolchain install nightly".into(),
        ));
    };
    let rustlib = PathBuf::from(String::from_utf8(sysroot.stdout)?.trim()).join("lib/rustlib");
    let runtime = rustlib.join(format!("{TARGET}/lib/librustc-nightly_rt.tsan.a"));
    if !rustlib.join("src").is_dir() {
        let add = "rustup component add --toolchain nightly rust-src";
        return Ok(StepOutcome::Skipped(format!("there are no sources of the standard library: {add}")));
    }
    if !runtime.is_file() || !on_path("clang") {
        return Ok(StepOutcome::Skipped(format!("it needs clang, and Rust's ThreadSanitizer for {TARGET}")));
    }
    let target = root().join("target/threads");
    run(nightly()
        .args(["build", "--locked", "-Zbuild-std", "--target", TARGET, "-p", "quickset-ffi"])
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", "-Zsanitizer=thread -Cforce-frame-pointers=yes"))?;
    // The runtime is Rust's: that of the compiler may be older than what Rust's code asks of it.
    let mut system =
        vec!["-Wl,--whole-archive".into(), runtime.into_os_string(), "-Wl,--no-whole-archive".into()];
    system.extend(c::PRIVATE.split(' ').map(Into::into));
    let build = WatchedBuild {
        compiler: "clang",
        flags: &["-O1", "-g", "-fsanitize=thread"],
        library: target.join(TARGET).join("debug/libquickset_ffi.a"),
        system,
        folder: target.join("programs"),
    };
    let suppressions = root().join("crates/ffi/tests/c/threads.supp");
    let watched = |program: &Path| {
        let mut command = Command::new(program);
        command.env("TSAN_OPTIONS", format!("halt_on_error=1 suppressions={}", suppressions.display()));
        command
    };
    build.play(&watched)
}

/// What Miri can run of the crate: all that asks nothing of the system.
fn miri() -> Result<StepOutcome> {
    let there = Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    if !there.is_ok_and(|out| out.status.success()) {
        let add = "rustup component add --toolchain nightly miri rust-src";
        return Ok(StepOutcome::Skipped(format!("there is no Miri: {add}")));
    }
    let mut miri = nightly();
    miri.args([
        "miri",
        "test",
        "--locked",
        "-p",
        "quickset-ffi",
        "--lib",
        "--",
        "table::",
        "border::",
        "status::",
    ]);
    run(miri.env("CARGO_TARGET_DIR", root().join("target/miri")).env("MIRIFLAGS", "-Zmiri-many-seeds=0..4"))?;
    Ok(StepOutcome::Done)
}

/// Cargo of the nightly toolchain, whatever toolchain runs us.
fn nightly() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.arg("+nightly").env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    cargo
}

/// How programs in C are made for a watcher.
struct WatchedBuild {
    compiler: &'static str,
    flags: &'static [&'static str],
    library: PathBuf,
    /// What they are linked with besides.
    system: Vec<std::ffi::OsString>,
    folder: PathBuf,
}

impl WatchedBuild {
    /// Runs all programs, each as `watched` says.
    fn play(&self, watched: &dyn Fn(&Path) -> Command) -> Result<StepOutcome> {
        fs::create_dir_all(&self.folder)?;
        for (name, arguments) in PROGRAMS {
            let program = self.compile(&format!("tests/c/{name}.c"))?;
            run(watched(&program).args(*arguments))?;
        }
        let both = self.compile("tests/c/languages.c")?;
        let mut serving = watched(&both);
        serving.args(["server", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut server = WatchedServer(serving.spawn().context("the server does not start")?);
        let said = server.0.stdout.take().context("its output is piped")?;
        let mut lines = BufReader::new(said).lines();
        let mut next = |word: &str| -> Result<String> {
            let line = lines.next().context("the server ended early")??;
            Ok(line.strip_prefix(word).with_context(|| format!("the server says {line:?}"))?.to_owned())
        };
        let (address, fingerprint) = (next("address ")?, next("fingerprint ")?);
        run(watched(&both).args(["client", &address, &fingerprint]))?;
        ensure!(server.0.wait()?.success(), "the server failed");
        Ok(StepOutcome::Done)
    }

    fn compile(&self, source: &str) -> Result<PathBuf> {
        let crate_folder = root().join("crates/ffi");
        let source = crate_folder.join(source);
        let program = self.folder.join(source.file_stem().unwrap_or_default());
        // As an object first: what the sanitizer's flag would link is not wanted.
        let object = program.with_extension("o");
        run(Command::new(self.compiler)
            .args([
                "-std=c11",
                "-D_POSIX_C_SOURCE=200809L",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-DLONG_MS=200000",
                "-c",
            ])
            .args(self.flags)
            .arg("-I")
            .arg(crate_folder.join("include"))
            .arg(source)
            .arg("-o")
            .arg(&object))?;
        run(Command::new(self.compiler)
            .arg(&object)
            .arg(&self.library)
            .args(&self.system)
            .arg("-o")
            .arg(&program))?;
        Ok(program)
    }
}

/// A server that does not outlive its watcher.
struct WatchedServer(Child);

impl Drop for WatchedServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What ThreadSanitizer is tried on.
const TARGET: &str = "x86_64-unknown-linux-gnu";

const NEEDS: &[Needed] =
    &[Needed { sign: Sign::Program("valgrind"), package: "valgrind", why: "watch: errors of memory" }];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_errors() {
        let error = command(&["valgrnd".into()]).expect_err("no such watcher").to_string();
        assert!(error.contains("valgrnd") && error.contains("threads") && error.contains("miri"), "{error}");
    }
}
