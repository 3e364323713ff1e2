//! Frames: RFC 9000 §19, RFC 9221 §4, draft-ietf-quic-ack-frequency,
//! draft-ietf-quic-reliable-stream-reset, and those of our own `spec/fenced-streams.md`
//! and `spec/fec.md`.
//!
//! In: [`Frames`] goes through a packet's payload and yields frames that borrow from it, or the first fault
//! with its error code. Out: [`Frame::encode`], and for the frames of which there are many, writers that put
//! only the header in front of data that is copied once: [`stream_header`], [`fenced_header`],
//! [`crypto_header`], [`datagram_header`], [`ack`], [`source_symbol_header`], [`repair_header`],
//! [`symbol_ack`]. What a single frame can tell is checked here; what needs the state of a stream or a
//! connection is not.

mod ack;
mod decode;
mod encode;
mod fec;

pub use ack::{Ack, AckRanges, EcnCounts, ack};
pub use decode::{FrameError, Frames};
pub use encode::{
    FencedHeader, crypto_header, crypto_header_size, datagram_header, datagram_header_size, fenced_header,
    fenced_header_size, stream_header, stream_header_size,
};
pub use fec::{
    LoneSymbol, MAX_SYMBOL_RANGES, RepairHeader, SymbolAck, SymbolFrames, repair_header, repair_header_size,
    source_symbol_header, source_symbol_header_size, symbol_ack,
};

use crate::{ConnectionId, Dir, PacketType, ResetToken, StreamId, TransportErrorCode};

