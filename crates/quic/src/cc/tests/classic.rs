use proptest::prelude::*;
use quickset_base::{Duration, Rng, Time};

use super::hand::{Also, Hand};
use super::link::{Link, MTU, World};
use crate::cc::{Algorithm, SettledPacket, TransmittedPacket};

const BOTH: [(Algorithm, f64); 2] = [(Algorithm::NewReno, 0.5), (Algorithm::Cubic, 0.7)];

/// RFC 9002 §7.3.1, §B.5.
#[test]
fn slow_start_doubles() {
    for (algorithm, _) in BOTH {
        let mut hand = Hand::new(&algorithm, 50);
        for packets in [20, 40, 80] {
            hand.round();
            assert_eq!(hand.window(), packets * MTU);
            assert_eq!(hand.state(), "slow start");
        }
    }
}

/// RFC 9002 §7.2: the initial window is ten packets, of the size that they have by then, and no more than
/// 14,720 bytes or two packets; what was learnt of the path since does not change with the size.
#[test]
fn a_window_from_which_nothing_was_learnt_goes_with_the_size_of_packets() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Bbr] {
        let fresh = || algorithm.build(1200, Time::from_millis(1));
        for (mtu, window) in [(1200, 12_000), (1400, 14_000), (1472, 14_720), (2000, 14_720), (3000, 14_720)]
        {
            let mut cc = fresh();
            cc.set_mtu(mtu);
            assert_eq!(cc.control().window, window, "{algorithm}, {mtu}");
            cc.set_mtu(1200);
            assert_eq!(cc.control().window, 12_000, "{algorithm}, {mtu}");
        }
    }
    for (algorithm, _) in BOTH {
        for grown in [true, false] {
            let mut hand = Hand::new(&algorithm, 50);
            if grown {
                hand.grow_to(40.0);
            } else {
                hand.declare(3, false);
            }
            let before = hand.window();
            hand.cc.set_mtu(1472);
            assert_eq!(hand.window(), before, "{algorithm}");
        }
    }
}

/// RFC 9002 §7.3.3: at most a packet for each window that is acknowledged, however the acknowledgements come.
#[test]
fn a_packet_each_round_trip() {
    for each in [1, 2, 10] {
        let mut hand = Hand::new(&Algorithm::NewReno, 50);
        hand.grow_to(640.0);
        hand.lose();
        assert_eq!(hand.window(), 320 * MTU);
        let mut expected = 320.0;
        for _ in 0..100 {
            // A round acknowledges whole packets, in whole acknowledgements.
            let window = hand.packets();
            hand.round_with(hand.window(), each);
            expected += (window.floor() / each as f64).floor() * each as f64 / window;
            // While a window is acknowledged it grows, by less than a packet.
            let off = hand.packets() - expected;
            assert!(off.abs() < 0.3, "{each}: {} packets, not {expected}", hand.packets());
            assert_eq!(hand.state(), "congestion avoidance");
        }
        assert!(expected > 418.0);
    }
}

/// RFC 9002 §7.1, §7.3.2: losses and marks count once for each round trip.
/// RFC 9002 §B.6, §B.7.
#[test]
fn one_reaction_per_round_trip() {
    for (algorithm, kept) in BOTH {
        let mut hand = Hand::new(&algorithm, 50);
        hand.grow_to(160.0);
        let (window, in_flight) = (hand.packets(), hand.window());
        let lost = SettledPacket { sent: hand.now, ..hand.packet() };
        hand.now += hand.rtt;
        hand.feedback(&[], &[lost], in_flight, Also::default());
        hand.now += hand.rtt / 2;
        hand.feedback(&[], &[lost, lost], in_flight - MTU, Also::default());
        // A mark on what left before tells nothing new.
        hand.feedback(&[lost], &[], in_flight - 3 * MTU, Also { ce: 1, ..Also::default() });
        assert!((hand.packets() - kept * window).abs() < 0.01);
        assert_eq!(hand.state(), "recovery");
        let marked = SettledPacket { sent: hand.now, ..lost };
        hand.now += hand.rtt;
        hand.feedback(&[marked], &[], in_flight / 2, Also { ce: 1, ..Also::default() });
        assert!((hand.packets() - kept * kept * window).abs() < 0.01, "{}", hand.packets());
        // One on an acknowledgement of ours, beside which nothing of weight was acknowledged.
        hand.now += 2 * hand.rtt;
        hand.feedback(&[], &[], in_flight / 2, Also { ce: 1, ..Also::default() });
        assert!((hand.packets() - kept * kept * kept * window).abs() < 0.01, "{}", hand.packets());
    }
}

