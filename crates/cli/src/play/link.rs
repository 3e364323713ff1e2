//! A connection with a server, by the version of HTTP that is asked for.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::Context as _;
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, RANGE, USER_AGENT};
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use quickset::h3::{self, Content};
use quickset::{ClientConfig, Endpoint};
use quickset_play::{Resource, Url};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig as Tls};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::meter::{Meter, Metered};
use crate::http::{reach, url};

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum HttpVersion {
    /// HTTP/1.1 over TLS and TCP
    #[value(name = "1")]
    One,
    /// HTTP/2 over TLS and TCP
    #[value(name = "2")]
    Two,
    /// HTTP/3 over QUIC
    #[value(name = "3")]
    Three,
}

impl HttpVersion {
    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::One => "HTTP/1.1",
            Self::Two => "HTTP/2",
            Self::Three => "HTTP/3",
        }
    }

    fn alpn(self) -> &'static str {
        match self {
            Self::One => "http/1.1",
            Self::Two => "h2",
            Self::Three => h3::ALPN,
        }
    }
}

/// How servers are reached.
pub(super) enum Via {
    Quic(Endpoint, Arc<ClientConfig>),
    Tcp(Arc<Tls>, HttpVersion),
}

impl Via {
    /// A way of its own for each player: with HTTP/3 a socket, as browsers have it.
    pub(super) fn new(version: HttpVersion, config: &Arc<ClientConfig>) -> anyhow::Result<Self> {
        Ok(match version {
            HttpVersion::Three => {
                Self::Quic(Endpoint::client().context("no socket can be had")?, config.clone())
            }
            HttpVersion::One | HttpVersion::Two => Self::Tcp(config.tls(&[version.alpn()]), version),
        })
    }

    /// A connection with the server of this address.
    pub(super) async fn connect(&self, to: &Url) -> anyhow::Result<ServerLink> {
        anyhow::ensure!(to.is_secure(), "{to} is not https://, and nothing else is fetched");
        let to: url::H3Url =
            to.to_string().parse().map_err(|fault| anyhow::anyhow!("{to} is not fetched: {fault}"))?;
        let authority = to.authority.clone();
        match self {
            Self::Quic(endpoint, config) => {
                let client = reach::connect(endpoint, config, &to).await.map_err(|error| {
                    anyhow::anyhow!("{error:#}; is HTTP/3 spoken there? --http 2 and --http 1 go by TCP")
                })?;
                Ok(ServerLink {
                    authority,
                    wire: Wire::Three(client),
                    _tasks: Arc::default(),
                    meter: Meter::default(),
                })
            }
            Self::Tcp(tls, version) => {
                let socket = reach::dial(&to).await?;
                socket.set_nodelay(true)?;
                let name = ServerName::try_from(to.name().to_owned())
                    .with_context(|| format!("{authority} names no host"))?;
                let stream = TlsConnector::from(tls.clone()).connect(name, socket).await;
                let stream = stream.map_err(|error| refused(&authority, *version, error))?;
                // RFC 7301 §3.2: a server that does not know of such protocols says nothing, and speaks
                // HTTP/1.1.
                let agreed = stream.get_ref().1.alpn_protocol();
                anyhow::ensure!(
                    *version == HttpVersion::One || agreed == Some(version.alpn().as_bytes()),
                    "{}",
                    silent(&authority, *version)
                );
                ServerLink::over(authority, *version, stream).await
            }
        }
    }
}

/// Why there is no TLS, with what to do.
fn refused(authority: &str, version: HttpVersion, error: io::Error) -> anyhow::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            anyhow::anyhow!(silent(authority, version))
        }
        Some(rustls::Error::InvalidCertificate(_)) => anyhow::anyhow!(
            "no connection to {authority}: {error}; if it is the right server, pin its key with --pin, or name who vouches for it with --ca"
        ),
        // As servers do that take no more: there is no other way to say so before the handshake is over.
        _ if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            anyhow::anyhow!(
                "no connection to {authority}: it was closed within the handshake ({error}); perhaps the server takes no more \
                 of one client: take fewer players, or see --max-per-client of `quickset http serve`"
            )
        }
        _ => anyhow::Error::new(error).context(format!("no connection to {authority}")),
    }
}

fn silent(authority: &str, version: HttpVersion) -> String {
    format!("{authority} does not speak {}; choose another version with --http", version.name())
}

/// A connection with a server.
pub(super) struct ServerLink {
    /// Host and port, as requests name them.
    authority: String,
    wire: Wire,
    /// What reads and writes a connection of TCP; it ends with this.
    _tasks: Arc<Tasks>,
    meter: Meter,
}

/// Tasks that end with it, whatever the server does, and their socket with them.
#[derive(Default)]
struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // There may be some for each request.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// Begins tasks as long as there is the connection that they are of, which they do not keep.
#[derive(Clone)]
struct Spawner(Weak<Tasks>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, task: F) {
        if let Some(tasks) = self.0.upgrade() {
            tasks.spawn(task);
        }
    }
}

enum Wire {
    // A request without content.
    One(http1::SendRequest<String>),
    Two(http2::SendRequest<String>),
    Three(h3::Client),
}

