//! Reed-Solomon: any k of the k + r symbols of a block give the block back.
//!
//! The code is systematic: source symbols go as they are, and repair symbol i is the sum of
//! [`cauchy(j, i)`](crate::gf256::cauchy) · source j. Every square part of a Cauchy matrix is regular, so `e`
//! repair symbols, whichever, replace any `e` lost sources. Coefficients depend neither on k nor on r: both
//! may be decided while the block is open, and a block may end with any number of symbols. k + r is at most
//! 256.
//!
//! [`encode`] and [`decode`] take a block at once and copy nothing; [`Encoder`] and [`Decoder`] take it
//! symbol by symbol. Blocks of more symbols are interleaved: [`parts`] says how.
//!
//! Bömer, Kalfane, Karp, Karpinski, Luby, Zuckerman: An XOR-based erasure-resilient coding scheme, 1995,
//! section 3.

mod block;
mod decoder;
mod encoder;

pub use block::{decode, encode, encode_split};
pub use decoder::Decoder;
pub use encoder::Encoder;

use core::fmt;

use crate::number::element;

/// The most symbols that a block can have, sources and repairs together.
pub const MAX_SYMBOLS: usize = 256;

/// The most bytes of a source that may lie apart from the others ([`encode_split`]).
pub const MAX_HEAD: usize = crate::gf256::MAX_HEAD;

/// Why a block is not what the code can work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Number of a source and number of a repair symbol add up to more than 254, or the number is not of this
    /// block.
    Index,
    /// A repair symbol comes twice.
    Twice,
    /// Fewer repair symbols than lost sources.
    TooFew,
    /// A buffer is shorter than what goes into it, or there is not one for each lost source.
    Buffer,
    /// A repair symbol is shorter than a source symbol in it: one of them is of another block.
    Short,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Index => "the number of a symbol is too high",
            Self::Twice => "a repair symbol was given twice",
            Self::TooFew => "more sources are lost than repair symbols are there",
            Self::Buffer => "a buffer is missing or too short",
            Self::Short => "a repair symbol is shorter than a source symbol of its block",
        })
    }
}

impl core::error::Error for Error {}

/// A part of an interleaved block: symbols `first`, `first + stride`, ..., `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPart {
    /// Its first symbol.
    pub first: usize,
    /// From one symbol to the next.
    pub stride: usize,
    /// How many they are.
    pub count: usize,
}

impl BlockPart {
    /// The numbers of its symbols.
    pub fn symbols(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |t| self.first + t * self.stride)
    }
}

/// Cuts a block of `k` symbols into the fewest parts of at most `limit` >= 1, interleaved, so that a burst of
/// losses is shared by all of them. Their sizes differ by one at most.
pub fn parts(k: usize, limit: usize) -> impl Iterator<Item = BlockPart> {
    let stride = k.div_ceil(limit.max(1));
    (0..stride).map(move |first| BlockPart { first, stride, count: (k - first).div_ceil(stride) })
}

/// Repair symbols for `k` sources at a rate of `n0` symbols in all for `k0` sources (105/100), rounded up: at
/// least one unless the rate has none.
pub fn repairs(k: usize, n0: usize, k0: usize) -> usize {
    k.saturating_mul(n0.saturating_sub(k0)).div_ceil(k0.max(1))
}

/// Those of repair symbols.
static NUMBERS: [u8; MAX_SYMBOLS] = {
    let (mut numbers, mut i) = ([0; MAX_SYMBOLS], 0);
    while i < MAX_SYMBOLS {
        numbers[i] = element(i);
        i += 1;
    }
    numbers
};

#[cfg(test)]
mod tests;
