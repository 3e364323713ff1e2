//! Floods of first packets, and handshakes that never end (RFC 9000 §21.2, §21.3).

use quickset_base::Duration;
use quickset_quic::RetryPolicy;
use quickset_sim::address;
use quickset_wire::Space;
use quickset_wire::frame::Frame;

use crate::arena::{Arena, ECHO, Sent, Setup};
use crate::hostile::{Hostile, hello};

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

/// A server that asks nobody.
#[test]
fn hellos_from_everywhere_hold_no_more_than_the_limit() {
    let mut arena = Setup { max_connections: 100, ..Setup::new() }.arena();
    let most = flood(&mut arena, 600);
    assert_eq!(arena.connections(), 100);
    assert!(most < 100 * HALF_OPEN, "{} bytes for a half-open connection", most / 100);
    let refused = arena.server().node.endpoint().counters().refused;
    assert!((100..=150).contains(&refused), "{refused} refusals to whoever is there, in half a second");
    arena.pass(Duration::from_secs(12));
    assert!(most_sent(&mut arena).bytes <= 3 * 1200, "{:?}", most_sent(&mut arena));
    assert_eq!(arena.connections(), 1, "the handshake timeout");
    assert!(arena.grown() < 100_000, "{} bytes are left", arena.grown());
    arena.assert_served();
}

/// Halves of hellos of two datagrams, of which the others never come: they hold no more than wholes, and for
/// no longer.
#[test]
fn halves_of_hellos_hold_no_more_than_the_limit() {
    let mut arena = Setup { max_connections: 100, ..Setup::new() }.arena();
    let from = arena.addresses(300);
    let data = [7; 1000];
    let most = arena.each(300, MS, |hostile, n| {
        let mut half = Hostile::new(1000 + n, address(1), ECHO);
        half.say_at(Space::Initial, &[Frame::Crypto { offset: 600, data: &data }]);
        hostile.from = Some(from[n as usize]);
        hostile.raw(half.take().remove(0));
    });
    assert_eq!(arena.connections(), 100);
    assert!(most < 100 * HALF_OPEN, "{} bytes for half a hello", most / 100);
    arena.pass(Duration::from_secs(12));
    let sent = most_sent(&mut arena);
    assert!(sent.datagrams == 1 && sent.bytes < 100, "an acknowledgement: {sent:?}");
    assert_eq!(arena.connections(), 1, "the handshake timeout");
    assert!(arena.grown() < 100_000, "{} bytes are left", arena.grown());
    arena.assert_served();
}

/// Ten thousand clients say hello at once, or three thousand where nothing is optimized: each is served and
/// holds little, and all of it is given back.
#[test]
fn thousands_of_connections_at_once_are_served_and_given_back() {
    const CLIENTS: usize = if cfg!(debug_assertions) { 3_000 } else { 10_000 };
    let count = isize::try_from(CLIENTS).expect("they are few");
    let setup = Setup { max_connections: 2 * CLIENTS, ..Setup::new() };
    let mut arena = setup.arena();
    let crowd = arena.crowd(&setup, CLIENTS);
    let mut most = 0;
    for _ in 0..30 {
        arena.pass(100 * MS);
        most = most.max(arena.grown());
    }
    assert_eq!(arena.connections(), 1 + CLIENTS);
    let each = arena.grown() / count;
    assert!(most < count * HALF_OPEN, "{} bytes for a connection at most", most / count);
    assert!(each < 20_000, "{each} bytes for a connection that rests");
    arena.disperse(crowd);
    arena.pass(Duration::from_secs(5));
    assert_eq!(arena.connections(), 1);
    // Tables keep the places of as many as there were.
    assert!(arena.grown() < count * 550, "{} bytes are left", arena.grown());
    arena.begin();
    arena.pass(Duration::from_secs(1));
    arena.assert_served();
}

/// RFC 9000 §8.1.2: from then on nothing is kept for whom has not proved an address; who proves it is served.
/// Whatever the limit is, it is not the flood that reaches it.
#[test]
fn a_busy_server_asks_for_proof_and_serves_who_gives_it() {
    for (max_connections, kept) in [(6, 1), (50, 12), (500, 50), (10_000, 50)] {
        let retry = RetryPolicy::WhenBusy(50);
        let mut arena = Setup { retry, max_connections, ..Setup::new() }.arena();
        let from = arena.addresses(2000);
        let forged = |hostile: &mut Hostile, n: u64| {
            for n in 4 * n..4 * n + 4 {
                hostile.from = Some(from[n as usize % from.len()]);
                hostile.raw(hello(1000 + n, address(1), ECHO).0);
            }
        };
        let most = arena.each(300, MS, forged);
        arena.pass(15 * MS);
        assert_eq!(arena.connections(), 1 + kept, "of {max_connections}");
        let each = most.unsigned_abs() / kept;
        assert!(each < HALF_OPEN.unsigned_abs(), "{each} bytes for a half-open connection");
        assert_eq!(arena.server().node.endpoint().counters().retries, 1200 - kept as u64);
        for n in 0..5 {
            if n < max_connections - 1 - kept {
                arena.welcome();
            }
            arena.each(100, MS, |hostile, m| forged(hostile, 300 + 100 * n as u64 + m));
        }
        assert_eq!(arena.waits().len(), 5.min(max_connections - 1 - kept));
        arena.assert_welcomed();
        arena.assert_served();
    }
}

