mod cut;
mod fill;
mod next;
mod progress;
mod told;

use std::ops::Range;

use bytes::Bytes;
use quickset_base::{Duration, Time};
use quickset_wire::StreamId;

use self::next::SendLine;
pub use self::told::MessageStats;
use self::told::OutcomesTold;
use super::queue::{MessageFlight, MessageRecord, MessageRing, MessageState, TicketDeadlines, UNSENT};
use crate::packet::{PacketWriter, RoomView, StreamKey};

/// The sending half of a stream of records.
///
/// 1. Messages are [pushed](Self::push), with [fences](Self::fence) between them; [`finish`](Self::finish)
///    ends the stream.
/// 2. While [`want`](Self::want) asks for it, [`write`](Self::write) fills packets. Their tokens come back as
///    [`acked`](Self::acked) or [`lost`](Self::lost), [`abandon_acked`](Self::abandon_acked) or
///    [`abandon_lost`](Self::abandon_lost).
/// 3. At [`deadline`](Self::deadline), [`on_time`](Self::on_time) is called.
/// 4. [`next_outcome`](Self::next_outcome) tells once of each message what became of it (FS-56).
#[derive(Debug)]
pub(crate) struct RecordSender {
    key: StreamKey,
    id: StreamId,
    mode: RecordMode,
    max_record: u64,
    ring: MessageRing,
    flight: MessageFlight,
    fences: Placed,
    line: SendLine,
    /// Where the next record begins: the end of what was begun.
    position: u64,
    /// The highest offset that credit was used for.
    highest: u64,
    /// The stream's credit.
    max: u64,
    ending: StreamEnding,
    deadlines: TicketDeadlines,
    one_way: Duration,
    told: OutcomesTold,
    queued: u64,
    /// Of those, bytes that were never sent, but for what was given up unsent.
    unsent: u64,
    /// Room for frames in an empty packet, as last seen.
    packet: u64,
    give_up_lost: bool,
    even: Even,
}

/// Messages in packets of equal size.
#[derive(Debug, Default)]
struct Even {
    on: bool,
    /// The last byte of a message was written since this was last asked.
    ended: bool,
}

/// How the bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordMode {
    /// In FENCED and ABANDON frames.
    Frames,
    /// In STREAM frames, since the peer did not offer fenced streams: the order is total, and what was begun
    /// is sent to its end (FS-65, FS-67).
    Plain,
}

/// Names a message of one stream until its outcome was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

impl Ticket {
    /// No ticket is less.
    pub(crate) const FIRST: Self = Self(0);
    /// No ticket is greater.
    pub(crate) const LAST: Self = Self(u64::MAX);
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The peer has all of it.
    Delivered,
    /// The peer has all of it, and at least a part of it only since that was recovered from repair symbols.
    Recovered,
    /// It was dropped before anything of it was sent.
    Dropped,
    /// It was given up after a part of it was sent: it is not known to have arrived.
    Abandoned,
}

impl Outcome {
    /// The peer has the message, whether as it was sent or by recovery.
    pub const fn is_delivered(self) -> bool {
        matches!(self, Self::Delivered | Self::Recovered)
    }
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueError {
    /// It is longer than the peer takes.
    #[error("the message is longer than {max} bytes, the most that the peer takes")]
    TooLong {
        /// The longest message, in bytes.
        max: u64,
    },
    /// The stream was finished.
    #[error("the stream is finished")]
    Finished,
    /// The stream was reset.
    #[error("the stream was reset")]
    Reset,
}

/// Where fences are placed: by the application, and on the wire.
#[derive(Debug, Default)]
struct Placed {
    /// A fence after each message.
    each: bool,
    /// The segment of the next message.
    segment: u64,
    /// It has a message, dropped or not.
    used: bool,
    /// The segment begun last, and the fence that it begins with.
    begun: Option<u64>,
    at: u64,
}

/// How far opening and ending the stream have come.
#[derive(Debug, Default)]
struct StreamEnding {
    open: bool,
    fin: Fin,
    reset: bool,
    /// What lies behind was given up; [`u64::MAX`] while that is not known.
    cut: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fin {
    #[default]
    None,
    Wanted,
    Sent,
    Lost,
    Acked,
}

impl RecordSender {
    /// A stream whose peer takes messages of at most `max_record` bytes (FS-8).
    pub(crate) fn new(key: StreamKey, id: StreamId, mode: RecordMode, max_record: u64) -> Self {
        Self {
            key,
            id,
            mode,
            max_record,
            ring: MessageRing::default(),
            flight: MessageFlight::default(),
            fences: Placed::default(),
            line: SendLine::default(),
            position: 0,
            highest: 0,
            max: 0,
            ending: StreamEnding::default(),
            deadlines: TicketDeadlines::default(),
            one_way: Duration::ZERO,
            told: OutcomesTold::default(),
            queued: 0,
            unsent: 0,
            packet: 0,
            give_up_lost: false,
            even: Even::default(),
        }
    }

