//! HTTP/3: requests that begin to end, requests that never come to be, and the control stream
//! (RFC 9114 §10.5).

use quickset_base::Duration;
use quickset_h3::ErrorCode;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, Side, StreamId, Writer};

use crate::arena::{Arena, Setup};
use crate::hostile::Hostile;

const MS: Duration = Duration::from_millis(1);

pub(crate) fn bidi(n: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, n)
}

pub(crate) fn uni(n: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Uni, n)
}

pub(crate) const CONTROL: StreamId = uni_const(0);
pub(crate) const ENCODER: StreamId = uni_const(1);
pub(crate) const DECODER: StreamId = uni_const(2);

const fn uni_const(n: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Uni, n)
}

/// A frame of HTTP/3.
pub(crate) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(kind, payload.len() as u64);
    bytes.extend_from_slice(payload);
    bytes
}

/// The beginning of one.
pub(crate) fn head(kind: u64, len: u64) -> Vec<u8> {
    let mut bytes = [0; 16];
    let mut w = Writer::new(&mut bytes);
    w.varint(kind);
    w.varint(len);
    w.written().to_vec()
}

/// The field section of a request, of the static table and one literal (RFC 9204 §4.5).
pub(crate) fn section() -> Vec<u8> {
    // :method GET, :scheme https, :path /, :authority with "a".
    vec![0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'a']
}

pub(crate) fn request() -> Vec<u8> {
    frame(HEADERS, &section())
}

/// An attacker that has said what a client says.
pub(crate) fn speaking(setup: &Setup) -> Arena {
    let mut arena = setup.attacked();
    greet(arena.hostile());
    arena.pass(50 * MS);
    arena.begin();
    arena
}

pub(crate) fn greet(hostile: &mut Hostile) {
    hostile.write(CONTROL, &[&[0][..], &frame(SETTINGS, &[])].concat(), false);
    hostile.write(ENCODER, &[2], false);
    hostile.write(DECODER, &[3], false);
}

#[test]
fn a_request_by_hand_is_served() {
    let mut arena = speaking(&Setup::http());
    arena.hostile().write(bidi(0), &request(), true);
    arena.pass(50 * MS);
    assert!(arena.hostile().data.contains_key(&bidi(0)), "{:?}", arena.hostile().closed);
    arena.assert_served();
}

/// Requests that are reset as soon as they are there. The application that is slow to answer never has more
/// of them at a time than there may be streams.
#[test]
fn rapid_resets_hold_no_more_than_the_streams_there_may_be() {
    for lazy in [false, true] {
        let mut arena = speaking(&Setup::http());
        arena.server().set_lazy(lazy);
        let mut next = 0;
        let most = arena.each(300, 2 * MS, |hostile, _| {
            for _ in 0..10 {
                if next >= hostile.allowed[0] {
                    return;
                }
                let id = bidi(next);
                next += 1;
                let bytes = request();
                let len = bytes.len() as u64;
                hostile.say(&[
                    Frame::Stream { id, offset: 0, fin: false, data: &bytes },
                    Frame::ResetStream { id, code: ErrorCode::H3_REQUEST_CANCELLED.0, final_size: len },
                    Frame::StopSending { id, code: ErrorCode::H3_REQUEST_CANCELLED.0 },
                ]);
            }
        });
        assert_eq!(arena.hostile().closed, None);
        assert!(next > 300, "{next} requests");
        assert!(most < 100 * 6_000, "{most} bytes held");
        arena.server().set_lazy(false);
        arena.pass(Duration::from_secs(1));
        if !lazy {
            // The slots of as many streams as there may be.
            assert!(arena.grown() < 150_000, "{} bytes are left", arena.grown());
            arena.assert_served();
        }
    }
}

/// RFC 9000 §21.6, RFC 9114 §10.5: a byte of a head a second, of as many requests as there may be.
#[test]
fn slow_heads_hold_what_came_of_them() {
    let mut arena = speaking(&Setup::http());
    let bytes: Vec<u8> = [head(HEADERS, 60_000), vec![0; 100]].concat();
    let most = arena.each(60, Duration::from_secs(1), |hostile, n| {
        for stream in 0..60 {
            hostile.write(bidi(stream), &bytes[n as usize..=n as usize], false);
        }
    });
    assert_eq!(arena.hostile().closed, None, "it is slow, and no more");
    assert!(most < 60 * 6_000, "{} bytes for a request", most / 60);
    arena.assert_served();
}

/// Unidirectional streams of kinds that nobody knows, and of none.
#[test]
fn streams_of_unknown_kinds_are_stopped() {
    let mut arena = speaking(&Setup::http());
    let mut next = 3;
    let most = arena.each(500, 2 * MS, |hostile, _| {
        for _ in 0..4 {
            if next < hostile.allowed[1] {
                hostile.write(uni(next), &[0x40, 0x77, 1, 2, 3], true);
                next += 1;
            }
        }
    });
    assert_eq!(arena.hostile().closed, None);
    assert!(next > 300, "{next} streams");
    assert!(most < 200_000, "{most} bytes held");
    arena.assert_served();
}

/// Makes the next bytes of a flood.
type Say<'a> = &'a mut dyn FnMut() -> Vec<u8>;

