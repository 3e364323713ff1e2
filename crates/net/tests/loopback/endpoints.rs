//! Endpoints and connections: many on a socket, limits, the ways to end.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Context;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quickset_net::{
    Closed, ConnectError, Connection, ConnectionTotals, DatagramSocket, Endpoint, ExportError, Runtime,
    RuntimeTimer, SocketConfig, Stats, TokioRuntime,
};
use quickset_quic::{RetryPolicy, ServerConfig, TransportConfig, Version};

use crate::ends::{
    client, client_config, endpoint_config, loopback, pair, pair_on, pattern, server, server_config, soon,
};

/// What a client says as soon as it is connected leaves with the end of its handshake, though its task is the
/// runtime's own future: here that is a farewell, and all of the connection is two datagrams of the client's.
#[tokio::test]
async fn who_closes_at_once_is_heard_of() {
    // However slow the machine is, nobody takes anything for lost.
    let patient = TransportConfig::fixed_mtu(1200).with_initial_rtt(quickset_base::Duration::from_secs(20));
    let ends = server(server_config(patient.clone()));
    let near = client();
    let config = client_config(patient);
    let connection = soon(near.connect(ends.local_addr(), "localhost", &config)).await.unwrap();
    connection.close(42, b"done");
    let heard = soon(async { ends.accept().await.unwrap().closed().await }).await;
    assert_eq!(heard, Closed::ByApplication { code: 42, reason: b"done".to_vec() });
    assert_eq!(connection.stats().sent_datagrams, 2);
}

#[tokio::test]
async fn many_connections_share_a_socket() {
    const COUNT: usize = 100;
    let (server, client) = (server(server_config(TransportConfig::fixed_mtu(1200))), client());
    let to = server.local_addr();
    let serving = tokio::spawn(async move {
        for _ in 0..COUNT {
            let connection = server.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut send, mut recv) = connection.accept_bi().await.unwrap();
                let all = recv.read_to_end(1 << 20).await.unwrap();
                send.write_chunk(all.into()).await.unwrap();
                send.finish().unwrap();
                connection.closed().await
            });
        }
        server
    });
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..COUNT {
        let client = client.clone();
        tasks.spawn(async move {
            let connection = client
                .connect(to, "localhost", &client_config(TransportConfig::fixed_mtu(1200)))
                .await
                .unwrap();
            let data = pattern(1000 + 100 * n);
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
            assert!(recv.read_to_end(1 << 20).await.unwrap() == data);
            connection.close(0, b"");
        });
    }
    soon(async { while tasks.join_next().await.transpose().unwrap().is_some() {} }).await;
    soon(client.wait_idle()).await;
    let server = soon(serving).await.unwrap();
    soon(server.wait_idle()).await;
    assert_eq!((client.counters().connected, server.counters().accepted), (COUNT as u64, COUNT as u64));
}

/// What connections did is counted while they are there and when they are gone, and never twice.
#[tokio::test]
async fn an_endpoint_tells_what_its_connections_did() {
    let (server, client) = (server(server_config(TransportConfig::fixed_mtu(1200))), client());
    let config = client_config(TransportConfig::fixed_mtu(1200));
    let mut past = server.stats().totals();
    assert_eq!((past, server.stats().live), (ConnectionTotals::default(), vec![]));
    for n in 1..=3u64 {
        let ours = soon(client.connect(server.local_addr(), "localhost", &config)).await.unwrap();
        let theirs = soon(server.accept()).await.unwrap();
        let mut send = ours.open_uni().await.unwrap();
        send.write_all(&pattern(100_000)).await.unwrap();
        send.finish().unwrap();
        let mut recv = soon(theirs.accept_uni()).await.unwrap();
        assert_eq!(soon(recv.read_to_end(100_000)).await.unwrap().len(), 100_000);

        let now = server.stats();
        assert_eq!((now.ended.connections, now.live.len(), now.totals().connections), (n - 1, 1, n));
        assert!(now.totals().received_bytes - past.received_bytes > 100_000);
        let others = |all: ConnectionTotals, one: &Stats| all.sent_packets - one.sent_packets;
        assert_eq!(others(now.totals(), &now.live[0]), past.sent_packets);
        ours.close(0, b"");
        soon(theirs.closed()).await;
        drop((ours, theirs));
        soon(server.wait_idle()).await;
        let then = server.stats();
        assert_eq!((then.ended.connections, then.live.len()), (n, 0));
        assert!(then.totals().received_bytes >= now.totals().received_bytes);
        // Each datagram went, and came, in one of the calls.
        assert_eq!(then.sent.datagrams(), then.totals().sent_datagrams);
        assert!(then.received.datagrams() >= then.totals().received_datagrams);
        assert!(then.received.datagrams() > 50 * n && then.received.calls() > 0);
        past = then.totals();
    }
}

