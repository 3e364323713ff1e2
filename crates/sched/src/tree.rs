use alloc::vec::Vec;

use crate::number::approx;
use crate::priority::Priority;

mod active;
mod arena;
mod besides;
mod round;
#[cfg(test)]
mod tests;

use arena::{Arena, NIL, ROOT};

pub use arena::ClassId;

/// Classes in a tree, and which of them sends next.
///
/// # The protocol between a tree and who sends
///
/// 1. A leaf is made with a key of the caller's ([`insert_leaf`](Self::insert_leaf)) and reports whether it
///    has something that may be sent now ([`set_backlogged`](Self::set_backlogged)). Blocked by flow control
///    is *not* backlogged.
/// 2. [`next`](Self::next) tells whose turn it is. It changes nothing that counts: asked twice, it answers
///    the same.
/// 3. What was sent is reported with [`charge`](Self::charge), whole frames, before `set_backlogged(leaf,
///    false)` if that was all. More than the leaf had is no error; it owes the rest as long as it stays
///    backlogged.
/// 4. Classes are made, moved, changed and removed at any time, and it counts from the next decision on.
///
/// # Costs
///
/// `next` and `charge` are O(1) while a leaf's turn lasts; the next turn costs as many steps as there are
/// levels between it and the last, and a few more, over many decisions: what a single one skips over (leaves
/// in debt) was paid for by what they sent. Becoming backlogged or idle is O(depth), and O(log n) among
/// siblings that are not incremental. Neither allocates once buffers have grown.
#[derive(Debug)]
pub struct Tree<K> {
    arena: Arena<K>,
    max_classes: u32,
    /// Lmax.
    max_frame: f64,
    /// Q.
    quantum: f64,
    /// How long a round of many leaves may be, in bytes.
    longest_round: f64,
    round: u64,
    /// Visits are counted through the whole tree.
    visit: u64,
    /// The leaf whose turn it is, and its parent.
    current: u32,
    at: u32,
    /// A better urgency came up since the last decision.
    interrupted: bool,
    /// The schedule is not that of which Q was made.
    changed: bool,
    /// Turns since Q was made.
    decisions: u64,
    backlogged: u32,
    /// What leaves count in Q on the average.
    worth: f64,
    /// Scratch, for Q.
    shares: Vec<f64>,
    path: Vec<(u32, f64)>,
    #[cfg(test)]
    visits: u64,
}

/// What cannot be done to a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no such class (any more).
    Unknown,
    /// The parent is a leaf.
    Leaf,
    /// The root stays what and where it is.
    Root,
    /// A class cannot hang under itself.
    Cycle,
    /// More than [`MAX_DEPTH`] steps from the root.
    TooDeep,
    /// There are as many classes as the tree was made for.
    Full,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no such class",
            Self::Leaf => "a leaf has no children",
            Self::Root => "the root cannot be changed",
            Self::Cycle => "a class cannot hang under itself",
            Self::TooDeep => "too deep",
            Self::Full => "too many classes",
        })
    }
}

impl core::error::Error for Error {}

/// Steps from the root to the deepest class.
pub const MAX_DEPTH: u32 = 64;

impl<K> Tree<K> {
    /// A tree of nothing but its root, for at most `max_classes` more, and frames of at most `max_frame`
    /// bytes (the largest UDP payload): what is guaranteed is exact to within a few of them.
    pub fn new(max_frame: u32, max_classes: u32) -> Self {
        let max_frame = f64::from(max_frame.max(1));
        Self {
            arena: Arena::new(),
            max_classes: max_classes.min(NIL - 1),
            max_frame,
            quantum: 2.0 * max_frame,
            longest_round: 0.0,
            round: 1,
            visit: 0,
            current: NIL,
            at: NIL,
            interrupted: false,
            changed: false,
            decisions: 0,
            backlogged: 0,
            worth: 1.0,
            shares: Vec::new(),
            path: Vec::new(),
            #[cfg(test)]
            visits: 0,
        }
    }

