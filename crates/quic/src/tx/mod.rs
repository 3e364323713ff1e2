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

use crate::cc::CongestionControl;
use crate::conn::Connection;
use crate::packet::{MAX_OVERHEAD, MAX_TOP_UP, MIN_INITIAL, Phase, Want};
use crate::protect::Protect;

/// Of many streams each has its turn twenty times a second, if that is not less than a frame. What is to
/// come sooner has a better urgency.
const ROUNDS_A_SECOND: u64 = 20;
/// Room below which no further packet is coalesced into a datagram: what a long header, a few frames
/// and the tag need.
const MIN_COALESCED: usize = 128;

/// Datagrams of a batch that may be enough, and streams that have to end in it for that. A hundred answers of
/// 1 kB in batches of 64 datagrams keep both ends waiting for each other for a fifth of the time; batches of
/// 8 and of 16 gain about as much.
const EARLY_BATCH: usize = 16;
const ENDS_IN_EARLY_BATCH: u32 = 8;

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

/// Fills one batch: a connection while it does so, and what holds for the whole batch.
struct Transmission<'a> {
    conn: &'a mut Connection,
    control: CongestionControl,
    plan: BatchPlan,
}

impl Connection {
    /// What is protected, and those that it is around.
    pub(crate) fn around(&mut self) -> (&mut Protect, Around<'_>) {
        let Self { common, link, traffic, protect, .. } = self;
        (protect, Around { cx: common, link, traffic })
    }

    /// Fills `out` with all that wants to leave and may. False when that is nothing.
    pub(crate) fn transmit(&mut self, out: &mut Batch) -> bool {
        self.link.held.paced_until = None;
        out.path = self.link.path.address;
        if !self.life.lifecycle.is_open() {
            let control = self.link.path.congestion.control();
            return Transmission { conn: self, control, plan: BatchPlan::default() }.transmit_farewell(out);
        }
        let segments = if self.common.config.gso { Batch::MAX_SEGMENTS } else { 1 };
        self.traffic.streams.set_max_frame(self.link.path.mtu);
        let (protect, of) = self.around();
        let plan = protect.plan_batch(&of);
        let control = self.link.path.congestion.control();
        if control.prompt {
            self.link.asks.ask_prompt();
        }
        let has_many = self.traffic.streams.has_many_turns();
        if has_many || self.traffic.streams.has_deadlines() {
            self.traffic.rate = self.link.path.pacing_rate(&control);
        }
        if has_many {
            self.traffic.streams.set_longest_round(self.traffic.rate / ROUNDS_A_SECOND);
        }
        let ended = self.traffic.streams.ended();
        let mut turn = Transmission { conn: self, control, plan };
        while out.count() < segments
            && !turn.is_enough(out, ended)
            && (turn.train_out(out) || turn.datagram_out(out))
        {
            if turn.conn.link.unsealed.len() >= SEALED_TOGETHER {
                turn.conn.link.seal(out);
            }
        }
        let repaired = turn.plan.repaired;
        self.protect.repaired = repaired;
        self.link.seal(out);
        if out.is_empty() {
            return false;
        }
        // Only what is sent has a mark: the next to be asked may be others, who send none.
        out.ecn = self.link.path.ecn.mark();
        self.link.path.ecn.on_sent(out.count());
        true
    }

    /// Whether 1-RTT frames other than ACK and CRYPTO wait.
    pub(crate) fn wants_data(&self) -> bool {
        self.traffic.wants(self.common.now) || self.protect.due.is_some() || self.wants_control()
    }
}

