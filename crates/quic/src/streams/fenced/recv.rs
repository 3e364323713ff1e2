use bytes::Bytes;
use quickset_base::number::index;
use quickset_base::{Duration, Time};
use quickset_wire::{TransportErrorCode as Code, varint};

use super::extents::{Extents, FrameArrival};
use super::held::{HeldRecords, ReadyRecords};
use super::partial::{CompleteRun, RunContent};
use super::plain::{Plain, PlainPiece};
use super::record::read_prefix;
use crate::TransportError;
use crate::streams::gaps::{credited_ranges, most_ranges};

/// The receiving half of a stream of records.
///
/// 1. Frames go to [`on_fenced`](Self::on_fenced), [`on_abandon`](Self::on_abandon) and
///    [`on_stream`](Self::on_stream), RESET_STREAM to [`on_reset`](Self::on_reset). Each returns by how much
///    the highest offset grew, for connection credit, or the error that closes the connection.
/// 2. Messages come out of [`next`](Self::next), in the order in which the fences let them go.
/// 3. Afterwards [`take_consumed`](Self::take_consumed) is what connection credit may grow by, and
///    [`max_stream_data`](Self::max_stream_data) what the peer may be told.
#[derive(Debug)]
pub(crate) struct RecordReceiver {
    max_record: u64,
    window: u64,
    kind: Option<RecvKind>,
    extents: Extents,
    plain: Plain,
    held: HeldRecords,
    ready: ReadyRecords,
    /// What a frame completed; empty between calls.
    completed: Vec<CompleteRun>,
    highest: u64,
    final_size: Option<u64>,
    reset: bool,
    /// The reliable size of a reset behind which something is missing.
    reliable: Option<u64>,
    fault: Option<RecordFault>,
    /// Bytes read or abandoned (§8 of the specification).
    consumed: u64,
    /// Bytes that connection credit has counted, and those of them that were not taken.
    counted: u64,
    untaken: u64,
    /// The credit given.
    max: u64,
}

/// A message, out of its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What was sent.
    pub payload: Bytes,
    /// The segment it belongs to (FS-34), as the stream offset of the fence that begins it: messages with the
    /// same number may have overtaken each other, a greater number comes later in the sender's order.
    pub segment: u64,
    /// When its last byte arrived.
    pub completed: Time,
    /// When everything before its fence was there and it could be read.
    pub released: Time,
}

impl Message {
    /// How long fences held the complete message back.
    pub fn blocked(&self) -> Duration {
        self.released.since(self.completed)
    }
}

/// Why the records of a stream of STREAM frames cannot be read any further: the peer's application is
/// at fault, not its QUIC (FS-68).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordFault {
    /// A record is longer than we take.
    TooLong,
    /// The stream ended inside a record.
    Truncated,
}

/// What a FENCED frame says beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fenced {
    pub(crate) offset: u64,
    pub(crate) distance: u64,
    pub(crate) start: bool,
    pub(crate) each: bool,
    pub(crate) fin: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecvKind {
    Fenced,
    Plain,
}

impl RecordReceiver {
    /// A stream that takes records of at most `max_record` bytes of payload, with a receive window of
    /// `window` bytes. Both initial credits are at least `max_record` + 8 (FS-35).
    pub(crate) fn new(max_record: u64, window: u64) -> Self {
        let mut new = Self {
            max_record,
            window,
            kind: None,
            extents: Extents::new(max_record),
            plain: Plain::new(max_record),
            held: HeldRecords::default(),
            ready: ReadyRecords::default(),
            completed: Vec::new(),
            highest: 0,
            final_size: None,
            reset: false,
            reliable: None,
            fault: None,
            consumed: 0,
            counted: 0,
            untaken: 0,
            max: 0,
        };
        new.update_credit();
        new
    }

    /// Widens the receive window; it never shrinks.
    pub(crate) fn set_window(&mut self, window: u64) {
        self.window = self.window.max(window);
        self.update_credit();
    }

