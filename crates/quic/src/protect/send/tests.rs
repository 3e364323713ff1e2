//! Lanes against the rules of the specification, event by event.

use quickset_base::{Duration, Time};

use super::lane::{Lane, RecoveredTokens, Review, ReviewPatience};
use super::{PeerDecoder, ProtectSending};
use crate::packet::{FrameToken, Packed, StreamKey};
use crate::protect::policy::RepairCode;

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

fn token(offset: u64) -> FrameToken {
    FrameToken::Stream { key: StreamKey { index: 0, generation: 0 }, offset, len: 1, fin: false }
}

fn patience(now: Time) -> ReviewPatience {
    ReviewPatience {
        now,
        wait: Duration::from_millis(137),
        ahead: Duration::from_millis(50),
        rate: 0.01,
        sensitivity: -0.01,
    }
}

/// The SID of a symbol that is sent now.
fn push(lane: &mut Lane, packed: Packed<'_>, now: Time) -> u64 {
    let sid = lane.next();
    lane.push(packed, now, |_| None);
    sid
}

fn packed(bytes: &[u8], packet: u64) -> Packed<'_> {
    Packed { bytes, packet, unmarked: false, frame: None }
}

/// A lane with `k` symbols, the n-th in packet n.
fn lane(code: RepairCode, k: u64) -> Lane {
    let mut lane = Lane::new(code.scheme() as u32, code, 1024, 100, 0);
    for sid in 0..k {
        assert_eq!(push(&mut lane, packed(&[sid as u8; 50], sid), ms(sid)), sid);
    }
    lane
}

fn send_repairs(lane: &mut Lane, now: Time) -> Vec<(u64, u64, u64, u64)> {
    let (mut sent, mut data) = (Vec::new(), Vec::new());
    while let Some((made, bytes)) = lane.repair(&mut data) {
        sent.push((made.first, made.count, made.parameter, made.index));
        let bytes = bytes.len();
        lane.repair_sent(&made, bytes, now);
    }
    sent
}

const RS: RepairCode = RepairCode::ReedSolomon { stride: 1 };

#[test]
fn a_block_is_cut_into_interleaved_parts_of_at_most_128() {
    // k = 300: m = 3 parts of 100; 15 repairs, 5 for each.
    let mut lane = lane(RS, 300);
    lane.plan(15);
    let sent = send_repairs(&mut lane, ms(300));
    let expected: Vec<_> = (0..3).flat_map(|part| (0..5).map(move |i| (part, 100, 3, i))).collect();
    assert_eq!(sent, expected);
    assert_eq!(lane.view(&Review::default()).open, 0, "the first repair closes the block");
    lane.check();
}

#[test]
fn a_single_symbol_has_its_repair() {
    let mut lane = lane(RS, 1);
    lane.plan(1);
    assert_eq!(send_repairs(&mut lane, ms(1)), [(0, 1, 1, 0)]);
}

#[test]
fn rows_go_ahead_and_columns_close_the_block() {
    // 2D with 4 columns and 3 rows; ten symbols make two whole rows and half of one.
    let mut lane = lane(RepairCode::Xor2d { rows: 3, columns: 4 }, 10);
    lane.plan(2);
    assert_eq!(
        send_repairs(&mut lane, ms(10)),
        [(0, 4, 4, 4), (0, 8, 4, 5)],
        "rows, each over its own count"
    );
    lane.plan(5);
    let rest = send_repairs(&mut lane, ms(11));
    assert_eq!(rest, [(0, 10, 4, 6), (0, 10, 4, 0), (0, 10, 4, 1), (0, 10, 4, 2), (0, 10, 4, 3)]);
    assert_eq!(lane.view(&Review::default()).open, 0);
}

