use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quickset_base::Time;
use quickset_quic::{
    self as quic, Class, ClassError, FinishError, MessageStats, Outcome, Priority, Protection, ResetAtError,
    StreamId, Ticket as TicketId,
};

use crate::budget::poll_budget;
use crate::error::{SendError, TrySendError, WriteError};
use crate::line::Clock;
use crate::outcomes::Outcomes;
use crate::reliability::Reliability;
use crate::shared::HandlesOwner;
use crate::slots::StreamSlot;
use crate::wakers::WakerSeat;

/// Sends messages on a stream. Each message arrives whole. Messages between two [fences](Self::fence) are
/// delivered in whatever order they arrive, and no message crosses a fence.
///
/// Dropping the sender finishes the stream like [`finish`](Self::finish), unless it was reset: messages sent
/// so far are still delivered.
pub struct MessageSender {
    owner: Arc<HandlesOwner>,
    id: StreamId,
    /// How long messages without a deadline of their own are of use.
    within: Option<Duration>,
}

/// A handle of a message that was sent. It tells what becomes of the message. Dropping it changes nothing.
pub struct MessageTicket {
    owner: Arc<HandlesOwner>,
    id: StreamId,
    name: TicketId,
}

/// The time by which a message must have arrived to be of use, or by which a datagram must have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// So long after it was given to be sent.
    After(Duration),
    /// At this time.
    At(Instant),
}

/// When a message has to be there, and when the one behind it comes.
#[derive(Clone, Copy, Debug)]
struct When {
    deadline: Option<Time>,
    next: Option<Time>,
}

impl MessageSender {
    /// Of a stream that is held for it.
    pub(crate) fn new(owner: Arc<HandlesOwner>, id: StreamId) -> Self {
        Self { owner, id, within: None }
    }

    /// The id of the stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Returns the same sender with this [`Reliability`].
    #[must_use]
    pub fn with(mut self, reliability: impl Into<Reliability>) -> Self {
        let reliability = reliability.into();
        self.within = reliability.deadline();
        self.set_protection(reliability.protection());
        self
    }

