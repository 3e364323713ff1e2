//! WebTransport over HTTP/3.

use bytes::Bytes;
use quickset_h3::{
    Abort, Config, ErrorCode, Event, Priority, Request, Response, Transport as _, VerbRefusal, http_code,
    session_code,
};
use quickset_quic::{Chunk, Class, Dir, Side, StreamId};

use crate::net::{GET, Pair, Raw, frame, headers, net};

fn config() -> Config {
    Config { webtransport: 1, ..Config::default() }
}

const SETTINGS: [u8; 13] = [8, 1, 0x33, 1, 0xc0, 0, 0, 0, 0xc6, 0x71, 0x70, 0x6a, 1];

const CONNECT: [(&str, &str); 5] = [
    (":method", "CONNECT"),
    (":scheme", "https"),
    (":authority", "example.com"),
    (":path", "/"),
    (":protocol", "webtransport"),
];

fn request() -> Request {
    Request::extended("webtransport", "example.com", "/")
}

/// A session that both sides know.
fn session() -> (Pair, StreamId) {
    let mut pair = Pair::new(&config());
    let id = pair.client.h3.request(&mut pair.client.t, &request(), false).expect("it may be");
    pair.run();
    pair.server.h3.respond(&mut pair.server.t, id, &Response::new(200), false).expect("it may be");
    pair.run();
    (pair, id)
}

/// Ours is a server with a session on stream 0.
fn raw_session() -> (Raw, StreamId) {
    let mut raw = Raw::with(Side::Server, config(), &SETTINGS);
    let (id, _) = raw.bi(&headers(&CONNECT));
    raw.ours.h3.respond(&mut raw.ours.t, id, &Response::new(200), false).expect("it may be");
    (raw, id)
}

/// RFC 9110 §9.3.6: what follows any 2xx is no content, and so not too much of it.
#[test]
fn any_success_accepts_a_session() {
    for status in [200, 204, 299] {
        let mut pair = Pair::new(&config());
        let session = pair.client.h3.request(&mut pair.client.t, &request(), false).expect("it may be");
        pair.run();
        let response = Response::new(status);
        pair.server.h3.respond(&mut pair.server.t, session, &response, false).expect("it may be");
        assert_eq!(pair.run().0, [Event::Response { id: session, response }]);
        pair.server.h3.close_session(&mut pair.server.t, session, 7, "done").expect("it is open");
        let closed = Event::SessionClosed { session, code: 7, reason: Bytes::from("done") };
        assert_eq!(pair.run().0, [closed], "{status}");
    }
}

/// draft-ietf-webtrans-http3 §3.3, §9.5: a client that is answered in a protocol that it did not offer ends
/// the session, and that alone, with WT_ALPN_ERROR both ways.
#[test]
fn a_protocol_that_was_not_offered_ends_the_session_on_the_wire() {
    let mut pair = Pair::new(&config());
    let request = request().offering(&["chat/2", "chat/3"]).expect("they are text");
    let id = pair.client.h3.request(&mut pair.client.t, &request, false).expect("it may be");
    let offered = pair.run().1.into_iter().find_map(|event| match event {
        Event::Request { request, .. } => Some(request.protocols()),
        _ => None,
    });
    assert_eq!(offered, Some(vec!["chat/2".to_owned(), "chat/3".to_owned()]));
    let response = Response::new(200).choosing("chat/1").expect("it is text");
    pair.server.h3.respond(&mut pair.server.t, id, &response, false).expect("it may be");
    assert_eq!(pair.run().0, [Event::Response { id, response: response.clone() }]);
    assert_eq!(response.protocol().as_deref(), Some("chat/1"));
    pair.client.h3.cancel(&mut pair.client.t, id, ErrorCode::WT_ALPN_ERROR);
    {
        let net = pair.client.t.net.borrow();
        assert_eq!(net.reset_code(id, Side::Client), Some(0x0817_b3dd));
        assert_eq!(net.stop_code(id, Side::Server), Some(0x0817_b3dd));
    }
    let closed = Event::SessionClosed { session: id, code: 0, reason: Bytes::new() };
    assert!(pair.run().1.contains(&closed), "the server's is over, too");
    assert_eq!(pair.client.t.net.borrow().closed, None);
    let again = pair.client.h3.request(&mut pair.client.t, &request, false).expect("another may be");
    pair.run();
    pair.server.h3.respond(&mut pair.server.t, again, &Response::new(200), false).expect("it may be");
    assert_eq!(pair.run().0, [Event::Response { id: again, response: Response::new(200) }]);
}

