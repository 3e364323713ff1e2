//! What the tests of several rules are told.

use std::time::Duration;

use crate::{PlayerState, SegmentDownload};

/// So many bytes in so many milliseconds, for a buffer of 4 s.
pub(crate) fn download(quality: usize, bytes: u64, ms: u64) -> SegmentDownload {
    let start = Duration::from_secs(100);
    SegmentDownload {
        quality,
        bytes,
        media: Duration::from_secs(2),
        buffer: Duration::from_secs(4),
        requested: start,
        first_byte: start,
        finished: start + Duration::from_millis(ms),
    }
}

/// So many seconds in the buffer, and the quality in force.
pub(crate) fn state(buffer: u64, current: usize) -> PlayerState {
    PlayerState {
        now: Duration::from_secs(101),
        buffer: Duration::from_secs(buffer),
        current,
        segment: Duration::from_secs(2),
        ..PlayerState::default()
    }
}
