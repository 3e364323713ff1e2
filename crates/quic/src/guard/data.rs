//! What a packet holds of the application's: data of streams and datagrams, as source symbols where a policy
//! wants it, and repair. Which packet is for repair is in `slots`.

use quickset_base::Batch;
use quickset_base::number::within_u16;
use quickset_wire::Space;
use quickset_wire::frame::{
    Frame, RepairHeader, repair_header, repair_header_size, source_symbol_header, source_symbol_header_size,
};

use super::{Around, BatchPlan};
use crate::packet::{Channel, FrameToken, MAX_TOP_UP, PacketWriter, RoomView, StreamKey};
use crate::protect::policy::Carried;
use crate::protect::send::WindowSlot;
use crate::protect::{Alike, Protect};
use crate::streams::StreamTurn;

impl Protect {
    /// A batch begins: what is planned of its packets.
    pub(crate) fn plan_batch(&mut self, of: &Around<'_>) -> BatchPlan {
        let mut plan = BatchPlan { repaired: self.repaired, ..BatchPlan::default() };
        if self.send.is_active() {
            self.send.stir();
            self.send.reached(of.link.path.recovery.next_number(Space::Data));
            let acked = of.link.path.recovery.largest_acked(Space::Data).unwrap_or(0);
            let unacked = of.link.path.recovery.next_number(Space::Data) - acked;
            plan.room = of.link.room_of(acked + NUMBERS_AHEAD * unacked.max(NUMBERS_AT_LEAST));
            if let Some(search) = &of.link.path.search {
                let more = search.highest().saturating_sub(of.link.path.mtu);
                self.send.set_growth(plan.room + more);
            }
        }
        plan
    }

    /// Stream data, as symbols where a policy wants it; or what the slot is for instead. True when a message
    /// ends in it: the sooner that is known to have arrived, or not, the better.
    // sizes: a packet, the plan of its batch, and what both are of
    pub(crate) fn write_data(
        &mut self,
        of: &mut Around<'_>,
        w: &mut PacketWriter<'_>,
        view: &RoomView,
        plan: &mut BatchPlan,
    ) -> bool {
        (plan.repaired, plan.closing) = (false, false);
        let at = of.packet_room();
        if !self.send.is_active() {
            return of.traffic.write(w, view, at);
        }
        if let Some(due) = self.due.take() {
            let before = w.len();
            plan.repaired = match due.slot {
                WindowSlot::Repeat(lane) => self.write_repeat(of, w, lane),
                WindowSlot::Repair(lane) => self.write_repair(of, w, lane),
            };
            of.traffic.streams.repair().sent(due.turn, w.len() - before);
            if plan.repaired {
                return false;
            }
            of.traffic.streams.repair().set_due(due.channel, false);
        }
        let packet = plan.room;
        let (mut passed, mut ends_message) = (false, false);
        while let Some(turn) = of.traffic.streams.next_channel() {
            let before = w.len();
            let joined = self
                .join(of, &turn, packet)
                .filter(|(_, limit)| of.traffic.may_join(turn.channel, *limit, at));
            let joined = match joined {
                // FEC-15: what follows of the channel is for the next packet, unless the peer takes nothing
                // larger than a fraction of one, which would cost more packets than it is worth.
                Some((lane, _)) if self.send.is_in(lane, w.number()) => {
                    if !self.send.takes_fractions(lane, packet) || w.room() < MIN_REST {
                        break;
                    }
                    None
                }
                joined => joined,
            };
            if let Some((lane, limit)) = joined {
                let view = RoomView { room: limit, ..*view };
                ends_message |= self.write_symbol(of, w, turn.channel, lane, &view, plan);
            } else {
                ends_message |= of.traffic.write_channel(w, view, turn.channel, at);
                self.send.passed(1);
            }
            if w.len() == before && turn.channel == Channel::Datagrams && !passed {
                // It is too long for what is left: others may have that.
                passed = true;
                of.traffic.streams.datagrams().pass();
                continue;
            }
            // Whoever's turn it is has the next packet: frames of a few bytes are not worth asking.
            let least = if joined.is_some() { MIN_REST } else { MIN_FRAME };
            if w.len() == before || w.room() < least {
                break;
            }
        }
        if passed {
            of.traffic.streams.datagrams().recall();
        }
        // Of symbols that the window passed, and of lanes that were left.
        self.drain(of.traffic, of.cx.now);
        ends_message
    }

    /// The stream whose turn it is with new data, and what a packet with that joins: a lane, and how many
    /// bytes of it at most.
    pub(crate) fn board(
        &mut self,
        of: &mut Around<'_>,
        plan: &BatchPlan,
    ) -> Option<(StreamKey, Option<(usize, usize)>)> {
        let turn = of.traffic.streams.next_channel().filter(|turn| !turn.resend)?;
        if turn.channel == Channel::Datagrams {
            return None;
        }
        Some((turn.key, self.join(of, &turn, plan.room)))
    }

