//! Quickset, by the doors that every application has.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use quickset_base::Duration;
use quickset_net::{self as net, Endpoint, RecvStream, SendStream, SocketConfig};
use quickset_quic::{ClientConfig, EndpointConfig, RetryPolicy, ServerConfig, TransportConfig};
use quickset_tls::EndpointSecrets;

use super::{
    CHUNKS, MTU, PeerConnection, SOCKET_BUFFER, StackAnswer, StackClient, StackDownload, StackServer, WINDOW,
};
use crate::pattern::PatternSum;
use crate::tls::{self, PeersIdentity, Trusted};

pub(crate) struct Listener(Endpoint);

pub(crate) fn serve(listen: SocketAddr, identity: PeersIdentity) -> Result<Listener> {
    let config = ServerConfig {
        crypto: Arc::new(quickset_tls::Server::new(Arc::new(identity.server()?))?),
        transport: transport(),
        max_connections: 10_000,
        retry: RetryPolicy::Never,
        retry_token_lifetime: Duration::from_secs(15),
        gate: None,
        token_lifetime: Duration::from_secs(15),
    };
    Ok(Listener(bind(listen, Some(config))?))
}

impl StackServer for Listener {
    type Connection = net::Connection;

    fn address(&self) -> SocketAddr {
        self.0.local_addr()
    }

    async fn accept(&mut self) -> Option<net::Connection> {
        self.0.accept().await
    }
}

pub(crate) struct Caller {
    endpoint: Endpoint,
    config: ClientConfig,
    server: SocketAddr,
}

pub(crate) fn client(server: SocketAddr, trusted: Trusted) -> Result<Caller> {
    let crypto = Arc::new(quickset_tls::Client::new(Arc::new(tls::client(trusted)?))?);
    let endpoint = bind((server.ip(), 0).into(), None)?;
    Ok(Caller { endpoint, config: ClientConfig { crypto, transport: transport() }, server })
}

impl StackClient for Caller {
    type Connection = net::Connection;

    async fn connect(&self) -> Result<net::Connection> {
        Ok(self.endpoint.connect(self.server, tls::NAME, &self.config).await?)
    }
}

impl PeerConnection for net::Connection {
    type Answer = SendStream;
    type Download = RecvStream;

    async fn request(&mut self, bytes: u64) -> Result<RecvStream> {
        let (mut send, receive) = self.open_bi().await?;
        send.write_all(&bytes.to_be_bytes()).await?;
        send.finish()?;
        Ok(receive)
    }

    async fn requested(&mut self) -> Option<(u64, SendStream)> {
        let (send, mut receive) = self.accept_bi().await.ok()?;
        let request = receive.read_to_end(8).await.ok()?;
        Some((u64::from_be_bytes(request.try_into().ok()?), send))
    }

    fn close(self) {
        net::Connection::close(&self, 0, b"");
    }
}

impl StackAnswer for SendStream {
    async fn send(&mut self, piece: Bytes) -> Result<()> {
        Ok(self.write_chunk(piece).await?)
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.finish()?)
    }
}

impl StackDownload for RecvStream {
    async fn receive(&mut self, sum: &mut PatternSum) -> Result<bool> {
        let mut chunks: [Bytes; CHUNKS] = Default::default();
        let n = self.read_chunks(&mut chunks).await?;
        chunks[..n].iter().for_each(|chunk| sum.add(chunk));
        Ok(n > 0)
    }
}

fn bind(address: SocketAddr, server: Option<ServerConfig>) -> Result<Endpoint> {
    let socket = SocketConfig { buffer: SOCKET_BUFFER, ..SocketConfig::default() };
    let mut secret = [0; 32];
    rustls::crypto::aws_lc_rs::default_provider()
        .secure_random
        .fill(&mut secret)
        .map_err(|_| anyhow::anyhow!("the system has no entropy"))?;
    let config = EndpointConfig {
        crypto: Arc::new(EndpointSecrets::new(&secret)),
        connection_id_len: 8,
        resets_per_second: 10,
    };
    Ok(Endpoint::bind(address, &socket, config, server)?)
}

fn transport() -> Arc<TransportConfig> {
    Arc::new(settings())
}

pub(super) fn settings() -> TransportConfig {
    let window = u64::from(WINDOW);
    TransportConfig::fixed_mtu(MTU)
        .with_stream_window(window)
        .with_max_stream_window(window)
        .with_max_connection_window(window)
        .with_send_buffer(window)
}
