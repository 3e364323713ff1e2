//! `cargo xtask dist check`: what is handed out, in a minimal Debian 12 below `target/dist`. The package of
//! Debian: lintian, the units as systemd reads them, then installed, looked at with a browser, used, replaced by
//! the next one, removed and purged. The others are in `languages`.
//!
//! The system as it is without what is tried is made once. Mounts and network are in namespaces of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{DistBuild, deb, handed, languages, work};
use crate::bare;
use crate::needs::{self, Needed, is_root};
use crate::run::{cargo, on_path, output, root, run};
use crate::viewers::program;

/// Tries all, or what is named.
pub(super) fn command(build: &DistBuild, names: &[&str]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| CHECKS.iter().all(|check| check.0 != **name)) {
        let known: Vec<&str> = CHECKS.iter().map(|check| check.0).collect();
        bail!("there is no check {unknown:?}; there are {}", known.join(", "));
    }
    ensure!(is_root(), "only root can make a system below target/dist: try it with sudo");
    for (name, check) in CHECKS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        println!("\n=== {name}");
        check(build).with_context(|| (*name).to_owned())?;
    }
    Ok(())
}

type DistCheck = fn(&DistBuild) -> Result<()>;

const CHECKS: &[(&str, DistCheck)] =
    &[("deb", package), ("c", languages::c_interface), ("wheel", languages::wheel)];

fn package(build: &DistBuild) -> Result<()> {
    needs::ensure(NEEDS)?;
    let (handed, newcomer) = (handed(build, None)?, newcomer()?);
    let [first, second] = [1, 2].map(|revision| deb::package(&handed, revision, &work()));
    let [first, second] = [first?, second?];
    deb::lint(&first)?;
    let work = work();
    units(&work.join("tree"))?;

    let system = fresh_system("deb", "ca-certificates,man-db,bash-completion")?;
    let packages = system.join("packages");
    fs::copy(first, packages.join("first.deb"))?;
    fs::copy(second, packages.join("second.deb"))?;
    for (script, steps) in [("newcomer.sh", NEWCOMER), ("steps.sh", STEPS)] {
        fs::write(packages.join(script), format!("{COMMON}{steps}"))?;
    }
    let picture = work.join("newcomer.png");
    run(Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", SYSTEM, "sh"])
        .args([&system, &newcomer, &picture]))?;
    println!("the package was installed, used, replaced, removed and purged; see {}", picture.display());
    Ok(())
}

/// A minimal Debian with these packages (commas between them) that nobody has used, and an empty folder
/// `packages` in it. What it is copied from is made again only for other packages.
pub(super) fn fresh_system(name: &str, packages: &str) -> Result<PathBuf> {
    needs::ensure(SYSTEM_NEEDS)?;
    let [base, system] = ["base", "system"].map(|what| work().join(format!("{what}-{name}")));
    let made = base.join("made");
    if !fs::read_to_string(&made).is_ok_and(|with| with == packages) {
        bare::make(&base, packages)?;
        // Last, so that it is there whole or is made again.
        fs::write(&made, packages)?;
    }
    if system.exists() {
        fs::remove_dir_all(&system)?;
    }
    run(Command::new("cp").args(["--archive", "--reflink=auto"]).args([&base, &system]))?;
    fs::create_dir(system.join("packages"))?;
    Ok(system)
}

/// Builds the test that opens the link in a browser, and returns its program.
fn newcomer() -> Result<PathBuf> {
    let built = output(cargo().current_dir(root()).args([
        "test",
        "--no-run",
        "--locked",
        "--package",
        "quickset-desktop",
        "--test",
        "newcomer",
        "--message-format",
        "json-render-diagnostics",
    ]))?;
    let messages = built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tests = messages.filter(|message| message["target"]["name"] == "newcomer");
    let mut program = tests.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.next().context("cargo built no test of that name")
}

