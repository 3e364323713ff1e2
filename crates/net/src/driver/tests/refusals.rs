//! What the system says to what is sent reaches the connection that it is about, and no other.

use nix::errno::Errno;
use quickset_quic::{Closed, Obstacle, TransportConfig};

use super::*;

fn config(transport: TransportConfig) -> ClientConfig {
    ClientConfig { crypto: Arc::new(NullClient::new(&[b"test"])), transport: Arc::new(transport) }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), what).await.expect("in time")
}

/// The port of a socket that is no more.
fn closed_port(address: &str) -> SocketAddr {
    UdpSocket::bind(address).unwrap().local_addr().unwrap()
}

async fn obstacle(connection: &Connection) -> Obstacle {
    match soon(connection.closed()).await {
        Closed::Unreachable(refusal) => refusal.obstacle,
        other => panic!("{other}"),
    }
}

/// The system tells it to whoever asks the socket for anything next; and a dual-stack socket knows IPv4 in
/// IPv6 clothes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_port_is_told_to_whom_it_concerns_at_once() {
    let (server, address) = driver();
    tokio::spawn(server);
    for (seed, from) in [(3, "[::]:0"), (4, "0.0.0.0:0"), (5, "127.0.0.1:0")] {
        let client = driver_of(socket(from.parse().unwrap()), router(None, seed));
        let hub = client.hub.clone();
        tokio::spawn(client);
        // Longer than this test has patience.
        let slow = TransportConfig::fixed_mtu(1200)
            .with_handshake_timeout(Duration::from_secs(100))
            .with_initial_rtt(Duration::from_secs(20));
        let closed = || closed_port(if from.starts_with('[') { "[::1]:0" } else { "127.0.0.1:0" });
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let waits = hub.connect(silent.local_addr().unwrap(), "localhost", &config(slow.clone())).unwrap();
        for closed in [closed(), closed_port("127.0.0.1:0"), closed()] {
            let nobody = hub.connect(closed, "localhost", &config(slow.clone())).unwrap();
            let server = hub.connect(address, "localhost", &config(slow.clone())).unwrap();
            assert_eq!(obstacle(&nobody).await, Obstacle::Port, "{from} to {closed}");
            soon(server.connected()).await.unwrap();
            let mut stream = server.open_uni().await.unwrap();
            soon(stream.write_all(&vec![7; 100_000])).await.unwrap();
            stream.finish().unwrap();
            assert_eq!(soon(stream.stopped()).await, Ok(None));
            let stats = server.stats();
            assert_eq!((stats.refused_datagrams, stats.lost_packets), (0, 0), "{from}");
        }
        assert!(waits.shared().lock().conn.closed().is_none(), "nobody has said anything about it");
    }
}

#[tokio::test]
async fn sizes_follow_what_the_system_takes() {
    let (driver, address, socket) = driver_and_socket();
    let hub = driver.hub.clone();
    tokio::spawn(driver);
    let large = TransportConfig::fixed_mtu(1452);
    let connection = hub.connect(address, "localhost", &config(large)).unwrap();
    soon(connection.connected()).await.unwrap();
    assert_eq!(connection.stats().mtu.current, 1452);
    socket.hitch.most.store(1400, Ordering::Relaxed);
    let mut stream = connection.open_uni().await.unwrap();
    soon(stream.write_all(&vec![7; 1_000_000])).await.unwrap();
    stream.finish().unwrap();
    assert_eq!(soon(stream.stopped()).await, Ok(None), "all of it arrived");
    let stats = connection.stats();
    assert_eq!((stats.mtu.current, stats.lost_packets), (1200, 0));
    assert!(stats.refused_datagrams > 0);
    assert!(socket.max_segments() > 1, "several at a time still leave together");
}

#[tokio::test]
async fn a_route_that_is_not_there_is_waited_for_a_little() {
    let (driver, address, socket) = driver_and_socket();
    let hub = driver.hub.clone();
    tokio::spawn(driver);
    let connect = || hub.connect(address, "localhost", &config(TransportConfig::fixed_mtu(1200))).unwrap();
    for (errno, expected) in [
        (Errno::ENETUNREACH, Obstacle::Route),
        (Errno::EPERM, Obstacle::Rule),
        (Errno::EMSGSIZE, Obstacle::Size),
    ] {
        socket.hitch.says.store(errno as i32, Ordering::Relaxed);
        assert_eq!(obstacle(&connect()).await, expected);
    }
    for errno in [Errno::ENETUNREACH, Errno::ENOBUFS] {
        socket.hitch.says.store(errno as i32, Ordering::Relaxed);
        let connection = connect();
        let refused = async {
            while connection.stats().refused_datagrams < 3 {
                tokio::task::yield_now().await;
            }
        };
        soon(refused).await;
        socket.hitch.says.store(0, Ordering::Relaxed);
        soon(connection.connected()).await.unwrap();
    }
}
