use bytes::Bytes;
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::{Dir, Side, StreamId};

use super::*;
use crate::packet::Want;
use crate::streams::{Chunk, StreamEvent, WriteError};

fn config(stream: u64, max_stream: u64, max_connection: u64) -> TransportConfig {
    TransportConfig {
        stream_window: stream,
        max_stream_window: max_stream,
        max_connection_window: max_connection,
        fenced_streams: None,
        ..TransportConfig::fixed_mtu(1200)
    }
}

fn kinds(packet: &Packet) -> Vec<String> {
    Frames::new(&packet.payload)
        .map(|frame| match frame.unwrap() {
            Frame::Stream { offset, data, fin, .. } => format!("STREAM {offset}+{} {fin}", data.len()),
            other => format!("{other:?}"),
        })
        .collect()
}

fn read_all(room: &mut Streams, id: StreamId) -> usize {
    let mut n = 0;
    while let Ok(Chunk::Data(bytes)) = room.receiving(id).read(usize::MAX) {
        n += bytes.len();
    }
    n
}

#[test]
fn what_is_announced_is_what_holds() {
    let tiny = TransportConfig { fenced_streams: Some(5000), ..config(10, 20, 30) };
    let huge = TransportConfig { fenced_streams: Some(u64::MAX), ..config(u64::MAX, u64::MAX, u64::MAX) };
    for config in [TransportConfig::fixed_mtu(1200), config(1000, 500, 600), tiny, huge] {
        let params = announce(&config);
        let mut room = client(&config);
        let data =
            Frame::Stream { id: StreamId::new(Side::Server, Dir::Uni, 0), offset: 0, fin: false, data: &[1] };
        frame(&mut room, data).unwrap();
        let (_, stream) = room.slab.iter().next().unwrap();
        assert_eq!(stream.recv.as_ref().unwrap().window.limit(), params.initial_max_stream_data_uni);
        assert_eq!(room.limits().window().limit(), params.initial_max_data);
        assert_eq!(room.limits().max_peer_streams(Dir::Bi), params.initial_max_streams_bidi);
        assert_eq!(room.limits().max_peer_streams(Dir::Uni), params.initial_max_streams_uni);
    }
}

/// RFC 9000 §4.1, §19.9, §19.12.
#[test]
fn a_sender_stops_at_its_credit_and_says_so_once() {
    let mut rooms = pair(&config(1000, 1000, 1500));
    let a = rooms[0].open(Dir::Uni).unwrap();
    let b = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(a).write(&mut Bytes::from(vec![1; 2000])).unwrap();
    let sent = packet(&mut rooms[0], 4000, Time::ZERO).unwrap();
    assert_eq!(kinds(&sent), ["STREAM 0+1000 false"]);
    // Connection: 500 of 1500 are left.
    rooms[0].sending(b).write(&mut Bytes::from(vec![2; 2000])).unwrap();
    let sent = packet(&mut rooms[0], 4000, Time::ZERO).unwrap();
    assert_eq!(kinds(&sent)[0], format!("{:?}", Frame::StreamDataBlocked { id: a, limit: 1000 }));
    assert_eq!(kinds(&sent)[1], "STREAM 0+500 false");
    let sent = packet(&mut rooms[0], 4000, Time::ZERO).unwrap();
    assert_eq!(kinds(&sent), ["DataBlocked(1500)"]);
    assert!(packet(&mut rooms[0], 4000, Time::ZERO).is_none());
    assert_eq!(rooms[0].want(), Want::None);
    // Lost reports are repeated while they are true.
    sent.tokens.iter().for_each(|token| rooms[0].lost(*token, Time::ZERO));
    assert_eq!(kinds(&packet(&mut rooms[0], 4000, Time::ZERO).unwrap()), ["DataBlocked(1500)"]);
    frame(&mut rooms[0], Frame::MaxData(1600)).unwrap();
    assert_eq!(kinds(&packet(&mut rooms[0], 4000, Time::ZERO).unwrap())[0], "STREAM 500+100 false");
}

