//! The payload of what is stored: repair symbols, and how far they have been rid of the symbols that are
//! known.
//!
//! Of each stored repair symbol, the terms below a cursor have been dealt with: a symbol that was held was
//! subtracted, one that was missing is noted as *open*. When an open one becomes known it is *late*, to be
//! subtracted by itself. The work is put off until a missing symbol can be computed from it or the symbols
//! are about to leave the window, and then done for several repair symbols in one pass over the data.

use alloc::vec;
use alloc::vec::Vec;

use super::system::STORED;
use crate::equation::Equation;
use crate::gf256::Kernel;
use crate::number::index;
use crate::symbols::{Symbols, lines};

/// Repair symbols by place.
pub(super) struct Stored {
    slots: Vec<Option<StoredRepair>>,
    /// Bytes of each payload: all as long as the longest symbol can be.
    len: usize,
    /// How many even a small window may have.
    pub(super) least: u64,
    kernel: Kernel,
    bytes: u64,
}

struct StoredRepair {
    equation: Equation,
    /// Bytes that came.
    len: usize,
    /// The payload, without what was subtracted; padded with zeros.
    sum: Vec<u8>,
    /// The first term that was not dealt with.
    cursor: u64,
    open: Vec<u64>,
    late: Vec<u64>,
}

impl Stored {
    pub(super) fn new(size: usize) -> Self {
        Self { slots: Vec::new(), len: lines(size), least: LEAST, kernel: Kernel::best(), bytes: 0 }
    }

    /// Bytes of symbols multiplied and added since the beginning.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of memory of what is stored.
    pub(super) fn memory(&self) -> usize {
        self.slots.iter().flatten().count() * self.len
    }

