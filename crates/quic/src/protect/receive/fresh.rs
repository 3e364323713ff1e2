use std::ops::RangeInclusive;

use bytes::Bytes;

/// Symbols in a row, behind all others, that the decoder has not been given. As long as blocks come whole
/// nobody asks for their bytes, and they stay in the packets that they came in.
#[derive(Debug)]
pub(super) struct Fresh {
    /// The number of the first; `None`: there are none, and each goes to the decoder as it comes.
    first: Option<u64>,
    symbols: Vec<Bytes>,
    /// Bytes of the longest.
    longest: usize,
    /// The packet of the first.
    since: u64,
    /// Bytes that those may have which stay.
    lengths: RangeInclusive<usize>,
}

impl Fresh {
    /// For symbols of at most `size` bytes.
    pub(super) fn new(size: usize) -> Self {
        Self { first: None, symbols: Vec::new(), longest: 0, since: 0, lengths: LEAST..=size }
    }

    /// A block came whole: those from `first` on need not go to the decoder.
    pub(super) fn begin(&mut self, first: u64) {
        debug_assert!(self.symbols.is_empty());
        self.first = Some(first);
    }

    /// Whether a symbol of `len` bytes in this packet is to be kept here.
    #[inline]
    pub(super) fn takes(&self, sid: u64, len: usize, packet: u64) -> bool {
        self.next() == Some(sid)
            && self.lengths.contains(&len)
            && (self.symbols.is_empty() || (self.symbols.len() < MOST && packet - self.since < SPAN))
    }

    /// The next one, which is to be kept here.
    #[inline]
    pub(super) fn push(&mut self, symbol: Bytes, packet: u64) {
        if self.symbols.is_empty() {
            self.since = packet;
            self.longest = 0;
        }
        self.longest = self.longest.max(symbol.len());
        self.symbols.push(symbol);
    }

    /// Whether these are just the block of `count` symbols from `first` on that a repair symbol of `len`
    /// bytes can be of.
    pub(super) fn are(&self, first: u64, count: u64, len: usize) -> bool {
        self.first == Some(first)
            && self.symbols.len() as u64 == count
            && (self.longest..=*self.lengths.end()).contains(&len)
    }

    /// The block they are is complete. The next one is kept here, too.
    pub(super) fn whole(&mut self) -> impl Iterator<Item = Bytes> {
        self.first = self.next();
        self.symbols.drain(..)
    }

    /// The decoder needs them, each with its number, and those to come.
    pub(super) fn end(&mut self) -> impl Iterator<Item = (u64, Bytes)> {
        (self.first.take().unwrap_or(0)..).zip(self.symbols.drain(..))
    }

    pub(super) fn is_on(&self) -> bool {
        self.first.is_some()
    }

    pub(super) fn memory(&self) -> usize {
        self.symbols.iter().map(Bytes::len).sum()
    }

    #[inline]
    fn next(&self) -> Option<u64> {
        self.first.map(|first| first + self.symbols.len() as u64)
    }
}

/// Less is not worth the buffer that it would keep in memory.
const LEAST: usize = 512;

/// Symbols of a Reed-Solomon block at most.
const MOST: usize = 255;

/// Packets that may come meanwhile, whose buffers are kept with those of the symbols.
const SPAN: u64 = 2 * MOST as u64;
