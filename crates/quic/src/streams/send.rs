use std::collections::VecDeque;

use super::demand::Marks;
use super::event::SendState;
use super::fenced::{Outcome, Sender, Ticket};
use super::flow::Credit;
use super::send_buffer::SendBuffer;
use crate::room::Want;

/// The sending half of a stream (RFC 9000 §3.1).
#[derive(Debug)]
pub(super) struct SendHalf {
    pub(super) buffer: SendBuffer,
    /// Takes the place of `buffer` on a stream of messages.
    pub(super) messages: Option<Box<Sender>>,
    /// What the application does not know yet of its messages.
    pub(super) outcomes: VecDeque<(Ticket, Outcome)>,
    /// The stream's own credit (MAX_STREAM_DATA).
    pub(super) credit: Credit,
    pub(super) state: SendState,
    /// FIN was asked for, and is not on its way.
    pub(super) fin_due: bool,
    fin_acked: bool,
    /// The peer's code, when it wants no more.
    pub(super) stopped: Option<u64>,
    /// Our code, when the stream was reset.
    pub(super) reset_code: u64,
    /// A write was refused since the last Writable.
    pub(super) refused: bool,
    pub(super) marks: Marks,
}

impl SendHalf {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            buffer: SendBuffer::default(),
            messages: None,
            outcomes: VecDeque::new(),
            credit: Credit::new(limit),
            state: SendState::Open,
            fin_due: false,
            fin_acked: false,
            stopped: None,
            reset_code: 0,
            refused: false,
            marks: Marks::default(),
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
        let range = offset..offset + len as u64;
        self.is_sending() && (self.buffer.misses(range) || (fin && !self.fin_acked))
    }

    /// New bytes that the stream's credit lets out.
    #[inline]
    pub(super) fn sendable(&self) -> u64 {
        self.buffer.unsent().min(self.credit.limit().saturating_sub(self.buffer.next()))
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
        if !self.is_sending() {
            return false;
        }
        self.buffer.acked(offset..offset + len as u64);
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
        if self.is_sending() {
            self.buffer.lost(offset..offset + len as u64);
            self.fin_due |= fin && !self.fin_acked;
        }
    }

    #[inline]
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.state, SendState::Open | SendState::Finishing)
    }

    /// Nothing that was sent counts; it is to be sent anew, when there is credit.
    pub(super) fn rewind(&mut self) {
        self.credit = Credit::default();
        self.fin_due = self.state == SendState::Finishing && self.messages.is_none();
        if self.is_sending() {
            self.buffer.rewind();
        } else {
            // The final size of a reset is what was sent.
            self.buffer = SendBuffer::default();
        }
        if let Some(sender) = &mut self.messages {
            sender.rewind();
        }
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
        if !self.is_sending() {
            return false;
        }
        self.state = SendState::Reset;
        self.reset_code = code;
        self.fin_due = false;
        self.buffer.clear();
        self.marks.forget();
        if let Some(sender) = &mut self.messages {
            sender.reset();
        }
        true
    }
}
