//! `quickset http get` with servers that do as they like.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use quickset::h3::{self, Call, Request, Response, Server};
use quickset::{Connection, Endpoint, Identity, ServerConfig};

use crate::served::text;

/// What a server does about a request.
enum Answer {
    This(Response, &'static [u8]),
    /// It closes the connection with some last [`WORDS`].
    Goodbye,
    /// It lives and does nothing.
    Silence,
    /// It does nothing with the request, and takes no others on this connection.
    GoAway,
}

/// A server of HTTP/3 that answers by this function.
struct Other {
    endpoint: Endpoint,
    pin: String,
    got: PathBuf,
}

impl Other {
    fn new(name: &str, answer: fn(&Request) -> Answer) -> Self {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let pin = identity.fingerprint().to_string();
        let config = ServerConfig::new(identity, &[h3::ALPN]).unwrap();
        let endpoint = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
        let server = endpoint.clone();
        tokio::spawn(async move {
            while let Some(connection) = server.accept().await {
                tokio::spawn(talk(connection, answer));
            }
        });
        let got = std::env::temp_dir().join(format!("quickset-other-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&got);
        fs::create_dir_all(&got).unwrap();
        Self { endpoint, pin, got }
    }

    /// Goes on with a part of `a.bin` that is there, of the file whose tag is `"1"`.
    async fn go_on(&self, part: &str) -> Output {
        fs::write(self.got.join("a.bin.part"), part).unwrap();
        fs::write(self.got.join("a.bin.part.etag"), "\"1\"").unwrap();
        self.get(&["--resume", "-o", self.got.to_str().unwrap()]).await
    }

    async fn get(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quickset"));
        command.args(["http", "get", "--pin", &self.pin]).args(words);
        command.arg(format!("https://{}/a.bin", self.endpoint.local_addr()));
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    fn file(&self) -> String {
        fs::read_to_string(self.got.join("a.bin")).unwrap()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.got);
    }
}

async fn talk(connection: Connection, answer: fn(&Request) -> Answer) {
    let mut http = Server::new(&connection, h3::Config::default()).unwrap();
    while let Some(Call { request, reply, .. }) = http.accept().await {
        let (response, content) = match answer(&request) {
            Answer::GoAway => {
                http.go_away();
                reply.reject();
                continue;
            }
            Answer::This(response, content) => (response, content),
            Answer::Goodbye => {
                connection.close(h3::ErrorCode::H3_NO_ERROR.0, WORDS);
                continue;
            }
            Answer::Silence => {
                let _kept = reply;
                // Until the client has enough.
                while tokio::time::timeout(Duration::from_millis(50), connection.closed()).await.is_err() {
                    connection.ping();
                }
                return;
            }
        };
        let mut out = reply.respond(&response).unwrap();
        out.send(content.into()).await.unwrap();
        out.finish().unwrap();
    }
}

/// To who asks for a range this, and to others all of the file.
fn odd(request: &Request, response: Response, content: &'static [u8]) -> Answer {
    let whole = || Answer::This(Response::new(200).with("etag", "\"2\""), b"ABCDEFGHIJ");
    if request.field("range").is_some() { Answer::This(response, content) } else { whole() }
}

fn part(range: &'static str, etag: &'static str) -> Response {
    Response::new(206).with("content-range", range).with("etag", etag)
}

/// RFC 9110 §15.3.7.3: only parts of one representation are put together, whoever says that they are.
#[tokio::test]
async fn a_part_that_is_none_of_the_file_is_not_appended() {
    let others: [fn(&Request) -> Answer; 5] = [
        // Of ranges it knows, of If-Range not.
        |request| odd(request, part("bytes 3-9/10", "\"2\""), b"DEFGHIJ"),
        // It does not say which file it is of.
        |request| odd(request, Response::new(206).with("content-range", "bytes 3-9/10"), b"DEFGHIJ"),
        // Another part.
        |request| odd(request, part("bytes 30-36/40", "\"1\""), b"DEFGHIJ"),
        // None that can be told, as of several.
        |request| odd(request, Response::new(206).with("etag", "\"1\""), b"--x"),
        // There is less of it now.
        |request| odd(request, Response::new(416).with("content-range", "bytes */2"), b""),
    ];
    for (n, answer) in others.into_iter().enumerate() {
        let other = Other::new(&format!("odd-{n}"), answer);
        let output = other.go_on("abcd").await;
        assert!(output.status.success(), "{n}: {}", text(&output.stderr));
        assert_eq!(other.file(), "ABCDEFGHIJ", "{n}");
        assert_eq!(fs::read_dir(&other.got).unwrap().count(), 1, "{n}");
    }
}

/// RFC 9110 §14.2: of a range a server may send less. That is no whole file.
#[tokio::test]
async fn a_part_of_the_rest_is_not_the_rest() {
    let other = Other::new("less", |request| match request.field("range").map(|range| &range[..]) {
        Some(b"bytes=3-") => Answer::This(part("bytes 3-5/10", "\"1\""), b"def"),
        Some(b"bytes=5-") => Answer::This(part("bytes 5-9/10", "\"1\""), b"fghij"),
        other => panic!("{other:?}"),
    });
    let output = other.go_on("abcd").await;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ended at 6 of 10 bytes; go on with --resume"), "{said}");
    let output = other.get(&["--resume", "-o", other.got.to_str().unwrap()]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(other.file(), "abcdefghij");
}

#[tokio::test]
async fn words_of_servers_do_not_act_on_the_terminal() {
    let other = Other::new("words", |_| Answer::Goodbye);
    let output = other.get(&[]).await;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("\\u{1b}]0;owned\\u{7}\\nquickset: all is well"), "{said}");
}

/// RFC 9114 §5.2: a server that is stopped with grace just when requests come.
#[tokio::test]
async fn what_a_server_did_nothing_with_is_asked_for_again() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let other = Other::new("again", |_| match ASKED.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Answer::GoAway,
        _ => Answer::This(Response::new(200), b"here"),
    });
    let output = other.get(&[]).await;
    assert_eq!(
        (&output.stdout[..], output.status.code()),
        (&b"here"[..], Some(0)),
        "{}",
        text(&output.stderr)
    );
    let output = other.get(&["-o", other.got.to_str().unwrap()]).await;
    assert_eq!((other.file().as_str(), output.status.code()), ("here", Some(0)));
    // Some are never there.
    let other = Other::new("never", |_| Answer::GoAway);
    let output = other.get(&[]).await;
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("so ask again later"), "{said}");
}

/// QUIC answers for a server whose application has stopped, and some keep their connections alive.
#[tokio::test]
async fn a_server_that_lives_and_sends_nothing_is_given_up() {
    let other = Other::new("silent", |_| Answer::Silence);
    let got = tokio::time::timeout(Duration::from_secs(20), other.get(&["--timeout", "2s"])).await;
    let output = got.expect("it ends by itself");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("sends nothing; ask later, or give it longer with --timeout"), "{said}");
}

const WORDS: &[u8] = b"\x1b]0;owned\x07\nquickset: all is well";
