//! What a connection holds on which nothing moves, at either end: bytes that the process has allocated, and
//! not those that the library of ciphers allocates by its own means (three keys of a connection, 0.6 kB
//! each).
//!
//! One test, so that nobody else allocates meanwhile.

#![cfg(all(feature = "self-signed", feature = "aws-lc-rs"))]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "numbers in tests are small, or cut on purpose"
)]

#[path = "held/machines.rs"]
mod machines;

use std::time::{Duration, Instant};

use quickset::quic::TransportConfig;
use quickset::{ClientConfig, Connection, Endpoint, Identity, ServerConfig, Trust};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use machines::Machines;

#[global_allocator]
static COUNTING: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Bytes that the process has allocated and not freed.
fn held() -> usize {
    let stats = COUNTING.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

#[test]
fn a_connection_on_which_nothing_moves_holds_little() {
    let mut machines = Machines::new(TransportConfig::default());
    machines.connect(WARM);
    let warm = machines.bytes();
    machines.connect(COUNT);
    let begun = machines.bytes();
    let fresh = [0, 1].map(|at| (begun[at] - warm[at]) / COUNT as isize);
    // All of them move something.
    let each = |machines: &Machines| {
        let (now, all) = (machines.bytes(), (WARM + COUNT) as isize);
        [0, 1].map(|at| fresh[at] + (now[at] - begun[at]) / all)
    };
    machines.exchange(1, 100);
    let little = each(&machines);
    machines.exchange(50, 20_000);
    let much = each(&machines);
    drop(machines);
    let both =
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(sockets());
    assert!(fresh.iter().all(|bytes| *bytes <= MOST), "{fresh:?} bytes behind a handshake");
    assert!(little.iter().all(|bytes| *bytes <= MOST_USED), "{little:?} bytes when little was moved");
    assert!(much.iter().all(|bytes| *bytes <= MOST_USED), "{much:?} bytes when much was moved");
    assert!(both <= 2 * MOST_DRIVEN, "{both} bytes over sockets, of client and server");
}

/// Connects over the loopback, and waits until both sides of a connection hold as little as they may, or for
/// long.
async fn sockets() -> usize {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, &["test"]).unwrap();
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let config = ClientConfig::new(trust, &["test"]).unwrap();
    let client = Endpoint::client().unwrap();
    let mut pairs: Vec<(Connection, Connection)> = Vec::with_capacity(WARM + COUNT);
    let mut meet = async |count: usize| {
        for _ in 0..count {
            let connecting = client.connect(server.local_addr(), "localhost", &config);
            let (near, far) = tokio::join!(connecting, server.accept());
            pairs.push((near.unwrap(), far.unwrap()));
        }
    };
    meet(WARM).await;
    // All of them rest, or what they give back later would be counted for those that come.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = held();
    meet(COUNT).await;
    let begun = Instant::now();
    loop {
        let each = held().saturating_sub(before) / COUNT;
        if each <= 2 * MOST_DRIVEN || begun.elapsed() > Duration::from_secs(10) {
            return each;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const WARM: usize = 64;
const COUNT: usize = 256;

/// Bytes of a connection that has done nothing but to begin, of one that has moved something, and of one with
/// its handles and its place with the driver.
const MOST: isize = 10_700;
const MOST_USED: isize = 17_000;
const MOST_DRIVEN: usize = 11_800;
