//! Traces of connections for qvis and other viewers: qlog 0.3, as a JSON text sequence (RFC 7464).
//!
//! *In:* what the owners of a connection say of packets, losses, keys and its life, one call at each
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

#[cfg(feature = "qlog")]
mod begin;
#[cfg(feature = "qlog")]
mod extension;
mod facts;
#[cfg(feature = "qlog")]
mod frame;
#[cfg(feature = "qlog")]
mod hooks;
#[cfg(feature = "qlog")]
mod life;
#[cfg(feature = "qlog")]
mod log;
#[cfg(feature = "qlog")]
mod metrics;
#[cfg(feature = "qlog")]
mod network;
#[cfg(not(feature = "qlog"))]
mod off;
#[cfg(feature = "qlog")]
mod repair;

#[cfg(feature = "qlog")]
pub use crate::sinks::{Memory, Output, Sinks, Subject, WrittenTrace};

#[cfg(feature = "qlog")]
pub(crate) use facts::Beginning;
pub(crate) use facts::{EndingFacts, PathState, Received, SendingFacts, VersionFacts, Why};
#[cfg(feature = "qlog")]
pub(crate) use log::Qlog;
#[cfg(not(feature = "qlog"))]
pub(crate) use off::Qlog;
