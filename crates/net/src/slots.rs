//! Streams that the application has handles of: what these wait for and have to be told.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::task::Waker;

use quickset_quic::{MessageStats, StreamId, StreamIdHasher};

use crate::queue::OutcomeQueue;
use crate::tickets::OutcomeTickets;
use crate::wakers::Crowd;

/// The slots by stream. Streams come and go with each request, in ascending order.
pub(crate) type StreamSlots = HashMap<StreamId, StreamSlot, BuildHasherDefault<StreamIdHasher>>;

/// What the handles of a stream wait for and have to be told.
#[derive(Debug, Default)]
pub(crate) struct StreamSlot {
    /// Handles alive: one for each direction, one for each ticket, and one for the outcomes.
    pub(crate) handles: usize,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    /// Tasks that wait for the end of the sending half.
    pub(crate) fate: Crowd,
    pub(crate) finished: bool,
    pub(crate) stopped: Option<u64>,
    /// It was reset, and what was promised of it has arrived.
    pub(crate) given_up: bool,
    /// The task that waits until so many bytes, or less, are unsent.
    pub(crate) drain: Option<(u64, Waker)>,
    /// Of a stream of messages that were sent.
    sent: Option<Box<SentMessages>>,
}

/// What there is to know of the messages that were sent on a stream.
#[derive(Debug, Default)]
pub(crate) struct SentMessages {
    pub(crate) tickets: OutcomeTickets,
    /// As of the last outcome: the stream may be let go with it.
    pub(crate) stats: MessageStats,
    /// Outcomes for whoever wants all of them; without anybody there is none.
    pub(crate) outcomes: Option<OutcomeQueue>,
}

impl StreamSlot {
    /// What is known of its messages, if any were sent.
    pub(crate) fn sent(&mut self) -> Option<&mut SentMessages> {
        self.sent.as_deref_mut()
    }

    /// The same when somebody has to know.
    pub(crate) fn sent_or_new(&mut self) -> &mut SentMessages {
        self.sent.get_or_insert_with(Box::default)
    }

    /// What its messages had come to when the last outcome was told.
    pub(crate) fn message_stats(&self) -> Option<MessageStats> {
        self.sent.as_ref().map(|sent| sent.stats)
    }

    /// Nothing is sent any more: whoever waits for that, or waits in vain now, looks again.
    pub(crate) fn sending_over(&mut self, woken: &mut Vec<Waker>) {
        woken.extend(self.writer.take());
        woken.extend(self.drain.take().map(|(_, waker)| waker));
        self.fate.drain_to(woken);
        if let Some(queue) = self.sent().and_then(|sent| sent.outcomes.as_mut()) {
            queue.wake(woken);
        }
    }

    /// The connection is over.
    pub(crate) fn all_over(&mut self, woken: &mut Vec<Waker>) {
        woken.extend(self.reader.take());
        self.sending_over(woken);
        if let Some(sent) = self.sent() {
            sent.tickets.wake(woken);
        }
    }
}