    /// Queues a message. With a `deadline` it is dropped, or given up once lost, when it cannot be there in
    /// time.
    pub(crate) fn push(&mut self, payload: Bytes, deadline: Option<Time>) -> Result<Ticket, QueueError> {
        if self.ending.reset {
            return Err(QueueError::Reset);
        }
        if self.ending.fin != Fin::None {
            return Err(QueueError::Finished);
        }
        if payload.len() as u64 > self.max_record {
            return Err(QueueError::TooLong { max: self.max_record });
        }
        let record = MessageRecord::new(payload, self.fences.segment, deadline);
        self.queued += record.size;
        self.unsent += record.size;
        self.told.stats.queued += 1;
        self.told.stats.queued_bytes += record.payload.len() as u64;
        self.fences.used = true;
        let deadline = record.deadline;
        let ticket = self.ring.push(record);
        self.deadlines.push(deadline, ticket);
        self.line_up(deadline);
        if self.fences.each {
            self.fence();
        }
        Ok(Ticket(ticket))
    }

    /// The message pushed last gets its place in the order of deadlines, if there is one.
    fn line_up(&mut self, deadline: Time) {
        match &mut self.line.order {
            None if deadline == Time::MAX || self.line.first_come => {}
            None => self.begin_order(),
            Some(order) if order.is_empty() => self.arrange(),
            Some(order) => {
                let record = self.ring.get_mut(self.ring.len() - 1);
                if record.segment == order.segment {
                    order.insert(record, true);
                }
            }
        }
    }

    /// Places a fence behind the messages pushed so far. Fences with no message sent between them are one
    /// (FS-25).
    pub(crate) fn fence(&mut self) {
        self.fences.segment += u64::from(std::mem::take(&mut self.fences.used));
    }

    /// Total order: a fence after each message from now on.
    pub(crate) fn set_ordered(&mut self, ordered: bool) {
        if ordered {
            self.fence();
        }
        self.fences.each = ordered;
    }

    /// *Latest* order: from now on a message of which something is lost is given up instead of sent again;
    /// its outcome [`Outcome::Abandoned`] asks the application to encode afresh what is still wanted of it.
    pub(crate) fn set_give_up_lost(&mut self, give_up: bool) {
        self.give_up_lost = give_up;
    }

    /// From now on, messages that no packet holds go in packets of equal size, as few as can be: each then is
    /// worth as much as the others to those who repair losses.
    pub(crate) fn set_even(&mut self, even: bool) {
        self.even.on = even;
    }

    /// Messages go as they come, whatever their deadlines. No effect any more once one with a deadline was
    /// pushed.
    pub(crate) fn set_first_come(&mut self, first_come: bool) {
        self.line.first_come = first_come;
    }

    /// Whether the last byte of a message that is split [evenly](Self::set_even), or need not be, was written
    /// since this was last asked.
    pub(crate) fn take_ended(&mut self) -> bool {
        std::mem::take(&mut self.even.ended)
    }

