//! WebTransport with another stack, both ways round: webtransport-go or pywebtransport, which speak draft 15
//! and not the older ones alone. `cargo xtask interop --case webtransport-go`, or `webtransport-py`, makes
//! its program, and says here what it is.

#![cfg(all(feature = "h3", feature = "self-signed"))]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

#[path = "../examples/webtransport/echo.rs"]
mod echo;

use std::future::Future;
use std::process::Stdio;
use std::time::Duration;

use quickset::bytes::Bytes;
use quickset::h3::webtransport::SessionEnding;
use quickset::h3::{self, Client, Config, Request};
use quickset::{ClientConfig, Endpoint, Identity, ServerConfig, Trust};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it does not take that long")
}

/// The other stack, which ends with the test.
fn other(arguments: &[&str]) -> Child {
    // A program and its first arguments, one a line.
    let all = std::env::var("QUICKSET_WEBTRANSPORT_PEER").expect("cargo xtask interop says what it is");
    let (program, first) = all.split_once('\n').unwrap_or((&all, ""));
    let mut command = Command::new(program);
    command.args(first.lines()).args(arguments);
    command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

#[tokio::test]
#[ignore = "cargo xtask interop --case webtransport-go, and webtransport-py"]
async fn its_client_has_sessions_with_our_server() {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let config = ServerConfig::new(identity, &[h3::ALPN]).unwrap();
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let url = format!("https://{}/echo", server.local_addr());
    let (tell, mut endings) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let connection = server.accept().await.unwrap();
        let _ = echo::serve(&connection, |_, ending| tell.send(ending.clone()).unwrap()).await;
    });
    let output = soon(other(&["client", &url]).wait_with_output()).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n");
    // It closes the connection along with the session, and then the one may overtake what is said of the
    // other.
    let ending = soon(endings.recv()).await;
    let said = SessionEnding { code: 7, reason: "that was all".into() };
    assert!(ending.as_ref().is_none_or(|ending| *ending == said), "{ending:?}");
}

#[tokio::test]
#[ignore = "cargo xtask interop --case webtransport-go, and webtransport-py"]
async fn our_client_has_sessions_with_its_server() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let files = ["cert.pem", "key.pem"].map(|name| folder.join(name).display().to_string());
    let made = quickset::rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&files[0], made.cert.pem()).unwrap();
    std::fs::write(&files[1], made.key_pair.serialize_pem()).unwrap();
    let mut child = other(&["server", &files[0], &files[1]]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = soon(lines.next_line()).await.unwrap().unwrap().parse().unwrap();
    let config = ClientConfig::new(Trust::insecure(), &[h3::ALPN]).unwrap();
    let connection = soon(Endpoint::client().unwrap().connect(address, "localhost", &config)).await.unwrap();
    let client = Client::new(&connection, Config { webtransport: 1, ..Config::default() }).unwrap();
    let request = Request::extended("webtransport", "localhost", "/echo").offering(&["echo/1"]).unwrap();
    let session = soon(client.session(&request)).await.unwrap();
    assert_eq!(session.protocol(), Some("echo/1"));

    let payload: Bytes = (0..=250).cycle().take(300_000).collect();
    let (mut send, mut recv) = soon(session.open_bi()).await.unwrap();
    let say = async {
        send.send(payload.clone()).await.unwrap();
        send.finish().unwrap();
    };
    let ((), heard) = soon(async { tokio::join!(say, recv.read_to_end(1 << 20)) }).await;
    assert!(heard.unwrap() == payload, "other bytes came back");
    session.send_datagram(b"hello").unwrap();
    assert_eq!(soon(session.next_datagram()).await.unwrap(), "hello");
    session.send_datagram(b"end").unwrap();
    assert_eq!(
        soon(session.closed()).await.unwrap(),
        SessionEnding { code: 42, reason: "as you say".into() }
    );
}
