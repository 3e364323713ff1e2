//! Priorities (RFC 9218).

use quickset_h3::sfv::ListEntry;
use quickset_h3::{Code, Config, Event, Priority, Request, Transport as _};
use quickset_quic::{Side, StreamId};

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
    raw.ours.h3.cancel(&mut raw.ours.t, id, Code::H3_REQUEST_REJECTED);
    assert_eq!(raw.write(raw.control, &update(0, "u=0")), []);
    raw.lives();
}

#[test]
fn an_update_for_no_request_is_h3_id_error() {
    for id in [1, 2, 3] {
        let mut raw = Raw::new(Side::Server);
        raw.write(raw.control, &update(id, "u=0"));
        assert_eq!(raw.closed(), Code::H3_ID_ERROR);
    }
    // For a push that was not promised.
    let mut raw = Raw::new(Side::Server);
    raw.write(raw.control, &[0x80, 0x0f, 7, 1, 1, 0]);
    assert_eq!(raw.closed(), Code::H3_ID_ERROR);
}

#[test]
fn an_update_beyond_the_streams_allowed_is_h3_id_error() {
    let mut raw = Raw::new(Side::Server);
    raw.net.borrow_mut().limit_known = true;
    raw.net.borrow_mut().limit(Side::Client, quickset_quic::Dir::Bi, 2);
    raw.write(raw.control, &update(4, "u=0"));
    raw.lives();
    raw.write(raw.control, &update(8, "u=0"));
    assert_eq!(raw.closed(), Code::H3_ID_ERROR);
}

#[test]
fn an_update_of_a_server_is_h3_frame_unexpected() {
    let mut raw = Raw::new(Side::Client);
    raw.write(raw.control, &update(0, "u=0"));
    assert_eq!(raw.closed(), Code::H3_FRAME_UNEXPECTED);
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
