//! What the system refuses to send is not lost, in virtual time: sizes follow, what can leave leaves at once,
//! and congestion control hears nothing of it.

use quickset_base::Duration;
use quickset_policies::read;
use quickset_quic::{Closed, Dir, Fec, MtuDiscovery, Obstacle, Stats};

use crate::common::{Pair, Peer, Setup, System, pattern};

const LINK: &str = "rate=20mbit delay=20ms queue=8MB";

/// Which side's system it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Client,
    Server,
}

const BOTH: [Of; 2] = [Of::Client, Of::Server];

impl Of {
    fn peer(self, pair: &mut Pair) -> &mut Peer {
        if self == Self::Client { pair.client_mut() } else { pair.server_mut() }
    }

    fn system(self, pair: &mut Pair) -> &mut System {
        &mut self.peer(pair).system
    }

    fn stats(self, pair: &mut Pair) -> Stats {
        let key = if self == Self::Client { pair.key } else { pair.server_key() };
        self.peer(pair).connection(key).stats()
    }

    /// Begins to send so much to the other side.
    fn sends(self, pair: &mut Pair, len: usize) {
        let key = if self == Self::Client { pair.key } else { pair.server_key() };
        self.peer(pair).send(key, Dir::Uni, pattern(len));
    }
}

/// Until all of it has arrived, as it was. Returns when, from now on.
fn arrives(pair: &mut Pair, of: Of, len: usize) -> Duration {
    let begun = pair.world.now();
    pair.until("arrived", |p| {
        let to = if of == Of::Client { p.server() } else { p.client() };
        !to.finished.is_empty()
    });
    let to = if of == Of::Client { pair.server() } else { pair.client() };
    assert!(to.received[&to.finished[0]] == pattern(len), "other bytes");
    pair.world.now().since(begun)
}

fn searching(seed: u64) -> Setup {
    Setup::new(seed, LINK).transport(|t| t.mtu_discovery = Some(MtuDiscovery::default()))
}

/// RFC 9000 §14.3, RFC 8899 §4.3: a VPN comes up in the middle of a transfer.
#[test]
fn sizes_follow_what_the_interface_takes() {
    for of in BOTH {
        for protection in [None, Some("fixed:5")] {
            let fec = protection.map(|p| Fec::default().with_protection(read(p).unwrap()).with_window(2048));
            let mut pair = searching(1).transport(|t| t.fec = fec.clone()).connected();
            of.sends(&mut pair, 4_000_000);
            pair.pass(Duration::from_millis(700));
            let before = of.stats(&mut pair);
            assert_eq!(before.mtu.current, 1472);
            of.system(&mut pair).most = Some(1392);
            let took = arrives(&mut pair, of, 4_000_000);
            let after = of.stats(&mut pair);
            assert!(took < Duration::from_millis(1500), "{of:?}: 4 MB take 1.7 s, and took {took:?} more");
            assert!((1377..=1392).contains(&after.mtu.current), "{of:?}: {:?}", after.mtu);
            assert_eq!(after.mtu.falls, 1, "{of:?}");
            assert!(after.refused_datagrams > 0);
            assert_eq!(
                (after.lost_packets, after.ptos),
                (before.lost_packets, before.ptos),
                "{of:?}: no loss"
            );
            assert!(after.window >= before.window, "{of:?}: {} then {}", before.window, after.window);
            assert!(of.system(&mut pair).refused < 20, "{of:?}");
        }
    }
}

/// RFC 8899 §5.1.1: the VPN goes again.
#[test]
fn what_the_interface_takes_again_is_found() {
    let interval = Duration::from_secs(5);
    let mut pair = searching(2)
        .transport(|t| t.mtu_discovery = Some(MtuDiscovery::default().with_interval(interval)))
        .connected();
    pair.pass(Duration::from_secs(1));
    Of::Client.system(&mut pair).most = Some(1300);
    Of::Client.sends(&mut pair, 500_000);
    arrives(&mut pair, Of::Client, 500_000);
    pair.pass(Duration::from_secs(1));
    assert!((1285..=1300).contains(&Of::Client.stats(&mut pair).mtu.current));
    Of::Client.system(&mut pair).most = None;
    pair.pass(interval + Duration::from_secs(1));
    assert_eq!(Of::Client.stats(&mut pair).mtu.current, 1472);
}

