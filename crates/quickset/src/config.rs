use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quickset_quic::{Budget, EarlyData, Fec, Gate, Protection, RetryPolicy, TransportConfig};

use quickset_tls::{TicketMemory, TicketStore};
use rustls::server::ServerSessionMemoryCache;

use crate::error::ConfigError;
use crate::foreign;
use crate::groups::{Group, Groups};
use crate::identity::Present;
use crate::tickets::NoTickets;
use crate::tls::{ClientTls, SESSIONS, ServerTls};
use crate::transport::Transport;
use crate::{Identity, Trust};

/// How an endpoint takes connections.
#[derive(Clone)]
pub struct ServerConfig {
    identity: Arc<Present>,
    tls: ServerTls,
    alpn: Vec<Vec<u8>>,
    key_log: bool,
    transport: Transport,
    max_connections: usize,
    retry: RetryPolicy,
    gate: Option<Gate>,
    reset_key: Option<Arc<[u8; 32]>>,
    token_key: Option<Arc<[u8; 32]>>,
}

/// How connections to servers are made. To be kept: a later connection with the same configuration resumes the
/// TLS session of an earlier one.
#[derive(Clone)]
pub struct ClientConfig {
    tls: ClientTls,
    identity: Option<Identity>,
    alpn: Vec<Vec<u8>>,
    key_log: bool,
    early: bool,
    /// `None`: TLS keeps them as it was configured to.
    tickets: Option<Arc<dyn TicketStore>>,
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

impl ServerConfig {
    /// A server that proves to be `identity` and speaks the application protocols `alpn`, the best first.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(identity: Identity, alpn: &[&str]) -> Result<Self, ConfigError> {
        Ok(Self {
            alpn: protocols(alpn)?,
            ..Self::bare(Present::new(identity), ServerTls::Own(ClientAuth::None, Groups::default()))
        })
    }

    /// A server with TLS of the application's own: rustls configured with TLS 1.3, and with the application protocols in
    /// `alpn_protocols`. What this is for:
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
    /// Early data is taken with [`with_early_data`](Self::with_early_data) only, whatever `max_early_data_size` says. Then
    /// sessions are kept by us, and `session_storage` and `ticketer` are not used: that store is what finds early data
    /// that is sent again.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use quickset::rustls::crypto::aws_lc_rs;
    /// use quickset::rustls::server::ResolvesServerCertUsingSni;
    /// use quickset::rustls::{self, version::TLS13};
    ///
    /// let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
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

    /// How its connections behave. What is said by itself ([`with_fec`](Self::with_fec),
    /// [`with_protection`](Self::with_protection), [`with_early_data`](Self::with_early_data)) counts beside it, whichever
    /// comes first. Otherwise it stands as a whole. Unless told, it is [`TransportConfig::default`].
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

    /// What its connections hold together comes from this budget, each within the limits of its
    /// [transport](Self::with_transport), and a client for whom nothing is left is refused. Other endpoints, and servers of
    /// other protocols, may share it. [`Budget::usage`](crate::Budget::usage) tells how often it said no, and
    /// [`unpaid_packets`](crate::Stats::unpaid_packets) where that cost a connection something. Unless told, there is
    /// none: connections hold what their limits allow. Stands for `budget` of [`with_transport`](Self::with_transport),
    /// whichever comes first.
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
    ///
    /// # Errors
    /// [`ConfigError::OwnVerifier`] behind [`from_rustls`](Self::from_rustls): a verifier that is there stays.
    pub fn with_client_auth(mut self, clients: ClientAuth) -> Result<Self, ConfigError> {
        match &mut self.tls {
            ServerTls::Own(asked, _) => *asked = clients,
            ServerTls::Foreign(_) => return Err(ConfigError::OwnVerifier),
        }
        Ok(self)
    }

