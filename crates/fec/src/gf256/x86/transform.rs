//! Rows of a Cauchy matrix times sources, by the transform that `gf256::cauchy` explains.

use std::mem::MaybeUninit;

use super::super::cauchy::{GROUPS, POINTS, Rows, TWIDDLES, Twiddles, WEIGHTS};
use super::{Lanes, load_strip};

/// Adds to all destinations of `rows`, whose number is `G`.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
pub(super) unsafe fn transform<L: Lanes, const G: usize>(sources: &[[&[u8]; POINTS]], rows: &mut [Rows<'_>]) {
    let rows: &mut [Rows<'_>; G] = rows.try_into().expect("as many as the caller has counted");
    let (mut shortest, mut longest) = (usize::MAX, 0);
    for source in sources.as_flattened() {
        shortest = shortest.min(source.len());
        longest = longest.max(source.len());
    }
    let mut sums = rows.iter().flat_map(|r| r.sums.iter().flatten());
    assert!(sums.all(|s| s.len() >= longest));
    let mut eights = [const { MaybeUninit::uninit() }; GROUPS];
    assert!(sources.len() <= eights.len());
    for (q, sources) in sources.iter().enumerate() {
        let Twiddles { near, middle, .. } = &TWIDDLES[q];
        let weights = std::array::from_fn(|g| WEIGHTS[rows[g].group][q].map(L::stored));
        let (near, middle) = (near.map(L::stored), middle.map(L::stored));
        eights[q].write(Eight::<L, G> { sources, near, middle, weights });
    }
    // SAFETY: strips end at or before the shortest source, and the longest and so the destinations. As many
    // eights are written as there are.
    unsafe {
        let eights = &*(std::ptr::from_ref(&eights[..sources.len()]) as *const [Eight<'_, '_, L, G>]);
        let mut at = 0;
        while at + L::BYTES <= shortest {
            strip::<L, G, true>(eights, rows, at, L::BYTES);
            at += L::BYTES;
        }
        while at < longest {
            strip::<L, G, false>(eights, rows, at, L::BYTES.min(longest - at));
            at += L::BYTES;
        }
    }
}

/// Eight sources and their multipliers, looked up once and not in each strip, which would cost a seventh of
/// the time.
struct Eight<'a, 'b, L: Lanes, const G: usize> {
    sources: &'a [&'b [u8]; POINTS],
    near: [L::Stored; 4],
    middle: [L::Stored; 2],
    weights: [[L::Stored; 2]; G],
}

/// Bytes `at..at + bytes`, at most one vector.
///
/// # Safety
///
/// The machine has what `L` is made for; with `FULL`, all sources hold a vector at `at`; all destinations
/// hold `at + bytes`.
#[inline(always)]
unsafe fn strip<L: Lanes, const G: usize, const FULL: bool>(
    eights: &[Eight<'_, '_, L, G>],
    rows: &mut [Rows<'_>; G],
    at: usize,
    bytes: usize,
) {
    // SAFETY: passed on from our caller.
    unsafe {
        let mut sums = [[L::zero(); POINTS]; G];
        for eight in eights {
            let mut x = [L::zero(); POINTS];
            for (x, source) in x.iter_mut().zip(eight.sources) {
                *x = if FULL {
                    L::load(source.as_ptr().add(at))
                } else {
                    let [part] = load_strip(source, at);
                    part
                };
            }
            let x = interpolate(x, &eight.near, &eight.middle);
            for (sums, [weight, both]) in sums.iter_mut().zip(&eight.weights) {
                let (weight, both) = (L::factor(*weight), L::factor(*both));
                // The last layer: B = u + w goes to the upper half, u + far · B to the lower.
                for e in 0..4 {
                    let upper = x[e].xor(x[e + 4]);
                    sums[e] = sums[e].xor3(x[e].mul(weight), upper.mul(both));
                    sums[e + 4] = sums[e + 4].xor(upper.mul(weight));
                }
            }
        }
        for (sums, rows) in sums.into_iter().zip(rows) {
            let values = evaluate(sums, &TWIDDLES[rows.group % TWIDDLES.len()]);
            for (value, sum) in values.into_iter().zip(&mut rows.sums) {
                let Some(sum) = sum else { continue };
                let to = sum.as_mut_ptr().add(at);
                if bytes == L::BYTES {
                    L::load(to).xor(value).store(to);
                } else {
                    L::load_part(to, bytes).xor(value).store_part(to, bytes);
                }
            }
        }
    }
}

/// Values at eight points to coefficients, but for the last layer.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn interpolate<L: Lanes>(
    mut x: [L; POINTS],
    near: &[L::Stored; 4],
    middle: &[L::Stored; 2],
) -> [L; POINTS] {
    // SAFETY: passed on from our caller.
    unsafe {
        for m in 0..4 {
            let factor = L::factor(near[m]);
            x[2 * m + 1] = x[2 * m].xor(x[2 * m + 1]);
            x[2 * m] = x[2 * m].xor(x[2 * m + 1].mul(factor));
        }
        for (g, &middle) in middle.iter().enumerate() {
            let factor = L::factor(middle);
            for e in 4 * g..4 * g + 2 {
                x[e + 2] = x[e].xor(x[e + 2]);
                x[e] = x[e].xor(x[e + 2].mul(factor));
            }
        }
        x
    }
}

/// Coefficients to values at eight points.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn evaluate<L: Lanes>(mut x: [L; POINTS], twiddles: &Twiddles) -> [L; POINTS] {
    // SAFETY: passed on from our caller.
    unsafe {
        let factor = L::factor(L::stored(twiddles.far));
        for e in 0..4 {
            x[e] = x[e].xor(x[e + 4].mul(factor));
            x[e + 4] = x[e].xor(x[e + 4]);
        }
        for g in 0..2 {
            let factor = L::factor(L::stored(twiddles.middle[g]));
            for e in 4 * g..4 * g + 2 {
                x[e] = x[e].xor(x[e + 2].mul(factor));
                x[e + 2] = x[e].xor(x[e + 2]);
            }
        }
        for m in 0..4 {
            let factor = L::factor(L::stored(twiddles.near[m]));
            x[2 * m] = x[2 * m].xor(x[2 * m + 1].mul(factor));
            x[2 * m + 1] = x[2 * m].xor(x[2 * m + 1]);
        }
        x
    }
}
