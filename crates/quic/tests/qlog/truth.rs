//! The same transfer seen by the simulator, by the counters, and by the traces of both ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use quickset_base::Duration;
use quickset_quic::qlog::Memory;
use quickset_quic::{Algorithm, Dir, Side, Stats, Version};
use quickset_sim::{Fate, Trace as Wire};
use serde_json::Value;

use crate::common::{Setup, pattern};
use crate::reading::{Trace, packet};

/// What was seen of a transfer that ended well.
struct Seen {
    memory: Memory,
    client: Stats,
    server: Stats,
    wire: Wire,
}

/// A client sends 400 kB through a link that loses 3 % and duplicates some, and closes.
fn transfer(seed: u64, congestion: &Algorithm) -> Seen {
    let memory = Memory::new();
    let sinks = Arc::new(memory.clone());
    let link = "rate=20mbit delay=20ms loss=3% duplicate=1% jitter=uniform:2ms reorder=yes";
    let setup = Setup::new(seed, link).transport(|t| {
        t.qlog = Some(sinks.clone());
        t.congestion = congestion.clone();
    });
    let mut pair = setup.pair();
    pair.world.trace(Wire::full());
    pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
    let (key, server_key) = (pair.key, pair.server_key());
    let id = pair.client_mut().send(key, Dir::Uni, pattern(400_000));
    pair.until("delivered", |p| p.client().delivered.contains(&(key, id)));
    let now = pair.world.now();
    pair.client_mut().connection(key).close(now, 7, b"enough");
    // The counters go with the connections, so they are read before those have drained; and before the first
    // probe timeout, of 40 ms and 25 at least, behind which the end is said again as it was, in no new
    // packet.
    pair.pass(Duration::from_millis(60));
    let client = pair.client_mut().connection(key).stats();
    let server = pair.server_mut().connection(server_key).stats();
    let wire = pair.world.take_trace().expect("a trace");
    Seen { memory, client, server, wire }
}

/// RFC 9368 §2.3: begun in version 1, gone on with in version 2, and both traces say when.
#[test]
fn a_change_of_version_is_told() {
    let memory = Memory::new();
    let sinks = Arc::new(memory.clone());
    let mut setup = Setup::new(1, "rate=20mbit delay=20ms").transport(|t| {
        t.qlog = Some(sinks.clone());
        t.versions = vec![Version::V2, Version::V1];
    });
    setup.client.first_version = Some(Version::V1);
    let mut pair = setup.pair();
    pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
    let both = Value::from(vec!["6b3343cf", "1"]);
    for side in [Side::Client, Side::Server] {
        let trace = Trace::of(&memory, side);
        let told: Vec<_> = trace
            .events
            .iter()
            .filter(|event| event["name"] == "transport:version_information")
            .map(|event| &event["data"])
            .collect();
        let chosen: Vec<_> = told.iter().map(|data| data["chosen_version"].as_str().unwrap()).collect();
        assert_eq!(chosen, ["1", "6b3343cf", "6b3343cf"], "{side}: the first, the change, the peer's word");
        let last = told.last().unwrap();
        assert_eq!((&last["client_versions"], &last["server_versions"]), (&both, &both), "{side}");
        let (known, unknown) = match side {
            Side::Client => ("client_versions", "server_versions"),
            Side::Server => ("server_versions", "client_versions"),
        };
        assert_eq!((&told[0][known], &told[0][unknown]), (&both, &Value::Null), "{side}");
    }
}

#[test]
fn counts_agree_with_the_counters_and_with_the_wire() {
    let mut time_and_order = [0; 2];
    for seed in quickset_sim::seeds(0..6) {
        let congestion = if seed % 2 == 0 { Algorithm::Cubic } else { Algorithm::Bbr };
        let seen = transfer(seed, &congestion);
        let mut bytes = 0;
        for (side, stats) in [(Side::Client, &seen.client), (Side::Server, &seen.server)] {
            let trace = Trace::of(&seen.memory, side);
            let told = [
                trace.count("transport:packet_sent"),
                trace.count("transport:packet_received"),
                trace.count("recovery:packet_lost"),
                trace.count("transport:packet_dropped"),
                trace.count("recovery:loss_timer_updated"),
            ];
            let dropped = stats.dropped_packets + stats.duplicate_packets;
            let counted =
                [stats.sent_packets, stats.received_packets, stats.lost_packets, dropped, stats.ptos];
            assert_eq!(told, counted, "seed {seed}, {side}");
            bytes += trace
                .named("transport:packet_sent")
                .map(|e| e["data"]["raw"]["length"].as_u64().expect("a length"))
                .sum::<u64>();
            for lost in trace.named("recovery:packet_lost") {
                time_and_order[usize::from(lost["data"]["trigger"] == "reordering_threshold")] += 1;
            }
        }
        let sent: u64 = seen.wire.records().iter().map(|r| u64::from(r.size)).sum();
        assert_eq!(bytes, sent, "seed {seed}: bytes in packets and on the wire");
        assert!(seen.client.lost_packets > 0, "seed {seed}: nothing was lost");
        let lost = |r: &&quickset_sim::TraceRecord| matches!(r.fate, Fate::Dropped(_));
        assert!(seen.wire.records().iter().filter(lost).count() > 0, "seed {seed}");
    }
    assert!(time_and_order.iter().all(|n| *n > 0), "both thresholds condemn packets: {time_and_order:?}");
}

