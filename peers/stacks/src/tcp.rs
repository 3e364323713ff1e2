//! TLS over TCP: rustls by tokio-rustls. No streams: one request at a time on a connection, for so many bytes
//! as its path says.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::{
    NAME, PeerConnection, StackAnswer, StackClient, StackDownload, StackIdentity, StackServer, StackSetup,
    StackUpload, bytes_of,
};

/// Bytes taken from the socket at a time: rustls by itself asks for 4 kB.
const READ: usize = 256 << 10;

type BufferedTls = TlsStream<BufReader<TcpStream>>;

/// A connection, locked by the request under way.
pub struct TcpLine {
    stream: Arc<Mutex<BufferedTls>>,
    is_upload: bool,
}

pub struct Listener {
    address: SocketAddr,
    shaken: mpsc::UnboundedReceiver<TcpLine>,
}

pub fn serve(listen: SocketAddr, identity: &StackIdentity, setup: &StackSetup) -> Result<Listener> {
    let acceptor = TlsAcceptor::from(identity.server(setup)?);
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

pub struct Caller {
    connector: TlsConnector,
    server: SocketAddr,
}

pub fn client(server: SocketAddr, trusted: &StackIdentity, setup: &StackSetup) -> Result<Caller> {
    Ok(Caller { connector: TlsConnector::from(trusted.client(setup)?), server })
}

impl StackClient for Caller {
    type Connection = TcpLine;

    async fn connect(&self, early: bool) -> Result<TcpLine> {
        ensure!(!early, "there is no early data");
        let tcp = TcpStream::connect(self.server).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::try_from(NAME)?;
        let stream = self.connector.connect(name, BufReader::with_capacity(READ, tcp)).await?;
        Ok(TcpLine::new(stream.into()))
    }
}

impl TcpLine {
    fn new(stream: BufferedTls) -> Self {
        Self { stream: Arc::new(Mutex::new(stream)), is_upload: false }
    }
}

impl PeerConnection for TcpLine {
    type Answer = Upstream;
    type Download = Downstream;
    type Upload = Intake;

    async fn request(&mut self, question: &[u8]) -> Result<Downstream> {
        let left = bytes_of(question).context("a path that does not say how many bytes")?;
        let mut stream = self.stream.clone().lock_owned().await;
        let len = u8::try_from(question.len())?;
        stream.write_all(&[&[len], question].concat()).await?;
        stream.flush().await?;
        Ok(Downstream { stream, left: Some(left), buffer: vec![0; 64 << 10] })
    }

    async fn requested(&mut self) -> Result<Upstream> {
        let mut stream = self.stream.clone().lock_owned().await;
        let mut question = vec![0; stream.read_u8().await?.into()];
        stream.read_exact(&mut question).await?;
        Ok(Upstream { question, stream })
    }

    /// The connection itself, which is for nothing else from now on.
    async fn open_upload(&mut self) -> Result<Intake> {
        Ok(Intake(self.stream.clone().lock_owned().await))
    }

    async fn accept_upload(&mut self) -> Result<Downstream> {
        ensure!(!std::mem::replace(&mut self.is_upload, true), "there are no more");
        let stream = self.stream.clone().lock_owned().await;
        Ok(Downstream { stream, left: None, buffer: vec![0; 64 << 10] })
    }

    /// Tickets, that is.
    async fn settle(&mut self) {
        let (mut stream, mut none) = (self.stream.lock().await, [0]);
        poll_fn(|cx| {
            // Nothing else was asked for.
            let _ = Pin::new(&mut *stream).poll_read(cx, &mut ReadBuf::new(&mut none));
            Poll::Ready(())
        })
        .await;
    }

    fn close(self) {}
}

pub struct Upstream {
    question: Vec<u8>,
    stream: OwnedMutexGuard<BufferedTls>,
}

impl StackAnswer for Upstream {
    async fn question(&mut self) -> Result<Vec<u8>> {
        Ok(std::mem::take(&mut self.question))
    }

    async fn send(&mut self, piece: Bytes) -> Result<()> {
        Ok(self.stream.write_all(&piece).await?)
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.stream.flush().await?)
    }
}

/// What a client sends.
pub struct Intake(OwnedMutexGuard<BufferedTls>);

impl StackUpload for Intake {
    async fn send(&mut self, piece: Bytes) -> Result<()> {
        Ok(self.0.write_all(&piece).await?)
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.0.shutdown().await?)
    }
}

pub struct Downstream {
    stream: OwnedMutexGuard<BufferedTls>,
    /// Bytes that are still to come; `None`: all that do.
    left: Option<u64>,
    buffer: Vec<u8>,
}

impl StackDownload for Downstream {
    async fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> Result<bool> {
        if self.left == Some(0) {
            return Ok(false);
        }
        let n = self.stream.read(&mut self.buffer).await?;
        take(&self.buffer[..n]);
        let Some(left) = &mut self.left else { return Ok(n > 0) };
        *left = left.checked_sub(n as u64).context("more came than was asked for")?;
        ensure!(n > 0, "the connection ended early");
        Ok(true)
    }
}
