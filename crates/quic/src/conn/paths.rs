//! Who moves when: other addresses of the peer, our own, and the server's preferred one (RFC 9000 §9).

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use quickset_base::{Datagram, Path as Address, Time};
use quickset_wire::frame::Frames;
use quickset_wire::{PacketType, Space};

use super::Connection;
use crate::event::Event;
use crate::packet::Phase;
use crate::path::{Arrival, Candidate, Kept, LEAST, Marking, Patience, Probe, Proof, Role, Saved};
use crate::protect::Losses;
use crate::qlog::Why;
use crate::recovery::{Rtt, UNKNOWN_RTT};

/// Why [`Connection::migrate`] does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// RFC 9000 §9: the handshake is not confirmed, or the connection is over.
    #[error("the handshake is not confirmed, or the connection is over")]
    NotConfirmed,
    /// Only clients move.
    #[error("a server does not move")]
    Server,
    /// The server takes no clients that move (disable_active_migration).
    #[error("the server forbids it")]
    Forbidden,
    /// The server has given us no connection id to use there, or not yet.
    #[error("no connection id is left for another path")]
    NoId,
    /// One is being tried.
    #[error("another path is being tried")]
    UnderWay,
}

/// What the application says.
impl Connection {
    /// Tries the path from another address of ours, `None` standing for the system's choice, and goes on
    /// there when it carries packets both ways: [`Event::Moved`], or else [`Event::NotMoved`]. Meanwhile the
    /// connection stays where it is. Clients only.
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
        self.try_path(Address { remote: self.link.path.address.remote, local })
    }

    /// The socket under the connection is another one, and what was sent from the old one gets no answer: the
    /// connection goes on from the new one at once, and tells the server by itself. [`Event::Moved`] says
    /// that the server has answered. Without a spare connection id, or when the server forbids its clients to
    /// move, it looks to the server as if a NAT had changed its mind. Before the handshake is confirmed, and
    /// for a server, nothing happens.
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
            proof: Proof::chosen(),
            cid: self.link.cids.lend(),
            ..self.candidate(address, Role::Ours)
        };
        self.add_candidate(candidate);
        self.move_to(self.link.candidates.len() - 1);
        for candidate in self.link.candidates.iter_mut().filter(|candidate| candidate.role == Role::Fallback)
        {
            candidate.role = Role::Gone;
        }
    }

    /// Challenges a path that we would like to use.
    fn try_path(&mut self, address: Address) -> Result<(), MoveError> {
        if self.link.candidates.position(|candidate| candidate.role == Role::Ours).is_some() {
            return Err(MoveError::UnderWay);
        }
        // RFC 9000 §9.5: no id on two paths.
        let cid = self.link.cids.lend();
        if cid.is_none() && !self.link.cids.is_remote_empty() {
            return Err(MoveError::NoId);
        }
        let mut candidate = Candidate {
            proof: Proof::chosen(),
            cid,
            until: Time::MAX,
            ..self.candidate(address, Role::Ours)
        };
        candidate.probe.begin(self.common.now, self.patience());
        self.add_candidate(candidate);
        Ok(())
    }

    /// The handshake is confirmed: a client goes where the server would rather be reached (RFC 9000 §9.6),
    /// once it has an answer from there (RFC 9000 §9.6.2). A move of the client's own is refused until that
    /// is settled, where RFC 9000 §9.6.3 would have it tried at the same time.
    pub(super) fn follow_preferred(&mut self) {
        let preferred = self.common.peer.as_ref().and_then(|peer| peer.preferred_address);
        let Some(preferred) =
            preferred.filter(|_| self.common.side.is_client() && self.common.config.migration.follow)
        else {
            return;
        };
        // The other family may not be there at all, and this one is.
        let remote = match self.link.path.address.remote {
            SocketAddr::V4(_) => preferred.ipv4.map(SocketAddr::V4),
            SocketAddr::V6(_) => preferred.ipv6.map(SocketAddr::V6),
        };
        let here = self.link.path.address.remote;
        if let Some(remote) = remote.filter(|remote| {
            *remote != here && may_be_preferred(remote.ip(), here.ip()) && remote.port() != 0
        }) {
            // RFC 9000 §9.6.1: there is an id, the oldest to spare: it came with the address.
            let _ = self.try_path(Address { remote, local: self.link.path.address.local });
        }
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
            self.link.candidates.arrival = Some(Arrival { address, size, to, is_known: false });
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

    /// An authentic packet that is no copy came from elsewhere: the place is remembered, and challenged.
    pub(crate) fn greet(&mut self) {
        let Some(arrival) = &mut self.link.candidates.arrival else { return };
        if std::mem::replace(&mut arrival.is_known, true) {
            return;
        }
        let Arrival { address, size, to, .. } = *arrival;
        let at = if let Some(at) = self.link.candidates.find(&address) {
            at
        } else {
            let Ok(cid) = self.id_for(to) else { return };
            let mut candidate = Candidate { cid, peer_uses: to, ..self.candidate(address, Role::Seen) };
            if self.common.phase == Phase::Confirmed {
                candidate.probe.begin(self.common.now, self.patience());
            }
            self.add_candidate(candidate);
            self.link.candidates.len() - 1
        };
        let until = self.common.now + self.patience().all;
        let candidate = self.link.candidates.get_mut(at);
        candidate.proof.on_received(size);
        candidate.until = candidate.until.max(until);
        self.link.candidates.stir();
    }

    /// The id that packets to a new address of the peer carry, whose packets come to our id number `to`: a
    /// lent one, or `None` for that of the path in use. Without any it cannot be spoken to.
    fn id_for(&mut self, to: Option<u64>) -> Result<Option<u64>, MoveError> {
        // RFC 9000 §9.5: the peer did not change its own, so the network moved it and nothing is given away
        // by keeping ours. An empty id says nothing anyway.
        if self.link.cids.is_remote_empty() || (to.is_some() && to == self.link.candidates.peer_uses) {
            return Ok(None);
        }
        let paired = to
            .and_then(|to| self.link.candidates.paired(to))
            .filter(|cid| self.link.cids.lent(*cid).is_some());
        let lent = paired.or_else(|| self.link.cids.lend());
        // When it is not known which of our ids the peer uses, it may be this one.
        if lent.is_none() && self.link.candidates.peer_uses.is_some() {
            Err(MoveError::NoId)
        } else {
            Ok(lent)
        }
    }

    /// A packet from elsewhere was read whose number is the largest so far: unless it only probes, the peer
    /// is there now (RFC 9000 §9.3).
    pub(crate) fn arrived(&mut self, kind: PacketType, payload: &Bytes) {
        let is_move = self.common.side.is_server() && kind == PacketType::OneRtt && !is_probing(payload);
        let at = self.link.candidates.arrival.and_then(|arrival| self.link.candidates.find(&arrival.address));
        let Some(at) = at.filter(|_| is_move && self.life.lifecycle.is_open()) else { return };
        let is_validated = self.link.candidates.get(at).proof.is_validated();
        if is_validated || self.common.now >= self.link.candidates.wary_until {
            self.move_to(at);
            self.link.candidates.arrival = None;
        } else if !self.link.candidates.get(at).probe.is_under_way() {
            let patience = self.patience();
            self.link.candidates.get_mut(at).probe.begin(self.common.now, patience);
        }
    }

    /// The same before the handshake is confirmed. RFC 9000 §9: no endpoint moves then; but nobody asks a
    /// NAT, and what is sent to where its client was is lost. So a server goes on where the newest packet of
    /// the handshake came from: it has nothing to challenge the address with yet, and may send it thrice of
    /// what comes from there until it has.
    pub(crate) fn arrived_early(&mut self, kind: PacketType) {
        let is_move =
            self.common.side.is_server() && matches!(kind, PacketType::Initial | PacketType::Handshake);
        let at = self.link.candidates.arrival.and_then(|arrival| self.link.candidates.find(&arrival.address));
        let Some(at) = at.filter(|_| is_move && self.life.lifecycle.is_open()) else { return };
        if self.link.candidates.get(at).proof.is_validated()
            || self.common.now >= self.link.candidates.wary_until
        {
            self.link.candidates.strayed = true;
            self.move_to(at);
            self.link.candidates.arrival = None;
        }
    }

    /// The handshake is confirmed: where it took us is asked for what it has not proved, and so is where it
    /// began.
    pub(super) fn challenge_moved(&mut self) {
        if self.link.path.is_validated() {
            return;
        }
        let (now, patience) = (self.common.now, self.patience());
        self.link.path.probe.begin(now, patience);
        for candidate in self.link.candidates.iter_mut() {
            candidate.probe.begin(now, patience);
            candidate.until = candidate.until.max(now + patience.all);
        }
        self.link.candidates.stir();
    }

    /// PATH_CHALLENGE: answered on the path that it came on (RFC 9000 §8.2.2).
    pub(crate) fn on_path_challenge(&mut self, data: [u8; 8]) {
        if self.common.phase == Phase::Handshake {
            // There may be no keys for an answer yet.
            return;
        }
        self.life.liveness.found();
        match self.link.candidates.arrival.map(|arrival| self.link.candidates.find(&arrival.address)) {
            None => self.link.path.probe.on_challenge(data),
            Some(Some(at)) => self.link.candidates.get_mut(at).probe.on_challenge(data),
            Some(None) => {}
        }
        self.link.candidates.stir();
    }

    /// PATH_RESPONSE: whatever path it came on, it validates that of the challenge (RFC 9000 §8.2.3).
    pub(crate) fn on_path_response(&mut self, data: [u8; 8]) {
        let patience = self.patience();
        if let Some(proven) = self.link.path.probe.on_response(data) {
            self.link.path.proof.prove(proven.full);
            self.link.recovery.assume_rtt(self.common.now.since(proven.sent));
            if proven.full {
                self.tell_moved();
                self.release_kept();
            } else {
                // RFC 9000 §8.2.1: the address is the peer's. Whether datagrams of 1200 bytes get there is
                // not known.
                self.link.path.probe.begin(self.common.now, patience);
            }
            self.link.candidates.stir();
            return;
        }
        for at in 0..self.link.candidates.len() {
            let candidate = self.link.candidates.get_mut(at);
            let Some(proven) = candidate.probe.on_response(data) else { continue };
            candidate.proof.prove(proven.full);
            let is_goal = proven.full && candidate.role == Role::Ours;
            if !proven.full {
                candidate.probe.begin(self.common.now, patience);
            }
            if is_goal {
                self.move_to(at);
                self.link.recovery.assume_rtt(self.common.now.since(proven.sent));
            }
            if proven.full {
                self.release_kept();
            }
            self.link.candidates.stir();
            return;
        }
    }
}

