//! A client and a server of HTTP/3 on a connection in memory, and one of them against a peer that breaks
//! rules.

#![expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")]

mod aioquic;
mod exchanges;
mod net;
mod priorities;
mod random;
mod rules;
mod sessions;
mod waiting;