/// No search, and datagrams that are configured to be larger than an interface takes. RFC 9000 §14: 1200
/// bytes do.
#[test]
fn handshakes_go_on_in_what_every_path_takes() {
    for of in BOTH {
        let setup = Setup::new(3, LINK).transport(|t| t.mtu = 1452);
        let usual = setup.connected().world.now();
        let mut pair = setup.pair();
        of.system(&mut pair).most = Some(1300);
        pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
        assert!(pair.world.now().since(usual) < Duration::from_millis(1), "{of:?}");
        let other = if of == Of::Client { Of::Server } else { Of::Client };
        other.sends(&mut pair, 100_000);
        arrives(&mut pair, other, 100_000);
        of.sends(&mut pair, 100_000);
        pair.until("arrived", |p| !p.client().finished.is_empty() && !p.server().finished.is_empty());
        let stats = of.stats(&mut pair);
        assert_eq!((stats.mtu.current, stats.lost_packets, stats.ptos), (1200, 0, 0), "{of:?}");
    }
}

#[test]
fn a_route_that_is_gone_for_a_while_costs_that_while() {
    for of in BOTH {
        for obstacle in [Obstacle::Route, Obstacle::Rule, Obstacle::Source, Obstacle::Other] {
            let mut pair = searching(4).connected();
            of.sends(&mut pair, 2_000_000);
            pair.pass(Duration::from_millis(300));
            of.system(&mut pair).says = Some(obstacle);
            let asked = of.system(&mut pair).asked;
            pair.pass(Duration::from_secs(3));
            let asked = of.system(&mut pair).asked - asked;
            assert!((10..100).contains(&asked), "{of:?} {obstacle:?}: tried {asked} times");
            of.system(&mut pair).says = None;
            let took = arrives(&mut pair, of, 2_000_000);
            assert!(took < Duration::from_millis(1500), "{of:?} {obstacle:?}: {took:?}");
            assert_eq!(of.stats(&mut pair).lost_packets, 0, "{of:?} {obstacle:?}");
        }
    }
}

/// Who only receives has acknowledgements to send, which are no less late than data.
#[test]
fn acknowledgements_leave_as_soon_as_they_can() {
    for of in BOTH {
        let to = if of == Of::Client { Of::Server } else { Of::Client };
        let mut pair = searching(5).connected();
        of.sends(&mut pair, 2_000_000);
        pair.pass(Duration::from_millis(300));
        to.system(&mut pair).says = Some(Obstacle::Route);
        pair.pass(Duration::from_secs(3));
        to.system(&mut pair).says = None;
        pair.pass(Duration::from_millis(600));
        let before = of.stats(&mut pair);
        assert_eq!(before.closed, None);
        let took = arrives(&mut pair, of, 2_000_000);
        assert!(took < Duration::from_secs(2), "{of:?}: {took:?}");
    }
}

#[test]
fn a_full_queue_is_no_loss() {
    for of in BOTH {
        for every in [2, 5] {
            let mut pair = searching(6).connected();
            of.system(&mut pair).full_every = Some(every);
            of.sends(&mut pair, 2_000_000);
            let took = arrives(&mut pair, of, 2_000_000);
            let stats = of.stats(&mut pair);
            assert!(stats.refused_datagrams > 20 && stats.lost_packets == 0, "{of:?}: {stats:?}");
            assert!(took < Duration::from_millis(1500), "{of:?} {every}: 2 MB take 0.9 s, and took {took:?}");
        }
    }
}

