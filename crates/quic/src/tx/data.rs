//! What a packet holds of the application's: data of streams and datagrams, as source symbols where a policy
//! wants it, and repair. Which packet is for repair is in `slots`.

use quickset_base::Batch;
use quickset_wire::Space;
use quickset_wire::frame::{
    Frame, RepairHeader, repair_header, repair_header_size, source_symbol_header, source_symbol_header_size,
};

use super::slots::demand;
use super::{MAX_TOP_UP, Plan};
use crate::common::Common;
use crate::conn::Connection;
use crate::datagram::Wrote;
use crate::packet::{Channel, Key, LONGER_HEADER, Token, View, Writer};
use crate::protect::Alike;
use crate::protect::policy::Carried;
use crate::protect::send::Slot;
use crate::streams::{Turn, Written};
use crate::traffic::Traffic;

/// What is protected.
impl Connection {
    /// A batch begins: what is planned of its packets.
    pub(super) fn plan_batch(&mut self) -> Plan {
        let mut plan = Plan { repaired: self.protect.repaired, ..Plan::default() };
        if self.protect.send.is_active() {
            self.protect.send.stir();
            self.protect.send.reached(self.link.recovery.next_number(Space::Data));
            let acked = self.link.recovery.largest_acked(Space::Data).unwrap_or(0);
            let unacked = self.link.recovery.next_number(Space::Data) - acked;
            plan.room = self.room_of(acked + NUMBERS_AHEAD * unacked.max(NUMBERS_AT_LEAST));
            if let Some(search) = &self.link.path.search {
                let more = search.highest().saturating_sub(self.link.path.mtu);
                self.protect.send.set_growth(plan.room + more);
            }
        }
        plan
    }

    /// Stream data, as symbols where a policy wants it; or what the slot is for instead.
    pub(super) fn write_data(&mut self, w: &mut Writer<'_>, view: &View, plan: &mut Plan) {
        (plan.repaired, plan.closing) = (false, false);
        if !self.protect.send.is_active() {
            self.write_plain(w, view);
            return;
        }
        if let Some(due) = self.protect.due.take() {
            let before = w.len();
            plan.repaired = match due.slot {
                Slot::Repeat(lane) => self.write_repeat(w, lane),
                Slot::Repair(lane) => self.write_repair(w, lane),
            };
            self.traffic.streams.repair_sent(due.turn, w.len() - before);
            if plan.repaired {
                return;
            }
            self.traffic.streams.set_repair(due.channel, false);
        }
        let packet = plan.room;
        let mut passed = false;
        while let Some(turn) = self.traffic.streams.next_channel() {
            let before = w.len();
            let joined = self.join(&turn, packet).filter(|(_, limit)| self.may_join(turn.channel, *limit));
            let joined = match joined {
                // FEC-15: what follows of the channel is for the next packet, unless the peer takes nothing
                // larger than a fraction of one, which would cost more packets than it is worth.
                Some((lane, _)) if self.protect.send.is_in(lane, w.number()) => {
                    if !self.protect.send.takes_fractions(lane, packet) || w.room() < MIN_REST {
                        break;
                    }
                    None
                }
                joined => joined,
            };
            if let Some((lane, limit)) = joined {
                self.write_symbol(w, (turn.channel, lane), &View { room: limit, ..*view }, plan);
            } else {
                self.write_channel(w, view, turn.channel);
                self.protect.send.passed(1);
            }
            if w.len() == before && turn.channel == Channel::Datagrams && !passed {
                // It is too long for what is left: others may have that.
                passed = true;
                self.traffic.streams.pass_datagrams();
                continue;
            }
            // Whoever's turn it is has the next packet: frames of a few bytes are not worth asking.
            let least = if joined.is_some() { MIN_REST } else { MIN_FRAME };
            if w.len() == before || w.room() < least {
                break;
            }
        }
        if passed {
            self.traffic.streams.recall_datagrams();
        }
        // Of symbols that the window passed, and of lanes that were left.
        self.drain_orphans();
    }

    /// The stream whose turn it is with new data, and what a packet with that joins: a lane, and how many
    /// bytes of it at most.
    pub(super) fn board(&mut self, plan: &Plan) -> Option<(Key, Option<(usize, usize)>)> {
        let turn = self.traffic.streams.next_channel().filter(|turn| !turn.resend)?;
        if turn.channel == Channel::Datagrams {
            return None;
        }
        Some((turn.key, self.join(&turn, plan.room)))
    }

    /// The lane that data of the channel whose turn it is joins, and how many bytes its symbol may have.
    fn join(&mut self, turn: &Turn, packet: usize) -> Option<(usize, usize)> {
        let carried = Carried { resend: turn.resend };
        if let Some(known) = self.protect.send.known(turn.channel, carried, self.moment(), packet) {
            return known.joined;
        }
        let facts = self.facts();
        let Self { traffic: Traffic { streams, datagrams, .. }, protect, .. } = self;
        let deadlines = streams.deadlines(turn.channel);
        let outlook = facts.of((streams, datagrams), Some(*turn), &protect.monitor, &deadlines);
        protect.send.join(turn.channel, carried, &outlook, packet)
    }

    /// The sooner the end of a message is known to have arrived, or not, the better.
    fn note(&mut self, written: &Written) {
        if written.ends_message {
            self.link.asks.ask_immediate();
        }
    }

