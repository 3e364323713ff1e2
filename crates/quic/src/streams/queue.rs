use std::collections::BTreeSet;

use crate::token::Key;

/// Who sends next: strict levels (the first goes first), and within one round robin by [`QUANTUM`].
///
/// Streams that go one after the other share a turn: the first in line stands in the ring for all of its level, so that they
/// neither starve those that take turns nor are starved by them.
///
/// The nodes are linked rings over the slab's indices, so every verb is O(1) and nothing is allocated
/// once the slab has its size; only a line costs the logarithm of its length, when it is longer than one.
#[derive(Debug, Default)]
pub(super) struct Queue {
    nodes: Vec<Node>,
    /// The node at the front of each level, whose predecessor is the last.
    heads: [u32; LEVELS],
    /// Bit n is set when level n has a node.
    occupied: u16,
    /// Who stands in the ring for the line of its level.
    first: [Option<Key>; LEVELS],
    /// The others, by level and number.
    line: BTreeSet<(u8, u64, Key)>,
    /// Who is no stream, and takes turns like one.
    pub(super) guest: Option<Key>,
}

/// How urgent: what is critical, and behind it the urgencies 0 to 7 (RFC 9218 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(u8);

impl Level {
    /// Above all urgencies.
    pub(crate) const CRITICAL: Self = Self(0);

    /// 0 is the most urgent, 7 the least; greater numbers count as 7.
    pub(crate) const fn of(urgency: u8) -> Self {
        Self(if urgency < 7 { urgency } else { 7 } + 1)
    }
}

/// Where a stream stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) level: Level,
    /// Its number in the line of those that go one after the other, or [`IN_TURN`].
    pub(super) number: u64,
}

impl Place {
    /// Among those that take turns.
    pub(super) fn in_turn(level: Level) -> Self {
        Self { level, number: IN_TURN }
    }

    fn level(self) -> usize {
        self.level.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Key,
    next: u32,
    prev: u32,
    /// Bytes that it may still send before its turn ends.
    left: u32,
    at: At,
    place: Place,
}

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Nowhere,
    Ring,
    /// Behind the first of its line.
    Line,
}

impl Queue {
    /// The stream whose turn it is; it stays at the front until its turn ends.
    #[inline]
    pub(super) fn next(&self) -> Option<Key> {
        let level = self.level()?;
        Some(self.nodes[self.heads[level.0 as usize] as usize].key)
    }