/// By segmentation offload, where the system has it, and by calls that take all that came.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn many_datagrams_go_and_come_with_one_call() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut send = ends.client.open_uni().await.unwrap();
    let writing = tokio::spawn(async move {
        send.write_all(&pattern(2_000_000)).await.unwrap();
        send.finish().unwrap();
    });
    let mut recv = soon(ends.server.accept_uni()).await.unwrap();
    assert!(soon(recv.read_to_end(2_000_000)).await.unwrap() == pattern(2_000_000));
    soon(writing).await.unwrap();
    let (sent, received) = (ends.client_endpoint.stats().sent, ends.server_endpoint.stats().received);
    for calls in [sent, received] {
        assert!(calls.datagrams() > 1500 && calls.datagrams() > 2 * calls.calls(), "{calls:?}");
    }
}

#[tokio::test]
async fn clients_beyond_the_limit_are_refused() {
    let mut config = server_config(TransportConfig::fixed_mtu(1200));
    config.max_connections = 1;
    let ends = pair_on(server(config), client(), TransportConfig::fixed_mtu(1200)).await;
    let to = ends.server_endpoint.local_addr();
    let config = client_config(TransportConfig::fixed_mtu(1200));
    let second = soon(ends.client_endpoint.connect(to, "localhost", &config)).await;
    assert!(matches!(second, Err(ConnectError::Failed(Closed::ByPeer(_)))), "{second:?}");
    assert_eq!(ends.server_endpoint.counters().refused, 1);
    // With the first gone there is room again.
    ends.client.close(0, b"");
    soon(ends.server_endpoint.wait_idle()).await;
    soon(ends.client_endpoint.connect(to, "localhost", &config)).await.unwrap();
}

#[tokio::test]
async fn a_server_that_wants_proof_of_address_gets_it() {
    let mut config = server_config(TransportConfig::fixed_mtu(1200));
    config.retry = RetryPolicy::Always;
    let ends = pair_on(server(config), client(), TransportConfig::fixed_mtu(1200)).await;
    assert_eq!(ends.server_endpoint.counters().retries, 1);
    talk(&ends.client, &ends.server).await;
    // A later connection has a token of the first.
    let (to, config) = (ends.server_endpoint.local_addr(), client_config(TransportConfig::fixed_mtu(1200)));
    soon(ends.client_endpoint.connect(to, "localhost", &config)).await.unwrap();
    assert_eq!(ends.server_endpoint.counters().retries, 1);
}

/// RFC 9369 §5: a token is good in the version of its connection, which may have become another one: told by
/// a Version Negotiation packet, or within the handshake.
#[tokio::test]
async fn a_token_is_shown_in_its_own_version() {
    let swapped = vec![Version::V2, Version::V1];
    let told = (TransportConfig::fixed_mtu(1200), vec![Version::V2]);
    let chosen =
        TransportConfig::fixed_mtu(1200).with_versions(swapped.clone()).with_first_version(Some(Version::V1));
    for (transport, spoken) in [told, (chosen, swapped)] {
        let mut config = server_config(TransportConfig::fixed_mtu(1200).with_versions(spoken));
        config.retry = RetryPolicy::Always;
        let ends = pair_on(server(config), client(), transport.clone()).await;
        talk(&ends.client, &ends.server).await;
        let before = ends.server_endpoint.counters();
        let (to, config) = (ends.server_endpoint.local_addr(), client_config(transport));
        soon(ends.client_endpoint.connect(to, "localhost", &config)).await.unwrap();
        let after = ends.server_endpoint.counters();
        assert_eq!(after.retries, before.retries, "the token spares the Retry");
        assert_eq!(after.version_negotiations, before.version_negotiations, "begun as the last one ended");
    }
}

