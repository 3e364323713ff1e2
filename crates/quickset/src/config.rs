use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quickset_quic::{Budget, EarlyData, Fec, Gate, Protection, RetryPolicy, TransportConfig};

use quickset_tls::{TicketMemory, TicketStore};
use rustls::server::ServerSessionMemoryCache;

use crate::error::ConfigError;
use crate::foreign;
use crate::groups::{Groups, KeyGroup};
use crate::identity::Present;
use crate::tickets::NoTickets;
use crate::tls::{ClientTls, SESSIONS, ServerTls};
use crate::transport::TransportParts;
use crate::{Identity, Trust};

/// Holds the settings by which an endpoint accepts connections.
#[derive(Clone)]
pub struct ServerConfig {
    identity: Arc<Present>,
    tls: ServerTls,
    alpn: Vec<Vec<u8>>,
    key_log: bool,
    transport: TransportParts,
    max_connections: usize,
    retry: RetryPolicy,
    gate: Option<Gate>,
    reset_key: Option<Arc<[u8; 32]>>,
    token_key: Option<Arc<[u8; 32]>>,
}

/// Holds the settings by which connections to servers are made. Keep it: a later connection with the same
/// configuration resumes the TLS session of an earlier one.
#[derive(Clone)]
pub struct ClientConfig {
    tls: ClientTls,
    identity: Option<Identity>,
    alpn: Vec<Vec<u8>>,
    key_log: bool,
    early: bool,
    /// `None`: TLS keeps them as it was configured to.
    tickets: Option<Arc<dyn TicketStore>>,
    transport: TransportParts,
    quic: quickset_quic::ClientConfig,
}

/// Whether clients prove who they are. The application judges who is welcome, by
/// [`Peer::fingerprint`](crate::Peer::fingerprint).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// Clients are not asked.
    #[default]
    None,
    /// Clients are asked, and may show nothing.
    Optional,
    /// A client without a certificate is refused.
    Mandatory,
}

