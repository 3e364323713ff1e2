//! What the application does with the sending half of a stream.

use bytes::{Buf, Bytes};
use quickset_base::Time;
use quickset_base::number::index;
use quickset_sched::Priority;
use quickset_wire::StreamId;

use super::super::demand::DemandShare;
use super::super::event::{FinishError, ResetAtError, SendState, UnknownStream, WriteError};
use super::super::{Class, ClassError, Streams, Ticket, owes};
use crate::packet::Channel;

/// The sending half of a stream, if there is one.
#[derive(Debug)]
pub(crate) struct SendVerbs<'a> {
    streams: &'a mut Streams,
    id: StreamId,
}

impl Streams {
    /// What can be done with the sending half of a stream.
    #[inline]
    pub(crate) fn sending(&mut self, id: StreamId) -> SendVerbs<'_> {
        SendVerbs { streams: self, id }
    }
}

impl SendVerbs<'_> {
    /// Takes bytes from the front of `data`, as many as the send buffer has room for, without a copy.
    pub(crate) fn write(&mut self, data: &mut Bytes) -> Result<usize, WriteError> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(WriteError::UnknownStream)?;
        let half = stream.send.as_mut().ok_or(WriteError::UnknownStream)?;
        half.is_writable()?;
        if !data.has_remaining() {
            return Ok(0);
        }
        let queued = half.buffer.queued();
        let (own, all) =
            (self.streams.config.send_buffer.saturating_sub(queued), self.streams.store.room(queued));
        if own == 0 || all == 0 {
            half.refused = true;
            if own > 0 {
                stream.wait_for_room(&mut self.streams.store);
            }
            return Err(WriteError::Blocked);
        }
        let n = index(own.min(all).min(data.len() as u64));
        half.buffer.push(data.split_to(n));
        self.streams.refresh(key);
        Ok(n)
    }

    /// Ends a stream behind what was written; [`StreamEvent::Finished`] tells when all has arrived.
    pub(crate) fn finish(&mut self) -> Result<(), FinishError> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(FinishError::UnknownStream)?;
        let half = stream.send.as_mut().ok_or(FinishError::UnknownStream)?;
        match (half.state, half.stopped) {
            (SendState::Open, _) => {}
            (_, Some(code)) => return Err(FinishError::Stopped(code)),
            (_, None) => return Err(FinishError::Ended),
        }
        half.finish();
        self.streams.review(key);
        Ok(())
    }

    /// Gives up sending (RFC 9000 §11.2); what is under way may or may not arrive. No effect on a half that
    /// is through.
    pub(crate) fn reset(&mut self, code: u64) -> Result<(), UnknownStream> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(UnknownStream)?;
        let half = stream.send.as_mut().ok_or(UnknownStream)?;
        if half.reset(code) {
            stream.owe(owes::RESET, &mut self.streams.control);
            self.streams.review(key);
        }
        Ok(())
    }

    /// Gives up sending behind the first `reliable` bytes, which arrive. No effect on a half that is through,
    /// or when as little or less was promised before.
    pub(crate) fn reset_at(&mut self, code: u64, reliable: u64) -> Result<(), ResetAtError> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(ResetAtError::UnknownStream)?;
        let half = stream.send.as_mut().ok_or(ResetAtError::UnknownStream)?;
        if half.messages.is_some() {
            return Err(ResetAtError::Messages);
        }
        if !self.streams.initial.reset_at {
            return Err(ResetAtError::Unsupported);
        }
        let plain = reliable.min(half.buffer.end()) == 0;
        if half.reset_at(code, reliable) {
            if plain {
                stream.owe(owes::RESET, &mut self.streams.control);
            }
            self.streams.tell_reset(key);
            self.streams.review(key);
        }
        Ok(())
    }

    /// Gives up the messages behind one, which arrives like those before it. No effect on a half that was
    /// given up.
    pub(crate) fn reset_behind(&mut self, code: u64, last: Ticket) -> Result<(), ResetAtError> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(ResetAtError::UnknownStream)?;
        let half = stream.send.as_mut().ok_or(ResetAtError::UnknownStream)?;
        if half.messages.is_none() {
            return Err(ResetAtError::Bytes);
        }
        if !self.streams.initial.reset_at {
            return Err(ResetAtError::Unsupported);
        }
        if half.reset_behind(code, last) {
            self.streams.review(key);
        }
        Ok(())
    }

    /// Sets whose data goes first: 0 is the most urgent, 7 the least; greater numbers count as 7.
    pub(crate) fn set_urgency(&mut self, urgency: u8) -> Result<(), UnknownStream> {
        self.change_priority(|priority| Priority { critical: false, ..priority.urgency(urgency) })
    }

    /// Puts a stream before all urgencies, until it gets one.
    pub(crate) fn set_critical(&mut self) -> Result<(), UnknownStream> {
        self.change_priority(Priority::critical)
    }

    /// What is written to a stream from here on goes along with whatever leaves.
    pub(crate) fn set_piggyback(&mut self) -> Result<(), UnknownStream> {
        let key = self.streams.slab.key(self.id).ok_or(UnknownStream)?;
        self.streams.slab.get_mut(key).ok_or(UnknownStream)?.piggyback = true;
        self.streams.refresh(key);
        Ok(())
    }

    /// Sets whether it takes turns with others of its urgency.
    pub(crate) fn set_incremental(&mut self, incremental: bool) -> Result<(), UnknownStream> {
        self.change_priority(|priority| Priority { incremental, ..priority })
    }

    /// Changes what the stream is among its siblings.
    pub(crate) fn set_priority(&mut self, priority: Priority) -> Result<(), UnknownStream> {
        self.change_priority(|_| priority)
    }

    fn change_priority(&mut self, change: impl FnOnce(Priority) -> Priority) -> Result<(), UnknownStream> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(UnknownStream)?;
        if let Some(class) = stream.class {
            let before = self.streams.turns.priority(class).unwrap_or_default();
            self.streams.turns.set_priority(key, class, stream.has, change(before));
        }
        Ok(())
    }

    /// Hangs a stream under the last of these.
    pub(crate) fn set_class(&mut self, path: &[Class]) -> Result<(), ClassError> {
        let key = self.streams.slab.key(self.id).ok_or(ClassError::UnknownStream)?;
        let stream = self.streams.slab.get(key).ok_or(ClassError::UnknownStream)?;
        stream.class.map_or(Ok(()), |class| self.streams.turns.set_path(class, path))
    }

    /// Gives a stream a channel of its own, or puts it back among the others. Boundaries are counted from
    /// here on. Returns the channel, whether or not it has it now.
    pub(crate) fn own_channel(&mut self, own: bool) -> Result<Channel, UnknownStream> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(UnknownStream)?;
        if stream.own.is_some() == own {
            return Ok(Channel::Stream(key));
        }
        let before = stream.channel();
        stream.own = own.then(Box::default);
        let after = stream.channel();
        if own {
            self.streams.tally.change(stream.share, DemandShare::default());
        } else {
            self.streams.tally.change(DemandShare::default(), stream.share);
        }
        let Some(half) = &mut stream.send else { return Ok(Channel::Stream(key)) };
        if let Some(at) = half.marks.next {
            self.streams.tally.announce((at, key), !own);
        }
        for (deadline, ticket) in half.messages.iter().flat_map(|sender| sender.promised()) {
            self.streams.tally.move_promise(before, after, deadline, key, ticket);
        }
        Ok(Channel::Stream(key))
    }

    /// The application waits for what was written so far: a boundary, as soon as all of it was sent.
    pub(crate) fn flush(&mut self, now: Time) -> Result<(), UnknownStream> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(UnknownStream)?;
        let half = stream.send.as_mut().ok_or(UnknownStream)?;
        if half.state == SendState::Open && half.flush() {
            self.streams.cross(key, now);
        }
        Ok(())
    }

    /// Bytes that may be written and leave soon: as many as the peer has credit for, and there is
    /// room for, of the `reach` bytes that the path takes of all streams. With 0, Writable is told when there
    /// are some.
    pub(crate) fn room(&mut self, reach: u64) -> Result<u64, WriteError> {
        let free = self.streams.limits.free();
        let (_, stream) = self.streams.slab.by_id_mut(self.id).ok_or(WriteError::UnknownStream)?;
        let half = stream.send.as_mut().ok_or(WriteError::UnknownStream)?;
        half.is_writable()?;
        let queued = half.buffer.queued();
        let own = self.streams.config.send_buffer.saturating_sub(queued);
        let credit = half.credit.limit().saturating_sub(half.buffer.end());
        let all = free.saturating_sub(half.buffer.unsent());
        let room = own.min(credit).min(all).min(self.streams.store.room_within(reach, queued));
        if room == 0 {
            half.refused = true;
            if own > 0 && credit > 0 {
                stream.wait_for_room(&mut self.streams.store);
            }
        }
        Ok(room)
    }
}
