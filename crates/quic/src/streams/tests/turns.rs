use bytes::Bytes;
use quickset_sched::Priority;
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::{Dir, StreamId};

use super::*;
use crate::packet::{Channel, StreamKey, Want};
use crate::streams::outbound::StreamTurn;
use crate::streams::{Class, ClassError, UnknownStream};

/// The streams of the data frames in the next `n` packets, with their bytes.
fn turns(room: &mut Streams, n: usize) -> Vec<(u64, usize)> {
    let mut turns = Vec::new();
    for _ in 0..n {
        let sent = packet(room, 1200, Time::ZERO).expect("there is data");
        turns.extend(Frames::new(&sent.payload).filter_map(|frame| match frame.unwrap() {
            Frame::Stream { id, data, .. } => Some((id.index(), data.len())),
            _ => None,
        }));
    }
    turns
}

fn streams(room: &mut Streams, urgencies: &[u8], bytes: usize) -> Vec<StreamId> {
    urgencies
        .iter()
        .map(|urgency| {
            let id = room.open(Dir::Uni).unwrap();
            room.sending(id).set_urgency(*urgency).unwrap();
            room.sending(id).write(&mut Bytes::from(vec![0; bytes])).unwrap();
            id
        })
        .collect()
}

#[test]
fn equal_streams_get_equal_shares() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    streams(&mut room, &[3; 5], 100_000);
    let mut shares = [0; 5];
    for (index, bytes) in turns(&mut room, 100) {
        shares[index as usize] += bytes;
    }
    // Nobody is ahead of another by more than what is divided in a round, a frame and a bit, and the one that
    // overdraws it.
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(most - least <= 3 * 1200, "{shares:?}");
    assert!(shares.iter().sum::<usize>() > 100 * 1150, "packets are full: {shares:?}");
}

/// RFC 9000 §2.3, RFC 9218 §12: the application says what matters more.
#[test]
fn urgent_streams_go_first_and_lost_data_before_new() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let ids = streams(&mut room, &[3, 5, 0], 2000);
    let first = packet(&mut room, 1200, Time::ZERO).unwrap();
    let mut order: Vec<_> = turns(&mut room, 5).iter().map(|turn| turn.0).collect();
    order.dedup();
    assert_eq!(order, [2, 0, 1], "by urgency");
    assert!(packet(&mut room, 1200, Time::ZERO).is_none());
    // Stream 2 lost data and has new data; stream 1 is more urgent meanwhile.
    first.tokens.iter().for_each(|token| room.lost(*token, Time::ZERO));
    for (n, urgency) in [(1, 1), (2, 2)] {
        room.sending(ids[n]).set_urgency(urgency).unwrap();
        room.sending(ids[n]).write(&mut Bytes::from(vec![0; 1100])).unwrap();
    }
    let mut order = Vec::new();
    while let Some(sent) = packet(&mut room, 1200, Time::ZERO) {
        order.extend(Frames::new(&sent.payload).filter_map(|frame| match frame.unwrap() {
            Frame::Stream { id, offset, .. } => Some((id.index(), offset >= 2000)),
            _ => None,
        }));
    }
    order.dedup();
    assert_eq!(order, [(1, true), (2, false), (2, true)], "urgency, then what was lost, then what is new");
}

/// RFC 9218 §10.
#[test]
fn what_is_of_no_use_in_parts_goes_one_after_the_other() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let ids = streams(&mut room, &[3, 3, 3, 0], 10_000);
    for id in &ids[..3] {
        room.sending(*id).set_incremental(false).unwrap();
    }
    // The last is the least urgent now, the second goes before all.
    room.sending(ids[3]).set_urgency(7).unwrap();
    room.sending(ids[1]).set_critical().unwrap();
    let first = packet(&mut room, 1200, Time::ZERO).unwrap();
    let mut order: Vec<_> = turns(&mut room, 12).iter().map(|turn| turn.0).collect();
    order.dedup();
    assert_eq!(order, [1, 0], "one at a time");
    // The line is the same for what was lost.
    room.sending(ids[1]).set_urgency(3).unwrap();
    first.tokens.iter().for_each(|token| room.lost(*token, Time::ZERO));
    let mut order: Vec<_> = turns(&mut room, 20).iter().map(|turn| turn.0).collect();
    order.dedup();
    assert_eq!(order, [0, 1, 2, 3], "the line");
    assert_eq!(room.sending(StreamId(77)).set_critical(), Err(UnknownStream));
    assert_eq!(room.sending(StreamId(77)).set_incremental(true), Err(UnknownStream));
}

