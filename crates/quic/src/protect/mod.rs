//! Forward erasure correction: runs of frames become source symbols, what is lost of them is recovered from
//! repair.
//!
//! *In:* frames that go out, as the bytes of a symbol; SOURCE_SYMBOL, REPAIR, SYMBOL_ACK and FEC_WINDOW; what
//! became of packets. *Out:* repair symbols; recovered symbols, whose frames `rx::dispatch` takes like
//! received ones; tokens that are acknowledged or lost at last.
//!
//! Two halves that share nothing: [`send`] has channels, policies and lanes, [`receive`] has decoders. What
//! each is told of the path comes from [`monitor`]; when what is repaired is the affair of a [`policy`].
//!
//! Invariants: congestion control, RTT and probe timeouts see every loss, recovered or not; nothing of the
//! extension is sent to a peer that did not offer it; each token that was held leaves once.
//!
//! Sources: `spec/fec.md` (FEC-n); FlEC (Michel et al., ToN 2022).

mod belief;
mod estimates;
mod monitor;
pub mod policy;
pub(crate) mod receive;
pub(crate) mod send;

use std::net::IpAddr;
use std::sync::Arc;

use quickset_base::number::{Float as _, index};
use quickset_base::{Duration, Reason, Time};
use quickset_wire::params::MAX_UNMARKED;
use quickset_wire::{FecDecoder, Schemes};

pub use estimates::Estimates;
#[cfg(test)]
pub(crate) use monitor::BlameVerdict;
pub(crate) use monitor::{Blame, Monitor, RoundTrips};
use receive::{DecoderOffer, ProtectReceiving};
use send::{PeerDecoder, ProtectSending, WindowSlot};

use crate::packet::{Channel, StreamFrame, StreamKey};
use crate::stats::FecStats;

/// What a connection does with forward erasure correction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fec {
    /// How many source symbols of each session we keep for decoding. The peer cannot repair losses older than
    /// that. One and a half round trips of packets is a good choice.
    ///
    /// 0: we decode nothing, but may send repair. The largest value is 2^20.
    pub window: u64,
    /// How many sessions the peer may have at a time. It needs one for each channel and code. The largest
    /// value is 2^29.
    pub sessions: u64,
    /// The largest symbol that we take, in bytes; symbols are never larger than a packet. Decoding may cost
    /// `sessions` times `window` times this much memory.
    pub symbol: u64,
    /// How many of the peer's first packets, 0 to 62, carry data that counts as symbols without being marked
    /// as such. They are those of a short transfer, in which each byte is waited for. We keep a copy of this
    /// data until as many more packets have come.
    pub unmarked: u64,
    /// What protects streams that have no protection of their own.
    pub protection: policy::Protection,
    /// Where connections to the same peer tell one another of its losses; `None`: each begins without
    /// knowledge.
    pub estimates: Option<Arc<Estimates>>,
}

setters! { Fec {
    with_window: window: u64,
    with_sessions: sessions: u64,
    with_symbol: symbol: u64,
    with_unmarked: unmarked: u64,
    with_protection: protection: policy::Protection,
    with_estimates: estimates: impl Into<Option<Arc<Estimates>>>,
} }

impl Default for Fec {
    fn default() -> Self {
        Self {
            window: 1024,
            sessions: 8,
            symbol: 1472,
            unmarked: 32,
            protection: policy::Protection::None,
            estimates: None,
        }
    }
}

/// The room.
#[derive(Debug)]
pub(crate) struct Protect {
    pub(crate) send: ProtectSending,
    /// `None` without an offer of ours, or once it is known that the peer made none.
    pub(crate) receive: Option<ProtectReceiving>,
    pub(crate) monitor: Monitor,
    pub(crate) blame: Blame,
    /// So many SIDs more are looked at if SYMBOL_ACKs of this packet name them.
    pub(crate) heeded: usize,
    /// What the next packet is for, when not for new data.
    pub(crate) due: Option<DuePacket>,
    /// The last packet was for repair, or a repeat.
    pub(crate) repaired: bool,
    /// Where other connections to this peer look, and when they were told last.
    shared: Option<(Arc<Estimates>, IpAddr)>,
    told: Time,
}

/// A packet that is not for new data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DuePacket {
    pub(crate) slot: WindowSlot,
    pub(crate) channel: Channel,
    /// In whose turn it goes.
    pub(crate) turn: StreamKey,
}

/// A symbol that was not copied: its lane may be told of those like it, each the next frame of the same
/// piece, together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike {
    pub(crate) lane: usize,
    pub(crate) frame: StreamFrame,
    /// Of the symbol.
    pub(crate) bytes: usize,
}

/// What is known of the losses of a path.
#[derive(Debug)]
pub(crate) struct Losses {
    monitor: Monitor,
    blame: Blame,
}

impl Default for Losses {
    fn default() -> Self {
        Self { monitor: Monitor::new(), blame: Blame::default() }
    }
}

impl Protect {
    /// A packet has room for a hundred SYMBOL_ACKs that name whole windows; an honest one names what was lost
    /// of a few.
    pub(crate) const HEEDED: usize = 1 << 16;

