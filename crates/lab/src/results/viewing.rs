//! What viewers had of a video.

use quickset_base::number::Unsigned as _;
use serde::{Deserialize, Serialize};

use crate::play::RunSeen;

/// Measures of players that watch a video.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Viewing {
    /// AB: the mean bitrate of all that was played by all of them, by what the video says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_bitrate_mbps: Option<f64>,
    /// RT: how long a player stood still in all after its first picture, on average over players.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuffering_s: Option<f64>,
    /// How often, on average over players.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<f64>,
    /// From a player's first packet to its first picture, on average over those that had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_s: Option<f64>,
    /// Segments of another bitrate than the one before, on average over players.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<f64>,
    /// How much of the run the server's processor worked, where its work takes time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_share: Option<f64>,
}

/// The measures of a run.
pub(super) fn viewing(seen: &RunSeen) -> Viewing {
    let reports: Vec<_> = seen.flows.iter().filter_map(|flow| flow.watched).collect();
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len().approx());
    let of =
        |value: fn(&quickset_play::ViewReport) -> f64| mean(&reports.iter().map(value).collect::<Vec<_>>());
    let played: f64 = reports.iter().map(|report| report.played.as_secs_f64()).sum();
    let bits: f64 = reports.iter().map(|report| report.average_bitrate() * report.played.as_secs_f64()).sum();
    let startups: Vec<f64> =
        reports.iter().filter_map(|report| report.startup).map(|startup| startup.as_secs_f64()).collect();
    let busy = seen.processor.map(|counts| counts.busy.as_secs_f64() / seen.ended.as_secs_f64().max(1e-9));
    Viewing {
        average_bitrate_mbps: (played > 0.0).then(|| bits / played / 1e6),
        rebuffering_s: of(|report| report.stalled.as_secs_f64()),
        stalls: of(|report| f64::from(report.stalls)),
        startup_s: mean(&startups),
        switches: of(|report| report.switches.approx()),
        processor_share: busy,
    }
}
