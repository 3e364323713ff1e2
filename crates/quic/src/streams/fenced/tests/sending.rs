//! The sender's rules, one by one.

use bytes::Bytes;
use quickset_base::{Duration, Time};
use quickset_wire as wire;
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::{Dir, Side, StreamId};

use super::{KEY, view, write_packet};
use crate::packet::{FrameToken, PacketWriter, RoomView, Want};
use crate::streams::fenced::{Outcome, QueueError, RecordMode, RecordSender, Ticket};

pub(super) const STREAM: StreamId = StreamId::new(Side::Client, Dir::Bi, 0);
/// A datagram of 1200 bytes less a short header of 11 and a tag of 16 (§17).
pub(super) const ROOM: usize = 1173;

pub(super) fn new(mode: RecordMode) -> RecordSender {
    let mut sender = RecordSender::new(KEY, STREAM, mode, 20_000);
    sender.set_max(1 << 20);
    sender
}

pub(super) fn push(sender: &mut RecordSender, len: usize) -> Ticket {
    sender.push(Bytes::from(vec![7; len]), None).unwrap()
}

pub(super) fn push_by(sender: &mut RecordSender, len: usize, deadline_ms: u64) -> Ticket {
    sender.push(Bytes::from(vec![7; len]), Some(Time::from_millis(deadline_ms))).unwrap()
}

pub(super) fn packet_at(sender: &mut RecordSender, room: usize, now_ms: u64) -> Bytes {
    let view = view(Time::from_millis(now_ms), Duration::from_millis(20));
    write_packet(sender, room, u64::MAX >> 2, &view).0
}

/// Frames as `S 0/0+12`: flags, offset, fence, length; `A 0+12` for ABANDON.
pub(super) fn shape(bytes: &[u8]) -> Vec<String> {
    let flag = |set: bool, name: &str| if set { name.to_owned() } else { String::new() };
    let frame = |frame: Frame<'_>| match frame {
        Frame::Fenced { offset, distance, start, each, fin, data, .. } => format!(
            "{}{}{} {offset}/{}+{}",
            flag(start, "S"),
            flag(each, "E"),
            flag(fin, "F"),
            offset - distance,
            data.len()
        ),
        Frame::Abandon { offset, len, .. } => format!("A {offset}+{len}"),
        Frame::Stream { offset, fin, data, .. } => format!("P{} {offset}+{}", flag(fin, "F"), data.len()),
        other => panic!("{other:?}"),
    };
    Frames::new(bytes).map(|f| frame(f.unwrap())).collect()
}

pub(super) fn sent(sender: &mut RecordSender, room: usize) -> Vec<String> {
    shape(&packet_at(sender, room, 0))
}

pub(super) fn outcomes(sender: &mut RecordSender) -> Vec<(Ticket, Outcome)> {
    std::iter::from_fn(|| sender.next_outcome()).collect()
}

#[test]
fn the_worked_example_on_the_wire() {
    let mut sender = new(RecordMode::Frames);
    for len in [1150, 1150, 5000] {
        push(&mut sender, len);
    }
    sender.fence();
    push(&mut sender, 1150);
    // §17: header and first bytes of each packet.
    let headers: [&[u8]; 8] = [
        &[0x7f, 0x52, 0, 0, 0, 0x44, 0x80],
        &[0x7f, 0x52, 0, 0x44, 0x80, 0x44, 0x80, 0x44, 0x80],
        &[0x7f, 0x52, 0, 0x49, 0, 0x49, 0, 0x44, 0x8c],
        &[0x7f, 0x50, 0, 0x4d, 0x8c, 0x4d, 0x8c, 0x44, 0x8c],
        &[0x7f, 0x50, 0, 0x52, 0x18, 0x52, 0x18, 0x44, 0x8c],
        &[0x7f, 0x50, 0, 0x56, 0xa4, 0x56, 0xa4, 0x44, 0x8c],
        &[0x7f, 0x50, 0, 0x5b, 0x30, 0x5b, 0x30, 0x41, 0x5a],
        &[0x7f, 0x52, 0, 0x5c, 0x8a, 0, 0x44, 0x80],
    ];
    for (n, header) in headers.into_iter().enumerate() {
        let packet = packet_at(&mut sender, ROOM, 0);
        assert_eq!(&packet[..header.len()], header, "packet {}", n + 1);
        assert_eq!(Frames::new(&packet).count(), 1);
    }
    assert_eq!(sender.want(1 << 20), Want::None);
    // The fourth is lost, and comes again in other pieces (FS-20).
    sender.lost(3468, 1164, false, Time::ZERO);
    assert_eq!(sender.want(0), Want::Lost, "a resend needs no credit");
    let resend = packet_at(&mut sender, 609, 0);
    assert_eq!(resend[..9], [0x7f, 0x50, 0, 0x4d, 0x8c, 0x4d, 0x8c, 0x42, 0x58]);
    assert_eq!(sent(&mut sender, ROOM), [" 4068/0+564"]);
    sender.finish();
    let end = packet_at(&mut sender, ROOM, 0);
    assert_eq!(end[..], [0x7f, 0x51, 0, 0x61, 0x0a, 0x44, 0x80, 0]);
    sender.acked(0, 8458, true);
    assert!(sender.is_done());
    assert_eq!(outcomes(&mut sender), [0, 1, 2, 3].map(|n| (Ticket(n), Outcome::Delivered)));
    assert_eq!(sender.queued(), 0);
}

