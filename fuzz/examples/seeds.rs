//! Makes the seeds of `quic_peer`: what ours say to a peer by hand, said to another of ours.
//!
//!     cargo run --manifest-path fuzz/Cargo.toml --example seeds

use std::path::Path;

use quickset_base::Duration;
use quickset_fuzz::victim::{Victim, config};
use quickset_quic::Side;
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::{Space, Writer};

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/quic_peer");
    std::fs::create_dir_all(&folder)?;
    let protections =
        ["plain", "adaptive", "fixed", "reed_solomon", "staircase", "xor", "incremental", "messages"];
    for (n, name) in (0u8..).zip(protections) {
        let flags = n << 1;
        for (side, who) in [(Side::Client, "client"), (Side::Server, "server")] {
            // The input is for the other side.
            let seed = [&[side.is_server().into(), flags], said(side, flags).as_slice()].concat();
            std::fs::write(folder.join(format!("{who}_{name}")), seed)?;
        }
    }
    Ok(())
}

/// Operations that say what this side says.
fn said(side: Side, flags: u8) -> Vec<u8> {
    let mut victim = Victim::new(side, false, config(flags));
    victim.peer.payloads = Some(Vec::new());
    let mut out = Vec::new();
    for (i, &(op, arg)) in SCRIPT.iter().enumerate() {
        victim.act(op, arg);
        victim.pass(Duration::from_millis(15));
        // Now and then the acknowledgement waits, so that something is probed for or taken for lost.
        if i % 4 != 3 {
            victim.peer.acknowledge(Space::Data);
            victim.deliver();
        }
        let payloads = victim.peer.payloads.as_mut().expect("they are collected");
        for payload in payloads.drain(..) {
            let payload = without_acks(&payload);
            if !payload.is_empty() && out.len() + payload.len() < MOST {
                out.extend([(payload.len() >> 8 << 4) as u8, payload.len() as u8]);
                out.extend(payload);
            }
        }
        out.extend([10, 15, 9, 0]);
    }
    out
}

/// What it acknowledges are packets of another.
fn without_acks(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 2 * payload.len()];
    let mut w = Writer::new(&mut bytes);
    for frame in Frames::new(payload) {
        match frame.expect("frames of ours can be read") {
            Frame::Ack(_) | Frame::Padding(_) => {}
            frame => frame.encode(&mut w),
        }
    }
    w.written().to_vec()
}

/// Operations of [`Victim::act`].
const SCRIPT: [(u8, u8); 24] = [
    (0, 1),
    (2, 9),
    (1, 0),
    (4, 12),
    (4, 3),
    (6, 0),
    (4, 5),
    (11, 8),
    (13, 0),
    (1, 3),
    (4, 20),
    (6, 0),
    (5, 7),
    (12, 0),
    (14, 2),
    (11, 3),
    (17, 40),
    (2, 16),
    (10, 0),
    (9, 5),
    (18, 0),
    (7, 0),
    (8, 16),
    (4, 30),
];

/// Bytes of a seed.
const MOST: usize = 3000;