    /// A FENCED frame with its `data`, a slice of `payload`.
    pub(crate) fn on_fenced(
        &mut self,
        now: Time,
        frame: &Fenced,
        data: &[u8],
        payload: &Bytes,
    ) -> Result<u64, TransportError> {
        let Fenced { offset, distance, start, each, fin } = *frame;
        // FS-62 1 and 2: what the frame alone tells.
        if distance > offset {
            return Err(fence_error("Fence Distance greater than Offset"));
        }
        if (start && data.is_empty()) || (each && !start) {
            return Err(fence_error("START without data, or EACH without START"));
        }
        let grown = self.arrive(RecvKind::Fenced, offset, data.len() as u64, fin)?;
        if self.reset {
            return Ok(grown);
        }
        // FS-63: below the lowest missing offset nothing is remembered, and data are ignored.
        let wanted = self.reliable.is_none_or(|reliable| offset < reliable);
        if wanted && offset + data.len() as u64 > self.extents.low() && !data.is_empty() {
            let arrival = FrameArrival { now, fence: offset - distance, offset, data, payload };
            let mut completed = std::mem::take(&mut self.completed);
            let moved = if start {
                self.extents.on_records(&arrival, each, &mut completed)
            } else {
                self.extents.on_piece(&arrival, &mut completed)
            };
            self.completed = completed;
            self.count(moved?);
            self.release(now);
            self.end_reset();
        }
        self.check_final()?;
        Ok(grown)
    }

    /// A STREAM frame with its `data`, a slice of `payload` (FS-66).
    pub(crate) fn on_stream(
        &mut self,
        now: Time,
        offset: u64,
        fin: bool,
        data: &[u8],
        payload: &Bytes,
    ) -> Result<u64, TransportError> {
        let grown = self.arrive(RecvKind::Plain, offset, data.len() as u64, fin)?;
        if self.reset {
            return Ok(grown);
        }
        if self.fault.is_none() && offset + data.len() as u64 > self.plain.low() {
            let piece = PlainPiece { now, offset, data, payload };
            let mut completed = std::mem::take(&mut self.completed);
            let moved = self.plain.on_data(&piece, &mut completed);
            self.completed = completed;
            match moved {
                Ok(moved) => self.count(moved),
                Err(fault) => self.fault = Some(fault),
            }
            self.release(now);
            if self.plain.ranges() > most_ranges(self.highest - self.plain.low()) {
                // As on a stream of bytes: more than honest loss explains.
                return Err(TransportError::new(Code::PROTOCOL_VIOLATION, "too many gaps in a stream"));
            }
        }
        self.end_reset();
        if self.final_size == Some(self.plain.low()) && self.plain.is_inside_record() && !self.reset {
            self.fault = self.fault.or(Some(RecordFault::Truncated));
        }
        if self.fault.is_some() {
            self.discard(self.highest);
        }
        Ok(grown)
    }

    /// An ABANDON frame for `len` bytes from `offset` on.
    pub(crate) fn on_abandon(&mut self, now: Time, offset: u64, len: u64) -> Result<u64, TransportError> {
        // FS-62 3: it gives up nothing.
        if len == 0 {
            return Err(fence_error("ABANDON of nothing"));
        }
        let grown = self.arrive(RecvKind::Fenced, offset, len, false)?;
        if !self.reset {
            let freed = self.extents.on_abandon(offset..offset + len)?;
            self.consumed += freed.consumed;
            self.count(freed.uncounted);
            self.release(now);
            self.end_reset();
            self.check_final()?;
        }
        Ok(grown)
    }

    /// RESET_STREAM_AT: records that end at or below `reliable` still come, as fences let them go; of the
    /// others, only what these let go before can be read (FS-60).
    pub(crate) fn on_reset_at(&mut self, final_size: u64, reliable: u64) -> Result<u64, TransportError> {
        let grown = self.advance(final_size, true)?;
        if !self.reset && self.reliable.is_none_or(|before| reliable < before) {
            self.reliable = Some(reliable);
            self.ready.end_at(reliable);
            self.end_reset();
        }
        Ok(grown)
    }

    /// The stream was reset, and something that is to come all the same is missing.
    pub(crate) fn awaits_rest(&self) -> bool {
        self.reliable.is_some() && !self.reset && self.fault.is_none()
    }

