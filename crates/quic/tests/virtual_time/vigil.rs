//! Clients that await data and hear nothing, in virtual time (RFC 9000 §9.3, §10.1).

use std::net::SocketAddr;

use bytes::Bytes;
use quickset_base::Duration;
use quickset_quic::{Closed, Dir, StreamId};
use quickset_sim::address;

use crate::common::{Pair, Setup, pattern};

const LINK: &str = "rate=20mbit delay=20ms queue=100kB";

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A request was made, and 5 kB of its answer have come.
fn asked_for(setup: &Setup) -> (Pair, StreamId) {
    let mut pair = setup.connected();
    pair.pass(ms(200));
    let key = pair.key;
    let id = pair.client_mut().send(key, Dir::Bi, &b"request"[..]);
    pair.pass(ms(50));
    say(&mut pair, id, 5_000);
    pair.pass(ms(100));
    assert_eq!(pair.client().received[&(key, id)].len(), 5_000);
    (pair, id)
}

/// The server goes on with an answer.
fn say(pair: &mut Pair, id: StreamId, len: usize) {
    let key = pair.server_key();
    let written = pair.server_mut().connection(key).write(id, &mut Bytes::from(pattern(len)));
    assert_eq!(written, Ok(len));
}

fn asked(pair: &mut Pair) -> u64 {
    let key = pair.key;
    pair.client_mut().connection(key).stats().asked
}

/// All that came is acknowledged when the NAT takes another port, and the answer is not over: what follows goes to the old
/// port, and nothing but the client can say where the new one is.
#[test]
fn the_rest_of_an_answer_finds_its_way_behind_a_nat_that_forgot() {
    for seed in quickset_sim::seeds(0..4) {
        let (mut pair, id) = asked_for(&Setup::new(seed, LINK));
        let key = pair.key;
        for n in 1..4 {
            forget(&mut pair, n);
            say(&mut pair, id, 50_000);
            let begun = pair.world.now();
            let all = 5_000 + usize::from(n) * 50_000;
            pair.until("received", |p| p.client().received[&(key, id)].len() == all);
            // Three probe timeouts, and the round trips until the server may send that much to a new address.
            let took = pair.world.now().since(begun);
            assert!(took < ms(900), "seed {seed}, {n}: {took:?}");
            pair.pass(ms(50));
        }

        let mut setup = Setup::new(seed, LINK);
        setup.client.ask_after = None;
        let (mut pair, id) = asked_for(&setup);
        forget(&mut pair, 1);
        say(&mut pair, id, 50_000);
        pair.pass(Duration::from_secs(20));
        assert_eq!(pair.client().received[&(pair.key, id)].len(), 5_000, "it shows nothing");
    }
}

/// The NAT takes another port, for the `n`th time.
fn forget(pair: &mut Pair, n: u16) {
    let port = |n| if n == 0 { address(1) } else { SocketAddr::new(address(1).ip(), 9_000 + n) };
    pair.world.rebind(port(n - 1), port(n));
}

/// RFC 9000 §10.1: asking does not prolong the life of a connection whose peer is gone.
#[test]
fn a_server_that_is_gone_is_found_gone_at_the_idle_timeout() {
    for idle in [5, 30] {
        for ask_after in [Some(ms(250)), None] {
            let mut setup = Setup::new(1, LINK);
            setup.client.idle_timeout = Some(Duration::from_secs(idle));
            setup.client.ask_after = ask_after;
            let (mut pair, id) = asked_for(&setup);
            say(&mut pair, id, 1_000);
            pair.pass(ms(30));
            // What was heard last came within these 30 ms.
            let gone = pair.world.now();
            pair.world.rebind(address(2), address(99));
            pair.pass(Duration::from_secs(idle - 1));
            assert_eq!(asked(&mut pair), u64::from(ask_after.is_some()), "then probe timeouts ask");
            assert!(pair.client().closed.is_empty());
            pair.until("closed", |p| !p.client().closed.is_empty());
            assert_eq!(pair.client().closed[0].1, Closed::TimedOut);
            let after = pair.world.now().since(gone);
            let wanted = Duration::from_secs(idle);
            assert!(wanted <= after + ms(31) && after <= wanted, "{after:?}, asking {ask_after:?}");
        }
    }
}

