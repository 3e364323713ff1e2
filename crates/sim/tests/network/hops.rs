//! Packets over several links, and flows that share them.

use quickset_base::{Duration, Ecn, Time};
use quickset_sim::{
    Either, Fate, Link, LinkId, NodePlace, PacketTraffic, RunEnded, SinkFlow, Topology, Trace, TrafficPace,
    TrafficSink, TrafficSource, World, WorldLayout, address, each_seed,
};

use crate::common::{Planned, Toy};
use crate::{ms, spec, us};

type Node = Either<TrafficSource, TrafficSink>;

/// A world of two toys with links one behind the other from 1 to 2, and none back.
fn chain(seed: u64, links: &[&str], plan: Vec<Planned>) -> (World<Toy>, Vec<LinkId>) {
    let mut world = World::new(seed);
    world.add("left", address(1), Toy::sending(plan));
    world.add("right", address(2), Toy::default());
    let links: Vec<LinkId> = links.iter().map(|link| world.add_link(spec(link))).collect();
    world.route_through(address(1), address(2), &links);
    (world, links)
}

fn right(world: &World<Toy>) -> &Toy {
    world.nodes().nth(1).expect("there are two").1
}

#[test]
fn delays_and_transmissions_add_up() {
    // 1000 bytes: 1 ms + 2, 2 ms + 3, and 5 ms.
    let links = ["rate=8mbit delay=2ms", "rate=4mbit delay=3ms", "delay=5ms"];
    let plan = vec![Planned::new(ms(10), address(2), 1000, 2, 0)];
    let (mut world, links) = chain(1, &links, plan);
    assert_eq!(world.run(ms(13)), Ok(RunEnded::Limit));
    // The first has just reached the second link, the second will in a millisecond.
    assert_eq!([0, 1, 2].map(|i| world.in_flight(links[i])), [1, 1, 0]);
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    let arrivals: Vec<_> = right(&world).got.iter().map(|got| (got.at, got.number())).collect();
    // The slowest link spaces them.
    assert_eq!(arrivals, [(ms(23), 0), (ms(25), 1)]);
    assert!(links.iter().all(|link| world.counts(*link).passed == 2 && world.in_flight(*link) == 0));
}

#[test]
fn three_hops_are_three_links_by_hand() {
    const ROUGH: [&str; 3] = [
        "rate=20mbit delay=3ms queue=20kB loss=2% jitter=normal:2ms,1ms reorder=yes duplicate=3% corrupt=2%",
        "rate=12mbit delay=1ms queue=30packets loss=ge:1%,30% jitter=500us",
        "rate=11mbit delay=7ms queue=15kB loss=1% duplicate=2% corrupt=5% jitter=1ms reorder=yes mtu=1300",
    ];
    each_seed(0..10, |seed| {
        let plan: Vec<_> = (0..600)
            .map(|i| {
                let size = 200 + (i * 397 % 1150) as usize;
                Planned::new(us(i * 400), address(2), size, 1, i)
            })
            .collect();
        // Each link by itself, in the order of time and at one time in the order of what came before.
        let mut packets: Vec<(Time, Vec<u8>)> = plan
            .iter()
            .map(|planned| {
                let mut bytes = vec![0; planned.size];
                bytes[..8].copy_from_slice(&planned.first.to_le_bytes());
                (planned.at, bytes)
            })
            .collect();
        let mut dropped = [0; 3];
        for (direction, text) in ROUGH.iter().enumerate() {
            let mut link = Link::new(spec(text), seed, direction as u64);
            let mut after = Vec::new();
            for (at, bytes) in packets {
                let fate = link.send(at, bytes.len(), Ecn::NotEct).known().expect("drop-tail tells at once");
                dropped[direction] += u64::from(matches!(fate, Fate::Dropped(_)));
                for delivery in fate.deliveries() {
                    let mut bytes = bytes.clone();
                    if let Some(damage) = delivery.damage {
                        damage.apply(&mut bytes);
                    }
                    after.push((delivery.at, bytes));
                }
            }
            after.sort_by_key(|(at, _)| *at);
            packets = after;
        }
        assert!(dropped.iter().all(|dropped| *dropped > 0), "{dropped:?}");
        let (mut world, links) = chain(seed, &ROUGH, plan);
        world.run(Time::MAX).unwrap();
        let got: Vec<_> = right(&world).got.iter().map(|got| (got.at, got.bytes.clone())).collect();
        assert!(got == packets, "{} by the world, {} by hand", got.len(), packets.len());
        for (link, dropped) in links.into_iter().zip(dropped) {
            let counts = world.counts(link);
            assert_eq!(counts.sent, counts.passed + dropped);
        }
    });
}