#[test]
fn lost_data_and_the_end_need_no_credit() {
    let mut rooms = pair(&config(1000, 1000, 1000));
    let a = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(a).write(&mut Bytes::from(vec![1; 1000])).unwrap();
    let sent = packet(&mut rooms[0], 4000, Time::ZERO).unwrap();
    rooms[0].sending(a).finish().unwrap();
    assert_eq!(rooms[0].want(), Want::Lost);
    assert_eq!(kinds(&packet(&mut rooms[0], 4000, Time::ZERO).unwrap()), ["STREAM 1000+0 true"]);
    sent.tokens.iter().for_each(|token| rooms[0].lost(*token, Time::ZERO));
    assert_eq!(kinds(&packet(&mut rooms[0], 4000, Time::ZERO).unwrap()), ["STREAM 0+1000 true"]);
}

/// The credit frames that `room` sends now.
fn limits(room: &mut Streams, now: Time) -> Vec<String> {
    packet(room, 1200, now).map(|packet| kinds(&packet)).unwrap_or_default()
}

/// RFC 9000 §4.2.
#[test]
fn credit_is_raised_by_eighths_and_doubled_when_half_takes_less_than_two_round_trips() {
    // The smoothed RTT of the tests is 100 ms. Connection: 1500 at first.
    let mut room = client(&config(1000, 4000, 4000));
    let id = StreamId::new(Side::Server, Dir::Uni, 0);
    let mut taken = 0;
    let mut take = |room: &mut Streams, len: usize| {
        let data = Frame::Stream { id, offset: taken, fin: false, data: &[0; 2000][..len] };
        frame(room, data).unwrap();
        room.accept(Dir::Uni);
        assert_eq!(read_all(room, id), len);
        taken += len as u64;
    };
    let raised = |max| format!("{:?}", Frame::MaxStreamData { id, max });
    take(&mut room, 124);
    assert_eq!(limits(&mut room, Time::from_millis(10)), [""; 0]);
    take(&mut room, 1);
    assert_eq!(limits(&mut room, Time::from_millis(20)), [raised(1125)]);
    // Half of it within 199 ms of the first byte: the window is 2000 now. Of the connection's, 750 would be
    // half.
    take(&mut room, 375);
    assert_eq!(limits(&mut room, Time::from_millis(199)), ["MaxData(2000)".to_owned(), raised(2500)]);
    // Half of the connection's has taken 500 ms: no doubling.
    take(&mut room, 500);
    assert_eq!(limits(&mut room, Time::from_millis(500)), ["MaxData(2500)".to_owned(), raised(3000)]);
    // 1000 of the stream's 2000, but in 401 ms.
    take(&mut room, 500);
    assert_eq!(limits(&mut room, Time::from_millis(600)), ["MaxData(3000)".to_owned(), raised(3500)]);
}

/// RFC 9000 §13.3: the newest limit goes again, not the frame that was lost.
#[test]
fn lost_credit_is_sent_again_unless_it_was_raised_since() {
    let mut room = client(&config(1000, 1000, 10_000));
    let id = StreamId::new(Side::Server, Dir::Uni, 0);
    let later = Time::from_millis(900);
    let mut tokens = Vec::new();
    for offset in [0, 500] {
        frame(&mut room, Frame::Stream { id, offset, fin: false, data: &[0; 500] }).unwrap();
        room.accept(Dir::Uni);
        read_all(&mut room, id);
        tokens.extend(
            packet(&mut room, 1200, later)
                .unwrap()
                .tokens
                .into_iter()
                .filter(|token| matches!(token, FrameToken::MaxStreamData { .. })),
        );
    }
    room.lost(tokens[0], later);
    assert_eq!(limits(&mut room, later), [""; 0], "1500 is superseded by 2000");
    room.lost(tokens[1], later);
    assert_eq!(limits(&mut room, later), [format!("{:?}", Frame::MaxStreamData { id, max: 2000 })]);
    // With the end known, credit is of no use.
    frame(&mut room, Frame::Stream { id, offset: 1000, fin: true, data: &[0; 600] }).unwrap();
    read_all(&mut room, id);
    room.lost(tokens[1], later);
    assert!(limits(&mut room, later).iter().all(|frame| !frame.contains("MaxStreamData")));
}

