//! Without the feature `qlog` connections leave no traces, and the calls that would tell of them are nothing.
#![expect(clippy::unused_self, clippy::needless_pass_by_ref_mut, reason = "the other half does something")]

use quickset_base::Time;
use quickset_wire::{ConnectionId, PacketType, Space, Version};

use super::{EndingFacts, PathState, Received, SendingFacts, VersionFacts, Why};
use crate::keys::{HandshakeProgress, KeyRing};
use crate::path::Path;
use crate::recovery::{Recovery, SettledPackets};

/// No trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Qlog;

impl Qlog {
    pub(crate) const fn none() -> Self {
        Self
    }
    #[inline]
    pub(crate) const fn is_on(self) -> bool {
        false
    }
    #[inline]
    pub(crate) fn version(&mut self, _now: Time, _versions: VersionFacts<'_>) {}
    #[inline]
    pub(crate) fn peer(&mut self, _now: Time, _versions: VersionFacts<'_>, _before: usize, _mtu: usize) {}
    #[inline]
    pub(crate) fn size(&mut self, _now: Time, _before: usize, _path: &Path) {}
    #[inline]
    pub(crate) fn sent(&mut self, _now: Time, _packet: &SendingFacts<'_>, _payload: &[u8], _len: usize) {}
    #[inline]
    pub(crate) fn received(&mut self, _now: Time, _packet: &Received, _payload: &[u8], _size: usize) {}
    #[inline]
    pub(crate) fn buffered(&mut self, _now: Time, _kind: PacketType, _size: usize) {}
    #[inline]
    pub(crate) fn dropped(&mut self, _now: Time, _kind: Option<PacketType>, _size: usize, _why: Why) {}
    #[inline]
    pub(crate) fn retry(
        &mut self,
        _now: Time,
        _version: Version,
        _scid: &ConnectionId,
        _token: usize,
        _size: usize,
    ) {
    }
    #[inline]
    pub(crate) fn lost(
        &mut self,
        _now: Time,
        _space: Space,
        _settled: &SettledPackets,
        _recovery: &Recovery,
    ) {
    }
    #[inline]
    pub(crate) fn probe(&mut self, _now: Time, _space: Space) {}
    #[inline]
    pub(crate) fn metrics(&mut self, _now: Time, _state: &PathState<'_>) {}
    #[inline]
    pub(crate) fn recovered(&mut self, _now: Time, _session: u64, _sid: u64) {}
    #[inline]
    pub(crate) fn progress(&mut self, _now: Time, _progress: HandshakeProgress, _keys: &KeyRing) {}
    #[inline]
    pub(crate) fn path(&mut self, _now: Time, _path: &Path) {}
    #[inline]
    pub(crate) fn confirmed(&mut self, _now: Time) {}
    #[inline]
    pub(crate) fn discarded(&mut self, _now: Time, _space: Space) {}
    #[inline]
    pub(crate) fn over(&mut self, _now: Time, _ending: EndingFacts<'_>) {}
    #[inline]
    pub(crate) fn drained(&mut self, _now: Time) {}
    #[inline]
    pub(crate) fn rest(&mut self, _now: Time, _until: Option<Time>) {}
}
