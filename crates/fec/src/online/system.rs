//! The coefficients of what is stored: Gaussian elimination without payload.
//!
//! A column is a missing symbol, a row a sum of stored repair symbols. Each row keeps two vectors: what it
//! says of the columns, and of which stored repair symbols it is the sum. Rows are kept reduced: each has a
//! pivot, a column that is 1 there and 0 in all others. A row with no column but its pivot is *ready*: the
//! missing symbol is the row's sum of stored repair symbols, once their payload has been rid of the symbols
//! that are known.

use alloc::vec::Vec;

use crate::gf256::{self, Kernel};
use crate::symbols::bits;

/// Columns and stored repair symbols are told by their places, and rows are in no order.
pub(super) struct OnlineSystem {
    rows: Vec<EquationRow>,
    /// The columns in use, by the numbers of their symbols, ascending.
    columns: Vec<(u64, usize)>,
    sids: [u64; COLUMNS],
    used: u64,
    limit: usize,
    kernel: Kernel,
    operations: u64,
}

struct EquationRow {
    /// Coefficients of the columns, then of the stored repair symbols.
    vector: [u8; COLUMNS + STORED],
    /// Which columns have a coefficient that is not 0.
    mask: u64,
    pivot: usize,
    /// Its pivot has been computed; it waits for [`OnlineSystem::settle`].
    done: bool,
}

impl OnlineSystem {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            rows: Vec::new(),
            columns: Vec::new(),
            sids: [0; COLUMNS],
            used: 0,
            limit: limit.min(COLUMNS),
            kernel: Kernel::best(),
            operations: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The column of a missing symbol that a stored repair symbol names.
    pub(super) fn column(&self, sid: u64) -> Option<usize> {
        let at = self.columns.binary_search_by_key(&sid, |&(sid, _)| sid).ok()?;
        Some(self.columns[at].1)
    }

    /// How many missing symbols, ascending, have no column.
    pub(super) fn unopened(&self, missing: &[u64]) -> usize {
        let mut at = 0;
        let is_open = |&&sid: &&u64| {
            at = self.past(at, sid);
            self.columns.get(at).is_some_and(|&(other, _)| other == sid)
        };
        missing.len() - missing.iter().filter(is_open).count()
    }

