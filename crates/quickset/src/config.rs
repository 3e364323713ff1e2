use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quickset_quic::{EarlyData, Fec, Protection, RetryPolicy, TransportConfig};

use quickset_tls::{TicketMemory, TicketStore};
use rustls::server::ServerSessionMemoryCache;

use crate::identity::Present;
use crate::transport::Transport;
use crate::trust::KeyHolder;
use crate::{Identity, Trust};

/// How an endpoint takes connections.
#[derive(Clone)]
pub struct ServerConfig {
    identity: Arc<Present>,
    alpn: Vec<Vec<u8>>,
    clients: ClientAuth,
    key_log: bool,
    transport: Transport,
    max_connections: usize,
    retry: RetryPolicy,
}

/// How connections to servers are made. To be kept: a later connection with the same configuration resumes the
/// TLS session of an earlier one.
#[derive(Clone)]
pub struct ClientConfig {
    trust: Trust,
    identity: Option<Identity>,
    alpn: Vec<Vec<u8>>,
    key_log: bool,
    early: bool,
    tickets: Arc<dyn TicketStore>,
    transport: Transport,
    quic: quickset_quic::ClientConfig,
}

/// Whether clients prove who they are. What they prove is not judged here: the application does, by
/// [`Peer::fingerprint`](crate::Peer::fingerprint).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    #[default]
    None,
    /// They are asked, and may have nothing to show.
    Optional,
    /// Without a certificate there is no connection.
    Mandatory,
}

/// Why a configuration cannot be used.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// RFC 9001 §8.1: QUIC needs an application protocol.
    #[error("name at least one application protocol, such as \"chat/1\"")]
    NoProtocol,
    /// Early data is in one application protocol.
    #[error("early data is in one application protocol: name no others beside it")]
    EarlyProtocols,
    /// RFC 7301 §3.1.
    #[error("the name of an application protocol has 1 to 255 bytes")]
    BadProtocol,
}

