//! Requests and responses between a client and a server, both ours.

use bytes::Bytes;
use quickset_h3::{
    Abort, BodyRead, Config, ErrorCode, Event, Field, Request, Response, Transport as _, VerbRefusal,
};
use quickset_quic::{Dir, Side, StreamId};

use crate::net::{GET, Pair, Peer, Raw, frame, headers, net};

fn get() -> Request {
    Request::new("GET", "example.com", "/")
}

fn read(peer: &mut Peer, id: StreamId) -> Result<BodyRead, VerbRefusal> {
    peer.h3.read(&mut peer.t, id, 1000)
}

/// Makes a request, which the server gets.
fn ask(pair: &mut Pair, request: &Request, end: bool) -> StreamId {
    let id = pair.client.h3.request(&mut pair.client.t, request, end).expect("it may be");
    let (_, told) = pair.run();
    assert!(
        told.iter()
            .any(|e| matches!(e, Event::Request { id: i, request: r, .. } if *i == id && r == request))
    );
    id
}

fn answer(pair: &mut Pair, id: StreamId, response: &Response, end: bool) -> Vec<Event> {
    pair.server.h3.respond(&mut pair.server.t, id, response, end).expect("it may be");
    pair.run().0
}

#[test]
fn a_request_is_answered() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &get().with("user-agent", "quickset"), true);
    assert_eq!(read(&mut pair.server, id), Ok(BodyRead::Finished));
    let response = Response::new(200).with("content-length", "5");
    assert_eq!(answer(&mut pair, id, &response, false), [Event::Response { id, response }]);
    let mut data = Bytes::from("hello");
    assert_eq!(pair.server.h3.send(&mut pair.server.t, id, &mut data), Ok(5));
    pair.server.h3.finish(&mut pair.server.t, id).unwrap();
    pair.run();
    assert_eq!(read(&mut pair.client, id), Ok(BodyRead::Data(Bytes::from("hello"))));
    assert_eq!(read(&mut pair.client, id), Ok(BodyRead::Finished));
    assert_eq!(read(&mut pair.client, id), Err(VerbRefusal::UnknownStream));
    assert!(pair.client.h3.is_idle() && pair.server.h3.is_idle());
}

/// RFC 9204 §4.4.1: each section that refers to the table is acknowledged; those that are told together, by
/// one write.
#[test]
fn sections_that_came_together_are_acknowledged_together() {
    for (together, writes) in [(false, 5), (true, 1)] {
        let mut pair = Pair::new(&Config::default());
        let response = Response::new(200).with("server", "quickset");
        // The table has the field from here on.
        let id = ask(&mut pair, &get(), true);
        answer(&mut pair, id, &response, true);
        let ids: Vec<StreamId> = (0..5).map(|_| ask(&mut pair, &get(), true)).collect();
        for id in ids {
            pair.server.h3.respond(&mut pair.server.t, id, &response, true).expect("it may be");
        }
        pair.net.borrow_mut().together = together;
        pair.net.borrow_mut().writes.clear();
        let told = pair.client.turn();
        assert_eq!(told.iter().filter(|event| matches!(event, Event::Response { .. })).count(), 5);
        // The client's third stream is that of its decoder.
        let written = pair.net.borrow().writes.get(&(StreamId(10), Side::Client)).copied();
        assert_eq!(written, Some(writes));
    }
}

#[test]
fn an_answer_in_one_call_arrives_as_one_of_three_does() {
    let content: Bytes = (0..=250).cycle().take(3000).collect();
    // Short ones are written in one piece; a stream that takes a few bytes at a time gets all of it, too.
    for (len, window) in
        [(0, 1 << 20), (5, 1 << 20), (1000, 1 << 20), (3000, 1 << 20), (1000, 100), (3000, 7)]
    {
        let mut pair = Pair::new(&Config::default());
        let id = ask(&mut pair, &get(), true);
        assert_eq!(read(&mut pair.server, id), Ok(BodyRead::Finished));
        pair.net.borrow_mut().window = window;
        let response = Response::new(200).with("content-length", len.to_string());
        let mut left = content.slice(..len);
        pair.server.h3.answer(&mut pair.server.t, id, &response, &mut left).expect("it may be");
        assert!(left.is_empty(), "up to a megabyte is taken");
        let again = pair.server.h3.answer(&mut pair.server.t, id, &response, &mut Bytes::from("x"));
        assert!(matches!(again, Err(VerbRefusal::OutOfOrder | VerbRefusal::UnknownStream)), "{again:?}");
        assert!(pair.run().0.contains(&Event::Response { id, response }));
        let mut got = Vec::new();
        loop {
            match read(&mut pair.client, id).expect("it is there") {
                BodyRead::Data(data) => got.extend_from_slice(&data),
                BodyRead::Finished => break,
                BodyRead::Blocked => drop(pair.run()),
                BodyRead::Trailers(_) => panic!("there are none"),
            }
        }
        assert_eq!(got, content[..len]);
        assert!(pair.client.h3.is_idle() && pair.server.h3.is_idle(), "{len} bytes by {window}");
    }
}