    /// The class above all.
    pub fn root(&self) -> ClassId {
        self.arena.id(ROOT)
    }

    /// Whose turn it is, or `None` when nobody is backlogged.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it is not the end that `None` tells")]
    pub fn next(&mut self) -> Option<ClassId> {
        if self.current != NIL && !self.interrupted {
            if self.arena.node(self.current).balance > 0.0 {
                return Some(self.arena.id(self.current));
            }
            if self.backlogged == 1 {
                self.again(self.current);
                return Some(self.arena.id(self.current));
            }
        }
        self.turn()
    }

    /// Who would send if this leaf had nothing to send: somebody of the best urgency there is besides. For a
    /// sender whose turn it is and who cannot use what is left of a packet. Nobody's turn changes by it; who
    /// sends is charged as ever.
    ///
    /// Costs a step for each level, and one for each sibling of the leaf where those go one after the other.
    pub fn next_besides(&self, leaf: ClassId) -> Option<ClassId> {
        let except = self.arena.find(leaf).unwrap_or(NIL);
        Some(self.arena.id(self.arena.besides(ROOT, except)?))
    }

    /// What a leaf has sent, in whole frames. It need not be the one whose turn it is. Nothing happens when
    /// it is no leaf, or gone; more than 1024 times the largest frame counts as that.
    #[inline]
    pub fn charge(&mut self, leaf: ClassId, bytes: u32) {
        let Some(index) = self.arena.find(leaf) else { return };
        let bytes = f64::from(bytes).min(1024.0 * self.max_frame);
        let node = self.arena.node_mut(index);
        if !node.is_leaf() {
            return;
        }
        if node.active {
            node.balance -= bytes;
        } else {
            self.take_back(index, bytes);
        }
    }

    /// Whether a leaf has something that may be sent now. Nothing happens when it is no leaf, or gone.
    pub fn set_backlogged(&mut self, leaf: ClassId, backlogged: bool) {
        let Some(index) = self.arena.find(leaf) else { return };
        let node = self.arena.node_mut(index);
        if !node.is_leaf() || node.active == backlogged {
            return;
        }
        node.active = backlogged;
        if backlogged {
            self.backlogged += 1;
            self.rise(index);
        } else {
            self.backlogged -= 1;
            // What is left goes to the siblings, and what is owed the class owes from now on: who has others
            // go on for it would else never pay.
            let rest = core::mem::take(&mut node.balance);
            self.fall(index, rest);
        }
    }

    /// A class that has children.
    pub fn insert_branch(&mut self, parent: ClassId, priority: Priority) -> Result<ClassId, Error> {
        self.insert(parent, priority, None)
    }

    /// A class that sends, idle at first.
    pub fn insert_leaf(&mut self, parent: ClassId, priority: Priority, key: K) -> Result<ClassId, Error> {
        self.insert(parent, priority, Some(key))
    }

    /// Changes urgency, weight and whether a class is incremental. What it may send in this round, or owes,
    /// stays.
    pub fn set_priority(&mut self, class: ClassId, priority: Priority) -> Result<(), Error> {
        let index = self.below_root(class)?;
        let node = self.arena.node(index);
        let (old, active) = (node.priority(), node.active);
        if old.weight != priority.weight {
            self.arena.reweigh(index, priority.weight.millionths(), self.round);
            self.changed = true;
        }
        if (old.effective(), old.critical, old.incremental)
            == (priority.effective(), priority.critical, priority.incremental)
        {
            return Ok(());
        }
        if active {
            self.arena.unlink(index, self.round);
        }
        self.arena.node_mut(index).set_priority(priority);
        if active {
            self.arena.link(index, self.round);
            self.arena.count_up(self.arena.node(index).parent);
            self.look_again();
        }
        Ok(())
    }

