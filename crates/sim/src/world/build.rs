//! What a world is made of, and what changes it.

use core::time::Duration;
use std::io::{self, Write};
use std::net::SocketAddr;

use quickset_base::Machine;

use super::{NodeId, World};
use crate::cpu::{Core, Cpu};
use crate::link::Link;
use crate::network::{AgendaWhat, LinkId};
use crate::node::WorldNode;
use crate::pcap::{Pcap, Point};
use crate::spec::LinkSpec;
use crate::timeline::{LinkWay, Timeline};
use crate::trace::Trace;

impl<M: Machine> World<M> {
    /// Adds a node that is reached at `address`. The name is for error messages.
    ///
    /// # Panics
    /// When another node has the address.
    pub fn add(&mut self, name: &str, address: SocketAddr, machine: M) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes"));
        self.network.add_host(address, id);
        self.nodes.push(WorldNode::new(name, address, machine));
        self.mark_ready(id);
        id
    }

    /// Gives a node another address, after those that it has: what it sends without naming a local
    /// address leaves from the first that has a way to the destination.
    ///
    /// # Panics
    /// When another node has the address.
    pub fn add_address(&mut self, node: NodeId, address: SocketAddr) {
        self.network.add_host(address, node);
        self.nodes[node.index()].addresses.push(address);
    }

    /// Joins two addresses by a link each way; returns the links, `up` first. In a world that has no other
    /// links, the n-th pair draws its randomness as directions 2n and 2n + 1 of the seed.
    ///
    /// # Panics
    /// When an address belongs to no node.
    pub fn join(&mut self, a: SocketAddr, b: SocketAddr, up: LinkSpec, down: LinkSpec) -> (LinkId, LinkId) {
        let links = (self.add_link(up), self.add_link(down));
        self.route(a, b, links.0);
        self.route(b, a, links.1);
        links
    }

    /// Makes a link that no route takes yet; the n-th draws its randomness as direction n of the seed.
    pub fn add_link(&mut self, spec: LinkSpec) -> LinkId {
        let direction = self.network.links.len() as u64;
        self.network.add_link(Link::new(spec, self.seed, direction))
    }

    /// Lets packets from one address to another take `link`, which several routes may share (a common
    /// bottleneck).
    ///
    /// # Panics
    /// When an address belongs to no node.
    pub fn route(&mut self, from: SocketAddr, to: SocketAddr, link: LinkId) {
        self.route_through(from, to, &[link]);
    }

    /// Lets packets from one address to another take `links` one after the other, in place of the way that
    /// they took before. What is under way stays on the old one.
    ///
    /// # Panics
    /// When an address belongs to no node, or there is no link.
    pub fn route_through(&mut self, from: SocketAddr, to: SocketAddr, links: &[LinkId]) {
        self.network.add_route(from, to, links);
    }

    /// Gives a node a network card of its own: a link that everything it sends takes before its route,
    /// beginning with what leaves it from now on. With a rate, the segments of a batch come to the first
    /// link of the route spaced at that rate; without a card they come there at once.
    pub fn nic(&mut self, node: NodeId, spec: LinkSpec) -> LinkId {
        let link = self.add_link(spec);
        self.network.set_nic(node, link);
        link
    }

    /// Lets the work of a node take time.
    pub fn cpu(&mut self, node: NodeId, cpu: Cpu) {
        match &mut self.nodes[node.index()].core {
            Some(core) => core.change(cpu),
            core => *core = Some(Box::new(Core::new(cpu))),
        }
    }

    /// Renames an address, as a NAT that lost its binding does: the others see packets come from `new` and
    /// reach the node there, and the node itself notices nothing. What is under way arrives as it was sent.
    ///
    /// # Panics
    /// When no node is known as `old`, or another one as `new`.
    pub fn rebind(&mut self, old: SocketAddr, new: SocketAddr) {
        self.network.rename(old, new);
    }

    /// Takes an address from its node and gives it `new` in its place, with these ways and no others (a
    /// laptop that goes from one network to another). What is under way to the old address is lost in the
    /// end and counted as [`stranded`](Self::stranded); what was sent from there goes on.
    ///
    /// The node is polled; to tell its machine is the caller's part, since a driver's verbs differ.
    ///
    /// # Panics
    /// When no node is known as `old`, another one as `new`, or a way's ends belong to no node.
    pub fn change_interface(&mut self, old: SocketAddr, new: SocketAddr, ways: &[LinkWay]) {
        let (id, inside) = self.network.readdress(old, new);
        for address in &mut self.nodes[id.index()].addresses {
            if *address == inside {
                *address = new;
            }
        }
        for way in ways {
            self.route_through(way.from, way.to, &way.links);
        }
        self.mark_ready(id);
    }

    /// Lets a node sleep for a while, as a closed laptop does: what reaches it meanwhile is lost and counted
    /// as [`missed`](Self::missed), what it wanted to send later waits, and its timers come late.
    pub fn suspend(&mut self, node: NodeId, pause: Duration) {
        let until = self.now + pause;
        let sleeper = &mut self.nodes[node.index()];
        sleeper.asleep_until = sleeper.asleep_until.max(until);
        sleeper.busy_until = sleeper.busy_until.max(until);
        self.network.enter(until, AgendaWhat::Resume(node));
    }

    /// Lets these things happen at their times, or now if those have passed.
    ///
    /// # Panics
    /// Then, when an address or a node is not there.
    pub fn play(&mut self, timeline: Timeline) {
        for (time, happening) in timeline.into_happenings() {
            let number = u32::try_from(self.happenings.len()).expect("fewer than 2^32 happenings");
            self.happenings.push(Some(happening));
            self.network.enter(time.max(self.now), AgendaWhat::Happen(number));
        }
    }

    /// Lets a node receive in larger batches: what arrives is held back until `interval` after the
    /// first packet (as network cards do). Zero, the default, hands over what arrives at one instant.
    pub fn coalesce(&mut self, node: NodeId, interval: Duration) {
        self.nodes[node.index()].coalesce = interval;
    }

    /// How often a node may be polled at one instant before the run ends in a
    /// [`Livelock`](crate::Livelock).
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

    /// Writes the packets that pass a point from now on as a pcap file, while they do; see [`Pcap`].
    ///
    /// # Errors
    /// When the file's header cannot be written.
    pub fn capture(&mut self, point: Point, out: impl Write + Send + 'static) -> io::Result<()> {
        let pcap = Pcap::new(Box::new(out) as Box<dyn Write + Send>)?;
        self.network.captures.add(point, pcap);
        Ok(())
    }

    /// Ends all captures and flushes their files.
    ///
    /// # Errors
    /// The first that any of them met; after an error a capture writes nothing more.
    pub fn finish_captures(&mut self) -> io::Result<()> {
        self.network.captures.finish()
    }
}
