//! Rows of a Cauchy matrix times sources, by the transform that `gf256::cauchy` explains.
//!
//! On a Xeon of 2023 an eight of 64 bytes each takes 42 instructions on two ports, 20 of them products, for
//! which only one of the ports serves: 21 cycles if nothing else is in the way. So the next strip is fetched
//! into the first-level cache meanwhile, and what is looked up is looked up once, not in each strip.

use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ops::Range;

use super::super::cauchy::{
    CauchySum, Columns, GROUPS, GroupRows, POINTS, SumBase, TWIDDLES, Twiddles, WEIGHTS,
};
use super::{Lanes, load_strip};

/// Adds to all destinations of `rows`, whose number is `G`, or replaces their bytes up to the longest source,
/// after a multiplication with the matrix of the rows where `THEN`, the most rows that it can have, is not 0.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
pub(super) unsafe fn transform<L: Lanes, const G: usize, const THEN: usize>(
    columns: Columns<'_>,
    rows: &mut [GroupRows<'_>],
) {
    let rows: &mut [GroupRows<'_>; G] = rows.try_into().expect("as many as the caller has counted");
    let (sources, first) = (columns.sources(), columns.group());
    let (longest, shortest) = (columns.longest(), columns.shortest());
    let mut sums = rows.iter().flat_map(|r| r.sums.iter().flatten());
    assert!(sums.all(|s| s.sum.len() >= longest && s.base.holds(longest)));
    let mut more = Vec::new();
    let zeros = zeros(shortest, &mut more);

    let mut eights = [const { MaybeUninit::uninit() }; GROUPS];
    let count = sources.len().div_ceil(POINTS);
    assert!(count <= eights.len() && count + first <= TWIDDLES.len());
    let groups = core::array::from_fn(|g| rows[g].group);
    assert!(rows.iter().all(|rows| (THEN == 0) == rows.then.is_empty()));
    let then = core::array::from_fn(|g| SumTransform::<L, THEN>::new(&rows[g]));
    let whole = sources.chunks_exact(POINTS);
    let mut last = [&[][..]; POINTS];
    last[..whole.remainder().len()].copy_from_slice(whole.remainder());
    let chunks = whole.map(|chunk| chunk.try_into().expect("it has eight")).chain([&last]);
    for (q, chunk) in chunks.take(count).enumerate() {
        eights[q].write(Eight::<L, G>::new(chunk, first + q, groups, zeros));
    }
    // SAFETY: strips end at or before the shortest source, and the longest and so the destinations; `zeros`
    // are as many as the shortest has bytes. As many eights are written as there are.
    unsafe {
        let eights = &*(core::ptr::from_ref(&eights[..count]) as *const [Eight<L, G>]);
        let mut at = 0;
        while let Some(strip) = columns.strip(at, L::BYTES) {
            let values = evaluated(full_sums(eights, sources.len(), strip.start), rows);
            at = strip.end;
            add_values::<L, G, THEN>(values, rows, &then, strip);
        }
        while at < longest {
            let values = evaluated(part_sums(eights, sources, at), rows);
            add_values::<L, G, THEN>(values, rows, &then, at..longest.min(at + L::BYTES));
            at += L::BYTES;
        }
    }
}

/// Eight sources and their multipliers.
struct Eight<L: Lanes, const G: usize> {
    /// Zeros in place of sources that are left out; not used behind the end of the shortest.
    from: [*const u8; POINTS],
    near: [L::Stored; 4],
    middle: [L::Stored; 2],
    weights: [[L::Stored; 2]; G],
}

impl<L: Lanes, const G: usize> Eight<L, G> {
    #[inline(always)]
    fn new(sources: &[&[u8]; POINTS], q: usize, groups: [usize; G], zeros: *const u8) -> Self {
        let Twiddles { near, middle, .. } = &TWIDDLES[q];
        Self {
            from: sources.map(|source| if source.is_empty() { zeros } else { source.as_ptr() }),
            near: near.map(L::stored),
            middle: middle.map(L::stored),
            weights: groups.map(|group| WEIGHTS[group][q].map(L::stored)),
        }
    }
}

/// The matrix that sums are multiplied with before they are written, at most `N` by `N`; none if that is 0.
pub(super) struct SumTransform<L: Lanes, const N: usize> {
    matrix: [[L::Stored; N]; N],
}

impl<L: Lanes, const N: usize> SumTransform<L, N> {
    #[inline(always)]
    pub(super) fn new(rows: &GroupRows<'_>) -> Self {
        let mut matrix = [[L::stored(0); N]; N];
        if N > 0 {
            let size = rows.sums.iter().flatten().count();
            assert!(size > 0 && size <= N && rows.then.len() == size * size);
            for (to, from) in matrix.iter_mut().zip(rows.then.chunks_exact(size)) {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = L::stored(*from));
            }
        }
        Self { matrix }
    }

    /// A row of the product. Columns that are not there are zeros, so that nothing is counted.
    ///
    /// # Safety
    ///
    /// The machine has what `L` is made for.
    #[inline(always)]
    unsafe fn product(&self, row: usize, values: &[L; POINTS]) -> L {
        // SAFETY: passed on from our caller.
        unsafe {
            let mut product = L::zero();
            for pair in 0..N / 2 {
                product =
                    product.xor3(self.term(row, 2 * pair, values), self.term(row, 2 * pair + 1, values));
            }
            if N % 2 == 0 { product } else { product.xor(self.term(row, N - 1, values)) }
        }
    }

    /// One summand of it. No closure: one that is not inlined calls a function for each instruction.
    ///
    /// # Safety
    ///
    /// The machine has what `L` is made for.
    #[inline(always)]
    unsafe fn term(&self, row: usize, at: usize, values: &[L; POINTS]) -> L {
        // SAFETY: passed on from our caller.
        unsafe { values[at].mul(L::factor(self.matrix[row][at])) }
    }
}

/// What a strip of one vector at `at` adds up to, in coefficients.
///
/// # Safety
///
/// The machine has what `L` is made for; the eights are of `count` sources, all of which hold a vector at
/// `at`.
#[inline(always)]
unsafe fn full_sums<L: Lanes, const G: usize>(
    eights: &[Eight<L, G>],
    count: usize,
    at: usize,
) -> [[L; POINTS]; G] {
    // SAFETY: passed on from our caller.
    unsafe {
        let mut sums = [[L::zero(); POINTS]; G];
        let is_half = (1..=POINTS / 2).contains(&(count % POINTS));
        let (whole, half) = eights.split_at(eights.len() - usize::from(is_half));
        if let [eight] = half {
            add_half(&mut sums, load_all(&eight.from, at, 1), eight);
        }
        // Two at a time where the registers allow it, so that products of both are added by one XOR of three.
        let (pairs, rest) = whole.split_at(if L::FITS_PAIRS && G == 1 { whole.len() & !1 } else { 0 });
        for pair in pairs.chunks_exact(2) {
            add_eight(&mut sums, load_all(&pair[0].from, at, 1), &pair[0]);
            add_eight(&mut sums, load_all(&pair[1].from, at, 1), &pair[1]);
        }
        for eight in rest {
            add_eight(&mut sums, load_all(&eight.from, at, 1), eight);
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
unsafe fn part_sums<L: Lanes, const G: usize>(
    eights: &[Eight<L, G>],
    sources: &[&[u8]],
    at: usize,
) -> [[L; POINTS]; G] {
    // SAFETY: passed on from our caller.
    unsafe {
        let mut sums = [[L::zero(); POINTS]; G];
        for (eight, sources) in eights.iter().zip(sources.chunks(POINTS)) {
            let mut x = [L::zero(); POINTS];
            for (x, source) in x.iter_mut().zip(sources) {
                [*x] = load_strip(source, at);
            }
            add_eight(&mut sums, x, eight);
        }
        sums
    }
}

/// Loads a vector of each source, or of each of the first.
///
/// # Safety
///
/// The machine has what `L` is made for; all sources hold a vector at `at`.
#[inline(always)]
pub(super) unsafe fn load_all<L: Lanes, const N: usize, const M: usize>(
    from: &[*const u8; M],
    at: usize,
    ahead: usize,
) -> [L; N] {
    // SAFETY: passed on from our caller.
    unsafe {
        let mut x = [L::zero(); N];
        for (x, from) in x.iter_mut().zip(from) {
            *x = L::load(from.add(at));
            // The last byte of the vector so many on: the first is in the line that the last of this one is
            // in, or aligned.
            L::prefetch(from.wrapping_add(at + (ahead + 1) * L::BYTES - 1));
        }
        x
    }
}

/// Adds eight sources.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn add_eight<L: Lanes, const G: usize>(
    sums: &mut [[L; POINTS]; G],
    x: [L; POINTS],
    eight: &Eight<L, G>,
) {
    // SAFETY: passed on from our caller.
    unsafe {
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
}

/// Adds eight sources the upper four of which are zero.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn add_half<L: Lanes, const G: usize>(
    sums: &mut [[L; POINTS]; G],
    x: [L; POINTS / 2],
    eight: &Eight<L, G>,
) {
    // SAFETY: passed on from our caller.
    unsafe {
        let x = interpolate(x, &eight.near, &eight.middle);
        for (sums, [weight, both]) in sums.iter_mut().zip(&eight.weights) {
            let (weight, both) = (L::factor(*weight), L::factor(*both));
            for (e, x) in x.into_iter().enumerate() {
                let upper = x.mul(weight);
                sums[e] = sums[e].xor3(upper, x.mul(both));
                sums[e + 4] = sums[e + 4].xor(upper);
            }
        }
    }
}

/// The values of each group of rows.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn evaluated<L: Lanes, const G: usize>(
    mut sums: [[L; POINTS]; G],
    rows: &[GroupRows<'_>; G],
) -> [[L; POINTS]; G] {
    for (sums, rows) in sums.iter_mut().zip(rows) {
        // SAFETY: passed on from our caller.
        *sums = unsafe { evaluate(*sums, &TWIDDLES[rows.group % TWIDDLES.len()]) };
    }
    sums
}

/// Adds the values to bytes `span` of what the product is added to, at most one vector.
///
/// # Safety
///
/// The machine has what `L` is made for; the destinations hold `span`, and so does what they are begun with.
#[inline(always)]
pub(super) unsafe fn add_values<L: Lanes, const G: usize, const THEN: usize>(
    values: [[L; POINTS]; G],
    rows: &mut [GroupRows<'_>; G],
    then: &[SumTransform<L, THEN>; G],
    span: Range<usize>,
) {
    // SAFETY: passed on from our caller.
    unsafe {
        for ((values, rows), then) in values.into_iter().zip(rows).zip(then) {
            if THEN == 0 {
                // Calls of the two below would cost a thirtieth more.
                for (mut value, sum) in values.into_iter().zip(&mut rows.sums) {
                    let Some(CauchySum { sum, base }) = sum else { continue };
                    let to = sum.as_mut_ptr().add(span.start);
                    let base = match base {
                        SumBase::Sum => Some(to.cast_const()),
                        SumBase::Zero => None,
                        SumBase::Other(other) => Some(other.as_ptr().add(span.start)),
                    };
                    if span.len() == L::BYTES {
                        if let Some(base) = base {
                            value = L::load(base).xor(value);
                        }
                        value.store(to);
                    } else {
                        if let Some(base) = base {
                            value = L::load_part(base, span.len()).xor(value);
                        }
                        value.store_part(to, span.len());
                    }
                }
                continue;
            }
            let (mut wanted, mut count) = ([L::zero(); POINTS], 0);
            for (value, sum) in values.into_iter().zip(&rows.sums) {
                let Some(sum) = sum else { continue };
                wanted[count] = based(value, sum, &span);
                count += 1;
            }
            for (row, sum) in rows.sums.iter_mut().flatten().enumerate() {
                write(then.product(row, &wanted), sum, &span);
            }
        }
    }
}

/// The value and what it is to be added to.
///
/// # Safety
///
/// As for `add_values`.
#[inline(always)]
unsafe fn based<L: Lanes>(value: L, sum: &CauchySum<'_>, span: &Range<usize>) -> L {
    let base = match sum.base {
        SumBase::Sum => &*sum.sum,
        SumBase::Zero => return value,
        SumBase::Other(other) => other,
    };
    // SAFETY: passed on from our caller.
    unsafe {
        let from = base.as_ptr().add(span.start);
        let base = if span.len() == L::BYTES { L::load(from) } else { L::load_part(from, span.len()) };
        base.xor(value)
    }
}

/// Writes bytes `span` of a sum.
///
/// # Safety
///
/// As for `add_values`.
#[inline(always)]
unsafe fn write<L: Lanes>(value: L, sum: &mut CauchySum<'_>, span: &Range<usize>) {
    // SAFETY: passed on from our caller.
    unsafe {
        let to = sum.sum.as_mut_ptr().add(span.start);
        if span.len() == L::BYTES {
            value.store(to);
        } else {
            value.store_part(to, span.len());
        }
    }
}

/// Values at eight points, or at the first four, to coefficients, but for the last layer.
///
/// # Safety
///
/// The machine has what `L` is made for.
#[inline(always)]
unsafe fn interpolate<L: Lanes, const N: usize>(
    mut x: [L; N],
    near: &[L::Stored; 4],
    middle: &[L::Stored; 2],
) -> [L; N] {
    // SAFETY: passed on from our caller.
    unsafe {
        for m in 0..N / 2 {
            let factor = L::factor(near[m]);
            x[2 * m + 1] = x[2 * m].xor(x[2 * m + 1]);
            x[2 * m] = x[2 * m].xor(x[2 * m + 1].mul(factor));
        }
        for (g, &middle) in middle[..N / 4].iter().enumerate() {
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

/// So many zeros, in place of sources that are left out; `more` is room for them where there are not enough.
pub(super) fn zeros(count: usize, more: &mut Vec<u8>) -> *const u8 {
    if count > ZEROS.len() {
        more.resize(count, 0);
        return more.as_ptr();
    }
    ZEROS.as_ptr()
}

static ZEROS: [u8; 2048] = [0; 2048];
