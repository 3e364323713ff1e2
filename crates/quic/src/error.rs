use std::borrow::Cow;
use std::fmt;

use quickset_wire::TransportErrorCode;

use crate::refusal::SystemRefusal;

/// A rule of the protocol was broken, by the peer or by what it makes us do. The connection closes with this
/// code (RFC 9000 §11, §11.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    /// The code that CONNECTION_CLOSE carries (RFC 9000 §20.1).
    pub code: TransportErrorCode,
    /// The type of the frame at fault, if it is known.
    pub frame: Option<u64>,
    /// A few words for people. They never hold secrets.
    pub reason: Cow<'static, str>,
    /// What went wrong in a handshake, if more is known than the code says. It stays on this side.
    pub fault: Option<Box<HandshakeFault>>,
}

/// What went wrong in a handshake, for this side only: a peer that has proved nothing must not learn what we
/// expect.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeFault {
    /// The key of the server's certificate is none of those that are pinned. Keys are named by the SHA-256
    /// hash of their SubjectPublicKeyInfo in DER.
    NotPinned {
        /// The key that was shown; whether the server holds it was not looked at any more.
        presented: [u8; 32],
        /// The keys that would be believed.
        pinned: Vec<[u8; 32]>,
    },
    /// The server speaks none of the application protocols that were offered (RFC 9001 §8.1, RFC 7301 §3.2).
    NoProtocol {
        /// What was offered, the best first.
        offered: Vec<Vec<u8>>,
    },
    /// The server shows a certificate that is marked as an authority's (RFC 5280 §4.2.1.9), which is for
    /// signing others. Some tools mark all certificates so that sign themselves.
    ShowsAuthority,
    /// Nobody who is trusted has signed the peer's certificate.
    UnknownAuthority,
    /// The server's certificate is for others than it was asked for.
    OtherName {
        /// The name or address that the client asked for.
        asked: String,
        /// Those that the certificate has.
        names: Vec<String>,
    },
    /// The peer's certificate is not valid any more by the clock of this machine, or not yet.
    OutOfDate,
}

impl TransportError {
    /// Makes an error with `code` that `reason` explains.
    pub fn new(code: TransportErrorCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, frame: None, reason: reason.into(), fault: None }
    }

    /// Returns the same error, caused by a frame of type `kind`.
    #[must_use]
    pub fn in_frame(mut self, kind: u64) -> Self {
        self.frame = Some(kind);
        self
    }

    /// Returns the same error, of which more is known.
    #[must_use]
    pub fn because(mut self, fault: HandshakeFault) -> Self {
        self.fault = Some(Box::new(fault));
        self
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fault) = &self.fault {
            return write!(f, "{fault} ({})", self.code);
        }
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

impl std::error::Error for HandshakeFault {}

impl fmt::Display for HandshakeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPinned { presented, pinned } if pinned.is_empty() => {
                write!(
                    f,
                    "the server's certificate has the key {}, and no key is pinned; ",
                    KeyHash(presented)
                )?;
                f.write_str("pin it if the server says that this is its key")
            }
            Self::NotPinned { presented, pinned } => {
                write!(
                    f,
                    "the server's certificate is not the pinned one: its key is {}",
                    KeyHash(presented)
                )?;
                for (i, key) in pinned.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { ", expected was " } else { " or " }, KeyHash(key))?;
                }
                f.write_str("; ask whoever runs the server for its fingerprint, and pin that")
            }
            Self::NoProtocol { offered } => {
                f.write_str("the server speaks none of the application protocols offered")?;
                for (i, name) in offered.iter().enumerate() {
                    write!(f, "{}\"{}\"", if i == 0 { ": " } else { ", " }, name.escape_ascii())?;
                }
                f.write_str("; offer one that it speaks, or ask another server")
            }
            Self::ShowsAuthority => f.write_str(
                "the server shows the certificate of an authority (CA:TRUE), as `openssl req -x509` makes them; \
                 make one that is none (-addext basicConstraints=critical,CA:FALSE), or pin its key",
            ),
            Self::UnknownAuthority => f.write_str(
                "nobody who is trusted has signed the peer's certificate; trust the authority that has, or pin the \
                 fingerprint of its key",
            ),
            Self::OtherName { asked, names } => {
                write!(f, "the server's certificate is not for {asked:?}")?;
                for (i, name) in names.iter().enumerate() {
                    write!(f, "{}{name:?}", if i == 0 { ", but for " } else { " and " })?;
                }
                f.write_str("; connect with a name that it has, or pin the fingerprint of its key")
            }
            Self::OutOfDate => f.write_str(
                "the peer's certificate has expired, or is not valid yet; its owner has to renew it, unless the clock \
                 of this machine is wrong",
            ),
        }
    }
}

/// The words: 32 numbers tell nobody anything, and there are libraries that print errors of others so.
impl fmt::Debug for HandshakeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key's hash as fingerprints are written.
struct KeyHash<'a>(&'a [u8; 32]);

impl fmt::Display for KeyHash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Closed {
    /// This application closed it.
    #[error("closed by this application")]
    Locally,
    /// The task that drove the connection ended first: the runtime was shut down, or the task panicked.
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
    /// The peer no longer knows the connection (RFC 9000 §10.3).
    #[error("the peer has lost the connection (stateless reset); connect again")]
    Reset,
    /// Nothing was heard of the peer for the idle timeout (RFC 9000 §10.1).
    #[error("the peer does not answer; check its address and the network, and connect again")]
    TimedOut,
    /// Nothing could be sent to the peer any more, for the reason that the system gave. Or the peer's host
    /// answered a handshake by saying that nothing listens there.
    #[error("{0}")]
    Unreachable(SystemRefusal),
    /// The peer speaks none of our versions (RFC 9000 §6.2).
    #[error("the peer speaks no QUIC version that we know")]
    NoCommonVersion,
}

fn said(reason: &[u8]) -> String {
    if reason.is_empty() { String::new() } else { format!(": {}", String::from_utf8_lossy(reason)) }
}