#[test]
fn streams_of_both_kinds_and_sides() {
    let (mut pair, session) = session();
    for (dir, by_client) in [(Dir::Bi, true), (Dir::Uni, true), (Dir::Bi, false), (Dir::Uni, false)] {
        let (a, b) = if by_client {
            (&mut pair.client, &mut pair.server)
        } else {
            (&mut pair.server, &mut pair.client)
        };
        let id = a.h3.open_session_stream(&mut a.t, session, dir).unwrap();
        a.h3.session_write(&mut a.t, id, &mut Bytes::from("hello")).unwrap();
        a.h3.session_finish(&mut a.t, id).unwrap();
        assert_eq!(b.turn(), [Event::SessionStream { session, id, dir }]);
        assert_eq!(b.h3.session_read(&mut b.t, id, 3), Ok(Chunk::Data(Bytes::from("hel"))));
        assert_eq!(b.h3.session_read(&mut b.t, id, 3), Ok(Chunk::Data(Bytes::from("lo"))));
        assert_eq!(b.h3.session_read(&mut b.t, id, 3), Ok(Chunk::Finished));
        if dir == Dir::Bi {
            assert_eq!(a.h3.session_read(&mut a.t, id, 9), Ok(Chunk::Blocked));
            b.h3.session_write(&mut b.t, id, &mut Bytes::from("back")).unwrap();
            b.h3.session_finish(&mut b.t, id).unwrap();
            assert_eq!(a.turn(), [Event::Readable(id)]);
            assert_eq!(a.h3.session_read(&mut a.t, id, 9), Ok(Chunk::Data(Bytes::from("back"))));
            assert_eq!(a.h3.session_read(&mut a.t, id, 9), Ok(Chunk::Finished));
        }
    }
}

#[test]
fn the_headers_of_streams_are_those_of_the_draft() {
    let (mut raw, session) = raw_session();
    for (dir, header) in [(Dir::Bi, [0x40, 0x41, 0]), (Dir::Uni, [0x40, 0x54, 0])] {
        let id = raw.ours.h3.open_session_stream(&mut raw.ours.t, session, dir).unwrap();
        assert_eq!(raw.sent(id), header);
    }
}

// HP-14
#[test]
fn streams_of_a_session_share_what_it_gets() {
    let mut raw = Raw::with(Side::Server, config(), &SETTINGS);
    let said = [("priority", "u=1, exp_w=4, exp_p=(\"page\";u=5)")];
    let (session, _) = raw.bi(&headers(&[&CONNECT[..], &said].concat()));
    let early = raw.bi(&[0x40, 0x41, 0]).0;
    raw.ours.h3.respond(&mut raw.ours.t, session, &Response::new(200), false).expect("it may be");
    let theirs = raw.bi(&[0x40, 0x41, 0]).0;
    let ours = [Dir::Bi, Dir::Uni]
        .map(|dir| raw.ours.h3.open_session_stream(&mut raw.ours.t, session, dir).expect("it may be"));
    let uni = raw.uni(&[0x40, 0x54, 0]);
    let page = quickset_quic::Priority::default().urgency(5);
    let page = Class { name: "\u{1}page".into(), priority: page };
    let place = |raw: &Raw, id: StreamId| {
        let net = raw.net.borrow();
        let (.., path) = net.classes.iter().rev().find(|(of, ..)| *of == id)?.clone();
        let side = Side::Server;
        Some((net.priorities[&(id, side)], net.weights[&(id, side)].get(), path))
    };
    // The session's class is among its siblings what the session is, which takes turns as a tunnel does.
    let class = |raw: &Raw, urgency, weight| {
        let net = raw.net.borrow();
        let mut told = net.classes.iter().rev().filter(|(.., path)| path.len() > 1);
        let class = told.next().expect("something hangs under classes").2[1].clone();
        assert_eq!(class.priority, quickset_quic::Priority::weighted(weight).urgency(urgency));
        class
    };
    let of_session = class(&raw, 1, 4.0);
    for id in [early, theirs, ours[0], ours[1]] {
        let path = vec![page.clone(), of_session.clone()];
        assert_eq!(place(&raw, id), Some(((3, true), 1.0, path)), "{id:?}");
    }
    assert_eq!(place(&raw, uni), None, "nothing is sent on it");
    // The application's word counts among them, below the session; it outlasts what the client says of the
    // session.
    let priority =
        Priority::new(0, false).with_weight(2.0).with_classes(&[Class::new("sound", 3.0)]).unwrap();
    raw.ours.h3.schedule_session_stream(&mut raw.ours.t, ours[1], &priority).expect("it is open");
    let path = vec![page.clone(), of_session, Class::new("sound", 3.0)];
    assert_eq!(place(&raw, ours[1]), Some(((0, false), 2.0, path)));
    let value = b"u=6, exp_p=(\"page\";u=5)";
    raw.write(raw.control, &[&[0x80, 0x0f, 7, 0, 1 + value.len() as u8, 0][..], value].concat());
    let of_session = class(&raw, 6, 1.0);
    let path = vec![page, of_session, Class::new("sound", 3.0)];
    assert_eq!(place(&raw, ours[1]), Some(((0, false), 2.0, path)));
    // Where the session goes, streams go that are opened later.
    raw.write(raw.control, &[0x80, 0x0f, 7, 0, 4, 0, b'u', b'=', b'2']);
    let late = raw.ours.h3.open_session_stream(&mut raw.ours.t, session, Dir::Uni).expect("it may be");
    let (.., path) = place(&raw, late).expect("it hangs under a class");
    let [of_session] = &path[..] else { panic!("{path:?}") };
    assert_eq!(of_session.priority, quickset_quic::Priority::weighted(1.0).urgency(2));
    let none = raw.ours.h3.schedule_session_stream(&mut raw.ours.t, session, &priority);
    assert_eq!(none, Err(VerbRefusal::UnknownStream));
}

