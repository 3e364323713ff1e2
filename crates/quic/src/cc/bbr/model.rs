//! The parts of BBR's model of the path (draft-ietf-ccwg-bbr §5.5): each keeps one estimate.

use quickset_base::number::{Float as _, Unsigned as _};
use quickset_base::{Duration, Time};

use crate::cc::rate::{Sample, volume};

/// Round trips counted in packets (§5.5.1).
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// This feedback begins a round.
    pub(super) start: bool,
    /// Since the last probe for bandwidth.
    pub(super) since_probe: u64,
    next_delivered: u64,
}

impl Rounds {
    pub(super) fn update(&mut self, sample: &Sample, delivered: u64) {
        self.start = sample.prior_delivered >= self.next_delivered;
        if self.start {
            self.begin(delivered);
            self.count += 1;
            self.since_probe += 1;
        }
    }

    /// The current round ends when something sent from here on is acknowledged.
    pub(super) fn begin(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }
}

/// The greatest delivery rate of this cycle of probing and the one before (§5.5.5, §5.5.6).
#[derive(Debug, Default)]
pub(super) struct MaxBandwidth {
    current: u64,
    previous: u64,
}

impl MaxBandwidth {
    pub(super) fn get(&self) -> u64 {
        self.current.max(self.previous)
    }

    pub(super) fn update(&mut self, sample: &Sample) {
        // A rate that the application held down proves nothing unless it is the greatest.
        if sample.rate > 0 && (sample.rate >= self.get() || !sample.app_limited) {
            self.current = self.current.max(sample.rate);
        }
    }

    pub(super) fn advance(&mut self) {
        // A cycle without a sample has nothing to replace the old one with.
        if self.current > 0 {
            self.previous = self.current;
            self.current = 0;
        }
    }
}

/// Whether acceleration still brings anything (§5.3.1.2).
#[derive(Debug, Default)]
pub(super) struct FullPipe {
    rate: u64,
    rounds: u32,
    /// It does not now.
    pub(super) now: bool,
    /// There was a time when it did not: the path's bandwidth is known.
    pub(super) reached: bool,
}

impl FullPipe {
    /// A round that put the path to the test brought this rate.
    pub(super) fn check(&mut self, rate: u64) {
        if self.now {
            return;
        }
        if rate.approx() >= self.rate.approx() * 1.25 {
            self.restart(rate);
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= 3;
        self.reached |= self.now;
    }

    /// A round put the path to no test: those before it do not go on.
    pub(super) fn interrupt(&mut self) {
        if !self.now {
            self.rounds = 0;
        }
    }

    /// Starts over; growth is counted from `rate`.
    pub(super) fn restart(&mut self, rate: u64) {
        self.rate = rate;
        self.rounds = 0;
        self.now = false;
    }
}

/// What was delivered in the last round, and the bounds that losses in it put on us for a while (§5.5.10).
#[derive(Debug)]
pub(super) struct ShortTerm {
    /// Bytes per second, `u64::MAX` when there is no bound.
    pub(super) bandwidth: u64,
    /// Bytes in flight, `u64::MAX` when there is no bound.
    pub(super) in_flight: u64,
    latest_rate: u64,
    /// The most delivered in a sample of this round.
    pub(super) latest_delivered: u64,
    /// This feedback ends a round of loss accounting.
    pub(super) round_start: bool,
    round_delivered: u64,
    /// Something was lost in this round.
    pub(super) loss: bool,
    /// Gaps among them.
    pub(super) gaps: u32,
    /// Something was marked in this round.
    pub(super) marked: bool,
    // Totals when the round began.
    since_lost: u64,
    since_delivered: u64,
}

impl ShortTerm {
    pub(super) fn new() -> Self {
        Self {
            bandwidth: u64::MAX,
            in_flight: u64::MAX,
            latest_rate: 0,
            latest_delivered: 0,
            round_start: false,
            round_delivered: 0,
            loss: false,
            gaps: 0,
            marked: false,
            since_lost: 0,
            since_delivered: 0,
        }
    }

    /// A packet was lost.
    pub(super) fn note_loss(&mut self, delivered: u64, starts_gap: bool) {
        if !self.loss {
            self.round_delivered = delivered;
        }
        self.loss = true;
        self.gaps += u32::from(starts_gap);
    }

    /// A packet was marked.
    pub(super) fn note_mark(&mut self, delivered: u64) {
        self.note_loss(delivered, false);
        self.marked = true;
    }

    pub(super) fn update(&mut self, sample: &Sample, delivered: u64) {
        self.latest_rate = self.latest_rate.max(sample.rate);
        self.latest_delivered = self.latest_delivered.max(sample.delivered);
        self.round_start = sample.prior_delivered >= self.round_delivered;
        if self.round_start {
            self.round_delivered = delivered;
        }
    }

    /// Once per round with loss: towards what the path delivers now, by at most `beta`.
    pub(super) fn adapt(&mut self, max_bandwidth: u64, window: u64, beta: f64) {
        let bandwidth = if self.bandwidth == u64::MAX { max_bandwidth } else { self.bandwidth };
        let in_flight = if self.in_flight == u64::MAX { window } else { self.in_flight };
        self.bandwidth = self.latest_rate.max((bandwidth.approx() * beta).whole());
        self.in_flight = self.latest_delivered.max((in_flight.approx() * beta).whole());
    }

