use core::cmp::Reverse;
use core::fmt;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;

use bytes::BytesMut;
use quickset_base::number::Unsigned as _;
use quickset_base::{AddressPair, Batch, Datagram, Ecn, Time};

use crate::link::{Fate, Link, LinkDelivery, SendResult};
use crate::pcap::{CapturedDatagram, Captures, Point};
use crate::pool::PacketPool;
use crate::trace::{Trace, TraceRecord, hash};
use crate::world::NodeId;

/// A link of a world, in the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u32);

impl LinkId {
    /// 0 for the first link, and so on.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link{}", self.0)
    }
}

/// Everything between the nodes: links, routes, and what is going to happen when.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) links: Vec<Link>,
    // Of each link: the packets whose fate is open, and when it is asked next.
    open: Vec<(VecDeque<WaitingInLink>, Option<Time>)>,
    // By what the others call an address.
    hosts: BTreeMap<SocketAddr, Host>,
    routes: Vec<LinkRoute>,
    // The links of all routes, one list behind the other.
    hops: Vec<LinkId>,
    // From (node, its own name for the source, destination) to the index of the route.
    table: BTreeMap<AgendaKey, u32>,
    // Of each node, as far as any has one: the link that all it sends takes first.
    nics: Vec<Option<LinkId>>,
    agenda: BinaryHeap<Reverse<AgendaEntry>>,
    sequence: u64,
    parcels: Parcels,
    pool: PacketPool,
    pub(crate) captures: Captures,
    pub(crate) trace: Option<Trace>,
    pub(crate) unrouted: u64,
    pub(crate) stranded: u64,
}

type AgendaKey = (NodeId, SocketAddr, SocketAddr);

/// Who has an address, and what he calls it himself (a NAT may have renamed it).
#[derive(Clone, Copy, Debug)]
struct Host {
    node: NodeId,
    inside: SocketAddr,
}

/// A way from one address to another. Several may share links.
#[derive(Clone, Copy, Debug)]
struct LinkRoute {
    source: NodeId,
    from: SocketAddr,
    node: NodeId,
    to: SocketAddr,
    // What the node calls `to`.
    inside: SocketAddr,
    // Its links are `count` from `first`.
    first: u32,
    count: u16,
    // The node has given up the address.
    closed: bool,
}

/// Where on its way a packet is.
#[derive(Clone, Copy, Debug)]
struct Leg {
    route: u32,
    // How many links of the route have been taken, this one included.
    done: u16,
    link: LinkId,
}

/// An entry of the agenda. At one time, what was entered first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AgendaEntry {
    at: Time,
    sequence: u64,
    what: AgendaWhat,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AgendaWhat {
    /// A packet reaches the end of its link.
    Arrive(ParcelPlace),
    /// A packet that was to wait leaves its node.
    Depart(ParcelPlace),
    /// A node asked for a timer; out of date if it has asked for another one since.
    Wake(NodeId),
    /// What a node received and held back is handed over.
    Flush(NodeId),
    /// A link knows more about packets that wait in it.
    Tell(LinkId),
    /// A node has done its work, or wakes up.
    Resume(NodeId),
    /// Something happens to the world, by its number.
    Happen(u32),
}

/// A packet as it was given to its link.
#[derive(Clone, Copy, Debug)]
struct PacketSending {
    time: Time,
    ordinal: u64,
    leg: Leg,
    ecn: Ecn,
}

/// A packet that waits in a link.
#[derive(Clone, Copy, Debug)]
struct WaitingInLink {
    sending: PacketSending,
    parcel: ParcelPlace,
}

/// The place of a packet that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ParcelPlace(u32);

impl Network {
    pub(crate) fn add_link(&mut self, link: Link) -> LinkId {
        let id = LinkId(u32::try_from(self.links.len()).expect("fewer than 2^32 links"));
        self.links.push(link);
        self.open.push((VecDeque::new(), None));
        id
    }

    /// Gives a node an address that nobody else has.
    pub(crate) fn add_host(&mut self, address: SocketAddr, node: NodeId) {
        let before = self.hosts.insert(address, Host { node, inside: address });
        assert!(before.is_none(), "two nodes have the address {address}");
    }