    /// Connection credit has had these bytes before.
    pub(crate) fn was_consumed(&mut self, bytes: u64) {
        self.untaken = self.untaken.saturating_sub(bytes);
    }

    /// RESET_STREAM: what fences still hold is gone, what they let go can be read (FS-59).
    pub(crate) fn on_reset(&mut self, final_size: u64) -> Result<u64, TransportError> {
        let grown = self.advance(final_size, true)?;
        if !self.reset {
            self.reset = true;
            self.discard(final_size);
        }
        Ok(grown)
    }

    /// The next message that fences do not hold.
    pub(crate) fn next(&mut self) -> Option<Message> {
        let run = self.ready.first()?;
        let CompleteRun { completed, released, fence: segment, .. } = *run;
        let (payload, size, uncounted, last) = match &mut run.content {
            RunContent::Whole { payload, size } => (std::mem::take(payload), *size, 0, true),
            RunContent::Records { data, each } => {
                let (len, prefix) = read_prefix(data).expect("prefixes were read on arrival");
                let _ = data.split_to(prefix as usize);
                let payload = data.split_to(index(len));
                let size = u64::from(prefix) + len;
                run.offset += size;
                if *each {
                    run.fence = run.offset;
                }
                (payload, size, size, data.is_empty())
            }
        };
        self.ready.done(uncounted, last);
        self.consumed += size;
        self.count(uncounted);
        self.update_credit();
        Some(Message { payload, segment, completed, released })
    }

    /// True when [`next`](Self::next) has a message.
    pub(crate) fn is_readable(&self) -> bool {
        !self.ready.is_empty()
    }

    /// True when nothing more can come and everything was read.
    pub(crate) fn is_finished(&self) -> bool {
        let complete = self.reset || self.fault.is_some() || self.final_size == Some(self.low());
        complete && self.ready.is_empty()
    }

    /// Why records cannot be read, on a stream of STREAM frames. What came before can be read.
    pub(crate) fn fault(&self) -> Option<RecordFault> {
        self.fault
    }

    /// The end of the stream, when it is known.
    pub(crate) fn final_size(&self) -> Option<u64> {
        self.final_size
    }

    /// Bytes by which connection credit may grow, counted once (FS-38, FS-52).
    pub(crate) fn take_consumed(&mut self) -> u64 {
        std::mem::take(&mut self.untaken)
    }

    /// The credit that the peer may be told, an absolute offset that never falls.
    #[inline]
    pub(crate) fn max_stream_data(&self) -> u64 {
        self.max
    }

    /// Bytes of the longest record on the stream.
    pub(crate) fn longest(&self) -> u64 {
        self.max_record.saturating_add(8)
    }

    /// Runs of bytes behind the lowest that is missing, of a stream of FENCED frames.
    #[inline]
    pub(crate) fn apart(&self) -> usize {
        self.extents.ranges()
    }

