use quickset_base::{Duration, Time};

use super::link::{Link, MTU, World};
use crate::cc::classic::{Avoidance, Classic};
use crate::cc::cubic::Cubic;
use crate::cc::hystart::{HyStart, HystartStage};
use crate::cc::newreno::NewReno;

/// Rounds of acknowledgements with the round trips they show.
struct Rounds {
    start: HyStart,
    now: Time,
}

impl Rounds {
    fn new() -> Self {
        Self { start: HyStart::new(Time::ZERO), now: Time::ZERO }
    }

    /// A round with samples of a round trip; how slow start goes on after the last.
    fn round(&mut self, rtts: &[Duration]) -> HystartStage {
        let mut stage = HystartStage::Standard;
        let before = self.now;
        self.now += Duration::from_secs(1);
        for (n, rtt) in rtts.iter().enumerate() {
            // The first is of the first packet since the round before began, the others left earlier than
            // this begins.
            let sent = before + Duration::from_nanos(1 + n as u64);
            stage = self.start.on_ack(self.now, sent, Some(*rtt));
        }
        stage
    }
}

fn ms(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6) as u64)
}

/// RFC 9406 §4.2, §4.3: an eighth of the last round's least, between 4 and 16 ms.
#[test]
fn the_growth_that_ends_slow_start() {
    for (last, grown) in [(20.0, 24.0), (32.0, 36.0), (100.0, 112.5), (128.0, 144.0), (200.0, 216.0)] {
        for (rtt, expected) in
            [(ms(grown), HystartStage::Conservative), (ms(grown - 0.001), HystartStage::Standard)]
        {
            let mut rounds = Rounds::new();
            assert_eq!(rounds.round(&[ms(last); 3]), HystartStage::Standard);
            assert_eq!(rounds.round(&[rtt; 8]), expected, "{last} {rtt:?}");
        }
    }
}

/// RFC 9406 §4.2: eight samples, and the least of them counts.
#[test]
fn a_few_slow_packets_are_no_growth() {
    let mut rounds = Rounds::new();
    rounds.round(&[ms(100.0); 10]);
    assert_eq!(rounds.round(&[ms(200.0); 7]), HystartStage::Standard, "seven samples");
    // Compared with the round before, not with the least ever.
    assert_eq!(rounds.round(&[ms(210.0); 8]), HystartStage::Standard);
    let mut one = [ms(300.0); 20];
    one[3] = ms(211.0);
    assert_eq!(rounds.round(&one), HystartStage::Standard);
    one[3] = ms(227.0);
    assert_eq!(rounds.round(&one), HystartStage::Conservative);
}

/// RFC 9406 §4.2: a quarter of the growth for five rounds, the one that it begins in included.
#[test]
fn five_rounds_of_conservative_slow_start() {
    let mut rounds = Rounds::new();
    rounds.round(&[ms(100.0); 10]);
    for _ in 0..5 {
        assert_eq!(rounds.round(&[ms(130.0); 10]), HystartStage::Conservative);
    }
    assert_eq!(rounds.round(&[ms(130.0)]), HystartStage::Over);
    assert_eq!(HystartStage::Conservative.of(4000), 1000);
    assert_eq!((HystartStage::Standard.of(4000), HystartStage::Over.of(4000)), (4000, 0));
}

/// RFC 9406 §4.2: a round trip below the one that it began with, and it was chance.
#[test]
fn chance_is_taken_back() {
    let mut rounds = Rounds::new();
    rounds.round(&[ms(100.0); 10]);
    rounds.round(&[ms(130.0); 8]);
    assert_eq!(rounds.round(&[ms(129.0); 7]), HystartStage::Conservative);
    assert_eq!(rounds.round(&[ms(130.0); 8]), HystartStage::Conservative, "not below");
    assert_eq!(rounds.round(&[ms(129.9); 8]), HystartStage::Standard);
    // And begins again, with rounds of its own.
    assert_eq!(rounds.round(&[ms(160.0); 8]), HystartStage::Conservative);
    for _ in 0..4 {
        assert_eq!(rounds.round(&[ms(160.0); 8]), HystartStage::Conservative);
    }
    assert_eq!(rounds.round(&[ms(160.0)]), HystartStage::Over);
}

/// 100 Mbit/s, 100 ms and a queue of one volume of 1000 packets. Growth by an eighth shows in packets that
/// left with 1.125 volumes in flight, at the beginning of a round, and is seen a round trip later, when the
/// window has doubled: at 2.25 volumes at best, at 4.5 if a round began just below that. The queue may then
/// overflow, but no loss is known yet, and instead of doubling until one is, the window grows by a quarter.
#[test]
fn slow_start_ends_before_losses_tell() {
    both::<Cubic>();
    both::<NewReno>();
}

fn both<A: Avoidance + 'static>() {
    let rtt = Duration::from_millis(100);
    let link = Link { bits_per_second: 100_000_000, rtt, queue: 1_250_000, loss: 0.0 };
    let lost = |with: bool| {
        let mut world = World::new(link, 1);
        let controller = Classic::<A>::new(MTU, world.now);
        let controller = if with { controller } else { controller.without_hystart() };
        world.add_controller(Box::new(controller));
        while world.state(0) == "slow start" {
            world.run(Duration::from_millis(5));
        }
        let at_end = world.lost(0);
        let window = world.window(0);
        world.run(Duration::from_secs(5));
        (at_end, window, world.lost(0))
    };
    let (with, without) = (lost(true), lost(false));
    assert_eq!(with.0, 0, "no loss was known when slow start ended");
    assert!((2250 * MTU..4500 * MTU).contains(&with.1), "{with:?}");
    assert!(without.0 > 0);
    assert!(2 * with.2 < without.2, "{with:?} {without:?}");
}
