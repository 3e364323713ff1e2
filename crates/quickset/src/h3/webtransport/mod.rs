//! WebTransport (draft-ietf-webtrans-http3): streams and datagrams between a page in a browser and a server,
//! on a connection of HTTP/3.
//!
//! A session begins with a request: [`Call::into_session`](super::Call::into_session) accepts it,
//! [`Client::session`](super::Client::session) makes it.
//! [`Config::webtransport`](super::Config::webtransport) has to be 1 on both sides. All drafts from 2, which
//! Chromium speaks, to 16 are offered and taken, since on streams they say the same. Chromium takes a
//! certificate that nobody signed if it is one of `Identity::for_browsers`, of the feature
//! `self-signed`.
//!
//! ```
//! use quickset::h3::{self, Request, Response};
//! use quickset::{ClientConfig, Endpoint, Identity, ServerConfig, Trust};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let identity = Identity::self_signed(["localhost"])?;
//! # let trust = Trust::pinned(identity.fingerprint());
//! # let server = Endpoint::server("127.0.0.1:0".parse()?, &ServerConfig::new(identity, &[h3::ALPN])?)?;
//! # let address = server.local_addr();
//! let config = h3::Config { webtransport: 1, ..h3::Config::default() };
//! # let config_of_client = config.clone();
//! tokio::spawn(async move {
//!     while let Some(connection) = server.accept().await {
//!         let mut http = h3::Server::new(&connection, config.clone())?;
//!         while let Some(call) = http.accept().await {
//!             if !call.is_session() {
//!                 call.reply.end(&Response::new(404))?;
//!                 continue;
//!             }
//!             let session = call.into_session(&Response::new(200))?;
//!             let (mut send, mut recv) = session.accept_bi().await?;
//!             send.send(recv.read_to_end(100).await?.into()).await?;
//!             send.finish()?;
//!             session.closed().await?;
//!         }
//!     }
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! });
//!
//! # let tls = ClientConfig::new(trust, &[h3::ALPN])?;
//! # let endpoint = Endpoint::client()?;
//! # let connection = endpoint.connect(address, "localhost", &tls).await?;
//! let client = h3::Client::new(&connection, config_of_client)?;
//! let session = client.session(&Request::extended("webtransport", "localhost", "/echo")).await?;
//! let (mut send, mut recv) = session.open_bi().await?;
//! send.send("there and back".into()).await?;
//! send.finish()?;
//! assert_eq!(recv.read_to_end(100).await?, b"there and back");
//! session.close(0, "that was all");
//! client.shutdown().await;
//! endpoint.wait_idle().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Limits
//!
//! One session at a time on a connection; a request for another is rejected (H3_REQUEST_REJECTED), and
//! browsers open a connection for each anyway. 16 streams wait for a session that is not accepted yet, 128
//! for somebody to accept them; what is beyond is refused with WT_BUFFERED_STREAM_REJECTED. 64 datagrams, and
//! 256 KiB of them ([`max_datagram_bytes`](crate::h3::Config::max_datagram_bytes)), wait for their reader,
//! and the oldest make room. What is not read of a stream waits with the peer but for a window of flow
//! control.

mod room;
mod session;
mod stream;

use std::fmt;
use std::io;

use super::HttpError;
pub(super) use room::SessionRoom;
pub use session::Session;
pub use stream::{RecvStream, SendStream};

/// How a session ended: what its closing side said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionEnding {
    /// The application's code; 0 where none was given.
    pub code: u32,
    /// The application's words, of at most 1024 bytes.
    pub reason: String,
}

/// Why something of a session did not happen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session is over.
    #[error("the session is over ({0})")]
    Over(SessionEnding),
    /// The peer gave the stream up because its session is over; how it ended has not come yet.
    #[error("the stream went with its session")]
    Gone,
    /// The peer gave up sending on this stream, with its code.
    #[error("the peer gave up sending on this stream (code {0})")]
    Reset(u32),
    /// The peer wants no more of what is sent on this stream, with its code.
    #[error("the peer wants no more of this stream (code {0})")]
    Stopped(u32),
    /// The server did not accept the session, and answered with this status.
    #[error("the server answered with status {0} and not with a session")]
    Declined(u16),
    /// The request is for something else, or the connection does not offer WebTransport.
    #[error("this is no request for a session, or the connection offers none")]
    NoSession,
    /// The server chose this application protocol, and the client offered others.
    #[error(
        "the application protocol {0:?} was chosen and not offered; choose one of those that the request offers"
    )]
    NotOffered(String),
    /// The datagram is larger than this, which is what a packet holds on this path.
    #[error("a datagram of this session has at most {0} bytes")]
    TooLarge(usize),
    /// Something of HTTP or QUIC that lies below.
    #[error(transparent)]
    Http(#[from] HttpError),
}

impl fmt::Display for SessionEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code {}", self.code)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

/// The source is kept: [`io::Error::get_ref`] gives it.
impl From<SessionError> for io::Error {
    fn from(error: SessionError) -> Self {
        use io::ErrorKind;
        let kind = match &error {
            SessionError::Over(_) | SessionError::Gone => ErrorKind::ConnectionAborted,
            SessionError::Reset(_) | SessionError::Stopped(_) => ErrorKind::ConnectionReset,
            SessionError::Declined(_) | SessionError::NotOffered(_) => ErrorKind::ConnectionRefused,
            SessionError::NoSession | SessionError::TooLarge(_) => ErrorKind::InvalidInput,
            SessionError::Http(below) => below.kind(),
        };
        Self::new(kind, error)
    }
}
