//! The seam: endpoints in runtimes that are not tokio, and over sockets that are not the system's.

mod ends;
mod poller;
mod process;
mod simulated;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quickset_net::{
    Closed, ConnectError, Connection, DatagramSocket, Endpoint, Obstacle, Runtime, SocketConfig,
};
use quickset_quic::{DatagramConfig, EcnState, ServerConfig};

use ends::{
    Ends, all, both, client_config, endpoint_config, exchange, exchange_with, pattern, server_config,
    with_datagrams,
};
use poller::PollerRuntime;
use process::{Wire, Wires};
use simulated::SimulatedRuntime;

fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Two endpoints on the loopback of the system, in a runtime of threads and `async-io`.
fn over_the_system(runtime: &Arc<PollerRuntime>) -> Ends {
    let bind = |secret, server| {
        let runtime = runtime.clone();
        let socket = SocketConfig::default();
        Endpoint::with_runtime(runtime, loopback(), &socket, endpoint_config(secret), server)
            .expect("the loopback has free ports")
    };
    Ends { server: bind(1, Some(server_config())), client: bind(2, None) }
}

/// Two endpoints in one process and in virtual time, over a pair of sockets.
fn in_process(runtime: &Arc<SimulatedRuntime>, wires: &Wires) -> Ends {
    let over = |wire: &Arc<Wire>, secret, server| {
        Endpoint::over(runtime.clone(), wire.clone(), endpoint_config(secret), server).expect("entropy")
    };
    Ends { server: over(&wires.server, 1, Some(server_config())), client: over(&wires.client, 2, None) }
}

#[test]
fn another_runtime_drives_endpoints_over_the_sockets_of_the_system() {
    let runtime = Arc::new(PollerRuntime::default());
    let (length, limit) = (2_000_000, Duration::from_secs(30));
    let ends = over_the_system(&runtime);
    let exchanged = PollerRuntime::block_on_until(limit, exchange(&ends, length)).expect("in time");
    assert_eq!(exchanged.stream, pattern(length));
    assert_eq!(exchanged.messages, [Bytes::from_static(b"one"), Bytes::from_static(b"two")]);
    if cfg!(target_os = "linux") {
        // The system's socket is the same in each runtime: offload, marks.
        let sent = ends.client.stats().sent;
        assert!(sent.datagrams() > sent.calls(), "{sent:?}");
        let ecn = exchanged.stats.ecn;
        assert_eq!(ecn.state, EcnState::Capable, "{ecn:?}");
    }
    // Dropping the endpoints ends their tasks.
    let drained = PollerRuntime::block_on_until(limit, async {
        exchanged.connection.close(0, b"");
        drop(exchanged);
        assert!(ends.client.shutdown(Duration::from_secs(20)).await);
    });
    assert!(drained.is_some(), "in time");
    drop(ends);
    assert!(runtime.is_idle_within(limit), "the drivers have ended");
}