#[tokio::test]
async fn both_sides_learn_why_a_connection_ended() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let (client, server) = (ends.client.clone(), ends.server.clone());
    let waits = tokio::spawn(async move { client.accept_uni().await.map(|stream| stream.id()) });
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    server.close(42, b"enough");
    let by_server = Closed::ByApplication { code: 42, reason: b"enough".to_vec() };
    assert_eq!(soon(ends.client.closed()).await, by_server);
    assert_eq!(soon(waits).await.unwrap(), Err(by_server.clone()), "a task that waits for a stream is told");
    assert_eq!(soon(send.write(b"late")).await, Err(by_server.clone().into()));
    assert_eq!(soon(ends.client.open_bi()).await.err(), Some(by_server));
    assert_eq!(soon(ends.server.closed()).await, Closed::Locally);
    soon(ends.client_endpoint.wait_idle()).await;
    soon(ends.server_endpoint.wait_idle()).await;
}

#[tokio::test]
async fn what_arrived_before_the_end_can_still_be_read() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    soon(send.write_all(b"last words")).await.unwrap();
    send.finish().unwrap();
    let mut recv = soon(ends.server.accept_uni()).await.unwrap();
    soon(send.finished()).await.unwrap();
    ends.client.close(1, b"");
    soon(ends.server.closed()).await;
    assert_eq!(soon(recv.read_to_end(100)).await.unwrap(), b"last words");
}

#[tokio::test]
async fn the_last_handle_closes_the_connection() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let stream = soon(ends.client.open_uni()).await.unwrap();
    drop(ends.client);
    assert_eq!(ends.server.close_reason(), None, "the stream is a handle as well");
    drop(stream);
    assert_eq!(soon(ends.server.closed()).await, Closed::ByApplication { code: 0, reason: vec![] });
}

/// Whoever comes and goes while nobody accepts leaves nothing: the limit on connections is one on what is
/// kept, too.
#[tokio::test]
async fn what_ended_before_it_was_accepted_is_not_kept() {
    let server =
        server(ServerConfig { max_connections: 2, ..server_config(TransportConfig::fixed_mtu(1200)) });
    let (client, config) = (client(), client_config(TransportConfig::fixed_mtu(1200)));
    let connect = || soon(client.connect(server.local_addr(), "localhost", &config));
    for _ in 0..5 {
        drop((connect().await.unwrap(), connect().await.unwrap()));
        soon(server.wait_idle()).await;
    }
    let _last = connect().await.unwrap();
    let mut taken = 0;
    loop {
        taken += 1;
        if soon(server.accept()).await.unwrap().close_reason().is_none() {
            break;
        }
    }
    assert_eq!(taken, 1, "the others are no more");
}

/// Who keeps a handle of a connection that is over keeps no port.
#[tokio::test]
async fn the_port_is_free_once_an_endpoint_has_ended() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let address = ends.server_endpoint.local_addr();
    ends.client.close(0, b"");
    soon(ends.server.closed()).await;
    drop(ends.server_endpoint);
    let free = async {
        while std::net::UdpSocket::bind(address).is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(free).await;
    assert!(ends.server.close_reason().is_some());
}

