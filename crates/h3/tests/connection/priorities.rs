//! Priorities (RFC 9218).

use bytes::Bytes;
use quickset_h3::sfv::ListEntry;
use quickset_h3::{
    BodyRead, Config, ErrorCode, Event, Priority, Request, Response, Transport as _, UnspeakableClass,
};
use quickset_quic::{Class, Protection, Side, StreamEvent, StreamId, Weight};

use crate::net::{GET, Pair, Raw, headers};

/// PRIORITY_UPDATE for a request.
fn update(id: u8, value: &str) -> Vec<u8> {
    [&[0x80, 0x0f, 7, 0, value.len() as u8 + 1, id], value.as_bytes()].concat()
}

fn priority(raw: &Raw, id: StreamId) -> Option<(u8, bool)> {
    raw.net.borrow().priorities.get(&(id, Side::Server)).copied()
}

fn urgency(raw: &Raw, id: StreamId) -> Option<u8> {
    priority(raw, id).map(|(urgency, _)| urgency)
}

#[test]
fn a_request_says_how_urgent_it_is() {
    let mut raw = Raw::new(Side::Server);
    let (id, events) = raw.bi(&headers(&[&GET[..], &[("priority", "u=1, i")]].concat()));
    assert!(
        matches!(&events[..], [Event::Request { priority, .. }] if (priority.urgency, priority.incremental) == (1, true))
    );
    assert_eq!(priority(&raw, id), Some((1, true)));
    let (id, _) = raw.bi(&headers(&GET));
    assert_eq!(priority(&raw, id), Some((3, false)), "RFC 9218 §4: unless said otherwise");
    raw.write(raw.control, &update(id.0 as u8, "i"));
    assert_eq!(priority(&raw, id), Some((3, true)));
    raw.write(raw.control, &update(id.0 as u8, "u=2"));
    assert_eq!(priority(&raw, id), Some((2, false)));
}

/// What nobody waits for the end of never stands in the way of others.
/// RFC 9218 §11.
#[test]
fn tunnels_take_turns() {
    let mut raw = Raw::new(Side::Server);
    let (id, _) = raw.bi(&headers(&[(":method", "CONNECT"), (":authority", "example.com:443")]));
    assert_eq!(priority(&raw, id), Some((3, true)));
}

/// RFC 9218 §10: what the others wait for goes first.
#[test]
fn our_control_and_table_streams_are_before_all_urgencies() {
    let pair = Pair::new(&Config::default());
    let net = pair.net.borrow();
    for side in [Side::Client, Side::Server] {
        let ours: Vec<_> =
            net.critical.iter().filter(|(id, of)| *of == side && id.initiator() == side).collect();
        assert_eq!(ours.len(), 3);
    }
    assert!(net.priorities.is_empty());
}

/// RFC 9204 §2.1.3: an instruction that flow control cuts would make sections wait, and what they wait for.
#[test]
fn without_credit_nothing_goes_into_the_table() {
    let instructions = |credit: Option<u64>| {
        let mut pair = Pair::new(&Config::default());
        pair.net.borrow_mut().credit = credit;
        let request = Request::new("GET", "example.com", "/").with("x-name", "some value of a field");
        for _ in 0..2 {
            pair.client.h3.request(&mut pair.client.t, &request, true).unwrap();
        }
        let encoder = StreamId::new(Side::Client, quickset_quic::Dir::Uni, 1);
        let bytes = pair.net.borrow().unread(encoder, Side::Client);
        let (_, told) = pair.run();
        assert_eq!(told.iter().filter(|event| matches!(event, Event::Request { .. })).count(), 2);
        bytes
    };
    assert_eq!(instructions(Some(0)), 0);
    assert!((1..=100).contains(&instructions(Some(100))));
    assert!(instructions(None) >= instructions(Some(100)));
}

