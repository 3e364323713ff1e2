//! Peers that say little for long: what is kept for them, and until when (RFC 9000 §10.1, §21.6).

use quickset_base::Duration;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, Side, StreamId};

use crate::arena::{Arena, Setup};

const SECOND: Duration = Duration::from_secs(1);

/// A packet of the server's is acknowledged ten minutes late, so that the round trip seems to take as long.
fn slowed() -> Arena {
    let mut arena = Setup::new().attacked();
    arena.hostile().acks = false;
    arena.hostile().write(StreamId::new(Side::Client, Dir::Bi, 0), &[7; 100], false);
    arena.pass(SECOND / 20);
    let late = arena.hostile().seen()[0].clone();
    for _ in 0..30 {
        arena.hostile().say(&[Frame::Ping]);
        arena.pass(20 * SECOND);
    }
    arena.hostile().acknowledge([*late.end()..=*late.end()]);
    arena.pass(SECOND);
    assert_eq!((arena.hostile().closed, arena.connections()), (None, 2));
    arena
}

#[test]
fn who_falls_silent_is_gone_in_time_however_long_round_trips_seemed() {
    let mut arena = slowed();
    arena.pass(120 * SECOND);
    assert_eq!(arena.connections(), 1, "{:?}", arena.server().closed);
    arena.assert_served();
}

#[test]
fn a_farewell_lasts_no_longer_for_round_trips_that_seemed_long() {
    let mut arena = slowed();
    arena.hostile().say(&[Frame::HandshakeDone]);
    arena.pass(120 * SECOND);
    assert!(arena.hostile().closed.is_some());
    assert_eq!(arena.connections(), 1, "{:?}", arena.server().closed);
}
