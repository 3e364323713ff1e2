use quickset_base::{Duration, Time};

use super::hand::Hand;
use super::link::{Link, MTU, World};
use crate::cc::{Algorithm, TransmittedPacket};

/// W(t) = 0.4·(t - K)³ + W_max in packets, with K = ∛((W_max - start) / 0.4) (RFC 9438 §4.2).
fn curve(t: f64, w_max: f64, start: f64) -> f64 {
    let k = ((w_max - start) / 0.4).cbrt();
    0.4 * (t - k).powi(3) + w_max
}

/// RFC 9438 §4.2, computed here: W(t) = 0.4·(t - K)³ + W_max.
#[test]
fn the_window_follows_the_cubic_curve() {
    let mut hand = Hand::new(&Algorithm::Cubic, 100);
    hand.grow_to(1280.0);
    let w_max = hand.packets();
    hand.lose();
    assert!((hand.packets() - 0.7 * w_max).abs() < 1.0);
    let start = hand.now;
    let k = (0.3 * w_max / 0.4).cbrt();
    for step in 1..200 {
        hand.round();
        let t = hand.now.since(start).as_secs_f64();
        let expected = 0.4 * (t - k).powi(3) + w_max;
        let got = hand.packets();
        assert!((got / expected - 1.0).abs() < 0.015, "step {step}, {t:.2} s: {got} packets, not {expected}");
    }
    assert!(hand.now.since(start).as_secs_f64() > k, "past the flat part");
}

/// Other packets are no other window: RFC 9438 counts in packets, and a path that takes larger ones has not
/// become wider by that, neither now nor when a loss proves to be none.
#[test]
fn larger_packets_are_no_larger_window() {
    const LARGER: u64 = 4 * MTU;
    for rtt in [5, 100] {
        for undone in [false, true] {
            let mut hand = Hand::new(&Algorithm::Cubic, rtt);
            hand.grow_to(200.0);
            hand.lose();
            for _ in 0..20 {
                hand.round();
            }
            let declared = undone.then(|| hand.declare(1, false));
            let least = hand.window();
            hand.cc.set_mtu(LARGER);
            if let Some(declared) = declared {
                hand.arrive(&[declared]);
            }
            let before = hand.window();
            hand.round();
            // As much as Reno, or up to the last peak; below it the first round trip of a curve is its
            // steepest.
            let k = (0.3 * before as f64 / LARGER as f64 / 0.4).cbrt();
            let steepest = 3.0 * 0.4 * k * k * 0.001 * rtt as f64 + 2.0;
            let most = before + (steepest * LARGER as f64) as u64;
            assert!(hand.window() <= most, "{rtt} ms, undone: {undone}: {before} to {}", hand.window());
            assert!(hand.window() >= least);
        }
    }
}

/// RFC 9438 §4.7: a second reduction below the last peak lowers the peak to 0.85 of the window.
#[test]
fn fast_convergence_gives_way() {
    let mut hand = Hand::new(&Algorithm::Cubic, 100);
    hand.grow_to(1280.0);
    hand.lose();
    for _ in 0..20 {
        hand.round();
    }
    let window = hand.packets();
    hand.lose();
    let (start, w_max) = (hand.now, 0.85 * window);
    let k = ((w_max - 0.7 * window) / 0.4).cbrt();
    for _ in 0..100 {
        hand.round();
    }
    let t = hand.now.since(start).as_secs_f64();
    let expected = 0.4 * (t - k).powi(3) + w_max;
    assert!((hand.packets() / expected - 1.0).abs() < 0.015, "{} packets, not {expected}", hand.packets());
}

/// RFC 9438 §4.3: on a short path a packet per 1.89 round trips (3·0.3/1.7), above the old window one per
/// round.
#[test]
fn short_paths_grow_like_reno() {
    let mut hand = Hand::new(&Algorithm::Cubic, 5);
    hand.grow_to(40.0);
    let prior = hand.packets();
    hand.lose();
    let begin = hand.packets();
    for n in 1..=15 {
        hand.round();
        // Rounds are whole packets, so a round acknowledges a fraction less than a window.
        let expected = begin + 0.529 * f64::from(n);
        assert!(
            (hand.packets() - expected).abs() < 0.06 * f64::from(n) + 0.1,
            "{} not {expected}",
            hand.packets()
        );
    }
    while hand.packets() < prior {
        hand.round();
    }
    let begin = hand.packets();
    for _ in 0..10 {
        hand.round();
    }
    assert!((8.5..10.5).contains(&(hand.packets() - begin)), "{}", hand.packets() - begin);
}

