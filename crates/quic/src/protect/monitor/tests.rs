use proptest::prelude::*;
use quickset_base::Rng;

use super::*;
use crate::cc::PacketState;

const PATH: BlameVerdict = BlameVerdict { fault: LossCause::Path, top_is_ours: false };
const OURS: BlameVerdict = BlameVerdict { fault: LossCause::Ours, top_is_ours: false };
const TOP: BlameVerdict = BlameVerdict { fault: LossCause::Top, top_is_ours: false };

fn packet(number: u64) -> SettledPacket {
    SettledPacket { number, sent: Time::ZERO, bytes: 1200, state: PacketState::default() }
}

fn packets(numbers: impl IntoIterator<Item = u64>) -> Vec<SettledPacket> {
    numbers.into_iter().map(packet).collect()
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

/// Settles `n` packets in order, of which those are lost that `lost` says.
fn feed(monitor: &mut Monitor, number: &mut u64, now: Time, n: u64, mut lost: impl FnMut() -> bool) {
    let (lost, acked): (Vec<u64>, Vec<u64>) = (*number..*number + n).partition(|_| lost());
    *number += n;
    monitor.on_settled(now, &packets(acked), &packets(lost), *number, PATH);
}

/// Of what is lost, what is drawn anew with each packet makes no more than this; the order in which it is
/// told differs.
const ANEW: f64 = 2e-2;

/// What a path is believed to do of which the same packets are known in the order of their numbers.
fn in_order(fates: impl IntoIterator<Item = bool>) -> Belief {
    let (mut belief, mut in_run) = (Belief::new(), false);
    for lost in fates {
        match (in_run, lost) {
            (true, true) => belief.lost_again(1),
            (false, true) => belief.lost(),
            (false, false) => {
                belief.arrived(1);
                belief.age(Duration::ZERO, 1);
            }
            (true, false) => {}
        }
        in_run = lost;
    }
    belief
}

fn is_close(a: &Belief, b: &Belief) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= ANEW * b;
    near(a.rate(), b.rate()) && near(a.to_bad(), b.to_bad()) && near(a.to_good(), b.to_good())
}

#[test]
fn the_order_is_that_of_numbers() {
    // 20 numbers of which 3, 4 and 13 are lost, five left out, in whatever order they are settled.
    let mut monitor = Monitor::new();
    let now = ms(1);
    monitor.on_settled(now, &packets([0, 1, 2, 5, 6]), &[], 3, PATH);
    monitor.on_settled(now, &packets([12, 14]), &packets([3]), 4, PATH);
    assert_eq!(monitor.loss().events, 4);
    monitor.on_settled(now, &packets([15, 16]), &packets([4]), 13, PATH);
    assert_eq!(monitor.loss().events, 8);
    monitor.on_settled(now, &packets([17, 18, 19]), &packets([13]), 20, PATH);
    let numbers = [0, 1, 2, 3, 4, 5, 6, 12, 13, 14, 15, 16, 17, 18, 19];
    let wanted = in_order(numbers.map(|number| [3, 4, 13].contains(&number)));
    assert!(is_close(monitor.belief(), &wanted), "{:?}", monitor.loss());
    // Two runs of three losses, beside two single ones that are assumed.
    assert_eq!(monitor.loss().to_good, 4.0 / 5.0);
}

#[test]
fn spurious_losses_were_none() {
    let mut monitor = Monitor::new();
    let now = ms(1);
    monitor.on_settled(now, &packets(0..10), &packets([10, 11]), 12, PATH);
    monitor.on_settled(now, &packets(12..20), &[], 20, PATH);
    monitor.on_spurious(1);
    let one = in_order((0..20).map(|number| number == 10));
    assert!(is_close(monitor.belief(), &one), "{} {}", monitor.loss().rate, one.rate());
    monitor.on_spurious(1);
    let none = in_order([false; 20]);
    assert!(is_close(monitor.belief(), &none), "{} {}", monitor.loss().rate, none.rate());
    assert_eq!(monitor.loss().congested, 0.0);
    // One that waits for its place, and more than there are.
    monitor.on_settled(now, &packets([22]), &packets([21]), 20, PATH);
    monitor.on_spurious(u64::MAX);
    monitor.on_settled(now, &packets([20]), &[], 23, PATH);
    assert!(is_close(monitor.belief(), &in_order([false; 23])), "{:?}", monitor.loss());
}