#[test]
fn who_waits_for_a_stream_of_either_kind_is_told() {
    for dir in [Dir::Bi, Dir::Uni] {
        let (mut pair, session) = session();
        pair.net.borrow_mut().limit(Side::Client, dir, 4);
        pair.run();
        let client = &mut pair.client;
        let mut open = || client.h3.open_session_stream(&mut client.t, session, dir);
        while open().is_ok() {}
        assert_eq!(open(), Err(VerbRefusal::Blocked));
        pair.net.borrow_mut().limit(Side::Client, dir, 5);
        let (told, _) = pair.run();
        assert_eq!(told, [Event::Available(dir)], "{dir:?}");
        let client = &mut pair.client;
        client.h3.open_session_stream(&mut client.t, session, dir).expect("there is one more");
        // Nobody waits.
        pair.net.borrow_mut().limit(Side::Client, Dir::Uni, 6);
        assert_eq!(pair.run().0, []);
    }
    // The connection's own come first, and nobody waits for others.
    let net = net(1);
    net.borrow_mut().limit(Side::Client, Dir::Uni, 1);
    let mut pair = Pair::on(net, &config());
    pair.net.borrow_mut().limit(Side::Client, Dir::Uni, 3);
    assert!(!pair.run().0.contains(&Event::Available(Dir::Uni)));
}

#[test]
fn datagrams_of_a_session() {
    let (mut pair, session) = session();
    pair.client.h3.send_datagram(&mut pair.client.t, session, b"x").unwrap();
    assert_eq!(pair.run().1, [Event::Datagram { id: session, payload: Bytes::from("x") }]);
    // As a capsule, too.
    let (mut raw, session) = raw_session();
    let events = raw.write(session, &frame(0, &[0, 1, b'y']));
    assert_eq!(events, [Event::Datagram { id: session, payload: Bytes::from("y") }]);
}

#[test]
fn who_waits_for_datagrams_of_a_session_hears_of_its_end() {
    for by_server in [false, true] {
        let (mut pair, session) = session();
        assert_eq!(pair.server.h3.listen(&mut pair.server.t, session), Ok(true));
        let closer = if by_server { &mut pair.server } else { &mut pair.client };
        closer.h3.close_session(&mut closer.t, session, 7, "").unwrap();
        let (_, told) = pair.run();
        assert_eq!(told.iter().filter(|event| **event == Event::Silent(session)).count(), 1, "{told:?}");
        assert_ne!(pair.server.h3.listen(&mut pair.server.t, session), Ok(true));
    }
}

/// What was on its way when we closed the session is dropped.
#[test]
fn datagrams_of_a_session_that_we_closed_are_dropped() {
    let (mut pair, session) = session();
    pair.client.h3.send_datagram(&mut pair.client.t, session, b"late").unwrap();
    pair.server.h3.close_session(&mut pair.server.t, session, 0, "").unwrap();
    assert_eq!(pair.run().1, []);
}

/// RFC 9297 §5: who sends datagrams faster than they are taken loses them; as capsules they may be larger
/// than packets.
#[test]
fn datagrams_that_nobody_takes_are_bounded_in_bytes() {
    let mut raw = Raw::with(Side::Server, Config { max_datagram_bytes: 2500, ..config() }, &SETTINGS);
    let (session, _) = raw.bi(&headers(&CONNECT));
    raw.ours.h3.respond(&mut raw.ours.t, session, &Response::new(200), false).expect("it may be");
    // Type 0, a length of two bytes, and as many.
    let capsule = |len: u16| [vec![0], (0x4000 | len).to_be_bytes().to_vec(), vec![7; len.into()]].concat();
    let mut told = |lens: &[u16]| {
        let events =
            raw.write(session, &frame(0, &lens.iter().map(|len| capsule(*len)).collect::<Vec<_>>().concat()));
        let len = |event| match event {
            Event::Datagram { payload, .. } => payload.len(),
            other => panic!("{other:?}"),
        };
        events.into_iter().map(len).collect::<Vec<_>>()
    };
    assert_eq!(told(&[1000, 1000, 501, 500, 1]), [1000, 1000, 500]);
    // What was told counts no more.
    assert_eq!(told(&[1000, 1500]), [1000, 1500]);
    assert_eq!(told(&[4000, 1]), [4000], "one that is larger waits alone");
}

#[test]
fn a_session_is_closed_with_a_reason_and_its_streams_with_it() {
    let (mut pair, session) = session();
    let id = pair.server.h3.open_session_stream(&mut pair.server.t, session, Dir::Bi).unwrap();
    pair.run();
    pair.client.h3.drain_session(&mut pair.client.t, session).unwrap();
    pair.client.h3.close_session(&mut pair.client.t, session, 7, "done").unwrap();
    let (client, server) = pair.run();
    let closed = Event::SessionClosed { session, code: 7, reason: Bytes::from("done") };
    assert_eq!(server, [Event::SessionDraining(session), closed]);
    assert_eq!(client, []);
    let net = pair.net.borrow();
    assert_eq!(net.reset_code(id, Side::Client), Some(0x170d_7b68), "WT_SESSION_GONE");
    assert_eq!(net.reset_code(id, Side::Server), Some(0x170d_7b68));
    assert_eq!(net.stop_code(id, Side::Server), Some(0x170d_7b68));
    drop(net);
    assert!(pair.client.h3.is_idle() && pair.server.h3.is_idle());
}

