use quickset_base::Duration;

use quickset_quic::policy::{Boundaries, Carried, CodingView, LaneConfig, Pattern, ReliabilityPolicy};

/// Burst loss tolerance (TUM 2025, bulk): `b` repair symbols when the send buffer was flushed or the stream
/// has ended. New data cancels what is left of them, since it shows a loss as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct TumBulk {
    burst: u32,
    // Repair symbols still to be sent.
    owed: u32,
    boundaries: Boundaries,
}

impl TumBulk {
    pub(super) fn new(burst: u32) -> Self {
        Self { burst, owed: 0, boundaries: Boundaries::default() }
    }
}

impl ReliabilityPolicy for TumBulk {
    fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
        self.boundaries.observe(view.demand.boundaries, view.lanes[0].unprotected);
        (self.burst > 0).then_some(LaneConfig::RLC)
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        if self.boundaries.passed(view.demand.boundaries, lane.unprotected) {
            self.owed = self.burst;
        }
        // There is data to send, or all of it has arrived.
        if !view.demand.limited || lane.outstanding == 0 {
            self.owed = 0;
        }
        if self.owed == 0 {
            return Pattern::No;
        }
        self.owed -= 1;
        Pattern::Repair { lane: 0, n: 1 }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }
}

/// Burst loss and repair delay tolerance (TUM 2025, incremental): `b` repair symbols `d` after the first
/// unprotected symbol, however much was sent since.
#[derive(Clone, Copy, Debug)]
pub(super) struct TumIncremental {
    burst: u32,
    delay: Duration,
    // The source symbols that the last burst answered.
    answered: u64,
}

impl TumIncremental {
    pub(super) fn new(burst: u32, delay: Duration) -> Self {
        Self { burst, delay, answered: 0 }
    }

    /// A resend takes 9/8 RTT until the loss is declared and half of one to travel: repair later than that is
    /// none.
    fn is_late(&self, view: &CodingView<'_>) -> bool {
        8 * self.delay.as_nanos() >= 13 * view.rtt.as_nanos()
    }
}

impl ReliabilityPolicy for TumIncremental {
    fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
        (self.burst > 0 && !self.is_late(view)).then_some(LaneConfig::RLC)
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        let Some(first) = lane.first_unprotected else { return Pattern::No };
        if self.burst == 0 || self.is_late(view) || lane.outstanding == 0 || lane.sources == self.answered {
            return Pattern::No;
        }
        let due = first + self.delay;
        if view.now < due {
            return Pattern::WakeAt(due);
        }
        self.answered = lane.sources;
        Pattern::Repair { lane: 0, n: self.burst }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }
}