    /// Something newer takes the place of a message: unsent it is dropped, else what is lost of it is not
    /// sent again but given up. False when that changes nothing any more.
    pub(crate) fn supersede(&mut self, ticket: Ticket) -> bool {
        let Some(index) = self.ring.index(ticket.0) else { return false };
        match self.ring.get(index).state {
            MessageState::Queued => self.drop_unsent(index),
            MessageState::Begun if self.mode == RecordMode::Frames => {
                self.outdate(index);
            }
            MessageState::Begun | MessageState::Superseded | MessageState::Finished => return false,
        }
        self.tidy();
        true
    }

    /// What is lost of a begun message is given up from now on, and what was not sent of it goes behind the
    /// others.
    fn outdate(&mut self, index: usize) {
        let record = self.ring.get_mut(index);
        record.state = MessageState::Superseded;
        let (ticket, range) = (record.ticket, record.range());
        if self.flight.lost.touches(range) {
            self.abandon(index);
        } else if record.turn.is_some() {
            if let Some(mut order) = self.line.order.take() {
                self.put_off(&mut order, ticket);
                self.line.order = Some(order);
            }
        }
    }

    /// Opens the stream at the peer even if nothing is sent on it for a while.
    pub(crate) fn open(&mut self) {
        self.ending.open = self.position == 0 && !self.ending.reset;
    }

    /// No more messages follow.
    pub(crate) fn finish(&mut self) {
        if self.ending.fin == Fin::None {
            self.ending.fin = Fin::Wanted;
        }
    }

    /// Gives everything up and returns the final size for RESET_STREAM, which is not sent by this room.
    pub(crate) fn reset(&mut self) -> u64 {
        if !self.ending.reset {
            self.ending.reset = true;
            self.ending.open = false;
            for index in 0..self.ring.len() {
                self.give_up(index);
            }
            self.ring = MessageRing::default();
            self.flight = MessageFlight::default();
            self.deadlines.clear();
            self.line = SendLine::default();
            self.unsent = 0;
        }
        self.highest
    }

    /// Takes everything for unsent, and has no credit. Nothing may have been acknowledged.
    pub(crate) fn rewind(&mut self) {
        debug_assert!(self.mode == RecordMode::Plain, "nothing was agreed on");
        debug_assert!(self.ending.cut.is_some() || self.flight.una() == 0, "what was acknowledged was read");
        self.ending.cut = self.ending.cut.map(|_| u64::MAX);
        let in_order = self.line.order.is_some();
        self.line = SendLine { first_come: self.line.first_come, ..SendLine::default() };
        for index in 0..self.ring.len() {
            let record = self.ring.get_mut(index);
            record.turn = None;
            if record.is_live() {
                record.state = MessageState::Queued;
                self.told.stats.sent -= 1;
                self.deadlines.push(record.deadline, record.ticket);
            }
            (record.offset, record.fence) = (UNSENT, UNSENT);
        }
        self.ring.rewind();
        self.flight = MessageFlight::default();
        (self.fences.begun, self.fences.at) = (None, 0);
        (self.position, self.highest, self.max) = (0, 0, 0);
        self.unsent = self.queued;
        if matches!(self.ending.fin, Fin::Sent | Fin::Lost) {
            self.ending.fin = Fin::Wanted;
        }
        self.skip_dropped();
        if in_order {
            self.begin_order();
        }
        self.tidy();
    }

    /// The longest message that the peer takes, now that it is known.
    pub(crate) fn set_max_record(&mut self, max: u64) {
        self.max_record = max;
    }

    /// The peer's credit for the stream; a lower one than before is ignored (RFC 9000 §19.10).
    pub(crate) fn set_max(&mut self, max_stream_data: u64) {
        self.max = self.max.max(max_stream_data);
    }

    /// Bytes held, sent or not.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// The highest offset that credit was used for.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// The peer has everything, or was told that it is given up; or the stream was reset.
    pub(crate) fn is_done(&self) -> bool {
        let told = self.flight.waiting.is_empty() && self.flight.flying.is_empty();
        self.ending.reset || (self.ending.fin == Fin::Acked && told && self.flight.una() == self.position)
    }

