//! `cargo xtask bare`: what every change has to pass (`.ci/run`), in a minimal Debian 12 that has Rust and
//! nothing else.
//!
//! Everything is below `target/bare`. Mounts are in a namespace of their own, so that nothing is left of them
//! whatever happens.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::needs::{Needed, Sign, ensure, is_root};
use crate::run::{output, root, run};

/// Makes the system, clones the commit that is checked out, and runs its tests, or the steps that are named.
pub(crate) fn command(steps: &[String]) -> Result<()> {
    if let Some(option) = steps.iter().find(|step| step.starts_with('-')) {
        bail!("{option} is not understood; usage: cargo xtask bare [STEP…]");
    }
    if !is_root() {
        bail!("only root can make a system below target/bare: try it with sudo");
    }
    ensure(NEEDS)?;
    let (begun, place) = (Instant::now(), root().join("target/bare"));
    let system = place.join("system");
    make(&system, RUST)?;
    clone(&system)?;
    let toolchain = PathBuf::from(output(Command::new("rustc").args(["--print", "sysroot"]))?.trim());
    let script = place.join("run.sh");
    fs::write(&script, SCRIPT)?;
    let namespaces = ["--mount", "--pid", "--fork", "--kill-child"];
    run(Command::new("unshare")
        .args(namespaces)
        .arg("sh")
        .arg(&script)
        .args([system.as_os_str(), toolchain.as_os_str()])
        .args(steps))?;
    let minutes = begun.elapsed().as_secs() / 60;
    println!("a minimal Debian 12 has passed in {minutes} minutes, in {}", size_of(&system)?);
    // Its target folder is many gigabytes.
    Ok(fs::remove_dir_all(&place)?)
}

/// Makes Debian 12 without anything that is not needed to start, but with the packages that are named (with
/// commas between them), and with what it needs to reach the registries from here.
pub(crate) fn make(system: &Path, packages: &str) -> Result<()> {
    if system.exists() {
        fs::remove_dir_all(system).context("a system of before cannot be removed")?;
    }
    fs::create_dir_all(system)?;
    let include = format!("--include={packages}");
    run(Command::new("debootstrap").args(["--variant=minbase", &include, "bookworm"]).arg(system))?;
    // How this machine reaches registries, and whose certificates it takes for that: it may be behind a
    // proxy.
    for path in ["etc/apt", "etc/pip.conf", "etc/resolv.conf", "etc/hosts", CERTIFICATES] {
        let (from, to) = (Path::new("/").join(path), system.join(path));
        if from.exists() {
            fs::create_dir_all(to.parent().context("it lies in the system")?)?;
            run(Command::new("cp")
                .args(["--recursive", "--dereference", "--no-target-directory"])
                .args([from, to]))?;
        }
    }
    Ok(())
}

fn clone(system: &Path) -> Result<()> {
    let changed = output(Command::new("git").args(["status", "--porcelain", "--untracked-files=no"]))?;
    if !changed.is_empty() {
        println!("what is not committed takes no part:\n{changed}");
    }
    let clone = ["clone", "--quiet", "--no-hardlinks", "."];
    run(Command::new("git").args(clone).arg(system.join("src")))
}

fn size_of(folder: &Path) -> Result<String> {
    let size = output(Command::new("du").args([OsStr::new("-sh"), folder.as_os_str()]))?;
    Ok(size.split_whitespace().next().unwrap_or_default().to_owned())
}

/// The system, the toolchain, and the steps. Of the environment only what says how registries are reached is
/// left.
const SCRIPT: &str = r#"set -eu
system=$1 toolchain=$2
shift 2
# Its root is a mount, as the root of any machine is: ip(8) wants that.
mount --bind "$system" "$system"
mount -t proc proc "$system/proc"
mount --rbind /sys "$system/sys"
mount --rbind /dev "$system/dev"
mount -t tmpfs tmpfs "$system/tmp"
mkdir -p "$system/rust"
mount --bind -o ro "$toolchain" "$system/rust"
kept=$(env | grep -iE '^(https?_proxy|no_proxy|PIP_[A-Z_]*|CARGO_REGISTRIES?_[A-Z_]*|SSL_CERT_FILE)=' || true)
IFS='
'
exec chroot "$system" env -i $kept HOME=/root LANG=C.UTF-8 \
    PATH=/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    sh -c 'cd /src && exec .ci/run "$@"' run "$@"
"#;

/// What whoever has Rust has as well: it was fetched, and it links with a C compiler.
const RUST: &str = "ca-certificates,gcc,libc6-dev";

const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

const NEEDS: &[Needed] = &[
    Needed { sign: Sign::Program("debootstrap"), package: "debootstrap", why: "bare: a minimal Debian" },
    Needed {
        sign: Sign::Program("unshare"),
        package: "util-linux",
        why: "bare: mounts that nobody else sees",
    },
    Needed { sign: Sign::Program("git"), package: "git", why: "bare: a clone" },
];
