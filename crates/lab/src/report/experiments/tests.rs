mod beside;
mod drawn;
mod repeating;
mod verdicts;

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::finding::{Tone, findings};
use super::sheet::ReportSheet;
use super::{ReportError, ResultsFolder, TableLine, commands, html, table};
use crate::catalogue;
use crate::experiment::{
    Experiment, ExperimentKey, ExperimentWay, Overrides, Params, ReportFigure, Value, Varied,
};
use crate::results::{Detail, Histogram, Journal, Row, RunMetrics, journal_name};
use crate::stats::Samples;

fn streaming() -> &'static Experiment {
    catalogue::find("screen-streaming").unwrap()
}

fn params(experiment: &Experiment, set: &str) -> Params {
    let mut params = experiment.base();
    for word in set.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap();
        params.set(ExperimentKey::find(key).unwrap(), value).unwrap();
    }
    params
}

/// A row of the streaming experiment with these blocking times.
fn row(set: &str, seed: u64, blocking: &[f64], completion_s: f64) -> Row {
    row_of(streaming(), set, seed, blocking, completion_s)
}

fn row_of(experiment: &Experiment, set: &str, seed: u64, blocking: &[f64], completion_s: f64) -> Row {
    let mut metrics =
        RunMetrics { finished: true, completion_s: Some(completion_s), ..RunMetrics::default() };
    let mut detail = Detail { length_s: completion_s, ..Detail::default() };
    if !blocking.is_empty() {
        let sorted = blocking.iter().copied().collect::<Samples>().sorted();
        metrics.times.blocking_ms = Some(sorted.percentiles());
        detail.histograms.insert("blocking_ms".into(), Histogram::of_sorted(sorted.values()));
    }
    Row {
        experiment: experiment.name.to_owned(),
        seed,
        commit: "abc".to_owned(),
        world: "sim".to_owned(),
        params: params(experiment, set),
        metrics,
        detail,
    }
}

fn results(rows: Vec<Row>) -> ResultsFolder {
    ResultsFolder::of_rows(rows, Vec::new()).unwrap()
}

fn find<'a>(lines: &'a [TableLine], metric: &str, mode: &str, words: &str) -> &'a TableLine {
    let mut found = lines
        .iter()
        .filter(|line| line.metric == metric && line.alternative == mode && line.point.contains(words));
    found.next().unwrap_or_else(|| panic!("no {metric} of {mode} at {words}"))
}

fn near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= b.abs() * share
}

#[test]
fn percentiles_are_those_of_all_seeds_together_and_intervals_those_of_runs() {
    let low: Vec<f64> = (1..=100).map(f64::from).collect();
    let high: Vec<f64> = (101..=200).map(f64::from).collect();
    let set = "profile=as-published mode=total";
    let lines = results(vec![row(set, 1, &low, 10.0), row(set, 2, &high, 12.0)]).lines();
    // Of 1 to 200 four in five are at most 160; the two runs alone have 80 and 180.
    let p80 = find(&lines, "blocking_ms.p80", "total", "");
    assert!(near(p80.ours["sim"].value, 160.0, 0.01), "{p80:?}");
    // Standard error of 80 and 180: 100 / 2; one degree of freedom.
    assert!(near(p80.ours["sim"].half.unwrap(), 50.0 * 12.706, 1e-3), "{p80:?}");
    let mean = find(&lines, "blocking_ms.mean", "total", "");
    assert!(near(mean.ours["sim"].value, 100.5, 1e-9));
    let completion = find(&lines, "completion_s", "total", "");
    assert!(near(completion.ours["sim"].value, 11.0, 1e-9));
    assert!(near(completion.ours["sim"].half.unwrap(), 12.706, 1e-3));
    assert_eq!(completion.ours["sim"].runs, 2);
    // One run says nothing about others.
    let alone = results(vec![row(set, 1, &low, 10.0)]).lines();
    assert_eq!(find(&alone, "completion_s", "total", "").ours["sim"].half, None);
}

