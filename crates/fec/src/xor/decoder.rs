use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::XorLayout;
use crate::gf256::Kernel;

/// Collects the symbols of one block, in any order, and recovers each source as soon as a repair symbol lacks
/// nothing else.
///
/// A repair symbol is kept as the sum of what is missing of it, so that a source or a repair symbol is read
/// once. Symbols that come twice, or after they were recovered, change nothing.
#[derive(Clone, Debug)]
pub struct Decoder {
    layout: XorLayout,
    sources: Vec<Option<Vec<u8>>>,
    missing: usize,
    /// By number: what came, less the sources that are here. Those of no more use are gone.
    sums: BTreeMap<usize, XorSum>,
    recovered: VecDeque<usize>,
}

#[derive(Clone, Debug)]
struct XorSum {
    bytes: Vec<u8>,
    missing: usize,
}

/// Why a symbol was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The block has no symbol of this number.
    Index,
    /// A repair symbol is shorter than a source symbol in it: one of them is of another block.
    Short,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Index => "the block has no symbol of this number",
            Self::Short => "a repair symbol is shorter than a source symbol in it",
        })
    }
}

impl core::error::Error for Error {}

impl Decoder {
    /// For a block of `count` source symbols.
    pub fn new(layout: XorLayout, count: usize) -> Self {
        let sources = vec![None; count];
        Self { layout, sources, missing: count, sums: BTreeMap::new(), recovered: VecDeque::new() }
    }

    /// Takes source symbol `j`; true if it was missing.
    pub fn source(&mut self, j: usize, symbol: &[u8]) -> Result<bool, Error> {
        if self.sources.get(j).ok_or(Error::Index)?.is_some() {
            return Ok(false);
        }
        let sums = self.layout.repairs_of(j).filter_map(|index| self.sums.get(&index));
        if sums.into_iter().any(|sum| !fits(symbol, sum.bytes.len())) {
            return Err(Error::Short);
        }
        self.found(j, symbol.to_vec());
        Ok(true)
    }

    /// Takes repair symbol `index` of all the sources; true if it may help.
    pub fn repair(&mut self, index: usize, symbol: &[u8]) -> Result<bool, Error> {
        if index >= self.layout.repairs(self.sources.len()) {
            return Err(Error::Index);
        }
        let terms = self.layout.terms(self.sources.len(), index);
        let missing = terms.clone().filter(|&j| self.sources[j].is_none()).count();
        if missing == 0 || self.sums.contains_key(&index) {
            return Ok(false);
        }
        let mut here: Vec<&[u8]> = terms.filter_map(|j| self.sources[j].as_deref()).collect();
        if here.iter().any(|source| !fits(source, symbol.len())) {
            return Err(Error::Short);
        }
        for source in &mut here {
            *source = &source[..source.len().min(symbol.len())];
        }
        let mut bytes = symbol.to_vec();
        Kernel::best().sum(&mut bytes, &here);
        self.sums.insert(index, XorSum { bytes, missing });
        self.peel(vec![index]);
        Ok(true)
    }

    /// The next source that was recovered, in the order of recovery, padded with zeros to the length of a
    /// repair symbol.
    pub fn next_recovered(&mut self) -> Option<(usize, &[u8])> {
        let j = self.recovered.pop_front()?;
        Some((j, self.sources[j].as_deref().unwrap_or_default()))
    }

    /// Source symbol `j`, if it came or was recovered.
    pub fn get(&self, j: usize) -> Option<&[u8]> {
        self.sources.get(j)?.as_deref()
    }

    /// Source symbols that are neither here nor recovered.
    pub fn missing(&self) -> usize {
        self.missing
    }

    fn found(&mut self, j: usize, symbol: Vec<u8>) {
        let changed = self.place(j, symbol);
        self.peel(changed);
    }

    /// Puts a source in its place and takes it out of its repair symbols, which are returned.
    fn place(&mut self, j: usize, symbol: Vec<u8>) -> Vec<usize> {
        let mut changed = Vec::with_capacity(2);
        for index in self.layout.repairs_of(j) {
            if let Some(sum) = self.sums.get_mut(&index) {
                // One that was recovered from a longer repair symbol: what is cut off is zero, or the symbols
                // are of different blocks.
                let len = symbol.len().min(sum.bytes.len());
                Kernel::best().sum(&mut sum.bytes, &[&symbol[..len]]);
                sum.missing -= 1;
                changed.push(index);
            }
        }
        self.sources[j] = Some(symbol);
        self.missing -= 1;
        changed
    }

    /// Solves repair symbols with a single unknown until there is none: each solves one source, so this ends.
    fn peel(&mut self, mut changed: Vec<usize>) {
        while let Some(index) = changed.pop() {
            match self.sums.get(&index).map(|sum| sum.missing) {
                Some(0) => {
                    self.sums.remove(&index);
                }
                Some(1) => {
                    let mut terms = self.layout.terms(self.sources.len(), index);
                    let unknown = terms.find(|&j| self.sources[j].is_none());
                    if let (Some(sum), Some(j)) = (self.sums.remove(&index), unknown) {
                        self.recovered.push_back(j);
                        changed.extend(self.place(j, sum.bytes));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether a source has no more than `len` bytes; zeros do not count, which may be the padding of a recovered
/// one.
fn fits(source: &[u8], len: usize) -> bool {
    source.get(len..).is_none_or(|rest| rest.iter().all(|&b| b == 0))
}
