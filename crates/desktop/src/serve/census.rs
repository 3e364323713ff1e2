use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quickset::Stats;

use super::stage::ClientSeat;
use crate::link::PeerLink;
use crate::sender::{ScreenSender, SenderStats};

/// What all clients of a gateway were sent. Clones are handles of the same one.
#[derive(Clone, Debug, Default)]
pub struct ServeStats(Arc<Mutex<ClientCensus>>);

/// Who looks now, to be asked when somebody wants to know: nobody is woken up to count.
#[derive(Debug, Default)]
struct ClientCensus {
    ever: u64,
    ever_by_tcp: u64,
    now: BTreeMap<u64, (PeerLink, Arc<Mutex<ScreenSender>>)>,
}

/// The sums.
#[derive(Clone, Debug, Default)]
pub struct ClientTotals {
    /// Clients that look now.
    pub clients: usize,
    /// Of these, clients where UDP does not get through.
    pub by_tcp: usize,
    /// Clients that ever looked.
    pub ever: u64,
    /// Of these, clients where UDP did not get through.
    pub ever_by_tcp: u64,
    /// Of those that look now: their connections, and what they were sent.
    pub now: BTreeMap<u64, (Stats, SenderStats)>,
}

/// A client's line in the statistics.
pub(super) struct ClientEntry {
    stats: ServeStats,
    id: u64,
}

impl ServeStats {
    /// As of now.
    pub fn totals(&self) -> ClientTotals {
        let clients = self.lock();
        let line = |(link, sender): &(PeerLink, Arc<Mutex<ScreenSender>>)| {
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
            (link.stats(), sender.stats().clone())
        };
        let now: BTreeMap<_, _> = clients.now.iter().map(|(&id, client)| (id, line(client))).collect();
        let by_tcp = clients.now.values().filter(|(link, _)| link.is_tcp()).count();
        let (ever, ever_by_tcp) = (clients.ever, clients.ever_by_tcp);
        ClientTotals { clients: now.len(), by_tcp, ever, ever_by_tcp, now }
    }

    pub(super) fn enter(&self, link: &PeerLink, seat: &ClientSeat) -> ClientEntry {
        let mut clients = self.lock();
        clients.ever += 1;
        clients.ever_by_tcp += u64::from(link.is_tcp());
        let id = clients.ever;
        clients.now.insert(id, (link.clone(), seat.share()));
        ClientEntry { stats: self.clone(), id }
    }

    fn lock(&self) -> MutexGuard<'_, ClientCensus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClientEntry {
    fn drop(&mut self) {
        self.stats.lock().now.remove(&self.id);
    }
}
