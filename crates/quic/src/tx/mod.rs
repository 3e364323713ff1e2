//! The way out: frames to packets, packets to datagrams, datagrams to one batch.
//!
//! *In:* what the rooms want. *Out:* a batch for one send call: sealed packets, written once, in place.
//!
//! Invariants: congestion control, the pacer and the amplification limit are asked before each datagram;
//! acknowledgements alone, probes and farewells pass the first two (RFC 9002 §7, §6.2.4); a packet whose
//! frames were written is sent.

mod fill;
mod packet;
mod sources;
mod train;

use quickset_base::Batch;
use quickset_wire::Space;

use crate::guard::{Around, BatchPlan};
#[cfg(test)]
pub(crate) use sources::{ControlSource, SendUrgency};

use crate::cc::{CongestionControl, pacing_rate};
use crate::conn::Connection;
use crate::packet::{MAX_OVERHEAD, MAX_TOP_UP, MIN_INITIAL, Phase, Want};
use crate::protect::Protect;

/// Room below which no further packet is coalesced into a datagram: what a long header, a few frames
/// and the tag need.
const MIN_COALESCED: usize = 128;

/// Packets that are built before they are sealed. Each step works on code and data that the one before has
/// just put in the caches nearest to the processor, which all steps for one packet after the other do not
/// fit.
pub(crate) const SEALED_TOGETHER: usize = 8;

/// What may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    /// Anything, not only acknowledgements: window and pacer agree.
    pub(crate) data: bool,
    /// A packet that must elicit an acknowledgement, whatever the window says.
    pub(crate) probe: bool,
}

/// How long the datagram has to become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pad {
    /// From the packet's start.
    to: usize,
    /// No other packet follows.
    is_last: bool,
}

impl Pad {
    /// How long a packet of `len` bytes has to become, in a buffer of `room`: it is also the last that leaves
    /// no room for another.
    fn of(self, len: usize, room: usize) -> usize {
        if self.is_last || room.saturating_sub(len) < MIN_COALESCED { self.to } else { 0 }
    }
}

/// What a packet may hold, and how long it has to become.
#[derive(Clone, Copy, Debug)]
struct PacketTerms {
    permit: Permit,
    pad: Pad,
}

/// A packet that was written.
#[derive(Clone, Copy, Debug)]
struct Built {
    len: usize,
    /// Else it is the last of those that are still to be.
    is_sealed: bool,
}

impl Built {
    const NOTHING: Self = Self { len: 0, is_sealed: true };
}

impl Connection {
    /// What is protected, and those that it is around.
    pub(crate) fn around(&mut self) -> (&mut Protect, Around<'_>) {
        let Self { common, link, traffic, protect, .. } = self;
        (protect, Around { cx: common, link, traffic })
    }

    /// Fills `out` with all that wants to leave and may. False when that is nothing.
    pub(crate) fn transmit(&mut self, out: &mut Batch) -> bool {
        self.link.paced_until = None;
        out.path = self.link.path.address;
        if !self.life.lifecycle.is_open() {
            return self.transmit_farewell(out);
        }
        let segments = if self.common.config.gso { Batch::MAX_SEGMENTS } else { 1 };
        self.traffic.streams.set_max_frame(self.link.path.mtu);
        let (protect, of) = self.around();
        let mut plan = protect.plan_batch(&of);
        let control = self.link.path.congestion.control();
        if control.prompt {
            self.link.asks.ask_prompt();
        }
        if self.traffic.streams.has_deadlines() {
            self.traffic.rate = pacing_rate(&control, self.link.path.recovery.rtt().smoothed());
        }
        while out.count() < segments
            && (self.train_out(out, &control, &mut plan) || self.datagram_out(out, &control, &mut plan))
        {
            if self.link.unsealed.len() >= SEALED_TOGETHER {
                self.link.seal(out);
            }
        }
        self.protect.repaired = plan.repaired;
        self.link.seal(out);
        if out.is_empty() {
            return false;
        }
        // Only what is sent has a mark: the next to be asked may be others, who send none.
        out.ecn = self.link.path.ecn.mark();
        self.link.path.ecn.on_sent(out.count());
        true
    }

