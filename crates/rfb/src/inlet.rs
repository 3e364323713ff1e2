//! Bytes as they come, looked at as whole messages.

use crate::error::RawRect;

/// Holds the beginning of a message until the rest has come.
#[derive(Debug, Default)]
pub(crate) struct MessageInlet {
    held: Vec<u8>,
}

impl MessageInlet {
    /// What is held and what has just come, as one.
    pub(crate) fn with<'a, 'i>(&'a mut self, input: &'a mut &'i [u8]) -> InletSource<'a, 'i> {
        InletSource { held: &mut self.held, input }
    }

    /// Bytes reserved.
    #[cfg(test)]
    pub(crate) fn reserved(&self) -> usize {
        self.held.capacity()
    }
}

/// A decoder looks at the first `n` bytes as often as it likes, with growing `n`, and advances past a message
/// when it has it whole. What lies whole in the input is never copied. What is held grows only with the bytes
/// that came, never by a length that was announced.
#[derive(Debug)]
pub(crate) struct InletSource<'a, 'i> {
    held: &'a mut Vec<u8>,
    input: &'a mut &'i [u8],
}

impl InletSource<'_, '_> {
    /// The next `n` bytes, when they have come. Otherwise the input is taken over.
    pub(crate) fn peek(&mut self, n: usize) -> Option<&[u8]> {
        if self.held.is_empty() && self.input.len() >= n {
            return Some(&self.input[..n]);
        }
        if self.held.len() < n {
            let (head, rest) = self.input.split_at(self.input.len().min(n - self.held.len()));
            self.held.extend_from_slice(head);
            *self.input = rest;
        }
        self.held.get(..n)
    }

    /// The next `n` bytes as numbers.
    pub(crate) fn fields(&mut self, n: usize) -> Option<NumberReader<'_>> {
        self.peek(n).map(NumberReader)
    }

    /// Leaves behind `n` bytes that were just looked at.
    pub(crate) fn advance(&mut self, n: usize) {
        let skipped = self.skip(n);
        debug_assert_eq!(skipped, n);
    }

    /// Leaves behind up to `n` bytes and says how many.
    pub(crate) fn skip(&mut self, n: usize) -> usize {
        let held = self.held.len().min(n);
        self.held.drain(..held);
        // One long clipboard text must not be paid for until the end of the connection.
        if self.held.is_empty() && self.held.capacity() > KEPT {
            *self.held = Vec::new();
        }
        let more = self.input.len().min(n - held);
        *self.input = &self.input[more..];
        held + more
    }

    /// As many whole rows of `row` bytes as have come, at most `rows`; `None` when not even one has.
    pub(crate) fn rows(&mut self, row: usize, rows: usize) -> Option<&[u8]> {
        let whole =
            if self.held.is_empty() { (self.input.len() / row.max(1)).clamp(1, rows.max(1)) } else { 1 };
        self.peek(row * whole)
    }
}

const KEPT: usize = 128 << 10;

/// Reads numbers off the front of a message whose length was checked.
#[derive(Debug)]
pub(crate) struct NumberReader<'a>(pub(crate) &'a [u8]);

impl NumberReader<'_> {
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("the length of the message was checked");
        self.0 = rest;
        *head
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    pub(crate) fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.array())
    }

    pub(crate) fn skip(&mut self, n: usize) -> &mut Self {
        self.0 = &self.0[n..];
        self
    }

    pub(crate) fn rect(&mut self) -> RawRect {
        RawRect { x: self.u16(), y: self.u16(), width: self.u16(), height: self.u16() }
    }
}