#[test]
fn published_numbers_stand_beside_the_points_that_they_are_about() {
    let rows = ["profile=as-published", "profile=ours"].into_iter().flat_map(|profile| {
        ["", "loss=1%", "updates=40"]
            .map(|set| row(&format!("{profile} mode=total {set}"), 1, &[115.0], 7.615))
    });
    let results = results(rows.collect());
    let lines = results.lines();
    // Figures 9 and 11 say two percentiles, pauses and a completion of total order: who opens a fold knows
    // what is there.
    let page = html(&results);
    for told in ["baseline, and 4 published numbers", "2 more points, and 4 published numbers"] {
        assert!(page.contains(&format!("<summary>{told} beside ours</summary>")), "{told}");
    }
    // Figure 9: 230 ms, 15.23 s.
    let p99 = find(&lines, "blocking_ms.p99", "total", "as the paper has it, baseline");
    assert_eq!(p99.published.map(|printed| (printed.value, printed.figure)), Some((230.0, "9")));
    assert!(near(p99.ratio.unwrap(), 0.5, 1e-9));
    let completion = find(&lines, "completion_s", "total", "as the paper has it, baseline");
    assert!(near(completion.ratio.unwrap(), 0.5, 1e-9));
    let lossy = find(&lines, "blocking_ms.p99", "total", "as the paper has it, 1 % loss");
    assert_eq!(lossy.published.map(|printed| printed.value), Some(264.0));
    for other in ["our own conventions, baseline", "as the paper has it, 40 updates"] {
        assert_eq!(find(&lines, "blocking_ms.p99", "total", other).published, None, "{other}");
    }
}

/// Half the loss and a pace are not what a link does: what it is without these conventions stands beside it.
#[test]
fn what_is_as_a_paper_has_it_stands_beside_the_full_rate() {
    let run = |set: &str, completion_s: f64| row(&format!("mode=total {set}"), 1, &[1.0], completion_s);
    let mut paced = run("profile=as-published loss=1%", 15.4);
    paced.metrics.paced_s = Some(15.05);
    let results = results(vec![paced, run("profile=ours loss=1%", 4.5), run("profile=ours", 4.2)]);
    let lines = results.lines();
    let completion = find(&lines, "completion_s", "total", "as the paper has it, 1 % loss");
    assert_eq!(completion.in_full.map(|full| full.value), Some(4.5));
    assert_eq!(find(&lines, "completion_s", "total", "our own conventions, 1 % loss").in_full, None);
    let pace = find(&lines, "paced_s", "total", "as the paper has it, 1 % loss");
    assert!(near(pace.ours["sim"].value, 15.05, 1e-9));
    assert!(html(&results).contains("ours with full<br>loss and pace"));
}

#[test]
fn no_loss_is_the_same_point_with_nothing_lost() {
    let point = |set: &str, total: f64, partial: f64| {
        [("total", total), ("partial", partial)]
            .map(|(mode, s)| row(&format!("profile=ours mode={mode} {set}"), 1, &[1.0], s))
    };
    let rows = [point("", 5.0, 4.0), point("loss=0", 4.0, 4.2), point("rtt_ms=200", 9.0, 8.0)].concat();
    let results = results(rows);
    let lines = results.lines();
    let partial = find(&lines, "completion_s", "partial", "baseline");
    assert_eq!(partial.without_loss.map(|number| number.value), Some(4.2));
    assert!(near(partial.without_loss_more_percent.unwrap(), 5.0, 1e-6));
    assert_eq!(find(&lines, "completion_s", "total", "baseline").without_loss_more_percent, None);
    // That of another round trip says nothing about this one; the page says what adds it.
    assert_eq!(find(&lines, "completion_s", "partial", "200 ms").without_loss, None);
    let added = commands::lossless(&results.sheets[0]);
    let expected = "quickset lab run screen-streaming --set profile=ours --set fec=none --set loss=0% --set rtt_ms=200 --seeds 1";
    assert_eq!(added, [expected]);
    assert!(html(&results).contains(added[0].as_str()));
}

