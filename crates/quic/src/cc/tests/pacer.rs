use quickset_base::{Duration, Time};

use crate::cc::{CongestionControl, Pacer};

const MTU: u64 = 1250;
const RTT: Duration = Duration::from_millis(100);
/// Of a sender that has no end.
const MANY: u64 = u64::MAX;

fn at_rate(bits_per_second: u64) -> CongestionControl {
    CongestionControl {
        window: u64::MAX / 4,
        rate: Some(bits_per_second / 8),
        ..CongestionControl::default()
    }
}

/// Sends as much as may leave now; the bytes and when more may.
fn drain(pacer: &mut Pacer, now: Time, control: &CongestionControl) -> (u64, Time) {
    let mut bytes = 0;
    loop {
        match pacer.allow(now, MTU, MANY, control, RTT) {
            Ok(()) => {
                pacer.on_sent(MTU);
                bytes += MTU;
            }
            Err(at) => return (bytes, at),
        }
    }
}

#[test]
fn the_start_is_an_initial_window() {
    let mut pacer = Pacer::new(MTU, Time::ZERO);
    // 10 Mbit/s: 1250 bytes a millisecond, ten packets take ten.
    let (bytes, next) = drain(&mut pacer, Time::ZERO, &at_rate(10_000_000));
    assert_eq!((bytes, next), (10 * MTU, Time::from_millis(10)));
    assert_eq!(drain(&mut pacer, Time::from_millis(9), &at_rate(10_000_000)).0, 0, "a quantum at a time");
    assert_eq!(drain(&mut pacer, next, &at_rate(10_000_000)), (10 * MTU, Time::from_millis(20)));
}

#[test]
fn quanta_follow_the_rate() {
    // (rate, quantum in packets): a millisecond's worth, between 10 and 64 packets.
    for (rate, packets) in [(1_000_000, 10), (200_000_000, 20), (500_000_000, 50), (20_000_000_000, 64)] {
        let mut pacer = Pacer::new(MTU, Time::ZERO);
        let (_, next) = drain(&mut pacer, Time::ZERO, &at_rate(rate));
        let expected = f64::from(packets) * MTU as f64 * 8.0 / rate as f64;
        let error = next.as_secs_f64() - expected;
        assert!((0.0..MTU as f64 * 8.0 / rate as f64).contains(&error), "{rate}: {next} against {expected}");
    }
    // A window of eight packets is not waited for: two at a time.
    let small = CongestionControl { window: 8 * MTU, rate: Some(125_000), ..CongestionControl::default() };
    let mut pacer = Pacer::new(MTU, Time::ZERO);
    let (_, next) = drain(&mut pacer, Time::ZERO, &small);
    assert_eq!(next, Time::from_millis(20));
}

#[test]
fn late_timers_cost_nothing() {
    for rate in [1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000u64] {
        let control = at_rate(rate);
        let mut pacer = Pacer::new(MTU, Time::ZERO);
        let (mut now, mut sent, mut most) = (Time::ZERO, 0, 0);
        while now < Time::from_millis(2000) {
            let (bytes, next) = drain(&mut pacer, now, &control);
            sent += bytes;
            if now > Time::ZERO {
                most = most.max(bytes);
            }
            // The next tick after it is due, and that one fires up to a millisecond late.
            now = Time::from_millis(next.as_nanos().div_ceil(1_000_000)) + Duration::from_micros(900);
        }
        let expected = rate as f64 / 8.0 * 2.0;
        assert!(
            (sent as f64 / expected - 1.0).abs() < 0.02 + 20.0 * MTU as f64 / expected,
            "{rate}: {sent} bytes"
        );
        let quantum = (rate / 8000).clamp(10 * MTU, 64 * MTU);
        assert!(most <= quantum + rate / 8 / 500, "{rate}: {most} bytes at once");
    }
}

#[test]
fn after_a_pause_there_is_no_more_than_an_initial_window() {
    let control = at_rate(1_000_000_000);
    let mut pacer = Pacer::new(MTU, Time::ZERO);
    pacer.allow(Time::ZERO, MTU, MANY, &control, RTT).unwrap();
    pacer.on_sent(MTU);
    // The application had nothing more, for a second.
    assert_eq!(drain(&mut pacer, Time::from_millis(1000), &control).0, 10 * MTU);
    // And a timer that is a second late is credited for two milliseconds and a quantum.
    let (bytes, _) = drain(&mut pacer, Time::from_millis(2000), &control);
    assert_eq!(bytes, (64 * MTU + 250_000) / MTU * MTU);
}