    /// Packets from `from` to `to` take `links` from now on.
    pub(crate) fn add_route(&mut self, from: SocketAddr, to: SocketAddr, links: &[LinkId]) {
        let [source, target] = [from, to].map(|address| self.host(address));
        let first = u32::try_from(self.hops.len()).expect("fewer than 2^32 links of routes");
        let count = u16::try_from(links.len()).expect("a route has fewer than 2^16 links");
        assert!(count > 0, "the route from {from} to {to} has no links");
        self.hops.extend_from_slice(links);
        let route = LinkRoute {
            source: source.node,
            from,
            node: target.node,
            to,
            inside: target.inside,
            first,
            count,
            closed: false,
        };
        self.replace((source.node, source.inside, to), route);
    }

    /// Lets all that a node sends from now on go through a link before anything else.
    pub(crate) fn set_nic(&mut self, node: NodeId, link: LinkId) {
        if self.nics.len() <= node.index() {
            self.nics.resize(node.index() + 1, None);
        }
        self.nics[node.index()] = Some(link);
    }

    /// Renames an address for all but its owner. Packets under way keep the old name.
    pub(crate) fn rename(&mut self, old: SocketAddr, new: SocketAddr) {
        if old == new {
            return;
        }
        let host = self.host(old);
        assert!(!self.hosts.contains_key(&new), "the address {new} is in use");
        self.hosts.remove(&old);
        self.hosts.insert(new, host);
        let renamed = |address| if address == old { new } else { address };
        let affected = self.entries(|key| key.2 == old || (key.0, key.1) == (host.node, host.inside));
        for (key, index) in affected {
            self.table.remove(&key);
            let route = self.routes[index as usize];
            let route = LinkRoute { from: renamed(route.from), to: renamed(route.to), ..route };
            self.replace((key.0, key.1, renamed(key.2)), route);
        }
    }

    /// Takes an address from its node and gives it another one, without routes. Packets that are under
    /// way to the old one get lost in the end. Returns the node and its own name for the old address.
    pub(crate) fn readdress(&mut self, old: SocketAddr, new: SocketAddr) -> (NodeId, SocketAddr) {
        let host = self.host(old);
        self.hosts.remove(&old);
        self.add_host(new, host.node);
        for (key, _) in self.entries(|key| key.2 == old || (key.0, key.1) == (host.node, host.inside)) {
            self.table.remove(&key);
        }
        for route in &mut self.routes {
            route.closed |= (route.node, route.inside) == (host.node, host.inside);
        }
        (host.node, host.inside)
    }

    fn host(&self, address: SocketAddr) -> Host {
        *self.hosts.get(&address).unwrap_or_else(|| panic!("no node has the address {address}"))
    }

    fn entries(&self, which: impl Fn(&AgendaKey) -> bool) -> Vec<(AgendaKey, u32)> {
        self.table.iter().filter(|(key, _)| which(key)).map(|(key, index)| (*key, *index)).collect()
    }

    fn replace(&mut self, key: AgendaKey, route: LinkRoute) {
        let index = u32::try_from(self.routes.len()).expect("fewer than 2^32 routes");
        self.routes.push(route);
        self.table.insert(key, index);
    }

    pub(crate) fn enter(&mut self, at: Time, what: AgendaWhat) {
        self.sequence += 1;
        self.agenda.push(Reverse(AgendaEntry { at, sequence: self.sequence, what }));
    }

