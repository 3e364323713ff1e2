//! The parity check matrix of a block.

use alloc::vec;
use alloc::vec::Vec;

use crate::number::short;

/// The left side, in which columns are source symbols; the right side, a staircase, needs no memory. Row i
/// says that repair symbol i is the sum of repair symbol i - 1 and of the source symbols whose columns have a
/// 1 in the row.
pub(super) struct Matrix {
    /// Columns that have a 1, row by row.
    rows: Vec<u32>,
    row_ends: Vec<u32>,
    /// Rows in which there is a 1, column by column.
    columns: Vec<u32>,
    column_ends: Vec<u32>,
}

impl Matrix {
    /// RFC 5170 §5.4, in the version of RFC 6816, for `k` >= 2 source and `m` >= 3 repair symbols.
    pub(super) fn new(k: u32, m: u32, seed: u32) -> Self {
        let mut random = Minimal::new(seed);
        // Rows and columns of the ones.
        let mut ones: Vec<(u32, u32)> = Vec::with_capacity((WEIGHT * k).max(2 * m) as usize);
        // A stock of row numbers, each about equally often, from which columns draw: it makes rows equally
        // heavy.
        let mut stock: Vec<u32> = (0..WEIGHT * k).map(|h| h % m).collect();
        let mut drawn = 0;
        for column in 0..k {
            let begin = ones.len();
            for _ in 0..WEIGHT {
                let is_new = |row| ones[begin..].iter().all(|&(other, _)| other != row);
                let row = if stock[drawn..].iter().any(|&row| is_new(row)) {
                    let at = until(
                        || drawn + random.below(short((stock.len() - drawn) as u64)) as usize,
                        |&at| is_new(stock[at]),
                    );
                    let row = stock[at];
                    stock[at] = stock[drawn];
                    drawn += 1;
                    row
                } else {
                    until(|| random.below(m), |&row| is_new(row))
                };
                ones.push((row, column));
            }
        }
        // A row with one source symbol would only repeat it, or the repair symbol before. There are few
        // symbols then.
        let mut light = vec![(0, u32::MAX); m as usize];
        for &(row, column) in &ones {
            let (weight, last) = &mut light[row as usize];
            (*weight, *last) = (*weight + 1, column);
        }
        for (row, (weight, mut last)) in (0..).zip(light) {
            for _ in weight..2 {
                last = until(|| random.below(k), |&column| column != last);
                ones.push((row, last));
            }
        }
        Self::from_ones(k, m, &ones)
    }

    /// The source symbols in rows `from` to `to`, both included.
    pub(super) fn rows(&self, from: u32, to: u32) -> &[u32] {
        &self.rows[start(&self.row_ends, from)..self.row_ends[to as usize] as usize]
    }

    /// The rows in which there is source symbol `column`.
    pub(super) fn column(&self, column: u32) -> &[u32] {
        &self.columns[start(&self.column_ends, column)..self.column_ends[column as usize] as usize]
    }

    fn from_ones(k: u32, m: u32, ones: &[(u32, u32)]) -> Self {
        let (rows, row_ends) = grouped(m, || ones.iter().copied());
        let by_row = || {
            (0..m).flat_map(|row| {
                let ones = start(&row_ends, row)..row_ends[row as usize] as usize;
                rows[ones].iter().map(move |&column| (column, row))
            })
        };
        let (columns, column_ends) = grouped(k, by_row);
        Self { rows, row_ends, columns, column_ends }
    }
}

/// The second numbers of all pairs, those with the same first number together and in the order in which they
/// come, and where those of each of the `n` first numbers end.
fn grouped<I: Iterator<Item = (u32, u32)>>(n: u32, pairs: impl Fn() -> I) -> (Vec<u32>, Vec<u32>) {
    // Where the next of each goes.
    let mut next = vec![0; n as usize + 1];
    let mut len = 0;
    for (first, _) in pairs() {
        next[first as usize + 1] += 1;
        len += 1;
    }
    for at in 1..next.len() {
        next[at] += next[at - 1];
    }
    let mut grouped = vec![0; len];
    for (first, second) in pairs() {
        let place = &mut next[first as usize];
        grouped[*place as usize] = second;
        *place += 1;
    }
    // Now each is where the one after it begins.
    next.pop();
    (grouped, next)
}

/// What `draw` gives first that `fits`.
fn until<T>(mut draw: impl FnMut() -> T, fits: impl Fn(&T) -> bool) -> T {
    loop {
        let drawn = draw();
        if fits(&drawn) {
            return drawn;
        }
    }
}

fn start(ends: &[u32], at: u32) -> usize {
    at.checked_sub(1).map_or(0, |before| ends[before as usize] as usize)
}

/// The "minimal standard" generator of Park and Miller, as in RFC 5170 §5.7: period 2³¹ - 2.
struct Minimal(u64);

impl Minimal {
    /// `seed` is from 1 to 2³¹ - 2.
    fn new(seed: u32) -> Self {
        debug_assert!((1..PRIME).contains(&u64::from(seed)), "{seed} is a seed");
        Self(u64::from(seed))
    }

    /// A number below `bound`: the state scaled. RFC 5170 divides in floating point, which is exact for
    /// bounds that occur here, below 2²², and so the same.
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0 * 16_807 % PRIME;
        short(u64::from(bound) * self.0 / PRIME)
    }
}

const PRIME: u64 = (1 << 31) - 1;
/// N1 of the RFCs: the ones of a column.
const WEIGHT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Park and Miller: Random number generators: good ones are hard to find, 1988, page 1195; RFC 5170 has
    /// it too.
    #[test]
    fn the_generator_is_the_minimal_standard() {
        let mut random = Minimal::new(1);
        for _ in 0..10_000 {
            random.below(1);
        }
        assert_eq!(random.0, 1_043_618_065);
    }

    /// The scaled values of RFC 5170 §5.7, which are computed in floating point there.
    #[test]
    fn scaling_in_integers_is_scaling_in_floating_point() {
        let mut random = Minimal::new(42);
        for i in 0..200_000_u32 {
            let bound = 1 + i % 7000;
            let scaled = random.below(bound);
            assert_eq!(scaled, (f64::from(bound) * random.0 as f64 / PRIME as f64) as u32);
            assert!(scaled < bound);
        }
    }

    #[test]
    fn columns_have_three_ones_and_rows_are_equally_heavy() {
        for (k, m, seed) in [(100, 50, 1), (1000, 100, 2), (800, 120, 77), (2000, 2000, 5)] {
            let matrix = Matrix::new(k, m, seed);
            assert_eq!(matrix.rows(0, m - 1).len(), 3 * k as usize);
            for column in 0..k {
                let ones = matrix.column(column);
                assert_eq!(ones.len(), 3);
                assert!(ones[0] < ones[1] && ones[1] < ones[2], "{ones:?}");
                assert!(ones.iter().all(|&row| matrix.rows(row, row).contains(&column)));
            }
            // The stock has each row 3k/m times, but for its last columns, which may not find three rows in
            // it.
            let mean = (3 * k).div_ceil(m) as usize;
            let heavy = (0..m).filter(|&row| matrix.rows(row, row).len().abs_diff(mean) > 1).count();
            assert!(heavy <= 3, "{heavy} of {m}");
        }
    }

    #[test]
    fn no_row_has_less_than_two() {
        for (k, m, seed) in [(2, 3, 1), (2, 1024, 9), (3, 50, 2), (7, 3, 3), (255, 1024, 1)] {
            let matrix = Matrix::new(k, m, seed);
            assert!((0..m).all(|row| matrix.rows(row, row).len() >= 2), "{k} {m}");
        }
    }
}