#[test]
fn queues_that_decide_at_their_head_may_be_anywhere_on_the_way() {
    // Nothing waits for longer than CoDel's interval, so that it sends as drop-tail does.
    let arrivals = |queue: &str| {
        let plan = (0..50).map(|i| Planned::new(us(i * 900), address(2), 1000, 1, i)).collect();
        let bottleneck = format!("rate=8mbit delay=1ms queue={queue}");
        let (mut world, links) = chain(3, &["delay=2ms", &bottleneck, &bottleneck, "delay=1ms"], plan);
        world.run(Time::MAX).unwrap();
        assert!(links.iter().all(|link| world.in_flight(*link) == 0));
        right(&world).got.iter().map(|got| (got.at, got.number())).collect::<Vec<_>>()
    };
    let expected: Vec<_> = (0..50).map(|i| (ms(2 + 2 + 2 + 1 + i), i)).collect();
    assert_eq!(arrivals("9MB"), expected);
    assert_eq!(arrivals("codel:5ms,100ms,9MB"), expected);
}

#[test]
fn packets_stay_on_the_way_that_they_took() {
    let plan = [0, 10].map(|at| Planned::new(ms(at), address(2), 100, 1, at)).to_vec();
    let (mut world, links) = chain(1, &["delay=20ms", "delay=20ms"], plan);
    world.run(ms(5)).unwrap();
    let short = world.add_link(spec("delay=1ms"));
    world.route_through(address(1), address(2), &[short]);
    world.run(Time::MAX).unwrap();
    let arrivals: Vec<_> = right(&world).got.iter().map(|got| (got.at, got.number())).collect();
    assert_eq!(arrivals, [(ms(11), 10), (ms(40), 0)]);
    assert_eq!((world.counts(links[1]).passed, world.counts(short).passed), (1, 1));
}

/// Each left node sends what `traffic` says until `stop`.
fn flows(
    topology: &Topology,
    seed: u64,
    stop: Time,
    pace: impl Fn(usize) -> TrafficPace,
) -> (World<Node>, WorldLayout) {
    topology.build(seed, |NodePlace { pair, left, peer, .. }| {
        if left {
            let traffic = PacketTraffic { stop: Some(stop), ..PacketTraffic::new(peer, 1250, pace(pair)) };
            Either::Left(TrafficSource::new(traffic, seed * 100 + pair as u64))
        } else {
            Either::Right(TrafficSink::new(Duration::from_secs(1)))
        }
    })
}

fn flow<'a>(world: &'a World<Node>, layout: &WorldLayout, pair: usize) -> &'a SinkFlow {
    let sink = world.node(layout.nodes[pair].1).right().expect("on the right are sinks");
    sink.flow(address(2 * pair as u16 + 1)).expect("something came")
}

#[test]
fn a_bottleneck_with_room_for_all_delays_by_what_is_before() {
    // 3 and 5 Mbit/s through 10: nothing is lost, and a packet of 1 ms finds at most one other before it.
    let topology = Topology::dumbbell(2, spec("delay=1ms"), spec("rate=10mbit delay=20ms queue=50kB"));
    let rates = [3_000_000, 5_000_000];
    let (mut world, layout) = flows(&topology, 1, ms(3000), |pair| TrafficPace::constant(rates[pair]));
    world.run(Time::MAX).unwrap();
    for (pair, rate) in rates.into_iter().enumerate() {
        let flow = flow(&world, &layout, pair);
        assert_eq!((flow.packets, flow.lost()), (rate * 3 / 10_000, 0));
        assert_eq!(flow.least_delay, Duration::from_millis(23));
        assert!(flow.most_delay <= Duration::from_millis(24), "{:?}", flow.most_delay);
    }
}

#[test]
fn two_constant_flows_share_a_bottleneck_as_they_offer() {
    // 8 and 4 Mbit/s into 6: what waits is served in the order of arrival, so the shares are 4 and 2.
    let topology = Topology::dumbbell(2, spec("delay=1ms"), spec("rate=6mbit delay=2ms"));
    let rates = [8_000_000, 4_000_000];
    let (mut world, layout) = flows(&topology, 1, ms(10_000), |pair| TrafficPace::constant(rates[pair]));
    world.run(ms(5004)).unwrap();
    // 5 s after the first bit has reached the far ends, at 600 packets a second.
    let [a, b] = [0, 1].map(|pair| flow(&world, &layout, pair).packets);
    assert_eq!(a + b, 3000);
    assert!(a.abs_diff(2000) <= 1, "{a} and {b}");
    // The backlog is what was offered and not sent.
    let backlog = world.link_mut(layout.bottlenecks[0].0).backlog(ms(5004));
    assert!(backlog.abs_diff(5 * 750_000) <= 10_000, "{backlog}");
}

