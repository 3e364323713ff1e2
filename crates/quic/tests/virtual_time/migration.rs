//! Connections that go from one path to another, in virtual time (RFC 9000 §9).

use std::net::SocketAddr;

use quickset_base::{Duration, Time};
use quickset_policies::read;
use quickset_quic::{ConnectionKey, Dir, Event, Fec, Migration, MoveError, RetryPolicy, StreamId};
use quickset_sim::{LinkSpec, LinkWay, address};

use crate::common::{Pair, Setup, pattern};

const LINK: &str = "rate=20mbit delay=20ms queue=100kB";

/// A transfer under way, and who receives it.
struct Transfer {
    pair: Pair,
    data: Vec<u8>,
    id: StreamId,
    to_server: bool,
}

impl Transfer {
    /// Half a second into 3 MB, which take 1.2 s.
    fn begin(setup: &Setup, to_server: bool) -> Self {
        let mut pair = setup.connected();
        // The handshake is confirmed and spare ids are there.
        pair.pass(Duration::from_millis(200));
        let data = pattern(3_000_000);
        let (key, server_key) = (pair.key, pair.server_key());
        let id = if to_server {
            pair.client_mut().send(key, Dir::Uni, data.clone())
        } else {
            pair.server_mut().send(server_key, Dir::Uni, data.clone())
        };
        pair.pass(Duration::from_millis(500));
        Self { pair, data, id, to_server }
    }

    fn received(&self, key: ConnectionKey) -> usize {
        let peer = if self.to_server { self.pair.server() } else { self.pair.client() };
        peer.received.get(&(key, self.id)).map_or(0, Vec::len)
    }

    fn key(&self) -> ConnectionKey {
        if self.to_server { self.pair.server_key() } else { self.pair.key }
    }

    /// Lets it end. Returns when, and the longest time in which nothing was delivered.
    fn finish(&mut self) -> (Duration, Duration) {
        let (key, step, begun) = (self.key(), Duration::from_millis(5), self.pair.world.now());
        let (mut last, mut since, mut longest) = (self.received(key), begun, Duration::ZERO);
        while self.received(key) < self.data.len() {
            self.pair.pass(step);
            let (now, got) = (self.pair.world.now(), self.received(key));
            if got > last {
                (last, since) = (got, now);
            }
            longest = longest.max(now.since(since));
            let closed = &self.pair.client().closed;
            assert!(
                closed.is_empty() && now.since(begun) < Duration::from_secs(60),
                "stuck at {got}: {closed:?}"
            );
        }
        let peer = if self.to_server { self.pair.server() } else { self.pair.client() };
        assert!(peer.received[&(key, self.id)] == self.data);
        let took = self.pair.world.now().since(begun);
        // Whatever waits for the moves to be over.
        self.pair.pass(Duration::from_secs(5));
        (took, longest)
    }

    fn server_path(&mut self) -> SocketAddr {
        let key = self.pair.server_key();
        self.pair.server_mut().connection(key).path().remote
    }
}

