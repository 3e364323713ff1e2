/// A set of packet ordinals, counted from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordinals(pub(crate) Vec<(u64, u64)>); // Inclusive, rising, with gaps between.

impl Ordinals {
    /// True when `n` is among them; in logarithmic time.
    pub fn contains(&self, n: u64) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= n);
        after > 0 && n <= self.0[after - 1].1
    }

    /// Reads `7` or `10-20`.
    pub(crate) fn range(text: &str) -> Option<(u64, u64)> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last).then_some((first, last))
    }

    pub(crate) fn from_ranges(mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(end) if first <= end.1.saturating_add(1) => end.1 = end.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }
}

impl FromIterator<u64> for Ordinals {
    fn from_iter<I: IntoIterator<Item = u64>>(ordinals: I) -> Self {
        Self::from_ranges(ordinals.into_iter().map(|n| (n, n)).collect())
    }
}
