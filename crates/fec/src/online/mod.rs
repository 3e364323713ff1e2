//! Decoding of every code whose repair symbols are [`Equation`]s, one symbol at a time.
//!
//! Symbols and repair symbols come in, in any order; missing symbols come out as soon as what came determines
//! them. Coefficients are worked on at once, in a matrix of at most 64 missing symbols. The payload follows
//! in [`Decoder::work`], in portions that the caller chooses; only what leads to a missing symbol is done,
//! and that in one pass over the data for many repair symbols.
//!
//! Nothing that comes makes it panic, take memory beyond [`DecoderLimits`], or do more than a bounded amount
//! of work per repair symbol (see [`Cost`]).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use crate::equation::{Equation, MAX_SID};
use crate::symbols::{NotTaken, Symbols, trimmed};
pub(crate) use stored::SOUGHT;
use stored::Stored;
use system::OnlineSystem;

mod stored;
mod system;

/// A window of symbols, and what repair symbols say of those that are missing.
///
/// 1. Give what comes to [`source`](Self::source) and [`repair`](Self::repair).
/// 2. Call [`work`](Self::work) while [`has_work`](Self::has_work), with as many bytes as there is time for.
/// 3. Take what was recovered from [`next_recovered`](Self::next_recovered), before giving more.
///
/// ```
/// use quickset_fec::online::{Decoder, DecoderLimits, RepairOutcome};
/// use quickset_fec::{Equation, Symbols};
///
/// let mut sent = Symbols::new(100, 10);
/// ["to", "be", "or", "not"].iter().for_each(|word| drop(sent.push(word.as_bytes())));
/// let (mut repair, equation) = (Vec::new(), Equation::rlc(0, 4, 1)?);
/// sent.combine(&equation, &mut repair)?;
///
/// let mut decoder = Decoder::new(DecoderLimits { window: 100, symbol_size: 10, max_unknowns: 64 });
/// for sid in [0, 1, 3] {
///     decoder.source(sid, sent.get(sid).expect("it is held"))?;
/// }
/// assert_eq!(decoder.repair(&equation, &repair)?, RepairOutcome::Taken);
/// while decoder.has_work() {
///     decoder.work(65_536);
/// }
/// assert_eq!(decoder.next_recovered(), Some((2, &b"or"[..])));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Decoder {
    symbols: Symbols,
    system: OnlineSystem,
    stored: Stored,
    recovered: VecDeque<u64>,
    window: u64,
    /// The numbers from here on are in the window. It never goes back.
    low: u64,
    largest: Option<u64>,
    /// Buffers for sums, reused.
    outs: Vec<Vec<u8>>,
}

/// What a decoder holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderLimits {
    /// Numbers in the window: a symbol this far below the largest number seen is forgotten.
    pub window: usize,
    /// Bytes of a symbol.
    pub symbol_size: usize,
    /// Missing symbols that repair symbols name, at most 64. A repair symbol that would name more is dropped.
    /// So is one when as many are stored as an eighth of the window, of at least 8 and at most 128.
    pub max_unknowns: usize,
}

/// What became of a source symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceOutcome {
    /// It was missing.
    New,
    /// It came before.
    Duplicate,
    /// It was recovered before.
    Recovered,
    /// It is below the window. Whether it came before is not known any more.
    Below,
}

/// What became of a repair symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairOutcome {
    /// It is used.
    Taken,
    /// It says nothing that is not known.
    Redundant,
    /// It reaches below the window, or is wider than it.
    Old,
    /// It names too many missing symbols, or ones of which too little is kept.
    TooMany,
}

/// What an honest sender does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderFault {
    /// A symbol came twice, with different bytes; zeros at the end do not count.
    Mismatch,
    /// A symbol or repair symbol is longer than the limit.
    TooLong,
    /// A repair symbol is shorter than a symbol in it; zeros at the end do not count.
    Short,
    /// The number of a symbol is beyond [`MAX_SID`], or its block has no repair symbol of this number.
    Range,
    /// Repair symbols of a block differ in length.
    Uneven,
    /// Blocks overlap, or one has changed.
    Overlap,
}

/// What decoding has cost since the decoder was made.
///
/// A symbol or repair symbol that comes costs at most 4 · 64 row operations, now or later. A repair symbol of
/// k symbols costs at most the bytes of k + 4 · 64 of the largest symbols, in whole cache lines. One of less
/// than 256 bytes costs as much as one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Additions of a row of coefficients to another, and what else is done to rows in such.
    pub row_operations: u64,
    /// Bytes of symbols that were multiplied and added to others.
    pub bytes: u64,
}

