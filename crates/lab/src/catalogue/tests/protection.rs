//! The experiments with protection: what the keys say, and what repair does.

use quickset_policies::PublishedPolicy;
use quickset_quic::Protection;

use super::*;

/// The keys of protection, and what they leave alone.
#[test]
fn protection_is_what_the_key_says() {
    let plain = &setting("bulk", "size=1MB owd_ms=20 rate_mbit=5 loss=1% rwin=100kB").flows[0];
    // Handshakes of the same length meet the same losses.
    assert!(plain.transport.fec.is_some() && plain.protection == Protection::None);
    let flow =
        &setting("bulk", "size=1MB owd_ms=20 rate_mbit=5 loss=1% rwin=100kB fec=bulk fec_window=77").flows[0];
    assert_eq!(flow.protection, PublishedPolicy::Bulk.into());
    let fec = flow.transport.fec.as_ref().unwrap();
    assert_eq!((fec.window, fec.sessions, fec.symbol), (77, 2, 1350));
    // Repair symbols take 5 % of the memory.
    assert_eq!((plain.transport.stream_window, flow.transport.stream_window), (100_000, 95_000));
    assert_eq!(flow.transport.max_connection_window, 95_000);
}

/// Half of the updates of plain QUIC wait for a retransmission; with repair behind each nobody does.
#[test]
fn repair_brings_back_what_is_lost_before_anybody_waits() {
    let words = "profile=ours updates=20 loss=2% rtt_ms=100 rate_mbit=20 pace=10 mode=partial";
    let streaming = find("screen-streaming").unwrap();
    let play = |fec: &str| row(streaming, &point("screen-streaming", &format!("{words} fec={fec}")), 4);
    let (plain, repaired) = (play("none"), play("rs:115/100"));
    let (without, with) = (&plain.metrics.counted, &repaired.metrics.counted);
    assert_eq!((without.blocks, without.repair_bytes, without.recovered), (0, 0, 0));
    assert!(plain.metrics.repair.repair_share.is_none());
    // A block an update, and fifteen symbols of a packet's length for a hundred.
    assert_eq!(with.blocks, 20);
    let share = repaired.metrics.repair.repair_share.unwrap();
    assert!((0.12..0.135).contains(&share), "{share}");
    assert!(with.recovered > 20 && with.failed_blocks == 0, "{with:?}");
    let expected = repaired.metrics.repair.failed_blocks_expected.unwrap();
    assert!(expected < 1e-3, "{expected}");
    let longest = |row: &Row| row.metrics.times.blocking_ms.unwrap().max;
    // What is sent again takes a round trip at least; an update is on the wire for 62 ms, its repair
    // included.
    let (plain, repaired) = (longest(&plain), longest(&repaired));
    assert!(plain > 100.0 && repaired < 62.0, "{plain} {repaired}");
}

/// A request is a block of one symbol, and repair for it goes at once.
#[test]
fn requests_are_protected_too() {
    let setting = setting(
        "screen-interactive",
        "profile=ours updates=30 messages=5 loss=0 rtt_ms=20 rate_mbit=20 mode=partial fec=rs:105/100",
    );
    let seen = virtually(&setting, 1).unwrap();
    let sent = seen.flows[0].client.fec;
    assert_eq!((sent.sources_sent, sent.repairs_sent, sent.blocks), (30, 30, 30));
}

#[test]
fn a_ratio_is_to_the_same_download_without_repair() {
    let words = "size=200kB owd_ms=30 rate_mbit=5 loss=5%";
    let bulk = find("bulk").unwrap();
    let play = |fec: &str| row(bulk, &point("bulk", &format!("{words} fec={fec}")), 2).metrics;
    let (plain, repaired) = (play("none"), play("bulk"));
    assert_eq!(plain.dct_ratio, None);
    let expected = repaired.dct_s.unwrap() / plain.dct_s.unwrap();
    assert!((repaired.dct_ratio.unwrap() - expected).abs() < 1e-12);
}

/// A flow that never ends has a second half, beside another one or alone.
#[test]
fn harm_is_measured_where_nothing_ends() {
    let words = "rival=cubic queue=1bdp loss=0 seconds=9 rate_mbit=8 rtt_ms=20 fec=rs:110/100";
    let metrics = row(find("no-harm").unwrap(), &point("no-harm", words), 1).metrics;
    assert!(metrics.finished);
    let (share, used) = (metrics.first_share.unwrap(), metrics.utilisation.unwrap());
    assert!((0.1..0.9).contains(&share), "{share}");
    // Repair is no payload: a tenth of the first flow's part.
    assert!((0.8..0.99).contains(&used), "{used}");
    assert!(metrics.repair.repair_share_late.unwrap() > 0.07);
}

