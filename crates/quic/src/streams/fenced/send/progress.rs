//! What those ask who decide about protection, and who keep tokens of lost symbols.

use std::collections::BTreeMap;

use quickset_base::Time;

use super::next::{MAX_OPEN, Rest};
use super::{Fin, RecordMode, RecordSender, Ticket};
use crate::streams::fenced::queue::{MessageRecord, MessageState, UNSENT};

impl RecordSender {
    /// Bytes to send, for the first time or again.
    pub(crate) fn left(&self) -> u64 {
        self.unsent + self.flight.lost.bytes()
    }

    /// Messages pushed so far.
    pub(crate) fn pushed(&self) -> u64 {
        self.ring.pushed()
    }

    /// Messages up to the first that was not sent to its end or dropped.
    pub(crate) fn begun_whole(&self) -> u64 {
        match (&self.line.order, self.line.open.first()) {
            (Some(order), _) => order.oldest,
            (None, Some(rest)) => rest.ticket,
            (None, None) => self.ring.next().map_or(self.ring.pushed(), |record| record.ticket),
        }
    }

    /// Fences that all messages before them were sent or dropped for.
    pub(crate) fn fences_passed(&self) -> u64 {
        let open = self.line.open.first().and_then(|rest| self.ring.index(rest.ticket));
        let first = open.map(|index| self.ring.get(index)).or_else(|| self.ring.next());
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
            let open = matches!(record.state, MessageState::Queued | MessageState::Begun);
            record.due().filter(|_| open).map(|at| (at, Ticket(self.ring.ticket(index))))
        })
    }

    /// Verifies what must hold between calls.
    ///
    /// # Panics
    /// When it does not: a bug of ours.
    pub(crate) fn check(&self) {
        assert_eq!(self.unsent, self.to_begin(), "{self:?}");
        self.ring.check();
        self.check_line();
    }

    /// The messages in line are those of which something was never sent, of the first segment that has any.
    fn check_line(&self) {
        let records = || (0..self.ring.len()).map(|index| self.ring.get(index));
        let open = &self.line.open;
        let rest = |record: &MessageRecord| open.iter().find(|rest| rest.ticket == record.ticket);
        for record in records().filter_map(|record| rest(record).map(|rest| (record, rest))) {
            let (record, Rest { offset, next, .. }) = record;
            assert!(record.is_live() && record.offset == *offset, "{self:?}");
            assert!((record.offset + 1..record.end()).contains(next), "{self:?}");
        }
        let holes = open.iter().rev().skip(1);
        assert!(holes.clone().all(|rest| rest.next < self.highest), "a hole is within credit: {self:?}");
        assert!(records().all(|record| record.offset == UNSENT || record.end() <= self.position));
        let waits = |record: &MessageRecord| record.state == MessageState::Queued || rest(record).is_some();
        let first = records().find(|record| waits(record)).map(|record| record.segment);
        assert!(open.len() <= MAX_OPEN && (self.mode == RecordMode::Frames || open.len() <= 1));
        let Some(order) = &self.line.order else {
            return assert!(open.len() <= 1 && records().all(|record| record.turn.is_none()));
        };
        let mut sizes = BTreeMap::new();
        let mut waiting = 0;
        for record in records() {
            let in_turn = waits(record) && Some(record.segment) == first;
            assert_eq!(record.turn.is_some(), in_turn, "{record:?} of {self:?}");
            waiting += usize::from(in_turn);
            if in_turn && record.state == MessageState::Queued {
                *sizes.entry(record.size).or_insert(0u32) += 1;
            }
        }
        assert!(waiting == 0 || Some(order.segment) == first);
        assert_eq!((order.len(), order.counted()), (waiting, &sizes), "{self:?}");
        let oldest = records().filter(|record| waits(record)).map(|record| record.ticket).min();
        assert_eq!(order.oldest, oldest.unwrap_or(self.ring.pushed()), "{self:?}");
    }

    /// Messages that are kept.
    #[cfg(test)]
    pub(crate) fn records(&self) -> usize {
        self.ring.len()
    }

    /// Deadlines that are kept.
    #[cfg(test)]
    pub(crate) fn deadlines(&self) -> usize {
        self.deadlines.len()
    }

    /// Bytes never sent, counted the long way.
    pub(super) fn to_begin(&self) -> u64 {
        let rest = self.line.open.iter().filter_map(|rest| {
            let record = self.ring.get(self.ring.index(rest.ticket)?);
            Some(record.end() - rest.next)
        });
        let queued = (self.ring.begun..self.ring.len()).map(|index| self.ring.get(index).size);
        queued.chain(rest).sum()
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
