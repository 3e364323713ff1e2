//! Quickset, by the doors that every application has.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use quickset_net::{
    Connection, Endpoint, MessageReceiver, MessageSender, RecvStream, SendStream, SocketConfig,
};
use quickset_quic::{
    ClientConfig, DatagramConfig, EarlyData, EndpointConfig, RetryPolicy, ServerConfig, TransportConfig,
    Version,
};
use quickset_tls::{EndpointSecrets, SessionTicket, TicketKey, TicketMemory, TicketStore};

use crate::setup::{DATAGRAM_BYTES, DATAGRAMS, SOCKET_BUFFER};
use crate::{
    CHUNKS, FIXED_MTU, FIXED_WINDOW, MAX_QUESTION, NAME, PeerConnection, StackAnswer, StackClient,
    StackCounter, StackCounts, StackDownload, StackIdentity, StackServer, StackSetup, StackTickets,
    StackUpload,
};

pub struct Listener(Endpoint);

pub fn serve(listen: SocketAddr, identity: &StackIdentity, setup: &StackSetup) -> Result<Listener> {
    let config = server_config(identity, setup)?;
    Ok(Listener(Endpoint::bind(listen, &socket(setup), endpoint_config(), Some(config))?))
}

impl StackServer for Listener {
    type Connection = QuicksetLine;

    fn address(&self) -> SocketAddr {
        self.0.local_addr()
    }

    async fn accept(&mut self) -> Option<QuicksetLine> {
        Some(QuicksetLine::new(self.0.accept().await?))
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
    type Connection = QuicksetLine;

    async fn connect(&self, early: bool) -> Result<QuicksetLine> {
        let connecting = self.endpoint.connect(self.server, NAME, &self.config);
        if early {
            let begun = connecting.into_early().ok().context("there is no ticket for early data")?;
            return Ok(QuicksetLine::new(begun));
        }
        Ok(QuicksetLine::new(connecting.await?))
    }

    async fn migrate(&self, line: &QuicksetLine) -> Result<()> {
        move_on(&line.connection).await;
        Ok(())
    }

    async fn leave(self) {
        let _ = tokio::time::timeout(Duration::from_secs(2), self.endpoint.wait_idle()).await;
    }
}

/// A connection, and its stream of messages each way, once there is one.
pub struct QuicksetLine {
    connection: Connection,
    sender: Option<MessageSender>,
    receiver: Option<MessageReceiver>,
    /// Datagrams that were taken together.
    taken: Vec<Bytes>,
}

impl QuicksetLine {
    fn new(connection: Connection) -> Self {
        Self { connection, sender: None, receiver: None, taken: Vec::new() }
    }
}

impl PeerConnection for QuicksetLine {
    type Answer = (SendStream, RecvStream);
    type Download = RecvStream;
    type Upload = SendStream;

    const HAS_MESSAGES: bool = true;

    async fn request(&mut self, question: &[u8]) -> Result<RecvStream> {
        let (mut send, receive) = self.connection.open_bi().await?;
        send.write_all(question).await?;
        send.finish()?;
        Ok(receive)
    }

    async fn requested(&mut self) -> Result<(SendStream, RecvStream)> {
        Ok(self.connection.accept_bi().await?)
    }

    async fn open_upload(&mut self) -> Result<SendStream> {
        Ok(self.connection.open_uni().await?)
    }

    async fn accept_upload(&mut self) -> Result<RecvStream> {
        Ok(self.connection.accept_uni().await?)
    }

    async fn send_message(&mut self, message: Bytes) -> Result<()> {
        let sender = match &mut self.sender {
            Some(sender) => sender,
            none => none.insert(self.connection.open_messages().await?),
        };
        sender.send(message).await?;
        Ok(())
    }

    async fn receive_message(&mut self, take: &mut impl FnMut(&[u8])) -> Result<()> {
        let receiver = match &mut self.receiver {
            Some(receiver) => receiver,
            none => none.insert(self.connection.accept_messages().await?),
        };
        take(&receiver.next().await.context("there are no more messages")??.payload);
        Ok(())
    }