    /// When the next thing happens; nothing ever happens at the end of time.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.agenda.peek().map(|due| due.0.at).filter(|at| *at < Time::MAX)
    }

    /// The next thing, if it is due by `now`.
    pub(crate) fn next_due(&mut self, now: Time) -> Option<AgendaWhat> {
        self.next_time().filter(|at| *at <= now)?;
        self.agenda.pop().map(|due| due.0.what)
    }

    /// The next thing without its packet or time, for those who have to judge it first.
    pub(crate) fn peek(&self) -> Option<AgendaWhat> {
        self.agenda.peek().map(|due| due.0.what)
    }

    /// Sends what a node with these `addresses` has written, at `leaves` at the earliest.
    pub(crate) fn send(
        &mut self,
        now: Time,
        leaves: Time,
        node: NodeId,
        addresses: &[SocketAddr],
        batch: &Batch,
    ) {
        let remote = batch.path.remote;
        // As an operating system does: the address that was asked for, else the first with a way there.
        let route = addresses
            .iter()
            .filter(|address| batch.path.local.is_none_or(|local| address.ip() == local))
            .find_map(|address| self.table.get(&(node, *address, remote)));
        let Some(&route) = route else {
            self.unrouted += batch.count() as u64;
            return;
        };
        let leaves = batch.not_before.map_or(leaves, |at| at.max(leaves));
        if leaves <= now {
            batch.segments().for_each(|bytes| self.leave(now, route, batch.ecn, Payload::Lent(bytes)));
            return;
        }
        let leg = self.first_leg(route);
        for bytes in batch.segments() {
            let bytes = self.pool.copy(bytes);
            let parcel = self.parcels.put(PacketContent { leg, ecn: batch.ecn, bytes });
            self.enter(leaves, AgendaWhat::Depart(parcel));
        }
    }

    /// The node that a packet comes from.
    pub(crate) fn source(&self, parcel: ParcelPlace) -> Option<NodeId> {
        let content = self.parcels.slots[parcel.0 as usize].as_ref()?;
        Some(self.routes[content.leg.route as usize].source)
    }

    /// A packet that was to wait goes on its way.
    pub(crate) fn depart(&mut self, now: Time, parcel: ParcelPlace) {
        let PacketContent { leg, ecn, bytes } = self.parcels.take(parcel);
        self.leave(now, leg.route, ecn, Payload::Owned(bytes));
    }

    /// A packet at the end of its link takes the next one, or has arrived: for which node, and what it gets.
    pub(crate) fn arrive(&mut self, now: Time, parcel: ParcelPlace) -> Option<(NodeId, Datagram)> {
        let PacketContent { leg, ecn, bytes } = self.parcels.take(parcel);
        let route = &self.routes[leg.route as usize];
        let &LinkRoute { from, node, inside, first, count, closed, .. } = route;
        if !self.captures.is_empty() {
            let seen = route.seen(ecn, &bytes);
            self.captures.see(now, &[Point::Leaving(leg.link)], seen);
            if leg.done >= count && !closed {
                self.captures.see(now, &[Point::Node(node), Point::Arrivals], seen);
            }
        }
        if leg.done < count {
            let link = self.hops[first as usize + usize::from(leg.done)];
            self.transmit(now, Leg { done: leg.done + 1, link, ..leg }, ecn, Payload::Owned(bytes));
            return None;
        }
        if closed {
            self.stranded += 1;
            return None;
        }
        Some((node, Datagram { path: AddressPair { remote: from, local: Some(inside.ip()) }, ecn, bytes }))
    }

    /// Packets on their way over `link`, by looking at each.
    pub(crate) fn in_flight(&self, link: LinkId) -> u64 {
        let on_link = |parcel: ParcelPlace| {
            self.parcels.slots[parcel.0 as usize].as_ref().is_some_and(|content| content.leg.link == link)
        };
        let arrivals = self.agenda.iter().filter_map(|due| match due.0.what {
            AgendaWhat::Arrive(parcel) => Some(parcel),
            AgendaWhat::Depart(_)
            | AgendaWhat::Wake(_)
            | AgendaWhat::Flush(_)
            | AgendaWhat::Tell(_)
            | AgendaWhat::Resume(_)
            | AgendaWhat::Happen(_) => None,
        });
        (arrivals.filter(|parcel| on_link(*parcel)).count() + self.open[link.index()].0.len()) as u64
    }

    /// Asks a link what has become of the packets that wait in it.
    pub(crate) fn tell(&mut self, now: Time, id: LinkId) {
        self.open[id.index()].1 = None;
        while let Some((ordinal, fate)) = self.links[id.index()].poll(now) {
            let open = self.open[id.index()].0.pop_front().expect("what has a fate has waited");
            debug_assert_eq!(open.sending.ordinal, ordinal, "fates come in the order of sending");
            let bytes = self.parcels.take(open.parcel).bytes;
            self.settle(open.sending, fate, Payload::Owned(bytes));
        }
        self.ask_later(now, id);
    }

    /// Enters when a link is to be asked, if it has to be asked earlier than it is.
    fn ask_later(&mut self, now: Time, id: LinkId) {
        let Some(due) = self.links[id.index()].due() else { return };
        let (due, asked) = (due.max(now), self.open[id.index()].1);
        if asked.is_none_or(|asked| due < asked) {
            self.open[id.index()].1 = Some(due);
            self.enter(due, AgendaWhat::Tell(id));
        }
    }

    /// The first link of a route: that of the sender's network card, if it has one of its own.
    fn first_leg(&self, route: u32) -> Leg {
        let LinkRoute { source, first, .. } = self.routes[route as usize];
        match self.nics.get(source.index()) {
            Some(&Some(link)) => Leg { route, done: 0, link },
            _ => Leg { route, done: 1, link: self.hops[first as usize] },
        }
    }

    fn leave(&mut self, now: Time, route: u32, ecn: Ecn, payload: Payload<'_>) {
        if !self.captures.is_empty() {
            let route = &self.routes[route as usize];
            let points = [Point::Node(route.source), Point::Departures];
            self.captures.see(now, &points, route.seen(ecn, payload.bytes()));
        }
        self.transmit(now, self.first_leg(route), ecn, payload);
    }

    fn transmit(&mut self, now: Time, leg: Leg, ecn: Ecn, payload: Payload<'_>) {
        if !self.captures.is_empty() {
            let seen = self.routes[leg.route as usize].seen(ecn, payload.bytes());
            self.captures.see(now, &[Point::Entering(leg.link)], seen);
        }
        let link = &mut self.links[leg.link.index()];
        let sending = PacketSending { time: now, ordinal: link.counts().sent, leg, ecn };
        match link.send(now, payload.bytes().len(), ecn) {
            SendResult::Known(fate) => self.settle(sending, fate, payload),
            SendResult::Waits(_) => {
                let bytes = payload.owned(&mut self.pool);
                let parcel = self.parcels.put(PacketContent { leg, ecn, bytes });
                self.open[leg.link.index()].0.push_back(WaitingInLink { sending, parcel });
                self.ask_later(now, leg.link);
            }
        }
    }

    /// Records the fate of a packet and lets it arrive accordingly.
    fn settle(&mut self, sending: PacketSending, fate: Fate, payload: Payload<'_>) {
        let PacketSending { time, ordinal, leg, ecn } = sending;
        if let Some(trace) = &mut self.trace {
            let bytes = payload.bytes();
            let (size, hash) = (bytes.len().saturated::<u32>(), hash(bytes));
            trace.push(TraceRecord { time, link: leg.link, ordinal, size, ecn, hash, fate }, bytes);
        }
        match fate {
            Fate::Delivered(original) => {
                let bytes = payload.owned(&mut self.pool);
                self.travel(leg, original, bytes);
            }
            Fate::Duplicated(original, copy) => {
                let bytes = self.pool.copy(payload.bytes());
                self.travel(leg, original, bytes);
                let bytes = payload.owned(&mut self.pool);
                self.travel(leg, copy, bytes);
            }
            Fate::Dropped(_) => {}
        }
    }

    fn travel(&mut self, leg: Leg, delivery: LinkDelivery, mut bytes: BytesMut) {
        if let Some(damage) = delivery.damage {
            damage.apply(&mut bytes);
        }
        let parcel = self.parcels.put(PacketContent { leg, ecn: delivery.ecn, bytes });
        self.enter(delivery.at, AgendaWhat::Arrive(parcel));
    }
}

