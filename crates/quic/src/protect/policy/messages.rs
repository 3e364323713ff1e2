use quickset_base::{Duration, Time};

use super::bulk::Due;
use super::{Carried, CodingView, Lane, LaneView, Pattern, RLC, ReliabilityPolicy, burst};

/// Messages with deadlines (FlEC, algorithm 4): repair waits for the next message, if that still leaves it time to
/// arrive before a deadline, since later repair covers more; and is not sent at all when the acknowledgement comes
/// before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    placement: Placement,
}

impl Messages {
    /// `margin` is ε; `None` measures it.
    pub(super) fn new(margin: Option<Duration>) -> Self {
        Self { placement: Placement::new(margin) }
    }
}

impl ReliabilityPolicy for Messages {
    fn protect(&mut self, _: &CodingView<'_>, _: Carried) -> Option<Lane> {
        Some(RLC)
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        match self.placement.due(view, lane) {
            Due::No => Pattern::No,
            Due::At(time) => Pattern::WakeAt(time),
            Due::Now => Pattern::Repair { lane: 0, n: burst(&view.loss, lane.unprotected) },
        }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }
}

/// When messages are repaired.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    // ε: how long before the latest useful moment repair is sent.
    margin: Option<Duration>,
    // The deadline of the last message that was protected.
    protected: Option<Time>,
}

impl Placement {
    pub(super) fn new(margin: Option<Duration>) -> Self {
        Self { margin, protected: None }
    }

    /// Whether repair for the unprotected symbols of `lane` goes now.
    pub(super) fn due(&mut self, view: &CodingView<'_>, lane: &LaneView) -> Due {
        if lane.unprotected == 0 {
            return Due::No;
        }
        let ahead = view.one_way() + self.margin(view);
        let later = self.protected.map_or(Time::ZERO, |deadline| deadline + Duration::from_nanos(1));
        let next = view.deadlines.next_after((view.now + view.one_way()).max(later));
        // Who does not announce the next message may never send one: infinitely late, and repair goes now.
        if let (Some(next), Some(message)) = (next, view.demand.next_message) {
            if message.max(view.now) + ahead < next {
                return Due::At(next - ahead);
            }
        }
        // Repair takes no place of data, nor the last tenth of the window.
        let roomy = view.in_flight == 0 || u128::from(view.cwnd) * 10 > u128::from(view.in_flight) * 11;
        if !view.demand.limited || !roomy {
            return Due::No;
        }
        // All that was sent is covered, the newest message too.
        self.protected = self.protected.max(view.deadlines.last()).max(next);
        Due::Now
    }

    fn margin(&self, view: &CodingView<'_>) -> Duration {
        self.margin.unwrap_or_else(|| (4 * view.rtt_var).max(LEAST_MARGIN))
    }
}

/// ε at least, where it is measured; the paper has 25 ms always.
const LEAST_MARGIN: Duration = Duration::from_millis(5);
