use quickset_base::{Duration, Time};

use super::{Feedback, Packet, PacketState, Sent};

/// Delivery rate samples (draft-ietf-ccwg-bbr §4.1): how fast the network delivered between the time a
/// packet left and the time it was acknowledged.
#[derive(Debug)]
pub(crate) struct Sampler {
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    lost: u64,
    // Until so much is delivered, samples tell of the application rather than of the network.
    limited_until: Option<u64>,
}

/// What the acknowledgements of a batch tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Bytes per second; 0 when no time passed.
    pub(crate) rate: u64,
    /// Bytes delivered in the interval of the sample.
    pub(crate) delivered: u64,
    /// Bytes delivered in all when the newest acknowledged packet left.
    pub(crate) prior_delivered: u64,
    /// Bytes in flight when it left.
    pub(crate) in_flight: u64,
    /// Bytes lost since then.
    pub(crate) lost: u64,
    /// Whether the application held the rate down.
    pub(crate) app_limited: bool,
    /// Bytes acknowledged by this batch.
    pub(crate) acked: u64,
    /// How long ago the newest acknowledged packet left.
    pub(crate) rtt: Duration,
}

impl Sampler {
    pub(crate) fn new(now: Time) -> Self {
        Self { delivered: 0, delivered_at: now, first_sent: now, lost: 0, limited_until: None }
    }

    /// Bytes delivered in all.
    #[inline]
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes lost in all.
    #[inline]
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// A packet leaves.
    #[inline]
    pub(crate) fn on_sent(&mut self, sent: &Sent) -> PacketState {
        if sent.in_flight <= sent.bytes {
            // Nothing was in flight: the interval of a sample begins here.
            self.first_sent = sent.now;
            self.delivered_at = sent.now;
        }
        PacketState {
            delivered: self.delivered,
            delivered_time: self.delivered_at,
            first_sent: self.first_sent,
            in_flight: sent.in_flight,
            lost: self.lost,
            app_limited: self.limited_until.is_some(),
        }
    }

    /// The application has nothing more to send, with so many bytes in flight.
    pub(crate) fn limit(&mut self, in_flight: u64) {
        self.limited_until = Some((self.delivered + in_flight).max(1));
    }

    /// Packets arrived; returns their bytes.
    pub(crate) fn on_acked(&mut self, f: &Feedback<'_>) -> u64 {
        if f.acked.is_empty() {
            return 0;
        }
        let acked = f.acked.iter().map(|p| p.bytes).sum();
        self.delivered += acked;
        self.delivered_at = f.now;
        if self.limited_until.is_some_and(|until| self.delivered > until) {
            self.limited_until = None;
        }
        acked
    }

    /// A packet was lost.
    pub(crate) fn on_lost(&mut self, packet: &Packet) {
        self.lost += packet.bytes;
    }

    /// The sample of the newest of `f.acked`, after [`on_acked`](Self::on_acked) and the losses of the batch.
    pub(crate) fn sample(&mut self, f: &Feedback<'_>, acked: u64) -> Option<Sample> {
        let newest = f.acked.last()?;
        let state = &newest.state;
        self.first_sent = newest.sent;
        // Saturating here and below: a packet may have left under another controller, on another path.
        let delivered = self.delivered.saturating_sub(state.delivered);
        // The slower of sending and acknowledging: neither a burst of acknowledgements nor one of packets
        // makes the network faster.
        let interval = newest.sent.since(state.first_sent).max(f.now.since(state.delivered_time));
        Some(Sample {
            rate: per_second(delivered, interval),
            delivered,
            prior_delivered: state.delivered,
            in_flight: state.in_flight,
            lost: self.lost.saturating_sub(state.lost),
            app_limited: state.app_limited,
            acked,
            rtt: f.now.since(newest.sent),
        })
    }
}

/// Bytes per second; 0 when no time passed.
pub(crate) fn per_second(bytes: u64, time: Duration) -> u64 {
    let ns = time.as_nanos();
    if ns == 0 {
        return 0;
    }
    u64::try_from(u128::from(bytes) * 1_000_000_000 / ns).unwrap_or(u64::MAX)
}

/// Bytes that a rate delivers in a time.
pub(crate) fn volume(rate: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(rate) * time.as_nanos() / 1_000_000_000).unwrap_or(u64::MAX)
}