#[test]
fn a_clean_link_is_filled_and_shared() {
    let link =
        Link { bits_per_second: 20_000_000, rtt: Duration::from_millis(40), queue: 100_000, loss: 0.0 };
    let mut world = World::new(link, 1);
    world.add(&Algorithm::Cubic);
    world.run(Duration::from_secs(5));
    let report = world.run(Duration::from_secs(30));
    assert!(report.utilisation() > 0.95, "{report:?}");
    world.add(&Algorithm::Cubic);
    world.run(Duration::from_secs(20));
    let report = world.run(Duration::from_secs(60));
    assert!(report.shares.iter().all(|share| *share > 0.3), "{report:?}");
}

#[test]
fn a_fixed_rate_heeds_nothing() {
    let link =
        Link { bits_per_second: 20_000_000, rtt: Duration::from_millis(40), queue: 100_000, loss: 0.1 };
    let mut world = World::new(link, 1);
    world.add(&Algorithm::Fixed(10_000_000));
    world.run(Duration::from_secs(1));
    let report = world.run(Duration::from_secs(10));
    // Half the link, less a tenth that is lost.
    assert!((report.utilisation() - 0.45).abs() < 0.01, "{report:?}");
    assert_eq!(world.rate(0), Some(1_250_000));
}

/// A queue of one volume keeps the link busy through a cut to 0.7: 0.7 · 2 volumes are more than one.
#[test]
fn a_queue_of_one_volume_is_enough() {
    let link =
        Link { bits_per_second: 100_000_000, rtt: Duration::from_millis(100), queue: 1_250_000, loss: 0.0 };
    let mut world = World::new(link, 1);
    world.add(&Algorithm::Cubic);
    world.run(Duration::from_secs(10));
    let report = world.run(Duration::from_secs(20));
    assert!(report.utilisation() > 0.9, "{report:?}");
}

/// RFC 9438 §5.1: in the Reno-friendly region the mean window is √(3/2p) packets, above it
/// (C·(3 + β) / 4(1 - β))^¼ · (RTT/p)^¾. Whichever is greater holds.
#[test]
fn random_loss_leaves_what_the_response_function_says() {
    for (loss, rtt) in [(0.005, 0.1), (0.005, 0.02), (0.0005, 0.2)] {
        let reno = (1.5f64 / loss).sqrt();
        let cubic = (0.4f64 * 3.7 / 1.2).powf(0.25) * (rtt / loss).powf(0.75);
        let expected = reno.max(cubic) * MTU as f64 / rtt;
        let link = Link {
            bits_per_second: 1_000_000_000,
            rtt: Duration::from_secs_f64(rtt),
            queue: 10_000_000,
            loss,
        };
        let (mut got, seeds) = (0.0, 4);
        for seed in 0..seeds {
            let mut world = World::new(link, seed);
            world.add(&Algorithm::Cubic);
            world.run(Duration::from_secs(20));
            got += world.run(Duration::from_secs(200)).utilisation() * 125e6 / seeds as f64;
        }
        assert!((1.0 / 1.5..1.5).contains(&(got / expected)), "{loss} {rtt}: {got} bytes/s, not {expected}");
    }
}

/// RFC 9438 §4.8: after persistent congestion slow start leads to 0.7 of the old window, where the curve is
/// flat (K = 0).
#[test]
fn after_persistent_congestion_the_curve_begins_flat() {
    let mut hand = Hand::new(&Algorithm::Cubic, 100);
    hand.grow_to(1280.0);
    let prior = hand.packets();
    hand.declare(1, true);
    assert_eq!(hand.window(), 2 * MTU);
    while hand.state() == "slow start" {
        hand.round();
    }
    let (start, begin) = (hand.now, hand.packets());
    assert!((begin - 0.7 * prior).abs() < 5.0, "{begin} of {prior}");
    for _ in 0..120 {
        hand.round();
        let t = hand.now.since(start).as_secs_f64();
        // §4.3: 0.529 packets a round trip at least, while the curve is flatter.
        let expected = (begin + 0.529 * t / 0.1).max(curve(t, begin, begin));
        let got = hand.packets();
        assert!((got / expected - 1.0).abs() < 0.015, "{t:.2} s: {got} packets, not {expected}");
    }
}

