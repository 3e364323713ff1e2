//! Beginnings and ends of connections, in virtual time.

use crate::common::{Setup, pattern};
use bytes::Bytes;
use quickset_base::{AddressPair, Duration, Time};
use quickset_quic::{Closed, Dir, Event, ReadError, RetryPolicy, StreamEvent};
use quickset_sim::address;

const LINK: &str = "rate=100mbit delay=20ms";

#[test]
fn retry_proves_the_address_for_one_more_round_trip() {
    let setup = Setup { retry: RetryPolicy::Always, ..Setup::new(1, LINK) };
    let mut pair = setup.connected();
    let took = pair.world.now().as_secs_f64();
    assert!((0.100..0.103).contains(&took), "two and a half round trips: {took}");
    assert_eq!(pair.server().node.endpoint().counters().retries, 1);
    let key = pair.key;
    let id = pair.client_mut().send(key, Dir::Uni, pattern(10_000));
    let server_key = pair.server_key();
    pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
}

#[test]
fn retry_works_under_loss() {
    for seed in quickset_sim::seeds(0..20) {
        let setup =
            Setup { retry: RetryPolicy::Always, ..Setup::new(seed, "rate=100mbit delay=20ms loss=20%") }
                .transport(|t| t.handshake_timeout = Duration::from_secs(60));
        setup.connected();
    }
}

/// RFC 9000 §8.1: a server whose flight is larger than thrice the client's hello waits for the client, and if
/// its first flight is lost, the client's probes unlock it (RFC 9002 §6.2.2.1).
#[test]
fn the_amplification_limit_delays_but_never_locks() {
    let pair = Setup { certificate: 12_000, ..Setup::new(1, LINK) }.connected();
    // 12,000 bytes of certificate against thrice 1200: the client has to answer before the rest may come.
    assert!(pair.world.now() >= Time::from_millis(100), "{}", pair.world.now());
    for lost in ["0", "0-1", "0-2", "1", "1-3", "0-5", "2,4,6"] {
        for down in [true, false] {
            let mut setup = Setup { certificate: 12_000, ..Setup::new(1, LINK) };
            setup.client.handshake_timeout = Duration::from_secs(60);
            setup.server.handshake_timeout = Duration::from_secs(60);
            let mut pair = setup.pair();
            let lossy = format!("rate=100mbit delay=20ms loss=list:{lost}").parse().expect("a link");
            let (from, to) = if down { (address(2), address(1)) } else { (address(1), address(2)) };
            let link = pair.world.add_link(lossy);
            pair.world.route(from, to, link);
            pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
            assert!(pair.world.now() < Time::from_millis(15_000), "{lost} {down}: {}", pair.world.now());
        }
    }
}

/// RFC 9002 §6.2.4: each of two probes carries the hello, so that one that arrives is enough.
#[test]
fn either_probe_begins_the_handshake() {
    for lost in ["0-1", "0,2"] {
        let mut pair = Setup::new(1, LINK).pair();
        let link = pair.world.add_link(format!("rate=100mbit delay=20ms loss=list:{lost}").parse().unwrap());
        pair.world.route(address(1), address(2), link);
        pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
        // The first probe timeout is three times the initial round trip of 333 ms; a server that had a PING
        // alone would answer that, and wait for the hello one round trip more.
        assert!(pair.world.now() < Time::from_millis(1080), "{lost}: {}", pair.world.now());
    }
}

/// The client's only acknowledgements of the handshake may come with the packet that ends it (RFC 9001 §4.9):
/// here the server's flight fits one datagram, and those behind it, with 1-RTT packets, are lost.
#[test]
fn the_handshake_gives_both_sides_a_round_trip_time() {
    for certificate in (100..900).step_by(50) {
        let mut pair = Setup { certificate, ..Setup::new(1, LINK) }.pair();
        let lossy = pair.world.add_link("rate=100mbit delay=20ms loss=list:1-9".parse().expect("a link"));
        pair.world.route(address(2), address(1), lossy);
        pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
        let (key, server_key) = (pair.key, pair.server_key());
        let client = pair.client_mut().connection(key).stats().rtt;
        let server = pair.server_mut().connection(server_key).stats().rtt;
        for rtt in [client, server] {
            let expected = Duration::from_millis(40)..Duration::from_millis(42);
            assert!(expected.contains(&rtt), "{rtt:?} with a certificate of {certificate} bytes");
        }
    }
}

