//! Waiting times and losses of the classic queues.

use quickset_base::Rng;
use quickset_sim::{DropReason, Fate, each_seed};

use crate::{arrival, batches, carry, link, plain};

/// 1000 bytes at 8 Mbit/s.
const SERVICE: u64 = 1_000_000;

/// Times of a Poisson process with so many arrivals a service time.
fn poisson(seed: u64, n: usize, load: f64) -> Vec<u64> {
    let (mut rng, mut at) = (Rng::new(seed), 0.0);
    let gap = SERVICE as f64 / load;
    let times = (0..n).map(|_| {
        at -= (1.0 - rng.unit()).ln() * gap;
        at as u64
    });
    times.collect()
}

fn waits(times: &[u64], fates: &[Fate]) -> Vec<f64> {
    let wait = |(at, fate): (&u64, &Fate)| arrival(fate).map(|out| (out - at - SERVICE) as f64);
    times.iter().zip(fates).filter_map(wait).collect()
}

#[test]
fn with_even_arrivals_nobody_waits_below_the_rate() {
    let times: Vec<u64> = (0..1000).map(|i| i * SERVICE).collect();
    let fates = carry(&mut link("rate=8mbit", 1), &plain(times.clone(), 1000));
    assert!(waits(&times, &fates).iter().all(|wait| *wait == 0.0));
}

#[test]
fn above_the_rate_the_excess_waits_or_is_dropped() {
    // Five packets in the time of four.
    let times: Vec<u64> = (0..5000).map(|i| i * SERVICE * 4 / 5).collect();
    let fates = carry(&mut link("rate=8mbit", 1), &plain(times.clone(), 1000));
    let expected: Vec<f64> = (0..5000u64).map(|i| (i * SERVICE / 5) as f64).collect();
    assert_eq!(waits(&times, &fates), expected);

    let fates = carry(&mut link("rate=8mbit queue=10packets", 1), &plain(times.clone(), 1000));
    let dropped = fates.iter().filter(|fate| **fate == Fate::Dropped(DropReason::Overflow)).count();
    // Of the last packet sent at 3999.2 ms the link has begun with the 4000th; up to ten wait.
    assert!((990..=1000).contains(&dropped), "{dropped}");
    assert!(waits(&times, &fates).iter().all(|wait| *wait <= 9e6));
}

#[test]
fn random_arrivals_wait_as_pollaczek_and_khinchine_say() {
    each_seed(0..2, |seed| {
        for load in [0.3, 0.6, 0.85] {
            let times = poisson(seed, 100_000, load);
            // A queue that decides at its head serves no other way while it has nothing to drop.
            for queue in ["unlimited", "codel:1s,1s,9GB"] {
                let fates =
                    carry(&mut link(&format!("rate=8mbit queue={queue}"), 1), &plain(times.clone(), 1000));
                let waits = waits(&times, &fates);
                let expected = load * SERVICE as f64 / (2.0 * (1.0 - load));
                let (mean, error) = batches(&waits);
                assert!((mean - expected).abs() < 4.5 * error, "{mean} for {expected} at {load} ({error})");
                // Poisson arrivals see the link as it is in the mean: busy for the share of its load.
                let busy: Vec<f64> = waits.iter().map(|wait| f64::from(u8::from(*wait > 0.0))).collect();
                let (mean, error) = batches(&busy);
                assert!((mean - load).abs() < 4.5 * error, "busy for {mean} at {load}");
                // What is worked off is what was sent.
                let end = arrival(fates.last().unwrap()).unwrap() as f64;
                assert!((times.len() as f64 * SERVICE as f64 / end - load).abs() < 0.02);
            }
        }
    });
}

/// The share of arrivals that M/D/1/K drops: from the chain of what a departing packet leaves behind, its
/// stationary distribution pi and P(loss) = 1 - 1 / (pi_0 + load).
fn share_lost(load: f64, k: usize) -> f64 {
    // P(j arrivals in a service time).
    let mut arrivals = vec![(-load).exp()];
    for j in 1..k {
        arrivals.push(arrivals[j - 1] * load / j as f64);
    }
    let mut pi = vec![1.0 / k as f64; k];
    for _ in 0..20_000 {
        let mut next = vec![0.0; k];
        for (left, p) in pi.iter().enumerate() {
            // Behind an idle time one arrives first; what finds no room is lost.
            let begin = left.saturating_sub(1);
            let mut rest = 1.0;
            for j in 0..k - 1 - begin {
                next[begin + j] += p * arrivals[j];
                rest -= arrivals[j];
            }
            next[k - 1] += p * rest;
        }
        pi = next;
    }
    1.0 - 1.0 / (pi[0] + load)
}

#[test]
fn short_queues_lose_the_share_that_the_embedded_chain_says() {
    // K = 1 is Erlang's: load / (1 + load).
    assert!((share_lost(0.5, 1) - 1.0 / 3.0).abs() < 1e-9);
    for (load, k) in [(0.5, 1), (0.9, 3), (0.9, 6), (1.3, 4)] {
        let times = poisson(7, 100_000, load);
        let fates = carry(&mut link(&format!("rate=8mbit queue={k}packets"), 1), &plain(times, 1000));
        let lost: Vec<f64> = fates.iter().map(|fate| f64::from(u8::from(arrival(fate).is_none()))).collect();
        let (mean, error) = batches(&lost);
        let expected = share_lost(load, k);
        assert!((mean - expected).abs() < 4.5 * error, "{mean} for {expected} at {load}, {k} ({error})");
    }
}
