//! Where classes lie: two slabs, and the ids that outlive them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::number::entry;
use crate::priority::{Priority, Weight};

/// No class.
pub(super) const NIL: u32 = u32::MAX;
pub(super) const ROOT: u32 = 0;
/// What is critical, and the urgencies 0 to 7 behind it.
pub(super) const LEVELS: usize = 9;

/// A class of one [`Tree`](super::Tree).
///
/// Eight bytes, as is an `Option` of it. It is good until the class is removed and never means another one
/// after that; in another tree it means nothing in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId {
    index: u32,
    generation: NonZeroU32,
}

/// A class, leaf or branch.
#[derive(Debug)]
pub(super) struct ClassNode<K> {
    /// Bytes that a leaf may send in this round; a debt when negative.
    pub(super) balance: f64,
    /// The visit of its parent's level in which it had its turn, or that it came too late for.
    pub(super) stamp: u64,
    /// The round in which it ran idle: should it return in the same, it waits for the next.
    pub(super) left: u64,
    /// The order of requests.
    pub(super) number: u64,
    pub(super) key: Option<K>,
    pub(super) generation: NonZeroU32,
    pub(super) parent: u32,
    /// Among active siblings: neighbours in a ring, or in a heap (`prev` is the parent for the first child of
    /// a node there).
    pub(super) next: u32,
    pub(super) prev: u32,
    pub(super) sub: u32,
    /// Among all siblings.
    pub(super) elder: u32,
    pub(super) younger: u32,
    /// What a branch has besides; [`NIL`] for a leaf.
    pub(super) branch: u32,
    pub(super) weight: u32,
    pub(super) urgency: u8,
    pub(super) critical: bool,
    pub(super) incremental: bool,
    /// A leaf with something to send, or a branch above one.
    pub(super) active: bool,
}

impl<K> ClassNode<K> {
    pub(super) fn is_leaf(&self) -> bool {
        self.branch == NIL
    }

    pub(super) fn level(&self) -> usize {
        if self.critical { 0 } else { self.urgency as usize + 1 }
    }

    pub(super) fn priority(&self) -> Priority {
        Priority {
            urgency: self.urgency,
            critical: self.critical,
            incremental: self.incremental,
            weight: Weight::from_millionths(self.weight),
        }
    }

    pub(super) fn set_priority(&mut self, priority: Priority) {
        self.urgency = priority.effective();
        self.critical = priority.critical;
        self.incremental = priority.incremental;
        self.weight = priority.weight.millionths();
    }
}

/// What a class with children has besides.
///
/// Two lines of a cache, of which the second is the level in which most branches have all their children.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Branch {
    /// Weights of all children, idle ones too.
    pub(super) total: u64,
    /// R: what it was given and has not handed on yet, or had back from children that ran idle.
    pub(super) residual: f64,
    /// What it had before its turn, for a better urgency, and what a child owed that ran idle: its next
    /// shares are less by that.
    pub(super) owed: f64,
    pub(super) first_child: u32,
    /// Scheduled leaves below.
    pub(super) scheduled: u32,
    /// Bit n is set when there is an active child of level n.
    pub(super) occupied: u16,
    /// Where each level lies: 0 for `level`, n + 1 for `more[n]`, [`NOWHERE`] until a child was active in it.
    places: [u8; LEVELS],
    more: Box<[UrgencyLevel]>,
    level: UrgencyLevel,
}

const NOWHERE: u8 = u8::MAX;

impl Branch {
    pub(super) fn new() -> Self {
        Self {
            total: 0,
            residual: 0.0,
            owed: 0.0,
            first_child: NIL,
            scheduled: 0,
            occupied: 0,
            places: [NOWHERE; LEVELS],
            more: Box::new([]),
            level: UrgencyLevel::EMPTY,
        }
    }

    /// The best level among active children; more than any when there is none.
    pub(super) fn best(&self) -> usize {
        self.occupied.trailing_zeros() as usize
    }

    /// The best one that has an active child.
    pub(super) fn best_level(&self) -> Option<&UrgencyLevel> {
        (self.occupied != 0).then(|| self.level(self.best()))
    }

    /// Any level, if a child has been active in it.
    #[cfg(test)]
    pub(super) fn find_level(&self, level: usize) -> Option<&UrgencyLevel> {
        (self.places[level] != NOWHERE).then(|| self.level(level))
    }

    /// Of a level that a child has been active in.
    #[inline]
    pub(super) fn level(&self, level: usize) -> &UrgencyLevel {
        match self.places[level] {
            0 => &self.level,
            place => &self.more[usize::from(place) - 1],
        }
    }

    #[inline]
    pub(super) fn level_mut(&mut self, level: usize) -> &mut UrgencyLevel {
        match self.places[level] {
            0 => &mut self.level,
            place => &mut self.more[usize::from(place) - 1],
        }
    }

