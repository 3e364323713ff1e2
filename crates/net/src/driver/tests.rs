mod ahead;
#[cfg(unix)]
mod refusals;

use std::future::poll_fn;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use quickset_base::{AddressPair, Batch, Rng, Seed};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{ClientConfig, EndpointConfig, RetryPolicy, ServerConfig};

use quickset_quic as quic;

use super::*;
use crate::shards::ShardGroup;
use crate::socket::{Bound, SocketConfig};
use crate::tokio_runtime::{TokioRuntime, TokioWatch};
use crate::udp::SystemSocket;

fn router(server: Option<ServerConfig>, seed: u8) -> quic::Endpoint {
    let crypto = Arc::new(NullSecrets(1));
    let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 0 };
    quic::Endpoint::new(config, server, Rng::new(Seed([seed; 32])))
}

fn hello(to: SocketAddr, seed: u8) -> Vec<u8> {
    let crypto = Arc::new(NullClient::new(&[b"test"]));
    let config = ClientConfig { crypto, transport: Arc::default() };
    let begun = router(None, seed).connect(Time::ZERO, &config, AddressPair::to(to), "localhost", Vec::new());
    let mut client = quic::Connection::new(begun.unwrap().1).unwrap();
    let mut batch = Batch::with_limit(1);
    while !matches!(client.poll(Time::ZERO, &mut batch), base::Poll::Send) {}
    batch.bytes().to_vec()
}

type TestSocket = SystemSocket<TokioWatch>;

fn driver() -> (Driver, SocketAddr) {
    let (driver, address, _) = driver_and_socket();
    (driver, address)
}

fn socket(address: SocketAddr) -> Arc<TestSocket> {
    let config = SocketConfig::default();
    let watch = TokioWatch::new(config.bind(address).unwrap()).unwrap();
    Arc::new(SystemSocket::new(watch, &config).unwrap())
}

fn driver_of(socket: Arc<dyn DatagramSocket>, router: quic::Endpoint) -> Driver {
    let runtime = Arc::new(TokioRuntime::current());
    let group = Arc::new(ShardGroup::new(1, true));
    let hub = Arc::new(Hub::new(Bound::of(&*socket), router, runtime, group.clone(), 0));
    group.assemble(std::iter::once(hub.door()));
    hub.lobby().endpoints = 1;
    Driver::new(hub, socket)
}

fn driver_and_socket() -> (Driver, SocketAddr, Arc<TestSocket>) {
    let server = ServerConfig {
        crypto: Arc::new(NullServer::new(&[b"test"])),
        transport: Arc::default(),
        max_connections: 10,
        retry: RetryPolicy::Never,
        retry_token_lifetime: Duration::from_secs(15),
        gate: None,
        token_lifetime: Duration::from_secs(15),
    };
    let socket = socket(([127, 0, 0, 1], 0).into());
    (driver_of(socket.clone(), router(Some(server), 0)), socket.local_addr(), socket)
}

fn client(to: SocketAddr, seed: u8) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_nonblocking(true).unwrap();
    client.send_to(&hello(to, seed), to).unwrap();
    client
}