/// STOP_SENDING beside the end of a session overtakes it where a packet has it first.
#[test]
fn who_closes_a_session_waits_for_the_end_of_the_other() {
    let closed = || {
        let (mut raw, session) = raw_session();
        raw.ours.h3.close_session(&mut raw.ours.t, session, 42, "as you say").unwrap();
        assert_eq!(raw.net.borrow().stop_code(session, Side::Client), None);
        assert!(!raw.ours.h3.is_idle());
        (raw, session)
    };
    let (mut raw, session) = closed();
    assert_eq!(raw.write(session, &frame(0, &[0, 1, b'y'])), [], "too late");
    assert_eq!(raw.finish(session), []);
    assert!(raw.ours.h3.is_idle());
    assert_eq!(raw.net.borrow().stop_code(session, Side::Client), None);
    // Another may begin meanwhile: the peer has heard of the end when it asks.
    let (mut raw, _) = closed();
    let (_, events) = raw.bi(&headers(&CONNECT));
    assert!(matches!(&events[..], [Event::Request { .. }]), "{events:?}");
    // And who does not end is stopped.
    let (mut raw, session) = closed();
    let mut passed_over = 0;
    while raw.net.borrow().stop_code(session, Side::Client).is_none() {
        raw.write(session, &frame(0, &[0x17; 1000]));
        passed_over += 1000;
    }
    // 64 KiB, where a frame counts for 16 bytes beside its content.
    assert_eq!(passed_over, 65_000);
    assert_eq!(raw.net.borrow().stop_code(session, Side::Client), Some(0x170d_7b68));
    assert!(raw.ours.h3.is_idle());
}

/// SETTINGS of peers that speak one draft each: 2, 7 to 12, 13 and 14, 15 and 16; and what they ask by.
const DRAFTS: [(&[u8], &str); 4] = [
    (&[0xab, 0x60, 0x37, 0x42, 1], "webtransport"),
    (&[0xc0, 0, 0, 0, 0xc6, 0x71, 0x70, 0x6a, 1], "webtransport"),
    (&[0x94, 0xe9, 0xcd, 0x29, 1], "webtransport"),
    (&[0xac, 0x7c, 0xf0, 0x00, 1], "webtransport-h3"),
];

fn asking(protocol: &str) -> Vec<(&str, &str)> {
    CONNECT
        .into_iter()
        .map(|(name, value)| (name, if name == ":protocol" { protocol } else { value }))
        .collect()
}

/// draft-ietf-webtrans-http3 §7.1: an endpoint that speaks several drafts says so of each.
#[test]
fn every_draft_is_offered_and_taken() {
    let (pair, _) = session();
    for of in [&pair.client.h3, &pair.server.h3] {
        let s = of.peer_settings().unwrap();
        assert_eq!((s.wt_draft_02, s.wt_max_sessions, s.wt_draft_13, s.wt_enabled), (true, 1, 1, true));
        let most = (s.wt_initial_max_streams_uni, s.wt_initial_max_streams_bidi, s.wt_initial_max_data);
        assert_eq!(most, (1 << 60, 1 << 60, (1 << 62) - 1), "what QUIC does not limit is not limited");
    }
    for (setting, protocol) in DRAFTS {
        // A client that speaks nothing else begins a session like others.
        let mut raw = Raw::with(Side::Server, config(), &[&[0x33, 1], setting].concat());
        let (id, events) = raw.bi(&headers(&asking(protocol)));
        assert!(matches!(&events[..], [Event::Request { .. }]), "{setting:?}: {events:?}");
        assert!(raw.ours.h3.is_session(id), "{setting:?}");
        // Before its settings came, its word counts.
        let mut raw = Raw::silent(Side::Server, config());
        let (id, _) = raw.bi(&headers(&asking(protocol)));
        assert!(raw.ours.h3.is_session(id), "{setting:?}");
    }
}

/// draft-ietf-webtrans-http3-15 §2.1.2: to who speaks that draft and no older one, the old name is that of
/// another protocol.
#[test]
fn the_old_name_is_another_protocol_to_new_clients() {
    let mut raw = Raw::with(Side::Server, config(), &[&[0x33, 1], DRAFTS[3].0].concat());
    let (id, events) = raw.bi(&headers(&asking("webtransport")));
    assert!(matches!(&events[..], [Event::Request { .. }]), "{events:?}");
    assert!(!raw.ours.h3.is_session(id), "the application declines it like any protocol it does not know");
}

/// A client asks by what the server speaks, whichever name the application gave it; of draft 2 it says that
/// it speaks that.
#[test]
fn a_client_asks_in_the_words_of_the_servers_draft() {
    for (n, (setting, protocol)) in DRAFTS.into_iter().enumerate() {
        for named in ["webtransport", "webtransport-h3"] {
            let mut raw = Raw::with(Side::Client, config(), &[&[8, 1, 0x33, 1], setting].concat());
            let request = Request::extended(named, "example.com", "/");
            let id = raw.ours.h3.request(&mut raw.ours.t, &request, false).expect("it may be");
            let sent = raw.sent(id);
            let (_, events) = Raw::with(Side::Server, config(), &[0x33, 1]).bi(&sent);
            let [Event::Request { request, .. }] = &events[..] else { panic!("{events:?}") };
            assert_eq!(request.protocol.as_deref(), Some(protocol.as_bytes()), "draft {n}, {named}");
            let said = request.fields.iter().map(|field| (&field.name[..], &field.value[..]));
            let of_two = (&b"sec-webtransport-http3-draft02"[..], &b"1"[..]);
            assert_eq!(said.collect::<Vec<_>>(), [of_two][..usize::from(n == 0)], "draft {n}, {named}");
        }
    }
    // Nothing of it.
    let mut raw = Raw::with(Side::Client, config(), &[8, 1, 0x33, 1]);
    assert_eq!(raw.ours.h3.request(&mut raw.ours.t, &request(), false), Err(VerbRefusal::Unsupported));
    // draft-ietf-webtrans-http3-16 §3.1.
    let raw = Raw::with(Side::Client, config(), &[0xac, 0x7c, 0xf0, 0x00, 2]);
    assert_eq!(raw.closed(), ErrorCode::H3_SETTINGS_ERROR);
}

