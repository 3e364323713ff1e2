use quickset_base::number::Unsigned as _;
use quickset_base::{Duration, Time};
use quickset_sim::{
    Either, LinkId, Livelock, NodeId, PacketTraffic, Point, TrafficSink, TrafficSource, World, address,
};

use super::actor::{self, Actor, FlowCredentials};
use super::{Cross, FlowSeen, Recording, RunSeen, Setting};

/// Why a run came to no end in virtual time.
#[derive(Debug, thiserror::Error)]
pub enum VirtualTimeError {
    /// An error of ours.
    #[error("the simulation stands still: {0}")]
    Livelock(#[from] Livelock),
    /// A capture cannot be written.
    #[error("the packets cannot be recorded: {0}")]
    Capture(#[from] std::io::Error),
}

/// Plays a setting in virtual time: equal seeds see equal things.
///
/// # Errors
/// When a machine never sleeps.
pub fn virtually(setting: &Setting, seed: u64) -> Result<RunSeen, VirtualTimeError> {
    recorded(setting, seed, None)
}

/// As [`virtually`], with captures of the packets at both ends of each flow.
///
/// # Errors
/// See [`VirtualTimeError`].
pub fn recorded(
    setting: &Setting,
    seed: u64,
    recording: Option<&Recording>,
) -> Result<RunSeen, VirtualTimeError> {
    let mut world = World::new(seed);
    let links = (world.add_link(setting.up.clone()), world.add_link(setting.down.clone()));
    let credentials = FlowCredentials::null(seed);
    let origin = setting.processor.map(|processor| {
        let origin = actor::origin(&setting.flows, &credentials, seed);
        let id = world.add("origin", ORIGIN, FlowNode::Left(origin));
        world.cpu(id, processor);
        id
    });
    let mut pairs: Vec<(NodeId, NodeId)> = Vec::new();
    for (n, flow) in setting.flows.iter().enumerate() {
        let [near, own] = [2 * n + 1, 2 * n + 2].map(|n| address(u16::try_from(n).unwrap_or(u16::MAX)));
        let far = if origin.is_some() { ORIGIN } else { own };
        let client = actor::near(flow, &credentials, seed, n as u64, far);
        let client = world.add(&flow.name, near, FlowNode::Left(client));
        let server = origin.unwrap_or_else(|| {
            world.add(&flow.name, far, FlowNode::Left(actor::far(flow, &credentials, seed, n as u64)))
        });
        world.route(near, far, links.0);
        world.route(far, near, links.1);
        if let Some(recording) = recording {
            world.capture(Point::Node(client), recording.capture(&flow.name, "client")?)?;
            // All that one server sends is in one file.
            if n == 0 || origin.is_none() {
                world.capture(Point::Node(server), recording.capture(&flow.name, "server")?)?;
            }
        }
        pairs.push((client, server));
    }
    for (n, cross) in setting.cross.iter().enumerate() {
        add_cross(&mut world, links.1, seed, n.saturated::<u16>(), cross);
    }
    let limit = Time::ZERO + setting.limit;
    let clients: Vec<NodeId> = pairs.iter().map(|pair| pair.0).collect();
    world.run_until(limit, |world| {
        clients.iter().all(|id| world.node(*id).left().is_some_and(Actor::is_done))
    })?;
    world.finish_captures()?;
    let ended = world.now().since(Time::ZERO);
    let flows = pairs.into_iter().enumerate().map(|(n, (near, far))| {
        let mut seen = FlowSeen::default();
        for end in [far, near] {
            if let FlowNode::Left(actor) = world.node_mut(end) {
                actor.tell(n, &mut seen);
            }
        }
        seen
    });
    let flows = flows.collect();
    let processor = origin.map(|origin| world.cpu_counts(origin));
    Ok(RunSeen { flows, up: world.counts(links.0), down: world.counts(links.1), processor, ended })
}

/// The ends of flows, and those of others.
type FlowNode = Either<Actor, Either<TrafficSource, TrafficSink>>;

/// Lets others send over `link`, the n-th of them.
fn add_cross(world: &mut World<FlowNode>, link: LinkId, seed: u64, n: u16, cross: &Cross) {
    let [near, far] = [2 * n, 2 * n + 1].map(|n| address(FIRST_CROSS + n));
    let traffic = PacketTraffic::new(near, (cross.bytes as usize).max(PacketTraffic::LEAST), cross.pace);
    // Of their own seed, so that they come at the same times whoever they meet.
    let source = TrafficSource::new(traffic, seed ^ CROSS.wrapping_mul(u64::from(n) + 1));
    world.add("others", far, Either::Right(Either::Left(source)));
    world.add("others", near, Either::Right(Either::Right(TrafficSink::new(Duration::from_secs(1)))));
    world.route(far, near, link);
}

/// The server of all flows.
const ORIGIN: std::net::SocketAddr = address(0x7fff);
/// Addresses of flows are below.
const FIRST_CROSS: u16 = 0x8000;
const CROSS: u64 = 0x6372_6f73_7300_0001;
