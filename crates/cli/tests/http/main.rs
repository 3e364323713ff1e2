//! `quickset http serve`, and `quickset http get`, `quickset play` and others against it.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod asked;
mod browser;
#[cfg(target_os = "linux")]
mod changes;
mod clients;
#[cfg(unix)]
mod ends;
mod figures;
mod firefox;
#[cfg(unix)]
mod obstacles;
mod others;
mod pin;
mod play;
#[cfg(target_os = "linux")]
mod put;
mod relay;
mod served;
mod tcp;
#[cfg(target_os = "linux")]
mod user;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output};
use std::time::Duration;

use quickset::{ClientConfig, Closed, Endpoint, TransportConfig, Trust, h3};
use serde_json::Value;

use served::{Served, large, signal, text};

#[test]
fn files_are_fetched_over_one_connection() {
    let served = Served::new("files", &[]);
    let got = served.folder.join("got");
    let output = served
        .get(&["/large.bin", "/small.txt"], &["--json", "--priority", "u=1,i", "-o", got.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::read(served.got("large.bin")).unwrap() == large());
    assert_eq!(fs::read_to_string(served.got("small.txt")).unwrap(), "small");
    assert_eq!(fs::read_dir(&got).unwrap().count(), 2, "nothing else is left");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.len(), 2);
    for (row, bytes) in rows.iter().zip([3_000_000, 5]) {
        assert_eq!((&row["status"], &row["bytes"]), (&200.into(), &bytes.into()));
        let ms = |name: &str| row[name].as_f64().unwrap();
        assert!(ms("handshake_ms") > 0.0 && ms("first_byte_ms") > 0.0);
        assert!(ms("first_byte_ms") <= ms("total_ms"));
    }
    assert_eq!(rows[0]["handshake_ms"], rows[1]["handshake_ms"], "one connection");

    let output = served.get(&["/small.txt", "/small.txt?again"], &[]);
    assert_eq!(text(&output.stdout), "smallsmall");
}

#[test]
fn what_broke_off_is_gone_on_with_if_it_is_the_same() {
    let served = Served::new("resume", &[]);
    let got = served.folder.join("got");
    let words = ["--json", "--resume", "-o", got.to_str().unwrap()];
    let bytes = |output: &Output| {
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(fs::read(served.got("large.bin")).unwrap() == large());
        assert_eq!(fs::read_dir(&got).unwrap().count(), 1);
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        (rows[0]["status"].as_u64().unwrap(), rows[0]["bytes"].as_u64().unwrap())
    };
    let tag = tcp::tag(&served, "/large.bin");
    fs::write(served.got("large.bin.part"), &large()[..1_000_000]).unwrap();
    fs::write(served.got("large.bin.part.etag"), &tag).unwrap();
    assert_eq!(bytes(&served.get(&["/large.bin"], &words)), (206, 2_000_001), "the last byte again");

    // All of it was there, but for its name.
    fs::write(served.got("large.bin.part"), large()).unwrap();
    fs::write(served.got("large.bin.part.etag"), &tag).unwrap();
    assert_eq!(bytes(&served.get(&["/large.bin"], &words)), (206, 1));

    // More than there is, and a tag that is none.
    fs::write(served.got("large.bin.part"), [large(), large()].concat()).unwrap();
    fs::write(served.got("large.bin.part.etag"), &tag).unwrap();
    assert_eq!(bytes(&served.get(&["/large.bin"], &words)), (200, 3_000_000));
    fs::write(served.got("large.bin.part"), "something").unwrap();
    fs::write(served.got("large.bin.part.etag"), "none\n").unwrap();
    assert_eq!(bytes(&served.get(&["/large.bin"], &words)), (200, 3_000_000));

    // Another file, of which nothing fits.
    fs::write(served.got("large.bin.part"), "something else").unwrap();
    fs::write(served.got("large.bin.part.etag"), "\"0-0\"").unwrap();
    assert_eq!(bytes(&served.get(&["/large.bin"], &words)), (200, 3_000_000));
}