    /// Of these settings, with what is remembered of the peer.
    pub(crate) fn new(fec: Option<&Fec>, peer: IpAddr, now: Time) -> Self {
        let receive = fec.map(|fec| {
            ProtectReceiving::new(DecoderOffer {
                window: fec.window.min(MAX_WINDOW),
                sessions: fec.sessions.min(MAX_SESSIONS),
                // No datagram brings more.
                symbol: index(fec.symbol.min(u16::MAX.into())),
                schemes: Schemes::ALL,
                unmarked: Self::keeps(Some(fec)),
            })
        });
        let mut send = ProtectSending::default();
        if let Some(fec) = fec {
            send.set_policy(Channel::Connection, &fec.protection);
        }
        let mut monitor = Monitor::new();
        let shared = fec.and_then(|fec| Some((fec.estimates.clone()?, peer)));
        if let Some((belief, events)) = shared.as_ref().and_then(|(of, peer)| of.get(*peer, now)) {
            monitor.start_from(&belief, events);
        }
        Self {
            send,
            receive,
            monitor,
            blame: Blame::default(),
            heeded: Self::HEEDED,
            due: None,
            repaired: false,
            shared,
            told: now,
        }
    }

    /// The transport parameter (FEC-3), with the schemes that are decoded (FEC-4).
    pub(crate) fn offer(fec: Option<&Fec>) -> Option<FecDecoder> {
        fec.map(|fec| FecDecoder {
            window: fec.window.min(MAX_WINDOW),
            max_sessions: fec.sessions.min(MAX_SESSIONS),
            max_symbol_size: fec.symbol,
            schemes: Schemes::ALL,
        })
    }

    /// The transport parameter that goes with it (FEC-64); 0: none.
    pub(crate) fn keeps(fec: Option<&Fec>) -> u64 {
        let decoding = fec.filter(|fec| fec.window > 0);
        decoding.map_or(0, |fec| fec.unmarked.min(MAX_UNMARKED))
    }

    /// Takes the peer's offer, if both made one (FEC-1): without, nothing is protected (FEC-63), and nothing
    /// is taken (FEC-8).
    pub(crate) fn set_peer(&mut self, offer: Option<FecDecoder>, unmarked: u64) {
        let (Some(offer), Some(receive)) = (offer, &mut self.receive) else {
            self.receive = None;
            return;
        };
        receive.agree();
        self.send.set_peer(PeerDecoder {
            window: offer.window,
            sessions: offer.max_sessions,
            symbol: usize::try_from(offer.max_symbol_size).unwrap_or(usize::MAX),
            schemes: offer.schemes,
            unmarked,
        });
    }

    /// The path to `peer` is another road, of whose losses as much is known. Returns what was known of the
    /// one before.
    pub(crate) fn exchange_losses(&mut self, losses: Losses, peer: IpAddr, now: Time) -> Losses {
        self.told = now;
        if let Some((_, at)) = &mut self.shared {
            *at = peer;
        }
        Losses {
            monitor: std::mem::replace(&mut self.monitor, losses.monitor),
            blame: std::mem::replace(&mut self.blame, losses.blame),
        }
    }

    /// Tells other connections what was measured, now and then.
    pub(crate) fn share(&mut self, now: Time) {
        if now.since(self.told) < SHARED_EVERY {
            return;
        }
        self.told = now;
        if let Some((estimates, peer)) = &self.shared {
            estimates.put(*peer, self.monitor.belief(), self.monitor.loss().events, now);
        }
    }

    /// When something is due though nothing happens.
    pub(crate) fn deadline(&self) -> Option<(Time, Reason)> {
        let work = self.receive.as_ref().is_some_and(ProtectReceiving::has_work).then_some(Time::ZERO);
        [work, self.send.wake()].into_iter().flatten().min().map(|at| (at, Reason::Repair))
    }

    /// What was counted.
    pub(crate) fn stats(&self) -> FecStats {
        let sent = self.send.counts();
        let received = self.receive.as_ref().map(ProtectReceiving::counts).unwrap_or_default();
        FecStats {
            sources_sent: sent.sources,
            repeats_sent: sent.repeats,
            repairs_sent: sent.repairs,
            repair_bytes: sent.repair_bytes,
            recovered: sent.recovered,
            unrecovered: sent.unrecovered,
            blocks: sent.blocks,
            failed_blocks: sent.failed_blocks,
            sources_received: received.sources,
            repairs_received: received.repairs,
            recovered_here: received.recovered,
            loss_ppm: (self.monitor.loss().rate * 1e6).whole(),
        }
    }

    /// Debug invariants.
    pub(crate) fn check(&self) {
        self.send.check();
    }
}

/// Symbols of a session that may be kept for decoding. The numbers of a window cost a few bytes each as soon
/// as the largest is known, which the peer says.
pub(crate) const MAX_WINDOW: u64 = 1 << 20;

/// Sessions that may be offered: their numbers have 32 bits, as what is remembered of packets has.
const MAX_SESSIONS: u64 = 1 << 29;

/// A connection's measurements are good for others long before it ends.
const SHARED_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use bytes::Bytes;
    use quickset_wire::Scheme;

    use super::*;

    /// Else the acknowledgement of what was told of one session would pass for another's, of whose recovered
    /// symbols the peer would never hear then.
    #[test]
    fn no_session_is_taken_whose_number_is_longer_than_what_is_remembered_of_packets() {
        let fec = Fec::default().with_sessions(u64::MAX);
        let offer = Protect::offer(Some(&fec)).unwrap();
        let mut protect = Protect::new(Some(&fec), Ipv4Addr::LOCALHOST.into(), Time::ZERO);
        let receive = protect.receive.as_mut().unwrap();
        let payload = Bytes::from_static(b"symbol");
        let mut is_taken = |number: u64| receive.on_source(number, 0, &payload, &payload).is_ok();
        assert!(is_taken(Scheme::Rlc.session(0)) && is_taken(Scheme::Rlc.session(offer.max_sessions - 1)));
        assert!(!is_taken((1 << 32) + Scheme::Rlc.session(0)));
    }
}
