//! Who moves when: other addresses of the peer, our own, and the server's preferred one (RFC 9000 §9).

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use quickset_base::{AddressPair as Address, Datagram, Duration, Time};
use quickset_wire::frame::Frames;
use quickset_wire::{PacketType, Space};

use super::PacketLink;
use super::size::first_size;
use crate::common::Common;
use crate::error::TransportError;
use crate::event::{Event, MoveError, Signal};
use crate::packet::{MIN_INITIAL, Phase};
use crate::path::{
    AddressProof, Candidate, CandidateArrival, CandidateRole, KeptId, LEAST, Marking, PathProbe,
    ProbePatience, Saved,
};
use crate::protect::Losses;
use crate::recovery::{Rtt, UNKNOWN_RTT};

impl PacketLink {
    /// Challenges a path that we would like to use.
    pub(crate) fn try_path(
        &mut self,
        cx: &Common,
        address: Address,
    ) -> Result<Result<(), MoveError>, TransportError> {
        if self.candidates.position(|candidate| candidate.role == CandidateRole::Ours).is_some() {
            return Ok(Err(MoveError::UnderWay));
        }
        // RFC 9000 §9.5: no id on two paths.
        let cid = self.cids.lend();
        if cid.is_none() && !self.cids.is_remote_empty() {
            return Ok(Err(MoveError::NoId));
        }
        let mut candidate = Candidate {
            proof: AddressProof::chosen(),
            cid,
            until: Time::MAX,
            ..self.candidate(cx, address, CandidateRole::Ours)
        };
        candidate.probe.begin(cx.now, self.patience(cx));
        self.add_candidate(candidate)?;
        Ok(Ok(()))
    }

    /// The handshake is confirmed: a client goes where the server would rather be reached (RFC 9000 §9.6),
    /// once it has an answer from there (RFC 9000 §9.6.2). A move of the client's own is refused until that
    /// is settled, where RFC 9000 §9.6.3 would have it tried at the same time.
    pub(crate) fn follow_preferred(&mut self, cx: &Common) -> Result<(), TransportError> {
        let preferred = cx.peer.as_ref().and_then(|peer| peer.preferred_address.as_deref());
        let Some(preferred) = preferred.filter(|_| cx.side.is_client() && cx.config.migration.follow) else {
            return Ok(());
        };
        // The other family may not be there at all, and this one is.
        let remote = match self.path.address.remote {
            SocketAddr::V4(_) => preferred.ipv4.map(SocketAddr::V4),
            SocketAddr::V6(_) => preferred.ipv6.map(SocketAddr::V6),
        };
        let here = self.path.address.remote;
        if let Some(remote) = remote.filter(|remote| {
            *remote != here && may_be_preferred(remote.ip(), here.ip()) && remote.port() != 0
        }) {
            // RFC 9000 §9.6.1: there is an id, the oldest to spare: it came with the address.
            let _ = self.try_path(cx, Address { remote, local: self.path.address.local })?;
        }
        Ok(())
    }

    /// An authentic packet that is no copy came from elsewhere: the place is remembered, and challenged.
    pub(crate) fn greet(&mut self, cx: &Common) -> Result<(), TransportError> {
        let Some(arrival) = &mut self.candidates.arrival else { return Ok(()) };
        if std::mem::replace(&mut arrival.is_known, true) {
            return Ok(());
        }
        let CandidateArrival { address, size, to, .. } = *arrival;
        let at = if let Some(at) = self.candidates.find(&address) {
            at
        } else {
            let Ok(cid) = self.id_for(to) else { return Ok(()) };
            let mut candidate =
                Candidate { cid, peer_uses: to, ..self.candidate(cx, address, CandidateRole::Seen) };
            if cx.phase == Phase::Confirmed {
                candidate.probe.begin(cx.now, self.patience(cx));
            }
            self.add_candidate(candidate)?;
            self.candidates.len() - 1
        };
        let until = cx.now + self.patience(cx).all;
        let candidate = self.candidates.get_mut(at);
        candidate.proof.on_received(size);
        candidate.until = candidate.until.max(until);
        self.candidates.stir();
        Ok(())
    }

