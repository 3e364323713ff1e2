//! Shards over the loopback, whose clients come, move, and go.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quickset_base::{AddressPair, Ecn};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{ClientConfig, Closed, EndpointConfig, RetryPolicy, ServerConfig};

use super::super::*;
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::line::{Line, MOST_HANDED};
use crate::port::{PortCalls, SharedPort, SystemCalls};
use crate::runtime::{Runtime, RuntimeTimer};
use crate::shared::Shared;
use crate::socket::{DatagramSocket, SocketConfig};
use crate::tokio_runtime::TokioRuntime;

pub(super) const SHARDS: usize = 4;
pub(super) const CLIENTS: usize = 24;

pub(super) fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

pub(super) fn config(secret: u64) -> EndpointConfig {
    EndpointConfig { crypto: Arc::new(NullSecrets(secret)), connection_id_len: 8, resets_per_second: 100 }
}

pub(super) fn client_config() -> ClientConfig {
    ClientConfig { crypto: Arc::new(NullClient::new(&[b"test"])), transport: Arc::default() }
}

/// An endpoint of several shards, to which the system gives datagrams by their ids, or by addresses.
pub(super) fn sharded(is_steered: bool) -> Endpoint {
    sharded_on(Arc::new(TokioRuntime::current()), is_steered)
}

pub(super) fn sharded_on(runtime: Arc<dyn Runtime>, is_steered: bool) -> Endpoint {
    sharded_with(runtime, is_steered, 1000)
}

/// The same, with so many connections at most.
pub(super) fn sharded_with(runtime: Arc<dyn Runtime>, is_steered: bool, max_connections: usize) -> Endpoint {
    let calls: &dyn PortCalls = if is_steered { &SystemCalls } else { &Unsteered };
    let server = over_port(runtime, calls, &several(), server_config(max_connections)).unwrap();
    assert_eq!(server.sockets(), SHARDS, "this system shares ports");
    server
}

/// As many sockets as there are shards.
pub(super) fn several() -> SocketConfig {
    SocketConfig { sockets: SHARDS, ..SocketConfig::default() }
}

/// A server with so many connections at most.
pub(super) fn server_config(max_connections: usize) -> ServerConfig {
    ServerConfig {
        crypto: Arc::new(NullServer::new(&[b"test"])),
        transport: Arc::default(),
        max_connections,
        retry: RetryPolicy::Never,
        retry_token_lifetime: Duration::from_secs(10),
        gate: None,
        token_lifetime: Duration::from_secs(100),
    }
}

/// An endpoint on as many sockets of the loopback as the system has for one that wants several.
pub(super) fn over_port(
    runtime: Arc<dyn Runtime>,
    calls: &dyn PortCalls,
    socket: &SocketConfig,
    server: ServerConfig,
) -> std::io::Result<Endpoint> {
    let port = SharedPort::bind(&*runtime, loopback(), socket, calls)?;
    Endpoint::over_all(runtime, port, config(1), Some(server))
}

/// A system that goes by addresses alone.
pub(super) struct Unsteered;

impl PortCalls for Unsteered {
    fn bind(
        &self,
        config: &SocketConfig,
        address: SocketAddr,
        shares: bool,
    ) -> std::io::Result<std::net::UdpSocket> {
        SystemCalls.bind(config, address, shares)
    }

    fn steer(&self, _: &std::net::UdpSocket, _: u32) -> std::io::Result<()> {
        Err(std::io::ErrorKind::PermissionDenied.into())
    }
}

/// Sends back what comes on each stream.
pub(super) async fn echo(connection: Connection) -> Closed {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        if let Ok(all) = recv.read_to_end(1 << 20).await {
            let _ = send.write_all(&all).await;
            let _ = send.finish();
        }
    }
    connection.closed().await
}

pub(super) async fn is_echoed(connection: &Connection, words: &[u8]) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(words).await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(1 << 20).await.unwrap(), words);
}

pub(super) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("in time")
}

pub(super) fn serve(server: &Endpoint) {
    let server = server.clone();
    tokio::spawn(async move {
        while let Some(connection) = server.accept().await {
            tokio::spawn(echo(connection));
        }
    });
}

