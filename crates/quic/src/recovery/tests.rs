mod model;
mod persistent;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quickset_base::{Duration, Reason, Time};
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::{Side, Space, TransportErrorCode, Writer};

use super::*;
use crate::cc::PacketState;

const MS: Duration = Duration::from_millis(1);

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn recovery(side: Side) -> Recovery {
    let mut recovery = Recovery::new(side, Duration::from_millis(333));
    recovery.confirmed();
    recovery
}

fn send(r: &mut Recovery, space: Space, number: u64, now: Time, tokens: &[FrameToken]) {
    let packet = SentPacket {
        number,
        now,
        bytes: 1200,
        eliciting: true,
        in_flight: true,
        marked: false,
        state: PacketState::default(),
    };
    r.on_sent(space, packet, &mut tokens.to_vec());
}

/// ACKs as they come off the wire: ranges newest first.
fn merged(ranges: &[(u64, u64)], delay: Duration) -> Merged {
    let mut bytes = [0; 4096];
    let mut w = Writer::new(&mut bytes);
    let list: Vec<_> = ranges.iter().map(|&(a, b)| a..=b).collect();
    assert_eq!(quickset_wire::frame::ack(&mut w, list, 0, None), ranges.len());
    let mut merged = Merged::default();
    match Frames::new(w.written()).next() {
        Some(Ok(Frame::Ack(ack))) => merged.add(&ack, delay),
        other => panic!("{other:?}"),
    }
    merged
}

fn ack(r: &mut Recovery, space: Space, ranges: &[(u64, u64)], now: Time) -> SettledPackets {
    let mut out = SettledPackets::default();
    r.on_ack(space, &merged(ranges, Duration::ZERO), now, &mut out).unwrap();
    r.check();
    out
}

fn numbers(packets: &[cc::SettledPacket]) -> Vec<u64> {
    packets.iter().map(|p| p.number).collect()
}

fn token(n: u64) -> FrameToken {
    FrameToken::MaxData { max: n }
}

/// Samples by hand, in milliseconds: (sample, delay believed) -> (smoothed, variation, minimum) in
/// microseconds. RFC 9002 §5.2, §5.3.
#[test]
fn rtt_follows_rfc_9002_section_5() {
    let mut rtt = Rtt::new(Duration::from_millis(333));
    assert_eq!(rtt.pto(), Duration::from_millis(333 + 4 * 333 / 2), "RFC 9002 §6.2.2: 333 ms and half of it");
    let table: [(u64, u64, u64, u64, u64); 5] = [
        // The first sample is taken whole, its delay ignored.
        (100, 20, 100_000, 50_000, 100_000),
        // adjusted 110: var 3/4·50 + 1/4·|100-110| = 40; smoothed 7/8·100 + 110/8 = 101.25.
        (120, 10, 101_250, 40_000, 100_000),
        // 105 - 10 would be below the minimum: not adjusted. var 30 + 3.75/4 = 30.9375; 101.25·7/8 + 105/8.
        (105, 10, 101_718, 30_937, 100_000),
        // A new minimum, no delay: var 0.75·30.9375 + 41.71875/4 = 33.6328125; 101.71875·7/8 + 60/8.
        (60, 0, 96_503, 33_632, 60_000),
        // Exactly the minimum after adjustment is still adjusted: 60.
        (85, 25, 91_940, 34_350, 60_000),
    ];
    for (sample, delay, smoothed, var, min) in table {
        rtt.sample(Duration::from_millis(sample), Duration::from_millis(delay));
        let got = (rtt.smoothed().as_micros(), rtt.var().as_micros(), rtt.min().as_micros());
        assert_eq!(got, (u128::from(smoothed), u128::from(var), u128::from(min)), "after {sample} ms");
    }
    rtt.forget_min();
    rtt.sample(Duration::from_millis(90), Duration::ZERO);
    assert_eq!(rtt.min(), Duration::from_millis(90));
}

