//! HTTP/3 for applications: requests and responses to await, on a [`Connection`](crate::Connection).
//!
//! A [`Server`] takes requests, a [`Client`] makes them, any number at a time. Heads are values ([`Request`],
//! [`Response`]); content is a stream in either direction ([`Content`], [`ContentSender`]). Little is read
//! ahead of the application, and little is kept behind it: who reads slowly is sent to slowly. Both are
//! readers and writers for tokio, too. What a tunnel sends beside them are [`ExchangeDatagrams`]. Sessions
//! with pages in browsers are in [`webtransport`].
//!
//! ```
//! use quickset::h3::{self, Request, Response};
//! use quickset::{ClientConfig, Endpoint, Identity, ServerConfig, Trust};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = Identity::self_signed(["localhost"])?;
//! let trust = Trust::pinned(identity.fingerprint());
//! let server = Endpoint::server("127.0.0.1:0".parse()?, &ServerConfig::new(identity, &[h3::ALPN])?)?;
//! let address = server.local_addr();
//! tokio::spawn(async move {
//!     while let Some(connection) = server.accept().await {
//!         let mut http = h3::Server::new(&connection, h3::Config::default())?;
//!         while let Some(call) = http.accept().await {
//!             let mut out = call.reply.respond(&Response::new(200).with("content-type", "text/plain"))?;
//!             out.send("you asked for ".into()).await?;
//!             out.send(call.request.path.unwrap_or_default()).await?;
//!             out.finish()?;
//!         }
//!     }
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! });
//!
//! let config = ClientConfig::new(trust, &[h3::ALPN])?;
//! let endpoint = Endpoint::client()?;
//! let connection = endpoint.connect(address, "localhost", &config).await?;
//! let client = h3::Client::new(&connection, h3::Config::default())?;
//! let (response, mut content) = client.fetch(&Request::new("GET", "localhost", "/tea")).await?;
//! assert_eq!(response.status, 200);
//! assert_eq!(content.read_to_end(1000).await?, b"you asked for /tea");
//! client.shutdown().await;
//! endpoint.wait_idle().await;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Priority`] says of a request how its answer is to be sent: how urgent it is, its weight among its
//! siblings, the classes that it hangs under, and which losses are repaired; it may change at any time
//! ([`Answer::prioritise`]). A server obeys by itself, and may have an opinion of its own: for a response, in
//! its `priority` field; by content type, in [`Config::usual`].
//!
//! ```
//! # use quickset::h3::{self, Priority, Request};
//! use quickset::Class;
//!
//! # async fn f(client: &h3::Client) -> Result<(), Box<dyn std::error::Error>> {
//! // Images divide among themselves a fourth of what is left for the page.
//! let image = Priority::new(3, true).with_classes(&[Class::new("page", 1.0), Class::new("images", 0.25)])?;
//! let answer = client.ask(&Request::new("GET", "localhost", "/cat.png").with_priority(&image)).await?;
//! // It came into view.
//! answer.prioritise(&Priority::new(2, true).with_weight(4.0).with_classes(&[Class::new("page", 1.0)])?)?;
//! # Ok(()) }
//! ```

mod client;
mod content;
mod datagrams;
mod http;
mod sender;
mod server;
pub mod webtransport;

use std::io;
use std::task::{Poll, ready};

use bytes::Bytes;
use quickset_net::{Closed, ReadError};
use tokio::io::ReadBuf;

#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub use quickset_h3::http_types;
pub use quickset_h3::{
    Abort, Config, Error as ProtocolError, ErrorCode, Field, MalformedMessage, Priority, Request, Response,
    Settings, Tolerance, UnspeakableClass, UnspeakableProtocol, VerbRefusal, sfv,
};
pub use quickset_net::LayerTaken;

pub use self::client::{Answer, Client};
pub use self::content::Content;
pub use self::datagrams::ExchangeDatagrams;
pub use self::sender::ContentSender;
pub use self::server::{Call, Reply, Server};

/// What HTTP/3 is called in the TLS handshake (RFC 9114 §3.1).
pub const ALPN: &str = "h3";

/// Why an operation of HTTP failed. Whether its request may be made again is what
/// [`is_unprocessed`](Self::is_unprocessed) tells.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The connection is over.
    #[error("the connection is over: {}{}", .0, named(.0))]
    Closed(Closed),
    /// The peer broke the protocol, and the connection was closed.
    #[error("the peer broke the protocol: {0}")]
    Protocol(ProtocolError),
    /// The message ended before its end.
    #[error(transparent)]
    Aborted(Abort),
    /// Another handle gave the exchange up with this code: who sent its content, or was to answer.
    #[error("given up on this side with code {0}")]
    GivenUp(ErrorCode),
    /// The peer wants no more of what is sent, with its code; H3_NO_ERROR is no reproach.
    #[error("the peer wants no more of it (code {})", ErrorCode(*.0))]
    Stopped(u64),
    /// It cannot be done so, or not now.
    #[error(transparent)]
    Refused(VerbRefusal),
    /// There is more content than these bytes.
    #[error("more than {0} bytes")]
    TooLong(usize),
}

/// The source is kept: [`io::Error::get_ref`] gives it.
impl From<HttpError> for io::Error {
    fn from(error: HttpError) -> Self {
        Self::new(error.kind(), error)
    }
}

/// Fills a reader's buffer with what `next` gives for the room there, which at the end is nothing.
fn read_into<E: Into<io::Error>>(
    buffer: &mut ReadBuf<'_>,
    next: impl FnOnce(usize) -> Poll<Result<Option<Bytes>, E>>,
) -> Poll<io::Result<()>> {
    let room = buffer.remaining();
    if room > 0 {
        if let Some(data) = ready!(next(room)).map_err(Into::into)? {
            buffer.put_slice(&data);
        }
    }
    Poll::Ready(Ok(()))
}

/// The code of HTTP that a connection was closed with, in words.
fn named(closed: &Closed) -> String {
    match closed {
        Closed::ByApplication { code, .. } => format!(" ({})", ErrorCode(*code)),
        _ => String::new(),
    }
}

impl HttpError {
    /// Returns whether the server did nothing with the request, and will not. Any such request may be made
    /// again on another connection (RFC 9114 §4.1.1, §5.2).
    ///
    /// If a request failed otherwise, by a [reset](Abort::Reset) or the end of the connection, nobody knows
    /// whether it was processed. Then only a request that does no harm when it is made twice may be repeated
    /// (GET, PUT; RFC 9110 §9.2.2). If [`Client::request`] or [`Client::ask`] failed, there was no request.
    pub fn is_unprocessed(&self) -> bool {
        matches!(self, Self::Aborted(Abort::Rejected) | Self::Refused(VerbRefusal::GoingAway))
    }

    fn kind(&self) -> io::ErrorKind {
        use io::ErrorKind;
        match self {
            Self::Closed(closed) => io::Error::from(ReadError::Closed(closed.clone())).kind(),
            Self::Protocol(_) | Self::Aborted(Abort::Malformed(_) | Abort::TooLarge) => {
                ErrorKind::InvalidData
            }
            Self::Aborted(Abort::Reset(_) | Abort::Rejected) | Self::Stopped(_) => ErrorKind::ConnectionReset,
            // The message has ended, or has no content.
            Self::Refused(VerbRefusal::OutOfOrder | VerbRefusal::UnknownStream) => ErrorKind::BrokenPipe,
            Self::GivenUp(_) | Self::Refused(VerbRefusal::Closed) => ErrorKind::ConnectionAborted,
            Self::Refused(_) | Self::TooLong(_) => ErrorKind::Other,
        }
    }
}
