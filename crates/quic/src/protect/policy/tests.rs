mod adaptive;
mod blocks;
mod names;
mod placement;

use quickset_base::{Duration, Time};

use super::{
    Boundary, Carried, CodingScene, LaneConfig, PathLoss, Pattern, PlayedCode, Protection, ReliabilityPolicy,
};

fn policy(name: &str) -> Box<dyn ReliabilityPolicy> {
    name.parse::<Protection>().unwrap().policy().unwrap()
}

fn repair(n: u32) -> Pattern {
    Pattern::Repair { lane: 0, n }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
