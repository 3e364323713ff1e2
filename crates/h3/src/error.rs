use core::fmt;

/// An error code of HTTP/3 as RESET_STREAM, STOP_SENDING and CONNECTION_CLOSE carry it, at most 2^62 - 1
/// (RFC 9114 §8.1, RFC 9204 §6, RFC 9297 §5.2, draft-ietf-webtrans-http3 §9.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub u64);

impl ErrorCode {
    /// A datagram or capsule that cannot be read.
    pub const H3_DATAGRAM_ERROR: Self = Self(0x33);
    /// No error: the connection or stream is just not needed any more.
    pub const H3_NO_ERROR: Self = Self(0x100);
    /// A breach of the protocol that no other code tells, or that is not told.
    pub const H3_GENERAL_PROTOCOL_ERROR: Self = Self(0x101);
    /// Something broke on the side that says so.
    pub const H3_INTERNAL_ERROR: Self = Self(0x102);
    /// A stream that the peer does not accept.
    pub const H3_STREAM_CREATION_ERROR: Self = Self(0x103);
    /// A stream that the connection needs was closed.
    pub const H3_CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame where it must not be.
    pub const H3_FRAME_UNEXPECTED: Self = Self(0x105);
    /// A frame that cannot be read, or is too large.
    pub const H3_FRAME_ERROR: Self = Self(0x106);
    /// The peer makes too much work.
    pub const H3_EXCESSIVE_LOAD: Self = Self(0x107);
    /// A stream or push id that was used wrongly.
    pub const H3_ID_ERROR: Self = Self(0x108);
    /// A SETTINGS frame with something wrong in it.
    pub const H3_SETTINGS_ERROR: Self = Self(0x109);
    /// The control stream does not begin with SETTINGS.
    pub const H3_MISSING_SETTINGS: Self = Self(0x10a);
    /// The server did nothing with the request: it may be sent again.
    pub const H3_REQUEST_REJECTED: Self = Self(0x10b);
    /// The request, or its response, is not wanted any more.
    pub const H3_REQUEST_CANCELLED: Self = Self(0x10c);
    /// The client ended the stream before its request was complete.
    pub const H3_REQUEST_INCOMPLETE: Self = Self(0x10d);
    /// A message that is malformed.
    pub const H3_MESSAGE_ERROR: Self = Self(0x10e);
    /// The TCP connection behind a CONNECT broke.
    pub const H3_CONNECT_ERROR: Self = Self(0x10f);
    /// The resource is not served over HTTP/3.
    pub const H3_VERSION_FALLBACK: Self = Self(0x110);
    /// A field section that cannot be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: Self = Self(0x200);
    /// An instruction on the encoder stream that cannot be obeyed.
    pub const QPACK_ENCODER_STREAM_ERROR: Self = Self(0x201);
    /// An instruction on the decoder stream that cannot be obeyed.
    pub const QPACK_DECODER_STREAM_ERROR: Self = Self(0x202);
    /// A stream for a WebTransport session that is not there, and too many wait already.
    pub const WT_BUFFERED_STREAM_REJECTED: Self = Self(0x3994_bd84);
    /// The WebTransport session of the stream is over.
    pub const WT_SESSION_GONE: Self = Self(0x170d_7b68);

    /// More of a WebTransport session than was allowed, or flow control that it has not.
    pub const WT_FLOW_CONTROL_ERROR: Self = Self(0x045d_4487);
    /// The application protocol of a WebTransport session is none that was offered.
    pub const WT_ALPN_ERROR: Self = Self(0x0817_b3dd);

    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::H3_DATAGRAM_ERROR => "H3_DATAGRAM_ERROR",
            Self::H3_NO_ERROR => "H3_NO_ERROR",
            Self::H3_GENERAL_PROTOCOL_ERROR => "H3_GENERAL_PROTOCOL_ERROR",
            Self::H3_INTERNAL_ERROR => "H3_INTERNAL_ERROR",
            Self::H3_STREAM_CREATION_ERROR => "H3_STREAM_CREATION_ERROR",
            Self::H3_CLOSED_CRITICAL_STREAM => "H3_CLOSED_CRITICAL_STREAM",
            Self::H3_FRAME_UNEXPECTED => "H3_FRAME_UNEXPECTED",
            Self::H3_FRAME_ERROR => "H3_FRAME_ERROR",
            Self::H3_EXCESSIVE_LOAD => "H3_EXCESSIVE_LOAD",
            Self::H3_ID_ERROR => "H3_ID_ERROR",
            Self::H3_SETTINGS_ERROR => "H3_SETTINGS_ERROR",
            Self::H3_MISSING_SETTINGS => "H3_MISSING_SETTINGS",
            Self::H3_REQUEST_REJECTED => "H3_REQUEST_REJECTED",
            Self::H3_REQUEST_CANCELLED => "H3_REQUEST_CANCELLED",
            Self::H3_REQUEST_INCOMPLETE => "H3_REQUEST_INCOMPLETE",
            Self::H3_MESSAGE_ERROR => "H3_MESSAGE_ERROR",
            Self::H3_CONNECT_ERROR => "H3_CONNECT_ERROR",
            Self::H3_VERSION_FALLBACK => "H3_VERSION_FALLBACK",
            Self::QPACK_DECOMPRESSION_FAILED => "QPACK_DECOMPRESSION_FAILED",
            Self::QPACK_ENCODER_STREAM_ERROR => "QPACK_ENCODER_STREAM_ERROR",
            Self::QPACK_DECODER_STREAM_ERROR => "QPACK_DECODER_STREAM_ERROR",
            Self::WT_BUFFERED_STREAM_REJECTED => "WT_BUFFERED_STREAM_REJECTED",
            Self::WT_SESSION_GONE => "WT_SESSION_GONE",
            Self::WT_FLOW_CONTROL_ERROR => "WT_FLOW_CONTROL_ERROR",
            Self::WT_ALPN_ERROR => "WT_ALPN_ERROR",
            _ => return None,
        })
    }
}

/// The name of the RFC, or the number.
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The peer broke a rule; the connection cannot go on and is closed with the code (RFC 9114 §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct Error {
    /// For the peer.
    pub code: ErrorCode,
    /// What happened, for people.
    pub reason: &'static str,
}

impl Error {
    pub(crate) const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }
}
