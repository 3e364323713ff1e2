use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use quickset_base::{Ecn, Time};
use quickset_sim::{Fate, Link, LinkSpec};

use super::Relay;

fn spec(text: &str) -> LinkSpec {
    text.parse().unwrap()
}

fn bound() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    socket
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

/// Sends while the other end reads: what waits for a reader must not outgrow the system's buffers.
fn send_and_drain(
    (from, to): (&UdpSocket, std::net::SocketAddr),
    at: &UdpSocket,
    n: u32,
) -> (BTreeSet<u32>, Option<std::net::SocketAddr>) {
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| drain(at, Instant::now()));
        send(from, to, n, 100);
        let (got, sender) = reader.join().unwrap();
        (got.into_iter().map(|(n, _)| n).collect(), sender)
    })
}

/// What arrives until nothing has for 400 ms: numbers with the times since `started`, and the last sender.
fn drain(socket: &UdpSocket, started: Instant) -> (Vec<(u32, Duration)>, Option<std::net::SocketAddr>) {
    let (mut got, mut sender) = (Vec::new(), None);
    let mut buffer = [0; 2048];
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        got.push((number(&buffer[..len]), started.elapsed()));
        sender = Some(from);
    }
    (got, sender)
}

/// Sends `n` numbered datagrams of `size` bytes, gently.
fn send(socket: &UdpSocket, to: std::net::SocketAddr, n: u32, size: usize) {
    for i in 0..n {
        let mut bytes = vec![0; size];
        bytes[..4].copy_from_slice(&i.to_le_bytes());
        socket.send_to(&bytes, to).unwrap();
        if i % 32 == 31 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The ordinals that the simulator's link loses.
fn lost(spec: &LinkSpec, seed: u64, direction: u64, n: u32) -> BTreeSet<u32> {
    let mut link = Link::new(spec.clone(), seed, direction);
    (0..n)
        .filter(|n| {
            let at = Time::from_millis(u64::from(*n));
            matches!(link.send(at, 100, Ecn::NotEct), Fate::Dropped(_))
        })
        .collect()
}

#[test]
fn packets_take_the_time_that_rate_and_delay_say() {
    let server = bound();
    let link = spec("rate=10mbit delay=20ms overhead=28");
    let relay = Relay::start(server.local_addr().unwrap(), link.clone(), link, 1).unwrap();
    let client = bound();
    let started = Instant::now();
    send(&client, relay.address(), 30, 972);
    let (got, _) = drain(&server, started);
    assert_eq!(got.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..30).collect::<Vec<_>>());
    for (n, at) in got {
        // 8000 bits at 10 Mbit/s are 800 µs each, one behind the other.
        let model = Duration::from_micros(20_000 + 800 * (u64::from(n) + 1));
        assert!(at >= model, "packet {n} came after {at:?}, before its time {model:?}");
        assert!(at < model + Duration::from_millis(300), "packet {n} came after {at:?} instead of {model:?}");
    }
    assert_eq!(relay.lateness().packets(), 30);
}

#[test]
fn the_losses_are_those_of_the_simulator_in_each_direction() {
    let server = bound();
    let link = spec("delay=1ms loss=10%");
    let relay = Relay::start(server.local_addr().unwrap(), link.clone(), link.clone(), 7).unwrap();
    let client = bound();
    let n = 400;
    let (got, back) = send_and_drain((&client, relay.address()), &server, n);
    let up = lost(&link, 7, 0, n);
    assert!((10..90).contains(&up.len()), "{} of {n} are lost", up.len());
    assert_eq!(got, (0..n).filter(|n| !up.contains(n)).collect());

    let (got, _) = send_and_drain((&server, back.unwrap()), &client, n);
    let down = lost(&link, 7, 1, n);
    assert_eq!(got, (0..n).filter(|n| !down.contains(n)).collect());
    assert_ne!(up, down);
}

#[test]
fn every_packet_is_accounted_for() {
    let server = bound();
    // 1000 bytes last 8 ms, and twenty of them fit: with packets sent at once some overflow.
    let up = spec("rate=1mbit delay=2ms queue=20kB loss=5% duplicate=5% mtu=1200");
    let relay = Relay::start(server.local_addr().unwrap(), up, LinkSpec::default(), 3).unwrap();
    let client = bound();
    send(&client, relay.address(), 90, 1000);
    send(&client, relay.address(), 5, 1201);
    let (got, _) = drain(&server, Instant::now());
    let [up, down] = relay.counts();
    assert_eq!(up.sent, 95);
    assert_eq!(up.sent, up.oversized + up.overflowed + up.lost + up.passed);
    assert_eq!(up.oversized, 5);
    assert!(up.overflowed > 40, "{up:?}");
    assert_eq!(got.len() as u64, up.passed + up.duplicated);
    assert_eq!((relay.forwarded(), relay.in_flight()), ([up.passed + up.duplicated, 0], 0));
    assert_eq!(down.sent, 0);
    if cfg!(target_os = "linux") {
        assert_eq!(relay.overruns(), Some(0));
    }
}

#[test]
fn scripted_losses_and_clients_of_their_own() {
    let server = bound();
    let up = spec("loss=list:0,3");
    let relay = Relay::start(server.local_addr().unwrap(), up, LinkSpec::default(), 1).unwrap();
    let (one, two) = (bound(), bound());
    // The clients share the link: ordinals 0 to 2 are the first one's, 3 to 5 the second one's.
    let mut seen = Vec::new();
    for client in [&one, &two] {
        send(client, relay.address(), 3, 10);
        let (got, from) = drain(&server, Instant::now());
        assert_eq!(got.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 2]);
        seen.push(from.unwrap());
    }
    assert_ne!(seen[0], seen[1]);
    send(&server, seen[1], 1, 10);
    assert_eq!(drain(&two, Instant::now()).0.len(), 1);
    assert_eq!(drain(&one, Instant::now()).0.len(), 0);
}
