use std::collections::BTreeMap;
use std::task::Waker;

use quickset_quic::{Outcome, Ticket};

use crate::wakers::Crowd;

/// What was sent, the messages of a stream or datagrams, whose outcome somebody may still ask for.
#[derive(Debug)]
pub(crate) struct OutcomeTickets<K = Ticket, O = Outcome> {
    open: BTreeMap<K, TicketFate<O>>,
}

#[derive(Debug)]
struct TicketFate<O> {
    known: Option<O>,
    /// Tasks that wait until it is.
    waiting: Crowd,
}

impl<K, O> Default for OutcomeTickets<K, O> {
    fn default() -> Self {
        Self { open: BTreeMap::new() }
    }
}

impl<K: Ord + Copy, O: Copy> OutcomeTickets<K, O> {
    /// There is a handle of the ticket.
    pub(crate) fn hold(&mut self, ticket: K) {
        self.open.insert(ticket, TicketFate { known: None, waiting: Crowd::default() });
    }

    /// The handle is gone.
    pub(crate) fn release(&mut self, ticket: K) {
        self.open.remove(&ticket);
    }

    /// The outcome is known; whoever waits for it is among the `woken`.
    pub(crate) fn settle(&mut self, ticket: K, outcome: O, woken: &mut Vec<Waker>) {
        if let Some(fate) = self.open.get_mut(&ticket) {
            fate.waiting.drain_to(woken);
            fate.known = Some(outcome);
        }
    }

    /// The outcome, once it is known.
    pub(crate) fn outcome(&self, ticket: K) -> Option<O> {
        self.open.get(&ticket)?.known
    }

    /// Who waits for the outcome of a ticket that there is a handle of.
    pub(crate) fn waiting(&mut self, ticket: K) -> &mut Crowd {
        &mut self.open.get_mut(&ticket).expect("the ticket is held").waiting
    }

    /// The connection is over: nothing will be known of the rest.
    pub(crate) fn wake(&mut self, woken: &mut Vec<Waker>) {
        for fate in self.open.values_mut() {
            fate.waiting.drain_to(woken);
        }
    }
}
