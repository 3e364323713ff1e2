//! Messages in packets of equal size.

use bytes::Bytes;
use proptest::prelude::*;
use quickset_base::{Duration, Time};
use quickset_wire as wire;
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::{Dir, Side, StreamId};

use super::{KEY, view, write_packet};
use crate::packet::{PacketWriter, RoomView, Want};
use crate::streams::fenced::{RecordMode, RecordSender};

const ROOM: usize = 1173;

fn new(mode: RecordMode) -> RecordSender {
    let mut sender = RecordSender::new(KEY, StreamId::new(Side::Client, Dir::Bi, 0), mode, 1 << 20);
    sender.set_max(1 << 40);
    sender.set_even(true);
    sender
}

fn push(sender: &mut RecordSender, len: usize) {
    sender.push(Bytes::from(vec![7; len]), None).unwrap();
}

fn packet(sender: &mut RecordSender, room: usize) -> Bytes {
    let view = RoomView { room, ..view(Time::ZERO, Duration::ZERO) };
    write_packet(sender, room, 1 << 40, &view).0
}

/// Sizes of the next packets.
fn packets(sender: &mut RecordSender, room: usize) -> Vec<usize> {
    std::iter::from_fn(|| Some(packet(sender, room).len()).filter(|len| *len > 0)).collect()
}

/// The least number of packets that hold a message of `size` bytes at `offset`, one full one after the other.
fn least(mode: RecordMode, offset: u64, fence: u64, size: u64, room: usize) -> usize {
    let varint =
        |n: u64| [1 << 6, 1 << 14, 1 << 30].iter().filter(|limit| n >= **limit).fold(1, |size, _| size * 2);
    let (mut at, mut n) = (offset, 0);
    while at < offset + size {
        let header = match mode {
            // Type 2, stream 1, offset, distance, length 2.
            RecordMode::Frames => 5 + varint(at) + varint(at - fence),
            // Type 1, stream 1, offset if there is one, length 2.
            RecordMode::Plain => 4 + if at == 0 { 0 } else { varint(at) },
        };
        at += room as u64 - header;
        n += 1;
    }
    n
}

#[test]
fn equal_and_few() {
    let mut sender = new(RecordMode::Frames);
    // 3 packets hold 3 · 1173 - 7 - 2 · 9 = 3494 bytes, so 3000 and a prefix of 2 with 25 of headers are 1009
    // each.
    push(&mut sender, 3000);
    assert_eq!(packets(&mut sender, ROOM), [1009, 1009, 1009]);
    // From offset 3002 on the headers are of 9 bytes: 3 · 9 + 2000 + 2 need 2 packets, of 1010.
    push(&mut sender, 2000);
    assert_eq!(packets(&mut sender, ROOM), [1010, 1010]);
    // What fits one packet is sent with others as before, and the first part of what does not may join it.
    (0..2).for_each(|_| push(&mut sender, 100));
    push(&mut sender, 1500);
    assert_eq!(packets(&mut sender, ROOM), [9 + 2 * 102 + 760, 760]);
}

#[test]
fn the_last_byte_is_told() {
    let mut sender = new(RecordMode::Frames);
    push(&mut sender, 2000);
    push(&mut sender, 10);
    let ends: Vec<_> = (0..3)
        .map(|_| {
            packet(&mut sender, ROOM);
            (sender.take_ended(), sender.take_ended())
        })
        .collect();
    // The short one shares the last packet of the long one.
    assert_eq!(ends, [(false, false), (true, false), (false, false)]);
    sender.lost(0, 500, false, Time::ZERO);
    packet(&mut sender, ROOM);
    assert!(!sender.take_ended(), "not of this one");
    sender.lost(1500, 502, false, Time::ZERO);
    packet(&mut sender, ROOM);
    assert!(sender.take_ended());
    sender.set_even(false);
    push(&mut sender, 10);
    packet(&mut sender, ROOM);
    assert!(!sender.take_ended(), "nobody asked for it");
}

