//! Variable-length integers (RFC 9000 §16) in buffers that grow, and in bytes that come in pieces.

use bytes::{Buf as _, Bytes};
use quickset_wire::{Reader, Writer};

/// Writes `value` in its shortest form.
pub(crate) fn put(out: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; 8];
    let mut w = Writer::new(&mut bytes);
    w.varint(value);
    out.extend_from_slice(w.written());
}

/// Some varints in a row, as they arrive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pieces {
    bytes: [u8; 16],
    len: usize,
}

impl Pieces {
    /// Takes from `input` until `N` varints are there; `None` when it ends before. `N` is at most two.
    pub(crate) fn take<const N: usize>(&mut self, input: &mut Bytes) -> Option<[u64; N]> {
        loop {
            let mut values = [0; N];
            let mut r = Reader::new(&self.bytes[..self.len]);
            if values.iter_mut().all(|v| r.varint().map(|read| *v = read).is_ok()) {
                self.len = 0;
                return Some(values);
            }
            if !input.has_remaining() {
                return None;
            }
            self.bytes[self.len] = input.get_u8();
            self.len += 1;
        }
    }

    /// Whether nothing waits for more.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}
