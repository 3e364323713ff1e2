//! Transfers over real sockets through a path that is away most of the time, loses packets, and has a NAT on
//! it that forgets: each ends, and each byte is what was sent. `QUICKSET_CHAOS` is how many bytes and
//! `QUICKSET_CHAOS_RUNS` how many transfers each way at a time (`cargo xtask chaos`), under weather that is
//! as long as people know it, and with the controller that such weather asks for; without them it is one of a
//! few bytes, by the usual controller, and the weather changes five times as fast.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quickset::{Algorithm, ClientConfig, Endpoint, Identity, ServerConfig, TransportConfig, Trust};
use quickset_lab::perf::{self, Direction, PerfJob};
use quickset_lab::relay::Relay;

/// What the path does, and what goes through it.
#[derive(Clone)]
struct Chaos {
    bytes: u64,
    /// At a time, each with a path of its own.
    runs: u64,
    congestion: Algorithm,
    /// In each such time the path is away for two thirds of it, and a NAT forgets the client three times.
    period: Duration,
    /// It is over by then, or has failed.
    limit: Duration,
}

impl Chaos {
    fn new() -> Self {
        match std::env::var("QUICKSET_CHAOS") {
            Ok(bytes) => Self {
                bytes: quickset_sim::units::size(&bytes).expect("a number of bytes, like 1GB"),
                runs: std::env::var("QUICKSET_CHAOS_RUNS").map_or(1, |n| n.parse().expect("a number")),
                // By loss, one packet in twenty leaves a megabyte to the five seconds of a window.
                congestion: Algorithm::Bbr,
                period: Duration::from_secs(15),
                limit: Duration::from_secs(3600),
            },
            Err(_) => Self {
                bytes: 2_000_000,
                runs: 1,
                congestion: Algorithm::default(),
                period: Duration::from_secs(3),
                limit: Duration::from_secs(150),
            },
        }
    }

    /// IP packets of 1400 bytes, of which one in twenty is lost.
    fn link(&self) -> String {
        let (third, away) = (self.period.as_millis() / 3, self.period.as_millis() * 2 / 3);
        let period = self.period.as_millis();
        format!(
            "rate=400mbit delay=10ms queue=1MB loss=5% mtu=1400 overhead=28 outage={third}ms+{away}ms,every={period}ms"
        )
    }

    async fn transfers(self, direction: Direction) {
        let mut runs = tokio::task::JoinSet::new();
        for seed in quickset_sim::seeds(1..1 + self.runs) {
            runs.spawn(self.clone().transfer(direction, seed));
        }
        runs.join_all().await;
    }

    async fn transfer(self, direction: Direction, seed: u64) {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let trust = Trust::pinned(identity.fingerprint());
        let transport = TransportConfig::fixed_mtu(1200).with_congestion(self.congestion.clone());
        let config =
            ServerConfig::new(identity, &[perf::PROTOCOL]).unwrap().with_transport(transport.clone());
        let server = Endpoint::server("127.0.0.1:0".parse().unwrap(), &config).unwrap();
        tokio::spawn(perf::serve(server.clone()));
        let link = || self.link().parse().expect("a link");
        let relay = Arc::new(Relay::start(server.local_addr(), link(), link(), seed).unwrap());
        let (nat, forgets) = (relay.clone(), self.period / 3);
        let nat = tokio::spawn(async move {
            loop {
                tokio::time::sleep(forgets).await;
                nat.rebind();
            }
        });
        let config = ClientConfig::new(trust, &[perf::PROTOCOL]).unwrap().with_transport(transport);
        let client = Endpoint::client().unwrap();
        let (address, name) = (relay.address(), "localhost".to_owned());
        let job = PerfJob { address, name, connections: 1, direction, bytes: Some(self.bytes), time: None };
        let (begun, bytes) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let ended = tokio::time::timeout(self.limit, perf::measure(&client, &config, &job, &bytes)).await;
        nat.abort();
        let so_far = bytes.load(Ordering::Relaxed);
        let what = format!("{direction:?}, seed {seed}: {so_far} bytes in {:?}", begun.elapsed());
        // Each byte was compared where it arrived.
        let speed =
            ended.unwrap_or_else(|_| panic!("no end: {what}")).unwrap_or_else(|e| panic!("{e}: {what}"));
        assert_eq!(speed.bytes, self.bytes, "{what}");
        let counts = relay.counts();
        println!(
            "{what}; {} packets, {} of them lost by the path",
            speed.packets,
            counts[0].lost + counts[1].lost
        );
        assert!(begun.elapsed() < self.period || counts[0].lost + counts[1].lost > 0, "no chaos: {what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_comes_through() {
    Chaos::new().transfers(Direction::Download).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_comes_through() {
    Chaos::new().transfers(Direction::Upload).await;
}
