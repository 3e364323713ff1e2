use quickset_base::Duration;
use quickset_wire::TransportErrorCode as Code;

use super::RangeSet;
use crate::error::TransportError;

/// How often to acknowledge: as RFC 9000 §13.2 says, until the peer asks for something else
/// (draft-ietf-quic-ack-frequency §4).
#[derive(Clone, Copy, Debug)]
pub(super) struct Frequency {
    /// An acknowledgement waits this long at most.
    pub(super) max_delay: Duration,
    /// More packets than this that elicit an acknowledgement do not wait for another.
    pub(super) threshold: u64,
    /// See [`is_reordered`](Self::is_reordered).
    reordering: u64,
    // Requests with smaller numbers are obsolete.
    next: u64,
    // The least delay that may be asked for; `None`: nothing may.
    offered: Option<Duration>,
}

/// An ACK_FREQUENCY frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrequencyRequest {
    pub(super) sequence: u64,
    pub(super) threshold: u64,
    pub(super) max_delay_us: u64,
    pub(super) reordering: u64,
}

impl Frequency {
    pub(super) const fn new(max_delay: Duration) -> Self {
        Self { max_delay, threshold: 1, reordering: 1, next: 0, offered: None }
    }

    /// We announced that delays may be asked for, from this one on.
    pub(super) fn offer(&mut self, least: Option<Duration>) {
        self.offered = least;
    }

    /// The shortest delay that we are good for.
    pub(super) fn min_delay(&self) -> Duration {
        self.offered.unwrap_or(Duration::ZERO)
    }

    /// Whether the peer may send the frames of the extension at all.
    pub(super) fn agreed(&self) -> Result<(), TransportError> {
        match self.offered {
            Some(_) => Ok(()),
            // RFC 9000 §12.4: without the parameter the frames are unknown.
            None => Err(TransportError::new(Code::FRAME_ENCODING_ERROR, "min_ack_delay was not offered")),
        }
    }

    /// The peer asks. True when that changes what we do.
    pub(super) fn ask(&mut self, request: FrequencyRequest) -> Result<bool, TransportError> {
        self.agreed()?;
        let delay = Duration::from_micros(request.max_delay_us);
        if delay < self.min_delay() || delay >= MAX_ACK_DELAY_LIMIT {
            return Err(TransportError::new(Code::PROTOCOL_VIOLATION, "asks for an impossible delay"));
        }
        // Of frames that overtook each other the newest holds.
        if request.sequence < self.next {
            return Ok(false);
        }
        self.next = request.sequence + 1;
        self.threshold = request.threshold;
        self.reordering = request.reordering;
        self.max_delay = delay;
        Ok(true)
    }

    /// Numbers up to this far below the largest stay on record once their report has arrived: those missing
    /// there have to be told again when they fall out of the peer's reordering window.
    pub(super) const fn memory(&self) -> u64 {
        if self.reordering > 1 { self.reordering } else { 0 }
    }

    /// Whether every packet out of order is told at once, as it is where the peer asked for nothing.
    pub(super) const fn is_eager(&self) -> bool {
        self.reordering == 1
    }

    /// draft-ietf-quic-ack-frequency §6.2: whether a packet with this number calls for an acknowledgement at
    /// once. `largest` is the largest number that elicited one, `reported` the largest in the last ACK frame;
    /// what is below `known` counts as received.
    pub(super) fn is_reordered(
        &self,
        number: u64,
        largest: u64,
        reported: Option<u64>,
        received: &RangeSet,
        known: u64,
    ) -> bool {
        if self.reordering == 0 {
            return false;
        }
        let lost_before = reported.and_then(|reported| reported.checked_sub(self.reordering));
        // It came after the peer could have declared it lost: so it learns of its error.
        if lost_before.is_some_and(|lost| number <= lost) {
            return true;
        }
        // A packet that the peer can declare lost now and could not by the last ACK.
        let from = lost_before.map_or(0, |lost| lost + 1).max(known);
        let missing = received.first_missing(from);
        missing < largest && largest - missing >= self.reordering
    }
}

/// RFC 9000 §18.2: max_ack_delay is below 2^14 milliseconds.
const MAX_ACK_DELAY_LIMIT: Duration = Duration::from_millis(1 << 14);
