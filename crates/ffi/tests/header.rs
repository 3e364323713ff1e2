//! The header is what the sources say, and the libraries export what the header says.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod c;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The header as cbindgen makes it of the sources.
fn made() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    // File by file: cargo need not be asked where the sources are.
    let mut sources: Vec<PathBuf> =
        fs::read_dir(folder.join("src")).unwrap().map(|entry| entry.unwrap().path()).collect();
    // It names the others, which would be in the header once more by that.
    sources.retain(|source| !source.ends_with("lib.rs"));
    sources.sort();
    let builder =
        sources.into_iter().fold(cbindgen::Builder::new().with_config(config), cbindgen::Builder::with_src);
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    // What is for those who read the sources is not for those who read the header.
    let text = String::from_utf8(text).unwrap();
    let mut kept: Vec<&str> = Vec::new();
    let mut in_safety = false;
    for line in text.lines() {
        in_safety = line.trim() == "* # Safety" || (in_safety && line.trim() != "*/");
        if in_safety {
            continue;
        }
        if line.trim() == "*/" && kept.last().is_some_and(|last| last.trim() == "*") {
            kept.pop();
        }
        kept.push(line);
    }
    kept.join("\n") + "\n"
}

#[test]
fn the_header_is_what_the_sources_say() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/quickset.h");
    let made = made();
    if std::env::var_os("QUICKSET_RENEW").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made,
        "include/quickset.h is not what the sources say; write it by\n\n    QUICKSET_RENEW=1 cargo test -p quickset-ffi\n"
    );
}

#[test]
fn nothing_is_declared_twice() {
    let mut declared = c::declarations(&made());
    declared.sort();
    let twice: Vec<_> = declared.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}

/// The functions that a header declares.
fn declared(header: &str) -> BTreeSet<String> {
    c::declarations(header)
        .iter()
        .filter_map(|declaration| declaration.strip_suffix(')')?.split_once('('))
        .map(|(front, _)| front.rsplit([' ', '*']).next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let declared = declared(&made());
    assert!(declared.len() > 50 && declared.contains("qs_endpoint_poll_events"), "{declared:?}");
    let nm =
        Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(c::library("so")).output();
    let Some(nm) = nm.ok().filter(|nm| nm.status.success()) else {
        eprintln!("there is no nm here that reads the library");
        return;
    };
    let exported: BTreeSet<String> = String::from_utf8(nm.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect();
    assert_eq!(exported, declared);
}

/// The interface as a list: what programs were compiled with. A line may be added, and none may go or change.
#[test]
fn nothing_goes_from_the_binary_interface() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi.txt");
    let now = c::interface(&made());
    let kept = fs::read_to_string(&file).unwrap_or_default();
    let kept: BTreeSet<&str> = kept.lines().filter(|line| !line.starts_with("# ")).collect();
    let is_there: BTreeSet<&str> = now.iter().map(String::as_str).collect();
    let gone: Vec<&&str> = kept.iter().filter(|line| !is_there.contains(*line) && !may_grow(line)).collect();
    if std::env::var_os("QUICKSET_BREAK").is_none() {
        assert!(
            gone.is_empty(),
            "programs that were built against the library would break: {gone:#?}\nGive what is new a name of its own \
             and leave the old one. To break them all the same, raise the first number of the version, which is that \
             of the shared library, say so in CHANGELOG.md, and write abi.txt by\n\n    \
             QUICKSET_BREAK=1 QUICKSET_RENEW=1 cargo test -p quickset-ffi\n"
        );
    }
    if std::env::var_os("QUICKSET_RENEW").is_some() {
        fs::write(&file, HEAD.to_owned() + &now.join("\n") + "\n").unwrap();
        return;
    }
    let new: Vec<&&str> = is_there.difference(&kept).collect();
    assert!(
        new.is_empty(),
        "abi.txt does not have {new:#?}; write it by\n\n    QUICKSET_RENEW=1 cargo test -p quickset-ffi\n"
    );
}

/// Structs that begin with their size may become longer.
fn may_grow(line: &str) -> bool {
    let sized = ["qs_close", "qs_message", "qs_message_stats", "qs_stats"];
    sized.iter().any(|name| line.starts_with(&format!("sizeof {name} ")))
}

const HEAD: &str = "# The binary interface: what a program was compiled with. tests/header.rs compares it with the header \
and the sources.\n";
