use bytes::Bytes;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, Side, StreamId, TransportErrorCode as Code};

use super::*;
use crate::streams::{Chunk, FinishError, ReadError, RecvState, SendState, StreamEvent, WriteError};

fn config() -> TransportConfig {
    TransportConfig {
        max_bidi_streams: 3,
        max_uni_streams: 2,
        stream_window: 100,
        max_stream_window: 100,
        max_connection_window: 150,
        fenced_streams: None,
        ..TransportConfig::fixed_mtu(1200)
    }
}

/// The client's view: its own streams, and those of the server.
const OURS: StreamId = StreamId::new(Side::Client, Dir::Bi, 0);
const OUR_UNI: StreamId = StreamId::new(Side::Client, Dir::Uni, 0);
const THEIRS: StreamId = StreamId::new(Side::Server, Dir::Bi, 0);
const THEIR_UNI: StreamId = StreamId::new(Side::Server, Dir::Uni, 0);

fn data(id: StreamId, offset: u64, len: usize, fin: bool) -> Frame<'static> {
    Frame::Stream { id, offset, fin, data: &[7; 200][..len] }
}

fn reset(id: StreamId, final_size: u64) -> Frame<'static> {
    Frame::ResetStream { id, code: 9, final_size }
}

/// RFC 9000 §3.3, §19.4, §19.13: on streams that only we send on; RFC 9000 §19.5, §19.10: on those that only
/// the peer sends on; RFC 9000 §19.8: on those not begun; RFC 9000 §4.1, §19.9, §19.10: beyond credit;
/// RFC 9000 §4.5: about the final size; RFC 9000 §4.6, §19.11: on more streams than allowed.
#[test]
fn frames_out_of_place_close_with_the_code_of_the_rfc() {
    // What came before, the frame at fault, the code.
    let cases: &[(&[Frame<'_>], Frame<'_>, Code)] = &[
        (&[data(THEIRS, 0, 10, true)], data(THEIRS, 10, 1, false), Code::FINAL_SIZE_ERROR),
        (&[data(THEIRS, 0, 10, true)], data(THEIRS, 0, 9, true), Code::FINAL_SIZE_ERROR),
        (&[data(THEIRS, 5, 5, false)], data(THEIRS, 0, 9, true), Code::FINAL_SIZE_ERROR),
        (&[data(THEIRS, 5, 5, true)], reset(THEIRS, 11), Code::FINAL_SIZE_ERROR),
        (&[data(THEIRS, 5, 5, false)], reset(THEIRS, 9), Code::FINAL_SIZE_ERROR),
        (&[reset(THEIRS, 20)], reset(THEIRS, 21), Code::FINAL_SIZE_ERROR),
        (&[reset(THEIRS, 20)], data(THEIRS, 0, 21, false), Code::FINAL_SIZE_ERROR),
        (&[reset(THEIRS, 20)], data(THEIRS, 0, 19, true), Code::FINAL_SIZE_ERROR),
        (&[], data(THEIRS, 0, 101, false), Code::FLOW_CONTROL_ERROR),
        (&[], reset(THEIRS, 101), Code::FLOW_CONTROL_ERROR),
        (&[data(THEIRS, 99, 1, false)], data(THEIR_UNI, 50, 1, false), Code::FLOW_CONTROL_ERROR),
        (&[data(THEIRS, 99, 1, false)], reset(THEIR_UNI, 51), Code::FLOW_CONTROL_ERROR),
        (&[], data(StreamId::new(Side::Server, Dir::Bi, 3), 0, 1, false), Code::STREAM_LIMIT_ERROR),
        (&[], data(StreamId::new(Side::Server, Dir::Uni, 2), 0, 1, false), Code::STREAM_LIMIT_ERROR),
        (&[], reset(StreamId::new(Side::Server, Dir::Uni, 2), 0), Code::STREAM_LIMIT_ERROR),
        (
            &[],
            Frame::StopSending { id: StreamId::new(Side::Server, Dir::Bi, 3), code: 0 },
            Code::STREAM_LIMIT_ERROR,
        ),
        (&[], data(OUR_UNI, 0, 1, false), Code::STREAM_STATE_ERROR),
        (&[], reset(OUR_UNI, 0), Code::STREAM_STATE_ERROR),
        (&[], Frame::StreamDataBlocked { id: OUR_UNI, limit: 0 }, Code::STREAM_STATE_ERROR),
        (&[], Frame::StopSending { id: THEIR_UNI, code: 0 }, Code::STREAM_STATE_ERROR),
        (&[], Frame::MaxStreamData { id: THEIR_UNI, max: 0 }, Code::STREAM_STATE_ERROR),
        (&[], data(OURS, 0, 1, false), Code::STREAM_STATE_ERROR),
        (&[], Frame::StopSending { id: OURS, code: 0 }, Code::STREAM_STATE_ERROR),
        (&[], Frame::MaxStreamData { id: OURS, max: 0 }, Code::STREAM_STATE_ERROR),
        (&[], reset(OURS, 0), Code::STREAM_STATE_ERROR),
    ];
    for (before, fault, code) in cases {
        let mut room = client(&config());
        for one in *before {
            frame(&mut room, *one).unwrap();
        }
        let error = frame(&mut room, *fault).expect_err("the frame is at fault");
        assert_eq!((error.code, error.frame), (*code, Some(fault.kind())), "{before:?}, then {fault:?}");
    }
}

#[test]
fn frames_that_look_odd_but_are_allowed() {
    let cases: &[&[Frame<'_>]] = &[
        &[data(THEIRS, 5, 5, true), data(THEIRS, 0, 10, true), data(THEIRS, 3, 2, false), reset(THEIRS, 10)],
        &[data(THEIRS, 0, 100, false), data(THEIR_UNI, 0, 50, true)],
        &[reset(THEIRS, 20), reset(THEIRS, 20), data(THEIRS, 0, 20, true)],
        &[data(THEIRS, 0, 0, true), data(THEIRS, 0, 0, true)],
        &[data(StreamId::new(Side::Server, Dir::Bi, 2), 0, 0, false)],
        &[Frame::MaxStreamData { id: THEIRS, max: 5 }, Frame::StopSending { id: THEIRS, code: 1 }],
        &[Frame::MaxData(3), Frame::MaxStreams { dir: Dir::Bi, max: 1 }, Frame::DataBlocked(0)],
    ];
    for frames in cases {
        let mut room = client(&config());
        for one in *frames {
            frame(&mut room, *one).unwrap_or_else(|e| panic!("{one:?} of {frames:?}: {e}"));
        }
    }
}

/// RFC 9000 §2.1, §3.2.
#[test]
fn a_stream_opens_those_below_it_and_they_are_accepted_in_order() {
    let mut room = client(&config());
    frame(&mut room, data(StreamId::new(Side::Server, Dir::Bi, 2), 0, 1, false)).unwrap();
    assert_eq!(
        drain_events(&mut room),
        [StreamEvent::Opened(Dir::Bi)],
        "nothing of streams not yet accepted"
    );
    let ids: Vec<_> = std::iter::from_fn(|| room.accept(Dir::Bi)).map(StreamId::index).collect();
    assert_eq!(ids, [0, 1, 2]);
    assert_eq!(drain_events(&mut room), [StreamEvent::Readable(StreamId::new(Side::Server, Dir::Bi, 2))]);
    assert_eq!(room.accept(Dir::Uni), None);
}

/// Whoever knows the ids may use a stream before it is accepted.
#[test]
fn a_stream_that_was_over_before_it_was_accepted_is_forgotten_then() {
    let frames = [reset(THEIR_UNI, 0), data(THEIR_UNI, 0, 0, true)];
    for (one, stopped) in frames.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let mut room = client(&config());
        if stopped {
            frame(&mut room, data(THEIR_UNI, 0, 0, false)).unwrap();
            room.receiving(THEIR_UNI).stop(0).unwrap();
        }
        frame(&mut room, one).unwrap();
        drain_events(&mut room);
        if !stopped {
            assert!(matches!(
                room.receiving(THEIR_UNI).read(10),
                Err(ReadError::Reset(_)) | Ok(Chunk::Finished)
            ));
        }
        assert_eq!((room.len(), room.accept(Dir::Uni)), (1, Some(THEIR_UNI)));
        room.check();
        assert_eq!((room.len(), room.accept(Dir::Uni)), (0, None));
    }
}

/// RFC 9000 §21.7.
#[test]
fn more_gaps_than_honest_loss_makes_close_the_connection() {
    let big = TransportConfig { fenced_streams: None, ..TransportConfig::fixed_mtu(1200) };
    let mut room = client(&big);
    // Twice 512, and two for the whole 2048 bytes that 1026 of them span.
    for n in 0..1026 {
        frame(&mut room, data(THEIRS, 1 + 2 * n, 1, false)).unwrap();
    }
    let error = frame(&mut room, data(THEIRS, 1 + 2 * 1026, 1, false)).unwrap_err();
    assert_eq!(error.code, Code::PROTOCOL_VIOLATION);
}

/// A queue that overflows: every other packet is lost, for as much as is under way.
#[test]
fn every_other_packet_of_a_large_window_may_be_missing() {
    let big = TransportConfig { fenced_streams: None, ..TransportConfig::fixed_mtu(1200) };
    let mut room = client(&big);
    // Of each two packets of 1200 bytes the second comes, the end of it cut off.
    let packets = big.stream_window / 2400;
    assert!(packets > 1500, "as many gaps as closed connections once");
    for n in 0..packets {
        frame(&mut room, data(THEIRS, 1200 + 2400 * n, 200, false)).unwrap();
    }
}

/// RFC 9000 §3.1, §3.5.
#[test]
fn stop_sending_is_answered_by_a_reset_with_its_code() {
    let mut rooms = pair(&TransportConfig::fixed_mtu(1200));
    let id = rooms[0].open(Dir::Bi).unwrap();
    rooms[0].sending(id).write(&mut Bytes::from_static(b"unwanted")).unwrap();
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[1].accept(Dir::Bi), Some(id));
    rooms[1].receiving(id).stop(42).unwrap();
    assert_eq!(rooms[1].receiving(id).read(9), Err(ReadError::UnknownStream));
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(drain_events(&mut rooms[0]), [StreamEvent::Stopped { id, code: 42 }]);
    assert_eq!(rooms[0].of(id).send_state(), Some(SendState::ResetAcked));
    assert_eq!(rooms[0].sending(id).write(&mut Bytes::from_static(b"x")), Err(WriteError::Stopped(42)));
    assert_eq!(rooms[0].sending(id).finish(), Err(FinishError::Stopped(42)));
    assert_eq!(rooms[1].of(id).recv_state(), Some(RecvState::Closed));
}

