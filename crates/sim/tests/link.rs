//! The link model against arithmetic.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

use std::collections::BTreeSet;

use proptest::prelude::*;
use quickset_base::{Duration, Ecn, Time};
use quickset_sim::{DropReason, Fate, Jitter, Link, LinkSpec, LossModel, Reorder, each_seed};

fn spec(text: &str) -> LinkSpec {
    text.parse().expect("a link")
}

fn link(text: &str, seed: u64) -> Link {
    Link::new(spec(text), seed, 0)
}

fn send(link: &mut Link, ns: u64, size: usize) -> Fate {
    link.send(Time::from_nanos(ns), size, Ecn::NotEct).known().expect("drop-tail knows at once")
}

/// When a packet arrives that has to arrive once.
fn arrival(fate: Fate) -> u64 {
    match fate {
        Fate::Delivered(delivery) => delivery.at.as_nanos(),
        other => panic!("{other:?}"),
    }
}

/// Which of the first `n` packets are lost, sent a microsecond apart.
fn losses(text: &str, seed: u64, n: u64) -> BTreeSet<u64> {
    let mut link = link(text, seed);
    (0..n).filter(|i| send(&mut link, i * 1000, 100) == Fate::Dropped(DropReason::Loss)).collect()
}

#[test]
fn delay_is_serialization_and_propagation() {
    let mut link = link("rate=100mbit delay=50ms", 1);
    // 1250 bytes are 10,000 bits: 100 us. The second waits for the first, the third finds it idle.
    assert_eq!(arrival(send(&mut link, 0, 1250)), 50_100_000);
    assert_eq!(arrival(send(&mut link, 40_000, 1250)), 50_200_000);
    assert_eq!(arrival(send(&mut link, 300_000, 125)), 50_310_000);
    assert_eq!(link.backlog(Time::from_nanos(309_999)), 125);
    assert_eq!(link.backlog(Time::from_nanos(310_000)), 0);
}

#[test]
fn without_a_rate_only_the_delay_counts() {
    let mut link = link("delay=5ms queue=100B", 1);
    for i in 0..100 {
        assert_eq!(arrival(send(&mut link, i, 100)), 5_000_000 + i);
    }
    assert_eq!(link.counts().peak_backlog, 0);
}

#[test]
fn the_queue_drops_when_arithmetic_says() {
    // 1000 bytes at 8 Mbit/s take 1 ms. Three fit, the one in transmission included.
    let mut link = link("rate=8mbit queue=3000B", 1);
    for i in 1..=3 {
        assert_eq!(arrival(send(&mut link, 0, 1000)), i * 1_000_000);
    }
    assert_eq!(send(&mut link, 0, 1000), Fate::Dropped(DropReason::Overflow));
    assert_eq!(send(&mut link, 999_999, 1), Fate::Dropped(DropReason::Overflow), "the first leaves at 1 ms");
    assert_eq!(arrival(send(&mut link, 1_000_000, 999)), 3_999_000);
    assert_eq!(arrival(send(&mut link, 1_000_000, 1)), 4_000_000, "the last byte of room");
    assert_eq!(send(&mut link, 1_000_000, 1), Fate::Dropped(DropReason::Overflow));
    let counts = link.counts();
    assert_eq!((counts.sent, counts.overflowed, counts.passed, counts.peak_backlog), (8, 3, 5, 3000));
}

#[test]
fn a_queue_of_packets_counts_packets() {
    let mut link = link("rate=8mbit queue=2packets", 1);
    assert_eq!(arrival(send(&mut link, 0, 1000)), 1_000_000);
    assert_eq!(arrival(send(&mut link, 0, 1)), 1_001_000);
    assert_eq!(send(&mut link, 0, 1), Fate::Dropped(DropReason::Overflow));
    assert_eq!(arrival(send(&mut link, 1_000_000, 1)), 1_002_000);
}

