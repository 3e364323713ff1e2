//! What a trace is told, whether there is one or not.
#![cfg_attr(not(feature = "qlog"), expect(dead_code, reason = "nobody reads it"))]

use quickset_wire::{ConnectionId, PacketType, Side, TransportParams, Version};

use crate::Algorithm;
use crate::cids::Cids;
use crate::error::Closed;
use crate::life::Lifecycle;
use crate::packet::{Phase, Unsealed};
use crate::path::Path;
use crate::recovery::Recovery;
use crate::stats::FecStats;

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It came from an address that is not the peer's.
    Address,
    /// It does not open, or its keys are gone.
    Unreadable,
    /// It came twice.
    Duplicate,
    /// Its source is not the peer's id.
    Source,
    /// There is no memory for what it brings.
    Unpaid,
    /// It asks for more work than the peer's packets have earned.
    Unearned,
}

/// The header of a packet that is sent, and why it is.
#[derive(Clone, Copy)]
pub(crate) struct SendingFacts<'a> {
    pub(crate) at: &'a Unsealed,
    pub(crate) version: Version,
    pub(crate) remote: &'a ConnectionId,
    pub(crate) local: &'a ConnectionId,
    /// It has 0-RTT keys.
    pub(crate) early: bool,
    /// How long the token is that it shows.
    pub(crate) token: usize,
    /// Key updates so far.
    pub(crate) updates: u64,
    /// A probe timeout is the reason for it.
    pub(crate) probe: bool,
}

/// The header of a packet that came.
#[derive(Clone, Copy)]
pub(crate) struct Received {
    pub(crate) kind: PacketType,
    pub(crate) number: u64,
    pub(crate) version: Version,
    /// The peer's id, if it has said so.
    pub(crate) source: Option<ConnectionId>,
    pub(crate) updates: u64,
    /// The ack_delay_exponent that the peer announced, once that is known.
    pub(crate) peer: Option<u8>,
}

/// What a trace begins with.
pub(crate) struct Beginning<'a> {
    pub(crate) versions: VersionFacts<'a>,
    pub(crate) path: &'a Path,
    pub(crate) cids: &'a Cids,
    pub(crate) recovery: &'a Recovery,
}

/// The version in use, and what each side announced, as far as that is known.
#[derive(Clone, Copy)]
pub(crate) struct VersionFacts<'a> {
    pub(crate) side: Side,
    pub(crate) chosen: Version,
    pub(crate) ours: &'a TransportParams,
    pub(crate) peer: Option<&'a TransportParams>,
}

/// How a connection ends.
#[derive(Clone, Copy)]
pub(crate) struct EndingFacts<'a> {
    pub(crate) why: &'a Closed,
    pub(crate) lifecycle: &'a Lifecycle,
    pub(crate) phase: Phase,
    pub(crate) fec: FecStats,
}

/// What there is to know of the path in use.
#[derive(Clone, Copy)]
pub(crate) struct PathState<'a> {
    pub(crate) path: &'a Path,
    pub(crate) recovery: &'a Recovery,
    pub(crate) algorithm: &'a Algorithm,
    pub(crate) fec: FecStats,
    /// Persistent congestion has just been found.
    pub(crate) persistent: bool,
}