#[test]
fn what_cannot_be_fetched_fails_and_says_why() {
    let served = Served::new("fails", &[]);
    let output = served.get(&["/small.txt", "/nothing", "/../Cargo.toml"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "small");
    let said = text(&output.stderr);
    assert!(said.contains("/nothing: the server answered with status 404"), "{said}");
    assert!(said.contains("2 of 3 could not be fetched"), "{said}");

    let said = text(&served.get(&["/sub"], &[]).stderr);
    assert!(said.contains("status 308; it is at /sub/ now, ask for that"), "{said}");

    // Files that would lie on each other, or on a folder.
    let got = served.folder.join("got");
    let words = ["-o", got.to_str().unwrap()];
    for second in ["/sub/small.txt", "/small.txt.part", "/small.txt.part.etag"] {
        let output = served.get(&["/small.txt", second], &words);
        assert_eq!(output.status.code(), Some(1), "{second}");
        assert!(text(&output.stderr).contains("fetch them into two folders"), "{}", text(&output.stderr));
    }
    fs::create_dir(got.join("small.txt")).unwrap();
    let said = text(&served.get(&["/small.txt"], &words).stderr);
    assert!(said.contains("small.txt is a folder; fetch"), "{said}");
    assert_eq!(fs::read_dir(&got).unwrap().count(), 1, "nothing was begun");

    let slips: [(&[&str], &str); 9] = [
        (&["get", "http://a/"], "https://HOST"),
        (&["get", "https://a/", "--priority", "u=1,"], "u=1,i"),
        (&["get", "https://a/", "--insecure", "--pin", "x"], "sha256"),
        (&["get", "https://a/", "--resume"], "--output"),
        (&["serve", ".", "--cors", "nonsense"], "like https://"),
        (&["serve", ".", "--cors", "https://a.example/"], "without a path"),
        (&["serve", ".", "--cache-control", "*.css=no-cache"], "begin with a slash"),
        (&["serve", ".", "--cache-control", "**.css=max-age 10"], "directives like max-age=3600"),
        (&["get", "https://[fe80::1%]/"], "[fe80::1%eth0]"),
    ];
    for (words, hint) in slips {
        let output = Command::new(env!("CARGO_BIN_EXE_quickset")).arg("http").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(hint), "{words:?}: {}", text(&output.stderr));
    }
}

