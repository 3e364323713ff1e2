//! Resets behind a part that arrives: draft-ietf-quic-reliable-stream-reset.

use bytes::Bytes;
use quickset_base::Rng;
use quickset_wire::TransportErrorCode as Code;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, StreamId};

use super::*;
use crate::streams::{Chunk, ReadError, RecvState, ResetAtError, SendState, StreamEvent};

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// All that can be read, and how it goes on.
fn read_all(room: &mut Streams, id: StreamId) -> (Vec<u8>, Result<Chunk, ReadError>) {
    let mut got = Vec::new();
    loop {
        match room.receiving(id).read(usize::MAX) {
            Ok(Chunk::Data(bytes)) => got.extend_from_slice(&bytes),
            other => return (got, other),
        }
    }
}

fn frames(packet: &Packet) -> Vec<Frame<'_>> {
    Frames::new(&packet.payload).map(Result::unwrap).collect()
}

fn at(id: StreamId, final_size: u64, reliable_size: u64) -> Frame<'static> {
    Frame::ResetStreamAt { id, code: 7, final_size, reliable_size }
}

/// Whatever is lost, repeated or overtaken, the reliable part is read, then the code; all credit comes back,
/// and the streams are let go.
#[test]
fn the_reliable_part_arrives_whatever_the_channel_does() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let config = TransportConfig { stream_window: 6000, ..TransportConfig::fixed_mtu(1200) };
        let mut rooms = pair(&config);
        let id = rooms[0].open(Dir::Uni).unwrap();
        let bytes = content(1 + rng.below(5000) as usize);
        rooms[0].sending(id).write(&mut bytes.clone().into()).unwrap();
        let (mut flight, mut got) = (Vec::new(), Vec::new());
        let mut promised = bytes.len() as u64;
        let (mut begun, mut read, mut is_reset) = (false, false, false);
        for step in 0.. {
            assert!(step < 4000, "seed {seed}: it never ends");
            if rng.below(6) == 0 && (!begun || rng.below(20) == 0) {
                let reliable = 1 + rng.below(bytes.len() as u64);
                rooms[0].sending(id).reset_at(7, reliable).ok();
                promised = promised.min(reliable);
                begun = true;
            }
            if rng.below(2) == 0 {
                flight.extend(packet(&mut rooms[0], 200, Time::ZERO));
            }
            if !flight.is_empty() && rng.below(2) == 0 {
                let n = rng.below(flight.len() as u64) as usize;
                let sent: Packet = flight.swap_remove(n);
                let arrives = rng.below(4) != 0;
                if arrives {
                    receive(&mut rooms[1], &sent.payload, Time::ZERO).unwrap();
                }
                for token in &sent.tokens {
                    if arrives {
                        rooms[0].acked(*token, Time::ZERO);
                    } else {
                        rooms[0].lost(*token, Time::ZERO);
                    }
                }
            }
            if rng.below(3) == 0 && !read {
                rooms[1].accept(Dir::Uni);
                let (more, then) = read_all(&mut rooms[1], id);
                got.extend(more);
                if let Err(ReadError::Reset(code)) = then {
                    assert_eq!(code, 7);
                    (read, is_reset) = (true, true);
                }
                assert!(then != Ok(Chunk::Finished), "seed {seed}: a reset is no end");
            }
            rooms.iter().for_each(Streams::check);
            drain_all(&mut rooms);
            if is_reset && rooms[0].len() == 0 {
                break;
            }
        }
        assert!(got.len() as u64 >= promised, "seed {seed}: {} of {promised}", got.len());
        assert!(bytes.starts_with(&got), "seed {seed}");
        assert_eq!((rooms[0].len(), rooms[1].len()), (0, 0), "seed {seed}: nothing is kept");
        let (sent, received) = (rooms[0].limits().sent(), rooms[1].limits().received());
        assert_eq!(rooms[1].limits().consumed(), received, "seed {seed}: all credit came back");
        assert_eq!(sent, received, "seed {seed}: both count alike");
    }
}

