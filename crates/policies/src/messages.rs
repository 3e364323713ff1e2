use quickset_base::Duration;

use quickset_quic::policy::{
    BurstDue, Carried, CodingView, LaneConfig, Pattern, Placement, ReliabilityPolicy, ShortSymbols,
};

/// Messages with deadlines (FlEC, algorithm 4): repair waits for the next message, if that still leaves it
/// time to arrive before a deadline, since later repair covers more; and is not sent at all when the
/// acknowledgement comes before.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessagePolicy {
    placement: Placement,
}

impl MessagePolicy {
    /// `margin` is ε; `None` measures it.
    pub(super) fn new(margin: Option<Duration>) -> Self {
        // Its repair is as many symbols as a burst of losses is long: where they are shorter, they make up
        // for less.
        Self { placement: Placement::new(margin, ShortSymbols::TIGHT) }
    }
}

impl ReliabilityPolicy for MessagePolicy {
    fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
        Some(self.placement.lane(LaneConfig::RLC, view))
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        match self.placement.due(view, lane) {
            BurstDue::No => Pattern::No,
            BurstDue::At(time) => Pattern::WakeAt(time),
            BurstDue::Now => Pattern::Repair { lane: 0, n: view.loss.burst(lane.unprotected) },
        }
    }

    /// Where a loss is known, one repair more at once if that comes in time and what is sent when the repair
    /// in flight has failed would not: whoever sent nothing but resends would have sent one now. The paper
    /// has -l throughout, and delivers fewer in time than plain QUIC where the deadline leaves just room for
    /// a resend.
    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        if is_last_chance(view) { view.loss.rate } else { -view.loss.rate }
    }
}

/// Something is due that can still come in time, and could not if it left when it is known what the repair in
/// flight did.
fn is_last_chance(view: &CodingView<'_>) -> bool {
    let known = view.now + view.rtt + view.rtt / 8 + view.ack_delay;
    let due = view.deadlines.next_after(view.now + view.one_way());
    due.is_some_and(|due| due < known + view.one_way())
}
