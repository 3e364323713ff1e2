use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quickset::places::{NetworkOwner, Place, Places};
use tokio::sync::Notify;

use super::super::pulse::Pulse;
use crate::metrics::{MetricKind, MetricsPage};

/// How many connections there are, in all and of each client, and who makes room when there are as many as
/// may be.
///
/// Whoever is new takes the seat of a client that has not shown that it is where it seems to be; then that of
/// one of those that ask for nothing, of whichever client has the most of these, or of the one that has asked
/// for nothing longest. Who has an answer under way keeps its seat.
#[derive(Debug)]
pub(super) struct Seats {
    taken: Mutex<TakenSeats>,
    most: usize,
    most_of_one: usize,
}

#[derive(Debug, Default)]
struct TakenSeats {
    all: usize,
    by: BTreeMap<NetworkOwner, usize>,
    /// Seats of nobody, as long as the client has not shown that it is where it seems to be.
    unproven: Places<(), Arc<Sitter>>,
    /// Seats of clients that ask for nothing, from when on.
    idle: Places<NetworkOwner, (Instant, Arc<Sitter>)>,
    /// Who got none, so far, and who made room.
    refused: u64,
    displaced: u64,
}

/// A place for a connection. Dropping it makes room for another.
#[derive(Debug)]
pub(super) struct ConnectionSeat {
    seats: Arc<Seats>,
    sitter: Arc<Sitter>,
}

/// Who has a seat, as both sides know it.
#[derive(Debug)]
struct Sitter {
    /// Locked behind what is taken.
    state: Mutex<Sits>,
    /// The seat is another's.
    lost: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sits {
    Unproven { place: Place, rests: bool },
    Idle(NetworkOwner, Place),
    Busy(NetworkOwner),
    Lost,
}

impl Seats {
    /// For so many connections, and so many of one client, which has half of all at most.
    pub(super) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        let most_of_one = most_of_one.min((most / 2).max(1));
        Arc::new(Self { taken: Mutex::default(), most, most_of_one })
    }

    /// A seat, if there is one left for this client, or another makes room.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSeat> {
        let network = NetworkOwner::of(address);
        let mut taken = self.lock();
        let is_right =
            taken.of(network) < self.most_of_one && (taken.all < self.most || taken.make_room(network));
        if !is_right {
            taken.refused += 1;
            return None;
        }
        taken.all += 1;
        *taken.by.entry(network).or_default() += 1;
        let sitter = Sitter::new();
        let place = taken.idle.take(network, (Instant::now(), sitter.clone()));
        sitter.sits(Sits::Idle(network, place));
        drop(taken);
        Some(ConnectionSeat { seats: self.clone(), sitter })
    }

    /// A seat for somebody who may be anybody, if there is one left: who begins with early data has not shown
    /// that its address is its own, and would take the seats of whoever has that.
    pub(super) fn take_unproven(self: &Arc<Self>) -> Option<ConnectionSeat> {
        let mut taken = self.lock();
        if taken.all >= self.most {
            taken.refused += 1;
            return None;
        }
        taken.all += 1;
        let sitter = Sitter::new();
        let place = taken.unproven.take((), sitter.clone());
        sitter.sits(Sits::Unproven { place, rests: true });
        drop(taken);
        Some(ConnectionSeat { seats: self.clone(), sitter })
    }

    fn lock(&self) -> MutexGuard<'_, TakenSeats> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, page: &mut MetricsPage) {
        let (all, refused, displaced) = {
            let taken = self.lock();
            (taken.all, taken.refused, taken.displaced)
        };
        page.value(
            "quickset_http_connections",
            MetricKind::Gauge,
            "Connections of all versions that there are.",
            all,
        );
        let help = "Connections of all versions that were one too many.";
        page.value("quickset_http_connections_refused_total", MetricKind::Counter, help, refused);
        let help = "Connections of all versions that made room for others.";
        page.value("quickset_http_connections_displaced_total", MetricKind::Counter, help, displaced);
    }
}

