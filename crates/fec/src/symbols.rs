//! The symbols that a sender may still need for repair, or a receiver for decoding.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::equation::{Coefficients, Equation, MAX_SID};
use crate::gf256::Kernel;
use crate::number::{index, short};

/// A window of symbols by number.
///
/// It holds at most `window` numbers in a row; a newer symbol pushes the oldest out. Symbols lie in slots of
/// whole cache lines, which are allocated as they are needed, eight at a time, reused, and given back when
/// far fewer were held for a whole window of numbers, or by [`trim`](Self::trim). To them come 12 bytes and a
/// bit for each number of the window.
///
/// ```
/// use quickset_fec::{Equation, Symbols};
///
/// let mut window = Symbols::new(1024, 1400);
/// let first = window.push(b"one").expect("short enough");
/// window.push(b"three").expect("short enough");
/// let mut repair = Vec::new();
/// window.combine(&Equation::xor(first, 2, 1, 0)?, &mut repair)?;
/// assert_eq!(repair, [b'o' ^ b't', b'n' ^ b'h', b'e' ^ b'r', b'e', b'e']);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Symbols {
    size: usize,
    window: usize,
    first: u64,
    entries: VecDeque<SymbolEntry>,
    /// A bit for each number that is held, in words of 64 numbers, the first of which has `first`.
    bits: VecDeque<u64>,
    /// No symbol since the window was empty was longer.
    longest: usize,
    held: usize,
    spent: usize,
    chunks: Vec<Option<SlotChunk>>,
    /// Places in `chunks` where none is.
    vacant: Vec<u32>,
    /// Slots of chunks that no symbol is in.
    free: Vec<u32>,
    /// The most symbols that were held since the number `turn` less a window, and in the window before that.
    peaks: (usize, usize),
    turn: u64,
}

/// Why a symbol was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// It is longer than the window's symbols may be.
    TooLong,
    /// Its number is below the window.
    Below,
    /// A symbol of this number is held.
    Held,
    /// Its number is beyond [`MAX_SID`].
    Range,
}

/// A symbol that a repair symbol should be made of is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingSymbol {
    /// Its number.
    pub sid: u64,
}

#[derive(Clone, Copy)]
struct SymbolEntry {
    slot: u32,
    len: u32,
    mark: bool,
}

impl Symbols {
    /// An empty window of `window` numbers, from 0 on, and symbols of at most `size` bytes.
    pub fn new(window: usize, size: usize) -> Self {
        Self {
            size: size.min(u32::MAX as usize),
            window: window.max(1),
            first: 0,
            entries: VecDeque::new(),
            bits: VecDeque::new(),
            longest: 0,
            held: 0,
            spent: 0,
            chunks: Vec::new(),
            vacant: Vec::new(),
            free: Vec::new(),
            peaks: (0, 0),
            turn: 0,
        }
    }

    /// Holds `data` under the number after the largest one, which is returned.
    pub fn push(&mut self, data: &[u8]) -> Result<u64, NotTaken> {
        self.append(data, false)
    }

    #[inline]
    fn append(&mut self, data: &[u8], mark: bool) -> Result<u64, NotTaken> {
        let sid = self.next();
        if data.len() > self.size {
            return Err(NotTaken::TooLong);
        }
        if sid > MAX_SID {
            return Err(NotTaken::Range);
        }
        self.drop_below((sid + 1).saturating_sub(self.window as u64));
        let slot = self.store(data);
        self.entries.push_back(SymbolEntry { slot, len: short(data.len() as u64), mark });
        self.held_now(sid, data.len());
        Ok(sid)
    }

    /// Holds `data` under the number `sid`. Where that is above the window, the window moves up to it.
    pub fn insert(&mut self, sid: u64, data: &[u8]) -> Result<(), NotTaken> {
        self.place(sid, data, false)
    }

    /// [`insert`](Self::insert), and a mark that [`is_marked`](Self::is_marked) tells.
    #[inline]
    pub(crate) fn place(&mut self, sid: u64, data: &[u8], mark: bool) -> Result<(), NotTaken> {
        if data.len() > self.size {
            return Err(NotTaken::TooLong);
        }
        if sid > MAX_SID {
            return Err(NotTaken::Range);
        }
        if sid == self.next() {
            // As most come.
            return self.append(data, mark).map(|_| ());
        }
        self.place_elsewhere(sid, data, mark)
    }

