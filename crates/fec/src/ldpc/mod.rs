//! LDPC-Staircase: sparse parity checks, for blocks too large for Reed-Solomon.
//!
//! A block has k >= 2 source and m >= 3 repair symbols. Repair symbol i is the sum (XOR) of repair symbol i -
//! 1 and of those source symbols that row i of a random matrix names. Each source symbol is in three rows:
//! encoding reads it three times, whatever m is. In exchange a block needs some more than k symbols to be
//! decoded: on average 1.3 % more at k = 500 and m = 50, 2.3 % at 200 and 40, 7.5 % at 100 and 50.
//!
//! The matrix is that of RFC 5170 §5 and RFC 6816 with N1 = 3 and the generator of RFC 5170 §5.7. Departures:
//! the seed is 1 + (number of the first symbol) mod (2³¹ - 2) and is not sent, the block is neither shortened
//! nor padded, and there is one symbol a packet. The generator's values are scaled in integers, which gives
//! the same.
//!
//! [`Decoder`] has the same verbs as [`online::Decoder`](crate::online::Decoder).

use alloc::vec;
use alloc::vec::Vec;

use crate::equation::{BadEquation, MAX_SID};
use crate::gf256::Kernel;
use crate::number::short;
use crate::symbols::{MissingSymbol, Symbols, lines};
use matrix::Matrix;

pub use decoder::Decoder;

mod decoder;
mod job;
mod matrix;
mod system;

/// Which symbols are a block, and how many repair symbols it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    first: u64,
    sources: u32,
    repairs: u32,
}

impl Block {
    /// `sources` symbols, at least 2, from number `first` on, and `repairs` repair symbols, at least 3. Both
    /// are below 2²⁰.
    pub fn new(first: u64, sources: u64, repairs: u64) -> Result<Self, BadEquation> {
        if sources < 2 || repairs < 3 {
            return Err(BadEquation::Empty);
        }
        if sources > MOST || repairs > MOST || first > MAX_SID - sources {
            return Err(BadEquation::Range);
        }
        Ok(Self { first, sources: short(sources), repairs: short(repairs) })
    }

    /// The number of its first symbol.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// The number of its last symbol.
    pub const fn last(&self) -> u64 {
        self.first + self.sources as u64 - 1
    }

    /// How many repair symbols it has.
    pub const fn repairs(&self) -> u64 {
        self.repairs as u64
    }

    /// All its repair symbols, each as long as the longest source symbol.
    ///
    /// # Errors
    ///
    /// If a symbol of the block is not held.
    pub fn encode(&self, symbols: &Symbols) -> Result<Vec<Vec<u8>>, MissingSymbol> {
        let mut longest = 0;
        for sid in self.first..=self.last() {
            longest = longest.max(symbols.len_of(sid).ok_or(MissingSymbol { sid })?);
        }
        let (kernel, matrix) = (Kernel::best(), self.matrix());
        let mut out: Vec<Vec<u8>> = Vec::with_capacity(self.repairs as usize);
        let mut row = Vec::new();
        for at in 0..self.repairs {
            let mut repair = out.last().cloned().unwrap_or_else(|| vec![0; lines(longest)]);
            row.clear();
            row.extend(
                matrix
                    .rows(at, at)
                    .iter()
                    .filter_map(|&source| symbols.padded(self.first + u64::from(source))),
            );
            kernel.sum(&mut repair, &row);
            out.push(repair);
        }
        for repair in &mut out {
            repair.truncate(longest);
        }
        Ok(out)
    }

    fn matrix(&self) -> Matrix {
        // Both sides take it from the number of the first symbol, so that blocks differ and nothing is sent.
        let seed = 1 + self.first % ((1 << 31) - 2);
        Matrix::new(self.sources, self.repairs, short(seed))
    }
}

/// Symbols of a block: no window is as wide, and all numbers of a matrix fit 32 bits.
const MOST: u64 = (1 << 20) - 1;

#[cfg(test)]
mod tests;
