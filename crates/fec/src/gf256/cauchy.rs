//! Products with a Cauchy matrix by a transform: about half the multiplications of the plain sum at five
//! rows, a quarter at sixteen.
//!
//! Row i of Reed-Solomon is the sum of s_j / (x_j + y), with x_j = j and y = 255 - i. Take eight sources at a
//! time, at the points 8q + t, t < 8, and let P be the polynomial of degree below 8 through them. The product
//! N(z) = Π (z + t) is linear, so that N(y + 8q + t) does not depend on t, and its derivative is a constant
//! N'. Lagrange's formula then reads
//!
//! > Σ s_(8q+t) / (8q + t + y) = P(y) · N' / N(y + 8q)
//!
//! The last factor is the same for all eight y that differ in their low three bits only, call it w(y/8, q).
//! Rows of such a group are therefore one polynomial, Σ w · P over all q, evaluated at their y. Twelve
//! multiplications turn eight sources into the coefficients of P, eight weigh them, and twelve more, once for
//! all sources, evaluate the sum at eight points.
//!
//! Up to four rows, and one, are done by fours (`gf256::fours`).
//!
//! Coefficients are in the basis 1, x, M(x), x·M(x), K(x), ..., M(x) = x(x+1)/6 and K(x) =
//! x(x+1)(x+2)(x+3)/K0, in which both ways take three layers of butterflies (Lin, Chung, Han: Novel
//! polynomial basis and its application to Reed-Solomon erasure codes, 2014, section III).

use alloc::vec::Vec;
use core::ops::Range;

use super::fours::Fours;
use super::tables::{EXP, LOG};
use super::{Kernel, cauchy, inv, mul};
use crate::number::element;

/// Sources that are transformed together, and rows that come out together.
pub(crate) const POINTS: usize = 8;
/// Groups of that many points.
pub(super) const GROUPS: usize = 256 / POINTS;

/// Multipliers of the butterflies, by group: those of four pairs at distance 1, of two times two at distance
/// 2, of four at distance 4.
pub(super) static TWIDDLES: [Twiddles; GROUPS] = twiddles();

/// By group of rows, then of sources: the weight w, and its product with the last multiplier of the sources.
/// It is zero where the groups are the same and no weight exists.
pub(super) static WEIGHTS: [[[u8; 2]; GROUPS]; GROUPS] = weights();

#[derive(Clone, Copy)]
pub(super) struct Twiddles {
    pub(super) near: [u8; 4],
    pub(super) middle: [u8; 2],
    pub(super) far: u8,
}

/// Rows of one group: its number, and the sums of those of its rows that are wanted, by y.
pub(super) struct GroupRows<'a> {
    pub(super) group: usize,
    /// Where this is how.
    pub(super) fours: Option<Fours>,
    pub(super) sums: [Option<CauchySum<'a>>; POINTS],
    /// If it is not empty, what would be written is multiplied with this matrix first: as many rows and
    /// columns as sums.
    pub(super) then: &'a [u8],
    /// With `fours` only.
    pub(super) heads: Option<RowsOfHeads<'a>>,
}

/// The same rows for bytes of all sources that lie elsewhere. They are few, and the multipliers are there
/// already.
pub(super) struct RowsOfHeads<'a> {
    pub(super) heads: Heads<'a>,
    /// What becomes their place, by y.
    pub(super) sums: [Option<&'a mut [u8]>; POINTS],
}

/// The first bytes of each source, which lie apart from the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads<'a> {
    heads: &'a [[u8; MAX_HEAD]],
    len: usize,
}

/// Bytes of a head at most.
pub(crate) const MAX_HEAD: usize = 16;

pub(super) struct CauchySum<'a> {
    pub(super) sum: &'a mut [u8],
    pub(super) base: SumBase<'a>,
}

/// [`Base`] of one sum.
#[derive(Clone, Copy)]
pub(super) enum SumBase<'a> {
    Sum,
    Zero,
    Other(&'a [u8]),
}