/// RFC 9218 §7.
#[test]
fn an_update_counts_from_when_it_comes() {
    let mut raw = Raw::new(Side::Server);
    let (id, _) = raw.bi(&headers(&GET));
    let events = raw.write(raw.control, &update(0, "u=0, exp_w=0.5"));
    let [Event::Priority { id: told, priority }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((*told, priority.urgency), (id, 0));
    assert!(matches!(priority.parameters.get("exp_w"), Some(ListEntry::Item(_))), "others are handed on");
    assert_eq!(urgency(&raw, id), Some(0));
    assert_eq!(raw.write(raw.control, &update(0, "(")), [], "what is malformed changes nothing");
    assert_eq!(urgency(&raw, id), Some(0));
}

/// RFC 9218 §7.
#[test]
fn an_update_that_comes_first_outranks_the_request() {
    let mut raw = Raw::new(Side::Server);
    raw.write(raw.control, &update(4, "u=6"));
    raw.write(raw.control, &update(4, "u=5"));
    let (first, _) = raw.bi(&headers(&GET));
    let (second, events) = raw.bi(&headers(&[&GET[..], &[("priority", "u=1")]].concat()));
    assert_eq!((urgency(&raw, first), urgency(&raw, second)), (Some(3), Some(5)));
    assert!(matches!(&events[..], [Event::Request { priority, .. }] if priority.urgency == 5));
}

#[test]
fn early_updates_are_bounded() {
    let config = Config { max_early_priorities: 2, ..Config::default() };
    let mut raw = Raw::with(Side::Server, config, &[]);
    for id in [0, 4, 8] {
        raw.write(raw.control, &update(id, "u=0"));
    }
    raw.write(raw.control, &update(4, "u=1"));
    let urgencies: Vec<_> = (0..3)
        .map(|_| {
            let (id, _) = raw.bi(&headers(&GET));
            urgency(&raw, id)
        })
        .collect();
    assert_eq!(urgencies, [Some(0), Some(1), Some(3)]);
}

#[test]
fn updates_for_requests_that_are_over_are_ignored() {
    let mut raw = Raw::new(Side::Server);
    let (id, _) = raw.bi(&headers(&GET));
    raw.ours.h3.cancel(&mut raw.ours.t, id, ErrorCode::H3_REQUEST_REJECTED);
    assert_eq!(raw.write(raw.control, &update(0, "u=0")), []);
    raw.lives();
}

/// RFC 9218 §7: an answer that was handed over whole may wait for long to be sent, and is meant as well.
#[test]
fn an_update_reaches_what_waits_to_be_sent() {
    let mut raw = Raw::new(Side::Server);
    let (id, _) = raw.bi(&headers(&GET));
    raw.finish(id);
    assert_eq!(raw.ours.h3.read(&mut raw.ours.t, id, 100), Ok(BodyRead::Finished));
    raw.ours.h3.respond(&mut raw.ours.t, id, &Response::new(200), true).unwrap();
    assert_eq!(raw.write(raw.control, &update(id.0 as u8, "u=0, i")), [], "to the application it is over");
    assert_eq!(priority(&raw, id), Some((0, true)));
    raw.lives();
}

// HP-10
#[test]
fn what_the_response_says_outlasts_its_exchange() {
    let mut raw = Raw::new(Side::Server);
    let (id, _) = raw.bi(&headers(&GET));
    raw.finish(id);
    assert_eq!(raw.ours.h3.read(&mut raw.ours.t, id, 100), Ok(BodyRead::Finished));
    let response = Response::new(200).with("priority", "u=1, exp_p=(\"own\")");
    raw.ours.h3.respond(&mut raw.ours.t, id, &response, true).unwrap();
    told_classes(&raw);
    raw.write(raw.control, &update(id.0 as u8, "u=6, i, exp_p=(\"theirs\")"));
    assert_eq!((priority(&raw, id), told_classes(&raw)), (Some((1, true)), vec!["own".to_owned()]));
    raw.ours.h3.handle(&mut raw.ours.t, quickset_quic::StreamEvent::Finished(id));
    raw.write(raw.control, &update(id.0 as u8, "u=6"));
    assert_eq!(priority(&raw, id), Some((6, false)), "nothing is kept of what has arrived");
}

/// Whichever comes first, the end of the request or that of the response, nothing is kept behind both.
#[test]
fn what_the_response_says_goes_with_the_later_of_both_ends() {
    for event in
        [StreamEvent::Finished, |id| StreamEvent::Stopped { id, code: ErrorCode::H3_REQUEST_CANCELLED.0 }]
    {
        for is_finished_first in [false, true] {
            let mut raw = Raw::new(Side::Server);
            let (id, _) = raw.bi(&headers(&GET));
            let response = Response::new(200).with("priority", "u=1");
            raw.ours.h3.respond(&mut raw.ours.t, id, &response, is_finished_first).unwrap();
            if is_finished_first {
                raw.ours.h3.handle(&mut raw.ours.t, event(id));
            }
            raw.finish(id);
            assert_eq!(raw.ours.h3.read(&mut raw.ours.t, id, 100), Ok(BodyRead::Finished));
            if !is_finished_first {
                raw.ours.h3.handle(&mut raw.ours.t, StreamEvent::Stopped { id, code: 0 });
            }
            raw.write(raw.control, &update(id.0 as u8, "u=6"));
            assert_eq!(priority(&raw, id), Some((6, false)));
        }
    }
}

/// RFC 9218 §7: what was said of requests that never came is in nobody's way.
#[test]
fn an_update_goes_with_its_stream_when_no_request_comes() {
    let config = Config { max_early_priorities: 1, ..Config::default() };
    let mut raw = Raw::with(Side::Server, config, &[]);
    raw.write(raw.control, &update(0, "u=0"));
    let (id, _) = raw.bi(&[]);
    raw.reset(id, ErrorCode::H3_REQUEST_CANCELLED.0);
    raw.write(raw.control, &update(4, "u=1"));
    let (id, _) = raw.bi(&headers(&GET));
    assert_eq!(urgency(&raw, id), Some(1));
}

/// RFC 9218 §7.2.
#[test]
fn an_update_for_no_request_is_h3_id_error() {
    for id in [1, 2, 3] {
        let mut raw = Raw::new(Side::Server);
        raw.write(raw.control, &update(id, "u=0"));
        assert_eq!(raw.closed(), ErrorCode::H3_ID_ERROR);
    }
    // For a push that was not promised.
    let mut raw = Raw::new(Side::Server);
    raw.write(raw.control, &[0x80, 0x0f, 7, 1, 1, 0]);
    assert_eq!(raw.closed(), ErrorCode::H3_ID_ERROR);
}

#[test]
fn an_update_beyond_the_streams_allowed_is_h3_id_error() {
    let mut raw = Raw::new(Side::Server);
    raw.net.borrow_mut().limit_known = true;
    raw.net.borrow_mut().limit(Side::Client, quickset_quic::Dir::Bi, 2);
    raw.write(raw.control, &update(4, "u=0"));
    raw.lives();
    raw.write(raw.control, &update(8, "u=0"));
    assert_eq!(raw.closed(), ErrorCode::H3_ID_ERROR);
}

/// RFC 9218 §7.
#[test]
fn an_update_of_a_server_is_h3_frame_unexpected() {
    let mut raw = Raw::new(Side::Client);
    raw.write(raw.control, &update(0, "u=0"));
    assert_eq!(raw.closed(), ErrorCode::H3_FRAME_UNEXPECTED);
}

#[test]
fn a_client_changes_its_mind() {
    let mut pair = Pair::new(&Config::default());
    let request = Request::new("GET", "example.com", "/").with("priority", "u=2");
    let id = pair.client.h3.request(&mut pair.client.t, &request, true).unwrap();
    pair.run();
    pair.client.h3.prioritise(&mut pair.client.t, id, &Priority::new(7, true)).unwrap();
    let (_, told) = pair.run();
    assert!(
        matches!(&told[..], [Event::Priority { priority, .. }] if (priority.urgency, priority.incremental) == (7, true))
    );
    assert_eq!(pair.net.borrow().priorities[&(id, Side::Server)], (7, true));
    let own = pair.server.h3.prioritise(&mut pair.server.t, id, &Priority::default());
    assert!(own.is_err(), "servers have no say");
    let _ = pair.client.t.max_datagram();
}

fn repair(text: &str) -> Protection {
    quickset_policies::read(text).expect("a protection")
}

/// What the server was told of repair, since the last time.
fn protections(raw: &Raw) -> Vec<Protection> {
    let told = std::mem::take(&mut raw.net.borrow_mut().protections);
    told.into_iter().map(|(_, _, protection)| protection).collect()
}

#[test]
fn a_request_says_which_losses_are_repaired() {
    let mut raw = Raw::new(Side::Server);
    let mut ask = |value: &'static str| {
        let (id, _) = raw.bi(&headers(&[&GET[..], &[("priority", value)]].concat()));
        (id, protections(&raw))
    };
    let late = repair("tum:2:25ms");
    assert_eq!(ask("u=5, exp_b=3").1, [repair("tum:3")], "however urgent");
    assert_eq!(ask("u=1, exp_b=2, exp_d=25").1, std::slice::from_ref(&late));
    assert_eq!(ask("u=1, exp_b=1000000").1, [repair("tum:8")], "no more than the server does");
    assert_eq!(ask("u=0, exp_b=many").1, []);
    assert_eq!(ask("u=0, exp_b=0").1, []);
    let (id, told) = ask("u=0");
    assert_eq!(told, []);
    raw.write(raw.control, &update(id.0 as u8, "u=0, exp_b=2, exp_d=25"));
    assert_eq!(protections(&raw), [late]);
    raw.write(raw.control, &update(id.0 as u8, "u=7, exp_b=2, exp_d=25"));
    assert_eq!(protections(&raw), [], "a policy that is set again would begin again");
    raw.write(raw.control, &update(id.0 as u8, "u=0"));
    assert_eq!(protections(&raw), [Protection::None], "an update replaces all of it");
}

