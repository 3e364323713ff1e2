use std::time::Duration;

use super::*;
use crate::testing::{download, state};

const RATES: [u64; 7] = [1_000_000, 5_000_000, 10_000_000, 20_000_000, 30_000_000, 40_000_000, 50_000_000];

fn ladder() -> Ladder {
    Ladder::new(RATES).expect("it ascends")
}

/// A rule in its steady phase, with a throughput above all qualities and no placeholder.
fn steady(reading: Reading) -> (Bola, ScoreCurve) {
    let mut rule = Bola::new(ladder(), reading);
    rule.choose(&state(0, 0));
    rule.arrived(&download(6, 50_000_000, 1000));
    rule.choose(&state(20, 6));
    assert_eq!(rule.phase, BolaPhase::Steady);
    rule.interrupted(Interruption::Stall);
    rule.idle_since = None;
    let curve = rule.curve.expect("it was asked");
    (rule, curve)
}

/// The drift-plus-penalty form of the paper (§IV): with sizes S, utilities v and a buffer of Q segments, the
/// quality that maximises (V·v + V·γp − Q)/S. Here as an exhaustive search over the whole range of levels,
/// with V and γp from their conditions: the lowest is worth its bits up to 10 s, and the top one up to the
/// target.
#[test]
fn each_quality_has_the_levels_of_the_paper() {
    let target = 10.0 + 2.0 * 7.0;
    let top = (50.0_f64).ln();
    // V(v_0 + γ) = 10 is where the lowest is not worth fetching any more, V(v_top + γ) = target the same for
    // the top one.
    let v = (target - 10.0) / top;
    let gamma = 10.0 / v;
    let (rule, curve) = steady(Reading::Paper);
    assert!((curve.v - v).abs() < 1e-9 && (curve.gamma - gamma).abs() < 1e-9);
    let mut seen = std::collections::BTreeSet::new();
    for tenth in 0..300 {
        let level = f64::from(tenth) / 10.0;
        let best = (0..RATES.len())
            .max_by(|&a, &b| {
                let score = |q: usize| {
                    let utility = (RATES[q] as f64 / RATES[0] as f64).ln();
                    (v * utility + v * gamma - level) / RATES[q] as f64
                };
                score(a).total_cmp(&score(b))
            })
            .expect("there are qualities");
        assert_eq!(rule.best(curve, level), best, "at {level} s");
        seen.insert(best);
    }
    assert_eq!(seen.len(), RATES.len(), "each quality is the best at some level");
    assert_eq!((rule.best(curve, 0.0), rule.best(curve, target)), (0, 6));
    let full = [0, 6].map(|quality| rule.full(curve, quality));
    assert!((full[0] - 10.0).abs() < 1e-9 && (full[1] - target).abs() < 1e-9, "{full:?}");
}

/// Where a quality begins and where it is worth waiting, against a search along the levels.
#[test]
fn thresholds_are_where_the_choice_changes() {
    let (rule, curve) = steady(Reading::Paper);
    for quality in 1..RATES.len() {
        let reached = rule.reached(curve, quality);
        assert!(rule.best(curve, reached - 0.001) < quality, "{quality} below {reached}");
        assert!(rule.best(curve, reached + 0.001) >= quality, "{quality} above {reached}");
        assert!(rule.full(curve, quality) > rule.full(curve, quality - 1));
    }
}

/// Theorem 1 of the paper: the buffer never holds more than V(v_top + γ) and a segment, whatever arrives.
#[test]
fn the_buffer_stays_within_the_bound() {
    let (mut rule, curve) = steady(Reading::Paper);
    let bound = rule.full(curve, 6) + 2.0;
    let (mut now, mut buffer) = (Duration::from_secs(200), 12.0_f64);
    for _ in 0..500 {
        let level = Duration::from_secs_f64(buffer);
        let choice = rule.choose(&PlayerState { now, buffer: level, ..state(0, rule.quality) });
        // The player's own affair at the top; it fills up to the target here.
        let idle = choice.wait.as_secs_f64().max(buffer - rule.full(curve, 6)).max(0.0);
        let requested = now + Duration::from_secs_f64(idle);
        let finished = requested + Duration::from_millis(20);
        buffer -= idle + 0.02;
        rule.arrived(&SegmentDownload {
            quality: choice.quality,
            buffer: Duration::from_secs_f64(buffer),
            requested,
            first_byte: requested,
            finished,
            ..download(0, 50_000_000, 0)
        });
        buffer += 2.0;
        now = finished;
        assert!(buffer <= bound, "{buffer} s of {bound}");
    }
    assert!(buffer > 20.0, "and it gets there: {buffer}");
}

