//! Streams of messages: the seam to [`fenced`](super::fenced), which knows one half at a time and nothing of
//! others.

use bytes::Bytes;
use quickset_base::{Reason, Time};
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, StreamId, TransportErrorCode as Code, varint};

use super::event::SendState;
use super::fenced::{Fenced, RecordMode, RecordReceiver};
use super::inbound::StreamHalf;
use super::recv::RecvHalf;
use super::work::steps_among;
use super::{RECORD_PREFIX, Stream, Streams, owes, told};
use crate::TransportError;
use crate::packet::{RoomView, StreamKey, Want};

impl Streams {
    /// Opens a stream of messages.
    pub(crate) fn open_messages(&mut self, dir: Dir) -> Option<StreamId> {
        let id = self.open(dir)?;
        self.messages(id).begin().expect("nothing was written to a new stream");
        Some(id)
    }

    /// When a message becomes too late.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<(Time, Reason)> {
        self.deadlines.first().map(|(at, _)| (*at, Reason::Deadline))
    }

    /// Some message may become too late.
    #[inline]
    pub(crate) fn has_deadlines(&self) -> bool {
        !self.deadlines.is_empty()
    }

    /// Drops what is too late.
    pub(crate) fn on_time(&mut self, view: &RoomView) {
        while let Some(&(at, key)) = self.deadlines.first() {
            if at > view.now {
                return;
            }
            self.deadlines.pop_first();
            let Some(stream) = self.slab.get_mut(key) else { continue };
            stream.deadline = None;
            if let Some(sender) = stream.send.as_mut().and_then(|half| half.messages.as_mut()) {
                sender.on_time(view.now, view.one_way);
            }
            self.review(key);
            self.cross(key, view.now);
        }
    }

    /// Whether FENCED and ABANDON may come.
    pub(crate) fn takes_messages(&self) -> bool {
        self.records.agreed()
    }

    /// The longest message that the peer takes, in bytes, as far as is known.
    pub(crate) fn max_message_len(&self) -> u64 {
        self.records.sending().1
    }

    /// Notes what a stream carries, as far as it is known (FS-39).
    pub(super) fn note_bytes(&mut self, key: StreamKey, bytes: bool) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        if stream.id.initiator() == self.side || stream.bytes == bytes {
            return;
        }
        stream.bytes = bytes;
        let dir = stream.id.dir();
        self.limits.theirs(dir).note_bytes(bytes);
        self.limits.note_closed(dir);
    }

    /// A FENCED or ABANDON frame.
    pub(super) fn on_messages(
        &mut self,
        id: StreamId,
        frame: &Frame<'_>,
        payload: &Bytes,
        now: Time,
    ) -> Result<(), TransportError> {
        // FS-7: without the extension the frame is unknown.
        if !self.records.agreed() {
            return Err(TransportError::new(Code::FRAME_ENCODING_ERROR, "fenced streams were not agreed on"));
        }
        // FS-10: direction, existence and number, as for STREAM frames.
        let Some(key) = self.locate(id, StreamHalf::Recv)? else { return Ok(()) };
        let Some(half) = self.slab.get_mut(key).and_then(|stream| stream.recv.as_mut()) else {
            return Ok(());
        };
        // FS-62 12: one kind of frame for all data of a direction.
        if half.messages.is_none() && half.plain {
            return Err(TransportError::new(Code::FENCE_ERROR, "FENCED behind STREAM frames"));
        }
        let (end, fin) = match *frame {
            Frame::Fenced { offset, data, fin, .. } => (offset.saturating_add(data.len() as u64), fin),
            Frame::Abandon { offset, len, .. } => (offset.saturating_add(len), false),
            _ => return Ok(()),
        };
        // FS-9.
        if end > varint::MAX {
            return Err(TransportError::new(Code::FRAME_ENCODING_ERROR, "stream data beyond 2^62 - 1"));
        }
        half.window.arrived(now);
        self.limits.arrived(now);
        if half.is_deaf() {
            return self.dropped(key, end, fin);
        }
        if half.messages.is_none() {
            half.become_messages(self.records.ours);
        }
        half.within_credit(end)?;
        let Some(receiver) = &mut half.messages else { return Ok(()) };
        let before = receiver.apart();
        let growth = match *frame {
            Frame::Fenced { offset, distance, start, each, fin, data, .. } => {
                receiver.on_fenced(now, &Fenced { offset, distance, start, each, fin }, data, payload)?
            }
            Frame::Abandon { offset, len, .. } => receiver.on_abandon(now, offset, len)?,
            _ => 0,
        };
        self.owed.steps += steps_among(receiver.apart().max(before));
        self.grow(key, growth)?;
        self.received_messages(key);
        Ok(())
    }

    /// Counts what arrived on a stream against the connection's credit.
    pub(super) fn grow(&mut self, key: StreamKey, growth: u64) -> Result<(), TransportError> {
        self.limits.admit(growth)?;
        if let Some(half) = self.slab.get_mut(key).and_then(|stream| stream.recv.as_mut()) {
            half.highest += growth;
        }
        Ok(())
    }

    /// What comes for a half that nobody reads: it counts, and is consumed at once.
    pub(super) fn dropped(&mut self, key: StreamKey, end: u64, fin: bool) -> Result<(), TransportError> {
        let Some(half) = self.slab.get_mut(key).and_then(|stream| stream.recv.as_mut()) else {
            return Ok(());
        };
        let growth = half.admit(end, fin)?;
        if fin {
            half.final_size = Some(end);
        }
        half.window.consume(growth);
        self.grow(key, growth)?;
        self.limits.consume(growth);
        self.settle(key);
        Ok(())
    }

    /// After something arrived on a half of messages: the end, news for the application, credit.
    pub(super) fn received_messages(&mut self, key: StreamKey) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        let Some(half) = &mut stream.recv else { return };
        let Some(receiver) = &half.messages else { return };
        half.final_size = receiver.final_size();
        let news = receiver.is_readable() || receiver.is_finished() || receiver.fault().is_some();
        if news && half.waiting {
            half.waiting = false;
            stream.tell(told::MESSAGE, &mut self.events);
        }
        self.credit_messages(key);
    }

    /// Passes on the credit of a half of messages, to the connection and to the peer.
    pub(super) fn credit_messages(&mut self, key: StreamKey) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        let Some(half) = &mut stream.recv else { return };
        let Some(receiver) = &mut half.messages else { return };
        let consumed = receiver.take_consumed();
        half.window.consume(consumed);
        if half.wants_more() {
            stream.owe(owes::MAX_DATA, &mut self.control);
        }
        self.limits.consume(consumed);
    }

    /// After anything happened to a sending half: the queues, and with messages their outcomes and deadlines,
    /// room, the end.
    pub(super) fn review(&mut self, key: StreamKey) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        let channel = stream.channel();
        let Some(half) = &mut stream.send else { return };
        let ended = half.state != SendState::Open;
        if let Some(at) = half.marks.next.take_if(|_| ended) {
            if stream.own.is_none() {
                self.tally.announce((at, key), false);
            }
        }
        let is_short = half.refused && half.state == SendState::Open && half.outcomes.len() < MAX_OUTCOMES;
        let has_own = is_short && half.is_roomy(self.config.send_buffer);
        let Some(sender) = &mut half.messages else { return self.refresh(key) };
        let given_up = half.state == SendState::Reset;
        let finished = half.state == SendState::Finishing && sender.is_done();
        let writable = has_own && self.store.has_room(sender.queued());
        let deadline = sender.deadline();
        let quiet = half.outcomes.is_empty();
        while let Some(settled) = sender.next_settled() {
            if let Some(deadline) = settled.deadline {
                self.tally.fulfil(channel, deadline, key, settled.ticket);
                self.tally.crowding.count(settled.crowded_out, settled.hit);
            }
            half.outcomes.push_back((settled.ticket, settled.outcome));
        }
        let outcome = quiet && !half.outcomes.is_empty();
        half.refused &= !writable;
        if finished {
            half.state = SendState::Finished;
        }
        if has_own && !writable {
            stream.wait_for_room(&mut self.store);
        }
        for (is, event) in [(writable, told::WRITABLE), (outcome, told::OUTCOME), (finished, told::FINISHED)]
        {
            if is {
                stream.tell(event, &mut self.events);
            }
        }
        if stream.deadline != deadline {
            if let Some(at) = stream.deadline {
                self.deadlines.remove(&(at, key));
            }
            stream.deadline = deadline;
            self.deadlines.extend(deadline.map(|at| (at, key)));
        }
        self.refresh(key);
        if given_up {
            self.go_on_with_reset(key);
        }
    }

    /// Of a half of messages that was given up behind one of them.
    fn go_on_with_reset(&mut self, key: StreamKey) {
        self.tell_reset(key);
        if let Some(half) = self.slab.get_mut(key).and_then(|stream| stream.send.as_mut()) {
            half.end_reset();
            self.settle(key);
        }
    }
}

