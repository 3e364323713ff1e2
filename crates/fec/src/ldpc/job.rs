//! The payload of missing symbols that are determined, in steps.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::matrix::Matrix;
use crate::gf256::Kernel;
use crate::online::SOUGHT;
use crate::symbols::{Symbols, lines};

/// Sums of some segments, and sums of these sums, which are missing symbols.
pub(super) struct SumJob {
    /// Source symbols, ascending, that were missing when it was made: they are left out, for the sums of sums
    /// do not need them, though they may have come since.
    missing: Vec<u32>,
    segments: Vec<RowSegment>,
    sums: Vec<Vec<u8>>,
    /// How many source symbols of the last of `sums` have been dealt with.
    cursor: usize,
    /// Missing symbols, and which sums each is the sum of.
    solves: Vec<(u32, u64)>,
}

/// Rows of the matrix, from one behind a repair symbol that came to the next that came.
#[derive(Clone, Copy)]
pub(super) struct RowSegment {
    pub(super) begin: u32,
    pub(super) end: u32,
}

/// What a job works on.
pub(super) struct JobData<'a> {
    pub(super) first: u64,
    pub(super) matrix: &'a Matrix,
    pub(super) repairs: &'a BTreeMap<u32, Vec<u8>>,
    pub(super) symbols: &'a Symbols,
}

/// How far a step went.
pub(super) enum JobStep {
    /// So many bytes were added, and there is more to do.
    More(usize),
    /// So many bytes were added, and this is missing symbol `.1`.
    Solved(usize, u32, Vec<u8>),
    Finished,
}

impl SumJob {
    pub(super) fn new(missing: Vec<u32>, segments: Vec<RowSegment>, solves: Vec<(u32, u64)>) -> Self {
        Self { missing, segments, sums: Vec::new(), cursor: 0, solves }
    }

    /// Adds about `budget` bytes.
    pub(super) fn step(&mut self, data: &JobData<'_>, budget: usize) -> JobStep {
        if let Some(segment) = self.sums.len().checked_sub(1).map(|last| self.segments[last]) {
            let sources = data.matrix.rows(segment.begin, segment.end);
            if self.cursor < sources.len() {
                return JobStep::More(self.add(sources, data, budget));
            }
        }
        if self.sums.len() < self.segments.len() {
            return JobStep::More(self.begin(data));
        }
        let Some((source, which)) = self.solves.pop() else { return JobStep::Finished };
        let sums: Vec<&[u8]> =
            (0..).zip(&self.sums).filter(|(at, _)| which >> at & 1 == 1).map(|(_, sum)| &sum[..]).collect();
        let mut out = vec![0; sums.first().map_or(0, |sum| sum.len())];
        Kernel::best().sum(&mut out, &sums);
        JobStep::Solved(out.len() * sums.len(), source, out)
    }

    /// The next segment: the repair symbols at its ends.
    fn begin(&mut self, data: &JobData<'_>) -> usize {
        let segment = self.segments[self.sums.len()];
        let before = segment.begin.checked_sub(1).and_then(|before| data.repairs.get(&before));
        let mut sum = data.repairs.get(&segment.end).cloned().unwrap_or_default();
        if let Some(before) = before {
            Kernel::best().sum(&mut sum, &[before]);
        }
        let bytes = 2 * sum.len();
        self.sums.push(sum);
        self.cursor = 0;
        bytes
    }

    /// Some source symbols of the last segment.
    fn add(&mut self, sources: &[u32], data: &JobData<'_>, budget: usize) -> usize {
        let Some(sum) = self.sums.last_mut() else { return 0 };
        let most = (budget / sum.len().max(SOUGHT)).clamp(1, TOGETHER);
        let part = &sources[self.cursor..sources.len().min(self.cursor + most)];
        let wanted = part.iter().filter(|source| self.missing.binary_search(source).is_err());
        let symbols: Vec<&[u8]> =
            wanted.filter_map(|&source| data.symbols.padded(data.first + u64::from(source))).collect();
        Kernel::best().sum(sum, &symbols);
        self.cursor += part.len();
        // Of those left out none was touched, but each is a step.
        symbols.iter().map(|symbol| symbol.len().max(SOUGHT)).sum::<usize>() + part.len()
    }

    /// How many missing symbols it still gives.
    pub(super) fn solves(&self) -> usize {
        self.solves.len()
    }

    /// Bytes of memory of the sums.
    pub(super) fn memory(&self) -> usize {
        self.sums.iter().map(Vec::len).sum()
    }
}

/// `data` padded with zeros to whole cache lines, as repair symbols are stored.
pub(super) fn padded(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines(data.len()));
    out.extend_from_slice(data);
    out.resize(lines(data.len()), 0);
    out
}

/// Symbols that are added in one call.
const TOGETHER: usize = 64;
