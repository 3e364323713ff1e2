//! What the system refuses to send: it is not lost, and no sign of congestion.

use std::net::SocketAddr;

use quickset_base::{Batch, Duration, Time};
use quickset_wire::Space;

use super::Connection;
use crate::error::Closed;
use crate::packet::{FrameToken, Phase};
use crate::refusal::{Obstacle, SystemRefusal};

/// Of a batch.
#[derive(Clone, Copy, Debug)]
struct MissingDatagrams {
    datagrams: u64,
    bytes: u64,
    /// The smallest.
    least: usize,
}

impl MissingDatagrams {
    fn of(batch: &Batch, left: u64) -> Self {
        let mut missing = Self { datagrams: 0, bytes: 0, least: usize::MAX };
        for (at, segment) in batch.segments().enumerate().filter(|(at, _)| left >> at & 1 == 0) {
            debug_assert!(at < Batch::MAX_SEGMENTS);
            missing.datagrams += 1;
            missing.bytes += segment.len() as u64;
            missing.least = missing.least.min(segment.len());
        }
        missing
    }
}

impl Connection {
    /// The system did not take the batch that [`poll`](quickset_base::Machine::poll) returned last, but for
    /// those of its datagrams whose bit in `left` is set, the first being the lowest. To be called before the
    /// next `poll`.
    ///
    /// What did not leave goes again, as soon as it can: in smaller datagrams or from another address at
    /// once, otherwise when the system is asked again, in between 10 ms and a second (where there was no
    /// room, 1 ms and 50 ms). It was not lost by the network, and congestion control, round trips and probe
    /// timeouts do not hear of it. A handshake of which nothing has left for half a second ends with
    /// [`Closed::Unreachable`]; a connection does when the idle timeout passes so.
    pub fn not_sent(&mut self, now: Time, batch: &Batch, left: u64, refusal: SystemRefusal) {
        self.common.now = now.max(self.common.now);
        let missing = MissingDatagrams::of(batch, left);
        if missing.datagrams == 0 {
            return;
        }
        self.common.stats.refused_datagrams += missing.datagrams;
        self.common.stats.sent_datagrams -= missing.datagrams;
        self.common.stats.sent_bytes -= missing.bytes;
        if !self.life.lifecycle.is_open() {
            // A farewell is said once more when the peer asks for it (RFC 9000 §10.2.1), or when it is time.
            return;
        }
        let here = batch.path == self.link.path.address;
        if here {
            self.link.path.proof.on_refused(missing.bytes);
            self.link.path.ecn.on_refused(missing.datagrams);
        } else if let Some(way) = self.link.candidates.iter_mut().find(|way| way.address == batch.path) {
            way.proof.on_refused(missing.bytes);
        }
        let is_size = refusal.obstacle == Obstacle::Size;
        let is_larger = is_size && missing.least > self.link.path.mtu;
        if is_larger {
            self.link.on_size_refused(&self.common, missing.least);
        }
        self.take_back(left);
        if !here || is_larger {
            // Another way is not the one in use: what asks whether it works has timers of its own.
            self.link.blockade.take_no_word();
            return;
        }
        self.link.blockade.on_refused(self.common.now, refusal);
        let goes_on = if is_size { self.link.shrink(&mut self.common, missing.least) } else { self.unpin() };
        if is_size && goes_on {
            self.protect.recode(&mut self.traffic, self.common.now);
        }
        if !goes_on {
            self.wait_and_see();
        }
    }

