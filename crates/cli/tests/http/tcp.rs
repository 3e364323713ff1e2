//! The same site by HTTP/1.1 and HTTP/2: with curl, and with clients that behave badly.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use quickset::{ClientConfig, Fingerprint, Trust};
use rustls::{ClientConnection, StreamOwned};

use super::served::{Served, large, text};

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A connection of TLS that offers this protocol and waits at most for `LIMIT`.
pub(crate) fn connect(served: &Served, protocol: &str) -> Tls {
    over(TcpStream::connect(&served.address).unwrap(), protocol)
}

/// The same, from another address of the loopback, all of which Linux has.
#[cfg(target_os = "linux")]
fn connect_from(served: &Served, address: [u8; 4]) -> Tls {
    use socket2::{Domain, Socket, Type};
    use std::net::SocketAddr;
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    let to: SocketAddr = served.address.parse().unwrap();
    socket.connect(&to.into()).unwrap();
    over(socket.into(), "http/1.1")
}

fn over(socket: TcpStream, protocol: &str) -> Tls {
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let tls = ClientConfig::new(Trust::insecure(), &["any"]).unwrap().tls(&[protocol]);
    let client = ClientConnection::new(tls, "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(client, socket)
}

/// Of the certificate that it shows on TCP.
pub(crate) fn fingerprint(served: &Served) -> String {
    let mut stream = connect(served, "http/1.1");
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    Fingerprint::of(&stream.conn.peer_certificates().unwrap()[0]).unwrap().to_string()
}

/// Fetches the small file by HTTP/1.1.
pub(crate) fn fetch_small(served: &Served) {
    assert_eq!(ask(served, "--http1.1", "/small.txt", &[]).1, "small");
}

/// Fetches a file, by one of the older versions.
pub(crate) fn fetch(served: &Served, version: &str, path: &str) -> Vec<u8> {
    let output = curl(served, version, path, &["--fail"]);
    assert!(output.status.success(), "{version} {path}: {}", text(&output.stderr));
    output.stdout
}

/// The entity tag of a file.
pub(crate) fn tag(served: &Served, path: &str) -> String {
    let (head, _) = ask(served, "--http1.1", path, &["--head"]);
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: "));
    tag.unwrap_or_else(|| panic!("{head}")).to_owned()
}

/// All that comes until the server closes.
pub(crate) fn to_the_end(stream: &mut impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        // Without a goodbye, or against something that was still on its way.
        Err(e) if CLOSED.contains(&e.kind()) => {}
        Err(e) => panic!("the server did not close: {e}"),
    }
    all
}

pub(crate) fn curl(served: &Served, version: &str, path: &str, words: &[&str]) -> Output {
    let url = format!("https://{}{path}", served.address);
    Command::new("curl")
        .args(["--silent", "--show-error", "--insecure", "--max-time", "30", version, &url])
        .args(words)
        .output()
        .expect("curl is installed: see cargo xtask test")
}

/// The head of an answer, in lower case, and its content.
pub(crate) fn ask(served: &Served, version: &str, path: &str, words: &[&str]) -> (String, String) {
    let words = [&["--include"], words].concat();
    let output = curl(served, version, path, &words);
    assert!(output.status.success(), "{path} by {version}: {}", text(&output.stderr));
    let all = text(&output.stdout);
    let (head, content) = all.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), content.to_owned())
}

const VERSIONS: [(&str, &str, &str); 2] =
    [("--http1.1", "http/1.1 ", "HTTP/1"), ("--http2", "http/2 ", "HTTP/2")];

/// RFC 9113 §8.2.1. RFC 9112 §5 has it that such space is none of the value.
#[test]
fn space_around_a_value_is_malformed_by_http2() {
    let served = Served::new("spaces", &[]);
    for (option, line) in [("--http2", "http/2 400"), ("--http1.1", "http/1.1 206")] {
        let (head, _) = ask(&served, option, "/small.txt", &["-H", "range: bytes=0-1, "]);
        assert!(head.starts_with(line), "{head}");
    }
}

