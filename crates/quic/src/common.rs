//! What all parts of a connection may know, and where they tell what is to be told beyond it.

use std::collections::VecDeque;
use std::sync::Arc;

use quickset_base::Time;
use quickset_wire::params::TransportParams;
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
use crate::stats::Stats;

/// The versions of `$common`, while its trace is written.
macro_rules! versions {
    ($common:expr) => {
        VersionFacts {
            side: $common.side,
            chosen: $common.version,
            ours: &$common.ours,
            peer: $common.peer.as_ref(),
        }
    };
}

/// Held by the connection, and lent to each owner for a call.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) side: Side,
    pub(crate) version: Version,
    pub(crate) config: Arc<TransportConfig>,
    pub(crate) phase: Phase,
    pub(crate) now: Time,
    /// What we announced.
    pub(crate) ours: Box<TransportParams>,
    /// What the peer announced, once that is authentic.
    pub(crate) peer: Option<TransportParams>,
    pub(crate) stats: Stats,
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
            ours,
            peer: None,
            stats: Stats::default(),
            events: VecDeque::new(),
            signals: VecDeque::new(),
            qlog: Qlog::none(),
        }
    }

    /// Tells the trace of the version in use, which is another one than it was.
    pub(crate) fn trace_version(&mut self) {
        self.qlog.version(self.now, versions!(self));
    }

    /// Tells the trace what the peer announced; with the sizes of datagrams before and behind that.
    pub(crate) fn trace_peer(&mut self, mtu_before: usize, mtu: usize) {
        self.qlog.peer(self.now, versions!(self), mtu_before, mtu);
    }

    /// Begins the trace, if the configuration has a sink for it.
    #[cfg(feature = "qlog")]
    pub(crate) fn begin_trace(&mut self, path: &Path, cids: &Cids, recovery: &Recovery) {
        let sinks = self.config.qlog.as_deref().map(|sinks| sinks as &dyn Sinks);
        let beginning = Beginning { versions: versions!(self), path, cids, recovery };
        self.qlog = Qlog::begin(sinks, self.now, &beginning);
    }

    /// Tells the trace of a packet, or a datagram of unknown content, that is dropped.
    pub(crate) fn trace_dropped(&mut self, kind: Option<PacketType>, size: usize, why: Why) {
        self.qlog.dropped(self.now, kind, size, why);
    }
}