/// The pulse of a connection that has this seat, which is told when nothing is asked for any more.
pub(super) fn resting(seat: &Arc<ConnectionSeat>) -> Arc<Pulse> {
    // An answer that outlives its connection keeps no seat.
    let seat = Arc::downgrade(seat);
    Arc::new(Pulse::telling(move |rests| {
        if let Some(seat) = seat.upgrade() {
            seat.rests(rests);
        }
    }))
}

impl TakenSeats {
    fn of(&self, network: NetworkOwner) -> usize {
        self.by.get(&network).copied().unwrap_or_default()
    }

    /// Somebody leaves for one of `network`, if anybody does.
    fn make_room(&mut self, network: NetworkOwner) -> bool {
        let sitter = if let Some(place) = self.unproven.oldest() {
            self.unproven.holder(place).cloned()
        } else {
            let is_late =
                |place: &Place| self.idle.holder(*place).is_some_and(|(since, _)| since.elapsed() >= REST);
            let place = self.idle.just(&network).or_else(|| self.idle.oldest().filter(is_late));
            place.and_then(|place| self.idle.holder(place)).map(|(_, sitter)| sitter.clone())
        };
        let Some(sitter) = sitter else { return false };
        self.leave(&sitter);
        self.displaced += 1;
        sitter.lost.notify_one();
        true
    }

    /// The seat is free.
    fn leave(&mut self, sitter: &Sitter) {
        let before = sitter.sits(Sits::Lost);
        let network = match before {
            Sits::Unproven { place, .. } => {
                self.unproven.leave(place);
                None
            }
            Sits::Idle(network, place) => {
                self.idle.leave(place);
                Some(network)
            }
            Sits::Busy(network) => Some(network),
            Sits::Lost => return,
        };
        self.all -= 1;
        let Some(network) = network else { return };
        match self.by.get_mut(&network) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(self.by.remove(&network)),
        }
    }
}

impl ConnectionSeat {
    /// It is this client's from now on. False when the client has as many as it may have.
    pub(super) fn prove(&self, address: IpAddr) -> bool {
        let network = NetworkOwner::of(address);
        let mut taken = self.seats.lock();
        let Sits::Unproven { place, rests } = self.sitter.now() else { return true };
        let of_one = taken.of(network);
        if of_one >= self.seats.most_of_one {
            taken.refused += 1;
            return false;
        }
        taken.unproven.leave(place);
        taken.by.insert(network, of_one + 1);
        self.sitter.sits(Sits::Busy(network));
        drop(taken);
        self.rests(rests);
        true
    }

    /// Whether the client asks for nothing.
    fn rests(&self, rests: bool) {
        let mut taken = self.seats.lock();
        match (self.sitter.now(), rests) {
            (Sits::Busy(network), true) => {
                let place = taken.idle.take(network, (Instant::now(), self.sitter.clone()));
                self.sitter.sits(Sits::Idle(network, place));
            }
            (Sits::Idle(network, place), false) => {
                taken.idle.leave(place);
                self.sitter.sits(Sits::Busy(network));
            }
            (Sits::Unproven { place, .. }, rests) => drop(self.sitter.sits(Sits::Unproven { place, rests })),
            (Sits::Busy(_) | Sits::Idle(..) | Sits::Lost, _) => {}
        }
    }

    /// Waits until the seat is another's.
    pub(super) async fn lost(&self) {
        self.sitter.lost.notified().await;
    }
}

impl Drop for ConnectionSeat {
    fn drop(&mut self) {
        self.seats.lock().leave(&self.sitter);
    }
}

