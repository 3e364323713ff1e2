//! Bursts, and cards that spread them.

use quickset_base::Time;
use quickset_sim::{Point, address};

use crate::common::{Planned, Toy};
use crate::{ms, pair, spec, us};

fn burst(count: usize) -> Toy {
    Toy::sending(vec![Planned::new(ms(1), address(2), 1000, count, 0)])
}

#[test]
fn a_batch_enters_its_first_link_at_once() {
    // A queue of 5000 bytes takes five of ten segments that come together, however fast it sends.
    let (mut world, [_, right], [up, _]) =
        pair(1, "rate=800mbit delay=1ms queue=5kB", burst(10), Toy::default());
    world.run(Time::MAX).unwrap();
    assert_eq!(world.node(right).numbers(), [0, 1, 2, 3, 4]);
    assert_eq!((world.counts(up).overflowed, world.counts(up).peak_backlog), (5, 5000));
    // Over a link without a rate they arrive together.
    let (mut world, [_, right], _) = pair(1, "delay=1ms", burst(44), Toy::default());
    world.run(Time::MAX).unwrap();
    assert_eq!(world.node(right).batches, [(ms(2), 44)]);
}

#[test]
fn a_card_spaces_the_segments_of_a_batch() {
    // 8000 bits at 400 Mbit/s: 20 µs each.
    let (mut world, [left, right], [up, _]) =
        pair(1, "rate=800mbit delay=1ms queue=5kB", burst(10), Toy::default());
    let nic = world.nic(left, spec("rate=400mbit"));
    world.run(Time::MAX).unwrap();
    let got: Vec<_> = world.node(right).got.iter().map(|got| (got.at, got.number())).collect();
    // On the card for 20 µs, on the link for 10.
    assert_eq!(got, (0..10).map(|i| (us(2000 + 20 * (i + 1) + 10), i)).collect::<Vec<_>>());
    assert_eq!((world.counts(up).overflowed, world.counts(up).peak_backlog), (0, 1000));
    assert_eq!((world.counts(nic).passed, world.counts(nic).peak_backlog), (10, 10_000));
    assert_eq!([nic, up].map(|link| world.in_flight(link)), [0, 0]);
}

#[test]
fn a_card_is_its_nodes_own() {
    let back = Toy::sending(vec![Planned::new(ms(1), address(1), 1000, 3, 0)]);
    let (mut world, [left, right], [up, down]) = pair(1, "delay=1ms", burst(3), back);
    let nic = world.nic(left, spec("rate=8mbit queue=2packets"));
    world.run(Time::MAX).unwrap();
    // The card's own queue drops as any other does.
    assert_eq!(world.node(right).batches, [(ms(3), 1), (ms(4), 1)]);
    assert_eq!(world.node(left).batches, [(ms(2), 3)]);
    assert_eq!([nic, up, down].map(|link| world.counts(link).sent), [3, 2, 3]);
    assert_eq!(world.counts(nic).overflowed, 1);
}

#[test]
fn a_card_put_in_under_way_takes_what_leaves_after() {
    let held = Planned { not_before: Some(ms(10)), ..Planned::new(ms(1), address(2), 1000, 2, 7) };
    let plan = vec![Planned::new(ms(0), address(2), 1000, 2, 0), held];
    let (mut world, [left, right], _) = pair(1, "delay=4ms", Toy::sending(plan), Toy::default());
    world.run(ms(2)).unwrap();
    world.nic(left, spec("rate=8mbit"));
    world.capture(Point::Departures, std::io::sink()).unwrap();
    world.run(Time::MAX).unwrap();
    assert_eq!(world.node(right).batches, [(ms(4), 2), (ms(15), 1), (ms(16), 1)]);
    world.finish_captures().unwrap();
}
