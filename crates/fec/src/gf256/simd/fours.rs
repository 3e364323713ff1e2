//! Rows of a Cauchy matrix times sources, four at a time, as `gf256::fours` explains.
//!
//! Four rows and one take 36 instructions for eight sources, 18 of them products, where the transform of
//! eight takes 42; four rows take 32, and the plain sum 48.

use alloc::vec::Vec;
use core::mem::MaybeUninit;

use super::super::cauchy::{Columns, GroupRows, Heads, MAX_HEAD, POINTS};
use super::super::fours::{FOUR, FOURS, Factors, Fours};
use super::transform::{SumTransform, add_values, load_all, zeros};
use super::{Lanes, first_level, load_strip};

/// Adds to the destinations of `rows`, which have `fours`, or replaces their bytes up to the longest source;
/// after a multiplication with the matrix of the rows if there is one.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
pub(super) unsafe fn fours<L: Lanes>(columns: Columns<'_>, rows: &mut GroupRows<'_>) {
    let fours = rows.fours.expect("the caller has looked");
    // SAFETY: passed on from our caller.
    unsafe {
        match (fours.has_apart(), rows.then.is_empty()) {
            (false, true) => pass::<L, false, 0>(columns, rows, fours),
            (false, false) => pass::<L, false, 4>(columns, rows, fours),
            (true, true) => pass::<L, true, 0>(columns, rows, fours),
            (true, false) => pass::<L, true, 5>(columns, rows, fours),
        }
    }
}

/// With `APART`, there is a row apart; with `THEN`, a matrix of at most so many rows.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn pass<L: Lanes, const APART: bool, const THEN: usize>(
    columns: Columns<'_>,
    rows: &mut GroupRows<'_>,
    fours: Fours,
) {
    let (sources, first) = (columns.sources(), columns.group() * POINTS / FOUR);
    let (longest, shortest) = (columns.longest(), columns.shortest());
    let mut sums = rows.sums.iter().flatten();
    assert!(sums.all(|s| s.sum.len() >= longest && s.base.holds(longest)));
    let mut more = Vec::new();
    let zeros = zeros(shortest, &mut more);

    let mut four = [const { MaybeUninit::uninit() }; FOURS];
    let count = sources.len().div_ceil(FOUR);
    assert!(count <= four.len() && (THEN == 0) == rows.then.is_empty());
    let then = [SumTransform::<L, THEN>::new(rows)];
    let whole = sources.chunks_exact(FOUR);
    let mut last = [&[][..]; FOUR];
    last[..whole.remainder().len()].copy_from_slice(whole.remainder());
    let chunks = whole.map(|chunk| chunk.try_into().expect("it has four")).chain([&last]);
    for (q, chunk) in chunks.take(count).enumerate() {
        four[q].write(Four::<L>::new(chunk, &fours.factors(first + q), zeros));
    }
    let points = Points::<L>::new(fours);
    let heads = rows.heads.take();
    let rows: &mut [GroupRows<'_>; 1] = core::array::from_mut(rows);
    // SAFETY: strips end at or before the shortest source, and the longest and so the destinations; `zeros`
    // are as many as the shortest has bytes. As many fours are written as there are.
    unsafe {
        let four = &*(core::ptr::from_ref(&four[..count]) as *const [Four<L>]);
        let mut at = 0;
        // Two vectors of each source where the registers allow it, so that multipliers are loaded once for
        // both, and the first-level cache holds these and the next.
        if L::FITS_PAIRS && count * BYTES_IN_PAIRS <= first_level() / 6 * 5 {
            while let Some(strip) = columns.strip(at, 2 * L::BYTES) {
                let mut start = strip.start;
                for sums in full_sums::<L, APART, 2>(four, start) {
                    add_values::<L, 1, THEN>([points.values(sums)], rows, &then, start..start + L::BYTES);
                    start += L::BYTES;
                }
                at = strip.end;
            }
        }
        while let Some(strip) = columns.strip(at, L::BYTES) {
            let [sums] = full_sums::<L, APART, 1>(four, strip.start);
            at = strip.end;
            add_values::<L, 1, THEN>([points.values(sums)], rows, &then, strip);
        }
        while at < longest {
            let sums = part_sums::<L, APART>(four, sources, at);
            let values = [points.values(sums)];
            add_values::<L, 1, THEN>(values, rows, &then, at..longest.min(at + L::BYTES));
            at += L::BYTES;
        }
        if let Some(mut rows) = heads {
            let values = points.values(head_sums::<L, APART>(four, rows.heads));
            for (value, sum) in values.into_iter().zip(&mut rows.sums) {
                if let Some(sum) = sum {
                    put(value, &mut sum[..rows.heads.len()]);
                }
            }
        }
    }
}

/// Four sources and their multipliers.
struct Four<L: Lanes> {
    /// Zeros in place of sources that are left out; not used behind the end of the shortest.
    from: [*const u8; FOUR],
    near: [L::Stored; 2],
    middle: L::Stored,
    weight: L::Stored,
    both: L::Stored,
    apart: L::Stored,
}

impl<L: Lanes> Four<L> {
    #[inline(always)]
    fn new(sources: &[&[u8]; FOUR], factors: &Factors, zeros: *const u8) -> Self {
        Self {
            from: sources.map(|source| if source.is_empty() { zeros } else { source.as_ptr() }),
            near: factors.near.map(L::stored),
            middle: L::stored(factors.middle),
            weight: L::stored(factors.weight),
            both: L::stored(factors.both),
            apart: L::stored(factors.apart),
        }
    }
}

/// What becomes of the sums of coefficients.
struct Points<L: Lanes> {
    near: [L::Stored; 2],
    middle: L::Stored,
    /// The place of the four in its group of eight.
    first: usize,
}

impl<L: Lanes> Points<L> {
    #[inline(always)]
    fn new(fours: Fours) -> Self {
        let (near, middle) = fours.points();
        Self { near: near.map(L::stored), middle: L::stored(middle), first: fours.first() }
    }

    /// Values by place.
    ///
    /// # Safety
    ///
    /// The machine has what `L` is made for.
    #[inline(always)]
    unsafe fn values(&self, [a, b, c, d, apart]: [L; FOUR + 1]) -> [L; POINTS] {
        // SAFETY: passed on from our caller.
        unsafe {
            let middle = L::factor(self.middle);
            let [near, far] = self.near.map(|near| L::factor(near));
            let (a, b) = (a.xor(c.mul(middle)), b.xor(d.mul(middle)));
            let (c, d) = (a.xor(c), b.xor(d));
            let (a, c) = (a.xor(b.mul(near)), c.xor(d.mul(far)));
            let (b, d) = (a.xor(b), c.xor(d));
            // But for the four there is at most one row, and nobody looks at other places.
            if self.first == 0 {
                [a, b, c, d, apart, apart, apart, apart]
            } else {
                [apart, apart, apart, apart, a, b, c, d]
            }
        }
    }
}

/// What `W` vectors from `at` on add up to: each in coefficients, and for the row apart.
///
/// # Safety
///
/// The machine has what `L` is made for; all sources hold `W` vectors at `at`.
#[inline(always)]
unsafe fn full_sums<L: Lanes, const APART: bool, const W: usize>(
    fours: &[Four<L>],
    at: usize,
) -> [[L; FOUR + 1]; W] {
    // SAFETY: passed on from our caller.
    unsafe {
        let mut sums = [[L::zero(); FOUR + 1]; W];
        // Two at a time, so that products of both are added by one XOR of three.
        let pairs = fours.chunks_exact(2);
        let rest = pairs.remainder();
        for pair in pairs {
            for (w, sums) in sums.iter_mut().enumerate() {
                let at = at + w * L::BYTES;
                add_four::<L, APART>(sums, load_all(&pair[0].from, at, W), &pair[0]);
                add_four::<L, APART>(sums, load_all(&pair[1].from, at, W), &pair[1]);
            }
        }
        for four in rest {
            for (w, sums) in sums.iter_mut().enumerate() {
                add_four::<L, APART>(sums, load_all(&four.from, at + w * L::BYTES, W), four);
            }
        }
        sums
    }
}

/// The same where some sources end before or within the strip.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn part_sums<L: Lanes, const APART: bool>(
    fours: &[Four<L>],
    sources: &[&[u8]],
    at: usize,
) -> [L; FOUR + 1] {
    // SAFETY: passed on from our caller.
    unsafe {
        let mut sums = [L::zero(); FOUR + 1];
        for (four, sources) in fours.iter().zip(sources.chunks(FOUR)) {
            let mut x = [L::zero(); FOUR];
            for (x, source) in x.iter_mut().zip(sources) {
                [*x] = load_strip(source, at);
            }
            add_four::<L, APART>(&mut sums, x, four);
        }
        sums
    }
}

