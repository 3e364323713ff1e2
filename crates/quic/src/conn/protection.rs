//! The seams of forward erasure correction: what joins a symbol, how repair is written, what comes out of a symbol. Which
//! packet is for repair is in `slots`.

use bytes::Bytes;
use quickset_base::Batch;
use quickset_wire::frame::{
    Frame, FrameError, LoneSymbol, RepairHeader, SymbolAck, SymbolFrames, kind, repair_header,
    repair_header_size, source_symbol_header, source_symbol_header_size,
};
use quickset_wire::{Space, StreamId, TransportErrorCode as Code};

use super::Connection;
use super::slots::demand;
use crate::error::TransportError;
use crate::packet::{Channel, Key, Token, View, Writer};
use crate::protect::policy::{Carried, Protection};
use crate::protect::receive::{Dispatch, Receiving};
use crate::protect::send::{Recovered, Slot};
use crate::protect::{Alike, MAX_WINDOW, Protect};
use crate::streams::{Stretch, Turn, UnknownStream, Written};
use crate::tx::{MAX_TOP_UP, Plan};

/// What the application says.
impl Connection {
    /// How the data of a stream is protected from now on; [`Protection::None`] leaves it to the connection's own
    /// protection ([`Fec::protection`](crate::Fec::protection)) again. Without forward erasure correction at the peer
    /// nothing is protected, and everything arrives all the same.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_protection(&mut self, id: StreamId, protection: &Protection) -> Result<(), UnknownStream> {
        let own = *protection != Protection::None;
        let channel = self.streams.own_channel(id, own)?;
        if !own {
            // The stream is of another channel now, in whose turns this one's repair would wait for ever, and all behind it.
            self.streams.set_repair(channel, false);
        }
        let streams = &self.streams;
        self.protect.send.purge(|channel| streams.has_channel(channel));
        self.protect.send.set_policy(channel, protection);
        self.drain_orphans();
        // Only messages have ends; a stream of bytes is cut as it comes.
        let _ = self.streams.set_even(id, protection.splits_evenly());
        Ok(())
    }

    /// From now on so many symbols of each session of the peer are kept for decoding (FEC_WINDOW). Fewer take less
    /// memory, but losses farther back cannot be repaired; 0 asks for no more repair. More than 2^20 is taken for that.
    pub fn set_fec_window(&mut self, window: u64) {
        if let Some(receive) = &mut self.protect.receive {
            receive.set_window(window.min(MAX_WINDOW));
        }
    }

    /// Whether forward erasure correction was agreed on.
    pub fn has_fec(&self) -> bool {
        self.protect.receive.is_some()
            && self.handshake.peer.as_ref().is_some_and(|p| p.fec_decoder.is_some())
    }
}

/// The way out.
impl Connection {
    /// A batch begins: what is planned of its packets.
    pub(crate) fn plan_batch(&mut self) -> Plan {
        let mut plan = Plan { repaired: self.protect.repaired, ..Plan::default() };
        if self.protect.send.is_active() {
            self.protect.send.stir();
            self.protect.send.reached(self.recovery.next_number(Space::Data));
            let acked = self.recovery.largest_acked(Space::Data).unwrap_or(0);
            let unacked = self.recovery.next_number(Space::Data) - acked;
            plan.room = self.room_of(acked + NUMBERS_AHEAD * unacked.max(NUMBERS_AT_LEAST));
            if let Some(search) = &self.path.search {
                let more = search.highest().saturating_sub(self.path.mtu);
                self.protect.send.set_growth(plan.room + more);
            }
        }
        plan
    }