    /// Whether window and pacer let a datagram of `size` bytes leave now. Probes and acknowledgements do not
    /// ask (RFC 9002 §7.5).
    fn may_send(&mut self, size: usize, control: &CongestionControl) -> bool {
        if self.link.path.recovery.in_flight() + size as u64 > control.window {
            return false;
        }
        let srtt = self.link.path.recovery.rtt().smoothed();
        let backlog = self.backlog();
        match self.link.path.pacer.allow(self.common.now, size as u64, backlog, control, srtt) {
            Ok(()) => true,
            Err(at) => {
                self.link.paced_until = Some(at);
                false
            }
        }
    }

    /// Bytes that wait to be sent, with what packets have around them: as many as the pacer may be waited for
    /// together.
    fn backlog(&self) -> u64 {
        let mtu = self.link.path.mtu as u64;
        let repair = if self.protect.due.is_some() { mtu } else { 0 };
        let bytes = self.traffic.backlog() + repair;
        bytes + (bytes / mtu + 1) * MAX_OVERHEAD as u64
    }

    /// Adds one datagram. False when there is nothing to send, or no leave.
    fn datagram_out(&mut self, out: &mut Batch, control: &CongestionControl, plan: &mut BatchPlan) -> bool {
        let mut full = if out.is_empty() { self.link.path.mtu } else { out.segment() };
        if self.link.probes[Space::Data.index()] == 1 {
            full = full.min(self.link.least_size());
        }
        let size = full.min(self.link.path.amplification_budget());
        if (size < full && (size < self.link.least_datagram() || !out.is_empty())) || !out.has_room(size) {
            return false;
        }
        plan.leads = out.is_empty();
        let (protect, mut of) = self.around();
        protect.plan_slot(&mut of);
        // Repair of short symbols is short, and in one batch so would be all the data behind it.
        let is_short = !out.is_empty() && out.segment() + MAX_TOP_UP < self.link.path.mtu;
        if is_short && plan.repaired && self.protect.due.is_none() {
            return false;
        }
        // Whoever has nothing to send does not wake up for the pacer.
        let data = self.has_data() && self.may_send(size, control);
        if !data {
            self.link.free_handshake(&mut self.common, control);
        }
        let wants = Space::ALL.map(|space| self.wants(space, data));
        let Some(last_space) = wants.iter().rposition(|w| *w) else { return false };
        // All but the last datagram of a batch are as long as the first, which may have been the shortest
        // acknowledgement: packets of the handshake have longer headers than fit in there, and their
        // datagrams may have to be padded.
        let is_handshake = wants[Space::Initial.index()] || wants[Space::Handshake.index()];
        if is_handshake && !out.is_empty() && size < MIN_INITIAL {
            return false;
        }

        if wants[Space::Data.index()] {
            if let Err(error) = self.link.refresh_keys(&mut self.common, out) {
                return self.cannot(error);
            }
        }
        // A server that has seen its client's address change within the handshake may send thrice of what
        // comes from there.
        let is_credit =
            self.common.phase == Phase::Handshake && self.link.probes[Space::Handshake.index()] > 0;
        let padded = (wants[Space::Initial.index()] && self.link.pads_initial(&self.common, data))
            || (self.common.side.is_client() && is_credit);
        let buffer = out.space(size);
        let (mut used, mut last) = (0, Built::NOTHING);
        for space in Space::ALL {
            if !wants[space.index()] || (used > 0 && size - used < MIN_COALESCED) {
                continue;
            }
            // The last packet of the datagram brings it up to size.
            let is_last = space.index() == last_space || size - used < 2 * MIN_COALESCED;
            let to = if padded { MIN_INITIAL.saturating_sub(used) } else { 0 };
            let permit = Permit { data, probe: self.link.probes[space.index()] > 0 };
            last = self.packet_out(
                space,
                &mut buffer[used..],
                PacketTerms { permit, pad: Pad { to, is_last } },
                plan,
            );
            used += last.len;
            if padded && is_last {
                break;
            }
        }
        if used == 0 {
            return false;
        }
        out.commit(used);
        if let (false, Some((range, _))) = (last.is_sealed, self.link.unsealed.last_mut()) {
            let end = out.bytes().len();
            *range = end - last.len..end;
        }
        self.link.path.on_sent(used);
        self.common.stats.sent_datagrams += 1;
        self.common.stats.sent_bytes += used as u64;
        if self.common.side.is_client() && wants[Space::Handshake.index()] {
            // RFC 9001 §4.9.1: a client's first Handshake packet ends its Initial space.
            self.discard(Space::Initial);
        }
        true
    }