    /// When a message becomes too late to send, or to send again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        // FS-54: late is later than the deadline, so one nanosecond more.
        self.deadlines.first().map(|(at, _)| (at - self.one_way) + Duration::from_nanos(1))
    }

    /// Drops what is too late: unsent messages, and those of which something is lost, or not sent yet (FS-45,
    /// FS-54, FS-55).
    pub(crate) fn on_time(&mut self, now: Time, one_way: Duration) {
        self.one_way = one_way;
        self.told.now = now;
        while let Some((at, ticket)) = self.deadlines.first() {
            if now + one_way <= at {
                break;
            }
            self.deadlines.pop();
            let Some(index) = self.ring.index(ticket) else { continue };
            match self.ring.get(index).state {
                MessageState::Queued => self.drop_unsent(index),
                MessageState::Begun | MessageState::Superseded if self.is_wanting(index) => {
                    self.abandon(index);
                }
                MessageState::Begun | MessageState::Superseded | MessageState::Finished => {}
            }
        }
        self.tidy();
    }

    /// Fills a packet with what is wanted; returns how much connection credit was used.
    pub(crate) fn write(&mut self, w: &mut PacketWriter<'_>, conn_credit: u64, view: &RoomView) -> u64 {
        if self.ending.reset {
            return 0;
        }
        self.on_time(view.now, view.one_way);
        // This packet may be short for reasons of its own (coalesced, amplification limit, other frames); the
        // record waits for a full one. A source symbol may hold less than a packet without one, so it is
        // looked at each time anew: what fits the one and not the other waits for nothing when it meets the
        // other, but is cut.
        self.packet = view.room as u64;
        let before = self.highest;
        let limit = self.limit(conn_credit);
        self.write_abandons(w, limit);
        self.write_lost(w);
        self.write_new(w, limit, view);
        self.write_empty(w, limit);
        self.tidy();
        self.highest - before
    }

    /// The peer has a frame of `len` bytes from `offset` on.
    pub(crate) fn acked(&mut self, offset: u64, len: u64, fin: bool) {
        self.arrived(offset, len, fin, false);
    }

    /// The peer did not receive a frame of `len` bytes from `offset` on, but recovered it.
    pub(crate) fn recovered(&mut self, offset: u64, len: u64, fin: bool) {
        self.arrived(offset, len, fin, true);
    }

    fn arrived(&mut self, offset: u64, len: u64, fin: bool, recovered: bool) {
        if self.ending.reset {
            return;
        }
        if fin {
            self.ending.fin = Fin::Acked;
        }
        if len == 0 {
            return;
        }
        let range = offset..offset + len;
        if recovered {
            self.note_recovered(&range);
        }
        let run = self.flight.ack(range.clone());
        for index in self.ring.at(range.start)..self.ring.begun {
            let record = self.ring.get_mut(index);
            if record.offset >= range.end {
                break;
            }
            if record.is_live() && record.offset >= run.start && record.end() <= run.end {
                let outcome = if record.recovered { Outcome::Recovered } else { Outcome::Delivered };
                self.finished(index, outcome);
            }
        }
        self.tidy();
    }

    /// Marks the records that recovery brings something new of.
    fn note_recovered(&mut self, range: &Range<u64>) {
        for index in self.ring.at(range.start)..self.ring.begun {
            let record = self.ring.get(index);
            if record.offset >= range.end {
                break;
            }
            let part = record.offset.max(range.start)..record.end().min(range.end);
            let is_new = self.flight.misses(part);
            self.ring.get_mut(index).recovered |= is_new;
        }
    }