impl Sitter {
    fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(Sits::Lost), lost: Notify::new() })
    }

    fn now(&self) -> Sits {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how it was before.
    fn sits(&self, now: Sits) -> Sits {
        std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

/// How long a client that has no more seats than others keeps one without asking for anything.
const REST: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn take(seats: &Arc<Seats>, address: &str) -> Option<ConnectionSeat> {
        seats.take(address.parse().unwrap())
    }

    fn busy(seats: &Arc<Seats>, address: &str) -> Option<ConnectionSeat> {
        let seat = take(seats, address)?;
        seat.rests(false);
        Some(seat)
    }

    fn is_lost(seat: &ConnectionSeat) -> bool {
        seat.sitter.now() == Sits::Lost
    }

    #[test]
    fn seats_are_counted_in_all_and_by_client() {
        let seats = Seats::new(4, 2);
        let first = busy(&seats, "192.0.2.1").unwrap();
        let _mapped = busy(&seats, "::ffff:192.0.2.1").unwrap();
        assert!(take(&seats, "192.0.2.1").is_none(), "it has two");
        let third = busy(&seats, "2001:db8::1").unwrap();
        let _fourth = busy(&seats, "2001:db8::ffff:2").unwrap();
        assert!(take(&seats, "192.0.2.2").is_none(), "all are taken");
        drop(first);
        let _fifth = busy(&seats, "192.0.2.2").unwrap();
        assert!(take(&seats, "192.0.2.1").is_none(), "all are taken");
        drop(third);
        let _sixth = busy(&seats, "2001:db8:0:0:1::").unwrap();
        assert_eq!(seats.taken.lock().unwrap().by.len(), 3, "who left is forgotten");
    }

    #[test]
    fn one_client_has_half_of_the_seats_at_most() {
        for (most, of_one) in [(1, 1), (50, 25), (10_000, 256)] {
            let seats = Seats::new(most, 256);
            let taken: Vec<_> = (0..most).map_while(|_| take(&seats, "192.0.2.1")).collect();
            assert_eq!(taken.len(), of_one, "of {most}");
        }
    }

    #[test]
    fn who_asks_for_nothing_makes_room_for_strangers() {
        let seats = Seats::new(4, 4);
        let idle = [(); 2].map(|()| take(&seats, "192.0.2.1").unwrap());
        let second = [(); 2].map(|()| busy(&seats, "192.0.2.2").unwrap());
        let stranger = take(&seats, "192.0.2.3").unwrap();
        assert!(is_lost(&idle[0]) && !is_lost(&idle[1]), "the first of two");
        assert!(take(&seats, "192.0.2.4").is_none(), "whoever rests has but one, and not for long");
        drop(idle);
        assert_eq!(seats.taken.lock().unwrap().all, 3, "a seat that was lost is not left again");
        stranger.rests(false);
        let fourth = take(&seats, "192.0.2.3").unwrap();
        std::thread::sleep(REST);
        let fifth = take(&seats, "192.0.2.4").unwrap();
        assert!(is_lost(&fourth), "it has rested long enough");
        fifth.rests(false);
        second[0].rests(true);
        second[1].rests(true);
        assert!(take(&seats, "192.0.2.5").is_some() && is_lost(&second[0]) && !is_lost(&second[1]));
        assert_eq!(seats.taken.lock().unwrap().displaced, 3);
    }

    /// Early data comes from wherever its sender says.
    #[test]
    fn nobody_takes_the_seats_of_others_by_their_address() {
        let seats = Seats::new(4, 2);
        let anybody: Vec<ConnectionSeat> = (0..4).filter_map(|_| seats.take_unproven()).collect();
        assert!(seats.take_unproven().is_none(), "all are taken");
        let victim = "192.0.2.1".parse().unwrap();
        let first = seats.take(victim).unwrap();
        assert!(is_lost(&anybody[0]), "who is there goes before who may be");
        anybody[1].rests(false);
        assert!(anybody[1].prove(victim) && matches!(anybody[1].sitter.now(), Sits::Busy(_)));
        assert!(!anybody[2].prove(victim), "it has two");
        assert!(anybody[0].prove(victim), "it is gone, and takes nothing with it");
        drop((first, anybody));
        let taken = seats.taken.lock().unwrap();
        assert_eq!((taken.all, taken.by.len(), taken.idle.len(), taken.unproven.len()), (0, 0, 0, 0));
    }
}
