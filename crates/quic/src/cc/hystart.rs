use quickset_base::{Duration, Time};

/// HyStart++ (RFC 9406): ends the first slow start when the round trip grows, before the queue overflows. The
/// growth may be chance; then, for some rounds of a more careful growth, a round trip as short as before
/// takes it back.
///
/// Its rounds go by the times of packets instead of their numbers: a round ends when something that left
/// after its beginning is acknowledged (§4.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyStart {
    round: Time,
    // The least round trip of the round before, and of this one.
    last: Option<Duration>,
    current: Option<Duration>,
    samples: u32,
    // Conservative slow start.
    cautious: Option<Cautious>,
}

/// How slow start goes on with an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HystartStage {
    /// By as much as was acknowledged.
    Standard,
    /// By a quarter of it.
    Conservative,
    /// Not at all: the path is full.
    Over,
}

impl HystartStage {
    /// By how much the window grows when so many bytes were acknowledged.
    pub(crate) fn of(self, bytes: u64) -> u64 {
        match self {
            Self::Standard => bytes,
            Self::Conservative => bytes / CSS_GROWTH_DIVISOR,
            Self::Over => 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Cautious {
    // The least round trip of the round in which it grew.
    baseline: Duration,
    // Rounds that ended since, the one of the growth included.
    rounds: u32,
}

impl HyStart {
    pub(crate) fn new(now: Time) -> Self {
        Self { round: now, last: None, current: None, samples: 0, cautious: None }
    }

    /// In conservative slow start.
    pub(crate) fn is_cautious(&self) -> bool {
        self.cautious.is_some()
    }

    /// An acknowledgement, of which the newest packet left at `newest_sent`, with a sample of the round trip
    /// if it brought one.
    pub(crate) fn on_ack(&mut self, now: Time, newest_sent: Time, rtt: Option<Duration>) -> HystartStage {
        if newest_sent >= self.round {
            self.round = now;
            self.last = self.current.take();
            self.samples = 0;
            if let Some(cautious) = &mut self.cautious {
                cautious.rounds += 1;
                if cautious.rounds >= CSS_ROUNDS {
                    return HystartStage::Over;
                }
            }
        }
        if let Some(rtt) = rtt {
            self.current = Some(self.current.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
            self.judge();
        }
        if self.cautious.is_some() { HystartStage::Conservative } else { HystartStage::Standard }
    }

    fn judge(&mut self) {
        let Some(current) = self.current.filter(|_| self.samples >= N_RTT_SAMPLE) else { return };
        if let Some(cautious) = &self.cautious {
            // It was chance.
            if current < cautious.baseline {
                self.cautious = None;
            }
        } else if self.last.is_some_and(|last| current >= last + threshold(last)) {
            self.cautious = Some(Cautious { baseline: current, rounds: 0 });
        }
    }
}

/// By how much the round trip of a full path grows.
fn threshold(last: Duration) -> Duration {
    (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

// RFC 9406 §4.3.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;