#[test]
fn the_server_repairs_what_is_urgent_unless_the_client_says() {
    let mut raw = Raw::new(Side::Server);
    let own = repair("fixed:10");
    let (first, _) = raw.bi(&headers(&[&GET[..], &[("priority", "u=2")]].concat()));
    raw.ours.h3.repair_urgent(&mut raw.ours.t, 3, &own);
    assert_eq!(protections(&raw), std::slice::from_ref(&own), "those under way, too");
    let mut ask = |value: &'static str| {
        raw.bi(&headers(&[&GET[..], &[("priority", value)]].concat()));
        protections(&raw)
    };
    assert_eq!(ask("u=2, exp_b=1"), [repair("tum:1")]);
    assert_eq!(ask("u=2, exp_b=0"), [], "wants none");
    assert_eq!(ask("u=2, exp_d=25"), std::slice::from_ref(&own), "says nothing alone");
    assert_eq!(ask("u=3"), []);
    raw.write(raw.control, &update(first.0 as u8, "u=3"));
    assert_eq!(protections(&raw), [Protection::None]);
}

#[test]
fn clients_are_asked_for_nothing() {
    let mut pair = Pair::new(&Config::default());
    let request = Request::new("GET", "example.com", "/").with("priority", "exp_b=3");
    let id = pair.client.h3.request(&mut pair.client.t, &request, true).unwrap();
    pair.run();
    assert_eq!(pair.net.borrow().protections, [(id, Side::Server, repair("tum:3"))]);
}

