//! What goes next, and what for: credit, the order of deadlines, the end.

use quickset_base::Duration;

use super::{Fin, RecordMode, RecordSender};
use crate::packet::{RoomView, Want};
use crate::streams::fenced::order::SegmentOrder;
use crate::streams::fenced::queue::{MessageRecord, MessageState};
use crate::streams::gaps::credited_ranges;

/// The messages of which a part is yet to be sent for the first time, and who goes first.
#[derive(Debug, Default)]
pub(super) struct SendLine {
    /// Begun and not sent to their end, in the order of offsets; all of one segment. All but the last are
    /// holes in what was sent.
    pub(super) open: Vec<Rest>,
    /// With the first message that has a deadline.
    pub(super) order: Option<Box<SegmentOrder>>,
    /// It never comes to that.
    pub(super) first_come: bool,
}

/// The rest of a message that was begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) ticket: u64,
    /// Where the message begins.
    pub(super) offset: u64,
    /// What was not sent yet begins here, and ends with the message.
    pub(super) next: u64,
}

/// What goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextMessage {
    /// The rest of an open message, by its place among them.
    Rest(usize),
    /// The next message of the ring.
    New,
}

impl SendLine {
    /// The place of the open message that begins at `offset`.
    pub(super) fn rest_of(&self, offset: u64) -> Option<usize> {
        self.open.binary_search_by_key(&offset, |rest| rest.offset).ok()
    }
}

impl RecordSender {
    /// What can be sent with `conn_credit` bytes of connection credit.
    pub(crate) fn want(&self, conn_credit: u64) -> Want {
        if self.ending.reset {
            return Want::None;
        }
        let limit = self.limit(conn_credit);
        let abandons = self.flight.waiting.first_key_value().is_some_and(|(_, &end)| end <= limit);
        if abandons || !self.flight.lost.is_empty() || (self.ending.fin == Fin::Lost && self.can_end(limit)) {
            return Want::Lost;
        }
        let data = self.next_need().is_some_and(|need| need <= limit && self.may_grow(need));
        if data || self.ending.open || (self.ending.fin == Fin::Wanted && self.can_end(limit)) {
            return Want::Data;
        }
        Want::None
    }

    /// The stream's credit, when it is what stops us (RFC 9000 §19.13).
    pub(crate) fn blocked_at(&self) -> Option<u64> {
        let abandons = self.flight.waiting.last_key_value().is_some_and(|(_, &end)| end > self.max);
        let data = self.next_need().is_some_and(|need| need > self.max);
        (!self.ending.reset && (abandons || data)).then_some(self.max)
    }

    /// The highest offset that both credits allow (FS-43).
    pub(super) fn limit(&self, conn_credit: u64) -> u64 {
        self.max.min(self.highest.saturating_add(conn_credit))
    }

    /// True when FIN may be sent: everything before it was sent or given up.
    pub(super) fn can_end(&self, limit: u64) -> bool {
        self.ring.begun == self.ring.len() && self.is_whole() && self.position <= limit
    }

    /// All records begun were sent to their end.
    pub(super) fn is_whole(&self) -> bool {
        self.line.open.is_empty()
    }

    /// What goes next with credit up to `limit`. A message that was not begun is the next of the ring then.
    pub(super) fn choose(&mut self, view: &RoomView, limit: u64) -> Option<NextMessage> {
        self.skip_dropped();
        if self.next_need().is_none_or(|need| need > limit || !self.may_grow(need)) {
            return None;
        }
        let Some(mut order) = self.line.order.take() else {
            return Some(if self.is_whole() { NextMessage::New } else { NextMessage::Rest(0) });
        };
        while let Some(ticket) = order.expire(view.now, self.one_way) {
            match self.ring.index(ticket) {
                // FS-45: what was not sent to its end by now will not be there in time.
                Some(index) if self.mode == RecordMode::Frames && self.ring.get(index).is_live() => {
                    order.remove(self.ring.get_mut(index));
                    self.abandon(index);
                }
                _ => self.put_off(&mut order, ticket),
            }
        }
        let ticket = self.first(&mut order, view, limit);
        self.line.order = Some(order);
        let index = self.ring.index(ticket?)?;
        let record = self.ring.get(index);
        if record.state == MessageState::Queued {
            self.ring.bring(index);
            return Some(NextMessage::New);
        }
        self.line.rest_of(record.offset).map(NextMessage::Rest)
    }

    /// FS-69: the message that goes next, of those that credit lets go.
    fn first(&mut self, order: &mut SegmentOrder, view: &RoomView, limit: u64) -> Option<u64> {
        loop {
            // FS-70: what has no credit is passed over. A long message whose end has none is begun when
            // nothing else can go: from then on it is in the way of all others.
            let mut next =
                |whole| order.next(view.now, self.one_way, |ticket| self.may_go(ticket, limit, whole));
            let ticket = next(true).or_else(|| next(false))?;
            let record = self.ring.get(self.ring.index(ticket)?);
            if !order.is_due(record) {
                // None can be in time: first what was begun, which stands in the way of what it is a hole in.
                let open = self.line.open.first().map(|rest| rest.ticket);
                return Some(open.filter(|ticket| self.may_go(*ticket, limit, true)).unwrap_or(ticket));
            }
            if Self::is_in_time(record, view) {
                return Some(ticket);
            }
            self.put_off(order, ticket);
        }
    }

