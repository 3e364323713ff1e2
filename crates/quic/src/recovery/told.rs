//! What only traces want to know.

use quickset_base::Duration;
use quickset_wire::Space;

use super::rtt::GRANULARITY;
use super::{PACKET_THRESHOLD, Recovery, TIME_THRESHOLD};

impl Recovery {
    /// Whether the round-trip time was ever measured.
    pub(crate) fn has_sample(&self) -> bool {
        self.first_sample.is_some()
    }

    /// Whether it was its age by which a packet was declared lost just now, rather than packets that overtook
    /// it.
    pub(crate) fn lost_by_time(&self, space: Space, number: u64) -> Option<bool> {
        self.spaces.get(space)?.late.by_time(number)
    }
}

/// Where loss detection begins: packets, eighths of a round trip, the granularity of timers, and the probe
/// timeouts that make congestion persistent (RFC 9002 §6.1, §7.6.1).
pub(crate) const fn thresholds() -> (u64, u32, Duration, u16) {
    (PACKET_THRESHOLD, TIME_THRESHOLD, GRANULARITY, 3)
}
