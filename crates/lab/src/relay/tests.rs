use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use quickset_base::{Ecn, Time};
use quickset_sim::{Fate, Link, LinkSpec, SendResult};

use super::Relay;

fn spec(text: &str) -> LinkSpec {
    text.parse().unwrap()
}

fn bound() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

/// What arrives: numbers with the times since `started`, and the last sender. It waits for `expected`
/// datagrams, on a busy machine for long, and a little for any beyond.
fn drain(
    socket: &UdpSocket,
    expected: usize,
    started: Instant,
) -> (Vec<(u32, Duration)>, Option<std::net::SocketAddr>) {
    let (mut got, mut sender) = (Vec::new(), None);
    let mut buffer = [0; 2048];
    loop {
        let patience = if got.len() < expected { 20_000 } else { 60 };
        socket.set_read_timeout(Some(Duration::from_millis(patience))).unwrap();
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { return (got, sender) };
        got.push((number(&buffer[..len]), started.elapsed()));
        sender = Some(from);
    }
}

/// Waits until it holds, twenty seconds at most.
fn until(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(20), "it does not come true");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A server sees a client at another port, whose answers go to the client, and no more to where it was
/// before.
#[test]
fn a_client_that_is_bound_anew_is_another_to_its_server() {
    let (server, client) = (bound(), bound());
    let relay = Relay::start(server.local_addr().unwrap(), spec(""), spec(""), 1).unwrap();
    let started = Instant::now();
    let mut ports = Vec::new();
    for n in 1..4 {
        send(&client, relay.address(), 1, 100);
        let (got, sender) = drain(&server, 1, started);
        assert_eq!(got.len(), 1);
        ports.extend(sender);
        let answer = |n: usize| server.send_to(&[n as u8, 0, 0, 0], ports[n - 1]).unwrap();
        (1..=n).for_each(|n| {
            answer(n);
        });
        let (got, _) = drain(&client, 1, started);
        assert_eq!(got.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [n as u32], "of {ports:?}");
        relay.rebind();
    }
    assert!(ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2], "{ports:?}");
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
            matches!(link.send(at, 100, Ecn::NotEct), SendResult::Known(Fate::Dropped(_)))
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
    let (got, _) = drain(&server, 30, started);
    assert_eq!(got.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..30).collect::<Vec<_>>());
    for (n, at) in got {
        // 8000 bits at 10 Mbit/s are 800 µs each, one behind the other.
        let model = Duration::from_micros(20_000 + 800 * (u64::from(n) + 1));
        assert!(at >= model, "packet {n} came after {at:?}, before its time {model:?}");
    }
    until(|| relay.lateness().packets() == 30);
}

#[test]
fn the_losses_are_those_of_the_simulator_in_each_direction() {
    let server = bound();
    let link = spec("delay=1ms loss=10%");
    let relay = Relay::start(server.local_addr().unwrap(), link.clone(), link.clone(), 7).unwrap();
    let client = bound();
    // So few that they wait in a socket's buffer if nobody gets round to reading.
    let n = 200;
    let (up, down) = (lost(&link, 7, 0, n), lost(&link, 7, 1, n));
    assert!((5..50).contains(&up.len()), "{} of {n} are lost", up.len());
    assert_ne!(up, down);
    let arrived = |got: Vec<(u32, Duration)>| got.into_iter().map(|(n, _)| n).collect::<BTreeSet<_>>();

    send(&client, relay.address(), n, 100);
    let (got, back) = drain(&server, n as usize - up.len(), Instant::now());
    assert_eq!(arrived(got), (0..n).filter(|n| !up.contains(n)).collect());
    send(&server, back.unwrap(), n, 100);
    let (got, _) = drain(&client, n as usize - down.len(), Instant::now());
    assert_eq!(arrived(got), (0..n).filter(|n| !down.contains(n)).collect());
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
    // Until the relay has read all of them.
    until(|| relay.counts()[0].sent == 95);
    let [up, down] = relay.counts();
    let (got, _) = drain(&server, (up.passed + up.duplicated) as usize, Instant::now());
    assert_eq!(up.sent, 95);
    assert_eq!(up.sent, up.oversized + up.overflowed + up.lost + up.passed);
    assert_eq!(up.oversized, 5);
    assert!(up.overflowed > 0, "{up:?}");
    assert_eq!(got.len() as u64, up.passed + up.duplicated);
    until(|| relay.in_flight() == 0);
    assert_eq!(relay.forwarded(), [up.passed + up.duplicated, 0]);
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
        let (got, from) = drain(&server, 2, Instant::now());
        assert_eq!(got.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 2]);
        seen.push(from.unwrap());
    }
    assert_ne!(seen[0], seen[1]);
    send(&server, seen[1], 1, 10);
    assert_eq!(drain(&two, 1, Instant::now()).0.len(), 1);
    assert_eq!(drain(&one, 0, Instant::now()).0.len(), 0);
}

#[test]
fn what_waits_for_its_fate_leaves_when_the_link_has_decided() {
    let server = bound();
    // 1000 bytes last 1 ms. CoDel knows what becomes of a packet when it comes to its turn; nobody waits
    // for a whole second, so all of them get through.
    let up = spec("rate=8mbit delay=5ms queue=codel:1ms,1s,9MB");
    let relay = Relay::start(server.local_addr().unwrap(), up, LinkSpec::default(), 1).unwrap();
    let client = bound();
    let started = Instant::now();
    send(&client, relay.address(), 40, 1000);
    let (got, _) = drain(&server, 40, started);
    assert_eq!(got.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    for (n, at) in got {
        let model = Duration::from_millis(5 + u64::from(n) + 1);
        assert!(at >= model, "packet {n} came after {at:?}, before its time {model:?}");
    }
    until(|| relay.in_flight() == 0);
    assert_eq!(relay.forwarded(), [40, 0]);

    // With no patience, CoDel drops of a burst, and what it drops is no longer under way.
    let up = spec("rate=8mbit queue=codel:0,1us,9MB");
    let relay = Relay::start(server.local_addr().unwrap(), up, LinkSpec::default(), 1).unwrap();
    send(&client, relay.address(), 40, 1000);
    until(|| relay.counts()[0].sent == 40 && relay.in_flight() == 0);
    let [up, _] = relay.counts();
    assert!(up.aqm > 0, "{up:?}");
    assert_eq!((up.aqm + up.passed, relay.forwarded()), (40, [up.passed, 0]));
}