#[test]
fn a_full_server_refuses_and_says_so() {
    let setup = Setup { max_connections: 1, ..Setup::new(1, LINK) };
    let mut pair = setup.connected();
    let now = pair.world.now();
    let second = pair
        .client_mut()
        .node
        .connect(now, &setup.client_config(), AddressPair::to(address(2)), "server")
        .expect("a connection begins");
    pair.until("refused", |p| p.client().closed.iter().any(|(key, _)| *key == second));
    let (_, why) = &pair.client().closed[0];
    assert!(
        matches!(why, Closed::ByPeer(e) if e.code == quickset_quic::TransportErrorCode::CONNECTION_REFUSED),
        "{why:?}"
    );
}

/// RFC 9000 §21.6: a handshake has its time.
#[test]
fn nobody_there_ends_in_a_timeout() {
    let mut pair = Setup::new(1, "rate=1mbit delay=10ms loss=100%").pair();
    pair.until("closed", |p| !p.client().closed.is_empty());
    assert_eq!(pair.client().closed[0].1, Closed::TimedOut);
    assert_eq!(pair.world.now(), Time::from_millis(10_000), "the handshake timeout");
}

#[test]
fn a_peer_that_falls_silent_is_given_up_and_forgotten() {
    let mut pair = Setup::new(1, LINK).connected();
    let key = pair.key;
    pair.client_mut().send(key, Dir::Uni, pattern(1_000_000));
    pair.pass(Duration::from_millis(50));
    for (a, b) in [(1, 2), (2, 1)] {
        let hole = pair.world.add_link("loss=100%".parse().expect("a link"));
        pair.world.route(address(a), address(b), hole);
    }
    pair.until("closed", |p| !p.client().closed.is_empty() && !p.server().closed.is_empty());
    pair.until("forgotten", |p| p.client().node.keys().count() + p.server().node.keys().count() == 0);
    assert!(pair.client().closed.iter().all(|(_, why)| *why == Closed::TimedOut));
    assert_eq!(pair.client().node.endpoint().connections(), 0);
}

/// RFC 9000 §10.2: a program that closes, waits for the end of the closing state and exits. The peer is idle,
/// asks for nothing, and hears of it although one or two of the packets that say so are lost.
#[test]
fn a_lost_farewell_is_not_waited_for_until_the_idle_timeout() {
    for (lost, probe_timeouts) in [("loss=0%", 0), ("loss=list:0", 1), ("loss=list:0-1", 2)] {
        for closer_is_client in [true, false] {
            let mut pair = Setup::new(1, LINK).connected();
            pair.pass(Duration::from_millis(500));
            let (from, to) = if closer_is_client { (1, 2) } else { (2, 1) };
            let link =
                pair.world.add_link(format!("rate=100mbit delay=20ms {lost}").parse().expect("a link"));
            pair.world.route(address(from), address(to), link);
            let (began, server_key, key) = (pair.world.now(), pair.server_key(), pair.key);
            let connection = if closer_is_client {
                pair.client_mut().connection(key)
            } else {
                pair.server_mut().connection(server_key)
            };
            connection.close(began, 7, b"done");
            let why = Closed::ByApplication { code: 7, reason: b"done".to_vec() };
            pair.until("heard", |p| {
                let peer = if closer_is_client { p.server() } else { p.client() };
                peer.closed.iter().any(|(_, closed)| *closed == why)
            });
            // RFC 9002 §6.2.1 with one sample of 40 ms, whose variation is half of it: 145 ms at most.
            let took = pair.world.now() - began;
            let most = Duration::from_millis(20 + 1) + probe_timeouts * Duration::from_millis(145);
            assert!(took <= most, "{lost} {closer_is_client}: {took:?}");
            pair.until("over", |p| p.client().node.keys().count() + p.server().node.keys().count() == 0);
            assert_eq!(pair.world.counts(link).sent, 3, "{lost}: it is said three times and no more");
            let over = pair.world.now() - began;
            assert!(over <= 3 * Duration::from_millis(145) + most, "{lost} {closer_is_client}: {over:?}");
        }
    }
}