#[test]
fn what_lies_behind_the_reliable_part_is_not_sent_again() {
    let mut rooms = pair(&TransportConfig::fixed_mtu(1200));
    let id = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(id).write(&mut content(5000).into()).unwrap();
    let sent: Vec<_> = (0..3).map(|_| packet(&mut rooms[0], 1200, Time::ZERO).unwrap()).collect();
    rooms[0].sending(id).reset_at(7, 1500).unwrap();
    assert_eq!(rooms[0].of(id).send_state(), Some(SendState::Reset));
    // All of the reliable part was sent, so that the final size is what was.
    let told = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
    let [Frame::ResetStreamAt { code: 7, final_size, reliable_size: 1500, .. }] = frames(&told)[..] else {
        panic!("{told:?}")
    };
    assert!((3 * 1100..3 * 1200).contains(&final_size));
    assert!(packet(&mut rooms[0], 1200, Time::ZERO).is_none(), "and nothing else");
    for sent in &sent {
        rooms[0].lost(sent.tokens[0], Time::ZERO);
    }
    let again: Vec<_> = (0..2).filter_map(|_| packet(&mut rooms[0], 1200, Time::ZERO)).collect();
    let bytes: usize = again
        .iter()
        .flat_map(frames)
        .map(|frame| if let Frame::Stream { data, .. } = frame { data.len() } else { 0 })
        .sum();
    assert_eq!(bytes, 1500);
    assert!(packet(&mut rooms[0], 1200, Time::ZERO).is_none());
    // The half is over with the last of both: what was promised, and the reset.
    for token in again.iter().flat_map(|sent| &sent.tokens) {
        rooms[0].acked(*token, Time::ZERO);
    }
    assert_eq!(rooms[0].of(id).send_state(), Some(SendState::Reset));
    assert_eq!(rooms[0].next_event(), None);
    rooms[0].acked(told.tokens[0], Time::ZERO);
    assert_eq!(rooms[0].of(id).send_state(), Some(SendState::ResetAcked));
    assert_eq!(rooms[0].next_event(), Some(StreamEvent::ResetArrived(id)));
    assert_eq!((rooms[0].next_event(), rooms[0].len()), (None, 0));
}

/// The promise and the news of the reset arrive in either order, and the end is told once.
#[test]
fn a_reset_has_arrived_when_all_of_the_promise_has() {
    for promise_first in [false, true] {
        let mut rooms = pair(&TransportConfig::fixed_mtu(1200));
        let id = rooms[0].open(Dir::Bi).unwrap();
        rooms[0].sending(id).write(&mut content(800).into()).unwrap();
        let promised = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
        rooms[0].sending(id).reset_at(7, 300).unwrap();
        let told = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
        let mut packets = [promised, told];
        if !promise_first {
            packets.reverse();
        }
        let mut events = Vec::new();
        for packet in &packets {
            assert_eq!(events, []);
            packet.tokens.iter().for_each(|token| rooms[0].acked(*token, Time::ZERO));
            events.extend(std::iter::from_fn(|| rooms[0].next_event()));
        }
        assert_eq!(events, [StreamEvent::ResetArrived(id)]);
    }
}

/// Who was told that the peer stopped the stream knows already that it is over.
#[test]
fn of_a_stopped_stream_no_reset_is_told() {
    let mut rooms = pair(&TransportConfig::fixed_mtu(1200));
    let id = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(id).write(&mut content(800).into()).unwrap();
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[1].accept(Dir::Uni), Some(id));
    rooms[1].receiving(id).stop(9).unwrap();
    exchange(&mut rooms, Time::ZERO);
    let events: Vec<_> = std::iter::from_fn(|| rooms[0].next_event()).collect();
    assert_eq!(events, [StreamEvent::Stopped { id, code: 9 }]);
}

#[test]
fn what_was_not_sent_is_sent_before_the_reset_and_no_more() {
    let mut rooms = pair(&TransportConfig::fixed_mtu(1200));
    let id = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(id).write(&mut content(5000).into()).unwrap();
    rooms[0].sending(id).finish().unwrap();
    rooms[0].sending(id).reset_at(7, 3000).unwrap();
    assert_eq!(rooms[0].of(id).unsent(), Some(3000));
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[1].accept(Dir::Uni), Some(id));
    assert_eq!(read_all(&mut rooms[1], id), (content(3000), Err(ReadError::Reset(7))));
    drain_all(&mut rooms);
    assert_eq!((rooms[0].len(), rooms[1].len()), (0, 0));
    assert_eq!((rooms[0].limits().sent(), rooms[1].limits().consumed()), (3000, 3000));
}

