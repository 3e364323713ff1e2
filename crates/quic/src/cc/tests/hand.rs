use quickset_base::{Duration, Time};

use super::link::MTU;
use crate::cc::{Algorithm, Congestion, Feedback, PacketState, SettledPacket, TransmittedPacket};

/// A controller fed by hand: a window of packets in each round trip.
pub(super) struct Hand {
    pub(super) cc: Box<dyn Congestion>,
    pub(super) now: Time,
    pub(super) rtt: Duration,
}

/// What else a feedback says.
#[derive(Clone, Copy, Default)]
pub(super) struct Also<'a> {
    pub(super) ce: u64,
    pub(super) persistent: bool,
    pub(super) spurious: &'a [Time],
}

impl Hand {
    pub(super) fn new(algorithm: &Algorithm, rtt_ms: u64) -> Self {
        let now = Time::from_millis(1);
        Self { cc: algorithm.build(MTU, now), now, rtt: Duration::from_millis(rtt_ms) }
    }

    pub(super) fn window(&self) -> u64 {
        self.cc.control().window
    }

    pub(super) fn packets(&self) -> f64 {
        self.window() as f64 / MTU as f64
    }

    pub(super) fn state(&self) -> &'static str {
        self.cc.control().view.state
    }

    pub(super) fn feedback(
        &mut self,
        acked: &[SettledPacket],
        lost: &[SettledPacket],
        in_flight: u64,
        also: Also<'_>,
    ) {
        self.cc.on_feedback(&Feedback {
            now: self.now,
            acked,
            lost,
            prior_in_flight: in_flight,
            in_flight: in_flight.saturating_sub((acked.len() + lost.len()) as u64 * MTU),
            rtt: if acked.is_empty() { None } else { Some(self.rtt) },
            srtt: self.rtt,
            min_rtt: self.rtt,
            marked: (also.ce > 0).then(|| acked.last().map_or(self.now - self.rtt, |packet| packet.sent)),
            persistent: also.persistent,
            spurious: also.spurious,
        });
    }

    /// A packet that is acknowledged now.
    pub(super) fn packet(&self) -> SettledPacket {
        SettledPacket { number: 0, sent: self.now - self.rtt, bytes: MTU, state: PacketState::default() }
    }

    /// A round trip with `in_flight` of the window in use, acknowledged evenly, `each` packets at a time.
    pub(super) fn round_with(&mut self, in_flight: u64, each: usize) {
        let full = in_flight == self.window();
        let n = (in_flight / MTU).max(1) as usize;
        for _ in 0..n / each {
            let in_flight = if full { self.window() } else { in_flight };
            self.now += self.rtt / n as u32 * each as u32;
            self.cc.on_sent(&TransmittedPacket { now: self.now, bytes: MTU, in_flight, app_limited: false });
            let packets = vec![self.packet(); each];
            self.feedback(&packets, &[], in_flight, Also::default());
        }
    }

    pub(super) fn round(&mut self) {
        self.round_with(self.window(), 1);
    }

    /// So many packets that leave just now are lost, and known to be a round trip later; the time of that.
    pub(super) fn declare(&mut self, packets: usize, persistent: bool) -> Time {
        let lost = vec![SettledPacket { sent: self.now, ..self.packet() }; packets];
        self.now += self.rtt;
        let also = Also { persistent, ..Also::default() };
        self.feedback(&[], &lost, self.window(), also);
        self.now
    }

    /// These declarations were wrong.
    pub(super) fn arrive(&mut self, declared: &[Time]) {
        let window = self.window();
        self.feedback(&[], &[], window, Also { spurious: declared, ..Also::default() });
    }

    /// A packet that left just now is lost, and the round trip of recovery passes.
    pub(super) fn lose(&mut self) {
        self.declare(1, false);
        assert_eq!(self.state(), "recovery");
        // What was in flight at the loss is acknowledged without growth.
        let window = self.window();
        let old = SettledPacket { sent: self.now - self.rtt, ..self.packet() };
        self.feedback(&[old], &[], window, Also::default());
        assert_eq!(self.window(), window);
        self.now += self.rtt + Duration::from_nanos(1);
    }

    pub(super) fn grow_to(&mut self, packets: f64) {
        while self.packets() < packets {
            self.round();
        }
    }
}
