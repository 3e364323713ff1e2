//! The rules beside dash.js itself: `cargo xtask abr` fetches it, and runs this.
//!
//! Our rules play whole sessions, and all that they are told and asked is written down. dash.js is told the
//! same, in the same order, and answers each question (`oracle.mjs`). What is fetched is always what our rule
//! chose: so a decision that differs counts once, and rules with memory stay comparable to the end of a
//! session.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

mod player;
mod trace;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use quickset_abr::{Bola, Dynamic, L2a, Ladder, LolPlus, Reading, Rule, RuleName, Throughput};
use quickset_base::Rng;
use serde_json::Value;

use player::{Decision, Session};
use trace::Trace;

#[test]
#[ignore = "`cargo xtask abr` fetches dash.js and runs it"]
fn decisions_are_those_of_dash_js() {
    let (ours, papers) = std::thread::scope(|scope| {
        let readings = [Reading::Dashjs, Reading::Paper];
        let [ours, papers] = readings.map(|reading| {
            // The throughput rule has no paper to differ from.
            let all = RuleName::ALL
                .into_iter()
                .filter(|a| reading == Reading::Dashjs || *a != RuleName::Throughput);
            let threads = all.map(|algorithm| scope.spawn(move || compare(algorithm, reading)));
            threads.collect::<Vec<_>>()
        });
        let join = |threads: Vec<std::thread::ScopedJoinHandle<'_, Tally>>| -> Vec<Tally> {
            threads.into_iter().map(|thread| thread.join().expect("dash.js answers")).collect()
        };
        (join(ours), join(papers))
    });
    println!(
        "\n| rule | decisions | same quality | and same wait | sessions | the same to their end |\n|---|---|---|---|---|---|"
    );
    for (tallies, reading) in [(&ours, ""), (&papers, ", as its paper")] {
        for tally in tallies {
            tally.print(reading);
        }
    }
    println!("\n| rule | trace | ours, against dash.js | decisions |\n|---|---|---|---|");
    for tally in &ours {
        for ((trace, class), count) in &tally.classes {
            println!("| {} | {trace} | {class} | {count} |", tally.algorithm);
        }
    }
    for Tally { algorithm, decisions, same, .. } in &ours {
        let least = if matches!(algorithm, RuleName::L2a | RuleName::LolPlus) { 97 } else { 99 };
        assert!(*decisions >= 10_000, "{algorithm} made {decisions} decisions");
        assert!(same * 100 >= decisions * least, "{algorithm}: {same} of {decisions} are the same");
    }
}