impl ServerConfig {
    /// Makes a server that proves to be `identity` and speaks the application protocols `alpn`, in order of
    /// preference.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(identity: Identity, alpn: &[&str]) -> Result<Self, ConfigError> {
        Ok(Self {
            alpn: protocols(alpn)?,
            ..Self::bare(Present::new(identity), ServerTls::Own(ClientAuth::None, Groups::default()))
        })
    }

    /// A server with TLS of the application's own: rustls configured with TLS 1.3, and with the application
    /// protocols in `alpn_protocols`. What this is for:
    ///
    /// * certificates by the name that a client asks for: `with_cert_resolver`, such as
    ///   [`ResolvesServerCertUsingSni`](rustls::server::ResolvesServerCertUsingSni);
    /// * clients with certificates of an authority: `with_client_cert_verifier`, of a
    ///   [`WebPkiClientVerifier`](rustls::server::WebPkiClientVerifier);
    /// * certificates that were revoked: `with_crls` of such a verifier;
    /// * clients judged in another way: a [`ClientCertVerifier`](rustls::server::danger::ClientCertVerifier);
    /// * sessions that several servers resume, or that outlive one: `session_storage` and `ticketer`;
    /// * other cryptography: `builder_with_provider`; the groups of keys are that provider's.
    ///
    /// Early data is taken with [`with_early_data`](Self::with_early_data) only, whatever
    /// `max_early_data_size` says. Then sessions are kept by us, and `session_storage` and `ticketer` are not
    /// used: only our own store recognises early data that is sent a second time.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use quickset::provider::default_provider;
    /// use quickset::rustls::server::ResolvesServerCertUsingSni;
    /// use quickset::rustls::{self, version::TLS13};
    ///
    /// let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
    ///     .with_protocol_versions(&[&TLS13])?
    ///     .with_no_client_auth()
    ///     .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    /// tls.alpn_protocols = vec![b"chat/1".to_vec()];
    /// let config = quickset::ServerConfig::from_rustls(tls)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_rustls(tls: impl Into<Arc<rustls::ServerConfig>>) -> Result<Self, ConfigError> {
        let tls = tls.into();
        foreign::check_server(&tls)?;
        Ok(Self {
            alpn: tls.alpn_protocols.clone(),
            ..Self::bare(Present::chosen(tls.cert_resolver.clone()), ServerTls::Foreign(tls))
        })
    }

    /// Sets how the connections behave, [`TransportConfig::default`] unless told otherwise.
    ///
    /// [`with_fec`](Self::with_fec), [`with_protection`](Self::with_protection) and
    /// [`with_early_data`](Self::with_early_data) keep their effect, whether they are called before or after
    /// this.
    #[must_use]
    pub fn with_transport(mut self, transport: TransportConfig) -> Self {
        self.transport.set_whole(transport);
        self
    }

    /// Sets what forward erasure correction is offered: how much is kept for decoding, and what protects
    /// streams that have no [`Reliability`](crate::Reliability) of their own. With `None` nothing is offered,
    /// decoded or repaired.
    ///
    /// Unless told otherwise it is offered, and protects only streams that ask for it. It replaces `fec` of
    /// [`with_transport`](Self::with_transport), whichever is called first.
    #[must_use]
    pub fn with_fec(mut self, fec: impl Into<Option<Fec>>) -> Self {
        self.transport.set_fec(fec.into());
        self
    }

    /// Protects all streams that have no [`Reliability`](crate::Reliability) of their own. It replaces
    /// `protection` of [`with_fec`](Self::with_fec), whichever is called first. Without forward erasure
    /// correction (`with_fec(None)`) nothing is protected.
    #[must_use]
    pub fn with_protection(mut self, protection: Protection) -> Self {
        self.transport.set_protection(protection);
        self
    }

    /// Takes the memory of all connections from this budget, within the limits of the
    /// [transport](Self::with_transport). A client for whom no memory is left is refused. Other endpoints,
    /// and servers of other protocols, may share the budget.
    ///
    /// [`Budget::usage`](crate::Budget::usage) tells how often it refused memory, and
    /// [`unpaid_packets`](crate::Stats::unpaid_packets) what that cost a connection. Unless told otherwise
    /// there is no budget, and connections hold what their limits allow. It replaces `budget` of
    /// [`with_transport`](Self::with_transport), whichever is called first.
    ///
    /// ```
    /// # fn f(config: quickset::ServerConfig) {
    /// let budget = quickset::Budget::new(256 << 20);
    /// let config = config.with_budget(budget.clone());
    /// assert_eq!(budget.usage().held, 0);
    /// # }
    /// ```
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.transport.set_budget(budget);
        self
    }

    /// Takes early data: a client that was here before can send before the handshake is complete, a round
    /// trip sooner. [`Endpoint::accept`](crate::Endpoint::accept) then returns its connection at once, and
    /// [`RecvStream::is_early`](crate::RecvStream::is_early) tells which data is early. It replaces
    /// `early_data` of [`with_transport`](Self::with_transport), whichever is called first.
    ///
    /// **An attacker can replay early data.** This endpoint takes each piece once: a ticket is good for one
    /// connection, the last 4096 tickets are remembered, and early data is refused if it arrives more than a
    /// minute later than its ticket's age says. Another endpoint, or this one after a restart, refuses it.
    /// Where several endpoints share a name, one may take the data while another refuses it, and a client
    /// that was refused sends it again by itself. So send early only what may be done twice.
    #[must_use]
    pub fn with_early_data(mut self, early: EarlyData) -> Self {
        self.transport.set_early(early);
        self
    }

    /// Sets whether clients prove who they are; they do not unless told.
    ///
    /// # Errors
    /// [`ConfigError::OwnVerifier`] behind [`from_rustls`](Self::from_rustls): its verifier is
    /// not replaced.
    pub fn with_client_auth(mut self, clients: ClientAuth) -> Result<Self, ConfigError> {
        match &mut self.tls {
            ServerTls::Own(asked, _) => *asked = clients,
            ServerTls::Foreign(_) => return Err(ConfigError::OwnVerifier),
        }
        Ok(self)
    }

    /// Sets the groups by which keys are exchanged. Of these the server takes the one that a client prefers.
    /// Unless told otherwise they are X25519MLKEM768, x25519, secp256r1 and secp384r1, or with the feature
    /// `ring` alone the last three.
    ///
    /// # Errors
    /// [`ConfigError::NoGroup`]; [`ConfigError::AbsentGroup`]; [`ConfigError::OwnProvider`] behind
    /// [`from_rustls`](Self::from_rustls).
    pub fn with_groups(mut self, groups: &[KeyGroup]) -> Result<Self, ConfigError> {
        self.tls.set_groups(groups)?;
        Ok(self)
    }

    /// Sets how many connections there may be at a time, handshakes included; 10,000 unless told otherwise.
    ///
    /// A connection whose handshake is complete keeps its place. When all places are taken by such
    /// connections, further clients are refused. Handshakes make room for each other, as
    /// [`quic::ServerConfig`](quickset_quic::ServerConfig) describes. An application that wants to decide
    /// which connections it keeps sets a limit of its own below this one and closes connections: closed
    /// connections do not count.
    #[must_use]
    pub fn with_max_connections(mut self, max: usize) -> Self {
        self.max_connections = max;
        self
    }

    /// Sets when clients must prove their address before the server keeps anything for them. Unless told
    /// otherwise they must while 100 unproven clients are in their handshakes, or a quarter of
    /// [`with_max_connections`](Self::with_max_connections) if that is less.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Asks `gate` about each client for which there is room. The gate takes it, refuses it, leaves it
    /// without an answer, or has it prove its address.
    ///
    /// ```
    /// # use std::net::{IpAddr, Ipv4Addr};
    /// use quickset::{Admission, Gate};
    ///
    /// # let identity = quickset::Identity::self_signed(["localhost"])?;
    /// let banned = IpAddr::from(Ipv4Addr::new(192, 0, 2, 1));
    /// let server = quickset::ServerConfig::new(identity, &["echo/1"])?.with_gate(Gate::new(move |client, usual| {
    ///     if client.path().remote.ip() == banned { Admission::Refuse } else { usual }
    /// }));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_gate(mut self, gate: Gate) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Lets a server that comes back after a crash tell its former clients that their connections are gone
    /// (RFC 9000 §10.3). A client learns of it with its next packet ([`Closed::Reset`](crate::Closed::Reset))
    /// and connects again. The key is 32 random bytes, which the server keeps in a file. Unless told
    /// otherwise each endpoint has a key of its own, and clients wait for their idle timeout.
    ///
    /// Keep the key secret: who knows it can end the connections of the endpoint. Two endpoints must not use
    /// the same key at the same time: anybody could make one of them end connections of the other (RFC 9000
    /// §21.11). Those whose connection ids tell one from the other may
    /// ([`RoutableIds`](crate::RoutableIds)): each resets only what names it.
    #[must_use]
    pub fn with_reset_key(mut self, key: [u8; 32]) -> Self {
        self.reset_key = Some(Arc::new(key));
        self
    }

    /// Lets a server that comes back honour its former address validation tokens (RFC 9000 §8.1): a client
    /// that was here in the last 14 days from the same address need not prove its address again. The key is
    /// 32 random bytes, which the server keeps in a file. Unless told otherwise each endpoint has a key of
    /// its own. It may be the key of [`with_reset_key`](Self::with_reset_key): what is derived for one use
    /// tells nothing of the other.
    ///
    /// Tokens are then dated by the system's clock. The endpoint forgets used tokens when it ends, so that
    /// after a restart somebody who has read a token on its way, and sends from the same address, can use it
    /// once more (§8.1.4).
    #[must_use]
    pub fn with_token_key(mut self, key: [u8; 32]) -> Self {
        self.token_key = Some(Arc::new(key));
        self
    }

    /// Appends the secrets of connections to the file that the environment variable `SSLKEYLOGFILE` names,
    /// for analysers. It replaces a `key_log` of rustls. Who can read the file can read the connections.
    #[must_use]
    pub fn with_key_log(mut self) -> Self {
        self.key_log = true;
        self
    }

    /// Returns who the server proves to be; `None` if a resolver of [the application](Self::from_rustls)
    /// decides that for each client.
    pub fn identity(&self) -> Option<Identity> {
        self.identity.get()
    }

    /// Changes who the server proves to be, for example when its certificate is renewed. It counts for all
    /// handshakes that begin from now on, also on endpoints that already run with this configuration or a
    /// clone of it. Connections stay as they are. A resolver of [the application](Self::from_rustls) is no
    /// longer asked.
    pub fn set_identity(&self, identity: Identity) {
        self.identity.set(identity);
    }

    /// Has the server prove to be `identity` to clients that offer one of these application protocols, of
    /// which the first that has an identity counts, and to others whoever it is. For a server that some of
    /// its clients know by its key, and others by a certificate that an authority signed. As
    /// [`set_identity`](Self::set_identity) it counts from now on, on endpoints that run, too.
    pub fn set_identity_for(&self, protocols: &[&str], identity: &Identity) {
        self.identity.set_for(protocols, identity);
    }

    /// Returns a configuration of TLS over TCP for the same server, with these application protocols in order
    /// of preference. It proves to be the same, also after [`set_identity`](Self::set_identity). It speaks
    /// TLS 1.3 only, unless the application [configured it](Self::from_rustls), and takes no early data.
    pub fn tls(&self, alpn: &[&str]) -> Arc<rustls::ServerConfig> {
        let mut tls = self.rustls();
        tls.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        if self.key_log {
            tls.key_log = Arc::new(rustls::KeyLogFile::new());
        }
        Arc::new(tls)
    }

    fn bare(identity: Present, tls: ServerTls) -> Self {
        Self {
            identity: Arc::new(identity),
            tls,
            alpn: Vec::new(),
            key_log: false,
            transport: TransportParts::default(),
            max_connections: 10_000,
            retry: RetryPolicy::WhenBusy(100),
            gate: None,
            reset_key: None,
            token_key: None,
        }
    }

    pub(crate) fn reset_key(&self) -> Option<&[u8; 32]> {
        self.reset_key.as_deref()
    }

    pub(crate) fn token_key(&self) -> Option<&[u8; 32]> {
        self.token_key.as_deref()
    }

    /// Without early data, whose register of tickets is one of each endpoint.
    fn rustls(&self) -> rustls::ServerConfig {
        self.tls.server(self.identity.clone())
    }

    /// Returns the configuration as the core has it, for those who drive its machines themselves.
    pub fn quic(&self) -> quickset_quic::ServerConfig {
        let transport = self.transport.merged();
        let mut tls = self.rustls();
        tls.alpn_protocols.clone_from(&self.alpn);
        if transport.early_data.is_some() {
            // RFC 9001 §4.6.1: in QUIC this is no number of bytes but a yes.
            tls.max_early_data_size = u32::MAX;
            // RFC 8446 §8.1: a ticket that is looked up is used once; one that carries its session might be
            // used again.
            tls.ticketer = Arc::new(NoTickets);
            tls.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        }
        let crypto = quickset_tls::Server::new(Arc::new(tls)).expect("it was checked when it was given");
        let crypto = if self.key_log { crypto.with_key_log() } else { crypto };
        quickset_quic::ServerConfig {
            crypto: Arc::new(crypto),
            transport,
            max_connections: self.max_connections,
            retry: self.retry,
            gate: self.gate.clone(),
            retry_token_lifetime: Duration::from_secs(15),
            token_lifetime: Duration::from_secs(14 * 24 * 3600),
        }
    }
}

