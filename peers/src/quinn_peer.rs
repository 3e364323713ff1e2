//! quinn, set up to be as fast as it can be here.
//!
//! Fixed datagrams without MTU discovery, the socket buffers that quickset asks for, and otherwise quinn's own
//! choices: segmentation offload both ways, CUBIC.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig};

use crate::pattern::{Sum, pieces};
use crate::stack::{CHUNKS, Done, Listening, MTU, Meter, SOCKET_BUFFER, WINDOW, check, say};
use crate::tls;

pub(crate) async fn serve(listen: SocketAddr) -> Result<Done> {
    let (tls, certificate) = tls::server()?;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport());
    let endpoint = bind(listen, Some(config))?;
    say(&Listening::new(endpoint.local_addr()?, &certificate))?;
    let connection = endpoint.accept().await.context("no client came")?.await?;
    let (mut send, mut receive) = connection.accept_bi().await?;
    let mut request = [0; 8];
    receive.read_exact(&mut request).await?;
    let bytes = u64::from_be_bytes(request);
    let meter = Meter::start();
    for piece in pieces(bytes) {
        send.write_chunk(piece).await?;
    }
    send.finish()?;
    send.stopped().await?;
    let stats = connection.stats();
    let done = meter.done(bytes, stats.udp_tx.datagrams, stats.path.lost_packets);
    connection.closed().await;
    Ok(done)
}

pub(crate) async fn fetch(server: &Listening, bytes: u64) -> Result<Done> {
    let mut config =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls::client(server.trusted()?)?)?));
    config.transport_config(transport());
    let endpoint = bind((server.address.ip(), 0).into(), None)?;
    let connection = endpoint.connect_with(config, server.address, tls::NAME)?.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&bytes.to_be_bytes()).await?;
    send.finish()?;
    let mut chunks: [Bytes; CHUNKS] = Default::default();
    let (mut sum, mut meter) = (Sum::default(), None);
    while let Some(n) = receive.read_chunks(&mut chunks).await? {
        meter.get_or_insert_with(Meter::start);
        for chunk in &mut chunks[..n] {
            sum.add(&std::mem::take(chunk));
        }
    }
    let stats = connection.stats();
    let done =
        meter.context("nothing came")?.done(sum.bytes(), stats.udp_rx.datagrams, stats.path.lost_packets);
    check(&sum, bytes)?;
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(done)
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
