//! Unreliable datagrams (RFC 9221): what waits to be sent, what came, what became of what was sent.
//!
//! *In:* the application's verbs; DATAGRAM frames by `on_frame`; what became of packets by `acked`,
//! `recovered` and `lost`. *Out:* frames by `write`, [`DatagramEvent`]s, received datagrams, outcomes.
//!
//! Invariants: a datagram is one frame, sent whole and once, or not at all; both queues are bounded in bytes
//! and in number, and what a full one drops is counted; each ticket that was asked for has one outcome. Flow
//! control knows nothing of datagrams, congestion control everything. When their turn is among streams is for
//! `streams` to say.
//!
//! Source: RFC 9221.

mod event;
mod inbox;
mod outbox;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::Bytes;
use quickset_base::{Reason, Time};
use quickset_wire::frame::{datagram_header, datagram_header_size};
use quickset_wire::{TransportErrorCode as Code, TransportParams, varint};

pub use event::{
    DatagramError, DatagramEvent, DatagramOptions, DatagramOutcome, DatagramTicket, Unsent, WhenFull,
};
use inbox::DatagramInbox;
use outbox::{DatagramOutbox, QueuedDatagram};

use crate::error::TransportError;
use crate::packet::{FrameToken, PacketWriter};
use crate::protect::policy::{Boundary, Demand};
use crate::stats::DatagramStats;

/// What a connection does with unreliable datagrams (RFC 9221). Sending needs no offer of ours, only the
/// peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramConfig {
    /// The largest DATAGRAM frame that we take, in bytes with type and length. The peer is told this number;
    /// 0 means that we take none. RFC 9221 §3 recommends 65,535, which takes whatever fits a packet.
    pub max_frame_size: u64,
    /// How many bytes may wait to be sent. A datagram that is larger waits alone.
    pub send_bytes: usize,
    /// How many datagrams may wait to be sent, at least 1.
    pub send_count: usize,
    /// How many bytes may wait for the application. When more come, the oldest datagrams are dropped.
    pub receive_bytes: usize,
    /// How many datagrams may wait for the application, at least 1.
    pub receive_count: usize,
}

setters! { DatagramConfig {
    with_max_frame_size: max_frame_size: u64,
    with_send_bytes: send_bytes: usize,
    with_send_count: send_count: usize,
    with_receive_bytes: receive_bytes: usize,
    with_receive_count: receive_count: usize,
} }

impl Default for DatagramConfig {
    fn default() -> Self {
        Self {
            max_frame_size: 65_535,
            // Twenty milliseconds of 100 Mbit/s.
            send_bytes: 256 << 10,
            send_count: 1024,
            // Twice of what one call of the system may bring, behind which the application is let read.
            receive_bytes: 1 << 20,
            receive_count: 16_384,
        }
    }
}

/// All datagrams of a connection.
#[derive(Debug)]
pub(crate) struct DatagramQueues {
    /// What we announced.
    max_frame: u64,
    /// What the peer did, 0 for nothing.
    peer_max_frame: u64,
    outbox: DatagramOutbox,
    inbox: DatagramInbox,
    /// What to tell the application, as bits of [`told`].
    events: u8,
    /// It waits for Received, for Writable.
    waiting: bool,
    refused: bool,
    /// Boundaries behind what was sent, for reliability policies.
    passed: u64,
    passed_last: Option<Time>,
    /// Another number than before when that or an empty queue has changed.
    pulse: u64,
    /// Those that came were more work than their bytes.
    charged: bool,
    stats: DatagramStats,
}

/// What [`DatagramQueues::write`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// A frame of so many bytes.
    Frame(usize),
    /// Nothing waits.
    Nothing,
    /// The next one does not fit into what is left of this packet.
    NoRoom,
}

