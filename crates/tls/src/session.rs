use std::any::Any;
use std::sync::Arc;

use quickset_quic::{
    CryptoSession, EarlyFate, HandshakeFault, KeyChange, Sealing, TransportError, TransportErrorCode as Code,
    Version,
};
use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, CertificateError, Error, HandshakeKind, OtherError, quic};

use crate::afterwards::{Exporter, ExporterLog, LateWords, unexpected};
use crate::derive::{Overheard, Recipe, SecretLevel};
use crate::keys;
use crate::tickets::Shelves;

/// What [`CryptoSession::peer_identity`] holds: the peer's certificate chain, its own certificate first.
pub type PeerCertificates = Vec<CertificateDer<'static>>;

/// A rustls connection without records.
pub(crate) struct TlsSession {
    tls: TlsState,
    following: Option<Following>,
    /// The application protocols that a client offers.
    offered: Arc<[Vec<u8>]>,
    /// What exporters make of, once it is there, as long as TLS has it too.
    exporter: Option<Vec<u8>>,
    /// What a server says behind the handshake.
    late: LateWords,
}

enum TlsState {
    /// Boxed, as it is large, and most of a connection's life is spent without it.
    Live(Box<quic::Connection>),
    /// The handshake is through, and so is all that TLS had to say.
    Settled(Box<SettledSession>),
    Over(Remains),
}

/// What is still told of a session that is over.
#[derive(Default)]
struct Remains {
    alpn: Option<Vec<u8>>,
    server_name: Option<String>,
    chain: Option<PeerCertificates>,
}

/// What is still asked of a session whose connection goes on.
struct SettledSession {
    remains: Remains,
    exporter: Option<Exporter>,
    early: EarlyFate,
    is_server: bool,
}

impl TlsState {
    fn live(&self) -> Option<&quic::Connection> {
        match self {
            Self::Live(tls) => Some(tls),
            Self::Settled(_) | Self::Over(_) => None,
        }
    }

    fn live_mut(&mut self) -> Option<&mut quic::Connection> {
        match self {
            Self::Live(tls) => Some(tls),
            Self::Settled(_) | Self::Over(_) => None,
        }
    }

    /// What is kept, when TLS is gone.
    fn remains(&self) -> Option<&Remains> {
        match self {
            Self::Live(_) => None,
            Self::Settled(settled) => Some(&settled.remains),
            Self::Over(remains) => Some(remains),
        }
    }

    fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Live(tls) => tls.alpn_protocol(),
            Self::Settled(_) | Self::Over(_) => self.remains()?.alpn.as_deref(),
        }
    }

    fn server_name(&self) -> Option<&str> {
        match self {
            Self::Live(tls) => match &**tls {
                quic::Connection::Server(tls) => tls.server_name(),
                quic::Connection::Client(_) => None,
            },
            Self::Settled(_) | Self::Over(_) => self.remains()?.server_name.as_deref(),
        }
    }

    fn chain(&self) -> Option<&[CertificateDer<'static>]> {
        match self {
            Self::Live(tls) => tls.peer_certificates(),
            Self::Settled(_) | Self::Over(_) => self.remains()?.chain.as_deref(),
        }
    }
}

/// What a client needs to go on in another version than it began in.
pub(crate) struct Following {
    overheard: Arc<Overheard>,
    shelves: Arc<Shelves>,
    /// The other version, once the server has chosen it.
    version: Option<Version>,
}

impl Following {
    pub(crate) const fn new(overheard: Arc<Overheard>, shelves: Arc<Shelves>) -> Self {
        Self { overheard, shelves, version: None }
    }
}

impl TlsSession {
    pub(crate) fn new(tls: quic::Connection) -> Self {
        Self {
            tls: TlsState::Live(Box::new(tls)),
            following: None,
            offered: Arc::default(),
            exporter: None,
            late: LateWords::default(),
        }
    }

    pub(crate) fn offering(mut self, protocols: Arc<[Vec<u8>]>) -> Self {
        self.offered = protocols;
        self
    }

    pub(crate) fn following(mut self, following: Option<Following>) -> Self {
        self.following = following;
        self
    }