#[test]
fn the_same_site_is_served_by_older_versions() {
    let mut served = Served::new("tcp", &["--access-log", "--cors", "*", "--listing"]);
    let port = served.address.rsplit(':').next().unwrap().to_owned();
    std::fs::write(served.folder.join("site/small.txt.gz"), "zipped").unwrap();
    for (option, line, _) in VERSIONS {
        let (head, content) = ask(&served, option, "/small.txt", &[]);
        assert!(head.starts_with(&format!("{line}200")), "{head}");
        assert_eq!(content, "small");
        for field in [
            &format!("alt-svc: h3=\":{port}\"; ma=86400"),
            "content-type: text/plain; charset=utf-8",
            "content-length: 5",
            "access-control-allow-origin: *",
            "x-content-type-options: nosniff",
        ] {
            assert!(head.lines().any(|line| line == field), "{field} is missing: {head}");
        }
        let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();

        let (head, content) = ask(&served, option, "/small.txt", &["--range", "1-2"]);
        assert!(
            head.starts_with(&format!("{line}206")) && head.contains("content-range: bytes 1-2/5"),
            "{head}"
        );
        assert_eq!(content, "ma");
        let (head, content) = ask(&served, option, "/small.txt", &["-H", &format!("if-none-match: {etag}")]);
        assert!(head.starts_with(&format!("{line}304")) && !head.contains("content-length"), "{head}");
        assert_eq!(content, "");
        let (head, content) = ask(&served, option, "/small.txt", &["--head"]);
        assert!(head.contains("content-length: 5"), "{head}");
        assert_eq!(content, "");
        let (head, content) = ask(&served, option, "/small.txt", &["-H", "accept-encoding: gzip"]);
        assert!(head.contains("content-encoding: gzip"), "{head}");
        assert_eq!(content, "zipped");
        let (head, _) = ask(&served, option, "/sub", &[]);
        assert!(head.starts_with(&format!("{line}308")) && head.contains("location: /sub/"), "{head}");
        let (head, _) = ask(&served, option, "/small.txt", &["--request", "OPTIONS"]);
        assert!(head.starts_with(&format!("{line}204")), "{head}");
        let (head, _) = ask(&served, option, "/small.txt", &["--data", "something"]);
        assert!(head.starts_with(&format!("{line}405")), "{head}");
        let (head, _) = ask(&served, option, "/nothing", &[]);
        assert!(head.starts_with(&format!("{line}404")), "{head}");

        let output = curl(&served, option, "/large.bin", &[]);
        assert!(output.stdout == large(), "{option}");
        let url = |path: &str| format!("https://{}{path}", served.address);
        let output =
            curl(&served, option, "/small.txt", &["--parallel", &url("/large.bin"), &url("/small.txt")]);
        assert_eq!(output.stdout.len(), 3_000_010, "{option}");
    }
    let log = served.stop();
    for (_, _, version) in VERSIONS {
        assert!(log.contains(&format!("\"GET /large.bin {version}\" 200 3000000 bytes")), "{log}");
        assert!(log.contains(&format!("\"GET /nothing {version}\" 404")), "{log}");
    }
}

/// RFC 9112 §3.2, and what an attacker might try with lines.
#[test]
fn requests_out_of_form_are_refused() {
    let served = Served::new("form", &["--timeout", "10s"]);
    let table = [
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "HTTP/1.1 400 "),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "HTTP/1.1 400 "),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", "HTTP/1.1 400 "),
        ("GET http://b/small.txt HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "),
        ("GET / HTTP/1.1\r\nHost: a\r\nBroken\r\n\r\n", "HTTP/1.1 400 "),
        ("GET /small.txt HTTP/1.0\r\n\r\n", "HTTP/1.0 200 "),
        ("GET http://b/small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 "),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n", "HTTP/1.1 405 "),
        ("GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 "),
    ];
    for (request, status) in table {
        let mut stream = connect(&served, "http/1.1");
        let request = request.replace("HTTP/1.1\r\n\r\n", "HTTP/1.1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let answer = text(&to_the_end(&mut stream));
        assert!(answer.starts_with(status), "{request}: {answer}");
    }
    // A head without end, of which no more than a part is read.
    let mut stream = connect(&served, "http/1.1");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").unwrap();
    let line = format!("X: {}\r\n", "x".repeat(1000));
    let written = (0..1000).take_while(|_| stream.write_all(line.as_bytes()).is_ok()).count();
    assert!(text(&to_the_end(&mut stream)).starts_with("HTTP/1.1 431 ") || written < 1000);
    // And in HTTP/2.
    let long = format!("x-long: {}", "x".repeat(60_000));
    let output =
        curl(&served, "--http2", "/small.txt", &["-H", &long, "-w", "%{http_code}", "-o", "/dev/null"]);
    assert_ne!(text(&output.stdout), "200");
}

