//! A server that dies without a word and comes back, over the loopback.

#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use quickset::{ClientConfig, Closed, Connection, Endpoint, Identity, ServerConfig, TransportConfig, Trust};
use tokio::runtime::{Builder, Runtime};

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it does not take that long")
}

/// A server on a runtime that can die with it.
fn serve(address: SocketAddr, config: &ServerConfig) -> (Runtime, Endpoint) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let endpoint = runtime.block_on(async { Endpoint::server(address, config) }).unwrap();
    let accepting = endpoint.clone();
    runtime.spawn(async move {
        let mut taken = Vec::new();
        while let Some(connection) = accepting.accept().await {
            taken.push(connection);
        }
    });
    (runtime, endpoint)
}

/// How a client that waits learns of a restart of its server, with the keys of before and after.
fn told(before: [u8; 32], after: [u8; 32], idle: Duration) -> Closed {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, &["test"]).unwrap();
    let (old, endpoint) = serve(([127, 0, 0, 1], 0).into(), &config.clone().with_reset_key(before));
    let address = endpoint.local_addr();

    let ours = Builder::new_current_thread().enable_all().build().unwrap();
    ours.block_on(async {
        let transport = TransportConfig {
            idle_timeout: Some(idle),
            keep_alive: Some(Duration::from_millis(100)),
            ..TransportConfig::default()
        };
        let config_of_client = ClientConfig::new(trust, &["test"]).unwrap().with_transport(transport);
        let client = Endpoint::client().unwrap();
        let connection: Connection =
            soon(client.connect(address, "localhost", &config_of_client)).await.unwrap();
        // Both have confirmed the handshake: before that there are packets that nothing answers.
        let mut stream = connection.open_uni().await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        stream.finish().unwrap();
        soon(stream.finished()).await.unwrap();
        // As by `kill -9`: nobody is told.
        drop(endpoint);
        old.shutdown_background();
        let (new, endpoint) = soon(async {
            loop {
                // The old socket goes in its own time.
                let bound = std::net::UdpSocket::bind(address);
                if bound.map(drop).is_ok() {
                    let config = config.clone().with_reset_key(after);
                    return tokio::task::spawn_blocking(move || serve(address, &config)).await.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let closed = soon(connection.closed()).await;
        drop(endpoint);
        new.shutdown_background();
        closed
    })
}

#[test]
fn a_server_that_keeps_its_key_tells_the_clients_of_before() {
    // Sooner than they would find out.
    assert_eq!(told([7; 32], [7; 32], Duration::from_secs(60)), Closed::Reset);
}

#[test]
fn a_server_with_another_key_is_not_believed() {
    assert_eq!(told([7; 32], [8; 32], Duration::from_secs(1)), Closed::TimedOut);
}
