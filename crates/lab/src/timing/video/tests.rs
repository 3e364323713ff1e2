use super::*;
use crate::experiment::Overrides;

fn point(words: &str) -> Params {
    let words = words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let all = catalogue::find("dash-real").unwrap().points(&Overrides::parse(&words).unwrap()).unwrap();
    let (count, first) = (all.len(), all.into_iter().next());
    assert_eq!(count, 1, "{words:?}");
    first.unwrap()
}

fn show(words: &str) -> VideoPoint {
    VideoPoint::of(&point(&format!("players=20 abr=dynamic datapath=plain {words}")), 3).unwrap()
}

#[test]
fn values_that_do_not_fit_say_what_does() {
    let told = |words: &str| {
        let point = point(&format!("players=20 abr=dynamic datapath=plain {words}"));
        VideoPoint::of(&point, 1).unwrap_err().to_string()
    };
    assert!(told("quota=0.05").contains("write quota=0.1 to quota=1"));
    assert!(told("quota=2").contains("write quota=0.1 to quota=1"));
    assert!(told("loss=0.5% rtt_ms=20").contains("write scale=1"));
    assert_eq!(show("loss=0.5% rtt_ms=20 scale=1").quota, None);
    assert_eq!(show("quota=0.25").quota, Some(0.25));
}

/// A Gbit/s is 125 MB/s: with 8 ns a byte that is a core, of which scale 4 leaves a quarter.
#[test]
fn the_published_rate_over_the_scale_is_a_part_of_a_core() {
    let cost = 8e-9;
    let close = |one: f64, other: f64| assert!((one / other - 1.0).abs() < 1e-9, "{one} {other}");
    close(show("scale=4").published(cost).unwrap(), 1.79 / 4.0);
    close(show("scale=4").carried(0.25, cost), 1000.0);
    // Of two cores and of a fiftieth there are none.
    let told = show("scale=1").published(cost).unwrap_err().to_string();
    assert!(
        told.contains("carries 1000 Mbit/s on a whole core") && told.ends_with("write scale=2"),
        "{told}"
    );
    let told = show("scale=100").published(cost).unwrap_err().to_string();
    assert!(told.ends_with("write scale=17"), "{told}");
    let told = show("scale=2").published(cost / 20.0).unwrap_err().to_string();
    assert!(told.ends_with("write quota=0.1, which carries more"), "{told}");
}

#[test]
fn each_datapath_has_its_options() {
    let words = |words: &str| show(words).server(&show(words).datapath).join(" ");
    assert_eq!(words(""), "--listen 127.0.0.1:0 --cc cubic --ack 2:fixed:single --no-gso");
    let far = show("loss=0.5% rtt_ms=20 scale=1");
    assert_eq!(far.server("adaptive").join(" "), "--listen 0.0.0.0:0 --cc cubic --ack 2:adaptive:merged");
    assert_eq!(show("").server(HTTP1).join(" "), "--listen 127.0.0.1:0 --cc cubic");
    assert_eq!(version(HTTP1), ["--http", "1"]);
    assert_eq!(version("merging"), ["--http", "3", "--ack", "2:fixed:merged"]);
    let playing = far.playing();
    assert_eq!(playing.link.unwrap().join(" "), "--delay 10ms --loss 0.005 --seed 3");
    assert!(show("").playing().link.is_none());
}

/// Both versions have the same controller, or the run says why not.
#[cfg(target_os = "linux")]
#[test]
fn http1_has_the_controller_of_http3_or_there_is_no_run() {
    let with = |cc: &str, datapath: &str| VideoPoint {
        cc: cc.to_owned(),
        datapath: datapath.to_owned(),
        ..show("")
    };
    assert!(with("newreno", HTTP1).check_tcp().is_ok(), "every Linux has reno, and lets anybody have it");
    assert!(with("fixed:8mbit", "merging").check_tcp().is_ok(), "no TCP is in it");
    let told = with("fixed:8mbit", HTTP1).check_tcp().unwrap_err().to_string();
    assert!(told.contains("TCP has no fixed:8mbit") && told.contains("write cc=cubic"), "{told}");
}

