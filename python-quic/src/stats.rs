//! What was counted of a connection.

use pyo3::prelude::*;
use quickset::Stats;

/// What was counted of a connection so far. Times are in seconds, rates in bytes per second.
// sizes: a table of numbers that are read one by one.
#[pyclass(frozen, get_all, module = "quickset._native")]
pub(crate) struct ConnectionStats {
    sent_datagrams: u64,
    sent_bytes: u64,
    sent_packets: u64,
    received_datagrams: u64,
    received_bytes: u64,
    received_packets: u64,
    dropped_packets: u64,
    unpaid_packets: u64,
    paced: u64,
    stream_bytes: u64,
    lost_packets: u64,
    spurious_losses: u64,
    rtt: f64,
    min_rtt: f64,
    window: u64,
    in_flight: u64,
    pacing_rate: u64,
    congestion_state: &'static str,
    repairs_sent: u64,
    repairs_received: u64,
    recovered: u64,
    recovered_here: u64,
    datagrams_sent: u64,
    datagrams_received: u64,
    datagrams_lost: u64,
    datagrams_dropped: u64,
}

#[pymethods]
impl ConnectionStats {
    fn __repr__(&self) -> String {
        format!(
            "<quickset.ConnectionStats: {} bytes sent, {} received, {} packets lost, round trip {:.1} ms>",
            self.sent_bytes,
            self.received_bytes,
            self.lost_packets,
            self.rtt * 1e3
        )
    }
}

impl From<&Stats> for ConnectionStats {
    fn from(stats: &Stats) -> Self {
        Self {
            sent_datagrams: stats.sent_datagrams,
            sent_bytes: stats.sent_bytes,
            sent_packets: stats.sent_packets,
            received_datagrams: stats.received_datagrams,
            received_bytes: stats.received_bytes,
            received_packets: stats.received_packets,
            dropped_packets: stats.dropped_packets,
            unpaid_packets: stats.unpaid_packets,
            paced: stats.paced,
            stream_bytes: stats.stream_bytes,
            lost_packets: stats.lost_packets,
            spurious_losses: stats.spurious_losses,
            rtt: stats.rtt.as_secs_f64(),
            min_rtt: stats.min_rtt.as_secs_f64(),
            window: stats.window,
            in_flight: stats.in_flight,
            pacing_rate: stats.pacing_rate,
            congestion_state: stats.congestion_state,
            repairs_sent: stats.fec.repairs_sent,
            repairs_received: stats.fec.repairs_received,
            recovered: stats.fec.recovered,
            recovered_here: stats.fec.recovered_here,
            datagrams_sent: stats.datagrams.sent,
            datagrams_received: stats.datagrams.received,
            datagrams_lost: stats.datagrams.lost,
            datagrams_dropped: stats.datagrams.dropped,
        }
    }
}
