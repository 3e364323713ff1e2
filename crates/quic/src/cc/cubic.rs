use quickset_base::{Duration, Time};

use super::{Congestion, Control, Feedback, PacketState, PathView, Sent, initial_window};

/// CUBIC (RFC 9438) on the loss episodes of RFC 9002 §7.3.
#[derive(Debug)]
pub(crate) struct Cubic {
    mtu: u64,
    window: u64,
    threshold: u64,
    // Packets sent up to here belong to the last congestion event, which is answered once.
    recovery: Option<Time>,
    curve: Curve,
    usage: Usage,
    undo: Option<Undo>,
}

impl Cubic {
    pub(crate) fn new(mtu: u64, now: Time) -> Self {
        Self {
            mtu,
            window: initial_window(mtu),
            threshold: u64::MAX,
            recovery: None,
            curve: Curve::default(),
            usage: Usage { round: now, now: 0, last: 0 },
            undo: None,
        }
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
        let mut bytes: u64 = f.acked.iter().filter(|p| !self.in_recovery(p.sent)).map(|p| p.bytes).sum();
        if bytes == 0 {
            return;
        }
        if self.is_slow_start() {
            // A window that was never filled proves nothing about a larger one (RFC 9002 §7.8).
            if 2 * self.usage.peak() < self.window {
                return;
            }
            let step = bytes.min(self.threshold - self.window);
            self.window += step;
            bytes -= step;
            if bytes == 0 {
                return;
            }
        }
        if self.usage.peak() + MARGIN * self.mtu < self.window {
            // RFC 9438 §5.8: time in which the application did not use the window is no time on the curve.
            self.curve.pause(f.now);
            return;
        }
        let window = self.window as f64 / self.mtu as f64;
        let acked = bytes as f64 / self.mtu as f64;
        let next = self.curve.advance(f.now, f.srtt, window, acked);
        self.window = self.window.max((next * self.mtu as f64) as u64);
    }

    fn on_congestion(&mut self, f: &Feedback<'_>) {
        // RFC 9002 §7.3.2, §7.1: one reaction per round trip; losses and marks count alike.
        let lost_at = f.lost.last().map(|p| p.sent);
        let marked_at = if f.ce > 0 { f.acked.last().map(|p| p.sent) } else { None };
        let Some(at) = lost_at.max(marked_at) else { return };
        if !self.in_recovery(at) {
            self.undo = (f.ce == 0).then_some(Undo {
                window: self.window,
                threshold: self.threshold,
                curve: self.curve,
                lost: 0,
            });
            self.recovery = Some(f.now);
            self.curve.reduce(self.window as f64 / self.mtu as f64);
            self.threshold = ((self.window as f64 * BETA) as u64).max(self.least());
            self.window = self.threshold;
        }
        if let Some(undo) = &mut self.undo {
            undo.lost += f.lost.len() as u64;
        }
        if f.persistent {
            // RFC 9002 §7.6.2: as if nothing were known of the path but where it once was full.
            self.window = self.least();
            self.recovery = None;
            self.undo = None;
            self.curve.epoch = None;
        }
    }

    // RFC 9438 §4.9.2: when every loss of the event turns out to be late delivery, it did not happen.
    fn on_spurious(&mut self, packets: u64) {
        let Some(undo) = &mut self.undo else { return };
        undo.lost = undo.lost.saturating_sub(packets);
        if undo.lost > 0 {
            return;
        }
        self.window = self.window.max(undo.window);
        self.threshold = self.threshold.max(undo.threshold);
        self.curve = undo.curve;
        self.recovery = None;
        self.undo = None;
    }

    fn view(&self) -> PathView {
        let state = if self.is_slow_start() { "slow start" } else { "congestion avoidance" };
        PathView { state, bound: (self.threshold < u64::MAX).then_some(self.threshold), bandwidth: None }
    }

    fn least(&self) -> u64 {
        2 * self.mtu
    }
}

impl Congestion for Cubic {
    #[inline]
    fn on_sent(&mut self, sent: &Sent) -> PacketState {
        self.usage.now = self.usage.now.max(sent.in_flight);
        PacketState::default()
    }

    fn on_feedback(&mut self, f: &Feedback<'_>) {
        if f.spurious > 0 {
            self.on_spurious(f.spurious);
        }
        self.on_congestion(f);
        self.on_acked(f);
    }

    fn control(&self) -> Control {
        Control { window: self.window, rate: None, slow_start: self.is_slow_start(), view: self.view() }
    }
}

/// The window as a function of time since the last congestion event, in packets (RFC 9438 §4.2, §4.3).
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    // Where the curve is flat: the window before the last event.
    w_max: f64,
    // The window when it was last reduced.
    prior: f64,
    // Seconds from the start of the epoch to the flat part.
    k: f64,
    // What a Reno-like flow would have by now.
    w_est: f64,
    epoch: Option<Time>,
    paused: Option<Time>,
}

impl Curve {
    /// The window is about to be reduced from `window`.
    fn reduce(&mut self, window: f64) {
        // RFC 9438 §4.7, fast convergence: who is reduced below the last peak leaves more to newcomers.
        self.w_max = if window < self.w_max { window * (1.0 + BETA) / 2.0 } else { window };
        self.prior = window;
        self.epoch = None;
    }

    fn pause(&mut self, now: Time) {
        self.paused.get_or_insert(now);
    }

    /// The window after `acked` packets were acknowledged.
    fn advance(&mut self, now: Time, srtt: Duration, window: f64, acked: f64) -> f64 {
        if let (Some(epoch), Some(since)) = (&mut self.epoch, self.paused.take()) {
            *epoch += now.since(since);
        }
        let epoch = self.epoch.unwrap_or_else(|| {
            self.w_max = self.w_max.max(window);
            self.k = cbrt((self.w_max - window) / C);
            self.w_est = window;
            now
        });
        self.epoch = Some(epoch);

        let t = now.since(epoch).as_secs_f64();
        // RFC 9438 §4.3: as much per round trip as Reno would with its smaller cut; after the old window is
        // reached again, as much as Reno.
        let alpha = if self.w_est < self.prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        self.w_est += alpha * acked / window;
        if self.at(t) < self.w_est {
            return self.w_est;
        }
        // RFC 9438 §4.2: aim at where the curve is in a round trip, by at most half a window.
        let target = self.at(t + srtt.as_secs_f64()).clamp(window, 1.5 * window);
        window + (target - window) * (acked / window).min(1.0)
    }

    fn at(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * d * d * d + self.w_max
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
struct Undo {
    window: u64,
    threshold: u64,
    curve: Curve,
    lost: u64,
}

/// The cube root of `x` >= 0 by Newton's method: basic arithmetic only, so that it is the same on every
/// machine.
fn cbrt(x: f64) -> f64 {
    if x < 1e-12 {
        return 0.0;
    }
    // A third of the exponent is within a factor of two of the root; six steps square the error six times.
    let mut y = f64::from_bits(x.to_bits() / 3 + CBRT_BIAS);
    for _ in 0..6 {
        y -= (y - x / (y * y)) / 3.0;
    }
    y
}

const CBRT_BIAS: u64 = (1023 - 1023 / 3) << 52;

/// RFC 9438 §4.6.
const BETA: f64 = 0.7;
/// RFC 9438 §5.
const C: f64 = 0.4;
/// Packets that the pacer or a batch may leave unused of a window that is in full use.
const MARGIN: u64 = 10;
