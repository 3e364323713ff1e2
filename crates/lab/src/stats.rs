//! Samples and their exact percentiles: everything is kept and sorted, nothing is binned.

use quickset_base::number::Unsigned as _;
use serde::{Deserialize, Serialize};

/// What was measured, in no order, in any unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a sample; one that is not a number counts as 0.
    pub fn add(&mut self, sample: f64) {
        self.0.push(if sample.is_nan() { 0.0 } else { sample });
    }

    /// Adds those of another.
    pub fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The share of samples above `limit`; 0 when there are no samples.
    pub fn share_above(&self, limit: f64) -> f64 {
        let above = self.0.iter().filter(|sample| **sample > limit).count();
        if self.0.is_empty() { 0.0 } else { above.approx() / self.0.len().approx() }
    }

    /// In rising order.
    pub fn sorted(&self) -> Sorted {
        let mut all = self.0.clone();
        all.sort_unstable_by(f64::total_cmp);
        Sorted(all)
    }

    /// Mean and percentiles.
    pub fn percentiles(&self) -> Percentiles {
        self.sorted().percentiles()
    }
}

impl Extend<f64> for Samples {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, samples: I) {
        samples.into_iter().for_each(|sample| self.add(sample));
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(samples: I) -> Self {
        let mut new = Self::default();
        new.extend(samples);
        new
    }
}

/// Samples in rising order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    /// The samples.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// The nearest-rank percentile: the least sample that at least `of_ten_thousand` / 10,000 of all samples
    /// do not exceed. 0 when there are no samples.
    pub fn percentile(&self, of_ten_thousand: u32) -> f64 {
        // In whole numbers: 0.999 * 1000 is not 999 in floating point.
        let rank = (u64::from(of_ten_thousand) * self.0.len() as u64).div_ceil(10_000).max(1);
        self.0
            .get((rank.saturated::<usize>() - 1).min(self.0.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0.0)
    }

    /// The share of samples that are at most `limit`; 1 when there are no samples.
    pub fn share_up_to(&self, limit: f64) -> f64 {
        if self.0.is_empty() {
            return 1.0;
        }
        self.0.partition_point(|sample| *sample <= limit).approx() / self.0.len().approx()
    }

    /// Mean and percentiles.
    pub fn percentiles(&self) -> Percentiles {
        let n = self.0.len().max(1).approx();
        Percentiles {
            mean: self.0.iter().sum::<f64>() / n,
            p50: self.percentile(5_000),
            p70: self.percentile(7_000),
            p80: self.percentile(8_000),
            p90: self.percentile(9_000),
            p95: self.percentile(9_500),
            p98: self.percentile(9_800),
            p99: self.percentile(9_900),
            p999: self.percentile(9_990),
            p9995: self.percentile(9_995),
            max: self.percentile(10_000),
        }
    }
}

/// What tables show of a set of samples. The unit is that of the samples; all are 0 when there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The arithmetic mean.
    pub mean: f64,
    /// The median (nearest rank, as all of these).
    pub p50: f64,
    /// 70 % do not exceed it.
    pub p70: f64,
    /// 80 % do not exceed it.
    pub p80: f64,
    /// 90 % do not exceed it.
    pub p90: f64,
    /// 95 % do not exceed it.
    pub p95: f64,
    /// 98 % do not exceed it.
    pub p98: f64,
    /// 99 % do not exceed it.
    pub p99: f64,
    /// 99.9 % do not exceed it.
    pub p999: f64,
    /// 99.95 % do not exceed it.
    pub p9995: f64,
    /// The greatest.
    pub max: f64,
}

/// The mean of independent samples, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanEstimate {
    /// The arithmetic mean.
    pub mean: f64,
    /// The 95 % confidence interval reaches so far to either side, by Student's t; `None` for a single
    /// sample.
    pub half: Option<f64>,
    /// How many samples there are.
    pub count: usize,
}

impl MeanEstimate {
    /// That of these samples; `None` when there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let count = samples.len();
        if count == 0 {
            return None;
        }
        let n = count.approx();
        let mean = samples.iter().sum::<f64>() / n;
        let half = (count > 1).then(|| {
            let squares: f64 = samples.iter().map(|sample| (sample - mean) * (sample - mean)).sum();
            student_t(count - 1) * (squares / (n - 1.0) / n).sqrt()
        });
        Some(Self { mean, half, count })
    }
}

