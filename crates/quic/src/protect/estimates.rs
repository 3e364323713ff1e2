use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quickset_base::{Duration, Time};

use super::belief::Belief;

/// What connections believe of the losses on the way to a peer, for those to come. It ages as it does within
/// a connection.
///
/// Addresses of at most 1024 peers, for an hour each. All connections that share one are driven by one clock.
#[derive(Debug, Default)]
pub struct Estimates {
    peers: Mutex<BTreeMap<IpAddr, LossEstimate>>,
}

#[derive(Clone, Copy, Debug)]
struct LossEstimate {
    belief: Belief,
    events: u64,
    at: Time,
}

impl Estimates {
    /// Nothing known.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is believed of a path to `peer` after so many packets, those of connections before included. Less
    /// than was known leaves that there.
    pub(crate) fn put(&self, peer: IpAddr, belief: &Belief, events: u64, now: Time) {
        let mut peers = self.lock();
        if peers.get(&peer).is_some_and(|known| events < known.events.min(ENOUGH)) {
            return;
        }
        if peers.len() >= MAX_PEERS && !peers.contains_key(&peer) {
            let oldest = peers.iter().min_by_key(|(_, known)| known.at).map(|(peer, _)| *peer);
            oldest.and_then(|oldest| peers.remove(&oldest));
        }
        peers.insert(peer, LossEstimate { belief: *belief, events, at: now });
    }

    /// What is known of the way to `peer`, and from how many packets.
    pub(crate) fn get(&self, peer: IpAddr, now: Time) -> Option<(Belief, u64)> {
        let mut peers = self.lock();
        let known = *peers.get(&peer)?;
        if now.since(known.at) > LIFETIME {
            peers.remove(&peer);
            return None;
        }
        let mut belief = known.belief;
        belief.age(now.since(known.at), 0);
        Some((belief, known.events))
    }

    /// A thread that panicked left whole entries behind.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, LossEstimate>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So many packets are knowledge: newer is better than more.
const ENOUGH: u64 = 500;

/// A table of a few hundred kilobytes at most, whoever connects.
const MAX_PEERS: usize = 1024;

/// Of a belief as old as that hardly anything is left.
const LIFETIME: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    fn rate(known: &Estimates, of: u32, now: Time) -> Option<f64> {
        known.get(peer(of), now).map(|(belief, _)| belief.rate())
    }

    #[test]
    fn knowledge_is_of_one_peer_and_ages() {
        let (known, begin) = (Estimates::new(), Time::from_millis(5));
        assert_eq!(known.get(peer(1), begin), None);
        let two = Belief::known(0.02, 1.0);
        known.put(peer(1), &two, 500, begin);
        assert_eq!(known.get(peer(1), begin), Some((two, 500)));
        assert_eq!(known.get(peer(2), begin), None);
        // As the same belief does within a connection: half of it stands for the path of before after ten
        // minutes.
        let aged = rate(&known, 1, begin + Duration::from_secs(600)).unwrap();
        let prior = Belief::new().rate();
        assert!((aged - f64::midpoint(two.rate(), prior)).abs() < 1e-9, "{aged}");
        // A few packets do not replace it, more do.
        known.put(peer(1), &Belief::known(0.4, 1.0), 499, begin);
        assert_eq!(known.get(peer(1), begin), Some((two, 500)));
        let clean = Belief::known(0.0, 1.0);
        known.put(peer(1), &clean, 9000, begin + Duration::from_secs(60));
        assert_eq!(known.get(peer(1), begin + Duration::from_secs(60)), Some((clean, 9000)));
        known.put(peer(1), &two, 500, begin + Duration::from_secs(61));
        assert_eq!(known.get(peer(1), begin + Duration::from_secs(61)), Some((two, 500)));
        assert_eq!(known.get(peer(1), begin + Duration::from_secs(3662)), None);
    }

    #[test]
    fn the_oldest_of_a_thousand_goes() {
        let (known, belief) = (Estimates::new(), Belief::known(0.01, 1.0));
        for n in 0..1025 {
            known.put(peer(n), &belief, 500, Time::from_millis(u64::from(n) + 1));
        }
        let now = Time::from_millis(2000);
        let lost: Vec<u32> = (0..1025).filter(|n| known.get(peer(*n), now).is_none()).collect();
        assert_eq!(lost, [0]);
        // Who is known already displaces nobody.
        known.put(peer(7), &belief, 500, now);
        known.put(peer(2000), &belief, 500, now);
        let lost: Vec<u32> = (0..1025).filter(|n| known.get(peer(*n), now).is_none()).collect();
        assert_eq!(lost, [0, 1]);
    }
}
