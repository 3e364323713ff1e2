//! What the system does not send, and what the network sends back.

use super::*;
use crate::{Obstacle, Side, SystemRefusal};

fn refusal(obstacle: Obstacle) -> SystemRefusal {
    SystemRefusal { obstacle, words: "no".to_owned() }
}

/// The next batch of a connection, of which nothing leaves.
fn refused(connection: &mut Connection, now: Time, obstacle: Obstacle) -> Batch {
    let batch = next(connection, now).expect("a batch");
    connection.not_sent(now, &batch, 0, refusal(obstacle));
    batch
}

fn next(connection: &mut Connection, now: Time) -> Option<Batch> {
    let mut out = Batch::new();
    loop {
        match connection.poll(now, &mut out) {
            Poll::Send => return Some(out),
            Poll::Event => {
                while connection.poll_event().is_some() {}
                while connection.poll_signal().is_some() {}
            }
            Poll::Sleep(..) => return None,
        }
    }
}

fn writes(connection: &mut Connection, len: usize) -> StreamId {
    let id = connection.streams().open(Dir::Uni).unwrap();
    connection.send_stream(id).write(&mut Bytes::from(vec![7; len])).unwrap();
    id
}

/// RFC 9000 §9: the address that an application chose is gone; the connection is not.
#[test]
fn a_client_whose_address_is_gone_moves() {
    for obstacle in [Obstacle::Source, Obstacle::Route] {
        let mut pair = joined();
        pair.client.link.path.address.local = Some([10, 0, 0, 9].into());
        writes(&mut pair.client, 5000);
        let batch = refused(&mut pair.client, pair.now, obstacle);
        assert_eq!(batch.path.local, Some([10, 0, 0, 9].into()));
        let again = next(&mut pair.client, pair.now).expect("at once");
        assert_eq!((again.path.local, again.path.remote), (None, batch.path.remote));
    }
}

/// RFC 9000 §9: a server does not move, but it can be that what it says arrives nevertheless.
#[test]
fn a_server_whose_address_is_gone_answers_from_another_until_it_is_back() {
    let home = std::net::IpAddr::from([10, 0, 0, 2]);
    let at_home = AddressPair { local: Some(home), ..address(1) };
    let mut pair = joined();
    pair.server.link.path.address = at_home;
    writes(&mut pair.server, 5000);
    refused(&mut pair.server, pair.now, Obstacle::Source);
    let again = next(&mut pair.server, pair.now).expect("at once");
    assert_eq!((again.path.local, again.path.remote), (None, at_home.remote));
    // Without a route another address is no way out, and it must not be given up.
    writes(&mut pair.client, 10);
    let mut up = drain(&mut pair.client, pair.now, at_home);
    pair.server.handle(pair.now, Input::Received(&mut up));
    assert_eq!(pair.server.path(), at_home, "it was reached there");
    writes(&mut pair.server, 5000);
    let route = refused(&mut pair.server, pair.now, Obstacle::Route);
    assert_eq!(route.path, at_home);
    assert!(next(&mut pair.server, pair.now).is_none(), "it waits");
    assert_eq!(pair.server.path(), at_home);
}

/// RFC 9000 §8.1: what did not leave was not sent, to whom thrice of what came may be sent.
#[test]
fn what_does_not_leave_uses_up_no_credit() {
    let mut pair = begun(TransportConfig::fixed_mtu(1200), TransportConfig::fixed_mtu(1200), 9000);
    for n in 0..15 {
        let now = pair.now + n * Duration::from_millis(500);
        let batch = refused(&mut pair.server, now, Obstacle::Room);
        assert!(batch.bytes().len() >= 1200, "{n}: {}", batch.bytes().len());
        pair.server.check();
    }
    let now = pair.now + Duration::from_secs(8);
    let sent: usize = drain(&mut pair.server, now, address(2)).iter().map(|d| d.bytes.len()).sum();
    assert!((3500..=3600).contains(&sent), "{sent}");
}

/// RFC 9000 §13.4.2: a test of marks is of ten datagrams that left.
#[test]
fn what_does_not_leave_tests_no_marks() {
    let mut marking = crate::path::Marking::new(true);
    marking.on_sent(10);
    assert!(!marking.is_marking());
    marking.on_refused(4);
    assert!(marking.is_marking());
    marking.on_sent(4);
    assert!(!marking.is_marking());
}

