//! Who goes first among messages with deadlines.

use quickset_base::{Duration, Time};
use quickset_wire::Reader;
use quickset_wire::frame::{Frame, Frames};

use super::sending::{ROOM, new, outcomes, packet_at, push, push_by, sent, shape};
use super::{view, write_packet};
use crate::packet::{RoomView, Want};
use crate::streams::fenced::{Outcome, RecordMode, RecordSender};

/// Lengths of the messages that begin in a packet, in order. All are whole but the last.
fn begun(bytes: &[u8]) -> Vec<u64> {
    let mut lens = Vec::new();
    for frame in Frames::new(bytes) {
        let (Frame::Fenced { start: true, data, .. } | Frame::Stream { data, .. }) = frame.unwrap() else {
            continue;
        };
        let mut rest = data;
        while !rest.is_empty() {
            let mut reader = Reader::new(rest);
            let len = reader.varint().unwrap();
            lens.push(len);
            let body = reader.peek();
            rest = &body[body.len().min(len as usize)..];
        }
    }
    lens
}

fn credit(sender: &mut RecordSender, conn_credit: u64, now_ms: u64) -> (Vec<String>, u64) {
    let view = view(Time::from_millis(now_ms), Duration::from_millis(20));
    let (bytes, _, used) = write_packet(sender, ROOM, conn_credit, &view);
    sender.check();
    (shape(&bytes), used)
}

/// FS-69.
#[test]
fn the_closest_deadline_goes_first() {
    for mode in [RecordMode::Frames, RecordMode::Plain] {
        let mut sender = new(mode);
        push(&mut sender, 50);
        push_by(&mut sender, 10, 300);
        push_by(&mut sender, 20, 200);
        push(&mut sender, 30);
        push_by(&mut sender, 40, 100);
        push_by(&mut sender, 41, 100);
        sender.check();
        assert_eq!(begun(&packet_at(&mut sender, ROOM, 0)), [40, 41, 20, 10, 50, 30], "{mode:?}");
        sender.check();
    }
    // It is decided anew at each packet.
    let mut sender = new(RecordMode::Frames);
    push_by(&mut sender, 1001, 300);
    push_by(&mut sender, 1000, 200);
    assert_eq!(begun(&packet_at(&mut sender, ROOM, 0)), [1000]);
    push_by(&mut sender, 1002, 100);
    assert_eq!(begun(&packet_at(&mut sender, ROOM, 0)), [1002]);
    assert_eq!(begun(&packet_at(&mut sender, ROOM, 0)), [1001]);
}

/// FS-54, FS-69: only what can still be met counts.
#[test]
fn what_cannot_be_in_time_is_dropped_before_its_turn() {
    let mut sender = new(RecordMode::Frames);
    let late = push_by(&mut sender, 40, 60);
    push_by(&mut sender, 20, 300);
    // OWD is 10 ms.
    assert_eq!(begun(&packet_at(&mut sender, ROOM, 51)), [20]);
    assert_eq!(outcomes(&mut sender), [(late, Outcome::Dropped)]);
    sender.check();
}

