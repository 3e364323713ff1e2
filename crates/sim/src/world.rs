mod build;

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use quickset_base::{Batch, Machine, Poll, Reason, Time};

use crate::cpu::CpuCounts;
use crate::link::{Link, LinkCounts};
use crate::network::{AgendaWhat, LinkId, Network};
use crate::node::{DatagramFate, WorldNode};
use crate::timeline::{Happening, LinkWay};

/// Machines, joined by links, in virtual time.
///
/// How a run goes:
///
/// 1. [`add`](Self::add) nodes and [`join`](Self::join) their addresses. Each node is polled once at time
///    zero.
/// 2. [`next`](Self::next) goes on to the next thing worth telling, [`run_until`](Self::run_until) repeats
///    that until a goal holds. Time stands still in between.
/// 3. At each instant a node first takes what it received (all of it in one batch), then its timer if it
///    is still due, and is then polled until it sleeps. Nodes take their turns in the order in which
///    something happened to them; what happens at one time happens in the order of its cause. So equal
///    seeds give equal runs.
/// 4. When a machine reports an event, the run pauses, so that [`node_mut`](Self::node_mut) can be used
///    to collect it. A node reached that way is polled again before anything else.
/// 5. A node with a [`cpu`](Self::cpu) works in between: it is polled again when it has done so, and takes
///    nothing before it sleeps or has had its turn ([`Cpu::turn`](crate::Cpu::turn)).
///
/// A packet takes the links of its route one after the other, after the [`nic`](Self::nic) of its sender if
/// there is one. What happens to the world from outside is a [`Timeline`](crate::Timeline).
#[derive(Debug)]
pub struct World<M> {
    seed: u64,
    now: Time,
    nodes: Vec<WorldNode<M>>,
    // Who has to be polled at this instant.
    ready: VecDeque<NodeId>,
    // True when something happened since the last pause.
    stirred: bool,
    patience: u32,
    network: Network,
    batch: Batch,
    // What is still to happen, by number, and how much has.
    happenings: Vec<Option<Happening>>,
    happened: usize,
}

/// A node of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// 0 for the first node, and so on.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why [`World::next`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// A machine has an event to collect.
    Event(NodeId),
    /// All machines sleep after something happened.
    Quiet,
    /// The next thing comes after the limit, which is now the time.
    Limit,
    /// Nothing will ever happen again by itself.
    Idle,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnded {
    /// The goal holds.
    Goal,
    /// The time is up.
    Limit,
    /// Nothing will ever happen again by itself.
    Idle,
}

impl<M: Machine> World<M> {
    /// An empty world. The seed is for its links; machines bring their own.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Time::ZERO,
            nodes: Vec::new(),
            ready: VecDeque::new(),
            stirred: false,
            patience: PATIENCE,
            network: Network::default(),
            batch: Batch::new(),
            happenings: Vec::new(),
            happened: 0,
        }
    }

    /// Goes on to the next thing worth telling, at `limit` at the latest (inclusive).
    pub fn next(&mut self, limit: Time) -> Result<Pause, Livelock> {
        loop {
            while let Some(&id) = self.ready.front() {
                if self.drive(id)? {
                    return Ok(Pause::Event(id));
                }
                self.nodes[id.index()].ready = false;
                self.ready.pop_front();
            }
            if self.stirred {
                self.stirred = false;
                return Ok(Pause::Quiet);
            }
            self.drop_old_wakes();
            match self.network.next_time() {
                None => return Ok(Pause::Idle),
                Some(at) if at > limit => {
                    self.now = self.now.max(limit);
                    return Ok(Pause::Limit);
                }
                Some(at) => self.now = self.now.max(at),
            }
            self.collect_due();
        }
    }

    /// Runs until `goal` holds, or the limit, or the end. The goal is asked whenever something happened:
    /// when a machine has an event, and when all sleep.
    pub fn run_until(
        &mut self,
        limit: Time,
        mut goal: impl FnMut(&mut Self) -> bool,
    ) -> Result<RunEnded, Livelock> {
        if goal(self) {
            return Ok(RunEnded::Goal);
        }
        loop {
            match self.next(limit)? {
                Pause::Event(_) | Pause::Quiet if goal(self) => return Ok(RunEnded::Goal),
                Pause::Event(_) | Pause::Quiet => {}
                Pause::Limit => return Ok(RunEnded::Limit),
                Pause::Idle => return Ok(RunEnded::Idle),
            }
        }
    }

    /// Runs until the limit or the end.
    pub fn run(&mut self, limit: Time) -> Result<RunEnded, Livelock> {
        self.run_until(limit, |_| false)
    }

    /// A machine, to call its verbs; it is polled before anything else happens.
    pub fn node_mut(&mut self, node: NodeId) -> &mut M {
        self.mark_ready(node);
        &mut self.nodes[node.index()].machine
    }
}