/// RFC 9000 §4.4.
#[test]
fn what_is_dropped_gives_its_connection_credit_back() {
    let mut room = client(&config(1000, 1000, 1000));
    let [a, b] = [0, 1].map(|n| StreamId::new(Side::Server, Dir::Uni, n));
    frame(&mut room, Frame::Stream { id: a, offset: 0, fin: false, data: &[0; 600] }).unwrap();
    room.accept(Dir::Uni).unwrap();
    room.receiving(a).stop(0).unwrap();
    assert!(limits(&mut room, Time::from_millis(999)).contains(&"MaxData(1600)".to_owned()));
    // What still comes for the stopped stream counts, and is dropped; a reset counts to its final size.
    frame(&mut room, Frame::Stream { id: a, offset: 600, fin: false, data: &[0; 100] }).unwrap();
    frame(&mut room, Frame::ResetStream { id: a, code: 0, final_size: 800 }).unwrap();
    frame(&mut room, Frame::ResetStream { id: b, code: 0, final_size: 700 }).unwrap();
    assert_eq!(limits(&mut room, Time::from_millis(999)), ["MaxData(2500)"]);
    assert_eq!(room.len(), 1, "the stopped stream is over");
}

#[test]
fn leave_to_open_streams_comes_back_with_closed_ones() {
    let config = TransportConfig { max_uni_streams: 4, ..TransportConfig::fixed_mtu(1200) };
    let mut rooms = pair(&config);
    for round in 0..50 {
        let ids: Vec<_> = std::iter::from_fn(|| rooms[0].open(Dir::Uni)).collect();
        assert_eq!(ids.len(), 4, "round {round}");
        for id in &ids {
            rooms[0].sending(*id).write(&mut Bytes::from_static(b"one")).unwrap();
            rooms[0].sending(*id).finish().unwrap();
        }
        exchange(&mut rooms, Time::ZERO);
        assert_eq!(drain_events(&mut rooms[1]), [StreamEvent::Opened(Dir::Uni)]);
        while let Some(id) = rooms[1].accept(Dir::Uni) {
            assert_eq!(read_all(&mut rooms[1], id), 3);
        }
        assert_eq!(drain_events(&mut rooms[1]), [], "all was read");
        let finished: Vec<_> = ids.iter().map(|id| StreamEvent::Finished(*id)).collect();
        assert_eq!(drain_events(&mut rooms[0]), finished);
        exchange(&mut rooms, Time::ZERO);
        assert_eq!(drain_events(&mut rooms[0]), [StreamEvent::Available(Dir::Uni)]);
        assert_eq!(rooms.each_ref().map(Streams::len), [0, 0]);
    }
}

#[test]
fn one_long_stream_does_not_keep_leave_for_the_others_back() {
    let config = TransportConfig { max_uni_streams: 4, ..TransportConfig::fixed_mtu(1200) };
    let mut rooms = pair(&config);
    let held: Vec<_> = (0..3).map(|_| rooms[0].open(Dir::Uni).unwrap()).collect();
    for id in &held {
        rooms[0].sending(*id).write(&mut Bytes::from_static(b"x")).unwrap();
    }
    for _ in 0..20 {
        let id = rooms[0].open(Dir::Uni).expect("one of four is free");
        rooms[0].sending(id).finish().unwrap();
        exchange(&mut rooms, Time::ZERO);
        while let Some(id) = rooms[1].accept(Dir::Uni) {
            read_all(&mut rooms[1], id);
        }
        exchange(&mut rooms, Time::ZERO);
        drain_all(&mut rooms);
    }
}

/// RFC 9000 §2.1, §4.6: the peer does not hear of streams on which nothing was said, so that nothing but
/// STREAMS_BLOCKED tells that the leave is used up.
#[test]
fn leave_comes_back_to_who_opens_streams_and_says_nothing_on_them_yet() {
    let config = TransportConfig { max_uni_streams: 4, ..TransportConfig::fixed_mtu(1200) };
    let mut rooms = pair(&config);
    let first = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(first).finish().unwrap();
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[1].accept(Dir::Uni), Some(first));
    assert_eq!(rooms[1].receiving(first).read(1), Ok(Chunk::Finished));
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[1].limits().max_peer_streams(Dir::Uni), 4, "more than half of the leave is left");
    let silent: Vec<_> = std::iter::from_fn(|| rooms[0].open(Dir::Uni)).collect();
    assert_eq!(silent.len(), 3);
    drain_all(&mut rooms);
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(drain_events(&mut rooms[0]), [StreamEvent::Available(Dir::Uni)]);
    assert_eq!(std::iter::from_fn(|| rooms[0].open(Dir::Uni)).count(), 1, "four are open");
    // All that may be are: to say so again changes nothing, nor does what was said before the last news.
    exchange(&mut rooms, Time::ZERO);
    for limit in [4, 5, 1 << 60] {
        let blocked = Frame::StreamsBlocked { dir: Dir::Uni, limit };
        rooms[1].on_frame(&blocked, &Bytes::new(), &view(Time::ZERO)).unwrap();
    }
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[1].limits().max_peer_streams(Dir::Uni), 5);
}

