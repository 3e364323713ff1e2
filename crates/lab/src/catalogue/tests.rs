mod dash;
mod links;
mod protection;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use quickset_base::Duration;
use quickset_sim::{LinkQueue, LossModel, Rate};

use super::{ALL, find};
use crate::experiment::{Experiment, ExperimentKey, Overrides, Params, ReportFigure, Varied};
use crate::play::{MessageArrival, MessageOrder, RunSeen, Setting, Work, virtually};
use crate::results::{Row, measure};
use crate::run::{RunJob, RunOptions, RunWorld, play};

/// All that are played, and not timed.
fn played() -> impl Iterator<Item = &'static Experiment> {
    ALL.iter().copied().filter(|experiment| !experiment.is_timed())
}

fn overrides(words: &str) -> Overrides {
    Overrides::parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).unwrap()
}

fn point(name: &str, words: &str) -> Params {
    let experiment = find(name).unwrap();
    let mut words = words.to_owned();
    if experiment.has("fec") && !words.contains("fec=") {
        words.push_str(" fec=none");
    }
    let points = experiment.points(&overrides(&words)).unwrap();
    assert_eq!(points.len(), 1, "{name} {words}");
    points.into_iter().next().unwrap()
}

fn setting(name: &str, words: &str) -> Setting {
    find(name).unwrap().setting(&point(name, words)).unwrap()
}

/// Words that leave of an experiment what is played in debug within seconds.
fn smallest(experiment: &Experiment) -> Overrides {
    let small = [
        ("updates", "4"),
        ("messages", "40"),
        ("fence_every", "10"),
        ("size", "60kB"),
        ("rwin", "150kB"),
        ("seconds", "6"),
        ("scene", "scroll"),
        ("queue", "1bdp"),
        ("rate_mbit", "8"),
        ("owd_ms", "30"),
        ("rtt_ms", "60"),
        ("loss", "2%"),
        ("ge_p", "0.01"),
        ("profile", "ours"),
        ("symbols", "200"),
        ("transfers", "6"),
        ("page", "1"),
        ("players", "2"),
        ("segment_s", "2"),
    ];
    let set = small.into_iter().filter(|(key, _)| experiment.has(key));
    let mut set: Vec<(String, String)> = set.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    // Without repair, and the last of what is compared with that.
    let protections = experiment.crossed.iter().find(|(key, _)| *key == "fec");
    if let Some((_, last)) = protections.and_then(|(_, values)| values.rsplit_once(',')) {
        set.push(("fec".to_owned(), format!("none,{last}")));
    }
    Overrides { set, points: None }
}

fn options() -> RunOptions {
    RunOptions { world: RunWorld::Sim, commit: "test".into(), threads: 1, ..RunOptions::default() }
}

fn row(experiment: &Experiment, params: &Params, seed: u64) -> Row {
    let job = RunJob { experiment: experiment.name.into(), params: params.clone(), seed };
    play(experiment, &job, &options(), &AtomicBool::new(false), &mut |_| ()).unwrap()
}

#[test]
fn tables_say_what_can_be_read() {
    let mut names = BTreeSet::new();
    for experiment in ALL {
        assert!(names.insert(experiment.name), "{} twice", experiment.name);
        for text in [experiment.title, experiment.source, experiment.about] {
            assert!(!text.is_empty() && !text.contains("  "), "{}: {text}", experiment.name);
        }
        assert!(experiment.seeds > 0);
        // It panics at slips.
        let base = experiment.base();
        assert_eq!(base.iter().count(), experiment.baseline.len(), "{}: a key twice", experiment.name);
        let mut crossed = BTreeSet::new();
        for (key, _) in experiment.crossed {
            assert!(experiment.has(key) && crossed.insert(*key), "{}: {key}", experiment.name);
        }
        match experiment.varied {
            Varied::OneByOne(keys) => {
                for (key, _) in keys {
                    assert!(experiment.has(key) && !crossed.contains(key), "{}: {key}", experiment.name);
                }
            }
            Varied::Space { points, ranges } => {
                assert!(points > 1);
                for (key, least, most) in ranges {
                    assert!(
                        experiment.has(key) && !crossed.contains(key) && least < most,
                        "{}: {key}",
                        experiment.name
                    );
                    // In the key's unit: a share of 8 is not 8 %.
                    for end in [least, most] {
                        ExperimentKey::find(key).unwrap().read(&end.to_string()).unwrap();
                    }
                }
            }
        }
        for figure in experiment.figures {
            let key = figure.compared();
            assert!(experiment.has(key) || key == "flow", "{}: a figure by {key}", experiment.name);
            let along = match *figure {
                ReportFigure::Boxes { over, .. }
                | ReportFigure::Lines { over, .. }
                | ReportFigure::Parts { over, .. } => {
                    vec![over]
                }
                ReportFigure::Heat { x, y, .. } => vec![x, y],
                _ => Vec::new(),
            };
            assert!(along.iter().all(|key| experiment.has(key)), "{}: along {along:?}", experiment.name);
        }
    }
}

