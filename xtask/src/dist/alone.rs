//! `cargo xtask dist static`: the program that needs no library of the system, tried in a root where there is
//! nothing else: no device, no process, no configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::tree::{PackageTree, files_below};
use super::{DistBuild, archive, emptied, handed, release, work};
use crate::needs::{self, Needed, is_root};
use crate::run::{StepOutcome, on_path, output, root, run};
use crate::viewers::program;

/// Builds the program that runs on any Linux of this processor, tries it, and puts it into an archive with
/// what it says of itself.
pub(super) fn part(build: &DistBuild) -> Result<StepOutcome> {
    let handed = match built(build)? {
        Ok(handed) => handed,
        Err(missing) => return Ok(StepOutcome::Skipped(missing)),
    };
    let program = handed.join("quickset");
    let empty = work().join("empty");
    emptied(&empty)?;
    fs::copy(&program, empty.join("quickset"))?;
    ensure!(files_below(&empty)? == ["quickset"], "there is more than the program in {}", empty.display());
    DistTrial { root: &empty, program: "/quickset", user: 0, home: "/" }.run()?;

    let name = format!("quickset-{}-{MUSL}", env!("CARGO_PKG_VERSION"));
    let work = work().join("alone");
    let tree = PackageTree::new(&work, &name)?;
    tree.file(&program, "bin/quickset", "755")?;
    tree.said_by(&program, "share/zsh/site-functions/_quickset", "share")?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        tree.file(Path::new(file), file, "644")?;
    }
    archive(&work, &name, &release().join(format!("{name}.tar.xz")))?;
    Ok(StepOutcome::Done)
}

/// The folder with the program, or what is missing here to build it.
pub(super) fn built(build: &DistBuild) -> Result<Result<PathBuf, String>> {
    if build.program.is_some() {
        return handed(build, Some(MUSL)).map(Ok);
    }
    let library = output(Command::new("rustc").args(["--print", "target-libdir", "--target", MUSL]))?;
    if !Path::new(library.trim()).is_dir() {
        return Ok(Err(format!("this Rust has nothing for {MUSL} (rustup target add {MUSL})")));
    }
    if !on_path("musl-gcc") {
        return Ok(Err("there is no musl-gcc (Debian's package musl-tools)".into()));
    }
    handed(build, Some(MUSL)).map(Ok)
}

/// The program in a root where there is what a package has brought, and nothing else.
pub(super) struct DistTrial<'a> {
    pub(super) root: &'a Path,
    /// Its path in there.
    pub(super) program: &'a str,
    /// Who runs it, by number; the group has the same.
    pub(super) user: u32,
    /// A folder in there that is the user's.
    pub(super) home: &'a str,
}

impl DistTrial<'_> {
    /// A folder and a desktop are served, and looked at from outside. Only root can do that; where another
    /// one asks, it is told that nothing was tried.
    pub(super) fn run(&self) -> Result<()> {
        if !is_root() {
            println!("SKIPPED: {} was not tried in its root, which only root can", self.program);
            return Ok(());
        }
        needs::ensure(NEEDS)?;
        let said = work().join("said");
        emptied(&said)?;
        run(Command::new("unshare")
            .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", STEPS, "sh"])
            .args([self.root, &said, &root().join("crates/cli/page")])
            .args([self.program, &self.user.to_string(), self.home]))?;
        println!("{} served a folder and a desktop in {}", self.program, self.root.display());
        Ok(())
    }
}

/// What the program does in the root, and who asks it from outside. All that was started ends with this
/// shell.
const STEPS: &str = r#"set -eu
empty=$1 said=$2 page=$3 program=$4 user=$5 home=${6%/} chroot=$(command -v chroot)
step() { echo "-- $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
alone() { env -i HOME="$home/" "$chroot" --userspec="$user:$user" --groups= "$empty" "$program" "$@"; }
# A line of a file, which somebody is about to write.
await() {
    for _ in $(seq 300); do
        grep -m1 "$1" "$2" 2>/dev/null && return
        sleep 0.1
    done
    cat "$2" >&2
    fail "no $1 in $2 after 30 s"
}
ip link set lo up
# Its X server is nobody else's.
mkdir -p /tmp/.X11-unix
mount -t tmpfs tmpfs /tmp/.X11-unix
Xtigervnc :77 -nolock -rfbport 5977 -localhost -SecurityTypes None -geometry 320x200 >"$said/vnc" 2>&1 &

step "the program alone"
alone --version
alone cert new localhost --output "$home/" 2>"$said/cert" >"$said/pin"

step "http serve, by HTTP/1.1 or HTTP/2 and by HTTP/3"
mkdir "$empty/site" && seq 100000 >"$empty/site/numbers"
chmod -R a+rX "$empty/site"
alone http serve /site --listen 127.0.0.1:4433 --cert "$home/cert.pem" --key "$home/key.pem" >"$said/http" 2>&1 &
await 'listening on' "$said/http"
curl --silent --show-error --fail --cacert "$empty$home/cert.pem" https://localhost:4433/numbers -o "$said/numbers"
cmp "$said/numbers" "$empty/site/numbers"
alone http get https://127.0.0.1:4433/numbers --pin "$(cat "$said/pin")" >"$said/numbers.quic"
cmp "$said/numbers.quic" "$empty/site/numbers"

step "desktop serve, by the page"
await 'port 5977' "$said/vnc"
alone desktop serve --vnc 127.0.0.1:5977 --listen 127.0.0.1:4434 --web >"$said/serve" 2>&1 &
link=$(await '^open ' "$said/serve" | sed 's/^open //')
for file in index.html page.js worker.js sound.js page.css viewer.wasm; do
    curl --silent --show-error --fail "${link%%#*}$file" -o "$said/$file"
    cmp "$said/$file" "$page/$file"
done

step "desktop view"
(umask 077 && await '^token ' "$said/serve" | sed 's/^token //' >"$empty$home/token")
chown "$user:$user" "$empty$home/token"
alone desktop view 127.0.0.1:4434 --token-file "$home/token" --pin "$(grep -o -m1 'sha256:.*' "$said/serve")" \
    >"$said/view" 2>&1 &
await '^listening on 127.0.0.1:5901' "$said/view"
bash -c 'exec 3<>/dev/tcp/127.0.0.1/5901; head -c 12 <&3' | grep 'RFB 003.008'
await 'connected to .*320x200' "$said/view"
"#;

/// The system that it is built for.
pub(super) const MUSL: &str = "x86_64-unknown-linux-musl";

const NEEDS: &[Needed] = &[
    program("curl", "curl", "dist: who loads the page"),
    program("Xtigervnc", "tigervnc-standalone-server", "dist: a desktop"),
    program("unshare", "util-linux", "dist: a network of its own"),
    program("ip", "iproute2", "dist: a loopback of its own"),
];
