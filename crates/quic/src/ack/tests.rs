mod asks;
mod frequency;

use std::collections::BTreeSet;

use proptest::prelude::*;
use quickset_base::{Duration, Ecn, Reason, Time};
use quickset_wire::frame::{EcnCounts, Frame, Frames};
use quickset_wire::{self as wire, Space};

use super::*;

const DELAY: Duration = Duration::from_millis(25);

fn us(us: u64) -> Time {
    Time::from_micros(us)
}

fn acks() -> Acks {
    Acks::new(Space::Data, DELAY)
}

/// What `write` produced: ranges newest first, delay, marks, tokens, and whether it elicits.
type Written = (Vec<(u64, u64)>, u64, Option<EcnCounts>, Vec<FrameToken>, bool);

fn write(acks: &mut Acks, now: Time, room: usize) -> Option<Written> {
    let mut bytes = vec![0; room];
    let mut tokens = Vec::new();
    let mut w = packet::PacketWriter::new(wire::Writer::new(&mut bytes), &mut tokens);
    if !acks.write(&mut w, now) {
        assert_eq!(w.len(), 0);
        return None;
    }
    let (len, eliciting) = (w.len(), w.is_eliciting());
    acks.check();
    match Frames::new(&bytes[..len]).next() {
        Some(Ok(Frame::Ack(ack))) => {
            let ranges = ack.ranges().map(RangeInclusive::into_inner).collect();
            Some((ranges, ack.delay, ack.ecn, tokens, eliciting))
        }
        other => panic!("{other:?}"),
    }
}

use std::ops::RangeInclusive;

#[test]
fn a_batch_is_answered_once() {
    let mut a = acks();
    for n in 0..60 {
        a.on_packet(n, us(1000), true, Ecn::NotEct);
    }
    assert_eq!(a.want(us(1000)), Want::Data);
    let (ranges, delay, ecn, tokens, eliciting) = write(&mut a, us(1801), 1200).unwrap();
    // 801 µs in units of 8.
    assert_eq!((ranges, delay, ecn, eliciting), (vec![(0, 59)], 100, None, false));
    assert_eq!(tokens, [FrameToken::Ack { space: Space::Data, largest: 59 }]);
    assert_eq!((a.want(us(9_000_000)), a.deadline()), (Want::None, None));
    assert!(write(&mut a, us(2000), 1200).is_none(), "no news");
}

/// RFC 9000 §13.2, §13.2.2.
#[test]
fn one_packet_waits_two_do_not() {
    let mut a = acks();
    a.on_packet(0, us(1000), true, Ecn::NotEct);
    assert_eq!(a.want(us(25_999)), Want::None);
    assert_eq!(a.deadline(), Some((us(26_000), Reason::AckDelay)));
    assert_eq!(a.want(us(26_000)), Want::Data);
    // What elicits nothing is never answered by itself (RFC 9000 §13.2.1), nor does it count.
    a.on_packet(1, us(2000), false, Ecn::NotEct);
    assert_eq!(a.want(us(2000)), Want::None);
    a.on_packet(2, us(3000), true, Ecn::NotEct);
    assert_eq!(a.want(us(3000)), Want::Data);
    let mut quiet = acks();
    quiet.on_packet(0, us(0), false, Ecn::NotEct);
    assert_eq!((quiet.want(us(9_999_999)), quiet.deadline()), (Want::None, None));
    assert!(write(&mut quiet, us(1), 100).is_none());
}

/// RFC 9000 §13.2.1: arrivals, whether each elicits, and whether the last is answered at once.
/// RFC 9000 §13.2.1.
#[test]
fn gaps_and_late_packets_are_told_at_once() {
    let table: [(&[(u64, bool)], bool); 7] = [
        (&[(0, true)], false),
        (&[(0, true), (2, true)], true),
        (&[(3, true)], false),
        (&[(0, true), (1, false), (2, true)], false),
        (&[(0, true), (2, false), (3, true)], true),
        (&[(0, true), (5, true), (3, true)], true),
        (&[(0, true), (5, true), (6, true)], false),
    ];
    for (arrivals, at_once) in table {
        let mut a = acks();
        for (i, &(number, eliciting)) in arrivals.iter().enumerate() {
            if i + 1 == arrivals.len() {
                write(&mut a, us(0), 1200);
            }
            a.on_packet(number, us(0), eliciting, Ecn::NotEct);
        }
        assert_eq!(a.want(us(0)) == Want::Data, at_once, "{arrivals:?}");
    }
}

