//! What those ask who decide about protection, and who keep tokens of lost symbols.

use quickset_base::Time;

use super::{Fin, Sender, Ticket};
use crate::streams::fenced::queue::State;

impl Sender {
    /// Bytes to send, for the first time or again.
    pub(crate) fn left(&self) -> u64 {
        self.unsent + self.flight.lost.bytes()
    }

    /// Messages pushed so far.
    pub(crate) fn pushed(&self) -> u64 {
        self.ring.ticket(self.ring.len())
    }

    /// Messages up to the first that was not sent to its end or dropped.
    pub(crate) fn begun_whole(&self) -> u64 {
        self.ring.ticket(self.ring.begun) - u64::from(!self.is_whole())
    }

    /// Fences that all messages before them were sent or dropped for.
    pub(crate) fn fences_passed(&self) -> u64 {
        let first = if self.is_whole() { self.ring.next() } else { self.ring.last_begun() };
        first.map_or(self.fences.segment, |record| record.segment)
    }

    /// A fence follows each message.
    pub(crate) fn is_ordered(&self) -> bool {
        self.fences.each
    }

    /// The end of the stream was sent, whatever became of it.
    pub(crate) fn fin_was_sent(&self) -> bool {
        matches!(self.ending.fin, Fin::Sent | Fin::Lost | Fin::Acked)
    }

    /// When a message has to be there that is not done with.
    pub(crate) fn deadline_of(&self, ticket: Ticket) -> Option<Time> {
        self.ring.index(ticket.0).and_then(|index| self.ring.get(index).due())
    }

    /// Deadlines of the messages that are neither done with nor superseded.
    pub(crate) fn promised(&self) -> impl Iterator<Item = (Time, Ticket)> + '_ {
        (0..self.ring.len()).filter_map(|index| {
            let record = self.ring.get(index);
            let open = matches!(record.state, State::Queued | State::Begun);
            record.due().filter(|_| open).map(|at| (at, Ticket(self.ring.ticket(index))))
        })
    }

    /// Verifies what must hold between calls.
    ///
    /// # Panics
    /// When it does not: a bug of ours.
    pub(crate) fn check(&self) {
        assert_eq!(self.unsent, self.to_begin(), "{self:?}");
    }

    /// Bytes never sent, counted the long way.
    pub(super) fn to_begin(&self) -> u64 {
        let rest = self.ring.last_begun().map_or(0, |last| last.end().saturating_sub(self.position));
        let queued = (self.ring.begun..self.ring.len()).map(|index| self.ring.get(index).size);
        queued.sum::<u64>() + rest
    }

    /// Something of a frame of `len` bytes from `offset` on would be sent again if it was lost at `now`.
    pub(crate) fn wants(&self, offset: u64, len: u64, fin: bool, now: Time) -> bool {
        if self.ending.reset {
            return false;
        }
        if len == 0 {
            return if fin { self.ending.fin != Fin::Acked } else { self.position == 0 };
        }
        let range = offset..offset + len;
        let wanted = |index| {
            let record = self.ring.get(index);
            let part = record.offset.max(range.start)..record.end().min(range.end);
            record.is_live() && !self.is_given_up(record, now) && self.flight.misses(part)
        };
        let records =
            (self.ring.at(offset)..self.ring.begun).take_while(|&i| self.ring.get(i).offset < range.end);
        (fin && self.ending.fin != Fin::Acked) || records.into_iter().any(wanted)
    }

    /// The ABANDON that begins at `offset` is on its way.
    pub(crate) fn abandons(&self, offset: u64) -> bool {
        !self.ending.reset && self.flight.flying.contains_key(&offset)
    }
}
