//! First flights of which nothing arrives, and what is known of round trips before there is a sample
//! (RFC 9002 §6.2.2).

use quickset_base::{AddressPair, Duration, Time};
use quickset_quic::{ConnectionKey, Dir, RetryPolicy, Version};
use quickset_sim::address;

use crate::common::{Pair, Setup};

const MS: Duration = Duration::from_millis(1);

/// A path of this round trip, which loses what is sent on the way to the server, and to the client, within
/// these times.
fn setup(trip: u64, up: &str, down: &str) -> Setup {
    let link = format!("rate=100mbit delay={}us queue=100kB", 500 * trip);
    let mut setup = Setup::new(1, &format!("{link}{up}"));
    setup.down = Some(format!("{link}{down}").parse().expect("a link"));
    setup
}

/// When the client is through, from the beginning of the world.
fn connected(pair: &mut Pair) -> Duration {
    pair.until("connected", |p| !p.client().connected.is_empty());
    pair.world.now().since(Time::ZERO)
}

fn is_about(time: Duration, expected: Duration) -> bool {
    (expected..expected + 10 * MS).contains(&time)
}

/// A client waits three times the 100 ms that most paths are shorter than. A hello of two datagrams is lost
/// as a whole.
#[test]
fn a_first_flight_that_is_lost_costs_three_tenths_of_a_second() {
    for hello in [300, 1600] {
        let mut setup = setup(50, " outage=0ms+10ms", "");
        setup.hello = hello;
        let time = connected(&mut setup.pair());
        assert!(is_about(time, 350 * MS), "{time:?} with a hello of {hello}");
        setup.client.initial_rtt = Some(333 * MS);
        let time = connected(&mut setup.pair());
        assert!(is_about(time, 1049 * MS), "{time:?} as it is told to");
    }
}

/// Either half of a hello of two datagrams may be lost, also of the one behind a Retry packet. What arrives
/// is acknowledged at once (RFC 9000 §13.2.1): with a sample of the round trip the first half is lost 9/8 of
/// it later (RFC 9002 §6.1.2), the second at the probe timeout of three (§6.2.1), and then the server answers
/// in one.
#[test]
fn either_half_of_a_hello_that_is_lost_comes_again_in_three_round_trips() {
    let trip = 80 * MS;
    for (retry, before) in [(RetryPolicy::Never, 0), (RetryPolicy::Always, 1)] {
        for (half, silence) in [trip * 9 / 8, 3 * trip].into_iter().enumerate() {
            let mut setup = setup(80, &format!(" loss=list:{}", 2 * before as usize + half), "");
            (setup.hello, setup.retry) = (1600, retry);
            let mut pair = setup.pair();
            let time = connected(&mut pair);
            assert!(
                is_about(time, before * trip + silence + trip),
                "{time:?} without half {half}, {retry:?}"
            );
            assert_eq!(pair.server().node.endpoint().counters().accepted, 1);
        }
    }
}

/// It costs those on long paths a second hello, and nothing else.
#[test]
fn a_long_path_takes_as_long_as_it_is() {
    for hello in [300, 1600] {
        let mut setup = setup(700, "", "");
        setup.hello = hello;
        let mut pair = setup.pair();
        let time = connected(&mut pair);
        assert!(is_about(time, 700 * MS), "{time:?}");
        let key = pair.key;
        let sent = pair.client_mut().connection(key).stats().sent_datagrams;
        // The hello, its probes, and what ends the handshake.
        let datagrams = if hello > 1200 { 2 } else { 1 };
        assert!(sent <= datagrams + 2 + 2, "{sent} datagrams");
        assert_eq!(pair.server().node.endpoint().counters().accepted, 1);
    }
}

/// Closes the client's connection, and connects again once both sides have forgotten it. From then on the way
/// to the server loses what is sent so long after the beginning, and for so long.
fn again(pair: &mut Pair, setup: &Setup, outage: Option<(Duration, Duration)>) -> (ConnectionKey, Time) {
    let (now, key) = (pair.world.now(), pair.key);
    pair.client_mut().connection(key).close(now, 0, b"");
    pair.pass(Duration::from_secs(10));
    assert_eq!(pair.server().node.keys().count(), 0);
    let now = pair.world.now();
    if let Some((after, time)) = outage {
        let (link, begin) = (pair.up, (now + after).as_nanos());
        let spec = format!("{} outage={begin}ns+{}ns", setup.link, time.as_nanos());
        pair.world.link_mut(link).change(spec.parse().expect("a link"));
    }
    pair.client_mut().connected.clear();
    pair.server_mut().connected.clear();
    let config = setup.client_config();
    let key = pair
        .client_mut()
        .node
        .connect(now, &config, AddressPair::to(address(2)), "server")
        .expect("it begins");
    pair.pass(Duration::ZERO);
    (key, now)
}

