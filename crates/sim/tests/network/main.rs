//! Networks: routes of several links, other people's traffic, what happens from outside, what work costs,
//! and files of packets.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

#[path = "../common/mod.rs"]
mod common;

mod cpu;
mod cross;
mod happenings;
mod hops;
mod nic;
mod pcap;

use quickset_base::{Machine, Time};
use quickset_sim::{LinkId, LinkSpec, NodeId, World, address};

fn spec(text: &str) -> LinkSpec {
    text.parse().expect("a link")
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

fn us(n: u64) -> Time {
    Time::from_micros(n)
}

/// A world of two with the same link each way; the left one is at `address(1)`.
fn pair<M: Machine>(seed: u64, link: &str, left: M, right: M) -> (World<M>, [NodeId; 2], [LinkId; 2]) {
    let mut world = World::new(seed);
    let nodes = [world.add("left", address(1), left), world.add("right", address(2), right)];
    let (up, down) = world.join(address(1), address(2), spec(link), spec(link));
    (world, nodes, [up, down])
}