/// What may be said on the control stream as often as one likes.
#[test]
fn floods_on_the_control_stream_hold_nothing() {
    let mut pushes = 0;
    let mut max_push = || {
        pushes += 1;
        let mut value = [0; 8];
        let mut w = Writer::new(&mut value);
        w.varint(pushes);
        let value = w.written().to_vec();
        frame(MAX_PUSH_ID, &value)
    };
    let mut id = 0;
    let mut priority = || {
        id = (id + 4) % 240;
        let mut value = [0; 8];
        let mut w = Writer::new(&mut value);
        w.varint(id);
        let value = [w.written(), &b"u=1, "[..], &b" ".repeat(900)].concat();
        frame(PRIORITY_UPDATE, &value)
    };
    let mut unknown = || frame(0x21 + 0x1f * 5, &[7; 1000]);
    let mut empty = || frame(0x21, &[]).repeat(300);
    let mut goaway = || frame(GOAWAY, &[0]).repeat(300);
    let mut same_push = || frame(MAX_PUSH_ID, &[0]).repeat(300);
    let cases: [(&str, Say<'_>, isize, Option<ErrorCode>); 6] = [
        ("GOAWAY", &mut goaway, 80_000, Some(ErrorCode::H3_EXCESSIVE_LOAD)),
        ("MAX_PUSH_ID, the same", &mut same_push, 80_000, Some(ErrorCode::H3_EXCESSIVE_LOAD)),
        ("MAX_PUSH_ID", &mut max_push, 80_000, None),
        // As many as are kept, of a kilobyte.
        ("PRIORITY_UPDATE", &mut priority, 60 * 1_500 + 80_000, None),
        ("unknown frames", &mut unknown, 80_000, None),
        ("empty unknown frames", &mut empty, 80_000, Some(ErrorCode::H3_EXCESSIVE_LOAD)),
    ];
    for (what, bytes, limit, end) in cases {
        let mut arena = speaking(&Setup::http());
        let before = arena.sent_to_hostile().datagrams;
        let most = arena.each(1000, MS, |hostile, _| {
            if hostile.closed.is_none() {
                let bytes = bytes();
                hostile.write(CONTROL, &bytes, false);
            }
        });
        assert_eq!(arena.hostile().closed, end.map(|code| Err(code.0)), "{what}");
        assert!(most < limit, "{what}: {most} bytes held");
        let answers = arena.sent_to_hostile().datagrams - before;
        assert!(answers <= arena.hostile().sent_datagrams, "{what}: {answers} datagrams");
        arena.assert_served();
    }
}

/// A hundred thousand names of classes, sixteen in each priority, over requests that are not answered: what
/// is held are as many classes as a connection may have. Whoever finds no room is below the connection, and
/// served.
// HP-8, HP-9, HP-12
#[test]
fn names_of_classes_come_and_go() {
    for lazy in [false, true] {
        let mut arena = speaking(&Setup::http());
        arena.server().set_lazy(lazy);
        for n in 0..40 {
            arena.hostile().write(bidi(n), &request(), !lazy && n > 20);
        }
        arena.pass(50 * MS);
        let mut names = 0;
        let mut update = || {
            let parents: Vec<String> = (names..names + 16).map(|name| format!("\"{name:050}\"")).collect();
            names += 16;
            // The stream, in a varint of two bytes.
            let id = names / 16 % 40 * 4;
            let id = [0x40 | (id >> 8) as u8, id as u8];
            let value = format!("exp_p=({})", parents.join(" "));
            frame(PRIORITY_UPDATE, &[&id[..], value.as_bytes()].concat())
        };
        let mut flood = |rounds| {
            arena.each(rounds, MS, |hostile, _| {
                let bytes: Vec<u8> = (0..5).flat_map(|_| update()).collect();
                hostile.write(CONTROL, &bytes, false);
                // They pay for it.
                (0..6).for_each(|_| hostile.say(&[Frame::Ping]));
            })
        };
        // 256 classes of less than 2 kB with their names, and of each request what it said last: 16 of them.
        let (first, then) = (flood(250), flood(1000));
        assert!(first < 256 * 2_000 + 40 * 2_000 + 80_000, "{first} bytes held");
        assert!(then < first + 20_000, "{first} bytes held, then {then}");
        assert!(names >= 100_000);
        assert_eq!(arena.hostile().closed, None);
        if !lazy {
            arena.assert_served();
        }
    }
}

/// SETTINGS come once, and are small.
#[test]
fn settings_are_bounded_in_number_and_size() {
    let many: Vec<u8> = (0..3000_u64)
        .flat_map(|n| {
            let mut pair = [0; 16];
            let mut w = Writer::new(&mut pair);
            w.varint(0x21 + 0x1f * (n + 100));
            w.varint(n);
            w.written().to_vec()
        })
        .collect();
    let cases = [
        ("twice", [frame(SETTINGS, &[]), frame(SETTINGS, &[])].concat(), ErrorCode::H3_FRAME_UNEXPECTED),
        ("too long", frame(SETTINGS, &many), ErrorCode::H3_EXCESSIVE_LOAD),
        ("announced as endless", head(SETTINGS, 1 << 60), ErrorCode::H3_EXCESSIVE_LOAD),
    ];
    for (what, bytes, code) in cases {
        let mut arena = Setup::http().attacked();
        arena.hostile().write(CONTROL, &[&[0][..], &bytes].concat(), false);
        arena.pass(100 * MS);
        assert_eq!(arena.hostile().closed, Some(Err(code.0)), "{what}");
        assert!(arena.grown() < 20_000, "{what}: {} bytes held", arena.grown());
        arena.pass(Duration::from_secs(1));
        arena.assert_served();
    }
}

const HEADERS: u64 = 0x01;
const SETTINGS: u64 = 0x04;
const GOAWAY: u64 = 0x07;
const MAX_PUSH_ID: u64 = 0x0d;
const PRIORITY_UPDATE: u64 = 0xf0700;
