//! A reset behind messages that arrive all the same (FS-60).

use super::{Fin, RecordSender, Ticket};
use crate::streams::fenced::queue::MessageState;

impl RecordSender {
    /// Gives up all messages behind one, but those that were begun before one that is to arrive; no more
    /// follow. All others go on as before.
    pub(crate) fn cut_behind(&mut self, last: Ticket) {
        let unsent = (self.ring.begun..self.ring.len()).map(|index| self.ring.get(index));
        let behind = unsent.filter(|record| record.state == MessageState::Queued && record.ticket > last.0);
        for ticket in behind.map(|record| record.ticket).collect::<Vec<_>>() {
            if let Some(index) = self.ring.index(ticket) {
                self.drop_unsent(index);
            }
        }
        let unsent = self.ring.begun..self.ring.len();
        let first = if unsent.into_iter().any(|index| self.ring.get(index).state == MessageState::Queued) {
            // What is begun lies before it.
            self.ring.len()
        } else {
            let kept = (0..self.ring.begun).rev().find(|index| self.ring.ticket(*index) <= last.0);
            kept.map_or(0, |index| index + 1)
        };
        for index in first..self.ring.len() {
            self.give_up(index);
        }
        let begun = (first < self.ring.begun).then(|| self.ring.get(first).offset);
        self.ring.truncate(first);
        if let Some(order) = &mut self.line.order {
            order.oldest = order.oldest.min(self.ring.pushed());
        }
        if let Some(start) = begun {
            // What was sent of them is as good as there. What was given up, and the peer not told, never was.
            self.line.open.retain(|rest| rest.offset < start);
            self.position = self.position.min(self.highest).max(start);
            self.flight.waiting.retain(|at, _| *at < start);
            self.flight.flying.retain(|at, _| *at < start);
            // Of those dropped unsent there is nothing.
            if start < self.position {
                self.flight.ack(start..self.position);
            }
        }
        self.unsent = self.to_begin();
        self.ending.open = false;
        self.ending.fin = Fin::None;
        self.ending.cut = Some(begun.unwrap_or(u64::MAX));
        self.tidy();
    }

    /// After [`cut_behind`](Self::cut_behind): where the last of the messages ends that are to arrive, once
    /// all of them were sent.
    pub(crate) fn reliable_size(&self) -> Option<u64> {
        let sent = self.ring.begun == self.ring.len() && self.is_whole() && self.position <= self.highest;
        self.ending.cut.filter(|_| sent).map(|size| size.min(self.position))
    }

    /// Likewise: the peer has all of them, or knows that they were given up.
    pub(crate) fn is_cut(&self) -> bool {
        let told = self.flight.waiting.is_empty() && self.flight.flying.is_empty();
        self.ending.cut.is_some()
            && told
            && self.flight.una() == self.position
            && self.ring.begun == self.ring.len()
    }
}
