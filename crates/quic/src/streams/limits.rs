//! What may be opened, sent and received on all streams together (RFC 9000 §4.1, §4.6), and the frames about
//! that.
//!
//! *In:* the peer's limits, what leaves, what comes, what the application takes. *Out:* what is left of each;
//! by `write`, the frames that are due.

use quickset_base::Time;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, Side, StreamId, TransportErrorCode as Code};

use super::StreamSettings;
use super::flow::{ReceiveWindow, SendCredit};
use super::numbers::{Ours, Theirs};
use super::outbound::CONTROL_ROOM;
use crate::TransportError;
use crate::packet::{FrameToken, PacketWriter, RoomView};

/// Of a connection.
#[derive(Debug)]
pub(crate) struct StreamLimits {
    side: Side,
    ours: [Ours; 2],
    theirs: [Theirs; 2],
    /// What the peer allows on all streams together, and how much of it is used.
    credit: SendCredit,
    sent: u64,
    /// What we allow on all streams together, and how much of it is used.
    window: ReceiveWindow,
    received: u64,
    /// The longest record has to fit the window.
    least_window: u64,
    /// Frames that are due, as bits of [`due`].
    due: u8,
}

impl StreamLimits {
    pub(super) fn new(side: Side, settings: &StreamSettings) -> Self {
        let (_, window) = settings.first_windows();
        Self {
            side,
            ours: Default::default(),
            theirs: [settings.max_bidi_streams, settings.max_uni_streams]
                .map(|most| Theirs::new(most, settings.max_fenced())),
            credit: SendCredit::default(),
            sent: 0,
            window: ReceiveWindow::new(window, settings.max_connection_window)
                .holding(settings.least_window()),
            received: 0,
            least_window: settings.least_window(),
            due: 0,
        }
    }

    /// Bytes that may be sent on all streams together before the peer gives more credit.
    #[inline]
    pub(super) fn free(&self) -> u64 {
        self.credit.limit() - self.sent
    }

