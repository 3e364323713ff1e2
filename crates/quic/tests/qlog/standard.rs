//! What qvis and other readers rely on, and what no reader may see.

use std::sync::Arc;

use bytes::Bytes;
use quickset_base::Duration;
use quickset_quic::null::NullSecrets;
use quickset_quic::qlog::Memory;
use quickset_quic::{ConnectionId, Dir, EndpointCrypto as _, Event, RetryPolicy, Side};
use serde_json::Value;

use crate::common::{Pair, Setup, pattern};
use crate::reading::Trace;

fn traced(seed: u64, link: &str) -> (Memory, Setup) {
    let memory = Memory::new();
    let sinks = Arc::new(memory.clone());
    (memory, Setup::new(seed, link).transport(|t| t.qlog = Some(sinks.clone())))
}

/// Both ends close and forget each other.
fn end(pair: &mut Pair) {
    let (key, now) = (pair.key, pair.world.now());
    pair.client_mut().connection(key).close(now, 0, b"");
    pair.pass(Duration::from_secs(10));
}

/// A connection that does most of what connections do: Retry, streams both ways, messages, a key update,
/// losses.
fn busy(seed: u64) -> (Memory, Pair) {
    let (memory, setup) = traced(seed, "rate=20mbit delay=10ms loss=2% jitter=uniform:1ms reorder=yes");
    let setup = Setup { retry: RetryPolicy::Always, ..setup };
    let mut pair = setup.connected();
    pair.server_mut().echo = true;
    let (key, now) = (pair.key, pair.world.now());
    let id = pair.client_mut().send(key, Dir::Bi, pattern(100_000));
    let connection = pair.client_mut().connection(key);
    let messages = connection.streams().open_messages(Dir::Uni).expect("a stream");
    for n in 0..50 {
        connection.messages(messages).send(now, Bytes::from(vec![n; 700]), None).expect("room");
        if n % 10 == 9 {
            connection.messages(messages).fence().expect("a stream of messages");
        }
    }
    pair.until("echoed", |p| p.client().finished.contains(&(key, id)));
    let now = pair.world.now();
    assert!(pair.client_mut().connection(key).update_keys(now));
    let id = pair.client_mut().send(key, Dir::Bi, pattern(10_000));
    pair.until("echoed", |p| p.client().finished.contains(&(key, id)));
    (memory, pair)
}

/// The crate `qlog`, which is others' work, reads each record as an event that the standard knows.
#[test]
fn every_record_is_an_event_of_the_standard() {
    let (memory, mut pair) = busy(22);
    end(&mut pair);
    for written in memory.traces() {
        let ours = Trace::parse(&written.text);
        let bytes = std::io::Cursor::new(written.text.into_bytes());
        let reader = qlog::reader::QlogSeqReader::new(Box::new(bytes)).expect("a header");
        let theirs: Vec<_> = reader.collect();
        assert_eq!(theirs.len(), ours.events.len(), "each record is read");
        for (event, ours) in theirs.iter().zip(&ours.events) {
            let is_later = ours["name"] == "quickset:ecn_updated";
            assert!(is_later || matches!(event, qlog::reader::Event::Qlog(_)), "not of the standard: {ours}");
        }
        let names: std::collections::BTreeSet<_> =
            ours.events.iter().map(|e| e["name"].as_str().expect("a name")).collect();
        for name in [
            "connectivity:connection_started",
            "connectivity:connection_state_updated",
            "connectivity:connection_id_updated",
            "connectivity:connection_closed",
            "connectivity:mtu_updated",
            "security:key_updated",
            "security:key_retired",
            "transport:version_information",
            "transport:alpn_information",
            "transport:parameters_set",
            "transport:packet_sent",
            "transport:packet_received",
            "recovery:parameters_set",
            "recovery:metrics_updated",
            "recovery:congestion_state_updated",
            "recovery:packet_lost",
        ] {
            // The server knows the client's id from the start and keeps to it.
            let never = written.subject.side == Side::Server && name == "connectivity:connection_id_updated";
            assert!(never || names.contains(name), "{}: no {name}", written.subject.side);
        }
    }
}

/// qvis looks for these before it loads a file, and for lengths and ranges when it draws.
#[test]
fn the_header_and_packets_have_what_qvis_reads() {
    let (memory, mut pair) = busy(22);
    end(&mut pair);
    let id = memory.traces()[0].subject.original_dcid;
    for side in [Side::Client, Side::Server] {
        let Trace { header, events } = Trace::of(&memory, side);
        assert_eq!(header["qlog_version"], "0.3");
        assert_eq!(header["qlog_format"], "JSON-SEQ");
        let trace = &header["trace"];
        assert_eq!(trace["vantage_point"]["type"], side.to_string());
        assert_eq!(trace["common_fields"]["time_format"], "relative");
        assert!(trace["common_fields"]["reference_time"].is_number());
        assert_eq!(trace["common_fields"]["group_id"], id.to_string(), "the same at both ends");
        for event in events {
            assert!(event["time"].is_number() && event["data"].is_object(), "{event}");
            if let "transport:packet_sent" | "transport:packet_received" =
                event["name"].as_str().expect("a name")
            {
                check_packet(&event["data"]);
            }
        }
    }
}