    /// A frame of `len` bytes from `offset` on was declared lost.
    pub(crate) fn lost(&mut self, offset: u64, len: u64, fin: bool, now: Time) {
        if self.ending.reset {
            return;
        }
        if fin && self.ending.fin == Fin::Sent {
            self.ending.fin = Fin::Lost;
        }
        if len == 0 {
            self.ending.open |= !fin && self.position == 0;
            return;
        }
        let range = offset..offset + len;
        for index in self.ring.at(offset)..self.ring.begun {
            let record = self.ring.get(index);
            if record.offset >= range.end {
                break;
            }
            let part = record.offset.max(range.start)..record.end().min(range.end);
            if !record.is_live() || !self.flight.misses(part.clone()) {
                continue;
            }
            let given_up = self.is_given_up(record, now);
            self.ring.get_mut(index).missed = true;
            if given_up {
                self.abandon(index);
            } else {
                self.deadlines.push(self.ring.get(index).deadline, self.ring.ticket(index));
                self.flight.lose(part);
            }
        }
        self.tidy();
    }

    /// The peer has the ABANDON that begins at `offset`.
    pub(crate) fn abandon_acked(&mut self, offset: u64) {
        if let Some(end) = self.flight.flying.remove(&offset) {
            self.flight.ack(offset..end);
            self.tidy();
        }
    }

    /// The ABANDON that begins at `offset` was declared lost (FS-47).
    pub(crate) fn abandon_lost(&mut self, offset: u64) {
        if let Some(end) = self.flight.flying.remove(&offset) {
            self.flight.waiting.insert(offset, end);
        }
    }

    /// A record is not sent again when something of it is lost at `now`.
    fn is_given_up(&self, record: &MessageRecord, now: Time) -> bool {
        self.mode == RecordMode::Frames
            && (self.give_up_lost
                || record.state == MessageState::Superseded
                || record.is_late(now, self.one_way))
    }

    /// A begun message that would be given up if it was too late: something of it is lost, or was not sent
    /// yet.
    fn is_wanting(&self, index: usize) -> bool {
        let record = self.ring.get(index);
        self.mode == RecordMode::Frames
            && (self.flight.lost.touches(record.range()) || self.line.rest_of(record.offset).is_some())
    }

    fn drop_unsent(&mut self, index: usize) {
        let in_turn = self.ring.get(index).turn.is_some();
        self.finished(index, Outcome::Dropped);
        self.unsent -= std::mem::take(&mut self.ring.get_mut(index).size);
        self.ring.dropped();
        if in_turn {
            // Passed over at once: who waits for long does not keep those in memory that were dropped behind
            // it.
            self.skip_dropped();
            self.ring.bring(index.max(self.ring.begun));
            self.skip_dropped();
        }
        self.ring.forget_dropped();
    }

    fn abandon(&mut self, index: usize) {
        self.finished(index, Outcome::Abandoned);
        let range = self.ring.get(index).range();
        // FS-45: a begun record counts as sent to its end.
        if let Some(at) = self.line.rest_of(range.start) {
            self.unsent -= range.end - self.line.open.remove(at).next;
        }
        self.flight.abandon(range);
    }

    /// Records dropped unsent take up no offsets.
    fn skip_dropped(&mut self) {
        self.ring.skip_dropped(self.position, self.fences.at);
    }

    /// Lets go of what is done with.
    fn tidy(&mut self) {
        self.skip_dropped();
        self.ring.trim(self.flight.una());
        self.arrange();
        while self.deadlines.first().is_some_and(|(_, ticket)| !self.awaits_deadline(ticket)) {
            self.deadlines.pop();
        }
        // One that waits for long before others keeps those of many that are done with.
        if self.deadlines.len() > FEW_DEADLINES + 2 * self.ring.len() {
            let mut deadlines = std::mem::take(&mut self.deadlines);
            deadlines.retain(|ticket| self.awaits_deadline(ticket));
            self.deadlines = deadlines;
        }
    }

    /// Something happens to a message at its deadline: it is unsent, or something of it is lost or was not
    /// sent yet.
    fn awaits_deadline(&self, ticket: u64) -> bool {
        self.ring.index(ticket).is_some_and(|index| match self.ring.get(index).state {
            MessageState::Queued => true,
            MessageState::Begun | MessageState::Superseded => self.is_wanting(index),
            MessageState::Finished => false,
        })
    }
}

/// As many deadlines are kept, and two for each message, before those are forgotten that do not count any
/// more.
const FEW_DEADLINES: usize = 64;
