//! `cargo xtask c`: the C interface as programs find it, which is two libraries, a header, and a file for
//! pkg-config.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::run::{StepOutcome, cargo, on_path, output, root, run};

/// What a program with the static library needs of the system: `rustc --print native-static-libs`.
pub(crate) const PRIVATE: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

/// How programs are compiled.
pub(crate) const STRICT: [&str; 6] =
    ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-O2"];

/// Builds the libraries, optimized, and installs them below a folder.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let prefix = match args {
        [] => PathBuf::from("/usr/local"),
        [option, folder] if option == "--prefix" => std::path::absolute(folder)?,
        _ => bail!("{args:?} is not understood; usage: cargo xtask c [--prefix FOLDER]"),
    };
    // Before minutes are spent.
    try_writing(&prefix.join("lib"))?;
    run(cargo().args(["build", "--locked", "--package", "quickset-ffi", "--release"]))?;
    install(&target().join("release"), &prefix, Path::new("/"))
}

/// Makes a folder to which something will be written.
///
/// # Errors
/// When nothing can be, and what to do.
fn try_writing(folder: &Path) -> Result<()> {
    let probe = folder.join(format!(".quickset-{}", std::process::id()));
    let tried = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&probe, ""))
        .and_then(|()| fs::remove_file(&probe));
    tried.with_context(|| {
        let folder = folder.display();
        format!("nothing can be written to {folder}: name another folder with --prefix, or try it with sudo")
    })
}

/// The step of `cargo xtask test`: the examples, compiled as README.md says, with either library. What the
/// library does is for its own tests.
pub(crate) fn step() -> Result<StepOutcome> {
    let compilers: Vec<&str> = ["gcc", "clang"].into_iter().filter(|name| on_path(name)).collect();
    if compilers.is_empty() || !on_path("pkg-config") || !cfg!(target_os = "linux") {
        let why = "it needs Linux, pkg-config, and gcc or clang";
        return Ok(StepOutcome::Skipped(why.into()));
    }
    // As the step of the tests builds it, so that nothing is built twice.
    run(cargo().args(["test", "--workspace", "--locked", "--test", "header", "--no-run"]))?;
    let prefix = root().join("target/c");
    install(&target().join("debug/deps"), &prefix, Path::new("/"))?;
    for compiler in compilers {
        for linked in ["shared", "static"] {
            let [server, client] =
                ["server", "client"].map(|name| compile(&prefix, compiler, name, linked == "static"));
            meet(&prefix, &server?, &client?).with_context(|| format!("by {compiler}, {linked}"))?;
        }
    }
    Ok(StepOutcome::Done)
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Copies what was built in `from` to where compilers look for it below `prefix`, of the system whose root is
/// the folder `system`.
pub(crate) fn install(from: &Path, prefix: &Path, system: &Path) -> Result<()> {
    let crate_folder = root().join("crates/ffi");
    let there = system.join(prefix.strip_prefix("/").unwrap_or(prefix));
    let (include, lib) = (there.join("include"), there.join("lib"));
    let packages = lib.join("pkgconfig");
    for folder in [&include, &packages] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let version = version()?;
    let major = version.split('.').next().unwrap_or_default();
    let whole = format!("libquickset.so.{version}");
    fs::copy(crate_folder.join("include/quickset.h"), include.join("quickset.h"))?;
    fs::copy(from.join("libquickset_ffi.a"), lib.join("libquickset.a"))?;
    fs::copy(from.join("libquickset_ffi.so"), lib.join(&whole))?;
    for name in [format!("libquickset.so.{major}"), "libquickset.so".into()] {
        let link = lib.join(name);
        if link.is_symlink() {
            fs::remove_file(&link)?;
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(&whole, &link)?;
        #[cfg(not(unix))]
        bail!("{} would be a link, which this system does not have", link.display());
    }
    let description = fs::read_to_string(crate_folder.join("quickset.pc.in"))?;
    let prefix = prefix.to_str().context("the name of the folder is not UTF-8")?;
    fs::write(packages.join("quickset.pc"), filled(&description, prefix, &version)?)?;
    println!("installed below {prefix}: quickset.h, libquickset.so, libquickset.a, quickset.pc");
    Ok(())
}

/// The file for pkg-config, of the one that is kept.
fn filled(description: &str, prefix: &str, version: &str) -> Result<String> {
    let url = manifest_value("repository")?;
    let text = description
        .replace("@prefix@", prefix)
        .replace("@version@", version)
        .replace("@url@", &url)
        .replace("@private@", PRIVATE);
    ensure!(!text.contains('@'), "quickset.pc.in has a word that nobody fills in:\n{text}");
    Ok(text)
}

fn version() -> Result<String> {
    manifest_value("version")
}

/// A value of `[workspace.package]`, which comes first in the manifest.
fn manifest_value(key: &str) -> Result<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
    Ok(line.with_context(|| format!("Cargo.toml has no {key}"))?.trim_matches('"').to_owned())
}

/// Compiles an example by what pkg-config says.
fn compile(prefix: &Path, compiler: &str, name: &str, alone: bool) -> Result<PathBuf> {
    let mut ask = Command::new("pkg-config");
    ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    ask.args(["--cflags", "--libs"]).args(alone.then_some("--static")).arg("quickset");
    let mut flags: Vec<String> = output(&mut ask)?.split_whitespace().map(str::to_owned).collect();
    if alone {
        // Beside a shared library the linker takes that, so it is told which one.
        let archive = prefix.join("lib/libquickset.a");
        for flag in flags.iter_mut().filter(|flag| *flag == "-lquickset") {
            *flag = archive.to_string_lossy().into_owned();
        }
    }
    let program = prefix.join(format!("{name}-{compiler}-{}", if alone { "static" } else { "shared" }));
    run(Command::new(compiler)
        .args(STRICT)
        .arg(root().join(format!("crates/ffi/examples/c/{name}.c")))
        .args(flags)
        .arg("-o")
        .arg(&program))?;
    Ok(program)
}

/// Runs both over the loopback interface.
fn meet(prefix: &Path, server: &Path, client: &Path) -> Result<()> {
    let libraries = prefix.join("lib");
    let mut server = ServerOfExample(
        Command::new(server)
            .arg("127.0.0.1:0")
            .env("LD_LIBRARY_PATH", &libraries)
            .stdout(Stdio::piped())
            .spawn()?,
    );
    let said = server.0.stdout.take().context("the server's output is piped")?;
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(said));
    let mut next = |word: &str| -> Result<String> {
        let line = lines.next().context("the server ended early")??;
        Ok(line.strip_prefix(word).with_context(|| format!("the server says {line:?}"))?.to_owned())
    };
    let (address, fingerprint) = (next("address ")?, next("fingerprint ")?);
    run(Command::new(client).args([address, fingerprint]).env("LD_LIBRARY_PATH", &libraries))?;
    println!("received {}", next("received ")?);
    ensure!(server.0.wait()?.success(), "the server failed");
    Ok(())
}

/// A server that does not outlive its step.
struct ServerOfExample(Child);

impl Drop for ServerOfExample {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_for_pkg_config_has_every_word_filled_in() {
        let kept = fs::read_to_string(root().join("crates/ffi/quickset.pc.in")).unwrap();
        let text = filled(&kept, "/opt/quickset", "1.2.3").unwrap();
        assert!(text.starts_with("prefix=/opt/quickset\n"), "{text}");
        assert!(text.contains("\nVersion: 1.2.3\n") && text.contains("\nURL: https://"), "{text}");
        assert!(filled("@other@", "/", "1").is_err());
    }
}