    /// How many columns can still be opened.
    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.columns.len())
    }

    /// Whether all missing symbols that have a column are determined, so that no equation over them says
    /// anything new.
    pub(super) fn is_full(&self) -> bool {
        self.live().count() == self.columns.len()
    }

    /// Additions of one row to another since the beginning.
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    /// Takes an equation, stored at `place`, over missing symbols, ascending; there is [`room`](Self::room)
    /// for those that have no column. False if it says nothing new; then nothing has changed.
    ///
    /// What it says of the columns is found first. Most of what a row has is of which stored repair symbols
    /// it is the sum, and that is of interest only if it says something new.
    pub(super) fn add(&mut self, terms: &[(u64, u8)], place: usize) -> bool {
        let mut row = EquationRow { vector: [0; COLUMNS + STORED], mask: 0, pivot: 0, done: false };
        row.vector[COLUMNS + place] = 1;
        let mut at = 0;
        for &(sid, coefficient) in terms {
            at = self.past(at, sid);
            let column = match self.columns.get(at) {
                Some(&(other, column)) if other == sid => column,
                _ => self.open(at, sid),
            };
            row.vector[column] = coefficient;
        }
        // Pivots are 0 in each other's rows: all can be removed at once.
        let removed: Vec<&EquationRow> = self.live().filter(|other| row.vector[other.pivot] != 0).collect();
        let factors: Vec<u8> = removed.iter().map(|other| row.vector[other.pivot]).collect();
        let operations = removed.len() as u64;
        let (says, sum) = row.vector.split_at_mut(COLUMNS);
        let others: Vec<&[u8]> = removed.iter().map(|other| &other.vector[..COLUMNS]).collect();
        self.kernel.gather(says, &factors, &others);
        let is_news = says.iter().any(|&coefficient| coefficient != 0);
        if is_news {
            let sums: Vec<&[u8]> = removed.iter().map(|other| other.sum()).collect();
            self.kernel.gather(sum, &factors, &sums);
        }
        self.operations += operations;
        if !is_news {
            // A column that was opened for it would not be 0: none was.
            return false;
        }
        row.scan();
        row.take_pivot(row.mask.trailing_zeros() as usize, self.kernel);
        self.eliminate(&row, row.pivot);
        self.rows.push(row);
        true
    }

    /// A row that is ready: its pivot's column and symbol.
    pub(super) fn ready(&self) -> impl Iterator<Item = SolvedSymbol<'_>> {
        self.live().filter(|row| row.mask.is_power_of_two()).map(|row| SolvedSymbol {
            column: row.pivot,
            sid: self.sids[row.pivot],
            sum: row.sum(),
        })
    }

    /// The places of the stored repair symbols that rows that are ready are sums of.
    pub(super) fn ready_places(&self) -> u128 {
        self.ready().fold(0, |places, ready| places | mask_of(ready.sum))
    }

    /// The symbol of `column` was computed from its ready row. Other rows do not name it.
    pub(super) fn done(&mut self, column: usize) {
        let row = self.rows.iter_mut().find(|row| row.pivot == column && !row.done);
        row.expect("a ready row has this pivot").done = true;
    }

    /// Frees a stored repair symbol for each row that is done, and its column. Returns the places of those
    /// that no row is a sum of any more, and the symbols that are known now.
    ///
    /// The other rows may be sums of those stored repair symbols too. They are changed not to be; for that
    /// they name the column again, whose symbol is known now, so that it is to be removed from the payload
    /// instead.
    pub(super) fn settle(&mut self) -> (u128, Vec<u64>) {
        if self.rows.iter().all(|row| !row.done) {
            return (0, Vec::new());
        }
        let (mut left, mut columns, mut sids) = (0, 0, Vec::new());
        while let Some(at) = self.rows.iter().position(|row| row.done) {
            let row = self.rows.swap_remove(at);
            sids.push(self.close(row.pivot));
            columns |= 1 << row.pivot;
            left |= mask_of(row.sum());
            self.release(&row);
        }
        // What the sums brought back of the columns that are known now.
        self.clear(columns);
        (self.unused(left), sids)
    }

    /// The symbol of `column` came. Returns the places of stored repair symbols that no row is a sum of any
    /// more.
    pub(super) fn known(&mut self, column: usize) -> u128 {
        self.close(column);
        let at = self.rows.iter().position(|row| row.pivot == column && !row.done);
        self.clear(1 << column);
        let Some(at) = at else { return 0 };
        let mut row = self.rows.swap_remove(at);
        if row.mask == 0 {
            self.release(&row);
            return self.unused(mask_of(row.sum()));
        }
        row.take_pivot(row.mask.trailing_zeros() as usize, self.kernel);
        self.eliminate(&row, row.pivot);
        self.rows.push(row);
        0
    }

    /// The missing symbols below `sid` will never be known: for each of them one row is given up to rid the
    /// others of it. Returns the places of stored repair symbols that no row is a sum of any more. No row is
    /// done.
    pub(super) fn expire_below(&mut self, sid: u64) -> u128 {
        self.give_up_columns(|_, other| other < sid)
    }

    /// The same for those that nobody waits for any more, but for what is ready. No row is done.
    pub(super) fn give_up_below(&mut self, sid: u64) -> u128 {
        self.give_up_columns(|system, other| other < sid && system.ready().all(|ready| ready.sid != other))
    }

    fn give_up_columns(&mut self, which: impl Fn(&Self, u64) -> bool) -> u128 {
        let mut places = 0;
        while let Some(&(_, column)) = self.columns.iter().find(|(sid, _)| which(self, *sid)) {
            self.close(column);
            if let Some(at) = self.rows.iter().position(|row| row.mask >> column & 1 == 1) {
                places |= self.give_up(at, column);
            }
        }
        places
    }

    /// Rids all rows of the stored repair symbol at `place`, at the price of one row. Returns as
    /// [`expire_below`](Self::expire_below).
    pub(super) fn forget(&mut self, place: usize) -> u128 {
        let Some(at) = self.rows.iter().position(|row| row.vector[COLUMNS + place] != 0) else { return 0 };
        self.give_up(at, COLUMNS + place)
    }

    /// Makes the element at `at` zero in all other rows by means of row `row`, then drops this one.
    fn give_up(&mut self, row: usize, at: usize) -> u128 {
        let row = self.rows.swap_remove(row);
        self.eliminate(&row, at);
        // Columns that only this row named are open no more; another repair symbol may open them again.
        let named = self.rows.iter().fold(0, |mask, row| mask | row.mask);
        for column in bits(self.used & !named) {
            self.close(column);
        }
        self.unused(mask_of(row.sum()))
    }

    /// Rids all rows of one of the stored repair symbols that `row` is a sum of.
    fn release(&mut self, row: &EquationRow) {
        let place = row.sum().iter().position(|&c| c != 0).expect("a row is a sum of something");
        self.eliminate(row, COLUMNS + place);
    }

    /// Subtracts from each row as much of `row` as makes the element at `at` zero. Rows that are done only
    /// follow in their sums.
    fn eliminate(&mut self, row: &EquationRow, at: usize) {
        let Some(inverse) = gf256::inv(row.vector[at]) else { return };
        let mut changed: Vec<&mut EquationRow> =
            self.rows.iter_mut().filter(|other| other.vector[at] != 0).collect();
        let factors: Vec<u8> = changed.iter().map(|other| gf256::mul(other.vector[at], inverse)).collect();
        let mut vectors: Vec<&mut [u8]> = changed.iter_mut().map(|other| &mut other.vector[..]).collect();
        self.kernel.scatter(&mut vectors, &factors, &row.vector);
        self.operations += factors.len() as u64;
        changed.into_iter().for_each(EquationRow::scan);
    }

    fn clear(&mut self, columns: u64) {
        for row in &mut self.rows {
            bits(columns).for_each(|column| row.vector[column] = 0);
            row.mask &= !columns;
        }
    }

    /// The place in `columns`, from `at` on, of the first that is not below `sid`. For several, ascending, it
    /// is faster than to search for each.
    fn past(&self, at: usize, sid: u64) -> usize {
        at + self.columns[at..].iter().take_while(|&&(other, _)| other < sid).count()
    }

    /// Opens a column at its place in `columns`.
    fn open(&mut self, at: usize, sid: u64) -> usize {
        let column = (!self.used).trailing_zeros() as usize;
        self.used |= 1 << column;
        self.sids[column] = sid;
        self.columns.insert(at, (sid, column));
        column
    }

    /// Returns the symbol that the column was for.
    fn close(&mut self, column: usize) -> u64 {
        self.used &= !(1 << column);
        self.columns.retain(|&(_, other)| other != column);
        self.sids[column]
    }

    fn live(&self) -> impl Iterator<Item = &EquationRow> {
        self.rows.iter().filter(|row| !row.done)
    }

    /// Those among the places that rows were sums of which left that no other row is a sum of.
    fn unused(&mut self, places: u128) -> u128 {
        self.operations += self.rows.len() as u64 / LOOKS;
        self.rows.iter().fold(places, |unused, row| unused & !mask_of(row.sum()))
    }
}

