use std::collections::VecDeque;

use quickset_base::number::{index, within_u32};
use quickset_fec::ldpc;

use super::kept::KeptSymbols;
use super::span::{Cover, RepairSpan, SpanShape};
use crate::protect::policy::{RepairCode, parts};

/// What repair is owed: for the window, for the open block, and for the closed ones.
#[derive(Debug)]
pub(super) struct OwedRepair {
    code: RepairCode,
    /// Where the open block begins (block codes).
    open: u64,
    /// Closed blocks that may still need repair, oldest first (block codes).
    spans: VecDeque<RepairSpan>,
    /// So many of them are owed repair. There are many, and this is asked for each packet.
    owing: usize,
    /// Repairs that are owed for the window, or for the open block of a 2D code.
    planned: u32,
    /// Complete rows of the open block whose repair was sent (2D XOR).
    rows_sent: u32,
    /// Of the next repair over the window.
    seed: u64,
    /// Buffers of repair symbols that were made together and sent, to be used again.
    spare: Vec<Vec<u8>>,
}

/// What there is to be covered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Have<'a> {
    /// The symbols of the lane: from the first that is wanted to the next to be sent.
    pub(super) base: u64,
    pub(super) next: u64,
    pub(super) window: u64,
    pub(super) kept: &'a KeptSymbols,
}

/// A repair symbol that is ready to be written.
#[derive(Debug)]
pub(super) struct MadeSymbol {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) parameter: u64,
    pub(super) index: u64,
    pub(super) cover: Cover,
    from: OwedFrom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwedFrom {
    Window,
    Row,
    Span(usize),
}