/// What the library has a name for delivers all of it, over losses one by one and in bursts.
#[test]
fn every_protection_delivers_everything() {
    let streaming = find("screen-streaming").unwrap();
    let words = "profile=ours updates=8 messages=40 rate_mbit=20 rtt_ms=60 mode=partial";
    for (loss, fec) in
        ["3%", "ge:1%,30%"].iter().flat_map(|loss| PROTECTIONS.iter().map(move |fec| (loss, fec)))
    {
        let point = point("screen-streaming", &format!("{words} loss={loss} fec={fec}"));
        let metrics = row(streaming, &point, 1).metrics;
        assert!(metrics.finished && metrics.broken.is_none(), "{fec}, {loss}: {metrics:?}");
        assert_eq!(metrics.counted.messages_delivered, 320, "{fec}, {loss}");
    }
}

const PROTECTIONS: &[&str] = &[
    "adaptive",
    "adaptive:bulk",
    "adaptive:screen",
    "adaptive:messages",
    "sr",
    "fixed:10",
    "ac-rlnc",
    "bulk",
    "buffer",
    "messages",
    "rs:105/100",
    "rs:110/100:stride=4",
    "ldpc:110/100",
    "xor:5",
    "xor2d:5x5",
    "tum:3",
    "tum:2:10ms",
];

/// What is not repaired has the losses of what is, packet by packet, until the first of them is sent again.
#[test]
fn selective_repeat_is_plain_but_for_headers() {
    let bulk = find("bulk").unwrap();
    for seed in 1..=6 {
        let words = "size=40kB owd_ms=30 rate_mbit=10 loss=6%";
        let play = |fec: &str| row(bulk, &point("bulk", &format!("{words} fec={fec}")), seed).metrics;
        let (plain, repeated) = (play("none"), play("sr"));
        let (plain_s, repeated_s) = (plain.dct_s.unwrap(), repeated.dct_s.unwrap());
        assert!((repeated_s / plain_s - 1.0).abs() < 0.05, "seed {seed}: {plain_s} s, {repeated_s} s");
    }
}

/// Sound and frames fill seven tenths of the link, and sound bears a queue of 60 ms. Repair may not take what
/// is left: most of what is late there is so for want of room, whatever is lost.
#[test]
fn repair_of_messages_leaves_them_room() {
    let messages = find("messages").unwrap();
    let on_time = |link: &str, fec: &str| {
        let words = format!("{link} fec={fec} api=yes mode=plain owd_ms=50 loss=1% messages=1200");
        row(messages, &point("messages", &words), 1).metrics.promptness.on_time.unwrap()
    };
    let tight = "traffic=video+audio rate_mbit=0.8";
    let (plain, adaptive) = (on_time(tight, "none"), on_time(tight, "adaptive:messages"));
    assert!(plain > 0.9 && adaptive > plain - 0.03, "{plain} without, {adaptive} with");
    // Where there is room, it brings back sound that a resend would not.
    let wide = "traffic=video/audio rate_mbit=4";
    let (plain, adaptive) = (on_time(wide, "none"), on_time(wide, "adaptive:messages"));
    assert!(1.0 - adaptive < (1.0 - plain) / 5.0, "{plain} without, {adaptive} with");
}

/// Ten minutes of sound at 1 % loss and 50 ms each way, with each of the experiment's seeds: at least 99.8 %
/// come in time for a delay of 120 ms, for at most half of the bytes more, by the policy that the gateway
/// has. In order, with resends alone, each loss holds up what is behind it.
#[test]
fn sound_comes_in_time_where_resends_do_not() {
    let sound = find("sound").unwrap();
    for seed in 1..=u64::from(sound.seeds) {
        let play = |words: &str| {
            let metrics = row(sound, &point("sound", &format!("{words} loss=1% owd_ms=50")), seed).metrics;
            let (on_time, bytes) = (metrics.promptness.on_time.unwrap(), metrics.counted.bytes_sent);
            println!("seed {seed} {words}: {:.3} % in time, {bytes} bytes", on_time * 100.0);
            (on_time, bytes as f64)
        };
        let (as_tcp, tcp_bytes) = play("mode=total api=no fec=none");
        let (plain, _) = play("mode=plain api=yes fec=none");
        for fec in ["adaptive:messages", "messages:10ms"] {
            play(&format!("mode=plain api=yes fec={fec}"));
        }
        let (repaired, bytes) = play("mode=plain api=yes fec=messages");
        assert!(repaired >= 0.998, "seed {seed}: {repaired}");
        assert!(bytes <= 1.5 * tcp_bytes, "seed {seed}: {bytes} against {tcp_bytes}");
        // Without repair what is lost is too late: one in a hundred, and in order those behind it too.
        assert!((0.985..0.995).contains(&plain), "seed {seed}: {plain}");
        assert!(as_tcp < plain - 0.01, "seed {seed}: {as_tcp}");
    }
}