/// What comes too late although nothing of it was lost had no room in time; OWD is 10 ms.
#[test]
fn who_was_crowded_out_is_known() {
    let crowded_out = |sender: &mut RecordSender| sender.next_settled().map(|settled| settled.crowded_out);
    let acked_at = |sender: &mut RecordSender, now_ms: u64| {
        sender.set_now(Time::from_millis(now_ms));
        sender.acked(0, 41, false);
    };
    for (acked, crowded) in [(70, false), (71, true)] {
        let mut sender = new(RecordMode::Frames);
        push_by(&mut sender, 40, 60);
        packet_at(&mut sender, ROOM, 0);
        acked_at(&mut sender, acked);
        assert_eq!(crowded_out(&mut sender), Some(crowded), "acknowledged at {acked} ms");
    }
    // A loss made it late.
    let mut sender = new(RecordMode::Frames);
    push_by(&mut sender, 40, 60);
    packet_at(&mut sender, ROOM, 0);
    sender.lost(0, 41, false, Time::from_millis(40));
    packet_at(&mut sender, ROOM, 49);
    acked_at(&mut sender, 100);
    assert_eq!(crowded_out(&mut sender), Some(false));
    // So did one that was recovered.
    let mut sender = new(RecordMode::Frames);
    push_by(&mut sender, 40, 60);
    packet_at(&mut sender, ROOM, 0);
    sender.set_now(Time::from_millis(100));
    sender.recovered(0, 41, false);
    let settled = sender.next_settled().unwrap();
    assert!(settled.hit && !settled.crowded_out && settled.outcome == Outcome::Recovered);
    // It never left.
    let mut sender = new(RecordMode::Frames);
    push_by(&mut sender, 40, 60);
    packet_at(&mut sender, ROOM, 51);
    assert_eq!(crowded_out(&mut sender), Some(true));
    // Nobody waits for it at any time.
    let mut sender = new(RecordMode::Frames);
    push(&mut sender, 40);
    packet_at(&mut sender, ROOM, 0);
    acked_at(&mut sender, 10_000);
    assert_eq!(crowded_out(&mut sender), Some(false));
}

#[test]
fn an_urgent_message_does_not_wait_for_the_rest_of_a_long_one() {
    let mut sender = new(RecordMode::Frames);
    let long = push_by(&mut sender, 5000, 300);
    assert_eq!(sent(&mut sender, ROOM), ["S 0/0+1166"]);
    let urgent = push_by(&mut sender, 200, 60);
    sender.check();
    // Behind the end of the long one, whose offsets stay; what is left of the packet is for its rest.
    assert_eq!(credit(&mut sender, 1 << 20, 0), (vec!["S 5002/0+202".into(), " 1166/0+953".into()], 4038));
    assert_eq!((sender.highest(), sender.left()), (5204, 5002 - 2119));
    // FS-73: a hole needs no credit of the connection.
    assert_eq!(sender.want(0), Want::Data);
    assert_eq!(credit(&mut sender, 0, 0), (vec![" 2119/0+1164".into()], 0));
    // Without credit for more, the hole goes on, and nothing is held up.
    push_by(&mut sender, 300, 50);
    sender.finish();
    assert_eq!((sender.want(0), sender.blocked_at()), (Want::Data, None));
    assert_eq!(credit(&mut sender, 0, 0), (vec![" 3283/0+1164".into()], 0));
    assert_eq!(credit(&mut sender, 302, 0).0, ["S 5204/0+302", " 4447/0+555", "F 5506/0+0"]);
    sender.acked(0, 5506, true);
    sender.check();
    assert!(sender.is_done());
    assert_eq!(outcomes(&mut sender)[..2], [(long, Outcome::Delivered), (urgent, Outcome::Delivered)]);
}

/// FS-45: what was begun and cannot be sent to its end in time is given up.
#[test]
fn what_was_begun_and_is_too_late_is_given_up() {
    let mut sender = new(RecordMode::Frames);
    let late = push_by(&mut sender, 5000, 50);
    assert_eq!(sent(&mut sender, ROOM), ["S 0/0+1166"]);
    push_by(&mut sender, 1000, 900);
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 40)), [" 1166/0+1164"]);
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 41)), ["A 0+5002", "S 5002/0+1002"]);
    sender.check();
    assert_eq!(outcomes(&mut sender), [(late, Outcome::Abandoned)]);
    assert_eq!((sender.want(1 << 20), sender.left()), (Want::None, 0));
    sender.lost(1166, 1164, false, Time::from_millis(42));
    assert_eq!(sender.want(1 << 20), Want::None);
    // One that is superseded in the middle, likewise.
    let old = push_by(&mut sender, 5000, 500);
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 42)), ["S 6004/0+1164"]);
    push_by(&mut sender, 1000, 900);
    assert!(sender.supersede(old));
    assert_eq!(shape(&packet_at(&mut sender, ROOM, 42)), ["S 11006/0+1002", " 7168/0+153"]);
    sender.check();
}