#[tokio::test]
async fn an_endpoint_closes_with_all_its_connections() {
    let (server_end, client_end) = (server(server_config(TransportConfig::fixed_mtu(1200))), client());
    let first = pair_on(server_end.clone(), client_end.clone(), TransportConfig::fixed_mtu(1200)).await;
    let second = pair_on(server_end.clone(), client_end.clone(), TransportConfig::fixed_mtu(1200)).await;
    server_end.close(7, b"going down");
    let expected = Closed::ByApplication { code: 7, reason: b"going down".to_vec() };
    assert_eq!(soon(first.client.closed()).await, expected);
    assert_eq!(soon(second.client.closed()).await, expected);
    assert!(soon(server_end.accept()).await.is_none());
    let config = client_config(TransportConfig::fixed_mtu(1200));
    let late = soon(client_end.connect(server_end.local_addr(), "localhost", &config)).await;
    assert!(matches!(late, Err(ConnectError::Failed(Closed::ByPeer(_)))), "new clients are refused");
    soon(server_end.wait_idle()).await;
    client_end.close(0, b"");
    let none = soon(client_end.connect(loopback(), "localhost", &config)).await;
    assert_eq!(none.err(), Some(ConnectError::Stopped));
}

#[tokio::test]
async fn a_shutdown_waits_for_those_that_end_by_themselves() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let endpoint = ends.server_endpoint.clone();
    let down = tokio::spawn(async move { endpoint.shutdown(Duration::from_secs(20)).await });
    assert!(soon(ends.server_endpoint.accept()).await.is_none(), "nobody is taken any more");
    talk(&ends.client, &ends.server).await;
    ends.client.close(0, b"");
    assert!(soon(down).await.unwrap(), "all ended by themselves");
}

#[tokio::test]
async fn a_shutdown_without_patience_closes() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    assert!(!soon(ends.server_endpoint.shutdown(Duration::ZERO)).await);
    assert_eq!(soon(ends.client.closed()).await, Closed::ByApplication { code: 0, reason: vec![] });
}

#[tokio::test]
async fn a_peer_that_vanishes_is_noticed() {
    let (tell, told) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let host = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connection = runtime.block_on(async {
            let server = server(server_config(TransportConfig::fixed_mtu(1200)));
            tell.send(server.local_addr()).unwrap();
            let connection = server.accept().await.unwrap();
            stopped.await.unwrap();
            connection
        });
        // The power fails.
        drop(runtime);
        connection.close_reason()
    });
    let transport = TransportConfig::fixed_mtu(1200).with_idle_timeout(Duration::from_secs(2));
    let to = told.recv().unwrap();
    let connection = soon(client().connect(to, "localhost", &client_config(transport))).await.unwrap();
    stop.send(()).unwrap();
    assert_eq!(soon(connection.closed()).await, Closed::TimedOut);
    assert_eq!(host.join().unwrap(), Some(Closed::Abandoned), "handles without a driver know");
}

#[tokio::test]
async fn nobody_at_the_other_end() {
    let silent = std::net::UdpSocket::bind(loopback()).unwrap();
    let transport = TransportConfig::fixed_mtu(1200).with_handshake_timeout(Duration::from_millis(200));
    let endpoint = client();
    let to = silent.local_addr().unwrap();
    let result = soon(endpoint.connect(to, "localhost", &client_config(transport))).await;
    assert_eq!(result.err(), Some(ConnectError::Failed(Closed::TimedOut)));
    soon(endpoint.wait_idle()).await;
}

#[tokio::test]
async fn an_attempt_to_connect_that_is_dropped_leaves_nothing() {
    let silent = std::net::UdpSocket::bind(loopback()).unwrap();
    let endpoint = client();
    let config = client_config(TransportConfig::fixed_mtu(1200));
    let to = silent.local_addr().unwrap();
    let attempt = endpoint.connect(to, "localhost", &config);
    assert!(tokio::time::timeout(Duration::from_millis(20), attempt).await.is_err());
    soon(endpoint.wait_idle()).await;
}

