use std::collections::VecDeque;

use bytes::Bytes;

/// Datagrams that wait for the application, bounded in bytes and number: the oldest make room.
#[derive(Debug)]
pub(super) struct DatagramInbox {
    waiting: VecDeque<Bytes>,
    bytes: usize,
    most_bytes: usize,
    most: usize,
}

impl DatagramInbox {
    pub(super) fn new(most_bytes: usize, most: usize) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, most_bytes, most: most.max(1) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
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
        let kept = if is_small { Bytes::copy_from_slice(data) } else { payload.slice_ref(data) };
        self.bytes += kept.len();
        self.waiting.push_back(kept);
        dropped
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let front = self.waiting.pop_front()?;
        self.bytes -= front.len();
        Some(front)
    }

    /// Verifies what must hold between calls.
    pub(super) fn check(&self) {
        assert_eq!(self.bytes, self.waiting.iter().map(Bytes::len).sum::<usize>());
        assert!(self.bytes <= self.most_bytes && self.waiting.len() <= self.most, "more is held than may be");
    }
}

/// Smaller datagrams are copied.
const SMALL: usize = 512;
