//! Kernels with vectors: one algorithm over vectors of several kinds.
//!
//! A strip is `W` vectors wide. `R` destinations of it, `R`·`W` vectors, are sums in registers; each source
//! passes by once, is multiplied `R` times and added. Sources that end within the strip are padded with zeros
//! as they are loaded. What differs between machines is [`Lanes`], and the `R` and `W` that its registers
//! allow.

#![expect(unsafe_code, reason = "intrinsics of vector instructions, and loads through pointers")]
#![expect(
    clippy::inline_always,
    reason = "an intrinsic must end up in a function that has its instructions enabled"
)]

#[cfg(x86)]
mod avx2;
#[cfg(x86)]
mod cache;
mod fours;
#[cfg(wide)]
mod gfni;
#[cfg(neon)]
mod neon;
#[cfg(wide)]
mod row;
#[cfg(simd128)]
mod simd128;
#[cfg(x86)]
mod ssse3;
mod transform;

#[cfg(x86)]
pub(super) use avx2::Avx2;
#[cfg(wide)]
pub(super) use gfni::{Gfni256, Gfni512, hashes};
#[cfg(neon)]
pub(super) use neon::Neon;
#[cfg(simd128)]
pub(super) use simd128::Simd128;
#[cfg(x86)]
pub(super) use ssse3::Ssse3;

#[cfg(x86)]
use cache::first_level;

use super::cauchy::{Columns, GroupRows};

/// Bytes of the first-level data cache of one core, of which nothing but x86-64 tells a program: what most
/// machines have at least.
#[cfg(not(x86))]
fn first_level() -> usize {
    32 << 10
}

/// A kind of machine: whether this is one, and its entry to the algorithm below.
pub(super) trait Processor {
    /// True if this machine has the instructions.
    fn detected() -> bool;

    /// See [`ProductBlock`]. At most `ROWS` destinations.
    ///
    /// # Safety
    ///
    /// [`detected`](Self::detected) has returned true.
    unsafe fn combine(block: &ProductBlock<'_, '_>, dsts: &mut [&mut [u8]]);

    /// dst += Σ src; the coefficients are not looked at.
    ///
    /// # Safety
    ///
    /// [`detected`](Self::detected) has returned true.
    unsafe fn sum(block: &ProductBlock<'_, '_>, dst: &mut [u8]);

    /// Adds a product with rows of a Cauchy matrix, of one group or of two.
    ///
    /// # Safety
    ///
    /// [`detected`](Self::detected) has returned true.
    unsafe fn cauchy(columns: Columns<'_>, rows: &mut [GroupRows<'_>]);

    /// Destinations that one pass over the sources serves.
    const ROWS: usize;
}

/// What is added to some destinations: row r of the coefficients, times all sources, to destination r.
#[derive(Clone, Copy)]
pub(super) struct ProductBlock<'a, 'b> {
    coefficients: &'a [u8],
    srcs: &'a [&'b [u8]],
    longest: usize,
}

/// Each dst += Σ c · src, by rows of `coefficients`.
///
/// # Safety
///
/// `M::detected()` has returned true, and no source is longer than `longest`.
pub(super) unsafe fn combine<M: Processor>(
    dsts: &mut [&mut [u8]],
    coefficients: &[u8],
    srcs: &[&[u8]],
    longest: usize,
) {
    // Of equal size: seven rows are four and three, since a group of one costs nearly as much as one of four.
    let groups = dsts.len().div_ceil(M::ROWS).max(1);
    let rows = dsts.len().div_ceil(groups).max(1);
    for (dsts, coefficients) in dsts.chunks_mut(rows).zip(coefficients.chunks(rows * srcs.len().max(1))) {
        let block = ProductBlock { coefficients, srcs, longest };
        block.check(dsts);
        // SAFETY: passed on from our caller.
        unsafe { M::combine(&block, dsts) };
    }
}

/// Adds a product with rows of a Cauchy matrix.
///
/// # Safety
///
/// `M::detected()` has returned true.
pub(super) unsafe fn cauchy<M: Processor>(columns: Columns<'_>, rows: &mut [GroupRows<'_>]) {
    for rows in rows.chunks_mut(2) {
        // SAFETY: passed on from our caller.
        unsafe { M::cauchy(columns, rows) };
    }
}

