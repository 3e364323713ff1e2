use std::collections::VecDeque;
use std::task::Waker;

use quickset_quic::{Outcome, Ticket as TicketId};

use crate::wakers::Crowd;

/// Outcomes that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct OutcomeQueue {
    pub(crate) known: VecDeque<(TicketId, Outcome)>,
    pub(crate) waiting: Crowd,
    /// Handles of it.
    pub(crate) handles: usize,
}

impl OutcomeQueue {
    /// There is room for no more.
    pub(crate) fn is_full(&self) -> bool {
        self.known.len() >= ROOM
    }

    /// A message's fate is known; whoever waits for it is among the `woken`.
    pub(crate) fn push(&mut self, ticket: TicketId, outcome: Outcome, woken: &mut Vec<Waker>) {
        self.known.push_back((ticket, outcome));
        self.wake(woken);
    }

    /// Whoever waits looks again.
    pub(crate) fn wake(&mut self, woken: &mut Vec<Waker>) {
        self.waiting.drain_to(woken);
    }
}

/// Outcomes kept here; the rest stays with the connection, which has room for 65,536 and then takes no
/// messages.
const ROOM: usize = 1024;