/// The same of heads, which fit a vector.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn head_sums<L: Lanes, const APART: bool>(fours: &[Four<L>], heads: Heads<'_>) -> [L; FOUR + 1] {
    // SAFETY: passed on from our caller; a vector is as long as any head, or longer.
    unsafe {
        let mut sums = [L::zero(); FOUR + 1];
        for (four, heads) in fours.iter().zip(heads.all().chunks(FOUR)) {
            let mut x = [L::zero(); FOUR];
            for (x, head) in x.iter_mut().zip(heads) {
                *x = if L::BYTES == MAX_HEAD {
                    L::load(head.as_ptr())
                } else {
                    L::load_part(head.as_ptr(), MAX_HEAD)
                };
            }
            add_four::<L, APART>(&mut sums, x, four);
        }
        sums
    }
}

/// Fills a few bytes, at most a vector.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn put<L: Lanes>(value: L, to: &mut [u8]) {
    assert!(to.len() <= L::BYTES);
    // SAFETY: passed on from our caller, and checked.
    unsafe {
        if to.len() == L::BYTES {
            value.store(to.as_mut_ptr());
        } else {
            value.store_part(to.as_mut_ptr(), to.len());
        }
    }
}

/// Adds four sources.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn add_four<L: Lanes, const APART: bool>(sums: &mut [L; FOUR + 1], x: [L; FOUR], four: &Four<L>) {
    // SAFETY: passed on from our caller.
    unsafe {
        let [near, far] = four.near;
        let (weight, both) = (L::factor(four.weight), L::factor(four.both));
        // The constant coefficients of two lines; slopes, and what is between the lines.
        let (slope, other) = (x[0].xor(x[1]), x[2].xor(x[3]));
        let line = x[0].xor(slope.mul(L::factor(near)));
        let (between, bend) = (line.xor3(x[2], other.mul(L::factor(far))), slope.xor(other));
        if APART {
            let constant = line.xor(between.mul(L::factor(four.middle)));
            sums[0] = sums[0].xor(constant.mul(weight));
            sums[4] = sums[4].xor(constant.mul(L::factor(four.apart)));
        } else {
            sums[0] = sums[0].xor3(line.mul(weight), between.mul(both));
        }
        sums[1] = sums[1].xor3(slope.mul(weight), bend.mul(both));
        sums[2] = sums[2].xor(between.mul(weight));
        sums[3] = sums[3].xor(bend.mul(weight));
    }
}

/// What a pair of vectors of four sources takes of the first-level cache, with the next pair and what they
/// straddle. When five sixths of it are full, a block takes a sixth less time vector by vector.
const BYTES_IN_PAIRS: usize = FOUR * 5 * 64;
