//! quinn, set up to be as fast as it can be here.
//!
//! Fixed datagrams without MTU discovery, the socket buffers that quickset asks for, and otherwise quinn's
//! own choices: segmentation offload both ways, CUBIC.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig, TokioRuntime,
    TransportConfig,
};

use super::{
    CHUNKS, MTU, PeerConnection, SOCKET_BUFFER, StackAnswer, StackClient, StackDownload, StackServer, WINDOW,
};
use crate::pattern::PatternSum;
use crate::tls::{self, PeersIdentity, Trusted};

pub(crate) struct Listener {
    endpoint: Endpoint,
    address: SocketAddr,
}

pub(crate) fn serve(listen: SocketAddr, identity: PeersIdentity) -> Result<Listener> {
    Listener::new(listen, identity.server()?)
}

impl Listener {
    pub(super) fn new(listen: SocketAddr, tls: rustls::ServerConfig) -> Result<Self> {
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
        config.transport_config(transport());
        let endpoint = bind(listen, Some(config))?;
        Ok(Self { address: endpoint.local_addr()?, endpoint })
    }
}

impl StackServer for Listener {
    type Connection = quinn::Connection;

    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn accept(&mut self) -> Option<quinn::Connection> {
        // Without waiting for the handshake: it would hold up those that come after.
        loop {
            let connecting = self.endpoint.accept().await?.accept();
            if let Some(Ok((connection, _))) = connecting.ok().map(quinn::Connecting::into_0rtt) {
                return Some(connection);
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
    Caller::new(server, tls::client(trusted)?)
}

impl Caller {
    pub(super) fn new(server: SocketAddr, tls: rustls::ClientConfig) -> Result<Self> {
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        config.transport_config(transport());
        Ok(Self { endpoint: bind((server.ip(), 0).into(), None)?, config, server })
    }
}

impl StackClient for Caller {
    type Connection = quinn::Connection;

    async fn connect(&self) -> Result<quinn::Connection> {
        Ok(self.endpoint.connect_with(self.config.clone(), self.server, tls::NAME)?.await?)
    }
}

impl PeerConnection for quinn::Connection {
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
        quinn::Connection::close(&self, 0_u32.into(), b"");
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
        let Some(n) = self.read_chunks(&mut chunks).await? else { return Ok(false) };
        chunks[..n].iter().for_each(|chunk| sum.add(chunk));
        Ok(true)
    }
}

fn bind(address: SocketAddr, server: Option<ServerConfig>) -> Result<Endpoint> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::DGRAM,
        Some(socket2::Protocol::UDP),
    )?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.bind(&address.into())?;
    Ok(Endpoint::new(EndpointConfig::default(), server, socket.into(), Arc::new(TokioRuntime))?)
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .initial_mtu(MTU)
        .min_mtu(MTU)
        .mtu_discovery_config(None)
        .stream_receive_window(WINDOW.into())
        .receive_window(WINDOW.into())
        .send_window(WINDOW.into());
    Arc::new(config)
}
