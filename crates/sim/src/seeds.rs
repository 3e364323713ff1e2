use std::ops::Range;

/// The environment variable that replays one seed.
pub const SEED_VARIABLE: &str = "QUICKSET_SEED";

/// The seeds that a test runs: `default`, or the one that [`SEED_VARIABLE`] holds.
///
/// # Panics
/// When the variable holds no number, rather than run something else than was asked for.
pub fn seeds(default: Range<u64>) -> Range<u64> {
    match std::env::var(SEED_VARIABLE) {
        Ok(text) => {
            let seed =
                text.trim().parse().unwrap_or_else(|_| panic!("{SEED_VARIABLE}={text} is not a number"));
            seed..seed + 1
        }
        Err(_) => default,
    }
}

/// Runs `test` with each of the [`seeds`]; when it panics, says which seed it was and how to replay it.
pub fn each_seed(default: Range<u64>, mut test: impl FnMut(u64)) {
    for seed in seeds(default) {
        let report = SeedReport(seed);
        test(seed);
        drop(report);
    }
}

/// Speaks only when dropped by a panic.
struct SeedReport(u64);

impl Drop for SeedReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with seed {}; replay it with {}={}", self.0, SEED_VARIABLE, self.0);
        }
    }
}
