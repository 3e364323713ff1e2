//! Traces of connections for qvis and other viewers: qlog 0.3, as a JSON text sequence (RFC 7464).
//!
//! *In:* what `conn`, `rx` and `tx` say of packets, losses, keys and the connection's life, one call at each
//! place (`hooks`). *Out:* one record for each event, written whole, to where the configuration's [`Sinks`]
//! say.
//!
//! Nothing here opens a file or reads a clock: the sinks do the one, and the times are the connection's. The
//! version is not the newest draft but the one that qvis loads; the data model is that of the crate `qlog`,
//! whose own streamer would read the clock.
//!
//! Invariants: a trace tells nothing that has to stay secret: no keys, no stateless reset tokens, of address
//! validation tokens the length, of streams no data; what a peer sends makes a record of bounded size;
//! whoever fails to take a record gets no other, and the connection goes on.

mod above;
mod begin;
mod extension;
mod frame;
mod hooks;
mod life;
mod log;
mod metrics;
mod network;
mod repair;

pub use crate::sinks::{Memory, Output, Sinks, Subject, Written};

pub(crate) use hooks::Why;
pub(crate) use log::Qlog;
