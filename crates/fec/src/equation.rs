//! Repair symbols as linear equations.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::gf256::{self, Kernel};
use crate::number::{self, element};
use crate::rlc;

/// What a repair symbol is the sum of: symbols of a session, by number, each times a coefficient.
///
/// XOR, two-dimensional XOR, Reed-Solomon and sliding-window codes differ only in this: which symbols, which
/// coefficients. So [`Symbols::combine`](crate::Symbols::combine) encodes and
/// [`online::Decoder`](crate::online::Decoder) decodes them all. Made by a constructor of the code, which
/// checks the numbers: they may come from a peer.
///
/// ```
/// use quickset_fec::Equation;
///
/// let column = Equation::xor2d(100, 10, 4, 1)?; // rows of 4 symbols from 100 on; the second column
/// assert_eq!((0..column.terms()).map(|t| column.sid(t)).collect::<Vec<_>>(), [101, 105, 109]);
/// # Ok::<(), quickset_fec::BadEquation>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Equation {
    first: u64,
    terms: u64,
    stride: u64,
    coefficients: Coefficients,
}

/// By what each symbol is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coefficients {
    /// By 1.
    Ones,
    /// Term t by 1 / (t xor (255 - index)), an element of a Cauchy matrix.
    Cauchy {
        /// Which repair symbol of the block.
        index: u8,
    },
    /// By [`rlc::coefficient`] of the seed and the number of the symbol.
    Rlc {
        /// What tells this repair symbol from others over the same symbols.
        seed: u64,
    },
}

/// Numbers from which no equation can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadEquation {
    /// No symbol belongs to it, or the depth, the columns or the stride are 0.
    Empty,
    /// Its last symbol is beyond [`MAX_SID`].
    Range,
    /// The code has no repair symbol of this index.
    Index,
}

/// The largest number that a symbol can have.
pub const MAX_SID: u64 = i64::MAX as u64;

impl Equation {
    /// Interleaved parity: the sum of those among `count` symbols from `first` whose position modulo `depth`
    /// is `index`.
    pub fn xor(first: u64, count: u64, depth: u64, index: u64) -> Result<Self, BadEquation> {
        if index >= depth {
            return Err(if depth == 0 { BadEquation::Empty } else { BadEquation::Index });
        }
        let terms = count.saturating_sub(index).div_ceil(depth);
        Self::new(first.saturating_add(index), terms, depth, Coefficients::Ones)
    }

    /// Two-dimensional parity over `count` symbols from `first`, laid out in rows of `columns`: column
    /// `index`, or for an index of `columns` and more row `index - columns`.
    pub fn xor2d(first: u64, count: u64, columns: u64, index: u64) -> Result<Self, BadEquation> {
        if index < columns {
            return Self::xor(first, count, columns, index);
        }
        if columns == 0 {
            return Err(BadEquation::Empty);
        }
        let above = (index - columns).checked_mul(columns).ok_or(BadEquation::Index)?;
        let left = count.checked_sub(above).filter(|left| *left > 0).ok_or(BadEquation::Index)?;
        Self::new(first.saturating_add(above), left.min(columns), 1, Coefficients::Ones)
    }

    /// Repair symbol `index` of a Reed-Solomon code over `count` symbols from `first`, each `stride` above
    /// the one before. There are 256 - `count` such repair symbols.
    pub fn reed_solomon(first: u64, count: u64, stride: u64, index: u64) -> Result<Self, BadEquation> {
        // Every term must be below 255 - index, else it has no coefficient; all numbers fit a byte then.
        match count.checked_add(index) {
            Some(0..=255) => {
                Self::new(first, count, stride, Coefficients::Cauchy { index: element(number::index(index)) })
            }
            _ => Err(BadEquation::Index),
        }
    }

    /// A random sum of `count` symbols from `first`.
    pub fn rlc(first: u64, count: u64, seed: u64) -> Result<Self, BadEquation> {
        Self::new(first, count, 1, Coefficients::Rlc { seed })
    }

    fn new(first: u64, terms: u64, stride: u64, coefficients: Coefficients) -> Result<Self, BadEquation> {
        if terms == 0 || stride == 0 {
            return Err(BadEquation::Empty);
        }
        let last = (terms - 1).checked_mul(stride).and_then(|distance| first.checked_add(distance));
        match last {
            // Where there is one term, the stride says nothing, and may be any number.
            Some(0..=MAX_SID) if terms == 1 => Ok(Self { first, terms, stride: 1, coefficients }),
            Some(0..=MAX_SID) => Ok(Self { first, terms, stride, coefficients }),
            _ => Err(BadEquation::Range),
        }
    }

    /// The number of its first symbol.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// The number of its last symbol.
    pub const fn last(&self) -> u64 {
        self.sid(self.terms - 1)
    }

    /// How many symbols it has, at least 1.
    pub const fn terms(&self) -> u64 {
        self.terms
    }

    /// By how much the number of each symbol is above that of the one before.
    pub const fn stride(&self) -> u64 {
        self.stride
    }

    /// What its symbols are multiplied by.
    pub const fn coefficients(&self) -> Coefficients {
        self.coefficients
    }

    /// The number of symbol `term`, which is below [`terms`](Self::terms).
    pub const fn sid(&self, term: u64) -> u64 {
        self.first + term * self.stride
    }

    /// Which term symbol `sid` is.
    pub fn term(&self, sid: u64) -> Option<u64> {
        let distance = sid.checked_sub(self.first)?;
        // A division takes as long as all the rest, and most codes have a stride of 1.
        let (term, rest) =
            if self.stride == 1 { (distance, 0) } else { (distance / self.stride, distance % self.stride) };
        (rest == 0 && term < self.terms).then_some(term)
    }

