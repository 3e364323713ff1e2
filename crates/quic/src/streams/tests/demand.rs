//! What policies are told of a channel.

use bytes::Bytes;
use proptest::prelude::*;
use quickset_base::Rng;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, StreamId};

use super::*;
use crate::packet::{Channel, StreamKey};
use crate::protect::policy::{Boundary, Demand, OpenDeadlines};
use crate::streams::{Outcome, UnknownStream};

const ALL: Channel = Channel::Connection;

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn write(room: &mut Streams, id: StreamId, len: usize) {
    assert_eq!(room.sending(id).write(&mut Bytes::from(vec![1; len])), Ok(len));
    room.check();
}

fn send(room: &mut Streams, id: StreamId, len: usize, deadline: Option<Time>) -> crate::streams::Ticket {
    let ticket = room.messages(id).send(vec![1; len].into(), deadline).unwrap();
    room.check();
    ticket
}

/// Sends all there is, at this time.
fn flow(room: &mut Streams, ms: u64) -> Vec<FrameToken> {
    let mut tokens = Vec::new();
    while let Some(sent) = packet(room, 1200, at(ms)) {
        tokens.extend(sent.tokens);
        room.check();
    }
    tokens
}

fn several(room: &mut Streams, id: StreamId, n: usize, len: usize) {
    for _ in 0..n {
        send(room, id, len, None);
    }
}

fn lose(room: &mut Streams, tokens: &[FrameToken], ms: u64) {
    for token in tokens {
        room.lost(*token, at(ms));
    }
}

fn acknowledge(room: &mut Streams, tokens: &[FrameToken], ms: u64) {
    for token in tokens {
        room.acked(*token, at(ms));
    }
}

fn key(room: &Streams, id: StreamId) -> StreamKey {
    room.slab.key(id).unwrap()
}

#[test]
fn what_remains_is_known_when_all_that_have_it_are_finished() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let nothing = Demand { limited: true, ..Demand::default() };
    assert_eq!(room.demand(ALL), nothing);
    let ids = [0; 3].map(|_| room.open(Dir::Uni).unwrap());
    write(&mut room, ids[0], 3000);
    write(&mut room, ids[1], 500);
    assert_eq!(room.demand(ALL), Demand { unsent: 3500, open: true, ..Demand::default() }, "more may come");
    room.sending(ids[0]).finish().unwrap();
    assert_eq!(room.demand(ALL).remaining(), None);
    room.sending(ids[1]).finish().unwrap();
    assert_eq!(room.demand(ALL), Demand { unsent: 3500, ..Demand::default() });
    // A stream of its own is not among the others, and they are not its own.
    let own = Channel::Stream(key(&room, ids[1]));
    assert_eq!(room.sending(ids[1]).own_channel(true), Ok(own));
    assert_eq!(room.sending(ids[1]).own_channel(true), Ok(own));
    room.check();
    assert_eq!((room.demand(ALL).remaining(), room.demand(own).remaining()), (Some(3000), Some(500)));
    let sent = flow(&mut room, 5);
    assert_eq!(room.demand(own), Demand { boundaries: 1, boundary: Some((Boundary::Fin, at(5))), ..nothing });
    assert_eq!(room.demand(ALL), room.demand(own), "each has sent one end");
    // What is lost is to be sent, but is no end again.
    lose(&mut room, &sent, 7);
    room.check();
    assert_eq!((room.demand(ALL).remaining(), room.demand(own).remaining()), (Some(3000), Some(500)));
    assert!(!room.demand(ALL).limited);
    let again = flow(&mut room, 9);
    acknowledge(&mut room, &again, 10);
    assert_eq!(room.demand(ALL).boundary, Some((Boundary::Fin, at(5))));
    drain_events(&mut room);
    assert_eq!(room.demand(own), nothing, "the stream is over");
    room.check();
    assert_eq!(room.sending(ids[1]).own_channel(false), Err(UnknownStream));
}

#[test]
fn blocked_by_the_credit_of_the_stream_or_of_all() {
    let config = TransportConfig {
        stream_window: 2000,
        max_stream_window: 2000,
        max_connection_window: 3000,
        fenced_streams: None,
        ..TransportConfig::fixed_mtu(1200)
    };
    let mut room = client(&config);
    let ids = [0; 2].map(|_| room.open(Dir::Uni).unwrap());
    let (blocked, free) = (|d: Demand| (d.blocked, d.limited), (false, false));
    write(&mut room, ids[0], 2500);
    assert_eq!(blocked(room.demand(ALL)), free);
    flow(&mut room, 0);
    assert_eq!(blocked(room.demand(ALL)), (true, true), "the stream's own credit");
    let own = room.sending(ids[1]).own_channel(true).unwrap();
    assert_eq!(blocked(room.demand(own)), (false, true));
    write(&mut room, ids[1], 1500);
    assert_eq!((blocked(room.demand(own)), blocked(room.demand(ALL))), (free, (true, true)));
    flow(&mut room, 0);
    assert_eq!(
        blocked(room.demand(own)),
        (true, true),
        "1000 of 1500 bytes, and the connection's credit is used up"
    );
    room.sending(ids[1]).own_channel(false).unwrap();
    frame(&mut room, Frame::MaxData(4000)).unwrap();
    assert_eq!(blocked(room.demand(ALL)), (true, false), "one may go on");
    flow(&mut room, 0);
    frame(&mut room, Frame::MaxStreamData { id: ids[0], max: 2500 }).unwrap();
    assert_eq!(blocked(room.demand(ALL)), free);
    flow(&mut room, 0);
    assert_eq!(blocked(room.demand(ALL)), (false, true));
}