impl<M> World<M> {
    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The seed of the links.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A machine, to look at.
    pub fn node(&self, node: NodeId) -> &M {
        &self.nodes[node.index()].machine
    }

    /// The nodes in the order in which they were added.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &M)> {
        (0..).map(NodeId).zip(self.nodes.iter().map(|node| &node.machine))
    }

    /// The name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    /// Datagrams that a node was given or that wait for it.
    pub fn received(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].received
    }

    /// Datagrams that reached a node while it was [suspended](Self::suspend).
    pub fn missed(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].missed
    }

    /// What a node's [`cpu`](Self::cpu) did; nothing if it has none.
    pub fn cpu_counts(&self, node: NodeId) -> CpuCounts {
        self.nodes[node.index()].core.as_ref().map_or_else(CpuCounts::default, |core| core.counts())
    }

    /// How many things of its [timelines](crate::Timeline) have happened.
    pub fn happened(&self) -> usize {
        self.happened
    }

    /// When a node wants to be woken, and why it sleeps.
    pub fn sleep(&self, node: NodeId) -> (Option<Time>, Reason) {
        let node = &self.nodes[node.index()];
        (node.wake, node.reason)
    }

    /// What happened on a link.
    pub fn counts(&self, link: LinkId) -> LinkCounts {
        self.network.links[link.index()].counts()
    }

    /// A link, to change it under way or ask for its backlog.
    pub fn link_mut(&mut self, link: LinkId) -> &mut Link {
        if self.network.links[link.index()].waiting() > 0 {
            // What waits may go on earlier than was thought.
            self.network.enter(self.now, AgendaWhat::Tell(link));
        }
        &mut self.network.links[link.index()]
    }

    /// Packets that wait in a link or have passed it, and have not yet arrived (copies count); in linear
    /// time.
    pub fn in_flight(&self, link: LinkId) -> u64 {
        self.network.in_flight(link)
    }

    /// Packets sent to where no route leads.
    pub fn unrouted(&self) -> u64 {
        self.network.unrouted
    }

    /// Packets that came for an address that its node had given up.
    pub fn stranded(&self) -> u64 {
        self.network.stranded
    }

    fn mark_ready(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if !node.ready {
            node.ready = true;
            self.ready.push_back(id);
        }
    }

    /// Removes timers that nobody waits for any more from the head of the agenda, so that they do not
    /// move the time.
    fn drop_old_wakes(&mut self) {
        while let (Some(at), Some(AgendaWhat::Wake(id))) = (self.network.next_time(), self.network.peek()) {
            if self.nodes[id.index()].wake.is_some_and(|wake| wake <= at) {
                return;
            }
            self.network.next_due(at);
            self.wake(id, at);
        }
    }

    /// Judges a timer of the agenda: true when its node is to be woken. Each node has one entry that
    /// counts, at or before the time it asked for; when that comes too early it is entered again. So a
    /// machine that moves its timer back with each packet costs nothing.
    fn wake(&mut self, id: NodeId, at: Time) -> bool {
        let node = &mut self.nodes[id.index()];
        if node.scheduled != Some(at) {
            return false;
        }
        node.scheduled = None;
        match node.wake {
            Some(wake) if wake > at => {
                node.scheduled = Some(wake);
                self.network.enter(wake, AgendaWhat::Wake(id));
                false
            }
            wake => wake.is_some(),
        }
    }
}