/// RFC 9218 §10 leaves open who goes first of those that are of use in parts and those that are not.
#[test]
fn a_line_goes_before_those_that_take_turns() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let ids = streams(&mut room, &[3; 4], 20_000);
    for id in &ids[1..3] {
        room.sending(*id).set_incremental(false).unwrap();
    }
    let mut order: Vec<_> = turns(&mut room, 60).iter().map(|turn| turn.0).collect();
    order.dedup();
    assert_eq!(order[..4], [1, 2, 0, 3]);
}

/// What `n` packets hold of each of four streams.
fn shares(room: &mut Streams, n: usize) -> [usize; 4] {
    let mut shares = [0; 4];
    for (index, bytes) in turns(room, n) {
        shares[index as usize] += bytes;
    }
    shares
}

/// Parts per hundred.
fn percent(shares: [usize; 4]) -> [usize; 4] {
    let all: usize = shares.iter().sum();
    shares.map(|n| (n * 100 + all / 2) / all)
}

#[test]
fn classes_divide_what_their_parent_has() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let ids = streams(&mut room, &[3; 4], 1_000_000);
    // A: 1 of 4, alone. B: 3 of 4, of which the second has two thirds; the fourth is less urgent.
    room.sending(ids[0]).set_class(&[Class::new("a", 1.0)]).unwrap();
    let b = Class::new("b", 3.0);
    for (n, inner) in [(1, vec![Class::new("left", 2.0)]), (2, vec![Class::new("right", 1.0)]), (3, vec![])] {
        room.sending(ids[n]).set_class(&[vec![b.clone()], inner].concat()).unwrap();
    }
    room.sending(ids[3]).set_urgency(4).unwrap();
    assert_eq!(percent(shares(&mut room, 400)), [25, 50, 25, 0]);
    assert_eq!(room.of(ids[1]).class().unwrap(), [b.clone(), Class::new("left", 2.0)]);
    // The same name elsewhere is another class; weights change for those that there are.
    room.set_class_priority(&["b", "left"], Priority::weighted(1.0)).unwrap();
    room.set_class_priority(&["a"], Priority::weighted(9.0)).unwrap();
    assert_eq!(percent(shares(&mut room, 400)), [75, 13, 13, 0]);
    assert_eq!(
        room.set_class_priority(&["left"], Priority::weighted(1.0)),
        Err(ClassError::UnknownClass),
        "it hangs under b"
    );
    room.sending(ids[3]).set_class(&[Class::new("left", 10.0).urgency(2)]).unwrap();
    assert_eq!(percent(shares(&mut room, 20)), [0, 0, 0, 100], "more urgent than both");
    // A class goes with the last of its streams.
    room.sending(ids[0]).reset(0).unwrap();
    room.sending(ids[1]).set_class(&[]).unwrap();
    assert_eq!(room.of(ids[1]).class(), Some(vec![]));
    assert_eq!(
        room.set_class_priority(&["b", "left"], Priority::weighted(1.0)),
        Err(ClassError::UnknownClass)
    );
    room.check();
    assert_eq!(room.sending(StreamId(77)).set_class(&[b]), Err(ClassError::UnknownStream));
}

#[test]
fn classes_are_bounded() {
    let mut room = client(&TransportConfig { max_classes: 5, ..TransportConfig::fixed_mtu(1200) });
    let ids = streams(&mut room, &[3; 2], 10_000);
    let path = |names: &[&str]| names.iter().map(|name| Class::new(*name, 1.0)).collect::<Vec<_>>();
    room.sending(ids[0]).set_class(&path(&["a", "b", "c"])).unwrap();
    assert_eq!(room.sending(ids[1]).set_class(&path(&["d", "b", "c"])), Err(ClassError::TooMany));
    assert_eq!(room.of(ids[1]).class(), Some(vec![]), "nothing has changed");
    assert_eq!(room.sending(ids[1]).set_class(&path(&["a"; 64])), Err(ClassError::TooDeep));
    room.sending(ids[1]).set_class(&path(&["a", "b", "d", "e"])).unwrap();
    // What leaves makes room.
    room.sending(ids[0]).set_class(&[]).unwrap();
    room.sending(ids[0]).set_class(&path(&["c"])).unwrap();
    assert_eq!(room.sending(ids[0]).set_class(&path(&["c", "d"])), Err(ClassError::TooMany));
    room.check();
    turns(&mut room, 10);
}