#[test]
fn the_other_examples_on_the_wire() {
    let mut sender = new(RecordMode::Frames);
    sender.set_ordered(true);
    for text in ["a", "bc", "d"] {
        sender.push(Bytes::from(text), None).unwrap();
    }
    let total = packet_at(&mut sender, ROOM, 0);
    assert_eq!(total[..], [0x7f, 0x56, 0, 0, 0, 7, 1, 0x61, 2, 0x62, 0x63, 1, 0x64]);
    // The second alone, as a resend.
    sender.acked(0, 2, false);
    sender.acked(5, 2, false);
    sender.lost(0, 7, false, Time::ZERO);
    let second = packet_at(&mut sender, ROOM, 0);
    assert_eq!(second[..], [0x7f, 0x52, 0, 2, 0, 3, 2, 0x62, 0x63]);
    let mut sender = RecordSender::new(KEY, StreamId(2), RecordMode::Frames, 1200);
    sender.open();
    assert_eq!(sender.want(0), Want::Data);
    assert_eq!(packet_at(&mut sender, ROOM, 0)[..], [0x7f, 0x50, 2, 0, 0, 0]);
    assert_eq!(sender.want(0), Want::None);
    sender.lost(0, 0, false, Time::ZERO);
    assert_eq!(sender.want(0), Want::Data);
}

#[test]
fn frames_between_fences() {
    let mut sender = new(RecordMode::Frames);
    // FS-22, FS-23, FS-25: a new frame at each fence, and two fences are one; small frames share a packet.
    for _ in 0..3 {
        push(&mut sender, 9);
        push(&mut sender, 9);
        sender.fence();
        sender.fence();
    }
    assert_eq!(sent(&mut sender, ROOM), ["S 0/0+20", "S 20/20+20", "S 40/40+20"]);
    // FS-24: EACH as long as every boundary is a fence. The first continues segment 6.
    sender.set_ordered(true);
    push(&mut sender, 9);
    push(&mut sender, 9);
    sender.set_ordered(false);
    push(&mut sender, 9);
    push(&mut sender, 9);
    assert_eq!(sent(&mut sender, ROOM), ["SE 60/60+30", "S 90/80+10"]);
    // A resend joins them as they were.
    sender.lost(0, 100, false, Time::ZERO);
    assert_eq!(
        sent(&mut sender, ROOM),
        ["S 0/0+20", "S 20/20+20", "S 40/40+20", "SE 60/60+30", "S 90/80+10"]
    );
}

