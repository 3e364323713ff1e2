//! draft-ietf-quic-ack-frequency, and acknowledgements that recovery asks for.

use quickset_wire::TransportErrorCode as Code;

use super::*;

/// What the peer may ask for at least.
const LEAST: Duration = Duration::from_millis(1);

fn asked(threshold: u64, max_delay_us: u64, reordering: u64) -> Acks {
    let mut a = agreed();
    ask(&mut a, 0, threshold, max_delay_us, reordering).expect("a good request");
    a
}

fn agreed() -> Acks {
    let mut a = acks();
    a.offer(Some(LEAST));
    a
}

fn ask(a: &mut Acks, sequence: u64, threshold: u64, max_delay_us: u64, reordering: u64) -> Result<(), Code> {
    let frame = Frame::AckFrequency { sequence, threshold, max_delay_us, reordering };
    a.on_frame(&frame, us(0)).map_err(|e| e.code)
}

fn receive(a: &mut Acks, number: u64, now: Time) {
    a.on_packet(number, now, true, Ecn::NotEct);
    a.check();
}

/// Arrivals one by one, acknowledged only where they call for it; those at which they did.
fn answered(mut a: Acks, arrivals: &[u64], confirm: bool) -> Vec<u64> {
    let mut at_once = Vec::new();
    for &number in arrivals {
        // What came after its absence was reported and the report confirmed is dropped as too old.
        if a.is_duplicate(number) {
            continue;
        }
        receive(&mut a, number, us(0));
        if a.want(us(0)) == Want::Data {
            let (ranges, ..) = write(&mut a, us(0), 1200).expect("there is news");
            at_once.push(number);
            if confirm {
                a.acked(ranges[0].1);
                a.check();
            }
        }
    }
    at_once
}

/// draft-ietf-quic-ack-frequency §6.2.1, tables 1 and 2. Whether the peer knows of our reports changes
/// nothing.
#[test]
fn reordering_is_told_when_the_threshold_is_reached() {
    for confirm in [false, true] {
        let of = |reordering, arrivals: &[u64]| answered(asked(100, 25_000, reordering), arrivals, confirm);
        assert_eq!(of(3, &[0, 1, 3, 4, 5, 8, 9, 10]), [5, 9, 10]);
        assert_eq!(of(5, &[0, 1, 3, 5, 6, 7, 8, 9]), [7, 9]);
        assert_eq!(of(1, &[0, 1, 3, 4, 5, 8]), [3, 8], "as without a request");
        assert!(of(0, &[0, 1, 3, 4, 5, 8, 2, 20, 9]).is_empty(), "0: never");
        // The second condition: 2 comes when the report of 5 has let the peer declare it lost, 4 does not.
        assert_eq!(of(3, &[0, 1, 3, 5, 2, 4]), if confirm { &[5][..] } else { &[5, 2] });
    }
}

#[test]
fn as_many_packets_wait_as_the_peer_says() {
    let mut a = asked(9, 100_000, 1);
    for n in 0..9 {
        receive(&mut a, n, us(n));
        assert_eq!(a.want(us(n)), Want::None);
    }
    assert_eq!(a.deadline(), Some((us(100_000), Reason::AckDelay)), "the delay asked for, not ours");
    receive(&mut a, 9, us(9));
    assert_eq!(a.want(us(9)), Want::Data);

    let mut each = asked(0, 1000, 1);
    receive(&mut each, 0, us(0));
    assert_eq!(each.want(us(0)), Want::Data, "0: every packet");

    // A shorter delay holds for what waits already.
    let mut a = agreed();
    receive(&mut a, 0, us(0));
    assert_eq!(a.deadline(), Some((us(25_000), Reason::AckDelay)));
    ask(&mut a, 7, 1, 2000, 1).unwrap();
    assert_eq!(a.deadline(), Some((us(2000), Reason::AckDelay)));
    // Obsolete: frames can overtake each other.
    ask(&mut a, 7, 50, 1000, 1).unwrap();
    ask(&mut a, 6, 50, 1000, 1).unwrap();
    receive(&mut a, 1, us(0));
    assert_eq!(a.want(us(0)), Want::Data);
}

#[test]
fn impossible_requests_are_violations() {
    let mut a = agreed();
    assert_eq!(ask(&mut a, 0, 1, 999, 1), Err(Code::PROTOCOL_VIOLATION), "below our min_ack_delay");
    assert_eq!(ask(&mut a, 0, 1, 16_384_000, 1), Err(Code::PROTOCOL_VIOLATION), "2^14 ms");
    assert_eq!(ask(&mut a, 0, u64::MAX >> 2, 16_383_999, u64::MAX >> 2), Ok(()));
    receive(&mut a, 3, us(0));
    assert_eq!(a.want(us(16_383_998)), Want::None);

    // Nothing was offered: unknown frames, and nobody is asked either.
    let mut silent = acks();
    silent.offer(None);
    assert_eq!(ask(&mut silent, 0, 1, 1000, 1), Err(Code::FRAME_ENCODING_ERROR));
    let refused = silent.on_frame(&Frame::ImmediateAck, us(0)).map_err(|e| e.code);
    assert_eq!(refused, Err(Code::FRAME_ENCODING_ERROR));
}

