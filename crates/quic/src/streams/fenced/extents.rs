use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use quickset_base::Time;
use quickset_base::number::index;

use super::fences::{Conflict, StreamFences};
use super::partial::{CompleteRun, Extent, Partial, RunContent};
use super::pieces::touches;
use super::ranges::RecordRanges;
use super::record::{MalformedRecord, RecordSpan, Spans};
use super::recv::fence_error;
use crate::TransportError;
use crate::streams::gaps::most_ranges;

/// Data that arrived in one FENCED frame; `data` are a slice of `payload` and not empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameArrival<'a> {
    pub(super) now: Time,
    pub(super) fence: u64,
    pub(super) offset: u64,
    pub(super) data: &'a [u8],
    pub(super) payload: &'a Bytes,
}

impl FrameArrival<'_> {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.data.len() as u64
    }

    fn bytes(&self, range: Range<u64>) -> &[u8] {
        &self.data[index(range.start - self.offset)..index(range.end - self.offset)]
    }

    /// The fence of the record that starts at `start`.
    fn fence_of(&self, start: u64, each: bool) -> u64 {
        if each && start > self.offset { start } else { self.fence }
    }
}

/// What is known of a stream's records at and above the lowest missing offset: which bytes arrived or
/// were abandoned, what records they belong to, and where fences lie.
#[derive(Debug)]
pub(super) struct Extents {
    max_record: u64,
    /// The lowest missing offset. Unless an open record covers it, it is a record boundary.
    low: u64,
    /// Bytes above `low` that arrived or were abandoned.
    got: RecordRanges,
    /// By offset, without overlap. All of a `Done` and of an `Orphan` is in `got` or below `low`.
    known: BTreeMap<u64, Extent>,
    fences: StreamFences,
}

/// How a record of a frame lies among what is known.
enum RecordPlace {
    /// All of it arrived before, or was abandoned.
    Done,
    /// None of it is known.
    Fresh,
    /// Some of it is.
    Open,
}

/// What an ABANDON changed, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Abandoned {
    /// Bytes neither of complete records nor abandoned before (FS-52).
    pub(super) consumed: u64,
    /// Those of them that connection credit has not counted.
    pub(super) uncounted: u64,
}

impl Extents {
    pub(super) fn new(max_record: u64) -> Self {
        Self {
            max_record,
            low: 0,
            got: RecordRanges::default(),
            known: BTreeMap::new(),
            fences: StreamFences::default(),
        }
    }

    /// The lowest offset whose byte neither arrived nor was abandoned.
    #[inline]
    pub(super) fn low(&self) -> u64 {
        self.low
    }

    /// Runs of bytes above [`low`](Self::low).
    pub(super) fn ranges(&self) -> usize {
        self.got.len()
    }

    /// The start of the record that holds [`low`](Self::low).
    pub(super) fn record_start(&self) -> u64 {
        match self.known.first_key_value() {
            Some((&start, Extent::Open(_))) if start <= self.low => start,
            _ => self.low,
        }
    }

    /// True when a record that is known goes beyond `end`.
    pub(super) fn reaches_over(&self, end: u64) -> bool {
        self.known.last_key_value().is_some_and(|(&start, extent)| extent.span(start).end > end)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.got.clear();
        self.known.clear();
        self.fences = StreamFences::default();
    }

    /// Bytes of memory for data.
    pub(super) fn held_bytes(&self) -> usize {
        let held = |extent: &Extent| match extent {
            Extent::Done { .. } => 0,
            Extent::Open(partial) => partial.held_bytes(),
            Extent::Orphan { data } => data.len(),
        };
        self.known.values().map(held).sum()
    }