    /// Stream data, as symbols where a policy wants it; or what the slot is for instead.
    pub(crate) fn write_data(&mut self, w: &mut Writer<'_>, view: &View, plan: &mut Plan) {
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
            self.streams.repair_sent(due.turn, w.len() - before);
            if plan.repaired {
                return;
            }
            self.streams.set_repair(due.channel, false);
        }
        let packet = plan.room;
        let mut passed = false;
        while let Some(turn) = self.streams.next_channel() {
            let before = w.len();
            let joined = self.join(&turn, packet).filter(|(_, limit)| self.may_join(turn.channel, *limit));
            let joined = match joined {
                // FEC-15: what follows of the channel is for the next packet, unless the peer takes nothing larger
                // than a fraction of one, which would cost more packets than it is worth.
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
                self.streams.pass_datagrams();
                continue;
            }
            // Whoever's turn it is has the next packet: frames of a few bytes are not worth asking.
            let least = if joined.is_some() { MIN_REST } else { MIN_FRAME };
            if w.len() == before || w.room() < least {
                break;
            }
        }
        if passed {
            self.streams.recall_datagrams();
        }
        // Of symbols that the window passed, and of lanes that were left.
        self.drain_orphans();
    }

    /// The stream whose turn it is with new data, and what a packet with that joins: a lane, and how many bytes of it at most.
    pub(crate) fn board(&mut self, plan: &Plan) -> Option<(Key, Option<(usize, usize)>)> {
        let turn = self.streams.next_channel().filter(|turn| !turn.resend)?;
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
        let Self { streams, datagrams, protect, .. } = self;
        let deadlines = streams.deadlines(turn.channel);
        let outlook = facts.of((streams, datagrams), Some(*turn), &protect.monitor, &deadlines);
        protect.send.join(turn.channel, carried, &outlook, packet)
    }

    /// The sooner the end of a message is known to have arrived, or not, the better.
    pub(super) fn note(&mut self, written: &Written) {
        if written.ends_message {
            self.asks.ask_immediate();
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
        // For the longer header of repair a packet with nothing but a symbol is a few bytes short. In the middle of a
        // transfer it is padded to what the batch has, where repair has room as well. At its end that would be what
        // the last byte waits for: so all packets are as short, those with other frames, too.
        let rest = (Batch::MAX_SEGMENTS * view.room) as u64;
        let closing = plan.leads
            && plan.room <= view.room + MAX_TOP_UP
            && demand(&self.streams, &self.datagrams, channel).remaining().is_some_and(|bytes| bytes <= rest);
        let others = if closing { w.len() } else { 0 };
        let unmarked = channel != Channel::Datagrams && self.protect.send.may_be_unmarked(lane, w.number());
        let limit = view.room.saturating_sub(others);
        let Some(symbol) = w.begin_symbol((session, sid), limit, unmarked) else { return };
        self.write_channel(w, view, channel);
        if let Some(packed) = w.end_symbol(&symbol) {
            let streams = &self.streams;
            let alike = packed.frame.map(|frame| Alike { lane, frame: *frame, bytes: packed.bytes.len() });
            let may_follow = self.protect.send.pushed(lane, packed, self.now, |frame| streams.piece(frame));
            plan.alike = alike.filter(|_| may_follow);
            plan.closing = closing;
        }
    }

    /// False when there is nothing that can be repeated. What does not fit beside an ACK has the next packet.
    fn write_repeat(&mut self, w: &mut Writer<'_>, lane: usize) -> bool {
        let most = self.room_of(w.number());
        let Self { streams, protect, now, .. } = self;
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
    pub(crate) fn write_repair(&mut self, w: &mut Writer<'_>, lane: usize) -> bool {
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
        let made = self.protect.send.repair(lane, self.now, write);
        if !fits {
            self.protect.send.cancel(lane);
        }
        made.is_some() && fits
    }
}

/// The way in.
impl Connection {
    /// A SOURCE_SYMBOL: its frames act unless they did already.
    pub(crate) fn on_source_symbol(
        &mut self,
        (session, sid): (u64, u64),
        data: &[u8],
        payload: &Bytes,
    ) -> Result<(), TransportError> {
        let receive = self.protect.receive.as_mut().ok_or_else(not_agreed)?;
        let mut frames = SymbolFrames::new(data);
        // Before the decoder copies the symbol: a frame that is read back while it is still on its way to the cache waits
        // for whatever was stored before it.
        let first = frames.next();
        match receive.on_source(session, sid, data, payload)? {
            Dispatch::No => Ok(()),
            Dispatch::All => self.symbol_frames(first, frames, payload, true),
            Dispatch::WithoutDatagrams => self.symbol_frames(first, frames, payload, false),
        }
    }

    /// The same for the usual packet, which holds one with one STREAM frame.
    pub(crate) fn on_lone_symbol(
        &mut self,
        lone: &LoneSymbol<'_>,
        payload: &Bytes,
    ) -> Result<(), TransportError> {
        let LoneSymbol { session, sid, symbol, id, offset, fin, data } = *lone;
        let receive = self.protect.receive.as_mut().ok_or_else(not_agreed)?;
        let dispatch = receive.on_source(session, sid, symbol, payload);
        if dispatch.map_err(|error| error.in_frame(LoneSymbol::KIND))? == Dispatch::No {
            return Ok(());
        }
        let stretch = Stretch { id, offset, fin, data, payload };
        self.streams.on_stream(stretch, self.now).map_err(|error| error.in_frame(symbol[0].into()))
    }

    /// A REPAIR.
    pub(crate) fn on_repair(&mut self, frame: &Frame<'_>) -> Result<(), TransportError> {
        self.protect.receive.as_mut().ok_or_else(not_agreed)?.on_repair(frame)
    }

    /// UNMARKED: data that came before was symbols.
    pub(crate) fn on_unmarked(&mut self, session: u64, packets: u64) -> Result<(), TransportError> {
        self.protect.receive.as_mut().ok_or_else(not_agreed)?.on_unmarked(session, packets)
    }

    /// FEC_WINDOW: the peer keeps more symbols, or fewer.
    pub(crate) fn on_fec_window(&mut self, epoch: u64, window: u64) -> Result<(), TransportError> {
        if self.protect.receive.is_none() {
            return Err(not_agreed());
        }
        self.protect.send.set_window(epoch, window);
        self.drain_orphans();
        Ok(())
    }

    /// SYMBOL_ACK: what the peer recovered is settled with the streams, and lost all the same for congestion control
    /// and loss detection. FEC-43: it acts as it is read, while the ACKs of all packets received together act last.
    pub(crate) fn on_symbol_ack(&mut self, ack: &SymbolAck<'_>) -> Result<(), TransportError> {
        let never = || TransportError::new(Code::FEC_ERROR, "a SYMBOL_ACK of a symbol never sent");
        if self.protect.receive.is_none() {
            return Err(not_agreed());
        }
        let live = self.protect.send.live(ack.session).ok_or_else(never)?;
        if ack.largest >= live.end {
            return Err(never());
        }
        let mut tokens = std::mem::take(&mut self.scratch.recovered);
        for range in ack.ranges() {
            // What lies below First is known, or dead.
            let sids = (*range.start()).max(live.start)..=*range.end();
            for sid in sids.take(self.protect.heeded) {
                self.protect.heeded -= 1;
                match self.protect.send.recovered(ack.session, sid) {
                    Recovered::Known => {}
                    Recovered::Held(held) => tokens.extend(held),
                    Recovered::InFlight(number) => {
                        let session = ack.session as u32;
                        self.recovery.take_symbol(number, (session, sid), &mut tokens);
                    }
                }
            }
        }
        self.protect.send.tidy(ack.session);
        for token in tokens.drain(..) {
            self.recovered(token);
        }
        self.scratch.recovered = tokens;
        Ok(())
    }

    /// After each packet: repair does its work, and what comes of it acts.
    pub(crate) fn recover(&mut self) -> Result<(), TransportError> {
        self.protect.heeded = Protect::HEEDED;
        let Some(receive) = &mut self.protect.receive else { return Ok(()) };
        receive.end_packet();
        if !receive.has_work() {
            return Ok(());
        }
        receive.work();
        let mut any = false;
        while let Some((session, sid, symbol)) =
            self.protect.receive.as_mut().and_then(Receiving::next_recovered)
        {
            any = true;
            self.log_recovered(session, sid);
            // FEC-22: nothing of a packet comes with it: no number to acknowledge, no time, no ECN mark.
            let mut frames = SymbolFrames::new(&symbol);
            let acted = self.symbol_frames(frames.next(), frames, &symbol, true);
            // Its bytes are what REPAIRs made of them.
            acted.map_err(|e| if e.code == Code::FEC_ERROR { e.in_frame(kind::REPAIR) } else { e })?;
        }
        if any {
            // FEC-40: the sender's window and its resends wait for this.
            self.acks[Space::Data.index()].soon(self.now);
        }
        Ok(())
    }

    /// FEC-19, FEC-37: like the frames of the packet, with their errors; what does not parse is one. FEC-21: `datagrams`
    /// that may have been dispatched before are left out.
    fn symbol_frames<'a>(
        &mut self,
        mut first: Option<Result<Frame<'a>, FrameError>>,
        mut frames: SymbolFrames<'a>,
        payload: &Bytes,
        datagrams: bool,
    ) -> Result<(), TransportError> {
        // By reference: a frame that is moved is read back before it has been written.
        while let Some(frame) = &first {
            match frame {
                Ok(Frame::Datagram { .. }) if !datagrams => {}
                Ok(frame) => {
                    self.dispatch(Space::Data, frame, payload).map_err(|e| e.in_frame(frame.kind()))?;
                }
                Err(e) => return Err(TransportError::new(e.code, e.why).in_frame(e.kind)),
            }
            if !self.lifecycle.is_open() {
                break;
            }
            first = frames.next();
        }
        Ok(())
    }
}

/// What became of packets.
impl Connection {
    /// Tokens that are not held any more are lost.
    pub(crate) fn drain_orphans(&mut self) {
        while let Some(token) = self.protect.send.orphan() {
            self.lost(token);
        }
    }
}

/// FEC-8: without the extension the frame is unknown.
fn not_agreed() -> TransportError {
    TransportError::new(Code::FRAME_ENCODING_ERROR, "forward erasure correction was not agreed on")
}

/// Symbols leave room for the number of a packet of repair that finds so many times as many packets unacknowledged as they
/// did. It may be the longer; what it leaves no room for is not sent.
const NUMBERS_AHEAD: u64 = 4;

/// Or as many: two bytes are spent in any case, so that not every few packets symbols are of another length.
const NUMBERS_AT_LEAST: u64 = 256;

/// Room in a packet that is worth a frame without protection.
const MIN_REST: usize = 128;

/// Less holds no frame with data.
const MIN_FRAME: usize = 8;