#[test]
fn immediate_ack_is_answered_at_once_and_once() {
    let mut a = asked(100, 25_000, 0);
    for n in 0..40 {
        a.on_frame(&Frame::ImmediateAck, us(n)).unwrap();
        receive(&mut a, n, us(n));
    }
    assert_eq!(a.want(us(40)), Want::Data);
    assert_eq!(write(&mut a, us(40), 1200).unwrap().0, [(0, 39)]);
    assert_eq!((a.want(us(9_000_000)), a.deadline()), (Want::None, None));
    receive(&mut a, 40, us(50));
    assert_eq!(a.want(us(50)), Want::None, "one request, one answer");
}

/// draft-ietf-quic-ack-frequency §6.3.
#[test]
fn the_first_of_several_marks_is_told_at_once() {
    for (threshold, expected) in
        [(1, [false, true, true, false, true]), (5, [false, true, false, false, true])]
    {
        let mut a = asked(threshold, 25_000, 1);
        let marks = [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ect0, Ecn::Ce];
        for (number, (mark, at_once)) in (0..).zip(marks.into_iter().zip(expected)) {
            a.on_packet(number, us(0), true, mark);
            assert_eq!(a.want(us(0)) == Want::Data, at_once, "threshold {threshold}, packet {number}");
            write(&mut a, us(0), 1200);
        }
    }
}

/// FEC-40.
#[test]
fn a_recovery_is_told_at_once() {
    let mut a = agreed();
    a.soon(us(500));
    assert_eq!((a.want(us(500)), a.deadline()), (Want::None, None), "nothing was received");
    receive(&mut a, 0, us(1000));
    assert_eq!(a.want(us(1000)), Want::None);
    a.soon(us(1000));
    a.check();
    assert_eq!(a.want(us(1000)), Want::Data);
    assert_eq!(write(&mut a, us(1000), 1200).unwrap().0, [(0, 0)]);

    // The next one within min_ack_delay waits until that is over, even if no packet has to be acknowledged.
    a.soon(us(1200));
    a.soon(us(1300));
    a.check();
    assert_eq!(a.want(us(1999)), Want::None);
    assert_eq!(a.deadline(), Some((us(2000), Reason::AckDelay)));
    assert_eq!(a.want(us(2000)), Want::Data);
    assert_eq!(write(&mut a, us(2000), 1200).unwrap().0, [(0, 0)]);
    assert!(write(&mut a, us(2000), 1200).is_none(), "once");

    // After the peer has confirmed everything there is still something to say it beside.
    receive(&mut a, 1, us(3000));
    write(&mut a, us(3000), 1200);
    a.acked(1);
    a.check();
    a.soon(us(10_000));
    a.check();
    assert_eq!(write(&mut a, us(10_000), 1200).unwrap().0, [(1, 1)]);
    assert!(a.is_duplicate(0) && a.is_duplicate(1) && !a.is_duplicate(2));
}

proptest! {
    /// The definitions of draft-ietf-quic-ack-frequency §6.2 word by word, over sets of numbers.
    #[test]
    fn reordering_follows_the_definitions(
        reordering in 2u64..8,
        steps in prop::collection::vec((0u64..4, any::<bool>()), 1..60),
        shuffle in prop::collection::vec(any::<prop::sample::Index>(), 60),
    ) {
        let mut arrivals: Vec<u64> = Vec::new();
        let mut next = 0;
        for (gap, _) in &steps {
            next += u64::from(*gap == 3);
            arrivals.push(next);
            next += 1;
        }
        for (at, with) in shuffle.iter().enumerate().take(arrivals.len() / 4) {
            let with = with.index(6).min(arrivals.len() - 1 - at);
            arrivals.swap(at, at + with);
        }
        let mut a = asked(1000, 25_000, reordering);
        let mut received = BTreeSet::new();
        let mut largest_acked: Option<u64> = None;
        for (number, (_, confirm)) in arrivals.into_iter().zip(steps) {
            if a.is_duplicate(number) {
                continue;
            }
            received.insert(number);
            let largest_unacked = *received.last().expect("one at least");
            let reported_missing = largest_acked.and_then(|acked| acked.checked_sub(reordering));
            let unreported = (0..largest_unacked)
                .filter(|n| !received.contains(n) && reported_missing.is_none_or(|m| *n > m))
                .min();
            let expected = unreported.is_some_and(|missing| largest_unacked - missing >= reordering)
                || reported_missing.is_some_and(|m| number <= m);
            receive(&mut a, number, us(0));
            prop_assert_eq!(a.want(us(0)) == Want::Data, expected, "packet {}", number);
            if expected {
                write(&mut a, us(0), 1200);
                largest_acked = Some(largest_unacked);
                if confirm {
                    a.acked(largest_unacked);
                }
            }
        }
    }
}
