use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use quickset_base::{Duration, Time};
use quickset_wire::TransportErrorCode as Code;

use super::extents::Extents;
use super::partial::{Content, Run};
use super::plain::Plain;
use crate::TransportError;

/// The receiving half of a stream of records.
///
/// 1. Frames go to [`on_fenced`](Self::on_fenced), [`on_abandon`](Self::on_abandon) and
///    [`on_stream`](Self::on_stream), RESET_STREAM to [`on_reset`](Self::on_reset). Each returns by how much the
///    highest offset grew, for connection credit, or the error that closes the connection.
/// 2. Messages come out of [`next`](Self::next), in the order in which the fences let them go.
/// 3. Afterwards [`take_consumed`](Self::take_consumed) is what connection credit may grow by, and
///    [`max_stream_data`](Self::max_stream_data) what the peer may be told.
#[derive(Debug)]
pub(crate) struct Receiver {
    max_record: u64,
    window: u64,
    kind: Option<Kind>,
    extents: Extents,
    plain: Plain,
    /// Complete records behind a fence, by fence and order of completion (FS-31, FS-32).
    held: BTreeMap<(u64, u64), Run>,
    completions: u64,
    ready: VecDeque<Run>,
    highest: u64,
    final_size: Option<u64>,
    reset: bool,
    fault: Option<Fault>,
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
    /// The segment it belongs to, as the stream offset of the fence that begins it: messages with the
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
pub enum Fault {
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
enum Kind {
    Fenced,
    Plain,
}

impl Receiver {
    /// A stream that takes records of at most `max_record` bytes of payload, with a receive window of
    /// `window` bytes. Both initial credits are at least `max_record` + 8 (FS-35).
    pub(crate) fn new(max_record: u64, window: u64) -> Self {
        let mut new = Self {
            max_record,
            window,
            kind: None,
            extents: Extents::new(max_record),
            plain: Plain::new(max_record),
            held: BTreeMap::new(),
            completions: 0,
            ready: VecDeque::new(),
            highest: 0,
            final_size: None,
            reset: false,
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
        let grown = self.arrive(Kind::Fenced, offset, data.len() as u64, fin)?;
        if self.reset || data.is_empty() {
            return Ok(grown);
        }
        let arrival = Arrival { now, fence: offset - distance, offset, data, payload };
        let end = offset + data.len() as u64;
        // FS-63: below the lowest missing offset nothing is remembered, and data are ignored.
        if end > self.extents.low() {
            let mut out = Completed { to: self, now };
            let counted = out.take_extents(|extents, out| {
                if start { extents.on_records(&arrival, each, out) } else { extents.on_piece(&arrival, out) }
            })?;
            self.count(counted);
            self.moved(now);
        }
        self.check_final()?;
        Ok(grown)
    }
}