/// A server that answers and has nothing to say is asked six times, for 63 times the first wait, and then left in peace:
/// the connection lives by that much longer and no more.
#[test]
fn one_silence_is_asked_about_six_times() {
    let (mut pair, _) = asked_for(&Setup::new(2, LINK));
    let begun = pair.world.now();
    for seconds in [35, 10] {
        pair.pass(Duration::from_secs(seconds));
        assert_eq!(asked(&mut pair), 6, "and no more");
    }
    pair.until("closed", |p| !p.client().closed.is_empty() && !p.server().closed.is_empty());
    let lived = pair.world.now().since(begun).as_secs_f64();
    // The wait is three probe timeouts here: of 40 ms, what they vary by at most, and the delay of acknowledgements.
    let [least, most] = [40.0 + 25.0, 40.0 + 4.0 * 20.0 + 25.0].map(|pto| 30.0 + 63.0 * 3.0 * pto / 1000.0);
    assert!((least..most + 1.0).contains(&lived), "{lived} s: not {least} to {most}");
}

/// Streams that are open for whatever may come one day are not awaited, nor is what we do not take.
#[test]
fn nothing_is_asked_when_nothing_is_awaited() {
    // A stream of the server that brought little, a request that is answered, one that is still being made.
    let mut pair = Setup::new(3, LINK).connected();
    let (key, server_key) = (pair.key, pair.server_key());
    pair.server_mut().echo = true;
    pair.client_mut().send(key, Dir::Bi, pattern(100_000));
    let id = pair.server_mut().connection(server_key).open(Dir::Uni).expect("a stream may be opened");
    say(&mut pair, id, 10_000);
    let open = pair.client_mut().connection(key).open(Dir::Bi).expect("a stream may be opened");
    assert_eq!(pair.client_mut().connection(key).write(open, &mut Bytes::from_static(b"half")), Ok(4));
    pair.pass(Duration::from_secs(20));
    assert_eq!((asked(&mut pair), pair.client().finished.len()), (0, 1));
    // With more of it the server's stream is one that brings something.
    say(&mut pair, id, 10_000);
    pair.pass(Duration::from_secs(5));
    assert!(asked(&mut pair) > 0);

    // The client reads nothing, and its windows are full.
    let mut setup = Setup::new(3, LINK);
    setup.client.stream_window = 30_000;
    setup.client.max_stream_window = 30_000;
    let mut pair = setup.connected();
    pair.client_mut().lazy = true;
    let server_key = pair.server_key();
    pair.server_mut().send(server_key, Dir::Uni, pattern(100_000));
    pair.pass(Duration::from_secs(20));
    assert_eq!(asked(&mut pair), 0);

    // A server does not ask: it cannot be where its client does not look for it.
    let mut pair = Setup::new(3, LINK).connected();
    let (key, server_key) = (pair.key, pair.server_key());
    let id = pair.client_mut().connection(key).open(Dir::Uni).expect("a stream may be opened");
    pair.client_mut().connection(key).write(id, &mut Bytes::from(pattern(50_000))).expect("it fits");
    pair.pass(Duration::from_secs(20));
    assert_eq!(pair.server_mut().connection(server_key).stats().asked, 0);
}

/// A server that speaks every two seconds is asked about its pauses now and then, not in each.
#[test]
fn pauses_that_are_usual_are_not_asked_about() {
    let (mut pair, id) = asked_for(&Setup::new(4, LINK));
    for _ in 0..60 {
        say(&mut pair, id, 1_000);
        pair.pass(Duration::from_secs(2));
    }
    // Three of the first pause, and as many each 32 s after.
    let asked = asked(&mut pair);
    assert!((6..=15).contains(&asked), "{asked} in 60 pauses");
}

/// Not while there is something under way that is acknowledged: a transfer, even one of whose packets many are lost.
#[test]
fn a_transfer_asks_nothing() {
    for loss in ["", " loss=5%"] {
        let mut pair = Setup::new(5, &format!("{LINK}{loss}")).connected();
        let server_key = pair.server_key();
        let id = pair.server_mut().send(server_key, Dir::Uni, pattern(4_000_000));
        let key = pair.key;
        pair.until("received", |p| p.client().finished.contains(&(key, id)));
        assert_eq!(asked(&mut pair), 0, "{loss}");
    }
}
