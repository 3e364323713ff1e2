//! A server that dies without a word and comes back, over the loopback.

#![cfg(feature = "self-signed")]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use quickset::{
    ClientConfig, Closed, Connection, Endpoint, Identity, RetryPolicy, ServerConfig, TransportConfig, Trust,
};
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
        let transport =
            TransportConfig::default().with_idle_timeout(idle).with_keep_alive(Duration::from_millis(100));
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
    assert_eq!(told([7; 32], [8; 32], Duration::from_secs(3)), Closed::TimedOut);
}

/// What a client gets that shows a token of before the restart to a server that asks all for one
/// (RFC 9000 §8.1): how many it asked again.
fn asked_again(before: [u8; 32], after: [u8; 32]) -> u64 {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, &["test"]).unwrap().with_retry(RetryPolicy::Always);
    let config_of_client = ClientConfig::new(trust, &["test"]).unwrap();
    let ours = Builder::new_current_thread().enable_all().build().unwrap();
    let client = ours.block_on(async { Endpoint::client().unwrap() });
    let mut asked = 0;
    for key in [before, after] {
        let (runtime, endpoint) = serve(([127, 0, 0, 1], 0).into(), &config.clone().with_token_key(key));
        ours.block_on(async {
            let connection =
                soon(client.connect(endpoint.local_addr(), "localhost", &config_of_client)).await.unwrap();
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            stream.finish().unwrap();
            // The token came before the acknowledgement.
            soon(stream.finished()).await.unwrap();
            asked = endpoint.counters().retries;
            connection.close(0, b"");
            soon(client.wait_idle()).await;
        });
        drop(endpoint);
        runtime.shutdown_background();
    }
    asked
}

#[test]
fn a_server_that_keeps_its_key_honours_the_tokens_of_before() {
    assert_eq!(asked_again([7; 32], [7; 32]), 0);
}

#[test]
fn tokens_of_another_key_are_as_none() {
    assert_eq!(asked_again([7; 32], [8; 32]), 1);
}
