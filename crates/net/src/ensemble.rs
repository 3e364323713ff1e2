//! Connections to one address share what its socket has room for.
//!
//! Each connection finds out by itself what the path carries. Where a thousand of them end in one socket, as
//! those of a proxy or of a load generator do, that is a packet or two for each: all lose what the socket's
//! buffer has no room for, and each sends again and again the little that it may. Here they take turns: as
//! long as they have enough in flight together, the next one waits, and then has a whole batch. (RFC 3124 and
//! RFC 9040 call such connections an ensemble; these share nothing else.)
//!
//! *In:* [`Flight`] of a connection after each of its batches. *Out:* whether it may send, and who is next.
//!
//! Invariants: whoever has to wait is called, behind all that waited before; an ensemble that has nothing in
//! flight keeps nobody waiting; a path of up to 10 Gbit/s is never left idle, whatever is lost on it.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use quickset_base::Time;
use quickset_base::number::{Float as _, Unsigned as _};
use quickset_quic::{ConnectionKey, Flight};

/// The ensembles of a driver, by address.
#[derive(Debug, Default)]
pub(crate) struct Ensembles {
    by_address: HashMap<SocketAddr, usize>,
    all: Vec<Ensemble>,
    /// Places of those that have no members any more.
    free: Vec<usize>,
}

/// A connection's part of its ensemble.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EnsembleShare {
    /// Which, once it is in one.
    ensemble: Option<usize>,
    /// What the ensemble counts of it.
    bytes: u64,
    lost: u64,
    is_waiting: bool,
    /// It has more to send than it was let.
    is_long: bool,
}

/// How a connection that was let send came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// With a batch.
    Sent,
    /// With nothing, for it has nothing, or may not as far as it knows itself.
    Rests,
    /// With nothing, for it has to wait for others.
    Awaits,
}

#[derive(Debug)]
struct Ensemble {
    address: SocketAddr,
    members: usize,
    /// In flight, of all of them.
    bytes: u64,
    room: EnsembleRoom,
    /// Who has to wait: those that had sent all that they had before, and those that always have more. Calls
    /// alternate between them, so that a short answer does not wait for a thousand long ones.
    waiting: [VecDeque<ConnectionKey>; 2],
    /// Where the next one is called from.
    side: usize,
    /// Whose turn it is, and the bytes that it sent in it.
    called: Option<ConnectionKey>,
    sent: u64,
}

/// How much may be in flight.
///
/// What a path of 10 Gbit/s holds without any queue, and a queue, of which nobody knows how long it may be:
/// it is shortened by losses, and comes back within seconds. A faster path would still be filled as long as
/// its queue takes longer than its round trip, as it does on one machine.
#[derive(Debug)]
struct EnsembleRoom {
    queue: u64,
    /// When the queue was last cut, and when it last grew.
    cut: Option<Time>,
    grown: Time,
    /// The least round trips since then and in the period before, where any were seen.
    since: Time,
    trips: [Option<Duration>; 2],
    /// What all this comes to.
    bytes: u64,
}

impl Ensembles {
    /// Whether a connection has to wait for others.
    #[inline]
    pub(crate) fn must_wait(&self, key: ConnectionKey, share: &EnsembleShare) -> bool {
        let Some(ensemble) = share.ensemble.and_then(|at| self.all.get(at)) else { return false };
        ensemble.members > 1
            && (ensemble.is_full()
                || match ensemble.called {
                    Some(called) => called != key,
                    None => ensemble.waiting.iter().any(|waiting| !waiting.is_empty()),
                })
    }

