//! Early data with TLS over the loopback: a round trip sooner, and once.

#![cfg(feature = "self-signed")]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::future::Future;
use std::time::Duration;

use quickset::{
    ClientConfig, ConfigError, Connection, EarlyData, EarlyGate, Endpoint, Identity, ServerConfig, Trust,
};

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it does not take that long")
}

/// A server that sends back what comes on each stream, and whether it came early.
fn serve(identity: &Identity, early: Option<EarlyData>) -> Endpoint {
    let mut config = ServerConfig::new(identity.clone(), &["echo/1"]).unwrap();
    if let Some(early) = early {
        config = config.with_early_data(early);
    }
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let endpoint = server.clone();
    tokio::spawn(async move {
        while let Some(connection) = endpoint.accept().await {
            tokio::spawn(echo(connection));
        }
    });
    server
}

async fn echo(connection: Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let Ok(mut all) = recv.read_to_end(1 << 20).await else { return };
        all.push(u8::from(recv.is_early()));
        if send.write_all(&all).await.is_err() || send.finish().is_err() {
            return;
        }
    }
}

async fn ask(connection: &Connection, question: &[u8]) -> (Vec<u8>, bool) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(question).await.unwrap();
    send.finish().unwrap();
    let mut answer = recv.read_to_end(1 << 20).await.unwrap();
    let early = answer.pop().unwrap() == 1;
    (answer, early)
}

/// A connection that leaves a ticket.
async fn visit(client: &Endpoint, server: &Endpoint, config: &ClientConfig) {
    let connection = soon(client.connect(server.local_addr(), "localhost", config)).await.unwrap();
    assert!(!connection.is_early() && !connection.accepted_early().await);
    // Tickets come before answers.
    assert_eq!(soon(ask(&connection, b"hello")).await, (b"hello".to_vec(), false));
    connection.close(0, b"");
}

fn client_config(identity: &Identity) -> ClientConfig {
    ClientConfig::new(Trust::pinned(identity.fingerprint()), &["echo/1"])
        .unwrap()
        .with_early_data(EarlyData::default())
        .unwrap()
}

#[tokio::test]
async fn who_was_here_before_begins_with_data() {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let server = serve(&identity, Some(EarlyData::default()));
    let (client, config) = (Endpoint::client().unwrap(), client_config(&identity));
    let first = client.connect(server.local_addr(), "localhost", &config);
    assert!(first.into_early().is_err(), "there is nothing to resume");
    visit(&client, &server, &config).await;
    for round in 0..3u8 {
        let connecting = client.connect(server.local_addr(), "localhost", &config);
        let connection = connecting.into_early().expect("a ticket of the last connection");
        let (answer, early) = soon(ask(&connection, &[round; 2000])).await;
        assert_eq!((answer, early), (vec![round; 2000], true), "round {round}");
        assert!(soon(connection.accepted_early()).await);
        soon(connection.connected()).await.unwrap();
        assert!(!connection.is_early());
        assert_eq!(soon(ask(&connection, b"later")).await, (b"later".to_vec(), false));
        connection.close(0, b"");
    }
}

/// The endpoint works on while its application does something else.
#[tokio::test]
async fn a_server_that_answers_at_once_is_not_too_fast() {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let config = ServerConfig::new(identity.clone(), &["echo/1"]).unwrap();
    let config = config.with_early_data(EarlyData::default());
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let (client, config) = (Endpoint::client().unwrap(), client_config(&identity));
    let accepting = server.clone();
    let echoing = tokio::spawn(async move { echo(accepting.accept().await.unwrap()).await });
    visit(&client, &server, &config).await;
    soon(echoing).await.unwrap();
    let connecting = client.connect(server.local_addr(), "localhost", &config);
    let accepted = soon(server.accept()).await.unwrap();
    // It has heard the end of the handshake of the client, who knows by then what became of early data.
    soon(accepted.connected()).await.unwrap();
    let connection = connecting.into_early().expect("it has begun early");
    assert!(soon(connection.accepted_early()).await);
    tokio::spawn(echo(accepted));
    assert_eq!(soon(ask(&connection, b"hello")).await, (b"hello".to_vec(), false));
}

#[tokio::test]
async fn what_a_server_does_not_take_it_gets_again() {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let servers = [
        serve(&identity, Some(EarlyData::default())),
        // Another one of that name and key, with tickets of its own; one that takes none; one that takes none
        // of ours.
        serve(&identity, Some(EarlyData::default())),
        serve(&identity, None),
        serve(&identity, Some(EarlyData::default().with_gate(EarlyGate::new(|_| false)))),
    ];
    let (client, config) = (Endpoint::client().unwrap(), client_config(&identity));
    for server in &servers[1..] {
        visit(&client, &servers[0], &config).await;
        let connecting = client.connect(server.local_addr(), "localhost", &config);
        let connection = connecting.into_early().expect("a ticket of the first server");
        assert_eq!(soon(ask(&connection, &[9; 3000])).await, (vec![9; 3000], false));
        assert!(!connection.accepted_early().await);
        connection.close(0, b"");
    }
}

#[tokio::test]
async fn who_does_not_ask_sends_nothing_early() {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let server = serve(&identity, Some(EarlyData::default()));
    let client = Endpoint::client().unwrap();
    let config = ClientConfig::new(Trust::pinned(identity.fingerprint()), &["echo/1"]).unwrap();
    for _ in 0..2 {
        visit(&client, &server, &config).await;
        let connecting = client.connect(server.local_addr(), "localhost", &config);
        assert!(connecting.into_early().is_err());
    }
    let many = ClientConfig::new(Trust::pinned(identity.fingerprint()), &["echo/1", "echo/2"]).unwrap();
    let refused = many.with_early_data(EarlyData::default());
    assert_eq!(refused.err().map(|e| e.to_string()), Some(ConfigError::EarlyProtocols.to_string()));
}
