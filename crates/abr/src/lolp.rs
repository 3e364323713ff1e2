use quickset_base::number::Unsigned as _;
use quickset_base::{Rng, Seed};

use crate::throughput::ThroughputEstimate;
use crate::{Interruption, Ladder, PlayerState, Reading, Rule, SegmentChoice, SegmentDownload};

/// LoL+: a self-organising map of the qualities, one neuron each, that learns what asking for each has
/// brought.
///
/// A neuron knows throughput, latency, stalls and switches (all as parts of what is usual). Asked for is the
/// one that is next to the target: the throughput there is, and none of the others. What counts how much in
/// that distance is chosen anew for each segment: of the weights 0.2, 0.4 … 1 those under which the next
/// segment has the best QoE that leaves 0.3 s in the buffer. Then the neuron that was in force moves towards
/// what happened, the one that won towards the target, and their neighbours with them. When the buffer does
/// not last for another segment of the quality in force, the next below that the throughput carries is asked
/// for at once.
///
/// QoE is the bitrate, less stalls by the highest bitrate and latency by the lowest (Bentaleb et al., 2020,
/// §3).
#[derive(Clone, Debug)]
pub struct LolPlus {
    ladder: Ladder,
    reading: Reading,
    estimate: ThroughputEstimate,
    neurons: Vec<SegmentFeatures>,
    /// The length of the vector of bitrates, in bit/s: by it throughputs are made parts of 1.
    scale: f64,
    weights: SegmentFeatures,
    /// Seconds behind the live edge at the last choice.
    latency: f64,
}

/// Throughput, latency, stalls, switches.
type SegmentFeatures = [f64; 4];

/// What a choice is made from, in bit/s and seconds.
#[derive(Clone, Copy)]
struct Situation {
    throughput: f64,
    buffer: f64,
    latency: f64,
    segment: f64,
    rate: f64,
}

impl LolPlus {
    /// For one session over `ladder`. The weights that hold until some are found are drawn from `seed`.
    pub fn new(ladder: Ladder, reading: Reading, seed: impl Into<Seed>) -> Self {
        let scale = ladder.bitrates().iter().map(|&b| b.approx().powi(2)).sum::<f64>().sqrt();
        let neurons: Vec<SegmentFeatures> =
            ladder.bitrates().iter().map(|&b| [b.approx() / scale, 0.0, 0.0, 0.0]).collect();
        let weights =
            first_weights(ladder.len(), ladder.bitrate(ladder.top()).approx() / scale, &mut Rng::new(seed));
        Self {
            ladder,
            reading,
            estimate: ThroughputEstimate::default(),
            neurons,
            scale,
            weights,
            latency: 0.0,
        }
    }

    fn next(&mut self, current: usize, now: &Situation) -> usize {
        let stall = now.download_time(self.bitrate(current)) - now.buffer;
        if -stall < BUFFER_KEPT {
            return self.lower(current, now.throughput);
        }
        if let Some(weights) = self.best_weights(now) {
            self.weights = weights;
        }
        self.latency = now.latency;

        let part = now.throughput / self.scale;
        let most = self.neurons.iter().fold(0.0, |most: f64, n| most.max(n[0]));
        let target = [if part > 1.0 { most } else { part }, 0.0, 0.0, 0.0];
        let distances: Vec<f64> = (0..self.ladder.len())
            .map(|q| distance(&self.neurons[q], &target, &self.weights_for(q, now)))
            .collect();
        let winner =
            (1..distances.len()).fold(0, |best, q| if distances[q] < distances[best] { q } else { best });

        let switch = (self.bitrate(current) - self.bitrate(winner)).abs() / self.scale;
        self.learn(current, &[target[0], now.latency / LATENCY_SCALE, stall.max(0.0), switch]);
        self.learn(winner, &[target[0], 0.0, 0.0, switch]);
        winner
    }

    /// The highest quality below that the throughput carries; if there is none, it stays.
    fn lower(&self, current: usize, throughput: f64) -> usize {
        (0..current).rev().find(|&q| self.bitrate(q) < throughput).unwrap_or(current)
    }

    /// What the distance to a quality is weighed by: one that takes all there is, or the buffer, counts as
    /// far away.
    fn weights_for(&self, quality: usize, now: &Situation) -> SegmentFeatures {
        let rate = self.bitrate(quality);
        let mut weights = self.weights;
        if quality > 0 && (rate > now.throughput - HEADROOM || now.next_buffer(rate) < BUFFER_KEPT) {
            weights[0] = FAR;
        }
        weights
    }

    /// The weights of the best QoE over all qualities; none when no quality leaves enough in the buffer. QoE
    /// depends on the weights of latency and stalls only: of the others, equally good, it is the first, 0.2.
    fn best_weights(&self, now: &Situation) -> Option<SegmentFeatures> {
        // How far latency may be beyond its target: as much as it has just moved. dash.js forgets the last
        // one.
        let before = match self.reading {
            Reading::Dashjs => 0.0,
            Reading::Paper => self.latency,
        };
        if now.latency > LATENCY_TARGET + (now.latency - before).abs() {
            return None;
        }
        let mut best: Option<(f64, SegmentFeatures)> = None;
        for quality in 0..self.ladder.len() {
            let rate = self.bitrate(quality);
            let next = now.next_buffer(rate);
            if next < BUFFER_KEPT || next.is_nan() {
                continue;
            }
            let stall = (now.download_time(rate) - next).max(LEAST_STALL);
            for of_latency in WEIGHTS {
                for of_stall in WEIGHTS {
                    let latency = self.neurons[quality][1] / of_latency;
                    let qoe = self.qoe(quality, stall / of_stall, latency, now);
                    if best.is_none_or(|(most, _)| qoe > most) {
                        best = Some((qoe, [WEIGHTS[0], of_latency, of_stall, WEIGHTS[0]]));
                    }
                }
            }
        }
        best.map(|(_, weights)| weights)
    }

