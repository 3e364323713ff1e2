//! Which missing symbols of a block are determined, and by what: the checks without payload.
//!
//! Repair symbols that came cut the rows of the matrix into *segments*: the rows behind one that came, up to
//! and including the next that came. The sum of a segment's rows has no repair symbols but these two, so that
//! missing ones never become unknowns. A segment with one missing source symbol gives it (peeling); when that
//! leads no further and few are missing, Gaussian elimination over the segments gives all that are
//! determined.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::job::{RowSegment, SumJob};
use super::matrix::Matrix;

pub(super) struct LdpcSystem {
    pub(super) matrix: Matrix,
    rows: Vec<SymbolSum>,
    /// By their last row, which is a repair symbol that came.
    segments: BTreeMap<u32, SymbolSum>,
    /// Source symbols that did not come and are not determined.
    missing: BTreeSet<u32>,
    /// Segments that may have one missing symbol.
    ready: Vec<u32>,
    operations: u64,
}

/// Missing source symbols of some rows.
#[derive(Clone, Copy, Default)]
struct SymbolSum {
    /// How many; one that is in two rows counts twice.
    count: u32,
    /// The XOR of their numbers: where there is one, it.
    which: u32,
}

impl LdpcSystem {
    pub(super) fn new(matrix: Matrix, rows: u32, missing: BTreeSet<u32>) -> Self {
        let mut sums = vec![SymbolSum::default(); rows as usize];
        for &source in &missing {
            for &row in matrix.column(source) {
                sums[row as usize].add(source);
            }
        }
        Self { matrix, rows: sums, segments: BTreeMap::new(), missing, ready: Vec::new(), operations: 0 }
    }

    /// Source symbols that did not come and are not determined.
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }

    /// Sums of missing symbols that were changed, and combinations of segments.
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    /// Repair symbol `end` came, which did not come before. It cuts the segment that it is in.
    pub(super) fn repair(&mut self, end: u32) {
        let begin = self.begin(end);
        let whole = self.segments.range(end..).next().map(|(&last, &sum)| (last, sum));
        let left = match whole {
            // The shorter part is counted.
            Some((last, sum)) if last - end < end - begin => {
                let right = self.sum(end + 1, last);
                self.segments.insert(last, right);
                sum.without(right)
            }
            Some((last, sum)) => {
                let left = self.sum(begin, end);
                self.segments.insert(last, sum.without(left));
                left
            }
            None => self.sum(begin, end),
        };
        self.segments.insert(end, left);
        self.ready.push(end);
        self.ready.extend(whole.map(|(last, _)| last));
    }

    /// Source symbol `source` is known. False if it was.
    pub(super) fn known(&mut self, source: u32) -> bool {
        if !self.missing.remove(&source) {
            return false;
        }
        for &row in self.matrix.column(source) {
            self.rows[row as usize].remove(source);
            self.operations += 1;
            if let Some((&end, sum)) = self.segments.range_mut(row..).next() {
                sum.remove(source);
                if sum.count == 1 {
                    self.ready.push(end);
                }
            }
        }
        true
    }

    /// All missing symbols that are determined, as jobs in an order in which they can be done. Where more
    /// than `limit` are missing after peeling, only what peeling gives.
    pub(super) fn determine(&mut self, limit: usize) -> Vec<SumJob> {
        let mut jobs = Vec::new();
        while let Some(end) = self.ready.pop() {
            let Some(sum) = self.segments.get(&end).filter(|sum| sum.count == 1) else { continue };
            let source = sum.which;
            jobs.push(SumJob::new(vec![source], vec![self.segment(end)], vec![(source, 1)]));
            self.known(source);
        }
        if (1..=limit.min(64)).contains(&self.missing.len()) {
            jobs.extend(self.eliminate());
        }
        jobs
    }

    /// Gaussian elimination over GF(2), in which a row is a word of missing symbols.
    fn eliminate(&mut self) -> Option<SumJob> {
        let unknown: Vec<u32> = self.missing.iter().copied().collect();
        let ends: Vec<u32> = self.segments.keys().copied().collect();
        let mut ones: Vec<(u32, u64)> = Vec::with_capacity(3 * unknown.len());
        for (bit, &source) in unknown.iter().enumerate() {
            for &row in self.matrix.column(source) {
                let segment = ends.get(ends.partition_point(|&end| end < row));
                ones.extend(segment.map(|&end| (end, 1 << bit)));
            }
        }
        self.operations += (ends.len() + SORTED * ones.len()) as u64;
        ones.sort_unstable_by_key(|(end, _)| *end);
        let mut basis: Vec<SegmentRow> = Vec::new();
        let mut used = Vec::new();
        for ones in ones.chunk_by(|(one, _), (other, _)| one == other) {
            let (end, word) = (ones[0].0, ones.iter().fold(0, |word, (_, bit)| word ^ bit));
            let mut row = SegmentRow { word, sum: 0, pivot: 0 };
            self.operations += basis.len() as u64;
            for other in basis.iter().filter(|other| word & other.pivot != 0) {
                row.add(other);
            }
            if row.word == 0 {
                continue;
            }
            row.pivot = 1 << row.word.trailing_zeros();
            row.sum ^= 1 << used.len();
            used.push(end);
            self.operations += basis.len() as u64;
            for other in basis.iter_mut().filter(|other| other.word & row.pivot != 0) {
                other.add(&row);
            }
            basis.push(row);
        }
        let solves: Vec<(u32, u64)> = basis
            .iter()
            .filter(|row| row.word.is_power_of_two())
            .map(|row| (unknown[row.word.trailing_zeros() as usize], row.sum))
            .collect();
        if solves.is_empty() {
            return None;
        }
        for (source, _) in &solves {
            self.known(*source);
        }
        let segments = used.into_iter().map(|end| self.segment(end)).collect();
        Some(SumJob::new(unknown, segments, solves))
    }

    fn segment(&self, end: u32) -> RowSegment {
        RowSegment { begin: self.begin(end), end }
    }

    /// The first row of the segment that row `end` is in, if that is its last.
    fn begin(&self, end: u32) -> u32 {
        self.segments.range(..end).next_back().map_or(0, |(before, _)| before + 1)
    }

    fn sum(&mut self, from: u32, to: u32) -> SymbolSum {
        self.operations += u64::from(to - from) + 1;
        self.rows[from as usize..=to as usize].iter().fold(SymbolSum::default(), |sum, row| SymbolSum {
            count: sum.count + row.count,
            which: sum.which ^ row.which,
        })
    }
}

impl SymbolSum {
    fn add(&mut self, source: u32) {
        self.count += 1;
        self.which ^= source;
    }

    fn remove(&mut self, source: u32) {
        self.count -= 1;
        self.which ^= source;
    }

    fn without(self, part: Self) -> Self {
        Self { count: self.count - part.count, which: self.which ^ part.which }
    }
}

/// A sum of segments.
struct SegmentRow {
    /// Missing symbols, by place.
    word: u64,
    /// Segments, by place. There are at most as many in use as missing symbols.
    sum: u64,
    /// The missing symbol that is in this row only.
    pivot: u64,
}

impl SegmentRow {
    fn add(&mut self, other: &Self) {
        self.word ^= other.word;
        self.sum ^= other.sum;
    }
}

/// Row operations that take as long as it takes to find the segment of an unknown, and to sort it.
const SORTED: usize = 4;
