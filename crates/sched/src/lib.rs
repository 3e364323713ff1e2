//! Who sends next: hierarchical max-min fair scheduling with strict urgencies.

#![forbid(unsafe_code)]

mod deadlines;
mod priority;
mod tree;

pub use deadlines::{Deadlines, Message, MessageId};
pub use priority::{Priority, Weight};
pub use tree::{ClassId, Error, MAX_DEPTH, Tree};
