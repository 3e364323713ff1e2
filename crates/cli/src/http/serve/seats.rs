use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::metrics::{Kind, Page};

/// How many connections there are, in all and of each client.
#[derive(Debug)]
pub(super) struct Seats {
    taken: Mutex<Taken>,
    most: usize,
    most_of_one: usize,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: BTreeMap<IpAddr, usize>,
    /// Who got none, so far.
    refused: u64,
}

/// A place for a connection. Dropping it makes room for another.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    /// Nobody's, as long as the client has not shown that it is where it seems to be.
    client: Option<IpAddr>,
}

impl Seats {
    /// For so many connections, and so many of one client.
    pub(super) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), most, most_of_one })
    }

    /// A seat, if there is one left for this client.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let mut seat = self.take_unproven()?;
        seat.prove(address).then_some(seat)
    }

    /// A seat for somebody who may be anybody, if there is one left: who begins with early data has not shown that its address
    /// is its own, and would take the seats of whoever has that.
    pub(super) fn take_unproven(self: &Arc<Self>) -> Option<Seat> {
        let mut taken = self.lock();
        if taken.all >= self.most {
            taken.refused += 1;
            return None;
        }
        taken.all += 1;
        Some(Seat { seats: self.clone(), client: None })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, page: &mut Page) {
        let (all, refused) = {
            let taken = self.lock();
            (taken.all, taken.refused)
        };
        page.value(
            "quickset_http_connections",
            Kind::Gauge,
            "Connections of all versions that there are.",
            all,
        );
        let help = "Connections of all versions that were one too many.";
        page.value("quickset_http_connections_refused_total", Kind::Counter, help, refused);
    }
}

impl Seat {
    /// It is this client's from now on. False when the client has as many as it may have.
    pub(super) fn prove(&mut self, address: IpAddr) -> bool {
        let client = network(address);
        let mut taken = self.seats.lock();
        let of_one = taken.by.get(&client).copied().unwrap_or_default();
        if of_one >= self.seats.most_of_one {
            taken.refused += 1;
            return false;
        }
        taken.by.insert(client, of_one + 1);
        self.client = Some(client);
        true
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        taken.all -= 1;
        let Some(client) = &self.client else { return };
        match taken.by.get_mut(client) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(taken.by.remove(client)),
        }
    }
}

/// What counts as one client: with IPv6 a network of 64 bits, which most of them have to themselves.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_counted_in_all_and_by_client() {
        let seats = Seats::new(3, 2);
        let take = |address: &str| seats.take(address.parse().unwrap());
        let first = take("192.0.2.1").unwrap();
        let _mapped = take("::ffff:192.0.2.1").unwrap();
        assert!(take("192.0.2.1").is_none(), "it has two");
        let third = take("2001:db8::1").unwrap();
        assert!(take("192.0.2.2").is_none(), "all are taken");
        drop(first);
        let _fourth = take("2001:db8::ffff:2").unwrap();
        drop(take("192.0.2.1"));
        assert!(take("192.0.2.1").is_none(), "all are taken");
        drop(third);
        let _fifth = take("2001:db8:0:0:1::").unwrap();
        assert_eq!(seats.taken.lock().unwrap().by.len(), 2, "who left is forgotten");
    }

    /// Early data comes from wherever its sender says.
    #[test]
    fn nobody_takes_the_seats_of_others_by_their_address() {
        let seats = Seats::new(4, 2);
        let anybody: Vec<Seat> = (0..3).filter_map(|_| seats.take_unproven()).collect();
        let victim = "192.0.2.1".parse().unwrap();
        let first = seats.take(victim);
        assert!(first.is_some(), "it has none so far");
        assert!(seats.take_unproven().is_none(), "all are taken");
        let mut anybody = anybody.into_iter();
        let mut second = anybody.next().unwrap();
        assert!(second.prove(victim));
        assert!(!anybody.next().unwrap().prove(victim), "it has two");
        drop((first, second, anybody));
        let taken = seats.taken.lock().unwrap();
        assert_eq!((taken.all, taken.by.len()), (0, 0));
    }
}