#[test]
fn every_point_is_a_setting() {
    for experiment in played() {
        let points = experiment.points(&Overrides::default()).unwrap();
        let distinct: BTreeSet<String> = points.iter().map(Params::to_string).collect();
        assert_eq!(distinct.len(), points.len(), "{}: a point twice", experiment.name);
        let mut seen = BTreeSet::new();
        // What protects a flow is no matter of its links and its work.
        let first = |params: &&Params| params.get("fec").is_none_or(|fec| fec.to_string() == "none");
        let last = points.last().into_iter();
        for params in points.iter().filter(first).chain(last) {
            let setting = experiment.setting(params).unwrap_or_else(|error| panic!("{params}: {error}"));
            assert!(!setting.flows.is_empty() && !setting.limit.is_zero(), "{params}");
            let names: BTreeSet<&str> = setting.flows.iter().map(|flow| flow.name.as_str()).collect();
            assert_eq!(names.len(), setting.flows.len(), "{params}: flows are told apart by name");
            assert_eq!(setting.up, setting.down, "{params}");
            assert!(matches!(setting.up.rate, Rate::Constant(bps) if bps > 0), "{params}");
            // A receiver that cannot take the largest message would wait for ever.
            for flow in &setting.flows {
                if let Work::Messages(messages) = &flow.work {
                    let pieces = messages.groups.iter().flat_map(|group| &group.messages);
                    let largest = pieces.map(|piece| u64::from(piece.bytes)).max().unwrap();
                    assert!(flow.transport.fenced_streams.unwrap() >= largest, "{params}");
                }
            }
            seen.insert(format!("{:?}", setting.up.loss == LossModel::None));
        }
        let design = matches!(experiment.varied, Varied::Space { .. });
        assert!(design || seen.contains("true"), "{} has no point without loss", experiment.name);
    }
}

/// Shares, and not percent, reach the links.
#[test]
fn designs_stay_in_their_ranges() {
    for (name, least, most) in
        [("bulk", 0.001, 0.08), ("rwin-design", 0.001, 0.03), ("messages-design", 0.001, 0.03)]
    {
        let experiment = find(name).unwrap();
        let points = experiment.points(&Overrides::default()).unwrap();
        let mut shares = Vec::new();
        for params in &points {
            match experiment.setting(params).unwrap().down.loss {
                LossModel::Independent(share) => shares.push(share),
                other => panic!("{params}: {other}"),
            }
        }
        let (low, high) =
            shares.iter().fold((1.0_f64, 0.0_f64), |(low, high), share| (low.min(*share), high.max(*share)));
        assert!(low >= least && high <= most, "{name}: {low} to {high}");
        // Close to both ends: within a tenth of the range.
        assert!(
            low < least + (most - least) / 10.0 && high > most - (most - least) / 10.0,
            "{name}: {low} to {high}"
        );
        let crossed: usize = points.len() / 95;
        assert_eq!(points.len(), crossed * 95);
    }
    let down = setting("rwin-bursty", "ge_p=0.01 owd_ms=50 rate_mbit=10 rwin=1MB").down;
    assert_eq!(down.loss.to_string(), "ge:1%,33%,100%,0%,5");
}

/// Modes are compared under equal losses, links of a design are not.
#[test]
fn points_of_a_design_have_losses_of_their_own() {
    let bulk = find("bulk").unwrap();
    let points = bulk.points(&overrides("size=10kB,1MB")).unwrap();
    let seeds = |seed| points.iter().map(|params| bulk.seed(params, seed)).collect::<Vec<u64>>();
    let (first, second) = (seeds(1), seeds(2));
    let of_link = points.len() / 95;
    assert!(
        of_link > 2 && first.chunks(of_link).all(|seeds| seeds.iter().all(|seed| *seed == seeds[0])),
        "of a link"
    );
    let distinct: BTreeSet<u64> = first.iter().chain(&second).copied().collect();
    assert_eq!(distinct.len(), 2 * 95);
    let screen = find("screen-streaming").unwrap();
    assert_eq!(screen.seed(&screen.base(), 7), 7);
}