#[test]
fn what_fits_a_packet_is_not_split() {
    let mut sender = new(RecordMode::Frames);
    push(&mut sender, 500);
    push(&mut sender, 700);
    // FS-18: it waits for the next packet.
    assert_eq!(sent(&mut sender, ROOM), ["S 0/0+502"]);
    assert_eq!(sent(&mut sender, ROOM), ["S 502/0+702"]);
    // It waits for credit as well; a long record does not.
    let mut sender = RecordSender::new(KEY, STREAM, RecordMode::Frames, 20_000);
    sender.set_max(600);
    push(&mut sender, 700);
    assert!(sent(&mut sender, ROOM).is_empty());
    assert_eq!((sender.want(1 << 20), sender.blocked_at()), (Want::None, Some(600)));
    sender.set_max(702);
    assert_eq!((sender.want(701), sender.want(702), sender.blocked_at()), (Want::None, Want::Data, None));
    assert_eq!(sent(&mut sender, ROOM), ["S 0/0+702"]);
    push(&mut sender, 5000);
    sender.set_max(1000);
    assert_eq!(sent(&mut sender, ROOM), ["S 702/0+298"]);
    assert_eq!(sender.blocked_at(), Some(1000));
    // Nor does it begin in a packet that is short for once.
    let mut sender = new(RecordMode::Frames);
    push(&mut sender, 900);
    let view = view(Time::ZERO, Duration::ZERO);
    let mut tokens = Vec::new();
    for (room, frames) in [(300, 0), (1173, 1)] {
        let mut bytes = vec![0; room];
        let mut w = PacketWriter::new(wire::Writer::new(&mut bytes), &mut tokens);
        assert_eq!(sender.write(&mut w, 1 << 20, &view), 902 * frames);
    }
    // FS-16: never inside a prefix.
    let mut sender = new(RecordMode::Frames);
    push(&mut sender, 5000);
    for room in 0..30 {
        for frame in sent(&mut sender, room) {
            assert!(!frame.ends_with("+1"), "{frame} with room for {room}");
        }
    }
}

#[test]
fn abandoned_after_loss_only() {
    let mut sender = new(RecordMode::Frames);
    let late = push_by(&mut sender, 300, 50);
    push(&mut sender, 300);
    assert_eq!(sent(&mut sender, ROOM), ["S 0/0+604"]);
    let unsent = push_by(&mut sender, 900, 60);
    sender.finish();
    // FS-54: dropped without a trace when now + OWD is later than the deadline; OWD is 10 ms.
    assert_eq!(sender.deadline(), Some(Time::from_millis(50) + Duration::from_nanos(1)));
    sender.on_time(Time::from_millis(50), Duration::from_millis(10));
    assert_eq!(outcomes(&mut sender), []);
    sender.on_time(Time::from_millis(51), Duration::from_millis(10));
    assert_eq!(outcomes(&mut sender), [(unsent, Outcome::Dropped)]);
    assert_eq!(sender.deadline(), None);
    // FS-45, FS-55: `late` is over its time, but only loss gives it up; the other is sent again.
    sender.lost(0, 604, false, Time::from_millis(51));
    assert_eq!(outcomes(&mut sender), [(late, Outcome::Abandoned)]);
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 51)), ["A 0+302", "SF 302/0+302"]);
    // FS-47, FS-48: ABANDON is repeated, the record is not.
    sender.abandon_lost(0);
    sender.lost(0, 302, false, Time::from_millis(60));
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 60)), ["A 0+302"]);
    sender.acked(302, 302, true);
    assert!(!sender.is_done());
    sender.abandon_acked(0);
    assert!(sender.is_done());
}

#[test]
fn lost_and_too_late_before_its_turn() {
    let mut sender = new(RecordMode::Frames);
    let ticket = push_by(&mut sender, 3000, 50);
    sent(&mut sender, ROOM);
    sender.lost(0, 1164, false, Time::from_millis(20));
    assert_eq!(sender.want(0), Want::Lost);
    assert_eq!(sender.deadline(), Some(Time::from_millis(40) + Duration::from_nanos(1)));
    // FS-45: the rest that was never sent is covered as well.
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 41)), ["A 0+3002"]);
    assert_eq!(outcomes(&mut sender), [(ticket, Outcome::Abandoned)]);
    push(&mut sender, 10);
    assert_eq!(sent(&mut sender, ROOM), ["S 3002/0+11"]);
    assert_eq!(sender.highest(), 3013);
}