impl Decoder {
    /// Nothing has come yet. Memory is taken as symbols come.
    pub fn new(limits: DecoderLimits) -> Self {
        Self {
            symbols: Symbols::new(limits.window, limits.symbol_size),
            system: OnlineSystem::new(limits.max_unknowns),
            stored: Stored::new(limits.symbol_size),
            recovered: VecDeque::new(),
            window: limits.window.max(1) as u64,
            low: 0,
            largest: None,
            outs: Vec::new(),
        }
    }

    /// Takes source symbol `sid`. The largest number seen moves the window, however far: what the window
    /// leaves is the sender's loss.
    pub fn source(&mut self, sid: u64, data: &[u8]) -> Result<SourceOutcome, SenderFault> {
        if data.len() > self.symbols.size() {
            return Err(SenderFault::TooLong);
        }
        // Whether its last zeros are its own is not known of a symbol that is recovered, so of none.
        let data = trimmed(data);
        if sid == self.symbols.next() && self.largest.is_none_or(|largest| sid > largest) {
            // As most come. No repair symbol that came names it.
            return self.follow(sid, data);
        }
        if sid > MAX_SID {
            return Err(SenderFault::Range);
        }
        if sid < self.low {
            return Ok(SourceOutcome::Below);
        }
        if self.is_held(sid) {
            return match self.symbols.get(sid) {
                Some(held) if held != data => Err(SenderFault::Mismatch),
                _ if self.symbols.is_marked(sid) => Ok(SourceOutcome::Recovered),
                _ => Ok(SourceOutcome::Duplicate),
            };
        }
        if self.stored.is_too_short_for(sid, data.len()) {
            return Err(SenderFault::Short);
        }
        self.advance(sid);
        self.settle();
        self.hold(sid, data, false);
        self.stored.known(sid);
        if let Some(column) = self.system.column(sid) {
            self.stored.free(self.system.known(column));
        }
        Ok(SourceOutcome::New)
    }

    /// Takes the symbol behind all those that are known to exist.
    #[inline]
    fn follow(&mut self, sid: u64, data: &[u8]) -> Result<SourceOutcome, SenderFault> {
        if sid > MAX_SID {
            return Err(SenderFault::Range);
        }
        self.advance(sid);
        self.settle();
        self.hold(sid, data, false);
        Ok(SourceOutcome::New)
    }

    /// Takes a repair symbol. Its last symbol counts as seen, and moves the window.
    pub fn repair(&mut self, equation: &Equation, data: &[u8]) -> Result<RepairOutcome, SenderFault> {
        if data.len() > self.symbols.size() {
            return Err(SenderFault::TooLong);
        }
        if equation.last() - equation.first() >= self.window {
            return Ok(RepairOutcome::Old);
        }
        self.advance(equation.last());
        if equation.first() < self.low {
            return Ok(RepairOutcome::Old);
        }
        self.settle();
        if self.is_too_short(equation, data.len()) {
            return Err(SenderFault::Short);
        }
        let mut missing = Vec::with_capacity(system::COLUMNS);
        for sid in self.symbols.missing(equation.first(), equation.last()) {
            if equation.term(sid).is_none() {
                continue;
            }
            if missing.len() >= system::COLUMNS {
                return Ok(RepairOutcome::TooMany);
            }
            missing.push(sid);
        }
        let unopened = self.system.unopened(&missing);
        if unopened > self.system.room() {
            return Ok(RepairOutcome::TooMany);
        }
        // Not of a block for itself, as somebody said.
        if !missing.is_empty() && self.symbols.spent_in(equation).is_some() {
            return Ok(RepairOutcome::TooMany);
        }
        let Some(place) = self.stored.vacant(self.window) else {
            return Ok(RepairOutcome::TooMany);
        };
        // Before anything is computed: the repair symbols that come too many behind losses say nothing new.
        if missing.is_empty() || (unopened == 0 && self.system.is_full()) {
            return Ok(RepairOutcome::Redundant);
        }
        let coefficient = |sid| equation.term(sid).map_or(0, |term| equation.coefficient(term));
        let terms: Vec<(u64, u8)> = missing.into_iter().map(|sid| (sid, coefficient(sid))).collect();
        if !self.system.add(&terms, place) {
            return Ok(RepairOutcome::Redundant);
        }
        self.stored.keep(place, equation, data);
        Ok(RepairOutcome::Taken)
    }

    /// Says that repair symbols over any symbol of `equation` will be over all of them and no others: the
    /// block is one for itself. If all of them are known their bytes are forgotten, since nothing will be
    /// computed from them any more; that they came is not. So what is held of a path without losses is the
    /// open block. Returns whether they are forgotten.
    pub fn spend(&mut self, equation: &Equation) -> bool {
        let (first, last) = (equation.first(), equation.last());
        let is_open = |sid: u64| equation.term(sid).is_some();
        // All of a block are spent at once, most often by its first repair symbol.
        if self.symbols.is_spent(first) {
            return true;
        }
        if first < self.low
            || !self.recovered.is_empty()
            || self.stored.overlaps(first, last)
            || self.symbols.missing(first, last).any(is_open)
        {
            return false;
        }
        self.symbols.spend_all(first, equation.stride(), equation.terms());
        true
    }

