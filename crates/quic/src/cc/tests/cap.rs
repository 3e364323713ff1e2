use std::collections::VecDeque;

use quickset_base::{Duration, Rng, Time};

use crate::cc::RateCap;

/// The most bytes within any second, of what left when.
#[derive(Default)]
struct Meter {
    last: VecDeque<(Time, u64)>,
    now: u64,
    most: u64,
    all: u64,
}

impl Meter {
    fn count(&mut self, now: Time, bytes: u64) {
        self.last.push_back((now, bytes));
        (self.now, self.all) = (self.now + bytes, self.all + bytes);
        while self.last.front().is_some_and(|(at, _)| now.since(*at) > Duration::from_secs(1)) {
            self.now -= self.last.pop_front().map_or(0, |(_, old)| old);
        }
        self.most = self.most.max(self.now);
    }
}

/// Whoever has always something to send, in packets of many sizes, with timers up to 4 ms late, and pauses.
#[test]
fn no_second_has_more() {
    for seed in quickset_sim::seeds(0..4) {
        for rate in [64_000, 1_000_000, 5_000_000, 50_000_000u64] {
            let (mut rng, mut meter) = (Rng::new(seed), Meter::default());
            let mut cap = RateCap::new(rate, Time::ZERO);
            let (mut now, mut busy) = (Time::ZERO, Duration::ZERO);
            for round in 0..6 {
                let begin = now;
                while now.since(begin) < Duration::from_secs(3) {
                    let bytes = 40 + rng.below(1413);
                    match cap.wait(now, bytes) {
                        Ok(()) => {
                            cap.on_sent(bytes);
                            meter.count(now, bytes);
                        }
                        Err(at) => now = at + Duration::from_micros(rng.below(4000)),
                    }
                }
                busy += now.since(begin);
                now += Duration::from_millis(rng.below(2) * 50 * round);
            }
            assert!(meter.most <= rate / 8, "seed {seed}, {rate}: {} bytes in a second", meter.most);
            let mean = meter.all as f64 * 8.0 / busy.as_secs_f64();
            let least = if rate < 1_000_000 { 0.55 } else { 0.93 };
            assert!(mean >= least * rate as f64, "seed {seed}, {rate}: {mean}");
        }
    }
}

/// Packets of a loopback interface, at a rate of which a twentieth of a second is less than one.
#[test]
fn large_packets_find_room() {
    let (mut cap, mut meter) = (RateCap::new(600_000, Time::ZERO), Meter::default());
    let mut now = Time::ZERO;
    while now < Time::from_millis(20_000) {
        match cap.wait(now, 8972) {
            Ok(()) => {
                cap.on_sent(8972);
                meter.count(now, 8972);
            }
            Err(at) => now = at,
        }
    }
    assert!(meter.most <= 75_000, "{}", meter.most);
    assert!(meter.all >= 20 * 65_000, "{}", meter.all);
}

/// Whoever had nothing to send for long is not paid for that twice.
#[test]
fn a_pause_is_forgotten() {
    let (mut cap, now) = (RateCap::new(1_000_000, Time::ZERO), Time::from_millis(60_000));
    for _ in 0..5 {
        assert_eq!(cap.wait(now, 1250), Ok(()));
        cap.on_sent(1250);
    }
    assert!(cap.wait(now, 1250).is_err(), "there was room for five");
}

#[test]
fn what_does_not_wait_counts() {
    // 125,000 bytes a second, of which 118,750 leak and 6250 are room.
    let mut cap = RateCap::new(1_000_000, Time::ZERO);
    assert_eq!((cap.rate(), cap.wait(Time::ZERO, 6250)), (118_750, Ok(())));
    cap.on_sent(118_750);
    // Of 120,000 bytes with the next, 6250 find room, and the others take 957.9 ms.
    let due = cap.wait(Time::ZERO, 1250).unwrap_err();
    assert_eq!(due.as_nanos() / 100_000, 9578);
    assert_eq!(cap.wait(due, 1250), Ok(()));
    // Whatever it is, not for ever.
    cap.on_sent(1 << 40);
    assert!(cap.wait(due, 1250).unwrap_err().since(due) < Duration::from_secs(5));
}

#[test]
fn what_is_larger_than_its_room_leaves_when_all_else_has() {
    let mut cap = RateCap::new(1_000_000, Time::ZERO);
    assert_eq!(cap.wait(Time::ZERO, 60_000), Ok(()));
    cap.on_sent(60_000);
    let due = cap.wait(Time::ZERO, 60_000).unwrap_err();
    assert_eq!(due.as_nanos(), (60_000 * 1_000_000_000u64).div_ceil(118_750));
    assert_eq!(cap.wait(due, 60_000), Ok(()));
}

#[test]
fn another_rate_forgets_nothing() {
    let mut cap = RateCap::new(8_000_000, Time::ZERO);
    cap.on_sent(40_000);
    cap.set_rate(800_000, Time::ZERO);
    // 100,000 bytes a second: 5000 are room, and 35,000 leak at 95,000.
    let due = cap.wait(Time::ZERO, 0).unwrap_err();
    assert_eq!(due.as_nanos() / 1_000_000, 368);
}
