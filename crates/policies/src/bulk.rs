use quickset_quic::policy::{BurstDue, Carried, CodingView, LaneConfig, Pattern, ReliabilityPolicy, Tail};

/// Bulk transfers (FlEC §5.1): losses in the middle are cheap, those of the last flight cost a round trip. So
/// the last flight alone is protected, and only that is wrapped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bulk {
    tail: Tail,
}

impl ReliabilityPolicy for Bulk {
    fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
        view.ends_soon().then_some(LaneConfig::RLC)
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        match self.tail.due(view, lane) {
            BurstDue::No => Pattern::No,
            BurstDue::At(time) => Pattern::WakeAt(time),
            BurstDue::Now => Pattern::Repair { lane: 0, n: view.loss.burst(lane.unprotected) },
        }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }

    fn quiet_for(&self, view: &CodingView<'_>) -> u64 {
        view.before_end()
    }
}
