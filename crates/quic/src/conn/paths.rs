//! Who moves when: other addresses of the peer, our own, and the server's preferred one (RFC 9000 §9).

use std::net::IpAddr;

use quickset_base::{AddressPair as Address, Datagram, Time};

use super::Connection;
use crate::error::TransportError;
use crate::event::MoveError;
use crate::link::Moved;
use crate::packet::Phase;
use crate::path::{AddressProof, Candidate, CandidateArrival, CandidateRole};
use crate::qlog::Why;

/// What the application says.
impl Connection {
    /// Tries the path from another address of ours, `None` standing for the system's choice, and goes on
    /// there when it carries packets both ways: [`Event::Moved`](crate::Event::Moved), or else
    /// [`Event::NotMoved`](crate::Event::NotMoved). Meanwhile the connection stays where it is. Clients only.
    ///
    /// # Errors
    /// See [`MoveError`].
    pub fn migrate(&mut self, now: Time, local: Option<IpAddr>) -> Result<(), MoveError> {
        self.common.now = now.max(self.common.now);
        if self.common.side.is_server() {
            return Err(MoveError::Server);
        }
        if self.common.phase != Phase::Confirmed || !self.life.lifecycle.is_open() {
            return Err(MoveError::NotConfirmed);
        }
        // RFC 9000 §18.2: what the server forbids concerns the address of the handshake.
        let forbids = self.common.peer.as_ref().is_some_and(|peer| peer.disable_active_migration);
        if forbids && !self.link.candidates.preferred {
            return Err(MoveError::Forbidden);
        }
        let address = Address { remote: self.link.path.address.remote, local };
        self.link.try_path(&self.common, address).unwrap_or_else(|error| {
            self.fail(error);
            Err(MoveError::NotConfirmed)
        })
    }

    /// The socket under the connection is another one, and what was sent from the old one gets no answer: the
    /// connection goes on from the new one at once, and tells the server by itself.
    /// [`Event::Moved`](crate::Event::Moved) says that the server has answered. Without a spare connection
    /// id, or when the server forbids its clients to move, it looks to the server as if a NAT had changed its
    /// mind. Before the handshake is confirmed, and for a server, nothing happens.
    pub fn rebound(&mut self, now: Time) {
        self.common.now = now.max(self.common.now);
        self.link.blockade.lift();
        if self.common.side.is_server()
            || self.common.phase != Phase::Confirmed
            || !self.life.lifecycle.is_open()
        {
            return;
        }
        let address = Address::to(self.link.path.address.remote);
        let candidate = Candidate {
            proof: AddressProof::chosen(),
            cid: self.link.cids.lend(),
            ..self.link.candidate(&self.common, address, CandidateRole::Ours)
        };
        let moved = self.link.go_on_from(&mut self.common, candidate);
        self.follow_move(moved);
    }
}

/// What moves mean for all others.
impl Connection {
    /// A call that may have moved the connection to another path is through, and this is what came of it.
    pub(crate) fn follow_move(&mut self, result: Result<(), TransportError>) {
        let Moved { is_under_way, is_narrow, losses } = std::mem::take(&mut self.link.moved);
        if let Some((losses, left)) = losses {
            let (now, peer) = (self.common.now, self.link.path.address.remote.ip());
            let losses = self.protect.exchange_losses(*losses, peer, now);
            self.link.keep_losses(left, losses);
        }
        if is_under_way {
            let course = self.link.course(&self.common, self.protect.send.waits());
            self.link.asks.moved(&course);
            // FEC-52, rule 7.
            self.protect.send.release_all();
            if is_narrow {
                self.protect.send.shrink();
            }
            self.protect.send.stir();
            self.protect.drain(&mut self.traffic, self.common.now);
            if self.common.side.is_client() {
                // RFC 9000 §9.2: what does not only probe makes the server follow.
                self.life.lifecycle.ping();
            }
        }
        if let Err(error) = result {
            self.fail(error);
        }
    }

    /// Time is up for a path, or something is to be sent there.
    pub(super) fn on_path_time(&mut self) {
        let asks = self.link.on_path_time(&mut self.common);
        if let Ok(true) = asks {
            self.life.lifecycle.ping();
        }
        self.follow_move(asks.map(drop));
    }
}

/// What arrives.
impl Connection {
    /// A datagram that did not come on the path in use. False when it is dropped.
    pub(crate) fn receive_elsewhere(&mut self, datagram: Datagram) -> bool {
        let (address, size) = (datagram.path, datagram.bytes.len());
        let is_known = self.link.candidates.find(&address).is_some();
        let is_welcome = if self.common.side.is_client() {
            // RFC 9000 §9: a server does not move. Which address of ours it was sent to is the system's
            // affair.
            address.remote == self.link.path.address.remote || is_known
        } else {
            true
        };
        if !is_welcome {
            self.common.trace_dropped(None, size, Why::Address);
            return false;
        }
        self.common.stats.received_datagrams += 1;
        self.common.stats.received_bytes += size as u64;
        if is_known || self.common.side.is_server() {
            // With a long header the peer cannot have gone on with another id yet.
            let is_short = datagram.bytes.first().is_some_and(|first| first & 0x80 == 0);
            let to = if is_short {
                self.link.cids.local_sequence(&datagram.bytes)
            } else {
                self.link.candidates.peer_uses
            };
            self.link.candidates.arrival = Some(CandidateArrival { address, size, to, is_known: false });
        } else {
            self.link.path.on_received(size);
        }
        let result = self.datagram(datagram);
        self.link.candidates.arrival = None;
        if let Err(error) = result {
            self.fail(error);
        }
        true
    }
}