#[test]
fn what_repair_in_flight_covers_waits_and_the_rest_is_repeated_at_once() {
    let mut lane = lane(RS, 100);
    assert_eq!(lane.lost(3, vec![token(3)]), None);
    lane.review(&patience(ms(100)));
    assert!(lane.owes_repeat(), "nothing in flight covers it");
    assert_eq!(lane.repeat(|_| true), Some(3));
    assert_eq!(lane.repeated(3, 200, ms(100)), [token(3)]);

    lane.plan(5);
    send_repairs(&mut lane, ms(101));
    lane.lost(4, vec![token(4)]);
    let review = lane.review(&patience(ms(110)));
    assert!(!lane.owes_repeat(), "five repairs cover it");
    assert_eq!((review.md, review.ad), (1, 5));
    assert_eq!(review.until, Some(ms(101 + 137)), "9/8 RTT and the peer's delay after the last repair");
    lane.review(&patience(ms(238)));
    assert!(lane.owes_repeat(), "the repairs should have told by now");
    lane.check();
}

/// FEC-52, rule 1: nobody repairs it, so nobody would ever release it.
#[test]
fn what_is_lost_of_a_block_without_repair_is_repeated_at_once() {
    let mut lane = lane(RS, 10);
    lane.close();
    assert_eq!(lane.lost(3, vec![token(3)]), None);
    lane.review(&patience(ms(11)));
    assert!(lane.owes_repeat());
    assert_eq!(lane.repeat(|_| true), Some(3));
}

/// FEC-52, rule 3: the repair of class 0 arrived and brought nothing back, so the block is not to be whole.
#[test]
fn repair_that_arrived_in_vain_releases_the_span() {
    let mut lane = lane(RepairCode::Xor { depth: 2 }, 8);
    lane.plan(2);
    send_repairs(&mut lane, ms(8));
    for sid in [2, 3, 4] {
        lane.lost(sid, vec![token(sid)]);
    }
    lane.review(&patience(ms(20)));
    assert_eq!(lane.repeat(|_| true), Some(2), "md = 3, ad = 2: the oldest");
    lane.repeated(2, 100, ms(20));
    lane.review(&patience(ms(21)));
    assert!(!lane.owes_repeat(), "a repair in flight for each of the others");
    lane.repair_settled(0, true);
    lane.review(&patience(ms(22)));
    for sid in [3, 4] {
        assert_eq!(lane.repeat(|_| true), Some(sid));
        lane.repeated(sid, 100 + sid, ms(22));
    }
}

#[test]
fn more_losses_than_repair_release_the_oldest() {
    let mut lane = lane(RS, 100);
    lane.plan(2);
    send_repairs(&mut lane, ms(100));
    for sid in [10, 20, 30, 40, 50] {
        lane.lost(sid, vec![token(sid)]);
    }
    // md = 5, ad = 2: three are beyond repair, the oldest.
    lane.review(&patience(ms(110)));
    for sid in [10, 20, 30] {
        assert_eq!(lane.repeat(|_| true), Some(sid));
        lane.repeated(sid, 300 + sid, ms(110));
    }
    assert!(!lane.owes_repeat());
    let review = lane.review(&patience(ms(111)));
    assert_eq!((review.md, review.ad), (2, 2));
    assert_eq!(lane.counts().failed_blocks, 1);
}

#[test]
fn a_recovered_symbol_is_settled_where_its_tokens_are() {
    let mut lane = lane(RS, 10);
    lane.plan(2);
    send_repairs(&mut lane, ms(10));
    lane.lost(1, vec![token(1)]);
    assert_eq!(lane.recovered(1), RecoveredTokens::Held(vec![token(1)]));
    assert_eq!(lane.recovered(1), RecoveredTokens::Known);
    assert_eq!(lane.recovered(2), RecoveredTokens::InFlight(2), "its packet is not known to be lost");
    // Its packet is lost later, and holds nothing then.
    assert_eq!(lane.lost(2, vec![]), None);
    let review = lane.review(&patience(ms(20)));
    assert_eq!((review.md, lane.owes_repeat()), (0, false));
    for sid in [0, 3, 4, 5, 6, 7, 8, 9] {
        lane.acked(sid..sid + 1);
    }
    lane.check();
    assert!(lane.is_idle());
}