#[test]
fn a_record_longer_than_the_connections_credit_is_blocked() {
    let mut config = TransportConfig { fenced_streams: Some(1200), ..TransportConfig::fixed_mtu(1200) };
    config.stream_window = 4000;
    config.max_connection_window = 4000;
    let mut room = client(&config);
    let ids = [0; 2].map(|_| room.open_messages(Dir::Uni).unwrap());
    for id in ids {
        several(&mut room, id, 2, 1000);
    }
    flow(&mut room, 0);
    // 4000 bytes are three records of 1002 and no fourth.
    let demand = room.demand(ALL);
    assert_eq!((demand.blocked, demand.limited, demand.remaining()), (true, true, None));
    room.sending(ids[1]).finish().unwrap();
    assert_eq!(room.demand(ALL).remaining(), Some(1002));
    frame(&mut room, Frame::MaxData(4008)).unwrap();
    assert_eq!((room.demand(ALL).blocked, room.demand(ALL).limited), (false, false));
}

#[test]
fn boundaries_are_passed_when_all_before_them_was_sent() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let id = room.open_messages(Dir::Uni).unwrap();
    let passed = |room: &Streams| (room.demand(ALL).boundaries, room.demand(ALL).boundary);
    // push, push, fence, poll; and the fence once more, which is the same (FS-25).
    room.messages(id).fence(at(0)).unwrap();
    several(&mut room, id, 2, 800);
    room.messages(id).fence(at(1)).unwrap();
    room.messages(id).fence(at(1)).unwrap();
    packet(&mut room, 1200, at(2)).unwrap();
    assert_eq!(passed(&room), (0, None), "the second message is still to come");
    packet(&mut room, 1200, at(3)).unwrap();
    assert_eq!(passed(&room), (1, Some((Boundary::Fence, at(3)))));
    // push, poll, fence.
    send(&mut room, id, 800, None);
    flow(&mut room, 4);
    assert_eq!(passed(&room).0, 1);
    room.messages(id).fence(at(5)).unwrap();
    assert_eq!(passed(&room), (2, Some((Boundary::Fence, at(5)))));
    // A resend passes none again.
    let sent = {
        send(&mut room, id, 800, None);
        flow(&mut room, 6)
    };
    lose(&mut room, &sent, 7);
    room.messages(id).fence(at(7)).unwrap();
    assert_eq!(passed(&room), (3, Some((Boundary::Fence, at(7)))), "all was sent once");
    flow(&mut room, 8);
    assert_eq!(passed(&room).0, 3);
    // Several in a packet are several; but where one lies behind each message, none is waited for more than
    // others.
    for _ in 0..3 {
        send(&mut room, id, 10, None);
        room.messages(id).fence(at(9)).unwrap();
    }
    flow(&mut room, 9);
    assert_eq!(passed(&room), (6, Some((Boundary::Fence, at(9)))));
    room.messages(id).set_ordered(true).unwrap();
    several(&mut room, id, 3, 10);
    flow(&mut room, 10);
    assert_eq!(passed(&room).0, 6);
    room.messages(id).set_ordered(false).unwrap();
    // What is dropped unsent is not waited for, whether it is outdated or late.
    let ticket = send(&mut room, id, 10, None);
    room.messages(id).fence(at(10)).unwrap();
    assert!(room.messages(id).supersede(ticket, at(10)));
    assert_eq!(passed(&room), (7, Some((Boundary::Fence, at(10)))));
    send(&mut room, id, 10, Some(at(20)));
    room.messages(id).fence(at(10)).unwrap();
    room.on_time(&view(at(11)));
    assert_eq!(passed(&room), (8, Some((Boundary::Fence, at(11)))), "50 ms to the peer");
    room.sending(id).finish().unwrap();
    flow(&mut room, 12);
    assert_eq!(passed(&room), (9, Some((Boundary::Fin, at(12)))));
    room.check();
}

