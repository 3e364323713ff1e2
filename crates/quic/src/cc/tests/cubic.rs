use quickset_base::{Duration, Time};

use super::link::{Link, MTU, World};
use crate::cc::cubic::Cubic;
use crate::cc::{Algorithm, Congestion, Feedback, Packet, PacketState, Sent};

/// A controller fed by hand: a window of packets in each round trip.
struct Hand {
    cubic: Cubic,
    now: Time,
    rtt: Duration,
}

impl Hand {
    fn new(rtt: Duration) -> Self {
        Self { cubic: Cubic::new(MTU, Time::from_millis(1)), now: Time::from_millis(1), rtt }
    }

    fn packets(&self) -> f64 {
        self.cubic.control().window as f64 / MTU as f64
    }

    fn feedback(&mut self, acked: &[Packet], lost: &[Packet], (in_flight, ce, spurious): (u64, u64, u64)) {
        self.cubic.on_feedback(&Feedback {
            now: self.now,
            acked,
            lost,
            prior_in_flight: in_flight,
            in_flight: in_flight - (acked.len() + lost.len()) as u64 * MTU,
            rtt: Some(self.rtt),
            srtt: self.rtt,
            min_rtt: self.rtt,
            ce,
            persistent: false,
            spurious,
        });
    }

    fn packet(&self) -> Packet {
        Packet { number: 0, sent: self.now - self.rtt, bytes: MTU, state: PacketState::default() }
    }

    /// A round trip with `in_flight` of the window in use, acknowledged evenly.
    fn round_with(&mut self, in_flight: u64) {
        let n = (in_flight / MTU).max(1);
        for _ in 0..n {
            self.now += self.rtt / n as u32;
            self.cubic.on_sent(&Sent { now: self.now, bytes: MTU, in_flight, app_limited: false });
            let packet = self.packet();
            self.feedback(&[packet], &[], (in_flight, 0, 0));
        }
    }

    fn round(&mut self) {
        self.round_with(self.cubic.control().window);
    }

    /// A packet that left just now is lost.
    fn lose(&mut self) {
        let lost = Packet { sent: self.now, ..self.packet() };
        self.now += self.rtt;
        let window = self.cubic.control().window;
        self.feedback(&[], &[lost], (window, 0, 0));
        // What was in flight at the loss is acknowledged without growth.
        let window = self.cubic.control().window;
        let old = Packet { sent: self.now - self.rtt, ..lost };
        self.feedback(&[old], &[], (window, 0, 0));
        assert_eq!(self.cubic.control().window, window);
        self.now += self.rtt + Duration::from_nanos(1);
    }

    fn grow_to(&mut self, packets: f64) {
        while self.packets() < packets {
            self.round();
        }
    }
}

#[test]
fn slow_start_doubles_and_the_initial_window_is_ten_packets() {
    let mut hand = Hand::new(Duration::from_millis(50));
    assert_eq!(hand.cubic.control().window, 12_500);
    for packets in [20, 40, 80] {
        hand.round();
        assert_eq!(hand.cubic.control().window, packets * MTU);
    }
    // RFC 9002 §7.2: 14,720 bytes for packets of 1,472, and two packets of a jumbo size.
    assert_eq!(Cubic::new(1472, Time::ZERO).control().window, 14_720);
    assert_eq!(Cubic::new(9000, Time::ZERO).control().window, 18_000);
}

