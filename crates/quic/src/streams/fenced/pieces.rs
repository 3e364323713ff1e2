use std::collections::BTreeMap;

/// Bytes of a stream that wait for those before them, in pieces by offset that do not overlap.
///
/// Of two pieces that touch, at least one is large: a peer that sends byte by byte, in whatever order, does
/// not make us keep an entry for each.
#[derive(Debug, Default)]
pub(super) struct BytePieces(BTreeMap<u64, Vec<u8>>);

impl BytePieces {
    /// Adds bytes that are not there.
    pub(super) fn put(&mut self, mut offset: u64, data: &[u8]) {
        let before = self.0.range_mut(..offset).next_back();
        match before {
            Some((&start, piece)) if start + piece.len() as u64 == offset => {
                piece.extend_from_slice(data);
                offset = start;
            }
            _ => {
                self.0.insert(offset, data.to_vec());
            }
        }
        let mut pair = self.0.range_mut(offset..);
        if let (Some((&start, piece)), Some((&next, other))) = (pair.next(), pair.next()) {
            if touches(start, piece, next, other) {
                piece.append(other);
                self.0.remove(&next);
            }
        }
    }

    /// Takes the piece that begins at `offset`, when it is the first.
    pub(super) fn take(&mut self, offset: u64) -> Option<Vec<u8>> {
        let first = self.0.first_entry()?;
        (*first.key() == offset).then(|| first.remove())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of memory, about: with 16 for what an allocation costs, in nodes that are at least half full.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.0.values().map(|piece| piece.capacity() + 16 + 2 * size_of::<(u64, Vec<u8>)>()).sum()
    }
}

/// True when the second piece follows the first at once, and both are small enough to be one.
pub(super) fn touches(start: u64, piece: &[u8], next: u64, other: &[u8]) -> bool {
    start + piece.len() as u64 == next && piece.len() + other.len() <= LARGE
}

/// Pieces are not joined beyond this many bytes, for the work that it costs.
const LARGE: usize = 1024;