/// Whatever a file is called on one side, it is called on the other, by every version of HTTP.
#[cfg(target_os = "linux")]
#[test]
fn files_keep_their_names_whatever_they_are() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let served = Served::new("names", &["--access-log"]);
    let got = served.folder.join("got");
    let names = [
        &b"\xff\n\"%41?#\\:'<.txt"[..],
        "\u{e9}t\u{e9} \u{202e}".as_bytes(),
        b"\x1b[2J",
        &[b'n'; 255],
        b"%2e%2e",
    ];
    let mut paths = Vec::new();
    for name in names {
        fs::write(served.folder.join("site").join(OsStr::from_bytes(name)), name).unwrap();
        let path = name.iter().fold("/".to_owned(), |path, b| format!("{path}%{b:02x}"));
        for version in ["--http1.1", "--http2"] {
            assert_eq!(tcp::fetch(&served, version, &path), name, "{version} {path}");
        }
        paths.push(path);
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let output = served.get(&paths, &["-o", got.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    for name in names {
        assert_eq!(fs::read(got.join(OsStr::from_bytes(name))).unwrap(), name);
    }
    assert_eq!(fs::read_dir(&got).unwrap().count(), names.len(), "nothing else is left");
    assert!(
        said.lines().all(|line| line.starts_with("wrote ")) && said.lines().count() == names.len(),
        "{said}"
    );
    assert!(said.contains(r#"/\xff\n"%41?#\:'<.txt"#) && !said.contains('\x1b'), "{said}");
    // What cannot be a name of the folder stays as the URL has it; and one that no file has is not what is
    // there.
    let output = served.get(&["/..%2fsite%2fsmall.txt"], &["-o", got.to_str().unwrap()]);
    assert!(text(&output.stderr).contains("status 404"), "{}", text(&output.stderr));
    let output = served.get(&paths[..1], &["--json", "-o", got.to_str().unwrap()]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(rows[0]["file"].as_str().unwrap().contains("\u{fffd}\n\"%41"), "{rows:?}");
}

/// Nothing waits in a buffer when the program ends.
#[cfg(target_os = "linux")]
#[test]
fn content_that_cannot_be_printed_is_an_error() {
    let served = Served::new("printed", &[]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_quickset"))
        .args(["http", "get", "--pin", &served.pin, &format!("https://{}/small.txt", served.address)])
        .stdout(full)
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("standard output cannot be written"), "{said}");
}

/// On a terminal the content stands alone: a bar would be drawn into it.
#[cfg(target_os = "linux")]
#[test]
fn content_on_a_terminal_has_no_bar_in_it() {
    let served = Served::new("terminal", &[]);
    let get = |words: &str| {
        let quickset = env!("CARGO_BIN_EXE_quickset");
        let url = format!("https://{}/small.txt", served.address);
        let command = format!("{quickset} http get --pin {} {url} {words}", served.pin);
        // It gives a program a terminal of its own.
        let output = Command::new("script").args(["-qec", &command, "/dev/null"]).output().unwrap();
        text(&output.stdout)
    };
    assert_eq!(get(""), "small");
    assert!(get(&format!("-o {}", served.got("").display())).contains("5 B of 5 B"), "and else there is one");
}

/// A client that lives and takes nothing of what it asked for.
#[tokio::test]
async fn who_takes_nothing_of_an_answer_loses_the_connection() {
    let served = Served::new("stalled", &["--timeout", "2s"]);
    fs::File::create(served.folder.join("site/huge.bin")).unwrap().set_len(1 << 30).unwrap();
    let config = ClientConfig::new(Trust::pinned(served.pin.parse().unwrap()), &[h3::ALPN]).unwrap();
    let client = Endpoint::client().unwrap();
    let connection = client.connect(served.address.parse().unwrap(), "localhost", &config).await.unwrap();
    let http = h3::Client::new(&connection, h3::Config::default()).unwrap();
    let (response, _content) = http.fetch(&h3::Request::new("GET", "localhost", "/huge.bin")).await.unwrap();
    assert_eq!(response.status, 200);
    let alive = async {
        loop {
            connection.ping();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let closed = tokio::select! {
        closed = connection.closed() => closed,
        () = alive => unreachable!(),
        () = tokio::time::sleep(Duration::from_secs(20)) => panic!("it may go on"),
    };
    let code = h3::ErrorCode::H3_EXCESSIVE_LOAD.0;
    assert!(matches!(closed, Closed::ByApplication { code: c, .. } if c == code), "{closed}");
}

/// RFC 9114 §4.1.2: content of another length than the request says. What is as long as it says is passed
/// over.
#[tokio::test]
async fn a_request_with_less_content_than_it_says_is_none() {
    let served = Served::new("lengths", &["--no-tcp"]);
    let config = ClientConfig::new(Trust::pinned(served.pin.parse().unwrap()), &[h3::ALPN]).unwrap();
    let client = Endpoint::client().unwrap();
    let connection = client.connect(served.address.parse().unwrap(), "localhost", &config).await.unwrap();
    let http = h3::Client::new(&connection, h3::Config::default()).unwrap();
    for (length, content, is_one) in
        [("5", "", false), ("5", "four", false), ("5", "sixsix", false), ("4", "four", true), ("0", "", true)]
    {
        let request = h3::Request::new("GET", "localhost", "/small.txt").with("content-length", length);
        let (mut sender, answer) = http.request(&request).await.unwrap();
        let _ = sender.send(content.into()).await;
        let _ = sender.finish();
        let answer = tokio::time::timeout(Duration::from_secs(20), answer.response()).await.unwrap();
        let status = answer.map(|(response, _)| response.status);
        assert_eq!(status.as_ref().ok(), is_one.then_some(&200), "{content:?} for {length}: {status:?}");
    }
}

/// A client on a slow path, for which a file waits in buffers longer than a client may take nothing.
#[test]
fn who_takes_an_answer_slowly_gets_it() {
    let served = Served::new("slow", &["--timeout", "500ms", "--cc", "fixed:3mbit", "--no-tcp"]);
    let got = served.folder.join("got");
    let output = served.get(&["/large.bin"], &["-o", got.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::read(served.got("large.bin")).unwrap() == large());
}

/// A server that is told to stop finishes what it sends, and says what it served.
#[cfg(unix)]
#[test]
fn a_server_that_is_told_to_stop_stops() {
    let mut served = Served::new("stops", &["--access-log"]);
    assert_eq!(text(&served.get(&["/small.txt?%22"], &[]).stdout), "small");
    let log = served.stop();
    assert!(log.contains("\"GET /small.txt?%22 HTTP/3\" 200 5 bytes"), "{log}");
    // When it ended.
    let time = log.split(['[', ']']).nth(1).unwrap();
    let age = httpdate::parse_http_date(time).unwrap().elapsed().unwrap();
    assert!(age < Duration::from_secs(600), "{time}");
}

/// An address may be of a zone, with the name or the number of the interface.
#[cfg(target_os = "linux")]
#[test]
fn addresses_of_a_zone_are_reached() {
    // An address of a link, if this machine has one: /proc/net/if_inet6 has it in digits, with the number of
    // its interface, its scope (20), and the name of the interface at the end.
    let known = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let rows = known.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let Some(row) = rows.into_iter().find(|row| row.len() == 6 && row[3] == "20") else { return };
    let address = std::net::Ipv6Addr::from_bits(u128::from_str_radix(row[0], 16).unwrap());
    let number = u32::from_str_radix(row[1], 16).unwrap();
    let served = Served::bound("link", &format!("[{address}%{}]:0", row[5]), &[]);
    let port = served.address.rsplit(':').next().unwrap();
    for zone in [row[5].to_owned(), format!("25{}", row[5]), number.to_string()] {
        let output = served.get_urls(&[&format!("https://[{address}%{zone}]:{port}/small.txt")], &[]);
        assert_eq!(text(&output.stdout), "small", "{zone}: {}", text(&output.stderr));
    }
    assert!(std::net::TcpStream::connect(&served.address).is_ok());
}

/// A client has one name in the log, by whatever it comes.
#[cfg(unix)]
#[test]
fn clients_of_ipv4_are_called_by_their_address() {
    if std::net::UdpSocket::bind("[::]:0").is_err() {
        eprintln!("SKIPPED: this system has no IPv6");
        return;
    }
    let mut served = Served::bound("canonical", "[::]:0", &["--access-log"]);
    let port = served.address.rsplit(':').next().unwrap().to_owned();
    served.address = format!("127.0.0.1:{port}");
    tcp::fetch_small(&served);
    assert_eq!(text(&served.get(&["/small.txt"], &[]).stdout), "small");
    let log = served.stop();
    assert!(log.lines().count() == 2 && log.lines().all(|line| line.starts_with("127.0.0.1:")), "{log}");
}

/// A new certificate is taken up while the server runs, and one that cannot be read is not.
#[cfg(unix)]
#[test]
fn a_certificate_is_read_again() {
    let new = |folder: &std::path::Path| {
        for file in ["cert.pem", "key.pem"] {
            let _ = fs::remove_file(folder.join(file));
        }
        let made = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(["cert", "new", "localhost", "-o", folder.to_str().unwrap()])
            .output()
            .unwrap();
        text(&made.stdout).trim().to_owned()
    };
    let folder = std::env::temp_dir().join(format!("quickset-http-cert-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let first = new(&folder);
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let mut served = Served::new("renewed", &["--cert", &file("cert.pem"), "--key", &file("key.pem")]);
    assert_eq!(served.pin, first);
    let mut log = BufReader::new(served.server.stderr.take().unwrap());
    let mut hang_up = || {
        signal(&served.server, "-HUP");
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        line
    };
    let second = new(&folder);
    assert!(hang_up().contains(&second));
    fs::write(file("cert.pem"), "nonsense").unwrap();
    let said = hang_up();
    assert!(said.contains("the old certificate stays") && said.contains(&file("cert.pem")), "{said}");
    let _ = fs::remove_dir_all(&folder);

    assert_eq!(served.get(&["/small.txt"], &[]).status.code(), Some(1), "the old one is gone");
    assert_eq!(tcp::fingerprint(&served), second, "of TCP, too");
    served.pin = second;
    assert_eq!(text(&served.get(&["/small.txt"], &[]).stdout), "small");
}

/// A controller that the system does not have for TCP is said, and the site is served all the same.
#[test]
fn a_controller_that_tcp_cannot_have_is_said() {
    let mut served = Served::new("congest", &["--cc", "fixed:20mbit"]);
    assert_eq!(text(&served.get(&["/small.txt"], &[]).stdout), "small");
    let said = served.stop();
    assert!(said.contains("warning: HTTP/1.1 and HTTP/2 are not under fixed:20mbit"), "{said}");
}

/// A client that says something when it leaves, and its words.
#[cfg(unix)]
#[tokio::test]
async fn words_of_clients_do_not_write_the_log() {
    let mut served = Served::new("words", &["--access-log", "--no-tcp"]);
    let config = ClientConfig::new(Trust::pinned(served.pin.parse().unwrap()), &[h3::ALPN]).unwrap();
    let client = Endpoint::client().unwrap();
    let connection = client.connect(served.address.parse().unwrap(), "localhost", &config).await.unwrap();
    let http = h3::Client::new(&connection, h3::Config::default()).unwrap();
    let request = h3::Request::new("GET", "localhost", "/large.bin");
    let (_, mut content) = http.fetch(&request).await.unwrap();
    content.next().await.unwrap();
    connection.close(0x100, b"\x1b[2J\n192.0.2.1:1 \"GET /forged HTTP/3\" 200 0 bytes 0 ms");
    client.wait_idle().await;
    let log = tokio::task::spawn_blocking(move || served.stop()).await.unwrap();
    assert!(log.contains("\\u{1b}[2J\\n192.0.2.1:1"), "{log}");
    assert!(log.lines().all(|line| line.starts_with("127.0.0.1:")) && !log.contains('\x1b'), "{log}");
}

/// A client that asks for a hundred files and takes nothing of them has little of each of them held.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_takes_nothing_of_a_hundred_answers_has_little_held() {
    let served = Served::new("held", &["--no-tcp"]);
    let config = ClientConfig::new(Trust::pinned(served.pin.parse().unwrap()), &[h3::ALPN]).unwrap();
    let narrow = TransportConfig::default()
        .with_stream_window(1000)
        .with_max_stream_window(1000)
        .with_fenced_streams(None);
    let client = Endpoint::client().unwrap();
    let config = config.with_transport(narrow);
    let connection = client.connect(served.address.parse().unwrap(), "localhost", &config).await.unwrap();
    // The heads get through, and of each file its first bytes.
    connection.set_connection_window(1 << 20);
    let http = h3::Client::new(&connection, h3::Config::default()).unwrap();
    let memory = || -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", served.server.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    let before = memory();
    let mut answers = Vec::new();
    for _ in 0..100 {
        let request = h3::Request::new("GET", "localhost", "/large.bin");
        let (response, content) = http.fetch(&request).await.unwrap();
        assert_eq!(response.status, 200);
        answers.push(content);
    }
    // As much as it will ever be: until it grows no more.
    let mut most = memory();
    let mut quiet = 0;
    while quiet < 20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = memory();
        quiet = if now > most { 0 } else { quiet + 1 };
        most = most.max(now);
    }
    let grown = most.saturating_sub(before);
    // A hundred send buffers are 200 MB.
    assert!(grown < 64 << 20, "{grown} bytes");
}
