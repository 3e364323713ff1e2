use std::collections::HashMap;

use quickset_base::{Duration, Time};

use super::ConnectionKey;
use crate::places::{NetworkOwner, Place, Places};

/// The connections of which we are the server, by how far they have come, and who of them makes room for
/// another.
///
/// Everybody can say hello from every address. So a client that has not proved its address has a place as
/// long as nobody needs it who has; and among those that have, whoever has the most handshakes under way
/// makes room first. Only whoever is through with the handshake keeps its place in any case.
#[derive(Debug, Default)]
pub(super) struct Guests {
    all: HashMap<ConnectionKey, EndpointGuest>,
    /// Handshakes of clients that may be anywhere, and so are nobody's.
    unproven: Places<(), ConnectionKey>,
    /// Handshakes of clients that have proved their address.
    proven: Places<NetworkOwner, ConnectionKey>,
    established: usize,
    /// Those that are over and stay to say so again (RFC 9000 §10.2): they hold little, and count no more.
    leaving: Places<(), ConnectionKey>,
    /// Those that have made room, and have not heard of it.
    displaced: Vec<ConnectionKey>,
}

#[derive(Debug)]
struct EndpointGuest {
    network: NetworkOwner,
    came: Time,
    stage: GuestStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GuestStage {
    Unproven(Place),
    Proven(Place),
    Established,
    Leaving(Place),
    /// It has no place, and goes.
    Displaced,
}

/// Whether there is room for one more client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestRoom {
    /// There is.
    Free,
    /// This one makes room.
    Of(ConnectionKey),
    /// Not yet: it may come again.
    Later,
    /// There is none, and nobody who would make any.
    None,
}

impl Guests {
    /// Whether there is room for a client of `network` that has `proved` to be there, with `most` connections
    /// at a time.
    pub(super) fn room(&self, now: Time, network: NetworkOwner, proved: bool, most: usize) -> GuestRoom {
        let free = self.len() < most;
        if !proved {
            return if free { GuestRoom::Free } else { GuestRoom::None };
        }
        // Of its own network first: others have no part in how many of these there are.
        if self.proven.of(&network) >= share(most) {
            return self.when_late(now, self.proven.oldest_of(&network));
        }
        if free {
            return GuestRoom::Free;
        }
        let unproven = self.unproven.oldest().and_then(|place| self.unproven.holder(place));
        let greedy = || self.proven.just(&network).and_then(|place| self.proven.holder(place));
        match unproven.or_else(greedy) {
            Some(key) => GuestRoom::Of(*key),
            None => self.when_late(now, self.proven.oldest()),
        }
    }

    /// A client has come in.
    pub(super) fn enter(&mut self, now: Time, key: ConnectionKey, network: NetworkOwner, proved: bool) {
        let stage = if proved {
            GuestStage::Proven(self.proven.take(network, key))
        } else {
            GuestStage::Unproven(self.unproven.take((), key))
        };
        self.all.insert(key, EndpointGuest { network, came: now, stage });
    }

    /// It is where it says, since it has received what was sent there. Of its network no more shake hands for
    /// that than may with `most` connections at a time.
    pub(super) fn prove(&mut self, key: ConnectionKey, most: usize) {
        let Some(&EndpointGuest { network, stage: stage @ GuestStage::Unproven(_), .. }) = self.all.get(&key)
        else {
            return;
        };
        let is_much = self.proven.of(&network) >= share(most);
        let oldest = self.proven.oldest_of(&network).filter(|_| is_much);
        let oldest = oldest.and_then(|place| self.proven.holder(place)).copied();
        let place = self.proven.take(network, key);
        self.step(key, stage, GuestStage::Proven(place));
        if let Some(oldest) = oldest {
            self.displace(oldest);
        }
    }

    /// Its handshake is complete.
    pub(super) fn establish(&mut self, key: ConnectionKey) {
        if let Some(stage @ (GuestStage::Unproven(_) | GuestStage::Proven(_))) = self.stage(key) {
            self.step(key, stage, GuestStage::Established);
        }
    }

    /// It is over, but for what it may have to say again. Of those there are `most`, too: the oldest go.
    pub(super) fn end(&mut self, key: ConnectionKey, most: usize) {
        let Some(stage @ (GuestStage::Unproven(_) | GuestStage::Proven(_) | GuestStage::Established)) =
            self.stage(key)
        else {
            return;
        };
        let place = self.leaving.take((), key);
        self.step(key, stage, GuestStage::Leaving(place));
        if self.leaving.len() > most {
            let oldest = self.leaving.oldest().and_then(|place| self.leaving.holder(place)).copied();
            if let Some(oldest) = oldest {
                self.displace(oldest);
            }
        }
    }

    /// It has no place any more, and hears of that by [`displaced`](Self::displaced).
    pub(super) fn displace(&mut self, key: ConnectionKey) {
        let Some(stage) = self.stage(key).filter(|stage| *stage != GuestStage::Displaced) else { return };
        self.step(key, stage, GuestStage::Displaced);
        self.displaced.push(key);
    }

    /// One that has lost its place since this was asked.
    pub(super) fn displaced(&mut self) -> Option<ConnectionKey> {
        self.displaced.pop()
    }

    /// It is gone.
    pub(super) fn remove(&mut self, key: ConnectionKey) {
        if let Some(stage) = self.stage(key) {
            self.step(key, stage, GuestStage::Displaced);
            self.all.remove(&key);
        }
    }

    /// Connections that count.
    pub(super) fn len(&self) -> usize {
        self.unproven.len() + self.proven.len() + self.established
    }

    /// Those of them that have not proved their address.
    pub(super) fn unproven(&self) -> usize {
        self.unproven.len()
    }

    fn stage(&self, key: ConnectionKey) -> Option<GuestStage> {
        self.all.get(&key).map(|guest| guest.stage)
    }

    fn step(&mut self, key: ConnectionKey, from: GuestStage, to: GuestStage) {
        match from {
            GuestStage::Unproven(place) => drop(self.unproven.leave(place)),
            GuestStage::Proven(place) => drop(self.proven.leave(place)),
            GuestStage::Established => self.established -= 1,
            GuestStage::Leaving(place) => drop(self.leaving.leave(place)),
            GuestStage::Displaced => {}
        }
        self.established += usize::from(to == GuestStage::Established);
        if let Some(guest) = self.all.get_mut(&key) {
            guest.stage = to;
        }
    }

    /// Whoever shakes hands for longer than that makes room.
    fn when_late(&self, now: Time, place: Option<Place>) -> GuestRoom {
        let Some(key) = place.and_then(|place| self.proven.holder(place)) else { return GuestRoom::None };
        let came = self.all.get(key).map_or(now, |guest| guest.came);
        if now.since(came) >= PATIENCE { GuestRoom::Of(*key) } else { GuestRoom::Later }
    }
}

/// Handshakes that a network may have under way, with `most` connections at a time.
fn share(most: usize) -> usize {
    (most / 4).max(4)
}

/// What a handshake has before it makes room for others: a few round trips of nearly all paths.
const PATIENCE: Duration = Duration::from_secs(1);
