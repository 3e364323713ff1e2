//! Who is active: rings of those that take turns, heaps of those that go one after the other.

use super::arena::{Arena, NIL, ROOT};

impl<K> Arena<K> {
    /// Puts a class among the active children of its parent, in `round`. Whether it is the first of its
    /// urgency there.
    pub(super) fn link(&mut self, child: u32, round: u64) -> bool {
        let (parent, level_at) = (self.node(child).parent, self.node(child).level());
        let level = *self.branch_mut(parent).level_or_new(level_at);
        let node = self.node_mut(child);
        // Who comes in the midst of a visit is not part of it.
        node.stamp = level.visit;
        if level.is_empty() {
            node.left = 0;
        }
        if node.incremental {
            self.join_ring(child, level.head, round);
        } else {
            let node = self.node_mut(child);
            (node.next, node.prev, node.sub) = (NIL, NIL, NIL);
            let first = self.meld(level.first, child);
            self.level_of(child).first = first;
        }
        self.branch_mut(parent).occupied |= 1 << level_at;
        level.is_empty()
    }

    /// Takes it out again. Whether its parent has no active child any more.
    pub(super) fn unlink(&mut self, child: u32, round: u64) -> bool {
        let node = self.node(child);
        let (level_at, parent) = (node.level(), node.parent);
        if node.incremental {
            self.leave_ring(child, round);
        } else {
            self.leave_heap(child);
        }
        let level = self.level_of(child);
        if level.current == child {
            level.current = NIL;
        }
        if level.is_empty() {
            let rest = level.close();
            let branch = self.branch_mut(parent);
            branch.residual += rest;
            branch.occupied &= !(1 << level_at);
        }
        self.branch(parent).occupied == 0
    }

    /// Makes an active class wait for the next round.
    pub(super) fn make_late(&mut self, child: u32, round: u64) {
        let node = self.node_mut(child);
        let (weight, incremental) = (u64::from(node.weight), node.incremental);
        if core::mem::replace(&mut node.left, round) == round || !incremental {
            return;
        }
        let level = self.level_of(child);
        if level.late_round != round {
            (level.late_round, level.late) = (round, 0);
        }
        level.late += weight;
    }

    /// Gives a class another weight.
    pub(super) fn reweigh(&mut self, child: u32, weight: u32, round: u64) {
        let node = self.node_mut(child);
        let old = u64::from(core::mem::replace(&mut node.weight, weight));
        let (counted, late, parent) = (node.active && node.incremental, node.left == round, node.parent);
        let new = u64::from(weight);
        let branch = self.branch_mut(parent);
        branch.total = branch.total - old + new;
        if counted {
            let level = self.level_of(child);
            level.sum = level.sum - old + new;
            if late {
                level.late = level.late - old + new;
            }
        }
    }

    /// The weights among which a visit that begins now is divided; 0 when all wait for the next round.
    pub(super) fn taking_part(&self, branch: u32, level: usize, round: u64) -> u64 {
        let level = self.branch(branch).level(level);
        if level.first != NIL {
            // A leaf that comes first has all of what there is: nobody loses anything when it need not wait.
            let first = self.node(level.first);
            let waits = first.left == round && !first.is_leaf();
            return if waits { 0 } else { u64::from(first.weight) };
        }
        if level.late_round == round { level.sum - level.late } else { level.sum }
    }

    /// Leaves that are scheduled when the class is; as many as its siblings were told last.
    fn scheduled(&self, class: u32) -> u32 {
        if self.node(class).is_leaf() { 1 } else { self.branch(class).scheduled }
    }

    /// Counts again what is scheduled below a branch that is not among its active siblings.
    pub(super) fn count(&mut self, at: u32) {
        let branch = self.branch(at);
        let scheduled = match branch.best_level() {
            None => 0,
            Some(level) if level.first == NIL => level.scheduled,
            Some(level) => self.scheduled(level.first),
        };
        self.branch_mut(at).scheduled = scheduled;
    }

