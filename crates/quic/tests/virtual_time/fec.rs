//! Forward erasure correction between two connections, in virtual time.

use crate::common::{Pair, Setup, pattern};
use quickset_quic::{Dir, Fec, Protection, Stats, StreamId};

const LOSSY: &str = "rate=20mbit delay=50ms queue=1MB loss=2%";

fn protected(seed: u64, link: &str, protection: &str) -> Setup {
    let protection: Protection = protection.parse().expect("a protection");
    Setup::new(seed, link).transport(|t| {
        t.fec = Some(Fec { protection: protection.clone(), window: 2048, ..Fec::default() });
        t.mtu = 1472;
    })
}

/// Sends `len` bytes on one stream; returns the pair once they have all arrived and are acknowledged.
fn transfer(setup: &Setup, len: usize) -> (Pair, StreamId) {
    let mut pair = setup.connected();
    let (key, data) = (pair.key, pattern(len));
    let id = pair.client_mut().send(key, Dir::Uni, data.clone());
    pair.until("delivered", |p| !p.server().finished.is_empty() && !p.client().delivered.is_empty());
    let at = pair.server_key();
    assert!(pair.server().received[&(at, id)] == data, "seed {}: other bytes", setup.seed);
    (pair, id)
}

fn stats(pair: &mut Pair) -> (Stats, Stats) {
    let (key, at) = (pair.key, pair.server_key());
    (pair.client_mut().connection(key).stats(), pair.server_mut().connection(at).stats())
}

#[test]
fn lost_symbols_are_recovered_and_whatever_happens_the_bytes_arrive() {
    for protection in ["sr", "fixed:10", "ac-rlnc", "bulk", "buffer", "tum:3", "tum:3:80ms", "adaptive:bulk"]
    {
        for seed in 0..3 {
            let (mut pair, _) = transfer(&protected(seed, LOSSY, protection), 2_000_000);
            let (client, server) = stats(&mut pair);
            println!(
                "{protection} {seed}: {:?} {:?} lost {} at {}",
                client.fec,
                server.fec,
                client.lost_packets,
                pair.world.now()
            );
            if protection == "fixed:10" {
                assert!(server.fec.recovered_here > 10, "{protection}, seed {seed}: {:?}", server.fec);
            }
        }
    }
}
