use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::{Error, MAX_SYMBOLS, block};
use crate::number::element;

/// Collects the symbols of one block, in any order, and recovers what is lost once enough are there.
///
/// It keeps a copy of each symbol. A symbol that comes twice, or after it was recovered, changes nothing.
#[derive(Clone, Debug)]
pub struct Decoder {
    sources: Vec<Option<Vec<u8>>>,
    /// Those that are still of use.
    repairs: BTreeMap<u8, Vec<u8>>,
    missing: usize,
}

impl Decoder {
    /// For a block of `k` source symbols, 1 to 255.
    pub fn new(k: usize) -> Result<Self, Error> {
        if k == 0 || k >= MAX_SYMBOLS {
            return Err(Error::Index);
        }
        Ok(Self { sources: vec![None; k], repairs: BTreeMap::new(), missing: k })
    }

    /// Takes source symbol `j`; true if it was missing.
    pub fn source(&mut self, j: usize, symbol: &[u8]) -> Result<bool, Error> {
        let slot = self.sources.get_mut(j).ok_or(Error::Index)?;
        if slot.is_some() {
            return Ok(false);
        }
        *slot = Some(symbol.to_vec());
        self.missing -= 1;
        Ok(true)
    }

    /// Takes repair symbol `i`; true if it may help.
    pub fn repair(&mut self, i: usize, symbol: &[u8]) -> Result<bool, Error> {
        if i >= MAX_SYMBOLS - self.sources.len() {
            return Err(Error::Index);
        }
        let row = element(i);
        let helps = self.missing > self.repairs.len() && !self.repairs.contains_key(&row);
        if helps {
            self.repairs.insert(row, symbol.to_vec());
        }
        Ok(helps)
    }

    /// Source symbols that are neither here nor recovered.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Recovers the missing source symbols if it can; their numbers, in order, once. [`Error::TooFew`] if
    /// more symbols are needed. After [`Error::Short`], which means that a symbol is not of this block, all
    /// repair symbols are dropped.
    pub fn decode(&mut self) -> Result<Vec<usize>, Error> {
        if self.missing > self.repairs.len() {
            return Err(Error::TooFew);
        }
        let lost: Vec<usize> = (0..self.sources.len()).filter(|&j| self.sources[j].is_none()).collect();
        let sources: Vec<Option<&[u8]>> = self.sources.iter().map(Option::as_deref).collect();
        let repairs = core::mem::take(&mut self.repairs);
        let repairs: Vec<(u8, &[u8])> = repairs.iter().map(|(&i, symbol)| (i, symbol.as_slice())).collect();
        let size = block::longest(repairs.iter().map(|r| r.1));
        let mut recovered = vec![vec![0; size]; lost.len()];
        let mut buffers: Vec<&mut [u8]> = recovered.iter_mut().map(Vec::as_mut_slice).collect();
        block::decode(&sources, &repairs, &mut buffers)?;
        for (&j, symbol) in lost.iter().zip(recovered) {
            self.sources[j] = Some(symbol);
        }
        self.missing = 0;
        Ok(lost)
    }

    /// Source symbol `j`, if it came or was recovered; recovered ones are as long as the repair symbols,
    /// zeros at the end.
    pub fn get(&self, j: usize) -> Option<&[u8]> {
        self.sources.get(j)?.as_deref()
    }
}