/// RFC 9002 §5.3, §A.7.
#[test]
fn the_peers_delay_counts_as_far_as_it_promised() {
    let mut r = recovery(Side::Client);
    r.set_peer(25 * MS);
    send(&mut r, Space::Data, 0, ms(0), &[]);
    ack(&mut r, Space::Data, &[(0, 0)], ms(100));
    send(&mut r, Space::Data, 1, ms(200), &[]);
    let mut out = SettledPackets::default();
    r.on_ack(Space::Data, &merged(&[(1, 1)], 80 * MS), ms(400), &mut out).unwrap();
    // 200 - 25, not 200 - 80.
    assert_eq!(r.rtt().smoothed(), Duration::from_micros(109_375));
    assert_eq!(out.rtt, Some(200 * MS));
}

/// RFC 9002 §6.1, §A.10.
#[test]
fn a_packet_is_lost_three_behind_or_after_nine_eighths_of_a_round_trip() {
    let mut r = recovery(Side::Client);
    for n in 0..5 {
        send(&mut r, Space::Data, n, ms(n), &[token(n)]);
    }
    // RFC 9002 §6.1.1: 4 - 3 = 1 and below; 2 and 3 are too near.
    let out = ack(&mut r, Space::Data, &[(4, 4)], ms(104));
    assert_eq!(numbers(&out.lost_packets), [0, 1]);
    assert_eq!(out.lost, [token(0), token(1)]);
    assert_eq!(out.acked, [token(4)]);
    assert_eq!((out.prior_in_flight, r.in_flight()), (6000, 2400));
    // RFC 9002 §6.1.2: 2 left at 2 ms; 9/8 of 100 ms later it is lost.
    let due = Time::from_micros(114_500);
    assert_eq!(r.deadline(true), Some((due, Reason::LossTime)));
    let mut out = SettledPackets::default();
    assert_eq!(r.on_time(due - Duration::from_nanos(1), true, &mut out), TimerOutcome::Nothing);
    assert_eq!(r.on_time(due, true, &mut out), TimerOutcome::Lost(Space::Data));
    assert_eq!(out.lost, [token(2)]);
    assert_eq!(r.deadline(true), Some((due + MS, Reason::LossTime)));
    let mut out = SettledPackets::default();
    r.on_time(due + MS, false, &mut out);
    assert_eq!((out.lost, r.in_flight(), r.deadline(true)), (vec![token(3)], 0, None));
}

/// RFC 9002 §3.
#[test]
fn each_space_has_losses_of_its_own() {
    let mut r = recovery(Side::Client);
    send(&mut r, Space::Handshake, 0, ms(0), &[token(9)]);
    for n in 0..5 {
        send(&mut r, Space::Data, n, ms(1), &[token(n)]);
    }
    let out = ack(&mut r, Space::Data, &[(4, 4)], ms(1000));
    assert_eq!(out.lost, [token(0), token(1)]);
    assert_eq!((out.prior_in_flight, r.in_flight()), (7200, 3600), "bytes in flight are of all");
}

/// RFC 9002 §5.1.
#[test]
fn a_sample_is_of_the_largest_when_that_is_new_and_something_elicits() {
    let mut r = recovery(Side::Client);
    let bare = SentPacket {
        number: 2,
        now: ms(2),
        bytes: 50,
        eliciting: false,
        in_flight: false,
        marked: false,
        state: PacketState::default(),
    };
    send(&mut r, Space::Data, 0, ms(0), &[]);
    send(&mut r, Space::Data, 1, ms(1), &[]);
    r.on_sent(Space::Data, bare, &mut Vec::new());
    send(&mut r, Space::Data, 3, ms(3), &[]);
    assert_eq!(ack(&mut r, Space::Data, &[(0, 0)], ms(100)).rtt, Some(100 * MS));
    assert_eq!(ack(&mut r, Space::Data, &[(2, 2)], ms(102)).rtt, None, "nothing of it elicits");
    assert_eq!(ack(&mut r, Space::Data, &[(1, 2)], ms(103)).rtt, None, "the largest is known");
    assert_eq!(ack(&mut r, Space::Data, &[(0, 3)], ms(104)).rtt, Some(101 * MS));
}

