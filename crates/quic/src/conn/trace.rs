use bytes::Bytes;
use quickset_wire::PacketType;

use super::Connection;
use crate::error::Closed;
use crate::qlog::{EndingFacts, PathState, Received};

/// What the trace is told of several parts together.
impl Connection {
    /// The path as it stands, where it has changed.
    #[inline]
    pub(crate) fn trace_metrics(&mut self, persistent: bool) {
        let Self { common, link, protect, .. } = self;
        if common.qlog.is_on() {
            let (algorithm, fec) = (&common.config.congestion, protect.stats());
            let (path, recovery) = (&link.path, &link.path.recovery);
            common.qlog.metrics(common.now, &PathState { path, recovery, algorithm, fec, persistent });
        }
    }

    /// A packet of `size` bytes was opened, and its frames are about to act.
    #[inline]
    pub(crate) fn trace_received(&mut self, kind: PacketType, number: u64, size: usize, payload: &Bytes) {
        let Self { common, link, .. } = self;
        if common.qlog.is_on() {
            let (source, updates) = (link.peer_cid, link.keys.updates());
            let (version, peer) = (common.version, common.peer.as_ref().map(|peer| peer.ack_delay_exponent));
            let packet = Received { kind, number, version, source, updates, peer };
            common.qlog.received(common.now, &packet, payload, size);
        }
    }

    /// The connection is over.
    pub(crate) fn trace_over(&mut self, why: &Closed) {
        let Self { common, life, protect, .. } = self;
        let (phase, lifecycle, fec) = (common.phase, &life.lifecycle, protect.stats());
        common.qlog.over(common.now, EndingFacts { why, lifecycle, phase, fec });
    }
}

/// What a protocol above has to tell: the same trace, on the same clock.
#[cfg(feature = "qlog")]
impl Connection {
    /// Whether the connection leaves a trace.
    pub fn is_traced(&self) -> bool {
        self.common.qlog.is_on()
    }

    /// Writes an event of the application's protocol into the trace, if there is one. `name` is
    /// `category:event`; who writes it sees to it that `data` holds no secrets and is of bounded size.
    pub fn trace(&mut self, now: quickset_base::Time, name: &'static str, data: &impl serde::Serialize) {
        self.common.qlog.above(now, name, data);
    }
}