    fn place_elsewhere(&mut self, sid: u64, data: &[u8], mark: bool) -> Result<(), NotTaken> {
        if sid < self.first {
            return Err(NotTaken::Below);
        }
        if self.known(sid).is_some() {
            return Err(NotTaken::Held);
        }
        self.drop_below((sid + 1).saturating_sub(self.window as u64));
        let slot = self.store(data);
        let at = index(sid - self.first);
        let entry = SymbolEntry { slot, len: short(data.len() as u64), mark };
        if at < self.entries.len() {
            self.entries[at] = entry;
        } else {
            self.entries.resize(at, SymbolEntry::NONE);
            self.entries.push_back(entry);
        }
        self.held_now(sid, data.len());
        Ok(())
    }

    /// The symbol after the largest number came and is spent. The window is made to hold no more by whoever
    /// calls.
    pub(crate) fn append_spent(&mut self, len: usize) {
        let sid = self.next();
        self.entries.push_back(SymbolEntry { slot: SymbolEntry::SPENT, len: short(len as u64), mark: false });
        self.spent += 1;
        self.known_now(sid);
        self.longest = self.longest.max(len);
        if sid >= self.turn {
            self.turn_over(sid);
        }
    }

    #[inline]
    fn known_now(&mut self, sid: u64) {
        let word = index(sid / 64 - self.first / 64);
        if let Some(held) = self.bits.get_mut(word) {
            *held |= 1 << (sid % 64);
        } else {
            self.bits.resize(word, 0);
            self.bits.push_back(1 << (sid % 64));
        }
    }

    /// A symbol of `len` bytes was stored, and has its entry.
    #[inline]
    fn held_now(&mut self, sid: u64, len: usize) {
        self.known_now(sid);
        self.longest = if self.held == 0 { len } else { self.longest.max(len) };
        self.held += 1;
        self.peaks.0 = self.peaks.0.max(self.held);
        if sid >= self.turn {
            self.turn_over(sid);
        }
    }

    /// A window of numbers later.
    #[cold]
    fn turn_over(&mut self, sid: u64) {
        self.turn = sid.saturating_add(self.window as u64);
        // What is held goes up and down by whole flights: freeing in each trough is paid for in each crest.
        self.shrink(self.peaks.0.max(self.peaks.1) + CHUNK);
        self.peaks = (self.held, self.peaks.0);
    }

    /// The symbol `sid`, if it is held.
    pub fn get(&self, sid: u64) -> Option<&[u8]> {
        self.entry(sid).map(|entry| &self.padded_slot(entry)[..entry.len as usize])
    }

    /// The symbol `sid` and the zeros behind it, up to a whole number of cache lines.
    pub(crate) fn padded(&self, sid: u64) -> Option<&[u8]> {
        self.entry(sid).map(|entry| self.padded_slot(entry))
    }

    /// The length of symbol `sid`, if it is held or spent.
    pub(crate) fn len_of(&self, sid: u64) -> Option<usize> {
        self.known(sid).map(|entry| entry.len as usize)
    }

    /// Forgets the bytes of `terms` symbols from `first` on, `stride` apart, but not that they were held:
    /// their places are for others, and no repair symbol can be made of them any more.
    pub(crate) fn spend_all(&mut self, first: u64, stride: u64, terms: u64) {
        let Self { entries, free, chunks, .. } = self;
        let begin = index(first.saturating_sub(self.first).min(entries.len() as u64));
        let (stride, terms) = (index(stride), index(terms));
        let mut spent = 0;
        for entry in entries.range_mut(begin..).step_by(stride).take(terms) {
            if entry.slot < SymbolEntry::SPENT {
                vacate(entry.slot, free, chunks);
                entry.slot = SymbolEntry::SPENT;
                spent += 1;
            }
        }
        self.spent += spent;
        self.held -= spent;
    }

    /// Whether symbol `sid` is spent.
    pub(crate) fn is_spent(&self, sid: u64) -> bool {
        self.known(sid).is_some_and(|entry| entry.slot == SymbolEntry::SPENT)
    }

