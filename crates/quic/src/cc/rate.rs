use quickset_base::{Duration, Time};

use super::{Feedback, PacketState, SettledPacket, TransmittedPacket};

/// Delivery rate samples (draft-ietf-ccwg-bbr §4.1): how fast the network delivered between the time a
/// packet left and the time it was acknowledged.
///
/// The draft's interval begins anew when nothing is in flight. Here it does, too, when a sender goes on that
/// had nothing to send for half a round trip, and is not through only since a last packet is acknowledged
/// late: an odd one waits for the peer's max_ack_delay (RFC 9000 §13.2.1), and repair leaves behind the data
/// that is answered. Else the pause would be part of the interval. What left before it is none of what
/// samples behind it count, so that none is above the path's rate.
#[derive(Debug)]
pub(crate) struct Sampler {
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    lost: u64,
    // Until so much is delivered, samples tell of the application rather than of the network.
    limited_until: Option<u64>,
    // When the last packet left, if there was nothing more to send behind it.
    rests: Option<Time>,
    flight: RateFlight,
}

/// What left since the pipe was empty.
#[derive(Clone, Copy, Debug)]
struct RateFlight {
    began: Time,
    // Bytes delivered in all by then, and what was in flight still: it is taken for delivered.
    before: u64,
    // The first packets of it that were acknowledged.
    head: Option<RateHead>,
}

#[derive(Clone, Copy, Debug)]
struct RateHead {
    sent: Time,
    acked: Time,
    // Bytes delivered in all when it was acknowledged.
    delivered: u64,
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
        Self {
            delivered: 0,
            delivered_at: now,
            first_sent: now,
            lost: 0,
            limited_until: None,
            rests: None,
            flight: RateFlight { began: now, before: 0, head: None },
        }
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

    /// Whether a flight begins with this packet: nothing else is in flight, or nothing left for half of the
    /// least round trip because there was nothing to send.
    #[inline]
    pub(crate) fn begins(&self, sent: &TransmittedPacket, min_rtt: Option<Duration>) -> bool {
        let rested = self.rests.zip(min_rtt).is_some_and(|(since, rtt)| sent.now.since(since) >= rtt / 2);
        rested || sent.in_flight <= sent.bytes
    }

    /// There was nothing to send behind the last packet.
    #[inline]
    pub(crate) fn rests(&self) -> bool {
        self.rests.is_some()
    }

    /// A packet leaves; a flight with it when it [`begins`](Self::begins) one.
    #[inline]
    pub(crate) fn on_sent(&mut self, sent: &TransmittedPacket, begins: bool) -> PacketState {
        if begins {
            self.first_sent = sent.now;
            self.delivered_at = sent.now;
            let before = self.delivered + sent.in_flight.saturating_sub(sent.bytes);
            self.flight = RateFlight { began: sent.now, before, head: None };
        }
        self.rests = sent.app_limited.then_some(sent.now);
        PacketState {
            // What left before the flight is none of what its samples count, however late that is
            // acknowledged.
            delivered: self.delivered.max(self.flight.before),
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
        let flight = &mut self.flight;
        if let (None, Some(head)) = (flight.head, f.acked.last().filter(|head| head.sent >= flight.began)) {
            flight.head = Some(RateHead { sent: head.sent, acked: f.now, delivered: self.delivered });
        }
        // Nothing of a flight is delivered with what left before it.
        if flight.head.is_some() || self.delivered > flight.before {
            self.delivered_at = f.now;
        }
        if self.limited_until.is_some_and(|until| self.delivered > until) {
            self.limited_until = None;
        }
        acked
    }

    /// A packet was lost.
    pub(crate) fn on_lost(&mut self, packet: &SettledPacket) {
        self.lost += packet.bytes;
    }

    /// The sample of the newest of `f.acked`, after [`on_acked`](Self::on_acked) and the losses of the batch.
    pub(crate) fn sample(&mut self, f: &Feedback<'_>, acked: u64) -> Option<Sample> {
        let newest = f.acked.last()?;
        let state = &newest.state;
        self.first_sent = newest.sent.max(self.flight.began);
        // Saturating here and below: a packet may have left under another controller, on another path.
        let delivered = self.delivered.saturating_sub(state.delivered);
        // The slower of sending and acknowledging: neither a burst of acknowledgements nor one of packets
        // makes the network faster.
        let interval = newest.sent.since(state.first_sent).max(f.now.since(state.delivered_time));
        let rate = per_second(delivered, interval).max(self.train_rate(newest, f.now));
        Some(Sample {
            rate,
            delivered,
            prior_delivered: state.delivered,
            in_flight: state.in_flight,
            lost: self.lost.saturating_sub(state.lost),
            // What is acknowledged behind the pause that followed it tells of the pause.
            app_limited: state.app_limited || newest.sent < self.flight.began,
            acked,
            rtt: f.now.since(newest.sent),
        })
    }

    /// How fast the packets behind the head of a flight went through, for one that is over within a round
    /// trip.
    ///
    /// The interval of an ordinary sample then holds the whole round trip in which the first acknowledgement
    /// is waited for, so that an application that sends 140 kB at a time over 100 ms is thought to have a
    /// path of 11 Mbit/s, however fast that is, and its messages are paced over half a round trip for ever.
    /// Here, too, the slower of sending and acknowledging counts, and one burst of the pacer less than was
    /// delivered.
    fn train_rate(&self, newest: &SettledPacket, now: Time) -> u64 {
        let is_first = newest.state.delivered == self.flight.before && newest.sent >= self.flight.began;
        let Some(head) = self.flight.head.filter(|_| is_first) else { return 0 };
        let delivered = self.delivered.saturating_sub(head.delivered);
        let Some(sure) = delivered.checked_sub(BURST).filter(|_| delivered >= LEAST_TRAIN) else { return 0 };
        per_second(sure, newest.sent.since(head.sent).max(now.since(head.acked)))
    }
}

/// Packets that may leave at once, in bytes (RFC 9002 §7.7: as many as the initial window).
const BURST: u64 = 10 * 1500;
/// Shorter flights tell little.
const LEAST_TRAIN: u64 = 2 * BURST;

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
