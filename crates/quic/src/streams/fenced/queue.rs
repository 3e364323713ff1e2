use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use quickset_base::number::index;
use quickset_base::{Duration, Time};
use quickset_sched::MessageId;
use quickset_wire as wire;

use super::ranges::RecordRanges;
use super::record::prefix_size;

/// A message on its way.
#[derive(Debug)]
pub(super) struct MessageRecord {
    pub(super) ticket: u64,
    /// Where it begins on the stream; [`UNSENT`] until its first byte is sent (FS-19).
    pub(super) offset: u64,
    /// The last fence at or before it, likewise.
    pub(super) fence: u64,
    /// Number of its segment in the order of `fence` calls.
    pub(super) segment: u64,
    /// [`Time::MAX`] for none.
    pub(super) deadline: Time,
    pub(super) payload: Bytes,
    /// Bytes on the stream, prefix included; 0 once it was dropped unsent.
    pub(super) size: u64,
    pub(super) prefix: u8,
    pub(super) state: MessageState,
    /// Its place in the [`Order`](super::order::SegmentOrder), while it has one.
    pub(super) turn: Option<MessageId>,
    /// Something of it arrived by recovery alone.
    pub(super) recovered: bool,
    /// Something of it was lost.
    pub(super) missed: bool,
}

/// Section 14 of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageState {
    /// Nothing was sent.
    Queued,
    /// The first byte was sent.
    Begun,
    /// Begun, and something newer takes its place: what is lost of it is given up.
    Superseded,
    /// Acknowledged, dropped or abandoned.
    Finished,
}

impl MessageRecord {
    pub(super) fn new(payload: Bytes, segment: u64, deadline: Option<Time>) -> Self {
        let prefix = prefix_size(payload.len() as u64);
        Self {
            ticket: 0,
            offset: UNSENT,
            fence: UNSENT,
            segment,
            deadline: deadline.unwrap_or(Time::MAX),
            size: u64::from(prefix) + payload.len() as u64,
            payload,
            prefix,
            state: MessageState::Queued,
            turn: None,
            recovered: false,
            missed: false,
        }
    }

    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }

    #[inline]
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.end()
    }

    pub(super) fn due(&self) -> Option<Time> {
        (self.deadline != Time::MAX).then_some(self.deadline)
    }

    /// Begun and not finished.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, MessageState::Begun | MessageState::Superseded)
    }

    /// It would come too late if it left at `now` (FS-54, FS-55).
    pub(super) fn is_late(&self, now: Time, one_way: Duration) -> bool {
        self.deadline != Time::MAX && now + one_way > self.deadline
    }

    /// Writes what lies in `range` of it. A range never begins or ends inside the prefix.
    pub(super) fn write(&self, range: Range<u64>, out: &mut wire::Writer<'_>) {
        let body = self.offset + u64::from(self.prefix);
        let start = range.start.max(self.offset);
        let end = range.end.min(self.end());
        if start == self.offset {
            out.varint(self.size - u64::from(self.prefix));
        }
        debug_assert!(end >= body && (start == self.offset || start >= body), "FS-16");
        out.bytes(&self.payload[index(start.max(body) - body)..index(end - body)]);
    }
}

/// What the peer has, and what it must get again.
#[derive(Debug, Default)]
pub(super) struct MessageFlight {
    /// Everything below is acknowledged, or given up with the peer's knowledge.
    una: u64,
    /// The same for bytes above `una`.
    acked: RecordRanges,
    /// What to send again.
    pub(super) lost: RecordRanges,
    /// ABANDON frames to send, by range.
    pub(super) waiting: BTreeMap<u64, u64>,
    /// ABANDON frames that were sent.
    pub(super) flying: BTreeMap<u64, u64>,
}

impl MessageFlight {
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Acknowledged runs above the lowest offset that is not.
    pub(super) fn acked_runs(&self) -> usize {
        self.acked.len()
    }

    /// The peer has `range`; returns the acknowledged run that holds it now.
    pub(super) fn ack(&mut self, range: Range<u64>) -> Range<u64> {
        self.lost.remove(range.clone());
        if range.end <= self.una {
            return 0..self.una;
        }
        if self.acked.is_empty() && range.start <= self.una {
            self.una = range.end;
            return 0..self.una;
        }
        let run = self.acked.insert(range.start.max(self.una)..range.end);
        if run.start > self.una {
            return run;
        }
        self.acked.pop_first();
        self.una = run.end;
        0..run.end
    }