    /// The lane that data of the channel whose turn it is joins, and how many bytes its symbol may have.
    fn join(&mut self, of: &mut Around<'_>, turn: &StreamTurn, packet: usize) -> Option<(usize, usize)> {
        let carried = Carried { resend: turn.resend };
        if let Some(known) = self.send.known(turn.channel, carried, of.moment(), packet) {
            return known.joined;
        }
        let facts = of.facts();
        let deadlines = of.traffic.streams.deadlines(turn.channel);
        let outlook = facts.of(of.traffic, Some(*turn), &self.monitor, &deadlines);
        self.send.join(turn.channel, carried, &outlook, packet)
    }

    // sizes: as above
    fn write_symbol(
        &mut self,
        of: &mut Around<'_>,
        w: &mut PacketWriter<'_>,
        channel: Channel,
        lane: usize,
        view: &RoomView,
        plan: &mut BatchPlan,
    ) -> bool {
        let (session, sid) = self.send.head(lane);
        // For the longer header of repair a packet with nothing but a symbol is a few bytes short. In the
        // middle of a transfer it is padded to what the batch has, where repair has room as well. At its end
        // that would be what the last byte waits for: so all packets are as short, those with other frames,
        // too.
        let rest = (Batch::MAX_SEGMENTS * view.room) as u64;
        let closing = plan.leads
            && plan.room <= view.room + MAX_TOP_UP
            && of.traffic.demand(channel).remaining().is_some_and(|bytes| bytes <= rest);
        let others = if closing { w.len() } else { 0 };
        let unmarked = channel != Channel::Datagrams && self.send.may_be_unmarked(lane, w.number());
        let limit = view.room.saturating_sub(others);
        let Some(symbol) = w.begin_symbol(session, sid, limit, unmarked) else { return false };
        let at = of.packet_room();
        let ends_message = of.traffic.write_channel(w, view, channel, at);
        if let Some(packed) = w.end_symbol(&symbol) {
            let streams = &of.traffic.streams;
            let alike = packed.frame.map(|frame| Alike { lane, frame: *frame, bytes: packed.bytes.len() });
            let may_follow = self.send.pushed(lane, packed, of.cx.now, |frame| streams.piece(frame));
            plan.alike = alike.filter(|_| may_follow);
            plan.closing = closing;
        }
        ends_message
    }

    /// False when there is nothing that can be repeated. What does not fit beside an ACK has the next packet.
    fn write_repeat(&mut self, of: &mut Around<'_>, w: &mut PacketWriter<'_>, lane: usize) -> bool {
        let most = of.link.room_of(w.number());
        let (streams, now) = (&of.traffic.streams, of.cx.now);
        let (session, _) = self.send.head(lane);
        let Some((sid, symbol)) = self.send.repeat(lane, |token| streams.wants(token, now)) else {
            return false;
        };
        let len = symbol.len();
        let need = source_symbol_header_size(session.into(), sid) + len;
        if need > w.room() {
            // The path takes smaller packets than it did.
            if need > most {
                self.send.give_up(lane);
                self.drain(of.traffic, of.cx.now);
            }
            return need <= most;
        }
        source_symbol_header(w.bytes(), session.into(), sid, len);
        symbol.write(w.bytes().space(len));
        let tokens = self.send.repeated(lane, sid, w.number(), now);
        w.record(FrameToken::Symbol { session, sid, n: within_u16(tokens.len() as u64) }, true);
        for token in tokens {
            w.record(token, true);
        }
        true
    }

    /// False when nothing is to be repaired any more. What does not fit beside an ACK has the next packet.
    pub(crate) fn write_repair(&mut self, of: &Around<'_>, w: &mut PacketWriter<'_>, lane: usize) -> bool {
        let (session, _) = self.send.head(lane);
        let most = of.link.room_of(w.number());
        let mut fits = true;
        let write = |header: &RepairHeader, data: &[u8], serial: u64, packets: u64| {
            let unmarked = Frame::Unmarked { session: session.into(), packets };
            let before = if packets == 0 { 0 } else { unmarked.size() };
            let need = before + repair_header_size(header, data.len()) + data.len();
            fits = need <= most;
            if need > w.room() {
                return false;
            }
            if packets != 0 {
                unmarked.encode(w.bytes());
            }
            repair_header(w.bytes(), header, data.len());
            w.bytes().bytes(data);
            // FEC-50: a packet with it is in flight like any other.
            w.record(FrameToken::Repair { session, serial }, true);
            true
        };
        let made = self.send.repair(lane, of.cx.now, write);
        if !fits {
            self.send.cancel(lane);
        }
        made.is_some() && fits
    }
}

/// Symbols leave room for the number of a packet of repair that finds so many times as many packets
/// unacknowledged as they did. It may be the longer; what it leaves no room for is not sent.
const NUMBERS_AHEAD: u64 = 4;

/// Or as many: two bytes are spent in any case, so that not every few packets symbols are of another length.
const NUMBERS_AT_LEAST: u64 = 256;

/// Room in a packet that is worth a frame without protection.
const MIN_REST: usize = 128;

/// Less holds no frame with data.
const MIN_FRAME: usize = 8;
