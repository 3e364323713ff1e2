//! Who sends when one leaf does not.

use super::arena::{Arena, LEVELS, NIL};

impl<K> Arena<K> {
    /// The leaf that comes next below a branch, if it is not `except`.
    pub(super) fn besides(&self, at: u32, except: u32) -> Option<u32> {
        let branch = self.branch(at);
        let occupied = (branch.best()..LEVELS).filter(|level| branch.occupied >> level & 1 == 1);
        occupied.map(|level| branch.level(level)).find_map(|level| {
            // What is excepted is below one child at most, so that the second to be asked has an answer.
            let line = [level.first, self.second(level.first)].into_iter().filter(|child| *child != NIL);
            let start = if level.current == NIL || level.first != NIL { level.head } else { level.current };
            let next = if start == NIL { NIL } else { self.node(start).next };
            let ring = [start, next].into_iter().filter(|child| *child != NIL);
            line.chain(ring).find_map(|child| self.leaf_besides(child, except))
        })
    }

    fn leaf_besides(&self, child: u32, except: u32) -> Option<u32> {
        if !self.node(child).is_leaf() {
            return self.besides(child, except);
        }
        (child != except).then_some(child)
    }

    /// The second of those that go one after the other, which is among the children of the first.
    fn second(&self, first: u32) -> u32 {
        let mut child = if first == NIL { NIL } else { self.node(first).sub };
        let mut second = NIL;
        while child != NIL {
            if second == NIL || self.node(child).number < self.node(second).number {
                second = child;
            }
            child = self.node(child).next;
        }
        second
    }
}