/// RFC 9002 §7.2: two packets.
#[test]
fn the_least_window_is_two_packets() {
    for (algorithm, kept) in BOTH {
        let mut hand = Hand::new(&algorithm, 50);
        let mut expected = 10.0;
        for _ in 0..12 {
            hand.lose();
            expected = f64::max(expected * kept, 2.0);
            assert!((hand.packets() - expected).abs() < 0.01, "{} packets, not {expected}", hand.packets());
        }
        assert_eq!(hand.window(), 2 * MTU);
    }
}

/// Packets are whole, and a window is not: what remains of it is in use.
#[test]
fn the_least_window_grows_when_it_is_used() {
    for (algorithm, _) in BOTH {
        let mut hand = Hand::new(&algorithm, 50);
        (0..12).for_each(|_| hand.lose());
        assert_eq!(hand.window(), 2 * MTU);
        for _ in 0..100 {
            let whole = hand.window() / MTU * MTU;
            hand.round_with(whole, 1);
        }
        assert!(hand.packets() > 10.0, "{}", hand.packets());
    }
}

/// RFC 9002 §7.6.2, §B.8.
#[test]
fn persistent_congestion_leaves_two_packets() {
    for (algorithm, kept) in BOTH {
        let mut hand = Hand::new(&algorithm, 50);
        hand.grow_to(160.0);
        let threshold = (160.0 * kept) as u64 * MTU;
        let declared = hand.declare(1, true);
        let control = hand.cc.control();
        assert_eq!((control.window, control.view.bound), (2 * MTU, Some(threshold)));
        // What is lost of what left before is no news.
        let also = Also { persistent: false, ..Also::default() };
        let old = SettledPacket { sent: hand.now - hand.rtt, ..hand.packet() };
        hand.feedback(&[], &[old], 2 * MTU, also);
        assert_eq!((hand.window(), hand.cc.control().view.bound), (2 * MTU, Some(threshold)));
        // Up to where it was cut it doubles again, and what left during the slump counts.
        hand.now += Duration::from_nanos(1);
        for packets in [4, 8, 16, 32, 64] {
            assert_eq!(hand.state(), "slow start");
            hand.round();
            assert_eq!(hand.window(), packets * MTU);
        }
        // A late packet does not bring back what persistent congestion took.
        hand.arrive(&[declared]);
        assert_eq!(hand.window(), 64 * MTU);
        hand.round();
        assert!(hand.window() <= threshold + 2 * MTU, "{}", hand.packets());
    }
}

/// RFC 9002 §7.8.
/// RFC 9002 §B.5.
#[test]
fn an_unused_window_does_not_grow() {
    for (algorithm, _) in BOTH {
        let mut hand = Hand::new(&algorithm, 50);
        hand.grow_to(40.0);
        let slow = hand.packets();
        for _ in 0..20 {
            hand.round_with(8 * MTU, 1);
        }
        // What was in use before the pause still counts for a round or two.
        assert!(hand.packets() <= slow + 16.0, "{}", hand.packets());
        hand.grow_to(640.0);
        hand.lose();
        (0..10).for_each(|_| hand.round());
        let grown = hand.packets();
        for _ in 0..1200 {
            hand.round_with(100 * MTU, 1);
        }
        let paused = hand.packets();
        assert!(paused - grown < 3.0, "{grown} -> {paused}");
        hand.round();
        assert!(hand.packets() - paused < 30.0, "no jump");
        // A few packets are little, too.
        (0..10).for_each(|_| hand.lose());
        hand.grow_to(8.0);
        let small = hand.packets();
        (0..200).for_each(|_| hand.round_with(4 * MTU, 1));
        assert!(hand.packets() - small < 2.5, "{small} -> {}", hand.packets());
    }
}