/// RFC 9002 §A.5: a packet sent counts and sets the timer, as far as it elicits and is in flight.
#[test]
fn what_is_sent_counts_and_sets_the_timer() {
    let mut r = recovery(Side::Server);
    let mut bare = |eliciting, in_flight| {
        let (number, state) = (r.next_number(Space::Data), PacketState::default());
        let now = ms(number);
        let packet = SentPacket { number, now, bytes: 100, eliciting, in_flight, marked: false, state };
        r.on_sent(Space::Data, packet, &mut Vec::new());
        (r.in_flight(), r.deadline(true).map(|(at, _)| at - r.pto(Space::Data)))
    };
    assert_eq!(bare(false, false), (0, None), "an ACK");
    assert_eq!(bare(false, true), (100, None), "padded");
    assert_eq!(bare(true, true), (200, Some(ms(2))));
    assert_eq!(bare(false, true), (300, Some(ms(2))));
    assert_eq!(bare(true, true), (400, Some(ms(4))), "the last of them counts");
}

#[test]
fn time_thresholds_have_a_floor_of_a_millisecond() {
    let mut r = recovery(Side::Server);
    send(&mut r, Space::Data, 0, ms(10), &[]);
    send(&mut r, Space::Data, 1, ms(10), &[]);
    ack(&mut r, Space::Data, &[(1, 1)], Time::from_micros(10_100));
    assert_eq!(r.deadline(true), Some((ms(11), Reason::LossTime)));
}

/// RFC 9002 §6.2.4, §A.6, §A.8, §A.9: a server that is given credit finds its timer due.
#[test]
fn probe_timeouts_back_off_and_start_anew() {
    let mut r = recovery(Side::Client);
    r.set_peer(25 * MS);
    send(&mut r, Space::Data, 0, ms(0), &[]);
    ack(&mut r, Space::Data, &[(0, 0)], ms(100));
    // RFC 9002 §6.2.1: 100 + 4·50 + 25.
    assert_eq!(r.pto(Space::Data), 325 * MS);
    assert_eq!(r.pto(Space::Handshake), 300 * MS);
    send(&mut r, Space::Data, 1, ms(200), &[token(1)]);
    send(&mut r, Space::Data, 2, ms(210), &[token(2), FrameToken::Nothing]);
    assert_eq!(r.deadline(true), Some((ms(535), Reason::Pto)));
    assert_eq!(r.deadline(false), None, "RFC 9002 §6.2.2.1: not at the amplification limit");
    let mut out = SettledPackets::default();
    assert_eq!(r.on_time(ms(535), false, &mut out), TimerOutcome::Nothing);
    assert_eq!(r.on_time(ms(535), true, &mut out), TimerOutcome::Probe(Space::Data));
    assert!(!out.has_feedback(), "a timeout is no loss (RFC 9002 §6.2)");
    assert_eq!(r.deadline(true), Some((ms(210 + 650), Reason::Pto)));
    // What was oldest is given back, once; the packets stay.
    let mut lost = Vec::new();
    assert!(r.probe_tokens(Space::Data, &mut lost));
    assert_eq!(lost, [token(1)]);
    assert!(r.probe_tokens(Space::Data, &mut lost));
    assert!(!r.probe_tokens(Space::Data, &mut lost));
    assert_eq!(lost, [token(1), token(2)]);
    assert_eq!(r.in_flight(), 2400);
    send(&mut r, Space::Data, 3, ms(535), &[token(3)]);
    assert_eq!(r.deadline(true), Some((ms(535 + 650), Reason::Pto)));
    r.on_time(ms(1185), true, &mut out);
    assert_eq!(r.deadline(true), Some((ms(535 + 1300), Reason::Pto)));
    let out = ack(&mut r, Space::Data, &[(1, 3)], ms(1200));
    assert_eq!(out.acked, [token(3)], "the others were taken");
    assert_eq!(numbers(&out.acked_packets), [1, 2, 3]);
    send(&mut r, Space::Data, 4, ms(1200), &[]);
    assert_eq!(r.deadline(true), Some((ms(1200) + r.pto(Space::Data), Reason::Pto)));
}

/// Lets so many probe timeouts pass, and sends what they are for. Returns when the last was.
fn probe(r: &mut Recovery, times: usize) -> Time {
    let mut now = Time::ZERO;
    for _ in 0..times {
        (now, _) = r.deadline(true).expect("something is in flight");
        assert_eq!(r.on_time(now, true, &mut SettledPackets::default()), TimerOutcome::Probe(Space::Data));
        let number = r.next_number(Space::Data);
        send(r, Space::Data, number, now, &[]);
    }
    now
}