#[test]
fn a_finding_needs_an_interval_without_zero() {
    let rows = |partial: [f64; 3]| -> Vec<Row> {
        let total = [10.0, 12.0, 14.0];
        let pair = |n: usize| {
            let of =
                |mode: &str, ms: f64| row(&format!("profile=ours mode={mode}"), n as u64 + 1, &[ms], 1.0);
            [of("total", total[n]), of("partial", partial[n])]
        };
        (0..3).flat_map(pair).collect()
    };
    // Differences of -1, -2, -3: -2 ± 4.303 / sqrt(3), of a mean of 12.
    let sheet = ReportSheet::new(streaming(), rows([9.0, 10.0, 11.0]));
    let paired = sheet.paired(0, [0, 1], 0, "blocking_ms.mean").unwrap();
    assert!(near(paired.more.unwrap(), -2.0 / 12.0, 1e-9));
    let half = 4.303 / 3f64.sqrt();
    let (low, high) = paired.between.unwrap();
    assert!(near(low, (-2.0 - half) / 12.0, 1e-6) && near(high, (-2.0 + half) / 12.0, 1e-6), "{paired:?}");
    assert_eq!((paired.sign(), findings(&sheet)[0].tone), (0, Tone::Even));
    assert!(findings(&sheet)[0].html.contains("No difference shown"));
    // -3, -3.1, -3.2 is a difference, and the other way round it is a loss that is told as well.
    let better = findings(&ReportSheet::new(streaming(), rows([7.0, 8.9, 10.8])));
    assert_eq!(better[0].tone, Tone::Better);
    let worse = findings(&ReportSheet::new(streaming(), rows([13.0, 15.1, 17.2])));
    assert_eq!(worse[0].tone, Tone::Worse);
    assert!(worse[0].html.contains("Worse") && worse[0].html.contains("26 % more"), "{}", worse[0].html);
}

#[test]
fn worlds_stand_beside_each_other() {
    let mut rows = vec![row("mode=total", 1, &[10.0], 4.0), row("mode=total", 1, &[11.0], 5.0)];
    rows[1].world = "real".to_owned();
    rows[1].metrics.emulation.lateness_p99_ms = Some(0.25);
    let results = results(rows);
    let line = results.lines().into_iter().find(|line| line.metric == "completion_s").unwrap();
    assert_eq!((line.ours["sim"].value, line.ours["real"].value), (4.0, 5.0));
    assert!(near(line.real_more_percent.unwrap(), 25.0, 1e-9));
    let page = html(&results);
    assert!(page.contains("class='curve total real'"), "the curve of the real world is dashed");
    assert!(page.contains("+25&nbsp;%") || page.contains("+25 %"));
    assert!(page.contains("at most 0.25 ms late"));
    assert!(page.contains("--real"));
}

#[test]
fn failed_runs_are_told() {
    let mut rows = vec![row("mode=total", 1, &[10.0], 4.0), row("mode=total", 2, &[], 0.0)];
    rows[1].metrics =
        RunMetrics { broken: Some("the peer <left> & said \"no\"".into()), ..RunMetrics::default() };
    let page = html(&results(rows));
    assert!(page.contains("1 of 2 runs did not come to their end"));
    assert!(page.contains("seed 2: the peer &lt;left&gt; &amp; said &quot;no&quot;"));
}

