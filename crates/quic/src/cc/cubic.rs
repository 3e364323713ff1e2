use quickset_base::number::{Float as _, Unsigned as _};
use quickset_base::{Duration, Time};

use super::classic::{Acked, Avoidance};

/// CUBIC (RFC 9438): the window as a function of time since the last congestion event, in packets (§4.2 to
/// §4.8, §4.10).
///
/// Fast convergence is always on (§4.7): who is alone on the path cannot know it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cubic {
    // Where the curve is flat: the window before the last event. None is known with 0.
    w_max: f64,
    // The window when it was last reduced.
    prior: f64,
    // Seconds from the start of the epoch to the flat part.
    k: f64,
    // What a Reno-like flow would have by now.
    w_est: f64,
    epoch: Option<Epoch>,
}

/// A stretch of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    // How long the window could have grown.
    age: Duration,
    // When it last did, or could not.
    updated: Time,
}

impl Avoidance for Cubic {
    /// RFC 9438 §4.6.
    const KEPT: f64 = BETA;

    fn begin(&mut self, cut_from: Option<f64>) {
        self.epoch = None;
        let Some(window) = cut_from else {
            // RFC 9438 §4.8, §4.10: the curve is flat where slow start ends.
            self.w_max = 0.0;
            return;
        };
        // RFC 9438 §4.7, fast convergence: who is reduced below the last peak leaves more to newcomers.
        self.w_max = if window < self.w_max { window * (1.0 + BETA) / 2.0 } else { window };
        self.prior = window;
    }

    /// Windows are counted in packets. The curve begins anew where it is.
    fn resize(&mut self, of: f64) {
        self.w_max /= of;
        self.prior /= of;
        self.epoch = None;
    }

    fn idle(&mut self, time: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.updated += time;
        }
    }

    fn advance(&mut self, acked: &Acked) -> u64 {
        if !acked.full {
            // RFC 9438 §5.8: time in which the application did not use the window is no time on the curve.
            if let Some(epoch) = &mut self.epoch {
                epoch.updated = acked.now;
            }
            return acked.window;
        }
        let mtu = acked.mtu.approx();
        let window = acked.window.approx() / mtu;
        let t = self.time(acked.now, window);
        let share = acked.bytes.approx() / acked.window.approx();
        // RFC 9438 §4.3: as much per round trip as Reno would with its smaller cut; after the old window is
        // reached again, as much as Reno.
        let alpha = if self.w_est < self.prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        self.w_est += alpha * share;
        let next = if self.at(t) < self.w_est {
            self.w_est
        } else {
            // RFC 9438 §4.2: aim at where the curve is in a round trip, by at most half a window.
            let target = self.at(t + acked.srtt.as_secs_f64()).clamp(window, 1.5 * window);
            window + (target - window) * share.min(1.0)
        };
        (next * mtu).whole()
    }
}

impl Cubic {
    /// Seconds since the epoch began, which it may do now.
    fn time(&mut self, now: Time, window: f64) -> f64 {
        let Some(epoch) = &mut self.epoch else {
            self.w_max = self.w_max.max(window);
            self.k = cbrt((self.w_max - window) / C);
            self.w_est = window;
            self.epoch = Some(Epoch { age: Duration::ZERO, updated: now });
            return 0.0;
        };
        epoch.age += now.since(epoch.updated);
        epoch.updated = now;
        epoch.age.as_secs_f64()
    }

    fn at(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * d * d * d + self.w_max
    }
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
