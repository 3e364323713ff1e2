//! The search for the size of datagrams, in virtual time (RFC 8899, RFC 9000 §14).

use quickset_base::Duration;
use quickset_policies::read;
use quickset_quic::{Dir, Fec, MtuDiscovery, Stats};
use quickset_sim::{LinkSpec, LinkWay, address};

use crate::common::{Pair, Setup, pattern};

const LINK: &str = "rate=20mbit delay=20ms queue=200kB";

/// Both sides search, on a link with this more to say.
fn searching(seed: u64, more: &str) -> Setup {
    Setup::new(seed, &format!("{LINK} {more}")).transport(|t| t.mtu_discovery = Some(MtuDiscovery::default()))
}

fn stats(pair: &mut Pair) -> (Stats, Stats) {
    let (key, at) = (pair.key, pair.server_key());
    (pair.client_mut().connection(key).stats(), pair.server_mut().connection(at).stats())
}

/// Sends `len` bytes from the client to the server. Returns how long it took.
fn transfer(pair: &mut Pair, len: usize) -> Duration {
    let (key, data, begun, n) = (pair.key, pattern(len), pair.world.now(), pair.server().finished.len());
    let id = pair.client_mut().send(key, Dir::Uni, data.clone());
    pair.until("delivered", |p| p.server().finished.len() > n && p.client().delivered.len() > n);
    let at = pair.server_key();
    assert!(pair.server().received[&(at, id)] == data, "other bytes");
    pair.world.now().since(begun)
}

#[test]
fn silent_connections_find_what_the_path_takes_and_are_silent_again() {
    for mtu in [1200, 1210, 1280, 1399, 1400, 1472, 1500] {
        let mut pair = searching(1, &format!("mtu={mtu}")).connected();
        pair.pass(Duration::from_secs(10));
        let sent = pair.world.counts(pair.up).sent;
        let (client, server) = stats(&mut pair);
        for side in [client, server] {
            let found = side.mtu.current;
            assert!(found <= mtu && found + 16 > mtu.min(1472), "{mtu}: {:?}", side.mtu);
            assert!(side.mtu.probes <= 18 && side.mtu.falls == 0, "{mtu}: {:?}", side.mtu);
        }
        pair.pass(Duration::from_secs(15));
        assert_eq!(pair.world.counts(pair.up).sent, sent, "{mtu}: it goes on");
    }
}

#[test]
fn losses_do_not_mislead_it() {
    for seed in quickset_sim::seeds(0..4) {
        let mut pair = searching(seed, "loss=5% mtu=1400").connected();
        transfer(&mut pair, 500_000);
        pair.pass(Duration::from_secs(3));
        let (client, _) = stats(&mut pair);
        assert!((1385..=1400).contains(&client.mtu.current), "seed {seed}: {:?}", client.mtu);
        assert_eq!(client.mtu.falls, 0, "seed {seed}: {:?}", client.mtu);
    }
}

/// RFC 9000 §14.3.
#[test]
fn what_is_lost_in_the_search_is_no_congestion() {
    // RFC 9000 §14.4. Without losses of other kinds there are none.
    let mut pair = searching(3, "mtu=1200").connected();
    transfer(&mut pair, 500_000);
    pair.pass(Duration::from_secs(2));
    let (client, _) = stats(&mut pair);
    assert!(client.mtu.lost_probes >= 3 && client.mtu.current == 1200, "{:?}", client.mtu);
    assert_eq!((client.lost_packets, client.ptos), (0, 0), "{client:?}");
}

#[test]
fn larger_datagrams_carry_more_in_fewer() {
    let sent = |mtu: &str| {
        let mut pair = searching(4, mtu).connected();
        transfer(&mut pair, 1_000_000);
        stats(&mut pair).0.sent_packets
    };
    let (small, large) = (sent("mtu=1200"), sent("mtu=1472"));
    assert!(large as f64 / (small as f64) < 1200.0 / 1472.0 + 0.02, "{large} against {small}");
}

#[test]
fn a_path_that_takes_less_than_it_did_is_noticed_within_a_second() {
    for seed in quickset_sim::seeds(0..2) {
        for loss in ["", "loss=2%"] {
            let mut pair = searching(seed, &format!("{loss} at=1s:mtu=1300")).connected();
            let len = if loss.is_empty() { 4_000_000 } else { 600_000 };
            let took = transfer(&mut pair, len);
            let (client, _) = stats(&mut pair);
            assert!(client.mtu.falls >= 1, "seed {seed} {loss}: {:?}", client.mtu);
            // 4 MB take 1.7 s. How long it takes with losses is much a matter of chance.
            let most = if loss.is_empty() { 3000 } else { 15_000 };
            assert!(took < Duration::from_millis(most), "seed {seed} {loss}: {took:?}");
            pair.pass(Duration::from_secs(3));
            let (client, _) = stats(&mut pair);
            assert!((1285..=1300).contains(&client.mtu.current), "seed {seed} {loss}: {:?}", client.mtu);
        }
    }
}

