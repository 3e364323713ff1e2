//! Whatever protects it and whatever the path does: everything arrives once, in an order that is allowed.

use quickset_base::Duration;
use quickset_policies::read;
use quickset_quic::{Fec, Protection};

use super::traffic::{self, Load};
use super::{protected, stats, transfer};
use crate::common::Setup;

/// All there are, each with small figures, so that few symbols make a block.
const PROTECTIONS: [&str; 18] = [
    "none",
    "adaptive",
    "adaptive:bulk",
    "adaptive:screen",
    "adaptive:messages",
    "sr",
    "fixed:10",
    "ac-rlnc",
    "bulk",
    "buffer",
    "messages",
    "rs:120/100",
    "rs:130/100:stride=3",
    "ldpc:120/100",
    "xor:4",
    "xor2d:3x4",
    "tum:3",
    "tum:3:10ms",
];

/// Name, link, and the size of datagrams.
const LINKS: [(&str, &str, u16); 10] = [
    ("clean", "rate=20mbit delay=20ms queue=1MB", 1472),
    ("independent", "rate=20mbit delay=20ms queue=1MB loss=3%", 1472),
    ("bursts", "rate=20mbit delay=20ms queue=1MB loss=ge:1%,25%", 1472),
    ("jitter", "rate=20mbit delay=20ms queue=1MB loss=2% jitter=uniform:15ms reorder=yes", 1472),
    ("late and twice", "rate=20mbit delay=20ms queue=1MB loss=2% reorder=3%,30ms duplicate=3%", 1472),
    ("blackout", "rate=20mbit delay=20ms queue=1MB loss=2% blackout=180ms+350ms", 1472),
    ("overflow", "rate=8mbit delay=20ms queue=12kB", 1472),
    ("small packets", "rate=20mbit delay=20ms queue=1MB loss=3%", 1200),
    ("near", "rate=20mbit delay=2500us queue=1MB loss=3%", 1472),
    ("far", "rate=20mbit delay=200ms queue=1MB loss=3%", 1472),
];

const LOAD: Load =
    Load { bytes: 60_000, updates: 5, messages: 6, size: 900, pause: Duration::from_millis(40) };

/// FEC-19, FEC-20, FEC-36, FEC-54: a symbol that acted twice, or not as its frames, would show, and repeats
/// with other bytes would end the connection.
#[test]
fn everything_arrives_once_and_in_order() {
    for (index, protection) in (0..).zip(PROTECTIONS) {
        let value = read(protection).expect("a protection");
        for (row, (name, link, mtu)) in (0..).zip(LINKS) {
            // Once for the connection as a whole, then for each stream, as on a chessboard.
            let own = (index + row) % 2 == 0;
            for seed in quickset_sim::seeds(index..index + 1) {
                let setup = Setup::new(seed, link).transport(|t| {
                    let protection = if own { Protection::None } else { value.clone() };
                    t.fec = Some(Fec::default().with_protection(protection));
                    t.mtu = mtu;
                });
                let what = format!("{protection}, {name}, each stream {own}, seed {seed}");
                traffic::run(&mut setup.connected(), &LOAD, own.then_some(&value), &what);
            }
        }
    }
}

#[test]
fn lost_symbols_are_recovered_and_whatever_happens_the_bytes_arrive() {
    const LOSSY: &str = "rate=20mbit delay=50ms queue=1MB loss=2%";
    for protection in ["sr", "fixed:10", "ac-rlnc", "bulk", "buffer", "tum:3", "tum:3:80ms", "adaptive:bulk"]
    {
        for seed in 0..2 {
            let (mut pair, _) = transfer(&protected(seed, LOSSY, protection), 1_000_000);
            let (_, server) = stats(&mut pair);
            if protection == "fixed:10" {
                assert!(server.fec.recovered_here > 3, "{protection}, seed {seed}: {:?}", server.fec);
            }
        }
    }
}