/// What rows are multiplied with, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a> {
    group: usize,
    sources: &'a [&'a [u8]],
    base: Base<'a>,
    longest: usize,
    shortest: usize,
}

/// What a product is added to, up to the longest source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base<'a> {
    /// The sums.
    Sums,
    /// Nothing: it takes their place.
    Zero,
    /// These, one for each sum, none shorter than a source: the result takes the place of the sums.
    Others(&'a [&'a [u8]]),
}

/// sums\[i\] += Σ cauchy(j, rows\[i\]) · sources\[j\].
pub(super) fn add(kernel: Kernel, sums: &mut [&mut [u8]], rows: &[u8], columns: Columns<'_>) {
    columns.check(sums, rows);
    // Mostly they are the first few, and nothing need be allocated.
    if let Some(mut only) = only_group(kernel, rows, &columns).map(|rows| [rows]) {
        for (i, (sum, &row)) in sums.iter_mut().zip(rows).enumerate() {
            only[0].sums[place(row).1] = Some(CauchySum { sum, base: columns.one(i) });
        }
        add_groups(kernel, &mut only, columns);
    } else {
        add_any(kernel, sums, rows, columns);
    }
}

/// Writes the products of `matrix`, by rows, one for each sum, with what [`add`] would write, in one pass.
/// False, and nothing done, if that cannot be done.
pub(super) fn add_then(
    kernel: Kernel,
    sums: &mut [&mut [u8]],
    rows: &[u8],
    columns: Columns<'_>,
    matrix: &[u8],
) -> bool {
    columns.check(sums, rows);
    assert_eq!(matrix.len(), rows.len() * rows.len(), "one coefficient for each pair");
    let Some(mut only) = only_group(kernel, rows, &columns).map(|rows| [rows]) else { return false };
    // Where rows and sources are of the same group, something is added later.
    if only[0].meets(&columns) {
        return false;
    }
    let mut places = [POINTS; POINTS];
    for (i, &row) in rows.iter().enumerate() {
        places[place(row).1] = i;
    }
    // The matrix in the order of the places.
    let (mut order, mut count) = ([0; POINTS], 0);
    for i in places {
        order[count % POINTS] = i;
        count += usize::from(i < POINTS);
    }
    let mut then = [0; POINTS * POINTS];
    for (to, &i) in then.chunks_exact_mut(rows.len()).zip(&order[..count]) {
        let from = &matrix[i * rows.len()..][..rows.len()];
        to.iter_mut().zip(&order).for_each(|(to, &j)| *to = from[j]);
    }
    only[0].then = &then[..matrix.len()];
    for (i, (sum, &row)) in sums.iter_mut().zip(rows).enumerate() {
        only[0].sums[place(row).1] = Some(CauchySum { sum, base: columns.one(i) });
    }
    kernel.transform(columns, &mut only);
    true
}

/// Writes to the first bytes of `sums`, as many as heads have, the rows times the heads of the sources, and
/// to those behind them what [`add`] would.
pub(super) fn add_split(
    kernel: Kernel,
    sums: &mut [&mut [u8]],
    rows: &[u8],
    heads: Heads<'_>,
    columns: Columns<'_>,
) {
    assert!(heads.heads.len() == columns.sources.len(), "a head for each");
    let only = only_group(kernel, rows, &columns).filter(|rows| rows.fours.is_some());
    let Some(mut only) = only.map(|rows| [rows]) else {
        let (mut firsts, mut rests): (Vec<_>, Vec<_>) =
            sums.iter_mut().map(|sum| sum.split_at_mut(heads.len)).unzip();
        let sources: Vec<&[u8]> = heads.heads.iter().map(|head| &head[..heads.len]).collect();
        add(kernel, &mut firsts, rows, Columns::new(columns.group, &sources, Base::Zero));
        add(kernel, &mut rests, rows, columns);
        return;
    };
    let mut of_heads = RowsOfHeads { heads, sums: [const { None }; POINTS] };
    for (i, (sum, &row)) in sums.iter_mut().zip(rows).enumerate() {
        let (at, (first, sum)) = (place(row).1, sum.split_at_mut(heads.len));
        of_heads.sums[at] = Some(first);
        only[0].sums[at] = Some(CauchySum { sum, base: columns.one(i) });
    }
    only[0].heads = Some(of_heads);
    kernel.transform(columns, &mut only);
}

