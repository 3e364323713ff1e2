//! s2n-quic with rustls: as it comes, and tuned.
//!
//! As it comes it sends up to 1472 bytes too, which it finds by probing, with segmentation offload both ways;
//! its windows are for 150 Mbit/s at 100 ms. Tuned are the windows, the buffers of the system and its own,
//! and the size of datagrams is set from the start.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::{endpoint_limits, io, limits::Limits, tls::rustls as provider};
use s2n_quic::stream::{BidirectionalStream, ReceiveStream};
use s2n_quic::{Client, Connection, Server};

use crate::setup::SOCKET_BUFFER;
use crate::{
    CHUNKS, FIXED_MTU, FIXED_WINDOW, MAX_QUESTION, NAME, PeerConnection, StackAnswer, StackClient,
    StackDownload, StackIdentity, StackServer, StackSetup,
};

pub struct Listener {
    server: Server,
    address: SocketAddr,
}

pub fn serve(listen: SocketAddr, identity: &StackIdentity, setup: &StackSetup) -> Result<Listener> {
    // With none allowed under way, each handshake has to prove its address.
    let handshakes = endpoint_limits::Default::builder();
    let handshakes = if setup.retry { handshakes.with_inflight_handshake_limit(0)? } else { handshakes };
    let server = Server::builder()
        .with_tls(provider::Server::from(identity.server(setup)?))?
        .with_io(socket(listen, setup)?)?
        .with_endpoint_limits(handshakes.build()?)?
        .with_limits(limits(setup)?)?
        .start()
        .map_err(|error| anyhow!("{error}"))?;
    Ok(Listener { address: server.local_addr()?, server })
}

impl StackServer for Listener {
    type Connection = Connection;

    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn accept(&mut self) -> Option<Connection> {
        self.server.accept().await
    }
}

pub struct Caller {
    client: Client,
    server: SocketAddr,
}

pub fn client(server: SocketAddr, trusted: &StackIdentity, setup: &StackSetup) -> Result<Caller> {
    let client = Client::builder()
        .with_tls(provider::Client::from(trusted.client(setup)?))?
        .with_io(socket((server.ip(), 0).into(), setup)?)?
        .with_limits(limits(setup)?)?
        .start()
        .map_err(|error| anyhow!("{error}"))?;
    Ok(Caller { client, server })
}

impl StackClient for Caller {
    type Connection = Connection;

    async fn connect(&self, early: bool) -> Result<Connection> {
        ensure!(!early, "s2n-quic has no early data");
        Ok(self.client.connect(Connect::new(self.server).with_server_name(NAME)).await?)
    }

    async fn leave(mut self) {
        let _ = tokio::time::timeout(Duration::from_millis(50), self.client.wait_idle()).await;
    }
}

impl PeerConnection for Connection {
    type Answer = BidirectionalStream;
    type Download = ReceiveStream;

    async fn request(&mut self, question: &[u8]) -> Result<ReceiveStream> {
        let (receive, mut send) = self.open_bidirectional_stream().await?.split();
        send.send(Bytes::copy_from_slice(question)).await?;
        send.finish()?;
        Ok(receive)
    }

    async fn requested(&mut self) -> Result<BidirectionalStream> {
        self.accept_bidirectional_stream().await?.context("it was closed")
    }

    fn close(self) {
        Connection::close(&self, 0_u32.into());
    }
}

impl StackAnswer for BidirectionalStream {
    async fn question(&mut self) -> Result<Vec<u8>> {
        let mut question = Vec::new();
        while let Some(chunk) = self.receive().await? {
            ensure!(question.len() + chunk.len() <= MAX_QUESTION, "more than {MAX_QUESTION} bytes");
            question.extend_from_slice(&chunk);
        }
        Ok(question)
    }

    async fn send(&mut self, piece: Bytes) -> Result<()> {
        Ok(BidirectionalStream::send(self, piece).await?)
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.finish()?)
    }
}

impl StackDownload for ReceiveStream {
    async fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> Result<bool> {
        let mut chunks: [Bytes; CHUNKS] = Default::default();
        let (n, open) = self.receive_vectored(&mut chunks).await?;
        chunks[..n].iter().for_each(|chunk| take(chunk));
        Ok(open || n > 0)
    }
}

fn socket(address: SocketAddr, setup: &StackSetup) -> Result<io::tokio::Provider> {
    let builder = io::tokio::Provider::builder().with_receive_address(address)?;
    if !setup.is_fixed() {
        return Ok(builder.build()?);
    }
    // What it calls MTU counts the headers of IP and UDP.
    let mtu = FIXED_MTU + 28;
    let tuned = builder
        .with_max_mtu(mtu)?
        .with_initial_mtu(mtu)?
        .with_base_mtu(mtu)?
        .with_send_buffer_size(SOCKET_BUFFER)?
        .with_recv_buffer_size(SOCKET_BUFFER)?
        .with_internal_send_buffer_size(SOCKET_BUFFER)?
        .with_internal_recv_buffer_size(SOCKET_BUFFER)?;
    tuned.build().context("s2n-quic's socket")
}

fn limits(setup: &StackSetup) -> Result<Limits> {
    // As long as the others wait: of ten seconds, while a third is damaged, some handshakes take more.
    let own = Limits::new().with_max_handshake_duration(setup.idle)?.with_max_idle_timeout(setup.idle)?;
    if !setup.is_fixed() {
        return Ok(own);
    }
    let window = u64::from(FIXED_WINDOW);
    Ok(own
        .with_data_window(window)?
        .with_bidirectional_local_data_window(window)?
        .with_bidirectional_remote_data_window(window)?
        .with_max_send_buffer_size(FIXED_WINDOW)?)
}
