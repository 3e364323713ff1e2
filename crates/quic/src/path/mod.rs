//! The network paths: who is at the other end, what it may be sent, and the congestion state.
//!
//! *In:* received bytes, PATH_CHALLENGE and PATH_RESPONSE, congestion feedback. *Out:* the amplification
//! budget, challenges and answers, window and pacing. One path is in use, [`Path`]; beside it
//! [`Candidates`] has those that are being validated and the one to go back to. Who moves when is for
//! [`conn`](crate::conn) to say.
//!
//! Invariants: to an address that has not answered at most three times the bytes it sent are sent
//! (RFC 9000 §8.1, §9.3); paths, challenges and answers are bounded, whoever asks; a path begins with a
//! congestion state of its own unless nothing but the port of the peer is another (§9.4); ECN marks are sent
//! only as long as they are known to arrive, or may be (§13.4.2); no larger datagrams than a path is known or
//! configured to take are sent on it, but those that find that out ([`Search`]).

mod candidates;
mod ecn;
mod probe;
mod proof;
mod search;
#[cfg(test)]
mod tests;

use quickset_base::{AddressPair as Address, Time};

use crate::cc::{self, Congestion, Pacer};
use crate::packet::Numbering;
use crate::recovery::{Recovery, SettledPackets};
pub(crate) use candidates::{Candidate, CandidateArrival, CandidateRole, Candidates, KeptId, LEAST, Saved};
pub(crate) use ecn::Marking;
pub(crate) use probe::{PathProbe, ProbePatience};
pub(crate) use proof::AddressProof;
pub use search::MtuDiscovery;
pub(crate) use search::Search;

/// The path in use.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) address: Address,
    /// The largest UDP payload that we send.
    pub(crate) mtu: usize,
    /// The search for more, if there is one.
    pub(crate) search: Option<Box<Search>>,
    pub(crate) congestion: Box<dyn Congestion>,
    pub(crate) pacer: Pacer,
    /// What the application wants to be sent at most, by whichever path.
    pub(crate) cap: Option<cc::RateCap>,
    pub(crate) ecn: Marking,
    pub(crate) proof: AddressProof,
    pub(crate) probe: PathProbe,
    /// Names the path for loss detection.
    pub(crate) number: u8,
    /// Packets that were sent, losses, round trips. They stay when the connection goes on from another
    /// address (RFC 9000 §9).
    pub(crate) recovery: Recovery,
    /// The numbers of packets.
    pub(crate) numbering: Numbering,
}

impl Path {
    pub(crate) fn new(
        address: Address,
        mtu: usize,
        algorithm: &cc::Algorithm,
        recovery: Recovery,
        numbering: Numbering,
        now: Time,
    ) -> Self {
        Self {
            address,
            mtu,
            search: None,
            congestion: algorithm.build(mtu as u64, now),
            pacer: Pacer::new(mtu as u64, now),
            cap: None,
            ecn: Marking::new(false),
            proof: AddressProof::default(),
            probe: PathProbe::default(),
            number: 0,
            recovery,
            numbering,
        }
    }

    /// A packet of `len` bytes that counts for congestion control is about to leave.
    #[inline]
    pub(crate) fn departs(&mut self, now: Time, len: usize, app_limited: bool) -> cc::PacketState {
        let bytes = len as u64;
        self.pacer.on_sent(bytes);
        let in_flight = self.recovery.in_flight() + bytes;
        self.congestion.on_sent(&cc::TransmittedPacket { now, bytes, in_flight, app_limited })
    }

    /// What was settled, for congestion control: with `ce` new marks of congestion.
    pub(crate) fn feed(&mut self, now: Time, settled: &SettledPackets, ce: u64) {
        let rtt = self.recovery.rtt();
        self.congestion.on_feedback(&cc::Feedback {
            now,
            acked: &settled.acked_packets,
            lost: &settled.lost_packets,
            prior_in_flight: settled.prior_in_flight,
            in_flight: self.recovery.in_flight(),
            rtt: settled.rtt,
            srtt: rtt.smoothed(),
            min_rtt: rtt.min(),
            marked: settled.marked_at.filter(|_| ce > 0),
            persistent: settled.persistent,
            spurious: &settled.spurious,
        });
    }

    /// The peer takes no larger UDP payloads than this.
    pub(crate) fn limit_mtu(&mut self, limit: usize) {
        if let Some(search) = &mut self.search {
            search.limit(limit);
        }
        if limit < self.mtu {
            self.set_mtu(limit);
        }
    }

    /// UDP payloads of so many bytes are sent from here on.
    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
        self.pacer.set_mtu(mtu as u64);
        self.congestion.set_mtu(mtu as u64);
    }

    /// The handshake proves the peer's address, and its packets the path.
    pub(crate) fn validate(&mut self) {
        self.proof.prove(true);
    }

    /// Whether a datagram from there comes on this path.
    #[inline]
    pub(crate) fn takes(&self, from: &Address) -> bool {
        candidates::takes(&self.address, from)
    }

    /// Whether nothing but the peer's port is another there: a NAT's doing, on the same road (RFC 9000 §9.4).
    pub(crate) fn is_like(&self, other: &Address) -> bool {
        self.address.remote.ip() == other.remote.ip() && self.address.local == other.local
    }

    /// A datagram came from the peer's address, whether or not it could be read.
    #[inline]
    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.proof.on_received(bytes);
    }

    /// A datagram was sent there.
    #[inline]
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.proof.on_sent(bytes);
        if let Some(cap) = &mut self.cap {
            cap.on_sent(bytes as u64);
        }
    }

    /// Bytes per second that leave, about.
    pub(crate) fn pacing_rate(&self, control: &cc::CongestionControl) -> u64 {
        let rate = cc::pacing_rate(control, self.recovery.rtt().smoothed());
        self.cap.as_ref().map_or(rate, |cap| rate.min(cap.rate()))
    }

    /// Whether the peer has proved that it receives at its address, whole datagrams.
    #[inline]
    pub(crate) fn is_validated(&self) -> bool {
        self.proof.is_validated()
    }

    /// Bytes that may be sent before the address is validated (RFC 9000 §8.1, §21.3; RFC 9001 §9.3).
    #[inline]
    pub(crate) fn amplification_budget(&self) -> usize {
        self.proof.budget()
    }

    pub(crate) fn check(&self) {
        self.probe.check();
        self.proof.check();
        if let Some(search) = &self.search {
            search.check(self.mtu);
        }
    }
}