    /// Hangs a class, with all below it, under another parent. It keeps its priority and its place in the
    /// order of requests; what a leaf might still have sent in this round stays with those it leaves, what it
    /// owes goes with it.
    ///
    /// Costs a look at all below the class.
    pub fn move_to(&mut self, class: ClassId, parent: ClassId) -> Result<(), Error> {
        let index = self.below_root(class)?;
        let parent = self.parent_index(parent)?;
        let mut above = parent;
        while above != ROOT {
            if above == index {
                return Err(Error::Cycle);
            }
            above = self.arena.node(above).parent;
        }
        if self.arena.depth(parent) + 1 + self.arena.height(index) > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        if self.arena.node(index).parent != parent {
            self.rehang(index, parent);
        }
        Ok(())
    }

    /// Removes a class and gives back its key, if it was a leaf. Children of a branch hang under its parent
    /// from then on, with the priorities they have; that costs a step for each.
    pub fn remove(&mut self, class: ClassId) -> Result<Option<K>, Error> {
        let index = self.below_root(class)?;
        let node = self.arena.node(index);
        let (leaf, parent) = (node.is_leaf(), node.parent);
        if leaf {
            self.set_backlogged(class, false);
        } else {
            loop {
                let child = self.arena.branch(index).first_child;
                if child == NIL {
                    break;
                }
                self.rehang(child, parent);
            }
        }
        self.arena.disown(index);
        self.changed = true;
        Ok(self.arena.drop_class(index))
    }

    /// The largest frame from now on, in bytes.
    pub fn set_max_frame(&mut self, max_frame: u32) {
        self.max_frame = f64::from(max_frame.max(1));
        self.changed = true;
    }

    /// Rounds of at most so many bytes are short enough from now on; 0 at first. Where more than a hundred
    /// leaves wait, each has up to 32 frames a turn then instead of one or two: to go from one to the
    /// next costs cache misses, on both sides of a connection. Shares stay what they are. Rounds of which
    /// one frame for each leaf is more stay as short as that.
    pub fn set_longest_round(&mut self, bytes: u64) {
        self.longest_round = approx(bytes);
    }

    /// Classes besides the root.
    pub fn len(&self) -> usize {
        self.arena.live() as usize - 1
    }

    /// Whether there is no class but the root.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leaves that are backlogged.
    pub fn backlogged(&self) -> usize {
        self.backlogged as usize
    }

    /// Whether a leaf is backlogged, or one below a branch; not if it is gone.
    pub fn is_backlogged(&self, class: ClassId) -> bool {
        match self.arena.find(class) {
            Some(ROOT) => self.backlogged > 0,
            Some(index) => self.arena.node(index).active,
            None => false,
        }
    }

    /// The key of a leaf.
    #[inline]
    pub fn key(&self, leaf: ClassId) -> Option<&K> {
        self.arena.find(leaf).and_then(|index| self.arena.node(index).key.as_ref())
    }

    /// Whether a class has others below it; not if it is gone.
    pub fn has_children(&self, class: ClassId) -> bool {
        self.arena.find(class).is_some_and(|index| {
            !self.arena.node(index).is_leaf() && self.arena.branch(index).first_child != NIL
        })
    }

    /// The priority of a class.
    pub fn priority(&self, class: ClassId) -> Option<Priority> {
        self.arena.find(class).map(|index| self.arena.node(index).priority())
    }

    /// The parent of a class; the root has none.
    pub fn parent(&self, class: ClassId) -> Option<ClassId> {
        let index = self.arena.find(class).filter(|&index| index != ROOT)?;
        Some(self.arena.id(self.arena.node(index).parent))
    }

    /// Whether a class, backlogged, goes before all that another one has: they are siblings of which it is
    /// the more urgent, or hang under such. Costs a step for each level.
    pub fn is_more_urgent(&self, class: ClassId, than: ClassId) -> bool {
        let (Some(mut one), Some(mut other)) = (self.arena.find(class), self.arena.find(than)) else {
            return false;
        };
        let up = |index: u32| self.arena.node(index).parent;
        let (deep, high) = (self.arena.depth(one), self.arena.depth(other));
        (high..deep).for_each(|_| one = up(one));
        (deep..high).for_each(|_| other = up(other));
        while up(one) != up(other) {
            (one, other) = (up(one), up(other));
        }
        self.arena.node(one).level() < self.arena.node(other).level()
    }

