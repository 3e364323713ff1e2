use quickset_base::{Duration, Time};

use super::SAMPLE_RATE;

/// How long frames take to come, and so at which delay they are to be played.
///
/// A frame's *transit* is when it came less when it was recorded. The clocks are those of two machines, so
/// that it means nothing but in comparison: a frame is late by as much as its transit is above the smallest
/// of the last quarter of a minute, the *origin*. The origin follows clocks that drift apart.
#[derive(Clone, Debug)]
pub(super) struct DelayEstimate {
    /// The smallest transits of times that follow each other, the last being now, in nanoseconds.
    floors: [Option<i64>; FLOORS],
    /// When the last of these began.
    since: Time,
    /// The share of frames that were late by so many times [`BIN`], those of long ago counting less.
    late: [f64; BINS],
    /// By how much the origin has risen that is less than a [`BIN`], in nanoseconds.
    risen: i64,
    /// Frames that are counted there, up to [`MEMORY`].
    count: u32,
    /// How long before it is heard a frame has to be there.
    lead: Duration,
}

impl DelayEstimate {
    pub(super) fn new(lead: Duration) -> Self {
        Self { floors: [None; FLOORS], since: Time::ZERO, late: [0.0; BINS], risen: 0, count: 0, lead }
    }

    /// A frame has come that was recorded at this time, in samples.
    pub(super) fn came(&mut self, now: Time, recorded: u64) {
        let (transit, before) = (transit(now, recorded), self.origin());
        if self.count == 0 || now.since(self.since) >= FLOOR_TIME {
            self.floors.rotate_left(1);
            (self.floors[FLOORS - 1], self.since) = (None, now);
        }
        let last = &mut self.floors[FLOORS - 1];
        *last = Some(last.map_or(transit, |least| least.min(transit)));
        let origin = self.origin().unwrap_or(transit);
        self.rises(origin.saturating_sub(before.unwrap_or(origin)));
        let late = transit.saturating_sub(origin);
        // For what is later than any delay waits, no delay is to be longer.
        let Some(bin) = usize::try_from(late / BIN).ok().filter(|&bin| bin < BINS) else { return };
        self.count = (self.count + 1).min(MEMORY);
        let weight = 1.0 / f64::from(self.count);
        self.late.iter_mut().for_each(|share| *share *= 1.0 - weight);
        self.late[bin] += weight;
    }

    /// The origin is later by so many nanoseconds: what was late is so by less. Where it is sooner instead,
    /// what came before says nothing of what comes now.
    fn rises(&mut self, by: i64) {
        self.risen = self.risen.saturating_add(by.max(0));
        let bins = usize::try_from(self.risen / BIN).unwrap_or(0);
        self.risen %= BIN;
        for bin in 1..BINS {
            let share = if bins == 0 { 0.0 } else { core::mem::take(&mut self.late[bin]) };
            self.late[bin.saturating_sub(bins)] += share;
        }
    }

    /// The smallest transit of late, in nanoseconds; `None` before the first frame.
    pub(super) fn origin(&self) -> Option<i64> {
        self.floors.iter().flatten().copied().min()
    }

    /// By how much more than the origin a frame that is played now is behind its recording, in nanoseconds.
    pub(super) fn behind(&self, now: Time, recorded: u64) -> i64 {
        let transit = transit(now, recorded);
        transit.saturating_sub(self.origin().unwrap_or(transit))
    }

    /// At which delay behind the origin to play: DT-73.
    pub(super) fn target(&self) -> Duration {
        let mut later = 1.0;
        let enough = self.late.iter().position(|share| {
            later -= share;
            later <= LATE_SHARE
        });
        let least = if self.lead.is_zero() { LEAST_DELAY } else { LEAST_WITH_LEAD };
        let bins = enough.map_or(0, |bin| bin as u64 + 1);
        (Duration::from_nanos(bins * BIN.unsigned_abs()) + MARGIN + self.lead).clamp(least, MOST_DELAY)
    }
}

/// In nanoseconds, of clocks that have nothing to do with each other. A time in samples is below 2^48, which
/// is less than 2^63 ns.
fn transit(now: Time, recorded: u64) -> i64 {
    let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
    let recorded = u128::from(recorded) * 1_000_000_000 / u128::from(SAMPLE_RATE);
    now.saturating_sub(i64::try_from(recorded).unwrap_or(i64::MAX))
}

/// DT-73: at most this share of frames is to come too late.
const LATE_SHARE: f64 = 0.005;
/// DT-73: the least where it is known how long a frame takes from the buffer to the device, and that is
/// a part of it.
const LEAST_WITH_LEAD: Duration = Duration::from_millis(30);
/// The same where that is not known, and some of it is for that.
pub(super) const LEAST_DELAY: Duration = Duration::from_millis(40);
pub(super) const MOST_DELAY: Duration = Duration::from_millis(400);
/// Between a frame's coming and its being played, for timers and the decoder.
const MARGIN: Duration = Duration::from_millis(5);
/// How finely lateness is counted, in nanoseconds.
const BIN: i64 = 5_000_000;
/// As many as the longest delay has.
const BINS: usize = 80;
/// How many frames are remembered, about: 40 s.
const MEMORY: u32 = 2000;
/// The origin is the smallest transit of so many times of so long.
const FLOORS: usize = 8;
const FLOOR_TIME: Duration = Duration::from_secs(2);
