//! Shares, bursts, and what losses depend on.

use std::collections::BTreeSet;

use quickset_base::Ecn;
use quickset_sim::{Fate, each_seed};

use crate::{Packet, arrival, carry, file, link, plain, spec};

/// Which of `n` packets are lost, sent `gap` nanoseconds apart.
fn lost(text: &str, seed: u64, n: u64, gap: u64) -> Vec<u64> {
    let fates = carry(&mut link(text, seed), &plain((0..n).map(|i| i * gap), 100));
    (0..n).filter(|n| arrival(&fates[*n as usize]).is_none()).collect()
}

/// How often there were 1, 2, ... losses in a row; runs at the ends do not count.
fn bursts(lost: &[u64], n: u64) -> Vec<u64> {
    let mut counts = vec![0; 64];
    let mut i = 0;
    while i < lost.len() {
        let run = (i..lost.len()).take_while(|j| lost[*j] - lost[i] == (*j - i) as u64).count();
        if lost[i] > 0 && lost[i] + (run as u64) < n {
            counts[run.min(63)] += 1;
        }
        i += run;
    }
    counts
}

/// Pearson's test; the last class takes all beyond.
fn chi_square(counts: &[u64], probability: impl Fn(i32) -> f64, classes: usize) -> f64 {
    let total: u64 = counts.iter().sum();
    let mut rest = (1.0, total);
    let mut sum = 0.0;
    for (k, seen) in (1..).zip(&counts[1..=classes]) {
        let (p, seen) = if k as usize == classes { rest } else { (probability(k), *seen) };
        rest = (rest.0 - p, rest.1 - seen);
        let expected = p * total as f64;
        sum += (seen as f64 - expected).powi(2) / expected;
    }
    sum
}

#[test]
fn bursts_of_a_chain_are_geometric() {
    each_seed(0..3, |seed| {
        let (n, r) = (300_000, 0.3f64);
        let counts = bursts(&lost("loss=ge:2%,30%", seed, n, 1000), n);
        // Eight classes: 7 degrees of freedom, of which one in 10,000 exceeds 29.9.
        let sum = chi_square(&counts, |k| r * (1.0 - r).powi(k - 1), 8);
        assert!(sum < 29.9, "{sum}: {counts:?}");
        let counts = bursts(&lost("loss=ge:2%,30%,1,0,5", seed, n, 1000), n);
        // All that would be longer is 5 long; of 4 degrees of freedom one in 10,000 exceeds 23.5.
        let sum = chi_square(&counts, |k| r * (1.0 - r).powi(k - 1), 5);
        assert!(sum < 23.5, "{sum}: {counts:?}");
        assert_eq!(counts[6..].iter().sum::<u64>(), 0);
    });
}

#[test]
fn a_chain_in_time_loses_by_the_clock() {
    each_seed(0..2, |seed| {
        // Bad for 20 ms in 120, on average. 500 s are 4,167 cycles.
        let text = "loss=get:100ms,20ms,90%,1%";
        let share = |lost: &[u64], n: u64| lost.len() as f64 / n as f64;
        let expected = 0.9 / 6.0 + 0.01 * 5.0 / 6.0;
        // The state's correlation falls with 1/100 + 1/20 per ms: 16.7 ms. So 500 s are 15,000 draws of it.
        let sigma = 0.89 * (5.0 / 36.0 / 15_000.0f64).sqrt() + 0.001;
        for (n, gap) in [(500_000, 1_000_000), (50_000, 10_000_000)] {
            let got = share(&lost(text, seed, n, gap), n);
            assert!((got - expected).abs() < 4.0 * sigma, "{got} for {expected}");
        }
        // Whoever sends when it is bad meets it: every seventh sender sees what the others see.
        let all: BTreeSet<u64> =
            lost("loss=get:100ms,20ms,100%,0%", seed, 70_000, 1_000_000).into_iter().collect();
        let some = lost("loss=get:100ms,20ms,100%,0% mtu=2000 delay=9ms jitter=3ms", seed, 10_000, 7_000_000);
        assert!(some.iter().map(|n| n * 7).eq(all.iter().filter(|n| *n % 7 == 0).copied()));
        assert!(!some.is_empty());
    });
}

#[test]
fn recordings_are_played() {
    let bits = file("bits.loss", "0100\n11 # and again\n");
    let expected: Vec<u64> = (0..100).filter(|n| [1, 4, 5].contains(&(n % 6))).collect();
    let text = format!("loss=recorded:{bits}");
    assert_eq!(spec(&text).to_string(), text);
    assert_eq!(lost(&text, 1, 100, 1), expected);
    let ordinals = file("ordinals.loss", "2\n5-7\n10 repeat\n");
    let expected: Vec<u64> = (0..100).filter(|n| [2, 5, 6, 7].contains(&(n % 10))).collect();
    assert_eq!(lost(&format!("loss=recorded:{ordinals}"), 9, 100, 1), expected);
    assert_eq!(lost("loss=burst:10,2", 9, 30, 1), [8, 9, 18, 19, 28, 29]);
}

#[test]
fn losses_are_the_same_whatever_else_is_on() {
    let packets: Vec<Packet> = (0..4000).map(|i| (i * 300_000, 500 + i as usize % 900, Ecn::Ect0)).collect();
    let lost = |text: &str| -> Vec<usize> {
        let mut link = link(text, 12);
        let fates = carry(&mut link, &packets);
        assert_eq!(link.counts().overflowed + link.counts().aqm, 0, "{text}");
        (0..packets.len()).filter(|n| matches!(fates[*n], Fate::Dropped(_))).collect()
    };
    let rest = "rate=100mbit delay=20ms jitter=pareto:2ms,3 reorder=5%,9ms corrupt=5% duplicate=5%";
    for loss in ["3%", "ge:1%,30%", "burst:50,3,40"] {
        let alone = lost(&format!("loss={loss}"));
        assert!(!alone.is_empty());
        for queue in ["codel:5ms,100ms,9MB", "codel-ecn:0,1us,9MB", "red-ecn:0B,1kB,100%,9MB", "mark:0B,9MB"]
        {
            assert_eq!(lost(&format!("loss={loss} queue={queue} {rest}")), alone, "{loss}, {queue}");
        }
    }
}

#[test]
fn a_share_is_late_and_nobody_else() {
    let packets = plain((0..20_000).map(|i| i * 1_000_000), 100);
    let fates = carry(&mut link("delay=20ms reorder=10%,5ms", 3), &packets);
    let extra: Vec<u64> = packets.iter().zip(&fates).map(|(p, fate)| arrival(fate).unwrap() - p.0).collect();
    let late = extra.iter().filter(|extra| **extra == 25_000_000).count();
    assert!(extra.iter().all(|extra| [20_000_000, 25_000_000].contains(extra)));
    // 2000 expected, standard deviation 42.
    assert!(late.abs_diff(2000) < 170, "{late}");
    // More of them are a superset, and jitter does not change who it is.
    let more = carry(&mut link("delay=20ms reorder=20%,5ms", 3), &packets);
    let also = carry(&mut link("delay=20ms reorder=10%,50ms jitter=1ms duplicate=10%", 3), &packets);
    for (n, extra) in extra.iter().enumerate() {
        let at = |fates: &[Fate]| arrival(&fates[n]).unwrap() - packets[n].0;
        assert!(*extra == 20_000_000 || at(&more) == 25_000_000);
        assert_eq!(*extra == 25_000_000, at(&also) >= 60_000_000, "{n}");
    }
}