/// What broke early has few of everything.
#[test]
fn runs_that_did_not_come_to_their_end_are_in_no_verdict() {
    let pauses = |mode: &str, seed: u64, count: u64, finished: bool| {
        let mut row = row(&format!("profile=ours mode={mode}"), seed, &[10.0], 4.0);
        (row.metrics.counted.over_rtt, row.metrics.finished) = (count, finished);
        row
    };
    let total = [pauses("total", 1, 8, true), pauses("total", 2, 9, true), pauses("total", 3, 10, true)];
    let told = |rows: &[Row]| {
        let sheet = ReportSheet::new(streaming(), [&total[..], rows].concat());
        let paired = sheet.paired(0, [0, 1], 0, "over_rtt");
        let all = findings(&sheet);
        let found = all.into_iter().find(|finding| finding.html.contains("pauses over")).unwrap();
        (paired, found)
    };
    let even = [pauses("partial", 1, 8, true), pauses("partial", 2, 9, true), pauses("partial", 3, 0, false)];
    let (paired, found) = told(&even);
    assert_eq!(paired.map(|paired| (paired.pairs, paired.left_out, paired.challenger)), Some((2, 1, 8.5)));
    assert_eq!(found.tone, Tone::Even);
    assert!(
        found.html.contains("1 pair with a run that did not come to its end is left out"),
        "{}",
        found.html
    );
    // A single pair that is whole, and none.
    let (paired, found) = told(&[pauses("partial", 1, 8, true), pauses("partial", 2, 0, false)]);
    assert_eq!(paired.map(|paired| (paired.pairs, paired.left_out)), Some((1, 1)));
    assert!(found.html.contains("A single pair of runs"), "{}", found.html);
    let (paired, found) = told(&[pauses("partial", 1, 0, false), pauses("partial", 2, 0, false)]);
    assert_eq!((paired, found.tone), (None, Tone::Plain));
    assert!(found.html.contains("Not compared") && found.html.contains("2 pairs"), "{}", found.html);
    assert!(!found.html.contains("no difference"), "{}", found.html);
}

/// Nor are they in a column of the tables that compares.
#[test]
fn runs_that_did_not_come_to_their_end_are_in_no_comparison() {
    let run = |mode: &str, set: &str, seed: u64, pauses: u64, finished: bool| {
        let mut row = row(&format!("profile=ours mode={mode} {set}"), seed, &[10.0], 4.0);
        (row.metrics.counted.over_rtt, row.metrics.finished) = (pauses, finished);
        row
    };
    let real = |row: Row| Row { world: "real".to_owned(), ..row };
    let rows = vec![
        run("total", "", 1, 8, true),
        run("partial", "", 1, 8, true),
        real(run("partial", "", 1, 8, true)),
        real(run("partial", "", 2, 0, false)),
        run("total", "loss=0", 1, 8, true),
        run("total", "loss=0", 2, 8, true),
        run("partial", "loss=0", 1, 8, true),
        run("partial", "loss=0", 2, 0, false),
    ];
    let lines = results(rows).lines();
    let line = find(&lines, "over_rtt", "partial", "baseline");
    // All that was measured is shown.
    assert_eq!((line.ours["real"].value, line.without_loss.map(|zero| zero.value)), (4.0, Some(4.0)));
    // What came to its end has eight pauses everywhere.
    assert_eq!((line.real_more_percent, line.without_loss_more_percent), (Some(0.0), Some(0.0)));
}

/// Who reads a page has to know that there is something else beside it.
#[test]
fn runs_that_contradict_each_other_are_told() {
    let run =
        |seed: u64, s: f64, commit: &str| Row { commit: commit.into(), ..row("mode=total", seed, &[1.0], s) };
    let slower = Row { detail: Detail { wall_s: 9.0, ..run(1, 4.0, "abc").detail }, ..run(1, 4.0, "abc") };
    let results = results(vec![run(1, 4.0, "abc"), run(2, 4.0, "abc"), slower]);
    assert_eq!((results.runs(), results.warnings.len()), (2, 0), "{:?}", results.warnings);
    let rows = vec![run(1, 4.0, "abc"), run(2, 4.0, "abc"), run(1, 7.0, "abc"), run(2, 4.0, "def")];
    let results = ResultsFolder::of_rows(rows, Vec::new()).unwrap();
    assert_eq!(results.runs(), 2);
    assert!(
        results.warnings[0].contains("2 runs are there again with other results"),
        "{:?}",
        results.warnings
    );
    assert!(html(&results).contains("2 runs are there again"));
}

/// What is better may be the newer build. Who reads verdicts is told before them.
#[test]
fn rows_of_several_builds_are_told_before_what_was_found() {
    let pair = |seed: u64| {
        let of = |mode: &str, s: f64, commit: &str| Row {
            commit: commit.into(),
            ..row(&format!("profile=ours mode={mode}"), seed, &[s], s)
        };
        [of("total", 8.0, "abc"), of("partial", 4.0, "def")]
    };
    let results = results((1..=3).flat_map(pair).collect());
    assert_eq!(results.warnings.len(), 1, "{:?}", results.warnings);
    let page = html(&results);
    let [told, found] =
        ["of several commits (abc, def)", "What was found"].map(|words| page.find(words).unwrap());
    assert!(told < found);
}

