//! How many ranges with gaps between them a stream may have (RFC 9000 §21.7).
//!
//! A queue that overflows drops every other packet for a round trip, so honest senders make gaps in
//! proportion to what is under way; only a hostile one makes them denser than packets are.

/// Ranges that a stream may have at most when `span` bytes lie between the lowest byte missing and the
/// highest that came (FS-41). At half the size of the smallest full packet honest loss stays far below it.
pub(super) const fn most_ranges(span: u64) -> usize {
    2 * credited_ranges(span)
}

/// Ranges up to which new bytes are granted and sent: half of the most (FS-40).
pub(super) const fn credited_ranges(span: u64) -> usize {
    512 + (span / 2048) as usize
}
