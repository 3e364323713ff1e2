mod counts;
mod review;
mod unmarked;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use quickset_base::Time;
use quickset_base::number::index;
use quickset_fec::Equation;

pub(crate) use counts::LaneCounts;
pub(super) use review::{Review, ReviewPatience};
use unmarked::Unmarked;

use super::flights::RepairFlights;
use super::kept::{KeptSymbol, KeptSymbols};
use super::owed::{Have, MadeSymbol, OwedRepair};
use crate::packet::{FrameToken, Packed, StreamFrame};
use crate::protect::policy::RepairCode;

/// One session of ours: source symbols in flight, and what repairs them.
///
/// 1. [`push`](Self::push) takes a symbol as it is sent; its tokens stay with the packet.
/// 2. [`acked`](Self::acked), [`lost`](Self::lost) and [`recovered`](Self::recovered) say what became of it.
///    What is lost and may still be recovered is held here, tokens and all.
/// 3. [`plan`](Self::plan) and [`close`](Self::close) are the policy's decisions, [`repair`](Self::repair)
///    carries them out, one symbol a slot.
/// 4. [`review`](Self::review) releases what waited in vain (FEC's release rules), [`repeat`](Self::repeat)
///    sends it again as the same symbol; what cannot be repeated comes back through [`orphan`](Self::orphan).
///
/// Invariant (FEC-51): a token that came in by `lost` leaves once: into a repeat's packet, as recovered, or
/// as an orphan.
#[derive(Debug)]
pub(super) struct Lane {
    session: u32,
    window: u64,
    size: usize,
    kept: KeptSymbols,
    /// One for each SID from `base` on.
    sent: VecDeque<SentSymbol>,
    /// First: all below is acknowledged, recovered or dead.
    base: u64,
    /// So is everything below this, as far as somebody looked.
    settled: u64,
    owed: OwedRepair,
    repairs: RepairFlights,
    /// Lost and not repeated: L of the specification, and what was released of it.
    lost: BTreeMap<u64, LostSymbol>,
    orphans: Vec<FrameToken>,
    /// Everything below is covered by a repair that was sent.
    covered: u64,
    unprotected: u64,
    outstanding: u64,
    counts: LaneCounts,
    last_source: Option<Time>,
    /// Released by a probe timeout: nothing goes before it.
    urgent: bool,
    /// A channel has it, and this was counted before that came. What is lost of a lane that nobody has is
    /// held for nobody.
    taken: Option<LaneCounts>,
    /// The packet that the last symbol went into, for the first time or again.
    latest: Option<u64>,
    unmarked: Unmarked,
}

/// A symbol of ours.
#[derive(Clone, Copy, Debug)]
struct SentSymbol {
    /// The packet that carried it last.
    number: u64,
    at: Time,
    state: SymbolState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SymbolState {
    InFlight,
    Lost,
    Acked,
    Recovered,
    Dead,
}

/// A lost symbol.
#[derive(Debug)]
struct LostSymbol {
    tokens: Vec<FrameToken>,
    /// The peer has it all the same.
    recovered: bool,
    /// It is to be repeated.
    released: bool,
    /// When somebody first looked after it.
    since: Option<Time>,
}

/// Where the tokens of a recovered symbol are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecoveredTokens {
    /// They were settled already.
    Known,
    /// In this packet, which is in flight.
    InFlight(u64),
    /// Here.
    Held(Vec<FrameToken>),
}

impl Lane {
    /// A lane of a peer that keeps `window` symbols of `size` bytes, and data of packets below number
    /// `early`.
    pub(super) fn new(session: u32, code: RepairCode, window: u64, size: usize, early: u64) -> Self {
        Self {
            session,
            window,
            size,
            kept: KeptSymbols::new(window, size, matches!(code, RepairCode::ReedSolomon { .. })),
            sent: VecDeque::new(),
            base: 0,
            settled: 0,
            owed: OwedRepair::new(code),
            repairs: RepairFlights::default(),
            lost: BTreeMap::new(),
            orphans: Vec::new(),
            covered: 0,
            unprotected: 0,
            outstanding: 0,
            counts: LaneCounts::default(),
            last_source: None,
            urgent: false,
            taken: Some(LaneCounts::default()),
            latest: None,
            unmarked: Unmarked::new(early),
        }
    }

