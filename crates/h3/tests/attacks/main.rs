//! A server under attack, in virtual time: a hostile peer made by hand, with the right keys and bad
//! intentions.
//!
//! Each attack shows three things: what the server holds and does for it is bounded ([`arena::Server`] counts
//! every byte of its heap, every datagram in and out); an honest connection of the same endpoint is served
//! meanwhile; and the attacker gets the error that the RFCs name, or silence. The server is the whole of QUIC
//! and HTTP/3 with a small application; handshakes are those of the null session. What a single frame may not
//! say stands beside the rooms of `quic` and in `tests/connection/rules.rs`.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

mod acks;
mod amplification;
mod arena;
mod budget;
#[expect(dead_code, reason = "what the bench of the same storms needs beside this")]
mod costs;
mod crypto;
mod fields;
mod frames;
mod handshakes;
mod hostile;
mod ids;
mod memory;
mod pacing;
mod paths;
mod requests;
mod resets;
mod servers;
mod sessions;
mod silence;
mod streams;
mod updates;