#[test]
fn handshake_packets_and_marks_are_told_at_once() {
    for space in [Space::Initial, Space::Handshake] {
        let mut a = Acks::new(space, DELAY);
        a.on_packet(0, us(0), true, Ecn::NotEct);
        assert_eq!(a.want(us(0)), Want::Data);
    }
    let mut a = acks();
    a.on_packet(0, us(0), true, Ecn::Ect0);
    assert_eq!(a.want(us(0)), Want::None);
    write(&mut a, us(0), 100);
    a.on_packet(1, us(0), true, Ecn::Ce);
    a.on_packet(2, us(0), false, Ecn::Ect1);
    assert_eq!(a.want(us(0)), Want::Data);
    let (_, _, ecn, ..) = write(&mut a, us(0), 100).unwrap();
    assert_eq!(ecn, Some(EcnCounts { ect0: 1, ect1: 1, ce: 1 }));
}

/// RFC 9000 §13.4.1.
#[test]
fn marks_are_counted_by_kind_and_space() {
    let mut data = Acks::new(Space::Data, Duration::from_millis(25));
    let mut other = Acks::new(Space::Handshake, Duration::from_millis(25));
    for (number, ecn) in [Ecn::Ect0, Ecn::Ce, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1].into_iter().enumerate() {
        data.on_packet(number as u64, Time::from_millis(1), true, ecn);
    }
    other.on_packet(0, Time::from_millis(1), true, Ecn::NotEct);
    let told = |acks: &mut Acks| {
        let (mut bytes, mut tokens) = ([0; 100], Vec::new());
        let mut w = packet::PacketWriter::new(wire::Writer::new(&mut bytes), &mut tokens);
        assert!(acks.write(&mut w, Time::from_millis(1)));
        match Frames::new(&bytes).next() {
            Some(Ok(Frame::Ack(ack))) => ack.ecn,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(told(&mut data), Some(EcnCounts { ect0: 2, ect1: 1, ce: 1 }));
    assert_eq!(told(&mut other), None);
}

/// RFC 9000 §13.2.4.
#[test]
fn confirmed_ranges_are_not_told_again() {
    let mut a = acks();
    for n in [0, 1, 3, 4] {
        a.on_packet(n, us(0), true, Ecn::NotEct);
    }
    assert_eq!(write(&mut a, us(0), 100).unwrap().0, [(3, 4), (0, 1)]);
    // Late, after the frame was written: it is still to be told.
    a.on_packet(2, us(0), true, Ecn::NotEct);
    a.acked(4);
    a.check();
    assert_eq!(write(&mut a, us(0), 100).unwrap().0, [(2, 4)]);
    a.acked(4);
    assert!(a.is_duplicate(2) && a.is_duplicate(0) && !a.is_duplicate(5));
    a.on_packet(5, us(0), true, Ecn::NotEct);
    assert_eq!(a.want(us(0)), Want::None, "the gap below is none: the peer knows");
    assert_eq!(write(&mut a, us(0), 100).unwrap().0, [(5, 5)]);
}

/// RFC 9000 §13.2.3.
#[test]
fn old_ranges_are_forgotten_and_count_as_received() {
    let mut a = acks();
    for n in 0..100 {
        a.on_packet(2 * n, us(0), true, Ecn::NotEct);
        a.check();
    }
    // 64 ranges are left: 72, 74, ... 198.
    assert!(a.is_duplicate(70) && a.is_duplicate(69) && a.is_duplicate(72));
    assert!(!a.is_duplicate(73));
    let (ranges, ..) = write(&mut a, us(0), 1200).unwrap();
    assert_eq!((ranges.len(), ranges[63]), (64, (72, 72)));
    a.on_packet(201, us(0), true, Ecn::NotEct);
    assert_eq!(write(&mut a, us(0), 20).unwrap().0[0], (201, 201), "as many ranges as fit");
    a.on_packet(202, us(0), true, Ecn::NotEct);
    assert!(write(&mut a, us(0), 3).is_none());
    assert_eq!(write(&mut a, us(0), 100).unwrap().0[0], (201, 202), "what did not fit comes later");
}

#[test]
fn a_receiver_that_hears_nothing_of_its_acks_asks_now_and_then() {
    let mut a = acks();
    let mut pings = 0;
    for n in 0..1000 {
        a.on_packet(2 * n, us(0), true, Ecn::NotEct);
        pings += u32::from(write(&mut a, us(0), 1200).unwrap().4);
    }
    assert!((30..=62).contains(&pings), "{pings}");
    let mut a = acks();
    let asks: Vec<u64> = (0..1000)
        .filter(|n| {
            a.on_packet(*n, us(0), true, Ecn::NotEct);
            write(&mut a, us(0), 1200).unwrap().4
        })
        .collect();
    assert_eq!(
        asks,
        [255, 511, 767],
        "one range needs no pruning; the packets are kept until something is heard"
    );
}

#[test]
fn merged_frames_are_the_union() {
    fn frame(m: &mut Merged, ranges: &[(u64, u64)], delay: u64, ecn: Option<EcnCounts>) {
        let mut bytes = [0; 200];
        let mut w = wire::Writer::new(&mut bytes);
        frame::ack(&mut w, ranges.iter().map(|&(a, b)| a..=b), 0, ecn);
        let Some(Ok(Frame::Ack(ack))) = Frames::new(w.written()).next() else { panic!() };
        m.add(&ack, Duration::from_micros(delay));
    }
    let mut m = Merged::default();
    assert!(m.take().is_none());
    frame(&mut m, &[(10, 12), (3, 4)], 100, Some(EcnCounts { ect0: 5, ect1: 0, ce: 1 }));
    frame(&mut m, &[(13, 15), (5, 8)], 200, None);
    // An older frame that came late: its delay is not that of the largest.
    frame(&mut m, &[(9, 9)], 900, Some(EcnCounts { ect0: 4, ect1: 1, ce: 0 }));
    let taken = m.take().unwrap();
    assert_eq!(taken.ranges().iter().collect::<Vec<_>>(), [3..=15]);
    assert_eq!((taken.largest(), taken.delay()), (Some(15), Duration::from_micros(200)));
    assert_eq!(taken.ecn(), Some(EcnCounts { ect0: 5, ect1: 1, ce: 1 }));
    m.restore(taken);
    assert!(m.take().is_none() && m.ecn().is_none());
}

#[test]
fn absurd_frames_cost_bounded_memory() {
    let mut m = Merged::default();
    for round in 0..10u64 {
        let mut bytes = vec![0; 4096];
        let mut w = wire::Writer::new(&mut bytes);
        let top = 1_000_000 + 2000 * round;
        frame::ack(&mut w, (0..900).map(|i| top - 2 * i..=top - 2 * i), 0, None);
        let Some(Ok(Frame::Ack(ack))) = Frames::new(w.written()).next() else { panic!() };
        m.add(&ack, Duration::ZERO);
    }
    let taken = m.take().unwrap();
    assert!(taken.ranges().len() <= 1024);
    assert_eq!(taken.largest(), Some(1_018_000));
}

#[derive(Clone, Debug)]
enum Edit {
    One(u64),
    Range(u64, u64),
    Below(u64),
    Pop,
}

fn edit() -> impl Strategy<Value = Edit> {
    let near = 0u64..200;
    prop_oneof![
        4 => near.clone().prop_map(Edit::One),
        2 => (near.clone(), 0u64..30).prop_map(|(a, n)| Edit::Range(a, a + n)),
        1 => near.prop_map(Edit::Below),
        1 => Just(Edit::Pop),
    ]
}

proptest! {
    #[test]
    fn range_sets_are_sets(edits in prop::collection::vec(edit(), 1..200)) {
        let mut set = RangeSet::default();
        let mut model = BTreeSet::new();
        for edit in edits {
            match edit {
                Edit::One(n) => prop_assert_eq!(set.insert(n), model.insert(n)),
                Edit::Range(a, b) => {
                    set.insert_range(a..=b);
                    model.extend(a..=b);
                }
                Edit::Below(n) => {
                    set.remove_below(n);
                    model = model.split_off(&n);
                }
                Edit::Pop => match set.pop_oldest() {
                    None => prop_assert!(model.is_empty()),
                    Some(range) => {
                        prop_assert!(range.clone().all(|n| model.remove(&n)));
                        prop_assert!(!model.contains(&(range.end() + 1)));
                    }
                },
            }
            let listed: Vec<u64> = set.iter().flat_map(Iterator::rev).collect();
            prop_assert_eq!(listed, model.iter().rev().copied().collect::<Vec<_>>());
            let mut missing = 240;
            for n in (0..240).rev() {
                missing = if model.contains(&n) { missing } else { n };
                prop_assert_eq!(set.first_missing(n), missing);
            }
            let ranges: Vec<_> = set.iter().collect();
            prop_assert!(ranges.windows(2).all(|w| w[1].end() + 1 < *w[0].start()), "ranges touch");
            prop_assert!((0..240).all(|n| set.contains(n) == model.contains(&n)));
            prop_assert_eq!((set.len(), set.is_empty()), (ranges.len(), model.is_empty()));
            prop_assert_eq!(set.newest().map(|r| *r.end()), model.last().copied());
        }
    }
}

#[test]
fn range_sets_reach_to_the_ends() {
    let mut set = RangeSet::default();
    set.insert(u64::MAX);
    set.insert(u64::MAX - 1);
    set.insert(0);
    set.insert_range(u64::MAX..=u64::MAX);
    assert_eq!(set.iter().collect::<Vec<_>>(), [u64::MAX - 1..=u64::MAX, 0..=0]);
    set.insert_range(0..=u64::MAX);
    assert_eq!(set.iter().collect::<Vec<_>>(), [0..=u64::MAX]);
}