    /// A place for another beside a window of symbols, or `None` if there is none.
    pub(super) fn vacant(&self, window: u64) -> Option<usize> {
        let most = index((window / 8).clamp(self.least, STORED as u64));
        if self.slots.iter().flatten().count() >= most {
            return None;
        }
        Some(self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len()))
    }

    /// Keeps a repair symbol at a vacant place.
    pub(super) fn keep(&mut self, place: usize, equation: &Equation, data: &[u8]) {
        let mut sum = Vec::with_capacity(self.len);
        sum.extend_from_slice(data);
        sum.resize(self.len, 0);
        let repair = StoredRepair {
            equation: *equation,
            len: data.len(),
            sum,
            cursor: 0,
            open: Vec::new(),
            late: Vec::new(),
        };
        if place == self.slots.len() {
            self.slots.push(Some(repair));
        } else {
            self.slots[place] = Some(repair);
        }
    }

    /// Drops those at `places`.
    pub(super) fn free(&mut self, places: u128) {
        for (_, slot) in self.select_slots(places) {
            *slot = None;
        }
    }

    /// Whether a symbol of `len` bytes is longer than a repair symbol that it is in.
    pub(super) fn is_too_short_for(&self, sid: u64, len: usize) -> bool {
        self.slots.iter().flatten().any(|repair| repair.len < len && repair.equation.term(sid).is_some())
    }

    /// Whether any may be over symbols from `first` to `last`.
    pub(super) fn overlaps(&self, first: u64, last: u64) -> bool {
        let mut stored = self.slots.iter().flatten();
        stored.any(|repair| repair.equation.first() <= last && first <= repair.equation.last())
    }

    /// The symbol `sid` is held now.
    pub(super) fn known(&mut self, sid: u64) {
        for repair in self.slots.iter_mut().flatten() {
            if let Some(at) = repair.open.iter().position(|&open| open == sid) {
                repair.open.swap_remove(at);
                repair.late.push(sid);
            }
        }
    }

    /// Those among `places` of which terms below `sid` are still to be subtracted.
    pub(super) fn behind(&self, places: u128, sid: u64) -> u128 {
        mask(self.repairs(places).filter(|(_, repair)| repair.is_behind(sid)).map(|(place, _)| place))
    }

    /// Subtracts symbols with numbers below `end` from the repair symbols at `places`: some symbols, from
    /// some repair symbols, which is about `budget` bytes. Returns how many it was; 0 if nothing was to be
    /// done.
    pub(super) fn subtract(&mut self, symbols: &Symbols, places: u128, end: u64, budget: usize) -> usize {
        let behind = self.behind(places, end);
        if behind == 0 {
            return 0;
        }
        // With a small budget, a few repair symbols at a time.
        let pairs = (budget / self.len.max(SOUGHT)).max(1);
        let late = self.repairs(behind).flat_map(|(_, repair)| repair.late_below(end)).min();
        let pass = match late {
            Some(sid) => self.late_pass(behind, sid, end, pairs),
            None => self.next_pass(symbols, behind, end, pairs),
        };
        let count = pass.group.count_ones() as usize;
        let mut coefficients = Vec::with_capacity(count * pass.sids.len());
        for (_, repair) in self.repairs(pass.group) {
            repair.coefficients(&pass, &mut coefficients);
        }
        let srcs: Vec<&[u8]> = pass.sids.iter().filter_map(|&sid| symbols.padded(sid)).collect();
        let kernel = self.kernel;
        let mut dsts: Vec<&mut [u8]> = Vec::with_capacity(count);
        for (_, slot) in self.select_slots(pass.group) {
            dsts.extend(slot.as_mut().map(|repair| &mut repair.sum[..]));
        }
        kernel.combine(&mut dsts, &coefficients, &srcs);
        let bytes = srcs.iter().map(|src| src.len().max(SOUGHT)).sum::<usize>() * count;
        self.bytes += bytes as u64;
        self.move_on(&pass);
        // A step over missing symbols only is no work, but it is a step.
        bytes.max(1)
    }

    /// Multiplies and adds payloads: each of `outs` becomes the sum of those at `places`, by a row of
    /// coefficients.
    pub(super) fn sums(&mut self, places: u128, coefficients: &[u8], outs: &mut [Vec<u8>]) -> usize {
        let srcs: Vec<&[u8]> = self.repairs(places).map(|(_, repair)| &repair.sum[..]).collect();
        for out in &mut *outs {
            out.clear();
            out.resize(self.len, 0);
        }
        let mut dsts: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut out[..]).collect();
        self.kernel.combine(&mut dsts, coefficients, &srcs);
        let bytes = srcs.len() * dsts.len() * self.len;
        self.bytes += bytes as u64;
        bytes
    }

    /// Bytes of a payload.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// At most about `pairs` subtractions of late symbols, `sid` among them: those that are late everywhere.
    fn late_pass(&self, behind: u128, sid: u64, end: u64, pairs: usize) -> Pass {
        let group: Vec<_> =
            self.repairs(behind).filter(|(_, repair)| repair.late.contains(&sid)).take(pairs).collect();
        let most = (pairs / group.len().max(1)).clamp(1, PASS);
        let mut sids = vec![sid];
        if let Some((_, first)) = group.first() {
            let others = first.late_below(end).filter(|&other| other != sid);
            sids.extend(
                others
                    .filter(|other| group.iter().all(|(_, repair)| repair.late.contains(other)))
                    .take(most - 1),
            );
        }
        sids.sort_unstable();
        Pass { group: mask(group.iter().map(|(place, _)| *place)), sids, run: None }
    }

    /// At most about `pairs` subtractions of symbols in the order of their numbers. All repair symbols of the
    /// pass have symbols of one stride, and at least one among those that are dealt with.
    fn next_pass(&self, symbols: &Symbols, behind: u128, end: u64, pairs: usize) -> Pass {
        let lead = self.repairs(behind).map(|(_, repair)| repair).min_by_key(|repair| repair.next());
        let Some(lead) = lead else { return Pass { group: 0, sids: Vec::new(), run: None } };
        let (first, stride) = (lead.next(), lead.equation.stride());
        let within = |most: usize| first + (most as u64 - 1) * stride;
        let mut near: Vec<(u64, usize, u64)> = self
            .repairs(behind)
            .filter(|(_, repair)| repair.lattice() == lead.lattice() && repair.next() <= within(PASS))
            .map(|(place, repair)| (repair.next(), place, repair.equation.last()))
            .collect();
        near.sort_unstable();
        near.truncate(pairs);
        let most = (pairs / near.len()).clamp(1, PASS);
        near.retain(|(next, ..)| *next <= within(most));

        let last = near.iter().map(|(.., last)| *last).max().unwrap_or(first).min(end - 1);
        let mut sids = Vec::with_capacity(most);
        let mut run =
            StrideRun { first, stride, steps: Vec::with_capacity(most), missing: Vec::new(), end: 0 };
        while first + run.end * stride <= last && sids.len() < most {
            let sid = first + run.end * stride;
            if symbols.len_of(sid).is_some() {
                sids.push(sid);
                run.steps.push(run.end);
            } else {
                run.missing.push(sid);
            }
            run.end += 1;
        }
        Pass { group: mask(near.iter().map(|(_, place, _)| *place)), sids, run: Some(run) }
    }

    /// Takes note of what a pass has done.
    fn move_on(&mut self, pass: &Pass) {
        for (_, slot) in self.select_slots(pass.group) {
            let Some(repair) = slot else { continue };
            let Some(run) = &pass.run else {
                repair.late.retain(|sid| pass.sids.binary_search(sid).is_err());
                continue;
            };
            let begin = repair.next();
            let end = (run.first + run.end * run.stride - repair.equation.first()) / run.stride;
            repair.cursor = end.clamp(repair.cursor, repair.equation.terms());
            let passed = begin..repair.next();
            repair.open.extend(run.missing.iter().filter(|sid| passed.contains(sid)));
        }
    }

    fn repairs(&self, places: u128) -> impl Iterator<Item = (usize, &StoredRepair)> {
        self.slots.iter().enumerate().filter_map(move |(place, slot)| {
            slot.as_ref().filter(|_| places >> place & 1 == 1).map(|repair| (place, repair))
        })
    }

    fn select_slots(&mut self, places: u128) -> impl Iterator<Item = (usize, &mut Option<StoredRepair>)> {
        self.slots.iter_mut().enumerate().filter(move |(place, _)| places >> place & 1 == 1)
    }
}

