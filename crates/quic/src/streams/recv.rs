use bytes::Bytes;
use quickset_base::{Duration, Time};
use quickset_wire::TransportErrorCode as Code;

use super::assembler::Assembler;
use super::event::RecvState;
use super::fenced::RecordReceiver;
use super::flow::ReceiveWindow;
use crate::TransportError;

/// The receiving half of a stream (RFC 9000 §3.2).
#[derive(Debug)]
pub(super) struct RecvHalf {
    pub(super) assembler: Assembler,
    /// Takes the place of `assembler` on a stream of messages.
    pub(super) messages: Option<Box<RecordReceiver>>,
    /// A STREAM frame came.
    pub(super) plain: bool,
    /// Something came as early data.
    pub(super) early: bool,
    pub(super) window: ReceiveWindow,
    /// The offset behind the highest byte that came, or the final size of a reset.
    pub(super) highest: u64,
    pub(super) final_size: Option<u64>,
    /// The peer's code, when it gave the stream up.
    pub(super) reset: Option<u64>,
    /// The bytes from the start that come all the same, if it said so.
    pub(super) reliable: Option<u64>,
    /// Our code, when we want no more.
    pub(super) stopped: Option<u64>,
    /// The application was told all: the end, or the reset.
    pub(super) read: bool,
    /// The application waits for Readable.
    pub(super) waiting: bool,
    /// What came was more work than its bytes.
    pub(super) charged: bool,
}

impl RecvHalf {
    pub(super) fn new(window: ReceiveWindow) -> Self {
        Self {
            assembler: Assembler::default(),
            messages: None,
            plain: false,
            early: false,
            window,
            highest: 0,
            final_size: None,
            reset: None,
            reliable: None,
            stopped: None,
            read: false,
            waiting: true,
            charged: false,
        }
    }

    /// Checks that bytes up to `end`, and the end of the stream if `fin`, may be; returns by how much the
    /// highest offset grows. Nothing is changed.
    #[inline]
    pub(super) fn admit(&self, end: u64, fin: bool) -> Result<u64, TransportError> {
        // RFC 9000 §4.5: the final size never changes, and nothing lies beyond it.
        match self.final_size {
            Some(size) if end > size || (fin && end != size) => {
                return Err(TransportError::new(
                    Code::FINAL_SIZE_ERROR,
                    "the final size of a stream changed",
                ));
            }
            None if fin && end < self.highest => {
                return Err(TransportError::new(Code::FINAL_SIZE_ERROR, "a final size below bytes received"));
            }
            _ => {}
        }
        self.within_credit(end)?;
        Ok(end.saturating_sub(self.highest))
    }

    /// RFC 9000 §4.1: nothing beyond what was advertised.
    #[inline]
    pub(super) fn within_credit(&self, end: u64) -> Result<(), TransportError> {
        if end > self.window.limit() {
            return Err(TransportError::new(Code::FLOW_CONTROL_ERROR, "more than the stream's credit"));
        }
        Ok(())
    }

    /// True when what comes is dropped.
    #[inline]
    pub(super) fn is_deaf(&self) -> bool {
        self.stopped.is_some() || self.read || (self.reset.is_some() && !self.awaits_rest())
    }

    /// The peer gave the stream up, and something still comes.
    pub(super) fn awaits_rest(&self) -> bool {
        match &self.messages {
            Some(receiver) => receiver.awaits_rest(),
            None => self.reliable.is_some_and(|reliable| self.assembler.next() < reliable),
        }
    }

    /// After a reset behind which nothing comes any more: drops what lies behind a hole, and returns its
    /// bytes, and those that never came.
    pub(super) fn drop_rest(&mut self) -> u64 {
        self.assembler.drop_early();
        self.reliable = None;
        let dropped = self.highest - self.assembler.next() - self.assembler.taken_bytes();
        self.window.consume(dropped);
        dropped
    }

    /// Bytes that arrived. True when there is something new to read.
    #[inline]
    pub(super) fn data(&mut self, offset: u64, data: &[u8], payload: &Bytes) -> Result<bool, TransportError> {
        self.assembler.insert(offset, data, payload).map_err(|_| {
            // More than honest loss explains; to hold on would let the peer use our memory as it likes.
            TransportError::new(Code::PROTOCOL_VIOLATION, "too many gaps in a stream")
        })
    }

    #[inline]
    pub(super) fn is_complete(&self) -> bool {
        match &self.messages {
            Some(receiver) => receiver.is_finished(),
            None => self.final_size == Some(self.assembler.next()),
        }
    }

    /// Nothing was read, and may still be.
    pub(super) fn is_unread(&self) -> bool {
        self.assembler.start() == 0 && !self.assembler.is_loose() && !self.read && self.stopped.is_none()
    }

    /// Nothing will change any more. A stopped half needs nothing but the final size, for the credit.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.read || (self.stopped.is_some() && self.final_size.is_some())
    }

    /// More credit would be of use to the peer.
    #[inline]
    pub(super) fn wants_more(&self) -> bool {
        self.final_size.is_none() && self.stopped.is_none() && self.is_credit_due()
    }

    #[inline]
    fn is_credit_due(&self) -> bool {
        let Some(receiver) = &self.messages else { return self.window.is_due() };
        // What fences hold is not consumed, so the rest of the credit counts too: below half of it any more
        // is of use.
        let left = self.window.limit().saturating_sub(self.highest);
        let more = receiver.max_stream_data().saturating_sub(self.window.limit());
        let size = self.window.size();
        // FS-36: the longest record always has room, for who sends may wait until its own has.
        more > 0 && (more >= size / 8 || left <= size / 2 || left < receiver.longest())
    }

    /// Moves the credit of the stream on and returns it.
    pub(super) fn advance(&mut self, now: Time, srtt: Duration) -> u64 {
        let Some(receiver) = &mut self.messages else { return self.window.advance(now, srtt) };
        if receiver.max_stream_data() > self.window.limit() {
            self.window.tune(now, srtt);
            receiver.set_window(self.window.size());
        }
        self.window.grant(receiver.max_stream_data());
        self.window.limit()
    }

    /// Drops what is held, and returns the bytes that count as consumed by that: all that came or, after
    /// a reset, were announced.
    pub(super) fn abandon(&mut self) -> u64 {
        self.assembler.clear();
        self.messages = None;
        let unread = self.highest - self.window.consumed();
        self.window.consume(unread);
        unread
    }

    /// Verifies what must hold between calls, and returns the bytes that the application has not had.
    pub(super) fn check(&self) -> u64 {
        self.assembler.check();
        if let Some(receiver) = &self.messages {
            receiver.check();
        }
        assert!(self.highest <= self.window.limit(), "more received than allowed");
        assert!(self.window.consumed() <= self.highest, "more consumed than received");
        assert!(self.final_size.is_none_or(|size| self.highest <= size), "data beyond the end");
        self.highest - self.window.consumed()
    }

    pub(super) fn state(&self) -> RecvState {
        match self.final_size {
            _ if self.stopped.is_some() => RecvState::Closed,
            _ if self.awaits_rest() => RecvState::SizeKnown,
            _ if self.reset.is_some() && self.read => RecvState::Closed,
            _ if self.reset.is_some() => RecvState::Reset,
            _ if self.read => RecvState::Read,
            _ if self.is_complete() => RecvState::Complete,
            Some(_) => RecvState::SizeKnown,
            None => RecvState::Open,
        }
    }
}
