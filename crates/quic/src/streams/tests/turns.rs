use bytes::Bytes;
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::{Dir, StreamId};

use super::*;
use crate::room::Want;
use crate::streams::outbound::Turn;
use crate::streams::{Level, UnknownStream};
use crate::token::{Channel, Key};

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
            room.set_urgency(id, *urgency).unwrap();
            room.write(id, &mut Bytes::from(vec![0; bytes])).unwrap();
            id
        })
        .collect()
}

#[test]
fn equal_streams_get_equal_shares() {
    let mut room = client(&TransportConfig::default());
    streams(&mut room, &[3; 5], 100_000);
    let mut shares = [0; 5];
    for (index, bytes) in turns(&mut room, 100) {
        shares[index as usize] += bytes;
    }
    // Nobody is ahead of another by more than one turn of 4096 bytes and the packet that overdraws it.
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(most - least <= 4096 + 1200, "{shares:?}");
    assert!(shares.iter().sum::<usize>() > 100 * 1150, "packets are full: {shares:?}");
}

/// RFC 9000 §2.3, RFC 9218 §12: the application says what matters more.
#[test]
fn urgent_streams_go_first_and_lost_data_before_new() {
    let mut room = client(&TransportConfig::default());
    let ids = streams(&mut room, &[3, 5, 0], 2000);
    let first = packet(&mut room, 1200, Time::ZERO).unwrap();
    let mut order: Vec<_> = turns(&mut room, 5).iter().map(|turn| turn.0).collect();
    order.dedup();
    assert_eq!(order, [2, 0, 1], "by urgency");
    assert!(packet(&mut room, 1200, Time::ZERO).is_none());
    // Stream 2 lost data; meanwhile stream 0 has new data and is as urgent, stream 1 is more urgent.
    first.tokens.iter().for_each(|token| room.lost(*token, Time::ZERO));
    for (n, urgency) in [(0, 2), (1, 1), (2, 2)] {
        room.set_urgency(ids[n], urgency).unwrap();
        room.write(ids[n], &mut Bytes::from(vec![0; 1100])).unwrap();
    }
    let mut order: Vec<_> = turns(&mut room, 4).iter().map(|turn| turn.0).collect();
    order.dedup();
    assert_eq!(order[..3], [1, 2, 0], "urgency, then the loss, then round robin");
}

/// RFC 9218 §10.
#[test]
fn what_is_of_no_use_in_parts_goes_one_after_the_other() {
    let mut room = client(&TransportConfig::default());
    let ids = streams(&mut room, &[3, 3, 3, 0], 10_000);
    for id in &ids[..3] {
        room.set_incremental(*id, false).unwrap();
    }
    // The last is the least urgent now, the second goes before all.
    room.set_urgency(ids[3], 7).unwrap();
    room.set_critical(ids[1]).unwrap();
    let first = packet(&mut room, 1200, Time::ZERO).unwrap();
    let mut order: Vec<_> = turns(&mut room, 12).iter().map(|turn| turn.0).collect();
    order.dedup();
    assert_eq!(order, [1, 0], "one at a time");
    // What was lost of the first in line is still before the second.
    room.set_urgency(ids[1], 3).unwrap();
    first.tokens.iter().for_each(|token| room.lost(*token, Time::ZERO));
    let mut order: Vec<_> = turns(&mut room, 20).iter().map(|turn| turn.0).collect();
    order.dedup();
    assert_eq!(order, [1, 0, 2, 3], "what was lost, and the line");
    assert_eq!(room.set_critical(StreamId(77)), Err(UnknownStream));
    assert_eq!(room.set_incremental(StreamId(77), true), Err(UnknownStream));
}

#[test]
fn a_line_and_those_in_turn_share_alike() {
    let mut room = client(&TransportConfig::default());
    let ids = streams(&mut room, &[3; 4], 100_000);
    for id in &ids[1..3] {
        room.set_incremental(*id, false).unwrap();
    }
    let mut shares = [0usize; 4];
    for (index, bytes) in turns(&mut room, 60) {
        shares[index as usize] += bytes;
    }
    // The second and the third are in line and have a share together: the third waits.
    assert_eq!(shares[2], 0);
    assert!(shares[0].abs_diff(shares[1]) <= 4096 + 1200 && shares[3].abs_diff(shares[1]) <= 4096 + 1200);
}

