//! `quickset play` against `quickset http serve`, and against a server that does all of it wrong.

use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use quickset::{Identity, ServerConfig};
use rustls::{ServerConnection, StreamOwned};
use serde_json::Value;

use super::served::{Served, text};

/// Two seconds in segments of half a second: 2000 bytes each in the lower bitrate and 8000 in the higher one.
const MANIFEST: &str = r#"<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT2S">
  <Period><AdaptationSet contentType="video">
    <SegmentTemplate media="$RepresentationID$/$Number$.m4s" initialization="$RepresentationID$/init.mp4" timescale="1000" duration="500"/>
    <Representation id="low" bandwidth="32000"/><Representation id="high" bandwidth="128000"/>
  </AdaptationSet></Period></MPD>"#;

fn presentation(served: &Served) {
    let site = served.folder.join("site");
    fs::write(site.join("a.mpd"), MANIFEST).unwrap();
    for (id, bytes) in [("low", 2000), ("high", 8000)] {
        fs::create_dir(site.join(id)).unwrap();
        fs::write(site.join(id).join("init.mp4"), vec![0; 700]).unwrap();
        for number in 1..=4 {
            fs::write(site.join(id).join(format!("{number}.m4s")), vec![number; bytes]).unwrap();
        }
    }
}

fn play(url: &str, pin: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickset"));
    command.args(["play", url, "--pin", pin]).args(words).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// What the players say of themselves is what the server says of them.
#[cfg(unix)]
#[test]
fn two_players_see_all_of_it_by_each_version() {
    for (version, name, logged) in
        [("3", "HTTP/3", "HTTP/3"), ("2", "HTTP/2", "HTTP/2"), ("1", "HTTP/1.1", "HTTP/1")]
    {
        let mut tries = 0;
        let (results, log) = loop {
            let mut served = Served::new(&format!("play{version}"), &["--access-log"]);
            presentation(&served);
            let url = format!("https://{}/a.mpd", served.address);
            let words = ["--players", "2", "--http", version, "--stagger", "100ms", "--json"];
            let output = play(&url, &served.pin, &words);
            assert!(output.status.success(), "{name}: {}", text(&output.stderr));
            let results = json(&output);
            tries += 1;
            // Half a second may pass on a machine that is busy, three times hardly.
            if results["sum"]["stalls"] == 0 || tries == 3 {
                break (results, served.stop());
            }
        };
        assert_eq!((&results["http"], &results["abr"]), (&name.into(), &"dynamic".into()));
        let (mut bytes, mut bits, mut segments) = (0, 0.0, 0);
        for line in log.lines().filter(|line| !line.contains("/a.mpd")) {
            assert!(line.contains(&format!(" {logged}\" 200 ")), "{line}");
            bytes += line.split("\" 200 ").nth(1).unwrap().split(' ').next().unwrap().parse::<u64>().unwrap();
            if line.contains(".m4s") {
                segments += 1;
                bits += if line.contains("/high/") { 128_000.0 } else { 32_000.0 } * 0.5;
            }
        }
        let sum = &results["sum"];
        assert_eq!((&sum["players"], &sum["done"], &sum["failed"]), (&2.into(), &2.into(), &0.into()));
        assert_eq!((&sum["segments"], segments), (&8.into(), 8), "{log}");
        assert_eq!(sum["bytes"], bytes, "{log}");
        // All of it was played: 2 s by each.
        assert_eq!((&sum["played_s"], &sum["rebuffering_s"]), (&4.0.into(), &0.0.into()), "{results}");
        assert!((sum["average_bitrate_mbps"].as_f64().unwrap() - bits / 4e6).abs() < 1e-5, "{results}");
        for row in results["players"].as_array().unwrap() {
            assert_eq!((&row["state"], &row["played_s"]), (&"done".into(), &2.0.into()));
            assert!(row["startup_s"].as_f64().unwrap() < 2.0, "{row}");
        }
    }
}

/// One file of segments with an index in front of them (ISO/IEC 14496-12 §8.16.3): 2000 and 3000 bytes of
/// half a second.
fn indexed() -> Vec<u8> {
    let mut file = Vec::new();
    // Its size and name, version 0, an id, ticks a second, when it begins, nothing between it and the media,
    // two references.
    file.extend([0, 0, 0, 56].iter().chain(b"sidx"));
    for word in [0_u32, 1, 1000, 0, 0, 2] {
        file.extend(word.to_be_bytes());
    }
    for word in [2000_u32, 500, 0x9000_0000, 3000, 500, 0x9000_0000] {
        file.extend(word.to_be_bytes());
    }
    file.resize(56 + 5000, 7);
    file
}

#[test]
fn parts_of_a_file_are_fetched_by_each_version() {
    let served = Served::new("parts", &[]);
    let site = served.folder.join("site");
    fs::write(site.join("video.mp4"), indexed()).unwrap();
    let manifest = |addressing: &str| {
        format!(
            r#"<MPD mediaPresentationDuration="PT1S"><Period><AdaptationSet contentType="video"><Representation bandwidth="40000">
            <BaseURL>video.mp4</BaseURL>{addressing}</Representation></AdaptationSet></Period></MPD>"#
        )
    };
    fs::write(site.join("index.mpd"), manifest(r#"<SegmentBase indexRange="0-55"/>"#)).unwrap();
    let list = r#"<SegmentList timescale="2" duration="1"><SegmentURL mediaRange="56-2055"/><SegmentURL mediaRange="2056-5055"/></SegmentList>"#;
    fs::write(site.join("list.mpd"), manifest(list)).unwrap();
    fs::write(site.join("beyond.mpd"), manifest(&list.replace("5055", "5056"))).unwrap();
    std::thread::scope(|scope| {
        for version in ["3", "2", "1"] {
            for (path, bytes) in [("index.mpd", Some(5056)), ("list.mpd", Some(5000)), ("beyond.mpd", None)] {
                let (url, pin) = (format!("https://{}/{path}", served.address), &served.pin);
                scope.spawn(move || {
                    let output = play(&url, pin, &["--http", version, "--json"]);
                    let (said, row) = (text(&output.stderr), json(&output)["players"][0].clone());
                    assert_eq!(output.status.success(), bytes.is_some(), "{path} by {version}: {said}");
                    if let Some(bytes) = bytes {
                        assert_eq!((&row["bytes"], &row["played_s"]), (&bytes.into(), &1.0.into()));
                    } else {
                        assert!(said.contains("other bytes than 2056 to 5056"), "{said}");
                    }
                });
            }
        }
    });
}

#[test]
fn what_is_wanted_of_it_is_played_and_shown_as_a_table() {
    let served = Served::new("table", &[]);
    presentation(&served);
    let output = play(&format!("https://{}/a.mpd", served.address), &served.pin, &["--seconds", "0.6"]);
    let said = text(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    // To the end of the second segment.
    assert_eq!((rows[1][0], rows[1][6], rows[1][8], rows[1][10]), ("1", "2", "1.0", "done"), "{said}");
    assert_eq!(rows[2][0], "all");
}

#[test]
fn a_segment_that_is_missing_is_asked_for_again_and_then_named() {
    let served = Served::new("gone", &[]);
    presentation(&served);
    for id in ["low", "high"] {
        fs::remove_file(served.folder.join("site").join(id).join("3.m4s")).unwrap();
    }
    let output = play(&format!("https://{}/a.mpd", served.address), &served.pin, &["--json"]);
    let (said, results) = (text(&output.stderr), json(&output));
    assert_eq!(output.status.code(), Some(1));
    let row = &results["players"][0];
    assert_eq!((&row["state"], &row["failed_fetches"]), (&"failed".into(), &4.into()), "{results}");
    // What was there was played meanwhile.
    assert_eq!((&row["played_s"], &row["segments"]), (&1.0.into(), &2.into()), "{results}");
    assert!(said.contains("player 1: https://") && said.contains("/3.m4s could not be fetched"), "{said}");
    assert!(said.contains("status 404") && said.contains("1 of 1 players"), "{said}");
}

/// A server that takes no more connections of a client has no way to say so by TCP, but is one that may be.
#[test]
fn who_comes_beyond_what_a_server_takes_hears_of_it() {
    let served = Served::new("beyond", &["--max-per-client", "1"]);
    presentation(&served);
    let _taken = TcpStream::connect(&served.address).unwrap();
    for (version, hint) in
        [("1", "--max-per-client"), ("2", "--max-per-client"), ("3", "too many connections")]
    {
        let output = play(&format!("https://{}/a.mpd", served.address), &served.pin, &["--http", version]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{version}: {said}");
        assert!(said.contains(hint), "{version}: {said}");
    }
}

#[test]
fn manifests_that_are_none_are_told_apart() {
    let served = Served::new("manifests", &["--no-tcp"]);
    let site = served.folder.join("site");
    fs::File::create(site.join("huge.mpd")).unwrap().set_len((8 << 20) + 1).unwrap();
    fs::write(site.join("page.html"), "<html></html>").unwrap();
    fs::write(site.join("binary.mpd"), [0xff; 100]).unwrap();
    let elsewhere = MANIFEST.replace("<Period>", "<Period><BaseURL>https://video.example/</BaseURL>");
    fs::write(site.join("elsewhere.mpd"), elsewhere).unwrap();
    for (path, words, hint) in [
        ("huge.mpd", &[][..], "longer than 8388608 bytes"),
        ("page.html", &[], "no MPD"),
        ("small.txt", &[], "no XML"),
        ("binary.mpd", &[], "no text"),
        ("missing.mpd", &[], "status 404"),
        ("elsewhere.mpd", &[], "--elsewhere"),
        ("page.html", &["--http", "2"], "no connection to 127.0.0.1"),
    ] {
        let output = play(&format!("https://{}/{path}", served.address), &served.pin, words);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{path}: {said}");
        assert!(said.contains(hint), "{path}: {said}");
    }
}

/// How a server answers what `/NAME/SEGMENT` asks for.
fn answer(name: &str, out: &mut impl Write) -> std::io::Result<()> {
    match name {
        "askew" => write!(
            out,
            "HTTP/1.1 200 OK\r\ncontent-range: bytes 5-4/9\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n"
        ),
        "short" => write!(out, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nshort"),
        "empty" => write!(out, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        "circle" => write!(out, "HTTP/1.1 302 Found\r\nlocation: 1\r\ncontent-length: 0\r\n\r\n"),
        "away" => {
            write!(out, "HTTP/1.1 307 .\r\nlocation: https://127.0.0.2:9/1\r\ncontent-length: 0\r\n\r\n")
        }
        "plain" => {
            write!(out, "HTTP/1.1 302 .\r\nlocation: http://127.0.0.2:9/1\r\ncontent-length: 0\r\n\r\n")
        }
        "named" => {
            write!(
                out,
                "HTTP/1.1 302 .\r\nlocation: https://u:secret@a.example/1\r\ncontent-length: 0\r\n\r\n"
            )
        }
        "moved" => write!(out, "HTTP/1.1 301 .\r\nlocation: /whole/1\r\ncontent-length: 0\r\n\r\n"),
        "whole" => write!(out, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfour"),
        "noise" => write!(out, "\x1b[2J\r\n\r\n"),
        "late" => {
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        // A byte at a time, without end, until nobody takes them any more.
        _ => {
            write!(out, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            loop {
                write!(out, "1\r\nx\r\n")?;
                out.flush()?;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// A server of HTTP/1.1 alone, which has a manifest of one segment in each folder. It closes each connection
/// behind its answer.
fn wrong_server() -> (String, String) {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let pin = identity.fingerprint().to_string();
    let tls = ServerConfig::new(identity, &["any"]).unwrap().tls(&["http/1.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let talk = move |socket: TcpStream, tls: Arc<rustls::ServerConfig>| -> std::io::Result<()> {
        let mut stream = StreamOwned::new(ServerConnection::new(tls).unwrap(), socket);
        let mut line = String::new();
        let mut reader = BufReader::new(&mut stream);
        reader.read_line(&mut line)?;
        let mut rest = String::new();
        while rest != "\r\n" {
            rest.clear();
            if reader.read_line(&mut rest)? == 0 {
                return Ok(());
            }
        }
        let path = line.split(' ').nth(1).unwrap_or_default();
        let name = path.split('/').nth(1).unwrap_or_default();
        if path.ends_with("/a.mpd") {
            let range = if name == "whole" { r#"mediaRange="0-1""# } else { "" };
            let manifest = format!(
                r#"<MPD mediaPresentationDuration="PT1S"><Period><AdaptationSet contentType="video"><Representation bandwidth="1">
                <SegmentList duration="1"><SegmentURL media="1" {range}/></SegmentList></Representation></AdaptationSet></Period></MPD>"#
            );
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{manifest}", manifest.len())?;
        } else {
            answer(name, &mut stream)?;
        }
        stream.conn.send_close_notify();
        stream.flush()
    };
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let tls = tls.clone();
            std::thread::spawn(move || talk(socket, tls));
        }
    });
    (address, pin)
}

/// Each of it ends, in a sentence that says what it was.
#[test]
fn servers_that_answer_wrongly_are_told_apart() {
    let (address, pin) = wrong_server();
    std::thread::scope(|scope| {
        for (name, hint) in [
            ("short", "broke off"),
            ("empty", "it is empty"),
            ("circle", "redirected more than 5 times"),
            ("away", "https://127.0.0.2:9/1 now, which is another server"),
            ("plain", "http://127.0.0.2:9/1 now, and what is not https://"),
            ("named", "names no host"),
            ("whole", "take ranges"),
            ("noise", "invalid HTTP"),
            ("late", "not complete within 3 s"),
            ("endless", "not complete within 3 s"),
        ] {
            let (address, pin) = (&address, &pin);
            scope.spawn(move || {
                let url = format!("https://{address}/{name}/a.mpd");
                // The manifest is to come in this time, too.
                let timeout = if hint.contains("within") { "3s" } else { "30s" };
                let output = play(&url, pin, &["--http", "1", "--timeout", timeout]);
                let said = text(&output.stderr);
                assert_eq!(output.status.code(), Some(1), "{name}: {said}");
                assert!(said.contains(hint) && said.contains("1 of 1 players"), "{name}: {said}");
                assert!(!said.contains("secret"), "{name}: {said}");
            });
        }
        for name in ["moved", "askew"] {
            let output = play(&format!("https://{address}/{name}/a.mpd"), &pin, &["--http", "1", "--json"]);
            assert!(output.status.success(), "{name}: {}", text(&output.stderr));
            assert_eq!(json(&output)["sum"]["bytes"], 4, "{name}");
        }
        let url = format!("https://{address}/short/a.mpd");
        for (version, hint) in [("2", "does not speak HTTP/2; choose"), ("3", "is HTTP/3 spoken there?")] {
            let said = text(&play(&url, &pin, &["--http", version, "--timeout", "30s"]).stderr);
            assert!(said.contains(hint), "{version}: {said}");
        }
    });
    let other = Identity::self_signed(["localhost"]).unwrap().fingerprint().to_string();
    let said = text(&play(&format!("https://{address}/short/a.mpd"), &other, &["--http", "1"]).stderr);
    assert!(said.contains("pin its key with --pin"), "{said}");
}
