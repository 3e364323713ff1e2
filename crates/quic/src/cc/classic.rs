use std::fmt;

use quickset_base::number::{Float as _, Unsigned as _};
use quickset_base::{Duration, Time};

use super::hystart::{HyStart, HystartStage};
use super::{
    Congestion, CongestionControl, Feedback, PacketState, PathView, TransmittedPacket, initial_window,
};

/// A window that doubles until the path is full, and is cut once for each round trip with a loss or a mark:
/// what NewReno and CUBIC have in common (RFC 9002 §7, appendix B). How it grows from there is up to `A`.
///
/// Where this departs from its sources:
/// 1. The first slow start is HyStart++ (RFC 9406), with `L` unbounded since packets are paced.
/// 2. A cut takes a share of the window and not of what is in flight (RFC 9438 §4.6 has both), for a window
///    that is not used does not grow (RFC 9002 §7.8): in slow start beyond twice what was in flight, else
///    beyond ten packets or a third more, whichever is less.
/// 3. The least window is two packets after marks, too (RFC 9002 §7.2; RFC 9438 §4.6 goes down to one).
/// 4. When every packet of an event proves to have arrived, the event did not happen (RFC 9438 §4.9.2), for
///    NewReno, too. An event with a mark among its acknowledgements did.
#[derive(Debug)]
pub(crate) struct Classic<A> {
    mtu: u64,
    window: u64,
    threshold: u64,
    // Packets sent up to here belong to the last congestion event, which is answered once.
    recovery: Option<Time>,
    // Persistent congestion was declared then.
    slump: Time,
    // Nothing that left after it was acknowledged yet.
    recovering: bool,
    // Until it has found where to end slow start.
    start: Option<HyStart>,
    avoidance: A,
    usage: Usage,
    // When the last feedback came.
    heard: Time,
    undo: Option<ClassicUndo<A>>,
}

/// How a window grows between congestion events.
pub(crate) trait Avoidance: Copy + Default + Send + fmt::Debug {
    /// The share of the window that an event leaves.
    const KEPT: f64;

    /// Avoidance begins anew with the next acknowledgement: after a cut from a window of so many packets, or
    /// after a slow start that ended by itself or follows persistent congestion, with none.
    fn begin(&mut self, cut_from: Option<f64>);

    /// A packet is as long from here on as so many were.
    fn resize(&mut self, of: f64);

    /// For so long nothing was in flight.
    fn idle(&mut self, time: Duration);

    /// The window after an acknowledgement, in bytes.
    fn advance(&mut self, acked: &Acked) -> u64;
}

/// What [`Avoidance::advance`] hears of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) now: Time,
    pub(crate) srtt: Duration,
    /// Bytes that it acknowledges.
    pub(crate) bytes: u64,
    /// The window now, in bytes.
    pub(crate) window: u64,
    pub(crate) mtu: u64,
    /// Whether the window was in use: else it does not grow.
    pub(crate) full: bool,
}

impl<A: Avoidance> Classic<A> {
    pub(crate) fn new(mtu: u64, now: Time) -> Self {
        Self {
            mtu,
            window: initial_window(mtu),
            threshold: u64::MAX,
            recovery: None,
            slump: Time::ZERO,
            recovering: false,
            start: Some(HyStart::new(now)),
            avoidance: A::default(),
            usage: Usage { round: now, now: 0, last: 0 },
            heard: now,
            undo: None,
        }
    }

    /// With the slow start of RFC 9002, which ends with a loss.
    #[cfg(test)]
    pub(crate) fn without_hystart(mut self) -> Self {
        self.start = None;
        self
    }

    fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn in_recovery(&self, sent: Time) -> bool {
        self.recovery.is_some_and(|start| sent <= start)
    }

    fn on_acked(&mut self, f: &Feedback<'_>) {
        let Some(newest) = f.acked.last() else { return };
        self.usage.on_ack(f.now, newest.sent, f.prior_in_flight);
        let stage = match &mut self.start {
            // RFC 9406 §4.3: only the first slow start.
            Some(start) if self.threshold == u64::MAX => start.on_ack(f.now, newest.sent, f.rtt),
            _ => HystartStage::Standard,
        };
        let bytes: u64 = f.acked.iter().filter(|p| !self.in_recovery(p.sent)).map(|p| p.bytes).sum();
        if bytes == 0 {
            return;
        }
        self.recovering = false;
        if stage == HystartStage::Over {
            self.start = None;
            self.threshold = self.window;
            self.avoidance.begin(None);
        }
        let rest = if self.is_slow_start() { self.double(bytes, stage) } else { bytes };
        if rest == 0 {
            return;
        }
        // Of a window of two packets and a half only two can be used: less than one packet that is left is
        // none.
        let margin = (MARGIN * self.mtu).min(self.window / 4).max(self.mtu);
        let full = self.usage.peak() + margin >= self.window;
        let (window, mtu) = (self.window, self.mtu);
        let next =
            self.avoidance.advance(&Acked { now: f.now, srtt: f.srtt, bytes: rest, window, mtu, full });
        self.window = window.max(next);
    }

    /// Slow start (RFC 9002 §7.3.1); returns the bytes beyond its end.
    fn double(&mut self, bytes: u64, stage: HystartStage) -> u64 {
        // A window that was never filled proves nothing about a larger one (RFC 9002 §7.8).
        if 2 * self.usage.peak() < self.window {
            return 0;
        }
        let step = stage.of(bytes).min(self.threshold - self.window);
        self.window += step;
        if self.is_slow_start() { 0 } else { bytes - step }
    }