    /// `range` must be sent again, but for what is acknowledged. False when all of it is.
    pub(super) fn lose(&mut self, range: Range<u64>) -> bool {
        let mut rest = range.start.max(self.una)..range.end;
        let mut any = false;
        while let Some(gap) = self.acked.gap(rest.clone()) {
            rest.start = gap.end;
            self.lost.insert(gap);
            any = true;
        }
        any
    }

    /// True when something of `range` is not acknowledged.
    pub(super) fn misses(&self, range: Range<u64>) -> bool {
        self.acked.gap(range.start.max(self.una)..range.end).is_some()
    }

    /// `range` is given up: it must be told, and nothing of it is sent again (FS-48).
    pub(super) fn abandon(&mut self, range: Range<u64>) {
        self.lost.remove(range.clone());
        self.waiting.insert(range.start, range.end);
    }

    /// The next ABANDON that ends at or below `limit`. Neighbours go in one frame, but never with one that
    /// has no credit yet: the peer may need the first to give it.
    pub(super) fn next_abandon(&self, limit: u64) -> Option<Range<u64>> {
        let mut waiting = self.waiting.iter();
        let (&start, &end) = waiting.next()?;
        if end > limit {
            return None;
        }
        let more = waiting.scan(end, |last, (&s, &e)| {
            let joins = s == *last && e <= limit;
            *last = e;
            joins.then_some(e)
        });
        Some(start..more.last().unwrap_or(end))
    }

    /// The ABANDON of `range` was sent.
    pub(super) fn abandon_sent(&mut self, range: Range<u64>) {
        while let Some((&start, _)) = self.waiting.range(range.clone()).next() {
            self.waiting.remove(&start);
        }
        self.flying.insert(range.start, range.end);
    }
}

/// Deadlines by time, of tickets that are unsent, or of which something is lost or not sent yet; others may
/// be among them.
#[derive(Debug, Default)]
pub(super) struct TicketDeadlines(BinaryHeap<Reverse<(Time, u64)>>);

impl TicketDeadlines {
    pub(super) fn push(&mut self, deadline: Time, ticket: u64) {
        if deadline != Time::MAX {
            self.0.push(Reverse((deadline, ticket)));
        }
    }

    pub(super) fn first(&self) -> Option<(Time, u64)> {
        self.0.peek().map(|&Reverse(first)| first)
    }

    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets all but those of tickets that still wait, once each.
    pub(super) fn retain(&mut self, waits: impl Fn(u64) -> bool) {
        let mut all = std::mem::take(&mut self.0).into_vec();
        all.retain(|Reverse((_, ticket))| waits(*ticket));
        all.sort_unstable();
        all.dedup();
        self.0 = all.into();
    }
}

/// All messages that are not done with: first those that were begun, in the order of offsets, then those that
/// were not, segment by segment. As long as none overtook another, both is the order of their tickets.
#[derive(Debug, Default)]
pub(super) struct MessageRing {
    records: VecDeque<MessageRecord>,
    /// The place of the first record. Places count like tickets, so that a record lies at its ticket's place
    /// unless it changed places with another.
    first: u64,
    /// Records whose turn has come: begun, or passed over as they were dropped.
    pub(super) begun: usize,
    /// Places by ticket, of those that did, and of those that moved up when dropped ones before them were
    /// forgotten.
    moved: BTreeMap<u64, u64>,
    /// Messages that ever were in it.
    pushed: u64,
    /// Dropped ones behind those whose turn has come.
    void: usize,
}