impl ServerConfig {
    /// A server that proves to be `identity` and speaks the application protocols `alpn`, the best first.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(identity: Identity, alpn: &[&str]) -> Result<Self, ConfigError> {
        Ok(Self {
            identity: Arc::new(Present::new(identity)),
            alpn: protocols(alpn)?,
            clients: ClientAuth::None,
            key_log: false,
            transport: Transport::default(),
            max_connections: 10_000,
            retry: RetryPolicy::WhenBusy(1000),
        })
    }

    /// How its connections behave. What is said by itself ([`with_fec`](Self::with_fec),
    /// [`with_protection`](Self::with_protection), [`with_early_data`](Self::with_early_data)) counts beside it, whichever
    /// comes first.
    #[must_use]
    pub fn with_transport(mut self, transport: TransportConfig) -> Self {
        self.transport.set_whole(transport);
        self
    }

    /// What of forward erasure correction is offered: how much is kept for decoding, and what protects streams that have
    /// no [`Reliability`](crate::Reliability) of their own. `None`: nothing is offered, decoded or repaired. Unless
    /// told, it is offered and protects nothing that does not ask for it. Stands for `fec` of
    /// [`with_transport`](Self::with_transport), whichever comes first.
    #[must_use]
    pub fn with_fec(mut self, fec: impl Into<Option<Fec>>) -> Self {
        self.transport.set_fec(fec.into());
        self
    }

    /// Protects all streams that have no [`Reliability`](crate::Reliability) of their own. Stands for `protection` of
    /// [`with_fec`](Self::with_fec), whichever comes first; where that says `None`, nothing is protected.
    #[must_use]
    pub fn with_protection(mut self, protection: Protection) -> Self {
        self.transport.set_protection(protection);
        self
    }

    /// Takes early data: what clients that were here before send before the handshake is through, a round trip sooner.
    /// [`Endpoint::accept`](crate::Endpoint::accept) hands such connections out at once, and
    /// [`RecvStream::is_early`](crate::RecvStream::is_early) tells what came so. Stands for `early_data` of
    /// [`with_transport`](Self::with_transport), whichever comes first.
    ///
    /// **An attacker can send early data again.** This endpoint takes each once: a ticket is good once, the last 4096
    /// are remembered, and what is older than its ticket says, by a minute, is not taken. Another endpoint, or this one
    /// after a restart, takes none of it. Where several endpoints share a name, a client that was rejected by one sends
    /// the same again by itself, so only what may be done twice belongs there.
    #[must_use]
    pub fn with_early_data(mut self, early: EarlyData) -> Self {
        self.transport.set_early(early);
        self
    }

    /// Whether clients prove who they are; they do not unless told.
    #[must_use]
    pub fn with_client_auth(mut self, clients: ClientAuth) -> Self {
        self.clients = clients;
        self
    }

    /// Connections at most, 10,000 unless told; further clients are refused.
    #[must_use]
    pub fn with_max_connections(mut self, max: usize) -> Self {
        self.max_connections = max;
        self
    }

    /// When clients must prove their address before anything is kept for them; unless told, when 1,000 handshakes
    /// are under way.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Appends the secrets of connections to the file that the environment variable `SSLKEYLOGFILE` names, for
    /// analysers. Who reads the file reads the connections.
    #[must_use]
    pub fn with_key_log(mut self) -> Self {
        self.key_log = true;
        self
    }

    /// Who the server is.
    pub fn identity(&self) -> Identity {
        self.identity.get()
    }

    /// From now on the server proves to be this one, for example with the next certificate: in all handshakes that begin,
    /// of endpoints that run with this configuration or a clone of it, too. Connections stay as they are.
    pub fn set_identity(&self, identity: Identity) {
        self.identity.set(identity);
    }

    /// TLS over TCP for the same server, with application protocols of its own, the best first: it proves to be the same, with
    /// the next [`set_identity`](Self::set_identity) too. TLS 1.3 and nothing older.
    pub fn tls(&self, alpn: &[&str]) -> Arc<rustls::ServerConfig> {
        let mut tls = self.rustls();
        tls.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        if self.key_log {
            tls.key_log = Arc::new(rustls::KeyLogFile::new());
        }
        Arc::new(tls)
    }

    fn rustls(&self) -> rustls::ServerConfig {
        let builder = rustls::ServerConfig::builder_with_provider(crate::identity::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3");
        let builder = match self.clients {
            ClientAuth::None => builder.with_no_client_auth(),
            ClientAuth::Optional => builder.with_client_cert_verifier(KeyHolder::of_clients(false)),
            ClientAuth::Mandatory => builder.with_client_cert_verifier(KeyHolder::of_clients(true)),
        };
        builder.with_cert_resolver(self.identity.clone())
    }

    /// The same in the words of the core, for those who drive its machines themselves.
    pub fn quic(&self) -> quickset_quic::ServerConfig {
        let transport = self.transport.merged();
        let mut tls = self.rustls();
        tls.alpn_protocols.clone_from(&self.alpn);
        if transport.early_data.is_some() {
            // RFC 9001 §4.6.1: in QUIC this is no number of bytes but a yes.
            tls.max_early_data_size = u32::MAX;
            tls.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        }
        let crypto = quickset_tls::Server::new(Arc::new(tls)).expect("protocols were checked in new");
        let crypto = if self.key_log { crypto.with_key_log() } else { crypto };
        quickset_quic::ServerConfig {
            crypto: Arc::new(crypto),
            transport,
            max_connections: self.max_connections,
            retry: self.retry,
            retry_token_lifetime: Duration::from_secs(15),
            token_lifetime: Duration::from_secs(14 * 24 * 3600),
        }
    }
}