/// §5.2: the promise only shrinks, and the code stays; §5.4: who wants no more is promised nothing.
#[test]
fn a_promise_can_be_taken_back() {
    let mut rooms = pair(&TransportConfig::fixed_mtu(1200));
    let id = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(id).write(&mut content(3000).into()).unwrap();
    let first = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
    rooms[0].sending(id).reset_at(7, 1000).unwrap();
    let told = |rooms: &mut [Streams; 2]| {
        let sent = packet(&mut rooms[0], 1200, Time::ZERO)?;
        let found = frames(&sent).iter().find_map(|frame| match *frame {
            Frame::ResetStreamAt { code, reliable_size, .. } => Some((code, reliable_size)),
            Frame::ResetStream { code, .. } => Some((code, 0)),
            _ => None,
        });
        found.map(|found| (found, sent.tokens[0]))
    };
    let (is, old) = told(&mut rooms).unwrap();
    assert_eq!(is, (7, 1000));
    rooms[0].sending(id).reset_at(7, 2000).unwrap();
    assert_eq!(told(&mut rooms), None, "never more");
    rooms[0].sending(id).reset_at(9, 500).unwrap();
    let (is, new) = told(&mut rooms).unwrap();
    assert_eq!(is, (7, 500));
    rooms[0].lost(old, Time::ZERO);
    assert_eq!(told(&mut rooms), None, "the smaller one holds");
    rooms[0].acked(old, Time::ZERO);
    first.tokens.iter().for_each(|token| rooms[0].acked(*token, Time::ZERO));
    assert_eq!(rooms[0].of(id).send_state(), Some(SendState::Reset), "the peer may still wait for the rest");
    rooms[0].lost(new, Time::ZERO);
    assert_eq!(told(&mut rooms).unwrap().0, (7, 500));
    frame(&mut rooms[0], Frame::StopSending { id, code: 3 }).unwrap();
    let (is, last) = told(&mut rooms).unwrap();
    assert_eq!(is, (7, 0));
    rooms[0].acked(last, Time::ZERO);
    drain_all(&mut rooms);
    assert_eq!(rooms[0].len(), 0);
}

#[test]
fn a_receiver_waits_for_the_least_that_was_promised() {
    let id = StreamId(2);
    let data = |offset: u64, len: usize| Frame::Stream { id, offset, fin: false, data: &[5; 1000][..len] };
    let mut room = pair(&TransportConfig::fixed_mtu(1200)).into_iter().nth(1).unwrap();
    frame(&mut room, data(0, 100)).unwrap();
    assert_eq!(room.accept(Dir::Uni), Some(id));
    frame(&mut room, at(id, 1000, 400)).unwrap();
    assert_eq!(room.of(id).recv_state(), Some(RecvState::SizeKnown));
    assert_eq!(read_all(&mut room, id), (vec![5; 100], Ok(Chunk::Blocked)), "more is to come");
    drain_events(&mut room);
    frame(&mut room, data(250, 750)).unwrap();
    assert_eq!(room.next_event(), None, "it lies behind a hole");
    // More is not promised by one that comes late; less is.
    frame(&mut room, at(id, 1000, 600)).unwrap();
    frame(&mut room, at(id, 1000, 200)).unwrap();
    frame(&mut room, data(100, 100)).unwrap();
    assert_eq!(room.next_event(), Some(StreamEvent::Readable(id)));
    assert_eq!(room.of(id).recv_state(), Some(RecvState::Reset));
    assert_eq!(room.limits().consumed(), 900, "nobody waits for what lies behind");
    // Neither what comes now nor a smaller promise changes anything.
    frame(&mut room, data(200, 50)).unwrap();
    frame(&mut room, Frame::ResetStream { id, code: 7, final_size: 1000 }).unwrap();
    assert_eq!(read_all(&mut room, id), (vec![5; 100], Err(ReadError::Reset(7))));
    drain_events(&mut room);
    assert_eq!((room.len(), room.limits().consumed()), (0, 1000));
}

#[test]
fn a_bare_reset_takes_the_promise_back() {
    let id = StreamId(2);
    let mut room = pair(&TransportConfig::fixed_mtu(1200)).into_iter().nth(1).unwrap();
    frame(&mut room, at(id, 1000, 400)).unwrap();
    assert_eq!(room.accept(Dir::Uni), Some(id));
    assert_eq!(read_all(&mut room, id), (vec![], Ok(Chunk::Blocked)));
    frame(&mut room, Frame::ResetStream { id, code: 7, final_size: 1000 }).unwrap();
    assert_eq!(read_all(&mut room, id), (vec![], Err(ReadError::Reset(7))));
    drain_events(&mut room);
    assert_eq!((room.len(), room.limits().consumed()), (0, 1000));
    // One that was stopped has no use for any of it.
    let id = StreamId(6);
    frame(&mut room, at(id, 1000, 400)).unwrap();
    assert_eq!(room.accept(Dir::Uni), Some(id));
    room.receiving(id).stop(1).unwrap();
    drain_events(&mut room);
    assert_eq!((room.len(), room.limits().consumed()), (0, 2000));
}

