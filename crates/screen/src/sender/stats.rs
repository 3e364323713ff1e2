//! What was sent, by kind.

use crate::codec::ItemKind;

/// Counts since the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Screen messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of the longest.
    pub longest: usize,
    /// Fences.
    pub fences: u64,
    /// Pieces that were encoded, did not fit a message, and were halved.
    pub retries: u64,
    /// The quality of JPEG of the last piece that moved like a film, and of the last one that did not; 0
    /// before there was one.
    pub moving_quality: u8,
    /// See [`moving_quality`](Self::moving_quality).
    pub still_quality: u8,
    kinds: [ItemCount; ItemKind::ALL.len()],
}

/// Items of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCount {
    /// How many.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The pixels they write.
    pub pixels: u64,
}

impl SenderStats {
    /// Items of one kind.
    pub fn of(&self, kind: ItemKind) -> ItemCount {
        self.kinds[kind as usize]
    }

    pub(super) fn message(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
        self.longest = self.longest.max(bytes);
    }

    pub(super) fn quality(&mut self, moves: bool, quality: u8) {
        *(if moves { &mut self.moving_quality } else { &mut self.still_quality }) = quality;
    }

    pub(super) fn item(&mut self, kind: ItemKind, bytes: usize, pixels: usize) {
        let count = &mut self.kinds[kind as usize];
        count.items += 1;
        count.bytes += bytes as u64;
        count.pixels += pixels as u64;
    }
}
