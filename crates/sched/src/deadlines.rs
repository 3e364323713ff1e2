use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::number::entry;

/// Messages of one leaf, of which the one with the closest deadline that can still be met goes first (FlEC,
/// algorithm 3).
///
/// 1. [`expire`](Self::expire) takes out what cannot arrive in time any more, one at a time, to be reported.
/// 2. [`next`](Self::next) tells which message goes next; it stays until it is removed, and another may go
///    before it when that one's deadline is closer.
/// 3. What was sent is taken out with [`remove`](Self::remove).
///
/// A deadline can be met when `now + owd <= deadline`, `owd` the time to the other side. All three are in one
/// unit, nanoseconds in Quickset. Where no deadline can be met it is first come, first served among messages
/// without one.
///
/// All verbs are O(log n); `next` walks besides over those that may not be sent and are before the one it
/// finds. Nothing is allocated once buffers have grown.
#[derive(Debug)]
pub struct Deadlines<K> {
    slots: Vec<DeadlineSlot<K>>,
    /// Slots of messages with a deadline, as a binary heap: no child is due before its parent.
    heap: Vec<u32>,
    /// Those without, in the order in which they came.
    first: u32,
    last: u32,
    free: u32,
    numbers: u64,
    bytes: u64,
    len: usize,
    /// Scratch of `next`: places in the heap of which all above were seen.
    frontier: Vec<u32>,
}

/// A message in [`Deadlines`], good until it is removed or expired; it never means another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId {
    slot: u32,
    generation: NonZeroU32,
}

/// A message that was taken out of [`Deadlines`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueMessage<K> {
    /// What the caller knows it by.
    pub key: K,
    /// When it is to be there.
    pub deadline: Option<u64>,
    /// In bytes.
    pub size: u64,
}

#[derive(Debug)]
struct DeadlineSlot<K> {
    message: Option<DueMessage<K>>,
    generation: NonZeroU32,
    /// The order in which messages came.
    number: u64,
    /// Its place in the heap.
    place: u32,
    /// Its neighbours among those without a deadline; `next` links free slots, too.
    next: u32,
    prev: u32,
}

impl<K> Deadlines<K> {
    /// Without messages.
    pub const fn new() -> Self {
        Self {
            slots: Vec::new(),
            heap: Vec::new(),
            first: NIL,
            last: NIL,
            free: NIL,
            numbers: 0,
            bytes: 0,
            len: 0,
            frontier: Vec::new(),
        }
    }

    /// A message of `size` bytes that is to be at the other side by its deadline.
    pub fn insert(&mut self, key: K, deadline: Option<u64>, size: u64) -> MessageId {
        self.numbers += 1;
        self.bytes = self.bytes.saturating_add(size);
        self.len += 1;
        let index = self.vacant();
        let last = self.last;
        let slot = &mut self.slots[index as usize];
        slot.message = Some(DueMessage { key, deadline, size });
        slot.number = self.numbers;
        (slot.next, slot.prev) = (NIL, NIL);
        let generation = slot.generation;
        if deadline.is_some() {
            slot.place = entry(self.heap.len());
            self.heap.push(index);
            self.sift_up(self.heap.len() - 1);
        } else {
            slot.prev = last;
            self.last = index;
            match self.slots.get_mut(last as usize) {
                Some(before) => before.next = index,
                None => self.first = index,
            }
        }
        MessageId { slot: index, generation }
    }

