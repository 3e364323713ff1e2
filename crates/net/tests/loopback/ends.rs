//! Endpoints over real sockets on the loopback, with the null session.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quickset_net::{Connection, Endpoint, SocketConfig};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{ClientConfig, EndpointConfig, RetryPolicy, ServerConfig, TransportConfig};

/// The reason to give up on a condition.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Waits for `future`, but not forever.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("it does not take that long")
}

pub(crate) fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

pub(crate) fn endpoint_config(secret: u64) -> EndpointConfig {
    EndpointConfig { crypto: Arc::new(NullSecrets(secret)), connection_id_len: 8, resets_per_second: 100 }
}

pub(crate) fn server_config(transport: TransportConfig) -> ServerConfig {
    ServerConfig {
        crypto: Arc::new(NullServer::new(&[b"test"])),
        transport: Arc::new(transport),
        max_connections: 1000,
        retry: RetryPolicy::Never,
        retry_token_lifetime: Duration::from_secs(10),
        gate: None,
        token_lifetime: Duration::from_secs(100),
    }
}

pub(crate) fn client_config(transport: TransportConfig) -> ClientConfig {
    ClientConfig { crypto: Arc::new(NullClient::new(&[b"test"])), transport: Arc::new(transport) }
}

pub(crate) fn server(config: ServerConfig) -> Endpoint {
    Endpoint::server(loopback(), endpoint_config(1), config).expect("the loopback has free ports")
}

pub(crate) fn client() -> Endpoint {
    Endpoint::bind(loopback(), &SocketConfig::default(), endpoint_config(2), None)
        .expect("the loopback has free ports")
}

/// A client's and a server's end of one connection, and their endpoints.
pub(crate) struct Pair {
    pub(crate) client: Connection,
    pub(crate) server: Connection,
    pub(crate) client_endpoint: Endpoint,
    pub(crate) server_endpoint: Endpoint,
}

pub(crate) async fn pair(transport: TransportConfig) -> Pair {
    pair_on(server(server_config(transport.clone())), client(), transport).await
}

pub(crate) async fn pair_on(
    server_endpoint: Endpoint,
    client_endpoint: Endpoint,
    transport: TransportConfig,
) -> Pair {
    let config = client_config(transport);
    let to = server_endpoint.local_addr();
    let (client, server) = soon(async {
        tokio::join!(client_endpoint.connect(to, "localhost", &config), server_endpoint.accept())
    })
    .await;
    Pair {
        client: client.expect("a handshake"),
        server: server.expect("an open endpoint"),
        client_endpoint,
        server_endpoint,
    }
}

/// Bytes that differ from one place to the next.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
