//! Whoever comes by TCP: gateways behind networks without UDP, and browsers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quickset::places::NetworkOwner;
use quickset::rustls::ServerConfig as TlsConfig;
use quickset::rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::{House, wait};
use crate::link::PeerLink;
use crate::tcp::{self, TCP_ALPN, TcpEnd, TcpFacts, TcpLink};

/// A browser that has connected by TCP.
pub type BrowserStream = TlsStream<TcpStream>;

/// Browsers that come by TCP, for whoever speaks HTTP with them.
#[derive(Debug)]
pub struct TcpBrowsers {
    /// Those that have connected.
    pub incoming: mpsc::Receiver<BrowserStream>,
    /// Where sessions of pages go that one of them has begun.
    pub sessions: mpsc::Sender<PageStream>,
}

/// A page's session in bytes: the frames of DT-56, which its WebSocket carries (WB-19).
pub struct PageStream {
    /// The bytes.
    pub stream: Box<dyn PageBytes>,
    /// Who it is.
    pub remote: SocketAddr,
}

/// What carries the bytes of a page's session.
pub trait PageBytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> PageBytes for S {}

impl std::fmt::Debug for PageStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageStream").field("remote", &self.remote).finish_non_exhaustive()
    }
}

/// The gateway's side of [`TcpBrowsers`].
#[derive(Debug)]
pub(super) struct BrowserDoor {
    pub(super) connected: mpsc::Sender<BrowserStream>,
    pub(super) sessions: mpsc::Receiver<PageStream>,
}

impl BrowserDoor {
    pub(super) fn new() -> (Self, TcpBrowsers) {
        let ((connected, incoming), (begun, sessions)) = (mpsc::channel(BROWSERS), mpsc::channel(BROWSERS));
        (Self { connected, sessions }, TcpBrowsers { incoming, sessions: begun })
    }
}

/// Where clients come in by TCP.
#[derive(Debug)]
pub(super) struct TcpEntrance {
    pub(super) listener: TcpListener,
    pub(super) tls: TcpConfigs,
    /// Whoever serves pages.
    pub(super) browsers: Option<BrowserDoor>,
}

/// How to shake hands.
#[derive(Debug)]
pub(super) struct TcpConfigs {
    pub(super) gateways: Arc<TlsConfig>,
    /// Browsers are asked for no key: they give up a WebSocket for that. `None`: they are not wanted.
    pub(super) browsers: Option<Arc<TlsConfig>>,
}

/// Takes whoever comes; each has a task of its own, and they end when this is dropped.
pub(super) async fn take(entrance: TcpEntrance, house: Arc<House>) -> Infallible {
    let TcpEntrance { listener, tls, browsers } = entrance;
    let (tls, mut visits) = (Arc::new(tls), tokio::task::JoinSet::new());
    let (browsers, mut sessions) =
        browsers.map(|BrowserDoor { connected, sessions }| (connected, sessions)).unzip();
    loop {
        let (socket, from) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // That connection is gone, or descriptors are: they come back.
                    tracing::debug!(%error, "nobody came in by TCP");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
            session = next_session(&mut sessions) => {
                let house = house.clone();
                visits.spawn(async move { house.receive_page_by_tcp(session).await });
                continue;
            }
            Some(_) = visits.join_next() => continue,
        };
        let (tls, house, browsers) = (tls.clone(), house.clone(), browsers.clone());
        visits.spawn(async move {
            // DT-57: whoever is slow makes room for the next.
            let place = house.greeting.take(NetworkOwner::of(from.ip()));
            let greeted = wait(timeout(PATIENCE, greet(socket, from, &tls)), place).await;
            match greeted {
                Some(Ok(Some(Visitor::Gateway(link)))) => {
                    house.receive_gateway(PeerLink::Tcp(link.clone())).await;
                    let _ = timeout(super::FAREWELL, link.closed()).await;
                }
                Some(Ok(Some(Visitor::Browser(stream)))) => {
                    // Who serves pages has places of its own.
                    if let Some(browsers) = browsers {
                        let _ = browsers.try_send(*stream);
                    }
                }
                _ => tracing::debug!(%from, "somebody came by TCP and said nothing"),
            }
        });
    }
}

async fn next_session(sessions: &mut Option<mpsc::Receiver<PageStream>>) -> PageStream {
    match sessions {
        Some(open) => match open.recv().await {
            Some(session) => session,
            // Nobody serves pages any more.
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

enum Visitor {
    Gateway(TcpLink),
    Browser(Box<BrowserStream>),
}

/// `None` when there is no sense in it.
async fn greet(socket: TcpStream, from: SocketAddr, tls: &TcpConfigs) -> Option<Visitor> {
    tcp::prepare(&socket).ok()?;
    let hello = LazyConfigAcceptor::new(Acceptor::default(), socket).await.ok()?;
    let is_gateway =
        hello.client_hello().alpn().is_some_and(|mut names| names.any(|name| name == TCP_ALPN.as_bytes()));
    if !is_gateway {
        let stream = hello.into_stream(tls.browsers.clone()?).await.ok()?;
        return Some(Visitor::Browser(Box::new(stream)));
    }
    let stream = hello.into_stream(tls.gateways.clone()).await.ok()?;
    let facts = TcpFacts::of(from, stream.get_ref().1)?;
    Some(Visitor::Gateway(TcpLink::start(stream, facts, TcpEnd::Server)))
}

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Browsers, and sessions of pages, that wait to be served.
const BROWSERS: usize = 64;
/// After an error of the system.
const PAUSE: Duration = Duration::from_millis(50);
