use quickset_base::number::{Float as _, Unsigned as _};
use serde::{Deserialize, Serialize};

/// A distribution of times that can be joined with others: exact counts in buckets less than 0.8 % wide.
///
/// A bucket is told by the position of the highest bit of the nanoseconds and the seven bits behind it, so
/// all of it is whole numbers and the same everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u32, u64)>", into = "Vec<(u32, u64)>")]
pub struct Histogram(Vec<(u32, u64)>); // Bucket and count, in rising order, no zeros.

impl From<Histogram> for Vec<(u32, u64)> {
    fn from(histogram: Histogram) -> Self {
        histogram.0
    }
}

/// Whatever a file has is brought into order. Counts that are more than can be are as many as can be.
impl From<Vec<(u32, u64)>> for Histogram {
    fn from(buckets: Vec<(u32, u64)>) -> Self {
        let mut histogram = Self::default();
        histogram.join(&Self(buckets));
        histogram
    }
}

impl Histogram {
    /// The distribution of these times in milliseconds, in rising order.
    pub fn of_sorted(milliseconds: &[f64]) -> Self {
        let mut buckets: Vec<(u32, u64)> = Vec::new();
        for ms in milliseconds {
            let bucket = bucket((ms * 1e6).round().max(0.0).whole::<u64>());
            match buckets.last_mut() {
                Some(last) if last.0 == bucket => last.1 += 1,
                _ => buckets.push((bucket, 1)),
            }
        }
        Self(buckets)
    }

    /// Adds another one.
    pub fn join(&mut self, other: &Self) {
        let mut all = std::collections::BTreeMap::new();
        for (bucket, count) in self.0.iter().chain(&other.0) {
            let sum: &mut u64 = all.entry(*bucket).or_insert(0);
            *sum = sum.saturating_add(*count);
        }
        self.0 = all.into_iter().filter(|(_, count)| *count > 0).collect();
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Steps of the cumulative distribution: a time in milliseconds, and the share that is at most as long.
    pub fn steps(&self) -> Vec<(f64, f64)> {
        let all = self.count().max(1).approx();
        let mut seen = 0;
        let step = |(bucket, count): &(u32, u64)| {
            seen = count.saturating_add(seen);
            (middle(*bucket).approx() / 1e6, seen.approx() / all)
        };
        self.0.iter().map(step).collect()
    }

    /// The time in milliseconds that the share `p` does not exceed; 0 when there are none.
    pub fn percentile(&self, p: f64) -> f64 {
        let rank = (p * self.count().approx()).ceil().max(1.0).whole::<u64>();
        let mut seen = 0;
        for (bucket, count) in &self.0 {
            seen = count.saturating_add(seen);
            if seen >= rank {
                return middle(*bucket).approx() / 1e6;
            }
        }
        0.0
    }

    /// The share of times above `milliseconds`; 0 when there are none.
    pub fn share_above(&self, milliseconds: f64) -> f64 {
        let limit = bucket((milliseconds * 1e6).round().max(0.0).whole::<u64>());
        let above = self.0.iter().filter(|(bucket, _)| *bucket > limit);
        let above = above.fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        above.approx() / self.count().max(1).approx()
    }
}

fn bucket(ns: u64) -> u32 {
    let high = (ns | 1).ilog2();
    if high < BITS {
        return ns.saturated::<u32>();
    }
    let shift = high - BITS;
    ((shift + 1) << BITS) + ((ns >> shift).saturated::<u32>() - (1 << BITS))
}

/// The middle of a bucket, in nanoseconds.
fn middle(bucket: u32) -> u64 {
    if bucket < 1 << BITS {
        return u64::from(bucket);
    }
    let shift = ((bucket >> BITS) - 1).min(63 - BITS);
    let low = u64::from((1 << BITS) + (bucket & ((1 << BITS) - 1))) << shift;
    low + (1u64 << shift) / 2
}

/// Bits behind the highest one: 2^-7 is the width of a bucket over its value.
const BITS: u32 = 7;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn buckets_rise_and_are_narrow(a in 0u64..1 << 62, b in 0u64..1 << 62) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(bucket(low) <= bucket(high));
            let error = middle(bucket(low)).abs_diff(low);
            prop_assert!(error as f64 <= low as f64 / 128.0, "{low}: off by {error}");
        }

        #[test]
        fn joined_is_the_distribution_of_all(mut a in prop::collection::vec(0.0..500.0f64, 1..200), b in prop::collection::vec(0.0..500.0f64, 1..200)) {
            a.sort_by(f64::total_cmp);
            let mut sorted = b.clone();
            sorted.sort_by(f64::total_cmp);
            let mut joined = Histogram::of_sorted(&a);
            joined.join(&Histogram::of_sorted(&sorted));
            let mut all = [a, b].concat();
            all.sort_by(f64::total_cmp);
            prop_assert_eq!(&joined, &Histogram::of_sorted(&all));
            let exact = all[(0.8 * all.len() as f64).ceil() as usize - 1];
            prop_assert!((joined.percentile(0.8) - exact).abs() <= exact / 100.0);
        }
    }

    /// Rows come from files, and files from anywhere.
    #[test]
    fn whatever_is_read_is_a_distribution() {
        let read = |text: &str| serde_json::from_str::<Histogram>(text).unwrap();
        // Out of order, in parts, and empty: as if somebody had written 3, 3, 5, 5, 5.
        let mixed = read("[[5,1],[3,2],[9,0],[5,2]]");
        assert_eq!(mixed, read("[[3,2],[5,3]]"));
        assert_eq!(serde_json::to_string(&mixed).unwrap(), "[[3,2],[5,3]]");
        assert_eq!(mixed.steps(), [(3e-6, 0.4), (5e-6, 1.0)]);
        let most = u64::MAX;
        let huge = read(&format!("[[1,{most}],[4294967295,{most}],[1,7]]"));
        assert_eq!((huge.count(), huge.steps().len()), (most, 2));
        assert!(huge.share_above(0.0) <= 1.0 && huge.percentile(0.5) > 0.0);
        let mut joined = huge.clone();
        joined.join(&huge);
        assert_eq!(joined.count(), most);
    }

    #[test]
    fn any_bucket_is_read_without_overflow() {
        for bucket in [0, 127, 128, 7_500, u32::MAX] {
            let _ = middle(bucket);
        }
        assert_eq!(Histogram::default().percentile(0.5).to_bits(), 0f64.to_bits());
    }
}
