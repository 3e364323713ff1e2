/// A number with an exponential distribution and this mean, rounded down: by von Neumann's comparisons
/// (1951), which need no logarithm and so give the same on every machine. About 4.3 draws of 64 random bits.
///
/// A falling run of draws that begins with x has an odd length with probability e^-x, which is the density
/// to be had below 1; each run of even length stands for a whole one more.
pub(crate) fn exponential(mean: u64, mut draw: impl FnMut() -> u64) -> u64 {
    let mut whole = 0u64;
    loop {
        let first = draw();
        let (mut last, mut odd) = (first, true);
        loop {
            let next = draw();
            if next >= last {
                break;
            }
            (last, odd) = (next, !odd);
        }
        if odd {
            let part = (u128::from(mean) * u128::from(first)) >> 64;
            return whole.saturating_mul(mean).saturating_add(part as u64);
        }
        whole += 1;
    }
}

#[cfg(test)]
mod tests {
    use quickset_base::Rng;

    use super::*;

    #[test]
    fn moments_and_tails_are_those_of_the_exponential_distribution() {
        const N: u32 = 400_000;
        let mut rng = Rng::new(11);
        let draws: Vec<f64> =
            (0..N).map(|_| exponential(1 << 40, || rng.next()) as f64 / 2f64.powi(40)).collect();
        // E x^k = k!, with variance (2k)! - k!^2; four standard errors each.
        for (k, moment, variance) in [(1, 1.0, 1.0), (2, 2.0, 20.0), (3, 6.0, 684.0), (4, 24.0, 39_744.0f64)]
        {
            let got = draws.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(N);
            assert!((got - moment).abs() < 4.0 * (variance / f64::from(N)).sqrt(), "moment {k}: {got}");
        }
        for x in [0.01, 0.1, 0.5, 0.99, 1.01, 2.0, 5.0, 8.0] {
            let p: f64 = f64::exp(-x);
            let beyond = draws.iter().filter(|draw| **draw > x).count() as f64 / f64::from(N);
            assert!((beyond - p).abs() < 4.0 * (p * (1.0 - p) / f64::from(N)).sqrt(), "beyond {x}: {beyond}");
        }
    }

    #[test]
    fn ends_of_the_scale() {
        let mut draws = [u64::MAX, 5, 7, u64::MAX, u64::MAX].into_iter();
        // A run of two, hence one whole mean; then a run of one.
        assert_eq!(exponential(u64::MAX, || draws.next().unwrap()), u64::MAX);
        assert_eq!(exponential(0, || 1), 0);
    }
}