/// The far end of all runs says nothing of two alternatives that met different losses.
#[test]
fn the_far_end_is_told_of_pairs_alone() {
    let run = |mode: &str, seed: u64| row(&format!("profile=ours mode={mode}"), seed, &[1.0, 90.0], 4.0);
    let told = |seeds: u64| {
        let total = (1..=3).map(|seed| run("total", seed));
        let partial = (1..=seeds).map(|seed| run("partial", seed));
        findings(&ReportSheet::new(streaming(), total.chain(partial).collect()))[0].html.clone()
    };
    assert!(told(3).contains("Four in five"), "{}", told(3));
    assert!(!told(5).contains("Four in five") && told(5).contains("3 pairs"), "{}", told(5));
    assert!(!told(2).contains("Four in five"), "{}", told(2));
}

#[test]
fn text_from_journals_is_no_markup() {
    let mut evil = row("mode=total", 1, &[10.0], 4.0);
    evil.commit = "<script>alert(1)</script>".into();
    evil.world = "'><img src=x>".into();
    evil.params.put(ExperimentKey::find("queue").unwrap(), Value::Text("<b onclick='x'>".into()));
    evil.params.put(ExperimentKey::find("mode").unwrap(), Value::Text("</svg><script>".into()));
    evil.detail.series.insert("goodput/<script>".into(), vec![(0.0, 1.0)]);
    let results = ResultsFolder::of_rows(vec![evil], vec!["<script>".into()]).unwrap();
    let page = html(&results);
    for alien in ["<script", "<img", "<b on", "http://", "https://"] {
        assert!(!page.contains(alien), "{alien}");
    }
    well_formed(&page);
}

#[test]
fn what_a_row_lacks_is_a_dash() {
    let mut bare = row("mode=total profile=as-published", 1, &[], 1.0);
    (bare.metrics, bare.detail) = (RunMetrics::default(), Detail::default());
    let mut odd = row("mode=partial profile=as-published", 1, &[f64::MAX, 0.0], f64::NAN);
    odd.params = Params::default();
    odd.detail.series.insert("blocking".into(), vec![(f64::NAN, f64::INFINITY)]);
    let page = html(&results(vec![bare, odd]));
    assert!(page.contains('–'));
    well_formed(&page);
}

#[test]
fn the_page_of_many_points_is_whole_and_not_too_large() {
    let mut rows = Vec::new();
    for loss in 0..20 {
        for (n, mode) in ["total", "partial", "latest", "plain"].into_iter().enumerate() {
            for seed in 1..=3 {
                // Ten thousand times from 0 to some hundred milliseconds, no two alike.
                let times: Vec<f64> =
                    (0..10_000u64).map(|i| (i * 7919 + seed) as f64 % 9973.0 / (20.0 + n as f64)).collect();
                rows.push(row(&format!("mode={mode} loss={}%", f64::from(loss) / 10.0), seed, &times, 4.0));
            }
        }
    }
    let page = html(&results(rows));
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert_eq!(page.matches("<svg").count(), 20, "a panel for each point");
    assert_eq!(page.matches("class='curve ").count(), 80);
    // What is not in the first dozen is folded.
    let (shown, folded) = page.split_once("<details>").unwrap();
    assert!(shown.matches("<svg").count() <= 12 && folded.contains("<svg"));
    for alien in ["<script", "@import", "url("] {
        assert!(!page.contains(alien), "{alien}");
    }
    well_formed(&page);
}

