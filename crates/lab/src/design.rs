//! Space-filling designs of experiments.
//!
//! The WSP algorithm (Wootton, Sergent, Phan-Tan-Luu: "A new space-filling design", 2012): of many random
//! candidates in the unit cube keep those that are not nearer than a distance to one kept already, always
//! going on to the nearest that is left; the distance is the one that leaves as many points as were asked
//! for.

use quickset_base::Rng;
use quickset_base::number::Unsigned as _;

/// `count` places in the unit cube of `dimensions`, evenly spread; the same for equal arguments.
///
/// The first point is the candidate nearest to the centre. The distance is found by bisection; when no
/// distance leaves exactly `count`, the least one that leaves more does and the last ones are left out.
pub fn space_filling(dimensions: usize, count: usize) -> Vec<Vec<f64>> {
    if count == 0 || dimensions == 0 {
        return Vec::new();
    }
    let mut rng = Rng::new(SEED);
    let candidates: Vec<Vec<f64>> = (0..(count * CANDIDATES_EACH).min(MAX_CANDIDATES).max(count))
        .map(|_| (0..dimensions).map(|_| rng.unit()).collect())
        .collect();
    // Squared distances: the nearer keeps at least as many as the farther.
    let (mut near, mut far) = (0.0, dimensions.approx());
    let mut best = candidates.clone();
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(near, far);
        let kept = keep(&candidates, middle);
        if kept.len() >= count {
            (near, best) = (middle, kept);
        } else {
            far = middle;
        }
        if best.len() == count {
            break;
        }
    }
    best.truncate(count);
    best
}

/// The candidates that remain when none may be nearer to another than the root of `least`.
fn keep(candidates: &[Vec<f64>], least: f64) -> Vec<Vec<f64>> {
    let centre = vec![0.5; candidates[0].len()];
    let mut left: Vec<(f64, &Vec<f64>)> =
        candidates.iter().map(|place| (squared(place, &centre), place)).collect();
    let mut kept = Vec::new();
    loop {
        let nearest = left.iter().enumerate().min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0));
        let Some((at, _)) = nearest else { return kept };
        let (_, place) = left.swap_remove(at);
        kept.push(place.clone());
        for (distance, other) in &mut left {
            *distance = squared(other, place);
        }
        left.retain(|(distance, _)| *distance >= least);
    }
}

fn squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}

/// Designs are the same in every run.
const SEED: u64 = 0x5753_5000;
/// Enough that the kept ones are near where an even spread would have them.
const CANDIDATES_EACH: usize = 20;
/// Selection takes candidates times points: a second at most.
const MAX_CANDIDATES: usize = 20_000;
const BISECTIONS: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn least_distance(places: &[Vec<f64>]) -> f64 {
        let pairs =
            places.iter().enumerate().flat_map(|(i, a)| places[i + 1..].iter().map(move |b| squared(a, b)));
        pairs.fold(f64::INFINITY, f64::min).sqrt()
    }

    #[test]
    fn points_fill_the_cube_better_than_chance() {
        for (dimensions, count) in [(1, 20), (2, 50), (3, 95)] {
            let places = space_filling(dimensions, count);
            assert_eq!(places.len(), count);
            assert!(places.iter().flatten().all(|x| (0.0..1.0).contains(x)));
            let mut rng = Rng::new(9);
            let random: Vec<Vec<f64>> =
                (0..count).map(|_| (0..dimensions).map(|_| rng.unit()).collect()).collect();
            let (ours, chance) = (least_distance(&places), least_distance(&random));
            assert!(ours > 3.0 * chance, "{dimensions} dimensions: {ours} against {chance}");
            // No octant is empty: each half of each axis has between a third and two thirds of the points.
            for axis in 0..dimensions {
                let low = places.iter().filter(|place| place[axis] < 0.5).count();
                assert!(low * 3 >= count && low * 3 <= count * 2, "axis {axis}: {low} of {count}");
            }
        }
    }

    /// What makes a set of WSP: kept ones are apart, and of what was left out each is near one that was kept.
    #[test]
    fn kept_points_are_apart_and_leave_no_hole() {
        let mut rng = Rng::new(3);
        for dimensions in 1..=4 {
            let candidates: Vec<Vec<f64>> =
                (0..600).map(|_| (0..dimensions).map(|_| rng.unit()).collect()).collect();
            for least in [0.01, 0.04, 0.2] {
                let kept = keep(&candidates, least);
                assert!(kept.iter().all(|place| candidates.contains(place)));
                assert!(least_distance(&kept) >= f64::sqrt(least) - 1e-12, "{dimensions} dimensions");
                let covered =
                    |place: &Vec<f64>| kept.iter().any(|near| near == place || squared(near, place) < least);
                assert!(candidates.iter().all(covered), "{dimensions} dimensions, {least}");
                // The first is the one nearest to the centre.
                let from_centre = |place: &Vec<f64>| squared(place, &vec![0.5; dimensions]);
                let nearest = candidates.iter().map(from_centre).fold(f64::INFINITY, f64::min);
                assert_eq!(from_centre(&kept[0]).to_bits(), nearest.to_bits());
            }
        }
    }

    /// Points left out at the end would leave a hole.
    #[test]
    fn few_points_are_left_out_at_the_end() {
        for (dimensions, count) in [(2, 95), (3, 30), (3, 95), (3, 200)] {
            let places = space_filling(dimensions, count);
            let mut rng = Rng::new(11);
            let apart = least_distance(&places);
            for _ in 0..500 {
                let any: Vec<f64> = (0..dimensions).map(|_| rng.unit()).collect();
                let near =
                    places.iter().map(|place| squared(place, &any)).fold(f64::INFINITY, f64::min).sqrt();
                assert!(
                    near < 1.5 * apart,
                    "{dimensions} dimensions: {any:?} is {near} from all of {count}, which are {apart} apart"
                );
            }
        }
    }

    #[test]
    fn equal_arguments_give_equal_designs() {
        assert_eq!(space_filling(3, 30), space_filling(3, 30));
        assert!(space_filling(3, 0).is_empty());
        assert_eq!(space_filling(2, 1).len(), 1);
    }
}
