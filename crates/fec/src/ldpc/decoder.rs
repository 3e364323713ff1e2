//! Decoding of the blocks of a window.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use super::Block;
use super::job::{JobData, JobStep, SumJob, padded};
use super::system::LdpcSystem;
use crate::equation::MAX_SID;
use crate::number::{index, short};
use crate::online::{Cost, DecoderLimits, RepairOutcome, SenderFault, SourceOutcome};
use crate::symbols::{NotTaken, Symbols, trimmed};

/// A window of symbols, and the blocks in it of which repair symbols came.
///
/// It is used as [`online::Decoder`](crate::online::Decoder) is. A block leaves with its first symbol, so
/// that a window should be two blocks wide. Of a block that is complete the bytes are forgotten with the next
/// repair symbol of it; that its symbols came is not.
///
/// ```
/// use quickset_fec::ldpc::{Block, Decoder};
/// use quickset_fec::{Symbols, online::DecoderLimits};
///
/// let mut sent = Symbols::new(100, 10);
/// (0..20_u8).try_for_each(|i| sent.push(&[i; 10]).map(|_| ()))?;
/// let block = Block::new(0, 20, 10)?;
/// let repairs = block.encode(&sent)?;
///
/// let mut decoder = Decoder::new(DecoderLimits { window: 100, symbol_size: 10, max_unknowns: 64 });
/// for sid in (0..20).filter(|sid| *sid != 7) {
///     decoder.source(sid, sent.get(sid).expect("it is held"))?;
/// }
/// for (index, repair) in (0..).zip(&repairs) {
///     decoder.repair(&block, index, repair)?;
/// }
/// while decoder.has_work() {
///     decoder.work(65_536);
/// }
/// assert_eq!(decoder.next_recovered(), Some((7, &[7; 10][..])));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Decoder {
    pub(super) symbols: Symbols,
    blocks: BTreeMap<u64, OpenBlock>,
    /// The first symbols of blocks that have jobs.
    busy: BTreeSet<u64>,
    recovered: VecDeque<u64>,
    window: u64,
    low: u64,
    largest: Option<u64>,
    max_unknowns: usize,
    cost: Cost,
}

/// A block whose first repair symbol came.
struct OpenBlock {
    block: Block,
    /// Bytes of each of its repair symbols.
    len: usize,
    /// `None` when nothing is missing, or it was given up.
    open: Option<Box<UnsolvedBlock>>,
}

struct UnsolvedBlock {
    system: LdpcSystem,
    repairs: BTreeMap<u32, Vec<u8>>,
    jobs: VecDeque<SumJob>,
}

impl Decoder {
    /// Nothing has come yet. Memory is taken as symbols come. `max_unknowns` limits elimination: where more
    /// source symbols of a block are missing, those are recovered that single checks give.
    pub fn new(limits: DecoderLimits) -> Self {
        Self {
            symbols: Symbols::new(limits.window, limits.symbol_size),
            blocks: BTreeMap::new(),
            busy: BTreeSet::new(),
            recovered: VecDeque::new(),
            window: limits.window.max(1) as u64,
            low: 0,
            largest: None,
            max_unknowns: limits.max_unknowns,
            cost: Cost::default(),
        }
    }

    /// Takes source symbol `sid`. The largest number seen moves the window.
    pub fn source(&mut self, sid: u64, data: &[u8]) -> Result<SourceOutcome, SenderFault> {
        if data.len() > self.symbols.size() {
            return Err(SenderFault::TooLong);
        }
        let data = trimmed(data);
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
        let around = self.blocks.range(..=sid).next_back().filter(|(_, state)| sid <= state.block.last());
        if around.is_some_and(|(_, state)| data.len() > state.len) {
            return Err(SenderFault::Short);
        }
        let around = around.map(|(&first, _)| first);
        self.advance(sid);
        hold(&mut self.symbols, sid, data, false);
        if let Some(first) = around {
            self.change(first, |open| {
                open.system.known(short(sid - first));
            });
        }
        self.stay_small();
        Ok(SourceOutcome::New)
    }

    /// Takes repair symbol `index` of a block. The last symbol of the block counts as seen, and moves the
    /// window.
    pub fn repair(&mut self, block: &Block, index: u64, data: &[u8]) -> Result<RepairOutcome, SenderFault> {
        if data.len() > self.symbols.size() {
            return Err(SenderFault::TooLong);
        }
        if index >= block.repairs() {
            return Err(SenderFault::Range);
        }
        if block.last() - block.first() >= self.window || block.repairs() > self.window {
            return Ok(RepairOutcome::Old);
        }
        self.advance(block.last());
        if block.first() < self.low {
            return Ok(RepairOutcome::Old);
        }
        if !self.open(block, data.len())? {
            return Ok(RepairOutcome::TooMany);
        }
        let (index, mut outcome) = (short(index), RepairOutcome::Redundant);
        let full = self.taken() >= self.slots();
        self.change(block.first(), |open| {
            if open.repairs.contains_key(&index) || open.system.missing() == 0 {
                return;
            }
            if full {
                outcome = RepairOutcome::TooMany;
                return;
            }
            outcome = RepairOutcome::Taken;
            open.repairs.insert(index, padded(data));
            open.system.repair(index);
        });
        self.spend(block);
        Ok(outcome)
    }