static SPACE: Experiment = Experiment {
    name: "space",
    title: "A design",
    source: "nowhere",
    about: "Nothing.",
    baseline: &[("mode", "plain"), ("loss", "1%"), ("rtt_ms", "100"), ("rate_mbit", "10")],
    crossed: &[("mode", "plain,partial")],
    varied: Varied::Space {
        points: 20,
        ranges: &[("rtt_ms", 10.0, 100.0), ("rate_mbit", 1.0, 30.0), ("loss", 0.001, 0.05)],
    },
    seeds: 1,
    figures: &[
        ReportFigure::Runs { metric: "completion_s", curves: "mode" },
        ReportFigure::Scatter { x: "rtt_ms", y: "completion_s", colours: "mode" },
        ReportFigure::Boxes { metric: "completion_s", over: "rtt_ms", colours: "mode" },
    ],
    published: &[],
    claims: &[("1", "Half the time.")],
    unmeasured: &[("2", "A third on a machine that is not ours.")],
    notes: &[],
    way: ExperimentWay::Play(streaming_setting),
};

fn streaming_setting(params: &Params) -> Result<crate::play::Setting, crate::experiment::ValueError> {
    streaming().setting(params)
}

#[test]
fn a_design_is_looked_at_as_a_whole() {
    let points = SPACE.points(&Overrides::default()).unwrap();
    // Half the time at every point, whatever that is there.
    let rows = points.iter().map(|point| {
        let full = point.number("rtt_ms").unwrap() / 10.0;
        let took = if point.text("mode") == "plain" { full } else { full / 2.0 };
        Row { params: point.clone(), ..row_of(&SPACE, "", 1, &[], took) }
    });
    let sheet = ReportSheet::new(&SPACE, rows.collect());
    assert_eq!(sheet.spots.len(), 1);
    assert_eq!(sheet.spots[0].label, "all 20 points of the design");
    let paired = sheet.paired(0, [0, 1], 0, "completion_s").unwrap();
    assert!(near(paired.more.unwrap(), -0.5, 1e-9) && paired.pairs == 20, "{paired:?}");
    let all = findings(&sheet);
    assert_eq!(all[0].tone, Tone::Better);
    assert!(all[0].html.contains("50 % less</b> in the geometric mean of their ratios"), "{}", all[0].html);
    let (told, is_exact) = commands::repeat(&sheet);
    assert!(is_exact);
    assert_eq!(told, ["quickset lab run space --seeds 1"]);
    let mut page = String::new();
    super::figures::figures(&mut page, &sheet);
    assert_eq!(page.matches("<svg").count(), 3);
    assert_eq!(page.matches("class='curve ").count(), 2);
    // A dot for each run of each mode.
    assert_eq!(page.matches("h0M").count() + page.matches("h0'").count(), 40);
    well_formed(&page);
    assert_eq!(table::lines(&sheet)[0].point, "all 20 points of the design");
}

/// Five seeds of a point that say the same are no more than one: what is sure of a design is what its points
/// say.
#[test]
fn seeds_of_a_point_are_not_points() {
    let points = SPACE.points(&Overrides::default()).unwrap();
    let rows = points.iter().enumerate().flat_map(|(n, point)| {
        // At every other point half the time, else nine tenths.
        let ratio = if n % 4 < 2 { 0.5 } else { 0.9 };
        let took = if point.text("mode") == "plain" { 1.0 } else { ratio };
        (1..=5).map(move |seed| Row { params: point.clone(), ..row_of(&SPACE, "", seed, &[], took) })
    });
    let rows: Vec<Row> = rows.collect();
    let count = |ratio: f64| rows.iter().filter(|row| row.metrics.completion_s == Some(ratio)).count();
    assert_eq!((count(1.0), count(0.5), count(0.9)), (100, 50, 50));
    let sheet = ReportSheet::new(&SPACE, rows);
    let paired = sheet.paired(0, [0, 1], 0, "completion_s").unwrap();
    assert_eq!(paired.pairs, 100);
    // Twenty logarithms, ten at either side of their mean by `d`: variance 20 d² / 19; 19 degrees of freedom.
    let [one, other] = [0.5f64, 0.9].map(f64::ln);
    let (middle, d) = (f64::midpoint(one, other), (other - one) / 2.0);
    let half = 2.093 * d / 19f64.sqrt();
    let (low, high) = paired.between.unwrap();
    assert!(near(paired.more.unwrap(), middle.exp() - 1.0, 1e-9), "{paired:?}");
    assert!(near(low, (middle - half).exp() - 1.0, 1e-6), "{paired:?}");
    assert!(near(high, (middle + half).exp() - 1.0, 1e-6), "{paired:?}");
}

