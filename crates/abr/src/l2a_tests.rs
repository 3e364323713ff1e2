use proptest::prelude::*;

use super::*;
use crate::testing::{download, state};

const RATES: [u64; 4] = [1_000_000, 2_000_000, 4_000_000, 8_000_000];

fn rule(reading: Reading) -> L2a {
    L2a::new(Ladder::new(RATES).expect("it ascends"), reading)
}

/// Brings it into its steady phase with one segment of so many bit/s.
fn steady(reading: Reading, throughput: u64) -> L2a {
    let mut rule = rule(reading);
    rule.choose(&state(0, 0));
    rule.arrived(&download(0, throughput / 8, 1000));
    rule.choose(&state(4, 0));
    assert_eq!(rule.phase, L2aPhase::Steady);
    rule
}

proptest! {
    /// The nearest point of the simplex by trying each set of parts that are not zero: on it, all are lowered
    /// by the same.
    #[test]
    fn the_projection_is_the_nearest_point(point in proptest::collection::vec(-50.0..50.0_f64, 1..8)) {
        let found = onto_simplex(&point);
        let distance = |x: &[f64]| x.iter().zip(&point).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let mut best: Option<Vec<f64>> = None;
        for set in 1_u32..1 << point.len() {
            let inside = |i: usize| set >> i & 1 == 1;
            let sum: f64 = point.iter().enumerate().filter(|(i, _)| inside(*i)).map(|(_, x)| x).sum();
            let lowered = (sum - 1.0) / f64::from(set.count_ones());
            let tried: Vec<f64> =
                point.iter().enumerate().map(|(i, x)| if inside(i) { x - lowered } else { 0.0 }).collect();
            let allowed = tried.iter().all(|x| *x >= 0.0);
            if allowed && best.as_ref().is_none_or(|b| distance(&tried) < distance(b)) {
                best = Some(tried);
            }
        }
        let best = best.expect("some corner is allowed");
        prop_assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        for (a, b) in found.iter().zip(&best) {
            prop_assert!((a - b).abs() < 1e-9, "{found:?} and {best:?}");
        }
    }
}

#[test]
fn until_the_target_it_is_by_throughput() {
    let mut rule = rule(Reading::Dashjs);
    assert_eq!(rule.choose(&state(0, 3)).quality, 3);
    rule.arrived(&download(0, 625_000, 1000));
    // 4.5 of 5 Mbit/s.
    assert_eq!(rule.choose(&state(1, 0)).quality, 2);
    assert_eq!(rule.phase, L2aPhase::Startup);
    assert_eq!(rule.choose(&state(2, 0)).quality, 2);
    assert_eq!(rule.phase, L2aPhase::Steady);
    rule.interrupted(Interruption::Seek);
    assert_eq!(rule.choose(&state(2, 0)).quality, 2);
    assert_eq!(rule.phase, L2aPhase::Startup);
}

/// One step by hand (equations of §4): w = (0, 1, 0, 0), V = 2 s, C = 3 Mbit/s, Q = V_L.
#[test]
fn the_first_step_of_the_paper() {
    let mut rule = steady(Reading::Paper, 3_000_000);
    assert_eq!(rule.quality, 1);
    let vl = 4_f64.powf(0.99);
    assert!((rule.multiplier - vl).abs() < 1e-12);
    rule.arrived(&download(1, 375_000, 1000));
    let step = 2.0 / (2.0 * (vl * 2.0)) * (2.0 * vl);
    let y = [step / 3.0, 1.0 + step * 2.0 / 3.0, -step * 4.0 / 3.0, -step * 8.0 / 3.0];
    // Two parts stay: each loses half of what they are above 1 together.
    let lowered = (y[0] + y[1] - 1.0) / 2.0;
    let w = [y[0] - lowered, y[1] - lowered];
    let mean = |w: [f64; 2]| w[0] / 3.0 + w[1] * 2.0 / 3.0;
    let expected = (vl - 2.0 + 2.0 * (2.0 * mean(w.map(|x| x.clamp(0.0, 1.0))) - 2.0 / 3.0)).max(0.0);
    assert_eq!(rule.choose(&state(4, 1)).quality, 1);
    assert!((rule.multiplier - expected).abs() < 1e-9, "{} and {expected}", rule.multiplier);
}

#[test]
fn a_step_is_taken_once_a_segment() {
    let mut rule = steady(Reading::Paper, 3_000_000);
    rule.arrived(&download(1, 375_000, 1000));
    let first = rule.choose(&state(4, 1));
    let (weights, multiplier) = (rule.weights.clone(), rule.multiplier);
    assert_eq!(rule.choose(&state(4, 1)), first);
    assert_eq!(rule.weights, weights);
    assert!((rule.multiplier - multiplier).abs() < f64::EPSILON);
}

/// §4: upwards a step at a time, as long as the next one is carried.
#[test]
fn the_paper_climbs_step_by_step() {
    let mut rule = steady(Reading::Paper, 1_200_000);
    let mut climbed = Vec::new();
    for _ in 0..8 {
        rule.arrived(&download(rule.quality, 2_500_000, 1000));
        climbed.push(rule.choose(&state(4, rule.quality)).quality);
    }
    assert!(climbed.windows(2).all(|w| w[1] <= w[0] + 1), "{climbed:?}");
    assert_eq!((climbed[0], climbed.last()), (1, Some(&3)), "{climbed:?}");
}

#[test]
fn what_is_not_carried_is_left() {
    for reading in [Reading::Dashjs, Reading::Paper] {
        let mut rule = steady(reading, 20_000_000);
        assert_eq!(rule.quality, 3);
        let mut last = 3;
        for _ in 0..6 {
            rule.arrived(&download(last, 312_500, 1000));
            last = rule.choose(&state(4, last)).quality;
        }
        assert!(last <= 1, "{last} with 2.5 Mbit/s");
    }
}
