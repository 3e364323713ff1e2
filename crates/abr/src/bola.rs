use std::time::Duration;

use quickset_base::number::Unsigned as _;

use crate::throughput::ThroughputEstimate;
use crate::{Interruption, Ladder, PlayerState, Reading, Rule, SegmentChoice, SegmentDownload};

/// BOLA-E: the quality by how full the buffer is, with a placeholder for media that the buffer would have.
///
/// With utilities v of the qualities (the logarithm of how many times the lowest bitrate each is) a segment
/// of quality m has the score (V · (v_m + γ) − Q) / bitrate_m when Q seconds are in the buffer, and the best
/// is fetched; when all are below zero, it waits (BOLA, §IV). V and γ follow from where the lowest quality is
/// not worth its bits any more (10 s), and where the top one is not: at the buffer's target, or 2 s a quality
/// above 10 s if that is more.
///
/// Of BOLA-E (§4 of the second paper) come the placeholder and the start: as long as there is less than a
/// segment in the buffer, quality is by throughput, and the placeholder is as much as makes BOLA agree.
/// Whatever delays a request but the network (a full buffer, a live segment that is not there yet) grows it,
/// so that it does not look like throughput; stalls and seeks empty it. BOLA-O (§V of the first): no rise
/// beyond what throughput carries.
#[derive(Clone, Debug)]
pub struct Bola {
    ladder: Ladder,
    reading: Reading,
    estimate: ThroughputEstimate,
    /// Of each quality, that of the lowest 0.
    utilities: Vec<f64>,
    curve: Option<ScoreCurve>,
    phase: BolaPhase,
    /// Seconds of media that are counted as if they were in the buffer.
    placeholder: f64,
    quality: usize,
    /// How long the last segment plays.
    segment: Option<Duration>,
    /// From when on time that passes is not the network's: the end of a download, or else the last choice.
    idle_since: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BolaPhase {
    /// Nobody has asked: what was fetched until then was somebody else's choice.
    Unasked,
    Startup,
    Steady,
}

/// The parameters of the score, in seconds of buffer; they follow from the target.
#[derive(Clone, Copy, Debug)]
struct ScoreCurve {
    target: Duration,
    /// V of the paper.
    v: f64,
    /// γp of the paper.
    gamma: f64,
}

impl Bola {
    /// For one session over `ladder`.
    pub fn new(ladder: Ladder, reading: Reading) -> Self {
        let lowest = ladder.bitrate(0).approx();
        let utilities = ladder.bitrates().iter().map(|&b| b.approx().ln() - lowest.ln()).collect();
        Self {
            ladder,
            reading,
            estimate: ThroughputEstimate::default(),
            utilities,
            curve: None,
            phase: BolaPhase::Unasked,
            placeholder: 0.0,
            quality: 0,
            segment: None,
            idle_since: None,
        }
    }

    /// From what is in the buffer, in seconds, to the quality of the best score; of equal ones the higher.
    fn best(&self, curve: ScoreCurve, buffer: f64) -> usize {
        let score = |q: usize| {
            (curve.v * (self.utilities[q] + curve.gamma) - buffer) / self.ladder.bitrate(q).approx()
        };
        (1..self.ladder.len()).fold(0, |best, q| if score(q) >= score(best) { q } else { best })
    }

    /// The level in seconds from which on `quality` scores better than all below it.
    fn reached(&self, curve: ScoreCurve, quality: usize) -> f64 {
        let (rate, utility) = (self.ladder.bitrate(quality).approx(), self.utilities[quality]);
        let crossing = |lower: usize| {
            let below = self.ladder.bitrate(lower).approx();
            curve.v * (curve.gamma + (rate * self.utilities[lower] - below * utility) / (rate - below))
        };
        (0..quality).map(crossing).map(|level| level + self.slack(curve)).fold(0.0, f64::max)
    }

    /// The level in seconds above which waiting is better than `quality`.
    fn full(&self, curve: ScoreCurve, quality: usize) -> f64 {
        curve.v * (self.utilities[quality] + curve.gamma) + self.slack(curve)
    }

    /// dash.js reckons with utilities from 1 up where these levels are found, and from 0 where scores are: by
    /// V seconds the one is higher than the other, so that more is in the buffer before it waits.
    fn slack(&self, curve: ScoreCurve) -> f64 {
        match self.reading {
            Reading::Dashjs => curve.v,
            Reading::Paper => 0.0,
        }
    }