#[tokio::test]
async fn without_segmentation_offload() {
    let socket = SocketConfig { segmentation_offload: false, ..SocketConfig::default() };
    let server = Endpoint::bind(
        loopback(),
        &socket,
        endpoint_config(1),
        Some(server_config(TransportConfig::fixed_mtu(1200))),
    );
    let client = Endpoint::bind(loopback(), &socket, endpoint_config(2), None).unwrap();
    let ends = pair_on(server.unwrap(), client, TransportConfig::fixed_mtu(1200)).await;
    talk(&ends.client, &ends.server).await;
}

/// The sender's socket is full most of the time, and the receiver's drops what does not fit.
#[tokio::test]
async fn small_socket_buffers_cost_nothing_but_time() {
    let socket = SocketConfig { buffer: 8 << 10, ..SocketConfig::default() };
    let server_config = Some(server_config(TransportConfig::fixed_mtu(1200)));
    let server = Endpoint::bind(loopback(), &socket, endpoint_config(1), server_config).unwrap();
    let client = Endpoint::bind(loopback(), &socket, endpoint_config(2), None).unwrap();
    let ends = pair_on(server, client, TransportConfig::fixed_mtu(1200)).await;
    for _ in 0..5 {
        talk(&ends.client, &ends.server).await;
    }
}

/// tokio, and how often a driver wished to be polled again instead of sleeping.
#[derive(Debug)]
struct YieldCounter {
    tokio: TokioRuntime,
    yields: AtomicU32,
}

impl Runtime for YieldCounter {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.tokio.spawn(task);
    }

    fn timer(&self, at: Instant) -> Pin<Box<dyn RuntimeTimer>> {
        self.tokio.timer(at)
    }

    fn wrap(&self, socket: UdpSocket, config: &SocketConfig) -> io::Result<Arc<dyn DatagramSocket>> {
        self.tokio.wrap(socket, config)
    }

    fn yield_now(&self, cx: &mut Context<'_>) {
        self.yields.fetch_add(1, Ordering::Relaxed);
        self.tokio.yield_now(cx);
    }
}

#[tokio::test]
async fn where_answers_are_near_a_driver_polls_on_unless_told_to_sleep() {
    for (busy_poll, polls_on) in [(Duration::from_secs(1), true), (Duration::ZERO, false)] {
        let counter = YieldCounter { tokio: TokioRuntime::current(), yields: AtomicU32::new(0) };
        let counter = Arc::new(counter);
        let socket = SocketConfig { busy_poll, ..SocketConfig::default() };
        let bind = |secret, server| {
            Endpoint::with_runtime(counter.clone(), loopback(), &socket, endpoint_config(secret), server)
                .unwrap()
        };
        let transport = TransportConfig::fixed_mtu(1200);
        let server = bind(1, Some(server_config(transport.clone())));
        let ends = pair_on(server, bind(2, None), transport).await;
        let begun = counter.yields.load(Ordering::Relaxed);
        let polled_on = || counter.yields.load(Ordering::Relaxed) > begun;
        for _ in 0..20 {
            talk(&ends.client, &ends.server).await;
        }
        if polls_on {
            // A busy machine may be slow for a while.
            let talks = async {
                while !polled_on() {
                    talk(&ends.client, &ends.server).await;
                }
            };
            soon(talks).await;
        }
        assert_eq!(polled_on(), polls_on, "up to {busy_poll:?}");
    }
}