/// The bitrates on the wire, and the one in virtual time that carries half of what was published.
#[test]
fn the_model_has_what_the_run_has() {
    let show = show("scale=2 seconds=30");
    assert_eq!(show.film().bitrates[..3], [500_000, 2_500_000, 5_000_000]);
    let params = point("players=20 abr=dynamic datapath=plain scale=2 seconds=30");
    let (name, beside) = show.beside(&params, 895.0).unwrap();
    assert_eq!(name, "dash");
    for (key, value) in
        [("players", 20.0), ("segment_s", 2.0), ("seconds", 30.0), ("processor", 5.06), ("scale", 25.0)]
    {
        assert!((beside.number(key).unwrap() - value).abs() < 1e-9, "{key}: {beside}");
    }
    let words = "players=20 abr=l2a datapath=plain scale=1 rtt_ms=20 loss=0.5%";
    let far = VideoPoint::of(&point(words), 1).unwrap();
    let (name, beside) = far.beside(&point(words), PLAIN_MBPS).unwrap();
    assert_eq!((name, beside.text("loss"), beside.text("abr")), ("dash-poor", "0.005".into(), "l2a".into()));
}

fn played(players: &str, was_cut: bool) -> ProgramsPlayed {
    let text = format!(
        r#"{{"players": [{players}], "sum": {{"average_bitrate_mbps": 12.5, "bytes": 500000000, "played_s": 80.0, "seconds": 50.0, "cpu_s": 1.0}}}}"#
    );
    ProgramsPlayed {
        results: serde_json::from_str(&text).unwrap(),
        was_cut,
        load: Duration::from_secs(20),
        cores: 2,
        server: Duration::from_secs(5),
        link: Some((0.25, 3)),
    }
}

/// 5 s of 50 s are 40 % of a quarter, and half a gigabyte at 5 s are 10 s/GB.
#[test]
fn measures_are_of_the_video_and_of_what_was_there() {
    let two = r#"{"rebuffering_s": 1.0, "stalls": 1, "startup_s": 0.5, "switches": 4, "error": null},
        {"rebuffering_s": 2.0, "stalls": 2, "startup_s": null, "switches": 1, "error": null}"#;
    let part = CpuShare { share: 0.25, capacity_mbps: 1790.0 };
    let beside = Viewing { average_bitrate_mbps: Some(50.0), ..Viewing::default() };
    let found = metrics(&show("scale=2"), part, &played(two, false), Some(&beside));
    let viewing = &found.viewing;
    assert_eq!((viewing.average_bitrate_mbps, viewing.rebuffering_s), (Some(25.0), Some(1.5)));
    assert_eq!((viewing.stalls, viewing.startup_s, viewing.switches), (Some(1.5), Some(0.5), Some(2.5)));
    assert_eq!(viewing.processor_share, Some(0.4));
    let served = &found.timings.served;
    assert_eq!((served.load_share, served.server_s_per_gb), (Some(0.2), Some(10.0)));
    assert_eq!(served.average_bitrate_over_virtual, Some(0.5));
    assert_eq!((found.emulation.lateness_p99_ms, found.emulation.overruns), (Some(0.25), Some(3)));
    assert!(found.finished && found.broken.is_none());
}

#[test]
fn players_that_fail_or_do_not_end_are_told() {
    let failed =
        r#"{"rebuffering_s": 1.0, "stalls": 1, "startup_s": null, "switches": 0, "error": "it is gone"}"#;
    let part = CpuShare { share: 0.25, capacity_mbps: 1790.0 };
    let found = metrics(&show(""), part, &played(failed, false), None);
    assert_eq!(found.broken.as_deref(), Some("1 of 1 players could not play to the end: it is gone"));
    let found = metrics(&show(""), part, &played("", true), None);
    assert_eq!(found.broken.as_deref(), Some("players were still at it after 50 s"));
    assert!(!found.finished && found.viewing.rebuffering_s.is_none());
}
