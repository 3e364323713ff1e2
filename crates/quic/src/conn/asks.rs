use super::Connection;
use crate::ack::Course;
use crate::packet::Writer;

/// How often the peer is asked to acknowledge.
impl Connection {
    /// A received batch is through.
    #[inline]
    pub(crate) fn look_at_acks(&mut self) {
        if self.link.asks.end_batch(self.common.now, self.link.recovery.rtt().smoothed()) {
            let course = self.course();
            self.link.asks.look(&course);
        }
    }

    /// What requests depend on.
    pub(super) fn course(&self) -> Course {
        Course {
            now: self.common.now,
            srtt: self.link.recovery.rtt().smoothed(),
            window: self.link.path.congestion.control().window / self.link.path.mtu as u64,
            packet_threshold: self.link.recovery.packet_threshold(),
            protected: self.protect.send.waits(),
        }
    }

    /// ACK_FREQUENCY. Its parameter holds for no other connection, so it never goes into early data
    /// (draft-ietf-quic-ack-frequency §3).
    pub(crate) fn write_ask(&mut self, w: &mut Writer<'_>) {
        if self.link.keys.sends_early() {
            return;
        }
        let course = self.course();
        if self.link.asks.write(w, &course) {
            self.link.recovery.set_peer(self.link.asks.max_ack_delay());
        }
    }

    pub(super) fn ask_acked(&mut self, sequence: u64) {
        if self.link.asks.acked(sequence) {
            self.link.recovery.set_peer(self.link.asks.max_ack_delay());
        }
    }
}
