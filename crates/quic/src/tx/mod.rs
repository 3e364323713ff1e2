//! The way out: frames to packets, packets to datagrams, datagrams to one batch.
//!
//! *In:* what the rooms want. *Out:* a batch for one send call: sealed packets, written once, in place.
//!
//! Invariants: congestion control, the pacer and the amplification limit are asked before each datagram;
//! acknowledgements alone, probes and farewells pass the first two (RFC 9002 §7, §6.2.4); a packet whose
//! frames were written is sent.

mod data;
mod fill;
mod packet;
mod plan;
mod probe;
mod size;
mod slots;
mod sources;
mod train;

use quickset_base::Batch;
use quickset_wire::Space;

pub(crate) use plan::Plan;
#[cfg(test)]
pub(crate) use sources::{Need, Source};

use crate::cc::{Control, pacing_rate};
use crate::conn::Connection;
use crate::packet::{MAX_OVERHEAD, MIN_INITIAL, Phase, Want};

/// Room below which no further packet is coalesced into a datagram: what a long header, a few frames
/// and the tag need.
const MIN_COALESCED: usize = 128;

/// Packets that are built before they are sealed. Each step works on code and data that the one before has
/// just put in the caches nearest to the processor, which all steps for one packet after the other do not
/// fit.
pub(crate) const SEALED_TOGETHER: usize = 8;