/// draft-ietf-webtrans-http3 §4.7: GOAWAY is a wish that sessions end.
#[test]
fn a_goodbye_asks_sessions_to_end() {
    let (mut pair, session) = session();
    pair.server.h3.go_away(&mut pair.server.t, true);
    assert_eq!(pair.run().0, [Event::GoAway, Event::SessionDraining(session)]);
    // Once, whatever is said of it besides.
    pair.server.h3.drain_session(&mut pair.server.t, session).unwrap();
    assert_eq!(pair.run().0, []);
}

/// draft-ietf-webtrans-http3 §4.4: whoever opened a stream that is given up said in front of which session it
/// is, and that arrives.
#[test]
fn the_header_of_a_stream_outlives_its_reset() {
    for ended in [false, true] {
        let (mut raw, session) = raw_session();
        let theirs = raw.bi(&[0x40, 0x41, 0]).0;
        let ours = [Dir::Bi, Dir::Uni]
            .map(|dir| raw.ours.h3.open_session_stream(&mut raw.ours.t, session, dir).expect("it may be"));
        if ended {
            raw.ours.h3.close_session(&mut raw.ours.t, session, 0, "").unwrap();
        } else {
            for id in [theirs, ours[0], ours[1]] {
                raw.ours.h3.session_reset(&mut raw.ours.t, id, 7);
            }
        }
        let code = if ended { ErrorCode::WT_SESSION_GONE.0 } else { http_code(7) };
        for (id, reliable) in [(theirs, 0), (ours[0], 3), (ours[1], 3)] {
            let net = raw.net.borrow();
            assert_eq!(net.reset_code(id, Side::Server), Some(code), "{id:?}");
            assert_eq!(net.reliable(id, Side::Server), Some(reliable), "{id:?}");
        }
    }
}

/// A session with a peer that allows one stream of each kind and ten bytes, until it says more.
fn limited() -> (Raw, StreamId) {
    let limits = [0x6b, 0x64, 1, 0x6b, 0x65, 1, 0x6b, 0x61, 10];
    let mut raw = Raw::with(Side::Server, config(), &[&SETTINGS[..], &limits].concat());
    let (id, _) = raw.bi(&headers(&CONNECT));
    raw.ours.h3.respond(&mut raw.ours.t, id, &Response::new(200), false).expect("it may be");
    raw.sent(id);
    (raw, id)
}

/// A capsule of flow control, in a frame.
fn capsule(kind: u8, value: u8) -> Vec<u8> {
    frame(0, &[0x99, 0x0b, 0x4d, kind, 1, value])
}

/// The same as ours writes it.
fn said(kind: u8, value: u8) -> Vec<u8> {
    vec![0, 6, 0x99, 0x0b, 0x4d, kind, 1, value]
}

/// draft-ietf-webtrans-http3 §5.3, §5.6.2, §5.6.3.
#[test]
fn no_more_streams_are_opened_than_the_peer_allows() {
    for (dir, max, blocked) in [(Dir::Bi, 0x3f, 0x43), (Dir::Uni, 0x40, 0x44)] {
        let (mut raw, session) = limited();
        let open = |raw: &mut Raw| raw.ours.h3.open_session_stream(&mut raw.ours.t, session, dir);
        let first = open(&mut raw).unwrap();
        assert_eq!(open(&mut raw), Err(VerbRefusal::Blocked));
        assert_eq!(open(&mut raw), Err(VerbRefusal::Blocked));
        assert_eq!(raw.sent(session), said(blocked, 1), "once for each limit");
        // Closed streams count, too.
        raw.ours.h3.session_finish(&mut raw.ours.t, first).unwrap();
        assert_eq!(open(&mut raw), Err(VerbRefusal::Blocked));
        let events = raw.write(session, &capsule(max, 2));
        assert_eq!(events, [Event::Available(dir)]);
        open(&mut raw).unwrap();
        assert_eq!(open(&mut raw), Err(VerbRefusal::Blocked));
        assert_eq!(raw.sent(session), said(blocked, 2));
    }
}

