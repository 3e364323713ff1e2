//! HTTP/3 by Quickset, with the same settings below it as Quickset without.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use bytes::Bytes;
use quickset::h3::{self, Content, ContentSender, Reply, Request, Response};
use quickset::{ClientConfig, Endpoint, ServerConfig, SocketConfig};

use super::{
    PeerConnection, SOCKET_BUFFER, StackAnswer, StackClient, StackDownload, StackServer, bytes_of, path_of,
};
use crate::pattern::PatternSum;
use crate::tls::{self, PeersIdentity, Trusted};

pub(crate) struct Listener(Endpoint);

pub(crate) fn serve(listen: SocketAddr, identity: PeersIdentity) -> Result<Listener> {
    let mut tls = identity.server()?;
    tls.alpn_protocols = vec![h3::ALPN.into()];
    let config = ServerConfig::from_rustls(tls)?.with_transport(super::quickset::settings());
    Ok(Listener(Endpoint::bind(listen, &socket(), Some(&config))?))
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
}

pub(crate) struct Caller {
    endpoint: Endpoint,
    config: ClientConfig,
    server: SocketAddr,
}

pub(crate) fn client(server: SocketAddr, trusted: Trusted) -> Result<Caller> {
    let mut tls = tls::client(trusted)?;
    tls.alpn_protocols = vec![h3::ALPN.into()];
    let config = ClientConfig::from_rustls(tls)?.with_transport(super::quickset::settings());
    Ok(Caller { endpoint: Endpoint::bind((server.ip(), 0).into(), &socket(), None)?, config, server })
}

impl StackClient for Caller {
    type Connection = Visit;

    async fn connect(&self) -> Result<Visit> {
        let connection = self.endpoint.connect(self.server, tls::NAME, &self.config).await?;
        Ok(Visit::Client(h3::Client::new(&connection, h3::Config::default())?))
    }
}

/// A connection, from either side.
pub(crate) enum Visit {
    Server(h3::Server),
    Client(h3::Client),
}

impl PeerConnection for Visit {
    type Answer = Upstream;
    type Download = Downstream;

    async fn request(&mut self, bytes: u64) -> Result<Downstream> {
        let Self::Client(client) = self else { anyhow::bail!("servers make no requests") };
        let answer = client.ask(&Request::new("GET", tls::NAME, path_of(bytes))).await?;
        Ok(Downstream::Asked(answer))
    }

    async fn requested(&mut self) -> Option<(u64, Upstream)> {
        let Self::Server(server) = self else { return None };
        loop {
            let call = server.accept().await?;
            let path = call.request.path.as_deref().and_then(|path| std::str::from_utf8(path).ok());
            if let Some(bytes) = path.and_then(bytes_of) {
                return Some((bytes, Upstream { reply: Some(call.reply), sender: None, bytes }));
            }
        }
    }

    fn close(self) {
        if let Self::Client(client) = self {
            client.connection().close(h3::ErrorCode::H3_NO_ERROR.0, b"");
        }
    }
}

pub(crate) struct Upstream {
    /// Until the head has gone.
    reply: Option<Reply>,
    sender: Option<ContentSender>,
    bytes: u64,
}

impl StackAnswer for Upstream {
    async fn send(&mut self, piece: Bytes) -> Result<()> {
        if let Some(reply) = self.reply.take() {
            let head = Response::new(200).with("content-length", self.bytes.to_string());
            self.sender = Some(reply.respond(&head)?);
        }
        if let Some(sender) = &mut self.sender {
            sender.send(piece).await?;
        }
        Ok(())
    }

    async fn end(self) -> Result<()> {
        if let Some(sender) = self.sender {
            sender.finish()?;
        }
        Ok(())
    }
}

pub(crate) enum Downstream {
    Asked(h3::Answer),
    Begun(Content),
    Over,
}

impl StackDownload for Downstream {
    async fn receive(&mut self, sum: &mut PatternSum) -> Result<bool> {
        if let Self::Asked(_) = self {
            let Self::Asked(answer) = std::mem::replace(self, Self::Over) else { return Ok(false) };
            let (response, content) = answer.response().await?;
            ensure!(response.status == 200, "the answer is {}", response.status);
            *self = Self::Begun(content);
        }
        let Self::Begun(content) = self else { return Ok(false) };
        let chunk = content.next().await?;
        if let Some(chunk) = &chunk {
            sum.add(chunk);
        }
        Ok(chunk.is_some())
    }
}

fn socket() -> SocketConfig {
    SocketConfig { buffer: SOCKET_BUFFER, ..SocketConfig::default() }
}
