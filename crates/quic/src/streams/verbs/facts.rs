//! What there is to know of a stream.

use quickset_sched::Priority;
use quickset_wire::StreamId;

use super::super::event::{RecvState, SendState};
use super::super::fenced::MessageStats;
use super::super::recv::RecvHalf;
use super::super::send::SendHalf;
use super::super::{Class, Stream, Streams};

/// A stream, if there is one.
#[derive(Debug)]
pub(crate) struct StreamFacts<'a> {
    streams: &'a Streams,
    id: StreamId,
}

impl Streams {
    /// What there is to know of a stream.
    #[inline]
    pub(crate) fn of(&self, id: StreamId) -> StreamFacts<'_> {
        StreamFacts { streams: self, id }
    }
}

impl<'a> StreamFacts<'a> {
    /// How far the sending half has come; `None` when there is none, or not any more.
    pub(crate) fn send_state(&self) -> Option<SendState> {
        self.send().map(|half| half.state)
    }

    /// How far the receiving half has come; `None` when there is none, or not any more.
    pub(crate) fn recv_state(&self) -> Option<RecvState> {
        self.recv().map(RecvHalf::state)
    }

    /// Bytes that may be written now and go out without waiting for credit; none for messages.
    pub(crate) fn send_credit(&self) -> Option<u64> {
        let half = self.send()?;
        if half.messages.is_some() || half.state != SendState::Open {
            return None;
        }
        let own = half.credit.limit().saturating_sub(half.buffer.end());
        let all = self.streams.limits.free().saturating_sub(half.buffer.unsent());
        Some(own.min(all))
    }

    /// Bytes that are yet to be sent, for the first time or again; `None` without a sending half.
    pub(crate) fn unsent(&self) -> Option<u64> {
        self.send().map(SendHalf::left)
    }

    /// What a stream is among its siblings; of a stream that sends nothing, the default.
    pub(crate) fn priority(&self) -> Option<Priority> {
        let stream = self.stream()?;
        let priority = stream.class.and_then(|class| self.streams.turns.priority(class));
        Some(priority.unwrap_or(Priority::weighted(1.0)))
    }

    /// The classes that a stream hangs under, from the first below the connection; of a stream that sends
    /// nothing, none.
    pub(crate) fn class(&self) -> Option<Vec<Class>> {
        let stream = self.stream()?;
        Some(stream.class.map(|class| self.streams.turns.path(class)).unwrap_or_default())
    }

    /// What the messages sent on a stream have come to so far.
    pub(crate) fn message_stats(&self) -> Option<MessageStats> {
        let half = self.send()?;
        half.messages.as_ref().map(|sender| sender.stats())
    }

    /// Something of the stream, which is the peer's, came as early data. Of a stream that is over and
    /// forgotten only a bound is known; if in doubt, it did come early.
    pub(crate) fn came_early(&self) -> bool {
        self.streams.limits.may_be_early(self.id) && self.recv().is_none_or(|half| half.early)
    }

    /// The stream was among those that [`reset_all`](Streams::reset_all) gave up.
    pub(crate) fn was_reset(&self) -> bool {
        self.streams.limits.was_given_up(self.id)
    }

    /// Whether what comes on the stream may ask for more than others do.
    pub(crate) fn is_charged(&self) -> bool {
        self.recv().is_some_and(|half| half.charged)
    }

    fn stream(&self) -> Option<&'a Stream> {
        self.streams.slab.get(self.streams.slab.key(self.id)?)
    }

    fn send(&self) -> Option<&'a SendHalf> {
        self.stream()?.send.as_ref()
    }

    fn recv(&self) -> Option<&'a RecvHalf> {
        self.stream()?.recv.as_ref()
    }
}
