//! What comes that nobody asked for, and shards that do nothing any more.

use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use quickset_base::{AddressPair, Batch};
use quickset_quic::Closed;

use super::over_loopback::{
    CLIENTS, SHARDS, client_config, config, is_echoed, loopback, serve, sharded, sharded_on, soon,
};
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::runtime::{Runtime, RuntimeTimer};
use crate::socket::{DatagramSocket, ReceiveBuffers, ReceivedCount, SocketConfig, UnsentBatch};
use crate::tokio_runtime::TokioRuntime;

/// A client of a server, and which shard it is on.
struct ShardClient {
    _endpoint: Endpoint,
    connection: Connection,
    of: usize,
}

async fn come(server: &Endpoint) -> ShardClient {
    let endpoint = Endpoint::bind(loopback(), &SocketConfig::default(), config(2), None).unwrap();
    let before = server.hub().lobby().live.clone();
    let begun = endpoint.connect(server.local_addr(), "localhost", &client_config());
    let connection = soon(begun).await.unwrap();
    soon(is_echoed(&connection, b"x")).await;
    let live = server.hub().lobby().live.clone();
    let of = (0..SHARDS).find(|shard| live[*shard] > before[*shard]).expect("it is on one");
    ShardClient { _endpoint: endpoint, connection, of }
}

async fn all_come(server: &Endpoint) -> Vec<ShardClient> {
    let mut all = Vec::new();
    while all.len() < CLIENTS {
        all.push(come(server).await);
    }
    all
}

/// Sends datagrams to a server from a few ports, until it is seen to have had an effect.
async fn send_until(
    server: SocketAddr,
    mut next: impl FnMut(usize) -> Vec<u8>,
    mut seen: impl FnMut() -> bool,
) {
    let sockets: Vec<UdpSocket> = (0..8).map(|_| UdpSocket::bind(loopback()).unwrap()).collect();
    let until = Instant::now() + Duration::from_secs(30);
    let mut n = 0;
    while !seen() {
        assert!(Instant::now() < until, "in time");
        for _ in 0..64 {
            // What the system has no room for is lost, as it is meant to be.
            let _ = sockets[n % sockets.len()].send_to(&next(n), server);
            n += 1;
        }
        tokio::task::yield_now().await;
    }
}

/// What looks like a packet for an id of a shard, with a header of either kind.
fn forged(n: usize, shard: usize) -> Vec<u8> {
    let mut id = [0; 8];
    id[..2].copy_from_slice(&u16::try_from(shard + SHARDS * (n % 1000)).unwrap().to_be_bytes());
    id[2..].copy_from_slice(&n.to_be_bytes()[2..]);
    let mut datagram = if n % 2 == 0 { vec![0x40] } else { vec![0xe0, 0, 0, 0, 1, 8] };
    datagram.extend(id);
    datagram.resize(1200, 7);
    datagram
}

/// Ids of connections that are nowhere are answered by few resets, and are in nobody's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_ids_are_in_nobodys_way() {
    for is_steered in [cfg!(target_os = "linux"), false] {
        let server = sharded(is_steered);
        serve(&server);
        let all = all_come(&server).await;
        let began = Instant::now();
        let many = || server.counters().dropped > 20_000;
        send_until(server.local_addr(), |n| forged(n, n % SHARDS), many).await;
        let stats = server.stats();
        assert_eq!(stats.handed_over > 0, !is_steered, "{stats:?}");
        // As many as were saved, and those of each second since.
        let resets = 100 * (2 + began.elapsed().as_secs());
        assert!((1..=resets).contains(&stats.counters.resets_sent), "{}", stats.counters.resets_sent);
        assert_eq!(server.connections(), CLIENTS, "nothing was begun");
        for client in &all {
            soon(is_echoed(&client.connection, &vec![7; 20_000])).await;
        }
    }
}

/// Datagrams of a few bytes, which say nothing of a shard, or half of it. Linux gives them all to the first
/// socket: the program ends with 0 where there is nothing to load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tiny_datagrams_are_dropped_where_they_come() {
    for is_steered in [cfg!(target_os = "linux"), false] {
        let server = sharded(is_steered);
        serve(&server);
        let all = all_come(&server).await;
        let before = server.stats();
        let tiny = |n: usize| vec![u8::try_from(n % 251).unwrap(); n % 9];
        let many = || server.counters().dropped > before.counters.dropped + 20_000;
        send_until(server.local_addr(), tiny, many).await;
        let stats = server.stats();
        assert_eq!((stats.handed_over_lost, stats.counters.resets_sent), (0, 0));
        assert_eq!(stats.handed_over, before.handed_over, "what has no id is no other's");
        for client in &all {
            soon(is_echoed(&client.connection, &vec![7; 20_000])).await;
        }
    }
}

/// Streams that are begun only to be reset.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_resets_is_its_own_connections_affair() {
    for is_steered in [cfg!(target_os = "linux"), false] {
        let server = sharded(is_steered);
        serve(&server);
        let all = all_come(&server).await;
        let storm = come(&server).await;
        for n in 0..5000u64 {
            let (mut send, _recv) = soon(storm.connection.open_bi()).await.unwrap();
            soon(send.write_all(&[7; 100])).await.unwrap();
            send.reset(n);
            if n % 1000 == 0 {
                for client in &all {
                    soon(is_echoed(&client.connection, &[7; 2000])).await;
                }
            }
        }
        soon(is_echoed(&storm.connection, b"still there")).await;
        assert_eq!(server.connections(), CLIENTS + 1);
    }
}

/// Sockets of which one panics when they are told to, and the task that asks it.
#[derive(Debug)]
struct Fragile {
    tokio: TokioRuntime,
    breaks: Arc<AtomicBool>,
}

