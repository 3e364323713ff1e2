use std::time::Duration;

use quickset_base::number::Unsigned as _;

use crate::throughput::ThroughputEstimate;
use crate::{Interruption, Ladder, PlayerState, Reading, Rule, SegmentChoice, SegmentDownload};

/// L2A: learns from segment to segment with which weight each bitrate is to be asked for, without a model of
/// the network.
///
/// The weights w are a point of the simplex. After each segment they take a step along the gradient of what a
/// bitrate costs in latency and of the constraint that the buffer is kept, the second by its multiplier Q,
/// and are projected back onto the simplex; Q grows by what the bitrate that was asked for lacks of a buffer
/// that stays as it is. Asked for is the bitrate next to the mean of w, a step at a time upwards. Until 1.5 s
/// are in the buffer, and after seeks, quality is by throughput.
///
/// The target of 1.5 s, the horizon of 4 segments and with it the cautiousness are those of the paper's
/// evaluation.
#[derive(Clone, Debug)]
pub struct L2a {
    ladder: Ladder,
    reading: Reading,
    estimate: ThroughputEstimate,
    phase: L2aPhase,
    weights: Vec<f64>,
    /// Q of the paper.
    multiplier: f64,
    quality: usize,
    /// How long the last segment plays.
    segment: Option<Duration>,
    /// Whether anything has arrived since the last step.
    news: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum L2aPhase {
    Unasked,
    Startup,
    Steady,
}

impl L2a {
    /// For one session over `ladder`.
    pub fn new(ladder: Ladder, reading: Reading) -> Self {
        let weights = vec![0.0; ladder.len()];
        Self {
            ladder,
            reading,
            estimate: ThroughputEstimate::default(),
            phase: L2aPhase::Unasked,
            weights,
            multiplier: 0.0,
            quality: 0,
            segment: None,
            news: true,
        }
    }

    fn start(&mut self, state: &PlayerState) -> usize {
        let Some(kbps) = self.estimate.safe_kbps() else {
            return state.current.min(self.ladder.top());
        };
        self.quality = self.ladder.within(kbps);
        if self.segment.is_some() && state.buffer >= TARGET {
            self.phase = L2aPhase::Steady;
            self.multiplier = caution();
            self.weights.fill(0.0);
            self.weights[self.quality] = 1.0;
        }
        self.quality
    }

    fn step(&mut self, segment: f64, rate: f64) -> usize {
        // An outage is no division by zero.
        let throughput = self.estimate.last_kbps().unwrap_or(0.0).max(1.0);
        let relative: Vec<f64> =
            (0..self.ladder.len()).map(|q| rate * self.ladder.kbps(q) / throughput).collect();
        let size = segment / (2.0 * HORIZON.max(caution() * HORIZON.sqrt())) * (self.multiplier + caution());
        let before = std::mem::take(&mut self.weights);
        // What the network does not carry would empty the buffer: its weight shrinks, and that of all others
        // grows.
        let moved =
            before.iter().zip(&relative).map(|(w, r)| if *r > 1.0 { w - size * r } else { w + size * r });
        self.weights = onto_simplex(&moved.collect::<Vec<_>>());

        let mean = |weights: &[f64]| weights.iter().zip(&relative).map(|(w, r)| w * r).sum::<f64>();
        let expected = 2.0 * mean(&self.weights) - mean(&before);
        let unit = self.unit();
        self.multiplier = (self.multiplier - segment + segment * unit * expected).max(0.0);

        let mut quality = self.nearest();
        if quality > self.quality && self.ladder.kbps(self.quality + 1) * unit <= throughput {
            quality = self.quality + 1;
        }
        if self.ladder.kbps(quality) >= throughput {
            self.multiplier = REACTION * self.multiplier.max(caution());
        }
        quality
    }

    /// The quality whose bitrate is next to the mean one; of two equally near the lower.
    fn nearest(&self) -> usize {
        let rates = self.ladder.bitrates().iter().map(|&b| b.approx());
        let mean: f64 = self.weights.iter().zip(rates.clone()).map(|(w, b)| w * b).sum();
        let distances: Vec<f64> = rates.map(|b| (b - mean).abs()).collect();
        (1..distances.len()).fold(0, |best, q| if distances[q] < distances[best] { q } else { best })
    }

    /// dash.js divides bit/s by kbit/s in the constraint and in the cautious step.
    fn unit(&self) -> f64 {
        match self.reading {
            Reading::Dashjs => 1000.0,
            Reading::Paper => 1.0,
        }
    }
}

impl Rule for L2a {
    fn arrived(&mut self, download: &SegmentDownload) {
        self.estimate.add(download);
        if self.phase == L2aPhase::Unasked {
            return;
        }
        self.quality = download.quality.min(self.ladder.top());
        self.segment = Some(download.media);
        self.news = true;
    }

    fn interrupted(&mut self, by: Interruption) {
        if by == Interruption::Seek && self.phase == L2aPhase::Steady {
            self.phase = L2aPhase::Startup;
            self.segment = None;
            self.news = true;
        }
    }

    fn choose(&mut self, state: &PlayerState) -> SegmentChoice {
        let quality = match (self.phase, self.segment) {
            (L2aPhase::Steady, Some(segment)) if self.news => {
                self.news = false;
                self.step(segment.as_secs_f64(), state.rate())
            }
            (L2aPhase::Steady, _) => self.quality,
            (L2aPhase::Unasked | L2aPhase::Startup, _) => {
                self.phase = L2aPhase::Startup;
                self.start(state)
            }
        };
        if self.phase == L2aPhase::Steady {
            self.quality = quality;
        }
        SegmentChoice::now(quality)
    }
}

/// The point of the simplex (no part below 0, their sum 1) that is next to `point` (Chen and Ye, arXiv
/// 1101.6081): all are lowered by the same, and what would be below 0 is 0.
fn onto_simplex(point: &[f64]) -> Vec<f64> {
    let mut falling = point.to_vec();
    falling.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut lowered) = (0.0, 0.0);
    for (i, part) in falling.iter().enumerate() {
        sum += part;
        lowered = (sum - 1.0) / (i + 1).approx();
        if falling.get(i + 1).is_some_and(|next| lowered >= *next) {
            break;
        }
    }
    point.iter().map(|part| (part - lowered).max(0.0)).collect()
}

/// V_L of the paper: how much latency counts beside the constraint.
fn caution() -> f64 {
    HORIZON.powf(0.99)
}

/// Segments after which the weights are to have settled.
const HORIZON: f64 = 4.0;
/// How many times the multiplier grows when more was asked for than arrives.
const REACTION: f64 = 2.0;
/// Of the buffer.
const TARGET: Duration = Duration::from_millis(1500);

#[cfg(test)]
#[path = "l2a_tests.rs"]
mod tests;
