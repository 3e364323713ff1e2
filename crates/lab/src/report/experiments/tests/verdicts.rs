//! What is said of a difference, and of a median.

use super::*;

/// Pauses of three pairs of runs, in total and in partial order.
fn told(total: [u64; 3], partial: [u64; 3]) -> (Tone, String) {
    let pauses = |mode: &str, seed: usize, count: u64| {
        let mut row = row(&format!("profile=ours mode={mode}"), seed as u64 + 1, &[10.0], 4.0);
        row.metrics.counted.over_rtt = count;
        row
    };
    let pair = |n: usize| [pauses("total", n, total[n]), pauses("partial", n, partial[n])];
    let sheet = ReportSheet::new(streaming(), (0..3).flat_map(pair).collect());
    let found = findings(&sheet).into_iter().find(|finding| finding.html.contains("pauses over")).unwrap();
    (found.tone, found.html)
}

/// Of nothing there is no share, but there is a difference: 40, 41, 42 is 41 ± 4.303 / sqrt(3).
#[test]
fn what_is_worse_than_nothing_is_worse() {
    let (tone, html) = told([0; 3], [40, 41, 42]);
    assert_eq!(tone, Tone::Worse, "{html}");
    assert!(html.contains("Worse") && html.contains("in 3 pairs of runs"), "{html}");
    // 0, 0, 3 is 1 ± 4.303: that may be chance.
    assert_eq!(told([0; 3], [0, 0, 3]).0, Tone::Even);
    assert_eq!(told([0; 3], [0; 3]).0, Tone::Even);
}

/// FlEC compares with the same transport without repair; a stream for all messages is another question.
#[test]
fn messages_are_held_against_the_same_transport_without_repair() {
    let messages = catalogue::find("messages").unwrap();
    let run = |set: &str, seed: u64, share: f64| {
        let mut row = row_of(messages, set, seed, &[], 90.0);
        row.metrics.promptness.on_time = Some(share);
        row
    };
    let of_seed = |seed: u64| {
        [("mode=total", 0.5), ("mode=plain", 0.9), ("mode=plain fec=messages", 0.99)]
            .map(|(set, share)| run(set, seed, share + seed as f64 * 1e-3))
    };
    let sheet = ReportSheet::new(messages, (1..=3).flat_map(of_seed).collect());
    let told: Vec<String> = findings(&sheet).into_iter().map(|finding| finding.html).collect();
    let repair = told.iter().find(|html| html.contains(">plain + messages</span> against")).unwrap();
    assert!(repair.contains("Better") && repair.contains(">plain</span>, baseline"), "{repair}");
    assert!(repair.contains("99.2 % against 90.2 %"), "{repair}");
}

/// Nearest rank, as everywhere: of two runs the lesser one, which half of them do not exceed.
#[test]
fn the_median_of_runs_is_that_of_all_percentiles() {
    let bulk = catalogue::find("bulk").unwrap();
    let run = |seed: u64, ratio: f64| {
        let mut row = row_of(bulk, "fec=bulk size=1MB", seed, &[], 1.0);
        row.metrics.dct_ratio = Some(ratio);
        row
    };
    let median = |ratios: &[f64]| -> String {
        let rows = ratios.iter().enumerate().map(|(n, ratio)| run(n as u64 + 1, *ratio)).collect();
        let page = html(&results(rows));
        let from = page.find("bulk: median ").unwrap() + "bulk: median ".len();
        page[from..].split(',').next().unwrap().to_owned()
    };
    assert_eq!(median(&[0.5, 0.75]), "0.5");
    assert_eq!(median(&[0.5, 0.75, 0.875]), "0.75");
    assert_eq!(median(&[0.5, 0.6, 0.7, 0.8]), "0.6");
}

#[test]
fn a_design_is_told_by_the_medians_of_its_points() {
    let bulk = catalogue::find("bulk").unwrap();
    let ratio = |loss: f64, seed: u64, ratio: f64| {
        let mut row = row_of(bulk, &format!("fec=bulk size=1MB loss={loss}"), seed, &[], 1.0);
        row.metrics.dct_ratio = Some(ratio);
        row
    };
    let mut rows = Vec::new();
    for n in 0..20 {
        // Medians 0.80, 0.82, … 1.18; one run of each point is far off.
        let median = 0.8 + 0.02 * f64::from(n);
        for (seed, value) in [(1, median), (2, 9.0), (3, median - 0.3)] {
            rows.push(ratio(0.001 + 0.001 * f64::from(n), seed, value));
        }
    }
    let lines = results(rows).lines();
    let number = |stat: &str| find(&lines, &format!("dct_ratio.{stat}"), "bulk", "").ours["sim"];
    assert!(near(number("p50").value, 0.98, 1e-9) && near(number("p95").value, 1.16, 1e-9));
    // 0.80 to 0.98 are ten of twenty.
    assert!(near(number("below_one").value, 0.5, 1e-9));
    assert_eq!(number("p50").runs, 60);
}
