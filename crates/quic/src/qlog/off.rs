//! Without the feature `qlog` connections leave no traces, and the calls that would tell of them are nothing.
#![expect(clippy::unused_self, clippy::needless_pass_by_ref_mut, reason = "the other half does something")]

use quickset_base::Time;
use quickset_wire::{ConnectionId, PacketType, Space};

use crate::conn::Connection;
use crate::error::Closed;
use crate::keys::Progress;
use crate::packet::Unsealed;
use crate::recovery::Settled;

/// No trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Qlog;

impl Qlog {
    pub(crate) const fn none() -> Self {
        Self
    }
}

/// See the other half.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    Address,
    Unreadable,
    Duplicate,
    Source,
    Unpaid,
    Unearned,
}

impl Connection {
    #[inline]
    pub(crate) fn log_begin(&mut self) {
        let Qlog = self.common.qlog;
    }
    #[inline]
    pub(crate) fn log_version(&mut self) {}
    #[inline]
    pub(crate) fn log_peer(&mut self, _mtu: usize) {}
    #[inline]
    pub(crate) fn log_size(&mut self, _before: usize) {}
    #[inline]
    pub(crate) fn log_sent(&mut self, _at: &Unsealed, _payload: &[u8], _len: usize) {}
    #[inline]
    pub(crate) fn log_received(&mut self, _kind: PacketType, _number: u64, _size: usize, _payload: &[u8]) {}
    #[inline]
    pub(crate) fn log_buffered(&mut self, _kind: PacketType, _size: usize) {}
    #[inline]
    pub(crate) fn log_dropped(&mut self, _kind: Option<PacketType>, _size: usize, _why: Why) {}
    #[inline]
    pub(crate) fn log_retry(&mut self, _scid: &ConnectionId, _token: usize, _size: usize) {}
    #[inline]
    pub(crate) fn log_lost(&mut self, _space: Space, _settled: &Settled) {}
    #[inline]
    pub(crate) fn log_probe(&mut self, _space: Space) {}
    #[inline]
    pub(crate) fn log_metrics(&mut self, _persistent: bool) {}
    #[inline]
    pub(crate) fn log_recovered(&mut self, _session: u64, _sid: u64) {}
    #[inline]
    pub(crate) fn log_progress(&mut self, _progress: Progress) {}
    #[inline]
    pub(crate) fn log_path(&mut self) {}
    #[inline]
    pub(crate) fn log_confirmed(&mut self) {}
    #[inline]
    pub(crate) fn log_discarded(&mut self, _space: Space) {}
    #[inline]
    pub(crate) fn log_over(&mut self, _why: &Closed) {}
    #[inline]
    pub(crate) fn log_drained(&mut self) {}
    #[inline]
    pub(crate) fn log_rest(&mut self, _until: Option<Time>) {}
}