#[test]
fn what_arrives_at_one_end_left_the_other() {
    let seen = transfer(11, &Algorithm::Bbr);
    let traces = [Side::Client, Side::Server].map(|side| Trace::of(&seen.memory, side));
    for (from, to) in [(0, 1), (1, 0)] {
        let mut sent = std::collections::BTreeMap::new();
        for event in traces[from].named("transport:packet_sent") {
            let frames = event["data"]["frames"].clone();
            assert!(sent.insert(packet(event), (time(event), frames)).is_none(), "sent twice: {event}");
        }
        let mut seen = BTreeSet::new();
        for event in traces[to].named("transport:packet_received") {
            let (left, frames) = &sent[&packet(event)];
            assert_eq!(*frames, event["data"]["frames"]);
            // Both began within the first 20 ms of virtual time; their reference times tell when.
            let (begin, end) = (reference(&traces[from]) + left, reference(&traces[to]) + time(event));
            assert!(end - begin >= 19.999, "20 ms of link: {begin} to {end}");
            assert!(seen.insert(packet(event)), "received twice: {event}");
        }
        for event in traces[from].named("recovery:packet_lost") {
            assert!(sent.contains_key(&packet(event)), "lost and never sent: {event}");
        }
    }
}

#[test]
fn time_never_goes_back_and_the_handshake_has_its_order() {
    let seen = transfer(3, &Algorithm::Cubic);
    for side in [Side::Client, Side::Server] {
        let trace = Trace::of(&seen.memory, side);
        assert!(trace.events.iter().map(time).is_sorted(), "{side}");
        let any = |_: &Value| true;
        let key = |name: &'static str| move |data: &Value| data["key_type"] == name;
        let owner = |name: &'static str| move |data: &Value| data["owner"] == name;
        let state = |name: &'static str| move |data: &Value| data["new"] == name;
        let of = |name: &'static str| move |data: &Value| data["header"]["packet_type"] == name;
        let updated = "security:key_updated";
        let order = [
            trace.position("connectivity:connection_started", any),
            trace.position("transport:parameters_set", owner("local")),
            trace.position(updated, key("client_initial_secret")),
            trace.position("transport:packet_received", of("initial")),
            trace.position(updated, key("client_handshake_secret")),
            trace.position(updated, key("server_1rtt_secret")),
            trace.position("connectivity:connection_state_updated", state("handshake_completed")),
            trace.position("connectivity:connection_state_updated", state("handshake_confirmed")),
            trace.position("security:key_retired", key("server_handshake_secret")),
            trace.position("connectivity:connection_closed", any),
        ];
        assert!(order.is_sorted(), "{side}: {order:?}");
        let first = trace.position("transport:packet_received", of("1RTT"));
        assert!(first > order[5], "{side}: a packet before its keys");
        let remote = trace.position("transport:parameters_set", owner("remote"));
        assert!(remote > order[3] && remote < first, "{side}");
        let closed = &trace.events[order[9]]["data"];
        let by = if side == Side::Client { "local" } else { "remote" };
        assert_eq!((&closed["owner"], &closed["application_code"]), (&by.into(), &7.into()), "{side}");
        assert_eq!(closed["reason"], "enough");
    }
}

/// The path as the records left it is the path as the counters have it.
#[test]
fn metrics_add_up_to_the_counters() {
    for congestion in [Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr, Algorithm::Fixed(10_000_000)] {
        let has_threshold = matches!(congestion, Algorithm::Cubic | Algorithm::NewReno);
        let seen = transfer(5, &congestion);
        let trace = Trace::of(&seen.memory, Side::Client);
        let mut last = serde_json::Map::new();
        for event in trace.named("recovery:metrics_updated") {
            let data = event["data"].as_object().expect("an object");
            assert!(!data.is_empty(), "nothing changed, and it is told");
            for (name, value) in data {
                assert_ne!(last.insert(name.clone(), value.clone()).as_ref(), Some(value), "{name}");
            }
        }
        let ms = |name: &str| last[name].as_f64().expect("a number");
        let close = |told: f64, counted: Duration| (told - counted.as_secs_f64() * 1e3).abs() < 1e-3;
        assert!(close(ms("smoothed_rtt"), seen.client.rtt), "{last:?}");
        assert!(close(ms("min_rtt"), seen.client.min_rtt), "{last:?}");
        assert_eq!(last["congestion_window"], seen.client.window);
        assert_eq!(last["pacing_rate"], seen.client.pacing_rate * 8);
        assert_eq!(last.get("ssthresh").is_some(), has_threshold);
        assert_eq!(last.get("bandwidth_estimate").is_some(), congestion == Algorithm::Bbr);
        let state = trace.named("recovery:congestion_state_updated").last().expect("a state");
        assert_eq!(state["data"]["new"], seen.client.congestion_state.replace(' ', "_"));
    }
}

#[test]
fn equal_seeds_give_equal_traces() {
    let texts = |seed| transfer(seed, &Algorithm::Bbr).memory.traces();
    assert_eq!(texts(9), texts(9));
    assert_ne!(texts(9), texts(10));
}

fn time(event: &Value) -> f64 {
    event["time"].as_f64().expect("a time")
}

fn reference(trace: &Trace) -> f64 {
    trace.header["trace"]["common_fields"]["reference_time"].as_f64().expect("a time")
}