    /// The last byte of a message that was not begun will be there by its deadline if nothing else is sent
    /// before, as fast as packets leave, and if they take as long as they did of late. Those that are not,
    /// when there is more to send than the path takes, would make the next ones late as well, one after the
    /// other. What was begun is in time until it expires: a part of a message is of no use.
    fn is_in_time(record: &MessageRecord, view: &RoomView) -> bool {
        if record.state != MessageState::Queued {
            return true;
        }
        // Packets leave a little faster than the path takes them, and others share it (RFC 9002 §7.7).
        let time = Duration::from_nanos(record.size.saturating_mul(1_250_000_000) / view.rate.max(1));
        // What queues there are lie on the way out. While nothing is under way, nobody knows.
        let way = if view.one_way.is_zero() { view.one_way } else { view.srtt.saturating_sub(view.one_way) };
        view.now + way + time <= record.deadline
    }

    /// A message has no deadline any more, as far as the order goes.
    pub(super) fn put_off(&mut self, order: &mut SegmentOrder, ticket: u64) {
        let Some(index) = self.ring.index(ticket) else { return };
        let record = self.ring.get_mut(index);
        order.remove(record);
        order.insert(record, false);
    }

    /// Whether credit up to `limit` lets a message go: to its end, or else as far as it goes.
    fn may_go(&self, ticket: u64, limit: u64, whole: bool) -> bool {
        let Some(index) = self.ring.index(ticket) else { return false };
        let record = self.ring.get(index);
        if record.state != MessageState::Queued {
            let rest = self.line.rest_of(record.offset).map(|at| self.line.open[at]);
            return rest.is_some_and(|rest| rest.next < limit && self.may_grow(rest.next + 1));
        }
        // FS-67: what was begun in STREAM frames is in the way of all others. FS-71: only so many holes.
        let most = if self.mode == RecordMode::Plain { 1 } else { MAX_OPEN };
        let size = if whole { record.size } else { self.least_of(record.size, record.segment) };
        self.line.open.len() < most && self.position + size <= limit && self.may_grow(self.position + size)
    }

    /// No new bytes while the peer may be near its limit of ranges (FS-72), but those that fill holes
    /// (FS-73).
    fn may_grow(&self, need: u64) -> bool {
        need <= self.highest
            || self.flight.acked_runs() <= credited_ranges(self.highest.saturating_sub(self.flight.una()))
    }

    /// The offset up to which credit is needed for the next new bytes, if there are any.
    fn next_need(&self) -> Option<u64> {
        // Nothing needs less: what is not begun lies behind, and holes need none that was not used.
        if let Some(rest) = self.line.open.first() {
            return Some(rest.next + 1);
        }
        let Some(order) = &self.line.order else {
            let next = self.ring.next()?;
            return Some(self.position + self.least_of(next.size, next.segment));
        };
        let (shortest, longest) = order.sizes()?;
        let least = |size| self.least_of(size, order.segment);
        Some(self.position + least(shortest).min(least(longest)))
    }

    /// The least that is sent at first of a record of this size.
    fn least_of(&self, size: u64, segment: u64) -> u64 {
        let whole = self.mode == RecordMode::Frames && self.fits_packet(size, segment, self.position);
        if whole { size } else { self.least(size) }
    }

    /// Takes up the next segment once everything of the one before was sent or dropped.
    pub(super) fn arrange(&mut self) {
        if self.line.order.is_none() {
            return;
        }
        self.skip_dropped();
        let Some(order) = &mut self.line.order else { return };
        if order.is_empty() {
            if let Some(next) = self.ring.next() {
                order.segment = next.segment;
                for index in self.ring.begun..self.ring.len() {
                    let record = self.ring.get_mut(index);
                    if record.segment != order.segment {
                        break;
                    }
                    if record.state == MessageState::Queued {
                        order.insert(record, record.state != MessageState::Superseded);
                    }
                }
            }
        }
        // How far everything was sent: each message is passed once.
        while order.oldest < self.ring.pushed() {
            let sent = self.ring.index(order.oldest).map(|index| self.ring.get(index));
            let waits = sent.is_some_and(|record| match record.state {
                MessageState::Queued => true,
                _ => self.line.open.iter().any(|rest| rest.ticket == record.ticket),
            });
            if waits {
                break;
            }
            order.oldest += 1;
        }
    }

    /// Goes by deadlines from now on.
    pub(super) fn begin_order(&mut self) {
        let mut order = Box::new(SegmentOrder::new(self.begun_whole()));
        for rest in &self.line.open {
            if let Some(index) = self.ring.index(rest.ticket) {
                let record = self.ring.get_mut(index);
                order.segment = record.segment;
                order.insert(record, record.state != MessageState::Superseded);
            }
        }
        if !order.is_empty() {
            for index in self.ring.begun..self.ring.len() {
                let record = self.ring.get_mut(index);
                if record.segment == order.segment && record.state == MessageState::Queued {
                    order.insert(record, record.state != MessageState::Superseded);
                }
            }
        }
        self.line.order = Some(order);
        self.arrange();
    }
}

/// FS-71: so many messages are begun and not sent to their end at most. Each is a hole in what the peer has,
/// and far fewer than it may have ranges (FS-40).
pub(super) const MAX_OPEN: usize = 64;