    /// The parameters for this target. When it moves, what is counted as buffered moves along the scores, so
    /// that the quality stays.
    fn curve(&mut self, state: &PlayerState) -> ScoreCurve {
        if let Some(curve) = self.curve.filter(|curve| curve.target == state.buffer_target) {
            return curve;
        }
        let floor = NO_WAIT_BELOW + PER_QUALITY * self.ladder.len().approx();
        let top = state.buffer_target.as_secs_f64().max(floor);
        let gamma = self.utilities[self.ladder.top()] / (top / NO_WAIT_BELOW - 1.0);
        let new = ScoreCurve { target: state.buffer_target, v: NO_WAIT_BELOW / gamma, gamma };
        if let Some(old) = self.curve.replace(new) {
            let buffer = state.buffer.as_secs_f64();
            let moved = (buffer + self.placeholder - NO_WAIT_BELOW) * (new.v / old.v) + NO_WAIT_BELOW;
            self.placeholder = (moved - buffer).max(0.0);
        }
        new
    }

    fn start(&mut self, state: &PlayerState, curve: ScoreCurve) -> SegmentChoice {
        let Some(kbps) = self.estimate.safe_kbps() else {
            return SegmentChoice::now(state.current.min(self.ladder.top()));
        };
        self.quality = self.ladder.within(kbps);
        self.placeholder = (self.reached(curve, self.quality) - state.buffer.as_secs_f64()).max(0.0);
        if self.segment.is_some_and(|segment| state.buffer >= segment) {
            self.phase = BolaPhase::Steady;
        }
        SegmentChoice::now(self.quality)
    }

    fn steady(&mut self, state: &PlayerState, curve: ScoreCurve) -> SegmentChoice {
        if let Some(since) = self.idle_since.replace(state.now) {
            self.placeholder += state.now.saturating_sub(since).as_secs_f64();
        }
        let buffer = state.buffer.as_secs_f64();
        let mut quality = self.best(curve, buffer + self.placeholder);
        let carried = self.estimate.safe_kbps().map_or(0, |kbps| self.ladder.within(kbps));
        if quality > self.quality && quality > carried {
            quality = carried.max(self.quality);
        }
        self.quality = quality;
        // What is too much comes out of the placeholder first, since nobody has to wait for that.
        let excess = (buffer + self.placeholder - self.full(curve, quality)).max(0.0);
        let wait = (excess - self.placeholder).max(0.0);
        self.placeholder = (self.placeholder - excess).max(0.0);
        // How far a buffer of the top quality is filled is the player's affair.
        if quality == self.ladder.top() {
            SegmentChoice::now(quality)
        } else {
            SegmentChoice::after(quality, wait)
        }
    }
}

impl Rule for Bola {
    fn arrived(&mut self, download: &SegmentDownload) {
        self.estimate.add(download);
        if self.phase == BolaPhase::Unasked {
            return;
        }
        self.quality = download.quality.min(self.ladder.top());
        self.segment = Some(download.media);
        self.idle_since = Some(download.finished);
        self.placeholder *= DECAY;
        if let Some(curve) = self.curve {
            // The choice may have been lowered by others: the placeholder is no more than would make BOLA ask
            // for this quality.
            let took = download.finished.saturating_sub(download.requested);
            let at_request = download.buffer.as_secs_f64() + took.as_secs_f64();
            self.placeholder = self.placeholder.min((self.full(curve, self.quality) - at_request).max(0.0));
        }
    }

    fn interrupted(&mut self, by: Interruption) {
        match by {
            Interruption::Stall if self.phase == BolaPhase::Steady => self.placeholder = 0.0,
            Interruption::Seek if self.phase != BolaPhase::Unasked => {
                self.phase = BolaPhase::Startup;
                self.placeholder = 0.0;
                (self.segment, self.idle_since) = (None, None);
            }
            Interruption::Stall | Interruption::Seek => {}
        }
    }

    fn choose(&mut self, state: &PlayerState) -> SegmentChoice {
        if self.ladder.len() == 1 {
            return SegmentChoice::now(0);
        }
        let curve = self.curve(state);
        match self.phase {
            BolaPhase::Unasked | BolaPhase::Startup => {
                self.phase = BolaPhase::Startup;
                self.start(state, curve)
            }
            BolaPhase::Steady => self.steady(state, curve),
        }
    }
}

/// Seconds of buffer below which even the lowest quality is worth fetching: BOLA never waits there.
const NO_WAIT_BELOW: f64 = 10.0;
/// Seconds of buffer for each quality, at least.
const PER_QUALITY: f64 = 2.0;
/// What is left of the placeholder after each segment, lest it stay forever.
const DECAY: f64 = 0.99;

#[cfg(test)]
#[path = "bola_tests.rs"]
mod tests;
