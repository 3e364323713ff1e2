//! Streams: slow ones, all of them, and those that begin to end.

use quickset_base::Duration;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, Side, StreamId, TransportErrorCode as Code};

use crate::arena::Setup;

const MS: Duration = Duration::from_millis(1);

fn bidi(n: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, n)
}

/// RFC 9000 §21.6: one byte a second on every stream there may be.
#[test]
fn slow_streams_hold_what_streams_hold() {
    let mut arena = Setup::new().attacked();
    let most = arena.each(60, Duration::from_secs(1), |hostile, _| {
        for n in 0..60 {
            hostile.write(bidi(n), &[7], false);
        }
    });
    assert_eq!(arena.hostile().closed, None, "it is slow, and no more");
    assert!(most < 60 * 4_000, "{} bytes for a stream", most / 60);
    arena.assert_served();
}

/// Opening the last stream opens those below it. One more is an error.
#[test]
fn all_streams_that_there_may_be_are_bounded() {
    let mut arena = Setup::new().attacked();
    for dir in [Dir::Bi, Dir::Uni] {
        let last = StreamId::new(Side::Client, dir, arena.hostile().allowed[dir as usize] - 1);
        arena.hostile().say(&[Frame::Stream { id: last, offset: 0, fin: false, data: b"x" }]);
    }
    arena.pass(50 * MS);
    let held = arena.grown();
    assert_eq!(arena.hostile().closed, None);
    assert!(held < 200 * 2_000, "{} bytes for a stream", held / 200);
    let more = StreamId::new(Side::Client, Dir::Bi, 200);
    arena.hostile().say(&[Frame::Stream { id: more, offset: 0, fin: false, data: b"x" }]);
    arena.pass(50 * MS);
    assert_eq!(arena.hostile().closed, Some(Ok(Code::STREAM_LIMIT_ERROR)));
    arena.pass(Duration::from_secs(2));
    assert!(arena.grown() < 2_000, "{} bytes are left", arena.grown());
    arena.assert_served();
}

/// A byte here and a byte there: memory is by what credit covers, and gaps are counted.
#[test]
fn scattered_bytes_are_bounded() {
    for step in [2, 300, 5_000] {
        let mut setup = Setup::new();
        setup.transport.stream_window = 1 << 20;
        setup.transport.max_stream_window = 1 << 20;
        setup.transport.max_connection_window = 3 << 19;
        let mut arena = setup.attacked();
        let most = arena.each(500, MS, |hostile, n| {
            if hostile.closed.is_some() {
                return;
            }
            let at = |i: u64| 1 + (n * 20 + i) * step;
            let piece = |i| Frame::Stream { id: bidi(0), offset: at(i), fin: false, data: b"x" };
            let frames: Vec<_> = (0..20).filter(|i| at(*i) < 1 << 20).map(piece).collect();
            if !frames.is_empty() {
                hostile.say(&frames);
            }
        });
        // Blocks of 4 KiB, and the gaps between the bytes.
        assert!(most < (1 << 20) + 200_000, "{most} bytes held, a byte in {step}");
        let cut_off = (step < 1000).then_some(Ok(Code::PROTOCOL_VIOLATION));
        assert_eq!(arena.hostile().closed, cut_off, "a byte in {step}: too many gaps for honest loss");
        arena.assert_served();
    }
}

/// Streams that are reset as they begin. As many as there may be at a time, over and over.
#[test]
fn rapid_resets_hold_nothing() {
    for data in [&b""[..], b"GET /"] {
        let mut arena = Setup::new().attacked();
        let before = arena.sent_to_hostile();
        let mut next = 0;
        let most = arena.each(300, 2 * MS, |hostile, _| {
            // What the server allows follows what it has closed.
            for _ in 0..10 {
                if next >= hostile.allowed[0] {
                    return;
                }
                let id = bidi(next);
                next += 1;
                let reset = Frame::ResetStream { id, code: 1, final_size: data.len() as u64 };
                if data.is_empty() {
                    hostile.say(&[reset]);
                } else {
                    hostile.say(&[Frame::Stream { id, offset: 0, fin: false, data }, reset]);
                }
            }
        });
        assert_eq!(arena.hostile().closed, None);
        assert!(next > 600, "{next} streams");
        assert!(most < 60 * 4_000 + 100_000, "{most} bytes held");
        let answers = arena.sent_to_hostile().datagrams - before.datagrams;
        assert!(answers <= next * 2, "{answers} datagrams for {next} streams");
        arena.pass(Duration::from_secs(1));
        // The slots of as many streams as there may be.
        assert!(arena.grown() < 100_000, "{} bytes are left", arena.grown());
        arena.assert_served();
    }
}

/// The same by one that never acknowledges the resets of the other halves: those streams are not over, and so
/// there are no more.
#[test]
fn streams_whose_end_is_never_acknowledged_count_on() {
    let mut arena = Setup::new().attacked();
    arena.hostile().acks = false;
    let mut next = 0;
    let most = arena.each(500, MS, |hostile, _| {
        if next < 64 {
            let id = bidi(next);
            next += 1;
            hostile.say(&[
                Frame::Stream { id, offset: 0, fin: false, data: b"x" },
                Frame::ResetStream { id, code: 1, final_size: 1 },
                Frame::StopSending { id, code: 1 },
            ]);
        }
    });
    assert!(most < 64 * 6_000, "{most} bytes held");
    let beyond = bidi(300);
    arena.hostile().say(&[Frame::Stream { id: beyond, offset: 0, fin: false, data: b"x" }]);
    arena.pass(50 * MS);
    assert_eq!(arena.hostile().closed, Some(Ok(Code::STREAM_LIMIT_ERROR)));
    arena.assert_served();
}

/// STOP_SENDING for what is being sent, again and again.
#[test]
fn stops_are_answered_once() {
    let mut arena = Setup::new().attacked();
    arena.hostile().write(bidi(0), &[7; 5000], false);
    arena.pass(50 * MS);
    let before = arena.hostile().heard(RESET_STREAM);
    let stops = vec![Frame::StopSending { id: bidi(0), code: 3 }; 100];
    let most = arena.each(500, MS, |hostile, _| hostile.say(&stops));
    assert!(arena.hostile().heard(RESET_STREAM) <= before + 1);
    assert!(most < 60_000, "{most} bytes held");
    arena.assert_served();
}

/// A reader that never reads: what is sent to it stops where its credit does, and what it sends with it.
#[test]
fn a_reader_that_takes_nothing_stops_the_echo() {
    let mut setup = Setup::new();
    setup.transport.send_buffer = 20_000;
    setup.transport.stream_window = 20_000;
    setup.transport.max_stream_window = 20_000;
    let mut arena = setup.arena();
    arena.replace_hostile(|params| {
        params.initial_max_data = 2_000;
        params.initial_max_stream_data_bidi_local = 1_000;
    });
    arena.hostile().connect();
    arena.pass(200 * MS);
    arena.begin();
    let most = arena.each(200, MS, |hostile, n| {
        if n < 100 {
            hostile.write(bidi(n % 5), &[7; 1000], false);
        }
    });
    assert_eq!(arena.hostile().closed, None);
    assert!(most < 5 * 60_000, "{most} bytes held");
    arena.assert_served();
}

const RESET_STREAM: u64 = 0x04;