#[test]
fn an_answer_that_may_have_no_content_is_refused_with_some() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &Request::new("HEAD", "example.com", "/"), true);
    let response = Response::new(200).with("content-length", "5");
    let refused = pair.server.h3.answer(&mut pair.server.t, id, &response, &mut Bytes::from("hello"));
    assert_eq!(refused, Err(VerbRefusal::OutOfOrder));
    let told = pair.run().0;
    assert_eq!(told, [Event::Response { id, response }], "its head has left, and waits for its end");
    pair.server.h3.finish(&mut pair.server.t, id).expect("it goes on");
    pair.run();
    assert_eq!(read(&mut pair.client, id), Ok(BodyRead::Finished));
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &get(), true);
    let early = Response::new(103).with("link", "</style.css>");
    assert_eq!(answer(&mut pair, id, &early, false), [Event::Interim { id, response: early.clone() }]);
    assert_eq!(answer(&mut pair, id, &early, false).len(), 1, "any number of them");
    assert!(matches!(answer(&mut pair, id, &Response::new(200), true)[..], [Event::Response { .. }]));
    let again = pair.server.h3.respond(&mut pair.server.t, id, &Response::new(200), true);
    assert_eq!(again, Err(VerbRefusal::OutOfOrder), "and nothing behind it");
}

#[test]
fn trailers_come_behind_the_content() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &Request::new("POST", "example.com", "/"), false);
    assert_eq!(read(&mut pair.server, id), Ok(BodyRead::Blocked));
    pair.client.h3.send(&mut pair.client.t, id, &mut Bytes::from("data")).unwrap();
    let fields = [Field::new("x-checksum", "1234")];
    pair.client.h3.send_trailers(&mut pair.client.t, id, &fields).unwrap();
    assert_eq!(pair.run().1, [Event::Readable(id)], "told once");
    assert_eq!(read(&mut pair.server, id), Ok(BodyRead::Data(Bytes::from("data"))));
    assert_eq!(read(&mut pair.server, id), Ok(BodyRead::Trailers(fields.to_vec())));
    assert_eq!(read(&mut pair.server, id), Ok(BodyRead::Finished));
    let more = pair.client.h3.send(&mut pair.client.t, id, &mut Bytes::from("x"));
    assert_eq!(more, Err(VerbRefusal::OutOfOrder));
}

#[test]
fn what_is_malformed_is_not_sent() {
    let mut pair = Pair::new(&Config::default());
    let bad = get().with("Upper", "x");
    assert!(matches!(pair.client.h3.request(&mut pair.client.t, &bad, true), Err(VerbRefusal::Malformed(_))));
    let id = ask(&mut pair, &get(), true);
    let respond = |pair: &mut Pair, response: &Response| {
        pair.server.h3.respond(&mut pair.server.t, id, response, false)
    };
    assert!(matches!(respond(&mut pair, &Response::new(101)), Err(VerbRefusal::Malformed(_))));
    assert!(matches!(
        respond(&mut pair, &Response::new(200).with("x", "\n")),
        Err(VerbRefusal::Malformed(_))
    ));
    respond(&mut pair, &Response::new(200)).unwrap();
    let trailers = [Field::new(":status", "200")];
    let result = pair.server.h3.send_trailers(&mut pair.server.t, id, &trailers);
    assert!(matches!(result, Err(VerbRefusal::Malformed(_))));
}

