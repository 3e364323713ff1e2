use std::time::Duration;

use super::*;
use crate::testing::{download, state};

const RATES: [u64; 4] = [1_000_000, 2_000_000, 4_000_000, 8_000_000];

fn rule(reading: Reading) -> LolPlus {
    LolPlus::new(Ladder::new(RATES).expect("it ascends"), reading, 7)
}

fn situation(throughput: f64, buffer: f64) -> Situation {
    Situation { throughput, buffer, latency: 0.0, segment: 2.0, rate: 1.0 }
}

/// A map that has learnt nothing is the ladder: the neuron next to the throughput wins, of those it carries.
#[test]
fn a_fresh_map_picks_what_the_throughput_carries() {
    for (throughput, quality) in
        [(1.5e6, 0), (2.5e6, 1), (3.9e6, 1), (4.1e6, 2), (7e6, 2), (9e6, 3), (90e6, 3)]
    {
        assert_eq!(rule(Reading::Dashjs).next(0, &situation(throughput, 10.0)), quality, "{throughput}");
    }
    // One that is a little too high counts as ten times as far as it is, and the next one below as the root
    // of 0.2.
    assert!(10.0 * (8.0 - 7.9) < 0.2_f64.sqrt() * (7.9 - 4.0));
    assert_eq!(rule(Reading::Dashjs).next(0, &situation(7.9e6, 10.0)), 3);
}

#[test]
fn a_buffer_that_would_not_last_lowers_the_quality_at_once() {
    let mut rule = rule(Reading::Dashjs);
    // 8 Mbit/s · 2 s at 5 Mbit/s take 3.2 s.
    assert_eq!(rule.next(3, &situation(5e6, 3.4)), 2);
    assert_eq!(rule.next(3, &situation(5e6, 3.6)), 2);
    assert_eq!(rule.next(3, &situation(0.5e6, 3.4)), 3, "there is none that is carried");
    assert_eq!(rule.next(0, &situation(0.5e6, 1.0)), 0);
}

/// The search over weights against all 625 of them, in the order of the paper's grid.
#[test]
fn the_weights_are_the_best_of_all() {
    let mut rule = rule(Reading::Dashjs);
    for (i, neuron) in rule.neurons.iter_mut().enumerate() {
        neuron[1] = [0.0, 0.4, 0.02, 0.001][i];
    }
    for (throughput, buffer) in [(3e6, 4.0), (9e6, 1.0), (0.9e6, 3.0), (40e6, 20.0)] {
        let now = situation(throughput, buffer);
        let mut best: Option<(f64, SegmentFeatures)> = None;
        for (quality, rate) in RATES.iter().enumerate() {
            let time = *rate as f64 * 2.0 / throughput;
            let next = if time > 2.0 { buffer - 2.0 } else { buffer + 2.0 - time };
            for number in 0..625 {
                let [a, b, c, d] =
                    [number / 125, number / 25 % 5, number / 5 % 5, number % 5].map(|i| WEIGHTS[i]);
                let latency = rule.neurons[quality][1] / b;
                let felt = if latency <= 1.1 { 50.0 } else { 800.0 };
                let stall = (time - next).max(0.00001) / c;
                let qoe = 2.0 * *rate as f64 / 1000.0 - 8000.0 * stall - felt * latency;
                if next >= 0.3 && best.is_none_or(|(most, _)| qoe > most + 1e-9) {
                    best = Some((qoe, [a, b, c, d]));
                }
            }
        }
        assert_eq!(rule.best_weights(&now), best.map(|(_, weights)| weights), "{throughput} {buffer}");
    }
    assert_eq!(rule.best_weights(&situation(1e3, 0.2)), None);
}

/// The paper bounds latency by its target and what it has just moved; dash.js by the target and all of it,
/// which holds always.
#[test]
fn the_bound_of_latency_is_the_papers() {
    let late = Situation { latency: 5.0, ..situation(3e6, 10.0) };
    let (dashjs, mut paper) = (rule(Reading::Dashjs), rule(Reading::Paper));
    assert!(dashjs.best_weights(&late).is_some());
    assert!(paper.best_weights(&late).is_some(), "it has just grown");
    paper.latency = 5.0;
    assert_eq!(paper.best_weights(&late), None);
    let first = paper.weights;
    paper.next(0, &late);
    assert_eq!(paper.weights.map(f64::to_bits), first.map(f64::to_bits));
}

#[test]
fn neurons_move_towards_what_they_saw() {
    let mut rule = rule(Reading::Dashjs);
    let before = rule.neurons.clone();
    rule.learn(1, &[0.9, 0.5, 1.0, 0.2]);
    // The one itself by a hundredth of the way, the others by their distance on the map.
    let way = |q: usize, f: usize, seen: f64| (rule.neurons[q][f] - before[q][f]) / (seen - before[q][f]);
    assert!((way(1, 0, 0.9) - 0.01).abs() < 1e-12);
    for q in [0, 2, 3] {
        let apart = before[q][0] - before[1][0];
        let near = (-apart * apart / 0.02).exp();
        assert!((way(q, 2, 1.0) - 0.01 * near).abs() < 1e-12, "{q}");
    }
}

#[test]
fn equal_seeds_are_equal_rules() {
    let weights =
        |seed: u64| LolPlus::new(Ladder::new(RATES).expect("it ascends"), Reading::Paper, seed).weights;
    let bits = |seed| weights(seed).map(f64::to_bits);
    assert_eq!(bits(1), bits(1));
    assert_ne!(bits(1), bits(2));
    let top = 8.0 / f64::from(1 + 4 + 16 + 64).sqrt();
    for seed in 0..50 {
        let [throughput, others @ ..] = weights(seed);
        assert!((0.0..top).contains(&throughput) && others.iter().all(|w| (0.0..1.0).contains(w)));
    }
}

#[test]
fn the_rule_asks_by_what_arrived() {
    let mut rule = rule(Reading::Dashjs);
    assert_eq!(rule.choose(&state(10, 2)).quality, 2, "nothing is known");
    rule.arrived(&download(2, 375_000, 1000));
    assert_eq!(rule.choose(&PlayerState { buffer: Duration::from_secs(10), ..state(10, 2) }).quality, 1);
}
