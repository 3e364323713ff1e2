use std::collections::VecDeque;

use super::demand::BoundaryMarks;
use super::event::{SendState, WriteError};
use super::fenced::{Outcome, RecordSender, Ticket};
use super::flow::SendCredit;
use super::send_buffer::SendBuffer;
use crate::packet::Want;

/// The sending half of a stream (RFC 9000 §3.1).
#[derive(Debug)]
pub(super) struct SendHalf {
    pub(super) buffer: SendBuffer,
    /// Takes the place of `buffer` on a stream of messages.
    pub(super) messages: Option<Box<RecordSender>>,
    /// What the application does not know yet of its messages.
    pub(super) outcomes: VecDeque<(Ticket, Outcome)>,
    /// The stream's own credit (MAX_STREAM_DATA).
    pub(super) credit: SendCredit,
    pub(super) state: SendState,
    /// FIN was asked for, and is not on its way.
    pub(super) fin_due: bool,
    fin_acked: bool,
    /// The peer's code, when it wants no more.
    pub(super) stopped: Option<u64>,
    pub(super) reset: Reset,
    /// A write was refused since the last Writable.
    pub(super) refused: bool,
    pub(super) marks: BoundaryMarks,
}

/// What became of a half that was given up.
#[derive(Debug, Default)]
pub(super) struct Reset {
    /// Our code.
    pub(super) code: u64,
    /// The bytes from the start that arrive all the same.
    pub(super) reliable: u64,
    /// All that has to arrive was sent, so that the final size is known and the peer can be told.
    pub(super) told: bool,
    /// The peer knows, by a frame with this `reliable`.
    acked: bool,
    /// The application was told that it is over.
    announced: bool,
}

