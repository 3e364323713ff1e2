use quickset_base::number::Unsigned as _;
use quickset_quic::policy::{Carried, CodingView, LaneConfig, LaneView, Pattern, ReliabilityPolicy};

/// Transfers that the receive window holds back (FlEC, algorithm 2): repair goes where flow control lets no
/// data go, so that one loss does not close the window for a round trip; and, as in the authors' program,
/// where there is no more data at all.
///
/// Where this departs from the paper: as long as flow control holds nothing back, only the last flight is
/// wrapped and repaired. Losses before it cost nothing there but their own bytes, which a resend has fewer of
/// than repair.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferLimited {
    // The c of ds = c·l.
    eagerness: f64,
    // The source symbols sent when flow control last held data back.
    blocked: Option<u64>,
    // A burst goes on while there is nothing to send.
    filling: bool,
}

impl BufferLimited {
    /// `eagerness` is at least 0.
    pub(super) fn new(eagerness: f64) -> Self {
        Self { eagerness, blocked: None, filling: false }
    }

    /// Whether flow control held data back since a loss or two: a window of less than two round trips' worth
    /// is full after each, not always.
    fn is_limited(&mut self, view: &CodingView<'_>) -> bool {
        let lane = &view.lanes[0];
        if view.demand.blocked {
            self.blocked = Some(lane.sources);
        }
        let since = self.blocked.map(|then| lane.sources.saturating_sub(then));
        since.is_some_and(|since| since.approx() <= LOSSES * gap(view, lane))
    }
}

impl ReliabilityPolicy for BufferLimited {
    fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
        (self.is_limited(view) || view.ends_soon()).then_some(LaneConfig::RLC)
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        let is_limited = self.is_limited(view);
        let over = view.demand.unsent == 0 && (view.confirmed || lane.sources > 1);
        let idle = view.demand.blocked || over;
        self.filling = idle && lane.outstanding > 0 && (self.filling || lane.unprotected > 0);
        let is_full = lane.unprotected > 0 && lane.unprotected.approx() >= gap(view, lane);
        let room = lane.room(&view.loss);
        if room == 0 || !(self.filling || (is_limited && is_full)) {
            return Pattern::No;
        }
        Pattern::Repair { lane: 0, n: view.loss.burst(lane.unprotected).min(room) }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        self.eagerness * view.loss.rate
    }
}

/// As many symbols as lie between two losses, or the window when that is less.
fn gap(view: &CodingView<'_>, lane: &LaneView) -> f64 {
    view.loss.to_bad.recip().min(lane.window.approx())
}

/// Gaps between losses for which a transfer that was held back is taken for one that will be.
const LOSSES: f64 = 2.0;