/// What the last connection found counts for the next: on a short path a lost flight is soon sent again, on a
/// long one no flight is sent twice.
#[test]
fn round_trips_are_remembered_by_peer() {
    let near = setup(40, "", "");
    let mut pair = near.connected();
    let (_, begun) = again(&mut pair, &near, Some((Duration::ZERO, 5 * MS)));
    pair.until("connected", |p| !p.client().connected.is_empty());
    let time = pair.world.now().since(begun);
    assert!((150 * MS..180 * MS).contains(&time), "{time:?}: three round trips, and one");

    let far = setup(400, "", "");
    let mut pair = far.connected();
    let key = pair.key;
    assert!(pair.client_mut().connection(key).stats().ptos > 0, "nothing was known");
    let (key, _) = again(&mut pair, &far, None);
    pair.until("connected", |p| !p.client().connected.is_empty());
    assert_eq!(pair.client_mut().connection(key).stats().ptos, 0);
    // Of the server, too.
    pair.until("confirmed", |p| !p.server().connected.is_empty());
    let key = *pair.server().connected.last().expect("it is connected");
    assert_eq!(pair.server_mut().connection(key).stats().ptos, 0);
}

/// RFC 9002 §6.3: a Retry, or a Version Negotiation packet, tells how long a round trip takes.
#[test]
fn what_an_answer_without_acknowledgement_took_is_a_guess() {
    for retry in [RetryPolicy::Always, RetryPolicy::Never] {
        // The second hello is lost.
        let mut setup = setup(50, " outage=40ms+15ms", "");
        setup.retry = retry;
        if retry == RetryPolicy::Never {
            setup.client.versions = vec![Version::V1, Version::V2];
            setup.server.versions = vec![Version::V2];
        }
        let time = connected(&mut setup.pair());
        assert!(is_about(time, 250 * MS), "{retry:?}: {time:?}");
    }
}

/// A server knows as much by the client's second hello: its flight is lost, and so is what the client says to
/// that.
#[test]
fn a_server_knows_what_its_retry_took() {
    let mut setup = setup(50, " outage=60ms+180ms", " outage=70ms+10ms");
    setup.retry = RetryPolicy::Always;
    let time = connected(&mut setup.pair());
    assert!(is_about(time, 300 * MS), "{time:?}");
}

/// RFC 9002 §6.2.3: the client says hello again, by which the server knows that its flight is lost, and does
/// not wait for its own probe timeout, of a second.
#[test]
fn a_hello_that_comes_again_has_its_answer_at_once() {
    for hello in [300, 1600] {
        let mut setup = setup(50, "", " outage=20ms+10ms");
        setup.hello = hello;
        let time = connected(&mut setup.pair());
        assert!(is_about(time, 350 * MS), "{time:?} with a hello of {hello}");
    }
}

/// RFC 9000 §8.1: sooner is no more. A client that says hello and nothing else gets thrice of it.
#[test]
fn what_is_remembered_sends_no_more_to_an_address_that_may_be_forged() {
    let near = setup(40, "", "");
    let mut pair = near.connected();
    again(&mut pair, &near, Some((MS, 60_000 * MS)));
    let (link, mut most) = (pair.down, 0);
    let before = pair.world.counts(link).sent_bytes;
    for _ in 0..100 {
        pair.pass(100 * MS);
        most = most.max(pair.world.counts(link).sent_bytes - before);
    }
    // With the headers of IP and UDP.
    assert!((1200..=3 * 1200 + 4 * 28).contains(&most), "{most} bytes");
}

/// Whatever is lost of it, a handshake ends, and what was sent behind it arrives. A packet with a long header
/// may follow the shortest acknowledgement, and does not fit into a datagram as short as that.
#[test]
fn handshakes_get_through_heavy_losses() {
    for seed in 0..1500 {
        let mut setup = Setup::new(seed, "rate=100mbit delay=15ms queue=100kB loss=30%");
        (setup.hello, setup.certificate) = (1600, 900);
        for side in [&mut setup.client, &mut setup.server] {
            side.handshake_timeout = Duration::from_secs(100);
        }
        let mut pair = setup.pair();
        pair.until("connected", |p| !p.client().connected.is_empty());
        let key = pair.key;
        pair.client_mut().send(key, Dir::Uni, vec![7; 30]);
        pair.until("received", |p| !p.server().finished.is_empty());
    }
}