    /// Takes the key exchange of clients by these groups, of which each client's favourite is chosen; unless told by
    /// X25519MLKEM768, x25519, secp256r1 and secp384r1.
    ///
    /// # Errors
    /// [`ConfigError::NoGroup`]; [`ConfigError::OwnProvider`] behind [`from_rustls`](Self::from_rustls).
    pub fn with_groups(mut self, groups: &[Group]) -> Result<Self, ConfigError> {
        self.tls.set_groups(groups)?;
        Ok(self)
    }

    /// Connections at most, 10,000 unless told, those in their handshake included. Whoever is through with the handshake keeps
    /// its place, and when all are, further clients are refused; handshakes make room for each other, as
    /// [`quic::ServerConfig`](quickset_quic::ServerConfig) has it. An application that would rather decide itself whom it keeps
    /// has a limit of its own, below this one, and closes connections: those count no more.
    #[must_use]
    pub fn with_max_connections(mut self, max: usize) -> Self {
        self.max_connections = max;
        self
    }

    /// When clients must prove their address before anything is kept for them; unless told, when 100 that have not are in their
    /// handshakes, or a quarter of [`with_max_connections`](Self::with_max_connections) if that is less.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Asks `gate` about each client that there is room for: whether it is taken, refused or left without an answer, or
    /// must prove its address.
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

    /// Lets a server that comes back after a crash tell the clients of before that their connections are gone (RFC 9000 §10.3): at
    /// their next packet they have [`Closed::Reset`](crate::Closed::Reset), and connect again. The key is 32 bytes of entropy that
    /// the server keeps in a file; unless told, each endpoint has one of its own, and such clients wait for their idle timeout.
    ///
    /// Who knows the key can end the connections of the endpoint. So can everybody where two endpoints have it at a time: one of
    /// them tells what ends the connections of the other (§21.11).
    #[must_use]
    pub fn with_reset_key(mut self, key: [u8; 32]) -> Self {
        self.reset_key = Some(Arc::new(key));
        self
    }

    /// Lets a server that comes back honour the address validation tokens of before (RFC 9000 §8.1): who was here in the last
    /// 14 days, at the same address, need not prove it again when the server asks all for that. The key is 32 bytes of entropy
    /// that the server keeps in a file; unless told, each endpoint has one of its own. It may be that of
    /// [`with_reset_key`](Self::with_reset_key): what is made of it for the one tells nothing of the other.
    ///
    /// Tokens are dated by the system's clock then. Those that were used are forgotten with the endpoint: one can be used once
    /// more behind each restart, by who has read it on its way and sends from the same address (§8.1.4).
    #[must_use]
    pub fn with_token_key(mut self, key: [u8; 32]) -> Self {
        self.token_key = Some(Arc::new(key));
        self
    }

    /// Appends the secrets of connections to the file that the environment variable `SSLKEYLOGFILE` names, for
    /// analysers; in place of a `key_log` that there may be. Who reads the file reads the connections.
    #[must_use]
    pub fn with_key_log(mut self) -> Self {
        self.key_log = true;
        self
    }

    /// Who the server is; `None` where a resolver of [the application's](Self::from_rustls) says that of each client.
    pub fn identity(&self) -> Option<Identity> {
        self.identity.get()
    }

    /// From now on the server proves to be this one, for example with the next certificate: in all handshakes that begin,
    /// of endpoints that run with this configuration or a clone of it, too. Connections stay as they are. A resolver of
    /// [the application's](Self::from_rustls) is not asked any more.
    pub fn set_identity(&self, identity: Identity) {
        self.identity.set(identity);
    }

    /// TLS over TCP for the same server, with application protocols of its own, the best first: it proves to be the same, with
    /// the next [`set_identity`](Self::set_identity) too. TLS 1.3 and nothing older, unless the application
    /// [configured it](Self::from_rustls); no early data.
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
            transport: Transport::default(),
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