    /// The id that packets to a new address of the peer carry, whose packets come to our id number `to`: a
    /// lent one, or `None` for that of the path in use. Without any it cannot be spoken to.
    fn id_for(&mut self, to: Option<u64>) -> Result<Option<u64>, MoveError> {
        // RFC 9000 §9.5: the peer did not change its own, so the network moved it and nothing is given away
        // by keeping ours. An empty id says nothing anyway.
        if self.cids.is_remote_empty() || (to.is_some() && to == self.candidates.peer_uses) {
            return Ok(None);
        }
        let paired =
            to.and_then(|to| self.candidates.paired(to)).filter(|cid| self.cids.lent(*cid).is_some());
        let lent = paired.or_else(|| self.cids.lend());
        // When it is not known which of our ids the peer uses, it may be this one.
        if lent.is_none() && self.candidates.peer_uses.is_some() { Err(MoveError::NoId) } else { Ok(lent) }
    }

    /// A packet from elsewhere was read whose number is the largest so far: unless it only probes, the peer
    /// is there now (RFC 9000 §9.3).
    pub(crate) fn arrived(
        &mut self,
        cx: &mut Common,
        kind: PacketType,
        payload: &Bytes,
    ) -> Result<(), TransportError> {
        let is_move = cx.side.is_server() && kind == PacketType::OneRtt && !is_probing(payload);
        let at = self.candidates.arrival.and_then(|arrival| self.candidates.find(&arrival.address));
        let Some(at) = at.filter(|_| is_move) else { return Ok(()) };
        let is_validated = self.candidates.get(at).proof.is_validated();
        if is_validated || cx.now >= self.candidates.wary_until {
            self.move_to(cx, at)?;
            self.candidates.arrival = None;
        } else if !self.candidates.get(at).probe.is_under_way() {
            let patience = self.patience(cx);
            self.candidates.get_mut(at).probe.begin(cx.now, patience);
        }
        Ok(())
    }

    /// The same before the handshake is confirmed. RFC 9000 §9: no endpoint moves then; but nobody asks a
    /// NAT, and what is sent to where its client was is lost. So a server goes on where the newest packet of
    /// the handshake came from: it has nothing to challenge the address with yet, and may send it thrice of
    /// what comes from there until it has.
    pub(crate) fn arrived_early(&mut self, cx: &mut Common, kind: PacketType) -> Result<(), TransportError> {
        let is_move = cx.side.is_server() && matches!(kind, PacketType::Initial | PacketType::Handshake);
        let at = self.candidates.arrival.and_then(|arrival| self.candidates.find(&arrival.address));
        let Some(at) = at.filter(|_| is_move) else { return Ok(()) };
        if self.candidates.get(at).proof.is_validated() || cx.now >= self.candidates.wary_until {
            self.candidates.strayed = true;
            self.move_to(cx, at)?;
            self.candidates.arrival = None;
        }
        Ok(())
    }

    /// The handshake is confirmed: where it took us is asked for what it has not proved, and so is where it
    /// began.
    pub(crate) fn challenge_moved(&mut self, cx: &Common) {
        if self.path.is_validated() {
            return;
        }
        let (now, patience) = (cx.now, self.patience(cx));
        self.path.probe.begin(now, patience);
        for candidate in self.candidates.iter_mut() {
            candidate.probe.begin(now, patience);
            candidate.until = candidate.until.max(now + patience.all);
        }
        self.candidates.stir();
    }

