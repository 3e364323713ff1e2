//! The same experiment in virtual time and over real sockets, TLS and the emulated link.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quickset_lab::catalogue;
use quickset_lab::experiment::Overrides;
use quickset_lab::results::{Histogram, Row};
use quickset_lab::run::{RunJob, RunOptions, RunWorld, play};

#[test]
fn both_worlds_see_the_same() {
    let experiment = catalogue::find("screen-streaming").unwrap();
    // Two seconds a run, and losses enough for a tail: a link on which a lost packet shows.
    let set = [
        "profile=ours",
        "mode=total,partial",
        "fec=none",
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
            let options = RunOptions { world, commit: "test".into(), ..RunOptions::default() };
            let job = |seed| RunJob { experiment: experiment.name.to_owned(), params: params.clone(), seed };
            let go_on = AtomicBool::new(false);
            (1..=SEEDS)
                .map(|seed| play(experiment, &job(seed), &options, &go_on, &mut |_| {}).unwrap())
                .collect()
        };
        let simulated = rows(RunWorld::Sim);
        // A machine that is busy otherwise is late; one that has nothing else to do and is late has a driver
        // that is wrong.
        let (begun, mut was_quiet) = (Instant::now(), false);
        loop {
            let (real, is_quiet) = watched(|| rows(RunWorld::Real));
            let wrong = differences(&simulated, &real);
            if wrong.is_empty() {
                break;
            }
            was_quiet |= is_quiet;
            if begun.elapsed() > PATIENCE {
                assert!(!was_quiet, "{params}: {}", wrong.join("; "));
                eprintln!("SKIPPED: this machine has too much else to do: {}", wrong.join("; "));
                return;
            }
        }
    }
}

/// What comes of it, and whether the machine was on time meanwhile: it let a thread of its own sleep for no
/// more than two milliseconds too long, but for one time in twenty.
fn watched<T>(run: impl FnOnce() -> T) -> (T, bool) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut late, mut all) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(Duration::from_millis(1));
                late += u32::from(begun.elapsed() > Duration::from_millis(3));
                all += 1;
            }
            late * 20 <= all
        });
        let done = run();
        over.store(true, Ordering::Relaxed);
        (done, watcher.join().expect("it only sleeps"))
    })
}

/// What differs by more than 20 % or 5 ms, whichever is larger. The sample is small: a handshake of another
/// size shifts the numbers of all packets, and with them what is lost. At the baseline, with all its updates,
/// it is less.
fn differences(simulated: &[Row], real: &[Row]) -> Vec<String> {
    let mut wrong = Vec::new();
    for rows in [simulated, real] {
        assert!(rows.iter().all(|row| row.metrics.finished), "everything arrives");
        let delivered: u64 = rows.iter().map(|row| row.metrics.counted.messages_delivered).sum();
        assert_eq!(delivered, SEEDS * 40 * 20);
    }
    let blocking = |rows: &[Row]| {
        let mut all = Histogram::default();
        for row in rows {
            all.join(&row.detail.histograms["blocking_ms"]);
        }
        all
    };
    let (expected, seen) = (blocking(simulated), blocking(real));
    assert!(expected.percentile(0.99) > 20.0, "losses show, or there is nothing to compare");
    for p in [0.5, 0.8, 0.99] {
        let (a, b) = (expected.percentile(p), seen.percentile(p));
        if (a - b).abs() > (a * 0.2).max(5.0) {
            wrong.push(format!("{a:.1} ms simulated and {b:.1} ms real at {p}"));
        }
    }
    wrong
}

const SEEDS: u64 = 2;
/// How long a machine may be busy otherwise.
const PATIENCE: Duration = Duration::from_secs(90);