/// Who is slow loses the connection, and nobody else does.
#[test]
fn slow_clients_do_not_hold_connections() {
    // Long enough for a handshake on a busy machine.
    let served = Served::new("slow", &["--timeout", "2s"]);
    let began = Instant::now();
    // A handshake that does not begin.
    let mut silent = TcpStream::connect(&served.address).unwrap();
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    // A head that comes by the byte.
    let mut dribble = connect(&served, "http/1.1");
    dribble.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX: ").unwrap();
    // No request behind an answer.
    let mut kept = connect(&served, "http/1.1");
    kept.write_all(b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    // A connection of HTTP/2 that asks for nothing, and one that does not even begin to.
    let mut idle = connect(&served, "h2");
    idle.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut unbegun = connect(&served, "h2");
    unbegun.flush().unwrap();
    // One that asks for much, lets nothing be sent, and lives on: SETTINGS_INITIAL_WINDOW_SIZE is 0.
    let mut starved = connect(&served, "h2");
    starved.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0").unwrap();
    for stream in (1..100u8).step_by(2) {
        // GET https://a/huge.bin, as RFC 7541 §6 writes it.
        let block = b"\x82\x87\x04\x09/huge.bin\x01\x01a";
        let head = [0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, stream];
        starved.write_all(&[&head[..], block].concat()).unwrap();
    }
    // An answer of which nothing is taken. (The buffers of a loopback connection hold some of it.)
    std::fs::File::create(served.folder.join("site/huge.bin")).unwrap().set_len(1 << 30).unwrap();
    let mut full = connect(&served, "http/1.1");
    full.write_all(b"GET /huge.bin HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();

    let mut dribbled = 0;
    while dribble.write_all(b"x").and_then(|()| dribble.flush()).is_ok() && began.elapsed() < LIMIT {
        dribbled += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(began.elapsed() < LIMIT, "it could go on for ever, {dribbled} bytes so far");
    assert_eq!(to_the_end(&mut silent), b"");
    assert!(text(&to_the_end(&mut kept)).ends_with("small"));
    to_the_end(&mut idle);
    let ping = b"\0\0\x08\x06\0\0\0\0\0pingpong";
    while starved.write_all(ping).and_then(|()| starved.flush()).is_ok() {
        assert!(began.elapsed() < LIMIT, "PING keeps it alive");
        std::thread::sleep(Duration::from_millis(50));
    }
    to_the_end(&mut unbegun);
    // Who has given it up takes nothing more; what the buffers held is far from all.
    while full.write_all(b"\r\n").and_then(|()| full.flush()).is_ok() {
        assert!(began.elapsed() < LIMIT, "it waits for ever");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(to_the_end(&mut full).len() < 1 << 29);
    assert_eq!(ask(&served, "--http2", "/small.txt", &[]).1, "small");
}

#[test]
fn connections_are_limited_by_client() {
    let served = Served::new("seats", &["--max-per-client", "3"]);
    let ask_of = |stream: &mut Tls| {
        stream.write_all(b"GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map(|_| answer)
    };
    let mut streams: Vec<Tls> = (0..3).map(|_| connect(&served, "http/1.1")).collect();
    for stream in &mut streams {
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
    }
    assert!(ask_of(&mut connect(&served, "http/1.1")).is_err(), "a fourth");
    assert_eq!(served.get(&["/small.txt"], &[]).status.code(), Some(1), "nor by HTTP/3");
    for stream in &mut streams {
        assert!(text(&ask_of(stream).unwrap()).ends_with("small"));
    }
    drop(streams);
    let began = Instant::now();
    while ask_of(&mut connect(&served, "http/1.1")).is_err() {
        assert!(began.elapsed() < LIMIT, "no seat becomes free");
    }
}

/// Idle ones that hold all seats, over TCP: whoever comes by HTTP/3 has the seat of one, and so has the next
/// by TCP.
#[cfg(target_os = "linux")]
#[test]
fn idle_connections_make_room_for_strangers() {
    let served = Served::new("idlers", &["--max-connections", "4"]);
    let mut idle: Vec<Tls> = [2, 2, 3, 3].map(|n| connect_from(&served, [127, 0, 0, n])).into();
    for stream in &mut idle {
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
    }
    assert_eq!(served.get(&["/small.txt"], &[]).stdout, b"small");
    let is_closed = |stream: &mut Tls| {
        stream.sock.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let kind = |error: std::io::Error| error.kind();
        !matches!(stream.read(&mut [0]).map_err(kind), Err(ErrorKind::WouldBlock | ErrorKind::TimedOut))
    };
    let began = Instant::now();
    while !is_closed(&mut idle[0]) {
        assert!(began.elapsed() < LIMIT, "the oldest of those that have the most");
    }
    assert!(!idle[1..].iter_mut().any(is_closed));
    fetch_small(&served);
}

/// What is under way when the server stops arrives whole.
#[test]
fn a_server_that_is_told_to_stop_finishes_what_it_sends() {
    let mut served = Served::new("finishes", &[]);
    // More than all buffers hold, and little for ten seconds.
    std::fs::write(served.folder.join("site/long.bin"), vec![7; 16_000_000]).unwrap();
    let mut streams: Vec<Tls> = (0..2).map(|_| connect(&served, "http/1.1")).collect();
    let mut first = [0; 100];
    for stream in &mut streams {
        stream.write_all(b"GET /long.bin HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        stream.read_exact(&mut first).unwrap();
    }
    super::signal(&served.server, "-TERM");
    for stream in &mut streams {
        let all = to_the_end(stream);
        assert!(all.ends_with(&[7]) && all.len() > 16_000_000, "{}", all.len());
    }
    assert!(served.server.wait().unwrap().success());
    assert!(TcpStream::connect(&served.address).is_err());
}

/// Who says it once more does not want to wait for answers that nobody takes.
#[cfg(unix)]
#[test]
fn a_server_that_is_told_twice_to_stop_stops_at_once() {
    let mut served = Served::new("twice", &[]);
    std::fs::write(served.folder.join("site/long.bin"), vec![7; 16_000_000]).unwrap();
    let mut stream = connect(&served, "http/1.1");
    stream.write_all(b"GET /long.bin HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 100]).unwrap();
    super::signal(&served.server, "-TERM");
    // Its listeners are closed, so that it has heard the first one.
    let heard = Instant::now();
    while TcpStream::connect(&served.address).is_ok() {
        assert!(heard.elapsed() < Duration::from_secs(8), "it does not stop");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(served.server.try_wait().unwrap().is_none(), "it does not wait for what is under way");
    super::signal(&served.server, "-INT");
    let since = Instant::now();
    assert!(served.server.wait().unwrap().success());
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}

/// Nothing is under way on a connection without a handshake, or a request, and nobody waits for it.
#[cfg(unix)]
#[test]
fn a_server_that_is_told_to_stop_waits_for_nobody_who_asks_for_nothing() {
    let mut served = Served::new("nothing", &[]);
    let _silent = TcpStream::connect(&served.address).unwrap();
    let mut dribble = connect(&served, "http/1.1");
    dribble.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX: ").unwrap();
    let mut deaf = connect(&served, "h2");
    deaf.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    // Behind it in the queue, so that it was taken when this is answered.
    assert_eq!(ask(&served, "--http1.1", "/small.txt", &[]).1, "small");
    // Which it says of what it has waited for in vain.
    let log = served.stop();
    assert!(!log.contains("not finished"), "{log}");
}

/// A log that cannot be written, as on a full disk, takes nothing from the answers and does not end the
/// server.
#[cfg(target_os = "linux")]
#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut served = Served::logging("full", "127.0.0.1:0", &["--access-log"], full.into());
    let url = format!("https://{}/small.txt", served.address);
    for (option, ..) in VERSIONS {
        let output = curl(&served, option, "/small.txt", &[&url]);
        assert_eq!(text(&output.stdout), "smallsmall", "{option}: {}", text(&output.stderr));
    }
    assert_eq!(text(&served.get(&["/small.txt"], &[]).stdout), "small");
    super::signal(&served.server, "-HUP");
    assert_eq!(text(&served.get(&["/small.txt"], &[]).stdout), "small");
    super::signal(&served.server, "-TERM");
    assert!(served.server.wait().unwrap().success());
}

/// What goes wrong here is not said of the client.
#[cfg(unix)]
#[test]
fn a_file_that_shrinks_is_in_the_log() {
    let mut served = Served::new("shrinks", &["--access-log"]);
    let file = served.folder.join("site/long.bin");
    std::fs::write(&file, vec![7; 40_000_000]).unwrap();
    let mut stream = connect(&served, "http/1.1");
    stream.write_all(b"GET /long.bin HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 100]).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(0).unwrap();
    assert!(to_the_end(&mut stream).len() < 40_000_000);
    let log = served.stop();
    assert!(log.contains("(the file became shorter while it was sent)"), "{log}");
}

#[test]
fn tcp_can_be_left_out() {
    let served = Served::new("without", &["--no-tcp"]);
    assert!(TcpStream::connect(&served.address).is_err());
    assert_eq!(text(&served.get(&["/small.txt"], &[]).stdout), "small");
}

const CLOSED: [ErrorKind; 3] = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];

/// How long a test waits for what must happen. Without a limit of their own, servers are patient for longer.
const LIMIT: Duration = Duration::from_secs(25);