/// What follows.
impl Connection {
    /// The connection goes on over candidate number `at`.
    fn move_to(&mut self, at: usize) {
        let mut candidate = self.link.candidates.remove(at);
        let (now, patience) = (self.common.now, self.patience());
        if !self.link.path.is_validated() && candidate.proof.is_validated() {
            // The peer was not there, or not for long: somebody sends copies of its packets (RFC 9000 §9.3.1,
            // §9.3.3).
            self.link.candidates.wary_until = now + patience.all;
            self.common.stats.failed_moves += 1;
        }
        let like = self.link.path.is_like(&candidate.address)
            && candidate.saved.is_none()
            && candidate.role != Role::Ours;
        let (saved, number) = (candidate.saved.take(), candidate.number);
        let saved = if like {
            None
        } else {
            Some(saved.map_or_else(|| self.unknown(candidate.address.remote.is_ipv6()), |saved| *saved))
        };
        let is_narrow = saved.as_ref().is_some_and(|saved| saved.mtu < self.link.path.mtu);
        let rtt = self.link.recovery.change_path(number, saved.as_ref().map(|saved| saved.rtt), now);
        let was_validated = self.link.path.is_validated();
        let mut left = Candidate {
            address: self.link.path.address,
            role: if was_validated { Role::Fallback } else { Role::Seen },
            cid: self.exchange_ids(candidate.cid),
            peer_uses: std::mem::replace(&mut self.link.candidates.peer_uses, candidate.peer_uses),
            proof: std::mem::replace(&mut self.link.path.proof, candidate.proof),
            probe: std::mem::replace(&mut self.link.path.probe, candidate.probe),
            number: std::mem::replace(&mut self.link.path.number, number),
            saved: None,
            until: now + patience.all,
        };
        if let Some(saved) = saved {
            let congestion = std::mem::replace(&mut self.link.path.congestion, saved.congestion);
            let pacer = std::mem::replace(&mut self.link.path.pacer, saved.pacer);
            let ecn = std::mem::replace(&mut self.link.path.ecn, saved.ecn);
            let losses = self.protect.exchange_losses(saved.losses, candidate.address.remote.ip(), now);
            let mtu = std::mem::replace(&mut self.link.path.mtu, saved.mtu);
            let search = std::mem::replace(&mut self.link.path.search, saved.search);
            let saved = Saved { congestion, pacer, rtt, ecn, losses, mtu, search };
            left.saved = was_validated.then(|| Box::new(saved));
            self.on_other_size();
        }
        self.link.path.address = candidate.address;
        if self.link.path.is_validated() {
            // A check of it that began while the peer was elsewhere proves nothing when it runs out.
            self.link.path.probe.end();
        } else if !self.link.path.probe.is_under_way() && self.common.phase == Phase::Confirmed {
            self.link.path.probe.begin(now, patience);
        }
        self.leave(left, patience);
        self.link.paced_until = None;
        self.link.asks.moved(&self.course());
        // FEC-52, rule 7.
        self.protect.send.release_all();
        if is_narrow {
            self.protect.send.shrink();
        }
        self.protect.send.stir();
        self.drain_orphans();
        self.announce_reset_token();
        if self.common.side.is_client() {
            // RFC 9000 §9.2: what does not only probe makes the server follow.
            self.life.lifecycle.ping();
        }
        self.common.qlog.path(self.common.now, &self.link.path);
        if self.link.path.is_validated() {
            self.tell_moved();
        }
        self.link.candidates.stir();
    }