    /// Of any level.
    pub(super) fn level_or_new(&mut self, level: usize) -> &mut UrgencyLevel {
        if self.places[level] == NOWHERE {
            let has_first = self.places.iter().any(|place| *place != NOWHERE);
            self.places[level] = if has_first {
                u8::try_from(self.more.len() + 1).expect("a place for each urgency")
            } else {
                0
            };
            if has_first {
                let mut more = core::mem::take(&mut self.more).into_vec();
                more.reserve_exact(1);
                more.push(UrgencyLevel::EMPTY);
                self.more = more.into_boxed_slice();
            }
        }
        self.level_mut(level)
    }

    /// It has so many bytes more; fewer, when negative. What it owes is paid first.
    pub(super) fn pay(&mut self, bytes: f64) {
        let has = self.residual + bytes - self.owed;
        (self.residual, self.owed) = (has.max(0.0), (-has).max(0.0));
    }

    /// What it has, or owes when negative, which is somebody else's from now on.
    pub(super) fn hand_up(&mut self) -> f64 {
        core::mem::take(&mut self.residual) - core::mem::take(&mut self.owed)
    }

    /// Whether something less urgent waits in the midst of its visit.
    pub(super) fn is_amid_worse(&self, level: usize) -> bool {
        (level + 1..LEVELS).any(|worse| self.places[worse] != NOWHERE && self.level(worse).is_open())
    }
}

/// The active children of one urgency, and the visit that goes on among them.
///
/// A visit is a parent's part of a pass. It is not undone when something more urgent comes: it waits, with
/// what it has still to give, and goes on later. So nobody is served twice or passed over because others were
/// interrupted.
#[derive(Clone, Copy, Debug)]
pub(super) struct UrgencyLevel {
    /// 0 when there is none.
    pub(super) visit: u64,
    /// fq: bytes for each millionth of weight, fixed for the visit.
    pub(super) per_weight: f64,
    /// What it has still to give; nothing when there is none.
    pub(super) left: f64,
    /// Weights of the ring.
    pub(super) sum: u64,
    /// Weights of those in the ring that wait for the round after `late_round`.
    pub(super) late: u64,
    pub(super) late_round: u64,
    /// Scheduled leaves below the ring.
    pub(super) scheduled: u32,
    /// Whose turn it is, or will be, of those that take turns.
    pub(super) head: u32,
    /// The first of those that go one after the other.
    pub(super) first: u32,
    /// Who has begun its turn in this visit and not finished it.
    pub(super) current: u32,
}

impl UrgencyLevel {
    pub(super) const EMPTY: Self = Self {
        visit: 0,
        per_weight: 0.0,
        left: 0.0,
        sum: 0,
        late: 0,
        late_round: 0,
        scheduled: 0,
        head: NIL,
        first: NIL,
        current: NIL,
    };

    pub(super) fn is_open(&self) -> bool {
        self.visit != 0
    }

    /// Ends the visit; what it has not given.
    pub(super) fn close(&mut self) -> f64 {
        self.visit = 0;
        core::mem::take(&mut self.left).max(0.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head == NIL && self.first == NIL
    }
}

/// Both slabs.
#[derive(Debug)]
pub(super) struct Arena<K> {
    nodes: Vec<ClassNode<K>>,
    branches: Vec<Branch>,
    /// Free slots, linked by `next`.
    free: u32,
    free_branches: Vec<u32>,
    live: u32,
    numbers: u64,
}

impl<K> Arena<K> {
    /// With a branch at [`ROOT`].
    pub(super) fn new() -> Self {
        let mut arena = Self {
            // Many trees have nothing but the root most of the time, and most no other branch; and there may
            // be many trees.
            nodes: Vec::with_capacity(1),
            branches: Vec::with_capacity(1),
            free: NIL,
            free_branches: Vec::new(),
            live: 0,
            numbers: 0,
        };
        arena.add(NIL, Priority::default(), None);
        arena
    }

    /// Classes, the root among them.
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// A class with a key is a leaf. It is not yet among its siblings.
    pub(super) fn add(&mut self, parent: u32, priority: Priority, key: Option<K>) -> u32 {
        let branch = if key.is_some() {
            NIL
        } else if let Some(free) = self.free_branches.pop() {
            free
        } else {
            self.branches.push(Branch::new());
            entry(self.branches.len() - 1)
        };
        self.live += 1;
        self.numbers += 1;
        let mut node = ClassNode {
            balance: 0.0,
            stamp: 0,
            left: 0,
            number: self.numbers,
            key,
            generation: NonZeroU32::MIN,
            parent,
            next: NIL,
            prev: NIL,
            sub: NIL,
            elder: NIL,
            younger: NIL,
            branch,
            weight: 0,
            urgency: 0,
            critical: false,
            incremental: false,
            active: false,
        };
        node.set_priority(priority);
        if self.free == NIL {
            self.nodes.push(node);
            return entry(self.nodes.len() - 1);
        }
        let index = self.free;
        let slot = &mut self.nodes[index as usize];
        self.free = slot.next;
        node.generation = slot.generation;
        *slot = node;
        index
    }