    /// PATH_CHALLENGE: answered on the path that it came on (RFC 9000 §8.2.2).
    pub(crate) fn on_path_challenge(&mut self, cx: &Common, data: [u8; 8]) {
        if cx.phase == Phase::Handshake {
            // There may be no keys for an answer yet.
            return;
        }
        match self.candidates.arrival.map(|arrival| self.candidates.find(&arrival.address)) {
            None => self.path.probe.on_challenge(data),
            Some(Some(at)) => self.candidates.get_mut(at).probe.on_challenge(data),
            Some(None) => {}
        }
        self.candidates.stir();
    }

    /// PATH_RESPONSE: whatever path it came on, it validates that of the challenge (RFC 9000 §8.2.3).
    pub(crate) fn on_path_response(&mut self, cx: &mut Common, data: [u8; 8]) -> Result<(), TransportError> {
        let patience = self.patience(cx);
        if let Some(proven) = self.path.probe.on_response(data) {
            self.path.proof.prove(proven.full);
            self.path.recovery.assume_rtt(cx.now.since(proven.sent));
            if proven.full {
                self.tell_moved(cx);
                self.release_kept()?;
            } else {
                // RFC 9000 §8.2.1: the address is the peer's. Whether datagrams of 1200 bytes get there is
                // not known.
                self.path.probe.begin(cx.now, patience);
            }
            self.candidates.stir();
            return Ok(());
        }
        for at in 0..self.candidates.len() {
            let candidate = self.candidates.get_mut(at);
            let Some(proven) = candidate.probe.on_response(data) else { continue };
            candidate.proof.prove(proven.full);
            let is_goal = proven.full && candidate.role == CandidateRole::Ours;
            if !proven.full {
                candidate.probe.begin(cx.now, patience);
            }
            if is_goal {
                self.move_to(cx, at)?;
                self.path.recovery.assume_rtt(cx.now.since(proven.sent));
            }
            if proven.full {
                self.release_kept()?;
            }
            self.candidates.stir();
            return Ok(());
        }
        Ok(())
    }

    /// The connection goes on over candidate number `at`.
    pub(crate) fn move_to(&mut self, cx: &mut Common, at: usize) -> Result<(), TransportError> {
        let mut candidate = self.candidates.remove(at);
        let (now, patience) = (cx.now, self.patience(cx));
        if !self.path.is_validated() && candidate.proof.is_validated() {
            // The peer was not there, or not for long: somebody sends copies of its packets (RFC 9000 §9.3.1,
            // §9.3.3).
            self.candidates.wary_until = now + patience.all;
            cx.stats.failed_moves += 1;
        }
        let like = self.path.is_like(&candidate.address)
            && candidate.saved.is_none()
            && candidate.role != CandidateRole::Ours;
        let (saved, number) = (candidate.saved.take(), candidate.number);
        let saved = if like {
            None
        } else {
            Some(saved.map_or_else(|| unknown(cx, candidate.address.remote.is_ipv6()), |saved| *saved))
        };
        let is_narrow = saved.as_ref().is_some_and(|saved| saved.mtu < self.path.mtu);
        let rtt = self.path.recovery.change_path(number, saved.as_ref().map(|saved| saved.rtt), now);
        let was_validated = self.path.is_validated();
        let mut left = Candidate {
            address: self.path.address,
            role: if was_validated { CandidateRole::Fallback } else { CandidateRole::Seen },
            cid: self.exchange_ids(candidate.cid),
            peer_uses: std::mem::replace(&mut self.candidates.peer_uses, candidate.peer_uses),
            proof: std::mem::replace(&mut self.path.proof, candidate.proof),
            probe: std::mem::replace(&mut self.path.probe, candidate.probe),
            number: std::mem::replace(&mut self.path.number, number),
            saved: None,
            until: now + patience.all,
        };
        if let Some(saved) = saved {
            let congestion = std::mem::replace(&mut self.path.congestion, saved.congestion);
            let pacer = std::mem::replace(&mut self.path.pacer, saved.pacer);
            let ecn = std::mem::replace(&mut self.path.ecn, saved.ecn);
            let mtu = std::mem::replace(&mut self.path.mtu, saved.mtu);
            let search = std::mem::replace(&mut self.path.search, saved.search);
            self.moved.losses = Some((Box::new(saved.losses), left.number));
            let saved = Saved { congestion, pacer, rtt, ecn, losses: Losses::default(), mtu, search };
            left.saved = was_validated.then(|| Box::new(saved));
            self.on_other_size();
        }
        self.path.address = candidate.address;
        if self.path.is_validated() {
            // A check of it that began while the peer was elsewhere proves nothing when it runs out.
            self.path.probe.end();
        } else if !self.path.probe.is_under_way() && cx.phase == Phase::Confirmed {
            self.path.probe.begin(now, patience);
        }
        self.leave(cx, left, patience)?;
        self.held.paced_until = None;
        self.moved.is_narrow |= is_narrow;
        self.moved.is_under_way = true;
        self.announce_reset_token(cx);
        cx.qlog.path(cx.now, &self.path);
        if self.path.is_validated() {
            self.tell_moved(cx);
        }
        self.candidates.stir();
        Ok(())
    }