/// RFC 9438 §4.2, computed here: W(t) = 0.4·(t - K)³ + W_max.
#[test]
fn the_window_follows_the_cubic_curve() {
    let mut hand = Hand::new(Duration::from_millis(100));
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

/// RFC 9438 §4.7: a second reduction below the last peak lowers the peak to 0.85 of the window.
#[test]
fn fast_convergence_gives_way() {
    let mut hand = Hand::new(Duration::from_millis(100));
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

/// RFC 9438 §4.3: on a short path a packet per 1.89 round trips (3·0.3/1.7), above the old window one per round.
#[test]
fn short_paths_grow_like_reno() {
    let mut hand = Hand::new(Duration::from_millis(5));
    hand.grow_to(40.0);
    let prior = hand.packets();
    hand.lose();
    let begin = hand.packets();
    for n in 1..=15 {
        hand.round();
        // Rounds are whole packets, so a round acknowledges a fraction less than a window.
        let expected = begin + 0.529 * n as f64;
        assert!(
            (hand.packets() - expected).abs() < 0.06 * n as f64 + 0.1,
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
fn one_reaction_per_round_trip() {
    let mut hand = Hand::new(Duration::from_millis(50));
    hand.grow_to(160.0);
    let window = hand.packets();
    let in_flight = hand.cubic.control().window;
    let lost = Packet { sent: hand.now, ..hand.packet() };
    hand.now += hand.rtt;
    hand.feedback(&[], &[lost], (in_flight, 0, 0));
    hand.now += hand.rtt / 2;
    hand.feedback(&[], &[lost, lost], (in_flight - MTU, 0, 0));
    assert!((hand.packets() - 0.7 * window).abs() < 0.01);
    // A mark on what left afterwards is news (RFC 9002 §7.1).
    let marked = Packet { sent: hand.now, ..lost };
    hand.now += hand.rtt;
    hand.feedback(&[marked], &[], (in_flight / 2, 1, 0));
    assert!((hand.packets() - 0.49 * window).abs() < 0.01, "{}", hand.packets());
}

#[test]
fn losses_that_were_none_are_undone() {
    let mut hand = Hand::new(Duration::from_millis(50));
    hand.grow_to(160.0);
    let window = hand.packets();
    let in_flight = hand.cubic.control().window;
    let lost = Packet { sent: hand.now, ..hand.packet() };
    hand.now += hand.rtt;
    hand.feedback(&[], &[lost, lost], (in_flight, 0, 0));
    hand.feedback(&[], &[], (in_flight - 2 * MTU, 0, 1));
    assert!(hand.packets() < window, "one of two was lost");
    hand.feedback(&[], &[], (in_flight - 2 * MTU, 0, 1));
    assert_eq!(hand.cubic.control().window, in_flight);
    assert!(hand.cubic.control().slow_start);
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut hand = Hand::new(Duration::from_millis(50));
    hand.grow_to(40.0);
    let slow = hand.packets();
    for _ in 0..20 {
        hand.round_with(8 * MTU);
    }
    // What was in use before the pause still counts for a round or two.
    assert!(hand.packets() <= slow + 16.0, "{}", hand.packets());
    hand.grow_to(640.0);
    hand.lose();
    let start = hand.now;
    for _ in 0..10 {
        hand.round();
    }
    let grown = hand.packets();
    // RFC 9438 §5.8: a minute of little use does not count on the curve.
    for _ in 0..1200 {
        hand.round_with(100 * MTU);
    }
    let paused = hand.packets();
    assert!(paused - grown < 30.0, "{grown} -> {paused}");
    hand.round();
    assert!(hand.packets() - paused < 30.0, "no jump after {:?}", hand.now.since(start));
}

#[test]
fn persistent_congestion_leaves_two_packets() {
    let mut hand = Hand::new(Duration::from_millis(50));
    hand.grow_to(160.0);
    let lost = Packet { sent: hand.now, ..hand.packet() };
    hand.now += hand.rtt;
    hand.cubic.on_feedback(&Feedback {
        now: hand.now,
        acked: &[],
        lost: &[lost],
        prior_in_flight: 10 * MTU,
        in_flight: 9 * MTU,
        rtt: None,
        srtt: hand.rtt,
        min_rtt: hand.rtt,
        ce: 0,
        persistent: true,
        spurious: 0,
    });
    assert_eq!(hand.cubic.control().window, 2 * MTU);
    assert!(hand.cubic.control().slow_start, "up to where it was cut");
}

#[test]
fn a_clean_link_is_filled_and_shared() {
    let link =
        Link { bits_per_second: 20_000_000, rtt: Duration::from_millis(40), queue: 100_000, loss: 0.0 };
    let mut world = World::new(link, 1);
    world.add(Algorithm::Cubic);
    world.run(Duration::from_secs(5));
    let report = world.run(Duration::from_secs(30));
    assert!(report.utilisation() > 0.95, "{report:?}");
    world.add(Algorithm::Cubic);
    world.run(Duration::from_secs(20));
    let report = world.run(Duration::from_secs(60));
    assert!(report.shares.iter().all(|share| *share > 0.3), "{report:?}");
}

#[test]
fn a_fixed_rate_heeds_nothing() {
    let link =
        Link { bits_per_second: 20_000_000, rtt: Duration::from_millis(40), queue: 100_000, loss: 0.1 };
    let mut world = World::new(link, 1);
    world.add(Algorithm::Fixed(10_000_000));
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
    world.add(Algorithm::Cubic);
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
            world.add(Algorithm::Cubic);
            world.run(Duration::from_secs(20));
            got += world.run(Duration::from_secs(200)).utilisation() * 125e6 / seeds as f64;
        }
        assert!((1.0 / 1.5..1.5).contains(&(got / expected)), "{loss} {rtt}: {got} bytes/s, not {expected}");
    }
}
