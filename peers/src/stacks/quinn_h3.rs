//! HTTP/3 by the crates h3 and h3-quinn on quinn, which is set up as it is without.

use std::future::poll_fn;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use bytes::{Buf as _, Bytes};
use h3::client::SendRequest;
use tokio::task::spawn_local;

use super::quinn::{Caller as QuicCaller, Listener as QuicListener};
use super::{PeerConnection, StackAnswer, StackClient, StackDownload, StackServer, bytes_of, path_of};
use crate::pattern::PatternSum;
use crate::tls::{self, PeersIdentity, Trusted};

type Serving = h3::server::Connection<h3_quinn::Connection, Bytes>;

pub(crate) struct Listener(QuicListener);

pub(crate) fn serve(listen: SocketAddr, identity: PeersIdentity) -> Result<Listener> {
    let mut tls = identity.server()?;
    tls.alpn_protocols = vec![ALPN.into()];
    Ok(Listener(QuicListener::new(listen, tls)?))
}

impl StackServer for Listener {
    type Connection = Visit;

    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    async fn accept(&mut self) -> Option<Visit> {
        Some(Visit::New(Some(self.0.accept().await?)))
    }
}

pub(crate) struct Caller(QuicCaller);

pub(crate) fn client(server: SocketAddr, trusted: Trusted) -> Result<Caller> {
    let mut tls = tls::client(trusted)?;
    tls.alpn_protocols = vec![ALPN.into()];
    Ok(Caller(QuicCaller::new(server, tls)?))
}

impl StackClient for Caller {
    type Connection = Visit;

    async fn connect(&self) -> Result<Visit> {
        let connection = self.0.connect().await?;
        let (mut driver, asks) = h3::client::new(h3_quinn::Connection::new(connection.clone())).await?;
        spawn_local(async move { poll_fn(|cx| driver.poll_close(cx)).await });
        Ok(Visit::Client { connection, asks })
    }
}

/// A connection, from either side.
pub(crate) enum Visit {
    /// Of a server, before the first request: what it takes to begin waits for the handshake, and others come
    /// meanwhile.
    New(Option<quinn::Connection>),
    Server(Box<Serving>),
    Client {
        connection: quinn::Connection,
        asks: SendRequest<h3_quinn::OpenStreams, Bytes>,
    },
}

impl PeerConnection for Visit {
    type Answer = Upstream;
    type Download = Downstream;

    async fn request(&mut self, bytes: u64) -> Result<Downstream> {
        let Self::Client { asks, .. } = self else { anyhow::bail!("servers make no requests") };
        let uri = format!("https://{}{}", tls::NAME, path_of(bytes));
        let mut stream = asks.send_request(http::Request::get(uri).body(())?).await?;
        stream.finish().await?;
        Ok(Downstream { stream, is_begun: false })
    }

    async fn requested(&mut self) -> Option<(u64, Upstream)> {
        if let Self::New(connection) = self {
            let connection = h3_quinn::Connection::new(connection.take()?);
            *self = Self::Server(Box::new(h3::server::Connection::new(connection).await.ok()?));
        }
        let Self::Server(server) = self else { return None };
        loop {
            let (request, stream) = server.accept().await.ok()??.resolve_request().await.ok()?;
            if let Some(bytes) = bytes_of(request.uri().path()) {
                return Some((bytes, Upstream { stream, bytes, is_begun: false }));
            }
        }
    }

    fn close(self) {
        if let Self::Client { connection, .. } = self {
            quinn::Connection::close(&connection, NO_ERROR.into(), b"");
        }
    }
}

pub(crate) struct Upstream {
    stream: h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
    bytes: u64,
    is_begun: bool,
}

impl StackAnswer for Upstream {
    async fn send(&mut self, piece: Bytes) -> Result<()> {
        if !std::mem::replace(&mut self.is_begun, true) {
            let head = http::Response::builder().header("content-length", self.bytes).body(())?;
            self.stream.send_response(head).await?;
        }
        Ok(self.stream.send_data(piece).await?)
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.stream.finish().await?)
    }
}

pub(crate) struct Downstream {
    stream: h3::client::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
    is_begun: bool,
}

impl StackDownload for Downstream {
    async fn receive(&mut self, sum: &mut PatternSum) -> Result<bool> {
        if !std::mem::replace(&mut self.is_begun, true) {
            let head = self.stream.recv_response().await?;
            ensure!(head.status() == 200, "the answer is {}", head.status());
        }
        let Some(mut data) = self.stream.recv_data().await? else { return Ok(false) };
        while data.has_remaining() {
            let n = data.chunk().len();
            sum.add(data.chunk());
            data.advance(n);
        }
        Ok(true)
    }
}

const ALPN: &str = "h3";

/// H3_NO_ERROR.
const NO_ERROR: u32 = 0x100;
