//! Clients that ask for much and take little of it or nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quickset::h3::{self, Request};
use quickset::{ClientConfig, Endpoint, TransportConfig, Trust};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::watched::{FILES, Server};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Attack {
    /// Each connection has room for so many bytes, and reads so many a second.
    Http3 {
        window: u64,
        rate: usize,
    },
    Http2,
    Http1,
}

/// Those that are there.
pub(crate) struct Hosts {
    tasks: JoinSet<()>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl Attack {
    /// So many connections, each with so many requests.
    pub(crate) fn begin(self, server: &Server, connections: usize, requests: usize) -> Hosts {
        let (mut tasks, counts) = (JoinSet::new(), Arc::<Counts>::default());
        let address = server.address;
        let endpoint = Endpoint::client().unwrap();
        for _ in 0..connections {
            let (counts, endpoint) = (counts.clone(), endpoint.clone());
            tasks.spawn(async move {
                // Who is turned away tries again.
                loop {
                    match self {
                        Self::Http3 { window, rate } => {
                            let _ = http3(&endpoint, address, (window, rate, requests), &counts).await;
                        }
                        Self::Http2 => drop(http2(address, requests, &counts).await),
                        Self::Http1 => drop(http1(address, &counts).await),
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            });
        }
        Hosts { tasks, counts }
    }
}

impl Hosts {
    /// Connections made and requests sent.
    pub(crate) fn count(&self) -> (usize, usize) {
        let Counts { connections, requests } = &*self.counts;
        (connections.load(Ordering::Relaxed), requests.load(Ordering::Relaxed))
    }

    pub(crate) fn leave(mut self) {
        self.tasks.abort_all();
    }
}

async fn http3(
    endpoint: &Endpoint,
    server: SocketAddr,
    (window, rate, requests): (u64, usize, usize),
    counts: &Counts,
) -> Option<()> {
    let transport = TransportConfig::default()
        .with_stream_window(window)
        .with_max_stream_window(window)
        .with_max_connection_window(window)
        // Whoever does nothing stays all the same.
        .with_keep_alive(Duration::from_secs(10))
        .with_fec(None)
        .with_fenced_streams(None);
    let config = ClientConfig::new(Trust::insecure(), &[h3::ALPN]).unwrap().with_transport(transport);
    let connection = endpoint.connect(server, "localhost", &config).await.ok()?;
    let client = h3::Client::new(&connection, h3::Config::default()).ok()?;
    counts.connections.fetch_add(1, Ordering::Relaxed);
    let mut answers = Vec::new();
    for n in 0..requests {
        let path = format!("/large{}", n % FILES);
        answers.push(client.ask(&Request::new("GET", "localhost", path)).await.ok()?);
        counts.requests.fetch_add(1, Ordering::Relaxed);
    }
    if rate > 0 {
        let (_, mut content) = answers.pop()?.response().await.ok()?;
        let mut piece = vec![0; rate];
        while content.read_exact(&mut piece).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    connection.closed().await;
    Some(())
}

async fn tls(
    server: SocketAddr,
    protocol: &str,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let tls = ClientConfig::new(Trust::insecure(), &["any"]).unwrap().tls(&[protocol]);
    let stream = TcpStream::connect(server).await?;
    tokio_rustls::TlsConnector::from(tls).connect("localhost".try_into().unwrap(), stream).await
}

/// RFC 9113, by hand: all windows as large as they may be, a hundred requests, and nothing is read of the
/// answers.
async fn http2(server: SocketAddr, requests: usize, counts: &Counts) -> std::io::Result<()> {
    let mut stream = tls(server, "h2").await?;
    counts.connections.fetch_add(1, Ordering::Relaxed);
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE of 2^31 - 1, and as much for the connection.
    out.extend(frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]));
    out.extend(frame(8, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
    for n in 0..requests {
        let path = format!("/large{}", n % FILES);
        // RFC 7541: GET and https by index, path and authority as literals.
        let mut head = vec![0x82, 0x87, 0x04, u8::try_from(path.len()).unwrap()];
        head.extend(path.bytes());
        head.extend([0x01, 9]);
        head.extend(b"localhost");
        out.extend(frame(1, 5, u32::try_from(2 * n + 1).unwrap(), &head));
        counts.requests.fetch_add(1, Ordering::Relaxed);
    }
    // Without an acknowledgement of its settings, which it may wait for a while.
    stream.write_all(&out).await?;
    stream.flush().await?;
    tokio::time::sleep(HOLD).await;
    // Whether it was closed.
    let _ = stream.read(&mut [0; 1]).await?;
    Ok(())
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = len[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(id.to_be_bytes());
    frame.extend(payload);
    frame
}

async fn http1(server: SocketAddr, counts: &Counts) -> std::io::Result<()> {
    let mut stream = tls(server, "http/1.1").await?;
    counts.connections.fetch_add(1, Ordering::Relaxed);
    stream.write_all(b"GET /large0 HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    counts.requests.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(HOLD).await;
    let _ = stream.read(&mut [0; 1]).await?;
    Ok(())
}

/// How long somebody who takes nothing looks at nothing.
const HOLD: Duration = Duration::from_secs(30);