    /// Bytes lost in this round, and bytes lost or delivered.
    pub(super) fn losses(&self, delivered: u64, lost: u64) -> (u64, u64) {
        let lost = lost - self.since_lost;
        (lost, lost + (delivered - self.since_delivered))
    }

    /// The round is over: losses are counted anew.
    pub(super) fn end_round(&mut self, delivered: u64, lost: u64) {
        self.loss = false;
        self.gaps = 0;
        self.marked = false;
        self.since_delivered = delivered;
        self.since_lost = lost;
    }

    /// The last of a feedback: a new round starts from its own sample.
    pub(super) fn advance(&mut self, sample: &Sample) {
        if self.round_start {
            self.latest_rate = sample.rate;
            self.latest_delivered = sample.delivered;
        }
    }

    pub(super) fn forget_latest(&mut self) {
        self.loss = false;
        self.marked = false;
        self.latest_rate = 0;
        self.latest_delivered = 0;
    }

    pub(super) fn unbound(&mut self) {
        self.bandwidth = u64::MAX;
        self.in_flight = u64::MAX;
    }
}

/// How much more than the bandwidth explains is acknowledged at once (§5.5.9).
#[derive(Debug)]
pub(super) struct Aggregation {
    since: Time,
    delivered: u64,
    most: WindowedMax,
}

impl Aggregation {
    pub(super) fn new(now: Time) -> Self {
        Self { since: now, delivered: 0, most: WindowedMax::default() }
    }

    pub(super) fn get(&self) -> u64 {
        self.most.get()
    }

    pub(super) fn restart(&mut self, now: Time) {
        self.since = now;
        self.delivered = 0;
    }

    /// So many bytes were acknowledged; the model has a bandwidth and a window, the greatest of so many
    /// rounds counts.
    pub(super) fn update(
        &mut self,
        now: Time,
        acked: u64,
        bandwidth: u64,
        window: u64,
        round: u64,
        rounds: u64,
    ) {
        let mut expected = volume(bandwidth, now.since(self.since));
        if self.delivered <= expected {
            self.restart(now);
            expected = 0;
        }
        self.delivered += acked;
        self.most.update((self.delivered - expected).min(window), round, rounds);
    }
}

/// The greatest value of the last rounds, with two younger ones that follow it when it is too old: within a
/// quarter and a half of the window a successor is at hand (Nichols' filter).
#[derive(Debug, Default)]
pub(super) struct WindowedMax {
    // Values and their rounds: falling, and no younger one is before an older.
    best: [(u64, u64); 3],
}

impl WindowedMax {
    pub(super) fn get(&self) -> u64 {
        self.best[0].0
    }

    pub(super) fn update(&mut self, value: u64, round: u64, window: u64) {
        let new = (value, round);
        if value >= self.best[0].0 || round - self.best[2].1 > window {
            self.best = [new; 3];
            return;
        }
        if value >= self.best[1].0 {
            self.best = [self.best[0], new, new];
        } else if value >= self.best[2].0 {
            self.best[2] = new;
        }
        let age = round - self.best[0].1;
        if age > window {
            self.best = [self.best[1], self.best[2], new];
            if round - self.best[0].1 > window {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].1 == self.best[0].1 && 4 * age > window {
            self.best = [self.best[0], new, new];
        } else if self.best[2].1 == self.best[1].1 && 2 * age > window {
            self.best[2] = new;
        }
    }
}

/// The least round trip of the last twenty seconds, and when to make sure of it (§5.3.4.3): two minima, of
/// which the younger follows when the older is too old, so that what the last ProbeRTT measured is known
/// while the next one drains a queue.
#[derive(Debug)]
pub(super) struct MinRtt {
    pub(super) value: Option<Duration>,
    stamp: Time,
    // Since ProbeRTT, or the last sample that was as good: the least, and when that was.
    recent: Option<Duration>,
    recent_stamp: Time,
    /// The younger one has to be found anew.
    pub(super) expired: bool,
}

impl MinRtt {
    pub(super) fn new(now: Time) -> Self {
        Self { value: None, stamp: now, recent: None, recent_stamp: now, expired: false }
    }

    /// A round trip without a queue of ours: as long as the least, but for what a processor and a medium add.
    pub(super) fn confirm(&mut self, now: Time, rtt: Duration) {
        if self.recent.is_some_and(|least| rtt <= least + least / 64) {
            self.recent_stamp = now;
        }
    }

    pub(super) fn update(&mut self, now: Time, rtt: Duration) {
        self.expired = self.recent.is_some() && now > self.recent_stamp + PROBE_RTT_INTERVAL;
        let recent = self.recent.filter(|recent| !self.expired && *recent <= rtt).unwrap_or_else(|| {
            self.recent_stamp = now;
            rtt
        });
        self.recent = Some(recent);
        if self.value.is_none_or(|value| recent < value) || now > self.stamp + FILTER {
            self.value = Some(recent);
            self.stamp = self.recent_stamp;
        }
    }

    /// ProbeRTT is over; the next one is as far away as can be.
    pub(super) fn probed(&mut self, now: Time) {
        self.recent_stamp = now;
    }
}

/// The time that a minimum is good for: twice the next one, as §2.8 has it.
pub(super) const FILTER: Duration = Duration::from_secs(20);
/// The time after which it is measured again, the same for all flows, so that they drain a queue together:
/// see the module's departures.
pub(super) const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(10);
