use bytes::Bytes;
use quickset_quic::{Dir, StreamId};

use crate::{Error, ErrorCode, Field, MalformedMessage, Priority, Request, Response, Settings};

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The peer's settings are known.
    Settings(Settings),
    /// A request came; its content is to be read.
    Request {
        /// Its stream.
        id: StreamId,
        /// Its head.
        request: Request,
        /// How urgent the client finds it.
        priority: Priority,
    },
    /// A response came before the final one (1xx).
    Interim {
        /// The request's stream.
        id: StreamId,
        /// Its head, which is all of it.
        response: Response,
    },
    /// The response came; its content is to be read.
    Response {
        /// The request's stream.
        id: StreamId,
        /// Its head.
        response: Response,
    },
    /// There is more to [`read`](super::Connection::read), after it was `Blocked`.
    Readable(StreamId),
    /// There is room to send, after there was none.
    Writable(StreamId),
    /// The peer wants no more of what is sent on this stream, with its code; H3_NO_ERROR is no reproach.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The peer's code.
        code: u64,
    },
    /// Nothing more will come of this request, or of this response, and nothing more can be sent.
    Aborted {
        /// The stream.
        id: StreamId,
        /// Why.
        why: Abort,
    },
    /// The client changed its mind about how urgent a response is.
    Priority {
        /// The request's stream.
        id: StreamId,
        /// What it thinks now.
        priority: Priority,
    },
    /// After the peer allowed no more: a request can be made, or a bidirectional stream of a session opened;
    /// or a unidirectional stream of a session.
    Available(Dir),
    /// The peer takes no new requests; those that it will not have served were aborted as `Rejected`.
    GoAway,
    /// An HTTP datagram, of a request or session.
    Datagram {
        /// The request's stream.
        id: StreamId,
        /// Its payload.
        payload: Bytes,
    },
    /// No more datagrams come with this exchange, after [`listen`](super::Connection::listen) said that some
    /// may.
    Silent(StreamId),
    /// The peer opened a stream of a WebTransport session.
    SessionStream {
        /// The session: the stream of its CONNECT.
        session: StreamId,
        /// The stream.
        id: StreamId,
        /// Whether it can be written to.
        dir: Dir,
    },
    /// The peer asks that a WebTransport session end soon.
    SessionDraining(StreamId),
    /// A WebTransport session is over, and its streams with it.
    SessionClosed {
        /// The session.
        session: StreamId,
        /// The peer's code; 0 without one.
        code: u32,
        /// The peer's reason; it should be text.
        reason: Bytes,
    },
    /// The peer broke the protocol; the connection was closed with this.
    Closed(Error),
}

/// Why a request or response ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Abort {
    /// The peer gave it up with this code.
    #[error("given up by the peer with code {}", ErrorCode(*.0))]
    Reset(u64),
    /// The peer did nothing with the request: it may be sent again, on another connection.
    #[error("not processed by the server; make the request again on another connection")]
    Rejected,
    /// It broke the rules of HTTP.
    #[error(transparent)]
    Malformed(MalformedMessage),
    /// Its fields are larger than we take, or its interim responses too many or too large together.
    #[error("a field section that is too large")]
    TooLarge,
}

impl Abort {
    /// What a reset with this code says.
    pub(super) fn by_code(code: u64) -> Self {
        if code == ErrorCode::H3_REQUEST_REJECTED.0 { Self::Rejected } else { Self::Reset(code) }
    }
}

/// What [`read`](super::Connection::read) gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyRead {
    /// The next bytes of content, never none.
    Data(Bytes),
    /// The trailers; the end follows.
    Trailers(Vec<Field>),
    /// Nothing yet; there will be an [`Event::Readable`].
    Blocked,
    /// That was all.
    Finished,
}

/// Why a verb did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbRefusal {
    /// No room: for data until [`Event::Writable`], for a request or a stream until [`Event::Available`].
    #[error("no room")]
    Blocked,
    /// There is no such stream, it is over, or it is not what the verb needs.
    #[error("no such stream")]
    UnknownStream,
    /// Not in this order: head, content, trailers, end.
    #[error("out of order")]
    OutOfOrder,
    /// The message breaks a rule of HTTP.
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
    /// The field section is larger than the peer takes.
    #[error("the field section is larger than the peer takes")]
    TooLarge,
    /// The peer does not speak it, or has not said so yet.
    #[error("not supported by the peer")]
    Unsupported,
    /// There is a session of WebTransport already, and one at a time is all there may be.
    #[error("one session at a time")]
    TooManySessions,
    /// The peer, or we, said goodbye: no new requests.
    #[error("the connection is going away; make the request again on another one")]
    GoingAway,
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
    /// The message ended before its end.
    #[error(transparent)]
    Aborted(Abort),
}
