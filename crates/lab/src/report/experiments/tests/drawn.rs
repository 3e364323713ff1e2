//! What figures draw.

use super::*;
use crate::report::experiments::figures::figures;

fn page(experiment: &'static Experiment, rows: Vec<Row>) -> String {
    let mut page = String::new();
    figures(&mut page, &ReportSheet::new(experiment, rows));
    well_formed(&page);
    page
}

/// The part of a page that has this title, up to the next figure.
fn figure<'a>(page: &'a str, title: &str) -> &'a str {
    let found = page.split("<div class=figure>").find(|part| part.starts_with(&format!("<h3>{title}")));
    found.unwrap_or_else(|| panic!("no figure {title}"))
}

/// Eight alternatives at fifteen delays were 120 boxes of a hairline each in one panel.
#[test]
fn many_boxes_have_a_panel_for_each_alternative() {
    let messages = catalogue::find("messages").unwrap();
    let points = messages.points(&Overrides::default()).unwrap();
    let row = |point: &Params| {
        let mut row = row_of(messages, "", 1, &[], 90.0);
        row.metrics.promptness.on_time = Some(if point.text("mode") == "plain" { 0.97 } else { 0.9 });
        Row { params: point.clone(), ..row }
    };
    let page = page(messages, points.iter().map(row).collect());
    let drawn = figure(&page, "On time over");
    // Twice, with deadlines told and not; the medians of plain QUIC lie behind all others.
    assert_eq!(drawn.matches("class='box ").count(), 16);
    assert_eq!(drawn.matches("class='line plain'").count(), 14);
    for svg in drawn.split("<svg").skip(1) {
        let boxes = svg.split("class='box ").nth(1).unwrap().split('>').next().unwrap();
        assert_eq!(boxes.matches('z').count(), 15, "a box for each delay");
    }
    // What an axis from 0 on would not show: 97 and 90 %.
    assert!(!drawn.contains(">20</text>") && drawn.contains(">90</text>"), "its axis");
}

#[test]
fn pauses_have_dots_and_the_ends_of_all_alternatives() {
    let run = |mode: &str, gaps: &[(f64, f64)], end: f64| {
        let mut row = row(&format!("profile=ours mode={mode}"), 1, &[1.0], end);
        row.detail.series.insert("gaps".to_owned(), gaps.to_vec());
        row
    };
    let rows = vec![run("total", &[(0.5, 0.1), (1.0, 150.0)], 4.0), run("partial", &[(0.5, 0.1)], 2.0)];
    let page = page(streaming(), rows);
    let drawn = figure(&page, "Inter-delivery time over time");
    let panels: Vec<&str> = drawn.split("<svg").skip(1).collect();
    assert_eq!(panels.len(), 2);
    for (panel, mode, dots) in [(panels[0], "total", 2), (panels[1], "partial", 1)] {
        let path = panel.split(&format!("class='dots {mode}'")).nth(1).unwrap().split('>').next().unwrap();
        assert_eq!(path.matches("h0").count(), dots, "{mode}");
        let uprights = ["total", "partial"].map(|mode| panel.contains(&format!("class='upright {mode}'")));
        assert_eq!(uprights, [true, true], "when all was there, of both");
        assert!(panel.contains("round trip"));
    }
}

/// Each square has the mean of its runs, and is green where it is better.
#[test]
fn heat_maps_are_of_the_ratio_at_each_pair() {
    let poor = catalogue::find("throughput-poor").unwrap();
    let run = |ack: &str, rate: u32, rtt: u32, goodput: f64| {
        let mut row = row_of(poor, &format!("ack={ack} rate_mbit={rate} rtt_ms={rtt}"), 1, &[], 8.0);
        row.metrics.goodput_bps = Some(goodput);
        row
    };
    let rows = [(50, 5, 1.5), (50, 20, 0.5), (200, 5, 1.0)].into_iter().flat_map(|(rate, rtt, gain)| {
        [run("100:fixed:merged", rate, rtt, 1e7), run("2:fixed:merged", rate, rtt, gain * 1e7)]
    });
    let page = page(poor, rows.collect());
    let drawn = figure(&page, "Goodput over that of 100:fixed:merged");
    assert_eq!(drawn.matches("class='cell ").count(), 3);
    let csv = drawn.split("utf-8,").nth(1).unwrap().split('\'').next().unwrap();
    let told = csv.replace("%0A", "\n").replace("%20", " ").replace("%22", "\"").replace("%27", "'");
    assert!(told.contains("2:fixed:merged,50,5,1.5\n"), "{told}");
    assert!(
        told.contains("2:fixed:merged,50,20,0.5\n") && told.contains("2:fixed:merged,200,5,1\n"),
        "{told}"
    );
    let half = drawn.split("class='cell bad' fill-opacity=").nth(1).unwrap();
    assert!(half.starts_with("0.85"), "half as good is as red as can be");
}

/// All seeds, and every message of each.
#[test]
fn blocking_times_are_those_of_all_seeds() {
    let udt = catalogue::find("fence-udt").unwrap();
    let run = |seed: u64, course: &[(f64, f64)]| {
        let mut row = row_of(udt, "mode=total", seed, &[1.0], 4.0);
        row.detail.series.insert("blocking".to_owned(), course.to_vec());
        row
    };
    let page = page(udt, vec![run(1, &[(0.0, 0.0), (3.0, 0.0)]), run(2, &[(0.0, 60.0), (3.0, 60.0)])]);
    let drawn = figure(&page, "Blocking time, message by message");
    let path = drawn.split("class='cloud total' d='").nth(1).unwrap().split('\'').next().unwrap();
    // Four messages at two heights.
    assert_eq!(path.matches('M').count(), 8, "{path}");
}

/// Two panels that stand for a context each are not called the same.
#[test]
fn panels_of_different_contexts_have_different_names() {
    let rows =
        ["as-published", "ours"].map(|profile| row(&format!("profile={profile} mode=total"), 1, &[9.0], 4.0));
    let page = page(streaming(), rows.to_vec());
    let drawn = figure(&page, "Distribution of the blocking time");
    for title in ["as the paper has it: baseline", "our own conventions: baseline"] {
        assert!(drawn.contains(&format!("aria-label='{title}:")), "{title}");
        // In the numbers behind the figure, too.
        assert!(drawn.contains(&format!("%0A{},total,", title.replace(' ', "%20"))), "{title}");
    }
}