/// RFC 9000 §14.2.1: who was not asked anything by us has not seen the id.
#[test]
fn only_who_saw_the_hello_can_send_it_back() {
    let hello = || {
        let mut pair = begun(TransportConfig::fixed_mtu(1200), TransportConfig::fixed_mtu(1200), 900);
        let mut again = Vec::new();
        while again.is_empty() {
            // Nothing was heard: it is said again, with the same id.
            pair.now += Duration::from_secs(1);
            pair.client.handle(pair.now, Input::Timer);
            again = drain(&mut pair.client, pair.now, address(1));
        }
        (pair, again[0].bytes.to_vec())
    };
    let there = address(2).remote;
    let (mut pair, quoted) = hello();
    let mut forged = quoted.clone();
    forged[7] ^= 1;
    let now = pair.now;
    assert!(!pair.client.undelivered(now, there, &forged, refusal(Obstacle::Port)), "another id");
    assert!(!pair.client.undelivered(now, there, &quoted[..9], refusal(Obstacle::Port)), "too little of it");
    assert!(!pair.client.undelivered(now, there, &[], refusal(Obstacle::Port)));
    assert!(
        !pair.client.undelivered(now, address(3).remote, &quoted, refusal(Obstacle::Port)),
        "another host"
    );
    assert!(
        !pair.client.undelivered(now, there, &quoted, refusal(Obstacle::Size)),
        "RFC 9000 §14.2.1: below 1200 bytes"
    );
    assert_eq!(pair.client.closed(), None);
    assert!(pair.client.undelivered(now, there, &quoted[..20], refusal(Obstacle::Port)));
    assert_eq!(pair.client.closed(), Some(&Closed::Unreachable(refusal(Obstacle::Port))));

    // The server has answered: what anybody says from then on is no end.
    let (mut pair, quoted) = hello();
    let mut flight = drain(&mut pair.server, pair.now, address(2));
    pair.client.handle(pair.now, Input::Received(&mut flight));
    assert!(!pair.client.undelivered(pair.now, there, &quoted, refusal(Obstacle::Port)));
    assert_eq!(pair.client.closed(), None);
}

/// RFC 9000 §9: there is another socket, and what the old one did not send is no reason to wait.
#[test]
fn another_socket_is_tried_at_once() {
    for side in [Side::Client, Side::Server] {
        let mut pair = joined();
        let now = pair.now;
        let connection = if side == Side::Client { &mut pair.client } else { &mut pair.server };
        writes(connection, 5000);
        refused(connection, now, Obstacle::Other);
        assert!(next(connection, now).is_none());
        connection.rebound(now);
        assert!(next(connection, now).is_some(), "{side:?}");
    }
}

/// One that only asks whether somebody is there holds nothing that would be sent again.
#[test]
fn what_keeps_alive_is_said_again() {
    let alive = TransportConfig {
        keep_alive: Some(Duration::from_secs(5)),
        mtu_discovery: None,
        ..TransportConfig::fixed_mtu(1200)
    };
    let mut pair = joined_with(alive);
    pair.now += Duration::from_secs(6);
    pair.client.handle(pair.now, Input::Timer);
    refused(&mut pair.client, pair.now, Obstacle::Route);
    assert!(next(&mut pair.client, pair.now).is_none(), "not at once");
    let Poll::Sleep(Some(at), _) = pair.client.poll(pair.now, &mut Batch::new()) else { panic!("no timer") };
    assert_eq!(at, pair.now + Duration::from_millis(10));
    pair.client.handle(at, Input::Timer);
    assert!(next(&mut pair.client, at).is_some());
    assert!(pair.client.link.path.recovery.in_flight() > 0, "it asks for an answer");
}

/// RFC 9000 §13.2.1: the peer waits for it, and nothing else says it.
#[test]
fn an_acknowledgement_is_said_again() {
    let plain = TransportConfig { mtu_discovery: None, ..TransportConfig::fixed_mtu(1200) };
    let mut pair = joined_with(plain);
    writes(&mut pair.server, 5000);
    let mut down = drain(&mut pair.server, pair.now, address(2));
    pair.client.handle(pair.now, Input::Received(&mut down));
    refused(&mut pair.client, pair.now, Obstacle::Route);
    let at = pair.now + Duration::from_millis(10);
    pair.client.handle(at, Input::Timer);
    let again = next(&mut pair.client, at).expect("as soon as the system is asked again");
    let datagram = |bytes: &[u8]| Datagram { path: address(1), ecn: again.ecn, bytes: bytes.into() };
    pair.server.handle(at, Input::Received(&mut again.segments().map(datagram).collect()));
    assert_eq!(pair.server.link.path.recovery.in_flight(), 0, "all of it is acknowledged");
}

/// Whatever is refused when, nothing turns in circles: each sleep is for later.
#[test]
fn who_is_refused_sleeps() {
    for obstacle in [Obstacle::Route, Obstacle::Room, Obstacle::Size, Obstacle::Source, Obstacle::Other] {
        let mut pair = joined();
        writes(&mut pair.client, 50_000);
        let (mut now, mut turns) = (pair.now, 0);
        while pair.client.closed().is_none() {
            turns += 1;
            if let Some(batch) = next(&mut pair.client, now) {
                pair.client.not_sent(now, &batch, 0, refusal(obstacle));
                continue;
            }
            let Poll::Sleep(Some(at), _) = pair.client.poll(now, &mut Batch::new()) else { continue };
            assert!(at > now, "{obstacle:?} at {now}");
            now = at;
            pair.client.handle(now, Input::Timer);
        }
        let most = if obstacle == Obstacle::Room { 3000 } else { 500 };
        assert!(turns < most, "{obstacle:?}: {turns} turns");
        assert!(matches!(pair.client.closed(), Some(Closed::Unreachable(_))), "{obstacle:?}");
    }
}
