//! What happens to a world from outside.

use std::net::IpAddr;

use quickset_base::{AddressPair, Duration, Time};
use quickset_sim::{Happening, LinkWay, Pause, RunEnded, Timeline, Trace, World, address};

use crate::common::{Chatter, Planned, Toy};
use crate::{ms, pair, spec};

fn every_ten(to: u16, count: u64) -> Vec<Planned> {
    (0..count).map(|i| Planned::new(ms(10 * i), address(to), 10, 1, i)).collect()
}

fn from(local: IpAddr, planned: &Planned) -> Planned {
    Planned { path: AddressPair { local: Some(local), ..planned.path }, ..planned.clone() }
}

#[test]
fn a_nat_rebinds_and_its_client_notices_nothing() {
    // The client asks for its own address, as one does that answers from where it was reached.
    let plan = every_ten(2, 4).iter().map(|planned| from(address(1).ip(), planned)).collect();
    // The server answers to the old name while that is good, when it no longer is, and to the new one.
    let back = [(5, 1), (14, 1), (16, 1), (25, 101)];
    let back = (0..).zip(back).map(|(i, (at, to))| Planned::new(ms(at), address(to), 10, 1, i)).collect();
    let (mut world, [left, right], _) = pair(1, "delay=4ms", Toy::sending(plan), Toy::sending(back));
    let rebind = |old, new| Happening::Rebind { old: address(old), new: address(new) };
    world.play(Timeline::new().at(ms(35), rebind(101, 102)).at(ms(15), rebind(1, 101)));
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    assert_eq!(world.happened(), 2);
    let remotes: Vec<_> = world.node(right).got.iter().map(|got| (got.at, got.path.remote)).collect();
    assert_eq!(
        remotes,
        [(ms(4), address(1)), (ms(14), address(1)), (ms(24), address(101)), (ms(34), address(101))]
    );
    // The one that was under way still arrives; the one after it goes nowhere.
    assert_eq!(world.node(left).numbers(), [0, 1, 3]);
    assert_eq!(world.unrouted(), 1);
    let locals = world.node(left).got.iter().map(|got| got.path.local);
    assert!(locals.into_iter().all(|local| local == Some(address(1).ip())));
    // A second time, and the first name is free again.
    world.node_mut(right).plan.push(Planned::new(ms(0), address(102), 10, 1, 9));
    world.run(Time::MAX).unwrap();
    assert_eq!(world.node(left).numbers(), [0, 1, 3, 9]);
    world.add("another", address(1), Toy::default());
}

#[test]
#[should_panic(expected = "no node has the address 10.0.0.1:4433")]
fn an_address_is_rebound_once() {
    let (mut world, _, _) = pair(1, "perfect", Toy::default(), Toy::default());
    world.rebind(address(1), address(3));
    world.rebind(address(1), address(4));
}

#[test]
#[should_panic(expected = "the address 10.0.0.2:4433 is in use")]
fn nobody_takes_an_address_in_use() {
    let (mut world, _, _) = pair(1, "perfect", Toy::default(), Toy::default());
    world.rebind(address(1), address(2));
}

#[test]
fn a_change_of_interface_takes_other_links() {
    let old = every_ten(2, 2);
    let new = [20, 30].map(|at| Planned::new(ms(at), address(2), 10, 1, at)).to_vec();
    // One that asks for the old address gets nowhere.
    let pinned = from(address(1).ip(), &Planned::new(ms(40), address(2), 10, 1, 40));
    let plan: Vec<_> = old.into_iter().chain(new).chain([pinned]).collect();
    // Under way when the address goes, sent after it, and to the new one.
    let back = [(9, 1), (16, 1), (17, 5)];
    let back = (0..).zip(back).map(|(i, (at, to))| Planned::new(ms(at), address(to), 10, 1, i)).collect();
    let (mut world, [left, right], [up, down]) = pair(1, "delay=8ms", Toy::sending(plan), Toy::sending(back));
    let fresh = [world.add_link(spec("delay=1ms")), world.add_link(spec("delay=2ms"))];
    let ways = vec![
        LinkWay { from: address(5), to: address(2), links: vec![fresh[0]] },
        LinkWay { from: address(2), to: address(5), links: vec![fresh[1]] },
    ];
    let interface = Happening::Interface { old: address(1), new: address(5), ways };
    world.play(Timeline::new().at(ms(15), interface));
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    let got: Vec<_> =
        world.node(right).got.iter().map(|got| (got.at, got.number(), got.path.remote)).collect();
    assert_eq!(
        got,
        // What was sent at 10 ms from the old address goes on, over the old link.
        [(ms(8), 0, address(1)), (ms(18), 1, address(1)), (ms(21), 20, address(5)), (ms(31), 30, address(5))]
    );
    let got: Vec<_> = world.node(left).got.iter().map(|got| (got.at, got.number(), got.path.local)).collect();
    assert_eq!(got, [(ms(19), 2, Some(address(5).ip()))]);
    // 9 ms: stranded at 17. 16 ms: no way to the old address. 40 ms: no such address of its own.
    assert_eq!((world.stranded(), world.unrouted()), (1, 2));
    assert_eq!([up, down, fresh[0], fresh[1]].map(|link| world.counts(link).passed), [2, 1, 2, 1]);
}

