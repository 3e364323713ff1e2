use std::collections::VecDeque;
use std::ops::Range;

/// Disjoint ranges of stream offsets that do not touch, in ascending order.
///
/// Acknowledgements, losses and arrivals mostly extend the last range or the first, which is O(1); in
/// the middle it is a binary search and a move of what lies on the shorter side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(VecDeque<Range<u64>>);

impl Ranges {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.0.front().cloned()
    }

    /// The end of the highest range.
    #[inline]
    pub(super) fn end(&self) -> Option<u64> {
        self.0.back().map(|range| range.end)
    }

    #[inline]
    pub(super) fn pop_first(&mut self) -> Option<Range<u64>> {
        self.0.pop_front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    /// True when all of `range` is in the set; of nothing, all is.
    pub(super) fn covers(&self, range: Range<u64>) -> bool {
        let at = self.0.partition_point(|r| r.end <= range.start);
        range.is_empty() || self.0.get(at).is_some_and(|r| r.start <= range.start && range.end <= r.end)
    }

    /// Adds `range`, joining what it overlaps or touches.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        match self.0.back_mut() {
            Some(back) if back.end < range.start => return self.0.push_back(range),
            Some(back) if back.start <= range.start => {
                back.end = back.end.max(range.end);
                return;
            }
            Some(_) => {}
            None => return self.0.push_back(range),
        }
        let from = self.0.partition_point(|r| r.end < range.start);
        let to = self.0.partition_point(|r| r.start <= range.end);
        if from == to {
            self.0.insert(from, range);
            return;
        }
        let end = self.0[to - 1].end.max(range.end);
        let joined = &mut self.0[from];
        joined.start = joined.start.min(range.start);
        joined.end = end;
        self.0.drain(from + 1..to);
    }

    /// Takes `range` out, cutting what it overlaps in part.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|r| r.end <= range.start);
        let to = self.0.partition_point(|r| r.start < range.end);
        if from >= to {
            return;
        }
        let left = self.0[from].start..range.start;
        let right = range.end..self.0[to - 1].end;
        self.0.drain(from..to);
        if !right.is_empty() {
            self.0.insert(from, right);
        }
        if !left.is_empty() {
            self.0.insert(from, left);
        }
    }

    /// Adds `range` but for what `other` holds.
    pub(super) fn insert_except(&mut self, range: Range<u64>, other: &Self) {
        let mut at = range.start;
        let from = other.0.partition_point(|r| r.end <= range.start);
        for held in other.0.iter().skip(from).take_while(|r| r.start < range.end) {
            self.insert(at..held.start);
            at = held.end;
        }
        self.insert(at..range.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(ranges: &Ranges) -> u64 {
        ranges.iter().flat_map(Range::clone).fold(0, |set, i| set | 1 << i)
    }

    proptest! {
        #[test]
        fn ranges_agree_with_a_bit_set(steps in prop::collection::vec((0u8..3, 0u64..60, 0u64..9), 1..60)) {
            let (mut ranges, mut other) = (Ranges::default(), Ranges::default());
            let mut model = 0u64;
            for (what, start, len) in steps {
                let range = start..(start + len).min(63);
                let mask = range.clone().fold(0, |set, i| set | 1u64 << i);
                match what {
                    0 => { ranges.insert(range); model |= mask; }
                    1 => { ranges.remove(range); model &= !mask; }
                    _ => {
                        ranges.insert_except(range.clone(), &other);
                        model |= mask & !bits(&other);
                        other.insert(range);
                    }
                }
                prop_assert_eq!(bits(&ranges), model);
                let apart = ranges.0.iter().zip(ranges.0.iter().skip(1)).all(|(a, b)| a.end < b.start);
                prop_assert!(apart && ranges.iter().all(|r| !r.is_empty()), "{:?}", ranges);
            }
        }
    }
}
