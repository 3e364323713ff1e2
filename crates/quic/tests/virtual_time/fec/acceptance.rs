//! What a recovery is not: an acknowledgement of a packet, and a reason to send anything again.

use std::collections::BTreeMap;

use quickset_base::Duration;
use quickset_quic::{Algorithm, Dir, Fec, Protection, Stats};
use quickset_sim::{DropReason, Fate, LinkId, Trace};

use super::traffic::{self, Load};
use super::{protected, stats};
use crate::common::{Pair, Setup, pattern};

const LOAD: Load =
    Load { bytes: 100_000, updates: 6, messages: 10, size: 1100, pause: Duration::from_millis(30) };

/// A transfer under trace; returns it once nothing is in flight, with the packets that the link lost of the client's.
fn traced(setup: &Setup, len: usize) -> (Pair, Stats, u64) {
    let mut pair = setup.connected();
    pair.world.trace(Trace::full());
    let key = pair.key;
    let before = pair.client_mut().connection(key).stats().lost_packets;
    assert_eq!(before, 0, "seed {}: the handshake lost something", setup.seed);
    let id = pair.client_mut().send(key, Dir::Uni, pattern(len));
    pair.until("delivered", |p| p.client().delivered.contains(&(key, id)));
    pair.pass(Duration::from_secs(2));
    let (client, server) = stats(&mut pair);
    assert!(server.fec.recovered_here <= client.fec.sources_sent);
    let trace = pair.world.take_trace().expect("a trace");
    let up = trace.records().iter().filter(|r| r.link.index() == 0);
    let lost = up.filter(|r| matches!(r.fate, Fate::Dropped(_))).count() as u64;
    (pair, client, lost)
}

/// FEC-49, and the second of the coupling invariants: recovered or not, what the link lost is lost.
#[test]
fn what_was_recovered_is_lost_all_the_same() {
    for protection in ["none", "fixed:5", "ac-rlnc", "buffer:4", "tum:3:10ms"] {
        for congestion in [Algorithm::Cubic, Algorithm::Bbr] {
            for seed in quickset_sim::seeds(0..3) {
                let setup = protected(seed, "rate=20mbit delay=20ms queue=1MB loss=1.5%", protection)
                    .transport(|t| t.congestion = congestion);
                let (_, client, lost) = traced(&setup, 400_000);
                let what = format!("{protection}, {congestion}, seed {seed}: {client:?}");
                // A packet at the very end may be lost and never missed: ACKs of ours are not counted.
                assert!(
                    client.lost_packets <= lost && lost <= client.lost_packets + 1,
                    "{lost} lost, {what}"
                );
                assert_eq!(client.in_flight, 0, "{what}");
                assert_eq!(client.spurious_losses, 0, "{what}");
            }
        }
    }
}
