//! Other addresses, real or not: challenges, and what others are made to receive (RFC 9000 §8.2, §9.3,
//! §21.5).

use std::net::SocketAddr;

use quickset_base::Duration;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, Side, StreamId};

use crate::arena::Setup;

const MS: Duration = Duration::from_millis(1);

const PATH_RESPONSE: u64 = 0x1b;

/// A client with a download claims to be at one victim's after the other. None gets more than three times the
/// bytes that seemed to come from it, nor much at all: the server challenges, and goes back.
#[test]
fn victims_of_a_feigned_move_get_little() {
    let mut arena = Setup::new().attacked();
    let victims = arena.addresses(200);
    let id = StreamId::new(Side::Client, Dir::Bi, 0);
    let size = 1_000;
    let most = arena.each(200, 20 * MS, |hostile, n| {
        hostile.from = None;
        hostile.write(id, &vec![7; size], false);
        hostile.from = Some(victims[n as usize]);
        hostile.say(&[Frame::Ping]);
        hostile.from = None;
    });
    arena.pass(Duration::from_secs(5));
    assert!(most < 150_000, "{most} bytes held");
    let (mut all, mut hit) = (0, 0);
    for victim in victims {
        let sent = arena.server().sent.get(&SocketAddr::new(victim, 4433)).copied().unwrap_or_default();
        // A PING is 33 bytes or so.
        assert!(sent.bytes <= 3 * 45, "{sent:?} went to {victim}");
        all += sent.bytes;
        hit += u64::from(sent.datagrams > 0);
    }
    assert!(hit > 0, "or nothing was tried");
    assert!(all <= 3 * 45 * 200, "{all} bytes in all");
    arena.assert_served();
}

/// The same with full datagrams: three of them at most, of which the attacker can choose no byte.
#[test]
fn a_probe_of_a_victims_address_is_answered_by_challenges_alone() {
    let mut arena = Setup::new().attacked();
    let victims = arena.addresses(50);
    arena.each(50, 50 * MS, |hostile, n| {
        hostile.from = Some(victims[n as usize]);
        hostile.say(&[Frame::PathChallenge([n as u8; 8]), Frame::Padding(1100)]);
        hostile.from = None;
    });
    arena.pass(Duration::from_secs(5));
    for victim in victims {
        let sent = arena.server().sent.get(&SocketAddr::new(victim, 4433)).copied().unwrap_or_default();
        assert!(sent.datagrams <= 3 && sent.bytes <= 3 * 1200, "{sent:?} went to {victim}");
    }
    assert_eq!(arena.hostile().closed, None);
    arena.assert_served();
}

/// RFC 9000 §21.9.
#[test]
fn floods_of_challenges_are_answered_now_and_then() {
    let mut arena = Setup::new().attacked();
    let flood: Vec<_> = (0..100u8).map(|n| Frame::PathChallenge([n; 8])).collect();
    let before = arena.sent_to_hostile();
    let most = arena.each(1000, MS, |hostile, _| hostile.say(&flood));
    let sent = arena.sent_to_hostile().bytes - before.bytes;
    let answers = arena.hostile().heard(PATH_RESPONSE);
    assert!((1..=5_000).contains(&answers), "{answers} answers to 100,000 challenges");
    assert!(sent < arena.hostile().sent_bytes, "{sent} bytes");
    assert!(most < 20_000, "{most} bytes held");
    arena.assert_served();
}

/// Answers to challenges that were never made.
#[test]
fn answers_to_nothing_are_nothing() {
    let mut arena = Setup::new().attacked();
    let flood: Vec<_> = (0..100u8).map(|n| Frame::PathResponse([n; 8])).collect();
    let before = arena.sent_to_hostile().datagrams;
    let most = arena.each(500, MS, |hostile, _| hostile.say(&flood));
    let sent = arena.sent_to_hostile().datagrams - before;
    assert!(sent <= 500, "{sent} datagrams");
    assert!(most < 60_000, "{most} bytes held");
    arena.assert_served();
}
