use quickset_wire::{Dir, Space};

/// What a packet held, kept with the sent packet until that is acknowledged or declared lost.
///
/// `recovery` stores tokens and reads none of them; `conn` hands each back to its owner by one
/// exhaustive match. A new frame adds a variant here, and the compiler lists the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameToken {
    /// Nothing to tell anybody: PING, PADDING with a purpose, or a token that was taken already.
    Nothing,
    /// An ACK frame that reported everything up to `largest` (RFC 9000 §13.2.4).
    Ack { space: Space, largest: u64 },
    /// A request for acknowledgements of another frequency, by its number.
    AckFrequency { sequence: u64 },
    /// Handshake bytes.
    Crypto { space: Space, offset: u64, len: u32 },
    /// Bytes of a stream, as STREAM frames; `fin` when the frame ended it.
    Stream { key: StreamKey, offset: u64, len: u32, fin: bool },
    /// Bytes of a fenced stream.
    Fenced { key: StreamKey, offset: u64, len: u32, fin: bool },
    /// Records given up. The range is looked up by its offset.
    Abandon { key: StreamKey, offset: u64 },
    /// RESET_STREAM of a stream's sending half; RESET_STREAM_AT when bytes are to arrive all the same.
    ResetStream { key: StreamKey, reliable: u64 },
    /// STOP_SENDING of a stream's receiving half.
    StopSending { key: StreamKey },
    /// Connection credit, the limit as sent.
    MaxData { max: u64 },
    /// Stream credit, the limit as sent.
    MaxStreamData { key: StreamKey, max: u64 },
    /// Leave to open streams, the limit as sent.
    MaxStreams { dir: Dir, max: u64 },
    /// We are blocked by connection credit.
    DataBlocked { limit: u64 },
    /// We are blocked by stream credit.
    StreamDataBlocked { key: StreamKey, limit: u64 },
    /// We may not open more streams.
    StreamsBlocked { dir: Dir, limit: u64 },
    /// A connection id of ours.
    NewConnectionId { sequence: u64 },
    /// A connection id of the peer's that we stop using.
    RetireConnectionId { sequence: u64 },
    /// An address validation token for later connections, by its number.
    NewToken { number: u32 },
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    HandshakeDone,
    /// A challenge to a path. It is never resent as it is (RFC 9000 §13.3).
    PathChallenge,
    /// A datagram that tries whether a path, named as in `recovery`, takes as many bytes. It is never resent.
    MtuProbe { path: u8, size: u16 },
    /// A source symbol of forward erasure correction that wraps the next `n` tokens.
    Symbol { session: u32, sid: u64, n: u16 },
    /// A repair symbol of a session, by its number there. It is never resent.
    Repair { session: u32, serial: u64 },
    /// A SYMBOL_ACK that told all recoveries of a session up to `epoch`, of symbols from `first` on.
    SymbolAck { session: u32, epoch: u64, first: u64 },
    /// FEC_WINDOW.
    FecWindow { epoch: u64 },
    /// A datagram, by its ticket, and whether its outcome is wanted. It is never resent.
    Datagram { number: u64, reported: bool },
}

const _: () = assert!(size_of::<FrameToken>() <= 24, "tokens are kept for each frame in flight");

/// Names a stream in its slab: an index, and a generation that tells an old use of the slot from a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Whose data goes together: under one policy of what is protected, and of a source symbol all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Channel {
    /// All streams without a channel of their own.
    Connection,
    /// One stream.
    Stream(StreamKey),
    /// All datagrams.
    Datagrams,
}