/// RFC 9438 §4.10, RFC 9406 §4.2: five rounds after the round trip grew, and the curve is flat there. Reno's
/// pace is a packet a round trip, since the window was never cut.
#[test]
fn after_hystart_the_curve_begins_flat() {
    let mut hand = Hand::new(&Algorithm::Cubic, 100);
    hand.grow_to(160.0);
    hand.rtt = Duration::from_millis(130);
    let mut rounds = 0;
    while hand.state() != "congestion avoidance" {
        hand.round();
        rounds += 1;
    }
    // 8 samples into the second of them, which is one of the five.
    assert!((5..=7).contains(&rounds), "{rounds}");
    let (start, begin) = (hand.now, hand.packets());
    assert!(hand.window() - hand.cc.control().view.bound.unwrap() < MTU);
    for _ in 0..100 {
        hand.round();
        let t = hand.now.since(start).as_secs_f64();
        let expected = (begin + t / 0.13).max(curve(t, begin, begin));
        let got = hand.packets();
        assert!((got / expected - 1.0).abs() < 0.015, "{t:.2} s: {got} packets, not {expected}");
    }
}

/// RFC 9438 §5.8: a minute of silence, or of little to send, is no time on the curve.
#[test]
fn unused_time_is_no_time_on_the_curve() {
    for idle in [true, false] {
        let mut hand = Hand::new(&Algorithm::Cubic, 100);
        hand.grow_to(1280.0);
        let w_max = hand.packets();
        hand.lose();
        let begin = hand.packets();
        let start = hand.now;
        (0..60).for_each(|_| hand.round());
        let used = hand.now.since(start);
        if idle {
            // The last packet is acknowledged, and the next leaves a minute later.
            hand.now += Duration::from_secs(60);
            hand.cc.on_sent(&TransmittedPacket {
                now: hand.now,
                bytes: MTU,
                in_flight: MTU,
                app_limited: false,
            });
        } else {
            let before = hand.packets();
            (0..600).for_each(|_| hand.round_with(100 * MTU, 1));
            assert!(hand.packets() - before < 8.0, "what was in flight before counts for two rounds");
        }
        let again = hand.now;
        for _ in 0..40 {
            hand.round();
            let t = (used + hand.now.since(again)).as_secs_f64();
            let (got, expected) = (hand.packets(), curve(t, w_max, begin));
            assert!((got / expected - 1.0).abs() < 0.02, "{idle} {t:.2} s: {got} packets, not {expected}");
        }
    }
}

/// RFC 9438 §4.9.2: as if the event had not been, with the time it took on the curve.
#[test]
fn an_event_that_was_none_leaves_no_trace_on_the_curve() {
    let mut hand = Hand::new(&Algorithm::Cubic, 100);
    hand.grow_to(1280.0);
    let w_max = hand.packets();
    hand.lose();
    let (start, begin) = (hand.now, hand.packets());
    (0..60).for_each(|_| hand.round());
    let before = hand.window();
    let declared = hand.declare(3, false);
    assert!((hand.packets() / (0.7 * before as f64 / MTU as f64) - 1.0).abs() < 0.001);
    hand.arrive(&[declared; 3]);
    assert_eq!(hand.window(), before);
    for _ in 0..60 {
        hand.round();
        let t = hand.now.since(start).as_secs_f64();
        let (got, expected) = (hand.packets(), curve(t, w_max, begin));
        assert!((got / expected - 1.0).abs() < 0.015, "{t:.2} s: {got} packets, not {expected}");
    }
}

#[test]
fn the_initial_window_is_ten_packets() {
    // RFC 9002 §7.2: 14,720 bytes for packets of 1,472, and two packets of a jumbo size.
    for (mtu, window) in [(1250, 12_500), (1472, 14_720), (9000, 18_000)] {
        for algorithm in [Algorithm::Cubic, Algorithm::NewReno] {
            assert_eq!(algorithm.build(mtu, Time::ZERO).control().window, window);
        }
    }
}
