use ::qlog::events::RawInfo;
use quickset_wire::StreamId;
use quickset_wire::frame::{Frame, SymbolAck};
use serde::Serialize;

/// A frame of `spec/fenced-streams.md`, `spec/fec.md` or draft-ietf-quic-ack-frequency: unknown to viewers,
/// which show its fields as they are.
#[derive(Serialize)]
pub(super) struct TracedExtension {
    frame_type: &'static str,
    raw_frame_type: u64,
    #[serde(rename = "extension")]
    name: &'static str,
    #[serde(flatten)]
    fields: ExtensionFields,
    raw: RawInfo,
}

/// What only frames of this kind have.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ExtensionFields {
    None {},
    Fenced { stream_id: u64, offset: u64, length: u64, distance: u64, start: bool, each: bool, fin: bool },
    Abandon { stream_id: u64, offset: u64, length: u64 },
    Reset { stream_id: u64, error_code: u64, final_size: u64, reliable_size: u64 },
    Frequency { sequence: u64, threshold: u64, max_delay_us: u64, reordering: u64 },
    Symbol { session: u64, sid: u64 },
    Repair { session: u64, first: u64, count: u64, parameter: u64, index: u64 },
    Recovered { session: u64, sids: Vec<(u64, u64)> },
    Window { epoch: u64, window: u64 },
    Unmarked { session: u64, packets: u64 },
}

impl TracedExtension {
    /// `frame` under this name, with `payload` bytes of data.
    pub(super) fn new(
        frame: &Frame<'_>,
        name: &'static str,
        fields: ExtensionFields,
        payload: usize,
    ) -> Self {
        let raw = RawInfo {
            length: Some(frame.size() as u64),
            payload_length: Some(payload as u64),
            ..RawInfo::default()
        };
        Self { frame_type: "unknown", raw_frame_type: frame.kind(), name, fields, raw }
    }
}

impl ExtensionFields {
    pub(super) fn reset(id: StreamId, error_code: u64, final_size: u64, reliable_size: u64) -> Self {
        Self::Reset { stream_id: id.0, error_code, final_size, reliable_size }
    }

    pub(super) fn abandon(id: StreamId, offset: u64, length: u64) -> Self {
        Self::Abandon { stream_id: id.0, offset, length }
    }

    /// The symbols as acknowledged packets are told: the oldest first.
    pub(super) fn recovered(ack: &SymbolAck<'_>) -> Self {
        let mut sids: Vec<_> = ack.ranges().map(|r| (*r.start(), *r.end())).collect();
        sids.reverse();
        Self::Recovered { session: ack.session, sids }
    }
}
