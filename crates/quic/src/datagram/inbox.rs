use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Datagrams that wait for the application, bounded in bytes and number: the oldest make room.
#[derive(Debug)]
pub(super) struct DatagramInbox {
    waiting: VecDeque<Bytes>,
    bytes: usize,
    most_bytes: usize,
    most: usize,
    /// Room for copies of small ones, which share it, while others wait.
    block: BytesMut,
}

impl DatagramInbox {
    pub(super) fn new(most_bytes: usize, most: usize) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, most_bytes, most: most.max(1), block: BytesMut::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a datagram that lies in `payload`. Returns how many were dropped for it; itself, if it alone is
    /// too much.
    pub(super) fn push(&mut self, data: &[u8], payload: &Bytes) -> u64 {
        if data.len() > self.most_bytes {
            return 1;
        }
        let mut dropped = 0;
        while self.waiting.len() >= self.most || self.bytes + data.len() > self.most_bytes {
            if self.pop().is_some() {
                dropped += 1;
            }
        }
        // Few bytes must not pin a whole receive buffer.
        let is_small = data.len() < SMALL || data.len() < payload.len() / 4;
        let kept = if is_small { self.copy(data) } else { payload.slice_ref(data) };
        self.bytes += kept.len();
        self.waiting.push_back(kept);
        dropped
    }

    /// A copy that pins little: a block of its own for who is alone, or its part of one that it shares.
    fn copy(&mut self, data: &[u8]) -> Bytes {
        if self.waiting.is_empty() || data.len() > BLOCK / 4 {
            return Bytes::copy_from_slice(data);
        }
        if self.block.capacity() < data.len() {
            self.block = BytesMut::with_capacity(BLOCK);
        }
        self.block.extend_from_slice(data);
        self.block.split().freeze()
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// At least half of what may wait does.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting.len() >= self.most.div_ceil(2) || self.bytes >= self.most_bytes / 2
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let front = self.waiting.pop_front()?;
        self.bytes -= front.len();
        self.rest();
        Some(front)
    }

    /// Moves up to `most` to the back of `into`. Returns how many.
    pub(super) fn pop_all(&mut self, most: usize, into: &mut Vec<Bytes>) -> usize {
        let n = self.waiting.len().min(most);
        let bytes = &mut self.bytes;
        into.extend(self.waiting.drain(..n).inspect(|one| *bytes -= one.len()));
        self.rest();
        n
    }

    /// Who waits for the next one, which may be long in coming, keeps no room for it.
    fn rest(&mut self) {
        if self.waiting.is_empty() {
            self.block = BytesMut::new();
            if self.waiting.capacity() > KEPT {
                self.waiting = VecDeque::new();
            }
        }
    }

    /// Verifies what must hold between calls.
    pub(super) fn check(&self) {
        assert_eq!(self.bytes, self.waiting.iter().map(Bytes::len).sum::<usize>());
        assert!(self.bytes <= self.most_bytes && self.waiting.len() <= self.most, "more is held than may be");
    }
}

/// Smaller datagrams are copied.
const SMALL: usize = 512;

/// Places that are kept while nothing waits.
const KEPT: usize = 1024;

/// Bytes that small datagrams share, which a single one of them may keep: less than two packets.
const BLOCK: usize = 2048;
