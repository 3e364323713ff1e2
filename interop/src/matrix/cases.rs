//! The cases of the QUIC interop runner, with our own numbers, one of ours (`priorities`), and what the judge wants to see.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::page;
use crate::relay::{Seen, V2};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// As `LinkSpec` has it.
    pub(crate) road: &'static str,
    /// Another towards the server.
    pub(crate) up: Option<&'static str>,
    /// How many files of how many bytes are fetched.
    pub(crate) files: &'static [(usize, usize)],
    /// The same with `--quick`; none: the same.
    pub(crate) quick: &'static [(usize, usize)],
    /// Names in the certificate besides the one that counts, 30 bytes each.
    pub(crate) names: usize,
    pub(crate) seconds: u64,
    pub(crate) meddling: Meddling,
    pub(crate) judge: fn(&Evidence<'_>) -> Result<()>,
    /// A browser loads a page.
    pub(crate) page: bool,
    /// A part of `--quick`.
    pub(crate) short: bool,
}

/// What happens on the road.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meddling {
    None,
    /// Nothing passes for two seconds.
    Cut,
    /// The client gets another port, twice.
    Port,
    /// And another address.
    Address,
}

/// What is known when all files have come.
pub(crate) struct Evidence<'a> {
    /// Of all connections, and of each address that a client had.
    pub(crate) seen: Seen,
    pub(crate) flows: &'a [Seen],
    /// Bytes of the certificate.
    pub(crate) certificate: u64,
    /// Key updates that ours counted.
    pub(crate) key_updates: u64,
    /// Bytes of the files.
    pub(crate) bytes: u64,
    /// Where both sides left their logs.
    pub(crate) folder: &'a Path,
}

impl Case {
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    pub(crate) fn measures(&self) -> bool {
        matches!(self.name, "goodput" | "crosstraffic")
    }
}

const PLAIN: Case = Case {
    name: "",
    about: "",
    road: "delay=15ms",
    up: None,
    files: &[(1, 1024)],
    quick: &[],
    names: 0,
    seconds: 20,
    meddling: Meddling::None,
    judge: |_| Ok(()),
    page: false,
    short: true,
};