/// Segments that fall short of those before them by this little are padded: ending the batch would cost more.
pub(crate) const MAX_TOP_UP: usize = 48;

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
struct Terms {
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
    /// Fills `out` with all that wants to leave and may. False when that is nothing.
    pub(crate) fn transmit(&mut self, out: &mut Batch) -> bool {
        self.link.paced_until = None;
        out.path = self.link.path.address;
        if !self.life.lifecycle.is_open() {
            return self.transmit_farewell(out);
        }
        let segments = if self.common.config.gso { Batch::MAX_SEGMENTS } else { 1 };
        self.traffic.streams.set_max_frame(self.link.path.mtu);
        let mut plan = self.plan_batch();
        let control = self.link.path.congestion.control();
        if control.prompt {
            self.link.asks.ask_prompt();
        }
        if self.traffic.streams.has_deadlines() {
            self.traffic.rate = pacing_rate(&control, self.link.recovery.rtt().smoothed());
        }
        while out.count() < segments
            && (self.train_out(out, &control, &mut plan) || self.datagram_out(out, &control, &mut plan))
        {
            if self.link.unsealed.len() >= SEALED_TOGETHER {
                self.seal(out);
            }
        }
        self.protect.repaired = plan.repaired;
        self.seal(out);
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
    fn may_send(&mut self, size: usize, control: &Control) -> bool {
        if self.link.recovery.in_flight() + size as u64 > control.window {
            return false;
        }
        let srtt = self.link.recovery.rtt().smoothed();
        let asked = (size as u64, self.backlog());
        match self.link.path.pacer.allow(self.common.now, asked, control, srtt) {
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
        let (_, datagrams) = self.traffic.datagrams.backlog();
        let repair = if self.protect.due.is_some() { mtu } else { 0 };
        let bytes = self.traffic.streams.pressing() + datagrams as u64 + repair;
        bytes + (bytes / mtu + 1) * MAX_OVERHEAD as u64
    }

    /// Adds one datagram. False when there is nothing to send, or no leave.
    fn datagram_out(&mut self, out: &mut Batch, control: &Control, plan: &mut Plan) -> bool {
        let mut full = if out.is_empty() { self.link.path.mtu } else { out.segment() };
        if self.link.probes[Space::Data.index()] == 1 {
            full = full.min(self.least_size());
        }
        let size = full.min(self.link.path.amplification_budget());
        if (size < full && (size < self.least_datagram() || !out.is_empty())) || !out.has_room(size) {
            return false;
        }
        plan.leads = out.is_empty();
        self.plan_slot();
        // Repair of short symbols is short, and in one batch so would be all the data behind it.
        let is_short = !out.is_empty() && out.segment() + MAX_TOP_UP < self.link.path.mtu;
        if is_short && plan.repaired && self.protect.due.is_none() {
            return false;
        }
        // Whoever has nothing to send does not wake up for the pacer.
        let data = self.has_data() && self.may_send(size, control);
        if !data {
            self.free_handshake(control);
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

        if wants[Space::Data.index()] && !self.has_fresh_keys(out) {
            return false;
        }
        // A server that has seen its client's address change within the handshake may send thrice of what
        // comes from there.
        let is_credit =
            self.common.phase == Phase::Handshake && self.link.probes[Space::Handshake.index()] > 0;
        let padded = (wants[Space::Initial.index()] && self.pads_initial(data))
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
            last =
                self.packet_out(space, &mut buffer[used..], Terms { permit, pad: Pad { to, is_last } }, plan);
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

    /// Seals what was built.
    fn seal(&mut self, out: &mut Batch) {
        for (range, at) in self.link.unsealed.drain(..) {
            self.link.keys.seal(&mut out.bytes_mut()[range], &at);
        }
    }

    /// Sees to it that there are keys that one more packet may be sealed with.
    #[inline]
    fn has_fresh_keys(&mut self, out: &mut Batch) -> bool {
        if !self.link.keys.nears_limit() {
            return true;
        }
        // What was built has the phase of the old ones, and counts.
        self.seal(out);
        match self.link.keys.before_seal(self.common.phase == Phase::Confirmed, self.common.now) {
            Ok(()) => true,
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }

    /// Lost handshake bytes that the window keeps back go as a probe does. A server may have filled the
    /// window with data that the client cannot read before it has these bytes, and so cannot acknowledge;
    /// nothing of the handshake being in flight, no probe timeout would run either (RFC 9002 §6.2.2.1), and
    /// both sides would be silent for ever.
    fn free_handshake(&mut self, control: &Control) {
        if self.common.phase == Phase::Confirmed
            || self.link.recovery.in_flight() + MIN_INITIAL as u64 <= control.window
        {
            return;
        }
        for space in [Space::Initial, Space::Handshake] {
            if self.link.keys.has(space) && self.link.keys.stream(space).want() == Want::Lost {
                let probes = &mut self.link.probes[space.index()];
                *probes = (*probes).max(1);
            }
        }
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

    /// RFC 9000 §14.1: whether a datagram with an Initial packet is brought up to size. A server's that says
    /// no more than that half of a hello came is not: what it may send is for its flight.
    fn pads_initial(&mut self, data: bool) -> bool {
        self.common.side.is_client()
            || self.link.probes[Space::Initial.index()] > 0
            || (data && self.link.keys.stream(Space::Initial).want() > Want::None)
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
        self.traffic.streams.want() > Want::None
            || (self.traffic.streams.has_piggyback()
                && self.traffic.piggyback_by.is_some_and(|at| at <= self.common.now))
            || !self.traffic.datagrams.is_empty()
            || self.protect.due.is_some()
            || self.wants_control()
    }

    /// Until when data that goes along with other data waits for that: as long as an acknowledgement does
    /// that is under way, and else as long as one may (RFC 9000 §13.2.1). Not for one that is due since two
    /// packets came: it would elicit another, of which there would be two then, and so on.
    pub(crate) fn time_piggyback(&mut self) {
        if !self.traffic.streams.has_piggyback() {
            self.traffic.piggyback_by = None;
        } else if self.traffic.piggyback_by.is_none() {
            let acknowledged = self.link.acks[Space::Data.index()].deadline().map(|(at, _)| at);
            self.traffic.piggyback_by =
                acknowledged.or_else(|| Some(self.common.now + self.common.config.max_ack_delay));
        }
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
            self.push(out, size);
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
        self.push(out, used);
        self.let_go();
        true
    }

    /// The next `size` bytes of the batch are a datagram.
    fn push(&mut self, out: &mut Batch, size: usize) {
        out.commit(size);
        self.link.path.on_sent(size);
        self.common.stats.sent_datagrams += 1;
        self.common.stats.sent_bytes += size as u64;
    }
}
