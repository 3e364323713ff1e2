//! Frames about streams, as they go, and what became of them.

use bytes::Bytes;
use quickset_base::Time;
use quickset_base::number::within_u32;
use quickset_wire::frame::{Frame, stream_header, stream_header_size};
use quickset_wire::{StreamId, varint};

use super::fenced::RecordSender;
use super::send::SendHalf;
use super::turns::has;
use super::{SendState, Stream, Streams, owes, told};
use crate::packet::{Channel, FrameToken, PacketWriter, RoomView, StreamFrame, StreamKey};

/// Whose data goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamTurn {
    pub(crate) channel: Channel,
    /// The stream; of datagrams, or of repair that no stream stands for, what does among streams.
    pub(crate) key: StreamKey,
    /// It begins with what was sent before and lost, or gives up what was lost.
    pub(crate) resend: bool,
}

/// What was written into a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenStream {
    /// Bytes of frames.
    pub(crate) bytes: usize,
    /// Among them is the last of a message of a stream that [splits evenly](Streams::set_even): the sooner it
    /// is known what arrived of it, the better.
    pub(crate) ends_message: bool,
}

impl Streams {
    /// Writes what keeps others going: resets, requests to stop, credit, and that we are blocked.
    #[inline]
    pub(crate) fn write_control(&mut self, w: &mut PacketWriter<'_>, view: &RoomView) {
        if self.limits.has_due() {
            let is_blocked = self.is_blocked();
            self.limits.write(w, view, is_blocked);
        }
        if !self.control.is_empty() {
            self.write_due_of_streams(w, view);
        }
    }

    /// Fills the packet with data: by urgency, what was lost before what is new (RFC 9218 §12). With a
    /// `channel`, only while the turn is its own: what comes behind another's turn waits for it.
    ///
    /// It may write nothing although [`next_channel`](Self::next_channel) named the channel: what remains of
    /// the packet is too little, or the messages came too late and were dropped.
    pub(crate) fn write_data(
        &mut self,
        w: &mut PacketWriter<'_>,
        view: &RoomView,
        channel: Option<Channel>,
    ) -> WrittenStream {
        let (empty, mut ends_message) = (w.len(), false);
        loop {
            let credit = self.limits.free();
            let Some(key) = self.turns.next(credit) else { break };
            let Some(stream) = self.slab.get_mut(key) else { break };
            if channel.is_some_and(|channel| channel != stream.channel()) {
                break;
            }
            // Repair has packets of its own.
            let Some(class) = stream.class.filter(|_| stream.has & has::DATA != 0) else { break };
            let (id, before) = (stream.id, w.len());
            let Some(half) = &mut stream.send else { break };
            let (may_cross, given_up) = (half.may_cross(), half.state == SendState::Reset);
            if let Some(sender) = &mut half.messages {
                w.mark();
                self.limits.spend(sender.write(w, credit, view));
                ends_message |= sender.take_ended();
                self.turns.sent(class, w.len() - before, credit);
                self.review(key);
            } else {
                let ends = half.fin_due;
                self.limits.spend(half.write(id, key, w, credit));
                self.ended = self.ended.wrapping_add(u32::from(ends && !half.fin_due));
                self.turns.sent(class, w.len() - before, credit);
                self.refresh(key);
            }
            if channel == Some(Channel::Connection) && w.len() > before {
                self.recent = key;
            }
            if may_cross {
                self.cross(key, view.now);
                if given_up {
                    self.tell_reset(key);
                }
            }
            let has = self.slab.get(key).map_or(0, |stream| stream.has);
            if w.len() == before && has & has::DATA != 0 {
                // The packet is full.
                break;
            }
        }
        self.note_blocked();
        if self.limits.is_spent() {
            // All channels are limited now.
            self.tally.beat();
        }
        WrittenStream { bytes: w.len() - empty, ends_message }
    }

    /// How many ends of streams were written, modulo 2^32.
    #[inline]
    pub(crate) fn ended(&self) -> u32 {
        self.ended
    }

    /// Packets hold frames of at most so many bytes from now on.
    #[inline]
    pub(crate) fn set_max_frame(&mut self, bytes: usize) {
        self.turns.set_max_frame(bytes);
    }

