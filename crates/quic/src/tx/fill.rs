use quickset_wire::Space;
use quickset_wire::frame::Frame;

use super::{Permit, Transmission};
use crate::packet::{FrameToken, LONGER_HEADER, PacketWriter};

impl Transmission<'_> {
    /// The frames of a packet, in order, each with its reason.
    pub(super) fn fill(&mut self, space: Space, w: &mut PacketWriter<'_>, permit: Permit) {
        // What arrived, first: loss detection at the other end waits for it, and it is small.
        let now = self.conn.common.now;
        // Packets that only acknowledge are lost without a word. A server that did not hear that its hello
        // has arrived repeats the front of it alone, and what is missing may never come. But whoever hears of
        // it first by the repetition takes the delay for a round trip (RFC 9002 §5.3): so not each probe has
        // one.
        let again = permit.probe
            && space != Space::Data
            && self.conn.common.side.is_client()
            && self.conn.link.path.recovery.pto_count() > 1;
        let told = self
            .conn
            .link
            .acks
            .get_mut(space)
            .is_some_and(|acks| acks.write(w, now) || again && acks.write_again(w, now));
        if told && space == Space::Data {
            if let Some(receive) = &mut self.conn.protect.receive {
                // FEC-38: beside each ACK while they are news.
                receive.write_acks(w, now, self.conn.link.path.recovery.rtt().smoothed());
            }
        }
        if !permit.data && !permit.probe {
            return;
        }
        // The handshake: nothing else goes anywhere before it is through.
        if let Some(stream) = self.conn.link.keys.stream(space) {
            stream.write(w, space);
        }
        // RFC 9000 §12.4, table 3: of what 0-RTT packets cannot carry, a client has nothing before the
        // handshake is through.
        if space == Space::Data {
            let mut view = self.conn.link.view(self.conn.common.now, self.conn.traffic.rate);
            if self.conn.link.keys.sends_early() {
                // Who waits for a whole packet waits for one with a long header.
                view.room = view.room.saturating_sub(LONGER_HEADER);
            }
            // An empty packet as large as this one holds what this one held when it was empty.
            view.room = view.room.max(w.len() + w.room());
            self.write_before_data(w, &view);
            let (protect, mut of) = self.conn.around();
            if protect.write_data(&mut of, w, &view, &mut self.plan) {
                self.conn.link.asks.ask_immediate();
            }
            self.write_behind_data(w, &view);
        }
        // FEC-52: what was held did not fit beside the ACK, and the probe is for it; but not one that is
        // small to get through.
        let waits =
            space == Space::Data && self.plan.repaired && !(permit.probe && self.conn.link.is_least());
        // A probe must be answered (RFC 9002 §6.2.4).
        if permit.probe && !waits && !w.is_eliciting() {
            w.put(&Frame::Ping, FrameToken::Nothing);
        }
    }
}
