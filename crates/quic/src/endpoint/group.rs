//! What several endpoints of one server have in common: how many clients there are, and which tokens were
//! used.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quickset_base::Time;

use super::bucket::Bucket;
use crate::places::NetworkOwner;
use crate::validation::{Nonce, Replays};

/// What several endpoints have in common that are one server, as the sockets of a port are.
///
/// [`ServerConfig::max_connections`](crate::ServerConfig::max_connections) is of all of them together, a
/// token from NEW_TOKEN is good at one of them only (RFC 9000 §8.1.4), and
/// [`EndpointConfig::resets_per_second`](crate::EndpointConfig::resets_per_second), of whichever made the
/// first reset, is of all. An endpoint by itself is a group of one.
///
/// A client that has proved its address and finds all places taken gets that of a handshake that has not; if
/// that is another endpoint's, this hears of it with its next turn, and there is one client too many until
/// then. Each endpoint lets a network have one handshake under way, whatever others have of it.
#[derive(Debug, Default)]
pub struct EndpointGroup {
    /// Clients that count.
    taken: AtomicUsize,
    /// Those of them that have not proved their address.
    unproven: AtomicUsize,
    /// Connections that are over, and stay to say so.
    leaving: AtomicUsize,
    /// Handshakes of clients that have proved their address, by network.
    proven: Mutex<BTreeMap<NetworkOwner, usize>>,
    spent: Mutex<Replays>,
    resets: Mutex<Option<Bucket>>,
}

/// What a client holds of what a group has; dropping it gives that back.
#[derive(Debug)]
pub(super) struct GroupPlace {
    group: Arc<EndpointGroup>,
    kind: PlaceKind,
}

/// As what a client is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    Unproven,
    Proven(NetworkOwner),
    Established,
    /// It counts no more, but with others that are over.
    Leaving,
}

impl EndpointGroup {
    /// Clients that count, at all endpoints.
    pub fn connections(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Those of them that have not proved their address.
    pub(super) fn unproven(&self) -> usize {
        self.unproven.load(Ordering::Relaxed)
    }

    /// Connections that are over, and stay to say so.
    pub(super) fn leaving(&self) -> usize {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Handshakes of a network that has proved to be there.
    pub(super) fn proven_of(&self, network: NetworkOwner) -> usize {
        self.proven().get(&network).copied().unwrap_or(0)
    }

    /// Somebody who has proved an address is in its handshake.
    pub(super) fn has_proven(&self) -> bool {
        !self.proven().is_empty()
    }

    /// Takes a place, of `most`; with `None` whether there is one or not. `None` when there is none.
    pub(super) fn take(self: &Arc<Self>, kind: PlaceKind, most: Option<usize>) -> Option<GroupPlace> {
        let one_more = |taken: usize| most.is_none_or(|most| taken < most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        self.count(kind);
        Some(GroupPlace { group: self.clone(), kind })
    }

    pub(super) fn is_spent(&self, nonce: &Nonce) -> bool {
        self.spent().contains(nonce)
    }

    /// False when the token was spent before.
    pub(super) fn spend(&self, nonce: Nonce) -> bool {
        self.spent().spend(nonce)
    }

    /// Takes leave for a stateless reset, of so many a second.
    pub(super) fn may_reset(&self, now: Time, per_second: u32) -> bool {
        let mut resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
        resets.get_or_insert_with(|| Bucket::new(per_second)).take(now)
    }

    fn count(&self, kind: PlaceKind) {
        match kind {
            PlaceKind::Unproven => drop(self.unproven.fetch_add(1, Ordering::Relaxed)),
            PlaceKind::Proven(network) => *self.proven().entry(network).or_insert(0) += 1,
            PlaceKind::Established => {}
            PlaceKind::Leaving => drop(self.leaving.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn discount(&self, kind: PlaceKind) {
        match kind {
            PlaceKind::Unproven => drop(self.unproven.fetch_sub(1, Ordering::Relaxed)),
            PlaceKind::Proven(network) => {
                let mut proven = self.proven();
                if let Some(many) = proven.get_mut(&network) {
                    *many -= 1;
                    if *many == 0 {
                        proven.remove(&network);
                    }
                }
            }
            PlaceKind::Established => {}
            PlaceKind::Leaving => drop(self.leaving.fetch_sub(1, Ordering::Relaxed)),
        }
    }

    fn proven(&self) -> MutexGuard<'_, BTreeMap<NetworkOwner, usize>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spent(&self) -> MutexGuard<'_, Replays> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GroupPlace {
    /// It is counted as something else from now on.
    pub(super) fn turn(&mut self, to: PlaceKind) {
        let from = std::mem::replace(&mut self.kind, to);
        if from == to {
            return;
        }
        self.group.count(to);
        self.group.discount(from);
        match (from == PlaceKind::Leaving, to == PlaceKind::Leaving) {
            (false, true) => drop(self.group.taken.fetch_sub(1, Ordering::Relaxed)),
            (true, false) => drop(self.group.taken.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

impl Drop for GroupPlace {
    fn drop(&mut self) {
        self.group.discount(self.kind);
        if self.kind != PlaceKind::Leaving {
            self.group.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