#[test]
fn packets_are_filled_to_the_last_byte() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    streams(&mut room, &[3], 500_000);
    for size in 1150..1300 {
        let sent = packet(&mut room, size, Time::ZERO).unwrap();
        assert_eq!(sent.payload.len(), size);
    }
}

/// One packet of at most 1200 bytes with data of one channel.
fn of_channel(room: &mut Streams, channel: Channel) -> Vec<FrameToken> {
    let (mut buffer, mut tokens) = (vec![0; 1200], Vec::new());
    let mut w = PacketWriter::new(wire::Writer::new(&mut buffer), &mut tokens);
    room.write_data(&mut w, &view(Time::ZERO), Some(channel));
    room.check();
    tokens
}

fn stream_of(token: &FrameToken) -> StreamKey {
    let FrameToken::Stream { key, .. } = token else { panic!("{token:?}") };
    *key
}

#[test]
fn a_packet_of_a_channel_ends_where_anothers_turn_begins() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let ids = streams(&mut room, &[3, 3, 3], 500);
    let keys = [0, 1, 2].map(|n| room.slab.key(ids[n]).unwrap());
    room.sending(ids[1]).own_channel(true).unwrap();
    let own = Channel::Stream(keys[1]);
    let turn = |channel, n: usize| Some(StreamTurn { channel, key: keys[n], resend: false });
    assert_eq!(room.next_channel(), turn(Channel::Connection, 0));
    assert_eq!([1, 2].map(|n| room.stretch(keys[n], 100).is_none()), [true; 2]);
    assert_eq!(of_channel(&mut room, own), [], "it is not its turn");
    // The third stream is of this channel as well, but it comes behind the second.
    let first = of_channel(&mut room, Channel::Connection);
    assert_eq!(first.iter().map(stream_of).collect::<Vec<_>>(), [keys[0]]);
    assert_eq!(room.next_channel(), turn(own, 1));
    let second = of_channel(&mut room, own);
    assert_eq!(second.iter().map(stream_of).collect::<Vec<_>>(), [keys[1]]);
    assert_eq!(room.next_channel(), turn(Channel::Connection, 2));
    assert_eq!(of_channel(&mut room, Channel::Connection).len(), 1);
    assert_eq!(room.next_channel(), None);
    // What was lost needs no credit and is marked; a bare end needs none either and is not.
    room.sending(ids[0]).finish().unwrap();
    assert_eq!(room.next_channel(), turn(Channel::Connection, 0));
    of_channel(&mut room, Channel::Connection);
    room.lost(second[0], Time::ZERO);
    let again = StreamTurn { resend: true, ..turn(own, 1).unwrap() };
    assert_eq!(room.next_channel(), Some(again));
    assert!(room.stretch(keys[1], 100).is_none(), "what was lost is not new");
    room.sending(ids[1]).own_channel(false).unwrap();
    assert_eq!(
        of_channel(&mut room, Channel::Connection).iter().map(stream_of).collect::<Vec<_>>(),
        [keys[1]]
    );
    assert_eq!(room.sending(StreamId(77)).own_channel(true), Err(UnknownStream));
}

#[test]
fn what_is_kept_back_is_wanted_while_it_is_of_use() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let id = streams(&mut room, &[3], 2000)[0];
    room.sending(id).finish().unwrap();
    let now = Time::ZERO;
    let sent: Vec<_> = (0..2).map(|_| packet(&mut room, 1200, now).unwrap().tokens[0]).collect();
    assert!(sent.iter().all(|token| room.wants(*token, now)));
    // The end is wanted for itself: this is all of the second frame but that.
    let FrameToken::Stream { key, offset, len, fin: true } = sent[1] else { panic!("{sent:?}") };
    room.acked(FrameToken::Stream { key, offset, len, fin: false }, now);
    assert!(room.wants(sent[1], now));
    room.acked(sent[1], now);
    assert!(room.wants(sent[0], now) && !room.wants(sent[1], now));
    // A lost token that is kept is not sent again, and that it is once only when it comes back.
    assert_eq!(room.want(), Want::None);
    room.lost(sent[0], now);
    let again = packet(&mut room, 1200, now).unwrap().tokens[0];
    assert!(room.wants(again, now));
    room.sending(id).reset(7).unwrap();
    assert!(!room.wants(again, now), "a stream that is given up wants nothing");
    let reset = packet(&mut room, 1200, now).unwrap().tokens[0];
    assert!(matches!(reset, FrameToken::ResetStream { .. }) && room.wants(reset, now));
    room.acked(reset, now);
    assert!(!room.wants(reset, now));
}