/// FS-43, and §8: what has no credit does not hold back what the peer may need to give it.
#[test]
fn abandon_keeps_to_credit() {
    let mut sender = RecordSender::new(KEY, STREAM, RecordMode::Frames, 20_000);
    sender.set_max(1500);
    push_by(&mut sender, 500, 50);
    push_by(&mut sender, 5000, 50);
    sent(&mut sender, ROOM);
    sent(&mut sender, ROOM);
    assert_eq!(sender.highest(), 1500);
    sender.lost(0, 1500, false, Time::from_millis(60));
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 60)), ["A 0+502"]);
    assert_eq!((sender.want(1 << 20), sender.blocked_at()), (Want::None, Some(1500)));
    sender.set_max(6000);
    assert_eq!(sender.want(3000), Want::None, "connection credit counts too");
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 60)), ["A 502+5002"]);
    // Once both are within credit, neighbours share a frame.
    sender.abandon_lost(0);
    sender.abandon_lost(502);
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 60)), ["A 0+5504"]);
    sender.abandon_acked(0);
    sender.finish();
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 60)), ["F 5504/0+0"]);
    sender.acked(5504, 0, true);
    assert!(sender.is_done());
}

#[test]
fn superseded() {
    let mut sender = new(RecordMode::Frames);
    let (first, second) = (push(&mut sender, 100), push(&mut sender, 100));
    assert_eq!(sent(&mut sender, ROOM), ["S 0/0+204"]);
    let third = push(&mut sender, 100);
    assert!(sender.supersede(third) && !sender.supersede(third), "unsent: dropped");
    assert!(sender.supersede(first) && !sender.supersede(first));
    assert_eq!(outcomes(&mut sender), [(third, Outcome::Dropped)]);
    sender.lost(0, 204, false, Time::ZERO);
    assert_eq!(sent(&mut sender, ROOM), ["A 0+102", "S 102/0+102"]);
    assert_eq!(outcomes(&mut sender), [(first, Outcome::Abandoned)]);
    // What arrived all the same is told as it is; what is over cannot be superseded.
    sender.acked(102, 102, false);
    assert_eq!(outcomes(&mut sender), [(second, Outcome::Delivered)]);
    assert!(!sender.supersede(second));
    // Lost before: given up at once.
    let fourth = push(&mut sender, 100);
    assert_eq!(sent(&mut sender, ROOM), ["S 204/0+102"]);
    sender.lost(204, 102, false, Time::ZERO);
    assert!(sender.supersede(fourth));
    assert_eq!(sent(&mut sender, ROOM), ["A 204+102"]);
}

#[test]
fn latest_order_gives_up_what_is_lost() {
    let mut sender = new(RecordMode::Frames);
    sender.set_give_up_lost(true);
    let first = push(&mut sender, 100);
    let second = push(&mut sender, 100);
    sent(&mut sender, ROOM);
    sender.acked(102, 102, false);
    sender.lost(0, 102, false, Time::ZERO);
    assert_eq!(outcomes(&mut sender), [(second, Outcome::Delivered), (first, Outcome::Abandoned)]);
    assert_eq!(sent(&mut sender, ROOM), ["A 0+102"]);
}

/// FS-65, FS-67: the same bytes, and nothing of the extension.
#[test]
fn plain() {
    let mut sender = new(RecordMode::Plain);
    let first = push_by(&mut sender, 9, 50);
    sender.fence();
    push(&mut sender, 9);
    sender.fence();
    assert_eq!(sent(&mut sender, ROOM), ["P 0+20"]);
    assert!(!sender.supersede(first), "a begun record is sent to its end");
    sender.lost(0, 20, false, Time::from_millis(100));
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 100)), ["P 0+20"]);
    let late = push_by(&mut sender, 9, 50);
    push(&mut sender, 9);
    sender.finish();
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 100)), ["PF 20+10"]);
    assert_eq!(outcomes(&mut sender), [(late, Outcome::Dropped)]);
}

