use quickset_base::number::index;
use quickset_wire::{Reader, varint};

/// Bytes of the prefix of a record that holds `len` bytes of payload.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a varint has eight bytes at most")]
pub(super) const fn prefix_size(len: u64) -> u8 {
    varint::size(len) as u8
}

/// The prefix at the front of `data`: the payload's length, and the bytes of the prefix. `None` when
/// `data` ends inside it.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a varint has eight bytes at most")]
pub(super) fn read_prefix(data: &[u8]) -> Option<(u64, u8)> {
    let mut reader = Reader::new(data);
    let len = reader.varint().ok()?;
    Some((len, (data.len() - reader.peek().len()) as u8))
}

/// A record found in the data of a frame, by stream offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordSpan {
    /// Where the record begins.
    pub(super) start: u64,
    /// Where its payload begins.
    pub(super) body: u64,
    /// Where it ends.
    pub(super) end: u64,
}

/// Why the data of a frame are not records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MalformedRecord {
    /// The data end inside a prefix.
    CutPrefix,
    /// A prefix announces more than is allowed.
    TooLong,
}

/// Goes through `data` that begin at a record boundary at `offset`.
#[derive(Clone, Debug)]
pub(super) struct Spans<'a> {
    data: &'a [u8],
    offset: u64,
    max_record: u64,
}

impl<'a> Spans<'a> {
    pub(super) fn new(data: &'a [u8], offset: u64, max_record: u64) -> Self {
        Self { data, offset, max_record }
    }
}

impl Iterator for Spans<'_> {
    type Item = Result<RecordSpan, MalformedRecord>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.data.is_empty() {
            return None;
        }
        let Some((len, prefix)) = read_prefix(self.data) else {
            self.data = &[];
            return Some(Err(MalformedRecord::CutPrefix));
        };
        if len > self.max_record {
            self.data = &[];
            return Some(Err(MalformedRecord::TooLong));
        }
        let start = self.offset;
        let body = start + u64::from(prefix);
        let end = body + len;
        let step = (end - start).min(self.data.len() as u64);
        self.data = &self.data[index(step)..];
        self.offset = end;
        Some(Ok(RecordSpan { start, body, end }))
    }
}
