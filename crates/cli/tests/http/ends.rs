//! Ends that nobody announced: a process is killed or stands still, a network swallows all. Whoever is left
//! notices in the time it was given, says what to do next, and serves others.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::relay::{Relay, Weather};
use crate::served::{Served, large, signal, text};

/// How long a client lets the server be silent. Long enough for a busy machine.
const SILENCE: Duration = Duration::from_secs(4);
/// The same as text.
const TIMEOUT: &str = "4s";

/// 3 MB take six seconds, so that there is time to end in between.
const SLOW: [&str; 3] = ["--cc", "fixed:4mbit", "--no-tcp"];

/// The reason to give up on a condition. Who waits for other ends than those here waits for half a minute at
/// least.
const LIMIT: Duration = Duration::from_secs(25);

/// Fetches from the address, and has begun to.
fn fetching(served: &Served, address: &str) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_quickset"))
        .args(["http", "get", "--json", "--timeout", TIMEOUT, "--pin", &served.pin, "-o"])
        .arg(served.folder.join("got"))
        .arg(format!("https://{address}/large.bin"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let part = served.got("large.bin.part");
    until("something comes", || fs::metadata(&part).is_ok_and(|file| file.len() > 0));
    child
}

/// Waits until it holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "it does not come true that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a program says in the end, which comes soon.
fn ended(mut child: Child) -> Output {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("it has not ended: {}", text(&child.wait_with_output().unwrap().stderr));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// The client noticed in time that nothing comes since then, not too soon, kept what came, and says so.
#[track_caller]
fn gave_up(served: &Served, since: Instant, output: &Output) {
    let after = since.elapsed();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the peer does not answer; check its address and the network"), "{said}");
    assert!(said.contains("go on with --resume") && said.contains("1 of 1 could not be fetched"), "{said}");
    assert!(after > SILENCE / 2, "{after:?}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows[0]["status"], 200);
    let came = fs::metadata(served.got("large.bin.part")).unwrap().len();
    assert_eq!(rows[0]["bytes"], came, "all of it is kept");
}

#[test]
fn a_killed_server_is_noticed() {
    let mut served = Served::new("killed", &SLOW);
    let client = fetching(&served, &served.address);
    let killed = Instant::now();
    served.server.kill().unwrap();
    served.server.wait().unwrap();
    gave_up(&served, killed, &ended(client));
    // Nobody is there to begin with, either.
    let started = Instant::now();
    let output = served.get(&["/small.txt"], &["--timeout", "1s"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    let expected = if cfg!(target_os = "linux") { "whether the server runs" } else { "check its address" };
    assert!(said.contains("no connection to") && said.contains(expected), "{said}");
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
}

/// A client that is gone keeps its seat no longer than it would have been silent.
#[test]
fn a_killed_client_leaves_its_seat() {
    let served = Served::new("seat", &[&SLOW[..], &["--max-connections", "1"]].concat());
    let mut client = fetching(&served, &served.address);
    client.kill().unwrap();
    client.wait().unwrap();
    let mut refused = 0;
    until("the next one is served", || {
        let output = served.get(&["/small.txt"], &["--timeout", TIMEOUT]);
        refused += u32::from(!output.status.success());
        output.status.success() && output.stdout == b"small"
    });
    assert!(refused > 0, "its seat was taken");
}

/// A person who has enough keeps what came, and hears how to go on.
#[test]
fn a_fetch_that_is_interrupted_says_how_to_go_on() {
    let served = Served::new("interrupted", &SLOW);
    let client = fetching(&served, &served.address);
    signal(&client, "-INT");
    let output = ended(client);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted; go on with --resume, what came is in "), "{said}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let came = fs::metadata(served.got("large.bin.part")).unwrap().len();
    assert_eq!(rows[0]["bytes"], came, "all of it is kept");
    let folder = served.folder.join("got");
    let output = served.get(&["/large.bin"], &["--json", "--resume", "-o", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows[0]["status"], 206);
    assert!(fs::read(served.got("large.bin")).unwrap() == large());

    // Where nobody answers there is nothing to keep.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = Command::new(env!("CARGO_BIN_EXE_quickset"))
        .args(["http", "get", "--insecure", "--timeout", "60s", "-o"])
        .arg(&folder)
        .arg(format!("https://{}/a", silent.local_addr().unwrap()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has said hello, so that it listens.
    silent.recv(&mut [0; 2000]).unwrap();
    signal(&client, "-INT");
    let output = ended(client);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(": interrupted\n"), "{}", text(&output.stderr));
}

/// A server that was killed and comes back with the key of before tells its clients, who wait for it else.
#[test]
fn a_server_that_comes_back_with_its_key_is_believed() {
    let mut served = Served::new("key", &SLOW);
    let key = served.folder.join("endpoint.key");
    let words = [&SLOW[..], &["--endpoint-key", key.to_str().unwrap()]].concat();
    // One that has it in use is not joined.
    let first = Served::new("key-one", &words);
    let output = Command::new(env!("CARGO_BIN_EXE_quickset"))
        .args(["http", "serve", ".", "--listen", "127.0.0.1:0"])
        .args(&words)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("another server has"), "{}", text(&output.stderr));
    drop(first);

    let address = served.address.clone();
    served.server.kill().unwrap();
    served.server.wait().unwrap();
    let mut before = Served::bound("key-two", &address, &words);
    let client = Command::new(env!("CARGO_BIN_EXE_quickset"))
        .args(["http", "get", "--timeout", "60s", "--pin", &before.pin, "-o"])
        .arg(before.folder.join("got"))
        .arg(format!("https://{address}/large.bin"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let part = before.got("large.bin.part");
    until("something comes", || fs::metadata(&part).is_ok_and(|file| file.len() > 0));
    before.server.kill().unwrap();
    before.server.wait().unwrap();
    let _after = Served::bound("key-three", &address, &words);
    let output = ended(client);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("go on with --resume"), "{said}");
    // By a word of the server, and not by its silence.
    assert!(!said.contains("does not answer"), "{said}");
}

/// Who comes while the server finishes its answers need not wait until it has.
#[test]
fn a_server_that_stops_refuses_at_once() {
    let mut served = Served::new("refuses", &SLOW);
    let client = fetching(&served, &served.address);
    signal(&served.server, "-TERM");
    let mut said = String::new();
    until("the next one gets nothing", || {
        let output = served.get(&["/small.txt"], &[]);
        said = text(&output.stderr);
        !output.status.success()
    });
    assert!(said.contains("CONNECTION_REFUSED"), "{said}");
    let output = ended(client);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(served.server.wait().unwrap().success());
}

#[test]
fn a_frozen_server_may_thaw() {
    let served = Served::new("frozen", &SLOW);
    let client = fetching(&served, &served.address);
    signal(&served.server, "-STOP");
    std::thread::sleep(SILENCE / 4);
    signal(&served.server, "-CONT");
    let output = ended(client);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::read(served.got("large.bin")).unwrap() == large());

    let client = fetching(&served, &served.address);
    let stopped = Instant::now();
    signal(&served.server, "-STOP");
    let end = ended(client);
    signal(&served.server, "-CONT");
    gave_up(&served, stopped, &end);
    assert_eq!(text(&served.get(&["/small.txt"], &[]).stdout), "small");
}

/// A client that stood still for longer than it allows itself fails when it wakes, and goes on from where it
/// was.
#[test]
fn a_frozen_client_goes_on_later() {
    let served = Served::new("thawed", &SLOW);
    let client = fetching(&served, &served.address);
    signal(&client, "-STOP");
    assert_eq!(text(&served.get(&["/small.txt"], &[]).stdout), "small", "others are served meanwhile");
    std::thread::sleep(SILENCE * 3 / 2);
    signal(&client, "-CONT");
    let output = ended(client);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("connect again") && said.contains("--resume"), "{said}");
    let got = served.folder.join("got");
    let output = served.get(&["/large.bin"], &["--json", "--resume", "-o", got.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows[0]["status"], 206);
    assert!(fs::read(served.got("large.bin")).unwrap() == large());
}

#[test]
fn a_network_that_swallows_all_is_noticed() {
    let served = Served::new("dark", &SLOW);
    let relay = Relay::new(served.address.parse().unwrap(), Weather::default());
    let client = fetching(&served, &relay.address.to_string());
    let dark = Instant::now();
    relay.set_dark(true);
    gave_up(&served, dark, &ended(client));
    relay.set_dark(false);
    let url = format!("https://{}/small.txt", relay.address);
    assert_eq!(text(&served.get_urls(&[&url], &[]).stdout), "small");
}

/// The same of `quickset perf`, whose server outlives its client, and the other way round.
#[test]
fn a_measurement_that_breaks_off_says_so() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_quickset"))
        .args(["perf", "server", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut words = line.trim().strip_prefix("listening on ").unwrap().split(' ');
    let (address, pin) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let folder = std::env::temp_dir().join(format!("quickset-http-broken-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let client = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(["perf", "client", &address, "--pin", &pin, "--timeout", TIMEOUT])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // A trace tells when it is past its handshake.
    let measures = |traces: &std::path::Path| {
        let files = fs::read_dir(traces).into_iter().flatten().map(|file| file.unwrap().path());
        files
            .map(|file| fs::read_to_string(file).unwrap())
            .any(|trace| trace.matches("\"1RTT\"").count() > 100)
    };
    let [one, two] = ["one", "two"].map(|name| folder.join(name));
    let mut first = client(&["--seconds", "60", "--upload", "--qlog", one.to_str().unwrap()]);
    until("the first one measures", || measures(&one));
    first.kill().unwrap();
    first.wait().unwrap();
    let output = ended(client(&["--bytes", "100kB"]));
    assert!(output.status.success(), "{}", text(&output.stderr));

    let mut last = client(&["--seconds", "60", "--qlog", two.to_str().unwrap()]);
    until("the last one measures", || measures(&two));
    assert!(last.try_wait().unwrap().is_none(), "it goes on");
    server.kill().unwrap();
    server.wait().unwrap();
    let output = ended(last);
    fs::remove_dir_all(&folder).unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("broke off: the peer does not answer; check its address"), "{said}");
    assert!(output.stdout.is_empty(), "no figures");
}

/// Nobody reads what there is to say in the end, so that it cannot be written: whoever wants it to stop ends
/// it, in each way.
#[test]
fn a_pipe_that_nobody_reads_holds_up_nobody() {
    let served = Served::new("unread", &[]);
    // More than a pipe takes (pipe(7): 64 KiB).
    let urls: Vec<String> = (0..1000).map(|n| format!("https://{}/none-{n}", served.address)).collect();
    let got = served.folder.join("got");
    let kept = ["-o", got.to_str().unwrap()];
    // Who prints content leaves signals to the system. Started in the background it is to ignore the first of
    // them.
    for (words, which) in
        [(&["--json"][..], "-INT"), (&["--json"], "-TERM"), (&["-i"], "-INT"), (&[], "-TERM")]
    {
        let kept: &[&str] = if words.is_empty() { &[] } else { &kept };
        let urls = if words.is_empty() {
            vec![format!("https://{}/large.bin", served.address)]
        } else {
            urls.clone()
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(["http", "get", "--pin", &served.pin])
            .args(words.iter().chain(kept))
            .args(urls)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It has begun to write, and there is more of it.
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        signal(&child, which);
        let since = Instant::now();
        until("it ends", || child.try_wait().unwrap().is_some());
        assert!(since.elapsed() < Duration::from_secs(15), "{words:?}: {:?}", since.elapsed());
        assert!(!child.wait().unwrap().success(), "{words:?}, {which}");
    }
}
