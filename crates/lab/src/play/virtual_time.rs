use quickset_base::Time;
use quickset_sim::{Livelock, NodeId, World, address};

use super::actor::{self, Credentials};
use super::{FlowSeen, Seen, Setting};

/// Why a run came to no end in virtual time.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// An error of ours.
    #[error("the simulation stands still: {0}")]
    Livelock(#[from] Livelock),
}

/// Plays a setting in virtual time: equal seeds see equal things.
///
/// # Errors
/// When a machine never sleeps.
pub fn virtually(setting: &Setting, seed: u64) -> Result<Seen, PlayError> {
    let mut world = World::new(seed);
    let links = (world.add_link(setting.up.clone()), world.add_link(setting.down.clone()));
    let mut pairs: Vec<(NodeId, NodeId)> = Vec::new();
    for (n, flow) in setting.flows.iter().enumerate() {
        let [near, far] = [2 * n + 1, 2 * n + 2].map(|n| address(u16::try_from(n).unwrap_or(u16::MAX)));
        let (client, server) = actor::pair(flow, &Credentials::null(seed), seed, n as u64, far);
        let ends = (world.add(&flow.name, near, client), world.add(&flow.name, far, server));
        world.route(near, far, links.0);
        world.route(far, near, links.1);
        pairs.push(ends);
    }
    let limit = Time::ZERO + setting.limit;
    let clients: Vec<NodeId> = pairs.iter().map(|pair| pair.0).collect();
    world.run_until(limit, |world| clients.iter().all(|id| world.node(*id).is_done()))?;
    let ended = world.now().since(Time::ZERO);
    let flows = pairs.into_iter().map(|(near, far)| {
        let mut seen = FlowSeen::default();
        world.node_mut(far).tell(&mut seen);
        world.node_mut(near).tell(&mut seen);
        seen
    });
    let flows = flows.collect();
    Ok(Seen { flows, up: world.counts(links.0), down: world.counts(links.1), ended })
}
