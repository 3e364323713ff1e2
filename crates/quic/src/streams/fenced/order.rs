//! Who of a segment goes first: the message with the closest deadline that can still be met (FS-69).

use std::collections::BTreeMap;

use quickset_base::{Duration, Time};
use quickset_sched::{Deadlines, MessageId};

use super::queue::{MessageRecord, MessageState};

/// The messages of one segment of which something is yet to be sent for the first time: of the first that has
/// any.
///
/// A stream has it from its first message with a deadline on. What cannot be in time any more, as it seems,
/// is among those without one.
#[derive(Debug)]
pub(super) struct SegmentOrder {
    pub(super) segment: u64,
    /// By ticket.
    due: Deadlines<u64>,
    /// Of those not begun, how many have a size.
    sizes: BTreeMap<u64, u32>,
    /// All messages before it were sent to their end, or dropped.
    pub(super) oldest: u64,
}

impl SegmentOrder {
    pub(super) fn new(oldest: u64) -> Self {
        Self { segment: 0, due: Deadlines::new(), sizes: BTreeMap::new(), oldest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    /// Takes in a message of the segment, among those with a deadline if it has one that still counts.
    pub(super) fn insert(&mut self, record: &mut MessageRecord, counts: bool) {
        let due = record.due().filter(|_| counts).map(Time::as_nanos);
        record.turn = Some(self.due.insert(record.ticket, due, record.size));
        if record.state == MessageState::Queued {
            *self.sizes.entry(record.size).or_default() += 1;
        }
    }

    /// Nothing of a message is to be sent for the first time any more.
    pub(super) fn remove(&mut self, record: &mut MessageRecord) {
        let Some(turn) = record.turn.take() else { return };
        self.due.remove(turn);
        if record.state == MessageState::Queued {
            self.begun(record.size);
        }
    }

    /// A message of this size is not among those that were not begun any more.
    pub(super) fn begun(&mut self, size: u64) {
        if let Some(count) = self.sizes.get_mut(&size) {
            *count -= 1;
            if *count == 0 {
                self.sizes.remove(&size);
            }
        }
    }

    /// The shortest and the longest message that was not begun.
    pub(super) fn sizes(&self) -> Option<(u64, u64)> {
        let (shortest, _) = self.sizes.first_key_value()?;
        let (longest, _) = self.sizes.last_key_value()?;
        Some((*shortest, *longest))
    }

    /// One that cannot be in time any more: it is taken out.
    pub(super) fn expire(&mut self, now: Time, one_way: Duration) -> Option<u64> {
        self.due.expire(now.as_nanos(), nanos(one_way)).map(|message| message.key)
    }

    /// The ticket of the message that goes next, of those that may.
    pub(super) fn next(
        &mut self,
        now: Time,
        one_way: Duration,
        mut may: impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        let id: MessageId = self.due.next(now.as_nanos(), nanos(one_way), |ticket| may(*ticket))?;
        self.due.get(id).map(|message| message.key)
    }

    /// It is among those with a deadline.
    pub(super) fn is_due(&self, record: &MessageRecord) -> bool {
        record.turn.and_then(|turn| self.due.get(turn)).is_some_and(|message| message.deadline.is_some())
    }

    /// How many messages of each size are not begun, for a check.
    pub(super) fn counted(&self) -> &BTreeMap<u64, u32> {
        &self.sizes
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