#[test]
fn what_was_written_says_whether_a_message_ended() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let id = room.open_messages(Dir::Uni).unwrap();
    let bytes = streams(&mut room, &[5], 5000)[0];
    assert_eq!(room.messages(bytes).set_even(true), Err(UnknownStream));
    room.messages(id).set_even(true).unwrap();
    room.messages(id).send(Bytes::from(vec![0; 2000]), None).unwrap();
    let mut written = |channel| {
        let (mut buffer, mut tokens) = (vec![0; 1152], Vec::new());
        let mut w = PacketWriter::new(wire::Writer::new(&mut buffer), &mut tokens);
        let written = room.write_data(&mut w, &view(Time::ZERO), channel);
        assert_eq!(written.bytes, w.len());
        (written.bytes, written.ends_message)
    };
    // Two parts of 2002 bytes and 7 and 9 of headers; the other stream fills up what the last one leaves.
    assert_eq!([0; 3].map(|_| written(None)), [(1009, false), (1152, true), (1152, false)]);
}

#[test]
fn datagrams_have_the_share_of_a_stream_of_their_urgency() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    streams(&mut room, &[3, 3, 5], 300_000);
    let (mut sent, mut shares) = (0, [0; 3]);
    room.datagrams().set_waiting(true);
    let mut run = |room: &mut Streams, priority: Priority, packets: usize| {
        room.datagrams().set_priority(priority);
        for _ in 0..packets {
            if room.datagrams().is_next() {
                sent += 1000;
                room.datagrams().sent(1000);
                continue;
            }
            for (index, bytes) in turns(room, 1) {
                shares[index as usize] += bytes;
            }
        }
        (std::mem::take(&mut sent), std::mem::take(&mut shares))
    };
    let (sent, shares) = run(&mut room, Priority::weighted(1.0), 120);
    assert!(shares[2] == 0 && shares[..2].iter().all(|n| n.abs_diff(sent) <= 3 * 1200), "{sent} {shares:?}");
    let (sent, shares) = run(&mut room, Priority::weighted(3.0), 120);
    assert!(sent.abs_diff(shares[0] + shares[1]) * 10 <= 6 * sent, "three fifths: {sent} {shares:?}");
    assert_eq!(run(&mut room, Priority::weighted(1.0).urgency(1), 20), (20_000, [0; 3]), "more urgent");
    let (sent, shares) = run(&mut room, Priority::weighted(1.0).urgency(7), 20);
    assert!(sent == 0 && shares[2] == 0, "less urgent: {sent} {shares:?}");
    room.datagrams().set_waiting(false);
    assert!(!room.datagrams().is_next());
    room.check();
}

#[test]
fn datagrams_need_no_credit_and_are_not_blocked_by_it() {
    let mut rooms =
        pair(&TransportConfig { max_connection_window: 100_000, ..TransportConfig::fixed_mtu(1200) });
    let room = &mut rooms[0];
    room.datagrams().set_waiting(true);
    assert!(room.datagrams().is_next());
    let ids = streams(room, &[3], 500_000);
    // Passed over, they leave the packets to the stream, until the credit is spent.
    room.datagrams().pass();
    let first = packet(room, 1200, Time::ZERO).unwrap();
    while packet(room, 1200, Time::ZERO).is_some() {}
    room.datagrams().recall();
    assert!(room.datagrams().is_next(), "they need no credit");
    room.datagrams().sent(5000);
    assert!(room.datagrams().is_next(), "nobody else may send");
    // What was lost needs none either, and goes first: credit may wait for it.
    room.lost(first.tokens[0], Time::ZERO);
    assert!(!room.datagrams().is_next());
    room.sending(ids[0]).set_urgency(4).unwrap();
    assert!(room.datagrams().is_next());
    room.datagrams().set_waiting(false);
    packet(room, 1200, Time::ZERO).unwrap();
    assert!(!room.datagrams().is_next() && room.next_channel().is_none());
    room.check();
}

/// What nobody else could have sent is nobody's loss.
#[test]
fn what_went_while_there_was_no_credit_is_not_paid_for_later() {
    let mut room =
        client(&TransportConfig { max_connection_window: 100_000, ..TransportConfig::fixed_mtu(1200) });
    let id = streams(&mut room, &[3], 800_000)[0];
    while packet(&mut room, 1200, Time::ZERO).is_some() {}
    room.datagrams().set_waiting(true);
    for _ in 0..1000 {
        assert!(room.datagrams().is_next());
        room.datagrams().sent(1000);
    }
    frame(&mut room, Frame::MaxData(800_000)).unwrap();
    frame(&mut room, Frame::MaxStreamData { id, max: 800_000 }).unwrap();
    let mut datagrams = 0;
    for _ in 0..100 {
        if room.datagrams().is_next() {
            room.datagrams().sent(1000);
            datagrams += 1;
        } else {
            packet(&mut room, 1200, Time::ZERO).expect("it is the stream's turn");
        }
    }
    assert!((45..=60).contains(&datagrams), "half of what goes, in packets not as full: {datagrams}");
}