    /// The same in the words of the core, for those who drive its machines themselves.
    pub fn quic(&self) -> quickset_quic::ServerConfig {
        let transport = self.transport.merged();
        let mut tls = self.rustls();
        tls.alpn_protocols.clone_from(&self.alpn);
        if transport.early_data.is_some() {
            // RFC 9001 §4.6.1: in QUIC this is no number of bytes but a yes.
            tls.max_early_data_size = u32::MAX;
            // RFC 8446 §8.1: a ticket that is looked up is used once; one that carries its session might be used again.
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
    /// A client that believes servers by `trust` and offers the application protocols `alpn`, the best first.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(trust: Trust, alpn: &[&str]) -> Result<Self, ConfigError> {
        let tickets: Arc<dyn TicketStore> = Arc::new(TicketMemory::default());
        Ok(Self::over(ClientTls::Own(trust, Groups::default()), protocols(alpn)?, Some(tickets)))
    }

    /// A client with TLS of the application's own: rustls configured with TLS 1.3, and with the application protocols in
    /// `alpn_protocols`. What this is for:
    ///
    /// * the authorities that the system trusts, or other roots: `with_root_certificates`;
    /// * certificates that were revoked: `with_webpki_verifier`, built `with_crls`;
    /// * servers judged in another way: a [`ServerCertVerifier`](rustls::client::danger::ServerCertVerifier);
    /// * a certificate by what the server accepts: `with_client_cert_resolver`;
    /// * no name in the hello: `enable_sni`;
    /// * other cryptography: `builder_with_provider`, and with it the groups of keys, for whose first the hello holds a share.
    ///
    /// Sessions are resumed as `resumption` says, those of QUIC version 1 only, until
    /// [`with_tickets`](Self::with_tickets) names a store for all versions. Early data is sent with
    /// [`with_early_data`](Self::with_early_data) only, whatever `enable_early_data` says, and with tickets in such a
    /// store; without one there will be a [`TicketMemory`].
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
        let transport = Transport::default();
        let quic = quickset_quic::ClientConfig { crypto, transport: transport.merged() };
        let this = Self { tls, identity: None, alpn, key_log: false, early: false, tickets, transport, quic };
        this.renewed()
    }

    /// How its connections behave. What is said by itself ([`with_fec`](Self::with_fec),
    /// [`with_protection`](Self::with_protection), [`with_early_data`](Self::with_early_data)) counts beside it, whichever
    /// comes first. Otherwise it stands as a whole. Unless told, it is [`TransportConfig::default`].
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

    /// Proves to be `identity` when the server asks. A resolver of [the application's](Self::from_rustls) is not asked any
    /// more.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self.renewed()
    }

    /// Offers to exchange keys by these groups, the best first: for that the hello holds a share. A server that insists on
    /// another one of them costs a round trip (RFC 8446 §4.1.4), once, and is begun with by that from then on. Unless told,
    /// they are X25519MLKEM768, x25519, secp256r1 and secp384r1, with shares of the first two. What is known of servers is
    /// forgotten.
    ///
    /// ```
    /// use quickset::{ClientConfig, Group, Trust};
    ///
    /// // A hello of one datagram.
    /// let config = ClientConfig::new(Trust::insecure(), &["echo/1"])?.with_groups(&[Group::X25519])?;
    /// # Ok::<_, quickset::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::NoGroup`]; [`ConfigError::OwnProvider`] behind [`from_rustls`](Self::from_rustls).
    pub fn with_groups(mut self, groups: &[Group]) -> Result<Self, ConfigError> {
        self.tls.set_groups(groups)?;
        Ok(self.renewed())
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
        self.tickets.get_or_insert_with(|| Arc::new(TicketMemory::default()));
        Ok(self.settled().renewed())
    }

    /// Keeps the tickets of its sessions in `store` instead of a [`TicketMemory`] of its own. They are secrets.
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

    /// TLS over TCP with the same trust and identity, and application protocols of its own, the best first; no early data.
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

    /// The same in the words of the core, for those who drive its machines themselves.
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
        let fixed: Protection = "fixed:9".parse().unwrap();
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
    #[test]
    fn what_is_said_by_itself_counts_whatever_the_order() {
        let fixed: Protection = "fixed:9".parse().unwrap();
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
        let fixed: Protection = "fixed:9".parse().unwrap();
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