    /// Sends a message without copying it. The call waits until the send buffer has room. If the future is
    /// dropped before it is ready, the message was not sent.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(&mut self, message: Bytes) -> Result<MessageTicket, SendError> {
        let deadline = self.within.map(|within| self.owner.shared.now() + within);
        poll_fn(|cx| self.poll_send(cx, &message, When { deadline, next: None })).await
    }

    /// Sends a message that is of use only until `deadline`. If the deadline cannot be met, the message is
    /// dropped before it is sent, or given up once it is lost.
    ///
    /// The time begins with this call: waiting for room is part of it.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_by(&mut self, message: Bytes, deadline: Deadline) -> Result<MessageTicket, SendError> {
        let deadline = deadline.time(&self.owner.shared.line.clock);
        poll_fn(|cx| self.poll_send(cx, &message, When { deadline: Some(deadline), next: None })).await
    }

    /// Does what [`send_by`](Self::send_by) does, and says in the same step when the next message will be
    /// sent. If [`next_message_at`](Self::next_message_at) were called later, this message might already
    /// have left, with repair that it did not need.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_before(
        &mut self,
        message: Bytes,
        deadline: Deadline,
        next: Instant,
    ) -> Result<MessageTicket, SendError> {
        let clock = &self.owner.shared.line.clock;
        let when = When { deadline: Some(deadline.time(clock)), next: Some(clock.time(next)) };
        poll_fn(|cx| self.poll_send(cx, &message, when)).await
    }

    /// Sends a message if there is room for it now.
    ///
    /// # Errors
    /// See [`TrySendError`], which returns a message for which there is no room.
    pub fn try_send(
        &mut self,
        message: Bytes,
        deadline: Option<Deadline>,
    ) -> Result<MessageTicket, TrySendError> {
        let deadline = deadline.or(self.within.map(Deadline::After));
        let deadline = deadline.map(|deadline| deadline.time(&self.owner.shared.line.clock));
        match self.take(&message, When { deadline, next: None }, None) {
            Poll::Ready(result) => result.map_err(TrySendError::Failed),
            Poll::Pending => Err(TrySendError::Full(message)),
        }
    }

    /// Sets a fence: messages sent after it are delivered after all messages sent before it.
    pub fn fence(&mut self) {
        // On a stream that has ended there is nothing left to fence.
        let _ = self.owner.shared.lock().conn.messages(self.id).fence();
        self.owner.shared.nudge();
    }

    /// Sets whether every message is followed by a fence. If so, messages are delivered in the order in which
    /// they were sent.
    pub fn set_ordered(&mut self, ordered: bool) {
        let _ = self.owner.shared.lock().conn.messages(self.id).set_ordered(ordered);
        self.owner.shared.nudge();
    }

    /// Tells the peer of the stream before there is a message on it.
    pub fn announce(&mut self) {
        let _ = self.owner.shared.lock().conn.messages(self.id).announce();
        self.owner.shared.nudge();
    }

    /// Sets whether lost messages are sent again; they are unless told otherwise.
    ///
    /// If not, a message is abandoned as soon as a part of it is lost. Its outcome tells the sender to
    /// send newer content instead. A screen that is sent so is said to be in the order *latest*.
    pub fn set_resend(&mut self, resend: bool) {
        let _ = self.owner.shared.lock().conn.messages(self.id).set_resend(resend);
        self.owner.shared.nudge();
    }

    /// Sets the priority of the stream among its siblings; see
    /// [`SendStream::set_priority`](crate::SendStream::set_priority).
    pub fn set_priority(&mut self, priority: Priority) {
        let _ = self.owner.shared.lock().conn.send_stream(self.id).set_priority(priority);
        self.owner.shared.nudge();
    }

    /// Puts the stream into the last of these classes; see
    /// [`SendStream::set_class`](crate::SendStream::set_class).
    ///
    /// # Errors
    /// See [`SendStream::set_class`](crate::SendStream::set_class).
    pub fn set_class(&mut self, path: &[Class]) -> Result<(), ClassError> {
        let result = self.owner.shared.lock().conn.send_stream(self.id).set_class(path);
        self.owner.shared.nudge();
        result
    }

    /// Sets how urgent the messages are: 0 (most) to 7 (least), 3 unless told otherwise. Less urgent data
    /// waits for more urgent data.
    pub fn set_urgency(&mut self, urgency: u8) {
        let _ = self.owner.shared.lock().conn.send_stream(self.id).set_urgency(urgency);
        self.owner.shared.nudge();
    }

    /// Sets how messages are protected against loss from now on; see [`Protection`]. Messages sent before may
    /// gain by it too. Without [`has_fec`](crate::Connection::has_fec) it has no effect.
    pub fn set_protection(&mut self, protection: &Protection) {
        // A stream that is through has nothing to protect.
        let _ = self.owner.shared.lock().conn.send_stream(self.id).set_protection(protection);
        self.owner.shared.nudge();
    }

    /// Says that the application now waits for an answer to the messages sent so far, so that protection may
    /// add repair behind them. Each fence says so already.
    pub fn flush(&mut self) {
        let _ = self.owner.shared.lock().conn.send_stream(self.id).flush();
        self.owner.shared.nudge();
    }

    /// Says when the next message will be sent, if that is known. If that is soon enough, repair for
    /// the last message can go along with the next one; if not, it is sent at once.
    ///
    /// This is a hint and no promise. It holds until the next message.
    pub fn next_message_at(&mut self, at: Option<Instant>) {
        let shared = &self.owner.shared;
        let at = at.map(|at| shared.line.clock.time(at));
        let _ = shared.lock().conn.messages(self.id).next_send_at(at);
        shared.nudge();
    }

    /// Returns the length of the longest message that the peer takes, in bytes.
    pub fn max_len(&self) -> u64 {
        self.owner.shared.lock().conn.max_message_len()
    }

    /// Returns how many bytes of messages wait to be sent, for the first time or again.
    pub fn unsent(&self) -> u64 {
        self.owner.shared.lock().conn.stream(self.id).unsent().unwrap_or(0)
    }

    /// Waits until at most `bytes` bytes are [unsent](Self::unsent). Encode the newest content
    /// then: what is encoded earlier grows old in the buffer. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn drained_to(&mut self, bytes: u64) -> Result<(), SendError> {
        poll_fn(|cx| {
            let mut state = self.owner.shared.lock();
            if let Some(closed) = state.closed() {
                return Poll::Ready(Err(SendError::Closed(closed)));
            }
            if state.conn.stream(self.id).unsent().is_none_or(|unsent| unsent <= bytes) {
                return Poll::Ready(Ok(()));
            }
            state.await_drain(self.id, bytes, cx);
            Poll::Pending
        })
        .await
    }

    /// Returns how many messages arrived in time, late, or not at all. It covers all messages once
    /// [`finished`](Self::finished) has returned.
    pub fn stats(&self) -> MessageStats {
        let state = self.owner.shared.lock();
        let kept = || state.streams.get(&self.id).and_then(StreamSlot::message_stats);
        state.conn.stream(self.id).message_stats().or_else(kept).unwrap_or_default()
    }

    /// Sets whether messages leave in the order in which they were sent. Deadlines then only say when a
    /// message is given up. Otherwise the message with the closest deadline leaves first.
    ///
    /// Call this before the first message with a deadline.
    pub fn set_first_come(&mut self, first_come: bool) {
        // One that is through sends no more messages.
        let _ = self.owner.shared.lock().conn.messages(self.id).set_first_come(first_come);
    }

    /// Returns the outcomes of all messages from here on, in the order in which they are learnt.
    pub fn outcomes(&self) -> Outcomes {
        Outcomes::new(self.owner.clone(), self.id)
    }

    /// The same as [`MessageTicket::supersede`], without the ticket.
    pub fn supersede(&mut self, ticket: TicketId) -> bool {
        self.owner.supersede(self.id, ticket)
    }

    /// Ends the stream behind the messages sent so far. The call does not wait: see
    /// [`finished`](Self::finished).
    ///
    /// # Errors
    /// When the stream has ended already, or the connection.
    pub fn finish(&mut self) -> Result<(), SendError> {
        let mut state = self.owner.shared.lock();
        if let Some(closed) = state.closed() {
            return Err(SendError::Closed(closed));
        }
        let result = match state.conn.send_stream(self.id).finish() {
            Ok(()) => Ok(()),
            Err(FinishError::Stopped(code)) => Err(SendError::Stopped(code)),
            Err(FinishError::Ended | FinishError::UnknownStream) => Err(state.ended(self.id).into()),
        };
        drop(state);
        self.owner.shared.nudge();
        result
    }

    /// Waits until the outcome of every message is known and the peer knows of the end. Without
    /// [`finish`](Self::finish) it waits for the end of the connection.
    ///
    /// # Errors
    /// When the peer wants no more, the stream was reset, or the connection ended before.
    pub async fn finished(&self) -> Result<(), SendError> {
        self.owner.finished(self.id).await.map_err(SendError::from)
    }

    /// Gives up the stream. Messages that have not arrived are no longer sent, and the peer is told `code`.
    pub fn reset(&mut self, code: u64) {
        let mut woken = Vec::new();
        let mut state = self.owner.shared.lock();
        // A stream that is through needs no reset.
        let _ = state.conn.send_stream(self.id).reset(code);
        if let Some(slot) = state.streams.get_mut(&self.id) {
            slot.sending_over(&mut woken);
        }
        drop(state);
        self.owner.shared.nudge();
        woken.into_iter().for_each(Waker::wake);
    }

    /// Gives up the messages behind `last`. That message and those before it still arrive, as far as their
    /// deadlines allow, and then the peer is told `code`. All messages have outcomes. [`reset`](Self::reset)
    /// gives up the rest as well.
    ///
    /// # Errors
    /// When the peer takes no such resets, or the stream is through.
    pub fn reset_behind(&mut self, code: u64, last: TicketId) -> Result<(), ResetAtError> {
        let result = self.owner.shared.lock().conn.send_stream(self.id).reset_behind(code, last);
        self.owner.shared.nudge();
        result
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &Bytes,
        when: When,
    ) -> Poll<Result<MessageTicket, SendError>> {
        let coop = ready!(poll_budget(cx));
        let result = self.take(message, when, Some(cx));
        if result.is_ready() {
            coop.made_progress();
        }
        result
    }

    /// Hands a message over; pending when there is no room, and then the task waits for it.
    fn take(
        &mut self,
        message: &Bytes,
        when: When,
        cx: Option<&Context<'_>>,
    ) -> Poll<Result<MessageTicket, SendError>> {
        let shared = &self.owner.shared;
        let now = shared.now();
        let mut state = shared.lock();
        if let Some(closed) = state.closed() {
            return Poll::Ready(Err(SendError::Closed(closed)));
        }
        let result = match state.conn.messages(self.id).send(now, message.clone(), when.deadline) {
            Ok(ticket) => {
                if when.next.is_some() {
                    let _ = state.conn.messages(self.id).next_send_at(when.next);
                }
                let slot = state.streams.entry(self.id).or_default();
                slot.handles += 1;
                slot.sent_or_new().tickets.hold(ticket);
                Ok(MessageTicket { owner: self.owner.clone(), id: self.id, name: ticket })
            }
            Err(quic::SendError::Blocked) => {
                if let Some(cx) = cx {
                    state.await_room(self.id, cx);
                }
                return Poll::Pending;
            }
            Err(quic::SendError::TooLong { max }) => Err(SendError::TooLong { max }),
            Err(quic::SendError::Stopped(code)) => Err(SendError::Stopped(code)),
            Err(quic::SendError::Ended | quic::SendError::Bytes | quic::SendError::UnknownStream) => {
                Err(state.ended(self.id).into())
            }
        };
        drop(state);
        shared.nudge();
        Poll::Ready(result)
    }
}