impl Transmission<'_> {
    /// What a batch has is worth sending by itself: several streams end in it, so that the peer's application
    /// has something to do while the next one is made, unless it has more than that already. `ended` is the
    /// count when the batch began.
    fn is_enough(&self, out: &Batch, ended: u32) -> bool {
        let path = &self.conn.link.path;
        out.count() >= EARLY_BATCH
            && self.conn.traffic.streams.ended().wrapping_sub(ended) >= ENDS_IN_EARLY_BATCH
            && path.recovery.in_flight() < (Batch::MAX_SEGMENTS * path.mtu) as u64
    }

    /// Whether window, pacer and the application's limit let a datagram of `size` bytes leave now. Probes and
    /// acknowledgements do not ask (RFC 9002 §7.5).
    fn may_send(&mut self, size: usize) -> bool {
        if self.conn.link.path.recovery.in_flight() + size as u64 > self.control.window {
            return false;
        }
        if self.conn.link.held.is_others_turn {
            self.conn.link.held.awaits_turn = true;
            return false;
        }
        let (now, bytes, mut backlog) = (self.conn.common.now, size as u64, self.backlog());
        let path = &mut self.conn.link.path;
        let srtt = path.recovery.rtt().smoothed();
        let mut leave = Ok(());
        if let Some(cap) = &mut path.cap {
            leave = cap.wait(now, bytes);
            // At a rate that may be low the pacer does not wait for many packets: what is urgent would, too.
            backlog = backlog.min(2 * path.mtu as u64);
        }
        match leave.and_then(|()| path.pacer.allow(now, bytes, backlog, &self.control, srtt)) {
            Ok(()) => true,
            Err(at) => {
                self.conn.link.held.paced_until = Some(at);
                false
            }
        }
    }

    /// Bytes that wait to be sent, with what packets have around them: as many as the pacer may be waited for
    /// together.
    fn backlog(&self) -> u64 {
        let mtu = self.conn.link.path.mtu as u64;
        let repair = if self.conn.protect.due.is_some() { mtu } else { 0 };
        let bytes = self.conn.traffic.backlog() + repair;
        bytes + (bytes / mtu + 1) * MAX_OVERHEAD as u64
    }

    /// Adds one datagram. False when there is nothing to send, or no leave.
    fn datagram_out(&mut self, out: &mut Batch) -> bool {
        let mut full = if out.is_empty() { self.conn.link.path.mtu } else { out.segment() };
        if self.conn.link.probes[Space::Data.index()] == 1 {
            full = full.min(self.conn.link.least_size());
        }
        let size = full.min(self.conn.link.path.amplification_budget());
        if (size < full && (size < self.conn.link.least_datagram() || !out.is_empty())) || !out.has_room(size)
        {
            return false;
        }
        self.plan.leads = out.is_empty();
        let (protect, mut of) = self.conn.around();
        protect.plan_slot(&mut of);
        // Repair of short symbols is short, and in one batch so would be all the data behind it.
        let is_short = !out.is_empty() && out.segment() + MAX_TOP_UP < self.conn.link.path.mtu;
        if is_short && self.plan.repaired && self.conn.protect.due.is_none() {
            return false;
        }
        // Whoever has nothing to send does not wake up for the pacer.
        let data = self.has_data() && self.may_send(size);
        if !data {
            self.conn.link.free_handshake(&mut self.conn.common, &self.control);
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
            if let Err(error) = self.conn.link.refresh_keys(&mut self.conn.common, out) {
                return self.conn.cannot(error);
            }
        }
        // A server that has seen its client's address change within the handshake may send thrice of what
        // comes from there.
        let is_credit =
            self.conn.common.phase == Phase::Handshake && self.conn.link.probes[Space::Handshake.index()] > 0;
        let padded = (wants[Space::Initial.index()] && self.conn.link.pads_initial(&self.conn.common, data))
            || (self.conn.common.side.is_client() && is_credit);
        let buffer = out.space(size);
        let (mut used, mut last) = (0, Built::NOTHING);
        for space in Space::ALL {
            if !wants[space.index()] || (used > 0 && size - used < MIN_COALESCED) {
                continue;
            }
            // The last packet of the datagram brings it up to size.
            let is_last = space.index() == last_space || size - used < 2 * MIN_COALESCED;
            let to = if padded { MIN_INITIAL.saturating_sub(used) } else { 0 };
            let permit = Permit { data, probe: self.conn.link.probes[space.index()] > 0 };
            last =
                self.packet_out(space, &mut buffer[used..], PacketTerms { permit, pad: Pad { to, is_last } });
            used += last.len;
            if padded && is_last {
                break;
            }
        }
        if used == 0 {
            return false;
        }
        out.commit(used);
        if let (false, Some((range, _))) = (last.is_sealed, self.conn.link.unsealed.last_mut()) {
            let end = out.bytes().len();
            *range = end - last.len..end;
        }
        self.conn.link.path.on_sent(used);
        self.conn.common.stats.sent_datagrams += 1;
        self.conn.common.stats.sent_bytes += used as u64;
        if self.conn.common.side.is_client() && wants[Space::Handshake.index()] {
            // RFC 9001 §4.9.1: a client's first Handshake packet ends its Initial space.
            self.conn.discard(Space::Initial);
        }
        true
    }

    /// Whether a packet of `space` should be built.
    fn wants(&mut self, space: Space, data: bool) -> bool {
        let at = space.index();
        let waits = space == Space::Data
            && self.conn.common.side.is_client()
            && self.conn.common.phase == Phase::Handshake
            && !self.conn.link.keys.sends_early();
        if !self.conn.link.keys.seals(space) || waits {
            return false;
        }
        let now = self.conn.common.now;
        let acknowledges = self.conn.link.acks.get(space).is_some_and(|acks| acks.want(now) > Want::None);
        if self.conn.link.probes[at] > 0 || acknowledges {
            return true;
        }
        if !data {
            return false;
        }
        let crypto = self.conn.link.keys.want(space) > Want::None;
        crypto || (space == Space::Data && self.conn.wants_data())
    }

    /// Whether any space has more than acknowledgements to send.
    fn has_data(&mut self) -> bool {
        let crypto = |this: &mut Self, space| {
            this.conn.link.keys.has(space) && this.conn.link.keys.want(space) > Want::None
        };
        (self.conn.link.keys.seals(Space::Data) && self.conn.wants_data())
            || Space::ALL.into_iter().any(|space| crypto(self, space))
    }

    /// CONNECTION_CLOSE, at each level that the peer may be able to read (RFC 9000 §10.2.3).
    fn transmit_farewell(&mut self, out: &mut Batch) -> bool {
        let Some((farewell, said)) = self.conn.life.lifecycle.farewell() else { return false };
        let size = self.conn.link.path.mtu.min(self.conn.link.path.amplification_budget());
        if !said.is_empty() {
            if said.len() > size {
                return false;
            }
            out.space(said.len()).copy_from_slice(said);
            let size = said.len();
            self.conn.link.push(&mut self.conn.common, out, size);
            self.conn.life.lifecycle.farewell_sent(&[]);
            return true;
        }
        let farewell = farewell.clone();
        let confirmed = self.conn.common.phase == Phase::Confirmed;
        let established = self.conn.common.phase > Phase::Handshake || self.conn.common.side.is_server();
        let buffer = out.space(size);
        let readable = |space| match space {
            Space::Initial | Space::Handshake => !confirmed,
            Space::Data => established,
        };
        let mut levels = Space::ALL.map(|space| readable(space) && self.conn.link.keys.has(space));
        // A client that has its last flight yet to send: with it the server reads at the level of the
        // application what that says, and needs no other word.
        let finishes = self.conn.common.side.is_client()
            && established
            && self.conn.link.keys.has(Space::Handshake)
            && self.conn.link.keys.want(Space::Handshake) == Want::Data;
        if finishes {
            // RFC 9001 §4.9.1: as with any first Handshake packet.
            self.conn.discard(Space::Initial);
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
        self.conn.life.lifecycle.farewell_sent(&buffer[..used]);
        self.conn.link.push(&mut self.conn.common, out, used);
        self.conn.let_go();
        true
    }
}
