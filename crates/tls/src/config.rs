use std::sync::Arc;

use quickset_quic::{ClientCrypto, ConnectionId, Crypto, Keys, ServerCrypto, Session, Side, Version};
use rustls::KeyLogFile;
use rustls::pki_types::ServerName;
use rustls::quic;

use crate::session::TlsSession;
use crate::{keys, retry};

/// Starts the TLS handshakes of a client.
#[derive(Clone, Debug)]
pub struct Client {
    tls: Arc<rustls::ClientConfig>,
}

/// Starts the TLS handshakes of a server.
#[derive(Clone, Debug)]
pub struct Server {
    tls: Arc<rustls::ServerConfig>,
}

/// Why a TLS configuration cannot be used for QUIC.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// RFC 9001 §8.1: QUIC needs an application protocol.
    #[error("no application protocol is configured (alpn_protocols is empty)")]
    NoApplicationProtocol,
    /// Early data is switched on; this crate carries none.
    #[error("early data (0-RTT) is switched on and is not supported")]
    EarlyData,
    /// There is no TLS 1.3, or no cipher suite that QUIC can use.
    #[error("not fit for QUIC: {0}")]
    Tls(#[from] rustls::Error),
}

impl Client {
    /// Uses `tls` for the connections of clients.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Result<Self, ConfigError> {
        if tls.alpn_protocols.is_empty() {
            return Err(ConfigError::NoApplicationProtocol);
        }
        if tls.enable_early_data {
            return Err(ConfigError::EarlyData);
        }
        // What can be wrong apart from the name is found now and not with the first connection.
        let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
        quic::ClientConnection::new(tls.clone(), quic::Version::V1, name, Vec::new())?;
        Ok(Self { tls })
    }

    /// Appends the secrets of connections to the file named by the environment variable
    /// `SSLKEYLOGFILE`, for analysers; without the variable nothing changes. Who reads the file reads the
    /// connections.
    #[must_use]
    pub fn with_key_log(mut self) -> Self {
        if wants_key_log() {
            Arc::make_mut(&mut self.tls).key_log = Arc::new(KeyLogFile::new());
        }
        self
    }
}

impl Server {
    /// Uses `tls` for the connections of a server.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(tls: Arc<rustls::ServerConfig>) -> Result<Self, ConfigError> {
        if tls.alpn_protocols.is_empty() {
            return Err(ConfigError::NoApplicationProtocol);
        }
        if tls.max_early_data_size != 0 {
            return Err(ConfigError::EarlyData);
        }
        quic::ServerConnection::new(tls.clone(), quic::Version::V1, Vec::new())?;
        Ok(Self { tls })
    }

    /// See [`Client::with_key_log`].
    #[must_use]
    pub fn with_key_log(mut self) -> Self {
        if wants_key_log() {
            Arc::make_mut(&mut self.tls).key_log = Arc::new(KeyLogFile::new());
        }
        self
    }
}

impl Crypto for Client {
    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Option<Keys> {
        keys::initial(version, dcid, side)
    }

    fn retry_tag(&self, version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> Option<[u8; 16]> {
        retry::tag(version, original_dcid, packet)
    }
}

impl Crypto for Server {
    fn initial_keys(&self, version: Version, dcid: &ConnectionId, side: Side) -> Option<Keys> {
        keys::initial(version, dcid, side)
    }

    fn retry_tag(&self, version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> Option<[u8; 16]> {
        retry::tag(version, original_dcid, packet)
    }
}

impl ClientCrypto for Client {
    fn start(
        self: Arc<Self>,
        version: Version,
        server_name: &str,
        params: Vec<u8>,
    ) -> Result<Box<dyn Session>, String> {
        let version = keys::version(version).ok_or_else(|| format!("QUIC {version} is not known to TLS"))?;
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| format!("{server_name:?} is neither a host name nor an address"))?;
        let tls = quic::ClientConnection::new(self.tls.clone(), version, name, params)
            .map_err(|error| error.to_string())?;
        Ok(Box::new(TlsSession::new(tls.into())))
    }
}

impl ServerCrypto for Server {
    /// # Panics
    /// For a version without [initial keys](Crypto::initial_keys), which the caller has had.
    fn start(self: Arc<Self>, version: Version, params: Vec<u8>) -> Box<dyn Session> {
        let version = keys::version(version).expect("a version that there are initial keys for");
        let tls = quic::ServerConnection::new(self.tls.clone(), version, params)
            .expect("the configuration was tried in new");
        Box::new(TlsSession::new(tls.into()))
    }
}

fn wants_key_log() -> bool {
    std::env::var_os("SSLKEYLOGFILE").is_some_and(|path| !path.is_empty())
}