/// RFC 9002 §5.1, and where we depart from it.
#[test]
fn what_waited_in_an_outage_is_no_round_trip_and_a_path_that_became_long_is() {
    let mut r = recovery(Side::Client);
    send(&mut r, Space::Data, 0, ms(0), &[]);
    ack(&mut r, Space::Data, &[(0, 0)], ms(100));
    // All that left in the outage comes through at its end.
    send(&mut r, Space::Data, 1, ms(200), &[]);
    let back = probe(&mut r, 6) + 50 * MS;
    assert_eq!(ack(&mut r, Space::Data, &[(1, 3)], back).rtt, None, "it took {back:?}");
    assert_eq!(ack(&mut r, Space::Data, &[(1, 7)], back + MS).rtt, Some(51 * MS), "the last had not to wait");
    assert!(r.rtt().smoothed() < 100 * MS);
    // Now the path takes as long in truth.
    let pto = r.pto(Space::Data);
    let (long, begun) = (20 * pto, back + 100 * MS);
    for (n, wanted) in [(0, None), (1, Some(long))] {
        let (first, at) = (r.next_number(Space::Data), begun + n * 2 * long);
        send(&mut r, Space::Data, first, at, &[]);
        probe(&mut r, 4);
        assert_eq!(ack(&mut r, Space::Data, &[(first, first)], at + long).rtt, wanted, "time {n}");
        let last = r.next_number(Space::Data) - 1;
        ack(&mut r, Space::Data, &[(first, last)], at + long + long / 2);
    }
    assert!(r.pto(Space::Data) > 3 * pto, "{:?}", r.pto(Space::Data));
}

/// RFC 9002 §6.2.1: within the time that a handshake may take, probes do not back off for most of it.
#[test]
fn probes_of_a_handshake_are_an_eighth_of_its_time_apart_at_most() {
    let mut r = Recovery::new(Side::Client, Duration::from_millis(333));
    r.set_handshake_timeout(Duration::from_secs(10));
    send(&mut r, Space::Initial, 0, ms(0), &[]);
    let mut times = Vec::new();
    for number in 1..8 {
        let (now, _) = r.deadline(true).unwrap();
        assert_eq!(r.on_time(now, true, &mut SettledPackets::default()), TimerOutcome::Probe(Space::Initial));
        send(&mut r, Space::Initial, number, now, &[]);
        times.push(now.as_nanos() / 1_000_000);
    }
    assert_eq!(times, [999, 2249, 3499, 4749, 5999, 7249, 8499], "1 s, and then 10 s / 8");
}

/// RFC 9002 §6.2.2.1, §A.8, §A.9, §A.11.
#[test]
fn a_client_probes_until_the_handshake_is_confirmed() {
    let mut r = Recovery::new(Side::Client, Duration::from_millis(100));
    assert_eq!(r.deadline(true), None);
    send(&mut r, Space::Initial, 0, ms(0), &[]);
    // 100 + 4·50; no delay in the handshake.
    assert_eq!(r.deadline(true), Some((ms(300), Reason::Pto)));
    ack(&mut r, Space::Initial, &[(0, 0)], ms(60));
    // Nothing in flight: 60 + 4·30 from the last news, in Initial as there are no other keys.
    assert_eq!(r.deadline(true), Some((ms(60 + 180), Reason::Pto)));
    let mut out = SettledPackets::default();
    assert_eq!(r.on_time(ms(240), true, &mut out), TimerOutcome::Probe(Space::Initial));
    // An acknowledgement of an Initial does not end the back-off.
    send(&mut r, Space::Initial, 1, ms(240), &[]);
    ack(&mut r, Space::Initial, &[(1, 1)], ms(300));
    let doubled = r.pto(Space::Initial) * 2;
    assert_eq!(r.deadline(true), Some((ms(300) + doubled, Reason::Pto)));
    // Once it can, in Handshake: that proves its address.
    r.has_handshake_keys = true;
    assert_eq!(r.on_time(ms(300) + doubled, true, &mut out), TimerOutcome::Probe(Space::Handshake));
    r.discard(Space::Initial, ms(310));
    assert_eq!(r.deadline(true), Some((ms(310) + r.pto(Space::Handshake), Reason::Pto)));
    assert_eq!(r.on_time(ms(1000), true, &mut out), TimerOutcome::Probe(Space::Handshake));
    send(&mut r, Space::Handshake, 0, ms(1000), &[]);
    ack(&mut r, Space::Handshake, &[(0, 0)], ms(1060));
    // The server has heard us, but a NAT may have given us another address since; and 1-RTT packets wait for
    // the end of the handshake.
    assert_eq!(r.deadline(true), Some((ms(1060) + r.pto(Space::Handshake), Reason::Pto)));
    send(&mut r, Space::Data, 0, ms(1060), &[]);
    assert_eq!(r.deadline(true), Some((ms(1060) + r.pto(Space::Handshake), Reason::Pto)));
    r.confirmed();
    assert_eq!(r.deadline(true), Some((ms(1060) + r.pto(Space::Data), Reason::Pto)));
}

