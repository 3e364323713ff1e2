//! Frames about streams, as they come.

use bytes::Bytes;
use quickset_base::Time;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, StreamId, TransportErrorCode as Code, varint};

use super::work::steps_to_give_up;
use super::{SendState, Streams, news, owes, told};
use crate::TransportError;
use crate::packet::{RoomView, StreamKey};

impl Streams {
    /// Acts on a frame about streams or their credit; `payload` is the packet's, in which data lies.
    ///
    /// # Errors
    /// What the peer did wrong; the connection is to be closed with it.
    #[inline]
    pub(crate) fn on_frame(
        &mut self,
        frame: &Frame<'_>,
        payload: &Bytes,
        view: &RoomView,
    ) -> Result<(), TransportError> {
        let result = match *frame {
            Frame::Stream { id, offset, fin, data } => {
                self.on_stream(Stretch { id, offset, fin, data, payload }, view.now)
            }
            Frame::Fenced { id, .. } | Frame::Abandon { id, .. } => {
                self.on_messages(id, frame, payload, view.now)
            }
            _ => self.on_rare(frame),
        };
        result.map_err(|error| error.in_frame(frame.kind()))
    }

    /// Whether the peer has something to send that would have come by now: the answer to a request that was
    /// made, the rest of what brings much, or credit that holds us up. Streams that are open for whatever may
    /// come some day are none of these, nor are those that wait for us.
    pub(crate) fn awaits(&self) -> bool {
        if self.is_blocked() || self.limits.is_out_of_streams() {
            return true;
        }
        self.slab.iter().any(|(_, stream)| {
            if stream.send.as_ref().is_some_and(|half| half.is_sending() && half.is_starved()) {
                return true;
            }
            let Some(half) = stream.recv.as_ref() else { return false };
            let is_over = half.is_deaf() || half.is_complete() || half.highest >= half.window.limit();
            let is_answer = stream.send.as_ref().is_none_or(|send| send.state != SendState::Open);
            !is_over && (half.highest >= MUCH || (stream.id.dir() == Dir::Bi && is_answer))
        })
    }

    fn on_rare(&mut self, frame: &Frame<'_>) -> Result<(), TransportError> {
        match *frame {
            Frame::ResetStream { id, code, final_size } => self.on_reset(id, code, final_size, 0),
            Frame::ResetStreamAt { id, code, final_size, reliable_size } => {
                if !self.config.reset_at {
                    // An unknown frame, to those who did not offer it.
                    return Err(TransportError::new(
                        Code::FRAME_ENCODING_ERROR,
                        "RESET_STREAM_AT was not offered",
                    ));
                }
                self.on_reset(id, code, final_size, reliable_size)
            }
            Frame::StopSending { id, code } => self.on_stop(id, code),
            Frame::MaxData(max) => {
                self.raise_credit(max);
                Ok(())
            }
            Frame::MaxStreamData { id, max } => self.on_max_stream_data(id, max),
            Frame::MaxStreams { dir, max } => {
                self.allow(dir, max);
                Ok(())
            }
            // Our windows follow what the application reads; a peer that is blocked changes nothing in that.
            Frame::StreamDataBlocked { id, .. } => self.locate(id, StreamHalf::Recv).map(|_| ()),
            Frame::DataBlocked(_) => Ok(()),
            Frame::StreamsBlocked { dir, limit } => {
                self.limits.peer_is_out_of_streams(dir, limit);
                Ok(())
            }
            _ => {
                debug_assert!(false, "{frame:?} is not about streams");
                Ok(())
            }
        }
    }

    /// A STREAM frame.
    pub(crate) fn on_stream(&mut self, stretch: Stretch<'_>, now: Time) -> Result<(), TransportError> {
        let Stretch { id, offset, fin, data, payload } = stretch;
        // RFC 9000 §19.8: no offset beyond 2^62 - 1.
        let end = offset.saturating_add(data.len() as u64);
        if end > varint::MAX {
            return Err(TransportError::new(Code::FRAME_ENCODING_ERROR, "stream data beyond 2^62 - 1"));
        }
        let Some(key) = self.locate(id, StreamHalf::Recv)? else { return Ok(()) };
        let Some(stream) = self.slab.get_mut(key) else { return Ok(()) };
        let Some(half) = &mut stream.recv else { return Ok(()) };
        if !half.plain {
            half.plain = true;
            if half.messages.is_none() {
                // Only now is it known what the stream carries; from here on as before.
                self.note_bytes(key, true);
                return self.on_stream(stretch, now);
            }
        }
        half.window.arrived(now);
        self.limits.arrived(now);
        if half.is_deaf() {
            return self.dropped(key, end, fin);
        }
        if half.messages.is_some() {
            half.within_credit(end)?;
        }
        if let Some(receiver) = &mut half.messages {
            let growth = receiver.on_stream(now, offset, fin, data, payload)?;
            self.grow(key, growth)?;
            self.received_messages(key);
            return Ok(());
        }
        let growth = half.admit(end, fin)?;
        self.limits.admit(growth)?;
        half.highest += growth;
        let mut news = fin && half.final_size.is_none();
        if fin {
            half.final_size = Some(end);
        }
        news = half.data(offset, data, payload)? || (news && half.is_complete());
        let over = half.reset.is_some() && !half.awaits_rest();
        let dropped = if over { half.drop_rest() } else { 0 };
        if news && half.waiting {
            half.waiting = false;
            stream.tell(told::READABLE, &mut self.events);
        }
        if over {
            self.limits.consume(dropped);
        }
        Ok(())
    }

