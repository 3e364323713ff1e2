//! The decoding half of forward erasure correction: sessions of the peer, what is missing of them, what was
//! recovered.
//!
//! *In:* SOURCE_SYMBOL and REPAIR frames, packet by packet; news that a SYMBOL_ACK of ours arrived. *Out:*
//! whether a symbol's frames are to be dispatched, recovered symbols, SYMBOL_ACK and FEC_WINDOW frames.
//!
//! Invariants: whatever comes is taken, ignored or an error (FEC-62); each SID of the window is handed out
//! once, received or recovered; sessions are made as they are used and are fewer than we offered; what a
//! packet makes us compute is at most [`BUDGET`] bytes at a time, the rest waits.
//!
//! Source: `spec/fec.md`, sections 5 to 13.

mod blocks;
mod early;
mod fresh;
mod news;
mod session;
mod window;

use bytes::Bytes;
use quickset_base::{Duration, Time};
use quickset_wire::frame::{Frame, RepairHeader};
use quickset_wire::{Scheme, Schemes};

use crate::error::TransportError;
use crate::packet::{FrameToken, PacketWriter, Want};
use crate::work::WorkAllowance;
use early::EarlyPayloads;
use session::{CodingSession, Price, error};
use window::SymbolWindow;

/// All sessions of the peer.
#[derive(Debug)]
pub(crate) struct ProtectReceiving {
    offer: DecoderOffer,
    /// Those that were used, in order, each with its number.
    sessions: Vec<(u64, CodingSession)>,
    /// The place of the one that was used last.
    latest: usize,
    window: SymbolWindow,
    early: EarlyPayloads,
    /// A session may have something to compute.
    busy: bool,
    /// Packets taken so far, to tell the symbols of one from those of the next.
    packets: u64,
    /// Steps for coefficients that packets have paid for.
    steps: WorkAllowance,
    /// Bytes of payload that they have paid for.
    bytes: WorkAllowance,
    last_ping: Option<Time>,
    counts: ReceiveCounts,
}

/// What we announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecoderOffer {
    /// Symbols kept of each session.
    pub(crate) window: u64,
    pub(crate) sessions: u64,
    /// Bytes of a symbol at most.
    pub(crate) symbol: usize,
    pub(crate) schemes: Schemes,
    /// Packets, from number 0 on, whose data is kept since it may be a symbol.
    pub(crate) unmarked: u64,
}

/// What becomes of the frames in a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dispatch {
    All,
    /// It is below the window: whether it came before is not known (FEC-21).
    WithoutDatagrams,
    /// They were dispatched before.
    No,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceiveCounts {
    pub(crate) sources: u64,
    pub(crate) repairs: u64,
    pub(crate) recovered: u64,
}

impl ProtectReceiving {
    pub(crate) fn new(offer: DecoderOffer) -> Self {
        Self {
            offer,
            sessions: Vec::new(),
            latest: 0,
            window: SymbolWindow::new(offer.window),
            early: EarlyPayloads::new(offer.unmarked),
            busy: false,
            packets: 1,
            steps: WorkAllowance::new(STEPS, saved(offer.window)),
            bytes: WorkAllowance::new(BYTES, BYTES * PACKETS),
            last_ping: None,
            counts: ReceiveCounts::default(),
        }
    }

    /// Bytes of symbols that are kept. Looks at all sessions.
    pub(crate) fn memory(&self) -> usize {
        self.sessions.iter().map(|(_, session)| session.memory()).sum()
    }

    /// A SOURCE_SYMBOL with `data` in a packet's `payload`.
    ///
    /// # Errors
    /// FEC_ERROR (FEC-61).
    pub(crate) fn on_source(
        &mut self,
        number: u64,
        sid: u64,
        data: &[u8],
        payload: &Bytes,
    ) -> Result<Dispatch, TransportError> {
        let packet = self.packets;
        let session = self.session(number)?;
        let dispatch = session.source(sid, data, packet, payload)?;
        let has_work = session.has_work();
        self.busy |= has_work;
        self.counts.sources += u64::from(dispatch != Dispatch::No);
        Ok(dispatch)
    }

    /// Whether the data of packet `number` may be a symbol without saying so.
    #[inline]
    pub(crate) fn heeds(&self, number: u64) -> bool {
        self.early.heeds(number)
    }

