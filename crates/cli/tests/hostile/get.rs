//! `http get`.

use std::fs;
use std::io::Read as _;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::run::{Ended, folder, run};
use crate::server::{Hostile, Say, Script};
use crate::wire::{DATA, GOAWAY, HEADERS, data, frame, head, varint};

/// What it may hold: windows of a connection.
const MEMORY: u64 = 72 << 20;

/// How long the slowest may take: the server is given up after a second of silence, or four of one that
/// lives.
const LIMIT: Duration = Duration::from_secs(30);

fn get(address: impl std::fmt::Display, pin: &str, path: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickset"));
    command.args(["http", "get", "--timeout", "1s", "--pin", pin, &format!("https://{address}{path}")]);
    command.args(words);
    command
}

/// Fetches a file into a folder.
fn fetch(server: &Hostile, into: &Path, words: &[&str]) -> Ended {
    let words = [&["-o", into.to_str().unwrap()], words].concat();
    run(&mut get(server.address, &server.pin, "/file", &words), LIMIT)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// All that went otherwise than it should.
#[track_caller]
fn none(slips: &[String]) {
    assert!(slips.is_empty(), "{slips:#?}");
}

/// Answers of one stream, none of which is a file.
#[test]
fn what_is_no_answer_ends_with_a_sentence_and_without_a_file() {
    use Say::{Bytes, Close, End, Reset, Wait};
    let ten = |fields: &[(&str, &str)]| {
        head(200, &[&[("content-length", "10"), ("etag", "\"a\"")], fields].concat())
    };
    let resumed = "go on with --resume, what came is in";
    let cases: Vec<(&str, Vec<Say>, &str)> = vec![
        // A field section of which there is no end, or which says that it is as long as can be.
        (
            "endless fields",
            vec![Bytes([varint(HEADERS), varint(1 << 61)].concat()), Say::bytes_forever(vec![0; 1000])],
            "too large",
        ),
        ("endless interim", vec![Say::bytes_forever(head(103, &[("link", "</a>")]))], "too"),
        ("no answer", vec![End], "without a head"),
        ("half a head", vec![Bytes(head(200, &[])[..5].to_vec()), End], "frame"),
        ("content first", vec![Bytes(data(b"x")), End], "before the head"),
        ("less", vec![Bytes(ten(&[])), Bytes(data(b"12345")), End], resumed),
        ("more", vec![Bytes(ten(&[])), Bytes(data(b"1234567890x")), End], "content-length"),
        ("more without end", vec![Bytes(ten(&[])), Say::bytes_forever(data(&[7; 5000]))], "content-length"),
        (
            "two lengths",
            vec![Bytes(ten(&[("content-length", "11")])), Bytes(data(b"1234567890")), End],
            "content-length",
        ),
        (
            "given up",
            vec![Bytes(ten(&[])), Bytes(data(b"12345")), Wait(Duration::from_millis(200)), Reset(0x102)],
            resumed,
        ),
        ("closed", vec![Bytes(ten(&[])), Bytes(data(b"12345")), Close(0x102)], "had enough"),
        (
            "cut",
            vec![Bytes(ten(&[])), Bytes([varint(DATA), varint(9), b"12".to_vec()].concat()), End],
            "frame",
        ),
        (
            "a part",
            vec![Bytes(head(206, &[("content-range", "bytes 0-4/10")])), Bytes(data(b"12345")), End],
            "a part",
        ),
        // It is given up by QUIC, or where that has heard of it meanwhile as one that sends nothing.
        ("silent", vec![Bytes(ten(&[]))], "does not answer|sends nothing"),
        (
            "elsewhere",
            vec![Bytes(head(302, &[("location", "https://b.example/\u{9b}2J")])), End],
            "it is at https://b.example/",
        ),
        (
            "with a password",
            vec![Bytes(head(302, &[("location", "https://me:hunter2@b.example/x?a@b")])), End],
            "it is at https://…@b.example/x?a@b now",
        ),
        ("an escape", vec![Bytes(head(302, &[("location", "/\u{1b}[2J")])), End], "malformed"),
        ("missing", vec![Bytes(head(404, &[])), Say::bytes_forever(data(&[7; 5000]))], "status 404"),
        ("a tunnel", vec![Bytes(head(101, &[])), End], "malformed"),
    ];
    let mut slips = Vec::new();
    for (name, answer, sentence) in cases {
        let server = Hostile::new(Script { answers: vec![answer], ..Script::default() });
        let folder = folder();
        let ended = fetch(&server, folder.path(), &[]);
        slips.extend(ended.slip(sentence, MEMORY).map(|slip| format!("{name}: {slip}")));
        assert!(!names(folder.path()).contains(&"file".to_owned()), "{name}: {:?}", names(folder.path()));
    }
    none(&slips);
}

/// What is printed is there as soon as it came, and all of it however the rest ends.
#[test]
fn what_came_is_printed() {
    use Say::{Bytes, Close, Reset};
    let answer = |rest: Vec<Say>| {
        let said = [Bytes(head(200, &[("content-length", "10")])), Bytes(data(b"12345"))];
        Hostile::new(Script { answers: vec![[&said[..], &rest].concat()], ..Script::default() })
    };
    let late = answer(vec![Say::Wait(Duration::from_secs(1)), Bytes(data(b"67890")), Say::End]);
    let mut child = get(late.address, &late.pin, "/file", &[]).stdout(Stdio::piped()).spawn().unwrap();
    let (mut output, mut printed) = (child.stdout.take().unwrap(), vec![0; 100]);
    let n = output.read(&mut printed).unwrap();
    assert_eq!(&printed[..n], b"12345", "before more comes");
    printed.clear();
    output.read_to_end(&mut printed).unwrap();
    assert_eq!((&printed[..], child.wait().unwrap().success()), (&b"67890"[..], true));
    // What is given up may take with it what was not read yet.
    let later = Say::Wait(Duration::from_millis(200));
    for end in [vec![Say::End], vec![later.clone(), Reset(0x102)], vec![later, Close(0x102)]] {
        let server = answer(end.clone());
        let output = get(server.address, &server.pin, "/file", &[]).output().unwrap();
        assert_eq!((&output.stdout[..], output.status.code()), (&b"12345"[..], Some(1)), "{end:?}");
    }
}

/// Who wants no more of it ends it, and hears of no error.
#[test]
fn a_reader_may_leave() {
    let endless = vec![Say::Bytes(head(200, &[])), Say::bytes_forever(data(&[7; 5000]))];
    let server = Hostile::new(Script { answers: vec![endless], ..Script::default() });
    let mut command = get(server.address, &server.pin, "/file", &[]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr)), (Some(0), "".into()));
}