impl Stream {
    /// Where a stream of messages stands that has this much of the connection's credit.
    pub(super) fn want_messages(&self, credit: u64) -> Option<Want> {
        Some(self.send.as_ref()?.messages.as_ref()?.want(credit))
    }
}

impl RecvHalf {
    /// Carries messages from now on; what came in STREAM frames until now is records.
    pub(super) fn become_messages(&mut self, max_record: u64) {
        let mut receiver = RecordReceiver::new(max_record, self.window.size());
        // The errors that this could bring are those of the application's records, and told when they are
        // read; what came is within the limits already.
        for (offset, bytes) in self.assembler.drain() {
            let _ = receiver.on_stream(Time::ZERO, offset, false, &bytes, &bytes);
        }
        if let Some(size) = self.final_size {
            let _ = match (self.reset, self.reliable) {
                (Some(_), Some(reliable)) => receiver.on_reset_at(size, reliable),
                (Some(_), None) => receiver.on_reset(size),
                (None, _) => receiver.on_stream(Time::ZERO, size, true, &[], &Bytes::new()),
            };
        }
        // What a reset dropped was consumed then.
        receiver.was_consumed(self.window.consumed());
        self.assembler.clear();
        self.messages = Some(Box::new(receiver));
    }
}

/// What both sides agreed on about records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records {
    /// The longest that we take; without an offer of ours, of those that come in STREAM frames.
    pub(super) ours: u64,
    pub(super) offered: bool,
    /// The longest that the peer takes, if it knows fenced streams.
    pub(super) theirs: Option<u64>,
    /// Whether it does is not known yet: early data.
    careful: bool,
}