    /// Keeps the first STREAM frame of such a packet (FEC-65).
    pub(crate) fn keep(&mut self, number: u64, payload: &[u8]) {
        self.early.keep(number, payload, self.offer.symbol);
    }

    /// UNMARKED: which packets they were. What is in them was dispatched when they came (FEC-69).
    ///
    /// # Errors
    /// FEC_ERROR (FEC-61).
    pub(crate) fn on_unmarked(&mut self, number: u64, packets: u64) -> Result<(), TransportError> {
        if packets >> self.offer.unmarked != 0 {
            return Err(error("unmarked symbols in packets that were not offered to be kept"));
        }
        // That there is such a session.
        self.session(number)?;
        // A frame is there once, so that who names it again has nothing looked for.
        let mut left = if self.early.is_empty() { 0 } else { packets };
        for sid in 0.. {
            if left == 0 {
                break;
            }
            let frame = self.early.take(left.trailing_zeros().into());
            left &= left - 1;
            if let Some(frame) = frame {
                let is_new = self.session(number)?.unmarked(sid, &frame)?;
                self.counts.sources += u64::from(is_new);
            }
        }
        let has_work = self.session(number)?.has_work();
        self.busy |= has_work;
        Ok(())
    }

    /// A REPAIR.
    ///
    /// # Errors
    /// FEC_ERROR (FEC-61).
    pub(crate) fn on_repair(&mut self, frame: &Frame<'_>) -> Result<(), TransportError> {
        let Frame::Repair { session, first, count, parameter, index, data } = *frame else { return Ok(()) };
        let header = RepairHeader { session, first, count, parameter, index };
        let window = self.window.largest();
        let session = self.session(session)?;
        // What its symbols have cost since the last one.
        let owed = session.owes();
        self.pay(owed);
        self.counts.repairs += 1;
        let is_affordable = !self.steps.is_spent();
        let session = &mut self.sessions[self.latest].1;
        session.repair(&header, data, window, is_affordable)?;
        if !is_affordable {
            return Ok(());
        }
        let (owed, has_work) = (session.owes(), session.has_work());
        self.pay(owed);
        self.busy |= has_work;
        Ok(())
    }

    /// The frames of a packet are through.
    pub(crate) fn end_packet(&mut self) {
        self.packets += 1;
        self.steps.earn();
        self.bytes.earn();
    }

    fn pay(&mut self, price: Price) {
        self.steps.pay(price.steps);
        self.bytes.pay(price.bytes);
    }