    /// So many streams wait that their turns are to be told how much leaves in a while.
    #[inline]
    pub(crate) fn has_many_turns(&self) -> bool {
        self.turns.has_many()
    }

    /// Each of them may have to wait until so many bytes of the others have left.
    pub(crate) fn set_longest_round(&mut self, bytes: u64) {
        self.turns.set_longest_round(bytes);
    }

    /// Whether there is data that goes along with whatever leaves, and could leave.
    #[inline]
    pub(crate) fn has_piggyback(&self) -> bool {
        self.turns.has_piggyback() && !self.limits.is_spent()
    }

    /// Whose data [`write_data`](Self::write_data) would write next.
    #[inline]
    pub(crate) fn next_channel(&mut self) -> Option<StreamTurn> {
        let key = self.turns.next(self.limits.free())?;
        let Some(stream) = self.slab.get(key) else {
            let (channel, _) = self.turns.outsider(key)?;
            return Some(StreamTurn { channel, key, resend: false });
        };
        // A bare FIN needs no credit either, but nothing of it was lost.
        let resend = stream.has & has::OWED != 0 && stream.send.as_ref().is_some_and(SendHalf::is_behind);
        Some(StreamTurn { channel: stream.channel(), key, resend })
    }

    /// The piece of a stream's buffer that a frame was just taken from.
    pub(crate) fn piece(&self, frame: &StreamFrame) -> Option<Bytes> {
        self.slab.get(frame.key)?.send.as_ref()?.buffer.piece(frame.piece)
    }

    /// Whether there is such a channel, still.
    pub(crate) fn has_channel(&self, channel: Channel) -> bool {
        match channel {
            Channel::Connection | Channel::Datagrams => true,
            Channel::Stream(key) => self.slab.get(key).is_some(),
        }
    }

    /// Whether something that the token stands for is still of use at the peer. Who keeps the token of a lost
    /// symbol asks before the symbol is sent again as it was, and hands the token back as lost when the
    /// answer is no.
    ///
    /// While a token is kept, its data is neither lost nor acknowledged here: it is not sent a second time,
    /// and a message that becomes too late meanwhile is given up when the token comes back, as if it was lost
    /// only then.
    pub(crate) fn wants(&self, token: FrameToken, now: Time) -> bool {
        let half = |key| self.slab.get(key).and_then(|stream| stream.send.as_ref());
        let sender = |key| half(key).and_then(|half| half.messages.as_ref());
        match token {
            FrameToken::Stream { key, offset, len, fin } => {
                half(key).is_some_and(|h| h.wants(offset, len, fin))
            }
            FrameToken::Fenced { key, offset, len, fin } => {
                sender(key).is_some_and(|sender| sender.wants(offset, u64::from(len), fin, now))
            }
            FrameToken::Abandon { key, offset } => sender(key).is_some_and(|sender| sender.abandons(offset)),
            FrameToken::ResetStream { key, reliable } => {
                half(key).is_some_and(|half| half.owes_reset(reliable))
            }
            // No symbol holds it: it is written afresh, as it is then.
            _ => false,
        }
    }

    /// What a token stands for was lost with its packet, and recovered by the peer from repair symbols.
    pub(crate) fn recovered(&mut self, token: FrameToken, now: Time) {
        match token {
            FrameToken::Fenced { key, offset, len, fin } => {
                self.with_sender(key, now, |sender| sender.recovered(offset, u64::from(len), fin));
            }
            _ => self.acked(token, now),
        }
    }

    /// A packet with this token has arrived.
    #[inline]
    pub(crate) fn acked(&mut self, token: FrameToken, now: Time) {
        match token {
            FrameToken::Stream { key, offset, len, fin } => self.data_acked(key, offset, len, fin),
            FrameToken::ResetStream { key, reliable } => {
                if let Some(half) = self.slab.get_mut(key).and_then(|stream| stream.send.as_mut()) {
                    half.reset_acked(reliable);
                    self.settle(key);
                }
            }
            FrameToken::Fenced { key, offset, len, fin } => {
                self.with_sender(key, now, |sender| sender.acked(offset, u64::from(len), fin));
            }
            FrameToken::Abandon { key, offset } => {
                self.with_sender(key, now, |sender| sender.abandon_acked(offset));
            }
            // Credit and requests for it are done with when they arrive.
            _ => {}
        }
    }