    /// What becomes of the path that was in use.
    fn leave(&mut self, mut left: Candidate, patience: Patience) {
        if left.role == Role::Fallback {
            for candidate in
                self.link.candidates.iter_mut().filter(|candidate| candidate.role == Role::Fallback)
            {
                candidate.role = Role::Seen;
            }
            if self.common.side.is_server() && self.common.phase == Phase::Confirmed {
                // RFC 9000 §9.3.3: if the peer is still there, it says so, and is followed back.
                left.probe.begin(self.common.now, patience);
            }
        } else if self.common.phase == Phase::Confirmed
            && (self.common.side.is_client()
                || !left.probe.is_under_way()
                || left.probe.has_failed(self.common.now))
        {
            self.forget(&left);
            return;
        }
        self.add_candidate(left);
    }

    /// The id of a candidate goes into use. Returns the number of the one that was, if it is another.
    fn exchange_ids(&mut self, lent: Option<u64>) -> Option<u64> {
        let lent = lent?;
        // The peer may have retired it meanwhile.
        let lent = self.link.cids.lent(lent).map(|_| lent).or_else(|| self.link.cids.lend())?;
        let old = self.link.cids.exchange(lent)?;
        for candidate in self.link.candidates.iter_mut() {
            candidate.cid = candidate.cid.or(Some(old)).filter(|cid| *cid != lent);
        }
        self.link.candidates.kept = self.link.candidates.kept.filter(|kept| kept.cid != lent);
        Some(old)
    }

