//! The cases of the QUIC interop runner, with our own numbers, one of ours (`priorities`), and what the judge
//! wants to see.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::page;
use crate::play::PlayRole;
use crate::relay::{DOWN, RelaySeen, UP, V2};

pub(crate) struct MatrixCase {
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
    /// Which end is ours.
    pub(crate) ours: PlayRole,
    /// Of all connections, and of each address that a client had.
    pub(crate) seen: RelaySeen,
    pub(crate) flows: &'a [RelaySeen],
    /// Bytes of the certificate.
    pub(crate) certificate: u64,
    /// Key updates that ours counted.
    pub(crate) key_updates: u64,
    /// The files, and their bytes.
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// How long it took.
    pub(crate) seconds: f64,
    /// Where both sides left their logs.
    pub(crate) folder: &'a Path,
}

impl Evidence<'_> {
    /// In which group keys were exchanged, and how long the handshake took.
    pub(crate) fn handshake(&self) -> Option<String> {
        let (group, time) = (self.seen.group?, self.seen.handshake?);
        let name = match group {
            0x11ec => "X25519MLKEM768".to_owned(),
            0x1d => "X25519".to_owned(),
            0x17 => "P-256".to_owned(),
            SECP384R1 => "P-384".to_owned(),
            other => format!("group {other:#06x}"),
        };
        Some(format!("{name} in {} ms", time.as_millis()))
    }
}

impl MatrixCase {
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    pub(crate) fn measures(&self) -> bool {
        matches!(self.name, "goodput" | "crosstraffic")
    }

    /// The handshake is what it is about.
    pub(crate) fn is_hello(&self) -> bool {
        self.name.starts_with("hello-")
    }
}