    /// What becomes of the path that was in use.
    pub(crate) fn leave(
        &mut self,
        cx: &mut Common,
        mut left: Candidate,
        patience: ProbePatience,
    ) -> Result<(), TransportError> {
        if left.role == CandidateRole::Fallback {
            for candidate in
                self.candidates.iter_mut().filter(|candidate| candidate.role == CandidateRole::Fallback)
            {
                candidate.role = CandidateRole::Seen;
            }
            if cx.side.is_server() && cx.phase == Phase::Confirmed {
                // RFC 9000 §9.3.3: if the peer is still there, it says so, and is followed back.
                left.probe.begin(cx.now, patience);
            }
        } else if cx.phase == Phase::Confirmed
            && (cx.side.is_client() || !left.probe.is_under_way() || left.probe.has_failed(cx.now))
        {
            return self.forget(&left);
        }
        self.add_candidate(left)
    }

    /// The id of a candidate goes into use. Returns the number of the one that was, if it is another.
    fn exchange_ids(&mut self, lent: Option<u64>) -> Option<u64> {
        let lent = lent?;
        // The peer may have retired it meanwhile.
        let lent = self.cids.lent(lent).map(|_| lent).or_else(|| self.cids.lend())?;
        let old = self.cids.exchange(lent)?;
        for candidate in self.candidates.iter_mut() {
            candidate.cid = candidate.cid.or(Some(old)).filter(|cid| *cid != lent);
        }
        self.candidates.kept = self.candidates.kept.filter(|kept| kept.cid != lent);
        Some(old)
    }

    /// The path in use does not answer.
    fn on_path_failed(&mut self, cx: &mut Common) -> Result<(), TransportError> {
        self.path.probe.end();
        let failed = self.path.address;
        let last = self.candidates.position(|candidate| candidate.role == CandidateRole::Fallback);
        // Of a server whose client was followed within the handshake, the one that has answered since.
        let answered =
            |candidate: &Candidate| candidate.role == CandidateRole::Seen && candidate.proof.is_validated();
        let seen = || self.candidates.position(answered).filter(|_| cx.side.is_server());
        if let Some(at) = last.or_else(seen) {
            self.move_to(cx, at)?;
            if cx.side.is_client() {
                cx.events.push_back(Event::NotMoved(failed));
            }
        } else if !self.path.is_validated() {
            // There is no other way: as long as the connection lives, this one is tried. RFC 9000 §9.3.2
            // would have us end at once; the idle timeout does.
            let patience = self.patience(cx);
            self.path.probe.begin(cx.now, patience);
        }
        Ok(())
    }

