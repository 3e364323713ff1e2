//! Files that are put: by every version of HTTP, whole or not at all, and nowhere else.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quickset::{ClientConfig, Endpoint, TransportConfig, Trust, h3};

use crate::served::{Served, large, text};
use crate::tcp::{self, ask};

const VERSIONS: [&str; 2] = ["--http1.1", "--http2"];

/// A server whose `sub` takes files.
fn served(name: &str, words: &[&str]) -> Served {
    let base = std::env::temp_dir().join(format!("quickset-http-{name}-{}", std::process::id()));
    let folder = base.join("site/sub");
    Served::new(name, &[&["--put", folder.to_str().unwrap()], words].concat())
}

impl Served {
    fn put_there(&self) -> PathBuf {
        self.folder.join("site/sub")
    }

    /// Everything in the folder, hidden or not.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.put_there()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn put(&self, path: &str, content: &str, words: &[&str]) -> (u16, Option<String>) {
        let words = [&["--json", "-i", "-X", "PUT", "-d", content], words].concat();
        let output = self.get(&[path], &words);
        let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let headers = rows[0]["headers"].as_array().cloned().unwrap_or_default();
        let tag = headers.iter().find(|field| field[0] == "etag");
        let status = rows[0]["status"].as_u64().unwrap_or_default();
        (u16::try_from(status).unwrap(), tag.map(|tag| tag[1].as_str().unwrap().to_owned()))
    }
}

#[test]
fn files_are_made_and_replaced_by_every_version() {
    let mut served = served("put", &["--access-log"]);
    let file = served.folder.join("large.bin");
    fs::write(&file, large()).unwrap();
    let from = format!("@{}", file.display());
    let (status, tag) = served.put("/sub/new.bin", &from, &[]);
    assert_eq!(status, 201);
    assert!(fs::read(served.put_there().join("new.bin")).unwrap() == large());
    // RFC 9110 §9.3.4: the tag is that of what is there.
    assert_eq!(tag.unwrap(), tcp::tag(&served, "/sub/new.bin"));
    assert_eq!(served.put("/sub/new.bin", "two", &[]).0, 204);
    assert_eq!(fs::read_to_string(served.put_there().join("new.bin")).unwrap(), "two");
    assert_eq!(served.put("/sub/empty", "", &[]).0, 201);
    for (n, version) in VERSIONS.into_iter().enumerate() {
        let path = format!("/sub/by%20tcp%ff{n}");
        let output = tcp::curl(&served, version, &path, &["-i", "-T", file.to_str().unwrap()]);
        let heads = text(&output.stdout);
        assert!(heads.contains(" 201"), "{version}: {heads}");
        // curl waits to be asked (RFC 9110 §10.1.1).
        assert_eq!(heads.starts_with("HTTP/1.1 100 Continue"), version == "--http1.1", "{heads}");
        assert!(tcp::fetch(&served, version, &path) == large());
        let (head, _) = ask(&served, version, &path, &["-X", "PUT", "-d", "short"]);
        assert!(head.contains(" 204"), "{version}: {head}");
        assert_eq!(tcp::fetch(&served, version, &path), b"short");
    }
    assert_eq!(fs::read_dir(served.put_there()).unwrap().count(), 4, "nothing else is left");
    let mode = served.put_there().join("empty").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0, "none is a program");
    let log = served.stop();
    assert!(log.contains("\"PUT /sub/new.bin HTTP/3\" 201 0 bytes for 3000000 bytes"), "{log}");
}