#[test]
fn packets_are_filled_to_the_last_byte() {
    let mut room = client(&TransportConfig::default());
    streams(&mut room, &[3], 500_000);
    for size in 1150..1300 {
        let sent = packet(&mut room, size, Time::ZERO).unwrap();
        assert_eq!(sent.payload.len(), size);
    }
}

/// One packet of at most 1200 bytes with data of one channel.
fn of_channel(room: &mut Streams, channel: Channel) -> Vec<Token> {
    let (mut buffer, mut tokens) = (vec![0; 1200], Vec::new());
    let mut w = Writer::new(wire::Writer::new(&mut buffer), &mut tokens);
    room.write_data(&mut w, &view(Time::ZERO), Some(channel));
    room.check();
    tokens
}

fn stream_of(token: &Token) -> Key {
    let Token::Stream { key, .. } = token else { panic!("{token:?}") };
    *key
}

#[test]
fn a_packet_of_a_channel_ends_where_anothers_turn_begins() {
    let mut room = client(&TransportConfig::default());
    let ids = streams(&mut room, &[3, 3, 3], 500);
    let keys = [0, 1, 2].map(|n| room.slab.key(ids[n]).unwrap());
    room.own_channel(ids[1], true).unwrap();
    let own = Channel::Stream(keys[1]);
    let turn = |channel, n: usize| Some(Turn { channel, key: keys[n], level: Level::of(3), resend: false });
    assert_eq!(room.next_channel(), turn(Channel::Connection, 0));
    assert_eq!([0, 1, 2].map(|n| room.goes_on(keys[n])), [true, false, false]);
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
    room.finish(ids[0]).unwrap();
    assert_eq!(room.next_channel(), turn(Channel::Connection, 0));
    of_channel(&mut room, Channel::Connection);
    room.lost(second[0], Time::ZERO);
    let again = Turn { resend: true, ..turn(own, 1).unwrap() };
    assert_eq!(room.next_channel(), Some(again));
    assert!(!room.goes_on(keys[1]), "what was lost is not new");
    room.own_channel(ids[1], false).unwrap();
    assert_eq!(
        of_channel(&mut room, Channel::Connection).iter().map(stream_of).collect::<Vec<_>>(),
        [keys[1]]
    );
    assert_eq!(room.own_channel(StreamId(77), true), Err(UnknownStream));
}

#[test]
fn what_is_kept_back_is_wanted_while_it_is_of_use() {
    let mut room = client(&TransportConfig::default());
    let id = streams(&mut room, &[3], 2000)[0];
    room.finish(id).unwrap();
    let now = Time::ZERO;
    let sent: Vec<_> = (0..2).map(|_| packet(&mut room, 1200, now).unwrap().tokens[0]).collect();
    assert!(sent.iter().all(|token| room.wants(*token, now)));
    // The end is wanted for itself: this is all of the second frame but that.
    let Token::Stream { key, offset, len, fin: true } = sent[1] else { panic!("{sent:?}") };
    room.acked(Token::Stream { key, offset, len, fin: false }, now);
    assert!(room.wants(sent[1], now));
    room.acked(sent[1], now);
    assert!(room.wants(sent[0], now) && !room.wants(sent[1], now));
    // A lost token that is kept is not sent again, and that it is once only when it comes back.
    assert_eq!(room.want(), Want::None);
    room.lost(sent[0], now);
    let again = packet(&mut room, 1200, now).unwrap().tokens[0];
    assert!(room.wants(again, now));
    room.reset(id, 7).unwrap();
    assert!(!room.wants(again, now), "a stream that is given up wants nothing");
    let reset = packet(&mut room, 1200, now).unwrap().tokens[0];
    assert!(matches!(reset, Token::ResetStream { .. }) && room.wants(reset, now));
    room.acked(reset, now);
    assert!(!room.wants(reset, now));
}