impl DatagramQueues {
    pub(crate) fn new(config: &DatagramConfig) -> Self {
        Self {
            max_frame: config.max_frame_size.min(varint::MAX),
            peer_max_frame: 0,
            outbox: DatagramOutbox::new(config.send_bytes, config.send_count),
            inbox: DatagramInbox::new(config.receive_bytes, config.receive_count),
            events: 0,
            waiting: true,
            refused: false,
            passed: 0,
            passed_last: None,
            pulse: 0,
            charged: false,
            stats: DatagramStats::default(),
        }
    }

    /// Writes our limit into what is announced to the peer.
    pub(crate) fn offer(config: &DatagramConfig, params: &mut TransportParams) {
        params.max_datagram_frame_size = config.max_frame_size.min(varint::MAX);
    }

    /// Takes the peer's limit. RFC 9221 §3: before it is known nothing may be sent.
    pub(crate) fn set_peer(&mut self, params: &TransportParams) {
        self.peer_max_frame = params.max_datagram_frame_size;
    }

    /// What comes may ask for more work than its bytes are.
    pub(crate) fn set_charged(&mut self) {
        self.charged = true;
    }

    /// Whether it may.
    pub(crate) fn is_charged(&self) -> bool {
        self.charged
    }

    /// The longest datagram that fits a frame of at most `room` bytes and that the peer takes.
    pub(crate) fn longest(&self, room: usize) -> Option<usize> {
        payload(room.min(usize::try_from(self.peer_max_frame).unwrap_or(usize::MAX)))
    }

    /// Whether one of `len` bytes is not longer than that, which for most needs no reckoning.
    #[inline]
    fn is_fitting(&self, len: usize, room: usize) -> bool {
        let size = datagram_header_size(len) + len;
        size <= room && size as u64 <= self.peer_max_frame
    }

