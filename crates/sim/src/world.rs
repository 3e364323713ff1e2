use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use quickset_base::{Batch, Datagram, Input, Machine, Poll, Reason, Time};

use crate::link::{Counts, Link};
use crate::network::{LinkId, Network, What};
use crate::spec::LinkSpec;
use crate::trace::Trace;

/// Machines, joined by links, in virtual time.
///
/// How a run goes:
///
/// 1. [`add`](Self::add) nodes and [`join`](Self::join) their addresses. Each node is polled once at time zero.
/// 2. [`next`](Self::next) goes on to the next thing worth telling, [`run_until`](Self::run_until) repeats
///    that until a goal holds. Time stands still in between.
/// 3. At each instant a node first takes what it received (all of it in one batch), then its timer if it
///    is still due, and is then polled until it sleeps. Nodes take their turns in the order in which
///    something happened to them; what happens at one time happens in the order of its cause. So equal
///    seeds give equal runs.
/// 4. When a machine reports an event, the run pauses, so that [`node_mut`](Self::node_mut) can be used
///    to collect it. A node reached that way is polled again before anything else.
#[derive(Debug)]
pub struct World<M> {
    seed: u64,
    now: Time,
    nodes: Vec<Node<M>>,
    // Who has to be polled at this instant.
    ready: VecDeque<NodeId>,
    // True when something happened since the last pause.
    stirred: bool,
    patience: u32,
    network: Network,
    batch: Batch,
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

#[derive(Debug)]
struct Node<M> {
    name: String,
    machine: M,
    addresses: Vec<SocketAddr>,
    inbox: Vec<Datagram>,
    coalesce: Duration,
    // What is in the inbox waits for its flush.
    holding: bool,
    ready: bool,
    // What the machine asked for, and the earliest entry of the agenda that stands for it.
    wake: Option<Time>,
    reason: Reason,
    scheduled: Option<Time>,
    received: u64,
    // Polls at one instant, against machines that never sleep.
    polls: u32,
    polled_at: Time,
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
pub enum Ended {
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
        }
    }