impl OwedRepair {
    pub(super) fn new(code: RepairCode) -> Self {
        Self {
            code,
            open: 0,
            spans: VecDeque::new(),
            owing: 0,
            planned: 0,
            rows_sent: 0,
            seed: 0,
            spare: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn code(&self) -> RepairCode {
        self.code
    }

    /// Where the open block begins.
    pub(super) fn open(&self) -> u64 {
        self.open
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn is_any(&self) -> bool {
        self.planned > 0 || self.owing > 0
    }

    /// `n` repairs more. True when that closed a block.
    pub(super) fn plan(&mut self, n: u32, have: &Have<'_>) -> bool {
        match self.code {
            // All of the window arrived: there is nothing to cover.
            RepairCode::Rlc if have.base == have.next => false,
            RepairCode::Rlc => {
                self.planned = n.min(MAX_BURST);
                false
            }
            RepairCode::Xor2d { columns, .. } => {
                let complete = (have.next - self.open) / u64::from(columns);
                if u64::from(n) > complete.saturating_sub(u64::from(self.rows_sent)) {
                    return self.close_with(n, have);
                }
                self.planned = n;
                false
            }
            RepairCode::Xor { .. } | RepairCode::ReedSolomon { .. } | RepairCode::Ldpc => {
                self.close_with(n, have)
            }
        }
    }

    /// One repair more over a span that wants it.
    pub(super) fn add(&mut self, wants: impl Fn(&Cover) -> bool) {
        if self.code == RepairCode::Rlc {
            self.planned = self.planned.max(1);
            return;
        }
        let wanting = self.spans.iter_mut().find(|span| {
            matches!(span.shape, SpanShape::ReedSolomon(_))
                && span.cover.terms + u64::from(span.next) < 255
                && wants(&span.cover)
        });
        if let Some(span) = wanting.filter(|span| span.planned == 0) {
            span.planned = 1;
            self.owing += 1;
        }
    }

    /// The open block ends without repair.
    pub(super) fn close(&mut self, next: u64) {
        self.planned = 0;
        self.rows_sent = 0;
        self.open = next;
    }

    /// Nothing is owed any more.
    pub(super) fn cancel(&mut self) {
        self.planned = 0;
        for span in &mut self.spans {
            span.planned = 0;
        }
        self.owing = 0;
    }

    /// Gives back what memory is kept to be used again.
    pub(super) fn trim(&mut self) {
        self.spare = Vec::new();
    }

    /// Which repair comes next, and over what.
    pub(super) fn make(&self, base: u64, next: u64) -> Option<MadeSymbol> {
        let mut spans = self.spans.iter();
        let is_owed = |span: &RepairSpan| span.planned > 0;
        let owed = match self.owing {
            0 => None,
            // Mostly the last.
            1 => spans.rposition(is_owed),
            _ => spans.position(is_owed),
        };
        if let Some(at) = owed {
            return Some(self.spans[at].make(at));
        }
        if self.planned == 0 {
            return None;
        }
        if let RepairCode::Xor2d { columns, .. } = self.code {
            let (c, row) = (u64::from(columns), u64::from(self.rows_sent));
            let k = (row + 1) * c;
            return (next - self.open >= k).then(|| MadeSymbol {
                first: self.open,
                count: k,
                parameter: c,
                index: c + row,
                cover: Cover::run(self.open + row * c, c),
                from: OwedFrom::Row,
            });
        }
        let (first, count) = (base, next - base);
        (count > 0).then(|| MadeSymbol {
            first,
            count,
            parameter: 0,
            index: self.seed,
            cover: Cover::run(first, count),
            from: OwedFrom::Window,
        })
    }

    /// Makes the first repair symbols of a block together, where that is how they are made.
    pub(super) fn make_all(&mut self, made: &MadeSymbol, kept: &mut KeptSymbols) {
        let OwedFrom::Span(at) = made.from else { return };
        let span = &mut self.spans[at];
        if let SpanShape::ReedSolomon(repairs) = &mut span.shape {
            if repairs.is_empty() && span.next == 0 {
                *repairs = std::mem::take(&mut self.spare);
                kept.encode(&span.cover, span.planned, repairs);
            }
        }
    }

    /// The bytes of a repair that was made together with the others of its block.
    pub(super) fn made_before(&self, made: &MadeSymbol) -> Option<&[u8]> {
        let OwedFrom::Span(at) = made.from else { return None };
        match &self.spans[at].shape {
            SpanShape::Ldpc(repairs) | SpanShape::ReedSolomon(repairs) => {
                repairs.get(index(made.index)).map(Vec::as_slice)
            }
            SpanShape::Xor { .. } | SpanShape::Xor2d { .. } => None,
        }
    }

    /// It was sent. FEC-27, FEC-33: no seed and no index is used twice.
    pub(super) fn sent(&mut self, made: &MadeSymbol) {
        match made.from {
            OwedFrom::Window => {
                self.planned -= 1;
                self.seed += 1;
            }
            OwedFrom::Row => {
                self.planned -= 1;
                self.rows_sent += 1;
            }
            OwedFrom::Span(at) => {
                let span = &mut self.spans[at];
                span.planned -= 1;
                span.next += 1;
                if span.planned == 0 {
                    self.owing -= 1;
                    if let SpanShape::ReedSolomon(repairs) = &mut span.shape {
                        self.spare = std::mem::take(repairs);
                    }
                }
            }
        }
    }

    /// What is protected as one, oldest first, the open block at last.
    pub(super) fn covers(&self, base: u64, next: u64) -> Vec<Cover> {
        if self.code == RepairCode::Rlc {
            return vec![Cover::run(base, next - base)];
        }
        let open = Cover::run(self.open, next - self.open);
        self.spans.iter().map(|span| span.cover).chain([open]).collect()
    }

    /// The window passed everything below `base`. True when that cut a block of which repair was sent.
    pub(super) fn cut(&mut self, base: u64) -> bool {
        while self.spans.front().is_some_and(|span| span.cover.first < base) {
            self.drop_oldest();
        }
        let is_cut = self.open < base && self.rows_sent > 0;
        self.open = self.open.max(base);
        is_cut
    }

    /// Forgets the oldest spans of which all is settled, and what repair others of that kind are owed.
    /// Returns from where on symbols are needed; `None`: none is that is not in flight or lost. All symbols
    /// below `first_open` are settled.
    pub(super) fn settle(&mut self, first_open: u64, is_open: impl Fn(u64) -> bool) -> Option<u64> {
        while self.spans.front_mut().is_some_and(|span| span.is_over(first_open, &is_open)) {
            self.drop_oldest();
        }
        // Those that are owed repair are the last, mostly.
        for span in self.spans.iter_mut().rev().filter(|span| span.planned > 0).take(self.owing) {
            if span.is_over(first_open, &is_open) {
                span.planned = 0;
                self.owing -= 1;
            }
        }
        let first = self.spans.front().map_or(self.open, |span| span.cover.first.min(self.open));
        (self.code != RepairCode::Rlc).then_some(first)
    }

    /// Symbol `sid` has to be sent again. True when its block is whole no more, and was until now.
    pub(super) fn fail(&mut self, sid: u64) -> bool {
        let span = self.spans.iter_mut().find(|span| span.cover.holds(sid));
        span.is_some_and(|span| !std::mem::replace(&mut span.failed, true))
    }

    /// Closes the open block with `n` repairs. False when it is none.
    fn close_with(&mut self, n: u32, have: &Have<'_>) -> bool {
        let (first, k) = (self.open, have.next - self.open);
        let (before, rows_sent) = (self.spans.len(), self.rows_sent);
        if k > 0 {
            match self.code {
                // FEC-29: as many repair symbols as there are classes.
                RepairCode::Xor { depth } => {
                    let planned = n.min(u32::from(depth)).min(u32::try_from(k).unwrap_or(u32::MAX));
                    self.span(Cover::run(first, k), SpanShape::Xor { depth }, planned);
                }
                RepairCode::Xor2d { columns, .. } => {
                    // FEC-30: what is left of the rows, and the columns.
                    let c = u64::from(columns);
                    let rest = k.div_ceil(c) - u64::from(rows_sent) + c.min(k);
                    let planned = n.min(u32::try_from(rest).unwrap_or(u32::MAX));
                    self.span(Cover::run(first, k), SpanShape::Xor2d { columns, rows_sent }, planned);
                }
                RepairCode::ReedSolomon { stride } => self.close_reed_solomon(first, k, stride, n),
                RepairCode::Ldpc => self.close_ldpc(first, k, n, have),
                RepairCode::Rlc => {}
            }
        }
        self.close(have.next);
        self.spans.len() > before
    }

    fn close_reed_solomon(&mut self, first: u64, k: u64, stride: u16, n: u32) {
        let parts = parts(k, stride);
        for part in 0..parts {
            let terms = (k - part).div_ceil(parts);
            let share = u64::from(n) / parts + u64::from(part < u64::from(n) % parts);
            // FEC-31: symbols and repair are 255 at most.
            let planned = within_u32(share.min(255 - terms));
            self.span(
                Cover { first: first + part, terms, stride: parts },
                SpanShape::ReedSolomon(Vec::new()),
                planned,
            );
        }
    }

    fn close_ldpc(&mut self, first: u64, k: u64, n: u32, have: &Have<'_>) {
        // FEC-32, and no more than the window. There is no LDPC code for a block of one symbol, or less
        // repair: it goes unprotected.
        let n = u64::from(n).max(3).min(have.window);
        let Ok(block) = ldpc::Block::new(first, k, n) else { return };
        let repairs = block.encode(have.kept.copies()).expect("the symbols of the open block are kept");
        let planned = within_u32(repairs.len() as u64);
        self.span(Cover::run(first, k), SpanShape::Ldpc(repairs), planned);
    }

    fn span(&mut self, cover: Cover, shape: SpanShape, planned: u32) {
        self.spans.push_back(RepairSpan { cover, shape, planned, next: 0, settled: 0, failed: false });
        self.owing += usize::from(planned > 0);
    }

    fn drop_oldest(&mut self) {
        let is_owed = self.spans.pop_front().is_some_and(|span| span.planned > 0);
        self.owing -= usize::from(is_owed);
    }

    /// Debug invariants.
    pub(super) fn check(&self) {
        debug_assert_eq!(self.spans.iter().filter(|span| span.planned > 0).count(), self.owing);
    }
}

impl RepairSpan {
    /// All of its symbols are settled: what is owed for it is owed no more. What was found settled once is
    /// not looked at again.
    fn is_over(&mut self, first_open: u64, is_open: impl Fn(u64) -> bool) -> bool {
        let below = first_open.saturating_sub(self.cover.first).div_ceil(self.cover.stride);
        self.settled = self.settled.max(below.min(self.cover.terms));
        while self.settled < self.cover.terms {
            if is_open(self.cover.first + self.settled * self.cover.stride) {
                return false;
            }
            self.settled += 1;
        }
        true
    }

    fn make(&self, at: usize) -> MadeSymbol {
        let Cover { first, terms, stride } = self.cover;
        let i = u64::from(self.next);
        let (parameter, index, cover) = match &self.shape {
            SpanShape::Xor { depth } => {
                let d = u64::from(*depth);
                (d, i, Cover { first: first + i, terms: (terms - i).div_ceil(d), stride: d })
            }
            SpanShape::Xor2d { columns, rows_sent } => {
                let c = u64::from(*columns);
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
            SpanShape::ReedSolomon(_) => (stride, i, self.cover),
            SpanShape::Ldpc(repairs) => (repairs.len() as u64, i, self.cover),
        };
        MadeSymbol { first, count: terms, parameter, index, cover, from: OwedFrom::Span(at) }
    }
}

/// Repair symbols of one burst at most: more help no window.
const MAX_BURST: u32 = 255;