/// draft-ietf-webtrans-http3 §5.4, §5.6.4, §5.6.5: of all streams together, without their headers.
#[test]
fn no_more_bytes_are_sent_than_the_peer_allows() {
    let (mut raw, session) = limited();
    let ours = [Dir::Bi, Dir::Uni]
        .map(|dir| raw.ours.h3.open_session_stream(&mut raw.ours.t, session, dir).expect("it may be"));
    let mut data = Bytes::from("0123456");
    assert_eq!(raw.ours.h3.session_write(&mut raw.ours.t, ours[0], &mut data), Ok(7));
    let mut data = Bytes::from("789abc");
    assert_eq!(raw.ours.h3.session_write(&mut raw.ours.t, ours[1], &mut data), Ok(3));
    assert_eq!(raw.ours.h3.session_write(&mut raw.ours.t, ours[1], &mut data), Err(VerbRefusal::Blocked));
    assert_eq!(raw.ours.h3.session_write(&mut raw.ours.t, ours[1], &mut data), Err(VerbRefusal::Blocked));
    assert_eq!(raw.sent(session), said(0x41, 10));
    assert_eq!(raw.write(session, &capsule(0x3d, 12)), [Event::Writable(ours[1])]);
    assert_eq!(raw.ours.h3.session_write(&mut raw.ours.t, ours[1], &mut data), Ok(2));
    assert_eq!(raw.ours.h3.session_write(&mut raw.ours.t, ours[1], &mut data), Err(VerbRefusal::Blocked));
    assert_eq!((&data[..], raw.sent(session)), (&b"c"[..], said(0x41, 12)));
    assert_eq!(raw.sent(ours[1])[3..], *b"789ab");
}

/// draft-ietf-webtrans-http3 §5.6.2, §5.6.4: limits grow, and of streams there are no more than 2^60.
#[test]
fn limits_that_cannot_be_end_the_session() {
    let many = |kind| frame(0, &[0x99, 0x0b, 0x4d, kind, 8, 0xd0, 0, 0, 0, 0, 0, 0, 1]);
    let short = frame(0, &[0x99, 0x0b, 0x4d, 0x3d, 1, 0x40]);
    let flow = ErrorCode::WT_FLOW_CONTROL_ERROR;
    for (bytes, code) in [
        (capsule(0x3d, 10), flow),
        (capsule(0x3f, 1), flow),
        (capsule(0x40, 0), flow),
        (many(0x3f), flow),
        (many(0x40), flow),
        (many(0x43), flow),
        (many(0x44), flow),
        (short, ErrorCode::H3_MESSAGE_ERROR),
    ] {
        let (mut raw, session) = limited();
        raw.write(session, &bytes);
        assert_eq!(raw.net.borrow().reset_code(session, Side::Server), Some(code.0), "{bytes:x?}");
        raw.lives();
    }
}

/// draft-ietf-webtrans-http3 §5.1, §5.4: where a peer wants no flow control of sessions, what it says of it
/// all the same is passed over; what streams of HTTP/3 never have ends the session, and not the connection.
#[test]
fn flow_control_of_sessions_is_passed_over_and_that_of_streams_is_an_error() {
    for (kind, is_error) in [
        (0x3d, false),
        (0x3e, true),
        (0x3f, false),
        (0x40, false),
        (0x41, false),
        (0x42, true),
        (0x43, false),
        (0x44, false),
    ] {
        let (mut raw, session) = raw_session();
        let events = raw.write(session, &frame(0, &[0x99, 0x0b, 0x4d, kind, 2, 0x40, 0x64]));
        let expected = is_error.then_some(ErrorCode::WT_FLOW_CONTROL_ERROR.0);
        assert_eq!(raw.net.borrow().reset_code(session, Side::Server), expected, "{kind:#x}: {events:?}");
        let ended = Event::SessionClosed { session, code: 0, reason: Bytes::new() };
        assert_eq!(events.contains(&ended), is_error, "{kind:#x}: {events:?}");
        raw.lives();
    }
}

/// draft-ietf-webtrans-http3 §6.
#[test]
fn words_of_an_end_are_text() {
    let (mut raw, session) = raw_session();
    let events = raw.write(session, &frame(0, &[0x68, 0x43, 6, 0, 0, 0, 7, 0xff, 0xfe]));
    assert_eq!(
        raw.net.borrow().reset_code(session, Side::Server),
        Some(ErrorCode::H3_MESSAGE_ERROR.0),
        "{events:?}"
    );
}

#[test]
fn a_session_ends_with_its_stream() {
    let (mut raw, session) = raw_session();
    let events = raw.finish(session);
    assert_eq!(events, [Event::SessionClosed { session, code: 0, reason: Bytes::new() }]);
    let (mut raw, session) = raw_session();
    let events = raw.reset(session, 0x10c);
    assert_eq!(events, [Event::SessionClosed { session, code: 0, reason: Bytes::new() }]);
    let (mut raw, session) = raw_session();
    raw.t.stop(session, 0x10c);
    let events = raw.ours.turn();
    assert!(events.contains(&Event::SessionClosed { session, code: 0, reason: Bytes::new() }));
    assert!(raw.ours.h3.is_idle());
}

/// draft-ietf-webtrans-http3 §6.
#[test]
fn bytes_behind_the_close_are_h3_message_error() {
    let (mut raw, session) = raw_session();
    raw.write(session, &frame(0, &[0x68, 0x43, 4, 0, 0, 0, 1, 0]));
    assert_eq!(raw.given_up(session).0, Some(ErrorCode::H3_MESSAGE_ERROR));
    raw.lives();
}