#[test]
fn published_numbers_are_about_points_that_are_run() {
    for experiment in ALL {
        let points = experiment.points(&Overrides::default()).unwrap();
        for published in experiment.published {
            let mut at = experiment.base();
            if published.at.contains('*') || published.at.contains(',') {
                // Of the whole design, or of all its points with one of these values.
                assert!(matches!(experiment.varied, Varied::Space { .. }), "{}", experiment.name);
                continue;
            }
            for word in published.at.split_whitespace() {
                let (key, value) = word.split_once('=').unwrap_or_else(|| panic!("{word}"));
                assert!(experiment.has(key), "{}: {key}", experiment.name);
                at.set(ExperimentKey::find(key).unwrap(), value).unwrap();
            }
            assert!(
                points.contains(&at),
                "{}, figure {}: {at} is not run",
                experiment.name,
                published.figure
            );
        }
    }
}

/// What the notes on the pages say of arithmetic.
#[test]
fn notes_say_what_arithmetic_gives() {
    let notes = find("screen-streaming").unwrap().notes.concat();
    let interactive = find("screen-interactive").unwrap().notes.concat();
    let bits = 300.0 * 100.0 * 1400.0 * 8.0;
    for (loss, packets, seconds) in [(0.0025f64, "24.5 packets", "122 s"), (0.005, "17.3 packets", "173 s")] {
        // RFC 9438 §4.3: the Reno-friendly region is as fast as Reno, √(3/2p) packets a round trip on
        // average.
        let window = (1.5 / loss).sqrt();
        let bps = window * 1400.0 * 8.0 / 0.1;
        // §5.1, with C = 0.4 and β = 0.7.
        let cubic = (0.4 * 3.7 / (4.0 * 0.3f64)).powf(0.25) * (0.1 / loss).powf(0.75);
        assert!(window > cubic, "the greater of both holds");
        assert!((bps / 1e6 - if loss < 0.003 { 2.7 } else { 1.9 }).abs() < 0.05, "{bps}");
        assert_eq!(format!("{window:.1} packets"), packets);
        // 122.5, and 173.2.
        assert_eq!(format!("{} s", (bits / bps).floor()), seconds);
        assert!(notes.contains(packets) && notes.contains(seconds), "{notes}");
        // Where each is asked for: whole windows until 100 packets are there.
        let asked = 300.0 * (0.3 + 0.1 * (100.0 / window).ceil());
        let told = [packets.to_owned(), format!("{:.1} windows", 100.0 / window), format!("{asked:.0} s")];
        assert!(told.iter().all(|words| interactive.contains(words)), "{told:?}: {interactive}");
    }
    assert!(((1.48f64 / 1.2).powf(0.25) * 40f64.powf(0.75) - 16.8).abs() < 0.05 && notes.contains("16.8"));
    // 42 MB in 67 s are 44.8 packets a round trip.
    let loss = 1.5 / (bits / 66.98 * 0.1 / 8.0 / 1400.0).powi(2);
    assert_eq!(format!("{:.3} %", loss * 100.0), "0.075 %");
    assert!(notes.contains("0.075 %"));
    // The pace: 299 times 50 ms, and two round trips, and an update of 140 kB with headers of 3 to 6 %.
    let update: f64 = 140_000.0 * 1.045 * 8.0 / 1e8;
    let least: f64 = 299.0 * 0.05 + 0.2 + update;
    assert!((least - 15.16).abs() < 0.01 && (50.0 - update * 1e3 - 38.0).abs() < 0.5, "{least}, {update}");
    assert!(notes.contains("14.95 s") && notes.contains("38 ms") && notes.contains("15.1 s"));
}

