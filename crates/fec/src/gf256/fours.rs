//! The transform of `gf256::cauchy` for four rows and one: of four sources at a time, with nine
//! multiplications, where the plain sum takes twenty. Four rows alone take eight.
//!
//! As there, but with sources 4q + t, t < 4, of which P is the polynomial of degree below 4, and four rows
//! that differ in their low two bits only, for all of which the weight is the same. A fifth row of another
//! four has a weight of its own. Points are counted from its y: at 0 a polynomial is its constant
//! coefficient, which is there already. So for each four sources the weighted coefficients are added up, and
//! the first a second time with the other weight.

use super::cauchy::{Columns, POINTS, normed, vanishing};
use super::{inv, mul};
use crate::number::element;

/// Sources, or rows, of a four.
pub(super) const FOUR: usize = 4;
/// Fours of all points.
pub(super) const FOURS: usize = 256 / FOUR;

/// Which rows they are, all of one group of eight.
#[derive(Clone, Copy)]
pub(super) struct Fours {
    /// The four that all rows but one are in: y / 4.
    four: usize,
    /// The y of the one that is not.
    apart: Option<u8>,
}

/// Multipliers for four sources.
pub(super) struct Factors {
    /// Of the two pairs.
    pub(super) near: [u8; 2],
    pub(super) middle: u8,
    pub(super) weight: u8,
    /// `middle` · `weight`.
    pub(super) both: u8,
    /// The weight of the row apart.
    pub(super) apart: u8,
}

impl Fours {
    /// Of the rows with these low bits of their y in a group of eight, if the method is for them and has a
    /// weight for all sources, and faster than any other.
    pub(super) fn new(group: usize, seen: u8, columns: &Columns<'_>) -> Option<Self> {
        let (lower, upper) = (seen & 15, seen >> FOUR);
        let is_upper = upper.count_ones() > lower.count_ones();
        let rest = if is_upper { lower } else { upper };
        let sources = columns.sources().len();
        let end = (columns.group() * POINTS + sources).div_ceil(FOUR);
        let fits = rest.count_ones() < 2 && end <= group * POINTS / FOUR;
        (fits && is_worth(seen.count_ones() as usize, sources)).then(|| {
            let base = element(group * POINTS);
            let (four, other) = if is_upper { (base + 4, base) } else { (base, base + 4) };
            let apart = (rest != 0).then(|| other + element(rest.trailing_zeros() as usize));
            Self { four: usize::from(four) / FOUR, apart }
        })
    }

    /// The first place of the four in its group of eight.
    pub(super) fn first(self) -> usize {
        self.four * FOUR % POINTS
    }

    /// Whether there is a row apart.
    pub(super) fn has_apart(self) -> bool {
        self.apart.is_some()
    }

    /// For sources 4q, 4q + 1, ...
    #[inline]
    pub(super) fn factors(self, q: usize) -> Factors {
        let at = element(q * FOUR) ^ self.apart.unwrap_or_default();
        let middle = MIDDLES[usize::from(at)];
        let weight = WEIGHTS[(q ^ self.four) % FOURS];
        let apart = self.apart.map_or(0, |y| WEIGHTS[(q ^ usize::from(y / 4)) % FOURS]);
        Factors { near: [at, at ^ 2], middle, weight, both: mul(weight, middle), apart }
    }

    /// Multipliers that turn coefficients into values at the rows: of the two pairs, and the middle one.
    pub(super) fn points(self) -> ([u8; 2], u8) {
        let at = element(self.four * FOUR) ^ self.apart.unwrap_or_default();
        ([at, at ^ 2], MIDDLES[usize::from(at)])
    }
}

/// Whether it is faster for so many rows than the plain sum, and than the transform of eight: as measured
/// with AVX-512.
fn is_worth(rows: usize, sources: usize) -> bool {
    rows >= 3 && sources >= 4
}

/// x(x + 1) / 6.
static MIDDLES: [u8; 256] = middles();

/// By the difference of the fours of the row and of the sources; that of 0, which has none, is 0.
static WEIGHTS: [u8; FOURS] = weights();

const fn middles() -> [u8; 256] {
    let mut table = [0; 256];
    let mut z = 0;
    while z < 256 {
        table[z] = normed(2, element(z));
        z += 1;
    }
    table
}

const fn weights() -> [u8; FOURS] {
    let mut table = [0; FOURS];
    let mut i = 1;
    while i < FOURS {
        if let Some(inverse) = inv(vanishing(4, element(i * FOUR))) {
            // The derivative of the product of all z + t is that of t over 0 < t < 4.
            table[i] = mul(mul(2, 3), inverse);
        }
        i += 1;
    }
    table
}