impl Runtime for Fragile {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.tokio.spawn(task);
    }

    fn timer(&self, at: Instant) -> Pin<Box<dyn RuntimeTimer>> {
        self.tokio.timer(at)
    }

    fn wrap(&self, socket: UdpSocket, config: &SocketConfig) -> std::io::Result<Arc<dyn DatagramSocket>> {
        Ok(Arc::new(FragileSocket { inner: self.tokio.wrap(socket, config)?, breaks: self.breaks.clone() }))
    }
}

#[derive(Debug)]
struct FragileSocket {
    inner: Arc<dyn DatagramSocket>,
    breaks: Arc<AtomicBool>,
}

impl DatagramSocket for FragileSocket {
    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut ReceiveBuffers,
        hurry: bool,
    ) -> Poll<std::io::Result<ReceivedCount>> {
        self.inner.poll_recv(cx, buffers, hurry)
    }

    fn poll_send(&self, cx: &mut Context<'_>, batch: &Batch) -> Poll<Result<(), UnsentBatch>> {
        self.inner.poll_send(cx, batch)
    }

    // The driver calls it with its router locked, so that this is the worst moment.
    fn send_response(&self, path: &AddressPair, bytes: &[u8]) -> std::io::Result<()> {
        // Those of a dead shard's clients have others answer at once: they are not to break as well.
        assert!(!self.breaks.swap(false, Ordering::SeqCst), "on purpose");
        self.inner.send_response(path, bytes)
    }
}

/// A shard whose driver panics, with its router locked, ends as any other that ends: its clients are reset
/// by those that are left, which go on and take whoever comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_panics_takes_nobody_else_with_it() {
    for is_steered in [cfg!(target_os = "linux"), false] {
        let breaks = Arc::new(AtomicBool::new(false));
        let runtime = Arc::new(Fragile { tokio: TokioRuntime::current(), breaks: breaks.clone() });
        let server = sharded_on(runtime.clone(), is_steered);
        serve(&server);
        let all = all_come(&server).await;
        // Whichever is the first to answer a packet of nobody's breaks; then none does any more.
        breaks.store(true, Ordering::SeqCst);
        let drivers = || server.hub().lobby().drivers;
        // One datagram alone, so that no more than one driver is asked.
        let stray = UdpSocket::bind(loopback()).unwrap();
        stray.send_to(&forged(0, all[0].of), server.local_addr()).unwrap();
        soon(async {
            while drivers() == SHARDS {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(drivers(), SHARDS - 1);
        let dead = all[0].of;
        for ShardClient { connection, of, .. } in &all {
            if *of == dead {
                connection.ping();
                assert_eq!(soon(connection.closed()).await, Closed::Reset);
            } else {
                soon(is_echoed(connection, &vec![7; 20_000])).await;
            }
        }
        for _ in 0..SHARDS {
            come(&server).await;
        }
        server.close(0, b"");
        soon(server.wait_idle()).await;
    }
}

/// A runtime of which a task can be left alone.
#[derive(Debug)]
struct Forgetful {
    tokio: TokioRuntime,
    hung: std::sync::Mutex<Vec<Arc<AtomicBool>>>,
}

impl Runtime for Forgetful {
    fn spawn(&self, mut task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let hung = Arc::new(AtomicBool::new(false));
        self.hung.lock().unwrap().push(hung.clone());
        tokio::spawn(std::future::poll_fn(move |cx| {
            if hung.load(Ordering::SeqCst) { Poll::Pending } else { task.as_mut().poll(cx) }
        }));
    }

    fn timer(&self, at: Instant) -> Pin<Box<dyn RuntimeTimer>> {
        self.tokio.timer(at)
    }

    fn wrap(&self, socket: UdpSocket, config: &SocketConfig) -> std::io::Result<Arc<dyn DatagramSocket>> {
        self.tokio.wrap(socket, config)
    }
}

/// A shard whose driver is never polled again has its own clients wait, and nobody else's; others take whom
/// the system gives them, and what is for the hung one is thrown away when it is much.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_hangs_is_waited_for_by_nobody_else() {
    for is_steered in [cfg!(target_os = "linux"), false] {
        let runtime =
            Arc::new(Forgetful { tokio: TokioRuntime::current(), hung: std::sync::Mutex::default() });
        let server = sharded_on(runtime.clone(), is_steered);
        serve(&server);
        let all = all_come(&server).await;
        let hung = all[0].of;
        runtime.hung.lock().unwrap()[hung].store(true, Ordering::SeqCst);
        // Also while it has its router: whoever may be its own is not asked about then.
        let router = (!is_steered).then(|| server.hubs()[hung].router());
        for client in all.iter().filter(|client| client.of != hung) {
            soon(is_echoed(&client.connection, &vec![7; 20_000])).await;
        }
        drop(router);
        let mut taken = 0;
        while taken < 8 {
            let endpoint = Endpoint::bind(loopback(), &SocketConfig::default(), config(2), None).unwrap();
            let begun = endpoint.connect(server.local_addr(), "localhost", &client_config());
            // Those that the system gives to the socket of the hung one have nobody who answers.
            if let Ok(Ok(connection)) = tokio::time::timeout(Duration::from_secs(2), begun).await {
                soon(is_echoed(&connection, b"y")).await;
                taken += 1;
            }
        }
        if !is_steered {
            let is_much = || server.hub().group().handed()[1] > 1000;
            send_until(server.local_addr(), |n| forged(2 * n, hung), is_much).await;
        }
        for client in all.iter().filter(|client| client.of != hung) {
            soon(is_echoed(&client.connection, &vec![7; 20_000])).await;
        }
    }
}
