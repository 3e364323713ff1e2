//! Which losses of responses are repaired: what the client asks for, or else what the server finds right.

use quickset_quic::{Protection, StreamId};

use super::Connection;
use crate::{Priority, Transport};

impl Connection {
    /// Repairs losses of responses that the client finds more urgent than `below` and says nothing else of, those under way
    /// included. What it asks for itself ([`Priority::tolerance`]) is done up to
    /// [`Config::max_burst`](super::Config::max_burst), whatever was said here. It goes by what the client says last.
    pub fn repair_urgent(&mut self, t: &mut dyn Transport, below: u8, protection: &Protection) {
        self.repair = Some((below, protection.clone()));
        let told: Vec<StreamId> =
            self.exchanges.iter().filter(|(_, exchange)| exchange.told).map(|(id, _)| *id).collect();
        for id in told {
            self.care(t, id);
        }
    }

    /// The client says how a response is to be sent.
    pub(super) fn obey(&mut self, t: &mut dyn Transport, id: StreamId, priority: &Priority) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        t.set_priority(id, priority.urgency, exchange.is_incremental(priority));
        (exchange.care.urgency, exchange.care.tolerance) = (priority.urgency, priority.tolerance());
        self.care(t, id);
    }

    fn care(&mut self, t: &mut dyn Transport, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id).filter(|_| self.side.is_server()) else { return };
        let care = &mut exchange.care;
        let wanted = match (care.tolerance, &self.repair) {
            (Some(tolerance), _) => tolerance.protection(self.config.max_burst),
            (None, Some((below, protection))) if care.urgency < *below => protection.clone(),
            (None, _) => Protection::None,
        };
        // A policy that is set again begins again.
        if wanted != care.protection {
            t.set_protection(id, &wanted);
            care.protection = wanted;
        }
    }
}
