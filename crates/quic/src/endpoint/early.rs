use std::collections::VecDeque;
use std::net::SocketAddr;

use quickset_base::{Datagram, Duration, Time};
use quickset_wire::ConnectionId;

/// Early data that overtook the hello that it goes with (RFC 9000 §5.2.2): few datagrams, and for a moment.
///
/// Anybody can send such, from any address: the oldest make room, and what nobody comes for is forgotten.
#[derive(Debug, Default)]
pub(super) struct Overtakers {
    waiting: VecDeque<EarlyDatagrams>,
    bytes: usize,
}

#[derive(Debug)]
struct EarlyDatagrams {
    /// The id that the hello will bear as well.
    dcid: ConnectionId,
    came: Time,
    datagram: Datagram,
}

impl Overtakers {
    /// Keeps a copy, since the buffer that the datagram lies in may be a far larger one.
    pub(super) fn keep(&mut self, now: Time, dcid: ConnectionId, datagram: &Datagram) {
        if datagram.bytes.len() > MAX_DATAGRAM {
            return;
        }
        self.forget_before(now);
        let of_this = self.waiting.iter().filter(|w| w.dcid == dcid).count();
        if of_this >= MAX_EACH {
            return;
        }
        let datagram = Datagram { bytes: datagram.bytes[..].into(), ..*datagram };
        self.bytes += datagram.bytes.len();
        self.waiting.push_back(EarlyDatagrams { dcid, came: now, datagram });
        while self.waiting.len() > MAX_HELD || self.bytes > MAX_BYTES {
            self.drop_first();
        }
    }

    /// The hello came, from `client`.
    pub(super) fn take(&mut self, now: Time, dcid: &ConnectionId, client: SocketAddr) -> Vec<Datagram> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.forget_before(now);
        let mut taken = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.dcid != *dcid {
                self.waiting.push_back(waiting);
                continue;
            }
            self.bytes -= waiting.datagram.bytes.len();
            if waiting.datagram.path.remote == client {
                taken.push(waiting.datagram);
            }
        }
        taken
    }

    fn forget_before(&mut self, now: Time) {
        while self.waiting.front().is_some_and(|w| now.since(w.came) > PATIENCE) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.waiting.pop_front() {
            self.bytes -= first.datagram.bytes.len();
        }
    }
}

/// A client's first window (RFC 9002 §7.2).
const MAX_EACH: usize = 10;

/// Over all clients.
const MAX_HELD: usize = 64;
const MAX_BYTES: usize = 64 << 10;

/// Larger than the path of most clients; whoever sends more at a time sends it again.
const MAX_DATAGRAM: usize = 2048;

/// Packets that overtake others do so by less.
const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use quickset_base::{AddressPair, Ecn};

    fn id(n: u64) -> ConnectionId {
        ConnectionId::new(&n.to_be_bytes()).unwrap()
    }

    fn datagram(from: u8, len: usize) -> Datagram {
        let path = AddressPair::to(SocketAddr::from(([10, 0, 0, from], 4433)));
        Datagram { path, ecn: Ecn::NotEct, bytes: vec![from; len].as_slice().into() }
    }

    fn client(n: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, n], 4433))
    }

    #[test]
    fn whoever_says_hello_gets_its_own_and_once() {
        let mut held = Overtakers::default();
        let now = Time::from_millis(7);
        held.keep(now, id(1), &datagram(1, 100));
        held.keep(now, id(2), &datagram(2, 200));
        held.keep(now, id(1), &datagram(1, 300));
        // Somebody else's address with the same id.
        held.keep(now, id(1), &datagram(9, 300));
        let sizes: Vec<usize> =
            held.take(now, &id(1), client(1)).iter().map(|datagram| datagram.bytes.len()).collect();
        assert_eq!(sizes, [100, 300]);
        assert!(held.take(now, &id(1), client(1)).is_empty());
        assert_eq!((held.waiting.len(), held.bytes), (1, 200));
        assert!(held.take(now, &id(2), client(1)).is_empty(), "of another address");
        assert_eq!((held.waiting.len(), held.bytes), (0, 0));
    }

    #[test]
    fn a_flood_is_bounded_in_count_bytes_and_time() {
        let mut held = Overtakers::default();
        let now = Time::from_millis(7);
        for _ in 0..100 {
            held.keep(now, id(1), &datagram(1, 10));
        }
        assert_eq!(held.waiting.len(), 10, "of one client");
        for n in 0..10_000 {
            held.keep(now, id(n), &datagram(2, 20));
        }
        assert_eq!((held.waiting.len(), held.bytes), (64, 64 * 20));
        for n in 0..10_000 {
            held.keep(now, id(n), &datagram(3, 2000));
            assert!(held.bytes <= 64 << 10);
        }
        held.keep(now, id(1), &datagram(3, 2049));
        assert_eq!(held.waiting.len(), 32);
        assert!(held.take(now + Duration::from_millis(501), &id(9_999), client(3)).is_empty(), "too late");
        assert_eq!((held.waiting.len(), held.bytes), (0, 0));
    }
}
