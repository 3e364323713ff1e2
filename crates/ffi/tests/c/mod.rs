//! What the tests have of the C side: the header, the libraries, and compilers.

#![allow(dead_code, clippy::allow_attributes, reason = "each test has a part of it")]

use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use quickset_ffi::{QsClose, QsEvent, QsMessage, QsMessageStats, QsStats};

pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library that cargo built beside the tests.
pub(crate) fn library(kind: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name(format!("libquickset_ffi.{kind}"));
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// Functions, types and constants that a header declares, each on one line.
pub(crate) fn declarations(header: &str) -> Vec<String> {
    let mut code = String::new();
    let mut rest = header;
    while let Some((front, comment)) = rest.split_once("/*") {
        code.push_str(front);
        rest = comment.split_once("*/").unwrap().1;
    }
    code.push_str(rest);
    let mut found = Vec::new();
    let mut text = String::new();
    for line in code.lines() {
        if let Some(constant) = line.strip_prefix("#define ") {
            if constant.contains(' ') {
                found.push(format!("#define {constant}"));
            }
        } else if !line.starts_with('#') && !line.starts_with("extern \"C\"") {
            text.push_str(line);
            text.push(' ');
        }
    }
    // Structs have semicolons within: their fields are compared one by one.
    let mut depth = 0;
    let mut one = String::new();
    for letter in text.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if letter == ';' && depth <= 0 {
            let words: Vec<&str> = one.split_whitespace().collect();
            let line = words.join(" ").trim_start_matches("} ").replace("( ", "(").replace(" )", ")");
            if !line.contains('{') {
                found.push(line);
            }
            (one, depth) = (String::new(), 0);
        } else {
            one.push(letter);
        }
    }
    found.retain(|line| !line.is_empty());
    found
}

/// The layout of structs, as lines like `sizeof qs_event 32` and `offsetof qs_event.kind 0`.
pub(crate) fn layout() -> Vec<String> {
    let mut lines = Vec::new();
    macro_rules! layout {
        ($($kind:ident $name:literal $($field:ident)*;)*) => {$(
            lines.push(format!("sizeof {} {}", $name, size_of::<$kind>()));
            $(lines.push(format!("offsetof {}.{} {}", $name, stringify!($field), offset_of!($kind, $field)));)*
        )*};
    }
    layout! {
        QsEvent "qs_event" kind reserved handle parent user;
        QsClose "qs_close" size kind reserved code reason_length reason;
        QsMessage "qs_message" size segment blocked_us;
        QsMessageStats "qs_message_stats" size queued queued_bytes sent on_time late recovered arrived_bytes dropped
            abandoned unsent_bytes;
        QsStats "qs_stats" size sent_datagrams sent_bytes sent_packets received_datagrams received_bytes
            received_packets dropped_packets lost_packets spurious_losses probe_timeouts stream_bytes rtt_us
            min_rtt_us window in_flight pacing_rate mtu repairs_sent repair_bytes recovered unrecovered
            recovered_here loss_ppm unreliable_sent unreliable_lost unreliable_received unreliable_dropped
            unpaid_packets paced;
    }
    lines
}

/// All that a program is compiled with.
pub(crate) fn interface(header: &str) -> Vec<String> {
    let mut lines = declarations(header);
    lines.extend(layout());
    lines
}

/// The C compilers that are here.
pub(crate) fn compilers() -> Vec<&'static str> {
    let works =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    ["gcc", "clang"].into_iter().filter(works).collect()
}

/// How strictly a program is compiled.
const STRICT: [&str; 8] = [
    "-std=c11",
    "-D_POSIX_C_SOURCE=200809L",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Werror",
    "-g",
];

/// What watches it while it runs.
const WATCHED: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// Whether the compiler has its sanitizers' libraries, which are a package of their own for some.
fn watches(compiler: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("nothing.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let program = folder.path().join("nothing");
    let out = Command::new(compiler).args(WATCHED).arg(source).arg("-o").arg(program).output().unwrap();
    out.status.success()
}

/// What the static library needs of the system (`rustc --print native-static-libs`).
const SYSTEM: [&str; 5] = ["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"];

/// Compiles a program of one file with the static library, strictly, and to be watched if that is possible.
pub(crate) fn compile(compiler: &str, source: &Path, program: &Path) {
    let watched = watches(compiler);
    if !watched {
        eprintln!("{compiler} has no sanitizers here");
    }
    let out = Command::new(compiler)
        .args(STRICT)
        .args(WATCHED.iter().filter(|_| watched))
        .arg("-I")
        .arg(folder().join("include"))
        .arg(source)
        .arg(library("a"))
        .args(SYSTEM)
        .arg("-o")
        .arg(program)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{compiler} refuses {}:\n{}",
        source.display(),
        String::from_utf8_lossy(&out.stderr)
    );
}