/// Clients come to all shards, move to other addresses, and are answered by the shard that they are on.
pub(super) async fn clients_come_and_move(server: &Endpoint) {
    serve(server);
    let mut all = Vec::new();
    for n in 0..24 {
        let client = Endpoint::bind(loopback(), &SocketConfig::default(), config(2), None).unwrap();
        let connection =
            soon(client.connect(server.local_addr(), "localhost", &client_config())).await.unwrap();
        soon(is_echoed(&connection, &vec![n; 5000])).await;
        all.push((client, connection));
    }
    assert_eq!(server.connections(), CLIENTS);
    let shares = server.hub().lobby().live.clone();
    assert!(shares.iter().filter(|share| **share > 0).count() > 1, "each by itself: {shares:?}");
    for (n, (client, connection)) in (0..24).zip(&all) {
        client.rebind(loopback(), &SocketConfig::default()).unwrap();
        soon(is_echoed(connection, &vec![n; 50_000])).await;
    }
    assert_eq!(server.hub().lobby().live, shares, "nobody changed shards");
    for (client, connection) in all {
        connection.close(0, b"");
        soon(client.wait_idle()).await;
    }
    soon(server.wait_idle()).await;
    assert_eq!(server.stats().totals().connections, CLIENTS as u64);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_system_gives_each_shard_what_is_its_own() {
    let server = sharded(true);
    clients_come_and_move(&server).await;
    let stats = server.stats();
    assert_eq!((stats.handed_over, stats.handed_over_lost), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_hand_over_what_the_system_gave_to_others() {
    let server = sharded(false);
    clients_come_and_move(&server).await;
    let stats = server.stats();
    assert!(stats.handed_over > 0, "one of {CLIENTS} moved to a port of another shard");
    assert_eq!(stats.handed_over_lost, 0);
}

/// What an endpoint of several shards begins is answered to whichever of them the system likes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_begin_connections_too() {
    for is_steered in [cfg!(target_os = "linux"), false] {
        let (one, other) = (sharded(is_steered), sharded(is_steered));
        serve(&other);
        for n in 0..8 {
            let begun = soon(one.connect(other.local_addr(), "localhost", &client_config())).await;
            let connection = begun.unwrap();
            soon(is_echoed(&connection, &[n; 3000])).await;
            connection.close(0, b"");
        }
        soon(one.wait_idle()).await;
        soon(other.wait_idle()).await;
    }
}

/// A runtime whose tasks can be ended.
#[derive(Debug)]
struct Mortal {
    tokio: TokioRuntime,
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Runtime for Mortal {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.tasks.lock().unwrap().push(tokio::spawn(task));
    }

    fn timer(&self, at: Instant) -> Pin<Box<dyn RuntimeTimer>> {
        self.tokio.timer(at)
    }

    fn wrap(
        &self,
        socket: std::net::UdpSocket,
        config: &SocketConfig,
    ) -> std::io::Result<Arc<dyn DatagramSocket>> {
        self.tokio.wrap(socket, config)
    }
}

/// A shard that ends takes its own connections with it, and nobody else's; whoever comes anew is taken by
/// the others, whatever its first id says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_ends_takes_nobody_else_with_it() {
    for is_steered in [cfg!(target_os = "linux"), false] {
        let runtime = Arc::new(Mortal { tokio: TokioRuntime::current(), tasks: Mutex::default() });
        let server = sharded_on(runtime.clone(), is_steered);
        serve(&server);
        let client = || Endpoint::bind(loopback(), &SocketConfig::default(), config(2), None).unwrap();
        let mut all = Vec::new();
        let mut of = Vec::new();
        for _ in 0..CLIENTS {
            let (client, before) = (client(), server.hub().lobby().live.clone());
            let begun = client.connect(server.local_addr(), "localhost", &client_config());
            let connection = soon(begun).await.unwrap();
            soon(is_echoed(&connection, b"x")).await;
            let live = server.hub().lobby().live.clone();
            of.push((0..SHARDS).find(|shard| live[*shard] > before[*shard]).unwrap());
            all.push((client, connection));
        }
        let dead = of[0];
        let task = std::mem::take(&mut *runtime.tasks.lock().unwrap()).swap_remove(dead);
        task.abort();
        assert!(soon(task).await.unwrap_err().is_cancelled());
        for ((_, connection), of) in all.iter().zip(of) {
            if of == dead {
                connection.ping();
                assert_eq!(soon(connection.closed()).await, Closed::Reset);
            } else {
                soon(is_echoed(connection, &vec![7; 20_000])).await;
            }
        }
        for _ in 0..CLIENTS {
            let client = client();
            let begun = client.connect(server.local_addr(), "localhost", &client_config());
            let connection = soon(begun).await.unwrap();
            soon(is_echoed(&connection, b"y")).await;
        }
    }
}

/// What waits for a shard that takes nothing is bounded, and does not keep the buffers that it came in.
#[tokio::test]
async fn a_shard_that_hangs_has_little_kept_for_it() {
    let line: Line<Arc<Shared>> = Line::new(Arc::new(TokioRuntime::current()));
    let mut taken = 0;
    let mut buffer = bytes::BytesMut::zeroed(64 << 10);
    for _ in 0..10_000 {
        let datagram =
            Datagram { path: AddressPair::to(loopback()), ecn: Ecn::NotEct, bytes: buffer.split_to(1200) };
        taken += line.hand_over(&mut vec![datagram]).unwrap();
        buffer.clear();
        assert!(buffer.try_reclaim(64 << 10), "nobody keeps it");
        buffer.resize(64 << 10, 0);
    }
    assert!(taken * 1200 <= MOST_HANDED && taken * 1400 > MOST_HANDED, "{taken}");
    assert!(line.driver_ended().is_empty());
    assert_eq!(line.hand_over(&mut Vec::new()), None, "of one that has ended they stay");
}

/// What all are told, the connections of all shards are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_all_is_heard_by_all() {
    let server = sharded(false);
    serve(&server);
    let client = Endpoint::bind(loopback(), &SocketConfig::default(), config(2), None).unwrap();
    let mut all = Vec::new();
    for _ in 0..8 {
        let connection =
            soon(client.connect(server.local_addr(), "localhost", &client_config())).await.unwrap();
        soon(is_echoed(&connection, b"x")).await;
        all.push(connection);
    }
    server.close(7, b"bye");
    for connection in &all {
        let end = soon(connection.closed()).await;
        assert!(matches!(end, Closed::ByApplication { code: 7, .. }), "{end:?}");
    }
    soon(server.wait_idle()).await;
    assert!(soon(server.accept()).await.is_none());
}

/// Nobody joins a port that another server has, though that shares it among its own.
#[tokio::test]
async fn a_port_is_shared_with_nobody_else() {
    let server = sharded(false);
    let refused = SharedPort::bind(&TokioRuntime::current(), server.local_addr(), &several(), &SystemCalls);
    assert_eq!(refused.err().map(|error| error.kind()), Some(std::io::ErrorKind::AddrInUse));
}