    /// A state for a path of which nothing is known.
    fn unknown(&self, is_v6: bool) -> Saved {
        // RFC 9000 §14.3: another path, another size.
        let (mtu, search) = self.first_size(is_v6);
        Saved {
            congestion: self.common.config.congestion.build(mtu as u64, self.common.now),
            pacer: crate::cc::Pacer::new(mtu as u64, self.common.now),
            rtt: Rtt::new(self.common.config.initial_rtt.unwrap_or(UNKNOWN_RTT)),
            ecn: Marking::new(self.common.config.ecn),
            losses: Losses::default(),
            mtu,
            search,
        }
    }

    /// Time is up for something, or something is to be sent: the first of it.
    pub(super) fn on_path_time(&mut self) {
        if self.link.path.probe.has_failed(self.common.now) {
            self.on_path_failed();
        }
        self.on_size_time();
        let mut at = 0;
        while at < self.link.candidates.len() {
            let (now, settled) = (self.common.now, self.link.path.is_validated());
            let candidate = self.link.candidates.get_mut(at);
            let failed = candidate.probe.has_failed(now);
            if failed {
                candidate.probe.end();
            }
            let over = candidate.until <= now && (candidate.role != Role::Fallback || settled);
            if over || (failed && matches!(candidate.role, Role::Seen | Role::Ours)) {
                let candidate = self.link.candidates.remove(at);
                self.forget(&candidate);
                if candidate.role == Role::Ours {
                    self.common.stats.failed_moves += 1;
                    self.common.events.push_back(Event::NotMoved(candidate.address));
                }
            } else {
                at += 1;
            }
        }
    }

    /// The path in use does not answer.
    fn on_path_failed(&mut self) {
        self.link.path.probe.end();
        let failed = self.link.path.address;
        let last = self.link.candidates.position(|candidate| candidate.role == Role::Fallback);
        // Of a server whose client was followed within the handshake, the one that has answered since.
        let answered = |candidate: &Candidate| candidate.role == Role::Seen && candidate.proof.is_validated();
        let seen = || self.link.candidates.position(answered).filter(|_| self.common.side.is_server());
        if let Some(at) = last.or_else(seen) {
            self.move_to(at);
            if self.common.side.is_client() {
                self.common.events.push_back(Event::NotMoved(failed));
            }
        } else if !self.link.path.is_validated() {
            // There is no other way: as long as the connection lives, this one is tried. RFC 9000 §9.3.2
            // would have us end at once; the idle timeout does.
            let patience = self.patience();
            self.link.path.probe.begin(self.common.now, patience);
        }
    }

