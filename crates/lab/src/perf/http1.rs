//! The same bytes by HTTP/1.1 over TLS and TCP: answered by hyper over tokio-rustls, as `quickset http serve`
//! does, and asked for by hand, so that a client costs little more than TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::client::{PerfError, PerfStart, share};
use super::pattern::{BytePattern, PatternCheck};
use super::source::{PatternReader, PatternSource};
use super::{Direction, Speed};

/// The application protocol.
pub const HTTP1: &str = "http/1.1";

/// Answers every client of a listener, `GET /N` with N bytes of the source, until it fails.
pub async fn serve_http1(listener: TcpListener, tls: Arc<rustls::ServerConfig>, source: PatternSource) {
    let acceptor = TlsAcceptor::from(tls);
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(attend(stream, acceptor.clone(), source.clone()));
    }
}

/// Serves a client until it has enough. One that gives up in the middle is no concern of a server.
async fn attend(stream: TcpStream, acceptor: TlsAcceptor, source: PatternSource) {
    // What can be sent together is handed over together.
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.uri().path(), &source);
        async { answer }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

fn answer(path: &str, source: &PatternSource) -> io::Result<Response<SourceContent>> {
    let asked = path.strip_prefix('/').and_then(|bytes| bytes.parse().ok());
    let content = SourceContent { reader: source.read(asked.unwrap_or(0))?, waits: None };
    let mut response = Response::new(content);
    if asked.is_none() {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(response)
}

/// What a source has, as far as it was asked for.
struct SourceContent {
    reader: PatternReader,
    /// Until the next is due.
    waits: Option<Pin<Box<Sleep>>>,
}

impl Body for SourceContent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.reader.left() == 0 {
            return Poll::Ready(None);
        }
        if self.waits.is_none() {
            self.waits = self.reader.due().map(|due| Box::pin(tokio::time::sleep_until(due.into())));
        }
        if let Some(sleep) = &mut self.waits {
            std::task::ready!(sleep.as_mut().poll(cx));
            self.waits = None;
        }
        Poll::Ready(Some(self.reader.next().map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.reader.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.reader.left())
    }
}

/// Fetches so many bytes from [`serve_http1`] over so many connections at a time, and measures. Packets are
/// the system's, which counts none for us.
///
/// # Errors
/// See [`PerfError`].
pub async fn measure_http1(
    address: SocketAddr,
    name: &str,
    tls: Arc<rustls::ClientConfig>,
    connections: usize,
    bytes: u64,
) -> Result<Speed, PerfError> {
    let n = connections.max(1);
    let connector = TlsConnector::from(tls);
    let server = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let mut streams = Vec::new();
    for _ in 0..n {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        // rustls by itself asks for 4 kB at a time.
        let stream = connector.connect(server.clone(), BufReader::with_capacity(READ, stream)).await?;
        streams.push(BufReader::with_capacity(RECORDS, stream));
    }
    let start = PerfStart::now();
    let mut transfers = tokio::task::JoinSet::new();
    for (i, mut stream) in streams.into_iter().enumerate() {
        let (share, name) = (share(bytes, n, i), name.to_owned());
        transfers.spawn(async move {
            let get = format!("GET /{share} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
            stream.write_all(get.as_bytes()).await?;
            stream.flush().await?;
            let received = receive(&mut stream).await?;
            if received == share { Ok(received) } else { Err(PerfError::Answer) }
        });
    }
    let mut transferred = 0;
    while let Some(done) = transfers.join_next().await {
        transferred += done.map_err(|_| PerfError::Answer)??;
    }
    Ok(start.speed(transferred, n, Direction::Download))
}

/// Reads an answer, which ends with the connection, and returns how long its content is.
async fn receive(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<u64, PerfError> {
    let (mut head, mut line) = (stream.take(MOST_HEAD), String::new());
    head.read_line(&mut line).await?;
    if !line.starts_with("HTTP/1.1 200 ") {
        return Err(PerfError::Answer);
    }
    while line != "\r\n" {
        line.clear();
        if head.read_line(&mut line).await? == 0 {
            return Err(PerfError::Answer);
        }
    }
    let stream = head.into_inner();
    let mut check = PatternCheck::new(BytePattern::new());
    loop {
        let before = check.received();
        let bytes = stream.fill_buf().await?;
        if bytes.is_empty() {
            return Ok(before);
        }
        if !check.take(bytes) {
            return Err(PerfError::Damaged(before));
        }
        let taken = bytes.len();
        stream.consume(taken);
    }
}

/// Bytes that a client takes from its socket at a time, and of what was in them.
const READ: usize = 256 << 10;
const RECORDS: usize = 64 << 10;
/// Bytes of a head of ours are far fewer.
const MOST_HEAD: u64 = 4096;