/// What systemd finds wrong with the units, and how far the one of the system is shut in.
fn units(tree: &Path) -> Result<()> {
    if !on_path("systemd-analyze") {
        println!("skipped: the units, since there is no systemd-analyze here");
        return Ok(());
    }
    // The program is not installed here; that of the tree stands for it.
    let tried = root().join("target/dist/units");
    fs::create_dir_all(&tried)?;
    for (unit, whose) in
        [("system/quickset@.service", "--system"), ("user/quickset-desktop.service", "--user")]
    {
        let text = fs::read_to_string(tree.join("usr/lib/systemd").join(unit))?;
        let place = tried.join(Path::new(unit).file_name().context("a unit has a name")?);
        let program = format!("{}/usr/bin/quickset", tree.display());
        fs::write(&place, text.replace("/usr/bin/quickset", &program))?;
        let mut verify = Command::new("systemd-analyze");
        // The manager of a user looks for its folder, where nobody has logged in, too.
        verify.env("XDG_RUNTIME_DIR", &tried).args([whose, "verify", "--man=no"]).arg(&place);
        let said = verify.output()?;
        let faults = String::from_utf8_lossy(&said.stderr).into_owned();
        ensure!(said.status.success() && faults.is_empty(), "systemd-analyze verify {unit}: {faults}");
    }
    let unit = tree.join("usr/lib/systemd/system/quickset@.service");
    let said = output(
        Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold=20", "--no-pager"])
            .arg(unit),
    )?;
    let told = said.lines().find(|line| line.contains("Overall exposure level"));
    println!("{}", told.context("systemd-analyze says how far a unit is shut in")?);
    Ok(())
}

/// The system's mounts, a desktop and a browser beside it, and the steps within it.
const SYSTEM: &str = r#"set -eu
system=$1 newcomer=$2 picture=$3
ip link set lo up
# The browser looks for its own processes.
mount -t proc proc /proc
# The desktop's X server is nobody else's.
mkdir -p /tmp/.X11-unix
mount -t tmpfs tmpfs /tmp/.X11-unix
mount --bind "$system" "$system"
mount -t proc proc "$system/proc"
mount --rbind /dev "$system/dev"
mount -t tmpfs tmpfs "$system/tmp"
within() {
    chroot "$system" env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh "/packages/$1.sh"
}
export DISPLAY=:77
Xtigervnc "$DISPLAY" -nolock -rfbport 5977 -localhost -AlwaysShared -SecurityTypes None -geometry 800x600 \
    -desktop fields >"$system/tmp/vnc" 2>&1 &
for _ in $(seq 300); do
    xsetroot -mod 16 16 -fg '#3465a4' -bg '#eeeeec' 2>/dev/null && break
    sleep 0.1
done
xterm -geometry 70x20+40+60 -xrm 'XTerm*cursorBlink: false' -e sh -c \
    'echo "A terminal on the desktop of a VNC server."; seq -s " " 300; exec sleep 600' >/dev/null 2>&1 &
within newcomer
QUICKSET_NEWCOMER_BEGUN=$(cat "$system/tmp/begun") QUICKSET_NEWCOMER_SERVE="$system/tmp/serve" \
    QUICKSET_NEWCOMER_VNC=127.0.0.1:5977 QUICKSET_NEWCOMER_PICTURE="$picture" \
    "$newcomer" --ignored --nocapture
within steps
"#;