/// RFC 9114 §4.2.2.
#[test]
fn a_section_larger_than_the_peer_takes_is_not_sent() {
    let mut pair = Pair::new(&Config { max_field_section: 500, ..Config::default() });
    let large = get().with("x", "y".repeat(400));
    assert_eq!(pair.client.h3.request(&mut pair.client.t, &large, true), Err(VerbRefusal::TooLarge));
    ask(&mut pair, &get().with("x", "y".repeat(100)), true);
}

#[test]
fn a_response_without_content_gets_none() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &Request::new("HEAD", "example.com", "/"), true);
    answer(&mut pair, id, &Response::new(200).with("content-length", "5"), false);
    let sent = pair.server.h3.send(&mut pair.server.t, id, &mut Bytes::from("hello"));
    assert_eq!(sent, Err(VerbRefusal::OutOfOrder));
    pair.server.h3.finish(&mut pair.server.t, id).unwrap();
    pair.run();
    assert_eq!(read(&mut pair.client, id), Ok(BodyRead::Finished));
}

#[test]
fn a_tunnel_carries_data_both_ways() {
    // RFC 9110 §9.3.6: any 2xx opens it, those of which there is no content otherwise among them.
    for status in [200, 204, 299] {
        let mut pair = Pair::new(&Config::default());
        let id = ask(&mut pair, &Request::connect("example.com:443"), false);
        answer(&mut pair, id, &Response::new(status), false);
        for (n, text) in ["ping", "pong"].into_iter().enumerate() {
            let (from, to) = if n == 0 {
                (&mut pair.client, &mut pair.server)
            } else {
                (&mut pair.server, &mut pair.client)
            };
            from.h3.send(&mut from.t, id, &mut Bytes::from(text)).unwrap();
            to.turn();
            assert_eq!(read(to, id), Ok(BodyRead::Data(Bytes::from(text))), "{status}");
        }
        let trailers = pair.client.h3.send_trailers(&mut pair.client.t, id, &[]);
        assert_eq!(trailers, Err(VerbRefusal::OutOfOrder), "only DATA");
    }
}

/// RFC 9220 §3.
#[test]
fn extended_connect_waits_for_the_servers_word() {
    let websocket = Request::extended("websocket", "example.com", "/chat");
    let mut pair = Pair::new(&Config::default());
    assert_eq!(pair.client.h3.request(&mut pair.client.t, &websocket, false), Err(VerbRefusal::Unsupported));
    let mut pair = Pair::new(&Config { extended_connect: true, ..Config::default() });
    ask(&mut pair, &websocket, false);
}

#[test]
fn a_request_waits_for_a_stream() {
    let net = net(1);
    net.borrow_mut().limit(Side::Client, Dir::Bi, 1);
    let mut pair = Pair::on(net, &Config::default());
    ask(&mut pair, &get(), true);
    assert_eq!(pair.client.h3.request(&mut pair.client.t, &get(), true), Err(VerbRefusal::Blocked));
    pair.net.borrow_mut().limit(Side::Client, Dir::Bi, 2);
    assert_eq!(pair.run().0, [Event::Available(Dir::Bi)]);
    ask(&mut pair, &get(), true);
}

#[test]
fn sending_waits_for_room() {
    let net = net(1);
    net.borrow_mut().window = 100;
    let mut pair = Pair::on(net, &Config::default());
    let id = ask(&mut pair, &Request::new("POST", "example.com", "/"), false);
    let mut data = Bytes::from(vec![7; 1000]);
    assert_eq!(
        pair.client.h3.send(&mut pair.client.t, id, &mut data),
        Ok(1000),
        "what is announced is taken"
    );
    assert_eq!(pair.client.h3.send(&mut pair.client.t, id, &mut Bytes::from("x")), Err(VerbRefusal::Blocked));
    pair.client.h3.finish(&mut pair.client.t, id).unwrap();
    let (mut got, mut writable) = (0, 0);
    loop {
        match read(&mut pair.server, id) {
            Ok(BodyRead::Data(data)) => got += data.len(),
            Ok(BodyRead::Finished) => break,
            Ok(BodyRead::Blocked) => {
                writable += pair.run().0.iter().filter(|e| **e == Event::Writable(id)).count();
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((got, writable), (1000, 1));
}

/// RFC 9114 §4.1.1.
#[test]
fn a_cancelled_request_is_given_up_on_both_sides() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &get(), false);
    pair.client.h3.cancel(&mut pair.client.t, id, ErrorCode::H3_REQUEST_CANCELLED);
    let (_, told) = pair.run();
    assert!(told.contains(&Event::Stopped { id, code: 0x10c }), "the response is not wanted");
    assert_eq!(read(&mut pair.server, id), Err(VerbRefusal::Aborted(Abort::Reset(0x10c))));
    assert!(pair.client.h3.is_idle() && pair.server.h3.is_idle());
}

#[test]
fn a_rejected_request_may_be_sent_again() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &get(), true);
    pair.server.h3.cancel(&mut pair.server.t, id, ErrorCode::H3_REQUEST_REJECTED);
    assert_eq!(pair.run().0, [Event::Aborted { id, why: Abort::Rejected }]);
}