    /// A connection was let send, and has this in flight now. Who is next is to be looked at, if somebody is.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        now: Time,
        key: ConnectionKey,
        share: &mut EnsembleShare,
        flight: &Flight,
        polled: Polled,
    ) -> Option<ConnectionKey> {
        let moved = share.ensemble.is_none_or(|at| self.all[at].address != flight.remote);
        let next = if moved { self.leave(key, share) } else { None };
        if moved {
            self.join(now, share, flight);
        }
        let ensemble = &mut self.all[share.ensemble?];
        let before = share.bytes;
        ensemble.heed(now, share, flight);
        if ensemble.called == Some(key) {
            ensemble.sent += flight.bytes.saturating_sub(before);
            if polled != Polled::Sent || ensemble.sent >= TURN || ensemble.is_full() {
                ensemble.called = None;
                ensemble.sent = 0;
                share.is_waiting = false;
            }
        }
        if polled == Polled::Awaits && !share.is_waiting {
            share.is_waiting = true;
            ensemble.waiting[usize::from(share.is_long)].push_back(key);
        }
        share.is_long = flight.more;
        next.or_else(|| ensemble.call())
    }

    /// A connection is no more, or goes elsewhere. Who is next is to be looked at, if somebody is.
    pub(crate) fn leave(&mut self, key: ConnectionKey, share: &mut EnsembleShare) -> Option<ConnectionKey> {
        let EnsembleShare { ensemble, bytes, is_waiting, .. } = std::mem::take(share);
        let at = ensemble?;
        let ensemble = &mut self.all[at];
        ensemble.members -= 1;
        ensemble.bytes -= bytes;
        if is_waiting {
            ensemble.waiting.iter_mut().for_each(|waiting| waiting.retain(|waiting| *waiting != key));
        }
        if ensemble.called == Some(key) {
            ensemble.called = None;
            ensemble.sent = 0;
        }
        if ensemble.members == 0 {
            self.by_address.remove(&ensemble.address);
            self.free.push(at);
            return None;
        }
        ensemble.call()
    }

    fn join(&mut self, now: Time, share: &mut EnsembleShare, flight: &Flight) {
        let at = *self.by_address.entry(flight.remote).or_insert_with(|| {
            let begun = Ensemble::new(flight.remote, now);
            if let Some(free) = self.free.pop() {
                self.all[free] = begun;
                return free;
            }
            self.all.push(begun);
            self.all.len() - 1
        });
        self.all[at].members += 1;
        self.all[at].room.on_trip(now, flight.trip);
        *share = EnsembleShare { ensemble: Some(at), lost: flight.lost, ..EnsembleShare::default() };
    }
}

impl Ensemble {
    fn new(address: SocketAddr, now: Time) -> Self {
        Self {
            address,
            members: 0,
            bytes: 0,
            room: EnsembleRoom::new(now),
            waiting: Default::default(),
            side: 0,
            called: None,
            sent: 0,
        }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.bytes >= self.room.bytes
    }

    fn heed(&mut self, now: Time, share: &mut EnsembleShare, flight: &Flight) {
        self.bytes = self.bytes - share.bytes + flight.bytes;
        if flight.bytes < share.bytes {
            self.room.on_trip(now, flight.trip);
        }
        // One that is alone has its own congestion control, and that is enough.
        if flight.lost > share.lost && self.members > 1 {
            self.room.on_loss(now, flight.srtt);
        }
        (share.bytes, share.lost) = (flight.bytes, flight.lost);
    }

    /// The next one, if it may go.
    fn call(&mut self) -> Option<ConnectionKey> {
        // Who is alone by now is kept by nobody.
        if self.called.is_none() && (self.members == 1 || !self.is_full()) {
            let [this, other] = [self.side, 1 - self.side];
            self.called = self.waiting[this].pop_front().or_else(|| self.waiting[other].pop_front());
            self.side = other;
            return self.called;
        }
        None
    }
}

impl EnsembleRoom {
    fn new(now: Time) -> Self {
        let (cut, trips) = (None, [None; 2]);
        Self { queue: MOST_QUEUE, cut, grown: now, since: now, trips, bytes: u64::MAX }
    }

    fn on_trip(&mut self, now: Time, trip: Duration) {
        let [current, before] = &mut self.trips;
        if now.since(self.since) >= PERIOD {
            self.since = now;
            *before = current.take();
        }
        *current = Some(current.map_or(trip, |least| least.min(trip)));
        let grown =
            now.since(self.grown).as_secs_f64() * (MOST_QUEUE.approx() / REGAINED_WITHIN.as_secs_f64());
        // What makes no whole byte yet is counted later.
        if grown >= 1.0 {
            self.grown = now;
            self.queue = MOST_QUEUE.min(self.queue + grown.whole::<u64>());
        }
        self.sum();
    }

    /// Losses of one round trip are one.
    fn on_loss(&mut self, now: Time, srtt: Duration) {
        if self.cut.is_none_or(|cut| now.since(cut) > srtt) {
            self.cut = Some(now);
            self.queue = LEAST_QUEUE.max((self.queue.approx() * KEPT).whole());
            self.sum();
        }
    }

    fn sum(&mut self) {
        let trip = self.trips.iter().flatten().min();
        self.bytes = trip.map_or(u64::MAX, |trip| self.queue + (trip.as_secs_f64() * RATE).whole::<u64>());
    }
}

/// Bytes per second that a path always gets.
const RATE: f64 = 10e9 / 8.0;

/// Bytes that may wait on the way. On one machine half of it still keeps both sides busy at 25 Gbit/s.
const MOST_QUEUE: u64 = 2 << 20;
/// Bytes of a turn. To go on with another connection costs what is not in the processor's caches of it, at
/// both ends; beside four batches that is little.
const TURN: u64 = 256 << 10;

/// Two batches.
const LEAST_QUEUE: u64 = 128 << 10;

/// What a loss leaves of the queue, as in CUBIC (RFC 9438 §4.6).
const KEPT: f64 = 0.7;
const REGAINED_WITHIN: Duration = Duration::from_secs(8);

/// For so long, and up to twice that, a short round trip counts.
const PERIOD: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
