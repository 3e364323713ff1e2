//! Which losses of responses are repaired: what the client asks for, or else what the server finds right.

use quickset_quic::{Protection, StreamId};

use super::Connection;
use crate::Transport;

impl Connection {
    /// Repairs losses of responses that are more urgent than `below` and of which nothing else is said, those
    /// under way included. What is asked for ([`Priority::tolerance`](crate::Priority::tolerance)) is done up
    /// to [`Config::max_burst`](super::Config::max_burst), whatever was said here. It goes by what the client
    /// says last, and before it by what stands in the [response](Self::respond).
    pub fn repair_urgent(&mut self, t: &mut dyn Transport, below: u8, protection: &Protection) {
        self.repair = Some((below, protection.clone()));
        let told: Vec<StreamId> =
            self.exchanges.iter().filter(|(_, exchange)| exchange.told).map(|(id, _)| *id).collect();
        for id in told {
            self.care(t, id);
        }
    }

    pub(super) fn care(&mut self, t: &mut dyn Transport, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id).filter(|_| self.side.is_server()) else { return };
        if self.repair.is_none() && exchange.protection == Protection::None && exchange.wishes.are_none() {
            return;
        }
        let said = exchange.wishes.lasting();
        let wanted = match (said.tolerance(), &self.repair) {
            (Some(tolerance), _) => tolerance.protection(self.config.max_burst),
            (None, Some((below, protection))) if said.urgency() < *below => protection.clone(),
            (None, _) => Protection::None,
        };
        // A policy that is set again begins again.
        if wanted != exchange.protection {
            t.set_protection(id, &wanted);
            exchange.protection = wanted;
        }
    }
}