/// The transport is told once it has all that was sent before.
#[test]
fn what_is_flushed_is_told_of_when_it_is_there() {
    let mut pair = Pair::new(&Config::default());
    pair.net.borrow_mut().window = 1000;
    let id =
        pair.client.h3.request(&mut pair.client.t, &Request::new("GET", "example.com", "/"), true).unwrap();
    pair.run();
    let server = &mut pair.server;
    server.h3.respond(&mut server.t, id, &Response::new(200), false).unwrap();
    let mut content = Bytes::from(vec![7; 1500]);
    assert_eq!(server.h3.send(&mut server.t, id, &mut content), Ok(1500));
    server.h3.flush(&mut server.t, id).unwrap();
    assert_eq!(pair.net.borrow().flushed, [], "a part of it waits for room");
    pair.run();
    let mut got = 0;
    while let Ok(quickset_h3::BodyRead::Data(data)) = pair.client.h3.read(&mut pair.client.t, id, 10_000) {
        got += data.len();
        pair.run();
    }
    assert_eq!(got, 1500);
    assert!(matches!(pair.net.borrow().flushed[..], [(at, Side::Server, 1..)] if at == id));
    pair.server.h3.finish(&mut pair.server.t, id).unwrap();
    assert!(pair.server.h3.flush(&mut pair.server.t, id).is_err());
}

