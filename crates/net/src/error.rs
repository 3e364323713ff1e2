use std::net::SocketAddr;

use quickset_quic::{self as quic, Closed};

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint is closed and begins no connections; make another one.
    #[error("the endpoint is closed; make another one to connect")]
    Stopped,
    /// The endpoint's socket does not speak the address's family, IPv6 or IPv4.
    #[error(
        "{0} cannot be reached from a socket of the other family; bind the endpoint to an address of this one, or to [::]"
    )]
    Family(SocketAddr),
    /// The address, the server's name or the configuration cannot be used.
    #[error(transparent)]
    Refused(#[from] quic::BeginError),
    /// The handshake failed.
    #[error(transparent)]
    Failed(Closed),
}

/// Why bytes cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer wants no more of this stream, and said so with this code.
    #[error("the peer wants no more of the stream, with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset here; open another one.
    #[error("the stream was finished or reset; open another one")]
    Ended,
    /// The connection is over.
    #[error(transparent)]
    Closed(Closed),
}

/// Why bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer gave the stream up with this code; what was not read is gone.
    #[error("the peer gave the stream up with code {0}")]
    Reset(u64),
    /// The peer sends messages on it, and no bytes.
    #[error("the peer sends messages on this stream; take it with `into_messages` or `accept_messages`")]
    Messages,
    /// The connection is over.
    #[error(transparent)]
    Closed(Closed),
}

/// Why a stream cannot be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadToEndError {
    /// It is longer than the limit, in bytes; read it piece by piece instead.
    #[error("the stream is longer than {0} bytes; read it piece by piece")]
    TooLong(usize),
    /// It cannot be read at all.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a buffer was not filled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadExactError {
    /// The stream ended after these bytes.
    #[error("the stream ended after {0} bytes, before the buffer was full")]
    TooShort(usize),
    /// It cannot be read at all.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// It is longer than the peer takes; send it in parts.
    #[error("the message is longer than {max} bytes, the most that the peer takes; send it in parts")]
    TooLong {
        /// The longest message, in bytes.
        max: u64,
    },
    /// The peer wants no more of these messages, and said so with this code.
    #[error("the peer wants no more messages, with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset here; open another one.
    #[error("the stream of messages was finished or reset; open another one")]
    Ended,
    /// The connection is over.
    #[error(transparent)]
    Closed(Closed),
}

/// Why a message was not taken at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError {
    /// The send buffer is full; the message comes back. `send` would wait.
    #[error("the send buffer is full; wait with `send`")]
    Full(bytes::Bytes),
    /// It will not be taken later either.
    #[error(transparent)]
    Failed(#[from] SendError),
}

/// Why a datagram was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatagramError {
    /// The peer takes no datagrams; send messages instead.
    #[error("the peer takes no datagrams; send messages instead")]
    Unsupported,
    /// It is longer than the peer takes, or than fits a packet of the path.
    #[error("the datagram is longer than {max} bytes, the most that fits a packet")]
    TooLong {
        /// The longest datagram, in bytes.
        max: usize,
    },
    /// The connection is over.
    #[error(transparent)]
    Closed(Closed),
}

/// Why a datagram was not taken at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryDatagramError {
    /// The send queue is full; the datagram comes back. `send_datagram` would wait.
    #[error("the send queue of datagrams is full; wait with `send_datagram`")]
    Full(bytes::Bytes),
    /// It will not be taken later either.
    #[error(transparent)]
    Failed(#[from] DatagramError),
}

/// Why there are no more messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The peer gave the stream up with this code.
    #[error("the peer gave the stream of messages up with code {0}")]
    Reset(u64),
    /// What the peer's application sends are no messages, or one is longer than we take.
    #[error("the stream does not hold messages that can be read: {0}")]
    Malformed(&'static str),
    /// The connection is over.
    #[error(transparent)]
    Closed(Closed),
}

impl From<Closed> for ReadError {
    fn from(closed: Closed) -> Self {
        Self::Closed(closed)
    }
}

impl From<Closed> for WriteError {
    fn from(closed: Closed) -> Self {
        Self::Closed(closed)
    }
}

impl From<WriteError> for std::io::Error {
    fn from(error: WriteError) -> Self {
        use std::io::ErrorKind;
        let kind = match &error {
            WriteError::Stopped(_) => ErrorKind::ConnectionReset,
            WriteError::Ended => ErrorKind::BrokenPipe,
            WriteError::Closed(closed) => kind_of(closed),
        };
        Self::new(kind, error)
    }
}

impl From<ReadError> for std::io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Reset(_) => std::io::ErrorKind::ConnectionReset,
            ReadError::Messages => std::io::ErrorKind::InvalidData,
            ReadError::Closed(closed) => kind_of(closed),
        };
        Self::new(kind, error)
    }
}

impl From<ReadExactError> for std::io::Error {
    fn from(error: ReadExactError) -> Self {
        match error {
            ReadExactError::Read(error) => error.into(),
            short @ ReadExactError::TooShort(_) => Self::new(std::io::ErrorKind::UnexpectedEof, short),
        }
    }
}

fn kind_of(closed: &Closed) -> std::io::ErrorKind {
    use std::io::ErrorKind;
    match closed {
        Closed::Unreachable(refusal) => match refusal.obstacle {
            quic::Obstacle::Port => ErrorKind::ConnectionRefused,
            quic::Obstacle::Rule => ErrorKind::PermissionDenied,
            _ => ErrorKind::HostUnreachable,
        },
        Closed::TimedOut => ErrorKind::TimedOut,
        Closed::Reset => ErrorKind::ConnectionReset,
        _ => ErrorKind::ConnectionAborted,
    }
}

/// A connection has no key material to export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there are no keys to export: the handshake is not through, the connection is over, or more was asked for than 255 hashes are long"
)]
pub struct ExportError;