#[test]
fn a_full_queue_drops_random_flows_alike() {
    // Arrivals of a Poisson process see time averages, so both flows meet the same share of loss. The queue
    // is short, so that losses are not in long bursts.
    let topology = Topology::dumbbell(2, spec("perfect"), spec("rate=8mbit queue=5packets"));
    let rates = [6_000_000, 4_000_000];
    each_seed(1..4, |seed| {
        let (mut world, layout) =
            flows(&topology, seed, ms(40_000), |pair| TrafficPace::poisson(rates[pair]));
        world.run(Time::MAX).unwrap();
        let share = [0, 1].map(|pair| {
            let sent = world.node(layout.nodes[pair].0).left().unwrap().sent() as f64;
            (1.0 - flow(&world, &layout, pair).packets as f64 / sent, sent)
        });
        // M/D/1/5 at 1.25 loses at least the excess, a fifth, and a little more.
        let mean = (share[0].0 * share[0].1 + share[1].0 * share[1].1) / (share[0].1 + share[1].1);
        assert!((0.2..0.3).contains(&mean), "{share:?}");
        // Five standard deviations of independent losses; losses of neighbours are correlated.
        let sigma = (mean * (1.0 - mean) * (1.0 / share[0].1 + 1.0 / share[1].1)).sqrt();
        assert!((share[0].0 - share[1].0).abs() < 5.0 * sigma, "{share:?}, sigma {sigma}");
        let counts = world.counts(layout.bottlenecks[0].0);
        let sent = [0, 1].map(|pair| world.node(layout.nodes[pair].0).left().unwrap().sent());
        assert_eq!(counts.sent, sent[0] + sent[1]);
        assert!(counts.peak_backlog <= 5 * 1250);
    });
}

#[test]
fn a_long_flow_crosses_all_of_a_parking_lot() {
    let bottlenecks = (1..=3).map(|i| spec(&format!("rate=10mbit delay={i}ms"))).collect();
    let topology = Topology::parking_lot(spec("delay=500us"), bottlenecks);
    assert_eq!(topology.pairs.len(), 4);
    // The long flow has 2 Mbit/s, the crossing ones 4 each: no bottleneck has more than it can take.
    let rate = |pair| if pair == 0 { 2_000_000 } else { 4_000_000 };
    let (mut world, layout) = flows(&topology, 1, ms(2000), |pair| TrafficPace::constant(rate(pair)));
    world.run(Time::MAX).unwrap();
    for (i, (up, down)) in layout.bottlenecks.iter().enumerate() {
        // 200 and 400 packets a second.
        assert_eq!((world.counts(*up).passed, world.counts(*down).sent), (400 + 800, 0), "bottleneck {i}");
    }
    let long = flow(&world, &layout, 0);
    // Propagation 1 + 2 + 3 + 2 * 0.5 ms, transmission 3 * 1 ms, and at most a packet before it at each.
    assert!(long.least_delay >= Duration::from_millis(10), "{:?}", long.least_delay);
    assert!(long.most_delay <= Duration::from_millis(13), "{:?}", long.most_delay);
    for pair in 1..=3 {
        let crossing = flow(&world, &layout, pair);
        assert_eq!(crossing.least_delay, Duration::from_millis(2 + pair as u64));
        assert_eq!((crossing.packets, crossing.lost()), (800, 0));
    }
}

#[test]
fn equal_seeds_give_equal_digests_over_many_hops() {
    let rough = "rate=5mbit delay=4ms queue=20kB loss=1% jitter=2ms reorder=yes duplicate=1% corrupt=1%";
    let run = |seed| {
        let topology = Topology::parking_lot(spec("rate=100mbit delay=100us"), vec![spec(rough); 3]);
        let (mut world, _) = flows(&topology, seed, ms(1000), |pair| {
            let (on, off) = (Duration::from_millis(20), Duration::from_millis(10));
            match pair {
                0 => TrafficPace::poisson(3_000_000),
                1 => TrafficPace::constant(2_000_000),
                _ => TrafficPace::OnOff { bps: 4_000_000, on, off, drawn: true },
            }
        });
        world.trace(Trace::digest_only());
        world.run(Time::MAX).unwrap();
        let trace = world.take_trace().unwrap();
        assert!(trace.count() > 3000, "{}", trace.count());
        trace.digest()
    };
    each_seed(0..3, |seed| {
        assert_eq!(run(seed), run(seed));
        assert_ne!(run(seed), run(seed + 1000));
    });
}

#[test]
fn another_pair_changes_no_losses_of_those_before_it() {
    let losses = |pairs| {
        let topology = Topology::dumbbell(pairs, spec("loss=3%"), spec("loss=1%"));
        let (mut world, layout) = flows(&topology, 5, ms(1000), |_| TrafficPace::constant(5_000_000));
        world.run(Time::MAX).unwrap();
        layout.access[0].map(|(up, _)| world.counts(up).lost)[0]
    };
    assert!(losses(1) > 0);
    assert_eq!(losses(1), losses(4));
}