impl LinkRoute {
    fn seen<'a>(&self, ecn: Ecn, payload: &'a [u8]) -> CapturedDatagram<'a> {
        CapturedDatagram { from: self.from, to: self.to, ecn, payload }
    }
}

/// The bytes of a packet: a machine's, which are copied if they go anywhere, or those of one under way.
enum Payload<'a> {
    Lent(&'a [u8]),
    Owned(BytesMut),
}

impl Payload<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }

    fn owned(self, pool: &mut PacketPool) -> BytesMut {
        match self {
            Self::Lent(bytes) => pool.copy(bytes),
            Self::Owned(bytes) => bytes,
        }
    }
}

/// The packets under way, in places that are used again.
#[derive(Debug, Default)]
struct Parcels {
    slots: Vec<Option<PacketContent>>,
    free: Vec<ParcelPlace>,
}

#[derive(Debug)]
struct PacketContent {
    leg: Leg,
    ecn: Ecn,
    bytes: BytesMut,
}

impl Parcels {
    fn put(&mut self, content: PacketContent) -> ParcelPlace {
        if let Some(parcel) = self.free.pop() {
            self.slots[parcel.0 as usize] = Some(content);
            return parcel;
        }
        let parcel = ParcelPlace(u32::try_from(self.slots.len()).expect("fewer than 2^32 packets under way"));
        self.slots.push(Some(content));
        parcel
    }

    fn take(&mut self, parcel: ParcelPlace) -> PacketContent {
        self.free.push(parcel);
        self.slots[parcel.0 as usize].take().expect("a parcel is taken once")
    }
}
