//! What forward erasure correction does. The standard has no events for it, so they are our own, in the
//! namespace `quickset`, which viewers pass over or list as they are.

use quickset_base::number::Unsigned;
use quickset_base::{Duration, Time};
use serde::Serialize;

use super::log::{Qlog, QlogWriter};
use crate::stats::FecStats;

/// What the last record told, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RepairTold {
    stats: FecStats,
    at: Option<Time>,
}

/// All counters since the connection began.
#[derive(Serialize)]
struct Updated {
    sources_sent: u64,
    repeats_sent: u64,
    repairs_sent: u64,
    repair_bytes: u64,
    recovered: u64,
    unrecovered: u64,
    blocks: u64,
    failed_blocks: u64,
    sources_received: u64,
    repairs_received: u64,
    recovered_here: u64,
    /// The share of packets lost on the way to the peer, as estimated.
    loss: f64,
    /// Repair symbols for each source symbol since the record before.
    #[serde(skip_serializing_if = "Option::is_none")]
    redundancy: Option<f64>,
}

#[derive(Serialize)]
struct RecoveredFacts {
    session: u64,
    sid: u64,
}

impl Qlog {
    /// A symbol was recovered here, and its frames are about to act.
    #[inline]
    pub(crate) fn recovered(&mut self, now: Time, session: u64, sid: u64) {
        if let Some(log) = self.log() {
            log.named(now, RECOVERED, &RecoveredFacts { session, sid });
        }
    }
}

impl QlogWriter {
    /// The counters, where they have changed; now and then, or at the `end`.
    pub(super) fn fec(&mut self, now: Time, stats: FecStats, end: bool) {
        let RepairTold { stats: old, at } = self.fec_told;
        let early = at.is_some_and(|at| now.since(at) < EVERY);
        // The estimate moves with every acknowledgement, and alone is no news.
        if (early && !end) || stats == (FecStats { loss_ppm: stats.loss_ppm, ..old }) {
            return;
        }
        self.fec_told = RepairTold { stats, at: Some(now) };
        self.named(now, UPDATED, &updated(&stats, &old));
    }
}

fn updated(stats: &FecStats, old: &FecStats) -> Updated {
    let [sources, repairs] = [
        stats.sources_sent.saturating_sub(old.sources_sent),
        stats.repairs_sent.saturating_sub(old.repairs_sent),
    ]
    .map(Unsigned::approx);
    Updated {
        sources_sent: stats.sources_sent,
        repeats_sent: stats.repeats_sent,
        repairs_sent: stats.repairs_sent,
        repair_bytes: stats.repair_bytes,
        recovered: stats.recovered,
        unrecovered: stats.unrecovered,
        blocks: stats.blocks,
        failed_blocks: stats.failed_blocks,
        sources_received: stats.sources_received,
        repairs_received: stats.repairs_received,
        recovered_here: stats.recovered_here,
        loss: f64::from(stats.loss_ppm) / 1e6,
        redundancy: (sources > 0.0).then(|| repairs / sources),
    }
}

/// Ten records a second draw a curve, and are few beside those of packets.
const EVERY: Duration = Duration::from_millis(100);

const UPDATED: &str = "quickset:fec_updated";
const RECOVERED: &str = "quickset:symbol_recovered";
