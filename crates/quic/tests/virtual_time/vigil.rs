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
    let written = pair.server_mut().connection(key).send_stream(id).write(&mut Bytes::from(pattern(len)));
    assert_eq!(written, Ok(len));
}

fn asked(pair: &mut Pair) -> u64 {
    let key = pair.key;
    pair.client_mut().connection(key).stats().asked
}

/// All that came is acknowledged when the NAT takes another port, and the answer is not over: what follows
/// goes to the old port, and nothing but the client can say where the new one is.
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

/// A server that answers and has nothing to say is asked for as long as the connection lives, which is longer
/// by no more than the first six answers make it (RFC 9000 §10.1).
#[test]
fn one_silence_is_asked_about_to_the_end_and_prolonged_six_times() {
    let (mut pair, _) = asked_for(&Setup::new(2, LINK));
    let (key, begun) = (pair.key, pair.world.now());
    let mut times = vec![begun];
    while pair.client().closed.is_empty() {
        pair.pass(ms(50));
        let count = pair.client_mut().node.connection(key).map_or(0, |c| c.stats().asked);
        if count as usize >= times.len() {
            times.push(pair.world.now());
        }
    }
    let lived = pair.world.now().since(begun).as_secs_f64();
    assert_eq!(pair.client().closed[0].1, Closed::TimedOut);
    // Each after twice the time, until that is a sixth of the 30 s; one pause in which the server might speak
    // by itself.
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect();
    assert!(gaps[..6].windows(2).all(|gaps| gaps[1] >= 1.9 * gaps[0] || gaps[1] > 4.9), "{gaps:?}");
    assert!(gaps[..6].iter().chain(&gaps[7..]).all(|gap| *gap < 5.2) && gaps[6] < 15.5, "{gaps:?}");
    let prolonged = gaps[..6].iter().sum::<f64>();
    assert!(
        (lived - prolonged - 30.0).abs() < 0.5,
        "{lived} s, of which {prolonged} before the sixth answer"
    );
    assert!(gaps.len() >= 9, "it is asked on in the last 30 s: {gaps:?}");
}

/// A longer life is the server's to give: what elicits keeps the connection alive as ever.
#[test]
fn a_server_that_keeps_its_connection_alive_is_not_taken_for_gone() {
    let mut setup = Setup::new(2, LINK);
    setup.server.keep_alive = Some(Duration::from_secs(8));
    let (mut pair, _) = asked_for(&setup);
    pair.pass(Duration::from_secs(1000));
    assert!(pair.client().closed.is_empty() && pair.server().closed.is_empty());
}

/// An outage is no pause that the server makes, however long it was: the next silence is asked about as early
/// as the first. What the server says meanwhile is lost, but for a question's answer now and then, as from a
/// path that drops in bursts.
#[test]
fn an_outage_is_not_taken_for_usual() {
    for outage in [2, 5, 12, 25] {
        let (mut pair, id) = asked_for(&Setup::new(6, LINK));
        let (key, up, down) = (pair.key, pair.up, pair.down);
        let is = |pair: &mut Pair, loss: &str| {
            for link in [up, down] {
                pair.world.link_mut(link).change(format!("{LINK}{loss}").parse().expect("a link"));
            }
        };
        is(&mut pair, " loss=100%");
        say(&mut pair, id, 50_000);
        pair.pass(Duration::from_secs(outage));
        is(&mut pair, "");
        pair.until("received", |p| p.client().received[&(key, id)].len() == 55_000);
        pair.pass(ms(200));
        let before = asked(&mut pair);
        forget(&mut pair, 1);
        say(&mut pair, id, 50_000);
        let begun = pair.world.now();
        pair.until("received", |p| p.client().received[&(key, id)].len() == 105_000);
        let took = pair.world.now().since(begun);
        assert!(took < ms(1_500) && asked(&mut pair) > before, "{took:?} behind an outage of {outage} s");
    }
}

/// A sender that waits for credit waits for its peer like any other, and a NAT that forgot it in the meantime
/// is found out.
#[test]
fn credit_is_awaited_like_data() {
    let setup = Setup::new(8, LINK).transport(|t| {
        t.stream_window = 30_000;
        t.max_stream_window = 30_000;
    });
    let mut pair = setup.connected();
    pair.pass(ms(200));
    let (key, server_key) = (pair.key, pair.server_key());
    pair.server_mut().lazy = true;
    let id = pair.client_mut().send(key, Dir::Uni, pattern(100_000));
    pair.pass(Duration::from_secs(2));
    assert!(asked(&mut pair) > 0, "it is held up");
    // The server's application reads at last, when the client is elsewhere.
    forget(&mut pair, 1);
    pair.server_mut().lazy = false;
    pair.server_mut().read(server_key, id);
    let begun = pair.world.now();
    pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
    let took = pair.world.now().since(begun);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// Streams that are open for whatever may come one day are not awaited, nor is what we do not take.
#[test]
fn nothing_is_asked_when_nothing_is_awaited() {
    // A stream of the server that brought little, a request that is answered, one that is still being made.
    let mut pair = Setup::new(3, LINK).connected();
    let (key, server_key) = (pair.key, pair.server_key());
    pair.server_mut().echo = true;
    pair.client_mut().send(key, Dir::Bi, pattern(100_000));
    let id =
        pair.server_mut().connection(server_key).streams().open(Dir::Uni).expect("a stream may be opened");
    say(&mut pair, id, 10_000);
    let open = pair.client_mut().connection(key).streams().open(Dir::Bi).expect("a stream may be opened");
    assert_eq!(
        pair.client_mut().connection(key).send_stream(open).write(&mut Bytes::from_static(b"half")),
        Ok(4)
    );
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
    let id = pair.client_mut().connection(key).streams().open(Dir::Uni).expect("a stream may be opened");
    pair.client_mut()
        .connection(key)
        .send_stream(id)
        .write(&mut Bytes::from(pattern(50_000)))
        .expect("it fits");
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

/// Not while there is something under way that is acknowledged: a transfer, even one of whose packets many
/// are lost.
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