/// The names that a stream was told to hang under, since the last time.
fn told_classes(raw: &Raw) -> Vec<String> {
    let told = std::mem::take(&mut raw.net.borrow_mut().classes);
    let names = |path: Vec<Class>| path.into_iter().map(|class| class.name).collect::<Vec<_>>().join("/");
    // Whoever named them.
    let names = |path| names(path).replace('\u{1}', "");
    told.into_iter().map(|(_, _, path)| names(path)).collect()
}

// HP-1, HP-2, HP-8
#[test]
fn a_request_hangs_where_it_says_and_an_update_says_it_anew() {
    let mut raw = Raw::new(Side::Server);
    let weight = |raw: &Raw, id| raw.net.borrow().weights[&(id, Side::Server)];
    let (id, _) = raw.bi(&headers(&[&GET[..], &[("priority", "exp_w=0.5, exp_p=(\"b\" \"a\")")]].concat()));
    assert_eq!((told_classes(&raw), weight(&raw, id)), (vec!["a/b".to_owned()], Weight::new(0.5)));
    raw.write(raw.control, &update(0, "u=1, exp_p=(\"c\")"));
    assert_eq!((told_classes(&raw), weight(&raw, id)), (vec!["c".to_owned()], Weight::new(1.0)));
    raw.write(raw.control, &update(0, "(\"c\")"));
    assert_eq!(told_classes(&raw), [""; 0], "what is no dictionary changes nothing");
    raw.write(raw.control, &update(0, "i"));
    assert_eq!(told_classes(&raw), [""], "below the connection");
    // Before the request.
    raw.write(raw.control, &update(4, "exp_w=7, exp_p=(\"early\")"));
    let (id, _) = raw.bi(&headers(&[&GET[..], &[("priority", "exp_p=(\"late\")")]].concat()));
    assert_eq!((told_classes(&raw), weight(&raw, id)), (vec!["early".to_owned()], Weight::new(7.0)));
    raw.bi(&headers(&GET));
    assert_eq!(told_classes(&raw), [""; 0], "who says nothing is not asked");
}

// HP-8
#[test]
fn a_response_does_not_say_again_what_its_request_said_of_a_class() {
    let html = Priority::parse(b"u=1").unwrap();
    let config = Config { usual: [("text/html".to_owned(), html)].into(), ..Config::default() };
    let mut raw = Raw::with(Side::Server, config, &[]);
    let (first, _) = raw.bi(&headers(&[&GET[..], &[("priority", "i, exp_p=(\"a\";u=5)")]].concat()));
    let (second, _) = raw.bi(&headers(&[&GET[..], &[("priority", "i, exp_p=(\"a\";u=0)")]].concat()));
    assert_eq!(told_classes(&raw), ["a", "a"]);
    // The class has urgency 0 since the second request, whatever is known of the first response.
    raw.ours.h3.presume(&mut raw.ours.t, first, &Priority::new(2, false)).unwrap();
    assert_eq!((priority(&raw, first), told_classes(&raw)), (Some((2, true)), vec![]));
    let response = Response::new(200).with("content-type", "text/html").with("priority", "exp_w=2");
    raw.ours.h3.respond(&mut raw.ours.t, first, &response, false).unwrap();
    assert_eq!((priority(&raw, first), told_classes(&raw)), (Some((2, true)), vec![]));
    let response = Response::new(200).with("priority", "u=4, exp_p=(\"b\")");
    raw.ours.h3.respond(&mut raw.ours.t, second, &response, false).unwrap();
    assert_eq!((priority(&raw, second), told_classes(&raw)), (Some((4, true)), vec!["b".to_owned()]));
    raw.write(raw.control, &update(first.0 as u8, "i, exp_p=(\"a\";u=5)"));
    assert_eq!(told_classes(&raw), ["a"], "an update says it again");
}

