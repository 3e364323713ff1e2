//! Paths as slow, fast, long, short and bad as can be: whatever the controller, data arrives, nothing stays
//! in flight, and whoever has nothing to do sleeps.

use crate::common::{Pair, Setup, pattern};
use quickset_base::{Duration, Rng};
use quickset_quic::{AckPolicy, Algorithm, Dir, MtuDiscovery};
use quickset_sim::RunEnded;

const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Bbr, Algorithm::Cubic, Algorithm::NewReno, Algorithm::Fixed(50_000)];

fn pick<'a, T>(rng: &mut Rng, list: &'a [T]) -> &'a T {
    &list[rng.below(list.len() as u64) as usize]
}

/// Runs until `goal`, for so long at most.
fn within(pair: &mut Pair, what: &str, about: &str, limit: Duration, both: impl Fn(&Pair) -> bool) {
    let end = pair.world.now() + limit;
    while !both(pair) {
        assert!(pair.world.now() < end, "not {what} within {limit:?}: {about}");
        let step = pair.world.now() + limit / 200;
        let ended = pair.world.run_until(step, |_| false).unwrap_or_else(|e| panic!("{about}: {e}"));
        assert_ne!(ended, RunEnded::Goal);
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    // 1 kbit/s to 100 Gbit/s, each decade as likely.
    let rate = 10f64.powf(3.0 + 8.0 * rng.below(1000) as f64 / 1000.0) as u64;
    let delay = *pick(&mut rng, &["0", "1us", "100us", "5ms", "50ms", "700ms", "5s"]);
    let loss = *pick(&mut rng, &["", "", " loss=1%", " loss=10%", " loss=25%"]);
    let queue = *pick(
        &mut rng,
        &["", " queue=4packets", " queue=20packets", " queue=200ms", " queue=codel-ecn:5ms,100ms,1MB"],
    );
    let odd = *pick(&mut rng, &["", "", " duplicate=0.1", " jitter=uniform:5ms reorder=yes"]);
    let algorithm = pick(&mut rng, &ALGORITHMS).clone();
    let jumbo = rng.chance(0.3);
    let acks = *pick(&mut rng, &["2", "100:fixed", "10:adaptive", "single"]);
    let link = format!("rate={rate}bit delay={delay}{loss}{queue}{odd}");
    let about = format!("seed {seed}: {algorithm} over {link}, jumbo {jumbo}, acks {acks}");
    let setup = Setup::new(seed, &link).transport(|t| {
        t.congestion = algorithm.clone();
        t.handshake_timeout = Duration::from_secs(1_000_000);
        t.idle_timeout = None;
        t.ecn = true;
        t.acks = acks.parse::<AckPolicy>().expect("a policy");
        t.mtu_discovery = Some(MtuDiscovery::default().with_highest(if jumbo { 8972 } else { 1472 }));
    });
    let mut pair = setup.pair();
    let trip = 2.0 * setup.link.delay.as_secs_f64() + 2.0 * 1500.0 * 8.0 / rate as f64;
    // What a sender that keeps two packets in flight and loses half of what it sends gets done, and some
    // probe timeouts.
    let limit = |bytes: usize| {
        let each = bytes as f64 / 1200.0 * (trip + 0.2) * 4.0 + bytes as f64 * 8.0 / 50_000.0 * 4.0;
        Duration::from_secs_f64(5000.0 + 1500.0 * trip + each)
    };
    within(&mut pair, "connected", &about, limit(10_000), |p| {
        !p.client().connected.is_empty() && !p.server().connected.is_empty()
    });
    let (key, server_key) = (pair.key, pair.server_key());
    let most = (rate as f64 / 8.0 * 20.0).clamp(2000.0, 600_000.0) as u64;
    for _ in 0..3 {
        let (up, down) = (1 + rng.below(most) as usize, 1 + rng.below(most) as usize);
        let a = pair.client_mut().send(key, Dir::Uni, pattern(up));
        let b = pair.server_mut().send(server_key, Dir::Uni, pattern(down));
        pair.pass(Duration::ZERO);
        within(&mut pair, "delivered", &about, limit(up + down), |p| {
            p.server().finished.contains(&(server_key, a)) && p.client().finished.contains(&(key, b))
        });
        // Probe timeouts double, and may be lost one after the other.
        let in_flight = |p: &mut Pair| {
            let (client, server) =
                (p.client_mut().connection(key).stats(), p.server_mut().connection(server_key).stats());
            client.in_flight + server.in_flight
        };
        let mut steps = 0;
        while in_flight(&mut pair) > 0 {
            pair.pass(Duration::from_secs_f64(600.0 + 300.0 * trip));
            steps += 1;
            assert!(steps < 30, "something stays in flight: {about}");
        }
        pair.pass(Duration::from_secs(600));
        let before = (pair.client().polls, pair.server().polls);
        pair.pass(Duration::from_secs(3600));
        let after = (pair.client().polls - before.0, pair.server().polls - before.1);
        assert!(after.0 < 100 && after.1 < 100, "{after:?} polls in an hour of silence: {about}");
    }
}

#[test]
fn whatever_the_path_data_arrives_and_silence_follows() {
    for seed in (0..12).chain([149, 369, 517]) {
        run(seed);
    }
}
