//! The verbs that the cases use, for both stacks.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use aws_lc_rs::hmac;
use bytes::Bytes;
use quickset_net as ours;
use quickset_quic as sans;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};

use crate::tls::{self, InteropIdentity, TlsWishes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InteropStack {
    Quinn,
    Quickset,
}

/// How one side behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackSide {
    pub(crate) stack: InteropStack,
    pub(crate) tls: TlsWishes,
    /// As a server: every client has to prove its address first.
    pub(crate) retry: bool,
    pub(crate) idle: Duration,
    /// Speaks a draft version of QUIC and no other; quinn only.
    pub(crate) draft: bool,
}

pub(crate) enum StackEndpoint {
    Quinn(quinn::Endpoint),
    Quickset(ours::Endpoint),
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
    pub(crate) fn server(side: &StackSide, identity: &InteropIdentity) -> Result<Self> {
        let tls = identity.server(side.tls)?;
        Ok(match side.stack {
            InteropStack::Quinn => {
                let crypto = QuicServerConfig::with_initial(tls, tls::initial_suite()?)?;
                let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
                config.transport_config(side.quinn_transport()?);
                Self::quinn(side, Some(config))?
            }
            InteropStack::Quickset => {
                let retry = if side.retry { sans::RetryPolicy::Always } else { sans::RetryPolicy::Never };
                let config = sans::ServerConfig {
                    crypto: Arc::new(quickset_tls::Server::new(tls)?),
                    transport: side.transport(),
                    max_connections: 100,
                    retry,
                    retry_token_lifetime: Duration::from_secs(15),
                    gate: None,
                    token_lifetime: Duration::from_secs(15),
                };
                Self::quickset(Some(config))?
            }
        })
    }

    pub(crate) fn client(side: &StackSide) -> Result<Self> {
        match side.stack {
            InteropStack::Quinn => Self::quinn(side, None),
            InteropStack::Quickset => Self::quickset(None),
        }
    }

    /// Ids of connections and reset tokens are made with the same keys by all endpoints, as by the processes
    /// that follow one another on a server.
    fn quinn(side: &StackSide, server: Option<quinn::ServerConfig>) -> Result<Self> {
        let key = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, SECRET));
        let mut config = quinn::EndpointConfig::new(key);
        config.cid_generator(|| Box::new(quinn_cids()));
        if side.draft {
            config.supported_versions(vec![DRAFT]);
        }
        let socket = std::net::UdpSocket::bind(ANY_PORT)?;
        Ok(Self::Quinn(quinn::Endpoint::new(config, server, socket, Arc::new(quinn::TokioRuntime))?))
    }

    fn quickset(server: Option<sans::ServerConfig>) -> Result<Self> {
        let config = sans::EndpointConfig {
            crypto: Arc::new(quickset_tls::EndpointSecrets::new(SECRET)),
            connection_id_len: 8,
            resets_per_second: 100,
        };
        Ok(Self::Quickset(ours::Endpoint::bind(ANY_PORT, &ours::SocketConfig::default(), config, server)?))
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        Ok(match self {
            Self::Quinn(endpoint) => endpoint.local_addr()?,
            Self::Quickset(endpoint) => endpoint.local_addr(),
        })
    }

    /// Goes on with another socket.
    pub(crate) fn rebind(&self) -> Result<()> {
        match self {
            Self::Quinn(endpoint) => endpoint.rebind(std::net::UdpSocket::bind(ANY_PORT)?)?,
            Self::Quickset(endpoint) => endpoint.rebind(ANY_PORT, &ours::SocketConfig::default())?,
        }
        Ok(())
    }

    pub(crate) async fn connect(
        &self,
        to: SocketAddr,
        side: &StackSide,
        trusted: &InteropIdentity,
    ) -> Result<StackConnection, ConnectionEnded> {
        let other = |error: &dyn fmt::Display| ConnectionEnded::Other(error.to_string());
        let tls = trusted.client(side.tls).map_err(|e| other(&e))?;
        match self {
            Self::Quinn(endpoint) => {
                let suite = tls::initial_suite().map_err(|e| other(&e))?;
                let crypto = QuicClientConfig::with_initial(tls, suite).map_err(|e| other(&e))?;
                let mut config = quinn::ClientConfig::new(Arc::new(crypto));
                config.transport_config(side.quinn_transport().map_err(|e| other(&e))?);
                if side.draft {
                    config.version(DRAFT);
                }
                let connecting = endpoint.connect_with(config, to, tls::NAME).map_err(|e| other(&e))?;
                Ok(StackConnection::Quinn(connecting.await?))
            }
            Self::Quickset(endpoint) => {
                let crypto = quickset_tls::Client::new(tls).map_err(|e| other(&e))?;
                let config = sans::ClientConfig { crypto: Arc::new(crypto), transport: side.transport() };
                match endpoint.connect(to, tls::NAME, &config).await {
                    Ok(connection) => Ok(StackConnection::Quickset(connection)),
                    Err(ours::ConnectError::Failed(closed)) => Err(closed.into()),
                    Err(error) => Err(other(&error)),
                }
            }
        }
    }

    /// The next connection, or why its handshake failed; quickset does not speak of those.
    pub(crate) async fn accept(&self, side: &StackSide) -> Option<Result<StackConnection, ConnectionEnded>> {
        match self {
            Self::Quinn(endpoint) => loop {
                let incoming = endpoint.accept().await?;
                if !side.retry || incoming.remote_address_validated() {
                    return Some(incoming.await.map(StackConnection::Quinn).map_err(ConnectionEnded::from));
                }
                if incoming.retry().is_err() {
                    return Some(Err(ConnectionEnded::Other("it was retried already".into())));
                }
            },
            Self::Quickset(endpoint) => endpoint.accept().await.map(|c| Ok(StackConnection::Quickset(c))),
        }
    }

    /// Waits until no connection is left, not even one that closes.
    pub(crate) async fn idle(&self) {
        match self {
            Self::Quinn(endpoint) => endpoint.wait_idle().await,
            Self::Quickset(endpoint) => endpoint.wait_idle().await,
        }
    }
}

impl StackSide {
    fn quinn_transport(&self) -> Result<Arc<quinn::TransportConfig>> {
        let mut config = quinn::TransportConfig::default();
        config.max_idle_timeout(Some(self.idle.try_into()?));
        Ok(Arc::new(config))
    }

    fn transport(&self) -> Arc<sans::TransportConfig> {
        Arc::new(sans::TransportConfig::fixed_mtu(1200).with_idle_timeout(self.idle))
    }
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
const SECRET: &[u8; 32] = b"what a server keeps to itself...";

/// QUIC draft 29, the oldest that quinn knows; quickset does not.
const DRAFT: u32 = 0xff00_001d;