/// The group of all rows, without sums, if it is one, no row comes twice, and a transform is faster.
fn only_group<'a>(kernel: Kernel, rows: &[u8], columns: &Columns<'_>) -> Option<GroupRows<'a>> {
    let group = place(*rows.first()?).0;
    let mut seen = 0_u8;
    let is_one = rows.iter().all(|&row| {
        let (other, at) = place(row);
        let is_new = seen >> at & 1 == 0;
        seen |= 1 << at;
        other == group && is_new
    });
    if !is_one || !kernel.has_transform() {
        return None;
    }
    let fours = Fours::new(group, seen, columns);
    let is_worth = fours.is_some() || is_worth(rows.len(), columns.sources.len());
    is_worth.then_some(GroupRows { group, fours, sums: [const { None }; POINTS], then: &[], heads: None })
}

/// Rows of any groups.
fn add_any(kernel: Kernel, sums: &mut [&mut [u8]], rows: &[u8], columns: Columns<'_>) {
    let mut wanted = [0; GROUPS];
    for &row in rows {
        wanted[place(row).0] += 1;
    }
    let worth = |group: usize| kernel.has_transform() && is_worth(wanted[group], columns.sources.len());

    let mut groups: Vec<GroupRows<'_>> = Vec::new();
    let (mut plain, mut plain_rows) = (Vec::new(), Vec::new());
    for (i, (sum, &row)) in sums.iter_mut().zip(rows).enumerate() {
        let sum = CauchySum { sum, base: columns.one(i) };
        let (group, at) = place(row);
        if !worth(group) {
            plain.push(sum);
            plain_rows.push(row);
            continue;
        }
        let known = groups.iter().position(|g| g.group == group);
        let index = known.unwrap_or_else(|| {
            groups.push(GroupRows { group, fours: None, sums: Default::default(), then: &[], heads: None });
            groups.len() - 1
        });
        let slot = &mut groups[index].sums[at];
        if slot.is_none() {
            *slot = Some(sum);
        } else {
            // The same row again.
            plain.push(sum);
            plain_rows.push(row);
        }
    }
    if !plain.is_empty() {
        let mut plain: Vec<&mut [u8]> = plain.into_iter().map(|sum| sum.begun(columns.longest)).collect();
        add_plainly(kernel, &mut plain, &plain_rows, columns);
    }
    if !groups.is_empty() {
        add_groups(kernel, &mut groups, columns);
    }
}

impl GroupRows<'_> {
    /// Whether some of the sources are of the same group.
    fn meets(&self, columns: &Columns<'_>) -> bool {
        columns.group + columns.sources.len().div_ceil(POINTS) > self.group
    }
}