    fn write_symbol(
        &mut self,
        w: &mut Writer<'_>,
        (channel, lane): (Channel, usize),
        view: &View,
        plan: &mut Plan,
    ) {
        let (session, sid) = self.protect.send.head(lane);
        // For the longer header of repair a packet with nothing but a symbol is a few bytes short. In the
        // middle of a transfer it is padded to what the batch has, where repair has room as well. At its end
        // that would be what the last byte waits for: so all packets are as short, those with other frames,
        // too.
        let rest = (Batch::MAX_SEGMENTS * view.room) as u64;
        let closing = plan.leads
            && plan.room <= view.room + MAX_TOP_UP
            && demand(&self.traffic.streams, &self.traffic.datagrams, channel)
                .remaining()
                .is_some_and(|bytes| bytes <= rest);
        let others = if closing { w.len() } else { 0 };
        let unmarked = channel != Channel::Datagrams && self.protect.send.may_be_unmarked(lane, w.number());
        let limit = view.room.saturating_sub(others);
        let Some(symbol) = w.begin_symbol((session, sid), limit, unmarked) else { return };
        self.write_channel(w, view, channel);
        if let Some(packed) = w.end_symbol(&symbol) {
            let streams = &self.traffic.streams;
            let alike = packed.frame.map(|frame| Alike { lane, frame: *frame, bytes: packed.bytes.len() });
            let may_follow =
                self.protect.send.pushed(lane, packed, self.common.now, |frame| streams.piece(frame));
            plan.alike = alike.filter(|_| may_follow);
            plan.closing = closing;
        }
    }

    /// False when there is nothing that can be repeated. What does not fit beside an ACK has the next packet.
    fn write_repeat(&mut self, w: &mut Writer<'_>, lane: usize) -> bool {
        let most = self.room_of(w.number());
        let Self { traffic: Traffic { streams, .. }, protect, common: Common { now, .. }, .. } = self;
        let (session, _) = protect.send.head(lane);
        let Some((sid, symbol)) = protect.send.repeat(lane, |token| streams.wants(token, *now)) else {
            return false;
        };
        let len = symbol.len();
        let need = source_symbol_header_size(session.into(), sid) + len;
        if need > w.room() {
            // The path takes smaller packets than it did.
            if need > most {
                protect.send.give_up(lane);
                self.drain_orphans();
            }
            return need <= most;
        }
        source_symbol_header(w.bytes(), session.into(), sid, len);
        symbol.write(w.bytes().space(len));
        let tokens = protect.send.repeated(lane, sid, w.number(), *now);
        w.record(Token::Symbol { session, sid, n: tokens.len() as u16 }, true);
        for token in tokens {
            w.record(token, true);
        }
        true
    }

    /// False when nothing is to be repaired any more. What does not fit beside an ACK has the next packet.
    pub(super) fn write_repair(&mut self, w: &mut Writer<'_>, lane: usize) -> bool {
        let (session, _) = self.protect.send.head(lane);
        let most = self.room_of(w.number());
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
            w.record(Token::Repair { session, serial }, true);
            true
        };
        let made = self.protect.send.repair(lane, self.common.now, write);
        if !fits {
            self.protect.send.cancel(lane);
        }
        made.is_some() && fits
    }
}

/// What is not.
impl Connection {
    /// What a packet that holds nothing else has for frames, whatever its number.
    pub(crate) fn packet_room(&self) -> usize {
        let early = if self.link.keys.sends_early() { LONGER_HEADER } else { 0 };
        self.room_behind(4 + early)
    }

    /// Data without protection: of streams, and datagrams when it is their turn.
    fn write_plain(&mut self, w: &mut Writer<'_>, view: &View) {
        let written = self.traffic.streams.write_data(w, view, None);
        self.note(&written);
        if !self.traffic.datagrams.is_empty() {
            self.write_mixed(w, view);
        }
    }

    /// The same from there on. What does not fit beside the rest leaves its place in this packet to others.
    fn write_mixed(&mut self, w: &mut Writer<'_>, view: &View) {
        while self.traffic.streams.is_datagrams_turn() {
            let is_through = self.write_datagrams(w);
            if !is_through {
                self.traffic.streams.pass_datagrams();
            }
            let written = self.traffic.streams.write_data(w, view, None);
            self.note(&written);
            if !is_through {
                self.traffic.streams.recall_datagrams();
                return;
            }
        }
    }

    /// Data of one channel, as long as it is its turn.
    fn write_channel(&mut self, w: &mut Writer<'_>, view: &View, channel: Channel) {
        if channel == Channel::Datagrams {
            self.write_datagrams(w);
        } else {
            let written = self.traffic.streams.write_data(w, view, Some(channel));
            self.note(&written);
        }
    }

    /// Whether a symbol of at most `limit` bytes is of use for what the channel has: datagrams are never
    /// split.
    fn may_join(&mut self, channel: Channel, limit: usize) -> bool {
        let (now, room) = (self.common.now, self.packet_room());
        channel != Channel::Datagrams
            || self.traffic.datagrams.next_size(now, room).is_some_and(|size| size <= limit)
    }

    /// Datagrams while it is their turn. False when the next one does not fit into what is left of the
    /// packet.
    fn write_datagrams(&mut self, w: &mut Writer<'_>) -> bool {
        let (now, room) = (self.common.now, self.packet_room());
        while self.traffic.streams.is_datagrams_turn() {
            match self.traffic.datagrams.write(w, now, room) {
                Wrote::Frame(size) => self.traffic.streams.datagrams_sent(size),
                Wrote::NoRoom => return false,
                Wrote::Nothing => {}
            }
            self.review_datagrams();
        }
        true
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