/// Early data that the server rejects is sent again, and so are its boundaries passed.
#[test]
fn what_was_sent_in_vain_passed_no_boundary() {
    let config = TransportConfig::fixed_mtu(1200);
    let params = announce(&config);
    let mut room = Streams::new(Side::Client, &(&config).into());
    room.set_early(&params);
    let (letters, bytes) = (room.open_messages(Dir::Uni).unwrap(), room.open(Dir::Uni).unwrap());
    let own = room.sending(bytes).own_channel(true).unwrap();
    let passed = |room: &Streams, channel| (room.demand(channel).boundaries, room.demand(channel).boundary);
    for ms in [1, 2] {
        send(&mut room, letters, 10, None);
        room.messages(letters).fence(at(ms)).unwrap();
    }
    for ms in [1, 2] {
        write(&mut room, bytes, 10);
        room.sending(bytes).flush(at(ms)).unwrap();
    }
    flow(&mut room, 3);
    room.sending(bytes).finish().unwrap();
    flow(&mut room, 4);
    assert_eq!(passed(&room, ALL), (2, Some((Boundary::Fence, at(3)))));
    assert_eq!(passed(&room, own), (3, Some((Boundary::Fin, at(4)))));
    room.rewind();
    room.set_peer(&params);
    room.check();
    assert_eq!((passed(&room, ALL).0, passed(&room, own).0), (2, 3), "nothing was sent since");
    flow(&mut room, 5);
    assert_eq!(passed(&room, ALL), (4, Some((Boundary::Fence, at(5)))));
    assert_eq!(passed(&room, own), (5, Some((Boundary::Fin, at(5)))), "both flushes are one now");
}

#[test]
fn a_flush_is_a_boundary_once() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let id = room.open(Dir::Uni).unwrap();
    let own = room.sending(id).own_channel(true).unwrap();
    let passed = |room: &Streams| (room.demand(own).boundaries, room.demand(own).boundary);
    room.sending(id).flush(at(0)).unwrap();
    assert_eq!(passed(&room), (0, None), "nothing was written");
    write(&mut room, id, 1500);
    room.sending(id).flush(at(1)).unwrap();
    room.sending(id).flush(at(1)).unwrap();
    write(&mut room, id, 1500);
    packet(&mut room, 1200, at(2)).unwrap();
    assert_eq!(passed(&room).0, 0);
    packet(&mut room, 1200, at(3)).unwrap();
    assert_eq!(passed(&room), (1, Some((Boundary::Flush, at(3)))), "though more is to come");
    flow(&mut room, 4);
    room.sending(id).flush(at(5)).unwrap();
    assert_eq!(passed(&room), (2, Some((Boundary::Flush, at(5)))), "all was sent before");
    write(&mut room, id, 10);
    room.sending(id).flush(at(6)).unwrap();
    room.sending(id).finish().unwrap();
    flow(&mut room, 7);
    assert_eq!(passed(&room), (4, Some((Boundary::Fin, at(7)))));
    assert_eq!(room.demand(ALL).boundaries, 0);
    // Of messages it lies behind those sent so far.
    let id = room.open_messages(Dir::Uni).unwrap();
    several(&mut room, id, 2, 800);
    room.sending(id).flush(at(8)).unwrap();
    packet(&mut room, 1200, at(8)).unwrap();
    assert_eq!(room.demand(ALL).boundaries, 0);
    packet(&mut room, 1200, at(9)).unwrap();
    assert_eq!(room.demand(ALL).boundary, Some((Boundary::Flush, at(9))));
    // A reset has no boundaries any more.
    send(&mut room, id, 800, None);
    room.sending(id).flush(at(10)).unwrap();
    room.sending(id).reset(1).unwrap();
    flow(&mut room, 11);
    assert_eq!(room.demand(ALL).boundaries, 1);
    assert_eq!(room.sending(StreamId(99)).flush(at(0)), Err(UnknownStream));
}

#[test]
fn the_next_message_is_awaited_until_it_comes() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let ids = [0; 2].map(|_| room.open_messages(Dir::Uni).unwrap());
    room.messages(ids[0]).expect(Some(at(50))).unwrap();
    room.messages(ids[1]).expect(Some(at(40))).unwrap();
    room.check();
    assert_eq!(room.demand(ALL).next_message, Some(at(40)));
    let own = room.sending(ids[1]).own_channel(true).unwrap();
    room.check();
    assert_eq!(room.demand(ALL).next_message, Some(at(50)));
    room.messages(ids[1]).expect(Some(at(45))).unwrap();
    assert_eq!(room.demand(own).next_message, Some(at(45)));
    send(&mut room, ids[1], 5, None);
    assert_eq!(room.demand(own).next_message, None);
    room.messages(ids[1]).expect(Some(at(60))).unwrap();
    room.sending(ids[1]).own_channel(false).unwrap();
    send(&mut room, ids[0], 5, None);
    assert_eq!(room.demand(ALL).next_message, Some(at(60)));
    room.sending(ids[1]).finish().unwrap();
    room.check();
    assert_eq!(room.demand(ALL).next_message, None, "it never comes");
    room.messages(ids[0]).expect(Some(at(70))).unwrap();
    room.messages(ids[0]).expect(None).unwrap();
    assert_eq!(room.demand(ALL).next_message, None);
    let bytes = room.open(Dir::Uni).unwrap();
    assert_eq!(room.messages(bytes).expect(None), Err(UnknownStream));
}

