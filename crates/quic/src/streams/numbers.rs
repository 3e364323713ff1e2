use quickset_wire::frame::MAX_STREAMS;

use super::flow::SendCredit;

/// The streams of one direction that we open.
#[derive(Debug, Default)]
pub(super) struct Ours {
    opened: u64,
    /// Those that were given up as the peer took no early data lie below.
    dropped: u64,
    pub(super) credit: SendCredit,
    /// `open` failed since the last Available.
    pub(super) refused: bool,
}

impl Ours {
    pub(super) fn opened(&self) -> u64 {
        self.opened
    }

    /// All that were opened so far are given up.
    pub(super) fn refuse(&mut self) {
        self.dropped = self.opened;
    }

    /// The stream with this index was.
    pub(super) fn was_refused(&self, index: u64) -> bool {
        index < self.dropped
    }

    /// The index of one more stream, or `None` when the peer allows no more.
    pub(super) fn open(&mut self) -> Option<u64> {
        if self.opened >= self.credit.limit() {
            self.refused = true;
            return None;
        }
        self.opened += 1;
        Some(self.opened - 1)
    }

    /// Raises the number of streams allowed; true when the application waits for that.
    pub(super) fn allow(&mut self, max: u64) -> bool {
        self.credit.raise(max) && self.opened < self.credit.limit() && std::mem::take(&mut self.refused)
    }
}

/// The streams of one direction that the peer opens.
#[derive(Debug)]
pub(super) struct Theirs {
    /// Open at a time at most.
    most: u64,
    /// Of these, those that carry messages or may still turn out to.
    most_fenced: u64,
    opened: u64,
    accepted: u64,
    /// Open streams that are known to carry bytes.
    bytes: u64,
    closed: u64,
    advertised: u64,
    /// Those of which something came as early data lie below.
    early: u64,
    /// The application took all that were open, or does not know of any.
    waited_for: bool,
    /// The peer is allowed but a few more.
    paced: bool,
}

impl Theirs {
    pub(super) fn new(most: u64, most_fenced: u64) -> Self {
        let most = most.min(MAX_STREAMS);
        let advertised = most.min(most_fenced);
        Self {
            most,
            most_fenced,
            opened: 0,
            accepted: 0,
            bytes: 0,
            closed: 0,
            advertised,
            early: 0,
            waited_for: true,
            paced: false,
        }
    }

    /// So many may be open at a time from now on. Who was allowed more may still open those. True when the
    /// peer may open more than it knows.
    pub(super) fn set_most(&mut self, most: u64) -> bool {
        self.most = most.min(MAX_STREAMS);
        self.has_more()
    }

    /// The peer may open more than it knows.
    pub(super) fn has_more(&self) -> bool {
        self.target() > self.advertised
    }

    /// Whether the peer gets no more than a few of those that it may have.
    pub(super) fn set_paced(&mut self, paced: bool) {
        self.paced = paced;
    }

    /// No stream can carry messages.
    pub(super) fn without_fenced(&mut self) {
        self.most_fenced = u64::MAX;
    }

    /// A stream turned out to carry bytes, or not to after all.
    pub(super) fn note_bytes(&mut self, bytes: bool) {
        self.bytes = if bytes { self.bytes + 1 } else { self.bytes - 1 };
    }

    /// Something of the stream with this index came as early data.
    pub(super) fn note_early(&mut self, index: u64) {
        self.early = self.early.max(index + 1);
    }

    /// Something may have.
    pub(super) fn may_be_early(&self, index: u64) -> bool {
        index < self.early
    }

    pub(super) fn opened(&self) -> u64 {
        self.opened
    }

    /// The number of streams that the peer knows it may open.
    pub(super) fn advertised(&self) -> u64 {
        self.advertised
    }

    /// The peer opened one more; true when the application waits for that.
    pub(super) fn open_next(&mut self) -> bool {
        self.opened += 1;
        std::mem::take(&mut self.waited_for)
    }

    /// The index of the next stream that the application has not taken yet.
    pub(super) fn accept(&mut self) -> Option<u64> {
        if self.accepted == self.opened {
            self.waited_for = true;
            return None;
        }
        self.accepted += 1;
        Some(self.accepted - 1)
    }

    /// A stream is over; `bytes` as it was noted.
    pub(super) fn close(&mut self, bytes: bool) {
        self.closed += 1;
        self.bytes -= u64::from(bytes);
    }

    /// Open streams that are known to carry bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Streams open now.
    pub(super) fn live(&self) -> u64 {
        self.opened - self.closed
    }

    /// True when the peer should hear of closed streams: half of its leave is used up (RFC 9000 §4.6
    /// leaves the time to us; this way a peer that opens and closes at an even pace never waits).
    pub(super) fn is_due(&self) -> bool {
        self.has_more() && self.advertised - self.opened <= self.most.min(self.most_fenced) / 2
    }

    pub(super) fn advance(&mut self) -> u64 {
        self.advertised = self.advertised.max(self.target());
        self.advertised
    }

    fn target(&self) -> u64 {
        // FS-39: any stream may turn out to be fenced, until a STREAM frame says that it is not.
        let fenced = self.bytes.saturating_add(self.most_fenced);
        let all = self.most.min(fenced).saturating_add(self.closed).min(MAX_STREAMS);
        if self.paced { all.min(self.opened + PACED) } else { all }
    }
}

/// Streams that a peer may always open, if it may at all: to be given up they cost less than the packets earn
/// that open them.
const PACED: u64 = 2;