    /// At most so many bytes are kept for repair.
    pub(super) fn held(&self) -> u64 {
        (self.sent.len() * self.size) as u64
    }

    /// A channel gives it up. What is held comes back, and so does what is lost from now on.
    pub(super) fn leave(&mut self) {
        self.taken = None;
        self.cancel();
        self.close();
        self.give_up();
    }

    /// Another channel takes it, and knows nothing of what was before.
    pub(super) fn take(&mut self) {
        self.taken = Some(self.counts);
        self.last_source = None;
        self.urgent = false;
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.is_some()
    }

    /// Symbols that the peer keeps.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Bytes of a symbol at most.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// A symbol of it is in packet `number` (FEC-15).
    #[inline]
    pub(super) fn is_in(&self, number: u64) -> bool {
        self.latest == Some(number)
    }

    #[inline]
    pub(super) fn session(&self) -> u32 {
        self.session
    }

    #[inline]
    pub(super) fn code(&self) -> RepairCode {
        self.owed.code()
    }

    pub(super) fn counts(&self) -> LaneCounts {
        self.counts
    }

    /// The SID of the next symbol: they have no gaps (FEC-14).
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.base + self.sent.len() as u64
    }

    /// Nothing is in flight, held or owed.
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.lost.values().all(|held| held.recovered) && !self.owes_repair()
    }

    /// The peer keeps that many symbols from now on.
    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
        self.kept.set_window(window);
        self.make_room(0);
    }

    /// A symbol is sent; `piece` gives what it shares with its stream. Returns whether others may
    /// [`follow`](Self::follow).
    #[inline]
    pub(super) fn push(
        &mut self,
        packed: Packed<'_>,
        now: Time,
        piece: impl FnOnce(&StreamFrame) -> Option<Bytes>,
    ) -> bool {
        if let RepairCode::Xor2d { rows, columns } = self.code() {
            if self.next() - self.owed.open() >= u64::from(rows) * u64::from(columns) {
                self.close();
            }
        }
        self.make_room(1);
        let sid = self.next();
        let (number, bytes) = (packed.packet, packed.bytes.len());
        if packed.unmarked {
            self.unmarked.push(number);
        }
        let is_shared = self.kept.push(sid, packed, piece);
        self.sent.push_back(SentSymbol { number, at: now, state: SymbolState::InFlight });
        self.count(1, bytes as u64, number, now);
        is_shared
    }

    /// Symbols are sent, `bytes` bytes in all, each in the next packet from that with `number` on, and each
    /// the frame that follows the one before in its piece; `frame` is the first.
    pub(super) fn follow(&mut self, frame: &StreamFrame, n: u64, bytes: u64, number: u64, now: Time) {
        self.make_room(n);
        self.kept.extend(self.next(), frame, n);
        let packets = number..number + n;
        self.sent.extend(packets.map(|number| SentSymbol { number, at: now, state: SymbolState::InFlight }));
        self.count(n, bytes, number + n - 1, now);
    }

    #[inline]
    fn count(&mut self, n: u64, bytes: u64, latest: u64, now: Time) {
        self.latest = Some(latest);
        self.last_source = Some(now);
        self.unprotected += n;
        self.outstanding += n;
        self.counts.sources += n;
        self.counts.source_bytes += bytes;
    }

    /// The packets that carried these symbols last arrived. [`tidy`](Self::tidy) is called when all of a
    /// batch are told.
    pub(super) fn acked(&mut self, sids: Range<u64>) {
        let place = |sid: u64| index((sid.max(self.base) - self.base).min(self.sent.len() as u64));
        let (begin, covered, end) = (place(sids.start), place(self.covered), place(sids.end));
        for (at, sent) in (begin..).zip(self.sent.range_mut(begin..end)) {
            if sent.state == SymbolState::InFlight {
                sent.state = SymbolState::Acked;
                self.outstanding -= 1;
                self.unprotected = self.unprotected.saturating_sub(u64::from(at >= covered));
            }
        }
    }

    /// The packet that carried symbol `sid` last was lost. Gives the tokens back when nothing will recover
    /// it.
    pub(super) fn lost(&mut self, sid: u64, tokens: Vec<FrameToken>) -> Option<Vec<FrameToken>> {
        let taken = self.is_taken();
        let Some(sent) = self.sent_mut(sid) else { return Some(tokens) };
        match sent.state {
            SymbolState::InFlight if !taken => {
                sent.state = SymbolState::Dead;
                self.settled(sid);
                self.counts.unrecovered += 1;
                self.tidy();
                Some(tokens)
            }
            SymbolState::InFlight => {
                sent.state = SymbolState::Lost;
                self.lost.insert(sid, LostSymbol { tokens, recovered: false, released: false, since: None });
                None
            }
            SymbolState::Recovered => {
                debug_assert!(tokens.is_empty(), "they were taken when it was recovered");
                self.lost.insert(sid, LostSymbol { tokens, recovered: true, released: false, since: None });
                None
            }
            SymbolState::Lost | SymbolState::Acked | SymbolState::Dead => Some(tokens),
        }
    }

    /// A probe takes the tokens of a symbol that may yet arrive: it is repeated before anything else.
    pub(super) fn probed(&mut self, sid: u64, tokens: Vec<FrameToken>) -> Option<Vec<FrameToken>> {
        let back = self.lost(sid, tokens);
        if back.is_none() {
            self.urgent |= self.release(sid);
        }
        back
    }

    /// The peer recovered symbol `sid`.
    pub(super) fn recovered(&mut self, sid: u64) -> RecoveredTokens {
        let Some(sent) = self.sent_mut(sid) else { return RecoveredTokens::Known };
        match sent.state {
            SymbolState::InFlight => {
                sent.state = SymbolState::Recovered;
                let number = sent.number;
                self.settled(sid);
                self.counts.recovered += 1;
                RecoveredTokens::InFlight(number)
            }
            SymbolState::Lost => {
                sent.state = SymbolState::Recovered;
                self.settled(sid);
                self.counts.recovered += 1;
                let held = self.lost.get_mut(&sid).expect("what is lost is held");
                held.recovered = true;
                held.released = false;
                RecoveredTokens::Held(std::mem::take(&mut held.tokens))
            }
            SymbolState::Acked | SymbolState::Recovered | SymbolState::Dead => RecoveredTokens::Known,
        }
    }

    /// SIDs that are not forgotten.
    pub(super) fn live(&self) -> Range<u64> {
        self.base..self.next()
    }

    /// Repair number `serial` arrived, or was lost.
    pub(super) fn repair_settled(&mut self, serial: u64, arrived: bool) {
        self.counts.repairs_acked += u64::from(arrived);
        self.repairs.settled(serial, arrived);
        self.repairs.prune(self.base);
    }

    /// `n` repairs more. The open block of a block code is closed by it; rows of a 2D block may go ahead.
    pub(super) fn plan(&mut self, n: u32) {
        let have = Have { base: self.base, next: self.next(), window: self.window, kept: &self.kept };
        self.counts.blocks += u64::from(self.owed.plan(n, &have));
    }

    /// One repair more over what is missing (algorithm 1).
    pub(super) fn add(&mut self) {
        let lost = &self.lost;
        self.owed.add(|cover| lost.iter().any(|(sid, held)| !held.recovered && cover.holds(*sid)));
    }

    /// The open block ends without repair.
    pub(super) fn close(&mut self) {
        let next = self.next();
        self.owed.close(next);
        self.cover_below(next);
        self.tidy();
    }

    /// Repair symbols are to be sent.
    pub(super) fn owes_repair(&self) -> bool {
        self.owed.is_any()
    }

    /// The next repair symbol that is owed, and its bytes, for which `out` may be used.
    /// [`repair_sent`](Self::repair_sent) says that it was written.
    pub(super) fn repair<'a>(&'a mut self, out: &'a mut Vec<u8>) -> Option<(MadeSymbol, &'a [u8])> {
        let made = self.owed.make(self.base, self.next())?;
        self.owed.make_all(&made, &mut self.kept);
        if let Some(data) = self.owed.made_before(&made) {
            return Some((made, data));
        }
        out.clear();
        let equation = match self.code() {
            RepairCode::Rlc => Equation::rlc(made.first, made.count, made.index),
            RepairCode::Xor { .. } => Equation::xor(made.first, made.count, made.parameter, made.index),
            RepairCode::Xor2d { .. } => Equation::xor2d(made.first, made.count, made.parameter, made.index),
            RepairCode::ReedSolomon { .. } | RepairCode::Ldpc => {
                Equation::reed_solomon(made.first, made.count, made.parameter, made.index)
            }
        };
        let equation = equation.expect("a repair of ours is within bounds");
        self.kept.combine(&equation, out);
        Some((made, out))
    }

    /// The number of the next repair symbol.
    pub(super) fn next_repair(&self) -> u64 {
        self.repairs.next()
    }

    /// No repair is owed any more.
    pub(super) fn cancel(&mut self) {
        self.owed.cancel();
    }

    /// A repair symbol of `bytes` bytes was written.
    pub(super) fn repair_sent(&mut self, made: &MadeSymbol, bytes: usize, now: Time) {
        self.owed.sent(made);
        self.cover_below(made.cover.end());
        self.counts.repairs += 1;
        self.counts.repair_bytes += bytes as u64;
        self.repairs.push(made.cover, now);
        self.tidy();
    }

    /// Something is to be repeated.
    pub(super) fn owes_repeat(&self) -> bool {
        self.lost.values().any(|held| held.released)
    }

    /// It is to be repeated before anything else.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// The oldest symbol that is to be repeated. Symbols of which nothing is wanted any more are given up on
    /// the way (FEC-53).
    pub(super) fn repeat(&mut self, wanted: impl Fn(FrameToken) -> bool) -> Option<u64> {
        loop {
            let Some((&sid, held)) = self.lost.iter().find(|(_, held)| held.released) else {
                self.urgent = false;
                return None;
            };
            if held.tokens.iter().any(|token| wanted(*token)) {
                return Some(sid);
            }
            self.bury(sid);
            self.tidy();
        }
    }

    /// A symbol as it was sent first (FEC-54).
    pub(super) fn symbol(&self, sid: u64) -> Option<KeptSymbol<'_>> {
        self.kept.get(sid)
    }

    /// Symbol `sid` is sent again in packet `number`; its tokens go with it.
    pub(super) fn repeated(&mut self, sid: u64, number: u64, now: Time) -> Vec<FrameToken> {
        self.counts.repeats += 1;
        self.latest = Some(number);
        let held = self.lost.remove(&sid);
        if let Some(sent) = self.sent_mut(sid) {
            *sent = SentSymbol { number, at: now, state: SymbolState::InFlight };
        }
        held.map(|held| held.tokens).unwrap_or_default()
    }

    /// Tokens of symbols that will not be repeated: to their owners they are lost.
    pub(super) fn orphan(&mut self) -> Option<FrameToken> {
        self.orphans.pop()
    }

    /// Symbol `sid` cannot be repeated, nor can any other that is lost: they do not fit a packet (FEC-18).
    pub(super) fn give_up(&mut self) {
        let lost: Vec<u64> =
            self.lost.iter().filter(|(_, held)| !held.recovered).map(|(sid, _)| *sid).collect();
        for sid in lost {
            self.bury(sid);
        }
        self.tidy();
    }

    /// Releases everything that is held, to be sent before anything else: a probe timeout.
    pub(super) fn release_all(&mut self) {
        let held: Vec<u64> = self.lost.keys().copied().collect();
        for sid in held {
            self.urgent |= self.release(sid);
        }
    }

    /// Frees the place of `n` symbols more: whoever the window passes is dead (FEC-34), and nobody waits for
    /// it (FEC-35). So no repair covers more than the window (FEC-23).
    #[inline]
    fn make_room(&mut self, n: u64) {
        if self.sent.len() as u64 + n > self.window {
            self.pass(n);
        }
    }

    /// The window passes its oldest symbols.
    fn pass(&mut self, n: u64) {
        let over = (self.sent.len() as u64 + n).saturating_sub(self.window).min(self.sent.len() as u64);
        for sid in self.base..self.base + over {
            if matches!(self.sent[index(sid - self.base)].state, SymbolState::InFlight | SymbolState::Lost) {
                self.bury(sid);
            }
        }
        self.pop(index(over));
        if self.owed.cut(self.base) {
            // FEC-25: repair went out over the block that is cut, and another one must not overlap it.
            self.close();
        }
        self.repairs.prune(self.base);
    }

    /// First moves up to the first symbol that is wanted.
    pub(super) fn tidy(&mut self) {
        let (base, sent) = (self.base, &self.sent);
        let is_open = |sent: &SentSymbol| matches!(sent.state, SymbolState::InFlight | SymbolState::Lost);
        // What is settled stays so.
        let known = self.settled.max(base) - base;
        let rest = sent.iter().skip(index(known));
        let first_open = base + known + rest.take_while(|sent| !is_open(sent)).count() as u64;
        self.settled = first_open;
        let is_open = |sid: u64| {
            let sent = sid.checked_sub(base).and_then(|at| sent.get(index(at)));
            sent.is_some_and(is_open)
        };
        let keep = self.owed.settle(first_open, is_open).unwrap_or(first_open);
        self.pop(index(keep.clamp(base, first_open) - base));
        if self.sent.is_empty() {
            // An idle connection is to cost nothing.
            self.kept.trim();
            self.owed.trim();
            if self.code() == RepairCode::Rlc {
                self.owed.cancel();
            }
        }
        self.repairs.prune(self.base);
    }

    /// Forgets the first `n` symbols.
    fn pop(&mut self, n: usize) {
        match n {
            0 => return,
            // In a full window one goes for each that comes.
            1 => drop(self.sent.pop_front()),
            _ => drop(self.sent.drain(..n)),
        }
        self.base += n as u64;
        while self.lost.first_key_value().is_some_and(|(sid, _)| *sid < self.base) {
            self.lost.pop_first();
        }
        self.kept.drop_below(self.base);
    }

    /// Symbol `sid` is dead: what it held goes elsewhere.
    fn bury(&mut self, sid: u64) {
        if let Some(held) = self.lost.remove(&sid) {
            if !held.recovered && !held.released {
                self.counts.unrecovered += 1;
            }
            self.orphans.extend(held.tokens);
        }
        if let Some(sent) = self.sent_mut(sid) {
            // FEC-55: a report of it is ignored from now on (FEC-44), and it is not repeated.
            sent.state = SymbolState::Dead;
            self.settled(sid);
        }
    }

    /// True when that is news.
    fn release(&mut self, sid: u64) -> bool {
        let Some(held) = self.lost.get_mut(&sid) else { return false };
        if held.recovered || held.released {
            return false;
        }
        held.released = true;
        self.counts.unrecovered += 1;
        self.counts.failed_blocks += u64::from(self.owed.fail(sid));
        true
    }

    /// A symbol needs no more care.
    fn settled(&mut self, sid: u64) {
        self.outstanding -= 1;
        if sid >= self.covered {
            self.unprotected = self.unprotected.saturating_sub(1);
        }
    }

    /// A repair covers what lies below `end`.
    fn cover_below(&mut self, end: u64) {
        if end <= self.covered {
            return;
        }
        self.covered = end;
        let from = index(end.max(self.base) - self.base);
        let open = self
            .sent
            .iter()
            .skip(from)
            .filter(|s| matches!(s.state, SymbolState::InFlight | SymbolState::Lost));
        self.unprotected = open.count() as u64;
    }

    fn sent_mut(&mut self, sid: u64) -> Option<&mut SentSymbol> {
        self.sent.get_mut(usize::try_from(sid.checked_sub(self.base)?).ok()?)
    }
}
