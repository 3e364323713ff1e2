use super::{Carried, CodingView, Lane, LaneView, Pattern, RLC, ReliabilityPolicy, burst};

/// Transfers that the receive window holds back (FlEC, algorithm 2): repair goes where flow control lets no data
/// go, so that one loss does not close the window for a round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferLimited {
    // The c of ds = c·l.
    eagerness: f64,
    held: Held,
}

impl BufferLimited {
    /// `eagerness` is at least 0.
    pub(super) fn new(eagerness: f64) -> Self {
        Self { eagerness, held: Held::default() }
    }
}

impl ReliabilityPolicy for BufferLimited {
    fn protect(&mut self, _: &CodingView<'_>, _: Carried) -> Option<Lane> {
        Some(RLC)
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        let room = room(view, lane);
        // As many symbols as lie between two losses, or the window when that is less.
        let gap = view.loss.to_bad.recip().min(lane.window as f64);
        let due = self.held.goes_on(view, lane) || (lane.unprotected > 0 && lane.unprotected as f64 >= gap);
        if room == 0 || !due {
            return Pattern::No;
        }
        Pattern::Repair { lane: 0, n: burst(&view.loss, lane.unprotected).min(room) }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        self.eagerness * view.loss.rate
    }
}

/// A burst that goes on while flow control holds data back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    burst: bool,
}

impl Held {
    /// It begins with the first unprotected symbol, and ends with the blockade or when everything has arrived.
    pub(super) fn goes_on(&mut self, view: &CodingView<'_>, lane: &LaneView) -> bool {
        self.burst = view.demand.blocked && lane.outstanding > 0 && (self.burst || lane.unprotected > 0);
        self.burst
    }
}

/// How many repair symbols may join those in flight: twice the losses to be expected among the symbols that are
/// coded over, 2·ceil(W·l) in all.
pub(super) fn room(view: &CodingView<'_>, lane: &LaneView) -> u32 {
    let coded = lane.open.min(lane.window) as f64;
    // The cast saturates.
    let limit = 2 * (coded * view.loss.rate).ceil() as u64;
    u32::try_from(limit.saturating_sub(lane.repairs_in_flight)).unwrap_or(u32::MAX)
}