/// §3, §4, §5.2, and RFC 9000 §4.5.
#[test]
fn resets_that_contradict_close_the_connection() {
    let id = StreamId(2);
    let config =
        TransportConfig { stream_window: 1000, fenced_streams: None, ..TransportConfig::fixed_mtu(1200) };
    let run = |second: Frame<'_>| {
        let mut room = pair(&config).into_iter().nth(1).unwrap();
        frame(&mut room, at(id, 800, 400)).unwrap();
        frame(&mut room, second).map_err(|error| error.code)
    };
    let other = Frame::ResetStreamAt { id, code: 8, final_size: 800, reliable_size: 300 };
    assert_eq!(run(other), Err(Code::STREAM_STATE_ERROR));
    assert_eq!(run(Frame::ResetStream { id, code: 8, final_size: 800 }), Err(Code::STREAM_STATE_ERROR));
    assert_eq!(run(at(id, 801, 300)), Err(Code::FINAL_SIZE_ERROR));
    let end = Frame::Stream { id, offset: 700, fin: true, data: &[] };
    assert_eq!(run(end), Err(Code::FINAL_SIZE_ERROR));
    assert_eq!(run(at(StreamId(6), 1001, 300)), Err(Code::FLOW_CONTROL_ERROR));
    assert_eq!(run(at(StreamId(3), 1, 1)), Err(Code::STREAM_STATE_ERROR), "ours to send on");
    assert_eq!(run(at(id, 800, 800)), Ok(()));
    // Who did not offer it does not know the frame, and is sent none.
    let config = TransportConfig { reset_stream_at: false, ..config };
    let mut rooms = pair(&config);
    let unknown = frame(&mut rooms[1], at(id, 800, 400)).unwrap_err();
    assert_eq!(unknown.code, Code::FRAME_ENCODING_ERROR);
    let id = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(id).write(&mut Bytes::from_static(b"head")).unwrap();
    assert_eq!(rooms[0].sending(id).reset_at(7, 4), Err(ResetAtError::Unsupported));
    assert_eq!(rooms[0].of(id).send_state(), Some(SendState::Open));
}

/// FS-60: the records that end in the reliable part come, in the order of their fences, and no others but
/// those that were free before.
#[test]
fn records_that_end_in_the_reliable_part_are_delivered() {
    let id = StreamId(2);
    let fenced = |offset: u64, distance: u64, data: &'static [u8]| Frame::Fenced {
        id,
        offset,
        distance,
        start: true,
        each: false,
        fin: false,
        data,
    };
    let mut room = pair(&TransportConfig::fixed_mtu(1200)).into_iter().nth(1).unwrap();
    let mut told = Vec::new();
    let mut next = |room: &mut Streams| {
        while let Ok(Some(message)) = room.messages(id).next() {
            told.push(message.payload);
        }
        std::mem::take(&mut told)
    };
    // Records of three bytes; fences at 0, 6, 12. The first of the second segment comes, but the first
    // segment is missing one; the third segment is there as a whole.
    frame(&mut room, fenced(0, 0, b"\x02aa")).unwrap();
    assert_eq!(room.accept(Dir::Uni), Some(id));
    room.messages(id).begin().unwrap();
    frame(&mut room, fenced(6, 0, b"\x02cc\x02dd")).unwrap();
    frame(&mut room, fenced(12, 0, b"\x02ee\x02ff")).unwrap();
    assert_eq!(next(&mut room), [&b"aa"[..]]);
    frame(&mut room, at(id, 30, 11)).unwrap();
    assert_eq!(next(&mut room), [] as [Bytes; 0], "the fence holds");
    assert_eq!(room.of(id).recv_state(), Some(RecvState::SizeKnown));
    // The second record of the second segment ends at 12.
    frame(&mut room, fenced(3, 3, b"\x02bb")).unwrap();
    assert_eq!(next(&mut room), [&b"bb"[..], b"cc"]);
    assert_eq!(room.messages(id).next(), Err(ReadError::UnknownStream), "the reset was told");
    drain_events(&mut room);
    assert_eq!((room.len(), room.limits().consumed()), (0, 30));
}

