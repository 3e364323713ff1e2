//! Packets that say nothing, many times.

use quickset_base::Duration;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, Side, StreamId, TransportErrorCode as Code};

use crate::arena::Setup;

const MS: Duration = Duration::from_millis(1);

const FIRST: StreamId = StreamId::new(Side::Client, Dir::Bi, 0);

/// What says nothing costs an acknowledgement for every second packet, and nothing that stays.
#[test]
fn frames_that_change_nothing_cost_nothing_that_stays() {
    let empty = Frame::Stream { id: FIRST, offset: 0, fin: false, data: &[] };
    let repeated = Frame::Stream { id: FIRST, offset: 0, fin: false, data: &[7] };
    let cases: [(&str, Vec<Frame<'_>>); 9] = [
        ("pings", vec![Frame::Ping; 1000]),
        ("padding", vec![Frame::Padding(1100)]),
        ("empty streams", vec![empty; 200]),
        ("one byte again and again", vec![repeated; 200]),
        ("DATA_BLOCKED", vec![Frame::DataBlocked(5); 400]),
        ("STREAM_DATA_BLOCKED", vec![Frame::StreamDataBlocked { id: FIRST, limit: 5 }; 300]),
        ("STREAMS_BLOCKED", vec![Frame::StreamsBlocked { dir: Dir::Bi, limit: 5 }; 300]),
        ("MAX_DATA", vec![Frame::MaxData(1 << 41); 100]),
        ("MAX_STREAMS", vec![Frame::MaxStreams { dir: Dir::Uni, max: 5000 }; 300]),
    ];
    for (what, frames) in cases {
        let mut arena = Setup::new().attacked();
        let before = arena.sent_to_hostile();
        let work = arena.server().work;
        let most = arena.each(500, MS, |hostile, _| {
            hostile.say(&frames);
            hostile.say(&frames);
        });
        let after = arena.sent_to_hostile();
        let answers = after.datagrams - before.datagrams;
        assert_eq!(arena.hostile().closed, None, "{what}");
        assert!(answers <= 550, "{what}: {answers} datagrams for 1000");
        assert!((after.bytes - before.bytes) / answers.max(1) < 100, "{what}: long answers");
        // The few hundred ACK frames that are kept before a PING asks for news of them.
        assert!(most < 80_000, "{what}: {most} bytes held");
        let work = (arena.server().work - work) / 1000;
        assert!(work < 40, "{what}: {work} allocations for a packet of {} frames", frames.len());
        arena.assert_served();
    }
}

/// Many streams, each within its own credit, and together beyond that of the connection.
#[test]
fn credit_of_the_connection_is_kept() {
    let mut setup = Setup { lazy: true, ..Setup::new() };
    setup.transport.stream_window = 100_000;
    setup.transport.max_stream_window = 100_000;
    setup.transport.max_connection_window = 150_000;
    let mut arena = setup.arena();
    arena.hostile().connect();
    arena.pass(200 * MS);
    // The honest client has its say too, for as long as it takes to fill its window.
    let most = arena.each(200, MS, |hostile, n| {
        if hostile.closed.is_none() {
            hostile.write(StreamId::new(Side::Client, Dir::Bi, n % 50), &[7; 1000], false);
        }
    });
    assert_eq!(arena.hostile().closed, Some(Ok(Code::FLOW_CONTROL_ERROR)));
    assert!(most < 300_000, "{most} bytes held of 150,000");
}

/// Unknown frames cannot be skipped (RFC 9000 §12.4).
#[test]
fn an_unknown_frame_ends_the_connection_and_no_other() {
    let mut arena = Setup::new().attacked();
    arena.hostile().say_bytes(&[0x30 + 0x0f, 1, 2, 3]);
    arena.pass(50 * MS);
    assert_eq!(arena.hostile().closed, Some(Ok(Code::FRAME_ENCODING_ERROR)));
    arena.pass(Duration::from_secs(2));
    arena.assert_served();
}
