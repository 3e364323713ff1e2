//! What the application does with streams.

use bytes::{Buf, Bytes};
use quickset_base::number::index;
use quickset_sched::Priority;
use quickset_wire::{Dir, StreamId};

use super::event::{
    Chunk, FinishError, Piece, ReadError, RecvState, ResetAtError, SendState, StreamEvent, UnknownStream,
    WriteError,
};
use super::{Streams, Ticket, due, news, owes, told};
use crate::packet::StreamKey;

impl Streams {
    /// Opens a stream, or `None` when the peer allows no more; [`StreamEvent::Available`] tells when.
    pub(crate) fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let ours = &mut self.ours[dir as usize];
        let Some(index) = ours.open() else {
            // RFC 9000 §4.6: the peer is told once for each limit.
            if ours.credit.is_unreported() {
                self.due |= due::STREAMS_BLOCKED << dir as u8;
            }
            return None;
        };
        let id = StreamId::new(self.side, dir, index);
        self.create(id);
        Some(id)
    }

    /// The next stream that the peer opened, in the order of ids.
    pub(crate) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let index = self.theirs[dir as usize].accept()?;
        let id = StreamId::new(!self.side, dir, index);
        let (key, stream) = self.slab.by_id_mut(id).expect("a stream keeps its slot until it is accepted");
        stream.accepted = true;
        if stream.events == 0 {
            // It may have been read, or given up, to its end before.
            self.settle(key);
        } else {
            stream.tell(0, &mut self.events);
        }
        Some(id)
    }

    /// Takes bytes from the front of `data`, as many as the send buffer has room for, without a copy.
    pub(crate) fn write(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        let (key, stream) = self.slab.by_id_mut(id).ok_or(WriteError::UnknownStream)?;
        let half = stream.send.as_mut().ok_or(WriteError::UnknownStream)?;
        half.is_writable()?;
        if !data.has_remaining() {
            return Ok(0);
        }
        let queued = half.buffer.queued();
        let (own, all) = (self.config.send_buffer.saturating_sub(queued), self.store.room(queued));
        if own == 0 || all == 0 {
            half.refused = true;
            if own > 0 {
                stream.wait_for_room(&mut self.store);
            }
            return Err(WriteError::Blocked);
        }
        let n = index(own.min(all).min(data.len() as u64));
        half.buffer.push(data.split_to(n));
        self.refresh(key);
        Ok(n)
    }

    /// Ends a stream behind what was written; [`StreamEvent::Finished`] tells when all has arrived.
    pub(crate) fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        let (key, stream) = self.slab.by_id_mut(id).ok_or(FinishError::UnknownStream)?;
        let half = stream.send.as_mut().ok_or(FinishError::UnknownStream)?;
        match (half.state, half.stopped) {
            (SendState::Open, _) => {}
            (_, Some(code)) => return Err(FinishError::Stopped(code)),
            (_, None) => return Err(FinishError::Ended),
        }
        half.finish();
        self.review(key);
        Ok(())
    }

    /// Gives up sending (RFC 9000 §11.2); what is under way may or may not arrive. No effect on a half that
    /// is through.
    pub(crate) fn reset(&mut self, id: StreamId, code: u64) -> Result<(), UnknownStream> {
        let (key, stream) = self.slab.by_id_mut(id).ok_or(UnknownStream)?;
        let half = stream.send.as_mut().ok_or(UnknownStream)?;
        if half.reset(code) {
            stream.owe(owes::RESET, &mut self.control);
            self.review(key);
        }
        Ok(())
    }

    /// Gives up sending behind the first `reliable` bytes, which arrive. No effect on a half that is through,
    /// or when as little or less was promised before.
    pub(crate) fn reset_at(&mut self, id: StreamId, code: u64, reliable: u64) -> Result<(), ResetAtError> {
        let (key, stream) = self.slab.by_id_mut(id).ok_or(ResetAtError::UnknownStream)?;
        let half = stream.send.as_mut().ok_or(ResetAtError::UnknownStream)?;
        if half.messages.is_some() {
            return Err(ResetAtError::Messages);
        }
        if !self.initial.reset_at {
            return Err(ResetAtError::Unsupported);
        }
        let plain = reliable.min(half.buffer.end()) == 0;
        if half.reset_at(code, reliable) {
            if plain {
                stream.owe(owes::RESET, &mut self.control);
            }
            self.tell_reset(key);
            self.review(key);
        }
        Ok(())
    }

    /// Gives up the messages behind one, which arrives like those before it. No effect on a half that was
    /// given up.
    pub(crate) fn reset_behind(&mut self, id: StreamId, code: u64, last: Ticket) -> Result<(), ResetAtError> {
        let (key, stream) = self.slab.by_id_mut(id).ok_or(ResetAtError::UnknownStream)?;
        let half = stream.send.as_mut().ok_or(ResetAtError::UnknownStream)?;
        if half.messages.is_none() {
            return Err(ResetAtError::Bytes);
        }
        if !self.initial.reset_at {
            return Err(ResetAtError::Unsupported);
        }
        if half.reset_behind(code, last) {
            self.review(key);
        }
        Ok(())
    }

    /// The peer takes RESET_STREAM_AT.
    pub(crate) fn has_reset_at(&self) -> bool {
        self.initial.reset_at
    }

    /// Wants no more of a stream: the peer is asked to stop, and whatever comes is dropped.
    pub(crate) fn stop(&mut self, id: StreamId, code: u64) -> Result<(), UnknownStream> {
        let (key, stream) = self.slab.by_id_mut(id).ok_or(UnknownStream)?;
        let half =
            stream.recv.as_mut().filter(|half| !half.read && half.stopped.is_none()).ok_or(UnknownStream)?;
        half.stopped = Some(code);
        let dropped = half.abandon();
        stream.events &= !(told::READABLE | told::MESSAGE);
        // RFC 9000 §3.5: nothing to ask for when the end is known.
        if half.final_size.is_none() {
            stream.owe(owes::STOP, &mut self.control);
        }
        self.consume(dropped);
        self.settle(key);
        Ok(())
    }

    /// The next bytes of a stream in order, up to `max` of them, as they lie in memory.
    pub(crate) fn read(&mut self, id: StreamId, max: usize) -> Result<Chunk, ReadError> {
        let (key, stream) = self.slab.by_id_mut(id).ok_or(ReadError::UnknownStream)?;
        let half = stream.recv.as_mut().ok_or(ReadError::UnknownStream)?;
        if half.read || half.stopped.is_some() {
            return Err(ReadError::UnknownStream);
        }
        if half.messages.is_some() {
            return Err(ReadError::Messages);
        }
        if half.assembler.is_loose() {
            return Err(ReadError::Unordered);
        }
        if let Some(bytes) = half.assembler.pop(max) {
            let n = bytes.len() as u64;
            half.window.consume(n);
            if half.wants_more() {
                stream.owe(owes::MAX_DATA, &mut self.control);
            }
            self.consume(n);
            return Ok(Chunk::Data(bytes));
        }
        if let Some(code) = half.reset.filter(|_| !half.awaits_rest()) {
            half.read = true;
            self.was_read(key);
            return Err(ReadError::Reset(code));
        }
        if half.is_complete() && !half.assembler.is_readable() {
            half.read = true;
            self.was_read(key);
            return Ok(Chunk::Finished);
        }
        // Who reads none of it waits for whatever comes, the end behind unread bytes among it.
        half.waiting = max == 0 || !half.assembler.is_readable();
        Ok(Chunk::Blocked)
    }

    /// From now on the stream is read by [`read_unordered`](Self::read_unordered); nothing may have been read
    /// before.
    pub(crate) fn as_unordered(&mut self, id: StreamId) -> Result<(), UnknownStream> {
        let (_, stream) = self.slab.by_id_mut(id).ok_or(UnknownStream)?;
        let half = stream.recv.as_mut().filter(|half| half.is_unread() && half.messages.is_none());
        half.ok_or(UnknownStream)?.assembler.loosen();
        Ok(())
    }

    /// Bytes that came, up to `max` of them, each once, in any order.
    pub(crate) fn read_unordered(&mut self, id: StreamId, max: usize) -> Result<Piece, ReadError> {
        let (key, stream) = self.slab.by_id_mut(id).ok_or(ReadError::UnknownStream)?;
        let half = stream.recv.as_mut().ok_or(ReadError::UnknownStream)?;
        if half.read || half.stopped.is_some() {
            return Err(ReadError::UnknownStream);
        }
        // A reset leaves nothing of how it was read.
        if !half.assembler.is_loose() && half.reset.is_none() {
            return Err(if half.messages.is_some() { ReadError::Messages } else { ReadError::Ordered });
        }
        if let Some((offset, bytes)) = half.assembler.pop_loose(max) {
            let n = bytes.len() as u64;
            half.window.consume(n);
            let over = half.reliable.is_some() && !half.awaits_rest();
            let dropped = if over { half.drop_rest() } else { 0 };
            if half.wants_more() {
                stream.owe(owes::MAX_DATA, &mut self.control);
            }
            self.consume(n + dropped);
            return Ok(Piece::Data { offset, bytes });
        }
        if let Some(code) = half.reset.filter(|_| !half.awaits_rest()) {
            half.read = true;
            self.was_read(key);
            return Err(ReadError::Reset(code));
        }
        if half.is_complete() && max > 0 {
            half.read = true;
            self.was_read(key);
            return Ok(Piece::Finished);
        }
        half.waiting = max > 0;
        Ok(Piece::Blocked)
    }

    /// Sets whose data goes first: 0 is the most urgent, 7 the least; greater numbers count as 7.
    pub(crate) fn set_urgency(&mut self, id: StreamId, urgency: u8) -> Result<(), UnknownStream> {
        self.change_priority(id, |priority| Priority { critical: false, ..priority.urgency(urgency) })
    }

    /// Puts a stream before all urgencies, until it gets one.
    pub(crate) fn set_critical(&mut self, id: StreamId) -> Result<(), UnknownStream> {
        self.change_priority(id, Priority::critical)
    }

    /// What is written to a stream from here on goes along with whatever leaves.
    pub(crate) fn set_piggyback(&mut self, id: StreamId) -> Result<(), UnknownStream> {
        let key = self.slab.key(id).ok_or(UnknownStream)?;
        self.slab.get_mut(key).ok_or(UnknownStream)?.piggyback = true;
        self.refresh(key);
        Ok(())
    }

    /// Sets whether it takes turns with others of its urgency.
    pub(crate) fn set_incremental(&mut self, id: StreamId, incremental: bool) -> Result<(), UnknownStream> {
        self.change_priority(id, |priority| Priority { incremental, ..priority })
    }

    /// Bytes sent so far that use up the credit of the connection.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that may be written now and go out without waiting for credit; none for messages.
    pub(crate) fn send_credit(&self, id: StreamId) -> Option<u64> {
        let half = self.slab.get(self.slab.key(id)?)?.send.as_ref()?;
        if half.messages.is_some() || half.state != SendState::Open {
            return None;
        }
        let own = half.credit.limit().saturating_sub(half.buffer.end());
        let all = (self.credit.limit() - self.sent).saturating_sub(half.buffer.unsent());
        Some(own.min(all))
    }

    /// So many streams of the peer's may be open at a time from now on.
    pub(crate) fn set_max_streams(&mut self, dir: Dir, most: u64) {
        if self.theirs[dir as usize].set_most(most) {
            self.due |= due::MAX_STREAMS << dir as u8;
        }
    }

    /// The receive window of the connection has so many bytes from now on, but the longest record fits.
    pub(crate) fn set_connection_window(&mut self, bytes: u64) {
        if self.window.set_size(bytes.max(self.config.least_window)) {
            self.due |= due::MAX_DATA;
        }
    }

    /// How many streams the peer may have opened so far, by what it was told.
    pub(crate) fn max_peer_streams(&self, dir: Dir) -> u64 {
        self.theirs[dir as usize].advertised()
    }

    /// How far the sending half has come; `None` when there is none, or not any more.
    pub(crate) fn send_state(&self, id: StreamId) -> Option<SendState> {
        Some(self.slab.get(self.slab.key(id)?)?.send.as_ref()?.state)
    }

    /// How far the receiving half has come; `None` when there is none, or not any more.
    pub(crate) fn recv_state(&self, id: StreamId) -> Option<RecvState> {
        Some(self.slab.get(self.slab.key(id)?)?.recv.as_ref()?.state())
    }

    /// The next thing to tell the application. A stream that is over is let go with its last event, so
    /// events are to be collected even by those who do not care.
    pub(crate) fn next_event(&mut self) -> Option<StreamEvent> {
        if self.news != 0 {
            return Some(self.next_news());
        }
        while let Some(&key) = self.events.front() {
            let event = self.slab.get_mut(key).and_then(|stream| {
                let bit = stream.events & stream.events.wrapping_neg();
                stream.events &= !bit;
                stream.listed = stream.events != 0;
                stream.event(bit)
            });
            if self.slab.get(key).is_none_or(|stream| !stream.listed) {
                self.events.pop_front();
                self.settle(key);
            }
            if event.is_some() {
                return event;
            }
        }
        None
    }

    fn next_news(&mut self) -> StreamEvent {
        let bit = self.news & self.news.wrapping_neg();
        self.news &= !bit;
        match bit {
            news::OPENED => StreamEvent::Opened(Dir::Bi),
            news::AVAILABLE => StreamEvent::Available(Dir::Bi),
            bit if bit == news::OPENED << 1 => StreamEvent::Opened(Dir::Uni),
            _ => StreamEvent::Available(Dir::Uni),
        }
    }

    /// The application knows the end of the receiving half.
    pub(super) fn was_read(&mut self, key: StreamKey) {
        if let Some(stream) = self.slab.get_mut(key) {
            stream.events &= !(told::READABLE | told::MESSAGE);
        }
        self.settle(key);
    }
}

impl super::Stream {
    fn event(&self, bit: u8) -> Option<StreamEvent> {
        Some(match bit {
            told::READABLE => StreamEvent::Readable(self.id),
            told::WRITABLE => StreamEvent::Writable(self.id),
            told::STOPPED => StreamEvent::Stopped { id: self.id, code: self.send.as_ref()?.stopped? },
            told::MESSAGE => StreamEvent::Message(self.id),
            told::OUTCOME => StreamEvent::Outcome(self.id),
            told::FINISHED => StreamEvent::Finished(self.id),
            told::RESET => StreamEvent::ResetArrived(self.id),
            _ => return None,
        })
    }
}
