use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use quickset_quic::{Outcome, Ticket};

use crate::wakers::Wakers;

/// The messages of a stream whose outcome somebody may still ask for.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    open: BTreeMap<Ticket, Fate>,
}

#[derive(Debug)]
enum Fate {
    Unknown(Wakers),
    Known(Outcome),
}

impl Tickets {
    /// There is a handle of the ticket.
    pub(crate) fn hold(&mut self, ticket: Ticket) {
        self.open.insert(ticket, Fate::Unknown(Wakers::default()));
    }

    /// The handle is gone.
    pub(crate) fn release(&mut self, ticket: Ticket) {
        self.open.remove(&ticket);
    }

    /// The outcome is known; whoever waits for it is among the `woken`.
    pub(crate) fn settle(&mut self, ticket: Ticket, outcome: Outcome, woken: &mut Vec<Waker>) {
        if let Some(fate) = self.open.get_mut(&ticket) {
            if let Fate::Unknown(wakers) = fate {
                wakers.drain_to(woken);
            }
            *fate = Fate::Known(outcome);
        }
    }

    /// The outcome, or the task waits for it.
    pub(crate) fn poll(&mut self, ticket: Ticket, cx: &Context<'_>) -> Poll<Outcome> {
        match self.open.get_mut(&ticket) {
            Some(Fate::Known(outcome)) => Poll::Ready(*outcome),
            Some(Fate::Unknown(wakers)) => {
                wakers.add(cx);
                Poll::Pending
            }
            None => Poll::Ready(Outcome::Abandoned),
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