/// RFC 9000 §3.2.
#[test]
fn a_reset_is_read_once_and_takes_back_what_was_not_read() {
    let mut rooms = pair(&TransportConfig::fixed_mtu(1200));
    let id = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(id).write(&mut Bytes::from_static(b"half of")).unwrap();
    exchange(&mut rooms, Time::ZERO);
    rooms[0].sending(id).reset(5).unwrap();
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[1].accept(Dir::Uni), Some(id));
    assert_eq!(rooms[1].of(id).recv_state(), Some(RecvState::Reset));
    assert_eq!(rooms[1].receiving(id).read(100), Err(ReadError::Reset(5)));
    assert_eq!(rooms[1].receiving(id).read(100), Err(ReadError::UnknownStream));
    drain_all(&mut rooms);
    assert_eq!(rooms.each_ref().map(Streams::len), [0, 0]);
}

#[test]
fn a_reset_behind_all_the_data_leaves_the_data() {
    let mut room = client(&config());
    frame(&mut room, data(THEIRS, 0, 10, true)).unwrap();
    frame(&mut room, reset(THEIRS, 10)).unwrap();
    room.accept(Dir::Bi).unwrap();
    assert_eq!(room.of(THEIRS).recv_state(), Some(RecvState::Complete));
    assert_eq!(room.receiving(THEIRS).read(100), Ok(Chunk::Data(Bytes::from_static(&[7; 10]))));
    assert_eq!(room.receiving(THEIRS).read(100), Ok(Chunk::Finished));
    assert_eq!(room.of(THEIRS).recv_state(), Some(RecvState::Read));
}

#[test]
fn tokens_of_a_former_owner_of_a_slot_change_nothing() {
    let mut rooms = pair(&TransportConfig::fixed_mtu(1200));
    let id = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(id).write(&mut Bytes::from_static(b"old")).unwrap();
    let old = packet(&mut rooms[0], 1200, Time::ZERO).unwrap().tokens;
    rooms[0].sending(id).reset(0).unwrap();
    exchange(&mut rooms, Time::ZERO);
    drain_all(&mut rooms);
    assert_eq!(rooms[0].len(), 0, "the reset was acknowledged");
    let new = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(new).write(&mut Bytes::from_static(b"new data")).unwrap();
    let sent = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
    let key = |tokens: &[FrameToken]| match tokens {
        [FrameToken::Stream { key, .. }] => *key,
        other => panic!("{other:?}"),
    };
    assert_eq!(key(&old).index, key(&sent.tokens).index, "the slot is used again");
    for token in old {
        rooms[0].lost(token, Time::ZERO);
    }
    rooms[0].check();
    assert!(packet(&mut rooms[0], 1200, Time::ZERO).is_none(), "nothing of the new stream was lost");
}
