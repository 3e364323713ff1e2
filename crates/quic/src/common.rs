//! What all parts of a connection may know, and where they tell what is to be told beyond it.

use std::collections::VecDeque;
use std::sync::Arc;

use quickset_base::Time;
use quickset_wire::params::{PreferredAddress, TransportParams};
use quickset_wire::{PacketType, Side, Version};

#[cfg(feature = "qlog")]
use crate::cids::Cids;
use crate::config::TransportConfig;
use crate::event::{Event, Signal};
use crate::packet::Phase;
#[cfg(feature = "qlog")]
use crate::path::Path;
#[cfg(feature = "qlog")]
use crate::qlog::{Beginning, Sinks};
use crate::qlog::{Qlog, VersionFacts, Why};
#[cfg(feature = "qlog")]
use crate::recovery::Recovery;
use crate::stats::CountedStats;

/// The versions of `$common`, while its trace is written, and what the `$peer` announced.
macro_rules! versions {
    ($common:expr, $ours:expr, $peer:expr) => {
        VersionFacts { side: $common.side, chosen: $common.version, ours: $ours, peer: $peer }
    };
}

/// What the peer announced, as far as it is asked for behind the handshake.
#[derive(Clone, Debug)]
pub(crate) struct PeerFacts {
    pub(crate) max_udp_payload_size: u64,
    pub(crate) ack_delay_exponent: u8,
    pub(crate) disable_active_migration: bool,
    pub(crate) has_fenced_streams: bool,
    pub(crate) has_fec: bool,
    pub(crate) preferred_address: Option<Box<PreferredAddress>>,
}

impl From<&TransportParams> for PeerFacts {
    fn from(params: &TransportParams) -> Self {
        Self {
            max_udp_payload_size: params.max_udp_payload_size,
            ack_delay_exponent: params.ack_delay_exponent,
            disable_active_migration: params.disable_active_migration,
            has_fenced_streams: params.fenced_streams.is_some(),
            has_fec: params.fec_decoder.is_some(),
            preferred_address: params.preferred_address.map(Box::new),
        }
    }
}

/// Held by the connection, and lent to each owner for a call.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) side: Side,
    pub(crate) version: Version,
    pub(crate) config: Arc<TransportConfig>,
    pub(crate) phase: Phase,
    pub(crate) now: Time,
    /// What we announced, until the handshake is confirmed.
    pub(crate) ours: Option<Box<TransportParams>>,
    /// What the peer announced, once that is authentic.
    pub(crate) peer: Option<PeerFacts>,
    pub(crate) stats: CountedStats,
    /// What waits for the application.
    pub(crate) events: VecDeque<Event>,
    /// What waits for the endpoint.
    pub(crate) signals: VecDeque<Signal>,
    pub(crate) qlog: Qlog,
}

impl Common {
    pub(crate) fn new(
        side: Side,
        version: Version,
        config: Arc<TransportConfig>,
        ours: Box<TransportParams>,
        now: Time,
    ) -> Self {
        Self {
            side,
            version,
            config,
            phase: Phase::Handshake,
            now,
            ours: Some(ours),
            peer: None,
            stats: CountedStats::default(),
            events: VecDeque::new(),
            signals: VecDeque::new(),
            qlog: Qlog::none(),
        }
    }

    /// Tells the trace of the version in use, which is another one than it was.
    pub(crate) fn trace_version(&mut self) {
        if let Some(ours) = &self.ours {
            self.qlog.version(self.now, versions!(self, ours, None));
        }
    }

    /// Tells the trace what the peer announced; with the sizes of datagrams before and behind that.
    pub(crate) fn trace_peer(&mut self, peer: &TransportParams, mtu_before: usize, mtu: usize) {
        if let Some(ours) = &self.ours {
            self.qlog.peer(self.now, versions!(self, ours, Some(peer)), mtu_before, mtu);
        }
    }

    /// Begins the trace, if the configuration has a sink for it.
    #[cfg(feature = "qlog")]
    pub(crate) fn begin_trace(&mut self, path: &Path, cids: &Cids, recovery: &Recovery) {
        let sinks = self.config.qlog.as_deref().map(|sinks| sinks as &dyn Sinks);
        let Some(ours) = &self.ours else { return };
        let beginning = Beginning { versions: versions!(self, ours, None), path, cids, recovery };
        self.qlog = Qlog::begin(sinks, self.now, &beginning);
    }

    /// Tells the trace of a packet, or a datagram of unknown content, that is dropped.
    pub(crate) fn trace_dropped(&mut self, kind: Option<PacketType>, size: usize, why: Why) {
        self.qlog.dropped(self.now, kind, size, why);
    }
}