#[test]
fn larger_than_the_mtu_is_dropped_and_costs_nothing() {
    let mut link = link("rate=8mbit mtu=1500 overhead=28", 1);
    assert_eq!(send(&mut link, 0, 1473), Fate::Dropped(DropReason::Oversized));
    assert_eq!(arrival(send(&mut link, 0, 1472)), 1_500_000);
    assert_eq!((link.counts().oversized, link.counts().sent_bytes), (1, 3001));
}

#[test]
fn a_dead_link_delivers_never() {
    let mut link = Link::new(LinkSpec { rate: quickset_sim::Rate::Constant(0), ..LinkSpec::default() }, 1, 0);
    assert_eq!(arrival(send(&mut link, 0, 1)), u64::MAX);
}

#[test]
fn marks_pass() {
    let mut link = link("delay=1ms", 1);
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        let delivery = link.send(Time::ZERO, 100, ecn).known().unwrap().deliveries().next().unwrap();
        assert_eq!(delivery.ecn, ecn);
    }
}

#[test]
fn the_share_of_loss_is_p() {
    each_seed(0..4, |seed| {
        for p in [0.001, 0.005, 0.1, 0.5] {
            let n: f64 = 100_000.0;
            let lost = losses(&format!("loss={p}"), seed, 100_000).len() as f64;
            let sigma = (n * p * (1.0 - p)).sqrt();
            assert!((lost - n * p).abs() < 4.0 * sigma, "{lost} of {n} at {p}");
        }
        assert_eq!(losses("loss=100%", seed, 1000).len(), 1000);
        assert_eq!(losses("loss=0", seed, 1000).len(), 0);
    });
}

#[test]
fn losses_come_singly_at_independent_loss() {
    // Pairs of neighbours are lost with p^2.
    let lost = losses("loss=10%", 3, 200_000);
    let pairs = lost.iter().filter(|n| lost.contains(&(*n + 1))).count() as f64;
    assert!((pairs - 2000.0).abs() < 4.0 * 2000f64.sqrt() * 1.2, "{pairs}");
}

#[test]
fn gilbert_elliott_has_its_stationary_loss_and_burst_length() {
    each_seed(0..4, |seed| {
        let n = 400_000u64;
        let (p, r) = (0.01, 0.25);
        let lost = losses("loss=ge:1%,25%", seed, n);
        let bursts = lost.iter().filter(|i| **i == 0 || !lost.contains(&(*i - 1))).count() as f64;
        // Share p/(p+r). A chain with correlation c = 1-p-r has variance (1+c)/(1-c) times the binomial one.
        let share = p / (p + r);
        let c: f64 = 1.0 - p - r;
        let sigma = (n as f64 * share * (1.0 - share) * (1.0 + c) / (1.0 - c)).sqrt();
        assert!((lost.len() as f64 - n as f64 * share).abs() < 4.0 * sigma, "{} lost", lost.len());
        // Bursts are geometric with mean 1/r and standard deviation sqrt(1-r)/r.
        let mean = lost.len() as f64 / bursts;
        let sigma = (1.0f64 - r).sqrt() / r / bursts.sqrt();
        assert!((mean - 1.0 / r).abs() < 4.0 * sigma, "mean burst {mean}");
    });
}

#[test]
fn gilbert_elliott_loses_by_state() {
    // The TUM parameters: 0.5 % to bad, 25 % back, 95 % lost in bad, 0.5 % in good.
    let n: f64 = 400_000.0;
    let lost = losses("loss=ge:0.5%,25%,95%,0.5%", 7, 400_000).len() as f64;
    let bad = 0.005 / 0.255;
    let share = bad * 0.95 + (1.0 - bad) * 0.005;
    let inflated = (n * share * 7.0).sqrt();
    assert!((lost - n * share).abs() < 4.0 * inflated, "{lost} against {}", n * share);
}

