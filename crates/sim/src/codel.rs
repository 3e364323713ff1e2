use core::time::Duration;
use std::collections::VecDeque;

use quickset_base::number::{Float as _, Unsigned as _};
use quickset_base::{Ecn, Time};

use crate::loss::PacketDecision;

/// A packet that waits in a queue which decides at its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedPacket {
    pub(crate) ordinal: u64,
    pub(crate) since: Time,
    pub(crate) size: u64,
    pub(crate) ecn: Ecn,
    pub(crate) marked: bool,
    // If the loss model has taken it already, it goes on using the queue and the rate.
    pub(crate) chance: PacketDecision,
}

impl QueuedPacket {
    /// Marks it as having met congestion, if it can be marked; what has met some before stays as it is.
    pub(crate) fn mark(&mut self) -> bool {
        self.marked |= matches!(self.ecn, Ecn::Ect0 | Ecn::Ect1);
        if self.ecn != Ecn::NotEct {
            self.ecn = Ecn::Ce;
        }
        self.ecn == Ecn::Ce
    }
}

/// The packets that wait, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodelQueue {
    packets: VecDeque<QueuedPacket>,
    bytes: u64,
    largest: u64,
}

impl CodelQueue {
    pub(crate) fn push(&mut self, packet: QueuedPacket) {
        self.bytes += packet.size;
        self.largest = self.largest.max(packet.size);
        self.packets.push_back(packet);
    }

    pub(crate) fn pop(&mut self) -> Option<QueuedPacket> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.size;
        Some(packet)
    }

    pub(crate) fn first(&self) -> Option<&QueuedPacket> {
        self.packets.front()
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What CoDel aims at (RFC 8289). A queue that holds no more than the largest packet so far does not stand,
/// however long that waits. A packet that is marked in place of being dropped goes on: with it the turn is
/// over, and none behind it is looked at.
///
/// As text `codel:5ms,100ms,9MB`, and `codel-ecn:…` for marking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDel {
    /// The waiting time that may stand.
    pub target: Duration,
    /// For how long it may be exceeded before packets are dropped.
    pub interval: Duration,
    /// The most bytes that may wait; beyond, arriving packets are dropped.
    pub limit: u64,
    /// True when packets that can be marked (ECT) are marked CE in place of being dropped.
    pub ecn: bool,
}

/// The state of CoDel between two packets: the variables of RFC 8289 §5.3.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodelControl {
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl CodelControl {
    /// Takes the next packet that is to be sent from the head of the line, at `now`; what is dropped on
    /// the way goes to `dropped`.
    pub(crate) fn take(
        &mut self,
        codel: &CoDel,
        line: &mut CodelQueue,
        now: Time,
        mut dropped: impl FnMut(QueuedPacket),
    ) -> Option<QueuedPacket> {
        let (mut head, mut ok) = self.head(codel, line, now);
        if self.dropping {
            self.dropping = ok;
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                let mut packet = head.expect("only a packet can have waited too long");
                if codel.ecn && packet.mark() {
                    self.drop_next = codel.control_law(self.drop_next, self.count);
                    return Some(packet);
                }
                dropped(packet);
                (head, ok) = self.head(codel, line, now);
                if ok {
                    self.drop_next = codel.control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            let mut packet = head.expect("only a packet can have waited too long");
            if codel.ecn && packet.mark() {
                head = Some(packet);
            } else {
                dropped(packet);
                head = self.head(codel, line, now).0;
            }
            self.dropping = true;
            // RFC 8289 §5.5: a queue that was controlled a short while ago goes on with the rate of drops
            // which it ended with.
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now.since(self.drop_next) < codel.interval.saturating_mul(16);
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = codel.control_law(now, self.count);
            self.last_count = self.count;
        }
        head
    }

    /// The next packet, and whether it has been waiting too long for a whole interval.
    fn head(&mut self, codel: &CoDel, line: &mut CodelQueue, now: Time) -> (Option<QueuedPacket>, bool) {
        let packet = line.pop();
        // RFC 8289 §5.4: with no more than a full packet behind it, the queue does not stand.
        let above = packet
            .is_some_and(|packet| now.since(packet.since) >= codel.target && line.bytes() > line.largest);
        if !above {
            self.first_above = None;
            return (packet, false);
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + codel.interval);
                (packet, false)
            }
            Some(first_above) => (packet, now >= first_above),
        }
    }
}

impl CoDel {
    /// RFC 8289 §5.6: drops come closer together with the square root of their number.
    fn control_law(&self, from: Time, count: u32) -> Time {
        // A square root is exact to the last bit on every machine (IEEE 754), unlike other functions.
        let gap = self.interval.as_nanos().approx() / f64::from(count).sqrt();
        from + Duration::from_nanos(gap.whole::<u64>())
    }
}
