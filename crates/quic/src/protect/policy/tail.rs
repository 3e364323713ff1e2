use quickset_base::Time;

use super::{CodingView, LaneView};

/// It knows when the last flight of a transfer has been sent; [`CodingView::ends_soon`] says where that
/// begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tail {
    // The source symbols that the last burst answered.
    answered: u64,
}

/// It says whether a burst of repair is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstDue {
    /// Not before something else happens.
    No,
    /// Not before this time.
    At(Time),
    /// It is.
    Now,
}

impl Tail {
    /// A burst is due when everything was sent, and an eighth of a round trip went by without another
    /// symbol. Says `Now` once for what was sent.
    pub fn due(&mut self, view: &CodingView<'_>, lane: &LaneView) -> BurstDue {
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

impl CodingView<'_> {
    /// Says how many packets may leave, however long they are, before what is sent is of the last flight.
    pub fn before_end(&self) -> u64 {
        if self.demand.open { u64::MAX } else { self.before_last_flight() }
    }

    /// Says that what is sent now is of the last flight, or will be when the window has opened a little more.
    pub fn ends_soon(&self) -> bool {
        !self.demand.open && self.is_last_flight()
    }

    /// [`before_end`](Self::before_end), should nothing more come than there is.
    pub(super) fn before_last_flight(&self) -> u64 {
        self.demand.unsent.saturating_sub(self.flight()) / LONGEST
    }

    /// [`ends_soon`](Self::ends_soon), should nothing more come than there is.
    pub(super) fn is_last_flight(&self) -> bool {
        self.demand.unsent <= self.flight()
    }

    fn flight(&self) -> u64 {
        self.cwnd.saturating_add(self.cwnd / 4)
    }
}

/// Bytes of a packet at most.
const LONGEST: u64 = 65_507;