/// What there was is gone on with by what fits, or fetched anew; never is one file made of two.
#[test]
fn of_parts_that_do_not_fit_no_file_is_made() {
    use Say::{Bytes, End};
    let whole = b"0123456789";
    let part = |range: &str, etag: &str, content: &[u8]| {
        let fields = [("content-range", range), ("etag", etag)];
        vec![Bytes(head(206, &fields)), Bytes(data(content)), End]
    };
    let all = vec![Bytes(head(200, &[("etag", "\"a\"")])), Bytes(data(whole)), End];
    // There are four bytes, and the last of them is asked for again. Whether it is made of the part.
    let cases: [(&str, Vec<Say>, bool); 13] = [
        ("as asked", part("bytes 3-9/10", "\"a\"", b"3456789"), true),
        ("another file", part("bytes 3-9/10", "\"b\"", b"xxxxxxx"), false),
        ("a weak tag", part("bytes 3-9/10", "W/\"a\"", b"xxxxxxx"), false),
        (
            "no tag",
            vec![Bytes(head(206, &[("content-range", "bytes 3-9/10")])), Bytes(data(b"xxxxxxx")), End],
            false,
        ),
        ("another range", part("bytes 4-9/10", "\"a\"", b"456789"), false),
        ("before", part("bytes 0-9/10", "\"a\"", whole), false),
        ("of no length", part("bytes 3-5/*", "\"a\"", b"345"), false),
        ("beyond the end", part("bytes 3-10/10", "\"a\"", b"xxxxxxxx"), false),
        ("backwards", part("bytes 3-2/10", "\"a\"", b"xxxxxxx"), false),
        ("nowhere", part("bytes */10", "\"a\"", b"xxxxxxx"), false),
        ("no range", part("", "\"a\"", b"xxxxxxx"), false),
        ("unsatisfiable", vec![Bytes(head(416, &[("content-range", "bytes */2")])), End], false),
        ("all of it", all.clone(), false),
    ];
    for (name, first, fits) in cases {
        let server = Hostile::new(Script { answers: vec![first, all.clone()], ..Script::default() });
        let folder = folder();
        fs::write(folder.path().join("file.part"), "0123").unwrap();
        fs::write(folder.path().join("file.part.etag"), "\"a\"").unwrap();
        let ended = fetch(&server, folder.path(), &["--resume"]);
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        assert_eq!(names(folder.path()), ["file"], "{name}");
        assert_eq!(fs::read(folder.path().join("file")).unwrap(), whole, "{name}");
        let asked = if fits || name == "all of it" { 1 } else { 2 };
        assert_eq!(server.requests(), asked, "{name}");
    }
    // Less than was asked for, and another length than was said: what fits is kept.
    for (name, answer, kept) in [
        ("less", part("bytes 3-5/10", "\"a\"", b"345"), "012345"),
        ("less than it names", part("bytes 3-9/10", "\"a\"", b"345"), "012345"),
        ("more than it names", part("bytes 3-5/10", "\"a\"", b"345xxxx"), "012345"),
    ] {
        let server = Hostile::new(Script { answers: vec![answer], ..Script::default() });
        let folder = folder();
        fs::write(folder.path().join("file.part"), "0123").unwrap();
        fs::write(folder.path().join("file.part.etag"), "\"a\"").unwrap();
        let ended = fetch(&server, folder.path(), &["--resume"]);
        assert_eq!(ended.slip("go on with --resume", MEMORY), None, "{name}");
        assert_eq!(names(folder.path()), ["file.part", "file.part.etag"], "{name}");
        assert_eq!(fs::read_to_string(folder.path().join("file.part")).unwrap(), kept, "{name}");
    }
}