    /// Frees a class that is nobody's sibling, parent or neighbour any more.
    pub(super) fn drop_class(&mut self, index: u32) -> Option<K> {
        self.live -= 1;
        let free = self.free;
        let node = &mut self.nodes[index as usize];
        if node.branch != NIL {
            self.branches[node.branch as usize] = Branch::new();
            self.free_branches.push(node.branch);
        }
        node.branch = NIL;
        node.active = false;
        // A slot whose generations are used up is never used again, so that no old id comes to mean a new
        // class.
        if let Some(generation) = node.generation.checked_add(1) {
            node.generation = generation;
            if generation != NonZeroU32::MAX {
                node.next = free;
                self.free = index;
            }
        }
        node.key.take()
    }

    pub(super) fn id(&self, index: u32) -> ClassId {
        ClassId { index, generation: self.nodes[index as usize].generation }
    }

    /// Where the class lies, if it is still there.
    #[inline]
    pub(super) fn find(&self, id: ClassId) -> Option<u32> {
        let node = self.nodes.get(id.index as usize)?;
        (node.generation == id.generation).then_some(id.index)
    }

    #[inline]
    pub(super) fn node(&self, index: u32) -> &ClassNode<K> {
        &self.nodes[index as usize]
    }

    #[inline]
    pub(super) fn node_mut(&mut self, index: u32) -> &mut ClassNode<K> {
        &mut self.nodes[index as usize]
    }

    /// Of a class that is a branch.
    #[inline]
    pub(super) fn branch(&self, index: u32) -> &Branch {
        &self.branches[self.nodes[index as usize].branch as usize]
    }

    #[inline]
    pub(super) fn branch_mut(&mut self, index: u32) -> &mut Branch {
        &mut self.branches[self.nodes[index as usize].branch as usize]
    }

    /// The branch of a class, and all classes.
    #[inline]
    pub(super) fn branch_and_nodes(&mut self, index: u32) -> (&mut Branch, &mut [ClassNode<K>]) {
        (&mut self.branches[self.nodes[index as usize].branch as usize], &mut self.nodes)
    }

    /// The level of its parent in which a class is.
    #[inline]
    pub(super) fn level_of(&mut self, index: u32) -> &mut UrgencyLevel {
        let node = &self.nodes[index as usize];
        let level = node.level();
        let parent = self.nodes[node.parent as usize].branch;
        self.branches[parent as usize].level_mut(level)
    }

    /// Puts a class among the children of its parent.
    pub(super) fn adopt(&mut self, child: u32) {
        let (parent, weight) = (self.node(child).parent, self.node(child).weight);
        let branch = self.branch_mut(parent);
        branch.total += u64::from(weight);
        let younger = core::mem::replace(&mut branch.first_child, child);
        self.node_mut(child).younger = younger;
        self.node_mut(child).elder = NIL;
        if younger != NIL {
            self.node_mut(younger).elder = child;
        }
    }

    /// The opposite.
    pub(super) fn disown(&mut self, child: u32) {
        let node = self.node(child);
        let (parent, weight, elder, younger) = (node.parent, node.weight, node.elder, node.younger);
        let branch = self.branch_mut(parent);
        branch.total -= u64::from(weight);
        if elder == NIL {
            branch.first_child = younger;
        } else {
            self.node_mut(elder).younger = younger;
        }
        if younger != NIL {
            self.node_mut(younger).elder = elder;
        }
    }

    /// Steps from the root.
    pub(super) fn depth(&self, mut index: u32) -> u32 {
        let mut depth = 0;
        while index != ROOT {
            index = self.node(index).parent;
            depth += 1;
        }
        depth
    }

    /// Steps to the deepest class below; visits all of them.
    pub(super) fn height(&self, top: u32) -> u32 {
        let (mut at, mut depth, mut height) = (top, 0, 0);
        loop {
            let node = self.node(at);
            let child = if node.is_leaf() { NIL } else { self.branch(at).first_child };
            if child != NIL {
                at = child;
                depth += 1;
                height = height.max(depth);
                continue;
            }
            while at != top && self.node(at).younger == NIL {
                at = self.node(at).parent;
                depth -= 1;
            }
            if at == top {
                return height;
            }
            at = self.node(at).younger;
        }
    }
}