/// FEC-53, and FEC-44: a report of what is dead is ignored.
#[test]
fn what_nobody_wants_any_more_is_given_up_instead_of_repeated() {
    let mut lane = lane(RepairCode::Rlc, 3);
    lane.lost(0, vec![token(0)]);
    lane.lost(1, vec![token(1)]);
    lane.review(&patience(ms(3)));
    assert_eq!(lane.repeat(|t| t == token(1)), Some(1));
    assert_eq!(lane.orphan(), Some(token(0)));
    assert_eq!(lane.orphan(), None);
    assert_eq!(lane.recovered(0), RecoveredTokens::Known, "a dead symbol is not settled twice");
}

#[test]
fn the_window_passes_over_symbols_and_they_are_dead() {
    let mut lane = lane(RepairCode::Rlc, 1024);
    lane.lost(0, vec![token(0)]);
    lane.push(packed(&[7; 50], 1024), ms(2000), |_| None);
    assert_eq!(lane.orphan(), Some(token(0)));
    assert_eq!(lane.live(), 1..1025);
    // Its packet is lost after the window went on.
    lane.push(packed(&[7; 50], 1025), ms(2001), |_| None);
    assert_eq!(lane.lost(1, vec![token(1)]), Some(vec![token(1)]), "nothing will recover it");
    lane.check();
}

/// FEC-26: symbol 7 was acknowledged, and is summed all the same.
#[test]
fn a_window_repair_covers_first_to_next() {
    let mut lane = lane(RepairCode::Rlc, 20);
    for sid in 0..5 {
        lane.acked(sid..sid + 1);
    }
    lane.acked(7..7 + 1);
    lane.tidy();
    assert_eq!(lane.view(&Review::default()).unprotected, 14);
    lane.plan(2);
    assert_eq!(send_repairs(&mut lane, ms(20)), [(5, 15, 0, 0), (5, 15, 0, 1)]);
    assert_eq!(lane.view(&Review::default()).unprotected, 0);
    lane.push(packed(&[1; 50], 30), ms(30), |_| None);
    let view = lane.view(&Review::default());
    assert_eq!((view.unprotected, view.first_unprotected, view.outstanding), (1, Some(ms(30)), 15));
}

#[test]
fn a_probe_repeats_before_anything_else() {
    let mut lane = lane(RepairCode::Rlc, 4);
    lane.plan(1);
    send_repairs(&mut lane, ms(4));
    lane.lost(1, vec![token(1)]);
    lane.review(&patience(ms(5)));
    assert!(!lane.owes_repeat());
    lane.release_all();
    assert!(lane.is_urgent() && lane.owes_repeat());
    assert_eq!(lane.probed(0, vec![token(0)]), None);
    for sid in [0, 1] {
        assert_eq!(lane.repeat(|_| true), Some(sid));
        assert_eq!(lane.repeated(sid, 50 + sid, ms(6)), [token(sid)]);
    }
    assert_eq!(lane.repeat(|_| true), None);
    assert!(!lane.is_urgent());
}

/// Repair waits for the congestion window; what is known meanwhile to have arrived needs none.
#[test]
fn parts_that_have_arrived_get_no_repair() {
    let mut lane = lane(RS, 300);
    lane.plan(15);
    // Of the first part one symbol is on its way, of the others none.
    (0..300).filter(|sid| *sid != 30).for_each(|sid| lane.acked(sid..sid + 1));
    lane.tidy();
    let sent = send_repairs(&mut lane, ms(300));
    assert_eq!(sent, (0..5).map(|i| (0, 100, 3, i)).collect::<Vec<_>>());
    lane.acked(30..30 + 1);
    lane.tidy();
    assert!(lane.is_idle());
}

