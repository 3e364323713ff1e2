use std::ops::Range;
use std::time::Instant;

use quickset::ReceivedMessage;
use quickset_base::Duration;

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
    over_rtt: u64,
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
            over_rtt: 0,
            last: None,
        }
    }

    /// A message came out; its update was `due` at the sender.
    pub(crate) fn add(&mut self, header: &TileHeader, message: &ReceivedMessage, due: Instant) {
        if !self.measured.contains(&header.update) {
            return;
        }
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

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A message counts as blocked when fences hold it longer than this.
const BLOCKED_MS: f64 = 1.0;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn times_are_taken_as_defined() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut tally = ReceiverTally::new(1..3, Duration::from_millis(100));
        // Update, complete at, let go at.
        let messages =
            [(0, 5, 90), (1, 100, 100), (1, 101, 251), (2, 300, 450), (2, 301, 450), (3, 500, 500)];
        for (update, completed, released) in messages {
            let header = TileHeader { epoch: 0, update, x: 0, y: 0, w: 16, h: 16 };
            let message = ReceivedMessage {
                payload: Bytes::new(),
                segment: 0,
                completed: at(completed),
                released: at(released),
            };
            tally.add(&header, &message, at(u64::from(update) * 50));
        }
        let row = tally.row(DemoMode::Total);
        assert_eq!(row.messages, 4, "updates 1 and 2");
        assert_eq!(row.blocking.values(), [0.0, 149.0, 150.0, 150.0]);
        assert!((row.blocked_share - 0.75).abs() < 1e-12);
        assert_eq!(row.inter_delivery.values(), [0.0, 151.0, 199.0]);
        // 199 ms lie between two updates.
        assert_eq!(row.over_rtt, 1);
        assert!((row.delivery_ms.max - 350.0).abs() < 1e-9);
    }
}
