//! What comes of runs: [`Row`]s, how they are computed from what was seen, kept, and read again.
//!
//! A results directory holds for each experiment `NAME.rows`, the journal: a line of JSON a run, appended when the run ends,
//! so that a killed sweep loses nothing and repeats nothing; and, made from it at the end, `NAME.csv`.

mod csv;
mod histogram;
mod journal;
mod measure;
mod row;

pub use csv::{columns, write_csv};
pub use histogram::Histogram;
pub use journal::{Journal, JournalError, VERSION, read_journal};
pub use measure::{Yardstick, measure};
pub(crate) use row::identity;
pub use row::{Counted, Detail, Metrics, Row, Times};