/// Hellos in the name of a client take nothing from it.
#[test]
fn a_client_in_whose_name_others_say_hello_comes_in() {
    for max_connections in [8, 50, 500] {
        for retry in [RetryPolicy::WhenBusy(100), RetryPolicy::Always] {
            let mut arena = Setup { retry, max_connections, ..Setup::new() }.arena();
            let victim = arena.victim();
            arena.each(600, MS, |hostile, n| {
                hostile.from = Some(victim);
                hostile.raw(hello(1000 + n, address(1), ECHO).0);
            });
            arena.welcome();
            arena.each(100, MS, |hostile, n| hostile.raw(hello(5000 + n, address(1), ECHO).0));
            arena.assert_welcomed();
            arena.assert_served();
        }
    }
}

/// One address that is the attacker's own, from which it begins a thousand handshakes.
#[test]
fn who_proves_its_address_and_begins_much_is_in_nobodys_way() {
    for (max_connections, held) in [(8, 4), (50, 12), (500, 125)] {
        for retry in [RetryPolicy::WhenBusy(10), RetryPolicy::Always] {
            let mut arena = Setup { retry, max_connections, ..Setup::new() }.arena();
            arena.each(1000, MS, |hostile, n| {
                hostile.from = None;
                hostile.spawn(1000 + n, ECHO, true);
            });
            let unproven = if retry == RetryPolicy::Always { 0 } else { 10.min(max_connections / 4) };
            let connections = arena.connections();
            assert!(
                (1 + held..=1 + held + unproven).contains(&connections),
                "{connections} of {max_connections}"
            );
            for n in 0..3 {
                arena.welcome();
                arena.each(100, MS, |hostile, m| hostile.spawn(3000 + 100 * n + m, ECHO, true));
            }
            arena.assert_welcomed();
            arena.assert_served();
        }
    }
}

/// Attackers with addresses enough to fill the house with handshakes: whoever is new takes the place of one
/// of those.
#[test]
fn handshakes_from_many_networks_make_room() {
    let mut arena = Setup { retry: RetryPolicy::Always, max_connections: 50, ..Setup::new() }.arena();
    let from = arena.addresses(64);
    arena.each(400, MS, |hostile, n| {
        hostile.from = Some(from[n as usize % 8]);
        hostile.spawn(1000 + n, ECHO, true);
    });
    assert_eq!(arena.connections(), 50);
    arena.welcome();
    arena.pass(100 * MS);
    arena.assert_welcomed();
    // Each of an address of its own: now it goes by time.
    arena.each(400, 10 * MS, |hostile, n| {
        hostile.from = Some(from[n as usize % 64]);
        hostile.spawn(5000 + n, ECHO, true);
    });
    arena.pass(Duration::from_secs(1));
    arena.welcome();
    arena.each(10, 10 * MS, |hostile, n| {
        hostile.from = Some(from[n as usize]);
        hostile.spawn(9000 + n, ECHO, true);
    });
    arena.assert_welcomed();
    arena.assert_served();
}

/// Connections that are over hold no places, however slowly they go.
#[test]
fn who_comes_and_goes_holds_no_places() {
    let mut arena = Setup { max_connections: 20, ..Setup::new() }.arena();
    let most = arena.each(1000, 5 * MS, |hostile, n| {
        hostile.spawn(1000 + n, ECHO, false);
        hostile.leave();
    });
    assert!(arena.hostile().left > 900, "{}", arena.hostile().left);
    assert!(arena.connections() <= 2 * 20, "{}", arena.connections());
    assert!(most < 40 * HALF_OPEN, "{most}");
    arena.welcome();
    arena.pass(100 * MS);
    arena.assert_welcomed();
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

/// RFC 9002 §6.2.3: a hello that comes again has its answer again, though the client acknowledged it (some do
/// so before they can act on it); twice, and not each time.
#[test]
fn a_hello_that_comes_again_is_answered_a_few_times() {
    let mut arena = Setup::new().arena();
    arena.hostile().half_open = true;
    arena.hostile().connect();
    arena.pass(30 * MS);
    assert_eq!(arena.connections(), 2);
    let mut sent = vec![arena.sent_to_hostile().bytes];
    for _ in 0..50 {
        // Each in a packet of its own, sooner than any probe timeout.
        arena.hostile().say_at(Space::Initial, &[Frame::Crypto { offset: 0, data: &[1] }]);
        arena.pass(MS);
        sent.push(arena.sent_to_hostile().bytes);
    }
    arena.pass(20 * MS);
    sent.push(arena.sent_to_hostile().bytes);
    let flight = sent[0];
    let more = sent.last().expect("it is counted") - flight;
    // Beside acknowledgements.
    let acks = 52 * 100;
    assert!((2 * flight * 9 / 10..=2 * flight + acks).contains(&more), "{more} for {flight}: {sent:?}");
    assert!(sent.last() <= Some(&(3 * arena.hostile().sent_bytes)), "RFC 9000 §8.1");
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
