//! What the tests need beyond cargo, installed by apt-get when we are root on Debian.

use std::process::Command;

use anyhow::{Result, bail};

use crate::run::{Outcome, on_path, output, run};

pub(crate) struct Need {
    /// The program that shows that the package is there.
    pub(crate) program: &'static str,
    /// The Debian package that brings it.
    pub(crate) package: &'static str,
    pub(crate) why: &'static str,
}

/// One line a package. aws-lc-sys needs no cmake: its own builder drives the C compiler.
const NEEDS: &[Need] = &[
    Need { program: "cc", package: "gcc libc6-dev", why: "aws-lc-sys and the linker: a C compiler" },
    Need {
        program: "Xtigervnc",
        package: "tigervnc-standalone-server",
        why: "e2e: an X server that is a VNC server",
    },
    Need { program: "xtigervncviewer", package: "tigervnc-viewer", why: "e2e: an unmodified viewer" },
    Need { program: "xterm", package: "xterm", why: "e2e: text that scrolls" },
    Need { program: "xwud", package: "x11-apps", why: "e2e: a window with a photograph" },
    Need { program: "xev", package: "x11-utils", why: "e2e: keys and clicks as they arrive" },
    Need { program: "python3", package: "python3-venv", why: "python: the package for Python" },
    Need { program: "curl", package: "curl", why: "http serve: a client of HTTP/1.1 and HTTP/2" },
    Need {
        program: "ip",
        package: "iproute2",
        why: "refusals: interfaces, addresses and routes that come and go",
    },
    Need { program: "xdotool", package: "xdotool", why: "e2e: somebody who types and drags" },
    Need { program: "script", package: "bsdutils", why: "desktop view: a terminal that asks for a token" },
    Need { program: "setpriv", package: "util-linux", why: "desktop view: a viewer of another user" },
];

/// The step of `cargo xtask test`.
pub(crate) fn step() -> Result<Outcome> {
    ensure(NEEDS).map(|()| Outcome::Done)
}

/// Installs what is missing, or says what is.
pub(crate) fn ensure(needs: &[Need]) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|n| !on_path(n.program)).collect();
    if missing.is_empty() {
        println!("everything is there: {}", needs.iter().map(|n| n.program).collect::<Vec<_>>().join(", "));
        return Ok(());
    }
    let list: Vec<String> =
        missing.iter().map(|n| format!("{} ({}; {})", n.program, n.package, n.why)).collect();
    if !on_path("apt-get") || !is_root() {
        bail!("please install what the tests need: {}", list.join(", "));
    }
    println!("installing {}", list.join(", "));
    apt_update()?;
    let packages = missing.iter().flat_map(|n| n.package.split(' '));
    run(Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "-y", "-q", "--no-install-recommends"])
        .args(packages))
}

/// Brings the lists of packages up to date.
pub(crate) fn apt_update() -> Result<()> {
    run(Command::new("apt-get").args(["update", "-q"]))
}

/// True when we may install packages.
pub(crate) fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}
