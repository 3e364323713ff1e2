//! Sessions to be resumed: what a null ticket stands for, at both ends.

use std::collections::{BTreeMap, VecDeque};

use crate::early::EarlyLimits;

/// What a client keeps, by the name of the server.
#[derive(Debug, Default)]
pub(super) struct NullTickets(BTreeMap<String, VecDeque<NullTicket>>);

/// A client's side of a ticket.
#[derive(Debug)]
pub(super) struct NullTicket {
    pub(super) id: u64,
    pub(super) secret: u64,
    /// The server's transport parameters.
    pub(super) params: Vec<u8>,
}

/// What a server keeps of the tickets that it gave, the oldest first.
#[derive(Debug, Default)]
pub(super) struct IssuedTickets(VecDeque<(u64, Grant)>);

/// A server's side of a ticket.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) secret: u64,
    pub(super) alpn: Option<Vec<u8>>,
    pub(super) limits: EarlyLimits,
}

impl NullTickets {
    pub(super) fn put(&mut self, server: &str, ticket: NullTicket) {
        let tickets = self.0.entry(server.to_owned()).or_default();
        tickets.push_back(ticket);
        if tickets.len() > MAX_KEPT {
            tickets.pop_front();
        }
    }

    /// The newest.
    pub(super) fn take(&mut self, server: &str) -> Option<NullTicket> {
        self.0.get_mut(server)?.pop_back()
    }
}

impl IssuedTickets {
    pub(super) fn put(&mut self, id: u64, grant: Grant) {
        self.0.push_back((id, grant));
        if self.0.len() > MAX_ISSUED {
            self.0.pop_front();
        }
    }

    /// Each once.
    pub(super) fn take(&mut self, id: u64) -> Option<Grant> {
        let at = self.0.iter().position(|(known, _)| *known == id)?;
        self.0.remove(at).map(|(_, grant)| grant)
    }
}

const MAX_KEPT: usize = 8;
const MAX_ISSUED: usize = 256;
