use std::collections::BTreeMap;

use ::qlog::events::EventData;
use ::qlog::events::quic::{CongestionStateUpdated, CongestionStateUpdatedTrigger, MetricsUpdated};
use quickset_base::number::Unsigned;
use quickset_base::{Duration, Time};

use super::PathState;
use super::log::{Qlog, QlogWriter};
use crate::Algorithm;
use crate::cc::pacing_rate;

/// What the last records told of the path, so that only changes are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TracedMetrics {
    rtt: Option<TracedRtt>,
    pto_count: Option<u32>,
    window: Option<u64>,
    in_flight: Option<u64>,
    threshold: Option<u64>,
    /// In bits per second, as the two below.
    pacing_rate: Option<u64>,
    bandwidth: Option<u64>,
    /// BBR's long-term bound, in bytes.
    bound: Option<u64>,
    state: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TracedRtt {
    min: Duration,
    smoothed: Duration,
    latest: Duration,
    var: Duration,
}

impl Qlog {
    /// The path as it stands, where it has changed.
    pub(crate) fn metrics(&mut self, now: Time, state: &PathState<'_>) {
        if let Some(log) = self.log() {
            log.update(now, state.metrics(), state.persistent);
            log.path(now, state.path.ecn.state());
            log.fec(now, state.fec, false);
        }
    }
}

impl PathState<'_> {
    fn metrics(&self) -> TracedMetrics {
        let (rtt, control) = (self.recovery.rtt(), self.path.congestion.control());
        let sampled = self.recovery.has_sample();
        let is_threshold = has_threshold(self.algorithm);
        TracedMetrics {
            rtt: sampled.then(|| TracedRtt {
                min: rtt.min(),
                smoothed: rtt.smoothed(),
                latest: rtt.latest(),
                var: rtt.var(),
            }),
            pto_count: Some(self.recovery.pto_count()),
            window: Some(control.window),
            in_flight: Some(self.recovery.in_flight()),
            threshold: control.view.bound.filter(|_| is_threshold),
            pacing_rate: Some(pacing_rate(&control, rtt.smoothed()).saturating_mul(8)),
            bandwidth: control.view.bandwidth.map(|bytes| bytes.saturating_mul(8)),
            bound: control.view.bound.filter(|_| !is_threshold),
            state: control.view.state,
        }
    }
}

impl QlogWriter {
    fn update(&mut self, now: Time, new: TracedMetrics, persistent: bool) {
        let old = std::mem::replace(&mut self.metrics, new);
        if new == old {
            return;
        }
        if new.state != old.state {
            let state = CongestionStateUpdated {
                old: (!old.state.is_empty()).then(|| word(old.state)),
                new: word(new.state),
                trigger: persistent.then_some(CongestionStateUpdatedTrigger::PersistentCongestion),
            };
            self.event(now, &EventData::CongestionStateUpdated(state));
        }
        if new != (TracedMetrics { state: new.state, ..old }) {
            self.event(now, &EventData::MetricsUpdated(changes(&new, &old)));
        }
    }
}

fn changes(new: &TracedMetrics, old: &TracedMetrics) -> MetricsUpdated {
    let rtt = |part: fn(&TracedRtt) -> Duration| {
        changed(new.rtt.as_ref().map(part), old.rtt.as_ref().map(part)).map(millis)
    };
    let mut more = BTreeMap::new();
    for (name, value) in [
        ("bandwidth_estimate", changed(new.bandwidth, old.bandwidth)),
        ("inflight_longterm", changed(new.bound, old.bound)),
    ] {
        if let Some(value) = value {
            more.insert(name.to_owned(), value.into());
        }
    }
    MetricsUpdated {
        ex_data: more,
        min_rtt: rtt(|rtt| rtt.min),
        smoothed_rtt: rtt(|rtt| rtt.smoothed),
        latest_rtt: rtt(|rtt| rtt.latest),
        rtt_variance: rtt(|rtt| rtt.var),
        pto_count: changed(new.pto_count, old.pto_count).map(Unsigned::saturated),
        congestion_window: changed(new.window, old.window),
        bytes_in_flight: changed(new.in_flight, old.in_flight),
        ssthresh: changed(new.threshold, old.threshold),
        packets_in_flight: None,
        pacing_rate: changed(new.pacing_rate, old.pacing_rate),
    }
}

fn changed<T: Copy + PartialEq>(new: Option<T>, old: Option<T>) -> Option<T> {
    if new == old { None } else { new }
}

/// Milliseconds, as the data model has them.
pub(super) fn millis(time: Duration) -> f32 {
    single(time.as_secs_f64() * 1e3)
}

/// The nearest number that the data model has.
#[expect(clippy::cast_possible_truncation, reason = "its floats are of 32 bits")]
pub(super) fn single(x: f64) -> f32 {
    x as f32
}

/// Whether the bound of the controller is a slow start threshold.
fn has_threshold(algorithm: &Algorithm) -> bool {
    match algorithm {
        Algorithm::Cubic | Algorithm::NewReno => true,
        Algorithm::Bbr | Algorithm::Fixed(_) | Algorithm::Custom(_) => false,
    }
}

/// States are written like all names of the standard.
fn word(state: &str) -> String {
    state.replace(' ', "_")
}
