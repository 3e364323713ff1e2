//! The verbs that the cases use, for both stacks.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use aws_lc_rs::hmac;
use bytes::Bytes;
use quickset_net as ours;
use quickset_quic as sans;
use quickset_stacks::{NAME, StackIdentity, StackSetup, StackTickets, quickset, quinn as theirs};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InteropStack {
    Quinn,
    Quickset,
}

/// How one side behaves.
#[derive(Clone, Debug)]
pub(crate) struct StackSide {
    pub(crate) stack: InteropStack,
    pub(crate) setup: StackSetup,
    /// Speaks a draft version of QUIC and no other; quinn only.
    pub(crate) draft: bool,
}

/// One side, which keeps its tickets from one connection to the next where it keeps any.
pub(crate) struct StackEndpoint {
    socket: StackSocket,
    side: StackSide,
}

enum StackSocket {
    Quinn(quinn::Endpoint, Option<quinn::ClientConfig>),
    Quickset(ours::Endpoint, Option<sans::ClientConfig>),
}

#[derive(Clone)]
pub(crate) enum StackConnection {
    Quinn(quinn::Connection),
    Quickset(ours::Connection),
}

pub(crate) enum Send {
    Quinn(quinn::SendStream),
    Quickset(ours::SendStream),
}

pub(crate) enum Receive {
    Quinn(quinn::RecvStream),
    Quickset(ours::RecvStream),
}

/// Why a connection is over, in words that both stacks share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectionEnded {
    #[error("closed here")]
    Locally,
    #[error("closed by the peer's application with code {0:#x}, {1:?}")]
    ByApplication(u64, Vec<u8>),
    #[error("closed by the peer's transport with code {0:#x}: {1}")]
    ByPeer(u64, String),
    #[error("failed here with code {0:#x}: {1}")]
    Failed(u64, String),
    #[error("stateless reset")]
    Reset,
    #[error("timed out")]
    TimedOut,
    #[error("no common version")]
    NoCommonVersion,
    #[error("{0}")]
    Other(String),
}

/// Why a stream is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("reset by the peer with code {0}")]
    Reset(u64),
    #[error("stopped by the peer with code {0}")]
    Stopped(u64),
    #[error("the connection is over: {0}")]
    Connection(ConnectionEnded),
    #[error("{0}")]
    Other(String),
}

impl ConnectionEnded {
    /// The code of a transport error, whoever found it.
    pub(crate) fn transport_code(&self) -> Option<u64> {
        match self {
            Self::ByPeer(code, _) | Self::Failed(code, _) => Some(*code),
            _ => None,
        }
    }
}

impl StackEndpoint {
    pub(crate) fn server(side: &StackSide, identity: &StackIdentity) -> Result<Self> {
        let socket = match side.stack {
            InteropStack::Quinn => {
                let config = theirs::server_config(identity, &side.setup)?;
                StackSocket::Quinn(quinn_socket(side, Some(config))?, None)
            }
            InteropStack::Quickset => {
                let config = quickset::server_config(identity, &side.setup)?;
                StackSocket::Quickset(quickset_socket(Some(config))?, None)
            }
        };
        Ok(Self { socket, side: side.clone() })
    }

    pub(crate) fn client(side: &StackSide, trusted: &StackIdentity) -> Result<Self> {
        let socket = match side.stack {
            InteropStack::Quinn => {
                let mut config = theirs::client_config(trusted, &side.setup)?;
                if side.draft {
                    config.version(DRAFT);
                }
                StackSocket::Quinn(quinn_socket(side, None)?, Some(config))
            }
            InteropStack::Quickset => {
                let config = quickset::client_config(trusted, &side.setup)?;
                StackSocket::Quickset(quickset_socket(None)?, Some(config))
            }
        };
        Ok(Self { socket, side: side.clone() })
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        Ok(match &self.socket {
            StackSocket::Quinn(endpoint, _) => endpoint.local_addr()?,
            StackSocket::Quickset(endpoint, _) => endpoint.local_addr(),
        })
    }

    /// Goes on with another socket.
    pub(crate) fn rebind(&self) -> Result<()> {
        match &self.socket {
            StackSocket::Quinn(endpoint, _) => endpoint.rebind(std::net::UdpSocket::bind(ANY_PORT)?)?,
            StackSocket::Quickset(endpoint, _) => {
                endpoint.rebind(ANY_PORT, &ours::SocketConfig::default())?;
            }
        }
        Ok(())
    }