#[test]
fn losses_that_were_none_are_undone() {
    for (algorithm, kept) in BOTH {
        let mut hand = Hand::new(&algorithm, 50);
        hand.grow_to(160.0);
        let window = hand.window();
        let declared = hand.declare(2, false);
        hand.arrive(&[declared]);
        assert!(hand.window() < window, "one of two was lost");
        // One that an earlier event missed.
        hand.arrive(&[declared - hand.rtt]);
        assert!(hand.window() < window, "one of two was lost");
        hand.arrive(&[declared]);
        assert_eq!((hand.window(), hand.state()), (window, "slow start"));
        assert_eq!(hand.cc.control().view.bound, None);

        // With a mark there was congestion, whatever arrives.
        hand.now += Duration::from_nanos(1);
        let packet = SettledPacket { sent: hand.now, ..hand.packet() };
        hand.now += hand.rtt;
        hand.feedback(&[packet], &[packet], window, Also { ce: 1, ..Also::default() });
        let cut = hand.window();
        assert!((cut as f64 / (kept * window as f64) - 1.0).abs() < 0.001);
        hand.arrive(&[hand.now]);
        assert_eq!(hand.window(), cut);
    }
}

/// RFC 9438 §4.9.2: a window that is beyond the old one already keeps what it has.
#[test]
fn what_was_regained_is_not_undone() {
    for (algorithm, _) in BOTH {
        let mut hand = Hand::new(&algorithm, 50);
        hand.grow_to(40.0);
        let window = hand.window();
        let declared = hand.declare(1, false);
        hand.now += hand.rtt + Duration::from_nanos(1);
        while hand.window() < window + MTU {
            hand.round();
        }
        let (grown, bound) = (hand.window(), hand.cc.control().view.bound);
        hand.arrive(&[declared]);
        assert_eq!((hand.window(), hand.cc.control().view.bound), (grown, bound));
    }
}

/// RFC 5681 with a packet of growth for each window: the mean window is √(3/2p) packets.
#[test]
fn random_loss_leaves_what_the_response_function_says() {
    for (loss, rtt) in [(0.005, 0.1), (0.001, 0.05)] {
        let expected = (1.5f64 / loss).sqrt() * MTU as f64 / rtt;
        let rtt = Duration::from_secs_f64(rtt);
        let link = Link { bits_per_second: 1_000_000_000, rtt, queue: 10_000_000, loss };
        let (mut got, seeds) = (0.0, 4);
        for seed in 0..seeds {
            let mut world = World::new(link, seed);
            world.add(&Algorithm::NewReno);
            world.run(Duration::from_secs(20));
            got += world.run(Duration::from_secs(200)).utilisation() * 125e6 / seeds as f64;
        }
        assert!(
            (1.0 / 1.25..1.25).contains(&(got / expected)),
            "{loss} {rtt:?}: {got} bytes/s, not {expected}"
        );
    }
}

/// Cut to a half, a queue of one volume keeps the link just busy.
#[test]
fn a_queue_of_one_volume_is_enough() {
    let link =
        Link { bits_per_second: 20_000_000, rtt: Duration::from_millis(50), queue: 125_000, loss: 0.0 };
    let mut world = World::new(link, 1);
    world.add(&Algorithm::NewReno);
    world.run(Duration::from_secs(5));
    let report = world.run(Duration::from_secs(60));
    assert!(report.utilisation() > 0.95, "{report:?}");
}

