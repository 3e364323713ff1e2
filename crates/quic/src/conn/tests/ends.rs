//! How a connection ends: who hears of it, what is said again, what goes (RFC 9000 §10).

use super::*;

/// RFC 9000 §5.3, §10.2, §19.19.
#[test]
fn closing_tells_the_peer_and_drains() {
    let mut pair = joined();
    pair.client.close(pair.now, 42, b"done");
    pair.settle();
    assert_eq!(pair.server.closed(), Some(&Closed::ByApplication { code: 42, reason: b"done".to_vec() }));
    assert_eq!(pair.client.closed(), Some(&Closed::Locally));
    // The peer says nothing any more; who closed says it twice more, since it cannot know.
    for (connection, expected) in [(&mut pair.client, 2), (&mut pair.server, 0)] {
        let (mut now, mut said) = (pair.now, 0);
        while !connection.is_drained() {
            match connection.poll(now, &mut Batch::new()) {
                Poll::Sleep(at, _) => now = at.expect("a timer"),
                Poll::Send => said += 1,
                Poll::Event => {}
            }
            connection.handle(now, Input::Timer);
        }
        assert_eq!(said, expected);
        assert_eq!(connection.poll(now, &mut Batch::new()), Poll::Event);
    }
}

/// A peer that reads to the end and closes at once has received everything, and says so.
#[test]
fn a_farewell_acknowledges_what_came_before_it() {
    let mut pair = joined();
    let id = pair.client.streams().open(Dir::Uni).unwrap();
    pair.client.send_stream(id).write(&mut Bytes::from_static(b"all of it")).unwrap();
    pair.client.send_stream(id).finish().unwrap();
    let mut sent = drain(&mut pair.client, pair.now, address(1));
    pair.server.handle(pair.now, Input::Received(&mut sent));
    pair.server.close(pair.now, 0, b"");
    let mut bye = drain(&mut pair.server, pair.now, address(2));
    pair.client.handle(pair.now, Input::Received(&mut bye));
    let events: Vec<_> = std::iter::from_fn(|| {
        let _ = pair.client.poll(pair.now, &mut Batch::new());
        pair.client.poll_event()
    })
    .collect();
    assert!(events.contains(&Event::Stream(crate::StreamEvent::Finished(id))), "{events:?}");
}

/// A client with the server's whole flight, which has heard that it is connected and sent nothing since; its
/// own last flight is still to come.
fn met() -> Joined {
    let mut pair = begun(TransportConfig::fixed_mtu(1200), TransportConfig::fixed_mtu(1200), 900);
    let mut flight = drain(&mut pair.server, pair.now, address(2));
    pair.client.handle(pair.now, Input::Received(&mut flight));
    assert_eq!(pair.client.poll(pair.now, &mut Batch::new()), Poll::Event);
    let events: Vec<_> = std::iter::from_fn(|| pair.client.poll_event()).collect();
    assert_eq!(events, [Event::Connected]);
    pair
}

/// What a client says as soon as it is connected rides with the end of the handshake.
#[test]
fn the_first_words_leave_with_the_last_flight() {
    let mut pair = met();
    let id = pair.client.streams().open(Dir::Uni).unwrap();
    pair.client.send_stream(id).write(&mut Bytes::from_static(b"at once")).unwrap();
    let mut sent = drain(&mut pair.client, pair.now, address(1));
    assert_eq!(sent.len(), 1);
    pair.server.handle(pair.now, Input::Received(&mut sent));
    assert!(pair.server.is_established());
    assert_eq!(pair.server.streams().accept(Dir::Uni), Some(id));
}

/// RFC 9000 §10.2.3: the server's handshake is through with this datagram, and it hears what the application
/// says.
#[test]
fn who_closes_at_once_ends_the_handshake_first() {
    let mut pair = met();
    pair.client.close(pair.now, 42, b"done");
    let mut sent = drain(&mut pair.client, pair.now, address(1));
    assert_eq!(sent.len(), 1);
    assert!(sent[0].bytes.len() < 400, "no Initial packet, so no padding");
    pair.server.handle(pair.now, Input::Received(&mut sent));
    let _ = pair.server.poll(pair.now, &mut Batch::new());
    assert_eq!(pair.server.poll_event(), Some(Event::Connected));
    assert_eq!(pair.server.closed(), Some(&Closed::ByApplication { code: 42, reason: b"done".to_vec() }));
}

