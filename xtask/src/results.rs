//! `cargo xtask results`: the page docs/results.md, from runs of the laboratory and nothing else.
//!
//! *In:* the tables below: which runs, and which of their numbers. *Out:* the page, with the commands that
//! give each table.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run::{cargo, output, root, run};

/// A heading with a table: rows of numbers, a column for each alternative.
struct FigureTable {
    title: &'static str,
    /// What was done, and where it is from.
    about: &'static str,
    experiment: &'static str,
    /// Behind `quickset lab run EXPERIMENT`.
    set: &'static [&'static str],
    /// The heading of a column, and the alternative as the report names it. An alternative of another
    /// column's point is in brackets: `[point] alternative` adds to the point of the row.
    columns: &'static [(&'static str, &'static str)],
    rows: &'static [FigureRow],
}

struct FigureRow {
    words: &'static str,
    /// What the report calls the point.
    point: &'static str,
    metric: &'static str,
    unit: FigureUnit,
}

#[derive(Clone, Copy)]
enum FigureUnit {
    Milliseconds,
    Seconds,
    Percent,
    /// To plain QUIC under the same losses.
    Ratio,
}

const TABLES: &[FigureTable] = &[
    FigureTable {
        title: "A screen that is streamed",
        about: "300 updates of 100 messages, nothing of an update drawn before all of the one before it; 100 Mbit/s, round trips of \
                100 ms, 0.5 % of the packets lost each way. *Blocked* is how long messages that have arrived wait for others. From \
                Eghbal and Lu, Future Internet 2025, figure 9.",
        experiment: "screen-streaming",
        set: &[
            "--set",
            "profile=ours",
            "--set",
            "loss=0,0.5%",
            "--set",
            "fec=none,rs:105/100,adaptive:screen",
        ],
        columns: &[
            ("total order", "total"),
            ("fences", "partial"),
            ("fences, 5 % Reed-Solomon", "partial+rs:105/100"),
            ("fences, adaptive", "partial+adaptive:screen"),
        ],
        rows: &[
            FigureRow::new("blocked, mean", OURS, "blocking_ms.mean", FigureUnit::Milliseconds),
            FigureRow::new("blocked, 99th percentile", OURS, "blocking_ms.p99", FigureUnit::Milliseconds),
            FigureRow::new("blocked, 99.9th percentile", OURS, "blocking_ms.p999", FigureUnit::Milliseconds),
            FigureRow::new("repair, of the bytes", OURS, "repair_share", FigureUnit::Percent),
            FigureRow::new("the same without loss", NO_LOSS, "repair_share", FigureUnit::Percent),
            FigureRow::new("all of it, without loss", NO_LOSS, "completion_s", FigureUnit::Seconds),
            FigureRow::new("all of it", OURS, "completion_s", FigureUnit::Seconds),
        ],
    },
    FigureTable {
        title: "A screen that answers",
        about: "The same screen, each update asked for 300 ms after the one before: from the request to the last of its 100 messages. \
                The slowest in a thousand are \
                the first of each run, while the congestion window opens. The same paper, figures 18 to 26.",
        experiment: "screen-interactive",
        set: &["--set", "profile=ours", "--set", "loss=0.5%", "--set", "fec=none,rs:105/100,adaptive:screen"],
        columns: &[
            ("total order", "total"),
            ("fences", "partial"),
            ("fences, 5 % Reed-Solomon", "partial+rs:105/100"),
            ("fences, adaptive", "partial+adaptive:screen"),
        ],
        rows: &[
            FigureRow::new("response, mean", OURS, "response_ms.mean", FigureUnit::Milliseconds),
            FigureRow::new("response, 99th percentile", OURS, "response_ms.p99", FigureUnit::Milliseconds),
            FigureRow::new("response, 99.9th percentile", OURS, "response_ms.p999", FigureUnit::Milliseconds),
        ],
    },
    FigureTable {
        title: "A screen that answers with little",
        about: "1500 updates of 4 to 60 messages, asked for as above. *Late* are those that took more than one and a half round trips, \
                the first of a run apart. So many repair symbols follow each update; adaptive repair finds by itself how many are \
                worth it.",
        experiment: "screen-small",
        set: &["--set", "loss=0.5%", "--set", "fec=none,tum:1,tum:2,tum:3,adaptive:screen"],
        columns: &[
            ("no repair", "none"),
            ("one symbol", "tum:1"),
            ("two", "tum:2"),
            ("three", "tum:3"),
            ("adaptive", "adaptive:screen"),
        ],
        rows: &[
            FigureRow::new("4 messages, late", "0.5 % loss, 4 messages", "late_share", FigureUnit::Percent),
            FigureRow::new("12 messages, late", "0.5 % loss, 12 messages", "late_share", FigureUnit::Percent),
            FigureRow::new("20 messages, late", "0.5 % loss, baseline", "late_share", FigureUnit::Percent),
            FigureRow::new("60 messages, late", "0.5 % loss, 60 messages", "late_share", FigureUnit::Percent),
            FigureRow::new(
                "4 messages, repair, of the bytes",
                "0.5 % loss, 4 messages",
                "repair_share",
                FigureUnit::Percent,
            ),
            FigureRow::new(
                "12 messages, repair, of the bytes",
                "0.5 % loss, 12 messages",
                "repair_share",
                FigureUnit::Percent,
            ),
            FigureRow::new(
                "20 messages, repair, of the bytes",
                "0.5 % loss, baseline",
                "repair_share",
                FigureUnit::Percent,
            ),
            FigureRow::new(
                "60 messages, repair, of the bytes",
                "0.5 % loss, 60 messages",
                "repair_share",
                FigureUnit::Percent,
            ),
        ],
    },
    FigureTable {
        title: "Messages at a fixed rate",
        about: "32,000 messages at 800 Mbit/s over 1 Gbit/s, round trips of 70 ms, 1 % lost each way, a fence behind each 1600; repair \
                is sums of rows and columns. From Eghbal and Lu, ICCS 2022, figures 4 to 8.",
        experiment: "fence-udt",
        set: &[
            "--set",
            "loss=1%",
            "--set",
            "rtt_ms=70",
            "--set",
            "fence_every=1600",
            "--set",
            "fec=none,xor2d:20x40",
        ],
        columns: &[
            ("total order", "total"),
            ("fences", "partial"),
            ("total order, 2D XOR", "total+xor2d:20x40"),
            ("fences, 2D XOR", "partial+xor2d:20x40"),
        ],
        rows: &[
            FigureRow::new(
                "blocked, mean",
                "1 % loss, baseline",
                "blocking_ms.mean",
                FigureUnit::Milliseconds,
            ),
            FigureRow::new(
                "blocked, 99th percentile",
                "1 % loss, baseline",
                "blocking_ms.p99",
                FigureUnit::Milliseconds,
            ),
            FigureRow::new("repair, of the bytes", "1 % loss, baseline", "repair_share", FigureUnit::Percent),
        ],
    },
    FigureTable {
        title: "A video conference",
        about: "Frames of a recorded conference are of use for 250 ms; 8 Mbit/s, 1 % lost each way, by the delay of the link one way. \
                Each frame is a message that waits for no other. *Told* is who said when its frames are too late, and when the next one \
                comes. From FlEC, IEEE/ACM ToN 2022, figures 12 to 16.",
        experiment: "messages",
        set: &[
            "--set",
            "loss=1%",
            "--set",
            "owd_ms=50,100,150,200",
            "--set",
            "mode=plain",
            "--set",
            "fec=none,adaptive:messages",
        ],
        columns: &[
            ("no repair", "[deadlines not told to the sender] plain"),
            ("repair", "[deadlines not told to the sender] plain+adaptive:messages"),
            ("repair, told", "[deadlines told to the sender] plain+adaptive:messages"),
        ],
        rows: &[
            FigureRow::new("in time, 50 ms", "50 ms one way", "on_time", FigureUnit::Percent),
            FigureRow::new("in time, 100 ms", "baseline", "on_time", FigureUnit::Percent),
            FigureRow::new("in time, 150 ms", "150 ms one way", "on_time", FigureUnit::Percent),
            FigureRow::new("in time, 200 ms", "200 ms one way", "on_time", FigureUnit::Percent),
            FigureRow::new("bytes, to plain, 50 ms", "50 ms one way", "bytes_sent/plain", FigureUnit::Ratio),
            FigureRow::new("bytes, to plain, 100 ms", "baseline", "bytes_sent/plain", FigureUnit::Ratio),
            FigureRow::new(
                "bytes, to plain, 150 ms",
                "150 ms one way",
                "bytes_sent/plain",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "bytes, to plain, 200 ms",
                "200 ms one way",
                "bytes_sent/plain",
                FigureUnit::Ratio,
            ),
        ],
    },
    FigureTable {
        title: "Downloads",
        about: "Times of downloads over those of plain QUIC under the same losses: 95 links of 5 to 100 ms, 1 to 30 Mbit/s and 0.1 to 8 % \
                of loss, five seeds each. FlEC, figures 3 and 4, whose rule AC-RLNC is.",
        experiment: "bulk",
        set: &["--set", "fec=none,ac-rlnc,adaptive:bulk"],
        columns: &[("AC-RLNC", "ac-rlnc"), ("adaptive", "adaptive:bulk")],
        rows: &[
            FigureRow::new(
                "10 kB, median of the links",
                "10 kB, all 95 points of the design",
                "dct_ratio.p50",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "10 kB, 95th percentile",
                "10 kB, all 95 points of the design",
                "dct_ratio.p95",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "40 kB, median",
                "40 kB, all 95 points of the design",
                "dct_ratio.p50",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "40 kB, 95th percentile",
                "40 kB, all 95 points of the design",
                "dct_ratio.p95",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "100 kB, median",
                "100 kB, all 95 points of the design",
                "dct_ratio.p50",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "100 kB, 95th percentile",
                "100 kB, all 95 points of the design",
                "dct_ratio.p95",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "1 MB, median",
                "1 MB, all 95 points of the design",
                "dct_ratio.p50",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "1 MB, 95th percentile",
                "1 MB, all 95 points of the design",
                "dct_ratio.p95",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "10 MB, median",
                "10 MB, all 95 points of the design",
                "dct_ratio.p50",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "10 MB, 95th percentile",
                "10 MB, all 95 points of the design",
                "dct_ratio.p95",
                FigureUnit::Ratio,
            ),
        ],
    },
    FigureTable {
        title: "Receivers with small buffers",
        about: "5 MB into receive windows of 150 kB to 3 MB over 95 links: a hole stops the sender until it is filled. Times over those \
                of plain QUIC, and the part of the links on which repair is faster. FlEC, figure 10, whose rule *buffer* is.",
        experiment: "rwin-design",
        set: &[],
        columns: &[("FlEC’s rule", "buffer"), ("adaptive", "adaptive:bulk")],
        rows: &[
            FigureRow::new(
                "150 kB, median of the links",
                "window of 150 kB, all 95 points of the design",
                "dct_ratio.p50",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "150 kB, faster on",
                "window of 150 kB, all 95 points of the design",
                "dct_ratio.below_one",
                FigureUnit::Percent,
            ),
            FigureRow::new(
                "400 kB, median",
                "window of 400 kB, all 95 points of the design",
                "dct_ratio.p50",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "400 kB, faster on",
                "window of 400 kB, all 95 points of the design",
                "dct_ratio.below_one",
                FigureUnit::Percent,
            ),
            FigureRow::new(
                "3 MB, median",
                "window of 3 MB, all 95 points of the design",
                "dct_ratio.p50",
                FigureUnit::Ratio,
            ),
            FigureRow::new(
                "3 MB, faster on",
                "window of 3 MB, all 95 points of the design",
                "dct_ratio.below_one",
                FigureUnit::Percent,
            ),
        ],
    },
    FigureTable {
        title: "HTTP/3 over losses in bursts: answers",
        about: "Answers of 32 kB and 1 MB on a warm connection, 10 Mbit/s, 50 ms one way; so many repair symbols follow the end of each. \
                *Late* is who took longer than 1.6 round trips. From TUM, IFIP Networking 2025, \
                figure 4.",
        experiment: "http-bulk",
        set: &["--set", "loss=ge:0.5%,25%,95%,0.5%", "--set", "fec=none,tum:3,tum:5"],
        columns: &[("no repair", "none"), ("three symbols", "tum:3"), ("five symbols", "tum:5")],
        rows: &[
            FigureRow::new("32 kB, late", "32 kB, baseline", "slow", FigureUnit::Percent),
            FigureRow::new(
                "32 kB, 99th percentile",
                "32 kB, baseline",
                "response_ms.p99",
                FigureUnit::Milliseconds,
            ),
            FigureRow::new(
                "32 kB, repair, of the bytes",
                "32 kB, baseline",
                "repair_share",
                FigureUnit::Percent,
            ),
            FigureRow::new("1 MB, mean", "1 MB, baseline", "response_ms.mean", FigureUnit::Milliseconds),
            FigureRow::new(
                "1 MB, repair, of the bytes",
                "1 MB, baseline",
                "repair_share",
                FigureUnit::Percent,
            ),
        ],
    },
    FigureTable {
        title: "HTTP/3 over losses in bursts: a stream",
        about: "5 kB come into being 60 times a second in one answer, over the same link; repair follows each 5 kB. How long each byte \
                takes until it is read, in order; 50 ms of it are the link. The same paper, figure 5.",
        experiment: "http-stream",
        set: &["--set", "loss=ge:0.5%,25%,95%,0.5%", "--set", "fec=none,tum:3,tum:5"],
        columns: &[("no repair", "none"), ("three symbols", "tum:3"), ("five symbols", "tum:5")],
        rows: &[
            FigureRow::new("at most 10 ms late", "baseline", "on_path", FigureUnit::Percent),
            FigureRow::new("99th percentile", "baseline", "byte_delay_ms.p99", FigureUnit::Milliseconds),
            FigureRow::new("repair, of the bytes", "baseline", "repair_share", FigureUnit::Percent),
        ],
    },
    FigureTable {
        title: "A page in a tree of classes",
        about: "Nine resources of a page asked for at once over 10 Mbit/s: by urgencies alone (*flat*), or in a tree of classes with weights \
                (*tree*). When the largest image is there, and how far finished times and shares are from what arithmetic gives. The same \
                paper, figure 6.",
        experiment: "http-page",
        set: &["--set", "loss=0", "--set", "fec=none"],
        columns: &[("flat", "flat"), ("tree", "tree")],
        rows: &[
            FigureRow::new("largest image", "without repair, baseline", "paint_s", FigureUnit::Seconds),
            FigureRow::new(
                "times off by, at most",
                "without repair, baseline",
                "off_prediction",
                FigureUnit::Percent,
            ),
            FigureRow::new(
                "shares off by, at most",
                "without repair, baseline",
                "off_share",
                FigureUnit::Percent,
            ),
        ],
    },
];

