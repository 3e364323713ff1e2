//! Programs in C, compiled strictly and watched by sanitizers while they run: those of the examples over a
//! path that loses packets, one that misuses the library, and one that uses all of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod c;
mod relay;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use relay::LossyRelay;

/// A child that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compiles the program with each compiler that is here, and runs it.
fn runs(source: &str) {
    let folder = tempfile::tempdir().unwrap();
    for compiler in c::compilers() {
        let program = folder.path().join(compiler);
        c::compile(compiler, &c::folder().join(source), &program);
        let out = Command::new(&program).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{source} by {compiler}: {}\n{said}", out.status);
    }
}

#[test]
fn misuse_is_refused() {
    runs("tests/c/border.c");
}

#[test]
fn every_part_works_from_c() {
    runs("tests/c/calls.c");
}

#[test]
fn no_bytes_and_4_gib_are_refused_or_bounded() {
    runs("tests/c/extremes.c");
}

#[test]
fn threads_share_handles() {
    runs("tests/c/threads.c");
}

/// C and Rust agree on where the fields are.
#[test]
fn structs_are_laid_out_as_c_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = String::from("#include <stdio.h>\n#include \"quickset.h\"\nint main(void) {\n");
    let expected = c::layout();
    for line in &expected {
        let words: Vec<&str> = line.split(' ').collect();
        let value = match words[1].split_once('.') {
            Some((name, field)) => format!("offsetof({name}, {field})"),
            None => format!("sizeof({})", words[1]),
        };
        writeln!(source, "    printf(\"{} {} %zu\\n\", {value});", words[0], words[1]).unwrap();
    }
    source += "    return 0;\n}\n";
    let file = folder.path().join("layout.c");
    std::fs::write(&file, source).unwrap();
    for compiler in c::compilers() {
        let program = folder.path().join(compiler);
        c::compile(compiler, &file, &program);
        let out = Command::new(&program).output().unwrap();
        let printed = String::from_utf8(out.stdout).unwrap();
        assert_eq!(printed.lines().collect::<Vec<_>>(), expected, "by {compiler}");
    }
}

/// Programs in C++ include the header, too.
#[test]
fn the_header_is_good_for_cpp() {
    for compiler in ["g++", "clang++"] {
        let header = c::folder().join("include/quickset.h");
        let strict = ["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"];
        // A main file, as the compiler would otherwise take what is a header.
        let include = ["-x", "c++", "-include"];
        let out = Command::new(compiler).args(strict).args(include).arg(&header).arg("/dev/null").output();
        let Ok(out) = out else {
            eprintln!("there is no {compiler} here");
            continue;
        };
        assert!(out.status.success(), "{compiler}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// The number behind a word in a line like `arrived 7, recovered 1`.
fn number(line: &str, word: &str) -> u64 {
    let mut words = line.split([' ', ',', '\n']).skip_while(|found| *found != word);
    words.nth(1).unwrap_or_else(|| panic!("no {word} in {line:?}")).parse().unwrap()
}

#[test]
fn the_examples_exchange_fenced_messages_over_a_path_that_loses_packets() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in c::compilers() {
        let [server, client] = ["server", "client"].map(|name| {
            let program = folder.path().join(format!("{name}-{compiler}"));
            c::compile(compiler, &c::folder().join(format!("examples/c/{name}.c")), &program);
            program
        });
        let mut server = Command::new(server);
        let mut server = Running(server.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
        let mut next = || lines.next().expect("the server says more").unwrap();
        let (address, fingerprint) = (next(), next());
        let address = address.strip_prefix("address ").unwrap();
        let fingerprint = fingerprint.strip_prefix("fingerprint ").unwrap();

        // One datagram in a hundred, each way.
        let relay = LossyRelay::start(address.parse().unwrap(), 100);
        let out = Command::new(client).arg(relay.address().to_string()).arg(fingerprint).output().unwrap();
        let said = String::from_utf8(out.stdout).unwrap();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "by {compiler}: {}\n{said}{errors}", out.status);
        let received = next();
        assert!(received.ends_with(", closed with code 7: done"), "{received}");
        assert!(server.0.wait().unwrap().success());

        // 200 updates of four parts each, and a position with a deadline.
        let (arrived, received) = (number(&said, "arrived"), number(&received, "received"));
        assert!((800..=1000).contains(&arrived), "parts have no deadline: all 800 arrive\n{said}");
        assert!((arrived..=1000).contains(&received), "what arrived was received: {received}\n{said}");
        assert!(relay.lost() >= 10, "{} datagrams were lost: the path was too good", relay.lost());
        assert!(number(&said, "lost") >= 1, "the client lost packets\n{said}");
    }
}
