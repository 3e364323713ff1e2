use std::ops::Range;
use std::time::Instant;

use quickset::ReceivedMessage;
use quickset_base::Duration;

use super::whole::DrawnMessage;
use super::{DemoMode, DemoRow};
use crate::screen::TileHeader;
use crate::stats::{Percentiles, Samples};

/// What a receiver has measured so far.
#[derive(Clone, Debug)]
pub(crate) struct ReceiverTally {
    measured: Range<u32>,
    rtt: Duration,
    blocking: Samples,
    inter_delivery: Samples,
    delivery: Samples,
    whole: Samples,
    overtaken: u64,
    over_rtt: u64,
    /// When each update was due at the sender.
    due: Vec<Instant>,
    /// When the last message was let go, and of which update it was.
    last: Option<(Instant, u32)>,
}

/// How a mode does so far.
#[derive(Clone, Debug)]
pub struct Glimpse {
    /// The mode.
    pub mode: DemoMode,
    /// Messages measured.
    pub messages: usize,
    /// The share of them that fences held for more than a millisecond.
    pub blocked_share: f64,
    /// Their blocking times, in milliseconds.
    pub blocking_ms: Percentiles,
    /// How long their updates took to be whole on the screen, in milliseconds.
    pub whole_update_ms: Percentiles,
    /// Inter-delivery times within one update above the round-trip time.
    pub over_rtt: u64,
}

impl ReceiverTally {
    pub(crate) fn new(measured: Range<u32>, rtt: Duration) -> Self {
        Self {
            measured,
            rtt,
            blocking: Samples::default(),
            inter_delivery: Samples::default(),
            delivery: Samples::default(),
            whole: Samples::default(),
            overtaken: 0,
            over_rtt: 0,
            due: Vec::new(),
            last: None,
        }
    }

    /// The next update is due at the sender.
    pub(crate) fn expect(&mut self, due: Instant) {
        self.due.push(due);
    }

    /// A message came out, and was drawn.
    pub(crate) fn add(&mut self, header: &TileHeader, message: &ReceivedMessage, drawn: &DrawnMessage) {
        // What is not measured any more may be what makes an update whole that is.
        for update in drawn.whole.iter().filter(|update| self.measured.contains(&update.number)) {
            self.whole.add(milliseconds(update.took));
            self.overtaken += u64::from(update.overtaken);
        }
        let due = self.due.get(header.update as usize).copied();
        let Some(due) = due.filter(|_| self.measured.contains(&header.update)) else { return };
        self.blocking.add(milliseconds(message.blocked()));
        self.delivery.add(milliseconds(message.released.saturating_duration_since(due)));
        if let Some((last, update)) = self.last {
            let gap = message.released.saturating_duration_since(last);
            self.inter_delivery.add(milliseconds(gap));
            self.over_rtt += u64::from(update == header.update && gap > self.rtt);
        }
        self.last = Some((message.released, header.update));
    }

    pub(crate) fn glimpse(&self, mode: DemoMode) -> Glimpse {
        Glimpse {
            mode,
            messages: self.blocking.len(),
            blocked_share: self.blocking.share_above(BLOCKED_MS),
            blocking_ms: self.blocking.percentiles(),
            whole_update_ms: self.whole.percentiles(),
            over_rtt: self.over_rtt,
        }
    }

    /// The measures as a row; what others know is left at nothing.
    pub(crate) fn row(&self, mode: DemoMode) -> DemoRow {
        let (blocking, inter_delivery) = (self.blocking.sorted(), self.inter_delivery.sorted());
        DemoRow {
            mode,
            updates_per_s: 0,
            messages: self.blocking.len() as u64,
            abandoned: 0,
            blocked_share: self.blocking.share_above(BLOCKED_MS),
            blocking_ms: blocking.percentiles(),
            inter_delivery_ms: inter_delivery.percentiles(),
            over_rtt: self.over_rtt,
            delivery_ms: self.delivery.percentiles(),
            updates: self.whole.len() as u64,
            overtaken: self.overtaken,
            whole_update_ms: self.whole.percentiles(),
            sent_bytes: 0,
            repair_bytes: 0,
            recovered: 0,
            lost: 0,
            overflowed: 0,
            picture_equal: false,
            blocking,
            inter_delivery,
        }
    }
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A message counts as blocked when fences hold it longer than this.
pub(crate) const BLOCKED_MS: f64 = 1.0;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::demo::whole::WholeUpdate;

    #[test]
    fn times_are_taken_as_defined() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut tally = ReceiverTally::new(1..3, Duration::from_millis(100));
        (0..4).for_each(|update| tally.expect(at(update * 50)));
        let whole = |number: u32, ms, overtaken| {
            let took = Duration::from_millis(ms);
            DrawnMessage { is_seen: true, whole: vec![WholeUpdate { number, took, overtaken }] }
        };
        let part = || DrawnMessage { is_seen: true, whole: Vec::new() };
        // Update, complete at, let go at, what it did.
        let messages = [
            (0, 5, 90, whole(0, 90, false)),
            (1, 100, 100, part()),
            (1, 101, 251, part()),
            (2, 300, 450, part()),
            (2, 301, 450, whole(2, 350, false)),
            // Update 3 is not measured, and covers what was missing of update 1.
            (3, 500, 500, whole(1, 450, true)),
            (3, 500, 500, whole(3, 350, false)),
        ];
        for (update, completed, released, drawn) in messages {
            let header = TileHeader { epoch: 0, update, x: 0, y: 0, w: 16, h: 16 };
            let message = ReceivedMessage {
                payload: Bytes::new(),
                segment: 0,
                completed: at(completed),
                released: at(released),
            };
            tally.add(&header, &message, &drawn);
        }
        let row = tally.row(DemoMode::Total);
        assert_eq!((row.updates, row.overtaken), (2, 1), "updates 1 and 2");
        let whole = row.whole_update_ms;
        assert_eq!((whole.p50, whole.p99, whole.mean), (350.0, 450.0, 400.0));
        assert_eq!(row.messages, 4, "updates 1 and 2");
        assert_eq!(row.blocking.values(), [0.0, 149.0, 150.0, 150.0]);
        assert!((row.blocked_share - 0.75).abs() < 1e-12);
        assert_eq!(row.inter_delivery.values(), [0.0, 151.0, 199.0]);
        // 199 ms lie between two updates.
        assert_eq!(row.over_rtt, 1);
        assert!((row.delivery_ms.max - 350.0).abs() < 1e-9);
    }
}
