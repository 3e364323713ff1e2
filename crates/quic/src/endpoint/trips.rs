use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use quickset_base::{Duration, Time};

/// How long round trips to peers took at the end of the last connection to each (RFC 9002 §6.2.2), for the
/// first probe of the next: a first flight that is lost is noticed after three of them, and not after a
/// second.
///
/// Only who has finished a handshake is remembered, so that nobody fills this from addresses of others.
#[derive(Debug, Default)]
pub(super) struct Trips {
    known: BTreeMap<IpAddr, (Duration, Time)>,
    /// The one that was remembered first in front.
    order: VecDeque<IpAddr>,
}

impl Trips {
    /// A connection to `peer` is over, by whose estimate a round trip takes as long.
    pub(super) fn note(&mut self, peer: IpAddr, trip: Duration, at: Time) {
        if self.known.insert(peer.to_canonical(), (trip, at)).is_some() {
            return;
        }
        self.order.push_back(peer.to_canonical());
        if self.order.len() > MAX_KNOWN {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// What the last connection to `peer` found, if that is not long ago.
    pub(super) fn to(&self, peer: IpAddr, now: Time) -> Option<Duration> {
        let (trip, at) = self.known.get(&peer.to_canonical())?;
        (now.since(*at) < LIFETIME).then_some(*trip)
    }
}

const MAX_KNOWN: usize = 1024;

/// "Over the same network", RFC 9002 says: after longer than that we, or the peer, may be in another.
const LIFETIME: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u16) -> IpAddr {
        let [a, b] = n.to_be_bytes();
        IpAddr::from([10, 0, a, b])
    }

    #[test]
    fn the_last_of_each_is_known_for_a_while() {
        let (start, ms) = (Time::from_millis(5), Duration::from_millis);
        let mut trips = Trips::default();
        assert_eq!(trips.to(peer(1), start), None);
        trips.note(peer(1), ms(50), start);
        trips.note("::ffff:10.0.0.1".parse().unwrap(), ms(60), start);
        assert_eq!(trips.to(peer(1), start), Some(ms(60)));
        assert_eq!(trips.to(peer(1), start + ms(599_999)), Some(ms(60)));
        assert_eq!(trips.to(peer(1), start + ms(600_000)), None);
        assert_eq!(trips.to(peer(2), start), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut trips = Trips::default();
        for n in 0..1030 {
            trips.note(peer(n), Duration::from_millis(u64::from(n)), Time::ZERO);
        }
        assert_eq!((trips.known.len(), trips.order.len()), (1024, 1024));
        assert_eq!(trips.to(peer(5), Time::ZERO), None);
        assert_eq!(trips.to(peer(6), Time::ZERO), Some(Duration::from_millis(6)));
    }
}