#[test]
fn small_packets_that_get_through_do_not_hide_it() {
    // Requests of 20 bytes go on all the time, and keep probe timeouts away.
    let mut pair = searching(5, "at=1s:mtu=1300")
        .transport(|t| (t.max_uni_streams, t.max_fenced_streams) = (1000, 1000))
        .connected();
    pair.pass(Duration::from_millis(500));
    let key = pair.key;
    let data = pattern(3_000_000);
    let id = pair.client_mut().send(key, Dir::Uni, data.clone());
    for _ in 0..300 {
        pair.client_mut().send(key, Dir::Uni, vec![1; 20]);
        pair.pass(Duration::from_millis(10));
    }
    let at = pair.server_key();
    pair.until("delivered", |p| p.server().finished.iter().any(|(_, got)| *got == id));
    assert!(pair.server().received[&(at, id)] == data);
    pair.pass(Duration::from_secs(2));
    let (client, _) = stats(&mut pair);
    assert!(client.mtu.falls == 1 && (1285..=1300).contains(&client.mtu.current), "{:?}", client.mtu);
}

#[test]
fn a_path_that_is_gone_for_a_while_is_no_smaller() {
    for seed in quickset_sim::seeds(0..2) {
        let mut pair = searching(seed, "mtu=1472 blackout=500ms+700ms blackout=2s+2s").connected();
        transfer(&mut pair, 3_000_000);
        let (client, _) = stats(&mut pair);
        assert_eq!((client.mtu.current, client.mtu.falls), (1472, 0), "seed {seed}: {:?}", client.mtu);
    }
}

#[test]
fn a_search_that_meets_a_blackout_goes_on_behind_it() {
    let mut pair = searching(6, "mtu=1472 blackout=45ms+3s").connected();
    pair.pass(Duration::from_secs(20));
    let (client, server) = stats(&mut pair);
    assert_eq!((client.mtu.current, server.mtu.current), (1472, 1472), "{:?} {:?}", client.mtu, server.mtu);
}

/// RFC 9000 §14.2: 1200 bytes are always taken.
#[test]
fn a_handshake_in_datagrams_that_are_too_large_goes_on_in_small_ones() {
    for seed in quickset_sim::seeds(0..2) {
        let mut setup = searching(seed, "mtu=1250").transport(|t| t.mtu = 1472);
        setup.certificate = 5000;
        let mut pair = setup.connected();
        transfer(&mut pair, 100_000);
        let took = pair.world.now().since(quickset_base::Time::ZERO);
        assert!(took < Duration::from_secs(8), "seed {seed}: {took:?}");
    }
}

#[test]
fn without_a_search_nothing_changes() {
    let mut pair = Setup::new(7, &format!("{LINK} mtu=1500")).connected();
    transfer(&mut pair, 500_000);
    let (client, server) = stats(&mut pair);
    assert_eq!((client.mtu.current, client.mtu.probes, server.mtu.probes), (1200, 0, 0));
}

#[test]
fn another_path_is_another_size() {
    for (far, found) in [("mtu=1300", 1285..=1300), ("mtu=1500", 1472..=1472)] {
        let mut pair = searching(8, "mtu=1400").connected();
        transfer(&mut pair, 100_000);
        pair.pass(Duration::from_secs(3));
        assert!((1385..=1400).contains(&stats(&mut pair).0.mtu.current));
        let spec: LinkSpec = format!("{LINK} {far}").parse().expect("a link");
        let (up, down) = (pair.world.add_link(spec.clone()), pair.world.add_link(spec));
        let ways = [
            LinkWay { from: address(9), to: address(2), links: vec![up] },
            LinkWay { from: address(2), to: address(9), links: vec![down] },
        ];
        pair.world.change_interface(address(1), address(9), &ways);
        let (key, now) = (pair.key, pair.world.now());
        pair.client_mut().connection(key).rebound(now);
        transfer(&mut pair, 200_000);
        pair.pass(Duration::from_secs(5));
        let (client, server) = stats(&mut pair);
        assert!(found.contains(&client.mtu.current), "{far}: {:?}", client.mtu);
        assert!(found.contains(&server.mtu.current), "{far}: {:?}", server.mtu);
        assert_eq!((client.mtu.falls, server.mtu.falls), (0, 0));
    }
}

#[test]
fn protected_streams_survive_both_directions_of_change() {
    for seed in quickset_sim::seeds(0..1) {
        for protection in ["rs:53/50", "adaptive:bulk", "fixed:10", "xor2d:10x10"] {
            let mut pair = searching(seed, "loss=0.3% at=1s:mtu=1250")
                .transport(|t| {
                    let protection = read(protection).expect("a protection");
                    t.fec = Some(Fec::default().with_protection(protection).with_window(2048));
                })
                .connected();
            let took = transfer(&mut pair, 2_000_000);
            let (client, server) = stats(&mut pair);
            let what = format!("seed {seed}, {protection}: {took:?}, {:?}, {:?}", client.mtu, client.fec);
            assert!(client.mtu.falls >= 1 && client.mtu.current <= 1250, "{what}");
            assert!(server.fec.repairs_received > 0, "{what}");
            assert!(took < Duration::from_secs(12), "{what}");
        }
    }
}