#[test]
fn a_blackout_shorter_than_the_idle_timeout_is_survived() {
    let mut pair = Setup::new(3, "rate=20mbit delay=20ms queue=100kB").connected();
    let key = pair.key;
    let data = pattern(3_000_000);
    let id = pair.client_mut().send(key, Dir::Uni, data.clone());
    pair.pass(Duration::from_millis(300));
    let ways = [(1, 2), (2, 1)];
    let hole = pair.world.add_link("loss=100%".parse().expect("a link"));
    for (a, b) in ways {
        pair.world.route(address(a), address(b), hole);
    }
    pair.pass(Duration::from_secs(8));
    for (a, b) in ways {
        let link = pair.world.add_link("rate=20mbit delay=20ms queue=100kB".parse().expect("a link"));
        pair.world.route(address(a), address(b), link);
    }
    let server_key = pair.server_key();
    pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
    assert!(pair.server().received[&(server_key, id)] == data);
}

#[test]
fn keep_alive_keeps_and_its_absence_does_not() {
    let alive = Setup::new(1, LINK).transport(|t| t.keep_alive = Some(Duration::from_secs(5)));
    let mut pair = alive.connected();
    pair.pass(Duration::from_secs(120));
    assert!(pair.client().closed.is_empty() && pair.server().closed.is_empty());
    let mut pair = Setup::new(1, LINK).connected();
    pair.pass(Duration::from_secs(120));
    assert_eq!((pair.client().closed.len(), pair.server().closed.len()), (1, 1));
}

/// RFC 9000 §10.3: a server that restarted has lost its connections, and says so when it is spoken to.
#[test]
fn a_restarted_server_resets_what_it_does_not_know() {
    let setup = Setup::new(1, LINK);
    let mut pair = setup.connected();
    pair.pass(Duration::from_millis(200));
    // The same secrets, none of the connections.
    *pair.server_mut() = crate::common::Peer::new(2 * setup.seed + 2, Some(setup.server_config()));
    let key = pair.key;
    pair.client_mut().send(key, Dir::Uni, pattern(5_000));
    pair.until("closed", |p| !p.client().closed.is_empty());
    assert_eq!(pair.client().closed[0].1, Closed::Reset);
    let resets = pair.server().node.endpoint().counters().resets_sent;
    assert!((1..=5).contains(&resets), "one for each packet of the flight at most: {resets}");
}

#[test]
fn a_reader_that_stops_holds_the_writer_and_nothing_grows() {
    let setup = Setup::new(4, LINK).transport(|t| {
        t.stream_window = 100_000;
        t.max_stream_window = 200_000;
        t.max_connection_window = 300_000;
    });
    let mut pair = setup.connected();
    pair.server_mut().lazy = true;
    let key = pair.key;
    for _ in 0..4 {
        pair.client_mut().send(key, Dir::Uni, pattern(1_000_000));
    }
    pair.pass(Duration::from_secs(20));
    let server_key = pair.server_key();
    let bytes = pair.server_mut().connection(server_key).stats().received_bytes;
    assert!(bytes < 200_000, "{bytes} bytes went to a reader that took none of 150,000");
    assert!(pair.client().closed.is_empty());
}

/// RFC 9000 §20.2: codes are varints. A larger one is no reason to fall over, nor to say nothing.
#[test]
fn codes_beyond_what_the_wire_can_say_become_the_largest() {
    const LARGEST: u64 = (1 << 62) - 1;
    let mut pair = Setup::new(6, LINK).connected();
    pair.server_mut().lazy = true;
    let (key, server_key) = (pair.key, pair.server_key());
    let connection = pair.client_mut().connection(key);
    let id = connection.streams().open(Dir::Bi).expect("a stream");
    connection.send_stream(id).write(&mut Bytes::from_static(b"x")).expect("room");
    pair.pass(Duration::from_millis(50));
    let connection = pair.client_mut().connection(key);
    connection.send_stream(id).reset(u64::MAX).expect("it is open");
    connection.recv_stream(id).stop(1 << 62).expect("it is open");
    pair.until("stopped", |p| {
        p.server().events.contains(&Event::Stream(StreamEvent::Stopped { id, code: LARGEST }))
    });
    let read = pair.server_mut().connection(server_key).recv_stream(id).read(100);
    assert_eq!(read, Err(ReadError::Reset(LARGEST)));
    let now = pair.world.now();
    pair.client_mut().connection(key).close(now, u64::MAX, b"bye");
    pair.pass(Duration::from_millis(50));
    let why = Closed::ByApplication { code: LARGEST, reason: b"bye".to_vec() };
    assert_eq!(pair.server().closed, [(server_key, why)]);
}