/// dst += Σ src.
///
/// # Safety
///
/// `M::detected()` has returned true, and no source is longer than `longest`.
pub(super) unsafe fn sum<M: Processor>(dst: &mut [u8], srcs: &[&[u8]], longest: usize) {
    assert!(dst.len() >= longest);
    // SAFETY: passed on from our caller.
    unsafe { M::sum(&ProductBlock { coefficients: &[], srcs, longest }, dst) };
}

impl ProductBlock<'_, '_> {
    /// What `strip` relies on.
    fn check(&self, dsts: &[&mut [u8]]) {
        assert!(dsts.iter().all(|d| d.len() >= self.longest));
        assert!(self.coefficients.len() >= dsts.len() * self.srcs.len());
    }
}

/// A vector of elements. All functions are inlined into one that has the instructions enabled.
///
/// # Safety
///
/// Each function needs the machine that the type is made for. Loads and stores need as many readable or
/// writable bytes as they move.
trait Lanes: Copy {
    /// A multiplier, in the form that [`mul`](Self::mul) takes.
    type Factor: Copy;
    /// The same in memory.
    type Stored: Copy;

    /// Length in bytes.
    const BYTES: usize;
    /// Whether there are registers for eight sums, eight sources and a few products.
    const FITS_PAIRS: bool = false;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    /// Asks for the cache line of a byte that is soon to be read, which need not exist. Only where a strip is
    /// a line.
    #[inline(always)]
    unsafe fn prefetch(_from: *const u8) {}
    unsafe fn store(self, to: *mut u8);
    /// The first `len` < `BYTES` bytes, then zeros.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, len: usize) -> Self {
        let mut bytes = [0_u8; WIDEST];
        // SAFETY: passed on from our caller; no vector has more bytes than there are here.
        unsafe {
            core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len);
            Self::load(bytes.as_ptr())
        }
    }
    /// Only the first `len` < `BYTES` bytes.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, len: usize) {
        let mut bytes = [0_u8; WIDEST];
        // SAFETY: as above.
        unsafe {
            self.store(bytes.as_mut_ptr());
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len);
        }
    }
    unsafe fn xor(self, other: Self) -> Self;
    #[inline(always)]
    unsafe fn xor3(self, b: Self, c: Self) -> Self {
        // SAFETY: passed on from our caller.
        unsafe { self.xor(b).xor(c) }
    }
    fn stored(c: u8) -> Self::Stored;
    unsafe fn factor(c: Self::Stored) -> Self::Factor;
    unsafe fn mul(self, factor: Self::Factor) -> Self;
}

/// Adds a vector, or its first `left` bytes if that is less.
///
/// # Safety
///
/// The machine has what `L` is made for; there are as many bytes at `to`.
#[inline(always)]
unsafe fn add_to<L: Lanes>(to: *mut u8, sum: L, left: usize) {
    // SAFETY: passed on from our caller.
    unsafe {
        if left >= L::BYTES {
            L::load(to).xor(sum).store(to);
        } else {
            L::load_part(to, left).xor(sum).store_part(to, left);
        }
    }
}

/// `R` = `dsts.len()` destinations, in strips of `W` <= 4 vectors. With `ONES`, all coefficients are 1.
///
/// # Safety
///
/// The machine has what `L` is made for; `block.check(dsts)` holds, its coefficients apart if `ONES`.
#[inline(always)]
unsafe fn rows<L: Lanes, const R: usize, const W: usize, const ONES: bool>(
    block: &ProductBlock<'_, '_>,
    dsts: &mut [&mut [u8]],
) {
    let mut to = [core::ptr::null_mut(); R];
    to.iter_mut().zip(dsts).for_each(|(to, dst)| *to = dst.as_mut_ptr());
    let mut at = 0;
    // SAFETY: each strip ends at or before the longest source, so within all destinations.
    unsafe {
        while at + W * L::BYTES <= block.longest {
            strip::<L, R, W, ONES>(block, to, at, W * L::BYTES);
            at += W * L::BYTES;
        }
        let rest = block.longest - at;
        match rest.div_ceil(L::BYTES) {
            0 => {}
            1 => strip::<L, R, 1, ONES>(block, to, at, rest),
            2 => strip::<L, R, 2, ONES>(block, to, at, rest),
            3 => strip::<L, R, 3, ONES>(block, to, at, rest),
            _ => strip::<L, R, 4, ONES>(block, to, at, rest),
        }
    }
}