    /// Forgets the bytes of a block of which nothing is missing: no other has a symbol of it. What is held of
    /// a path without losses is the open block then.
    fn spend(&mut self, block: &Block) {
        let (first, last) = (block.first(), block.last());
        let is_open = self.blocks.get(&first).is_none_or(|state| state.open.is_some());
        // Most often all of a block are there when its first repair symbol comes; those that it was given up
        // with are not.
        if !is_open
            && self.recovered.is_empty()
            && !self.symbols.is_spent(first)
            && self.symbols.missing(first, last).next().is_none()
        {
            self.symbols.spend_all(first, 1, u64::from(block.sources));
        }
    }

    /// Whether [`work`](Self::work) would lead to a missing symbol.
    pub fn has_work(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Works on the payload of missing symbols that are determined, until it has added `budget` bytes, and
    /// the sum for one missing symbol more at most. Returns how many it was.
    pub fn work(&mut self, budget: usize) -> usize {
        let mut spent = 0;
        while spent < budget {
            let Some(&first) = self.busy.first() else { break };
            let open = self.blocks.get_mut(&first).and_then(|state| state.open.as_mut());
            let Some((open, job)) = open.and_then(|open| open.jobs.pop_front().map(|job| (open, job))) else {
                self.finish(first);
                continue;
            };
            let sink = MissingSink { first, symbols: &mut self.symbols, recovered: &mut self.recovered };
            spent += open.work(job, sink, budget - spent);
        }
        self.cost.bytes += spent as u64;
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

    /// The largest number seen, those of blocks of repair symbols included.
    pub fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// The least number that is in the window.
    pub fn low(&self) -> u64 {
        self.low
    }

    /// Makes the window `window` numbers wide, at least 1.
    pub fn set_window(&mut self, window: usize) {
        self.window = window.max(1) as u64;
        self.advance(self.largest.unwrap_or(0));
        self.symbols.set_window(window);
        self.stay_small();
    }

    /// Whether source symbol `sid` is in the window, and came or was recovered.
    pub fn is_held(&self, sid: u64) -> bool {
        self.symbols.len_of(sid).is_some()
    }

    /// What decoding has cost. Row operations are changes of the sums that rows and segments keep, or of a
    /// word in elimination, and what making a matrix takes in such.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Bytes of memory for symbols and repair symbols.
    pub fn memory(&self) -> usize {
        let open = self.blocks.values().filter_map(|state| state.open.as_ref());
        let stored = open.map(|open| {
            open.repairs.values().map(Vec::len).sum::<usize>()
                + open.jobs.iter().map(SumJob::memory).sum::<usize>()
        });
        self.symbols.memory() + stored.sum::<usize>()
    }

    /// Whether there is room for the block, which is made if it is new.
    fn open(&mut self, block: &Block, len: usize) -> Result<bool, SenderFault> {
        if let Some(state) = self.blocks.get(&block.first()) {
            return match (state.block == *block, state.len == len) {
                (true, true) => Ok(true),
                (true, false) => Err(SenderFault::Uneven),
                (false, _) => Err(SenderFault::Overlap),
            };
        }
        let before = self.blocks.range(..block.first()).next_back();
        let behind = self.blocks.range(block.first()..).next();
        if before.is_some_and(|(_, other)| other.block.last() >= block.first())
            || behind.is_some_and(|(&first, _)| first <= block.last())
        {
            return Err(SenderFault::Overlap);
        }
        let mut missing = BTreeSet::new();
        for sid in block.first()..=block.last() {
            match self.symbols.len_of(sid) {
                Some(held) if held > len => return Err(SenderFault::Short),
                // Of a complete block that left the window with its first symbols: without its bytes sums
                // would be wrong.
                Some(_) if self.symbols.is_spent(sid) => return Err(SenderFault::Overlap),
                Some(_) => {}
                None => drop(missing.insert(short(sid - block.first()))),
            }
        }
        let rows: u64 = self.blocks.values().filter(|s| s.open.is_some()).map(|s| s.block.repairs()).sum();
        if rows + block.repairs() > 2 * self.window {
            return Ok(false);
        }
        self.cost.row_operations += OPENING * u64::from(block.sources + block.repairs);
        let open = (!missing.is_empty()).then(|| {
            let system = LdpcSystem::new(block.matrix(), block.repairs, missing);
            Box::new(UnsolvedBlock { system, repairs: BTreeMap::new(), jobs: VecDeque::new() })
        });
        self.blocks.insert(block.first(), OpenBlock { block: *block, len, open });
        Ok(true)
    }

    /// Changes what is known of a block, and finds what that determines.
    fn change(&mut self, first: u64, change: impl FnOnce(&mut UnsolvedBlock)) {
        let Some(open) = self.blocks.get_mut(&first).and_then(|state| state.open.as_mut()) else { return };
        let before = open.system.operations();
        change(open);
        open.jobs.extend(open.system.determine(self.max_unknowns));
        self.cost.row_operations += open.system.operations() - before;
        if open.jobs.is_empty() {
            self.finish(first);
        } else {
            self.busy.insert(first);
        }
    }

    /// The block has no jobs.
    fn finish(&mut self, first: u64) {
        self.busy.remove(&first);
        if let Some(state) = self.blocks.get_mut(&first) {
            state.open.take_if(|open| open.system.missing() == 0);
        }
    }

    /// Slots that are taken: by symbols held and those that are missing in open blocks, for they may be
    /// recovered, and by repair symbols.
    fn taken(&self) -> usize {
        let open = self.blocks.values().filter_map(|state| state.open.as_ref());
        let stored = open.map(|open| {
            let solved = open.jobs.iter().map(SumJob::solves).sum::<usize>();
            open.repairs.len() + open.system.missing() + solved
        });
        self.symbols.held() + stored.sum::<usize>()
    }

    /// The slots that there are: as many as the window is wide, and an eighth more.
    fn slots(&self) -> usize {
        index(self.window).saturating_mul(9) / 8
    }

    /// Symbols came that take the slots of repair symbols: the oldest block is given up.
    fn stay_small(&mut self) {
        while self.taken() > self.slots() {
            let Some((first, state)) = self.blocks.iter_mut().find(|(_, state)| state.open.is_some()) else {
                return;
            };
            self.busy.remove(first);
            state.open = None;
        }
    }

    fn advance(&mut self, sid: u64) {
        self.largest = Some(self.largest.map_or(sid, |largest| largest.max(sid)));
        let low = (self.largest.unwrap_or(0) + 1).saturating_sub(self.window);
        if low <= self.low {
            return;
        }
        self.low = low;
        while let Some(entry) = self.blocks.first_entry().filter(|entry| *entry.key() < low) {
            self.busy.remove(entry.key());
            entry.remove();
        }
        self.symbols.drop_below(low);
        self.recovered.retain(|&sid| sid >= low);
    }
}

/// Where missing symbols of a block go.
struct MissingSink<'a> {
    first: u64,
    symbols: &'a mut Symbols,
    recovered: &'a mut VecDeque<u64>,
}

impl MissingSink<'_> {
    fn put(&mut self, source: u32, out: &[u8]) {
        let sid = self.first + u64::from(source);
        // It may have come in the meantime.
        if self.symbols.len_of(sid).is_none() {
            let end = out.len().min(self.symbols.size());
            hold(self.symbols, sid, trimmed(&out[..end]), true);
            self.recovered.push_back(sid);
        }
    }
}