/// What the notes say of a blast that losses slow down: RFC 9438 §4.3, at 0.5 % each way and 70 ms.
#[test]
fn a_blast_that_is_slowed_down_takes_what_its_window_gives() {
    let notes = find("fence-udt").unwrap().notes.concat();
    let window = (1.5f64 / 0.005).sqrt();
    let bps = window * 1400.0 * 8.0 / 0.07;
    let told = [
        format!("{window:.1} packets"),
        format!("{:.1} Mbit/s", bps / 1e6),
        format!("{:.0} s for all", 32_000.0 * 1400.0 * 8.0 / bps),
    ];
    assert!(told.iter().all(|words| notes.contains(words)), "{told:?}: {notes}");
    let waits = |mode: &str, cc: &str| {
        let words = format!("messages=4000 loss=0.5% mode={mode} cc={cc} rtt_ms=70 fence_every=1600");
        row(find("fence-udt").unwrap(), &point("fence-udt", &words), 1)
    };
    for cc in ["cubic", "newreno"] {
        let [total, partial] = ["total", "partial"].map(|mode| waits(mode, cc).metrics);
        let mean = |metrics: &crate::results::RunMetrics| metrics.times.blocking_ms.unwrap().mean;
        assert!(mean(&total) > 1.0 && mean(&partial) < mean(&total) / 10.0, "{cc}: {total:?}, {partial:?}");
    }
}

#[test]
fn queues_are_what_papers_say() {
    // FlEC: floor(1.5 · Mbit/s / 8 · 2^20 · 2·OWD s / 1200): 10 Mbit/s, 50 ms: 1.5 · 1.25 · 1048576 · 0.1 /
    // 1200 = 163.84.
    assert_eq!(
        setting("bulk", "owd_ms=50 rate_mbit=10 loss=1% size=1MB").down.queue,
        LinkQueue::Packets(163)
    );
    // 20 Mbit/s for 100 ms are 250 kB.
    assert_eq!(setting("congestion", "flows=bbr queue=0.25bdp loss=0").down.queue, LinkQueue::Bytes(62_500));
    assert_eq!(setting("congestion", "flows=bbr queue=4bdp loss=0").down.queue, LinkQueue::Bytes(1_000_000));
}

/// The arithmetic of a window: it lets through itself once a round trip at best. Credit comes when half of it
/// was consumed; a sender paced at the rate that it has measured sends that half in half of the time, so no
/// worse than two round trips.
#[test]
fn a_receive_window_bounds_what_is_in_flight() {
    for (rwin, bytes) in [("70kB", 70_000.0), ("150kB", 150_000.0)] {
        let setting = setting("rwin-0.5", &format!("rwin={rwin} loss=0 size=1MB"));
        let seen = virtually(&setting, 1).unwrap();
        let flow = &seen.flows[0];
        let most = flow.looks.iter().map(|look| look.in_flight).max().unwrap() as f64;
        // Headers of packets and frames are in flight too; 3 % of 1350 bytes are 40.
        assert!(most <= bytes * 1.03 + 1350.0 && most > bytes * 0.8, "{rwin}: {most} in flight");
        let (rtt, rounds) = (0.4, 1e6 / bytes);
        let took = flow.finished.unwrap().saturating_sub(flow.connected.unwrap()).as_secs_f64();
        let (best, worst) = ((rounds - 1.0) * rtt, (2.0 * rounds + 6.0) * rtt);
        assert!(took > best && took < worst, "{rwin}: {took} s, not {best} to {worst}");
    }
}