/// FS-69: the time that its bytes take counts, or one message after the other would be a little late.
#[test]
fn what_cannot_all_be_there_in_time_lets_others_go_first() {
    let mut sender = new(RecordMode::Frames);
    // At 125 kB/s less a fifth, 50 ms and the way; OWD is 10 ms.
    push_by(&mut sender, 5000, 59);
    push_by(&mut sender, 5001, 61);
    push(&mut sender, 10);
    let view = RoomView { rate: 125_000, ..view(Time::ZERO, Duration::from_millis(20)) };
    let next = |sender: &mut RecordSender| {
        let packet = write_packet(sender, ROOM, 1 << 20, &view).0;
        sender.check();
        begun(&packet)
    };
    assert_eq!(next(&mut sender), [5001]);
    push_by(&mut sender, 300, 30);
    assert_eq!(next(&mut sender), [300], "and then the rest of the long one, which still can");
    for _ in 0..2 {
        assert_eq!(next(&mut sender), [0; 0]);
    }
    // None that can is left: first come.
    assert_eq!(next(&mut sender), [10, 5000]);
    // Queues count: of 100 ms that a round trip takes now, 10 are those of the way back.
    let mut sender = new(RecordMode::Frames);
    push_by(&mut sender, 300, 80);
    push_by(&mut sender, 301, 100);
    let slow = RoomView { srtt: Duration::from_millis(100), ..view };
    assert_eq!(begun(&write_packet(&mut sender, ROOM, 1 << 20, &slow).0), [301, 300]);
}

/// FS-70.
#[test]
fn what_has_no_credit_is_passed_over() {
    let short = |max| {
        let mut sender = RecordSender::new(super::KEY, super::sending::STREAM, RecordMode::Frames, 20_000);
        sender.set_max(max);
        sent(&mut sender, ROOM);
        sender
    };
    let mut sender = short(600);
    push_by(&mut sender, 1000, 50);
    push_by(&mut sender, 100, 90);
    assert_eq!(sender.want(1 << 20), Want::Data);
    assert_eq!(sent(&mut sender, ROOM), ["S 0/0+102"]);
    assert_eq!((sender.want(1 << 20), sender.blocked_at()), (Want::None, Some(600)));
    sender.set_max(1104);
    assert_eq!(sent(&mut sender, ROOM), ["S 102/0+1002"]);
    sender.check();
    // A long one without credit for its end begins when nothing else can go; then it is in the way.
    let mut sender = short(1500);
    push_by(&mut sender, 5000, 50);
    push_by(&mut sender, 100, 90);
    let packet = packet_at(&mut sender, ROOM, 0);
    assert_eq!((shape(&packet), begun(&packet)), (vec!["S 0/0+1166".to_owned()], vec![100, 5000]));
    push_by(&mut sender, 100, 40);
    assert_eq!(sent(&mut sender, ROOM), [" 1166/0+334"]);
    assert_eq!((sender.want(1 << 20), sender.blocked_at()), (Want::None, Some(1500)));
    sender.set_max(5300);
    assert_eq!(credit(&mut sender, 1 << 20, 0).0, ["S 5104/0+102", " 1500/0+1053"]);
    // Connection credit counts as well.
    let mut sender = short(1 << 20);
    push_by(&mut sender, 900, 50);
    push_by(&mut sender, 300, 90);
    assert_eq!((sender.want(301), sender.want(302)), (Want::None, Want::Data));
    assert_eq!(credit(&mut sender, 700, 0), (vec!["S 0/0+302".into()], 302));
}

