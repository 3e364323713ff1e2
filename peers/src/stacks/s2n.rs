//! s2n-quic with rustls: as it comes, and tuned.
//!
//! As it comes it sends up to 1472 bytes too, which it finds by probing, with segmentation offload both ways;
//! its windows are for 150 Mbit/s at 100 ms. Tuned are the windows, the buffers of the system and its own,
//! and the size of datagrams is set from the start.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::{io, limits::Limits, tls::rustls as provider};
use s2n_quic::stream::{ReceiveStream, SendStream};
use s2n_quic::{self as s2n};

use super::{
    CHUNKS, MTU, PeerConnection, SOCKET_BUFFER, StackAnswer, StackClient, StackDownload, StackServer, WINDOW,
};
use crate::pattern::PatternSum;
use crate::tls::{self, PeersIdentity, Trusted};

pub(crate) struct Listener {
    server: s2n::Server,
    address: SocketAddr,
}

pub(crate) fn serve(listen: SocketAddr, identity: PeersIdentity, tuned: bool) -> Result<Listener> {
    let builder = s2n::Server::builder()
        .with_tls(provider::Server::from(identity.server()?))?
        .with_io(socket(listen, tuned)?)?;
    let builder = if tuned { builder.with_limits(limits()?)?.start() } else { builder.start() };
    let server = builder.map_err(|error| anyhow!("{error}"))?;
    Ok(Listener { address: server.local_addr()?, server })
}

impl StackServer for Listener {
    type Connection = s2n::Connection;

    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn accept(&mut self) -> Option<s2n::Connection> {
        self.server.accept().await
    }
}

pub(crate) struct Caller {
    client: s2n::Client,
    server: SocketAddr,
}

pub(crate) fn client(server: SocketAddr, trusted: Trusted, tuned: bool) -> Result<Caller> {
    let builder = s2n::Client::builder()
        .with_tls(provider::Client::from(tls::client(trusted)?))?
        .with_io(socket((server.ip(), 0).into(), tuned)?)?;
    let builder = if tuned { builder.with_limits(limits()?)?.start() } else { builder.start() };
    Ok(Caller { client: builder.map_err(|error| anyhow!("{error}"))?, server })
}

impl StackClient for Caller {
    type Connection = s2n::Connection;

    async fn connect(&self) -> Result<s2n::Connection> {
        let connect = Connect::new(self.server).with_server_name(tls::NAME);
        Ok(self.client.connect(connect).await?)
    }
}

impl PeerConnection for s2n::Connection {
    type Answer = SendStream;
    type Download = ReceiveStream;

    async fn request(&mut self, bytes: u64) -> Result<ReceiveStream> {
        let (receive, mut send) = self.open_bidirectional_stream().await?.split();
        send.send(Bytes::copy_from_slice(&bytes.to_be_bytes())).await?;
        send.finish()?;
        Ok(receive)
    }

    async fn requested(&mut self) -> Option<(u64, SendStream)> {
        let (mut receive, send) = self.accept_bidirectional_stream().await.ok()??.split();
        let mut request = Vec::new();
        while let Some(chunk) = receive.receive().await.ok()? {
            request.extend_from_slice(&chunk);
        }
        Some((u64::from_be_bytes(request.try_into().ok()?), send))
    }

    fn close(self) {
        s2n::Connection::close(&self, 0_u32.into());
    }
}

impl StackAnswer for SendStream {
    async fn send(&mut self, piece: Bytes) -> Result<()> {
        Ok(SendStream::send(self, piece).await?)
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.finish()?)
    }
}

impl StackDownload for ReceiveStream {
    async fn receive(&mut self, sum: &mut PatternSum) -> Result<bool> {
        let mut chunks: [Bytes; CHUNKS] = Default::default();
        let (n, open) = self.receive_vectored(&mut chunks).await?;
        chunks[..n].iter().for_each(|chunk| sum.add(chunk));
        Ok(open || n > 0)
    }
}

fn socket(address: SocketAddr, tuned: bool) -> Result<io::tokio::Provider> {
    let builder = io::tokio::Provider::builder().with_receive_address(address)?;
    if !tuned {
        return Ok(builder.build()?);
    }
    // What it calls MTU counts the headers of IP and UDP.
    let mtu = MTU + 28;
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

fn limits() -> Result<Limits> {
    let window = u64::from(WINDOW);
    Ok(Limits::new()
        .with_data_window(window)?
        .with_bidirectional_local_data_window(window)?
        .with_bidirectional_remote_data_window(window)?
        .with_max_send_buffer_size(WINDOW)?)
}
