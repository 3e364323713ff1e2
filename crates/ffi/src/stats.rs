//! What a connection has counted, as C reads it.

use quickset::Stats;

use crate::border::put_sized;
use crate::connection::{ConnectionObject, QsConnection};
use crate::messages::micros;
use crate::status::{QsStatus, call};
use crate::table::get;

// sizes: C reads one flat struct, which grows at its end
/// What a connection has counted so far, and what it knows of its path.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QsStats {
    /// Set it to `sizeof(qs_stats)` before the call; afterwards it is how many bytes were stored.
    pub size: u64,
    /// UDP datagrams sent.
    pub sent_datagrams: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// QUIC packets sent; several may share a datagram.
    pub sent_packets: u64,
    /// UDP datagrams received.
    pub received_datagrams: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Authentic packets received, duplicates not counted.
    pub received_packets: u64,
    /// Packets that could not be read.
    pub dropped_packets: u64,
    /// Packets of ours declared lost.
    pub lost_packets: u64,
    /// Of those: acknowledged later.
    pub spurious_losses: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Bytes of streams sent, each counted once.
    pub stream_bytes: u64,
    /// The smoothed round-trip time, in microseconds.
    pub rtt_us: u64,
    /// The least round-trip time, in microseconds.
    pub min_rtt_us: u64,
    /// The congestion window, in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// The rate at which packets are paced, in bytes per second.
    pub pacing_rate: u64,
    /// The largest UDP payload that is sent, in bytes.
    pub mtu: u64,
    /// Repair symbols sent.
    pub repairs_sent: u64,
    /// Their bytes.
    pub repair_bytes: u64,
    /// Symbols of ours that the peer recovered.
    pub recovered: u64,
    /// Symbols of ours that were lost and had to be sent again.
    pub unrecovered: u64,
    /// Symbols of the peer that this side recovered.
    pub recovered_here: u64,
    /// The estimated share of packets that are lost on the way to the peer, in parts per million.
    pub loss_ppm: u64,
    /// Unreliable datagrams sent.
    pub unreliable_sent: u64,
    /// Of those: lost.
    pub unreliable_lost: u64,
    /// Unreliable datagrams received.
    pub unreliable_received: u64,
    /// Of those: dropped, since nobody received them in time.
    pub unreliable_dropped: u64,
    /// Packets received and dropped as if lost: no memory was left for them, or they asked for more work than
    /// packets pay for.
    pub unpaid_packets: u64,
    /// How often the peer asked for so much work that it was paced.
    pub paced: u64,
}

impl QsStats {
    fn of(stats: &Stats) -> Self {
        Self {
            size: 0,
            sent_datagrams: stats.sent_datagrams,
            sent_bytes: stats.sent_bytes,
            sent_packets: stats.sent_packets,
            received_datagrams: stats.received_datagrams,
            received_bytes: stats.received_bytes,
            received_packets: stats.received_packets,
            dropped_packets: stats.dropped_packets,
            lost_packets: stats.lost_packets,
            spurious_losses: stats.spurious_losses,
            probe_timeouts: stats.ptos,
            stream_bytes: stats.stream_bytes,
            rtt_us: micros(stats.rtt),
            min_rtt_us: micros(stats.min_rtt),
            window: stats.window,
            in_flight: stats.in_flight,
            pacing_rate: stats.pacing_rate,
            mtu: stats.mtu.current as u64,
            repairs_sent: stats.fec.repairs_sent,
            repair_bytes: stats.fec.repair_bytes,
            recovered: stats.fec.recovered,
            unrecovered: stats.fec.unrecovered,
            recovered_here: stats.fec.recovered_here,
            loss_ppm: stats.fec.loss_ppm.into(),
            unreliable_sent: stats.datagrams.sent,
            unreliable_lost: stats.datagrams.lost,
            unreliable_received: stats.datagrams.received,
            unreliable_dropped: stats.datagrams.dropped,
            unpaid_packets: stats.unpaid_packets,
            paced: stats.paced,
        }
    }
}

/// Stores what the connection has counted so far. Set the field `size` before: a program that was built with
/// fewer fields gets those.
///
/// # Safety
/// `stats` leads to as many bytes as its field `size` says, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_stats(connection: QsConnection, stats: *mut QsStats) -> QsStatus {
    call(|| {
        let whole = QsStats::of(&get::<ConnectionObject>(connection)?.connection()?.stats());
        // SAFETY: the caller vouches for it, and a `QsStats` is as it has to be.
        unsafe { put_sized(stats, &whole) }
    })
}