    /// The network, as it says, sent a datagram to `remote` back (ICMP), of which `quoted` is the beginning.
    /// A client whose server has said nothing yet, and of whose packets this is one, ends with
    /// [`Closed::Unreachable`]; true then.
    //
    // RFC 9000 §14.2.1: anybody can say so, who has not seen the id that the packet was for must not be
    // believed; and what is told later is no end of a connection. That the packet was too large is no news
    // either: it has the least size that QUIC has.
    pub fn undelivered(
        &mut self,
        now: Time,
        remote: SocketAddr,
        quoted: &[u8],
        refusal: SystemRefusal,
    ) -> bool {
        self.common.now = now.max(self.common.now);
        let id = self.link.cids.remote();
        let is_ours = quoted.first().is_some_and(|first| first & 0x80 != 0)
            && quoted.get(5).is_some_and(|len| usize::from(*len) == id.len())
            && quoted[6..].starts_with(id);
        let is_believed =
            is_ours && remote == self.link.path.address.remote && refusal.obstacle != Obstacle::Size;
        if !(is_believed && self.is_unheard() && self.life.lifecycle.is_open()) {
            return false;
        }
        self.life.lifecycle.vanish();
        self.over(Closed::Unreachable(refusal));
        true
    }

    /// A client whose server has said nothing yet.
    fn is_unheard(&self) -> bool {
        self.common.side.is_client()
            && self.common.phase == Phase::Handshake
            && self.common.stats.received_packets == 0
    }

    /// What was in packets that did not leave waits to be sent again.
    fn take_back(&mut self, left: u64) {
        let mut settled = self.scratch.settled.take().unwrap_or_default();
        let back = self.link.path.recovery.take_back(&self.link.blockade.first, left, &mut settled.lost);
        self.common.stats.sent_packets -= back.packets;
        for token in &settled.lost {
            match token {
                // Nothing else would say it before the peer asks.
                FrameToken::Ack { space, .. } => {
                    if let Some(acks) = self.link.acks.get_mut(*space) {
                        acks.soon(self.common.now);
                    }
                }
                FrameToken::MtuProbe { .. } => self.link.on_size_untried(),
                _ => {}
            }
        }
        self.lose(&mut settled.lost, true);
        self.scratch.settled = Some(settled);
        for space in Space::ALL.into_iter().filter(|space| back.eliciting[space.index()]) {
            if space != Space::Data || self.link.path.recovery.pto_count() > 0 {
                // A probe passes the window, and what was to be one still does (RFC 9002 §6.2.4, §7.5).
                let probes = &mut self.link.probes[space.index()];
                *probes = (*probes).max(1);
            } else {
                // It may have held nothing that is sent again.
                self.life.lifecycle.ping();
            }
        }
    }

    /// Whether the connection can go on at once from another address than the one that it is pinned to.
    fn unpin(&mut self) -> bool {
        let obstacle = self.link.blockade.obstacle();
        let Some(home) = self.link.path.address.local.filter(|_| self.common.phase == Phase::Confirmed)
        else {
            return false;
        };
        match obstacle {
            Some(Obstacle::Source | Obstacle::Route) if self.common.side.is_client() => {
                // RFC 9000 §9: it moves, from wherever the system thinks best.
                self.rebound(self.common.now);
                true
            }
            Some(Obstacle::Source) => {
                // RFC 9000 §9: a server does not move. But what leaves from another address of it may yet
                // arrive, behind a NAT of its own for example, and what does not leave never does.
                self.link.blockade.home = Some(home);
                self.link.path.address.local = None;
                true
            }
            _ => false,
        }
    }

    /// Nothing helps now. Perhaps it does in a while.
    fn wait_and_see(&mut self) {
        let Some(refusal) = self.link.blockade.verdict() else { return };
        let is_full = refusal.obstacle == Obstacle::Room;
        let (least, most) = if is_full { FULL } else { SHUT };
        let lasts = self.link.blockade.hold(self.common.now, least, most);
        if self.is_unheard() && !is_full && lasts >= PATIENCE {
            self.life.lifecycle.vanish();
            self.over(Closed::Unreachable(refusal));
        }
    }

    /// Why a connection ends of which nothing was heard.
    pub(super) fn silence(&self) -> Closed {
        self.link.blockade.verdict().map_or(Closed::TimedOut, Closed::Unreachable)
    }
}

/// How soon the system is asked again, at first and at last: where there was no room, and where something
/// else is in the way.
const FULL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
const SHUT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// So long a handshake of which nothing leaves is tried: an interface may be on its way.
const PATIENCE: Duration = Duration::from_millis(500);