    /// There are none.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.credit.limit() <= self.sent
    }

    /// Bytes are sent that use up credit.
    #[inline]
    pub(super) fn spend(&mut self, n: u64) {
        self.sent += n;
    }

    /// Bytes sent so far that used up credit.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that came, on all streams.
    #[inline]
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Bytes that came and were neither read nor dropped.
    #[inline]
    pub(super) fn unread(&self) -> u64 {
        self.received.saturating_sub(self.window.consumed())
    }

    /// Bytes that went either way: it changes when any do.
    #[inline]
    pub(crate) fn progress(&self) -> u64 {
        self.received.wrapping_add(self.sent)
    }

    /// The peer gives credit (MAX_DATA). True when that is more than before.
    pub(super) fn raise(&mut self, max: u64) -> bool {
        let is_more = self.credit.raise(max);
        if is_more {
            self.due &= !due::DATA_BLOCKED;
        }
        is_more
    }

    /// The peer allows streams (MAX_STREAMS). True when the application waits for that.
    pub(super) fn allow(&mut self, dir: Dir, max: u64) -> bool {
        self.ours[dir as usize].allow(max)
    }

    /// Opens a stream of ours, or `None` when the peer allows no more, which it is told once for each limit
    /// (RFC 9000 §4.6).
    pub(super) fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let ours = &mut self.ours[dir as usize];
        let Some(index) = ours.open() else {
            if ours.credit.is_unreported() {
                self.due |= due::STREAMS_BLOCKED << dir as u8;
            }
            return None;
        };
        Some(StreamId::new(self.side, dir, index))
    }

    /// The next stream of the peer's that the application has not taken yet.
    pub(super) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let index = self.theirs[dir as usize].accept()?;
        Some(StreamId::new(!self.side, dir, index))
    }

    /// What we count of the streams that the peer opens, in a direction.
    pub(super) fn theirs(&mut self, dir: Dir) -> &mut Theirs {
        &mut self.theirs[dir as usize]
    }

    /// The streams that a frame opens which names this one: itself, and those of its kind below it (RFC 9000
    /// §3.2). None when it was open before, whoever it is of.
    ///
    /// # Errors
    /// The stream is ours to open, or the peer may not yet.
    pub(super) fn opened_by(
        &self,
        id: StreamId,
    ) -> Result<impl Iterator<Item = StreamId> + use<>, TransportError> {
        let dir = id.dir() as usize;
        if id.initiator() == self.side {
            if id.index() >= self.ours[dir].opened() {
                return Err(TransportError::new(Code::STREAM_STATE_ERROR, "a stream that is ours to open"));
            }
        } else if id.index() >= self.theirs[dir].advertised() {
            return Err(TransportError::new(Code::STREAM_LIMIT_ERROR, "more streams than allowed"));
        }
        let first = if id.initiator() == self.side { id.index() + 1 } else { self.theirs[dir].opened() };
        Ok((first..=id.index()).map(move |index| StreamId::new(id.initiator(), id.dir(), index)))
    }

    /// How many streams a frame about this one would open, as far as the peer may.
    pub(crate) fn opens(&self, id: StreamId) -> u64 {
        let theirs = &self.theirs[id.dir() as usize];
        if id.initiator() == self.side || id.index() >= theirs.advertised() {
            return 0;
        }
        (id.index() + 1).saturating_sub(theirs.opened())
    }

    /// Streams that the peer may open as of now.
    pub(crate) fn openable(&self) -> u64 {
        self.theirs.iter().map(|theirs| theirs.advertised() - theirs.opened()).sum()
    }

    /// How many streams the peer may have opened so far, by what it was told.
    pub(crate) fn max_peer_streams(&self, dir: Dir) -> u64 {
        self.theirs[dir as usize].advertised()
    }

    /// So many streams of the peer's may be open at a time from now on.
    pub(crate) fn set_max_streams(&mut self, dir: Dir, most: u64) {
        if self.theirs[dir as usize].set_most(most) {
            self.due |= due::MAX_STREAMS << dir as u8;
        }
    }

    /// The receive window has so many bytes from now on, but the longest record fits.
    pub(crate) fn set_window(&mut self, bytes: u64) {
        if self.window.set_size(bytes.max(self.least_window)) {
            self.due |= due::MAX_DATA;
        }
    }

    /// What the peer opens cannot carry messages.
    pub(super) fn without_fenced(&mut self) {
        self.theirs.iter_mut().for_each(Theirs::without_fenced);
        for dir in Dir::ALL {
            self.note_closed(dir);
        }
    }

    /// Whether the peer gets but a few of the streams that it may have.
    pub(super) fn set_paced(&mut self, paced: bool) {
        self.theirs.iter_mut().for_each(|theirs| theirs.set_paced(paced));
        for dir in Dir::ALL {
            self.note_closed(dir);
        }
    }

    /// Lets the peer open more streams in place of those that were closed, once that is worth a frame.
    pub(super) fn note_closed(&mut self, dir: Dir) {
        if self.theirs[dir as usize].is_due() {
            self.due |= due::MAX_STREAMS << dir as u8;
        }
    }

    /// The peer can open no more (STREAMS_BLOCKED). Streams that it opened and has said nothing on are not
    /// known here (RFC 9000 §4.6). So half of its leave seems to be left, and it would wait for ever for what
    /// closed ones made room for.
    pub(super) fn peer_is_out_of_streams(&mut self, dir: Dir, limit: u64) {
        let theirs = &self.theirs[dir as usize];
        if limit >= theirs.advertised() && theirs.has_more() {
            self.due |= due::MAX_STREAMS << dir as u8;
        }
    }

    /// Something came on a stream.
    #[inline]
    pub(super) fn arrived(&mut self, now: Time) {
        self.window.arrived(now);
    }

    /// So many bytes that have not come before came on a stream.
    ///
    /// # Errors
    /// They are more than was allowed.
    #[inline]
    pub(super) fn admit(&mut self, growth: u64) -> Result<(), TransportError> {
        self.allows(growth)?;
        self.received += growth;
        Ok(())
    }

    /// Whether so many bytes more may come.
    ///
    /// # Errors
    /// They are more than was allowed.
    #[inline]
    pub(super) fn allows(&self, growth: u64) -> Result<(), TransportError> {
        if self.received + growth > self.window.limit() {
            return Err(TransportError::new(Code::FLOW_CONTROL_ERROR, "more than the connection's credit"));
        }
        Ok(())
    }

    /// Bytes of streams were read or dropped.
    #[inline]
    pub(super) fn consume(&mut self, n: u64) {
        self.window.consume(n);
        if self.window.is_due() {
            self.due |= due::MAX_DATA;
        }
    }

    /// All that came was dropped, and nothing comes any more.
    pub(super) fn let_go(&mut self) {
        self.window.consume(self.unread());
    }

    /// RFC 9000 §4.1: the peer is told when credit holds data back.
    pub(super) fn note_blocked(&mut self) {
        if self.credit.is_unreported() {
            self.due |= due::DATA_BLOCKED;
        }
    }

    /// The application waits to open a stream.
    pub(super) fn is_out_of_streams(&self) -> bool {
        self.ours.iter().any(|ours| ours.refused)
    }

    /// Nothing that was sent has arrived or will, and no limit of the peer's holds any more.
    pub(super) fn rewind(&mut self) {
        self.credit = SendCredit::default();
        self.sent = 0;
        self.ours.iter_mut().for_each(|ours| ours.credit = SendCredit::default());
    }

    /// More streams were opened than the peer allows: it allowed more in an earlier connection.
    pub(crate) fn has_too_many(&self) -> bool {
        self.ours.iter().any(|ours| ours.opened() > ours.credit.limit())
    }

    /// All streams of ours are given up.
    pub(super) fn give_up_ours(&mut self) {
        self.ours.iter_mut().for_each(Ours::refuse);
    }

    /// The stream was among them.
    pub(super) fn was_given_up(&self, id: StreamId) -> bool {
        id.initiator() == self.side && self.ours[id.dir() as usize].was_refused(id.index())
    }

    /// Something of a stream of the peer's came as early data, or, of one that is forgotten, may have.
    pub(super) fn may_be_early(&self, id: StreamId) -> bool {
        id.initiator() != self.side && self.theirs[id.dir() as usize].may_be_early(id.index())
    }

    /// Frames are due.
    #[inline]
    pub(super) fn has_due(&self) -> bool {
        self.due != 0
    }

    /// Writes those that are due. Whether credit holds data back those know that have the data.
    pub(super) fn write(&mut self, w: &mut PacketWriter<'_>, view: &RoomView, is_blocked: bool) {
        if self.take_due(due::MAX_DATA, w) {
            let max = self.window.advance(view.now, view.srtt);
            w.put(&Frame::MaxData(max), FrameToken::MaxData { max });
        }
        if self.take_due(due::DATA_BLOCKED, w) && is_blocked {
            let limit = self.credit.limit();
            self.credit.report();
            w.put(&Frame::DataBlocked(limit), FrameToken::DataBlocked { limit });
        }
        for dir in Dir::ALL {
            if self.take_due(due::MAX_STREAMS << dir as u8, w) {
                let max = self.theirs[dir as usize].advance();
                w.put(&Frame::MaxStreams { dir, max }, FrameToken::MaxStreams { dir, max });
            }
            let is_due = self.take_due(due::STREAMS_BLOCKED << dir as u8, w);
            let ours = &mut self.ours[dir as usize];
            let limit = ours.credit.limit();
            if is_due && ours.opened() >= limit {
                ours.credit.report();
                w.put(&Frame::StreamsBlocked { dir, limit }, FrameToken::StreamsBlocked { dir, limit });
            }
        }
    }

    /// Whether this frame is due and has room; it is not due any more then.
    fn take_due(&mut self, bit: u8, w: &PacketWriter<'_>) -> bool {
        let now = self.due & bit != 0 && w.room() >= CONTROL_ROOM;
        if now {
            self.due &= !bit;
        }
        now
    }

    /// A packet with one of these frames was lost: what is still true is due again (RFC 9000 §13.3). True
    /// when it said that credit holds data back, which those know that have the data.
    pub(super) fn lost(&mut self, token: FrameToken) -> bool {
        match token {
            // A smaller limit than the latest is superseded.
            FrameToken::MaxData { max } if max == self.window.limit() => self.due |= due::MAX_DATA,
            FrameToken::MaxStreams { dir, max } if max == self.max_peer_streams(dir) => {
                self.due |= due::MAX_STREAMS << dir as u8;
            }
            FrameToken::DataBlocked { limit } => return self.credit.report_lost(limit),
            FrameToken::StreamsBlocked { dir, limit }
                if self.ours[dir as usize].credit.report_lost(limit) =>
            {
                self.due |= due::STREAMS_BLOCKED << dir as u8;
            }
            // Not of these, or superseded.
            _ => {}
        }
        false
    }

    /// Verifies what must hold between calls, where the streams that are there hold so much: of the peer's
    /// streams those that are live, and of them those of bytes, in each direction; bytes that are not read.
    ///
    /// # Panics
    /// When it does not: a bug of ours.
    pub(super) fn check(&self, live: [u64; 2], bytes: [u64; 2], unread: u64) {
        assert!(self.sent <= self.credit.limit(), "connection credit exceeded");
        assert!(self.received <= self.window.limit(), "more received than allowed");
        assert!(self.window.consumed() <= self.received, "more consumed than received");
        let counted = |count: fn(&Theirs) -> u64| [count(&self.theirs[0]), count(&self.theirs[1])];
        assert_eq!(live, counted(Theirs::live), "the peer's streams are miscounted");
        assert_eq!(bytes, counted(Theirs::bytes), "streams of bytes are miscounted");
        assert!(unread <= self.received - self.window.consumed(), "bytes held that nobody counts");
    }
}

#[cfg(test)]
impl StreamLimits {
    /// What we allow on all streams together.
    pub(super) fn window(&self) -> &ReceiveWindow {
        &self.window
    }

    /// Bytes that were read or dropped.
    pub(super) fn consumed(&self) -> u64 {
        self.window.consumed()
    }

    /// Bytes that the peer allows on all streams together.
    pub(super) fn max_data(&self) -> u64 {
        self.credit.limit()
    }

    /// How many streams we may have opened in a direction.
    pub(super) fn max_streams(&self, dir: Dir) -> u64 {
        self.ours[dir as usize].credit.limit()
    }
}

/// Frames about the connection; those of streams are shifted left by the direction.
mod due {
    pub(super) const MAX_DATA: u8 = 1;
    pub(super) const DATA_BLOCKED: u8 = 2;
    pub(super) const MAX_STREAMS: u8 = 4;
    pub(super) const STREAMS_BLOCKED: u8 = 16;
}
