//! The page, and a server for it that knows nothing else.

use std::fmt::Write as _;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// The page for a WebTransport server on a port of this machine, with a certificate of this hash.
pub(crate) fn of(port: u16, hash: &[u8; 32]) -> String {
    let mut digits = String::new();
    for byte in hash {
        let _ = write!(digits, "{byte:02x}");
    }
    include_str!("page.html").replace("PORT", &port.to_string()).replace("HASH", &digits)
}

/// Serves the page; and `/held`, which it holds back until the page asks for `/done`: so it counts as loaded
/// when it has all. What it has shown until then comes along, and is passed on.
pub(crate) async fn serve(
    listener: TcpListener,
    page: String,
    shown: impl Fn(String) + Send + Sync + 'static,
) {
    let page: Arc<str> = page.into();
    let done = Arc::new(Notify::new());
    let shown: Arc<dyn Fn(String) + Send + Sync> = Arc::new(shown);
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, page.clone(), done.clone(), shown.clone()));
    }
}

async fn answer(
    mut stream: TcpStream,
    page: Arc<str>,
    done: Arc<Notify>,
    shown: Arc<dyn Fn(String) + Send + Sync>,
) -> std::io::Result<()> {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    let (mut first, mut len) = (String::new(), 0);
    read.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        read.read_line(&mut line).await?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            len = value.trim().parse().unwrap_or_default();
        }
    }
    let (status, body) = match first.split(' ').nth(1) {
        Some("/") => ("200 OK", &*page),
        Some("/held") => {
            done.notified().await;
            ("204 No Content", "")
        }
        Some("/done") => {
            let mut text = String::new();
            read.take(len).read_to_string(&mut text).await?;
            shown(text);
            done.notify_one();
            ("204 No Content", "")
        }
        _ => ("404 Not Found", ""),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\nConnection: close\r\n");
    let head =
        if status.starts_with("204") { head } else { format!("{head}Content-Length: {}\r\n", body.len()) };
    write.write_all(format!("{head}\r\n{body}").as_bytes()).await
}