#[test]
fn clients_send_by_what_they_say() {
    let mut pair = Pair::new(&Config::default());
    let path = [Class::new("page", 2.0), Class::new("form", 1.0)];
    let priority = Priority::new(1, true).with_weight(4.0).with_classes(&path).unwrap();
    let request = Request::new("POST", "example.com", "/").with_priority(&priority);
    let id = pair.client.h3.request(&mut pair.client.t, &request, false).unwrap();
    pair.run();
    for side in [Side::Client, Side::Server] {
        let net = pair.net.borrow();
        assert_eq!((net.priorities[&(id, side)], net.weights[&(id, side)]), ((1, true), Weight::new(4.0)));
        let [first, rest] = [0, 1].map(|n| path[n].clone());
        // HP-13.
        let mark = if side.is_server() { "\u{1}" } else { "" };
        let first = Class { name: format!("{mark}{}", first.name), ..first };
        assert!(net.classes.contains(&(id, side, vec![first, rest])), "{side}");
    }
    pair.client.h3.prioritise(&mut pair.client.t, id, &Priority::default()).unwrap();
    pair.run();
    assert_eq!(pair.net.borrow().classes[2..], [(id, Side::Client, vec![]), (id, Side::Server, vec![])]);
    // What the peer would not take is not sent.
    let long = vec![Class::new("\\".repeat(64), 1.0); 16];
    let priority = Priority::default().with_classes(&long).unwrap();
    let refused = pair.client.h3.prioritise(&mut pair.client.t, id, &priority);
    assert_eq!(refused, Err(quickset_h3::VerbRefusal::TooLarge));
}

// HP-13
#[test]
fn classes_of_the_server_are_not_those_that_the_client_names() {
    let mut raw = Raw::new(Side::Server);
    let said = [("priority", "exp_p=(\"b\" \"a\")")];
    let path = [Class::new("a", 1.0), Class::new("b", 1.0)];
    let (ours, _) = raw.bi(&headers(&GET));
    let priority = Priority::default().with_classes(&path).unwrap();
    raw.ours.h3.schedule(&mut raw.ours.t, ours, &priority).unwrap();
    let (usual, _) = raw.bi(&headers(&GET));
    raw.ours.h3.presume(&mut raw.ours.t, usual, &priority).unwrap();
    let (own, _) = raw.bi(&headers(&GET));
    let response = Response::new(200).with("priority", said[0].1);
    raw.ours.h3.respond(&mut raw.ours.t, own, &response, false).unwrap();
    let (theirs, _) = raw.bi(&headers(&[&GET[..], &said].concat()));
    // In an update, and when all of the response is on its way.
    let (late, _) = raw.bi(&headers(&GET));
    raw.finish(late);
    let read = raw.ours.h3.read(&mut raw.ours.t, late, 1);
    assert_eq!(read, Ok(BodyRead::Finished));
    raw.ours.h3.respond(&mut raw.ours.t, late, &Response::new(204), true).unwrap();
    for id in [usual, late] {
        raw.write(raw.control, &update(id.0 as u8, said[0].1));
    }
    let net = raw.net.borrow();
    let named = |id: StreamId| -> Vec<&str> {
        let mut told = net.classes.iter().rev().filter(|(of, ..)| *of == id);
        let (.., path) = told.next().expect("it hangs under classes");
        path.iter().map(|class| &class.name[..]).collect()
    };
    assert_eq!((named(ours), named(own)), (vec!["a", "b"], vec!["a", "b"]));
    for id in [theirs, usual, late] {
        assert_eq!((named(id).len(), named(id)[1], named(id)), (2, "b", named(theirs)));
        // Below another class, all are others.
        assert_ne!(named(id)[0], "a");
        assert_eq!(
            Priority::default().with_classes(&[Class::new(named(id)[0], 1.0)]),
            Err(UnspeakableClass::Name)
        );
    }
}

