//! To an address that proved nothing go at most three times the bytes that came from it (RFC 9000 §8.1), in
//! whatever shape these come.

use quickset_base::Duration;
use quickset_sim::address;
use quickset_wire::Space;
use quickset_wire::frame::Frame;

use crate::arena::{Arena, ECHO, Setup};
use crate::hostile::{Hostile, hello};

/// A server with more to say than it may.
fn arena() -> Arena {
    Setup { certificate: 40_000, ..Setup::new() }.arena()
}

/// From the first address of the flood, for as long as a handshake may take; the limit holds at every moment.
fn attack(name: &str, mut act: impl FnMut(&mut Hostile, u64)) {
    let mut arena = arena();
    let from = arena.addresses(1)[0];
    arena.hostile().from = Some(from);
    arena.hostile().acks = false;
    let victim = std::net::SocketAddr::new(from, 4433);
    let mut answered = false;
    for n in 0..120 {
        act(arena.hostile(), n);
        arena.pass(Duration::from_millis(100));
        let sent = arena.server().sent.get(&victim).copied().unwrap_or_default();
        let got = arena.hostile().sent_bytes;
        assert!(sent.bytes <= 3 * got, "{name}: {sent:?} for {got} bytes");
        answered |= sent.bytes > 0;
    }
    assert!(answered, "{name}: or the limit was not tried");
    arena.assert_served();
}

#[test]
fn one_hello_earns_three_times_its_size() {
    attack("a hello", |hostile, n| {
        if n == 0 {
            hostile.raw(hello(7, address(1), ECHO).0);
        }
    });
}

#[test]
fn the_same_hello_again_and_again_earns_no_more() {
    let (bytes, _) = hello(7, address(1), ECHO);
    attack("repeats", |hostile, n| {
        if n % 7 == 0 {
            hostile.raw(bytes.clone());
        }
    });
}

/// What is coalesced behind a packet, or cannot be read at all, counts as the bytes that it has.
#[test]
fn coalesced_noise_earns_three_times_its_size() {
    let (bytes, _) = hello(7, address(1), ECHO);
    attack("noise", |hostile, n| {
        let mut datagram = bytes.clone();
        match n % 3 {
            // A second packet of the same connection that does not open; padding of the datagram; half of a
            // packet.
            0 => datagram.extend_from_within(..600),
            1 => datagram.resize(1450, 0),
            _ => datagram.truncate(700),
        }
        if n < 20 {
            hostile.raw(datagram);
        }
    });
}

/// Small packets that ask for an answer.
#[test]
fn pings_of_a_client_that_proved_nothing_earn_three_times_their_size() {
    attack("pings", |hostile, n| {
        if n == 0 {
            hostile.connect();
        } else {
            hostile.say_at(Space::Initial, &[Frame::Ping]);
        }
        if n > 20 {
            hostile.take();
        }
    });
}