const OURS: &str = "our own conventions, baseline";
const NO_LOSS: &str = "our own conventions, no loss";

impl FigureRow {
    const fn new(words: &'static str, point: &'static str, metric: &'static str, unit: FigureUnit) -> Self {
        Self { words, point, metric, unit }
    }
}

pub(crate) fn command(_args: &[String]) -> Result<()> {
    run(cargo().args(["build", "--release", "--quiet", "--locked", "--package", "quickset-cli"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let quickset = target.join("release/quickset");
    let mut page = HEAD.to_owned();
    for table in TABLES {
        let lines = measured(&quickset, &target.join("results").join(table.experiment), table)?;
        write(&mut page, table, &lines)?;
    }
    std::fs::write(PAGE, page).with_context(|| format!("cannot write {PAGE}"))?;
    println!("wrote {PAGE}");
    Ok(())
}

/// The lines of the report on the runs of a table, which are made anew: rows of other commits are no company
/// for them.
fn measured(quickset: &Path, dir: &Path, table: &FigureTable) -> Result<Vec<Value>> {
    if dir.exists() {
        std::fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    let mut runs = Command::new(quickset);
    run(runs.args(["lab", "run", table.experiment]).args(table.set).arg("-o").arg(dir))?;
    let report = output(Command::new(quickset).args(["lab", "report", "--json"]).arg(dir))?;
    let report: Value = serde_json::from_str(&report).context("the report is no JSON")?;
    if report["failed"].as_array().is_none_or(|failed| !failed.is_empty()) {
        bail!(
            "not all runs of {} came to their end; see `quickset lab report {}`",
            table.experiment,
            dir.display()
        );
    }
    Ok(report["lines"].as_array().cloned().unwrap_or_default())
}

fn write(page: &mut String, table: &FigureTable, lines: &[Value]) -> Result<()> {
    let _ = writeln!(page, "\n## {}\n\n{}\n", table.title, wrapped(table.about));
    let _ = writeln!(page, "    quickset lab run {}{}\n", table.experiment, shell(table.set));
    let headings: Vec<&str> = table.columns.iter().map(|(heading, _)| *heading).collect();
    let _ = writeln!(page, "| | {} |\n|---|{}", headings.join(" | "), "--:|".repeat(headings.len()));
    let (mut runs, mut told) = (BTreeSet::new(), vec![false; table.columns.len()]);
    for row in table.rows {
        let cells: Vec<String> =
            table.columns.iter().map(|(_, alternative)| cell(row, alternative, lines, &mut runs)).collect();
        cells.iter().zip(&mut told).for_each(|(cell, told)| *told |= cell != NONE);
        // A row without a number would be one that the report calls by another name now.
        if cells.iter().all(|cell| cell == NONE) {
            bail!("{}: the report has no {} at {:?}", table.experiment, row.metric, row.point);
        }
        let _ = writeln!(page, "| {} | {} |", row.words, cells.join(" | "));
    }
    // Nor would a column be one without any.
    if let Some((heading, alternative)) =
        table.columns.iter().zip(told).find(|(_, told)| !told).map(|(c, _)| c)
    {
        bail!("{}: the report has no {alternative:?}, the column {heading:?}", table.experiment);
    }
    let _ = match (runs.first(), runs.last()) {
        (Some(least), Some(most)) if least < most => {
            writeln!(page, "\n{least} to {most} runs for each number.")
        }
        (most, _) => writeln!(page, "\n{} runs for each number.", most.copied().unwrap_or_default()),
    };
    Ok(())
}

fn cell(row: &FigureRow, alternative: &str, lines: &[Value], runs: &mut BTreeSet<u64>) -> String {
    let (group, alternative) = match alternative.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((group, alternative)) => (Some(group), alternative),
        None => (None, alternative),
    };
    let point = group.map_or_else(|| row.point.to_owned(), |group| format!("{group}, {}", row.point));
    let line = lines.iter().find(|line| {
        line["point"] == *point && line["metric"] == *row.metric && line["alternative"] == *alternative
    });
    let Some(number) = line.map(|line| &line["ours"]["sim"]) else { return NONE.to_owned() };
    let Some(value) = number["value"].as_f64() else { return NONE.to_owned() };
    runs.extend(number["runs"].as_u64());
    row.unit.shown(value)
}

impl FigureUnit {
    fn shown(self, value: f64) -> String {
        match self {
            Self::Milliseconds if value >= 100.0 => format!("{value:.0} ms"),
            Self::Milliseconds => format!("{value:.1} ms"),
            Self::Seconds => format!("{value:.2} s"),
            // What is nearly all is told by what is missing.
            Self::Percent if value > 0.99 && value < 1.0 => format!("{:.2} %", 100.0 * value),
            Self::Percent if value < 0.01 && value > 0.0 => format!("{:.2} %", 100.0 * value),
            Self::Percent => format!("{:.1} %", 100.0 * value),
            Self::Ratio => format!("{value:.3}"),
        }
    }
}

/// In lines as long as those of the other pages.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                let _ = write!(line, " {word}");
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Words as a shell takes them.
fn shell(words: &[&str]) -> String {
    words.iter().fold(String::new(), |line, word| {
        if word.contains([';', ' ', '*']) { format!("{line} '{word}'") } else { format!("{line} {word}") }
    })
}

const PAGE: &str = "docs/results.md";
const WIDTH: usize = 118;
const NONE: &str = "–";
const HEAD: &str = "\
# Results

What the laboratory measures, experiment by experiment, in virtual time: the protocol's own code over simulated links.
Equal seeds give equal numbers on every machine. `cargo xtask results` runs all of it and writes this page; `quickset lab
report` draws what a table cannot, with confidence intervals, and sets numbers of the papers beside ours.
[Performance](performance.md) is about speed on real sockets, [congestion control](congestion.md) has a page of its own.
";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TABLE: FigureTable = FigureTable {
        title: "A table",
        about: "words",
        experiment: "an-experiment",
        set: &["--set", "loss=1%"],
        columns: &[("without", "none"), ("with", "[told] rs")],
        rows: &[
            FigureRow::new("in time", "baseline", "on_time", FigureUnit::Percent),
            FigureRow::new("repair", "baseline", "share", FigureUnit::Percent),
        ],
    };

    fn line(point: &str, alternative: &str, metric: &str, value: f64, runs: u64) -> Value {
        json!({ "point": point, "alternative": alternative, "metric": metric,
                "ours": { "sim": { "value": value, "runs": runs } } })
    }

    fn page(lines: &[Value]) -> Result<String> {
        let mut page = String::new();
        write(&mut page, &TABLE, lines).map(|()| page)
    }

    #[test]
    fn a_table_says_what_the_report_does() {
        let mut lines = vec![
            line("baseline", "none", "on_time", 0.5, 5),
            line("told, baseline", "rs", "on_time", 0.75, 5),
            line("told, baseline", "rs", "share", 0.004, 5),
            line("elsewhere", "none", "share", 1.0, 9),
        ];
        let five = page(&lines).expect("all is there");
        assert!(
            five.contains("| in time | 50.0 % | 75.0 % |\n| repair | – | 0.40 % |\n\n5 runs for each"),
            "{five}"
        );
        lines[1] = line("told, baseline", "rs", "on_time", 0.75, 4);
        assert!(page(&lines).expect("all is there").contains("\n4 to 5 runs for each"));
    }

    #[test]
    fn a_name_that_the_report_has_no_more_is_an_error() {
        let none = || line("baseline", "none", "on_time", 0.5, 5);
        let share = line("told, baseline", "rs", "share", 0.1, 5);
        assert!(page(&[none(), line("told, baseline", "rs", "on_time", 0.5, 5), share.clone()]).is_ok());
        // A metric, and an alternative.
        assert!(page(&[none(), line("told, baseline", "rs", "on_time", 0.5, 5)]).is_err());
        assert!(page(&[line("told, baseline", "rs", "on_time", 0.5, 5), share]).is_err());
    }
}
