//! A screen drawn at random, sent over a channel that loses and reorders as far as the fences allow, arrives:
//! in all orders, with every seed. `QUICKSET_SEED` replays one, `QUICKSET_SEEDS` says how many to try.

#![expect(clippy::unwrap_used, reason = "what the tests are made of")]
#![expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")]

mod channel;
mod recorded;
mod scene;

use channel::{Channel, Pair};
use quickset_base::{Duration, Rng};
use quickset_desktop::message::{FromClient, Refresh, ScreenOrder};
use quickset_desktop::sender::{ItemKind, SenderConfig};
use quickset_rfb::Rect;
use scene::Scene;

const ORDERS: [ScreenOrder; 3] = [ScreenOrder::Ordered, ScreenOrder::Fenced, ScreenOrder::Latest];

fn seeds(count: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|n| n.parse::<u64>().unwrap());
    let all = || (0..number("QUICKSET_SEEDS").unwrap_or(count)).collect();
    number("QUICKSET_SEED").map_or_else(all, |seed| vec![seed])
}

/// Draws for a while, then comes to rest; the pair and the scene are asserted equal.
fn run(order: ScreenOrder, seed: u64, steps: usize, loss: f64) -> Pair {
    let mut rng = Rng::new(seed);
    let (width, height) = (64 + rng.below(150) as u16, 48 + rng.below(120) as u16);
    let mut scene = Scene::new(width, height, rng.fork());
    let (budget, adaptive, patches) = (1000 + rng.below(300) as usize, seed % 2 == 0, seed % 3 > 0);
    let config = SenderConfig { order, budget, adaptive, patches, ..SenderConfig::default() };
    let mut pair = Pair::new(config, Channel::new(rng.fork(), loss));
    pair.draw(&scene.ready());
    for _ in 0..steps {
        match rng.below(10) {
            0..5 => {
                scene.update();
                for event in scene.events() {
                    pair.draw(&event);
                    // Whatever may happen in the middle of an update.
                    if rng.chance(0.2) {
                        pair.send(rng.below(3) as usize);
                    }
                    if rng.chance(0.2) {
                        pair.carry(rng.below(3) as usize);
                    }
                }
            }
            5..7 => pair.send(1 + rng.below(20) as usize),
            7..9 => pair.carry(1 + rng.below(20) as usize),
            9 if rng.chance(0.2) => {
                // What 1280, 1400, 1500 and 9000 bytes have room for, and what every path has.
                let budgets = [1150, 1202, 1322, 1422, 8922];
                pair.set_budget(budgets[rng.below(5) as usize]);
            }
            9 if rng.chance(0.5) => {
                // DT-48: wherever the pointer is, and goes; at times nobody knows.
                if seed % 4 != 0 {
                    pair.sender.point(rng.below(260) as u16, rng.below(200) as u16);
                }
            }
            _ => pair.pass(Duration::from_millis(rng.below(120))),
        }
    }
    pair.settle();
    assert_eq!(pair.receiver.stats().refreshes, 0, "order {order}, seed {seed}: nothing had to be asked for");
    scene
        .compare(pair.sender.screen())
        .unwrap_or_else(|at| panic!("order {order}, seed {seed}: shadow at {at}"));
    scene
        .compare(pair.receiver.screen())
        .unwrap_or_else(|at| panic!("order {order}, seed {seed}: client at {at}"));
    pair
}

#[test]
fn screens_are_equal_at_rest() {
    // DT-19, DT-25, DT-27, DT-28, DT-29, DT-31, DT-32, DT-34, DT-35, DT-48, DT-85.
    for order in ORDERS {
        let mut used = [0; ItemKind::ALL.len()];
        for seed in seeds(60) {
            let loss = [0.0, 0.05, 0.3][seed as usize % 3];
            let pair = run(order, seed, 120, loss);
            for kind in ItemKind::ALL {
                used[kind as usize] += pair.sender.stats().of(kind).items;
            }
        }
        let unused: Vec<_> = ItemKind::ALL.into_iter().filter(|&kind| used[kind as usize] == 0).collect();
        // Noise that cannot be squeezed is rare.
        assert!(unused.iter().all(|kind| *kind == ItemKind::Rgb), "order {order}: {unused:?} never used");
    }
}

/// What a client may ask for at any time, with a reason or without.
fn demand(rng: &mut Rng) -> FromClient {
    let rect = Rect::between(rng.below(99) as u16, rng.below(99) as u16, rng.below(250) as u16, 200);
    match rng.below(8) {
        0 => FromClient::Refresh(Refresh { restart: true, rect }),
        1..4 => FromClient::Refresh(Refresh { restart: false, rect }),
        _ => FromClient::Unable { item: rng.below(400) },
    }
}

