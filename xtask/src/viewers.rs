//! `cargo xtask viewers`: the desktop gateways between viewers and servers of others, over loopback.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::needs::{Needed, Sign, ensure};
use crate::run::{cargo, root, run};

/// Runs the tests of crates/desktop/tests/viewers, all rows or those named. It prints a table.
pub(crate) fn command(args: &[String]) -> Result<()> {
    if let Some(option) = args.iter().find(|arg| arg.starts_with('-')) {
        bail!("write viewers [ROW…], and not {option}");
    }
    ensure(NEEDS)?;
    let mut test = cargo();
    if args.is_empty() || args.iter().any(|row| row == NOVNC) {
        test.env("QUICKSET_NOVNC", novnc()?);
    }
    run(cargo().args(["build", "--locked", "-p", "quickset-cli"]))?;
    run(test
        .args(["test", "--locked", "-p", "quickset-desktop", "--test", "viewers", "--"])
        .args(["--ignored", "--nocapture"])
        .env("QUICKSET_VIEWERS", args.join(",")))
}

/// The row that needs it.
const NOVNC: &str = "novnc-npm";

/// Fetches the newest noVNC, and returns its folder. No lock file: what people have tomorrow is what is to be
/// tested.
pub(crate) fn novnc() -> Result<PathBuf> {
    let home = root().join("target/viewers/npm");
    std::fs::create_dir_all(&home)?;
    run(Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(&home)
        .arg("@novnc/novnc@latest"))?;
    Ok(home.join("node_modules/@novnc/novnc"))
}

const NEEDS: &[Needed] = &[
    program("Xtigervnc", "tigervnc-standalone-server", "an X server that is a VNC server"),
    program("xtigervncviewer", "tigervnc-viewer", "TigerVNC's viewer"),
    program("xterm", "xterm", "text, and a pointer of its own"),
    program("xwud", "x11-apps", "a window with a photograph"),
    program("xev", "x11-utils", "keys as they arrive"),
    program("setxkbmap", "x11-xkb-utils", "a keyboard with more than ASCII"),
    program("xdotool", "xdotool", "the focus, and where the pointer is"),
    program("xclip", "xclip", "somebody who copies and pastes"),
    Needed {
        sign: Sign::File("/usr/share/novnc/core/rfb.js"),
        package: "novnc",
        why: "noVNC as Debian has it",
    },
    program("websockify", "websockify", "the server of noVNC's page"),
    program("chromium", "chromium", "the browser for noVNC"),
    program("npm", "npm", "the newest noVNC"),
    program("gvncviewer", "gvncviewer", "a viewer with gtk-vnc"),
    program("Xtightvnc", "tightvncserver", "TightVNC's server"),
    Needed {
        sign: Sign::File("/usr/share/fonts/X11/misc/fonts.dir"),
        package: "xfonts-base",
        why: "the fonts of TightVNC's server",
    },
    program("x11vnc", "x11vnc", "a server for a display that is there"),
    program("Xvfb", "xvfb", "the display for x11vnc"),
    program("qemu-system-x86_64", "qemu-system-x86 seabios", "QEMU's server"),
];

pub(crate) const fn program(name: &'static str, package: &'static str, why: &'static str) -> Needed {
    Needed { sign: Sign::Program(name), package, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_slips() {
        let error = command(&["--row".to_owned()]).expect_err("there are none").to_string();
        assert!(error.contains("--row"), "{error}");
    }
}
