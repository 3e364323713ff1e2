//! What ends while its frames are held or have been recovered: streams, messages, keys, connections.

use quickset_base::Duration;
use quickset_policies::read;
use quickset_quic::{Closed, Dir, Outcome, StreamId};

use super::traffic::{self, Load, number, numbered};
use super::{protected, stats};
use crate::common::{Pair, Setup, pattern};

/// Bad enough that something is always held.
const BAD: &str = "rate=20mbit delay=30ms queue=1MB loss=12%";

const PROTECTIONS: [&str; 5] = ["fixed:4", "rs:115/100", "xor:3", "xor2d:3x3", "tum:2:15ms"];

/// With one session for the client's streams, so that what ends must give it back.
fn lonely(seed: u64) -> Pair {
    protected(seed, BAD, "none").transport(|t| t.fec.as_mut().expect("an offer").sessions = 1).connected()
}

/// Nothing is in flight or held any more, and the next stream gets the session.
fn is_free(pair: &mut Pair, protection: &str, what: &str) {
    let key = pair.key;
    pair.pass(Duration::from_secs(5));
    let before = stats(pair).0;
    assert_eq!(before.in_flight, 0, "{what}");
    let id = pair.client_mut().connection(key).streams().open(Dir::Uni).expect("a stream");
    let value = read(protection).expect("a protection");
    pair.client_mut().connection(key).send_stream(id).set_protection(&value).expect("it is open");
    pair.client_mut().send_on(key, id, pattern(60_000).into());
    pair.until("delivered", |p| p.client().delivered.contains(&(key, id)));
    let after = stats(pair).0.fec;
    assert!(after.sources_sent > before.fec.sources_sent + 20, "{what}: {after:?}");
    let at = pair.server_key();
    assert!(pair.server().received[&(at, id)] == pattern(60_000), "{what}");
}

#[test]
fn a_stream_that_is_reset_or_stopped_gives_its_session_back() {
    for protection in PROTECTIONS {
        for (stops, seed) in [(false, 1), (true, 2)] {
            let what = format!("{protection}, stopped {stops}, seed {seed}");
            let mut pair = lonely(seed);
            let (key, at) = (pair.key, pair.server_key());
            let id = pair.client_mut().connection(key).streams().open(Dir::Uni).expect("a stream");
            let value = read(protection).expect("a protection");
            pair.client_mut().connection(key).send_stream(id).set_protection(&value).expect("it is open");
            pair.client_mut().send_on(key, id, pattern(400_000).into());
            pair.pass(Duration::from_millis(250));
            assert!(stats(&mut pair).0.lost_packets > 0, "{what}: nothing was held");
            if stops {
                pair.server_mut().connection(at).recv_stream(id).stop(7).expect("it is open");
            } else {
                pair.client_mut().connection(key).send_stream(id).reset(7).expect("it is open");
            }
            is_free(&mut pair, protection, &what);
        }
    }
}

