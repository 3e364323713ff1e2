//! What comes of runs: [`Row`]s, how they are computed from what was seen, kept, and read again.
//!
//! A results directory holds for each experiment `NAME.rows`, the journal: a line of JSON a run, appended
//! when the run ends, so that a killed sweep loses nothing and repeats nothing; and, made from all of it at
//! the end, `NAME.csv` (and `NAME.parquet`, with the feature `parquet`). One run at a time writes a journal.
//! Shards of a plan keep journals of their own, `NAME.2of8.rows`: reading takes all of them, joining makes
//! one.

mod courses;
mod expectation;
mod flat;
mod fluid;
mod histogram;
mod join;
mod journal;
mod loads;
mod measure;
mod order;
#[cfg(feature = "parquet")]
mod parquet;
mod row;
mod sharing;
mod table;
mod viewing;

pub(crate) use flat::flat;
pub use flat::{columns, write_csv};
pub use histogram::Histogram;
pub(crate) use join::same;
pub use join::{JoinError, JoinedRows, keep_rows, merge, read_results, write_tables};
pub use journal::{Journal, JournalError, VERSION, journal_name, read_journal};
pub use loads::{Loads, ResourceLoad};
pub use measure::{Yardstick, measure};
pub use order::sort;
pub(crate) use row::identity;
pub use row::{
    CallsCarried, Costs, CountedPackets, Detail, Emulation, Promptness, RepairShare, Row, RunMetrics,
    ServedShare, SpentOn, Times, Timings,
};
pub use table::{Cells, TableColumn, table};
pub use viewing::Viewing;
