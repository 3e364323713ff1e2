//! Transfers over loopback, both ways, client and server in one process.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quickset::{ClientConfig, Endpoint, Identity, Protection, ServerConfig, Trust};
use quickset_lab::perf::{self, Direction, PerfJob};

/// A server, and a client that trusts it.
fn pair() -> (Endpoint, Endpoint, ClientConfig) {
    protected_pair(&Protection::None)
}

/// The same, with protection at both ends.
fn protected_pair(protection: &Protection) -> (Endpoint, Endpoint, ClientConfig) {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, &[perf::PROTOCOL]).unwrap().with_protection(protection.clone());
    let server = Endpoint::server("127.0.0.1:0".parse().unwrap(), &config).unwrap();
    tokio::spawn(perf::serve(server.clone()));
    let client = ClientConfig::new(trust, &[perf::PROTOCOL]).unwrap().with_protection(protection.clone());
    (server, Endpoint::client().unwrap(), client)
}

fn job(server: &Endpoint, direction: Direction) -> PerfJob {
    let (address, name) = (server.local_addr(), "localhost".to_owned());
    PerfJob { address, name, connections: 1, direction, bytes: Some(10_000_000), time: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_megabytes_arrive_intact_both_ways() {
    let (server, client, config) = pair();
    for direction in [Direction::Download, Direction::Upload] {
        let bytes = Arc::new(AtomicU64::new(0));
        let speed = perf::measure(&client, &config, &job(&server, direction), &bytes).await.unwrap();
        assert_eq!((speed.bytes, bytes.load(Ordering::Relaxed)), (10_000_000, 10_000_000));
        // No packet holds more than what an Ethernet takes.
        assert!(speed.packets >= 10_000_000 / 1500, "{speed:?}");
        assert!(speed.lost < speed.packets && speed.bits_per_second > 0.0, "{speed:?}");
        assert_eq!(speed.cpu_s_per_gb_server.is_some(), cfg!(target_os = "linux"));
        assert_eq!(speed.fec, perf::Repaired::default(), "nobody asked for it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sends_protects() {
    let (server, client, config) =
        protected_pair(&quickset_policies::read("fixed:10").expect("a protection"));
    for direction in [Direction::Download, Direction::Upload] {
        let job = PerfJob { bytes: Some(1_000_000), ..job(&server, direction) };
        let speed = perf::measure(&client, &config, &job, &Arc::default()).await.unwrap();
        let fec = speed.fec;
        assert!(fec.symbols >= 1_000_000 / 1500, "{fec:?}");
        // One behind each tenth, but for the ends.
        assert!(fec.repairs >= fec.symbols / 12 && fec.repair_bytes > fec.repairs * 500, "{fec:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_connections_share_the_bytes() {
    let (server, client, config) = pair();
    let job = PerfJob { connections: 3, bytes: Some(1_000_001), ..job(&server, Direction::Download) };
    let speed = perf::measure(&client, &config, &job, &Arc::default()).await.unwrap();
    assert_eq!((speed.bytes, speed.connections), (1_000_001, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_ends_a_transfer_without_end() {
    let (server, client, config) = pair();
    for direction in [Direction::Download, Direction::Upload] {
        let job = PerfJob { bytes: None, time: Some(Duration::from_millis(300)), ..job(&server, direction) };
        let speed = perf::measure(&client, &config, &job, &Arc::default()).await.unwrap();
        assert!(speed.bytes > 0 && speed.seconds >= 0.3, "{speed:?}");
    }
}
