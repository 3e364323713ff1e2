//! How often the peer is asked to acknowledge.

use super::PacketLink;
use crate::ack::AskFacts;
use crate::common::Common;
use crate::packet::PacketWriter;

impl PacketLink {
    /// A received batch is through.
    #[inline]
    pub(crate) fn look_at_acks(&mut self, cx: &Common, protected: bool) {
        if self.asks.end_batch(cx.now, self.path.recovery.rtt().smoothed()) {
            let course = self.course(cx, protected);
            self.asks.look(&course);
        }
    }

    /// What requests depend on.
    pub(crate) fn course(&self, cx: &Common, protected: bool) -> AskFacts {
        AskFacts {
            now: cx.now,
            srtt: self.path.recovery.rtt().smoothed(),
            window: self.path.congestion.control().window / self.path.mtu as u64,
            packet_threshold: self.path.recovery.packet_threshold(),
            protected,
        }
    }

    /// ACK_FREQUENCY. Its parameter holds for no other connection, so it never goes into early data
    /// (draft-ietf-quic-ack-frequency §3).
    pub(crate) fn write_ask(&mut self, cx: &Common, w: &mut PacketWriter<'_>, protected: bool) {
        if self.keys.sends_early() {
            return;
        }
        let course = self.course(cx, protected);
        if self.asks.write(w, &course) {
            self.path.recovery.set_peer(self.asks.max_ack_delay());
        }
    }

    pub(crate) fn ask_acked(&mut self, sequence: u64) {
        if self.asks.acked(sequence) {
            self.path.recovery.set_peer(self.asks.max_ack_delay());
        }
    }
}
