//! What a connection gives back on which nothing moves.

use super::Connection;
use crate::ack::{Acks, Merged};
use crate::packet::Phase;

impl Connection {
    /// Gives back memory that is needed only while something moves: of what moved much all but a little,
    /// which the next little thing needs; and all, behind the handshake and when it was a timer that it slept
    /// until, so that it is no request after another.
    #[inline]
    pub(super) fn rest(&mut self) {
        let is_quiet = self.common.phase == Phase::Confirmed
            && self.link.path.recovery.in_flight() == 0
            && self.life.lifecycle.is_open();
        if is_quiet && (self.restless || self.swollen()) {
            self.give_back();
        }
    }

    /// Whether more was in flight than little things have.
    #[inline]
    fn swollen(&self) -> bool {
        self.scratch.settled.as_ref().is_some_and(|settled| settled.acked_packets.capacity() > LITTLE)
            || self.common.events.capacity() > LITTLE
            || self.traffic.streams.is_swollen()
    }

    #[cold]
    fn give_back(&mut self) {
        let most = if std::mem::take(&mut self.restless) { 0 } else { LITTLE };
        self.link.path.recovery.rest(most);
        self.scratch.settled = self.scratch.settled.take().filter(|_| most > 0);
        if let Some(settled) = &mut self.scratch.settled {
            settled.rest(most);
        }
        self.scratch.opened.shrink_to(most);
        self.scratch.recovered.shrink_to(most);
        self.unread.shrink_to(most);
        self.link.tokens.shrink_to(most);
        self.link.unsealed.shrink_to(most);
        self.common.events.shrink_to(most);
        self.common.signals.shrink_to(most);
        self.traffic.streams.rest();
        if most > 0 {
            return;
        }
        let [sent, received_ce] = self.link.end_handshake();
        self.common.stats.ecn.sent += sent;
        self.common.stats.ecn.received_ce += received_ce;
        self.common.ours = None;
        self.link.acks.iter_mut().for_each(Acks::rest);
        self.link.merged.iter_mut().for_each(Merged::rest);
        self.link.cids.rest();
        self.link.candidates.sleep();
        self.link.path.numbering.rest();
        self.link.keys.rest();
        self.life.confirmation.rest();
    }
}

/// Packets, or frames, of a batch that answers a question.
const LITTLE: usize = 16;
