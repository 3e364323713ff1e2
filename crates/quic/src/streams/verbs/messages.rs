//! What the application does with a stream of messages.

use bytes::Bytes;
use quickset_base::Time;
use quickset_wire::StreamId;

use super::super::event::{ReadError, SendError, SendState, UnknownStream};
use super::super::fenced::{Message, Outcome, RecordFault, RecordSender, Ticket};
use super::super::messages::MAX_OUTCOMES;
use super::super::{Streams, told};
use crate::packet::StreamKey;

/// A stream of messages, if it is one.
#[derive(Debug)]
pub(crate) struct MessageVerbs<'a> {
    streams: &'a mut Streams,
    id: StreamId,
}

impl Streams {
    /// What can be done with a stream of messages.
    #[inline]
    pub(crate) fn messages(&mut self, id: StreamId) -> MessageVerbs<'_> {
        MessageVerbs { streams: self, id }
    }
}

impl MessageVerbs<'_> {
    /// Makes both halves of a stream carry messages. Which streams do is for the application protocol to
    /// say; nothing may have been written or read before.
    pub(crate) fn begin(&mut self) -> Result<(), UnknownStream> {
        let (mode, longest) = self.streams.records.sending();
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(UnknownStream)?;
        // A half that the peer stopped before anything was written stands in nobody's way.
        let sendable = stream.send.as_ref().is_none_or(|half| half.is_unwritten() || half.messages.is_some());
        let readable = stream.recv.as_ref().is_none_or(|half| half.is_unread() || half.messages.is_some());
        if !sendable || !readable {
            return Err(UnknownStream);
        }
        if let Some(half) = stream.send.as_mut().filter(|half| half.is_unused()) {
            let mut sender = RecordSender::new(key, self.id, mode, longest);
            sender.set_max(half.credit.limit());
            half.messages = Some(Box::new(sender));
        }
        if let Some(half) = stream.recv.as_mut().filter(|half| half.messages.is_none()) {
            half.become_messages(self.streams.records.ours);
            stream.events &= !told::READABLE;
            half.waiting = true;
            self.streams.note_bytes(key, false);
            self.streams.received_messages(key);
        }
        Ok(())
    }

    /// Queues a message. With a `deadline` it is dropped, or given up when it is lost, once it cannot be
    /// there in time.
    pub(crate) fn send(&mut self, message: Bytes, deadline: Option<Time>) -> Result<Ticket, SendError> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(SendError::UnknownStream)?;
        let half = stream.send.as_mut().ok_or(SendError::UnknownStream)?;
        match (half.state, half.stopped) {
            (SendState::Open, _) => {}
            (_, Some(code)) => return Err(SendError::Stopped(code)),
            (_, None) => return Err(SendError::Ended),
        }
        let sender = half.messages.as_mut().ok_or(SendError::Bytes)?;
        // The end of time is as good as none.
        let deadline = deadline.filter(|at| *at != Time::MAX);
        let crowded = self.streams.store.room(sender.queued()) == 0;
        if crowded
            || sender.queued() >= self.streams.config.send_buffer
            || half.outcomes.len() >= MAX_OUTCOMES
        {
            half.refused = true;
            if crowded {
                stream.wait_for_room(&mut self.streams.store);
            }
            return Err(SendError::Blocked);
        }
        let ticket = sender.push(message, deadline)?;
        let next = half.marks.next.take();
        if let (Some(at), None) = (next, &stream.own) {
            self.streams.tally.announce((at, key), false);
        }
        self.streams.promise(key, deadline, ticket, true);
        self.streams.review(key);
        Ok(ticket)
    }

    /// Messages sent from here on are delivered after those sent before.
    pub(crate) fn fence(&mut self, now: Time) -> Result<(), UnknownStream> {
        let (key, sender) = self.sender().ok_or(UnknownStream)?;
        sender.fence();
        self.streams.cross(key, now);
        Ok(())
    }

    /// Total order: a fence after each message, or an end of that.
    pub(crate) fn set_ordered(&mut self, ordered: bool) -> Result<(), UnknownStream> {
        self.sender().map(|(_, sender)| sender.set_ordered(ordered)).ok_or(UnknownStream)
    }

    /// Whether what is lost of a message is sent again. Without it the message is given up at once.
    pub(crate) fn set_resend(&mut self, resend: bool) -> Result<(), UnknownStream> {
        self.sender().map(|(_, sender)| sender.set_give_up_lost(!resend)).ok_or(UnknownStream)
    }

    /// Whether messages that no packet holds are split into packets of equal size.
    pub(crate) fn set_even(&mut self, even: bool) -> Result<(), UnknownStream> {
        self.sender().map(|(_, sender)| sender.set_even(even)).ok_or(UnknownStream)
    }

    /// Whether messages go as they come, whatever their deadlines. No effect any more once one with a
    /// deadline was sent.
    pub(crate) fn set_first_come(&mut self, first_come: bool) -> Result<(), UnknownStream> {
        self.sender().map(|(_, sender)| sender.set_first_come(first_come)).ok_or(UnknownStream)
    }

    /// Lets the peer know of the stream before there is a message.
    pub(crate) fn announce(&mut self) -> Result<(), UnknownStream> {
        let (key, sender) = self.sender().ok_or(UnknownStream)?;
        sender.open();
        self.streams.review(key);
        Ok(())
    }

    /// Something newer takes the place of a message; false when that changes nothing any more.
    pub(crate) fn supersede(&mut self, ticket: Ticket, now: Time) -> bool {
        let Some((key, sender)) = self.sender() else { return false };
        let deadline = sender.deadline_of(ticket);
        let changed = sender.supersede(ticket);
        if changed {
            // Nobody waits for it any more.
            self.streams.promise(key, deadline, ticket, false);
        }
        self.streams.review(key);
        self.streams.cross(key, now);
        changed
    }

    /// The next message that fences do not hold; `None` when there is none yet.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, ReadError> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(ReadError::UnknownStream)?;
        let half = stream.recv.as_mut().ok_or(ReadError::UnknownStream)?;
        if half.read || half.stopped.is_some() {
            return Err(ReadError::UnknownStream);
        }
        let receiver = half.messages.as_mut().ok_or(ReadError::Bytes)?;
        if let Some(message) = receiver.next() {
            self.streams.credit_messages(key);
            return Ok(Some(message));
        }
        let reset = half.reset.filter(|_| !receiver.awaits_rest());
        let end = match (reset, receiver.fault()) {
            (Some(code), _) => ReadError::Reset(code),
            // The stream goes on; the application will stop it, with a code of its own.
            (None, Some(RecordFault::TooLong)) => return Err(ReadError::TooLong),
            (None, Some(RecordFault::Truncated)) => ReadError::Truncated,
            (None, None) if receiver.is_finished() => ReadError::Finished,
            (None, None) => {
                half.waiting = true;
                return Ok(None);
            }
        };
        half.read = true;
        self.streams.was_read(key);
        Err(end)
    }

    /// What became of a message, once for each.
    pub(crate) fn next_outcome(&mut self) -> Option<(Ticket, Outcome)> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id)?;
        let half = stream.send.as_mut()?;
        let outcome = half.outcomes.pop_front();
        if half.outcomes.is_empty() {
            stream.events &= !told::OUTCOME;
            self.streams.review(key);
            self.streams.settle(key);
        }
        outcome
    }

    fn sender(&mut self) -> Option<(StreamKey, &mut RecordSender)> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id)?;
        Some((key, stream.send.as_mut()?.messages.as_mut()?))
    }

    /// The next message of a stream will be sent at this time; forgotten when one is.
    pub(crate) fn expect(&mut self, at: Option<Time>) -> Result<(), UnknownStream> {
        let (key, stream) = self.streams.slab.by_id_mut(self.id).ok_or(UnknownStream)?;
        let half = stream.send.as_mut().filter(|half| half.messages.is_some()).ok_or(UnknownStream)?;
        if half.state != SendState::Open {
            return Ok(());
        }
        let before = std::mem::replace(&mut half.marks.next, at);
        if stream.own.is_none() {
            for (at, is_open) in before.map(|at| (at, false)).into_iter().chain(at.map(|at| (at, true))) {
                self.streams.tally.announce((at, key), is_open);
            }
        }
        Ok(())
    }
}