    /// The first symbol of the equation that is spent.
    pub(crate) fn spent_in(&self, equation: &Equation) -> Option<u64> {
        let terms = if self.spent > 0 { equation.terms() } else { 0 };
        (0..terms).map(|term| equation.sid(term)).find(|sid| self.is_spent(*sid))
    }

    /// The numbers from `first` to `last` that are neither held nor spent, both of which are in the window or
    /// above it.
    pub(crate) fn missing(&self, first: u64, last: u64) -> impl Iterator<Item = u64> {
        (first / 64..=last / 64).flat_map(move |word| {
            let held = word.checked_sub(self.first / 64).and_then(|at| self.bits.get(index(at)));
            let mut missing = !held.copied().unwrap_or(0);
            if word == first / 64 {
                missing &= u64::MAX << (first % 64);
            }
            if word == last / 64 {
                missing &= u64::MAX >> (63 - last % 64);
            }
            bits(missing).map(move |bit| word * 64 + bit as u64)
        })
    }

    /// A length that no symbol that is held exceeds.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Whether symbol `sid` is held or spent and was placed with a mark.
    pub(crate) fn is_marked(&self, sid: u64) -> bool {
        self.known(sid).is_some_and(|entry| entry.mark)
    }

    /// Drops all symbols below `sid`; the window begins there now, if it did not begin above.
    #[inline]
    pub fn drop_below(&mut self, sid: u64) {
        if sid == self.first + 1 && sid % 64 > 0 {
            // As most are dropped.
            if let Some(entry) = self.entries.pop_front() {
                self.dropped(entry);
            }
            self.first = sid;
        } else if sid > self.first {
            self.drop_some(sid);
        }
    }

    fn drop_some(&mut self, sid: u64) {
        let (mut at, end) = (self.first, sid.min(self.next()));
        while at < end {
            let n = (64 - at % 64).min(end - at);
            if self.bits.front().is_none_or(|known| *known == 0) {
                // A sender that keeps most symbols elsewhere has few here.
                self.entries.drain(..index(n));
            } else {
                for _ in 0..n {
                    let entry = self.entries.pop_front().expect("the window ends behind it");
                    self.dropped(entry);
                }
            }
            at += n;
            if at % 64 == 0 {
                self.bits.pop_front();
            }
        }
        let words = (sid / 64 - at / 64).min(self.bits.len() as u64);
        self.bits.drain(..index(words));
        self.first = sid;
    }

    #[inline]
    fn dropped(&mut self, entry: SymbolEntry) {
        if entry.slot == SymbolEntry::SPENT {
            self.spent -= 1;
        } else if entry.slot < SymbolEntry::SPENT {
            vacate(entry.slot, &mut self.free, &mut self.chunks);
            self.held -= 1;
        }
    }

    /// Gives back what memory is not needed for the symbols that are held.
    pub fn trim(&mut self) {
        self.shrink(self.held);
        self.peaks = (self.held, self.held);
        if self.free.capacity() > FEW.max(2 * self.free.len()) {
            self.free.shrink_to_fit();
        }
        if self.entries.capacity() > FEW.max(2 * self.entries.len()) {
            self.entries.shrink_to_fit();
        }
    }

    /// Makes the window `window` numbers wide, at least 1. The largest stay.
    pub fn set_window(&mut self, window: usize) {
        self.window = window.max(1);
        self.drop_below(self.next().saturating_sub(self.window as u64));
    }

    /// The least number that is in the window.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number after the largest that was ever held.
    pub fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// How many symbols are held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// How many symbols below `sid` are held.
    pub(crate) fn held_below(&self, sid: u64) -> usize {
        let numbers = sid.saturating_sub(self.first).min(self.entries.len() as u64);
        self.entries.range(..index(numbers)).filter(|entry| entry.slot < SymbolEntry::SPENT).count()
    }

    /// How many numbers the window is wide.
    pub fn window(&self) -> usize {
        self.window
    }