    /// The application hears where the connection is now.
    fn tell_moved(&mut self, cx: &mut Common) {
        if self.candidates.told != self.path.number {
            self.candidates.told = self.path.number;
            self.candidates.preferred |= self.is_at_preferred(cx);
            cx.stats.moves += 1;
            cx.events.push_back(Event::Moved(self.path.address));
        }
    }

    fn is_at_preferred(&self, cx: &Common) -> bool {
        let preferred = cx.peer.as_ref().and_then(|peer| peer.preferred_address.as_ref());
        preferred.is_some_and(|p| match self.path.address.remote {
            SocketAddr::V4(remote) => p.ipv4 == Some(remote),
            SocketAddr::V6(remote) => p.ipv6 == Some(remote),
        })
    }

    fn add_candidate(&mut self, candidate: Candidate) -> Result<(), TransportError> {
        if let Some(evicted) = self.candidates.add(candidate) {
            self.forget(&evicted)?;
        }
        self.candidates.stir();
        Ok(())
    }

    /// A candidate is given up, and its id with it; unless it is where the peer was seen and could not be
    /// reached.
    pub(crate) fn forget(&mut self, candidate: &Candidate) -> Result<(), TransportError> {
        let Some(cid) = candidate.cid else { return Ok(()) };
        let old = match candidate.peer_uses {
            Some(peer_uses) if candidate.role == CandidateRole::Seen && !candidate.proof.is_validated() => {
                self.candidates.kept.replace(KeptId { peer_uses, cid }).map(|kept| kept.cid)
            }
            _ => Some(cid),
        };
        self.give_back(old)
    }

    /// The peer answers again.
    fn release_kept(&mut self) -> Result<(), TransportError> {
        let kept = self.candidates.kept.take();
        self.give_back(kept.map(|kept| kept.cid))
    }

    /// An id of the peer's is retired when nothing needs it any more.
    pub(crate) fn give_back(&mut self, cid: Option<u64>) -> Result<(), TransportError> {
        let Some(cid) = cid else { return Ok(()) };
        let is_kept = self.candidates.kept.is_some_and(|kept| kept.cid == cid);
        if is_kept || self.candidates.position(|candidate| candidate.cid == Some(cid)).is_some() {
            return Ok(());
        }
        self.cids.give_back(cid)
    }

    /// A candidate of which nothing is known, but that it is.
    pub(crate) fn candidate(&mut self, cx: &Common, address: Address, role: CandidateRole) -> Candidate {
        Candidate {
            address,
            role,
            cid: None,
            peer_uses: None,
            proof: AddressProof::default(),
            probe: PathProbe::default(),
            number: self.candidates.number(),
            saved: None,
            until: cx.now,
        }
    }

    /// How long a validation waits.
    //
    // RFC 9000 §8.2.4: three times the probe timeout, of this path or of one of which nothing is known. It is
    // repeated by the probe timeout that we know: §8.2.1 would have us wait as a first Initial packet does,
    // which is a second in which the connection stands still. Eight challenges with doubled waits are no
    // load.
    pub(crate) fn patience(&self, cx: &Common) -> ProbePatience {
        let known = self.pto();
        let unknown =
            Rtt::new(cx.config.initial_rtt.unwrap_or(UNKNOWN_RTT)).pto() + self.path.recovery.max_ack_delay();
        ProbePatience { wait: known, all: 3 * known.max(unknown) }
    }

    /// Goes on over a path without waiting for an answer from there, and not back.
    pub(crate) fn go_on_from(&mut self, cx: &mut Common, candidate: Candidate) -> Result<(), TransportError> {
        self.add_candidate(candidate)?;
        self.move_to(cx, self.candidates.len() - 1)?;
        for candidate in
            self.candidates.iter_mut().filter(|candidate| candidate.role == CandidateRole::Fallback)
        {
            candidate.role = CandidateRole::Gone;
        }
        Ok(())
    }