    /// Adds a node that is reached at `address`. The name is for error messages.
    pub fn add(&mut self, name: &str, address: SocketAddr, machine: M) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes"));
        self.nodes.push(Node {
            name: name.to_owned(),
            machine,
            addresses: vec![address],
            inbox: Vec::new(),
            coalesce: Duration::ZERO,
            holding: false,
            ready: false,
            wake: None,
            reason: Reason::Idle,
            scheduled: None,
            received: 0,
            polls: 0,
            polled_at: Time::ZERO,
        });
        self.mark_ready(id);
        id
    }

    /// Gives a node another address, after those that it has: what it sends without naming a local
    /// address leaves from the first that has a way to the destination.
    pub fn add_address(&mut self, node: NodeId, address: SocketAddr) {
        self.nodes[node.index()].addresses.push(address);
    }

    /// Joins two addresses by a link each way; returns the links, `up` first. The n-th pair of a world
    /// draws its randomness as directions 2n and 2n + 1 of the seed.
    ///
    /// # Panics
    /// When an address belongs to no node.
    pub fn join(&mut self, a: SocketAddr, b: SocketAddr, up: LinkSpec, down: LinkSpec) -> (LinkId, LinkId) {
        let links = (self.add_link(up), self.add_link(down));
        self.route(a, b, links.0);
        self.route(b, a, links.1);
        links
    }

    /// Makes a link that no route takes yet.
    pub fn add_link(&mut self, spec: LinkSpec) -> LinkId {
        let direction = self.network.links.len() as u64;
        self.network.add_link(Link::new(spec, self.seed, direction))
    }

    /// Lets packets from one address to another take `link`, which several routes may share (a common
    /// bottleneck).
    ///
    /// # Panics
    /// When `to` belongs to no node.
    pub fn route(&mut self, from: SocketAddr, to: SocketAddr, link: LinkId) {
        let owner = self.nodes.iter().position(|node| node.addresses.contains(&to));
        let owner = owner.unwrap_or_else(|| panic!("no node has the address {to}"));
        self.network.add_route(from, to, link, NodeId(owner as u32));
    }

    /// Renames an address of a node, as a NAT that lost its binding does: the others see packets come
    /// from `new` and reach the node there. What is under way arrives as it was sent.
    pub fn rebind(&mut self, old: SocketAddr, new: SocketAddr) {
        for address in self.nodes.iter_mut().flat_map(|node| &mut node.addresses) {
            if *address == old {
                *address = new;
            }
        }
        self.network.rename(old, new);
    }

    /// Lets a node receive in larger batches: what arrives is held back until `interval` after the
    /// first packet (as network cards do). Zero, the default, hands over what arrives at one instant.
    pub fn coalesce(&mut self, node: NodeId, interval: Duration) {
        self.nodes[node.index()].coalesce = interval;
    }

    /// How often a node may be polled at one instant before the run ends in a [`Livelock`].
    pub fn patience(&mut self, polls: u32) {
        self.patience = polls;
    }

    /// Records all packets from now on.
    pub fn trace(&mut self, trace: Trace) {
        self.network.trace = Some(trace);
    }

    /// Ends the recording and returns it.
    pub fn take_trace(&mut self) -> Option<Trace> {
        self.network.trace.take()
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
    ) -> Result<Ended, Livelock> {
        if goal(self) {
            return Ok(Ended::Goal);
        }
        loop {
            match self.next(limit)? {
                Pause::Event(_) | Pause::Quiet if goal(self) => return Ok(Ended::Goal),
                Pause::Event(_) | Pause::Quiet => {}
                Pause::Limit => return Ok(Ended::Limit),
                Pause::Idle => return Ok(Ended::Idle),
            }
        }
    }

    /// Runs until the limit or the end.
    pub fn run(&mut self, limit: Time) -> Result<Ended, Livelock> {
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

    /// Datagrams that a node was given.
    pub fn received(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].received
    }

    /// When a node wants to be woken, and why it sleeps.
    pub fn sleep(&self, node: NodeId) -> (Option<Time>, Reason) {
        let node = &self.nodes[node.index()];
        (node.wake, node.reason)
    }

    /// What happened on a link.
    pub fn counts(&self, link: LinkId) -> Counts {
        self.network.links[link.index()].counts()
    }

    /// A link, to change it under way or ask for its backlog.
    pub fn link_mut(&mut self, link: LinkId) -> &mut Link {
        if self.network.links[link.index()].waiting() > 0 {
            // What waits may go on earlier than was thought.
            self.network.enter(self.now, What::Tell(link));
        }
        &mut self.network.links[link.index()]
    }

    /// Packets that wait in a link or have passed it, and have not yet arrived (copies count); in linear time.
    pub fn in_flight(&self, link: LinkId) -> u64 {
        self.network.in_flight(link)
    }

    /// Packets sent to where no route leads.
    pub fn unrouted(&self) -> u64 {
        self.network.unrouted
    }

    fn mark_ready(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if !node.ready {
            node.ready = true;
            self.ready.push_back(id);
        }
    }

    /// Takes everything that is due now off the agenda.
    fn collect_due(&mut self) {
        while let Some(what) = self.network.next_due(self.now) {
            match what {
                What::Arrive(parcel) => {
                    let (id, datagram) = self.network.arrive(parcel);
                    let node = &mut self.nodes[id.index()];
                    node.inbox.push(datagram);
                    node.received += 1;
                    if node.coalesce.is_zero() {
                        self.mark_ready(id);
                    } else if node.inbox.len() == 1 {
                        node.holding = true;
                        self.network.enter(self.now + node.coalesce, What::Flush(id));
                    }
                }
                What::Depart(parcel) => {
                    self.network.depart(self.now, parcel);
                    self.stirred = true;
                }
                What::Tell(link) => self.network.tell(self.now, link),
                What::Flush(id) => {
                    self.nodes[id.index()].holding = false;
                    self.mark_ready(id);
                }
                What::Wake(id) => {
                    if self.wake(id, self.now) {
                        self.mark_ready(id);
                    }
                }
            }
        }
    }

    /// Removes timers that nobody waits for any more from the head of the agenda, so that they do not
    /// move the time.
    fn drop_old_wakes(&mut self) {
        while let (Some(at), Some(What::Wake(id))) = (self.network.next_time(), self.network.peek()) {
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
                self.network.enter(wake, What::Wake(id));
                false
            }
            wake => wake.is_some(),
        }
    }
}

impl<M: Machine> World<M> {
    /// Gives a node what it received and lets it do everything it wants now. True when it has an event.
    fn drive(&mut self, id: NodeId) -> Result<bool, Livelock> {
        let (now, node) = (self.now, &mut self.nodes[id.index()]);
        if node.polled_at != now {
            (node.polled_at, node.polls) = (now, 0);
        }
        let mut timer = node.wake.is_some_and(|wake| wake <= now);
        if !node.inbox.is_empty() && !node.holding {
            node.machine.handle(now, Input::Received(&mut node.inbox));
            node.inbox.clear();
            self.stirred = true;
            // Polling tells whether the timer is still due.
            timer = false;
        }
        loop {
            if timer {
                // Forgotten, so that an event before the next sleep does not bring it again.
                node.wake = None;
                node.machine.handle(now, Input::Timer);
                self.stirred = true;
            }
            let (wake, reason) = loop {
                node.polls += 1;
                let poll = node.machine.poll(now, &mut self.batch);
                if node.polls > self.patience {
                    return Err(Livelock { node: node.name.clone(), at: now, polls: node.polls, last: poll });
                }
                match poll {
                    Poll::Send => {
                        self.network.send(now, &node.addresses, &self.batch);
                        self.batch.clear();
                        self.stirred = true;
                    }
                    Poll::Event => {
                        self.stirred = true;
                        return Ok(true);
                    }
                    Poll::Sleep(wake, reason) => break (wake.filter(|wake| *wake < Time::MAX), reason),
                }
            };
            (node.wake, node.reason) = (wake, reason);
            let Some(wake) = wake else { return Ok(false) };
            timer = wake <= now;
            if !timer {
                if node.scheduled.is_none_or(|scheduled| wake < scheduled) {
                    node.scheduled = Some(wake);
                    self.network.enter(wake, What::Wake(id));
                }
                return Ok(false);
            }
        }
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