/// Dots of a figure are of all points, however many runs there are.
#[test]
fn a_figure_of_very_many_runs_is_of_all_of_them() {
    // The later a run is in the file, the longer it took.
    let rows = (0..9000u32).map(|n| {
        let set = format!("rtt_ms={} mode=plain loss=1%", 10 + n / 1000);
        row_of(&SPACE, &set, u64::from(n), &[], 1.0 + f64::from(n))
    });
    let sheet = ReportSheet::new(&SPACE, rows.collect());
    let mut page = String::new();
    super::figures::figures(&mut page, &sheet);
    assert!(page.contains("9000 runs, 4000 of them drawn"));
    let dots = page.split("class='dots ").nth(1).unwrap().split('>').next().unwrap();
    let heights: Vec<f64> =
        dots.split('M').skip(1).map(|dot| dot.split([' ', 'h']).nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!(heights.len(), 4000);
    // The axis is 156 high and goes from 0 to 10,000: a ninth of the dots in each ninth of the runs, or
    // nearly.
    for ninth in 0..9 {
        let [from, to] = [ninth, ninth + 1].map(|n| 214.0 - 156.0 * f64::from(n) / 10.0);
        let there = heights.iter().filter(|y| **y <= from && **y > to).count();
        assert!((400..490).contains(&there), "{ninth}: {there}");
    }
}

/// Points without loss beside a design are none of its own, and a sweep under way has not all of them.
#[test]
fn a_design_counts_its_own_points() {
    let run = |point: &Params| Row { params: point.clone(), ..row_of(&SPACE, "", 1, &[], 1.0) };
    let design = SPACE.points(&Overrides::default()).unwrap();
    let lossless = |point: &Params| {
        let mut params = point.clone();
        params.set(ExperimentKey::find("loss").unwrap(), "0").unwrap();
        run(&params)
    };
    let labels = |rows: Vec<Row>| -> Vec<String> {
        ReportSheet::new(&SPACE, rows).spots.into_iter().map(|spot| spot.label).collect()
    };
    let whole: Vec<Row> = design.iter().map(run).chain(design.iter().map(lossless)).collect();
    assert_eq!(labels(whole), ["all 20 points of the design", "no loss"]);
    assert_eq!(labels(design.iter().take(30).map(run).collect()), ["15 points of the design"]);
}

/// A directory that goes away again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-report-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn directories_that_cannot_be_used_say_what_to_do() {
    let folder = Folder::new("odd");
    let error = |name: &str| ResultsFolder::read(&folder.0.join(name)).unwrap_err();
    assert!(matches!(error("missing"), ReportError::Empty(_)));
    assert!(ResultsFolder::read(&folder.0).unwrap_err().to_string().contains("has no results"));

    let journal = folder.0.join(journal_name("screen-streaming", None));
    std::fs::write(&journal, "{\"quickset-lab\":999,\"experiment\":\"screen-streaming\",\"commit\":\"x\"}\n")
        .unwrap();
    assert!(ResultsFolder::read(&folder.0).unwrap_err().to_string().contains("format 999"));
    std::fs::write(&journal, "hello\n").unwrap();
    assert!(ResultsFolder::read(&folder.0).unwrap_err().to_string().contains("not a journal"));
    std::fs::remove_file(&journal).unwrap();

    let mut kept = Journal::open(&journal, "screen-streaming", "abc", false).unwrap();
    assert!(ResultsFolder::read(&folder.0).unwrap_err().to_string().contains("no finished run yet"));
    kept.add(row("mode=total", 1, &[1.0], 1.0)).unwrap();
    // Beside a journal that can be used, one that cannot is a warning; and so is a row of an unknown
    // experiment.
    std::fs::write(folder.0.join("other.rows"), "hello\n").unwrap();
    let results = ResultsFolder::read(&folder.0).unwrap();
    assert_eq!((results.runs(), results.warnings.len()), (1, 1));
    assert!(html(&results).contains("not a journal"));
    let mut strange = row("mode=total", 2, &[1.0], 1.0);
    strange.experiment = "screen-streeming".to_owned();
    let results =
        ResultsFolder::of_rows(vec![strange.clone(), row("mode=total", 1, &[1.0], 1.0)], Vec::new()).unwrap();
    assert!(results.warnings[0].contains("did you mean `screen-streaming`?"), "{:?}", results.warnings);
    assert!(matches!(ResultsFolder::of_rows(vec![strange], Vec::new()), Err(ReportError::Unknown(_))));
}