#[test]
fn a_server_may_answer_without_the_rest_of_the_request() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &Request::new("POST", "example.com", "/"), false);
    pair.server.h3.stop(&mut pair.server.t, id, ErrorCode::H3_NO_ERROR);
    let told = answer(&mut pair, id, &Response::new(413), true);
    assert_eq!(
        told,
        [Event::Stopped { id, code: 0x100 }, Event::Response { id, response: Response::new(413) }]
    );
    assert_eq!(read(&mut pair.client, id), Ok(BodyRead::Finished));
    assert!(pair.client.h3.is_idle() && pair.server.h3.is_idle());
}

/// A client that gives up its request only still gets the response.
/// The packet that said so came before the one with the head, or the head waits for the table.
#[test]
fn an_answer_that_was_stopped_before_its_request_came_is_told_so() {
    let mut raw = Raw::new(Side::Server);
    let (id, _) = raw.bi(&[]);
    raw.t.stop(id, 0x10c);
    assert_eq!(raw.ours.turn(), [], "there is no request yet");
    let events = raw.write(id, &headers(&GET));
    assert!(matches!(events[0], Event::Request { .. }), "{events:?}");
    assert_eq!(events[1..], [Event::Stopped { id, code: 0x10c }]);
}

#[test]
fn a_reset_request_can_be_answered() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &Request::new("POST", "example.com", "/"), false);
    pair.client.t.reset(id, 0x10c);
    pair.run();
    assert_eq!(read(&mut pair.server, id), Err(VerbRefusal::Aborted(Abort::Reset(0x10c))));
    assert!(matches!(answer(&mut pair, id, &Response::new(400), true)[..], [Event::Response { .. }]));
}

/// RFC 9114 §5.2.
#[test]
fn a_goodbye_loses_nothing() {
    let mut pair = Pair::new(&Config::default());
    let first = ask(&mut pair, &get(), true);
    pair.server.h3.go_away(&mut pair.server.t, true);
    // Under way while the goodbye is.
    let second = pair.client.h3.request(&mut pair.client.t, &get(), true).unwrap();
    let (client, server) = pair.run();
    assert!(client.contains(&Event::GoAway));
    assert!(
        server.iter().any(|e| matches!(e, Event::Request { id, .. } if *id == second)),
        "served all the same"
    );
    assert_eq!(pair.client.h3.request(&mut pair.client.t, &get(), true), Err(VerbRefusal::GoingAway));
    pair.server.h3.go_away(&mut pair.server.t, false);
    assert_eq!(pair.run().0, [], "it was told");
    for id in [first, second] {
        answer(&mut pair, id, &Response::new(200), true);
        assert_eq!(read(&mut pair.client, id), Ok(BodyRead::Finished));
    }
    assert!(pair.client.h3.is_idle());
}

#[test]
fn requests_beyond_a_goodbye_are_rejected() {
    let mut pair = Pair::new(&Config::default());
    let first = ask(&mut pair, &get(), true);
    pair.server.h3.go_away(&mut pair.server.t, false);
    let second = pair.client.h3.request(&mut pair.client.t, &get(), true).unwrap();
    let (client, server) = pair.run();
    assert_eq!(client, [Event::GoAway, Event::Aborted { id: second, why: Abort::Rejected }]);
    assert_eq!(server, []);
    assert_eq!(pair.net.borrow().reset_code(second, Side::Server), Some(0x10b));
    assert!(matches!(answer(&mut pair, first, &Response::new(200), true)[..], [Event::Response { .. }]));
}