#[test]
fn who_was_passed_over_keeps_the_turn() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    streams(&mut room, &[3, 3], 100_000);
    room.datagrams().set_waiting(true);
    while !room.datagrams().is_next() {
        turns(&mut room, 1);
    }
    for _ in 0..5 {
        room.datagrams().pass();
        assert_eq!(turns(&mut room, 1).len(), 1);
        assert!(!room.datagrams().is_next());
        room.datagrams().recall();
        assert!(room.datagrams().is_next());
    }
}

/// `spec/fec.md`: what repairs a channel goes in its turn.
#[test]
fn repair_goes_in_the_turn_of_its_channel() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let ids = streams(&mut room, &[3, 3, 5], 100_000);
    let keys = [0, 1, 2].map(|n| room.slab.key(ids[n]).unwrap());
    for id in &ids {
        room.sending(*id).own_channel(true).unwrap();
    }
    let [first, second, third] = keys.map(Channel::Stream);
    // The third is less urgent, and its repair is no more so.
    room.repair().set_due(third, true);
    room.repair().set_due(second, true);
    let (mut repairs, mut packets) = ([0u32; 3], [0u32; 3]);
    for _ in 0..100 {
        let turn = room.next_channel().unwrap();
        let n = keys.iter().position(|key| *key == turn.key).unwrap();
        if room.is_repair_due(turn.channel) && repairs[n] < 20 {
            room.repair().sent(turn.key, 1200);
            repairs[n] += 1;
            continue;
        }
        room.repair().set_due(turn.channel, false);
        if packet(&mut room, 1200, Time::ZERO).is_none() {
            break;
        }
        packets[n] += 1;
    }
    // The second had 20 packets of repair, which are of its share.
    assert_eq!(repairs, [0, 20, 0]);
    let sent = [packets[0], packets[1] + repairs[1]];
    assert!(packets[0] > packets[1] && sent[0].abs_diff(sent[1]) <= 25, "{sent:?} {packets:?}");
    // Repair alone is a turn, too, and none for data.
    assert!(room.is_repair_due(third));
    room.repair().set_due(first, true);
    room.repair().forget();
    assert!(!room.awaits_repair());
    room.check();
    while packet(&mut room, 1200, Time::ZERO).is_some() {}
    for channel in [third, Channel::Connection, Channel::Datagrams] {
        assert_eq!(room.next_channel(), None);
        room.repair().set_due(channel, true);
        let turn = room.next_channel().unwrap();
        assert_eq!(turn.channel, channel);
        assert_eq!(room.want(), Want::None, "there is no data");
        assert!(packet(&mut room, 1200, Time::ZERO).is_none());
        room.repair().sent(turn.key, 1200);
        room.check();
        room.repair().set_due(channel, false);
    }
    room.check();
}

/// What repairs the connection's channel stands beside the stream that sent last, and does not keep its
/// class.
#[test]
fn classes_go_with_their_streams_whatever_was_repaired() {
    let config = TransportConfig { max_classes: 1, ..TransportConfig::fixed_mtu(1200) };
    let mut rooms = pair(&config);
    let id = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].sending(id).set_class(&[Class::new("first", 1.0)]).unwrap();
    rooms[0].sending(id).write(&mut Bytes::from(vec![0; 100])).unwrap();
    let sent = packet_of(&mut rooms[0], 1200, Time::ZERO, Some(Channel::Connection)).unwrap();
    rooms[0].repair().set_due(Channel::Connection, true);
    rooms[0].repair().set_due(Channel::Connection, false);
    sent.tokens.iter().for_each(|token| rooms[0].acked(*token, Time::ZERO));
    rooms[0].sending(id).reset(7).unwrap();
    exchange(&mut rooms, Time::ZERO);
    drain_all(&mut rooms);
    let [room, _] = &mut rooms;
    assert_eq!(room.len(), 0);
    assert_eq!(room.set_class_priority(&["first"], Priority::default()), Err(ClassError::UnknownClass));
    let id = room.open(Dir::Uni).unwrap();
    assert_eq!(room.sending(id).set_class(&[Class::new("second", 1.0)]), Ok(()));
}
