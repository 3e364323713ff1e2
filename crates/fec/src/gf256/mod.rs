//! The field with 256 elements, and sums of multiplied byte slices in it.
//!
//! Addition is XOR; multiplication is that of polynomials over one bit modulo x⁸ + x⁴ + x³ + x² + 1 (0x11d),
//! in which x generates all elements but 0. A symbol is a slice of elements; a [`Kernel`] multiplies and adds
//! symbols with the widest vectors of the machine:
//!
//! | call | computes | for |
//! |---|---|---|
//! | [`Kernel::mul_add`] | one dst += c · src | a step of elimination |
//! | [`Kernel::gather`] | one dst += Σ c · src | a repair symbol |
//! | [`Kernel::scatter`] | several dst += c · one src | a symbol that arrives, into open repairs |
//! | [`Kernel::combine`] | several dst += Σ c · src | a block encoded or decoded at once |
//! | [`Kernel::sum`] | one dst += Σ src | XOR codes |
//! | [`Kernel::scale`] | one dst *= c | a pivot made 1 |
//!
//! The first four are `combine` for special numbers, and so one algorithm: it takes a strip of the
//! destinations into registers, streams all sources past it and writes it back, so that destinations are read
//! and written once.
//!
//! ```
//! use quickset_fec::gf256::{self, Kernel};
//!
//! let mut sum = [0; 5];
//! Kernel::best().gather(&mut sum, &[2, 1], &[b"abcde", b"xyz"]); // b"xyz" is padded with zeros
//! assert_eq!(sum[0], gf256::mul(2, b'a') ^ b'x');
//! assert_eq!(sum[4], gf256::mul(2, b'e'));
//! ```

#![cfg_attr(
    not(vectors),
    expect(
        dead_code,
        unused_variables,
        reason = "what kernels with vectors are told, the scalar one does without"
    )
)]

mod cauchy;
mod fours;
mod kernel;
mod scalar;
#[cfg(vectors)]
mod simd;
mod tables;

pub(crate) use cauchy::{Base, Columns, Heads, MAX_HEAD, POINTS, inverse};
pub use kernel::Kernel;

use tables::{EXP, LOG};

/// The field polynomial, x⁸ + x⁴ + x³ + x² + 1.
pub const POLYNOMIAL: u16 = 0x11d;

/// The product of two elements.
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// The element that multiplies with `a` to 1; 0 has none.
pub const fn inv(a: u8) -> Option<u8> {
    if a == 0 { None } else { Some(EXP[255 - LOG[a as usize] as usize]) }
}

/// Element of a Cauchy matrix: the coefficient of source symbol `term` in Reed-Solomon repair symbol `index`,
/// 1 / (term xor (255 - index)). `None` where the two meet, at `term` + `index` = 255 and beyond, where no
/// code is.
pub const fn cauchy(term: u8, index: u8) -> Option<u8> {
    if term as u16 + index as u16 >= 255 { None } else { inv(term ^ (255 - index)) }
}

#[cfg(test)]
mod tests;
