use std::collections::VecDeque;
use std::ops::Range;

/// Disjoint ranges of stream offsets that do not touch, in ascending order.
///
/// Acknowledgements, losses and arrivals mostly extend the last range or the first, which is O(1); in
/// the middle it is a binary search and a move of what lies on the shorter side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    ranges: VecDeque<Range<u64>>,
    /// What they hold together.
    bytes: u64,
}

impl Ranges {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Bytes of all ranges.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.ranges.front().cloned()
    }

    /// The end of the highest range.
    #[inline]
    pub(super) fn end(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.end)
    }

    #[inline]
    pub(super) fn pop_first(&mut self) -> Option<Range<u64>> {
        let first = self.ranges.pop_front()?;
        self.bytes -= first.end - first.start;
        Some(first)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.ranges.iter()
    }

    /// True when all of `range` is in the set; of nothing, all is.
    pub(super) fn covers(&self, range: Range<u64>) -> bool {
        let at = self.ranges.partition_point(|r| r.end <= range.start);
        range.is_empty() || self.ranges.get(at).is_some_and(|r| r.start <= range.start && range.end <= r.end)
    }

    /// Adds `range`, joining what it overlaps or touches.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        match self.ranges.back_mut() {
            Some(back) if back.end < range.start => return self.push_back(range),
            Some(back) if back.start <= range.start => {
                self.bytes += range.end.saturating_sub(back.end);
                back.end = back.end.max(range.end);
                return;
            }
            Some(_) => {}
            None => return self.push_back(range),
        }
        let from = self.ranges.partition_point(|r| r.end < range.start);
        let to = self.ranges.partition_point(|r| r.start <= range.end);
        if from == to {
            self.bytes += range.end - range.start;
            self.ranges.insert(from, range);
            return;
        }
        let held: u64 = self.ranges.range(from..to).map(|r| r.end - r.start).sum();
        let end = self.ranges[to - 1].end.max(range.end);
        let joined = &mut self.ranges[from];
        joined.start = joined.start.min(range.start);
        joined.end = end;
        self.bytes += joined.end - joined.start - held;
        self.ranges.drain(from + 1..to);
    }

    #[inline]
    fn push_back(&mut self, range: Range<u64>) {
        self.bytes += range.end - range.start;
        self.ranges.push_back(range);
    }

    /// Takes `range` out, cutting what it overlaps in part.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|r| r.end <= range.start);
        let to = self.ranges.partition_point(|r| r.start < range.end);
        if from >= to {
            return;
        }
        let left = self.ranges[from].start..range.start;
        let right = range.end..self.ranges[to - 1].end;
        self.bytes -= self.ranges.drain(from..to).map(|r| r.end - r.start).sum::<u64>();
        for rest in [right, left] {
            if !rest.is_empty() {
                self.bytes += rest.end - rest.start;
                self.ranges.insert(from, rest);
            }
        }
    }

    /// Adds `range` but for what `other` holds.
    pub(super) fn insert_except(&mut self, range: Range<u64>, other: &Self) {
        let mut at = range.start;
        let from = other.ranges.partition_point(|r| r.end <= range.start);
        for held in other.ranges.iter().skip(from).take_while(|r| r.start < range.end) {
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
                prop_assert_eq!(ranges.bytes(), u64::from(model.count_ones()));
                let apart = ranges.ranges.iter().zip(ranges.ranges.iter().skip(1)).all(|(a, b)| a.end < b.start);
                prop_assert!(apart && ranges.iter().all(|r| !r.is_empty()), "{:?}", ranges);
            }
        }
    }
}