/// What a full queue loses says nothing of the path, and when it shows that it was one, what was lost before
/// did not either.
#[test]
fn losses_of_a_full_queue_are_none_of_the_paths() {
    let clean = |n: u64| in_order((0..n).map(|_| false)).rate();
    for verdict in [OURS, TOP] {
        let (mut monitor, mut number) = (Monitor::new(), 0);
        for at in 0..20 {
            feed(&mut monitor, &mut number, ms(at), 499, || false);
            monitor.on_settled(ms(at), &[], &packets([number]), number + 1, verdict);
            number += 1;
        }
        let rate = monitor.loss().rate;
        assert!(
            if verdict == TOP { (0.001..0.003).contains(&rate) } else { rate <= 1.1 * clean(9000) },
            "{rate}"
        );
        let turned = BlameVerdict { top_is_ours: true, ..verdict };
        monitor.on_settled(ms(20), &packets([number]), &[], number + 1, turned);
        assert!(monitor.loss().rate <= 1.1 * clean(9000), "{}", monitor.loss().rate);
        // And back again, should it not be so any more.
        monitor.on_settled(ms(21), &packets([number + 1]), &[], number + 2, verdict);
        assert!((monitor.loss().rate - rate).abs() < 0.02 * rate + 1e-6);
    }
}

#[test]
fn what_another_connection_knows_is_known_from_the_first_packet() {
    let known = Belief::known(0.03, 0.25);
    let mut monitor = Monitor::new();
    monitor.start_from(&known, 9000);
    assert_eq!((monitor.belief(), monitor.loss().events), (&known, 9000));
    assert!((monitor.loss().to_bad - 0.03).abs() < 1e-12);
    feed(&mut monitor, &mut 0, ms(0), 200, || false);
    let rate = monitor.loss().rate;
    // Too late for more of it.
    monitor.start_from(&Belief::known(0.3, 0.25), 9000);
    assert_eq!(monitor.loss().rate, rate);
}

#[test]
fn the_share_of_full_queues_is_that_of_the_short_window() {
    let (mut monitor, mut number) = (Monitor::new(), 0);
    let lose = |monitor: &mut Monitor, number: &mut u64, at, verdict| {
        feed(monitor, number, ms(at), 99, || false);
        monitor.on_settled(ms(at), &[], &packets([*number]), *number + 1, verdict);
        *number += 1;
    };
    for at in 0..10 {
        lose(&mut monitor, &mut number, at * 200, OURS);
    }
    assert_eq!(monitor.loss().congested, 1.0);
    // Two losses in the last second were of other causes.
    lose(&mut monitor, &mut number, 2000, PATH);
    lose(&mut monitor, &mut number, 2200, TOP);
    feed(&mut monitor, &mut number, ms(2400), 1, || false);
    assert_eq!(monitor.loss().congested, 0.5);
}

/// A sender with a monitor, a step of 20 ms at a time; packets of less than one a step add up.
struct Sender {
    monitor: Monitor,
    rng: Rng,
    pace: u64,
    now: u64,
    sent: u64,
    number: u64,
}

impl Sender {
    fn new(seed: u64, pace: u64) -> Self {
        Self { monitor: Monitor::new(), rng: Rng::new(seed), pace, now: 0, sent: 0, number: 0 }
    }

    fn run(&mut self, packets: u64, rate: f64) -> f64 {
        self.sent += packets;
        while self.number < self.sent {
            self.now += 20;
            let n = (self.pace * self.now / 1000).saturating_sub(self.pace * (self.now - 20) / 1000);
            feed(&mut self.monitor, &mut self.number, ms(self.now), n, || self.rng.chance(rate));
        }
        self.monitor.loss().rate
    }
}

/// Packets a second.
const PACES: [u64; 4] = [5, 250, 5_000, 50_000];

#[test]
fn trouble_is_believed_at_the_second_loss() {
    for pace in PACES {
        let mut sender = Sender::new(1, pace);
        sender.run(20_000, 0.0);
        let before = sender.monitor.loss().rate;
        assert!(before < 1e-3, "{pace}/s: {before}");
        // Two losses with a hundred packets between them.
        for n in [1, 100] {
            sender.run(n, 0.0);
            let number = sender.number;
            sender.monitor.on_settled(ms(sender.now), &[], &packets([number]), number + 1, PATH);
            (sender.number, sender.sent) = (number + 1, number + 1);
        }
        let rate = sender.monitor.loss().rate;
        assert!((0.002..0.1).contains(&rate), "{pace}/s: {rate}");
    }
}

#[test]
fn a_rate_is_remembered_at_any_pace() {
    for pace in PACES {
        for seed in 0..5 {
            let mut sender = Sender::new(seed, pace);
            sender.run(10_000, 0.005);
            // 50 losses ± 7, and half as many again by chance of where the last fell.
            let rate = sender.run(2_000, 0.005);
            assert!((0.0025..0.0085).contains(&rate), "{pace}/s, seed {seed}: {rate}");
            // Two hundred packets without a loss are what such a path has every third time.
            let rate = sender.run(200, 0.0);
            assert!(rate > 0.0015, "{pace}/s, seed {seed}: {rate} after a gap");
        }
    }
}

