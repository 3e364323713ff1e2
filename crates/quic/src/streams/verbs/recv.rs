//! What the application does with the receiving half of a stream.

use quickset_wire::StreamId;

use super::super::event::{Chunk, Piece, ReadError, UnknownStream};
use super::super::recv::RecvHalf;
use super::super::{Streams, owes, told};

/// The receiving half of a stream, if there is one.
#[derive(Debug)]
pub(crate) struct RecvVerbs<'a> {
    streams: &'a mut Streams,
    id: StreamId,
}

impl Streams {
    /// What can be done with the receiving half of a stream.
    #[inline]
    pub(crate) fn receiving(&mut self, id: StreamId) -> RecvVerbs<'_> {
        RecvVerbs { streams: self, id }
    }
}

impl RecvVerbs<'_> {
    /// The next bytes of a stream in order, up to `max` of them, as they lie in memory.
    pub(crate) fn read(&mut self, max: usize) -> Result<Chunk, ReadError> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(ReadError::UnknownStream)?;
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
                stream.owe(owes::MAX_DATA, &mut self.streams.control);
            }
            self.streams.limits.consume(n);
            return Ok(Chunk::Data(bytes));
        }
        if let Some(code) = half.reset.filter(|_| !half.awaits_rest()) {
            half.read = true;
            self.streams.was_read(key);
            return Err(ReadError::Reset(code));
        }
        if half.is_complete() && !half.assembler.is_readable() {
            half.read = true;
            self.streams.was_read(key);
            return Ok(Chunk::Finished);
        }
        // Who reads none of it waits for whatever comes, the end behind unread bytes among it.
        half.waiting = max == 0 || !half.assembler.is_readable();
        Ok(Chunk::Blocked)
    }

    /// From now on the stream is read by [`read_unordered`](Self::read_unordered); nothing may have been read
    /// before.
    pub(crate) fn as_unordered(&mut self) -> Result<(), UnknownStream> {
        let (_, stream) = self.streams.slab.by_id_mut(self.id).ok_or(UnknownStream)?;
        let half = stream.recv.as_mut().filter(|half| half.is_unread() && half.messages.is_none());
        half.ok_or(UnknownStream)?.assembler.loosen();
        Ok(())
    }

    /// Bytes that came, up to `max` of them, each once, in any order.
    pub(crate) fn read_unordered(&mut self, max: usize) -> Result<Piece, ReadError> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(ReadError::UnknownStream)?;
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
                stream.owe(owes::MAX_DATA, &mut self.streams.control);
            }
            self.streams.limits.consume(n + dropped);
            return Ok(Piece::Data { offset, bytes });
        }
        if let Some(code) = half.reset.filter(|_| !half.awaits_rest()) {
            half.read = true;
            self.streams.was_read(key);
            return Err(ReadError::Reset(code));
        }
        if half.is_complete() && max > 0 {
            half.read = true;
            self.streams.was_read(key);
            return Ok(Piece::Finished);
        }
        half.waiting = max > 0;
        Ok(Piece::Blocked)
    }

    /// Wants no more of a stream: the peer is asked to stop, and whatever comes is dropped.
    pub(crate) fn stop(&mut self, code: u64) -> Result<(), UnknownStream> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(UnknownStream)?;
        let half =
            stream.recv.as_mut().filter(|half| !half.read && half.stopped.is_none()).ok_or(UnknownStream)?;
        half.stopped = Some(code);
        let dropped = half.abandon();
        stream.events &= !(told::READABLE | told::MESSAGE);
        // RFC 9000 §3.5: nothing to ask for when the end is known.
        if half.final_size.is_none() {
            stream.owe(owes::STOP, &mut self.streams.control);
        }
        self.streams.limits.consume(dropped);
        self.streams.settle(key);
        Ok(())
    }

    /// What comes on the stream may ask for more than others do.
    pub(crate) fn set_charged(&mut self) {
        // One that is over has nothing more to come.
        if let Some(half) = self.half() {
            half.charged = true;
        }
    }

    /// Something of the stream, which is the peer's, came as early data.
    pub(crate) fn note_early(&mut self) {
        self.streams.limits.theirs(self.id.dir()).note_early(self.id.index());
        if let Some(half) = self.half() {
            half.early = true;
        }
    }

    fn half(&mut self) -> Option<&mut RecvHalf> {
        self.streams.slab.by_id_mut(self.id)?.1.recv.as_mut()
    }
}