#[test]
fn what_is_not_taken() {
    let mut sender = new(RecordMode::Frames);
    // FS-8.
    assert_eq!(sender.push(Bytes::from(vec![0; 20_001]), None), Err(QueueError::TooLong { max: 20_000 }));
    let ticket = push(&mut sender, 20_000);
    assert_eq!(sender.queued(), 20_004);
    sent(&mut sender, ROOM);
    sender.finish();
    assert_eq!(sender.push(Bytes::new(), None), Err(QueueError::Finished));
    let highest = sender.highest();
    assert_eq!(sender.reset(), highest);
    assert_eq!(outcomes(&mut sender), [(ticket, Outcome::Abandoned)]);
    assert_eq!(sender.push(Bytes::new(), None), Err(QueueError::Reset));
    sender.lost(0, highest, false, Time::ZERO);
    assert_eq!((sender.want(1 << 20), sender.queued(), sender.is_done()), (Want::None, 0, true));
}

#[test]
fn tokens_name_what_was_sent() {
    let mut sender = new(RecordMode::Frames);
    push(&mut sender, 9);
    sender.finish();
    let view = view(Time::ZERO, Duration::ZERO);
    let (_, tokens, used) = write_packet(&mut sender, ROOM, 100, &view);
    assert_eq!(tokens, [FrameToken::Fenced { key: KEY, offset: 0, len: 10, fin: true }]);
    assert_eq!(used, 10);
    // FIN was lost with its data: both come again in one frame.
    sender.lost(0, 10, true, Time::ZERO);
    let (bytes, tokens, used) = write_packet(&mut sender, ROOM, 0, &view);
    assert_eq!(shape(&bytes), ["SF 0/0+10"]);
    assert_eq!((tokens.len(), used), (1, 0));
    // The data arrived after all, FIN did not.
    sender.acked(0, 10, false);
    sender.lost(10, 0, true, Time::ZERO);
    assert_eq!(sent(&mut sender, ROOM), ["F 10/0+0"]);
}

/// FS-72: far from the limit of ranges that the peer must enforce (FS-41).
#[test]
fn new_bytes_wait_while_the_peer_has_many_holes() {
    let mut sender = new(RecordMode::Frames);
    for _ in 0..1100 {
        push(&mut sender, 0);
    }
    assert_eq!(sent(&mut sender, ROOM), ["S 0/0+1100"]);
    for n in 0..513 {
        sender.acked(1 + 2 * n, 1, false);
    }
    push(&mut sender, 5);
    assert_eq!(sender.want(1 << 20), Want::None);
    sender.acked(0, 1, false);
    assert_eq!(sender.want(1 << 20), Want::Data);
}

/// FS-18, when packets with a source symbol hold less than those without.
#[test]
fn a_record_between_two_sizes_of_packets_is_sent_in_either() {
    const SYMBOL: usize = 1000;
    let limited = |sender: &mut RecordSender, room: usize| {
        let view = RoomView { room, ..view(Time::ZERO, Duration::ZERO) };
        shape(&write_packet(sender, room, 1 << 20, &view).0)
    };
    for rooms in [[ROOM, SYMBOL], [SYMBOL, ROOM], [SYMBOL, SYMBOL], [ROOM, ROOM]] {
        let mut sender = new(RecordMode::Frames);
        // The first packet tells what the second is judged by.
        push(&mut sender, 8);
        limited(&mut sender, rooms[0]);
        push(&mut sender, 1100);
        assert_eq!(sender.want(1 << 20), Want::Data, "{rooms:?}");
        let frames = limited(&mut sender, rooms[1]);
        if rooms[1] == ROOM {
            assert_eq!(frames, ["S 9/0+1102"], "{rooms:?}");
        } else {
            // 2 bytes of type, 1 each of stream, offset and distance, 2 of length.
            assert_eq!(frames, ["S 9/0+993"], "{rooms:?}");
            assert_eq!(limited(&mut sender, rooms[0]), [" 1002/0+109"], "{rooms:?}");
        }
    }
    // Credit for a part is enough where only a part goes, and credit for all of it comes in any case (FS-36).
    let mut short = RecordSender::new(KEY, STREAM, RecordMode::Frames, 20_000);
    short.set_max(500);
    push(&mut short, 1100);
    assert_eq!(limited(&mut short, ROOM), Vec::<String>::new(), "it waits for credit");
    assert_eq!((short.want(1 << 20), short.blocked_at()), (Want::None, Some(500)));
    short.set_max(1102);
    assert_eq!(limited(&mut short, SYMBOL), ["S 0/0+993"]);
    assert_eq!(limited(&mut short, ROOM), [" 993/0+109"]);
}

