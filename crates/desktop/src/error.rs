use quickset::h3::HttpError;
use quickset::h3::webtransport::SessionError;
use quickset::{Closed, ReceiveError, SendError};
use quickset_web::DatagramFault;

use crate::message::MessageFault;

/// Why a connection between gateways is over.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection itself.
    #[error(transparent)]
    Closed(Closed),
    /// The peer does not speak as it should.
    #[error("the other gateway does not speak as it should: {0}")]
    Fault(#[from] MessageFault),
    /// A stream that should stay open has ended.
    #[error("the other gateway has ended a stream that should stay open")]
    Ended,
    /// The peer was silent for too long.
    #[error("the other gateway says nothing")]
    Silent,
    /// A connection over TCP has failed.
    #[error("the connection over TCP is lost: {0}")]
    Tcp(String),
    /// A page does not speak as it should.
    #[error("the page does not speak as it should: {0}")]
    Datagram(#[from] DatagramFault),
    /// A page's session is over, and why.
    #[error("the page has left: {0}")]
    Over(String),
}

impl LinkError {
    /// What the peer is told; nothing when it knows.
    pub(crate) fn farewell(&self) -> Option<(u64, String)> {
        use crate::message::code::PROTOCOL;
        match self {
            Self::Fault(fault) => Some((fault.code(), fault.to_string())),
            Self::Datagram(fault) => Some((PROTOCOL, fault.to_string())),
            Self::Ended => Some((PROTOCOL, "a stream has ended".into())),
            Self::Silent => Some((PROTOCOL, "no message came in time".into())),
            Self::Closed(_) | Self::Over(_) | Self::Tcp(_) => None,
        }
    }
}

impl From<SendError> for LinkError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Closed(closed) => Self::Closed(closed),
            _ => Self::Ended,
        }
    }
}

impl From<SessionError> for LinkError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Http(HttpError::Closed(closed)) => Self::Closed(closed),
            SessionError::Over(ending) => Self::Over(ending.to_string()),
            SessionError::Reset(_) | SessionError::Stopped(_) => Self::Ended,
            other => Self::Over(other.to_string()),
        }
    }
}

impl From<ReceiveError> for LinkError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Closed(closed) => Self::Closed(closed),
            ReceiveError::Malformed(what) => Self::Fault(MessageFault::Parts(what)),
            _ => Self::Ended,
        }
    }
}
