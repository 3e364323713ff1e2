use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use quickset_base::number::within_u32;
use quickset_wire::{StreamId, StreamIdHasher};

use crate::packet::StreamKey;

/// Streams by slab index and by id. A slot that is used again has another generation, so that tokens of
/// its former owner find nothing.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<SlabSlot<T>>,
    free: Vec<u32>,
    /// New slots begin with it: those that were given back had no later one.
    generation: u32,
    /// Slots below are kept.
    reserved: usize,
    by_id: HashMap<u64, StreamKey, BuildHasherDefault<StreamIdHasher>>,
}

#[derive(Debug)]
struct SlabSlot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), generation: 0, reserved: 0, by_id: HashMap::default() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    #[inline]
    pub(super) fn key(&self, id: StreamId) -> Option<StreamKey> {
        self.by_id.get(&id.0).copied()
    }

    #[inline]
    pub(super) fn get(&self, key: StreamKey) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        if slot.generation == key.generation { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: StreamKey) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation == key.generation { slot.value.as_mut() } else { None }
    }

    #[inline]
    pub(super) fn by_id_mut(&mut self, id: StreamId) -> Option<(StreamKey, &mut T)> {
        let key = self.key(id)?;
        Some((key, self.get_mut(key)?))
    }

    /// Gives `id` a slot; `make` is told the key.
    pub(super) fn insert(&mut self, id: StreamId, make: impl FnOnce(StreamKey) -> T) -> StreamKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(SlabSlot { generation: self.generation, value: None });
            within_u32(self.slots.len() as u64 - 1)
        });
        let slot = &mut self.slots[index as usize];
        let key = StreamKey { index, generation: slot.generation };
        slot.value = Some(make(key));
        self.by_id.insert(id.0, key);
        key
    }

    /// A key that no stream will have.
    pub(super) fn reserve(&mut self) -> StreamKey {
        let generation = self.generation;
        self.slots.push(SlabSlot { generation, value: None });
        self.reserved = self.slots.len();
        StreamKey { index: within_u32(self.slots.len() as u64 - 1), generation }
    }

    pub(super) fn remove(&mut self, id: StreamId) -> Option<T> {
        let key = self.by_id.remove(&id.0)?;
        let slot = &mut self.slots[key.index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        slot.value.take()
    }

    /// Whether there is much room and nobody in it.
    #[inline]
    pub(super) fn is_swollen(&self) -> bool {
        self.slots.capacity() > self.reserved + FEW && self.by_id.is_empty()
    }

    /// Gives back the room, if nobody is in it.
    pub(super) fn rest(&mut self) {
        if !self.is_swollen() {
            return;
        }
        let last = self.slots.iter().map(|slot| slot.generation).max().unwrap_or(0);
        // Old keys must find nothing.
        let Some(next) = last.max(self.generation).checked_add(1) else { return };
        self.slots.truncate(self.reserved);
        self.slots.shrink_to_fit();
        let slots = self.slots.len();
        self.free.retain(|index| (*index as usize) < slots);
        self.free.shrink_to_fit();
        self.by_id = HashMap::default();
        self.generation = next;
    }

    /// All streams by slab index, which is the same order in every run.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamKey, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let key = StreamKey { index: within_u32(index as u64), generation: slot.generation };
            slot.value.as_mut().map(|value| (key, value))
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (StreamKey, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let key = StreamKey { index: within_u32(index as u64), generation: slot.generation };
            slot.value.as_ref().map(|value| (key, value))
        })
    }
}

/// Slots that are kept for whoever comes next.
const FEW: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_and_old_keys_find_nothing() {
        let mut slab = Slab::new();
        let outsider = slab.reserve();
        let mut old = Vec::new();
        for round in 0..3 {
            let keys: Vec<_> = (0..100).map(|n| slab.insert(StreamId(1000 * round + n), |_| n)).collect();
            slab.rest();
            assert!(keys.iter().zip(0..).all(|(key, n)| slab.get(*key) == Some(&n)), "nobody is thrown out");
            assert!(keys.iter().all(|key| !old.contains(key) && *key != outsider));
            assert!(old.iter().all(|key| slab.get(*key).is_none() && slab.get_mut(*key).is_none()));
            old.extend(keys);
            for n in 0..100 {
                assert!(!slab.is_swollen());
                assert_eq!(slab.remove(StreamId(1000 * round + n)), Some(n));
            }
            assert!(slab.is_swollen());
            slab.rest();
            assert!(!slab.is_swollen() && slab.slots.capacity() < 10 && slab.free.capacity() < 10);
        }
    }
}