/// Credit for less than a part: what there is of it is sent, and the rest is split anew.
#[test]
fn credit_cuts_and_the_rest_is_equal_again() {
    let mut sender = new(RecordMode::Frames);
    let mut short = RecordSender::new(KEY, StreamId(0), RecordMode::Frames, 1 << 20);
    short.set_even(true);
    short.set_max(500);
    for sender in [&mut sender, &mut short] {
        push(sender, 3000);
    }
    assert_eq!(packets(&mut short, ROOM), [507]);
    assert_eq!((short.want(1 << 20), short.blocked_at()), (Want::None, Some(500)));
    short.set_max(1 << 20);
    // 2502 bytes more, with headers of 9, in three packets.
    assert_eq!(packets(&mut short, ROOM), [843, 843, 843]);
    // Connection credit, in the middle.
    let view = view(Time::ZERO, Duration::ZERO);
    assert_eq!(write_packet(&mut sender, ROOM, 600, &view).2, 600);
    assert_eq!(packets(&mut sender, ROOM), [809, 810, 810]);
}

/// A packet with less room than a part waits for nobody's sake: the part goes in the next.
#[test]
fn a_packet_that_is_filled_already_is_left_out() {
    let mut sender = new(RecordMode::Frames);
    push(&mut sender, 2000);
    let mut filled = |room: usize| {
        let (mut bytes, mut tokens) = (vec![0; room], Vec::new());
        let mut w = PacketWriter::new(wire::Writer::new(&mut bytes), &mut tokens);
        let credit =
            sender.write(&mut w, 1 << 20, &RoomView { room: ROOM, ..view(Time::ZERO, Duration::ZERO) });
        (w.len(), credit)
    };
    // 2002 bytes and headers of 7 and 9 are 1009 each.
    assert_eq!(filled(1008), (0, 0));
    assert_eq!(filled(1009), (1009, 1002));
    assert_eq!(filled(800), (0, 0));
    // Unless packets are of that size from now on, and more of them are needed: 1000 bytes and 2 · 9.
    assert_eq!(packets(&mut sender, 800), [509, 509]);
}

/// A message of `size` bytes behind `before` others goes in as few packets as full ones would be, equal
/// within a byte. In fewer, where another first one puts off that headers grow by 4 bytes, they may be
/// unequal by as much.
fn check_split(before: usize, size: usize, room: usize, mode: RecordMode) -> Result<(), TestCaseError> {
    let mut sender = new(mode);
    let mut offset = 0;
    if before > 0 {
        push(&mut sender, before);
        packets(&mut sender, room);
        offset = sender.highest();
    }
    push(&mut sender, size);
    let total = (size + if size < 16_384 { 2 } else { 4 }) as u64;
    let sizes = packets(&mut sender, room);
    let full = least(mode, offset, 0, total, room).max(1);
    prop_assert!(sizes.len() <= full, "{} and {:?}", full, sizes);
    let (min, max) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    prop_assert!(max - min <= if sizes.len() == full { 1 } else { 4 }, "{:?}", sizes);
    prop_assert_eq!(sender.highest(), offset + total);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn equal_within_a_byte_and_as_few_as_can_be(
        before in prop_oneof![Just(0usize), 1usize..300, 16_000usize..16_400],
        size in 1200usize..40_000,
        room in prop_oneof![Just(ROOM), 150usize..2000],
        plain: bool,
    ) {
        check_split(before, size, room, if plain { RecordMode::Plain } else { RecordMode::Frames })?;
    }
}

/// From 14064 on, three packets of 1168 or 1170 bytes hold the rest, and of 1169 do not: the last of those
/// begins at 16384, where its header grows by 4 bytes.
#[test]
fn equal_where_headers_grow() {
    check_split(155, 17_380, ROOM, RecordMode::Frames).unwrap();
    // Full packets are 98: of 258 bytes, 63 of 256, 34 of 252 and less. Behind a first one of 255 there are
    // 64 of 256, and 32 of 252 hold the rest.
    check_split(0, 24_699, 265, RecordMode::Frames).unwrap();
}

/// Every frame can be parsed alone, as others: by the rules of the model, which knows nothing of shares.
#[test]
fn the_parts_are_frames_like_others() {
    let mut sender = new(RecordMode::Frames);
    push(&mut sender, 5000);
    let mut next = 0;
    for n in 0..5 {
        let bytes = packet(&mut sender, ROOM);
        let frames: Vec<_> = Frames::new(&bytes).map(Result::unwrap).collect();
        let [Frame::Fenced { offset, distance, start, each: false, fin: false, data, .. }] = frames[..]
        else {
            panic!("{frames:?}")
        };
        assert_eq!((offset, distance, start), (next, next, n == 0));
        next += data.len() as u64;
    }
    assert_eq!(next, 5002);
}
