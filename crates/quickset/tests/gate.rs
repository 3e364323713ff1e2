//! A server that decides about its clients one by one, over the loopback.

#![cfg(feature = "self-signed")]

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quickset::{
    Admission, ClientConfig, Closed, ConnectError, Endpoint, Gate, Identity, RetryPolicy, ServerConfig,
    TransportConfig, TransportErrorCode, Trust,
};

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it does not take that long")
}

/// What the gate does with the next one that has not proven its address; those that have are taken.
#[tokio::test]
async fn clients_are_taken_asked_refused_and_ignored() {
    let next = Arc::new(Mutex::new(Admission::Accept));
    let decided = next.clone();
    let gate = Gate::new(move |client, usual| {
        assert_eq!(usual, Admission::Accept);
        assert!(client.path().remote.ip().is_loopback());
        if client.is_validated() { usual } else { *decided.lock().unwrap() }
    });
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, &["gate/1"]).unwrap().with_gate(gate);
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let connect = async |admission| {
        *next.lock().unwrap() = admission;
        // Who is ignored need not wait for long.
        let short = Duration::from_millis(400);
        let usual = TransportConfig::default();
        let transport = match admission {
            Admission::Ignore => usual.with_handshake_timeout(short),
            _ => usual,
        };
        // Each with a configuration of its own: a token from before would prove its address.
        let config = ClientConfig::new(trust.clone(), &["gate/1"]).unwrap().with_transport(transport);
        soon(Endpoint::client().unwrap().connect(server.local_addr(), "localhost", &config)).await
    };

    let taken = connect(Admission::Accept).await.unwrap();
    let here = soon(server.accept()).await.unwrap();
    assert_eq!(server.counters().retries, 0);
    let asked = connect(Admission::Retry).await.unwrap();
    let there = soon(server.accept()).await.unwrap();
    assert_eq!(server.counters().retries, 1);

    let refused = connect(Admission::Refuse).await.map(|_| ()).unwrap_err();
    let ConnectError::Failed(Closed::ByPeer(why)) = &refused else { panic!("{refused}") };
    assert_eq!(why.code, TransportErrorCode::CONNECTION_REFUSED);
    let ignored = connect(Admission::Ignore).await.map(|_| ()).unwrap_err();
    assert!(matches!(ignored, ConnectError::Failed(Closed::TimedOut)), "{ignored}");
    let counters = server.counters();
    assert_eq!((counters.accepted, counters.refused), (2, 1));
    assert!(counters.dropped > 0);
    drop((taken, here, asked, there));
}

#[tokio::test]
async fn a_policy_says_what_is_usual() {
    for (policy, first, retries) in
        [(RetryPolicy::Always, Admission::Retry, 1), (RetryPolicy::Never, Admission::Accept, 0)]
    {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        let gate = Gate::new(move |client, usual| {
            hears.lock().unwrap().push((client.is_validated(), usual));
            usual
        });
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let trust = Trust::pinned(identity.fingerprint());
        let config = ServerConfig::new(identity, &["gate/1"]).unwrap().with_gate(gate).with_retry(policy);
        let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
        let client = ClientConfig::new(trust, &["gate/1"]).unwrap();
        let here = soon(Endpoint::client().unwrap().connect(server.local_addr(), "localhost", &client)).await;
        let there = soon(server.accept()).await.unwrap();
        assert_eq!(server.counters().retries, retries, "{policy:?}");
        let heard = heard.lock().unwrap();
        assert_eq!(heard.first(), Some(&(false, first)), "{policy:?}");
        // Whoever has proven its address is taken.
        assert_eq!(heard.last(), Some(&(retries > 0, Admission::Accept)), "{policy:?}");
        drop((here, there));
    }
}
