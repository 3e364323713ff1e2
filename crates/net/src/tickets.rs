use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use quickset_quic::{Outcome, Ticket};

use crate::wakers::Wakers;

/// What was sent, the messages of a stream or datagrams, whose outcome somebody may still ask for.
#[derive(Debug)]
pub(crate) struct Tickets<K = Ticket, O = Outcome> {
    open: BTreeMap<K, Fate<O>>,
}

#[derive(Debug)]
enum Fate<O> {
    Unknown(Wakers),
    Known(O),
}

impl<K, O> Default for Tickets<K, O> {
    fn default() -> Self {
        Self { open: BTreeMap::new() }
    }
}

impl<K: Ord + Copy, O: Copy> Tickets<K, O> {
    /// There is a handle of the ticket.
    pub(crate) fn hold(&mut self, ticket: K) {
        self.open.insert(ticket, Fate::Unknown(Wakers::default()));
    }

    /// The handle is gone.
    pub(crate) fn release(&mut self, ticket: K) {
        self.open.remove(&ticket);
    }

    /// The outcome is known; whoever waits for it is among the `woken`.
    pub(crate) fn settle(&mut self, ticket: K, outcome: O, woken: &mut Vec<Waker>) {
        if let Some(fate) = self.open.get_mut(&ticket) {
            if let Fate::Unknown(wakers) = fate {
                wakers.drain_to(woken);
            }
            *fate = Fate::Known(outcome);
        }
    }

    /// The outcome, or the task waits for it; `None` when nobody may ask for it any more.
    pub(crate) fn poll(&mut self, ticket: K, cx: &Context<'_>) -> Poll<Option<O>> {
        match self.open.get_mut(&ticket) {
            Some(Fate::Known(outcome)) => Poll::Ready(Some(*outcome)),
            Some(Fate::Unknown(wakers)) => {
                wakers.add(cx);
                Poll::Pending
            }
            None => Poll::Ready(None),
        }
    }

    /// The connection is over: nothing will be known of the rest.
    pub(crate) fn wake(&mut self, woken: &mut Vec<Waker>) {
        for fate in self.open.values_mut() {
            if let Fate::Unknown(wakers) = fate {
                wakers.drain_to(woken);
            }
        }
    }
}
