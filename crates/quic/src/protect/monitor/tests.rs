use proptest::prelude::*;
use quickset_base::Rng;

use super::*;
use crate::cc::PacketState;

fn packet(number: u64) -> Packet {
    Packet { number, sent: Time::ZERO, bytes: 1200, state: PacketState::default() }
}

fn packets(numbers: impl IntoIterator<Item = u64>) -> Vec<Packet> {
    numbers.into_iter().map(packet).collect()
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

/// Settles `n` packets in order, of which those are lost that `lost` says.
fn feed(monitor: &mut Monitor, number: &mut u64, now: Time, n: u64, mut lost: impl FnMut() -> bool) {
    let (lost, acked): (Vec<u64>, Vec<u64>) = (*number..*number + n).partition(|_| lost());
    *number += n;
    monitor.on_settled(now, (&packets(acked), &packets(lost)), *number, false);
}

#[test]
fn few_packets_give_a_cautious_guess() {
    let mut monitor = Monitor::new();
    assert_eq!(monitor.loss().rate, 1.0 / 200.0);
    assert_eq!((monitor.loss().to_good, monitor.loss().events), (1.0, 0));
    let mut number = 0;
    feed(&mut monitor, &mut number, ms(0), 100, || false);
    assert_eq!(monitor.loss().rate, 1.0 / 300.0);
    monitor.on_settled(ms(1), (&[], &packets([100, 101])), 102, false);
    assert_eq!(monitor.loss().rate, 3.0 / 302.0);
    number = 102;
    feed(&mut monitor, &mut number, ms(2), 397, || false);
    assert_eq!(monitor.loss().rate, 3.0 / 699.0);
    // With 500 the plain ratio; the last 300 packets hold none of the losses, but were not long without.
    feed(&mut monitor, &mut number, ms(3), 1, || false);
    assert_eq!((monitor.loss().rate, monitor.loss().events), (0.004, 500));
}

#[test]
fn what_another_connection_knows_weighs_as_200_packets() {
    let mut monitor = Monitor::new();
    let known = Loss { rate: 0.03, to_bad: 0.01, to_good: 0.25, events: 9000, congested: 0.5 };
    monitor.start_from(&known);
    let begin = monitor.loss();
    assert_eq!((begin.rate, begin.to_good, begin.events, begin.congested), (0.03, 0.25, 200, 0.0));
    feed(&mut monitor, &mut 0, ms(0), 200, || false);
    assert_eq!(monitor.loss().rate, 6.0 / 400.0);
    // Too late for more of it.
    monitor.start_from(&known);
    assert_eq!(monitor.loss().rate, 6.0 / 400.0);
    monitor = Monitor::new();
    assert_eq!((monitor.loss().rate, monitor.loss().to_good), (1.0 / 200.0, 1.0));
}

#[test]
fn the_order_is_that_of_numbers() {
    // 20 numbers of which 3, 4 and 13 are lost, five left out, in whatever order they are settled.
    let mut monitor = Monitor::new();
    monitor.on_settled(ms(1), (&packets([0, 1, 2, 5, 6]), &[]), 3, false);
    monitor.on_settled(ms(2), (&packets([12, 14]), &packets([3])), 4, false);
    assert_eq!(monitor.events.total(), 4);
    monitor.on_settled(ms(3), (&packets([15, 16]), &packets([4])), 13, false);
    assert_eq!(monitor.events.total(), 8);
    monitor.on_settled(ms(4), (&packets([17, 18, 19]), &packets([13])), 20, false);
    let long = monitor.events.long();
    assert_eq!((long.events, long.lost, long.runs), (15, 3, 2));
    // 12 that arrived, of which the last is followed by nothing.
    assert_eq!((long.gilbert_p(), monitor.events.gilbert_r(1.0)), (2.0 / 11.0, 4.0 / 5.0));
}

#[test]
fn spurious_losses_were_none() {
    let mut monitor = Monitor::new();
    monitor.on_settled(ms(1), (&packets(0..10), &packets([10, 11])), 12, true);
    monitor.on_settled(ms(2), (&packets(12..20), &[]), 20, false);
    assert_eq!(monitor.loss().rate, 3.0 / 220.0);
    monitor.on_spurious(1);
    assert_eq!((monitor.loss().rate, monitor.events.long().runs), (2.0 / 220.0, 1));
    monitor.on_spurious(1);
    let long = monitor.events.long();
    assert_eq!((long.events, long.lost, long.runs, long.queued), (20, 0, 0, 0));
    assert_eq!(monitor.loss().rate, 1.0 / 220.0);
    // One that waits for its place, and more than there are.
    monitor.on_settled(ms(3), (&packets([22]), &packets([21])), 20, false);
    monitor.on_spurious(u64::MAX);
    monitor.on_settled(ms(4), (&packets([20]), &[]), 23, false);
    assert_eq!((monitor.events.long().events, monitor.events.long().lost), (23, 0));
}

#[test]
fn the_share_of_full_queues_is_that_of_the_short_window() {
    let (mut monitor, mut number) = (Monitor::new(), 0);
    let lose = |monitor: &mut Monitor, number: &mut u64, at, queued| {
        feed(monitor, number, ms(at), 99, || false);
        monitor.on_settled(ms(at), (&[], &packets([*number])), *number + 1, queued);
        *number += 1;
    };
    for at in 0..10 {
        lose(&mut monitor, &mut number, at * 200, true);
    }
    assert_eq!(monitor.loss().congested, 1.0);
    // Two losses in the last second were of other causes.
    lose(&mut monitor, &mut number, 2000, false);
    lose(&mut monitor, &mut number, 2200, false);
    feed(&mut monitor, &mut number, ms(2400), 1, || false);
    assert_eq!(monitor.loss().congested, 0.5);
}

/// Packets a second, and how long to wait after a step: 2 s or 500 packets.
const PACES: [(u64, u64); 3] = [(50, 10_000), (250, 2_000), (5_000, 2_000)];

/// A sender with a monitor, a step of 20 ms at a time.
struct Sender {
    monitor: Monitor,
    rng: Rng,
    pace: u64,
    now: u64,
    number: u64,
}

impl Sender {
    fn run(&mut self, long_ms: u64, rate: f64) -> f64 {
        for _ in 0..long_ms / 20 {
            self.now += 20;
            let n = self.pace * 20 / 1000;
            feed(&mut self.monitor, &mut self.number, ms(self.now), n, || self.rng.chance(rate));
        }
        self.monitor.loss().rate
    }
}

#[test]
fn a_step_is_seen_within_two_seconds_or_500_packets() {
    for (pace, wait) in PACES {
        for seed in 0..(5_000 / pace).clamp(4, 20) {
            let mut sender = Sender { monitor: Monitor::new(), rng: Rng::new(seed), pace, now: 0, number: 0 };
            // 4000 packets without a loss are believed.
            assert_eq!(sender.run((4_000_000 / pace).max(30_000), 0.0), 0.0);
            let rate = sender.run(wait, 0.02);
            // 500 packets hold 10 ± 3.1 losses.
            assert!(rate >= 0.004, "{pace}/s, seed {seed}: {rate} after a step up");
            assert!(pace < 5_000 || (rate - 0.02).abs() < 0.01, "seed {seed}: {rate}");
            sender.run(12_000, 0.02);
            // Three runs in 500 packets are 0.6 %, and runs of more than one loss make that little more.
            let rate = sender.run(wait, 0.0);
            assert!(rate <= 0.0075, "{pace}/s, seed {seed}: {rate} after a step down");
            assert_eq!(sender.run(10_000, 0.0), 0.0, "{pace}/s, seed {seed}");
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
        monitor.evaluate(ms(5000));
        let loss = monitor.loss();
        // Of 5000 packets; four standard deviations.
        let within = |found: f64, p: f64, n: f64| (found - p).abs() <= 4.0 * (p * (1.0 - p) / n).sqrt();
        let share = to_bad / (to_bad + to_good);
        assert!(within(loss.to_bad, to_bad, 5000.0 * (1.0 - share)), "seed {seed}: {loss:?}");
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
    // They outlast the windows: ten seconds and 20,000 packets later nothing says that the next is shorter.
    for step in 0..100 {
        feed(&mut monitor, &mut number, ms(1000 + 200 * step), 300, || false);
    }
    assert_eq!((monitor.loss().rate, monitor.loss().to_good), (0.0, 22.0 / 162.0));
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
fn a_burst_counts_when_it_is_known() {
    let (mut monitor, mut number) = (Monitor::new(), 0);
    feed(&mut monitor, &mut number, ms(0), 2000, || false);
    monitor.on_settled(ms(1), (&[], &packets(2000..2008)), 2008, false);
    assert_eq!(monitor.loss().rate, 8.0 / 2008.0);
}

#[test]
fn whatever_is_lost_memory_is_bounded() {
    let (mut monitor, mut number) = (Monitor::new(), 0);
    // Every second packet of a very fast path, within the short window.
    for step in 0..600 {
        let mut odd = false;
        feed(&mut monitor, &mut number, ms(step), 100, || {
            odd = !odd;
            odd
        });
    }
    assert!((monitor.loss().rate - 0.5).abs() < 0.01);
    // Nothing below is ever settled.
    for step in 0..20_000 {
        monitor.on_settled(ms(600), (&packets([number + 2 * step]), &[]), number, false);
    }
    assert!(monitor.pending.len() <= MAX_PENDING + 1);
}

/// The windows, counted anew from all that ever happened.
#[derive(Debug, Default)]
struct Naive {
    // Runs of losses, and losses, of late.
    bursts: (u64, u64),
    // By number: when it became an event, and whether it was lost, with a full queue.
    events: Vec<(u64, bool, bool)>,
}

impl Naive {
    fn push(&mut self, event: (u64, bool, bool)) {
        if event.1 {
            if !self.events.last().is_some_and(|before| before.1) {
                if self.bursts.0 == 64 {
                    self.bursts = (32, self.bursts.1 / 2);
                }
                self.bursts.0 += 1;
            }
            self.bursts.1 += 1;
        }
        self.events.push(event);
    }

    /// The last loss among the last `known` events was none; false when there is none.
    fn forgive(&mut self, known: usize) -> bool {
        let first = self.events.len() - known;
        let Some(at) = (first..self.events.len()).rev().find(|at| self.events[*at].1) else { return false };
        let alone = at == first || !self.events[at - 1].1;
        self.bursts.1 = self.bursts.1.saturating_sub(1);
        self.bursts.0 = self.bursts.0.saturating_sub(u64::from(alone)).min(self.bursts.1);
        (self.events[at].1, self.events[at].2) = (false, false);
        true
    }

    fn window(&self, tick: u64, ticks: u64, most: usize) -> &[(u64, bool, bool)] {
        let n = self.events.len();
        let young = self.events.iter().position(|(at, ..)| tick - at < ticks).unwrap_or(n);
        &self.events[young.min(n.saturating_sub(200)).max(n.saturating_sub(most))..]
    }

    fn loss(&self, tick: u64) -> Loss {
        let to_good = (self.bursts.0 as f64 + 2.0) / (self.bursts.1 as f64 + 2.0);
        let (long, short) = (self.window(tick, 50, 20_000), self.window(tick, 5, usize::MAX));
        let count = |of: &[(u64, bool, bool)]| of.iter().filter(|e| e.1).count() as f64;
        let pairs = |a: bool, b: Option<bool>| {
            let of = long.windows(2).filter(|w| w[0].1 == a && b.is_none_or(|b| w[1].1 == b));
            of.count() as f64
        };
        let starts = (0..long.len()).filter(|i| long[*i].1 && (*i == 0 || !long[i - 1].1)).count();
        let total = self.events.len() as f64;
        let guess = total < 500.0 || (total < 4000.0 && count(&self.events) == 0.0);
        let (rate, to_bad) = if guess {
            let rate = (count(&self.events) + 1.0) / (total + 200.0);
            (rate, (rate * to_good / (1.0 - rate)).min(1.0))
        } else {
            let clean = self.events.iter().rev().take_while(|e| !e.1).count() as f64;
            let run = count(long) / starts.max(1) as f64;
            let old = (count(long) / long.len() as f64).min(3.0 * run / clean);
            let good = pairs(false, None);
            let to_bad = if good > 0.0 { pairs(false, Some(true)) / good } else { 0.0 };
            (old.max(count(short) / short.len() as f64), to_bad)
        };
        let queued = short.iter().filter(|e| e.2).count() as f64;
        let congested = if count(short) > 0.0 { queued / count(short) } else { 0.0 };
        Loss { rate, to_bad, to_good, events: self.events.len() as u64, congested }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random losses, settled in random order, against the naive model.
    #[test]
    fn windows_are_what_happened(seed: u64, steps in 1..250u64, pace in 1..60u64, percent in 0..30u64) {
        let mut rng = Rng::new(seed);
        let (mut monitor, mut naive) = (Monitor::new(), Naive::default());
        let (mut now, mut next, mut below) = (0, 0, 0);
        // Outstanding packets by number, and whether they will be lost; settled ones that wait; as known so far.
        let mut open: Vec<(u64, bool)> = Vec::new();
        let mut waiting: Vec<(u64, bool, bool)> = Vec::new();
        let mut bad = false;
        for _ in 0..steps {
            now += rng.below(400);
            for _ in 0..rng.below(pace) {
                next += 1 + u64::from(rng.chance(0.02));
                bad = if bad { rng.chance(0.6) } else { rng.chance(percent as f64 / 100.0) };
                open.push((next, bad));
            }
            let queued = rng.chance(0.3);
            let stay = rng.unit();
            let (kept, gone): (Vec<_>, Vec<_>) = open.iter().partition(|_| rng.chance(stay));
            open = kept;
            let (lost, acked): (Vec<(u64, bool)>, Vec<_>) = gone.into_iter().partition(|p| p.1);
            let (lost, acked) = (packets(lost.iter().map(|p| p.0)), packets(acked.iter().map(|p| p.0)));
            below = open.first().map_or(next + 1, |p| p.0).max(below);
            waiting.extend(acked.iter().map(|p| (p.number, false, false)));
            waiting.extend(lost.iter().map(|p| (p.number, true, queued)));
            waiting.sort_unstable();
            let settled = waiting.partition_point(|p| p.0 < below);
            waiting.drain(..settled).for_each(|p| naive.push((now / 200, p.1, p.2)));
            monitor.on_settled(ms(now), (&acked, &lost), below, queued);
            monitor.evaluate(ms(now));
            if rng.chance(0.02) {
                let n = rng.below(4);
                let known = monitor.events.kept();
                monitor.on_spurious(n);
                for _ in 0..n {
                    match waiting.iter_mut().rev().find(|p| p.1) {
                        Some(late) => (late.1, late.2) = (false, false),
                        None if naive.forgive(known) => {}
                        None => break,
                    }
                }
            }
            let wanted = naive.loss(now / 200);
            prop_assert_eq!(monitor.loss(), wanted);
        }
    }
}
