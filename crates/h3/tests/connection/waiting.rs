//! What a server holds of requests that its application has not taken.

use quickset_h3::{Config, Event};
use quickset_quic::{Side, StreamId};

use crate::net::{GET, Raw, frame, headers};

/// As RFC 9114 §4.2.2 counts a head of GET, its lines and 32 bytes for each.
fn size() -> u64 {
    GET.iter().map(|(name, value)| (name.len() + value.len() + 32) as u64).sum()
}

fn raw(max_waiting: Option<u64>) -> Raw {
    Raw::with(Side::Server, Config { max_waiting, ..Config::default() }, &[])
}

fn asked(events: &[Event]) -> Vec<StreamId> {
    let asked = |event: &Event| if let Event::Request { id, .. } = event { Some(*id) } else { None };
    events.iter().filter_map(asked).collect()
}

fn took(raw: &mut Raw, id: StreamId) -> Vec<StreamId> {
    raw.ours.h3.took(&mut raw.ours.t, id);
    asked(&raw.ours.turn())
}

#[test]
fn heads_that_nobody_takes_wait_as_they_came() {
    let mut raw = raw(Some(2 * size()));
    let request = headers(&GET);
    let mut ids = Vec::new();
    let mut told = Vec::new();
    for _ in 0..5 {
        let (id, events) = raw.bi(&request);
        ids.push(id);
        told.extend(asked(&events));
    }
    assert_eq!(told, ids[..2], "two may wait");
    let held = raw.ours.h3.held();
    assert!(held >= 2 * size() + 3 * (request.len() - 2) as u64, "{held}");
    // One for each that is taken, in their order.
    assert_eq!(took(&mut raw, ids[0]), ids[2..3]);
    // One that is given up meanwhile stands in nobody's way.
    raw.reset(ids[3], 0x10c);
    assert_eq!(took(&mut raw, ids[1]), ids[4..5]);
    assert_eq!(took(&mut raw, ids[2]), []);
    raw.lives();
    for id in [ids[0], ids[1], ids[2], ids[4]] {
        raw.ours.h3.cancel(&mut raw.ours.t, id, quickset_h3::ErrorCode::H3_REQUEST_REJECTED);
    }
    assert_eq!(raw.ours.h3.held(), 0);
}

#[test]
fn a_request_that_is_given_up_makes_room_for_the_next() {
    let mut raw = raw(Some(1));
    let request = headers(&GET);
    let (first, _) = raw.bi(&request);
    let (second, events) = raw.bi(&request);
    assert_eq!(asked(&events), []);
    raw.reset(first, 0x10c);
    // It is never taken: there is nothing to take.
    let (third, events) = raw.bi(&request);
    let mut told = asked(&events);
    told.extend(took(&mut raw, first));
    told.sort_unstable();
    assert!(told.contains(&second) || told.contains(&third), "{told:?}");
    raw.lives();
}

#[test]
fn without_a_limit_all_are_told() {
    let mut raw = raw(None);
    let told: usize = (0..50).map(|_| asked(&raw.bi(&headers(&GET)).1).len()).sum();
    assert_eq!(told, 50);
}

#[test]
fn parts_of_frames_count() {
    let mut raw = raw(None);
    let before = raw.ours.h3.held();
    let part = &frame(1, &[0; 60])[..50];
    let (id, _) = raw.bi(part);
    let held = raw.ours.h3.held() - before;
    assert!(held >= 48, "{held}");
    raw.reset(id, 0x10c);
    assert_eq!(raw.ours.h3.held(), before);
}