impl MessageRing {
    pub(super) fn push(&mut self, mut record: MessageRecord) -> u64 {
        let ticket = self.pushed;
        self.pushed += 1;
        record.ticket = ticket;
        self.records.push_back(record);
        if self.first + self.len() as u64 != self.pushed {
            self.settle(self.len() - 1);
        }
        ticket
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Messages that ever were in it.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    pub(super) fn ticket(&self, index: usize) -> u64 {
        self.records[index].ticket
    }

    /// The index of a message that is not done with.
    pub(super) fn index(&self, ticket: u64) -> Option<usize> {
        let place = if self.moved.is_empty() { ticket } else { *self.moved.get(&ticket).unwrap_or(&ticket) };
        let index = usize::try_from(place.checked_sub(self.first)?).ok()?;
        self.records.get(index).is_some_and(|record| record.ticket == ticket).then_some(index)
    }

    /// Makes a record that was not begun the next one. It changes places with that, of the same segment.
    pub(super) fn bring(&mut self, index: usize) {
        let next = self.begun;
        if index == next {
            return;
        }
        debug_assert!(index > next && self.records[index].segment == self.records[next].segment, "FS-26");
        self.records.swap(next, index);
        self.settle(next);
        self.settle(index);
    }

    /// Notes where a record lies now.
    fn settle(&mut self, index: usize) {
        let (ticket, place) = (self.records[index].ticket, self.first + index as u64);
        if ticket == place {
            self.moved.remove(&ticket);
        } else {
            self.moved.insert(ticket, place);
        }
    }

    /// A record that was not begun was dropped.
    pub(super) fn dropped(&mut self) {
        self.void += 1;
    }

    /// Forgets what was dropped, where it is more than what was not: who is before it may wait for long.
    pub(super) fn forget_dropped(&mut self) {
        if self.void <= FEW_VOID || 2 * self.void <= self.len() {
            return;
        }
        let mut at = 0;
        let begun = self.begun;
        self.records.retain(|record| {
            at += 1;
            at <= begun || record.state != MessageState::Finished
        });
        self.void = 0;
        self.moved.clear();
        (0..self.len()).for_each(|index| self.settle(index));
    }

    fn count_void(&mut self) {
        self.void =
            self.records.range(self.begun..).filter(|record| record.state == MessageState::Finished).count();
    }

    /// Takes everything for not begun, in the order in which it was pushed.
    pub(super) fn rewind(&mut self) {
        self.begun = 0;
        self.count_void();
        if !self.moved.is_empty() {
            self.records.make_contiguous().sort_unstable_by_key(|record| record.ticket);
            self.moved.clear();
            (0..self.len()).for_each(|index| self.settle(index));
        }
    }

    pub(super) fn get(&self, index: usize) -> &MessageRecord {
        &self.records[index]
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut MessageRecord {
        &mut self.records[index]
    }

    /// The first record that was not begun.
    pub(super) fn next(&self) -> Option<&MessageRecord> {
        self.records.get(self.begun)
    }

    /// The first record that ends behind `offset`.
    #[inline]
    pub(super) fn at(&self, offset: u64) -> usize {
        if self.records.front().is_some_and(|first| first.end() > offset) {
            return 0;
        }
        self.records.partition_point(|record| record.end() <= offset)
    }

    /// Passes over records that were dropped unsent: `position` is where the next one will begin.
    pub(super) fn skip_dropped(&mut self, position: u64, fence: u64) {
        while let Some(record) = self.records.get_mut(self.begun) {
            if record.state != MessageState::Finished {
                return;
            }
            record.offset = position;
            record.fence = fence;
            self.begun += 1;
            self.void -= 1;
        }
    }

    /// Removes all from `index` on.
    pub(super) fn truncate(&mut self, index: usize) {
        while self.records.len() > index {
            let record = self.records.pop_back().expect("it is longer");
            self.moved.remove(&record.ticket);
        }
        self.begun = self.begun.min(index);
        self.count_void();
    }

    /// Removes what is done with at the front; everything below `una` is.
    pub(super) fn trim(&mut self, una: u64) {
        while self.begun > 0 {
            match self.records.front() {
                Some(first) if first.end() <= una && first.state == MessageState::Finished => {}
                _ => return,
            }
            if let Some(record) = self.records.pop_front().filter(|_| !self.moved.is_empty()) {
                self.moved.remove(&record.ticket);
            }
            self.first += 1;
            self.begun -= 1;
            if self.records.is_empty() {
                // Places count like tickets again.
                self.first = self.pushed;
            }
        }
    }

    /// What must hold between calls.
    pub(super) fn check(&self) {
        let places = || self.records.iter().zip(self.first..);
        let moved = places().filter(|(record, place)| record.ticket != *place);
        assert!(
            moved.map(|(record, place)| (record.ticket, place)).collect::<BTreeMap<_, _>>() == self.moved
        );
        let unbegun = self.records.iter().skip(self.begun);
        assert_eq!(self.void, unbegun.filter(|record| record.state == MessageState::Finished).count());
        let pairs = || self.records.iter().zip(self.records.iter().skip(1));
        assert!(pairs().all(|(a, b)| a.segment <= b.segment), "FS-26");
        assert!(pairs().take(self.begun.saturating_sub(1)).all(|(a, b)| a.end() <= b.offset));
    }
}

/// As many dropped records are kept until their turn comes, however few others there are.
const FEW_VOID: usize = 32;
/// The offset of a record that has none.
pub(super) const UNSENT: u64 = u64::MAX;
