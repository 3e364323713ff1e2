use std::ops::Range;

use bytes::{Bytes, BytesMut};
use quickset_base::number::index;

use super::ranges::Ranges;
use super::short_queue::ShortQueue;

/// What was written to a stream and is not yet acknowledged.
///
/// Pieces are kept as they were given. New data is read by a cursor in O(1); only resends search. The
/// acknowledged prefix is let go piece by piece.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    /// The pieces from the one with byte `base` on.
    pieces: ShortQueue<SendPiece>,
    /// Small writes behind the last piece, more than one, gathered until they are sent.
    tail: BytesMut,
    /// All below is acknowledged.
    base: u64,
    /// All below was sent.
    next: u64,
    /// All below was written.
    end: u64,
    /// The piece with byte `next`; the number of pieces when there is none.
    cursor: usize,
    /// Acknowledged above `base`.
    acked: Ranges,
    /// Sent, lost, and not sent again.
    lost: Ranges,
}

#[derive(Debug)]
struct SendPiece {
    offset: u64,
    bytes: Bytes,
}

impl SendPiece {
    #[inline]
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl SendBuffer {
    /// Bytes held, sent or not.
    #[inline]
    pub(super) fn queued(&self) -> u64 {
        self.end - self.base
    }

    #[inline]
    pub(super) fn unsent(&self) -> u64 {
        self.end - self.next
    }

    /// Where new data begins.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The offset behind the last byte written.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    #[inline]
    pub(super) fn is_acked(&self) -> bool {
        self.base == self.end
    }

    /// The first range to send again.
    #[inline]
    pub(super) fn lost_range(&self) -> Option<Range<u64>> {
        self.lost.first()
    }

    /// Bytes to send again.
    #[inline]
    pub(super) fn lost_bytes(&self) -> u64 {
        self.lost.bytes()
    }

    /// True when something of `range`, all of which was sent, is not acknowledged.
    pub(super) fn misses(&self, range: Range<u64>) -> bool {
        !self.acked.covers(range.start.max(self.base)..range.end)
    }

    /// Takes `bytes` without a copy, unless they are few and others wait that they can be sent with.
    pub(super) fn push(&mut self, bytes: Bytes) {
        let len = bytes.len() as u64;
        if bytes.len() < SMALL && self.has_unsent() {
            if self.tail.len() + bytes.len() > TAIL {
                self.flush();
            }
            self.gather_last();
            self.tail.extend_from_slice(&bytes);
        } else {
            self.flush();
            self.pieces.push_back(SendPiece { offset: self.end, bytes });
        }
        self.end += len;
    }

    /// Fills `out` with the next unsent bytes, of which there must be as many.
    pub(super) fn send_new(&mut self, out: &mut [u8]) {
        self.flush();
        let mut rest = out;
        while !rest.is_empty() {
            let piece = &self.pieces[self.cursor];
            let from = index(self.next - piece.offset);
            let n = rest.len().min(piece.bytes.len() - from);
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&piece.bytes[from..from + n]);
            rest = later;
            self.next += n as u64;
            if self.next == piece.end() {
                self.cursor += 1;
            }
        }
    }

    /// The offset of the piece that has all of the next `n` unsent bytes, if there is one.
    #[inline]
    pub(super) fn next_piece(&self, n: usize) -> Option<u64> {
        let piece = self.pieces.get(self.cursor)?;
        (n > 0 && self.next + n as u64 <= piece.end()).then_some(piece.offset)
    }

    /// The next `n` unsent bytes, which lie in one piece, and are sent.
    #[inline]
    pub(super) fn pass(&mut self, n: usize) -> &[u8] {
        let piece = &self.pieces[self.cursor];
        let from = index(self.next - piece.offset);
        self.next += n as u64;
        if self.next == piece.end() {
            self.cursor += 1;
        }
        &piece.bytes[from..from + n]
    }

    /// The piece at `offset`, which is not acknowledged as a whole.
    pub(super) fn piece(&self, offset: u64) -> Option<Bytes> {
        let at = self.pieces.partition_point(|piece| piece.offset < offset);
        self.pieces.get(at).filter(|piece| piece.offset == offset).map(|piece| piece.bytes.clone())
    }