/// FEC-18, FEC-55: nothing of what does not fit a packet any more is repeated, now or later.
#[test]
fn what_does_not_fit_is_dead() {
    let mut lane = lane(RS, 10);
    lane.plan(2);
    send_repairs(&mut lane, ms(10));
    lane.lost(2, vec![token(2)]);
    lane.lost(5, vec![token(5)]);
    lane.give_up();
    let back: Vec<FrameToken> = std::iter::from_fn(|| lane.orphan()).collect();
    assert_eq!(back.len(), 2);
    lane.review(&patience(ms(500)));
    assert!(!lane.owes_repeat());
    assert_eq!(lane.recovered(2), RecoveredTokens::Known);
    lane.check();
}

/// What each code sends, whatever it is asked for: FEC-14, FEC-23, FEC-27, FEC-29, FEC-30, FEC-31, FEC-32,
/// FEC-33, FEC-34.
#[test]
fn no_repair_is_sent_twice_and_each_is_within_bounds() {
    const WINDOW: u64 = 40;
    let codes = [
        RepairCode::Xor { depth: 4 },
        RepairCode::Xor2d { rows: 3, columns: 5 },
        RS,
        RepairCode::ReedSolomon { stride: 3 },
        RepairCode::Ldpc,
        RepairCode::Rlc,
    ];
    for code in codes {
        let mut lane = Lane::new(8 + code.scheme() as u32, code, WINDOW, 100, 0);
        let (mut seen, mut first_before) = (std::collections::BTreeSet::new(), 0);
        for round in 0..200u64 {
            for n in 0..round * 7 % 23 {
                let next = lane.next();
                assert_eq!(push(&mut lane, packed(&[n as u8; 30], next), ms(round)), next, "no gaps");
            }
            lane.plan((round * 5 % 300) as u32 + 1);
            for repair in send_repairs(&mut lane, ms(round)) {
                let (first, count, parameter, index) = repair;
                assert!(seen.insert(repair), "{code:?}: {repair:?} twice");
                let stride = if matches!(code, RepairCode::ReedSolomon { .. }) { parameter } else { 1 };
                let last = first + (count - 1) * stride;
                assert!(count > 0 && last - first < WINDOW && last < lane.next(), "{code:?}: {repair:?}");
                match code {
                    RepairCode::Xor { .. } => assert!(parameter >= 1 && index < parameter.min(count)),
                    RepairCode::Xor2d { .. } => {
                        let is_column = index < parameter.min(count);
                        let is_row = index >= parameter && (index - parameter) * parameter < count;
                        assert!(parameter >= 1 && (is_column || is_row), "{repair:?}");
                    }
                    RepairCode::ReedSolomon { .. } => assert!(parameter >= 1 && count + index <= 255),
                    RepairCode::Ldpc => {
                        assert!(count >= 2 && (3..=WINDOW).contains(&parameter) && index < parameter);
                    }
                    RepairCode::Rlc => {
                        assert!(parameter == 0 && first >= first_before, "{repair:?}");
                        first_before = first;
                    }
                }
            }
            lane.check();
        }
        assert!(seen.len() > 100, "{code:?}: {}", seen.len());
    }
}

/// FEC-46.
#[test]
fn an_old_window_is_no_news() {
    let schemes = quickset_wire::Schemes::ALL;
    let mut sending = ProtectSending::default();
    sending.set_peer(PeerDecoder { window: 100, sessions: 4, symbol: 1200, schemes, unmarked: 0 });
    for (epoch, window, now) in [(2, 50, 50), (1, 70, 50), (2, 80, 50), (3, 90, 90), (7, 0, 0), (5, 60, 0)] {
        sending.set_window(epoch, window);
        assert_eq!(sending.peer.map(|peer| peer.window), Some(now), "epoch {epoch}");
    }
}