/// The value that Student's t of so many degrees of freedom exceeds with a probability of 2.5 %: 95 % lie
/// between it and its negative. At least one degree.
pub fn student_t(degrees: usize) -> f64 {
    // Textbooks' table, to 30 degrees.
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    TABLE.get(degrees.max(1) - 1).copied().unwrap_or_else(|| near_normal(degrees.approx()))
}

/// The expansion around the normal distribution (Abramowitz and Stegun, 26.7.5), good to 0.001 from ten
/// degrees on.
fn near_normal(degrees: f64) -> f64 {
    let z: f64 = 1.959_964;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / degrees + second / degrees.powi(2) + third / degrees.powi(3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, word by word: try every sample, the least first.
    fn naive(samples: &[f64], of_ten_thousand: u32) -> f64 {
        let mut sorted = samples.to_vec();
        sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let enough = |x: f64| {
            let covered = samples.iter().filter(|s| **s <= x).count() as u64;
            covered * 10_000 >= u64::from(of_ten_thousand) * samples.len() as u64
        };
        sorted.into_iter().find(|x| enough(*x)).unwrap()
    }

    proptest! {
        #[test]
        fn percentiles_equal_their_definition(samples in prop::collection::vec(-1e6..1e6f64, 1..300)) {
            let got = samples.iter().copied().collect::<Samples>().percentiles();
            let pairs = [
                (got.p50, 5_000), (got.p70, 7_000), (got.p80, 8_000), (got.p90, 9_000), (got.p95, 9_500),
                (got.p98, 9_800), (got.p99, 9_900), (got.p999, 9_990), (got.p9995, 9_995), (got.max, 10_000),
            ];
            for (value, p) in pairs {
                prop_assert_eq!(value.to_bits(), naive(&samples, p).to_bits(), "p = {}", p);
            }
        }
    }

    #[test]
    fn the_ranks_of_a_thousand_are_exact() {
        let samples: Samples = (1..=1000).rev().map(f64::from).collect();
        let got = samples.percentiles();
        assert_eq!((got.p50, got.p99, got.p999, got.p9995), (500.0, 990.0, 999.0, 1000.0));
        assert!((got.mean - 500.5).abs() < 1e-9);
        assert!((samples.share_above(900.0) - 0.1).abs() < 1e-12);
        assert!((samples.sorted().share_up_to(900.0) - 0.9).abs() < 1e-12);
    }

    #[test]
    fn nothing_measured_is_zero() {
        assert_eq!(Samples::default().percentiles(), Percentiles::default());
        assert!(Samples::default().share_above(0.0).abs() < 1e-12);
    }

    #[test]
    fn quantiles_of_student_are_those_of_printed_tables() {
        for (degrees, printed) in [
            (1, 12.706),
            (2, 4.303),
            (4, 2.776),
            (9, 2.262),
            (19, 2.093),
            (30, 2.042),
            (40, 2.021),
            (60, 2.000),
            (94, 1.986),
            (120, 1.980),
            (1_000_000, 1.960),
        ] {
            let t = student_t(degrees);
            assert!((t - printed).abs() < 6e-4, "{degrees} degrees: {t}, printed {printed}");
        }
        // The table and the expansion are of different sources.
        for degrees in 10..=30 {
            let (table, expansion) = (student_t(degrees), near_normal(degrees as f64));
            assert!((table - expansion).abs() < 1e-3, "{degrees} degrees: {table}, {expansion}");
        }
    }

    #[test]
    fn an_interval_computed_by_hand() {
        // Mean 3, sum of squares 10, variance 2.5, standard error sqrt(0.5), 4 degrees of freedom.
        let got = MeanEstimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((got.mean - 3.0).abs() < 1e-12);
        assert!((got.half.unwrap() - 2.776 * 0.5f64.sqrt()).abs() < 1e-9);
        assert_eq!(MeanEstimate::of(&[7.0]).map(|e| (e.mean, e.half, e.count)), Some((7.0, None, 1)));
        assert_eq!(MeanEstimate::of(&[]), None);
    }
}
