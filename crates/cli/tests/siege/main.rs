//! `http serve` under siege: clients that ask for much and take nothing, and an honest one beside them.
//!
//! Sizes are small unless the environment says otherwise, which `cargo xtask siege` does with a release
//! build. What it prints is the tables of `docs/siege.md`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod attackers;
mod watched;

use std::time::{Duration, Instant};

use attackers::Attack;
use quickset_base::number::Unsigned as _;
use watched::{Honest, Server};

/// How much of it.
#[derive(Clone, Copy, Debug)]
struct Size {
    connections: usize,
    requests: usize,
    is_full: bool,
    /// How long the siege lasts.
    time: Duration,
    /// How long memory has to go back to the system.
    rest: Duration,
}

impl Size {
    fn chosen() -> Self {
        let is_full = std::env::var_os("QUICKSET_SIEGE").is_some();
        let (connections, seconds) = if is_full { (200, 20) } else { (40, 3) };
        let (time, rest) = (Duration::from_secs(seconds), Duration::from_secs(60));
        Self { connections, requests: 100, is_full, time, rest }
    }
}

/// What the server may hold, as it is told.
const MEMORY: &str = "256M";
const MOST: u64 = 256 << 20;

/// One part of so many of what a siege made a server grow by may stay: the allocator's own tables, and
/// buffers of its sockets.
const STAYS: u64 = 20;

/// The allocator keeps what was freed for ten seconds, and looks for it in steps.
const KEPT: Duration = Duration::from_secs(15);

/// Descriptors at most.
const DESCRIPTORS: usize = 1024;

/// The answer of an honest client, 1 MB, 99 times of 100.
const SOON: Duration = Duration::from_millis(250);

/// Besieged twice: the first time a server grows by what is needed once, the second time by nothing that
/// stays.
fn besieged(name: &str, attack: Attack) {
    let size = Size::chosen();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start(&["--memory", MEMORY]);
        let mut honest = Honest::new(&server);
        // As a server is that has been of use.
        honest.fetch_for(Duration::from_secs(2)).await;
        let before = server.watch().memory;
        let (grown, after) = siege(name, attack, &server, &mut honest, |grown| before + grown / STAYS).await;
        if size.is_full {
            // What is left of the first one is no more after the second, but for where it lies.
            let name = format!("{name}, again");
            let allowed = after + grown / (2 * STAYS);
            siege(&name, attack, &server, &mut honest, |_| allowed).await;
        }
    });
}

/// One siege: by how much the server grew, and what it held at last, which is what is `allowed` for that
/// growth.
async fn siege(
    name: &str,
    attack: Attack,
    server: &Server,
    honest: &mut Honest,
    allowed: impl Fn(u64) -> u64,
) -> (u64, u64) {
    let size = Size::chosen();
    let before = server.watch();
    let hosts = attack.begin(server, size.connections, size.requests);
    let times = honest.fetch_for(size.time).await;
    let (connected, asked) = hosts.count();
    let during = server.watch_peak();
    hosts.leave();
    let begun = Instant::now();
    let grown = during.memory.saturating_sub(before.memory);
    // In a small siege what a server that was never busy grows by once is much of it.
    let allowed = if size.is_full { allowed(grown) } else { before.memory + grown / 2 };
    // Until nothing more was given back for longer than freed memory is kept.
    let (mut after, mut since) = (server.watch(), begun);
    let goes_on =
        |since: Instant, memory| if size.is_full { since.elapsed() < KEPT } else { memory > allowed };
    while begun.elapsed() < size.rest && goes_on(since, after.memory) {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = server.watch();
        if now.memory < after.memory {
            (after, since) = (now, Instant::now());
        }
    }
    let p99 = times[(times.len() * 99 / 100).min(times.len() - 1)];
    println!(
        "| {name} | {connected} connections, {asked} requests | {} MB idle, +{} MB, {:.1} MB after {} s | {} descriptors | {} answers, p50 {} ms, p99 {} ms |",
        before.memory >> 20,
        grown >> 20,
        after.memory.approx() / f64::from(1 << 20),
        since.duration_since(begun).as_secs(),
        during.descriptors,
        times.len(),
        times[times.len() / 2].as_millis(),
        p99.as_millis(),
    );
    assert!(asked > 0, "nobody besieged it");
    assert!(grown < MOST, "{grown} bytes more than before");
    assert!(during.descriptors < DESCRIPTORS, "{} descriptors", during.descriptors);
    assert!(after.memory <= allowed, "{} bytes of {} are left", after.memory, before.memory);
    // A build that is not optimized, on a machine that does other things, is no measure.
    assert!(!size.is_full || p99 < SOON, "{p99:?}");
    (grown, after.memory)
}

#[test]
fn http3_that_asks_and_takes_nothing() {
    besieged("HTTP/3, nothing is taken", Attack::Http3 { window: 16 << 10, rate: 0 });
}

/// They have room for all of it, and read nothing.
#[test]
fn http3_with_windows_that_nobody_reads() {
    besieged("HTTP/3, windows of 1 MB, nothing is read", Attack::Http3 { window: 1 << 20, rate: 0 });
}

/// More clients than one would have on purpose, under the budget that a server has unless told: what each
/// costs it.
fn crowded(name: &str, crowd: Attack, connections: usize, requests: usize) {
    let size = Size::chosen();
    let connections = if size.is_full { connections } else { connections / 100 };
    let room = (4 * connections).to_string();
    let limits = ["--max-connections", &room, "--max-per-client", &room, "--max-answers", &room];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start(&limits);
        let mut honest = Honest::new(&server);
        honest.fetch_for(Duration::from_secs(2)).await;
        let before = server.watch();
        let hosts = crowd.begin(&server, connections, requests);
        let begun = Instant::now();
        while hosts.count().0 < connections && begun.elapsed() < Duration::from_secs(120) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let times = honest.fetch_for(size.time).await;
        let (connected, asked) = hosts.count();
        let during = server.watch();
        println!(
            "| {name} | {connected} connections, {asked} requests | {} MB idle, +{} MB, {} kB each | {} descriptors | {} answers, p50 {} ms, p99 {} ms |",
            before.memory >> 20,
            during.memory.saturating_sub(before.memory) >> 20,
            (during.memory.saturating_sub(before.memory) / connected.max(1) as u64) >> 10,
            during.descriptors,
            times.len(),
            times[times.len() / 2].as_millis(),
            times[(times.len() * 99 / 100).min(times.len() - 1)].as_millis(),
        );
        assert_eq!(connected, connections, "all are there, and nobody had to come again");
        assert!(during.descriptors < DESCRIPTORS, "{} descriptors", during.descriptors);
        hosts.leave();
    });
}

#[test]
fn readers_that_never_read() {
    crowded("a large file, never read", Attack::Http3 { window: 1 << 20, rate: 0 }, 1000, 1);
}

#[test]
fn connections_that_do_nothing() {
    crowded("idle", Attack::Http3 { window: 1 << 20, rate: 0 }, 10_000, 0);
}

#[test]
fn readers_that_are_slow() {
    crowded("1 kB a second", Attack::Http3 { window: 16 << 10, rate: 1000 }, 10_000, 1);
}

#[test]
fn http2_that_asks_and_takes_nothing() {
    besieged("HTTP/2, nothing is taken", Attack::Http2);
}

#[test]
fn http1_that_asks_and_takes_nothing() {
    besieged("HTTP/1.1, nothing is taken", Attack::Http1);
}
