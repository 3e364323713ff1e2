//! Tables computed by the compiler.

use super::POLYNOMIAL;
use crate::number::element;

/// Powers of x, three times in a row, so that a sum of three logarithms needs no reduction.
pub(super) const EXP: [u8; 765] = exp();
/// Logarithms to the base x. That of 0, which has none, is 0.
pub(super) const LOG: [u8; 256] = log();

/// Products of each element with 0..16 and with 0, 16, ..., 240: any product is the XOR of one of each.
pub(super) static NIBBLES: [[[u8; 16]; 2]; 256] = nibbles();

/// The product with each element as a matrix of bits, in the order of `gf2p8affineqb`: byte 7 - i has the
/// bits of the factor that bit i of the product is the parity of.
#[cfg(wide)]
pub(super) static MATRICES: [u64; 256] = matrices();

const fn exp() -> [u8; 765] {
    let mut table = [0; 765];
    let (mut power, mut i) = (1usize, 0);
    while i < 255 {
        table[i] = element(power);
        table[i + 255] = element(power);
        table[i + 510] = element(power);
        power <<= 1;
        if power > 255 {
            power ^= POLYNOMIAL as usize;
        }
        i += 1;
    }
    table
}

const fn log() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[EXP[i] as usize] = element(i);
        i += 1;
    }
    table
}

const fn nibbles() -> [[[u8; 16]; 2]; 256] {
    let mut table = [[[0; 16]; 2]; 256];
    let mut c = 0;
    while c < 256 {
        let mut i = 0;
        while i < 16 {
            table[c][0][i] = super::mul(element(c), element(i));
            table[c][1][i] = super::mul(element(c), element(i << 4));
            i += 1;
        }
        c += 1;
    }
    table
}

#[cfg(wide)]
const fn matrices() -> [u64; 256] {
    let mut table = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut bit = 0;
        while bit < 64 {
            let (i, j) = (bit / 8, bit % 8);
            let product = super::mul(element(c), 1 << j);
            table[c] |= ((product >> i & 1) as u64) << (8 * (7 - i) + j);
            bit += 1;
        }
        c += 1;
    }
    table
}
