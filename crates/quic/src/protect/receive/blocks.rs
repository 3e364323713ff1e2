use std::collections::{BTreeMap, VecDeque};

use quickset_base::number::index;

/// What the REPAIRs of a session said of its SIDs, as far as they are in the window: that they must not
/// contradict one another is FEC-25 and FEC-33.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    low: u64,
    /// For each SID from `low` on, one more than the first SID of its block; 0 without one.
    owners: VecDeque<u64>,
    /// By first SID.
    shapes: BTreeMap<u64, BlockShape>,
    /// Seeds of the latest repair symbols.
    seeds: VecDeque<u64>,
}

/// SIDs `first`, `first + stride`, and so on, and what else makes a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockShape {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) stride: u64,
    pub(super) parameter: u64,
}

impl Blocks {
    /// Takes note of a block in the window, in which every SID is. False when it is neither equal to nor
    /// disjoint from those that are known; one that `grows` may be part of a longer one.
    pub(super) fn claim(&mut self, shape: BlockShape, grows: bool) -> bool {
        let known = self.shapes.get(&shape.first);
        match known {
            Some(known) if (known.stride, known.parameter) != (shape.stride, shape.parameter) => {
                return false;
            }
            Some(known) if known.count != shape.count && !grows => return false,
            // Equal, or a part that was overtaken.
            Some(known) if known.count >= shape.count => return true,
            _ => {}
        }
        let has = known.map_or(0, |known| known.count);
        let owner = shape.first + 1;
        let begin = index(shape.first - self.low);
        let mut terms = has..shape.count;
        if shape.stride == 1 && has == 0 && begin >= self.owners.len() {
            // As most are: behind all others, and without gaps.
            self.owners.resize(begin, 0);
            self.owners.resize(begin + index(shape.count), owner);
            terms = 0..0;
        }
        for term in terms {
            let at = index(shape.first + term * shape.stride - self.low);
            if at >= self.owners.len() {
                self.owners.resize(at + 1, 0);
            }
            if self.owners[at] != 0 {
                return false;
            }
            self.owners[at] = owner;
        }
        self.shapes.insert(shape.first, shape);
        true
    }

    /// The block without gaps that ends before this SID.
    pub(super) fn ending_at(&self, sid: u64) -> Option<BlockShape> {
        let (_, before) = self.shapes.range(..sid).next_back()?;
        (before.stride == 1 && before.first + before.count == sid).then_some(*before)
    }

    /// Takes note of a seed. False when it is known.
    pub(super) fn seed(&mut self, seed: u64) -> bool {
        if self.seeds.contains(&seed) {
            return false;
        }
        if self.seeds.len() == MAX_SEEDS {
            self.seeds.pop_front();
        }
        self.seeds.push_back(seed);
        true
    }

    /// The window begins here now.
    pub(super) fn move_to(&mut self, low: u64) {
        if low <= self.low {
            return;
        }
        let gone = usize::try_from(low - self.low).unwrap_or(usize::MAX).min(self.owners.len());
        self.owners.drain(..gone);
        self.low = low;
        // What begins below is covered by no REPAIR any more, but its SIDs above still have an owner.
        while self.shapes.first_entry().is_some_and(|shape| *shape.key() < low) {
            self.shapes.pop_first();
        }
    }
}

/// As many repair symbols as a decoder stores.
const MAX_SEEDS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, count: u64, parameter: u64) -> BlockShape {
        BlockShape { first, count, stride: 1, parameter }
    }

    #[test]
    fn blocks_are_equal_or_disjoint() {
        let mut blocks = Blocks::default();
        assert!(blocks.claim(run(10, 5, 2), false));
        assert!(blocks.claim(run(10, 5, 2), false));
        assert!(blocks.claim(run(15, 5, 3), false));
        for bad in [run(10, 4, 2), run(10, 6, 2), run(10, 5, 3), run(8, 3, 2), run(14, 1, 2), run(12, 1, 2)] {
            assert!(!blocks.claim(bad, false), "{bad:?}");
        }
    }

    #[test]
    fn interleaved_blocks_are_disjoint() {
        let mut blocks = Blocks::default();
        let part = |first, count| BlockShape { first, count, stride: 3, parameter: 3 };
        assert!(blocks.claim(part(0, 4), false));
        assert!(blocks.claim(part(2, 3), false));
        assert!(blocks.claim(part(1, 3), false));
        assert!(!blocks.claim(part(6, 3), false));
        assert!(!blocks.claim(run(11, 1, 1), false) || blocks.claim(run(12, 9, 1), false));
    }

    #[test]
    fn what_grows_may_come_in_any_order() {
        let mut blocks = Blocks::default();
        assert!(blocks.claim(run(0, 8, 4), true));
        assert!(blocks.claim(run(0, 4, 4), true));
        assert!(blocks.claim(run(0, 12, 4), true));
        assert!(!blocks.claim(run(0, 12, 3), true));
        assert!(blocks.claim(run(12, 4, 4), true));
        assert!(!blocks.claim(run(0, 13, 4), true));
    }

    #[test]
    fn only_the_window_is_remembered() {
        let mut blocks = Blocks::default();
        assert!(blocks.claim(run(0, 10, 1), false));
        blocks.move_to(5);
        assert_eq!((blocks.shapes.len(), blocks.owners.len()), (0, 5));
        assert!(!blocks.claim(run(9, 2, 1), false), "9 is still of the first");
        blocks.move_to(1 << 60);
        assert!(blocks.claim(run(1 << 60, 10, 1), false));
        assert!(blocks.owners.len() <= 10);
    }

    #[test]
    fn seeds_are_used_once() {
        let mut blocks = Blocks::default();
        assert!((0..1000).all(|seed| blocks.seed(seed)));
        assert!(!blocks.seed(999));
        assert!(blocks.seeds.len() <= 128);
    }
}
