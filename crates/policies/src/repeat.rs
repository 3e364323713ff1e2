use quickset_quic::policy::{Carried, CodingView, LaneConfig, Pattern, ReliabilityPolicy};

/// Selective repeat: what is lost is sent again, and nothing is coded. What a connection does without
/// protection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SelectiveRepeat;

impl ReliabilityPolicy for SelectiveRepeat {
    fn protect(&mut self, _: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
        None
    }

    fn fec_pattern(&mut self, _: &CodingView<'_>) -> Pattern {
        Pattern::No
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }
}