/// A missing symbol that can be computed.
pub(super) struct SolvedSymbol<'a> {
    pub(super) column: usize,
    pub(super) sid: u64,
    /// By what to multiply the stored repair symbols, by place.
    pub(super) sum: &'a [u8],
}

impl EquationRow {
    fn sum(&self) -> &[u8] {
        &self.vector[COLUMNS..]
    }

    fn scan(&mut self) {
        self.mask = (mask_of(&self.vector[..COLUMNS]) & 0xffff_ffff_ffff_ffff) as u64;
    }

    fn take_pivot(&mut self, column: usize, kernel: Kernel) {
        self.pivot = column;
        let inverse = gf256::inv(self.vector[column]).expect("a pivot is not 0");
        kernel.scale(&mut self.vector, inverse);
    }
}

/// Which of at most 128 elements, a multiple of 8, are not 0.
fn mask_of(vector: &[u8]) -> u128 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let eights =
        vector.chunks_exact(8).map(|eight| u64::from_le_bytes(eight.try_into().expect("they are 8")));
    eights.enumerate().fold(0, |mask, (i, eight)| {
        // The highest bit of each byte that is not 0, then those bits side by side.
        let high = (((eight & LOW) + LOW) | eight) & !LOW;
        mask | u128::from((high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i)
    })
}

/// Rows that can be looked at while one is added to another.
const LOOKS: u64 = 4;
/// The most missing symbols.
pub(super) const COLUMNS: usize = 64;
/// The most repair symbols that are stored. There are as many as rows, and one more for each missing symbol
/// that has left the window, until no row is a sum of it: twice as many as columns leaves room for all of
/// them to.
pub(super) const STORED: usize = 128;