#[test]
fn acknowledgements_out_of_nothing_are_violations() {
    let mut r = recovery(Side::Client);
    send(&mut r, Space::Data, 0, ms(0), &[]);
    send(&mut r, Space::Data, 2, ms(0), &[]);
    for ranges in [[(3, 3)], [(0, 3)], [(1, 1)], [(0, 2)]] {
        let mut r2 = recovery(Side::Client);
        send(&mut r2, Space::Data, 0, ms(0), &[]);
        send(&mut r2, Space::Data, 2, ms(0), &[]);
        let error =
            r2.on_ack(Space::Data, &merged(&ranges, MS), ms(9), &mut SettledPackets::default()).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION, "{ranges:?}");
        r2.check();
    }
    assert_eq!(numbers(&ack(&mut r, Space::Data, &[(2, 2), (0, 0)], ms(10)).acked_packets), [0, 2]);
}

#[test]
fn late_acknowledgements_are_told_and_widen_the_threshold() {
    let mut r = recovery(Side::Client);
    for n in 0..20 {
        send(&mut r, Space::Data, n, ms(1), &[token(n)]);
    }
    let out = ack(&mut r, Space::Data, &[(5, 5)], ms(101));
    assert_eq!(numbers(&out.lost_packets), [0, 1, 2]);
    let out = ack(&mut r, Space::Data, &[(0, 5)], ms(102));
    assert_eq!((&out.spurious[..], r.spurious_losses()), (&[ms(101); 3][..], 3));
    assert_eq!(out.acked, [token(3), token(4)], "what was lost was told already");
    // 0 was five behind; six is now the least that counts as lost.
    let out = ack(&mut r, Space::Data, &[(11, 11)], ms(103));
    assert_eq!(numbers(&out.lost_packets), [] as [u64; 0]);
    let out = ack(&mut r, Space::Data, &[(12, 12)], ms(104));
    assert_eq!(numbers(&out.lost_packets), [6]);
}

/// Congestion control hears of a late packet what it heard of its loss: when that was, and nothing of packets
/// that were not in flight.
#[test]
fn late_packets_are_told_apart() {
    let mut r = recovery(Side::Client);
    for n in 0..30 {
        let bare = n == 1;
        let packet = SentPacket {
            number: n,
            now: ms(1),
            bytes: 1200,
            eliciting: !bare,
            in_flight: !bare,
            marked: false,
            state: PacketState::default(),
        };
        r.on_sent(Space::Data, packet, &mut Vec::new());
    }
    let out = ack(&mut r, Space::Data, &[(5, 5)], ms(101));
    assert_eq!(numbers(&out.lost_packets), [0, 2]);
    let out = ack(&mut r, Space::Data, &[(9, 9)], ms(103));
    assert_eq!(numbers(&out.lost_packets), [3, 4, 6]);
    let out = ack(&mut r, Space::Data, &[(6, 6), (0, 3)], ms(104));
    assert_eq!(out.spurious, [ms(101), ms(101), ms(103), ms(103)]);
    assert!(out.has_feedback());
    assert_eq!(r.spurious_losses(), 4);
}