/// Two flows that begin at different times, and then differ by chance alone.
#[test]
fn equal_flows_share_equally() {
    let link =
        Link { bits_per_second: 20_000_000, rtt: Duration::from_millis(40), queue: 100_000, loss: 0.0 };
    for (algorithm, _) in BOTH {
        for seed in 0..4 {
            let mut world = World::new(link, seed);
            world.add(&algorithm);
            let gap = Rng::new(seed).below(10_000);
            world.run(Duration::from_millis(gap));
            world.add(&algorithm);
            world.run(Duration::from_secs(30));
            let report = world.run(Duration::from_secs(120));
            // Each a half, within a tenth of it.
            for share in &report.shares {
                assert!((0.45..0.55).contains(share), "{algorithm}, seed {seed}: {report:?}");
            }
        }
    }
}

/// Something that happens to a controller.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    Send(u64),
    Ack { packets: usize, age_us: u64, ce: u64 },
    Lose { packets: usize, age_us: u64, persistent: bool },
    Late { packets: usize, ago_us: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let age = || 0..3_000_000u64;
    prop_oneof![
        prop_oneof![0..200_000u64, 0..100_000_000_000u64].prop_map(Step::Pass),
        (1..500u64).prop_map(Step::Send),
        (1..500usize, age(), 0..2u64).prop_map(|(packets, age_us, ce)| Step::Ack {
            packets,
            age_us,
            ce: ce * ce
        }),
        (1..300usize, age()).prop_map(|(packets, age_us)| Step::Ack { packets, age_us, ce: 0 }),
        (1..9usize, age(), proptest::bool::weighted(0.1))
            .prop_map(|(packets, age_us, persistent)| { Step::Lose { packets, age_us, persistent } }),
        (1..9usize, age()).prop_map(|(packets, ago_us)| Step::Late { packets, ago_us }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever comes in whatever order: never below two packets; never more growth than was acknowledged but
    /// for an event that was none, and then to no more than there ever was; never a shrinking window without
    /// a loss or a mark.
    #[test]
    fn the_window_keeps_its_bounds(
        reno in any::<bool>(),
        rtt_us in 0..2_000_000u64,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut hand = Hand::new(if reno { &Algorithm::NewReno } else { &Algorithm::Cubic }, 1);
        hand.rtt = Duration::from_micros(rtt_us);
        // Packets may have left before the connection knew of time.
        hand.now = Time::from_millis(10_000);
        let mut most = hand.window();
        for step in steps {
            let before = hand.window();
            let packet = |hand: &Hand, us| SettledPacket { sent: hand.now - Duration::from_micros(us), ..hand.packet() };
            match step {
                Step::Pass(us) => hand.now += Duration::from_micros(us),
                Step::Send(packets) => {
                    let in_flight = packets * MTU;
                    hand.cc.on_sent(&TransmittedPacket { now: hand.now, bytes: MTU, in_flight, app_limited: false });
                    prop_assert_eq!(hand.window(), before);
                }
                Step::Ack { packets, age_us, ce } => {
                    let acked = vec![packet(&hand, age_us); packets];
                    hand.feedback(&acked, &[], before, Also { ce, ..Also::default() });
                    prop_assert!(hand.window() <= before + packets as u64 * MTU);
                    prop_assert!(ce > 0 || hand.window() >= before);
                }
                Step::Lose { packets, age_us, persistent } => {
                    let lost = vec![packet(&hand, age_us); packets];
                    hand.feedback(&[], &lost, before, Also { persistent, ..Also::default() });
                    prop_assert!(hand.window() <= before);
                    prop_assert!(!persistent || hand.window() == 2 * MTU);
                }
                Step::Late { packets, ago_us } => {
                    hand.arrive(&vec![hand.now - Duration::from_micros(ago_us); packets]);
                    prop_assert!((before..=most).contains(&hand.window()));
                }
            }
            prop_assert!(hand.window() >= 2 * MTU);
            most = most.max(hand.window());
        }
    }
}