/// Messages given up while symbols with them are held: each has one outcome, and fences go on.
#[test]
fn messages_that_are_superseded_while_they_are_held_end_once() {
    for protection in PROTECTIONS {
        for seed in quickset_sim::seeds(0..3) {
            let what = format!("{protection}, seed {seed}");
            let mut pair = lonely(seed);
            let (key, at) = (pair.key, pair.server_key());
            let connection = pair.client_mut().connection(key);
            let id = connection.streams().open_messages(Dir::Uni).expect("a stream");
            let value = read(protection).expect("a protection");
            connection.send_stream(id).set_protection(&value).expect("it is open");
            let (mut tickets, mut got) = (Vec::new(), Vec::new());
            for update in 0..12 {
                let now = pair.world.now();
                let connection = pair.client_mut().connection(key);
                for n in 0..8 {
                    tickets.push(
                        connection.messages(id).send(now, numbered(update, n, 1300), None).expect("room"),
                    );
                }
                connection.messages(id).fence().expect("a stream of messages");
                // Every other message of the update before the last is outdated.
                for ticket in tickets.iter().rev().skip(16).take(8).step_by(2) {
                    connection.messages(id).supersede(*ticket);
                }
                pair.pass(Duration::from_millis(35));
                got.extend(collect(&mut pair, id));
            }
            pair.client_mut().connection(key).send_stream(id).finish().expect("finished once");
            pair.pass(Duration::from_secs(5));
            got.extend(collect(&mut pair, id));
            let mut once = got.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), got.len(), "{what}: a message twice");
            assert!(got.is_sorted_by_key(|m| m.0), "{what}: a message crossed a fence");
            let connection = pair.client_mut().connection(key);
            let outcomes: Vec<_> = std::iter::from_fn(|| connection.messages(id).next_outcome()).collect();
            assert_eq!(outcomes.len(), tickets.len(), "{what}: outcomes");
            for (n, ticket) in (0..).zip(&tickets) {
                let told: Vec<Outcome> =
                    outcomes.iter().filter(|(t, _)| t == ticket).map(|(_, outcome)| *outcome).collect();
                assert_eq!(told.len(), 1, "{what}: message {n}");
                if told[0].is_delivered() {
                    assert!(once.contains(&(n / 8, n % 8)), "{what}: message {n} is {:?}", told[0]);
                }
            }
            assert!(pair.server_mut().connection(at).closed().is_none(), "{what}");
            is_free(&mut pair, protection, &what);
        }
    }
}

fn collect(pair: &mut Pair, id: StreamId) -> Vec<(u32, u32)> {
    let (at, now) = (pair.server_key(), pair.world.now());
    let connection = pair.server_mut().connection(at);
    std::iter::from_fn(|| connection.messages(id).recv(now).ok().flatten()).map(|m| number(&m)).collect()
}

#[test]
fn either_side_may_close_while_symbols_are_held() {
    for protection in PROTECTIONS {
        for by_client in [false, true] {
            let mut pair = protected(4, BAD, protection).connected();
            let (key, at) = (pair.key, pair.server_key());
            pair.client_mut().send(key, Dir::Uni, pattern(400_000));
            pair.pass(Duration::from_millis(200));
            let now = pair.world.now();
            let (peer, key) = if by_client { (pair.client, key) } else { (pair.server, at) };
            pair.world.node_mut(peer).connection(key).close(now, 9, b"enough");
            pair.pass(Duration::from_secs(40));
            let closed = |closed: &[(quickset_quic::ConnectionKey, Closed)]| closed.len() == 1;
            assert!(closed(&pair.client().closed) && closed(&pair.server().closed), "{protection}");
            assert_eq!(pair.client().node.keys().count() + pair.server().node.keys().count(), 0);
        }
    }
}

#[test]
fn keys_change_under_a_protected_transfer() {
    for protection in PROTECTIONS {
        let mut pair = protected(5, "rate=8mbit delay=10ms queue=1MB loss=3%", protection).connected();
        let key = pair.key;
        let id = pair.client_mut().send(key, Dir::Uni, pattern(700_000));
        for _ in 0..3 {
            pair.pass(Duration::from_millis(500));
            let now = pair.world.now();
            pair.client_mut().connection(key).update_keys(now);
        }
        let at = pair.server_key();
        pair.until("received", |p| p.server().finished.contains(&(at, id)));
        assert!(pair.server().received[&(at, id)] == pattern(700_000), "{protection}");
        let (client, _) = stats(&mut pair);
        assert!(client.key_updates > 1, "{protection}: {}", client.key_updates);
    }
}

/// FEC-35: new symbols do not wait for the window. Smaller than a block, smaller than what is in flight.
#[test]
fn a_small_window_costs_recovery_and_nothing_else() {
    let load =
        Load { bytes: 150_000, updates: 3, messages: 20, size: 1300, pause: Duration::from_millis(150) };
    for protection in PROTECTIONS.into_iter().chain(["messages", "buffer:2", "adaptive:screen"]) {
        for window in [1, 2, 25] {
            let link = "rate=20mbit delay=100ms queue=1MB loss=2%";
            let setup: Setup = protected(6, link, protection)
                .transport(|t| t.fec.as_mut().expect("an offer").window = window);
            let mut pair = setup.connected();
            traffic::run(&mut pair, &load, None, &format!("{protection}, window {window}"));
        }
    }
}
