use std::time::Duration;

use quickset_wire::frame::MAX_STREAMS;
use quickset_wire::{TransportParams, varint};

use crate::cids;
use crate::config::TransportConfig;

/// The transport parameters that follow from `config`; the connection ids come later.
pub(crate) fn announce(config: &TransportConfig) -> TransportParams {
    let window = config.stream_window.min(config.max_stream_window).min(varint::MAX);
    // A fenced stream must be able to take its largest record with its header before credit returns.
    let record = config.fenced_streams.map(|max| max.clamp(MIN_RECORD, varint::MAX - RECORD_HEADER));
    let least = record.map_or(0, |max| max + RECORD_HEADER);
    let window = window.max(least);
    // One stream alone does not use up what the others need to begin.
    let total = (window + window / 2).min(config.max_connection_window.max(least)).min(varint::MAX);
    TransportParams {
        max_idle_timeout: config.idle_timeout.unwrap_or(Duration::ZERO),
        initial_max_data: total,
        initial_max_stream_data_bidi_local: window,
        initial_max_stream_data_bidi_remote: window,
        initial_max_stream_data_uni: window,
        initial_max_streams_bidi: config.max_bidi_streams.min(MAX_STREAMS),
        initial_max_streams_uni: config.max_uni_streams.min(MAX_STREAMS),
        // RFC 9000 §18.2: whole milliseconds below 2^14; what is below one is rounded up.
        max_ack_delay: whole_millis(config.max_ack_delay).min(MAX_ACK_DELAY),
        disable_active_migration: true,
        active_connection_id_limit: cids::LIMIT,
        fenced_streams: record,
        ..TransportParams::default()
    }
}

fn whole_millis(d: Duration) -> Duration {
    Duration::from_millis(u64::try_from(d.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// The least that fenced streams may announce, and what a record's header takes at most.
const MIN_RECORD: u64 = 1200;
const RECORD_HEADER: u64 = 8;

const MAX_ACK_DELAY: Duration = Duration::from_millis((1 << 14) - 1);