    fn on_reset(
        &mut self,
        id: StreamId,
        code: u64,
        final_size: u64,
        reliable: u64,
    ) -> Result<(), TransportError> {
        let Some(key) = self.locate(id, StreamHalf::Recv)? else { return Ok(()) };
        let Some(stream) = self.slab.get_mut(key) else { return Ok(()) };
        let Some(half) = &mut stream.recv else { return Ok(()) };
        let growth = half.admit(final_size, true)?;
        self.limits.allows(growth)?;
        let more = half.reliable.unwrap_or(0);
        // draft-ietf-quic-reliable-stream-reset §5.2.
        if half.reset.is_some_and(|before| before != code) && (reliable > 0 || more > 0) {
            return Err(TransportError::new(Code::STREAM_STATE_ERROR, "the code of a reset changed"));
        }
        // RFC 9000 §3.2: a reset behind all the data may be ignored; the application gets the data. So may
        // one that promises no less than another before, or that comes when all of that is there.
        if half.is_complete() || (half.reset.is_some() && (reliable >= more || !half.awaits_rest())) {
            return Ok(());
        }
        if stream.send.as_ref().is_none_or(|half| half.stopped.is_none()) {
            self.owed.steps += steps_to_give_up(id);
        }
        let reliable = (reliable > 0 && half.stopped.is_none()).then_some(reliable);
        half.reliable = reliable;
        if let Some(receiver) = &mut half.messages {
            let growth = match reliable {
                Some(reliable) => receiver.on_reset_at(final_size, reliable)?,
                // FS-59: what fences let go before can still be read.
                None => receiver.on_reset(final_size)?,
            };
            half.reset = Some(code);
            self.grow(key, growth)?;
            self.received_messages(key);
            return Ok(());
        }
        // RFC 9000 §4.4: what was never sent of it counts as received, so that both sides count alike.
        self.limits.admit(growth)?;
        half.highest += growth;
        half.final_size = Some(final_size);
        if half.awaits_rest() {
            half.reset = Some(code);
            return Ok(());
        }
        let dropped = if reliable.is_some() { half.drop_rest() } else { half.abandon() };
        if half.stopped.is_none() {
            half.reset = Some(code);
            half.waiting = false;
            stream.tell(told::READABLE, &mut self.events);
        }
        self.limits.consume(dropped);
        self.settle(key);
        Ok(())
    }

    fn on_stop(&mut self, id: StreamId, code: u64) -> Result<(), TransportError> {
        let Some(key) = self.locate(id, StreamHalf::Send)? else { return Ok(()) };
        let Some(stream) = self.slab.get_mut(key) else { return Ok(()) };
        let Some(half) = &mut stream.send else { return Ok(()) };
        if half.state == SendState::Reset {
            // draft-ietf-quic-reliable-stream-reset §5.4: nothing more needs to arrive.
            if half.reset(code) {
                stream.owe(owes::RESET, &mut self.control);
                self.review(key);
            }
            return Ok(());
        }
        // RFC 9000 §3.5, FS-61: answered by RESET_STREAM with the same code, and nothing else.
        if half.reset(code) {
            // Once for both of its directions.
            if stream.recv.as_ref().is_none_or(|half| half.reset.is_none()) {
                self.owed.steps += steps_to_give_up(id);
            }
            half.stopped = Some(code);
            stream.owe(owes::RESET, &mut self.control);
            stream.events &= !told::WRITABLE;
            stream.tell(told::STOPPED, &mut self.events);
            self.review(key);
        }
        Ok(())
    }

    fn on_max_stream_data(&mut self, id: StreamId, max: u64) -> Result<(), TransportError> {
        let Some(key) = self.locate(id, StreamHalf::Send)? else { return Ok(()) };
        let Some(stream) = self.slab.get_mut(key) else { return Ok(()) };
        if stream.send.as_mut().is_some_and(|half| half.raise(max)) {
            self.refresh(key);
            self.tell_credit(key);
        }
        Ok(())
    }

    /// The slot of a stream that a frame names, which opens it if it is the peer's to open. `None` when the
    /// stream is over: frames may come late.
    #[inline]
    pub(super) fn locate(
        &mut self,
        id: StreamId,
        half: StreamHalf,
    ) -> Result<Option<StreamKey>, TransportError> {
        let ours = id.initiator() == self.side;
        // RFC 9000 §3.3, §19.4 to §19.13: frames for the half that a unidirectional stream does not have.
        if id.dir() == Dir::Uni && ours == (half == StreamHalf::Recv) {
            return Err(TransportError::new(Code::STREAM_STATE_ERROR, "the stream has no such half"));
        }
        let key = self.slab.key(id);
        if key.is_some() {
            return Ok(key);
        }
        self.locate_unknown(id, ours)
    }

    #[cold]
    fn locate_unknown(&mut self, id: StreamId, ours: bool) -> Result<Option<StreamKey>, TransportError> {
        for opened in self.limits.opened_by(id)? {
            self.create(opened);
            if self.limits.theirs(opened.dir()).open_next() {
                self.news |= news::OPENED << opened.dir() as u8;
            }
        }
        if !ours {
            // With fewer left than half, those closed before count.
            self.limits.note_closed(id.dir());
        }
        Ok(self.slab.key(id))
    }
}

/// Stream data as it came.
#[derive(Clone, Copy)]
pub(crate) struct Stretch<'a> {
    pub(crate) id: StreamId,
    pub(crate) offset: u64,
    pub(crate) fin: bool,
    pub(crate) data: &'a [u8],
    /// Of the packet, of which the data is a part.
    pub(crate) payload: &'a Bytes,
}

/// Which half a frame is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamHalf {
    Send,
    Recv,
}

/// More than the control streams of protocols bring, which stay open and are silent for hours.
const MUCH: u64 = 16 << 10;