/// RFC 9218 §8.
// HP-10
#[test]
fn what_the_response_says_outranks_the_client() {
    let mut raw = Raw::new(Side::Server);
    let (id, _) = raw.bi(&headers(&[&GET[..], &[("priority", "u=5, i")]].concat()));
    let response = Response::new(200).with("priority", "u=1, exp_p=(\"own\")");
    raw.ours.h3.respond(&mut raw.ours.t, id, &response, false).unwrap();
    assert_eq!((priority(&raw, id), told_classes(&raw)), (Some((1, true)), vec!["own".to_owned()]));
    raw.write(raw.control, &update(0, "u=6, exp_w=3, exp_p=(\"theirs\")"));
    assert_eq!((priority(&raw, id), told_classes(&raw)), (Some((1, false)), vec!["own".to_owned()]));
    // What an application says of a response goes before all, until the client's next word.
    raw.ours.h3.schedule(&mut raw.ours.t, id, &Priority::new(7, true)).unwrap();
    assert_eq!((priority(&raw, id), told_classes(&raw)), (Some((7, true)), vec![String::new()]));
    raw.write(raw.control, &update(0, "u=6"));
    assert_eq!((priority(&raw, id), told_classes(&raw)), (Some((1, false)), vec!["own".to_owned()]));
}

// HP-11
#[test]
fn what_nobody_says_is_as_usual_for_its_type() {
    let said = |value: &str| Priority::parse(value.as_bytes()).unwrap();
    let usual = [("text/html", "u=0"), ("image/*", "u=5, i"), ("*/*", "exp_b=2")];
    let usual = usual.map(|(kind, value)| (kind.to_owned(), said(value)));
    let config = Config { usual: usual.into(), ..Config::default() };
    for (asked, kind, expected) in [
        ("exp_x", "text/html", (0, false)),
        ("exp_x", "Text/HTML; charset=utf-8", (0, false)),
        ("i", "text/html", (0, true)),
        ("u=4", "text/html", (4, false)),
        ("u=3", "text/html", (3, false)),
        ("u=9", "text/html", (0, false)),
        ("i=?0", "image/png", (5, false)),
        ("exp_x", "image/png", (5, true)),
        ("exp_x", "images/png", (3, false)),
    ] {
        let mut raw = Raw::with(Side::Server, config.clone(), &[]);
        let (id, _) = raw.bi(&headers(&[&GET[..], &[("priority", asked)]].concat()));
        let response = Response::new(200).with("content-type", kind);
        raw.ours.h3.respond(&mut raw.ours.t, id, &response, false).unwrap();
        assert_eq!(priority(&raw, id), Some(expected), "{asked}, {kind}");
        let repaired = (expected == (3, false) && kind.starts_with("images/")).then_some(repair("tum:2"));
        assert_eq!(protections(&raw), repaired.into_iter().collect::<Vec<_>>(), "{asked}, {kind}");
    }
    let mut raw = Raw::new(Side::Server);
    let (id, _) = raw.bi(&headers(&GET));
    raw.ours
        .h3
        .respond(&mut raw.ours.t, id, &Response::new(200).with("content-type", "text/html"), true)
        .unwrap();
    assert_eq!(priority(&raw, id), Some((3, false)), "RFC 9218 §4.1 unless told");
}
