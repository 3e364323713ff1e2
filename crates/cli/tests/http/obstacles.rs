//! What stands in the way of a server: an address that is taken, and a log that nobody reads.

use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::served::{Served, signal, text};

/// Who cannot be watched as it should does not begin, and nobody hears that it did.
#[test]
fn an_address_for_figures_that_is_taken_is_noticed_first() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = std::env::temp_dir();
    let folder = folder.to_str().unwrap();
    for words in [&["http", "serve", folder][..], &["perf", "server"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(words)
            .args(["--listen", "127.0.0.1:0", "--metrics", &address])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert_eq!(text(&output.stdout), "", "{words:?}");
        assert!(text(&output.stderr).contains("choose another address with --metrics"), "{words:?}");
    }
}

/// A pipe that nobody reads is full after some lines.
#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let mut served = Served::logging("unread", "127.0.0.1:0", &["--access-log"], Stdio::piped());
    let long = "x".repeat(8000);
    for round in 0..4 {
        let paths: Vec<String> = (0..50).map(|n| format!("/small.txt?{round}-{n}-{long}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let output = served.get(&paths, &["--timeout", "10s"]);
        assert!(output.status.success(), "in round {round}");
        assert_eq!(text(&output.stdout), "small".repeat(50));
    }
    // Who reads after all hears what is missing.
    let mut output = served.server.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut log = String::new();
        output.read_to_string(&mut log).unwrap();
        log
    });
    signal(&served.server, "-TERM");
    assert!(served.server.wait().unwrap().success());
    let log = reader.join().unwrap();
    assert!(log.contains("lines are missing here"), "{} bytes", log.len());
    let lines = log.lines().filter(|line| line.contains("GET /small.txt")).count();
    assert!((8..200).contains(&lines), "{lines} lines");
}
