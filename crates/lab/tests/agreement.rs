//! The same experiment in virtual time and over real sockets, TLS and the emulated link.

use std::sync::atomic::AtomicBool;

use quickset_lab::catalogue;
use quickset_lab::experiment::Overrides;
use quickset_lab::results::{Histogram, Row};
use quickset_lab::run::{Job, Options, World, play};

#[test]
fn both_worlds_see_the_same() {
    let experiment = catalogue::find("screen-streaming").unwrap();
    // Two seconds a run, and losses enough for a tail: a link on which a lost packet shows.
    let set = [
        "profile=ours",
        "mode=total,partial",
        "loss=2%",
        "rtt_ms=40",
        "rate_mbit=20",
        "pace=20",
        "updates=40",
        "messages=20",
    ];
    let overrides = Overrides::parse(&set.map(str::to_owned)).unwrap();
    let points = experiment.points(&overrides).unwrap();
    assert_eq!(points.len(), 2);
    for params in points {
        let rows = |world| -> Vec<Row> {
            let options = Options { world, commit: "test".into(), ..Options::default() };
            let job = |seed| Job { experiment: experiment.name.to_owned(), params: params.clone(), seed };
            let go_on = AtomicBool::new(false);
            (1..=2).map(|seed| play(experiment, &job(seed), &options, &go_on, &mut |_| {}).unwrap()).collect()
        };
        let simulated = rows(World::Sim);
        // A machine that is busy otherwise is late; one that is never on time has a driver that is wrong.
        let mut wrong = Vec::new();
        let agreed = (0..3).any(|_| {
            wrong = differences(&simulated, &rows(World::Real));
            wrong.is_empty()
        });
        assert!(agreed, "{params}: {}", wrong.join("; "));
    }
}

/// What differs by more than 10 % or 2 ms at p50 and p80, 20 % or 5 ms at p99, whichever is larger.
fn differences(simulated: &[Row], real: &[Row]) -> Vec<String> {
    let mut wrong = Vec::new();
    for rows in [simulated, real] {
        assert!(rows.iter().all(|row| row.metrics.finished), "everything arrives");
        let delivered: u64 = rows.iter().map(|row| row.metrics.counted.messages_delivered).sum();
        assert_eq!(delivered, 2 * 40 * 20);
    }
    let blocking = |rows: &[Row]| {
        let mut all = Histogram::default();
        rows.iter().for_each(|row| all.join(&row.detail.histograms["blocking_ms"]));
        all
    };
    let (expected, seen) = (blocking(simulated), blocking(real));
    assert!(expected.percentile(0.99) > 20.0, "losses show, or there is nothing to compare");
    for (p, share, least) in [(0.5, 0.1, 2.0), (0.8, 0.1, 2.0), (0.99, 0.2, 5.0)] {
        let (a, b) = (expected.percentile(p), seen.percentile(p));
        if (a - b).abs() > (a * share).max(least) {
            wrong.push(format!("{a:.1} ms simulated and {b:.1} ms real at {p}"));
        }
    }
    wrong
}
