use crate::token::Key;

/// Who sends next: strict urgencies (0 first), and within one round robin by [`QUANTUM`].
///
/// The nodes are linked rings over the slab's indices, so every verb is O(1) and nothing is allocated
/// once the slab has its size.
#[derive(Debug, Default)]
pub(super) struct Queue {
    nodes: Vec<Node>,
    /// The node at the front of each urgency, whose predecessor is the last.
    heads: [u32; URGENCIES],
    /// Bit u is set when urgency u has a node.
    occupied: u8,
    /// Who is no stream, and takes turns like one.
    pub(super) guest: Option<Key>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Key,
    next: u32,
    prev: u32,
    /// Bytes that it may still send before its turn ends.
    left: u32,
    urgency: u8,
    linked: bool,
}

impl Queue {
    /// The stream whose turn it is; it stays at the front until its turn ends.
    #[inline]
    pub(super) fn next(&self) -> Option<Key> {
        let urgency = self.urgency()?;
        Some(self.nodes[self.heads[urgency as usize] as usize].key)
    }

    /// The urgency of [`next`](Self::next).
    #[inline]
    pub(super) fn urgency(&self) -> Option<u8> {
        (self.occupied != 0).then(|| self.occupied.trailing_zeros() as u8)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The stream has something to send: it joins at the back, or keeps its place if it is there already
    /// with this urgency.
    #[inline]
    pub(super) fn ready(&mut self, key: Key, urgency: u8) {
        debug_assert!((urgency as usize) < URGENCIES, "urgencies end at 7");
        let index = key.index as usize;
        if let Some(node) = self.nodes.get(index) {
            if node.linked {
                if node.key == key && node.urgency == urgency {
                    return;
                }
                self.unlink(key.index);
            }
        } else {
            self.nodes.resize(index + 1, UNUSED);
        }
        self.link_last(key, urgency);
    }

    /// The stream has nothing to send, or may not.
    #[inline]
    pub(super) fn blocked(&mut self, key: Key) {
        if self.nodes.get(key.index as usize).is_some_and(|node| node.linked && node.key == key) {
            self.unlink(key.index);
        }
    }

    /// The stream sent `bytes`; its turn may be over.
    #[inline]
    pub(super) fn sent(&mut self, key: Key, bytes: usize) {
        let Some(node) = self.nodes.get_mut(key.index as usize) else { return };
        if !node.linked || node.key != key {
            return;
        }
        node.left = node.left.saturating_sub(bytes as u32);
        if node.left > 0 {
            return;
        }
        node.left = QUANTUM;
        let (urgency, next) = (node.urgency as usize, node.next);
        // Moving the front of a ring to its back is a step of the head.
        if self.heads[urgency] == key.index {
            self.heads[urgency] = next;
        }
    }

    /// A stream that was [`blocked`](Self::blocked) and is not any more goes on with its turn, at the front of its urgency.
    pub(super) fn resume(&mut self, key: Key, urgency: u8) {
        let left = self.nodes.get(key.index as usize).map_or(QUANTUM, |node| node.left);
        self.ready(key, urgency);
        self.nodes[key.index as usize].left = left;
        self.heads[urgency as usize] = key.index;
    }

    /// The urgency at which a stream waits.
    pub(super) fn urgency_of(&self, key: Key) -> Option<u8> {
        let node = self.nodes.get(key.index as usize)?;
        (node.linked && node.key == key).then_some(node.urgency)
    }

    /// Nobody else waits.
    pub(super) fn is_only(&self, key: Key) -> bool {
        self.urgency_of(key).is_some_and(|urgency| {
            self.occupied == 1u8 << urgency && self.nodes[key.index as usize].next == key.index
        })
    }

    fn link_last(&mut self, key: Key, urgency: u8) {
        let at = key.index;
        let level = urgency as usize;
        let (next, prev) = if self.occupied & 1 << urgency == 0 {
            self.heads[level] = at;
            self.occupied |= 1 << urgency;
            (at, at)
        } else {
            let head = self.heads[level];
            let tail = self.nodes[head as usize].prev;
            self.nodes[tail as usize].next = at;
            self.nodes[head as usize].prev = at;
            (head, tail)
        };
        self.nodes[at as usize] = Node { key, next, prev, left: QUANTUM, urgency, linked: true };
    }

    fn unlink(&mut self, at: u32) {
        let Node { next, prev, urgency, .. } = self.nodes[at as usize];
        let level = urgency as usize;
        if next == at {
            self.occupied &= !(1 << urgency);
        } else {
            self.nodes[prev as usize].next = next;
            self.nodes[next as usize].prev = prev;
            if self.heads[level] == at {
                self.heads[level] = next;
            }
        }
        self.nodes[at as usize].linked = false;
    }

    /// How many streams are waiting, counted the long way.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.nodes.iter().filter(|node| node.linked).count()
    }