/// RFC 9000 §11.2, §20.2: the codes are the application's.
#[test]
fn resets_and_stops_carry_their_codes() {
    let mut pair = Setup::new(5, LINK).connected();
    let (key, server_key) = (pair.key, pair.server_key());
    let (reset, stopped) = {
        let connection = pair.client_mut().connection(key);
        let reset = connection.streams().open(Dir::Uni).expect("a stream");
        connection.send_stream(reset).write(&mut Bytes::from_static(b"half a")).expect("room");
        let stopped = connection.streams().open(Dir::Uni).expect("a stream");
        connection.send_stream(stopped).write(&mut Bytes::from_static(b"too much")).expect("room");
        (reset, stopped)
    };
    pair.pass(Duration::from_millis(50));
    pair.client_mut().connection(key).send_stream(reset).reset(7).expect("it is open");
    pair.server_mut().connection(server_key).recv_stream(stopped).stop(9).expect("it is open");
    pair.pass(Duration::from_millis(100));
    let stop = Event::Stream(StreamEvent::Stopped { id: stopped, code: 9 });
    assert!(pair.client().events.contains(&stop), "{:?}", pair.client().events);
    let read = pair.server_mut().connection(server_key).recv_stream(reset).read(100);
    assert_eq!(read, Err(quickset_quic::ReadError::UnknownStream), "the reset was read by the application");
    assert!(pair.server().received.contains_key(&(server_key, reset)));
}

#[test]
fn many_connections_share_an_endpoint() {
    let setup = Setup { max_connections: 1000, ..Setup::new(6, "rate=1gbit delay=5ms") };
    let mut pair = setup.pair();
    for _ in 1..200 {
        let now = pair.world.now();
        pair.client_mut()
            .node
            .connect(now, &setup.client_config(), AddressPair::to(address(2)), "server")
            .expect("a connection begins");
    }
    pair.until("connected", |p| p.client().connected.len() == 200 && p.server().connected.len() == 200);
    let keys = pair.client().connected.clone();
    for (n, key) in keys.iter().enumerate() {
        pair.client_mut().send(*key, Dir::Uni, pattern(100 + n));
    }
    pair.until("received", |p| p.server().finished.len() == 200);
    let mut sizes: Vec<usize> = pair.server().received.values().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, (100..300).collect::<Vec<_>>());
}

/// A server that sends at once fills its window with packets that a client without the whole handshake cannot
/// read.
#[test]
fn early_data_does_not_keep_the_handshake_back() {
    let mut early = 0;
    for seed in 0..40 {
        let mut setup =
            Setup::new(seed, "rate=20mbit delay=20ms jitter=uniform:10ms loss=20%").transport(|t| {
                t.handshake_timeout = Duration::from_secs(60);
                t.idle_timeout = None;
            });
        setup.certificate = 3000;
        let mut pair = setup.pair();
        let mut opened = false;
        for _ in 0..400 {
            pair.pass(Duration::from_millis(5));
            let server = pair.server_mut();
            let Some(key) = server.node.keys().next() else { continue };
            if server.connection(key).streams().open(Dir::Uni).is_some_and(|id| {
                early += u32::from(!server.connection(key).is_established());
                server.send_on(key, id, pattern(60_000).into());
                true
            }) {
                opened = true;
                break;
            }
        }
        assert!(opened, "seed {seed}: no stream in two seconds");
        pair.until("delivered", |p| !p.client().finished.is_empty());
    }
    assert!(early > 10, "{early} streams before the handshake was through: too few to mean anything");
}
