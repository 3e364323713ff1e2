//! One message being filled.

use bytes::Bytes;
use quickset_rfb::{CopyRect, Rect};

use super::flights::ItemEffect;
use super::touched::Touched;
use crate::codec::{ItemKind, MAX_DECODED, max_written};
use crate::message::PutFields;

/// An encoded item.
#[derive(Debug)]
pub(super) struct EncodedItem {
    pub(super) kind: ItemKind,
    pub(super) bytes: Vec<u8>,
    pub(super) writes: Rect,
    pub(super) reads: Option<Rect>,
    /// It is pixels that cut cells, and has the sum of versions behind it (DT-85).
    pub(super) patches: bool,
}

/// Items of one message.
#[derive(Debug)]
pub(super) struct ItemBundle {
    bytes: Vec<u8>,
    header: usize,
    budget: usize,
    next: u64,
    /// DT-16: pixels that may still be decoded, and written.
    decode_left: usize,
    write_left: usize,
    pub(super) touched: Touched,
    /// Where its first pixels are, copies apart.
    pub(super) leader: Option<Rect>,
    /// It may not overtake what was sent since the last fence, or be overtaken by it.
    pub(super) conflicts: bool,
    pub(super) ends_update: bool,
}

impl ItemBundle {
    pub(super) fn new(budget: usize, epoch: u64, next: u64, bounds: Rect) -> Self {
        let mut bytes = Vec::with_capacity(budget);
        bytes.put_varint(epoch);
        bytes.put_varint(next);
        Self {
            header: bytes.len(),
            bytes,
            budget,
            next,
            decode_left: MAX_DECODED,
            write_left: max_written(bounds),
            touched: Touched::nothing(),
            leader: None,
            conflicts: false,
            ends_update: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() == self.header
    }

    /// The number of the next item.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that another item may have.
    pub(super) fn room(&self) -> usize {
        self.budget - self.bytes.len()
    }

    /// Bytes that an item may have at all, so that it fits a message of its own.
    pub(super) fn most(&self) -> usize {
        // The header of the next message may be longer than this one's.
        self.budget - MAX_HEADER
    }

    pub(super) fn admits(&self, item: &EncodedItem) -> bool {
        let (decoded, written) = item.weight();
        self.is_empty()
            || item.bytes.len() <= self.room() && decoded <= self.decode_left && written <= self.write_left
    }

    pub(super) fn push(&mut self, item: &EncodedItem) {
        let (decoded, written) = item.weight();
        self.decode_left = self.decode_left.saturating_sub(decoded);
        self.write_left = self.write_left.saturating_sub(written);
        self.touched.add(item.writes, item.reads);
        if self.leader.is_none() && item.reads.is_none() {
            self.leader = Some(item.writes);
        }
        self.bytes.extend_from_slice(&item.bytes);
        self.next += 1;
    }

    pub(super) fn finish(self) -> Bytes {
        debug_assert!(self.bytes.len() <= self.budget);
        self.bytes.into()
    }
}

impl EncodedItem {
    /// What it does to cells.
    pub(super) fn effect(&self) -> ItemEffect {
        ItemEffect { writes: self.writes, reads: self.reads, patches: self.patches }
    }

    /// Pixels to decode, and to write.
    fn weight(&self) -> (usize, usize) {
        let area = self.writes.area();
        (if matches!(self.kind, ItemKind::Solid | ItemKind::Copy | ItemKind::Size) { 0 } else { area }, area)
    }
}

/// A copy, with the sum of versions in the order latest.
pub(super) fn copy(copy: CopyRect, versions: Option<u64>) -> EncodedItem {
    let mut bytes = Vec::with_capacity(32);
    bytes.put_u8(ItemKind::Copy as u8);
    bytes.put_rect(copy.to);
    bytes.put_varint(copy.x.into());
    bytes.put_varint(copy.y.into());
    if let Some(versions) = versions {
        bytes.put_u64(versions);
    }
    EncodedItem { kind: ItemKind::Copy, bytes, writes: copy.to, reads: Some(copy.from()), patches: false }
}

/// The message that begins an epoch.
pub(super) fn size(epoch: u64, item: u64, width: u16, height: u16) -> Bytes {
    let mut bytes = Vec::with_capacity(32);
    bytes.put_varint(epoch);
    bytes.put_varint(item);
    bytes.put_u8(ItemKind::Size as u8);
    bytes.put_varint(width.into());
    bytes.put_varint(height.into());
    bytes.into()
}

/// Bytes of a sum of versions.
pub(super) const SUM: usize = 8;
/// Epoch and number of an item.
const MAX_HEADER: usize = 16;
