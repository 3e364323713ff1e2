use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use quickset_quic::{Outcome, StreamId, Ticket as TicketId};

use crate::budget::poll_budget;
use crate::queue::OutcomeQueue;
use crate::shared::{HandlesOwner, LockedState};
use crate::slots::StreamSlot;
use crate::wakers::TaskId;

/// What becomes of all messages of a stream, in the order in which it is learnt: one task for many messages,
/// where awaiting each [`Ticket`](crate::MessageTicket) would take a task for each.
///
/// It tells of what is settled from [`outcomes`](crate::MessageSender::outcomes) on. Whoever keeps it has to
/// take what it tells: with 65,536 outcomes that nobody has taken, the stream takes no more messages.
pub struct Outcomes {
    owner: Arc<HandlesOwner>,
    id: StreamId,
    /// Where the task waits that asked last.
    place: TaskId,
}

impl Outcomes {
    pub(crate) fn new(owner: Arc<HandlesOwner>, id: StreamId) -> Self {
        {
            let mut state = owner.shared.lock();
            state.hold(id, 1);
            let sent = state.slot(id).sent_or_new();
            sent.outcomes.get_or_insert_with(OutcomeQueue::default).handles += 1;
        }
        Self { owner, id, place: TaskId::default() }
    }

    /// The next message of which it is known what became of it, by the [id](crate::MessageTicket::id) of its
    /// ticket; `None` when the stream or the connection has ended and all is told. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Option<(TicketId, Outcome)> {
        poll_fn(|cx| {
            let coop = ready!(poll_budget(cx));
            let next = self.take(Some(cx));
            if next.is_ready() {
                coop.made_progress();
            }
            next
        })
        .await
    }

    /// The next one if it is known already.
    pub fn try_next(&mut self) -> Option<(TicketId, Outcome)> {
        match self.take(None) {
            Poll::Ready(next) => next,
            Poll::Pending => None,
        }
    }

    fn take(&mut self, cx: Option<&Context<'_>>) -> Poll<Option<(TicketId, Outcome)>> {
        let mut woken = Vec::new();
        let mut state = self.owner.shared.lock();
        let mut next = state.next_outcome(self.id);
        if next.is_none() {
            // What this queue had no room for, if there is any.
            state.settle(self.id, &mut woken);
            next = state.next_outcome(self.id);
        }
        let waits = next.is_none() && !state.is_through(self.id);
        let waiting = state.queue(self.id).zip(cx).filter(|_| waits);
        let old = waiting.and_then(|(queue, cx)| queue.waiting.add(&mut self.place, cx));
        drop(state);
        drop(old);
        if !woken.is_empty() {
            // There may be room for messages again.
            self.owner.shared.nudge();
            woken.into_iter().for_each(Waker::wake);
        }
        if waits { Poll::Pending } else { Poll::Ready(next) }
    }
}

impl LockedState {
    fn queue(&mut self, id: StreamId) -> Option<&mut OutcomeQueue> {
        self.streams.get_mut(&id)?.sent()?.outcomes.as_mut()
    }

    fn next_outcome(&mut self, id: StreamId) -> Option<(TicketId, Outcome)> {
        self.queue(id)?.known.pop_front()
    }
}

impl Drop for Outcomes {
    fn drop(&mut self) {
        let (mut woken, mut old) = (Vec::new(), None);
        let mut state = self.owner.shared.lock();
        if let Some(sent) = state.streams.get_mut(&self.id).and_then(StreamSlot::sent) {
            if let Some(queue) = &mut sent.outcomes {
                old = queue.waiting.leave(&mut self.place);
                queue.handles -= 1;
                if queue.handles == 0 {
                    sent.outcomes = None;
                }
            }
        }
        // Tickets wait for what it had no room for.
        state.settle(self.id, &mut woken);
        state.release(self.id);
        drop(state);
        drop(old);
        woken.into_iter().for_each(Waker::wake);
        self.owner.shared.nudge();
    }
}

impl fmt::Debug for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcomes").field("id", &self.id).finish_non_exhaustive()
    }
}
