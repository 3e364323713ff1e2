//! What a recorded run leaves, against what its row says.

use std::sync::atomic::AtomicBool;

use quickset_lab::catalogue;
use quickset_lab::experiment::Overrides;
use quickset_lab::run::{RunJob, RunOptions, play};

#[test]
fn a_recorded_run_leaves_packets_and_traces_that_agree_with_its_row() {
    let dir = std::env::temp_dir().join(format!("quickset-recording-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let experiment = catalogue::find("screen-streaming").unwrap();
    let set = ["profile=ours", "mode=partial", "loss=1%", "updates=5", "messages=20"];
    let points = experiment.points(&Overrides::parse(&set.map(str::to_owned)).unwrap()).unwrap();
    let job = RunJob { experiment: experiment.name.to_owned(), params: points[0].clone(), seed: 3 };
    let quiet = RunOptions { commit: "test".into(), threads: 1, ..RunOptions::default() };
    let recorded = RunOptions { record: Some(dir.clone()), ..quiet.clone() };
    let go_on = AtomicBool::new(false);
    let mut row = play(experiment, &job, &recorded, &go_on, &mut |_| {}).unwrap();
    let mut unrecorded = play(experiment, &job, &quiet, &go_on, &mut |_| {}).unwrap();
    (row.detail.wall_s, unrecorded.detail.wall_s) = (0.0, 0.0);
    assert_eq!(row, unrecorded, "who looks on changes nothing");

    let folder = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let run: serde_json::Value = serde_json::from_slice(&read("run.json")).unwrap();
    assert_eq!((&run["seed"], &run["params"]["loss"]), (&3.into(), &0.01.into()));
    // All of the server's packets: what its trace says were sent, less coalesced ones, is what was captured
    // there.
    let trace = String::from_utf8(read("screen_server.sqlog")).unwrap();
    let sent = trace.matches("\"transport:packet_sent\"").count() as u64;
    let packets = packets(&read("screen_server.pcap"));
    let from_server = packets.iter().filter(|source| **source == [10, 0, 0, 2]).count() as u64;
    assert!(from_server > 100 && sent >= from_server && sent < from_server + 10, "{sent}, {from_server}");
    // The client's side of the link lacks what was lost on it.
    let at_client = read("screen_client.pcap");
    let arrived = self::packets(&at_client).iter().filter(|source| **source == [10, 0, 0, 2]).count() as u64;
    let missing = from_server - arrived;
    assert!(missing >= row.metrics.counted.lost && missing < row.metrics.counted.lost + 60, "{missing}");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The source address of each packet: a header of 24 bytes, then 16 bytes and an IPv4 packet each, the length
/// in the third word (pcap-savefile(5), little-endian here).
fn packets(pcap: &[u8]) -> Vec<[u8; 4]> {
    let mut rest = &pcap[24..];
    let mut sources = Vec::new();
    while rest.len() > 16 {
        let length = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
        let packet = &rest[16..16 + length];
        sources.push(packet[12..16].try_into().expect("four bytes"));
        rest = &rest[16 + length..];
    }
    sources
}
