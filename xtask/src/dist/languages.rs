//! `cargo xtask dist check c wheel`: the C interface and the wheel for Python in a minimal Debian 12 that has a C
//! compiler or Python, and neither Rust nor this repository. The programs of the documentation are built there
//! as it says, and exchange messages without a network.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::check::{COMMON, fresh_system};
use super::{DistBuild, compiled, wheels};
use crate::c;
use crate::run::{root, run};

/// The header and the libraries as they are installed below /usr/local, and the programs of
/// `crates/ffi/README.md` with either library.
pub(super) fn c_interface(build: &DistBuild) -> Result<()> {
    let made = compiled(build, "quickset-ffi", None)?;
    let system = fresh_system("c", "gcc,libc6-dev,pkg-config")?;
    c::install(&made, Path::new("/usr/local"), &system)?;
    for file in ["server.c", "client.c", "common.h"] {
        brought(&root().join("crates/ffi/examples/c").join(file), &system)?;
    }
    played(&system, C_STEPS)?;
    println!("the programs of the C interface exchanged messages in {}", system.display());
    Ok(())
}

/// The wheel as pip installs it, and the examples of `python-quic`.
pub(super) fn wheel(build: &DistBuild) -> Result<()> {
    let wheel = wheels::of_quic(build)?;
    let system = fresh_system("wheel", "python3,python3-venv")?;
    brought(&wheel, &system)?;
    for example in ["echo.py", "pictures.py"] {
        brought(&root().join("python-quic/examples").join(example), &system)?;
    }
    played(&system, WHEEL_STEPS)?;
    println!("the programs of the wheel exchanged messages in {}", system.display());
    Ok(())
}

/// Copies a file to where the steps run.
fn brought(file: &Path, system: &Path) -> Result<()> {
    let name = file.file_name().context("it has a name")?;
    fs::copy(file, system.join("packages").join(name))
        .with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

/// Runs the steps in the system, which has a loopback and no other network.
fn played(system: &Path, steps: &str) -> Result<()> {
    fs::write(system.join("packages/steps.sh"), format!("{COMMON}{steps}"))?;
    run(Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", SYSTEM, "sh"])
        .arg(system))
}

const SYSTEM: &str = r#"set -eu
system=$1
ip link set lo up
mount --bind "$system" "$system"
mount -t proc proc "$system/proc"
mount --rbind /dev "$system/dev"
mount -t tmpfs tmpfs "$system/tmp"
exec chroot "$system" env -i HOME=/root LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh /packages/steps.sh
"#;

const C_STEPS: &str = r#"
[ ! -e /usr/bin/rustc ] || fail "this is no system without Rust"
cd /packages
ldconfig
# Of 200 updates each is four messages and a position, which may be late.
exchange() {
    "./server-$1" 127.0.0.1:0 >"$1.said" &
    server=$!
    fingerprint=$(await '^fingerprint ' "$1.said" | sed 's/^fingerprint //')
    "./client-$1" "$(sed -n 's/^address //p' "$1.said")" "$fingerprint"
    wait "$server" || fail "the server failed"
    count=$(sed -n 's/^received \([0-9]*\), closed with code 7: done$/\1/p' "$1.said")
    [ "${count:-0}" -ge 800 ] && [ "$count" -le 1000 ] || fail "the server says $(cat "$1.said")"
    tail -n 1 "$1.said"
}
step "with the shared library"
for name in server client; do
    cc -std=c11 -D_POSIX_C_SOURCE=200809L -o $name-shared $name.c $(pkg-config --cflags --libs quickset)
    ldd $name-shared | grep '/usr/local/lib/libquickset.so' || fail "$name-shared has another library"
done
exchange shared

step "with the static library, and the shared one taken away"
for name in server client; do
    cc -std=c11 -D_POSIX_C_SOURCE=200809L -o $name-static $name.c $(pkg-config --cflags quickset) \
        $(pkg-config --static --libs quickset | sed 's,-lquickset,/usr/local/lib/libquickset.a,')
done
rm /usr/local/lib/libquickset.so*
exchange static
"#;

const WHEEL_STEPS: &str = r#"
[ ! -e /usr/bin/rustc ] && [ ! -e /usr/bin/cc ] || fail "this is no system without compilers"
cd /packages
step "install"
python3 -m venv env
env/bin/pip install --quiet --no-index --disable-pip-version-check quickset-*.whl
step "a server and a client in two processes"
env/bin/python -u echo.py serve >served 2>&1 &
server=$!
line=$(await '^port ' served)
port=${line#port } port=${port%%,*}
said=$(env/bin/python echo.py ask 127.0.0.1 "$port" "${line#*, }" 'ein Wort, größer als sieben Bit')
[ "$said" = 'ein Wort, größer als sieben Bit' ] || fail "the echo says $said"
kill "$server" && wait "$server" || true
step "fenced messages with deadlines"
env/bin/python pictures.py >pictures
cat pictures
# On a slow machine some may be late; each has an outcome.
total=0
for count in $(sed -n '/^{/s/[^0-9]/ /gp' pictures); do total=$((total + count)); done
[ "$total" = 200 ] || fail "of 200 messages $total have an outcome"
grep -q '^picture [0-9]: [1-9][0-9]* bytes$' pictures || fail "no picture came"
"#;