    /// The number of the symbol behind all that are known to exist, as long as nothing is missing that a
    /// repair symbol named and nothing was recovered that waits to be taken: what follows from there on in
    /// order changes nothing until the next repair symbol, and may be kept elsewhere so long.
    pub fn following(&self) -> Option<u64> {
        let next = self.symbols.next();
        let is_last = self.largest.is_none_or(|largest| next > largest);
        (is_last && self.system.is_empty() && self.recovered.is_empty()).then_some(next)
    }

    /// Takes source symbols `first`, the one [`following`](Self::following), and so on, which are a block
    /// that is complete: like [`source`](Self::source) and then [`spend`](Self::spend), but their bytes are
    /// not copied.
    ///
    /// # Errors
    ///
    /// As for [`source`](Self::source); those before have been taken.
    pub fn pass(
        &mut self,
        first: u64,
        symbols: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<(), SenderFault> {
        let follows = self.following() == Some(first);
        let mut outcome = Ok(());
        for (sid, data) in (first..).zip(symbols) {
            let data = data.as_ref();
            outcome = match () {
                () if data.len() > self.symbols.size() => Err(SenderFault::TooLong),
                () if sid > MAX_SID => Err(SenderFault::Range),
                () if follows => {
                    self.symbols.append_spent(trimmed(data).len());
                    Ok(())
                }
                () => self.source(sid, data).map(|_| ()),
            };
            if outcome.is_err() {
                break;
            }
        }
        if let Some(last) = self.symbols.next().checked_sub(1).filter(|_| follows) {
            self.advance(last);
        }
        outcome
    }

    /// Symbol `sid` is known to exist, which moves the window as if it had come.
    pub fn seen(&mut self, sid: u64) {
        self.advance(sid.min(MAX_SID));
    }

    /// Nobody waits any more for missing symbols below `sid`, but for those that are determined: their places
    /// are for others. They may still come. What repair symbols say of those above stays, less one of them
    /// for each that is given up.
    pub fn give_up_below(&mut self, sid: u64) {
        self.settle();
        let freed = self.system.give_up_below(sid);
        self.stored.free(freed);
    }

    /// Whether [`work`](Self::work) would lead to a missing symbol.
    pub fn has_work(&self) -> bool {
        self.system.ready().next().is_some()
    }

    /// Works on the payload of missing symbols that are determined, until it has multiplied and added
    /// `budget` bytes, and the sum for one missing symbol more at most. Returns how many it was.
    pub fn work(&mut self, budget: usize) -> usize {
        let mut spent = 0;
        let mut places = self.system.ready_places();
        while spent < budget {
            if places == 0 {
                self.settle();
                break;
            }
            let step = self.stored.subtract(&self.symbols, places, u64::MAX, budget - spent);
            spent += step;
            if step == 0 {
                spent += self.solve(places, budget - spent);
                places = self.system.ready_places();
            }
        }
        spent
    }

    /// The next missing symbol that was recovered, without the zeros at its end.
    pub fn next_recovered(&mut self) -> Option<(u64, &[u8])> {
        while let Some(sid) = self.recovered.pop_front() {
            // The window may have left it since.
            if self.is_held(sid) {
                return self.symbols.get(sid).map(|data| (sid, data));
            }
        }
        None
    }

    /// The largest number seen, those in repair symbols included.
    pub fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// The least number that is in the window.
    pub fn low(&self) -> u64 {
        self.low
    }

    /// How many numbers the window is wide.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Makes the window `window` numbers wide, at least 1.
    pub fn set_window(&mut self, window: usize) {
        self.window = window.max(1) as u64;
        self.advance(self.largest.unwrap_or(0));
        self.symbols.set_window(window);
    }

    /// Whether source symbol `sid` is in the window, and came or was recovered. Its bytes may be forgotten.
    pub fn is_held(&self, sid: u64) -> bool {
        self.symbols.len_of(sid).is_some()
    }

    /// What decoding has cost.
    pub fn cost(&self) -> Cost {
        Cost { row_operations: self.system.operations(), bytes: self.stored.bytes() }
    }

    /// Bytes of memory for symbols and repair symbols.
    pub fn memory(&self) -> usize {
        self.symbols.memory() + self.stored.memory()
    }

    /// Whether a symbol of the equation is held that is longer than `len`.
    fn is_too_short(&self, equation: &Equation, len: usize) -> bool {
        let is_longer = |term| self.symbols.len_of(equation.sid(term)).is_some_and(|held| held > len);
        self.symbols.longest() > len && (0..equation.terms()).any(is_longer)
    }

    #[inline]
    fn hold(&mut self, sid: u64, data: &[u8], recovered: bool) {
        match self.symbols.place(sid, data, recovered) {
            // A missing symbol that was computed may have left the window since.
            Ok(()) | Err(NotTaken::Below) => {}
            Err(other) => debug_assert!(false, "{sid} was checked, but {other}"),
        }
    }

    /// Computes some of the missing symbols that are ready; the stored repair symbols at `places` have been
    /// rid of all else. Returns how many bytes it took.
    fn solve(&mut self, places: u128, budget: usize) -> usize {
        let each = places.count_ones() as usize * self.stored.len();
        let most = (budget / each.max(1)).clamp(1, SOLVED);
        let mut solved = Vec::with_capacity(most);
        let mut coefficients = Vec::with_capacity(most * places.count_ones() as usize);
        for ready in self.system.ready().take(most) {
            solved.push((ready.column, ready.sid));
            let sum = ready.sum.iter().enumerate();
            coefficients.extend(sum.filter(|(place, _)| places >> place & 1 == 1).map(|(_, &c)| c));
        }
        let mut outs = core::mem::take(&mut self.outs);
        outs.resize_with(solved.len(), Vec::new);
        let bytes = self.stored.sums(places, &coefficients, &mut outs);
        for ((column, sid), out) in solved.into_iter().zip(&outs) {
            let end = out.len().min(self.symbols.size());
            self.hold(sid, trimmed(&out[..end]), true);
            self.recovered.push_back(sid);
            self.system.done(column);
        }
        self.outs = outs;
        bytes
    }

    /// Frees what led to missing symbols that are known now.
    #[inline]
    fn settle(&mut self) {
        if self.system.is_empty() {
            return;
        }
        let (freed, sids) = self.system.settle();
        self.stored.free(freed);
        for sid in sids {
            self.stored.known(sid);
        }
    }

    /// `sid` was seen: the window moves up to it, and what it leaves is forgotten.
    #[inline]
    fn advance(&mut self, sid: u64) {
        let largest = self.largest.map_or(sid, |largest| largest.max(sid));
        self.largest = Some(largest);
        let low = (largest + 1).saturating_sub(self.window);
        if low <= self.low {
            return;
        }
        self.low = low;
        if !self.system.is_empty() {
            self.expire();
        }
        self.symbols.drop_below(low);
        if !self.recovered.is_empty() {
            self.recovered.retain(|&sid| sid >= low);
        }
    }

    /// What is stored needs nothing below the window any more.
    fn expire(&mut self) {
        self.settle();
        let freed = self.system.expire_below(self.low);
        self.stored.free(freed);
        self.forget_below(self.low);
    }

    /// Rids what is stored of the symbols below `low`. Each is subtracted from a repair symbol once, now or
    /// later; only where a leap of the window would make that too much at once, repair symbols are given up
    /// instead.
    fn forget_below(&mut self, low: u64) {
        let mut behind = self.stored.behind(u128::MAX, low);
        let each = self.symbols.held_below(low).max(1) * self.stored.len().max(1);
        let mut most = LEAP / each;
        while behind != 0 {
            let place = behind.trailing_zeros() as usize;
            if most == 0 {
                let freed = self.system.forget(place);
                self.stored.free(freed);
                behind &= !freed;
            }
            most = most.saturating_sub(1);
            behind &= !(1 << place);
        }
        while self.stored.subtract(&self.symbols, u128::MAX, low, usize::MAX) != 0 {}
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("symbols", &self.symbols)
            .field("low", &self.low)
            .field("largest", &self.largest)
            .field("cost", &self.cost())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for SenderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mismatch => "a symbol came again with other bytes",
            Self::TooLong => "a symbol is longer than allowed",
            Self::Short => "a repair symbol is shorter than a symbol in it",
            Self::Range => "the number of a symbol is too large",
            Self::Uneven => "repair symbols of a block differ in length",
            Self::Overlap => "blocks overlap",
        })
    }
}

impl core::error::Error for SenderFault {}

/// Missing symbols that are computed together: as many sums as fit the registers, and one more pass or two.
const SOLVED: usize = 16;
/// Bytes that one symbol can make us work on because the window leaps. A repair symbol is stored for each of
/// 128 places at most, so that this is reached by leaps of more than 40 held symbols of 1500 bytes, and a
/// tenth of a millisecond.
const LEAP: usize = 512 << 10;

#[cfg(test)]
mod tests;