    /// A packet with this token was lost. RFC 9000 §13.3: what is still true and still matters is sent again.
    pub(crate) fn lost(&mut self, token: FrameToken, now: Time) {
        match token {
            FrameToken::Stream { key, offset, len, fin } => {
                let Some(half) = self.slab.get_mut(key).and_then(|stream| stream.send.as_mut()) else {
                    return;
                };
                half.lost(offset, len, fin);
                self.refresh(key);
            }
            FrameToken::Fenced { key, offset, len, fin } => {
                self.with_sender(key, now, |sender| sender.lost(offset, u64::from(len), fin, now));
            }
            FrameToken::Abandon { key, offset } => {
                self.with_sender(key, now, |sender| sender.abandon_lost(offset));
            }
            FrameToken::ResetStream { key, reliable } => self.repeat(key, owes::RESET, |stream| {
                stream.send.as_ref().is_some_and(|half| half.owes_reset(reliable))
            }),
            FrameToken::StopSending { key } => self.repeat(key, owes::STOP, |stream| {
                stream.recv.as_ref().is_some_and(|half| half.final_size.is_none())
            }),
            // A smaller limit than the latest is superseded.
            FrameToken::MaxStreamData { key, max } => self.repeat(key, owes::MAX_DATA, |stream| {
                stream.recv.as_ref().is_some_and(|half| half.window.limit() == max)
            }),
            FrameToken::StreamDataBlocked { key, limit } => self.repeat(key, owes::BLOCKED, |stream| {
                stream.send.as_mut().is_some_and(|half| half.credit.report_lost(limit))
            }),
            // Of the connection, or not of streams.
            _ => {
                if self.limits.lost(token) {
                    self.note_blocked();
                }
            }
        }
    }

    /// RFC 9000 §4.1: tells the peer when connection credit holds data back.
    pub(super) fn note_blocked(&mut self) {
        if self.is_blocked() {
            self.limits.note_blocked();
        }
    }

    /// Connection credit holds data back.
    pub(super) fn is_blocked(&self) -> bool {
        let has_new = self.turns.is_fresh() || self.turns.has_piggyback();
        (self.limits.is_spent() && has_new) || !self.starving.is_empty()
    }

    /// Frames about single streams.
    fn write_due_of_streams(&mut self, w: &mut PacketWriter<'_>, view: &RoomView) {
        while let Some(&key) = self.control.front() {
            if let Some(stream) = self.slab.get_mut(key) {
                while stream.control != 0 {
                    if w.room() < CONTROL_ROOM {
                        return;
                    }
                    let bit = stream.control & stream.control.wrapping_neg();
                    stream.control &= !bit;
                    stream.write_control(bit, w, view);
                }
            }
            self.control.pop_front();
        }
    }

    #[inline]
    fn data_acked(&mut self, key: StreamKey, offset: u64, len: u32, fin: bool) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        let Some(half) = &mut stream.send else { return };
        let owed = half.owes();
        let finished = half.acked(offset, len, fin);
        let queued = half.queued();
        self.store.change(&mut stream.held, queued);
        let (over, refused) = (half.state == SendState::ResetAcked, half.refused);
        if finished {
            stream.tell(told::FINISHED, &mut self.events);
        }
        if refused {
            self.tell_credit(key);
        }
        if owed {
            // An acknowledgement that overtook its loss makes the resend needless.
            self.refresh(key);
        }
        if over {
            self.settle(key);
        }
        self.look_for_room();
    }

    /// Tells a sender of messages what became of a packet.
    fn with_sender(&mut self, key: StreamKey, now: Time, tell: impl FnOnce(&mut RecordSender)) {
        let half = self.slab.get_mut(key).and_then(|stream| stream.send.as_mut());
        if let Some(sender) = half.and_then(|half| half.messages.as_mut()) {
            sender.set_now(now);
            tell(sender);
            self.review(key);
            self.cross(key, now);
        }
    }

    /// Owes the reset of a half that was given up, once all that has to arrive was sent.
    pub(super) fn tell_reset(&mut self, key: StreamKey) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        if stream.send.as_mut().is_some_and(SendHalf::tell_reset) {
            stream.owe(owes::RESET, &mut self.control);
        }
    }

    /// Owes a frame again, when it still is true.
    fn repeat(&mut self, key: StreamKey, frame: u8, is_true: impl FnOnce(&mut Stream) -> bool) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        if is_true(stream) {
            stream.owe(frame, &mut self.control);
        }
    }
}