    /// By what symbol `term` is multiplied. No term of these codes has 0.
    pub fn coefficient(&self, term: u64) -> u8 {
        match self.coefficients {
            Coefficients::Ones => 1,
            Coefficients::Cauchy { index } => gf256::cauchy(element(number::index(term)), index)
                .expect("term < count <= 255 - index, as the constructor checked"),
            Coefficients::Rlc { seed } => rlc::coefficient(seed, self.sid(term)),
        }
    }
}

impl Equation {
    /// Appends what the symbols of some terms in a row are multiplied by.
    pub(crate) fn extend(&self, terms: Range<u64>, out: &mut Vec<u8>) {
        match self.coefficients {
            // Its stride is 1.
            Coefficients::Rlc { seed } if !terms.is_empty() => {
                let end = out.len();
                out.resize(end + number::index(terms.end - terms.start), 0);
                Kernel::best().hashes(seed, self.sid(terms.start), &mut out[end..]);
            }
            _ => out.extend(terms.map(|term| self.coefficient(term))),
        }
    }
}

impl fmt::Display for BadEquation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a repair symbol of no symbols",
            Self::Range => "a repair symbol of symbols beyond the last number",
            Self::Index => "a repair symbol that its code does not have",
        })
    }
}

impl core::error::Error for BadEquation {}

#[cfg(test)]
mod tests {
    use super::*;

    fn sids(equation: &Equation) -> Vec<u64> {
        (0..equation.terms()).map(|term| equation.sid(term)).collect()
    }

    #[test]
    fn interleaved_parity_takes_every_depth_th_symbol() {
        assert_eq!(sids(&Equation::xor(10, 7, 3, 0).unwrap()), [10, 13, 16]);
        assert_eq!(sids(&Equation::xor(10, 7, 3, 1).unwrap()), [11, 14]);
        assert_eq!(Equation::xor(10, 7, 3, 3), Err(BadEquation::Index));
        assert_eq!(Equation::xor(10, 2, 3, 2), Err(BadEquation::Empty));
        assert_eq!(Equation::xor(10, 0, 3, 0), Err(BadEquation::Empty));
        assert_eq!(Equation::xor(10, 7, 0, 0), Err(BadEquation::Empty));
    }

    #[test]
    fn two_dimensional_parity_has_columns_then_rows() {
        assert_eq!(sids(&Equation::xor2d(0, 10, 4, 3).unwrap()), [3, 7]);
        assert_eq!(sids(&Equation::xor2d(0, 10, 4, 4).unwrap()), [0, 1, 2, 3]);
        assert_eq!(sids(&Equation::xor2d(0, 10, 4, 6).unwrap()), [8, 9]);
        assert_eq!(Equation::xor2d(0, 10, 4, 7), Err(BadEquation::Index));
        assert_eq!(Equation::xor2d(0, 10, 0, 0), Err(BadEquation::Empty));
        assert_eq!(Equation::xor2d(0, 10, 4, u64::MAX), Err(BadEquation::Index));
    }

    #[test]
    fn reed_solomon_has_the_coefficients_of_the_specification() {
        let equation = Equation::reed_solomon(5, 4, 3, 0).unwrap();
        assert_eq!(sids(&equation), [5, 8, 11, 14]);
        let row: Vec<_> = (0..4).map(|term| equation.coefficient(term)).collect();
        assert_eq!(row, [0xfd, 0x7e, 0xff, 0x7f]);
    }

    #[test]
    fn reed_solomon_has_256_symbols_in_all() {
        // The wire's rule is k + i <= 255; the term and 255 - i never meet then.
        assert!(Equation::reed_solomon(0, 255, 1, 0).is_ok());
        assert!(Equation::reed_solomon(0, 1, 1, 254).is_ok());
        for (count, index) in [(255, 0), (1, 254), (128, 127)] {
            let equation = Equation::reed_solomon(0, count, 1, index).unwrap();
            assert!((0..count).all(|term| equation.coefficient(term) != 0));
        }
        assert_eq!(Equation::reed_solomon(0, 256, 1, 0), Err(BadEquation::Index));
        assert_eq!(Equation::reed_solomon(0, 1, 1, 255), Err(BadEquation::Index));
        assert_eq!(Equation::reed_solomon(0, 2, 1, u64::MAX), Err(BadEquation::Index));
        assert_eq!(Equation::reed_solomon(0, 2, 0, 0), Err(BadEquation::Empty));
    }

    #[test]
    fn no_number_overflows() {
        assert_eq!(Equation::rlc(u64::MAX, 2, 0), Err(BadEquation::Range));
        assert_eq!(Equation::rlc(0, u64::MAX, 0), Err(BadEquation::Range));
        assert_eq!(Equation::rlc(MAX_SID, 2, 0), Err(BadEquation::Range));
        assert!(Equation::rlc(MAX_SID, 1, u64::MAX).is_ok());
        assert_eq!(Equation::reed_solomon(0, 3, u64::MAX / 2, 0), Err(BadEquation::Range));
        assert_eq!(Equation::xor(u64::MAX, u64::MAX, u64::MAX, u64::MAX - 1), Err(BadEquation::Range));
    }

    #[test]
    fn terms_and_numbers_are_inverse() {
        let equation = Equation::xor(10, 20, 3, 1).unwrap();
        for sid in 0..50 {
            assert_eq!(
                equation.term(sid).map(|term| equation.sid(term)),
                (sid > 10 && sid < 30 && sid % 3 == 2).then_some(sid)
            );
        }
    }
}
