//! Connections over simulated links, with the null session: equal seeds give equal runs.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

mod acks;
mod common;
mod congestion;
mod connections;
mod datagrams;
mod early;
mod ecn;
mod extremes;
mod fec;
mod first;
mod messages;
mod migration;
mod mtu;
mod refusals;
mod silence;
mod transfer;
mod versions;
mod vigil;