impl ClientConfig {
    /// A client that believes servers by `trust` and offers the application protocols `alpn`, the best first.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(trust: Trust, alpn: &[&str]) -> Result<Self, ConfigError> {
        let alpn = protocols(alpn)?;
        let tickets: Arc<dyn TicketStore> = Arc::new(TicketMemory::default());
        let mut this = Self {
            quic: quickset_quic::ClientConfig {
                crypto: Arc::new(tls_client(&trust, None, &alpn, false)),
                transport: Arc::default(),
            },
            trust,
            identity: None,
            alpn,
            key_log: false,
            early: false,
            tickets,
            transport: Transport::default(),
        };
        this.renew();
        Ok(this)
    }

    /// How its connections behave. What is said by itself ([`with_fec`](Self::with_fec),
    /// [`with_protection`](Self::with_protection), [`with_early_data`](Self::with_early_data)) counts beside it, whichever
    /// comes first.
    #[must_use]
    pub fn with_transport(mut self, transport: TransportConfig) -> Self {
        self.transport.set_whole(transport);
        self.settled()
    }

    /// What of forward erasure correction is offered: how much is kept for decoding, and what protects streams that have
    /// no [`Reliability`](crate::Reliability) of their own. `None`: nothing is offered, decoded or repaired. Unless
    /// told, it is offered and protects nothing that does not ask for it. Stands for `fec` of
    /// [`with_transport`](Self::with_transport), whichever comes first.
    #[must_use]
    pub fn with_fec(mut self, fec: impl Into<Option<Fec>>) -> Self {
        self.transport.set_fec(fec.into());
        self.settled()
    }

    /// Protects all streams that have no [`Reliability`](crate::Reliability) of their own. Stands for `protection` of
    /// [`with_fec`](Self::with_fec), whichever comes first; where that says `None`, nothing is protected.
    #[must_use]
    pub fn with_protection(mut self, protection: Protection) -> Self {
        self.transport.set_protection(protection);
        self.settled()
    }

    /// Proves to be `identity` when the server asks.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self.renew();
        self
    }

    /// Lets connections to servers that were connected to before begin with data: see
    /// [`Connecting::into_early`](crate::Connecting::into_early), without which nothing is sent early. Stands for
    /// `early_data` of [`with_transport`](Self::with_transport), whichever comes first.
    ///
    /// # Errors
    /// [`ConfigError::EarlyProtocols`] when more than one application protocol is offered.
    pub fn with_early_data(mut self, early: EarlyData) -> Result<Self, ConfigError> {
        if self.alpn.len() > 1 {
            return Err(ConfigError::EarlyProtocols);
        }
        self.transport.set_early(early);
        self.early = true;
        self.renew();
        Ok(self.settled())
    }

    /// Keeps the tickets of its sessions in `store` instead of a [`TicketMemory`] of its own. They are secrets.
    #[must_use]
    pub fn with_tickets(mut self, store: Arc<dyn TicketStore>) -> Self {
        self.tickets = store;
        self.renew();
        self
    }

    /// See [`ServerConfig::with_key_log`].
    #[must_use]
    pub fn with_key_log(mut self) -> Self {
        self.key_log = true;
        self.renew();
        self
    }

    /// TLS over TCP with the same trust and identity, and application protocols of its own, the best first.
    pub fn tls(&self, alpn: &[&str]) -> Arc<rustls::ClientConfig> {
        let mut tls = rustls_client(&self.trust, self.identity.as_ref());
        tls.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        if self.key_log {
            tls.key_log = Arc::new(rustls::KeyLogFile::new());
        }
        Arc::new(tls)
    }

    fn settled(mut self) -> Self {
        self.quic.transport = self.transport.merged();
        self
    }

    fn renew(&mut self) {
        let client = tls_client(&self.trust, self.identity.as_ref(), &self.alpn, self.early);
        // TLS resumes nothing with another verifier, and each configuration has its own.
        let verifier = VERIFIERS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let client = client.with_tickets(self.tickets.clone(), &verifier);
        self.quic.crypto = Arc::new(if self.key_log { client.with_key_log() } else { client });
    }

    /// The same in the words of the core, for those who drive its machines themselves.
    pub fn quic(&self) -> &quickset_quic::ClientConfig {
        &self.quic
    }
}

fn tls_client(
    trust: &Trust,
    identity: Option<&Identity>,
    alpn: &[Vec<u8>],
    early: bool,
) -> quickset_tls::Client {
    let mut tls = rustls_client(trust, identity);
    tls.alpn_protocols = alpn.to_vec();
    tls.enable_early_data = early;
    quickset_tls::Client::new(Arc::new(tls)).expect("protocols were checked in new")
}

fn rustls_client(trust: &Trust, identity: Option<&Identity>) -> rustls::ClientConfig {
    match identity {
        Some(identity) => trust.client().with_client_cert_resolver(identity.resolver()),
        None => trust.client().with_no_client_auth(),
    }
}

/// Sessions that a server remembers for early data; with a client's certificate, each is some hundred bytes to a few
/// thousand.
const SESSIONS: usize = 4096;

/// Names verifiers, so that tickets of one configuration are not offered with another.
static VERIFIERS: AtomicU64 = AtomicU64::new(0);