    /// Of one segment, in kbit. It has no switch: that would take two.
    fn qoe(&self, quality: usize, stall: f64, latency: f64, now: &Situation) -> f64 {
        let (lowest, highest) = (self.ladder.kbps(0), self.ladder.kbps(self.ladder.top()));
        let of_latency = if latency <= LATENCY_FELT { lowest * 0.05 } else { highest * 0.1 };
        now.segment * self.ladder.kbps(quality)
            - highest * stall
            - of_latency * latency
            - lowest * (1.0 - now.rate).abs()
    }

    /// Moves `neuron` and those around it towards `seen`.
    fn learn(&mut self, neuron: usize, seen: &SegmentFeatures) {
        let at = self.neurons[neuron];
        for other in &mut self.neurons {
            let near =
                (-distance(other, &at, &[1.0; 4]).powi(2) / (2.0 * NEIGHBOURHOOD * NEIGHBOURHOOD)).exp();
            for (feature, seen) in other.iter_mut().zip(seen) {
                *feature += (seen - *feature) * LEARNING_RATE * near;
            }
        }
    }

    fn bitrate(&self, quality: usize) -> f64 {
        self.ladder.bitrate(quality).approx()
    }
}

impl Situation {
    fn download_time(&self, bitrate: f64) -> f64 {
        bitrate * self.segment / self.throughput
    }

    /// What is in the buffer after a segment of this bitrate.
    fn next_buffer(&self, bitrate: f64) -> f64 {
        let time = self.download_time(bitrate);
        if time > self.segment { self.buffer - self.segment } else { self.buffer + self.segment - time }
    }
}

impl Rule for LolPlus {
    fn arrived(&mut self, download: &SegmentDownload) {
        self.estimate.add(download);
    }

    fn interrupted(&mut self, _by: Interruption) {}

    fn choose(&mut self, state: &PlayerState) -> SegmentChoice {
        let current = state.current.min(self.ladder.top());
        let Some(kbps) = self.estimate.safe_kbps() else { return SegmentChoice::now(current) };
        let situation = Situation {
            throughput: kbps * 1000.0,
            buffer: state.buffer.as_secs_f64(),
            latency: state.latency.unwrap_or_default().as_secs_f64(),
            segment: state.segment.as_secs_f64(),
            rate: state.rate(),
        };
        SegmentChoice::now(self.next(current, &situation))
    }
}

fn distance(a: &SegmentFeatures, b: &SegmentFeatures, weights: &SegmentFeatures) -> f64 {
    a.iter().zip(b).zip(weights).map(|((a, b), w)| w * (a - b).powi(2)).sum::<f64>().sqrt()
}

/// The weights that hold until some are found (k-means++ over points by chance): of as many points as there
/// are qualities, far from each other, the one that is farthest from the least similar.
fn first_weights(qualities: usize, most: f64, rng: &mut Rng) -> SegmentFeatures {
    const EQUAL: SegmentFeatures = [1.0; 4];
    let points: Vec<SegmentFeatures> =
        (0..qualities * qualities).map(|_| [rng.unit() * most, rng.unit(), rng.unit(), rng.unit()]).collect();
    let mut centres = vec![points[0]];
    let mut nearest: Vec<f64> = points.iter().map(|p| distance(p, &points[0], &EQUAL)).collect();
    while centres.len() < qualities {
        let next = points[farthest(&nearest)];
        centres.push(next);
        for (nearest, point) in nearest.iter_mut().zip(&points) {
            *nearest = nearest.min(distance(point, &next, &EQUAL));
        }
    }
    let sums: Vec<f64> =
        centres.iter().map(|a| centres.iter().map(|b| distance(a, b, &EQUAL)).sum()).collect();
    let odd = centres[farthest(&sums)];
    let distances: Vec<f64> = centres.iter().map(|c| distance(c, &odd, &EQUAL)).collect();
    centres[farthest(&distances)]
}

/// The place of the greatest number.
fn farthest(distances: &[f64]) -> usize {
    (1..distances.len()).fold(0, |best, i| if distances[i] > distances[best] { i } else { best })
}

/// What weights there are.
const WEIGHTS: [f64; 5] = [0.2, 0.4, 0.6, 0.8, 1.0];
/// The weight of the throughput of a quality that is not to be had.
const FAR: f64 = 100.0;
/// Seconds that a segment has to leave in the buffer.
const BUFFER_KEPT: f64 = 0.3;
/// Seconds behind the live edge that are aimed at; above the second figure, a viewer feels them.
const LATENCY_TARGET: f64 = 1.5;
const LATENCY_FELT: f64 = 1.1;
/// Seconds of latency that are 1 on the map.
const LATENCY_SCALE: f64 = 100.0;
/// In bit/s, of the throughput, above the bitrate of a quality.
const HEADROOM: f64 = 10_000.0;
/// So that weights of stalls count where there are none, in seconds.
const LEAST_STALL: f64 = 0.000_01;
const LEARNING_RATE: f64 = 0.01;
/// How far on the map neurons move along: the standard deviation.
const NEIGHBOURHOOD: f64 = 0.1;

#[cfg(test)]
#[path = "lolp_tests.rs"]
mod tests;
