use quickset_wire::Space;
use quickset_wire::frame::Frame;

use super::{BatchPlan, Permit};
use crate::conn::Connection;
use crate::packet::{FrameToken, LONGER_HEADER, PacketWriter};

impl Connection {
    /// The frames of a packet, in order, each with its reason.
    pub(super) fn fill(
        &mut self,
        space: Space,
        w: &mut PacketWriter<'_>,
        permit: Permit,
        plan: &mut BatchPlan,
    ) {
        // What arrived, first: loss detection at the other end waits for it, and it is small.
        if self.link.acks[space.index()].write(w, self.common.now) && space == Space::Data {
            if let Some(receive) = &mut self.protect.receive {
                // FEC-38: beside each ACK while they are news.
                receive.write_acks(w, self.common.now, self.link.path.recovery.rtt().smoothed());
            }
        }
        if !permit.data && !permit.probe {
            return;
        }
        // The handshake: nothing else goes anywhere before it is through.
        self.link.keys.stream(space).write(w, space);
        // RFC 9000 §12.4, table 3: of what 0-RTT packets cannot carry, a client has nothing before the
        // handshake is through.
        if space == Space::Data {
            let mut view = self.link.view(self.common.now, self.traffic.rate);
            if self.link.keys.sends_early() {
                // Who waits for a whole packet waits for one with a long header.
                view.room = view.room.saturating_sub(LONGER_HEADER);
            }
            // An empty packet as large as this one holds what this one held when it was empty.
            view.room = view.room.max(w.len() + w.room());
            self.write_before_data(w, &view);
            let (protect, mut of) = self.around();
            if protect.write_data(&mut of, w, &view, plan) {
                self.link.asks.ask_immediate();
            }
            self.write_behind_data(w, &view);
        }
        // FEC-52: what was held did not fit beside the ACK, and the probe is for it; but not one that is
        // small to get through.
        let waits = space == Space::Data && plan.repaired && !(permit.probe && self.link.is_least());
        // A probe must be answered (RFC 9002 §6.2.4).
        if permit.probe && !waits && !w.is_eliciting() {
            w.put(&Frame::Ping, FrameToken::Nothing);
        }
    }
}
