//! TLS over TCP: rustls by tokio-rustls. No streams: one request at a time on a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::{PeerConnection, StackAnswer, StackClient, StackDownload, StackServer};
use crate::pattern::PatternSum;
use crate::tls::{self, PeersIdentity, Trusted};

/// Bytes taken from the socket at a time: rustls by itself asks for 4 kB.
const READ: usize = 256 << 10;

type BufferedTls = TlsStream<BufReader<TcpStream>>;

/// A connection, locked by the request under way.
pub(crate) struct TcpLine(Arc<Mutex<BufferedTls>>);

pub(crate) struct Listener {
    address: SocketAddr,
    shaken: mpsc::UnboundedReceiver<TcpLine>,
}

pub(crate) fn serve(listen: SocketAddr, identity: PeersIdentity) -> Result<Listener> {
    let acceptor = TlsAcceptor::from(Arc::new(identity.server()?));
    let socket = std::net::TcpListener::bind(listen)?;
    socket.set_nonblocking(true)?;
    let socket = TcpListener::from_std(socket)?;
    let address = socket.local_addr()?;
    let (sender, shaken) = mpsc::unbounded_channel();
    tokio::task::spawn_local(async move {
        while let Ok((tcp, _)) = socket.accept().await {
            let (acceptor, sender) = (acceptor.clone(), sender.clone());
            tokio::task::spawn_local(async move {
                // A client that leaves in its handshake is none.
                let _ = tcp.set_nodelay(true);
                if let Ok(stream) = acceptor.accept(BufReader::with_capacity(READ, tcp)).await {
                    let _ = sender.send(TcpLine::new(stream.into()));
                }
            });
        }
    });
    Ok(Listener { address, shaken })
}

impl StackServer for Listener {
    type Connection = TcpLine;

    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn accept(&mut self) -> Option<TcpLine> {
        self.shaken.recv().await
    }
}

pub(crate) struct Caller {
    connector: TlsConnector,
    server: SocketAddr,
}

pub(crate) fn client(server: SocketAddr, trusted: Trusted) -> Result<Caller> {
    Ok(Caller { connector: TlsConnector::from(Arc::new(tls::client(trusted)?)), server })
}

impl StackClient for Caller {
    type Connection = TcpLine;

    async fn connect(&self) -> Result<TcpLine> {
        let tcp = TcpStream::connect(self.server).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::try_from(tls::NAME)?;
        let stream = self.connector.connect(name, BufReader::with_capacity(READ, tcp)).await?;
        Ok(TcpLine::new(stream.into()))
    }
}

impl TcpLine {
    fn new(stream: BufferedTls) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }
}

impl PeerConnection for TcpLine {
    type Answer = Upstream;
    type Download = Downstream;

    async fn request(&mut self, bytes: u64) -> Result<Downstream> {
        let mut stream = self.0.clone().lock_owned().await;
        stream.write_all(&bytes.to_be_bytes()).await?;
        stream.flush().await?;
        Ok(Downstream { stream, left: bytes, buffer: vec![0; 64 << 10] })
    }

    async fn requested(&mut self) -> Option<(u64, Upstream)> {
        let mut stream = self.0.clone().lock_owned().await;
        let bytes = stream.read_u64().await.ok()?;
        Some((bytes, Upstream(stream)))
    }

    fn close(self) {}
}

pub(crate) struct Upstream(OwnedMutexGuard<BufferedTls>);

impl StackAnswer for Upstream {
    async fn send(&mut self, piece: Bytes) -> Result<()> {
        self.0.write_all(&piece).await?;
        Ok(())
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.0.flush().await?)
    }
}

pub(crate) struct Downstream {
    stream: OwnedMutexGuard<BufferedTls>,
    left: u64,
    buffer: Vec<u8>,
}

impl StackDownload for Downstream {
    async fn receive(&mut self, sum: &mut PatternSum) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let n = self.stream.read(&mut self.buffer).await?;
        sum.add(&self.buffer[..n]);
        self.left = self.left.checked_sub(n as u64).context("more came than was asked for")?;
        anyhow::ensure!(n > 0, "the connection ended early");
        Ok(true)
    }
}