    /// Bytes of memory, about: with 16 for what an allocation costs, in nodes that are at least half full.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let heap = |extent: &Extent| match extent {
            Extent::Done { .. } => 0,
            Extent::Open(partial) => partial.memory(),
            Extent::Orphan { data } => data.capacity() + 16,
        };
        let known: usize = self.known.values().map(|e| heap(e) + 2 * size_of::<(u64, Extent)>()).sum();
        known + self.got.memory() + self.fences.memory()
    }

    /// Entries of any kind.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        let pieces = |extent: &Extent| match extent {
            Extent::Open(partial) => partial.pieces(),
            Extent::Done { .. } | Extent::Orphan { .. } => 1,
        };
        self.got.len() + self.fences.len() + self.known.values().map(pieces).sum::<usize>()
    }

    /// A frame with START. Complete records go to `out`, in order; returns how many bytes were moved into
    /// incomplete records (FS-38).
    pub(super) fn on_records(
        &mut self,
        arrival: &FrameArrival<'_>,
        each: bool,
        out: &mut Vec<CompleteRun>,
    ) -> Result<u64, TransportError> {
        let range = arrival.range();
        let spans = Spans::new(arrival.data, arrival.offset, self.max_record);
        let (first, second, last) = outline(spans.clone())?;
        match second {
            Some(second) if each => {
                self.fences.claim(arrival.fence, first.end).map_err(conflict)?;
                let starts = spans.clone().flatten().skip(1).map(|span| span.start);
                self.fences.claim_each(second.start, last.start, last.end, &starts).map_err(conflict)?;
            }
            _ => self.fences.claim(arrival.fence, last.end).map_err(conflict)?,
        }
        self.check_fence(arrival.fence)?;
        let mut moved = 0;
        if self.is_untouched(range.start..last.end) {
            let whole = range.start..if last.end <= range.end { range.end } else { last.start };
            let cut = whole.end < range.end;
            self.complete(arrival, whole, each, out);
            if cut {
                moved += self.fill(last, arrival, each, out);
            }
        } else {
            moved += self.on_known_records(arrival, each, out)?;
        }
        self.settle(moved)
    }

    /// The slow way of [`on_records`](Self::on_records), record by record: something of it is known.
    fn on_known_records(
        &mut self,
        arrival: &FrameArrival<'_>,
        each: bool,
        out: &mut Vec<CompleteRun>,
    ) -> Result<u64, TransportError> {
        let end = arrival.range().end;
        let mut moved = 0;
        let mut fresh = arrival.offset..arrival.offset;
        for span in Spans::new(arrival.data, arrival.offset, self.max_record).flatten() {
            let place = self.place(span)?;
            if matches!(place, RecordPlace::Fresh) && span.end <= end {
                fresh.end = span.end;
                continue;
            }
            self.complete(arrival, fresh, each, out);
            fresh = span.end..span.end;
            if !matches!(place, RecordPlace::Done) {
                moved += self.fill(span, arrival, each, out);
            }
        }
        self.complete(arrival, fresh, each, out);
        Ok(moved)
    }

    /// A frame without START: bytes inside one record. Returns how many were moved into it.
    pub(super) fn on_piece(
        &mut self,
        arrival: &FrameArrival<'_>,
        out: &mut Vec<CompleteRun>,
    ) -> Result<u64, TransportError> {
        let range = arrival.range();
        if arrival.fence == range.start {
            return Err(stray());
        }
        self.fences.claim(arrival.fence, range.end).map_err(conflict)?;
        self.check_fence(arrival.fence)?;
        let before = self.known.range(..=range.start).next_back();
        let mut inside = range.start > self.low;
        if let Some((&start, extent)) = before {
            let span = extent.span(start);
            match extent {
                Extent::Open(partial) if range.start < span.end => {
                    if range.start < partial.span().body || range.end > span.end {
                        return Err(stray());
                    }
                    let moved = self.fill(partial.span(), arrival, false, out);
                    return self.settle(moved);
                }
                Extent::Done { end } if range.start < *end => {
                    return if range.start > start && range.end <= *end { Ok(0) } else { Err(stray()) };
                }
                // A record ends here, so another begins.
                Extent::Open(_) | Extent::Done { .. } => inside &= range.start > span.end,
                Extent::Orphan { .. } => {}
            }
        }
        // FS-62 10: below `low` all is known, and `low` is a boundary as no open record covers it.
        if !inside {
            return Err(stray());
        }
        for extent in self.known.range(range.start + 1..range.end).map(|(_, extent)| extent) {
            if !matches!(extent, Extent::Orphan { .. }) {
                return Err(fence_error("a record begins inside another"));
            }
        }
        self.keep_orphan(arrival);
        self.settle(0)
    }

    /// ABANDON of `range`, which is not empty.
    pub(super) fn on_abandon(&mut self, range: Range<u64>) -> Result<Abandoned, TransportError> {
        if range.end <= self.low {
            return Ok(Abandoned::default());
        }
        for edge in [range.start, range.end] {
            if self.is_inside_record(edge) {
                return Err(fence_error("ABANDON begins or ends inside a record"));
            }
        }
        let mut freed = Abandoned::default();
        // FS-50: what is there of incomplete records goes. FS-53: what is complete went to its queue before.
        // An open record that covers `low` lies in the range as a whole, since no edge is inside it.
        let mut at = range.start.max(self.record_start());
        let first = self.known.range(..=at).next_back().filter(|(s, e)| e.span(**s).end > at);
        let mut next = first.or_else(|| self.known.range(at..range.end).next()).map(|(&s, _)| s);
        while let Some(start) = next.filter(|&s| s < range.end) {
            let extent = &self.known[&start];
            let end = extent.span(start).end;
            let missing = start.saturating_sub(at);
            let (consumed, counted) = match extent {
                Extent::Done { .. } => (0, 0),
                Extent::Open(partial) => (end - start, partial.arrived()),
                Extent::Orphan { .. } => (end - start, 0),
            };
            freed.consumed += missing + consumed;
            freed.uncounted += missing + consumed - counted;
            if !matches!(extent, Extent::Done { .. }) {
                self.known.remove(&start);
            }
            at = end;
            next = self.known.range(at..).next().map(|(&s, _)| s);
        }
        let missing = range.end.saturating_sub(at);
        freed.consumed += missing;
        freed.uncounted += missing;
        // FS-49: done with, like bytes that arrived. FS-51: later data in it meet a `Done`, prefix by prefix.
        self.cover(range.clone());
        self.mark_done(range);
        self.settle(freed)
    }

    /// How `record` lies among what is known (FS-62 9 and 10).
    fn place(&self, record: RecordSpan) -> Result<RecordPlace, TransportError> {
        let RecordSpan { start, body, end } = record;
        if end <= self.low {
            return Ok(RecordPlace::Done);
        }
        let overlap = || fence_error("a record begins inside another, or reaches over the start of one");
        if let Some((&at, extent)) = self.known.range(..=start).next_back() {
            match extent {
                Extent::Done { end: done } if start < *done => {
                    return if end <= *done { Ok(RecordPlace::Done) } else { Err(overlap()) };
                }
                Extent::Open(partial) if start < partial.span().end => {
                    return if partial.span() == record { Ok(RecordPlace::Open) } else { Err(overlap()) };
                }
                Extent::Orphan { .. } if start < extent.span(at).end => return Err(overlap()),
                Extent::Done { .. } | Extent::Open(_) | Extent::Orphan { .. } => {}
            }
        }
        // Below `low` every record is known, and `low` is a boundary or inside an open record.
        if start < self.low {
            return Err(overlap());
        }
        let mut place = RecordPlace::Fresh;
        for (&at, extent) in self.known.range(start + 1..=end) {
            let orphan = matches!(extent, Extent::Orphan { .. });
            match (orphan, at < end) {
                (true, true) if at >= body && extent.span(at).end <= end => place = RecordPlace::Open,
                (true, _) => return Err(stray()),
                (false, true) => return Err(overlap()),
                (false, false) => {}
            }
        }
        Ok(place)
    }

    /// True when nothing is known of the bytes of `range`, which begins and ends at record boundaries.
    fn is_untouched(&self, range: Range<u64>) -> bool {
        if range.start < self.low {
            return false;
        }
        let mut before = self.known.range(..=range.end).rev();
        let mut last = before.next();
        if let Some((&start, Extent::Done { .. } | Extent::Open(_))) = last {
            if start == range.end {
                last = before.next();
            }
        }
        last.is_none_or(|(&start, extent)| extent.span(start).end <= range.start)
    }

    /// FS-62 8: a fence is a record boundary.
    fn check_fence(&self, fence: u64) -> Result<(), TransportError> {
        if self.is_inside_record(fence) { Err(fence_error("a record across a fence")) } else { Ok(()) }
    }

    /// True when `edge` is known not to be a record boundary.
    fn is_inside_record(&self, edge: u64) -> bool {
        self.known.range(..=edge).next_back().is_some_and(|(&start, extent)| match extent {
            Extent::Done { .. } => false,
            Extent::Open(partial) => start < edge && edge < partial.span().end,
            Extent::Orphan { .. } => edge < extent.span(start).end,
        })
    }

    /// Hands on the whole records of `range`, of which nothing was known.
    fn complete(
        &mut self,
        arrival: &FrameArrival<'_>,
        range: Range<u64>,
        each: bool,
        out: &mut Vec<CompleteRun>,
    ) {
        if range.is_empty() {
            return;
        }
        let data = arrival.payload.slice_ref(arrival.bytes(range.clone()));
        out.push(CompleteRun {
            offset: range.start,
            fence: arrival.fence_of(range.start, each),
            completed: arrival.now,
            released: arrival.now,
            content: RunContent::Records { data, each },
        });
        self.cover(range.clone());
        self.mark_done(range);
    }

    /// Moves what is new of `record` into its memory, together with what came before its start; hands
    /// it on when that completes it. Returns how many bytes were moved.
    fn fill(
        &mut self,
        record: RecordSpan,
        arrival: &FrameArrival<'_>,
        each: bool,
        out: &mut Vec<CompleteRun>,
    ) -> u64 {
        let mut orphans = Vec::new();
        if !self.known.contains_key(&record.start) {
            while let Some((&start, _)) = self.known.range(record.start..record.end).next() {
                if let Some(Extent::Orphan { data }) = self.known.remove(&start) {
                    orphans.push((start, data));
                }
            }
        }
        let fence = arrival.fence_of(record.start, each);
        let open = || Extent::Open(Box::new(Partial::new(record, fence)));
        let Extent::Open(partial) = self.known.entry(record.start).or_insert_with(open) else {
            unreachable!("the record was placed among open ones");
        };
        let arrived = partial.arrived();
        for (start, data) in orphans {
            partial.put(start, &data);
        }
        let whole = arrival.range();
        let range = whole.start.max(record.start)..whole.end.min(record.end);
        let mut rest = range.start.max(self.low)..range.end;
        while let Some(gap) = self.got.gap(rest.clone()) {
            rest.start = gap.end;
            partial.put(gap.start, arrival.bytes(gap));
        }
        let moved = partial.arrived() - arrived;
        let is_complete = partial.is_complete();
        self.cover(range);
        if is_complete {
            if let Some(Extent::Open(partial)) = self.known.remove(&record.start) {
                out.push(CompleteRun {
                    offset: record.start,
                    fence: partial.fence(),
                    completed: arrival.now,
                    released: arrival.now,
                    content: RunContent::Whole {
                        payload: partial.into_payload(),
                        size: record.end - record.start,
                    },
                });
            }
            self.mark_done(record.start..record.end);
        }
        moved
    }

    /// Keeps what is new of bytes whose record is not known.
    fn keep_orphan(&mut self, arrival: &FrameArrival<'_>) {
        let mut rest = arrival.range();
        while let Some(gap) = self.got.gap(rest.clone()) {
            rest.start = gap.end;
            let bytes = arrival.bytes(gap.clone());
            let before = self.known.range_mut(..gap.start).next_back();
            let mut at = gap.start;
            match before {
                // In order, as resends and the rest of a record come: no entry of its own.
                Some((&start, Extent::Orphan { data })) if start + data.len() as u64 == gap.start => {
                    data.extend_from_slice(bytes);
                    at = start;
                }
                _ => {
                    self.known.insert(gap.start, Extent::Orphan { data: bytes.to_vec() });
                }
            }
            self.join_orphans(at);
        }
        self.cover(arrival.range());
    }

    /// Makes one of the orphan at `start` and the one that follows it at once, as
    /// [`Pieces`](super::pieces::BytePieces) do.
    fn join_orphans(&mut self, start: u64) {
        let mut pair = self.known.range_mut(start..);
        let (Some((_, Extent::Orphan { data })), Some((&next, Extent::Orphan { data: other }))) =
            (pair.next(), pair.next())
        else {
            return;
        };
        if touches(start, data, next, other) {
            data.append(other);
            self.known.remove(&next);
        }
    }

    /// The bytes of `range` are there, or will never be. FS-33: what is covered is not new a second time.
    #[inline]
    fn cover(&mut self, range: Range<u64>) {
        if range.end <= self.low {
            return;
        }
        if self.got.is_empty() && range.start <= self.low {
            self.low = range.end;
            return;
        }
        self.got.insert(range.start.max(self.low)..range.end);
        if self.got.first().is_some_and(|first| first.start <= self.low) {
            self.low = self.got.pop_first().map_or(self.low, |first| first.end);
        }
    }

    /// The records of `range` are complete or abandoned. Neighbours become one entry.
    fn mark_done(&mut self, Range { mut start, mut end }: Range<u64>) {
        if end <= self.low {
            return;
        }
        if let Some((&s, Extent::Done { end: e })) = self.known.range(..start).next_back() {
            if *e >= start {
                start = s;
                end = end.max(*e);
            }
        }
        while let Some((&s, Extent::Done { end: e })) = self.known.range(start..=end).next() {
            end = end.max(*e);
            self.known.remove(&s);
        }
        self.known.insert(start, Extent::Done { end });
        self.fences.join(start..end);
    }

    /// After every change: forgets what lies below `low`, and checks the number of ranges (FS-41).
    fn settle<T>(&mut self, result: T) -> Result<T, TransportError> {
        while let Some(first) = self.known.first_entry() {
            if first.get().span(*first.key()).end > self.low {
                break;
            }
            first.remove();
        }
        self.fences.trim(self.low);
        if self.got.len() > most_ranges(self.got.end().map_or(0, |end| end - self.low)) {
            return Err(fence_error("too many holes in a stream"));
        }
        Ok(result)
    }

    /// What must hold between calls.
    pub(super) fn check(&self) {
        let mut last = 0;
        for (&start, extent) in &self.known {
            let span = extent.span(start);
            debug_assert!(span.start >= last && span.end > span.start && span.end > self.low);
            debug_assert!(start >= self.low || !matches!(extent, Extent::Orphan { .. }));
            if !matches!(extent, Extent::Open(_)) {
                debug_assert!(self.got.gap(start.max(self.low)..span.end).is_none());
            }
            last = span.end;
        }
        debug_assert!(self.got.first().is_none_or(|first| first.start > self.low));
    }
}

/// The first, second and last record of a frame with START (FS-62 4 and 6).
fn outline(spans: Spans<'_>) -> Result<(RecordSpan, Option<RecordSpan>, RecordSpan), TransportError> {
    let (mut first, mut second, mut last) = (None, None, None);
    for span in spans {
        let span = span.map_err(|fault| match fault {
            MalformedRecord::CutPrefix => fence_error("a frame ends inside the prefix of a record"),
            MalformedRecord::TooLong => fence_error("a record longer than Max Record Size"),
        })?;
        if first.is_none() {
            first = Some(span);
        } else if second.is_none() {
            second = Some(span);
        }
        last = Some(span);
    }
    match (first, last) {
        (Some(first), Some(last)) => Ok((first, second, last)),
        _ => Err(fence_error("START without data")),
    }
}

fn conflict(_: Conflict) -> TransportError {
    fence_error("two different fences for one offset, or a record across a fence")
}

fn stray() -> TransportError {
    fence_error("a frame without START that does not lie inside one record")
}
