//! What `http get` asks, as a server hears it: methods, fields, content, certificates, and where from.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quickset::h3::{self, Call, Response};
use quickset::{ClientAuth, Connection, Endpoint, Identity, Peer, ServerConfig};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::served::{Served, large, text};

/// A server that answers with what it heard. It rejects the first requests, as many as it is told.
struct Echo {
    address: SocketAddr,
    pin: String,
    heard: Arc<AtomicUsize>,
    _stop: oneshot::Sender<()>,
}

impl Echo {
    fn new(rejects: usize) -> Self {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let pin = identity.fingerprint().to_string();
        let heard = Arc::new(AtomicUsize::new(0));
        let count = heard.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let config = ServerConfig::new(identity, &[h3::ALPN]).unwrap();
                let config = config.with_client_auth(ClientAuth::Optional).unwrap();
                let endpoint = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
                tell.send(endpoint.local_addr()).unwrap();
                let serving = async {
                    while let Some(connection) = endpoint.accept().await {
                        tokio::spawn(talk(connection, count.clone(), rejects));
                    }
                };
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address: told.recv().unwrap(), pin, heard, _stop: stop }
    }

    fn command(&self, path: &str, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quickset"));
        let url = format!("https://{}{path}", self.address);
        command.args(["http", "get", "--pin", &self.pin, &url]).args(words).stdin(Stdio::null());
        command
    }

    /// What it heard, in its own words.
    #[track_caller]
    fn hears(&self, words: &[&str]) -> Value {
        heard(&self.command("/", words).output().unwrap())
    }
}

