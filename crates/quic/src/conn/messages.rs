use bytes::Bytes;
use quickset_base::Time;
use quickset_wire::{Dir, StreamId};

use super::Connection;
use crate::streams::{Message, MessageStats, Outcome, ReadError, SendError, Ticket, UnknownStream};

/// Messages: fenced streams (`spec/fenced-streams.md`).
impl Connection {
    /// Opens a stream of messages.
    pub fn open_messages(&mut self, dir: Dir) -> Option<StreamId> {
        self.traffic.streams.open_messages(dir)
    }

    /// Reads and writes a stream that the peer opened as messages. Whether it is one is for the application
    /// protocol to know.
    ///
    /// # Errors
    /// When there is no such stream, or bytes of it were read or written already.
    pub fn as_messages(&mut self, id: StreamId) -> Result<(), UnknownStream> {
        self.traffic.streams.as_messages(id)
    }

    /// Tells the peer of a stream of messages before there is one to send; without this it learns of the
    /// stream with the first message. No effect once something was sent.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn announce(&mut self, id: StreamId) -> Result<(), UnknownStream> {
        self.traffic.streams.announce(id)
    }

    /// Sends a message. A message whose `deadline` cannot be met is dropped before it is sent, or abandoned
    /// once it is lost. Of the messages that wait between two fences, that with the closest deadline goes
    /// first, also before the rest of a long one that was begun; those without go in the order of sending
    /// behind those with.
    ///
    /// # Errors
    /// When it is longer than the peer takes, or the stream has ended.
    pub fn send(
        &mut self,
        now: Time,
        id: StreamId,
        message: Bytes,
        deadline: Option<Time>,
    ) -> Result<Ticket, SendError> {
        self.common.now = now.max(self.common.now);
        self.pay_for(message.len());
        self.traffic.streams.send_message(id, message, deadline)
    }

    /// Messages sent from here on are delivered after all those sent before.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn fence(&mut self, id: StreamId) -> Result<(), UnknownStream> {
        self.traffic.streams.fence(id, self.common.now)
    }

    /// With `ordered`, every message is followed by a fence: delivery in the order of sending.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn set_ordered(&mut self, id: StreamId, ordered: bool) -> Result<(), UnknownStream> {
        self.traffic.streams.set_ordered(id, ordered)
    }

    /// Without `resend`, *latest* order: a message of which anything is lost is given up at once, and its
    /// outcome [`Outcome::Abandoned`] is the notice by which the sender encodes afresh what is still wanted
    /// of it. With it, as at the start, what is lost is sent again. It holds for losses from now on; to a
    /// peer that does not know fenced streams everything that was begun is sent again all the same.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn set_resend(&mut self, id: StreamId, resend: bool) -> Result<(), UnknownStream> {
        self.traffic.streams.set_resend(id, resend)
    }

    /// With `first_come`, messages go in the order of sending, whatever their deadlines: these only say when
    /// a message is given up. To be said before the first message with a deadline; after it, it changes
    /// nothing.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn set_first_come(&mut self, id: StreamId, first_come: bool) -> Result<(), UnknownStream> {
        self.traffic.streams.set_first_come(id, first_come)
    }

    /// What the messages sent on a stream have come to so far; `None` when there is no such stream of
    /// messages, or not any more: with its last event, or outcome, a stream that is over is let go.
    pub fn message_stats(&self, id: StreamId) -> Option<MessageStats> {
        self.traffic.streams.message_stats(id)
    }

    /// Says when the next message of the stream will be sent, for those who decide whether to protect this
    /// one; `None`: that is not known. Forgotten with the next message. It promises nothing.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn next_message_at(&mut self, id: StreamId, at: Option<Time>) -> Result<(), UnknownStream> {
        self.traffic.streams.next_message_at(id, at)
    }

    /// The message is outdated: what was not sent of it is not sent, what is lost is not resent.
    pub fn supersede(&mut self, id: StreamId, ticket: Ticket) -> bool {
        self.traffic.streams.supersede(id, ticket, self.common.now)
    }

    /// The next message that its fences let go.
    ///
    /// # Errors
    /// When the peer gave the stream up, or there is no such stream of messages.
    pub fn next_message(&mut self, now: Time, id: StreamId) -> Result<Option<Message>, ReadError> {
        self.common.now = now.max(self.common.now);
        self.traffic.streams.next_message(id).map_err(|error| self.refused(id, error))
    }

    /// What became of a message sent, in the order in which that was learnt. [`Outcome::Recovered`] is
    /// delivered too; [`Outcome::Dropped`] was given up before anything of it was sent,
    /// [`Outcome::Abandoned`] after that.
    pub fn next_outcome(&mut self, id: StreamId) -> Option<(Ticket, Outcome)> {
        self.traffic.streams.next_outcome(id)
    }
}