    /// What is still told when TLS is gone.
    fn remains(&mut self) -> Remains {
        if let TlsState::Settled(settled) = &mut self.tls {
            return std::mem::take(&mut settled.remains);
        }
        Remains {
            alpn: self.tls.alpn().map(<[u8]>::to_vec),
            server_name: self.tls.server_name().map(str::to_owned),
            chain: self.tls.chain().map(<[_]>::to_vec),
        }
    }

    /// Keys as the TLS library makes them, or our own where the version is another.
    fn keys(&self, change: quic::KeyChange) -> Option<KeyChange> {
        let Some(following) = &self.following else { return Some(keys::change(change)) };
        let level = match change {
            quic::KeyChange::Handshake { .. } => SecretLevel::Handshake,
            quic::KeyChange::OneRtt { .. } => SecretLevel::OneRtt,
        };
        // They go, whether they are needed or not.
        let secrets = following.overheard.take(level);
        let Some(version) = following.version else { return Some(keys::change(change)) };
        let recipe = Recipe::new(self.tls.live()?.negotiated_cipher_suite()?.suite(), version)?;
        let keys = recipe.keys(&secrets)?;
        Some(match level {
            SecretLevel::Handshake => KeyChange::Handshake(keys),
            SecretLevel::OneRtt => KeyChange::OneRtt { keys, next: recipe.next(secrets) },
        })
    }

    /// RFC 9001 §8.1: a client leaves a server that chose nothing. rustls does so itself where protocols are
    /// offered, and [`Client`](crate::Client) and [`Server`](crate::Server) always offer some; this is the
    /// second lock.
    fn check_protocol(&self) -> Result<(), TransportError> {
        if self.is_handshaking() || self.tls.alpn().is_some() {
            return Ok(());
        }
        let code = Code::crypto(AlertDescription::NoApplicationProtocol.into());
        Err(self.explained(TransportError::new(code, "no application protocol was agreed on")))
    }

    /// What is told to the peer, and what this side knows besides.
    fn failure(&self, error: &Error) -> TransportError {
        if let Error::InvalidCertificate(CertificateError::Other(OtherError(why))) = error {
            if let Some(fault) = why.downcast_ref::<HandshakeFault>() {
                // RFC 8446 §6.2: access_denied is for who is what it says, and not whom we want. Whom we want
                // is not told.
                let code = Code::crypto(AlertDescription::AccessDenied.into());
                return TransportError::new(code, "the certificate is not the pinned one")
                    .because(fault.clone());
            }
        }
        // Errors without an alert are faults of our own.
        let alert =
            self.tls.live().and_then(quic::Connection::alert).unwrap_or(AlertDescription::InternalError);
        let failure = TransportError::new(Code::crypto(alert.into()), error.to_string());
        match fault_of_certificate(error) {
            Some(fault) => failure.because(fault),
            None => self.explained(failure),
        }
    }

    fn explained(&self, error: TransportError) -> TransportError {
        match self.explain(&error) {
            Some(fault) => error.because(fault),
            None => error,
        }
    }
}

/// Why a certificate was refused, where there is something to do about it.
fn fault_of_certificate(error: &Error) -> Option<HandshakeFault> {
    let Error::InvalidCertificate(why) = error else { return None };
    match why {
        // The second is one by another that calls itself as somebody who is trusted does.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            Some(HandshakeFault::UnknownAuthority)
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            // rustls has each as its crate below prints it: `DnsName("other.example")`, `IpAddress(…)`.
            let names = presented.iter().map(|name| name.split('"').nth(1).unwrap_or(name).to_owned());
            Some(HandshakeFault::OtherName { asked: expected.to_str().into_owned(), names: names.collect() })
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => Some(HandshakeFault::OutOfDate),
        // One of an authority: rustls has no name for that, and keeps the words of the crate below, whose
        // types it does not show.
        CertificateError::Other(OtherError(why)) if why.to_string() == "CaUsedAsEndEntity" => {
            Some(HandshakeFault::ShowsAuthority)
        }
        _ => None,
    }
}

