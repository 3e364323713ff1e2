use quickset_base::{Duration, Time};

use super::{BurstDue, CodingView, LaneConfig, LaneView};

/// It says when messages with deadlines are repaired (FlEC, algorithm 4): as late as that still arrives in
/// time, so that it covers more.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    // ε: how long before the latest useful moment repair is sent.
    margin: Option<Duration>,
    short: ShortSymbols,
    // The deadline of the last message that was protected.
    protected: Option<Time>,
    bursts: BurstGaps,
}

/// How far apart bursts of repair are.
#[derive(Clone, Copy, Debug, Default)]
struct BurstGaps {
    // Bytes of source symbols in all when the last was decided on, and since the one before.
    bytes: u64,
    since: Option<u64>,
}

impl BurstGaps {
    /// One goes now.
    fn decided(&mut self, lane: &LaneView) {
        *self = Self { bytes: lane.source_bytes, since: Some(lane.source_bytes.saturating_sub(self.bytes)) };
    }

    /// Closer than `few` bytes; not so if none follows for long, on a path on which a resend comes in time.
    fn are_near(&self, lane: &LaneView, few: u64) -> bool {
        self.since.is_some_and(|since| since < few) && lane.source_bytes.saturating_sub(self.bytes) < 2 * few
    }
}

impl Placement {
    /// `margin` is ε, how long before the latest useful moment repair is sent; `None` measures it. Symbols
    /// are `short` then, where there is room for that.
    pub fn new(margin: Option<Duration>, short: ShortSymbols) -> Self {
        Self { margin, short, protected: None, bursts: BurstGaps::default() }
    }

    /// The next symbol of `lane` may be so long. The paper's placement, of a given margin, comes with whole
    /// packets.
    pub fn lane(&self, lane: LaneConfig, view: &CodingView<'_>) -> LaneConfig {
        let short = if is_tight(view) { ShortSymbols::TIGHT } else { self.short };
        let are_near = self.bursts.are_near(&view.lanes[usize::from(lane.index)], short.below);
        let share = if self.margin.is_none() && are_near { short.share } else { LaneConfig::WHOLE };
        LaneConfig { share, ..lane }
    }

    /// Says whether repair for the unprotected symbols of `lane` goes now.
    pub fn due(&mut self, view: &CodingView<'_>, lane: &LaneView) -> BurstDue {
        if lane.unprotected == 0 {
            return BurstDue::No;
        }
        let ahead = view.one_way() + self.margin(view);
        let later = self.protected.map_or(Time::ZERO, |deadline| deadline + Duration::from_nanos(1));
        let next = view.deadlines.next_after((view.now + view.one_way()).max(later));
        // Who does not announce the next message may never send one: infinitely late, and repair goes now.
        if let (Some(next), Some(message)) = (next, view.demand.next_message) {
            if message.max(view.now) + ahead < next {
                return BurstDue::At(next - ahead);
            }
        }
        // Repair takes no place of data, nor the last tenth of the window.
        let roomy = view.in_flight == 0 || u128::from(view.cwnd) * 10 > u128::from(view.in_flight) * 11;
        if !view.demand.limited || !roomy {
            return BurstDue::No;
        }
        // All that was sent is covered, the newest message too.
        self.protected = self.protected.max(view.deadlines.last()).max(next);
        self.bursts.decided(lane);
        BurstDue::Now
    }

    fn margin(&self, view: &CodingView<'_>) -> Duration {
        self.margin.unwrap_or_else(|| (4 * view.rtt_var).max(LEAST_MARGIN))
    }
}

/// ε at least, where it is measured; the paper has 25 ms always.
const LEAST_MARGIN: Duration = Duration::from_millis(5);

/// Headers take room that messages need: some came late for want of it, or packets wait in a queue.
fn is_tight(view: &CodingView<'_>) -> bool {
    view.crowded_out > 0.0 || view.rtt > view.min_rtt + QUEUED
}

/// Symbols that fill no packet. A repair symbol is as long as the longest symbol of the window, which mostly
/// is a message that just fits a packet. Of symbols half as long two cost what one did, and make up for two
/// losses; headers are what that costs, and where bursts of repair are farther apart they cost more than it
/// brings.
#[derive(Clone, Copy, Debug)]
pub struct ShortSymbols {
    // Where there are fewer bytes between two bursts.
    below: u64,
    // In eighths of a packet.
    share: u8,
}

impl ShortSymbols {
    /// Those of a policy that sends as much repair as they need.
    pub const ROOMY: Self = Self { below: 14_000, share: 5 };
    /// Those of others, and of all where there is little room.
    pub const TIGHT: Self = Self { below: 5000, share: 6 };
}

/// What round trips take longer than the shortest where packets wait for each other: ten of 1250 bytes at 10
/// Mbit/s, one at 1.
const QUEUED: Duration = Duration::from_millis(10);
