use std::collections::VecDeque;

use bytes::BytesMut;

/// Receive buffers of [`SIZE`] bytes that come back by themselves.
///
/// What was received is split off a buffer and handed on; the buffer's own handle stays here, and when
/// all slices of it are gone, its memory is used again. The pool shrinks to what is in use at a time.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    handles: VecDeque<BytesMut>,
}

impl Pool {
    /// A buffer of [`SIZE`] bytes.
    pub(crate) fn take(&mut self) -> BytesMut {
        for _ in 0..self.handles.len().min(TRIES) {
            let Some(mut buffer) = self.handles.pop_front() else { break };
            if reclaim(&mut buffer) {
                self.shrink();
                buffer.resize(SIZE, 0);
                return buffer;
            }
            self.handles.push_back(buffer);
        }
        BytesMut::zeroed(SIZE)
    }

    /// Takes the handle of a buffer that slices were split off.
    pub(crate) fn give(&mut self, buffer: BytesMut) {
        // Without a handle here the memory is freed with its last slice.
        if self.handles.len() < MAX_HANDLES {
            self.handles.push_back(buffer);
        }
    }

    fn shrink(&mut self) {
        if self.handles.len() > KEPT {
            if let Some(mut next) = self.handles.pop_front() {
                if !reclaim(&mut next) {
                    self.handles.push_back(next);
                }
            }
        }
    }
}

fn reclaim(buffer: &mut BytesMut) -> bool {
    buffer.clear();
    buffer.try_reclaim(SIZE)
}

/// The largest UDP payload, and so the largest that GRO makes.
pub(crate) const SIZE: usize = 65_535;

/// Handles looked at before a new buffer is made.
const TRIES: usize = 4;

/// Handles that are not given up when free: one receive call's worth and what the last one returned.
const KEPT: usize = 16;

/// 16 MiB of buffers under way; beyond that memory is freed rather than used again.
const MAX_HANDLES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_its_slices_are_gone() {
        let mut pool = Pool::default();
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
    fn the_pool_shrinks_to_what_is_in_use() {
        let mut pool = Pool::default();
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