/// RFC 9114 §5.2: never more than before, and nothing twice.
#[test]
fn a_goodbye_is_said_once() {
    let mut raw = Raw::new(Side::Server);
    raw.ours.h3.go_away(&mut raw.ours.t, false);
    raw.ours.h3.go_away(&mut raw.ours.t, false);
    raw.ours.h3.go_away(&mut raw.ours.t, true);
    let control = raw.t.accept(Dir::Uni).expect("our control stream");
    let sent = raw.sent(control);
    assert_eq!(sent[3 + sent[2] as usize..], [7, 1, 0], "behind SETTINGS");
}

#[test]
fn a_client_says_goodbye_too() {
    let mut pair = Pair::new(&Config::default());
    pair.client.h3.go_away(&mut pair.client.t, false);
    assert_eq!(pair.run().1, [Event::GoAway]);
    assert_eq!(pair.client.h3.request(&mut pair.client.t, &get(), true), Err(VerbRefusal::GoingAway));
}

/// RFC 9297 §2.1.
#[test]
fn datagrams_belong_to_requests() {
    let config = Config { datagrams: true, ..Config::default() };
    let mut pair = Pair::new(&config);
    let id = ask(&mut pair, &get(), false);
    pair.client.h3.send_datagram(&mut pair.client.t, id, b"late is lost").unwrap();
    pair.server.h3.send_datagram(&mut pair.server.t, id, b"").unwrap();
    let (client, server) = pair.run();
    assert_eq!(client, [Event::Datagram { id, payload: Bytes::new() }]);
    assert_eq!(server, [Event::Datagram { id, payload: Bytes::from("late is lost") }]);
    let too_large = pair.client.h3.send_datagram(&mut pair.client.t, id, &[0; 1200]);
    assert_eq!(too_large, Err(VerbRefusal::TooLarge));
}

/// RFC 9297 §2.1: behind the end of the peer's half they are dropped; who waits for them hears of the end
/// unread.
#[test]
fn datagrams_end_with_the_half_that_they_come_with() {
    let config = Config { datagrams: true, ..Config::default() };
    let mut pair = Pair::new(&config);
    let listen = |pair: &mut Pair, id| pair.server.h3.listen(&mut pair.server.t, id);
    let id = ask(&mut pair, &get(), false);
    assert_eq!(listen(&mut pair, id), Ok(true));
    pair.client.h3.send(&mut pair.client.t, id, &mut Bytes::from("unread")).unwrap();
    assert_eq!(pair.run().1, []);
    pair.client.h3.send_datagram(&mut pair.client.t, id, b"before").unwrap();
    assert_eq!(pair.run().1, [Event::Datagram { id, payload: Bytes::from("before") }]);
    // One that its end overtakes.
    pair.client.h3.send_datagram(&mut pair.client.t, id, b"behind").unwrap();
    let late = pair.net.borrow_mut().next_datagram(Side::Server).unwrap();
    pair.client.h3.finish(&mut pair.client.t, id).unwrap();
    let refused = pair.client.h3.send_datagram(&mut pair.client.t, id, b"x");
    assert_eq!(refused, Err(VerbRefusal::UnknownStream));
    assert_eq!(pair.run().1, [Event::Silent(id)]);
    pair.server.h3.handle_datagram(&mut pair.server.t, late);
    assert_eq!(pair.run().1, []);
    assert_eq!(listen(&mut pair, id), Ok(false));
    assert_eq!(read(&mut pair.server, id), Ok(BodyRead::Data(Bytes::from("unread"))));
    assert_eq!(read(&mut pair.server, id), Ok(BodyRead::Finished));
    assert_eq!(listen(&mut pair, id), Ok(false));

    // Given up by the client; not wanted by the server; given up by the server.
    let id = ask(&mut pair, &get(), false);
    assert_eq!(listen(&mut pair, id), Ok(true));
    pair.client.h3.cancel(&mut pair.client.t, id, ErrorCode::H3_REQUEST_CANCELLED);
    assert!(pair.run().1.contains(&Event::Silent(id)));
    let reset = VerbRefusal::Aborted(Abort::Reset(ErrorCode::H3_REQUEST_CANCELLED.0));
    assert_eq!(listen(&mut pair, id), Err(reset));
    assert_eq!(read(&mut pair.server, id), Err(reset));
    let id = ask(&mut pair, &get(), false);
    assert_eq!(listen(&mut pair, id), Ok(true));
    pair.client.h3.send_datagram(&mut pair.client.t, id, b"behind").unwrap();
    pair.server.h3.stop(&mut pair.server.t, id, ErrorCode::H3_NO_ERROR);
    assert_eq!(pair.run().1, [Event::Silent(id)]);
    assert_eq!(listen(&mut pair, id), Ok(false));
    let id = ask(&mut pair, &get(), false);
    assert_eq!(listen(&mut pair, id), Ok(true));
    pair.server.h3.cancel(&mut pair.server.t, id, ErrorCode::H3_INTERNAL_ERROR);
    assert_eq!(pair.run().1, [Event::Silent(id)]);
    assert_eq!(listen(&mut pair, id), Err(VerbRefusal::UnknownStream));
}

