//! Two paths side by side: what happens on one is nothing to the other. A connection has one in use, and
//! this is what a second one would need (RFC 9000 §9.4; multipath extensions).

use quickset_base::{Duration, Rng};
use quickset_wire::frame::{EcnCounts, Frame, Frames, ack};
use quickset_wire::{Side, Space, Writer};

use super::*;
use crate::ack::Merged;
use crate::recovery::SentPacket;
use crate::stats::EcnState;

/// Late enough to be behind the start of a recovery period that never was (RFC 9002 §B.3).
const START: Time = Time::from_millis(1000);

fn path(to: &str, seed: u64) -> Path {
    let mut recovery = Recovery::new(Side::Client, Duration::from_millis(333));
    recovery.confirmed();
    let (address, numbering) = (Address::to(to.parse().unwrap()), Numbering::new(Rng::new(seed)));
    let mut path = Path::new(address, 1200, &cc::Algorithm::NewReno, recovery, numbering, START);
    path.ecn = Marking::new(true);
    path
}

/// Sends ten packets at once, and returns their numbers.
fn send(path: &mut Path, now: Time) -> Vec<u64> {
    let numbers = (0..10).map(|_| {
        let number = path.numbering.choose(path.recovery.next_number(Space::Data));
        let (state, marked) = (path.departs(now, 1200, false), path.ecn.is_marking());
        let packet = SentPacket { number, now, bytes: 1200, eliciting: true, in_flight: true, marked, state };
        path.recovery.on_sent(Space::Data, packet, &mut Vec::new());
        path.ecn.on_sent(1);
        number
    });
    numbers.collect()
}

/// The peer acknowledges these, and says how many of them came with ECT(0), if it counts.
fn settle(path: &mut Path, numbers: &[u64], ect0: Option<u64>, now: Time) {
    let mut bytes = [0; 1000];
    let mut w = Writer::new(&mut bytes);
    // One range for each run of numbers, newest first.
    let mut ranges: Vec<std::ops::RangeInclusive<u64>> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some(last) if *last.end() + 1 == number => *last = *last.start()..=number,
            _ => ranges.push(number..=number),
        }
    }
    ranges.reverse();
    ack(&mut w, ranges, 0, ect0.map(|ect0| EcnCounts { ect0, ect1: 0, ce: 0 }));
    let mut merged = Merged::default();
    let Some(Ok(Frame::Ack(frame))) = Frames::new(w.written()).next() else { panic!() };
    merged.add(&frame, Duration::ZERO);
    let mut settled = SettledPackets::default();
    path.recovery.on_ack(Space::Data, &merged, now, &mut settled).unwrap();
    let ce = path.ecn.on_settled(&settled.marked, settled.alive);
    path.feed(now, &settled, ce);
}

#[test]
fn numbers_losses_windows_and_marks_are_a_paths_own() {
    let (mut near, mut far) = (path("192.0.2.1:443", 1), path("198.51.100.1:443", 2));
    let initial = near.congestion.control().window;
    assert_eq!(far.congestion.control().window, initial);
    let sent = send(&mut near, START);
    assert_eq!(far.recovery.next_number(Space::Data), 0, "no number of the other's is taken");
    let other = send(&mut far, START);
    assert_eq!((sent[0], other[0]), (0, 0), "numbers begin anew (RFC 9000 §12.3)");
    assert_eq!((near.recovery.in_flight(), far.recovery.in_flight()), (12_000, 12_000));

    // All arrives by the one, with its marks; of the other's the first five are lost, and marks are bleached.
    settle(&mut near, &sent, Some(10), START + Duration::from_millis(20));
    assert_eq!((near.recovery.in_flight(), far.recovery.in_flight()), (0, 12_000));
    settle(&mut far, &other[5..], None, START + Duration::from_millis(200));
    assert_eq!((near.recovery.in_flight(), far.recovery.in_flight()), (0, 0));

    let smoothed = |path: &Path| path.recovery.rtt().smoothed();
    assert_eq!((smoothed(&near), smoothed(&far)), (Duration::from_millis(20), Duration::from_millis(200)));
    let (wide, narrow) = (near.congestion.control().window, far.congestion.control().window);
    assert_eq!(wide, initial + 12_000, "slow start (RFC 9002 §7.3.1)");
    assert_eq!(narrow, initial / 2, "one loss event (RFC 9002 §7.3.2)");
    assert_eq!((near.ecn.state(), far.ecn.state()), (EcnState::Capable, EcnState::Failed));

    // A silence of the one does not back the other off.
    send(&mut far, START + Duration::from_millis(200));
    let (at, _) = far.recovery.deadline(true).unwrap();
    far.recovery.on_time(at, true, &mut SettledPackets::default());
    assert_eq!((near.recovery.pto_count(), far.recovery.pto_count()), (0, 1));
    assert_eq!(near.recovery.deadline(true), None, "nothing of its is under way");
}