/// RFC 9297 §3.3: an end within a capsule is no end, and no close without a code either.
#[test]
fn an_end_within_a_capsule_is_h3_message_error() {
    let close = [0x68, 0x43, 4, 0, 0, 0, 1];
    for cut in 1..close.len() {
        let (mut raw, session) = raw_session();
        raw.write(session, &frame(0, &close[..cut]));
        assert_eq!(raw.given_up(session).0, None, "more may come");
        let events = raw.finish(session);
        assert!(matches!(events[..], [Event::SessionClosed { .. }]), "{events:?}");
        assert_eq!(raw.given_up(session).0, Some(ErrorCode::H3_MESSAGE_ERROR), "{cut}");
        raw.lives();
    }
}

#[test]
fn a_close_that_is_too_long_or_short_is_h3_message_error() {
    for capsule in
        [[&[0x68, 0x43, 3][..], &[0; 3]].concat(), [&[0x68, 0x43, 0x44, 5][..], &[0; 1029]].concat()]
    {
        let (mut raw, session) = raw_session();
        raw.write(session, &frame(0, &capsule));
        assert_eq!(raw.given_up(session).0, Some(ErrorCode::H3_MESSAGE_ERROR));
        raw.lives();
    }
}

#[test]
fn streams_that_come_before_their_session_wait() {
    let mut raw = Raw::with(Side::Server, config(), &SETTINGS);
    let connect = raw.t.open(Dir::Bi).unwrap();
    let uni = raw.uni(&[0x40, 0x54, 0, b'x']);
    let (bi, events) = raw.bi(&[0x40, 0x41, 0, b'y']);
    assert_eq!(events, []);
    raw.write(connect, &headers(&CONNECT));
    raw.ours.h3.respond(&mut raw.ours.t, connect, &Response::new(200), false).unwrap();
    let events = raw.ours.turn();
    assert_eq!(events.len(), 2);
    for (id, dir, byte) in [(uni, Dir::Uni, "x"), (bi, Dir::Bi, "y")] {
        assert!(events.contains(&Event::SessionStream { session: connect, id, dir }));
        assert_eq!(raw.ours.h3.session_read(&mut raw.ours.t, id, 9), Ok(Chunk::Data(Bytes::from(byte))));
    }
}

/// draft-ietf-webtrans-http3 §4.6.
#[test]
fn streams_that_wait_are_bounded() {
    let mut raw = Raw::with(Side::Server, config(), &SETTINGS);
    raw.t.open(Dir::Bi).unwrap();
    for _ in 0..16 {
        let (id, _) = raw.bi(&[0x40, 0x41, 0]);
        assert_eq!(raw.given_up(id), (None, None));
    }
    let (id, _) = raw.bi(&[0x40, 0x41, 0]);
    assert_eq!(raw.given_up(id).0, Some(ErrorCode::WT_BUFFERED_STREAM_REJECTED));
    raw.lives();
}

/// Packets were lost: a later one opens all streams in front of its own (RFC 9000 §3.2), which say later what
/// they are.
#[test]
fn streams_whose_first_bytes_are_late_are_not_given_up() {
    let (mut raw, session) = raw_session();
    let ids: Vec<StreamId> = (0..90).map(|_| raw.t.open(Dir::Uni).expect("allowed")).collect();
    assert_eq!(raw.ours.turn(), []);
    for id in ids {
        let events = raw.write(id, &[0x40, 0x54, 0, 7]);
        assert_eq!(events, [Event::SessionStream { session, id, dir: Dir::Uni }]);
        assert_eq!(raw.given_up(id), (None, None));
    }
}

#[test]
fn streams_of_sessions_that_are_over_are_given_up() {
    let (mut raw, session) = raw_session();
    raw.finish(session);
    let (id, _) = raw.bi(&[0x40, 0x41, 0]);
    assert_eq!(raw.given_up(id), (Some(ErrorCode::WT_SESSION_GONE), Some(ErrorCode::WT_SESSION_GONE)));
}

/// They would wait for it to begin for as long as the connection lives, and take the places of those that it
/// may.
#[test]
fn streams_that_come_behind_the_end_of_their_session_are_given_up() {
    let gone = Some(ErrorCode::WT_SESSION_GONE);
    for closed in [true, false] {
        let mut raw = Raw::with(Side::Server, config(), &SETTINGS);
        let (session, _) = raw.bi(&headers(&CONNECT));
        let status = if closed { 200 } else { 404 };
        raw.ours.h3.respond(&mut raw.ours.t, session, &Response::new(status), !closed).unwrap();
        if closed {
            raw.ours.h3.close_session(&mut raw.ours.t, session, 42, "as you say").unwrap();
        }
        assert!(!raw.ours.h3.is_idle(), "the client has not ended its half");
        let (bi, events) = raw.bi(&[0x40, 0x41, 0]);
        assert_eq!((raw.given_up(bi), events), ((gone, gone), vec![]));
        let uni = raw.uni(&[0x40, 0x54, 0]);
        assert_eq!(raw.net.borrow().stop_code(uni, Side::Client), gone.map(|code| code.0));
    }
    // The client's: what the server opens before it hears of the end.
    let (mut pair, session) = session();
    pair.client.h3.close_session(&mut pair.client.t, session, 42, "").unwrap();
    let uni = pair.server.h3.open_session_stream(&mut pair.server.t, session, Dir::Uni).unwrap();
    assert_eq!(pair.client.turn(), []);
    assert_eq!(pair.net.borrow().stop_code(uni, Side::Server), gone.map(|code| code.0));
}

