mod grids;
mod names;
mod windows;

use quickset_base::{Duration, Time};
use quickset_quic::policy::{
    Boundary, Carried, CodingScene, PathLoss, Pattern, PlayedCode, ReliabilityPolicy,
};

fn policy(name: &str) -> Box<dyn ReliabilityPolicy> {
    crate::read(name).unwrap().policy().unwrap()
}

fn repair(n: u32) -> Pattern {
    Pattern::Repair { lane: 0, n }
}

/// Losses at this rate, in runs that end so soon and begin as often as single ones would.
fn runs(rate: f64, to_good: f64) -> PathLoss {
    let mut loss = PathLoss::independent(rate);
    loss.to_good = to_good;
    loss
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