    /// True when this stream is waiting.
    pub(super) fn contains(&self, key: Key) -> bool {
        self.nodes.get(key.index as usize).is_some_and(|node| node.linked && node.key == key)
    }
}

/// Urgencies 0 to 7 (RFC 9218 §4.1).
pub(super) const URGENCIES: usize = 8;

/// Bytes of a turn: a few packets, so that a loss hits few streams and a turn costs little.
const QUANTUM: u32 = 4096;

const UNUSED: Node =
    Node { key: Key { index: 0, generation: 0 }, next: 0, prev: 0, left: 0, urgency: 0, linked: false };

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn key(index: u32) -> Key {
        Key { index, generation: 0 }
    }

    fn order(queue: &mut Queue, turns: usize) -> Vec<u32> {
        let mut order = Vec::new();
        for _ in 0..turns {
            let next = queue.next().unwrap();
            order.push(next.index);
            queue.sent(next, QUANTUM as usize);
        }
        order
    }

    #[test]
    fn urgencies_are_strict_and_equals_take_turns() {
        let mut queue = Queue::default();
        for (index, urgency) in [(0, 3), (1, 3), (2, 7), (3, 3), (4, 0)] {
            queue.ready(key(index), urgency);
        }
        assert_eq!(order(&mut queue, 3), [4, 4, 4]);
        queue.blocked(key(4));
        assert_eq!(order(&mut queue, 7), [0, 1, 3, 0, 1, 3, 0]);
        for index in [0, 1, 3] {
            queue.blocked(key(index));
        }
        assert_eq!(order(&mut queue, 2), [2, 2]);
        queue.blocked(key(2));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn a_turn_ends_with_the_quantum() {
        let mut queue = Queue::default();
        queue.ready(key(0), 3);
        queue.ready(key(1), 3);
        let mut packets = Vec::new();
        for _ in 0..8 {
            let next = queue.next().unwrap();
            packets.push(next.index);
            queue.sent(next, 1400);
        }
        // 4096 bytes are used up by the third packet of 1400.
        assert_eq!(packets, [0, 0, 0, 1, 1, 1, 0, 0]);
    }

    #[test]
    fn an_old_key_does_not_touch_the_new_owner_of_its_slot() {
        let mut queue = Queue::default();
        queue.ready(key(0), 3);
        queue.blocked(Key { index: 0, generation: 7 });
        assert_eq!(queue.next(), Some(key(0)));
    }

    fn remove(model: &mut [VecDeque<u32>; URGENCIES], index: u32) {
        for level in model {
            level.retain(|i| *i != index);
        }
    }

    proptest! {
        #[test]
        fn the_rings_agree_with_plain_queues(
            steps in prop::collection::vec((0u8..4, 0u32..6, 0u8..8), 1..200)
        ) {
            let mut queue = Queue::default();
            let mut model: [VecDeque<u32>; URGENCIES] = Default::default();
            for (what, index, urgency) in steps {
                match what {
                    0 => {
                        queue.ready(key(index), urgency);
                        if !model[urgency as usize].contains(&index) {
                            remove(&mut model, index);
                            model[urgency as usize].push_back(index);
                        }
                    }
                    1 => {
                        queue.blocked(key(index));
                        remove(&mut model, index);
                    }
                    _ => if let Some(next) = queue.next() {
                        queue.sent(next, QUANTUM as usize);
                        model.iter_mut().find(|level| !level.is_empty()).unwrap().rotate_left(1);
                    }
                }
                let front = model.iter().find_map(|level| level.front());
                prop_assert_eq!(queue.next().map(|k| k.index), front.copied());
                prop_assert_eq!(queue.count(), model.iter().map(VecDeque::len).sum::<usize>());
            }
        }
    }
}
