//! HTTP/3 by Quickset, with the same settings below it as Quickset without.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use quickset::h3::{self, Content, ContentSender, Reply, Request, Response};
use quickset::quic::RetryPolicy;
use quickset::{ClientConfig, Endpoint, ServerConfig};

use crate::quickset::{from, move_on, socket, transport, update_keys};
use crate::{
    AnswerHead, H3_NO_ERROR, NAME, NoUpload, PeerConnection, StackAnswer, StackClient, StackDownload,
    StackIdentity, StackServer, StackSetup,
};

pub struct Listener(Endpoint);

pub fn serve(listen: SocketAddr, identity: &StackIdentity, setup: &StackSetup) -> Result<Listener> {
    let config = ServerConfig::from_rustls(identity.server(setup)?)?.with_transport(transport(setup)?);
    let config = if setup.retry { config.with_retry(RetryPolicy::Always) } else { config };
    Ok(Listener(Endpoint::bind(listen, &socket(setup), Some(&config))?))
}

impl StackServer for Listener {
    type Connection = Visit;

    fn address(&self) -> SocketAddr {
        self.0.local_addr()
    }

    async fn accept(&mut self) -> Option<Visit> {
        loop {
            let connection = self.0.accept().await?;
            if let Ok(server) = h3::Server::new(&connection, h3::Config::default()) {
                return Some(Visit::Server(server));
            }
        }
    }

    async fn leave(self) {
        self.0.close(H3_NO_ERROR.into(), b"");
        let _ = tokio::time::timeout(Duration::from_secs(1), self.0.wait_idle()).await;
    }
}

pub struct Caller {
    endpoint: Endpoint,
    config: ClientConfig,
    server: SocketAddr,
}

pub fn client(server: SocketAddr, trusted: &StackIdentity, setup: &StackSetup) -> Result<Caller> {
    let config = ClientConfig::from_rustls(trusted.client(setup)?)?.with_transport(transport(setup)?);
    let endpoint = Endpoint::bind(from(server, setup), &socket(setup), None)?;
    Ok(Caller { endpoint, config, server })
}

impl StackClient for Caller {
    type Connection = Visit;

    async fn connect(&self, early: bool) -> Result<Visit> {
        let connecting = self.endpoint.connect(self.server, NAME, &self.config);
        let connection = if early {
            connecting.into_early().ok().context("there is no ticket for early data")?
        } else {
            connecting.await?
        };
        Ok(Visit::Client(h3::Client::new(&connection, h3::Config::default())?))
    }

    async fn migrate(&self, visit: &Visit) -> Result<()> {
        move_on(visit.connection()).await;
        Ok(())
    }

    async fn leave(self) {
        let _ = tokio::time::timeout(Duration::from_secs(2), self.endpoint.wait_idle()).await;
    }
}

/// A connection, from either side.
pub enum Visit {
    Server(h3::Server),
    Client(h3::Client),
}

impl Visit {
    fn connection(&self) -> &quickset::Connection {
        match self {
            Self::Server(server) => server.connection(),
            Self::Client(client) => client.connection(),
        }
    }
}

impl PeerConnection for Visit {
    type Answer = Upstream;
    type Download = Downstream;
    type Upload = NoUpload;

    async fn request(&mut self, question: &[u8]) -> Result<Downstream> {
        let Self::Client(client) = self else { anyhow::bail!("servers make no requests") };
        let answer = client.ask(&Request::new("GET", NAME, question.to_vec())).await?;
        Ok(Downstream::Asked(answer))
    }

    async fn requested(&mut self) -> Result<Upstream> {
        let Self::Server(server) = self else { anyhow::bail!("clients get no requests") };
        let call = server.accept().await.context("there are no more requests")?;
        let path = call.request.path.context("a request without a path")?.to_vec();
        Ok(Upstream { path, reply: Some(call.reply), sender: None })
    }

    async fn update_keys(&self) -> Result<()> {
        update_keys(self.connection()).await;
        Ok(())
    }

    fn key_updates(&self) -> Option<u64> {
        Some(self.connection().stats().key_updates)
    }

    fn close(self) {
        self.connection().close(H3_NO_ERROR.into(), b"");
    }
}

pub struct Upstream {
    path: Vec<u8>,
    /// Until the head has gone.
    reply: Option<Reply>,
    sender: Option<ContentSender>,
}

impl StackAnswer for Upstream {
    async fn question(&mut self) -> Result<Vec<u8>> {
        Ok(std::mem::take(&mut self.path))
    }

    async fn begin(&mut self, head: &AnswerHead) -> Result<()> {
        let reply = self.reply.take().context("there is a head already")?;
        self.sender = Some(reply.respond(&response(head))?);
        Ok(())
    }

    async fn send(&mut self, piece: Bytes) -> Result<()> {
        Ok(self.sender.as_mut().context("there is no head yet")?.send(piece).await?)
    }

    async fn end(self) -> Result<()> {
        Ok(self.sender.context("there is no head yet")?.finish()?)
    }

    async fn whole(mut self, head: &AnswerHead, content: Bytes) -> Result<()> {
        let reply = self.reply.take().context("there is a head already")?;
        Ok(reply.answer(&response(head), content).await?)
    }
}

fn response(head: &AnswerHead) -> Response {
    let response = Response::new(head.status).with("content-length", head.length.to_string());
    match head.kind {
        Some(kind) => response.with("content-type", kind),
        None => response,
    }
}

pub enum Downstream {
    Asked(h3::Answer),
    Begun(Content),
    Over,
}

impl StackDownload for Downstream {
    async fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> Result<bool> {
        if let Self::Asked(_) = self {
            let Self::Asked(answer) = std::mem::replace(self, Self::Over) else { return Ok(false) };
            let (response, content) = answer.response().await?;
            ensure!(response.status == 200, "the answer is {}", response.status);
            *self = Self::Begun(content);
        }
        let Self::Begun(content) = self else { return Ok(false) };
        let chunk = content.next().await?;
        if let Some(chunk) = &chunk {
            take(chunk);
        }
        Ok(chunk.is_some())
    }
}