#[test]
fn a_path_that_turned_good_is_believed_within_what_its_packets_show() {
    for pace in PACES {
        for seed in 0..5 {
            let mut sender = Sender::new(seed, pace);
            sender.run(5_000, 0.02);
            // With 2,000 packets without a loss three in 2,000 are as likely as one in twenty.
            let rate = sender.run(2_000, 0.0);
            assert!(rate < 3.0 / 2000.0, "{pace}/s, seed {seed}: {rate}");
            let rate = sender.run(18_000, 0.0);
            // What is drawn anew in a round of ten minutes stays, at five packets a second.
            assert!(rate < 3.0 / 20_000.0 + 0.5 / (600.0 * pace as f64), "{pace}/s, seed {seed}: {rate}");
        }
    }
}

#[test]
fn a_gilbert_channel_is_found() {
    for (seed, (to_bad, to_good)) in [(1, (0.005, 0.25)), (2, (0.015, 0.33)), (3, (0.02, 0.5))] {
        let (mut monitor, mut rng, mut number) = (Monitor::new(), Rng::new(seed), 0);
        let mut bad = false;
        for step in 0..500 {
            feed(&mut monitor, &mut number, ms(step * 10), 10, || {
                bad = if bad { !rng.chance(to_good) } else { rng.chance(to_bad) };
                bad
            });
        }
        let loss = monitor.loss();
        // Of 5000 packets; four standard deviations.
        let within = |found: f64, p: f64, n: f64| (found - p).abs() <= 4.0 * (p * (1.0 - p) / n).sqrt();
        let share = to_bad / (to_bad + to_good);
        // Within the steps of the grid.
        assert!((0.7..1.4).contains(&(loss.to_bad / to_bad)), "seed {seed}: {loss:?}");
        assert!(within(loss.to_good, to_good, 5000.0 * share), "seed {seed}: {loss:?}");
    }
}

#[test]
fn bursts_are_known_by_the_first_of_them() {
    let (mut monitor, mut number) = (Monitor::new(), 0);
    for n in 1..=20u64 {
        let mut at = 0;
        feed(&mut monitor, &mut number, ms(n), 308, || {
            at += 1;
            at > 300
        });
        // Two single losses are assumed before.
        assert_eq!(monitor.loss().to_good, (n + 2) as f64 / (8 * n + 2) as f64, "{n} runs");
    }
    // Ten seconds and 20,000 packets later nothing says that the next is shorter.
    for step in 0..100 {
        feed(&mut monitor, &mut number, ms(1000 + 200 * step), 300, || false);
    }
    assert_eq!(monitor.loss().to_good, 22.0 / 162.0);
    // But sixty-odd runs do.
    for step in 0..200 {
        let mut at = 0;
        feed(&mut monitor, &mut number, ms(30_000 + step), 100, || {
            at += 1;
            at == 100
        });
    }
    assert!(monitor.loss().to_good > 0.8, "{:?}", monitor.loss());
}

#[test]
fn whatever_is_lost_memory_is_bounded() {
    let (mut monitor, mut number) = (Monitor::new(), 0);
    // Every second packet of a very fast path.
    for step in 0..600 {
        let mut odd = false;
        feed(&mut monitor, &mut number, ms(step), 100, || {
            odd = !odd;
            odd
        });
    }
    assert!((0.3..0.6).contains(&monitor.loss().rate), "{:?}", monitor.loss());
    // Nothing below is ever settled.
    for step in 0..20_000 {
        monitor.on_settled(ms(600), &packets([number + 2 * step]), &[], number, PATH);
    }
    assert!(monitor.pending.len() <= MAX_PENDING + 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Packets that are settled in any order, in any batches, are believed as those that are settled in
    /// theirs.
    #[test]
    fn any_order_of_settling_says_the_same(seed: u64, n in 1..400usize, percent in 0..60u64) {
        let mut rng = Rng::new(seed);
        let fates: Vec<bool> = (0..n).map(|_| rng.below(100) < percent).collect();
        let mut open: Vec<u64> = (0..n as u64).collect();
        let mut monitor = Monitor::new();
        while !open.is_empty() {
            let stay = rng.unit();
            let (kept, gone): (Vec<u64>, Vec<u64>) = open.iter().partition(|_| rng.chance(stay));
            open = kept;
            let (lost, acked): (Vec<u64>, Vec<u64>) = gone.into_iter().partition(|number| fates[*number as usize]);
            let below = open.first().copied().unwrap_or(n as u64);
            monitor.on_settled(ms(1), &packets(acked), &packets(lost), below, PATH);
        }
        monitor.look();
        let wanted = in_order(fates.iter().copied());
        prop_assert!(is_close(monitor.belief(), &wanted), "{:?} {:?}", monitor.loss(), wanted);
    }
}