#[test]
fn what_a_reset_dropped_is_not_consumed_twice() {
    let id = StreamId(2);
    for (reset, messages) in
        [(Frame::ResetStream { id, code: 7, final_size: 30 }, 0), (at(id, 30, 7), 2), (at(id, 30, 3), 2)]
    {
        let mut room = pair(&TransportConfig::fixed_mtu(1200)).into_iter().nth(1).unwrap();
        // What the stream carries is not known before it is accepted.
        if messages > 0 {
            let data = b"\x02aa\x02bb\x02cc\x02dd";
            frame(&mut room, Frame::Stream { id, offset: 0, fin: false, data: &data[..8] }).unwrap();
        }
        frame(&mut room, reset).unwrap();
        assert_eq!(room.accept(Dir::Uni), Some(id));
        room.messages(id).begin().unwrap();
        room.check();
        let mut n = 0;
        while let Ok(Some(_)) = room.messages(id).next() {
            n += 1;
        }
        assert_eq!(n, messages);
        drain_events(&mut room);
        assert_eq!((room.len(), room.limits().consumed()), (0, 30));
    }
}

/// FS-60, from the other end: messages up to one arrive, those behind it are given up, and the peer is told.
#[test]
fn messages_up_to_one_arrive_whatever_the_channel_does() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        // With the extension, and in STREAM frames without.
        let fenced_streams = if seed % 4 == 0 { None } else { Some(2000) };
        let config =
            TransportConfig { stream_window: 4000, fenced_streams, ..TransportConfig::fixed_mtu(1200) };
        let mut rooms = pair(&config);
        let id = rooms[0].open_messages(Dir::Uni).unwrap();
        let mut tickets = Vec::new();
        for n in 0..30u8 {
            let len = if rng.below(5) == 0 { 1500 } else { rng.below(100) as usize };
            tickets.push(rooms[0].messages(id).send(vec![n; len + 1].into(), None).unwrap());
            if rng.below(3) == 0 {
                rooms[0].messages(id).fence(Time::ZERO).unwrap();
            }
        }
        let (at, last) = (rng.below(60), rng.below(30) as usize);
        let (mut flight, mut got, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut read, mut taken_as) = (false, false);
        for step in 0.. {
            assert!(step < 8000, "seed {seed}: it never ends: {rooms:?}");
            if step == at {
                rooms[0].sending(id).reset_behind(7, tickets[last]).unwrap();
            }
            if rng.below(2) == 0 {
                flight.extend(packet(&mut rooms[0], 300, Time::ZERO));
            }
            if rng.below(2) == 0 {
                if let Some(sent) = packet(&mut rooms[1], 300, Time::ZERO) {
                    receive(&mut rooms[0], &sent.payload, Time::ZERO).unwrap();
                    sent.tokens.iter().for_each(|token| rooms[1].acked(*token, Time::ZERO));
                }
            }
            if !flight.is_empty() && rng.below(2) == 0 {
                let n = rng.below(flight.len() as u64) as usize;
                let sent: Packet = flight.swap_remove(n);
                let arrives = rng.below(4) != 0;
                if arrives {
                    receive(&mut rooms[1], &sent.payload, Time::ZERO).unwrap();
                }
                for token in &sent.tokens {
                    let settle = if arrives { Streams::acked } else { Streams::lost };
                    settle(&mut rooms[0], *token, Time::ZERO);
                }
            }
            if !read && rng.below(3) == 0 {
                taken_as = taken_as
                    || rooms[1].accept(Dir::Uni).is_some_and(|id| rooms[1].messages(id).begin().is_ok());
                while taken_as && !read {
                    match rooms[1].messages(id).next() {
                        Ok(Some(message)) => got.push(message.payload[0] as usize),
                        Ok(None) => break,
                        Err(end) => {
                            assert_eq!(end, ReadError::Reset(7), "seed {seed}");
                            read = true;
                        }
                    }
                }
            }
            outcomes.extend(std::iter::from_fn(|| rooms[0].messages(id).next_outcome()));
            rooms.iter().for_each(Streams::check);
            drain_all(&mut rooms);
            if read && rooms[0].len() == 0 {
                break;
            }
        }
        got.sort_unstable();
        assert_eq!(got[..=last], (0..=last).collect::<Vec<_>>(), "seed {seed}: each once, up to the last");
        assert!(got.is_sorted_by(|a, b| a < b), "seed {seed}: none twice");
        assert_eq!(outcomes.len(), 30, "seed {seed}: FS-56: one outcome each");
        for (ticket, outcome) in outcomes {
            assert!(outcome.is_delivered() || ticket > tickets[last], "seed {seed}: {ticket:?}");
        }
        assert_eq!(rooms[1].len(), 0, "seed {seed}");
        assert_eq!(
            rooms[1].limits().consumed(),
            rooms[1].limits().received(),
            "seed {seed}: all credit came back"
        );
        assert_eq!(rooms[0].limits().sent(), rooms[1].limits().received(), "seed {seed}: both count alike");
    }
}
