//! Whether what is heard is a tone.

use quickset_base::number::Unsigned as _;

/// Of stretches of 10 ms of samples of 48 kHz, the share of those that are a tone of 1 kHz and little else,
/// by correlation with it.
pub(crate) fn pure_share(heard: &[f64]) -> f64 {
    let is_pure = |stretch: &[f64]| {
        let angle = |n: usize| n.approx() * std::f64::consts::TAU / 48.0;
        let cos: f64 = stretch.iter().enumerate().map(|(n, x)| x * angle(n).cos()).sum();
        let sin: f64 = stretch.iter().enumerate().map(|(n, x)| x * angle(n).sin()).sum();
        let energy: f64 = stretch.iter().map(|x| x * x).sum();
        energy > 1e6 && (cos * cos + sin * sin) * 2.0 / stretch.len().approx() > 0.9 * energy
    };
    let stretches = heard.chunks_exact(480);
    let count = stretches.len().approx();
    stretches.filter(|stretch| is_pure(stretch)).count().approx() / count
}
