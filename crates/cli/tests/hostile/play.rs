//! `play`, by HTTP/2 and HTTP/3. Servers of HTTP/1.1 that answer wrongly are in the tests of `http`.

use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use quickset::TransportConfig;
use serde_json::Value;

use crate::run::run;
use crate::server::{self, Say, Script};
use crate::two;
use crate::wire::{self, varint};
use Say::{Bytes, Close, End, Leave, Reset, Wait};

/// What it may hold: windows of a connection.
const MEMORY: u64 = 48 << 20;

/// How long the slowest may take: the manifest and four times a segment, for each of which it waits
/// [`PATIENCE`], and pauses.
const LIMIT: Duration = Duration::from_secs(60);
const PATIENCE: &str = "3s";

/// Runs at a time: most wait, and others are to have the processor meanwhile.
const AT_A_TIME: usize = 8;

/// Requests for one segment at most: four times, each of them with five redirections, and any of them perhaps
/// on a connection that is over.
const TRIES: usize = 4 * 6 * 2;

/// Codes of both versions, in that order (RFC 9113 §7, RFC 9114 §8.1).
const NO_ERROR: [u64; 2] = [0, 0x100];
const INTERNAL: [u64; 2] = [2, 0x102];
const REFUSED: [u64; 2] = [7, 0x10b];

/// A server by either version.
enum Hostile {
    Two(two::Hostile),
    Three(server::Hostile),
}

impl Hostile {
    fn new(version: usize, script: Script) -> Self {
        match version {
            2 => Self::Two(two::Hostile::new(script)),
            _ => Self::Three(server::Hostile::new(script)),
        }
    }

    fn requests(&self) -> usize {
        match self {
            Self::Two(server) => server.requests(),
            Self::Three(server) => server.requests(),
        }
    }

    /// The most connections of TCP that there were at a time.
    fn peak(&self) -> Option<usize> {
        match self {
            Self::Two(server) => Some(server.peak()),
            Self::Three(_) => None,
        }
    }