/// A missing packet keeps the ring; what is acknowledged above it is passed over in one step.
#[test]
fn nobody_walks_over_acknowledged_packets_twice() {
    let mut r = recovery(Side::Client);
    for n in 0..1000 {
        send(&mut r, Space::Data, n, ms(1), &[]);
    }
    // Runs grow upwards, downwards, and together.
    r.packet_threshold = 10_000;
    for (start, end) in [(100, 199), (200, 299), (50, 99), (400, 499), (300, 399)] {
        ack(&mut r, Space::Data, &[(start, end)], ms(2));
    }
    let ring = &r.spaces.data.sent;
    assert_eq!(ring.base(), 0);
    assert_eq!(ring.place(49), RingPlace::Outstanding(ms(1)));
    assert_eq!(ring.place(50), RingPlace::SettledUntil(500));
    assert_eq!(ring.place(500), RingPlace::Outstanding(ms(1)));
    ack(&mut r, Space::Data, &[(0, 49)], ms(3));
    assert_eq!(r.spaces.data.sent.base(), 500, "and dropped as one");
}

/// A peer may move to and fro with each of its packets, and much may be in flight.
#[test]
fn who_moves_has_nobody_walk_over_what_is_in_flight() {
    let mut r = recovery(Side::Server);
    (0..1000).for_each(|n| send(&mut r, Space::Data, n, ms(1), &[]));
    r.change_path(1, None, ms(2));
    (1000..1010).for_each(|n| send(&mut r, Space::Data, n, ms(2), &[]));
    let walked = |r: &Recovery| r.spaces.data.sent.walked();
    let before = walked(&r);
    for (path, in_flight) in [(0, 1000), (1, 10), (2, 0), (1, 10), (0, 1000)] {
        r.change_path(path, None, ms(3));
        assert_eq!(r.in_flight(), in_flight * 1200, "path {path}");
    }
    assert_eq!(walked(&r), before);
    r.check();
}

/// RFC 9002 §6.3, §6.4, §A.11, §B.9.
#[test]
fn spaces_end_and_packets_are_void_without_congestion() {
    let mut r = Recovery::new(Side::Client, Duration::from_millis(100));
    send(&mut r, Space::Initial, 0, ms(0), &[token(1)]);
    send(&mut r, Space::Data, 0, ms(0), &[token(2), token(3)]);
    r.restart(Time::ZERO);
    assert_eq!((r.in_flight(), r.next_number(Space::Initial)), (1200, 1));
    let mut lost = Vec::new();
    r.void(Space::Data, &mut lost);
    assert_eq!((lost, r.in_flight()), (vec![token(2), token(3)], 0));
    send(&mut r, Space::Initial, 1, ms(5), &[]);
    r.discard(Space::Initial, ms(6));
    assert_eq!(r.in_flight(), 0);
    assert!(!ack(&mut r, Space::Initial, &[(1, 1)], ms(7)).has_feedback());
    r.check();
}

#[derive(Clone, Debug)]
enum Step {
    Send { tokens: usize, eliciting: bool, skip: bool },
    Ack { from: usize, len: usize, holes: u64 },
    Wait(u64),
    Timer,
    Probe,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0usize..4, any::<bool>(), prop::bool::weighted(0.05)).prop_map(|(tokens, eliciting, skip)| {
            Step::Send { tokens, eliciting, skip }
        }),
        3 => (0usize..40, 1usize..30, any::<u64>())
            .prop_map(|(from, len, holes)| Step::Ack { from, len, holes }),
        2 => (0u64..80_000).prop_map(Step::Wait),
        1 => Just(Step::Timer),
        1 => Just(Step::Probe),
    ]
}

/// What a naive sender knows: every packet ever, in a map.
#[derive(Default)]
struct Model {
    open: BTreeMap<u64, (bool, u64, BTreeSet<u64>)>,
    largest_acked: Option<u64>,
    returned: BTreeSet<u64>,
    given: u64,
}

impl Model {
    fn come_back(&mut self, tokens: &[FrameToken]) {
        for token in tokens {
            let FrameToken::MaxData { max } = *token else { panic!("{token:?} was never sent") };
            assert!(max < self.given && self.returned.insert(max), "token {max} came back twice");
            for (_, _, held) in self.open.values_mut() {
                held.remove(&max);
            }
        }
    }