impl UnsolvedBlock {
    /// One step of a job, which goes back to the front if there is more to do. Returns how many bytes it
    /// took.
    fn work(&mut self, mut job: SumJob, mut sink: MissingSink<'_>, budget: usize) -> usize {
        let (matrix, repairs) = (&self.system.matrix, &self.repairs);
        let bytes =
            match job.step(&JobData { first: sink.first, matrix, repairs, symbols: sink.symbols }, budget) {
                JobStep::More(bytes) => bytes,
                JobStep::Solved(bytes, source, out) => {
                    sink.put(source, &out);
                    bytes
                }
                JobStep::Finished => return 0,
            };
        self.jobs.push_front(job);
        bytes
    }
}

fn hold(symbols: &mut Symbols, sid: u64, data: &[u8], recovered: bool) {
    match symbols.place(sid, data, recovered) {
        Ok(()) | Err(NotTaken::Below) => {}
        Err(other) => debug_assert!(false, "{sid} was checked, but {other}"),
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("symbols", &self.symbols)
            .field("blocks", &self.blocks.len())
            .field("low", &self.low)
            .field("largest", &self.largest)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// Row operations that take as long as what a block needs for each of its symbols before anything is known of
/// it: the draws of its column, and its places in the lists.
const OPENING: u64 = 24;