impl SendHalf {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            buffer: SendBuffer::default(),
            messages: None,
            outcomes: VecDeque::new(),
            credit: SendCredit::new(limit),
            state: SendState::Open,
            fin_due: false,
            fin_acked: false,
            stopped: None,
            reset: Reset::default(),
            refused: false,
            marks: BoundaryMarks::default(),
        }
    }

    /// Something may go out that needs no credit: what was lost, or the mere end.
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.buffer.lost_range().is_some() || (self.fin_due && self.buffer.unsent() == 0)
    }

    /// Something was lost, and has to be sent again or given up.
    pub(super) fn is_behind(&self) -> bool {
        match &self.messages {
            Some(sender) => sender.want(0) == Want::Lost,
            None => self.buffer.lost_range().is_some(),
        }
    }

    /// Something of a frame that was sent is still missing at the peer, as far as is known.
    pub(super) fn wants(&self, offset: u64, len: u32, fin: bool) -> bool {
        let range = offset..offset + u64::from(len);
        (self.is_sending() && fin && !self.fin_acked) || (self.is_delivering() && self.buffer.misses(range))
    }

    /// Bytes held, sent or not.
    #[inline]
    pub(super) fn queued(&self) -> u64 {
        self.messages.as_ref().map_or(self.buffer.queued(), |sender| sender.queued())
    }

    /// Whether so much of a buffer of `size` bytes is free that whoever fills it is to be told: a quarter.
    /// Where most of it is under way, a buffer of what the path holds would so leave a quarter of the path
    /// empty, and a few packets are enough.
    #[inline]
    pub(super) fn is_roomy(&self, size: u64) -> bool {
        let free = size.saturating_sub(self.queued());
        let few = (size / 64).max(FEW.min(size / 4));
        free >= size / 4 || (free >= few && self.left() <= size / 4)
    }

    /// Drops what waits. Nothing is sent any more.
    pub(super) fn let_go(&mut self) {
        self.buffer.clear();
        self.fin_due = false;
    }

    /// New bytes that the stream's credit lets out.
    #[inline]
    pub(super) fn sendable(&self) -> u64 {
        self.buffer.unsent().min(self.credit.limit().saturating_sub(self.buffer.next()))
    }

    /// Whether bytes may be written.
    pub(super) fn is_writable(&self) -> Result<(), WriteError> {
        match (self.state, self.stopped) {
            (SendState::Open, _) if self.messages.is_some() => Err(WriteError::Messages),
            (SendState::Open, _) => Ok(()),
            (_, Some(code)) => Err(WriteError::Stopped(code)),
            (_, None) => Err(WriteError::Ended),
        }
    }

    /// Nothing was written, and may still be.
    pub(super) fn is_unused(&self) -> bool {
        self.state == SendState::Open && self.is_unwritten()
    }

    /// True when no byte and no message was written to it, whether or not one may still be.
    pub(super) fn is_unwritten(&self) -> bool {
        self.buffer.end() == 0 && self.messages.is_none()
    }

    /// The offset behind the last byte sent: the final size of a reset.
    pub(super) fn sent(&self) -> u64 {
        self.messages.as_ref().map_or(self.buffer.next(), |sender| sender.highest())
    }

    /// More may be sent: MAX_STREAM_DATA. True when that is news.
    pub(super) fn raise(&mut self, max: u64) -> bool {
        if let Some(sender) = &mut self.messages {
            sender.set_max(max);
        }
        self.credit.raise(max)
    }

    /// The stream's credit alone holds data back.
    #[inline]
    pub(super) fn is_starved(&self) -> bool {
        if let Some(sender) = &self.messages {
            return sender.blocked_at().is_some();
        }
        self.buffer.unsent() > 0 && self.credit.limit() <= self.buffer.next()
    }

    /// Nothing will change any more.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, SendState::Finished | SendState::ResetAcked) && self.outcomes.is_empty()
    }

    /// No more will be written.
    pub(super) fn finish(&mut self) {
        self.state = SendState::Finishing;
        match &mut self.messages {
            Some(sender) => sender.finish(),
            None => self.fin_due = true,
        }
    }

    /// A frame has arrived. True when that was the last.
    #[inline]
    pub(super) fn acked(&mut self, offset: u64, len: u32, fin: bool) -> bool {
        if !self.is_delivering() {
            return false;
        }
        self.buffer.acked(offset..offset + u64::from(len));
        if self.state == SendState::Reset {
            self.end_reset();
            return false;
        }
        self.fin_acked |= fin;
        let last = self.fin_acked && self.buffer.is_acked();
        if last {
            self.fin_due = false;
            self.state = SendState::Finished;
        }
        last
    }

    /// A frame was lost.
    pub(super) fn lost(&mut self, offset: u64, len: u32, fin: bool) {
        if self.is_delivering() {
            self.buffer.lost(offset..offset + u64::from(len));
            self.fin_due |= fin && !self.fin_acked && self.is_sending();
        }
    }

    #[inline]
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.state, SendState::Open | SendState::Finishing)
    }

    /// What was written arrives, or a part of it although the stream was reset.
    #[inline]
    fn is_delivering(&self) -> bool {
        self.is_sending() || (self.state == SendState::Reset && self.reset.reliable > 0)
    }

    /// Nothing that was sent counts; it is to be sent anew, when there is credit.
    pub(super) fn rewind(&mut self) {
        self.credit = SendCredit::default();
        self.fin_due = self.state == SendState::Finishing && self.messages.is_none();
        if self.is_sending() {
            self.buffer.rewind(self.buffer.end());
        } else if self.is_delivering() {
            self.buffer.rewind(self.reset.reliable);
            self.reset.told = false;
        } else {
            // The final size of a reset is what was sent.
            self.buffer = SendBuffer::default();
        }
        if let Some(sender) = &mut self.messages {
            sender.rewind();
        }
        self.uncross();
    }

    /// Verifies what must hold between calls.
    pub(super) fn check(&self) {
        self.buffer.check();
        if cfg!(test) {
            self.messages.iter().for_each(|sender| sender.check());
        }
        assert!(self.sent() <= self.credit.limit(), "stream credit exceeded");
    }

    /// Gives the stream up. True when the peer must be told.
    pub(super) fn reset(&mut self, code: u64) -> bool {
        if !self.is_delivering() {
            return false;
        }
        self.give_up(code, 0);
        self.reset.told = true;
        self.buffer.clear();
        self.marks.forget();
        if let Some(sender) = &mut self.messages {
            sender.reset();
        }
        true
    }

    /// Gives the stream up but for its first `reliable` bytes. True when that is news.
    pub(super) fn reset_at(&mut self, code: u64, reliable: u64) -> bool {
        let reliable = reliable.min(self.buffer.end());
        if reliable == 0 {
            return self.reset(code);
        }
        // draft-ietf-quic-reliable-stream-reset §5.2: never more than before.
        if !self.is_delivering() || (self.state == SendState::Reset && reliable >= self.reset.reliable) {
            return false;
        }
        self.give_up(code, reliable);
        self.buffer.cut(reliable);
        self.marks.forget();
        true
    }

    /// Gives up the messages behind one. True when that is news.
    pub(super) fn reset_behind(&mut self, code: u64, last: Ticket) -> bool {
        let is_sending = self.is_sending();
        let Some(sender) = self.messages.as_mut().filter(|_| is_sending) else { return false };
        sender.cut_behind(last);
        // How much that is turns out when it was sent.
        self.give_up(code, u64::MAX);
        self.marks.forget();
        true
    }

    fn give_up(&mut self, code: u64, reliable: u64) {
        // draft-ietf-quic-reliable-stream-reset §5.2: the code does not change.
        let code = if self.state == SendState::Reset { self.reset.code } else { code };
        self.state = SendState::Reset;
        self.reset = Reset { code, reliable, ..Reset::default() };
        self.fin_due = false;
    }

    /// A half that was given up, of which all that has to arrive was sent: true once, as the peer is to be
    /// told.
    pub(super) fn tell_reset(&mut self) -> bool {
        if self.state != SendState::Reset || self.reset.told || self.buffer.unsent() > 0 {
            return false;
        }
        if let Some(sender) = &self.messages {
            let Some(size) = sender.reliable_size() else { return false };
            self.reset.reliable = size;
        }
        self.reset.told = true;
        true
    }

    /// The peer knows that the half was given up.
    pub(super) fn reset_acked(&mut self, reliable: u64) {
        // draft-ietf-quic-reliable-stream-reset §5.3: the frame with the smallest size counts.
        if self.state == SendState::Reset && reliable == self.reset.reliable {
            self.reset.acked = true;
            self.end_reset();
        }
    }

    /// The peer knows, and has what was promised: true once, unless it was the peer who wanted no more.
    pub(super) fn announces_reset(&mut self) -> bool {
        let news = self.state == SendState::ResetAcked && self.stopped.is_none() && !self.reset.announced;
        self.reset.announced |= news;
        news
    }

    /// A frame that said so has to be sent, or sent again.
    pub(super) fn owes_reset(&self, reliable: u64) -> bool {
        self.state == SendState::Reset
            && self.reset.told
            && !self.reset.acked
            && reliable == self.reset.reliable
    }

    /// The half is through when the peer knows, and has what was promised.
    pub(super) fn end_reset(&mut self) {
        let delivered = match &self.messages {
            Some(sender) => self.reset.reliable == 0 || sender.is_cut(),
            None => self.buffer.is_acked(),
        };
        if self.reset.acked && delivered {
            self.state = SendState::ResetAcked;
        }
    }
}

/// Bytes below which nobody is woken for the sake of the path: two packets.
const FEW: u64 = 2400;