    pub(crate) async fn connect(&self, to: SocketAddr) -> Result<StackConnection, ConnectionEnded> {
        let other = |error: &dyn fmt::Display| ConnectionEnded::Other(error.to_string());
        match self.connecting(to).map_err(|e| other(&e))? {
            StackConnecting::Quinn(connecting) => Ok(StackConnection::Quinn(connecting.await?)),
            StackConnecting::Quickset(connecting) => match connecting.await {
                Ok(connection) => Ok(StackConnection::Quickset(connection)),
                Err(ours::ConnectError::Failed(closed)) => Err(closed.into()),
                Err(error) => Err(other(&error)),
            },
        }
    }

    /// A connection that takes data at once, and whether the server takes that in the end.
    pub(crate) fn connect_early(&self, to: SocketAddr) -> Result<(StackConnection, EarlyTaken)> {
        Ok(match self.connecting(to)? {
            StackConnecting::Quinn(connecting) => {
                let (connection, taken) = connecting.into_0rtt().ok().context("there is no ticket")?;
                (StackConnection::Quinn(connection), Box::pin(taken))
            }
            StackConnecting::Quickset(connecting) => {
                let connection = connecting.into_early().ok().context("there is no ticket")?;
                let asked = connection.clone();
                let taken = Box::pin(async move { asked.accepted_early().await });
                (StackConnection::Quickset(connection), taken)
            }
        })
    }

    fn connecting(&self, to: SocketAddr) -> Result<StackConnecting> {
        Ok(match &self.socket {
            StackSocket::Quinn(endpoint, config) => {
                let config = config.clone().context("it is a server")?;
                StackConnecting::Quinn(endpoint.connect_with(config, to, NAME)?)
            }
            StackSocket::Quickset(endpoint, config) => {
                let config = config.as_ref().context("it is a server")?;
                StackConnecting::Quickset(endpoint.connect(to, NAME, config))
            }
        })
    }

    /// The next connection, or why its handshake failed; quickset does not speak of those.
    pub(crate) async fn accept(&self) -> Option<Result<StackConnection, ConnectionEnded>> {
        let setup = &self.side.setup;
        match &self.socket {
            StackSocket::Quinn(endpoint, _) => loop {
                let incoming = endpoint.accept().await?;
                if !setup.retry || incoming.remote_address_validated() {
                    let connecting = match incoming.accept() {
                        Ok(connecting) => connecting,
                        Err(error) => return Some(Err(error.into())),
                    };
                    if setup.tickets == StackTickets::Early {
                        return connecting.into_0rtt().ok().map(|(c, _)| Ok(StackConnection::Quinn(c)));
                    }
                    return Some(connecting.await.map(StackConnection::Quinn).map_err(ConnectionEnded::from));
                }
                if incoming.retry().is_err() {
                    return Some(Err(ConnectionEnded::Other("it was retried already".into())));
                }
            },
            StackSocket::Quickset(endpoint, _) => {
                endpoint.accept().await.map(|c| Ok(StackConnection::Quickset(c)))
            }
        }
    }

    /// Waits until no connection is left, not even one that closes.
    pub(crate) async fn idle(&self) {
        match &self.socket {
            StackSocket::Quinn(endpoint, _) => endpoint.wait_idle().await,
            StackSocket::Quickset(endpoint, _) => endpoint.wait_idle().await,
        }
    }
}

enum StackConnecting {
    Quinn(quinn::Connecting),
    Quickset(ours::Connecting),
}

pub(crate) type EarlyTaken = Pin<Box<dyn Future<Output = bool> + std::marker::Send>>;

/// Ids of connections and reset tokens are made with the same keys by all endpoints, as by the processes that
/// follow one another on a server.
fn quinn_socket(side: &StackSide, server: Option<quinn::ServerConfig>) -> Result<quinn::Endpoint> {
    let key = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, b"what a server keeps to itself..."));
    let mut config = quinn::EndpointConfig::new(key);
    config.cid_generator(|| Box::new(quinn_cids()));
    if side.draft {
        config.supported_versions(vec![DRAFT]);
    }
    let socket = std::net::UdpSocket::bind(ANY_PORT)?;
    Ok(quinn::Endpoint::new(config, server, socket, Arc::new(quinn::TokioRuntime))?)
}

fn quickset_socket(server: Option<sans::ServerConfig>) -> Result<ours::Endpoint> {
    let socket = ours::SocketConfig::default();
    Ok(ours::Endpoint::bind(ANY_PORT, &socket, quickset::endpoint_config(), server)?)
}

