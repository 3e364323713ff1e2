//! What connections hold that all move bytes, at both ends together, when those who read have a `LocalSet`:
//! bytes that the process has allocated. How far a driver may run ahead of them is for a test of its own
//! (`net`, `driver/tests/ahead`).
//!
//! One test, so that nobody else allocates meanwhile.

#![cfg(all(feature = "self-signed", feature = "aws-lc-rs"))]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use quickset::quic::TransportConfig;
use quickset::{ClientConfig, Connection, Endpoint, Identity, RecvStream, ServerConfig, Trust};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::task::{LocalSet, spawn_local};

#[global_allocator]
static COUNTING: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Bytes that the process has allocated and not freed.
fn held() -> usize {
    let stats = COUNTING.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

#[test]
fn connections_hold_what_is_in_flight_and_not_what_windows_allow() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let most = LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(120), transfers()).await.expect("all moves on")
    });
    assert!(most <= 2 * MOST_BUSY, "{most} bytes of client and server");
}

/// Moves bytes to all clients at a time. Returns how much a connection and its peer held at most, on average
/// over all of them.
async fn transfers() -> usize {
    let transport = TransportConfig::default()
        .with_stream_window(WINDOW)
        .with_max_stream_window(WINDOW)
        .with_max_connection_window(WINDOW)
        .with_send_buffer(WINDOW);
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, &["test"]).unwrap().with_transport(transport.clone());
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let config = ClientConfig::new(trust, &["test"]).unwrap().with_transport(transport);
    let client = Endpoint::client().unwrap();
    let before = held();
    let mut pairs = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        let connecting = client.connect(server.local_addr(), "localhost", &config);
        let (near, far) = tokio::join!(connecting, server.accept());
        pairs.push((near.unwrap(), far.unwrap()));
    }
    // Of one piece, so that what waits to be sent holds next to nothing: only what came is looked at.
    let data = Bytes::from(vec![7; 64 << 10]);
    let (moved, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let mut readers = Vec::with_capacity(COUNT);
    for (near, far) in &pairs {
        tokio::spawn(send(far.clone(), data.clone()));
        let near = near.clone();
        let (moved, most) = (moved.clone(), most.clone());
        readers.push(spawn_local(async move {
            let mut stream = near.accept_uni().await.unwrap();
            while read(&mut stream, &moved).await {
                most.set(most.get().max(held()));
            }
        }));
    }
    for reader in readers {
        reader.await.unwrap();
    }
    (most.get() - before) / COUNT
}

/// Sends until nobody reads any more.
async fn send(connection: Connection, data: Bytes) {
    let mut stream = connection.open_uni().await.unwrap();
    while stream.write_chunk(data.clone()).await.is_ok() {}
}

/// Reads what is there. False when all connections together have moved enough.
async fn read(stream: &mut RecvStream, moved: &Cell<usize>) -> bool {
    let chunk = stream.read_chunk(usize::MAX).await.unwrap().unwrap();
    moved.set(moved.get() + chunk.len());
    moved.get() < COUNT * ENOUGH
}

const COUNT: usize = 500;

/// Bytes that a connection moves, on average.
const ENOUGH: usize = 500_000;

/// Windows that bound nothing here.
const WINDOW: u64 = 16 << 20;

/// Bytes of a connection at one end.
const MOST_BUSY: usize = 150_000;
