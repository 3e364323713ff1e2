use core::ops::Range;
use std::net::SocketAddr;

use quickset_base::Machine;

use crate::network::LinkId;
use crate::spec::LinkSpec;
use crate::world::{NodeId, World, address};

/// Pairs of nodes that share a chain of bottlenecks, as data; [`build`](Self::build) makes a world of it.
///
/// Each node has an access link of its own. Packets of a pair go over the left access link, the bottlenecks
/// that the pair spans, and the right access link; those from right to left the same way back.
///
/// ```
/// use quickset_sim::{Either, LinkSpec, TrafficPace, TrafficSink, TrafficSource, Topology, PacketTraffic};
/// # use quickset_base::{Duration, Time};
/// let access: LinkSpec = "rate=1gbit delay=1ms".parse()?;
/// let topology = Topology::dumbbell(2, access, "rate=10mbit delay=20ms queue=50kB".parse()?);
/// let traffic = |to| PacketTraffic::new(to, 1250, TrafficPace::constant(8_000_000));
/// let (mut world, layout) = topology.build(1, |place| {
///     if place.left {
///         Either::Left(TrafficSource::new(traffic(place.peer), 1))
///     } else {
///         Either::Right(TrafficSink::new(Duration::from_secs(1)))
///     }
/// });
/// world.run(Time::from_millis(1000))?;
/// assert!(world.counts(layout.bottlenecks[0].0).overflowed > 0, "16 Mbit/s do not go into 10");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The pairs.
    pub pairs: Vec<NodePair>,
    /// The chain, from left to right.
    pub bottlenecks: Vec<Duplex>,
}

/// Two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePair {
    /// The access link of the left node, `up` from the node into the network.
    pub left: Duplex,
    /// The access link of the right node, `up` from the network to the node (the direction of all `up`s).
    pub right: Duplex,
    /// Which bottlenecks lie between them, counted from the left.
    pub span: Range<usize>,
}

/// A link each way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Duplex {
    /// From left to right.
    pub up: LinkSpec,
    /// From right to left.
    pub down: LinkSpec,
}

impl Duplex {
    /// Both directions alike.
    pub fn both(spec: LinkSpec) -> Self {
        Self { up: spec.clone(), down: spec }
    }
}

/// The place of a node in a [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// Which pair.
    pub pair: usize,
    /// True for the left node.
    pub left: bool,
    /// Its address: `address(2 * pair + 1)` on the left, one more on the right.
    pub address: SocketAddr,
    /// That of the other one.
    pub peer: SocketAddr,
}

/// What is where in the world that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldLayout {
    /// The nodes of each pair, left and right.
    pub nodes: Vec<(NodeId, NodeId)>,
    /// The access links of each pair, left and right, each up and down.
    pub access: Vec<[(LinkId, LinkId); 2]>,
    /// The bottlenecks, each up and down.
    pub bottlenecks: Vec<(LinkId, LinkId)>,
}

impl Topology {
    /// `n` pairs over one bottleneck, all links alike in both directions.
    pub fn dumbbell(n: usize, access: LinkSpec, bottleneck: LinkSpec) -> Self {
        let access = Duplex::both(access);
        let pair = NodePair { left: access.clone(), right: access, span: 0..1 };
        Self { pairs: vec![pair; n], bottlenecks: vec![Duplex::both(bottleneck)] }
    }

    /// A parking lot: pair 0 goes over all of the bottlenecks, and over each of them goes one pair more.
    pub fn parking_lot(access: LinkSpec, bottlenecks: Vec<LinkSpec>) -> Self {
        let access = Duplex::both(access);
        let pair = |span| NodePair { left: access.clone(), right: access.clone(), span };
        let long = pair(0..bottlenecks.len());
        let crossing = (0..bottlenecks.len()).map(|i| pair(i..i + 1));
        Self {
            pairs: core::iter::once(long).chain(crossing).collect(),
            bottlenecks: bottlenecks.into_iter().map(Duplex::both).collect(),
        }
    }

    /// Makes a world of it, with the machines that `machine` gives for each place: pair by pair, left first.
    ///
    /// Links draw their randomness in the order bottlenecks, then access links pair by pair, left then
    /// right, always up before down: another pair does not change the losses of those before it.
    ///
    /// # Panics
    /// When a pair spans bottlenecks that are not there, or there are more than 32,767 pairs.
    pub fn build<M: Machine>(
        &self,
        seed: u64,
        mut machine: impl FnMut(NodePlace) -> M,
    ) -> (World<M>, WorldLayout) {
        let mut world = World::new(seed);
        let mut layout = WorldLayout { nodes: Vec::new(), access: Vec::new(), bottlenecks: Vec::new() };
        layout.bottlenecks = self.bottlenecks.iter().map(|duplex| links(&mut world, duplex)).collect();
        for (pair, NodePair { left, right, span }) in self.pairs.iter().enumerate() {
            let number = |n| address(u16::try_from(n).expect("at most 32,767 pairs"));
            let [a, b] = [2 * pair + 1, 2 * pair + 2].map(number);
            let here = NodePlace { pair, left: true, address: a, peer: b };
            let there = NodePlace { pair, left: false, address: b, peer: a };
            let near = world.add(&format!("left{pair}"), a, machine(here));
            let far = world.add(&format!("right{pair}"), b, machine(there));
            let access = [links(&mut world, left), links(&mut world, right)];
            let chain = &layout.bottlenecks[span.clone()];
            let up: Vec<LinkId> = [access[0].0]
                .into_iter()
                .chain(chain.iter().map(|link| link.0))
                .chain([access[1].0])
                .collect();
            let back = chain.iter().rev().map(|link| link.1);
            let down: Vec<LinkId> = [access[1].1].into_iter().chain(back).chain([access[0].1]).collect();
            world.route_through(a, b, &up);
            world.route_through(b, a, &down);
            layout.nodes.push((near, far));
            layout.access.push(access);
        }
        (world, layout)
    }
}

fn links<M: Machine>(world: &mut World<M>, duplex: &Duplex) -> (LinkId, LinkId) {
    (world.add_link(duplex.up.clone()), world.add_link(duplex.down.clone()))
}
