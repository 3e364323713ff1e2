use quickset_base::Time;

use quickset_quic::policy::{Carried, CodingView, LaneConfig, Pattern, ReliabilityPolicy};

/// AC-RLNC (Cohen et al.; FlEC's first example): a burst each round trip for the losses to be expected, and
/// more whenever the missing degrees of freedom outgrow the added ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Causal {
    // The c of ds = c·l: how much sooner than needed repair is sent for losses that are known.
    eagerness: f64,
    last: Option<Time>,
}

impl Causal {
    /// `eagerness` is at least 0.
    pub(super) fn new(eagerness: f64) -> Self {
        Self { eagerness, last: None }
    }
}

impl ReliabilityPolicy for Causal {
    fn protect(&mut self, _: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
        Some(LaneConfig::RLC)
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        if lane.unprotected == 0 {
            return Pattern::No;
        }
        // The first round trip begins with the first symbol.
        let Some(begin) = self.last.or(lane.first_unprotected) else { return Pattern::No };
        let due = begin + view.rtt;
        if view.now < due {
            self.last = Some(begin);
            return Pattern::WakeAt(due);
        }
        self.last = Some(view.now);
        Pattern::Repair { lane: 0, n: view.loss.burst(lane.unprotected) }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        self.eagerness * view.loss.rate
    }
}