impl Stream {
    /// Writes one frame; there is room.
    fn write_control(&mut self, bit: u8, w: &mut PacketWriter<'_>, view: &RoomView) {
        let (id, key) = (self.id, self.key);
        match (bit, &mut self.send, &mut self.recv) {
            (owes::RESET, Some(half), _) if half.owes_reset(half.reset.reliable) => {
                let (code, final_size, reliable) = (half.reset.code, half.sent(), half.reset.reliable);
                let frame = match reliable {
                    0 => Frame::ResetStream { id, code, final_size },
                    reliable_size => Frame::ResetStreamAt { id, code, final_size, reliable_size },
                };
                w.put(&frame, FrameToken::ResetStream { key, reliable });
            }
            (owes::BLOCKED, Some(half), _) if half.is_starved() => {
                let limit = half.credit.limit();
                half.credit.report();
                w.put(&Frame::StreamDataBlocked { id, limit }, FrameToken::StreamDataBlocked { key, limit });
            }
            (owes::STOP, _, Some(half)) if half.final_size.is_none() => {
                let code = half.stopped.unwrap_or(0);
                w.put(&Frame::StopSending { id, code }, FrameToken::StopSending { key });
            }
            // RFC 9000 §19.10: of no use once the final size is known.
            (owes::MAX_DATA, _, Some(half)) if half.final_size.is_none() && half.stopped.is_none() => {
                let max = half.advance(view.now, view.srtt);
                w.put(&Frame::MaxStreamData { id, max }, FrameToken::MaxStreamData { key, max });
            }
            _ => {}
        }
    }
}

impl SendHalf {
    /// Writes one STREAM frame, if it fits and is worth it. Returns the new bytes in it.
    #[inline]
    fn write(&mut self, id: StreamId, key: StreamKey, w: &mut PacketWriter<'_>, credit: u64) -> u64 {
        let (offset, most, new) = match self.buffer.lost_range() {
            Some(range) => (range.start, range.end - range.start, false),
            None => (self.buffer.next(), self.sendable().min(credit), true),
        };
        let header = stream_header_size(id, offset, None);
        let Some(n) = fit(w.room(), header, most) else { return 0 };
        let end = offset + n as u64;
        let fin = self.state == SendState::Finishing && end == self.buffer.end();
        // A few bytes of many are better off in the next packet.
        if (n == 0 && !fin) || (n < RUNT && (n as u64) < most) {
            return 0;
        }
        stream_header(w.bytes(), id, offset, fin, Some(n));
        if new {
            if w.shares() && !fin {
                if let Some(piece) = self.buffer.next_piece(n) {
                    w.share(StreamFrame { key, id, offset, len: within_u32(n as u64), piece });
                }
            }
            self.buffer.send_new(w.bytes().space(n));
        } else {
            self.buffer.resend(offset, w.bytes().space(n));
        }
        if fin {
            self.fin_due = false;
        }
        w.record(FrameToken::Stream { key, offset, len: within_u32(n as u64), fin }, true);
        if new { n as u64 } else { 0 }
    }
}

/// The most data bytes, up to `most`, that fit `room` behind a header of `header` bytes and their length.
/// `None` when not even the header does.
#[inline]
pub(super) fn fit(room: usize, header: usize, most: u64) -> Option<usize> {
    for length in [1, 2, 4] {
        let n = room.checked_sub(header + length)?.min(usize::try_from(most).unwrap_or(usize::MAX));
        if varint::size(n as u64) <= length {
            return Some(n);
        }
    }
    None
}

/// No frame of credit or control is longer: a type of one byte and four varints.
pub(super) const CONTROL_ROOM: usize = 33;

/// Shorter pieces of longer data are not worth a frame.
pub(super) const RUNT: usize = 32;