#[test]
fn every_experiment_plays_and_gives_what_its_figures_show() {
    // That one starts the command, which these tests are not: it is tested beside the command.
    for experiment in ALL.iter().filter(|experiment| experiment.name != "dash-real") {
        let points = experiment.points(&smallest(experiment)).unwrap();
        for params in &points {
            let row = row(experiment, params, 1);
            assert_eq!(row.metrics.broken, None, "{params}");
            assert!(row.metrics.finished, "{params}");
            for figure in experiment.figures {
                match *figure {
                    // The system's packets are not counted by us.
                    ReportFigure::Distribution { .. }
                        if params.get("ack").is_some() && params.text("ack") == "http1" => {}
                    ReportFigure::Distribution { metric, .. } => {
                        assert!(row.detail.histograms.contains_key(metric), "{params}: no {metric}");
                    }
                    ReportFigure::Runs { metric: "dct_ratio", .. }
                    | ReportFigure::Boxes { metric: "dct_ratio", .. }
                    | ReportFigure::Scatter { y: "dct_ratio", .. } => {
                        let protected = params.text("fec") != "none";
                        assert_eq!(row.number("dct_ratio").is_some(), protected, "{params}");
                    }
                    ReportFigure::Boxes { metric: "repair_share" | "repair_share_late", .. } => {
                        assert_eq!(
                            row.number("repair_share").is_some(),
                            params.text("fec") != "none",
                            "{params}"
                        );
                    }
                    // Who is alone shares nothing, what is long is never fast, and a run of a millisecond has
                    // no samples.
                    ReportFigure::Parts { .. }
                    | ReportFigure::Boxes { metric: "fair_after_s" | "off_share" | "slow", .. }
                    | ReportFigure::Series { series: "share", .. } => {}
                    ReportFigure::Scatter { .. }
                    | ReportFigure::Runs { .. }
                    | ReportFigure::Boxes { .. }
                    | ReportFigure::Lines { .. }
                    | ReportFigure::Heat { .. } => {
                        for metric in figure.metrics() {
                            // What is over that of another alternative is of two rows, and what a report
                            // computes of none.
                            let metric = metric.split('/').next().unwrap();
                            let there = metric == "bdp_over_window" || row.number(metric).is_some();
                            assert!(there, "{params}: no {metric}");
                        }
                    }
                    ReportFigure::Series { series, curves } => {
                        let prefix = if curves == "flow" { format!("{series}/") } else { series.to_owned() };
                        assert!(
                            row.detail.series.keys().any(|name| name.starts_with(&prefix)),
                            "{params}: no {series}"
                        );
                    }
                }
            }
            for published in experiment.published {
                let metric = published.metric.split(['/', '-']).next().unwrap();
                let pooled = published.at.contains('*') || published.at.contains(',');
                let there = pooled || row.number(metric).is_some() || is_of_some(metric);
                assert!(there, "{params}: no {}", published.metric);
            }
        }
    }
}

/// Measures that short runs, or some alternatives, have none of.
fn is_of_some(metric: &str) -> bool {
    ["slow", "spent_", "sends_", "reads_"].iter().any(|begin| metric.starts_with(begin))
}

#[test]
fn equal_seeds_give_equal_rows() {
    for experiment in played() {
        let params = experiment.points(&smallest(experiment)).unwrap().pop().unwrap();
        let text = |seed| {
            let mut row = row(experiment, &params, seed);
            row.detail.wall_s = 0.0;
            serde_json::to_string(&row).unwrap()
        };
        assert_eq!(text(5), text(5), "{params}");
    }
}

/// When messages could go, by the definition of the order and nothing else: `must[i]` are those that message
/// i waits for.
fn released(
    arrivals: &BTreeMap<u32, MessageArrival>,
    must: impl Fn(&MessageArrival, &MessageArrival) -> bool,
) -> BTreeMap<u32, Duration> {
    let mut at = BTreeMap::new();
    for (index, message) in arrivals {
        let before = arrivals.values().filter(|other| must(message, other));
        let latest = before.map(|other| other.completed).max().unwrap_or_default();
        at.insert(*index, latest.max(message.completed));
    }
    at
}

#[test]
fn messages_wait_for_just_those_that_they_must() {
    for seed in 1..=5 {
        for mode in ["total", "partial", "plain"] {
            let mut setting =
                setting("fence-udt", "messages=300 fence_every=25 loss=5% rtt_ms=40 mode=partial");
            if let Work::Messages(messages) = &mut setting.flows[0].work {
                messages.order = match mode {
                    "total" => MessageOrder::Total,
                    "partial" => MessageOrder::Partial,
                    _ => MessageOrder::Plain,
                };
            }
            let seen = virtually(&setting, seed).unwrap();
            let arrivals: BTreeMap<u32, MessageArrival> =
                seen.flows[0].arrivals.iter().map(|a| (a.index, *a)).collect();
            assert_eq!(arrivals.len(), 300, "every message, once");
            let expected = match mode {
                "total" => released(&arrivals, |message, other| other.index < message.index),
                "partial" => released(&arrivals, |message, other| other.index / 25 < message.index / 25),
                _ => released(&arrivals, |_, _| false),
            };
            for (index, message) in &arrivals {
                assert_eq!(message.group, index / 25);
                assert_eq!(
                    message.released, expected[index],
                    "{mode}, seed {seed}: message {index} of {message:?}"
                );
            }
            assert!(
                mode == "plain" || arrivals.values().any(|a| a.released > a.completed),
                "nothing was lost"
            );
            // The metric is this difference.
            let mut waits: Vec<f64> = arrivals
                .values()
                .map(|a| expected[&a.index].saturating_sub(a.completed).as_nanos() as f64 / 1e6)
                .collect();
            waits.sort_by(f64::total_cmp);
            let (metrics, _) = measure(&setting, &seen);
            let blocking = metrics.times.blocking_ms.unwrap();
            assert_eq!(blocking.max.to_bits(), waits[299].to_bits());
            assert_eq!(blocking.p50.to_bits(), waits[149].to_bits());
        }
    }
}