/// Every tag that must be closed is, in order. Those that HTML lets stand open are closed by what encloses
/// them.
fn well_formed(page: &str) {
    const OPEN: [&str; 12] =
        ["li", "td", "th", "tr", "dt", "dd", "meta", "line", "img", "br", "!doctype", "thead"];
    let mut stack: Vec<&str> = Vec::new();
    let body = page.split("<style>").next().unwrap_or_default().to_owned()
        + page.split("</style>").last().unwrap_or_default();
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("no end: {tag}"));
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap_or_default();
        let name = OPEN
            .into_iter()
            .chain(CLOSED)
            .find(|known| *known == name)
            .unwrap_or_else(|| panic!("tag {tag}"));
        match tag.strip_prefix('/') {
            None if !OPEN.contains(&name) => stack.push(name),
            Some(_) if !OPEN.contains(&name) => assert_eq!(stack.pop(), Some(name), "{tag}"),
            _ => {}
        }
    }
    assert!(stack.is_empty(), "{stack:?}");
}

const CLOSED: [&str; 31] = [
    "html", "head", "title", "style", "body", "main", "header", "section", "h1", "h2", "h3", "h4", "p", "b",
    "i", "a", "code", "pre", "ul", "dl", "div", "span", "small", "strong", "details", "summary", "table",
    "tbody", "svg", "text", "path",
];

/// A mode with repair stands beside the mode without, and not in a context of its own.
#[test]
fn a_mode_and_its_protection_are_one_alternative() {
    let set = |mode: &str, fec: &str| format!("profile=as-published mode={mode} fec={fec}");
    let rows = [("total", "none", 200.0), ("partial", "none", 100.0), ("partial", "rs:105/100", 0.4)];
    let mut rows: Vec<Row> =
        rows.iter().map(|(mode, fec, ms)| row(&set(mode, fec), 1, &[*ms], 5.0)).collect();
    (rows[2].metrics.counted.failed_blocks, rows[2].metrics.counted.blocks) = (3, 300);
    rows[2].metrics.repair.failed_blocks_expected = Some(2.5);
    let results = results(rows);
    let sheet = &results.sheets[0];
    let names: Vec<String> = sheet.alternatives.iter().map(Value::to_string).collect();
    assert_eq!(names, ["total", "partial", "partial+rs:105/100"]);
    assert_eq!(sheet.spots.len(), 1);
    assert_eq!(sheet.reference(), Some(0));
    let lines = results.lines();
    // Figure 9: 0.4 ms with FEC 1.05.
    let p99 = find(&lines, "blocking_ms.p99", "partial+rs:105/100", "baseline");
    assert_eq!(p99.published.map(|printed| (printed.value, printed.figure)), Some((0.4, "9")));
    assert_eq!(find(&lines, "blocking_ms.p99", "partial", "baseline").published, None);
    // Where nothing is repaired, nothing is told of it.
    let failed =
        |mode: &str| lines.iter().find(|line| line.metric == "failed_blocks" && line.alternative == mode);
    assert!(failed("partial").is_none());
    assert!(near(failed("partial+rs:105/100").unwrap().ours["sim"].value, 3.0, 1e-9));
    let chance = find(&lines, "failed_blocks_expected", "partial+rs:105/100", "");
    assert!(near(chance.ours["sim"].value, 2.5, 1e-9));
    let page = html(&results);
    assert!(page.contains("partial + rs:105/100") && page.contains("5 repair symbols for each 100"));
}
