use crate::demo::{DemoConditions, DemoMode, DemoRow, Findings};
use crate::screen::Picture;
use crate::stats::Samples;

use super::html;

fn row(mode: DemoMode, pace: u32, blocked_ms: f64) -> DemoRow {
    let blocking = (0..10).map(|i| if i < 7 { 0.0 } else { blocked_ms }).collect::<Samples>().sorted();
    let inter_delivery = (0..10).map(|i| f64::from(i) / 3.0).collect::<Samples>().sorted();
    DemoRow {
        mode,
        updates_per_s: pace,
        messages: 10,
        abandoned: 0,
        blocked_share: 0.3,
        blocking_ms: blocking.percentiles(),
        inter_delivery_ms: inter_delivery.percentiles(),
        over_rtt: 2,
        delivery_ms: blocking.percentiles(),
        updates: 160,
        overtaken: if mode == DemoMode::Latest { 41 } else { 0 },
        whole_update_ms: Samples::from_iter([61.5, 62.5, 163.5]).percentiles(),
        sent_bytes: 1_000_000,
        repair_bytes: if mode == DemoMode::Repaired { 25_000 } else { 0 },
        recovered: u64::from(mode == DemoMode::Repaired) * 2,
        lost: 3,
        overflowed: 0,
        picture_equal: true,
        blocking,
        inter_delivery,
    }
}

fn findings() -> Findings {
    let link = DemoConditions {
        rate: "100mbit".to_owned(),
        rtt_ms: 100.0,
        loss: "0.5%".to_owned(),
        queue: "9MB".to_owned(),
        seed: 1,
        congestion: "bbr".to_owned(),
        mtu: 1472,
        fec: "adaptive:screen".to_owned(),
        seconds: 16.0,
        warm_up_s: 1.0,
        lateness_p99_ms: 0.2,
        overruns: Some(0),
    };
    let rows = [10, 30].into_iter().flat_map(|pace| DemoMode::ALL.map(|mode| row(mode, pace, 87.5)));
    Findings { link, modes: rows.collect(), picture: Picture::new().png() }
}

#[test]
fn the_page_stands_alone_and_holds_all_of_it() {
    let page = html(&findings(), "quickset demo --seed 1 --loss <b>");
    for alien in ["<script", "http://", "https://", "@import", "url("] {
        assert!(!page.contains(alien), "{alien}");
    }
    assert_eq!(page.matches("<svg").count(), 4, "two figures for each pace");
    assert_eq!(page.matches("<path").count(), 16, "a curve for each mode");
    assert_eq!(page.matches("<tr").count(), 2 + 8);
    assert!(page.contains("data:image/png;base64,iVBOR"));
    assert!(page.contains("cargo run --release -- demo --seed 1 --loss &lt;b&gt;"));
    // At 30 updates a second, and only there, the two orders are close, and the page says why.
    assert_eq!(page.matches("the two come close").count(), 1);
    assert!(page.contains("87.5"));
    let words = "within 62.5 and 164 ms in total order, 62.5 and 164 ms in partial order, 62.5 and 164 ms with repair, ";
    assert_eq!(page.matches(words).count(), 2);
    // In the tile of each mode, in its row, and how it is counted where newer pixels come first.
    assert_eq!(page.matches("whole update p50 62.5 ms · p99 164 ms</span>").count(), 8);
    assert_eq!(page.matches("<td>62.5<td>164<td>").count(), 8);
    assert!(page.contains("that was so for 25.6 % of the updates"), "41 of 160");
    // What repair cost and did: in the sentences, and in the tile of its mode alone.
    let words = "2.5 % of the bytes sent were repair, and by them 2 packets came back where 3 were lost";
    assert_eq!(page.matches(words).count(), 2);
    assert_eq!(page.matches("3 packets lost, 2 came back</span><span>2.5 % of the bytes repair<").count(), 2);
    assert!(page.contains("four ways") && page.contains("class=partial+fec"));
}

#[test]
fn without_repair_there_is_nothing_said_of_it() {
    let mut findings = findings();
    findings.modes.retain(|row| row.mode != DemoMode::Repaired);
    let page = html(&findings, "quickset demo --fec none");
    assert_eq!(page.matches("<path").count(), 12);
    assert!(page.contains("three ways") && !page.contains("class=partial+fec"));
    assert!(!page.contains("With erasure correction"));
}

/// Why two orders are close, or are not, is told of numbers that say so.
#[test]
fn reasons_are_of_what_was_measured() {
    let told = |total: f64, partial: f64| {
        let mut findings = findings();
        for (pace, part) in [10, 30].into_iter().zip(findings.modes.chunks_mut(4)) {
            for (mode, ms) in DemoMode::ALL.into_iter().zip([total, partial, partial, 0.0]) {
                part.iter_mut().filter(|one| one.mode == mode).for_each(|one| *one = row(mode, pace, ms));
            }
        }
        let page = html(&findings, "quickset demo");
        ["the two come close", "a fence has little to hold"].map(|words| page.matches(words).count())
    };
    assert_eq!(DemoMode::ALL[..2], [DemoMode::Total, DemoMode::Partial]);
    assert_eq!(told(87.5, 80.0), [1, 0]);
    assert_eq!(told(87.5, 5.0), [0, 1]);
    assert_eq!(told(5.0, 87.5), [0, 0]);
    // Nothing was lost.
    assert_eq!(told(0.0, 0.0), [0, 0]);
}

#[test]
fn damage_is_not_hidden() {
    let mut findings = findings();
    findings.modes[1].picture_equal = false;
    assert!(html(&findings, "quickset demo").contains("That is a fault"));
}
