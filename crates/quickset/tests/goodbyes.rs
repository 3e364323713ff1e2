//! The code by which connections of HTTP/3 end that nobody closes with another (RFC 9114 §8.1), over the
//! loopback.

#![cfg(all(feature = "h3", feature = "self-signed"))]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod ends;

use std::time::Duration;

use quickset::h3::{Client, ErrorCode, Request, Server};
use quickset::{ClientConfig, Closed, Connection, Endpoint, Identity, ServerConfig, Trust};

use ends::{ends, everything, soon};

/// What the peer told the owner of this end.
async fn told(connection: &Connection) -> (u64, Vec<u8>) {
    match soon(connection.closed()).await {
        Closed::ByApplication { code, reason } => (code, reason),
        other => panic!("{other:?}"),
    }
}

/// An exchange that does not end, its client and its server.
async fn busy() -> (Client, Connection, Endpoint, Box<dyn std::any::Any>) {
    let (client, theirs, endpoint) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let answer = soon(client.ask(&Request::new("GET", "localhost", "/"))).await.unwrap();
    let call = soon(server.accept()).await.unwrap();
    (client, theirs, endpoint, Box::new((server, call, answer)))
}

#[tokio::test]
async fn an_endpoint_that_shuts_down_ends_http_without_error() {
    let (client, _theirs, endpoint, _busy) = busy().await;
    assert!(!soon(endpoint.shutdown(Duration::from_millis(1))).await);
    assert_eq!(told(client.connection()).await, (ErrorCode::H3_NO_ERROR.0, vec![]));

    let (client, _theirs, endpoint, _busy) = busy().await;
    let code = ErrorCode::H3_INTERNAL_ERROR.0;
    assert!(!soon(endpoint.shutdown_with(Duration::from_millis(1), code, b"the power fails")).await);
    assert_eq!(told(client.connection()).await, (code, b"the power fails".to_vec()));
}

#[tokio::test]
async fn what_is_no_http_ends_with_0() {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, &["other"]).unwrap();
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let config = ClientConfig::new(trust, &["other"]).unwrap();
    let client = Endpoint::client().unwrap();
    let ours = soon(client.connect(server.local_addr(), "localhost", &config)).await.unwrap();
    let _theirs = soon(server.accept()).await.unwrap();
    assert!(!soon(server.shutdown(Duration::from_millis(1))).await);
    assert_eq!(told(&ours).await, (0, vec![]));
}

/// Connections that are held beside them do not keep it.
#[tokio::test]
async fn http_whose_handles_are_gone_ends_without_error() {
    let (client, theirs, _endpoint) = ends().await;
    let _server = Server::new(&theirs, everything()).unwrap();
    let _ours = client.connection().clone();
    drop(client);
    assert_eq!(told(&theirs).await, (ErrorCode::H3_NO_ERROR.0, vec![]));

    let (client, theirs, _endpoint) = ends().await;
    drop(Server::new(&theirs, everything()).unwrap());
    assert_eq!(told(client.connection()).await, (ErrorCode::H3_NO_ERROR.0, vec![]));

    let (client, theirs, _endpoint) = ends().await;
    let _server = Server::new(&theirs, everything()).unwrap();
    soon(client.shutdown()).await;
    assert_eq!(told(&theirs).await, (ErrorCode::H3_NO_ERROR.0, vec![]));
}