#[test]
fn streams_that_wait_for_a_session_that_is_refused_are_given_up() {
    let mut raw = Raw::with(Side::Server, config(), &SETTINGS);
    let (connect, _) = raw.bi(&headers(&CONNECT));
    let (id, _) = raw.bi(&[0x40, 0x41, 0]);
    raw.ours.h3.respond(&mut raw.ours.t, connect, &Response::new(404), true).unwrap();
    assert_eq!(raw.given_up(id).0, Some(ErrorCode::WT_SESSION_GONE));
}

/// They would keep their places for as long as the connection lives.
#[test]
fn streams_that_wait_for_a_request_that_is_no_session_are_given_up() {
    let mut raw = Raw::with(Side::Server, config(), &SETTINGS);
    let request = raw.t.open(Dir::Bi).unwrap();
    let (id, _) = raw.bi(&[0x40, 0x41, 0]);
    assert_eq!(raw.given_up(id), (None, None));
    raw.write(request, &headers(&GET));
    assert_eq!(raw.given_up(id).0, Some(ErrorCode::WT_SESSION_GONE));
    raw.lives();
}

#[test]
fn a_session_that_is_no_request_is_h3_id_error() {
    for session in [1, 2, 3] {
        let mut raw = Raw::with(Side::Server, config(), &SETTINGS);
        raw.bi(&[0x40, 0x41, session]);
        assert_eq!(raw.closed(), ErrorCode::H3_ID_ERROR);
        let mut raw = Raw::with(Side::Server, config(), &SETTINGS);
        raw.uni(&[0x40, 0x54, session]);
        assert_eq!(raw.closed(), ErrorCode::H3_ID_ERROR);
    }
}

/// draft-ietf-webtrans-http3 §4.3.
#[test]
fn the_signal_behind_the_first_bytes_is_h3_frame_error() {
    let mut raw = Raw::with(Side::Server, config(), &SETTINGS);
    raw.bi(&[0x21, 0, 0x40, 0x41, 0]);
    assert_eq!(raw.closed(), ErrorCode::H3_FRAME_ERROR);
}

#[test]
fn a_stream_of_the_server_without_the_signal_is_h3_stream_creation_error() {
    let mut raw = Raw::with(Side::Client, config(), &SETTINGS);
    raw.bi(&headers(&[(":status", "200")]));
    assert_eq!(raw.closed(), ErrorCode::H3_STREAM_CREATION_ERROR);
}

#[test]
fn the_signal_in_a_response_is_h3_frame_error() {
    let mut raw = Raw::with(Side::Client, config(), &SETTINGS);
    let id = raw.ours.h3.request(&mut raw.ours.t, &request(), false).unwrap();
    raw.write(id, &[0x40, 0x41, 0]);
    assert_eq!(raw.closed(), ErrorCode::H3_FRAME_ERROR);
}

/// draft-ietf-webtrans-http3 §5.1, §5.2.
#[test]
fn one_session_at_a_time() {
    let (mut pair, _) = session();
    assert_eq!(
        pair.client.h3.request(&mut pair.client.t, &request(), false),
        Err(VerbRefusal::TooManySessions)
    );
    let (mut raw, _) = raw_session();
    let (id, events) = raw.bi(&headers(&CONNECT));
    assert_eq!((events.len(), raw.given_up(id).0), (0, Some(ErrorCode::H3_REQUEST_REJECTED)));
    raw.lives();
}

#[test]
fn without_datagrams_there_are_no_sessions() {
    let net = net(1);
    net.borrow_mut().takes_datagrams = false;
    let mut pair = Pair::on(net, &config());
    assert_eq!(pair.client.h3.request(&mut pair.client.t, &request(), false), Err(VerbRefusal::Unsupported));
    // A client that asks all the same, without having said that it takes datagrams.
    let mut raw = Raw::with(Side::Server, config(), &[]);
    let (id, _) = raw.bi(&headers(&CONNECT));
    assert_eq!(raw.given_up(id).0, Some(ErrorCode::H3_MESSAGE_ERROR));
}

/// draft-ietf-webtrans-http3 §4.4: the ends of the range, and the numbers that are left out.
#[test]
fn codes_are_mapped_as_the_draft_says() {
    assert_eq!((http_code(0), http_code(u32::MAX)), (0x52e4_a40f_a8db, 0x52e5_ac98_3162));
    for code in [0, 1, 28, 29, 30, 31, 59, 60, 1000, u32::MAX] {
        assert_eq!(session_code(http_code(code)), Some(code));
        assert_ne!((http_code(code) - 0x21) % 0x1f, 0, "not one that stands for nothing");
    }
    assert_eq!(session_code(0x10c), None);
    assert_eq!(session_code(0x52e5_ac98_3163), None);
    assert_eq!(session_code(http_code(29) + 1), None, "left out");

    let (mut pair, session) = session();
    let id = pair.client.h3.open_session_stream(&mut pair.client.t, session, Dir::Bi).unwrap();
    pair.run();
    pair.client.h3.session_reset(&mut pair.client.t, id, 5);
    pair.client.h3.session_stop(&mut pair.client.t, id, 6);
    let (_, told) = pair.run();
    assert_eq!(told, [Event::Stopped { id, code: http_code(6) }]);
    let read = pair.server.h3.session_read(&mut pair.server.t, id, 9);
    assert_eq!(read, Err(VerbRefusal::Aborted(Abort::Reset(http_code(5)))));
}
