use quickset_base::number::Unsigned as _;

use crate::{Interruption, Ladder, PlayerState, Rule, SegmentChoice, SegmentDownload};

/// What the network gives, estimated from what arrived: the smaller of two exponentially weighted averages, a
/// fast one that follows losses of capacity at once and a slow one that believes in gains after some time.
///
/// A sample is what one download carried from its first byte to its last one, in whole kbit/s; it counts by
/// how long that took. Half lives are 3 and 8 s, of time that runs one and a half times as fast as the
/// downloads do. This is what dash.js 5 does unless it is told otherwise.
#[derive(Clone, Debug, Default)]
pub struct ThroughputEstimate {
    fast: f64,
    slow: f64,
    /// Of all samples; both averages start from 0, and what is missing for that is divided out again.
    weight: f64,
    last: Option<f64>,
}

impl ThroughputEstimate {
    /// Takes in a download. One of no bytes, which a cache had, or of no time says nothing.
    pub fn add(&mut self, download: &SegmentDownload) {
        let ms = download.transfer().as_secs_f64() * 1000.0;
        if download.bytes == 0 || ms <= 0.0 {
            return;
        }
        let sample = (8.0 * download.bytes.approx() / ms).round();
        self.last = Some(sample);
        let weight = WEIGHT_PER_MS * ms;
        for (average, half_life) in [(&mut self.fast, FAST), (&mut self.slow, SLOW)] {
            let kept = 0.5_f64.powf(weight / half_life);
            *average = (1.0 - kept) * sample + kept * *average;
        }
        self.weight += weight;
    }

    /// The estimate in whole kbit/s; none before the first download.
    pub fn kbps(&self) -> Option<f64> {
        let corrected =
            |average: f64, half_life: f64| average / (1.0 - 0.5_f64.powf(self.weight / half_life));
        self.last.map(|_| corrected(self.fast, FAST).min(corrected(self.slow, SLOW)).round())
    }

    /// What a stream may take of it, in kbit/s: nine tenths.
    pub fn safe_kbps(&self) -> Option<f64> {
        self.kbps().map(|kbps| kbps * SAFETY)
    }

    /// The last sample alone, in whole kbit/s.
    pub fn last_kbps(&self) -> Option<f64> {
        self.last
    }
}

/// The highest bitrate that nine tenths of the estimated throughput carry.
///
/// While the buffer of a stream on demand is empty the quality stays as it is.
#[derive(Clone, Debug)]
pub struct Throughput {
    ladder: Ladder,
    estimate: ThroughputEstimate,
}

impl Throughput {
    /// For one session over `ladder`.
    pub fn new(ladder: Ladder) -> Self {
        Self { ladder, estimate: ThroughputEstimate::default() }
    }
}

impl Rule for Throughput {
    fn arrived(&mut self, download: &SegmentDownload) {
        self.estimate.add(download);
    }

    fn interrupted(&mut self, _by: Interruption) {}

    fn choose(&mut self, state: &PlayerState) -> SegmentChoice {
        match self.estimate.safe_kbps() {
            Some(kbps) if state.latency.is_some() || !state.is_empty() => {
                SegmentChoice::now(self.ladder.within(kbps))
            }
            _ => SegmentChoice::now(state.current.min(self.ladder.top())),
        }
    }
}

/// Half lives, in seconds.
const FAST: f64 = 3.0;
const SLOW: f64 = 8.0;
const WEIGHT_PER_MS: f64 = 0.0015;
const SAFETY: f64 = 0.9;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{download, state};

    #[test]
    fn a_constant_throughput_is_found_at_once() {
        let mut estimate = ThroughputEstimate::default();
        assert_eq!((estimate.kbps(), estimate.safe_kbps()), (None, None));
        for _ in 0..3 {
            estimate.add(&download(0, 1_250_000, 1000));
            assert_eq!((estimate.kbps(), estimate.safe_kbps()), (Some(10_000.0), Some(9000.0)));
        }
    }

    /// After a second at 10 Mbit/s and one at 2: each sample weighs 1.5 s, and the older half^(1.5/T) of
    /// that.
    #[test]
    fn the_smaller_average_counts() {
        let mut estimate = ThroughputEstimate::default();
        estimate.add(&download(0, 1_250_000, 1000));
        estimate.add(&download(0, 250_000, 1000));
        let mean = |half_life: f64| {
            let kept = 2_f64.powf(-1.5 / half_life);
            (10_000.0 * kept + 2000.0) / (kept + 1.0)
        };
        assert!(mean(3.0) < mean(8.0));
        assert_eq!(estimate.kbps(), Some(mean(3.0).round()));
        // Upwards the slow one is the smaller.
        let mut estimate = ThroughputEstimate::default();
        estimate.add(&download(0, 250_000, 1000));
        estimate.add(&download(0, 1_250_000, 1000));
        let mean = |half_life: f64| {
            let kept = 2_f64.powf(-1.5 / half_life);
            (2000.0 * kept + 10_000.0) / (kept + 1.0)
        };
        assert_eq!(estimate.kbps(), Some(mean(8.0).round()));
    }

    #[test]
    fn the_wait_for_the_first_byte_does_not_count() {
        let mut waited = download(0, 1_250_000, 1000);
        waited.requested = Duration::ZERO;
        waited.first_byte += Duration::from_secs(7);
        waited.finished += Duration::from_secs(7);
        let mut estimate = ThroughputEstimate::default();
        estimate.add(&waited);
        assert_eq!(estimate.kbps(), Some(10_000.0));
    }

    #[test]
    fn nothing_in_no_time_says_nothing() {
        let mut rule = Throughput::new(Ladder::new([1_000_000, 2_000_000, 3_000_000]).expect("it ascends"));
        rule.arrived(&download(0, 0, 1000));
        rule.arrived(&download(0, 1000, 0));
        assert_eq!(rule.choose(&state(10, 1)), SegmentChoice::now(1));
        assert_eq!(rule.choose(&state(10, 99)), SegmentChoice::now(2));
    }

    #[test]
    fn an_empty_buffer_keeps_the_quality_on_demand_only() {
        let mut rule = Throughput::new(Ladder::new([1_000_000, 2_000_000, 3_000_000]).expect("it ascends"));
        rule.arrived(&download(0, 1_000_000, 1000));
        assert_eq!(rule.choose(&state(0, 1)), SegmentChoice::now(1));
        assert_eq!(
            rule.choose(&PlayerState { latency: Some(Duration::ZERO), ..state(0, 1) }),
            SegmentChoice::now(2)
        );
        assert_eq!(rule.choose(&state(1, 1)), SegmentChoice::now(2));
    }
}
