use quickset_wire::varint;

use super::RECORD_PREFIX;

/// What is set of streams; [`TransportConfig`](crate::TransportConfig) says what each is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamSettings {
    pub(crate) max_bidi_streams: u64,
    pub(crate) max_uni_streams: u64,
    pub(crate) stream_window: u64,
    pub(crate) max_stream_window: u64,
    pub(crate) max_connection_window: u64,
    pub(crate) send_buffer: u64,
    pub(crate) connection_send_buffer: u64,
    pub(crate) fenced_streams: Option<u64>,
    pub(crate) max_fenced_streams: u64,
    pub(crate) max_classes: usize,
    pub(crate) reset_stream_at: bool,
}

impl StreamSettings {
    /// The receive windows at the start, of a stream and of the connection.
    pub(super) fn first_windows(&self) -> (u64, u64) {
        let least = self.least_window();
        let stream = self.stream_window.min(self.max_stream_window).min(varint::MAX).max(least);
        // One stream alone does not use up what the others need to begin.
        let connection = stream.saturating_add(stream / 2).min(self.max_connection_window.max(least));
        (stream, connection.min(varint::MAX))
    }

    /// FS-35: the longest record has to fit a window, or it could never be received.
    pub(super) fn least_window(&self) -> u64 {
        self.max_record().map_or(0, |max| max + RECORD_PREFIX)
    }

    /// The longest record that we take, in bytes of payload, if we take any (FS-2: at least 1200).
    pub(super) fn max_record(&self) -> Option<u64> {
        self.fenced_streams.map(|max| max.clamp(1200, varint::MAX - RECORD_PREFIX))
    }

    /// Streams of each kind that carry messages at most; without an offer of ours the peer cannot fence any.
    pub(super) fn max_fenced(&self) -> u64 {
        self.fenced_streams.map_or(u64::MAX, |_| self.max_fenced_streams.max(1))
    }
}
