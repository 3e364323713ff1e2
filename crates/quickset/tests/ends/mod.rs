//! Both ends of a connection for HTTP/3, over the loopback.

use std::future::Future;
use std::time::Duration;

use quickset::h3::{self, Client, Config};
use quickset::{ClientConfig, Connection, Endpoint, Identity, ServerConfig, Trust};

/// Sooner than an idle connection ends, by which everybody wakes.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(15), future).await.expect("it does not take that long")
}

pub(crate) fn everything() -> Config {
    Config { extended_connect: true, datagrams: true, webtransport: 1, ..Config::default() }
}

/// A client, the server's side of the same connection, and its endpoint.
pub(crate) async fn ends() -> (Client, Connection, Endpoint) {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, &[h3::ALPN]).unwrap();
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let config = ClientConfig::new(trust, &[h3::ALPN]).unwrap();
    let client = Endpoint::client().unwrap();
    let ours = soon(client.connect(server.local_addr(), "localhost", &config)).await.unwrap();
    let theirs = soon(server.accept()).await.unwrap();
    (Client::new(&ours, everything()).unwrap(), theirs, server)
}