    /// Bytes of data in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        let complete = self.ready.held_bytes() + self.held.held_bytes();
        complete + self.extents.held_bytes() + self.plain.held_bytes()
    }

    /// Bytes of memory with all bookkeeping, about.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        let complete = self.ready.memory() + self.held.memory();
        complete
            + self.extents.memory()
            + self.plain.memory()
            + self.completed.capacity() * size_of::<CompleteRun>()
    }

    /// Entries that data are kept in: at most a few for each frame that arrived above a hole.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        self.ready.len() + self.held.len() + self.extents.entries() + self.plain.entries()
    }

    /// What must hold between calls.
    pub(crate) fn check(&self) {
        self.extents.check();
        let low = self.low();
        debug_assert!(
            self.held.first_fence().is_none_or(|fence| fence > low),
            "FS-30: a free record is held"
        );
        debug_assert!(self.counted <= self.highest && self.consumed <= self.highest);
        debug_assert!(self.highest <= self.max && self.completed.is_empty());
    }

    /// What every frame with bytes of the stream must keep to; returns how far the highest offset grew.
    fn arrive(&mut self, kind: RecvKind, offset: u64, len: u64, fin: bool) -> Result<u64, TransportError> {
        // FS-62 12.
        if *self.kind.get_or_insert(kind) != kind {
            return Err(fence_error("FENCED and STREAM frames in one direction of a stream"));
        }
        self.advance(offset.saturating_add(len), fin)
    }

    /// Bytes go up to `end`, and no further if `is_final` (RFC 9000 §4.1, §4.5; FS-42, FS-57).
    fn advance(&mut self, end: u64, is_final: bool) -> Result<u64, TransportError> {
        let beyond = self.final_size.is_some_and(|size| end > size || (is_final && end < size));
        if beyond || (is_final && end < self.highest) {
            return Err(TransportError::new(
                Code::FINAL_SIZE_ERROR,
                "data past the final size, or a second one",
            ));
        }
        if end > self.max {
            return Err(TransportError::new(Code::FLOW_CONTROL_ERROR, "more than the credit of a stream"));
        }
        if is_final {
            self.final_size = Some(end);
        }
        let grown = end.saturating_sub(self.highest);
        self.highest += grown;
        Ok(grown)
    }

    /// FS-62 5: the final size is a record boundary.
    fn check_final(&self) -> Result<(), TransportError> {
        match self.final_size {
            Some(size) if !self.reset && self.reliable.is_none() && self.extents.reaches_over(size) => {
                Err(fence_error("the stream ends inside a record"))
            }
            _ => Ok(()),
        }
    }

    /// FS-60: when nothing is missing below the reliable size, all records that end there are free, and the
    /// rest goes.
    fn end_reset(&mut self) {
        let low = self.low();
        if let Some(size) = self.final_size.filter(|_| self.reliable.is_some_and(|least| low >= least)) {
            if !self.reset {
                self.reset = true;
                self.discard(size);
            }
        }
    }

    /// After the lowest missing offset may have moved: lets go what is free.
    ///
    /// Only complete records come here (FS-27), and all that are free leave at once (FS-30). A record is free
    /// once `low` has reached its fence. That is all of FS-28 and FS-29: when every byte
    /// below a fence is there or abandoned, every record below it is complete or abandoned, its own fence
    /// lies lower still, and lower fences are served first.
    fn release(&mut self, now: Time) {
        let low = self.low();
        let mut completed = std::mem::take(&mut self.completed);
        for run in completed.drain(..) {
            if self.held.is_empty() && run.fence <= low && run.last_fence_at_most(low) {
                self.ready.push(run);
            } else {
                self.held.hold(run);
            }
        }
        // One frame that closes a hole may complete many; that much room is not needed again soon.
        completed.shrink_to(32);
        self.completed = completed;
        self.held.release(low, now, &mut self.ready);
        self.update_credit();
    }

    fn low(&self) -> u64 {
        match self.kind {
            Some(RecvKind::Plain) => self.plain.low(),
            _ => self.extents.low(),
        }
    }

    /// MAX_STREAM_DATA = max(s + Max Record Size + 8, min(consumed + W, m + S)) with S = 2W (FS-36, FS-37,
    /// FS-40).
    fn update_credit(&mut self) {
        let (low, start, ranges) = match self.kind {
            Some(RecvKind::Plain) => (self.plain.low(), self.plain.record_start(), self.plain.ranges()),
            _ => (self.extents.low(), self.extents.record_start(), self.extents.ranges()),
        };
        if ranges > credited_ranges(self.highest.saturating_sub(low)) || self.reset {
            return;
        }
        let record = start.saturating_add(self.longest());
        let window = self.consumed.saturating_add(self.window).min(low.saturating_add(2 * self.window));
        self.max = self.max.max(record.max(window)).min(varint::MAX);
    }

    fn count(&mut self, bytes: u64) {
        self.counted += bytes;
        self.untaken += bytes;
    }

    /// Drops all that is not free; the connection's credit for everything below `end` comes back now, but
    /// for what is still to be read.
    fn discard(&mut self, end: u64) {
        self.held.clear();
        self.extents.clear();
        self.plain.clear();
        let unread = self.ready.uncounted();
        self.count((end - unread).saturating_sub(self.counted));
    }
}

pub(super) fn fence_error(reason: &'static str) -> TransportError {
    TransportError::new(Code::FENCE_ERROR, reason)
}
