//! What the peer's packets pay for here, beside what QUIC counts itself
//! ([`charge`](quickset_quic::Connection::charge)).
//!
//! A packet of QUIC has room for hundreds of what is small and makes work: instructions for the table,
//! changes of priority, datagrams of nothing, streams for nobody. Each has a price in steps of a tenth of a
//! microsecond, which is what it costs by `cargo bench -p quickset-h3 --bench frames`; each packet earns 160,
//! which are saved up to 26 ms. So nobody pays anything who says such things among others; who says nothing
//! else has half of its packets dropped as if lost, and what its packets cost in the long run is what they
//! earn.
//!
//! **What is answered costs nothing.** A request is the work that a server is there for, and what it is worth
//! only the application knows, with whom it is to agree on a rate (429, RFC 6585 §4) or a number at a time.
//! What it takes here is 2 to 3 us for a request that comes in 14 bytes, or 160 us for a packet of them. They
//! are bounded otherwise: a stream's place is another's only when its answer has arrived, so the client has
//! to take what it asked for, by packets of its own, and a hundred are under way at a time. To charge such
//! requests and to give the price back with the answer would change nothing in the end, and to keep it would
//! slow down who asks a hundred thousand times a second over a few connections for what lies in memory, from
//! an attacker in nothing different. The same holds for streams of a session whose bytes are taken, at 1.3 us
//! each. Requests that are given up are charged by QUIC, as streams (5 us), and here for the classes that
//! they named.

use quickset_quic::{Carrier, StreamId};

use super::Connection;
use crate::Transport;

/// A PRIORITY_UPDATE.
const UPDATE: u64 = 3;

/// Each class that one names: it is looked for, or made.
const CLASS: u64 = 10;

/// A datagram: an event, and who hears it.
pub(super) const DATAGRAM: u64 = 2;

/// The same as a capsule.
pub(super) const CAPSULE: u64 = 1;

/// A stream that is made, and given up by us.
pub(super) const REFUSED: u64 = 10;

/// The same behind a head that was read.
pub(super) const UNANSWERED: u64 = 30;

/// The steps for a change of priority that names so many classes.
pub(super) fn of_update(classes: usize) -> u64 {
    UPDATE + CLASS * classes as u64
}

impl Connection {
    /// What instructions took that came on this stream.
    pub(super) fn charge_instructions(&mut self, t: &mut dyn Transport, id: StreamId) {
        let steps = self.decoder.take_steps();
        if steps > 0 {
            t.charge(Carrier::Stream(id), steps);
        }
    }

    /// A request is given up by its client: QUIC charges for its stream, and not for what it said of classes.
    pub(super) fn charge_classes(&mut self, t: &mut dyn Transport, id: StreamId) {
        let classes = self.exchanges.get(&id).map_or(0, |exchange| exchange.classes());
        if classes > 0 {
            t.charge(Carrier::Stream(id), CLASS * classes as u64);
        }
    }
}