#[test]
fn others_drive_the_chain_in_our_pauses() {
    // Bad for 200 packets on average: neighbours share their fate...
    let text = "loss=ge:0.25%,0.5%";
    let changes = |text: &str, n: u64| {
        let mut link = link(text, 5);
        let lost: Vec<bool> =
            (0..n).map(|i| send(&mut link, i * 10_000_000, 9) == Fate::Dropped(DropReason::Loss)).collect();
        lost.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64 / n as f64
    };
    // ...so the state changes with 2 * pi_good * p = 0.0033 a packet (standard deviation 0.0003);
    let alone = changes(text, 40_000);
    assert!((alone - 0.0033).abs() < 0.0012, "{alone}");
    // with 1000 others between two of ours, 7.5 times the chain's memory, neighbours are strangers:
    // 2 * 1/3 * 2/3, standard deviation 0.008.
    let strangers = changes(&format!("{text} others=100000"), 4000);
    assert!((strangers - 0.444).abs() < 0.032, "{strangers}");
}

#[test]
fn loss_depends_on_seed_direction_and_ordinal_alone() {
    let text = "loss=5%";
    let reference = losses(text, 9, 5000);
    // Other sizes, times, rates; jitter, duplication and corruption on.
    let mut other = link("rate=1mbit delay=3s jitter=9ms reorder=yes corrupt=50% duplicate=50% loss=5%", 9);
    let lost: BTreeSet<u64> = (0..5000u64)
        .filter(|i| send(&mut other, i * i, 1 + *i as usize) == Fate::Dropped(DropReason::Loss))
        .collect();
    assert_eq!(lost, reference);
    assert_ne!(losses(text, 10, 5000), reference);
    let mut down = Link::new(spec(text), 9, 1);
    let lost: BTreeSet<u64> =
        (0..5000u64).filter(|i| send(&mut down, i * 1000, 9) == Fate::Dropped(DropReason::Loss)).collect();
    assert_ne!(lost, reference);
    assert!(losses("loss=6%", 9, 5000).is_superset(&reference), "more loss takes more, not others");
}

#[test]
fn a_change_under_way_goes_on_as_if_it_had_always_been_so() {
    let reference = losses("loss=5%", 4, 5000);
    let mut link = link("perfect", 4);
    for i in 0..2500 {
        arrival(send(&mut link, i, 9));
    }
    link.change(spec("loss=5%"));
    let lost: Vec<u64> =
        (2500..5000).filter(|i| send(&mut link, *i, 9) == Fate::Dropped(DropReason::Loss)).collect();
    assert_eq!(lost, reference.range(2500..).copied().collect::<Vec<_>>());
}

/// Fewer others go by from then on; the numbers of those that have gone by are not drawn again.
#[test]
fn a_change_to_fewer_others_goes_on_with_the_losses() {
    for model in ["5%", "ge:1%,33%", "get:1s,50ms,95%,0.5%"] {
        let mut link = link(&format!("loss={model} others=1000000"), 4);
        for i in 0..100u64 {
            send(&mut link, i * 1_000_000, 9);
        }
        // By then 99,000 others have gone by.
        link.change(spec(&format!("loss={model}")));
        let lost = (100..40_100u64).filter(|i| {
            send(&mut link, i * 1_000_000, 9)
                != Fate::Delivered(quickset_sim::LinkDelivery {
                    at: Time::from_nanos(i * 1_000_000),
                    ecn: Ecn::NotEct,
                    damage: None,
                })
        });
        // 5 %; 0.01 / 0.34 = 2.9 %; (0.05 · 0.95 + 1 · 0.005) / 1.05 = 5 %.
        let share = lost.count() as f64 / 40_000.0;
        assert!((0.02..0.08).contains(&share), "{model}: {share}");
    }
}

