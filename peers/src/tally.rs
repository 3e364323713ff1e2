//! What a server was sent so far, and what its stack counts, for the thread that is asked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use quickset_stacks::StackCounts;
use serde::{Deserialize, Serialize};

/// Streams, messages or datagrams that were sent, or that came whole and right, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct ArrivedSoFar {
    pub(crate) received_bytes: u64,
    pub(crate) received: u64,
}

impl ArrivedSoFar {
    /// What came since it was less.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            received_bytes: self.received_bytes - before.received_bytes,
            received: self.received - before.received,
        }
    }
}

/// Of this process.
pub(crate) static TALLY: ServerTally =
    ServerTally { bytes: AtomicU64::new(0), count: AtomicU64::new(0), counts: Mutex::new(None) };

/// One for all connections.
pub(crate) struct ServerTally {
    bytes: AtomicU64,
    count: AtomicU64,
    counts: Mutex<Option<StackCounts>>,
}

impl ServerTally {
    pub(crate) fn add(&self, bytes: u64, count: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn received(&self) -> ArrivedSoFar {
        let [received_bytes, received] =
            [&self.bytes, &self.count].map(|count| count.load(Ordering::Relaxed));
        ArrivedSoFar { received_bytes, received }
    }

    /// Sets what the stack has counted: of all connections together.
    pub(crate) fn set_counts<'a>(&self, each: impl Iterator<Item = &'a StackCounts>) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = each.copied().reduce(StackCounts::with);
    }

    pub(crate) fn counts(&self) -> Option<StackCounts> {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
