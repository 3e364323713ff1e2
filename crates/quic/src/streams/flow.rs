use quickset_base::{Duration, Time};
use quickset_wire::varint;

/// A receive window: how far the peer may send, and when to let it go further (RFC 9000 §4.1, §4.2).
///
/// New credit is due when an eighth of the window was consumed: a sender whose window is smaller than a round
/// trip's worth gets on by what we return, and one that paces by what it measures settles at a window every
/// two round trips when half of it comes at a time (1 MB into 70 kB at 400 ms: 12.2 s instead of 7.6 s). When
/// half of the window took less than two round trips, the peer may well be waiting for us, and the window
/// doubles: a window of twice the data that the application takes per round trip never stalls a sender.
#[derive(Clone, Debug)]
pub(super) struct ReceiveWindow {
    size: u64,
    max_size: u64,
    /// So much is always to be allowed: who sends may wait until it is (FS-18).
    least: u64,
    consumed: u64,
    advertised: u64,
    /// When the half of the window began that is being consumed, and what was consumed then.
    since: Option<Time>,
    consumed_then: u64,
}

impl ReceiveWindow {
    /// A window of `size` bytes that may grow to `max_size`; the peer knows of the first `size`.
    pub(super) fn new(size: u64, max_size: u64) -> Self {
        let size = size.min(varint::MAX);
        Self {
            size,
            max_size: max_size.max(size),
            least: 0,
            consumed: 0,
            advertised: size,
            since: None,
            consumed_then: 0,
        }
    }

    /// The same, in which `least` bytes in one piece always fit, if the window is as large.
    pub(super) fn holding(self, least: u64) -> Self {
        Self { least, ..self }
    }

    /// It has `size` bytes from now on. What the peer was allowed it may still send. True when it may send
    /// more than it knows.
    pub(super) fn set_size(&mut self, size: u64) -> bool {
        self.size = size.min(varint::MAX);
        self.max_size = self.size;
        self.target() > self.advertised
    }

    /// The offset up to which the peer may send.
    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.advertised
    }

    #[inline]
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Starts the clock of the first window.
    #[inline]
    pub(super) fn arrived(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// The application took `n` more bytes, or they were dropped.
    #[inline]
    pub(super) fn consume(&mut self, n: u64) {
        self.consumed += n;
    }

    /// True when new credit is worth a frame.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let left = self.advertised.saturating_sub(self.consumed);
        (left <= self.size - self.size / 8 || left < self.least) && self.target() > self.advertised
    }

    /// Moves the limit on and returns it.
    pub(super) fn advance(&mut self, now: Time, srtt: Duration) -> u64 {
        if self.is_due() {
            self.tune(now, srtt);
        }
        self.grant(self.target());
        self.advertised
    }

    /// The credit is about to be raised: doubles the window if half of it was consumed in less than two round
    /// trips.
    pub(super) fn tune(&mut self, now: Time, srtt: Duration) {
        if self.consumed - self.consumed_then < self.size / 2 {
            return;
        }
        if self.since.is_some_and(|since| now.since(since) < srtt * 2) {
            self.size = self.size.saturating_mul(2).min(self.max_size);
        }
        self.since = Some(now);
        self.consumed_then = self.consumed;
    }

    /// Lets the peer send up to `limit`; a limit never falls.
    pub(super) fn grant(&mut self, limit: u64) {
        self.advertised = self.advertised.max(limit);
    }

    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    fn target(&self) -> u64 {
        self.consumed.saturating_add(self.size).min(varint::MAX)
    }
}

/// What the peer allows us to send, and whether it was told that this is not enough.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendCredit {
    limit: u64,
    /// The limit that was last reported by a BLOCKED frame, plus one; 0: none.
    reported: u64,
}

impl SendCredit {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, reported: 0 }
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// True when `limit` is news. RFC 9000 §4.1: a limit never falls; smaller ones are old frames.
    #[inline]
    pub(super) fn raise(&mut self, limit: u64) -> bool {
        let news = limit > self.limit;
        self.limit = self.limit.max(limit);
        news
    }

    /// True when the peer does not know yet that this limit holds us up.
    #[inline]
    pub(super) fn is_unreported(&self) -> bool {
        self.reported != self.limit + 1
    }

    pub(super) fn report(&mut self) {
        self.reported = self.limit + 1;
    }

    /// A report of `limit` was lost. True when it is to be repeated.
    pub(super) fn report_lost(&mut self, limit: u64) -> bool {
        let current = self.reported == limit + 1 && limit == self.limit;
        if current {
            self.reported = 0;
        }
        current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn an_eighth_of_a_window_makes_credit_due() {
        let mut window = ReceiveWindow::new(1000, 1000);
        window.consume(124);
        assert!(!window.is_due());
        window.consume(1);
        assert!(window.is_due());
        assert_eq!(window.advance(Time::from_millis(900), RTT), 1125);
        assert!(!window.is_due());
    }

    #[test]
    fn a_fast_reader_doubles_the_window_and_a_slow_one_does_not() {
        let mut window = ReceiveWindow::new(1000, 3000);
        window.arrived(Time::ZERO);
        window.consume(500);
        // 199 ms is less than two round trips of 100 ms: 500 + 2·1000.
        assert_eq!(window.advance(Time::from_millis(199), RTT), 2500);
        window.consume(1000);
        // Half of it in 200 ms: not less than two round trips, the window stays at 2000.
        assert_eq!(window.advance(Time::from_millis(399), RTT), 3500);
        window.consume(1000);
        // Fast again, but 4000 is above the most allowed.
        assert_eq!(window.advance(Time::from_millis(400), RTT), 2500 + 3000);
    }

    #[test]
    fn limits_end_where_varints_end() {
        let mut window = ReceiveWindow::new(u64::MAX, u64::MAX);
        assert_eq!(window.limit(), (1 << 62) - 1);
        window.consume(1 << 61);
        assert!(!window.is_due(), "no credit beyond 2^62 - 1");
    }
}