impl ServerLink {
    async fn over<S>(authority: String, version: HttpVersion, stream: S) -> anyhow::Result<Self>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (tasks, meter) = (Arc::new(Tasks::default()), Meter::default());
        meter.may_read(UNTAKEN);
        let stream = TokioIo::new(Metered { stream, meter: meter.clone() });
        // What goes wrong with a connection the request on it tells.
        let wire = if version == HttpVersion::One {
            let (sender, connection) = http1::handshake(stream).await?;
            tasks.spawn(async move { drop(connection.await) });
            Wire::One(sender)
        } else {
            let mut builder = http2::Builder::new(Spawner(Arc::downgrade(&tasks)));
            let (sender, connection) = builder.initial_stream_window_size(WINDOW).handshake(stream).await?;
            tasks.spawn(async move { drop(connection.await) });
            Wire::Two(sender)
        };
        Ok(Self { authority, wire, _tasks: tasks, meter })
    }

    /// Asks for something of this server, and waits for the head of the answer.
    pub(super) async fn ask(&mut self, resource: &Resource) -> anyhow::Result<(AnswerHead, PlayBody)> {
        let range = resource.range.as_ref().map(|range| format!("bytes={}-{}", range.start(), range.end()));
        let target = resource.url.target();
        let request = hyper::Request::get(match &self.wire {
            Wire::Two(_) => format!("https://{}{target}", self.authority),
            _ => target.clone(),
        });
        let request = request.header(USER_AGENT, AGENT);
        let request = range.iter().fold(request, |request, range| request.header(RANGE, range));
        let answer = match &mut self.wire {
            Wire::Three(client) => {
                let request = h3::Request::new("GET", self.authority.clone(), target);
                let request = request.with("user-agent", AGENT);
                let request = range.into_iter().fold(request, |request, range| request.with("range", range));
                let (response, content) = client.fetch(&request).await?;
                let field = |name| response.field(name).map(|value| &value[..]);
                return Ok((AnswerHead::read(response.status, field), PlayBody::Quic(content)));
            }
            Wire::One(sender) => {
                self.meter.may_read(UNTAKEN);
                sender.ready().await?;
                // RFC 9112 §3.2: HTTP/2 has it in the address.
                sender.send_request(request.header(HOST, &self.authority).body(String::new())?).await?
            }
            Wire::Two(sender) => {
                self.meter.may_read(UNTAKEN);
                sender.ready().await?;
                sender.send_request(request.body(String::new())?).await?
            }
        };
        let field = |name| answer.headers().get(name).map(hyper::header::HeaderValue::as_bytes);
        let head = AnswerHead::read(answer.status().as_u16(), field);
        self.meter.may_read(UNTAKEN);
        let version = answer.version();
        Ok((head, PlayBody::Tcp(answer.into_body(), version, self.meter.clone())))
    }
}

/// What of the head of an answer matters here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerHead {
    pub(super) status: u16,
    /// Content-Length.
    pub(super) length: Option<u64>,
    /// The first byte and the last one of Content-Range.
    pub(super) range: Option<(u64, u64)>,
    pub(super) location: Option<String>,
}

impl AnswerHead {
    fn read<'a>(status: u16, field: impl Fn(&'static str) -> Option<&'a [u8]>) -> Self {
        let text = |name| field(name).and_then(|value| std::str::from_utf8(value).ok());
        Self {
            status,
            length: text("content-length").and_then(|value| value.parse().ok()),
            // RFC 9110 §14.4: it means something in parts alone.
            range: text("content-range").filter(|_| status == 206).and_then(range),
            location: text("location").map(str::to_owned),
        }
    }
}

/// RFC 9110 §14.4: `bytes 0-499/1234`.
fn range(value: &str) -> Option<(u64, u64)> {
    let (range, _) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?;
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

/// Content of an answer on its way.
pub(super) enum PlayBody {
    Quic(Content),
    Tcp(Incoming, hyper::Version, Meter),
}

impl PlayBody {
    /// The next part of it, which is never empty; none at its end.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        match self {
            Self::Quic(content) => Ok(content.next().await?),
            Self::Tcp(body, version, meter) => loop {
                match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.transpose()? {
                    None => {
                        // RFC 9113 §8.1: a stream that is reset without reproach has been answered, if its
                        // end was there. hyper takes it for the end wherever it comes.
                        let is_whole = *version != hyper::Version::HTTP_2 || body.is_end_stream();
                        anyhow::ensure!(is_whole, "the server gave it up");
                        return Ok(None);
                    }
                    // Behind the content there may be trailers.
                    Some(frame) => {
                        if let Some(data) = frame.into_data().ok().filter(|data| !data.is_empty()) {
                            meter.may_read(UNTAKEN);
                            return Ok(Some(data));
                        }
                    }
                }
            },
        }
    }
}

/// Bytes of content by HTTP/2 that a server may send before any is taken, as hyper has it.
const WINDOW: u32 = 2 << 20;

/// Bytes of all that a server may say until something of the answer is taken: content, and what comes with
/// it.
const UNTAKEN: u64 = WINDOW as u64 + (512 << 10);

const AGENT: &str = concat!("quickset/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_bytes() {
        assert_eq!(range("bytes 0-499/1234"), Some((0, 499)));
        assert_eq!(range("bytes 7-7/*"), Some((7, 7)));
        for none in [
            "bytes */1234",
            "0-499/1234",
            "bytes 0-499",
            "lines 1-2/3",
            "bytes -5/9",
            "bytes 5-4/9",
            "bytes +1-2/3",
            "",
        ] {
            assert_eq!(range(none), None, "{none}");
        }
    }

    #[test]
    fn the_whole_has_no_range() {
        let field = |name| (name == "content-range").then_some(&b"bytes 0-9/10"[..]);
        assert_eq!(AnswerHead::read(206, field).range, Some((0, 9)));
        assert_eq!(AnswerHead::read(200, field).range, None);
    }
}