#[test]
fn on_time_counts_every_message_that_was_to_come() {
    let mut setting = setting("messages", "messages=4 mode=plain api=no owd_ms=100 loss=0");
    let ms = Duration::from_millis;
    let mut seen = RunSeen::default();
    seen.flows.push(crate::play::FlowSeen::default());
    let flow = &mut seen.flows[0];
    flow.groups = (0..4)
        .map(|n| crate::play::GroupSeen { due: Some(ms(1000 + 60 * n)), ..Default::default() })
        .collect();
    // In time, at the last moment, a microsecond late; the fourth never.
    let came = [(0, ms(1100)), (2, ms(1370)), (1, ms(1310) + Duration::from_micros(1))];
    for (n, released) in came {
        flow.arrivals.push(MessageArrival { group: n, index: n, bytes: 100, completed: released, released });
    }
    let on_time = |setting: &Setting| measure(setting, &seen).0.promptness.on_time.unwrap();
    assert_eq!(on_time(&setting).to_bits(), 0.5_f64.to_bits());
    // Telling the sender changes what it does, not what is counted.
    if let Work::Messages(messages) = &mut setting.flows[0].work {
        messages.tell_deadlines = true;
    }
    assert_eq!(on_time(&setting).to_bits(), 0.5_f64.to_bits());
}

/// With deadlines of the length of the path itself nearly nothing comes in time, so a sender that knows gives
/// up what was lost.
#[test]
fn a_sender_gives_up_what_it_knows_to_be_late() {
    let play = |api: &str| {
        let params = point("messages", &format!("messages=200 mode=plain api={api} owd_ms=100 loss=5%"));
        row(find("messages").unwrap(), &params, 3)
    };
    let (silent, told) = (play("no"), play("yes"));
    assert_eq!((silent.metrics.counted.abandoned, silent.metrics.counted.messages_delivered), (0, 200));
    assert!(told.metrics.counted.abandoned > 0);
    let counted = &told.metrics.counted;
    // What is abandoned may have arrived after all, its acknowledgement being late; never is anything both
    // not delivered and not reported.
    assert!(counted.abandoned + counted.messages_delivered >= 200);
    assert!(told.metrics.promptness.on_time.unwrap() <= counted.messages_delivered as f64 / 200.0);
}

/// A desktop alone is shown in a round trip and what its update is on the wire, many of them wait for one
/// another, and none comes to an end.
#[test]
fn desktops_share_a_link() {
    let experiment = find("screens-many").unwrap();
    let play = |desktops: u32| {
        let params =
            point("screens-many", &format!("desktops={desktops} cc=cubic seconds=12 queue=4bdp loss=0"));
        row(experiment, &params, 1).metrics
    };
    let (one, many) = (play(1), play(16));
    let median = |metrics: &crate::results::RunMetrics| metrics.times.response_ms.unwrap().p50;
    // 50 messages of 1400 bytes with headers of 3 to 6 % at 20 Mbit/s, behind 50 ms.
    let wire = 50.0 * 1400.0 * 8.0 / 20e3;
    assert!((50.0 + wire * 1.03..50.0 + wire * 1.1).contains(&median(&one)), "{one:?}");
    assert!(median(&many) > 2.0 * median(&one), "{many:?}");
    assert!(many.utilisation.unwrap() > 0.85 && one.utilisation.unwrap() < 0.1, "{many:?}");
    assert!(many.fairness.unwrap() > 0.9 && one.fairness.unwrap() > 0.999, "{many:?}");
}