    /// Whether a packet of `space` should be built.
    fn wants(&mut self, space: Space, data: bool) -> bool {
        let at = space.index();
        let waits = space == Space::Data
            && self.common.side.is_client()
            && self.common.phase == Phase::Handshake
            && !self.link.keys.sends_early();
        if !self.link.keys.seals(space) || waits {
            return false;
        }
        if self.link.probes[at] > 0 || self.link.acks[at].want(self.common.now) > Want::None {
            return true;
        }
        if !data {
            return false;
        }
        let crypto = self.link.keys.stream(space).want() > Want::None;
        crypto || (space == Space::Data && self.wants_data())
    }

    /// Whether any space has more than acknowledgements to send.
    fn has_data(&mut self) -> bool {
        let crypto = |this: &mut Self, space| {
            this.link.keys.has(space) && this.link.keys.stream(space).want() > Want::None
        };
        (self.link.keys.seals(Space::Data) && self.wants_data())
            || Space::ALL.into_iter().any(|space| crypto(self, space))
    }

    /// Whether 1-RTT frames other than ACK and CRYPTO wait.
    pub(crate) fn wants_data(&self) -> bool {
        self.traffic.wants(self.common.now) || self.protect.due.is_some() || self.wants_control()
    }

    /// CONNECTION_CLOSE, at each level that the peer may be able to read (RFC 9000 §10.2.3).
    fn transmit_farewell(&mut self, out: &mut Batch) -> bool {
        let Some((farewell, said)) = self.life.lifecycle.farewell() else { return false };
        let size = self.link.path.mtu.min(self.link.path.amplification_budget());
        if !said.is_empty() {
            if said.len() > size {
                return false;
            }
            out.space(said.len()).copy_from_slice(said);
            let size = said.len();
            self.link.push(&mut self.common, out, size);
            self.life.lifecycle.farewell_sent(&[]);
            return true;
        }
        let farewell = farewell.clone();
        let confirmed = self.common.phase == Phase::Confirmed;
        let established = self.common.phase > Phase::Handshake || self.common.side.is_server();
        let buffer = out.space(size);
        let readable = |space| match space {
            Space::Initial | Space::Handshake => !confirmed,
            Space::Data => established,
        };
        let mut levels = Space::ALL.map(|space| readable(space) && self.link.keys.has(space));
        // A client that has its last flight yet to send: with it the server reads at the level of the
        // application what that says, and needs no other word.
        let finishes = self.common.side.is_client()
            && established
            && self.link.keys.has(Space::Handshake)
            && self.link.keys.stream(Space::Handshake).want() == Want::Data;
        if finishes {
            // RFC 9001 §4.9.1: as with any first Handshake packet.
            self.discard(Space::Initial);
            levels[Space::Initial.index()] = false;
        }
        let least = if levels[Space::Initial.index()] && size >= MIN_INITIAL { MIN_INITIAL } else { 0 };
        let mut used = 0;
        for space in Space::ALL {
            if levels[space.index()] && buffer.len() - used >= MIN_COALESCED {
                let is_last = !levels[space.index() + 1..].contains(&true);
                let pad = Pad { to: least.saturating_sub(used), is_last };
                used += self.farewell_packet(space, &mut buffer[used..], &farewell, pad);
            }
        }
        if used == 0 {
            return false;
        }
        self.life.lifecycle.farewell_sent(&buffer[..used]);
        self.link.push(&mut self.common, out, used);
        self.let_go();
        true
    }
}
