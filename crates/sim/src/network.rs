use core::cmp::Reverse;
use core::fmt;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;

use bytes::BytesMut;
use quickset_base::{Batch, Datagram, Ecn, Path, Time};

use crate::link::{Fate, Link, Sent};
use crate::pool::Pool;
use crate::trace::{Record, Trace, hash};
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
    open: Vec<(VecDeque<Open>, Option<Time>)>,
    routes: Vec<Route>,
    // From (source, destination) to the index of the route.
    table: BTreeMap<(SocketAddr, SocketAddr), u32>,
    agenda: BinaryHeap<Reverse<Due>>,
    sequence: u64,
    parcels: Parcels,
    pool: Pool,
    pub(crate) trace: Option<Trace>,
    pub(crate) unrouted: u64,
}

/// Several routes may share a link. (A chain of links would be a list here, and one more event.)
#[derive(Clone, Copy, Debug)]
struct Route {
    from: SocketAddr,
    to: SocketAddr,
    node: NodeId,
    link: LinkId,
}

/// An entry of the agenda. At one time, what was entered first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Time,
    sequence: u64,
    what: What,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// A packet reaches its node.
    Arrive(Parcel),
    /// A packet that was to wait reaches its link.
    Depart(Parcel),
    /// A node asked for a timer; out of date if it has asked for another one since.
    Wake(NodeId),
    /// What a node received and held back is handed over.
    Flush(NodeId),
    /// A link knows more about packets that wait in it.
    Tell(LinkId),
}

/// A packet as it was given to its link.
#[derive(Clone, Copy, Debug)]
struct Sending {
    time: Time,
    ordinal: u64,
    route: u32,
    ecn: Ecn,
}

/// A packet that waits in a link.
#[derive(Clone, Copy, Debug)]
struct Open {
    sending: Sending,
    parcel: Parcel,
}

/// The place of a packet that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Parcel(u32);

impl Network {
    pub(crate) fn add_link(&mut self, link: Link) -> LinkId {
        let id = LinkId(u32::try_from(self.links.len()).expect("fewer than 2^32 links"));
        self.links.push(link);
        self.open.push((VecDeque::new(), None));
        id
    }

    /// Packets from `from` to `to` take `link` to `node`, from now on.
    pub(crate) fn add_route(&mut self, from: SocketAddr, to: SocketAddr, link: LinkId, node: NodeId) {
        let index = u32::try_from(self.routes.len()).expect("fewer than 2^32 routes");
        self.routes.push(Route { from, to, node, link });
        self.table.insert((from, to), index);
    }

    /// Renames an address in all routes. Packets under way keep theirs.
    pub(crate) fn rename(&mut self, old: SocketAddr, new: SocketAddr) {
        let renamed = |address| if address == old { new } else { address };
        let affected: Vec<_> = self
            .table
            .iter()
            .filter(|((from, to), _)| *from == old || *to == old)
            .map(|(k, i)| (*k, *i))
            .collect();
        for ((from, to), index) in affected {
            self.table.remove(&(from, to));
            let Route { node, link, .. } = self.routes[index as usize];
            self.add_route(renamed(from), renamed(to), link, node);
        }
    }

    pub(crate) fn enter(&mut self, at: Time, what: What) {
        self.sequence += 1;
        self.agenda.push(Reverse(Due { at, sequence: self.sequence, what }));
    }

