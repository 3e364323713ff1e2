//! Settings at the ends of what their types hold, over the loopback: slow perhaps, but neither a panic nor
//! silence.

#![cfg(feature = "self-signed")]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::future::Future;
use std::time::Duration;

use quickset::bytes::Bytes;
use quickset::{ClientConfig, Endpoint, Identity, ServerConfig, TransportConfig, Trust};

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it does not take that long")
}

/// Bytes and a message there, with this on the client's side.
async fn talk(transport: TransportConfig) {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, &["test"]).unwrap();
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let config = ClientConfig::new(trust, &["test"]).unwrap().with_transport(transport);
    let client = Endpoint::client().unwrap();
    let ours = soon(client.connect(server.local_addr(), "localhost", &config)).await.unwrap();
    let theirs = soon(server.accept()).await.unwrap();

    let mut bytes = soon(ours.open_uni()).await.unwrap();
    let mut messages = soon(ours.open_messages()).await.unwrap();
    let sending = async {
        bytes.write_all(b"abc").await.unwrap();
        bytes.finish().unwrap();
        messages.send(Bytes::from_static(b"one")).await.unwrap();
        messages.send(Bytes::from_static(b"two")).await.unwrap();
        messages.finish().unwrap();
    };
    let reading = async {
        let mut stream = theirs.accept_uni().await.unwrap();
        assert_eq!(stream.read_to_end(9).await.unwrap(), b"abc");
        let mut channel = theirs.accept_messages().await.unwrap();
        let mut seen = Vec::new();
        while let Some(message) = channel.next().await {
            seen.push(message.unwrap().payload);
        }
        // There is no fence between them.
        seen.sort();
        assert_eq!(seen, ["one", "two"]);
    };
    soon(async { tokio::join!(sending, reading) }).await;
}

#[tokio::test]
async fn a_send_buffer_without_room_takes_little_and_not_nothing() {
    talk(TransportConfig::default().with_send_buffer(0)).await;
}

#[tokio::test]
async fn a_round_trip_that_never_ends_is_taken_for_a_long_one() {
    talk(TransportConfig::default().with_initial_rtt(Duration::MAX)).await;
}

/// "Never", as some would write it.
#[tokio::test]
async fn times_without_end_are_times() {
    talk(
        TransportConfig::default()
            .with_idle_timeout(Duration::MAX)
            .with_keep_alive(Duration::MAX)
            .with_ask_after(Duration::MAX)
            .with_handshake_timeout(Duration::MAX),
    )
    .await;
}
