//! What `cargo xtask instructions` counts the instructions of: functions of known names, which callgrind is
//! told to look at.
//!
//! Arguments: a [`CASES`] name. Prints how often the thing that is counted was done.

mod pair;

use quickset_quic::{Fec, TransportConfig};

use pair::Pair;

/// Does something often, with this protection. Returns how often.
type Play = fn(&str) -> usize;

/// What is counted, what protects it, and how it is played.
const CASES: &[(&str, &str, Play)] = &[
    ("handshake", "none", handshakes),
    ("sent", "none", sent),
    ("received", "none", received),
    ("acknowledged", "none", acknowledged),
    ("sent-protected", "adaptive:bulk", sent),
    ("received-protected", "adaptive:bulk", received),
    ("sent-repaired", "rs:105/100", sent),
    ("received-repaired", "rs:105/100", received),
];

fn main() {
    // Cargo's own arguments begin with dashes.
    let name = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for (case, protection, play) in CASES {
        if name.as_ref().is_none_or(|name| name == case) {
            println!("{case} {}", play(protection));
        }
    }
}

fn handshakes(_: &str) -> usize {
    // The first makes what all processes have once.
    drop(Pair::new(TransportConfig::fixed_mtu(1200)));
    (0..HANDSHAKES).for_each(|_| counted_handshake());
    HANDSHAKES
}

fn sent(protection: &str) -> usize {
    flow(protection, |pair| {
        let sent = counted_send(pair);
        pair.receive();
        pair.answer();
        pair.settle();
        sent
    })
}

fn received(protection: &str) -> usize {
    flow(protection, |pair| {
        let sent = pair.send();
        counted_receive(pair);
        pair.answer();
        pair.settle();
        sent
    })
}

fn acknowledged(protection: &str) -> usize {
    flow(protection, |pair| {
        let sent = pair.send();
        pair.receive();
        pair.answer();
        counted_settle(pair);
        sent
    })
}

/// Full batches on one stream, as many in flight as a fast path has. Returns the packets of those that `turn`
/// was called for.
fn flow(protection: &str, mut turn: impl FnMut(&mut Pair) -> usize) -> usize {
    let protection = protection.parse().expect("a protection");
    let fec = Some(Fec::default().with_protection(protection));
    let mut pair = Pair::new(TransportConfig::fixed_mtu(1200).with_fec(fec));
    pair.depth = 20;
    for _ in 0..WARM {
        pair.write();
        pair.turn();
    }
    let count = |_| {
        pair.write();
        turn(&mut pair)
    };
    (0..TURNS).map(count).sum()
}

#[inline(never)]
fn counted_handshake() {
    drop(std::hint::black_box(Pair::new(TransportConfig::fixed_mtu(1200))));
}

#[inline(never)]
fn counted_send(pair: &mut Pair) -> usize {
    pair.send()
}

#[inline(never)]
fn counted_receive(pair: &mut Pair) {
    pair.receive();
}

#[inline(never)]
fn counted_settle(pair: &mut Pair) {
    pair.settle();
}

/// Batches before counting begins, and counted.
const WARM: usize = 100;
const TURNS: usize = 300;
const HANDSHAKES: usize = 50;