impl Records {
    pub(super) fn new(ours: Option<u64>) -> Self {
        Self { ours: ours.unwrap_or(DEFAULT_RECORD), offered: ours.is_some(), theirs: None, careful: false }
    }

    /// What the peer takes is not known, and messages are sent all the same.
    pub(super) fn be_careful(&mut self) {
        self.careful = true;
    }

    /// Now it is. True when it was not.
    pub(super) fn end_care(&mut self) -> bool {
        std::mem::take(&mut self.careful)
    }

    /// FS-1: both sides offered fenced streams.
    fn agreed(self) -> bool {
        self.offered && self.theirs.is_some()
    }

    /// How we send records, for all data of a stream (FS-21), and the longest.
    pub(super) fn sending(self) -> (RecordMode, u64) {
        let mode = if self.agreed() { RecordMode::Frames } else { RecordMode::Plain };
        // FS-2, FS-8: no peer that takes messages takes only shorter ones.
        let unknown = if self.careful { LEAST_RECORD } else { DEFAULT_RECORD };
        (mode, self.theirs.unwrap_or(unknown).min(varint::MAX - RECORD_PREFIX))
    }
}

/// The longest record where no one said, in bytes of payload.
const DEFAULT_RECORD: u64 = 64 << 10;

/// FS-2: what every peer takes that knows fenced streams, in bytes of payload.
const LEAST_RECORD: u64 = 1200;

/// Outcomes that wait for the application, per stream; with more no message is taken.
pub(super) const MAX_OUTCOMES: usize = 65_536;
