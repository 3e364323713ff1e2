use quickset_base::{Duration, Time};

/// The round trip of messages and their reports, as RFC 9002 §5 smooths it.
#[derive(Clone, Debug)]
pub(super) struct RoundTrip {
    smoothed: Duration,
    variation: Duration,
    latest: Duration,
    sampled: bool,
    /// Probe timeouts since anything was heard.
    timeouts: u32,
}

impl RoundTrip {
    pub(super) fn new(guess: Duration) -> Self {
        Self { smoothed: guess, variation: guess / 2, latest: guess, sampled: false, timeouts: 0 }
    }

    /// A message took so long there and its report back, without what the receiver waited.
    pub(super) fn sample(&mut self, sample: Duration) {
        self.latest = sample;
        if std::mem::replace(&mut self.sampled, true) {
            let off = self.smoothed.abs_diff(sample);
            self.variation = (self.variation * 3 + off) / 4;
            self.smoothed = (self.smoothed * 7 + sample) / 8;
        } else {
            (self.smoothed, self.variation) = (sample, sample / 2);
        }
    }

    /// After how long one that was overtaken counts as lost (RFC 9002 §6.1.2).
    pub(super) fn patience(&self) -> Duration {
        (self.smoothed.max(self.latest) * 9 / 8).max(GRANULARITY)
    }

    /// When a report on what was sent at `sent` should have come, if nothing has been heard since.
    pub(super) fn timeout(&self, sent: Time) -> Time {
        // RFC 9002 §6.2.1.
        let once = self.smoothed + (self.variation * 4).max(GRANULARITY) + REPORT_DELAY;
        sent + once * (1 << self.timeouts.min(MOST_DOUBLINGS))
    }

    pub(super) fn timed_out(&mut self) {
        self.timeouts += 1;
    }

    pub(super) fn heard(&mut self) {
        self.timeouts = 0;
    }
}

/// RFC 9002 §6.1.2.
const GRANULARITY: Duration = Duration::from_millis(1);
/// What a receiver may wait with a report (WB-11).
const REPORT_DELAY: Duration = Duration::from_millis(10);
/// Of the probe timeout: some seconds on any path.
const MOST_DOUBLINGS: u32 = 6;