    /// The level of [`next`](Self::next).
    #[inline]
    pub(super) fn level(&self) -> Option<Level> {
        (self.occupied != 0).then(|| Level(self.occupied.trailing_zeros() as u8))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The stream has something to send: it joins at the back, or in its place of the line, or stays where it is if it is
    /// there already.
    #[inline]
    pub(super) fn ready(&mut self, key: Key, place: Place) {
        let index = key.index as usize;
        if let Some(node) = self.nodes.get(index) {
            if node.at != At::Nowhere {
                if node.key == key && node.place == place {
                    return;
                }
                self.leave(key.index);
            }
        } else {
            self.nodes.resize(index + 1, UNUSED);
        }
        if place.number == IN_TURN {
            self.link_last(key, place);
        } else {
            self.join_line(key, place);
        }
    }

    /// The stream has nothing to send, or may not.
    #[inline]
    pub(super) fn blocked(&mut self, key: Key) {
        if self.contains(key) {
            self.leave(key.index);
        }
    }

    /// The stream sent `bytes`; its turn may be over.
    #[inline]
    pub(super) fn sent(&mut self, key: Key, bytes: usize) {
        let Some(node) = self.nodes.get_mut(key.index as usize) else { return };
        if node.at != At::Ring || node.key != key {
            return;
        }
        node.left = node.left.saturating_sub(bytes as u32);
        if node.left > 0 {
            return;
        }
        node.left = QUANTUM;
        let (level, next) = (node.place.level(), node.next);
        // Moving the front of a ring to its back is a step of the head.
        if self.heads[level] == key.index {
            self.heads[level] = next;
        }
    }

    /// One that takes turns, was [`blocked`](Self::blocked) and is not any more goes on with its turn, at the front of its
    /// level.
    pub(super) fn resume(&mut self, key: Key, level: Level) {
        let left = self.nodes.get(key.index as usize).map_or(QUANTUM, |node| node.left);
        self.ready(key, Place::in_turn(level));
        self.nodes[key.index as usize].left = left;
        self.heads[level.0 as usize] = key.index;
    }

    /// The level at which a stream waits.
    pub(super) fn level_of(&self, key: Key) -> Option<Level> {
        self.contains(key).then(|| self.nodes[key.index as usize].place.level)
    }

    /// Nobody else waits.
    pub(super) fn is_only(&self, key: Key) -> bool {
        self.level_of(key).is_some_and(|level| {
            self.occupied == 1u16 << level.0 && self.nodes[key.index as usize].next == key.index
        }) && self.line.is_empty()
    }

    /// True when this stream is waiting.
    #[inline]
    pub(super) fn contains(&self, key: Key) -> bool {
        self.nodes.get(key.index as usize).is_some_and(|node| node.at != At::Nowhere && node.key == key)
    }

    fn link_last(&mut self, key: Key, place: Place) {
        let (at, level) = (key.index, place.level());
        let (next, prev) = if self.occupied & 1 << level == 0 {
            self.heads[level] = at;
            self.occupied |= 1 << level;
            (at, at)
        } else {
            let head = self.heads[level];
            let tail = self.nodes[head as usize].prev;
            self.nodes[tail as usize].next = at;
            self.nodes[head as usize].prev = at;
            (head, tail)
        };
        self.nodes[at as usize] = Node { key, next, prev, left: QUANTUM, at: At::Ring, place };
    }

    fn join_line(&mut self, key: Key, place: Place) {
        let level = place.level();
        let Some(first) = self.first[level] else {
            self.first[level] = Some(key);
            return self.link_last(key, place);
        };
        let number = self.nodes[first.index as usize].place.number;
        if place.number < number {
            self.replace(first.index, key, place);
            self.first[level] = Some(key);
            self.nodes[first.index as usize].at = At::Line;
            self.line.insert((place.level.0, number, first));
        } else {
            self.nodes[key.index as usize] = Node { key, at: At::Line, place, ..UNUSED };
            self.line.insert((place.level.0, place.number, key));
        }
    }

    /// Takes a node away from where it is.
    #[inline]
    fn leave(&mut self, at: u32) {
        let Node { key, at: was, place, .. } = self.nodes[at as usize];
        if place.number == IN_TURN {
            self.unlink(at);
        } else if was == At::Line {
            self.line.remove(&(place.level.0, place.number, key));
        } else {
            self.leave_front(at, place);
        }
        self.nodes[at as usize].at = At::Nowhere;
    }

    /// The first of a line goes; the next one takes its place, if there is one.
    fn leave_front(&mut self, at: u32, place: Place) {
        let from = (place.level.0, 0, Key { index: 0, generation: 0 });
        let next = self.line.range(from..).next().copied().filter(|entry| entry.0 == place.level.0);
        self.first[place.level()] = next.map(|(.., key)| key);
        let Some(entry @ (_, number, key)) = next else { return self.unlink(at) };
        self.line.remove(&entry);
        self.replace(at, key, Place { number, ..place });
    }

    /// Puts another node where one is in its ring. What is left of the turn goes over.
    fn replace(&mut self, at: u32, key: Key, place: Place) {
        let (old, new) = (self.nodes[at as usize], key.index);
        let (next, prev) = if old.next == at { (new, new) } else { (old.next, old.prev) };
        self.nodes[new as usize] = Node { key, next, prev, left: old.left, at: At::Ring, place };
        self.nodes[prev as usize].next = new;
        self.nodes[next as usize].prev = new;
        let head = &mut self.heads[place.level()];
        if *head == at {
            *head = new;
        }
    }

    #[inline]
    fn unlink(&mut self, at: u32) {
        let Node { next, prev, place, .. } = self.nodes[at as usize];
        let level = place.level();
        if next == at {
            self.occupied &= !(1 << level);
        } else {
            self.nodes[prev as usize].next = next;
            self.nodes[next as usize].prev = prev;
            if self.heads[level] == at {
                self.heads[level] = next;
            }
        }
    }

    /// How many streams are waiting, counted the long way.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.nodes.iter().filter(|node| node.at != At::Nowhere).count()
    }
}

/// Takes turns.
pub(super) const IN_TURN: u64 = u64::MAX;

/// See [`Level`].
const LEVELS: usize = 9;

/// Bytes of a turn: a few packets, so that a loss hits few streams and a turn costs little.
const QUANTUM: u32 = 4096;

