mod choosing;

use std::sync::Arc;

use quickset_quic::{
    ChooseVersion, ClientCrypto, ConnectionId, Crypto, CryptoSession, EarlyLimits, Keys, ServerCrypto, Side,
    Version,
};
use rustls::KeyLogFile;
use rustls::pki_types::ServerName;
use rustls::quic;

use crate::afterwards::ExporterLog;
use crate::derive::Overheard;
use crate::session::{Following, TlsSession};
use crate::tickets::{Shelves, TicketShelf, TicketStore};
use crate::versions::{Announced, EachVersion, servers};
use crate::{keys, retry};
use choosing::Choosing;

/// Starts the TLS handshakes of a client. They are what RFC 9000 §7 asks of a handshake: authenticated keys
/// and transport parameters, and an application protocol that both speak.
#[derive(Clone, Debug)]
pub struct Client {
    tls: EachVersion<rustls::ClientConfig>,
    /// Where tickets go, if that is known.
    shelves: Option<[Arc<TicketShelf>; 2]>,
    offered: Arc<[Vec<u8>]>,
}

/// Starts the TLS handshakes of a server.
#[derive(Clone, Debug)]
pub struct Server {
    tls: EachVersion<rustls::ServerConfig>,
    announced: Announced,
}

/// Why a TLS configuration cannot be used for QUIC.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TlsConfigError {
    /// RFC 9001 §8.1: QUIC needs an application protocol.
    #[error("no application protocol is configured (alpn_protocols is empty)")]
    NoApplicationProtocol,
    /// Early data is switched on, and more than one application protocol is offered: nobody could tell which
    /// one it is in.
    #[error("early data (0-RTT) is in one application protocol: offer no others beside it")]
    EarlyProtocols,
    /// Early data is switched on, and tickets carry the session in themselves: nobody could tell whether one
    /// was used.
    #[error("early data (0-RTT) needs tickets that are used once: configure session_storage and no ticketer")]
    EarlyTickets,
    /// There is no TLS 1.3 (RFC 9001 §4.2), or no cipher suite that QUIC can use.
    #[error("not fit for QUIC: {0}")]
    Tls(#[from] rustls::Error),
}

impl Client {
    /// Uses `tls` for the connections of clients. With `enable_early_data`, and a transport that wants it, a
    /// connection that resumes an earlier one can carry early data. Sessions are resumed in the QUIC version
    /// that they are of (RFC 9369 §5): those kept by `tls` itself are of version 1, and for others there is
    /// [`with_tickets`](Self::with_tickets).
    ///
    /// # Errors
    /// See [`TlsConfigError`].
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Result<Self, TlsConfigError> {
        if tls.alpn_protocols.is_empty() {
            return Err(TlsConfigError::NoApplicationProtocol);
        }
        if tls.enable_early_data && tls.alpn_protocols.len() > 1 {
            return Err(TlsConfigError::EarlyProtocols);
        }
        // What can be wrong apart from the name is found now and not with the first connection.
        let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
        quic::ClientConnection::new(tls.clone(), quic::Version::V1, name, Vec::new())?;
        let offered = tls.alpn_protocols.clone().into();
        let mut tls = EachVersion([tls.clone(), tls]);
        tls.change(|version, tls| {
            tls.key_log = ExporterLog::before(tls.key_log.clone());
            if version == Version::V2 {
                tls.resumption = rustls::client::Resumption::disabled();
            }
        });
        Ok(Self { tls, shelves: None, offered })
    }

    /// Keeps its tickets (RFC 9001 §4.5) in `store`, which others may share. Only then do servers choose the
    /// version (RFC 9368 §2.3): that of a ticket must be known.
    ///
    /// `verifier` names by what servers are believed and what this client proves to be: where that differs,
    /// so must the name. (The TLS library looks at this again by itself, and resumes nothing with another
    /// verifier or another key.)
    #[must_use]
    pub fn with_tickets(mut self, store: Arc<dyn TicketStore>, verifier: &[u8]) -> Self {
        let alpn = self.tls.of(Version::V1).alpn_protocols.clone();
        let shelf = move |version| TicketShelf::new(store.clone(), version, alpn.clone(), verifier.to_vec());
        let shelves = [Version::V1, Version::V2].map(|version| Arc::new(shelf(version)));
        self.tls.change(|version, tls| {
            let shelf = shelves[usize::from(version == Version::V2)].clone();
            tls.resumption = rustls::client::Resumption::store(shelf);
        });
        self.shelves = Some(shelves);
        self
    }

