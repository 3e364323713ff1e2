//! What the model of the path allows (draft-ietf-ccwg-bbr §5.6).

use quickset_base::Duration;
use quickset_base::number::{Float as _, Unsigned as _};

use super::{Bbr, BbrState, LOSS_THRESHOLD};
use crate::cc::rate::{Sample, volume};
use crate::cc::{Feedback, PathView, initial_window};

impl Bbr {
    pub(super) fn set_rate(&mut self, gain: f64) {
        let bandwidth = self.bandwidth();
        if bandwidth == 0 {
            return;
        }
        let rate = (gain * bandwidth.approx() * PACING_MARGIN).whole::<u64>();
        // Until the pipe was full once, samples may be held down by the application.
        if self.full.reached || self.rate.is_none_or(|old| rate > old) {
            self.rate = Some(rate.max(1));
        }
    }

    // §5.6.4.6.
    pub(super) fn set_window(&mut self, acked: u64) {
        let most = self.quantized(self.bdp(self.window_gain()) + self.aggregation.get());
        if self.full.reached {
            self.window = (self.window + acked).min(most);
        } else if self.window < most || self.sampler.delivered() < initial_window(self.mtu) {
            self.window += acked;
        }
        self.window = self.window.max(self.least());
        self.bound_window();
    }

    pub(super) fn bound_window(&mut self) {
        if self.state == BbrState::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        let cap = match self.state {
            BbrState::Startup | BbrState::Drain(_) => u64::MAX,
            BbrState::Down | BbrState::Refill | BbrState::Up => self.long_term,
            BbrState::Cruise | BbrState::ProbeRtt => self.with_headroom(),
        };
        self.window = self.window.min(cap.min(self.short.in_flight).max(self.least()));
    }

    pub(super) fn with_headroom(&self) -> u64 {
        if self.long_term == u64::MAX {
            return u64::MAX;
        }
        let headroom = (self.long_term.approx() * HEADROOM).whole::<u64>().max(self.mtu);
        self.long_term.saturating_sub(headroom).max(self.least())
    }

    pub(super) fn bandwidth(&self) -> u64 {
        self.max_bandwidth.get().min(self.short.bandwidth)
    }

    pub(super) fn bdp(&self, gain: f64) -> u64 {
        match self.min_rtt.value {
            None => initial_window(self.mtu),
            Some(rtt) => (gain * volume(self.bandwidth(), rtt).approx()).whole(),
        }
    }

    pub(super) fn in_flight_for_bdp(&self) -> u64 {
        self.bdp(1.0)
    }

    pub(super) fn in_flight_for(&self, gain: f64) -> u64 {
        self.quantized(self.bdp(gain))
    }

    // §5.6.4.2: a quantum must fit, whatever the path needs.
    pub(super) fn quantized(&self, in_flight: u64) -> u64 {
        let quantum = volume(self.rate.unwrap_or(0), Duration::from_millis(1)).min(64 << 10);
        let more = if self.state == BbrState::Up { 2 * self.mtu } else { 0 };
        in_flight.max(quantum).max(self.least()) + more
    }

    // §5.6.4.5. As things are: packets may have grown since.
    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.bdp(PROBE_RTT_GAIN).max(self.least())
    }

    pub(super) fn save_window(&mut self) {
        let modulated = self.short.loss || self.state == BbrState::ProbeRtt;
        self.prior_window = if modulated { self.prior_window.max(self.window) } else { self.window };
    }

    pub(super) fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }

    pub(super) fn pacing_gain(&self) -> f64 {
        match self.state {
            BbrState::Startup => STARTUP_GAIN,
            BbrState::Drain(_) => 0.5,
            BbrState::Down => 0.9,
            BbrState::Cruise | BbrState::Refill | BbrState::ProbeRtt => 1.0,
            BbrState::Up => 1.25,
        }
    }

    pub(super) fn window_gain(&self) -> f64 {
        match self.state {
            BbrState::Startup | BbrState::Drain(_) | BbrState::Down | BbrState::Cruise | BbrState::Refill => {
                2.0
            }
            BbrState::Up => 2.25,
            BbrState::ProbeRtt => PROBE_RTT_GAIN,
        }
    }

    // §5.5.10.2.
    pub(super) fn is_too_high(&self, sample: &Sample) -> bool {
        self.is_excessive(sample.lost, sample.in_flight)
    }

    /// Whether so many bytes lost are more than chance takes of so many: see the module's departures.
    pub(super) fn is_excessive(&self, lost: u64, of: u64) -> bool {
        let expected = of.approx() / self.mtu.approx() * LOSS_THRESHOLD;
        let most = (expected + 2.0 * expected.sqrt()).max(FEW_LOST);
        lost.approx() / self.mtu.approx() > most
    }

    /// Whether more in flight only makes a queue longer: see the module's departures.
    pub(super) fn is_futile(&self, f: &Feedback<'_>) -> bool {
        // What a probe does shows in the second round at the earliest.
        let shown = self.rounds.count > self.probe.from_round + 1;
        let least = self.min_rtt.value.unwrap_or(f.min_rtt);
        let queued = 4 * f.rtt.unwrap_or(f.srtt) > 5 * least;
        let gained = self.max_bandwidth.get().approx() >= self.probe.from.approx() * PROBE_GAIN;
        shown && queued && !gained && f.in_flight >= self.bdp(PROBE_VOLUME)
    }

    pub(super) fn view(&self) -> PathView {
        PathView {
            state: match self.state {
                BbrState::Startup => "startup",
                BbrState::Drain(_) => "drain",
                BbrState::Down => "probe down",
                BbrState::Cruise => "cruise",
                BbrState::Refill => "refill",
                BbrState::Up => "probe up",
                BbrState::ProbeRtt => "probe rtt",
            },
            bound: (self.long_term < u64::MAX).then_some(self.long_term),
            bandwidth: Some(self.bandwidth()).filter(|bandwidth| *bandwidth > 0),
        }
    }

    pub(super) fn least(&self) -> u64 {
        4 * self.mtu
    }
}

// §2.5, §2.7 and §5.6.1.
pub(super) const STARTUP_GAIN: f64 = 2.77;
const PROBE_RTT_GAIN: f64 = 0.5;
pub(super) const PACING_MARGIN: f64 = 0.99;
pub(super) const HEADROOM: f64 = 0.15;
/// Packets: see the module's departures.
const FEW_LOST: f64 = 3.0;
/// A probe that gains less than this, with so much of what the path holds in flight, is futile.
const PROBE_GAIN: f64 = 1.02;
const PROBE_VOLUME: f64 = 1.2;
