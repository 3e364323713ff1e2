//! A network in virtual time: drives any [`Machine`](quickset_base::Machine) over simulated links.
//!
//! A [`World`] joins machines by pairs of [`Link`]s, each described by a [`LinkSpec`] (rate, constant or
//! recorded, delay, queue and its management, loss, jitter, reordering, corruption, duplication, MTU, and
//! what will happen to them when), and jumps from event to event. Nothing reads a clock, and equal seeds
//! give equal runs, packet by packet, on every machine. A [`Link`] is a function of what is sent when, so
//! a relay in real time can use the same one.
//!
//! ```
//! use quickset_base::{Batch, Duration, Input, Machine, AddressPair, Poll, Reason, Time};
//! use quickset_sim::{RunEnded, LinkSpec, World, address};
//!
//! struct Ping { to: std::net::SocketAddr, balls: u32, returned: u32 }
//!
//! impl Machine for Ping {
//!     fn handle(&mut self, _now: Time, input: Input<'_>) {
//!         if let Input::Received(datagrams) = input {
//!             (self.balls, self.returned) = (self.balls + 1, self.returned + 1);
//!             datagrams.clear();
//!         }
//!     }
//!     fn poll(&mut self, _now: Time, out: &mut Batch) -> Poll {
//!         let Some(balls) = self.balls.checked_sub(1) else { return Poll::Sleep(None, Reason::Idle) };
//!         self.balls = balls;
//!         out.path = AddressPair::to(self.to);
//!         out.space(1250).fill(7);
//!         out.commit(1250);
//!         Poll::Send
//!     }
//! }
//!
//! let mut world = World::new(1);
//! let near = world.add("near", address(1), Ping { to: address(2), balls: 1, returned: 0 });
//! world.add("far", address(2), Ping { to: address(1), balls: 0, returned: 0 });
//! let link: LinkSpec = "rate=100mbit delay=50ms queue=9MB".parse()?;
//! world.join(address(1), address(2), link.clone(), link);
//! let ended = world.run_until(Time::from_millis(5000), |world| world.node(near).returned == 10)?;
//! assert_eq!(ended, RunEnded::Goal);
//! // Twenty times 50 ms and 10,000 bits at 100 Mbit/s.
//! assert_eq!(world.now(), Time::ZERO + Duration::from_micros(20 * 50_100));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Experiments wrap protocol and application into one machine; nodes of several kinds are an [`Either`].
//! Routes may have several links and share them ([`World::route_through`], [`Topology`]); [`TrafficSource`]
//! and [`TrafficSink`] are other people's traffic, a [`Timeline`] is what happens from outside, a [`Cpu`] is
//! what work costs a node, and [`World::capture`] writes packets for Wireshark. [`Scenario`] is `[node, link,
//! node]` with goals for tests, [`seeds`] and [`each_seed`] choose and report seeds.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "numbers in tests are small, or cut on purpose"
    )
)]

mod codel;
mod course;
mod cpu;
mod either;
mod events;
mod exponential;
mod files;
mod jitter;
mod lane;
mod link;
mod loss;
mod marks;
mod network;
mod node;
mod ordinals;
mod pcap;
mod pool;
mod queue;
mod rate;
mod ratetrace;
mod recorded;
mod red;
mod reorder;
mod scenario;
mod seeds;
mod server;
mod spec;
mod timed;
mod timeline;
mod topology;
mod trace;
mod traffic;
pub mod units;
mod world;

pub use codel::CoDel;
pub use cpu::{Cpu, CpuCounts};
pub use either::Either;
pub use events::{Change, LinkEvent, LinkGap};
pub use files::{pinned, recording};
pub use jitter::Jitter;
pub use link::{DropReason, Fate, FlippedBit, Link, LinkCounts, LinkDelivery, SendResult};
pub use loss::{Burst, GilbertElliott, LossModel};
pub use marks::EcnAction;
pub use network::LinkId;
pub use ordinals::Ordinals;
pub use pcap::{CapturedDatagram, Pcap, Point};
pub use queue::{Above, LinkQueue, ThresholdMark};
pub use rate::Rate;
pub use ratetrace::RateTrace;
pub use recorded::LossTrace;
pub use red::Red;
pub use reorder::Reorder;
pub use scenario::{Scenario, ScenarioFailure, ScenarioGoal};
pub use seeds::{SEED_VARIABLE, each_seed, seeds};
pub use spec::LinkSpec;
pub use timed::TimedGilbertElliott;
pub use timeline::{Happening, LinkWay, Timeline};
pub use topology::{Duplex, NodePair, NodePlace, Topology, WorldLayout};
pub use trace::{Trace, TraceRecord};
pub use traffic::{PacketTraffic, SinkFlow, TrafficPace, TrafficSink, TrafficSource};
pub use world::{Livelock, NodeId, Pause, RunEnded, World, address};
