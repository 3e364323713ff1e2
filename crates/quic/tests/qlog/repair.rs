//! The events of forward erasure correction, against the counters and the packets.

use std::collections::BTreeSet;
use std::sync::Arc;

use quickset_base::Duration;
use quickset_policies::read;
use quickset_quic::qlog::Memory;
use quickset_quic::{Dir, Fec, FecStats, Side};
use serde_json::{Value, json};

use crate::common::{Setup, pattern};
use crate::reading::Trace;

/// A client sends 400 kB, protected like this, through a link that loses 3 %, and closes: the traces of both
/// ends, and the counters.
fn transfer(seed: u64, protection: &str) -> (Memory, [FecStats; 2]) {
    let memory = Memory::new();
    let sinks = Arc::new(memory.clone());
    let setup = Setup::new(seed, "rate=20mbit delay=20ms loss=3%").transport(|t| {
        t.qlog = Some(sinks.clone());
        t.fec = Some(Fec::default().with_protection(read(protection).expect("a name")));
    });
    let mut pair = setup.connected();
    let (key, server_key) = (pair.key, pair.server_key());
    let id = pair.client_mut().send(key, Dir::Uni, pattern(400_000));
    pair.until("delivered", |p| p.client().delivered.contains(&(key, id)));
    let now = pair.world.now();
    pair.client_mut().connection(key).close(now, 0, b"");
    pair.pass(Duration::from_millis(70));
    let client = pair.client_mut().connection(key).stats().fec;
    let server = pair.server_mut().connection(server_key).stats().fec;
    (memory, [client, server])
}

#[test]
fn counters_are_told_now_and_then_and_at_the_end() {
    for seed in quickset_sim::seeds(0..3) {
        let (memory, counters) = transfer(seed, "fixed:10");
        for (side, stats) in [Side::Client, Side::Server].into_iter().zip(counters) {
            let trace = Trace::of(&memory, side);
            let told: Vec<&Value> = trace.named("quickset:fec_updated").collect();
            let times: Vec<f64> = told.iter().map(|e| e["time"].as_f64().expect("a time")).collect();
            // The last one is that of the end, and comes when it comes.
            let seldom = times[..times.len() - 1].windows(2).all(|w| w[1] - w[0] >= 100.0);
            assert!(seldom && times.len() > 2, "seed {seed}, {side}: {times:?}");
            let mut last = told.last().expect("at least one")["data"].clone();
            let data = last.as_object_mut().expect("an object");
            let loss = data.remove("loss").and_then(|loss| loss.as_f64()).expect("a share");
            // The estimate moves on by itself, which is not told.
            assert!((0.0..0.2).contains(&loss), "seed {seed}, {side}: {loss}");
            data.remove("redundancy");
            let expected = json!({
                "sources_sent": stats.sources_sent,
                "repeats_sent": stats.repeats_sent,
                "repairs_sent": stats.repairs_sent,
                "repair_bytes": stats.repair_bytes,
                "recovered": stats.recovered,
                "unrecovered": stats.unrecovered,
                "blocks": stats.blocks,
                "failed_blocks": stats.failed_blocks,
                "sources_received": stats.sources_received,
                "repairs_received": stats.repairs_received,
                "recovered_here": stats.recovered_here,
            });
            assert_eq!(last, expected, "seed {seed}, {side}");
        }
        // Redundancy is that since the record before, and one in ten in all.
        let client = Trace::of(&memory, Side::Client);
        let mut before = [0.0; 2];
        for event in client.named("quickset:fec_updated") {
            let totals =
                ["repairs_sent", "sources_sent"].map(|n| event["data"][n].as_f64().expect("a count"));
            let [repairs, sources] = [totals[0] - before[0], totals[1] - before[1]];
            let told = event["data"]["redundancy"].as_f64();
            let close = told.is_some_and(|told| (told * sources - repairs).abs() < 1e-6);
            assert!(close || (told.is_none() && sources < 0.5), "seed {seed}: {event}");
            before = totals;
        }
        assert!((0.08..0.12).contains(&(before[0] / before[1])), "seed {seed}: {before:?}");
    }
}

