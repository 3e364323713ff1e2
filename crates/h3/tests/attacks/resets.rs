//! Packets of no connection: stateless resets, version negotiation, and the end of a connection (RFC 9000 §6,
//! §10, §21.11).

use quickset_base::Duration;
use quickset_base::Rng;
use quickset_sim::address;
use quickset_wire::TransportErrorCode as Code;
use quickset_wire::frame::Frame;

use crate::arena::{ECHO, Setup};
use crate::hostile::hello;

const MS: Duration = Duration::from_millis(1);

fn noise(n: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::new(n).fill(&mut bytes);
    bytes[0] = 0x40 | bytes[0] & 0x3f;
    bytes
}

/// RFC 9000 §10.3: each reset is smaller than what it answers, and there are not many.
#[test]
fn strays_earn_few_resets_and_no_memory() {
    let mut arena = Setup::new().arena();
    let from = arena.addresses(100);
    let most = arena.each(5000, MS, |hostile, n| {
        hostile.from = Some(from[n as usize % from.len()]);
        hostile.raw(noise(n, 40 + n as usize % 1200));
    });
    let counters = arena.server().node.endpoint().counters();
    // Ten a second for five seconds, and what had been saved.
    assert!((50..=61).contains(&counters.resets_sent), "{counters:?}");
    assert!(most < 5_000, "{most} bytes held");
    arena.assert_served();
}

/// An id in use is not an oracle: who knows it and not the keys hears nothing, and breaks nothing.
#[test]
fn forged_packets_for_a_living_connection_are_met_with_silence() {
    let mut arena = Setup::new().arena();
    let key = arena.server().node.keys().next().expect("the honest client is connected");
    let dcid = *arena.server().node.connection(key).expect("the same").id();
    let from = arena.addresses(10);
    let most = arena.each(2000, MS, |hostile, n| {
        hostile.from = Some(from[n as usize % from.len()]);
        let mut bytes = noise(n, 30 + n as usize % 1200);
        bytes[1..=dcid.len()].copy_from_slice(&dcid);
        hostile.raw(bytes);
    });
    assert_eq!(arena.hostile().datagrams, 0);
    assert_eq!(arena.server().node.endpoint().counters().resets_sent, 0);
    assert!(most < 10_000, "{most} bytes held");
    arena.assert_served();
}

/// RFC 9000 §6: each answer is smaller than its question, and nothing is remembered.
#[test]
fn unknown_versions_earn_less_than_they_cost() {
    let mut arena = Setup::new().arena();
    let from = arena.addresses(100);
    let most = arena.each(3000, MS, |hostile, n| {
        hostile.from = Some(from[n as usize % from.len()]);
        let mut bytes = hello(n, address(1), ECHO).0;
        bytes[1..5].copy_from_slice(&[0x1a, 0x2a, 0x3a, n as u8 & 0xf0 | 0xa]);
        // Shorter ones are not answered.
        bytes.truncate(if n % 2 == 0 { 1200 } else { 1199 });
        hostile.raw(bytes);
    });
    arena.pass(50 * MS);
    assert_eq!(arena.server().node.endpoint().counters().version_negotiations, 1500);
    let (sent, got) = (arena.hostile().bytes, arena.hostile().sent_bytes);
    assert!(sent * 10 < got, "{sent} bytes for {got}");
    assert_eq!(arena.connections(), 1);
    assert!(most < 5_000, "{most} bytes held");
    arena.assert_served();
}

/// RFC 9000 §10.2.1: who goes on talking to a connection that was closed is told so ever less often.
#[test]
fn a_closed_connection_repeats_its_farewell_ever_less_often() {
    let mut arena = Setup::new().attacked();
    arena.hostile().say(&[Frame::HandshakeDone]);
    arena.pass(25 * MS);
    assert_eq!(arena.hostile().closed, Some(Ok(Code::PROTOCOL_VIOLATION)));
    let before = arena.hostile().datagrams;
    arena.each(2000, MS / 50, |hostile, _| hostile.say(&[Frame::Ping]));
    arena.pass(50 * MS);
    let told = arena.hostile().datagrams - before;
    assert!((1..=11).contains(&told), "{told} farewells for 2000 packets");
    arena.pass(Duration::from_secs(5));
    assert_eq!(arena.connections(), 1);
    arena.assert_served();
}
