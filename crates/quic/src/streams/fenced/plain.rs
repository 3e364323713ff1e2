use std::ops::Range;

use bytes::Bytes;
use quickset_base::Time;
use quickset_base::number::index;

use super::partial::{CompleteRun, Partial, RunContent};
use super::pieces::BytePieces;
use super::ranges::RecordRanges;
use super::record::{MalformedRecord, RecordSpan, Spans, read_prefix};
use super::recv::RecordFault;

/// Reads records from the bytes of STREAM frames, in order (FS-66).
#[derive(Debug)]
pub(super) struct Plain {
    max_record: u64,
    /// The lowest missing offset; everything below went into records.
    low: u64,
    got: RecordRanges,
    /// Bytes above `low`.
    pieces: BytePieces,
    /// The start of a prefix that is not complete.
    prefix: Vec<u8>,
    open: Option<Box<Partial>>,
}

/// Data of one STREAM frame, a slice of `payload`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainPiece<'a> {
    pub(super) now: Time,
    pub(super) offset: u64,
    pub(super) data: &'a [u8],
    pub(super) payload: &'a Bytes,
}

impl Plain {
    pub(super) fn new(max_record: u64) -> Self {
        Self {
            max_record,
            low: 0,
            got: RecordRanges::default(),
            pieces: BytePieces::default(),
            prefix: Vec::new(),
            open: None,
        }
    }

    #[inline]
    pub(super) fn low(&self) -> u64 {
        self.low
    }

    pub(super) fn ranges(&self) -> usize {
        self.got.len()
    }

    /// The start of the record that holds [`low`](Self::low).
    pub(super) fn record_start(&self) -> u64 {
        self.open.as_ref().map_or(self.low - self.prefix.len() as u64, |open| open.span().start)
    }

    /// True when [`low`](Self::low) is inside a record.
    pub(super) fn is_inside_record(&self) -> bool {
        self.open.is_some() || !self.prefix.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.got.clear();
        self.pieces.clear();
        self.prefix = Vec::new();
        self.open = None;
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.pieces.held_bytes() + self.prefix.len() + self.open.as_ref().map_or(0, |open| open.held_bytes())
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.got.len() + self.pieces.len() + usize::from(self.open.is_some())
    }

    /// Bytes of memory, about.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.got.memory() + self.pieces.memory() + self.open.as_ref().map_or(0, |open| open.memory())
    }

    /// Takes data; complete records go to `out`. Returns how many bytes were moved into an incomplete
    /// record.
    pub(super) fn on_data(
        &mut self,
        piece: &PlainPiece<'_>,
        out: &mut Vec<CompleteRun>,
    ) -> Result<u64, RecordFault> {
        let range = piece.offset..piece.offset + piece.data.len() as u64;
        let bytes = |r: Range<u64>| &piece.data[index(r.start - piece.offset)..index(r.end - piece.offset)];
        let mut moved = 0;
        let mut rest = range.start.max(self.low)..range.end;
        while let Some(gap) = self.got.gap(rest.clone()) {
            rest.start = gap.end;
            if gap.start == self.low {
                let new = piece.payload.slice_ref(bytes(gap.clone()));
                moved += self.feed(piece.now, new, out)?;
                moved += self.feed_kept(piece.now, out)?;
                rest.start = self.low.min(rest.end);
                continue;
            }
            self.got.insert(gap.clone());
            self.pieces.put(gap.start, bytes(gap));
        }
        Ok(moved)
    }

    /// Feeds the pieces that the lowest missing offset has reached.
    fn feed_kept(&mut self, now: Time, out: &mut Vec<CompleteRun>) -> Result<u64, RecordFault> {
        let mut moved = 0;
        while let Some(data) = self.pieces.take(self.low) {
            let data = Bytes::from(data);
            self.got.remove(self.low..self.low + data.len() as u64);
            moved += self.feed(now, data, out)?;
        }
        Ok(moved)
    }

    /// Cuts the next bytes of the stream into records.
    fn feed(&mut self, now: Time, mut data: Bytes, out: &mut Vec<CompleteRun>) -> Result<u64, RecordFault> {
        let mut moved = 0;
        while !data.is_empty() {
            if let Some(open) = &mut self.open {
                let missing = open.span().end - self.low;
                let part = data.split_to(index(missing.min(data.len() as u64)));
                open.put(self.low, &part);
                self.low += part.len() as u64;
                moved += part.len() as u64;
                self.finish_open(now, out);
            } else {
                if self.prefix.is_empty() {
                    self.take_whole(now, &mut data, out)?;
                }
                moved += self.begin(&mut data)?;
                self.finish_open(now, out);
            }
        }
        Ok(moved)
    }

    /// Hands on the whole records at the front of `data`.
    fn take_whole(
        &mut self,
        now: Time,
        data: &mut Bytes,
        out: &mut Vec<CompleteRun>,
    ) -> Result<(), RecordFault> {
        let limit = self.low + data.len() as u64;
        let mut end = self.low;
        for span in Spans::new(data, self.low, self.max_record) {
            match span {
                Ok(span) if span.end <= limit => end = span.end,
                Ok(_) | Err(MalformedRecord::CutPrefix) => break,
                Err(MalformedRecord::TooLong) if end > self.low => break,
                Err(MalformedRecord::TooLong) => return Err(RecordFault::TooLong),
            }
        }
        if end > self.low {
            let whole = data.split_to(index(end - self.low));
            let content = RunContent::Records { data: whole, each: true };
            let run =
                CompleteRun { offset: self.low, fence: self.low, completed: now, released: now, content };
            out.push(run);
            self.low = end;
        }
        Ok(())
    }

    /// Moves a record's prefix out of `data`, or as much of it as is there, and opens the record.
    fn begin(&mut self, data: &mut Bytes) -> Result<u64, RecordFault> {
        let start = self.low - self.prefix.len() as u64;
        let mut moved = 0;
        while !data.is_empty() {
            self.prefix.push(data.split_to(1)[0]);
            self.low += 1;
            moved += 1;
            let Some((len, size)) = read_prefix(&self.prefix) else { continue };
            if len > self.max_record {
                return Err(RecordFault::TooLong);
            }
            let body = start + u64::from(size);
            let mut open = Box::new(Partial::new(RecordSpan { start, body, end: body + len }, start));
            open.put(start, &self.prefix);
            self.prefix.clear();
            self.open = Some(open);
            break;
        }
        Ok(moved)
    }

    fn finish_open(&mut self, now: Time, out: &mut Vec<CompleteRun>) {
        if let Some(open) = self.open.take_if(|open| open.is_complete()) {
            let RecordSpan { start, end, .. } = open.span();
            let content = RunContent::Whole { payload: open.into_payload(), size: end - start };
            out.push(CompleteRun { offset: start, fence: start, completed: now, released: now, content });
        }
    }
}