#[tokio::test]
async fn over_ipv6_and_both() {
    let at = |address: &str| {
        let config = Some(server_config(TransportConfig::fixed_mtu(1200)));
        Endpoint::bind(address.parse().unwrap(), &SocketConfig::default(), endpoint_config(1), config)
    };
    let Ok(server) = at("[::1]:0") else {
        eprintln!("no IPv6 here");
        return;
    };
    let any = Endpoint::client(endpoint_config(3)).unwrap();
    let ends = pair_on(server, any.clone(), TransportConfig::fixed_mtu(1200)).await;
    talk(&ends.client, &ends.server).await;
    assert!(ends.server.remote_address().is_ipv6());

    // The same socket of a client reaches IPv4, and a server on the wildcard address is reached by it.
    let both = at("[::]:0").unwrap();
    let to = ([127, 0, 0, 1], both.local_addr().port()).into();
    let config = client_config(TransportConfig::fixed_mtu(1200));
    let (client, server) =
        soon(async { tokio::join!(any.connect(to, "localhost", &config), both.accept()) }).await;
    let (client, server) = (client.unwrap(), server.unwrap());
    talk(&client, &server).await;
    assert!(server.remote_address().is_ipv4(), "{}", server.remote_address());
    let from_v4 = self::client().connect(([0, 0, 0, 0, 0, 0, 0, 1], 9).into(), "localhost", &config).await;
    assert!(matches!(from_v4, Err(ConnectError::Family(_))), "{from_v4:?}");
    // Nor does one on an address of IPv6, or on all of them and no others, reach IPv4.
    let alone = SocketConfig { dual_stack: false, ..SocketConfig::default() };
    for (address, socket) in [("[::1]:0", SocketConfig::default()), ("[::]:0", alone)] {
        let endpoint = Endpoint::bind(address.parse().unwrap(), &socket, endpoint_config(4), None).unwrap();
        let from_v6 = soon(endpoint.connect(to, "localhost", &config)).await;
        assert!(matches!(from_v6, Err(ConnectError::Family(_))), "{address}: {from_v6:?}");
    }
}

/// A zone is of use for link-local addresses; the system leaves it out of others.
#[tokio::test]
async fn an_address_may_say_a_zone_that_it_does_not_need() {
    let config = Some(server_config(TransportConfig::fixed_mtu(1200)));
    let Ok(server) =
        Endpoint::bind("[::1]:0".parse().unwrap(), &SocketConfig::default(), endpoint_config(1), config)
    else {
        eprintln!("no IPv6 here");
        return;
    };
    let SocketAddr::V6(mut to) = server.local_addr() else { unreachable!("it was bound so") };
    // The loopback's, the first interface of all systems.
    to.set_scope_id(1);
    let any = Endpoint::client(endpoint_config(3)).unwrap();
    let connection =
        soon(any.connect(to.into(), "localhost", &client_config(TransportConfig::fixed_mtu(1200)))).await;
    assert_eq!(connection.unwrap().remote_address(), server.local_addr());
}

#[tokio::test]
async fn keys_are_updated_and_pings_answered() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    talk(&ends.client, &ends.server).await;
    soon(async {
        while !ends.client.update_keys() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    talk(&ends.client, &ends.server).await;
    assert_eq!(ends.client.stats().key_updates, 1);
    let before = ends.server.stats().received_packets;
    ends.client.ping();
    soon(async {
        while ends.server.stats().received_packets == before {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (mut a, mut b) = ([0; 32], [1; 32]);
    ends.client.export_keying_material(b"label", b"context", &mut a).unwrap();
    ends.server.export_keying_material(b"label", b"context", &mut b).unwrap();
    assert_eq!(a, b);
    ends.client.close(0, b"");
    soon(ends.client.closed()).await;
    assert_eq!(ends.client.export_keying_material(b"label", b"context", &mut a), Err(ExportError));
}

/// 100 kB there and back.
async fn talk(client: &Connection, server: &Connection) {
    let data = Bytes::from(pattern(100_000));
    let asked = async {
        let (mut send, mut recv) = client.open_bi().await?;
        send.write_chunk(data.clone()).await?;
        send.finish()?;
        Ok::<_, Box<dyn Error>>(recv.read_to_end(1 << 20).await?)
    };
    let answered = async {
        let (mut send, mut recv) = server.accept_bi().await?;
        let all = recv.read_to_end(1 << 20).await?;
        send.write_all(&all).await?;
        send.finish()?;
        Ok::<_, Box<dyn Error>>(all)
    };
    let (there, back) = soon(async { tokio::join!(asked, answered) }).await;
    assert!(back.expect("the server answers") == data && there.expect("an answer") == data);
}