    pub(crate) fn announce_reset_token(&mut self, cx: &mut Common) {
        if let Some(token) = self.cids.reset_token() {
            cx.signals.push_back(Signal::ResetToken(self.path.address, token));
        }
    }

    /// The probe timeout of the application space without back-off.
    pub(crate) fn pto(&self) -> Duration {
        self.path.recovery.pto(Space::Data)
    }

    /// What an amplification limit has to leave for anything to be sent. As long as there may be Initial
    /// packets to be padded, that is a datagram of full size; a new address may be sent little by little.
    pub(crate) fn least_datagram(&self) -> usize {
        if self.keys.has(Space::Initial) { MIN_INITIAL } else { LEAST }
    }

    /// RFC 9002 §6.2.2.1: at its amplification limit a server sets no probe timer.
    pub(crate) fn may_probe(&self) -> bool {
        !self.blockade.is_held() && self.path.amplification_budget() >= self.least_datagram()
    }

    /// A server whose address had gone was reached by it again.
    #[inline]
    pub(crate) fn come_home(&mut self, datagrams: &[Datagram]) {
        let Some(home) = self.blockade.home else { return };
        if datagrams.iter().any(|datagram| datagram.path.local == Some(home)) {
            self.blockade.home = None;
            self.path.address.local = Some(home);
        }
    }

    /// On the path in use.
    #[inline]
    pub(crate) fn count(&mut self, cx: &mut Common, datagram: &Datagram) {
        self.path.on_received(datagram.bytes.len());
        cx.stats.received_datagrams += 1;
        cx.stats.received_bytes += datagram.bytes.len() as u64;
    }

    /// Whether a datagram came on the path in use.
    #[inline]
    pub(crate) fn is_on_path(&self, datagram: &Datagram) -> bool {
        self.path.takes(&datagram.path) && !self.candidates.claims(&datagram.path)
    }

    /// Time is up for something, or something is to be sent: the first of it.
    /// True when the peer has to be asked for an answer.
    pub(crate) fn on_path_time(&mut self, cx: &mut Common) -> Result<bool, TransportError> {
        if self.path.probe.has_failed(cx.now) {
            self.on_path_failed(cx)?;
        }
        let asks = self.on_size_time(cx);
        let mut at = 0;
        while at < self.candidates.len() {
            let (now, settled) = (cx.now, self.path.is_validated());
            let candidate = self.candidates.get_mut(at);
            let failed = candidate.probe.has_failed(now);
            if failed {
                candidate.probe.end();
            }
            let over = candidate.until <= now && (candidate.role != CandidateRole::Fallback || settled);
            if over || (failed && matches!(candidate.role, CandidateRole::Seen | CandidateRole::Ours)) {
                let candidate = self.candidates.remove(at);
                self.forget(&candidate)?;
                if candidate.role == CandidateRole::Ours {
                    cx.stats.failed_moves += 1;
                    cx.events.push_back(Event::NotMoved(candidate.address));
                }
            } else {
                at += 1;
            }
        }
        Ok(asks)
    }

    /// What is known of the losses of a path that was left.
    pub(crate) fn keep_losses(&mut self, number: u8, losses: Losses) {
        let left = self.candidates.iter_mut().find(|candidate| candidate.number == number);
        if let Some(saved) = left.and_then(|left| left.saved.as_mut()) {
            saved.losses = losses;
        }
    }
}

/// A state for a path of which nothing is known.
fn unknown(cx: &Common, is_v6: bool) -> Saved {
    // RFC 9000 §14.3: another path, another size.
    let (mtu, search) = first_size(cx, is_v6);
    Saved {
        congestion: cx.config.congestion.build(mtu as u64, cx.now),
        pacer: crate::cc::Pacer::new(mtu as u64, cx.now),
        rtt: Rtt::new(cx.config.initial_rtt.unwrap_or(UNKNOWN_RTT)),
        ecn: Marking::new(cx.config.ecn),
        losses: Losses::default(),
        mtu,
        search,
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