    /// Appends the secrets of connections to the file named by the environment variable
    /// `SSLKEYLOGFILE`, for analysers; without the variable nothing changes. Who reads the file reads the
    /// connections.
    #[must_use]
    pub fn with_key_log(mut self) -> Self {
        if wants_key_log() {
            self.tls.change(|_, tls| tls.key_log = ExporterLog::before(Arc::new(KeyLogFile::new())));
        }
        self
    }
}

impl Server {
    /// Uses `tls` for the connections of a server. With a `max_early_data_size` of 2^32 - 1
    /// (RFC 9001 §4.6.1), and a transport that wants it, early data is taken: with a ticket of this server,
    /// or one with the same `session_storage`, that was not used before, and whose age is what the client
    /// says, give or take a minute (RFC 8446 §8.3).
    ///
    /// # Errors
    /// See [`TlsConfigError`].
    pub fn new(tls: Arc<rustls::ServerConfig>) -> Result<Self, TlsConfigError> {
        if tls.alpn_protocols.is_empty() {
            return Err(TlsConfigError::NoApplicationProtocol);
        }
        if tls.max_early_data_size != 0 && (tls.ticketer.enabled() || !tls.session_storage.can_cache()) {
            return Err(TlsConfigError::EarlyTickets);
        }
        quic::ServerConnection::new(tls.clone(), quic::Version::V1, Vec::new())?;
        let announced = Announced::default();
        let mut tls = servers(tls, &announced);
        tls.change(|_, tls| tls.key_log = ExporterLog::before(tls.key_log.clone()));
        Ok(Self { tls, announced })
    }

    /// See [`Client::with_key_log`].
    #[must_use]
    pub fn with_key_log(mut self) -> Self {
        if wants_key_log() {
            self.tls.change(|_, tls| tls.key_log = ExporterLog::before(Arc::new(KeyLogFile::new())));
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
    fn follows(&self) -> bool {
        self.shelves.is_some()
    }

    fn start(
        self: Arc<Self>,
        version: Version,
        server_name: &str,
        params: Vec<u8>,
    ) -> Result<Box<dyn CryptoSession>, String> {
        let mut tls = self.tls.of(version).clone();
        let following = self.shelves.as_ref().map(|shelves| {
            // The secrets are there for other keys than those that TLS makes, and the tickets are of another
            // version then.
            let own = Arc::make_mut(&mut tls);
            let overheard = Arc::new(Overheard::new(own.key_log.clone()));
            let shelves = Arc::new(Shelves::new(shelves.clone(), version));
            own.key_log = overheard.clone();
            own.resumption = rustls::client::Resumption::store(shelves.clone());
            Following::new(overheard, shelves)
        });
        let version = keys::version(version).ok_or_else(|| format!("QUIC {version} is not known to TLS"))?;
        // RFC 9114 §3.2: the library names the host to the server.
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| format!("{server_name:?} is neither a host name nor an address"))?;
        let tls =
            quic::ClientConnection::new(tls, version, name, params).map_err(|error| error.to_string())?;
        Ok(Box::new(TlsSession::new(tls.into()).following(following).offering(self.offered.clone())))
    }
}

impl ServerCrypto for Server {
    /// # Panics
    /// For a version without [initial keys](Crypto::initial_keys), which the caller has had.
    fn start(self: Arc<Self>, version: Version, params: Vec<u8>) -> Box<dyn CryptoSession> {
        Box::new(self.begin(version, params))
    }

    fn start_choosing(
        self: Arc<Self>,
        version: Version,
        params: Vec<u8>,
        choose: ChooseVersion,
    ) -> Box<dyn CryptoSession> {
        Box::new(Choosing::new(self, version, params, choose))
    }
}

impl Server {
    pub(crate) fn begin(&self, version: Version, params: Vec<u8>) -> TlsSession {
        let tls = self.tls.of(version).clone();
        let version = keys::version(version).expect("a version that there are initial keys for");
        let covered = self.covers(&params);
        let tls =
            quic::ServerConnection::new(tls, version, params).expect("the configuration was tried in new");
        let mut session = TlsSession::new(tls.into());
        if !covered {
            session.refuse_early();
        }
        session
    }

    /// RFC 9000 §7.4.1: early data was written under limits of an earlier connection, and is not taken under
    /// lower ones.
    fn covers(&self, params: &[u8]) -> bool {
        EarlyLimits::decode(params).is_some_and(|limits| self.announced.add(&limits))
    }
}

fn wants_key_log() -> bool {
    std::env::var_os("SSLKEYLOGFILE").is_some_and(|path| !path.is_empty())
}
