use std::borrow::Cow;
use std::fmt;

use quickset_wire::TransportErrorCode;

/// A rule of the protocol was broken, by the peer or by what it makes us do: the connection closes
/// with this code (RFC 9000 §11, §11.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    /// What is sent in CONNECTION_CLOSE (RFC 9000 §20.1).
    pub code: TransportErrorCode,
    /// The type of the frame at fault, where one is known.
    pub frame: Option<u64>,
    /// For people, in a few words. Never holds secrets.
    pub reason: Cow<'static, str>,
}

impl TransportError {
    /// An error with `code`, explained by `reason`.
    pub fn new(code: TransportErrorCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, frame: None, reason: reason.into() }
    }

    /// The same error, blamed on a frame of type `kind`.
    #[must_use]
    pub fn in_frame(mut self, kind: u64) -> Self {
        self.frame = Some(kind);
        self
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(kind) = self.frame {
            write!(f, " in a frame of type {kind:#x}")?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        Ok(())
    }
}

impl std::error::Error for TransportError {}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// This application closed it.
    #[error("closed by this application")]
    Locally,
    /// The task that drove it ended before it did: the runtime was shut down, or the task panicked.
    #[error("the endpoint's task has ended; was the runtime shut down while connections were open?")]
    Abandoned,
    /// The peer's application closed it, with a code and words of its own (RFC 9000 §20.2).
    #[error("closed by the peer's application with code {code}{}", said(.reason))]
    ByApplication {
        /// The peer application's code.
        code: u64,
        /// The peer application's words, as sent.
        reason: Vec<u8>,
    },
    /// The peer's transport closed it.
    #[error("closed by the peer: {0}")]
    ByPeer(TransportError),
    /// The peer broke the protocol, or could not be authenticated.
    #[error("the connection failed: {0}")]
    Failed(TransportError),
    /// The peer does not know the connection any more (RFC 9000 §10.3).
    #[error("the peer has lost the connection (stateless reset); connect again")]
    Reset,
    /// Nothing was heard of the peer for the idle timeout (RFC 9000 §10.1).
    #[error("the peer does not answer; check its address and the network, and connect again")]
    TimedOut,
    /// The peer speaks none of our versions (RFC 9000 §6.2).
    #[error("the peer speaks no QUIC version that we know")]
    NoCommonVersion,
}

fn said(reason: &[u8]) -> String {
    if reason.is_empty() { String::new() } else { format!(": {}", String::from_utf8_lossy(reason)) }
}
