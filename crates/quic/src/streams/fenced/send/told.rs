//! What became of messages, each and all together.

use std::collections::VecDeque;

use bytes::Bytes;
use quickset_base::Time;

use super::{Outcome, RecordSender, Ticket};
use crate::streams::fenced::queue::MessageState;

/// What the messages of one stream have come to so far, as far as acknowledgements tell. Cheap to ask for at
/// any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageStats {
    /// Messages handed over for sending, and the bytes of their payloads.
    pub queued: u64,
    /// See [`queued`](Self::queued).
    pub queued_bytes: u64,
    /// Of those: begun, that is, the first byte of them was sent.
    pub sent: u64,
    /// Arrived by their deadlines, or without one. An acknowledged message is taken to have arrived as long
    /// before its acknowledgement as the way takes at least, so that one that is acknowledged late may count
    /// as late.
    pub on_time: u64,
    /// Arrived, but later than their deadlines.
    pub late: u64,
    /// Of those that arrived: some needed repair symbols for it.
    pub recovered: u64,
    /// Bytes of the payloads that arrived.
    pub arrived_bytes: u64,
    /// Dropped before anything of them was sent.
    pub dropped: u64,
    /// Given up after a part of them was sent.
    pub abandoned: u64,
}

/// A message that was settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettledMessage {
    pub(crate) ticket: Ticket,
    pub(crate) outcome: Outcome,
    pub(crate) deadline: Option<Time>,
    /// It was too late, or too late to be sent, though nothing of it was lost: there was no room in time.
    pub(crate) crowded_out: bool,
    /// Something of it was lost, though it may have been recovered.
    pub(crate) hit: bool,
}

/// What the application is told.
#[derive(Debug, Default)]
pub(super) struct OutcomesTold {
    outcomes: VecDeque<SettledMessage>,
    pub(super) stats: MessageStats,
    /// When something was last heard or sent.
    pub(super) now: Time,
}

impl RecordSender {
    /// What the messages have come to so far.
    pub(crate) fn stats(&self) -> MessageStats {
        self.told.stats
    }

    /// It is this late, for the [statistics](Self::stats).
    pub(crate) fn set_now(&mut self, now: Time) {
        self.told.now = now;
    }

    /// What became of a message, once for each.
    pub(crate) fn next_settled(&mut self) -> Option<SettledMessage> {
        self.told.outcomes.pop_front()
    }

    /// What became of a message, once for each.
    #[cfg(test)]
    pub(crate) fn next_outcome(&mut self) -> Option<(Ticket, Outcome)> {
        self.next_settled().map(|settled| (settled.ticket, settled.outcome))
    }

    /// With the stream.
    pub(super) fn give_up(&mut self, index: usize) {
        match self.ring.get(index).state {
            MessageState::Queued => self.finished(index, Outcome::Dropped),
            MessageState::Begun | MessageState::Superseded => self.finished(index, Outcome::Abandoned),
            MessageState::Finished => {}
        }
    }

    /// FS-56: once for each message.
    pub(super) fn finished(&mut self, index: usize, outcome: Outcome) {
        let record = self.ring.get_mut(index);
        if let Some(order) = &mut self.line.order {
            order.remove(record);
        }
        let (arrived, leaves) = (self.told.now - self.one_way, self.told.now + self.one_way);
        let is_there = matches!(outcome, Outcome::Delivered | Outcome::Recovered);
        let hit = record.missed || record.recovered;
        let late = if is_there { arrived > record.deadline } else { leaves > record.deadline };
        self.told.outcomes.push_back(SettledMessage {
            ticket: Ticket(record.ticket),
            outcome,
            deadline: record.due(),
            crowded_out: late && !hit,
            hit,
        });
        let stats = &mut self.told.stats;
        match outcome {
            Outcome::Delivered | Outcome::Recovered => {
                *(if late { &mut stats.late } else { &mut stats.on_time }) += 1;
                stats.recovered += u64::from(outcome == Outcome::Recovered);
                stats.arrived_bytes += record.payload.len() as u64;
            }
            Outcome::Dropped => stats.dropped += 1,
            Outcome::Abandoned => stats.abandoned += 1,
        }
        record.state = MessageState::Finished;
        record.payload = Bytes::new();
        self.queued -= record.size;
    }
}