/// What all scripts begin with.
pub(super) const COMMON: &str = r#"set -eu
step() { echo "-- $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
# A line of a file, which somebody is about to write.
await() {
    for _ in $(seq 300); do
        grep -m1 "$1" "$2" 2>/dev/null && return
        sleep 0.1
    done
    cat "$2" >&2
    fail "no $1 in $2 after 30 s"
}
# Of dpkg, man-db and ldconfig there is what they remember; of the package, below info, there is not.
files() {
    find / -xdev \( -path /packages -o -path '/var/lib/dpkg/*-old' -o -path '/var/cache/man/*' \
        -o -path /var/cache/ldconfig/aux-cache -o -path /root/.local \) -prune -o -print | LC_ALL=C sort
}
"#;

/// All that a newcomer types. The link that is printed is opened outside, in a browser.
const NEWCOMER: &str = r#"
: >>/var/log/dpkg.log
files >/tmp/before
await 'port 5977' /tmp/vnc
step "install, and one command"
date +%s.%N >/tmp/begun
dpkg --install /packages/first.deb
quickset desktop serve --vnc 127.0.0.1:5977 --web >/tmp/serve 2>&1 &
echo $! >/tmp/serve.pid
"#;

const STEPS: &str = r#"
step "what was installed"
quickset --version
man -w quickset quickset-desktop-serve
man quickset-http-get | grep -q 'quickset http get' || fail "no page of http get"
bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader quickset; complete -p quickset'
bash -c '. /usr/share/bash-completion/completions/quickset
    COMP_WORDS=(quickset desktop "") COMP_CWORD=2; _quickset quickset "" desktop; echo "${COMPREPLY[@]}"' \
    | grep serve || fail "bash does not complete desktop"
for link in multi-user.target.wants/quickset@.service; do
    [ ! -e "/etc/systemd/system/$link" ] || fail "it was enabled, and nobody asked for that"
done

step "http serve, http get"
mkdir /tmp/site && seq 100000 >/tmp/site/numbers
quickset http serve /tmp/site --listen 127.0.0.1:4435 >/tmp/http 2>&1 &
server=$!
pin=$(await 'listening on' /tmp/http | sed 's/.*sha256/sha256/')
quickset http get https://127.0.0.1:4435/numbers --pin "$pin" >/tmp/numbers
cmp /tmp/numbers /tmp/site/numbers
kill "$server" && wait "$server" || true

# The newcomer's server, which a browser has looked at, shows its desktop on other devices, too.
step "a second device: invite, and desktop view by the token"
quickset desktop invite --note second >/tmp/invited
grep '^open http://localhost:' /tmp/invited || fail "there is no link for a second browser"
(umask 077 && sed -n 's/^token //p' /tmp/invited >/tmp/token)
XDG_DATA_HOME=/tmp/second quickset desktop view 127.0.0.1:4433 --token-file /tmp/token \
    --pin "$(grep -o -m1 'sha256:.*' /tmp/serve)" >/tmp/view 2>&1 &
view=$!
await '^listening on 127.0.0.1:5901' /tmp/view
bash -c 'exec 3<>/dev/tcp/127.0.0.1/5901; head -c 12 <&3' | grep 'RFB 003.008'
await 'connected to .*800x600' /tmp/view
quickset desktop devices | grep 'key; all; second' || fail "the second device is not listed"
kill "$view" "$(cat /tmp/serve.pid)"
wait || true

step upgrade
mkdir -p /var/lib/private/quickset/site
echo 'ARGUMENTS=http serve /srv/www' >/etc/quickset/site.conf
echo secret >/etc/quickset/key.pem
ln -s private/quickset /var/lib/quickset
dpkg --install /packages/second.deb
dpkg-query --show --showformat '${Version} ${Status}\n' quickset | grep 'upstream2 install ok installed'
quickset --version

# What an administrator has written stays until they remove it; what services have made goes with a purge.
kept() { [ -e /etc/quickset/site.conf ] && [ -e /etc/quickset/key.pem ]; }
step remove
dpkg --remove quickset
[ ! -e /usr/bin/quickset ] || fail "the program is still there"
[ -d /var/lib/private/quickset/site ] || fail "who removes keeps what services have made"
kept || fail "removing took what the administrator had written"

step purge
dpkg --purge quickset
kept || fail "purging took what the administrator had written"
[ ! -L /var/lib/quickset ] && [ ! -e /var/lib/private/quickset ] || fail "purging left what services had made"
rm /etc/quickset/site.conf /etc/quickset/key.pem
rmdir /etc/quickset
rmdir /var/lib/private 2>/dev/null || true
files >/tmp/after
diff /tmp/before /tmp/after || fail "the package left something, or took something along"

step "install, and purge at once"
dpkg --install /packages/second.deb
[ -d /etc/quickset ] || fail "there is no folder for configuration"
dpkg --purge quickset
files >/tmp/after
diff /tmp/before /tmp/after || fail "the package left something, or took something along"
"#;

const SYSTEM_NEEDS: &[Needed] = &[
    program("debootstrap", "debootstrap", "dist: a minimal Debian"),
    program("unshare", "util-linux", "dist: mounts of their own"),
    program("ip", "iproute2", "dist: a loopback of its own"),
];

const NEEDS: &[Needed] = &[
    program("lintian", "lintian", "dist: what Debian asks of a package"),
    program("Xtigervnc", "tigervnc-standalone-server", "dist: a desktop"),
    program("xsetroot", "x11-xserver-utils", "dist: what the desktop shows"),
    program("xterm", "xterm", "dist: what the desktop shows"),
    program("chromium", "chromium", "dist: the newcomer's browser"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_check_is_named_with_those_that_there_are() {
        let build = DistBuild { profile: "dev".into(), program: None };
        let error = command(&build, &["whel"]).expect_err("no such check").to_string();
        assert!(error.contains("\"whel\"") && error.contains("deb, c, wheel"), "{error}");
    }
}
