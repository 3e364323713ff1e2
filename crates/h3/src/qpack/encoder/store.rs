use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use quickset_base::number::Unsigned as _;

use crate::qpack::table::{DynamicTable, TableEntry};

/// The encoder's copy of the table, with what is needed to find entries and to know which may be dropped.
#[derive(Debug, Default)]
pub(super) struct EncoderTable {
    table: DynamicTable,
    /// Lines in sections under way that refer to each entry, in the order of the table.
    references: VecDeque<u32>,
    /// Absolute indices by name, oldest first.
    by_name: HashMap<Bytes, VecDeque<u64>>,
    /// Sections to go during which room is being made.
    pressure: u8,
}

/// What the table has for a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hit {
    /// The newest entry with name and value that may be referred to.
    pub(super) line: Option<u64>,
    /// There is one, whether it may be referred to or not.
    pub(super) present: bool,
    /// The newest entry with the name that may be referred to.
    pub(super) name: Option<u64>,
    /// The newest entry with the name.
    pub(super) any_name: Option<u64>,
}

impl EncoderTable {
    pub(super) fn inserted(&self) -> u64 {
        self.table.inserted()
    }

    pub(super) fn capacity(&self) -> u64 {
        self.table.capacity()
    }

    pub(super) fn free(&self) -> u64 {
        self.table.free()
    }

    /// Entries below `limit` may be referred to.
    pub(super) fn find(&self, name: &[u8], value: &[u8], limit: u64) -> Hit {
        let mut hit = Hit::default();
        for &index in self.by_name.get(name).into_iter().flat_map(|indices| indices.iter().rev()) {
            hit.any_name = hit.any_name.or(Some(index));
            let usable = index < limit;
            if usable {
                hit.name = hit.name.or(Some(index));
            }
            if self.table.get(index).is_some_and(|entry| entry.value == value) {
                hit.present = true;
                if usable {
                    hit.line = Some(index);
                    break;
                }
            }
        }
        hit
    }

    /// Where an entry is among those that are there.
    fn place(&self, index: u64) -> usize {
        (index - self.table.dropped()).saturated()
    }

    /// Notes that a line refers to an entry.
    pub(super) fn hold(&mut self, index: u64) {
        let at = self.place(index);
        self.references[at] += 1;
    }

    /// Lines no longer refer to entries.
    pub(super) fn release(&mut self, indices: &[u64]) {
        for index in indices {
            let at = self.place(*index);
            self.references[at] -= 1;
        }
    }

    /// Whether an entry is among the oldest quarter while room is needed: then it should not be referred to
    /// again, so that it can go (RFC 9204 §2.1.1.1).
    pub(super) fn is_draining(&self, index: u64) -> bool {
        if self.pressure == 0 {
            return false;
        }
        // What would be dropped before it can be.
        let mut before = self.free();
        let mut older = self.table.iter().take(self.place(index));
        older.all(|entry| {
            before += entry.size();
            before < self.capacity() / 4
        })
    }

    /// A section is done.
    pub(super) fn ease(&mut self) {
        self.pressure = self.pressure.saturating_sub(1);
    }

    /// Whether an entry of `size` bytes can be inserted: nothing goes for it that is referred to, or not
    /// known to have arrived (RFC 9204 §2.1.1).
    pub(super) fn has_room(&mut self, size: u64, known: u64) -> bool {
        if size > self.capacity() {
            return false;
        }
        if size <= self.free() {
            return true;
        }
        self.pressure = PRESSURE;
        self.can_shrink_to(self.capacity() - size, known)
    }

    /// Adds an entry for which there is room, and returns its index.
    pub(super) fn insert(&mut self, name: Bytes, value: Bytes) -> u64 {
        let index = self.table.inserted();
        let entry = TableEntry { name, value };
        while self.table.free() < entry.size() {
            self.drop_oldest();
        }
        self.by_name.entry(entry.name.clone()).or_default().push_back(index);
        let fits = self.table.insert(entry);
        debug_assert!(fits, "an entry without room");
        self.references.push_back(0);
        index
    }

    /// Adds a copy of an entry, for which there is room, and returns its index.
    pub(super) fn duplicate(&mut self, index: u64) -> u64 {
        let entry = self.table.get(index).expect("an entry that was found");
        let (name, value) = (entry.name.clone(), entry.value.clone());
        self.insert(name, value)
    }

    /// False, and nothing happens, when entries would go that may not.
    pub(super) fn set_capacity(&mut self, capacity: u64, known: u64) -> bool {
        if !self.can_shrink_to(capacity, known) {
            return false;
        }
        while self.table.capacity() - self.table.free() > capacity {
            self.drop_oldest();
        }
        self.table.set_capacity(capacity);
        true
    }

    fn can_shrink_to(&self, size: u64, known: u64) -> bool {
        let mut used = self.table.capacity() - self.table.free();
        let mut oldest = self.table.iter().zip(&self.references).zip(self.table.dropped()..);
        while used > size {
            match oldest.next() {
                Some(((entry, 0), index)) if index < known => used -= entry.size(),
                _ => return false,
            }
        }
        true
    }

    fn drop_oldest(&mut self) {
        let Some(entry) = self.table.pop() else { return };
        self.references.pop_front();
        if let Some(indices) = self.by_name.get_mut(&entry.name) {
            // Indices of one name go in the order in which they came.
            indices.pop_front();
            if indices.is_empty() {
                self.by_name.remove(&entry.name);
            }
        }
    }
}

/// Sections for which old entries are avoided after room was needed.
const PRESSURE: u8 = 8;
