use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::ops::RangeInclusive;

/// A set of numbers kept as ranges that neither overlap nor touch.
///
/// Made for numbers that come almost in order: the next one costs O(1), one that lands k ranges below
/// the newest costs O(k).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    // Oldest first. Both ends belong to the range.
    ranges: VecDeque<(u64, u64)>,
}

impl RangeSet {
    /// Gives back the memory of what is gone.
    pub(crate) fn rest(&mut self) {
        self.ranges.shrink_to_fit();
    }

    /// Adds `n`; false if it was there.
    #[inline]
    pub(crate) fn insert(&mut self, n: u64) -> bool {
        if let Some((_, end)) = self.ranges.back_mut() {
            // `end + 1` cannot overflow where `n` is above it.
            if n > *end && n == *end + 1 {
                *end = n;
                return true;
            }
            if n <= *end {
                return self.insert_below(n);
            }
        }
        self.ranges.push_back((n, n));
        true
    }

    /// Adds every number of `range`; an empty range adds none.
    pub(crate) fn insert_range(&mut self, range: RangeInclusive<u64>) {
        let (mut start, mut end) = range.into_inner();
        if start > end {
            return;
        }
        // Ranges `from..to` overlap or touch the new one and melt into it.
        let is_below = |&(start, _): &(u64, u64)| start <= end.saturating_add(1);
        // Most are the newest; those of an ACK frame come one below the other.
        let is_newest = self.ranges.back().is_none_or(is_below);
        let to = if is_newest { self.ranges.len() } else { self.ranges.partition_point(is_below) };
        let mut from = to;
        while from > 0 && self.ranges[from - 1].1.saturating_add(1) >= start {
            from -= 1;
        }
        if from == to {
            self.ranges.insert(to, (start, end));
            return;
        }
        start = start.min(self.ranges[from].0);
        end = end.max(self.ranges[to - 1].1);
        self.ranges[from] = (start, end);
        self.ranges.drain(from + 1..to);
    }

    /// True if `n` was added.
    #[inline]
    pub(crate) fn contains(&self, n: u64) -> bool {
        match self.ranges.back() {
            None => false,
            Some(&(start, end)) if n >= start => n <= end,
            Some(_) => {
                let above = self.ranges.partition_point(|&(start, _)| start <= n);
                above > 0 && self.ranges[above - 1].1 >= n
            }
        }
    }

    /// The least number from `n` on that was not added.
    pub(crate) fn first_missing(&self, n: u64) -> u64 {
        let above = self.ranges.partition_point(|&(start, _)| start <= n);
        match above.checked_sub(1).map(|at| self.ranges[at].1) {
            Some(end) if end >= n => end.saturating_add(1),
            _ => n,
        }
    }

    /// Removes every number below `n`.
    pub(crate) fn remove_below(&mut self, n: u64) {
        while let Some((start, end)) = self.ranges.front_mut() {
            if *end >= n {
                *start = n.max(*start);
                return;
            }
            self.ranges.pop_front();
        }
    }

    /// Removes the range of the smallest numbers and returns it.
    pub(crate) fn pop_oldest(&mut self) -> Option<RangeInclusive<u64>> {
        self.ranges.pop_front().map(|(start, end)| start..=end)
    }

    /// The range of the largest numbers.
    #[inline]
    pub(crate) fn newest(&self) -> Option<RangeInclusive<u64>> {
        self.ranges.back().map(|&(start, end)| start..=end)
    }

    /// The range of the smallest numbers.
    pub(crate) fn oldest(&self) -> Option<RangeInclusive<u64>> {
        self.ranges.front().map(|&(start, end)| start..=end)
    }

    /// The number of ranges.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True if there is no number.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Removes everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// The ranges, newest first.
    #[inline]
    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter(self.ranges.iter())
    }

    fn insert_below(&mut self, n: u64) -> bool {
        if self.contains(n) {
            return false;
        }
        self.insert_range(n..=n);
        true
    }
}

impl<'a> IntoIterator for &'a RangeSet {
    type Item = RangeInclusive<u64>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The ranges of a [`RangeSet`], newest first.
#[derive(Clone, Debug)]
pub(crate) struct Iter<'a>(std::collections::vec_deque::Iter<'a, (u64, u64)>);

impl Iterator for Iter<'_> {
    type Item = RangeInclusive<u64>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|&(start, end)| start..=end)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next().map(|&(start, end)| start..=end)
    }
}

impl ExactSizeIterator for Iter<'_> {}
impl FusedIterator for Iter<'_> {}
