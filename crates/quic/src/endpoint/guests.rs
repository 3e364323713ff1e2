use std::collections::HashMap;
use std::sync::Arc;

use quickset_base::{Duration, Time};

use super::ConnectionKey;
use super::group::{EndpointGroup, GroupPlace, PlaceKind};
use crate::places::{NetworkOwner, Place, Places};

/// The connections of which we are the server, by how far they have come, and who of them makes room for
/// another.
///
/// Everybody can say hello from every address. So a client that has not proved its address has a place as
/// long as nobody needs it who has; and among those that have, whoever has the most handshakes under way
/// makes room first. Only whoever is through with the handshake keeps its place in any case. How many there
/// are is counted in the group of endpoints; who makes room is one of this endpoint's.
#[derive(Debug, Default)]
pub(super) struct Guests {
    group: Arc<EndpointGroup>,
    all: HashMap<ConnectionKey, EndpointGuest>,
    /// Handshakes of clients that may be anywhere, and so are nobody's.
    unproven: Places<(), ConnectionKey>,
    /// Handshakes of clients that have proved their address.
    proven: Places<NetworkOwner, ConnectionKey>,
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
    /// `None` when it has none any more.
    place: Option<GroupPlace>,
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
    /// There is, since one of another endpoint of the group will make some.
    Owed,
    /// Not yet: it may come again.
    Later,
    /// There is none, and nobody who would make any.
    None,
}

impl Guests {
    /// Those of an endpoint of a group.
    pub(super) fn of(group: Arc<EndpointGroup>) -> Self {
        Self { group, ..Self::default() }
    }

    /// What all endpoints have in common.
    pub(super) fn group(&self) -> &Arc<EndpointGroup> {
        &self.group
    }

    /// Whether there is room for a client of `network` that has `proved` to be there, with `most` connections
    /// at a time.
    pub(super) fn room(&self, now: Time, network: NetworkOwner, proved: bool, most: usize) -> GuestRoom {
        let free = self.group.connections() < most;
        if !proved {
            return if free { GuestRoom::Free } else { GuestRoom::None };
        }
        // Of its own network first: others have no part in how many of these there are.
        if self.is_much(network, most) {
            return self.when_late(now, self.proven.oldest_of(&network));
        }
        if free {
            return GuestRoom::Free;
        }
        let unproven = self.unproven.oldest().and_then(|place| self.unproven.holder(place));
        let greedy = || self.proven.just(&network).and_then(|place| self.proven.holder(place));
        match unproven.or_else(greedy) {
            Some(key) => GuestRoom::Of(*key),
            // Those who are through with the handshake, and those who are where they say, are no more than
            // that.
            None if self.group.connections().saturating_sub(self.group.unproven()) < most => GuestRoom::Owed,
            None => self.when_late(now, self.proven.oldest()),
        }
    }

    /// A client has come in, and has taken its place.
    pub(super) fn enter(
        &mut self,
        now: Time,
        key: ConnectionKey,
        network: NetworkOwner,
        mut place: GroupPlace,
        proved: bool,
    ) {
        place.turn(if proved { PlaceKind::Proven(network) } else { PlaceKind::Unproven });
        let stage = if proved {
            GuestStage::Proven(self.proven.take(network, key))
        } else {
            GuestStage::Unproven(self.unproven.take((), key))
        };
        self.all.insert(key, EndpointGuest { network, came: now, stage, place: Some(place) });
    }

    /// It is where it says, since it has received what was sent there. Of its network no more shake hands for
    /// that than may with `most` connections at a time.
    pub(super) fn prove(&mut self, key: ConnectionKey, most: usize) {
        let Some(&EndpointGuest { network, stage: stage @ GuestStage::Unproven(_), .. }) = self.all.get(&key)
        else {
            return;
        };
        let is_much = self.is_much(network, most);
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

    /// It is over, but for what it may have to say again. Of those there are `most`, too: the oldest of this
    /// endpoint go.
    pub(super) fn end(&mut self, key: ConnectionKey, most: usize) {
        let Some(stage @ (GuestStage::Unproven(_) | GuestStage::Proven(_) | GuestStage::Established)) =
            self.stage(key)
        else {
            return;
        };
        let place = self.leaving.take((), key);
        self.step(key, stage, GuestStage::Leaving(place));
        if self.group.leaving() > most {
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

    /// One that makes room for a client of another endpoint of the group, which has more than `most` by now.
    pub(super) fn owing(&self, most: usize) -> Option<ConnectionKey> {
        if self.group.connections() <= most {
            return None;
        }
        self.unproven.oldest().and_then(|place| self.unproven.holder(place)).copied()
    }

    /// Whether a network has as many handshakes under way as it may; here it may have one in any case, since
    /// nobody here could make room for it.
    fn is_much(&self, network: NetworkOwner, most: usize) -> bool {
        self.proven.of(&network) > 0 && self.group.proven_of(network) >= share(most)
    }

    fn stage(&self, key: ConnectionKey) -> Option<GuestStage> {
        self.all.get(&key).map(|guest| guest.stage)
    }

    fn step(&mut self, key: ConnectionKey, from: GuestStage, to: GuestStage) {
        match from {
            GuestStage::Unproven(place) => drop(self.unproven.leave(place)),
            GuestStage::Proven(place) => drop(self.proven.leave(place)),
            GuestStage::Leaving(place) => drop(self.leaving.leave(place)),
            GuestStage::Established | GuestStage::Displaced => {}
        }
        let Some(guest) = self.all.get_mut(&key) else { return };
        guest.stage = to;
        let counted = match to {
            GuestStage::Unproven(_) => PlaceKind::Unproven,
            GuestStage::Proven(_) => PlaceKind::Proven(guest.network),
            GuestStage::Established => PlaceKind::Established,
            GuestStage::Leaving(_) => PlaceKind::Leaving,
            GuestStage::Displaced => {
                guest.place = None;
                return;
            }
        };
        if let Some(place) = &mut guest.place {
            place.turn(counted);
        }
    }

    /// Whoever shakes hands for longer than that makes room.
    fn when_late(&self, now: Time, place: Option<Place>) -> GuestRoom {
        let Some(key) = place.and_then(|place| self.proven.holder(place)) else {
            return if self.group.has_proven() { GuestRoom::Later } else { GuestRoom::None };
        };
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
