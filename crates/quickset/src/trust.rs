use std::sync::Arc;

use quickset_quic::HandshakeFault;
use quickset_tls::provider::default_provider;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ConfigBuilder, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::Fingerprint;
use crate::groups::Groups;

/// Which servers a client accepts.
///
/// In any case the server proves in the handshake that it holds the key of its certificate.
#[derive(Clone, Debug)]
pub struct Trust(TrustKind);

#[derive(Clone, Debug)]
enum TrustKind {
    Roots(Arc<RootCertStore>),
    Pinned(Vec<Fingerprint>),
    Anybody,
}

/// Why roots cannot be trusted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The text holds no certificates, or is not PEM.
    #[error("this is not PEM with certificates")]
    Pem,
    /// A certificate cannot be the root of anything.
    #[error("a certificate cannot be used as a root: {0}")]
    Unfit(Error),
}

impl Trust {
    /// Accepts a server with a valid certificate for its name from one of these authorities, which are given
    /// as PEM (RFC 9001 §4.4, RFC 9114 §3.1).
    ///
    /// One that a server signed itself, as [`Identity::self_signed`](crate::Identity::self_signed) does, may
    /// be among them, unless it is marked as an authority: those of `openssl req -x509` are, and no server
    /// may show such a one. [`pinned`](Self::pinned) takes both.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn roots(pem: &str) -> Result<Self, TrustError> {
        let mut store = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|_| TrustError::Pem)?;
            store.add(certificate).map_err(TrustError::Unfit)?;
        }
        if store.is_empty() { Err(TrustError::Pem) } else { Ok(Self(TrustKind::Roots(Arc::new(store)))) }
    }

    /// Accepts a server that holds the key with this fingerprint, whatever name and dates its certificate
    /// bears.
    pub fn pinned(fingerprint: Fingerprint) -> Self {
        Self(TrustKind::Pinned(vec![fingerprint]))
    }

    /// Accepts a server that holds one of several keys, for example the present one and the next.
    pub fn pinned_any(fingerprints: impl IntoIterator<Item = Fingerprint>) -> Self {
        Self(TrustKind::Pinned(fingerprints.into_iter().collect()))
    }

    /// Accepts any server: an attacker between the two ends can read and change everything. This is for
    /// tests.
    pub fn insecure() -> Self {
        Self(TrustKind::Anybody)
    }

    /// The client's side of TLS with this trust.
    pub(crate) fn client(&self, groups: &Groups) -> ConfigBuilder<rustls::ClientConfig, WantsClientCert> {
        let builder = rustls::ClientConfig::builder_with_provider(groups.provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3");
        match &self.0 {
            TrustKind::Roots(roots) => {
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(roots.clone(), Arc::new(default_provider()))
                        .build()
                        .expect("there are roots, and no revocation lists");
                builder.with_webpki_verifier(verifier)
            }
            TrustKind::Pinned(pins) => {
                builder.dangerous().with_custom_certificate_verifier(KeyHolder::new(Some(pins.clone())))
            }
            TrustKind::Anybody => builder.dangerous().with_custom_certificate_verifier(KeyHolder::new(None)),
        }
    }
}

/// Believes whoever proves to hold the key of its certificate; of servers, with `pins`, only those listed.
#[derive(Debug)]
pub(crate) struct KeyHolder {
    pins: Option<Vec<Fingerprint>>,
    mandatory: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl KeyHolder {
    fn new(pins: Option<Vec<Fingerprint>>) -> Arc<Self> {
        let algorithms = default_provider().signature_verification_algorithms;
        Arc::new(Self { pins, mandatory: false, algorithms })
    }

    /// A server's: clients are asked for a certificate, and with `mandatory` must have one. Which keys are
    /// welcome is for the application to decide, by their fingerprint.
    pub(crate) fn of_clients(mandatory: bool) -> Arc<Self> {
        let algorithms = default_provider().signature_verification_algorithms;
        Arc::new(Self { pins: None, mandatory, algorithms })
    }

    fn tls12(&self, message: &[u8], cert: &CertificateDer<'_>, dss: &DigitallySignedStruct) -> TrustProof {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn tls13(&self, message: &[u8], cert: &CertificateDer<'_>, dss: &DigitallySignedStruct) -> TrustProof {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }
}

type TrustProof = Result<HandshakeSignatureValid, Error>;

impl ServerCertVerifier for KeyHolder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let key = Fingerprint::of(end_entity).ok_or(CertificateError::BadEncoding)?;
        match &self.pins {
            Some(pins) if !pins.contains(&key) => {
                let pinned = pins.iter().map(|pin| pin.0).collect();
                let fault = HandshakeFault::NotPinned { presented: key.0, pinned };
                Err(CertificateError::Other(OtherError(Arc::new(fault))).into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        m: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> TrustProof {
        self.tls12(m, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        m: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> TrustProof {
        self.tls13(m, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for KeyHolder {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        ParsedCertificate::try_from(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        m: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> TrustProof {
        self.tls12(m, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        m: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> TrustProof {
        self.tls13(m, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