fn protocols(alpn: &[&str]) -> Result<Vec<Vec<u8>>, ConfigError> {
    if alpn.is_empty() {
        return Err(ConfigError::NoProtocol);
    }
    if alpn.iter().any(|name| name.is_empty() || name.len() > 255) {
        return Err(ConfigError::BadProtocol);
    }
    Ok(alpn.iter().map(|name| name.as_bytes().to_vec()).collect())
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("identity", &self.identity.get())
            .field("clients", &self.clients)
            .field("transport", &self.transport.merged())
            .field("max_connections", &self.max_connections)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("trust", &self.trust)
            .field("identity", &self.identity)
            .field("transport", &self.quic.transport)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use quickset_quic::Estimates;

    use crate::transport::sharing;

    #[test]
    fn erasure_correction_is_set_beside_the_rest() {
        let transport = TransportConfig { mtu: 1300, ..TransportConfig::default() };
        let config = ClientConfig::new(Trust::insecure(), &["a"]).unwrap().with_transport(transport);
        let fixed: Protection = "fixed:9".parse().unwrap();
        let config = config.with_fec(Fec { window: 99, ..Fec::default() }).with_protection(fixed.clone());
        let fec = config.quic().transport.fec.clone().unwrap();
        assert_eq!((fec.window, fec.protection, config.quic().transport.mtu), (99, fixed, 1300));

        let (ours, own) = (Arc::new(Estimates::new()), Arc::new(Estimates::new()));
        let of = |transport: &Arc<TransportConfig>| transport.fec.as_ref().and_then(|f| f.estimates.clone());
        let shared = of(&sharing(&config.quic().transport, &ours)).unwrap();
        assert!(Arc::ptr_eq(&shared, &ours));
        let config = config.with_fec(Fec { estimates: Some(own.clone()), ..Fec::default() });
        let kept = of(&sharing(&config.quic().transport, &ours)).unwrap();
        assert!(Arc::ptr_eq(&kept, &own), "who names a place has a reason");
        let without = config.with_fec(None);
        assert!(sharing(&without.quic().transport, &ours).fec.is_none());
    }

    /// Every order of the calls that say something of the transport.
    #[test]
    fn what_is_said_by_itself_counts_whatever_the_order() {
        let fixed: Protection = "fixed:9".parse().unwrap();
        let whole = || TransportConfig { mtu: 1300, fec: None, ..TransportConfig::default() };
        let parts =
            || (Fec { window: 99, ..Fec::default() }, EarlyData { max_bytes: 7, ..EarlyData::default() });
        let orders = (0..4usize.pow(4)).map(|n| [n % 4, n / 4 % 4, n / 16 % 4, n / 64]);
        let mut tried = 0;
        for order in orders.filter(|order| (0..4).all(|call| order.contains(&call))) {
            tried += 1;
            let mut server = ServerConfig::new(Identity::self_signed(["a"]).unwrap(), &["a"]).unwrap();
            let mut client = ClientConfig::new(Trust::insecure(), &["a"]).unwrap();
            for call in order {
                let (fec, early) = parts();
                (server, client) = match call {
                    0 => (server.with_transport(whole()), client.with_transport(whole())),
                    1 => (server.with_fec(fec.clone()), client.with_fec(fec)),
                    2 => (server.with_protection(fixed.clone()), client.with_protection(fixed.clone())),
                    _ => (server.with_early_data(early.clone()), client.with_early_data(early).unwrap()),
                };
            }
            for transport in [server.quic().transport, client.quic().transport.clone()] {
                let fec = transport.fec.as_ref().unwrap();
                let early = transport.early_data.as_ref().unwrap();
                assert_eq!((transport.mtu, fec.window, early.max_bytes), (1300, 99, 7), "{order:?}");
                assert_eq!(fec.protection, fixed, "{order:?}");
            }
        }
        assert_eq!(tried, 24);
    }

    #[test]
    fn who_offers_no_erasure_correction_protects_nothing() {
        let fixed: Protection = "fixed:9".parse().unwrap();
        let config = || ClientConfig::new(Trust::insecure(), &["a"]).unwrap();
        let fec = |config: ClientConfig| config.quic().transport.fec.clone();
        assert_eq!(fec(config().with_fec(None).with_protection(fixed.clone())).map(|fec| fec.window), None);
        assert_eq!(fec(config().with_protection(fixed.clone()).with_fec(None)).map(|fec| fec.window), None);
        // A transport is no such word.
        let bare = TransportConfig { fec: None, ..TransportConfig::default() };
        assert_eq!(
            fec(config().with_protection(fixed.clone()).with_transport(bare)).unwrap().protection,
            fixed
        );
    }

    #[test]
    fn an_application_protocol_is_needed() {
        assert_eq!(ClientConfig::new(Trust::insecure(), &[]).err(), Some(ConfigError::NoProtocol));
        let long = "x".repeat(256);
        for bad in ["", &long] {
            assert_eq!(
                ClientConfig::new(Trust::insecure(), &["a", bad]).err(),
                Some(ConfigError::BadProtocol)
            );
        }
    }
}