#[test]
fn a_fast_start_is_by_throughput() {
    let mut rule = Bola::new(ladder(), Reading::Paper);
    assert_eq!(rule.choose(&state(0, 2)).quality, 2);
    rule.arrived(&download(2, 4_000_000, 1000));
    // 32 Mbit/s, of which 28.8 may be taken; BOLA alone would take the lowest at 2 s.
    assert_eq!(rule.choose(&state(2, 2)).quality, 3);
    assert_eq!(rule.phase, BolaPhase::Steady);
    let curve = rule.curve.expect("it was asked");
    assert_eq!(rule.best(curve, 2.0), 0);
    assert_eq!(rule.best(curve, 2.0 + rule.placeholder + 1e-9), 3);
    // The next goes on from there.
    assert_eq!(rule.choose(&state(3, 3)).quality, 3);
}

#[test]
fn no_rise_beyond_the_throughput() {
    let (mut rule, _) = steady(Reading::Paper);
    rule.estimate = ThroughputEstimate::default();
    rule.arrived(&download(2, 2_000_000, 1000));
    // 14.4 Mbit/s: the third.
    rule.idle_since = None;
    assert_eq!(rule.choose(&state(24, 2)).quality, 2);
    // Not below what is in force, either.
    rule.arrived(&download(4, 2_000_000, 1000));
    rule.idle_since = None;
    assert_eq!(rule.choose(&state(24, 4)).quality, 4);
}

#[test]
fn too_much_of_a_low_quality_is_waited_out() {
    let (mut rule, curve) = steady(Reading::Paper);
    rule.estimate = ThroughputEstimate::default();
    rule.arrived(&download(0, 200_000, 1000));
    (rule.placeholder, rule.idle_since) = (0.0, None);
    let choice = rule.choose(&state(20, 0));
    assert_eq!(choice.quality, 0);
    let wait = choice.wait.as_secs_f64();
    assert!((wait - (20.0 - rule.full(curve, 0))).abs() < 1e-6, "{wait}");
    assert!((wait - 10.0).abs() < 1e-6, "{wait}");
    // Asked again then, it does not wait any more.
    let later = PlayerState { now: Duration::from_secs(111), ..state(10, 0) };
    assert_eq!(rule.choose(&later), SegmentChoice::now(0));
}

#[test]
fn the_placeholder_grows_by_idle_time_and_goes_with_a_stall() {
    let (mut rule, _) = steady(Reading::Paper);
    rule.idle_since = Some(Duration::from_secs(98));
    rule.choose(&state(11, 6));
    assert!((rule.placeholder - 3.0).abs() < 1e-9, "{}", rule.placeholder);
    rule.interrupted(Interruption::Stall);
    assert!(rule.placeholder.abs() < f64::EPSILON);
    rule.interrupted(Interruption::Seek);
    assert_eq!((rule.phase, rule.segment), (BolaPhase::Startup, None));
}

#[test]
fn a_target_that_moves_keeps_the_quality() {
    let (mut rule, old) = steady(Reading::Paper);
    rule.placeholder = 5.0;
    let before = rule.best(old, 12.0 + 5.0);
    let new = rule.curve(&PlayerState { buffer_target: Duration::from_secs(60), ..state(12, 0) });
    assert!(new.v > old.v);
    assert_eq!(rule.best(new, 12.0 + rule.placeholder), before);
}

/// The levels at which dash.js waits and to which it fills the placeholder are V seconds above those of the
/// paper, its choices at a level the same.
#[test]
fn dash_js_waits_later() {
    let (ours, _) = steady(Reading::Paper);
    let (theirs, curve) = steady(Reading::Dashjs);
    for quality in 1..RATES.len() {
        let apart = [
            theirs.reached(curve, quality) - ours.reached(curve, quality),
            theirs.full(curve, quality) - ours.full(curve, quality),
        ];
        assert!(apart.iter().all(|a| (a - curve.v).abs() < 1e-9), "{apart:?}");
    }
    assert!((0..30).map(f64::from).all(|level| ours.best(curve, level) == theirs.best(curve, level)));
}