/// The end of the handshake is a certificate that no datagram holds: then the handshake is given up.
#[test]
fn a_last_flight_that_is_too_long_is_not_begun_for_a_farewell() {
    let mut pair = met();
    pair.client.link.keys.stream(wire::Space::Handshake).unwrap().push(&[0; 2000]);
    pair.client.close(pair.now, 42, b"secret");
    let mut sent = drain(&mut pair.client, pair.now, address(1));
    pair.server.handle(pair.now, Input::Received(&mut sent));
    let Some(Closed::ByPeer(error)) = pair.server.closed() else { panic!("{:?}", pair.server.closed()) };
    assert_eq!((error.code, error.reason.as_ref()), (Code::APPLICATION_ERROR, ""));
}

/// RFC 9000 §10.2.1: the datagram of the farewell answers whatever comes, unread, ever less often.
#[test]
fn a_farewell_is_said_again_as_it_was() {
    let mut pair = joined();
    pair.client.close(pair.now, 42, b"done");
    let first = drain(&mut pair.client, pair.now, address(1)).remove(0).bytes;
    let mut answers = Vec::new();
    for n in 1..20 {
        let stray =
            Datagram { path: address(2), ecn: quickset_base::Ecn::NotEct, bytes: b"anything"[..].into() };
        pair.client.handle(pair.now, Input::Received(&mut vec![stray]));
        for answer in drain(&mut pair.client, pair.now, address(1)) {
            assert_eq!(answer.bytes, first);
            answers.push(n);
        }
    }
    assert_eq!(answers, [1, 3, 7, 15]);
    pair.server.handle(
        pair.now,
        Input::Received(&mut vec![Datagram {
            path: address(1),
            ecn: quickset_base::Ecn::NotEct,
            bytes: first,
        }]),
    );
    assert_eq!(pair.server.closed(), Some(&Closed::ByApplication { code: 42, reason: b"done".to_vec() }));
}

/// What a connection had under way, and its keys, are gone with its end on both sides; what was agreed on is
/// told.
#[test]
fn nothing_secret_is_left_of_what_is_over() {
    let mut pair = joined();
    pair.client.ping();
    pair.settle();
    pair.pass(Duration::from_millis(30));
    assert!(pair.client.update_keys(pair.now));
    let id = pair.client.streams().open(Dir::Uni).unwrap();
    pair.client.send_stream(id).write(&mut Bytes::from_static(&[7; 5000])).unwrap();
    drop(drain(&mut pair.client, pair.now, address(1)));
    assert!(pair.client.stats().in_flight > 5000);
    pair.client.close(pair.now, 0, b"");
    pair.settle();
    for connection in [&pair.client, &pair.server] {
        assert!(!wire::Space::ALL.into_iter().any(|space| connection.link.keys.has(space)));
        assert!(!connection.session().export(b"label", b"", &mut [0; 32]));
        assert_eq!(connection.session().alpn(), Some(&b"test"[..]));
        assert_eq!((connection.stats().in_flight, connection.stats().key_updates), (0, 1));
    }
}

#[test]
fn silence_ends_the_connection_without_a_word() {
    let mut pair = joined();
    let mut last = Time::ZERO;
    let mut out = Batch::new();
    while pair.client.closed().is_none() {
        match pair.client.poll(pair.now, &mut out) {
            Poll::Send => out.clear(),
            Poll::Event => while pair.client.poll_event().is_some() {},
            Poll::Sleep(at, _) => {
                pair.now = at.expect("the idle timeout");
                last = pair.now;
                pair.client.handle(pair.now, Input::Timer);
            }
        }
    }
    assert_eq!(pair.client.closed(), Some(&Closed::TimedOut));
    let after = last - Time::from_millis(1);
    assert!(after >= Duration::from_secs(30) && after < Duration::from_secs(31), "{after:?}");
    let event = std::iter::from_fn(|| pair.client.poll_event()).find(|e| matches!(e, Event::Closed(_)));
    assert_eq!(event, Some(Event::Closed(Closed::TimedOut)));
}
