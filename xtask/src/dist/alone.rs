//! `cargo xtask dist static`: the program that needs no library of the system, tried in a root where there is
//! nothing else: no device, no process, no configuration.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::handed;
use crate::needs::{self, Needed, is_root};
use crate::run::{StepOutcome, on_path, output, root, run};
use crate::viewers::program;

/// Builds the program that runs on any Linux of this processor, and tries it.
pub(super) fn command(profile: &str) -> Result<()> {
    match tried(profile)? {
        StepOutcome::Done => {}
        StepOutcome::Skipped(reason) => println!("static: skipped: {reason}"),
    }
    Ok(())
}

fn tried(profile: &str) -> Result<StepOutcome> {
    let library = output(Command::new("rustc").args(["--print", "target-libdir", "--target", MUSL]))?;
    if !Path::new(library.trim()).is_dir() {
        return Ok(StepOutcome::Skipped(format!(
            "this Rust has nothing for {MUSL} (rustup target add {MUSL})"
        )));
    }
    if !on_path("musl-gcc") {
        return Ok(StepOutcome::Skipped("there is no musl-gcc (Debian's package musl-tools)".into()));
    }
    let built = handed(profile, Some(MUSL))?.join("quickset");
    if !is_root() {
        println!("not tried in an empty root, which only root can: {}", built.display());
        return Ok(StepOutcome::Done);
    }
    needs::ensure(NEEDS)?;
    let work = root().join("target/dist");
    let (empty, said) = (work.join("empty"), work.join("said"));
    for folder in [&empty, &said] {
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("{} of before cannot be removed", folder.display()))?;
        }
        fs::create_dir_all(folder)?;
    }
    fs::copy(&built, empty.join("quickset"))?;
    run(Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", STEPS, "sh"])
        .args([empty, said, root().join("crates/cli/page")]))?;
    println!("the program without libraries served a folder and a desktop in an empty root");
    Ok(StepOutcome::Done)
}

/// What the program does in the root, and who asks it from outside. All that was started ends with this
/// shell.
const STEPS: &str = r#"set -eu
empty=$1 said=$2 page=$3 chroot=$(command -v chroot)
step() { echo "-- $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
alone() { env -i HOME=/ "$chroot" "$empty" /quickset "$@"; }
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
[ "$(ls "$empty")" = quickset ] || fail "there is more than the program"
alone --version
alone cert new localhost 2>"$said/cert" >"$said/pin"

step "http serve, by HTTP/1.1 or HTTP/2 and by HTTP/3"
mkdir "$empty/site" && seq 100000 >"$empty/site/numbers"
alone http serve /site --listen 127.0.0.1:4433 --cert /cert.pem --key /key.pem >"$said/http" 2>&1 &
await 'listening on' "$said/http"
curl --silent --show-error --fail --cacert "$empty/cert.pem" https://localhost:4433/numbers -o "$said/numbers"
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
(umask 077 && await '^token ' "$said/serve" | sed 's/^token //' >"$empty/token")
alone desktop view 127.0.0.1:4434 --token-file /token --pin "$(grep -o -m1 'sha256:.*' "$said/serve")" \
    >"$said/view" 2>&1 &
await '^listening on 127.0.0.1:5901' "$said/view"
bash -c 'exec 3<>/dev/tcp/127.0.0.1/5901; head -c 12 <&3' | grep 'RFB 003.008'
await 'connected to .*320x200' "$said/view"
"#;

const MUSL: &str = "x86_64-unknown-linux-musl";

const NEEDS: &[Needed] = &[
    program("curl", "curl", "dist: who loads the page"),
    program("Xtigervnc", "tigervnc-standalone-server", "dist: a desktop"),
    program("unshare", "util-linux", "dist: a network of its own"),
    program("ip", "iproute2", "dist: a loopback of its own"),
];