    /// The application hears where the connection is now.
    fn tell_moved(&mut self) {
        if self.link.candidates.told != self.link.path.number {
            self.link.candidates.told = self.link.path.number;
            self.link.candidates.preferred |= self.is_at_preferred();
            self.common.stats.moves += 1;
            self.common.events.push_back(Event::Moved(self.link.path.address));
        }
    }

    fn is_at_preferred(&self) -> bool {
        let preferred = self.common.peer.as_ref().and_then(|peer| peer.preferred_address);
        preferred.is_some_and(|p| match self.link.path.address.remote {
            SocketAddr::V4(remote) => p.ipv4 == Some(remote),
            SocketAddr::V6(remote) => p.ipv6 == Some(remote),
        })
    }

    fn add_candidate(&mut self, candidate: Candidate) {
        if let Some(evicted) = self.link.candidates.add(candidate) {
            self.forget(&evicted);
        }
        self.link.candidates.stir();
    }

    /// A candidate is given up, and its id with it; unless it is where the peer was seen and could not be
    /// reached.
    fn forget(&mut self, candidate: &Candidate) {
        let Some(cid) = candidate.cid else { return };
        let old = match candidate.peer_uses {
            Some(peer_uses) if candidate.role == Role::Seen && !candidate.proof.is_validated() => {
                self.link.candidates.kept.replace(Kept { peer_uses, cid }).map(|kept| kept.cid)
            }
            _ => Some(cid),
        };
        self.give_back(old);
    }

    /// The peer answers again.
    fn release_kept(&mut self) {
        let kept = self.link.candidates.kept.take();
        self.give_back(kept.map(|kept| kept.cid));
    }

    /// An id of the peer's is retired when nothing needs it any more.
    fn give_back(&mut self, cid: Option<u64>) {
        let Some(cid) = cid else { return };
        let is_kept = self.link.candidates.kept.is_some_and(|kept| kept.cid == cid);
        if is_kept || self.link.candidates.position(|candidate| candidate.cid == Some(cid)).is_some() {
            return;
        }
        if let Err(error) = self.link.cids.give_back(cid) {
            self.fail(error);
        }
    }

    /// A candidate of which nothing is known, but that it is.
    fn candidate(&mut self, address: Address, role: Role) -> Candidate {
        Candidate {
            address,
            role,
            cid: None,
            peer_uses: None,
            proof: Proof::default(),
            probe: Probe::default(),
            number: self.link.candidates.number(),
            saved: None,
            until: self.common.now,
        }
    }

    /// How long a validation waits.
    //
    // RFC 9000 §8.2.4: three times the probe timeout, of this path or of one of which nothing is known. It is
    // repeated by the probe timeout that we know: §8.2.1 would have us wait as a first Initial packet does,
    // which is a second in which the connection stands still. Eight challenges with doubled waits are no
    // load.
    fn patience(&self) -> Patience {
        let known = self.pto();
        let unknown = Rtt::new(self.common.config.initial_rtt.unwrap_or(UNKNOWN_RTT)).pto()
            + self.link.recovery.max_ack_delay();
        Patience { wait: known, all: 3 * known.max(unknown) }
    }

    /// Nothing is due: when will something be?
    pub(crate) fn rest_paths(&mut self) {
        let in_use = self.link.path.probe.due(self.link.path.amplification_budget() >= LEAST);
        let in_use = in_use.into_iter().chain(self.size_due()).min();
        self.link.candidates.rest(in_use, self.link.path.is_validated());
    }

    /// Whether challenges and answers can be written.
    pub(crate) fn may_probe_paths(&self) -> bool {
        self.common.phase > Phase::Handshake && self.link.keys.has(Space::Data)
    }
}

/// RFC 9000 §21.5.3, §21.5.6: a server elsewhere does not have its clients talk to their own hosts, where
/// services are often open to whoever asks. Where "any address" is no host, the system takes it for this one.
fn may_be_preferred(ip: IpAddr, of: IpAddr) -> bool {
    let (ip, of) = (ip.to_canonical(), of.to_canonical());
    !ip.is_unspecified() && !ip.is_multicast() && (!ip.is_loopback() || of.is_loopback())
}

/// Whether a packet of these frames says nothing of where its sender is (RFC 9000 §9.1).
fn is_probing(payload: &[u8]) -> bool {
    Frames::new(payload).all(|frame| frame.is_ok_and(|frame| frame.is_probing()))
}
