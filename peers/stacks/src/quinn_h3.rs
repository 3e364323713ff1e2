//! HTTP/3 by the crates h3 and h3-quinn on quinn, which is set up as it is without.

use std::future::poll_fn;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, Bytes};
use h3::client::SendRequest;
use h3::server::RequestResolver;
use quinn::ZeroRttAccepted;
use tokio::task::spawn_local;

use crate::quinn::{Caller as QuicCaller, Listener as QuicListener};
use crate::{
    AnswerHead, H3_NO_ERROR, NAME, NoUpload, PeerConnection, StackAnswer, StackClient, StackDownload,
    StackIdentity, StackServer, StackSetup,
};

type Serving = h3::server::Connection<h3_quinn::Connection, Bytes>;

pub struct Listener(QuicListener);

pub fn serve(listen: SocketAddr, identity: &StackIdentity, setup: &StackSetup) -> Result<Listener> {
    Ok(Listener(crate::quinn::serve(listen, identity, setup)?))
}

impl StackServer for Listener {
    type Connection = Visit;

    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    async fn accept(&mut self) -> Option<Visit> {
        Some(Visit::New(Some(self.0.accept_early().await?)))
    }
}

pub struct Caller(QuicCaller);

pub fn client(server: SocketAddr, trusted: &StackIdentity, setup: &StackSetup) -> Result<Caller> {
    Ok(Caller(crate::quinn::client(server, trusted, setup)?))
}

impl StackClient for Caller {
    type Connection = Visit;

    async fn connect(&self, early: bool) -> Result<Visit> {
        let connection = self.0.connect(early).await?;
        let (mut driver, asks) = h3::client::new(h3_quinn::Connection::new(connection.clone())).await?;
        spawn_local(async move { poll_fn(|cx| driver.poll_close(cx)).await });
        Ok(Visit::Client { connection, asks })
    }

    async fn leave(self) {
        self.0.leave().await;
    }
}

/// A connection, from either side.
pub enum Visit {
    /// Of a server, before the first request: what it takes to begin waits for the handshake, and others come
    /// meanwhile.
    New(Option<(quinn::Connection, ZeroRttAccepted)>),
    Server(Box<Serving>),
    Client {
        connection: quinn::Connection,
        asks: SendRequest<h3_quinn::OpenStreams, Bytes>,
    },
}

impl PeerConnection for Visit {
    type Answer = Upstream;
    type Download = Downstream;
    type Upload = NoUpload;

    async fn request(&mut self, question: &[u8]) -> Result<Downstream> {
        let Self::Client { asks, .. } = self else { bail!("servers make no requests") };
        let uri = format!("https://{NAME}{}", std::str::from_utf8(question)?);
        let mut stream = asks.send_request(http::Request::get(uri).body(())?).await?;
        stream.finish().await?;
        Ok(Downstream { stream, is_begun: false })
    }

    async fn requested(&mut self) -> Result<Upstream> {
        if let Self::New(accepted) = self {
            let (connection, handshake) = accepted.take().context("it did not begin")?;
            // What h3 opens before that may never hear that it was opened.
            handshake.await;
            let connection = h3_quinn::Connection::new(connection);
            *self = Self::Server(Box::new(h3::server::Connection::new(connection).await?));
        }
        let Self::Server(server) = self else { bail!("clients get no requests") };
        let resolver = server.accept().await?.context("there are no more requests")?;
        Ok(Upstream::Called(Some(resolver)))
    }

    fn close(self) {
        if let Self::Client { connection, .. } = self {
            quinn::Connection::close(&connection, H3_NO_ERROR.into(), b"");
        }
    }
}

pub enum Upstream {
    /// Its head is still to be read.
    Called(Option<RequestResolver<h3_quinn::Connection, Bytes>>),
    Asked(h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>),
}

impl Upstream {
    fn stream(&mut self) -> Result<&mut h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>> {
        match self {
            Self::Called(_) => bail!("nobody read the question"),
            Self::Asked(stream) => Ok(stream),
        }
    }
}

impl StackAnswer for Upstream {
    async fn question(&mut self) -> Result<Vec<u8>> {
        let Self::Called(resolver) = self else { bail!("it was read") };
        let (request, stream) = resolver.take().context("it was read")?.resolve_request().await?;
        *self = Self::Asked(stream);
        Ok(request.uri().path().into())
    }

    async fn drain(&mut self) -> Result<()> {
        while self.stream()?.recv_data().await?.is_some() {}
        Ok(())
    }

    async fn begin(&mut self, head: &AnswerHead) -> Result<()> {
        let response = http::Response::builder().status(head.status).header("content-length", head.length);
        Ok(self.stream()?.send_response(response.body(())?).await?)
    }

    async fn send(&mut self, piece: Bytes) -> Result<()> {
        Ok(self.stream()?.send_data(piece).await?)
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.stream()?.finish().await?)
    }
}

pub struct Downstream {
    stream: h3::client::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
    is_begun: bool,
}

impl StackDownload for Downstream {
    async fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> Result<bool> {
        if !std::mem::replace(&mut self.is_begun, true) {
            let head = self.stream.recv_response().await?;
            ensure!(head.status() == 200, "the answer is {}", head.status());
        }
        let Some(mut data) = self.stream.recv_data().await? else { return Ok(false) };
        while data.has_remaining() {
            let n = data.chunk().len();
            take(data.chunk());
            data.advance(n);
        }
        Ok(true)
    }
}
