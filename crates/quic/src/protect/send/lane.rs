use std::collections::{BTreeMap, VecDeque};
use std::ops::{Add, Range};

use quickset_base::{Duration, Time};
use quickset_fec::{Equation, Symbols, ldpc};
use quickset_wire::frame::{RepairHeader, repair_header_size};

use super::span::{Cover, Fate, Repair, Shape, Span};
use crate::protect::policy::{Code, LaneView};
use crate::token::Token;

/// One session of ours: source symbols in flight, and what repairs them.
///
/// 1. [`push`](Self::push) takes a symbol as it is sent; its tokens stay with the packet.
/// 2. [`acked`](Self::acked), [`lost`](Self::lost) and [`recovered`](Self::recovered) say what became of it. What is
///    lost and may still be recovered is held here, tokens and all.
/// 3. [`plan`](Self::plan) and [`close`](Self::close) are the policy's decisions, [`repair`](Self::repair) carries
///    them out, one symbol a slot.
/// 4. [`review`](Self::review) releases what waited in vain (FEC's release rules), [`repeat`](Self::repeat) sends it
///    again as the same symbol; what cannot be repeated comes back through [`orphan`](Self::orphan).
///
/// Invariant (FEC-51): a token that came in by `lost` leaves once: into a repeat's packet, as recovered, or as an orphan.
#[derive(Debug)]
pub(super) struct Lane {
    session: u32,
    code: Code,
    window: u64,
    size: usize,
    symbols: Symbols,
    /// One for each SID from `base` on.
    sent: VecDeque<Sent>,
    /// First: all below is acknowledged, recovered or dead.
    base: u64,
    /// Where the open block begins (block codes).
    open: u64,
    /// Closed blocks that may still need repair, oldest first (block codes).
    spans: VecDeque<Span>,
    /// Repairs that are owed for the window, or for the open block of a 2D code.
    planned: u32,
    /// Complete rows of the open block whose repair was sent (2D XOR).
    rows_sent: u32,
    repairs: VecDeque<Repair>,
    /// The number of the first of `repairs`.
    repair_base: u64,
    flying: u64,
    /// Lost and not repeated: L of the specification, and what was released of it.
    lost: BTreeMap<u64, Held>,
    orphans: Vec<Token>,
    /// Everything below is covered by a repair that was sent.
    covered: u64,
    unprotected: u64,
    outstanding: u64,
    seed: u64,
    counts: Counts,
    last_source: Option<Time>,
    /// Released by a probe timeout: nothing goes before it.
    urgent: bool,
    /// A channel has it. What is lost of a lane that nobody has is held for nobody.
    taken: bool,
    /// What was counted before that channel came.
    before: Counts,
    /// The packet that the last symbol went into, for the first time or again.
    latest: Option<u64>,
}

/// A symbol of ours.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// The packet that carried it last.
    number: u64,
    at: Time,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Lost,
    Acked,
    Recovered,
    Dead,
}

/// A lost symbol.
#[derive(Debug)]
struct Held {
    tokens: Vec<Token>,
    /// The peer has it all the same.
    recovered: bool,
    /// It is to be repeated.
    released: bool,
}

/// What a lane did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sources: u64,
    pub(crate) repeats: u64,
    pub(crate) repairs: u64,
    pub(crate) repairs_acked: u64,
    pub(crate) repair_bytes: u64,
    /// Symbols of which a SYMBOL_ACK told.
    pub(crate) recovered: u64,
    /// Lost symbols that were sent again.
    pub(crate) unrecovered: u64,
    pub(crate) blocks: u64,
    pub(crate) failed_blocks: u64,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sources: self.sources + other.sources,
            repeats: self.repeats + other.repeats,
            repairs: self.repairs + other.repairs,
            repairs_acked: self.repairs_acked + other.repairs_acked,
            repair_bytes: self.repair_bytes + other.repair_bytes,
            recovered: self.recovered + other.recovered,
            unrecovered: self.unrecovered + other.unrecovered,
            blocks: self.blocks + other.blocks,
            failed_blocks: self.failed_blocks + other.failed_blocks,
        }
    }
}

/// Where the tokens of a recovered symbol are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// They were settled already.
    Known,
    /// In this packet, which is in flight.
    InFlight(u64),
    /// Here.
    Held(Vec<Token>),
}