/// As long as something comes it goes on, and holds no more the longer it takes.
#[test]
fn content_without_end_and_by_the_byte_is_taken_as_it_comes() {
    use Say::{Bytes, End, Wait};
    let endless = vec![Bytes(head(200, &[])), Say::bytes_forever(data(&[7; 50_000]))];
    let server = Hostile::new(Script { answers: vec![endless], ..Script::default() });
    let ended = run(&mut get(server.address, &server.pin, "/file", &["--json"]), Duration::from_secs(4));
    assert_eq!(ended.code, None, "{ended:?}");
    assert!(ended.peak < MEMORY, "{ended:?}");

    // Each byte in time, all of them much later than a server may be silent.
    let mut trickle = vec![Bytes(head(200, &[("content-length", "12")]))];
    for byte in b"by the bytes" {
        trickle.extend([Wait(Duration::from_millis(500)), Bytes(data(&[*byte]))]);
    }
    trickle.push(End);
    let server = Hostile::new(Script { answers: vec![trickle], ..Script::default() });
    let folder = folder();
    let ended = fetch(&server, folder.path(), &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "by the bytes");
}

/// What the server says beside its answers.
#[test]
fn a_control_stream_that_says_too_much_ends_it() {
    let goaway = |id: u64| frame(GOAWAY, &varint(id));
    let cases: [(&str, Vec<Say>, &str); 5] = [
        // It may come before the request.
        ("goaway without end", vec![Say::bytes_forever(goaway(1 << 20))], "EXCESSIVE_LOAD|is going away"),
        ("goaway that rises", vec![Say::Bytes([goaway(4), goaway(8)].concat())], "ID_ERROR"),
        ("none is served", vec![Say::Bytes(goaway(0))], "again"),
        ("settings twice", vec![Say::Bytes(frame(4, &[]))], "UNEXPECTED"),
        (
            "frames of nothing without end",
            vec![Say::bytes_forever(frame(0x21, &[]).repeat(500))],
            "EXCESSIVE_LOAD",
        ),
    ];
    let mut slips = Vec::new();
    for (name, control, sentence) in cases {
        let server = Hostile::new(Script { control, ..Script::default() });
        let folder = folder();
        let ended = fetch(&server, folder.path(), &[]);
        slips.extend(ended.slip(sentence, MEMORY).map(|slip| format!("{name}: {slip}")));
        assert!(names(folder.path()).is_empty(), "{name}");
    }
    none(&slips);
}