impl StoredRepair {
    /// The number of the first symbol that was not dealt with, which may be beyond the last.
    fn next(&self) -> u64 {
        self.equation.sid(self.cursor)
    }

    fn is_behind(&self, end: u64) -> bool {
        (self.cursor < self.equation.terms() && self.next() < end) || self.late_below(end).next().is_some()
    }

    fn late_below(&self, end: u64) -> impl Iterator<Item = u64> {
        self.late.iter().copied().filter(move |&sid| sid < end)
    }

    /// Symbols of equal lattice can be reached by steps of one stride.
    fn lattice(&self) -> (u64, u64) {
        (self.equation.stride(), self.equation.first() % self.equation.stride())
    }

    /// By what the symbols of a pass are to be multiplied; 0 for those that are not to be subtracted.
    fn coefficients(&self, pass: &Pass, out: &mut Vec<u8>) {
        let Some(run) = &pass.run else {
            let of = |sid: &u64| self.equation.term(*sid).map_or(0, |term| self.equation.coefficient(term));
            return out.extend(pass.sids.iter().map(of));
        };
        // All are steps of one stride, so that one division does for all of them.
        let first = self.equation.first();
        let (ahead, behind) = (run.first.saturating_sub(first), first.saturating_sub(run.first));
        let (ahead, behind) = (ahead / run.stride, behind / run.stride);
        let terms = self.cursor..self.equation.terms();
        // Mostly it is all of them.
        let all = run.steps.first().zip(run.steps.last());
        let below = |end: u64| match all {
            Some((_, last)) if last + ahead < end + behind => run.steps.len(),
            Some((first, _)) if first + ahead >= end + behind => 0,
            _ => run.steps.partition_point(|step| step + ahead < end + behind),
        };
        let wanted = below(terms.start)..below(terms.end);
        out.resize(out.len() + wanted.start, 0);
        let steps = &run.steps[wanted.clone()];
        if let (Some(begin), Some(end)) = (steps.first(), steps.last()) {
            let start = out.len();
            self.equation.extend(begin + ahead - behind..end + 1 + ahead - behind, out);
            // Those between that are missing are taken out again.
            if out.len() - start > steps.len() {
                let all = &mut out[start..];
                for (to, step) in steps.iter().enumerate() {
                    all[to] = all[index(step - begin)];
                }
                out.truncate(start + steps.len());
            }
        }
        out.resize(out.len() + run.steps.len() - wanted.end, 0);
    }
}

/// What is done in one pass over the data.
struct Pass {
    /// The places of the repair symbols.
    group: u128,
    /// The symbols to subtract, ascending.
    sids: Vec<u64>,
    /// How they lie; `None` if they are late ones.
    run: Option<StrideRun>,
}

/// Numbers that are a stride apart.
struct StrideRun {
    first: u64,
    stride: u64,
    /// How many strides each symbol is from the first.
    steps: Vec<u64>,
    /// Those between that are missing.
    missing: Vec<u64>,
    /// How many strides the next is from the first.
    end: u64,
}

fn mask(places: impl Iterator<Item = usize>) -> u128 {
    places.fold(0, |mask, place| mask | 1 << place)
}

/// Bytes that can be multiplied and added while a symbol and its coefficient are sought: a shorter one costs
/// as much.
pub(crate) const SOUGHT: usize = 256;
/// A block of a few symbols has as many repair symbols.
const LEAST: u64 = 8;
/// Symbols in a pass: with the payloads of 64 repair symbols they stay in a second-level cache of 512 KiB.
const PASS: usize = 128;
