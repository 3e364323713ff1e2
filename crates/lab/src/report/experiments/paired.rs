use std::collections::BTreeMap;

use crate::stats::MeanEstimate;

/// Runs that differ in one thing alone, compared one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Paired {
    pub(crate) reference: f64,
    pub(crate) challenger: f64,
    pub(crate) pairs: usize,
    /// How much more the challenger has, as a share of the reference; `None` where that is zero.
    pub(crate) more: Option<f64>,
    /// Whether that is the geometric mean of the pairs' ratios, and not the ratio of the two means.
    pub(crate) is_geometric: bool,
    /// The same with 95 % confidence; `None` for a single pair.
    pub(crate) between: Option<(f64, f64)>,
    /// The sign of the difference where chance alone would not give it, also from a reference of zero; else
    /// 0.
    pub(crate) shown: i32,
    /// Pairs beside these of which a run did not come to its end.
    pub(crate) left_out: usize,
}

/// A number of two runs that differ in one thing alone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PairedNumber {
    /// All of their parameters but that one.
    pub(crate) point: String,
    pub(crate) reference: f64,
    pub(crate) challenger: f64,
}

impl PairedNumber {
    pub(crate) fn has_ratio(&self) -> bool {
        self.reference > 0.0 && self.challenger > 0.0
    }
}

/// The mean over pairs, and how sure it is. Seeds of a point have more in common than points have: where
/// there are several points, it is they that are independent, each with the mean of its seeds.
fn over_points(pairs: &[PairedNumber], of: impl Fn(&PairedNumber) -> f64) -> Option<MeanEstimate> {
    let all: Vec<f64> = pairs.iter().map(&of).collect();
    let mut points: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (pair, value) in pairs.iter().zip(&all) {
        points.entry(&pair.point).or_default().push(*value);
    }
    let estimate = MeanEstimate::of(&all)?;
    if points.len() < 2 {
        return Some(estimate);
    }
    let means: Vec<f64> = points.values().filter_map(|values| Some(MeanEstimate::of(values)?.mean)).collect();
    Some(MeanEstimate { half: MeanEstimate::of(&means)?.half, ..estimate })
}

impl Paired {
    pub(crate) fn of_differences(pairs: &[PairedNumber]) -> Option<Self> {
        let (reference, challenger) = means(pairs)?;
        let difference = over_points(pairs, |pair| pair.challenger - pair.reference)?;
        let of_reference = |value: f64| (reference > 0.0).then_some(value / reference);
        // Less than nothing is none.
        let between = difference.half.and_then(|half| {
            Some((of_reference(difference.mean - half)?.max(-1.0), of_reference(difference.mean + half)?))
        });
        let (more, shown) = (of_reference(difference.mean), shown(difference));
        Some(Self {
            reference,
            challenger,
            pairs: pairs.len(),
            more,
            is_geometric: false,
            between,
            shown,
            left_out: 0,
        })
    }

    /// Over points that are far apart, ratios say more than differences: their geometric mean.
    pub(crate) fn of_ratios(pairs: &[PairedNumber]) -> Option<Self> {
        let (reference, challenger) = means(pairs)?;
        let logarithms = over_points(pairs, |pair| (pair.challenger / pair.reference).ln())?;
        let more = |logarithm: f64| logarithm.exp() - 1.0;
        let between =
            logarithms.half.map(|half| (more(logarithms.mean - half), more(logarithms.mean + half)));
        let (more, shown) = (Some(more(logarithms.mean)), shown(logarithms));
        Some(Self {
            reference,
            challenger,
            pairs: pairs.len(),
            more,
            is_geometric: true,
            between,
            shown,
            left_out: 0,
        })
    }

    /// Whether the difference is more than chance would give, and matters: the sign, or 0 where that is not
    /// shown.
    pub(crate) fn sign(&self) -> i32 {
        if self.more.is_some_and(|more| more.abs() < NEGLIGIBLE) { 0 } else { self.shown }
    }
}

/// Of the references, and of the challengers.
fn means(pairs: &[PairedNumber]) -> Option<(f64, f64)> {
    let mean = |of: fn(&PairedNumber) -> f64| {
        Some(MeanEstimate::of(&pairs.iter().map(of).collect::<Vec<_>>())?.mean)
    };
    Some((mean(|pair| pair.reference)?, mean(|pair| pair.challenger)?))
}

/// The sign of a difference whose interval does not hold zero.
fn shown(difference: MeanEstimate) -> i32 {
    match difference.half {
        Some(half) if difference.mean - half > 0.0 => 1,
        Some(half) if difference.mean + half < 0.0 => -1,
        _ => 0,
    }
}

/// What repeats exactly in virtual time is significant however small it is; less than this is of no matter.
const NEGLIGIBLE: f64 = 0.001;