/// FEC-51: whatever happens in whatever order, each token leaves once.
mod fates {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_token_leaves_once(
            code in prop_oneof![Just(RS), Just(RepairCode::Rlc), Just(RepairCode::Xor { depth: 4 }),
                Just(RepairCode::Xor2d { rows: 4, columns: 5 })],
            steps in prop::collection::vec((0u8..9, any::<u16>()), 1..300),
        ) {
            let mut lane = Lane::new(8 + code.scheme() as u32, code, 64, 100, 0);
            let (mut now, mut number) = (Time::ZERO, 0);
            // Packets in flight, by number: the symbol, and whether its token is still there.
            let mut packets: Vec<(u64, u64, bool)> = Vec::new();
            let mut repairs: Vec<u64> = Vec::new();
            let mut settled: Vec<u64> = Vec::new();
            for (what, pick) in steps {
                now += Duration::from_millis(7);
                match what {
                    0..=2 => {
                        let sid = push(&mut lane, packed(&[pick as u8; 20], number), now);
                        packets.push((number, sid, true));
                        number += 1;
                    }
                    3 if !packets.is_empty() => {
                        let (_, sid, there) = packets.remove(pick as usize % packets.len());
                        if there {
                            settled.push(sid);
                        }
                        lane.acked(sid..sid + 1);
                    }
                    4 if !packets.is_empty() => {
                        let (_, sid, there) = packets.remove(pick as usize % packets.len());
                        let tokens = if there { vec![token(sid)] } else { vec![] };
                        for back in lane.lost(sid, tokens).into_iter().flatten() {
                            prop_assert_eq!(back, token(sid));
                            settled.push(sid);
                        }
                    }
                    5 => {
                        let live = lane.live();
                        if !live.is_empty() {
                            let sid = live.start + u64::from(pick) % (live.end - live.start);
                            match lane.recovered(sid) {
                                RecoveredTokens::Known => {}
                                RecoveredTokens::Held(tokens) => settled.extend(tokens.iter().map(|_| sid)),
                                RecoveredTokens::InFlight(in_packet) => {
                                    let packet = packets.iter_mut().find(|(n, s, _)| (*n, *s) == (in_packet, sid));
                                    let packet = packet.expect("the packet is in flight");
                                    prop_assert!(std::mem::take(&mut packet.2), "taken twice");
                                    settled.push(sid);
                                }
                            }
                            lane.tidy();
                        }
                    }
                    6 => {
                        lane.plan(u32::from(pick) % 4 + 1);
                        let mut data = Vec::new();
                        let mut serial = lane.next_repair();
                        while let Some((made, bytes)) = lane.repair(&mut data) {
                            let bytes = bytes.len();
                            repairs.push(serial);
                            lane.repair_sent(&made, bytes, now);
                            serial = lane.next_repair();
                        }
                    }
                    7 if !repairs.is_empty() => {
                        let serial = repairs.remove(pick as usize % repairs.len());
                        lane.repair_settled(serial, pick % 3 > 0);
                    }
                    _ => {
                        lane.review(&patience(now));
                        while let Some(sid) = lane.repeat(|_| pick % 5 > 0) {
                            let tokens = lane.repeated(sid, number, now);
                            prop_assert_eq!(&tokens, &vec![token(sid)]);
                            packets.push((number, sid, true));
                            number += 1;
                        }
                    }
                }
                while let Some(FrameToken::Stream { offset, .. }) = lane.orphan() {
                    settled.push(offset);
                }
                lane.check();
            }
            lane.give_up();
            while let Some(FrameToken::Stream { offset, .. }) = lane.orphan() {
                settled.push(offset);
            }
            settled.extend(packets.iter().filter(|(_, _, there)| *there).map(|(_, sid, _)| *sid));
            settled.sort_unstable();
            let all: Vec<u64> = (0..lane.live().end).collect();
            prop_assert_eq!(settled, all, "a token was lost, or settled twice");
        }
    }
}

/// FEC-52, rule 5.
#[test]
fn repair_without_end_does_not_keep_a_symbol_for_ever() {
    let mut lane = lane(RepairCode::Rlc, 10);
    lane.lost(3, vec![token(3)]);
    let mut released = None;
    for now in 11..400 {
        lane.plan(1);
        send_repairs(&mut lane, ms(now));
        lane.review(&patience(ms(now)));
        if lane.owes_repeat() {
            released = Some(now);
            break;
        }
    }
    assert_eq!(released, Some(11 + 137), "9/8 RTT and the peer's delay after its loss was seen");
}