#[test]
fn datagrams_that_come_before_their_request_wait() {
    let config = Config { datagrams: true, ..Config::default() };
    let mut pair = Pair::new(&config);
    let id = pair.client.h3.request(&mut pair.client.t, &get(), false).unwrap();
    for n in 0..20 {
        pair.client.h3.send_datagram(&mut pair.client.t, id, &[n]).unwrap();
    }
    // The datagrams overtake the request.
    while let Some(data) = {
        let mut net = pair.net.borrow_mut();
        net.next_datagram(Side::Server)
    } {
        pair.server.h3.handle_datagram(&mut pair.server.t, data);
    }
    let (_, server) = pair.run();
    assert!(matches!(server[0], Event::Request { .. }));
    let kept: Vec<u8> = server[1..]
        .iter()
        .map(|e| if let Event::Datagram { payload, .. } = e { payload[0] } else { 99 })
        .collect();
    assert_eq!(kept, (4..20).collect::<Vec<u8>>(), "the last sixteen");
}

#[test]
fn datagrams_are_for_those_who_said_so() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &get(), false);
    assert_eq!(pair.client.h3.send_datagram(&mut pair.client.t, id, b"x"), Err(VerbRefusal::Unsupported));
}

#[test]
fn after_an_error_nothing_goes() {
    let mut pair = Pair::new(&Config::default());
    let id = ask(&mut pair, &get(), false);
    pair.client.t.write(id, &mut Bytes::from_static(&[2, 0])).unwrap();
    pair.run();
    assert_eq!(read(&mut pair.server, id), Err(VerbRefusal::Closed));
    assert_eq!(pair.net.borrow().closed, Some((Side::Server, 0x105)));
    assert!(matches!(pair.run().1[..], [Event::Closed(e)] if e.code == ErrorCode::H3_FRAME_UNEXPECTED));
    let respond = pair.server.h3.respond(&mut pair.server.t, id, &Response::new(200), true);
    assert_eq!(respond, Err(VerbRefusal::Closed));
}

