//! Reed-Solomon blocks at fences: a screen's updates, each recovered or not as the losses of its own packets
//! have it.

use std::collections::BTreeMap;

use quickset_base::{Duration, Time};
use quickset_quic::{Algorithm, Dir, FecStats, Message, StreamId};

use super::traffic::{number, numbered};
use super::{protected, stats};
use crate::common::{Pair, Setup};

/// A round trip of 100 ms.
const LINK: &str = "rate=100mbit delay=50ms queue=4MB loss=1%";

const MESSAGES: u32 = 100;

fn setup(seed: u64, protection: &str) -> Setup {
    protected(seed, LINK, protection).transport(|t| t.congestion = Algorithm::Fixed(95_000_000))
}

/// One message and when it was sent.
struct Arrival {
    sent: Time,
    message: Message,
}

/// Updates of 100 messages of 1400 bytes, each followed by a fence, ten a second; returns all that arrived.
fn screen(pair: &mut Pair, updates: u32) -> Vec<Arrival> {
    let key = pair.key;
    let id = pair.client_mut().connection(key).streams().open_messages(Dir::Uni).expect("a stream");
    let mut got = Vec::new();
    let mut sent = BTreeMap::new();
    for update in 0..updates {
        let now = pair.world.now();
        sent.insert(update, now);
        let connection = pair.client_mut().connection(key);
        for n in 0..MESSAGES {
            connection.messages(id).send(now, numbered(update, n, 1400), None).expect("room");
        }
        connection.messages(id).fence().expect("a stream of messages");
        pair.pass(Duration::from_millis(100));
        take(pair, id, &sent, &mut got);
    }
    pair.pass(Duration::from_secs(2));
    take(pair, id, &sent, &mut got);
    got
}

fn take(pair: &mut Pair, id: StreamId, sent: &BTreeMap<u32, Time>, got: &mut Vec<Arrival>) {
    let (at, now) = (pair.server_key(), pair.world.now());
    while let Ok(Some(message)) = pair.server_mut().connection(at).messages(id).recv(now) {
        got.push(Arrival { sent: sent[&number(&message).0], message });
    }
}

/// P(more than r of n are lost), each independently with probability `l`.
fn more_lost_than(r: u64, n: u64, l: f64) -> f64 {
    let mut within = 0.0;
    let mut choose = 1.0;
    for j in 0..=r {
        within += choose * l.powi(j as i32) * (1.0 - l).powi((n - j) as i32);
        choose = choose * (n - j) as f64 / (j + 1) as f64;
    }
    1.0 - within
}

#[test]
fn a_tenth_of_repair_lets_no_fence_wait() {
    let mut all: Vec<Duration> = Vec::new();
    for seed in quickset_sim::seeds(0..2) {
        let mut pair = setup(seed, "rs:110/100").connected();
        let got = screen(&mut pair, 30);
        assert_eq!(got.len(), 3000, "seed {seed}");
        let (client, server) = stats(&mut pair);
        let FecStats { blocks, failed_blocks, repairs_sent, recovered, .. } = client.fec;
        assert_eq!((blocks, repairs_sent, failed_blocks), (30, 300, 0), "seed {seed}: {:?}", client.fec);
        assert_eq!(recovered, server.fec.recovered_here, "seed {seed}: each recovery was reported");
        all.extend(got.iter().map(|a| a.message.blocked()));
        for a in got {
            let took = a.message.released - a.sent;
            assert!(took < Duration::from_millis(50 + 16), "seed {seed}: a message took {took:?}");
        }
    }
    all.sort();
    let p99 = all[all.len() * 99 / 100];
    assert!(p99 <= Duration::from_millis(1), "p99 {p99:?}");
}

/// FEC-17, FEC-24: messages that fill packets to the last byte. Repair of their symbols needs the whole of a
/// packet.
#[test]
fn full_symbols_get_all_their_repair() {
    for mtu in [1200, 1472] {
        for (size, seed) in [(3000, 1), (5002, 2), (40_000, 3)] {
            let link = "rate=100mbit delay=50ms queue=4MB";
            let setup = Setup { link: link.parse().expect("a link"), ..setup(seed, "rs:110/100") };
            let mut pair = setup.transport(|t| t.mtu = mtu).connected();
            let (key, now) = (pair.key, pair.world.now());
            let connection = pair.client_mut().connection(key);
            let id = connection.streams().open_messages(Dir::Uni).expect("a stream");
            for n in 0..120_000 / size {
                connection.messages(id).send(now, numbered(0, n, size as usize), None).expect("room");
            }
            connection.messages(id).fence().expect("a stream of messages");
            pair.pass(Duration::from_secs(1));
            let (client, _) = stats(&mut pair);
            let k = client.fec.sources_sent;
            assert!(k > 80, "{k} symbols");
            assert_eq!(client.fec.repairs_sent, k.div_ceil(10), "{mtu} {size}: {:?}", client.fec);
        }
    }
}

/// Where there is less repair, blocks fail as often as the binomial law says, and are repeated until they are
/// whole.
#[test]
fn blocks_fail_as_often_as_more_is_lost_than_repaired() {
    let (mut blocks, mut failed) = (0, 0);
    for seed in quickset_sim::seeds(10..12) {
        // A report that is lost makes a block of which nothing is known in time.
        let down = Some("rate=100mbit delay=50ms".parse().expect("a link"));
        let mut pair = Setup { down, ..setup(seed, "rs:102/100") }.connected();
        let got = screen(&mut pair, 100);
        assert_eq!(got.len(), 10_000, "seed {seed}");
        let (client, _) = stats(&mut pair);
        blocks += client.fec.blocks;
        failed += client.fec.failed_blocks;
    }
    // Symbols and repair are 102 packets; what was lost comes back unless it is more than 2.
    let p = more_lost_than(2, 102, 0.01);
    let (expected, sigma) = (blocks as f64 * p, (blocks as f64 * p * (1.0 - p)).sqrt());
    assert_eq!(blocks, 200);
    assert!((failed as f64 - expected).abs() < 4.0 * sigma, "{failed} failed, {expected:.1} expected");
}
