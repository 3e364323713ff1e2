//! Worlds: the calling contract of machines, time, routes, determinism.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

mod common;

use std::net::SocketAddr;

use common::{Chatter, Flood, Planned, Toy};
use proptest::prelude::*;
use quickset_base::{AddressPair, Batch, Duration, Ecn, Input, Machine, Poll, Reason, Rng, Time};
use quickset_sim::{
    Fate, Jitter, LinkId, LinkQueue, LinkSpec, Livelock, LossModel, NodeId, Pause, Rate, Reorder, RunEnded,
    Scenario, Trace, World, address, each_seed,
};

fn spec(text: &str) -> LinkSpec {
    text.parse().expect("a link")
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

/// A world of two with the same link each way; the left one is at `address(1)`.
fn pair<M: Machine>(seed: u64, link: &str, left: M, right: M) -> (World<M>, [NodeId; 2], [LinkId; 2]) {
    let mut world = World::new(seed);
    let nodes = [world.add("left", address(1), left), world.add("right", address(2), right)];
    let (up, down) = world.join(address(1), address(2), spec(link), spec(link));
    (world, nodes, [up, down])
}

#[test]
fn a_saturated_link_runs_at_its_rate() {
    for (link, segments) in
        [("rate=100mbit delay=50ms", 44), ("rate=1gbit delay=50ms", 1), ("rate=7mbit", 10)]
    {
        let flood = Flood::new(address(2), 100, segments, 1400);
        let (mut world, [_, right], [up, _]) = pair(1, link, flood, Flood::sink(address(1)));
        assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
        let sink = world.node(right);
        assert_eq!(sink.received, 100 * segments as u64);
        let Rate::Constant(bps) = spec(link).rate else { panic!() };
        // From the first arrival to the last, all but one packet are sent back to back.
        let exact = (sink.received - 1) as f64 * 1400.0 * 8.0 / bps as f64;
        let took = sink.last.unwrap().since(sink.first.unwrap()).as_secs_f64();
        assert!((took - exact).abs() < 2e-9, "{took} against {exact}");
        assert_eq!(sink.first.unwrap(), Time::ZERO + spec(link).latency(1400));
        assert_eq!((world.counts(up).passed, world.in_flight(up)), (sink.received, 0));
    }
}

#[test]
fn timers_come_at_their_time_and_no_others() {
    let plan = [3, 7, 7, 20].map(|at| Planned::new(ms(at), address(2), 10, 1, at));
    let (mut world, [left, right], _) = pair(1, "delay=1ms", Toy::sending(plan.to_vec()), Toy::default());
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    assert_eq!(world.node(left).timers, [ms(3), ms(7), ms(20)]);
    assert_eq!(world.node(right).timers, []);
    assert_eq!(world.node(right).batches, [(ms(4), 1), (ms(8), 2), (ms(21), 1)]);
    assert_eq!(world.now(), ms(21));
}

#[test]
fn not_before_is_honoured() {
    let held = Planned { not_before: Some(ms(5)), ..Planned::new(ms(1), address(2), 10, 2, 0) };
    let free = Planned::new(ms(1), address(2), 10, 1, 2);
    let past = Planned { not_before: Some(ms(1)), ..Planned::new(ms(6), address(2), 10, 1, 3) };
    let (mut world, [_, right], _) =
        pair(1, "delay=1ms", Toy::sending(vec![held, free, past]), Toy::default());
    world.run(Time::MAX).unwrap();
    let got: Vec<_> = world.node(right).got.iter().map(|got| (got.at, got.number())).collect();
    assert_eq!(got, [(ms(2), 2), (ms(6), 0), (ms(6), 1), (ms(7), 3)]);
}

#[test]
fn datagrams_tell_where_they_come_from() {
    let marked = Planned { ecn: Ecn::Ect0, ..Planned::new(ms(0), address(2), 100, 3, 7) };
    let (mut world, [_, right], _) = pair(1, "delay=1ms", Toy::sending(vec![marked]), Toy::default());
    world.run(Time::MAX).unwrap();
    let got = &world.node(right).got;
    assert_eq!(world.node(right).numbers(), [7, 8, 9]);
    assert!(got.iter().all(|got| got.bytes.len() == 100 && got.bytes[8..].iter().all(|b| *b == 0)));
    assert!(got.iter().all(|got| got.ecn == Ecn::Ect0));
    assert_eq!(got[0].path, AddressPair { remote: address(1), local: Some(address(2).ip()) });
}

#[test]
fn receiving_can_be_coalesced() {
    let plan = (0..10).map(|i| Planned::new(ms(i), address(2), 10, 1, i)).collect();
    let (mut world, [_, right], _) = pair(1, "delay=1ms", Toy::sending(plan), Toy::default());
    world.coalesce(right, Duration::from_millis(3));
    world.run(Time::MAX).unwrap();
    // Arrivals at 1 to 10 ms; the first of each batch waits for 3 ms.
    assert_eq!(world.node(right).batches, [(ms(4), 4), (ms(8), 4), (ms(12), 2)]);
    assert_eq!(world.node(right).numbers(), (0..10).collect::<Vec<_>>());
}

#[test]
fn the_limit_is_inclusive_and_a_run_goes_on() {
    let plan = vec![Planned::new(ms(5), address(2), 10, 1, 0)];
    let (mut world, [_, right], _) = pair(1, "delay=5ms", Toy::sending(plan), Toy::default());
    assert_eq!(world.run(ms(4)), Ok(RunEnded::Limit));
    assert_eq!(world.now(), ms(4));
    assert_eq!(world.run_until(ms(10), |world| !world.node(right).got.is_empty()), Ok(RunEnded::Goal));
    assert_eq!(world.run(ms(100)), Ok(RunEnded::Idle));
    assert_eq!(world.now(), ms(10));
}

#[test]
fn machines_are_polled_after_they_were_reached_for() {
    let (mut world, [left, right], _) = pair(1, "delay=5ms", Toy::default(), Toy::default());
    assert_eq!(world.run(ms(10)), Ok(RunEnded::Idle));
    world.node_mut(left).plan.push(Planned::new(ms(0), address(2), 10, 1, 4));
    let sent = world.now();
    assert_eq!(world.run_until(ms(100), |world| world.node(right).got.len() == 1), Ok(RunEnded::Goal));
    assert_eq!(world.now(), sent + Duration::from_millis(5));
    // A goal that reaches for machines all the time does not keep the world from going on.
    world.node_mut(left).plan.push(Planned::new(ms(50), address(2), 10, 1, 4));
    assert_eq!(world.run_until(ms(100), |world| world.node_mut(right).got.len() == 2), Ok(RunEnded::Goal));
    assert_eq!(world.now(), ms(55));
}

#[test]
fn several_addresses_and_a_shared_link() {
    let mut world = World::new(1);
    let to = |n, number| Planned::new(ms(0), address(n), 1000, 1, number);
    let from = |local, planned: Planned| {
        let path = AddressPair { local: Some(address(local).ip()), ..planned.path };
        Planned { path, ..planned }
    };
    let client = world.add("client", address(1), Toy::sending(vec![to(3, 0), from(2, to(3, 1)), to(4, 2)]));
    world.add_address(client, address(2));
    let server = world.add("server", address(3), Toy::default());
    world.add_address(server, address(4));
    let shared = world.add_link(spec("rate=8mbit"));
    world.route(address(1), address(3), shared);
    world.route(address(2), address(3), shared);
    world.route(address(2), address(4), shared);
    world.run(Time::MAX).unwrap();
    let got: Vec<_> = world.node(server).got.iter().map(|got| (got.at, got.number(), got.path)).collect();
    let path = |from, to| AddressPair { remote: address(from), local: Some(address(to).ip()) };
    // One after the other through one bottleneck; only the second address has a way to address 4.
    assert_eq!(got, [(ms(1), 0, path(1, 3)), (ms(2), 1, path(2, 3)), (ms(3), 2, path(2, 4))]);
}

#[test]
fn nowhere_is_counted() {
    let plan = vec![Planned::new(ms(0), address(99), 10, 3, 0)];
    let (mut world, _, _) = pair(1, "perfect", Toy::sending(plan), Toy::default());
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    assert_eq!(world.unrouted(), 3);
}

#[test]
fn a_rebound_address_shows_to_the_other_side() {
    let plan = [0, 10].map(|at| Planned::new(ms(at), address(2), 10, 1, at)).to_vec();
    let back = vec![Planned::new(ms(12), address(1), 10, 1, 0), Planned::new(ms(12), address(7), 10, 1, 1)];
    let (mut world, [left, right], _) = pair(1, "delay=4ms", Toy::sending(plan), Toy::sending(back));
    world.run(ms(2)).unwrap();
    world.rebind(address(1), address(7));
    world.run(Time::MAX).unwrap();
    let remotes: Vec<_> = world.node(right).got.iter().map(|got| got.path.remote).collect();
    assert_eq!(remotes, [address(1), address(7)]);
    assert_eq!(world.node(left).numbers(), [1]);
    assert_eq!(world.unrouted(), 1);
}

/// Says it has an event until it is collected, once for each timer.
#[derive(Debug, Default)]
struct Bell {
    rings: u32,
    events: u32,
}

impl Machine for Bell {
    fn handle(&mut self, _now: Time, input: Input<'_>) {
        if matches!(input, Input::Timer) {
            self.rings += 1;
            self.events += 1;
        }
    }

    fn poll(&mut self, _now: Time, _out: &mut Batch) -> Poll {
        match (self.events, self.rings) {
            (1.., _) => Poll::Event,
            (0, 0) => Poll::Sleep(Some(ms(1)), Reason::Application),
            (0, 1) => Poll::Sleep(Some(ms(3)), Reason::Application),
            (0, _) => Poll::Sleep(Some(Time::MAX), Reason::Idle),
        }
    }
}

#[test]
fn events_pause_the_run_until_they_are_collected() {
    let mut world = World::new(1);
    let bell = world.add("bell", address(1), Bell::default());
    let mut heard = Vec::new();
    loop {
        match world.next(Time::MAX).unwrap() {
            Pause::Event(node) => {
                heard.push((world.now(), node));
                world.node_mut(node).events -= 1;
            }
            Pause::Quiet => {}
            Pause::Idle => break,
            Pause::Limit => panic!("there is none"),
        }
    }
    assert_eq!(heard, [(ms(1), bell), (ms(3), bell)]);
    assert_eq!((world.node(bell).rings, world.now()), (2, ms(3)), "a timer at the end of time never comes");
}

#[test]
fn an_event_that_nobody_collects_is_an_error_and_no_hang() {
    let mut world = World::new(1);
    world.add("quiet", address(1), Bell { rings: 2, events: 0 });
    world.add("bell", address(2), Bell::default());
    world.patience(1000);
    let error = world.run(Time::MAX).unwrap_err();
    assert_eq!(error, Livelock { node: "bell".into(), at: ms(1), polls: 1001, last: Poll::Event });
    assert!(error.to_string().contains("bell does not come to rest: 1001 polls at 0.001000000s"));
}

/// Sleeps until a time that has passed already, or sends for ever.
struct Mad(bool);

impl Machine for Mad {
    fn handle(&mut self, _now: Time, _input: Input<'_>) {}
    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        if self.0 {
            return Poll::Sleep(Some(now), Reason::Pto);
        }
        out.path = AddressPair::to(address(1));
        out.space(10);
        out.commit(10);
        Poll::Send
    }
}

#[test]
fn machines_that_never_rest_are_named() {
    for mad in [true, false] {
        let mut world = World::new(1);
        world.add("mad", address(1), Mad(mad));
        world.patience(10_000);
        assert_eq!(world.run(Time::MAX).unwrap_err().node, "mad");
    }
}

#[test]
fn a_ball_that_needs_no_time_is_no_hang() {
    let balls = || [Ball { to: address(2), balls: 1 }, Ball { to: address(1), balls: 0 }];
    let [left, right] = balls();
    let (mut world, _, _) = pair(1, "delay=1us", left, right);
    world.patience(1000);
    assert_eq!(world.run(ms(100)), Ok(RunEnded::Limit));
    let [left, right] = balls();
    let (mut world, _, _) = pair(1, "perfect", left, right);
    world.patience(1000);
    assert_eq!(world.run(ms(100)).unwrap_err().at, Time::ZERO);
}

/// Throws each ball back at once.
struct Ball {
    to: SocketAddr,
    balls: usize,
}

impl Machine for Ball {
    fn handle(&mut self, _now: Time, input: Input<'_>) {
        if let Input::Received(datagrams) = input {
            self.balls += datagrams.len();
            datagrams.clear();
        }
    }

    fn poll(&mut self, _now: Time, out: &mut Batch) -> Poll {
        if self.balls == 0 {
            return Poll::Sleep(None, Reason::Idle);
        }
        self.balls -= 1;
        out.path = AddressPair::to(self.to);
        out.space(10);
        out.commit(10);
        Poll::Send
    }
}

const ROUGH: &str =
    "rate=20mbit delay=7ms queue=30kB loss=2% jitter=normal:2ms,1ms reorder=yes corrupt=3% duplicate=3%";

/// Two chatters over a rough link for 400 ms.
fn chat(seed: u64, trace: Trace) -> Trace {
    let (left, right) = (Chatter::new(address(2), 1, 3), Chatter::new(address(1), 2, 3));
    let (mut world, _, _) = pair(seed, ROUGH, left, right);
    world.trace(trace);
    world.run(ms(400)).expect("chatters rest");
    world.take_trace().expect("it was set")
}

#[test]
fn a_seed_replays_packet_by_packet() {
    each_seed(0..3, |seed| {
        let trace = chat(seed, Trace::full());
        assert!(trace.count() > 1000, "{}", trace.count());
        let again = chat(seed, Trace::full());
        assert_eq!(trace.to_string(), again.to_string());
        assert_eq!(trace.records(), again.records());
        assert_eq!(trace.digest(), chat(seed, Trace::digest_only()).digest());
        assert_ne!(trace.digest(), chat(seed + 1000, Trace::full()).digest());
        let has = |what: &dyn Fn(&Fate) -> bool| trace.records().iter().any(|record| what(&record.fate));
        assert!(has(&|fate| matches!(fate, Fate::Dropped(_))));
        assert!(has(&|fate| matches!(fate, Fate::Duplicated(..))));
        assert!(has(&|fate| fate.deliveries().any(|delivery| delivery.damage.is_some())));
    });
}

#[test]
fn a_trace_reads_like_a_log() {
    let plan = vec![Planned { ecn: Ecn::Ect0, ..Planned::new(ms(5), address(2), 1250, 2, 0) }];
    let (mut world, _, _) =
        pair(1, "rate=100mbit delay=50ms loss=list:1", Toy::sending(plan), Toy::default());
    world.trace(Trace::full());
    world.run(Time::MAX).unwrap();
    let text = world.take_trace().unwrap().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("0.005000000s link0#0 1250B Ect0 "), "{text}");
    assert!(lines[0].ends_with(": 0.055100000s"), "{text}");
    assert!(
        lines[1].starts_with("0.005000000s link0#1 1250B Ect0 ") && lines[1].ends_with(": lost"),
        "{text}"
    );
    assert!(lines[2].starts_with("2 packets, digest "), "{text}");
}

