//! Numbers beside those of another alternative, and numbers of whole designs.

use super::*;
use crate::report::experiments::{figures, pooled, words};
use crate::results::ResourceLoad;

/// Three seeds of three alternatives: repair sends 1.2 times the bytes of plain QUIC with the same seed,
/// whatever these are.
#[test]
fn a_ratio_is_to_the_run_with_the_same_losses() {
    let messages = catalogue::find("messages").unwrap();
    let run = |set: &str, seed: u64, bytes: u64| {
        let mut row = row_of(messages, set, seed, &[], 90.0);
        row.metrics.counted.bytes_sent = bytes;
        row
    };
    let of_seed = |seed: u64| {
        let bytes = 1000 * seed * seed;
        [run("mode=plain", seed, bytes), run("mode=plain fec=messages", seed, bytes * 6 / 5)]
    };
    let mut rows: Vec<Row> = (1..=3).flat_map(of_seed).collect();
    // A run that broke is beside nothing, and one without its twin neither.
    let mut broken = run("mode=total", 1, 10);
    broken.metrics.finished = false;
    rows.extend([broken, run("mode=total", 7, 10)]);
    let sheet = ReportSheet::new(messages, rows);
    let ratios: Vec<Option<f64>> = sheet.runs.iter().map(|run| run.number("bytes_sent/plain")).collect();
    let told = ratios.iter().flatten().map(|ratio| format!("{ratio:.3}")).collect::<Vec<_>>();
    assert_eq!(told, ["1.200"; 3], "{ratios:?}");
    let mut page = String::new();
    figures::figures(&mut page, &sheet);
    assert!(page.contains("Bytes sent over that of plain"), "its title");
}

/// Figure 17: what repair adds to the times between messages where nothing is lost.
#[test]
fn a_difference_is_what_is_added() {
    let run = |fec: &str, ms: f64| {
        let set = format!("profile=as-published mode=partial loss=0 fec={fec}");
        let mut row = row(&set, 1, &[1.0], 15.0);
        row.metrics.times.inter_delivery_ms =
            Some([ms; 3].into_iter().collect::<Samples>().sorted().percentiles());
        row
    };
    let lines = results(vec![run("none", 38.0), run("rs:105/100", 40.5)]).lines();
    let path = "inter_delivery_ms.p9995-partial";
    let added = find(&lines, path, "partial+rs:105/100", "no loss");
    assert!(near(added.ours["sim"].value, 2.5, 1e-9), "{added:?}");
    assert_eq!(added.published.map(|printed| (printed.value, printed.figure)), Some((10.0, "17")));
    assert!(!lines.iter().any(|line| line.metric == path && line.alternative == "partial"));
}

#[test]
fn paths_with_another_alternative_are_read() {
    for (path, expected, said) in [
        ("bytes_sent/plain", Some(("bytes_sent", "plain", false)), "bytes sent over that of plain"),
        ("dct_s/ac-rlnc", Some(("dct_s", "ac-rlnc", false)), "download time over that of ac-rlnc"),
        (
            "inter_delivery_ms.p9995-partial+rs:105/100",
            Some(("inter_delivery_ms.p9995", "partial+rs:105/100", true)),
            "inter-delivery time, 99.95 % beyond that of partial + rs:105/100",
        ),
        ("completion_s", None, "completion"),
    ] {
        let read = words::Beside::of(path).map(|one| (one.metric, one.other, one.is_difference));
        assert_eq!(read, expected);
        assert_eq!(words::metric(path), said);
    }
    // A difference has the unit of what it is of, a ratio none.
    assert_eq!(["blocking_ms.p99-total", "dct_s/none", "bytes_sent/plain"].map(words::unit), ["ms", "", ""]);
    assert!(near(words::factor("bytes_sent-plain"), 1e-6, 1e-9));
    assert!(near(words::factor("bytes_sent/plain"), 1.0, 1e-9));
}

/// Of four points three gain, and the products of the gaining ones are 1, 2 and 3 windows on average.
#[test]
fn numbers_of_a_whole_design_stand_beside_the_published_ones() {
    let design = catalogue::find("rwin-design").unwrap();
    let run = |owd: u32, rwin: &str, ratio: f64| {
        // 8 Mbit/s are 1 MB/s: 2 · owd ms hold 2000 · owd bytes.
        let set = format!("fec=buffer rwin={rwin} rate_mbit=8 loss=1% owd_ms={owd}");
        let mut row = row_of(design, &set, 1, &[], 10.0);
        row.metrics.dct_ratio = Some(ratio);
        row
    };
    let rows =
        vec![run(75, "150kB", 0.9), run(150, "150kB", 0.8), run(225, "150kB", 0.7), run(150, "3MB", 1.1)];
    let sheet = ReportSheet::new(design, rows);
    let mut page = String::new();
    pooled::table(&mut page, &sheet);
    let cells: Vec<&str> =
        page.split("<tr><td").skip(1).map(|row| row.split("<th").nth(1).unwrap()).collect();
    for (cell, ours, published) in [
        (cells[0], "<td>0.75 <small>of 4 points", "<td>0.75 <small>figure 10"),
        (cells[1], "<td>1 <small>of 3 points", "<td>0.8 <small>figure 10"),
        (cells[2], "<td>2 <small>of 3 points", "<td>1.53 <small>figure 10"),
        (cells[3], "<td>0.1 <small>of 1 points", "<td>0.48 <small>figure 10"),
    ] {
        assert!(cell.contains(ours) && cell.contains(published), "{cell}");
    }
}

