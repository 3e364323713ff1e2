use quickset_wire::{Dir, StreamId};

use super::fenced;

/// News of the streams. Each is told once and again only after the application has acted on it: read or
/// written until `Blocked`, accepted or tried to open a stream until there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer opened streams of this kind: `accept` them.
    Opened(Dir),
    /// The peer allows more streams of this kind than when `open` last failed.
    Available(Dir),
    /// There is data, an end or a reset to `read`.
    Readable(StreamId),
    /// A `write` that was refused may succeed now.
    Writable(StreamId),
    /// The peer wants no more of this stream (STOP_SENDING); it was reset with the peer's code.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The peer application's code.
        code: u64,
    },
    /// Everything written to the stream, and its end, has arrived.
    Finished(StreamId),
    /// The peer knows that we gave the stream up, and has what we promised of it all the same. Not told of a
    /// stream that the peer [stopped](Self::Stopped).
    ResetArrived(StreamId),
    /// There is a message to take with `next_message`, or the end of the messages.
    Message(StreamId),
    /// The fate of a message is known: `next_outcome`. A stream of messages is let go when all were
    /// collected.
    Outcome(StreamId),
}

/// Why `write` took nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The send buffer is full; [`StreamEvent::Writable`] tells when to go on.
    #[error("the send buffer of the stream is full")]
    Blocked,
    /// The peer wants no more, and said so with this code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset here.
    #[error("the stream was finished or reset")]
    Ended,
    /// The stream carries messages, not bytes.
    #[error("the stream carries messages")]
    Messages,
    /// There is no such stream, it has ended, or it has no sending half.
    #[error("no such stream to write to")]
    UnknownStream,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The send buffer is full, or too many outcomes were not collected; [`StreamEvent::Writable`] tells
    /// when to go on.
    #[error("the send buffer of the stream is full")]
    Blocked,
    /// The message is longer than the peer takes.
    #[error("the message is longer than {max} bytes, the most that the peer takes")]
    TooLong {
        /// The longest message, in bytes.
        max: u64,
    },
    /// The peer wants no more, and said so with this code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset here.
    #[error("the stream was finished or reset")]
    Ended,
    /// The stream carries bytes, not messages.
    #[error("the stream does not carry messages")]
    Bytes,
    /// There is no such stream, it has ended, or it has no sending half.
    #[error("no such stream to send on")]
    UnknownStream,
}

impl From<fenced::QueueError> for SendError {
    fn from(error: fenced::QueueError) -> Self {
        match error {
            fenced::QueueError::TooLong { max } => Self::TooLong { max },
            fenced::QueueError::Finished | fenced::QueueError::Reset => Self::Ended,
        }
    }
}

/// Why a stream could not be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinishError {
    /// The peer wants no more, and said so with this code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset before.
    #[error("the stream was finished or reset")]
    Ended,
    /// There is no such stream, it has ended, or it has no sending half.
    #[error("no such stream to finish")]
    UnknownStream,
}

/// Why a stream could not be reset behind a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResetAtError {
    /// The peer does not take RESET_STREAM_AT, or it is not known yet whether it does.
    #[error("the peer takes no reset behind a part that arrives")]
    Unsupported,
    /// The stream carries messages, not bytes.
    #[error("the stream carries messages")]
    Messages,
    /// The stream carries bytes, not messages.
    #[error("the stream does not carry messages")]
    Bytes,
    /// There is no such stream, it has ended, or it has no sending half.
    #[error("no such stream to reset")]
    UnknownStream,
}

/// Why `read` has nothing to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The peer gave up the stream with this code; what was not read is gone.
    #[error("the peer reset the stream with code {0}")]
    Reset(u64),
    /// The stream carries messages, not bytes.
    #[error("the stream carries messages")]
    Messages,
    /// The stream carries bytes, not messages.
    #[error("the stream does not carry messages")]
    Bytes,
    /// The stream is read in any order, not by `read`.
    #[error("the stream is read in any order")]
    Unordered,
    /// The stream is read in order, not by `read_unordered`.
    #[error("the stream is read in order")]
    Ordered,
    /// All messages were read, and no more will come.
    #[error("all messages were read")]
    Finished,
    /// A message is longer than this side takes; what follows cannot be read. Time to `stop` the stream.
    #[error("a message is too long")]
    TooLong,
    /// The stream ended inside a message.
    #[error("the stream ended inside a message")]
    Truncated,
    /// There is no such stream, it was read to its end, or it has no receiving half.
    #[error("no such stream to read from")]
    UnknownStream,
}

/// There is no such stream, or not with the half that this needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such stream")]
pub struct UnknownStream;

/// What `read` gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// The next bytes, never empty.
    Data(bytes::Bytes),
    /// Nothing yet; [`StreamEvent::Readable`] tells when to go on.
    Blocked,
    /// That was all; the stream cannot be read from again.
    Finished,
}

/// What `read_unordered` gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes, never none, and where on the stream they begin.
    Data {
        /// The offset of the first.
        offset: u64,
        /// The bytes.
        bytes: bytes::Bytes,
    },
    /// Nothing yet; [`StreamEvent::Readable`] tells when to go on.
    Blocked,
    /// Every byte was read; the stream cannot be read from again.
    Finished,
}

/// How far a sending half has come (RFC 9000 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendState {
    /// More may be written ("Ready" or "Send").
    Open,
    /// The end was written, and not all is acknowledged ("Data Sent", or on the way there).
    Finishing,
    /// Everything is acknowledged ("Data Recvd").
    Finished,
    /// Given up ("Reset Sent").
    Reset,
    /// The peer knows that it was given up ("Reset Recvd").
    ResetAcked,
}

/// How far a receiving half has come (RFC 9000 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvState {
    /// More may come ("Recv").
    Open,
    /// The end is known, and something before it is missing ("Size Known").
    SizeKnown,
    /// Everything has come, and not all was read ("Data Recvd").
    Complete,
    /// Read to the end ("Data Read").
    Read,
    /// Given up by the peer; the application does not know yet ("Reset Recvd").
    Reset,
    /// The application knows that it was given up ("Reset Read"), or wanted no more of it.
    Closed,
}