#[track_caller]
fn heard(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn talk(connection: Connection, count: Arc<AtomicUsize>, rejects: usize) {
    let who = Peer::of(&connection).fingerprint().map(|who| who.to_string());
    let mut server = h3::Server::new(&connection, h3::Config::default()).unwrap();
    while let Some(call) = server.accept().await {
        if count.fetch_add(1, Ordering::Relaxed) < rejects {
            call.reply.reject();
            continue;
        }
        tokio::spawn(answer(call, who.clone()));
    }
}

async fn answer(call: Call, who: Option<String>) {
    let Call { request, reply, mut content, .. } = call;
    if request.path.as_deref() == Some(b"/full") {
        // What is still on its way is not wanted.
        return reply.end(&Response::new(507)).unwrap();
    }
    let mut body = Vec::new();
    loop {
        match content.next().await {
            Ok(Some(data)) => body.extend(data),
            Ok(None) => break,
            Err(_) => return,
        }
    }
    let fields: Vec<_> =
        request.fields.iter().map(|field| format!("{}: {}", text(&field.name), text(&field.value))).collect();
    let is_large = body == large();
    let body = if is_large { "large".to_owned() } else { text(&body) };
    let told = json!({ "method": text(&request.method), "fields": fields, "body": body, "who": who });
    let told = told.to_string();
    let response =
        Response::new(200).with("content-length", told.len().to_string()).with("x-acts", "\u{9b}2J");
    let mut out = reply.respond(&response).unwrap();
    if request.method != "HEAD" {
        out.send(told.into()).await.unwrap();
    }
    out.finish().unwrap();
}

fn fields(heard: &Value) -> Vec<&str> {
    heard["fields"].as_array().unwrap().iter().map(|field| field.as_str().unwrap()).collect()
}

#[test]
fn methods_and_fields_are_those_that_are_named() {
    let echo = Echo::new(0);
    let plain = echo.hears(&[]);
    assert_eq!(plain["method"], "GET");
    assert_eq!(fields(&plain), [concat!("user-agent: quickset/", env!("CARGO_PKG_VERSION"))]);
    let told = echo.hears(&[
        "-X",
        "DELETE",
        "-H",
        "Accept: a/b",
        "--header",
        "x-n:1",
        "-H",
        "x-n: 2",
        "-H",
        "User-Agent:",
    ]);
    assert_eq!(told["method"], "DELETE");
    assert_eq!(fields(&told), ["accept: a/b", "x-n: 1", "x-n: 2"]);
    let told = echo.hears(&["-H", "user-agent: other", "-H", "priority: u=0", "--priority", "u=7"]);
    assert_eq!(fields(&told), ["user-agent: other", "priority: u=0"]);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fields");
    fs::write(&file, "Authorization: Bearer swordfish\n\nX-A: b\n").unwrap();
    #[cfg(unix)]
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let from = format!("@{}", file.display());
    let mut command = echo.command("/", &["-H", &from, "--qlog", folder.path().to_str().unwrap()]);
    let output = command.env("RUST_LOG", "trace").output().unwrap();
    assert!(fields(&heard(&output)).contains(&"authorization: Bearer swordfish"));
    let mut logs = text(&output.stderr);
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path != file {
            logs += &fs::read_to_string(path).unwrap();
        }
    }
    assert!(logs.len() > 1000 && !logs.contains("swordfish"), "secrets are in no log");

    // Who names it on the command line is told what that means.
    let output = echo.command("/", &["-H", "Cookie: a=b"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("can see cookie") && said.contains("@FILE") && !said.contains("a=b"), "{said}");
}

#[test]
fn content_is_sent_from_wherever_it_is() {
    let echo = Echo::new(0);
    let told = echo.hears(&["-d", "some text"]);
    assert_eq!((&told["method"], &told["body"]), (&json!("POST"), &json!("some text")));
    assert!(fields(&told).contains(&"content-length: 9"), "{told}");
    assert_eq!(echo.hears(&["-d", ""])["method"], "POST");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.bin");
    fs::write(&file, large()).unwrap();
    let from = format!("@{}", file.display());
    let told = echo.hears(&["-X", "PUT", "--data", &from]);
    assert_eq!((&told["method"], &told["body"]), (&json!("PUT"), &json!("large")));
    assert!(fields(&told).contains(&"content-length: 3000000"), "{told}");

    // Nobody knows how long that is.
    let mut child =
        echo.command("/", &["-d", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&large()).unwrap();
    drop(input);
    let told = heard(&child.wait_with_output().unwrap());
    assert_eq!(told["body"], "large");
    assert!(!fields(&told).iter().any(|field| field.starts_with("content-length")), "{told}");

    // A server that wants no more of it has answered.
    let mut child =
        echo.command("/full", &["-d", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert!(text(&output.stderr).contains("status 507"), "{}", text(&output.stderr));
    drop(input);
}

/// RFC 9110 §9.2.2, RFC 9114 §4.1.1: what nobody did anything with is asked for again, whatever it is, if it
/// is still there.
#[test]
fn what_was_rejected_is_sent_again_unless_it_is_gone() {
    let echo = Echo::new(2);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.bin");
    fs::write(&file, large()).unwrap();
    assert_eq!(echo.hears(&["--data", &format!("@{}", file.display())])["body"], "large");
    assert_eq!(echo.heard.load(Ordering::Relaxed), 3);

    let echo = Echo::new(1);
    let mut child =
        echo.command("/", &["-d", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"once").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the server took no request"), "{}", text(&output.stderr));
    assert_eq!(echo.heard.load(Ordering::Relaxed), 1);
}

#[test]
fn heads_are_printed_if_they_are_asked_for() {
    let served = Served::new("heads", &[]);
    let head = text(&served.get(&["/small.txt"], &["-I"]).stdout);
    assert!(head.starts_with("HTTP/3 200\n") && head.ends_with("\n\n"), "{head}");
    assert!(head.contains("\ncontent-length: 5\n") && head.contains("\ncontent-type: text/plain"), "{head}");
    let both = text(&served.get(&["/small.txt"], &["--include"]).stdout);
    assert_eq!(both.split_once("\n\n").unwrap().1, "small");
    let output = served.get(&["/nothing"], &["-i"]);
    assert!(text(&output.stdout).starts_with("HTTP/3 404\n"), "also of what is none");
    let got = served.folder.join("got");
    let output = served.get(&["/small.txt", "/large.bin"], &["-i", "-o", got.to_str().unwrap()]);
    assert_eq!(text(&output.stdout).matches("HTTP/3 200\n").count(), 2);
    let rows: Value = serde_json::from_slice(&served.get(&["/small.txt"], &["--json", "-i"]).stdout).unwrap();
    assert_eq!((&rows[0]["http"], &rows[0]["quic"]), (&json!("HTTP/3"), &json!("v1")));
    assert!(rows[0]["headers"].as_array().unwrap().contains(&json!(["content-length", "5"])), "{rows}");

    let echo = Echo::new(0);
    let output = echo.command("/", &["-i"]).output().unwrap();
    assert!(text(&output.stdout).contains("\nx-acts: \\u{9b}2J\n"), "a head does not act on a terminal");
}

#[test]
fn a_client_proves_who_it_is() {
    let echo = Echo::new(0);
    assert_eq!(echo.hears(&[])["who"], Value::Null);
    let folder = tempfile::tempdir().unwrap();
    let words = ["cert", "new", "client.example", "-o", folder.path().to_str().unwrap()];
    let made = Command::new(env!("CARGO_BIN_EXE_quickset")).args(words).output().unwrap();
    let [cert, key] =
        ["cert.pem", "key.pem"].map(|file| folder.path().join(file).to_str().unwrap().to_owned());
    let who = echo.hears(&["--cert", &cert, "--cert-key", &key])["who"].clone();
    assert_eq!(who, text(&made.stdout).trim());
    #[cfg(unix)]
    {
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let output = echo.command("/", &["--cert", &cert, "--key", &key]).output().unwrap();
        assert!(text(&output.stderr).contains("chmod 600"), "{}", text(&output.stderr));
    }
}

/// RFC 9000 §9: the connection goes on from elsewhere, and nothing of the file is lost.
#[cfg(target_os = "linux")]
#[test]
fn a_connection_moves_while_content_comes() {
    for (to, said) in [
        ("--migrate", "the connection goes on from port "),
        ("--migrate=127.0.0.7", "goes on from 127.0.0.7:"),
    ] {
        // 3 MB take a second and more.
        let served = Served::new("moves", &["--cc", "fixed:20mbit", "--no-tcp"]);
        let got = served.folder.join("got");
        let output = served.get(&["/large.bin"], &["-o", got.to_str().unwrap(), to]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(fs::read(served.got("large.bin")).unwrap() == large());
        assert!(text(&output.stderr).contains(said), "{to}: {}", text(&output.stderr));
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let table: [(&[&str], &str); 12] = [
        (&["-X", "A B"], "like PUT"),
        (&["-X", "CONNECT"], "tunnel"),
        (&["-X", "TRACE", "-d", "x"], "has no content"),
        (&["-I", "-d", "x"], "cannot be used with"),
        (&["-I", "-o", "."], "cannot be used with"),
        (&["-H", "Transfer-Encoding: chunked"], "transfer-encoding cannot be sent"),
        (&["-H", "Authorization swordfish"], "NAME: VALUE"),
        (&["-H", "@/nonexistent"], "No such file or directory"),
        (&["-d", "@/nonexistent"], "No such file or directory"),
        (&["-d", "-", "https://127.0.0.1:1/b"], "standard input comes once"),
        (&["-X", "PUT", "--resume", "-o", "."], "only a GET"),
        (&["-H", "range: bytes=0-1", "-o", "."], "a part would be kept"),
    ];
    let echo = Echo::new(0);
    for (words, hint) in table {
        let output = echo.command("/", words).output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(hint), "{words:?}: {said}");
        assert!(!said.contains("swordfish"), "{said}");
    }
    assert_eq!(echo.heard.load(Ordering::Relaxed), 0);
}