#[test]
fn a_full_send_buffer_refuses_and_tells_when_a_quarter_is_free() {
    let mut rooms = pair(&TransportConfig { send_buffer: 4000, ..TransportConfig::fixed_mtu(1200) });
    let id = rooms[0].open(Dir::Uni).unwrap();
    let mut bytes = Bytes::from(vec![0; 5000]);
    assert_eq!(rooms[0].sending(id).write(&mut bytes), Ok(4000));
    assert_eq!(rooms[0].sending(id).write(&mut bytes), Err(WriteError::Blocked));
    let sent: Vec<_> = std::iter::from_fn(|| packet(&mut rooms[0], 600, Time::ZERO)).collect();
    sent[0].tokens.iter().for_each(|token| rooms[0].acked(*token, Time::ZERO));
    assert_eq!(drain_events(&mut rooms[0]), [], "a packet of 600 bytes is less than a quarter of 4000");
    sent[1].tokens.iter().for_each(|token| rooms[0].acked(*token, Time::ZERO));
    assert_eq!(drain_events(&mut rooms[0]), [StreamEvent::Writable(id)]);
    sent[2].tokens.iter().for_each(|token| rooms[0].acked(*token, Time::ZERO));
    assert_eq!(drain_events(&mut rooms[0]), [], "told once");
    assert_eq!(rooms[0].sending(id).write(&mut bytes), Ok(1000));
}

#[test]
fn a_few_bytes_do_not_pin_a_packet_and_many_are_not_copied() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let id = StreamId::new(Side::Server, Dir::Uni, 0);
    let mut offset = 0;
    for (len, kept) in [(511, false), (512, true), (300, false), (1100, true)] {
        let mut payload = vec![0; 1200];
        let mut w = wire::Writer::new(&mut payload);
        Frame::Stream { id, offset, fin: false, data: &vec![5; len] }.encode(&mut w);
        let payload = Bytes::from(payload);
        receive(&mut room, &payload, Time::ZERO).unwrap();
        room.accept(Dir::Uni);
        let Ok(Chunk::Data(bytes)) = room.receiving(id).read(usize::MAX) else { panic!("{len} bytes came") };
        assert_eq!(bytes.len(), len);
        offset += len as u64;
        assert_eq!(payload.as_ptr_range().contains(&bytes.as_ptr()), kept, "{len} bytes");
    }
}

/// RFC 9000 §4.1, §4.6.
#[test]
fn the_application_sees_how_far_credit_goes() {
    let config =
        TransportConfig { stream_window: 1000, max_bidi_streams: 7, ..TransportConfig::fixed_mtu(1200) };
    let mut rooms = pair(&config);
    assert_eq!(
        (rooms[0].limits().max_peer_streams(Dir::Bi), rooms[1].limits().max_peer_streams(Dir::Bi)),
        (7, 7)
    );
    let [a, b, c] = [0; 3].map(|_| rooms[0].open(Dir::Bi).unwrap());
    let limit = announce(&config);
    let (stream, all) = (limit.initial_max_stream_data_bidi_remote, limit.initial_max_data);
    assert_eq!(rooms[0].of(a).send_credit(), Some(stream));
    rooms[0].sending(a).write(&mut Bytes::from(vec![0; 300])).unwrap();
    assert_eq!(rooms[0].of(a).send_credit(), Some(stream - 300), "what waits to be sent uses it up");
    // Sent, it counts for all streams.
    rooms[0].sending(b).write(&mut Bytes::from(vec![0; stream as usize])).unwrap();
    while packet(&mut rooms[0], 1200, Time::ZERO).is_some() {}
    assert_eq!(rooms[0].of(a).send_credit(), Some((stream - 300).min(all - stream - 300)));
    assert_eq!(
        (rooms[0].of(b).send_credit(), rooms[0].of(c).send_credit()),
        (Some(0), Some(stream.min(all - stream - 300)))
    );
    rooms[0].sending(a).finish().unwrap();
    assert_eq!((rooms[0].of(a).send_credit(), rooms[0].of(StreamId(99)).send_credit()), (None, None));
}