#[test]
fn files_are_put_nowhere_else() {
    let served = served("elsewhere", &[]);
    let site = served.folder.join("site");
    fs::create_dir_all(site.join("other")).unwrap();
    fs::create_dir_all(site.join("sub/deep")).unwrap();
    symlink(site.join("other"), site.join("sub/aside")).unwrap();
    symlink(&served.folder, site.join("sub/out")).unwrap();
    symlink(served.folder.join("secret"), site.join("sub/link")).unwrap();
    symlink("deep", site.join("sub/within")).unwrap();
    assert!(Command::new("mkfifo").arg(site.join("sub/pipe")).status().unwrap().success());
    for (path, status) in [
        ("/x", 405),
        ("/small.txt", 405),
        ("/subx", 405),
        ("/other/x", 405),
        ("/sub/.hidden", 405),
        ("/sub/../x", 405),
        ("/sub/%2e%2e/x", 405),
        ("/sub/..%2fx", 405),
        ("/sub/", 409),
        ("/sub", 409),
        ("/sub/deep", 409),
        ("/sub/none/x", 409),
        ("/sub/link", 409),
        ("/sub/pipe", 409),
        ("/sub/aside/x", 403),
        ("/sub/out/x", 409),
        ("/sub/within/x", 201),
    ] {
        assert_eq!(served.put(path, "content", &[]).0, status, "{path}");
    }
    assert_eq!(served.put(&format!("/sub/{}", "n".repeat(256)), "x", &[]).0, 400);
    assert_eq!(served.put(&format!("/sub/{}", "n".repeat(255)), "x", &[]).0, 201);
    assert!(!served.folder.join("secret").exists() && !served.folder.join("x").exists());
    assert_eq!(fs::read_dir(site.join("other")).unwrap().count(), 0);
    let (head, _) = ask(&served, "--http2", "/sub/x", &["-X", "OPTIONS"]);
    assert!(head.contains("allow: get, head, options, put\r\n"), "{head}");
    for (path, method) in [("/sub/within/x", "DELETE"), ("/sub/x", "POST"), ("/x", "OPTIONS")] {
        let (head, _) = ask(&served, "--http2", path, &["-X", method]);
        assert_eq!(head.contains("put"), path != "/x", "{method} {path}: {head}");
        assert!(head.contains(" 405") || method == "OPTIONS", "{head}");
    }
    assert!(site.join("sub/deep/x").exists());
    // What is put beside a file is not served in its place.
    assert_eq!(served.put("/sub/a.txt", "plain", &[]).0, 201);
    assert_eq!(served.put("/sub/a.txt.gz", "other", &[]).0, 201);
    let (head, content) = ask(&served, "--http2", "/sub/a.txt", &["-H", "accept-encoding: gzip"]);
    assert!(content == "plain" && !head.contains("content-encoding") && !head.contains("vary"), "{head}");
}

