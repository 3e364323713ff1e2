//! Sources and sinks.

use quickset_base::{Duration, Ecn, Time};
use quickset_sim::{
    Either, PacketTraffic, RunEnded, SinkFlow, TrafficPace, TrafficSink, TrafficSource, World, address,
    each_seed,
};

use crate::{ms, pair, us};

type Node = Either<TrafficSource, TrafficSink>;

/// What a sink gets from one source over `link`.
fn through(seed: u64, link: &str, traffic: PacketTraffic, interval: Duration) -> (World<Node>, SinkFlow) {
    let (source, sink) = (TrafficSource::new(traffic, seed), TrafficSink::new(interval));
    let (mut world, [_, right], _) = pair(seed, link, Either::Left(source), Either::Right(sink));
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    let flow =
        world.node(right).right().expect("it was built so").flow(address(1)).cloned().unwrap_or_default();
    (world, flow)
}

fn until(stop: Time, pace: TrafficPace) -> PacketTraffic {
    PacketTraffic { stop: Some(stop), ..PacketTraffic::new(address(2), 1000, pace) }
}

fn sent(world: &World<Node>) -> u64 {
    world.nodes().find_map(|(_, node)| node.left()).expect("one is a source").sent()
}

#[test]
fn a_constant_rate_is_exact_however_long_it_goes_on() {
    // 8000 bits at 3 Mbit/s: every 2 666 666 2/3 ns. In [5 ms, 1005 ms) that is 375 packets.
    let traffic = PacketTraffic { start: ms(5), ..until(ms(1005), TrafficPace::constant(3_000_000)) };
    let (world, flow) = through(1, "delay=1ms", traffic, Duration::from_millis(100));
    assert_eq!((sent(&world), flow.packets, flow.bytes), (375, 375, 375_000));
    assert_eq!((flow.first, flow.last), (ms(6), ms(6) + Duration::from_nanos(374 * 8_000_000 / 3)));
    assert_eq!((flow.least_delay, flow.most_delay), (Duration::from_millis(1), Duration::from_millis(1)));
    assert_eq!(flow.mean_delay(), Duration::from_millis(1));
    assert_eq!((flow.lost(), flow.copies, flow.late, flow.marked), (0, 0, 0, 0));
    // 37 or 38 packets in each tenth of a second but the first and the last.
    assert_eq!(flow.series.iter().sum::<u64>(), flow.bytes);
    assert_eq!(flow.series.len(), 11);
    assert!(flow.series[1..10].iter().all(|bytes| (37_000..=38_000).contains(bytes)), "{:?}", flow.series);
}

#[test]
fn poisson_counts_vary_as_much_as_their_mean() {
    each_seed(1..6, |seed| {
        // 1000 packets a second for 100 s, counted in 10,000 intervals of 10 ms.
        let traffic = until(ms(100_000), TrafficPace::poisson(8_000_000));
        let (world, flow) = through(seed, "perfect", traffic, Duration::from_millis(10));
        let n = sent(&world) as f64;
        assert!((n - 1e5).abs() < 4.0 * 1e5f64.sqrt(), "{n}");
        let mut counts: Vec<f64> = flow.series.iter().map(|bytes| *bytes as f64 / 1000.0).collect();
        counts.resize(10_000, 0.0);
        let mean = counts.iter().sum::<f64>() / 1e4;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (1e4 - 1.0);
        // The index of dispersion of n intervals has the standard deviation sqrt(2 / (n - 1)).
        let index = variance / mean;
        assert!((index - 1.0).abs() < 4.0 * (2.0f64 / 9999.0).sqrt(), "{index}");
        // P(no packet in 10 ms) is e^-10, P(at most 5) 0.0671.
        let few = counts.iter().filter(|count| **count <= 5.0).count() as f64;
        assert!((few - 670.9).abs() < 4.0 * (670.9f64 * 0.933).sqrt(), "{few}");
        // Counts of neighbours do not depend on one another.
        let joint = counts.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        let correlation = joint / 9999.0 / variance;
        assert!(correlation.abs() < 0.04, "{correlation}");
    });
}