/// FS-26, FS-71: messages change places between two fences only.
#[test]
fn no_message_crosses_a_fence() {
    let mut sender = new(RecordMode::Frames);
    push_by(&mut sender, 10, 300);
    push_by(&mut sender, 11, 200);
    sender.fence();
    push_by(&mut sender, 20, 100);
    push_by(&mut sender, 21, 50);
    sender.fence();
    push_by(&mut sender, 30, 40);
    assert_eq!(begun(&packet_at(&mut sender, ROOM, 0)), [11, 10, 21, 20, 30]);
    sender.check();
    // Nor does it begin while one before the fence is not sent to its end.
    push_by(&mut sender, 3000, 300);
    sender.fence();
    push_by(&mut sender, 31, 50);
    let long = [1165, 1164, 673];
    for (n, len) in long.into_iter().enumerate() {
        let frames = sent(&mut sender, ROOM);
        assert!(frames[0].ends_with(&format!("+{len}")), "{frames:?}");
        assert_eq!(frames.len(), 1 + usize::from(n == 2), "{frames:?}");
    }
    // Total order is a fence behind each.
    let mut sender = new(RecordMode::Frames);
    sender.set_ordered(true);
    for (len, deadline) in [(10, 300), (11, 200), (12, 100)] {
        push_by(&mut sender, len, deadline);
    }
    let packet = packet_at(&mut sender, ROOM, 0);
    assert_eq!((shape(&packet), begun(&packet)), (vec!["SE 0/0+36".to_owned()], vec![10, 11, 12]));
    sender.check();
}

/// FS-65, FS-67.
#[test]
fn in_stream_frames_what_was_begun_is_sent_to_its_end() {
    let mut sender = new(RecordMode::Plain);
    push_by(&mut sender, 2000, 300);
    assert_eq!(sent(&mut sender, ROOM), ["P 0+1169"]);
    push_by(&mut sender, 20, 200);
    push_by(&mut sender, 10, 100);
    let packet = packet_at(&mut sender, ROOM, 0);
    assert_eq!(shape(&packet), ["P 1169+833", "P 2002+32"]);
    assert_eq!(packet[packet.len() - 32], 10, "the more urgent one first");
    sender.check();
}

#[test]
fn a_reset_tells_what_was_sent_of_each() {
    let mut sender = new(RecordMode::Frames);
    let long = push_by(&mut sender, 5000, 300);
    sent(&mut sender, ROOM);
    let urgent = push_by(&mut sender, 100, 60);
    sent(&mut sender, 120);
    let unsent = push_by(&mut sender, 100, 70);
    assert_eq!(sender.reset(), 5104);
    let given_up = [(long, Outcome::Abandoned), (urgent, Outcome::Abandoned), (unsent, Outcome::Dropped)];
    assert_eq!(outcomes(&mut sender), given_up);
    assert_eq!((sender.want(1 << 20), sender.left(), sender.queued()), (Want::None, 0, 0));
    sender.check();
}

#[test]
fn a_reset_behind_one_that_was_overtaken() {
    // What overtook it lies behind it and is cut.
    let mut sender = new(RecordMode::Frames);
    let long = push_by(&mut sender, 2000, 300);
    sent(&mut sender, ROOM);
    let urgent = push_by(&mut sender, 100, 60);
    assert_eq!(sent(&mut sender, 120), ["S 2002/0+102"]);
    let unsent = push_by(&mut sender, 100, 70);
    sender.cut_behind(long);
    sender.check();
    assert_eq!(outcomes(&mut sender), [(unsent, Outcome::Dropped), (urgent, Outcome::Abandoned)]);
    assert_eq!(sender.reliable_size(), None);
    assert_eq!(sent(&mut sender, ROOM), [" 1166/0+836"]);
    assert_eq!((sender.reliable_size(), sender.highest()), (Some(2002), 2104));
    sender.acked(0, 2002, false);
    assert!(sender.is_cut());
    // What overtook it before it was begun lies before it, and arrives.
    let mut sender = new(RecordMode::Frames);
    let first = push_by(&mut sender, 300, 300);
    let urgent = push_by(&mut sender, 2000, 60);
    let unsent = push_by(&mut sender, 100, 400);
    assert_eq!(sent(&mut sender, ROOM), ["S 0/0+1166"]);
    sender.cut_behind(first);
    sender.check();
    assert_eq!(outcomes(&mut sender), [(unsent, Outcome::Dropped)]);
    assert_eq!(sent(&mut sender, ROOM), [" 1166/0+836", "S 2002/0+302"]);
    assert_eq!(sender.reliable_size(), Some(2304));
    sender.acked(0, 2304, false);
    assert_eq!(outcomes(&mut sender), [(urgent, Outcome::Delivered), (first, Outcome::Delivered)]);
    assert!(sender.is_cut());
}

