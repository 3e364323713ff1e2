use std::collections::BTreeMap;
use std::ops::Range;

/// A set of stream offsets as disjoint ranges that do not touch.
#[derive(Debug, Default)]
pub(super) struct RecordRanges {
    ranges: BTreeMap<u64, u64>,
    /// What they hold together.
    bytes: u64,
}

impl RecordRanges {
    /// Number of ranges.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Bytes of memory, about: nodes are at least half full.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.ranges.len() * 2 * size_of::<(u64, u64)>()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes of all ranges.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The lowest range.
    #[inline]
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.ranges.first_key_value().map(|(&start, &end)| start..end)
    }

    /// The end of the highest range.
    #[inline]
    pub(super) fn end(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, &end)| end)
    }

    /// Adds a range that is not empty, and returns the range of the set that now holds it.
    pub(super) fn insert(&mut self, Range { mut start, mut end }: Range<u64>) -> Range<u64> {
        debug_assert!(start < end);
        if let Some((&s, e)) = self.ranges.range_mut(..=start).next_back() {
            if *e >= end {
                return s..*e;
            }
            if *e >= start {
                start = s;
            }
        }
        while let Some((&s, &e)) = self.ranges.range(start..=end).next() {
            end = end.max(e);
            self.bytes -= e - s;
            self.ranges.remove(&s);
        }
        self.bytes += end - start;
        self.ranges.insert(start, end);
        start..end
    }

    /// Takes a range out, whether or not it is in.
    pub(super) fn remove(&mut self, Range { start, end }: Range<u64>) {
        if start >= end || self.ranges.is_empty() {
            return;
        }
        if let Some((_, e)) = self.ranges.range_mut(..start).next_back() {
            let old = *e;
            *e = old.min(start);
            self.bytes -= old.min(end).saturating_sub(start);
            if old > end {
                self.ranges.insert(end, old);
            }
        }
        while let Some((&s, &e)) = self.ranges.range(start..end).next() {
            self.ranges.remove(&s);
            self.bytes -= e.min(end) - s;
            if e > end {
                self.ranges.insert(end, e);
            }
        }
    }

    /// What the set and `within` have in common, in order.
    pub(super) fn overlaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.ranges.range(..within.start).next_back();
        let inside = self.ranges.range(within.start..within.end.max(within.start));
        before
            .into_iter()
            .chain(inside)
            .map(move |(&s, &e)| s.max(within.start)..e.min(within.end))
            .filter(|r| r.start < r.end)
    }

    /// Takes the lowest range out.
    pub(super) fn pop_first(&mut self) -> Option<Range<u64>> {
        let (start, end) = self.ranges.pop_first()?;
        self.bytes -= end - start;
        Some(start..end)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// True when the set and `within` have something in common.
    pub(super) fn touches(&self, within: Range<u64>) -> bool {
        !self.ranges.is_empty() && self.overlaps(within).next().is_some()
    }

    /// The lowest part of `within` that is not in the set.
    pub(super) fn gap(&self, within: Range<u64>) -> Option<Range<u64>> {
        let mut start = within.start;
        if let Some((_, &e)) = self.ranges.range(..=start).next_back() {
            start = start.max(e);
        }
        if start >= within.end {
            return None;
        }
        let end = self.ranges.range(start..within.end).next().map_or(within.end, |(&s, _)| s);
        Some(start..end)
    }
}