#[test]
fn what_was_written_says_whether_a_message_ended() {
    let mut room = client(&TransportConfig::default());
    let id = room.open_messages(Dir::Uni).unwrap();
    let bytes = streams(&mut room, &[5], 5000)[0];
    assert_eq!(room.set_even(bytes, true), Err(UnknownStream));
    room.set_even(id, true).unwrap();
    room.send_message(id, Bytes::from(vec![0; 2000]), None).unwrap();
    let mut written = |channel| {
        let (mut buffer, mut tokens) = (vec![0; 1152], Vec::new());
        let mut w = Writer::new(wire::Writer::new(&mut buffer), &mut tokens);
        let written = room.write_data(&mut w, &view(Time::ZERO), channel);
        assert_eq!(written.bytes, w.len());
        (written.bytes, written.ends_message)
    };
    // Two parts of 2002 bytes and 7 and 9 of headers; the other stream fills up what the last one leaves.
    assert_eq!([0; 3].map(|_| written(None)), [(1009, false), (1152, true), (1152, false)]);
}

#[test]
fn a_guest_has_the_share_of_a_stream_of_its_urgency() {
    let mut room = client(&TransportConfig::default());
    streams(&mut room, &[3, 3, 5], 300_000);
    let (mut guest, mut shares) = (0, [0; 3]);
    let mut run = |room: &mut Streams, urgency: u8, packets: usize| {
        room.admit_guest(Level::of(urgency));
        for _ in 0..packets {
            if room.is_guests_turn() {
                guest += 1000;
                room.guest_sent(1000);
                continue;
            }
            for (index, bytes) in turns(room, 1) {
                shares[index as usize] += bytes;
            }
        }
        (std::mem::take(&mut guest), std::mem::take(&mut shares))
    };
    // No more than a turn and a packet apart.
    let (guest, shares) = run(&mut room, 3, 120);
    assert!(
        shares[2] == 0 && shares[..2].iter().all(|n| n.abs_diff(guest) <= 2 * (4096 + 1200)),
        "{guest} {shares:?}"
    );
    assert_eq!(run(&mut room, 1, 20), (20_000, [0; 3]), "more urgent");
    let (guest, shares) = run(&mut room, 7, 20);
    assert!(guest == 0 && shares[2] == 0, "less urgent: {guest} {shares:?}");
    room.dismiss_guest();
    assert!(!room.is_guests_turn());
    room.check();
}

#[test]
fn a_guest_needs_no_credit_and_is_not_blocked_by_it() {
    let mut rooms = pair(&TransportConfig { max_connection_window: 100_000, ..TransportConfig::default() });
    let room = &mut rooms[0];
    room.admit_guest(Level::of(3));
    assert!(room.is_guests_turn());
    streams(room, &[3], 500_000);
    // Passed over, it leaves the packets to the stream, until the credit is spent.
    room.pass_guest();
    while packet(room, 1200, Time::ZERO).is_some() {}
    room.recall_guest(Level::of(3));
    assert!(room.is_guests_turn(), "it needs no credit");
    room.guest_sent(5000);
    assert!(room.is_guests_turn(), "nobody else may send");
    room.dismiss_guest();
    assert!(!room.is_guests_turn() && room.next_channel().is_none());
    room.check();
}

#[test]
fn who_was_passed_over_is_the_first_again() {
    let mut room = client(&TransportConfig::default());
    streams(&mut room, &[3, 3], 100_000);
    room.admit_guest(Level::of(3));
    // Both streams have had their turn, or are in it.
    while !room.is_guests_turn() {
        turns(&mut room, 1);
    }
    room.pass_guest();
    turns(&mut room, 1);
    assert!(!room.is_guests_turn());
    room.recall_guest(Level::of(3));
    assert!(room.is_guests_turn());
    // However often it is passed over, its turn has 4096 bytes.
    for n in 0..5 {
        assert_eq!(room.is_guests_turn(), n < 5, "after {n} of 1000 bytes");
        room.guest_sent(1000);
        if room.is_guests_turn() {
            room.pass_guest();
            room.recall_guest(Level::of(3));
        }
    }
    assert!(!room.is_guests_turn());
}