impl<M: Machine> World<M> {
    /// Takes everything that is due now off the agenda.
    fn collect_due(&mut self) {
        while let Some(what) = self.network.next_due(self.now) {
            match what {
                AgendaWhat::Arrive(parcel) => {
                    let Some((id, datagram)) = self.network.arrive(self.now, parcel) else { continue };
                    let node = &mut self.nodes[id.index()];
                    match node.accept(self.now, datagram) {
                        DatagramFate::Now => self.mark_ready(id),
                        DatagramFate::Hold => {
                            self.network.enter(self.now + node.coalesce, AgendaWhat::Flush(id));
                        }
                        DatagramFate::Later => {}
                    }
                }
                AgendaWhat::Depart(parcel) => {
                    let source = self.network.source(parcel);
                    match source.map(|id| self.nodes[id.index()].asleep_until) {
                        Some(wakes) if wakes > self.now => {
                            self.network.enter(wakes, AgendaWhat::Depart(parcel));
                        }
                        _ => self.network.depart(self.now, parcel),
                    }
                    self.stirred = true;
                }
                AgendaWhat::Tell(link) => self.network.tell(self.now, link),
                AgendaWhat::Flush(id) => {
                    self.nodes[id.index()].holding = false;
                    self.mark_ready(id);
                }
                AgendaWhat::Wake(id) => {
                    if self.wake(id, self.now) {
                        self.mark_ready(id);
                    }
                }
                AgendaWhat::Resume(id) => self.mark_ready(id),
                AgendaWhat::Happen(number) => {
                    if let Some(happening) = self.happenings[number as usize].take() {
                        self.happen(happening);
                    }
                }
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        (self.happened, self.stirred) = (self.happened + 1, true);
        match happening {
            Happening::Rebind { old, new } => self.rebind(old, new),
            Happening::Interface { old, new, ways } => self.change_interface(old, new, &ways),
            Happening::Route(LinkWay { from, to, links }) => self.route_through(from, to, &links),
            Happening::Suspend { node, pause } => self.suspend(node, pause),
            Happening::Link { link, spec } => self.link_mut(link).change(spec),
        }
    }

    /// Gives a node what it received and lets it do everything it wants now. True when it has an event.
    fn drive(&mut self, id: NodeId) -> Result<bool, Livelock> {
        let (now, node) = (self.now, &mut self.nodes[id.index()]);
        if node.polled_at != now {
            (node.polled_at, node.polls) = (now, 0);
        }
        loop {
            if node.busy_until > now {
                // What resumes it is on the agenda.
                return Ok(false);
            }
            if node.takes() {
                if let Some(work) = node.feed(now) {
                    (node.polling, self.stirred) = (true, true);
                    if node.work(now, work) {
                        self.network.enter(node.busy_until, AgendaWhat::Resume(id));
                        return Ok(false);
                    }
                }
            }
            node.polls += 1;
            let poll = node.machine.poll(now, &mut self.batch);
            if node.polls > self.patience {
                return Err(Livelock { node: node.name.clone(), at: now, polls: node.polls, last: poll });
            }
            match poll {
                Poll::Send => {
                    (node.polling, self.stirred) = (true, true);
                    let work = node.core.as_mut().map_or(Duration::ZERO, |core| core.send(&self.batch));
                    self.network.send(now, now + work, id, &node.addresses, &self.batch);
                    self.batch.clear();
                    if node.work(now, work) {
                        self.network.enter(node.busy_until, AgendaWhat::Resume(id));
                        return Ok(false);
                    }
                }
                Poll::Event => {
                    self.stirred = true;
                    return Ok(true);
                }
                Poll::Sleep(wake, reason) => {
                    node.polling = false;
                    (node.wake, node.reason) = (wake.filter(|wake| *wake < Time::MAX), reason);
                    if !node.has_input(now) {
                        break;
                    }
                }
            }
        }
        if let Some(wake) = node.wake {
            if node.scheduled.is_none_or(|scheduled| wake < scheduled) {
                node.scheduled = Some(wake);
                self.network.enter(wake, AgendaWhat::Wake(id));
            }
        }
        Ok(false)
    }
}

/// A machine was polled again and again and never slept: an error in the machine, or nobody collects
/// its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Livelock {
    /// The name of the node.
    pub node: String,
    /// When.
    pub at: Time,
    /// How often it was polled at that time.
    pub polls: u32,
    /// What it answered last.
    pub last: Poll,
}

impl fmt::Display for Livelock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, at, polls, last } = self;
        write!(f, "{node} does not come to rest: {polls} polls at {at}, the last one answered {last:?}")
    }
}

impl core::error::Error for Livelock {}

/// More packets and events than any honest node has at one instant, and less than a second of waiting.
const PATIENCE: u32 = 1_000_000;

/// An address for the n-th node: 10.0.0.0 plus `n`, port 4433.
pub const fn address(n: u16) -> SocketAddr {
    let [high, low] = n.to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, high, low)), 4433)
}