    /// The most bytes that a symbol can have.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of memory that are taken, for symbols held and for ones to come.
    pub fn memory(&self) -> usize {
        self.chunks.iter().flatten().map(|chunk| chunk.bytes.len()).sum::<usize>()
            + self.entries.capacity() * size_of::<SymbolEntry>()
            + self.bits.capacity() * size_of::<u64>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// Writes the repair symbol of `equation` into `out`, in place of what is there. It is as long as the
    /// longest symbol in it. This encodes XOR, two-dimensional XOR, Reed-Solomon and sliding-window codes.
    ///
    /// # Errors
    ///
    /// If a symbol of the equation is not held; `out` is unchanged then.
    pub fn combine(&self, equation: &Equation, out: &mut Vec<u8>) -> Result<(), MissingSymbol> {
        // Before the loop, which it bounds.
        for sid in [equation.first(), equation.last()] {
            self.len_of(sid).ok_or(MissingSymbol { sid })?;
        }
        if let Some(sid) = self.spent_in(equation) {
            return Err(MissingSymbol { sid });
        }
        let mut missing = self.missing(equation.first(), equation.last());
        if let Some(sid) = missing.find(|sid| equation.term(*sid).is_some()) {
            return Err(MissingSymbol { sid });
        }
        out.clear();
        out.resize(lines(self.longest), 0);
        let (kernel, mut longest) = (Kernel::best(), 0);
        // All of them are below the window's width; where there is one, any stride will do.
        let stride = index(equation.stride());
        let mut coefficients = Vec::with_capacity(BATCH);
        let mut symbols = [&[][..]; BATCH];
        // A window may be larger than the second-level cache. Repair symbols that read it one after the
        // other, each from its beginning, would find nothing of it there: every second begins with what the
        // one before read last.
        let backwards = matches!(equation.coefficients(), Coefficients::Rlc { seed } if seed % 2 == 1);
        let batches = equation.terms().div_ceil(BATCH as u64);
        for n in 0..batches {
            let start = BATCH as u64 * if backwards { batches - 1 - n } else { n };
            let terms = start..equation.terms().min(start + BATCH as u64);
            coefficients.clear();
            equation.extend(terms, &mut coefficients);
            let symbols = &mut symbols[..coefficients.len()];
            longest = longest.max(self.collect(equation.sid(start), stride, symbols));
            kernel.gather(out, &coefficients, symbols);
        }
        out.truncate(longest);
        Ok(())
    }

    /// Fills `out` with symbols that are held and lie in a row, `stride` apart, each with the zeros behind
    /// it. Returns the length of the longest.
    fn collect<'a>(&'a self, first: u64, stride: usize, out: &mut [&'a [u8]]) -> usize {
        // The entries may lie in two parts; to look for the part each time costs more than all the rest.
        let (front, back) = self.entries.as_slices();
        let (mut at, mut longest) = (index(first - self.first), 0);
        for symbol in out {
            let entry = if at < front.len() { &front[at] } else { &back[at - front.len()] };
            longest = longest.max(entry.len);
            *symbol = self.padded_slot(entry);
            at += stride;
        }
        longest as usize
    }

    /// Of a symbol that is held.
    fn entry(&self, sid: u64) -> Option<&SymbolEntry> {
        self.known(sid).filter(|entry| entry.slot < SymbolEntry::SPENT)
    }

    /// Of a symbol that is held or spent.
    fn known(&self, sid: u64) -> Option<&SymbolEntry> {
        let at = sid.checked_sub(self.first)?;
        self.entries.get(usize::try_from(at).ok()?).filter(|entry| entry.slot != SymbolEntry::NONE.slot)
    }

    /// Copies a symbol into a free slot, with zeros up to the end of its last cache line.
    #[inline]
    fn store(&mut self, data: &[u8]) -> u32 {
        if self.free.is_empty() {
            self.grow();
        }
        let slot = self.free.pop().expect("a chunk has slots");
        let len = self.slot_len();
        let chunk = self.chunk_mut(slot);
        chunk.used += 1;
        let at = slot as usize % CHUNK * len;
        let lines = &mut chunk.lines_mut()[at..at + lines(data.len())];
        if let Some(last) = lines.last_chunk_mut::<LINE>() {
            *last = [0; LINE];
        }
        lines[..data.len()].copy_from_slice(data);
        slot
    }

    /// Makes slots.
    #[cold]
    fn grow(&mut self) {
        let place = self.vacant.pop().unwrap_or(short(self.chunks.len() as u64));
        let chunk = Some(SlotChunk::new(CHUNK * self.slot_len()));
        match self.chunks.get_mut(place as usize) {
            Some(vacant) => *vacant = chunk,
            None => self.chunks.push(chunk),
        }
        let [first, end] = [place, place + 1].map(|chunk| chunk * short(CHUNK as u64));
        // The last is taken first.
        self.free.extend((first..end).rev());
    }

    /// Gives back chunks that no symbol is in, as long as `slots` slots remain.
    fn shrink(&mut self, slots: usize) {
        let mut spare = (self.free.len() + self.held).saturating_sub(slots) / CHUNK;
        if spare == 0 {
            return;
        }
        for (place, chunk) in (0..).zip(&mut self.chunks) {
            if spare > 0 && chunk.take_if(|chunk| chunk.used == 0).is_some() {
                self.vacant.push(place);
                spare -= 1;
            }
        }
        let chunks = &self.chunks;
        self.free.retain(|slot| chunks[*slot as usize / CHUNK].is_some());
    }

    #[inline]
    fn slot_len(&self) -> usize {
        lines(self.size)
    }

    /// The symbol of an entry that has one, and the zeros behind it.
    #[inline]
    fn padded_slot(&self, entry: &SymbolEntry) -> &[u8] {
        let chunk = self.chunks[entry.slot as usize / CHUNK].as_ref().expect("a chunk with a symbol stays");
        let at = chunk.start + entry.slot as usize % CHUNK * self.slot_len();
        &chunk.bytes[at..at + lines(entry.len as usize)]
    }

    #[inline]
    fn chunk_mut(&mut self, slot: u32) -> &mut SlotChunk {
        self.chunks[slot as usize / CHUNK].as_mut().expect("a chunk with a symbol stays")
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols")
            .field("window", &self.window)
            .field("size", &self.size)
            .field("numbers", &(self.first..self.next()))
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

impl SymbolEntry {
    const NONE: Self = Self { slot: u32::MAX, len: 0, mark: false };
    /// The slot of symbols whose bytes were forgotten.
    const SPENT: u32 = u32::MAX - 1;
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the symbol is too long",
            Self::Below => "the symbol is below the window",
            Self::Held => "a symbol of this number is held",
            Self::Range => "the number of the symbol is too large",
        })
    }
}

