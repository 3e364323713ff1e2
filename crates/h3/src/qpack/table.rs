use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

/// What an entry costs beside its name and value (RFC 9204 §3.2.1), in bytes.
pub(super) const OVERHEAD: u64 = 32;

/// A field line of the dynamic table.
#[derive(Clone, Debug)]
pub(super) struct TableEntry {
    pub(super) name: Bytes,
    pub(super) value: Bytes,
}

impl TableEntry {
    /// RFC 9204 §3.2.1.
    pub(super) fn size(&self) -> u64 {
        entry_size(&self.name, &self.value)
    }
}

pub(super) fn entry_size(name: &[u8], value: &[u8]) -> u64 {
    (name.len() + value.len()) as u64 + OVERHEAD
}

/// The dynamic table, first in, first out (RFC 9204 §3.2). Indices are absolute: the first entry ever is 0.
#[derive(Debug, Default)]
pub(super) struct DynamicTable {
    /// Shared, as a duplicate is the same once more.
    entries: VecDeque<Arc<TableEntry>>,
    inserted: u64,
    size: u64,
    capacity: u64,
}

impl DynamicTable {
    /// Entries ever inserted: the absolute index of the next one.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Entries ever dropped: the absolute index of the oldest one.
    pub(super) fn dropped(&self) -> u64 {
        self.inserted - self.entries.len() as u64
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that an entry may have without another being dropped.
    pub(super) fn free(&self) -> u64 {
        self.capacity - self.size
    }

    pub(super) fn get(&self, index: u64) -> Option<&Arc<TableEntry>> {
        let at = index.checked_sub(self.dropped())?;
        self.entries.get(usize::try_from(at).ok()?)
    }

    /// The entry `relative` before the newest (RFC 9204 §3.2.5, encoder instructions).
    pub(super) fn newest(&self, relative: u64) -> Option<&Arc<TableEntry>> {
        self.get(self.inserted.checked_sub(relative)?.checked_sub(1)?)
    }

    /// Entries from the oldest to the newest.
    pub(super) fn iter(&self) -> impl Iterator<Item = &TableEntry> {
        self.entries.iter().map(|entry| &**entry)
    }

    /// Drops the oldest entry.
    pub(super) fn pop(&mut self) -> Option<Arc<TableEntry>> {
        let entry = self.entries.pop_front()?;
        self.size -= entry.size();
        Some(entry)
    }

    /// Drops what does not fit, oldest first.
    pub(super) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        while self.size > capacity {
            self.pop();
        }
    }

    /// Makes room and adds an entry. False, and nothing happens, when it is larger than the table.
    pub(super) fn insert(&mut self, entry: impl Into<Arc<TableEntry>>) -> bool {
        let entry = entry.into();
        let size = entry.size();
        if size > self.capacity {
            return false;
        }
        while self.free() < size {
            self.pop();
        }
        self.size += size;
        self.inserted += 1;
        self.entries.push_back(entry);
        true
    }
}