impl StackConnection {
    pub(crate) async fn open_bi(&self) -> Result<(Send, Receive), ConnectionEnded> {
        Ok(match self {
            Self::Quinn(c) => c.open_bi().await.map(|(s, r)| (Send::Quinn(s), Receive::Quinn(r)))?,
            Self::Quickset(c) => c.open_bi().await.map(|(s, r)| (Send::Quickset(s), Receive::Quickset(r)))?,
        })
    }

    pub(crate) async fn accept_bi(&self) -> Result<(Send, Receive), ConnectionEnded> {
        Ok(match self {
            Self::Quinn(c) => c.accept_bi().await.map(|(s, r)| (Send::Quinn(s), Receive::Quinn(r)))?,
            Self::Quickset(c) => {
                c.accept_bi().await.map(|(s, r)| (Send::Quickset(s), Receive::Quickset(r)))?
            }
        })
    }

    pub(crate) async fn open_uni(&self) -> Result<Send, ConnectionEnded> {
        Ok(match self {
            Self::Quinn(c) => Send::Quinn(c.open_uni().await?),
            Self::Quickset(c) => Send::Quickset(c.open_uni().await?),
        })
    }

    pub(crate) async fn accept_uni(&self) -> Result<Receive, ConnectionEnded> {
        Ok(match self {
            Self::Quinn(c) => Receive::Quinn(c.accept_uni().await?),
            Self::Quickset(c) => Receive::Quickset(c.accept_uni().await?),
        })
    }

    pub(crate) fn close(&self, code: u32, reason: &[u8]) {
        match self {
            Self::Quinn(c) => c.close(code.into(), reason),
            Self::Quickset(c) => c.close(code.into(), reason),
        }
    }

    pub(crate) async fn closed(&self) -> ConnectionEnded {
        match self {
            Self::Quinn(c) => c.closed().await.into(),
            Self::Quickset(c) => c.closed().await.into(),
        }
    }

    /// The protocol agreed on.
    pub(crate) fn protocol(&self) -> Option<Vec<u8>> {
        match self {
            Self::Quinn(c) => {
                c.handshake_data()?.downcast::<quinn::crypto::rustls::HandshakeData>().ok()?.protocol
            }
            Self::Quickset(c) => c.alpn(),
        }
    }

    /// Bytes that only the two ends know.
    pub(crate) fn exported(&self) -> Option<[u8; 32]> {
        let mut key = [0; 32];
        match self {
            Self::Quinn(c) => c.export_keying_material(&mut key, b"interop", b"").ok()?,
            Self::Quickset(c) => c.export_keying_material(b"interop", b"", &mut key).ok()?,
        }
        Some(key)
    }

    /// Changes the packet keys, if that may be done now. Whether it was is known only of quickset.
    pub(crate) fn update_keys(&self) -> Option<bool> {
        match self {
            Self::Quinn(c) => {
                c.force_key_update();
                None
            }
            Self::Quickset(c) => Some(c.update_keys()),
        }
    }

    /// Where the peer is.
    pub(crate) fn remote_address(&self) -> SocketAddr {
        match self {
            Self::Quinn(c) => c.remote_address(),
            Self::Quickset(c) => c.remote_address(),
        }
    }

    /// What quickset counted.
    pub(crate) fn stats(&self) -> Option<ours::Stats> {
        match self {
            Self::Quinn(_) => None,
            Self::Quickset(c) => Some(c.stats()),
        }
    }
}

