use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use quickset_base::number::index;

use super::gaps::most_ranges;
use super::ranges::Ranges;
use super::short_queue::ShortQueue;

/// Puts the bytes of a stream in order.
///
/// In-order data goes straight to the ready queue, without a copy unless it would pin much for little.
/// What comes too early is copied into blocks that stand for aligned stretches of the stream: however the
/// peer cuts and orders its frames, the blocks are never more than the flow-control window covers (and
/// one more), and the gaps between what came are counted and limited. Overlaps do no harm; whether
/// bytes that come twice are the same is not looked at (RFC 9000 §2.2 leaves it open).
#[derive(Debug, Default)]
pub(super) struct Assembler {
    ready: ShortQueue<Bytes>,
    /// Small pieces behind `ready`, gathered.
    tail: BytesMut,
    /// The next byte to be read.
    start: u64,
    /// The lowest byte missing.
    next: u64,
    /// What came above `next`.
    early: Ranges,
    /// The bytes of `early`, by offset / [`BLOCK`].
    blocks: BTreeMap<u64, StretchBlock>,
    /// Bytes are read wherever they lie, and these above `next` were.
    taken: Option<Box<Ranges>>,
}

/// Memory for the stretch of a stream from `base` to the end of the block.
#[derive(Debug)]
struct StretchBlock {
    base: u64,
    bytes: BytesMut,
}

/// More gaps than [`most_ranges`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyGaps;