#[test]
fn switching_one_model_on_leaves_the_others_alone() {
    // Per packet: extra delay, damage of the original, duplicated or not.
    let observe = |text: &str| -> Vec<(u64, bool, bool)> {
        let mut link = link(text, 6);
        let observed = (0..2000u64).map(|i| match send(&mut link, i * 100_000_000, 100) {
            Fate::Delivered(d) => (d.at.as_nanos() - i * 100_000_000, d.damage.is_some(), false),
            Fate::Duplicated(d, _) => (d.at.as_nanos() - i * 100_000_000, d.damage.is_some(), true),
            Fate::Dropped(why) => panic!("{why:?}"),
        });
        observed.collect()
    };
    let all = observe("jitter=5ms corrupt=30% duplicate=30%");
    let jitter = observe("jitter=5ms");
    let corrupt = observe("corrupt=30%");
    let duplicate = observe("duplicate=30%");
    for (i, one) in all.iter().enumerate() {
        assert_eq!(*one, (jitter[i].0, corrupt[i].1, duplicate[i].2), "packet {i}");
    }
    let share = |f: &dyn Fn(&(u64, bool, bool)) -> bool| all.iter().filter(|one| f(one)).count();
    // 600 expected, standard deviation 20.5.
    assert!(share(&|one| one.1).abs_diff(600) < 82);
    assert!(share(&|one| one.2).abs_diff(600) < 82);
}

#[test]
fn jitter_keeps_the_order_unless_permitted() {
    let arrivals = |text: &str| -> Vec<u64> {
        let mut link = link(text, 8);
        (0..1000).map(|i| arrival(send(&mut link, i * 1_000_000, 100))).collect()
    };
    let ordered = arrivals("delay=20ms jitter=10ms");
    assert!(ordered.is_sorted());
    let free = arrivals("delay=20ms jitter=10ms reorder=yes");
    assert!(!free.is_sorted());
    // What keeps the order arrives when the latest so far would have arrived.
    let mut latest = 0;
    for (free, ordered) in free.iter().zip(&ordered) {
        latest = latest.max(*free);
        assert_eq!(*ordered, latest);
    }
    let extra: Vec<u64> = free.iter().zip(0..).map(|(at, i)| at - i * 1_000_000 - 20_000_000).collect();
    assert!(extra.iter().all(|extra| *extra <= 10_000_000));
    // Mean 5 ms, standard error 10/sqrt(12)/sqrt(1000) = 0.091 ms.
    let mean = extra.iter().sum::<u64>() / 1000;
    assert!(mean.abs_diff(5_000_000) < 365_000, "{mean}");
}

#[test]
fn a_shorter_delay_does_not_overtake() {
    let mut link = link("delay=50ms", 1);
    assert_eq!(arrival(send(&mut link, 0, 100)), 50_000_000);
    link.change(spec("delay=10ms"));
    assert_eq!(arrival(send(&mut link, 1_000_000, 100)), 50_000_000);
    assert_eq!(arrival(send(&mut link, 45_000_000, 100)), 55_000_000);
    link.change(spec("delay=1ms reorder=yes"));
    assert_eq!(arrival(send(&mut link, 45_000_000, 100)), 46_000_000);
}

#[test]
fn copies_follow_the_original_or_go_their_own_way() {
    let mut tight = link("delay=10ms duplicate=100%", 1);
    let Fate::Duplicated(original, copy) = send(&mut tight, 0, 100) else { panic!("no copy") };
    assert_eq!((original.at, copy.at), (Time::from_millis(10), Time::from_millis(10)));
    let mut loose = link("delay=10ms duplicate=100% jitter=10ms reorder=yes", 1);
    let ahead = (0..1000u64)
        .filter(|i| match send(&mut loose, *i, 100) {
            Fate::Duplicated(original, copy) => copy.at < original.at,
            other => panic!("{other:?}"),
        })
        .count();
    // Half of them, standard deviation 15.8.
    assert!(ahead.abs_diff(500) < 64, "{ahead}");
    assert_eq!(loose.counts().duplicated, 1000);
}

#[test]
fn damage_is_one_bit_and_reaches_every_bit() {
    let mut link = link("corrupt=100%", 1);
    let mut flipped = BTreeSet::new();
    for i in 0..2000 {
        let Fate::Delivered(delivery) = send(&mut link, i, 8) else { panic!() };
        let mut bytes = [0u8; 8];
        delivery.damage.unwrap().apply(&mut bytes);
        let bits = u64::from_le_bytes(bytes);
        assert_eq!(bits.count_ones(), 1);
        flipped.insert(bits);
        delivery.damage.unwrap().apply(&mut []);
    }
    assert_eq!(flipped.len(), 64);
}