fn moved(events: &[Event]) -> Vec<SocketAddr> {
    let of = |event: &Event| match event {
        Event::Moved(path) => Some(path.remote),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// An address of the same host with another port, or of another.
fn nat(host: u16, port: u16) -> SocketAddr {
    SocketAddr::new(address(host).ip(), port)
}

/// A NAT that takes another port, or address, costs about a round trip of 40 ms: what was under way, and for
/// a download the time until the server may send more than thrice what it got.
#[test]
fn a_nat_that_forgets_its_binding_costs_a_round_trip() {
    for seed in quickset_sim::seeds(0..3) {
        for (new, to_server) in
            [(nat(1, 9999), true), (nat(1, 9999), false), (nat(77, 4433), true), (nat(77, 4433), false)]
        {
            let mut transfer = Transfer::begin(&Setup::new(seed, LINK), to_server);
            transfer.pair.world.rebind(address(1), new);
            let (took, stall) = transfer.finish();
            let what = format!("seed {seed}, {new}, up {to_server}: took {took:?}, stalled for {stall:?}");
            assert!(took < Duration::from_millis(1600), "{what}");
            assert!(stall < Duration::from_millis(220), "{what}");
            assert_eq!(transfer.server_path(), new, "{what}");
            assert_eq!(moved(&transfer.pair.server().events), [new], "{what}");
            assert!(moved(&transfer.pair.client().events).is_empty(), "it knows nothing of it");
        }
    }
}

#[test]
fn one_binding_after_another_and_losses_are_survived() {
    for seed in quickset_sim::seeds(0..6) {
        let setup = Setup::new(seed, "rate=20mbit delay=20ms jitter=uniform:5ms loss=3% queue=100kB");
        let mut transfer = Transfer::begin(&setup, seed % 2 == 0);
        let mut at = address(1);
        for n in 0..6u16 {
            let new = if n % 3 == 2 { nat(50 + n, 4433) } else { nat(1, 5000 + n) };
            transfer.pair.world.rebind(at, new);
            at = new;
            transfer.pair.pass(Duration::from_millis(150));
        }
        transfer.finish();
        // What came late may be why the last move is not the last that was told.
        assert_eq!(transfer.server_path(), at, "seed {seed}");
        assert!(transfer.pair.client().closed.is_empty() && transfer.pair.server().closed.is_empty());
    }
}

/// A laptop changes networks: the old address is gone, and its driver says so.
fn change_network(pair: &mut Pair, new: u16, link: &str) {
    let spec: LinkSpec = link.parse().expect("a link");
    let (up, down) = (pair.world.add_link(spec.clone()), pair.world.add_link(spec));
    let ways = [
        LinkWay { from: address(new), to: address(2), links: vec![up] },
        LinkWay { from: address(2), to: address(new), links: vec![down] },
    ];
    pair.world.change_interface(address(1), address(new), &ways);
    let (key, now) = (pair.key, pair.world.now());
    pair.client_mut().connection(key).rebound(now);
}

#[test]
fn a_client_on_another_network_goes_on_at_once() {
    for (seed, to_server) in quickset_sim::seeds(0..4).flat_map(|seed| [(seed, true), (seed, false)]) {
        let mut transfer = Transfer::begin(&Setup::new(seed, LINK), to_server);
        change_network(&mut transfer.pair, 5, "rate=50mbit delay=10ms queue=100kB");
        let (took, stall) = transfer.finish();
        let what = format!("seed {seed}, up {to_server}: took {took:?}, stalled for {stall:?}");
        // 3 MB less half a second's take 0.3 s at 50 Mbit/s, and slow start from the beginning.
        assert!(took < Duration::from_millis(1200), "{what}");
        assert!(stall < Duration::from_millis(300), "{what}");
        assert_eq!(moved(&transfer.pair.server().events), [address(5)], "{what}");
        assert_eq!(moved(&transfer.pair.client().events), [address(2)], "{what}");
        let key = transfer.pair.key;
        let stats = transfer.pair.client_mut().connection(key).stats();
        assert!(stats.min_rtt < Duration::from_millis(30), "RFC 9000 §9.4: {:?}", stats.min_rtt);
    }
}

/// For a while nothing arrives at the client, and the word of ids that the server retired does not either.
/// The server still has one for where the client is then.
#[test]
fn a_client_that_moves_and_hears_nothing_is_found_in_the_end() {
    for seed in quickset_sim::seeds(0..4) {
        let setup = Setup::new(seed, LINK).transport(|t| t.idle_timeout = None);
        let mut pair = setup.connected();
        pair.pass(Duration::from_millis(200));
        let (key, server_key) = (pair.key, pair.server_key());
        let down = pair.world.add_link("loss=100%".parse().expect("a link"));
        pair.world.route(address(2), address(1), down);
        let now = pair.world.now();
        pair.client_mut().connection(key).rebound(now);
        let id = pair.client_mut().send(key, Dir::Bi, pattern(10_000));
        // So that the client retires its old id while the server is at the first of its new addresses.
        let up = pair.up;
        pair.world.link_mut(up).change("loss=100%".parse().expect("a link"));
        pair.pass(Duration::from_secs(1));
        pair.world.link_mut(up).change(LINK.parse().expect("a link"));
        let mut at = address(1);
        for n in 0..10 {
            pair.world.rebind(at, nat(1, 5000 + n));
            at = nat(1, 5000 + n);
            for _ in 0..8 {
                pair.pass(Duration::from_millis(500));
                pair.client_mut().connection(key).ping();
            }
        }
        let stats = pair.server_mut().connection(server_key).stats();
        assert!(stats.failed_moves > 2, "seed {seed}: {stats:?}");
        pair.world.link_mut(down).change(LINK.parse().expect("a link"));
        let begun = pair.world.now();
        for _ in 0..8 {
            pair.client_mut().connection(key).ping();
            pair.pass(Duration::from_millis(500));
        }
        assert!(pair.server().finished.contains(&(server_key, id)), "seed {seed}");
        let server = pair.server_mut().connection(server_key);
        assert_eq!(server.path().remote, at, "seed {seed}: {:?}", server.stats());
        let stats = pair.client_mut().connection(key).stats();
        assert!(stats.in_flight < 100, "what was sent is acknowledged: {stats:?}");
        assert!(pair.world.now().since(begun) < Duration::from_secs(5));
    }
}

/// A second interface is tried before the first is left, and nothing stops meanwhile.
/// RFC 9000 §9.2.
#[test]
fn a_path_is_tried_before_it_is_used() {
    for to_server in [true, false] {
        let mut transfer = Transfer::begin(&Setup::new(1, LINK), to_server);
        let pair = &mut transfer.pair;
        pair.world.add_address(pair.client, address(6));
        pair.world.join(address(6), address(2), LINK.parse().expect("a link"), LINK.parse().expect("a link"));
        let (key, now) = (pair.key, pair.world.now());
        let client = pair.client_mut().connection(key);
        assert_eq!(client.migrate(now, Some(address(6).ip())), Ok(()));
        assert_eq!(client.migrate(now, None), Err(MoveError::UnderWay));
        let (_, stall) = transfer.finish();
        // The new road begins with a window of ten packets.
        assert!(stall < Duration::from_millis(150), "up {to_server}: {stall:?}");
        assert_eq!(transfer.server_path(), address(6));
        assert_eq!(moved(&transfer.pair.client().events), [address(2)]);
        let local = transfer.pair.client_mut().connection(key).path().local;
        assert_eq!(local, Some(address(6).ip()));
    }
}

#[test]
fn a_path_that_carries_nothing_is_not_used() {
    for hole in [(6, 2), (2, 6)] {
        let mut transfer = Transfer::begin(&Setup::new(1, LINK), true);
        let pair = &mut transfer.pair;
        pair.world.add_address(pair.client, address(6));
        pair.world.join(address(6), address(2), LINK.parse().expect("a link"), LINK.parse().expect("a link"));
        let lost = pair.world.add_link("loss=100%".parse().expect("a link"));
        pair.world.route(address(hole.0), address(hole.1), lost);
        let (key, now) = (pair.key, pair.world.now());
        assert_eq!(pair.client_mut().connection(key).migrate(now, Some(address(6).ip())), Ok(()));
        let (_, stall) = transfer.finish();
        assert!(stall < Duration::from_millis(120), "{hole:?}: {stall:?}");
        assert_eq!(transfer.server_path(), address(1));
        let client = transfer.pair.client();
        let failed =
            client.events.iter().filter(|e| matches!(e, Event::NotMoved(p) if p.local.is_some())).count();
        assert_eq!((moved(&client.events).len(), failed), (0, 1));
        // And another may be tried.
        let now = transfer.pair.world.now();
        assert_eq!(transfer.pair.client_mut().connection(key).migrate(now, None), Ok(()));
    }
}

/// RFC 9000 §9.5: ids are not used on two paths; the peer hears that old ones are retired, and gives new
/// ones.
#[test]
fn a_client_may_move_again_and_again() {
    let mut pair = Setup::new(2, LINK).connected();
    pair.pass(Duration::from_millis(200));
    let (key, server_key) = (pair.key, pair.server_key());
    for n in 0..12u16 {
        let spec: LinkSpec = LINK.parse().expect("a link");
        pair.world.add_address(pair.client, address(10 + n));
        pair.world.join(address(10 + n), address(2), spec.clone(), spec);
        let now = pair.world.now();
        let local = Some(address(10 + n).ip());
        assert_eq!(pair.client_mut().connection(key).migrate(now, local), Ok(()), "move {n}");
        pair.pass(Duration::from_secs(6));
        assert_eq!(pair.server_mut().connection(server_key).path().remote, address(10 + n), "move {n}");
    }
    let id = pair.client_mut().send(key, Dir::Bi, pattern(10_000));
    pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
    let stats = pair.client_mut().connection(key).stats();
    assert_eq!((stats.moves, stats.failed_moves), (12, 0));
}

/// RFC 9000 §9.6.
/// RFC 9000 §9.6.1, §9.6.2.
#[test]
fn a_client_goes_where_the_server_would_rather_be() {
    let preferred = |n| match address(n) {
        SocketAddr::V4(v4) => Migration::default().with_preferred_v4(Some(v4)),
        SocketAddr::V6(_) => unreachable!("addresses of the simulator are of IPv4"),
    };
    for (reachable, follow, allowed) in
        [(true, true, true), (false, true, true), (true, false, true), (true, true, false)]
    {
        let mut setup = Setup::new(3, LINK);
        setup.server.migration = preferred(3).with_allowed(allowed);
        setup.client.migration.follow = follow;
        let mut pair = setup.pair();
        pair.world.add_address(pair.server, address(3));
        let spec: LinkSpec = if reachable { LINK } else { "loss=100%" }.parse().expect("a link");
        pair.world.join(address(1), address(3), spec.clone(), spec);
        pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
        let (key, server_key) = (pair.key, pair.server_key());
        let data = pattern(500_000);
        let id = pair.client_mut().send(key, Dir::Uni, data.clone());
        pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
        pair.pass(Duration::from_secs(5));
        let goes = reachable && follow;
        let client = pair.client_mut().connection(key).path();
        let server = pair.server_mut().connection(server_key).path();
        assert_eq!(client.remote, address(if goes { 3 } else { 2 }), "{reachable} {follow}");
        assert_eq!(server.local, Some(client.remote.ip()), "{reachable} {follow}");
        assert_eq!(server.remote, address(1));
        assert!(pair.server().received[&(server_key, id)] == data);
        assert_eq!(moved(&pair.client().events).len(), usize::from(goes));
        let now = pair.world.now();
        if !allowed {
            // RFC 9000 §18.2: what is forbidden concerns the address of the handshake.
            assert_ne!(pair.client_mut().connection(key).migrate(now, None), Err(MoveError::Forbidden));
        }
    }
}

/// FEC-28, FEC-52: repair goes on behind a move, and what was held is not lost with the old path.
#[test]
fn repair_survives_a_move() {
    for seed in quickset_sim::seeds(0..4) {
        let link = "rate=20mbit delay=20ms loss=2% queue=100kB";
        let setup = Setup::new(seed, link).transport(|t| {
            t.fec = Some(Fec::default().with_protection(read("fixed:10").expect("a protection")));
        });
        let mut transfer = Transfer::begin(&setup, seed % 2 == 0);
        let mut at = address(1);
        for n in 0..4u16 {
            let new = if n % 2 == 0 { nat(60 + n, 4433) } else { nat(60, 7000 + n) };
            transfer.pair.world.rebind(at, new);
            at = new;
            transfer.pair.pass(Duration::from_millis(180));
        }
        transfer.finish();
        assert_eq!(transfer.server_path(), at, "seed {seed}");
    }
}

/// A server that can say nothing to where the client seems to be now does not fall silent for ever: the
/// client's packets bring it along.
#[test]
fn equal_seeds_move_alike() {
    let run = |seed| {
        let mut transfer =
            Transfer::begin(&Setup::new(seed, "rate=20mbit delay=20ms loss=2% queue=100kB"), true);
        transfer.pair.world.rebind(address(1), nat(9, 9));
        let ended = transfer.finish();
        let key = transfer.pair.key;
        (ended, transfer.pair.client_mut().connection(key).stats(), transfer.pair.world.now() > Time::ZERO)
    };
    assert_eq!(run(4), run(4));
}

/// RFC 9000 §9: nobody moves of its own will before the handshake is confirmed; a NAT asks nobody. Whenever
/// its binding changes, the handshake goes on where the client is, and so does what follows.
#[test]
fn a_nat_that_forgets_its_binding_within_the_handshake_does_not_end_it() {
    for (certificate, retry) in
        [(900, RetryPolicy::Never), (12_000, RetryPolicy::Never), (5000, RetryPolicy::Always)]
    {
        // RFC 9000 §8.1.4: the token of a Retry is good for one address and port.
        let begun = if retry == RetryPolicy::Always { 44 } else { 0 };
        for at in (begun..160).step_by(4) {
            for (new, says) in [(nat(1, 9999), true), (nat(1, 9999), false), (nat(77, 4433), true)] {
                let what = format!("{certificate} {retry:?} at {at} ms, {new}, {says}");
                let mut pair = Setup { retry, certificate, ..Setup::new(at, LINK) }.pair();
                pair.pass(Duration::from_millis(at));
                pair.world.rebind(address(1), new);
                pair.until("connected", |p| {
                    !p.client().connected.is_empty() || !p.client().closed.is_empty()
                });
                let took = pair.world.now();
                assert!(took < Time::from_millis(2000) && pair.client().closed.is_empty(), "{what}: {took}");
                // A client without anything to say is heard only by what the handshake itself repeats; one
                // that is not confirmed gives up after ten seconds.
                let key = pair.key;
                let id = says.then(|| pair.client_mut().send(key, Dir::Bi, pattern(10_000)));
                pair.pass(Duration::from_secs(12));
                let (client, server) = (pair.client(), pair.server());
                assert_eq!(server.connected.len(), 1, "{what}");
                assert!(client.closed.is_empty() && server.closed.is_empty(), "{what}: {:?}", client.closed);
                if let Some(id) = id {
                    let got = server.received.get(&(server.connected[0], id));
                    assert!(got.is_some_and(|got| got.len() == 10_000), "{what}: {:?}", got.map(Vec::len));
                    let at = pair.server_key();
                    assert_eq!(pair.server_mut().connection(at).path().remote, new, "{what}");
                }
            }
        }
    }
}

/// Several bindings within one handshake, and losses.
#[test]
fn a_handshake_that_is_moved_about_comes_to_its_end() {
    for seed in quickset_sim::seeds(0..60) {
        let certificate = [900, 3000, 9000][seed as usize % 3];
        let link = "rate=20mbit delay=20ms jitter=uniform:3ms loss=10% queue=100kB";
        let mut setup = Setup { certificate, ..Setup::new(seed, link) };
        setup = setup.transport(|t| t.handshake_timeout = Duration::from_secs(60));
        let mut pair = setup.pair();
        let (mut at, mut rng) = (address(1), quickset_base::Rng::new(seed));
        for n in 0..4u16 {
            pair.pass(Duration::from_millis(rng.below(60)));
            let new = if n % 2 == 0 { nat(1, 5000 + n) } else { nat(50 + n, 4433) };
            pair.world.rebind(at, new);
            at = new;
        }
        let closed = |p: &crate::common::View<'_>| !p.client().closed.is_empty();
        pair.until("connected", |p| {
            closed(p) || (!p.client().connected.is_empty() && !p.server().connected.is_empty())
        });
        let what = format!("seed {seed} at {}", pair.world.now());
        assert!(pair.client().closed.is_empty(), "{what}: {:?}", pair.client().closed);
        let (key, there) = (pair.key, pair.server_key());
        let id = pair.client_mut().send(key, Dir::Uni, pattern(50_000));
        let back = pair.server_mut().send(there, Dir::Uni, pattern(50_000));
        pair.pass(Duration::from_secs(20));
        let (client, server) = (pair.client(), pair.server());
        assert!(server.finished.contains(&(there, id)), "{what}: {:?} {:?}", client.closed, server.closed);
        assert!(client.finished.contains(&(key, back)), "{what}: {:?} {:?}", client.closed, server.closed);
    }
}