#[test]
fn rejected_early_data_goes_by_deadlines_again() {
    let mut sender = new(RecordMode::Plain);
    push(&mut sender, 30);
    push(&mut sender, 31);
    let urgent = push_by(&mut sender, 20, 60);
    assert_eq!(begun(&packet_at(&mut sender, ROOM, 0)), [20, 30, 31]);
    sender.rewind();
    sender.check();
    sender.set_max(1 << 20);
    assert_eq!(sender.left(), 31 + 32 + 21);
    assert_eq!(begun(&packet_at(&mut sender, ROOM, 0)), [20, 30, 31]);
    sender.rewind();
    sender.set_max(1 << 20);
    assert_eq!(begun(&packet_at(&mut sender, ROOM, 51)), [30, 31]);
    sender.check();
    assert_eq!(outcomes(&mut sender), [(urgent, Outcome::Dropped)]);
}

/// FS-71: each message that was begun and not sent to its end is a hole.
#[test]
fn there_are_only_so_many_holes() {
    let mut sender = new(RecordMode::Frames);
    for n in 0..70 {
        push_by(&mut sender, 3000, 1000 - n);
        let frames = sent(&mut sender, ROOM);
        assert_eq!(frames[0].starts_with('S'), n < 64, "{n}: {frames:?}");
        sender.check();
    }
    while !sent(&mut sender, ROOM).is_empty() {
        sender.check();
    }
    assert_eq!(sender.highest(), 70 * 3002);
}

/// FS-72, FS-73: no new bytes while the peer has many ranges, but those that fill holes.
#[test]
fn holes_are_filled_while_the_peer_has_many_ranges() {
    let mut sender = new(RecordMode::Frames);
    push_by(&mut sender, 3000, 900);
    sent(&mut sender, ROOM);
    for _ in 0..1100 {
        push_by(&mut sender, 0, 500);
    }
    assert_eq!(begun(&packet_at(&mut sender, ROOM, 0)).len(), 1100);
    for n in 0..520 {
        sender.acked(3002 + 2 * n, 1, false);
    }
    push_by(&mut sender, 5, 100);
    assert_eq!((sender.want(1 << 20), sender.want(0)), (Want::Data, Want::Data));
    for rest in [" 1166/0+", " 2330/0+"] {
        let frames = sent(&mut sender, ROOM);
        assert!(frames.len() == 1 && frames[0].starts_with(rest), "{frames:?}");
    }
    assert_eq!(sender.want(1 << 20), Want::None);
    sender.acked(0, 3100, false);
    sender.check();
    assert_eq!(sender.want(1 << 20), Want::Data);
}

/// What waits for long keeps nothing of those that overtake it in memory.
#[test]
fn what_overtakes_is_forgotten() {
    let mut sender = new(RecordMode::Frames);
    push(&mut sender, 1000);
    for n in 0..1000 {
        push_by(&mut sender, 1000, 100 * n + 50);
        if n % 2 == 0 {
            assert_eq!(begun(&packet_at(&mut sender, ROOM, 100 * n + 30)), [1000]);
            sender.acked(sender.highest() - 1002, 1002, false);
        } else {
            // Every other one comes too late.
            sender.on_time(Time::from_millis(100 * n + 45), Duration::from_millis(10));
        }
        sender.check();
        assert_eq!(sender.records(), 1);
        outcomes(&mut sender);
    }
}

