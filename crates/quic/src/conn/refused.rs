//! What the system refuses to send: it is not lost, and no sign of congestion.

use std::net::{IpAddr, SocketAddr};

use quickset_base::{Batch, Datagram, Duration, Time};
use quickset_wire::Space;

use super::Connection;
use crate::error::Closed;
use crate::packet::{Phase, Token};
use crate::refusal::{Obstacle, Refusal};

/// What the system takes nothing for, and until when it is not asked again.
///
/// What it refuses costs the network nothing, so that it is tried again at a pace of its own: soon at first,
/// then after an eighth of the time that it has lasted. What can be sent as it is, smaller or from another
/// address, is sent at once.
#[derive(Debug, Default)]
pub(crate) struct Blockade {
    /// The first packets of the batch that was made last, by space.
    first: [u64; 3],
    /// A batch was handed out of which nothing was heard.
    tried: bool,
    /// What was said last, as long as nothing has left since.
    refusal: Option<Box<Refusal>>,
    since: Time,
    /// Nothing is tried before.
    until: Option<Time>,
    /// Where a server was reached by its client, and cannot send from.
    home: Option<IpAddr>,
}

impl Blockade {
    /// Whether nothing is to be tried now.
    #[inline]
    pub(crate) fn holds(&mut self, now: Time) -> bool {
        self.until = self.until.filter(|until| *until > now);
        self.until.is_some()
    }

    /// Whether nothing was to be tried when that was asked last.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.until.is_some()
    }

    /// When to try again.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.until
    }

    /// Something has changed, and may help.
    pub(crate) fn lift(&mut self) {
        self.until = None;
    }

    /// A batch may be made, beginning with these packets. The one before has left, when nobody said
    /// otherwise.
    #[inline]
    pub(crate) fn begin(&mut self, first: [u64; 3]) {
        self.first = first;
        if std::mem::take(&mut self.tried) && self.refusal.is_some() {
            tracing::debug!("the system takes datagrams again");
            self.refusal = None;
        }
    }

    /// A batch was made.
    #[inline]
    pub(crate) fn handed_out(&mut self) {
        self.tried = true;
    }

    /// What stands in the way, if something does.
    pub(crate) fn verdict(&self) -> Option<Refusal> {
        self.refusal.as_deref().cloned()
    }

    fn on_refused(&mut self, now: Time, refusal: Refusal) {
        self.tried = false;
        if self.refusal.is_none() {
            tracing::debug!(said = %refusal.words, "the system refuses to send");
            self.since = now;
        }
        self.refusal = Some(Box::new(refusal));
    }

    /// Nothing is tried for a while. Returns how long that has been so.
    fn hold(&mut self, now: Time, (least, most): (Duration, Duration)) -> Duration {
        let lasts = now.since(self.since);
        self.until = Some(now + (lasts / 8).clamp(least, most));
        lasts
    }
}

/// Of a batch.
#[derive(Clone, Copy, Debug)]
struct Missing {
    datagrams: u64,
    bytes: u64,
    /// The smallest.
    least: usize,
}

