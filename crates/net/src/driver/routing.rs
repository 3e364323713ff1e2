//! The way of datagrams to their connections, or to the shard that has them.

use std::sync::{Arc, MutexGuard};

use quickset_base::{Datagram, Time};
use quickset_quic::{self as quic, ConnectionKey, DatagramRoute};

use super::admit::admit;
use super::{DatagramInlet, Driver, Roster, Sorting};
use crate::hub::Hub;
use crate::pool::datagrams;
use crate::shards::ShardOf;
use crate::socket::DatagramSocket;

/// Datagrams on their way to connections.
struct Routing<'a> {
    hub: &'a Arc<Hub>,
    router: MutexGuard<'a, quic::Endpoint>,
    roster: &'a mut Roster,
    sorting: &'a mut Sorting,
    socket: &'a dyn DatagramSocket,
    /// The connection that those in the row are for.
    current: Option<ConnectionKey>,
}

impl Driver {
    /// Hands what the first `n` buffers hold to the connections that it is for.
    pub(super) fn route(&mut self, n: usize, socket: &dyn DatagramSocket) {
        let now = self.hub.now();
        self.inlet.heard = now;
        let hub = self.hub.clone();
        let DatagramInlet { buffers, pool, sorting, abroad, .. } = &mut self.inlet;
        let mut routing = Routing::new(&hub, &mut self.roster, sorting, socket);
        for (buffer, meta) in buffers.filled(n) {
            let (path, ecn) = (meta.path, meta.ecn);
            if path.remote.port() == 0 {
                // RFC 768: whoever sends it wants no answer. Nor could there be one, and nothing is begun or
                // worked out for it.
                continue;
            }
            for bytes in datagrams(pool.cut(buffer, meta.len), meta.stride) {
                let datagram = Datagram { path, ecn, bytes };
                match hub.group().shard_of(hub.shard, &routing.router, &datagram.bytes) {
                    ShardOf::Here => routing.datagram(now, datagram),
                    there => abroad.push((there, datagram)),
                }
            }
        }
        routing.end(now);
        if !self.inlet.abroad.is_empty() {
            self.pass_on_abroad(socket);
        }
    }

    /// Hands datagrams over to the shards that they are for.
    #[cold]
    fn pass_on_abroad(&mut self, socket: &dyn DatagramSocket) {
        let hub = self.hub.clone();
        let group = hub.group();
        let mut here = Vec::new();
        let mut row: Vec<Datagram> = Vec::new();
        let mut current = None;
        for (of, datagram) in std::mem::take(&mut self.inlet.abroad) {
            let to = match of {
                ShardOf::There(to) => to,
                ShardOf::Perhaps(to) if group.knows(to, &datagram.bytes) => to,
                ShardOf::Perhaps(_) | ShardOf::Here => {
                    here.push(datagram);
                    continue;
                }
            };
            if let Some(before) = current.replace(to).filter(|before| *before != to) {
                group.hand_over(before, &mut row);
                here.append(&mut row);
            }
            row.push(datagram);
        }
        if let Some(to) = current {
            group.hand_over(to, &mut row);
            // Of a shard that has ended nobody knows anything; whoever comes anew is welcome here.
            here.append(&mut row);
        }
        self.route_handed(here, socket);
    }

    /// Hands datagrams that came to other shards, or might have been theirs, to the connections that they are
    /// for.
    pub(super) fn route_handed(&mut self, handed: Vec<Datagram>, socket: &dyn DatagramSocket) {
        if handed.is_empty() {
            return;
        }
        let now = self.hub.now();
        self.inlet.heard = now;
        let hub = self.hub.clone();
        let mut routing = Routing::new(&hub, &mut self.roster, &mut self.inlet.sorting, socket);
        for datagram in handed {
            routing.datagram(now, datagram);
        }
        routing.end(now);
    }
}

impl<'a> Routing<'a> {
    fn new(
        hub: &'a Arc<Hub>,
        roster: &'a mut Roster,
        sorting: &'a mut Sorting,
        socket: &'a dyn DatagramSocket,
    ) -> Self {
        Self { router: hub.router(), hub, roster, sorting, socket, current: None }
    }

    /// Gives the connection of the row what is in it; the next row is for `key`.
    fn deliver(&mut self, now: Time, key: Option<ConnectionKey>) {
        let before = std::mem::replace(&mut self.current, key);
        self.roster.deliver(now, before, &mut self.sorting.row, &mut self.sorting.heavy);
    }

    /// Hands a datagram to its connection, or answers it.
    #[inline]
    fn datagram(&mut self, now: Time, datagram: Datagram) {
        let path = datagram.path;
        let mut route = self.router.route(now, datagram);
        if let DatagramRoute::Incoming(incoming) = route {
            match admit(self.hub, &mut self.router, self.roster, &mut self.sorting.asking, now, incoming) {
                Some(admitted) => route = admitted,
                None => return,
            }
        }
        match route {
            DatagramRoute::Connection(key, datagram) => {
                if self.current != Some(key) {
                    self.deliver(now, Some(key));
                }
                self.sorting.row.push(datagram);
            }
            DatagramRoute::Respond(response) => {
                if let Err(error) = self.socket.send_response(&response.path, &response.bytes) {
                    tracing::trace!(%error, to = %response.path.remote, "not answered");
                    self.router.response_refused();
                }
            }
            DatagramRoute::Reset(key) => {
                self.deliver(now, None);
                self.roster.reset(key);
            }
            DatagramRoute::Incoming(_) => {}
            DatagramRoute::Dropped(reason) => {
                tracing::trace!(%reason, from = %path.remote, "dropped");
            }
        }
    }

    fn end(mut self, now: Time) {
        self.deliver(now, None);
        self.roster.make_room(&mut self.router);
    }
}