    /// When the next thing happens; nothing ever happens at the end of time.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.agenda.peek().map(|due| due.0.at).filter(|at| *at < Time::MAX)
    }

    /// The next thing, if it is due by `now`.
    pub(crate) fn next_due(&mut self, now: Time) -> Option<What> {
        self.next_time().filter(|at| *at <= now)?;
        self.agenda.pop().map(|due| due.0.what)
    }

    /// The next thing without its packet or time, for those who have to judge it first.
    pub(crate) fn peek(&self) -> Option<What> {
        self.agenda.peek().map(|due| due.0.what)
    }

    /// Sends what a node with these `addresses` has written.
    pub(crate) fn send(&mut self, now: Time, addresses: &[SocketAddr], batch: &Batch) {
        let remote = batch.path.remote;
        // As an operating system does: the address that was asked for, else the first with a way there.
        let route = addresses
            .iter()
            .filter(|address| batch.path.local.is_none_or(|local| address.ip() == local))
            .find_map(|address| self.table.get(&(*address, remote)));
        let Some(&route) = route else {
            self.unrouted += batch.count() as u64;
            return;
        };
        match batch.not_before.filter(|at| *at > now) {
            None => batch.segments().for_each(|bytes| self.transmit(now, route, batch.ecn, bytes)),
            Some(at) => {
                for bytes in batch.segments() {
                    let bytes = self.pool.copy(bytes);
                    let parcel = self.parcels.put(Content { route, ecn: batch.ecn, bytes });
                    self.enter(at, What::Depart(parcel));
                }
            }
        }
    }

    /// A packet that was to wait goes on its way.
    pub(crate) fn depart(&mut self, now: Time, parcel: Parcel) {
        let Content { route, ecn, bytes } = self.parcels.take(parcel);
        self.transmit(now, route, ecn, &bytes);
    }

    /// A packet that has arrived: for which node, and what it gets.
    pub(crate) fn arrive(&mut self, parcel: Parcel) -> (NodeId, Datagram) {
        let Content { route, ecn, bytes } = self.parcels.take(parcel);
        let Route { from, to, node, .. } = self.routes[route as usize];
        (node, Datagram { path: Path { remote: from, local: Some(to.ip()) }, ecn, bytes })
    }

    /// Packets on their way over `link`, by looking at each.
    pub(crate) fn in_flight(&self, link: LinkId) -> u64 {
        let on_link = |parcel: Parcel| {
            self.parcels.slots[parcel.0 as usize]
                .as_ref()
                .is_some_and(|content| self.routes[content.route as usize].link == link)
        };
        let arrivals = self.agenda.iter().filter_map(|due| match due.0.what {
            What::Arrive(parcel) => Some(parcel),
            What::Depart(_) | What::Wake(_) | What::Flush(_) | What::Tell(_) => None,
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
            self.settle(open.sending, fate, &bytes);
        }
        self.ask_later(now, id);
    }

    /// Enters when a link is to be asked, if it has to be asked earlier than it is.
    fn ask_later(&mut self, now: Time, id: LinkId) {
        let Some(due) = self.links[id.index()].due() else { return };
        let (due, asked) = (due.max(now), self.open[id.index()].1);
        if asked.is_none_or(|asked| due < asked) {
            self.open[id.index()].1 = Some(due);
            self.enter(due, What::Tell(id));
        }
    }

    fn transmit(&mut self, now: Time, route: u32, ecn: Ecn, bytes: &[u8]) {
        let id = self.routes[route as usize].link;
        let link = &mut self.links[id.index()];
        let sending = Sending { time: now, ordinal: link.counts().sent, route, ecn };
        match link.send(now, bytes.len(), ecn) {
            Sent::Known(fate) => self.settle(sending, fate, bytes),
            Sent::Waits(_) => {
                let bytes = self.pool.copy(bytes);
                let parcel = self.parcels.put(Content { route, ecn, bytes });
                self.open[id.index()].0.push_back(Open { sending, parcel });
                self.ask_later(now, id);
            }
        }
    }

    /// Records the fate of a packet and lets it arrive accordingly.
    fn settle(&mut self, sending: Sending, fate: Fate, bytes: &[u8]) {
        let Sending { time, ordinal, route, ecn } = sending;
        let link = self.routes[route as usize].link;
        if let Some(trace) = &mut self.trace {
            let (size, hash) = (bytes.len() as u32, hash(bytes));
            trace.push(Record { time, link, ordinal, size, ecn, hash, fate });
        }
        for delivery in fate.deliveries() {
            let mut copy = self.pool.copy(bytes);
            if let Some(damage) = delivery.damage {
                damage.apply(&mut copy);
            }
            let parcel = self.parcels.put(Content { route, ecn: delivery.ecn, bytes: copy });
            self.enter(delivery.at, What::Arrive(parcel));
        }
    }
}

/// The packets under way, in places that are used again.
#[derive(Debug, Default)]
struct Parcels {
    slots: Vec<Option<Content>>,
    free: Vec<Parcel>,
}

#[derive(Debug)]
struct Content {
    route: u32,
    ecn: Ecn,
    bytes: BytesMut,
}

impl Parcels {
    fn put(&mut self, content: Content) -> Parcel {
        if let Some(parcel) = self.free.pop() {
            self.slots[parcel.0 as usize] = Some(content);
            return parcel;
        }
        let parcel = Parcel(u32::try_from(self.slots.len()).expect("fewer than 2^32 packets under way"));
        self.slots.push(Some(content));
        parcel
    }

    fn take(&mut self, parcel: Parcel) -> Content {
        self.free.push(parcel);
        self.slots[parcel.0 as usize].take().expect("a parcel is taken once")
    }
}