/// RFC 9000 §4.6: a limit never falls, so fewer streams hold only when those that were allowed are over.
#[test]
fn how_many_streams_may_be_open_can_be_changed() {
    let mut rooms = pair(&TransportConfig { max_uni_streams: 4, ..config(1000, 1000, 1500) });
    rooms[1].limits_mut().set_max_streams(Dir::Uni, 6);
    exchange(&mut rooms, Time::ZERO);
    let ids: Vec<_> = std::iter::from_fn(|| rooms[0].open(Dir::Uni)).collect();
    assert_eq!(ids.len(), 6, "news of more go out at once");
    rooms[1].limits_mut().set_max_streams(Dir::Uni, 2);
    let mut over = 0;
    for (id, allowed) in ids.into_iter().zip([6, 6, 6, 6, 7, 8]) {
        rooms[0].sending(id).finish().unwrap();
        exchange(&mut rooms, Time::ZERO);
        assert_eq!(rooms[1].accept(Dir::Uni), Some(id));
        assert_eq!(rooms[1].receiving(id).read(1), Ok(Chunk::Finished));
        over += 1;
        exchange(&mut rooms, Time::ZERO);
        // The last two that are over make room for two more: one would be half of the leave, and waits.
        assert!(rooms[1].limits().max_peer_streams(Dir::Uni) <= allowed, "{over} are over");
    }
    assert_eq!(rooms[1].limits().max_peer_streams(Dir::Uni), 8);
    assert_eq!(std::iter::from_fn(|| rooms[0].open(Dir::Uni)).count(), 2);
    // None at all: nothing that was allowed is taken back.
    rooms[1].limits_mut().set_max_streams(Dir::Uni, 0);
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[1].limits().max_peer_streams(Dir::Uni), 8);
    rooms[1].limits_mut().set_max_streams(Dir::Uni, u64::MAX);
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[0].limits().max_streams(Dir::Uni), 1 << 60);
}

/// RFC 9000 §4.1.
#[test]
fn the_connections_window_can_be_changed() {
    let mut rooms = pair(&config(1000, 1000, 1500));
    let ids = [0; 3].map(|_| rooms[0].open(Dir::Uni).unwrap());
    rooms[0].sending(ids[0]).write(&mut Bytes::from(vec![1; 600])).unwrap();
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[0].of(ids[1]).send_credit(), Some(900));
    rooms[1].limits_mut().set_window(2500);
    exchange(&mut rooms, Time::ZERO);
    assert_eq!((rooms[0].of(ids[1]).send_credit(), rooms[0].limits().max_data()), (Some(1000), 2500));
    // What was allowed stands until as much was read.
    rooms[1].limits_mut().set_window(700);
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[0].limits().max_data(), 2500);
    for id in &ids[1..] {
        rooms[0].sending(*id).write(&mut Bytes::from(vec![1; 950])).unwrap();
    }
    exchange(&mut rooms, Time::ZERO);
    for (id, limit) in ids.into_iter().zip([2500, 2500, 3200]) {
        rooms[1].accept(Dir::Uni);
        read_all(&mut rooms[1], id);
        exchange(&mut rooms, Time::ZERO);
        assert_eq!(rooms[0].limits().max_data(), limit);
    }
    // A message of the longest kind fits whatever the application says.
    let mut room =
        client(&TransportConfig { fenced_streams: Some(5000), ..TransportConfig::fixed_mtu(1200) });
    room.limits_mut().set_window(0);
    assert!(room.limits().window().size() >= 5000);
}

/// FS-18, FS-36: who waits until all of a record has credit has it as soon as what was before is read,
/// however little that was.
#[test]
fn the_longest_record_has_room_whenever_all_was_read() {
    let config = TransportConfig {
        fenced_streams: Some(1200),
        stream_window: 1208,
        max_stream_window: 1208,
        max_connection_window: 1208,
        ..TransportConfig::fixed_mtu(1200)
    };
    let mut rooms = pair(&config);
    let id = rooms[0].open_messages(Dir::Uni).unwrap();
    for n in [60, 1180, 20, 1180] {
        rooms[0].messages(id).send(vec![0; n].into(), None).unwrap();
        exchange(&mut rooms, Time::ZERO);
        if rooms[1].accept(Dir::Uni).is_some() {
            rooms[1].messages(id).begin().unwrap();
        }
        let message = rooms[1].messages(id).next().unwrap();
        assert_eq!(message.map(|message| message.payload.len()), Some(n));
        exchange(&mut rooms, Time::ZERO);
    }
}