/// Who waits for long keeps nothing in memory of what was dropped behind it, whether or not that was in line
/// with it.
#[test]
fn what_is_dropped_behind_who_waits_is_forgotten() {
    let settings: [fn(&mut RecordSender); 3] =
        [|sender| sender.set_ordered(true), |sender| sender.set_first_come(true), RecordSender::fence];
    for (setting, set) in settings.iter().enumerate() {
        for mode in [RecordMode::Frames, RecordMode::Plain] {
            let mut sender = new(mode);
            let first = push(&mut sender, 1000);
            set(&mut sender);
            let mut kept = Vec::new();
            for n in 0..2000 {
                let ticket = push_by(&mut sender, 10, n + 50);
                sender.on_time(Time::from_millis(n + 45), Duration::from_millis(10));
                assert_eq!(outcomes(&mut sender), [(ticket, Outcome::Dropped)]);
                if n % 500 == 0 {
                    kept.push((n, push(&mut sender, 20 + n as usize / 100)));
                }
                sender.check();
                assert!(sender.records() < 200, "{setting} {mode:?}: {} after {n}", sender.records());
            }
            // What is left goes in its order, and is known by its name.
            let lens = begun(&packet_at(&mut sender, 2 * ROOM, 3000));
            assert_eq!(lens, [1000, 20, 25, 30, 35], "{setting} {mode:?}");
            sender.check();
            sender.acked(0, sender.highest(), false);
            let all = [first].into_iter().chain(kept.into_iter().map(|(_, ticket)| ticket));
            let delivered: Vec<_> = all.map(|ticket| (ticket, Outcome::Delivered)).collect();
            assert_eq!(outcomes(&mut sender), delivered);
            assert_eq!((sender.records(), sender.queued()), (0, 0));
            let last = push(&mut sender, 5);
            assert!(delivered.iter().all(|(ticket, _)| *ticket < last), "no name is given twice");
            assert_eq!(begun(&packet_at(&mut sender, ROOM, 3000)), [5]);
            sender.check();
        }
    }
}

/// Nor does its deadline keep those of others.
#[test]
fn deadlines_that_were_met_are_forgotten() {
    let mut sender = RecordSender::new(super::KEY, super::sending::STREAM, RecordMode::Frames, 20_000);
    let first = push_by(&mut sender, 5000, 3_600_000);
    for n in 0..2000 {
        // Credit for the short one alone.
        push_by(&mut sender, 50, 7_200_000);
        sender.set_max(sender.highest() + 51);
        assert_eq!(begun(&packet_at(&mut sender, ROOM, n)), [50]);
        if n % 2 == 0 {
            sender.lost(sender.highest() - 51, 51, false, Time::from_millis(n));
            packet_at(&mut sender, ROOM, n);
        }
        sender.acked(sender.highest() - 51, 51, false);
        sender.check();
        outcomes(&mut sender);
        assert!(sender.deadlines() < 200, "{} after {n}", sender.deadlines());
    }
    // It is still known when the first one is too late.
    assert_eq!(sender.deadline(), Some(Time::from_millis(3_599_990) + Duration::from_nanos(1)));
    sender.on_time(Time::from_millis(3_599_991), Duration::from_millis(10));
    assert_eq!(outcomes(&mut sender), [(first, Outcome::Dropped)]);
    assert_eq!((sender.deadlines(), sender.deadline()), (0, None));
}

/// FS-45: what was begun although it hardly could be in time is given up like others when it cannot any more.
#[test]
fn the_rest_of_what_seemed_late_from_the_start_is_not_sent_once_it_is() {
    for first_come in [false, true] {
        let mut sender = new(RecordMode::Frames);
        sender.set_first_come(first_come);
        let packet = |sender: &mut RecordSender, now_ms: u64| {
            // 5000 bytes take 62 ms.
            let view =
                RoomView { rate: 100_000, ..view(Time::from_millis(now_ms), Duration::from_millis(20)) };
            let bytes = write_packet(sender, ROOM, u64::MAX >> 2, &view).0;
            sender.check();
            shape(&bytes)
        };
        let late = push_by(&mut sender, 5000, 60);
        assert!(packet(&mut sender, 0)[0].starts_with("S 0/0+"));
        assert!(
            packet(&mut sender, 50)[0].starts_with(" 1166/0+"),
            "it may be, if the path is faster than it seems"
        );
        assert_eq!(sender.deadline(), Some(Time::from_millis(50) + Duration::from_nanos(1)));
        assert_eq!(packet(&mut sender, 51), ["A 0+5002"]);
        assert_eq!(outcomes(&mut sender), [(late, Outcome::Abandoned)]);
        assert_eq!((sender.deadline(), sender.left()), (None, 0));
    }
}