impl Assembler {
    /// The next byte to be read: how many were.
    #[inline]
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// The lowest byte missing.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        self.start < self.next
    }

    /// Takes `data` at `offset`; `data` lies in `payload`. True when more can be read than before.
    #[inline]
    pub(super) fn insert(&mut self, offset: u64, data: &[u8], payload: &Bytes) -> Result<bool, TooManyGaps> {
        if self.taken.is_some() {
            return self.insert_loose(offset, data, payload);
        }
        self.insert_ordered(offset, data, payload)
    }

    /// From now on bytes are read with [`pop_loose`](Self::pop_loose). Nothing may have been read.
    pub(super) fn loosen(&mut self) {
        self.taken.get_or_insert_with(Box::default);
    }

    /// Whether [`loosen`](Self::loosen) was called.
    pub(super) fn is_loose(&self) -> bool {
        self.taken.is_some()
    }

    /// Bytes read that lie above the lowest one missing.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken.as_ref().map_or(0, |taken| taken.bytes())
    }

    /// Up to `max` bytes that came, each once, with their offset: the lowest there are.
    pub(super) fn pop_loose(&mut self, max: usize) -> Option<(u64, Bytes)> {
        let at = self.start;
        if let Some(bytes) = self.pop(max) {
            self.skip_taken();
            return Some((at, bytes));
        }
        let first = self.early.first().filter(|_| max > 0)?;
        let number = first.start / BLOCK;
        let block_end = (number + 1) * BLOCK;
        let end = first.end.min(block_end).min(first.start.saturating_add(max as u64));
        let block = self.blocks.get(&number).expect("early bytes have their block");
        // A copy: what fills the hole below may have to go into the same block.
        let from = index(first.start - block.base);
        let bytes = Bytes::copy_from_slice(&block.bytes[from..][..index(end - first.start)]);
        self.early.remove(first.start..end);
        let used = self.early.first().map_or(u64::MAX, |next| next.start / BLOCK);
        self.drop_blocks(used);
        if let Some(taken) = &mut self.taken {
            taken.insert(first.start..end);
        }
        Some((first.start, bytes))
    }

    #[inline(never)]
    fn insert_loose(&mut self, offset: u64, data: &[u8], payload: &Bytes) -> Result<bool, TooManyGaps> {
        let before = (self.next, self.early.bytes());
        let Some(taken) = self.taken.take() else { return Ok(false) };
        let mut news = Ranges::default();
        news.insert_except(offset..offset + data.len() as u64, &taken);
        let mut inserted = Ok(());
        for part in news.iter() {
            let data = &data[index(part.start - offset)..index(part.end - offset)];
            inserted = inserted.and(self.insert_ordered(part.start, data, payload).map(|_| ()));
        }
        let span = taken.end().map_or(0, |end| end.saturating_sub(self.next));
        let dense = taken.len() > most_ranges(span);
        self.taken = Some(taken);
        inserted?;
        if dense {
            return Err(TooManyGaps);
        }
        self.skip_taken();
        Ok(before != (self.next, self.early.bytes()))
    }

    /// When all in order was read: goes on behind what was read before.
    fn skip_taken(&mut self) {
        while self.start == self.next {
            let Some(taken) = &mut self.taken else { return };
            let Some(first) = taken.first().filter(|first| first.start <= self.next) else { return };
            taken.pop_first();
            self.next = self.next.max(first.end);
            self.start = self.next;
            self.release();
        }
    }

    #[inline]
    fn insert_ordered(&mut self, offset: u64, data: &[u8], payload: &Bytes) -> Result<bool, TooManyGaps> {
        let end = offset + data.len() as u64;
        if end <= self.next {
            return Ok(false);
        }
        if offset > self.next {
            return self.hold(offset, data).map(|()| false);
        }
        let news = &data[index(self.next - offset)..];
        if news.len() < SMALL || news.len() < payload.len() / 4 {
            self.append_copy(news);
        } else {
            self.append(payload.slice_ref(news));
        }
        self.next = end;
        if !self.early.is_empty() {
            self.release();
        }
        Ok(true)
    }

    /// Up to `max` bytes in order, as they lie.
    #[inline]
    pub(super) fn pop(&mut self, max: usize) -> Option<Bytes> {
        if max == 0 {
            return None;
        }
        let bytes = match self.ready.front_mut() {
            Some(front) if front.len() > max => front.split_to(max),
            Some(_) => self.ready.pop_front()?,
            None if self.tail.is_empty() => return None,
            // All of it goes with its buffer: the rest of that would be kept for nothing.
            None if self.tail.len() <= max => std::mem::take(&mut self.tail).freeze(),
            None => self.tail.split_to(max).freeze(),
        };
        self.start += bytes.len() as u64;
        Some(bytes)
    }

    /// Drops everything held. Where nothing was read, nothing was.
    pub(super) fn clear(&mut self) {
        let at = if self.start == 0 { 0 } else { self.next };
        *self = Self { start: at, next: at, ..Self::default() };
    }

    /// Drops what lies behind a hole.
    pub(super) fn drop_early(&mut self) {
        self.early = Ranges::default();
        self.blocks.clear();
    }

    /// Takes out everything held, as pieces with their offsets.
    pub(super) fn drain(&mut self) -> Vec<(u64, Bytes)> {
        let mut pieces = Vec::new();
        while let (at, Some(bytes)) = (self.start, self.pop(usize::MAX)) {
            pieces.push((at, bytes));
        }
        while let Some(range) = self.early.pop_first() {
            let mut at = range.start;
            self.take_blocks(range, |bytes| {
                let offset = at;
                at += bytes.len() as u64;
                pieces.push((offset, bytes));
            });
        }
        pieces
    }

    /// Bytes of memory for data, used or not.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let ready = self.ready.iter().map(Bytes::len).sum::<usize>() + self.tail.capacity();
        ready + self.blocks.len() * BLOCK as usize
    }

    /// Pieces that wait to be read.
    #[cfg(test)]
    pub(super) fn pieces(&self) -> usize {
        self.ready.len() + usize::from(!self.tail.is_empty())
    }

    pub(super) fn check(&self) {
        let held = self.ready.iter().map(Bytes::len).sum::<usize>() + self.tail.len();
        assert_eq!(held as u64, self.next - self.start, "{self:?}");
        assert!(self.early.first().is_none_or(|first| first.start > self.next), "{self:?}");
        assert!(self.early.len() <= most_ranges(self.span()));
        assert_eq!(self.blocks.is_empty(), self.early.is_empty(), "{self:?}");
    }

    /// Bytes from the lowest one missing to the highest that came.
    fn span(&self) -> u64 {
        self.early.end().map_or(0, |end| end - self.next)
    }

    fn append(&mut self, bytes: Bytes) {
        if !self.tail.is_empty() {
            self.ready.push_back(self.tail.split().freeze());
        }
        self.ready.push_back(bytes);
    }

    fn append_copy(&mut self, bytes: &[u8]) {
        if self.ready.is_empty() && self.tail.is_empty() {
            self.ready.push_back(Bytes::copy_from_slice(bytes));
            return;
        }
        if self.tail.len() + bytes.len() > index(BLOCK) {
            self.ready.push_back(self.tail.split().freeze());
        }
        self.tail.extend_from_slice(bytes);
    }

    /// Copies what came early.
    fn hold(&mut self, offset: u64, data: &[u8]) -> Result<(), TooManyGaps> {
        self.early.insert(offset..offset + data.len() as u64);
        if self.early.len() > most_ranges(self.span()) {
            return Err(TooManyGaps);
        }
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let number = at / BLOCK;
            let end = (number + 1) * BLOCK;
            let block = self.blocks.entry(number).or_insert_with(|| StretchBlock {
                base: number * BLOCK,
                bytes: BytesMut::zeroed(index(BLOCK)),
            });
            let n = rest.len().min(index(end - at));
            let (now, later) = rest.split_at(n);
            block.bytes[index(at - block.base)..][..n].copy_from_slice(now);
            at += n as u64;
            rest = later;
        }
        Ok(())
    }

    /// Makes ready what is not early any more.
    fn release(&mut self) {
        while let Some(first) = self.early.first().filter(|first| first.start <= self.next) {
            self.early.pop_first();
            if first.end > self.next {
                let mut pieces = Vec::new();
                self.take_blocks(self.next..first.end, |bytes| pieces.push(bytes));
                for bytes in pieces {
                    // A remnant must not keep its whole block.
                    if bytes.len() < SMALL { self.append_copy(&bytes) } else { self.append(bytes) }
                }
                self.next = first.end;
            }
        }
        // Blocks that were overtaken by data in order, and what lies before `next` in the first other.
        let passed = if self.early.is_empty() { u64::MAX } else { self.next / BLOCK };
        self.drop_blocks(passed);
    }

    /// Drops the blocks below one.
    fn drop_blocks(&mut self, below: u64) {
        while self.blocks.first_key_value().is_some_and(|(&number, _)| number < below) {
            self.blocks.pop_first();
        }
    }

    /// Cuts the bytes of `range` out of the blocks; what the first of them holds below is dropped.
    fn take_blocks(&mut self, range: Range<u64>, mut each: impl FnMut(Bytes)) {
        let mut at = range.start;
        while at < range.end {
            let number = at / BLOCK;
            let end = range.end.min((number + 1) * BLOCK);
            let block = self.blocks.get_mut(&number).expect("early bytes have their block");
            block.bytes.advance(index(at - block.base));
            each(block.bytes.split_to(index(end - at)).freeze());
            block.base = end;
            if block.bytes.is_empty() {
                self.blocks.remove(&number);
            }
            at = end;
        }
    }
}

/// Smaller pieces are copied together: 512 bytes must not pin a receive buffer.
const SMALL: usize = 512;

/// Bytes of a block of early data.
const BLOCK: u64 = 4096;