#[test]
fn a_suspended_node_gets_nothing_and_its_timers_come_late() {
    let plan: Vec<_> = [5, 15, 25, 60].map(|at| Planned::new(ms(at), address(2), 10, 1, at)).to_vec();
    let (mut world, [left, right], _) =
        pair(1, "delay=1ms", Toy::sending(plan), Toy::sending(every_ten(1, 7)));
    let suspend = Happening::Suspend { node: left, pause: Duration::from_millis(30) };
    world.play(Timeline::new().at(ms(12), suspend));
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    // From 12 to 42 ms: what arrives at 21, 31 and 41 ms is lost.
    assert_eq!(world.node(left).numbers(), [0, 1, 5, 6]);
    assert_eq!((world.missed(left), world.missed(right)), (3, 0));
    // The timer of 15 ms comes at 42, and so does what it and that of 25 ms send.
    assert_eq!(world.node(left).timers, [ms(5), ms(42), ms(60)]);
    let got: Vec<_> = world.node(right).got.iter().map(|got| (got.at, got.number())).collect();
    assert_eq!(got, [(ms(6), 5), (ms(43), 15), (ms(43), 25), (ms(61), 60)]);
}

#[test]
fn what_a_suspended_node_was_to_send_later_waits() {
    let held = Planned { not_before: Some(ms(20)), ..Planned::new(ms(0), address(2), 10, 2, 0) };
    let (mut world, [left, right], _) = pair(1, "delay=1ms", Toy::sending(vec![held]), Toy::default());
    world.run(ms(10)).unwrap();
    world.suspend(left, Duration::from_millis(5));
    world.suspend(left, Duration::from_millis(30));
    // A shorter one on top does not wake it.
    world.suspend(left, Duration::from_millis(15));
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    assert_eq!(world.node(right).batches, [(ms(41), 2)]);
}

#[test]
fn what_has_arrived_waits_in_a_sleeper() {
    let (mut world, [_, right], _) = pair(1, "delay=1ms", Toy::sending(every_ten(2, 3)), Toy::default());
    world.coalesce(right, Duration::from_millis(3));
    world.run(ms(2)).unwrap();
    world.suspend(right, Duration::from_millis(6));
    world.run(Time::MAX).unwrap();
    // Arrived at 1, was to be handed over at 4, is at 8.
    assert_eq!(world.node(right).batches, [(ms(8), 1), (ms(14), 1), (ms(24), 1)]);
}

#[test]
fn asleep_for_ever_ends_the_run() {
    let (mut world, [left, right], _) = pair(1, "delay=1ms", Toy::sending(every_ten(2, 3)), Toy::default());
    world.suspend(left, Duration::MAX);
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    assert!(world.node(right).got.is_empty());
}

#[test]
fn links_and_routes_change_at_their_times() {
    let (mut world, [_, right], [up, _]) =
        pair(1, "delay=2ms", Toy::sending(every_ten(2, 6)), Toy::default());
    let other = world.add_link(spec("delay=7ms"));
    let link = |text| Happening::Link { link: up, spec: spec(text) };
    let way = LinkWay { from: address(1), to: address(2), links: vec![other, up] };
    let timeline = Timeline::new()
        // At the very time of a packet: before it. At one time: as written.
        .at(ms(10), link("delay=9ms"))
        .at(ms(10), link("delay=3ms"))
        .at(ms(20), link("loss=100%"))
        .at(ms(25), link("delay=2ms"))
        .at(ms(40), Happening::Route(way));
    assert_eq!(timeline.happenings().len(), 5);
    world.play(timeline);
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    let got: Vec<_> = world.node(right).got.iter().map(|got| (got.at, got.number())).collect();
    assert_eq!(got, [(ms(2), 0), (ms(13), 1), (ms(32), 3), (ms(49), 4), (ms(59), 5)]);
}

#[test]
fn what_happens_can_be_seen_as_it_happens_and_the_past_happens_at_once() {
    let (mut world, [left, _], _) = pair(1, "perfect", Toy::default(), Toy::default());
    let suspend = || Happening::Suspend { node: left, pause: Duration::ZERO };
    world.play(Timeline::new().at(ms(5), suspend()));
    // At first the nodes are polled, without anything to do.
    assert_eq!(world.next(Time::MAX), Ok(Pause::Quiet));
    assert_eq!((world.now(), world.happened()), (ms(5), 1));
    world.play(Timeline::new().at(ms(2), suspend()));
    assert_eq!(world.next(Time::MAX), Ok(Pause::Quiet));
    assert_eq!((world.now(), world.happened()), (ms(5), 2));
    assert_eq!(world.next(Time::MAX), Ok(Pause::Idle));
}

#[test]
fn equal_timelines_give_equal_digests() {
    let run = |shift: u64| {
        let link = "rate=20mbit delay=7ms queue=30kB loss=2% jitter=2ms reorder=yes";
        let mut world = World::new(4);
        let left = world.add("left", address(1), Chatter::new(address(2), 1, 3));
        world.add("right", address(2), Chatter::new(address(1), 2, 3));
        let (up, _) = world.join(address(1), address(2), spec(link), spec(link));
        let suspend = Happening::Suspend { node: left, pause: Duration::from_millis(3) };
        let slow = Happening::Link { link: up, spec: spec("rate=1mbit delay=9ms queue=30kB") };
        world.play(Timeline::new().at(ms(50 + shift), suspend).at(ms(90), slow));
        world.trace(Trace::digest_only());
        world.run(ms(300)).unwrap();
        let trace = world.take_trace().unwrap();
        assert!(trace.count() > 300, "{}", trace.count());
        trace.digest()
    };
    assert_eq!(run(0), run(0));
    assert_ne!(run(0), run(1));
}
