//! A peer that has the keys and says anything, to a connection of ours, client or server.
//!
//! Whatever it says, ours comes to rest, holds little, and ends with one of the transport's errors if it
//! ends.
//!
//! The first two bytes of the input choose who ours is; then come operations of two bytes, and behind those
//! that say so the frames of a packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quickset_base::{Duration, Ecn};
use quickset_fuzz::victim::{Victim, config};
use quickset_fuzz::{Bytes, held};
use quickset_quic::{Closed, Side, TransportErrorCode as Code};
use quickset_sim::address;
use quickset_wire::Space;

fuzz_target!(|input: &[u8]| {
    let before = held();
    let mut bytes = Bytes(input);
    let (kind, flags) = (bytes.next(), bytes.next());
    let side = if kind & 1 == 0 { Side::Server } else { Side::Client };
    let mut victim = Victim::new(side, kind & 6 == 6, config(flags));
    while !bytes.is_empty() {
        let (op, arg) = (bytes.next(), bytes.next());
        let peer = &mut victim.peer;
        match op & 15 {
            0..=6 => {
                let len = usize::from(arg) | usize::from(op >> 4 & 3) << 8;
                peer.say(Space::Data, bytes.take(len));
            }
            7 => peer.say(Space::Handshake, bytes.take(arg.into())),
            8 => peer.say(Space::Initial, bytes.take(arg.into())),
            9 => peer.acknowledge(Space::Data),
            10 => victim.pass(Duration::from_millis(u64::from(arg) * u64::from(arg) / 16)),
            11 => {
                let Some(data) = peer.challenges.pop() else { continue };
                peer.say(Space::Data, &[&[PATH_RESPONSE], &data[..]].concat());
            }
            12 => {
                victim.from = address(2 + u16::from(arg & 3));
                victim.ecn = Ecn::from_bits(arg >> 4);
            }
            13 => peer.skip(arg.into()),
            _ => victim.act(op >> 4 | (arg & 8) << 1, arg),
        }
        victim.deliver();
        assert!(held() - before < MOST, "{} bytes", held() - before);
        if let Some(Closed::Failed(error)) = &victim.closed {
            let code = error.code;
            let known = code <= Code::VERSION_NEGOTIATION_ERROR
                || [Code::FENCE_ERROR, Code::FEC_ERROR].contains(&code);
            assert!((known || code.is_crypto()) && code != Code::INTERNAL_ERROR, "{error:?}");
        }
    }
    victim.read();
    victim.pass(Duration::from_secs(60));
});

/// What ours may hold: its windows, and about as much again for what it keeps of their pieces; and a batch.
const MOST: isize = 2 << 20;

/// RFC 9000 §19.18.
const PATH_RESPONSE: u8 = 0x1b;