#[test]
fn scenarios_tell_how_to_see_a_failure_again() {
    let scenario = Scenario::new("one-packet", spec("delay=5ms loss=list:0"));
    let nodes = || [Toy::sending(vec![Planned::new(ms(0), address(2), 10, 1, 0)]), Toy::default()];
    let right = |world: &World<Toy>| world.nodes().nth(1).is_some_and(|(_, toy)| !toy.got.is_empty());
    let always = |_: &World<Toy>| true;
    let failure = scenario.run(77, nodes(), &[("arrives", &right), ("holds", &always)]).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "scenario one-packet (up: delay=5ms loss=list:0; down: delay=5ms loss=list:0) missed [arrives]: \
         nothing was left to do at 0.000000000s; replay it with QUICKSET_SEED=77"
    );
    let scenario = Scenario { up: spec("delay=5ms"), ..scenario };
    let world = scenario.check(77, nodes(), &[("arrives", &right)]);
    assert_eq!(world.now(), ms(5));
}

fn any_spec() -> impl Strategy<Value = LinkSpec> {
    let rate = prop_oneof![Just(Rate::Unlimited), (10_000u64..1_000_000_000).prop_map(Rate::Constant)];
    let queue = prop_oneof![
        Just(LinkQueue::Unlimited),
        (0u64..100_000).prop_map(LinkQueue::Bytes),
        (0u64..50).prop_map(LinkQueue::Packets),
        Just("codel:2ms,20ms,50kB".parse().expect("a queue")),
        Just("codel-ecn:0,1us,50kB".parse().expect("a queue")),
    ];
    let loss = prop_oneof![
        Just(LossModel::None),
        (0.0..0.5).prop_map(LossModel::Independent),
        Just("ge:5%,30%,90%,1%".parse().expect("a loss")),
        Just("list:0,3-5".parse().expect("a loss")),
    ];
    let micros = |n| (0u64..n).prop_map(Duration::from_micros);
    let jitter = prop_oneof![
        Just(Jitter::None),
        micros(9000).prop_map(Jitter::Uniform),
        (micros(5000), micros(5000)).prop_map(|(mean, deviation)| Jitter::Normal { mean, deviation })
    ];
    let rest = (any::<bool>(), 0.0..0.3, 0.0..0.3, prop::option::of(500u32..1500), 0u32..50);
    (rate, micros(100_000), queue, loss, jitter, rest).prop_map(
        |(rate, delay, queue, loss, jitter, (reorder, corrupt, duplicate, mtu, overhead))| LinkSpec {
            rate,
            delay,
            queue,
            loss,
            others_pps: 0,
            jitter,
            reorder: if reorder { Reorder::Yes } else { Reorder::No },
            corrupt,
            duplicate,
            mtu,
            overhead,
            ..LinkSpec::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nothing_is_lost_without_a_record(up in any_spec(), down in any_spec(), seed: u64, stop_ms in 0u64..150) {
        prop_assert_eq!(up.to_string().parse::<LinkSpec>(), Ok(up.clone()));
        let mut world = World::new(seed);
        let left = world.add("left", address(1), Chatter::new(address(2), seed, 20));
        let right = world.add("right", address(2), Chatter::new(address(1), seed ^ 1, 20));
        let (up, down) = world.join(address(1), address(2), up, down);
        world.run(ms(stop_ms)).expect("chatters rest");
        for (link, from, to) in [(up, left, right), (down, right, left)] {
            let counts = world.counts(link);
            prop_assert_eq!(counts.sent, world.node(from).sent);
            let dropped = counts.oversized + counts.overflowed + counts.aqm + counts.lost;
            let arrived = world.node(to).received;
            prop_assert_eq!(world.received(to), arrived);
            prop_assert_eq!(counts.sent + counts.duplicated, arrived + dropped + world.in_flight(link));
        }
    }
}

/// Moves its timer with every packet, forth and back and away.
struct Restless {
    rng: Rng,
    wanted: Option<Time>,
    rung: u32,
}

impl Machine for Restless {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        assert!(self.wanted.is_none_or(|wanted| wanted >= now), "missed {:?} at {now}", self.wanted);
        match input {
            Input::Received(datagrams) => datagrams.clear(),
            Input::Timer => {
                assert_eq!(self.wanted, Some(now), "a timer that nobody asked for");
                self.rung += 1;
            }
        }
        let soon = now + Duration::from_nanos(1 + self.rng.below(3_000_000));
        self.wanted = self.rng.chance(0.7).then_some(soon);
    }

    fn poll(&mut self, _now: Time, _out: &mut Batch) -> Poll {
        Poll::Sleep(self.wanted, Reason::Application)
    }
}

/// Nodes of two kinds in one world.
enum Kind {
    Sender(Toy),
    Restless(Box<Restless>),
}

impl Machine for Kind {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        match self {
            Self::Sender(toy) => toy.handle(now, input),
            Self::Restless(restless) => restless.handle(now, input),
        }
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        match self {
            Self::Sender(toy) => toy.poll(now, out),
            Self::Restless(restless) => restless.poll(now, out),
        }
    }
}

