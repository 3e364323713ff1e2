use std::ops::Range;

use bytes::Bytes;
use quickset_base::number::index;
use quickset_wire::varint;

use super::pieces::BytePieces;
use super::record::{RecordSpan, Spans};

/// A record of which some bytes are missing.
#[derive(Debug)]
pub(super) struct Partial {
    span: RecordSpan,
    fence: u64,
    /// The payload from its first byte on, without a hole.
    head: Vec<u8>,
    /// Pieces of the payload behind the first hole, by stream offset.
    rest: BytePieces,
    /// Bytes that arrived, prefix included.
    arrived: u64,
}

impl Partial {
    /// Reserves nothing: the length is a number off the wire (FS-64).
    pub(super) fn new(span: RecordSpan, fence: u64) -> Self {
        Self { span, fence, head: Vec::new(), rest: BytePieces::default(), arrived: 0 }
    }

    pub(super) fn span(&self) -> RecordSpan {
        self.span
    }

    pub(super) fn fence(&self) -> u64 {
        self.fence
    }

    /// Bytes that arrived, prefix included.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    pub(super) fn is_complete(&self) -> bool {
        self.arrived == self.span.end - self.span.start
    }

    /// Bytes of memory for data.
    pub(super) fn held_bytes(&self) -> usize {
        self.head.len() + self.rest.held_bytes()
    }

    /// Pieces that are kept apart.
    #[cfg(test)]
    pub(super) fn pieces(&self) -> usize {
        1 + self.rest.len()
    }

    /// Bytes of memory, about.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + 32 + self.head.capacity() + self.rest.memory()
    }

    /// Adds bytes from `offset` on. The caller sees to it that each byte comes once.
    pub(super) fn put(&mut self, offset: u64, data: &[u8]) {
        debug_assert!(offset >= self.span.start && offset + data.len() as u64 <= self.span.end);
        self.arrived += data.len() as u64;
        let skip = self.span.body.saturating_sub(offset).min(data.len() as u64);
        let (offset, data) = (offset + skip, &data[index(skip)..]);
        if data.is_empty() {
            return;
        }
        if offset == self.filled() {
            self.extend_head(data);
            while let Some(piece) = self.rest.take(self.filled()) {
                self.extend_head(&piece);
            }
            return;
        }
        self.rest.put(offset, data);
    }

    /// The payload, once the record is complete.
    pub(super) fn into_payload(self) -> Bytes {
        debug_assert!(self.is_complete() && self.rest.is_empty());
        Bytes::from(self.head)
    }

    /// The stream offset up to which the payload has no hole.
    fn filled(&self) -> u64 {
        self.span.body + self.head.len() as u64
    }

    /// Grows by doubling with what has arrived, but not beyond the record.
    fn extend_head(&mut self, data: &[u8]) {
        let need = self.head.len() + data.len();
        if need > self.head.capacity() {
            let whole = index(self.span.end - self.span.body);
            let target = whole.min((2 * self.head.capacity()).max(need));
            self.head.reserve_exact(target - self.head.len());
        }
        self.head.extend_from_slice(data);
    }
}

/// Records that are complete and not read yet.
#[derive(Debug)]
pub(super) struct CompleteRun {
    /// Where the first record begins.
    pub(super) offset: u64,
    /// The fence of the first record.
    pub(super) fence: u64,
    /// When they became complete.
    pub(super) completed: quickset_base::Time,
    /// When the fences let them go.
    pub(super) released: quickset_base::Time,
    pub(super) content: RunContent,
}

/// What a [`CompleteRun`] holds.
#[derive(Debug)]
pub(super) enum RunContent {
    /// Whole records with their prefixes, cut out when they are read. `each`: every boundary between
    /// them is a fence.
    Records { data: Bytes, each: bool },
    /// The payload of one record that was put together, with its bytes on the stream; they were counted
    /// for connection credit when they arrived (FS-38).
    Whole { payload: Bytes, size: u64 },
}

impl CompleteRun {
    pub(super) fn held_bytes(&self) -> usize {
        match &self.content {
            RunContent::Records { data, .. } => data.len(),
            RunContent::Whole { payload, .. } => payload.len(),
        }
    }

    /// True when the fences of all its records lie at or below `low`.
    pub(super) fn last_fence_at_most(&self, low: u64) -> bool {
        match &self.content {
            // The bytes of a run are contiguous and there, so `low` is outside: all or none is below it.
            RunContent::Records { each: true, .. } => self.offset < low,
            RunContent::Records { .. } | RunContent::Whole { .. } => true,
        }
    }

    /// The same run, its data copied out of the packet if little of the packet would keep it in memory.
    pub(super) fn unpinned(self) -> Self {
        if self.held_bytes() < SLICE_FROM { self.copied() } else { self }
    }

    /// The same run, its data copied out of the packet.
    pub(super) fn copied(mut self) -> Self {
        if let RunContent::Records { data, .. } = &mut self.content {
            *data = Bytes::copy_from_slice(data);
        }
        self
    }

    /// The first fence strictly inside the run, and the last if it is another.
    pub(super) fn fences_inside(&self) -> [Option<u64>; 2] {
        let RunContent::Records { data, each: true } = &self.content else { return [None, None] };
        let mut starts = Spans::new(data, self.offset, varint::MAX).flatten().skip(1).map(|span| span.start);
        [starts.next(), starts.last()]
    }

    /// Takes off the records from the fence at `fence` on.
    pub(super) fn split_off(&mut self, fence: u64) -> Self {
        let content = match &mut self.content {
            RunContent::Records { data, each } => {
                RunContent::Records { data: data.split_off(index(fence - self.offset)), each: *each }
            }
            RunContent::Whole { .. } => unreachable!("one record has no fence inside"),
        };
        Self { offset: fence, fence, content, completed: self.completed, released: self.released }
    }

    /// Drops the records that end behind `end`. False when none is left.
    pub(super) fn keep_until(&mut self, end: u64) -> bool {
        match &mut self.content {
            RunContent::Records { data, .. } => {
                let ends = Spans::new(data, self.offset, varint::MAX).flatten().map(|span| span.end);
                let kept = ends.take_while(|at| *at <= end).last().unwrap_or(self.offset);
                data.truncate(index(kept - self.offset));
                !data.is_empty()
            }
            RunContent::Whole { size, .. } => self.offset + *size <= end,
        }
    }

    /// Bytes on the stream that connection credit has not counted.
    pub(super) fn uncounted(&self) -> u64 {
        match &self.content {
            RunContent::Records { data, .. } => data.len() as u64,
            RunContent::Whole { .. } => 0,
        }
    }
}

/// What is known of a piece of the stream at or above the lowest missing offset.
#[derive(Debug)]
pub(super) enum Extent {
    /// Records that are complete, or were abandoned.
    Done { end: u64 },
    /// A record of which bytes are missing.
    Open(Box<Partial>),
    /// Bytes that lie inside one record whose start has not come.
    Orphan { data: Vec<u8> },
}

impl Extent {
    /// Where the extent that begins at `start` ends.
    #[inline]
    pub(super) fn span(&self, start: u64) -> Range<u64> {
        start..match self {
            Self::Done { end } => *end,
            Self::Open(partial) => partial.span().end,
            Self::Orphan { data } => start + data.len() as u64,
        }
    }
}

/// Data of at least this many bytes may stay in the packet that they came in until they are read; less would
/// let 20 bytes keep a receive buffer of 64 KiB in memory.
const SLICE_FROM: usize = 512;