/// Bytes `at..at + bytes` of the destinations; `bytes` fills `W` vectors but part of the last.
///
/// # Safety
///
/// As for `rows`; `at + bytes` <= `block.longest`.
#[inline(always)]
unsafe fn strip<L: Lanes, const R: usize, const W: usize, const ONES: bool>(
    block: &ProductBlock<'_, '_>,
    to: [*mut u8; R],
    at: usize,
    bytes: usize,
) {
    let count = block.srcs.len();
    // SAFETY: rows and columns of the matrix are below R and `count`, whose product it has; `load_strip`
    // keeps to the source. The destinations hold `at + bytes`.
    unsafe {
        let mut sums = [[L::zero(); W]; R];
        let mut j = 0;
        while j + 1 < count {
            let a: [L; W] = load_strip(block.srcs.get_unchecked(j), at);
            let b: [L; W] = load_strip(block.srcs.get_unchecked(j + 1), at);
            if R > 3 {
                // Those that are used next, which may be in a far cache: the products leave the time to ask.
                let next = (j + AHEAD).min(count - 2);
                for from in block.srcs.get_unchecked(next..next + 2) {
                    (0..W).for_each(|w| L::prefetch(from.as_ptr().wrapping_add(at + w * L::BYTES)));
                }
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                if ONES {
                    for w in 0..W {
                        sums[w] = sums[w].xor3(a[w], b[w]);
                    }
                    continue;
                }
                let row = block.coefficients.as_ptr().add(r * count + j);
                let (fa, fb) = (L::factor(L::stored(*row)), L::factor(L::stored(*row.add(1))));
                for w in 0..W {
                    sums[w] = sums[w].xor3(a[w].mul(fa), b[w].mul(fb));
                }
            }
            j += 2;
        }
        if j < count {
            let a: [L; W] = load_strip(block.srcs.get_unchecked(j), at);
            for (r, sums) in sums.iter_mut().enumerate() {
                let c = if ONES { 1 } else { *block.coefficients.as_ptr().add(r * count + j) };
                let factor = L::factor(L::stored(c));
                for w in 0..W {
                    sums[w] = sums[w].xor(if ONES { a[w] } else { a[w].mul(factor) });
                }
            }
        }
        for (sums, to) in sums.into_iter().zip(to) {
            for (w, sum) in sums.into_iter().enumerate() {
                add_to(to.add(at + w * L::BYTES), sum, bytes - w * L::BYTES);
            }
        }
    }
}

/// `W` vectors of a source from `at` on, zeros behind its end.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn load_strip<L: Lanes, const W: usize>(src: &[u8], at: usize) -> [L; W] {
    // SAFETY: what is loaded lies below the source's length.
    unsafe {
        let mut vectors = [L::zero(); W];
        if src.len() >= at + W * L::BYTES {
            for (w, vector) in vectors.iter_mut().enumerate() {
                *vector = L::load(src.as_ptr().add(at + w * L::BYTES));
            }
            return vectors;
        }
        for (w, vector) in vectors.iter_mut().enumerate() {
            let start = at + w * L::BYTES;
            let left = src.len().saturating_sub(start);
            if left >= L::BYTES {
                *vector = L::load(src.as_ptr().add(start));
            } else if left > 0 {
                *vector = L::load_part(src.as_ptr().add(start), left);
            }
        }
        vectors
    }
}

/// How many sources ahead is asked for: 300 cycles with six rows.
const AHEAD: usize = 16;
/// Bytes of the widest vector.
const WIDEST: usize = 64;