impl ClientConfig {
    /// Makes a client that accepts servers by `trust` and offers the application protocols `alpn`, in order
    /// of preference.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(trust: Trust, alpn: &[&str]) -> Result<Self, ConfigError> {
        let tickets: Arc<dyn TicketStore> = Arc::new(TicketMemory::default());
        Ok(Self::over(ClientTls::Own(trust, Groups::default()), protocols(alpn)?, Some(tickets)))
    }

    /// A client with TLS of the application's own: rustls configured with TLS 1.3, and with the application
    /// protocols in `alpn_protocols`. What this is for:
    ///
    /// * the authorities that the system trusts, or other roots: `with_root_certificates`;
    /// * certificates that were revoked: `with_webpki_verifier`, built `with_crls`;
    /// * servers judged in another way: a [`ServerCertVerifier`](rustls::client::danger::ServerCertVerifier);
    /// * a certificate by what the server accepts: `with_client_cert_resolver`;
    /// * no name in the hello: `enable_sni`;
    /// * other cryptography: `builder_with_provider`, and with it the key exchange groups. The first of them
    ///   is the one that the hello has a key share for.
    ///
    /// `resumption` says how sessions are resumed; it holds for QUIC version 1 only. A store that
    /// [`with_tickets`](Self::with_tickets) names replaces it and holds for all versions. Early data is sent
    /// with [`with_early_data`](Self::with_early_data) only, whatever `enable_early_data` says, with tickets
    /// from such a store. If none was named, a [`TicketMemory`] is made.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_rustls(tls: impl Into<Arc<rustls::ClientConfig>>) -> Result<Self, ConfigError> {
        let tls = tls.into();
        foreign::check_client(&tls)?;
        let alpn = tls.alpn_protocols.clone();
        Ok(Self::over(ClientTls::Foreign(tls), alpn, None))
    }

    fn over(tls: ClientTls, alpn: Vec<Vec<u8>>, tickets: Option<Arc<dyn TicketStore>>) -> Self {
        let crypto = Arc::new(tls_client(&tls, None, &alpn, false));
        let transport = TransportParts::default();
        let quic = quickset_quic::ClientConfig { crypto, transport: transport.merged() };
        let this = Self { tls, identity: None, alpn, key_log: false, early: false, tickets, transport, quic };
        this.renewed()
    }

    /// Sets how the connections behave, [`TransportConfig::default`] unless told otherwise.
    ///
    /// [`with_fec`](Self::with_fec), [`with_protection`](Self::with_protection) and
    /// [`with_early_data`](Self::with_early_data) keep their effect, whether they are called before or after
    /// this.
    #[must_use]
    pub fn with_transport(mut self, transport: TransportConfig) -> Self {
        self.transport.set_whole(transport);
        self.settled()
    }

    /// Sets what forward erasure correction is offered: how much is kept for decoding, and what protects
    /// streams that have no [`Reliability`](crate::Reliability) of their own. With `None` nothing is offered,
    /// decoded or repaired.
    ///
    /// Unless told otherwise it is offered, and protects only streams that ask for it. It replaces `fec` of
    /// [`with_transport`](Self::with_transport), whichever is called first.
    #[must_use]
    pub fn with_fec(mut self, fec: impl Into<Option<Fec>>) -> Self {
        self.transport.set_fec(fec.into());
        self.settled()
    }

    /// Protects all streams that have no [`Reliability`](crate::Reliability) of their own. It replaces
    /// `protection` of [`with_fec`](Self::with_fec), whichever is called first. Without forward erasure
    /// correction (`with_fec(None)`) nothing is protected.
    #[must_use]
    pub fn with_protection(mut self, protection: Protection) -> Self {
        self.transport.set_protection(protection);
        self.settled()
    }

    /// Sets what the client proves to be when the server asks. A resolver of [the
    /// application](Self::from_rustls) is no longer asked.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self.renewed()
    }

    /// Sets the groups by which keys are exchanged, in order of preference. The hello holds a key share for
    /// the first. Unless told otherwise they are X25519MLKEM768, x25519, secp256r1 and secp384r1, with shares
    /// for the first two; with the feature `ring` alone the first of these is missing.
    ///
    /// A server that insists on another group of the list costs a round trip (RFC 8446 §4.1.4) once: later
    /// connections to it begin with that group. This call forgets what was learnt of servers.
    ///
    /// ```
    /// use quickset::{ClientConfig, KeyGroup, Trust};
    ///
    /// // A hello of one datagram.
    /// let config = ClientConfig::new(Trust::insecure(), &["echo/1"])?.with_groups(&[KeyGroup::X25519])?;
    /// # Ok::<_, quickset::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::NoGroup`]; [`ConfigError::AbsentGroup`]; [`ConfigError::OwnProvider`] behind
    /// [`from_rustls`](Self::from_rustls).
    pub fn with_groups(mut self, groups: &[KeyGroup]) -> Result<Self, ConfigError> {
        self.tls.set_groups(groups)?;
        Ok(self.renewed())
    }

    /// Allows connections to begin with data if their server was connected to before: see
    /// [`Connecting::into_early`](crate::Connecting::into_early), which must be called for anything to be
    /// sent early. This replaces `early_data` of [`with_transport`](Self::with_transport), whichever is
    /// called first.
    ///
    /// # Errors
    /// [`ConfigError::EarlyProtocols`] when more than one application protocol is offered.
    pub fn with_early_data(mut self, early: EarlyData) -> Result<Self, ConfigError> {
        if self.alpn.len() > 1 {
            return Err(ConfigError::EarlyProtocols);
        }
        self.transport.set_early(early);
        self.early = true;
        self.tickets.get_or_insert_with(|| Arc::new(TicketMemory::default()));
        Ok(self.settled().renewed())
    }

    /// Keeps session tickets in `store`, and no longer in the [`TicketMemory`] that a configuration makes for
    /// itself. Tickets
    /// are secrets.
    #[must_use]
    pub fn with_tickets(mut self, store: Arc<dyn TicketStore>) -> Self {
        self.tickets = Some(store);
        self.renewed()
    }

    /// See [`ServerConfig::with_key_log`].
    #[must_use]
    pub fn with_key_log(mut self) -> Self {
        self.key_log = true;
        self.renewed()
    }

    /// Returns a configuration of TLS over TCP with the same trust and identity, and with these application
    /// protocols in order of preference. It sends no early data.
    pub fn tls(&self, alpn: &[&str]) -> Arc<rustls::ClientConfig> {
        let mut tls = self.tls.client(self.identity.as_ref());
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

    fn renewed(mut self) -> Self {
        let mut client = tls_client(&self.tls, self.identity.as_ref(), &self.alpn, self.early);
        if let Some(tickets) = &self.tickets {
            // TLS resumes nothing with another verifier, and each configuration has its own.
            let verifier = VERIFIERS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            client = client.with_tickets(tickets.clone(), &verifier);
        }
        self.quic.crypto = Arc::new(if self.key_log { client.with_key_log() } else { client });
        self
    }

    /// Returns the configuration as the core has it, for those who drive its machines themselves.
    pub fn quic(&self) -> &quickset_quic::ClientConfig {
        &self.quic
    }
}