impl Send {
    pub(crate) async fn write(&mut self, chunk: Bytes) -> Result<(), Broken> {
        match self {
            Self::Quinn(s) => s.write_chunk(chunk).await?,
            Self::Quickset(s) => s.write_chunk(chunk).await?,
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<(), Broken> {
        match self {
            Self::Quinn(s) => s.finish().map_err(|e| Broken::Other(e.to_string())),
            Self::Quickset(s) => Ok(s.finish()?),
        }
    }

    /// Waits until all has arrived.
    pub(crate) async fn finished(&mut self) -> Result<(), Broken> {
        match self {
            Self::Quinn(s) => match s.stopped().await {
                Ok(None) => Ok(()),
                Ok(Some(code)) => Err(Broken::Stopped(code.into())),
                Err(quinn::StoppedError::ConnectionLost(error)) => Err(Broken::Connection(error.into())),
                Err(error @ quinn::StoppedError::ZeroRttRejected) => Err(Broken::Other(error.to_string())),
            },
            Self::Quickset(s) => Ok(s.finished().await?),
        }
    }

    pub(crate) fn reset(&mut self, code: u32) -> Result<(), Broken> {
        match self {
            Self::Quinn(s) => s.reset(code.into()).map_err(|e| Broken::Other(e.to_string())),
            Self::Quickset(s) => {
                s.reset(code.into());
                Ok(())
            }
        }
    }
}

impl Receive {
    /// The next bytes, `None` at the end.
    pub(crate) async fn read(&mut self) -> Result<Option<Bytes>, Broken> {
        Ok(match self {
            Self::Quinn(r) => r.read_chunk(usize::MAX, true).await?.map(|chunk| chunk.bytes),
            Self::Quickset(r) => r.read_chunk(usize::MAX).await?,
        })
    }

    /// What has come came, or a part of it, as early data.
    pub(crate) fn is_early(&self) -> bool {
        match self {
            Self::Quinn(r) => r.is_0rtt(),
            Self::Quickset(r) => r.is_early(),
        }
    }

    /// All that comes, of `limit` bytes at most.
    pub(crate) async fn read_all(&mut self, limit: usize) -> Result<Vec<u8>, Broken> {
        let mut all = Vec::new();
        while let Some(chunk) = self.read().await? {
            if chunk.len() > limit - all.len() {
                return Err(Broken::Other(format!("more than {limit} bytes")));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    pub(crate) fn stop(self, code: u32) -> Result<(), Broken> {
        match self {
            Self::Quinn(mut r) => r.stop(code.into()).map_err(|e| Broken::Other(e.to_string())),
            Self::Quickset(r) => {
                r.stop(code.into());
                Ok(())
            }
        }
    }
}

impl fmt::Display for InteropStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Quinn => "quinn",
            Self::Quickset => "quickset",
        })
    }
}

impl From<quinn::ConnectionError> for ConnectionEnded {
    fn from(error: quinn::ConnectionError) -> Self {
        use quinn::ConnectionError as Error;
        match error {
            Error::LocallyClosed => Self::Locally,
            Error::ApplicationClosed(close) => {
                Self::ByApplication(close.error_code.into(), close.reason.to_vec())
            }
            Error::ConnectionClosed(close) => {
                Self::ByPeer(close.error_code.into(), String::from_utf8_lossy(&close.reason).into_owned())
            }
            Error::TransportError(error) => Self::Failed(error.code.into(), error.reason),
            Error::Reset => Self::Reset,
            Error::TimedOut => Self::TimedOut,
            Error::VersionMismatch => Self::NoCommonVersion,
            Error::CidsExhausted => Self::Other(error.to_string()),
        }
    }
}

impl From<ours::Closed> for ConnectionEnded {
    fn from(closed: ours::Closed) -> Self {
        use ours::Closed;
        match closed {
            Closed::Locally => Self::Locally,
            Closed::ByApplication { code, reason } => Self::ByApplication(code, reason),
            Closed::ByPeer(error) => Self::ByPeer(error.code.0, error.to_string()),
            Closed::Failed(error) => Self::Failed(error.code.0, error.to_string()),
            Closed::Reset => Self::Reset,
            Closed::TimedOut => Self::TimedOut,
            Closed::NoCommonVersion => Self::NoCommonVersion,
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<quinn::ReadError> for Broken {
    fn from(error: quinn::ReadError) -> Self {
        match error {
            quinn::ReadError::Reset(code) => Self::Reset(code.into()),
            quinn::ReadError::ConnectionLost(error) => Self::Connection(error.into()),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<quinn::WriteError> for Broken {
    fn from(error: quinn::WriteError) -> Self {
        match error {
            quinn::WriteError::Stopped(code) => Self::Stopped(code.into()),
            quinn::WriteError::ConnectionLost(error) => Self::Connection(error.into()),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<ours::ReadError> for Broken {
    fn from(error: ours::ReadError) -> Self {
        match error {
            ours::ReadError::Reset(code) => Self::Reset(code),
            ours::ReadError::Closed(closed) => Self::Connection(closed.into()),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<ours::WriteError> for Broken {
    fn from(error: ours::WriteError) -> Self {
        match error {
            ours::WriteError::Stopped(code) => Self::Stopped(code),
            ours::WriteError::Closed(closed) => Self::Connection(closed.into()),
            other => Self::Other(other.to_string()),
        }
    }
}

/// quinn discards packets with ids that it cannot have made: a second server has to know the first one's.
fn quinn_cids() -> impl quinn::ConnectionIdGenerator {
    quinn_proto::HashedConnectionIdGenerator::from_key(7)
}

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// QUIC draft 29, the oldest that quinn knows; quickset does not.
const DRAFT: u32 = 0xff00_001d;
