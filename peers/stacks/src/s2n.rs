//! s2n-quic with rustls: as it comes, and tuned.
//!
//! As it comes it sends up to 1472 bytes too, which it finds by probing, with segmentation offload both ways;
//! its windows are for 150 Mbit/s at 100 ms. Tuned are the windows, the buffers of the system and its own,
//! and the size of datagrams is set from the start.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::{Poll, ready};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::datagram::default as datagram;
use s2n_quic::provider::{endpoint_limits, io, limits::Limits, tls::rustls as provider};
use s2n_quic::stream::{BidirectionalStream, ReceiveStream, SendStream};
use s2n_quic::{Client, Connection, Server};

use crate::setup::{DATAGRAMS, SOCKET_BUFFER};
use crate::{
    CHUNKS, FIXED_MTU, FIXED_WINDOW, MAX_QUESTION, NAME, PeerConnection, StackAnswer, StackClient,
    StackDownload, StackIdentity, StackServer, StackSetup, StackUpload,
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
        .with_datagram(datagrams()?)?
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
        .with_datagram(datagrams()?)?
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
    type Upload = SendStream;

    async fn request(&mut self, question: &[u8]) -> Result<ReceiveStream> {
        let (receive, mut send) = self.open_bidirectional_stream().await?.split();
        send.send(Bytes::copy_from_slice(question)).await?;
        send.finish()?;
        Ok(receive)
    }

    async fn requested(&mut self) -> Result<BidirectionalStream> {
        self.accept_bidirectional_stream().await?.context("it was closed")
    }

    async fn open_upload(&mut self) -> Result<SendStream> {
        Ok(self.open_send_stream().await?)
    }

    async fn accept_upload(&mut self) -> Result<ReceiveStream> {
        self.accept_receive_stream().await?.context("it was closed")
    }

    async fn send_datagrams(&mut self, data: &mut VecDeque<Bytes>) -> Result<()> {
        poll_fn(|cx| {
            let sent = self.datagram_mut(|sender: &mut datagram::Sender| {
                let mut any = false;
                while let Some(datagram) = data.front_mut() {
                    match sender.poll_send_datagram(datagram, cx) {
                        Poll::Ready(Ok(())) => drop(data.pop_front()),
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Pending if any => break,
                        Poll::Pending => return Poll::Pending,
                    }
                    any = true;
                }
                Poll::Ready(Ok(()))
            });
            sent.map_or_else(
                |error| Poll::Ready(Err(anyhow!("{error}"))),
                |sent| sent.map_err(|error| anyhow!("{error}")),
            )
        })
        .await
    }

    async fn receive_datagrams(&mut self, take: &mut impl FnMut(&[u8])) -> Result<()> {
        poll_fn(|cx| {
            let came = self.datagram_mut(|receiver: &mut datagram::Receiver| {
                let first = ready!(receiver.poll_recv_datagram(cx));
                first.as_ref().into_iter().for_each(|datagram| take(datagram));
                while let Some(datagram) = receiver.recv_datagram() {
                    take(&datagram);
                }
                Poll::Ready(first.map(drop))
            });
            came.map_or_else(
                |error| Poll::Ready(Err(anyhow!("{error}"))),
                |came| came.map_err(|error| anyhow!("{error}")),
            )
        })
        .await
    }

    fn close(self) {
        Connection::close(&self, 0_u32.into());
    }
}

impl StackUpload for SendStream {
    async fn send(&mut self, piece: Bytes) -> Result<()> {
        Ok(SendStream::send(self, piece).await?)
    }

    async fn end(mut self) -> Result<()> {
        Ok(self.finish()?)
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
    let own = match setup.streams.map(u64::from) {
        Some(streams) => own
            .with_max_open_local_bidirectional_streams(streams)?
            .with_max_open_remote_bidirectional_streams(streams)?
            .with_max_open_local_unidirectional_streams(streams)?
            .with_max_open_remote_unidirectional_streams(streams)?,
        None => own,
    };
    if !setup.is_fixed() {
        return Ok(own);
    }
    let window = u64::from(FIXED_WINDOW);
    Ok(own
        .with_data_window(window)?
        .with_bidirectional_local_data_window(window)?
        .with_bidirectional_remote_data_window(window)?
        .with_unidirectional_data_window(window)?
        .with_max_send_buffer_size(FIXED_WINDOW)?)
}

/// It has none unless they are given room.
fn datagrams() -> Result<datagram::Endpoint> {
    Ok(datagram::Endpoint::builder().with_send_capacity(DATAGRAMS)?.with_recv_capacity(DATAGRAMS)?.build()?)
}
