//! Whoever comes by TCP: gateways behind networks without UDP, and browsers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quickset::places::NetworkOwner;
use quickset::rustls;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{House, ServeShared, wait};
use crate::link::PeerLink;
use crate::tcp::{self, TCP_ALPN, TcpEnd, TcpFacts, TcpLink};

/// A browser that has connected by TCP.
pub type BrowserStream = TlsStream<TcpStream>;

/// Takes whoever comes; each has a task of its own, and they end when this is dropped.
pub(super) async fn take(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    house: Arc<House>,
    shared: ServeShared,
    browsers: Option<mpsc::Sender<BrowserStream>>,
) -> Infallible {
    let (tls, mut visits) = (TlsAcceptor::from(tls), tokio::task::JoinSet::new());
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
            Some(_) = visits.join_next() => continue,
        };
        let (tls, house, shared, browsers) = (tls.clone(), house.clone(), shared.clone(), browsers.clone());
        visits.spawn(async move {
            // DT-57: whoever is slow makes room for the next.
            let place = house.strangers.waiting.take(NetworkOwner::of(from.ip()));
            let greeted = wait(timeout(PATIENCE, greet(socket, from, &tls)), place).await;
            match greeted {
                Some(Ok(Some(Visitor::Gateway(link)))) => {
                    house.receive_gateway(PeerLink::Tcp(link.clone()), shared).await;
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

enum Visitor {
    Gateway(TcpLink),
    Browser(Box<BrowserStream>),
}

/// `None` when there is no sense in it.
async fn greet(socket: TcpStream, from: SocketAddr, tls: &TlsAcceptor) -> Option<Visitor> {
    tcp::prepare(&socket).ok()?;
    let stream = tls.accept(socket).await.ok()?;
    let session = stream.get_ref().1;
    if session.alpn_protocol() != Some(TCP_ALPN.as_bytes()) {
        return Some(Visitor::Browser(Box::new(stream)));
    }
    let facts = TcpFacts::of(from, session)?;
    Some(Visitor::Gateway(TcpLink::start(stream, facts, TcpEnd::Server)))
}

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// After an error of the system.
const PAUSE: Duration = Duration::from_millis(50);