#[test]
fn deadlines_of_a_channel_are_those_of_messages_on_their_way() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let ids = [0; 2].map(|_| room.open_messages(Dir::Uni).unwrap());
    let next = |room: &Streams, channel, ms| room.deadlines(channel).next_after(at(ms));
    let first = send(&mut room, ids[0], 100, Some(at(300)));
    let tokens = flow(&mut room, 0);
    let second = send(&mut room, ids[0], 100, Some(at(200)));
    send(&mut room, ids[0], 100, None);
    send(&mut room, ids[1], 100, Some(at(250)));
    // Begun or not, and whatever was lost of them.
    assert_eq!(
        [100, 200, 201, 251, 301].map(|ms| next(&room, ALL, ms)),
        [Some(at(200)), Some(at(200)), Some(at(250)), Some(at(300)), None]
    );
    let own = room.sending(ids[1]).own_channel(true).unwrap();
    room.check();
    assert_eq!((next(&room, ALL, 201), next(&room, own, 0)), (Some(at(300)), Some(at(250))));
    assert_eq!(next(&room, own, 251), None);
    acknowledge(&mut room, &tokens, 100);
    room.check();
    assert_eq!(room.messages(ids[0]).next_outcome(), Some((first, Outcome::Delivered)));
    assert_eq!(next(&room, ALL, 201), None, "it has arrived");
    // Who is outdated is not waited for, even if it was sent.
    flow(&mut room, 100);
    assert!(room.messages(ids[0]).supersede(second, at(100)));
    room.check();
    assert_eq!(next(&room, ALL, 0), None);
    room.sending(ids[1]).reset(3).unwrap();
    room.check();
    assert_eq!(next(&room, own, 0), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// `check` counts all sums afresh after every step.
    #[test]
    fn the_sums_are_those_that_one_gets_by_counting(seed: u64) {
        let mut rng = Rng::new(seed);
        let config = TransportConfig {
            fenced_streams: Some(2000),
            stream_window: 5000,
            max_connection_window: 12_000,
            ..TransportConfig::fixed_mtu(1200)
        };
        let mut rooms = pair(&config);
        let ids: Vec<_> = (0..4)
            .map(|n| if n < 2 { rooms[0].open(Dir::Uni) } else { rooms[0].open_messages(Dir::Uni) }.unwrap())
            .collect();
        let mut flying: Vec<Packet> = Vec::new();
        let mut now = 0;
        for _ in 0..300 {
            now += rng.below(10);
            let id = ids[rng.below(4) as usize];
            let soon = at(now + rng.below(300));
            let (len, room) = (rng.below(3000) as usize, &mut rooms[0]);
            // Errors are those of streams of the other kind, or ended.
            match rng.below(14) {
                0 | 1 => drop(room.sending(id).write(&mut Bytes::from(vec![0; len]))),
                2 | 3 => drop(room.messages(id).send(vec![0; len.min(2000)].into(), rng.chance(0.7).then_some(soon))),
                4 => drop(room.messages(id).fence(at(now))),
                5 => drop(room.sending(id).flush(at(now))),
                6 => drop(room.sending(id).own_channel(rng.chance(0.5))),
                7 => drop(room.messages(id).expect(rng.chance(0.8).then_some(soon))),
                8 if rng.chance(0.05) => drop(room.sending(id).finish()),
                9 if rng.chance(0.05) => drop(room.sending(id).reset(1)),
                10 => room.on_time(&view(at(now))),
                _ => flying.extend(packet(room, 1200, at(now))),
            }
            rooms[0].check();
            while !flying.is_empty() && rng.chance(0.4) {
                let sent = flying.swap_remove(rng.below(flying.len() as u64) as usize);
                let lost = rng.chance(0.3);
                if !lost {
                    receive(&mut rooms[1], &sent.payload, at(now)).unwrap();
                }
                for token in sent.tokens {
                    if lost { rooms[0].lost(token, at(now)) } else { rooms[0].acked(token, at(now)) }
                    rooms[0].check();
                }
            }
            let all = rooms[0].demand(ALL);
            prop_assert!(all.limited || rooms[0].want() > crate::packet::Want::None, "{all:?}");
        }
    }
}
