//! Kernels of x86-64: one algorithm over vectors of several kinds.
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

mod avx2;
mod fours;
#[cfg(wide)]
mod gfni;
mod ssse3;
mod transform;

pub(super) use avx2::Avx2;
#[cfg(wide)]
pub(super) use gfni::{Gfni256, Gfni512, hashes};
pub(super) use ssse3::Ssse3;

use super::cauchy::{Columns, Rows};

/// A kind of machine: whether this is one, and its entry to the algorithm below.
pub(super) trait Machine {
    /// True if this machine has the instructions.
    fn detected() -> bool;

    /// See [`Block`]. At most `ROWS` destinations.
    ///
    /// # Safety
    ///
    /// [`detected`](Self::detected) has returned true.
    unsafe fn combine(block: &Block<'_, '_>, dsts: &mut [&mut [u8]]);

    /// dst += Σ src; the coefficients are not looked at.
    ///
    /// # Safety
    ///
    /// [`detected`](Self::detected) has returned true.
    unsafe fn sum(block: &Block<'_, '_>, dst: &mut [u8]);

    /// Adds a product with rows of a Cauchy matrix, of one group or of two.
    ///
    /// # Safety
    ///
    /// [`detected`](Self::detected) has returned true.
    unsafe fn cauchy(columns: Columns<'_>, rows: &mut [Rows<'_>]);

    /// Destinations that one pass over the sources serves.
    const ROWS: usize;
}

/// What is added to some destinations: row r of the coefficients, times all sources, to destination r.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, 'b> {
    coefficients: &'a [u8],
    srcs: &'a [&'b [u8]],
    longest: usize,
}

/// Each dst += Σ c · src, by rows of `coefficients`.
///
/// # Safety
///
/// `M::detected()` has returned true.
pub(super) unsafe fn combine<M: Machine>(dsts: &mut [&mut [u8]], coefficients: &[u8], srcs: &[&[u8]]) {
    let longest = srcs.iter().map(|s| s.len()).max().unwrap_or_default();
    // Of equal size: seven rows are four and three, since a group of one costs nearly as much as one of four.
    let groups = dsts.len().div_ceil(M::ROWS).max(1);
    let rows = dsts.len().div_ceil(groups).max(1);
    for (dsts, coefficients) in dsts.chunks_mut(rows).zip(coefficients.chunks(rows * srcs.len().max(1))) {
        let block = Block { coefficients, srcs, longest };
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
pub(super) unsafe fn cauchy<M: Machine>(columns: Columns<'_>, rows: &mut [Rows<'_>]) {
    for rows in rows.chunks_mut(2) {
        // SAFETY: passed on from our caller.
        unsafe { M::cauchy(columns, rows) };
    }
}

/// dst += Σ src.
///
/// # Safety
///
/// `M::detected()` has returned true.
pub(super) unsafe fn sum<M: Machine>(dst: &mut [u8], srcs: &[&[u8]]) {
    let longest = srcs.iter().map(|s| s.len()).max().unwrap_or_default();
    assert!(dst.len() >= longest);
    // SAFETY: passed on from our caller.
    unsafe { M::sum(&Block { coefficients: &[], srcs, longest }, dst) };
}

impl Block<'_, '_> {
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
    /// Asks for the cache line of a byte that is soon to be read, which need not exist. Only where a strip is a line.
    #[inline(always)]
    unsafe fn prefetch(_from: *const u8) {}
    unsafe fn store(self, to: *mut u8);
    /// The first `len` < `BYTES` bytes, then zeros.
    unsafe fn load_part(from: *const u8, len: usize) -> Self;
    /// Only the first `len` < `BYTES` bytes.
    unsafe fn store_part(self, to: *mut u8, len: usize);
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn xor3(self, b: Self, c: Self) -> Self;
    fn stored(c: u8) -> Self::Stored;
    unsafe fn factor(c: Self::Stored) -> Self::Factor;
    unsafe fn mul(self, factor: Self::Factor) -> Self;
}

/// `R` = `dsts.len()` destinations, in strips of `W` <= 4 vectors. With `ONES`, all coefficients are 1.
///
/// # Safety
///
/// The machine has what `L` is made for; `block.check(dsts)` holds, its coefficients apart if `ONES`.
#[inline(always)]
unsafe fn rows<L: Lanes, const R: usize, const W: usize, const ONES: bool>(
    block: &Block<'_, '_>,
    dsts: &mut [&mut [u8]],
) {
    let mut to = [std::ptr::null_mut(); R];
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
    block: &Block<'_, '_>,
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
                let to = to.add(at + w * L::BYTES);
                let left = bytes - w * L::BYTES;
                if left >= L::BYTES {
                    L::load(to).xor(sum).store(to);
                } else {
                    L::load_part(to, left).xor(sum).store_part(to, left);
                }
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