    /// Bytes that wait, to be sent and to be taken.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.outbox.bytes() + self.inbox.bytes()
    }

    /// Queues a datagram; `room` is what an empty packet has for frames.
    pub(crate) fn push(
        &mut self,
        data: Bytes,
        how: &DatagramOptions,
        now: Time,
        room: usize,
    ) -> Result<DatagramTicket, Unsent> {
        let refuse = |why, data| Err(Unsent { why, data });
        if !self.is_fitting(data.len(), room) {
            let why = self.longest(room).map(|max| DatagramError::TooLong { max });
            return refuse(why.unwrap_or(DatagramError::Unsupported), data);
        }
        if how.report && self.outbox.outcomes() >= MAX_OUTCOMES {
            self.refused = true;
            return refuse(DatagramError::Full, data);
        }
        while !self.outbox.has_room(data.len()) {
            if how.when_full == WhenFull::Refuse {
                self.refused = true;
                return refuse(DatagramError::Full, data);
            }
            if let Some(oldest) = self.outbox.pop() {
                self.dropped(&oldest, DatagramOutcome::Displaced, now);
            }
        }
        if self.outbox.is_empty() {
            self.beat();
        }
        Ok(self.outbox.push(data, how.deadline, how.report))
    }

    /// Queues those at the front of `data`, as long as they are taken.
    pub(crate) fn push_all(
        &mut self,
        data: &mut VecDeque<Bytes>,
        how: &DatagramOptions,
        now: Time,
        room: usize,
    ) -> Result<(), DatagramError> {
        let how = DatagramOptions { report: false, ..*how };
        while let Some(next) = data.pop_front() {
            if let Err(Unsent { why, data: next }) = self.push(next, &how, now, room) {
                data.push_front(next);
                return Err(why);
            }
        }
        Ok(())
    }

    /// Nothing waits to be sent.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Datagrams that wait to be sent, and their bytes.
    pub(crate) fn backlog(&self) -> (usize, usize) {
        (self.outbox.len(), self.outbox.bytes())
    }

    /// Bytes of the next frame, whose datagram fits an empty packet of `room` bytes; those that do not, not
    /// any more, are dropped.
    pub(crate) fn next_size(&mut self, now: Time, room: usize) -> Option<usize> {
        loop {
            let len = self.outbox.front_len()?;
            if self.is_fitting(len, room) {
                return Some(datagram_header_size(len) + len);
            }
            // RFC 9221 §5: never fragmented. The path's datagrams became smaller since it was queued.
            if let Some(front) = self.outbox.pop() {
                self.dropped(&front, DatagramOutcome::TooLong, now);
            }
        }
    }

    /// Writes the next datagram, if it fits; `room` is what an empty packet has for frames.
    pub(crate) fn write(&mut self, w: &mut PacketWriter<'_>, now: Time, room: usize) -> Wrote {
        let Some(size) = self.next_size(now, room) else { return Wrote::Nothing };
        if size > w.room() {
            return Wrote::NoRoom;
        }
        let Some(QueuedDatagram { ticket, data, reported, .. }) = self.outbox.pop() else {
            return Wrote::Nothing;
        };
        datagram_header(w.bytes(), data.len());
        w.bytes().bytes(&data);
        // RFC 9221 §5.2: it elicits an acknowledgement.
        w.record(FrameToken::Datagram { number: ticket.0, reported }, true);
        self.stats.sent += 1;
        self.stats.sent_bytes += data.len() as u64;
        self.left(now);
        Wrote::Frame(size)
    }

    /// What was queued so far is what somebody waits for: a boundary, as soon as all of it was sent.
    pub(crate) fn flush(&mut self) {
        self.outbox.flush();
    }

    /// Its packet has arrived.
    pub(crate) fn acked(&mut self, number: u64, reported: bool) {
        self.stats.acknowledged += 1;
        self.report(number, reported, DatagramOutcome::Acknowledged);
    }

    /// Its packet was lost, and it was recovered by the peer from repair symbols.
    pub(crate) fn recovered(&mut self, number: u64, reported: bool) {
        self.stats.recovered += 1;
        self.report(number, reported, DatagramOutcome::Recovered);
    }

    /// Its packet was lost. RFC 9221 §5.2: it is not sent again.
    pub(crate) fn lost(&mut self, number: u64, reported: bool) {
        self.stats.lost += 1;
        self.report(number, reported, DatagramOutcome::Lost);
    }

    /// A DATAGRAM frame; `payload` is the packet's, in which the data lies.
    ///
    /// # Errors
    /// When we did not offer to take it.
    pub(crate) fn on_frame(
        &mut self,
        data: &[u8],
        has_len: bool,
        payload: &Bytes,
    ) -> Result<(), TransportError> {
        let size = data.len() + if has_len { datagram_header_size(data.len()) } else { 1 };
        // RFC 9221 §3: without an offer none may come, nor one that is larger than that.
        if size as u64 > self.max_frame {
            let why = if self.max_frame == 0 {
                "datagrams were not offered"
            } else {
                "a datagram that is too long"
            };
            return Err(TransportError::new(Code::PROTOCOL_VIOLATION, why));
        }
        self.stats.received += 1;
        self.stats.received_bytes += data.len() as u64;
        self.stats.dropped += self.inbox.push(data, payload);
        if self.waiting {
            self.waiting = false;
            self.events |= told::RECEIVED;
        }
        Ok(())
    }

    /// The next datagram that came.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let next = self.inbox.pop();
        if next.is_none() {
            self.waiting = true;
            self.events &= !told::RECEIVED;
        }
        next
    }

    /// Moves up to `most` that came to the back of `into`. Returns how many.
    pub(crate) fn pop_all(&mut self, most: usize, into: &mut Vec<Bytes>) -> usize {
        let n = self.inbox.pop_all(most, into);
        if n == 0 && most > 0 {
            self.waiting = true;
            self.events &= !told::RECEIVED;
        }
        n
    }

    /// At least half of those that may wait for the application do.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.inbox.is_crowded()
    }

    /// What became of a datagram that asked for it, once for each.
    pub(crate) fn next_outcome(&mut self) -> Option<(DatagramTicket, DatagramOutcome)> {
        let next = self.outbox.next_outcome();
        if next.is_none() {
            self.events &= !told::OUTCOME;
        }
        self.review();
        next
    }

    /// The next thing to tell the application.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<DatagramEvent> {
        if self.events == 0 {
            return None;
        }
        let bit = self.events & self.events.wrapping_neg();
        self.events &= !bit;
        Some(match bit {
            told::RECEIVED => DatagramEvent::Received,
            told::WRITABLE => DatagramEvent::Writable,
            _ => DatagramEvent::Outcome,
        })
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.events != 0
    }

    /// When a datagram that waits becomes too old, or might.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<(Time, Reason)> {
        self.outbox.soonest().map(|at| (at, Reason::Deadline))
    }

    /// Drops what is too old.
    pub(crate) fn on_time(&mut self, now: Time) {
        if self.outbox.soonest().is_none_or(|at| at > now) {
            return;
        }
        for gone in self.outbox.expire(now) {
            self.dropped(&gone, DatagramOutcome::Expired, now);
        }
    }

    /// What the application wants of the channel, for its reliability policy.
    pub(crate) fn demand(&self) -> Demand {
        Demand {
            limited: self.outbox.is_empty(),
            boundaries: self.passed,
            // The receiver waits for all of them.
            boundary: self.passed_last.map(|at| (Boundary::Fence, at)),
            ..Demand::default()
        }
    }

    /// Another number than before when [`demand`](Self::demand) has changed.
    #[inline]
    pub(crate) fn pulse(&self) -> u64 {
        self.pulse
    }

    pub(crate) fn stats(&self) -> DatagramStats {
        let (unsent, unread) = (self.outbox.len() as u64, self.inbox.len() as u64);
        DatagramStats { unsent, unread, ..self.stats }
    }

    /// Verifies what must hold between calls.
    pub(crate) fn check(&self) {
        self.outbox.check();
        self.inbox.check();
        assert!(self.inbox.is_empty() || !self.waiting, "datagrams that nobody is told of");
    }

    /// One leaves the queue unsent.
    fn dropped(&mut self, gone: &QueuedDatagram, why: DatagramOutcome, now: Time) {
        match why {
            DatagramOutcome::Expired => self.stats.expired += 1,
            DatagramOutcome::Displaced => self.stats.displaced += 1,
            DatagramOutcome::TooLong => self.stats.too_long += 1,
            DatagramOutcome::Acknowledged | DatagramOutcome::Recovered | DatagramOutcome::Lost => {}
        }
        self.left(now);
        self.report(gone.ticket.0, gone.reported, why);
    }

    /// The queue is shorter: boundaries, room.
    fn left(&mut self, now: Time) {
        let crossed = self.outbox.cross();
        if crossed > 0 {
            self.passed += crossed;
            self.passed_last = Some(now);
        }
        if crossed > 0 || self.outbox.is_empty() {
            self.beat();
        }
        self.review();
    }

    fn report(&mut self, number: u64, reported: bool, outcome: DatagramOutcome) {
        if reported {
            self.outbox.settle(DatagramTicket(number), outcome);
            self.events |= told::OUTCOME;
        }
    }

    /// Room for those that were refused.
    fn review(&mut self) {
        if self.refused && self.outbox.is_roomy() && self.outbox.outcomes() < MAX_OUTCOMES {
            self.refused = false;
            self.events |= told::WRITABLE;
        }
    }

    fn beat(&mut self) {
        self.pulse = self.pulse.wrapping_add(1);
    }
}

/// The longest data of a frame of at most `size` bytes; `None` when there is no such frame.
fn payload(size: usize) -> Option<usize> {
    [1, 2, 4].into_iter().find_map(|length| {
        let n = size.checked_sub(1 + length)?;
        // A little less where a length that is one longer does not fit any more.
        let n = n.min((1 << (8 * length - 2)) - 1);
        (datagram_header_size(n + 1) + n + 1 > size).then_some(n)
    })
}

/// Outcomes that wait for the application; with more no datagram that asks for one is taken.
const MAX_OUTCOMES: usize = 65_536;

/// Events, told in this order.
mod told {
    pub(super) const RECEIVED: u8 = 1;
    pub(super) const WRITABLE: u8 = 2;
    pub(super) const OUTCOME: u8 = 4;
}