/// FEC-52, rule 1: rows that arrived in vain do not release what columns of the open block will cover soon.
#[test]
fn columns_that_follow_soon_are_waited_for() {
    let mut lane = lane(RepairCode::Xor2d { rows: 3, columns: 4 }, 8);
    lane.plan(2);
    send_repairs(&mut lane, ms(8));
    assert_eq!(lane.lost(0, vec![token(0)]), None);
    assert_eq!(lane.lost(1, vec![token(1)]), None);
    lane.repair_settled(0, true);
    // Eight symbols in 20 ms: four more take ten.
    let review = lane.review(&patience(ms(20)));
    assert_eq!((review.until, lane.owes_repeat()), (Some(ms(70)), false));
    // The sender paused: at the pace of 8 in 100 ms it is just soon enough, and later no more.
    lane.review(&patience(ms(100)));
    assert!(!lane.owes_repeat());
    lane.review(&patience(ms(101)));
    assert!(lane.owes_repeat());
    lane.check();
}

/// FEC-52, rule 3: what one repair of a grid brings back makes another of use.
#[test]
fn where_rows_and_columns_cross_none_is_in_vain_alone() {
    let mut lane = lane(RepairCode::Xor2d { rows: 2, columns: 4 }, 8);
    lane.plan(6);
    send_repairs(&mut lane, ms(8));
    for sid in [0, 1, 4] {
        assert_eq!(lane.lost(sid, vec![token(sid)]), None);
    }
    // The row and the column of symbol 0 arrived. Those of 1 and of 4 are to come.
    lane.repair_settled(0, true);
    lane.repair_settled(2, true);
    lane.review(&patience(ms(20)));
    assert!(!lane.owes_repeat());
    for serial in [1, 3, 4, 5] {
        lane.repair_settled(serial, true);
    }
    lane.review(&patience(ms(21)));
    assert!(lane.owes_repeat());
    lane.check();
}

/// FEC-66, FEC-68: the first symbols of a session, as long as the peer keeps what packets hold, by the
/// numbers of those.
#[test]
fn unmarked_symbols_are_the_first_and_are_named_by_their_packets() {
    let mut lane = Lane::new(4, RepairCode::Rlc, 64, 100, 8);
    let plain = lane.repair_header();
    let in_packet = |lane: &mut Lane, number, unmarked| {
        push(lane, Packed { bytes: &[1; 50], packet: number, unmarked, frame: None }, Time::ZERO)
    };
    assert!(lane.may_be_unmarked(0) && lane.may_be_unmarked(7) && !lane.may_be_unmarked(8));
    for (sid, number) in [(0, 1), (1, 2), (2, 4)] {
        assert!(lane.may_be_unmarked(number));
        assert_eq!(in_packet(&mut lane, number, true), sid);
    }
    assert_eq!(in_packet(&mut lane, 5, false), 3);
    assert!(!lane.may_be_unmarked(6), "one before it is marked");
    // The vector of the page.
    assert_eq!([0, 2, 3].map(|first| lane.unmarked().told_with(first)), [0x16, 0x16, 0]);
    assert_eq!(lane.repair_header(), plain);
    (0..4).for_each(|sid| lane.acked(sid..sid + 1));
    lane.tidy();
    assert_eq!(lane.repair_header(), plain - 11, "type, session, and bits of at most 8 bytes");

    // Where nothing is kept nothing is named.
    let mut lane = Lane::new(4, RepairCode::Rlc, 64, 100, 0);
    assert!(!lane.may_be_unmarked(0));
    assert_eq!(lane.repair_header(), plain - 11);
    in_packet(&mut lane, 0, false);
    assert_eq!(lane.unmarked().told_with(0), 0);
}
