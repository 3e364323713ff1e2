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
pub(crate) struct VarintPieces {
    bytes: [u8; 16],
    len: usize,
}

impl VarintPieces {
    /// Takes from `input` until `N` varints are there; `None` when it ends before. `N` is at most two.
    pub(crate) fn take<const N: usize>(&mut self, input: &mut Bytes) -> Option<[u64; N]> {
        // Mostly all of them are there.
        if let Some((values, len)) = read(input).filter(|_| self.is_empty()) {
            input.advance(len);
            return Some(values);
        }
        loop {
            if let Some((values, _)) = read(&self.bytes[..self.len]) {
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

/// The varints at the front, and their bytes.
#[inline]
fn read<const N: usize>(bytes: &[u8]) -> Option<([u64; N], usize)> {
    let mut values = [0; N];
    let mut r = Reader::new(bytes);
    for value in &mut values {
        *value = r.varint().ok()?;
    }
    Some((values, r.position()))
}