fn check_packet(data: &Value) {
    let kind = data["header"]["packet_type"].as_str().expect("a packet type");
    assert!(["initial", "handshake", "1RTT", "retry"].contains(&kind), "{data}");
    let length = data["raw"]["length"].as_u64().expect("a length");
    if kind == "retry" {
        return;
    }
    assert!(data["header"]["packet_number"].is_u64());
    assert!(data["raw"]["payload_length"].as_u64().expect("a length") < length, "{data}");
    let frames = data["frames"].as_array().expect("frames");
    assert!(!frames.is_empty());
    for frame in frames {
        let needed: &[&str] = match frame["frame_type"].as_str().expect("a frame type") {
            "ack" => {
                for range in frame["acked_ranges"].as_array().expect("ranges") {
                    assert!(range[0].as_u64() <= range[1].as_u64() && range[1].is_u64(), "{frame}");
                }
                &["ack_delay"]
            }
            "crypto" => &["offset", "length"],
            "stream" => &["stream_id", "offset", "length"],
            "new_connection_id" => &["sequence_number", "connection_id"],
            "retire_connection_id" => &["sequence_number"],
            "max_data" => &["maximum"],
            "max_stream_data" => &["stream_id", "maximum"],
            "max_streams" => &["stream_type", "maximum"],
            "unknown" => &["raw_frame_type", "raw"],
            "padding" => &["length"],
            "ping" | "handshake_done" | "new_token" | "connection_close" => &[],
            other => panic!("{other}"),
        };
        assert!(needed.iter().all(|member| !frame[member].is_null()), "{frame}");
    }
}

/// FENCED frames are unknown to viewers, and all that they say is there to read.
#[test]
fn frames_of_messages_can_be_read() {
    let (memory, mut pair) = busy(23);
    end(&mut pair);
    let trace = Trace::of(&memory, Side::Client);
    let mut covered = std::collections::BTreeMap::new();
    for event in trace.named("transport:packet_sent") {
        for frame in event["data"]["frames"].as_array().expect("frames") {
            if frame["extension"] != "fenced" {
                continue;
            }
            assert_eq!(frame["frame_type"], "unknown");
            let kind = frame["raw_frame_type"].as_u64().expect("a type");
            assert!((0x3f50..=0x3f57).contains(&kind), "{kind:#x}");
            assert_eq!(frame["fin"], kind & 1 != 0);
            assert_eq!(frame["start"], kind & 2 != 0);
            assert_eq!(frame["each"], kind & 4 != 0);
            let [offset, length, distance] =
                ["offset", "length", "distance"].map(|name| frame[name].as_u64().expect("a number"));
            assert!(distance <= offset, "{frame}");
            assert!(frame["raw"]["length"].as_u64().expect("a length") > length);
            covered.insert(offset, length);
        }
    }
    // 50 records of 700 bytes, each behind a length of two bytes; losses send some again.
    let mut end = 0;
    for (offset, length) in covered {
        assert!(offset <= end, "a hole at {end}");
        end = end.max(offset + length);
    }
    assert_eq!(end, 50 * 702);
}

#[test]
fn key_updates_are_told_by_who_began_them() {
    let (memory, _pair) = busy(24);
    for (side, trigger) in [(Side::Client, "local_update"), (Side::Server, "remote_update")] {
        let trace = Trace::of(&memory, side);
        let updates: Vec<_> = trace
            .named("security:key_updated")
            .filter(|e| e["data"]["generation"] == 1)
            .map(|e| (e["data"]["key_type"].as_str(), e["data"]["trigger"].as_str()))
            .collect();
        let both = ["client_1rtt_secret", "server_1rtt_secret"].map(|key| (Some(key), Some(trigger)));
        assert_eq!(updates, both, "{side}");
    }
}

#[test]
fn nothing_secret_is_told() {
    let seed = 25;
    let (memory, mut pair) = busy(seed);
    let tokens: Vec<Vec<u8>> = (pair.client().events.iter())
        .filter_map(|event| if let Event::NewToken(token) = event { Some(token.clone()) } else { None })
        .collect();
    assert!(!tokens.is_empty(), "no token was given");
    end(&mut pair);
    let texts: Vec<String> = memory.traces().into_iter().map(|trace| trace.text).collect();
    let told = |secret: &[u8]| {
        let hex = secret.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        texts.iter().any(|text| text.contains(&hex))
    };
    assert!(told(&memory.traces()[0].subject.original_dcid), "what is told is found");
    for token in &tokens {
        assert!(!told(&token[..16]), "an address validation token");
    }
    let mut ids = 0;
    for text in &texts {
        for event in Trace::parse(text).events {
            visit(&event, &mut |name, value| {
                assert!(!name.contains("reset_token"), "{event}");
                if name == "token" {
                    let members: Vec<_> = value["raw"].as_object().expect("an object").keys().collect();
                    assert_eq!(members, ["length"], "{event}");
                }
                if name == "new" && event["name"] == "security:key_updated" {
                    assert_eq!(*value, "", "a key");
                }
                if name == "connection_id" || name == "initial_source_connection_id" {
                    let id = value.as_str().expect("digits");
                    let bytes: Vec<u8> = (0..id.len() / 2)
                        .map(|i| u8::from_str_radix(&id[2 * i..2 * i + 2], 16).expect("digits"))
                        .collect();
                    let id = ConnectionId::new(&bytes).expect("an id");
                    for secrets in [NullSecrets(2 * seed + 1), NullSecrets(2 * seed + 2)] {
                        assert!(!told(&secrets.reset_token(&id).0), "the reset token of {id}");
                    }
                    ids += 1;
                }
            });
        }
    }
    assert!(ids > 4, "ids were exchanged");
}

/// Calls `f` with each member of each object inside.
fn visit(value: &Value, f: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                f(name, value);
                visit(value, f);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| visit(value, f)),
        _ => {}
    }
}