/// What is sent while handshakes wait is received in the next turn, whose handshakes are those of others.
#[tokio::test]
async fn what_comes_is_received_while_handshakes_wait() {
    let (mut driver, address) = driver();
    let clients = [1, 2, 3, 4].map(|seed| client(address, seed));
    let mut late = None;
    let turns = poll_fn(|cx| {
        assert!(driver.turn(cx).is_pending());
        let (known, waiting) =
            (driver.roster.slots.iter().flatten().count(), driver.inlet.sorting.heavy.len());
        if late.is_none() && waiting > 1 {
            late = Some((client(address, 5), waiting));
        } else if let Some((_, before)) = &late {
            // Two had their turns, one came.
            assert_eq!((known, waiting), (clients.len() + 1, *before - 1));
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    tokio::time::timeout(Duration::from_secs(10), turns).await.expect("all are known");
}

/// The runtime ends while another thread, which saw the endpoint open, begins a connection.
#[tokio::test]
async fn what_begins_when_the_driver_has_ended_fails() {
    let (driver, address) = driver();
    let hub = driver.hub.clone();
    drop(driver);
    hub.lobby().open = true;
    let config = |protocols: &[&[u8]]| {
        let crypto = Arc::new(NullClient::new(protocols));
        ClientConfig { crypto, transport: Arc::default() }
    };
    let begun = hub.connect(address, "localhost", &config(&[b"test"])).unwrap();
    let end = tokio::time::timeout(Duration::from_secs(10), begun.closed()).await;
    assert_eq!(end, Ok(quic::Closed::Abandoned));
    // One that cannot begin is counted no more, and was not: the driver took all with it.
    hub.lobby().live[0] = 0;
    hub.one_less();
    assert_eq!(hub.lobby().connections(), 0);
}

/// Another thread saw the endpoint open a moment before it was closed.
#[tokio::test]
async fn what_begins_as_an_endpoint_closes_is_closed_too() {
    let (mut driver, address) = driver();
    let hub = driver.hub.clone();
    hub.line().wake_driver(Some(ClosingWords { code: Some(7), reason: bytes::Bytes::new() }));
    let config = ClientConfig { crypto: Arc::new(NullClient::new(&[b"test"])), transport: Arc::default() };
    let late = poll_fn(|cx| {
        assert!(driver.turn(cx).is_pending());
        Poll::Ready(hub.connect(address, "localhost", &config).unwrap())
    })
    .await;
    tokio::spawn(driver);
    let end = tokio::time::timeout(Duration::from_secs(10), late.closed()).await;
    assert_eq!(end, Ok(quic::Closed::Locally));
}

/// Errors of datagrams that were sent, as some systems tell them to who receives (ICMP).
#[tokio::test]
async fn a_socket_that_failed_for_a_while_is_asked_again() {
    let (driver, address, socket) = driver_and_socket();
    let hub = driver.hub.clone();
    socket.hitch.fails.store(true, Ordering::Relaxed);
    tokio::spawn(driver);
    let _client = client(address, 1);
    let heard = async {
        while socket.hitch.refused.load(Ordering::Relaxed) < MAX_FAILURES {
            tokio::task::yield_now().await;
        }
        socket.hitch.fails.store(false, Ordering::Relaxed);
        while hub.lobby().connections() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), heard).await.expect("the hello is received");
}

/// A device that is stuck, a shaper at no rate: the system keeps all that it was given, and has no room for
/// more.
#[tokio::test]
async fn a_socket_without_room_stops_no_clocks() {
    let (driver, address, socket) = driver_and_socket();
    let hub = driver.hub.clone();
    socket.hitch.is_full.store(true, Ordering::Relaxed);
    let driver = tokio::spawn(driver);
    let config = || {
        let transport = quickset_quic::TransportConfig::fixed_mtu(1200)
            .with_handshake_timeout(Duration::from_millis(100));
        ClientConfig { crypto: Arc::new(NullClient::new(&[b"test"])), transport: Arc::new(transport) }
    };
    let all = async {
        let attempts = [1, 2, 3].map(|_| hub.connect(address, "localhost", &config()).unwrap());
        for attempt in &attempts {
            // Whoever's datagram the system had for too long knows why.
            match attempt.closed().await {
                quic::Closed::TimedOut => {}
                quic::Closed::Unreachable(refusal) => assert_eq!(refusal.obstacle, quic::Obstacle::Room),
                other => panic!("{other}"),
            }
        }
        attempts[0].close(0, b"");
        drop(attempts);
        hub.lobby().endpoints = 0;
        hub.line().wake_driver(None);
        driver.await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("all ends");
}

#[tokio::test]
async fn what_waits_for_room_leaves_once_there_is_some() {
    let (driver, address, socket) = driver_and_socket();
    let hub = driver.hub.clone();
    socket.hitch.is_full.store(true, Ordering::Relaxed);
    tokio::spawn(driver);
    // Nothing is sent again by a clock while this test has patience.
    let transport = quickset_quic::TransportConfig::fixed_mtu(1200).with_initial_rtt(Duration::from_secs(20));
    let crypto = Arc::new(NullClient::new(&[b"test"]));
    let config = ClientConfig { crypto, transport: Arc::new(transport) };
    let attempt = hub.connect(address, "localhost", &config).unwrap();
    while socket.hitch.refused.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    socket.hitch.is_full.store(false, Ordering::Relaxed);
    // As the system would, if that were its word.
    hub.line().wake_driver(None);
    tokio::time::timeout(Duration::from_secs(10), attempt.connected()).await.expect("in time").unwrap();
    assert_eq!(attempt.stats().ptos, 0, "nothing was lost");
}

/// A driver on another thread that is as fast as can be: whoever wakes it waits until it has done all there
/// is.
struct Eager {
    driver: Mutex<Option<Driver>>,
    again: AtomicBool,
    /// It has waited for a reader of datagrams.
    waited: AtomicBool,
}

impl Eager {
    fn start(driver: Driver) -> Arc<Self> {
        let driver = Mutex::new(Some(driver));
        let eager = Arc::new(Self { driver, again: AtomicBool::new(false), waited: AtomicBool::new(false) });
        eager.clone().wake();
        eager
    }

    /// Before the runtime does.
    fn end(&self) {
        let driver = self.driver.lock().unwrap().take();
        drop(driver);
    }
}

impl Wake for Eager {
    fn wake(self: Arc<Self>) {
        self.again.store(true, Ordering::SeqCst);
        // Who holds the lock looks again.
        let Ok(mut driver) = self.driver.try_lock() else { return };
        let Some(driver) = &mut *driver else { return };
        while self.again.swap(false, Ordering::SeqCst) {
            let _ = driver.turn(&mut Context::from_waker(&self.clone().into()));
            self.waited.fetch_or(driver.inlet.pause.is_some(), Ordering::SeqCst);
        }
    }
}

/// A client's connection and the server's, whose driver is polled with what it does.
async fn both_ends(hub: &Hub, address: SocketAddr) -> (Connection, Connection) {
    let client = crate::Endpoint::client(EndpointConfig {
        crypto: Arc::new(NullSecrets(2)),
        connection_id_len: 8,
        resets_per_second: 0,
    });
    let crypto = Arc::new(NullClient::new(&[b"test"]));
    let config = ClientConfig { crypto, transport: Arc::default() };
    let ours = client.unwrap().connect(address, "localhost", &config).await.unwrap();
    loop {
        let accepted = hub.lobby().accepted.pop_front();
        match accepted {
            Some(theirs) => break (ours, theirs),
            None => tokio::task::yield_now().await,
        }
    }
}

/// What became of a stream before it was accepted is told between that and its first handle.
#[tokio::test]
async fn what_is_told_as_a_stream_is_accepted_reaches_its_handle() {
    let (driver, address) = driver();
    let hub = driver.hub.clone();
    let eager = Eager::start(driver);
    let soon = async {
        let (ours, theirs) = both_ends(&hub, address).await;
        let (mut send, recv) = ours.open_bi().await.unwrap();
        send.write_all(b"x").await.unwrap();
        recv.stop(7);
        // It comes behind that.
        let mut uni = ours.open_uni().await.unwrap();
        uni.write_all(b"y").await.unwrap();
        theirs.accept_uni().await.unwrap();
        let (send, _recv) = theirs.accept_bi().await.unwrap();
        assert_eq!(send.stopped().await, Ok(Some(7)));
    };
    tokio::time::timeout(Duration::from_secs(10), soon).await.expect("it is told");
    eager.end();
}

/// Anybody may send datagrams to an application that has no use for them: that is not to stop the others.
#[tokio::test]
async fn a_driver_waits_for_readers_that_have_been_there() {
    let (driver, address) = driver();
    let hub = driver.hub.clone();
    let eager = Eager::start(driver);
    let soon = async {
        let (ours, theirs) = both_ends(&hub, address).await;
        for reads in [false, true] {
            // There is a reader from here on, for whom it waits a millisecond.
            while reads && theirs.try_read_datagram().is_some() {}
            let before = theirs.stats().datagrams.dropped;
            while theirs.stats().datagrams.dropped == before {
                let mut flood = (0..1000).map(|_| bytes::Bytes::from_static(b"x")).collect();
                ours.send_datagrams(&mut flood).await.unwrap();
                ours.round_trip().await;
            }
            assert_eq!(eager.waited.load(Ordering::SeqCst), reads);
        }
    };
    tokio::time::timeout(Duration::from_secs(10), soon).await.expect("there are many");
    eager.end();
}

/// Another thread begins a connection between the two steps in which one that has drained is let go.
#[tokio::test]
async fn who_leaves_takes_nobody_else_out_of_the_census() {
    let (driver, address) = driver();
    let hub = &driver.hub;
    let config = ClientConfig { crypto: Arc::new(NullClient::new(&[b"test"])), transport: Arc::default() };
    let old = hub.connect(address, "localhost", &config).unwrap();
    hub.router().signal(old.shared().key, Signal::Drained);
    let new = hub.connect(address, "localhost", &config).unwrap();
    assert_eq!(new.shared().key.index(), old.shared().key.index());
    hub.census().leave(old.shared(), &old.stats());
    let (ended, live) = hub.census().look();
    assert_eq!(ended.connections, 1);
    assert!(live.len() == 1 && Arc::ptr_eq(&live[0], new.shared()));
}

#[tokio::test]
async fn what_cannot_be_answered_begins_nothing() {
    let (mut driver, address) = driver();
    for (from, known) in [(0, 0), (1234, 1)] {
        let hello = hello(address, 1);
        let path = AddressPair::to(([127, 0, 0, 1], from).into());
        driver.inlet.buffers.put(0, path, base::Ecn::NotEct, &hello);
        let socket = driver.socket.clone();
        driver.route(1, &*socket);
        assert_eq!(driver.roster.slots.iter().flatten().count(), known, "from port {from}");
    }
}

/// Connections that shake hands, in the driver's roster.
fn beginners(driver: &mut Driver, address: SocketAddr, count: usize) -> Vec<Connection> {
    let config = ClientConfig { crypto: Arc::new(NullClient::new(&[b"test"])), transport: Arc::default() };
    let begin = || driver.hub.connect(address, "localhost", &config).unwrap();
    let begun: Vec<_> = (0..count).map(|_| begin()).collect();
    assert!(begun.iter().all(|connection| driver.roster.welcome(connection.shared())));
    begun
}

fn deliver(driver: &mut Driver, connection: &Connection, len: usize) {
    let path = AddressPair::to(([127, 0, 0, 1], 1).into());
    let mut row = vec![Datagram { path, ecn: base::Ecn::default(), bytes: bytes::BytesMut::zeroed(len) }];
    driver.roster.deliver(
        Time::ZERO,
        Some(connection.shared().key),
        &mut row,
        &mut driver.inlet.sorting.heavy,
    );
    assert!(row.is_empty());
}

#[tokio::test]
async fn a_burst_of_handshakes_is_kept_up_to_a_limit() {
    let (mut driver, address) = driver();
    let connections = beginners(&mut driver, address, 1000);
    let mut burst = |count: usize, len: usize| {
        (0..count).for_each(|n| deliver(&mut driver, &connections[n % connections.len()], len));
        let (kept, mut row) = (driver.inlet.sorting.heavy.len(), Vec::new());
        while driver.inlet.sorting.heavy.next(&mut row).is_some() {}
        assert_eq!((row.len(), driver.inlet.sorting.heavy.len()), (kept, 0));
        (kept, row.iter().map(|datagram| datagram.bytes.len()).sum::<usize>())
    };
    // A thousand clients that come back at once, each with a hello of two datagrams.
    assert_eq!(burst(2000, 1200).0, 2000);
    for len in [1, 1200, 65_507] {
        let (kept, memory) = burst(5000, len);
        assert!(kept >= 60 && memory <= 5_000_000, "{kept} of {len} bytes take {memory}");
    }
}

/// One that says the same all the time, since that costs it nothing.
#[tokio::test]
async fn no_handshake_keeps_others_waiting_by_sending_more() {
    let (mut driver, address) = driver();
    let connections = beginners(&mut driver, address, 3);
    for len in [100, 1200, 30_000] {
        (0..5000).for_each(|_| deliver(&mut driver, &connections[0], len));
        deliver(&mut driver, &connections[1], 1200);
        (0..5000).for_each(|_| deliver(&mut driver, &connections[0], len));
        deliver(&mut driver, &connections[2], 1200);
        let mut rows = Vec::new();
        let mut row = Vec::new();
        while let Some(key) = driver.inlet.sorting.heavy.next(&mut row) {
            rows.push((key, std::mem::take(&mut row).len()));
        }
        let wanted = [32.min((64 << 10) / len), 1, 1];
        let wanted: Vec<_> = connections.iter().map(|c| c.shared().key).zip(wanted).collect();
        assert_eq!(rows, wanted, "of {len} bytes");
    }
}

#[tokio::test]
async fn handshakes_are_answered_before_the_next_are_looked_at() {
    let (mut driver, address) = driver();
    let clients = [1, 2, 3, 4, 5].map(|seed| client(address, seed));
    let limit = std::time::Instant::now() + Duration::from_secs(10);
    let mut handled = 0;
    let turns = poll_fn(|cx| {
        assert!(driver.turn(cx).is_pending());
        let known = driver.roster.slots.iter().flatten().count();
        let before = std::mem::replace(&mut handled, known - driver.inlet.sorting.heavy.len());
        assert!(handled <= before + HANDSHAKES, "two in a turn");
        // Without another turn, whenever the system passes it on.
        while clients.iter().filter(|client| client.peek(&mut [0; 2000]).is_ok()).count() < handled {
            assert!(std::time::Instant::now() < limit, "{handled} had their turns, and not all are answered");
            std::thread::yield_now();
        }
        if handled == clients.len() {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    tokio::time::timeout(Duration::from_secs(10), turns).await.expect("all are answered");
}
