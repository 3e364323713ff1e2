//! One destination of many sources, where the sources come from a far cache.

use super::{Lanes, ProductBlock, add_to, load_strip, rows};

/// One destination, and four sources at a time over a long span, so that memory is read as it lies: a window
/// of symbols does not fit the first-level cache, and in short strips it comes from the second at half the
/// speed. The sums of the span are in the first, aligned as a destination may not be. With `ONES`, all
/// coefficients are 1.
///
/// # Safety
///
/// As for `rows`, of `dst` alone.
#[inline(always)]
pub(super) unsafe fn row<L: Lanes, const ONES: bool>(block: &ProductBlock<'_, '_>, dst: &mut [u8]) {
    let fours = block.srcs.chunks_exact(FOUR);
    let done = block.srcs.len() - fours.remainder().len();
    // SAFETY: passed on from our caller; spans end at or before the longest source, and so within the
    // destination.
    unsafe {
        let mut at = 0;
        while done > 0 && at < block.longest {
            let bytes = (block.longest - at).min(SPAN * L::BYTES);
            let mut sums = [L::zero(); SPAN];
            let sums = &mut sums[..bytes.div_ceil(L::BYTES)];
            for (i, four) in fours.clone().enumerate() {
                let four: &[&[u8]; FOUR] = four.try_into().expect("it has four");
                // The last ones ask for themselves once more.
                let next = block.srcs[FOUR * (i + 1)..].first_chunk().unwrap_or(four);
                let mut coefficients = [1; FOUR];
                if !ONES {
                    coefficients.copy_from_slice(&block.coefficients[FOUR * i..][..FOUR]);
                }
                add_four::<L, ONES>(sums, at, four, coefficients, next);
            }
            for (w, sum) in sums.iter().enumerate() {
                add_to(dst.as_mut_ptr().add(at + w * L::BYTES), *sum, bytes - w * L::BYTES);
            }
            at += SPAN * L::BYTES;
        }
        let coefficients = if ONES { &[] } else { &block.coefficients[done..] };
        let rest = ProductBlock { coefficients, srcs: &block.srcs[done..], longest: block.longest };
        if !rest.srcs.is_empty() {
            rows::<L, 1, 4, ONES>(&rest, &mut [dst]);
        }
    }
}

/// Adds what four sources have from `at` on, and asks for the next four.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn add_four<L: Lanes, const ONES: bool>(
    sums: &mut [L],
    at: usize,
    srcs: &[&[u8]; FOUR],
    coefficients: [u8; FOUR],
    next: &[&[u8]; FOUR],
) {
    let shortest = srcs.iter().map(|src| src.len()).min().unwrap_or_default();
    let whole = (shortest.saturating_sub(at) / L::BYTES).min(sums.len());
    let (sums, rest) = sums.split_at_mut(whole);
    // SAFETY: whole vectors end at or before the shortest source, and `load_strip` keeps to each.
    unsafe {
        let factors = coefficients.map(|c| L::factor(L::stored(c)));
        let mut at = at;
        for sum in sums {
            for next in next {
                L::prefetch(next.as_ptr().wrapping_add(at));
            }
            let mut x = [L::zero(); FOUR];
            for (x, src) in x.iter_mut().zip(srcs) {
                *x = L::load(src.as_ptr().add(at));
            }
            *sum = plus::<L, ONES>(*sum, x, factors);
            at += L::BYTES;
        }
        for sum in rest {
            let mut x = [L::zero(); FOUR];
            for (x, src) in x.iter_mut().zip(srcs) {
                [*x] = load_strip(src, at);
            }
            *sum = plus::<L, ONES>(*sum, x, factors);
            at += L::BYTES;
        }
    }
}

/// The sum and four products.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn plus<L: Lanes, const ONES: bool>(sum: L, mut x: [L; FOUR], factors: [L::Factor; FOUR]) -> L {
    // SAFETY: passed on from our caller.
    unsafe {
        if !ONES {
            for (x, factor) in x.iter_mut().zip(factors) {
                *x = x.mul(factor);
            }
        }
        sum.xor3(x[0], x[1]).xor3(x[2], x[3])
    }
}

/// Sources that are added to one destination together: with eight it is no faster.
const FOUR: usize = 4;
/// Vectors of a span: a packet's worth of the widest.
const SPAN: usize = 24;