#[test]
fn what_is_kept_back_is_wanted_unless_it_would_be_given_up() {
    let wants =
        |sender: &RecordSender, offset, len, ms| sender.wants(offset, len, false, Time::from_millis(ms));
    let mut sender = new(RecordMode::Frames);
    push_by(&mut sender, 60, 50);
    let second = push(&mut sender, 60);
    sent(&mut sender, ROOM);
    // OWD is 10 ms, as of the packet.
    assert!(wants(&sender, 0, 61, 40) && !wants(&sender, 0, 61, 41), "too late (FS-55)");
    assert!(wants(&sender, 0, 122, 41), "but not all of it is");
    assert!(sender.supersede(second));
    assert!(!wants(&sender, 61, 61, 0) && wants(&sender, 0, 122, 40));
    sender.acked(0, 61, false);
    assert!(!wants(&sender, 0, 122, 0));
    // Kept until it is too late, it is given up when it comes back, and not before: it may still be
    // recovered.
    let third = push_by(&mut sender, 60, 90);
    sent(&mut sender, ROOM);
    outcomes(&mut sender);
    sender.on_time(Time::from_millis(100), Duration::from_millis(10));
    assert_eq!(outcomes(&mut sender), []);
    sender.lost(122, 61, false, Time::from_millis(100));
    assert_eq!(outcomes(&mut sender), [(third, Outcome::Abandoned)]);
    assert!(!wants(&sender, 122, 61, 100) && !sender.abandons(122));
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 100)), ["A 122+61"]);
    assert!(sender.abandons(122));
    sender.abandon_acked(122);
    assert!(!sender.abandons(122));
    // Latest order gives up what is lost.
    push(&mut sender, 60);
    sent(&mut sender, ROOM);
    assert!(wants(&sender, 183, 61, 0));
    sender.set_give_up_lost(true);
    assert!(!wants(&sender, 183, 61, 0));
    sender.finish();
    sent(&mut sender, ROOM);
    assert!(sender.wants(244, 0, true, Time::ZERO));
    sender.reset();
    assert!(!sender.wants(244, 0, true, Time::ZERO) && !wants(&sender, 183, 61, 0));
}

#[test]
fn recovered_is_what_arrived_by_recovery_alone() {
    let mut sender = new(RecordMode::Frames);
    let tickets = [0; 3].map(|_| push(&mut sender, 1000));
    let long = push(&mut sender, 3000);
    while !sent(&mut sender, ROOM).is_empty() {}
    sender.acked(0, 1002, false);
    // Of the first all had arrived; of the second a part was recovered and a part arrived.
    sender.recovered(0, 1500, false);
    sender.acked(1500, 504, false);
    sender.acked(2004, 1002, false);
    sender.lost(3006, 3002, false, Time::ZERO);
    sender.recovered(3006, 1000, false);
    assert_eq!(
        outcomes(&mut sender),
        [
            (tickets[0], Outcome::Delivered),
            (tickets[1], Outcome::Recovered),
            (tickets[2], Outcome::Delivered)
        ]
    );
    // Nothing recovered is sent again.
    assert_eq!(sent(&mut sender, ROOM), [" 4006/0+1164"]);
    sender.acked(4006, 2002, false);
    assert_eq!(outcomes(&mut sender), [(long, Outcome::Recovered)]);
    assert!(Outcome::Recovered.is_delivered() && Outcome::Delivered.is_delivered());
    assert!(!Outcome::Abandoned.is_delivered());
    // Too late for a message that was given up meanwhile.
    let given_up = push(&mut sender, 100);
    sent(&mut sender, ROOM);
    sender.set_give_up_lost(true);
    sender.lost(6008, 102, false, Time::ZERO);
    sender.recovered(6008, 102, false);
    assert_eq!(outcomes(&mut sender), [(given_up, Outcome::Abandoned)]);
    sender.finish();
    sent(&mut sender, ROOM);
    sender.abandon_acked(6008);
    sender.recovered(6110, 0, true);
    assert!(sender.is_done());
}
