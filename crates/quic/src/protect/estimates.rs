use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quickset_base::{Duration, Time};

use super::policy::Loss;

/// What connections know of the losses on the way to a peer, for those to come: a start value, which a connection's own
/// measurements soon outweigh.
///
/// Addresses of at most 1024 peers, for ten minutes each. All connections that share one are driven by one clock.
#[derive(Debug, Default)]
pub struct Estimates {
    peers: Mutex<BTreeMap<IpAddr, Estimate>>,
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    loss: Loss,
    at: Time,
}

impl Estimates {
    /// Nothing known.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was measured on a path to `peer`. Too few samples are no knowledge, and leave what was there.
    pub(crate) fn put(&self, peer: IpAddr, loss: &Loss, now: Time) {
        if loss.events < ENOUGH {
            return;
        }
        let mut peers = self.lock();
        if peers.len() >= MAX_PEERS && !peers.contains_key(&peer) {
            let oldest = peers.iter().min_by_key(|(_, known)| known.at).map(|(peer, _)| *peer);
            oldest.and_then(|oldest| peers.remove(&oldest));
        }
        peers.insert(peer, Estimate { loss: *loss, at: now });
    }

    /// What is known of the way to `peer`.
    pub(crate) fn get(&self, peer: IpAddr, now: Time) -> Option<Loss> {
        let mut peers = self.lock();
        let known = *peers.get(&peer)?;
        if now.since(known.at) > LIFETIME {
            peers.remove(&peer);
            return None;
        }
        Some(known.loss)
    }

    /// A thread that panicked left whole entries behind.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Estimate>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Packets before a measurement stands for itself, as in the monitor.
const ENOUGH: u64 = 500;

/// A table of a few hundred kilobytes at most, whoever connects.
const MAX_PEERS: usize = 1024;

/// Losses of ten minutes ago say little about now.
const LIFETIME: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(rate: f64, events: u64) -> Loss {
        Loss { rate, to_bad: rate, to_good: 1.0, events, congested: 0.0 }
    }

    fn peer(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    #[test]
    fn knowledge_is_of_one_peer_and_ages() {
        let (known, begin) = (Estimates::new(), Time::from_millis(5));
        assert_eq!(known.get(peer(1), begin), None);
        known.put(peer(1), &loss(0.02, 500), begin);
        assert_eq!(known.get(peer(1), begin + Duration::from_secs(600)), Some(loss(0.02, 500)));
        assert_eq!(known.get(peer(2), begin), None);
        // A few packets do not replace it, more do.
        known.put(peer(1), &loss(0.5, 499), begin);
        assert_eq!(known.get(peer(1), begin), Some(loss(0.02, 500)));
        known.put(peer(1), &loss(0.0, 9000), begin + Duration::from_secs(60));
        assert_eq!(known.get(peer(1), begin + Duration::from_secs(660)), Some(loss(0.0, 9000)));
        assert_eq!(known.get(peer(1), begin + Duration::from_secs(661)), None);
    }

    #[test]
    fn the_oldest_of_a_thousand_goes() {
        let known = Estimates::new();
        for n in 0..1025 {
            known.put(peer(n), &loss(0.01, 500), Time::from_millis(u64::from(n) + 1));
        }
        let now = Time::from_millis(2000);
        let lost: Vec<u32> = (0..1025).filter(|n| known.get(peer(*n), now).is_none()).collect();
        assert_eq!(lost, [0]);
        // Who is known already displaces nobody.
        known.put(peer(7), &loss(0.03, 500), now);
        known.put(peer(2000), &loss(0.01, 500), now);
        let lost: Vec<u32> = (0..1025).filter(|n| known.get(peer(*n), now).is_none()).collect();
        assert_eq!(lost, [0, 1]);
    }
}