impl core::error::Error for NotTaken {}

impl fmt::Display for MissingSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "symbol {} is not held", self.sid)
    }
}

impl core::error::Error for MissingSymbol {}

/// No symbol is in a slot any more.
#[inline]
fn vacate(slot: u32, free: &mut Vec<u32>, chunks: &mut [Option<SlotChunk>]) {
    free.push(slot);
    chunks[slot as usize / CHUNK].as_mut().expect("a chunk with a symbol stays").used -= 1;
}

/// Slots, the first of which begins with a cache line.
struct SlotChunk {
    bytes: Box<[u8]>,
    start: usize,
    used: u32,
}

impl SlotChunk {
    fn new(len: usize) -> Self {
        let bytes = vec![0; len + LINE - 1].into_boxed_slice();
        // The offset may be refused by the contract of `align_offset`; only speed would suffer.
        let start = bytes.as_ptr().align_offset(LINE).min(LINE - 1);
        Self { bytes, start, used: 0 }
    }

    fn lines_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

/// `len` rounded up to whole cache lines.
pub(crate) const fn lines(len: usize) -> usize {
    len.next_multiple_of(LINE)
}

/// The places of the bits that are 1.
pub(crate) fn bits(mask: u64) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(mask), |rest| Some(rest & rest.wrapping_sub(1)))
        .take_while(|rest| *rest != 0)
        .map(|rest| rest.trailing_zeros() as usize)
}

/// `data` without the zeros at its end, which are not told from padding.
pub(crate) fn trimmed(data: &[u8]) -> &[u8] {
    let end = data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &data[..end]
}

