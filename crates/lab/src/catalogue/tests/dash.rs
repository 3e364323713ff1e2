//! Video to players from a server whose processor is modelled.

use super::*;
use crate::results::RunMetrics;

/// One run in virtual time.
fn watched(words: &str) -> (Setting, RunSeen, RunMetrics) {
    let setting = setting("dash", &format!("abr=dynamic {words}"));
    let seen = virtually(&setting, 1).unwrap();
    let (metrics, _) = measure(&setting, &seen);
    assert!(metrics.broken.is_none() && metrics.finished, "{words}: {metrics:?}");
    (setting, seen, metrics)
}

/// The first segment is in the lowest bitrate, as nothing is known yet, and all others are in the highest.
#[test]
fn an_ample_processor_serves_everybody_the_highest_bitrate() {
    for datapath in ["plain", "adaptive"] {
        let (_, seen, metrics) =
            watched(&format!("players=3 datapath={datapath} processor=0.01 seconds=60 scale=200"));
        for flow in &seen.flows {
            let report = flow.watched.unwrap();
            assert_eq!((report.played.as_secs(), report.stalls, report.switches), (60, 0, 1));
            assert!((report.average_bitrate() - (10.0 * 1e6 + 50.0 * 50e6) / 60.0).abs() < 1.0);
        }
        assert!(metrics.viewing.processor_share.unwrap() < 0.01, "{metrics:?}");
        // What was on the wire is a two-hundredth of what was watched.
        assert_eq!(metrics.counted.bytes_useful, 3 * (10 * 1_000_000 + 50 * 50_000_000) / 8 / 200);
    }
}

/// What is sent costs at least its bytes, its datagrams and a call for each 64 of them.
#[test]
fn nobody_gets_more_than_the_processor_can_send() {
    for datapath in ["plain", "gso", "merging", "adaptive"] {
        let (setting, seen, metrics) =
            watched(&format!("players=6 datapath={datapath} processor=60 seconds=60 scale=100"));
        let cpu = setting.processor.unwrap();
        let mtu = f64::from(setting.flows[0].transport.mtu);
        let calls = if datapath == "plain" { 1.0 } else { 64.0 };
        let datagram_ns = f64::from(cpu.send_datagram_ns)
            + f64::from(cpu.send_batch_ns) / calls
            + mtu * f64::from(cpu.byte_ps) / 1e3;
        let most_mbps = mtu * 8e3 / datagram_ns * 100.0;
        let viewing = &metrics.viewing;
        let played: f64 = seen.flows.iter().map(|flow| flow.watched.unwrap().played.as_secs_f64()).sum();
        let sent_mbps = viewing.average_bitrate_mbps.unwrap() * played / seen.ended.as_secs_f64();
        assert!(sent_mbps < most_mbps, "{datapath}: {sent_mbps} of {most_mbps}");
        assert!(seen.processor.unwrap().busy <= seen.ended + Duration::from_millis(100), "{datapath}");
        assert!(viewing.processor_share.unwrap() > 0.5, "{datapath}: {viewing:?}");
    }
}

/// So many players at a server of which plain HTTP/3 would want three times as much.
fn short_of_processor(datapath: &str, scale: u32) -> f64 {
    let words = format!("players=12 datapath={datapath} processor=21 seconds=120 scale={scale}");
    watched(&words).2.viewing.average_bitrate_mbps.unwrap()
}

/// Each step does what the one before it does for less: the published gain of merging is a fifth, and that of
/// all is much.
#[test]
fn each_step_of_the_datapath_carries_more() {
    let steps = ["plain", "gso", "merging", "adaptive"].map(|datapath| short_of_processor(datapath, 100));
    assert!(steps.windows(2).all(|pair| pair[1] > pair[0] * 1.02), "{steps:?}");
    assert!(steps[3] > steps[0] * 2.0, "{steps:?}");
}

/// Where there is processor enough, no step takes anything from anybody.
#[test]
fn no_step_of_the_datapath_takes_anything() {
    let steps = ["plain", "gso", "merging", "adaptive"].map(|datapath| {
        let words = format!("players=2 datapath={datapath} processor=21 seconds=60 scale=100");
        watched(&words).2.viewing
    });
    for viewing in &steps {
        assert_eq!(viewing.stalls, Some(0.0), "{steps:?}");
        assert!(viewing.average_bitrate_mbps.unwrap() > 40.0, "{steps:?}");
    }
}

/// With twice as many packets, each in half the time, it is the same video.
#[test]
fn a_finer_scale_shows_the_same() {
    for datapath in ["plain", "merging"] {
        let [coarse, fine] = [100, 50].map(|scale| short_of_processor(datapath, scale));
        assert!((fine / coarse - 1.0).abs() < 0.05, "{datapath}: {coarse} and {fine}");
    }
}

/// The one number that was taken from the paper.
#[test]
fn plain_http3_carries_what_was_published() {
    let setting = setting("dash", "players=1 abr=dynamic datapath=plain scale=1");
    let cpu = setting.processor.unwrap();
    let mtu = f64::from(setting.flows[0].transport.mtu);
    // An acknowledgement of 35 bytes for two datagrams; the call that receives it has many.
    let received = f64::from(cpu.receive_datagram_ns) + 35.0 * f64::from(cpu.byte_ps) / 1e3;
    let sent = f64::from(cpu.send_batch_ns + cpu.send_datagram_ns) + mtu * f64::from(cpu.byte_ps) / 1e3;
    let gbps = (mtu - 36.0) * 8.0 / (sent + received / 2.0);
    assert!((gbps / 1.79 - 1.0).abs() < 0.03, "{gbps}");
}
