//! Floods of first packets, and handshakes that never end (RFC 9000 §21.2, §21.3).

use quickset_base::Duration;
use quickset_quic::RetryPolicy;
use quickset_sim::address;
use quickset_wire::Space;
use quickset_wire::frame::Frame;

use crate::arena::{Arena, ECHO, Sent, Setup};
use crate::hostile::hello;

const MS: Duration = Duration::from_millis(1);

/// A hello each from so many addresses, one every millisecond. Returns the most that the server held.
fn flood(arena: &mut Arena, clients: u16) -> isize {
    let from = arena.addresses(clients);
    let most = arena.each(clients.into(), MS, |hostile, n| {
        hostile.from = Some(from[n as usize]);
        hostile.raw(hello(1000 + n, address(1), ECHO).0);
    });
    arena.pass(15 * MS);
    most.max(arena.grown())
}

/// What any of the flood's addresses was sent at most.
fn most_sent(arena: &mut Arena) -> Sent {
    let of_flood = |(to, _): &(&std::net::SocketAddr, &Sent)| to.ip().to_string().starts_with("10.9.");
    let sent = arena.server().sent.iter().filter(of_flood).map(|(_, sent)| *sent);
    sent.max_by_key(|sent| sent.bytes).expect("somebody was answered")
}

#[test]
fn hellos_from_everywhere_hold_no_more_than_the_limit() {
    let mut arena = Setup { max_connections: 100, ..Setup::new() }.arena();
    let most = flood(&mut arena, 600);
    assert_eq!(arena.connections(), 100);
    assert!(most < 100 * HALF_OPEN, "{} bytes for a half-open connection", most / 100);
    assert_eq!(arena.server().node.endpoint().counters().refused, 600 - 99);
    arena.pass(Duration::from_secs(12));
    assert!(most_sent(&mut arena).bytes <= 3 * 1200, "{:?}", most_sent(&mut arena));
    assert_eq!(arena.connections(), 1, "the handshake timeout");
    assert!(arena.grown() < 100_000, "{} bytes are left", arena.grown());
    arena.assert_served();
}

/// RFC 9000 §8.1.2: from then on nothing is kept for whom has not proved an address; who proves it is served.
#[test]
fn a_busy_server_asks_for_proof_and_serves_who_gives_it() {
    let mut arena = Setup { retry: RetryPolicy::WhenBusy(50), ..Setup::new() }.arena();
    let most = flood(&mut arena, 600);
    assert_eq!(arena.connections(), 1 + 50);
    assert!(most < 50 * HALF_OPEN, "{} bytes for a half-open connection", most / 50);
    assert_eq!(arena.server().node.endpoint().counters().retries, 550);
    // Somebody of the same network with an address of its own.
    arena.hostile().from = None;
    arena.hostile().connect();
    arena.pass(100 * MS);
    assert!(arena.hostile().is_connected());
    assert_eq!(arena.server().node.endpoint().counters().retries, 551);
    arena.assert_served();
}

#[test]
fn a_server_that_always_asks_keeps_nothing() {
    let mut arena = Setup { retry: RetryPolicy::Always, ..Setup::new() }.arena();
    let most = flood(&mut arena, 600);
    assert_eq!(arena.connections(), 1);
    assert!(most < 5_000, "{most} bytes for clients that proved nothing");
    let sent = most_sent(&mut arena);
    assert!(sent.datagrams == 1 && sent.bytes < 200, "{sent:?}");
    arena.assert_served();
}

/// The timeout of a handshake is from its beginning: packets do not put it off.
#[test]
fn a_handshake_that_is_kept_alive_ends_all_the_same() {
    let mut arena = Setup::new().arena();
    arena.hostile().half_open = true;
    arena.hostile().connect();
    let mut most = 0;
    for second in 0..30 {
        arena.pass(Duration::from_millis(15));
        arena.hostile().say_at(Space::Initial, &[Frame::Ping]);
        arena.pass(Duration::from_millis(985));
        most = most.max(arena.grown());
        assert_eq!(arena.connections(), if second < 10 { 2 } else { 1 }, "second {second}");
    }
    assert!(most < HALF_OPEN, "{most} bytes");
    assert!(arena.grown() < 2_000, "{} bytes are left", arena.grown());
    let (sent, got) = (arena.sent_to_hostile(), arena.hostile().sent_bytes);
    assert!(sent.bytes <= 3 * got, "{sent:?} for {got}");
    arena.assert_served();
}

/// Bytes of a connection whose client has said hello.
const HALF_OPEN: isize = 24_000;
