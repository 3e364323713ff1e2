use bytes::Bytes;
use quickset_base::Time;
use quickset_wire::StreamId;

use super::super::Connection;
use crate::streams::{Message, Outcome, ReadError, SendError, Ticket, UnknownStream};

/// Sends and receives the messages of a fenced stream (`spec/fenced-streams.md`).
///
/// [`Connection::messages`] lends it, whether there is such a stream or not: that the verbs tell.
#[derive(Debug)]
pub struct Messages<'a> {
    pub(super) conn: &'a mut Connection,
    pub(super) id: StreamId,
}

impl Messages<'_> {
    /// Reads and writes a stream that the peer opened as messages. Whether it is one is for the application
    /// protocol to know.
    ///
    /// # Errors
    /// When there is no such stream, or bytes of it were read or written already.
    pub fn begin(&mut self) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.messages(self.id).begin()
    }

    /// Tells the peer of a stream of messages before there is one to send; without this it learns of the
    /// stream with the first message. No effect once something was sent.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn announce(&mut self) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.messages(self.id).announce()
    }

    /// Sends a message. A message whose `deadline` cannot be met is dropped before it is sent, or abandoned
    /// once it is lost. Of the messages that wait between two fences, that with the closest deadline goes
    /// first, also before the rest of a long one that was begun; those without go in the order of sending
    /// behind those with.
    ///
    /// # Errors
    /// When it is longer than the peer takes, or the stream has ended.
    pub fn send(&mut self, now: Time, message: Bytes, deadline: Option<Time>) -> Result<Ticket, SendError> {
        self.conn.common.now = now.max(self.conn.common.now);
        self.conn.pay_for(message.len());
        self.conn.traffic.streams.messages(self.id).send(message, deadline)
    }

    /// Messages sent from here on are delivered after all those sent before.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn fence(&mut self) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.messages(self.id).fence(self.conn.common.now)
    }

    /// With `ordered`, every message is followed by a fence: delivery in the order of sending.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn set_ordered(&mut self, ordered: bool) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.messages(self.id).set_ordered(ordered)
    }

    /// Without `resend`, *latest* order: a message of which anything is lost is given up at once, and its
    /// outcome [`Outcome::Abandoned`] is the notice by which the sender encodes afresh what is still wanted
    /// of it. With it, as at the start, what is lost is sent again. It holds for losses from now on; to a
    /// peer that does not know fenced streams everything that was begun is sent again all the same.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn set_resend(&mut self, resend: bool) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.messages(self.id).set_resend(resend)
    }

    /// With `first_come`, messages go in the order of sending, whatever their deadlines: these only say when
    /// a message is given up. To be said before the first message with a deadline; after it, it changes
    /// nothing.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn set_first_come(&mut self, first_come: bool) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.messages(self.id).set_first_come(first_come)
    }

    /// Says when the next message of the stream will be sent, for those who decide whether to protect this
    /// one; `None`: that is not known. Forgotten with the next message. It promises nothing.
    ///
    /// # Errors
    /// When there is no such stream of messages.
    pub fn next_send_at(&mut self, at: Option<Time>) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.messages(self.id).expect(at)
    }

    /// The message is outdated: what was not sent of it is not sent, what is lost is not resent.
    pub fn supersede(&mut self, ticket: Ticket) -> bool {
        self.conn.traffic.streams.messages(self.id).supersede(ticket, self.conn.common.now)
    }

    /// The next message that its fences let go.
    ///
    /// # Errors
    /// When the peer gave the stream up, or there is no such stream of messages.
    pub fn recv(&mut self, now: Time) -> Result<Option<Message>, ReadError> {
        self.conn.common.now = now.max(self.conn.common.now);
        self.conn.traffic.streams.messages(self.id).next().map_err(|error| self.conn.refused(self.id, error))
    }

    /// What became of a message sent, in the order in which that was learnt. [`Outcome::Recovered`] is
    /// delivered too; [`Outcome::Dropped`] was given up before anything of it was sent,
    /// [`Outcome::Abandoned`] after that.
    pub fn next_outcome(&mut self) -> Option<(Ticket, Outcome)> {
        self.conn.traffic.streams.messages(self.id).next_outcome()
    }
}