/// Bytes of a cache line, and of the widest vector.
const LINE: usize = 64;
/// Slots that are allocated together: 12 KiB at 1500 bytes, so that a small session stays small.
const CHUNK: usize = 8;
/// Places for that many slots and numbers are never given back.
const FEW: usize = 256;
/// Symbols that are handed to the kernel together.
const BATCH: usize = 256;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_newest_push_the_oldest_out() {
        let mut symbols = Symbols::new(3, 10);
        for byte in 0..5 {
            assert_eq!(symbols.push(&[byte]), Ok(u64::from(byte)));
        }
        assert_eq!((symbols.first(), symbols.next(), symbols.held()), (2, 5, 3));
        assert_eq!(symbols.get(1), None);
        assert_eq!(symbols.get(2), Some(&[2][..]));
        assert_eq!(symbols.insert(1, &[1]), Err(NotTaken::Below));
        assert_eq!(symbols.insert(2, &[1]), Err(NotTaken::Held));
        assert_eq!(symbols.insert(5, &[0; 11]), Err(NotTaken::TooLong));
        assert_eq!(symbols.insert(u64::MAX, &[0]), Err(NotTaken::Range));
        symbols.insert(MAX_SID, &[7]).unwrap();
        assert_eq!((symbols.first(), symbols.held()), (MAX_SID - 2, 1));
    }

    /// However many there are, and whichever are read first: each has its own coefficient.
    #[test]
    fn a_sum_over_many_is_the_sum_of_each_times_its_coefficient() {
        let mut symbols = Symbols::new(1024, 40);
        let data = |sid: u64| -> Vec<u8> {
            (0..20 + sid % 21).map(|i| (sid * 31 + i * 7 + (sid >> 3)) as u8).collect()
        };
        (0..700).for_each(|sid| assert_eq!(symbols.push(&data(sid)), Ok(sid)));
        let edge = BATCH as u64;
        for count in [1, edge - 1, edge, edge + 1, 2 * edge, 2 * edge + 1, 600] {
            for index in 0..4 {
                for equation in [
                    Equation::rlc(90, count, index),
                    Equation::xor(90, count, 3, index.min(2).min(count - 1)),
                ] {
                    let equation = equation.unwrap();
                    let mut expected = vec![0; 40];
                    for term in 0..equation.terms() {
                        let product = |byte| crate::gf256::mul(equation.coefficient(term), byte);
                        let symbol = data(equation.sid(term));
                        expected.iter_mut().zip(symbol).for_each(|(sum, byte)| *sum ^= product(byte));
                    }
                    let mut out = Vec::new();
                    symbols.combine(&equation, &mut out).unwrap();
                    out.resize(40, 0);
                    assert_eq!(out, expected, "{equation:?}");
                }
            }
        }
    }

    #[test]
    fn memory_is_taken_as_needed_and_stays_within_the_window() {
        let mut symbols = Symbols::new(1024, 1400);
        symbols.push(&[1; 1400]).unwrap();
        assert!(symbols.memory() < 16_000, "{}", symbols.memory());
        symbols.insert(1023, &[1; 1400]).unwrap();
        assert!(symbols.memory() < 40_000, "{}", symbols.memory());
        for sid in 1024..5000 {
            symbols.insert(sid, &[1; 1400]).unwrap();
        }
        assert!(symbols.memory() <= 1024 * 1400 * 9 / 8, "{}", symbols.memory());
        // What is not needed is given back on demand; what is there stays.
        symbols.drop_below(4990);
        symbols.trim();
        assert!(symbols.memory() < 60_000, "{}", symbols.memory());
        assert!((4990..5000).all(|sid| symbols.get(sid) == Some(&[1; 1400][..])));
        (5000..6000).try_for_each(|sid| symbols.insert(sid, &[2; 1400])).unwrap();
        assert!((5000..6000).all(|sid| symbols.get(sid) == Some(&[2; 1400][..])));
        // And by itself, when a few were enough for long.
        for sid in 6000..9000_u64 {
            symbols.insert(sid, &[3; 1400]).unwrap();
            symbols.drop_below(sid - 20);
        }
        assert!(symbols.memory() < 100_000, "{}", symbols.memory());
    }

    #[test]
    fn what_goes_up_and_down_is_not_allocated_each_time() {
        let mut symbols = Symbols::new(1024, 1400);
        let mut memory = Vec::new();
        for sid in 0..20_000_u64 {
            symbols.push(&[1; 1400]).unwrap();
            if sid % 500 == 499 {
                symbols.drop_below(sid - 10);
                memory.push(symbols.memory());
            }
        }
        assert!(memory[4..].iter().all(|bytes| *bytes == memory[4]), "{memory:?}");
    }

    #[test]
    fn an_elastic_window_reuses_its_slots() {
        let mut symbols = Symbols::new(1024, 1000);
        for sid in 0..3000_u64 {
            symbols.push(&sid.to_be_bytes()).unwrap();
            symbols.drop_below(sid.saturating_sub(6));
        }
        assert_eq!((symbols.held(), symbols.chunks.len()), (7, 1));
        assert_eq!(symbols.get(2994), Some(&2994_u64.to_be_bytes()[..]));
    }

    #[test]
    fn slots_begin_with_a_cache_line_and_end_in_zeros() {
        let mut symbols = Symbols::new(4, 100);
        for round in 0..8 {
            symbols.push(&vec![0xff; if round % 2 == 0 { 100 } else { 3 }]).unwrap();
        }
        let last = symbols.padded(7).unwrap();
        assert_eq!(last.as_ptr().align_offset(64), 0);
        assert_eq!((last.len(), &last[..4], last[3..].iter().max()), (64, &[255, 255, 255, 0][..], Some(&0)));
    }

    #[test]
    fn a_wider_window_keeps_and_a_narrower_one_drops() {
        let mut symbols = Symbols::new(4, 8);
        assert_eq!((0..4).map_while(|byte| symbols.push(&[byte]).ok()).count(), 4);
        symbols.set_window(6);
        assert_eq!((4..6).map_while(|byte| symbols.push(&[byte]).ok()).count(), 2);
        assert_eq!(symbols.held(), 6);
        symbols.set_window(2);
        assert_eq!((symbols.first(), symbols.held()), (4, 2));
    }

    #[test]
    fn what_is_missing_is_what_is_not_held() {
        let mut symbols = Symbols::new(200, 8);
        for sid in (0..1000).filter(|sid| sid % 7 != 0 && sid % 64 != 9) {
            symbols.insert(sid, &[1]).unwrap();
            symbols.drop_below(sid.saturating_sub(150 + sid % 50));
            let (first, last) = (symbols.first().max(sid.saturating_sub(130)), sid + 70);
            let expected: Vec<u64> = (first..=last).filter(|sid| symbols.get(*sid).is_none()).collect();
            assert_eq!(symbols.missing(first, last).collect::<Vec<_>>(), expected);
        }
        symbols.insert(MAX_SID, &[1]).unwrap();
        assert_eq!(symbols.missing(MAX_SID - 2, MAX_SID).collect::<Vec<_>>(), [MAX_SID - 2, MAX_SID - 1]);
    }

    proptest! {
        /// Gaps of whole words of numbers and more, against a map.
        #[test]
        fn few_symbols_of_many_numbers_are_a_map(steps in vec((0_u64..200, 0_u64..300, any::<bool>()), 1..80)) {
            let (mut symbols, mut model, mut next) = (Symbols::new(256, 8), BTreeMap::new(), 0);
            for (gap, drop, spends) in steps {
                let sid = next + gap;
                next = sid + 1;
                symbols.insert(sid, &sid.to_be_bytes()).unwrap();
                model.insert(sid, sid.to_be_bytes());
                if spends {
                    symbols.spend_all(sid, 1, 1);
                    model.remove(&sid);
                }
                let first = next.saturating_sub(drop.min(256));
                symbols.drop_below(first);
                let first = symbols.first();
                prop_assert!(next <= first + 256);
                model = model.split_off(&first);
                prop_assert_eq!(symbols.held(), model.len());
                for sid in first..next + 2 {
                    prop_assert_eq!(symbols.get(sid), model.get(&sid).map(|bytes| &bytes[..]), "{}", sid);
                }
            }
            symbols.drop_below(next + 1000);
            prop_assert_eq!((symbols.held(), symbols.spent, symbols.next()), (0, 0, next + 1000));
        }
    }

    #[test]
    fn a_sum_needs_all_its_symbols() {
        let mut symbols = Symbols::new(8, 8);
        symbols.insert(0, &[1]).unwrap();
        symbols.insert(2, &[2]).unwrap();
        let mut out = vec![9];
        let equation = Equation::rlc(0, 3, 1).unwrap();
        assert_eq!(symbols.combine(&equation, &mut out), Err(MissingSymbol { sid: 1 }));
        let far = Equation::rlc(0, MAX_SID, 1).unwrap();
        assert_eq!(symbols.combine(&far, &mut out), Err(MissingSymbol { sid: MAX_SID - 1 }));
        assert_eq!(out, [9]);
    }
}