impl<'a> Columns<'a> {
    /// Sources from number 8 · `group` on; empty ones are left out.
    pub(crate) fn new(group: usize, sources: &'a [&'a [u8]], base: Base<'a>) -> Self {
        // Mostly all are equal, which takes a third of the time to see.
        let any = sources.iter().map(|s| s.len()).find(|&len| len > 0).unwrap_or_default();
        let differs = |source: &&[u8]| if source.is_empty() { 0 } else { source.len() ^ any };
        let (mut longest, mut shortest) = (any, any);
        if sources.iter().fold(0, |all, source| all | differs(source)) != 0 {
            longest = sources.iter().map(|s| s.len()).max().unwrap_or_default();
            // Empty ones count as longer than any other.
            let least = sources.iter().map(|s| s.len().wrapping_sub(1)).min();
            shortest = least.unwrap_or_default().wrapping_add(1);
        }
        Self { group, sources, base, longest, shortest }
    }

    pub(crate) fn group(&self) -> usize {
        self.group
    }

    pub(crate) fn sources(&self) -> &'a [&'a [u8]] {
        self.sources
    }

    /// The length of the longest source.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// No source but the empty ones is shorter, and the longest is not.
    pub(super) fn shortest(&self) -> usize {
        self.shortest
    }

    /// The next `bytes` bytes at or before `at`, which every source has. The last ones may have been done
    /// before, where what is written does not depend on what is there: that is faster than a part of a vector
    /// of each source.
    #[inline]
    pub(super) fn strip(&self, at: usize, bytes: usize) -> Option<Range<usize>> {
        if at + bytes <= self.shortest {
            return Some(at..at + bytes);
        }
        let may_repeat = at < self.shortest && bytes <= self.shortest && !matches!(self.base, Base::Sums);
        may_repeat.then(|| self.shortest - bytes..self.shortest)
    }

    fn one(&self, i: usize) -> SumBase<'a> {
        match self.base {
            Base::Sums => SumBase::Sum,
            Base::Zero => SumBase::Zero,
            Base::Others(others) => SumBase::Other(others[i]),
        }
    }

    fn check(&self, sums: &[&mut [u8]], rows: &[u8]) {
        assert_eq!(sums.len(), rows.len(), "one row for each sum");
        let count = self.group * POINTS + self.sources.len();
        assert!(
            rows.iter().all(|&row| count + usize::from(row) < 256),
            "each row has a coefficient for each source"
        );
    }
}

impl<'a> Heads<'a> {
    /// The first `len` bytes of each of them.
    pub(crate) fn new(heads: &'a [[u8; MAX_HEAD]], len: usize) -> Self {
        assert!(len <= MAX_HEAD, "as long as they can be");
        Self { heads, len }
    }

    pub(super) fn all(self) -> &'a [[u8; MAX_HEAD]] {
        self.heads
    }

    /// At most `MAX_HEAD`.
    pub(super) fn len(self) -> usize {
        self.len
    }
}

impl SumBase<'_> {
    /// Whether there are so many bytes to add to.
    pub(super) fn holds(self, len: usize) -> bool {
        !matches!(self, Self::Other(other) if other.len() < len)
    }
}

impl<'a> CauchySum<'a> {
    /// The sum, its first bytes made what the product is to be added to.
    fn begun(self, longest: usize) -> &'a mut [u8] {
        match self.base {
            SumBase::Sum => {}
            SumBase::Zero => self.sum[..longest].fill(0),
            SumBase::Other(other) => self.sum[..longest].copy_from_slice(&other[..longest]),
        }
        self.sum
    }
}

/// Row by row.
fn add_plainly(kernel: Kernel, sums: &mut [&mut [u8]], rows: &[u8], columns: Columns<'_>) {
    let first = columns.group * POINTS;
    let terms = || (first..first + columns.sources.len()).map(element);
    let coefficient = |row, term| cauchy(term, row).expect("the sum of the two has been checked");
    let matrix: Vec<u8> =
        rows.iter().flat_map(|&row| terms().map(move |term| coefficient(row, term))).collect();
    kernel.combine(sums, &matrix, columns.sources);
}