    /// The same for one that is, and all above it as far as it matters.
    pub(super) fn count_up(&mut self, mut at: u32) {
        loop {
            let old = self.branch(at).scheduled;
            self.count(at);
            let new = self.branch(at).scheduled;
            if at == ROOT || old == new {
                return;
            }
            let node = self.node(at);
            let (incremental, parent) = (node.incremental, node.parent);
            if incremental {
                let level = self.level_of(at);
                level.scheduled = level.scheduled - old + new;
            }
            at = parent;
        }
    }

    fn join_ring(&mut self, child: u32, head: u32, round: u64) {
        if head == NIL {
            (self.node_mut(child).next, self.node_mut(child).prev) = (child, child);
            self.level_of(child).head = child;
        } else {
            let tail = core::mem::replace(&mut self.node_mut(head).prev, child);
            self.node_mut(tail).next = child;
            (self.node_mut(child).next, self.node_mut(child).prev) = (head, tail);
        }
        let node = self.node(child);
        let (weight, late) = (u64::from(node.weight), node.left == round);
        let scheduled = self.scheduled(child);
        let level = self.level_of(child);
        level.sum += weight;
        level.scheduled += scheduled;
        if level.late_round != round {
            (level.late_round, level.late) = (round, 0);
        }
        if late {
            level.late += weight;
        }
    }

    fn leave_ring(&mut self, child: u32, round: u64) {
        let node = self.node(child);
        let (weight, late, next, prev) = (u64::from(node.weight), node.left == round, node.next, node.prev);
        self.node_mut(prev).next = next;
        self.node_mut(next).prev = prev;
        let scheduled = self.scheduled(child);
        let level = self.level_of(child);
        if level.head == child {
            level.head = if next == child { NIL } else { next };
        }
        level.sum -= weight;
        level.scheduled -= scheduled;
        if late && level.late_round == round {
            level.late -= weight;
        }
    }

    fn leave_heap(&mut self, child: u32) {
        let first = self.level_of(child).first;
        let node = self.node(child);
        let (next, prev, sub) = (node.next, node.prev, node.sub);
        let below = self.meld_all(sub);
        let first = if child == first {
            below
        } else {
            if self.node(prev).sub == child {
                self.node_mut(prev).sub = next;
            } else {
                self.node_mut(prev).next = next;
            }
            if next != NIL {
                self.node_mut(next).prev = prev;
            }
            self.meld(first, below)
        };
        self.level_of(child).first = first;
    }

    /// One pairing heap of two, by the order of requests; either may be [`NIL`].
    fn meld(&mut self, a: u32, b: u32) -> u32 {
        if a == NIL || b == NIL {
            return if a == NIL { b } else { a };
        }
        let (top, under) = if self.node(a).number <= self.node(b).number { (a, b) } else { (b, a) };
        let sub = core::mem::replace(&mut self.node_mut(top).sub, under);
        (self.node_mut(top).next, self.node_mut(top).prev) = (NIL, NIL);
        (self.node_mut(under).next, self.node_mut(under).prev) = (sub, top);
        if sub != NIL {
            self.node_mut(sub).prev = under;
        }
        top
    }

    /// One heap of a row of siblings: in pairs from the left, and then all from the right.
    fn meld_all(&mut self, mut row: u32) -> u32 {
        let mut pairs = NIL;
        while row != NIL {
            let one = row;
            let other = self.node(one).next;
            row = if other == NIL { NIL } else { self.node(other).next };
            let pair = self.meld(one, other);
            self.node_mut(pair).next = pairs;
            pairs = pair;
        }
        let mut heap = NIL;
        while pairs != NIL {
            let rest = self.node(pairs).next;
            (self.node_mut(pairs).next, self.node_mut(pairs).prev) = (NIL, NIL);
            heap = self.meld(heap, pairs);
            pairs = rest;
        }
        heap
    }
}
