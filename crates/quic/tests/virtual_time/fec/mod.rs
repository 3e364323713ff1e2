//! Forward erasure correction between two connections, in virtual time.

mod acceptance;
mod blocks;
mod delivery;
mod endings;
mod free;
mod negotiation;
mod seams;
mod traffic;
mod unmarked;

use quickset_policies::read;
use quickset_quic::{Dir, Fec, Stats, StreamId};

use crate::common::{Pair, Setup, pattern};

/// Both sides with this protection for everything, and datagrams of 1472 bytes.
fn protected(seed: u64, link: &str, protection: &str) -> Setup {
    let protection = read(protection).expect("a protection");
    Setup::new(seed, link).transport(|t| {
        t.fec = Some(Fec::default().with_protection(protection.clone()).with_window(2048));
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

/// Those of the client and the server.
fn stats(pair: &mut Pair) -> (Stats, Stats) {
    let (key, at) = (pair.key, pair.server_key());
    (pair.client_mut().connection(key).stats(), pair.server_mut().connection(at).stats())
}
