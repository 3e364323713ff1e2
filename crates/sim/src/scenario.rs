use core::fmt;
use core::time::Duration;

use quickset_base::{Machine, Time};

use crate::seeds::SEED_VARIABLE;
use crate::spec::LinkSpec;
use crate::trace::Trace;
use crate::world::{Livelock, RunEnded, World, address};

/// Two nodes and what is between them, as data: `[node, link, node]`.
///
/// The left node is at `address(1)` and sends over `up`, the right one at `address(2)` and sends over `down`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// For failures.
    pub name: &'static str,
    /// From left to right.
    pub up: LinkSpec,
    /// From right to left.
    pub down: LinkSpec,
    /// The virtual time within which all goals have to hold.
    pub limit: Duration,
}

/// What a scenario has to reach: a name for failures, and how to tell.
pub type ScenarioGoal<'a, M> = (&'a str, &'a dyn Fn(&World<M>) -> bool);

impl Scenario {
    /// Both directions alike, with a minute to reach the goals.
    pub fn new(name: &'static str, link: LinkSpec) -> Self {
        Self { name, up: link.clone(), down: link, limit: Duration::from_secs(60) }
    }

    /// The world before anything happened.
    pub fn world<M: Machine>(&self, seed: u64, [left, right]: [M; 2]) -> World<M> {
        let mut world = World::new(seed);
        world.add("left", address(1), left);
        world.add("right", address(2), right);
        world.join(address(1), address(2), self.up.clone(), self.down.clone());
        world.trace(Trace::digest_only());
        world
    }

    /// Runs until all goals hold at once; returns the world as it then is, traced as a digest. Events
    /// are for the machines themselves: one that reports any has to be run by [`World::next`].
    pub fn run<M: Machine>(
        &self,
        seed: u64,
        nodes: [M; 2],
        goals: &[ScenarioGoal<'_, M>],
    ) -> Result<World<M>, Box<ScenarioFailure>> {
        let mut world = self.world(seed, nodes);
        let ended =
            world.run_until(Time::ZERO + self.limit, |world| goals.iter().all(|(_, holds)| holds(world)));
        if ended == Ok(RunEnded::Goal) {
            return Ok(world);
        }
        let missed = goals.iter().filter(|(_, holds)| !holds(&world)).map(|(name, _)| (*name).to_owned());
        let missed = missed.collect();
        Err(Box::new(ScenarioFailure { scenario: self.clone(), seed, at: world.now(), ended, missed }))
    }

    /// Runs and panics with the [`ScenarioFailure`], for tests.
    ///
    /// # Panics
    /// When a goal was missed.
    pub fn check<M: Machine>(&self, seed: u64, nodes: [M; 2], goals: &[ScenarioGoal<'_, M>]) -> World<M> {
        self.run(seed, nodes, goals).unwrap_or_else(|failure| panic!("{failure}"))
    }
}

/// A scenario that did not reach its goals; its text tells how to see it again.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioFailure {
    /// Which.
    pub scenario: Scenario,
    /// The seed of the links.
    pub seed: u64,
    /// When it ended.
    pub at: Time,
    /// How it ended.
    pub ended: Result<RunEnded, Livelock>,
    /// The names of the goals that did not hold then.
    pub missed: Vec<String>,
}

impl fmt::Display for ScenarioFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario: Scenario { name, up, down, .. }, seed, at, ended, missed } = self;
        let missed = missed.join(", ");
        write!(f, "scenario {name} (up: {up}; down: {down}) missed [{missed}]: ")?;
        match ended {
            Ok(RunEnded::Goal) => write!(f, "all goals held at {at}")?,
            Ok(RunEnded::Limit) => write!(f, "the time was up at {at}")?,
            Ok(RunEnded::Idle) => write!(f, "nothing was left to do at {at}")?,
            Err(livelock) => write!(f, "{livelock}")?,
        }
        write!(f, "; replay it with {SEED_VARIABLE}={seed}")
    }
}

impl core::error::Error for ScenarioFailure {}
