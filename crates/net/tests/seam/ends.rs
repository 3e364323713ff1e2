//! Two endpoints, whatever is below them, with the null session.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use quickset_net::{Connection, Endpoint, Stats};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    ClientConfig, DatagramConfig, EndpointConfig, RetryPolicy, ServerConfig, TransportConfig,
};

pub(crate) struct Ends {
    pub(crate) server: Endpoint,
    pub(crate) client: Endpoint,
}

/// What came of an [`exchange`], and the connection that it went over.
pub(crate) struct Exchanged {
    pub(crate) connection: Connection,
    pub(crate) peer: Connection,
    /// What the server read.
    pub(crate) stream: Vec<u8>,
    /// What the client received.
    pub(crate) messages: Vec<Bytes>,
    /// Of the client.
    pub(crate) stats: Stats,
}

pub(crate) fn endpoint_config(secret: u64) -> EndpointConfig {
    EndpointConfig { crypto: Arc::new(NullSecrets(secret)), connection_id_len: 8, resets_per_second: 100 }
}

pub(crate) fn server_config() -> ServerConfig {
    ServerConfig {
        crypto: Arc::new(NullServer::new(&[b"test"])),
        transport: Arc::new(TransportConfig::fixed_mtu(1400)),
        max_connections: 10,
        retry: RetryPolicy::Never,
        retry_token_lifetime: Duration::from_secs(10),
        gate: None,
        token_lifetime: Duration::from_secs(100),
    }
}

pub(crate) fn client_config() -> ClientConfig {
    let transport = Arc::new(TransportConfig::fixed_mtu(1400));
    ClientConfig { crypto: Arc::new(NullClient::new(&[b"test"])), transport }
}

/// A handshake, a stream of this length one way, and two messages the other way.
pub(crate) async fn exchange(ends: &Ends, length: usize) -> Exchanged {
    exchange_with(ends, &client_config(), length).await
}

/// A client that takes datagrams so.
pub(crate) fn with_datagrams(client: ClientConfig, datagrams: DatagramConfig) -> ClientConfig {
    let transport = TransportConfig::clone(&client.transport).with_datagrams(datagrams);
    ClientConfig { transport: Arc::new(transport), ..client }
}

/// The same as [`exchange`] of a client like this.
pub(crate) async fn exchange_with(ends: &Ends, client: &ClientConfig, length: usize) -> Exchanged {
    let to = ends.server.local_addr();
    let (connection, peer) = both(ends.client.connect(to, "localhost", client), ends.server.accept()).await;
    let (connection, peer) = (connection.expect("a handshake"), peer.expect("an open endpoint"));
    let sends = async {
        let mut stream = connection.open_uni().await.expect("it is open");
        stream.write_all(&pattern(length)).await.expect("it is read");
        stream.finish().expect("it is open");
        let mut incoming = connection.accept_messages().await.expect("it is open");
        let mut messages = Vec::new();
        while let Some(message) = incoming.next().await {
            messages.push(message.expect("all of it comes").payload);
        }
        messages
    };
    let answers = async {
        let mut stream = peer.accept_uni().await.expect("it is open");
        let all = stream.read_to_end(length).await.expect("all of it comes");
        let mut messages = peer.open_messages().await.expect("it is open");
        for message in [&b"one"[..], b"two"] {
            messages.send(Bytes::from_static(message)).await.expect("it is open");
            messages.fence();
        }
        messages.finish().expect("it is open");
        all
    };
    let (messages, stream) = both(sends, answers).await;
    let stats = connection.stats();
    Exchanged { connection, peer, stream, messages, stats }
}

impl Exchanged {
    /// What the peer reads of a stream that has `bytes`.
    pub(crate) async fn again(&self, bytes: Vec<u8>) -> Vec<u8> {
        let sends = async {
            let mut stream = self.connection.open_uni().await.expect("it is open");
            stream.write_all(&bytes).await.expect("it is read");
            stream.finish().expect("it is open");
            stream.finished().await.expect("all has arrived");
        };
        let reads = async {
            let mut stream = self.peer.accept_uni().await.expect("it is open");
            stream.read_to_end(bytes.len()).await.expect("all of it comes")
        };
        both(sends, reads).await.1
    }
}

/// Waits for both.
pub(crate) async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    tokio::join!(a, b)
}

/// Waits for all of them.
pub(crate) async fn all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut ends: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        for (future, end) in ends.iter_mut().filter(|(_, end)| end.is_none()) {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                *end = Some(output);
            }
        }
        if ends.iter().all(|(_, end)| end.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ends.into_iter().filter_map(|(_, end)| end).collect()
}

/// Bytes that differ from one place to the next.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