impl CryptoSession for TlsSession {
    // RFC 9001 §4.7: a HelloRetryRequest, when the library asks for one, is a message like any other and no
    // proof of address.
    fn read(&mut self, data: &[u8]) -> Result<(), TransportError> {
        let tls = match &mut self.tls {
            TlsState::Live(tls) => tls,
            // RFC 9001 §6, §4.4: keys are not updated by TLS, and clients are not asked for proof later.
            TlsState::Settled(settled) if settled.is_server => return Err(unexpected()),
            TlsState::Settled(_) => return self.late.read(data),
            TlsState::Over(_) => return Ok(()),
        };
        if !tls.is_handshaking() {
            self.late.follow(data);
        }
        let read = tls.read_hs(data);
        if let Some(secret) = ExporterLog::heard() {
            self.exporter = Some(secret);
        }
        read.map_err(|error| self.failure(&error))?;
        self.check_protocol()
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        let change = self.tls.live_mut()?.write_hs(out)?;
        // What QUIC agreed on has a recipe, and what was derived was overheard.
        Some(self.keys(change).expect("keys of every suite and version that there are initial keys for"))
    }

    fn is_handshaking(&self) -> bool {
        self.tls.live().is_some_and(|tls| tls.is_handshaking())
    }

    fn peer_params(&self) -> Option<&[u8]> {
        self.tls.live()?.quic_transport_parameters()
    }

    fn early_keys(&mut self) -> Option<Sealing> {
        self.tls.live()?.zero_rtt_keys().map(keys::sealing)
    }

    fn early_fate(&self) -> EarlyFate {
        let tls = match &self.tls {
            TlsState::Live(tls) => tls,
            TlsState::Settled(settled) => return settled.early,
            TlsState::Over(_) => return EarlyFate::None,
        };
        let quic::Connection::Client(tls) = &**tls else { return EarlyFate::None };
        if tls.is_early_data_accepted() {
            return EarlyFate::Accepted;
        }
        let again = tls.handshake_kind() == Some(HandshakeKind::FullWithHelloRetryRequest);
        if again || !tls.is_handshaking() { EarlyFate::Rejected } else { EarlyFate::Undecided }
    }

    fn refuse_early(&mut self) {
        if let Some(quic::Connection::Server(tls)) = self.tls.live_mut() {
            if tls.is_handshaking() {
                tls.reject_early_data();
            }
        }
    }

    fn follow(&mut self, version: Version) -> bool {
        let Some(following) = &mut self.following else { return false };
        following.shelves.turn(version);
        following.version = Some(version);
        true
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn()
    }

    fn server_name(&self) -> Option<&str> {
        self.tls.server_name()
    }

    fn explain(&self, error: &TransportError) -> Option<HandshakeFault> {
        let alert = error.code.alert().map(AlertDescription::from);
        let offers = !self.offered.is_empty() && self.is_handshaking();
        (offers && alert == Some(AlertDescription::NoApplicationProtocol))
            .then(|| HandshakeFault::NoProtocol { offered: self.offered.to_vec() })
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let chain: PeerCertificates = self.tls.chain()?.to_vec();
        Some(Box::new(chain))
    }

    fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        match &self.tls {
            TlsState::Live(tls) => tls.export_keying_material(out, label, Some(context)).is_ok(),
            TlsState::Settled(settled) => {
                settled.exporter.as_ref().is_some_and(|exporter| exporter.export(label, context, out))
            }
            TlsState::Over(_) => false,
        }
    }

    /// A server has said all then. A client keeps TLS until it was given a ticket: TLS alone can keep that.
    fn rest(&mut self) {
        let Some(tls) = self.tls.live() else { return };
        let is_server = matches!(tls, quic::Connection::Server(_));
        if tls.is_handshaking() || !(is_server || self.late.has_tickets()) {
            return;
        }
        let suite = tls.negotiated_cipher_suite().map(|suite| suite.suite());
        let early = self.early_fate();
        let exporter =
            self.exporter.take().zip(suite).and_then(|(secret, suite)| Exporter::new(suite, secret));
        self.tls = TlsState::Settled(Box::new(SettledSession {
            remains: self.remains(),
            exporter,
            early,
            is_server,
        }));
        self.following = None;
    }

    fn end(&mut self) {
        if !matches!(self.tls, TlsState::Over(_)) {
            self.tls = TlsState::Over(self.remains());
            self.following = None;
            self.exporter = None;
            self.late = LateWords::default();
        }
    }
}
