use std::collections::HashMap;

use quickset_base::Rng;
use quickset_wire::ConnectionId;

use super::layout::ConnectionIds;

/// Names a connection of an endpoint: a small index, used again after the connection is gone, and a
/// generation that tells the old use from the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionKey {
    index: u32,
    generation: u32,
}

impl ConnectionKey {
    /// The place of the connection in a slab; unique among the connections that are alive.
    #[inline]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// Which ids belong to which connection.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// Ids that we issued.
    ours: HashMap<ConnectionId, ConnectionKey>,
    /// Ids that clients address a server with before they know one of ours; only in long headers.
    firsts: HashMap<ConnectionId, ConnectionKey>,
    slots: Vec<IdSlot>,
    free: Vec<u32>,
    /// Where the last packet with a short header went: batches come from one peer.
    last: Option<(ConnectionId, ConnectionKey)>,
}

#[derive(Debug)]
struct IdSlot {
    generation: u32,
    entry: Option<ConnectionEntry>,
}

/// What is known of one connection.
#[derive(Debug)]
struct ConnectionEntry {
    ids: Vec<IssuedId>,
    next_sequence: u64,
    /// For a server: the id of the client's first packet. It stays until the end, since a late duplicate of
    /// that packet must not begin another connection.
    first: Option<ConnectionId>,
}

/// An id of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IssuedId {
    pub(super) sequence: u64,
    pub(super) id: ConnectionId,
}

impl Registry {
    /// The connection of a short header with the same id as the last one: one comparison.
    #[inline]
    pub(super) fn same_as_last(&self, datagram: &[u8]) -> Option<ConnectionKey> {
        let (id, key) = self.last.as_ref()?;
        let (first, rest) = datagram.split_first()?;
        (first & LONG == 0 && rest.get(..id.len())? == &**id).then_some(*key)
    }

    /// The connection that a short header is for.
    pub(super) fn route_short(&mut self, dcid: &ConnectionId) -> Option<ConnectionKey> {
        let key = *self.ours.get(dcid)?;
        self.last = Some((*dcid, key));
        Some(key)
    }

    /// The connection that a long header is for.
    pub(super) fn route_long(&self, dcid: &ConnectionId) -> Option<ConnectionKey> {
        self.ours.get(dcid).or_else(|| self.firsts.get(dcid)).copied()
    }

    /// A place for a new connection; `first` is the id that a client addresses it with, for a server.
    pub(super) fn add(&mut self, first: Option<ConnectionId>) -> ConnectionKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(IdSlot { generation: 0, entry: None });
            u32::try_from(self.slots.len() - 1).expect("connections are counted by 32 bits")
        });
        let slot = &mut self.slots[index as usize];
        let key = ConnectionKey { index, generation: slot.generation };
        slot.entry = Some(ConnectionEntry { ids: Vec::new(), next_sequence: 0, first });
        if let Some(first) = first {
            self.firsts.insert(first, key);
        }
        key
    }

    /// A fresh id; `None` when the connection is gone, has enough, or no id is free.
    pub(super) fn issue(
        &mut self,
        key: ConnectionKey,
        ids: &dyn ConnectionIds,
        rng: &mut Rng,
    ) -> Option<IssuedId> {
        if self.entry(key)?.ids.len() >= MAX_IDS {
            return None;
        }
        let id = (0..DRAWS)
            .map(|_| ids.draw(rng))
            .find(|id| id.len() == ids.id_len() && !self.ours.contains_key(id))?;
        let entry = self.entry(key)?;
        let issued = IssuedId { sequence: entry.next_sequence, id };
        entry.next_sequence += 1;
        entry.ids.push(issued);
        self.ours.insert(id, key);
        Some(issued)
    }

    /// The peer uses the id of this number no more.
    pub(super) fn retire(&mut self, key: ConnectionKey, sequence: u64) {
        let Some(entry) = self.entry(key) else { return };
        let Some(at) = entry.ids.iter().position(|issued| issued.sequence == sequence) else { return };
        let id = entry.ids.swap_remove(at).id;
        self.forget(&id);
    }

    /// The connection is gone.
    pub(super) fn remove(&mut self, key: ConnectionKey) {
        let Some(slot) = self.slots.get_mut(key.index()).filter(|slot| slot.generation == key.generation)
        else {
            return;
        };
        let Some(entry) = slot.entry.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        for issued in &entry.ids {
            self.forget(&issued.id);
        }
        if let Some(first) = entry.first {
            self.firsts.remove(&first);
        }
    }

    /// Connections in all.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn is_alive(&self, key: ConnectionKey) -> bool {
        self.slots.get(key.index()).is_some_and(|s| s.generation == key.generation && s.entry.is_some())
    }

    fn entry(&mut self, key: ConnectionKey) -> Option<&mut ConnectionEntry> {
        let slot = self.slots.get_mut(key.index())?;
        if slot.generation == key.generation { slot.entry.as_mut() } else { None }
    }

    fn forget(&mut self, id: &ConnectionId) {
        self.ours.remove(id);
        if self.last.is_some_and(|(last, _)| last == *id) {
            self.last = None;
        }
    }
}

/// Ids of a connection at a time, whatever its peer would take.
pub(super) const MAX_IDS: usize = 8;

/// How often a free id is looked for. With ids of a byte, an endpoint is full at 255 or so.
const DRAWS: usize = 64;

const LONG: u8 = 0x80;