#[test]
fn bursts_and_silence() {
    // A packet a millisecond in 10 of each 30 ms; 3.3 periods.
    let (on, off) = (Duration::from_millis(10), Duration::from_millis(20));
    let fixed = TrafficPace::OnOff { bps: 8_000_000, on, off, drawn: false };
    let (_, flow) = through(1, "perfect", until(ms(99), fixed), Duration::from_millis(10));
    let k = 10_000;
    assert_eq!(flow.series, [k, 0, 0, k, 0, 0, k, 0, 0, 9_000]);
    // Drawn: a third of the time at the mean, and the first packet of each burst is early.
    let drawn = TrafficPace::OnOff { bps: 8_000_000, on, off, drawn: true };
    each_seed(1..4, |seed| {
        let (_, flow) = through(seed, "perfect", until(ms(300_000), drawn), Duration::ZERO);
        // Per period of 30 ms: 1 / (1 - exp(-1/10)) = 10.5 packets. Their number and the period's length have
        // variances of 100 and 500 ms² and a covariance of 100, which makes (renewals with reward) a standard
        // deviation of sqrt(100 + 0.35² 500 - 2 0.35 100) = 9.5 per square root of a period.
        let (mean, periods) = (1.0 / (1.0 - (-0.1f64).exp()), 10_000.0f64);
        let packets = flow.packets as f64;
        assert!((packets - periods * mean).abs() < 5.0 * 9.5 * periods.sqrt(), "{packets}");
        assert!(flow.series.is_empty());
    });
}

#[test]
fn degenerate_paces_come_to_an_end() {
    let zero = Duration::ZERO;
    let onoff = |bps, on, off| TrafficPace::OnOff { bps, on, off, drawn: false };
    for (pace, packets) in [
        (TrafficPace::constant(0), 0),
        (TrafficPace::poisson(0), 0),
        (onoff(0, zero, zero), 0),
        (onoff(8_000_000, zero, zero), 1),
        (onoff(8_000_000, Duration::MAX, zero), 100),
        (onoff(8_000_000, Duration::from_millis(1), zero), 100),
        (onoff(1, Duration::from_millis(1), Duration::MAX), 1),
    ] {
        let (_, flow) = through(1, "perfect", until(ms(100), pace), zero);
        assert_eq!(flow.packets, packets, "{pace:?}");
    }
    // Sizes below the least are raised, and nothing is sent before the start.
    let late = PacketTraffic { size: 0, start: ms(200), ..until(ms(100), TrafficPace::constant(8)) };
    assert_eq!(through(1, "perfect", late, zero).1.packets, 0);
    let tiny = PacketTraffic {
        size: 0,
        ..until(ms(10), TrafficPace::constant(PacketTraffic::LEAST as u64 * 8_000))
    };
    assert_eq!(through(1, "perfect", tiny, zero).1.bytes, 10 * PacketTraffic::LEAST as u64);
}

#[test]
fn a_sink_sees_what_the_link_did() {
    let rough = "rate=50mbit delay=5ms loss=3% duplicate=2% jitter=1ms reorder=yes";
    each_seed(1..4, |seed| {
        let traffic = PacketTraffic { ecn: Ecn::Ce, ..until(ms(4000), TrafficPace::constant(16_000_000)) };
        let (mut world, [left, right], [up, _]) = pair(
            seed,
            rough,
            Either::Left(TrafficSource::new(traffic, 1)),
            Either::Right(TrafficSink::new(Duration::ZERO)),
        );
        world.run(Time::MAX).unwrap();
        let (counts, sink) = (world.counts(up), world.node(right).right().unwrap());
        let flow = sink.flow(address(1)).unwrap();
        assert_eq!(flow.packets, counts.passed + counts.duplicated);
        assert_eq!(flow.copies, counts.duplicated);
        assert_eq!(flow.marked, flow.packets);
        // But those that were lost after the last one that came.
        let unseen = counts.lost - flow.lost();
        assert!(unseen < 5, "{counts:?}, {} missing", flow.lost());
        assert_eq!(world.node(left).left().unwrap().sent(), counts.sent);
        // Packets follow each other by 500 µs and are shifted by up to 1 ms.
        assert!(flow.late > flow.packets / 20, "{}", flow.late);
        assert!(flow.least_delay >= Duration::from_millis(5) && flow.most_delay < us(6200).since(Time::ZERO));
    });
}

#[test]
fn damaged_numbers_are_not_believed() {
    let traffic =
        PacketTraffic { size: PacketTraffic::LEAST, ..until(ms(1000), TrafficPace::constant(1_000_000)) };
    let (source, sink) = (TrafficSource::new(traffic, 1), TrafficSink::new(Duration::ZERO));
    let link = "corrupt=20%";
    let (mut world, [_, right], [up, _]) = pair(1, link, Either::Left(source), Either::Right(sink));
    world.run(Time::MAX).unwrap();
    // All of such a packet is number, time and check, so each flipped bit is found.
    let (counts, sink) = (world.counts(up), world.node(right).right().unwrap());
    assert!(counts.corrupted > 100);
    assert_eq!((sink.foreign(), sink.packets()), (counts.corrupted, counts.passed - counts.corrupted));
    assert_eq!(sink.flow(address(1)).unwrap().lost(), counts.corrupted);
}