/// What others send is missing to the flow, and comes at the same times whoever they meet.
#[test]
fn others_take_their_share() {
    let utilised = |words: &str| {
        let params =
            point("congestion", &format!("flows=bbr queue=1bdp rate_mbit=8 rtt_ms=20 seconds=8 {words}"));
        row(find("congestion").unwrap(), &params, 1)
    };
    let alone = utilised("cross=none");
    for cross in ["constant", "poisson", "bursts"] {
        let beside = utilised(&format!("cross={cross}"));
        let share = beside.metrics.goodput_bps.unwrap() / alone.metrics.goodput_bps.unwrap();
        assert!((0.4..0.95).contains(&share), "{cross}: {share} of what there is alone");
    }
    let (constant, none) = (utilised("cross=constant"), utilised("cross=constant cross_share=0"));
    assert_eq!(none.metrics.goodput_bps, alone.metrics.goodput_bps);
    // A quarter of 8 Mbit/s goes to others, but for what the queue drops of it, and of the rest nearly all is
    // used.
    assert!(constant.metrics.utilisation.unwrap() > 0.8, "{:?}", constant.metrics.utilisation);
    assert!(constant.metrics.goodput_bps.unwrap() < 6.4e6, "{:?}", constant.metrics.goodput_bps);
}

/// Of every pixel, the newest message that draws it comes to the viewer.
#[test]
fn the_picture_of_latest_order_is_whole() {
    for (scene, seconds) in [("scroll", "2"), ("page", "9"), ("typing", "8"), ("fastscroll", "1")] {
        let setting = setting(
            "screen-traces",
            &format!("scene={scene} mode=latest loss=5% rate_mbit=10 rtt_ms=60 seconds={seconds}"),
        );
        let seen = virtually(&setting, 2).unwrap();
        let flow = &seen.flows[0];
        assert!(flow.finished.is_some(), "{scene}");
        let Work::Messages(messages) = &setting.flows[0].work else { panic!("messages") };
        let areas: Vec<[u16; 4]> = messages
            .groups
            .iter()
            .flat_map(|group| &group.messages)
            .map(|piece| piece.area.unwrap())
            .collect();
        let arrived: BTreeSet<u32> = flow.arrivals.iter().map(|a| a.index).collect();
        let mut newest = vec![vec![None; 1280]; 720];
        for (index, [x, y, w, h]) in (0u32..).zip(&areas) {
            for row in &mut newest[usize::from(*y)..usize::from(y + h)] {
                row[usize::from(*x)..usize::from(x + w)].fill(Some(index));
            }
        }
        let missing = newest.iter().flatten().flatten().filter(|index| !arrived.contains(index)).count();
        assert_eq!(missing, 0, "{scene}: pixels of messages that never came");
        let lost = areas.len() - arrived.len();
        assert!(lost as u64 <= flow.abandoned, "{scene}: {lost} missing, {} given up", flow.abandoned);
        assert!(scene == "typing" || flow.abandoned > 0, "{scene}: nothing was outdated");
    }
}

#[test]
fn a_trace_of_ones_own_is_read_with_the_run() {
    let dir = std::env::temp_dir().join(format!("quickset-lab-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let (good, bad) = (dir.join("good"), dir.join("bad"));
    std::fs::write(&good, "?100,500\n?200,600\n").unwrap();
    std::fs::write(&bad, "?100,500\nsoon,600\n").unwrap();
    let messages = find("messages").unwrap();
    let params = |path: &std::path::Path| {
        point("messages", &format!("trace={} mode=plain api=no owd_ms=5", path.display()))
    };
    let Work::Messages(plan) = &messages.setting(&params(&good)).unwrap().flows[0].work else {
        panic!("messages")
    };
    assert_eq!(plan.groups.len(), 2);
    assert_eq!(plan.groups[1].due, Duration::from_micros(100));
    let error = messages.setting(&params(&bad)).unwrap_err().to_string();
    assert!(error.contains("bad") && error.contains("line 2, `soon,600`"), "{error}");
    // One that was changed since its runs were written down is no part of them.
    let planned = params(&good);
    std::fs::write(&good, "?100,500\n?200,601\n").unwrap();
    let error = messages.setting(&planned).unwrap_err().to_string();
    assert!(error.contains("another recording"), "{error}");
    let after = params(&good);
    assert_ne!(planned.to_string(), after.to_string(), "a row of the one is none of the other");
    std::fs::remove_file(&good).unwrap();
    assert!(messages.setting(&after).unwrap_err().to_string().contains("cannot be read"));
    std::fs::remove_dir_all(&dir).unwrap();
}