#[test]
fn without_a_rate_the_window_sets_it() {
    // RFC 9002 §7.7: 5/4 of 100 packets in 100 ms, or twice in slow start; ten packets at a time.
    for (slow_start, ms) in [(false, 8), (true, 5)] {
        let control = CongestionControl { window: 100 * MTU, slow_start, ..CongestionControl::default() };
        let mut pacer = Pacer::new(MTU, Time::ZERO);
        assert_eq!(drain(&mut pacer, Time::ZERO, &control).1, Time::from_millis(ms));
    }
}

/// Three packets that are all there is wait for themselves, not for the seven that a quantum has more.
#[test]
fn the_last_packets_wait_for_no_others() {
    let control = at_rate(10_000_000);
    let mut pacer = Pacer::new(MTU, Time::ZERO);
    drain(&mut pacer, Time::ZERO, &control);
    let due = Time::from_millis(3);
    assert_eq!(pacer.allow(Time::ZERO, MTU, 3 * MTU, &control, RTT), Err(due));
    for left in [3, 2, 1] {
        assert_eq!(pacer.allow(due, MTU, left * MTU, &control, RTT), Ok(()));
        pacer.on_sent(MTU);
    }
    // More came in the meantime: a quantum again.
    assert_eq!(pacer.allow(due, MTU, MANY, &control, RTT), Err(Time::from_millis(13)));
    // And less: what was promised to others is no reason to wait.
    let soon = Time::from_millis(4);
    assert_eq!(pacer.allow(soon, MTU, MTU, &control, RTT), Ok(()));
}

#[test]
fn probes_are_paid_back() {
    let control = at_rate(10_000_000);
    let mut pacer = Pacer::new(MTU, Time::ZERO);
    let (_, next) = drain(&mut pacer, Time::ZERO, &control);
    pacer.on_sent(2 * MTU);
    let (bytes, later) = drain(&mut pacer, next, &control);
    assert_eq!((bytes, later), (0, next + Duration::from_millis(2)));
    // A flood of them is not waited for without end.
    for _ in 0..1000 {
        pacer.on_sent(MTU);
    }
    let (_, at) = drain(&mut pacer, later, &control);
    assert!(at <= later + Duration::from_millis(74));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    /// RFC 9002 §7.7, as a bucket: of no stretch of time more leaves than its rate and one burst, however
    /// late timers are. Who has to wait may send at the time that was named, and that is not now.
    #[test]
    fn no_stretch_of_time_has_more_than_its_rate_and_a_burst(
        log_rate in 0.0f64..10.5,
        packets in 2u64..5000,
        mtu in 1200u64..9000,
        steps in proptest::collection::vec((0u64..4, 0u64..3_000_000, 1u64..40, 1u64..=10), 1..150),
        backlogs in proptest::collection::vec(0u64..100_000, 1..20),
    ) {
        let rate = 10f64.powf(log_rate) as u64;
        let control = CongestionControl { window: packets * mtu, rate: Some(rate), ..CongestionControl::default() };
        let srtt = Duration::from_millis(50);
        let mut now = Time::from_millis(1);
        let mut pacer = Pacer::new(mtu, now);
        let in_a_ms = rate / 1000;
        // A quantum, what a late timer withheld, and the packet whose asking is rounded up; or the initial
        // window.
        let quantum = in_a_ms.max(10 * mtu).min(64 * mtu).max(2 * mtu);
        let burst = (quantum + 2 * in_a_ms + 2).max(10 * mtu.max(1472)) + mtu;
        let (mut level, mut last) = (0.0f64, now);
        for ((kind, ns, times, tenths), backlog) in steps.into_iter().zip(backlogs.into_iter().cycle()) {
            now += match kind {
                0 => Duration::ZERO,
                1 => Duration::from_nanos(ns),
                2 => Duration::from_micros(ns),
                _ => Duration::from_secs(ns / 1000),
            };
            for _ in 0..times {
                let bytes = (mtu * tenths / 10).max(1);
                let backlog = backlog.max(bytes);
                if let Err(at) = pacer.allow(now, bytes, backlog, &control, srtt) {
                    proptest::prop_assert!(at > now, "wakes at once: {pacer:?}");
                    now = at;
                    proptest::prop_assert_eq!(pacer.allow(now, bytes, backlog, &control, srtt), Ok(()));
                }
                pacer.on_sent(bytes);
                level = (level - now.since(last).as_secs_f64() * rate as f64).max(0.0) + bytes as f64;
                last = now;
                proptest::prop_assert!(level <= burst as f64 * 1.0001, "{level} of {burst}: {pacer:?}");
            }
        }
    }
}
