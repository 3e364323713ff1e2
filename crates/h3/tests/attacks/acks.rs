//! Acknowledgements that lie, and those that are work (RFC 9000 §21.4).

use quickset_base::Duration;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, Side, StreamId, TransportErrorCode as Code};

use crate::arena::{Arena, Setup};

const MS: Duration = Duration::from_millis(1);

/// Lets the server send for ever: it echoes what is sent to it.
fn download(arena: &mut Arena, packets: u64) {
    let id = StreamId::new(Side::Client, Dir::Bi, 0);
    for _ in 0..packets {
        arena.hostile().write(id, &[7; 1000], false);
    }
}

/// Who acknowledges all up to the newest number has acknowledged one that was never used.
#[test]
fn acknowledging_without_receiving_is_found_out() {
    let mut arena = Setup::new().attacked();
    arena.hostile().acks = false;
    let most = arena.each(600, MS, |hostile, _| {
        if hostile.closed.is_some() {
            return;
        }
        hostile.write(StreamId::new(Side::Client, Dir::Bi, 0), &[7; 1000], false);
        if let Some(newest) = hostile.seen().first().map(|range| *range.end()) {
            hostile.acknowledge([0..=newest]);
        }
    });
    assert_eq!(arena.hostile().closed, Some(Ok(Code::PROTOCOL_VIOLATION)));
    assert!(arena.sent_to_hostile().datagrams < 700, "{:?}", arena.sent_to_hostile());
    assert!(most < 200_000, "{most} bytes held");
    arena.assert_served();
}

#[test]
fn acknowledging_what_was_not_sent_yet_is_found_out_at_once() {
    let mut arena = Setup::new().attacked();
    arena.hostile().acks = false;
    download(&mut arena, 5);
    arena.pass(30 * MS);
    arena.hostile().acknowledge([0..=1 << 20]);
    arena.pass(30 * MS);
    assert_eq!(arena.hostile().closed, Some(Ok(Code::PROTOCOL_VIOLATION)));
    arena.assert_served();
}

/// As many ranges as fit a packet, none of which is news, or which are true by every second number.
#[test]
fn floods_of_ranges_cost_neither_memory_nor_answers() {
    let mut arena = Setup::new().attacked();
    // Many numbers of the server's.
    for _ in 0..100 {
        download(&mut arena, 10);
        arena.pass(5 * MS);
    }
    arena.hostile().acks = false;
    arena.pass(100 * MS);
    arena.begin();
    let seen = arena.hostile().seen();
    let newest = *seen[0].end();
    let mut all: Vec<u64> = seen.into_iter().flatten().collect();
    all.sort_unstable();
    let (sent, work) = (arena.sent_to_hostile().datagrams, arena.server().work);
    let most = arena.each(500, MS, |hostile, n| {
        let every_second = all.iter().rev().filter(|number| (newest - **number) % 2 == n % 2);
        hostile.acknowledge(every_second.map(|number| *number..=*number));
    });
    let sent = arena.sent_to_hostile().datagrams - sent;
    assert_eq!(arena.hostile().closed, None);
    assert!(sent < 40, "an acknowledgement is not answered: {sent} datagrams");
    assert!(most < ACKS, "{most} bytes held");
    // What the honest client makes it do is in there: a dozen rounds.
    let work = arena.server().work - work;
    assert!(work / 500 < 60, "{} allocations for each", work / 500);
    arena.assert_served();
}

/// Gaps between the numbers of the attacker: what it is told of them is bounded, and so is what is kept.
#[test]
fn numbers_with_gaps_are_bounded() {
    let mut arena = Setup::new().attacked();
    let before = arena.sent_to_hostile();
    let most = arena.each(1000, MS, |hostile, _| {
        for _ in 0..5 {
            hostile.skip(1);
            hostile.say(&[Frame::Ping]);
        }
    });
    let after = arena.sent_to_hostile();
    let (datagrams, bytes) = (after.datagrams - before.datagrams, after.bytes - before.bytes);
    assert!(datagrams <= 5000, "{datagrams} answers to 5000 packets");
    assert!(bytes / datagrams < 250, "{} bytes in an answer", bytes / datagrams);
    assert!(most < ACKS, "{most} bytes held");
    assert_eq!(arena.hostile().closed, None);
    arena.assert_served();
}

/// ACK frames are kept until something behind them is acknowledged, which is asked for. (Who goes on without
/// an answer is cut off; that takes longer than this, and stands in the tests of `quic`.)
#[test]
fn who_acknowledges_nothing_is_asked_for_it() {
    let mut arena = Setup::new().attacked();
    arena.hostile().acks = false;
    let before = arena.hostile().heard(PING);
    let most = arena.each(150, MS, |hostile, _| {
        for _ in 0..10 {
            hostile.skip(1);
            hostile.say(&[Frame::Ping]);
        }
    });
    assert!(arena.hostile().heard(PING) > before);
    assert!(most < 1500 * 200, "{most} bytes held");
    arena.assert_served();
}

const PING: u64 = 0x01;

/// The few hundred ACK frames that are kept before a PING asks for news of them.
const ACKS: isize = 80_000;