fn add_groups(kernel: Kernel, groups: &mut [GroupRows<'_>], columns: Columns<'_>) {
    kernel.transform(columns, groups);

    // Where rows and sources are of the same group there is no weight: with 225 sources and more.
    for rows in groups.iter_mut().filter(|rows| rows.meets(&columns)) {
        let same = &columns.sources[(rows.group - columns.group) * POINTS..];
        let (mut sums, mut numbers) = (Vec::new(), Vec::new());
        for (at, sum) in rows.sums.iter_mut().enumerate() {
            if let Some(sum) = sum {
                sums.push(&mut *sum.sum);
                numbers.push(255 - element(rows.group * POINTS + at));
            }
        }
        let sources = &same[..same.len().min(POINTS)];
        add_plainly(kernel, &mut sums, &numbers, Columns::new(rows.group, sources, Base::Sums));
    }
}

/// The inverse of the matrix of 1 / (x_j + y_i), x_j the lost sources and y_i = 255 - rows\[i\]: row j,
/// column i. All of them are different.
///
/// It has a closed form (Schechter 1959): with A(z) = Π (z + x_j) and B(z) = Π (z + y_i), the element is
/// B(x_j) · A(y_i) / ((x_j + y_i) · A'(x_j) · B'(y_i)).
pub(crate) fn inverse(rows: &[u8], lost: &[u8]) -> Vec<u8> {
    // In logarithms: each of a pair of points is looked up once. There are 256 at most, whose sum fits.
    let log = |a: u8, b: u8| LOG[usize::from(a ^ b)];
    let (mut by_row, mut by_column) = ([0_u16; 256], [0_u16; 256]);
    let mut matrix = Vec::with_capacity(rows.len() * lost.len());
    for (value, &x) in by_column.iter_mut().zip(lost) {
        for (at_row, &row) in by_row.iter_mut().zip(rows) {
            let difference = log(x, 255 - row);
            *value += u16::from(difference);
            *at_row += u16::from(difference);
            matrix.push(difference);
        }
    }
    // By the derivative, which leaves out the root itself: the logarithm of 0 is 0.
    let quotients = |points: &[u8], values: &mut [u16; 256]| {
        for (value, &point) in values.iter_mut().zip(points) {
            let derivative: u16 = points.iter().map(|&other| u16::from(log(other, point))).sum();
            *value = ((u32::from(*value) + 255 * 256 - u32::from(derivative)) % 255) as u16;
        }
    };
    quotients(rows, &mut by_row);
    quotients(lost, &mut by_column);
    for (line, column) in matrix.chunks_exact_mut(rows.len().max(1)).zip(&by_column) {
        for (element, row) in line.iter_mut().zip(&by_row) {
            *element = EXP[usize::from(column + row + 255) - usize::from(*element)];
        }
    }
    matrix
}

/// Whether the transform is faster than the plain sum for so many rows of a group: as measured with AVX-512,
/// and not far off with the other kernels.
fn is_worth(rows: usize, sources: usize) -> bool {
    rows >= 5 && sources * (rows - 3) >= 32
}

/// The group of a row, and its place there.
fn place(row: u8) -> (usize, usize) {
    let y = 255 - usize::from(row);
    (y / POINTS, y % POINTS)
}

const fn twiddles() -> [Twiddles; GROUPS] {
    let mut table = [Twiddles { near: [0; 4], middle: [0; 2], far: 0 }; GROUPS];
    let mut group = 0;
    while group < GROUPS {
        let at = element(group * POINTS);
        table[group] = Twiddles {
            near: [at, at + 2, at + 4, at + 6],
            middle: [normed(2, at), normed(2, at + 4)],
            far: normed(4, at),
        };
        group += 1;
    }
    table
}

const fn weights() -> [[[u8; 2]; GROUPS]; GROUPS] {
    // N' = Π t over 0 < t < 8, the derivative of N at 0 and so everywhere.
    let (mut derivative, mut t) = (1, 1);
    while t < POINTS {
        derivative = mul(derivative, element(t));
        t += 1;
    }
    let mut table = [[[0; 2]; GROUPS]; GROUPS];
    let mut i = 0;
    while i < GROUPS * GROUPS {
        let (rows, sources) = (i / GROUPS, i % GROUPS);
        if let Some(inverse) = inv(vanishing(8, element((rows ^ sources) * POINTS))) {
            let weight = mul(derivative, inverse);
            table[rows][sources] = [weight, mul(weight, normed(4, element(sources * POINTS)))];
        }
        i += 1;
    }
    table
}

/// Π (z + t) over t < `size`.
pub(super) const fn vanishing(size: u8, z: u8) -> u8 {
    let (mut product, mut t) = (1, 0);
    while t < size {
        product = mul(product, z ^ t);
        t += 1;
    }
    product
}

/// The same, scaled to be 1 at z = `size`.
pub(super) const fn normed(size: u8, z: u8) -> u8 {
    match inv(vanishing(size, size)) {
        Some(inverse) => mul(vanishing(size, z), inverse),
        None => 0,
    }
}