pub(crate) const CASES: &[Case] = &[
    Case { name: "handshake", about: "a connection, one file of 1 kB", ..PLAIN },
    Case {
        name: "transfer",
        about: "files of 2, 3 and 5 MB at once, 100 Mbit/s",
        road: "rate=100mbit delay=15ms queue=200kB",
        files: &[(1, 2_000_000), (1, 3_000_000), (1, 5_000_000)],
        quick: &[(1, 200_000), (1, 300_000), (1, 500_000)],
        ..PLAIN
    },
    Case { name: "longrtt", about: "a round trip of 1.5 s", road: "delay=750ms", short: false, ..PLAIN },
    Case {
        name: "chacha20",
        about: "ours has ChaCha20-Poly1305 only; 3 MB",
        files: &[(1, 3_000_000)],
        quick: &[(1, 300_000)],
        ..PLAIN
    },
    Case {
        name: "multiplexing",
        about: "2,000 files of 32 bytes, more than streams are allowed at a time",
        files: &[(2000, 32)],
        quick: &[(300, 32)],
        seconds: 60,
        ..PLAIN
    },
    Case {
        name: "retry",
        about: "the server makes the client prove its address",
        judge: |e| {
            ensure!(e.seen.retries > 0, "no Retry packet was seen");
            Ok(())
        },
        ..PLAIN
    },
    Case {
        name: "resumption",
        about: "a second connection without the server's certificate",
        files: &[(2, 5_000)],
        names: 60,
        judge: resumed,
        ..PLAIN
    },
    Case {
        name: "zerortt",
        about: "a second connection whose 40 requests come as early data",
        files: &[(41, 32)],
        names: 60,
        judge: early,
        ..PLAIN
    },
    Case {
        name: "http3",
        about: "HTTP/3: files of 5, 10 and 500 kB",
        files: &[(1, 5_000), (1, 10_000), (1, 500_000)],
        ..PLAIN
    },
    Case {
        name: "priorities",
        about: "a page of all kinds of things: a browser's own signals are what our server sends by",
        road: "rate=4mbit delay=15ms queue=100kB",
        files: &[],
        seconds: 40,
        judge: page::judge,
        page: true,
        ..PLAIN
    },
    Case {
        name: "blackhole",
        about: "nothing passes for 2 s in the midst of 5 MB",
        road: "rate=10mbit delay=15ms queue=40kB",
        files: &[(1, 5_000_000)],
        seconds: 40,
        meddling: Meddling::Cut,
        judge: |e| {
            ensure!(e.seen.cut > 0, "nothing was sent while nothing passed: it shows nothing");
            Ok(())
        },
        short: false,
        ..PLAIN
    },
    Case {
        name: "keyupdate",
        about: "the client changes keys in the midst of 3 MB",
        road: "rate=20mbit delay=15ms queue=80kB",
        files: &[(1, 3_000_000)],
        judge: |e| {
            ensure!(e.key_updates > 0, "ours counted no key update");
            Ok(())
        },
        ..PLAIN
    },
    Case {
        name: "ecn",
        about: "packets are marked both ways to the end: the marks were validated",
        road: "rate=50mbit delay=15ms queue=100kB",
        files: &[(1, 1_000_000)],
        judge: |e| {
            ensure!(e.seen.marked[0] > 0, "no packet of the client had a mark");
            ensure!(e.seen.marked[1] > 0, "no packet of the server had a mark");
            ensure!(e.seen.marks_last(), "the server stopped marking: its marks were not reported to it");
            Ok(())
        },
        ..PLAIN
    },
    Case {
        name: "amplificationlimit",
        about: "a certificate of 12 kB while the client's 2nd to 4th datagrams are lost",
        up: Some("delay=15ms loss=list:1-3"),
        files: &[(1, 5_000)],
        names: 400,
        judge: unamplified,
        ..PLAIN
    },
    Case {
        name: "handshakeloss",
        about: "10 connections while 30 % is lost each way",
        road: "delay=15ms loss=30%",
        files: &[(10, 1024)],
        quick: &[(3, 1024)],
        seconds: 120,
        judge: unamplified,
        ..PLAIN
    },
    Case {
        name: "transferloss",
        about: "2 MB while 2 % is lost each way",
        road: "rate=10mbit delay=15ms queue=40kB loss=2%",
        files: &[(1, 2_000_000)],
        quick: &[(1, 300_000)],
        seconds: 40,
        ..PLAIN
    },
    Case {
        name: "handshakecorruption",
        about: "10 connections while a bit flips in 30 % of the datagrams",
        road: "delay=15ms corrupt=30%",
        files: &[(10, 1024)],
        seconds: 120,
        short: false,
        ..PLAIN
    },
    Case {
        name: "transfercorruption",
        about: "2 MB while a bit flips in 2 % of the datagrams",
        road: "rate=10mbit delay=15ms queue=40kB corrupt=2%",
        files: &[(1, 2_000_000)],
        seconds: 40,
        short: false,
        ..PLAIN
    },
    Case { name: "ipv6", about: "the same over IPv6", ..PLAIN },
    Case {
        name: "v2",
        about: "begun in version 1, agreed on version 2",
        judge: |e| {
            ensure!(e.seen.version == V2, "the server's last long header has version {:#x}", e.seen.version);
            Ok(())
        },
        ..PLAIN
    },
    Case {
        name: "rebind-port",
        about: "the client's port changes twice in the midst of 5 MB, unnoticed by it",
        road: "rate=10mbit delay=15ms queue=40kB",
        files: &[(1, 5_000_000)],
        seconds: 30,
        meddling: Meddling::Port,
        judge: rebound,
        short: false,
        ..PLAIN
    },
    Case {
        name: "rebind-addr",
        about: "the client's address changes twice",
        road: "rate=10mbit delay=15ms queue=40kB",
        files: &[(1, 5_000_000)],
        seconds: 30,
        meddling: Meddling::Address,
        judge: rebound,
        short: false,
        ..PLAIN
    },
    Case {
        name: "connectionmigration",
        about: "the client moves to another port, or address, by itself in the midst of 3 MB",
        road: "rate=20mbit delay=15ms queue=80kB",
        files: &[(1, 3_000_000)],
        seconds: 30,
        judge: |e| {
            ensure!(
                e.flows.iter().any(|flow| flow.moved && flow.datagrams[1] > 100),
                "the client did not move"
            );
            Ok(())
        },
        short: false,
        ..PLAIN
    },
    Case {
        name: "goodput",
        about: "10 MB alone over 10 Mbit/s and 30 ms, a queue of 37.5 kB",
        road: "rate=10mbit delay=15ms queue=37500B",
        files: &[(1, 10_000_000)],
        seconds: 90,
        short: false,
        ..PLAIN
    },
    Case {
        name: "crosstraffic",
        about: "the same beside a transfer from quinn to quinn, which begins first",
        road: "rate=10mbit delay=15ms queue=37500B",
        files: &[(1, 10_000_000)],
        seconds: 120,
        short: false,
        ..PLAIN
    },
];

/// The last connection's handshake is smaller than the certificate is, the first one's is not.
fn resumed(e: &Evidence<'_>) -> Result<()> {
    let [first, .., last] = e.flows else { return one_flow(e) };
    ensure!(first.handshake_bytes > e.certificate, "the first handshake has {} bytes", first.handshake_bytes);
    ensure!(
        last.handshake_bytes < e.certificate,
        "the second handshake has {} bytes and a certificate among them",
        last.handshake_bytes
    );
    Ok(())
}

/// Clients that use one port for both connections: twice the certificate would have come.
fn one_flow(e: &Evidence<'_>) -> Result<()> {
    let bytes = e.seen.handshake_bytes;
    ensure!(bytes > e.certificate, "the handshakes have {bytes} bytes");
    ensure!(bytes < 2 * e.certificate, "the handshakes have {bytes} bytes: both certificates");
    Ok(())
}

/// The requests left as early data, and not again later: 40 paths of 200 bytes.
fn early(e: &Evidence<'_>) -> Result<()> {
    resumed(e)?;
    let (early, late) = (e.seen.early_bytes, e.seen.late_bytes);
    ensure!(early > 40 * 200, "{early} bytes were early data");
    ensure!(late < 40 * 200, "{late} bytes came late: the early data was rejected");
    Ok(())
}

/// The transfer went on at the second of the new addresses.
fn rebound(e: &Evidence<'_>) -> Result<()> {
    let seen = &e.seen;
    ensure!(seen.rebinds > 1, "all had come before the address changed: it shows nothing");
    ensure!(seen.since_rebind > 50, "{} datagrams went to the new address", seen.since_rebind);
    Ok(())
}

fn unamplified(e: &Evidence<'_>) -> Result<()> {
    let seen = &e.seen;
    ensure!(!seen.amplified, "the server sent {} bytes for {} received", seen.answered, seen.unproven);
    Ok(())
}