/// A frame that borrows its data from the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields have the names and units that the RFC gives them")]
pub enum Frame<'a> {
    /// A run of this many PADDING frames of one byte, RFC 9000 §19.1.
    Padding(usize),
    /// RFC 9000 §19.2.
    Ping,
    /// RFC 9000 §19.3.
    Ack(Ack<'a>),
    /// RFC 9000 §19.4; `code` is the application's.
    ResetStream { id: StreamId, code: u64, final_size: u64 },
    /// RESET_STREAM_AT, draft-ietf-quic-reliable-stream-reset §4: the bytes below `reliable_size`, which is
    /// at most `final_size`, arrive all the same.
    ResetStreamAt { id: StreamId, code: u64, final_size: u64, reliable_size: u64 },
    /// RFC 9000 §19.5; `code` is the application's.
    StopSending { id: StreamId, code: u64 },
    /// RFC 9000 §19.6.
    Crypto { offset: u64, data: &'a [u8] },
    /// RFC 9000 §19.7; the token is never empty.
    NewToken { token: &'a [u8] },
    /// RFC 9000 §19.8. Encoded always with a length.
    Stream { id: StreamId, offset: u64, fin: bool, data: &'a [u8] },
    /// RFC 9000 §19.9.
    MaxData(u64),
    /// RFC 9000 §19.10.
    MaxStreamData { id: StreamId, max: u64 },
    /// RFC 9000 §19.11; at most 2^60.
    MaxStreams { dir: Dir, max: u64 },
    /// RFC 9000 §19.12.
    DataBlocked(u64),
    /// RFC 9000 §19.13.
    StreamDataBlocked { id: StreamId, limit: u64 },
    /// RFC 9000 §19.14; at most 2^60.
    StreamsBlocked { dir: Dir, limit: u64 },
    /// RFC 9000 §19.15; the id has 1 to 20 bytes.
    NewConnectionId { sequence: u64, retire_prior_to: u64, id: ConnectionId, token: ResetToken },
    /// RFC 9000 §19.16.
    RetireConnectionId { sequence: u64 },
    /// RFC 9000 §19.17.
    PathChallenge([u8; 8]),
    /// RFC 9000 §19.18.
    PathResponse([u8; 8]),
    /// CONNECTION_CLOSE of type 0x1c, RFC 9000 §19.19; `frame_type` is 0 when no frame was at fault.
    ConnectionClose { code: TransportErrorCode, frame_type: u64, reason: &'a [u8] },
    /// CONNECTION_CLOSE of type 0x1d, RFC 9000 §19.19.
    ApplicationClose { code: u64, reason: &'a [u8] },
    /// RFC 9000 §19.20.
    HandshakeDone,
    /// RFC 9221 §4; `len`: the frame says how long its data is, and needs not be the last of its packet.
    Datagram { len: bool, data: &'a [u8] },
    /// Data of a fenced stream. The last fence at or before `offset` lies `distance` bytes below it; `start`:
    /// the data begins at a record boundary; `each`: every record boundary inside is a fence.
    Fenced { id: StreamId, offset: u64, distance: u64, start: bool, each: bool, fin: bool, data: &'a [u8] },
    /// Whole records of a fenced stream that will not be sent any more; `len` is at least 1.
    Abandon { id: StreamId, offset: u64, len: u64 },
    /// IMMEDIATE_ACK, draft-ietf-quic-ack-frequency §5: acknowledge at once.
    ImmediateAck,
    /// ACK_FREQUENCY, draft-ietf-quic-ack-frequency §4: acknowledge after more than `threshold` packets that
    /// elicit it, or after `max_delay_us` microseconds.
    AckFrequency { sequence: u64, threshold: u64, max_delay_us: u64, reordering: u64 },
    /// A source symbol: frames of this packet that repairs cover, at least one byte of them.
    /// [`SymbolFrames`] reads them.
    SourceSymbol { session: u64, sid: u64, data: &'a [u8] },
    /// A repair symbol over `count` source symbols, at least 1, from `first` on; the rest is the scheme's.
    Repair { session: u64, first: u64, count: u64, parameter: u64, index: u64, data: &'a [u8] },
    /// Source symbols that were recovered.
    SymbolAck(SymbolAck<'a>),
    /// The decoder's window from now on, in symbols for each session; the greatest `epoch` holds.
    FecWindow { epoch: u64, window: u64 },
    /// Source symbols without a frame of their own, from SID 0 on: the first STREAM frame of each packet
    /// whose number is a bit of `packets`, at least one.
    Unmarked { session: u64, packets: u64 },
}

impl Frame<'_> {
    /// The stream that it is about.
    pub const fn stream(&self) -> Option<StreamId> {
        match *self {
            Self::ResetStream { id, .. }
            | Self::ResetStreamAt { id, .. }
            | Self::StopSending { id, .. }
            | Self::Stream { id, .. }
            | Self::MaxStreamData { id, .. }
            | Self::StreamDataBlocked { id, .. }
            | Self::Fenced { id, .. }
            | Self::Abandon { id, .. } => Some(id),
            Self::Padding(_)
            | Self::Ping
            | Self::Ack(_)
            | Self::Crypto { .. }
            | Self::NewToken { .. }
            | Self::MaxData(_)
            | Self::MaxStreams { .. }
            | Self::DataBlocked(_)
            | Self::StreamsBlocked { .. }
            | Self::NewConnectionId { .. }
            | Self::RetireConnectionId { .. }
            | Self::PathChallenge(_)
            | Self::PathResponse(_)
            | Self::ConnectionClose { .. }
            | Self::ApplicationClose { .. }
            | Self::HandshakeDone
            | Self::Datagram { .. }
            | Self::ImmediateAck
            | Self::AckFrequency { .. }
            | Self::SourceSymbol { .. }
            | Self::Repair { .. }
            | Self::SymbolAck(_)
            | Self::FecWindow { .. }
            | Self::Unmarked { .. } => None,
        }
    }

    /// The frame type, as [`encode`](Self::encode) writes it.
    pub const fn kind(&self) -> u64 {
        match *self {
            Self::Padding(_) => kind::PADDING,
            Self::Ping => kind::PING,
            Self::Ack(ref ack) => kind::ACK | ack.ecn.is_some() as u64,
            Self::ResetStream { .. } => kind::RESET_STREAM,
            Self::ResetStreamAt { .. } => kind::RESET_STREAM_AT,
            Self::StopSending { .. } => kind::STOP_SENDING,
            Self::Crypto { .. } => kind::CRYPTO,
            Self::NewToken { .. } => kind::NEW_TOKEN,
            Self::Stream { offset, fin, .. } => encode::stream_kind(offset, fin, true),
            Self::MaxData(_) => kind::MAX_DATA,
            Self::MaxStreamData { .. } => kind::MAX_STREAM_DATA,
            Self::MaxStreams { dir, .. } => kind::MAX_STREAMS | dir as u64,
            Self::DataBlocked(_) => kind::DATA_BLOCKED,
            Self::StreamDataBlocked { .. } => kind::STREAM_DATA_BLOCKED,
            Self::StreamsBlocked { dir, .. } => kind::STREAMS_BLOCKED | dir as u64,
            Self::NewConnectionId { .. } => kind::NEW_CONNECTION_ID,
            Self::RetireConnectionId { .. } => kind::RETIRE_CONNECTION_ID,
            Self::PathChallenge(_) => kind::PATH_CHALLENGE,
            Self::PathResponse(_) => kind::PATH_RESPONSE,
            Self::ConnectionClose { .. } => kind::CONNECTION_CLOSE,
            Self::ApplicationClose { .. } => kind::APPLICATION_CLOSE,
            Self::HandshakeDone => kind::HANDSHAKE_DONE,
            Self::Datagram { len, .. } => kind::DATAGRAM | len as u64,
            Self::Fenced { start, each, fin, .. } => encode::fenced_kind(start, each, fin),
            Self::Abandon { .. } => kind::ABANDON,
            Self::ImmediateAck => kind::IMMEDIATE_ACK,
            Self::AckFrequency { .. } => kind::ACK_FREQUENCY,
            Self::SourceSymbol { .. } => kind::SOURCE_SYMBOL,
            Self::Repair { .. } => kind::REPAIR,
            Self::SymbolAck(_) => kind::SYMBOL_ACK,
            Self::FecWindow { .. } => kind::FEC_WINDOW,
            Self::Unmarked { .. } => kind::UNMARKED,
        }
    }

    /// True when a packet with this frame must be acknowledged (RFC 9000 §13.2.1, RFC 9002 §2; FS-11, FEC-9).
    #[inline]
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Self::Padding(_)
                | Self::Ack(_)
                | Self::ConnectionClose { .. }
                | Self::ApplicationClose { .. }
                | Self::SymbolAck(_)
        )
    }

    /// True when a packet of such frames alone does not make the peer migrate (RFC 9000 §9.1; FS-12, FEC-10).
    #[inline]
    pub const fn is_probing(&self) -> bool {
        matches!(
            self,
            Self::Padding(_) | Self::PathChallenge(_) | Self::PathResponse(_) | Self::NewConnectionId { .. }
        )
    }

    /// True when a source symbol may hold the frame, a STREAM or DATAGRAM if it has a length (FEC-13).
    #[inline]
    pub const fn allowed_in_symbol(&self) -> bool {
        matches!(
            self,
            Self::Padding(_)
                | Self::Stream { .. }
                | Self::Fenced { .. }
                | Self::Abandon { .. }
                | Self::ResetStream { .. }
                | Self::ResetStreamAt { .. }
                | Self::Datagram { len: true, .. }
        )
    }

    /// True when the frame may come in such a packet (RFC 9000 §12.4, table 3, and §12.5).
    #[inline]
    pub const fn allowed_in(&self, packet: PacketType) -> bool {
        use PacketType::{Handshake, Initial, OneRtt, ZeroRtt};
        match self {
            Self::Padding(_) | Self::Ping | Self::ConnectionClose { .. } => true,
            // RFC 9001 §8.3: without EndOfEarlyData, a handshake has nothing to say in 0-RTT.
            Self::Ack(_) | Self::Crypto { .. } => matches!(packet, Initial | Handshake | OneRtt),
            Self::ResetStream { .. }
            // Remembered of the former connection: draft-ietf-quic-reliable-stream-reset §3.
            | Self::ResetStreamAt { .. }
            | Self::StopSending { .. }
            | Self::Stream { .. }
            | Self::MaxData(_)
            | Self::MaxStreamData { .. }
            | Self::MaxStreams { .. }
            | Self::DataBlocked(_)
            | Self::StreamDataBlocked { .. }
            | Self::StreamsBlocked { .. }
            | Self::NewConnectionId { .. }
            | Self::PathChallenge(_)
            // RFC 9221 §4: application data, so either of the two.
            | Self::Datagram { .. }
            | Self::ApplicationClose { .. } => matches!(packet, ZeroRtt | OneRtt),
            // RFC 9000 §12.5: table 3 lists RETIRE_CONNECTION_ID for 0-RTT, but no honest client can send it
            // there.
            Self::RetireConnectionId { .. }
            | Self::NewToken { .. }
            | Self::PathResponse(_)
            | Self::HandshakeDone
            // RFC 9000 §19.21, FS-6, FEC-7:
            // whether an extension was offered is known only with the peer's parameters, after 0-RTT.
            | Self::Fenced { .. }
            | Self::Abandon { .. }
            | Self::ImmediateAck
            | Self::AckFrequency { .. }
            | Self::SourceSymbol { .. }
            | Self::Repair { .. }
            | Self::SymbolAck(_)
            | Self::FecWindow { .. }
            | Self::Unmarked { .. } => matches!(packet, OneRtt),
        }
    }
}

/// The most streams of a kind that there can be: an id must fit a varint (RFC 9000 §4.6).
pub const MAX_STREAMS: u64 = 1 << 60;

/// Frame types on the wire. The variants of STREAM and FENCED are made with the flags.
pub mod kind {
    #![expect(missing_docs, reason = "the names are those of RFC 9000 table 3")]
    pub const PADDING: u64 = 0x00;
    pub const PING: u64 = 0x01;
    pub const ACK: u64 = 0x02;
    pub const ACK_ECN: u64 = 0x03;
    pub const RESET_STREAM: u64 = 0x04;
    pub const STOP_SENDING: u64 = 0x05;
    pub const CRYPTO: u64 = 0x06;
    pub const NEW_TOKEN: u64 = 0x07;
    pub const STREAM: u64 = 0x08;
    pub const STREAM_FIN: u64 = 0x01;
    pub const STREAM_LEN: u64 = 0x02;
    pub const STREAM_OFF: u64 = 0x04;
    pub const STREAM_LAST: u64 = 0x0f;
    pub const MAX_DATA: u64 = 0x10;
    pub const MAX_STREAM_DATA: u64 = 0x11;
    pub const MAX_STREAMS: u64 = 0x12;
    pub const MAX_STREAMS_UNI: u64 = 0x13;
    pub const DATA_BLOCKED: u64 = 0x14;
    pub const STREAM_DATA_BLOCKED: u64 = 0x15;
    pub const STREAMS_BLOCKED: u64 = 0x16;
    pub const STREAMS_BLOCKED_UNI: u64 = 0x17;
    pub const NEW_CONNECTION_ID: u64 = 0x18;
    pub const RETIRE_CONNECTION_ID: u64 = 0x19;
    pub const PATH_CHALLENGE: u64 = 0x1a;
    pub const PATH_RESPONSE: u64 = 0x1b;
    pub const CONNECTION_CLOSE: u64 = 0x1c;
    pub const APPLICATION_CLOSE: u64 = 0x1d;
    pub const HANDSHAKE_DONE: u64 = 0x1e;
    pub const IMMEDIATE_ACK: u64 = 0x1f;
    pub const RESET_STREAM_AT: u64 = 0x24;
    pub const DATAGRAM: u64 = 0x30;
    pub const DATAGRAM_LEN: u64 = 0x01;
    pub const DATAGRAM_LAST: u64 = 0x31;
    pub const ACK_FREQUENCY: u64 = 0xaf;
    pub const FENCED: u64 = 0x3f50;
    pub const FENCED_FIN: u64 = 0x01;
    pub const FENCED_START: u64 = 0x02;
    pub const FENCED_EACH: u64 = 0x04;
    pub const FENCED_LAST: u64 = 0x3f57;
    pub const ABANDON: u64 = 0x3f58;
    pub const SOURCE_SYMBOL: u64 = 0x3f60;
    pub const REPAIR: u64 = 0x3f61;
    pub const SYMBOL_ACK: u64 = 0x3f62;
    pub const FEC_WINDOW: u64 = 0x3f63;
    pub const UNMARKED: u64 = 0x3f64;
}
