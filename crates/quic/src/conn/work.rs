//! Work that packets pay for, where frames cost more than their bytes do.
//!
//! Most frames do not. But what comes of a fenced stream with holes has its place among them to be found, a
//! stream that its peer gives up was made a moment ago, and a packet has room for a hundred of either. So
//! each packet earns some steps, which are saved up for the losses and changes of mind of an honest peer. One
//! that takes more than it has earned is paced: packets that ask for more are dropped as if lost, before they
//! are acknowledged, and it has few new streams in place of those that it gave up. Every packet that comes
//! earns, and there is always a stream to be used, so that whoever is paced goes on.
//!
//! What bytes of a stream, or datagrams, mean to whoever is above the connection it says itself, when it has
//! looked at them ([`Connection::charge`]). By then they are acknowledged: it is what comes next in the same
//! way that waits.

use quickset_wire::StreamId;

use super::Connection;
use crate::work::WorkAllowance;

/// What came with more to do than its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Bytes of a stream.
    Stream(StreamId),
    /// Datagrams.
    Datagrams,
}

impl Connection {
    /// What came made so many steps of work for whoever is above the connection, each of a tenth of a
    /// microsecond: packets pay for it. Each earns 160; where more was taken than they have earned, packets
    /// with anything of such a stream, or with datagrams, are dropped as if lost, until others have paid
    /// ([`unpaid_packets`](crate::Stats::unpaid_packets)), and there are few new streams. What an honest peer
    /// would say in as few packets should be paid for by them.
    pub fn charge(&mut self, carrier: Carrier, steps: u64) {
        self.work.pay(steps);
        match carrier {
            Carrier::Stream(id) => self.traffic.streams.receiving(id).set_charged(),
            Carrier::Datagrams => self.traffic.datagrams.set_charged(),
        }
    }

    /// A packet came. Whether it may act: what it may ask for was earned, or it asks for nothing of that
    /// kind.
    #[inline]
    pub(crate) fn may_ask(&mut self, payload: &[u8]) -> bool {
        self.work.earn();
        let is_spent = self.work.is_spent();
        self.common.stats.paced += u64::from(self.traffic.streams.set_paced(is_spent) && is_spent);
        if is_spent && self.traffic.asks_for_work(payload) {
            self.common.stats.unpaid_packets += 1;
            return false;
        }
        true
    }

    /// Its frames are through.
    #[inline]
    pub(crate) fn pay_for_work(&mut self) {
        let steps = self.traffic.streams.take_steps();
        if steps > 0 {
            self.work.pay(steps);
        }
    }
}

/// What a connection begins with.
pub(super) fn pace() -> WorkAllowance {
    WorkAllowance::new(STEPS, SAVED).beginning(FIRST)
}

/// Steps, of a tenth of a microsecond, that a packet pays for: with all else that it costs, it comes to less
/// than 20 microseconds. A packet with twenty messages behind as many fences needs no more while something
/// before them is missing.
const STEPS: u64 = 160;

/// Steps that are saved at most: 26 milliseconds of work, that more than a thousand packets have paid for.
const SAVED: u64 = 1 << 18;

/// Steps that there are at first: for a hundred requests that a client gives up as soon as they were made.
const FIRST: u64 = 1 << 13;
