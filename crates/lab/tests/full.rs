//! A disk that is full for a while. It is this process that can write no more, and so this is the only test
//! of it.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::Path;

use nix::sys::signal::{SigSet, Signal};
use quickset_lab::catalogue;
use quickset_lab::results::{Detail, Journal, Row, RunMetrics, read_journal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn row(seed: u64) -> Row {
    Row {
        experiment: "screen-streaming".into(),
        seed,
        commit: "abc".into(),
        world: "sim".into(),
        params: catalogue::find("screen-streaming").unwrap().base(),
        metrics: RunMetrics::default(),
        detail: Detail::default(),
    }
}

/// Nothing this process writes gets longer than the file is, and this more; without a number, whatever the
/// system has.
fn limit(path: &Path, more: Option<u64>) {
    let length = std::fs::metadata(path).unwrap().len();
    let usual = getrlimit(Resource::Fsize);
    let current = more.map(|more| length + more).or(usual.maximum);
    setrlimit(Resource::Fsize, Rlimit { current, ..usual }).unwrap();
}

#[test]
fn a_row_that_does_not_fit_leaves_nothing_behind() {
    let dir = std::env::temp_dir().join(format!("quickset-full-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let path = dir.join("screen-streaming.rows");
    // Who writes beyond the limit is told by this signal, too.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    signals.thread_block().unwrap();
    let mut journal = Journal::open(&path, "screen-streaming", "abc", false).unwrap();
    journal.add(row(1)).unwrap();
    limit(&path, Some(100));
    let error = journal.add(row(2)).unwrap_err().to_string();
    assert!(error.contains("screen-streaming.rows cannot be written"), "{error}");
    limit(&path, None);
    // There is room again, for another row and for this one.
    journal.add(row(3)).unwrap();
    journal.add(row(2)).unwrap();
    let seeds: Vec<u64> = read_journal(&path).unwrap().iter().map(|row| row.seed).collect();
    assert_eq!(seeds, [1, 3, 2]);
    std::fs::remove_dir_all(&dir).unwrap();
}