const UNUSED: Node = Node {
    key: Key { index: 0, generation: 0 },
    next: 0,
    prev: 0,
    left: 0,
    at: At::Nowhere,
    place: Place { level: Level::CRITICAL, number: IN_TURN },
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn key(index: u32) -> Key {
        Key { index, generation: 0 }
    }

    fn in_turn(urgency: u8) -> Place {
        Place::in_turn(Level::of(urgency))
    }

    fn in_line(urgency: u8, number: u64) -> Place {
        Place { level: Level::of(urgency), number }
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
            queue.ready(key(index), in_turn(urgency));
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
        queue.ready(key(0), in_turn(3));
        queue.ready(key(1), in_turn(3));
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
        queue.ready(key(0), in_turn(3));
        queue.blocked(Key { index: 0, generation: 7 });
        assert_eq!(queue.next(), Some(key(0)));
    }

    #[test]
    fn what_is_critical_goes_before_urgency_0() {
        let mut queue = Queue::default();
        queue.ready(key(0), in_turn(0));
        queue.ready(key(1), Place::in_turn(Level::CRITICAL));
        assert_eq!(order(&mut queue, 2), [1, 1]);
        assert!(Level::CRITICAL < Level::of(0) && Level::of(0) < Level::of(7));
        assert_eq!(Level::of(9), Level::of(7));
    }

    #[test]
    fn a_line_is_served_one_by_one_and_shares_a_turn() {
        let mut queue = Queue::default();
        // Out of order, with one that takes turns in between.
        queue.ready(key(0), in_line(3, 8));
        queue.ready(key(1), in_turn(3));
        queue.ready(key(2), in_line(3, 4));
        queue.ready(key(3), in_line(3, 12));
        assert_eq!(order(&mut queue, 4), [2, 1, 2, 1]);
        // The next takes over in mid-turn.
        queue.sent(key(2), 4000);
        queue.blocked(key(2));
        assert_eq!(queue.next(), Some(key(0)));
        queue.sent(key(0), 96);
        assert_eq!(order(&mut queue, 3), [1, 0, 1]);
        // Who comes back stands where it stood.
        queue.ready(key(2), in_line(3, 4));
        queue.blocked(key(1));
        assert_eq!(order(&mut queue, 2), [2, 2]);
        queue.blocked(key(0));
        queue.blocked(key(2));
        assert_eq!(order(&mut queue, 2), [3, 3]);
    }

    /// One level as it should be: those in turn by index, and the line as one of them.
    #[derive(Clone, Default)]
    struct Model {
        ring: VecDeque<Option<u32>>,
        line: BTreeSet<(u64, u32)>,
    }

    impl Model {
        fn remove(&mut self, index: u32) {
            self.ring.retain(|i| *i != Some(index));
            self.line.retain(|(_, i)| *i != index);
            if self.line.is_empty() {
                self.ring.retain(Option::is_some);
            }
        }

        fn has(&self, index: u32, number: u64) -> bool {
            if number == IN_TURN {
                self.ring.contains(&Some(index))
            } else {
                self.line.contains(&(number, index))
            }
        }

        fn add(&mut self, index: u32, number: u64) {
            if number == IN_TURN {
                self.ring.push_back(Some(index));
            } else {
                if self.line.is_empty() {
                    self.ring.push_back(None);
                }
                self.line.insert((number, index));
            }
        }

        fn front(&self) -> Option<u32> {
            self.ring.front()?.or_else(|| Some(self.line.first()?.1))
        }
    }

    fn remove(model: &mut [Model], index: u32) {
        for level in model {
            level.remove(index);
        }
    }

    proptest! {
        #[test]
        fn the_rings_agree_with_plain_queues(
            steps in prop::collection::vec((0u8..4, 0u32..6, 0u8..9, any::<bool>()), 1..200)
        ) {
            let mut queue = Queue::default();
            let mut model = vec![Model::default(); LEVELS];
            for (what, index, level, sequential) in steps {
                match what {
                    0 => {
                        // Numbers run against the indices, so that newcomers go to the front, too.
                        let number = if sequential { 100 - u64::from(index) } else { IN_TURN };
                        queue.ready(key(index), Place { level: Level(level), number });
                        if !model[level as usize].has(index, number) {
                            remove(&mut model, index);
                            model[level as usize].add(index, number);
                        }
                    }
                    1 => {
                        queue.blocked(key(index));
                        remove(&mut model, index);
                    }
                    _ => if let Some(next) = queue.next() {
                        queue.sent(next, QUANTUM as usize);
                        model.iter_mut().find(|level| level.front().is_some()).unwrap().ring.rotate_left(1);
                    }
                }
                let front = model.iter().find_map(Model::front);
                prop_assert_eq!(queue.next().map(|k| k.index), front);
                let count = |level: &Model| level.ring.iter().flatten().count() + level.line.len();
                prop_assert_eq!(queue.count(), model.iter().map(count).sum::<usize>());
                let only = (0..6).find(|index| queue.is_only(key(*index)));
                prop_assert_eq!(only.is_some(), queue.count() == 1);
            }
        }
    }
}