/// A drop-tail link by the book: every packet's departure as an exact fraction, everything recounted
/// for each packet. Times are in units of 1 / rate nanoseconds.
struct Naive {
    rate: u128,
    limit: u128,
    packets: Vec<(u128, u128)>,
}

impl Naive {
    fn send(&mut self, now: u64, size: usize) -> Option<u64> {
        let (now, size) = (u128::from(now) * self.rate, size as u128);
        // Gone is what has left by now, rounded up to whole nanoseconds as all times are.
        let queued: u128 = self
            .packets
            .iter()
            .filter(|(left, _)| left.div_ceil(self.rate) * self.rate > now)
            .map(|(_, s)| s)
            .sum();
        if queued + size > self.limit {
            return None;
        }
        let free = self.packets.last().map_or(0, |(left, _)| *left);
        let left = free.max(now) + size * 8 * 1_000_000_000;
        self.packets.push((left, size));
        Some(u64::try_from(left.div_ceil(self.rate)).expect("within 584 years"))
    }
}

proptest! {
    #[test]
    fn a_drop_tail_link_does_what_the_book_says(
        rate in 1_000u64..10_000_000_000,
        limit in 0u64..20_000,
        packets in prop::collection::vec((0u64..3_000_000, 1usize..3000), 1..200),
    ) {
        let text = format!("rate={rate}bit queue={limit}B");
        let mut link = link(&text, 1);
        let mut naive = Naive { rate: rate.into(), limit: limit.into(), packets: Vec::new() };
        let mut now = 0;
        for (gap, size) in packets {
            now += gap;
            let expected = naive.send(now, size);
            let got = match send(&mut link, now, size) {
                Fate::Delivered(delivery) => Some(delivery.at.as_nanos()),
                Fate::Dropped(DropReason::Overflow) => None,
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(got, expected, "at {}", now);
        }
    }

    #[test]
    fn a_link_counts_every_packet_once(
        loss in 0.0..1.0, corrupt in 0.0..1.0, duplicate in 0.0..1.0, seed: u64,
        reorder: bool, jitter_us in 0u64..5000,
        packets in prop::collection::vec((0u64..500_000, 1usize..1600), 1..300),
    ) {
        let spec = LinkSpec {
            loss: LossModel::Independent(loss), corrupt, duplicate,
            reorder: if reorder { Reorder::Yes } else { Reorder::No },
            jitter: Jitter::Uniform(Duration::from_micros(jitter_us)),
            ..spec("rate=30mbit delay=1ms queue=5kB mtu=1500")
        };
        let mut link = Link::new(spec.clone(), seed, 0);
        let (mut now, mut last) = (0, Time::ZERO);
        let (mut arrivals, mut damaged, mut dropped) = (0, 0, [0; 4]);
        for (gap, size) in &packets {
            now += gap;
            let fate = send(&mut link, now, *size);
            if let Fate::Dropped(why) = fate {
                dropped[why as usize] += 1;
            }
            for delivery in fate.deliveries() {
                arrivals += 1;
                damaged += u64::from(delivery.damage.is_some());
                prop_assert!(delivery.at >= Time::from_nanos(now) + spec.latency(*size), "never early");
                prop_assert!(reorder || delivery.at >= last);
                last = delivery.at;
            }
        }
        let counts = link.counts();
        prop_assert_eq!(counts.sent, packets.len() as u64);
        prop_assert_eq!([counts.oversized, counts.overflowed, counts.lost, counts.aqm], dropped);
        prop_assert_eq!(counts.sent, counts.oversized + counts.overflowed + counts.lost + counts.passed);
        prop_assert_eq!(counts.passed + counts.duplicated, arrivals);
        prop_assert_eq!(counts.corrupted, damaged);
        prop_assert!(counts.peak_backlog <= 5000);
    }
}
