use quickset_base::Duration;
use quickset_wire::Side;

/// The round-trip time as RFC 9002 §5 estimates it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    latest: Duration,
    adjusted: Duration,
    min: Duration,
    smoothed: Duration,
    var: Duration,
    sampled: bool,
    // The next sample replaces the minimum.
    forget_min: bool,
}

impl Rtt {
    /// No sample yet: `initial` is assumed (RFC 9002 §6.2.2), up to what multiples of can be told.
    pub(crate) fn new(initial: Duration) -> Self {
        let initial = initial.min(MAX_INITIAL);
        let (smoothed, var) = (initial, initial / 2);
        Self {
            latest: initial,
            adjusted: initial,
            min: initial,
            smoothed,
            var,
            sampled: false,
            forget_min: true,
        }
    }

    /// Without a sample yet, `trip` is a better guess.
    pub(crate) fn assume(&mut self, trip: Duration) {
        if !self.sampled {
            *self = Self::new(trip);
        }
    }

    /// Takes a sample; `ack_delay` is already bounded as RFC 9002 §5.3 wants it for this packet.
    pub(crate) fn sample(&mut self, latest: Duration, ack_delay: Duration) {
        self.latest = latest;
        // RFC 9002 §5.2: the minimum ignores what the peer says of its delay.
        self.min = if self.forget_min { latest } else { self.min.min(latest) };
        self.forget_min = false;
        // RFC 9002 §5.3: a delay that would take the sample below the minimum is not believed.
        let adjusted = latest.checked_sub(ack_delay).filter(|rest| *rest >= self.min).unwrap_or(latest);
        self.adjusted = adjusted;
        if !self.sampled {
            self.sampled = true;
            self.smoothed = latest;
            self.var = latest / 2;
            return;
        }
        self.var = (3 * self.var + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (7 * self.smoothed + adjusted) / 8;
    }

    /// After persistent congestion the path may be another one (RFC 9002 §5.2).
    pub(crate) fn forget_min(&mut self) {
        self.forget_min = true;
    }

    /// The last sample.
    #[cfg(any(test, feature = "qlog"))]
    pub(crate) fn latest(&self) -> Duration {
        self.latest
    }

    /// The last sample without what the peer says of its delay, as far as that is believed (RFC 9002 §5.3).
    #[inline]
    pub(crate) fn adjusted(&self) -> Duration {
        self.adjusted
    }

    /// The least sample; what is assumed before there is one.
    #[inline]
    pub(crate) fn min(&self) -> Duration {
        self.min
    }

    /// The weighted mean.
    #[inline]
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The mean deviation.
    #[inline]
    pub(crate) fn var(&self) -> Duration {
        self.var
    }

    /// The probe timeout without the peer's delay and without back-off (RFC 9002 §6.2.1).
    #[inline]
    pub(crate) fn pto(&self) -> Duration {
        self.smoothed + (4 * self.var).max(GRANULARITY)
    }

    /// How much later than an acknowledged packet one may be before it is lost, at `eighths` of a
    /// round trip (RFC 9002 §6.1.2).
    #[inline]
    pub(crate) fn loss_delay(&self, eighths: u32) -> Duration {
        (self.latest.max(self.smoothed) * eighths / 8).max(GRANULARITY)
    }
}

/// Timers are not expected to be finer (RFC 9002 §6.1.2).
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

/// No path is slower.
const MAX_INITIAL: Duration = Duration::from_secs(60);

/// What is assumed of round trips before there is a sample: `trip` is what others found.
//
// RFC 9002 §6.2.2 has 333 ms where nothing is known, so that the first probe leaves after a second, as TCP's
// first resend does. A server keeps to that. For a client it is a departure: nobody else can notice that its
// first flight was lost, and the application waits. Paths of more than 300 ms are few, and on them it costs a
// second hello. It is no sign of congestion (§6.2), later probes wait twice as long each, and a server that
// does not know the address answers no more bytes for it than thrice those (RFC 9000 §8.1).
pub(crate) fn assumed_rtt(side: Side, trip: Option<Duration>) -> Duration {
    let unknown = if side.is_client() { CLIENT_GUESS } else { UNKNOWN_RTT };
    trip.map_or(unknown, |trip| trip.clamp(LEAST_GUESS, UNKNOWN_RTT))
}

/// RFC 9002 §6.2.2.
pub(crate) const UNKNOWN_RTT: Duration = Duration::from_millis(333);
const CLIENT_GUESS: Duration = Duration::from_millis(100);
/// However near the peer is, its first answer is made with public keys: a probe before 100 ms is too early.
pub(super) const LEAST_GUESS: Duration = Duration::from_millis(33);