#[test]
fn whatever_is_asked_for_and_however_late_screens_are_equal_at_rest() {
    // DT-29, DT-35, DT-40: with answers that take their time, demands without a reason, and messages given up
    // that must arrive.
    for order in ORDERS {
        for seed in seeds(40) {
            let mut rng = Rng::new(seed);
            let mut scene = Scene::new(64 + rng.below(150) as u16, 48 + rng.below(120) as u16, rng.fork());
            let (budget, adaptive, patches) = (1000 + rng.below(300) as usize, seed % 2 == 1, seed % 5 > 0);
            let config = SenderConfig { order, budget, adaptive, patches, ..SenderConfig::default() };
            let mut pair = Pair::new(config, Channel::new(rng.fork(), [0.0, 0.1, 0.3][seed as usize % 3]));
            pair.late = [0.5, 0.9, 0.98][seed as usize / 3 % 3];
            pair.draw(&scene.ready());
            for _ in 0..150 {
                match rng.below(12) {
                    0..4 => {
                        scene.update();
                        for event in scene.events() {
                            pair.draw(&event);
                            pair.send(rng.below(3) as usize);
                            pair.carry(rng.below(3) as usize);
                        }
                    }
                    4..7 => pair.send(1 + rng.below(20) as usize),
                    7..10 => pair.carry(1 + rng.below(20) as usize),
                    10 if rng.chance(0.4) => pair.say(demand(&mut rng)),
                    10 if rng.chance(0.2) => pair.break_off(),
                    _ => pair.pass(Duration::from_millis(rng.below(120))),
                }
            }
            pair.late = 0.0;
            pair.settle();
            // The server mends it by itself: no sum was ever found wrong.
            assert_eq!(pair.receiver.stats().refreshes, 0, "order {order}, seed {seed}");
            let shown = scene.compare(pair.receiver.screen());
            shown.unwrap_or_else(|at| panic!("order {order}, seed {seed}: client at {at}"));
        }
    }
}

#[test]
fn one_wrong_pixel_is_noticed_and_mended() {
    // DT-36, DT-38: the comparison of these tests can fail, and the checksum makes up for it.
    for order in ORDERS {
        let mut scene = Scene::new(100, 80, Rng::new(7));
        let config = SenderConfig { order, ..SenderConfig::default() };
        let mut pair = Pair::new(config, Channel::new(Rng::new(8), 0.0));
        pair.draw(&scene.ready());
        scene.fill(Rect::between(16, 16, 48, 48), 0x0012_3456);
        pair.draw_all(&scene.events());
        // One bit of the colour is wrong.
        pair.channel.corrupt = Some((vec![0x12, 0x34, 0x56], vec![0x12, 0x34, 0x57]));
        pair.settle_wrongly(Duration::from_secs(2));
        assert_eq!(pair.receiver.stats().refreshes, 0);
        assert!(scene.compare(pair.receiver.screen()).is_err(), "one wrong pixel fails the comparison");
        pair.channel.corrupt = None;
        pair.settle();
        assert_eq!(pair.receiver.stats().refreshes, 1);
        scene.compare(pair.receiver.screen()).unwrap();
    }
}

#[test]
fn a_message_withheld_for_ever_ends_in_a_new_stream() {
    // DT-4, DT-37, DT-39, DT-40.
    for order in [ScreenOrder::Ordered, ScreenOrder::Fenced] {
        let mut scene = Scene::new(200, 160, Rng::new(9));
        let config = SenderConfig { order, ..SenderConfig::default() };
        let mut pair = Pair::new(config, Channel::new(Rng::new(10), 0.0));
        pair.draw(&scene.ready());
        pair.settle();
        pair.channel.withhold = true;
        for _ in 0..5 {
            scene.update();
            pair.draw_all(&scene.events());
            pair.send(100);
        }
        pair.settle();
        assert_eq!(pair.restarts, 1, "order {order}");
        scene.compare(pair.receiver.screen()).unwrap();
    }
}

#[test]
fn a_client_that_reconnects_has_the_screen_again() {
    for order in ORDERS {
        let mut scene = Scene::new(120, 90, Rng::new(11));
        let config = SenderConfig { order, ..SenderConfig::default() };
        let mut pair = Pair::new(config, Channel::new(Rng::new(12), 0.1));
        pair.draw(&scene.ready());
        for _ in 0..20 {
            scene.update();
            pair.draw_all(&scene.events());
            pair.send(5);
            pair.carry(5);
        }
        pair.reconnect(config, &scene.whole());
        pair.settle();
        scene.compare(pair.receiver.screen()).unwrap();
    }
}

#[test]
fn equal_seeds_make_equal_messages() {
    for order in ORDERS {
        let [a, b] = [(); 2].map(|()| run(order, 5, 60, 0.1));
        assert_eq!(a.channel.digest, b.channel.digest, "order {order}");
        assert_eq!(a.sender.stats(), b.sender.stats());
    }
}
