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
    fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<Lane> {
        Some(self.placement.lane(RLC, view))
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
    bursts: Bursts,
}

/// How far apart bursts of repair are.
#[derive(Clone, Copy, Debug, Default)]
struct Bursts {
    // Source symbols in all when the last was decided on.
    sources: u64,
    // There were few of them since the one before: symbols are short.
    near: bool,
}

impl Bursts {
    /// One goes now.
    fn decided(&mut self, lane: &LaneView) {
        let since = lane.sources.saturating_sub(self.sources);
        // What short symbols were would fill four fifths as many packets.
        let packets = if self.near { since * 4 / 5 } else { since };
        *self = Self { sources: lane.sources, near: packets < FEW };
    }

    /// Not so if none follows for long: a path on which a resend comes in time.
    fn are_near(&self, lane: &LaneView) -> bool {
        self.near && lane.sources.saturating_sub(self.sources) < 2 * FEW
    }
}

impl Placement {
    pub(super) fn new(margin: Option<Duration>) -> Self {
        Self { margin, protected: None, bursts: Bursts::default() }
    }

    /// `lane` for the next symbol. The paper's placement comes with whole packets.
    pub(super) fn lane(&self, lane: Lane, view: &CodingView<'_>) -> Lane {
        let short = self.margin.is_none() && self.bursts.are_near(&view.lanes[usize::from(lane.index)]);
        Lane { short, ..lane }
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
        self.bursts.decided(lane);
        Due::Now
    }

    fn margin(&self, view: &CodingView<'_>) -> Duration {
        self.margin.unwrap_or_else(|| (4 * view.rtt_var).max(LEAST_MARGIN))
    }
}

/// ε at least, where it is measured; the paper has 25 ms always.
const LEAST_MARGIN: Duration = Duration::from_millis(5);

/// Packets between two bursts below which short symbols are better. A repair symbol is as long as the longest symbol of the
/// window, which mostly is a message that just fits a packet: short ones save 300 bytes of 1300 each time, and cost 72 for
/// the headers of each packet more, of which there are a fifth as many. Above, more symbols ask for more repair.
const FEW: u64 = 6;
