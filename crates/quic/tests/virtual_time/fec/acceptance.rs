//! What a recovery is not: an acknowledgement of a packet, and a reason to send anything again.

use quickset_base::Duration;
use quickset_quic::{Algorithm, Dir, Stats, StreamId};
use quickset_sim::{Fate, Trace};

use super::traffic::{self, Load, number, numbered};
use super::{protected, stats};
use crate::common::{Pair, Setup, pattern};

/// A transfer under trace; returns it once nothing is in flight, with the packets that the link lost of the
/// client's.
fn traced(setup: &Setup, len: usize) -> (Pair, Stats, u64) {
    let mut pair = setup.connected();
    pair.world.trace(Trace::full());
    let key = pair.key;
    let before = pair.client_mut().connection(key).stats().lost_packets;
    assert_eq!(before, 0, "seed {}: the handshake lost something", setup.seed);
    let id = pair.client_mut().send(key, Dir::Uni, pattern(len));
    pair.until("delivered", |p| p.client().delivered.contains(&(key, id)));
    pair.pass(Duration::from_secs(2));
    let (client, server) = stats(&mut pair);
    assert!(server.fec.recovered_here <= client.fec.sources_sent);
    let trace = pair.world.take_trace().expect("a trace");
    let up = trace.records().iter().filter(|r| r.link.index() == 0);
    let lost = up.filter(|r| matches!(r.fate, Fate::Dropped(_))).count() as u64;
    (pair, client, lost)
}

/// FEC-49, FEC-22, FEC-50, and the second of the coupling invariants: recovered or not, what the link lost is
/// lost.
#[test]
fn what_was_recovered_is_lost_all_the_same() {
    for protection in ["none", "fixed:5", "ac-rlnc", "buffer:4", "tum:3:10ms"] {
        for congestion in [Algorithm::Cubic, Algorithm::Bbr] {
            for seed in quickset_sim::seeds(0..3) {
                let setup = protected(seed, "rate=20mbit delay=20ms queue=1MB loss=1.5%", protection)
                    .transport(|t| t.congestion = congestion.clone());
                let (_, client, lost) = traced(&setup, 400_000);
                let what = format!("{protection}, {congestion}, seed {seed}: {client:?}");
                // A packet at the very end may be lost and never missed: ACKs of ours are not counted.
                assert!(
                    client.lost_packets <= lost && lost <= client.lost_packets + 1,
                    "{lost} lost, {what}"
                );
                assert_eq!(client.in_flight, 0, "{what}");
                assert_eq!(client.spurious_losses, 0, "{what}");
            }
        }
    }
}

/// The window closes by as much for a loss that was recovered as for one that was not.
#[test]
fn congestion_control_answers_a_loss_that_was_recovered() {
    let windows = |protection: &str| {
        let setup = protected(1, "rate=50mbit delay=20ms queue=4MB loss=list:700", protection)
            .transport(|t| t.congestion = Algorithm::Cubic);
        let mut pair = setup.connected();
        let key = pair.key;
        pair.client_mut().send(key, Dir::Uni, pattern(3_000_000));
        let mut before = 0;
        for _ in 0..2000 {
            pair.pass(Duration::from_millis(1));
            let stats = pair.client_mut().connection(key).stats();
            if stats.lost_packets > 0 {
                return (before, stats.window, stats.fec);
            }
            before = stats.window;
        }
        panic!("{protection}: nothing was lost");
    };
    let (before, after, fec) = windows("fixed:5");
    assert_eq!((fec.recovered, fec.unrecovered), (1, 0), "{fec:?}");
    // RFC 9438: to 0.7 of what it was.
    let share = after as f64 / before as f64;
    assert!((0.69..0.71).contains(&share), "{before} {after}");
    let (before, after, _) = windows("none");
    assert!((after as f64 / before as f64 - share).abs() < 0.01, "{before} {after}");
}

/// FEC-42, FEC-43: what was recovered is not sent again, though its loss is told in the same packet. There
/// are as many symbols as without losses.
#[test]
fn recovered_data_is_not_sent_again() {
    const LINK: &str = "rate=20mbit delay=20ms queue=1MB";
    let fixed = |t: &mut quickset_quic::TransportConfig| t.congestion = Algorithm::Fixed(15_000_000);
    let (_, clean, _) = traced(&protected(1, LINK, "fixed:5").transport(fixed), 500_000);
    for seed in quickset_sim::seeds(0..4) {
        let link = format!("{LINK} loss=2%");
        let (_, client, lost) = traced(&protected(seed, &link, "fixed:5").transport(fixed), 500_000);
        let f = client.fec;
        assert!(lost > 3 && f.recovered > 0, "seed {seed}: {f:?}");
        assert_eq!(f.repeats_sent, f.unrecovered, "seed {seed}: {f:?}");
        assert_eq!(f.sources_sent, clean.fec.sources_sent, "seed {seed}: {f:?}");
        let more = client.sent_bytes - clean.sent_bytes;
        let sent_again = f.repeats_sent + f.repairs_sent - clean.fec.repairs_sent;
        // And acknowledgements of the PINGs that come with reports.
        assert!(more <= 1472 * sent_again + 40 * 10, "seed {seed}: {more} bytes more, {client:?}");
    }
}