/// What [`Lane::review`] needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) now: Time,
    /// How long after a repair was sent its effect is known at the latest: 9/8 RTT + max_ack_delay.
    pub(super) wait: Duration,
    /// Loss rate, and the policy's ds.
    pub(super) rate: f64,
    pub(super) sensitivity: f64,
}

/// What follows from a review.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Review {
    /// When what is held is released at the latest.
    pub(super) until: Option<Time>,
    /// Missing and added degrees of freedom of all spans.
    pub(super) md: u64,
    pub(super) ad: u64,
    /// A span wants one repair more (algorithm 1).
    pub(super) more: bool,
}

/// A repair symbol that is ready to be written.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) parameter: u64,
    pub(super) index: u64,
    cover: Cover,
    from: From,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Window,
    Row,
    Span(usize),
}

impl Lane {
    /// A lane of a peer that keeps `window` symbols of `size` bytes.
    pub(super) fn new(session: u32, code: Code, window: u64, size: usize) -> Self {
        Self {
            session,
            code,
            window,
            size,
            symbols: Symbols::new(usize::try_from(window).unwrap_or(usize::MAX), size),
            sent: VecDeque::new(),
            base: 0,
            open: 0,
            spans: VecDeque::new(),
            planned: 0,
            rows_sent: 0,
            repairs: VecDeque::new(),
            repair_base: 0,
            flying: 0,
            lost: BTreeMap::new(),
            orphans: Vec::new(),
            covered: 0,
            unprotected: 0,
            outstanding: 0,
            seed: 0,
            counts: Counts::default(),
            last_source: None,
            urgent: false,
            taken: true,
            before: Counts::default(),
            latest: None,
        }
    }

    /// A channel gives it up. What is held comes back, and so does what is lost from now on.
    pub(super) fn leave(&mut self) {
        self.taken = false;
        self.cancel();
        self.close();
        self.give_up();
    }

