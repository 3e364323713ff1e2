use super::{Carried, CodingView, LaneConfig, LaneView, Pattern, RLC, ReliabilityPolicy, burst};

/// Bulk transfers (FlEC §5.1): losses in the middle are cheap, those of the last flight cost a round trip. So
/// the last flight alone is protected, and only that is wrapped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bulk {
    tail: Tail,
}

impl ReliabilityPolicy for Bulk {
    fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
        ends_soon(view).then_some(RLC)
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        match self.tail.due(view, lane) {
            BurstDue::No => Pattern::No,
            BurstDue::At(time) => Pattern::WakeAt(time),
            BurstDue::Now => Pattern::Repair { lane: 0, n: burst(&view.loss, lane.unprotected) },
        }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }

    fn quiet_for(&self, view: &CodingView<'_>) -> u64 {
        before_end(view)
    }
}

/// The last flight of a transfer: where it begins, and when it has been sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tail {
    // The source symbols that the last burst answered.
    answered: u64,
}

/// Whether a burst is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BurstDue {
    No,
    At(quickset_base::Time),
    Now,
}

impl Tail {
    /// Everything was sent, and an eighth of a round trip went by without another symbol. Says `Now` once for
    /// what was sent.
    pub(super) fn due(&mut self, view: &CodingView<'_>, lane: &LaneView) -> BurstDue {
        if view.demand.unsent > 0 || lane.unprotected == 0 || lane.sources == self.answered {
            return BurstDue::No;
        }
        // A client's request mostly shares a datagram with its Finished, without which the server opens
        // nothing: where one is lost the other is, and the probe brings both (RFC 9002 §6.2.4). Else the end
        // of the handshake comes with the acknowledgement of the request, or without it.
        if !view.confirmed && lane.sources <= 1 {
            return BurstDue::No;
        }
        let Some(last) = lane.last_source else { return BurstDue::No };
        let quiet = last + view.rtt / 8;
        if view.now < quiet {
            return BurstDue::At(quiet);
        }
        self.answered = lane.sources;
        BurstDue::Now
    }
}

/// Packets that may leave, however long they are, before what is sent is of the last flight.
pub(super) fn before_end(view: &CodingView<'_>) -> u64 {
    if view.demand.open { u64::MAX } else { before_last_flight(view) }
}

/// What is sent now is of the last flight, or will be when the window has opened a little more.
pub(super) fn ends_soon(view: &CodingView<'_>) -> bool {
    !view.demand.open && is_last_flight(view)
}

/// [`before_end`], should nothing more come than there is.
pub(super) fn before_last_flight(view: &CodingView<'_>) -> u64 {
    view.demand.unsent.saturating_sub(flight(view)) / LONGEST
}

/// [`ends_soon`], should nothing more come than there is.
pub(super) fn is_last_flight(view: &CodingView<'_>) -> bool {
    view.demand.unsent <= flight(view)
}

fn flight(view: &CodingView<'_>) -> u64 {
    view.cwnd.saturating_add(view.cwnd / 4)
}

/// Bytes of a packet at most.
const LONGEST: u64 = 65_507;
