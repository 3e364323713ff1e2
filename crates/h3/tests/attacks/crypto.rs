//! Handshake bytes without order or end, and packets that nobody can read yet (RFC 9000 §7.5).

use quickset_base::Duration;
use quickset_wire::frame::Frame;
use quickset_wire::{Space, TransportErrorCode as Code};

use crate::arena::{Arena, Setup};
use crate::hostile::Hostile;

const MS: Duration = Duration::from_millis(1);

/// An attacker that has said hello and has the keys of the next level, and whose flight never leaves.
fn half_open() -> Arena {
    let mut arena = Setup::new().arena();
    arena.hostile().half_open = true;
    arena.hostile().connect();
    arena.pass(30 * MS);
    assert_eq!(arena.connections(), 2);
    arena.begin();
    arena
}

/// Sends pieces at these offsets until it is told off.
fn pieces(arena: &mut Arena, space: Space, size: usize, offsets: impl Iterator<Item = u64>) -> isize {
    let offsets: Vec<u64> = offsets.collect();
    arena.each(offsets.len() as u64, MS, |hostile: &mut Hostile, n| {
        if hostile.closed.is_none() {
            let data = vec![0; size];
            hostile.say_at(space, &[Frame::Crypto { offset: offsets[n as usize], data: &data }]);
        }
    })
}

#[test]
fn pieces_ahead_of_a_gap_are_bounded_however_they_are_cut() {
    // Bytes far apart; as much as fits, each a little further; the same in larger datagrams.
    let cases: [(usize, u64, u64); 3] = [(1, 500, 200), (1100, 3, 200), (15_000, 7, 200)];
    for (size, step, times) in cases {
        let mut arena = half_open();
        let most = pieces(&mut arena, Space::Handshake, size, (0..times).map(|n| 1 + n * step));
        assert!(most < AHEAD, "{most} bytes held, in pieces of {size}");
        assert_eq!(arena.hostile().closed, Some(Ok(Code::CRYPTO_BUFFER_EXCEEDED)), "pieces of {size}");
        arena.assert_served();
    }
}

/// A message that is announced and never whole.
#[test]
fn a_message_without_end_is_not_waited_for_longer_than_the_handshake_takes() {
    let mut arena = half_open();
    // The null session's messages say how long they are, up to 64 KiB.
    let head = [20, 0xff, 0xff];
    arena.hostile().say_at(Space::Handshake, &[Frame::Crypto { offset: 0, data: &head }]);
    let most = pieces(&mut arena, Space::Handshake, 1000, (0..60).map(|n| 3 + n * 1000));
    assert!(most < 2 * AHEAD, "{most} bytes held");
    arena.assert_served();
    arena.pass(Duration::from_secs(12));
    assert_eq!(arena.connections(), 1);
}

/// After the handshake there is nothing that a client may say.
#[test]
fn handshake_bytes_behind_the_handshake_end_the_connection() {
    let mut arena = Setup::new().attacked();
    let most = pieces(&mut arena, Space::Data, 1000, (0..100).map(|n| n * 1000));
    assert!(most < AHEAD, "{most} bytes held");
    assert!(arena.hostile().closed.is_some_and(|why| why.is_ok_and(|code| code.0 >> 8 == 1)), "CRYPTO_ERROR");
    arena.assert_served();
}

/// Packets that come before their keys wait, a few of them, and not the largest that there are.
#[test]
fn packets_before_their_keys_are_bounded_in_bytes() {
    for size in [100, 1200, 60_000] {
        let mut arena = half_open();
        let most = arena.each(100, MS, |hostile, n| {
            // Something that looks like 1-RTT to the server, which has no keys yet that the client may use.
            let mut bytes = vec![n as u8; size];
            bytes[0] = 0x40;
            bytes[1..9].copy_from_slice(&hostile.dcid);
            hostile.raw(bytes);
        });
        assert!(most < AHEAD, "{most} bytes held, in packets of {size}");
        assert!(most > 1_000 || size > 24_000, "they wait: {most}");
        arena.assert_served();
    }
}

/// What is held ahead of a gap, with what it costs to hold it.
const AHEAD: isize = 130_000;
