//! What the tests need beyond cargo, installed by apt-get when we are root on Debian.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::run::{StepOutcome, on_path, output, run};

#[derive(Clone, Copy)]
pub(crate) struct Needed {
    /// By what it is seen to be there.
    pub(crate) sign: Sign,
    /// The Debian packages that bring it, with blanks between them.
    pub(crate) package: &'static str,
    pub(crate) why: &'static str,
}

impl Needed {
    pub(crate) fn is_there(&self) -> bool {
        self.sign.is_there()
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Sign {
    /// A program of this name.
    Program(&'static str),
    /// A file that is no program, by its path.
    File(&'static str),
    /// Python has these modules: it comes without some that a program to run it says nothing about.
    Modules(&'static str),
    /// clang, with the libraries of its sanitizers.
    ClangSanitizers,
}

use Sign::{Modules, Program};

/// One line a package.
const NEEDS: &[Needed] = &[
    Needed { sign: Program("cc"), package: "gcc libc6-dev", why: "aws-lc-sys and the linker: a C compiler" },
    Needed { sign: Program("cmake"), package: "cmake", why: "sound: libopus is built by it" },
    Needed { sign: Program("c++"), package: "g++", why: "fuzz: libFuzzer is C++" },
    Needed {
        sign: Program("pkg-config"),
        package: "pkg-config",
        why: "c: programs find the C interface by it",
    },
    Needed {
        sign: Sign::ClangSanitizers,
        package: "clang libclang-rt-dev",
        why: "c: programs are watched as clang does it, too",
    },
    Needed { sign: Program("make"), package: "make", why: "jemalloc is built by it" },
    Needed { sign: Program("git"), package: "git", why: "reports and packages name the commit" },
    Needed { sign: Program("kill"), package: "procps", why: "servers that are told to end" },
    Needed {
        sign: Program("Xtigervnc"),
        package: "tigervnc-standalone-server",
        why: "e2e: an X server that is a VNC server",
    },
    Needed { sign: Program("xtigervncviewer"), package: "tigervnc-viewer", why: "e2e: an unmodified viewer" },
    Needed { sign: Program("xterm"), package: "xterm", why: "e2e: text that scrolls" },
    Needed { sign: Program("xwud"), package: "x11-apps", why: "e2e: a window with a photograph" },
    Needed { sign: Program("xev"), package: "x11-utils", why: "e2e: keys and clicks as they arrive" },
    Needed {
        sign: Modules("ensurepip, venv"),
        package: "python3 python3-venv",
        why: "python: the package for Python",
    },
    Needed { sign: Program("curl"), package: "curl", why: "http serve: a client of HTTP/1.1 and HTTP/2" },
    Needed {
        sign: Program("ip"),
        package: "iproute2",
        why: "refusals: interfaces, addresses and routes that come and go",
    },
    Needed { sign: Program("nft"), package: "nftables", why: "e2e: a firewall that drops UDP" },
    Needed {
        sign: Program("firefox-esr"),
        package: "firefox-esr",
        why: "e2e: a browser that is not Chromium",
    },
    Needed { sign: Program("xdotool"), package: "xdotool", why: "e2e: somebody who types and drags" },
    Needed {
        sign: Program("script"),
        package: "bsdutils",
        why: "desktop view: a terminal that asks for a token",
    },
    Needed { sign: Program("setpriv"), package: "util-linux", why: "desktop view: a viewer of another user" },
];

/// The step of `cargo xtask test`.
pub(crate) fn step() -> Result<StepOutcome> {
    ensure(&[NEEDS, crate::abr::NEEDS, crate::players::NEEDS, crate::dashjs::NEEDS].concat())
        .map(|()| StepOutcome::Done)
}

/// Installs what is missing, or says how.
pub(crate) fn ensure(needs: &[Needed]) -> Result<()> {
    let missing: Vec<&Needed> = needs.iter().filter(|need| !need.is_there()).collect();
    if missing.is_empty() {
        eprintln!("everything is there: {}", names(needs.iter().map(|need| need.sign.name())));
        return Ok(());
    }
    for need in &missing {
        eprintln!("missing: {} ({}; {})", need.sign.name(), need.package, need.why);
    }
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.package.split(' ')).collect();
    if !on_path("apt-get") {
        bail!("please install what the tests need; Debian's packages are {}", packages.join(", "));
    }
    if !is_root() {
        bail!("please install what the tests need:\n\n    sudo apt-get install {}\n", packages.join(" "));
    }
    apt_update()?;
    run(Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "-y", "-q", "--no-install-recommends"])
        .args(packages)
        .stdout(std::io::stderr()))?;
    let lost = missing.iter().filter(|need| !need.sign.is_there()).map(|need| need.sign.name());
    let lost = names(lost);
    if !lost.is_empty() {
        bail!("{lost}: still missing after the packages that should bring it were installed");
    }
    Ok(())
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

impl Sign {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Program(name) | Sign::File(name) => name,
            Modules(_) => "python3 with venv",
            Sign::ClangSanitizers => "clang with its sanitizers",
        }
    }

    pub(crate) fn is_there(self) -> bool {
        match self {
            Program(name) => on_path(name),
            Sign::File(path) => std::path::Path::new(path).is_file(),
            Modules(names) => {
                let import = Command::new("python3")
                    .arg("-c")
                    .arg(format!("import {names}"))
                    .stderr(Stdio::null())
                    .status();
                import.is_ok_and(|status| status.success())
            }
            Sign::ClangSanitizers => {
                let Ok(folder) = output(Command::new("clang").arg("-print-resource-dir")) else {
                    return false;
                };
                // A folder for each system, and a library for each of its processors.
                let systems = std::fs::read_dir(std::path::Path::new(folder.trim()).join("lib"));
                let files = systems
                    .into_iter()
                    .flatten()
                    .flatten()
                    .flat_map(|system| std::fs::read_dir(system.path()));
                files
                    .flatten()
                    .flatten()
                    .any(|file| file.file_name().to_string_lossy().starts_with("libclang_rt.asan"))
            }
        }
    }
}

/// Brings the lists of packages up to date.
pub(crate) fn apt_update() -> Result<()> {
    run(Command::new("apt-get").args(["update", "-q"]).stdout(std::io::stderr()))
}

/// True when we may install packages.
pub(crate) fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_seen() {
        assert!(Program("sh").is_there());
        assert!(!Program("no-such-program").is_there());
        assert!(!Modules("no_such_module").is_there());
        assert!(Sign::File("/proc/self/cmdline").is_there());
        assert!(!Sign::File("/no/such/file").is_there());
    }
}
