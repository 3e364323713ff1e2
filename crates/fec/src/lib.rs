//! Erasure codes over byte slices, useful alone: the crate knows no network and depends on nothing.
//!
//! A *symbol* is a slice of bytes, a packet's worth. *Source symbols* are the data; *repair symbols* are sums
//! of them and replace those that are lost. Symbols of a block may differ in length: a shorter one counts as
//! padded with zeros.
//!
//! Without its default feature `std` the crate is `no_std` and needs an allocator. It then has the scalar
//! kernel alone: only the standard library tells which vector instructions the processor has.
//!
//! ```
//! use quickset_fec::reed_solomon;
//!
//! let sources: [&[u8]; 4] = [b"any four", b"of these", b"six will", b"do"];
//! let mut repairs = [[0; 8]; 2];
//! let [first, second] = &mut repairs;
//! reed_solomon::encode(&sources, &mut [first, second])?;
//!
//! // Two symbols are lost on the way. A repair symbol is given with its number.
//! let received = [Some(sources[0]), None, Some(sources[2]), None];
//! let mut recovered = [[0; 8]; 2];
//! let [second, fourth] = &mut recovered;
//! reed_solomon::decode(&received, &[(0, &repairs[0]), (1, &repairs[1])], &mut [second, fourth])?;
//! assert_eq!(&recovered[0], b"of these");
//! assert_eq!(&recovered[1], b"do\0\0\0\0\0\0");
//! # Ok::<_, reed_solomon::Error>(())
//! ```
//!
//! | module | code | block | repairs |
//! |---|---|---|---|
//! | [`xor`] | interleaved XOR, two-dimensional XOR | any, may grow | one loss in each interleaved part; in a grid what rows and columns recover in turns |
//! | [`reed_solomon`] | systematic Cauchy code | up to 256 symbols | any k of n |
//! | [`ldpc`] | LDPC-Staircase | large | with a few percent more than k |
//! | [`rlc`], [`online`] | random linear code over a sliding window | none: a window | as many losses as repair symbols, nearly always |
//!
//! Under them is [`gf256`]: sums of multiplied slices in the field with 256 elements, with GFNI and AVX-512,
//! GFNI and AVX2, AVX2 or SSSE3, whichever the processor has at run time, or without vectors. `unsafe` code
//! is in these kernels only.
//!
//! # Speed
//!
//! Reed-Solomon, 100 symbols of 1500 bytes, 5 repair symbols, 5 losses, on one core of a Xeon with AVX-512
//! and GFNI at 3 GHz; GB/s of source bytes, medians of `cargo xtask bench-peers fec`:
//!
//! | | encode | decode |
//! |---|---|---|
//! | this crate | 45.9 | 37.2 |
//! | ISA-L 2.30 | 8.5 | 5.2 |
//! | reed-solomon-simd 3 | 6.2 | 0.4 |
//! | reed-solomon-erasure 6, simd-accel | 5.0 | 4.8 |
//! | raptorq 2 | 1.0 | 0.4 |
//!
//! The kernels are measured by `cargo bench -p quickset-fec --bench codec`.

#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "numbers in tests are small, or cut on purpose"
    )
)]

extern crate alloc;

pub mod gf256;
pub mod ldpc;
pub mod online;
pub mod reed_solomon;
pub mod rlc;
pub mod xor;

mod equation;
mod number;
mod symbols;

pub use equation::{BadEquation, Coefficients, Equation, MAX_SID};
pub use symbols::{MissingSymbol, NotTaken, Symbols};