    /// The message to be sent now, of those that `sendable` lets pass (flow control may not). Expired ones
    /// are never told.
    pub fn next(&mut self, now: u64, owd: u64, mut sendable: impl FnMut(&K) -> bool) -> Option<MessageId> {
        let arrival = now.saturating_add(owd);
        self.frontier.clear();
        if !self.heap.is_empty() {
            self.frontier.push(0);
        }
        while let Some(place) = self.nearest() {
            let index = self.heap[place];
            let message = self.slots[index as usize].message.as_ref();
            if message.is_some_and(|m| m.deadline >= Some(arrival) && sendable(&m.key)) {
                return Some(self.id(index));
            }
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() {
                    self.await_place(child);
                }
            }
        }
        let mut at = self.first;
        while let Some(slot) = self.slots.get(at as usize) {
            if slot.message.as_ref().is_some_and(|m| sendable(&m.key)) {
                return Some(self.id(at));
            }
            at = slot.next;
        }
        None
    }

    /// Takes out one message that cannot arrive in time any more, the one that was due first.
    pub fn expire(&mut self, now: u64, owd: u64) -> Option<DueMessage<K>> {
        let arrival = now.saturating_add(owd);
        let &index = self.heap.first()?;
        if self.due(index).0 >= arrival {
            return None;
        }
        self.remove(self.id(index))
    }

    /// The time after which [`expire`](Self::expire) finds something, if nothing changes.
    pub fn next_expiry(&self, owd: u64) -> Option<u64> {
        self.heap.first().map(|&index| self.due(index).0.saturating_sub(owd))
    }

    /// Takes out a message; `None` when it is not there any more.
    pub fn remove(&mut self, id: MessageId) -> Option<DueMessage<K>> {
        let slot = self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation)?;
        let message = slot.message.take()?;
        let (place, next, prev) = (slot.place as usize, slot.next, slot.prev);
        if message.deadline.is_some() {
            self.leave_heap(place);
        } else {
            match self.slots.get_mut(prev as usize) {
                Some(before) => before.next = next,
                None => self.first = next,
            }
            match self.slots.get_mut(next as usize) {
                Some(after) => after.prev = prev,
                None => self.last = prev,
            }
        }
        self.bytes = self.bytes.saturating_sub(message.size);
        self.len -= 1;
        let slot = &mut self.slots[id.slot as usize];
        // A slot whose generations are used up is never used again.
        if let Some(generation) = slot.generation.checked_add(1) {
            slot.generation = generation;
            slot.next = self.free;
            self.free = id.slot;
        }
        Some(message)
    }

    /// A message that is there.
    pub fn get(&self, id: MessageId) -> Option<&DueMessage<K>> {
        let slot = self.slots.get(id.slot as usize).filter(|slot| slot.generation == id.generation)?;
        slot.message.as_ref()
    }

    /// Messages.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no message.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all messages.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn vacant(&mut self) -> u32 {
        if self.free != NIL {
            let index = self.free;
            self.free = self.slots[index as usize].next;
            return index;
        }
        let slot = DeadlineSlot {
            message: None,
            generation: NonZeroU32::MIN,
            number: 0,
            place: 0,
            next: NIL,
            prev: NIL,
        };
        self.slots.push(slot);
        entry(self.slots.len() - 1)
    }

    fn id(&self, index: u32) -> MessageId {
        MessageId { slot: index, generation: self.slots[index as usize].generation }
    }

    /// By what the heap is ordered; who came first goes first among equals.
    fn due(&self, index: u32) -> (u64, u64) {
        let slot = &self.slots[index as usize];
        (slot.message.as_ref().and_then(|m| m.deadline).unwrap_or(u64::MAX), slot.number)
    }

    fn put(&mut self, place: usize, index: u32) {
        self.heap[place] = index;
        self.slots[index as usize].place = entry(place);
    }

    fn sift_up(&mut self, mut place: usize) {
        let index = self.heap[place];
        while place > 0 {
            let above = (place - 1) / 2;
            if self.due(self.heap[above]) <= self.due(index) {
                break;
            }
            self.put(place, self.heap[above]);
            place = above;
        }
        self.put(place, index);
    }

    fn sift_down(&mut self, mut place: usize) {
        let index = self.heap[place];
        loop {
            let mut below = 2 * place + 1;
            if below + 1 < self.heap.len() && self.due(self.heap[below + 1]) < self.due(self.heap[below]) {
                below += 1;
            }
            if below >= self.heap.len() || self.due(index) <= self.due(self.heap[below]) {
                break;
            }
            self.put(place, self.heap[below]);
            place = below;
        }
        self.put(place, index);
    }

    fn leave_heap(&mut self, place: usize) {
        let Some(last) = self.heap.pop() else { return };
        if place < self.heap.len() {
            self.put(place, last);
            self.sift_up(place);
            let place = self.slots[last as usize].place as usize;
            self.sift_down(place);
        }
    }

    /// Adds a place of the heap to the frontier, itself a heap.
    fn await_place(&mut self, place: usize) {
        let mut at = self.frontier.len();
        self.frontier.push(entry(place));
        while at > 0 {
            let above = (at - 1) / 2;
            if self.due_at(above) <= self.due_at(at) {
                break;
            }
            self.frontier.swap(above, at);
            at = above;
        }
    }

    /// Takes the place of the frontier that is due first.
    fn nearest(&mut self) -> Option<usize> {
        if self.frontier.is_empty() {
            return None;
        }
        let place = self.frontier.swap_remove(0) as usize;
        let mut at = 0;
        loop {
            let mut below = 2 * at + 1;
            if below + 1 < self.frontier.len() && self.due_at(below + 1) < self.due_at(below) {
                below += 1;
            }
            if below >= self.frontier.len() || self.due_at(at) <= self.due_at(below) {
                return Some(place);
            }
            self.frontier.swap(at, below);
            at = below;
        }
    }

    fn due_at(&self, at: usize) -> (u64, u64) {
        self.due(self.heap[self.frontier[at] as usize])
    }
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self::new()
    }
}

const NIL: u32 = u32::MAX;