    fn play(&self, words: &[&str]) -> Command {
        let (version, address, pin) = match self {
            Self::Two(server) => ("2", server.address, &server.pin),
            Self::Three(server) => ("3", server.address, &server.pin),
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_quickset"));
        command.args(["play", &format!("https://{address}/a.mpd"), "--http", version, "--pin", pin]);
        command.args(words);
        command
    }
}

/// The manifest of so many segments of a second, all of them under one name.
fn manifest(segments: usize, range: &str) -> Vec<Say> {
    let list = format!(r#"<SegmentURL media="1" {range}/>"#).repeat(segments);
    let text = format!(
        r#"<MPD mediaPresentationDuration="PT{segments}S"><Period><AdaptationSet contentType="video"><Representation bandwidth="1">
        <SegmentList duration="1">{list}</SegmentList></Representation></AdaptationSet></Period></MPD>"#
    );
    vec![Say::head(200, &[]), Say::data(text.as_bytes()), End]
}

/// A segment as it should be.
fn right() -> Vec<Say> {
    vec![Say::head(200, &[("content-length", "4")]), Say::data(b"four"), End]
}

/// An answer with a head and content, and an end.
fn answer(status: u16, fields: &[(&'static str, &str)], content: &[u8]) -> Vec<Say> {
    vec![Say::head(status, fields), Say::data(content), End]
}

/// Plays each of these against a server of its own, some at a time, and tells what went otherwise than it
/// should: nothing is played, in a sentence, in time, with little memory, and few requests.
fn slips(version: usize, cases: Vec<(&'static str, Script, &'static str)>) {
    let slip = |name: &str, script: Script, hint: &str| {
        let server = Hostile::new(version, script);
        let timeout = if hint.contains("within") { PATIENCE } else { "30s" };
        let ended = run(&mut server.play(&["--timeout", timeout]), LIMIT);
        let many = (server.requests() > 1 + TRIES).then(|| format!("{} requests", server.requests()));
        // That of the manifest, or one that is given up, may still be there.
        let open = server.peak().filter(|open| *open > 2).map(|open| format!("{open} connections at a time"));
        let secret = ended.said.contains("secret").then(|| "a secret".to_owned());
        [ended.slip(hint, MEMORY), many, open, secret]
            .into_iter()
            .flatten()
            .map(|slip| format!("{name}: {slip}"))
            .collect()
    };
    let (left, all) = (Mutex::new(cases.into_iter()), Mutex::new(Vec::<String>::new()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let Some((name, script, hint)) = left.lock().unwrap().next() else { return };
                    let slips: Vec<String> = slip(name, script, hint);
                    all.lock().unwrap().extend(slips);
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    assert!(all.is_empty(), "HTTP/{version}: {all:#?}");
}

/// What ends the whole connection may come before the head of the answer was taken from it.
const BROKEN: &str = "broke off|could not be fetched";

/// What comes instead of the one segment there is, whatever the version.
fn wrong_answers(version: usize) -> Vec<Case> {
    [wrong_content(), wrong_ends(version), wrong_heads(), wrong_redirections()].concat()
}

/// A name, what is said, and the sentence that it ends with.
type Case = (&'static str, Vec<Say>, &'static str);

/// Of a sentence that nobody can say more of, whatever the version.
const SOMEHOW: &str = "could not be fetched: ";

fn wrong_content() -> Vec<Case> {
    let endless = || Say::data(&[7; 5000]).forever();
    let of_length = |length: &str| answer(200, &[("content-length", length)], b"four");
    vec![
        ("short", answer(200, &[("content-length", "1000")], b"short"), "broke off"),
        ("longer", answer(200, &[("content-length", "4")], b"fours"), "broke off"),
        ("longer without end", vec![Say::head(200, &[("content-length", "4")]), endless()], "broke off"),
        ("two lengths", answer(200, &[("content-length", "4"), ("content-length", "5")], b"four"), SOMEHOW),
        ("no length", of_length("four"), SOMEHOW),
        ("a length with a sign", of_length("+4"), SOMEHOW),
        ("a length beyond all", of_length("99999999999999999999"), SOMEHOW),
        // A manifest has a length that is too much.
        (
            "endless",
            vec![Say::head(200, &[]), endless()],
            "not complete within 3 s|longer than 8388608 bytes",
        ),
        (
            "nothing without end",
            vec![Say::head(200, &[]), Say::data(b"").forever()],
            "nothing that was asked for|within 3 s|load|LOAD",
        ),
        ("late", vec![], "not complete within 3 s"),
        ("late content", vec![Say::head(200, &[("content-length", "4")])], "not complete within 3 s"),
        ("empty", answer(200, &[("content-length", "0")], b""), "it is empty"),
        ("empty without a length", vec![Say::head(200, &[]), End], "it is empty"),
        ("no content", vec![Say::head(204, &[]), End], "status 204"),
        // Who is given up may leave what is asked next unanswered, too.
        ("busy", vec![Say::head(503, &[]), endless()], "status 503|within 3 s"),
        ("a part", answer(206, &[("content-range", "bytes 0-3/4")], b"four"), "status 206"),
    ]
}

fn wrong_ends(version: usize) -> Vec<Case> {
    let [none, internal, refused] = [NO_ERROR, INTERNAL, REFUSED].map(|codes| codes[version - 2]);
    let begun = |rest: Say| {
        let soon = Wait(Duration::from_millis(200));
        vec![Say::head(200, &[]), Say::data(b"fo"), soon, rest]
    };
    let trailed = |name: &'static str, value: &str| {
        let trailers = Say::Trailers(vec![(name, value.to_owned())]);
        vec![Say::head(200, &[]), Say::data(b"four"), trailers, End]
    };
    let mut cases = vec![
        ("left", begun(Leave), "broke off|within 3 s"),
        ("reset", begun(Reset(internal)), "broke off"),
        ("reset without reproach", begun(Reset(none)), "broke off"),
        ("reset at once", vec![Reset(internal)], SOMEHOW),
        ("refused", vec![Reset(refused)], SOMEHOW),
        ("closed", begun(Close(internal)), BROKEN),
        ("closed without reproach", begun(Close(none)), BROKEN),
        ("closed at once", vec![Close(internal)], SOMEHOW),
        ("long trailers", trailed("x", &"x".repeat(1 << 20)), BROKEN),
    ];
    if version == 3 {
        // By HTTP/2 a library passes over it, and all of the content is there.
        cases.push(("trailers with a status", trailed(":status", "200"), "broke off"));
    }
    cases
}

fn wrong_heads() -> Vec<Case> {
    let with = |name: &'static str, value: &str| answer(200, &[(name, value)], b"four");
    vec![
        ("content first", vec![Say::data(b"four"), End], SOMEHOW),
        ("a status that is none", vec![Say::head(99, &[]), End], SOMEHOW),
        ("a switch", vec![Say::head(101, &[]), End], SOMEHOW),
        (
            "interim without end",
            vec![Say::head(103, &[("link", "</a>")]).forever()],
            "nothing that was asked for|within 3 s|LOAD|too",
        ),
        ("a long field", with("x", &"x".repeat(1 << 20)), SOMEHOW),
        ("fields in capitals", with("X-A", "b"), SOMEHOW),
        ("of a connection", with("connection", "close"), SOMEHOW),
        ("an escape", vec![Say::head(302, &[("location", "/\u{1b}[2J")]), End], SOMEHOW),
    ]
}

fn wrong_redirections() -> Vec<Case> {
    let to = |to: &str| vec![Say::head(302, &[("location", to)]), End];
    let endless = vec![Say::head(302, &[("location", "1")]), Say::data(&[7; 5000]).forever()];
    vec![
        ("circle", to("1"), "redirected more than 5 times"),
        ("circle of much", endless, "redirected more than 5 times|within"),
        ("away", to("https://127.0.0.2:9/1"), "https://127.0.0.2:9/1 now, which is another server"),
        ("plain", to("http://127.0.0.2:9/1"), "http://127.0.0.2:9/1 now, and what is not https://"),
        ("named", to("https://u:secret@a.example/1"), "names no host"),
        ("nowhere", vec![Say::head(302, &[]), End], "status 302"),
        ("not by HTTP", to("file:///etc/passwd"), "does not begin with"),
    ]
}

/// Each ends, in a sentence that says what it was.
#[test]
fn segments_that_come_wrongly_are_told_apart() {
    for version in [2, 3] {
        let script = |answer| Script { answers: vec![manifest(1, ""), answer], ..Script::default() };
        let cases = wrong_answers(version);
        slips(version, cases.into_iter().map(|(name, answer, hint)| (name, script(answer), hint)).collect());
    }
}

/// The same of parts.
#[test]
fn parts_that_come_wrongly_are_told_apart() {
    for version in [2, 3] {
        let part = |range: &str, content: &[u8]| answer(206, &[("content-range", range)], content);
        let cases = [
            ("another part", part("bytes 1-4/9", b"four"), "other bytes than 0 to 3"),
            ("more", part("bytes 0-4/9", b"fours"), "other bytes than 0 to 3"),
            ("less", part("bytes 0-2/9", b"fou"), "other bytes than 0 to 3"),
            ("backwards", part("bytes 3-0/9", b"four"), "other bytes than 0 to 3"),
            ("no range", answer(206, &[], b"four"), "other bytes than 0 to 3"),
            (
                "several",
                answer(206, &[("content-type", "multipart/byteranges; boundary=a")], b"four"),
                "other bytes than 0 to 3",
            ),
            ("shorter than it says", part("bytes 0-3/9", b"fou"), "ended after 3 of 4 bytes"),
            ("longer than it says", part("bytes 0-3/9", b"fours"), "more comes than the server said"),
            (
                "endless",
                vec![Say::head(206, &[("content-range", "bytes 0-3/9")]), Say::data(&[7; 5000]).forever()],
                "more comes than the server said",
            ),
            (
                "of another length",
                answer(206, &[("content-range", "bytes 0-3/9"), ("content-length", "5")], b"fours"),
                "other than the 4 bytes",
            ),
            ("the whole", right(), "take ranges"),
            (
                "nothing of it",
                answer(416, &[("content-range", "bytes */2")], b"there is no such part"),
                "status 416",
            ),
        ];
        let script = |answer| Script {
            answers: vec![manifest(1, r#"mediaRange="0-3""#), answer],
            ..Script::default()
        };
        slips(version, cases.map(|(name, answer, hint)| (name, script(answer), hint)).into());
    }
}

/// A manifest comes the same ways, and is asked for once.
#[test]
fn manifests_that_come_wrongly_are_told_apart() {
    for version in [2, 3] {
        let cases = wrong_answers(version).into_iter().map(|(name, answer, hint)| {
            // What is about a segment is about a manifest.
            let hint = if hint == SOMEHOW { "cannot be had: " } else { hint };
            (name, Script { answers: vec![answer], ..Script::default() }, hint)
        });
        slips(version, cases.collect());
    }
}

/// Scripts that say this beside what was asked for, once the manifest was.
fn beside(cases: Vec<Case>) -> Vec<(&'static str, Script, &'static str)> {
    let script =
        |control| Script { answers: vec![manifest(1, ""), vec![]], control, spared: 1, ..Script::default() };
    cases.into_iter().map(|(name, control, hint)| (name, script(control), hint)).collect()
}

/// Scripts that say this instead of the segment.
fn instead(cases: Vec<Case>) -> Vec<(&'static str, Script, &'static str)> {
    let script = |answer| Script { answers: vec![manifest(1, ""), answer], ..Script::default() };
    cases.into_iter().map(|(name, answer, hint)| (name, script(answer), hint)).collect()
}

/// The same where the client may as well wait for what does not come.
const SOON: &str = "could not be fetched: |within 3 s";

/// What a server of HTTP/2 may say on a connection, beside its answers.
#[test]
fn connections_of_http2_that_say_too_much_end() {
    let once = |bytes: Vec<u8>| vec![Bytes(bytes)];
    let again = |bytes: Vec<u8>| vec![Say::bytes_forever(bytes)];
    let credit = |bytes: &[u8]| two::frame(two::WINDOW_UPDATE, 0, 0, bytes);
    slips(
        2,
        beside(vec![
            ("settings without end", again(two::setting(3, 100)), SOON),
            ("pings without end", again(two::frame(two::PING, 0, 0, b"pingpong")), SOON),
            ("unknown frames without end", again(two::frame(0x21, 0, 0, &[7; 1000])), SOON),
            ("goaway without end", again(two::goaway(0, 0)), SOON),
            ("goaway", once(two::goaway(0, 0)), SOON),
            ("goaway with a code", once(two::goaway(0, 11)), SOON),
            ("no streams", once(two::setting(3, 0)), "within 3 s"),
            ("no window", once(two::setting(4, 0)), "within 3 s"),
            ("a window beyond all", once(two::setting(4, 1 << 31)), SOMEHOW),
            ("frames that are too short", once(two::setting(5, 100)), SOMEHOW),
            ("a setting cut off", once(two::frame(two::SETTINGS, 0, 0, &[0; 5])), SOMEHOW),
            ("credit beyond all", once(credit(&[0x7f, 0xff, 0xff, 0xff])), SOMEHOW),
            ("no credit", once(credit(&[0; 4])), SOMEHOW),
            ("a frame too long", once(two::frame(0x21, 0, 0, &[0; 20_000])), SOMEHOW),
            ("another protocol", once(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), SOMEHOW),
            ("an end", vec![Close(0)], SOMEHOW),
            ("an end without a word", vec![Leave], SOMEHOW),
        ]),
    );
}

/// Frames that are no answer.
#[test]
fn frames_of_http2_that_are_no_answer_end() {
    let once = |bytes: Vec<u8>| vec![Bytes(bytes)];
    let headers = |flags: u8, section: &[u8]| two::frame(two::HEADERS, flags, 1, section);
    let status = two::field(":status", "200");
    let goes_on = |bytes: &[u8]| {
        let more = two::frame(two::CONTINUATION, 0, 1, bytes);
        vec![Bytes(headers(0, &status)), Say::bytes_forever(more)]
    };
    let promise = [&[0, 0, 0, 2][..], &status].concat();
    // A byte that says how much padding follows.
    let padding = [vec![255], vec![0; 255]].concat();
    let content = |frame: Vec<u8>| vec![Say::head(200, &[]), Say::bytes_forever(frame)];
    slips(
        2,
        instead(vec![
            ("fields without end", goes_on(&two::field("x", "y")), SOON),
            ("nothing of fields without end", goes_on(&[]), SOON),
            ("a field of no table", once(headers(two::END_HEADERS, &[0xff, 0xff, 0x7f])), SOMEHOW),
            ("half a field", once(headers(two::END_HEADERS, &status[..5])), SOMEHOW),
            (
                "a table beyond all",
                once(headers(two::END_HEADERS, &[&[0x3f, 0xff, 0xff, 0x7f][..], &status].concat())),
                SOMEHOW,
            ),
            ("a promise", once(two::frame(two::PUSH_PROMISE, two::END_HEADERS, 1, &promise)), SOMEHOW),
            ("an answer to nothing", once(two::frame(two::HEADERS, two::END_HEADERS, 5, &status)), SOON),
            ("more than the window", content(two::frame(two::DATA, 0, 1, &[7; 16_000])), "broke off"),
            ("nothing but padding", content(two::frame(two::DATA, 8, 1, &padding)), SOON),
            ("fields alone", once(headers(two::END_HEADERS | two::END_STREAM, &status)), "it is empty"),
            (
                "resets without end",
                vec![Say::bytes_forever(two::frame(two::RST_STREAM, 0, 1, &[0; 4]))],
                SOON,
            ),
        ]),
    );
}

/// What a server of HTTP/3 may say on a connection, beside its answers.
#[test]
fn connections_of_http3_that_say_too_much_end() {
    let goaway = |id: u64| wire::frame(wire::GOAWAY, &varint(id));
    let once = |bytes: Vec<u8>| vec![Bytes(bytes)];
    let again = |bytes: Vec<u8>| vec![Say::bytes_forever(bytes)];
    let cases = beside(vec![
        ("goaway", once(goaway(0)), SOON),
        ("goaway without end", again(goaway(0)), SOON),
        ("goaway that rises", once([goaway(4), goaway(8)].concat()), "ID_ERROR|going away"),
        ("settings twice", once(wire::frame(wire::SETTINGS, &[])), "UNEXPECTED"),
        ("settings of HTTP/2", once(wire::frame(wire::SETTINGS, &[4, 0])), SOMEHOW),
        ("frames of nothing without end", again(wire::frame(0x21, &[]).repeat(500)), "EXCESSIVE_LOAD"),
        ("content on it", once(wire::data(b"four")), "UNEXPECTED"),
        ("its end", vec![End], "CLOSED_CRITICAL"),
        // What it is has to come before.
        ("its reset", vec![Wait(Duration::from_millis(200)), Reset(0x100)], "CLOSED_CRITICAL"),
        ("the end of all", vec![Close(0x102)], "had enough"),
        ("the end of all, without reproach", vec![Close(0x100)], "had enough"),
    ]);
    let closed = TransportConfig::default().with_max_bidi_streams(0);
    let no_streams =
        ("no streams", Script { transport: closed, ..Script::default() }, "not complete within 3 s");
    slips(3, [cases, vec![no_streams]].concat());
}

/// Frames that are no answer.
#[test]
fn frames_of_http3_that_are_no_answer_end() {
    let section = |bytes: &[u8]| vec![Bytes(wire::frame(wire::HEADERS, bytes)), End];
    slips(
        3,
        instead(vec![
            // RFC 9204 §2.2.3: what the table does not have, and could not.
            ("a field of no table", section(&[0, 0, 0xff, 0xff, 0x7f]), "DECOMPRESSION"),
            ("a table that is none", section(&[0xff, 0xff, 0x7f, 0, 0xd9]), "DECOMPRESSION"),
            ("a base below nothing", section(&[0, 0xff, 0xff, 0x7f, 0xd9]), "DECOMPRESSION"),
            ("half a field", section(&[0, 0, 0x27]), "DECOMPRESSION"),
            ("nothing of fields", section(&[]), "DECOMPRESSION"),
            ("no field", section(&[0, 0]), SOMEHOW),
            ("a promise", vec![Bytes(wire::frame(5, &[0, 0, 0, 0xd9])), End], SOMEHOW),
            ("settings on it", vec![Bytes(wire::frame(wire::SETTINGS, &[])), End], "UNEXPECTED"),
            (
                "half a frame",
                vec![
                    Say::head(200, &[]),
                    Bytes([varint(0), varint(9), b"fo".to_vec()].concat()),
                    Wait(Duration::from_millis(200)),
                    End,
                ],
                "broke off",
            ),
            (
                "fields without end",
                vec![
                    Bytes([varint(wire::HEADERS), varint(1 << 61)].concat()),
                    Say::bytes_forever(vec![0; 1000]),
                ],
                SOMEHOW,
            ),
            (
                "frames of nothing",
                vec![Say::head(200, &[]), Say::bytes_forever(wire::frame(0x21, &[]).repeat(500))],
                "LOAD|within",
            ),
        ]),
    );
}

/// What was wrong once is asked for again, and counted.
#[test]
fn after_a_wrong_answer_it_goes_on() {
    thread::scope(|scope| {
        for version in [2, 3] {
            let [none, internal, refused] = [NO_ERROR, INTERNAL, REFUSED].map(|codes| codes[version - 2]);
            let soon = Wait(Duration::from_millis(200));
            let begun = |rest: Say| vec![Say::head(200, &[]), Say::data(b"fo"), soon.clone(), rest];
            let close = |code| [right(), vec![soon.clone(), Close(code)]].concat();
            let trailers =
                vec![Say::head(200, &[]), Say::data(b"four"), Say::Trailers(vec![("x", "y".to_owned())])];
            let trailers = if version == 3 { [trailers, vec![End]].concat() } else { trailers };
            // What comes for the first of two segments, and how many fetches fail.
            for (name, answer, failed) in [
                ("reset", begun(Reset(internal)), 1),
                ("reset without reproach", begun(Reset(none)), 1),
                ("closed", begun(Close(internal)), 1),
                ("busy", vec![Say::head(503, &[]), End], 1),
                ("refused", vec![Reset(refused)], 1),
                ("short", answer(200, &[("content-length", "9")], b"four"), 1),
                ("closed behind it", close(none), 0),
                ("closed behind it with a code", close(internal), 0),
                ("a range of the whole", answer(200, &[("content-range", "bytes 5-9/100")], b"four"), 0),
                ("trailers", trailers, 0),
                ("interim", [vec![Say::head(103, &[("link", "</a>")])], right()].concat(), 0),
                ("moved", vec![Say::head(301, &[("location", "/2")]), End], 0),
            ] {
                scope.spawn(move || {
                    let script =
                        Script { answers: vec![manifest(2, ""), answer, right()], ..Script::default() };
                    let server = Hostile::new(version, script);
                    let output = server.play(&["--json"]).output().unwrap();
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success() && said.is_empty(), "{name} by {version}: {said}");
                    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
                    let sum = &results["sum"];
                    assert_eq!(
                        (&sum["failed_fetches"], &sum["segments"], &sum["bytes"]),
                        (&failed.into(), &2.into(), &8.into()),
                        "{name} by {version}: {sum}"
                    );
                    assert_eq!(&sum["played_s"], &2.0, "{name} by {version}");
                });
            }
        }
    });
}