    /// Another channel takes it, and knows nothing of what was before.
    pub(super) fn take(&mut self) {
        self.taken = true;
        self.before = self.counts;
        self.last_source = None;
        self.urgent = false;
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Bytes of a symbol at most.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// A symbol of it is in packet `number` (FEC-15).
    pub(super) fn is_in(&self, number: u64) -> bool {
        self.latest == Some(number)
    }

    pub(super) fn session(&self) -> u32 {
        self.session
    }

    pub(super) fn code(&self) -> Code {
        self.code
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// The SID of the next symbol: they have no gaps (FEC-14).
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
        self.symbols.set_window(usize::try_from(window).unwrap_or(usize::MAX));
        self.make_room(0);
    }

    /// A symbol is sent in packet `number`. Returns its SID.
    pub(super) fn push(&mut self, bytes: &[u8], number: u64, now: Time) -> u64 {
        if let Code::Xor2d { rows, columns } = self.code {
            if self.next() - self.open >= rows as u64 * columns as u64 {
                self.close();
            }
        }
        self.make_room(1);
        let sid = self.next();
        let taken = self.symbols.insert(sid, bytes);
        debug_assert_eq!(taken, Ok(()), "a symbol of ours that does not fit the window");
        self.sent.push_back(Sent { number, at: now, state: State::InFlight });
        self.latest = Some(number);
        self.last_source = Some(now);
        self.unprotected += 1;
        self.outstanding += 1;
        self.counts.sources += 1;
        sid
    }

    /// The packet that carried symbol `sid` last arrived.
    pub(super) fn acked(&mut self, sid: u64) {
        let Some(sent) = self.sent_mut(sid) else { return };
        if sent.state == State::InFlight {
            sent.state = State::Acked;
            self.settled(sid);
            self.advance();
        }
    }

    /// The packet that carried symbol `sid` last was lost. Gives the tokens back when nothing will recover it.
    pub(super) fn lost(&mut self, sid: u64, tokens: Vec<Token>) -> Option<Vec<Token>> {
        let taken = self.taken;
        let Some(sent) = self.sent_mut(sid) else { return Some(tokens) };
        match sent.state {
            State::InFlight if !taken => {
                sent.state = State::Dead;
                self.settled(sid);
                self.counts.unrecovered += 1;
                self.advance();
                Some(tokens)
            }
            State::InFlight => {
                sent.state = State::Lost;
                self.lost.insert(sid, Held { tokens, recovered: false, released: false });
                None
            }
            State::Recovered => {
                debug_assert!(tokens.is_empty(), "they were taken when it was recovered");
                self.lost.insert(sid, Held { tokens, recovered: true, released: false });
                None
            }
            State::Lost | State::Acked | State::Dead => Some(tokens),
        }
    }

    /// A probe takes the tokens of a symbol that may yet arrive: it is repeated before anything else.
    pub(super) fn probed(&mut self, sid: u64, tokens: Vec<Token>) -> Option<Vec<Token>> {
        let back = self.lost(sid, tokens);
        if back.is_none() {
            self.urgent |= self.release(sid);
        }
        back
    }

    /// The peer recovered symbol `sid`.
    pub(super) fn recovered(&mut self, sid: u64) -> Recovered {
        let Some(sent) = self.sent_mut(sid) else { return Recovered::Known };
        match sent.state {
            State::InFlight => {
                sent.state = State::Recovered;
                let number = sent.number;
                self.settled(sid);
                self.counts.recovered += 1;
                Recovered::InFlight(number)
            }
            State::Lost => {
                sent.state = State::Recovered;
                self.settled(sid);
                self.counts.recovered += 1;
                let held = self.lost.get_mut(&sid).expect("what is lost is held");
                held.recovered = true;
                held.released = false;
                Recovered::Held(std::mem::take(&mut held.tokens))
            }
            State::Acked | State::Recovered | State::Dead => Recovered::Known,
        }
    }

    /// SIDs that are not forgotten.
    pub(super) fn live(&self) -> Range<u64> {
        self.base..self.next()
    }

    /// First moves, after symbols were recovered.
    pub(super) fn tidy(&mut self) {
        self.advance();
    }

    /// Repair number `serial` arrived, or was lost.
    pub(super) fn repair_settled(&mut self, serial: u64, arrived: bool) {
        self.counts.repairs_acked += u64::from(arrived);
        let Some(at) = serial.checked_sub(self.repair_base) else { return };
        if let Some(repair) = self.repairs.get_mut(at as usize).filter(|r| r.fate == Fate::InFlight) {
            self.flying -= 1;
            repair.fate = if arrived { Fate::Acked } else { Fate::Lost };
        }
        self.prune();
    }

    /// `n` repairs more. The open block of a block code is closed by it; rows of a 2D block may go ahead.
    pub(super) fn plan(&mut self, n: u32) {
        match self.code {
            // All of the window arrived: there is nothing to cover.
            Code::Rlc if self.sent.is_empty() => {}
            Code::Rlc => self.planned = n.min(MAX_BURST),
            Code::Xor2d { columns, .. } => {
                let complete = (self.next() - self.open) / columns as u64;
                let rows = complete.saturating_sub(self.rows_sent as u64);
                if n as u64 <= rows {
                    self.planned = n;
                } else {
                    self.close_with(n);
                }
            }
            Code::Xor { .. } | Code::ReedSolomon { .. } | Code::Ldpc => self.close_with(n),
        }
    }

    /// One repair more over what is missing (algorithm 1).
    pub(super) fn add(&mut self) {
        if self.code == Code::Rlc {
            self.planned = self.planned.max(1);
            return;
        }
        let wanting = self.spans.iter_mut().find(|span| {
            matches!(span.shape, Shape::ReedSolomon)
                && span.cover.terms + u64::from(span.next) < 255
                && self.lost.iter().any(|(sid, held)| !held.recovered && span.cover.holds(*sid))
        });
        if let Some(span) = wanting {
            span.planned = span.planned.max(1);
        }
    }

    /// The open block ends without repair.
    pub(super) fn close(&mut self) {
        self.planned = 0;
        self.rows_sent = 0;
        self.open = self.next();
        self.cover_below(self.open);
        self.advance();
    }

    /// Repair symbols are to be sent.
    pub(super) fn owes_repair(&self) -> bool {
        self.planned > 0 || self.spans.iter().any(|span| span.planned > 0)
    }

    /// The next repair symbol that is owed, into `out`. [`repair_sent`](Self::repair_sent) says that it was written.
    pub(super) fn repair(&mut self, out: &mut Vec<u8>) -> Option<Made> {
        let made = self.make()?;
        out.clear();
        if let From::Span(at) = made.from {
            if let Shape::Ldpc(repairs) = &self.spans[at].shape {
                out.extend_from_slice(&repairs[made.index as usize]);
                return Some(made);
            }
        }
        let equation = match self.code {
            Code::Rlc => Equation::rlc(made.first, made.count, made.index),
            Code::Xor { .. } => Equation::xor(made.first, made.count, made.parameter, made.index),
            Code::Xor2d { .. } => Equation::xor2d(made.first, made.count, made.parameter, made.index),
            Code::ReedSolomon { .. } | Code::Ldpc => {
                Equation::reed_solomon(made.first, made.count, made.parameter, made.index)
            }
        };
        let equation = equation.expect("a repair of ours is within bounds");
        // FEC-24, FEC-26: as long as the longest of all symbols of the range, whatever became of them since.
        self.symbols.combine(&equation, out).expect("symbols are kept as long as repairs are owed");
        Some(made)
    }

    /// The number of the next repair symbol.
    pub(super) fn next_repair(&self) -> u64 {
        self.repair_base + self.repairs.len() as u64
    }

    /// No repair is owed any more.
    pub(super) fn cancel(&mut self) {
        self.planned = 0;
        self.spans.iter_mut().for_each(|span| span.planned = 0);
    }

    /// The most bytes that the header of a repair symbol takes, those of the next thousand included.
    pub(super) fn repair_header(&self) -> usize {
        let header = RepairHeader {
            session: self.session.into(),
            first: self.next(),
            count: self.window.max(64),
            parameter: match self.code {
                Code::Rlc => 0,
                Code::Ldpc => self.window,
                _ => 1 << 13,
            },
            index: (self.seed + 1024).max(1 << 13),
        };
        repair_header_size(&header, 1 << 13)
    }

    /// A repair symbol of `bytes` bytes was written.
    pub(super) fn repair_sent(&mut self, made: &Made, bytes: usize, now: Time) {
        match made.from {
            // FEC-27, FEC-33: no seed and no index is used twice.
            From::Window => {
                self.planned -= 1;
                self.seed += 1;
            }
            From::Row => {
                self.planned -= 1;
                self.rows_sent += 1;
            }
            From::Span(at) => {
                let span = &mut self.spans[at];
                span.planned -= 1;
                span.next += 1;
            }
        }
        self.cover_below(made.cover.end());
        self.counts.repairs += 1;
        self.counts.repair_bytes += bytes as u64;
        self.repairs.push_back(Repair { cover: made.cover, sent: now, fate: Fate::InFlight });
        self.flying += 1;
        self.advance();
    }

    /// Something is to be repeated.
    pub(super) fn owes_repeat(&self) -> bool {
        self.lost.values().any(|held| held.released)
    }

    /// It is to be repeated before anything else.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// The oldest symbol that is to be repeated, its bytes and tokens. Symbols of which nothing is wanted any more
    /// are given up on the way (FEC-53).
    pub(super) fn repeat(&mut self, wanted: impl Fn(Token) -> bool) -> Option<u64> {
        loop {
            let Some((&sid, held)) = self.lost.iter().find(|(_, held)| held.released) else {
                self.urgent = false;
                return None;
            };
            if held.tokens.iter().any(|token| wanted(*token)) {
                return Some(sid);
            }
            self.bury(sid);
            self.advance();
        }
    }

    /// The bytes of a symbol, as they were sent first (FEC-54).
    pub(super) fn bytes(&self, sid: u64) -> Option<&[u8]> {
        self.symbols.get(sid)
    }

    /// Symbol `sid` is sent again in packet `number`; its tokens go with it.
    pub(super) fn repeated(&mut self, sid: u64, number: u64, now: Time) -> Vec<Token> {
        self.counts.repeats += 1;
        self.latest = Some(number);
        let held = self.lost.remove(&sid);
        if let Some(sent) = self.sent_mut(sid) {
            *sent = Sent { number, at: now, state: State::InFlight };
        }
        held.map(|held| held.tokens).unwrap_or_default()
    }

    /// Tokens of symbols that will not be repeated: to their owners they are lost.
    pub(super) fn orphan(&mut self) -> Option<Token> {
        self.orphans.pop()
    }

    /// Symbol `sid` cannot be repeated, nor can any other that is lost: they do not fit a packet (FEC-18).
    pub(super) fn give_up(&mut self) {
        let lost: Vec<u64> =
            self.lost.iter().filter(|(_, held)| !held.recovered).map(|(sid, _)| *sid).collect();
        for sid in lost {
            self.bury(sid);
        }
        self.advance();
    }

    /// Releases everything that is held, to be sent before anything else: a probe timeout.
    pub(super) fn release_all(&mut self) {
        let held: Vec<u64> = self.lost.keys().copied().collect();
        for sid in held {
            self.urgent |= self.release(sid);
        }
    }

    /// Looks at each span with losses: releases what no repair will help, and says what is to be expected.
    pub(super) fn review(&mut self, patience: &Patience) -> Review {
        let mut review = Review::default();
        if self.lost.values().all(|held| held.recovered || held.released) {
            return review;
        }
        let covers: Vec<Cover> = match self.code {
            Code::Rlc => vec![Cover::run(self.base, self.sent.len() as u64)],
            _ => {
                let open = Cover::run(self.open, self.next() - self.open);
                self.spans.iter().map(|span| span.cover).chain([open]).collect()
            }
        };
        // FEC-52, rule 1: a block that ended without repair, or that the window cut, has no span that anybody repairs.
        let alone = |sid: &&u64| !covers.iter().any(|cover| cover.holds(**sid));
        let waiting = self.lost.iter().filter(|(_, held)| !held.recovered && !held.released);
        let mut released: Vec<u64> = waiting.map(|(sid, _)| sid).filter(alone).copied().collect();
        for cover in &covers {
            self.review_span(cover, patience, &mut review, &mut released);
        }
        for sid in released {
            self.release(sid);
        }
        review
    }

    /// What a policy may know.
    pub(super) fn view(&self, review: &Review) -> LaneView {
        let open = if self.code == Code::Rlc { self.sent.len() as u64 } else { self.next() - self.open };
        let at = self.covered.max(self.base);
        LaneView {
            window: self.window,
            open,
            unprotected: self.unprotected,
            md: review.md,
            ad: review.ad,
            repairs_in_flight: self.flying,
            repairs_sent: self.counts.repairs - self.before.repairs,
            repairs_acked: self.counts.repairs_acked - self.before.repairs_acked,
            sources: self.counts.sources - self.before.sources,
            first_unprotected: if self.unprotected == 0 {
                None
            } else {
                self.sent.get((at - self.base) as usize).map(|sent| sent.at)
            },
            last_source: self.last_source,
            outstanding: self.outstanding,
        }
    }

    /// Debug invariants.
    pub(super) fn check(&self) {
        for (sid, held) in &self.lost {
            let sent = &self.sent[(sid - self.base) as usize];
            let state = if held.recovered { State::Recovered } else { State::Lost };
            debug_assert_eq!(sent.state, state, "what is held is lost");
            debug_assert!(!held.recovered || (held.tokens.is_empty() && !held.released));
        }
        let open = |sent: &&Sent| matches!(sent.state, State::InFlight | State::Lost);
        debug_assert_eq!(self.sent.iter().filter(open).count() as u64, self.outstanding);
        debug_assert!(self.sent.len() as u64 <= self.window, "more than the peer keeps");
    }

    fn review_span(&self, cover: &Cover, patience: &Patience, review: &mut Review, released: &mut Vec<u64>) {
        let of_span = |(sid, held): &(&u64, &Held)| !held.released && cover.holds(**sid);
        let lost: Vec<(u64, bool)> =
            self.lost.iter().filter(of_span).map(|(sid, held)| (*sid, held.recovered)).collect();
        let missing: Vec<u64> =
            lost.iter().filter(|(_, recovered)| !recovered).map(|(sid, _)| *sid).collect();
        if missing.is_empty() {
            return;
        }
        let with = |fate| self.repairs.iter().filter(move |repair| repair.fate == fate);
        let arrived = with(Fate::Acked).filter(|r| lost.iter().any(|(sid, _)| r.cover.holds(*sid))).count();
        let flying: Vec<&Repair> =
            with(Fate::InFlight).filter(|r| missing.iter().any(|sid| r.cover.holds(*sid))).collect();
        let (md, ad) = (lost.len() - (lost.len() - missing.len()).max(arrived).min(lost.len()), flying.len());
        review.md += md as u64;
        review.ad += ad as u64;

        let late = flying.iter().map(|repair| repair.sent + patience.wait).max();
        let before = released.len();
        match late {
            Some(at) if at > patience.now => {
                let uncovered = |sid: &&u64| !flying.iter().any(|repair| repair.cover.holds(**sid));
                released.extend(missing.iter().filter(uncovered));
                // The oldest of those that the repairs in flight cannot all bring back.
                let short = md.saturating_sub(ad);
                let gone = released.len() - before;
                let rest: Vec<u64> =
                    missing.iter().filter(|sid| !released[before..].contains(sid)).copied().collect();
                released.extend(rest.into_iter().take(short.saturating_sub(gone)));
                review.until = review.until.map_or(Some(at), |until| Some(until.min(at)));
            }
            _ => released.extend(&missing),
        }
        if released.len() == before {
            let ratio = md as f64 / ad.max(1) as f64;
            review.more |= 1.0 - patience.rate - ratio < patience.sensitivity - 2e-6;
        }
    }

    /// Frees the place of `n` symbols more: whoever the window passes is dead (FEC-34), and nobody waits for it (FEC-35).
    /// So no repair covers more than the window (FEC-23).
    fn make_room(&mut self, n: u64) {
        while self.sent.len() as u64 + n > self.window {
            let sid = self.base;
            if matches!(self.sent[0].state, State::InFlight | State::Lost) {
                self.bury(sid);
            }
            self.pop();
        }
        while self.spans.front().is_some_and(|span| span.cover.first < self.base) {
            self.spans.pop_front();
        }
        if self.open < self.base && self.rows_sent > 0 {
            // FEC-25: repair went out over a block that is cut now, and another one must not overlap it.
            self.close();
        }
        self.open = self.open.max(self.base);
        self.prune();
    }

    /// First moves up to the first symbol that is wanted.
    fn advance(&mut self) {
        while self.is_first_over() {
            self.spans.pop_front();
        }
        let keep = match self.code {
            Code::Rlc => self.next(),
            _ => self.spans.front().map_or(self.open, |span| span.cover.first.min(self.open)),
        };
        while self.base < keep {
            match self.sent.front() {
                Some(sent) if !matches!(sent.state, State::InFlight | State::Lost) => self.pop(),
                _ => break,
            }
        }
        if self.code == Code::Rlc && self.sent.is_empty() {
            self.planned = 0;
        }
        self.prune();
    }

    /// All symbols of the oldest span are settled: what is owed for it is owed no more. What was found settled once is
    /// not looked at again.
    fn is_first_over(&mut self) -> bool {
        let Some(span) = self.spans.front_mut() else { return false };
        while span.settled < span.cover.terms {
            let sid = span.cover.first + span.settled * span.cover.stride;
            let sent = sid.checked_sub(self.base).and_then(|at| self.sent.get(at as usize));
            if sent.is_some_and(|sent| matches!(sent.state, State::InFlight | State::Lost)) {
                return false;
            }
            span.settled += 1;
        }
        true
    }

    fn pop(&mut self) {
        self.lost.remove(&self.base);
        self.sent.pop_front();
        self.base += 1;
        self.symbols.drop_below(self.base);
    }

    /// Repairs that concern nothing any more are forgotten.
    fn prune(&mut self) {
        while let Some(front) = self.repairs.front() {
            if front.fate == Fate::InFlight || (front.cover.end() > self.base && front.fate == Fate::Acked) {
                break;
            }
            self.repairs.pop_front();
            self.repair_base += 1;
        }
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
            sent.state = State::Dead;
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
        if let Some(span) = self.spans.iter_mut().find(|span| span.cover.holds(sid)) {
            self.counts.failed_blocks += u64::from(!span.failed);
            span.failed = true;
        }
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
        let from = (end.max(self.base) - self.base) as usize;
        let open = self.sent.iter().skip(from).filter(|s| matches!(s.state, State::InFlight | State::Lost));
        self.unprotected = open.count() as u64;
    }

    fn sent_mut(&mut self, sid: u64) -> Option<&mut Sent> {
        self.sent.get_mut(usize::try_from(sid.checked_sub(self.base)?).ok()?)
    }

    /// Closes the open block with `n` repairs.
    fn close_with(&mut self, n: u32) {
        let (first, k) = (self.open, self.next() - self.open);
        let rows_sent = self.rows_sent;
        if k > 0 {
            self.counts.blocks += u64::from(self.code != Code::Ldpc);
            match self.code {
                // FEC-29: as many repair symbols as there are classes.
                Code::Xor { depth } => {
                    let planned = n.min(u32::from(depth)).min(u32::try_from(k).unwrap_or(u32::MAX));
                    self.span(Cover::run(first, k), Shape::Xor { depth }, planned);
                }
                Code::Xor2d { columns, .. } => {
                    // FEC-30: what is left of the rows, and the columns.
                    let rest = k.div_ceil(columns as u64) - rows_sent as u64 + (columns as u64).min(k);
                    let planned = n.min(u32::try_from(rest).unwrap_or(u32::MAX));
                    self.span(Cover::run(first, k), Shape::Xor2d { columns, rows_sent }, planned);
                }
                Code::ReedSolomon { stride } => self.close_reed_solomon(first, k, (stride, n)),
                Code::Ldpc => self.close_ldpc(first, k, n),
                Code::Rlc => {}
            }
        }
        self.planned = 0;
        self.rows_sent = 0;
        self.open = self.next();
    }

    fn close_reed_solomon(&mut self, first: u64, k: u64, (stride, n): (u16, u32)) {
        let parts = u64::from(stride).max(k.div_ceil(MAX_PART)).clamp(1, k);
        for part in 0..parts {
            let terms = (k - part).div_ceil(parts);
            let share = n as u64 / parts + u64::from(part < n as u64 % parts);
            // FEC-31: symbols and repair are 255 at most.
            let planned = share.min(255 - terms) as u32;
            self.span(Cover { first: first + part, terms, stride: parts }, Shape::ReedSolomon, planned);
        }
    }

    fn close_ldpc(&mut self, first: u64, k: u64, n: u32) {
        // FEC-32, and no more than the window. There is no LDPC code for a block of one symbol, or less repair: it goes unprotected.
        let n = u64::from(n).max(3).min(self.window);
        let Ok(block) = ldpc::Block::new(first, k, n) else { return };
        let repairs = block.encode(&self.symbols).expect("the symbols of the open block are kept");
        self.counts.blocks += 1;
        let planned = repairs.len() as u32;
        self.span(Cover::run(first, k), Shape::Ldpc(repairs), planned);
    }

    fn span(&mut self, cover: Cover, shape: Shape, planned: u32) {
        self.spans.push_back(Span { cover, shape, planned, next: 0, settled: 0, failed: false });
    }

    /// Which repair comes next, and over what.
    fn make(&self) -> Option<Made> {
        if let Some(at) = self.spans.iter().position(|span| span.planned > 0) {
            return Some(self.spans[at].make(at));
        }
        if self.planned == 0 {
            return None;
        }
        match self.code {
            Code::Xor2d { columns, .. } => {
                let c = columns as u64;
                let row = u64::from(self.rows_sent);
                let k = (row + 1) * c;
                (self.next() - self.open >= k).then(|| Made {
                    first: self.open,
                    count: k,
                    parameter: c,
                    index: c + row,
                    cover: Cover::run(self.open + row * c, c),
                    from: From::Row,
                })
            }
            _ => {
                let (first, count) = (self.base, self.sent.len() as u64);
                (count > 0).then(|| Made {
                    first,
                    count,
                    parameter: 0,
                    index: self.seed,
                    cover: Cover::run(first, count),
                    from: From::Window,
                })
            }
        }
    }
}

impl Span {
    fn make(&self, at: usize) -> Made {
        let Cover { first, terms, stride } = self.cover;
        let i = u64::from(self.next);
        let (parameter, index, cover) = match &self.shape {
            Shape::Xor { depth } => {
                let d = *depth as u64;
                (d, i, Cover { first: first + i, terms: (terms - i).div_ceil(d), stride: d })
            }
            Shape::Xor2d { columns, rows_sent } => {
                let c = *columns as u64;
                let row = u64::from(*rows_sent) + i;
                let rows = terms.div_ceil(c);
                if row < rows {
                    let begin = row * c;
                    (c, c + row, Cover::run(first + begin, c.min(terms - begin)))
                } else {
                    let column = row - rows;
                    (
                        c,
                        column,
                        Cover { first: first + column, terms: (terms - column).div_ceil(c), stride: c },
                    )
                }
            }
            Shape::ReedSolomon => (stride, i, self.cover),
            Shape::Ldpc(repairs) => (repairs.len() as u64, i, self.cover),
        };
        Made { first, count: terms, parameter, index, cover, from: From::Span(at) }
    }
}

/// Symbols of a Reed-Solomon code of ours at most, so that repair has as much room again.
const MAX_PART: u64 = 128;

/// Repair symbols of one burst at most: more help no window.
const MAX_BURST: u32 = 255;