#[test]
fn conditions_decide_what_is_replaced() {
    let served = served("conditions", &[]);
    let put = |content: &str, header: &str| served.put("/sub/a", content, &["-H", header]);
    assert_eq!(put("none", "If-Match: *").0, 412);
    let (status, first) = put("one", "If-None-Match: *");
    assert_eq!(status, 201);
    assert_eq!(put("two", "If-None-Match: *").0, 412);
    let first = first.unwrap();
    let (status, second) = put("two", &format!("If-Match: {first}"));
    assert_eq!(status, 204);
    assert_eq!(put("three", &format!("If-Match: {first}")).0, 412, "somebody was faster");
    assert_eq!(put("three", &format!("If-None-Match: {}", second.unwrap())).0, 412);
    assert_eq!(put("three", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT").0, 412);
    assert_eq!(fs::read_to_string(served.put_there().join("a")).unwrap(), "two");
    // RFC 9110 §14.5, §8.4.
    assert_eq!(put("part", "Content-Range: bytes 0-3/10").0, 400);
    assert_eq!(put("zipped", "Content-Encoding: gzip").0, 415);
    assert_eq!(served.names(), ["a"]);
}

/// Of many who make the same file, or replace the same version, it is one.
#[test]
fn of_several_at_once_one_comes_first() {
    let served = served("several", &[]);
    let won = |header: &str, status: u16| {
        let ends: Vec<u16> = std::thread::scope(|scope| {
            let puts: Vec<_> = (0..6)
                .map(|n| {
                    let served = &served;
                    scope.spawn(move || {
                        served.put("/sub/a", &n.to_string().repeat(100_000), &["-H", header]).0
                    })
                })
                .collect();
            puts.into_iter().map(|put| put.join().unwrap()).collect()
        });
        assert_eq!(ends.iter().filter(|end| **end == status).count(), 1, "{ends:?}");
        assert!(ends.iter().all(|end| [status, 412].contains(end)), "{ends:?}");
    };
    won("if-none-match: *", 201);
    won(&format!("if-match: {}", tcp::tag(&served, "/sub/a")), 204);
    let content = fs::read(served.put_there().join("a")).unwrap();
    assert!(content.len() == 100_000 && content.iter().all(|byte| *byte == content[0]), "of one of them");
}

#[test]
fn there_is_a_limit_for_each_and_for_all() {
    let served = served("limits", &["--put-max", "100kB", "--put-total", "200kB"]);
    let kb = |n: usize| "x".repeat(n * 1000);
    assert_eq!(served.put("/sub/a", &kb(100), &[]).0, 201);
    assert_eq!(served.put("/sub/b", &kb(101), &[]).0, 413);
    for version in VERSIONS {
        let (head, _) =
            ask(&served, version, "/sub/b", &["-X", "PUT", "-d", &kb(101), "-H", "Expect: 100-continue"]);
        assert!(
            head.starts_with("http/") && head.contains(" 413") && !head.contains("100 continue"),
            "{head}"
        );
        // Nobody says how long it is.
        let (head, _) = ask(
            &served,
            version,
            "/sub/b",
            &["-X", "PUT", "-d", &kb(101), "-H", "Content-Length:", "-H", "Transfer-Encoding: chunked"],
        );
        assert!(head.contains(" 413"), "{version}: {head}");
    }
    assert_eq!(served.put("/sub/b", &kb(90), &[]).0, 201);
    assert_eq!(served.put("/sub/c", &kb(10), &[]).0, 507, "the files there are counted by blocks");
    // What is replaced makes room, and what failed has taken none.
    assert_eq!(served.put("/sub/b", "small", &[]).0, 204);
    assert_eq!(served.put("/sub/c", &kb(90), &[]).0, 201);
    assert_eq!(served.put("/sub/d", "", &[]).0, 507);
    assert_eq!(served.names(), ["a", "b", "c"]);
}

/// Whoever leaves in the middle, is killed or is too slow: nothing of it is left, and the room is free again.
#[test]
fn what_breaks_off_leaves_nothing() {
    let served = served("broken", &["--timeout", "500ms", "--put-total", "7MB"]);
    let url = format!("https://{}/sub/a", served.address);
    fs::write(served.put_there().join("a"), "before").unwrap();
    let begun = |program: &str, words: &[&str]| {
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&large()[..2_000_000]).unwrap();
        (child, input)
    };
    let quickset = env!("CARGO_BIN_EXE_quickset");
    let ours = ["http", "get", "-X", "PUT", "-d", "-", "--pin", &served.pin, &url];
    let curls = VERSIONS.map(|version| ["-sk", "-i", version, "-T", "-", &url]);
    for (program, words) in [(quickset, &ours[..]), ("curl", &curls[0]), ("curl", &curls[1])] {
        let (mut child, _input) = begun(program, words);
        std::thread::sleep(Duration::from_millis(300));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Who goes silent is told, or cut off.
    let (mut child, _input) = begun(quickset, &ours);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(said.contains("408") || said.contains("closed"), "{said}");
    let mut stream = tcp::connect(&served, "http/1.1");
    stream.write_all(b"PUT /sub/a HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000\r\n\r\n").unwrap();
    stream.write_all(&large()[..2_000_000]).unwrap();
    let said = text(&tcp::to_the_end(&mut stream)).to_lowercase();
    assert!(said.starts_with("http/1.1 408 ") || said.is_empty(), "{said}");
    let until = Instant::now() + Duration::from_secs(20);
    while served.names() != ["a"] {
        assert!(Instant::now() < until, "{:?}", served.names());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(fs::read_to_string(served.put_there().join("a")).unwrap(), "before");
    let file = served.folder.join("large.bin");
    fs::write(&file, large()).unwrap();
    // Those that broke off had 12 MB together.
    let status = || served.put("/sub/b", &format!("@{}", file.display()), &[]).0;
    while status() == 507 {
        assert!(Instant::now() < until, "the room is gone");
    }
    assert_eq!(status(), 204);
}

/// Who brings a little now and then holds nothing for ever.
#[tokio::test]
async fn slow_content_is_given_up() {
    let served = served("trickle", &["--timeout", "500ms", "--no-tcp"]);
    let config = ClientConfig::new(Trust::pinned(served.pin.parse().unwrap()), &[h3::ALPN]).unwrap();
    let client = Endpoint::client().unwrap();
    let connection = client.connect(served.address.parse().unwrap(), "localhost", &config).await.unwrap();
    let http = h3::Client::new(&connection, h3::Config::default()).unwrap();
    let request = h3::Request::new("PUT", "localhost", "/sub/a");
    let (mut sender, answer) = http.request(&request).await.unwrap();
    let trickle = async {
        while sender.send(vec![0; 100].into()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        std::future::pending::<()>().await;
    };
    let answered = tokio::time::timeout(Duration::from_secs(20), async {
        tokio::select! {
            answered = answer.response() => answered.map(|(response, _)| response.status),
            () = trickle => unreachable!(),
        }
    });
    // A connection on which nothing moves is closed at the same time.
    let status = answered.await.expect("it is given up");
    assert!(status.is_err() || status == Ok(408), "{status:?}");
    assert!(served.names().is_empty(), "{:?}", served.names());
}

/// RFC 8470: what comes early may be a replay.
#[tokio::test]
async fn early_content_waits_for_the_handshake() {
    let served = served("early", &["--early-data"]);
    let config = ClientConfig::new(Trust::pinned(served.pin.parse().unwrap()), &[h3::ALPN]).unwrap();
    let config = config
        .with_transport(TransportConfig::default())
        .with_early_data(quickset::EarlyData::default())
        .unwrap();
    let client = Endpoint::client().unwrap();
    let address = served.address.parse().unwrap();
    let first = client.connect(address, "localhost", &config).await.unwrap();
    let http = h3::Client::new(&first, h3::Config::default()).unwrap();
    // With an answer the ticket has come, too.
    http.fetch(&h3::Request::new("GET", "localhost", "/small.txt")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let second = client.connect(address, "localhost", &config).into_early().expect("there is a ticket");
    let http = h3::Client::new(&second, h3::Config::default()).unwrap();
    let request = h3::Request::new("PUT", "localhost", "/sub/a").with("content-length", "4");
    let (mut sender, answer) = http.request(&request).await.unwrap();
    sender.send("once".into()).await.unwrap();
    sender.finish().unwrap();
    let (response, _) = answer.response().await.unwrap();
    assert_eq!(response.status, 201);
    assert!(second.accepted_early().await);
    assert_eq!(fs::read_to_string(served.put_there().join("a")).unwrap(), "once");
}

#[test]
fn folders_that_nobody_could_ask_for_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("site")).unwrap();
    let site = folder.path().join("site");
    for (put, hint) in [
        (folder.path().to_owned(), "not below"),
        (site.join("none"), "No such file or directory (os error 2)"),
    ] {
        let words = ["--listen", "127.0.0.1:0", "--put", put.to_str().unwrap()];
        let output = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(["http", "serve", site.to_str().unwrap()])
            .args(words)
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(hint), "{said}");
    }
}
