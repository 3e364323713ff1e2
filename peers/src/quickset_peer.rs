//! Quickset, by the doors that every application has.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use quickset_base::Duration;
use quickset_net::{Endpoint, SocketConfig};
use quickset_quic::{ClientConfig, EndpointConfig, RetryPolicy, ServerConfig, TransportConfig};
use quickset_tls::{Client, EndpointSecrets, Server};

use crate::pattern::{Sum, pieces};
use crate::stack::{CHUNKS, Done, Listening, MTU, Meter, SOCKET_BUFFER, WINDOW, check, say};
use crate::tls;

pub(crate) async fn serve(listen: SocketAddr) -> Result<Done> {
    let (tls, certificate) = tls::server()?;
    let config = ServerConfig {
        crypto: Arc::new(Server::new(Arc::new(tls))?),
        transport: transport(),
        max_connections: 1,
        retry: RetryPolicy::Never,
        retry_token_lifetime: Duration::from_secs(15),
        token_lifetime: Duration::from_secs(15),
    };
    let endpoint = bind(listen, Some(config))?;
    say(&Listening::new(endpoint.local_addr(), &certificate))?;
    let connection = endpoint.accept().await.context("no client came")?;
    let (mut send, mut receive) = connection.accept_bi().await?;
    let request = receive.read_to_end(8).await?;
    let bytes = u64::from_be_bytes(request.try_into().ok().context("the request is too short")?);
    let meter = Meter::start();
    for piece in pieces(bytes) {
        send.write_chunk(piece).await?;
    }
    send.finish()?;
    send.finished().await?;
    let stats = connection.stats();
    let done = meter.done(bytes, stats.sent_datagrams, stats.lost_packets);
    connection.closed().await;
    Ok(done)
}

pub(crate) async fn fetch(server: &Listening, bytes: u64) -> Result<Done> {
    let tls = tls::client(server.trusted()?)?;
    let config = ClientConfig { crypto: Arc::new(Client::new(Arc::new(tls))?), transport: transport() };
    let endpoint = bind((server.address.ip(), 0).into(), None)?;
    let connection = endpoint.connect(server.address, tls::NAME, &config).await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&bytes.to_be_bytes()).await?;
    send.finish()?;
    let mut chunks: [Bytes; CHUNKS] = Default::default();
    let (mut sum, mut meter) = (Sum::default(), None);
    loop {
        let n = receive.read_chunks(&mut chunks).await?;
        if n == 0 {
            break;
        }
        meter.get_or_insert_with(Meter::start);
        for chunk in &mut chunks[..n] {
            sum.add(&std::mem::take(chunk));
        }
    }
    let stats = connection.stats();
    let done = meter.context("nothing came")?.done(sum.bytes(), stats.received_datagrams, stats.lost_packets);
    check(&sum, bytes)?;
    connection.close(0, b"");
    endpoint.wait_idle().await;
    Ok(done)
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
    let window = u64::from(WINDOW);
    Arc::new(TransportConfig {
        mtu: MTU,
        stream_window: window,
        max_stream_window: window,
        max_connection_window: window,
        send_buffer: window,
        ..TransportConfig::default()
    })
}
