//! The page, and a server for it that knows nothing else.

use std::fmt::Write as _;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
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

/// Serves the page; and `/held`, which it holds back until the page asks for `/done`: so it counts as loaded when it has all.
pub(crate) async fn serve(listener: TcpListener, page: String) {
    let page: Arc<str> = page.into();
    let done = Arc::new(Notify::new());
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, page.clone(), done.clone()));
    }
}

async fn answer(mut stream: TcpStream, page: Arc<str>, done: Arc<Notify>) -> std::io::Result<()> {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    let first = lines.next_line().await?.unwrap_or_default();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let (status, body) = match first.split(' ').nth(1) {
        Some("/") => ("200 OK", &*page),
        Some("/held") => {
            done.notified().await;
            ("204 No Content", "")
        }
        Some("/done") => {
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