impl Drop for MessageSender {
    fn drop(&mut self) {
        let mut state = self.owner.shared.lock();
        // One that was finished, reset or stopped is no concern of ours any more.
        let _ = state.conn.send_stream(self.id).finish();
        state.release(self.id);
        drop(state);
        self.owner.shared.nudge();
    }
}

impl MessageTicket {
    /// Waits until it is known what became of the message. The outcome is also [`Outcome::Abandoned`] if the
    /// connection or the stream ends first. Dropping the future loses nothing.
    pub async fn outcome(&self) -> Outcome {
        let seat = WakerSeat::new(
            || self.owner.shared.lock(),
            |state| state.slot(self.id).sent_or_new().tickets.waiting(self.name),
        );
        seat.wait(|state| {
            let known = state.slot(self.id).sent_or_new().tickets.outcome(self.name);
            known.or_else(|| state.closed().map(|_| Outcome::Abandoned))
        })
        .await
    }

    /// Returns the number by which [`Outcomes`] name the message. It is valid after the ticket is gone.
    pub fn id(&self) -> TicketId {
        self.name
    }

    /// The message is outdated: what was not sent of it is not sent, what is lost is not sent again. False
    /// when that changes nothing any more.
    pub fn supersede(&self) -> bool {
        self.owner.supersede(self.id, self.name)
    }
}

impl HandlesOwner {
    fn supersede(&self, id: StreamId, ticket: TicketId) -> bool {
        let changed = self.shared.lock().conn.messages(id).supersede(ticket);
        self.shared.nudge();
        changed
    }
}

impl Drop for MessageTicket {
    fn drop(&mut self) {
        let mut state = self.owner.shared.lock();
        if let Some(sent) = state.streams.get_mut(&self.id).and_then(StreamSlot::sent) {
            sent.tickets.release(self.name);
        }
        state.release(self.id);
    }
}

impl Deadline {
    /// So long after the message was sent.
    pub const fn after(duration: Duration) -> Self {
        Self::After(duration)
    }

    /// At this time.
    pub const fn at(instant: Instant) -> Self {
        Self::At(instant)
    }

    pub(crate) fn time(self, clock: &Clock) -> Time {
        match self {
            Self::After(duration) => clock.now() + duration,
            Self::At(instant) => clock.time(instant),
        }
    }
}

impl From<WriteError> for SendError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(code) => Self::Stopped(code),
            WriteError::Ended => Self::Ended,
            WriteError::Closed(closed) => Self::Closed(closed),
        }
    }
}

impl fmt::Debug for MessageSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageSender").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for MessageTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
