#![expect(unsafe_code, reason = "a buffer that was written once need not be cleared for each call")]

use std::collections::VecDeque;

use bytes::BytesMut;

/// Receive buffers of [`SIZE`] bytes that come back by themselves.
///
/// What was received is split off a buffer and handed on; the buffer's own handle stays here, and when
/// all slices of it are gone, its memory is used again. The pool shrinks to what is in use at a time.
/// Small messages are copied instead, so that memory is not held by a few bytes.
#[derive(Debug, Default)]
pub(crate) struct ReceivePool {
    handles: VecDeque<BytesMut>,
    /// Buffers taken since one had to be made.
    calm: u32,
    /// Where small messages are copied to, one behind the other.
    small: BytesMut,
}

impl ReceivePool {
    /// Takes the first `len` bytes out of a buffer that the system filled, and sees to it that it can be
    /// filled again.
    pub(crate) fn cut(&mut self, buffer: &mut BytesMut, len: usize) -> BytesMut {
        let len = len.min(buffer.len());
        if len > COPIED {
            let message = buffer.split_to(len);
            let spent = std::mem::replace(buffer, self.take());
            self.give(spent);
            return message;
        }
        if self.small.capacity() - self.small.len() < len {
            self.small.clear();
            if !self.small.try_reclaim(SIZE) {
                self.small = BytesMut::with_capacity(SIZE);
            }
        }
        self.small.extend_from_slice(&buffer[..len]);
        self.small.split()
    }

    /// A buffer of [`SIZE`] bytes.
    pub(crate) fn take(&mut self) -> BytesMut {
        for _ in 0..self.handles.len().min(TRIES) {
            let Some(mut buffer) = self.handles.pop_front() else { break };
            if reclaim(&mut buffer) {
                self.calm = self.calm.saturating_add(1);
                // What is freed here in the midst of a transfer is what it makes anew soon.
                if self.calm > CALM {
                    self.shrink();
                }
                return buffer;
            }
            self.handles.push_back(buffer);
        }
        self.calm = 0;
        // Allocators that are asked for zeros may give back the pages of a buffer that was freed just now, to
        // be had anew.
        let mut buffer = BytesMut::with_capacity(SIZE);
        buffer.resize(SIZE, 0);
        buffer
    }

    /// Takes the handle of a buffer that slices were split off: one that [`take`](Self::take) returned, and
    /// that was never made longer.
    fn give(&mut self, buffer: BytesMut) {
        // Without a handle here the memory is freed with its last slice.
        if self.handles.len() < MAX_HANDLES {
            self.handles.push_back(buffer);
        }
    }

    /// Whether it has more than one receive call needs.
    pub(crate) fn is_large(&self) -> bool {
        self.handles.len() > KEPT
    }

    /// Frees what is not in use any more, for when nothing is received for a while: else what a flood took
    /// would be kept.
    pub(crate) fn rest(&mut self) {
        for _ in 0..self.handles.len() {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.is_large() {
            if let Some(mut next) = self.handles.pop_front() {
                if !reclaim(&mut next) {
                    self.handles.push_back(next);
                }
            }
        }
    }
}

/// The datagrams of a message: the system may have put several into one, of `stride` bytes each but for the
/// last.
pub(crate) fn datagrams(mut message: BytesMut, stride: usize) -> impl Iterator<Item = BytesMut> {
    std::iter::from_fn(move || match message.len() {
        0 => None,
        len if len > stride.max(1) => Some(message.split_to(stride.max(1))),
        _ => Some(std::mem::take(&mut message)),
    })
}

/// Makes a handle a buffer of [`SIZE`] bytes again, which hold whatever was there. False while slices of it
/// remain.
fn reclaim(buffer: &mut BytesMut) -> bool {
    buffer.clear();
    if !buffer.try_reclaim(SIZE) || buffer.capacity() != SIZE {
        return false;
    }
    // SAFETY: the handle is one of a buffer of `SIZE` bytes that `take` made, and nobody made it longer, so
    // that its memory is still that, all of which was written: `try_reclaim` allocates none.
    unsafe { buffer.set_len(SIZE) };
    true
}

/// The largest UDP payload, and so the largest that GRO makes.
pub(crate) const SIZE: usize = 65_535;

/// Messages up to this size are copied.
const COPIED: usize = SIZE / 2;

/// Handles looked at before a new buffer is made.
const TRIES: usize = 16;

/// Handles that are not given up when free: one receive call's worth and what the last one returned.
const KEPT: usize = 16;

/// Buffers that are taken before one is freed, if none has to be made meanwhile.
const CALM: u32 = 64;

/// 16 MiB of buffers under way; beyond that memory is freed rather than used again.
const MAX_HANDLES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_its_slices_are_gone() {
        let mut pool = ReceivePool::default();
        let mut buffer = pool.take();
        let at = buffer.as_ptr();
        let slice = buffer.split_to(1472).freeze();
        pool.give(buffer);
        let other = pool.take();
        assert_ne!(other.as_ptr(), at, "a slice is still held");
        drop(slice);
        let again = pool.take();
        assert_eq!((again.as_ptr(), again.len()), (at, SIZE));
    }

    #[test]
    fn small_messages_leave_the_buffer_where_it_is() {
        let mut pool = ReceivePool::default();
        let mut buffer = pool.take();
        let at = buffer.as_ptr();
        let mut messages = Vec::new();
        for n in 0..200_u8 {
            buffer[..1472].fill(n);
            messages.push(pool.cut(&mut buffer, 1472));
            assert_eq!((buffer.as_ptr(), buffer.len()), (at, SIZE));
        }
        assert!(messages.iter().zip(0..).all(|(message, n)| message[..] == [n; 1472]));
        let all = pool.cut(&mut buffer, usize::MAX);
        assert_eq!((all.as_ptr(), all.len(), buffer.len()), (at, SIZE, SIZE));
        assert_ne!(buffer.as_ptr(), at);
    }

    #[test]
    fn a_pool_that_rests_keeps_little() {
        let mut pool = ReceivePool::default();
        let mut many: Vec<_> = (0..100).map(|_| pool.take()).collect();
        let held = many.pop().map(|mut buffer| {
            let slice = buffer.split_to(1000);
            pool.give(buffer);
            slice
        });
        for buffer in many {
            pool.give(buffer);
        }
        pool.rest();
        // Not the one of which a slice is still held.
        assert_eq!((pool.handles.len(), pool.is_large()), (KEPT, false));
        drop(held);
    }

    #[test]
    fn the_pool_shrinks_to_what_is_in_use() {
        let mut pool = ReceivePool::default();
        let many: Vec<_> = (0..100).map(|_| pool.take()).collect();
        for buffer in many {
            pool.give(buffer);
        }
        assert_eq!(pool.handles.len(), 100);
        for _ in 0..200 {
            let buffer = pool.take();
            pool.give(buffer);
        }
        assert!(pool.handles.len() <= KEPT + 1, "{}", pool.handles.len());
    }
}