/// A name that leads elsewhere is none, whatever the path looks like.
#[test]
fn files_stay_in_their_folder() {
    use Say::{Bytes, End};
    let answer = vec![Bytes(head(200, &[])), Bytes(data(b"content")), End];
    let server = Hostile::new(Script { answers: vec![answer], ..Script::default() });
    for (path, name) in [
        ("/..", "index.html"),
        ("/a/../..", "index.html"),
        ("/..%2f..%2fevil", "..%2f..%2fevil"),
        ("/%2e%2e", "%2e%2e"),
        ("/a/b?/../c", "b"),
        ("/.part", ".part"),
    ] {
        let above = folder();
        let into = above.path().join("into");
        fs::create_dir(&into).unwrap();
        let words = ["-o", into.to_str().unwrap()];
        let ended = run(&mut get(server.address, &server.pin, path, &words), LIMIT);
        assert_eq!(ended.code, Some(0), "{path}: {ended:?}");
        assert_eq!(
            (names(&into), names(above.path())),
            (vec![name.to_owned()], vec!["into".to_owned()]),
            "{path}"
        );
    }
}

/// Whoever answers each datagram with this, until it is dropped.
struct Answerer {
    address: String,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answerer {
    fn new(answer: impl Fn(&[u8], usize) -> Option<Vec<u8>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let thread = thread::spawn(move || {
            let (mut buffer, mut n) = ([0; 2000], 0);
            while !ends.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
                if let Some(answer) = answer(&buffer[..len], n) {
                    let _ = socket.send_to(&answer, from);
                }
                n += 1;
            }
        });
        Self { address, over, thread: Some(thread) }
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The connection ids of a long header, the destination's first (RFC 8999 §5.1).
fn ids(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = datagram.get(5..).filter(|_| datagram[0] & 0x80 != 0)?;
    let (to, rest) = rest.get(1..)?.split_at_checked(usize::from(rest[0]))?;
    let (from, _) = rest.get(1..)?.split_at_checked(usize::from(*rest.first()?))?;
    Some((to, from))
}

fn with_length(id: &[u8]) -> Vec<u8> {
    [&[id.len() as u8], id].concat()
}

/// RFC 9000 §17.2.1.
fn negotiation(datagram: &[u8], versions: &[[u8; 4]]) -> Option<Vec<u8>> {
    let (to, from) = ids(datagram)?;
    let head = [&[0xca, 0, 0, 0, 0][..], &with_length(from), &with_length(to)].concat();
    Some([head, versions.concat()].concat())
}

/// RFC 9000 §17.2.5, RFC 9001 §5.8.
fn retry(datagram: &[u8], n: usize) -> Option<Vec<u8>> {
    let (to, from) = ids(datagram)?;
    let ours = [n as u8; 8];
    let packet = [&[0xf0, 0, 0, 0, 1][..], &with_length(from), &with_length(&ours), b"a token"].concat();
    let identity = quickset::Identity::self_signed(["localhost"]).unwrap();
    let crypto = quickset::ServerConfig::new(identity, &["h3"]).unwrap().quic().crypto;
    let original = quickset::quic::ConnectionId::new(to)?;
    let tag = crypto.retry_tag(quickset::Version::V1, &original, &packet)?;
    Some([&packet[..], &tag].concat())
}

#[test]
fn a_server_that_never_gets_to_the_handshake_is_given_up() {
    let pin = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
    let cases = [
        (
            "versions of nobody",
            Answerer::new(|hello, _| negotiation(hello, &[[0x0a; 4], [0x1a; 4]])),
            "version",
        ),
        // RFC 9000 §6.2: what names the version in use is passed over.
        (
            "the version in use",
            Answerer::new(|hello, _| negotiation(hello, &[[0, 0, 0, 1]])),
            "does not answer",
        ),
        (
            "another one each time",
            Answerer::new(|hello, n| negotiation(hello, &[[0x6b, 0x33, 0x43, 0xcf], [n as u8; 4]])),
            "",
        ),
        // RFC 9000 §17.2.5.2: one Retry is taken, no more.
        ("retry without end", Answerer::new(retry), "does not answer"),
        ("noise", Answerer::new(|hello, n| Some(vec![n as u8; hello.len()])), "does not answer"),
        ("its own words", Answerer::new(|hello, _| Some(hello.to_vec())), "does not answer"),
    ];
    let mut slips = Vec::new();
    for (name, server, sentence) in cases {
        let ended = run(&mut get(&server.address, pin, "/file", &[]), LIMIT);
        slips.extend(ended.slip(sentence, MEMORY).map(|slip| format!("{name}: {slip}")));
        assert!(ended.took < LIMIT / 2, "{name}: {ended:?}");
    }
    none(&slips);
}