fn tls_client(
    tls: &ClientTls,
    identity: Option<&Identity>,
    alpn: &[Vec<u8>],
    early: bool,
) -> quickset_tls::Client {
    let mut tls = tls.client(identity);
    tls.alpn_protocols = alpn.to_vec();
    tls.enable_early_data = early;
    quickset_tls::Client::new(Arc::new(tls)).expect("it was checked when it was given")
}

/// Names verifiers, so that tickets of one configuration are not offered with another.
static VERIFIERS: AtomicU64 = AtomicU64::new(0);

fn protocols(alpn: &[&str]) -> Result<Vec<Vec<u8>>, ConfigError> {
    let alpn: Vec<Vec<u8>> = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    foreign::check_protocols(&alpn)?;
    Ok(alpn)
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("identity", &self.identity)
            .field("tls", &self.tls)
            .field("transport", &self.transport.merged())
            .field("max_connections", &self.max_connections)
            .field("retry", &self.retry)
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("tls", &self.tls)
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
        let transport = TransportConfig::default().with_mtu(1300);
        let config = ClientConfig::new(Trust::insecure(), &["a"]).unwrap().with_transport(transport);
        let fixed = quickset_policies::read("fixed:9").unwrap();
        let config = config.with_fec(Fec::default().with_window(99)).with_protection(fixed.clone());
        let fec = config.quic().transport.fec.clone().unwrap();
        assert_eq!((fec.window, fec.protection, config.quic().transport.mtu), (99, fixed, 1300));

        let (ours, own) = (Arc::new(Estimates::new()), Arc::new(Estimates::new()));
        let of = |transport: &Arc<TransportConfig>| transport.fec.as_ref().and_then(|f| f.estimates.clone());
        let shared = of(&sharing(&config.quic().transport, &ours)).unwrap();
        assert!(Arc::ptr_eq(&shared, &ours));
        let config = config.with_fec(Fec::default().with_estimates(own.clone()));
        let kept = of(&sharing(&config.quic().transport, &ours)).unwrap();
        assert!(Arc::ptr_eq(&kept, &own), "who names a place has a reason");
        let without = config.with_fec(None);
        assert!(sharing(&without.quic().transport, &ours).fec.is_none());
    }

    /// Every order of the calls that say something of the transport.
    #[cfg(feature = "self-signed")]
    #[test]
    fn what_is_said_by_itself_counts_whatever_the_order() {
        let fixed = quickset_policies::read("fixed:9").unwrap();
        let whole = || TransportConfig::default().with_mtu(1300).with_fec(None);
        let parts = || (Fec::default().with_window(99), EarlyData::default().with_max_bytes(7));
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
        let fixed = quickset_policies::read("fixed:9").unwrap();
        let config = || ClientConfig::new(Trust::insecure(), &["a"]).unwrap();
        let fec = |config: ClientConfig| config.quic().transport.fec.clone();
        assert_eq!(fec(config().with_fec(None).with_protection(fixed.clone())).map(|fec| fec.window), None);
        assert_eq!(fec(config().with_protection(fixed.clone()).with_fec(None)).map(|fec| fec.window), None);
        // A transport is no such word.
        let bare = TransportConfig::default().with_fec(None);
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
