//! Bytes across links of all kinds, between two connections in virtual time.

use crate::common::{Pair, Setup, pattern};
use quickset_base::Duration;
use quickset_quic::{Algorithm, Dir};

#[test]
fn a_handshake_takes_one_round_trip() {
    let pair = Setup::new(1, "rate=1gbit delay=50ms").connected();
    let took = pair.world.now();
    // The server is connected when the client's Finished arrives: one and a half round trips.
    assert!(took.as_secs_f64() >= 0.150 && took.as_secs_f64() < 0.152, "{took}");
}

#[test]
fn an_echo_comes_back_whole() {
    let mut pair = Setup::new(2, "rate=100mbit delay=10ms").connected();
    pair.server_mut().echo = true;
    let (key, data) = (pair.key, pattern(300_000));
    let id = pair.client_mut().send(key, Dir::Bi, data.clone());
    pair.until("echoed", |p| p.client().finished.contains(&(key, id)));
    assert_eq!(pair.client().received[&(key, id)], data);
    pair.until("settled", |p| p.client().delivered.contains(&(key, id)));
}

/// The whole of a stream arrives, whatever the link does to the packets.
#[test]
fn bytes_survive_loss_reordering_duplication_and_corruption() {
    for seed in quickset_sim::seeds(0..12) {
        let link = "rate=50mbit delay=20ms queue=200kB loss=3% duplicate=2% corrupt=1% jitter=uniform:8ms reorder=yes";
        let setup = Setup::new(seed, link).transport(|t| {
            t.congestion = [Algorithm::Cubic, Algorithm::Bbr, Algorithm::NewReno][seed as usize % 3].clone();
            t.mtu = if seed % 2 == 0 { 1200 } else { 1472 };
        });
        let mut pair = setup.connected();
        pair.server_mut().echo = true;
        let key = pair.key;
        let streams: Vec<_> = (0..5usize)
            .map(|n| {
                let data = pattern(50_000 * n + 1);
                (pair.client_mut().send(key, Dir::Bi, data.clone()), data)
            })
            .collect();
        pair.until("echoed", |p| p.client().finished.len() == streams.len());
        for (id, data) in streams {
            assert!(pair.client().received[&(key, id)] == data, "seed {seed}: stream {id}");
        }
        let stats = pair.client_mut().connection(key).stats();
        assert!(stats.lost_packets > 0, "seed {seed}: the link lost nothing");
        assert!(stats.dropped_packets > 0, "seed {seed}: nothing was corrupted");
    }
}

#[test]
fn handshakes_survive_heavy_loss() {
    for seed in quickset_sim::seeds(0..30) {
        let setup = Setup { certificate: 6000, ..Setup::new(seed, "rate=10mbit delay=30ms loss=25%") }
            .transport(|t| t.handshake_timeout = Duration::from_secs(120));
        let mut pair = setup.connected();
        let key = pair.key;
        let id = pair.client_mut().send(key, Dir::Uni, pattern(10_000));
        let server_key = pair.server_key();
        pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
    }
}

#[test]
fn a_fast_link_is_filled() {
    for (algorithm, least) in [
        (Algorithm::Cubic, 0.85),
        (Algorithm::NewReno, 0.85),
        (Algorithm::Bbr, 0.85),
        (Algorithm::Fixed(95_000_000), 0.9),
    ] {
        let mut pair = Setup::new(5, "rate=100mbit delay=25ms queue=1MB")
            .transport(|t| {
                t.congestion = algorithm.clone();
                t.mtu = 1472;
            })
            .connected();
        let (key, begun) = (pair.key, pair.world.now());
        let size = 40_000_000;
        let id = pair.client_mut().send(key, Dir::Uni, pattern(size));
        let server_key = pair.server_key();
        pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
        let took = (pair.world.now() - begun).as_secs_f64();
        let share = size as f64 * 8.0 / 100e6 / took;
        assert!(share > least, "{algorithm:?}: {took} s is {share} of the link");
    }
}

/// A receive window below the bandwidth-delay product is a window each round trip, not each second one.
#[test]
fn a_small_receive_window_is_used_once_a_round_trip() {
    const WINDOW: u64 = 70_000;
    const SIZE: usize = 1_000_000;
    for congestion in [Algorithm::Cubic, Algorithm::Bbr] {
        let setup = Setup::new(4, "rate=8mbit delay=200ms queue=600kB").transport(|t| {
            t.congestion = congestion.clone();
            (t.stream_window, t.max_stream_window, t.max_connection_window) = (WINDOW, WINDOW, WINDOW);
        });
        let mut pair = setup.connected();
        let (key, begun) = (pair.key, pair.world.now());
        let id = pair.client_mut().send(key, Dir::Uni, pattern(SIZE));
        let server_key = pair.server_key();
        pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
        let took = (pair.world.now() - begun).as_secs_f64();
        // 400 ms and the window's own 70 ms on the wire; credit comes back by eighths, so an eighth more of
        // each turn.
        let ideal = SIZE as f64 / WINDOW as f64 * 0.47;
        assert!(took < ideal * 1.4, "{congestion}: {took:.2} s, {ideal:.2} s with a window a round trip");
    }
}

/// A sender that keeps what it sent until it is acknowledged, and can keep as much as the path holds, fills
/// the path: its application is asked for more as soon as a few packets were acknowledged, not when a quarter
/// of them was.
#[test]
fn a_send_buffer_of_what_the_path_holds_fills_it() {
    const SIZE: usize = 6_000_000;
    // What is under way, and of a small one the two packets that are acknowledged together.
    for (rate, delay, buffer) in [(80, 15, 300_000), (8, 15, 36_000), (20, 100, 510_000)] {
        let setup = Setup::new(6, &format!("rate={rate}mbit delay={delay}ms queue=2MB")).transport(|t| {
            t.mtu = 1472;
            t.send_buffer = buffer;
        });
        let mut pair = setup.connected();
        let key = pair.key;
        let id = pair.client_mut().send(key, Dir::Uni, pattern(SIZE));
        let server_key = pair.server_key();
        let received = |p: &Pair| p.server().received.get(&(server_key, id)).map_or(0, Vec::len);
        // The second half: slow start is over.
        while received(&pair) < SIZE / 2 {
            pair.pass(Duration::from_millis(1));
        }
        let (begun, before) = (pair.world.now(), received(&pair));
        pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
        let took = (pair.world.now() - begun).as_secs_f64();
        // Headers of QUIC, UDP and IP take 4.5 % of the link.
        let share = (SIZE - before) as f64 * 8.0 / (f64::from(rate) * 1e6) / took;
        assert!(share > 0.93, "{rate} Mbit/s, {delay} ms: {share} of the link");
    }
}

#[test]
fn equal_seeds_give_equal_traces() {
    let run = |seed| {
        let mut pair =
            Setup::new(seed, "rate=20mbit delay=20ms loss=2% jitter=uniform:5ms reorder=yes duplicate=1%")
                .pair();
        pair.world.trace(quickset_sim::Trace::full());
        pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
        pair.server_mut().echo = true;
        let key = pair.key;
        let id = pair.client_mut().send(key, Dir::Bi, pattern(200_000));
        pair.until("echoed", |p| p.client().finished.contains(&(key, id)));
        pair.world.take_trace().expect("a trace")
    };
    let (a, b, c) = (run(7), run(7), run(8));
    assert_eq!(a.digest(), b.digest());
    assert_eq!(a.records(), b.records());
    assert_ne!(a.digest(), c.digest());
}
