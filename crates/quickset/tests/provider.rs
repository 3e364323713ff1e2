//! Two ends over the loopback by the provider of cryptography that this build has, whichever it is.

#![cfg(feature = "self-signed")]

use std::time::Duration;

use quickset::bytes::Bytes;
use quickset::{ClientAuth, ClientConfig, Endpoint, Identity, Peer, ServerConfig, Trust, provider};

/// What comes back, and the keys that both have shown.
#[tokio::test]
async fn messages_go_there_and_back_between_ends_that_know_each_other() {
    let [near, far] = ["near.example", "far.example"].map(|name| Identity::self_signed([name]).unwrap());
    let config = ServerConfig::new(far.clone(), &["test/1"]).unwrap();
    let config = config.with_client_auth(ClientAuth::Mandatory).unwrap();
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let address = server.local_addr();
    let serving = tokio::spawn(async move {
        let connection = server.accept().await.unwrap();
        let (mut back, mut messages) = connection.accept_messages_bi().await.unwrap();
        while let Some(message) = messages.next().await {
            back.send(message.unwrap().payload).await.unwrap();
        }
        back.finish().unwrap();
        let client = Peer::of(&connection).fingerprint();
        connection.closed().await;
        client
    });
    let config = ClientConfig::new(Trust::pinned(far.fingerprint()), &["test/1"]).unwrap();
    let config = config.with_identity(near.clone());
    let client = Endpoint::client().unwrap();
    // More than a packet, so that packets of 1-RTT keys are many.
    let sent = [Bytes::from(vec![7; 50_000]), Bytes::from("short")];
    let talk = async {
        let connection = client.connect(address, "far.example", &config).await.unwrap();
        let (mut send, mut receive) = connection.open_messages_bi().await.unwrap();
        for message in &sent {
            send.send(message.clone()).await.unwrap();
            send.fence();
        }
        send.finish().unwrap();
        let mut came = Vec::new();
        while let Some(message) = receive.next().await {
            came.push(message.unwrap().payload);
        }
        assert_eq!(came, sent);
        assert_eq!(Peer::of(&connection).fingerprint(), Some(far.fingerprint()));
        connection.close(0, b"done");
        serving.await.unwrap()
    };
    let known = tokio::time::timeout(Duration::from_secs(20), talk).await.expect("soon");
    assert_eq!(known, Some(near.fingerprint()));
}

#[test]
fn with_both_it_is_aws_lc_rs() {
    let expected = if cfg!(feature = "aws-lc-rs") { "aws-lc-rs" } else { "ring" };
    assert_eq!(provider::NAME, expected);
    // Only the one has ML-KEM: what is exported is of the provider that is named.
    let groups = provider::default_provider().kx_groups;
    let has_ml_kem = groups.iter().any(|group| group.name() == quickset::KeyGroup::X25519MlKem768.rustls());
    assert_eq!(has_ml_kem, provider::NAME == "aws-lc-rs");
}