#[test]
fn each_recovered_symbol_is_told_once_and_was_sent() {
    for seed in quickset_sim::seeds(0..3) {
        let (memory, [_, server]) = transfer(seed, "fixed:10");
        let names = |data: &Value| {
            let [session, sid] = ["session", "sid"].map(|name| data[name].as_u64().expect("a number"));
            (session, sid)
        };
        let trace = Trace::of(&memory, Side::Server);
        let told: Vec<_> = trace.named("quickset:symbol_recovered").map(|e| names(&e["data"])).collect();
        let once: BTreeSet<_> = told.iter().copied().collect();
        assert_eq!((told.len() as u64, once.len()), (server.recovered_here, told.len()), "seed {seed}");
        assert!(!told.is_empty(), "seed {seed}: nothing was recovered");
        let client = Trace::of(&memory, Side::Client);
        let frames = || {
            let packets = client.named("transport:packet_sent");
            packets.filter_map(|e| e["data"]["frames"].as_array()).flatten()
        };
        let mut sent: BTreeSet<_> =
            frames().filter(|f| f["extension"] == "source_symbol").map(names).collect();
        // The first ones are told with the repair: SIDs from 0 on, a packet for each.
        for frame in frames().filter(|f| f["extension"] == "unmarked") {
            let [session, packets] =
                ["session", "packets"].map(|name| frame[name].as_u64().expect("a number"));
            sent.extend((0..packets.count_ones().into()).map(|sid| (session, sid)));
        }
        assert!(once.is_subset(&sent), "seed {seed}: {once:?}");
        assert_eq!(client.count("quickset:symbol_recovered"), 0, "the server sends no symbols");
    }
}

/// What is padded to be as long as the rest of its batch is what the last byte of a transfer would wait for.
#[test]
fn the_last_flight_is_not_padded() {
    let memory = Memory::new();
    let sinks = Arc::new(memory.clone());
    let setup = Setup::new(5, "rate=20mbit delay=20ms").transport(|t| {
        t.qlog = Some(sinks.clone());
        t.fec = Some(Fec::default().with_protection(read("bulk").expect("a name")));
    });
    let mut pair = setup.connected();
    let key = pair.key;
    let id = pair.client_mut().send(key, Dir::Uni, pattern(10_000));
    pair.until("delivered", |p| p.client().delivered.contains(&(key, id)));
    let trace = Trace::of(&memory, Side::Client);
    let frames = trace.named("transport:packet_sent").filter_map(|e| e["data"]["frames"].as_array());
    let data: Vec<_> = frames.filter(|f| f.iter().any(|f| f["frame_type"] == "stream")).collect();
    assert!(data.len() > 7, "10 kB are eight packets at least: {data:?}");
    let padded = data.iter().filter(|f| f.iter().any(|f| f["frame_type"] == "padding")).count();
    assert_eq!(padded, 0, "{data:?}");
}

/// Viewers that take only what they know go on behind these.
#[test]
fn other_readers_pass_them() {
    let (memory, _) = transfer(1, "fixed:10");
    for written in memory.traces() {
        let ours = Trace::parse(&written.text);
        let bytes = std::io::Cursor::new(written.text.into_bytes());
        let reader = qlog::reader::QlogSeqReader::new(Box::new(bytes)).expect("a header");
        let theirs: Vec<_> = reader.collect();
        assert_eq!(theirs.len(), ours.events.len(), "each record is read");
        for (event, ours) in theirs.iter().zip(&ours.events) {
            let known = matches!(event, qlog::reader::Event::Qlog(_));
            let name = ours["name"].as_str().expect("a name");
            assert_eq!(known, !name.starts_with("quickset:"), "{name}");
        }
    }
}

#[test]
fn without_protection_there_is_nothing_to_tell() {
    let (memory, _) = transfer(2, "none");
    for written in memory.traces() {
        let told = written.text.replace("quickset:ecn_updated", "");
        assert!(!told.contains("quickset:"), "{}", written.subject.side);
    }
}