#[test]
fn timers_that_move_come_exactly_where_they_were_left() {
    each_seed(0..20, |seed| {
        let mut rng = Rng::new(seed);
        let mut at = Time::ZERO;
        let plan = (0..2000).map(|i| {
            at += Duration::from_nanos(rng.below(1_000_000));
            Planned::new(at, address(2), 10, 1, i)
        });
        let sender = Kind::Sender(Toy::sending(plan.collect()));
        let restless = Restless { rng: Rng::new(seed), wanted: Some(ms(1)), rung: 0 };
        let restless = Kind::Restless(Box::new(restless));
        let (mut world, [_, right], _) = pair(seed, "delay=1ms", sender, restless);
        assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
        let Kind::Restless(restless) = world.node(right) else { panic!("the right one is restless") };
        assert_eq!(restless.wanted, None, "nothing is left to do");
        // Packets come every half millisecond, timers after 1.5 at the mean, seven times in ten.
        assert!(restless.rung > 100, "{}", restless.rung);
        assert_eq!(world.received(right), 2000);
    });
}

#[test]
fn packets_that_wait_for_their_fate_arrive_when_they_are_served() {
    // 1000 bytes at 8 Mbit/s take 1 ms. Nothing waits for longer than the interval, so nothing is dropped,
    // and CoDel sends as drop-tail does.
    let served = |queue: &str| {
        let plan =
            (0..20).map(|i| Planned::new(Time::from_micros(i * 700), address(2), 1000, 1, i)).collect();
        let text = format!("rate=8mbit delay=5ms queue={queue}");
        let (mut world, [_, right], [up, _]) = pair(1, &text, Toy::sending(plan), Toy::default());
        world.trace(Trace::full());
        assert_eq!(world.run(Time::from_micros(2_500)), Ok(RunEnded::Limit));
        // Sent at 0, 0.7, 1.4, 2.1 ms, nothing arrived; one way or the other all four are on their way.
        assert_eq!(world.in_flight(up), 4);
        assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
        let trace = world.take_trace().unwrap();
        assert!(trace.records().iter().map(|record| record.ordinal).eq(0..20));
        world.node(right).got.iter().map(|got| (got.at, got.number())).collect::<Vec<_>>()
    };
    let expected: Vec<_> = (0..20).map(|i| (Time::from_millis(6 + i), i)).collect();
    assert_eq!(served("9MB"), expected);
    assert_eq!(served("codel:5ms,100ms,9MB"), expected);
}