    fn settle(&mut self, out: &SettledPackets, acked: &BTreeSet<u64>) {
        let newly: Vec<u64> = acked.iter().copied().filter(|n| self.open.contains_key(n)).collect();
        let in_flight: Vec<u64> = newly.iter().copied().filter(|n| self.open[n].0).collect();
        assert_eq!(numbers(&out.acked_packets), in_flight);
        let expected: Vec<u64> = newly.iter().flat_map(|n| self.open[n].2.iter().copied()).collect();
        let got: Vec<u64> = out
            .acked
            .iter()
            .map(|t| {
                matches!(t, FrameToken::MaxData { max } if *max < u64::MAX)
                    .then(|| {
                        let FrameToken::MaxData { max } = *t else { unreachable!() };
                        max
                    })
                    .unwrap()
            })
            .collect();
        assert_eq!(got, expected, "the tokens of newly acknowledged packets, in order");
        self.come_back(&out.acked);
        for n in &newly {
            self.open.remove(n);
        }
        if !newly.is_empty() {
            self.largest_acked = self.largest_acked.max(newly.last().copied());
        }
        for packet in &out.lost_packets {
            assert!(self.largest_acked.is_some_and(|largest| packet.number < largest));
        }
        self.come_back(&out.lost);
        // Lost packets are those whose tokens are gone; they are told by number where in flight.
        for packet in &out.lost_packets {
            let (_, _, left) = self.open.remove(&packet.number).expect("lost once");
            assert!(left.is_empty(), "its tokens came back with it");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// In any order of sending, acknowledging and losing, tokens come back once and bytes add up.
    #[test]
    fn tokens_come_back_once_and_bytes_add_up(steps in prop::collection::vec(step(), 1..300)) {
        let mut r = recovery(Side::Server);
        let mut model = Model::default();
        let mut sent: Vec<u64> = Vec::new();
        let mut now = Time::from_millis(1);
        let space = Space::Data;
        for step in steps {
            let mut out = SettledPackets::default();
            match step {
                Step::Send { tokens, eliciting, skip } => {
                    let number = r.next_number(space) + u64::from(skip);
                    let given = model.given..model.given + tokens as u64;
                    model.given = given.end;
                    let mut list: Vec<_> = given.clone().map(token).collect();
                    let bytes = 100 + (number % 1000) as u16;
                    let state = PacketState::default();
                    // What is in flight without eliciting is padding; here all that elicits is in flight.
                    r.on_sent(space, SentPacket { number, now, bytes, eliciting, in_flight: true, marked: false, state }, &mut list);
                    prop_assert!(list.is_empty());
                    model.open.insert(number, (true, u64::from(bytes), given.collect()));
                    sent.push(number);
                }
                Step::Ack { from, len, holes } => {
                    let end = sent.len().saturating_sub(from);
                    let list = &sent[end.saturating_sub(len)..end];
                    let acked: BTreeSet<u64> = list.iter().copied().enumerate()
                        .filter(|(i, _)| holes >> (i % 64) & 1 == 0).map(|(_, n)| n).collect();
                    if acked.is_empty() {
                        continue;
                    }
                    let mut ranges: Vec<(u64, u64)> = Vec::new();
                    for n in acked.iter().rev() {
                        match ranges.last_mut() {
                            Some((start, _)) if *start == n + 1 => *start = *n,
                            _ => ranges.push((*n, *n)),
                        }
                    }
                    model.largest_acked = model.largest_acked.max(acked.last().copied());
                    r.on_ack(space, &merged(&ranges, Duration::ZERO), now, &mut out).unwrap();
                    model.settle(&out, &acked);
                }
                Step::Wait(us) => now += Duration::from_micros(us),
                Step::Timer => {
                    if let Some((at, _)) = r.deadline(true) {
                        now = now.max(at);
                        prop_assert!(r.on_time(now, true, &mut out) != TimerOutcome::Nothing);
                        model.settle(&out, &BTreeSet::new());
                    }
                }
                Step::Probe => {
                    r.probe_tokens(space, &mut out.lost);
                    model.come_back(&out.lost);
                }
            }
            r.check();
            let expected: u64 = model.open.values().map(|(_, bytes, _)| bytes).sum();
            prop_assert_eq!(r.in_flight(), expected);
        }
        // In the end everything is acknowledged or lost.
        let mut out = SettledPackets::default();
        r.void(space, &mut out.lost);
        model.come_back(&out.lost);
        prop_assert_eq!(model.returned.len() as u64, model.given);
        prop_assert_eq!(r.in_flight(), 0);
    }
}