    /// Fills `out` with the bytes at `offset`, which were sent before, and takes them for sent again.
    pub(super) fn resend(&mut self, offset: u64, out: &mut [u8]) {
        let end = offset + out.len() as u64;
        let mut at = self.pieces.partition_point(|piece| piece.end() <= offset);
        let mut from = index(offset - self.pieces[at].offset);
        let mut rest = out;
        while !rest.is_empty() {
            let bytes = &self.pieces[at].bytes;
            let n = rest.len().min(bytes.len() - from);
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&bytes[from..from + n]);
            rest = later;
            from = 0;
            at += 1;
        }
        self.lost.remove(offset..end);
    }

    pub(super) fn acked(&mut self, range: Range<u64>) {
        debug_assert!(range.end <= self.next, "only what was sent can be acknowledged");
        if !self.lost.is_empty() {
            self.lost.remove(range.clone());
        }
        if range.start > self.base {
            self.acked.insert(range);
            return;
        }
        self.base = self.base.max(range.end);
        while let Some(first) = self.acked.first().filter(|first| first.start <= self.base) {
            self.base = self.base.max(first.end);
            self.acked.pop_first();
        }
        while self.pieces.front().is_some_and(|piece| piece.end() <= self.base) {
            self.pieces.pop_front();
            self.cursor -= 1;
        }
    }

    pub(super) fn lost(&mut self, range: Range<u64>) {
        let range = range.start.max(self.base)..range.end;
        self.lost.insert_except(range, &self.acked);
    }

    /// Of what was sent, only what lies below `keep` has to arrive; of the rest, only that is sent.
    pub(super) fn cut(&mut self, keep: u64) {
        self.truncate(keep.max(self.next));
        if keep < self.next {
            // Nobody waits for it: it is as good as there.
            self.acked(keep..self.next);
        }
    }

    /// Drops what was written from `end` on, none of which was sent.
    fn truncate(&mut self, end: u64) {
        self.flush();
        while let Some(last) = self.pieces.back_mut().filter(|last| last.end() > end) {
            if last.offset < end {
                last.bytes.truncate(index(end - last.offset));
            } else {
                self.pieces.pop_back();
            }
        }
        self.end = self.end.min(end);
        if self.next >= self.end {
            self.cursor = self.pieces.len();
        }
    }

    /// Takes everything below `end` for unsent, and drops the rest. Nothing may have been acknowledged but by
    /// [`cut`](Self::cut).
    pub(super) fn rewind(&mut self, end: u64) {
        debug_assert!(
            self.base == 0 && self.acked.iter().all(|r| r.start >= end),
            "what was acknowledged was read"
        );
        self.acked = Ranges::default();
        self.truncate(end);
        self.next = 0;
        self.cursor = 0;
        self.lost = Ranges::default();
    }

    /// Drops all data; the offsets stay.
    pub(super) fn clear(&mut self) {
        *self = Self { base: self.next, next: self.next, end: self.next, ..Self::default() };
    }

    pub(super) fn check(&self) {
        assert!(self.base <= self.next && self.next <= self.end, "{self:?}");
        assert!(self.cursor <= self.pieces.len(), "{self:?}");
        assert!(self.lost.iter().all(|r| self.base <= r.start && r.end <= self.next), "{self:?}");
        assert!(self.acked.iter().all(|r| self.base < r.start && r.end <= self.next), "{self:?}");
        let held = self.pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>() + self.tail.len();
        assert!(held as u64 >= self.queued(), "{self:?}");
    }

    /// Something waits that what is written next may be sent with.
    #[inline]
    fn has_unsent(&self) -> bool {
        self.next < self.end
    }

    /// The last piece may be as small as what follows it, and nothing of it sent: then it goes into the tail.
    fn gather_last(&mut self) {
        let is_small = |piece: &SendPiece| piece.offset >= self.next && piece.bytes.len() < SMALL;
        if self.tail.is_empty() && self.pieces.back().is_some_and(is_small) {
            if let Some(last) = self.pieces.pop_back() {
                self.tail.extend_from_slice(&last.bytes);
            }
        }
    }

    #[inline]
    fn flush(&mut self) {
        if !self.tail.is_empty() {
            let bytes = self.tail.split().freeze();
            self.pieces.push_back(SendPiece { offset: self.end - bytes.len() as u64, bytes });
        }
    }
}

/// Shorter writes that wait together are copied together: a piece costs 40 bytes and an allocation of its
/// own.
const SMALL: usize = 256;

/// Bytes of small writes gathered in one piece.
const TAIL: usize = 4096;
