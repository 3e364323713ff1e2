use quickset_base::{Duration, Time};

/// Samples of the round-trip time that say how long an outage was, and not how long the path is.
///
/// What waited somewhere until the path was back, and came through then, is acknowledged after as long a
/// time. RFC 9002 §5 takes a sample of it like any other, and for long nothing has its right length: the next
/// probe timeout comes after minutes, and what is paced by the mean of the samples crawls. So no sample is
/// taken of packets that left before a long silence was over, unless they went no slower than the probe
/// timeout expects. If the path has in truth become so long, what is sent next is as late, and is believed.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// What left before then may have waited in it.
    until: Time,
    /// A sample was left out, and none taken since.
    doubts: bool,
}

impl Outage {
    /// Something was acknowledged behind so many probe timeouts in a row.
    #[inline]
    pub(super) fn on_acked(&mut self, now: Time, ptos: u32) {
        if ptos >= SILENCE {
            self.until = if self.doubts { Time::ZERO } else { now };
        }
    }

    /// Whether a round trip that began at `sent` is no sample, where the probe timeout is `pto`.
    #[inline]
    pub(super) fn hides(&mut self, sent: Time, trip: Duration, pto: Duration) -> bool {
        self.doubts = sent < self.until && trip > pto;
        self.doubts
    }
}

/// Probe timeouts in a row that are a long silence: seven times the first.
const SILENCE: u32 = 3;