    fn insert(&mut self, parent: ClassId, priority: Priority, key: Option<K>) -> Result<ClassId, Error> {
        let parent = self.parent_index(parent)?;
        if self.arena.live() > self.max_classes {
            return Err(Error::Full);
        }
        if self.arena.depth(parent) >= MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        let index = self.arena.add(parent, priority, key);
        self.arena.adopt(index);
        self.changed = true;
        Ok(self.arena.id(index))
    }

    fn below_root(&self, class: ClassId) -> Result<u32, Error> {
        match self.arena.find(class) {
            None => Err(Error::Unknown),
            Some(ROOT) => Err(Error::Root),
            Some(index) => Ok(index),
        }
    }

    fn parent_index(&self, parent: ClassId) -> Result<u32, Error> {
        let index = self.arena.find(parent).ok_or(Error::Unknown)?;
        if self.arena.node(index).is_leaf() { Err(Error::Leaf) } else { Ok(index) }
    }

    /// An active class joins its siblings, and what becomes active by it joins its own.
    fn rise(&mut self, mut child: u32) {
        self.changed = true;
        loop {
            let node = self.arena.node(child);
            let (parent, level) = (node.parent, node.level());
            let best = self.arena.branch(parent).best();
            self.arena.link(child, self.round);
            // The round of those it is more urgent than ends after the current frame.
            self.interrupted |= level < best;
            if parent == ROOT || best < arena::LEVELS {
                self.arena.count_up(parent);
                return;
            }
            self.arena.count(parent);
            self.arena.node_mut(parent).active = true;
            child = parent;
        }
    }

    /// The opposite, and `rest` goes to the parent.
    fn fall(&mut self, mut child: u32, mut rest: f64) {
        self.changed = true;
        loop {
            if self.current == child {
                self.current = NIL;
            }
            let parent = self.arena.node(child).parent;
            let idle = self.arena.unlink(child, self.round);
            if !self.arena.node(child).active {
                self.arena.node_mut(child).left = self.round;
                if !self.arena.node(child).is_leaf() {
                    self.arena.count(child);
                }
            }
            let branch = self.arena.branch_mut(parent);
            if parent == ROOT {
                // What was left over again and again by who is more urgent is no more than a round; nobody is
                // owed anything.
                branch.residual = (branch.residual + rest.max(0.0)).min(self.quantum);
            } else {
                branch.pay(rest);
            }
            if !idle {
                self.arena.count_up(parent);
                return;
            }
            rest = branch.hand_up();
            if self.at == parent {
                self.at = NIL;
            }
            if parent == ROOT {
                self.arena.count(ROOT);
                return;
            }
            self.arena.node_mut(parent).active = false;
            child = parent;
        }
    }

    fn rehang(&mut self, index: u32, parent: u32) {
        let node = self.arena.node_mut(index);
        let (active, leaf, balance) = (node.active, node.is_leaf(), node.balance);
        node.balance = balance.min(0.0);
        if active {
            let rest = if leaf { balance.max(0.0) } else { self.arena.branch_mut(index).hand_up() };
            self.fall(index, rest);
        }
        self.arena.disown(index);
        self.arena.node_mut(index).parent = parent;
        self.arena.adopt(index);
        if active {
            self.rise(index);
        }
        self.look_again();
    }

    /// The tree is another: the next decision begins at the root.
    fn look_again(&mut self) {
        (self.current, self.at) = (NIL, NIL);
        self.interrupted = true;
        self.changed = true;
    }

    /// What an idle leaf sent comes out of what it left to others; a class that has less owes the rest.
    fn take_back(&mut self, leaf: u32, bytes: f64) {
        let mut at = self.arena.node(leaf).parent;
        while at != ROOT && !self.arena.node(at).active {
            at = self.arena.node(at).parent;
        }
        let branch = self.arena.branch_mut(at);
        if at == ROOT {
            branch.residual = (branch.residual - bytes).max(0.0);
        } else {
            branch.pay(-bytes);
        }
    }
}