struct Tally {
    algorithm: RuleName,
    decisions: usize,
    /// The same quality, and the same with the same wait.
    quality: usize,
    same: usize,
    sessions: usize,
    /// Sessions without a difference.
    whole: usize,
    /// Differences by the trace and by how they differ.
    classes: BTreeMap<(&'static str, String), usize>,
}

impl Tally {
    fn print(&self, reading: &str) {
        let Self { algorithm, decisions, sessions, whole, .. } = self;
        let [quality, same] = [self.quality, self.same].map(|n| 100.0 * n as f64 / *decisions as f64);
        println!(
            "| {algorithm}{reading} | {decisions} | {quality:.2} % | {same:.2} % | {sessions} | {whole} |"
        );
    }
}

fn compare(algorithm: RuleName, reading: Reading) -> Tally {
    let (mut events, mut played) = (String::new(), Vec::new());
    for (bitrates, segment) in LADDERS {
        let ladder = Ladder::new(*bitrates).expect("it ascends");
        let middle = bitrates[bitrates.len() / 2];
        let traces = Trace::all(middle * 13 / 10, &mut Rng::new(3));
        for (number, trace) in traces.iter().enumerate() {
            for live in [false, true] {
                let session = Session {
                    algorithm,
                    ladder: &ladder,
                    segment: *segment,
                    live,
                    trace,
                    delay: [5, 20, 80, 200][number % 4],
                    segments: 200,
                    seek_every: (number % 3 == 0).then_some(70),
                    restless: number % 2 == 1,
                };
                let (told, decisions) = session.play(rule(algorithm, ladder.clone(), reading), number as u64);
                for event in told {
                    events.push_str(&event.to_string());
                    events.push('\n');
                }
                played.push((trace.name, decisions));
            }
        }
    }
    let file = format!("{algorithm}-{reading:?}.jsonl").to_lowercase();
    let answers = ask_dash_js(&events, &Path::new(env!("CARGO_TARGET_TMPDIR")).join(file));
    assert_eq!(
        answers.len(),
        played.iter().map(|(_, d)| d.len()).sum::<usize>(),
        "an answer to each question"
    );

    let sessions = played.len();
    let mut tally =
        Tally { algorithm, decisions: 0, quality: 0, same: 0, sessions, whole: 0, classes: BTreeMap::new() };
    let mut answers = answers.iter();
    for (trace, decisions) in &played {
        let classes: Vec<String> =
            decisions.iter().zip(&mut answers).filter_map(|(d, a)| difference(d, a)).collect();
        tally.decisions += decisions.len();
        tally.same += decisions.len() - classes.len();
        let waits = classes.iter().filter(|class| *class == WAIT).count();
        tally.quality += decisions.len() - classes.len() + waits;
        tally.whole += usize::from(classes.is_empty());
        for class in classes {
            *tally.classes.entry((trace, class)).or_default() += 1;
        }
    }
    tally
}

fn rule(algorithm: RuleName, ladder: Ladder, reading: Reading) -> Box<dyn Rule> {
    match algorithm {
        RuleName::Throughput => Box::new(Throughput::new(ladder)),
        RuleName::Bola => Box::new(Bola::new(ladder, reading)),
        RuleName::Dynamic => Box::new(Dynamic::new(ladder, reading)),
        RuleName::L2a => Box::new(L2a::new(ladder, reading)),
        RuleName::LolPlus => Box::new(LolPlus::new(ladder, reading, 1)),
    }
}

/// How our decision differs, in the quality or, by more than a millisecond, in the wait.
fn difference(decision: &Decision, answer: &Value) -> Option<String> {
    let theirs = answer["quality"].as_u64().expect("a quality") as usize;
    let ours = decision.choice.quality;
    if ours == theirs {
        let wait = answer["wait"].as_f64().expect("a time") - 1000.0 * decision.choice.wait.as_secs_f64();
        return (wait.abs() > 1.0).then(|| WAIT.to_owned());
    }
    let (apart, way) = (ours.abs_diff(theirs), if ours > theirs { "higher" } else { "lower" });
    let kept = if ours == decision.state.current { ", as before" } else { "" };
    Some(format!("{apart} {way}{kept}"))
}

/// The class of decisions that differ in the wait alone.
const WAIT: &str = "waits for another time";

/// The answers of dash.js to all that is asked in `events`, which stay in `file`.
fn ask_dash_js(events: &str, file: &Path) -> Vec<Value> {
    let folder =
        std::env::var_os("QUICKSET_DASHJS").expect("QUICKSET_DASHJS is the folder of dash.js's sources");
    std::fs::write(file, events).expect("there is room for it");
    let output = Command::new("node")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dashjs/oracle.mjs"))
        .arg(folder)
        .stdin(File::open(file).expect("it was written"))
        .stderr(Stdio::inherit())
        .output()
        .expect("node starts");
    assert!(output.status.success(), "oracle.mjs failed: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("it is text");
    text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

/// Bitrates in bit/s, and how long a segment plays in ms.
const LADDERS: &[(&[u64], u64)] = &[(SEVEN, 10_000), (SEVEN, 2000), (THREE, 4000), (TEN, 1000)];

const SEVEN: &[u64] = &[1_000_000, 5_000_000, 10_000_000, 20_000_000, 30_000_000, 40_000_000, 50_000_000];
const THREE: &[u64] = &[800_000, 2_400_000, 6_000_000];
const TEN: &[u64] = &[
    145_000, 365_000, 730_000, 1_100_000, 2_000_000, 3_000_000, 4_500_000, 6_000_000, 7_800_000, 11_000_000,
];