/// What nothing of ours stands beside is not among what can be held against our numbers.
#[test]
fn what_is_not_measured_is_said_apart() {
    let point = SPACE.points(&Overrides::default()).unwrap().remove(0);
    let row = Row { params: point, ..row_of(&SPACE, "", 1, &[], 1.0) };
    let sheet = ReportSheet::new(&SPACE, vec![row]);
    let mut page = String::new();
    crate::report::experiments::claims(&mut page, &sheet);
    let apart = "<h3>What was published, and is not measured here</h3>";
    let (beside, not_measured) = page.split_once(apart).expect(&page);
    assert!(beside.contains("Half the time") && !beside.contains("not ours"), "{page}");
    assert!(not_measured.contains("figure 2</small> A third on a machine"), "{page}");
    well_formed(&page);
}

#[test]
fn folds_count_what_is_behind_them() {
    let of = |sets: &[&str]| {
        html(&results(sets.iter().map(|set| row(&format!("profile=ours {set}"), 1, &[115.0], 7.6)).collect()))
    };
    assert!(of(&["", "loss=1%"]).contains("<summary>1 more point</summary>"));
    assert!(of(&["", "loss=1%", "rtt_ms=50"]).contains("<summary>2 more points</summary>"));
    assert_eq!(words::more(1, "panel"), "1 more panel");
}

/// A code without blocks is not one whose blocks never fail.
#[test]
fn blocks_that_there_are_not_do_not_fail() {
    let run = |fec: &str, blocks: u64| {
        let mut row = row(&format!("profile=ours mode=partial fec={fec}"), 1, &[1.0], 5.0);
        row.metrics.counted.blocks = blocks;
        row
    };
    let lines = results(vec![run("fixed:10", 0), run("rs:105/100", 300)]).lines();
    let failed = |fec: &str| {
        let alternative = format!("partial+{fec}");
        lines.iter().any(|line| line.metric == "failed_blocks" && line.alternative == alternative)
    };
    assert!(failed("rs:105/100") && !failed("fixed:10"));
}

/// A key that is set so that no run is the baseline's does not put points into a box that differ in something
/// else.
#[test]
fn boxes_of_one_key_do_not_mix_points_of_another() {
    let bursts = catalogue::find("screen-bursts").unwrap();
    let run = |set: &str, seed: u64| row_of(bursts, &format!("updates=150 {set}"), seed, &[1.0], 5.0);
    let sets = ["", "loss=0", "messages=20", "messages=200"];
    let rows = sets.iter().flat_map(|set| [run(set, 1), run(set, 2)]).collect();
    let sheet = ReportSheet::new(bursts, rows);
    let over = |key: &str| -> Vec<String> {
        let runs = sheet.baseline_but_for(&[key, "mode", "fec"]);
        runs.iter()
            .map(|run| format!("{} {}", run.row.params.text("loss"), run.row.params.text("messages")))
            .collect()
    };
    assert_eq!(over("loss"), ["0.005 100", "0.005 100", "0 100", "0 100"]);
    assert_eq!(
        over("messages"),
        ["0.005 100", "0.005 100", "0.005 20", "0.005 20", "0.005 200", "0.005 200"]
    );
}

/// Panels without the line of an ordinary transport do not speak of it: it sends no repair.
#[test]
fn a_line_that_is_not_drawn_is_not_told() {
    let bursts = catalogue::find("screen-bursts").unwrap();
    let rows = bursts.points(&Overrides::default()).unwrap().into_iter().map(|params| {
        let mut row = Row { params, ..row_of(bursts, "", 1, &[1.0, 2.0], 5.0) };
        row.metrics.repair.repair_share = (row.params.text("fec") != "none").then_some(0.05);
        row
    });
    let mut page = String::new();
    figures::figures(&mut page, &ReportSheet::new(bursts, rows.collect()));
    let of = |title: &str| {
        let figure = page.split("<h3").find(|figure| figure.contains(title)).expect(title);
        figure.contains("The line across")
    };
    assert!(of("Blocking time, 99 % over") && !of("Share of repair over"));
}

/// TUM's figure 6 is without loss: that panel is in sight, and its legend has the resources as they are asked
/// for.
#[test]
fn the_baseline_is_in_sight_though_nothing_is_lost() {
    let experiment = catalogue::find("http-page").unwrap();
    let run = |set: &str| {
        let mut row = row_of(experiment, set, 1, &[], 3.0);
        for (name, at) in [("HTML", 1.0), ("CSS", 2.0), ("A", 3.0)] {
            row.metrics.loads.resources.push(ResourceLoad { name: name.into(), ..ResourceLoad::default() });
            row.detail.series.insert(format!("goodput/{name}"), vec![(0.0, 1.0), (at, 2.0)]);
        }
        row
    };
    let sets = ["priorities=flat", "priorities=tree"];
    let rows = sets.iter().flat_map(|set| [run(set), run(&format!("{set} loss=0.5%"))]).collect();
    let mut page = String::new();
    figures::figures(&mut page, &ReportSheet::new(experiment, rows));
    let place = |words: &str| page.find(words).unwrap_or_else(|| panic!("no {words}"));
    assert!(place(">Flat, baseline<") < place(">Flat, 0.5 % loss<"));
    assert!(place(">HTML</span>") < place(">CSS</span>") && place(">CSS</span>") < place(">A</span>"));
}