const PLAIN: MatrixCase = MatrixCase {
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

pub(crate) const CASES: &[MatrixCase] = &[
    MatrixCase { name: "handshake", about: "a connection, one file of 1 kB", ..PLAIN },
    MatrixCase {
        name: "transfer",
        about: "files of 2, 3 and 5 MB at once, 100 Mbit/s",
        road: "rate=100mbit delay=15ms queue=200kB",
        files: &[(1, 2_000_000), (1, 3_000_000), (1, 5_000_000)],
        quick: &[(1, 200_000), (1, 300_000), (1, 500_000)],
        ..PLAIN
    },
    MatrixCase {
        name: "longrtt",
        about: "a round trip of 1.5 s",
        road: "delay=750ms",
        judge: |e| {
            ensure!(e.seconds >= 3.0, "{:.2} s are less than two round trips", e.seconds);
            Ok(())
        },
        short: false,
        ..PLAIN
    },
    MatrixCase {
        name: "chacha20",
        about: "ours has ChaCha20-Poly1305 only; 3 MB",
        files: &[(1, 3_000_000)],
        quick: &[(1, 300_000)],
        judge: |e| {
            let suite = e.seen.suite.unwrap_or_default();
            ensure!(suite == CHACHA20, "the ServerHello has the suite {suite:#06x}");
            Ok(())
        },
        ..PLAIN
    },
    MatrixCase {
        name: "multiplexing",
        about: "2,000 files of 32 bytes, more than streams are allowed at a time",
        files: &[(2000, 32)],
        quick: &[(300, 32)],
        seconds: 60,
        ..PLAIN
    },
    MatrixCase {
        name: "retry",
        about: "the server makes the client prove its address",
        judge: retried,
        ..PLAIN
    },
    MatrixCase {
        name: "hello-two-datagrams",
        about: "a ClientHello of two datagrams, as with a share of X25519MLKEM768",
        judge: |e| hello(e, [false, false]),
        short: false,
        ..PLAIN
    },
    MatrixCase {
        name: "hello-first-lost",
        about: "the first of the two is lost",
        up: Some("delay=15ms loss=list:0"),
        judge: |e| hello(e, [true, false]),
        ..PLAIN
    },
    MatrixCase {
        name: "hello-second-lost",
        about: "the second of the two is lost",
        up: Some("delay=15ms loss=list:1"),
        judge: |e| hello(e, [false, true]),
        ..PLAIN
    },
    MatrixCase {
        name: "hello-retry",
        about: "a Retry packet answers a ClientHello of two datagrams",
        judge: |e| retried_hello(e, [false, false]),
        short: false,
        ..PLAIN
    },
    MatrixCase {
        name: "hello-retry-first-lost",
        about: "of the hello behind a Retry packet the first datagram is lost",
        up: Some("delay=15ms loss=list:2"),
        judge: |e| retried_hello(e, [true, false]),
        ..PLAIN
    },
    MatrixCase {
        name: "hello-retry-second-lost",
        about: "of the hello behind a Retry packet the second datagram is lost",
        up: Some("delay=15ms loss=list:3"),
        judge: |e| retried_hello(e, [false, true]),
        short: false,
        ..PLAIN
    },
    MatrixCase {
        name: "hello-again",
        about: "a HelloRetryRequest: the server knows P-384 only, of which the client sent no share",
        judge: |e| {
            ensure!(e.seen.asked_again, "no HelloRetryRequest was seen");
            let group = e.seen.group.unwrap_or_default();
            ensure!(group == SECP384R1, "the ServerHello has the group {group:#06x}");
            soon(e)?;
            unamplified(e)
        },
        ..PLAIN
    },
    MatrixCase {
        name: "resumption",
        about: "a second connection without the server's certificate",
        files: &[(2, 5_000)],
        names: 60,
        judge: resumed,
        ..PLAIN
    },
    MatrixCase {
        name: "zerortt",
        about: "a second connection whose 28 requests come as early data",
        // They and a hello of two datagrams fit a first window.
        files: &[(29, 32)],
        names: 60,
        judge: early,
        ..PLAIN
    },
    MatrixCase {
        name: "http3",
        about: "HTTP/3: files of 5, 10 and 500 kB",
        files: &[(1, 5_000), (1, 10_000), (1, 500_000)],
        ..PLAIN
    },
    MatrixCase {
        name: "priorities",
        about: "a page of all kinds of things: a browser's own signals are what our server sends by",
        road: "rate=4mbit delay=15ms queue=100kB",
        files: &[],
        seconds: 40,
        judge: page::judge,
        page: true,
        ..PLAIN
    },
    MatrixCase {
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
    MatrixCase {
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
    MatrixCase {
        name: "ecn",
        about: "packets are marked both ways to the end: the marks were validated",
        road: "rate=50mbit delay=15ms queue=100kB",
        files: &[(1, 1_000_000)],
        judge: |e| {
            for (direction, who) in [(UP, "client"), (DOWN, "server")] {
                ensure!(e.seen.marked[direction] > 0, "no packet of the {who} had a mark");
                let last = e.seen.marks_last(direction);
                ensure!(last, "the {who} stopped marking: its marks were not reported to it");
            }
            Ok(())
        },
        ..PLAIN
    },
    MatrixCase {
        name: "amplificationlimit",
        about: "a certificate of 12 kB while the client's 2nd to 4th datagrams are lost",
        up: Some("delay=15ms loss=list:1-3"),
        files: &[(1, 5_000)],
        names: 400,
        judge: |e| {
            lost(e)?;
            ensure!(e.seen.hello.get(1) != Some(&false), "all of the hello arrived at once");
            let bytes: u64 = e.seen.handshake_bytes.iter().sum();
            ensure!(bytes > e.certificate, "the handshake has {bytes} bytes: no certificate");
            unamplified(e)
        },
        ..PLAIN
    },
    MatrixCase {
        name: "handshakeloss",
        about: "10 connections while 30 % is lost each way",
        road: "delay=15ms loss=30%",
        files: &[(10, 1024)],
        quick: &[(3, 1024)],
        seconds: 120,
        judge: |e| {
            lost(e)?;
            each_its_own(e)?;
            unamplified(e)
        },
        ..PLAIN
    },
    MatrixCase {
        name: "transferloss",
        about: "2 MB while 2 % is lost each way",
        road: "rate=10mbit delay=15ms queue=40kB loss=2%",
        files: &[(1, 2_000_000)],
        quick: &[(1, 300_000)],
        seconds: 40,
        judge: lost,
        ..PLAIN
    },
    MatrixCase {
        name: "handshakecorruption",
        about: "10 connections while a bit flips in 30 % of the datagrams",
        road: "delay=15ms corrupt=30%",
        files: &[(10, 1024)],
        seconds: 120,
        judge: |e| {
            corrupted(e)?;
            each_its_own(e)
        },
        short: false,
        ..PLAIN
    },
    MatrixCase {
        name: "transfercorruption",
        about: "2 MB while a bit flips in 2 % of the datagrams",
        road: "rate=10mbit delay=15ms queue=40kB corrupt=2%",
        files: &[(1, 2_000_000)],
        seconds: 40,
        judge: corrupted,
        short: false,
        ..PLAIN
    },
    MatrixCase { name: "ipv6", about: "the same over IPv6", ..PLAIN },
    MatrixCase {
        name: "v2",
        about: "begun in version 1, agreed on version 2",
        judge: |e| {
            ensure!(e.seen.version == V2, "the server's last long header has version {:#x}", e.seen.version);
            Ok(())
        },
        ..PLAIN
    },
    MatrixCase {
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
    MatrixCase {
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
    MatrixCase {
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
    MatrixCase {
        name: "goodput",
        about: "10 MB alone over 10 Mbit/s and 30 ms, a queue of 37.5 kB",
        road: "rate=10mbit delay=15ms queue=37500B",
        files: &[(1, 10_000_000)],
        seconds: 90,
        short: false,
        ..PLAIN
    },
    MatrixCase {
        name: "crosstraffic",
        about: "the same beside a transfer from quinn to quinn, which begins first",
        road: "rate=10mbit delay=15ms queue=37500B",
        files: &[(1, 10_000_000)],
        seconds: 120,
        short: false,
        ..PLAIN
    },
];

/// RFC 8446 §B.4: TLS_CHACHA20_POLY1305_SHA256.
const CHACHA20: u16 = 0x1303;

/// RFC 8446 §4.2.7.
const SECP384R1: u16 = 0x18;

/// The hello took two datagrams, of which those were lost, and the handshake went on as soon as it may.
fn hello(e: &Evidence<'_>, lost: [bool; 2]) -> Result<()> {
    ensure!(
        e.seen.hello == lost,
        "of the datagrams of the hello these were lost: {:?}, not {lost:?}",
        e.seen.hello
    );
    soon(e)?;
    unamplified(e)
}

fn retried(e: &Evidence<'_>) -> Result<()> {
    ensure!(e.seen.retries > 0, "no Retry packet was seen");
    ensure!(e.seen.proofs > 0, "no Initial packet brought the token of the Retry packet back");
    Ok(())
}

fn retried_hello(e: &Evidence<'_>, lost: [bool; 2]) -> Result<()> {
    retried(e)?;
    hello(e, lost)
}

/// No second of silence: what arrived of the hello is acknowledged at once (RFC 9000 §13.2.1), and then the
/// client knows the round trip, and sends the rest again after three at most (RFC 9002 §6.2.1).
fn soon(e: &Evidence<'_>) -> Result<()> {
    let time = e.seen.handshake.context("no packet of the client was seen behind its handshake")?;
    ensure!(time < Duration::from_secs(1), "the handshake took {time:?}");
    Ok(())
}

/// The link lost something: otherwise nothing was to be overcome.
fn lost(e: &Evidence<'_>) -> Result<()> {
    ensure!(e.seen.lost > 0, "nothing was lost: it shows nothing");
    Ok(())
}

fn corrupted(e: &Evidence<'_>) -> Result<()> {
    ensure!(e.seen.corrupted > 0, "nothing was damaged: it shows nothing");
    Ok(())
}

/// As many handshakes as files.
fn each_its_own(e: &Evidence<'_>) -> Result<()> {
    let (files, connections) = (e.files, e.seen.connections);
    ensure!(connections >= files, "{files} files came by {connections} connections");
    Ok(())
}

/// The last connection's handshake is smaller than the certificate is, the first one's is not.
fn resumed(e: &Evidence<'_>) -> Result<()> {
    let [first, .., last] = e.seen.handshake_bytes[..] else { bail!("there was no second connection") };
    ensure!(first > e.certificate, "the first handshake has {first} bytes");
    ensure!(last < e.certificate, "the second handshake has {last} bytes and a certificate among them");
    Ok(())
}

/// The requests left as early data, and not again later: 40 paths of 200 bytes.
fn early(e: &Evidence<'_>) -> Result<()> {
    resumed(e)?;
    let (early, late) = (e.seen.early_bytes, e.seen.late_bytes);
    ensure!(early > 28 * 200, "{early} bytes were early data");
    // Else all of it comes again, beside what comes late anyway: acknowledgements, and probes of the path.
    ensure!(late < early, "{late} bytes came late: the early data was rejected");
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
    // quinn lets the datagram that reaches the limit be a whole one, whatever is left of it.
    let grace = if e.ours == PlayRole::Server { 0 } else { 1500 };
    ensure!(seen.beyond <= grace, "the server sent {} bytes for {} received", seen.answered, seen.unproven);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen of 5 MB over one connection when nothing else happens.
    fn plain() -> RelaySeen {
        let mut seen = RelaySeen::default();
        (seen.connections, seen.suite, seen.version) = (1, Some(0x1301), 1);
        (seen.unproven, seen.answered, seen.handshake_bytes) = (1200, 3000, vec![2000]);
        (seen.late_bytes, seen.datagrams) = (60_000, [1000, 4000]);
        seen
    }

    fn judged(name: &str, seen: &RelaySeen, flows: &[RelaySeen], key_updates: u64) -> Result<()> {
        let case = CASES.iter().find(|case| case.name == name).expect("there is such a case");
        let evidence = Evidence {
            ours: PlayRole::Server,
            seen: seen.clone(),
            flows,
            certificate: 1500,
            key_updates,
            files: 1,
            bytes: 5_000_000,
            seconds: 0.5,
            folder: Path::new("no such folder"),
        };
        (case.judge)(&evidence)
    }

    #[test]
    fn a_plain_transfer_is_evidence_of_nothing_else() {
        let nothing_special =
            ["handshake", "transfer", "multiplexing", "http3", "ipv6", "goodput", "crosstraffic"];
        for case in CASES {
            let passed = judged(case.name, &plain(), &[plain()], 0).is_ok();
            assert_eq!(passed, nothing_special.contains(&case.name), "{}", case.name);
        }
    }

    #[test]
    fn each_case_takes_what_is_its_own() {
        let with = |change: fn(&mut RelaySeen)| {
            let mut seen = plain();
            change(&mut seen);
            seen
        };
        let passes = |name: &str, seen: &RelaySeen| judged(name, seen, std::slice::from_ref(seen), 0).is_ok();
        assert!(passes("chacha20", &with(|s| s.suite = Some(0x1303))));
        assert!(!passes("retry", &with(|s| s.retries = 1)), "a Retry packet that nobody answers");
        assert!(passes("retry", &with(|s| (s.retries, s.proofs) = (1, 1))));
        let with_hello = |hello: [bool; 2], ms| {
            let mut seen = plain();
            (seen.hello, seen.handshake) = (hello.to_vec(), Some(Duration::from_millis(ms)));
            (seen.retries, seen.proofs) = (1, 1);
            seen
        };
        for (names, lost) in [
            (["hello-two-datagrams", "hello-retry"], [false, false]),
            (["hello-first-lost", "hello-retry-first-lost"], [true, false]),
            (["hello-second-lost", "hello-retry-second-lost"], [false, true]),
        ] {
            for name in names {
                assert!(passes(name, &with_hello(lost, 130)), "{name}");
                assert!(!passes(name, &with_hello(lost, 1030)), "{name}: a second of silence");
                assert!(!passes(name, &with_hello([true, true], 130)), "{name}: both were lost");
                let mut amplified = with_hello(lost, 130);
                amplified.beyond = 1;
                assert!(!passes(name, &amplified), "{name}: beyond the limit");
            }
        }
        let mut again = with_hello([false, false], 130);
        (again.asked_again, again.group) = (true, Some(0x18));
        assert!(passes("hello-again", &again));
        again.group = Some(0x1d);
        assert!(!passes("hello-again", &again), "another group");
        again.proofs = 0;
        assert!(!passes("hello-retry", &again), "a Retry packet that nobody answers");
        assert!(passes("handshakeloss", &with(|s| s.lost = 1)));
        assert!(!passes("handshakeloss", &with(|s| (s.lost, s.beyond) = (1, 1))));
        assert!(passes("amplificationlimit", &with(|s| (s.lost, s.hello) = (1, vec![false, true]))));
        assert!(!passes("amplificationlimit", &with(|s| (s.lost, s.hello) = (1, vec![false, false]))));
        assert!(passes("transferloss", &with(|s| s.lost = 1)));
        assert!(passes("handshakecorruption", &with(|s| s.corrupted = 1)));
        assert!(passes("transfercorruption", &with(|s| s.corrupted = 1)));
        assert!(passes("v2", &with(|s| s.version = V2)));
        assert!(passes("rebind-port", &with(|s| (s.rebinds, s.since_rebind) = (2, 1000))));
        assert!(judged("keyupdate", &plain(), &[plain()], 1).is_ok());
        let to_the_end = |s: &mut RelaySeen| (s.marked, s.last_marked) = (s.datagrams, s.datagrams);
        assert!(passes("ecn", &with(to_the_end)));
        let mut silent = with(to_the_end);
        silent.last_marked[UP] = 10;
        assert!(!passes("ecn", &silent), "a client that stopped marking");
        // One handshake of one connection, and two of which the second has no certificate.
        assert!(!passes("resumption", &plain()));
        assert!(!passes("resumption", &with(|s| s.handshake_bytes = vec![2000, 2000])));
        // What is sent again on the way is no second certificate.
        assert!(passes("resumption", &with(|s| s.handshake_bytes = vec![6000, 500])));
    }

    #[test]
    fn others_may_end_a_datagram_beyond_the_limit_and_we_may_not() {
        let judged = |ours, beyond| {
            let mut seen = plain();
            seen.beyond = beyond;
            let folder = Path::new("no such folder");
            let (certificate, key_updates, files, bytes, seconds) = (1500, 0, 1, 5000, 0.5);
            let evidence =
                Evidence { ours, seen, flows: &[], certificate, key_updates, files, bytes, seconds, folder };
            unamplified(&evidence).is_ok()
        };
        assert!(judged(PlayRole::Server, 0) && !judged(PlayRole::Server, 1));
        assert!(judged(PlayRole::Client, 1252) && !judged(PlayRole::Client, 1501));
    }

    #[test]
    fn a_connection_for_each_file_is_demanded() {
        let mut seen = plain();
        seen.lost = 5;
        let mut evidence = Evidence {
            ours: PlayRole::Server,
            seen,
            flows: &[],
            certificate: 1500,
            key_updates: 0,
            files: 10,
            bytes: 10_240,
            seconds: 1.0,
            folder: Path::new("no such folder"),
        };
        let case = CASES.iter().find(|case| case.name == "handshakeloss").expect("there is such a case");
        assert!((case.judge)(&evidence).is_err());
        evidence.seen.connections = 10;
        assert!((case.judge)(&evidence).is_ok());
    }
}