impl Missing {
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
    pub fn not_sent(&mut self, now: Time, batch: &Batch, left: u64, refusal: Refusal) {
        self.now = now.max(self.now);
        let missing = Missing::of(batch, left);
        if missing.datagrams == 0 {
            return;
        }
        self.stats.refused_datagrams += missing.datagrams;
        self.stats.sent_datagrams -= missing.datagrams;
        self.stats.sent_bytes -= missing.bytes;
        if !self.lifecycle.is_open() {
            // A farewell is said once more when the peer asks for it (RFC 9000 §10.2.1).
            return;
        }
        let here = batch.path == self.path.address;
        if here {
            self.path.proof.on_refused(missing.bytes);
            self.path.ecn.on_refused(missing.datagrams);
        } else if let Some(way) = self.candidates.iter_mut().find(|way| way.address == batch.path) {
            way.proof.on_refused(missing.bytes);
        }
        let is_size = refusal.obstacle == Obstacle::Size;
        let is_larger = is_size && missing.least > self.path.mtu;
        if is_larger {
            self.on_size_refused(missing.least);
        }
        self.take_back(left);
        if !here || is_larger {
            // Another way is not the one in use: what asks whether it works has timers of its own.
            self.blockade.tried = false;
            return;
        }
        self.blockade.on_refused(self.now, refusal);
        let goes_on = if is_size { self.shrink(missing.least) } else { self.unpin() };
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
    pub fn undelivered(&mut self, now: Time, remote: SocketAddr, quoted: &[u8], refusal: Refusal) -> bool {
        self.now = now.max(self.now);
        let id = self.cids.remote();
        let is_ours = quoted.first().is_some_and(|first| first & 0x80 != 0)
            && quoted.get(5).is_some_and(|len| usize::from(*len) == id.len())
            && quoted[6..].starts_with(id);
        let is_believed = is_ours && remote == self.path.address.remote && refusal.obstacle != Obstacle::Size;
        if !(is_believed && self.is_unheard() && self.lifecycle.is_open()) {
            return false;
        }
        self.lifecycle.vanish();
        self.over(Closed::Unreachable(refusal));
        true
    }

    /// A client whose server has said nothing yet.
    fn is_unheard(&self) -> bool {
        self.side.is_client() && self.phase == Phase::Handshake && self.stats.received_packets == 0
    }

    /// What was in packets that did not leave waits to be sent again.
    fn take_back(&mut self, left: u64) {
        let mut settled = std::mem::take(&mut self.scratch.settled);
        let back = self.recovery.take_back(&self.blockade.first, left, &mut settled.lost);
        self.stats.sent_packets -= back.packets;
        for token in &settled.lost {
            match token {
                // Nothing else would say it before the peer asks.
                Token::Ack { space, .. } => self.acks[space.index()].soon(self.now),
                Token::MtuProbe { .. } => self.on_size_untried(),
                _ => {}
            }
        }
        self.lose(&mut settled.lost, true);
        self.scratch.settled = settled;
        for space in Space::ALL.into_iter().filter(|space| back.eliciting[space.index()]) {
            if space != Space::Data || self.recovery.pto_count() > 0 {
                // A probe passes the window, and what was to be one still does (RFC 9002 §6.2.4, §7.5).
                let probes = &mut self.outbox.probes[space.index()];
                *probes = (*probes).max(1);
            } else {
                // It may have held nothing that is sent again.
                self.lifecycle.ping();
            }
        }
    }

    /// Whether the connection can go on at once from another address than the one that it is pinned to.
    fn unpin(&mut self) -> bool {
        let obstacle = self.blockade.refusal.as_ref().map(|refusal| refusal.obstacle);
        let Some(home) = self.path.address.local.filter(|_| self.phase == Phase::Confirmed) else {
            return false;
        };
        match obstacle {
            Some(Obstacle::Source | Obstacle::Route) if self.side.is_client() => {
                // RFC 9000 §9: it moves, from wherever the system thinks best.
                self.rebound(self.now);
                true
            }
            Some(Obstacle::Source) => {
                // RFC 9000 §9: a server does not move. But what leaves from another address of it may yet
                // arrive, behind a NAT of its own for example, and what does not leave never does.
                self.blockade.home = Some(home);
                self.path.address.local = None;
                true
            }
            _ => false,
        }
    }

    /// A server whose address had gone was reached by it again.
    #[inline]
    pub(super) fn come_home(&mut self, datagrams: &[Datagram]) {
        let Some(home) = self.blockade.home else { return };
        if datagrams.iter().any(|datagram| datagram.path.local == Some(home)) {
            self.blockade.home = None;
            self.path.address.local = Some(home);
        }
    }

    /// Nothing helps now. Perhaps it does in a while.
    fn wait_and_see(&mut self) {
        let Some(refusal) = self.blockade.verdict() else { return };
        let is_full = refusal.obstacle == Obstacle::Room;
        let lasts = self.blockade.hold(self.now, if is_full { FULL } else { SHUT });
        if self.is_unheard() && !is_full && lasts >= PATIENCE {
            self.lifecycle.vanish();
            self.over(Closed::Unreachable(refusal));
        }
    }

    /// Why a connection ends of which nothing was heard.
    pub(super) fn silence(&self) -> Closed {
        self.blockade.verdict().map_or(Closed::TimedOut, Closed::Unreachable)
    }
}

/// How soon the system is asked again, at first and at last: where there was no room, and where something
/// else is in the way.
const FULL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
const SHUT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// So long a handshake of which nothing leaves is tried: an interface may be on its way.
const PATIENCE: Duration = Duration::from_millis(500);