/// RFC 9204 §2.1.2: a section that is ahead of the table waits for it, and so does what is behind it on its
/// stream.
#[test]
fn what_is_ahead_of_the_table_waits() {
    let mut raw = Raw::new(Side::Server);
    let encoder = raw.uni(&[0x02]);
    // Required Insert Count 1, Base 1; entry 0, then GET, https and the path.
    let (id, events) = raw.bi(&[frame(1, &[2, 0, 0x80, 0xd1, 0xd7, 0xc1]), frame(0, b"hello")].concat());
    assert_eq!(events, []);
    let events = raw.write(encoder, &[0x3f, 0xe1, 0x1f, 0xc0, 1, b'a']);
    assert!(
        matches!(&events[..], [Event::Request { request, .. }] if request.authority.as_deref() == Some(b"a")),
        "{events:?}"
    );
    assert_eq!(read(&mut raw.ours, id), Ok(BodyRead::Data(Bytes::from("hello"))));
    // Trailers, too.
    assert_eq!(read(&mut raw.ours, id), Ok(BodyRead::Blocked));
    assert_eq!(raw.write(id, &frame(1, &[3, 0, 0x80])), [Event::Readable(id)]);
    assert_eq!(read(&mut raw.ours, id), Ok(BodyRead::Blocked));
    raw.finish(id);
    assert_eq!(read(&mut raw.ours, id), Ok(BodyRead::Blocked), "the end is behind them");
    let events = raw.write(encoder, &[0x41, b'x', 1, b'y']);
    assert_eq!(events, [Event::Readable(id)]);
    assert_eq!(read(&mut raw.ours, id), Ok(BodyRead::Trailers(vec![Field::new("x", "y")])));
    assert_eq!(read(&mut raw.ours, id), Ok(BodyRead::Finished));
    // What the encoder is told: two sections of stream 0.
    let decoder = std::iter::from_fn(|| raw.t.accept(Dir::Uni)).nth(2).expect("our decoder stream");
    assert_eq!(raw.sent(decoder), [0x03, 0x80, 0x80]);
}

#[test]
fn what_waits_and_is_malformed_is_given_up() {
    let mut raw = Raw::new(Side::Server);
    let encoder = raw.uni(&[0x02]);
    let (id, _) = raw.bi(&frame(1, &[2, 0, 0x80]));
    assert_eq!(raw.write(encoder, &[0x3f, 0xe1, 0x1f, 0xc0, 1, b'a']), [], "no method");
    assert_eq!(raw.given_up(id).0, Some(ErrorCode::H3_MESSAGE_ERROR));
    raw.lives();
}

/// RFC 9204 §2.2.2.2.
#[test]
fn a_stream_that_waits_and_is_given_up_is_cancelled_in_the_table() {
    let mut raw = Raw::new(Side::Server);
    let encoder = raw.uni(&[0x02]);
    let (id, _) = raw.bi(&frame(1, &[2, 0, 0x80]));
    raw.ours.h3.cancel(&mut raw.ours.t, id, ErrorCode::H3_REQUEST_REJECTED);
    assert_eq!(raw.write(encoder, &[0x3f, 0xe1, 0x1f, 0xc0, 1, b'a']), []);
    let decoder = std::iter::from_fn(|| raw.t.accept(Dir::Uni)).nth(2).expect("our decoder stream");
    assert_eq!(raw.sent(decoder), [0x03, 0x40, 0x01], "Stream Cancellation, then an increment");
}

/// RFC 9204 §2.2.2.2: only what is abandoned is cancelled.
#[test]
fn a_stream_that_ended_and_was_read_is_not_cancelled_in_the_table() {
    for (unread, told) in [(vec![], vec![]), (vec![frame(0, b"unread")], vec![0x40])] {
        let mut raw = Raw::new(Side::Server);
        let (id, _) = raw.bi(&headers(&GET));
        for data in &unread {
            raw.write(id, data);
        }
        raw.finish(id);
        raw.ours.h3.stop(&mut raw.ours.t, id, ErrorCode::H3_NO_ERROR);
        let decoder = std::iter::from_fn(|| raw.t.accept(Dir::Uni)).nth(2).expect("our decoder stream");
        assert_eq!(raw.sent(decoder), [vec![0x03], told].concat());
    }
    // Whose end has not come is given up.
    let mut raw = Raw::new(Side::Server);
    let (id, _) = raw.bi(&headers(&GET));
    raw.ours.h3.stop(&mut raw.ours.t, id, ErrorCode::H3_NO_ERROR);
    let decoder = std::iter::from_fn(|| raw.t.accept(Dir::Uni)).nth(2).expect("our decoder stream");
    assert_eq!(raw.sent(decoder), [0x03, 0x40]);
}

/// RFC 9114 §4.4: a server that has accepted it finds fault with anything but DATA, before its client knows.
#[test]
fn a_connect_has_no_trailers() {
    let mut pair = Pair::new(&Config::default());
    let Peer { h3, t } = &mut pair.client;
    let id = h3.request(t, &Request::connect("example.com:1"), false).unwrap();
    assert_eq!(h3.send_trailers(t, id, &[Field::new("x", "1")]), Err(VerbRefusal::OutOfOrder));
}