fn unreachable(pair: &Pair) -> Obstacle {
    match &pair.client().closed[..] {
        [(_, Closed::Unreachable(refusal))] => {
            assert_eq!(refusal.words, "the system's words");
            refusal.obstacle
        }
        closed => panic!("{closed:?}"),
    }
}

#[test]
fn a_handshake_of_which_nothing_leaves_says_so_at_once() {
    for (obstacle, most) in [(Some(Obstacle::Route), None), (Some(Obstacle::Rule), None), (None, Some(1100))]
    {
        let mut pair = searching(7).pair();
        *Of::Client.system(&mut pair) = System { says: obstacle, most, ..System::default() };
        pair.until("closed", |p| !p.client().closed.is_empty());
        assert_eq!(unreachable(&pair), obstacle.unwrap_or(Obstacle::Size));
        assert!(pair.world.now().since(quickset_base::Time::ZERO) < Duration::from_secs(1));
        assert!(pair.client().system.asked < 60, "{}", pair.client().system.asked);
        assert_eq!(pair.world.counts(pair.up).sent, 0);
    }
}

#[test]
fn a_handshake_that_can_leave_soon_goes_on() {
    for obstacle in [Obstacle::Route, Obstacle::Room] {
        let mut pair = searching(8).pair();
        Of::Client.system(&mut pair).says = Some(obstacle);
        pair.pass(Duration::from_millis(300));
        Of::Client.system(&mut pair).says = None;
        pair.until("connected", |p| !p.client().connected.is_empty());
        assert!(pair.world.now().since(quickset_base::Time::ZERO) < Duration::from_millis(450));
    }
    // A server's first flight, of which the client knows nothing.
    let mut pair = searching(8).pair();
    Of::Server.system(&mut pair).says = Some(Obstacle::Route);
    pair.pass(Duration::from_millis(700));
    Of::Server.system(&mut pair).says = None;
    pair.until("connected", |p| !p.client().connected.is_empty());
    assert!(pair.world.now().since(quickset_base::Time::ZERO) < Duration::from_secs(1));
}

/// RFC 9000 §10.1: it is silent for as long as any, and then says why.
#[test]
fn when_nothing_helps_the_end_says_why() {
    for of in BOTH {
        let mut pair = searching(9).connected();
        pair.pass(Duration::from_secs(1));
        let begun = pair.world.now();
        of.system(&mut pair).says = Some(Obstacle::Route);
        of.sends(&mut pair, 100_000);
        let asked = of.system(&mut pair).asked;
        pair.until("closed", |p| !(if of == Of::Client { p.client() } else { p.server() }).closed.is_empty());
        let peer = if of == Of::Client { pair.client() } else { pair.server() };
        assert!(matches!(peer.closed[0].1, Closed::Unreachable(_)), "{of:?}: {:?}", peer.closed);
        assert!(peer.system.asked - asked < 150, "{of:?}: {}", peer.system.asked - asked);
        let lasted = pair.world.now().since(begun);
        assert!(lasted < Duration::from_secs(35), "{of:?}: {lasted:?}");
    }
}

/// RFC 9000 §10.2: what cannot be said is not said, and the connection is gone in time.
#[test]
fn a_farewell_that_is_refused_holds_nothing_up() {
    for of in BOTH {
        let mut pair = searching(10).connected();
        of.system(&mut pair).says = Some(Obstacle::Route);
        let now = pair.world.now();
        let key = if of == Of::Client { pair.key } else { pair.server_key() };
        let peer = of.peer(&mut pair);
        peer.connection(key).close(now, 7, b"done");
        pair.pass(Duration::from_secs(5));
        let peer = of.peer(&mut pair);
        assert_eq!(peer.node.keys().count(), 0, "{of:?}");
        // The farewell, and a stateless reset for each time that the other side calls meanwhile, which has
        // not heard it.
        assert!(peer.system.refused < 30, "{of:?}: {}", peer.system.refused);
    }
}