    /// Whether missing symbols can be computed.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.busy && self.sessions.iter().any(|(_, session)| session.has_work())
    }

    /// Computes some of them: at most [`BUDGET`] bytes are multiplied and added, of those that packets have
    /// paid for (FEC-60), and what one symbol takes more. Returns how many it was.
    pub(crate) fn work(&mut self) -> usize {
        let budget = BUDGET.min(self.bytes.left());
        let mut spent = 0;
        for (_, session) in &mut self.sessions {
            while spent < budget && session.has_work() {
                spent += session.work(budget - spent).max(1);
            }
            let Price { steps, bytes } = session.owes();
            self.steps.pay(steps);
            self.bytes.pay(bytes);
        }
        self.busy = self.sessions.iter().any(|(_, session)| session.has_work());
        spent
    }

    /// The next symbol that was recovered, by session and SID; each once.
    pub(crate) fn next_recovered(&mut self) -> Option<(u64, u64, Bytes)> {
        for (number, session) in &mut self.sessions {
            if let Some((sid, symbol)) = session.next_recovered() {
                self.counts.recovered += 1;
                return Some((*number, sid, symbol));
            }
        }
        None
    }

    /// Tells what was recovered and is news (FEC-38); called when an ACK was written. With a packet that
    /// nobody would acknowledge goes a PING, one in a round trip (FEC-41).
    pub(crate) fn write_acks(&mut self, w: &mut PacketWriter<'_>, now: Time, rtt: Duration) {
        let mut any = false;
        for (number, session) in self.sessions.iter_mut().filter(|(_, session)| !session.news.is_empty()) {
            any |= session.news.write(w, *number);
        }
        let may_ask = self.last_ping.is_none_or(|at| now.since(at) >= rtt);
        if any && may_ask && !w.is_eliciting() && w.put(&Frame::Ping, FrameToken::Nothing) {
            self.last_ping = Some(now);
        }
    }

    /// A SYMBOL_ACK of ours arrived, which told of symbols from `first` on.
    pub(crate) fn acked(&mut self, session: u32, epoch: u64, first: u64) {
        if let Ok(at) = self.place(session.into()) {
            self.sessions[at].1.news.acked(epoch, first);
        }
    }

    /// From now on so many symbols of each session are kept.
    pub(crate) fn set_window(&mut self, window: u64) {
        self.steps.set_most(saved(self.window.largest().max(window)));
        if self.window.set(window) {
            self.sessions.iter_mut().for_each(|(_, session)| session.set_window(window));
        }
    }

    /// The peer has made an offer, too.
    pub(crate) fn agree(&mut self) {
        self.window.agree();
    }

    /// Whether a FEC_WINDOW is to be sent.
    pub(crate) fn want(&self) -> Want {
        self.window.want()
    }

    /// Sends it (FEC-45).
    pub(crate) fn write(&mut self, w: &mut PacketWriter<'_>) {
        self.window.write(w);
    }

    /// A FEC_WINDOW of ours arrived.
    pub(crate) fn window_acked(&mut self, epoch: u64) {
        self.window.acked(epoch);
    }

    /// A FEC_WINDOW of ours was lost.
    pub(crate) fn window_lost(&mut self, epoch: u64) {
        self.window.lost(epoch);
    }

    /// What was counted.
    pub(crate) fn counts(&self) -> ReceiveCounts {
        self.counts
    }

    /// The session of this number; made when it is used first.
    #[inline]
    fn session(&mut self, number: u64) -> Result<&mut CodingSession, TransportError> {
        if self.sessions.get(self.latest).is_none_or(|(latest, _)| *latest != number) {
            if let Some((_, before)) = self.sessions.get_mut(self.latest) {
                // Of one session only: what stays in packets keeps their buffers.
                before.flush();
            }
            let at = self.place(number).or_else(|at| self.open(at, number))?;
            // FEC-12.
            if self.sessions[at].0 != number {
                return Err(error("two schemes of one session"));
            }
            self.latest = at;
        }
        Ok(&mut self.sessions[self.latest].1)
    }

    /// Where the session of this n is, or would be.
    fn place(&self, number: u64) -> Result<usize, usize> {
        self.sessions.binary_search_by_key(&(number >> 3), |(number, _)| number >> 3)
    }

    #[cold]
    fn open(&mut self, at: usize, number: u64) -> Result<usize, TransportError> {
        let n = number >> 3;
        let scheme = Scheme::of(number).filter(|scheme| self.offer.schemes.has(*scheme));
        let Some(scheme) = scheme else { return Err(error("a scheme that was not offered")) };
        if n >= self.offer.sessions || self.offer.window == 0 {
            return Err(error("a session beyond those offered"));
        }
        self.sessions.insert(at, (number, CodingSession::new(scheme, self.window.now(), self.offer.symbol)));
        Ok(at)
    }
}

/// Steps that are saved at most. The matrix of a block of LDPC takes 24 for each of its symbols, source and
/// repair, of which there are no more than two windows; an honest sender's packets have paid for it when the
/// first repair symbol of it comes.
fn saved(window: u64) -> u64 {
    window.saturating_mul(64).max(LEAST_SAVED)
}

/// Bytes of payload that are computed for each received packet at most: 20 to 60 microseconds.
const BUDGET: usize = 512 << 10;

/// Steps that a packet pays for: 4 microseconds. Where 64 symbols are missing, each repair symbol says
/// something new, and every second packet brings one, an honest sender needs five of six.
const STEPS: u64 = 768;

/// Bytes of payload that a packet pays for, and again some 5 microseconds. A window of any length has 64
/// missing symbols to be computed from what is held of it: that is the payload of 64 symbols for each of its
/// packets, and some more to solve them.
const BYTES: u64 = 128 << 10;

/// Packets whose payload may be saved up: a path loses many of a window at once.
const PACKETS: u64 = 1024;

/// Steps for a few repair symbols that come at once, however small the window.
const LEAST_SAVED: u64 = 1 << 16;

#[cfg(test)]
mod tests;
