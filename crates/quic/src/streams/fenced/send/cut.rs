//! A reset behind messages that arrive all the same (FS-60).

use super::{Fin, Outcome, Sender, Ticket};
use crate::streams::fenced::queue::State;

impl Sender {
    /// Gives up all messages behind one; no more follow. Up to it, all goes on as before.
    pub(crate) fn cut_behind(&mut self, last: Ticket) {
        let first = self.ring.behind(last.0);
        for index in first..self.ring.len() {
            if self.ring.get(index).state != State::Finished {
                self.finished(index, Outcome::Abandoned);
            }
        }
        let begun = (first < self.ring.begun).then(|| self.ring.get(first).offset);
        self.ring.truncate(first);
        if let Some(start) = begun {
            // What was sent of them is as good as there. What was given up, and the peer not told, never was.
            self.position = self.position.min(self.highest).max(start);
            self.flight.waiting.retain(|at, _| *at < start);
            self.flight.flying.retain(|at, _| *at < start);
            self.flight.ack(start..self.position);
        }
        self.unsent = self.to_begin();
        self.ending.open = false;
        self.ending.fin = Fin::None;
        self.ending.cut = Some(begun.unwrap_or(u64::MAX));
        self.tidy();
    }

    /// After [`cut_behind`](Self::cut_behind): where the last of the messages ends that are to arrive, once all of them were sent.
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
