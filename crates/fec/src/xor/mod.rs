//! XOR: repair symbols that are plain sums of source symbols, over interleaved classes or over a grid.
//!
//! It is the cheapest of codes, and its repair symbols need no number of sources beforehand: a block may grow
//! while repair symbols of what it had go out. What it repairs depends on where the losses are:
//!
//! * [`XorLayout::Interleaved`]: repair symbol i is the sum of the sources j with j mod depth = i. One loss
//!   in each class is repaired, so any burst of up to `depth` losses.
//! * [`XorLayout::Grid`]: sources fill rows of `columns` symbols, the last row perhaps in part. Repair
//!   symbols are sums of columns, then of rows. A row or column with one loss is repaired, which may leave
//!   one loss in another, and so on (iterative decoding); four losses at the corners of a rectangle stay.

mod decoder;
mod encoder;

pub use decoder::{Decoder, Error};
pub use encoder::{Encoder, encode};

/// Which sources a repair symbol is the sum of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XorLayout {
    /// Classes of every `depth`-th source; 0 counts as 1.
    Interleaved {
        /// Number of classes, and of repair symbols.
        depth: usize,
    },
    /// Rows of `columns` sources; 0 counts as 1.
    Grid {
        /// Length of a row. Repair symbols below it are columns, those from it on rows.
        columns: usize,
    },
}

impl XorLayout {
    /// How many repair symbols `count` sources have. Where there are fewer sources than classes or columns,
    /// those without a source count too, as sums of nothing.
    pub fn repairs(self, count: usize) -> usize {
        match self {
            Self::Interleaved { depth } => depth.max(1),
            Self::Grid { columns } => columns.max(1).saturating_add(count.div_ceil(columns.max(1))),
        }
    }

    /// The sources, of `count`, that repair symbol `index` is the sum of. None for an index without a
    /// meaning.
    pub fn terms(self, count: usize, index: usize) -> impl Iterator<Item = usize> + Clone {
        let (first, step, end) = match self {
            Self::Interleaved { depth } if index < depth.max(1) => (index, depth.max(1), count),
            Self::Interleaved { .. } => (count, 1, count),
            Self::Grid { columns } if index < columns.max(1) => (index, columns.max(1), count),
            Self::Grid { columns } => {
                let columns = columns.max(1);
                let first = (index - columns).saturating_mul(columns);
                (first, 1, count.min(first.saturating_add(columns)))
            }
        };
        (first..end.max(first)).step_by(step)
    }

    /// The repair symbols that source `j` is part of: its class, or its column and its row.
    fn repairs_of(self, j: usize) -> impl Iterator<Item = usize> {
        let (first, second) = match self {
            Self::Interleaved { depth } => (j % depth.max(1), None),
            Self::Grid { columns } => (j % columns.max(1), (j / columns.max(1)).checked_add(columns.max(1))),
        };
        core::iter::once(first).chain(second)
    }
}

#[cfg(test)]
mod tests;
