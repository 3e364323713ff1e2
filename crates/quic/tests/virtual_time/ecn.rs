//! Explicit congestion notification: queues that mark, and paths that do not like marks (RFC 9000 §13.4).

use quickset_base::Duration;
use quickset_quic::{Algorithm, Dir, EcnState, EcnStats, Stats};
use quickset_sim::{LinkCounts, address};

use crate::common::{Pair, Setup, pattern};

fn setup(link: &str) -> Setup {
    Setup::new(3, link).transport(|t| {
        t.mtu = 1472;
        (t.stream_window, t.max_stream_window, t.max_connection_window) = (32 << 20, 32 << 20, 64 << 20);
    })
}

/// Sends so many bytes to the server; what the client counted then.
fn upload(pair: &mut Pair, bytes: usize) -> Stats {
    let (key, server) = (pair.key, pair.server_key());
    let id = pair.client_mut().send(key, Dir::Uni, pattern(bytes));
    pair.until("there", |p| p.server().finished.contains(&(server, id)));
    assert!(pair.server().received[&(server, id)] == pattern(bytes));
    stats(pair)
}

fn stats(pair: &mut Pair) -> Stats {
    let key = pair.key;
    pair.client_mut().connection(key).stats()
}

/// The way to the server.
fn up(pair: &Pair) -> LinkCounts {
    pair.world.counts(pair.up)
}

/// 20 Mbit/s and 50 ms, with a queue that marks what has waited 5 ms for 100 ms: no packet is lost, the queue
/// stays short, and the link busy. Without marks the same queue drops.
#[test]
fn marks_are_answered_as_losses_are() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Bbr] {
        let setup = setup("rate=20mbit delay=25ms queue=codel-ecn:5ms,100ms,9MB")
            .transport(|t| t.congestion = algorithm.clone());
        let mut pair = setup.connected();
        let (before, end) = (pair.world.now(), upload(&mut pair, 8_000_000));
        let took = pair.world.now().since(before);
        let link = up(&pair);
        assert_eq!((link.aqm, link.overflowed, end.lost_packets), (0, 0, 0), "{algorithm}: {link:?} {end:?}");
        assert_eq!(end.ecn.state, EcnState::Capable, "{algorithm}");
        assert!(end.ecn.ce > 0 && end.ecn.ce <= link.marked, "{algorithm}: {:?} {link:?}", end.ecn);
        // All but those whose acknowledgement is still under way.
        assert!(10 * (end.ecn.ce + 2) >= 9 * link.marked, "{algorithm}: {:?} {link:?}", end.ecn);
        let server = pair.server_key();
        let there = pair.server_mut().connection(server).stats().ecn;
        assert_eq!(there.received_ce, link.marked, "{algorithm}");
        assert!(end.rtt < Duration::from_millis(90), "{algorithm}: {:?}", end.rtt);
        assert!(took < Duration::from_millis(4_300), "{algorithm}: {took:?}");

        let mut deaf = setup.transport(|t| t.ecn = false).connected();
        let end = upload(&mut deaf, 5_000_000);
        assert_eq!(end.ecn, EcnStats::default(), "{algorithm}");
        assert!(up(&deaf).aqm > 0 && end.lost_packets > 0, "{algorithm}");
    }
}

/// A path that clears marks, or makes others of them, is found out by the first acknowledgement.
#[test]
fn marks_that_do_not_arrive_are_not_sent() {
    for what in ["erase", "ect1"] {
        let mut pair = setup(&format!("rate=20mbit delay=25ms queue=100kB ecn={what}")).connected();
        let end = upload(&mut pair, 1_000_000);
        assert_eq!(end.ecn.state, EcnState::Failed, "{what}");
        assert!((1..=12).contains(&end.ecn.sent), "{what}: {:?}", end.ecn);
        assert_eq!(end.ecn.ce, 0, "{what}");
    }
}

/// A path that drops what is marked costs each side its first flight.
#[test]
fn a_path_that_drops_marks_costs_one_flight() {
    let mut pair = setup("rate=20mbit delay=25ms queue=100kB ecn=drop").connected();
    // RFC 9002 §6.2.2: the client's first probe after thrice the assumed 333 ms, the server's alike.
    assert!(
        pair.world.now().since(quickset_base::Time::ZERO) < Duration::from_millis(2500),
        "{}",
        pair.world.now()
    );
    let end = upload(&mut pair, 1_000_000);
    assert!(!matches!(end.ecn.state, EcnState::Capable | EcnState::Testing), "{:?}", end.ecn);
    assert!(end.ecn.sent <= 3, "{:?}", end.ecn);
    assert!(end.ptos <= 2, "{end:?}");
    // One way only: the other side goes on marking.
    let mut half = setup("rate=20mbit delay=25ms queue=100kB ecn=drop");
    half.down = Some("rate=20mbit delay=25ms queue=100kB".parse().expect("a link"));
    let mut pair = half.connected();
    assert_ne!(upload(&mut pair, 1_000_000).ecn.state, EcnState::Capable);
    let server = pair.server_key();
    assert_eq!(pair.server_mut().connection(server).stats().ecn.state, EcnState::Capable);
}

/// The probe timeout comes before the first acknowledgement can, which then says that marks arrive.
#[test]
fn a_long_round_trip_is_no_black_hole() {
    let mut pair = setup("rate=20mbit delay=700ms queue=1MB").connected();
    let end = upload(&mut pair, 500_000);
    assert_eq!((end.ecn.state, end.lost_packets), (EcnState::Capable, 0));
}

/// An outage is no reason to give up marks: what is not marked gets no further in it.
#[test]
fn an_outage_does_not_end_it() {
    let mut pair = setup("rate=20mbit delay=25ms queue=100kB outage=1s+3s").connected();
    let end = upload(&mut pair, 6_000_000);
    assert!(end.ptos >= 2, "{end:?}");
    assert_eq!(end.ecn.state, EcnState::Capable, "{:?}", end.ecn);
    assert!(end.ecn.sent > 3000, "{:?}", end.ecn);
}

/// What is known of marks is of a path: a client goes from one that keeps them to one that erases them, and
/// on to a third.
#[test]
fn each_path_is_tested() {
    const LINK: &str = "rate=20mbit delay=20ms queue=100kB";
    let mut pair = setup(LINK).connected();
    pair.pass(Duration::from_millis(200));
    assert_eq!(upload(&mut pair, 500_000).ecn.state, EcnState::Capable);
    for (host, up, then) in [(6, "ecn=erase", EcnState::Failed), (7, "", EcnState::Capable)] {
        let up = format!("{LINK} {up}").parse().expect("a link");
        pair.world.add_address(pair.client, address(host));
        pair.world.join(address(host), address(2), up, LINK.parse().expect("a link"));
        let (key, server, now) = (pair.key, pair.server_key(), pair.world.now());
        // Packets of both paths are under way at a time.
        let id = pair.client_mut().send(key, Dir::Uni, pattern(2_000_000));
        pair.pass(Duration::from_millis(300));
        assert_eq!(pair.client_mut().connection(key).migrate(now, Some(address(host).ip())), Ok(()));
        pair.until("there", |p| p.server().finished.contains(&(server, id)));
        assert_eq!(pair.client_mut().connection(key).path().local, Some(address(host).ip()));
        assert_eq!(stats(&mut pair).ecn.state, then, "to {host}");
        // The way back is the same everywhere.
        assert_eq!(pair.server_mut().connection(server).stats().ecn.state, EcnState::Capable, "to {host}");
        pair.pass(Duration::from_secs(10));
    }
    assert_eq!(stats(&mut pair).ecn.ce, 0);
}