    fn on_congestion(&mut self, f: &Feedback<'_>) {
        // RFC 9002 §7.3.2, §7.1, §B.6, §B.7: one reaction per round trip; losses and marks count alike.
        let lost_at = f.lost.last().map(|p| p.sent);
        let Some(at) = lost_at.max(f.marked) else { return };
        // RFC 9002 §B.8 would have what is found lost later of before persistent congestion cut the window
        // once more: its least size would be the end of slow start, and a path of 20 Mbit/s would take ten
        // seconds to be filled again.
        if !self.in_recovery(at) && at > self.slump {
            self.undo = Some(ClassicUndo {
                window: self.window,
                threshold: self.threshold,
                avoidance: self.avoidance,
                since: f.now,
                lost: 0,
            });
            self.recovery = Some(f.now);
            self.recovering = true;
            self.avoidance.begin(Some(self.window.approx() / self.mtu.approx()));
            self.threshold = (self.window.approx() * A::KEPT).whole::<u64>().max(self.least());
            self.window = self.threshold;
        }
        if f.marked.is_some() {
            // Marks are never late packets.
            self.undo = None;
        }
        if let Some(undo) = &mut self.undo {
            undo.lost += f.lost.len() as u64;
        }
        if f.persistent {
            // RFC 9002 §7.6.2, §B.8: as if nothing were known of the path but where it once was full.
            self.window = self.least();
            self.recovery = None;
            self.slump = f.now;
            self.recovering = false;
            self.undo = None;
            self.avoidance.begin(None);
        }
    }

    // RFC 9438 §4.9.2: when every loss of the event turns out to be late delivery, it did not happen.
    fn on_spurious(&mut self, declared: &[Time]) {
        let Some(undo) = &mut self.undo else { return };
        // What an earlier event took for lost is no excuse for this one.
        let arrived = declared.iter().filter(|at| **at >= undo.since).count() as u64;
        undo.lost = undo.lost.saturating_sub(arrived);
        if undo.lost > 0 {
            return;
        }
        if self.window < undo.window {
            self.window = undo.window;
            self.threshold = undo.threshold;
            self.avoidance = undo.avoidance;
        }
        self.recovery = None;
        self.recovering = false;
        self.undo = None;
    }

    fn is_cautious(&self) -> bool {
        self.threshold == u64::MAX && self.start.as_ref().is_some_and(HyStart::is_cautious)
    }

    fn view(&self) -> PathView {
        let state = match (self.is_slow_start(), self.is_cautious()) {
            (true, false) => "slow start",
            (true, true) => "conservative slow start",
            (false, _) if self.recovering => "recovery",
            (false, _) => "congestion avoidance",
        };
        PathView { state, bound: (self.threshold < u64::MAX).then_some(self.threshold), bandwidth: None }
    }

    fn least(&self) -> u64 {
        2 * self.mtu
    }
}

impl<A: Avoidance> Congestion for Classic<A> {
    #[inline]
    fn on_sent(&mut self, sent: &TransmittedPacket) -> PacketState {
        self.usage.now = self.usage.now.max(sent.in_flight);
        if sent.in_flight <= sent.bytes {
            // Since the last feedback nothing was in flight.
            self.avoidance.idle(sent.now.since(self.heard));
            self.heard = sent.now;
        }
        PacketState::default()
    }

    fn on_feedback(&mut self, f: &Feedback<'_>) {
        self.heard = f.now;
        if !f.spurious.is_empty() {
            self.on_spurious(f.spurious);
        }
        self.on_congestion(f);
        self.on_acked(f);
    }

    fn set_mtu(&mut self, mtu: u64) {
        let of = mtu.approx() / self.mtu.approx();
        self.avoidance.resize(of);
        if let Some(undo) = &mut self.undo {
            undo.avoidance.resize(of);
        }
        // RFC 9002 §7.2: what nothing was learnt from is counted anew.
        if self.threshold == u64::MAX && self.window == initial_window(self.mtu) {
            self.window = initial_window(mtu);
        }
        self.mtu = mtu;
        self.window = self.window.max(self.least());
    }

    fn control(&self) -> CongestionControl {
        let slow_start = self.is_slow_start() && !self.is_cautious();
        CongestionControl { window: self.window, rate: None, slow_start, prompt: false, view: self.view() }
    }
}

/// How much of the window was in use: the most in flight in this round trip and the one before.
#[derive(Clone, Copy, Debug)]
struct Usage {
    round: Time,
    now: u64,
    last: u64,
}

impl Usage {
    fn on_ack(&mut self, now: Time, newest_sent: Time, prior_in_flight: u64) {
        self.now = self.now.max(prior_in_flight);
        if newest_sent >= self.round {
            self.round = now;
            self.last = self.now;
            self.now = 0;
        }
    }

    fn peak(&self) -> u64 {
        self.now.max(self.last)
    }
}

/// What to return to when a congestion event proves to be none.
#[derive(Clone, Copy, Debug)]
struct ClassicUndo<A> {
    window: u64,
    threshold: u64,
    avoidance: A,
    // When the event was, and how many packets declared lost since are missing.
    since: Time,
    lost: u64,
}

/// Packets that the pacer or a batch may leave unused of a window that is in full use, or a quarter of it.
const MARGIN: u64 = 10;