    async fn send_datagrams(&mut self, data: &mut VecDeque<Bytes>) -> Result<()> {
        Ok(self.connection.send_datagrams(data).await?)
    }

    async fn receive_datagrams(&mut self, take: &mut impl FnMut(&[u8])) -> Result<()> {
        self.connection.read_datagrams(&mut self.taken, DATAGRAMS).await?;
        self.taken.drain(..).for_each(|datagram| take(&datagram));
        Ok(())
    }

    fn counter(&self) -> Option<StackCounter> {
        let connection = self.connection.clone();
        Some(Box::new(move || {
            let stats = connection.stats();
            let datagrams = stats.datagrams;
            Some(StackCounts {
                sent_packets: stats.sent_packets,
                lost_packets: stats.lost_packets,
                lost_datagrams: Some(datagrams.lost),
                unsent_datagrams: Some(
                    datagrams.expired + datagrams.displaced + datagrams.too_long + datagrams.unsent,
                ),
                unread_datagrams: Some(datagrams.dropped),
            })
        }))
    }

    async fn update_keys(&self) -> Result<()> {
        update_keys(&self.connection).await;
        Ok(())
    }

    fn key_updates(&self) -> Option<u64> {
        Some(self.connection.stats().key_updates)
    }

    fn close(self) {
        self.connection.close(0, b"");
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
        token_lifetime: Duration::from_secs(if setup.tickets == StackTickets::None { 0 } else { 600 }),
    })
}

pub fn client_config(trusted: &StackIdentity, setup: &StackSetup) -> Result<ClientConfig> {
    let crypto = quickset_tls::Client::new(trusted.client(setup)?)?;
    let crypto = match setup.tickets {
        StackTickets::None | StackTickets::Unused => crypto,
        StackTickets::Kept | StackTickets::Early => {
            crypto.with_tickets(Arc::new(CountedTickets::new(setup)), b"")
        }
    };
    Ok(ClientConfig { crypto: Arc::new(crypto), transport: Arc::new(transport(setup)?) })
}

/// What a client keeps in memory, and how often it was used.
#[derive(Debug)]
struct CountedTickets {
    tickets: TicketMemory,
    used: Arc<AtomicU64>,
}

impl CountedTickets {
    fn new(setup: &StackSetup) -> Self {
        Self { tickets: TicketMemory::default(), used: setup.used_tickets.clone() }
    }
}

impl TicketStore for CountedTickets {
    fn put(&self, key: &TicketKey, ticket: SessionTicket) {
        self.tickets.put(key, ticket);
    }

    fn take(&self, key: &TicketKey) -> Option<SessionTicket> {
        let taken = self.tickets.take(key);
        self.used.fetch_add(taken.is_some().into(), Ordering::Relaxed);
        taken
    }
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

/// Changes keys.
pub(crate) async fn update_keys(connection: &Connection) {
    until(|| connection.update_keys()).await;
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
            .with_datagrams(
                DatagramConfig::default()
                    .with_send_bytes(DATAGRAM_BYTES)
                    .with_send_count(DATAGRAMS)
                    .with_receive_bytes(DATAGRAM_BYTES)
                    .with_receive_count(DATAGRAMS),
            )
    } else {
        // A handshake as long as others wait: by their first probe timeout of a second, one in a hundred takes
        // more than ten seconds while a third is lost.
        TransportConfig::fixed_mtu(1200).with_handshake_timeout(Duration::from_secs(30))
    };
    let config = config
        .with_idle_timeout(setup.idle)
        .with_early_data((setup.tickets == StackTickets::Early).then(EarlyData::default));
    let config = match setup.streams.map(u64::from) {
        Some(streams) => config.with_max_bidi_streams(streams).with_max_uni_streams(streams),
        None => config,
    };
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
