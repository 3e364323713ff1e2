//! New data of one stream as packets take it that hold nothing else.

use quickset_base::number::within_u32;
use quickset_wire::frame::stream_header_size;

use super::Streams;
use super::event::SendState;
use super::outbound::{RUNT, fit};
use crate::packet::{Channel, StreamFrame, StreamKey};

impl Streams {
    /// The next bytes of a stream, as many as fill `room` as a STREAM frame without FIN, if it is its turn,
    /// they lie in one piece of its buffer, and there are more behind them that may be sent. They are sent
    /// then; [`end_stretch`](Self::end_stretch) is called behind the last of several.
    #[inline]
    pub(crate) fn stretch(&mut self, key: StreamKey, room: usize) -> Option<(StreamFrame, &[u8])> {
        let credit = self.limits.free();
        let stream = self.slab.get_mut(key)?;
        let (id, class, half) = (stream.id, stream.class?, stream.send.as_mut()?);
        let offset = half.buffer.next();
        let header = stream_header_size(id, offset, None);
        let n = fit(room, header, u64::MAX).filter(|n| *n >= RUNT)?;
        let end = offset + n as u64;
        // Whatever changes with the last byte, or with a boundary, is none of ours.
        let goes_on = half.messages.is_none()
            && matches!(half.state, SendState::Open | SendState::Finishing)
            && half.sendable().min(credit) > n as u64
            && half.marks.first_flush().is_none_or(|at| at > end)
            && self.turns.goes_on(class);
        if !goes_on {
            return None;
        }
        let piece = half.buffer.next_piece(n)?;
        self.limits.spend(n as u64);
        self.turns.sent(class, stream_header_size(id, offset, Some(n)) + n, credit);
        let data = half.buffer.pass(n);
        Some((StreamFrame { key, id, offset, len: within_u32(n as u64), piece }, data))
    }

    /// Whether it is the turn of a stream of bytes with more than `bytes` of them.
    #[inline]
    pub(crate) fn goes_on(&mut self, bytes: usize) -> bool {
        let stream = self.turn().and_then(|key| self.slab.get(key));
        let half = stream.and_then(|stream| stream.send.as_ref());
        half.is_some_and(|half| half.messages.is_none() && half.sendable() > bytes as u64)
    }

    /// Whose turn it is while there is credit of the connection.
    #[inline]
    pub(crate) fn turn(&mut self) -> Option<StreamKey> {
        let credit = self.limits.free();
        if credit > 0 { self.turns.next(credit) } else { None }
    }

    /// Notes what the stream has left, and whose turn it is now: a turn begins when that before it ends,
    /// whoever comes until the next packet.
    pub(crate) fn end_stretch(&mut self, key: StreamKey) {
        self.refresh(key);
        if self.slab.get(key).is_some_and(|stream| stream.channel() == Channel::Connection) {
            self.recent = key;
        }
        self.turn();
    }

    /// Frames about streams wait that are not data.
    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        self.limits.has_due() || !self.control.is_empty()
    }
}
