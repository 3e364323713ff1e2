use core::time::Duration;

use quickset_base::Rng;

/// A time drawn from the exponential distribution with this mean, in whole nanoseconds.
///
/// John von Neumann's method (Various techniques used in connection with random digits, 1951), which needs
/// comparisons only: no logarithm, whose last bits differ from machine to machine. Draw u1, and go on
/// drawing while each is smaller than the one before. With a descending run of odd length u1 is accepted
/// and the result is u1 plus the number of refusals; that has the density exp(-x). It takes
/// e² / (e - 1) = 4.3 draws at the mean.
pub(crate) fn exponential(rng: &mut Rng, mean: Duration) -> Duration {
    let mean = mean.as_nanos();
    let mut whole = 0;
    loop {
        let first = rng.next();
        let (mut last, mut odd) = (first, true);
        loop {
            let next = rng.next();
            if next >= last {
                break;
            }
            (last, odd) = (next, !odd);
        }
        if odd {
            // mean * (whole + first / 2^64); 2^64 nanoseconds are 584 years, so nothing overflows.
            let mean = u128::from(u64::try_from(mean).unwrap_or(u64::MAX));
            let nanos = whole * mean + ((mean * u128::from(first)) >> 64);
            return Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        }
        whole += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_tail_are_those_of_the_exponential_distribution() {
        let (mut rng, n) = (Rng::new(11), 400_000);
        let mean = Duration::from_secs(1);
        let draws: Vec<f64> = (0..n).map(|_| exponential(&mut rng, mean).as_secs_f64()).collect();
        let n = f64::from(n);
        // The k-th moment is k!, and its estimate has the variance ((2k)! - k!²) / n.
        for (k, moment, second) in [(1, 1.0, 2.0), (2, 2.0, 24.0), (3, 6.0, 720.0)] {
            let estimate = draws.iter().map(|x| x.powi(k)).sum::<f64>() / n;
            let sigma = ((second - moment * moment) / n).sqrt();
            assert!((estimate - moment).abs() < 4.0 * sigma, "moment {k} is {estimate}");
        }
        // Kolmogorov and Smirnov: sqrt(n) times the largest distance stays below 1.95 in 999 of 1000 cases.
        let mut sorted = draws;
        sorted.sort_by(f64::total_cmp);
        let distance =
            sorted.iter().enumerate().map(|(i, x)| ((i as f64 + 0.5) / n - (1.0 - (-x).exp())).abs());
        let largest = distance.fold(0.0, f64::max);
        assert!(largest * n.sqrt() < 1.95, "{}", largest * n.sqrt());
    }

    #[test]
    fn the_ends_of_the_scale() {
        let mut rng = Rng::new(1);
        assert_eq!(exponential(&mut rng, Duration::ZERO), Duration::ZERO);
        for _ in 0..1000 {
            assert!(exponential(&mut rng, Duration::MAX) > Duration::ZERO);
        }
    }
}
