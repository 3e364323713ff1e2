//! `quickset lab list` and `lab report` as their users meet them.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::process::{Command, Output};

use quickset_lab::catalogue;
use quickset_lab::experiment::ExperimentKey;
use quickset_lab::results::{Detail, Journal, Row, RunMetrics};
use serde_json::Value;

fn quickset(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quickset")).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn what_was_run_is_reported() {
    let folder = std::env::temp_dir().join(format!("quickset-lab-report-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let out = folder.to_str().unwrap();
    let set = [
        "--set",
        "updates=3",
        "--set",
        "loss=0,2%",
        "--set",
        "profile=ours",
        "--set",
        "fec=none,rs:105/100",
        "--seeds",
        "2",
    ];
    let ran = quickset(&[&["lab", "run", "screen-streaming", "-o", out][..], &set].concat());
    assert!(ran.status.success(), "{}", text(&ran.stderr));

    let told = quickset(&["lab", "report", out]);
    assert!(told.status.success(), "{}", text(&told.stderr));
    assert!(text(&told.stdout).starts_with("The report of 16 runs is in "));
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.ends_with("</html>\n") && page.contains("16 runs, simulated"));

    let told = quickset(&["lab", "report", out, "--json"]);
    let document: Value = serde_json::from_slice(&told.stdout).unwrap();
    let lines = document["lines"].as_array().unwrap();
    let found =
        lines.iter().find(|line| line["metric"] == "completion_s" && line["alternative"] == "partial");
    let ours = &found.unwrap()["ours"]["sim"];
    assert_eq!(ours["runs"], 2);
    // 420 kB at 100 Mbit/s and some round trips of 100 ms.
    assert!((0.2..2.0).contains(&ours["value"].as_f64().unwrap()), "{ours}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn runs_that_broke_are_in_the_document() {
    let folder = std::env::temp_dir().join(format!("quickset-lab-broken-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let journal = folder.join("screen-streaming.rows");
    let mut journal = Journal::open(&journal, "screen-streaming", "abc", true).unwrap();
    let mode = ExperimentKey::find("mode").unwrap();
    for (order, broken) in [("total", None), ("partial", Some("the peer left"))] {
        let mut params = catalogue::find("screen-streaming").unwrap().base();
        params.set(mode, order).unwrap();
        let metrics = RunMetrics {
            finished: broken.is_none(),
            broken: broken.map(str::to_owned),
            ..RunMetrics::default()
        };
        let (experiment, commit, world) = ("screen-streaming".into(), "abc".into(), "sim".into());
        journal
            .add(Row { experiment, seed: 4, commit, world, params, metrics, detail: Detail::default() })
            .unwrap();
    }
    let told = quickset(&["lab", "report", folder.to_str().unwrap(), "--json"]);
    assert!(told.status.success(), "{}", text(&told.stderr));
    let document: Value = serde_json::from_slice(&told.stdout).unwrap();
    let failed = document["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{failed:?}");
    for (member, value) in [
        ("experiment", "screen-streaming"),
        ("alternative", "partial"),
        ("world", "sim"),
        ("why", "the peer left"),
    ] {
        assert_eq!(failed[0][member], value);
    }
    assert_eq!(failed[0]["seeds"], serde_json::json!([4]));
    let sentence = "1 of 2 runs did not come to their end";
    assert!(document["warnings"][0].as_str().unwrap().contains(sentence), "{document}");
    assert!(text(&told.stderr).contains(sentence), "{}", text(&told.stderr));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_directory_without_results_is_an_error_with_the_next_step() {
    let told = quickset(&["lab", "report", "no-such-directory"]);
    assert_eq!(told.status.code(), Some(1));
    assert!(
        text(&told.stderr).contains("quickset lab run NAME -o no-such-directory"),
        "{}",
        text(&told.stderr)
    );
}

#[test]
fn experiments_are_listed_as_text_and_as_json() {
    let names = |json: &Value| -> Vec<String> {
        json.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let all: Value = serde_json::from_slice(&quickset(&["lab", "list", "--json"]).stdout).unwrap();
    let shown = text(&quickset(&["lab", "list"]).stdout);
    for name in names(&all) {
        assert!(shown.contains(&name), "{name}");
    }
    let one: Value =
        serde_json::from_slice(&quickset(&["lab", "list", "screen-streaming", "--json"]).stdout).unwrap();
    assert_eq!(one["runs"], 3600);
    let shown = text(&quickset(&["lab", "list", "screen-streaming"]).stdout);
    for key in one["keys"].as_array().unwrap() {
        assert!(shown.contains(key["name"].as_str().unwrap()), "{key}");
    }
    assert_eq!(quickset(&["lab", "list", "scren-streaming"]).status.code(), Some(1));
}