/// FEC-52, rule 6: everything that could repair was lost as well, and the probes carry what is held.
#[test]
fn a_probe_timeout_sends_what_is_held() {
    for protection in ["rs:150/100", "fixed:3", "xor2d:4x5"] {
        for busy in [false, true] {
            let link = "rate=20mbit delay=20ms queue=1MB";
            let up = format!("{link} blackout=300ms+220ms");
            let mut setup = protected(1, &up, protection);
            setup.down = Some(link.parse().expect("a link"));
            let mut pair = setup.connected();
            let (key, at) = (pair.key, pair.server_key());
            let id = pair.client_mut().connection(key).streams().open_messages(Dir::Uni).expect("a stream");
            if busy {
                // So that each packet of the client has something to acknowledge.
                pair.server_mut().send(at, Dir::Uni, pattern(3_000_000));
            }
            let mut got = Vec::new();
            for update in 0..2 {
                let now = pair.world.now();
                let connection = pair.client_mut().connection(key);
                for n in 0..10 {
                    connection.messages(id).send(now, numbered(update, n, 1400), None).expect("room");
                }
                connection.messages(id).fence().expect("a stream of messages");
                connection.send_stream(id).flush().expect("it is open");
                pair.pass(Duration::from_millis(320).saturating_sub(now.since(quickset_base::Time::ZERO)));
                got.extend(collect(&mut pair, id));
            }
            assert_eq!(got.len(), 10, "{protection}");
            let before = pair.client_mut().connection(key).stats();
            pair.pass(Duration::from_millis(800));
            got.extend(collect(&mut pair, id));
            let (client, _) = stats(&mut pair);
            let what = format!("{protection}, busy {busy}: {client:?}");
            assert_eq!(got.len(), 20, "{what}");
            assert!(got.is_sorted_by_key(|m| m.0), "{what}");
            assert!(busy || client.ptos > before.ptos, "{what}");
            assert!(client.fec.repeats_sent > 0, "{what}");
        }
    }
}

fn collect(pair: &mut Pair, id: StreamId) -> Vec<(u32, u32)> {
    let (at, now) = (pair.server_key(), pair.world.now());
    let connection = pair.server_mut().connection(at);
    std::iter::from_fn(|| connection.messages(id).recv(now).ok().flatten()).map(|m| number(&m)).collect()
}

/// A poll for each batch sent or received and for each timer, not for its own sake.
#[test]
fn nobody_is_polled_for_nothing() {
    let load = Load { bytes: 200_000, updates: 8, messages: 8, size: 1000, pause: Duration::from_millis(30) };
    let polls = |protection: &str| {
        let setup = protected(3, "rate=20mbit delay=20ms queue=1MB loss=2%", protection);
        let mut pair = setup.connected();
        traffic::run(&mut pair, &load, None, protection);
        pair.pass(Duration::from_secs(20));
        let packets = pair.client().polls + pair.server().polls;
        let (client, server) = stats(&mut pair);
        assert_eq!((client.in_flight, server.in_flight), (0, 0), "{protection}");
        packets as f64 / (client.sent_datagrams + server.sent_datagrams) as f64
    };
    let plain = polls("none");
    for protection in
        ["adaptive", "fixed:5", "ac-rlnc", "messages", "buffer:3", "rs:120/100", "xor2d:3x4", "tum:2:10ms"]
    {
        let polls = polls(protection);
        assert!(polls < 1.5 * plain, "{protection}: {polls:.2} polls a packet, {plain:.2} without");
    }
}

#[test]
fn equal_seeds_give_equal_traces() {
    let load = Load { bytes: 60_000, updates: 4, messages: 6, size: 900, pause: Duration::from_millis(30) };
    for protection in ["adaptive", "ac-rlnc", "rs:120/100:stride=2", "xor2d:3x4", "messages"] {
        let run = |seed| {
            let link = "rate=20mbit delay=20ms loss=3% jitter=uniform:5ms reorder=yes duplicate=1%";
            let mut pair = protected(seed, link, protection).pair();
            pair.world.trace(Trace::full());
            pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
            traffic::run(&mut pair, &load, None, protection);
            pair.world.take_trace().expect("a trace")
        };
        let (a, b, c) = (run(7), run(7), run(8));
        assert_eq!(a.records(), b.records(), "{protection}");
        assert_ne!(a.digest(), c.digest(), "{protection}");
    }
}
