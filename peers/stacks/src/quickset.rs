//! Quickset, by the doors that every application has.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use quickset_net::{Connection, Endpoint, RecvStream, SendStream, SocketConfig};
use quickset_quic::{
    ClientConfig, EarlyData, EndpointConfig, RetryPolicy, ServerConfig, TransportConfig, Version,
};
use quickset_tls::{EndpointSecrets, TicketMemory};

use crate::setup::SOCKET_BUFFER;
use crate::{
    CHUNKS, FIXED_MTU, FIXED_WINDOW, MAX_QUESTION, NAME, PeerConnection, StackAnswer, StackClient,
    StackDownload, StackIdentity, StackServer, StackSetup, StackTickets,
};

pub struct Listener(Endpoint);

pub fn serve(listen: SocketAddr, identity: &StackIdentity, setup: &StackSetup) -> Result<Listener> {
    let config = server_config(identity, setup)?;
    Ok(Listener(Endpoint::bind(listen, &socket(setup), endpoint_config(), Some(config))?))
}

impl StackServer for Listener {
    type Connection = Connection;

    fn address(&self) -> SocketAddr {
        self.0.local_addr()
    }

    async fn accept(&mut self) -> Option<Connection> {
        self.0.accept().await
    }

    async fn leave(self) {
        self.0.close(0, b"");
        // Those whose clients are gone take three probe timeouts.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.0.wait_idle()).await;
    }
}

pub struct Caller {
    endpoint: Endpoint,
    config: ClientConfig,
    server: SocketAddr,
}

pub fn client(server: SocketAddr, trusted: &StackIdentity, setup: &StackSetup) -> Result<Caller> {
    let endpoint = Endpoint::bind(from(server, setup), &socket(setup), endpoint_config(), None)?;
    Ok(Caller { endpoint, config: client_config(trusted, setup)?, server })
}

impl StackClient for Caller {
    type Connection = Connection;

    async fn connect(&self, early: bool) -> Result<Connection> {
        let connecting = self.endpoint.connect(self.server, NAME, &self.config);
        if early {
            return connecting.into_early().ok().context("there is no ticket for early data");
        }
        Ok(connecting.await?)
    }

    async fn migrate(&self, connection: &Connection) -> Result<()> {
        move_on(connection).await;
        Ok(())
    }

    async fn leave(self) {
        let _ = tokio::time::timeout(Duration::from_secs(2), self.endpoint.wait_idle()).await;
    }
}

impl PeerConnection for Connection {
    type Answer = (SendStream, RecvStream);
    type Download = RecvStream;

    async fn request(&mut self, question: &[u8]) -> Result<RecvStream> {
        let (mut send, receive) = self.open_bi().await?;
        send.write_all(question).await?;
        send.finish()?;
        Ok(receive)
    }

    async fn requested(&mut self) -> Result<(SendStream, RecvStream)> {
        Ok(self.accept_bi().await?)
    }

    async fn update_keys(&self) -> Result<()> {
        until(|| Connection::update_keys(self)).await;
        Ok(())
    }

    fn key_updates(&self) -> Option<u64> {
        Some(self.stats().key_updates)
    }

    fn close(self) {
        Connection::close(&self, 0, b"");
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
        let n = self.read_chunks(&mut chunks).await?;
        chunks[..n].iter().for_each(|chunk| take(chunk));
        Ok(n > 0)
    }
}

pub fn server_config(identity: &StackIdentity, setup: &StackSetup) -> Result<ServerConfig> {
    Ok(ServerConfig {
        crypto: Arc::new(quickset_tls::Server::new(identity.server(setup)?)?),
        transport: Arc::new(transport(setup)?),
        max_connections: 10_000,
        retry: if setup.retry { RetryPolicy::Always } else { RetryPolicy::Never },
        retry_token_lifetime: Duration::from_secs(15),
        gate: None,
        token_lifetime: Duration::from_secs(600),
    })
}

pub fn client_config(trusted: &StackIdentity, setup: &StackSetup) -> Result<ClientConfig> {
    let crypto = quickset_tls::Client::new(trusted.client(setup)?)?;
    let crypto = match setup.tickets {
        StackTickets::None => crypto,
        StackTickets::Kept | StackTickets::Early => {
            crypto.with_tickets(Arc::new(TicketMemory::default()), b"")
        }
    };
    Ok(ClientConfig { crypto: Arc::new(crypto), transport: Arc::new(transport(setup)?) })
}

/// Reset tokens and tokens are made with the same keys by all endpoints, as by the processes that follow one
/// another on a server.
pub fn endpoint_config() -> EndpointConfig {
    EndpointConfig {
        crypto: Arc::new(EndpointSecrets::new(b"what a server keeps to itself...")),
        connection_id_len: 8,
        resets_per_second: 100,
    }
}

pub(crate) fn socket(setup: &StackSetup) -> SocketConfig {
    let own = SocketConfig::default();
    if setup.is_fixed() { SocketConfig { buffer: SOCKET_BUFFER, ..own } } else { own }
}

/// Where a client begins.
pub(crate) fn from(server: SocketAddr, setup: &StackSetup) -> SocketAddr {
    (if setup.roams { Ipv4Addr::UNSPECIFIED.into() } else { server.ip() }, 0).into()
}

/// Goes to another address of the machine.
pub(crate) async fn move_on(connection: &Connection) {
    until(|| connection.migrate(Some(Ipv4Addr::new(127, 0, 0, 2).into())).is_ok()).await;
}

/// Tries again until it may be.
async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) fn transport(setup: &StackSetup) -> Result<TransportConfig> {
    let config = if setup.is_fixed() {
        let window = u64::from(FIXED_WINDOW);
        TransportConfig::fixed_mtu(FIXED_MTU)
            .with_stream_window(window)
            .with_max_stream_window(window)
            .with_max_connection_window(window)
            .with_send_buffer(window)
    } else {
        // A handshake as long as others wait: by their first probe timeout of a second, one in a hundred takes
        // more than ten seconds while a third is lost.
        TransportConfig::fixed_mtu(1200).with_handshake_timeout(Duration::from_secs(30))
    };
    let config = config
        .with_idle_timeout(setup.idle)
        .with_early_data((setup.tickets == StackTickets::Early).then(EarlyData::default));
    let config = if setup.likes_2 {
        config.with_versions(vec![Version::V2, Version::V1]).with_first_version(Version::V1)
    } else {
        config
    };
    traced(config, setup)
}

#[cfg(feature = "qlog")]
fn traced(config: TransportConfig, setup: &StackSetup) -> Result<TransportConfig> {
    use quickset_net::{QlogDir, qlog::Sinks};

    let traces = setup.traces.as_ref().map(QlogDir::new).transpose()?;
    Ok(config.with_qlog(traces.map(|traces| Arc::new(traces) as Arc<dyn Sinks>)))
}

#[cfg(not(feature = "qlog"))]
fn traced(config: TransportConfig, setup: &StackSetup) -> Result<TransportConfig> {
    anyhow::ensure!(setup.traces.is_none(), "this program was built without traces");
    Ok(config)
}