/// What the network says comes over the poller of that runtime, too.
#[cfg(target_os = "linux")]
#[test]
fn another_runtime_hears_of_closed_ports() {
    let runtime = Arc::new(PollerRuntime::default());
    let ends = over_the_system(&runtime);
    let closed = std::net::UdpSocket::bind(loopback()).and_then(|socket| socket.local_addr()).unwrap();
    let begun = Instant::now();
    let connecting = async { ends.client.connect(closed, "localhost", &client_config()).await };
    let failed =
        PollerRuntime::block_on_until(Duration::from_secs(30), connecting).expect("in time").unwrap_err();
    let ConnectError::Failed(Closed::Unreachable(refusal)) = failed else { panic!("{failed}") };
    assert_eq!(refusal.obstacle, Obstacle::Port);
    // Without it, this is when the handshake times out.
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// The socket of an endpoint is replaced within a runtime that this thread is not of.
#[test]
fn another_runtime_takes_a_new_socket() {
    let runtime = Arc::new(PollerRuntime::default());
    let ends = over_the_system(&runtime);
    let before = ends.client.local_addr();
    let limit = Duration::from_secs(30);
    let first = PollerRuntime::block_on_until(limit, exchange(&ends, 1000)).expect("in time");
    ends.client.rebind(loopback(), &SocketConfig::default()).unwrap();
    assert_ne!(ends.client.local_addr(), before);
    let echoed = PollerRuntime::block_on_until(limit, first.again(pattern(50_000)));
    assert_eq!(echoed.expect("in time"), pattern(50_000));
}

#[test]
fn a_pair_in_one_process_that_loses_every_seventh_completes_a_transfer() {
    let runtime = Arc::new(SimulatedRuntime::default());
    let wires = Wires::new(&runtime, 7);
    let ends = in_process(&runtime, &wires);
    let length = 1_000_000;
    let begun = runtime.time();
    let exchanged = runtime.block_on(exchange(&ends, length));
    assert_eq!(exchanged.stream, pattern(length));
    assert_eq!(exchanged.messages.len(), 2);
    let lost = wires.client.lost() + wires.server.lost();
    let carried = wires.client.carried() + wires.server.carried();
    assert!(lost > 50 && carried > 5 * lost, "{lost} of {carried}");
    assert!(exchanged.stats.lost_packets > 50, "{}", exchanged.stats.lost_packets);
    // By the runtime's clock, of which a minute is no second of ours: round trips are those of the pair.
    assert!(exchanged.stats.rtt >= Wire::DELAY * 2, "{:?}", exchanged.stats.rtt);
    assert!(runtime.time() - begun > Wire::DELAY * 6, "{:?}", runtime.time() - begun);
}

/// Idle timeouts, patience and pauses are hours of the runtime's clock, and none of ours.
#[test]
fn all_waiting_is_by_the_clock_of_the_runtime() {
    let runtime = Arc::new(SimulatedRuntime::default());
    let wires = Wires::new(&runtime, 0);
    let ends = in_process(&runtime, &wires);
    let passed = |since| runtime.time() - since;
    let exchanged = runtime.block_on(exchange(&ends, 1000));
    let begun = runtime.time();
    runtime.block_on(exchanged.connection.round_trip());
    assert!((Wire::DELAY * 2..Wire::DELAY * 4).contains(&passed(begun)), "{:?}", passed(begun));
    // Nobody closes it: patience ends before the timeout of what is idle.
    let (begun, patience) = (runtime.time(), Duration::from_secs(10));
    assert!(!runtime.block_on(ends.server.shutdown(patience)));
    assert!((patience..patience + Duration::from_secs(5)).contains(&passed(begun)), "{:?}", passed(begun));
    assert!(matches!(runtime.block_on(exchanged.connection.closed()), Closed::ByApplication { .. }));

    let wires = Wires::new(&runtime, 0);
    let ends = in_process(&runtime, &wires);
    let exchanged = runtime.block_on(exchange(&ends, 1000));
    let begun = runtime.time();
    assert_eq!(runtime.block_on(exchanged.connection.closed()), Closed::TimedOut);
    assert!(passed(begun) > Duration::from_secs(20), "{:?}", passed(begun));
    assert!(runtime.block_on(ends.client.shutdown(Duration::from_secs(3600))), "nothing is left");
}

/// What a socket says of the size that it takes is heeded as what the system says.
#[test]
fn a_socket_that_refuses_sizes_is_understood() {
    let runtime = Arc::new(SimulatedRuntime::default());
    let wires = Wires::new(&runtime, 0);
    let ends = in_process(&runtime, &wires);
    let exchanged = runtime.block_on(exchange(&ends, 1000));
    for wire in [&wires.client, &wires.server] {
        wire.takes_at_most(1200);
    }
    let echoed = runtime.block_on(exchanged.again(pattern(200_000)));
    assert_eq!(echoed, pattern(200_000));
    let stats = exchanged.connection.stats();
    assert_eq!((stats.mtu.current, stats.lost_packets), (1200, 0));
    assert!(stats.refused_datagrams > 0);
}

/// A socket that is full wakes who sends, and nothing is lost of what waited.
#[test]
fn a_socket_without_room_is_waited_for() {
    let runtime = Arc::new(SimulatedRuntime::default());
    let wires = Wires::new(&runtime, 0);
    wires.client.has_room_for(3);
    wires.server.has_room_for(3);
    let ends = in_process(&runtime, &wires);
    let exchanged = runtime.block_on(exchange(&ends, 200_000));
    assert_eq!(exchanged.stream, pattern(200_000));
    assert!(wires.client.was_full() > 10 && exchanged.stats.lost_packets == 0);
}

/// What acknowledges an answer goes along with the next request, if that is written as soon as the answer is
/// read.
#[test]
fn acknowledgements_go_along_with_what_is_written_at_once() {
    let sent = datagrams_of_requests(Wire::DELAY);
    assert!((REQUESTS..REQUESTS + REQUESTS / 5).contains(&sent), "{sent} datagrams");
}

/// Where the peer is near it may as well work on them meanwhile.
#[test]
fn acknowledgements_of_who_had_nothing_to_do_leave_at_once_where_the_peer_is_near() {
    let sent = datagrams_of_requests(Duration::from_micros(100));
    assert!((2 * REQUESTS - REQUESTS / 5..=2 * REQUESTS + REQUESTS / 5).contains(&sent), "{sent} datagrams");
}

const REQUESTS: u64 = 50;

/// What a client sends for so many, one after the other. An answer is four packets, of which every second is
/// to be acknowledged at once (RFC 9000 §13.2.2).
fn datagrams_of_requests(delay: Duration) -> u64 {
    let runtime = Arc::new(SimulatedRuntime::default());
    let wires = Wires::far(&runtime, delay, 0);
    let ends = in_process(&runtime, &wires);
    let exchanged = runtime.block_on(exchange(&ends, 1000));
    runtime.block_on(exchanged.connection.round_trip());
    let before = exchanged.connection.stats().sent_datagrams;
    let asks = async {
        for _ in 0..REQUESTS {
            let (mut send, mut recv) = exchanged.connection.open_bi().await.expect("it is open");
            send.finish_with(b"what").await.expect("it is read");
            assert_eq!(recv.read_to_end(10_000).await.expect("all of it comes").len(), 5000);
        }
    };
    let answers = async {
        for _ in 0..REQUESTS {
            let (mut send, mut recv) = exchanged.peer.accept_bi().await.expect("it is open");
            assert_eq!(recv.read_to_end(100).await.expect("all of it comes"), b"what");
            send.finish_with(&pattern(5000)).await.expect("it is read");
        }
    };
    runtime.block_on(both(asks, answers));
    assert_eq!(exchanged.connection.stats().lost_packets, 0);
    exchanged.connection.stats().sent_datagrams - before
}

/// A reader that takes what there is when it is told finds all of it, though its queue is much shorter than
/// what a turn of the driver may receive: that tells before there are too many.
#[test]
fn datagrams_that_come_fast_are_told_before_they_are_too_many() {
    const N: usize = 20_000;
    let runtime = Arc::new(SimulatedRuntime::default());
    let wires = Wires::new(&runtime, 0);
    let ends = in_process(&runtime, &wires);
    // 88 are what a call of the system brings here: eight packets with eleven each.
    let config = DatagramConfig::default().with_receive_count(200);
    let client = with_datagrams(client_config(), config);
    let exchanged = runtime.block_on(exchange_with(&ends, &client, 1000));
    let sends = async {
        let mut data = (0..N).map(|_| Bytes::from_static(&[7; 100])).collect();
        exchanged.peer.send_datagrams(&mut data).await.expect("it is open");
    };
    let reads = async {
        let (mut took, mut got) = (0, Vec::new());
        while took < N {
            took += exchanged.connection.read_datagrams(&mut got, usize::MAX).await.expect("it is open");
            got.clear();
        }
        took
    };
    let ((), took) = runtime.block_on(both(sends, reads));
    let stats = exchanged.connection.stats().datagrams;
    assert_eq!((took, stats.received, stats.dropped, stats.unread), (N, N as u64, 0, 0));
}

/// Who does not read loses the oldest, and keeps nobody waiting: the driver lets it read once.
#[test]
fn datagrams_that_nobody_reads_hold_nothing_up() {
    const N: u64 = 20_000;
    let runtime = Arc::new(SimulatedRuntime::default());
    let wires = Wires::new(&runtime, 0);
    let ends = in_process(&runtime, &wires);
    let client = with_datagrams(client_config(), DatagramConfig::default().with_receive_count(200));
    let exchanged = runtime.block_on(exchange_with(&ends, &client, 1000));
    let took = |n: u64| {
        let begun = runtime.time();
        let flood = async {
            let mut data = (0..n).map(|_| Bytes::from_static(&[7; 100])).collect();
            exchanged.peer.send_datagrams(&mut data).await.expect("it is open");
            while exchanged.peer.unsent_datagrams().0 > 0 {
                exchanged.peer.round_trip().await;
            }
        };
        let (echoed, ()) = runtime.block_on(both(exchanged.again(pattern(1000)), flood));
        assert_eq!(echoed, pattern(1000));
        runtime.block_on(exchanged.connection.round_trip());
        runtime.time() - begun
    };
    let alone = took(0);
    let beside = took(N);
    let stats = exchanged.connection.stats().datagrams;
    assert_eq!((stats.received, stats.dropped, stats.unread), (N, N - 200, 200));
    // It was waited for, a millisecond, and then no more: 227 calls of the system bring all of them.
    assert!(beside < alone + Duration::from_millis(200), "{alone:?}, and {beside:?}");
    assert_eq!(exchanged.peer.stats().lost_packets, 0);
    // A reader is there again: all that is sent from here on is read.
    let (mut got, mut took) = (Vec::new(), 0);
    while let Some(old) = exchanged.connection.try_read_datagram() {
        got.push(old);
    }
    assert_eq!(got.len(), 200);
    let sends = async {
        let mut data = (0..N).map(|_| Bytes::from_static(&[7; 100])).collect();
        exchanged.peer.send_datagrams(&mut data).await.expect("it is open");
    };
    let reads = async {
        while took < N {
            exchanged.connection.read_datagram().await.expect("it is open");
            took += 1;
        }
    };
    runtime.block_on(both(sends, reads));
    assert_eq!(exchanged.connection.stats().datagrams.dropped, N - 200);
}

/// What a socket, or a runtime, need not know has an answer.
#[test]
fn a_socket_may_leave_out_what_it_does_not_know() {
    let runtime = Arc::new(SimulatedRuntime::default());
    let wires = Wires::new(&runtime, 0);
    let socket: &dyn DatagramSocket = &*wires.client;
    assert!(socket.reaches_v4() && socket.hear_errors(true).is_err() && socket.hear_errors(false).is_ok());
    let wrapped = runtime.wrap(std::net::UdpSocket::bind(loopback()).unwrap(), &SocketConfig::default());
    assert_eq!(wrapped.unwrap_err().kind(), std::io::ErrorKind::Unsupported);
}

/// Three hundred connections that begin to send together would have 4 MB on the way at once, where there is
/// room for 3 MB: they take turns instead, and nothing is lost.
#[test]
fn connections_to_one_address_share_what_its_socket_has_room_for() {
    const N: usize = 300;
    let runtime = Arc::new(SimulatedRuntime::default());
    let wires = Wires::far(&runtime, Duration::from_micros(50), 0);
    wires.server.holds(3_000_000);
    let over = |wire: &Arc<Wire>, secret, server| {
        Endpoint::over(runtime.clone(), wire.clone(), endpoint_config(secret), server).expect("entropy")
    };
    let many = ServerConfig { max_connections: N, ..server_config() };
    let (server, client) = (over(&wires.server, 1, Some(many)), over(&wires.client, 2, None));
    let (to, config) = (server.local_addr(), client_config());
    runtime.block_on(async {
        let connects = all((0..N).map(|_| client.connect(to, "localhost", &config)));
        let (sources, sinks) = both(connects, all((0..N).map(|_| server.accept()))).await;
        let content = pattern(100_000);
        let send = async |source: Result<Connection, _>| {
            let source = source.expect("a handshake");
            let mut stream = source.open_uni().await.expect("it is open");
            stream.write_all(&content).await.expect("it is read");
            stream.finish().expect("it is open");
            stream.finished().await.expect("all has arrived");
        };
        let receive = async |sink: Option<Connection>| {
            let sink = sink.expect("an open endpoint");
            let mut stream = sink.accept_uni().await.expect("it is open");
            assert!(stream.read_to_end(content.len()).await.expect("all of it comes") == content);
            sink
        };
        both(all(sources.into_iter().map(send)), all(sinks.into_iter().map(receive))).await;
    });
    assert_eq!(wires.client.lost(), 0, "of {}", wires.client.carried());
}
