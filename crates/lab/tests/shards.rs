//! A sweep in shards gives the same files as one alone.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use quickset_lab::catalogue;
use quickset_lab::experiment::Overrides;
use quickset_lab::plan::{Shard, SweepPlan};
use quickset_lab::results::merge;
use quickset_lab::run::{RunJob, RunOptions, SweepProgress, jobs, run};

/// A plan of two experiments, with an even number of modes: shards get quite different points.
fn plan() -> SweepPlan {
    let words =
        ["updates=2", "messages=20", "loss=5%,1%", "rtt_ms=20,100", "fec=none,rs:105/100"].map(str::to_owned);
    let jobs = ["screen-streaming", "screen-interactive"].into_iter().flat_map(|name| {
        let experiment = catalogue::find(name).unwrap();
        let points = experiment.points(&Overrides::parse(&words).unwrap()).unwrap();
        jobs(experiment, &points, 2)
    });
    SweepPlan { commit: "abc".to_owned(), jobs: jobs.collect() }
}

fn play(jobs: Vec<RunJob>, dir: &Path, shard: Option<Shard>) -> usize {
    let options = RunOptions { commit: "abc".to_owned(), threads: 2, shard, ..RunOptions::default() };
    let mut resumed = 0;
    for sweep in SweepPlan::sweeps(jobs) {
        let mut watch = |progress: &SweepProgress| resumed = progress.resumed.max(resumed);
        run(&sweep, dir, &options, &AtomicBool::new(false), &mut watch).unwrap();
    }
    resumed
}

/// The files of a directory, journals without the time that runs took.
fn files(dir: &Path) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), timeless(&text))
        })
        .collect();
    files.sort();
    files
}

fn timeless(text: &str) -> String {
    let mut parts = text.split("\"wall_s\":");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |all, part| all + "\"wall_s\":" + &part[part.find([',', '}']).unwrap()..])
}

#[test]
fn any_shards_merge_to_what_one_run_gives() {
    let root = std::env::temp_dir().join(format!("quickset-shards-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    let dir = |name: &str| -> PathBuf { root.join(name) };
    let plan = plan();
    play(plan.jobs.clone(), &dir("alone"), None);
    merge(&[dir("alone")], &dir("alone-merged")).unwrap();
    let expected = files(&dir("alone-merged"));
    let names: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    let tables = [
        "screen-interactive.csv",
        "screen-interactive.rows",
        "screen-streaming.csv",
        "screen-streaming.rows",
    ];
    assert_eq!(names, tables);
    // The journal of a run is in the order in which runs ended; its table is the merged one.
    for (name, text) in files(&dir("alone")) {
        if PathBuf::from(&name).extension().is_some_and(|ending| ending == "csv") {
            assert!(expected.contains(&(name.clone(), text)), "{name}");
        }
    }
    // Shards in one directory and in several; the last one of many has nothing to do.
    for of in [2, 3, plan.jobs.len() + 1] {
        let shards: Vec<Shard> = (1..=of).map(|n| format!("{n}/{of}").parse().unwrap()).collect();
        let (shared, apart) = (dir(&format!("shared{of}")), dir(&format!("apart{of}")));
        let mut parts = Vec::new();
        for (n, shard) in shards.iter().enumerate() {
            play(plan.share(*shard), &shared, Some(*shard));
            if of == 3 {
                let part = apart.join(n.to_string());
                play(plan.share(*shard), &part, Some(*shard));
                parts.push(part);
            }
        }
        merge(&[&shared], &dir(&format!("merged{of}"))).unwrap();
        assert_eq!(files(&dir(&format!("merged{of}"))), expected, "{of} shards");
        if of == 3 {
            // What is done is not done again.
            assert!(play(plan.share(shards[0]), &shared, Some(shards[0])) > 0);
            // In several steps, the last with what is known already.
            let out = dir("merged-apart");
            merge(&parts[..2], &out).unwrap();
            merge(&parts[1..], &out).unwrap();
            assert_eq!(files(&out), expected);
        }
    }
    std::fs::remove_dir_all(&root).unwrap();
}
