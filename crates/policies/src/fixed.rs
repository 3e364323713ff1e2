use quickset_quic::policy::{Carried, CodingView, LaneConfig, LaneProgress, Pattern, ReliabilityPolicy};

/// A repair symbol over the window after each `interval` source symbols, whatever the path does.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedRate {
    interval: u32,
    progress: LaneProgress,
    // Source symbols that were answered with repair.
    answered: u64,
}

impl FixedRate {
    /// `interval` is at least 1.
    pub(super) fn new(interval: u32) -> Self {
        Self { interval: interval.max(1), progress: LaneProgress::default(), answered: 0 }
    }
}

impl ReliabilityPolicy for FixedRate {
    fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
        self.progress.update(view.lanes[0].sources);
        Some(LaneConfig::RLC)
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        let sources = self.progress.update(lane.sources);
        let due = (sources - self.answered) / u64::from(self.interval);
        if due == 0 {
            return Pattern::No;
        }
        self.answered += due * u64::from(self.interval);
        // All of the window arrived: there is nothing to cover.
        if lane.open == 0 {
            return Pattern::No;
        }
        Pattern::Repair { lane: 0, n: u32::try_from(due).unwrap_or(u32::MAX) }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }

    fn quiet_for(&self, _: &CodingView<'_>) -> u64 {
        (self.answered + u64::from(self.interval)).saturating_sub(self.progress.total())
    }
}
