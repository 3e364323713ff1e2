use std::sync::Mutex;

use super::tone::pure_share;

/// For how much of the time there is a tone, from its first to its last.
#[derive(Default)]
pub(crate) struct Purity(Mutex<Stretches>);

/// Of 10 ms.
#[derive(Default)]
struct Stretches {
    pure: u64,
    /// Between those.
    other: u64,
    /// Behind the last that was pure: not counted before there is another.
    since: u64,
}

impl Purity {
    /// The next 10 ms.
    pub(crate) fn count(&self, samples: &[i16]) {
        let samples: Vec<f64> = samples.iter().map(|&sample| f64::from(sample)).collect();
        let mut stretches = self.0.lock().unwrap();
        if pure_share(&samples) > 0.5 {
            stretches.pure += 1;
            stretches.other += std::mem::take(&mut stretches.since);
        } else if stretches.pure > 0 {
            stretches.since += 1;
        }
    }

    /// The share.
    pub(crate) fn share(&self) -> f64 {
        let stretches = self.0.lock().unwrap();
        stretches.pure as f64 / (stretches.pure + stretches.other).max(1) as f64
    }
}
