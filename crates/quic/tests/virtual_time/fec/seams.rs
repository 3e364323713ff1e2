//! Where channels, sessions and streams meet: what shares a packet, what changes hands, what ends early.

use std::collections::BTreeMap;

use quickset_base::Duration;
use quickset_policies::read;
use quickset_quic::{ConnectionKey, Dir, Protection, StreamId};

use super::{protected, stats};
use crate::common::{Pair, pattern};

const LOSSY: &str = "rate=20mbit delay=20ms queue=1MB loss=3%";

fn protection(text: &str) -> Protection {
    read(text).expect("a protection")
}

/// Opens a stream with `protection` and lets it carry `len` bytes.
fn stream(pair: &mut Pair, protection: &str, len: usize) -> StreamId {
    let key = pair.key;
    let connection = pair.client_mut().connection(key);
    let id = connection.streams().open(Dir::Uni).expect("a stream");
    connection.send_stream(id).set_protection(&self::protection(protection)).expect("it is open");
    pair.client_mut().send_on(key, id, pattern(len).into());
    id
}

/// Waits until these streams were received whole.
fn arrived(pair: &mut Pair, streams: &BTreeMap<StreamId, usize>) {
    let at = pair.server_key();
    let all: Vec<(ConnectionKey, StreamId)> = streams.keys().map(|id| (at, *id)).collect();
    pair.until("received", |p| all.iter().all(|stream| p.server().finished.contains(stream)));
    for (id, len) in streams {
        assert!(pair.server().received[&(at, *id)] == pattern(*len), "stream {id}");
    }
    assert!(pair.client().closed.is_empty() && pair.server().closed.is_empty());
}

/// FEC-15: small streams of two channels take turns, and three of them fit a packet.
#[test]
fn a_channel_has_one_symbol_in_a_packet_whoever_comes_between() {
    for seed in 0..4 {
        let mut pair = protected(seed, LOSSY, "fixed:4").connected();
        let mut streams = BTreeMap::new();
        for n in 0..40 {
            let of = ["none", "fixed:4", "xor:2"][n % 3];
            streams.insert(stream(&mut pair, of, 300), 300);
        }
        arrived(&mut pair, &streams);
    }
}

/// What is in flight as a symbol when its channel goes is lost or arrives like anything else.
#[test]
fn a_protection_that_is_taken_away_takes_no_data_with_it() {
    for text in ["fixed:10", "rs:110/100", "xor2d:4x4"] {
        for other in ["none", "tum:2", "rs:120/100", "xor:3"] {
            let mut pair = protected(7, LOSSY, "none").connected();
            let (key, len) = (pair.key, 300_000);
            let id = stream(&mut pair, text, len);
            for turn in 0..6 {
                pair.pass(Duration::from_millis(35));
                let text = [other, text][turn % 2];
                let connection = pair.client_mut().connection(key);
                if connection.stream(id).send_state().is_some() {
                    connection.send_stream(id).set_protection(&protection(text)).expect("it is open");
                }
            }
            arrived(&mut pair, &BTreeMap::from([(id, len)]));
        }
    }
}

/// A stream that takes the session of one before it knows nothing of that.
#[test]
fn a_session_that_changes_hands_owes_nothing() {
    let mut pair = protected(8, "rate=20mbit delay=20ms queue=1MB", "none")
        .transport(|t| t.fec.as_mut().expect("an offer").sessions = 1)
        .connected();
    for n in 1..=20 {
        let id = stream(&mut pair, "fixed:10", 30_000);
        arrived(&mut pair, &BTreeMap::from([(id, 30_000)]));
        pair.pass(Duration::from_millis(200));
        let (client, _) = stats(&mut pair);
        let f = client.fec;
        assert!(f.sources_sent > 20 * n && f.repairs_sent * 10 <= f.sources_sent, "stream {n}: {f:?}");
        assert!(f.repairs_sent * 10 + 10 * n > f.sources_sent, "stream {n}: {f:?}");
    }
}

/// FEC_WINDOW under way: smaller, larger, nothing, and something again.
#[test]
fn the_decoder_changes_its_window_in_the_middle_of_a_transfer() {
    for text in ["fixed:10", "rs:110/100", "xor:8", "xor2d:4x8", "tum:3:10ms"] {
        for windows in [[64, 2000, 8, 300], [1, 0, 5000, 100], [0, 0, 3, 0]] {
            let mut pair = protected(9, LOSSY, text).connected();
            let (key, at) = (pair.key, pair.server_key());
            let id = pair.client_mut().send(key, Dir::Uni, pattern(1_000_000));
            for window in windows {
                pair.pass(Duration::from_millis(50));
                pair.server_mut().connection(at).set_fec_window(window);
            }
            pair.pass(Duration::from_millis(150));
            let before = stats(&mut pair).0.fec;
            arrived(&mut pair, &BTreeMap::from([(id, 1_000_000)]));
            let after = stats(&mut pair).0.fec;
            if windows[3] == 0 {
                // The FEC_WINDOW has arrived, unless it was lost.
                let sent = |f: quickset_quic::FecStats| (f.sources_sent, f.repeats_sent, f.repairs_sent);
                assert_eq!(sent(after), sent(before), "{text}: a window of 0 asks for no more");
            }
        }
    }
}
