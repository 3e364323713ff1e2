//! quinn: by its own choices, or set up to be as fast as it can be here, with fixed datagrams without MTU
//! discovery, and the socket buffers that quickset asks for.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig, TokioRuntime,
    TransportConfig, ZeroRttAccepted,
};

use crate::{
    CHUNKS, FIXED_MTU, FIXED_WINDOW, MAX_QUESTION, NAME, PeerConnection, StackAnswer, StackClient,
    StackCounter, StackCounts, StackDownload, StackIdentity, StackServer, StackSetup, StackUpload,
    setup::DATAGRAM_BYTES, tls,
};

pub struct Listener {
    endpoint: Endpoint,
    address: SocketAddr,
    retry: bool,
}

pub fn serve(listen: SocketAddr, identity: &StackIdentity, setup: &StackSetup) -> Result<Listener> {
    let endpoint = bind(listen, setup, Some(server_config(identity, setup)?))?;
    Ok(Listener { address: endpoint.local_addr()?, endpoint, retry: setup.retry })
}

impl Listener {
    /// The next connection, and what is ready when its handshake is through.
    pub(crate) async fn accept_early(&mut self) -> Option<(Connection, ZeroRttAccepted)> {
        loop {
            let incoming = self.endpoint.accept().await?;
            if self.retry && !incoming.remote_address_validated() {
                let _ = incoming.retry();
                continue;
            }
            // Without waiting for the handshake: it would hold up those that come after, and streams of the
            // client may come before it is complete.
            let connecting = incoming.accept();
            if let Some(Ok(accepted)) = connecting.ok().map(quinn::Connecting::into_0rtt) {
                return Some(accepted);
            }
        }
    }
}

impl StackServer for Listener {
    type Connection = Connection;

    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn accept(&mut self) -> Option<Connection> {
        Some(self.accept_early().await?.0)
    }
}

pub struct Caller {
    endpoint: Endpoint,
    config: ClientConfig,
    server: SocketAddr,
}

pub fn client(server: SocketAddr, trusted: &StackIdentity, setup: &StackSetup) -> Result<Caller> {
    let endpoint = bind((server.ip(), 0).into(), setup, None)?;
    Ok(Caller { endpoint, config: client_config(trusted, setup)?, server })
}

impl StackClient for Caller {
    type Connection = Connection;

    async fn connect(&self, early: bool) -> Result<Connection> {
        let connecting = self.endpoint.connect_with(self.config.clone(), self.server, NAME)?;
        if early {
            return Ok(connecting.into_0rtt().ok().context("there is no ticket for early data")?.0);
        }
        Ok(connecting.await?)
    }

    async fn migrate(&self, _connection: &Connection) -> Result<()> {
        tokio::time::sleep(SETTLED).await;
        Ok(self.endpoint.rebind(std::net::UdpSocket::bind((self.server.ip(), 0))?)?)
    }

    async fn leave(self) {
        // It waits seconds for an answer to a farewell; only that it leaves is wanted.
        let _ = tokio::time::timeout(Duration::from_millis(50), self.endpoint.wait_idle()).await;
    }
}

impl PeerConnection for Connection {
    type Answer = (SendStream, RecvStream);
    type Download = RecvStream;
    type Upload = SendStream;

    async fn request(&mut self, question: &[u8]) -> Result<RecvStream> {
        let (mut send, receive) = self.open_bi().await?;
        send.write_all(question).await?;
        send.finish()?;
        Ok(receive)
    }

    async fn requested(&mut self) -> Result<(SendStream, RecvStream)> {
        Ok(self.accept_bi().await?)
    }

    async fn open_upload(&mut self) -> Result<SendStream> {
        Ok(self.open_uni().await?)
    }

    async fn accept_upload(&mut self) -> Result<RecvStream> {
        Ok(self.accept_uni().await?)
    }

    async fn send_datagrams(&mut self, data: &mut VecDeque<Bytes>) -> Result<()> {
        while let Some(datagram) = data.pop_front() {
            self.send_datagram_wait(datagram).await?;
        }
        Ok(())
    }

    async fn receive_datagrams(&mut self, take: &mut impl FnMut(&[u8])) -> Result<()> {
        take(&self.read_datagram().await?);
        Ok(())
    }

    fn counter(&self) -> Option<StackCounter> {
        let connection = self.clone();
        Some(Box::new(move || {
            let path = connection.stats().path;
            Some(StackCounts {
                sent_packets: path.sent_packets,
                lost_packets: path.lost_packets,
                ..StackCounts::default()
            })
        }))
    }

    async fn update_keys(&self) -> Result<()> {
        tokio::time::sleep(SETTLED).await;
        self.force_key_update();
        Ok(())
    }

    fn close(self) {
        Connection::close(&self, 0_u32.into(), b"");
    }
}

impl StackUpload for SendStream {
    async fn send(&mut self, piece: Bytes) -> Result<()> {
        Ok(self.write_chunk(piece).await?)
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.finish()?)
    }
}

impl StackAnswer for (SendStream, RecvStream) {
    async fn question(&mut self) -> Result<Vec<u8>> {
        Ok(self.1.read_to_end(MAX_QUESTION).await?)
    }

    async fn send(&mut self, piece: Bytes) -> Result<()> {
        Ok(self.0.write_chunk(piece).await?)
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.0.finish()?)
    }
}

impl StackDownload for RecvStream {
    async fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> Result<bool> {
        let mut chunks: [Bytes; CHUNKS] = Default::default();
        let Some(n) = self.read_chunks(&mut chunks).await? else { return Ok(false) };
        chunks[..n].iter().for_each(|chunk| take(chunk));
        Ok(true)
    }
}

pub fn server_config(identity: &StackIdentity, setup: &StackSetup) -> Result<ServerConfig> {
    let crypto = QuicServerConfig::with_initial(identity.server(setup)?, tls::initial_suite()?)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport(setup)?);
    Ok(config)
}

pub fn client_config(trusted: &StackIdentity, setup: &StackSetup) -> Result<ClientConfig> {
    let crypto = QuicClientConfig::with_initial(trusted.client(setup)?, tls::initial_suite()?)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport(setup)?);
    Ok(config)
}

fn bind(address: SocketAddr, setup: &StackSetup, server: Option<ServerConfig>) -> Result<Endpoint> {
    let (config, socket) = (EndpointConfig::default(), setup.socket(address)?);
    Ok(Endpoint::new(config, server, socket, Arc::new(TokioRuntime))?)
}

fn transport(setup: &StackSetup) -> Result<Arc<TransportConfig>> {
    let mut config = TransportConfig::default();
    config.max_idle_timeout(Some(setup.idle.try_into()?));
    if setup.is_fixed() {
        config
            .initial_mtu(FIXED_MTU)
            .min_mtu(FIXED_MTU)
            .mtu_discovery_config(None)
            .stream_receive_window(FIXED_WINDOW.into())
            .receive_window(FIXED_WINDOW.into())
            .send_window(FIXED_WINDOW.into())
            .datagram_receive_buffer_size(Some(DATAGRAM_BYTES))
            .datagram_send_buffer_size(DATAGRAM_BYTES);
    }
    if let Some(streams) = setup.streams {
        config.max_concurrent_bidi_streams(streams.into()).max_concurrent_uni_streams(streams.into());
    }
    Ok(Arc::new(config))
}

/// After so long the handshake is confirmed, of which this stack does not tell.
pub(crate) const SETTLED: Duration = Duration::from_millis(300);
